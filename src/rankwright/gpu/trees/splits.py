"""The best split of a feature on the card, from its histogram: as `rankwright.models.trees.split` finds it.

A block of threads has the bins of one feature in shared memory: residuals, curvatures and rows, missing values last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from rankwright.gpu.together import scan
from rankwright.gpu.trees.state import COUNTS, MISSING, SIZE, TILE

_LEAST = 1  # units of curvature in a part


@cuda.jit(device=True, cache=True)
def load(sums: Any, slot: int, minuend: int, n_tiles: int, feature: int, values: Any) -> None:
    """The histogram of a feature to shared memory; of a larger child it is ``minuend``'s less ``slot``'s, and stays."""
    base = (slot * n_tiles + feature // TILE) * SIZE
    parent = (minuend * n_tiles + feature // TILE) * SIZE
    for b in range(cuda.threadIdx.x, 256, cuda.blockDim.x):
        for kind in range(3):
            at = COUNTS + TILE * b if kind == 2 else 2 * TILE * b + TILE * kind
            at += feature % TILE
            value = sums[base + at]
            if minuend >= 0:
                value = sums[parent + at] - value
                sums[parent + at] = value
            values[kind, b] = value
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _before(values: Any, running: Any, kind: int, first: int, width: int) -> Any:
    """The sum of all bins before a thread's own, missing values apart."""
    total = 0
    for b in range(first, min(first + width, MISSING)):
        total += values[kind, b]
    running[kind, cuda.threadIdx.x] = total
    cuda.syncthreads()
    scan(running[kind])
    return np.int64(running[kind, cuda.threadIdx.x]) - total


@cuda.jit(device=True, cache=True)
def totals_of(values: Any, running: Any) -> Any:
    """Residuals, curvatures and counts: of all rows, of missing values, and of the bins before a thread's own."""
    width, end = 256 // cuda.blockDim.x, cuda.blockDim.x - 1
    first = cuda.threadIdx.x * width
    g = _before(values, running, 0, first, width)
    h = _before(values, running, 1, first, width)
    n = _before(values, running, 2, first, width)
    missing = (np.int64(values[0, MISSING]), np.int64(values[1, MISSING]), np.int64(values[2, MISSING]))
    total = (running[0, end] + missing[0], running[1, end] + missing[1], running[2, end] + missing[2])
    cuda.syncthreads()
    return total, missing, (g, h, n)


@cuda.jit(device=True, cache=True)
def _gain(left: Any, total: Any, min_rows: int) -> float:
    """The gain times H of a split, −1 where a part has too little curvature or too few rows."""
    (g_left, h_left, n_left), (g, h, n) = left, total
    if h_left < _LEAST or h - h_left < _LEAST or n_left < min_rows or n - n_left < min_rows:
        return -1.0
    apart = float(g_left * h - g * h_left)
    return apart * apart / (float(h_left) * float(h - h_left))


@cuda.jit(device=True, cache=True)
def largest_gain(gains: Any, codes: Any) -> None:
    """The largest gain of the threads of a block, the lowest code of equal ones, to place 0."""
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    cuda.syncthreads()
    while step > 0:
        if t < step:
            gain, code = gains[t + step], codes[t + step]
            if gain > gains[t] or (gain == gains[t] and code < codes[t]):
                gains[t], codes[t] = gain, code
        cuda.syncthreads()
        step //= 2


@cuda.jit(device=True, cache=True)
def best_split(values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int) -> float:
    """The best split, a gain and a code to place 0 of ``gains`` and ``codes``; −1 if there is none."""
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
            gain = _gain((left_g, left_h, left_n), total, min_rows)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    largest_gain(gains, codes)
    return gains[0] / max(float(total[1]), 1.0) if gains[0] >= 0.0 else -1.0
