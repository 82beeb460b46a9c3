"""One tree a round, grown on the card; only the tree comes back.

The same as :class:`rankwright.solvers.tree_learner.TreeLearner` on a :class:`~rankwright.models.trees.grow.Grower`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.gpu import card
from rankwright.gpu.recorded import Recorded
from rankwright.gpu.trees import rows, state
from rankwright.gpu.trees.bins import CardBins, bins_like
from rankwright.gpu.trees.grower import CardGrower, add_tree
from rankwright.models.trees.draws import salts_of
from rankwright.models.trees.forest import Tree

Array = npt.NDArray[Any]


def binned(bins: CardBins, X: Iterable[Array] | None) -> list[CardBins]:
    """Other rows in the same bins, some at a time."""
    return [] if X is None else [bins_like(bins.ends, some) for some in X]


class CardTrees:
    """A learner for :class:`~rankwright.solvers.boosting.Boosting`; residuals, weights and scores are on the card.

    Parameters
    ----------
    grower : CardGrower
        Grows trees; several learners may share it.
    shrinkage, newton, seed
        As for :class:`~rankwright.solvers.tree_learner.TreeLearner`.
    valid : sequence of CardBins
        The validation data, in bins of the same ends.

    Attributes
    ----------
    trees : list of Tree
        The trees so far.
    """

    def __init__(
        self,
        grower: CardGrower,
        *,
        shrinkage: float,
        newton: bool = False,
        seed: int = 0,
        valid: Iterable[CardBins] = (),
    ) -> None:
        self.trees: list[Tree] = []
        self._grower, self._shrinkage, self._newton, self._seed = grower, shrinkage, newton, seed
        self._nodes, self._valid = grower.nodes(), list(valid)
        self._launches = Recorded(grower.launch)

    def fit(self, residuals: Any, weights: Any, scores: Any) -> None:
        """Grow a tree and add its scores to ``scores``."""
        number = len(self.trees)
        self._grower.draw(np.random.default_rng([self._seed, number]), salts_of(self._seed, number)[1])
        self._launches(residuals, weights, scores, self._newton, self._shrinkage, self._nodes)
        self.trees.append(self._download())

    def _download(self) -> Tree:
        nodes = self._nodes[0].copy_to_host()
        n_nodes, unit = rows.known_of(nodes)
        nodes, ends = nodes[:n_nodes], self._grower.bins.ends
        feature = nodes[:, state.FEATURE].astype(np.int32)
        inner, by_set, threshold = feature >= 0, nodes[:, state.IS_SET] == 1.0, np.zeros(n_nodes)
        by_set &= inner
        for node in np.flatnonzero(inner & ~by_set):
            own, last = ends[feature[node]], int(nodes[node, state.LAST])
            threshold[node] = own[last] if last < len(own) else np.inf
        return Tree(
            feature,
            threshold,
            inner & (nodes[:, state.MISSING_LEFT] == 1.0),
            np.where(inner, nodes[:, state.LEFT_NODE], 0.0).astype(np.int32),
            np.where(inner, 0.0, nodes[:, state.VALUE]),
            np.where(inner, nodes[:, state.NODE_GAIN] * unit, 0.0),
            nodes[:, state.COUNT].copy(),
            *self._sets(by_set),
        )

    def _sets(self, by_set: Array) -> tuple[Array, Array] | tuple[()]:
        """For every node the set of categories that go left, and the sets."""
        if not by_set.any():
            return ()
        tables = self._nodes[1].copy_to_host()[: len(by_set)][by_set]
        sets = tables.astype("<u4").view("<u8").astype(np.uint64)
        sets[:, -1] &= ~(np.uint64(1) << np.uint64(63))  # missing values
        return np.where(by_set, np.cumsum(by_set) - 1, -1).astype(np.int32), sets

    def add_last(self, scores: Array) -> None:
        """Add the last tree to the scores of the validation data."""
        first = 0
        for bins in self._valid:
            own = scores[first : first + bins.n_rows]
            on_card = card.upload(own)
            add_tree(bins, self._nodes, on_card)
            own[:] = on_card.copy_to_host()
            first += bins.n_rows

    def close(self) -> None:
        """Forget the residuals and scores; what else is on the card goes with this object."""
        self._launches.close()
