"""Scores of rows by a forest, on the card: a thread for each row walks tree after tree.

Values are added tree by tree, as on the CPU: the same bits. The features of the rows of a block are brought to shared
memory, turned, where they fit: then threads of a warp never wait for each other, whatever features they need.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda, float32

from rankwright.errors import InputError
from rankwright.gpu import card
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.predict import rounded_down

__all__ = ["CardForest"]

Array = npt.NDArray[Any]
_ROWS = 64  # of a block, and threads
_STRIDE = _ROWS + 1  # between the features of these rows, so that writing them needs different banks, too
_HELD = 12288  # numbers that shared memory holds
_COLUMN, _LEFT = 20, 21  # bits: the feature, whether missing values go left, then the left child
_SHARE = 4  # of the free memory, that rows on their way may take


class CardForest:
    """A forest on the card.

    Parameters
    ----------
    forest : Forest
        Trees without splits by categories.
    dtype : dtype
        Of the rows to score.
    """

    def __init__(self, forest: Forest, dtype: Any) -> None:
        if (forest.subset >= 0).any():
            raise InputError("device is 'cuda', but the model splits by categories; expected device='cpu'")
        self._dtype, inner = np.dtype(dtype), forest.feature >= 0
        used = np.unique(forest.feature[inner]).astype(np.int64)
        self._fits = self._dtype == np.float32 and len(used) * _STRIDE <= _HELD
        columns = np.searchsorted(used, forest.feature) if self._fits else forest.feature
        nodes = np.arange(len(inner))
        links = np.where(inner, columns, 0).astype(np.int64)
        links |= np.where(inner, forest.missing_left, False).astype(np.int64) << _COLUMN
        links |= np.where(inner, forest.left, nodes).astype(np.int64) << _LEFT  # a leaf leads to itself
        limits = rounded_down(forest.threshold, self._dtype)
        known = (forest.roots.astype(np.int64), links, limits, inner, forest.value, used)
        self._known = tuple(card.upload(part) for part in known)

    def score(self, X: Array) -> Array:
        """Scores of dense rows, of the type that was announced."""
        scores = np.zeros(len(X))
        step = max(1, card.free_bytes() // _SHARE // max(1, X.shape[1] * X.itemsize))
        for first in range(0, len(X), step):
            rows = card.upload(np.ascontiguousarray(X[first : first + step], self._dtype))
            found = card.zeros(rows.shape[0], np.float64)
            self.add(rows, found)
            scores[first : first + step] = found.copy_to_host()
        return scores

    def add(self, rows: Any, scores: Any) -> None:
        """Add the values of the trees to scores; rows and scores are on the card."""
        *trees, used = self._known
        blocks = -(-rows.shape[0] // _ROWS)
        if not blocks or not trees[0].size:
            return
        if self._fits:
            _add_held[blocks, _ROWS](rows, used, *trees, scores)
        else:
            _add_direct[blocks, _ROWS](rows, *trees, scores)


@cuda.jit(device=True)
def _next(link: int, limit: Any, x: Any) -> int:
    """The child that a value goes to."""
    goes_left = x <= limit if x == x else ((link >> _COLUMN) & 1) == 1
    return (link >> _LEFT) + (0 if goes_left else 1)


@cuda.jit
def _add_held(
    X: Any, used: Any, roots: Any, links: Any, limits: Any, inner: Any, value: Any, scores: Any
) -> None:  # fmt: skip
    held = cuda.shared.array(_HELD, float32)
    t, first, columns = cuda.threadIdx.x, cuda.blockIdx.x * _ROWS, used.size
    rows = min(_ROWS, X.shape[0] - first)
    for i in range(t, rows * columns, _ROWS):
        held[i % columns * _STRIDE + i // columns] = X[first + i // columns, used[i % columns]]
    cuda.syncthreads()
    if t >= rows:
        return
    score = scores[first + t]
    for tree in range(roots.size):
        node = roots[tree]
        while inner[node]:
            link = links[node]
            node = _next(link, limits[node], held[(link & ((1 << _COLUMN) - 1)) * _STRIDE + t])
        score += value[node]
    scores[first + t] = score


@cuda.jit
def _add_direct(X: Any, roots: Any, links: Any, limits: Any, inner: Any, value: Any, scores: Any) -> None:
    row = cuda.grid(1)
    if row >= X.shape[0]:
        return
    score = scores[row]
    for tree in range(roots.size):
        node = roots[tree]
        while inner[node]:
            link = links[node]
            node = _next(link, limits[node], X[row, link & ((1 << _COLUMN) - 1)])
        score += value[node]
    scores[row] = score
