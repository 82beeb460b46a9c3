"""A ranking measure along a line of scores, exactly.

Scores move as base + t · step. The measure of a query changes only where two of its documents swap places, at

    t = (base_j − base_i) / (step_i − step_j)

so that its values between these breakpoints are all there are. The documents of a query are kept in order while t runs
through its breakpoints; for nDCG, AP and RR a swap of neighbours changes the value by something known in O(1), for other
measures the values of the orders are computed, many at a time. With a cutoff only the ranks that count are kept in
order: the next swap is the earliest among those of neighbours there, and of the last of them with any document below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.measures import Measure, Rankings
from rankwright.measures.ap import AP
from rankwright.measures.ndcg import nDCG
from rankwright.measures.oracles.common import WORK, sort_descending
from rankwright.measures.rr import RR

__all__ = ["MeasureOnLines"]

Array = npt.NDArray[Any]
_NDCG, _AP, _RR, _OTHER = range(4)
_TOGETHER = 1e-9  # breakpoints this close, relative to their size, are one
_SHARES = (0.5, 0.4729, 0.5381, 0.3127, 0.6911)  # of an interval, tried in this order
_ROWS = 1 << 17  # labels that are valued at once
_FEW = 32  # documents for which looking at all of them for the next swap is fast


@njit(cache=True, nogil=True, error_model="numpy")
def _order_queries(indptr: Any, keys: Any, order: Any, work: Any) -> None:
    """The rows of every query in descending order of their keys, equal ones as they stand."""
    for q in range(indptr.size - 1):
        start, stop = indptr[q], indptr[q + 1]
        if stop > start:
            sort_descending(keys[start:stop], order[start:stop], work)
            for i in range(start, stop):
                order[i] += start


@njit(cache=True, nogil=True, error_model="numpy")
def _breakpoints(base: Any, step: Any, times: Any, pairs: Any) -> int:
    """Where two documents swap places, as −t, and which; how many."""
    n, found = base.size, 0
    for i in range(n):
        for j in range(i + 1, n):
            apart = step[i] - step[j]
            if apart != 0.0:
                t = (base[j] - base[i]) / apart
                if np.isfinite(t):
                    times[found] = -t
                    pairs[found] = i * n + j
                    found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _swap(kind: int, r: int, order: Any, worth: Any, discounts: Any, goods: Any) -> float:
    """Swap the neighbours at ranks r and r + 1; by how much the value changes, not yet normalised."""
    upper, lower = order[r], order[r + 1]
    order[r], order[r + 1] = lower, upper
    rise = worth[lower] - worth[upper]
    if rise == 0.0:
        return 0.0
    drop = discounts[r] - discounts[r + 1]
    if kind == _NDCG:
        return rise * drop
    # AP, RR: worth is 1 for the relevant; goods[r] counts those at the ranks up to r.
    count = goods[r + 1] if rise > 0.0 else goods[r]
    goods[r] += 1 if rise > 0.0 else -1
    if kind == _AP:
        return rise * count * drop
    return rise * drop if count == 1 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(
    kind: int, base: Any, step: Any, worth: Any, discounts: Any, times: Any, sorted_by_time: Any, pairs: Any,
    order: Any, place: Any, goods: Any, at: Any, change: Any, orders: Any, first: int,
) -> tuple[int, int]:  # fmt: skip
    """Run through the breakpoints from number ``first`` on; changes go to ``at`` and ``change``, or orders to ``orders``.

    Returns how many changes there were, and the breakpoint to go on with.
    """
    n, n_times, found = base.size, times.size, 0
    e = first
    while e < n_times and (kind != _OTHER or found < orders.shape[0]):
        now = -times[sorted_by_time[e]]
        stop = e
        last = now
        while stop < n_times and -times[sorted_by_time[stop]] - now <= _TOGETHER * (1.0 + abs(now)):
            last = -times[sorted_by_time[stop]]
            stop += 1
        after = -times[sorted_by_time[stop]] if stop < n_times else last + 1.0 + abs(last)
        t = 0.5 * (last + after)
        total, moved = 0.0, False
        for k in range(e, stop):
            pair = pairs[sorted_by_time[k]]
            for doc in (pair // n, pair % n):
                score, r = base[doc] + t * step[doc], place[doc]
                while r > 0 and base[order[r - 1]] + t * step[order[r - 1]] < score:
                    moved = moved or worth[order[r - 1]] != worth[doc]
                    place[order[r - 1]] = r
                    total += _swap(kind, r - 1, order, worth, discounts, goods)
                    r -= 1
                while r + 1 < n and base[order[r + 1]] + t * step[order[r + 1]] > score:
                    moved = moved or worth[order[r + 1]] != worth[doc]
                    place[order[r + 1]] = r
                    total += _swap(kind, r, order, worth, discounts, goods)
                    r += 1
                place[doc] = r
        if moved and (kind == _OTHER or total != 0.0):
            at[found], change[found] = 0.5 * (now + last), total
            if kind == _OTHER:
                for r in range(n):
                    orders[found, r] = worth[order[r]]
            found += 1
        e = stop
    return found, e


@njit(cache=True, nogil=True, error_model="numpy")
def _meet(base: Any, step: Any, upper: int, lower: int) -> float:
    """When the lower document passes the upper one; never, if it rises no faster."""
    faster = step[lower] - step[upper]
    return (base[upper] - base[lower]) / faster if faster > 0.0 else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _first_to_pass(base: Any, step: Any, order: Any, last: int) -> tuple[float, int]:
    """When a document below passes the one at rank ``last``, and at which rank it stands now."""
    soonest, where = np.inf, -1
    for r in range(last + 1, order.size):
        t = _meet(base, step, order[last], order[r])
        # Of documents that are always equal the first one stays above.
        if t < soonest or (t == soonest and where >= 0 and order[r] < order[where]):
            soonest, where = t, r
    return soonest, where


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_top(
    kind: int, top: int, base: Any, step: Any, worth: Any, discounts: Any, order: Any, goods: Any, at: Any, change: Any,
    orders: Any, soon: Any, now: float,
) -> tuple[int, float]:  # fmt: skip
    """The same for the first ``top`` ranks, from t = ``now`` on; ends when there is no swap left or no room.

    One swap at a time, and a document is only passed by one of larger step: swaps at the same t need no care. ``soon``
    holds when the document at each rank is passed by the next one, and the last that counts by any.
    """
    found, last = 0, min(top, base.size) - 1
    for r in range(last):
        soon[r] = _meet(base, step, order[r], order[r + 1])
    soon[last], where = _first_to_pass(base, step, order, last)
    while found < at.size and (kind != _OTHER or found < orders.shape[0]):
        r = 0
        for other in range(1, last + 1):
            if soon[other] < soon[r]:
                r = other
        if soon[r] == np.inf:
            return found, np.inf
        now = max(now, soon[r])
        if r == last:  # a document from below takes the last rank that counts
            order[where], order[last + 1] = order[last + 1], order[where]
            goods[last + 1] = goods[last] + (worth[order[last + 1]] > 0.0)
        changes = worth[order[r]] != worth[order[r + 1]]
        total = _swap(kind, r, order, worth, discounts, goods)
        for place in range(max(r - 1, 0), min(r + 2, last)):
            soon[place] = _meet(base, step, order[place], order[place + 1])
        if r >= last - 1:
            soon[last], where = _first_to_pass(base, step, order, last)
        if changes and (kind == _OTHER or total != 0.0):
            at[found], change[found] = now, total
            if kind == _OTHER:
                for place in range(last + 1):
                    orders[found, place] = worth[order[place]]
            found += 1
    return found, now


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_queries(
    kind: int, top: int, queries: Any, indptr: Any, base: Any, step: Any, worth: Any, discounts: Any, factors: Any,
    order: Any, goods: Any, at: Any, change: Any, orders: Any, soon: Any, first: int, now: float,
) -> tuple[int, int, float]:  # fmt: skip
    """`_sweep_top` for one query after the other, from number ``first`` on; how many changes, and where to go on."""
    found = 0
    while first < queries.size and found < at.size:
        q = queries[first]
        start, stop = indptr[q], indptr[q + 1]
        count, now = _sweep_top(
            kind, top, base[start:stop], step[start:stop], worth[start:stop], discounts, order[start:stop],
            goods[start:stop], at[found:], change[found:], orders, soon, now,
        )  # fmt: skip
        for k in range(found, found + count):
            change[k] *= factors[q]
        found += count
        if now == np.inf:
            first += 1
            now = -np.inf
    return found, first, now


class MeasureOnLines:
    """The mean of a measure over queries, on any line through the space of scores.

    Parameters
    ----------
    labels, indptr : ndarray
        Of the documents; the rows of query ``q`` are ``indptr[q]:indptr[q+1]``. Documents that stay equal on a line
        keep the order they have here.
    measure : Measure
        What to value, with its convention resolved.
    weights : ndarray, optional
        Of the queries.
    """

    def __init__(self, labels: Array, indptr: Array, measure: Measure, weights: Array | None = None) -> None:
        self._indptr, self._sizes = np.asarray(indptr, np.int64), np.diff(indptr)
        self._labels, self._measure = np.asarray(labels, np.float64), measure
        weights = np.ones(len(self._sizes)) if weights is None else np.asarray(weights, np.float64)
        self._weights = weights / max(weights.sum(), 1e-300)
        longest = int(self._sizes.max(initial=1))
        self._work = np.empty(WORK * longest + 512)
        self._top = min(measure.cutoff or longest, longest)
        self._kind, self._worth, self._discounts = _OTHER, self._labels, np.zeros(longest + 1)
        ranks = np.arange(self._top)
        if isinstance(measure, nDCG):
            self._kind, self._worth = _NDCG, np.asarray(measure.gains(self._labels), np.float64)
            self._discounts[: self._top] = measure.discounts(ranks)
        elif isinstance(measure, AP | RR):
            self._kind, self._worth = _AP if isinstance(measure, AP) else _RR, 1.0 * (self._labels >= measure.rel)
            self._discounts[: self._top] = 1.0 / (ranks + 1.0)
        rankings = Rankings(self._labels, self._indptr)
        self._norms = self._normalisers(rankings)
        low, high = (edge.reduceat(self._worth, self._indptr[:-1]) for edge in (np.minimum, np.maximum))
        self._counts = measure.has_relevant(rankings)  # the other queries count 0
        changing = self._counts & (self._weights > 0) & (low < high)  # the others never change
        together = changing & ((2 * self._top < self._sizes) | (self._sizes <= _FEW)) & (self._kind != _OTHER)
        self._together, self._alone = np.flatnonzero(together), np.flatnonzero(changing & ~together)

    def _normalisers(self, rankings: Rankings) -> Array:
        if isinstance(self._measure, nDCG):
            ideal = self._measure._dcg(rankings.ideal)
            return np.where(ideal > 0, ideal, np.inf)
        if isinstance(self._measure, AP):
            return np.maximum(self._measure.n_relevant(rankings), 1.0)
        return np.ones(len(self._sizes))

    def value(self, scores: Array) -> float:
        """The mean value of scores; equal ones stay in the order of the rows."""
        return float(self._weights @ self._values(self._descending(scores)))

    def _descending(self, keys: Array) -> Array:
        order = np.empty(len(keys), np.int64)
        _order_queries(self._indptr, np.ascontiguousarray(keys, np.float64), order, self._work)
        return order

    def _values(self, order: Array) -> Array:
        return np.where(self._counts, self._measure.value(Rankings(self._labels[order], self._indptr)), 0.0)

    def along(self, base: Array, step: Array) -> tuple[Array, Array]:
        """The breakpoints, ascending, and the mean value below the first, between each two, and above the last."""
        base, step = np.ascontiguousarray(base, np.float64), np.ascontiguousarray(step, np.float64)
        by_base = self._descending(base)
        order = by_base[self._descending(-step[by_base])]  # at t = −∞ the smallest step is on top
        values = self._values(order)
        start = float(self._weights @ values)
        factors = self._weights / self._norms
        places = order - np.repeat(self._indptr[:-1], self._sizes)
        found = self._swept_together(base, step, places, factors)
        for q in self._alone.tolist():
            rows = slice(self._indptr[q], self._indptr[q + 1])
            at, change = self._of_query(base[rows], step[rows], rows, places[rows], float(values[q]))
            found.append((at, change * factors[q]))
        at, change = (np.concatenate(parts) for parts in zip(*found, strict=True))
        by_time = _ascending(at)
        at, sums = at[by_time], start + np.cumsum(change[by_time])
        kept = np.append(np.diff(at) > _TOGETHER * (1.0 + np.abs(at[1:])), np.ones(min(len(at), 1), bool))
        return at[kept], np.append(start, sums[kept])

    def _swept_together(self, base: Array, step: Array, places: Array, factors: Array) -> list[tuple[Array, Array]]:
        """The breakpoints of all queries that one compiled call can do, and the changes of the mean there."""
        order = places.copy()
        running = np.cumsum(self._worth[order + np.repeat(self._indptr[:-1], self._sizes)] > 0)
        before = np.concatenate([[0], running])[self._indptr[:-1]]
        goods = running - np.repeat(before, self._sizes)
        found, done, now = [(np.empty(0), np.empty(0))], 0, -np.inf
        while done < len(self._together):
            at, change = np.empty(_ROWS), np.empty(_ROWS)
            count, done, now = _sweep_queries(
                self._kind, self._top, self._together, self._indptr, base, step, self._worth, self._discounts, factors,
                order, goods, at, change, np.empty((0, 1)), self._work, np.int64(done), now,
            )  # fmt: skip
            found.append((at[:count], change[:count]))
        return found

    def _of_query(self, base: Array, step: Array, rows: slice, order: Array, first: float) -> tuple[Array, Array]:
        """The breakpoints where a query's value changes, and by how much, not yet normalised."""
        n, worth = len(base), self._worth[rows]
        goods = np.cumsum(worth[order] > 0)
        by_top = 2 * self._top < n or n <= _FEW
        width = min(self._top, n) if by_top else n
        room = max(1, _ROWS // n) if by_top or self._kind == _OTHER else n * (n - 1) // 2
        at, change = np.empty(room), np.empty(room)
        orders = np.empty((room if self._kind == _OTHER else 0, width))
        all_at: list[Array] = []
        all_changes: list[Array] = []

        def add(count: int) -> None:
            nonlocal first
            all_at.append(at[:count].copy())
            all_changes.append(change[:count].copy())
            if self._kind == _OTHER and count:
                known = Rankings(np.tile(self._labels[rows], count), np.arange(count + 1) * n)
                ranked = Rankings(orders[:count].ravel(), np.arange(count + 1) * width, known)
                values = np.append(first, self._measure.value(ranked))
                all_changes[-1], first = np.diff(values), float(values[-1])

        state = (base, step, worth, self._discounts)
        if by_top:
            now = -np.inf
            while now < np.inf:
                count, now = _sweep_top(self._kind, width, *state, order, goods, at, change, orders, self._work, now)
                add(count)
            return np.concatenate(all_at), np.concatenate(all_changes)
        times, pairs = np.empty(n * (n - 1) // 2), np.empty(n * (n - 1) // 2, np.int64)
        n_pairs = _breakpoints(base, step, times, pairs)
        by_time = np.empty(0, np.int64)
        if n_pairs:
            by_time = _ascending(-times[:n_pairs])
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        done = 0
        while done < n_pairs:
            events = (times[:n_pairs], by_time, pairs, order, place, goods, at, change, orders, np.int64(done))
            count, done = _sweep(self._kind, *state, *events)
            add(count)
        return np.concatenate([np.empty(0), *all_at]), np.concatenate([np.empty(0), *all_changes])

    def best(self, base: Array, step: Array) -> tuple[float, float]:
        """The t with the highest value, and that value: 0 if it is one, else the middle of the widest such interval.

        Below the first breakpoint and above the last one, t is as far from it as the breakpoints are apart.
        """
        at, values = self.along(base, step)
        if not len(at):
            return 0.0, float(values[0])
        inside = int(np.searchsorted(at, 0.0))
        highest = values.max()
        enough = highest - 1e-12 * max(1.0, abs(highest))
        if values[inside] >= enough and abs(self.value(base) - values[inside]) < 1e-12:  # no ties just there
            return 0.0, float(values[inside])
        reach = max(at[-1] - at[0], 1e-3 * max(abs(at[0]), abs(at[-1])), 1e-12)
        edges = np.concatenate([[at[0] - 2 * reach], at, [at[-1] + 2 * reach]])
        width = np.where(values >= enough, np.diff(edges), -1.0)
        widest = int(np.argmax(width))
        t = 0.0
        for share in _SHARES:  # documents may be equal, and swap nothing that counts, in the middle too
            t = float(edges[widest] + share * (edges[widest + 1] - edges[widest]))
            if abs(self.value(base + t * step) - values[widest]) < 1e-12:
                break
        return t, float(values[widest])


def _ascending(values: Array) -> Array:
    order = np.empty(len(values), np.int64)
    if len(values):
        sort_descending(-values, order, np.empty(WORK * len(values) + 512))
    return order
