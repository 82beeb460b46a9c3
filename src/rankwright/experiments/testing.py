"""The test queries of finished cells, evaluated from the scores that were kept.

A measure that is added, another convention or another value of empty queries costs no training. Cells that share a
split share its test queries, which are read once, without their features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.evaluation.evaluate import Evaluation, Judgements, evaluate, evaluate_run
from rankwright.experiments.cells import Cell, Failure, read_cell
from rankwright.experiments.preparing import pieces_of
from rankwright.io.trec import read_qrels

Documents = list[list[Any]]
DEPTH = 10
"""Documents shown of a ranking."""
MOST_QUERIES = 1000
"""Queries of a split whose rankings are shown: its first ones, the same for all methods."""
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class Tested:
    """A finished cell: the facts of its training, its test queries with their scores, and the values of the measures.

    `judged`: all judgements of the test queries, if the data set has more than its rows.
    """

    cell: Cell
    record: dict[str, Any]
    test: RankingData
    scores: Array
    judged: Judgements | None
    evaluation: Evaluation

    def run(self) -> TrecTable:
        """All scores as a run; a document without an id has its number in the query, as ``#3``."""
        return _as_run(self.test, self.scores)


def evaluate_cells(
    cells: Sequence[Cell], advance: Callable[[int], None]
) -> Iterator[tuple[Cell, Tested | Failure | None]]:
    """Every cell with its values, with the reason if they cannot be computed, or with None if it is not finished.

    `advance`: called with the number of cells that are done.
    """
    opened: tuple[Any, RankingData, Judgements | None] | None = None
    for done, cell in enumerate(cells, 1):
        if not cell.file.is_file():
            yield cell, None
            continue
        record, scores = read_cell(cell)
        try:
            if opened is None or opened[0] != (cell.data, cell.split):
                test = pieces_of(cell.parts, cell.pieces.test, with_features=False)
                assert test is not None
                judged = None if cell.qrels is None else Judgements(read_qrels(cell.qrels).select(test.query_ids))
                opened = (cell.data, cell.split), test, judged
            _, test, judged = opened
            if len(scores) != test.n_docs:
                raise InputError(
                    f"{len(scores)} scores for {test.n_docs} documents; delete it and run again", cell.file
                )
            found = Tested(cell, record, test, scores, judged, _evaluated(cell, test, scores, judged))
        except InputError as error:
            yield cell, Failure.of(cell, error)
        else:
            yield cell, found
        advance(done)


def _evaluated(cell: Cell, test: RankingData, scores: Array, judged: Judgements | None) -> Evaluation:
    """The test queries evaluated, with all their judgements if the data set has more than its rows."""
    if judged is None and np.isnan(scores).any():  # another system's run, which lacks documents
        judged = Judgements(_table(test, test.to_caller_order(test.labels)))
    if judged is None:
        return evaluate(test, scores, **cell.evaluated)
    return evaluate_run(judged, _as_run(test, scores), **cell.evaluated)


def _as_run(test: RankingData, scores: Array) -> TrecTable:
    """The scores as a run; documents without one, which another system's run lacks, are not retrieved."""
    return _table(test, scores, ~np.isnan(scores))


def _table(test: RankingData, values: Array, listed: Array | None = None) -> TrecTable:
    """Values by query and document, in the caller's order; ``listed``: the rows to take."""
    ids = test.doc_ids
    if ids is None:
        ids = np.char.add("#", (np.arange(test.n_docs) - np.repeat(test.indptr[:-1], test.sizes) + 1).astype(str))
    rows = slice(None) if listed is None else listed
    return TrecTable.from_columns(test.to_caller_order(test.qid)[rows], test.to_caller_order(ids)[rows], values[rows])


def top_documents(test: RankingData, scores: Array, judged: Judgements | None = None) -> dict[str, Documents]:
    """By query, id and grade of its first documents; a document without an id has its number in the query, as ``#3``.

    `test`: the test queries. `scores`: one score per document, in the caller's order. `judged`: all judgements; then a
    document that is not judged has no grade, and equal scores are those of a run.
    """
    scores = np.nan_to_num(np.asarray(scores, np.float64), nan=-_LARGEST)  # not retrieved, so last
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
