"""The rows of one part while a tree is grown: which of them are in which node, and the sums of the nodes asked for.

Nodes have the numbers that the driver gives them. Every request names all divisions of the tree so far, so a part that
was loaded anew catches up with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data.scratch import scratch
from rankwright.data.threads import Team, parts_of
from rankwright.models.trees.binning import GROUP
from rankwright.models.trees.draws import drawn
from rankwright.models.trees.histogram import turn
from rankwright.models.trees.parted_sums import MOST_AT_ONCE, Layout, Units, fill_pairs, pack_pairs, take_pairs
from rankwright.models.trees.split import divide_rows

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Divisions of nodes, in an order in which parents come first.

    Attributes
    ----------
    nodes, lefts : ndarray of int32
        The node, and its left child; the right one has the next number.
    features : ndarray of int32
        The feature that divides it.
    tables : ndarray of uint8, shape (cuts, 32)
        The bins that go left, a bit for each.
    """

    nodes: Array
    lefts: Array
    features: Array
    tables: Array

    @classmethod
    def of(cls, nodes: list[int], lefts: list[int], features: list[int], tables: list[Array]) -> Cuts:
        """Cuts from tables of 256 truth values."""
        packed = np.packbits(np.array(tables, np.bool_).reshape(-1, 256), axis=1)
        return cls(np.array(nodes, np.int32), np.array(lefts, np.int32), np.array(features, np.int32), packed)


