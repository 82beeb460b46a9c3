"""A method on one split: its parameters chosen on the validation queries, and the model that was chosen.

Nothing here is given the test queries. A grid over C of a max-margin method is followed by the estimator itself, each
value starting from the weights of the one before; every other point of a grid is trained by itself. The best value on
the validation queries wins, the first of equal ones.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import evaluate
from rankwright.experiments.config import BEST_FEATURE, FEATURE, MethodSpec
from rankwright.training.methods import parse_method

__all__ = ["Outcome", "Point", "make_ranker", "points", "run_method", "scores_of"]

Array = npt.NDArray[Any]
Point = dict[str, Any]
_NONE = "none"  # TOML has no word for None
_ROUNDS = {"n_trees_": "trees", "n_rounds_": "rounds", "best_epoch_": "epochs"}
_HEALTH = ("objective", "gap", "passes", "norm", "slack", "slack_ratio", "objective_ratio")
_FEW = {"n_trees": 2, "n_rounds": 2, "epochs": 1, "max_passes": 25, "min_rows": 1}  # of a fit that only loads code


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a method on one split.

    Attributes
    ----------
    model : model
        Scores documents; see :func:`scores_of`.
    ranker : estimator or None
        What it was trained by; None for single features.
    chosen : dict
        The parameters that were chosen on the validation queries.
    validation, training : float
        The measure that chooses, on the validation and on the training queries; NaN without validation queries.
    seconds_train, seconds_tune : float
        Training what was chosen, and trying everything, this included.
    path : list of dict
        Every point that was tried: ``parameters``, ``validation``, and the health of its training, if that is known;
        without validation queries only points whose health is known.
    rounds : list of float
        Of boosting and nets: the value on the validation queries after each round of what was chosen.
    notes : list of str
        What a reader should know.
    """

    model: Any
    ranker: Any
    chosen: Point
    validation: float
    training: float
    seconds_train: float = 0.0
    seconds_tune: float = 0.0
    path: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run_method(
    spec: MethodSpec, train: RankingData, valid: RankingData | None, *, seed: int = 0, threads: int = 1
) -> Outcome:
    """Train a method on the training queries of a split, and choose on its validation queries.

    Parameters
    ----------
    spec : MethodSpec
        What to train.
    train, valid : RankingData
        The queries; there may be none for validation.
    seed : int
        Of all that is drawn.
    threads : int
        Of a training; the outcome does not depend on it.
    """
    if spec.method.startswith(FEATURE):
        column = _column(train, spec.method.removeprefix(FEATURE))
        return _feature(spec, train, valid, column)
    if spec.method == BEST_FEATURE:
        return _best_feature(spec, train, valid)
    if "background" not in spec.parameters:
        sparse = train.is_sparse or spec.parameters.get("bins") is not None or "bins" in spec.grid
        _load_code(json.dumps(spec.settings(), sort_keys=True), str(train.X.dtype), sparse)
    best: Outcome | None = None
    path: list[dict[str, Any]] = []
    seconds = 0.0
    for point in points(spec, seed):
        outcome = _fitted(spec, point, train, valid, seed, threads)
        path += outcome.path
        seconds += outcome.seconds_tune
        if best is None or outcome.validation > best.validation:
            best = outcome
    assert best is not None
    kept = path if valid is not None else [point for point in path if "gap" in point]
    return Outcome(**{**vars(best), "path": kept, "seconds_tune": seconds})


