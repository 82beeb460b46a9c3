"""Growing a regression tree best-first: the leaf whose split reduces the squared error most is split next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.models.trees.binning import GROUP, MISSING, BinnedFeatures
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.histogram import fill_groups, gather, pack
from rankwright.models.trees.split import best_splits, partition

__all__ = ["Grower"]

Array = npt.NDArray[Any]
_WORTH_THREADS = 1 << 12  # rows


@dataclass(eq=False)
class _Leaf:
    node: int
    start: int
    stop: int
    sums: Array | None = None
    gain: float = -1.0
    feature: int = -1
    last: int = 0
    missing_left: bool = False


@dataclass
class Grower:
    """Grows trees on one data set.

    Parameters
    ----------
    binned : BinnedFeatures
        The features.
    max_leaves : int
        Maximum number of leaves of a tree.
    min_rows : int
        Minimum number of rows of a leaf.
    node_rows, node_features : float
        Share of rows and features, drawn for each node, from which its split is chosen.
    threads : int
        Number of threads; the tree does not depend on it.

    Attributes
    ----------
    varies : ndarray of bool
        Features that can split some rows from others; only these are drawn.
    """

    binned: BinnedFeatures
    max_leaves: int = 31
    min_rows: int = 20
    node_rows: float = 1.0
    node_features: float = 1.0
    threads: int = 1
    _pool: ThreadPoolExecutor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_groups = len(self.binned.words)
        self._n_bins = np.array([len(ends) + 1 for ends in self.binned.ends], np.int64)
        self.varies = np.array(
            [self._n_bins[j] > 1 or self._some_missing(j) for j in range(self.binned.n_features)], bool
        )
        self._shape = (n_groups, GROUP, 256)
        self._spare: list[Array] = []
        self._values = np.empty(self.binned.n_rows, np.int64)
        self._other = np.empty(self.binned.n_rows, np.uint32)
        self._pool = ThreadPoolExecutor(self.threads)

    def _some_missing(self, j: int) -> bool:
        group, place = divmod(j, GROUP)
        missing = (self.binned.words[group] >> np.uint64(8 * place)) & np.uint64(MISSING) == MISSING
        return bool(missing.any() and not missing.all())

    def close(self) -> None:
        """Shut down the thread pool."""
        self._pool.shutdown()

    def grow(
        self, residuals: Array, rows: Array, features: Array, rng: np.random.Generator
    ) -> tuple[Tree, list[tuple[int, Array]]]:
        """A tree for the residuals of ``rows`` (uint32, ascending), and the rows of each leaf, by node.

        Leaf values stay 0; the caller sets them.
        """
        packed, unit = pack(residuals)
        rows = rows.copy()
        size = 2 * min(self.max_leaves, max(len(rows), 1)) - 1
        feature, left = np.full(size, -1, np.int32), np.zeros(size, np.int32)
        threshold, gain, count = np.zeros(size), np.zeros(size), np.zeros(size)
        missing_left = np.zeros(size, np.bool_)
        n_nodes = 1
        root = _Leaf(0, 0, len(rows))
        count[0] = len(rows)
        self._look(root, rows, packed, features, rng)
        leaves = [root]
        while len(leaves) < self.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)  # the first one if equal
            if best.gain <= 0:
                break
            node, j = best.node, best.feature
            ends = self.binned.ends[j]
            feature[node], left[node], missing_left[node] = j, n_nodes, best.missing_left
            threshold[node] = ends[best.last] if best.last < len(ends) else np.inf
            gain[node] = best.gain * unit * unit
            group, place = divmod(j, GROUP)
            part = rows[best.start : best.stop]
            words = self.binned.words[group]
            middle = best.start + partition(words, 8 * place, best.last, best.missing_left, part, self._other)
            one, two = _Leaf(n_nodes, best.start, middle), _Leaf(n_nodes + 1, middle, best.stop)
            count[n_nodes], count[n_nodes + 1] = middle - best.start, best.stop - middle
            n_nodes += 2
            leaves[leaves.index(best) : leaves.index(best) + 1] = [one, two]
            if len(leaves) < self.max_leaves:
                self._look_at_both(best, one, two, rows, packed, features, rng)
            self._free(best)
        for leaf in leaves:
            self._free(leaf)
        used = slice(0, n_nodes)
        value = np.zeros(n_nodes)
        tree = Tree(feature[used], threshold[used], missing_left[used], left[used], value, gain[used], count[used])
        return tree, [(leaf.node, rows[leaf.start : leaf.stop]) for leaf in leaves]

    def _look_at_both(
        self, parent: _Leaf, one: _Leaf, two: _Leaf, rows: Array, packed: Array, features: Array, rng: Any
    ) -> None:
        small, large = (one, two) if one.stop - one.start <= two.stop - two.start else (two, one)
        if self.node_rows < 1.0 or parent.sums is None:
            self._look(one, rows, packed, features, rng)
            self._look(two, rows, packed, features, rng)
            return
        if large.stop - large.start < 2 * self.min_rows:
            return
        self._fill(small, rows[small.start : small.stop], packed)
        large.sums, parent.sums = parent.sums, None
        assert small.sums is not None
        large.sums -= small.sums
        for leaf in (one, two):
            self._choose(leaf, features, rng)

    def _look(self, leaf: _Leaf, rows: Array, packed: Array, features: Array, rng: np.random.Generator) -> None:
        """Find the best split of a leaf from its rows or a sample of them."""
        part = rows[leaf.start : leaf.stop]
        if len(part) < 2 * self.min_rows:
            return
        if self.node_rows < 1.0:
            part = part[rng.random(len(part), np.float32) < self.node_rows]
        self._fill(leaf, part, packed)
        self._choose(leaf, features, rng)

    def _fill(self, leaf: _Leaf, part: Array, packed: Array) -> None:
        leaf.sums = self._spare.pop() if self._spare else np.empty(self._shape, np.int64)
        values = self._values[: len(part)]
        gather(packed, part, values)
        words, sums, n_groups = self.binned.words, leaf.sums, self._shape[0]
        threads = min(self.threads, n_groups) if len(part) >= _WORTH_THREADS else 1
        # One call per thread, the last one in this thread: more calls would cost more than better balance gains.
        bounds = [n_groups * at // threads for at in range(threads + 1)]
        others = [
            self._pool.submit(fill_groups, words, first, stop, part, values, sums)
            for first, stop in pairwise(bounds[:-1])
        ]
        fill_groups(words, bounds[-2], n_groups, part, values, sums)
        for other in others:
            other.result()

    def _choose(self, leaf: _Leaf, features: Array, rng: np.random.Generator) -> None:
        d = self.binned.n_features
        allowed = features
        if self.node_features < 1.0:
            allowed = np.zeros(d, np.bool_)
            candidates = np.flatnonzero(features & self.varies)
            n_drawn = min(max(1, round(self.node_features * len(candidates))), len(candidates))
            allowed[rng.choice(candidates, n_drawn, replace=False)] = True
        gains, last, missing_left = np.empty(d), np.empty(d, np.int64), np.empty(d, np.bool_)
        assert leaf.sums is not None
        least = max(1, round(self.min_rows * self.node_rows))
        best_splits(leaf.sums.reshape(-1, 256), self._n_bins, allowed, least, gains, last, missing_left)
        j = int(np.argmax(gains))
        leaf.gain, leaf.feature, leaf.last, leaf.missing_left = float(gains[j]), j, int(last[j]), bool(missing_left[j])

    def _free(self, leaf: _Leaf) -> None:
        if leaf.sums is not None:
            self._spare.append(leaf.sums)
            leaf.sums = None
