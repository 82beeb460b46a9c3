"""One tree a round where the rows are in parts: the sums come from there, the tree is grown here.

A round is one step, whose result is a few small arrays: with these every part changes its scores, and so does one that
is loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.engines.fleet import Crew
from rankwright.models.trees.draws import salts_of
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.monotone import leaf_bounds
from rankwright.models.trees.parted_grow import Grown, PartedGrower
from rankwright.models.trees.parted_rows import Cuts
from rankwright.models.trees.parted_sums import Units
from rankwright.solvers.tree_learner import LEAST_CURVE, leaf_value

__all__ = ["AtParts", "PartedLearner"]

Array = npt.NDArray[Any]
_TREE = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")
_CUTS = ("nodes", "lefts", "features", "tables")


class AtParts:
    """The objective as boosting sees it: residuals stay where the parts are."""

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """Nothing."""
        return scores, scores


class PartedLearner:
    """Trees for the rounds of boosting.

    Parameters
    ----------
    grower : PartedGrower
        Grows trees from sums.
    crew : Crew
        Objects with the methods ``root``, ``look`` and ``apply``.
    valid_scores : callable, optional
        Scores of the validation data by one tree.
    recall : callable
        What a step gives, or has given before (:meth:`rankwright.engines.fleet.Fleet.recall`).
    shrinkage, tree_features, seed
        As of :class:`~rankwright.solvers.tree_learner.TreeLearner`.

    Attributes
    ----------
    trees : list of Tree
        The trees so far.
    trips, bytes : int
        Requests so far, and the bytes of their answers: sums come so from every host, rows of small nodes in all.
    """

    def __init__(
        self,
        grower: PartedGrower,
        crew: Crew,
        *,
        shrinkage: float,
        tree_features: float = 1.0,
        seed: int = 0,
        valid_scores: Callable[[Tree], Array] | None = None,
        recall: Callable[[Callable[[], dict[str, Array]]], dict[str, Array]],
    ) -> None:
        self.trees: list[Tree] = []
        self.trips = self.bytes = 0
        self._grower, self._crew, self._valid_scores = grower, crew, valid_scores
        self._shrinkage, self._tree_features, self._seed = shrinkage, tree_features, seed
        self._recall = recall
        self._units: Units | None = None
        self._unsent: list[tuple[Any, ...]] = []  # trees that the parts do not know of

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree; the scores are changed at the parts, before the next one."""
        found = self._recall(partial(self._step, len(self.trees)))
        self._units = Units(*found["units"].tolist())
        self.trees.append(Tree(*(found[name] for name in _TREE)))
        made = (len(self.trees), Cuts(*(found[name] for name in _CUTS)), found["numbers"], found["added"])
        self._unsent.append(made)
        self._crew.note("apply", *made)

    def add_last(self, scores: Array) -> None:
        """Add the last tree to the scores of the validation data."""
        assert self._valid_scores is not None
        scores += self._valid_scores(self.trees[-1])

    def _step(self, number: int) -> dict[str, Array]:
        """The next tree as arrays: what the model keeps, what the parts add to their scores, units for the next."""
        units, following, root = self._begin(number)
        salt, of_root = salts_of(self._seed, number)
        features = self._grower.varies.copy()
        if self._tree_features < 1.0 and features.any():
            varying = np.flatnonzero(features)
            features[:] = False
            drawn = np.random.default_rng([self._seed, number]).choice(
                varying, max(1, round(self._tree_features * len(varying))), replace=False
            )
            features[drawn] = True

        def look(cuts: Cuts, nodes: Array, salts: Array) -> Any:
            return self._total("look", number, salt, units, cuts, nodes, salts)

        def bring(cuts: Cuts, nodes: Array) -> Any:
            found = self._crew.ask("bring", number, salt, units, cuts, nodes)
            self._count(array for own in found for array in own)
            return found

        grown = self._grower.grow(root, look, bring, features, units, of_root)
        values = self._values(grown, units)
        arrays = {name: getattr(grown.tree, name) for name in _TREE} | {
            name: getattr(grown.cuts, name) for name in _CUTS
        }
        value = np.zeros(len(grown.tree.value))
        value[grown.leaves] = values
        exponents = np.array([following.residual, following.curve], np.int64)
        return arrays | {"value": value, "numbers": grown.numbers, "added": values, "units": exponents}

    def _begin(self, number: int) -> tuple[Units, Units, list[Array]]:
        """The units of a tree, those that suit the next one, and the sums of the root."""
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
        found = self._crew.total(method, *given)
        self._count(found)
        return found

    def _count(self, arrays: Iterable[Array]) -> None:
        self.trips += 1
        self.bytes += sum(array.nbytes for array in arrays)

    def _values(self, grown: Grown, units: Units) -> Array:
        """The values of the leaves."""
        sums = grown.totals[:, 0] * 2.0**units.residual
        curves = grown.totals[:, 1] * 2.0**units.curve
        rows = grown.totals[:, 2]
        low, high = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
        if self._grower.directions:
            residuals, bends = np.zeros(len(grown.tree.value)), np.zeros(len(grown.tree.value))
            residuals[grown.leaves], bends[grown.leaves] = sums, np.maximum(curves, LEAST_CURVE * rows)
            low, high = (
                own[grown.leaves] for own in leaf_bounds(grown.tree, self._grower.directions, residuals, bends)
            )
        given = zip(sums.tolist(), curves.tolist(), rows.tolist(), low.tolist(), high.tolist(), strict=True)
        return np.array([leaf_value(s, c, n, self._shrinkage, lowest, most) for s, c, n, lowest, most in given])
