"""A method on one split: trained at every point of its grid, and the model that is best on the validation queries.

Nothing here sees the test queries. A grid over C of a max-margin method is one training, in which each value starts
from the weights of the one before; every other point of a grid is trained separately. The highest value on the
validation queries wins, the first of equal ones.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import evaluate
from rankwright.experiments.config import BEST_FEATURE, FEATURE, MethodSpec
from rankwright.io.files import replace_file
from rankwright.measures import Measure
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model, save_model, why_not_saved
from rankwright.reports.results import HEALTH
from rankwright.training.methods import parse_method
from rankwright.training.train import Plan, Trained, plan
from rankwright.training.warmup import few_documents, form_of

Point = dict[str, Any]
NOT_SAVED = ".txt"
_NONE = "none"  # TOML has no null
# Parameters of a fit that only loads code.
_FEW = {"cv": None, "n_trees": 2, "n_rounds": 2, "epochs": 1, "max_passes": 25, "min_rows": 1}


@dataclass(frozen=True, eq=False)
class MethodOutcome:
    """The outcome of a method on one split.

    `spec`: the method. `model`: the chosen model. `chosen`: the parameters chosen on the validation queries.
    `validation`, `training`: the measure that chooses, on the validation and on the training queries; NaN without
    validation queries. `seconds_train`, `seconds_tune`: time to train the chosen model, and to train everything that
    was tried, including it. `cpu_tune`: CPU seconds of all threads for the latter. `path`: every point tried:
    ``parameters``, ``validation``, and the state of its training, if known; without validation queries only the points
    whose state is known. `rounds`: for boosting and nets: the value on the validation queries after each round of the
    chosen model. `notes`: what a reader should know. `trained`: the training of the chosen model; None for single
    features and adaptations.
    """

    spec: MethodSpec
    model: Any
    chosen: Point
    validation: float
    training: float
    seconds_train: float = 0.0
    seconds_tune: float = 0.0
    path: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trained: Trained | None = None
    cpu_tune: float = 0.0

    def save(self, path: Path) -> None:
        """Write the model to one file, with its validation and training values; beside it the reason if none can be."""
        reason = "these are scores of another system" if self.model is None else why_not_saved(self.model)
        if reason:  # such as an object of a user's class
            with replace_file(path.with_suffix(NOT_SAVED)) as out:
                out.write(f"{reason}\n".encode())
            return
        if self.trained is not None:
            self.trained.save(path)
            return
        values = {"validation": self.validation, "training": self.training}
        measures = {f"{part} {self.spec.choose_by}": value for part, value in values.items() if not math.isnan(value)}
        save_model(self.model, path, method=self.spec.method, parameters={}, measures=measures)


def run_method(
    spec: MethodSpec, train: RankingData, valid: RankingData | None, *, seed: int = 0, threads: int = 1
) -> MethodOutcome:
    """Train a method on the training queries of a split, and choose on its validation queries, if there are some.

    The outcome does not depend on the number of threads.
    """
    if spec.method.startswith(FEATURE):
        return _feature(spec, train, valid, _column(train, spec.method.removeprefix(FEATURE)))
    if spec.method == BEST_FEATURE:
        return _best_feature(spec, train, valid)
    best: MethodOutcome | None = None
    path: list[dict[str, Any]] = []
    seconds = cpu = 0.0
    shared: Any = {"measure": spec.choose_by, "validated": valid is not None, "random_state": seed, "n_jobs": threads}
    for number, point in enumerate(points(spec, seed)):
        planned = make_plan(spec, point, **shared)
        if number == 0:
            _load_code(planned, train)
        outcome = _trained(spec, point, planned, train, valid)
        path += outcome.path
        seconds += outcome.seconds_tune
        cpu += outcome.cpu_tune
        if best is None or outcome.validation > best.validation:
            best = outcome
    assert best is not None
    kept = path if valid is not None else [point for point in path if "gap" in point]
    return dataclasses.replace(best, path=kept, seconds_tune=seconds, cpu_tune=cpu)


def points(spec: MethodSpec, seed: int = 0) -> list[Point]:
    """The points of a grid to train, in order.

    Examples
    --------
    >>> points(MethodSpec("m", "lambdamart", grid={"max_leaves": [4, 8], "min_rows": [1]}))
    [{'max_leaves': 4, 'min_rows': 1}, {'max_leaves': 8, 'min_rows': 1}]
    >>> points(MethodSpec("s", "svm-map", grid={"C": [1, 10]}))
    [{'C': 'auto', 'C_grid': [1, 10]}]
    """
    if spec.random is not None:
        return list(_drawn(spec, seed))
    grid = dict(spec.grid)
    path: Point = {}
    if "C" in grid and "C_grid" in parse_method(spec.method).defaults():
        path = {"C": "auto", "C_grid": grid.pop("C")}
    return [dict(zip(grid, values, strict=True)) | path for values in itertools.product(*grid.values())]


def _drawn(spec: MethodSpec, seed: int) -> Iterator[Point]:
    """Random points of a grid, without duplicates; the draw depends only on the seed and the grid."""
    digest = hashlib.sha256(json.dumps(dict(spec.grid), sort_keys=True).encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])
    seen: list[Point] = []
    for _ in range(spec.random or 0):
        point = {key: _draw(values, rng) for key, values in spec.grid.items()}
        if point not in seen:
            seen.append(point)
            yield point


def _draw(values: Any, rng: np.random.Generator) -> Any:
    """An element of a list, or a number from a range: an integer if both ends are."""
    if isinstance(values, list):
        return values[int(rng.integers(len(values)))]
    low, high = values["low"], values["high"]
    is_integer = isinstance(low, int) and isinstance(high, int)
    if is_integer and not values.get("log"):
        return int(rng.integers(low, high + 1))
    drawn = rng.uniform(np.log(low), np.log(high)) if values.get("log") else rng.uniform(low, high)
    number = float(np.exp(drawn) if values.get("log") else drawn)
    return min(max(round(number), low), high) if is_integer else float(f"{number:.6g}")


def make_plan(
    spec: MethodSpec,
    point: Mapping[str, Any],
    *,
    measure: Measure | None,
    validated: bool,
    random_state: int = 0,
    n_jobs: int = 1,
) -> Plan:
    """What to train for a method at a point of its grid, checked; see :func:`rankwright.training.train.plan`."""
    settings = without_none({**spec.parameters, **point})
    background = settings.get("background")
    if isinstance(background, str):
        settings["background"] = load_model(background)
    return plan(spec.method, settings, measure=measure, validated=validated, random_state=random_state, n_jobs=n_jobs)


def without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which the text ``"none"`` is None."""
    return {key: None if value == _NONE else value for key, value in settings.items()}


