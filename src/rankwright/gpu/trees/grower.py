"""Grows trees on the card on one data set: all launches of a tree, none of which waits for an answer.

The same as :class:`rankwright.models.trees.grow.Grower`: from the same residuals and second derivatives it grows the
same tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.errors import InputError
from rankwright.gpu import card
from rankwright.gpu.trees import histograms, rows, search, state
from rankwright.gpu.trees.bins import CardBins
from rankwright.models.trees.draws import n_drawn, tree_features
from rankwright.models.trees.special_split import special_kinds

Array = npt.NDArray[Any]
Nodes = tuple[Any, Any]  # on the card: the nodes of a tree, and their sets of bins
_THREADS = 8 if card.is_simulated() else state.THREADS
_ADDING = 32 if card.is_simulated() else state.THREADS  # threads that sum up histograms: whole warps
_SEARCHING = 8 if card.is_simulated() else 128  # threads that search the bins of a feature: they divide 256
_BLOCKS = 4  # that sum up histograms on a multiprocessor: shared memory is enough for so many
_MOST_LEAVES = (1 << 16) - 1  # blocks in one direction


class CardGrower:
    """The place of a tree on the card.

    Parameters
    ----------
    bins : CardBins
        The features.
    max_leaves, min_rows : int
        Most leaves of a tree, fewest rows of a leaf.
    node_share : float
        Share of rows and features, drawn for each node, from which its split is chosen.
    directions : mapping of int to int
        Features in which values should rise (1) or fall (−1).
    tree_rows, tree_features : float
        Share of the rows and features that a tree sees.
    smooth_rows : float
        As for :class:`~rankwright.models.trees.grow.Grower`.
    """

    def __init__(
        self,
        bins: CardBins,
        *,
        max_leaves: int,
        min_rows: int,
        node_share: float = 1.0,
        directions: Mapping[int, int] | None = None,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        smooth_rows: float = 10.0,
    ) -> None:
        n, d, n_tiles = bins.n_rows, len(bins.ends), bins.codes.shape[0]
        self.bins, self.directions = bins, dict(directions or {})
        self._tree_rows, self._tree_features, self._share = tree_rows, tree_features, node_share
        self._smooth_rows = smooth_rows
        self._max_leaves = min(max_leaves, max(n, 1))
        self._check_room(max_leaves)
        slots = self._max_leaves if node_share >= 1.0 else 2 * self._max_leaves
        self._words = bins.codes.view(np.uint32)
        self._rows = cuda.device_array((2, n), np.uint32)
        self._pairs = cuda.device_array((n, 2), np.int32)
        self._sums = cuda.device_array(slots * n_tiles * state.SIZE, np.int32)
        self._leaves = card.zeros((self._max_leaves, state.OF_LEAF), np.int64)
        self._reals = card.zeros((self._max_leaves, state.REALS), np.float64)
        self._tables = card.zeros((self._max_leaves, state.WORDS), np.uint32)
        self._now = card.zeros(state.NOW, np.int64)
        self._found = (card.zeros((2, d, search.FOUND), np.float64), card.zeros((2, d, state.WORDS), np.uint32))
        self._facts, self._totals = card.zeros(rows.FACTS, np.float64), card.zeros((1, rows.TOTALS), np.int64)
        self._leaf_sums = card.zeros((self._max_leaves, 2), np.int64)
        self._n_bins = card.upload(np.array([len(ends) + 1 for ends in bins.ends], np.int32))
        self._allowed, self._places = card.upload(bins.varies), card.upload(np.cumsum(bins.varies) - 1)
        self._n_rows, self._salt = card.upload(np.array([n])), card.zeros(1, np.int64)
        self._drawn = card.zeros(n if tree_rows < 1.0 else 0, np.bool_)
        usable = int(bins.varies.sum())
        if tree_features < 1.0:
            usable = n_drawn(usable, tree_features)
        drawn = n_drawn(usable, node_share) if node_share < 1.0 else 0
        self._limits = (min_rows, max(1, round(min_rows * node_share)), drawn)
        self._special = self._specials(d)
        n_bounds = 2 * self._max_leaves if self.directions else 0
        self._bounds, self._node_sums = (card.zeros((n_bounds, 2), np.float64) for _ in range(2))

    def _check_room(self, max_leaves: int) -> None:
        n, n_tiles = self.bins.n_rows, self.bins.codes.shape[0]
        if self._max_leaves > _MOST_LEAVES:
            what = f"device is 'cuda', but max_leaves is {max_leaves:,}"
            raise InputError(f"{what}; expected at most {_MOST_LEAVES:,} there")
        size = 4 * (self._max_leaves if self._share >= 1.0 else 2 * self._max_leaves) * n_tiles * state.SIZE
        if size + 20 * n > card.free_bytes():
            what = f"the histograms of {self._max_leaves:,} leaves × {len(self.bins.ends)} features"
            what = f"device is 'cuda', but {what} take {size / 1e9:.1f} GB"
            raise InputError(f"{what}; expected fewer max_leaves, or device='cpu'")

    def _specials(self, d: int) -> tuple[Any, ...] | None:
        """What features need that are categories or have directions, and the squares of residuals; None if none do."""
        self._squares, self._curves, self._smooth = (
            card.zeros(2, np.int64),
            card.zeros(2, np.int64),
            card.zeros(1, float),
        )
        kinds = special_kinds(d, self.bins.categorical, self.directions)
        return None if kinds is None else (*map(card.upload, kinds), self._smooth, self._squares)

    def nodes(self) -> Nodes:
        """A place for the nodes of a tree; one more row says how many there are."""
        shape = 2 * self._max_leaves
        return card.zeros((shape, state.OF_NODE), np.float64), card.zeros((shape, state.WORDS), np.uint32)

    def draw(self, rng: np.random.Generator, salt: int) -> None:
        """Draw the rows and features of the next tree, if not all; its nodes draw by the salt."""
        n, varies = self.bins.n_rows, self.bins.varies
        if self._tree_rows < 1.0:
            drawn = rng.random(n) < self._tree_rows
            chosen = np.flatnonzero(drawn).astype(np.uint32)
            card.upload(drawn, self._drawn)
            card.upload(np.array([len(chosen)]), self._n_rows)
            if len(chosen):
                card.upload(chosen, self._rows[0, : len(chosen)])
        if self._tree_features < 1.0:
            card.upload(tree_features(varies, self._tree_features, rng), self._allowed)
        if self._share < 1.0:
            card.upload(np.array([salt], np.uint64).view(np.int64), self._salt)

    def launch(
        self, stream: Any, residuals: Any, weights: Any, scores: Any, newton: bool, shrinkage: float, nodes: Nodes
    ) -> None:
        """Grow a tree and add the values of its leaves to ``scores``."""
        n = self.bins.n_rows
        self._pack(residuals, weights, newton or bool(self.directions), stream)
        self._grow(nodes, stream)
        leaves = ((_blocks(n // self._max_leaves + 1), self._max_leaves), _THREADS, stream)
        of_leaves, units = (self._rows, self._leaves, self._now), (self._facts, self._totals, self._leaf_sums)
        rows.sum_leaves[leaves](*of_leaves, residuals, weights, *units)
        if self.directions:
            assert self._special is not None
            known = (nodes[0], self._special[1], self._n_bins, self._node_sums, self._bounds)
            rows.bound_leaves[card.blocks(1), _THREADS, stream](self._leaves, self._now, n, *units, *known)
        rows.add_leaves[leaves](*of_leaves, *units, shrinkage, self._bounds, nodes[0], scores)
        if self._tree_rows < 1.0:
            rows.add_tree[_blocks(n), _THREADS, stream](self.bins.codes, *nodes, self._drawn, scores)

    def _pack(self, residuals: Any, weights: Any, newton: bool, stream: Any) -> None:
        grid = (_blocks(residuals.size), _THREADS, stream)
        rows.start_sums[card.blocks(1), _THREADS, stream](self._facts, self._totals, self._leaf_sums)
        rows.largest[grid](residuals, weights, self._facts)
        rows.total[grid](residuals, weights, self._facts, self._totals)
        rows.pack_rows[grid](residuals, weights, newton, self._facts, self._totals, self._pairs)
        if self.bins.categorical:
            rows.smooth_categories[grid](self._pairs, self._smooth_rows, self._curves, self._smooth)

    def _grow(self, nodes: Nodes, stream: Any) -> None:
        """Grow the tree: three launches a split, four where there are categories."""
        n, sampled = self.bins.n_rows, self._share < 1.0
        started = (self._salt, self._rows, self._sums, self._leaves, self._reals, self._now, self._squares)
        state.start_tree[_blocks(n), _THREADS, stream](self._n_rows, self._tree_rows == 1.0, *started)
        for split in range(self._max_leaves):
            if split:
                given = (self.bins.codes, self._rows, self._leaves, self._now, self._tables)
                histograms.divide[_blocks(n // histograms.STRIP + 1), _THREADS, stream](*given)
            if split < self._max_leaves - 1 or split == 0:
                self._look(nodes, stream)
        whole = (self._leaves, self._reals, self._tables, self._now)
        search.finish[card.blocks(1), _THREADS, stream](whole, sampled, nodes)

    def _look(self, nodes: Nodes, stream: Any) -> None:
        """Add up the rows of the children of the last split, and find their best splits."""
        n_tiles, d, cores = self.bins.codes.shape[0], len(self.bins.ends), card.multiprocessors()
        parts = max(1, _BLOCKS * cores // n_tiles, -(-card.blocks(1) // n_tiles))
        given = (self._rows, self._pairs, self._leaves, self._now)
        if self._share >= 1.0:
            histograms.add_rows[(n_tiles, parts), _ADDING, stream](self._words, *given, self._sums)
        else:
            own = (self._words, *given, self._sums, self._share)
            histograms.add_samples[(n_tiles, parts, 2), _ADDING, stream](*own)
        if self.bins.categorical:
            adding = (_blocks(self.bins.n_rows), 2)
            histograms.add_squares[adding, _THREADS, stream](*given, self._share, self._squares)
        features = (self._n_bins, self._allowed, self._places)
        whole = (self._leaves, self._reals, self._tables, self._now)
        known = (self._sums, features, self._limits, whole, nodes, self._found)
        searching = (d, 2, -(-card.blocks(1) // (2 * d)))
        if self._special is None:
            search.search[searching, _SEARCHING, stream](*known)
        else:
            search.search_special[searching, _SEARCHING, stream](*known, self._special)


def add_tree(bins: CardBins, nodes: Nodes, scores: Any) -> None:
    """Add a tree to the scores of other rows; all are on the card."""
    rows.add_tree[_blocks(bins.n_rows), _THREADS](bins.codes, *nodes, card.upload(np.zeros(0, bool)), scores)


def _blocks(n: int) -> int:
    """Blocks of threads for so many rows, a row each; not more than keep the card busy."""
    return 2 if card.is_simulated() else card.blocks(min(-(-n // _THREADS), 8 * card.multiprocessors()))
