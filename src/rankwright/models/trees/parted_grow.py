"""Growing a tree best-first where the rows are in parts: only sums travel, and few times.

A trip asks for the sums of several nodes at once: those that the best-first order surely needs next, and those that it
will probably need if gains fall from parents to children as they mostly do. Where all of them have so few rows that
these take less room than sums, the rows themselves come here, and what is below these nodes needs no further trips.
None of that changes the tree: splits are taken in the strict best-first order of the gains.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.threads import Team, parts_of
from rankwright.models.trees.binning import GROUP, MISSING
from rankwright.models.trees.draws import child_salts, draw_features
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.parted_rows import Brought, Cuts
from rankwright.models.trees.parted_split import (
    CURVE_CUT,
    RESIDUAL_CUT,
    narrowed,
    packed_total,
    search,
    settle_counted,
)
from rankwright.models.trees.parted_sums import Layout, Units
from rankwright.models.trees.special_split import as_sets, category_order, left_bins, middle_value, noise_of

__all__ = ["Bring", "Grown", "Look", "PartedGrower", "Sums"]

Array = npt.NDArray[Any]
Sums = tuple[Array, Array, Array]  # of all bins: residuals, curvatures, rows
Look = Callable[[Cuts, Array, Array], Sequence[Array]]  # cuts, nodes, salts -> sums of nodes, by bin and in all
Bring = Callable[[Cuts, Array], Sequence[tuple[Array, Array, Array, Array]]]  # cuts, nodes -> rows of nodes, by part
_MOST_UNITS = (1 << 31) - 1  # of curvature, where it counts rows
_BIN, _PAIR, _KEY = 20, 16, 8  # bytes
_FALL = 0.6  # gain of a child, as a share of its parent's, as it is guessed ahead


@dataclass(eq=False)
class _Node:
    number: int
    salt: int  # by which it draws
    totals: Array  # residuals, curvatures, rows, and squares of residuals
    sums: Sums | None = None
    gain: float = -1.0
    feature: int = -1
    last: int = 0
    missing_left: bool = False
    table: Array | None = None  # the bins that go left
    low: float = -np.inf  # bounds of its value, in units
    high: float = np.inf
    limit: float = 0.0  # between the values of its children, if they are bound
    children: tuple[_Node, _Node] | None = None
    brought: Brought | None = None  # its rows, if they are here


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree, and what its leaves are made of.

    Attributes
    ----------
    tree : Tree
        Values of leaves are 0.
    leaves : ndarray of int
        The leaves, as nodes of the tree.
    numbers : ndarray of int32
        The same, as the parts number them.
    totals : ndarray of shape (leaves, 3)
        Residuals, curvatures and rows, in units.
    cuts : Cuts
        The divisions, as the parts number nodes.
    """

    tree: Tree
    leaves: Array
    numbers: Array
    totals: Array
    cuts: Cuts


