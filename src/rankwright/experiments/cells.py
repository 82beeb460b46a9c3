"""A cell of an experiment: one method on one split of one data set, trained, chosen, and its test documents scored.

Its file has the facts of training and the scores, from which :mod:`rankwright.experiments.testing` computes every
measure. The name of the file is a hash of everything that affects its content: a finished cell is never computed
twice, and never reused for another one.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.evaluation.render import plain
from rankwright.experiments.backgrounds import run_adapt, settings_of
from rankwright.experiments.config import ADAPT, FEATURE, HINDSIGHT, SCORES, Background, Experiment, MethodSpec
from rankwright.experiments.own_code import read_scores, with_scores_of
from rankwright.experiments.preparing import Prepared, Split, code_version, hash_of, pieces_of, without_columns
from rankwright.experiments.tuning import NOT_SAVED, MethodOutcome, run_method
from rankwright.io.container import Container, Format, write_file
from rankwright.reports.results import HEALTH

CELL = Format("rankwright-cell", "cell.json", "cell", "`rankwright experiment run`", is_folder=False)
_NUMBER = int | float
_RECORD: dict[str, Any] = {
    **dict.fromkeys(("notes", "path", "rounds"), list),
    **dict.fromkeys(("seconds_train", "seconds_tune", "cpu_tune", "n_train_queries"), _NUMBER),
    **dict.fromkeys(("validation", "training"), _NUMBER | None),
    "chosen": dict,
}


@dataclass(frozen=True)
class Cell:
    """Everything that a process needs to compute a cell; ``evaluated``: options of the evaluation."""

    data: str
    split: int
    spec: MethodSpec
    parts: Sequence[Path]
    pieces: Split
    qrels: Path | None
    evaluated: Mapping[str, Any]
    seed: int
    file: Path
    model: Path | None
    threads: int = 1
    backgrounds: tuple[Background, ...] = ()
    best: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether its file exists, and its model if models are kept, or the reason why it cannot be."""
        kept = self.model is None or self.model.is_file() or self.model.with_suffix(NOT_SAVED).is_file()
        return self.file.is_file() and kept


@dataclass(frozen=True)
class Failure:
    """Why a cell failed; ``seed`` is that of the cell."""

    data: str
    split: int
    method: str
    reason: str
    traceback: str = ""
    seed: int = 0

    @classmethod
    def of(cls, cell: Cell, error: Exception | str) -> Failure:
        """The failure of a cell by an error, or for a reason."""
        where = cell.data, cell.split, cell.spec.name
        if isinstance(error, str):
            return cls(*where, error, seed=cell.seed)
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return cls(*where, " ".join(reason.split()), traceback.format_exc(), cell.seed)


def make_cell(
    experiment: Experiment, prepared: Prepared, number: int, split: Split, spec: MethodSpec, seed: int
) -> Cell:
    """The cell of a method on a split, with a seed; ``number`` counts splits from 1."""
    spec = with_scores_of(spec, prepared.name, number)
    convention = experiment.convention or ("letor" if prepared.qrels is None else "trec")
    hides_best = prepared.source.without_best and not spec.is_feature
    best = prepared.best if spec.method == HINDSIGHT or hides_best else None
    backgrounds = tuple(background for background in prepared.backgrounds if spec.adapts(background.name))
    if spec.method.startswith(ADAPT) and not backgrounds:
        raise InputError(f"{spec.method} adapts a background ranker; {prepared.name} has none")
    cell = Cell(
        prepared.name,
        number,
        spec,
        prepared.parts,
        split,
        prepared.qrels,
        {"measures": experiment.measures, "convention": convention, "empty": experiment.empty},
        seed,
        Path(),
        None,
        backgrounds=backgrounds,
        best=best,
    )
    key = hash_of(made_of(cell, prepared.content))[:32]
    of_seed = f"-seed{seed}" if experiment.seeds else ""
    name = file_word(f"{prepared.name}-{number}{of_seed}-{spec.name}")
    model = experiment.output / "models" / f"{name}-{key[:8]}.rkw" if experiment.save_models else None
    return replace(cell, file=experiment.output / "cells" / f"{key}.cell", model=model)


