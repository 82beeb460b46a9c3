"""Scores of models on the device, and the two products with features: rows times weights, and coefficients times rows.

A row's sum is added up from those of the threads that share it, a column's from those of warps and segments of
documents, always in the same order (no atomics on floats), so results have the same bits every time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64, uint32

from rankwright._types import Array
from rankwright.boosting.float32 import rounded_down
from rankwright.boosting.forest import Forest
from rankwright.boosting.predict import goes_left
from rankwright.boosting.tree_model import GradeModel, TreeModel, expected_grade
from rankwright.data import sparse
from rankwright.data.dataset import as_table
from rankwright.errors import InputError
from rankwright.gpu import device
from rankwright.gpu.blockwise import NEAR, add_up, arranged, slices
from rankwright.gpu.device import blocks, is_simulated, upload
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel

_DOCS = 4 if is_simulated() else 512  # documents whose coefficients are read together
LANES, _WARPS = (2, 2) if is_simulated() else (32, 8)
SUMMING = LANES * _WARPS
"""Threads of a block."""
_ACROSS = 5 * LANES  # columns at a time
_TOTALS = (_WARPS, _ACROSS)
_BLOCK_ROWS = 4 if is_simulated() else 256  # that a block of `score_rows` takes
_SIDE, _DEEP = (2, 3) if is_simulated() else (16, 9)  # threads that share a row; columns that each reads at once
_LINES, _PARTS = SUMMING // _SIDE, (_BLOCK_ROWS, _SIDE + 1)


@cuda.jit(cache=True)
def score_rows(X: Array, rows: Array, weights: Array, scores: Array) -> None:
    """``scores[i] = X[rows[i]] · weights``; a block of threads takes `_BLOCK_ROWS`, and `_SIDE` threads a row.

    Features without a weight may be missing: a row with missing values is summed again without them. With two sums of
    the same products the compiler issues all reads before it adds; with one it waits for each read in turn, which takes
    1.5 times as long (3.8 million × 136: 0.55 ms against 0.85; a warp per row 0.77).
    """
    partial = cuda.shared.array(_PARTS, float64)
    values, columns = cuda.local.array(_DEEP, float64), cuda.local.array(_DEEP, uint32)
    t, n, d = cuda.threadIdx.x, rows.size, X.shape[1]
    line, side, first = t // _SIDE, t % _SIDE, cuda.blockIdx.x * _BLOCK_ROWS
    if first >= n:
        return
    n_rows = min(_BLOCK_ROWS, n - first)
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
def add_segments(X: Array, rows: Array, coef: Array, bounds: Array, sums: Array) -> None:
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
def add_to_blocks(sums: Array, bounds: Array, inverse: Array, planes: Array) -> None:
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
def gather_rows(X: Array, rows: Array, chosen: Array, gathered: Array) -> None:
    """``gathered[i] = X[rows[chosen[i]]]``, a block each."""
    i = cuda.blockIdx.x
    if i >= chosen.size:
        return
    for j in range(cuda.threadIdx.x, X.shape[1], cuda.blockDim.x):
        gathered[i, j] = X[rows[chosen[i]], j]


def launch_scores(stream: int, X: Array, rows: Array, weights: Array, scores: Array) -> None:
    score_rows[blocks(-(-rows.size // _BLOCK_ROWS)), SUMMING, stream](X, rows, weights, scores)


def launch_planes(
    stream: int,
    X: Array,
    rows: Array,
    coef: Array,
    bounds: Array,
    sums: Array,
    of_block: Array,
    inverse: Array,
    planes: Array,
) -> None:
    add_segments[blocks(bounds.size - 1), SUMMING, stream](X, rows, coef, bounds, sums)
    add_to_blocks[blocks(planes.shape[0]), SUMMING, stream](sums, of_block, inverse, planes)


# The order of documents and queries by content, on the device, as max-margin training needs it: that of
# `rankwright.maxmargin.order`.


@cuda.jit(cache=True)
def list_rows(starts: Array, indptr: Array, rows: Array) -> None:
    """The rows of X that hold the documents, query after query; a block each."""
    q = cuda.blockIdx.x
    if q >= starts.size:
        return
    for i in range(cuda.threadIdx.x, indptr[q + 1] - indptr[q], cuda.blockDim.x):
        rows[indptr[q] + i] = starts[q] + i


@cuda.jit(cache=True)
def count_up(numbers: Array) -> None:
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        numbers[i] = i


@cuda.jit(cache=True)
def add_labels(labels: Array, factor: float, keys: Array) -> None:
    """Add labels times a factor to the keys of documents."""
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        keys[i] += factor * labels[i]


@cuda.jit(cache=True)
def order_queries(
    queries: Array, indptr: Array, keys: Array, order: Array, means: Array, scratch: Array, room: int
) -> None:
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
def gather_docs(
    order: Array, indptr: Array, starts: Array, queries: Array, moved: Array, docs: Array, rows: Array
) -> None:
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
def gather_labels(labels: Array, docs: Array, gathered: Array) -> None:
    """Labels of documents in another order."""
    for i in range(cuda.grid(1), docs.size, cuda.gridsize(1)):
        gathered[i] = labels[docs[i]]


# Scores of rows by a forest, on the device: a thread for each row walks through the trees, four at a time.
#
# Values are added tree by tree, as on the CPU: the same bits. Rows of float32 go to shared memory, transposed, as
# whole numbers in the same order, where they fit: then threads of a warp never wait for each other, whatever features
# they need. A node is 64 bits: its threshold as such a number, the left child, whether missing values go left, and the
# feature. A leaf leads to itself, so that all threads take as many steps as the tree is deep.


_ROWS = 64  # of a block, and threads
_STRIDE = _ROWS + 1  # between the features of these rows, so that writing them needs different banks, too
_HELD = 12288  # numbers that shared memory holds
_AT_ONCE = 4  # trees
_NAN = (1 << 31) - 1  # above all numbers
_COLUMN, _LEFT, _LIMIT = 8, 9, 32  # bits below: those of the feature, and of missing values; then left child, threshold
_MOST_NODES = 1 << (_LIMIT - _LEFT)
_TREE_ROWS = 1 << 30  # bytes of features at a time
_SHARE = 4  # of the free memory, that rows on their way may take


def forest_scores(model: TreeModel | GradeModel, X: Array, feature_names: Sequence[str] | None = None) -> Array:
    """The scores of a model of trees for rows of features: the same bits as ``model.score`` gives."""
    X = as_table(X)
    dtype = np.dtype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    forests = [DeviceForest(forest, dtype) for forest in model._forests()]
    scores, step = np.zeros(X.shape[0]), max(1, _TREE_ROWS // max(1, dtype.itemsize * model.n_inputs))
    for first, part in model._blocks(X, feature_names, step):
        if isinstance(model, TreeModel):
            scores[first : first + len(part)] = forests[0].score(part)
        else:
            sums = np.stack([forest.score(part, start) for forest, start in zip(forests, model.starts, strict=True)])
            scores[first : first + len(part)] = expected_grade(sums, model.grades, model.link)
    return scores


class DeviceForest:
    """A forest on the device.

    `forest`: the trees. `dtype`: of the rows to score: float32 or float64.
    """

    def __init__(self, forest: Forest, dtype: Any) -> None:
        self._dtype, inner = np.dtype(dtype), forest.feature >= 0
        used = np.unique(forest.feature[inner]).astype(np.int64)
        self._held = len(used) * _STRIDE
        self._fits = self._dtype == np.float32 and self._held <= _HELD and len(inner) < _MOST_NODES - 1
        self._fits &= not (forest.subset >= 0).any()
        limits = rounded_down(forest.threshold, self._dtype)
        arrays: tuple[Array, ...]
        if self._fits:
            arrays = (used, *_packed(forest, inner, np.searchsorted(used, forest.feature), limits))
        else:
            splits = (forest.feature, limits, forest.missing_left, forest.left, forest.subset, forest.sets)
            arrays = (forest.roots, *splits, forest.value)
        self._known = tuple(device.upload(part) for part in arrays)
        self._is_empty = forest.n_trees == 0

    def score(self, X: Array, start: float = 0.0) -> Array:
        """Scores of dense rows, of the type that was announced, on top of ``start``."""
        scores = np.full(len(X), start)
        step = max(1, device.free_bytes() // _SHARE // max(1, X.shape[1] * X.itemsize))
        for first in range(0, len(X), step):
            rows = device.upload(np.ascontiguousarray(X[first : first + step], self._dtype))
            sums = device.upload(scores[first : first + step])
            self.add(rows, sums)
            scores[first : first + step] = sums.copy_to_host()
        return scores

    def add(self, rows: Array, scores: Array) -> None:
        """Add the values of the trees to scores; rows and scores are on the device."""
        blocks = -(-rows.shape[0] // _ROWS)
        if self._is_empty or not blocks:
            return
        if self._fits:
            _add_held[device.blocks(blocks), _ROWS, 0, 4 * self._held](rows.view(np.int32), *self._known, scores)
        else:
            _add_direct[device.blocks(blocks), _ROWS](rows, *self._known, scores)


def _packed(forest: Forest, inner: Array, columns: Array, limits: Array) -> tuple[Array, Array, Array, Array]:
    """Roots, depths of each four trees, nodes, and values; an empty tree fills up the last four."""
    n, end = len(inner), len(inner)
    depth = np.zeros(n + 1, np.int64)
    for node in np.flatnonzero(inner)[::-1]:  # children come after their parents
        left = forest.left[node]
        depth[node] = 1 + max(depth[left], depth[left + 1])
    roots = np.append(forest.roots, np.full(-forest.n_trees % _AT_ONCE, end)).astype(np.int64)
    bits = (limits + np.float32(0.0)).view(np.int32)  # −0 becomes 0
    keys = np.append(np.where(inner, bits ^ ((bits >> 31) & _NAN), _NAN), _NAN).astype(np.int64)
    left = np.where(inner, forest.left, np.arange(n))
    low = (left.astype(np.int64) << _LEFT) | np.where(inner, columns, 0)
    low |= np.where(inner, forest.missing_left, False).astype(np.int64) << _COLUMN
    nodes = (keys << _LIMIT) | np.append(low, end << _LEFT)
    return roots, depth[roots].reshape(-1, _AT_ONCE).max(axis=1), nodes, np.append(forest.value, 0.0)


@cuda.jit(device=True, cache=True)
def _next(node: int, held: Array) -> int:
    x = held[(node & ((1 << _COLUMN) - 1)) * _STRIDE + cuda.threadIdx.x]
    goes_left = x <= node >> _LIMIT or (x == _NAN and (node >> _COLUMN) & 1 == 1)
    return ((node >> _LEFT) & (_MOST_NODES - 1)) + (0 if goes_left else 1)


@cuda.jit(cache=True)
def _add_held(X: Array, used: Array, roots: Array, depths: Array, nodes: Array, values: Array, scores: Array) -> None:
    held = cuda.shared.array(0, int32)
    t, first, columns = cuda.threadIdx.x, cuda.blockIdx.x * _ROWS, used.size
    rows = min(_ROWS, X.shape[0] - first)
    for i in range(t, rows * columns, _ROWS):
        row, column = i // columns, i % columns
        bits = X[first + row, used[column]]
        is_nan = bits & 0x7FFFFFFF > 0x7F800000
        held[column * _STRIDE + row] = _NAN if is_nan else bits ^ ((bits >> 31) & _NAN)
    cuda.syncthreads()
    if t >= rows:
        return
    score = scores[first + t]
    for four in range(depths.size):
        a, b, c, d = roots[4 * four], roots[4 * four + 1], roots[4 * four + 2], roots[4 * four + 3]
        for _ in range(depths[four]):
            a, b, c, d = _next(nodes[a], held), _next(nodes[b], held), _next(nodes[c], held), _next(nodes[d], held)
        score = score + values[a] + values[b] + values[c] + values[d]
    scores[first + t] = score


@cuda.jit(cache=True)
def _add_direct(
    X: Array, roots: Array, feature: Array, limits: Array, missing_left: Array, left: Array, subset: Array, sets: Array,
    values: Array, scores: Array,
) -> None:  # fmt: skip
    row = cuda.grid(1)
    if row >= X.shape[0]:
        return
    score = scores[row]
    for tree in range(roots.size):
        node = np.int64(roots[tree])
        while feature[node] >= 0:
            is_left = goes_left(X[row, feature[node]], limits[node], missing_left[node], subset[node], sets)
            node = np.int64(left[node]) + (0 if is_left else 1)
        score += values[node]
    scores[row] = score


_PART = 1 << 28  # bytes of features at a time
_THREADS = 4 if is_simulated() else 128


@dataclass(frozen=True)
class DeviceModel:
    """A model that scores on the device; for partitioned data, on the device of each part's machine."""

    model: Any

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        return model_scores(self.model, X, feature_names)

    def with_missing(self, X: Any, names: Sequence[str] | None) -> Any:
        return self.model.with_missing(X, names)


