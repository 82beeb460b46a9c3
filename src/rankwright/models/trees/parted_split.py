"""The best split of a node from sums over all parts: as in `rankwright.models.trees.split`, and with rows counted.

Sums of 64 bits are cut to the 31 bits each that the search for a split packs into one number. What is cut are the sums
up to a bin, not those of bins: so the sums of a node are the same for all features, and an empty bin stays empty. And
they are cut around half of the node's sum, so two features that part a node alike gain alike, whichever part is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.models.trees.binning import MISSING
from rankwright.models.trees.histogram import CURVE_BITS
from rankwright.models.trees.parted_sums import CURVE_ROOM, RESIDUAL_ROOM
from rankwright.models.trees.special_split import category_order, permuted
from rankwright.models.trees.split import best_of

__all__ = ["CURVE_CUT", "RESIDUAL_CUT", "narrowed", "packed_total", "search", "settle_counted"]

RESIDUAL_CUT = RESIDUAL_ROOM - 30
CURVE_CUT = CURVE_ROOM - 31


def packed_total(totals: Any, per_row: int) -> tuple[int, int, int]:
    """The sums of a node as the search has them, packed, and its residuals and curvatures before they are cut.

    ``totals`` are residuals, curvatures and rows; each row has ``per_row`` units of curvature, unless it is 0.

    Examples
    --------
    >>> packed, *_ = packed_total([-(6 << 16), 4 << 15, 8], 0)
    >>> packed >> 32, packed & 0xFFFFFFFF
    (-6, 4)
    """
    residual, curve, rows = (int(own) for own in totals[:3])
    whole = rows * per_row if per_row else int(_cut(curve, curve, CURVE_CUT))
    return (int(_cut(residual, residual, RESIDUAL_CUT)) << CURVE_BITS) + whole, residual, curve


@njit(cache=True, nogil=True)
def _cut(value: int, total: int, bits: int) -> Any:
    """Part of a sum in larger units, such that it and the rest are cut alike: cut(total − v) = cut(total) − cut(v)."""
    half = np.int64(1) << bits
    from_middle, end = 2 * value - total, (abs(total) + half) >> (bits + 1)
    found = (abs(from_middle) + half) >> (bits + 1)
    return (found if from_middle >= 0 else -found) + (end if total >= 0 else -end)


@njit(cache=True, nogil=True)
def narrowed(sums: Any, starts: Any, j: int, whole: Any, per_row: int, bins: Any, counts: Any) -> None:
    """The packed bins of feature ``j``, and their rows.

    ``sums`` are residuals, curvatures and rows of all bins, ``starts`` where the bins of each feature begin, ``whole``
    is what `packed_total` gives for the node.
    """
    residuals, curves, rows = sums
    total, all_residuals, all_curves = whole
    start, last = starts[j], starts[j + 1] - 1
    residual, curve, before = np.int64(0), np.int64(0), np.int64(0)
    for at in range(start, last):
        residual += residuals[at]
        curve += rows[at] * per_row if per_row else curves[at]
        upto = curve if per_row else _cut(curve, all_curves, CURVE_CUT)
        upto += _cut(residual, all_residuals, RESIDUAL_CUT) << CURVE_BITS
        bins[at - start] = upto - before
        counts[at - start] = rows[at]
        before = upto
    bins[MISSING] = total - before
    counts[MISSING] = rows[last]


@njit(cache=True, nogil=True)
def search(
    sums: Any, starts: Any, first: int, stop: int, whole: Any, per_row: int, n_bins: Any, special: Any, allowed: Any,
    node: Any, limits: Any, out: Any,
) -> None:  # fmt: skip
    """The best splits of the features ``first`` … ``stop − 1``, whatever the number of rows."""
    gains, lasts, missing_left = out
    bins, counts, no_counts = np.zeros(256, np.int64), np.zeros(256, np.int64), np.zeros(256, np.int64)
    no_rows = np.int64(0)
    for j in range(first, stop):
        gains[j], lasts[j], missing_left[j] = -1.0, 0, False
        if allowed[j]:
            narrowed(sums, starts, j, whole, per_row, bins, counts)
            gains[j], lasts[j], missing_left[j] = best_of(bins, n_bins, special, j, node, limits, no_counts, no_rows)


@njit(cache=True, nogil=True)
def settle_counted(
    sums: Any, starts: Any, whole: Any, per_row: int, n_bins: Any, special: Any, node: Any, limits: Any, min_rows: int,
    out: Any,
) -> Any:  # fmt: skip
    """The feature with the best split into at least ``min_rows`` rows each, the first of equal ones.

    ``out`` are the best splits whatever the number of rows, and are corrected where that decides.
    """
    gains, lasts, missing_left = out
    bins, counts = np.zeros(256, np.int64), np.zeros(256, np.int64)
    counted = np.zeros(n_bins.size, np.bool_)
    while True:
        j = 0
        for feature in range(1, gains.size):
            j = feature if gains[feature] > gains[j] else j
        if gains[j] <= 0 or counted[j]:
            return j
        narrowed(sums, starts, j, whole, per_row, bins, counts)
        in_order = counts
        if special is not None:  # noqa: SIM102 - numba leaves out what is below None
            if special[0][j]:
                in_order = permuted(counts, category_order(bins, n_bins[j], node[0], limits[1]))
        left, right = np.int64(0), np.int64(0)
        for b in range(n_bins[j]):
            if b <= lasts[j]:
                left += in_order[b]
            else:
                right += in_order[b]
        if missing_left[j]:
            left += counts[MISSING]
        else:
            right += counts[MISSING]
        if left >= min_rows and right >= min_rows:
            return j
        gains[j], lasts[j], missing_left[j] = best_of(bins, n_bins, special, j, node, limits, counts, min_rows)
        counted[j] = True
