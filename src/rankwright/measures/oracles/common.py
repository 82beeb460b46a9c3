"""Shared by the oracles: their signature, sorting by score, and the places of good and bad documents."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from rankwright._types import Array
from rankwright.caching import INNER

_VECTOR = types.Array(types.float64, 1, "C")
_FROZEN = types.Array(types.float64, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C")
ORACLE = types.float64(_VECTOR, _FROZEN, _PLACES, _FROZEN, _VECTOR, _VECTOR)
"""loss = oracle(scores, labels, order, parameters, coef, work)"""

SORT = types.void(_VECTOR, _PLACES, _VECTOR)
"""sort_descending(scores, order, work)"""

WORK = 6
"""Workspace for sorting and the oracles, in numbers per document; plus `BINS`."""

BINS = 1024
"""Four digits of 256 values, for the radix sort."""

OTHER = -1.0
"""The label of documents that are neither good nor bad, on the map of reciprocal rank."""

_MINUS_ZERO = -(2**63)
_SHORT = 32


@njit(**INNER)
def _radix(keys: Array, low: int, order: Array, other: Array, counts: Array) -> None:
    """Sort by 32 bits of the keys, from bit ``low`` on, eight at a time."""
    n = keys.size
    for place in range(counts.size):
        counts[place] = 0
    for i in range(n):
        key = keys[i] >> low
        for digit in range(4):
            counts[256 * digit + ((key >> (8 * digit)) & 255)] += 1
    source, target = order, other
    swaps = 0
    for digit in range(4):
        shift = low + 8 * digit
        starts = counts[256 * digit : 256 * digit + 256]
        if starts[(keys[0] >> shift) & 255] == n:
            continue
        total = 0
        for value in range(256):
            count = starts[value]
            starts[value] = total
            total += count
        for i in range(n):
            place = source[i]
            value = (keys[place] >> shift) & 255
            target[starts[value]] = place
            starts[value] += 1
        source, target = target, source
        swaps += 1
    if swaps % 2:
        for i in range(n):
            order[i] = source[i]


@njit(**INNER)
def _insertion(scores: Array, order: Array) -> bool:
    """Sort a nearly sorted order; False if it turns out not to be, and sorting is unfinished."""
    moves = 8 * order.size
    for i in range(1, order.size):
        place = order[i]
        score = scores[place]
        j = i - 1
        while j >= 0 and scores[order[j]] < score:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = place
        moves -= i - 1 - j
        if moves < 0:
            return False
    return True


@njit(cache=True)
def sort_descending(scores: Array, order: Array, work: Array) -> None:
    """Fill ``order`` with the positions of the scores, highest first, equal ones in input order.

    Short lists: insertion sort. Long lists: radix sort by the leading 32 bits of the scores, and an
    insertion sort for those that differ further down; all 64 bits where there are too many of these.
    """
    n = scores.size
    other, keys = work[:n].view(np.int64), work[n : 2 * n].view(np.int64)
    counts = work[2 * n : 2 * n + BINS].view(np.int64)
    # One call of each sort, in a loop: a function called in several places is compiled for each.
    for turn in range(0 if n <= _SHORT else 1, 4):
        if turn < 2:
            for i in range(n):
                order[i] = i
        if turn == 1:
            for i in range(n):
                work[n + i] = scores[i]
            for i in range(n):
                if keys[i] == _MINUS_ZERO:  # equals 0; recognised by its bits, as a caller's fastmath is inherited here
                    keys[i] = 0
                # Larger scores get smaller keys: flip all bits but the sign, or none where it is set.
                keys[i] ^= 0x7FFFFFFFFFFFFFFF if keys[i] >= 0 else 0
        if turn > 0:
            _radix(keys, np.int64(0 if turn == 2 else 32), order, other, counts)
        if turn != 2 and _insertion(scores, order):
            return


@njit(cache=True)
def good_and_bad(scores: Array, labels: Array, order: Array, places: Array, ordered: Array, others: Array) -> int:
    """Separate good documents (label above 0) from bad ones, each in score order, goods first; how many goods.

    For each: its place in the query, its score less the highest one, and how many of the other kind are above it.
    """
    n = order.size
    n_good = 0
    for i in range(n):
        n_good += labels[i] > 0.0
    highest = scores[order[0]]
    good, bad = 0, n_good
    for i in range(n):
        place = order[i]
        is_good = labels[place] > 0.0
        target = good if is_good else bad
        places[target] = place
        ordered[target] = scores[place] - highest
        others[target] = bad - n_good if is_good else good
        good += is_good
        bad += not is_good
    return n_good
