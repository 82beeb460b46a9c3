"""Growing a regression tree best-first: the leaf whose split gains most is split next.

There is one loop, wherever the rows are. A source of histograms divides rows and sums their gradients and hessians by
feature and bin: :class:`LocalHistograms` in this process, and over partitions, of which some may be on a GPU,
:class:`~rankwright.boosting.partitions.PartitionHistograms`. Both search packed histograms by the same functions
(:mod:`rankwright.boosting.histograms`), and everything is decided here: what nodes draw, the bounds of monotone
features, sets of categories, when to stop.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from rankwright._types import Arguments, Array
from rankwright.boosting.binning import GROUP, MISSING, BinnedFeatures
from rankwright.boosting.forest import Tree
from rankwright.boosting.histograms import (
    as_sets,
    category_order,
    divide_rows,
    fill_groups,
    gather,
    left_bins,
    look,
    mean_hessian,
    middle_value,
    noise_of,
    pack,
    settle,
    special_kinds,
    sum_of_squares,
    transpose,
)
from rankwright.data.hashes import child_salts, draw_features, drawn
from rankwright.data.threads import Team, parts_of, scratch

Splits = tuple[Array, Array, Array]  # of every feature: gain, last bin to the left, whether missing values go left
_FALL = 0.6  # gain of a child, as a share of its parent's, as it is guessed ahead


@dataclass(eq=False, slots=True)
class Node:
    """A node of a tree that is grown.

    The source sets ``n_rows``, ``total`` and ``squares``; what else it has to remember is in ``rows``, ``sums`` and
    ``totals``. With samples, the total and the squares are those of the sample.
    """

    number: int  # in the order in which nodes are made, which is that of the tree only where none is made ahead
    salt: int  # by which it draws
    parent: Node | None = None  # until it is summed up
    low: float = -np.inf  # bounds of its value, in units
    high: float = np.inf
    n_rows: int = 0
    total: int = 0  # packed
    squares: float = 0.0  # of gradients, in units, where categories are split
    gain: float = -1.0
    feature: int = -1
    last: int = 0
    missing_left: bool = False
    left_bins: Array | None = None  # a truth value for each bin
    limit: float = 0.0  # between the values of its children, if they are bound
    children: tuple[Node, Node] | None = None
    rows: Any = None
    sums: Any = None
    totals: Any = None


Family = tuple[Node, Node | None]  # a node to sum up, and its sibling, whose sums are their parent's less these


class HistogramSource(Protocol):
    """Rows by node, and their histograms. The last six attributes are those of the tree that was begun.

    `ends`: for each feature the upper ends of all its bins but the last. `categorical`: features whose bins are
    categories. `varies`: features that can split some rows from others; only these are drawn. `ahead`: whether to sum
    up nodes that will probably be needed, which costs work and saves trips. `counts_at_once`: whether dividing a node
    tells the rows of its children even where it has a sample only. `gain_unit`: what a unit of gain is worth.
    `mean_hessian`: mean hessian of a row, in units. `per_row`: units of hessian of every row where these are equal, so
    that sums count rows; else 0. `largest`: a bound of the units of hessian of a row.
    """

    ends: tuple[Array, ...]
    categorical: frozenset[int]
    varies: Array
    ahead: bool
    counts_at_once: bool
    gain_unit: float
    mean_hessian: float
    per_row: int
    largest: int

    def plant(self, root: Node) -> None:
        """Give all rows of the tree to its root."""

    def gather(self, nodes: Sequence[Node]) -> None:
        """Bring the rows of nodes that are divided next to this process, if that saves trips."""

    def divide(self, node: Node, left: Node, right: Node) -> None:
        """Give the rows of a node to its children."""

    def look(self, families: Sequence[Family], growth: Growth) -> None:
        """Sum up nodes and find their best splits, by `Growth.searched` and `Growth.choose`."""

    def release(self, node: Node) -> None:
        """Forget the sums of a node."""


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree, and the nodes it was made of.

    `tree`: values of leaves are 0. `leaves`: its leaves, from left to right. `places`: their numbers in the tree.
    `splits`: its inner nodes, in the order in which they were split.
    """

    tree: Tree
    leaves: list[Node]
    places: Array
    splits: list[Node]


