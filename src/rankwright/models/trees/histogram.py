"""Sums of residuals by feature and bin, in integers.

A residual is scaled to an integer and packed with a count of 1 into 64 bits: one addition per row and feature sums
both, any order of rows gives the same bits, and the histogram of one child is exactly that of its parent minus the
other's. 24 bits hold the count and 40 the sum of residuals: with 400,000 rows each residual keeps 20 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["COUNT_BITS", "fill_groups", "gather", "pack"]

Array = npt.NDArray[Any]
COUNT_BITS = 24
_SUM_BITS = 62 - COUNT_BITS
_LEAST_UNIT = float(np.finfo(np.float64).tiny)


def pack(residuals: Array) -> tuple[Array, float]:
    """Residuals as integers with their counts, and the value of one unit."""
    largest = float(np.abs(residuals).max(initial=0.0))
    unit = max(largest * len(residuals) / 2.0**_SUM_BITS, _LEAST_UNIT)
    return (np.rint(residuals / unit).astype(np.int64) << COUNT_BITS) + 1, unit


@njit(cache=True, nogil=True)
def gather(packed: Any, rows: Any, values: Any) -> None:
    """The packed residuals of some rows, contiguous."""
    for k in range(rows.size):
        values[k] = packed[rows[k]]


@njit(cache=True, nogil=True)
def _fill_group(words: Any, rows: Any, values: Any, sums: Any) -> None:
    """Histograms of the eight features of a group; ``sums`` has shape (8, 256)."""
    for k in range(8):
        for b in range(256):
            sums[k, b] = 0
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


@njit(cache=True, nogil=True)
def fill_groups(words: Any, first: int, stop: int, rows: Any, values: Any, sums: Any) -> None:
    """Histograms of the groups ``first`` … ``stop − 1`` of eight features; ``sums`` has shape (groups, 8, 256)."""
    for group in range(first, stop):
        _fill_group(words[group], rows, values, sums[group])
