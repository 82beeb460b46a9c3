"""Documents and queries in an order that depends on their content only, and sums over documents in that order.

A most violated ranking is not unique where scores or values tie, queries share a block, and rounded sums depend on the
order of their terms. A training that takes everything in this order gives the same weights, bit for bit, however its
documents and queries were shuffled.

Documents are sorted by a fixed random combination of their labels and the features that vary, which only equal
documents share; queries by the mean of its sine (the mean itself would be shared by queries of equal sums). A constant
feature more or less moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data.blocks import sizes_to_indptr
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.models.products import FASTMATH, kernel_form, row_scores

__all__ = ["Canonical", "canonical_order", "deviations_in_order"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Canonical:
    """An order of documents and queries.

    Attributes
    ----------
    rows : ndarray
        The documents in order, query after query: positions in the data.
    indptr : ndarray
        Query boundaries in ``rows``.
    queries : ndarray
        The queries in order.
    """

    rows: Array
    indptr: Array
    queries: Array


def canonical_order(
    X: Any, labels: Sequence[Array], indptr: Array, weights: Array, low: Array, high: Array
) -> Canonical:
    """The order of documents and queries by content.

    Parameters
    ----------
    X : ndarray or csr_array
        Features.
    labels : sequence of ndarray
        Labels as each of the losses sees them.
    indptr, weights : ndarray
        Query boundaries, and weights of the queries, which decide between queries of equal content.
    low, high : ndarray
        The smallest and the largest value of every feature.
    """
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.finfo(np.float64).tiny)
    mix = np.where(low < high, np.random.default_rng(0).uniform(0.5, 1.0, len(size)) / size, 0.0)
    shares = np.random.default_rng(1).uniform(0.5, 1.0, len(labels))
    keys = np.zeros(X.shape[0])
    for number, of_loss in enumerate(labels):
        if not any(np.array_equal(of_loss, other) for other in labels[:number]):
            keys += shares[number] / max(float(of_loss.max()), 1.0) * of_loss
    order, means, sizes = np.empty(len(keys), np.int64), np.empty(len(indptr) - 1), np.diff(indptr)
    _sort(kernel_form(X), indptr, int(sizes.max()), mix, keys, order, means)
    queries = np.lexsort((weights, means))
    moved = sizes_to_indptr(sizes[queries])
    rows = order[np.arange(len(order)) + np.repeat(indptr[:-1][queries] - moved[:-1], sizes[queries])]
    return Canonical(rows, moved, queries)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _sort(X: Any, indptr: Any, longest: int, mix: Any, keys: Any, order: Any, means: Any) -> None:
    """The documents of every query by keys plus combined features, highest first, and the mean sine of that."""
    combined, work = np.empty(longest), np.empty(WORK * longest + BINS)
    for q in range(means.size):
        start, stop = indptr[q], indptr[q + 1]
        n = stop - start
        row_scores(X, start, stop, mix, combined)
        for i in range(n):
            combined[i] += keys[start + i]
        sort_descending(combined[:n], order[start:stop], work)
        means[q] = 0.0
        for i in range(start, stop):
            means[q] += np.sin(combined[order[i]]) / n
            order[i] += start


def deviations_in_order(X: Any, rows: Array) -> Array:
    """Standard deviations of the features; inf or nan where a sum overflows."""
    n_features = X.shape[1]
    total, squares = np.zeros(n_features), np.zeros(n_features)
    if isinstance(X, np.ndarray):
        _dense_sums(X, rows, X[rows[0]].astype(np.float64), total, squares)
        mean = total / len(rows)
        return np.asarray(np.sqrt(np.maximum(squares / len(rows) - mean**2, 0.0)))
    stored = np.zeros(n_features)
    _sparse_sums(X.data, X.indices, X.indptr, rows, total, stored)
    mean = total / len(rows)
    _sparse_squares(X.data, X.indices, X.indptr, rows, mean, squares)
    return np.asarray(np.sqrt((squares + (len(rows) - stored) * mean**2) / len(rows)))


@njit(cache=True, nogil=True)
def _dense_sums(X: Any, rows: Any, shift: Any, total: Any, squares: Any) -> None:
    for row in rows:
        for j in range(total.size):
            apart = X[row, j] - shift[j]
            total[j] += apart
            squares[j] += apart * apart


@njit(cache=True, nogil=True)
def _sparse_sums(values: Any, columns: Any, indptr: Any, rows: Any, total: Any, stored: Any) -> None:
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            total[columns[at]] += values[at]
            stored[columns[at]] += 1.0


@njit(cache=True, nogil=True)
def _sparse_squares(values: Any, columns: Any, indptr: Any, rows: Any, mean: Any, squares: Any) -> None:
    for row in rows:
        for at in range(indptr[row], indptr[row + 1]):
            apart = values[at] - mean[columns[at]]
            squares[columns[at]] += apart * apart
