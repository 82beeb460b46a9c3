"""The weights of a sum of scores for which a ranking measure is highest: exact line search, and Powell's directions.

A ranking measure has no gradient; along a line of scores, base + t · step or c · base + s · step on a circle, it is
piecewise constant. The measure of a query changes only where two of its documents swap places, so the values between
these breakpoints are all there are. The line is cut into pieces; on each, the swaps of every query are found and made
in order, which costs O(1) a swap for measures that are sums over positions. For other measures the labels in rank order
are valued, many rankings at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright._types import Arguments, Array
from rankwright.data.order import query_of_row
from rankwright.measures import Measure, Rankings

# Kernels of the exact line search: the changes of a measure from one end of a piece of a line to the other.
#
# On the way from one end to the other the score of a document goes from p to q. Document b, below a at the first end,
# passes it if it is above at the second, after covering the share
#
#     t = (p_a − p_b) / ((p_a − p_b) + (q_b − q_a))
#
# of the way. Taken in order of t, each swap moves one document up by a rank and another one down, which changes the sum
# in O(1):
#
#     Σ worth · discount(rank)                    nDCG, precision, recall, RBP: no credits are given
#     Σ credit(hits) · discount(rank)             AP, RR, success; hits: relevant documents at or above a relevant one
#
# Every document changes only its own part of the sum, so several that meet in one point may be taken in any order:
# after the last one the sum is right. With a cutoff, documents that are below the same `count` others at both ends are
# below them everywhere in between, and are left out.
#
# The working memory is two tables, one of numbers and one of places, with named rows: passing rows as separate arrays
# would cost more than the work done on them. A few documents are sorted by comparing all with all, which needs no
# branches.


FULL = -2  # no room for more changes
FEW = 64  # up to this many are sorted by comparing all with all
LAST = 1.0 - 2.0**-40  # keeps a swap on its own piece, not at the start of the next
# numba compiles a function anew for every literal number it is called with, but not for these.
_NUMBERS: tuple[Any, ...] = tuple(np.int64(number) for number in range(9))
ZERO, _ARRAY, _2, _3 = _NUMBERS[:4]
# Rows of numbers: scores of a query's documents on two axes, and at two ends; then of those that matter.
ALONG, ACROSS, ONE_END, OTHER_END, _OWN_P, _OWN_Q, WORTH, _HITS, _SOME = _NUMBERS
# Rows of places: the first documents at two ends; those that matter; the rank of each; what functions need themselves.
FIRST, OTHER_FIRST, _KEPT, _PLACE, _KNOWN, _SELECTED, RANKS, _ORDER = _NUMBERS[:8]


@njit(cache=True, nogil=True)
def space(longest: int, room: int) -> Any:
    """Working memory for queries of up to ``longest`` documents, with up to ``room`` swaps on a piece."""
    n, m = max(longest, FEW) + 1, max(room, FEW) + 1
    # Of swaps: the passed and the passing document, their order, and space for sorting.
    return np.empty((9, n)), np.zeros((8, n), np.int64), np.empty((1, m)), np.empty((4, m), np.int64)


@njit(cache=True, nogil=True, error_model="numpy")
def put_in_order(f: Array, row: int, n: int, g: Array, out: int, spare: int) -> None:
    """Fill row ``out`` of g with the order of a row of f, highest first, ties in place order."""
    if n <= FEW:
        total = 0
        for i in range(n):
            score, above = f[row, i], 0
            for j in range(n):
                above += f[row, j] > score
            g[spare, i] = above
            total += above
        if 2 * total != n * (n - 1):
            for i in range(n):
                for j in range(i):
                    g[spare, i] += f[row, j] == f[row, i]
        for i in range(n):
            g[out, g[spare, i]] = i
    else:
        source, target, width = out, spare, 1
        for i in range(n):
            g[source, i] = i
        while width < n:  # merge neighbours
            for low in range(0, n, 2 * width):
                i, j, middle, high = low, min(low + width, n), min(low + width, n), min(low + 2 * width, n)
                for k in range(low, high):
                    if j == high or (i < middle and f[row, g[source, i]] >= f[row, g[source, j]]):
                        g[target, k] = g[source, i]
                        i += 1
                    else:
                        g[target, k] = g[source, j]
                        j += 1
            source, target, width = target, source, 2 * width
        if source != out:
            for i in range(n):
                g[out, i] = g[spare, i]


@njit(cache=True, nogil=True, error_model="numpy")
def leaders(f: Array, row: int, n: int, count: int, hints: Array, number: int, g: Array, out: int) -> None:
    """Fill row ``out`` of g with the places of the ``count`` highest scores, highest first, equal ones in place order.

    ``hints[number]`` are any ``count`` places; the higher their scores, the fewer others need checking.
    """
    if n <= FEW // 2 or 2 * count > n:
        put_in_order(f, row, n, g, out, RANKS)
    else:
        lowest, n_found = np.inf, ZERO
        for r in range(count):
            lowest = min(lowest, f[row, hints[number, r]])
        for i in range(n):
            g[_SELECTED, n_found] = i
            n_found += f[row, i] >= lowest
        for k in range(n_found):
            f[_SOME, k] = f[row, g[_SELECTED, k]]
        put_in_order(f, _SOME, n_found, g, out, RANKS)
        for r in range(count):
            g[out, r] = g[_SELECTED, g[out, r]]


@njit(cache=True, nogil=True, error_model="numpy")
def start_value(credits: Array, f: Array, n: int, discounts: Array) -> float:
    """The unnormalised value of the documents with the worths in f, in their order."""
    total, hits = 0.0, 0
    if credits.size == 0:
        for r in range(n):
            total += f[WORTH, r] * discounts[r]
    else:
        for r in range(n):
            if f[WORTH, r] > 0.0:
                hits += 1
                total += discounts[r] * credits[hits]
            f[_HITS, r] = hits
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _contenders(f: Array, near: int, far: int, n: int, count: int, g: Array, first: int) -> int:
    """Keep and count the documents that may be among the first ``count`` between two ends, in order of the near end.

    Row ``first`` of g holds the first ``count`` at the near end. The row of known ones is 0 before and after.
    """
    lowest, n_found = np.inf, ZERO
    for r in range(count):
        document = g[first, r]
        g[_KEPT, r], g[_KNOWN, document] = document, 1
        lowest = min(lowest, f[far, document])
    if count < n:
        for i in range(n):
            g[_SELECTED, n_found] = i
            n_found += (f[far, i] >= lowest) & (g[_KNOWN, i] == 0)
        for k in range(n_found):
            f[_SOME, k] = f[near, g[_SELECTED, k]]
        put_in_order(f, _SOME, n_found, g, _ORDER, RANKS)
        for r in range(n_found):
            g[_KEPT, count + r] = g[_SELECTED, g[_ORDER, r]]
    for r in range(count):
        g[_KNOWN, g[first, r]] = 0
    return count + n_found


@njit(cache=True, nogil=True, error_model="numpy")
def _swaps(f: Array, m: int, g: Array, times: Array, swaps: Array) -> int:
    """The pairs that swap, of documents in descending order of p, and −t of each; −1 if there is no room."""
    n_swaps, room = 0, times.shape[1] - 1
    for b in range(m):  # an insertion sort by q makes exactly these swaps
        j, score = b - 1, f[_OWN_Q, b]
        while j >= 0 and n_swaps <= room and f[_OWN_Q, g[_ORDER, j]] < score:
            if n_swaps < room:
                swaps[0, n_swaps], swaps[1, n_swaps] = g[_ORDER, j], b
            n_swaps += 1
            g[_ORDER, j + 1] = g[_ORDER, j]
            j -= 1
        g[_ORDER, j + 1] = b
    for e in range(min(n_swaps, room)):
        a, b = swaps[0, e], swaps[1, e]
        fall = f[_OWN_P, a] - f[_OWN_P, b]
        times[0, e] = -min(fall / (fall + (f[_OWN_Q, b] - f[_OWN_Q, a])), LAST)
    return n_swaps if n_swaps <= room else -1


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_times(times: Array, n: int, swaps: Array) -> None:
    """Fill row 2 of the swaps with their order by time, descending from 0 to −1; fast if times are spread out."""
    if n <= FEW:
        put_in_order(times, ZERO, n, swaps, _2, _3)
    else:
        moves = 8 * n
        for i in range(n + 1):
            swaps[3, i] = 0
        for i in range(n):
            swaps[3, np.int64(-times[0, i] * n) + 1] += 1
        for i in range(n):
            swaps[3, i + 1] += swaps[3, i]
        for i in range(n):
            bucket = np.int64(-times[0, i] * n)
            swaps[2, swaps[3, bucket]] = i
            swaps[3, bucket] += 1
        for i in range(1, n):
            place, j = swaps[2, i], i - 1
            while j >= 0 and times[0, swaps[2, j]] < times[0, place] and moves > 0:
                swaps[2, j + 1] = swaps[2, j]
                j -= 1
                moves -= 1
            swaps[2, j + 1] = place
        if moves <= 0:  # not spread out
            put_in_order(times, ZERO, n, swaps, _2, _3)


@njit(cache=True, nogil=True, error_model="numpy")
def _pass(credits: Array, a: int, b: int, f: Array, discounts: Array, g: Array) -> float:
    """Unnormalised change of a sum over hits when document b goes up by one rank and a goes down."""
    down, up, change = g[_PLACE, a], g[_PLACE, b], 0.0
    a_counts, b_counts = f[WORTH, a] > 0.0, f[WORTH, b] > 0.0
    if b_counts:
        hits = np.int64(f[_HITS, b])
        f[_HITS, b] = hits - a_counts
        change += discounts[up - 1] * credits[hits - a_counts] - discounts[up] * credits[hits]
    if a_counts:
        hits = np.int64(f[_HITS, a])
        f[_HITS, a] = hits + b_counts
        change += discounts[down + 1] * credits[hits + b_counts] - discounts[down] * credits[hits]
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _apply(
    credits: Array, n: int, f: Array, g: Array, discounts: Array, times: Array, swaps: Array, low: float, high: float,
    factor: float, at: Array, change: Array, n_changes: int,
) -> int:  # fmt: skip
    """Make the swaps one by one and write their changes from ``n_changes`` on; returns where they end."""
    for k in range(n):
        e = swaps[2, k]
        a, b = swaps[0, e], swaps[1, e]
        down, up = g[_PLACE, a], g[_PLACE, b]
        if credits.size == 0:
            changed = f[WORTH, b] * (discounts[up - 1] - discounts[up])
            changed -= f[WORTH, a] * (discounts[down] - discounts[down + 1])
        else:
            changed = _pass(credits, a, b, f, discounts, g)
        g[_PLACE, a], g[_PLACE, b] = down + 1, up - 1
        at[n_changes], change[n_changes] = low - (high - low) * times[0, e], factor * changed
        n_changes += changed != 0.0
    return n_changes


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_piece(
    credits: Array, n: int, count: int, near: int, far: int, first: int, last: int, worth: Array, start: int,
    discounts: Array, f: Array, g: Array, times: Array, swaps: Array, low: float, high: float, factor: float, at: Array,
    change: Array, n_changes: int,
) -> tuple[float, int]:  # fmt: skip
    """The value at the near end, and where it changes on the way to the far one, which are places low and high.

    Changes are written from ``n_changes`` on; returns where they end, −1 without room for the swaps, FULL without room
    for the changes. Row ``first`` of g holds the first documents at the near end, ``last`` is filled with those at the
    far one.
    """
    m = _contenders(f, near, far, n, count, g, first)
    for r in range(m):
        document = g[_KEPT, r]
        f[_OWN_P, r], f[_OWN_Q, r], f[WORTH, r] = f[near, document], f[far, document], worth[start + document]
        g[_PLACE, r] = r
    value = factor * start_value(credits, f, m, discounts)
    n_swaps = _swaps(f, m, g, times, swaps)
    if n_swaps < 0:
        n_changes = -1
    elif n_changes + n_swaps > at.size:
        n_changes = FULL
    else:
        for r in range(count):  # as left by the insertion sort
            g[last, r] = g[_KEPT, g[_ORDER, r]]
        _sort_times(times, n_swaps, swaps)
        n_changes = _apply(credits, n_swaps, f, g, discounts, times, swaps, low, high, factor, at, change, n_changes)
    return value, n_changes


@njit(cache=True, nogil=True, error_model="numpy")
def label_rows(p: Array, q: Array, labels: Array, count: int, memory: Arguments, at: Array, rows: Array) -> int:
    """The first ``count`` labels in rank order at one end, and after every change of them on the way to the other.

    ``at`` is filled with their positions; returns their number, −1 if there was no room for the swaps or the rows.
    """
    f, g, times, swaps = memory
    n, n_rows, e = p.size, _ARRAY, ZERO
    for i in range(n):
        f[ONE_END, i], f[OTHER_END, i] = p[i], q[i]
    put_in_order(f, ONE_END, n, g, FIRST, RANKS)
    m = _contenders(f, ONE_END, OTHER_END, n, count, g, FIRST)
    for r in range(m):
        f[_OWN_P, r], f[_OWN_Q, r], g[_PLACE, r] = p[g[_KEPT, r]], q[g[_KEPT, r]], r
    for r in range(count):
        rows[0, r] = labels[g[_KEPT, r]]
    n_swaps = _swaps(f, m, g, times, swaps)
    _sort_times(times, max(n_swaps, 0), swaps)
    at[0] = 0.0
    while e < n_swaps and n_rows < rows.shape[0]:
        here = last = -times[0, swaps[2, e]]
        while e < n_swaps and -times[0, swaps[2, e]] - here <= 1e-9:
            last = -times[0, swaps[2, e]]
            e += 1
        t, changed = 0.5 * (last + (-times[0, swaps[2, e]] if e < n_swaps else 1.0)), False
        for r in range(1, m):
            document, j = g[_PLACE, r], r - 1
            score = (1.0 - t) * f[_OWN_P, document] + t * f[_OWN_Q, document]
            while j >= 0 and (1.0 - t) * f[_OWN_P, g[_PLACE, j]] + t * f[_OWN_Q, g[_PLACE, j]] < score:
                g[_PLACE, j + 1] = g[_PLACE, j]
                j -= 1
            g[_PLACE, j + 1] = document
        for r in range(count):
            rows[n_rows, r] = labels[g[_KEPT, g[_PLACE, r]]]
            changed = changed or rows[n_rows, r] != rows[n_rows - 1, r]
        at[n_rows] = 0.5 * (here + last)
        n_rows += changed
    return n_rows if e == n_swaps else -1


# Kernels for a whole line: a measure, summed over queries, and its best interval.


_SMALLEST = 2.0**-30  # share of a piece that is not divided further
_1: Any = np.int64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def _jump(
    credits: Array,
    n: int,
    count: int,
    far: int,
    last: int,
    worth: Array,
    start: int,
    discounts: Array,
    f: Array,
    g: Array,
) -> float:
    """The unnormalised value at the far end, and the first documents there, computed at once where very many meet."""
    put_in_order(f, far, n, g, last, RANKS)
    for r in range(count):
        f[WORTH, r] = worth[start + g[last, r]]
    return start_value(credits, f, count, discounts)


@njit(cache=True, nogil=True, error_model="numpy")
def _end(ends: Array, piece: int, share: float, n: int, f: Array, row: int) -> None:
    """The scores after a share of a piece."""
    c = (1.0 - share) * ends[piece, 0] + share * ends[piece + 1, 0]
    s = (1.0 - share) * ends[piece, 1] + share * ends[piece + 1, 1]
    for i in range(n):
        f[row, i] = c * f[ALONG, i] + s * f[ACROSS, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_query(
    credits: Array, n: int, count: int, worth: Array, start: int, discounts: Array, ends: Array, hints: Array,
    number: int, factor: float, f: Array, g: Array, times: Array, swaps: Array, starts: Array, at: Array, change: Array,
    n_changes: int,
) -> int:  # fmt: skip
    """`sweep` for one query; a piece with too many swaps is divided. FULL if there is no room for the changes."""
    near, far, first, last, piece, low, width = ONE_END, OTHER_END, FIRST, OTHER_FIRST, ZERO, 0.0, 1.0
    _end(ends, piece, low, n, f, near)
    leaders(f, near, n, count, hints, number, g, first)
    while n_changes >= 0 and piece < starts.size:
        high = min(low + width, 1.0)
        _end(ends, piece, high, n, f, far)
        value, end = sweep_piece(
            credits, n, count, near, far, first, last, worth, start, discounts, f, g, times, swaps, piece + low,
            piece + high, factor, at, change, n_changes,
        )  # fmt: skip
        if end == -1 and width > _SMALLEST:
            width *= 0.5
            continue
        if end == -1 and n_changes == at.size:
            end = FULL
        if end == -1:
            at[n_changes] = piece + high * LAST
            change[n_changes] = factor * _jump(credits, n, count, far, last, worth, start, discounts, f, g) - value
            end = n_changes + 1
        if low == 0.0:
            starts[piece] = value
        n_changes, low, width = end, high, 2.0 * width
        near, far, first, last = far, near, last, first
        if low == 1.0:
            piece, low, width = piece + 1, 0.0, 1.0
    return n_changes


@njit(cache=True, nogil=True, error_model="numpy")
def _sum(components: Array, weights: Array, start: int, n: int, f: Array, row: int) -> None:
    for i in range(n):
        f[row, i] = weights[0] * components[0, start + i]
    for k in range(1, weights.size):
        for i in range(n):
            f[row, i] += weights[k] * components[k, start + i]


@njit(cache=True, nogil=True, error_model="numpy")
def line_values(setup: Arguments, components: Array, weights: Array, hints: Array, memory: Arguments) -> float:
    """Sum of the queries' values, each times its factor, at some weights of the components; improves the hints."""
    credits, top, queries, indptr, worth, discounts, factors = setup
    f, g, _, _ = memory
    total = 0.0
    for number in range(queries.size):
        q = queries[number]
        start, n = indptr[q], indptr[q + 1] - indptr[q]
        count = min(top, n)
        _sum(components, weights, start, n, f, ONE_END)
        leaders(f, ONE_END, n, count, hints, number, g, FIRST)
        for r in range(count):
            f[WORTH, r] = worth[start + g[FIRST, r]]
        for r in range(min(count, hints.shape[1])):
            hints[number, r] = g[FIRST, r]
        total += factors[q] * start_value(credits, f, count, discounts)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(
    setup: Arguments, components: Array, base: Array, step: Array, ends: Array, begin: int, hints: Array,
    memory: Arguments, starts: Array, at: Array, change: Array,
) -> tuple[int, int]:  # fmt: skip
    """Positions at which the sum of the queries' values changes on a line, and the changes.

    The line runs through ``ends``, pairs (c, s) meaning the weights c · base + s · step of the components; place i + t
    is t of the way from end i to the next. The values at all ends but the last are added to ``starts``. Queries are
    taken from ``begin`` on while there is room for their changes; returns the number of changes and where to go on.
    """
    credits, top, queries, indptr, worth, discounts, factors = setup
    f, g, times, swaps = memory
    n_changes, number, of_query = ZERO, begin, np.empty(starts.size)
    while number < queries.size:
        q = queries[number]
        start, n = indptr[q], indptr[q + 1] - indptr[q]
        _sum(components, base, start, n, f, ALONG)
        _sum(components, step, start, n, f, ACROSS)
        end = _sweep_query(
            credits, n, min(top, n), worth, start, discounts, ends, hints, number, factors[q], f, g, times, swaps,
            of_query, at, change, n_changes,
        )  # fmt: skip
        if end == FULL:
            break
        n_changes = end
        for piece in range(of_query.size):
            starts[piece] += of_query[piece]
        number += 1
    return n_changes, number


