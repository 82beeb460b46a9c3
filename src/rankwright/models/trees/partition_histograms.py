"""Histograms of rows that are in partitions: only sums travel, and few times.

A trip asks for the sums of several nodes at once: those that the best-first order surely needs next, and those that it
will probably need if gains fall from parents to children as they mostly do. Where all of them have so few rows that
these take less room than sums, the rows themselves come here, and what is below these nodes needs no further trips.

For the search, sums of 64 bits are cut to the 31 bits each that a packed histogram has. What is cut are the sums up to
a bin, not those of bins: so the sums of a node are the same for all features, and an empty bin stays empty. And they
are cut around half of the node's sum, so two features that part a node alike gain alike, whichever part is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.caching import INNER
from rankwright.data.threads import Team, parts_of
from rankwright.models.trees.binning import GROUP, MISSING
from rankwright.models.trees.grow import Family, Growth, Node
from rankwright.models.trees.histogram import CURVE_BITS
from rankwright.models.trees.parted_rows import Cuts, Part
from rankwright.models.trees.parted_sums import CURVE_ROOM, RESIDUAL_ROOM, Layout, Units
from rankwright.models.trees.split import best_splits

Array = npt.NDArray[Any]
Sums = tuple[Array, Array, Array]  # of all bins: residuals, curvatures, rows
Look = Callable[[Cuts, Array, Array], Sequence[Array]]  # cuts, nodes, salts -> sums of nodes, by bin and in all
Bring = Callable[[Cuts, Array], Sequence[tuple[Array, Array, Array, Array]]]  # cuts, nodes -> their rows, by partition
_MOST_UNITS = (1 << 31) - 1  # of curvature, where it counts rows
_BIN, _PAIR, _KEY = 20, 16, 8  # bytes
_RESIDUAL_CUT, _CURVE_CUT = RESIDUAL_ROOM - 30, CURVE_ROOM - 31
_NO_WORDS, _NO_ROWS = np.zeros((0, 0), np.uint64), np.zeros(0, np.uint32)


class PartitionHistograms:
    """A :class:`~rankwright.models.trees.grow.HistogramSource` of rows in partitions.

    Parameters
    ----------
    ends, varies, categorical
        Bins of the features, as those of a source.
    n_rows : int
        Rows of all partitions.
    counts_rows : bool
        Whether splits are chosen by squared error: all curvatures are 1.
    samples : bool
        Whether nodes draw rows.
    ahead : bool
        Whether to ask for nodes that will probably be needed.
    threads : int
        Number of threads; the tree does not depend on it.

    Attributes
    ----------
    few : int
        Rows that take no more room than the sums of a node.
    """

    counts_at_once = False
    largest = 1 << CURVE_BITS  # no curvature shows that a part has enough rows: all of them are counted

    def __init__(
        self,
        ends: tuple[Array, ...],
        varies: Array,
        categorical: frozenset[int],
        n_rows: int,
        *,
        counts_rows: bool = False,
        samples: bool = False,
        ahead: bool = True,
        threads: int = 1,
    ) -> None:
        d, self._samples = len(ends), samples
        self.ends, self.varies, self.categorical, self.ahead = ends, varies, categorical, ahead
        self.per_row = max(1, _MOST_UNITS // max(n_rows, 1)) if counts_rows else 0
        self.layout = Layout(np.array([len(of_feature) + 1 for of_feature in ends], np.int64))
        self.few = _BIN * int(self.layout.starts[-1]) // (8 * -(-d // GROUP) + _PAIR + (_KEY if samples else 0))
        self.team = Team(threads)
        shape = (-(-d // GROUP), GROUP, 256)
        # Of the node that is searched; bins that a feature lacks stay 0.
        self._packed, self._counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._divided: list[tuple[int, int, int, Array]] = []

    def close(self) -> None:
        """Shut down the threads."""
        self.team.close()

    def begin(self, root: Sequence[Array], look: Look, bring: Bring, units: Units) -> None:
        """Take the sums of the root of the next tree; ``look`` gets those of other nodes, ``bring`` rows."""
        self._root, self._look, self._bring = root, look, bring
        curve_unit = 1.0 / self.per_row if self.per_row else 2.0 ** (units.curve + _CURVE_CUT)
        self.gain_unit = 2.0 ** (2 * (units.residual + _RESIDUAL_CUT)) / curve_unit
        totals = root[3][0]
        curve = packed_total(totals, self.per_row)[0] & ((1 << CURVE_BITS) - 1)
        self.mean_curve = curve / max(int(totals[2]), 1)
        self._divided = []

    def cuts(self, nodes: set[int] | None = None) -> Cuts:
        """How nodes were divided, or some of them."""
        some = [cut for cut in self._divided if nodes is None or cut[0] in nodes]
        numbers, lefts, features, tables = zip(*some, strict=True) if some else ((), (), (), ())
        return Cuts.of(list(numbers), list(lefts), list(features), list(tables))

    def plant(self, root: Node) -> None:
        """Give all rows of the tree to its root."""
        residuals, curves, counts, totals = self._root
        self._know(root, totals[0])
        root.sums = (residuals[0], curves[0], counts[0])

    def gather(self, nodes: Sequence[Node]) -> None:
        """Bring the rows of some nodes here, if all of them have few."""
        if not self.ahead or any(node.n_rows > self.few for node in nodes):
            return
        nodes = [node for node in nodes if node.rows is None]
        if nodes:
            numbers = np.array([node.number for node in nodes], np.int32)
            parts = self._bring(self.cuts(), numbers)
            for node, rows in zip(nodes, Part.gathered(numbers, parts, self.layout, self.team), strict=True):
                node.rows = rows

    def divide(self, node: Node, left: Node, right: Node) -> None:
        """Note how a node is divided; how many rows its children have is not known where a sample chose the split."""
        assert node.left_bins is not None
        totals = node.totals
        if node.sums is not None and not self._samples:
            start, stop = self.layout.starts[node.feature : node.feature + 2]
            taken = np.append(node.left_bins[: stop - start - 1], node.left_bins[MISSING])
            totals = np.array([*(int(kind[start:stop][taken].sum()) for kind in node.sums), 0], np.int64)
        self._know(left, totals)
        self._know(right, node.totals - totals)
        self._divided.append((node.number, left.number, node.feature, node.left_bins))
        left.rows = right.rows = node.rows

    def look(self, families: Sequence[Family], growth: Growth) -> None:
        """Get the sums of nodes, all those of the partitions by one trip, and find the best splits."""
        nodes = [node for node, _ in families if node.sums is None]
        self._ask([node for node in nodes if node.rows is None], growth.node_rows)
        for node in nodes:
            if node.rows is not None:
                self._ask([node], growth.node_rows)
        for node, sibling in families:
            if sibling is not None:
                assert node.parent is not None
                sibling.sums = _less(node.parent.sums, node.sums)
                self._know(sibling, node.parent.totals - node.totals)
                self._find(sibling, growth)
            self._find(node, growth)

    def release(self, node: Node) -> None:
        """Forget the sums of a node."""
        node.sums = None

    def _know(self, node: Node, totals: Array) -> None:
        node.totals, node.n_rows, node.squares = totals, int(totals[2]), float(totals[3])

    def _ask(self, nodes: Sequence[Node], share: float) -> None:
        """Get the sums of some nodes: from the partitions, or of one whose rows are here."""
        if not nodes:
            return
        numbers = np.array([node.number for node in nodes], np.int32)
        salts = np.array([node.salt for node in nodes], np.uint64)
        rows, parent = nodes[0].rows, nodes[0].parent
        if rows is None or parent is None:
            residuals, curves, counts, totals = self._look(self.cuts(), numbers, salts)
        else:
            rows.divide(self.cuts({parent.number}))
            residuals, curves, counts, totals = rows.sums(numbers, salts, share)
        for at, node in enumerate(nodes):
            self._know(node, totals[at])
            node.sums = (residuals[at], curves[at], counts[at])

    def _find(self, node: Node, growth: Growth) -> None:
        if node.n_rows < 2 * growth.min_rows:
            node.sums = None
            return
        starts, whole = self.layout.starts, packed_total(node.totals, self.per_row)
        if self._samples:
            whole = packed_total([kind[starts[0] : starts[1]].sum() for kind in node.sums], self.per_row)
        node.total = whole[0]
        side = growth.searched(node)
        known = (node.sums, starts, whole, self.per_row, self._packed, self._counts)

        def find(first: int, stop: int) -> None:
            _search(*known, first, stop, *growth.kinds, growth.limits, *side)

        n_groups = len(self._packed)
        self.team.each(find, parts_of(n_groups, min(self.team.threads, n_groups)))
        growth.choose(node, self._packed, side, _NO_WORDS, _NO_ROWS, self._counts)


def _less(sums: Sums, other: Sums) -> Sums:
    """Sums less others, in place where that is possible."""
    residuals, curves, counts = (
        np.subtract(a, b, out=a if a.flags.writeable else None) for a, b in zip(sums, other, strict=True)
    )
    return residuals, curves, counts


def packed_total(totals: Any, per_row: int) -> tuple[int, int, int]:
    """The sums of a node as the search has them, packed, and its residuals and curvatures before they are cut.

    ``totals`` are residuals, curvatures and rows; each row has ``per_row`` units of curvature, unless it is 0.

    Examples
    --------
    >>> packed, *_ = packed_total([-(6 << 16), 4 << 15, 8], 0)
    >>> packed >> 32, packed & 0xFFFFFFFF
    (-6, 4)
    """
    residual, curve, rows = (int(total) for total in totals[:3])
    whole = rows * per_row if per_row else int(_cut(curve, curve, _CURVE_CUT))
    return (int(_cut(residual, residual, _RESIDUAL_CUT)) << CURVE_BITS) + whole, residual, curve


@njit(cache=True, nogil=True)
def _cut(value: int, total: int, bits: int) -> Any:
    """Part of a sum in larger units, such that it and the rest are cut alike: cut(total − v) = cut(total) − cut(v)."""
    half = np.int64(1) << bits
    from_middle, end = 2 * value - total, (abs(total) + half) >> (bits + 1)
    units = (abs(from_middle) + half) >> (bits + 1)
    return (units if from_middle >= 0 else -units) + (end if total >= 0 else -end)


@njit(**INNER)
def _narrow(sums: Any, starts: Any, j: int, whole: Any, per_row: int, bins: Any, counts: Any) -> None:
    """The packed bins of feature ``j``, and their rows.

    ``sums`` are residuals, curvatures and rows of all bins, ``starts`` where the bins of each feature begin, ``whole``
    is what `packed_total` gives for the node.
    """
    residuals, curves, rows = sums
    total, all_residuals, all_curves = whole
    start, last = starts[j], starts[j + 1] - 1
    residual, curve, before = np.int64(0), np.int64(0), np.int64(0)
    for at in range(start, last):
        residual += residuals[at]
        curve += rows[at] * per_row if per_row else curves[at]
        upto = curve if per_row else _cut(curve, all_curves, _CURVE_CUT)
        upto += _cut(residual, all_residuals, _RESIDUAL_CUT) << CURVE_BITS
        bins[at - start] = upto - before
        counts[at - start] = rows[at]
        before = upto
    bins[MISSING] = total - before
    counts[MISSING] = rows[last]


@njit(cache=True, nogil=True)
def _search(
    sums: Any, starts: Any, whole: Any, per_row: int, packed: Any, counts: Any, first: int, stop: int, n_bins: Any,
    special: Any, limits: Any, allowed: Any, node: Any, out: Any,
) -> None:  # fmt: skip
    """The packed histograms of the groups ``first`` … ``stop − 1``, their rows, and the best split of every feature."""
    for group in range(first, stop):
        for j in range(group * GROUP, min(group * GROUP + GROUP, n_bins.size)):
            if allowed[j]:
                _narrow(sums, starts, j, whole, per_row, packed[group, j % GROUP], counts[group, j % GROUP])
        best_splits(packed[group], group * GROUP, n_bins, special, allowed, node, limits, out)
