"""Kernels of statistics and of cleaning, imported where they run: no result depends on the order of the rows."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER

# Statistics: ends of features, exact sums of values and squares.
#
# A sum is kept as digits of 32 bits in 64-bit numbers, ``total[d, j] · 2^(32 d + BOTTOM)``: nothing is rounded, so no
# result depends on the order of the rows, on threads, or on how rows are cut into parts. Dense rows are added a few
# hundred at a time: a value is scaled to y in (−1, 1), and (y + M) − M rounds it to a multiple of 2⁻⁴⁴ for a fixed M;
# such multiples are added without error in float64, for all features side by side, and so is what is left, in multiples
# of 2⁻⁸⁸. What is left after that (of values far below the largest) is added alone. Never compile this with fastmath.


DIGIT = 32  # bits
BOTTOM, BOTTOM_SQUARES = -1184, -2336  # powers of two of the first digit: below all of a float64, or of its square
N_DIGITS, N_DIGITS_SQUARES = 72, 140
_BLOCK = 256  # rows at a time, which stay in cache
_MOST = 512  # rows whose multiples are added in float64: 2^(53 − 44)
_FIRST, _SECOND = 1.5 * 2.0**8, 1.5 * 2.0**-36  # y + M has a last bit of 2⁻⁴⁴, of 2⁻⁸⁸
_SPLIT = 134217729.0  # 2²⁷ + 1, Veltkamp's
_ERROR = 53  # the error of a product is below 2⁻⁵³ of it
_TINY = 2.0**-450  # of the largest value; of smaller ones, squares and their errors would be too small for a float64
_LEAST = -960  # power of two: features that stay below it are added one by one
_MASK = (1 << DIGIT) - 1


@njit(**INNER)
def _put(total: Array, j: int, value: float, power: int, bottom: int) -> None:
    """Add ``value · 2^power``."""
    mantissa, exponent = math.frexp(value)
    place = exponent - 53 + power - bottom
    if place < 0 or place // DIGIT + 2 >= total.shape[0]:
        return
    integer = np.int64(math.ldexp(mantissa, 53))
    d, shift = place // DIGIT, place % DIGIT
    low, high = np.uint64(integer & _MASK) << np.uint64(shift), (integer >> DIGIT) << shift
    total[d, j] += np.int64(low & np.uint64(_MASK))
    total[d + 1, j] += np.int64(low >> np.uint64(DIGIT)) + (high & _MASK)
    total[d + 2, j] += high >> DIGIT


@njit(**INNER)
def _error(y: float, square: float) -> float:
    """y² − square, exactly, where square is y² rounded."""
    c = _SPLIT * y
    high = c - (c - y)
    low = y - high
    return ((high * high - square) + 2.0 * high * low) + low * low


@njit(**INNER)
def _put_one(sums: Array, squares: Array, j: int, value: float) -> None:
    mantissa, exponent = math.frexp(value)
    square = mantissa * mantissa
    _put(sums, j, mantissa, exponent, BOTTOM)
    _put(squares, j, square, 2 * exponent, BOTTOM_SQUARES)
    _put(squares, j, _error(mantissa, square), 2 * exponent, BOTTOM_SQUARES)


@njit(cache=True, nogil=True)
def carry(total: Array) -> None:
    """Bring all digits but the last into 0 … 2³² − 1."""
    for d in range(total.shape[0] - 1):
        for j in range(total.shape[1]):
            total[d + 1, j] += total[d, j] >> DIGIT
            total[d, j] &= _MASK


@njit(cache=True, nogil=True)
def sparse_rows(
    values: Array,
    columns: Array,
    summed: bool,
    low: Array,
    high: Array,
    stored: Array,
    missing: Array,
    sums: Array,
    squares: Array,
) -> None:
    for at in range(values.size):
        j, value = columns[at], float(values[at])
        stored[j] += 1
        if value != value:
            missing[j] += 1
            continue
        low[j], high[j] = min(low[j], value), max(high[j], value)
        if summed and value != 0.0 and abs(value) < np.inf:
            _put_one(sums, squares, j, value)


@njit(cache=True, nogil=True)
def dense_rows(
    X: Array,
    starts: Array,
    stops: Array,
    summed: bool,
    low: Array,
    high: Array,
    missing: Array,
    sums: Array,
    squares: Array,
) -> None:
    """Add the rows ``starts[i]:stops[i]`` for every i."""
    n = X.shape[1]
    minimum, maximum, absent = np.empty(n, X.dtype), np.empty(n, X.dtype), np.empty(n, np.int64)
    power, factor = np.full(n, _LEAST), np.full(n, 2.0**-_LEAST)
    kept, left = np.zeros((6, n)), np.zeros(n)
    pending = 0
    for piece in range(starts.size):
        for start in range(starts[piece], stops[piece], _BLOCK):
            stop = min(start + _BLOCK, stops[piece])
            _ends(X, start, stop, minimum, maximum, absent)
            grows = False
            for j in range(n):
                missing[j] += absent[j]
                low[j], high[j] = min(low[j], float(minimum[j])), max(high[j], float(maximum[j]))
                size = max(abs(float(minimum[j])), abs(float(maximum[j])))
                grows |= minimum[j] <= maximum[j] and size < np.inf and math.frexp(size)[1] > power[j]
            if not summed:
                continue
            if grows or pending + stop - start > _MOST:
                _flush(kept, power, sums, squares)
                pending = 0
                for j in range(n):
                    size = max(abs(low[j]), abs(high[j]))
                    if low[j] <= high[j] and size < np.inf:
                        power[j] = max(power[j], math.frexp(size)[1])
                        factor[j] = math.ldexp(1.0, -power[j])
            left[:] = 0.0
            _add(X, start, stop, factor, kept, left)
            pending += stop - start
            for j in range(n):
                if left[j] > 0.0:
                    _put_left(X, start, stop, j, factor[j], power[j], sums, squares)
    _flush(kept, power, sums, squares)


@njit(**INNER)
def _ends(X: Array, start: int, stop: int, minimum: Array, maximum: Array, absent: Array) -> None:
    minimum[:], maximum[:], absent[:] = np.inf, -np.inf, 0
    for i in range(start, stop):
        for j in range(minimum.size):
            value = X[i, j]
            minimum[j] = value if value < minimum[j] else minimum[j]
            maximum[j] = value if value > maximum[j] else maximum[j]
            absent[j] += value != value


@njit(**INNER)
def _add(X: Array, start: int, stop: int, factor: Array, kept: Array, left: Array) -> None:
    """Add multiples of the two units; ``left`` is not 0 where something smaller is left. Infinite values count as 0."""
    n, wide = factor.size, X.itemsize == 8
    for i in range(start, stop):
        for j in range(n):
            y = X[i, j] * factor[j]
            y = y if abs(y) < 1.0 else 0.0
            first = (y + _FIRST) - _FIRST
            rest = y - first
            second = (rest + _SECOND) - _SECOND
            kept[0, j] += first
            kept[1, j] += second
            square = y * y
            first = (square + _FIRST) - _FIRST
            other = square - first
            next_one = (other + _SECOND) - _SECOND
            kept[2, j] += first
            kept[3, j] += next_one
            left[j] += abs(rest - second) + abs(other - next_one)
        if wide:  # squares of float32 have no error, and none is tiny
            for j in range(n):
                y = X[i, j] * factor[j]
                left[j] += 1.0 if abs(y) < _TINY and X[i, j] != 0.0 else 0.0
                y = y if abs(y) < 1.0 else 0.0
                error = _error(y, y * y) * 2.0**_ERROR
                first = (error + _FIRST) - _FIRST
                rest = error - first
                second = (rest + _SECOND) - _SECOND
                kept[4, j] += first
                kept[5, j] += second
                left[j] += abs(rest - second)


@njit(**INNER)
def _put_left(X: Array, start: int, stop: int, j: int, factor: float, power: int, sums: Array, squares: Array) -> None:
    """Add what :func:`_add` leaves of a feature."""
    for i in range(start, stop):
        y = X[i, j] * factor
        if abs(y) < _TINY:
            if X[i, j] != 0.0:
                _put_one(sums, squares, j, float(X[i, j]))
            continue
        y = y if abs(y) < 1.0 else 0.0
        square = y * y
        for part in range(3):
            value = y if part == 0 else (square if part == 1 else _error(y, square) * 2.0**_ERROR)
            value -= (value + _FIRST) - _FIRST
            value -= (value + _SECOND) - _SECOND
            if value != 0.0:
                if part == 0:
                    _put(sums, j, value, power, BOTTOM)
                else:
                    _put(squares, j, value, 2 * power - (_ERROR if part == 2 else 0), BOTTOM_SQUARES)


@njit(**INNER)
def _flush(kept: Array, power: Array, sums: Array, squares: Array) -> None:
    for j in range(power.size):
        for part in range(6):
            if part < 2:
                _put(sums, j, kept[part, j], power[j], BOTTOM)
            else:
                _put(squares, j, kept[part, j], 2 * power[j] - (_ERROR if part > 3 else 0), BOTTOM_SQUARES)
            kept[part, j] = 0.0


# Cleaning: all-zero rows, and pairs of a query with a large cosine.
#
# Rows are scaled to length 1 in float64; the cosine of a pair is then 1 − |u − v|²/2, and it is above t where
# |u − v|² < 2 (1 − t). The squares are summed feature by feature in the order of the columns, so no result depends on
# the order of the rows, on threads, on float32 or float64, or on dense or CSR. A sum only grows: most pairs are decided
# by their first features. Memory is a few rows (dense) or one query (CSR), however long the query.


KEPT, ALL_ZERO, CONTRADICTING = 0, 1, 2
_MANY = 256  # relevant rows at a time
_WIDE = 32  # other rows at a time, side by side: the sums of all of them are one vectorised loop
_STEP = 8  # features between checks of the sums
_LAST = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _to_unit(values: Array, unit: Array) -> bool:
    """Scale a row to length 1, missing values as 0; False if it is all zero."""
    largest = 0.0
    for j in range(len(values)):
        value = float(values[j])
        unit[j] = 0.0 if value != value else value
        largest = max(largest, abs(unit[j]))
    if largest == 0.0:
        return False
    squares = 0.0
    for j in range(len(values)):
        unit[j] /= largest  # so that squares neither overflow nor vanish
        squares += unit[j] * unit[j]
    length = math.sqrt(squares)
    for j in range(len(values)):
        unit[j] /= length
    return True


@njit(cache=True, nogil=True)
def mark_dense(X: Array, relevant: Array, indptr: Array, limit: float, marks: Array, pairs: Array) -> None:
    """Mark the rows to drop and count the contradicting pairs of every query.

    ``limit`` is 2 (1 − threshold); ``marks`` and ``pairs`` start as 0.
    """
    n_features = X.shape[1]
    unit = np.empty(n_features)
    good, bad = np.empty((_MANY, n_features)), np.zeros((n_features, _WIDE))
    good_rows, bad_rows = np.empty(_MANY, np.int64), np.empty(_WIDE, np.int64)
    for q in range(len(indptr) - 1):
        at, stop = indptr[q], indptr[q + 1]
        while at < stop:
            n_good = 0
            while at < stop and n_good < _MANY:
                if relevant[at]:
                    if _to_unit(X[at], good[n_good]):
                        good_rows[n_good] = at
                        n_good += 1
                    else:
                        marks[at] = ALL_ZERO
                at += 1
            other = indptr[q]
            while other < stop:
                n_bad = 0
                while other < stop and n_bad < _WIDE:
                    if not relevant[other] and marks[other] != ALL_ZERO:
                        if _to_unit(X[other], unit):
                            for j in range(n_features):
                                bad[j, n_bad] = unit[j]
                            bad_rows[n_bad] = other
                            n_bad += 1
                        else:
                            marks[other] = ALL_ZERO
                    other += 1
                pairs[q] += _mark_block(good, good_rows[:n_good], bad, bad_rows[:n_bad], limit, marks)


@njit(cache=True, nogil=True)
def _mark_block(good: Array, good_rows: Array, bad: Array, bad_rows: Array, limit: float, marks: Array) -> int:
    """Compare unit rows with unit columns; returns the number of contradicting pairs."""
    distances = np.empty(_WIDE)
    n_features, n_bad, n_pairs = len(bad), len(bad_rows), 0
    for i in range(len(good_rows) if n_bad else 0):
        for k in range(_WIDE):
            distances[k] = 0.0
        near, start = True, 0
        while near and start < n_features:
            for j in range(start, min(start + _STEP, n_features)):
                value = good[i, j]
                for k in range(_WIDE):
                    difference = value - bad[j, k]
                    distances[k] += difference * difference
            start += _STEP
            near = False
            for k in range(n_bad):
                near |= distances[k] < limit
        for k in range(n_bad if near else 0):
            if distances[k] < limit:
                n_pairs += 1
                marks[good_rows[i]] = marks[bad_rows[k]] = CONTRADICTING
    return n_pairs


@njit(cache=True, nogil=True)
def mark_sparse(
    values: Array,
    columns: Array,
    starts: Array,
    relevant: Array,
    indptr: Array,
    limit: float,
    marks: Array,
    pairs: Array,
) -> None:
    """The same for canonical CSR: ``values``, ``columns`` and ``starts`` are its three arrays."""
    longest = 0
    for q in range(len(indptr) - 1):
        longest = max(longest, starts[indptr[q + 1]] - starts[indptr[q]])
    unit = np.empty(longest)
    for q in range(len(indptr) - 1):
        first, stop = indptr[q], indptr[q + 1]
        zero = starts[first]
        for at in range(first, stop):
            if not _to_unit(values[starts[at] : starts[at + 1]], unit[starts[at] - zero : starts[at + 1] - zero]):
                marks[at] = ALL_ZERO
        for at in range(first, stop):
            if relevant[at] and marks[at] != ALL_ZERO:
                own_values = slice(starts[at], starts[at + 1])
                ours = slice(starts[at] - zero, starts[at + 1] - zero)
                for other in range(first, stop):
                    if not relevant[other] and marks[other] != ALL_ZERO:
                        other_values = slice(starts[other], starts[other + 1])
                        theirs = slice(starts[other] - zero, starts[other + 1] - zero)
                        if _are_near(columns[own_values], unit[ours], columns[other_values], unit[theirs], limit):
                            pairs[q] += 1
                            marks[at] = marks[other] = CONTRADICTING


@njit(cache=True, nogil=True)
def _are_near(columns: Array, unit: Array, other_columns: Array, other_unit: Array, limit: float) -> bool:
    """Whether two sparse rows are closer than the limit, by merging their columns."""
    distance = 0.0
    i, k = 0, 0
    while distance < limit and (i < len(columns) or k < len(other_columns)):
        ours = columns[i] if i < len(columns) else _LAST
        theirs = other_columns[k] if k < len(other_columns) else _LAST
        difference = 0.0
        if ours <= theirs:
            difference = unit[i]
            i += 1
        if theirs <= ours:
            difference -= other_unit[k]
            k += 1
        distance += difference * difference
    return distance < limit
