"""The kernels that run rows through trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.models.trees.forest import Forest

__all__ = ["add_scores", "path_contributions"]

Array = npt.NDArray[Any]
_BLOCK = 64  # rows that stay in the nearest caches while all trees see them


@njit(cache=True, nogil=True)
def _tree_scores(X: Any, roots: Any, asked: Any, threshold: Any, left: Any, value: Any, scores: Any) -> None:
    """Add the values of the leaves that rows reach, tree after tree.

    A block of rows goes down a tree together, one level at a time and without branches, until all are at leaves: a leaf
    leads to itself.
    """
    at = np.empty(_BLOCK, np.int64)
    for first in range(0, X.shape[0], _BLOCK):
        n = min(_BLOCK, X.shape[0] - first)
        for root in roots:
            for i in range(n):
                at[i] = root
            moved = np.int64(1)
            while moved:
                moved = np.int64(0)
                for i in range(n):
                    node = at[i]
                    x = X[first + i, asked[node] >> 1]
                    right = np.int64(x > threshold[node]) | (np.int64(x != x) & asked[node])
                    goes = left[node] + right
                    moved |= goes ^ node
                    at[i] = goes
            for i in range(n):
                scores[first + i] += value[at[i]]


@njit(cache=True)
def _expected(feature: Any, left: Any, value: Any, count: Any, expected: Any) -> None:
    """Mean value below every node; children come after their parents."""
    for node in range(feature.size - 1, -1, -1):
        if feature[node] < 0:
            expected[node] = value[node]
        else:
            one, two = left[node], left[node] + 1
            share = count[one] / (count[one] + count[two])
            expected[node] = share * expected[one] + (1.0 - share) * expected[two]


@njit(cache=True)
def _walk(
    x: Any, roots: Any, feature: Any, threshold: Any, missing_left: Any, left: Any, expected: Any, out: Any
) -> None:
    for root in roots:
        node = root
        while feature[node] >= 0:
            j = feature[node]
            goes_left = x[j] <= threshold[node] or (missing_left[node] and x[j] != x[j])
            child = left[node] + (0 if goes_left else 1)
            out[j] += expected[child] - expected[node]
            node = child


def path_contributions(forest: Forest, x: Array) -> Array:
    """What each feature adds to the score of one row, from the mean of all rows on.

    On the way from a root to a leaf the mean of the training rows below changes; each change belongs to the feature
    that was asked. They add up to the score less the mean score.

    Parameters
    ----------
    forest : Forest
        The trees.
    x : ndarray
        Features of one row.
    """
    expected, out = np.empty(len(forest.feature)), np.zeros(len(x))
    _expected(forest.feature, forest.left, forest.value, forest.count, expected)
    _walk(
        x, forest.roots, forest.feature, forest.threshold, forest.missing_left, forest.left, expected, out
    )  # fmt: skip
    return out


def add_scores(forest: Forest, X: Array, scores: Array) -> None:
    """Add what the trees say of dense rows to ``scores``."""
    leaf = forest.feature < 0
    asked = np.where(leaf, 0, 2 * forest.feature.astype(np.int64) + ~forest.missing_left)  # the feature; missing: right
    left = np.where(leaf, np.arange(len(leaf)), forest.left)
    _tree_scores(X, forest.roots, asked, np.where(leaf, np.inf, forest.threshold), left, forest.value, scores)
