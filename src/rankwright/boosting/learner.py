"""One tree a round: grown on the gradients, its leaves set by one Newton step and shrunk.

Where second derivatives vanish, Newton's step s = Σ gradients / Σ second derivatives grows without bounds. The costs
boosted here are sums of logistic ones, whose third derivative is at most the second: then a step of ln(1 + |s|) is the
one that surely lowers the cost most (Sun and Tran-Dinh 2019, damped Newton steps), and no leaf goes further than that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.grow import Grower, Grown, LocalHistograms, Node, leaf_bounds
from rankwright.boosting.partitions import Cuts, PartitionHistograms, Units
from rankwright.boosting.predict import add_scores
from rankwright.boosting.rounds import Learner
from rankwright.data.hashes import salts_of, tree_features

_ROWS_A_THREAD = 1 << 14  # whose scores change
_COPIED = 1 << 18  # values of rows left out, at a time
LEAST_HESSIAN = 1e-6
"""Least second derivative per row of a leaf."""


class TreeLearner:
    """Trees for the rounds of boosting, wherever their rows are; subclasses grow them and change the scores.

    `grower`: how trees are grown. `shrinkage`: factor for the values of leaves, which are at most ln(1 + |Newton's
    step|). `tree_features`: share of the features that a tree may use. `seed`: random seed; what a round draws depends
    only on the seed and the number of the round. `valid_scores`: the scores of the validation data by one tree.
    `trees`: the trees so far.
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

    def add_last(self, scores: Array) -> None:
        assert self._valid_scores is not None
        scores += self._valid_scores(self.trees[-1])

    def _grow(self, number: int, rng: np.random.Generator) -> Grown:
        """Grow the tree of a number from what its source has begun with; ``rng`` draws its features."""
        features = tree_features(self._grower.source.varies, self._tree_features, rng)
        return self._grower.grow(features, salts_of(self._seed, number)[1])

    def _bounds(self, grown: Grown, sums_of: Callable[[Node], tuple[float, float, int]]) -> Sequence[Array]:
        """Bounds of the Newton steps of the leaves that make the tree monotone, from sums of gradients and hessians.

        They count at least `LEAST_HESSIAN` per row, as in the steps.
        """
        directions, n = self._grower.directions, len(grown.tree.feature)
        if not directions:
            return np.full(len(grown.leaves), -np.inf), np.full(len(grown.leaves), np.inf)
        gradients, hessians = np.zeros(n), np.zeros(n)
        for place, leaf in zip(grown.places, grown.leaves, strict=True):
            gradients[place], hessian, n_rows = sums_of(leaf)
            hessians[place] = max(hessian, LEAST_HESSIAN * n_rows)
        return [bounds[grown.places] for bounds in leaf_bounds(grown.tree, directions, gradients, hessians)]


