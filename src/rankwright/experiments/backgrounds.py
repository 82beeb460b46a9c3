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
from rankwright.experiments.own_code import code_of_method, portable
from rankwright.experiments.preparing import Progress, code_version, file_hashes, hash_of, joined, kept_facts
from rankwright.experiments.tuning import MethodOutcome, run_method, without_none
from rankwright.io.detect import read_data
from rankwright.io.folder import load_folder, save_folder
from rankwright.models.saving import load_model

if TYPE_CHECKING:
    from rankwright.adaptation.ways import Adapted

_MODEL = "background.rkw"
_DATA = "background.rank"
_AUTO = "auto"


def settings_of(spec: MethodSpec) -> dict[str, Any]:
    """Everything that affects the outcome of a method; a model file counts by its content, and so does own code."""
    settings, path, code = portable(spec.settings()), spec.parameters.get("background"), code_of_method(spec)
    settings |= {"code": code} if code else {}
    return settings if path is None else settings | {"background": hashlib.sha256(Path(path).read_bytes()).hexdigest()}


def prepare_background(
    source: DataSource,
    background: BackgroundSource,
    parts: Sequence[Path],
    cache: Path,
    *,
    seed: int,
    threads: int,
    say: Progress,
) -> Background:
    """Train a background ranker of a data set, or take it from the cache.

    `parts`: the prepared feature data of the data set, whose features the background data will have. `threads`: the
    ranker does not depend on them.
    """
    called = f"the background {background.name}" if len(source.backgrounds) > 1 else "the background"
    say(f"reading {called} of {source.name}")
    files = file_hashes(background.files)
    data = load_folder(parts[0])
    negative = "zero" if source.options.get("negative_as_zero") else "error"
    missing_as_zero = bool(source.options.get("missing_as_zero"))
    made_of = {
        "files": {role: about["sha256"] for role, about in files.items()},
        "negative": negative,
        "missing_as_zero": missing_as_zero,
        "features": data.n_features,
        "method": None if background.spec is None else settings_of(background.spec) | {"seed": seed},
        "rankwright": code_version(),
    }
    content = hash_of(made_of)
    folder = cache / f"background-{content[:16]}"

    def make() -> dict[str, Any]:
        read = _read(background.files, negative, say)
        for role, part in read.items():
            if part.n_features < data.n_features and part.feature_names is None:
                if not missing_as_zero:
                    widths = f"{part.n_features:,} features, but {source.name} has {data.n_features:,}"
                    raise MissingFeaturesError(f"its data has {widths}")
                read[role] = part.widened(data.n_features)
        return _train(background.spec, read, folder, seed, threads, say)

    try:
        facts = kept_facts(folder, make)
        model, query = load_model(background.files.get("model", folder / _MODEL)).model, data.select([0])
        X, names = query.X, query.feature_names
        X, names = model.with_missing(X, names) if missing_as_zero else (X, names)
        model.score(X, names, query.indptr)  # raises if the features do not fit
    except InputError as problem:
        error: InputError = (
            problem.or_use("missing_as_zero = true in [[data]]")
            if isinstance(problem, MissingFeaturesError)
            else problem
        )
        raise InputError(f"{called} of {source.name}: {error.message}", error.path, error.line) from None
    name = background.name
    return Background(
        name,
        background.files.get("model", folder / _MODEL),
        folder / _DATA if facts["queries"] else None,
        content,
        {"name": name, "hash": content, **facts, "files": files},
    )


def _train(
    spec: MethodSpec | None, data: dict[str, RankingData], folder: Path, seed: int, threads: int, say: Progress
) -> dict[str, Any]:
    """Train, unless the ranker is a model file, and save; the facts."""
    facts: dict[str, Any] = {}
    if spec is not None:
        say(f"training the background ranker ({spec.method})")
        valid = data.get("valid")
        if valid is not None:  # the same width for both
            data["features"] = data["features"].widened(valid.n_features)
            valid = data["valid"] = valid.widened(data["features"].n_features)
        with threadpool_limits(limits=1):  # as in cells: sums must not depend on the number of cores
            outcome = run_method(spec, data["features"], valid, seed=seed, threads=threads)
        facts = {"method": spec.method, "parameters": dict(spec.parameters)}
        facts |= {"seconds": outcome.seconds_tune, "chosen": outcome.chosen, "notes": outcome.notes}
        outcome.save(folder / _MODEL)
    if not data:
        return facts | {"queries": 0, "documents": 0}
    everything = joined(list(data.values()))
    save_folder(everything, folder / _DATA)
    return facts | {"queries": everything.n_queries, "documents": everything.n_docs}


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

    `spec`: its method is ``adapt:`` and an adaptation, or ``adapt:auto``. `threads`: the outcome does not depend on
    them.
    """
    name = spec.method.removeprefix(ADAPT)
    if valid is None:
        raise InputError(f"{spec.method} chooses on validation queries; there are none")
    models = {background.name: load_model(background.model).model for background in backgrounds}
    # Data counts once if several rankers were trained on the same files.
    files = {json.dumps([about["sha256"] for about in b.facts["files"].values()]): b.data for b in backgrounds}
    rich = [load_folder(path) for path in files.values() if path is not None]
    everything: list[Any] = [*models.values(), train, *rich]
    width = max(part.n_features for part in everything)
    train, valid = _wide(train, width, models.values()), _wide(valid, width, models.values())
    rich = [_wide(part, width, models.values()) for part in rich]
    shared = _parameters(spec)
    shape = (train.n_features, str(train.X.dtype), train.is_sparse, bool(rich))
    _load_code(
        tuple((background.name, background.model) for background in backgrounds), name, json.dumps(shared), shape
    )
    began, cpu_began = time.perf_counter(), time.process_time()
    settings = {**spec.parameters, **spec.grid}
    further: dict[str, Any] = {"random_state": seed, "n_jobs": threads}
    further |= {key: settings[key] for key in ("leaves", "rate", "trees", "randomize_nodes") if key in settings}
    adapted = _adapted(name, models, train, valid, background_data=rich, **shared, **further)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    choice = {"method": adapted.chosen.name} if name == _AUTO else {}
    tried = adapted.candidates if choice else (adapted.chosen,)
    path = [
        {"parameters": {"method": candidate.name} if choice else {}, "validation": candidate.value}
        for candidate in tried
    ]
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
        cpu_tune=cpu,
    )


def _parameters(spec: MethodSpec) -> dict[str, Any]:
    """The parameters of an adaptation as plain JSON, without those that grids hold and the names of backgrounds."""
    keys = ("in_domain", "in_domain_settings", "boosting_settings", "weights")
    parameters = {key: spec.parameters[key] for key in keys if key in spec.parameters}
    for key in (key for key in keys if key.endswith("_settings") and key in parameters):
        parameters[key] = without_none(parameters[key])
    return {**parameters, "measure": str(spec.choose_by)}


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
