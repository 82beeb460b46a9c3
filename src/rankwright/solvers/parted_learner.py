"""One tree a round where the rows are in partitions: the sums come from there, the tree is grown here.

A round is one step, whose result is a few small arrays: with these every partition changes its scores, and so does one
that is loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.models.trees.draws import salts_of
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.grow import Grower, Grown, Node
from rankwright.models.trees.parted_rows import Cuts
from rankwright.models.trees.parted_sums import Units
from rankwright.models.trees.partition_histograms import PartitionHistograms
from rankwright.solvers.tree_learner import TreeLearner, leaf_value

Array = npt.NDArray[Any]
_TREE = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")
_CUTS = ("nodes", "lefts", "features", "tables")


class AtParts:
    """The objective as boosting sees it: residuals stay where the partitions are."""

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """Stand-ins for residuals and second derivatives."""
        return scores, scores


class PartedLearner(TreeLearner):
    """Trees on rows in partitions.

    Parameters
    ----------
    grower : Grower
        Grows trees from :class:`~rankwright.models.trees.partition_histograms.PartitionHistograms`.
    crew : Actors
        Objects with the methods ``root``, ``look``, ``bring`` and ``apply``.
    recall : callable
        What a step gives, or has given before (:meth:`rankwright.data.places.Place.recall`).
    **settings
        As for :class:`~rankwright.solvers.tree_learner.TreeLearner`.

    Attributes
    ----------
    trips, bytes : int
        Requests so far, and the bytes of their answers: sums come so from every host, rows of small nodes in all.
    """

    def __init__(
        self,
        grower: Grower,
        crew: Any,
        *,
        recall: Callable[[Callable[[], dict[str, Array]]], dict[str, Array]],
        **settings: Any,
    ) -> None:
        super().__init__(grower, **settings)
        self.trips = self.bytes = 0
        self._crew, self._recall = crew, recall
        self._units: Units | None = None
        self._unsent: list[tuple[Any, ...]] = []  # trees that the partitions do not know of

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Grow a tree; the scores are changed at the partitions, before the next one."""
        step = self._recall(partial(self._step, len(self.trees)))
        self._units = Units(*step["units"].tolist())
        self.trees.append(Tree(*(step[name] for name in _TREE)))
        made = (len(self.trees), Cuts(*(step[name] for name in _CUTS)), step["numbers"], step["added"])
        self._unsent.append(made)
        self._crew.note("apply", *made)

    def _step(self, number: int) -> dict[str, Array]:
        """The next tree as arrays: what the model keeps, what is added to scores at the partitions, the next units."""
        units, following, root = self._begin(number)
        salt, source = salts_of(self._seed, number)[0], self._grower.source
        assert isinstance(source, PartitionHistograms)

        def look(cuts: Cuts, nodes: Array, salts: Array) -> Any:
            return self._total("look", number, salt, units, cuts, nodes, salts)

        def bring(cuts: Cuts, nodes: Array) -> Any:
            rows = self._crew.ask("bring", number, salt, units, cuts, nodes)
            self._count(array for of_partition in rows for array in of_partition)
            return rows

        source.begin(root, look, bring, units)
        grown = self._grow(number, self._rng(number))
        cuts, values = source.cuts({node.number for node in grown.splits}), self._values(grown, units)
        arrays = {name: getattr(grown.tree, name) for name in _TREE} | {name: getattr(cuts, name) for name in _CUTS}
        value = np.zeros(len(grown.tree.value))
        value[grown.places] = values
        numbers = np.array([leaf.number for leaf in grown.leaves], np.int32)
        exponents = np.array([following.residual, following.curve], np.int64)
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
        sums = self._crew.total(method, *given)
        self._count(sums)
        return sums

    def _count(self, arrays: Iterable[Array]) -> None:
        self.trips += 1
        self.bytes += sum(array.nbytes for array in arrays)

    def _values(self, grown: Grown, units: Units) -> Array:
        def sums_of(leaf: Node) -> tuple[float, float, int]:
            residual, curve, n_rows = leaf.totals[:3].tolist()
            return residual * 2.0**units.residual, curve * 2.0**units.curve, n_rows

        bounds = zip(grown.leaves, *self._bounds(grown, sums_of), strict=True)
        return np.array([leaf_value(*sums_of(leaf), self._shrinkage, low, high) for leaf, low, high in bounds])