@dataclass
class Grower:
    """Grows trees on the rows of a source.

    `source`: the rows. `max_leaves`: maximum number of leaves of a tree. `min_rows`: minimum number of rows of a leaf.
    `node_rows`, `node_features`: share of rows and features, drawn for each node, from which its split is chosen.
    `directions`: features in which values should rise (1) or fall (−1): splits that go the other way are left out.
    `smooth_rows`: rows of average hessian with the mean of the node that are added to every category of a feature,
    where categories are ordered by their means. `chance`: how many times the gain that chance gives a split by
    categories is taken off.
    """

    source: HistogramSource
    max_leaves: int = 31
    min_rows: int = 20
    node_rows: float = 1.0
    node_features: float = 1.0
    directions: Mapping[int, int] = field(default_factory=dict)
    smooth_rows: float = 10.0
    chance: float = 1.0

    def __post_init__(self) -> None:
        source = self.source
        n_bins = np.array([len(ends) + 1 for ends in source.ends], np.int64)
        self.kinds = (n_bins, special_kinds(len(n_bins), source.categorical, self.directions))
        self.least_rows = max(1, round(self.min_rows * self.node_rows))  # of those drawn

    def grow(self, features: Array, salt: int) -> Grown:
        """A tree on the rows and gradients that the source has begun with, and the features of a mask.

        Nodes draw by the ``salt`` of the root and their place in the tree.
        """
        return Growth(self, features).run(Node(0, salt))


