"""Histograms of rows in this process: packed, 32 bits of gradient and 32 of hessian to a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.binning import GROUP, MISSING, BinnedFeatures
from rankwright.boosting.grow import Family, Growth, Node
from rankwright.boosting.histograms import fill_groups, gather, pack, turn
from rankwright.boosting.splits import divide_rows, look, mean_hessian, sum_of_squares
from rankwright.data.draws import drawn
from rankwright.data.threads import Team, parts_of, scratch

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
        n, n_groups = binned.n_rows, len(binned.words)
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
        self.team.each(lambda rows: turn(binned.words[:, rows], self._by_row[rows]), shares)

    def _some_missing(self, j: int) -> bool:
        group, place = divmod(j, GROUP)
        missing = (self.binned.words[group] >> np.uint64(8 * place)) & np.uint64(MISSING) == MISSING
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
        """Shut down the threads."""
        self.team.close()

    def plant(self, root: Node) -> None:
        """Give all rows of the tree to its root."""
        root.rows, root.n_rows = (0, len(self._rows)), len(self._rows)

    def rows_of(self, node: Node) -> Array:
        """The rows of a node, ascending."""
        return self._rows[slice(*node.rows)]

    def gather(self, nodes: Sequence[Node]) -> None:
        """All rows are here."""

    def release(self, node: Node) -> None:
        """Forget the sums of a node."""
        if node.sums is not None:
            self._spare.append(node.sums)
            node.sums = None

    def divide(self, node: Node, left: Node, right: Node) -> None:
        """Put the rows that go left before those that go right, in order."""
        (start, stop), words = node.rows, self.binned.words
        rows, other = self.rows_of(node), self._other[: node.n_rows]
        left.n_rows = divide_rows(words, node.feature, node.left_bins, rows, other, self.team)
        right.n_rows = node.n_rows - left.n_rows
        left.rows, right.rows = (start, start + left.n_rows), (start + left.n_rows, stop)

    def look(self, families: Sequence[Family], growth: Growth) -> None:
        """Sum up nodes and find their best splits."""
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
            growth.choose(node, node.sums, side, self.binned.words, self.rows_of(node), None)

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
        growth.choose(node, node.sums, side, self.binned.words, rows, None)

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
            fill = partial(fill_groups, self.binned.words, self._by_row)
            tiles = [
                (share, slice(*some), sums) for share in groups for some, sums in zip(shares, partial_sums, strict=True)
            ]
            self.team.each(fill, [(*share, rows[some], values[some], sums) for share, some, sums in tiles])
            groups = parts_of(n_groups, min(threads, n_groups))
        search = partial(look, self.binned.words, self._by_row)
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
