"""Backgrounds and the methods ``adapt:…``: the ranker of a rich domain, trained once, and adapted in every cell.

A background is kept in the cache of the results folder under a hash of everything that affects it, which is part of the
key of every cell that uses it. Every file of a background has queries of its own: the number of the file is put before
their ids, so that they are confused neither with each other nor with those of the new domain. The adaptation itself is
:class:`~rankwright.adaptation.ways.Adaptation`'s; as everywhere, nothing here sees the test queries.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from rankwright.data import sparse
from rankwright.data.dataset import MissingFeaturesError, RankingData
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import evaluate
from rankwright.experiments.config import ADAPT, Background, BackgroundSource, DataSource, MethodSpec
from rankwright.experiments.preparing import Progress, code_version, file_hashes, joined
from rankwright.experiments.tuning import MethodOutcome, run_method, without_none
from rankwright.io.detect import read_data
from rankwright.io.files import replace_file
from rankwright.io.folder import load_folder, save_folder
from rankwright.models.saving import load_model

if TYPE_CHECKING:
    from rankwright.adaptation.candidates import Adapted

_FACTS = "background.json"
_MODEL = "background.rkw"
_DATA = "background.rank"
_AUTO = "auto"


def settings_of(spec: MethodSpec) -> dict[str, Any]:
    """Everything that affects the outcome of a method; a model file counts by its content."""
    path = spec.parameters.get("background")
    return spec.settings() | (
        {} if path is None else {"background": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
    )


def prepare_background(
    source: DataSource,
    background: BackgroundSource,
    parts: Sequence[Path],
    cache: Path,
    *,
    seed: int = 0,
    threads: int = 1,
    say: Progress | None = None,
) -> Background:
    """Train a background ranker of a data set, or take it from the cache.

    `source`: the data set. `background`: one of its backgrounds. `parts`: its prepared feature data, whose features the
    background data will have. `cache`: the cache folder. `seed`, `threads`: random seed, and number of threads; the
    ranker does not depend on the threads. `say`: called with a line about each step.
    """
    say = say or (lambda _: None)
    called = f"the background {background.name}" if len(source.backgrounds) > 1 else "the background"
    say(f"reading {called} of {source.name}")
    files = file_hashes(background.files)
    ours = load_folder(parts[0])
    negative = "zero" if source.options.get("negative_as_zero") else "error"
    made_of = {
        "files": {role: about["sha256"] for role, about in files.items()},
        "negative": negative,
        "missing_as_zero": _missing_as_zero(source),
        "features": ours.n_features,
        "method": None if background.spec is None else settings_of(background.spec) | {"seed": seed},
        "rankwright": code_version(),
    }
    content = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    folder = cache / f"background-{content[:16]}"
    try:
        if not (folder / _FACTS).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _make(source, background, folder, ours.n_features, negative, seed, threads, say)
        _check_fit(folder, background, ours, _missing_as_zero(source))
    except InputError as problem:
        error: InputError = (
            problem.or_use("missing_as_zero = true in [[data]]")
            if isinstance(problem, MissingFeaturesError)
            else problem
        )
        raise InputError(f"{called} of {source.name}: {error.message}", error.path, error.line) from None
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    model = background.files.get("model", folder / _MODEL)
    data = folder / _DATA if facts["queries"] else None
    name = background.name
    return Background(name, model, data, content, {"name": name, "hash": content, **facts, "files": files})


def _missing_as_zero(source: DataSource) -> bool:
    return bool(source.options.get("missing_as_zero"))


def _make(
    source: DataSource,
    background: BackgroundSource,
    folder: Path,
    n_features: int,
    negative: str,
    seed: int,
    threads: int,
    say: Progress,
) -> None:
    """Read, train and save; the facts come last, to mark the folder as complete."""
    data = _read(background.files, negative, say)
    for role, part in data.items():
        if part.n_features < n_features and part.feature_names is None:
            if not _missing_as_zero(source):
                what = f"its data has {part.n_features:,} features, but {source.name} has {n_features:,}"
                raise MissingFeaturesError(what)
            data[role] = part.widened(n_features)
    facts: dict[str, Any] = {}
    if background.spec is not None:
        say(f"training the background ranker ({background.spec.method})")
        valid = data.get("valid")
        if valid is not None:  # the same width for both
            data["features"] = data["features"].widened(valid.n_features)
            valid = data["valid"] = valid.widened(data["features"].n_features)
        with threadpool_limits(limits=1):  # as in cells: sums must not depend on the number of cores
            outcome = run_method(background.spec, data["features"], valid, seed=seed, threads=threads)
        facts = {"method": background.spec.method, "parameters": dict(background.spec.parameters)}
        facts |= {"seconds": outcome.seconds_tune, "chosen": outcome.chosen, "notes": outcome.notes}
        outcome.save(folder / _MODEL)
    everything = None
    if data:
        everything = joined(list(data.values()))
        save_folder(everything, folder / _DATA)
    facts |= {
        "queries": 0 if everything is None else everything.n_queries,
        "documents": 0 if everything is None else everything.n_docs,
    }
    with replace_file(folder / _FACTS) as out:
        out.write(json.dumps(facts, ensure_ascii=False).encode())


def _read(files: Mapping[str, Path], negative: Any, say: Progress) -> dict[str, RankingData]:
    """The feature data by role; query ids start with the number of their file."""
    read: dict[str, list[RankingData]] = {}
    for number, (role, path) in enumerate(files.items(), 1):
        if role != "model":
            say(f"reading {path.name}")
            data = read_data(path, negative=negative)
            ids = np.char.add(f"background-{number}-", data.query_ids.astype(str))
            read.setdefault(role.partition(" ")[0], []).append(replace(data, query_ids=ids))
    return {role: joined(parts) for role, parts in read.items()}


def _check_fit(folder: Path, background: BackgroundSource, ours: RankingData, missing_as_zero: bool) -> None:
    model, one = load_model(background.files.get("model", folder / _MODEL)).model, ours.select([0])
    X, names = model.with_missing(one.X, one.feature_names) if missing_as_zero else (one.X, one.feature_names)
    model.score(X, names, one.indptr)


def run_adapt(
    spec: MethodSpec,
    train: RankingData,
    valid: RankingData | None,
    backgrounds: Sequence[Background],
    *,
    seed: int = 0,
    threads: int = 1,
) -> MethodOutcome:
    """Adapt background rankers to the training queries of a split, and choose on its validation queries.

    `spec`: its method is ``adapt:`` and an adaptation, or ``adapt:auto``. `train`, `valid`: the queries of the new
    domain. `backgrounds`: the rankers of the rich domains, and their data. `seed`, `threads`: random seed, and number
    of threads; the outcome does not depend on the threads.
    """
    name = spec.method.removeprefix(ADAPT)
    if valid is None:
        raise InputError(f"{spec.method} chooses on validation queries; there are none")
    models = {one.name: load_model(one.model).model for one in backgrounds}
    rich = _neighbours(backgrounds)
    everything: list[Any] = [*models.values(), train, *rich]
    width = max(one.n_features for one in everything)
    train, valid = _wide(train, width, models.values()), _wide(valid, width, models.values())
    rich = [_wide(part, width, models.values()) for part in rich]
    shared = _parameters(spec)
    shape = (train.n_features, str(train.X.dtype), train.is_sparse, bool(rich))
    _load_code(tuple((one.name, one.model) for one in backgrounds), name, json.dumps(shared), shape)
    began = time.perf_counter()
    further: dict[str, Any] = {"random_state": seed, "n_jobs": threads, **_boosting(spec)}
    adapted = _adapted(name, models, train, valid, background_data=rich, **shared, **further)
    seconds = time.perf_counter() - began
    choice = {"method": adapted.chosen.name} if name == _AUTO else {}
    tried = adapted.candidates if choice else (adapted.chosen,)
    path = [{"parameters": {"method": one.name} if choice else {}, "validation": one.value} for one in tried]
    if adapted.chosen.tried and not choice:
        path = [{"parameters": point, "validation": value} for point, value in adapted.chosen.tried]
    measured = evaluate(train, adapted.model.predict(train), measures=[spec.choose_by])
    notes = [*dict.fromkeys(notice.text for notice in adapted.notices), *([adapted.reason] if choice else [])]
    notes += [f"{way} could not be used: {why}" for way, why in adapted.failures.items()]
    return MethodOutcome(
        spec,
        adapted.model,
        choice | adapted.chosen.facts,
        adapted.chosen.value,
        measured.means[str(spec.choose_by)],
        adapted.chosen.seconds,
        seconds,
        path,
        notes=notes,
    )


def _neighbours(backgrounds: Sequence[Background]) -> list[RankingData]:
    """The data of backgrounds; once, if several rankers were trained on the same files."""
    files = {json.dumps([about["sha256"] for about in one.facts["files"].values()]): one.data for one in backgrounds}
    return [load_folder(path) for path in files.values() if path is not None]


def _parameters(spec: MethodSpec) -> dict[str, Any]:
    """The parameters of an adaptation as plain JSON, without those of boosting and the names of backgrounds."""
    keys = ("in_domain", "in_domain_settings", "weights")
    parameters = {key: spec.parameters[key] for key in keys if key in spec.parameters}
    if "in_domain_settings" in parameters:
        parameters["in_domain_settings"] = without_none(parameters["in_domain_settings"])
    return {**parameters, "measure": str(spec.choose_by)}


def _boosting(spec: MethodSpec) -> dict[str, Any]:
    given = {**spec.parameters, **spec.grid}
    return {key: given[key] for key in ("leaves", "rate", "trees", "randomize_nodes") if key in given}


def _wide(data: RankingData, width: int, models: Iterable[Any]) -> RankingData:
    """Data with all features of the models and at least ``width``; that missing ones are 0 was checked before."""
    if data.feature_names is None:
        return data.widened(width)
    X, names = data.X, data.feature_names
    for model in models:
        X, names = model.with_missing(X, names)
    return data if X is data.X else replace(data, X=X, feature_names=names)


def _adapted(name: str, *given: Any, **settings: Any) -> Adapted:
    from rankwright.adaptation.ways import Adaptation  # slow to import, and tables of results do without

    return Adaptation(*given, **settings).run(name)


@cache
def _load_code(
    backgrounds: tuple[tuple[str, Path], ...], name: str, settings: str, shape: tuple[int, str, bool, bool]
) -> None:
    """Compile the code, or load it from disk, on a few made-up queries: that time is not the method's own."""
    n_features, dtype, is_sparse, has_data = shape
    rng = np.random.default_rng(0)
    X: Any = rng.random((96, n_features)).astype(dtype)
    if is_sparse:
        X = sparse.csr_array(X)
    data = RankingData.from_arrays(X, np.arange(96) % 3, group=[12] * 8)
    try:
        models = {called: load_model(path).model for called, path in backgrounds}
        rich = data if has_data else None
        _adapted(name, models, data, data, background_data=rich, trees=2, **json.loads(settings))
    except Exception:  # the adaptation itself will say what is wrong
        return
