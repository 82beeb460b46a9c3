"""The background of a data set: the ranker of a rich domain, trained once, and the data it knows.

It is kept in the cache of the results folder under a hash of all that decides about it, which is part of the key of
every cell that uses it. Every file of the background has queries of its own: their ids begin with the number of the
file, so that they are mixed neither with each other nor with those of the new domain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.files import replace_file
from rankwright.data.folder import load_folder, save_folder
from rankwright.data.formats import read_data
from rankwright.errors import InputError
from rankwright.experiments.config import BackgroundSource, DataSource, MethodSpec
from rankwright.experiments.reading import Progress, code_version, file_hashes, joined, widened
from rankwright.experiments.tuning import Outcome, run_method

__all__ = ["Background", "prepare_background", "settings_of"]

_FACTS = "background.json"
_MODEL = "background.rkw"
_DATA = "background.rank"


@dataclass(frozen=True)
class Background:
    """A background on disk.

    Attributes
    ----------
    model : Path
        The ranker.
    data : Path or None
        All its feature data, those for validation too, of which neighbours are taken.
    content : str
        Hash of all that decides about it.
    facts : dict
        For the manifest: its hash, method, seconds of training, what was chosen, sizes, files.
    """

    model: Path
    data: Path | None
    content: str
    facts: dict[str, Any]


def settings_of(spec: MethodSpec) -> dict[str, Any]:
    """What decides about the outcome of a method; a model file that it starts from counts by what is in it."""
    path = spec.parameters.get("background")
    return spec.settings() | (
        {} if path is None else {"background": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
    )


def prepare_background(
    source: DataSource,
    parts: Sequence[Path],
    cache: Path,
    *,
    seed: int = 0,
    threads: int = 1,
    say: Progress | None = None,
) -> Background:
    """Train the background ranker of a data set, or find it in the cache.

    Parameters
    ----------
    source : DataSource
        The data set, with its background.
    parts : sequence of Path
        Its prepared feature data; background data get as many features.
    cache : Path
        The folder that keeps it.
    seed, threads : int
        Of the training; the ranker does not depend on the threads.
    say : callable, optional
        Told what is being done.
    """
    background = source.background
    assert background is not None
    say = say or (lambda _: None)
    say(f"reading the background of {source.name}")
    files = file_hashes(background.files)
    ours = load_folder(parts[0])
    negative = "zero" if source.options.get("negative_as_zero") else "error"
    made_of = {
        "files": {role: about["sha256"] for role, about in files.items()},
        "negative": negative,
        "features": ours.n_features,
        "method": None if background.spec is None else settings_of(background.spec) | {"seed": seed},
        "rankwright": code_version(),
    }
    content = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    folder = cache / f"background-{content[:16]}"
    try:
        if not (folder / _FACTS).is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _make(background, folder, ours.n_features, negative, seed, threads, say)
        _check_fit(folder, background, ours)
    except InputError as error:
        raise InputError(f"the background of {source.name}: {error.message}", error.path, error.line) from None
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    model = background.files.get("model", folder / _MODEL)
    data = folder / _DATA if facts["queries"] else None
    return Background(model, data, content, {"hash": content, **facts, "files": files})


def _make(
    background: BackgroundSource, folder: Path, n_features: int, negative: str, seed: int, threads: int, say: Progress
) -> None:
    """Read, train and keep; the facts last, so that they stand for a complete folder."""
    data = _read(background.files, n_features, negative, say)
    facts: dict[str, Any] = {}
    if background.spec is not None:
        say(f"training the background ranker ({background.spec.method})")
        valid = data.get("valid")
        if valid is not None:  # the same width for both
            data["features"] = widened(data["features"], valid.n_features)
            valid = data["valid"] = widened(valid, data["features"].n_features)
        outcome = _trained(background.spec, data["features"], valid, seed, threads)
        facts = {"method": background.spec.method, "parameters": dict(background.spec.parameters)}
        facts |= {"seconds": outcome.seconds_tune, "chosen": outcome.chosen, "notes": outcome.notes}
        _save(outcome, background.spec, folder / _MODEL)
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


def _read(files: Mapping[str, Path], n_features: int, negative: Any, say: Progress) -> dict[str, RankingData]:
    """The feature data by role, all with at least so many features; ids begin with the number of their file."""
    read: dict[str, list[RankingData]] = {}
    for number, (role, path) in enumerate(files.items(), 1):
        if role != "model":
            say(f"reading {path.name}")
            data = read_data(path, negative=negative)
            ids = np.char.add(f"background-{number}-", data.query_ids.astype(str))
            renamed = RankingData(data.X, data.labels, data.indptr, ids, data.doc_ids, data.feature_names, data.rows)
            read.setdefault(role.partition(" ")[0], []).append(renamed)
    return {role: widened(joined(parts), n_features) for role, parts in read.items()}


def _trained(spec: MethodSpec, train: RankingData, valid: RankingData | None, seed: int, threads: int) -> Outcome:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):  # as in cells: sums do not depend on the number of cores
        return run_method(spec, train, valid, seed=seed, threads=threads)


def _save(outcome: Outcome, spec: MethodSpec, path: Path) -> None:
    from rankwright.models.saving import save_model

    if outcome.ranker is not None:
        outcome.ranker.save(path, model=outcome.model)
    else:
        save_model(outcome.model, path, method=spec.method, parameters={})


def _check_fit(folder: Path, background: BackgroundSource, ours: RankingData) -> None:
    """Whether the ranker can score the data of the new domain."""
    from rankwright.models.saving import load_model

    path = background.files.get("model", folder / _MODEL)
    some = ours.select([0])
    load_model(path).model.score(some.X, some.feature_names, some.indptr)
