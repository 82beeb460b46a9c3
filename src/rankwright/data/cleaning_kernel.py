"""Kernels behind :class:`rankwright.data.cleaning.Cleaner`: all-zero rows, and pairs of a query with a large cosine.

Rows are scaled to length 1 in float64; the cosine of a pair is then 1 − |u − v|²/2, and it is above t where
|u − v|² < 2 (1 − t). The squares are summed feature by feature in the order of the columns, so no result depends on the
order of the rows, on threads, on float32 or float64, or on dense or CSR. A sum only grows: most pairs are decided by
their first features. Memory is a few rows (dense) or one query (CSR), however long the query.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankwright._types import Array

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