class Part:
    """Rows, by node.

    Parameters
    ----------
    words : ndarray of uint64, shape (groups, rows)
        The bins of the rows.
    layout : Layout
        Where the bins are.
    team : Team
        Threads; sums do not depend on them.
    keys : ndarray of uint64
        What rows are drawn by; empty where none are.
    folder : Path, optional
        Where to keep large arrays on disk.
    """

    travels = False

    def __init__(self, words: Array, layout: Layout, team: Team, keys: Array, folder: Path | None = None) -> None:
        self._words, self._layout, self._team, self._keys = words, layout, team, keys
        n_groups, n = words.shape
        self._by_row = scratch((n, n_groups), np.uint64, folder)
        shares = [(slice(*share),) for share in parts_of(n, team.threads)]
        team.each(lambda rows: turn(words[:, rows], self._by_row[rows]), shares)
        self._sums = np.empty((n_groups, GROUP, 256, 2), np.int64)
        self._taken, self._other = np.empty((n, 2), np.int64), np.empty(n, np.uint32)
        self._pairs = self._taken[:0]
        self.rows = self._other[:0]
        self._ranges = {0: (0, 0)}

    def begin(self, rows: Array, residuals: Array, curves: Array, units: Units) -> None:
        """Put all rows of a tree into its root."""
        self.begin_with(pack_pairs(residuals, curves, units, self._team))
        self.place(rows)

    def begin_with(self, pairs: Array) -> None:
        """Take the pairs of all rows."""
        self._pairs = pairs

    def place(self, rows: Array, root: int = 0) -> None:
        """Put rows into a root."""
        self.rows, self._ranges = rows, {root: (0, len(rows))}

    def bring(self, nodes: Array) -> tuple[Array, Array, Array, Array]:
        """How many rows some nodes have, and the bins, pairs and keys of these rows, node after node."""
        each = [self.of(node) for node in nodes.tolist()]
        rows = np.concatenate(each)
        sizes = np.array([len(rows_of_node) for rows_of_node in each], np.int64)
        keys = self._keys[rows] if len(self._keys) else self._keys
        return sizes, self._words[:, rows], self._pairs[rows], keys

    @classmethod
    def gathered(
        cls, nodes: Array, parts: Sequence[tuple[Array, Array, Array, Array]], layout: Layout, team: Team
    ) -> list[Part]:
        """Some nodes as partitions of their own, from what `bring` gave for them in every partition.

        What is below these nodes needs no further trips.
        """
        stops = [np.cumsum(sizes) for sizes, _, _, _ in parts]
        partitions = []
        for at, node in enumerate(nodes.tolist()):
            ranges = [
                slice(int(stop[at] - part[0][at]), int(stop[at])) for stop, part in zip(stops, parts, strict=True)
            ]
            each = [
                (words[:, some], pairs[some], keys[some])
                for (_, words, pairs, keys), some in zip(parts, ranges, strict=True)
            ]
            words, pairs, keys = zip(*each, strict=True)
            partitions.append(cls(np.concatenate(words, axis=1), layout, team, np.concatenate(keys)))
            partitions[-1].begin_with(np.concatenate(pairs))
            partitions[-1].place(np.arange(len(partitions[-1]._pairs), dtype=np.uint32), node)
        return partitions

    def divide(self, cuts: Cuts) -> None:
        """Divide the nodes that are not divided yet."""
        tables = np.unpackbits(cuts.tables, axis=1).view(np.bool_)
        for node, left, feature, table in zip(
            cuts.nodes.tolist(), cuts.lefts.tolist(), cuts.features.tolist(), tables, strict=True
        ):
            if left in self._ranges:
                continue
            start, stop = self._ranges[node]
            rows, other = self.rows[start:stop], self._other[: stop - start]
            middle = start + divide_rows(self._words, feature, table, rows, other, self._team)
            self._ranges[left], self._ranges[left + 1] = (start, middle), (middle, stop)

    def of(self, node: int) -> Array:
        """The rows of a node."""
        start, stop = self._ranges[node]
        return self.rows[start:stop]

    def add(self, leaves: Array, values: Array, scores: Array) -> None:
        """Add a value to the scores of the rows of each of some nodes."""
        add_values(
            [(self.of(leaf), value) for leaf, value in zip(leaves, values.tolist(), strict=True)], scores, self._team
        )

    def sums(self, nodes: Array, salts: Array, share: float) -> tuple[Array, Array, Array, Array]:
        """Residuals, curvatures and rows by bin of some nodes, and of all their rows, as `take_pairs` has them.

        With a ``share`` below 1 the bins have a sample of the rows: those that their keys and the node's salt draw,
        and the squares are theirs.
        """
        bins = self._layout.zeros(len(nodes))
        totals = np.empty((len(nodes), 4), np.int64)
        for at, node in enumerate(nodes.tolist()):
            rows = self.of(node)
            all_rows = len(rows) == len(self._pairs)  # in order: a node that is asked for was not divided
            pairs = self._pairs if all_rows else self._taken[: len(rows)]
            take_pairs(self._pairs, rows, pairs, not all_rows, totals[at])
            if share < 1.0:
                sample = np.zeros(4, np.int64)
                rows = rows[drawn(self._keys[rows], salts[at], share)]
                pairs = self._taken[: len(rows)]
                take_pairs(self._pairs, rows, pairs, True, sample)
                totals[at, 3] = sample[3]
            for start in range(0, len(rows), MOST_AT_ONCE):
                some = slice(start, min(start + MOST_AT_ONCE, len(rows)))
                self._fill(rows[some], pairs[some])
                self._layout.add(self._sums, *(kind[at] for kind in bins))
        return *bins, totals

    def _fill(self, rows: Array, pairs: Array) -> None:
        n_groups = len(self._words)
        shares = parts_of(n_groups, min(self._team.threads, max(n_groups, 1)))
        given = (self._words, self._by_row)
        self._team.each(lambda first, stop: fill_pairs(*given, first, stop, rows, pairs, self._sums), shares)


def add_values(leaves: Sequence[tuple[Array, float]], scores: Array, team: Team) -> None:
    """Add a value to the scores of some rows, for each of some leaves."""
    team.each(lambda rows, value: _add_value(rows, value, scores), leaves)


@njit(cache=True, nogil=True)
def _add_value(rows: Any, value: float, scores: Any) -> None:
    for k in range(rows.size):
        scores[rows[k]] += value
