"""Lambda gradients: how much every document should rise, given the ranking by the current scores.

For a pair of one query with labels z_i > z_j and o = s_i − s_j, Δ the change of the measure if i and j swapped places:

    λ = |Δ| · 1/(1 + e^o)        the residual of i rises by λ, that of j falls by λ
    |Δ| · σ(o) (1 − σ(o))        is added to the second derivative of both, σ the logistic function

With Δ = 1 these are the derivatives of RankNet's cost, Σ log(1 + e^−o). A truncation at rank k leaves out the pairs
with both documents below rank k: O(k·n) a query.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, typeof, types

from rankwright.data.order import descending
from rankwright.measures import Measure, Rankings
from rankwright.measures.forms import STATE, Swaps, read_only
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.models.products import FASTMATH
from rankwright.objectives.first_class import FirstClass, compiled

__all__ = ["Lambdas", "ranknet_cost"]

Array = npt.NDArray[Any]
_REACH = 30.0  # beyond this difference of scores the logistic function is 0 or 1
_CELLS = 1 << 14  # of its table
_TASK_DOCS = 8192
_VECTOR = types.Array(types.float64, 1, "C")
_FROZEN = types.Array(types.float64, 1, "C", readonly=True)
_TABLE = types.Array(types.float64, 2, "C")
_CHANGES = types.void(types.int64, _VECTOR, _FROZEN, _TABLE, _VECTOR)
_PREPARE = types.void(_VECTOR, _FROZEN, _FROZEN, _TABLE)


def _equal_changes(i: int, worth: Any, parameters: Any, state: Any, out: Any) -> None:
    """RankNet: every pair of different labels counts equally."""
    for j in range(i + 1, worth.size):
        out[j] = 1.0 if worth[i] != worth[j] else 0.0


def _given_changes(i: int, worth: Any, parameters: Any, state: Any, out: Any) -> None:
    """The state is the table of all changes."""
    for j in range(i + 1, worth.size):
        out[j] = state[i, j]


def _logistic_table() -> Array:
    """1/(1 + e^o) at evenly spaced o from −_REACH to _REACH, and one more to interpolate with."""
    return np.asarray(1.0 / (1.0 + np.exp(np.linspace(-_REACH, _REACH, _CELLS + 1))))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def _row(i: int, worth: Any, scores: Any, changes: Any, logistic: Any, up: Any, curve: Any) -> None:
    """All pairs of rank ``i`` with lower ranks, without branches: equal worths change nothing."""
    own, score = worth[i], scores[i]
    rises, bends = 0.0, 0.0
    for j in range(i + 1, worth.size):
        sign = 1.0 if own > worth[j] else -1.0
        at = (sign * (score - scores[j]) + _REACH) * (_CELLS / (2.0 * _REACH))
        at = min(max(at, 0.0), _CELLS - 1e-6)
        cell = np.int64(at)
        low = logistic[cell]
        miss = low + (at - cell) * (logistic[cell + 1] - low)
        force = abs(changes[j]) * miss
        bend = force * (1.0 - miss)
        rises += sign * force
        bends += bend
        up[j] -= sign * force
        curve[j] += bend
    up[i] += rises
    curve[i] += bends


@njit(cache=True)
def _space(longest: int, rows: int) -> Any:
    """Working memory of `_query` for queries of up to ``longest`` documents."""
    places, work = np.empty(longest, np.int64), np.empty(WORK * longest + BINS)
    vectors = (np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest))
    return places, work, vectors, np.empty((rows, longest + 1))


@njit(cache=True, nogil=True, error_model="numpy")
def _query(q: int, scores: Any, setup: Any, space: Any, residuals: Any, weights: Any) -> None:
    """Residuals and second derivatives of query ``q``, whose documents come in the order that breaks ties."""
    truncation, parameters, logistic, indptr, worth, known, norms, changes, prepare = setup
    order, work, (ranked, ordered, change, up, curve), state = space
    n, start = scores.size, indptr[q]
    sort_descending(scores, order[:n], work)
    for r in range(n):
        ranked[r] = worth[start + order[r]]
        ordered[r] = scores[order[r]]
        up[r] = curve[r] = 0.0
    prepare(ranked[:n], known[start : start + n], parameters, state)
    for i in range(min(truncation, n - 1)):
        changes(i, ranked[:n], parameters, state, change[:n])
        _row(i, ranked[:n], ordered[:n], change[:n], logistic, up[:n], curve[:n])
    for r in range(n):
        residuals[order[r]] = up[r] / norms[q]
        weights[order[r]] = curve[r] / norms[q]


@njit(cache=True, nogil=True)
def _queries(setup: Any, scores: Any, docs: Any, first: int, last: int, residuals: Any, weights: Any) -> None:
    """Residuals and second derivatives of the queries ``first`` … ``last − 1``."""
    indptr, longest = setup[3], 0
    for q in range(first, last):
        longest = max(longest, indptr[q + 1] - indptr[q])
    space = _space(longest, STATE)
    s, up, curve = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        start = indptr[q]
        n = indptr[q + 1] - start
        for i in range(n):
            s[i] = scores[docs[start + i]]
        _query(q, s[:n], setup, space, up, curve)
        for i in range(n):
            residuals[docs[start + i]] = up[i]
            weights[docs[start + i]] = curve[i]


class Lambdas:
    """Lambda gradients of a measure on given data.

    Parameters
    ----------
    labels, indptr : ndarray
        Labels and query boundaries.
    measure : Measure or None
        Measure to optimise, with its convention resolved; None: RankNet, where every pair counts equally. A measure
        without compiled swap changes is slow: every pair is swapped and the value computed anew.
    truncation : int, optional
        Leave out pairs with both documents at or below this rank (from 0).
    threads : int
        The result does not depend on it.
    ties : ndarray, optional
        The documents, query after query, in the order that breaks ties between equal scores, such as
        that of :func:`~rankwright.objectives.content_order.content_order`; by default their own order.
    query_weights : ndarray, optional
        Factors for the gradients of each query.

    Attributes
    ----------
    docs : ndarray
        The documents in the order that breaks ties.
    kernel : tuple or None
        A compiled ``function(q, scores, setup, space, residuals, weights)`` for one query, and its ``setup``; None if
        the measure has no compiled changes. Scores, residuals and weights are in the order of ``docs``.
    """

    def __init__(
        self,
        labels: Array,
        indptr: Array,
        measure: Measure | None,
        truncation: int | None = None,
        threads: int = 1,
        *,
        ties: Array | None = None,
        query_weights: Array | None = None,
    ) -> None:
        self.indptr, self._measure = np.ascontiguousarray(indptr, np.int64), measure
        self.docs = np.arange(len(labels)) if ties is None else np.ascontiguousarray(ties, np.int64)
        labels = np.asarray(labels, np.float64)[self.docs]
        longest = int(np.diff(indptr).max(initial=1))
        swaps, worth, norms = Swaps(_equal_changes), labels, np.ones(len(indptr) - 1)
        self._compiled = measure is None
        if measure is not None:
            measure.check_labels(labels)
            longest_counted = measure.cutoff or longest  # below that nothing changes
            truncation = longest_counted if truncation is None else min(truncation, longest_counted)
            own = measure.swaps()
            if own is not None:
                swaps, worth, self._compiled = own, np.asarray(measure.worth(labels), np.float64), True
                norms = np.asarray(measure.norms(Rankings(labels, self.indptr)), np.float64)
            else:
                swaps = Swaps(_given_changes)
        self._setup = (
            longest if truncation is None else int(truncation),
            swaps.parameters(longest),
            read_only(_logistic_table()),
            self.indptr,
            worth,
            read_only(descending(worth, self.indptr)),
            norms,
            compiled(swaps.changes, _CHANGES),
            compiled(swaps.prepare, _PREPARE),
        )
        self._weights = None if query_weights is None else np.repeat(query_weights, np.diff(indptr))
        self._tasks = _tasks(indptr)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(self._tasks) > 1 else None

    @property
    def kernel(self) -> tuple[Any, Any] | None:
        """The compiled gradients of one query, and their setup."""
        if not self._compiled:
            return None
        returned = (types.int64, _VECTOR, typeof(self._setup), typeof(self.space(1)), _VECTOR, _VECTOR)
        return FirstClass(_query, types.void(*returned)), self._setup

    def space(self, longest: int) -> Any:
        """Working memory of the kernel for queries of up to ``longest`` documents."""
        return _space(longest, STATE)

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """The residual of every document, and its second derivative, at the given scores."""
        residuals, weights = np.zeros(len(scores)), np.zeros(len(scores))
        scores = np.ascontiguousarray(scores, np.float64)

        def run(task: tuple[int, int]) -> None:
            if self._compiled:
                _queries(self._setup, scores, self.docs, *task, residuals, weights)
                return
            for q in range(*task):
                docs = self.docs[self.indptr[q] : self.indptr[q + 1]]
                residuals[docs], weights[docs] = self.one_query(q, scores[docs])

        each: Callable[..., Any] = map if self._pool is None else self._pool.map
        list(each(run, self._tasks))
        if self._weights is not None:
            residuals *= self._weights
            weights *= self._weights
        return residuals, weights

    def one_query(self, q: int, scores: Array) -> tuple[Array, Array]:
        """Residuals and second derivatives of query ``q``, ignoring its weight, in the order of ``docs``."""
        n = len(scores)
        residuals, weights, space = np.empty(n), np.empty(n), _space(n, STATE)
        if not self._compiled:
            assert self._measure is not None
            labels = self._setup[4][self.indptr[q] : self.indptr[q + 1]]
            table = self._measure.swap_deltas(labels[np.argsort(-scores, kind="stable")])
            space = (*space[:3], np.ascontiguousarray(table, np.float64))
        _query(q, np.ascontiguousarray(scores, np.float64), self._setup, space, residuals, weights)
        return residuals, weights

    def close(self) -> None:
        """Shut down the thread pool."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def ranknet_cost(scores: Array, labels: Array, indptr: Array) -> float:
    """Σ log(1 + e^−(s_i − s_j)) over the pairs with z_i > z_j of every query, the cost RankNet minimises."""
    total = 0.0
    for q in range(len(indptr) - 1):
        s, z = scores[indptr[q] : indptr[q + 1]], labels[indptr[q] : indptr[q + 1]]
        wins = z[:, None] > z[None, :]
        total += float(np.logaddexp(0.0, s[None, :] - s[:, None])[wins].sum())
    return total


def _tasks(indptr: Array) -> list[tuple[int, int]]:
    """Runs of queries with about equal numbers of documents."""
    n_tasks = max(1, int(indptr[-1]) // _TASK_DOCS)
    cuts = np.unique(np.searchsorted(indptr, np.linspace(0, indptr[-1], n_tasks + 1)))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
