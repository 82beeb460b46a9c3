"""Sums of gradients and hessians by feature and bin, in integers.

Both are scaled to integers and packed into 64 bits, gradient · 2³² + hessian: one addition per row and feature sums
both, any order of rows gives the same bits, and the histogram of one child is exactly that of its parent minus the
other's. The units are such that all |gradients| sum to less than 2³¹, and so do all hessians: no sum overflows, with
up to 2³⁰ rows, and a gradient of average size has about 2³¹/rows units. With hessians of 1 their sums count rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER
from rankwright.data.threads import Team, parts_of

HESSIAN_BITS = 32
MOST_ROWS = 1 << 30
MOST = (1 << 31) - 1  # that |gradients| and hessians sum to
_ROWS_A_THREAD = 1 << 16  # rows to pack
_FAR = 5  # rows apart, on average, from which words are read row by row
_BLOCK = 256  # rows
_WORDS_A_LINE = 8  # of a cache
_PAD = 8  # words between the groups of a block, so that they do not compete for one place in a cache
LEAST_UNIT = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Packed:
    """Gradients and hessians as integers.

    `values`: gradient · 2³² + hessian, one per row. `gradient_unit`, `hessian_unit`: what one unit is worth. `largest`:
    the largest hessian of a row, in units. `counts_rows`: whether all hessians are equal, so that their sums count
    rows.
    """

    values: Array
    gradient_unit: float
    hessian_unit: float
    largest: int
    counts_rows: bool


def pack(gradients: Array, hessians: Array | None = None, team: Team | None = None) -> Packed:
    """Pack gradients with hessians of at least 0; by default these are 1. The result does not depend on the team."""
    n, team = len(gradients), team or Team(1)
    shares = [slice(*share) for share in parts_of(n, min(team.threads, 1 + n // _ROWS_A_THREAD))]
    room = MOST - n // 2 - 1  # rounding adds up to ½ per row
    gradient_unit = max(_total(gradients, shares, team) / room, LEAST_UNIT)
    values = np.empty(n, np.int64)
    if hessians is None:
        per_row = room // max(n, 1)
        given = [(gradients[own], 1.0 / gradient_unit, per_row, values[own]) for own in shares]
        team.each(_pack_counted, given)
        return Packed(values, gradient_unit, 1.0 / per_row, per_row, True)
    hessian_unit = max(_total(hessians, shares, team) / room, LEAST_UNIT)
    units = (1.0 / gradient_unit, 1.0 / hessian_unit)
    largest = team.each(_pack, [(gradients[own], hessians[own], *units, values[own]) for own in shares])
    return Packed(values, gradient_unit, hessian_unit, int(max(largest)), False)


def _total(values: Array, shares: list[slice], team: Team) -> float:
    """Σ |values|, or a little more: summed as integers, so that the order of the rows does not matter."""
    largest = float(max(team.each(_largest, [(values[own],) for own in shares])))
    unit = largest * (values.size / 2.0**62)
    if unit < LEAST_UNIT:
        return largest * values.size
    total = sum(int(part) for part in team.each(_in_units, [(values[own], 1.0 / unit) for own in shares]))
    return (float(total) + values.size) * unit


@njit(cache=True, nogil=True)
def _largest(values: Any) -> float:
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    return largest


@njit(cache=True, nogil=True)
def _in_units(values: Any, per_unit: float) -> Any:
    total = np.int64(0)
    for i in range(values.size):
        total += np.int64(abs(values[i]) * per_unit)
    return total


@njit(cache=True, nogil=True)
def _pack(gradients: Any, hessians: Any, per_gradient: float, per_hessian: float, values: Any) -> Any:
    largest = np.int64(0)
    for i in range(values.size):
        hessian = np.int64(np.rint(hessians[i] * per_hessian))
        largest = max(largest, hessian)
        values[i] = (np.int64(np.rint(gradients[i] * per_gradient)) << HESSIAN_BITS) + hessian
    return largest


@njit(cache=True, nogil=True)
def _pack_counted(gradients: Any, per_gradient: float, per_row: int, values: Any) -> None:
    for i in range(values.size):
        values[i] = (np.int64(np.rint(gradients[i] * per_gradient)) << HESSIAN_BITS) + per_row


@njit(cache=True, nogil=True)
def gather(packed: Any, rows: Any, values: Any) -> Any:
    """The packed values of some rows, contiguous; returns their sum."""
    total = np.int64(0)
    for k in range(rows.size):
        value = packed[rows[k]]
        values[k] = value
        total += value
    return total


@njit(cache=True, nogil=True)
def turn(words: Any, by_row: Any) -> None:
    """Words by group as words by row, some rows at a time."""
    for start in range(0, by_row.shape[0], _BLOCK):
        for group in range(words.shape[0]):
            for row in range(start, min(start + _BLOCK, by_row.shape[0])):
                by_row[row, group] = words[group, row]


@njit(cache=True, nogil=True)
def fill_groups(words: Any, by_row: Any, first: int, stop: int, rows: Any, values: Any, sums: Any) -> None:
    """Histograms of the groups ``first`` … ``stop − 1`` of eight features; ``sums`` has shape (groups, 8, 256).

    ``by_row`` are the words row by row: where ``rows``, which ascend, are far between, a cache line then has words of
    eight groups, and not one that is used and seven that are not.
    """
    for group in range(first, stop):
        for k in range(8):
            for b in range(256):
                sums[group, k, b] = 0
    if rows.size == 0 or _FAR * rows.size > rows[-1] - rows[0]:
        for group in range(first, stop):
            _add_rows(words[group], rows, values, sums[group])
        return
    block = np.empty((stop - first, _BLOCK + _PAD), np.uint64)
    for start in range(0, rows.size, _BLOCK):
        n = min(_BLOCK, rows.size - start)
        block[0, _BLOCK] = touch(by_row, first, stop, rows[start : start + n])
        for k in range(n):
            row = by_row[rows[start + k]]
            for group in range(first, stop):
                block[group - first, k] = row[group]
        for group in range(first, stop):
            _add_words(block[group - first, :n], values[start : start + n], sums[group])


@njit(**INNER)
def touch(by_row: Any, first: int, stop: int, rows: Any) -> Any:
    """Read a word of every cache line that is needed next: in so short a loop the reads wait side by side.

    Their sum is of no use, but without one they would be left out.
    """
    total = np.uint64(0)
    for k in range(rows.size):
        for group in range(first, stop, _WORDS_A_LINE):
            total ^= by_row[rows[k], group]
    return total


@njit(**INNER)
def _add_rows(words: Any, rows: Any, values: Any, sums: Any) -> None:
    byte = np.uint64(255)
    s0, s1, s2, s3, s4, s5, s6, s7 = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]
    for k in range(rows.size):
        word, value = words[rows[k]], values[k]
        s0[word & byte] += value
        s1[(word >> np.uint64(8)) & byte] += value
        s2[(word >> np.uint64(16)) & byte] += value
        s3[(word >> np.uint64(24)) & byte] += value
        s4[(word >> np.uint64(32)) & byte] += value
        s5[(word >> np.uint64(40)) & byte] += value
        s6[(word >> np.uint64(48)) & byte] += value
        s7[word >> np.uint64(56)] += value


@njit(**INNER)
def _add_words(words: Any, values: Any, sums: Any) -> None:
    """The same for words side by side."""
    byte = np.uint64(255)
    s0, s1, s2, s3, s4, s5, s6, s7 = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]
    for k in range(words.size):
        word, value = words[k], values[k]
        s0[word & byte] += value
        s1[(word >> np.uint64(8)) & byte] += value
        s2[(word >> np.uint64(16)) & byte] += value
        s3[(word >> np.uint64(24)) & byte] += value
        s4[(word >> np.uint64(32)) & byte] += value
        s5[(word >> np.uint64(40)) & byte] += value
        s6[(word >> np.uint64(48)) & byte] += value
        s7[word >> np.uint64(56)] += value


@njit(cache=True, nogil=True)
def count_bins(words: Any, shift: int, rows: Any, counts: Any) -> None:
    """Number of rows in every bin of one feature."""
    byte, moved = np.uint64(255), np.uint64(shift)
    for b in range(256):
        counts[b] = 0
    for k in range(rows.size):
        counts[(words[rows[k]] >> moved) & byte] += 1
