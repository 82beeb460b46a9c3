"""Splits of categorical features, and splits under monotone constraints.

Categories have no order, but the best split into two sets follows one: that of their mean residuals G_b/H_b (Fisher
1958). So the bins of a categorical feature are sorted and searched like those of any other. Few rows say little of a
category: its mean is taken as that of the node with ``smooth`` more units of curvature. Sorting finds a split even in
noise, the better the more categories there are; what chance gains is taken off the gain. Where leaves have bounds, each
part of a split gains what the best value within them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.models.trees.binning import MISSING
from rankwright.models.trees.forest import SET_WORDS
from rankwright.models.trees.histogram import CURVE_BITS

_CURVE = (1 << CURVE_BITS) - 1
_RUN = 16  # values sorted by insertion


def special_kinds(
    n_features: int, categorical: Iterable[int], directions: Mapping[int, int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Which features are categories, and the way in which scores must go in each; None if there is nothing special."""
    is_category, ways = np.zeros(n_features, np.bool_), np.zeros(n_features, np.int64)
    is_category[list(categorical)] = True
    ways[list(directions)] = list(directions.values())
    return (is_category, ways) if is_category.any() or directions else None


@njit(cache=True, nogil=True, error_model="numpy")
def category_order(histogram: Any, n_bins: int, total: int, smooth: float) -> Any:
    """The bins of a categorical feature by their smoothed means; equal ones stay in order."""
    mean = float(total >> CURVE_BITS) / max(float(total & _CURVE), 1.0)
    means = np.empty(n_bins)
    for b in range(n_bins):
        residual, curve = float(histogram[b] >> CURVE_BITS), float(histogram[b] & _CURVE)
        if curve + smooth > 0:
            means[b] = (residual + smooth * mean) / (curve + smooth)
        else:
            means[b] = mean if residual == 0 else np.inf if residual > 0 else -np.inf
    return _sorted(means)


