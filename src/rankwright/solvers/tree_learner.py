"""One tree a round: grown on the residuals, its leaves set by one Newton step and shrunk.

Where second derivatives vanish, Newton's step s = Σ residuals / Σ second derivatives grows without bounds. The costs
boosted here are sums of logistic ones, whose third derivative is at most the second: then a step of ln(1 + |s|) is the
one that surely lowers the cost most (Sun and Tran-Dinh 2019, damped Newton steps), and no leaf goes further than that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.models.trees.draws import salts_of, tree_features
from rankwright.models.trees.forest import Forest, Tree
from rankwright.models.trees.grow import Grower, Grown, Node
from rankwright.models.trees.local_histograms import LocalHistograms
from rankwright.models.trees.monotone import leaf_bounds
from rankwright.models.trees.predict import add_scores

Array = npt.NDArray[Any]
_ROWS_A_THREAD = 1 << 14  # whose scores change
_COPIED = 1 << 18  # values of rows left out, at a time
LEAST_CURVE = 1e-6
"""Least second derivative per row of a leaf."""


class TreeLearner:
    """Trees for the rounds of boosting, wherever their rows are; subclasses grow them and change the scores.

    Parameters
    ----------
    grower : Grower
        How trees are grown.
    shrinkage : float
        Factor for the values of leaves, which are at most ln(1 + |Newton's step|).
    tree_features : float
        Share of the features that a tree may use.
    seed : int
        Random seed; what a round draws depends only on the seed and the number of the round.
    valid_scores : callable, optional
        The scores of the validation data by one tree.

    Attributes
    ----------
    trees : list of Tree
        The trees so far.
    """

    def __init__(
        self,
        grower: Grower,
        *,
        shrinkage: float,
        tree_features: float = 1.0,
        seed: int = 0,
        valid_scores: Callable[[Tree], Array] | None = None,
    ) -> None:
        self.trees: list[Tree] = []
        self._grower, self._valid_scores = grower, valid_scores
        self._shrinkage, self._tree_features, self._seed = shrinkage, tree_features, seed

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree and add its scores to ``scores``."""
        raise NotImplementedError

    def add_last(self, scores: Array) -> None:
        """Add the last tree to the scores of the validation data."""
        assert self._valid_scores is not None
        scores += self._valid_scores(self.trees[-1])

    def _grow(self, number: int, rng: np.random.Generator) -> Grown:
        """Grow the tree of a number from what its source has begun with; ``rng`` draws its features."""
        features = tree_features(self._grower.source.varies, self._tree_features, rng)
        return self._grower.grow(features, salts_of(self._seed, number)[1])

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, number])

    def _bounds(self, grown: Grown, sums_of: Callable[[Node], tuple[float, float, int]]) -> Sequence[Array]:
        """Bounds of the Newton steps of the leaves that make the tree monotone, from sums of residuals and curvatures.

        They count at least `LEAST_CURVE` per row, as in the steps.
        """
        directions, n = self._grower.directions, len(grown.tree.feature)
        if not directions:
            return np.full(len(grown.leaves), -np.inf), np.full(len(grown.leaves), np.inf)
        residuals, curves = np.zeros(n), np.zeros(n)
        for place, leaf in zip(grown.places, grown.leaves, strict=True):
            residuals[place], curve, n_rows = sums_of(leaf)
            curves[place] = max(curve, LEAST_CURVE * n_rows)
        return [bounds[grown.places] for bounds in leaf_bounds(grown.tree, directions, residuals, curves)]


class LocalLearner(TreeLearner):
    """Trees on rows in this process.

    Parameters
    ----------
    grower : Grower
        How trees are grown, from :class:`~rankwright.models.trees.local_histograms.LocalHistograms`.
    X : ndarray
        The features it has binned, for rows that a tree does not see.
    order : ndarray, optional
        The rows of X in the order of the bins, of residuals and of scores; by default their own.
    newton : bool
        Whether splits are chosen by Newton gains, otherwise by squared error.
    tree_rows : float
        Share of the rows that a tree sees.
    **settings
        As for :class:`TreeLearner`.
    """

    def __init__(
        self,
        grower: Grower,
        X: Array,
        *,
        order: Array | None = None,
        newton: bool = False,
        tree_rows: float = 1.0,
        **settings: Any,
    ) -> None:
        super().__init__(grower, **settings)
        self._X, self._order = X, np.arange(len(X)) if order is None else order
        self._by_curves, self._tree_rows = newton or bool(grower.directions), tree_rows

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree and add its scores to ``scores``."""
        source = self._grower.source
        assert isinstance(source, LocalHistograms)
        number, n = len(self.trees), len(self._order)
        rng, rows = self._rng(number), np.arange(n, dtype=np.uint32)
        left_out = rows[:0]
        if self._tree_rows < 1.0:
            seen = rng.random(n) < self._tree_rows
            rows, left_out = rows[seen], rows[~seen]
        source.begin(residuals, rows, weights if self._by_curves else None)
        grown = self._grow(number, rng)
        each = [source.rows_of(leaf) for leaf in grown.leaves]

        def sums_of(leaf: Node) -> tuple[float, float, int]:
            rows = source.rows_of(leaf)
            return residuals[rows].sum(), weights[rows].sum(), len(rows)

        low, high = self._bounds(grown, sums_of)
        value = grown.tree.value.copy()

        def add(start: int, stop: int) -> None:
            for at in range(start, stop):
                bounds = (low[at], high[at])
                value[grown.places[at]] = _add_leaf(each[at], residuals, weights, self._shrinkage, *bounds, scores)

        source.team.each(add, _leaves_by_thread([len(rows) for rows in each], source.team.threads))
        tree = dataclasses.replace(grown.tree, value=value)
        self.trees.append(tree)
        step = max(1, _COPIED // self._X.shape[1])
        for start in range(0, len(left_out), step):
            some = left_out[start : start + step]
            scores[some] += tree_scores(tree, self._X[self._order[some]])


def _leaves_by_thread(sizes: list[int], threads: int) -> list[tuple[int, int]]:
    """Leaves of each thread, with about equal numbers of rows."""
    ends = np.cumsum(sizes)
    threads = min(threads, 1 + int(ends[-1]) // _ROWS_A_THREAD)
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, threads) / threads)
    return list(pairwise([0, *cuts.tolist(), len(sizes)]))


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
