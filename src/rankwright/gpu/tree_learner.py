"""One tree a round, grown on the card; only the tree comes back.

The same as :class:`rankwright.solvers.tree_learner.TreeLearner` on a :class:`~rankwright.models.trees.grow.Grower`:
from the same residuals and second derivatives it grows the same tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.errors import InputError
from rankwright.gpu import card
from rankwright.gpu import tree_kernels as kernels
from rankwright.gpu import tree_rows as of_rows
from rankwright.gpu.recorded import Recorded
from rankwright.gpu.tree_bins import CardBins, bins_like
from rankwright.models.trees.forest import Tree

__all__ = ["CardTrees"]

Array = npt.NDArray[Any]
_THREADS = 256
_MOST_LEAVES = (1 << 16) - 1  # blocks in one direction
_BLOCKS = 4  # that sum up histograms on a multiprocessor: shared memory is enough for so many


class CardTrees:
    """A learner for :class:`~rankwright.solvers.boosting.Boosting`; residuals, weights and scores are on the card.

    Parameters
    ----------
    bins : CardBins
        The features.
    max_leaves, min_rows : int
        Most leaves of a tree, fewest rows of a leaf.
    shrinkage, newton, tree_rows, tree_features, seed
        As for :class:`~rankwright.solvers.tree_learner.TreeLearner`.
    X_valid : iterable of ndarray, optional
        Features of the validation data, some rows at a time.

    Attributes
    ----------
    trees : list of Tree
        The trees so far.
    """

    def __init__(
        self,
        bins: CardBins,
        *,
        max_leaves: int,
        min_rows: int,
        shrinkage: float,
        newton: bool = False,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        seed: int = 0,
        X_valid: Iterable[Array] | None = None,
    ) -> None:
        self.trees: list[Tree] = []
        self._bins, self._shrinkage, self._newton, self._seed = bins, shrinkage, newton, seed
        self._tree_rows, self._tree_features, self._min_rows = tree_rows, tree_features, min_rows
        n, n_tiles = bins.n_rows, bins.codes.shape[0]
        self._max_leaves = min(max_leaves, max(n, 1))
        if self._max_leaves > _MOST_LEAVES:
            raise InputError(
                f"device is 'cuda', but max_leaves is {max_leaves:,}; expected at most {_MOST_LEAVES:,} there"
            )
        size = self._max_leaves * n_tiles * kernels.SIZE
        if 4 * size + 20 * n > card.free_bytes():
            what = (
                f"device is 'cuda', but the histograms of {self._max_leaves:,} leaves × {len(bins.ends)} features take"
            )
            raise InputError(f"{what} {4 * size / 1e9:.1f} GB; expected fewer max_leaves, or device='cpu'")
        self._words = bins.codes.view(np.uint32)
        self._rows = cuda.device_array((2, n), np.uint32)
        self._pairs = cuda.device_array((n, 2), np.int32)
        self._sums = cuda.device_array(size, np.int32)
        self._leaves = card.zeros((self._max_leaves, kernels.OF_LEAF), np.int64)
        self._gains, self._now = card.zeros(self._max_leaves, np.float64), card.zeros(kernels.NOW, np.int64)
        self._nodes = card.zeros((2 * self._max_leaves, kernels.OF_NODE), np.float64)
        self._found = card.zeros((2, len(bins.ends), kernels.FOUND), np.float64)
        self._facts, self._totals = card.zeros(of_rows.FACTS, np.float64), card.zeros((1, of_rows.TOTALS), np.int64)
        self._leaf_sums = card.zeros((self._max_leaves, 2), np.int64)
        self._n_bins = card.upload(np.array([len(ends) + 1 for ends in bins.ends], np.int32))
        self._allowed, self._none = card.upload(bins.varies), card.upload(np.zeros(0, bool))
        self._n_rows = card.upload(np.array([n]))
        self._drawn = card.zeros(n if tree_rows < 1.0 else 0, np.bool_)
        self._given: Any = None
        self._launches = Recorded(self._launch)
        self._valid = [bins_like(bins.ends, X) for X in X_valid] if X_valid is not None else []

    def fit(self, residuals: Any, weights: Any, scores: Any) -> None:
        """Grow a tree and add its scores to ``scores``."""
        self._draw(np.random.default_rng([self._seed, len(self.trees)]))
        given = (residuals, weights, scores)
        if self._given is None or any(one is not other for one, other in zip(given, self._given, strict=True)):
            self.close()
            self._given, self._launches = given, Recorded(self._launch)
        self._launches()
        self.trees.append(self._download())

    def _draw(self, rng: np.random.Generator) -> None:
        """Draw the rows and features of a tree, if not all."""
        n, varies = self._bins.n_rows, self._bins.varies
        if self._tree_rows < 1.0:
            drawn = rng.random(n) < self._tree_rows
            rows = np.flatnonzero(drawn).astype(np.uint32)
            card.upload(drawn, self._drawn)
            card.upload(np.array([len(rows)]), self._n_rows)
            if len(rows):
                card.upload(rows, self._rows[0, : len(rows)])
        if self._tree_features < 1.0 and varies.any():
            varying, allowed = np.flatnonzero(varies), np.zeros(len(varies), bool)
            allowed[rng.choice(varying, max(1, round(self._tree_features * len(varying))), replace=False)] = True
            card.upload(allowed, self._allowed)

    def _launch(self, stream: Any) -> None:
        """Everything that a tree takes, none of which waits for an answer."""
        residuals, weights, scores = self._given
        n, threads = self._bins.n_rows, _threads()
        self._pack(residuals, weights, stream)
        self._grow(stream)
        parts = _blocks(n // self._max_leaves + 1)
        leaves = ((parts, self._max_leaves), threads, stream)
        of_leaves = (self._rows, self._leaves, self._now)
        of_rows.sum_leaves[leaves](*of_leaves, residuals, weights, self._facts, self._totals, self._leaf_sums)
        units = (self._facts, self._totals, self._leaf_sums, self._shrinkage)
        of_rows.add_leaves[leaves](*of_leaves, *units, self._nodes, scores)
        if self._tree_rows < 1.0:
            of_rows.add_tree[_blocks(n), threads, stream](self._bins.codes, self._nodes, self._drawn, scores)

    def _pack(self, residuals: Any, weights: Any, stream: Any = 0) -> None:
        grid = (_blocks(residuals.size), _threads(), stream)
        of_rows.start_sums[card.blocks(1), _threads(), stream](self._facts, self._totals, self._leaf_sums)
        of_rows.largest[grid](residuals, weights, self._facts)
        of_rows.total[grid](residuals, weights, self._facts, self._totals)
        of_rows.pack_rows[grid](residuals, weights, self._newton, self._facts, self._totals, self._pairs)

    def _grow(self, stream: Any = 0) -> None:
        """Grow the tree: three launches a split."""
        threads, cores, n = _threads(), card.multiprocessors(), self._bins.n_rows
        n_tiles, d = self._bins.codes.shape[0], len(self._bins.ends)
        parts = max(1, _BLOCKS * cores // n_tiles, -(-card.blocks(1) // n_tiles))
        dividing = _blocks(n // kernels.STRIP + 1)
        growing = (self._leaves, self._gains, self._now)
        rows = (self._n_rows, self._tree_rows == 1.0, self._rows)
        kernels.start_tree[_blocks(n), threads, stream](*rows, self._sums, self._leaves, self._now)
        for split in range(self._max_leaves):
            if split:
                kernels.divide[dividing, threads, stream](self._bins.codes, self._rows, self._leaves, self._now)
            if split < self._max_leaves - 1 or split == 0:
                given = (self._words, self._rows, self._pairs, self._leaves, self._now, self._sums)
                kernels.add_rows[(n_tiles, parts), _adding(), stream](*given)
                known = (self._sums, self._n_bins, self._allowed, self._min_rows)
                kernels.search[(d, 2, -(-card.blocks(1) // (2 * d))), _searching(), stream](
                    *known, *growing, self._found, self._nodes
                )
        kernels.finish[card.blocks(1), threads, stream](*growing, self._nodes)

    def _download(self) -> Tree:
        """The tree as the host knows trees."""
        nodes = self._nodes.copy_to_host()
        n_nodes, unit = of_rows.known_of(nodes)
        nodes = nodes[:n_nodes]
        feature = nodes[:, kernels.FEATURE].astype(np.int32)
        inner, threshold = feature >= 0, np.zeros(len(nodes))
        for node in np.flatnonzero(inner):
            ends, last = self._bins.ends[feature[node]], int(nodes[node, kernels.LAST])
            threshold[node] = ends[last] if last < len(ends) else np.inf
        return Tree(
            feature,
            threshold,
            inner & (nodes[:, kernels.MISSING_LEFT] == 1.0),
            np.where(inner, nodes[:, kernels.LEFT_NODE], 0.0).astype(np.int32),
            np.where(inner, 0.0, nodes[:, kernels.VALUE]),
            np.where(inner, nodes[:, kernels.GAIN] * unit, 0.0),
            nodes[:, kernels.COUNT].copy(),
        )

    def add_last(self, scores: Array) -> None:
        """Add the last tree to the scores of the validation data."""
        first = 0
        for bins in self._valid:
            own = scores[first : first + bins.n_rows]
            on_card = card.upload(own)
            of_rows.add_tree[_blocks(bins.n_rows), _threads()](bins.codes, self._nodes, self._none, on_card)
            own[:] = on_card.copy_to_host()
            first += bins.n_rows

    def close(self) -> None:
        """Forget the residuals and scores; what else is on the card goes with this object."""
        self._launches.close()
        self._given = None


def _threads() -> int:
    return 8 if card.is_simulated() else _THREADS


def _adding() -> int:
    """Threads that sum up histograms: whole warps."""
    return 32 if card.is_simulated() else _THREADS


def _searching() -> int:
    """Threads that search the bins of a feature: they divide 256."""
    return 8 if card.is_simulated() else 128


def _blocks(n: int) -> int:
    """Blocks of threads for so many rows, a row each; not more than keep the card busy."""
    return 2 if card.is_simulated() else card.blocks(min(-(-n // _THREADS), 8 * card.multiprocessors()))
