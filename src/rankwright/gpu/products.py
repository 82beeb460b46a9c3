"""The two products with the features on the card: rows times weights, and coefficients times rows.

A warp reads a row at a time. A row's sum is added up from those of its lanes, a column's from those of warps and of
segments of documents, always in the same order: so the same bits come out whatever else the card does.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float64, int64

from rankwright.gpu.card import blocks, is_simulated, multiprocessors

__all__ = ["SUMMING", "add_segments", "add_to_blocks", "gather_rows", "launch_planes", "launch_scores", "score_rows"]

_DOCS = 4 if is_simulated() else 512  # documents whose coefficients are read together
LANES, _WARPS = (2, 2) if is_simulated() else (32, 8)
SUMMING = LANES * _WARPS
"""Threads of a block."""
_ACROSS = 5 * LANES  # columns at a time
_TOTALS = (_WARPS, _ACROSS)
_ROWS = 4 if is_simulated() else 128  # that a block of `score_rows` takes at a time
_PARTS = (_ROWS, LANES + 1)
_WAVES = 16  # blocks of `score_rows` for each multiprocessor


@cuda.jit(cache=True)
def score_rows(X: Any, rows: Any, weights: Any, scores: Any) -> None:
    """``scores[i] = X[rows[i]] · weights``; a block takes `_ROWS` of them at a time, and a warp reads a row at a time.

    Features without a weight may be missing.
    """
    parts = cuda.shared.array(_PARTS, float64)
    chosen = cuda.shared.array(_ROWS, int64)
    t, n, d = cuda.threadIdx.x, rows.size, X.shape[1]
    warp, lane = t // LANES, t % LANES
    for first in range(cuda.blockIdx.x * _ROWS, n, cuda.gridDim.x * _ROWS):
        many = min(_ROWS, n - first)
        if t < _ROWS:
            chosen[t] = rows[min(first + t, n - 1)]  # what is read beyond the last row is not used
        cuda.syncthreads()
        for left in range(0, d, _ACROSS):
            at = left + lane
            j, k, m = min(at, d - 1), min(at + LANES, d - 1), min(at + 2 * LANES, d - 1)
            o, p = min(at + 3 * LANES, d - 1), min(at + 4 * LANES, d - 1)
            a = weights[j] if at < d else 0.0
            b = weights[k] if at + LANES < d else 0.0
            c = weights[m] if at + 2 * LANES < d else 0.0
            e = weights[o] if at + 3 * LANES < d else 0.0
            f = weights[p] if at + 4 * LANES < d else 0.0
            for i in range(warp, many, 2 * _WARPS):  # two rows at a time: more is on its way
                row, other = chosen[i], chosen[min(i + _WARPS, _ROWS - 1)]
                q, r, s, u, v = X[row, j], X[row, k], X[row, m], X[row, o], X[row, p]
                g, h, w, x, y = X[other, j], X[other, k], X[other, m], X[other, o], X[other, p]
                total = q * a if a != 0.0 else 0.0
                total += r * b if b != 0.0 else 0.0
                total += s * c if c != 0.0 else 0.0
                total += u * e if e != 0.0 else 0.0
                total += v * f if f != 0.0 else 0.0
                parts[i, lane] = total if left == 0 else parts[i, lane] + total
                if i + _WARPS < many:
                    total = g * a if a != 0.0 else 0.0
                    total += h * b if b != 0.0 else 0.0
                    total += w * c if c != 0.0 else 0.0
                    total += x * e if e != 0.0 else 0.0
                    total += y * f if f != 0.0 else 0.0
                    parts[i + _WARPS, lane] = total if left == 0 else parts[i + _WARPS, lane] + total
        cuda.syncthreads()
        if t < many:
            total = 0.0
            for other in range(LANES):
                total += parts[t, other]
            scores[first + t] = total
        cuda.syncthreads()


@cuda.jit(cache=True)
def add_segments(X: Any, rows: Any, coef: Any, bounds: Any, sums: Any) -> None:
    """``sums[s, j] = Σ coef[i] X[rows[i], j]`` over the documents of segment s; a block of threads for each.

    A warp reads a row at a time, and rows without a coefficient not at all.
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
            many = min(_DOCS, bounds[segment + 1] - start)
            for i in range(t, many, SUMMING):
                factors[i] = coef[start + i]
                chosen[i] = rows[start + i]
            cuda.syncthreads()
            for i in range(warp, many, _WARPS):
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
def gather_rows(X: Any, rows: Any, chosen: Any, found: Any) -> None:
    """``found[i] = X[rows[chosen[i]]]``, a block each."""
    i = cuda.blockIdx.x
    if i >= chosen.size:
        return
    for j in range(cuda.threadIdx.x, X.shape[1], cuda.blockDim.x):
        found[i, j] = X[rows[chosen[i]], j]


def launch_scores(stream: Any, X: Any, rows: Any, weights: Any, scores: Any) -> None:
    """Launch `score_rows`."""
    grid = blocks(min(-(-rows.size // _ROWS), _WAVES * multiprocessors()))
    score_rows[grid, SUMMING, stream](X, rows, weights, scores)


def launch_planes(
    stream: Any, X: Any, rows: Any, coef: Any, bounds: Any, sums: Any, of_block: Any, inverse: Any, planes: Any
) -> None:
    """Launch `add_segments`, and `add_to_blocks` of their sums."""
    add_segments[blocks(bounds.size - 1), SUMMING, stream](X, rows, coef, bounds, sums)
    add_to_blocks[blocks(planes.shape[0]), SUMMING, stream](sums, of_block, inverse, planes)