def points(spec: MethodSpec, seed: int = 0) -> list[Point]:
    """The points of a grid that are trained one by one, in order.

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
    """Random points of a grid, each once; the draw depends on the seed and the grid alone."""
    digest = hashlib.sha256(json.dumps(dict(spec.grid), sort_keys=True).encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(digest[:8], "little")])
    seen: list[Point] = []
    for _ in range(spec.random or 0):
        point = {key: _draw(values, rng) for key, values in spec.grid.items()}
        if point not in seen:
            seen.append(point)
            yield point


def _draw(values: Any, rng: np.random.Generator) -> Any:
    """One of a list, or a number of a range, whole if both of its ends are."""
    if isinstance(values, list):
        return values[int(rng.integers(len(values)))]
    low, high = values["low"], values["high"]
    whole = isinstance(low, int) and isinstance(high, int)
    if whole and not values.get("log"):
        return int(rng.integers(low, high + 1))
    drawn = rng.uniform(np.log(low), np.log(high)) if values.get("log") else rng.uniform(low, high)
    number = float(np.exp(drawn) if values.get("log") else drawn)
    return min(max(round(number), low), high) if whole else float(f"{number:.6g}")


def make_ranker(
    spec: MethodSpec,
    point: Mapping[str, Any],
    *,
    choose_by: str,
    tuned: bool,
    seed: int = 0,
    threads: int = 1,
) -> tuple[Any, int | None]:
    """The estimator of a method at a point of its grid, its parameters checked, and the number of bins, if any.

    Parameters
    ----------
    tuned : bool
        Whether there are validation queries: then C is chosen on them unless it is given.
    """
    method = parse_method(spec.method)
    known = method.defaults()
    values = {key: None if value == _NONE else value for key, value in {**spec.parameters, **point}.items()}
    bins = values.pop("bins", None)
    if bins is not None and (not isinstance(bins, int) or isinstance(bins, bool) or bins < 1):
        raise InputError(f"bins is {bins!r}; expected a whole number from 1")
    if "losses" in values:
        values["loss"] = values.pop("losses")
    shared = {"eval_measure": choose_by, "n_jobs": threads, "random_state": seed}
    if tuned and "C" in known and values.get("lam") is None:
        shared["C"] = "auto"
    background = values.get("background")
    if isinstance(background, str):
        from rankwright.models.saving import load_model

        values["background"] = load_model(background)
    ranker = method.make(**{key: value for key, value in shared.items() if key in known} | values)
    ranker.check_parameters()
    return ranker, bins


def _fitted(
    spec: MethodSpec, point: Point, train: RankingData, valid: RankingData | None, seed: int, threads: int
) -> Outcome:
    """One point of a grid."""
    settings: Any = {"choose_by": spec.choose_by, "tuned": valid is not None, "seed": seed, "threads": threads}
    ranker, n_bins = make_ranker(spec, point, **settings)
    began = time.perf_counter()
    bins = None
    given, checked = train, valid
    if n_bins is not None:
        from rankwright.rankers.bins import ThresholdBins

        bins = ThresholdBins(n_bins).fit(train)
        given, checked = bins.transform_data(train), None if valid is None else bins.transform_data(valid)
    notes = _fit(ranker, given, checked)
    model = ranker.model_ if bins is None else bins.collapse(ranker.model_)
    seconds = time.perf_counter() - began
    own = {key: value for key, value in point.items() if key not in ("C", "C_grid")}
    fits = getattr(ranker, "C_path_", [])
    tried = fits if getattr(ranker, "C", None) == "auto" else []
    validation = float("nan") if valid is None else _value(spec, model, valid)
    path = [{"parameters": {**own, "C": row["C"]}, "validation": row[spec.choose_by]} | _health(row) for row in tried]
    chosen = own | ({"C": ranker.C_} if tried else {"C": point["C"]} if "C" in point else {})
    seconds_train = seconds
    if len(tried) > 1:
        one = ranker.path_[-1].seconds if hasattr(ranker, "path_") else seconds / len(tried)
        seconds_train = min(seconds, one)
    return Outcome(
        model,
        ranker,
        chosen,
        validation,
        _value(spec, model, train),
        seconds_train,
        seconds,
        path or [{"parameters": chosen, "validation": validation} | _health(fits[0] if fits else {})],
        _rounds(ranker) if valid is not None else [],
        [*notes, *_findings(ranker, tried)],
    )


def _health(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row of ``C_path_`` says of the training; nothing for methods without a certificate."""
    return {key: row[key] for key in ("C", *_HEALTH)} if "gap" in row else {}