class Growth:
    """One tree.

    `kinds`: bins of every feature, and of which kind they are, as `best_of` takes them. `limits`: units of hessian that
    each part of a split must have, and those that smooth the means of categories. `min_rows`, `node_rows`: as of the
    grower.
    """

    def __init__(self, grower: Grower, features: Array) -> None:
        source = grower.source
        self._grower, self._source, self._features = grower, source, features
        self._sampled = grower.node_rows < 1.0
        self._n_nodes = 1
        self.kinds, self.min_rows, self.node_rows = grower.kinds, grower.min_rows, grower.node_rows
        # A part must have some units, or those of its rows where all are equal.
        min_units = grower.least_rows * source.per_row if source.per_row else 1
        self.limits = (min_units, grower.smooth_rows * source.mean_hessian if source.categorical else 0.0)
        self._sure = grower.least_rows * source.largest

    def run(self, root: Node) -> Grown:
        source, max_leaves = self._source, self._grower.max_leaves
        source.plant(root)
        source.look([(root, None)], self)
        leaves: list[Node] = [root]
        splits: list[Node] = []
        while len(leaves) < max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)  # the first one if equal
            if best.gain <= 0:
                break
            if best.children is None:
                if len(leaves) + 1 == max_leaves and (source.counts_at_once or not self._sampled):
                    self._divide(best)  # nobody needs to know how its children could be split
                    self._release(best)
                else:
                    self._expand(self._wanted(leaves, best) if source.ahead else [best])
            assert best.children is not None
            splits.append(best)
            leaves[leaves.index(best) : leaves.index(best) + 1] = best.children
        for leaf in leaves:
            self._release(leaf)
        return self._grown(root, splits, leaves)

    def _wanted(self, leaves: list[Node], best: Node) -> list[Node]:
        """The nodes to sum up: the best leaf, and those that the tree would divide if gains fell as they mostly do.

        That changes no tree: splits are taken in the strict order of the gains.
        """
        if best.rows is not None:
            return [best]
        heap: list[tuple[float, int, Node | None]] = [(-leaf.gain, at, leaf) for at, leaf in enumerate(leaves)]
        heapq.heapify(heap)
        wanted, left, at = [], self._grower.max_leaves - len(leaves), len(leaves)
        while heap and left > 0 and heap[0][0] < 0:
            loss, _, node = heapq.heappop(heap)
            left -= 1
            children = None if node is None else node.children
            if node is not None and children is None and node.rows is None:
                wanted.append(node)
            for child in children or (None, None):
                heapq.heappush(heap, (loss * _FALL if child is None else -child.gain, at, child))
                at += 1
        return wanted

    def _expand(self, nodes: list[Node]) -> None:
        """Divide nodes and find the best splits of their children, summing up the smaller ones only."""
        self._source.gather(nodes)
        families: list[Family] = []
        for node in nodes:
            left, right = self._divide(node)
            if self._sampled:
                families += [(left, None), (right, None)]
                continue
            small, large = (left, right) if left.n_rows <= right.n_rows else (right, left)
            if large.n_rows >= 2 * self.min_rows:
                families.append((small, large))
        self._source.look(families, self)
        for node in nodes:
            self._release(node)

    def _release(self, node: Node) -> None:
        """Forget the sums of a node, and the way back from its children: a cycle would keep rows that were gathered."""
        self._source.release(node)
        for child in node.children or ():
            child.parent = None

    def _divide(self, node: Node) -> tuple[Node, Node]:
        """Make the children of a node, whose values have bounds as those of `leaf_bounds`."""
        grower = self._grower
        if node.left_bins is None:
            node.left_bins = np.arange(256) <= node.last
            node.left_bins[MISSING] = node.missing_left
        salts = child_salts(node.salt, min(grower.node_rows, grower.node_features))
        left = Node(self._n_nodes, salts[0], node, node.low, node.high)
        right = Node(self._n_nodes + 1, salts[1], node, node.low, node.high)
        way = grower.directions.get(node.feature, 0)
        if way and node.last < len(self._source.ends[node.feature]):
            lower, upper = (left, right) if way > 0 else (right, left)
            lower.high = upper.low = node.limit
        self._n_nodes += 2
        self._source.divide(node, left, right)
        node.children = (left, right)
        return node.children

    def searched(self, node: Node) -> tuple[Array, tuple[int, float, float, float], Splits]:
        """What a search needs of a node: features allowed; sum, bounds and noise; room for the splits it finds."""
        grower, allowed = self._grower, self._features
        if grower.node_features < 1.0:
            allowed = draw_features(allowed, self._source.varies, node.salt, grower.node_features)
        noise = noise_of(grower.chance * node.squares, node.total) if self._source.categorical else 0.0
        d = len(allowed)
        out = (np.full(d, -1.0), np.zeros(d, np.int64), np.zeros(d, np.bool_))
        return allowed, (node.total, node.low, node.high, noise), out

    def choose(
        self, node: Node, sums: Array, side: Arguments, packed_bins: Array, rows: Array, counts: Array | None
    ) -> None:
        """Take the best split whose parts have enough rows.

        `sums` (shape (groups, 8, 256)): packed histograms of the node. `side`: what `searched` gave, with the best
        splits of all features. `packed_bins`, `rows`: bins, and the rows to count by them where that decides.
        `counts`: rows by bin, if they are known.
        """
        _, of_node, out = side
        given = (sums, *self.kinds, of_node, self.limits, self._grower.least_rows, self._sure, out)
        j = int(settle(packed_bins, rows, counts, *given))
        gains, lasts, missing_left = out
        node.gain, node.feature = float(gains[j]), j
        node.last, node.missing_left = int(lasts[j]), bool(missing_left[j])
        if node.gain <= 0:
            return
        histogram = sums[j // GROUP, j % GROUP]
        if j in self._source.categorical:
            order = category_order(histogram, self.kinds[0][j], node.total, self.limits[1])
            node.left_bins = np.asarray(left_bins(order, node.last, node.missing_left))
        elif self._grower.directions.get(j):
            left = int(histogram[: node.last + 1].sum()) + node.missing_left * int(histogram[MISSING])
            node.limit = middle_value(left, node.total, node.low, node.high)

    def _grown(self, root: Node, splits: list[Node], leaves: list[Node]) -> Grown:
        n, source = 2 * len(splits) + 1, self._source
        feature, left = np.full(n, -1, np.int32), np.zeros(n, np.int32)
        threshold, gain, count = np.zeros(n), np.zeros(n), np.zeros(n)
        missing_left, subset = np.zeros(n, np.bool_), np.full(n, -1, np.int32)
        sets: list[Any] = []
        place = {root.number: 0}
        count[0] = root.n_rows
        for at, node in enumerate(splits):
            assert node.children is not None
            here, ends = place[node.number], source.ends[node.feature]
            feature[here], left[here], missing_left[here] = node.feature, 2 * at + 1, node.missing_left
            gain[here] = node.gain * source.gain_unit
            if node.feature in source.categorical:
                subset[here] = len(sets)
                sets.append(node.left_bins)
            else:
                threshold[here] = ends[node.last] if node.last < len(ends) else np.inf
            for child, number in zip(node.children, (2 * at + 1, 2 * at + 2), strict=True):
                place[child.number], count[number] = number, child.n_rows
        tree = Tree(feature, threshold, missing_left, left, np.zeros(n), gain, count, subset, as_sets(sets))
        return Grown(tree, leaves, np.array([place[leaf.number] for leaf in leaves], np.int64), splits)


# Monotone trees: bounds on the values of leaves that make scores rise, or fall, in a feature.
#
# Where a split on such a feature parts two rows that differ in it alone, one goes left and the other right. So it is
# enough that no leaf on one side is above a limit and none on the other below it: at every such split the limit is the
# mean of the best values of both sides, within the bounds that hold above it. Sums of such trees are monotone, too, in
# floating point as well: each addition is. A split that only sets missing values apart has no limit.


def leaf_bounds(tree: Tree, directions: Mapping[int, int], gradients: Array, hessians: Array) -> tuple[Array, Array]:
    """The lowest and the highest value that each node of a tree may have.

    `tree`: any tree. `directions`: features in which scores rise (1) or fall (−1). `gradients`, `hessians`: sums over
    the rows of each leaf, one per node: the best value of some rows is the quotient of theirs.
    """
    n = len(tree.feature)
    gradients, hessians = gradients.copy(), hessians.copy()
    inner = np.flatnonzero(tree.feature >= 0).tolist()
    for node in reversed(inner):  # children come after their parents
        for sums in (gradients, hessians):
            sums[node] = sums[tree.left[node]] + sums[tree.left[node] + 1]
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    best = np.divide(gradients, hessians, out=np.zeros(n), where=hessians > 0)
    for node in inner:
        left_child, right_child = int(tree.left[node]), int(tree.left[node]) + 1
        low[left_child] = low[right_child] = low[node]
        high[left_child] = high[right_child] = high[node]
        way = directions.get(int(tree.feature[node]), 0)
        if way and tree.threshold[node] < np.inf:
            left, right = (min(max(best[child], low[node]), high[node]) for child in (left_child, right_child))
            limit = left + (right - left) / 2
            lower, upper = (left_child, right_child) if way > 0 else (right_child, left_child)
            high[lower] = low[upper] = limit
    return low, high


# Histograms of rows in this process: packed, 32 bits of gradient and 32 of hessian to a number.


_WORTH_A_THREAD = 1 << 18  # values to add up, in about the time that a thread costs
_SEARCHED = 512  # rows whose values take as long as the search for the best splits
_READ_A_THREAD = 1 << 14  # rows to read once
_BALANCE = 1.1  # longest share of a thread that is good enough, relative to the mean


class LocalHistograms:
    """A :class:`~rankwright.boosting.grow.HistogramSource` of rows in this process.

    `binned`: the features. `threads`: number of threads; the tree does not depend on it.
    """

    ahead = False
    counts_at_once = True

    def __init__(self, binned: BinnedFeatures, threads: int = 1) -> None:
        n, n_groups = binned.n_rows, len(binned.packed_bins)
        self.binned, self.ends, self.categorical = binned, binned.ends, binned.categorical
        self.varies = np.array(
            [len(ends) > 0 or self._some_missing(j) for j, ends in enumerate(binned.ends)], bool
        )  # fmt: skip
        self.team = Team(threads)
        self._shape = (n_groups, GROUP, 256)
        self._spare: list[Array] = []
        self._no_sums, self._partial = (np.empty((0, *shape), np.int64) for shape in (self._shape[1:], self._shape))
        self._values, self._other = np.empty(n, np.int64), np.empty(n, np.uint32)
        self._by_row = scratch((n, n_groups), np.uint64, binned.folder)
        shares = [(slice(*share),) for share in parts_of(n, threads)]
        self.team.each(lambda rows: transpose(binned.packed_bins[:, rows], self._by_row[rows]), shares)

    def _some_missing(self, j: int) -> bool:
        group, place = divmod(j, GROUP)
        missing = (self.binned.packed_bins[group] >> np.uint64(8 * place)) & np.uint64(MISSING) == MISSING
        return bool(missing.any() and not missing.all())

    def begin(self, gradients: Array, rows: Array, hessians: Array | None = None) -> None:
        """Take the gradients of the next tree, and the ``rows`` it sees: uint32, ascending.

        With ``hessians``, the second derivatives, splits are chosen by Newton gains, otherwise by squared error.
        """
        packed = pack(gradients, hessians, self.team)
        self._rows, self._packed, self.largest = rows.copy(), packed.values, packed.largest
        self.per_row = packed.largest if packed.counts_rows else 0
        self.gain_unit = packed.gradient_unit**2 / packed.hessian_unit
        self.mean_hessian = mean_hessian(packed.values) if self.categorical else 0.0

    def close(self) -> None:
        self.team.close()

    def plant(self, root: Node) -> None:
        root.rows, root.n_rows = (0, len(self._rows)), len(self._rows)

    def rows_of(self, node: Node) -> Array:
        """The rows of a node, ascending."""
        return self._rows[slice(*node.rows)]

    def gather(self, nodes: Sequence[Node]) -> None:
        """All rows are here."""

    def release(self, node: Node) -> None:
        if node.sums is not None:
            self._spare.append(node.sums)
            node.sums = None

    def divide(self, node: Node, left: Node, right: Node) -> None:
        """Put the rows that go left before those that go right, in order."""
        (start, stop), packed_bins = node.rows, self.binned.packed_bins
        rows, other = self.rows_of(node), self._other[: node.n_rows]
        left.n_rows = divide_rows(packed_bins, node.feature, node.left_bins, rows, other, self.team)
        right.n_rows = node.n_rows - left.n_rows
        left.rows, right.rows = (start, start + left.n_rows), (start + left.n_rows, stop)

    def look(self, families: Sequence[Family], growth: Growth) -> None:
        for node, sibling in families:
            if sibling is None:
                self._look(node, growth)
            else:
                self._look_at_both(node, sibling, growth)

    def _look_at_both(self, small: Node, large: Node, growth: Growth) -> None:
        """Sum up the smaller child of a node; the sums of the larger one take the place of its parent's."""
        parent = small.parent
        assert parent is not None
        small.sums, large.sums, parent.sums = self._spare_sums(), parent.sums, None
        rows = self.rows_of(small)
        values = self._gather(small, rows)
        large.total, large.squares = parent.total - small.total, parent.squares - small.squares
        sides = [growth.searched(node) for node in (small, large)]
        self._run(rows, values, *growth.kinds, growth.limits, small.sums, *sides[0], large.sums, *sides[1])
        for node, side in zip((small, large), sides, strict=True):
            growth.choose(node, node.sums, side, self.binned.packed_bins, self.rows_of(node), None)

    def _look(self, node: Node, growth: Growth) -> None:
        if node.n_rows < 2 * growth.min_rows:
            return
        rows = self.rows_of(node)
        if growth.node_rows < 1.0:
            rows = rows[drawn(rows, node.salt, growth.node_rows)]
        node.sums = self._spare_sums()
        values = self._gather(node, rows)
        side = growth.searched(node)
        self._run(rows, values, *growth.kinds, growth.limits, node.sums, *side, self._no_sums, *side)
        growth.choose(node, node.sums, side, self.binned.packed_bins, rows, None)

    def _gather(self, node: Node, rows: Array) -> Array:
        """The packed values of some rows, whose sums become those of the node."""
        values = self._values[: len(rows)]
        shares = [(rows[start:stop], values[start:stop]) for start, stop in self._shares(len(rows))]
        node.total = sum(self.team.each(partial(gather, self._packed), shares))
        node.squares = int(sum_of_squares(values)) if self.categorical else 0
        return values

    def _shares(self, n_rows: int) -> list[tuple[int, int]]:
        """Rows of each thread, where each is read once."""
        return parts_of(n_rows, min(self.team.threads, 1 + n_rows // _READ_A_THREAD))

    def _run(self, rows: Array, values: Array, *given: Any) -> None:
        """Fill histograms and search them for the best splits, each thread in some groups of features.

        Where there are too few groups for the threads to share, the rows are shared, too, and their histograms added.
        """
        # T threads take work / T + cost · T: least at the root of work / cost.
        worth = 1 + math.isqrt((len(rows) + _SEARCHED) * self.binned.n_features // _WORTH_A_THREAD)
        threads, n_groups = min(self.team.threads, worth), self._shape[0]
        by_group = _groups_at_once(n_groups, threads)
        groups, shares = parts_of(n_groups, by_group), parts_of(len(rows), threads // by_group)
        partial_sums = self._partial[:0]
        if len(shares) > 1:
            if len(self._partial) < len(shares):
                self._partial = np.empty((len(shares), *self._shape), np.int64)
            partial_sums = self._partial[: len(shares)]
            fill = partial(fill_groups, self.binned.packed_bins, self._by_row)
            tiles = [
                (share, slice(*some), sums) for share in groups for some, sums in zip(shares, partial_sums, strict=True)
            ]
            self.team.each(fill, [(*share, rows[some], values[some], sums) for share, some, sums in tiles])
            groups = parts_of(n_groups, min(threads, n_groups))
        search = partial(look, self.binned.packed_bins, self._by_row)
        self.team.each(search, [(first, stop, rows, values, partial_sums, *given) for first, stop in groups])

    def _spare_sums(self) -> Array:
        return self._spare.pop() if self._spare else np.empty(self._shape, np.int64)


def _groups_at_once(n_groups: int, threads: int) -> int:
    """Into how many parts to cut the groups of features; each is again cut into threads // that many parts by rows."""

    def longest(cuts: int) -> float:
        return -(-n_groups // cuts) / n_groups / (threads // cuts)

    possible = range(1, min(n_groups, threads) + 1)
    good = _BALANCE * min(longest(cuts) for cuts in possible)
    return max(cuts for cuts in possible if longest(cuts) <= good)
