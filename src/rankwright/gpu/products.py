"""The two products with the features on the device: rows times weights, and coefficients times rows.

A row's sum is added up from those of the threads that share it, a column's from those of warps and segments of
documents, always in the same order (no atomics on floats), so results have the same bits every time.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float64, int64, uint32

from rankwright.gpu.blockwise import NEAR, add_up, arranged, slices
from rankwright.gpu.device import blocks, is_simulated

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
    partial = cuda.shared.array(_PARTS, float64)
    values, columns = cuda.local.array(_DEEP, float64), cuda.local.array(_DEEP, uint32)
    t, n, d = cuda.threadIdx.x, rows.size, X.shape[1]
    line, side, first = t // _SIDE, t % _SIDE, cuda.blockIdx.x * _ROWS
    if first >= n:
        return
    n_rows = min(_ROWS, n - first)
    for first_column in range(0, d, _DEEP * _SIDE):
        for k in range(_DEEP):
            at = first_column + k * _SIDE + side
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
            partial[i, side] = total if first_column == 0 else partial[i, side] + total
    cuda.syncthreads()
    for i in range(t, n_rows, SUMMING):
        total = 0.0
        for other in range(_SIDE):
            total += partial[i, other]
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
    for first_column in range(0, d, _ACROSS):
        at = first_column + lane
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
        for column in range(t, min(_ACROSS, d - first_column), SUMMING):
            total = 0.0
            for other in range(_WARPS):
                total += totals[other, column]
            sums[segment, first_column + column] = total
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


# The order of documents and queries by content, on the device: that of `rankwright.maxmargin.order`.


@cuda.jit(cache=True)
def list_rows(starts: Any, indptr: Any, rows: Any) -> None:
    """The rows of X that hold the documents, query after query; a block each."""
    q = cuda.blockIdx.x
    if q >= starts.size:
        return
    for i in range(cuda.threadIdx.x, indptr[q + 1] - indptr[q], cuda.blockDim.x):
        rows[indptr[q] + i] = starts[q] + i


@cuda.jit(cache=True)
def count_up(numbers: Any) -> None:
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        numbers[i] = i


@cuda.jit(cache=True)
def add_labels(labels: Any, factor: float, keys: Any) -> None:
    """Add labels times a factor to the keys of documents."""
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        keys[i] += factor * labels[i]


@cuda.jit(cache=True)
def order_queries(queries: Any, indptr: Any, keys: Any, order: Any, means: Any, scratch: Any, room: int) -> None:
    """The documents of every query by falling keys, and the mean sine of these."""
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    near = shared[: NEAR if scratch.size else 0]
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        sorted_keys, places, _, _, _, _, partial, _ = slices(space, n)
        arranged(n, start, keys, sorted_keys, places, near)
        total = 0.0
        for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            order[start + i] = places[i]
            total += math.sin(sorted_keys[i]) / n  # as the CPU has it
        total = add_up(total, partial)
        if cuda.threadIdx.x == 0:
            means[q] = total
        cuda.syncthreads()


@cuda.jit(cache=True)
def gather_docs(order: Any, indptr: Any, starts: Any, queries: Any, moved: Any, docs: Any, rows: Any) -> None:
    """Documents and rows in the order of ``queries``, a block each; query q starts at row ``starts[q]``."""
    at = cuda.blockIdx.x
    if at >= queries.size:
        return
    q = queries[at]
    for i in range(cuda.threadIdx.x, indptr[q + 1] - indptr[q], cuda.blockDim.x):
        place = order[indptr[q] + i]
        docs[moved[at] + i] = indptr[q] + place
        rows[moved[at] + i] = starts[q] + place


@cuda.jit(cache=True)
def gather_labels(labels: Any, docs: Any, gathered: Any) -> None:
    """Labels of documents in another order."""
    for i in range(cuda.grid(1), docs.size, cuda.gridsize(1)):
        gathered[i] = labels[docs[i]]
