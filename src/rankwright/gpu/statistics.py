"""Statistics of features on the device: the exact sums of `rankwright.data.statistics`, bit for bit.

A value is scaled by a power of two to |y| < 1 and cut into three integers of 40 bits, its square into four. Integers
are added without error, in any order. Where a value has bits below these, the CPU computes the statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64, int64

from rankwright._types import Array
from rankwright.data.statistics import Statistics, Sums
from rankwright.data.statistics_kernel import BOTTOM, BOTTOM_SQUARES, DIGIT
from rankwright.gpu.device import is_simulated, multiprocessors

_BITS = 40
_UNIT = 2.0**_BITS
_LEVELS = (3, 4)  # of values, of squares
_SUMS = 7
_THREADS = 4 if is_simulated() else 32  # columns at a time, one for a thread
_LINES = 1 if is_simulated() else 8  # rows that a block reads at a time
_SHAPE = (_LINES, _THREADS)
_CHUNKS = 4  # of rows, for each multiprocessor
_MASK = (1 << 20) - 1


@cuda.jit(cache=True)
def _ends(X: Any, rows: Any, low: Any, high: Any, missing: Any) -> None:
    """Smallest and largest values, and missing ones, of a chunk of rows and some columns."""
    lows = cuda.shared.array(_SHAPE, float64)
    highs = cuda.shared.array(_SHAPE, float64)
    absent = cuda.shared.array(_SHAPE, int64)
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    chunk, column = cuda.blockIdx.x, cuda.blockIdx.y * _THREADS + t
    a, b, c = float("inf"), -float("inf"), 0
    if column < X.shape[1]:
        for i in range(chunk * _LINES + line, rows.size, cuda.gridDim.x * _LINES):
            value = float64(X[rows[i], column])
            if value != value:
                c += 1
            else:
                a, b = min(a, value), max(b, value)
    lows[line, t], highs[line, t], absent[line, t] = a, b, c
    cuda.syncthreads()
    if line == 0 and column < X.shape[1]:
        for other in range(1, _LINES):
            a, b, c = min(a, lows[other, t]), max(b, highs[other, t]), c + absent[other, t]
        low[chunk, column], high[chunk, column], missing[chunk, column] = a, b, c


@cuda.jit(cache=True)
def _sum(X: Any, rows: Any, factors: Any, sums: Any, left: Any) -> None:
    """Integer sums of a chunk of rows and some columns; sets ``left`` if a value has further bits."""
    shared = cuda.shared.array(_SHAPE, int64)
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    chunk, column = cuda.blockIdx.x, cuda.blockIdx.y * _THREADS + t
    a = b = c = d = e = f = g = 0
    further = False
    if column < X.shape[1]:
        factor = factors[column]
        for i in range(chunk * _LINES + line, rows.size, cuda.gridDim.x * _LINES):
            y = X[rows[i], column] * factor
            if not (-1.0 < y < 1.0):  # missing or infinite
                continue
            value = y * _UNIT
            digit = int64(value)
            a += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            b += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            c += digit
            further |= value != digit
            value = y * y * _UNIT
            digit = int64(value)
            d += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            e += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            f += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            g += digit
            further |= value != digit
    if further:
        left[0] = 1
    for level in range(_SUMS):
        total = a
        if level == 1:
            total = b
        elif level == 2:
            total = c
        elif level == 3:
            total = d
        elif level == 4:
            total = e
        elif level == 5:
            total = f
        elif level == 6:
            total = g
        cuda.syncthreads()
        shared[line, t] = total
        cuda.syncthreads()
        if line == 0 and column < X.shape[1]:
            for other in range(1, _LINES):
                total += shared[other, t]
            sums[level, chunk, column] = total


def statistics_on(X: Any, rows: Any, *, summed: bool) -> Statistics | None:
    """The statistics of one pass over the rows, as `Statistics.of` gives them; None where sums need the CPU.

    `X`: features; sums are for float32 alone, whose squares float64 holds. `rows`: the rows that count. `summed`:
    whether means and deviations are wanted.
    """
    d, chunks = int(X.shape[1]), _CHUNKS * multiprocessors()
    grid, block = (chunks, -(-d // _THREADS)), (_THREADS, _LINES)
    ends = [cuda.device_array((chunks, d), kind) for kind in (np.float64, np.float64, np.int64)]
    _ends[grid, block](X, rows, *ends)
    low, high, missing = (end.copy_to_host() for end in ends)
    low, high, missing = low.min(axis=0) + 0.0, high.max(axis=0) + 0.0, missing.sum(axis=0)
    if not summed:
        return Statistics(len(rows), low, high, missing, None, None)
    if X.dtype != np.float32:
        return None
    largest = np.where(np.isfinite(low) & np.isfinite(high), np.maximum(np.abs(low), np.abs(high)), 1.0)
    powers = np.frexp(largest)[1].astype(np.int64)
    remainder, sums = cuda.to_device(np.zeros(1, np.int64)), cuda.device_array((_SUMS, chunks, d), np.int64)
    _sum[grid, block](X, rows, cuda.to_device(np.ldexp(1.0, -powers)), sums, remainder)
    if remainder.copy_to_host()[0]:
        return None
    digits = sums.copy_to_host()
    integers = ((digits >> 20).sum(axis=1).astype(object) << 20) + (digits & _MASK).sum(axis=1)
    totals = [_joined(integers[:3, j], int(powers[j]) - 3 * _BITS) for j in range(d)]
    squares = [_joined(integers[3:, j], 2 * int(powers[j]) - 4 * _BITS) for j in range(d)]
    return Statistics(len(rows), low, high, missing, _sums(totals, BOTTOM), _sums(squares, BOTTOM_SQUARES))


def _joined(levels: Array, power: int) -> tuple[int, int]:
    """An integer and its power of two, from digits of 40 bits."""
    total = 0
    for level in levels:
        total = (total << _BITS) + int(level)
    return total, power


def _sums(totals: list[tuple[int, int]], bottom: int) -> Sums:
    """Sums in digits, as the CPU keeps them."""
    lowest = min(power for total, power in totals)
    power = bottom + (lowest - bottom) // DIGIT * DIGIT
    integers = [total << (exponent - power) for total, exponent in totals]
    n_digits = 3 + max(abs(total).bit_length() for total in integers) // DIGIT
    digits = np.zeros((n_digits, len(integers)), np.int64)
    for j, total in enumerate(integers):
        for d in range(n_digits - 1):
            digits[d, j] = total & ((1 << DIGIT) - 1)
            total >>= DIGIT
        digits[n_digits - 1, j] = total
    return Sums.trimmed(digits, power)