@dataclass
class PartedGrower:
    """Grows trees from sums over parts; parameters as of :class:`~rankwright.models.trees.grow.Grower`.

    Parameters
    ----------
    ends : tuple of ndarray
        For each feature the upper ends of all its bins but the last.
    varies : ndarray of bool
        Features that can split some rows from others.
    categorical : frozenset of int
        Features whose bins are categories.
    n_rows : int
        Rows of all parts.
    counts_rows : bool
        Whether splits are chosen by squared error: all curvatures are 1.
    ahead : bool
        Whether to ask for nodes that will probably be needed, which costs work and saves trips.

    """

    ends: tuple[Array, ...]
    varies: Array
    categorical: frozenset[int]
    n_rows: int
    counts_rows: bool = False
    max_leaves: int = 31
    min_rows: int = 20
    node_rows: float = 1.0
    node_features: float = 1.0
    threads: int = 1
    directions: Mapping[int, int] = field(default_factory=dict)
    smooth_rows: float = 10.0
    chance: float = 1.0
    ahead: bool = True

    def __post_init__(self) -> None:
        d = len(self.ends)
        self.layout = Layout(np.array([len(ends) + 1 for ends in self.ends], np.int64))
        is_category, ways = np.zeros(d, np.bool_), np.zeros(d, np.int64)
        is_category[list(self.categorical)] = True
        ways[list(self.directions)] = list(self.directions.values())
        some_special = bool(self.categorical or self.directions)
        self._kinds = (self.layout.n_bins, (is_category, ways) if some_special else None)
        self._per_row = max(1, _MOST_UNITS // max(self.n_rows, 1)) if self.counts_rows else 0
        self._least_rows = max(1, round(self.min_rows * self.node_rows))  # of those drawn
        row = 8 * -(-d // GROUP) + _PAIR + (_KEY if self.node_rows < 1.0 else 0)  # bytes
        self.few = _BIN * int(self.layout.starts[-1]) // row  # rows that take no more than the sums of a node
        self.team = Team(self.threads)

    def close(self) -> None:
        """Shut down the threads."""
        self.team.close()

    def grow(self, root: Sequence[Array], look: Look, bring: Bring, features: Array, units: Units, salt: int) -> Grown:
        """A tree from the sums of its root; ``look`` gets those of other nodes, ``bring`` the rows of small ones.

        ``features`` are those that it may use. What a node draws depends on the root's salt and its place in the tree.
        """
        growth = _Growth(self, look, bring, features, salt)
        return growth.run(root, 2.0 ** (2 * (units.residual + RESIDUAL_CUT)) / self._curve_unit(units))

    def _curve_unit(self, units: Units) -> float:
        return 1.0 / self._per_row if self._per_row else 2.0 ** (units.curve + CURVE_CUT)

    def find(self, node: _Node, allowed: Array, smooth: float) -> None:
        """Find the best split of a node."""
        assert node.sums is not None
        starts, d = self.layout.starts, len(self.ends)
        whole = packed_total(node.totals, self._per_row)
        if self.node_rows < 1.0:
            whole = packed_total([own[starts[0] : starts[1]].sum() for own in node.sums], self._per_row)
        total = whole[0]
        noise = noise_of(self.chance * float(node.totals[3]), total) if self.categorical else 0.0
        of_node = (total, node.low, node.high, noise)
        limits = (self._least_rows * self._per_row if self._per_row else 1, smooth)
        out = (np.full(d, -1.0), np.zeros(d, np.int64), np.zeros(d, np.bool_))

        def look(first: int, stop: int) -> None:
            search(node.sums, starts, first, stop, whole, self._per_row, *self._kinds, allowed, of_node, limits, out)

        self.team.each(look, parts_of(d, min(self.threads, d)))
        j = int(
            settle_counted(
                node.sums, starts, whole, self._per_row, *self._kinds, of_node, limits, self._least_rows, out
            )
        )
        node.gain, node.feature = float(out[0][j]), j
        node.last, node.missing_left = int(out[1][j]), bool(out[2][j])
        node.table = self._table(node, whole, smooth)

    def _table(self, node: _Node, whole: tuple[int, int, int], smooth: float) -> Array:
        """The bins that go left; sets the limit of a bound split, too."""
        j, bins, counts = node.feature, np.zeros(256, np.int64), np.zeros(256, np.int64)
        narrowed(node.sums, self.layout.starts, j, whole, self._per_row, bins, counts)
        total = whole[0]
        if j in self.categorical:
            order = category_order(bins, self.layout.n_bins[j], total, smooth)
            return np.asarray(left_bins(order, node.last, node.missing_left))
        if self.directions.get(j):
            left = int(bins[: node.last + 1].sum()) + node.missing_left * int(bins[MISSING])
            node.limit = middle_value(left, total, node.low, node.high)
        table = np.arange(256) <= node.last
        table[MISSING] = node.missing_left
        return table

    def mean_curve(self, root: _Node) -> float:
        """Mean curvature of a row, in the units of the search."""
        curve = packed_total(root.totals, self._per_row)[0] & ((1 << 32) - 1)
        return curve / max(int(root.totals[2]), 1)

    def bound(self, node: _Node, one: _Node, two: _Node) -> None:
        """Bound the values of the children of a node, as `leaf_bounds` will."""
        one.low = two.low = node.low
        one.high = two.high = node.high
        way = self.directions.get(node.feature, 0)
        if way and node.last < len(self.ends[node.feature]):
            lower, upper = (one, two) if way > 0 else (two, one)
            lower.high = upper.low = node.limit


class _Growth:
    """One tree."""

    def __init__(self, grower: PartedGrower, look: Look, bring: Bring, features: Array, salt: int) -> None:
        self._grower, self._look, self._bring, self._features, self._salt = grower, look, bring, features, salt
        self._sampled = grower.node_rows < 1.0
        self._n_nodes, self._smooth = 1, 0.0
        self._divided: list[tuple[int, int, int, Array]] = []
        self._parent: dict[int, int] = {}

    def run(self, root: Sequence[Array], gain_unit: float) -> Grown:
        """The tree."""
        grower = self._grower
        top = _Node(0, self._salt, root[3][0])
        self._smooth = grower.smooth_rows * grower.mean_curve(top) if grower.categorical else 0.0
        top.sums = (root[0][0], root[1][0], root[2][0])
        self._find(top)
        leaves, splits = [top], []
        while len(leaves) < grower.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)  # the first one if equal
            if best.gain <= 0:
                break
            if best.children is None and len(leaves) + 1 == grower.max_leaves and not self._sampled:
                self._divide(best)  # nobody needs to know how its children could be split
            elif best.children is None:
                self._expand(self._wanted(leaves, best))
            assert best.children is not None
            splits.append(best)
            leaves[leaves.index(best) : leaves.index(best) + 1] = best.children
        return self._grown(top, splits, leaves, gain_unit)

    def _wanted(self, leaves: list[_Node], best: _Node) -> list[_Node]:
        """The nodes to ask for: the best leaf, and those that the tree would divide if gains fell as they mostly do."""
        if not self._grower.ahead or best.brought is not None:
            return [best]
        heap: list[tuple[float, int, _Node | None]] = [(-leaf.gain, at, leaf) for at, leaf in enumerate(leaves)]
        heapq.heapify(heap)
        wanted, left, at = [], self._grower.max_leaves - len(leaves), len(leaves)
        while heap and left > 0 and heap[0][0] < 0:
            loss, _, node = heapq.heappop(heap)
            left -= 1
            children = None if node is None else node.children
            if node is not None and children is None and node.brought is None:
                wanted.append(node)
            for child in children or (None, None):
                heapq.heappush(heap, (loss * _FALL if child is None else -child.gain, at, child))
                at += 1
        return wanted

    def _expand(self, wanted: list[_Node]) -> None:
        """Divide nodes and find the best splits of their children."""
        if self._grower.ahead and all(node.totals[2] <= self._grower.few for node in wanted):
            self._bring_rows([node for node in wanted if node.brought is None])
        asked: list[_Node] = []
        parents: list[_Node] = []
        for node in wanted:
            left, right = self._divide(node)
            small, large = (left, right) if left.totals[2] <= right.totals[2] else (right, left)
            if self._sampled or large.totals[2] >= 2 * self._grower.min_rows:
                asked += [left, right] if self._sampled else [small]
                parents.append(node)
        self._ask([node for node in asked if node.brought is None])
        for node in asked:
            if node.brought is not None:
                self._ask([node])
        for parent in parents:
            self._find_below(parent)

    def _bring_rows(self, nodes: list[_Node]) -> None:
        """Bring the rows of some nodes here."""
        if nodes:
            numbers, grower = np.array([node.number for node in nodes], np.int32), self._grower
            parts = self._bring(self._cuts(), numbers)
            for node, brought in zip(nodes, Brought.of(numbers, parts, grower.layout, grower.team), strict=True):
                node.brought = brought

    def _ask(self, nodes: list[_Node]) -> None:
        """Get the sums of some nodes: from the parts, or of one whose rows are here."""
        if not nodes:
            return
        numbers = np.array([node.number for node in nodes], np.int32)
        salts = np.array([node.salt for node in nodes], np.uint64)
        brought = nodes[0].brought
        if brought is None:
            one, two, three, totals = self._look(self._cuts(), numbers, salts)
        else:
            cut = self._cuts({self._parent[nodes[0].number]})
            one, two, three, totals = brought.look(cut, numbers, salts, self._grower.node_rows)
        for at, node in enumerate(nodes):
            node.totals, node.sums = totals[at], (one[at], two[at], three[at])

    def _find_below(self, parent: _Node) -> None:
        """Find the best splits of the children of a node, of which one or both have sums."""
        assert parent.children is not None
        left, right = parent.children
        if not self._sampled:
            small, large = (left, right) if left.sums is not None else (right, left)
            assert parent.sums is not None
            assert small.sums is not None
            large.sums = _less(parent.sums, small.sums)
            large.totals = parent.totals - small.totals
        parent.sums = None
        self._find(left)
        self._find(right)

    def _divide(self, node: _Node) -> tuple[_Node, _Node]:
        """Make the children of a node."""
        assert node.table is not None
        of_left = node.totals  # not known where a sample chose the split
        if node.sums is not None and not self._sampled:
            start, stop = self._grower.layout.starts[node.feature : node.feature + 2]
            taken = np.append(node.table[: stop - start - 1], node.table[MISSING])
            of_left = np.array([*(int(own[start:stop][taken].sum()) for own in node.sums), 0], np.int64)
        salts = child_salts(node.salt, min(self._grower.node_rows, self._grower.node_features))
        one = _Node(self._n_nodes, salts[0], of_left)
        two = _Node(self._n_nodes + 1, salts[1], node.totals - of_left)
        self._n_nodes += 2
        self._divided.append((node.number, one.number, node.feature, node.table))
        self._grower.bound(node, one, two)
        one.brought = two.brought = node.brought
        self._parent[one.number] = self._parent[two.number] = node.number
        node.children = (one, two)
        return node.children

    def _find(self, node: _Node) -> None:
        """Find the best split of a node that has enough rows."""
        grower, allowed = self._grower, self._features
        if node.totals[2] < 2 * grower.min_rows:
            node.sums = None
            return
        if grower.node_features < 1.0:
            allowed = draw_features(self._features, grower.varies, node.salt, grower.node_features)
        grower.find(node, allowed, self._smooth)

    def _cuts(self, kept: set[int] | None = None) -> Cuts:
        some = [cut for cut in self._divided if kept is None or cut[0] in kept]
        nodes, lefts, features, tables = zip(*some, strict=True) if some else ((), (), (), ())
        return Cuts.of(list(nodes), list(lefts), list(features), list(tables))

    def _grown(self, top: _Node, splits: list[_Node], leaves: list[_Node], gain_unit: float) -> Grown:
        n = 2 * len(splits) + 1
        feature, left = np.full(n, -1, np.int32), np.zeros(n, np.int32)
        threshold, gain, count = np.zeros(n), np.zeros(n), np.zeros(n)
        missing_left, subset = np.zeros(n, np.bool_), np.full(n, -1, np.int32)
        sets: list[Any] = []
        place = {top.number: 0}
        count[0] = top.totals[2]
        for at, node in enumerate(splits):
            assert node.children is not None
            here, ends = place[node.number], self._grower.ends[node.feature]
            feature[here], left[here], missing_left[here] = node.feature, 2 * at + 1, node.missing_left
            gain[here] = node.gain * gain_unit
            if node.feature in self._grower.categorical:
                subset[here] = len(sets)
                sets.append(node.table)
            else:
                threshold[here] = ends[node.last] if node.last < len(ends) else np.inf
            for child, number in zip(node.children, (2 * at + 1, 2 * at + 2), strict=True):
                place[child.number], count[number] = number, child.totals[2]
        tree = Tree(feature, threshold, missing_left, left, np.zeros(n), gain, count, subset, as_sets(sets))
        numbers = np.array([leaf.number for leaf in leaves], np.int32)
        totals = np.array([leaf.totals[:3] for leaf in leaves], np.int64)
        places = np.array([place[leaf.number] for leaf in leaves], np.int64)
        return Grown(tree, places, numbers, totals, self._cuts({node.number for node in splits}))


def _less(sums: Sums, other: Sums) -> Sums:
    """Sums less others, in place where that is possible."""
    one, two, three = (
        np.subtract(a, b, out=a if a.flags.writeable else None) for a, b in zip(sums, other, strict=True)
    )
    return one, two, three