@njit(cache=True, nogil=True, error_model="numpy")
def _promising(starts: Array, at: Array, change: Array, bins: int, before: Array) -> Any:
    """Marks bins that may hold the highest value: value at the start plus all rises is high enough.

    ``before`` is filled with the values at the start of the bins. The second number is the highest known value.
    """
    n = before.size
    net, rise, marked, bound = np.zeros(n), np.zeros(n), np.empty(n, np.bool_), -np.inf
    for e in range(at.size):
        bin_ = np.int64(at[e] * bins)
        net[bin_] += change[e]
        rise[bin_] += max(change[e], 0.0)
    for b in range(n):
        before[b] = starts[b // bins] if b % bins == 0 else before[b - 1] + net[b - 1]
        bound = max(bound, before[b], before[b] + net[b])
    for b in range(n):
        marked[b] = before[b] + rise[b] >= bound - _SAME
    return marked, bound


@njit(cache=True, nogil=True, error_model="numpy")
def best_place(starts: Array, at: Array, change: Array, bins: int, apart: float) -> tuple[float, float, float]:
    """The highest value on an interval wider than ``apart``, and the ends of the widest such interval.

    ``starts``, ``at`` and ``change`` are what `sweep` found. Every piece is divided into ``bins``, and changes are
    sorted only in those that may hold the highest value; in all of them if the highest known value was one of no width,
    between documents that meet.
    """
    n = starts.size * bins
    before = np.empty(n)
    marked, bound = _promising(starts, at, change, bins, before)
    best, low, high = -np.inf, 0.0, 0.0
    while True:
        n_found, candidates = ZERO, np.empty(at.size, np.int64)
        for e in range(at.size):
            candidates[n_found] = e
            n_found += marked[np.int64(at[e] * bins)]
        keys, order, k = np.empty((1, n_found)), np.empty((2, n_found + FEW), np.int64), 0
        for e in range(n_found):
            keys[0, e] = -at[candidates[e]]
        put_in_order(keys, ZERO, n_found, order, ZERO, _1)
        for b in range(n):
            value, since, more = before[b], b / bins, marked[b]
            while more:
                more = k < n_found and np.int64(-keys[0, order[0, k]] * bins) == b
                until = -keys[0, order[0, k]] if more else (b + 1) / bins
                wider = until - since > high - low
                if until - since > apart and (value > best + _SAME or (value > best - _SAME and wider)):
                    best, low, high = max(best, value), since, until
                if more:
                    value, since = value + change[candidates[order[0, k]]], until
                    k += 1
        if best >= bound - 10.0 * _SAME or marked.all():
            return best, low, high
        marked[:] = True


_TOGETHER = 1e-9  # breakpoints this close, relative to their size, are one
_SAME = 1e-12  # values this close are equal
_SHARES = (0.5, 0.4729, 0.5381, 0.3127, 0.6911)  # of an interval, tried in this order
_ROOM = 1 << 16  # swaps on a piece of one query
_BUFFER = 1 << 16  # changes at first
_ROWS = 1 << 18  # labels valued at once
_PER_BIN = 16  # changes


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of a line on which a measure is constant; places are as in :meth:`MeasureOnLines.widest_best`."""

    low: float
    high: float
    value: float
    ends: Array

    def inside(self) -> Iterator[tuple[float, float]]:
        """Some points (c, s): the middle and others, as documents may happen to be tied in the middle."""
        for share in _SHARES:
            place = self.low + share * (self.high - self.low)
            piece = min(int(place), len(self.ends) - 2)
            c, s = (1.0 - place + piece) * self.ends[piece] + (place - piece) * self.ends[piece + 1]
            yield float(c), float(s)


class MeasureOnLines:
    """The mean of a measure, its convention resolved, over queries, on any line through the space of scores.

    Documents that stay equal on a line keep the order they have here. `weights`: of the queries. `targets`: what every
    document is worth to the mean, minus the average of its query: good scores correlate with it.
    """

    def __init__(self, labels: Array, indptr: Array, measure: Measure, weights: Array | None = None) -> None:
        self.indptr, sizes = np.asarray(indptr, np.int64), np.diff(indptr)
        self._labels, self._measure = np.array(labels, np.float64), measure
        weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, np.float64)
        self._weights = weights / max(weights.sum(), 1e-300)
        longest = int(sizes.max(initial=1))
        self._top = min(measure.cutoff or longest, longest)
        rankings = Rankings(self._labels, self.indptr)
        form = measure.position_sum()
        counts = measure.has_relevant(rankings) & (self._weights > 0)  # the other queries count 0
        worth = self._labels if form is None else np.array(form.worth(self._labels), np.float64)
        differ = rankings.max(worth) > -rankings.max(-worth)
        self._queries, constant = (
            np.flatnonzero(counts & differ),
            counts & ~differ,
        )  # constant: any order has the same value
        self._constant = float(self._weights[constant] @ np.asarray(measure.value(rankings))[constant])
        self._memory = space(longest, min(_ROOM, longest * (longest - 1) // 2 + 1))
        self._setup: tuple[Any, ...] | None = None
        query_weights = self._weights
        if form is not None:
            query_weights = self._weights / form.norms(rankings)
            discounts = np.zeros(longest + 2)
            discounts[: self._top] = form.discounts(np.arange(self._top))
            credits = form.credits(np.arange(longest + 2))
            credits = np.empty(0) if credits is None else credits
            self._setup = (credits, self._top, self._queries, self.indptr, worth, discounts, query_weights)
        query_weights = np.where(np.isin(np.arange(len(sizes)), self._queries), query_weights, 0.0)
        self.targets = worth * np.repeat(query_weights, sizes)
        self.targets -= np.repeat(rankings.sum(self.targets) / np.maximum(sizes, 1), sizes)
        self._usual = float(np.median(sizes[self._queries])) if len(self._queries) else 1.0
        hinted = self._top if 2 * self._top <= longest else 1
        self._hints = np.tile(np.arange(hinted), (len(self._queries), 1))
        self._at, self._change = np.empty(_BUFFER), np.empty(_BUFFER)

    @property
    def n_effective(self) -> float:
        """Number of queries that can change, or the number of equally weighted ones that would vary as much."""
        weights = self._weights[self._queries]
        return float(weights.sum() ** 2 / (weights @ weights)) if len(weights) else 0.0

    def spread(self, components: Array) -> Array:
        """The covariances of components (rows) within queries: of differences from the query's mean.

        Summed from the first document to the last: a matrix product's sums would depend on its threads.
        """
        sizes, query = np.diff(self.indptr), query_of_row(self.indptr)
        means = np.array([np.bincount(query, row, len(sizes)) for row in components]) / np.maximum(sizes, 1)
        centred = components - means[:, query]
        return np.einsum("ik,jk->ij", centred, centred) / max(1, components.shape[1])

    def value(self, scores: Array) -> float:
        """The mean value of scores; ties keep the order of the rows."""
        return self.value_of(np.ascontiguousarray(scores, np.float64)[np.newaxis], np.ones(1))

    def value_of(self, components: Array, weights: Array) -> float:
        """The mean value of Σ weight · component; the components are the rows of a C-contiguous table of float64."""
        if self._setup is not None:
            return self._constant + float(line_values(self._setup, components, weights, self._hints, self._memory))
        order = np.lexsort((-(weights @ components), query_of_row(self.indptr)))
        values = np.asarray(self._measure.value(Rankings(self._labels[order], self.indptr)))[self._queries]
        return self._constant + float(self._weights[self._queries] @ values)

    def ends(self, low: float, high: float) -> Array:
        """Points (cos, sin) of an arc, close enough to each other for a fast search."""
        # Fewer documents matter on shorter pieces, but every piece has a fixed cost.
        piece = np.deg2rad(min(max(800.0 / max(self._usual, 1.0), 12.0), 40.0))
        angles = np.linspace(low, high, max(1, round((high - low) / piece)) + 1)
        return np.column_stack([np.cos(angles), np.sin(angles)])

    def widest_best(self, components: Array, base: Array, step: Array, ends: Array) -> Stretch:
        """The widest interval where the value is highest, on a line from each end to the next.

        `components`: as for :meth:`value_of`. `base`, `step`: weights of the components. `ends` (shape (n, 2)): pairs
        (c, s), meaning the weights c · base + s · step; less than half a turn apart. Place i + t is t of the way from
        end i to the next.
        """
        starts, at, change = self._changes(components, base, step, ends)
        bins = max(1, len(at) // (_PER_BIN * len(starts)))
        value, low, high = best_place(starts, at, change, np.int64(bins), _TOGETHER)
        return Stretch(low, high, value, ends)

    def _changes(self, components: Array, base: Array, step: Array, ends: Array) -> tuple[Array, Array, Array]:
        """The values at all ends but the last; where the value changes, in no order, and by how much."""
        starts = np.full(len(ends) - 1, self._constant)
        if self._setup is None:
            return self._changes_by_rankings(base @ components, step @ components, ends, starts)
        n_changes, n_done = 0, 0
        while n_done < len(self._queries):
            count, n_done = sweep(
                self._setup, components, base, step, ends, np.int64(n_done), self._hints, self._memory, starts,
                self._at[n_changes:], self._change[n_changes:],
            )  # fmt: skip
            n_changes += count
            if n_done < len(self._queries):
                self._at, self._change = (np.concatenate([memory, memory]) for memory in (self._at, self._change))
        return starts, self._at[:n_changes], self._change[:n_changes]

    def _changes_by_rankings(
        self, along: Array, across: Array, ends: Array, starts: Array
    ) -> tuple[Array, Array, Array]:
        """The same for a measure that is not a sum over positions."""
        changes = [(np.empty(0), np.empty(0))]
        for q in self._queries.tolist():
            rows = slice(self.indptr[q], self.indptr[q + 1])
            for piece in range(len(starts)):
                at, values = self._of_query(along[rows], across[rows], rows, ends[piece : piece + 2])
                starts[piece] += self._weights[q] * values[0]
                changes.append((piece + at[1:], self._weights[q] * np.diff(values)))
        at, change = (np.concatenate(arrays) for arrays in zip(*changes, strict=True))
        return starts, at, change

    def _of_query(self, along: Array, across: Array, rows: slice, ends: Array) -> tuple[Array, Array]:
        """Where the value of a query changes on a piece, from 0 on, and the values from there on."""
        p, q = (c * along + s * across for c, s in ends)
        count, labels = min(self._top, len(p)), self._labels[rows]
        room = max(2, _ROWS // len(p))
        at, lists = np.empty(room), np.empty((room, count))
        n = label_rows(p, q, labels, np.int64(count), self._memory, at, lists)
        if n < 0 and np.abs(ends[1] - ends[0]).max() > 1e-9:  # too many swaps at once: split in half
            middle = ends.mean(axis=0)
            halves = [
                self._of_query(along, across, rows, np.array(half)) for half in ((ends[0], middle), (middle, ends[1]))
            ]
            (first, below), (second, above) = halves
            unchanged = int(above[0] == below[-1])
            return np.append(first / 2, (1 + second[unchanged:]) / 2), np.append(below, above[unchanged:])
        n = max(n, 1)
        rankings = Rankings(np.tile(labels, n), np.arange(n + 1) * len(labels))
        ranked = Rankings(lists[:n].ravel(), np.arange(n + 1) * count, rankings)
        return at[:n], np.asarray(self._measure.value(ranked))


# Powell's direction-set search for the weights of a sum of scores, with the exact line search above.
#
# Only the direction of the weights matters, so the search moves on a sphere: a line is an arc through the current
# point, and angles are measured by how much scores differ, u · S v with S the spread of the components.
#
# From a start the search looks around on the half circle towards the least-squares fit of what documents are worth,
# then climbs along arcs: the axes, the direction of the last round, and random directions. From the best point it leaps
# to a point nearby and climbs again. The value is smooth near its best point apart from noise, which averages out over
# independent parts: the more of them, the shorter the arcs and leaps. With two components the sphere is a circle, which
# is searched completely: the result is the optimum.


_GAIN = 1e-12  # least improvement
_ARC = np.deg2rad(100.0)  # half the length of an arc, times the root of `n_effective`
_SHORTEST, _LONGEST = np.deg2rad(2.0), np.pi / 2
_LOOKS = np.deg2rad([-60.0, -30.0, 30.0, 60.0])
_LEAP = (0.3, 1.2)  # least and greatest, in half arcs
_LINES = 20  # per component, from a start or after a leap
_FLAT = 1e-9  # directions this close to the weights are useless


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best weights, of length 1, their value, and the number of line searches."""

    weights: Array
    value: float
    n_lines: int


def direction_set_search(
    components: Array,
    measure: MeasureOnLines,
    starts: Sequence[npt.ArrayLike],
    *,
    leaps: int | None = None,
    seed: int = 0,
) -> Optimum:
    """Search for the weights w with the highest value of ``components @ w``.

    `components`: the scores to add up, of shape (documents, components). `starts`: weights to start from; of equally
    good results the first is taken. `leaps`: leaps from the best point; by default three for every two starts.
    """
    search = _Search(components, measure, np.random.default_rng(seed))
    for start in starts:
        search.climb(np.array(start, np.float64))
    if search.n_components > 2:
        for _ in range((3 * len(starts) + 1) // 2 if leaps is None else leaps):
            search.leap()
    weights = search.best[0]
    return Optimum(weights / (np.linalg.norm(weights) or 1.0), search.best[1], search.n_lines)


class _Search:
    def __init__(self, components: Array, measure: MeasureOnLines, rng: np.random.Generator) -> None:
        self._components = np.ascontiguousarray(components.T, np.float64)
        self._measure, self._rng = measure, rng
        self.n_components = len(self._components)
        self._spread = measure.spread(self._components)
        variances, axes = np.linalg.eigh(self._spread)
        varies = variances > 1e-12 * variances.max(initial=0.0)
        self._even = axes[:, varies] / np.sqrt(variances[varies])  # makes random directions even
        towards = np.einsum("ik,k->i", self._components, measure.targets)
        self._towards = self._even @ (self._even.T @ towards)
        arc = float(np.clip(_ARC / np.sqrt(max(measure.n_effective, 1.0)), _SHORTEST, _LONGEST))
        self._arc, self._ends = arc, measure.ends(-arc, arc)
        self.n_lines = 0
        self.best = np.zeros(self.n_components), -np.inf

    def climb(self, weights: Array) -> None:
        """Climb from a start until no direction leads higher."""
        self._begin(weights)
        self._look_around()
        if self.n_components > 2:
            self._rounds()
        elif self.n_components == 2 and not self.n_lines:  # the whole circle, once
            self._move(np.array([-self._weights[-1], self._weights[0]]), self._measure.ends(-np.pi, np.pi))
        self._keep()

    def leap(self) -> None:
        """Climb from a point near the best one."""
        weights = self.best[0]
        side = self._side(weights, self._draw())
        if side is not None:
            angle = self._arc * self._rng.uniform(*_LEAP)
            self._begin(np.cos(angle) * weights + np.sin(angle) * side)
            self._rounds()
            self._keep()

    def _begin(self, weights: Array) -> None:
        self._weights, self._value = self._unit(weights), -np.inf
        self._try(weights)

    def _keep(self) -> None:
        if self._value > self.best[1] + _GAIN:
            self.best = self._weights, self._value

    def _look_around(self) -> None:
        """Move to the best of some points towards the least-squares fit and beyond."""
        weights, side = self._weights, self._side(self._weights, self._towards)
        self._try(self._towards)
        if side is not None:
            for angle in _LOOKS:
                self._try(np.cos(angle) * weights + np.sin(angle) * side)

    def _rounds(self) -> None:
        """Climb round after round while some direction leads higher."""
        failed, limit = 0, self.n_lines + _LINES * self.n_components
        for direction in self._directions():
            failed = 0 if self._move(direction, self._ends) else failed + 1
            if failed > self.n_components or self.n_lines >= limit:
                return

    def _directions(self) -> Iterator[Array]:
        """The axes, the direction they led in, and as many random ones; again and again."""
        axes = np.eye(self.n_components)
        while True:
            begun = self._weights
            yield from axes
            yield self._weights - begun
            for _ in axes:
                yield self._draw()

    def _draw(self) -> Array:
        return np.asarray(self._even @ self._rng.normal(size=self._even.shape[1]))

    def _length(self, weights: Array) -> float:
        return math.sqrt(max(float(weights @ self._spread @ weights), 0.0))

    def _unit(self, weights: Array) -> Array:
        length = self._length(weights)
        return weights / length if length > 0 else weights

    def _side(self, weights: Array, direction: Array) -> Array | None:
        """The part of a direction orthogonal to the weights, of length 1; None if there is none."""
        side = direction - (weights @ self._spread @ direction) * weights
        length = self._length(side)
        return side / length if length > _FLAT * self._length(direction) else None

    def _move(self, direction: Array, ends: Array) -> bool:
        """Move to the best point of an arc both ways in a direction; returns whether it is higher."""
        side = self._side(self._weights, direction)
        if side is None:
            return False
        self.n_lines += 1
        piece = self._measure.widest_best(self._components, self._weights, side, ends)
        if piece.value <= self._value + _GAIN:
            return False
        old_value, weights = self._value, self._weights
        for c, s in piece.inside():
            self._try(c * weights + s * side)
            if self._value >= piece.value - _GAIN:
                break
        return self._value > old_value

    def _try(self, weights: Array) -> None:
        """Move there if it is higher by more than rounding."""
        if weights.any():
            weights = self._unit(weights)
            value = self._measure.value_of(self._components, weights)
            if value > self._value + _GAIN:
                self._weights, self._value = weights, value
