"""An order of documents and queries that depends on their content, not on the order in which they were given.

What is drawn at random and what is updated query by query needs one order of the data: with this one the same data
gives the same model, however its rows and queries are shuffled. It comes from a hash of the label and the features that
are not 0, so dense and sparse data agree; features that do not vary are left out, so they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data import sparse
from rankwright.data.blocks import query_chunks, query_of_row
from rankwright.data.threads import Team, runs_of

__all__ = ["content_keys", "content_order", "varying"]

Array = npt.NDArray[Any]
_STRIDE = np.uint64(0x9E3779B97F4A7C15)
_VALUES = 1 << 18  # converted to float64 at a time
_SORTED = 1 << 14  # documents, at least, that a thread sorts
_ZEROS = (np.uint64(0), np.uint64(1 << 63))  # the bits of 0 and −0


def content_order(
    X: Any, labels: Array, indptr: Array, weights: Array | None = None, threads: int = 1
) -> tuple[Array, Array]:
    """The documents in order, query after query, and the queries in order.

    Parameters
    ----------
    X : ndarray or csr_array
        Features.
    labels, indptr : ndarray
        Labels and query boundaries.
    weights : ndarray, optional
        Weights of the queries, which decide between queries of equal content.
    threads : int
        The result does not depend on it.
    """
    docs, _, sums = content_keys(X, labels, indptr, threads)
    return docs, np.lexsort((sums,) if weights is None else (weights, sums))


def content_keys(
    X: Any, labels: Array, indptr: Array, threads: int = 1, varies: Array | None = None
) -> tuple[Array, Array, Array]:
    """The documents in order, query after query, a hash of each, and one of every query.

    ``varies`` are the features that count; by default those that vary.
    """
    team = Team(threads)
    try:
        keys = _row_keys(X, labels, team, varies)

        def sort(first: int, stop: int) -> Array:
            own = indptr[first : stop + 1] - indptr[first]
            return np.lexsort((keys[indptr[first] : indptr[stop]], query_of_row(own))) + indptr[first]

        docs = np.concatenate(team.each(sort, runs_of(indptr, threads, _SORTED)))
    finally:
        team.close()
    sums = np.zeros(len(indptr) - 1, np.uint64)
    used = np.diff(indptr) > 0
    sums[used] = np.add.reduceat(keys, indptr[:-1][used])
    return docs, keys, sums


def varying(X: Array, threads: int = 1) -> Array:
    """Which features of dense rows are not the same everywhere."""
    team = Team(threads)
    try:
        return _varying(X, team)
    finally:
        team.close()


def _row_keys(X: Any, labels: Array, team: Team, varies: Array | None) -> Array:
    """A hash of every row and its label."""
    keys = np.zeros(X.shape[0], np.uint64)
    if sparse.issparse(X):
        stored = _vary_stored(X.data, X.indices, X.shape[0], X.shape[1]) if varies is None else varies
        numbers = _numbers(stored)
        for start, stop in query_chunks(X.indptr, _VALUES):
            values = slice(X.indptr[start], X.indptr[stop])
            part = X.data[values].astype(np.float64).view(np.uint64)
            _add_stored(part, X.indices[values], X.indptr[start : stop + 1], numbers, keys[start:stop])
    else:
        numbers = _numbers(_varying(X, team) if varies is None else varies)
        shares = [(part, keys[start : start + len(part)]) for start, part in _chunks(X)]
        team.each(lambda part, own: _add_dense(part.astype(np.float64).view(np.uint64), numbers, own), shares)
    _finish((labels + 0.0).view(np.uint64), keys)
    return keys


def _chunks(X: Array) -> Iterator[tuple[int, Array]]:
    """Some dense rows at a time, and where they start."""
    step = max(1, _VALUES // max(1, X.shape[1]))
    return ((start, X[start : start + step]) for start in range(0, X.shape[0], step))


def _varying(X: Array, team: Team) -> Array:
    vary = team.each(lambda _, part: _vary_dense(part, X[0]), _chunks(X))
    return np.asarray(np.any(vary, axis=0) if vary else np.zeros(X.shape[1], bool))


def _numbers(varies: Array) -> Array:
    """The features that vary, counted from 1; 0 for the others."""
    return np.where(varies, np.cumsum(varies), 0).astype(np.uint64)


@njit(cache=True, nogil=True)
def _vary_dense(X: Any, firsts: Any) -> Any:
    """Features that are not everywhere as in ``firsts``."""
    varies = np.zeros(X.shape[1], np.bool_)
    for row in range(X.shape[0]):
        for column in range(X.shape[1]):
            here, first = X[row, column], firsts[column]
            varies[column] |= here != first and (here == here or first == first)
    return varies


@njit(cache=True)
def _vary_stored(values: Any, columns: Any, n_rows: int, n_columns: int) -> Any:
    firsts, counts = np.zeros(n_columns), np.zeros(n_columns, np.int64)
    varies = np.zeros(n_columns, np.bool_)
    for at in range(values.size):
        here, column = values[at], columns[at]
        if here == 0:
            continue
        if counts[column] == 0:
            firsts[column] = here
        first = firsts[column]
        varies[column] |= here != first and (here == here or first == first)
        counts[column] += 1
    for column in range(n_columns):
        varies[column] |= 0 < counts[column] < n_rows
    return varies


@njit(cache=True)
def _mix(value: Any) -> Any:
    """The last steps of splitmix64: every bit of the result depends on every bit."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def _add_dense(values: Any, numbers: Any, keys: Any) -> None:
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            value = values[row, column]
            if numbers[column] and value != _ZEROS[0] and value != _ZEROS[1]:
                keys[row] += _mix(value + numbers[column] * _STRIDE)


@njit(cache=True)
def _add_stored(values: Any, columns: Any, rows: Any, numbers: Any, keys: Any) -> None:
    for row in range(keys.size):
        for at in range(rows[row], rows[row + 1]):
            value, number = values[at - rows[0]], numbers[columns[at - rows[0]]]
            if number and value != _ZEROS[0] and value != _ZEROS[1]:
                keys[row] += _mix(value + number * _STRIDE)


@njit(cache=True)
def _finish(labels: Any, keys: Any) -> None:
    for row in range(keys.size):
        keys[row] = _mix(keys[row] + labels[row] * _STRIDE)
