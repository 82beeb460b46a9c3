"""Lambda gradients: for every document how much it should rise, given the ranking that the scores make now.

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
from numba import njit

from rankwright.measures import Measure
from rankwright.measures.ap import AP
from rankwright.measures.ndcg import nDCG
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.measures.rr import RR
from rankwright.models.products import FASTMATH

__all__ = ["Lambdas", "lambda_space", "query_lambdas", "ranknet_cost"]

Array = npt.NDArray[Any]
_PLAIN, _NDCG, _AP, _RR, _TABLE = range(5)
_REACH = 30.0  # beyond this difference of scores the logistic function is 0 or 1
_CELLS = 1 << 14  # of its table
_TASK_DOCS = 8192


def _logistic_table() -> Array:
    """1/(1 + e^o) at evenly spaced o from −_REACH to _REACH, and one more to interpolate with."""
    return np.asarray(1.0 / (1.0 + np.exp(np.linspace(-_REACH, _REACH, _CELLS + 1))))


@njit(cache=True, nogil=True, error_model="numpy")
def _one_minus_logistic(o: float, table: Any) -> float:
    at = (o + _REACH) * (_CELLS / (2.0 * _REACH))
    if at <= 0.0:
        return 1.0
    if at >= _CELLS:
        return 0.0
    cell = np.int64(at)
    low = table[cell]
    return low + (at - cell) * (table[cell + 1] - low)


@njit(cache=True, nogil=True, error_model="numpy")
def _prepare(kind: int, ranked: Any, top: int, discounts: Any, gains: Any, a: Any, b: Any) -> float:
    """What the changes of a measure need, per rank, in ``a`` and ``b``; what to divide by, 0 where none counts."""
    n = ranked.size
    if kind == _NDCG:
        for r in range(n):
            a[r] = gains[np.int64(ranked[r])]
            b[r] = discounts[r] if r < top else 0.0
        # The ideal order, by counting: labels are small whole numbers here.
        ideal, r = 0.0, 0
        for label in range(gains.size - 1, -1, -1):
            for i in range(n):
                if np.int64(ranked[i]) == label and r < top:
                    ideal += gains[label] * discounts[r]
                    r += 1
        return ideal
    if kind == _AP:
        found, total = 0.0, 0.0
        for r in range(n):
            found += ranked[r] > 0.0
            total += 1.0 / (r + 1.0) if ranked[r] > 0.0 else 0.0
            a[r] = found
            b[r] = total
        return found
    if kind == _RR:
        first, second = n, n
        for r in range(n - 1, -1, -1):
            if ranked[r] > 0.0:
                first, second = r, first
        a[0], b[0] = first, second
        return 1.0 if first < n else 0.0
    return 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _change(kind: int, i: int, j: int, upper: float, lower: float, top: int, a: Any, b: Any, table: Any) -> float:
    """|Δ| of swapping ranks i < j with labels ``upper`` and ``lower``."""
    if kind == _NDCG:
        return abs((a[i] - a[j]) * (b[i] - b[j]))
    if kind == _AP:
        if (upper > 0.0) == (lower > 0.0):
            return 0.0
        between = b[j - 1] - b[i]
        if upper > 0.0:
            return abs(a[j] / (j + 1.0) - a[i] / (i + 1.0) - between)
        return abs((a[i] + 1.0) / (i + 1.0) - a[j] / (j + 1.0) + between)
    if kind == _RR:
        if (upper > 0.0) == (lower > 0.0):
            return 0.0
        first, second = np.int64(a[0]), np.int64(b[0])
        before = 1.0 / (first + 1.0) if first < top else 0.0
        after = before
        if lower > 0.0 and i < first:
            after = 1.0 / (i + 1.0) if i < top else 0.0
        elif upper > 0.0 and i == first:
            lands = j if j < second else second
            after = 1.0 / (lands + 1.0) if lands < top else 0.0
        return abs(after - before)
    if kind == _TABLE:
        return abs(table[i, j])
    return 1.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
def _ndcg_row(i: int, ranked: Any, scores: Any, logistic: Any, a: Any, b: Any, up: Any, curve: Any) -> None:
    """All pairs of rank ``i`` with lower ranks, for nDCG, without branches: equal labels change nothing."""
    label, score, gain, discount = ranked[i], scores[i], a[i], b[i]
    rises, bends = 0.0, 0.0
    for j in range(i + 1, ranked.size):
        sign = 1.0 if label > ranked[j] else -1.0
        at = (sign * (score - scores[j]) + _REACH) * (_CELLS / (2.0 * _REACH))
        at = min(max(at, 0.0), _CELLS - 1e-6)
        cell = np.int64(at)
        low = logistic[cell]
        miss = low + (at - cell) * (logistic[cell + 1] - low)
        force = abs((gain - a[j]) * (discount - b[j])) * miss
        bend = force * (1.0 - miss)
        rises += sign * force
        bends += bend
        up[j] -= sign * force
        curve[j] += bend
    up[i] += rises
    curve[i] += bends


@njit(cache=True, nogil=True, error_model="numpy")
def _query(
    kind: int, ranked: Any, scores: Any, truncation: int, top: int, logistic: Any, discounts: Any, gains: Any,
    table: Any, a: Any, b: Any, up: Any, curve: Any,
) -> None:  # fmt: skip
    """Residuals and second derivatives of one query, all in rank order."""
    n = ranked.size
    for r in range(n):
        up[r] = curve[r] = 0.0
    norm = _prepare(kind, ranked, top, discounts, gains, a, b)
    if norm == 0.0:
        return
    for i in range(min(truncation, n - 1)):
        if kind == _NDCG:
            _ndcg_row(i, ranked, scores, logistic, a, b, up, curve)
            continue
        rises, bends = 0.0, 0.0
        for j in range(i + 1, n):
            if ranked[i] == ranked[j]:
                continue
            change = _change(kind, i, j, ranked[i], ranked[j], top, a, b, table)
            if change == 0.0:
                continue
            apart = scores[i] - scores[j]
            sign = 1.0
            if ranked[i] < ranked[j]:
                apart, sign = -apart, -1.0
            miss = _one_minus_logistic(apart, logistic)
            force = change * miss
            bend = force * (1.0 - miss)
            rises += sign * force
            bends += bend
            up[j] -= sign * force
            curve[j] += bend
        up[i] += rises
        curve[i] += bends
    for r in range(n):
        up[r] /= norm
        curve[r] /= norm


@njit(cache=True)
def lambda_space(longest: int) -> Any:
    """Working memory of `query_lambdas` for queries of up to ``longest`` documents."""
    places, work = np.empty(longest, np.int64), np.empty(WORK * longest + BINS)
    ranked, ordered, a, b = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    return places, work, ranked, ordered, a, b, np.empty(longest), np.empty(longest), np.empty((0, 0))


@njit(cache=True, nogil=True)
def query_lambdas(setup: Any, scores: Any, labels: Any, space: Any, residuals: Any, weights: Any) -> None:
    """Residuals and second derivatives of one query; of equal scores that which stands first is ranked first.

    ``setup`` is `Lambdas.setup` of a measure that is not ``by_swaps``, ``labels`` are those of the `Lambdas`.
    """
    kind, truncation, top, logistic, discounts, gains = setup
    order, work, ranked, ordered, a, b, up, curve, none = space
    n = scores.size
    sort_descending(scores, order[:n], work)
    for r in range(n):
        ranked[r] = labels[order[r]]
        ordered[r] = scores[order[r]]
    _query(kind, ranked[:n], ordered[:n], truncation, top, logistic, discounts, gains, none, a, b, up[:n], curve[:n])
    for r in range(n):
        residuals[order[r]] = up[r]
        weights[order[r]] = curve[r]


@njit(cache=True, nogil=True)
def _queries(
    setup: Any, scores: Any, labels: Any, indptr: Any, docs: Any, first: int, last: int, residuals: Any, weights: Any
) -> None:
    """Residuals and second derivatives of the queries ``first`` … ``last − 1``."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, indptr[q + 1] - indptr[q])
    space = lambda_space(longest)
    s, z, up, curve = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        start = indptr[q]
        n = indptr[q + 1] - start
        for i in range(n):
            s[i] = scores[docs[start + i]]
            z[i] = labels[docs[start + i]]
        query_lambdas(setup, s[:n], z[:n], space, up, curve)
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
        What to rise; None: RankNet, where every pair counts the same. nDCG, AP and RR are fast, all others go through
        their swap deltas.
    truncation : int, optional
        Leave out pairs with both documents at or below this rank (from 0).
    threads : int
        The result does not depend on it.
    ties : ndarray, optional
        The documents, query after query, in the order that decides between equal scores, as
        :func:`~rankwright.objectives.content_order.content_order` gives it; their own order unless given.
    query_weights : ndarray, optional
        By which the gradients of each query are multiplied.

    Attributes
    ----------
    labels : ndarray
        Labels as `query_lambdas` wants them.
    by_swaps : bool
        Whether the measure has no compiled changes: only `one_query` and `evaluate` can do it.
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
        self.indptr, self.measure = indptr, measure
        longest = int(np.diff(indptr).max(initial=1))
        self.truncation = longest if truncation is None else truncation
        self._top = longest
        self._discounts, self._gains = np.ones(1), np.ones(1)
        self._kind, self.labels = _PLAIN, np.ascontiguousarray(labels, np.float64)
        if measure is not None:
            self._top = min(measure.cutoff or longest, longest)
            self._prepare(measure, longest)
        self._logistic = _logistic_table()
        self._docs = np.arange(len(labels)) if ties is None else np.ascontiguousarray(ties, np.int64)
        self._weights = None if query_weights is None else np.repeat(query_weights, np.diff(indptr))
        self._tasks = _tasks(indptr)
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(self._tasks) > 1 else None

    def _prepare(self, measure: Measure, longest: int) -> None:
        self._kind = _TABLE
        if isinstance(measure, nDCG):
            values, codes = np.unique(self.labels, return_inverse=True)
            self._kind, self.labels = _NDCG, codes.astype(np.float64)
            self.truncation = min(self.truncation, self._top)  # further down nothing changes
            self._gains, self._discounts = measure.gains(values), measure.discounts(np.arange(longest))
        elif isinstance(measure, AP) and measure.cutoff is None:
            self._kind, self.labels = _AP, (self.labels >= measure.rel).astype(np.float64)
        elif isinstance(measure, RR):
            self._kind, self.labels = _RR, (self.labels >= measure.rel).astype(np.float64)

    @property
    def by_swaps(self) -> bool:
        """Whether the measure goes through its swap deltas."""
        return self._kind == _TABLE

    @property
    def setup(self) -> tuple[Any, ...]:
        """What `query_lambdas` has to know of the measure."""
        return self._kind, self.truncation, self._top, self._logistic, self._discounts, self._gains

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """The residual of every document, and its second derivative, at the given scores."""
        residuals, weights = np.zeros(len(scores)), np.zeros(len(scores))
        scores = np.ascontiguousarray(scores, np.float64)

        def run(task: tuple[int, int]) -> None:
            if self.by_swaps:
                for q in range(*task):
                    docs = self._docs[self.indptr[q] : self.indptr[q + 1]]
                    residuals[docs], weights[docs] = self.one_query(scores[docs], self.labels[docs])
                return
            _queries(self.setup, scores, self.labels, self.indptr, self._docs, *task, residuals, weights)

        each: Callable[..., Any] = map if self._pool is None else self._pool.map
        list(each(run, self._tasks))
        if self._weights is not None:
            residuals *= self._weights
            weights *= self._weights
        return residuals, weights

    def one_query(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        """The same for one query, its weight left out; of equal scores that which stands first is ranked first."""
        residuals, weights = np.empty(len(scores)), np.empty(len(scores))
        if not self.by_swaps:
            query_lambdas(self.setup, scores, labels, lambda_space(len(scores)), residuals, weights)
            return residuals, weights
        assert self.measure is not None
        order = np.argsort(-scores, kind="stable")
        up, curve, spare = np.empty(len(order)), np.empty(len(order)), np.empty(len(order))
        table = np.ascontiguousarray(self.measure.swap_deltas(labels[order]), np.float64)
        _query(
            _TABLE, labels[order], scores[order], self.truncation, self._top, self._logistic, self._discounts,
            self._gains, table, spare, spare, up, curve,
        )  # fmt: skip
        residuals[order], weights[order] = up, curve
        return residuals, weights

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def ranknet_cost(scores: Array, labels: Array, indptr: Array) -> float:
    """Σ log(1 + e^−(s_i − s_j)) over the pairs with z_i > z_j of every query, whose derivative RankNet descends."""
    total = 0.0
    for q in range(len(indptr) - 1):
        s, z = scores[indptr[q] : indptr[q + 1]], labels[indptr[q] : indptr[q + 1]]
        wins = z[:, None] > z[None, :]
        total += float(np.logaddexp(0.0, s[None, :] - s[:, None])[wins].sum())
    return total


def _tasks(indptr: Array) -> list[tuple[int, int]]:
    """Runs of queries of about equal numbers of documents."""
    n_tasks = max(1, int(indptr[-1]) // _TASK_DOCS)
    cuts = np.unique(np.searchsorted(indptr, np.linspace(0, indptr[-1], n_tasks + 1)))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
