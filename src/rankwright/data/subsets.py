"""Some queries of a data set, with the features left where they are.

Training leaves out queries: those without an order, those of weight 0, those of the fold that is held out. A copy of
the features of all others would double what the data takes, and read a mapped file into memory. A part knows at which
row each of its queries starts instead; what asks for its ``X`` all the same gets a copy, made once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.order import query_chunks, query_of_row, sizes_to_indptr

_BATCH_BYTES = 1 << 20  # of values copied at a time
_RUN = 256  # documents of a run, on average, from which on copying runs is faster than one by one


class _Part(RankingData):
    """A RankingData whose ``X`` is taken out of another matrix when it is first asked for."""

    _source: tuple[Any, Array] | None = None
    _ids_from: tuple[RankingData, Array] | None = None

    @cached_property
    def X(self) -> Any:
        """The features of these queries: a copy."""
        whole, starts = stored(self)
        X = whole[rows_of(starts, self.indptr)]
        for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
            array.flags.writeable = False
        return X

    @cached_property
    def doc_ids(self) -> Array | None:
        """The ids of these queries' documents: a copy, which training seldom asks for."""
        whole, positions = self._ids_from or (None, np.empty(0, np.int64))
        if whole is None or whole.doc_ids is None:
            return None
        ids = whole.doc_ids[rows_of(whole.indptr[:-1][positions], self.indptr)]
        ids.flags.writeable = False
        return ids

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(stored(self)[0].shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features are CSR."""
        return bool(sparse.issparse(stored(self)[0]))


def some_queries(data: RankingData, queries: Array) -> RankingData:
    """The data of some queries, a mask or positions, as :meth:`RankingData.select` gives it; features stay in place.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "b", "c"])
    >>> part = some_queries(data, np.array([True, False, True]))
    >>> stored(part)[0] is data.X, stored(part)[1].tolist(), part.X.tolist()
    (True, [0, 2], [[1.0], [3.0]])
    """
    positions = np.flatnonzero(queries) if queries.dtype == bool else queries
    X, starts = stored(data)
    indptr = sizes_to_indptr(data.sizes[positions])
    part = object.__new__(_Part)
    values = {
        "labels": docs_of(data.labels, data, positions),
        "indptr": indptr,
        "query_ids": data.query_ids[positions],
    }
    for array in values.values():
        array.flags.writeable = False
    kept = {"feature_names": data.feature_names, "rows": None, "categories": data.categories}
    vars(part).update(values | kept | {"_source": (X, starts[positions]), "_ids_from": (data, positions)})
    vars(part).update(_known_of(data, positions))
    return part


def _known_of(data: RankingData, positions: Array) -> dict[str, Any]:
    """What is known by now of the order in some queries, as a data set of these would find it."""
    known = vars(data)
    found = {"_has_both": {key: mask[positions] for key, mask in known.get("_has_both", {}).items()}}
    return found | ({"has_order": known["has_order"][positions]} if "has_order" in known else {})


def docs_of(values: Array, data: RankingData, positions: Array) -> Array:
    """The values, one for each document of a data set, of the documents of some queries: a copy.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "a", "b"])
    >>> docs_of(data.labels, data, np.array([1, 0])).tolist()
    [2.0, 0.0, 1.0]
    """
    first, sizes = data.indptr[:-1][positions], data.sizes[positions]
    starts, stops = adjacent(first, sizes)
    if _RUN * len(starts) > len(values) or not len(starts):
        return np.asarray(values[rows_of(first, sizes_to_indptr(sizes))])
    return np.concatenate([values[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)])


def with_features(data: RankingData, X: Any) -> RankingData:
    """The same documents with the features of another matrix, whose rows are those of the stored one."""
    part = some_queries(data, np.arange(data.n_queries))
    vars(part).update({"_source": (X, stored(data)[1])})
    return part


def stored(data: RankingData) -> tuple[Any, Array]:
    """The matrix that holds the features, and the row at which each query starts; it may hold other rows too."""
    source = data._source if isinstance(data, _Part) else None
    return (data.X, data.indptr[:-1]) if source is None else source


def source_of(data: RankingData) -> RankingData:
    """The data set whose matrix holds the features: itself, or the one of which this is a part."""
    while isinstance(data, _Part) and data._ids_from is not None:
        data = data._ids_from[0]
    return data


def rows_of(starts: Array, indptr: Array) -> Array:
    """The rows of queries that start at ``starts``."""
    return np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], np.diff(indptr))


def pieces(data: RankingData) -> Iterator[Any]:
    """The features, in order, as views of as many adjacent rows as there are."""
    X = stored(data)[0]
    starts, stops = segments(data)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield _row_view(X, start, stop)


def column_of(data: RankingData, column: int) -> Array:
    """The values of one feature in float64."""
    X, rows = stored(data)[0], rows_in(data)
    if not sparse.issparse(X):
        return np.asarray(X[:, column] if rows is None else X[rows, column], np.float64)
    found = [part[:, [column]].toarray()[:, 0] for part in pieces(data)]
    return np.concatenate(found, dtype=np.float64) if found else np.empty(0)


def segments(data: RankingData) -> tuple[Array, Array]:
    """First and last rows, as starts and stops, of as many adjacent rows of the stored matrix as there are."""
    return adjacent(stored(data)[1], data.sizes)


def adjacent(starts: Array, sizes: Array) -> tuple[Array, Array]:
    """Starts and stops of runs of rows, with those that follow one another as one.

    Examples
    --------
    >>> adjacent(np.array([0, 2, 9]), np.array([2, 3, 1]))
    (array([0, 9]), array([ 5, 10]))
    """
    if not len(starts):
        return starts, starts
    stops = starts + sizes
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    return starts[np.append(0, breaks + 1)], stops[np.append(breaks, len(starts) - 1)]


def rows_in(data: RankingData) -> Array | None:
    """The row of the stored matrix that holds each document; None if that is its own number."""
    X, starts = stored(data)
    if len(data.labels) == X.shape[0] and np.array_equal(starts, data.indptr[:-1]):
        return None
    return rows_of(starts, data.indptr)


def batches(data: RankingData, *, at_once: bool = True) -> Iterator[tuple[Any, Array]]:
    """The features of some queries at a time, with their boundaries; copies of a few where they are not adjacent.

    ``at_once``: all of them where the data has a matrix of its own.
    """
    if at_once and "X" in vars(data):
        yield data.X, data.indptr
        return
    rows = max(1, _BATCH_BYTES * data.n_docs // max(1, feature_bytes(data)))
    X, starts = stored(data)
    for first, last in query_chunks(data.indptr, rows):
        indptr = data.indptr[first : last + 1] - data.indptr[first]
        begin = int(starts[first])
        if np.array_equal(starts[first:last] - begin, indptr[:-1]):
            yield _row_view(X, begin, begin + int(indptr[-1])), indptr
        else:
            yield X[rows_of(starts[first:last], indptr)], indptr


def _row_view(X: Any, start: int, stop: int) -> Any:
    if (start, stop) == (0, X.shape[0]):
        return X
    if not sparse.issparse(X):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    # Not by the constructor, which copies an array that is a small part of another one.
    view.data, view.indices, view.indptr = X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first
    return view


def feature_bytes(data: RankingData) -> int:
    """Bytes of the features; of CSR, those of the values alone."""
    X, starts = stored(data)
    if not sparse.issparse(X):
        return int(X.nbytes) * data.n_docs // max(1, X.shape[0])
    return int((X.indptr[starts + data.sizes] - X.indptr[starts]).astype(np.int64).sum() * X.dtype.itemsize)


# Clicks, one page each: a page with k clicks becomes k pages on which nothing else is clicked.
#
# A click says that its document should be above all others of the page, whatever else was clicked there. A sum over
# clicks, each weighted by the inverse propensity of its position, is unbiased: its mean is what it would be if
# everything
# had been looked at (Agarwal, Takatsu, Zaitsev and Joachims: A general framework for counterfactual learning-to-rank,
# 2019). Pairs of a clicked document and one that was *not* clicked do not have this property: which others were clicked
# depends on where they were shown. Nor does a measure normalised by the number of clicks of a page.


@dataclass(frozen=True, eq=False)
class Clicked:
    """A page for every click.

    `clicks`: the clicked documents: labels above 0, on pages of more than one document. `query`: the page of each
    click. `rows`: the documents of its page, click after click. `labels`: 1 for the click itself, 0 for the others.
    `indptr`: click ``c`` owns ``rows[indptr[c]:indptr[c+1]]``.
    """

    clicks: Array
    query: Array
    rows: Array
    labels: Array
    indptr: Array

    @classmethod
    def of(cls, labels: Array, indptr: Array) -> Clicked:
        """Take the clicks apart.

        Examples
        --------
        >>> found = Clicked.of(np.array([1.0, 0, 1, 0, 0]), np.array([0, 3, 5]))
        >>> found.rows.tolist(), found.labels.tolist()
        ([0, 1, 2, 0, 1, 2], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        """
        of_row, sizes = query_of_row(indptr), np.diff(indptr)
        clicks = np.flatnonzero((labels > 0) & (sizes[of_row] > 1))
        query = of_row[clicks]
        bounds = sizes_to_indptr(sizes[query])
        rows = np.arange(bounds[-1]) + np.repeat(indptr[query] - bounds[:-1], sizes[query])
        return cls(clicks, query, rows, (rows == np.repeat(clicks, sizes[query])).astype(np.float64), bounds)
