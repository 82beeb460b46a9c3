"""A cell of an experiment: one method on one split of one data set, trained, chosen, tested and written to a file.

The name of the file is a hash of everything that affects its content: a finished cell is never computed twice, and
never reused for another one.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from threadpoolctl import threadpool_limits

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, Judgements, evaluate, evaluate_run
from rankwright.evaluation.render import plain
from rankwright.experiments.backgrounds import run_adapt, settings_of
from rankwright.experiments.config import ADAPT, FEATURE, HINDSIGHT, SCORES, Background, Experiment, MethodSpec
from rankwright.experiments.own_code import of_retrieved, read_scores, with_scores_of
from rankwright.experiments.preparing import Prepared, Split, code_version, hash_of, pieces_of, without_columns
from rankwright.experiments.tuning import NOT_SAVED, MethodOutcome, run_method
from rankwright.io.files import replace_file
from rankwright.io.tables import parse_json
from rankwright.io.trec import read_qrels
from rankwright.reports.results import HEALTH

_FORMAT = 1
_NUMBER = int | float
_RECORD: dict[str, Any] = {
    **dict.fromkeys(("queries", "measures", "values", "notes", "definitions", "path", "rounds"), list),
    **dict.fromkeys(("seconds_train", "seconds_tune", "n_train_queries"), _NUMBER),
    **dict.fromkeys(("validation", "training"), _NUMBER | None),
    **dict.fromkeys(("chosen", "rankings", "relevant"), dict),
}

Documents = list[list[Any]]
DEPTH = 10
"""Documents kept of a ranking."""
MOST_QUERIES = 1000
"""Queries of a split whose rankings are kept: its first ones, the same for all methods."""
_LARGEST = float(np.finfo(np.float32).max)


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
    """Why a cell failed."""

    data: str
    split: int
    method: str
    reason: str
    traceback: str = ""


def make_cell(experiment: Experiment, prepared: Prepared, number: int, split: Split, spec: MethodSpec) -> Cell:
    """The cell of a method on a split; ``number`` counts splits from 1."""
    spec = with_scores_of(spec, prepared.name, number)
    convention = experiment.convention or ("letor" if prepared.qrels is None else "trec")
    hides_best = prepared.source.without_best and not spec.is_feature
    best = prepared.best if spec.method == HINDSIGHT or hides_best else None
    backgrounds = tuple(background for background in prepared.backgrounds if spec.adapts(background.name))
    if spec.method.startswith(ADAPT) and not backgrounds:
        raise InputError(f"{spec.method} adapts a background ranker; {prepared.name} has none")
    made_of: dict[str, Any] = {
        "format": _FORMAT,
        "rankwright": code_version(),
        "method": settings_of(spec),
        "data": prepared.content,
        "split": vars(split),
        "measures": [str(measure) for measure in experiment.measures],
        "convention": convention,
        "empty": experiment.empty,
        "seed": experiment.seed,
    }
    if backgrounds:
        made_of["backgrounds"] = [(background.name, background.content) for background in backgrounds]
    if best is not None:
        made_of["best"] = best
    key = hash_of(made_of)[:32]
    name = "".join(c if c.isalnum() or c in "-_.+@" else "_" for c in f"{prepared.name}-{number}-{spec.name}")
    return Cell(
        prepared.name,
        number,
        spec,
        prepared.parts,
        split,
        prepared.qrels,
        {"measures": experiment.measures, "convention": convention, "empty": experiment.empty},
        experiment.seed,
        experiment.output / "cells" / f"{key}.json",
        experiment.output / "models" / f"{name}-{key[:8]}.rkw" if experiment.save_models else None,
        backgrounds=backgrounds,
        best=best,
    )


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
            judged = None if cell.qrels is None else Judgements(read_qrels(cell.qrels).select(test.query_ids))
            evaluation = _tested(cell, test, scores, judged)
            shown = {"rankings": top_documents(test, scores, judged), "relevant": relevant_counts(test, judged)}
            if cell.model is not None:
                outcome.save(cell.model)
            record = _record(outcome, evaluation, train.n_queries, time.perf_counter() - began) | shown
            with replace_file(cell.file) as out:
                out.write(json.dumps(record, ensure_ascii=False, allow_nan=False).encode())
    except Exception as error:
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        return Failure(cell.data, cell.split, cell.spec.name, " ".join(reason.split()), traceback.format_exc())
    return None


def _tested(cell: Cell, test: RankingData, scores: Array, judged: Judgements | None) -> Evaluation:
    """The test queries evaluated, with all their judgements if the data set has more than its rows."""
    if np.isnan(scores).any():
        return of_retrieved(test, scores, judged, cell.evaluated)
    if judged is None:
        return evaluate(test, scores, **cell.evaluated)
    assert test.doc_ids is not None
    run = TrecTable.from_columns(test.to_caller_order(test.qid), test.to_caller_order(test.doc_ids), scores)
    return evaluate_run(judged, run, **cell.evaluated)


def _record(outcome: MethodOutcome, evaluation: Evaluation, n_train: int, seconds: float) -> dict[str, Any]:
    record = {
        "seconds": seconds,
        **{key: getattr(outcome, key) for key in ("chosen", "validation", "training", "seconds_train", "seconds_tune")},
        "n_train_queries": n_train,
        **{key: getattr(outcome, key) for key in ("notes", "path", "rounds")},
        "queries": [str(query) for query in evaluation.query_ids.tolist()],
        "measures": [str(measure) for measure in evaluation.measures],
        "values": evaluation.values.tolist(),
        "definitions": list(evaluation.definitions),
        "evaluation": list(evaluation.notes),
    }
    return {key: plain(value) for key, value in record.items()}


def read_cell(cell: Cell) -> dict[str, Any]:
    """The content of the file of a finished cell."""
    try:
        record = parse_json(cell.file.read_bytes())
        _check_record(record)
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"not a finished cell ({reason}); delete it and run again", cell.file) from None
    return cast(dict[str, Any], record)


def _check_record(record: Any) -> None:
    """Raise a ValueError or TypeError if something is missing or of another type than it was written."""
    if not isinstance(record, dict):
        raise ValueError("no JSON object")
    for key, kind in _RECORD.items():
        if not isinstance(record.get(key), kind):
            raise ValueError(f"{key} is missing or of another type")
    shape = np.asarray(record["values"], np.float64).shape
    if shape != (len(record["queries"]), len(record["measures"])):
        raise ValueError("values does not fit queries and measures")
    for key in ("queries", "measures", "notes", "definitions"):
        if not all(isinstance(item, str) for item in record[key]):
            raise ValueError(f"{key} holds something that is not text")
    for point in record["path"]:
        needed = ("parameters", "validation", *(HEALTH if "gap" in point else ()))
        if not isinstance(point, dict) or not all(key in point for key in needed):
            raise ValueError("a point of path is incomplete")


def top_documents(test: RankingData, scores: Array, judged: Judgements | None = None) -> dict[str, Documents]:
    """By query, id and grade of its first documents; a document without an id has its number in the query, as ``#3``.

    `test`: the test queries. `scores`: one score per document, in the caller's order. `judged`: all judgements; then a
    document that is not judged has no grade, and equal scores are those of a run.
    """
    scores = np.nan_to_num(np.asarray(scores, np.float64), nan=-_LARGEST)  # last
    scores = scores if test.rows is None else scores[test.rows]
    if judged is not None:
        scores = np.clip(scores, -_LARGEST, _LARGEST).astype(np.float32)
    order = rank_order(scores, test.indptr, test.doc_ids)
    bounds = test.indptr.tolist()
    documents = {}
    for q, query in enumerate(test.query_ids[:MOST_QUERIES].tolist()):
        first = order[bounds[q] : min(bounds[q] + DEPTH, bounds[q + 1])].tolist()
        names = [f"#{at - bounds[q] + 1}" if test.doc_ids is None else str(test.doc_ids[at]) for at in first]
        if judged is None:
            grades: list[float | None] = [float(test.labels[at]) for at in first]
        else:
            rows = judged.row_of.get(str(query), {})
            places = [rows.get(name.encode()) for name in names]
            grades = [None if at is None else float(judged.qrels.values[at]) for at in places]
        documents[str(query)] = [
            [name, int(grade) if grade is not None and grade.is_integer() else grade]
            for name, grade in zip(names, grades, strict=True)
        ]
    return documents


def relevant_counts(test: RankingData, judged: Judgements | None = None) -> dict[str, int]:
    """By query, the number of documents with a grade above 0."""
    table: Any = test if judged is None else judged.qrels
    labels = test.labels if judged is None else judged.qrels.values
    bounds = zip(table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
    return {
        str(query): int((labels[first:last] > 0).sum())
        for query, (first, last) in zip(table.query_ids.tolist(), bounds, strict=True)
    }
