"""Kernels that score rows with trees.

Trees of up to 64 leaves are not traversed. A row starts with a bit for every leaf of a tree, from left to right; each
split that sends it right clears the bits of the leaves on its left, and the lowest remaining bit is the row's leaf
(Lucchese et al.: QuickScorer, SIGIR 2015). A split is applied to a block of rows at once, without branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.boosting.forest import Forest

_BLOCK = 64  # rows that stay in the first-level caches for all trees
_BITS = 64
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DE_BRUIJN = 0x03F79D71B4CB0A89  # times a power of two, its upper six bits say which
_PLACE = np.zeros(_BITS, np.int64)
_PLACE[[((_DE_BRUIJN << bit) & int(_ALL)) >> 58 for bit in range(_BITS)]] = np.arange(_BITS)


@njit(cache=True, nogil=True, forceinline=True)
def goes_left(x: Any, threshold: float, missing_left: bool, subset: int, sets: Any) -> bool:
    """Whether a value goes to the left child of a split: the one rule of all kernels.

    ``subset`` is the split's row of ``sets``, and the value then the number of a category below 256; −1 where the
    threshold decides.
    """
    if x != x:
        return bool(missing_left)
    if subset < 0:
        return bool(x <= threshold)
    return _in_set(x, sets[subset])


@njit(cache=True, nogil=True, forceinline=True)
def _in_set(x: Any, words: Any) -> bool:
    category = np.int64(x)
    return bool((words[category >> 6] >> np.uint64(category & 63)) & np.uint64(1))


def add_scores(forest: Forest, X: Array, scores: Array) -> None:
    """Add the values of the trees for dense rows to ``scores``, tree by tree."""
    inner = forest.feature >= 0
    used = np.unique(forest.feature[inner]).astype(np.int64)
    n_splits = int(inner.sum())
    firsts, splits = np.empty(forest.n_trees + 1, np.int64), np.empty(n_splits, np.int64)
    kept, leaves = np.empty(n_splits, np.uint64), np.zeros((forest.n_trees, _BITS))
    if not _plan(forest.roots, forest.feature, forest.left, forest.value, firsts, splits, kept, leaves):
        splits_of = (forest.feature, forest.threshold, forest.missing_left, forest.left, forest.subset, forest.sets)
        _walked_scores(X, forest.roots, *splits_of, forest.value, scores)
        return
    splits, kept = splits[: firsts[-1]], kept[: firsts[-1]]
    columns = np.searchsorted(used, forest.feature[splits])
    limits = rounded_down(forest.threshold[splits], X.dtype)
    rules = (columns, limits, forest.missing_left[splits], forest.subset[splits], forest.sets)
    _masked_scores(X, used, firsts, *rules, kept, leaves, _PLACE, scores)


def rounded_down(threshold: Array, dtype: Any) -> Array:
    """The thresholds rounded down to a type: a value of the type is above both or above neither."""
    with np.errstate(over="ignore"):
        rounded = threshold.astype(dtype)
        return np.where(rounded > threshold, np.nextafter(rounded, dtype.type(-np.inf)), rounded)


@njit(cache=True)
def _plan(
    roots: Any, feature: Any, left: Any, value: Any, firsts: Any, splits: Any, kept: Any, leaves: Any
) -> bool:  # fmt: skip
    """For every tree its splits, the bits that each keeps, and the values of its leaves; False if it has too many.

    ``firsts`` is where the splits of each tree start. The stack holds nodes, and ``~k`` for a split k whose left side
    is done.
    """
    stack, lowest, right = np.empty(2 * _BITS, np.int64), np.empty(_BITS, np.int64), np.empty(_BITS, np.int64)
    n_splits = 0
    for tree in range(roots.size):
        firsts[tree] = n_splits
        stack[0] = roots[tree]
        top, n_leaves, k = 1, 0, 0
        while top:
            top -= 1
            node = stack[top]
            if node < 0:
                low = lowest[~node]
                gone = ((np.uint64(1) << np.uint64(n_leaves - low)) - np.uint64(1)) << np.uint64(low)
                kept[firsts[tree] + ~node] = ~gone
                stack[top] = right[~node]
                top += 1
            elif feature[node] < 0:
                leaves[tree, n_leaves] = value[node]
                n_leaves += 1
            else:
                if k == _BITS - 1 or n_splits == splits.size:
                    return False
                splits[n_splits], lowest[k], right[k] = node, n_leaves, left[node] + 1
                stack[top], stack[top + 1] = ~k, left[node]
                top += 2
                k += 1
                n_splits += 1
    firsts[roots.size] = n_splits
    return True


@njit(cache=True, nogil=True)
def _masked_scores(
    X: Any, used: Any, firsts: Any, columns: Any, limits: Any, missing_left: Any, subset: Any, sets: Any, kept: Any,
    leaves: Any, place: Any, scores: Any,
) -> None:  # fmt: skip
    block, bits = np.zeros((used.size, _BLOCK), X.dtype), np.empty(_BLOCK, np.uint64)
    for start in range(0, X.shape[0], _BLOCK):
        n = min(_BLOCK, X.shape[0] - start)
        for i in range(n):
            for c in range(used.size):
                block[c, i] = X[start + i, used[c]]
        for tree in range(leaves.shape[0]):
            for i in range(_BLOCK):
                bits[i] = _ALL
            for k in range(firsts[tree], firsts[tree + 1]):
                x, limit, those = block[columns[k]], limits[k], kept[k]
                if subset[k] >= 0:
                    for i in range(n):
                        bits[i] &= _ALL if goes_left(x[i], limit, missing_left[k], subset[k], sets) else those
                elif missing_left[k]:
                    for i in range(_BLOCK):
                        bits[i] &= those if x[i] > limit else _ALL
                else:
                    for i in range(_BLOCK):
                        bits[i] &= _ALL if x[i] <= limit else those
            for i in range(n):
                lowest = bits[i] & (~bits[i] + np.uint64(1))
                scores[start + i] += leaves[tree, place[(lowest * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]]


@njit(cache=True, nogil=True)
def _walked_scores(
    X: Any, roots: Any, feature: Any, threshold: Any, missing_left: Any, left: Any, subset: Any, sets: Any, value: Any,
    scores: Any,
) -> None:  # fmt: skip
    """The same for trees of any size."""
    for start in range(0, X.shape[0], _BLOCK):
        for root in roots:
            for i in range(start, min(start + _BLOCK, X.shape[0])):
                node = root
                while feature[node] >= 0:
                    x = X[i, feature[node]]
                    is_left = goes_left(x, threshold[node], missing_left[node], subset[node], sets)
                    node = left[node] + (0 if is_left else 1)
                scores[i] += value[node]
