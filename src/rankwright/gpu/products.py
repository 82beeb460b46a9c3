"""The two products with the features on the card: rows times weights, and coefficients times rows.

A row's sum is added up from those of the threads that share it, a column's from those of warps and segments of
documents, always in the same order (no atomics on floats), so results have the same bits every time.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float64, int64, uint32

from rankwright.gpu.card import blocks, is_simulated

__all__ = ["SUMMING", "add_segments", "add_to_blocks", "gather_rows", "launch_planes", "launch_scores", "score_rows"]

_DOCS = 4 if is_simulated() else 512  # documents whose coefficients are read together
LANES, _WARPS = (2, 2) if is_simulated() else (32, 8)
SUMMING = LANES * _WARPS
"""Threads of a block."""
_ACROSS = 5 * LANES  # columns at a time
_TOTALS = (_WARPS, _ACROSS)
_ROWS = 4 if is_simulated() else 256  # that a block of `score_rows` takes
_SIDE, _DEEP = (2, 3) if is_simulated() else (16, 9)  # threads that share a row; columns that each reads at once
_LINES, _PARTS = SUMMING // _SIDE, (_ROWS, _SIDE + 1)


@cuda.jit(cache=True)
def score_rows(X: Any, rows: Any, weights: Any, scores: Any) -> None:
    """``scores[i] = X[rows[i]] · weights``; a block of threads takes `_ROWS` of them, and `_SIDE` threads share a row.

    Features without a weight may be missing: a row with missing values is summed again without them. With two sums of
    the same products the compiler issues all reads before it adds; with one it waits for each read in turn, which takes
    1.5 times as long (3.8 million × 136: 0.55 ms against 0.85; a warp per row 0.77).
    """
    parts = cuda.shared.array(_PARTS, float64)
    values, columns = cuda.local.array(_DEEP, float64), cuda.local.array(_DEEP, uint32)
    t, n, d = cuda.threadIdx.x, rows.size, X.shape[1]
    line, side, first = t // _SIDE, t % _SIDE, cuda.blockIdx.x * _ROWS
    if first >= n:
        return
    n_rows = min(_ROWS, n - first)
    for left in range(0, d, _DEEP * _SIDE):
        for k in range(_DEEP):
            at = left + k * _SIDE + side
            columns[k] = min(at, d - 1)
            values[k] = weights[columns[k]] if at < d else 0.0
        next_row = rows[min(first + line, n - 1)]
        for i in range(line, n_rows, _LINES):
            row, next_row = next_row, rows[min(first + i + _LINES, n - 1)]  # the next number is read ahead
            total = 0.0
            for k in range(_DEEP):
                total += X[row, columns[k]] * values[k]
            if math.isnan(total):
                total = 0.0
                for k in range(_DEEP):
                    if values[k] != 0.0:
                        total += X[row, columns[k]] * values[k]
            parts[i, side] = total if left == 0 else parts[i, side] + total
    cuda.syncthreads()
    for i in range(t, n_rows, SUMMING):
        total = 0.0
        for other in range(_SIDE):
            total += parts[i, other]
        scores[first + i] = total


@cuda.jit(cache=True)
def add_segments(X: Any, rows: Any, coef: Any, bounds: Any, sums: Any) -> None:
    """``sums[s, j] = Σ coef[i] X[rows[i], j]`` over the documents of segment s; a block of threads for each.

    A warp reads a row at a time and skips rows without a coefficient.
    """
    chosen = cuda.shared.array(_DOCS, int64)  # one a line: the simulator tells them apart by that
    factors = cuda.shared.array(_DOCS, float64)
    totals = cuda.shared.array(_TOTALS, float64)
    t, d, segment = cuda.threadIdx.x, X.shape[1], cuda.blockIdx.x
    warp, lane = t // LANES, t % LANES
    if segment >= bounds.size - 1:
        return
    for left in range(0, d, _ACROSS):
        at = left + lane
        j, k, m = min(at, d - 1), min(at + LANES, d - 1), min(at + 2 * LANES, d - 1)
        n, p = min(at + 3 * LANES, d - 1), min(at + 4 * LANES, d - 1)
        a = b = c = e = f = 0.0
        for start in range(bounds[segment], bounds[segment + 1], _DOCS):
            n_docs = min(_DOCS, bounds[segment + 1] - start)
            for i in range(t, n_docs, SUMMING):
                factors[i] = coef[start + i]
                chosen[i] = rows[start + i]
            cuda.syncthreads()
            for i in range(warp, n_docs, _WARPS):
                factor, row = factors[i], chosen[i]
                if factor != 0.0:
                    a += factor * X[row, j]
                    b += factor * X[row, k]
                    c += factor * X[row, m]
                    e += factor * X[row, n]
                    f += factor * X[row, p]
            cuda.syncthreads()
        totals[warp, lane], totals[warp, LANES + lane], totals[warp, 2 * LANES + lane] = a, b, c
        totals[warp, 3 * LANES + lane], totals[warp, 4 * LANES + lane] = e, f
        cuda.syncthreads()
        for column in range(t, min(_ACROSS, d - left), SUMMING):
            total = 0.0
            for other in range(_WARPS):
                total += totals[other, column]
            sums[segment, left + column] = total
        cuda.syncthreads()


@cuda.jit(cache=True)
def add_to_blocks(sums: Any, bounds: Any, inverse: Any, planes: Any) -> None:
    """Planes from the sums of their segments, times ``inverse``; a block of threads for each."""
    block = cuda.blockIdx.x
    if block >= planes.shape[0]:
        return
    for j in range(cuda.threadIdx.x, planes.shape[1], cuda.blockDim.x):
        total = 0.0
        for segment in range(bounds[block], bounds[block + 1]):
            total += sums[segment, j]
        planes[block, j] = total * inverse[j]


@cuda.jit(cache=True)
def gather_rows(X: Any, rows: Any, chosen: Any, gathered: Any) -> None:
    """``gathered[i] = X[rows[chosen[i]]]``, a block each."""
    i = cuda.blockIdx.x
    if i >= chosen.size:
        return
    for j in range(cuda.threadIdx.x, X.shape[1], cuda.blockDim.x):
        gathered[i, j] = X[rows[chosen[i]], j]


def launch_scores(stream: Any, X: Any, rows: Any, weights: Any, scores: Any) -> None:
    score_rows[blocks(-(-rows.size // _ROWS)), SUMMING, stream](X, rows, weights, scores)


def launch_planes(
    stream: Any, X: Any, rows: Any, coef: Any, bounds: Any, sums: Any, of_block: Any, inverse: Any, planes: Any
) -> None:
    add_segments[blocks(bounds.size - 1), SUMMING, stream](X, rows, coef, bounds, sums)
    add_to_blocks[blocks(planes.shape[0]), SUMMING, stream](sums, of_block, inverse, planes)
