"""Splits of categories, and splits under monotone constraints, on the card: those of `models.trees.special_split`.

The bins of a categorical feature are sorted by their smoothed means and searched like others, and what chance gains is
taken off; a set of bins goes left. Where leaves have bounds, each part gains what the best value within them does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int32

from rankwright.gpu.trees.splits import best_split, largest_gain, totals_of
from rankwright.gpu.trees.state import BY_SET, MISSING, WORDS

_LEAST = 1  # units of curvature in a part


@cuda.jit(device=True, cache=True)
def _value(g: float, h: float, low: float, high: float) -> float:
    return min(max(g / h, low), high)


@cuda.jit(device=True, cache=True)
def _bounded_gain(g_left: float, h_left: float, g: float, h: float, low: float, high: float, way: int) -> float:
    """What the values of both parts gain over that of the whole; −1 if they go against ``way``."""
    g_right, h_right = g - g_left, h - h_left
    one, two = _value(g_left, h_left, low, high), _value(g_right, h_right, low, high)
    if way * (two - one) < 0:
        return -1.0
    if one == two:
        return 0.0
    if one == g_left / h_left and two == g_right / h_right:  # inside the bounds: as without them
        apart = g_left * h - g * h_left
        return apart * apart / (h_left * h_right * h)
    both = one * (2.0 * g_left - h_left * one) + two * (2.0 * g_right - h_right * two)
    whole = _value(g, h, low, high)
    return max(both - whole * (2.0 * g - h * whole), 0.0)


@cuda.jit(device=True, cache=True)
def _best_bounded(
    values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int, way: int, low: float, high: float
) -> float:  # fmt: skip
    """As `best_split`, with values from ``low`` to ``high`` that rise (``way`` 1) or fall (−1) from left to right.

    A split that only sets missing values apart may have them in any order.
    """
    t, width = cuda.threadIdx.x, 256 // cuda.blockDim.x
    total, missing, before = totals_of(values, running)
    n_splits = n_bins if missing[2] > 0 else n_bins - 1
    best, code = -1.0, 512
    for side in range(2 if missing[2] > 0 else 1):
        left_g, left_h = before[0] + side * missing[0], before[1] + side * missing[1]
        left_n = before[2] + side * missing[2]
        for b in range(t * width, min((t + 1) * width, n_splits - side)):
            left_g += values[0, b]
            left_h += values[1, b]
            left_n += values[2, b]
            if left_h < _LEAST or total[1] - left_h < _LEAST or left_n < min_rows or total[2] - left_n < min_rows:
                continue
            own_way = way if b < n_bins - 1 else 0
            gain = _bounded_gain(float(left_g), float(left_h), float(total[0]), float(total[1]), low, high, own_way)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    largest_gain(gains, codes)
    return gains[0]


@cuda.jit(device=True, cache=True)
def _limit(values: Any, code: int, low: float, high: float) -> float:
    """The mean of the best values of both parts of a split within bounds."""
    g = h = g_left = h_left = 0
    for b in range(256):
        g += values[0, b]
        h += values[1, b]
        goes_left = b <= (code & 255) if b != MISSING else code >= 256
        if goes_left:
            g_left += values[0, b]
            h_left += values[1, b]
    one = _value(float(g_left), float(h_left), low, high)
    two = _value(float(g - g_left), float(h - h_left), low, high)
    return one + (two - one) / 2.0


@cuda.jit(device=True, cache=True)
def _sort_bins(values: Any, running: Any, n_bins: int, smooth: float, means: Any, order: Any, moved: Any) -> None:
    """The bins of a categorical feature by their smoothed means, equal ones in order; that of missing values stays."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    total, _, _ = totals_of(values, running)
    mean = float(total[0]) / max(float(total[1]), 1.0)
    for b in range(t, n_bins, threads):
        residual, curve = float(values[0, b]), float(values[1, b])
        if curve + smooth > 0:
            means[b] = (residual + smooth * mean) / (curve + smooth)
        elif residual == 0:
            means[b] = mean
        else:
            means[b] = math.copysign(math.inf, residual)
    for b in range(t, 256, threads):
        order[b] = b
    cuda.syncthreads()
    for b in range(t, n_bins, threads):
        rank = 0
        for other in range(n_bins):
            if means[other] < means[b] or (means[other] == means[b] and other < b):
                rank += 1
        order[rank] = b
    cuda.syncthreads()
    for b in range(t, 256, threads):
        for kind in range(3):
            moved[kind, b] = values[kind, order[b]]
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _chance_gain(values: Any, n_bins: int, noise: float) -> float:
    """What a split of categories gains by chance if they all are the same: by one thread, in the order of the CPU."""
    roots, curve = 0.0, 0.0
    for b in range(n_bins):
        h = float(values[1, b])
        roots += math.sqrt(h)
        curve += h
    return 2.0 / math.pi * max(roots * roots / curve - 1.0, 0.0) * noise if curve > 0 else 0.0


@cuda.jit(device=True, cache=True)
def _note_set(order: Any, n_bins: int, code: int, table: Any) -> None:
    """The set of bins that go left; by one thread."""
    for word in range(WORDS):
        table[word] = 0
    for at in range(min((code & 255) + 1, n_bins)):
        table[order[at] >> 5] |= np.uint32(1) << np.uint32(order[at] & 31)
    if code >= 256:
        table[MISSING >> 5] |= np.uint32(1) << np.uint32(MISSING & 31)


@cuda.jit(device=True, cache=True)
def special_split(
    feature: int, values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int, bounds: Any,
    squares: int, special: Any, found: Any, table: Any,
) -> None:  # fmt: skip
    """The best split of a feature of any kind, to ``found``: its gain, its code, and the limit that it sets.

    Parameters
    ----------
    values, running, gains, codes
        The histogram, and room, in shared memory.
    bounds : tuple
        The lowest and the highest value of the node.
    squares : int
        Of the residuals of the node.
    special : tuple
        For every feature whether its bins are categories, and the way in which scores must go; curvature that smooths
        the means of categories.
    found, table : array
        Where the split goes, and the set of bins that go left, of categories.
    """
    means = cuda.shared.array(256, float64)
    order = cuda.shared.array(256, int32)
    moved = cuda.shared.array((3, 256), int32)
    is_category, ways, smooth = special
    low, high = bounds
    is_bound = ways[feature] != 0 or low > -math.inf or high < math.inf
    if is_category[feature]:
        _sort_bins(values, running, n_bins, smooth[0], means, order, moved)
        if is_bound:
            gain = _best_bounded(moved, running, gains, codes, n_bins, min_rows, 0, low, high)
        else:
            gain = best_split(moved, running, gains, codes, n_bins, min_rows)
    elif is_bound:
        gain = _best_bounded(values, running, gains, codes, n_bins, min_rows, ways[feature], low, high)
    else:
        gain = best_split(values, running, gains, codes, n_bins, min_rows)
    if cuda.threadIdx.x == 0 and gain < 0.0:
        found[0] = -1.0
    elif cuda.threadIdx.x == 0:
        found[1] = codes[0]
        if is_category[feature]:
            curve = 0.0
            for b in range(256):
                curve += values[1, b]
            gain -= _chance_gain(moved, n_bins, float(squares) / max(curve, 1.0))
            _note_set(order, n_bins, codes[0], table)
            found[1] += BY_SET
        elif ways[feature] != 0:
            found[2] = _limit(values, codes[0], low, high) if codes[0] & 255 < n_bins - 1 else math.nan
        found[0] = gain
    cuda.syncthreads()
