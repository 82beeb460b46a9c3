"""One tree a round: grown on the residuals, its leaves set by one Newton step and shrunk.

Where second derivatives vanish, Newton's step s = Σ residuals / Σ second derivatives grows without bounds. The costs
boosted here are sums of logistic ones, whose third derivative is at most the second: then a step of ln(1 + |s|) is the
one that surely lowers the cost most (Sun and Tran-Dinh 2019, damped Newton steps), and no leaf goes further than that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.models.trees.draws import salts_of
from rankwright.models.trees.forest import Forest, Tree
from rankwright.models.trees.grow import Grower
from rankwright.models.trees.monotone import leaf_bounds
from rankwright.models.trees.predict import add_scores

__all__ = ["LEAST_CURVE", "TreeLearner", "TreesPerClass", "leaf_value", "tree_scores"]

Array = npt.NDArray[Any]
_ROWS_A_THREAD = 1 << 14  # whose scores change
_COPIED = 1 << 18  # values of rows left out, at a time
LEAST_CURVE = 1e-6
"""Least second derivative per row of a leaf."""


class TreeLearner:
    """Trees for the rounds of boosting.

    Parameters
    ----------
    grower : Grower
        How trees are grown.
    X : ndarray
        The features it has binned, for rows that a tree does not see.
    order : ndarray, optional
        The rows of X in the order of the bins, of residuals and of scores; by default their own.
    newton : bool
        Whether splits are chosen by Newton gains, otherwise by squared error.
    shrinkage : float
        Factor for the values of leaves, which are at most ln(1 + |Newton's step|).
    tree_rows, tree_features : float
        Share of the rows and features that a tree sees.
    seed : int
        Random seed; what a round draws depends only on the seed and the number of the round.
    X_valid : ndarray or iterable of ndarray, optional
        Features of the validation data, at once or some rows at a time; read again in every round.
    """

    def __init__(
        self,
        grower: Grower,
        X: Array,
        *,
        shrinkage: float,
        newton: bool = False,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        seed: int = 0,
        X_valid: Array | Iterable[Array] | None = None,
        order: Array | None = None,
    ) -> None:
        self._order = np.arange(len(X)) if order is None else order
        self.trees: list[Tree] = []
        self._grower, self._X = grower, X
        self._X_valid: Iterable[Array] | None = [X_valid] if isinstance(X_valid, np.ndarray) else X_valid
        self._shrinkage, self._newton, self._seed = shrinkage, newton, seed
        self._tree_rows, self._tree_features = tree_rows, tree_features

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree and add its scores to ``scores``."""
        rng = np.random.default_rng([self._seed, len(self.trees)])
        n = len(self._order)
        rows = np.arange(n, dtype=np.uint32)
        left_out = rows[:0]
        if self._tree_rows < 1.0:
            seen = rng.random(n) < self._tree_rows
            rows, left_out = rows[seen], rows[~seen]
        features = self._grower.varies.copy()
        if self._tree_features < 1.0 and features.any():
            varying = np.flatnonzero(features)
            features[:] = False
            features[rng.choice(varying, max(1, round(self._tree_features * len(varying))), replace=False)] = True
        curves = weights if self._newton or self._grower.directions else None
        salt = salts_of(self._seed, len(self.trees))[1]
        tree, leaves = self._grower.grow(residuals, rows, features, salt, curves)
        low, high = self._bounds(tree, leaves, residuals, weights)
        value = tree.value.copy()

        def add(some: list[tuple[int, Array]]) -> None:
            for node, part in some:
                value[node] = _add_leaf(part, residuals, weights, self._shrinkage, low[node], high[node], scores)

        self._grower.team.each(add, [(leaves[start:stop],) for start, stop in self._shares(leaves)])
        tree = dataclasses.replace(tree, value=value)
        self.trees.append(tree)
        step = max(1, _COPIED // self._X.shape[1])
        for start in range(0, len(left_out), step):
            some = left_out[start : start + step]
            scores[some] += tree_scores(tree, self._X[self._order[some]])

    def _shares(self, leaves: list[tuple[int, Array]]) -> list[tuple[int, int]]:
        """Leaves of each thread, with about equal numbers of rows."""
        ends = np.cumsum([len(part) for _, part in leaves])
        threads = min(self._grower.team.threads, 1 + int(ends[-1]) // _ROWS_A_THREAD)
        cuts = np.searchsorted(ends, ends[-1] * np.arange(1, threads) / threads)
        return list(pairwise([0, *cuts.tolist(), len(leaves)]))

    def _bounds(
        self, tree: Tree, leaves: list[tuple[int, Array]], residuals: Array, weights: Array
    ) -> tuple[Array, Array]:
        """Bounds of the Newton steps of all leaves, by node, that make the tree monotone."""
        n = len(tree.feature)
        if not self._grower.directions:
            return np.full(n, -np.inf), np.full(n, np.inf)
        sums, curves = np.zeros(n), np.zeros(n)
        for node, part in leaves:
            sums[node] = residuals[part].sum()
            curves[node] = max(weights[part].sum(), LEAST_CURVE * len(part))
        return leaf_bounds(tree, self._grower.directions, sums, curves)

    def add_last(self, scores: Array) -> None:
        """Add the last tree to the scores of the validation data."""
        assert self._X_valid is not None
        first = 0
        for X in self._X_valid:
            scores[first : first + len(X)] += tree_scores(self.trees[-1], X)
            first += len(X)


@njit(cache=True, nogil=True)
def _add_leaf(
    rows: Any, residuals: Any, weights: Any, shrinkage: float, low: float, high: float, scores: Any
) -> float:  # fmt: skip
    """Add the value of a leaf to the scores of its rows; returns it."""
    residual, curve = 0.0, 0.0
    for k in range(rows.size):
        residual += residuals[rows[k]]
        curve += weights[rows[k]]
    value = leaf_value(residual, curve, rows.size, shrinkage, low, high)
    for k in range(rows.size):
        scores[rows[k]] += value
    return value


@njit(cache=True, nogil=True)
def leaf_value(residual: float, curve: float, n_rows: int, shrinkage: float, low: float, high: float) -> float:
    """The value of a leaf: its Newton step, within bounds and shrunk."""
    step = residual / max(curve, LEAST_CURVE * n_rows) if n_rows else 0.0
    return min(max(_shrunk(step, shrinkage), _shrunk(low, shrinkage)), _shrunk(high, shrinkage))


@njit(cache=True, nogil=True)
def _shrunk(step: float, shrinkage: float) -> float:
    """What is left of a Newton step; it rises with the step."""
    return math.copysign(min(shrinkage * abs(step), math.log1p(abs(step))), step)


def tree_scores(tree: Tree, X: Array) -> Array:
    """Scores of rows by one tree."""
    scores = np.zeros(len(X))
    add_scores(Forest.of([tree]), X, scores)
    return scores


class TreesPerClass:
    """A learner for each row of scores: one tree per class and round."""

    def __init__(self, learners: list[TreeLearner]) -> None:
        self.learners = learners

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree for each class."""
        for at, learner in enumerate(self.learners):
            learner.fit(residuals[at], weights[at], scores[at])

    def add_last(self, scores: Array) -> None:
        """Add the last trees to the scores of the validation data."""
        for learner, row in zip(self.learners, scores, strict=True):
            learner.add_last(row)
