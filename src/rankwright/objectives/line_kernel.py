"""Compiled parts of the exact line search: the changes of a measure from one end of a piece of a line to the other.

On the way from one end to the other the score of a document goes from p to q. Document b, below a at the first end,
passes it if it is above at the second, after covering the share

    t = (p_a − p_b) / ((p_a − p_b) + (q_b − q_a))

of the way. Taken in order of t, each swap moves one document up by a rank and another one down, which changes the sum
in O(1):

    Σ worth · discount(rank)                    nDCG, precision, recall, RBP: no credits are given
    Σ credit(hits) · discount(rank)             AP, RR, success; hits: relevant documents at or above a relevant one

Every document changes only its own part of the sum, so several that meet in one point may be taken in any order: after
the last one the sum is right. With a cutoff, documents that are below the same ``count`` others at both ends are below
them everywhere in between, and are left out.

The working memory is two tables, one of numbers and one of places, with named rows: passing rows as separate arrays
would cost more than the work done on them. A few documents are sorted by comparing all with all, which needs no
branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "ACROSS", "ALONG", "FEW", "FIRST", "FULL", "LAST", "ONE_END", "OTHER_END", "OTHER_FIRST", "RANKS",
    "WORTH", "ZERO", "label_rows", "leaders", "put_in_order", "space", "start_value", "sweep_piece",
]  # fmt: skip

FULL = -2  # no room for more changes
FEW = 64  # up to this many are sorted by comparing all with all
LAST = 1.0 - 2.0**-40  # keeps a swap on its own piece, not at the start of the next
# numba compiles a function anew for every literal number it is called with, but not for these.
_NUMBERS: tuple[Any, ...] = tuple(np.int64(number) for number in range(9))
ZERO, _1, _2, _3 = _NUMBERS[:4]
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
def put_in_order(f: Any, row: int, n: int, g: Any, out: int, spare: int) -> None:
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
def leaders(f: Any, row: int, n: int, count: int, hints: Any, number: int, g: Any, out: int) -> None:
    """Fill row ``out`` of g with the places of the ``count`` highest scores, highest first, equal ones in place order.

    ``hints[number]`` are any ``count`` places; the higher their scores, the fewer others need checking.
    """
    if n <= FEW // 2 or 2 * count > n:
        put_in_order(f, row, n, g, out, RANKS)
    else:
        least, n_found = np.inf, ZERO
        for r in range(count):
            least = min(least, f[row, hints[number, r]])
        for i in range(n):
            g[_SELECTED, n_found] = i
            n_found += f[row, i] >= least
        for k in range(n_found):
            f[_SOME, k] = f[row, g[_SELECTED, k]]
        put_in_order(f, _SOME, n_found, g, out, RANKS)
        for r in range(count):
            g[out, r] = g[_SELECTED, g[out, r]]


@njit(cache=True, nogil=True, error_model="numpy")
def start_value(credits: Any, f: Any, n: int, discounts: Any) -> float:
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
def _contenders(f: Any, near: int, far: int, n: int, count: int, g: Any, first: int) -> int:
    """Keep and count the documents that may be among the first ``count`` between two ends, in order of the near end.

    Row ``first`` of g holds the first ``count`` at the near end. The row of known ones is 0 before and after.
    """
    least, n_found = np.inf, ZERO
    for r in range(count):
        document = g[first, r]
        g[_KEPT, r], g[_KNOWN, document] = document, 1
        least = min(least, f[far, document])
    if count < n:
        for i in range(n):
            g[_SELECTED, n_found] = i
            n_found += (f[far, i] >= least) & (g[_KNOWN, i] == 0)
        for k in range(n_found):
            f[_SOME, k] = f[near, g[_SELECTED, k]]
        put_in_order(f, _SOME, n_found, g, _ORDER, RANKS)
        for r in range(n_found):
            g[_KEPT, count + r] = g[_SELECTED, g[_ORDER, r]]
    for r in range(count):
        g[_KNOWN, g[first, r]] = 0
    return count + n_found


@njit(cache=True, nogil=True, error_model="numpy")
def _swaps(f: Any, m: int, g: Any, times: Any, swaps: Any) -> int:
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
def _sort_times(times: Any, n: int, swaps: Any) -> None:
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
def _pass(credits: Any, a: int, b: int, f: Any, discounts: Any, g: Any) -> float:
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
    credits: Any, n: int, f: Any, g: Any, discounts: Any, times: Any, swaps: Any, low: float, high: float,
    factor: float, at: Any, change: Any, n_changes: int,
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
    credits: Any, n: int, count: int, near: int, far: int, first: int, last: int, worth: Any, start: int,
    discounts: Any, f: Any, g: Any, times: Any, swaps: Any, low: float, high: float, factor: float, at: Any,
    change: Any, n_changes: int,
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
def label_rows(p: Any, q: Any, labels: Any, count: int, memory: Any, at: Any, rows: Any) -> int:
    """The first ``count`` labels in rank order at one end, and after every change of them on the way to the other.

    ``at`` is filled with their positions; returns their number, −1 if there was no room for the swaps or the rows.
    """
    f, g, times, swaps = memory
    n, n_rows, e = p.size, _1, ZERO
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
        now = last = -times[0, swaps[2, e]]
        while e < n_swaps and -times[0, swaps[2, e]] - now <= 1e-9:
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
        at[n_rows] = 0.5 * (now + last)
        n_rows += changed
    return n_rows if e == n_swaps else -1