def _fit(planned: Plan, train: RankingData, valid: RankingData | None) -> Trained:
    """Train; an interruption ends everything, as half a training is no result."""
    trained = planned.train(train, valid)
    if trained.facts.interrupted:
        raise KeyboardInterrupt
    return trained


def _trained(
    spec: MethodSpec, point: Point, planned: Plan, train: RankingData, valid: RankingData | None
) -> MethodOutcome:
    began, cpu_began = time.perf_counter(), time.process_time()
    trained = _fit(planned, train, valid)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    facts = trained.facts
    tried = facts.tried if getattr(planned.ranker, "C", None) == "auto" else ()
    further = {key: value for key, value in point.items() if key not in ("C", "C_grid")}
    chosen = further | ({"C": facts.C} if tried else {"C": point["C"]} if "C" in point else {})
    values = trained.values
    validation = values.get("validation", math.nan)
    path = [
        {"parameters": {**further, "C": row["C"]}, "validation": row[str(trained.measure)]} | _health(row)
        for row in tried
    ] or [{"parameters": chosen, "validation": validation} | _health(facts.tried[0] if facts.tried else {})]
    seconds_train = seconds
    if len(tried) > 1:  # every value of C has a path of its own; only the last one's is kept
        checks = getattr(trained.ranker, "path_", None)
        seconds_train = min(seconds, checks[-1].seconds if checks else seconds / len(tried))
    return MethodOutcome(
        spec,
        trained.model,
        chosen,
        validation,
        values["training"],
        seconds_train,
        seconds,
        path,
        list(facts.rounds.values) if facts.rounds is not None and valid is not None else [],
        [*dict.fromkeys(notice.text for notice in facts.notices), *_findings(trained, [row["C"] for row in tried])],
        trained,
        cpu,
    )


