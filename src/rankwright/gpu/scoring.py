"""Scores of models on the device: rows are uploaded a block at a time, scores come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import cuda, int32

from rankwright._types import Array
from rankwright.boosting.float32 import rounded_down
from rankwright.boosting.forest import Forest
from rankwright.boosting.predict import goes_left
from rankwright.boosting.tree_model import GradeModel, TreeModel, expected_grade
from rankwright.data import sparse
from rankwright.data.dataset import as_table
from rankwright.errors import InputError
from rankwright.gpu import device, products
from rankwright.gpu.device import blocks, is_simulated, upload
from rankwright.gpu.products import count_up
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel

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


def forest_scores(model: TreeModel | GradeModel, X: Any, feature_names: Sequence[str] | None = None) -> Array:
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

    def add(self, rows: Any, scores: Any) -> None:
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
def _next(node: int, held: Any) -> int:
    x = held[(node & ((1 << _COLUMN) - 1)) * _STRIDE + cuda.threadIdx.x]
    goes_left = x <= node >> _LIMIT or (x == _NAN and (node >> _COLUMN) & 1 == 1)
    return ((node >> _LEFT) & (_MOST_NODES - 1)) + (0 if goes_left else 1)


@cuda.jit(cache=True)
def _add_held(X: Any, used: Any, roots: Any, depths: Any, nodes: Any, values: Any, scores: Any) -> None:
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
    X: Any, roots: Any, feature: Any, limits: Any, missing_left: Any, left: Any, subset: Any, sets: Any, values: Any,
    scores: Any,
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


def model_scores(model: Any, X: Any, feature_names: Sequence[str] | None = None) -> Array:
    """Scores by a linear model, trees, or a sum of these."""
    if isinstance(model, SumModel):
        return model.summed(partial(model_scores, X=X, feature_names=feature_names), X, feature_names)
    if isinstance(model, TreeModel | GradeModel):
        return forest_scores(model, X, feature_names)
    return linear_scores(model, X, feature_names)


def linear_scores(model: Any, X: Any, feature_names: Sequence[str] | None = None) -> Array:
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


def score_there(X: Any, rows: Any, weights: Array, scores: Any) -> None:
    """``scores[i] = X[rows[i]] · weights``; all but the weights are on the device."""
    products.launch_scores(0, X, rows, upload(np.ascontiguousarray(weights, np.float64)), scores)


def weights_of(model: Any, n_columns: int, feature_names: Sequence[str] | None) -> Array:
    if not isinstance(model, LinearModel) or model.query_scaling is not None:
        scales = "scales features within queries" if isinstance(model, LinearModel) else "is neither linear nor trees"
        raise InputError(f"device is 'cuda', and the model {scales}; expected device='cpu'")
    columns, weights = model._columns(n_columns, feature_names), np.zeros(n_columns)
    if columns is None:
        weights[: model.n_features] = model.coef[:n_columns]
    else:
        weights[columns] = model.coef
    return weights