def _fit(ranker: Any, train: RankingData, valid: RankingData | None) -> list[str]:
    """Fit; the warnings, each once. Ctrl-C ends everything: half a training is no result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", "training was interrupted", InputWarning)
        try:
            ranker.fit(train, eval_set=valid)
        except InputWarning:
            raise KeyboardInterrupt from None
    texts = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    return list(dict.fromkeys(texts))


def _rounds(ranker: Any) -> list[float]:
    if not any(hasattr(ranker, name) for name in _ROUNDS):
        return []
    return [float(row.value) for row in ranker.path_]


def _findings(ranker: Any, tried: Sequence[Mapping[str, Any]]) -> list[str]:
    """What was chosen at the end of what was tried, and how many rounds were kept."""
    found = []
    if len(tried) > 1 and ranker.C_ in (tried[0]["C"], tried[-1]["C"]):
        end = "low" if tried[0]["C"] == ranker.C_ else "high"
        found.append(f"C = {ranker.C_:g} is the {end} end of what was tried")
    for name, unit in _ROUNDS.items():
        if hasattr(ranker, name):
            found.append(f"kept {getattr(ranker, name)} of {len(ranker.path_)} {unit}")
    return found


def scores_of(model: Any, data: RankingData) -> Array:
    """The scores of a model, in the order in which the rows of the data were given."""
    return data.to_caller_order(np.asarray(model.score(data.X, data.feature_names, data.indptr), np.float64))


def _value(spec: MethodSpec, model: Any, data: RankingData) -> float:
    return next(iter(evaluate(data, scores_of(model, data), measures=[spec.choose_by]).means.values()))


def _column(data: RankingData, feature: str) -> int:
    """The column of a feature: by its name, or by its number from 1."""
    if data.feature_names is not None and feature in data.feature_names:
        return data.feature_names.index(feature)
    if feature.isdecimal() and 1 <= int(feature) <= data.n_features:
        return int(feature) - 1
    named = "" if data.feature_names is None else ", or a name such as " + data.feature_names[0]
    raise InputError(f"there is no feature {feature!r}; expected a number from 1 to {data.n_features}{named}")


def _single(data: RankingData, column: int) -> Any:
    """One feature as a model."""
    from rankwright.models.linear import LinearModel

    coef = np.zeros(data.n_features)
    coef[column] = 1.0
    return LinearModel(coef, data.feature_names)


def _feature(spec: MethodSpec, train: RankingData, valid: RankingData | None, column: int) -> Outcome:
    model = _single(train, column)
    validation = float("nan") if valid is None else _value(spec, model, valid)
    return Outcome(model, None, {}, validation, _value(spec, model, train))


def _best_feature(spec: MethodSpec, train: RankingData, valid: RankingData | None) -> Outcome:
    """The feature that is best on the validation queries, each as it is: higher is better."""
    if valid is None:
        raise InputError(f"{BEST_FEATURE} is chosen on validation queries, and there are none")
    from rankwright.rankers.validation import validation_value

    began = time.perf_counter()
    value = validation_value(valid, spec.choose_by)  # as evaluate has it, faster
    names = train.feature_names or [str(column + 1) for column in range(train.n_features)]
    path = []
    for column, name in enumerate(names):
        scores = np.asarray(_single(train, column).score(valid.X, valid.feature_names), np.float64)
        path.append({"parameters": {"feature": name}, "validation": value(scores)})
    column = max(range(len(path)), key=lambda at: (path[at]["validation"], -at))
    seconds = time.perf_counter() - began
    found = _feature(spec, train, valid, column)
    return Outcome(**{**vars(found), "chosen": path[column]["parameters"], "path": path, "seconds_tune": seconds})


@cache
def _load_code(settings: str, dtype: str, sparse: bool) -> None:
    """Have everything compiled, or loaded from disk, on a few made-up queries: that time is not a method's own."""
    table = json.loads(settings)
    spec = MethodSpec("", **table)
    known = parse_method(spec.method).defaults()
    few = {key: value for key, value in _FEW.items() if key in known}
    rng = np.random.default_rng(0)
    X = rng.random((64, 5)).astype(dtype)
    labels = np.arange(64) % 3
    if sparse:
        from scipy import sparse as sp

        X = sp.csr_array(X)
    data = RankingData.from_arrays(X, labels, group=[8] * 8)
    for C in (1e-6, 1.0) if "C" in known and spec.parameters.get("lam") is None else (None,):
        point = few | ({} if C is None else {"C": C})
        point |= {key: _draw(values, rng) for key, values in spec.grid.items() if key not in point}
        try:
            ranker, _ = make_ranker(spec, point | {"bins": None}, choose_by=spec.choose_by, tuned=False)
            _fit(ranker, data, data)
        except Exception:  # the training itself will say what is wrong
            return