def _health(row: Mapping[str, Any]) -> dict[str, Any]:
    """The state of training, from a row of ``tried``; empty for methods without a certificate."""
    return {key: row[key] for key in HEALTH} if "gap" in row else {}


def _findings(trained: Trained, tried: list[float]) -> list[str]:
    """Whether the end of the grid was chosen, and how many rounds were kept."""
    facts, findings = trained.facts, []
    relative = facts.certificate is not None and facts.certificate.bound == "ramp"
    if len(tried) > 1 and facts.C in (tried[0], tried[-1]) and not relative:
        findings.append(f"C = {facts.C:g} is at the {'low' if tried[0] == facts.C else 'high'} end of the values tried")
    if facts.rounds is not None:
        findings.append(f"kept {facts.rounds.kept} of {len(facts.rounds.values)} {facts.rounds.unit}")
    return findings


def _load_code(planned: Plan, train: RankingData) -> None:
    """Compile the training code, or load it from disk, on a few made-up queries: that time is not the method's own."""
    few = copy.copy(planned.ranker)
    parameters = few.get_params(deep=False)
    if parameters.get("background") is not None:  # knows other features than those made up
        return
    if planned.method.is_open:  # of another library, which has nothing to compile, or of the user
        return
    few.set_params(**{key: value for key, value in _FEW.items() if key in parameters})
    data = few_documents(f"csr-{train.X.dtype.name}" if planned.bins is not None else form_of(train))
    for C in (1e-6, 1.0) if planned.costs else (None,):
        if C is not None:
            few.set_params(C=C)
        try:
            _fit(dataclasses.replace(planned, ranker=few, bins=None), data, data)
        except Exception:  # the training itself will say what is wrong
            return


def _column(data: RankingData, feature: str) -> int:
    """The column of a feature: by name, or by number, counting from 1."""
    if data.feature_names is not None and feature in data.feature_names:
        return data.feature_names.index(feature)
    if feature.isdecimal() and 1 <= int(feature) <= data.n_features:
        return int(feature) - 1
    named = "" if data.feature_names is None else ", or a name such as " + data.feature_names[0]
    raise InputError(f"no feature {feature!r}; expected a number from 1 to {data.n_features}{named}")


def _single(data: RankingData, column: int) -> LinearModel:
    coef = np.zeros(data.n_features)
    coef[column] = 1.0
    return LinearModel(coef, data.feature_names)


def _feature(spec: MethodSpec, train: RankingData, valid: RankingData | None, column: int) -> MethodOutcome:
    model = _single(train, column)
    validation, training = (
        math.nan
        if data is None
        else evaluate(data, model.predict(data), measures=[spec.choose_by]).means[str(spec.choose_by)]
        for data in (valid, train)
    )
    return MethodOutcome(spec, model, {}, validation, training)


def _best_feature(spec: MethodSpec, train: RankingData, valid: RankingData | None) -> MethodOutcome:
    """The feature that is best on the validation queries, each used unchanged: higher is better."""
    if valid is None:
        raise InputError(f"{BEST_FEATURE} is chosen on validation queries; there are none")
    from rankwright.rankers.cross_validation import validation_value

    began, cpu_began = time.perf_counter(), time.process_time()
    value = validation_value(valid, spec.choose_by)  # the same value as evaluate's, but faster
    names = train.feature_names or [str(column + 1) for column in range(train.n_features)]
    path: list[dict[str, Any]] = []
    columns = [column for column in range(train.n_features) if column not in train.categories]
    for column in columns:
        scores = np.asarray(_single(train, column).score(valid.X, valid.feature_names), np.float64)
        path.append({"parameters": {"feature": names[column]}, "validation": value(scores)})
    best = max(range(len(path)), key=lambda at: (path[at]["validation"], -at))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    outcome = _feature(spec, train, valid, columns[best])
    chosen = path[best]["parameters"]
    return dataclasses.replace(outcome, chosen=chosen, path=path, seconds_tune=seconds, cpu_tune=cpu)