@njit(cache=True, nogil=True)
def _sorted(values: Any) -> Any:
    """The places of values in ascending order, equal ones as they come: short runs by insertion, then merged.

    numpy's sort takes two seconds to compile.
    """
    n, width = values.size, _RUN
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        at = i
        while at > i - i % _RUN and values[order[at - 1]] > values[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for at in range(start, stop):
                if right >= stop or (left < middle and values[order[left]] <= values[order[right]]):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


@njit(cache=True, nogil=True, error_model="numpy")
def chance_gain(histogram: Any, n_bins: int, noise: float) -> float:
    """What a split of categories gains by chance if they all are the same: 2/π · (k − 1) · noise.

    ``noise`` is the variance of residuals per unit of curvature, and k = (Σ √H_b)² / Σ H_b the number of categories if
    they have equal shares: sorted by means that are nothing but noise, one half has ±√(2/π) standard deviations each.
    """
    roots, curve = 0.0, 0.0
    for b in range(n_bins):
        h = float(histogram[b] & _CURVE)
        roots += np.sqrt(h)
        curve += h
    return 2.0 / np.pi * max(roots * roots / curve - 1.0, 0.0) * noise if curve > 0 else 0.0


@njit(cache=True, nogil=True)
def permuted(bins: Any, order: Any) -> Any:
    """Values of bins in another order; that of missing values keeps its place."""
    moved = np.zeros(256, bins.dtype)
    for b in range(order.size):
        moved[b] = bins[order[b]]
    moved[MISSING] = bins[MISSING]
    return moved


@njit(cache=True, nogil=True)
def left_bins(order: Any, last: int, missing_left: bool) -> Any:
    """Which bins go left: those up to the place ``last`` of an order, and perhaps the missing values."""
    table = np.zeros(256, np.bool_)
    for b in range(min(last + 1, order.size)):
        table[order[b]] = True
    table[MISSING] = missing_left
    return table


@njit(cache=True, nogil=True, error_model="numpy")
def best_bounded_split(
    histogram: Any, n_bins: int, total: int, least: int, counts: Any, min_rows: int, way: int, low: float, high: float
) -> Any:  # fmt: skip
    """As `best_split`, with values from ``low`` to ``high`` that rise (``way`` 1) or fall (−1) from left to right.

    A split that only sets missing values apart may have them in any order.
    """
    best, last, with_missing = -1.0, 0, False
    missing, n_missing = histogram[MISSING], counts[MISSING]
    n = n_missing
    if min_rows > 0:
        for b in range(n_bins):
            n += counts[b]
    g, h = float(total >> CURVE_BITS), float(total & _CURVE)
    whole = _value(g, h, low, high)
    some_missing = missing != 0 or n_missing > 0
    for side in range(2 if some_missing else 1):
        left = missing if side else missing * 0
        n_left = n_missing if side else n_missing * 0
        for b in range(n_bins if some_missing and not side else n_bins - 1):
            left += histogram[b]
            n_left += counts[b]
            h_left = left & _CURVE
            if h_left < least or n_left < min_rows:
                continue
            if (total & _CURVE) - h_left < least or n - n_left < min_rows:
                break
            g_left, h_left = float(left >> CURVE_BITS), float(h_left)
            value_left, value_right = _value(g_left, h_left, low, high), _value(g - g_left, h - h_left, low, high)
            if way * (value_right - value_left) < 0 and b < n_bins - 1:
                continue
            gain = _gain(g_left, h_left, g, h, value_left, value_right, whole)
            if gain > best:
                best, last, with_missing = gain, b, side == 1
    return best, last, with_missing


@njit(cache=True, nogil=True, error_model="numpy")
def middle_value(left: int, total: int, low: float, high: float) -> float:
    """The mean of the best values of both parts of a split within bounds, from packed sums."""
    right = total - left
    value_left = _value(float(left >> CURVE_BITS), float(left & _CURVE), low, high)
    value_right = _value(float(right >> CURVE_BITS), float(right & _CURVE), low, high)
    return value_left + (value_right - value_left) / 2.0


@njit(cache=True, nogil=True, error_model="numpy")
def _value(g: float, h: float, low: float, high: float) -> float:
    return min(max(g / h, low), high)


@njit(cache=True, nogil=True, error_model="numpy")
def _gain(
    g_left: float, h_left: float, g: float, h: float, value_left: float, value_right: float, whole: float
) -> float:
    """What the values of both parts gain over that of the whole; exactly 0 if they are equal."""
    if value_left == value_right:
        return 0.0
    g_right, h_right = g - g_left, h - h_left
    if value_left == g_left / h_left and value_right == g_right / h_right:  # inside the bounds: as without them
        apart = g_left * h - g * h_left
        return apart * apart / (h_left * h_right * h)
    both = value_left * (2.0 * g_left - h_left * value_left) + value_right * (2.0 * g_right - h_right * value_right)
    return max(both - whole * (2.0 * g - h * whole), 0.0)


def mean_curve(values: Any) -> float:
    """Mean curvature of packed values."""
    return float((values & _CURVE).mean()) if len(values) else 0.0


@njit(cache=True, nogil=True)
def sum_of_squares(values: Any) -> Any:
    """Sum of the squares of packed residuals, which sum to less than 2³¹ themselves."""
    total = np.int64(0)
    for k in range(values.size):
        residual = values[k] >> CURVE_BITS
        total += residual * residual
    return total


@njit(cache=True, nogil=True)
def noise_of(squares: float, total: int) -> float:
    """Variance of residuals per unit of curvature, from the sum of their squares and the packed sum of a node."""
    return squares / max(float(total & _CURVE), 1.0)


def as_sets(tables: Sequence[Any]) -> Any:
    """Tables of bins as sets of 256 bits, without the bin of missing values."""
    sets = np.zeros((len(tables), SET_WORDS), np.uint64)
    for row, table in zip(sets, tables, strict=True):
        row[:] = np.packbits(np.append(table[:MISSING], False), bitorder="little").view("<u8")
    return sets
