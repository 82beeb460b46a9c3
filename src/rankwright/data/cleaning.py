"""Cleaning as in KDD'08, section 4.1: without documents that are all zero, and without contradictions.

A relevant and another document of one query contradict each other if the cosine of their features is above a
threshold; both are dropped. Documents that a score cannot tell apart can only be ranked by breaking ties.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, stored_width
from rankwright.data.order import query_chunks
from rankwright.data.scaling import QueryScaler
from rankwright.data.threads import threads_of
from rankwright.errors import InputError, shown

__all__ = ["Cleaner", "Cleaning"]

_CHUNK_VALUES = 1 << 20  # values per task and per scaling step; queries stay whole
_COUNTED = ("documents", "all_zero", "relevant", "others", "pairs", "queries_emptied", "queries_without_order")
_MUCH = 0.5  # of the documents


@dataclass(frozen=True)
class Cleaning:
    """Counts of what cleaning dropped; see :class:`Cleaner`.

    Attributes
    ----------
    threshold, relevant_from, scaled
        How it was decided.
    queries, documents : int
        Numbers before cleaning.
    all_zero : int
        Documents dropped because all their features are 0.
    relevant, others : int
        Relevant and other documents dropped because they contradict each other.
    pairs : int
        Contradicting pairs; a document may be in several.
    queries_emptied : int
        Queries without any document left; they are gone.
    queries_without_order : int
        Queries that had documents with different labels, and have documents of one label left; they stay.
    """

    threshold: float
    relevant_from: float
    scaled: bool
    queries: int
    documents: int
    all_zero: int
    relevant: int
    others: int
    pairs: int
    queries_emptied: int
    queries_without_order: int

    @property
    def dropped(self) -> int:
        """Number of documents dropped."""
        return self.all_zero + self.relevant + self.others

    @property
    def text(self) -> str:
        """What was dropped, in one line that begins with the numbers of documents."""
        left = (
            f"{self.queries_emptied:,} left without documents" * (self.queries_emptied > 0),
            f"{self.queries_without_order:,} left without an order" * (self.queries_without_order > 0),
        )
        line = f"{self.dropped:,} of {self.documents:,} documents: {self.all_zero:,} all-zero, "
        line += f"{self.relevant:,} relevant and {self.others:,} others in {self.pairs:,} contradicting pairs "
        line += f"(cosine{' of scaled features' * self.scaled} above {self.threshold:g})"
        return (
            f"{line}; of {self.queries:,} queries, {' and '.join(filter(None, left)) or 'none left without an order'}"
        )

    @staticmethod
    def total(parts: Sequence[Cleaning]) -> Cleaning:
        """The sums over several parts of a data set, cleaned in the same way."""
        names = ("queries", *_COUNTED)
        return dataclasses.replace(parts[0], **{name: sum(getattr(part, name) for part in parts) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """The same in the types of JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class Unclean:
    """The documents that a data set would lose.

    `kept`: for every row of the data whether it stays. `cleaner`: what decided it.
    """

    kept: Array
    cleaner: Cleaner
    _counts: Array

    def report(self, queries: Array | None = None) -> Cleaning:
        counts = self._counts if queries is None else self._counts[queries]
        sums = dict(zip(_COUNTED, counts.sum(axis=0).tolist(), strict=True))
        return Cleaning(**dataclasses.asdict(self.cleaner), queries=len(counts), **sums)

    def apply(self, data: RankingData) -> tuple[RankingData, Cleaning]:
        """The cleaned data and the counts; an error if nothing would be left."""
        report = self.report()
        if not self.kept.any():
            raise InputError(f"cleaning leaves nothing: it drops {report.text}")
        return data.select_docs(self.kept), report


