"""What a method ranks first: the top documents of the test queries with their grades, for reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.evaluation.runs import Judgements

__all__ = ["DEPTH", "MOST_QUERIES", "relevant_counts", "top_documents"]

Array = npt.NDArray[Any]
Documents = list[list[Any]]
DEPTH = 10
"""Documents kept of a ranking."""
MOST_QUERIES = 1000
"""Queries of a split whose rankings are kept: its first ones, the same for all methods."""
_LARGEST = float(np.finfo(np.float32).max)


def top_documents(test: RankingData, scores: Array, judged: Judgements | None = None) -> dict[str, Documents]:
    """By query, id and grade of its first documents; a document without an id has its number in the query, as ``#3``.

    Parameters
    ----------
    test : RankingData
        The test queries.
    scores : ndarray
        One score per document, in the caller's order.
    judged : Judgements, optional
        All judgements; then a document that is not judged has no grade, and equal scores are those of a run.
    """
    given = np.asarray(scores, np.float64)
    given = given if test.rows is None else given[test.rows]
    if judged is not None:
        given = np.clip(given, -_LARGEST, _LARGEST).astype(np.float32)
    order = rank_order(given, test.indptr, test.doc_ids)
    bounds = test.indptr.tolist()
    found = {}
    for q, query in enumerate(test.query_ids[:MOST_QUERIES].tolist()):
        first = order[bounds[q] : min(bounds[q] + DEPTH, bounds[q + 1])].tolist()
        names = [f"#{at - bounds[q] + 1}" if test.doc_ids is None else str(test.doc_ids[at]) for at in first]
        if judged is None:
            grades: list[float | None] = [float(test.labels[at]) for at in first]
        else:
            rows = judged.row_of.get(str(query), {})
            places = [rows.get(name.encode()) for name in names]
            grades = [None if at is None else float(judged.qrels.values[at]) for at in places]
        found[str(query)] = [[name, _whole(grade)] for name, grade in zip(names, grades, strict=True)]
    return found


def relevant_counts(test: RankingData, judged: Judgements | None = None) -> dict[str, int]:
    """By query, the number of documents with a grade above 0."""
    table: Any = test if judged is None else judged.qrels
    labels = test.labels if judged is None else judged.qrels.values
    bounds = zip(table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
    return {
        str(query): int((labels[first:last] > 0).sum())
        for query, (first, last) in zip(table.query_ids.tolist(), bounds, strict=True)
    }


def _whole(grade: float | None) -> float | int | None:
    return int(grade) if grade is not None and grade.is_integer() else grade
