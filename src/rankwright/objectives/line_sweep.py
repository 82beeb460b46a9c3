"""Compiled parts of the exact line search: a measure on a whole line, summed over queries, and its best interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.objectives.line_kernel import (
    ACROSS,
    ALONG,
    FEW,
    FIRST,
    FULL,
    LAST,
    ONE_END,
    OTHER_END,
    OTHER_FIRST,
    RANKS,
    WORTH,
    ZERO,
    leaders,
    put_in_order,
    start_value,
    sweep_piece,
)

__all__ = ["best_place", "sweep", "values"]

_SMALLEST = 2.0**-30  # share of a piece that is not divided further
_SAME = 1e-12  # values this close are equal
_1: Any = np.int64(1)


@njit(cache=True, nogil=True, error_model="numpy")
def _jump(
    credits: Any, n: int, count: int, far: int, last: int, worth: Any, start: int, discounts: Any, f: Any, g: Any
) -> float:
    """The unnormalised value at the far end, and the first documents there, computed at once where very many meet."""
    put_in_order(f, far, n, g, last, RANKS)
    for r in range(count):
        f[WORTH, r] = worth[start + g[last, r]]
    return start_value(credits, f, count, discounts)


@njit(cache=True, nogil=True, error_model="numpy")
def _end(ends: Any, piece: int, share: float, n: int, f: Any, row: int) -> None:
    """The scores after a share of a piece."""
    c = (1.0 - share) * ends[piece, 0] + share * ends[piece + 1, 0]
    s = (1.0 - share) * ends[piece, 1] + share * ends[piece + 1, 1]
    for i in range(n):
        f[row, i] = c * f[ALONG, i] + s * f[ACROSS, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_query(
    credits: Any, n: int, count: int, worth: Any, start: int, discounts: Any, ends: Any, hints: Any, number: int,
    factor: float, f: Any, g: Any, times: Any, swaps: Any, starts: Any, at: Any, change: Any, n_changes: int,
) -> int:  # fmt: skip
    """`sweep` for one query; a piece with too many swaps is divided. FULL if there is no room for the changes."""
    near, far, first, last, piece, low, width = ONE_END, OTHER_END, FIRST, OTHER_FIRST, ZERO, 0.0, 1.0
    _end(ends, piece, low, n, f, near)
    leaders(f, near, n, count, hints, number, g, first)
    while n_changes >= 0 and piece < starts.size:
        high = min(low + width, 1.0)
        _end(ends, piece, high, n, f, far)
        value, now = sweep_piece(
            credits, n, count, near, far, first, last, worth, start, discounts, f, g, times, swaps, piece + low,
            piece + high, factor, at, change, n_changes,
        )  # fmt: skip
        if now == -1 and width > _SMALLEST:
            width *= 0.5
            continue
        if now == -1 and n_changes == at.size:
            now = FULL
        if now == -1:
            at[n_changes] = piece + high * LAST
            change[n_changes] = factor * _jump(credits, n, count, far, last, worth, start, discounts, f, g) - value
            now = n_changes + 1
        if low == 0.0:
            starts[piece] = value
        n_changes, low, width = now, high, 2.0 * width
        near, far, first, last = far, near, last, first
        if low == 1.0:
            piece, low, width = piece + 1, 0.0, 1.0
    return n_changes


@njit(cache=True, nogil=True, error_model="numpy")
def _sum(components: Any, weights: Any, start: int, n: int, f: Any, row: int) -> None:
    for i in range(n):
        f[row, i] = weights[0] * components[0, start + i]
    for k in range(1, weights.size):
        for i in range(n):
            f[row, i] += weights[k] * components[k, start + i]


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(components: Any, base: Any, step: Any, start: int, n: int, f: Any) -> None:
    for i in range(n):
        f[ALONG, i] = base[0] * components[0, start + i]
        f[ACROSS, i] = step[0] * components[0, start + i]
    for k in range(1, base.size):
        for i in range(n):
            f[ALONG, i] += base[k] * components[k, start + i]
            f[ACROSS, i] += step[k] * components[k, start + i]


@njit(cache=True, nogil=True, error_model="numpy")
def values(setup: Any, components: Any, weights: Any, hints: Any, memory: Any) -> float:
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
    setup: Any, components: Any, base: Any, step: Any, ends: Any, begin: int, hints: Any, memory: Any, starts: Any,
    at: Any, change: Any,
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
        _sums(components, base, step, start, n, f)
        now = _sweep_query(
            credits, n, min(top, n), worth, start, discounts, ends, hints, number, factors[q], f, g, times, swaps,
            of_query, at, change, n_changes,
        )  # fmt: skip
        if now == FULL:
            break
        n_changes = now
        for piece in range(of_query.size):
            starts[piece] += of_query[piece]
        number += 1
    return n_changes, number


@njit(cache=True, nogil=True, error_model="numpy")
def _promising(starts: Any, at: Any, change: Any, bins: int, before: Any) -> Any:
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
def best_place(starts: Any, at: Any, change: Any, bins: int, apart: float) -> tuple[float, float, float]:
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