@dataclass(frozen=True)
class Cleaner:
    """Drop all-zero documents, and relevant and other documents of a query that look the same, as KDD'08 did.

    Both documents of a contradicting pair are dropped; all-zero documents are dropped first. Queries that lose all
    documents are gone, queries that keep only documents of one label stay. The result does not depend on the order of
    the rows.

    Parameters
    ----------
    threshold : float
        Documents contradict each other if the cosine of their features is above this; between 0 and 1, both excluded.
    relevant_from : float
        Lowest relevant label.
    scaled : bool
        Decide by features scaled to 0 … 1 within each query (:class:`~rankwright.QueryScaler`, min–max), as LETOR
        scales them and the paper used them; the data itself is not scaled. By default features are compared as they
        are, and large ones dominate.

    Notes
    -----
    Missing values (NaN) count as 0; with ``scaled`` they are an error. Features of different length but the same
    direction, x and 2x, have cosine 1.

    Examples
    --------
    >>> X = [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [3.0, 0.0], [0.0, 1.0]]
    >>> data = RankingData.from_arrays(X, [0, 1, 0, 1, 0], qid=[7, 7, 7, 7, 7])
    >>> clean, report = Cleaner().clean(data)
    >>> clean.X.tolist(), report.all_zero, report.relevant, report.others
    ([[3.0, 0.0], [0.0, 1.0]], 1, 1, 1)
    """

    threshold: float = 0.99
    relevant_from: float = 1
    scaled: bool = False

    def __post_init__(self) -> None:
        if not 0 < _number(self.threshold) < 1:
            raise InputError(f"the threshold of cleaning is {shown(self.threshold)}; expected a number between 0 and 1")
        if not 0 < _number(self.relevant_from) < math.inf:
            raise InputError(f"relevant_from of cleaning is {shown(self.relevant_from)}; expected a number above 0")
        if not isinstance(self.scaled, bool):
            raise InputError(f"scaled of cleaning is {shown(self.scaled)}; expected True or False")

    def clean(self, data: RankingData, *, n_jobs: int | None = None) -> tuple[RankingData, Cleaning]:
        """The clean data, and counts of what was dropped; an error if nothing would be left.

        Parameters
        ----------
        data : RankingData
            Any data, dense or sparse.
        n_jobs : int, optional
            Number of threads; the result does not depend on it. None: 1; −1: all cores.
        """
        return self.find(data, n_jobs=n_jobs).apply(data)

    def advice(self, data: RankingData, report: Cleaning) -> str:
        """What to do if most documents were dropped because of features of different size; otherwise empty."""
        if self.scaled or report.dropped <= _MUCH * report.documents or not _is_beyond_one(data.without_categories().X):
            return ""
        problem = "more than half of the documents were dropped, as large features dominate the cosine"
        return f"{problem}; scaled features are compared"

    def find(self, data: RankingData, *, n_jobs: int | None = None) -> Unclean:
        """The documents that :meth:`clean` would drop; parameters as for it."""
        from rankwright.data.kernels import ALL_ZERO, CONTRADICTING, KEPT

        data = data.without_categories()
        marks, pairs = np.zeros(data.n_docs, np.uint8), np.zeros(data.n_queries, np.int64)
        relevant = data.labels >= self.relevant_from
        chunks = query_chunks(data.indptr, max(1, _CHUNK_VALUES // max(1, stored_width(data))))
        mark = partial(self._mark, data, relevant, marks, pairs)
        with ThreadPoolExecutor(threads_of(n_jobs)) as pool:
            list(pool.map(mark, chunks))  # raises the error of the first chunk that has one
        kept = marks == KEPT
        contradicting = marks == CONTRADICTING
        by_row = (np.ones_like(kept), marks == ALL_ZERO, contradicting & relevant, contradicting & ~relevant)
        sums = [_per_query(rows, data.indptr) for rows in by_row]
        n_kept = _per_query(kept, data.indptr)
        lost = data.has_order & (n_kept > 0) & ~_has_order(data, kept) if data.n_docs else np.zeros(0, bool)
        return Unclean(kept, self, np.column_stack([*sums, pairs, n_kept == 0, lost]).astype(np.int64))

    def _mark(self, data: RankingData, relevant: Array, marks: Array, pairs: Array, chunk: tuple[int, int]) -> None:
        from rankwright.data.kernels import mark_dense, mark_sparse

        first, last = chunk
        start, stop = data.indptr[first], data.indptr[last]
        X, indptr = data.X[start:stop], data.indptr[first : last + 1] - start
        if self.scaled:
            X = QueryScaler("minmax").transform_arrays(X, indptr)
        to = (relevant[start:stop], indptr, 2.0 * (1.0 - float(self.threshold)), marks[start:stop], pairs[first:last])
        if data.is_sparse:
            mark_sparse(X.data, X.indices, X.indptr, *to)
        else:
            X.flags.writeable = False  # as the features of a data set: the kernel is compiled for such arrays once
            mark_dense(X, *to)


def _number(value: float) -> float:
    """A setting as a number; NaN if it is not one."""
    try:
        return float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _is_beyond_one(X: Features) -> bool:
    values = X.data if sparse.issparse(X) else X
    return bool(values.size) and bool(values.min() < 0 or values.max() > 1)


def _per_query(rows: Array, indptr: Array) -> Array:
    sums = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    return np.asarray(sums[indptr[1:]] - sums[indptr[:-1]])


def _has_order(data: RankingData, kept: Array) -> Array:
    """Mask of the queries whose remaining rows have at least two different labels."""
    low = np.minimum.reduceat(np.where(kept, data.labels, np.inf), data.indptr[:-1])
    high = np.maximum.reduceat(np.where(kept, data.labels, -np.inf), data.indptr[:-1])
    return np.asarray(low < high)
