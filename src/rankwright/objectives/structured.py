"""The structured hinge: Σ_q c_q H_q(w), with H_q(w) = max over rankings of (loss − margin), and its cutting planes.

For each query the scores are computed, the oracle gives the most violated ranking as one coefficient per document, and
the coefficients are turned into a plane (ℓ, v) with H_q(w) = ℓ − v·w while the query's rows are still in cache.
Features are divided by ``scale`` on the way, which standardises them without a copy: the coefficients of a query sum to
0, so means cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data.blocks import sizes_to_indptr
from rankwright.measures.forms import Oracle
from rankwright.measures.oracles.common import BINS, ORACLE, WORK, sort_descending
from rankwright.models.products import FASTMATH, add_listed_rows, kernel_form, row_scores
from rankwright.objectives.first_class import FirstClass

__all__ = ["Planes", "StructuredHinge"]

Array = npt.NDArray[Any]
_TASK_DOCS = 4096  # documents per task of a thread, about


@njit(cache=True, nogil=True, fastmath=FASTMATH, forceinline=True)
def _scores_in_order(X: Any, rows: Any, weights: Any, given: Any, scores: Any) -> None:
    """Score the rows of a query, which lie together in X, there; then bring the scores into the order of ``rows``."""
    first = rows[0]
    for row in rows:
        first = min(first, row)
    row_scores(X, first, first + rows.size, weights, given)
    for i in range(rows.size):
        scores[i] = given[rows[i] - first]


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _evaluate(
    X: Any, rows: Any, labels: Any, indptr: Any, blocks: Any, first: int, last: int, weights: Any, inverse: Any,
    cost: Any, oracle: Any, parameters: Any, losses: Any, values: Any, planes: Any, longest: int, only_values: bool,
) -> None:  # fmt: skip
    """Loss, value and plane of the blocks ``first`` … ``last − 1``; queries of cost 0 are left out."""
    scores, coef, given = np.empty(longest), np.empty(longest), np.empty(longest)
    order, work = np.empty(longest, np.int64), np.empty(WORK * longest + BINS)
    for block in range(first, last):
        plane = planes[block]
        for j in range(plane.size):
            plane[j] = 0.0
        losses[block] = values[block] = 0.0
        for q in range(blocks[block], blocks[block + 1]):
            if cost[q] == 0.0:
                continue
            start, stop = indptr[q], indptr[q + 1]
            n = stop - start
            _scores_in_order(X, rows[start:stop], weights, given, scores)
            sort_descending(scores[:n], order[:n], work)
            loss = oracle(scores[:n], labels[start:stop], order[:n], parameters, coef[:n], work)
            margin = 0.0
            for i in range(n):
                margin += coef[i] * scores[i]
                coef[i] *= cost[q]
            losses[block] += cost[q] * loss
            values[block] += cost[q] * (loss - margin)
            if not only_values:
                add_listed_rows(X, rows[start:stop], coef, plane)
        for j in range(plane.size):
            plane[j] *= inverse[j]


@njit(cache=True, nogil=True)
def _score_query(X: Any, rows: Any, weights: Any) -> Any:
    scores = np.empty(rows.size)
    _scores_in_order(X, rows, weights, np.empty(rows.size), scores)
    return scores


@njit(cache=True, nogil=True)
def _add_query(X: Any, rows: Any, coef: Any, inverse: Any, plane: Any) -> None:
    sums = np.zeros(plane.size)
    add_listed_rows(X, rows, coef, sums)
    for j in range(plane.size):
        plane[j] += sums[j] * inverse[j]


@dataclass(frozen=True, eq=False)
class Planes:
    """The result of one pass over the data: a plane per block of queries, and the value of the hinge there.

    Attributes
    ----------
    losses : ndarray
        ℓ of each block.
    vectors : ndarray of shape (blocks, features)
        v of each block; overwritten by the next pass.
    values : ndarray
        The block's hinge at the weights of the pass, ℓ − v·w.
    """

    losses: Array
    vectors: Array
    values: Array


@dataclass(eq=False)
class StructuredHinge:
    """The objective of a structured SVM on given data.

    Parameters
    ----------
    X : ndarray or csr_array
        Features.
    rows : ndarray
        The documents, query after query: rows of X, where those of a query lie together in any order.
    labels : ndarray
        Labels of these documents in the form the oracle expects.
    indptr : ndarray
        Query boundaries in ``rows``; every query with a cost above 0 must have something to order.
    oracle : Oracle
        The loss.
    cost : ndarray
        Weight c_q of each query.
    scale : ndarray
        Divisor of each feature; inf leaves a feature out, from weights and planes too.
    blocks : ndarray
        Boundaries of the blocks of queries that share a plane.
    threads : int
        Threads for a pass; the result does not depend on it.
    """

    X: Any
    rows: Array
    labels: Array
    indptr: Array
    oracle: Oracle
    cost: Array
    scale: Array
    blocks: Array
    threads: int = 1
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._X = kernel_form(self.X)
        self._longest = int(np.diff(self.indptr).max())
        self._parameters = self.oracle.parameters(self._longest)
        self._kernel = FirstClass(self.oracle.kernel, ORACLE)
        self._inverse = 1.0 / self.scale
        self._kept = np.flatnonzero(self._inverse)
        n_blocks = len(self.blocks) - 1
        self._hard = _hard_queries(self.oracle, self.labels, self.indptr, self.cost)
        self._planes = Planes(np.empty(n_blocks), np.empty((n_blocks, len(self.scale))), np.empty(n_blocks))
        if self.threads > 1 and len(_tasks(self.indptr[self.blocks])) > 1:
            self._pool = ThreadPoolExecutor(self.threads)

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return len(self._kept)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks) - 1

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        self.cost = self.cost * factor

    def evaluate(self, w: Array, only: Array | None = None) -> Planes:
        """One pass over the data at the weights ``w``; over the queries in ``only``, if given."""
        self._pass(self.coefficients(w), self.cost if only is None else self.cost * only, self.blocks, self._planes)
        if len(self._kept) == len(self.scale):
            return self._planes
        return replace(self._planes, vectors=self._planes.vectors[:, self._kept])

    def violations(self, w: Array) -> Array:
        """The hinge of every query at the weights ``w``, times its cost."""
        n_queries = len(self.indptr) - 1
        found = Planes(np.empty(n_queries), np.empty((n_queries, 0)), np.empty(n_queries))
        self._pass(self.coefficients(w), self.cost, np.arange(n_queries + 1), found)
        return found.values

    def _pass(self, weights: Array, cost: Array, blocks: Array, planes: Planes) -> None:
        """Fill ``planes``, with one row for each of the blocks; vectors without columns are not computed."""
        only_values = planes.vectors.shape[1] < len(weights)
        easy = cost
        if len(self._hard):
            easy = cost.copy()
            easy[self._hard] = 0.0

        def run(task: tuple[int, int]) -> None:
            _evaluate(
                self._X, self.rows, self.labels, self.indptr, blocks, task[0], task[1], weights, self._inverse,
                easy, self._kernel, self._parameters, planes.losses, planes.values, planes.vectors, self._longest,
                only_values,
            )  # fmt: skip

        if self._pool is None:
            run((0, len(blocks) - 1))
        else:
            list(self._pool.map(run, _tasks(self.indptr[blocks])))
        for q in self._hard[cost[self._hard] > 0.0]:  # a library orders these one by one
            block = int(np.searchsorted(blocks, q, side="right")) - 1
            start, stop = self.indptr[q], self.indptr[q + 1]
            scores = _score_query(self._X, self.rows[start:stop], weights)
            assert self.oracle.library is not None
            loss, coef = self.oracle.library(scores, self.labels[start:stop], self._parameters)
            planes.losses[block] += cost[q] * loss
            planes.values[block] += cost[q] * (loss - float((coef * scores).sum()))
            if not only_values:
                _add_query(self._X, self.rows[start:stop], cost[q] * coef, self._inverse, planes.vectors[block])

    def coefficients(self, w: Array) -> Array:
        """The weights of the unscaled features."""
        coefficients = np.zeros(len(self.scale))
        coefficients[self._kept] = w * self._inverse[self._kept]
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """The opposite of `coefficients`."""
        return np.asarray(coefficients[self._kept] * self.scale[self._kept])

    def close(self) -> None:
        """Shut down the thread pool."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _hard_queries(oracle: Oracle, labels: Array, indptr: Array, cost: Array) -> Array:
    """The queries with a cost that the oracle leaves to its library."""
    if oracle.cheap is None:
        return np.empty(0, np.int64)
    counted = np.flatnonzero(cost).tolist()
    return np.array([q for q in counted if not oracle.cheap(labels[indptr[q] : indptr[q + 1]])], np.int64)


def _tasks(boundaries: Array) -> Sequence[tuple[int, int]]:
    """Runs of blocks with about equal numbers of documents."""
    n_tasks = max(1, int(boundaries[-1]) // _TASK_DOCS)
    cuts = np.unique(np.searchsorted(boundaries, np.linspace(0, boundaries[-1], n_tasks + 1)))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def equal_blocks(n_queries: int, n_blocks: int) -> Array:
    """Boundaries of ``n_blocks`` runs of queries of about equal length."""
    sizes = np.full(n_blocks, n_queries // n_blocks)
    sizes[: n_queries % n_blocks] += 1
    return sizes_to_indptr(sizes)
