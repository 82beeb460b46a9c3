"""Grows trees on the device on one data set: all launches of a tree, none of which waits for an answer.

The same as :class:`rankwright.boosting.grow.Grower`: from the same gradients and second derivatives it grows the
same tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numba import cuda

from rankwright._types import Array
from rankwright.boosting.forest import Tree
from rankwright.boosting.histograms import special_kinds
from rankwright.data.hashes import n_drawn, salts_of, tree_features
from rankwright.errors import InputError
from rankwright.gpu import device
from rankwright.gpu.device import Recorded
from rankwright.gpu.trees import leaves, rows
from rankwright.gpu.trees.rows import ROW_THREADS, DeviceBins, bins_like, row_blocks

Nodes = tuple[Any, Any]  # on the device: the nodes of a tree, and their sets of bins
_ADDING = 32 if device.is_simulated() else leaves.THREADS  # threads that sum up histograms: whole warps
_SEARCHING = 8 if device.is_simulated() else 128  # threads that search the bins of a feature: they divide 256
_BLOCKS = 4  # that sum up histograms on a multiprocessor: shared memory is enough for so many
_MOST_LEAVES = (1 << 16) - 1  # blocks in one direction


class DeviceGrower:
    """The place of a tree on the device.

    `bins`: the features. `max_leaves`, `min_rows`: most leaves of a tree, fewest rows of a leaf. `node_share`: share of
    rows and features, drawn for each node, from which its split is chosen. `directions`: features in which values
    should rise (1) or fall (−1). `tree_rows`, `tree_features`: share of the rows and features that a tree sees.
    `smooth_rows`: as for :class:`~rankwright.boosting.grow.Grower`.
    """

    def __init__(
        self,
        bins: DeviceBins,
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
        self._packed_bins = bins.codes.view(np.uint32)
        self._rows = cuda.device_array((2, n), np.uint32)
        self._pairs = cuda.device_array((n, 2), np.int32)
        self._sums = cuda.device_array(slots * n_tiles * leaves.SIZE, np.int32)
        self._leaves = device.zeros((self._max_leaves, leaves.OF_LEAF), np.int64)
        self._reals = device.zeros((self._max_leaves, leaves.REALS), np.float64)
        self._tables = device.zeros((self._max_leaves, leaves.WORDS), np.uint32)
        self._now = device.zeros(leaves.NOW, np.int64)
        self._found = (device.zeros((2, d, leaves.FOUND), np.float64), device.zeros((2, d, leaves.WORDS), np.uint32))
        self._facts, self._totals = device.zeros(rows.FACTS, np.float64), device.zeros((1, rows.TOTALS), np.int64)
        self._leaf_sums = device.zeros((self._max_leaves, 2), np.int64)
        self._n_bins = device.upload(np.array([len(ends) + 1 for ends in bins.ends], np.int32))
        self._allowed, self._places = device.upload(bins.varies), device.upload(np.cumsum(bins.varies) - 1)
        self._n_rows, self._salt = device.upload(np.array([n])), device.zeros(1, np.int64)
        self._drawn = device.zeros(n if tree_rows < 1.0 else 0, np.bool_)
        usable = int(bins.varies.sum())
        if tree_features < 1.0:
            usable = n_drawn(usable, tree_features)
        drawn = n_drawn(usable, node_share) if node_share < 1.0 else 0
        self._limits = (min_rows, max(1, round(min_rows * node_share)), drawn)
        self._special = self._specials(d)
        n_bounds = 2 * self._max_leaves if self.directions else 0
        self._bounds, self._node_sums = (device.zeros((n_bounds, 2), np.float64) for _ in range(2))

    def _check_room(self, max_leaves: int) -> None:
        n, n_tiles = self.bins.n_rows, self.bins.codes.shape[0]
        if self._max_leaves > _MOST_LEAVES:
            problem = f"device is 'cuda', but max_leaves is {max_leaves:,}"
            raise InputError(f"{problem}; expected at most {_MOST_LEAVES:,} there")
        size = 4 * (self._max_leaves if self._share >= 1.0 else 2 * self._max_leaves) * n_tiles * leaves.SIZE
        if size + 20 * n > device.free_bytes():
            histogram = f"the histograms of {self._max_leaves:,} leaves × {len(self.bins.ends)} features"
            problem = f"device is 'cuda', but {histogram} take {size / 1e9:.1f} GB"
            raise InputError(f"{problem}; expected fewer max_leaves, or device='cpu'")

    def _specials(self, d: int) -> tuple[Any, ...] | None:
        """What features need that are categories or have directions, and the squares of gradients; None if none do."""
        self._squares, self._hessians = device.zeros(2, np.int64), device.zeros(2, np.int64)
        self._smooth = device.zeros(1, float)
        kinds = special_kinds(d, self.bins.categorical, self.directions)
        return None if kinds is None else (*map(device.upload, kinds), self._smooth, self._squares)

    def nodes(self) -> Nodes:
        """A place for the nodes of a tree; one more row says how many there are."""
        shape = 2 * self._max_leaves
        return device.zeros((shape, leaves.OF_NODE), np.float64), device.zeros((shape, leaves.WORDS), np.uint32)

    def draw(self, rng: np.random.Generator, salt: int) -> None:
        """Draw the rows and features of the next tree, if not all; its nodes draw by the salt."""
        n, varies = self.bins.n_rows, self.bins.varies
        if self._tree_rows < 1.0:
            drawn = rng.random(n) < self._tree_rows
            chosen = np.flatnonzero(drawn).astype(np.uint32)
            device.upload(drawn, self._drawn)
            device.upload(np.array([len(chosen)]), self._n_rows)
            if len(chosen):
                device.upload(chosen, self._rows[0, : len(chosen)])
        if self._tree_features < 1.0:
            device.upload(tree_features(varies, self._tree_features, rng), self._allowed)
        if self._share < 1.0:
            device.upload(np.array([salt], np.uint64).view(np.int64), self._salt)

    def launch(
        self, stream: int, gradients: Array, weights: Array, scores: Array, newton: bool, shrinkage: float, nodes: Nodes
    ) -> None:
        """Grow a tree and add the values of its leaves to ``scores``."""
        n = self.bins.n_rows
        self._pack(gradients, weights, newton or bool(self.directions), stream)
        self._grow(nodes, stream)
        each_leaf = ((row_blocks(n // self._max_leaves + 1), self._max_leaves), ROW_THREADS, stream)
        of_leaves, units = (self._rows, self._leaves, self._now), (self._facts, self._totals, self._leaf_sums)
        rows.sum_leaves[each_leaf](*of_leaves, gradients, weights, *units)
        if self.directions:
            assert self._special is not None
            inputs = (nodes[0], self._special[1], self._n_bins, self._node_sums, self._bounds)
            rows.bound_leaves[device.blocks(1), ROW_THREADS, stream](self._leaves, self._now, n, *units, *inputs)
        rows.add_leaves[each_leaf](*of_leaves, *units, shrinkage, self._bounds, nodes[0], scores)
        if self._tree_rows < 1.0:
            rows.add_tree[row_blocks(n), ROW_THREADS, stream](self.bins.codes, *nodes, self._drawn, scores)

    def _pack(self, gradients: Array, weights: Array, newton: bool, stream: int) -> None:
        grid = (row_blocks(gradients.size), ROW_THREADS, stream)
        rows.start_sums[device.blocks(1), ROW_THREADS, stream](self._facts, self._totals, self._leaf_sums)
        rows.largest[grid](gradients, weights, self._facts)
        rows.total[grid](gradients, weights, self._facts, self._totals)
        rows.pack_rows[grid](gradients, weights, newton, self._facts, self._totals, self._pairs)
        if self.bins.categorical:
            rows.smooth_categories[grid](self._pairs, self._smooth_rows, self._hessians, self._smooth)

    def _grow(self, nodes: Nodes, stream: int) -> None:
        """Grow the tree: three launches a split, four where there are categories."""
        n, sampled = self.bins.n_rows, self._share < 1.0
        started = (self._salt, self._rows, self._sums, self._leaves, self._reals, self._now, self._squares)
        leaves.start_tree[row_blocks(n), ROW_THREADS, stream](self._n_rows, self._tree_rows == 1.0, *started)
        for split in range(self._max_leaves):
            if split:
                given = (self.bins.codes, self._rows, self._leaves, self._now, self._tables)
                leaves.divide[row_blocks(n // leaves.STRIP + 1), ROW_THREADS, stream](*given)
            if split < self._max_leaves - 1 or split == 0:
                self._look(nodes, stream)
        tree = (self._leaves, self._reals, self._tables, self._now)
        leaves.finish[device.blocks(1), ROW_THREADS, stream](tree, sampled, nodes)

    def _look(self, nodes: Nodes, stream: int) -> None:
        """Add up the rows of the children of the last split, and find their best splits."""
        n_tiles, d, cores = self.bins.codes.shape[0], len(self.bins.ends), device.multiprocessors()
        parts = max(1, _BLOCKS * cores // n_tiles, -(-device.blocks(1) // n_tiles))
        given = (self._rows, self._pairs, self._leaves, self._now)
        if self._share >= 1.0:
            leaves.add_rows[(n_tiles, parts), _ADDING, stream](self._packed_bins, *given, self._sums)
        else:
            leaves.add_samples[(n_tiles, parts, 2), _ADDING, stream](self._packed_bins, *given, self._sums, self._share)
        if self.bins.categorical:
            adding = (row_blocks(self.bins.n_rows), 2)
            leaves.add_squares[adding, ROW_THREADS, stream](*given, self._share, self._squares)
        features = (self._n_bins, self._allowed, self._places)
        tree = (self._leaves, self._reals, self._tables, self._now)
        inputs = (self._sums, features, self._limits, tree, nodes, self._found)
        searching = (d, 2, -(-device.blocks(1) // (2 * d)))
        if self._special is None:
            leaves.search[searching, _SEARCHING, stream](*inputs)
        else:
            leaves.search_special[searching, _SEARCHING, stream](*inputs, self._special)


def add_tree(bins: DeviceBins, nodes: Nodes, scores: Array) -> None:
    """Add a tree to the scores of other rows; all are on the device."""
    rows.add_tree[row_blocks(bins.n_rows), ROW_THREADS](bins.codes, *nodes, device.upload(np.zeros(0, bool)), scores)


# One tree a round, grown on the device; only the tree comes back.
#
# The same as rankwright.boosting.learner.LocalLearner on a rankwright.boosting.grow.Grower.


def binned(bins: DeviceBins, X: Iterable[Array] | None) -> list[DeviceBins]:
    """Other rows in the same bins, some at a time."""
    return [] if X is None else [bins_like(bins.ends, some) for some in X]


class DeviceTrees:
    """A learner for :class:`~rankwright.boosting.rounds.Boosting`; gradients, weights and scores are on the device.

    `grower`: grows trees; several learners may share it. `shrinkage`, `newton`, `seed`: as for
    :class:`~rankwright.boosting.learner.TreeLearner`. `valid`: the validation data, in bins of the same ends. `trees`:
    the trees so far.
    """

    def __init__(
        self,
        grower: DeviceGrower,
        *,
        shrinkage: float,
        newton: bool = False,
        seed: int = 0,
        valid: Iterable[DeviceBins] = (),
    ) -> None:
        self.trees: list[Tree] = []
        self._grower, self._shrinkage, self._newton, self._seed = grower, shrinkage, newton, seed
        self._nodes, self._valid = grower.nodes(), list(valid)
        self._launches = Recorded(grower.launch)

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        number = len(self.trees)
        self._grower.draw(np.random.default_rng([self._seed, number]), salts_of(self._seed, number)[1])
        self._launches(gradients, weights, scores, self._newton, self._shrinkage, self._nodes)
        self.trees.append(self._download())

    def _download(self) -> Tree:
        nodes = self._nodes[0].copy_to_host()
        n_nodes, gradient_unit, hessian_unit = nodes[-1, :3]  # what `add_leaves` has put after all nodes
        nodes, ends, unit = nodes[: int(n_nodes)], self._grower.bins.ends, float(gradient_unit**2 / hessian_unit)
        feature = nodes[:, leaves.FEATURE].astype(np.int32)
        inner, by_set, threshold = feature >= 0, nodes[:, leaves.IS_SET] == 1.0, np.zeros(len(nodes))
        by_set &= inner
        for node in np.flatnonzero(inner & ~by_set):
            feature_ends, last = ends[feature[node]], int(nodes[node, leaves.LAST])
            threshold[node] = feature_ends[last] if last < len(feature_ends) else np.inf
        return Tree(
            feature,
            threshold,
            inner & (nodes[:, leaves.MISSING_LEFT] == 1.0),
            np.where(inner, nodes[:, leaves.LEFT_NODE], 0.0).astype(np.int32),
            np.where(inner, 0.0, nodes[:, leaves.VALUE]),
            np.where(inner, nodes[:, leaves.NODE_GAIN] * unit, 0.0),
            nodes[:, leaves.COUNT].copy(),
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
        first = 0
        for bins in self._valid:
            class_scores = scores[first : first + bins.n_rows]
            on_device = device.upload(class_scores)
            add_tree(bins, self._nodes, on_device)
            class_scores[:] = on_device.copy_to_host()
            first += bins.n_rows

    def close(self) -> None:
        """Forget the gradients and scores; what else is on the device goes with this object."""
        self._launches.close()