class LocalLearner(TreeLearner):
    """Trees on rows in this process.

    `grower`: how trees are grown, from :class:`~rankwright.boosting.grow.LocalHistograms`. `X`: the features it has
    binned, for rows that a tree does not see. `order`: the rows of X in the order of the bins, of gradients and of
    scores; by default their own. `newton`: whether splits are chosen by Newton gains, otherwise by squared error.
    `tree_rows`: share of the rows that a tree sees. `**settings`: as for :class:`TreeLearner`.
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
        self._by_hessians, self._tree_rows = newton or bool(grower.directions), tree_rows

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        source = self._grower.source
        assert isinstance(source, LocalHistograms)
        number, n = len(self.trees), len(self._order)
        rng, rows = np.random.default_rng([self._seed, number]), np.arange(n, dtype=np.uint32)
        left_out = rows[:0]
        if self._tree_rows < 1.0:
            seen = rng.random(n) < self._tree_rows
            rows, left_out = rows[seen], rows[~seen]
        source.begin(gradients, rows, weights if self._by_hessians else None)
        grown = self._grow(number, rng)
        each = [source.rows_of(leaf) for leaf in grown.leaves]

        def sums_of(leaf: Node) -> tuple[float, float, int]:
            rows = source.rows_of(leaf)
            return gradients[rows].sum(), weights[rows].sum(), len(rows)

        low, high = self._bounds(grown, sums_of)
        value = grown.tree.value.copy()

        def add(start: int, stop: int) -> None:
            for at in range(start, stop):
                bounds = (low[at], high[at])
                value[grown.places[at]] = _add_leaf(each[at], gradients, weights, self._shrinkage, *bounds, scores)

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
    rows: Array, gradients: Array, weights: Array, shrinkage: float, low: float, high: float, scores: Array
) -> float:  # fmt: skip
    """Add the value of a leaf to the scores of its rows; returns it."""
    gradient, hessian = 0.0, 0.0
    for k in range(rows.size):
        gradient += gradients[rows[k]]
        hessian += weights[rows[k]]
    value = leaf_value(gradient, hessian, rows.size, shrinkage, low, high)
    for k in range(rows.size):
        scores[rows[k]] += value
    return value


@njit(cache=True, nogil=True)
def leaf_value(gradient: float, hessian: float, n_rows: int, shrinkage: float, low: float, high: float) -> float:
    """The value of a leaf: its Newton step, within bounds and shrunk."""
    step = gradient / max(hessian, LEAST_HESSIAN * n_rows) if n_rows else 0.0
    return min(max(_shrunk(step, shrinkage), _shrunk(low, shrinkage)), _shrunk(high, shrinkage))


@njit(cache=True, nogil=True)
def _shrunk(step: float, shrinkage: float) -> float:
    """What is left of a Newton step; it rises with the step."""
    return math.copysign(min(shrinkage * abs(step), math.log1p(abs(step))), step)


def tree_scores(tree: Tree, X: Array) -> Array:
    scores = np.zeros(len(X))
    add_scores(Forest.of([tree]), X, scores)
    return scores


class TreesPerClass:
    """A learner for each row of scores: one tree per class and round."""

    def __init__(self, learners: Sequence[Learner]) -> None:
        self.learners = learners

    def fit(self, gradients: Iterable[Array], weights: Iterable[Array], scores: Iterable[Array]) -> None:
        for learner, *rows in zip(self.learners, gradients, weights, scores, strict=True):
            learner.fit(*rows)

    def add_last(self, scores: Array) -> None:
        for learner, row in zip(self.learners, scores, strict=True):
            learner.add_last(row)


# One tree a round where the rows are in partitions: the sums come from there, the tree is grown here.
#
# A round is one step, whose result is a few small arrays: with these every partition changes its scores, and so does
# one that is loaded anew.


_TREE = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")
_CUTS = ("nodes", "lefts", "features", "tables")


class PartitionedLearner(TreeLearner):
    """Trees on rows in partitions; to boosting it is its own objective, as gradients stay where the partitions are.

    `grower`: grows trees from :class:`~rankwright.boosting.partitions.PartitionHistograms`. `actors`: objects with the
    methods ``root``, ``look``, ``gather_rows`` and ``apply``. `recall`: what a step gives, or has given before
    (:meth:`rankwright.data.places.Place.recall`). `**settings`: as for :class:`TreeLearner`. `trips`, `bytes`: requests
    so far, and the bytes of their answers: of sums those from one host, of rows of small nodes those from all.
    """

    def __init__(
        self,
        grower: Grower,
        actors: Any,
        *,
        recall: Callable[[Callable[[], dict[str, Array]]], dict[str, Array]],
        **settings: Any,
    ) -> None:
        super().__init__(grower, **settings)
        self.trips = self.bytes = 0
        self._actors, self._recall = actors, recall
        self._units: Units | None = None
        self._unsent: list[tuple[Any, ...]] = []  # trees that the partitions do not know of

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """Stand-ins for gradients and second derivatives."""
        return scores, scores

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        """Grow a tree; the scores are changed at the partitions, before the next one."""
        step = self._recall(partial(self._step, len(self.trees)))
        self._units = Units(*step["units"].tolist())
        self.trees.append(Tree(*(step[name] for name in _TREE)))
        made = (len(self.trees), Cuts(*(step[name] for name in _CUTS)), step["numbers"], step["added"])
        self._unsent.append(made)
        self._actors.defer("apply", *made)

    def _step(self, number: int) -> dict[str, Array]:
        """The next tree as arrays: what the model keeps, what is added to scores at the partitions, the next units."""
        units, following, root = self._begin(number)
        salt, source = salts_of(self._seed, number)[0], self._grower.source
        assert isinstance(source, PartitionHistograms)

        def look(cuts: Cuts, nodes: Array, salts: Array) -> Any:
            return self._total("look", number, salt, units, cuts, nodes, salts)

        def gather_rows(cuts: Cuts, nodes: Array) -> Any:
            rows = self._actors.call("gather_rows", number, salt, units, cuts, nodes)
            self._count(array for of_partition in rows for array in of_partition)
            return rows

        source.begin(root, look, gather_rows, units)
        grown = self._grow(number, np.random.default_rng([self._seed, number]))
        cuts, values = source.cuts({node.number for node in grown.splits}), self._values(grown, units)
        arrays = {name: getattr(grown.tree, name) for name in _TREE} | {name: getattr(cuts, name) for name in _CUTS}
        value = np.zeros(len(grown.tree.value))
        value[grown.places] = values
        numbers = np.array([leaf.number for leaf in grown.leaves], np.int32)
        exponents = np.array([following.gradient, following.hessian], np.int64)
        return arrays | {"value": value, "numbers": numbers, "added": values, "units": exponents}

    def _begin(self, number: int) -> tuple[Units, Units, list[Array]]:
        """The units of a tree, those that suit the next one, and the sums of the root.

        Units are guessed from the last tree, so that one trip applies that tree, computes gradients and sums up the
        root. It is repeated only if the guess had no room.
        """
        units = self._units
        salts = salts_of(self._seed, number)
        while True:
            sizes, *root = self._total("root", number, self._unsent, *salts, units)
            self._unsent = []
            following = Units.of(sizes)
            if units is not None and units.suit(sizes):
                return units, following, root
            units = following

    def _total(self, method: str, *given: Any) -> Any:
        sums = self._actors.sum(method, *given)
        self._count(sums)
        return sums

    def _count(self, arrays: Iterable[Array]) -> None:
        self.trips += 1
        self.bytes += sum(array.nbytes for array in arrays)

    def _values(self, grown: Grown, units: Units) -> Array:
        def sums_of(leaf: Node) -> tuple[float, float, int]:
            gradient, hessian, n_rows = leaf.totals[:3].tolist()
            return gradient * 2.0**units.gradient, hessian * 2.0**units.hessian, n_rows

        bounds = zip(grown.leaves, *self._bounds(grown, sums_of), strict=True)
        return np.array([leaf_value(*sums_of(leaf), self._shrinkage, low, high) for leaf, low, high in bounds])