def file_word(name: str) -> str:
    """A name as part of the name of a file."""
    return "".join(c if c.isalnum() or c in "-_.+@" else "_" for c in name)


def made_of(cell: Cell, content: str) -> dict[str, Any]:
    """Everything that affects the training and the scores of a cell, as plain JSON: its key is the hash of this.

    `content`: the hash of the data. How scores are evaluated is no part of it. Single features and
    scores of others have no seed.
    """
    has_seed = not (cell.spec.is_feature or cell.spec.method.startswith(SCORES))
    return {
        "format": CELL.version,
        "rankwright": code_version(),
        "method": settings_of(cell.spec),
        "data": content,
        "split": vars(cell.pieces),
        "seed": cell.seed if has_seed else None,
        "backgrounds": [(background.name, background.content) for background in cell.backgrounds],
        "best": cell.best,
    }


def run_cell(cell: Cell) -> Failure | None:
    """Compute a cell and write its file; errors are returned, not raised."""
    began = time.perf_counter()
    try:
        with threadpool_limits(limits=1):  # the other cores compute other cells
            train, valid, test = (
                pieces_of(cell.parts, p) for p in (cell.pieces.train, cell.pieces.valid, cell.pieces.test)
            )
            assert train is not None
            assert test is not None
            spec = cell.spec
            if spec.method == HINDSIGHT:
                assert cell.best is not None
                names = train.feature_names
                spec = replace(spec, method=f"{FEATURE}{cell.best + 1 if names is None else names[cell.best]}")
            elif cell.best is not None:
                hidden = [cell.best]
                train, test = without_columns(train, hidden), without_columns(test, hidden)
                valid = None if valid is None else without_columns(valid, hidden)
            if spec.method.startswith(SCORES):
                outcome, scores = read_scores(spec, test)
            elif cell.backgrounds:
                outcome = run_adapt(spec, train, valid, cell.backgrounds, seed=cell.seed, threads=cell.threads)
            else:
                outcome = run_method(spec, train, valid, seed=cell.seed, threads=cell.threads)
            if not spec.method.startswith(SCORES):
                scores = outcome.model.predict(test, missing_as_zero=bool(cell.backgrounds))  # checked before
            if cell.model is not None:
                outcome.save(cell.model)
            record = _record(outcome, train.n_queries, time.perf_counter() - began)
            write_file(cell.file, CELL, record, {"scores": _compact(scores)})
    except Exception as error:
        return Failure.of(cell, error)
    return None


def _compact(scores: Array) -> Array:
    """The same numbers in single precision, if it holds them."""
    with np.errstate(over="ignore"):
        single = np.asarray(scores, np.float32)
    return single if np.array_equal(single, scores) else np.asarray(scores, np.float64)


def _record(outcome: MethodOutcome, n_train: int, seconds: float) -> dict[str, Any]:
    keys = ("chosen", "validation", "training", "seconds_train", "seconds_tune", "cpu_tune", "notes", "path", "rounds")
    record = {"seconds": seconds, **{key: getattr(outcome, key) for key in keys}, "n_train_queries": n_train}
    return {key: plain(value) for key, value in record.items()}


def read_cell(cell: Cell) -> tuple[dict[str, Any], Array]:
    """The facts of a finished cell, and the scores of its test documents."""
    try:
        stored = Container.open(cell.file, CELL)
        scores = stored.array("scores", np.floating, (None,), copy=True)
        with stored.understood():
            _check_record(stored.header)
    except InputError as error:
        raise InputError(f"not a finished cell ({error.message}); delete it and run again", cell.file) from None
    return stored.header, scores


def _check_record(record: Any) -> None:
    """Raise a ValueError or TypeError if something is missing or of another type than it was written."""
    for key, kind in _RECORD.items():
        if not isinstance(record.get(key), kind):
            raise ValueError(f"{key} is missing or of another type")
    if not all(isinstance(item, str) for item in record["notes"]):
        raise ValueError("notes holds something that is not text")
    for point in record["path"]:
        needed = ("parameters", "validation", *(HEALTH if "gap" in point else ()))
        if not isinstance(point, dict) or not all(key in point for key in needed):
            raise ValueError("a point of path is incomplete")
