"""Compiled parts of the exact line search: what happens to a measure between two ends of a piece of a line.

Between two ends the scores of a document go from p to q. Document b, below a at the first end, passes it if it is above
at the second, and the share of the way at which this happens is

    t = (p_a − p_b) / ((p_a − p_b) + (q_b − q_a))

An insertion sort by q of the documents in their order by p finds exactly the pairs that swap. In the order of t each of
them moves one document up by one rank and another one down, and what that changes is known in O(1):

    Σ worth · discount(rank)                    nDCG, precision, recall, RBP
    Σ goods · discount(rank)                    AP; goods: relevant documents at or above a relevant one
    Σ [goods = 1] · discount(rank)              RR

Each document changes by its own part only, so that several that meet in one point may be taken in any order: after the
last of them the sum is right. With a cutoff, documents that are below the same ``top`` others at both ends are below
them everywhere between, and are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.measures.oracles.common import WORK, sort_descending

__all__ = ["AP", "LINEAR", "RR", "crossings", "rank_first", "space", "sum_and_sweep", "values"]

LINEAR, AP, RR = range(3)
_FEW = 24
_SMALLEST = 2.0**-30  # share of a piece that is not divided further


@njit(cache=True, nogil=True)
def space(longest: int, room: int) -> Any:
    """Working memory for queries of up to ``longest`` documents, with ``room`` swaps at once."""
    numbers = np.empty((9, longest + 1))
    places = np.empty((5, longest + 1), np.int64)
    events = np.empty((3, room), np.int64)
    return numbers, places, np.empty(room), events, np.empty(WORK * max(longest, room) + 512)


@njit(cache=True, nogil=True, error_model="numpy")
def rank_first(scores: Any, count: int, places: Any, work: Any) -> None:
    """Fill ``places`` with the ``count`` highest scores in descending order, equal ones as they stand."""
    n = scores.size
    if count > 2 * _FEW:
        sort_descending(scores, places[:n], work)
        return
    for i in range(n):
        score = scores[i]
        if i < count:
            j = i - 1
        elif score > scores[places[count - 1]]:
            j = count - 2
        else:
            continue
        while j >= 0 and scores[places[j]] < score:
            places[j + 1] = places[j]
            j -= 1
        places[j + 1] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _start(kind: int, worth: Any, discounts: Any, goods: Any) -> float:
    """The value of documents in the order in which they stand, not yet normalised."""
    total, found = 0.0, 0
    for r in range(worth.size):
        if kind == LINEAR:
            total += worth[r] * discounts[r]
        elif worth[r] > 0.0:
            found += 1
            total += discounts[r] * (found if kind == AP else found == 1)
        goods[r] = found
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def crossings(p: Any, q: Any, order: Any, times: Any, upper: Any, lower: Any) -> int:
    """The pairs that swap, of documents in descending order of ``p``; −1 where there is no room for them."""
    found = 0
    for b in range(p.size):
        above, j = q[b], b - 1
        while j >= 0 and q[order[j]] < above:
            a = order[j]
            if found == times.size:
                return -1
            fall = p[a] - p[b]
            times[found] = fall / (fall + (above - q[a]))
            upper[found], lower[found] = a, b
            found += 1
            order[j + 1] = a
            j -= 1
        order[j + 1] = b
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _insert(times: Any, order: Any, moves: int) -> bool:
    """Sort by insertion; False where it takes more moves than allowed."""
    for i in range(1, order.size):
        place = order[i]
        time, j = times[place], i - 1
        while j >= 0 and times[order[j]] > time:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = place
        moves -= i - 1 - j
        if moves < 0:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def sort_times(times: Any, order: Any, work: Any) -> None:
    """Fill ``order`` so that the times, from 0 to 1 and spread out, ascend: into buckets, then by insertion."""
    n = times.size
    if n <= _FEW:
        for i in range(n):
            order[i] = i
        _insert(times, order, n * n)
        return
    starts = work[: n + 1].view(np.int64)
    for i in range(n + 1):
        starts[i] = 0
    for i in range(n):
        starts[min(np.int64(times[i] * n), n - 1) + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    for i in range(n):
        bucket = min(np.int64(times[i] * n), n - 1)
        order[starts[bucket]] = i
        starts[bucket] += 1
    if not _insert(times, order, 8 * n):
        for i in range(n):
            times[i] = -times[i]
        sort_descending(times, order, work)
        for i in range(n):
            times[i] = -times[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _contenders(p: Any, q: Any, top: int, first: Any, last: Any, kept: Any) -> int:
    """The documents that may be among the first ``top`` between two ends, in descending order of ``p``; how many.

    ``first`` and ``last`` are the first ``top`` at the two ends.
    """
    n = p.size
    for r in range(min(top, n)):
        kept[r] = first[r]
    if top >= n:
        return n
    low_p, low_q, p_of_last, q_of_first = p[first[top - 1]], q[last[top - 1]], np.inf, np.inf
    for r in range(top):
        p_of_last, q_of_first = min(p_of_last, p[last[r]]), min(q_of_first, q[first[r]])
    found = top
    for i in range(n):
        if q[i] < q_of_first or p[i] > low_p or (q[i] < low_q and p[i] < p_of_last):
            continue
        known = False
        if p[i] == low_p:
            for r in range(top):
                known = known or first[r] == i
        if not known:
            j = found - 1
            while j >= top and p[kept[j]] < p[i]:
                kept[j + 1] = kept[j]
                j -= 1
            kept[j + 1] = i
            found += 1
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _pass(kind: int, a: int, b: int, worth: Any, discounts: Any, goods: Any, rank: Any) -> float:
    """Document b goes up by one rank, a down: by how much the value changes, not yet normalised."""
    down, up = rank[a], rank[b]
    rank[a], rank[b] = down + 1, up - 1
    if kind == LINEAR:
        return worth[b] * (discounts[up - 1] - discounts[up]) - worth[a] * (discounts[down] - discounts[down + 1])
    change, both = 0.0, worth[a] > 0.0 and worth[b] > 0.0
    if worth[b] > 0.0:
        change -= discounts[up] * (goods[b] if kind == AP else goods[b] == 1.0)
        goods[b] -= both
        change += discounts[up - 1] * (goods[b] if kind == AP else goods[b] == 1.0)
    if worth[a] > 0.0:
        change -= discounts[down] * (goods[a] if kind == AP else goods[a] == 1.0)
        goods[a] += both
        change += discounts[down + 1] * (goods[a] if kind == AP else goods[a] == 1.0)
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_piece(
    kind: int, top: int, p: Any, q: Any, worth: Any, discounts: Any, first: Any, last: Any, memory: Any,
    low: float, high: float, factor: float, at: Any, change: Any, found: int,
) -> tuple[float, int]:  # fmt: skip
    """The value at the first end, and where it changes from there to the second; see `sum_and_sweep`.

    The changes are written from ``found`` on; returned is where they end, −1 if there was no room for the swaps.
    """
    numbers, places, times, events, work = memory
    kept, order, rank = places[2], places[3], places[4]
    m = _contenders(p, q, top, first, last, kept)
    own_p, own_q, own, goods = numbers[4], numbers[5], numbers[6], numbers[7]
    for r in range(m):
        place = kept[r]
        own_p[r], own_q[r], own[r], rank[r] = p[place], q[place], worth[place], r
    value = factor * _start(kind, own[:m], discounts, goods)
    upper, lower, by_time = events
    n = crossings(own_p[:m], own_q[:m], order, times, upper, lower)
    if n < 0:
        return value, -1
    sort_times(times[:n], by_time[:n], work)
    for e in by_time[:n]:
        changed = _pass(kind, upper[e], lower[e], own, discounts, goods, rank)
        if changed != 0.0:
            at[found], change[found] = low + (high - low) * times[e], factor * changed
            found += 1
    return value, found


@njit(cache=True, nogil=True, error_model="numpy")
def _sum(components: Any, weights: Any, start: int, stop: int, scores: Any) -> None:
    for i in range(stop - start):
        scores[i] = 0.0
    for k in range(weights.size):
        weight, column = weights[k], components[k]
        for i in range(stop - start):
            scores[i] += weight * column[start + i]


@njit(cache=True, nogil=True, error_model="numpy")
def values(setup: Any, components: Any, weights: Any, memory: Any) -> float:
    """The sum of the queries' values at some weights of the components, each times its factor."""
    kind, top, queries, indptr, worth, discounts, factors = setup
    numbers, places, _, _, work = memory
    total = 0.0
    for q in queries:
        start, stop = indptr[q], indptr[q + 1]
        n = stop - start
        count = min(top, n)
        scores, first = numbers[0, :n], places[0]
        _sum(components, weights, start, stop, scores)
        rank_first(scores, count, first, work)
        for r in range(count):
            numbers[1, r] = worth[start + first[r]]
        total += factors[q] * _start(kind, numbers[1, :count], discounts, numbers[7])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_and_sweep(
    setup: Any, components: Any, base: Any, step: Any, ends: Any, begin: int, memory: Any, starts: Any, at: Any,
    change: Any,
) -> tuple[int, int]:  # fmt: skip
    """Where the sum of the queries' values changes on a line, and by how much.

    The line runs through ``ends``, pairs (c, s) that stand for the weights c · base + s · step of the components; the
    place t of the way from end i to the next is i + t. To ``starts`` the values at all ends but the last are added.
    The queries are taken from ``begin`` on, as long as there is room for what they may change; returned are the number
    of changes, and where to go on.
    """
    kind, top, queries, indptr, worth, discounts, factors = setup
    numbers, places, times, _, work = memory
    found, n_pieces = 0, len(ends) - 1
    for number in range(begin, queries.size):
        q = queries[number]
        start, stop = indptr[q], indptr[q + 1]
        n = stop - start
        count = min(top, n)
        if at.size - found < n_pieces * times.size:
            return found, number
        along, across, p, far = numbers[0, :n], numbers[1, :n], numbers[2, :n], numbers[3, :n]
        first, last = places[0], places[1]
        _sum(components, base, start, stop, along)
        _sum(components, step, start, stop, across)
        for i in range(n):
            p[i] = ends[0, 0] * along[i] + ends[0, 1] * across[i]
        rank_first(p, count, first, work)
        for piece in range(n_pieces):
            for i in range(n):
                far[i] = ends[piece + 1, 0] * along[i] + ends[piece + 1, 1] * across[i]
            rank_first(far, count, last, work)
            value, found = _sweep_piece(
                kind, top, p, far, worth[start:stop], discounts, first, last, memory, piece, piece + 1.0, factors[q],
                at, change, found,
            )  # fmt: skip
            starts[piece] += value
            p, far = far, p
            first, last = last, first
    return found, queries.size
