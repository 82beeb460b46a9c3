"""The best split of a node by squared error: the largest G_L²/n_L + G_R²/n_R − G²/n over features and bins.

It is computed as (G_L n − G n_L)² / (n_L n_R n). The difference is one of integers below 2⁶², so a split that changes
nothing gains exactly 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.models.trees.binning import MISSING
from rankwright.models.trees.histogram import COUNT_BITS

__all__ = ["best_splits", "partition"]

_COUNT = (1 << COUNT_BITS) - 1


@njit(cache=True, nogil=True, error_model="numpy")
def best_splits(sums: Any, n_bins: Any, allowed: Any, least: int, gains: Any, bins: Any, missing_left: Any) -> None:
    """For every feature the best gain, the last bin that goes left, and whether missing values do.

    ``least`` is the minimum number of rows of a child; the gain is that of the integers, −1 if there is no split.
    """
    for j in range(n_bins.size):
        gains[j], bins[j], missing_left[j] = -1.0, 0, False
        if not allowed[j]:
            continue
        histogram = sums[j]
        missing = histogram[MISSING]
        total = missing
        for b in range(n_bins[j]):
            total += histogram[b]
        n, g = total & _COUNT, total >> COUNT_BITS
        if n < 2 * least:
            continue
        for with_missing in range(2 if missing & _COUNT else 1):
            left = missing if with_missing else missing * 0
            for b in range(n_bins[j] - 1 if not (missing & _COUNT) or with_missing else n_bins[j]):
                if histogram[b] == 0:
                    continue
                left += histogram[b]
                n_left = left & _COUNT
                n_right = n - n_left
                if n_left < least:
                    continue
                if n_right < least:
                    break
                apart = float((left >> COUNT_BITS) * n - g * n_left)
                gain = apart * apart / (float(n_left) * float(n_right) * float(n))
                if gain > gains[j]:
                    gains[j], bins[j], missing_left[j] = gain, b, with_missing == 1


@njit(cache=True, nogil=True)
def partition(words: Any, shift: int, last: int, missing_left: bool, rows: Any, other: Any) -> int:
    """Move the rows that go left to the front, keeping the order of both parts; returns their number."""
    byte, moved = np.uint64(255), np.uint64(shift)
    left: Any = 0
    right: Any = 0
    for k in range(rows.size):
        row = rows[k]
        code = np.int64((words[row] >> moved) & byte)
        goes_left = code <= last if code != MISSING else missing_left
        rows[left] = row
        other[right] = row
        left += goes_left
        right += not goes_left
    for k in range(right):
        rows[left + k] = other[k]
    return int(left)
