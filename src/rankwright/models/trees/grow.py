"""Growing a regression tree best-first: the leaf whose split gains most is split next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.scratch import scratch
from rankwright.data.threads import Team, parts_of
from rankwright.models.trees.binning import GROUP, MISSING, BinnedFeatures
from rankwright.models.trees.draws import child_salts, draw_features, drawn
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.histogram import Packed, fill_groups, gather, pack, turn
from rankwright.models.trees.special_split import (
    as_sets,
    category_order,
    left_bins,
    mean_curve,
    middle_value,
    noise_of,
    sum_of_squares,
)
from rankwright.models.trees.split import look, partition, settle

__all__ = ["Grower"]

Array = npt.NDArray[Any]
_WORTH_A_THREAD = 1 << 18  # values to add up, in about the time that a thread costs
_SEARCHED = 512  # rows whose values take as long as the search for the best splits
_ROWS_A_THREAD = 1 << 14  # rows to move or read once
_BALANCE = 1.1  # longest share of a thread that is good enough, relative to the mean
_Splits = tuple[Array, Array, Array]  # of every feature: gain, last bin to the left, whether missing values go left


@dataclass(eq=False)
class _Leaf:
    node: int
    start: int
    stop: int
    salt: int  # by which it draws
    total: int = 0  # packed
    squares: int = 0  # of residuals, in units, where categories are split
    sums: Array | None = None
    gain: float = -1.0
    feature: int = -1
    last: int = 0
    missing_left: bool = False
    left_bins: Array | None = None  # of a split by categories
    low: float = -np.inf  # bounds of its value, in units
    high: float = np.inf
    limit: float = 0.0  # between the values of its children, if they are bound


@dataclass(frozen=True, eq=False)
class _Task:
    """What one tree is grown from: rows in the order of its leaves so far, packed values, features it may use."""

    rows: Array
    packed: Packed
    features: Array
    smooth: float = 0.0  # units of curvature


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
    directions : mapping of int to int
        Features in which values should rise (1) or fall (−1): splits that go the other way are left out.
    smooth_rows : float
        Rows of average curvature with the mean of the node that are added to every category of a feature, where
        categories are ordered by their means.
    chance : float
        How many times the gain that chance gives a split by categories is taken off.

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
    directions: Mapping[int, int] = field(default_factory=dict)
    smooth_rows: float = 10.0
    chance: float = 1.0
    team: Team = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n_groups = len(self.binned.words)
        self._n_bins = np.array([len(ends) + 1 for ends in self.binned.ends], np.int64)
        self.varies = np.array(
            [self._n_bins[j] > 1 or self._some_missing(j) for j in range(self.binned.n_features)], bool
        )
        self._is_category = np.zeros(self.binned.n_features, np.bool_)
        self._is_category[list(self.binned.categorical)] = True
        ways = np.zeros(self.binned.n_features, np.int64)
        ways[list(self.directions)] = list(self.directions.values())
        some_special = bool(self.binned.categorical or self.directions)
        self._kinds = (self._n_bins, (self._is_category, ways) if some_special else None)
        self._shape = (n_groups, GROUP, 256)
        self._spare: list[Array] = []
        self._no_sums = np.empty((0, *self._shape[1:]), np.int64)
        self._values = np.empty(self.binned.n_rows, np.int64)
        self._other = np.empty(self.binned.n_rows, np.uint32)
        self._least_rows = max(1, round(self.min_rows * self.node_rows))  # of those drawn
        self.team = Team(self.threads)
        self._by_row = scratch((self.binned.n_rows, n_groups), np.uint64, self.binned.folder)
        shares = [(slice(*share),) for share in parts_of(self.binned.n_rows, self.threads)]
        self.team.each(lambda rows: turn(self.binned.words[:, rows], self._by_row[rows]), shares)
        self._parts = np.empty((0, *self._shape), np.int64)

    def _some_missing(self, j: int) -> bool:
        group, place = divmod(j, GROUP)
        missing = (self.binned.words[group] >> np.uint64(8 * place)) & np.uint64(MISSING) == MISSING
        return bool(missing.any() and not missing.all())

    def close(self) -> None:
        """Shut down the threads."""
        self.team.close()

    def grow(
        self, residuals: Array, rows: Array, features: Array, salt: int, curves: Array | None = None
    ) -> tuple[Tree, list[tuple[int, Array]]]:
        """A tree for the residuals of ``rows`` (uint32, ascending), and the rows of each leaf, by node.

        Nodes draw by the ``salt`` of the root. With ``curves``, the second derivatives, splits are chosen by Newton
        gains, otherwise by squared error. Leaf values stay 0; the caller sets them.
        """
        packed = pack(residuals, curves, self.team)
        smooth = self.smooth_rows * mean_curve(packed.values) if self.binned.categorical else 0.0
        task = _Task(rows.copy(), packed, features, smooth)
        size = 2 * min(self.max_leaves, max(len(rows), 1)) - 1
        feature, left = np.full(size, -1, np.int32), np.zeros(size, np.int32)
        threshold, gain, count = np.zeros(size), np.zeros(size), np.zeros(size)
        missing_left, subset = np.zeros(size, np.bool_), np.full(size, -1, np.int32)
        sets: list[Array] = []
        unit = task.packed.residual_unit**2 / task.packed.curve_unit
        n_nodes = 1
        root = _Leaf(0, 0, len(rows), salt)
        count[0] = len(rows)
        self._look(root, task)
        leaves = [root]
        while len(leaves) < self.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)  # the first one if equal
            if best.gain <= 0:
                break
            node, j = best.node, best.feature
            ends = self.binned.ends[j]
            feature[node], left[node], missing_left[node] = j, n_nodes, best.missing_left
            if best.left_bins is None:
                threshold[node] = ends[best.last] if best.last < len(ends) else np.inf
            else:
                subset[node] = len(sets)
                sets.append(best.left_bins)
            gain[node] = best.gain * unit
            middle = best.start + self._divide(best, task.rows[best.start : best.stop])
            salts = child_salts(best.salt, min(self.node_rows, self.node_features))
            one = _Leaf(n_nodes, best.start, middle, salts[0])
            two = _Leaf(n_nodes + 1, middle, best.stop, salts[1])
            count[n_nodes], count[n_nodes + 1] = middle - best.start, best.stop - middle
            self._bound(best, one, two)
            n_nodes += 2
            leaves[leaves.index(best) : leaves.index(best) + 1] = [one, two]
            if len(leaves) < self.max_leaves:
                self._look_at_both(best, one, two, task)
            self._free(best)
        for leaf in leaves:
            self._free(leaf)
        used = slice(0, n_nodes)
        splits = (feature[used], threshold[used], missing_left[used], left[used])
        tree = Tree(*splits, np.zeros(n_nodes), gain[used], count[used], subset[used], as_sets(sets))
        return tree, [(leaf.node, task.rows[leaf.start : leaf.stop]) for leaf in leaves]

    def _divide(self, leaf: _Leaf, part: Array) -> int:
        """Put the rows that go left before those that go right, in order; returns how many go left."""
        group, place = divmod(leaf.feature, GROUP)
        table = leaf.left_bins
        if table is None:
            table = np.arange(256) <= leaf.last
            table[MISSING] = leaf.missing_left
        shares = self._shares(len(part))
        divide = partial(partition, self.binned.words[group], 8 * place, table)
        lefts = self.team.each(divide, [(part[start:stop], self._other[start:stop]) for start, stop in shares])
        middle = lefts[0]
        for (start, _), n_left in zip(shares[1:], lefts[1:], strict=True):
            part[middle : middle + n_left] = part[start : start + n_left]
            middle += n_left
        at = middle
        for (start, stop), n_left in zip(shares, lefts, strict=True):
            part[at : at + stop - start - n_left] = self._other[start : stop - n_left]
            at += stop - start - n_left
        return int(middle)

    def _look_at_both(self, parent: _Leaf, one: _Leaf, two: _Leaf, task: _Task) -> None:
        """Find the best splits of the children of a node, adding up the rows of the smaller one only."""
        small, large = (one, two) if one.stop - one.start <= two.stop - two.start else (two, one)
        if self.node_rows < 1.0 or parent.sums is None:
            self._look(one, task)
            self._look(two, task)
            return
        if large.stop - large.start < 2 * self.min_rows:
            return
        allowed = {leaf.node: self._draw_features(leaf, task) for leaf in (one, two)}
        small.sums, large.sums, parent.sums = self._spare_sums(), parent.sums, None
        part = task.rows[small.start : small.stop]
        values = self._gather(small, part, task)
        large.total, large.squares = parent.total - small.total, parent.squares - small.squares
        of_small, of_large = self._no_splits(), self._no_splits()
        one_side = (small.sums, allowed[small.node], self._node(small), of_small)
        other_side = (large.sums, allowed[large.node], self._node(large), of_large)
        self._run(part, values, *self._kinds, self._limits(task), *one_side, *other_side)
        self._choose(small, part, of_small, task)
        self._choose(large, task.rows[large.start : large.stop], of_large, task)

    def _look(self, leaf: _Leaf, task: _Task) -> None:
        """Find the best split of a leaf from its rows or a sample of them."""
        part = task.rows[leaf.start : leaf.stop]
        if len(part) < 2 * self.min_rows:
            return
        if self.node_rows < 1.0:
            part = part[drawn(part, leaf.salt, self.node_rows)]
        leaf.sums = self._spare_sums()
        values = self._gather(leaf, part, task)
        allowed, splits = self._draw_features(leaf, task), self._no_splits()
        own_side = (leaf.sums, allowed, self._node(leaf), splits)
        self._run(part, values, *self._kinds, self._limits(task), *own_side, self._no_sums, *own_side[1:])
        self._choose(leaf, part, splits, task)

    def _limits(self, task: _Task) -> tuple[int, float]:
        """Units of curvature that each part of a split must have, and those that smooth the means of categories.

        A part must have some units, or those of its rows where all are equal.
        """
        return self._least_rows * task.packed.largest if task.packed.counts_rows else 1, task.smooth

    def _bound(self, leaf: _Leaf, one: _Leaf, two: _Leaf) -> None:
        """Bound the values of the children of a leaf, as `leaf_bounds` will."""
        one.low = two.low = leaf.low
        one.high = two.high = leaf.high
        way = self.directions.get(leaf.feature, 0)
        if way and leaf.last < len(self.binned.ends[leaf.feature]):
            lower, upper = (one, two) if way > 0 else (two, one)
            lower.high = upper.low = leaf.limit

    def _gather(self, leaf: _Leaf, part: Array, task: _Task) -> Array:
        """The packed values of some rows, whose sums become those of the leaf."""
        values = self._values[: len(part)]
        shares = [(part[start:stop], values[start:stop]) for start, stop in self._shares(len(part))]
        leaf.total = sum(self.team.each(partial(gather, task.packed.values), shares))
        leaf.squares = int(sum_of_squares(values)) if self.binned.categorical else 0
        return values

    def _shares(self, n_rows: int) -> list[tuple[int, int]]:
        """Rows of each thread, where each is read once."""
        return parts_of(n_rows, min(self.threads, 1 + n_rows // _ROWS_A_THREAD))

    def _run(self, part: Array, values: Array, *given: Any) -> None:
        """Fill histograms and search them for the best splits, each thread in some groups of features.

        Where there are too few groups for the threads to share, the rows are shared, too, and their histograms added.
        """
        # T threads take work / T + cost · T: least at the root of work / cost.
        worth = 1 + math.isqrt((len(part) + _SEARCHED) * self.binned.n_features // _WORTH_A_THREAD)
        threads, n_groups = min(self.threads, worth), self._shape[0]
        by_group = _groups_at_once(n_groups, threads)
        groups, rows = parts_of(n_groups, by_group), parts_of(len(part), threads // by_group)
        parts = self._parts[:0]
        if len(rows) > 1:
            if len(self._parts) < len(rows):
                self._parts = np.empty((len(rows), *self._shape), np.int64)
            parts = self._parts[: len(rows)]
            fill = partial(fill_groups, self.binned.words, self._by_row)
            tiles = [(share, slice(*some), sums) for share in groups for some, sums in zip(rows, parts, strict=True)]
            self.team.each(fill, [(*share, part[some], values[some], sums) for share, some, sums in tiles])
            groups = parts_of(n_groups, min(threads, n_groups))
        search = partial(look, self.binned.words, self._by_row)
        self.team.each(search, [(first, stop, part, values, parts, *given) for first, stop in groups])

    def _draw_features(self, leaf: _Leaf, task: _Task) -> Array:
        if self.node_features >= 1.0:
            return task.features
        return draw_features(task.features, self.varies, leaf.salt, self.node_features)

    def _choose(self, leaf: _Leaf, part: Array, splits: _Splits, task: _Task) -> None:
        """Take the best split whose parts have enough rows."""
        limits, sure = self._limits(task), self._least_rows * task.packed.largest
        given = (leaf.sums, *self._kinds, self._node(leaf), limits, self._least_rows, sure, splits)
        j = settle(self.binned.words, part, *given)
        gains, lasts, missing_left = splits
        leaf.gain, leaf.feature = float(gains[j]), j
        leaf.last, leaf.missing_left = int(lasts[j]), bool(missing_left[j])
        assert leaf.sums is not None
        histogram = leaf.sums[j // GROUP, j % GROUP]
        if self._is_category[j]:
            order = category_order(histogram, self._n_bins[j], leaf.total, task.smooth)
            leaf.left_bins = left_bins(order, leaf.last, leaf.missing_left)
        elif self.directions.get(int(j)):
            left = int(histogram[: leaf.last + 1].sum()) + leaf.missing_left * int(histogram[MISSING])
            leaf.limit = middle_value(left, leaf.total, leaf.low, leaf.high)

    def _node(self, leaf: _Leaf) -> tuple[int, float, float, float]:
        noise = noise_of(self.chance * leaf.squares, leaf.total) if leaf.squares else 0.0
        return leaf.total, leaf.low, leaf.high, noise

    def _no_splits(self) -> _Splits:
        d = self.binned.n_features
        return np.full(d, -1.0), np.zeros(d, np.int64), np.zeros(d, np.bool_)

    def _spare_sums(self) -> Array:
        return self._spare.pop() if self._spare else np.empty(self._shape, np.int64)

    def _free(self, leaf: _Leaf) -> None:
        if leaf.sums is not None:
            self._spare.append(leaf.sums)
            leaf.sums = None


def _groups_at_once(n_groups: int, threads: int) -> int:
    """Into how many parts to cut the groups of features; each is again cut into threads // that many parts by rows."""

    def longest(cuts: int) -> float:
        return -(-n_groups // cuts) / n_groups / (threads // cuts)

    possible = range(1, min(n_groups, threads) + 1)
    good = _BALANCE * min(longest(cuts) for cuts in possible)
    return max(cuts for cuts in possible if longest(cuts) <= good)