def model_scores(model: Any, X: Array, feature_names: Sequence[str] | None = None) -> Array:
    """Scores by a linear model, trees, or a sum of these."""
    if isinstance(model, SumModel):
        return model.summed(partial(model_scores, X=X, feature_names=feature_names), X, feature_names)
    if isinstance(model, TreeModel | GradeModel):
        return forest_scores(model, X, feature_names)
    return linear_scores(model, X, feature_names)


def linear_scores(model: LinearModel, X: Array, feature_names: Sequence[str] | None = None) -> Array:
    """Scores of a linear model, as ``model.score`` gives them up to rounding."""
    X = as_table(X)
    weights = weights_of(model, X.shape[1], feature_names)
    n_docs = X.shape[0]
    n_rows, scores = max(1, min(n_docs, _PART // max(1, X.shape[1] * X.dtype.itemsize))), np.empty(n_docs)
    rows, on_device = cuda.device_array(n_rows, np.int64), cuda.device_array(n_rows, np.float64)
    count_up[blocks(1), _THREADS](rows)
    for first in range(0, n_docs, n_rows):
        block = X[first : first + n_rows]
        block = block.toarray() if sparse.issparse(block) else block
        score_there(upload(block), rows[: len(block)], weights, on_device)
        scores[first : first + len(block)] = on_device.copy_to_host()[: len(block)]
    model._check_scores(scores, X, feature_names)
    return scores


def score_there(X: Array, rows: Array, weights: Array, scores: Array) -> None:
    """``scores[i] = X[rows[i]] · weights``; all but the weights are on the device."""
    launch_scores(0, X, rows, upload(np.ascontiguousarray(weights, np.float64)), scores)


def weights_of(model: LinearModel, n_columns: int, feature_names: Sequence[str] | None) -> Array:
    if not isinstance(model, LinearModel) or model.query_scaling is not None or model.missing is not None:
        scales = "is neither linear nor trees"
        if isinstance(model, LinearModel):
            scales = "scales features within queries" if model.missing is None else "takes missing values"
        raise InputError(f"device is 'cuda', and the model {scales}; expected device='cpu'")
    columns, weights = model._columns(n_columns, feature_names), np.zeros(n_columns)
    if columns is None:
        weights[: model.n_features] = model.coef[:n_columns]
    else:
        weights[columns] = model.coef
    return weights
