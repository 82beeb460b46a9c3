"""Histograms of rows that are in partitions: what a partition sums up, and the source made of all partitions.

Only sums travel, and few times.

A trip asks for the sums of several nodes at once: those that the best-first order surely needs next, and those that it
will probably need if gains fall from parents to children as they mostly do. Where all of them have so few rows that
these take less room than sums, the rows themselves come here, and what is below these nodes needs no further trips.

For the search, sums of 64 bits are cut to the 31 bits each that a packed histogram has. What is cut are the sums up to
a bin, not those of bins: so the sums of a node are the same for all features, and an empty bin stays empty. And they
are cut around half of the node's sum, so two features that divide a node alike gain alike, whichever child is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from rankwright._types import Arguments, Array
from rankwright.boosting.binning import GROUP, MISSING
from rankwright.boosting.grow import Family, Growth, Node
from rankwright.boosting.histograms import HESSIAN_BITS, best_splits, divide_rows, touch, transpose
from rankwright.caching import INNER
from rankwright.data.hashes import drawn
from rankwright.data.threads import Team, parts_of, scratch

# Sums of gradients, hessians and rows by feature and bin that can be added up over partitions.
#
# All are integers, so sums do not depend on how the rows are cut into partitions. A row is a pair of 64 bits each: its
# gradient, and hessian · 2¹⁶ + 1, so one addition per row and feature gives all three sums of up to 2¹⁶ − 1 rows. They
# are then added to arrays of their own, which travel. Units are powers of two, such that all |gradients| and all
# hessians sum to less than 2⁴⁶ of them: with a billion rows, one of average size has tens of thousands. They follow
# from exact sums, which do not depend on the cut either. A unit of gradients is two of hessians: where all scores are
# equal, gradients of documents that only win or only lose are twice their hessians, and leaves of these are exact.


GRADIENT_ROOM, HESSIAN_ROOM = 46, 46  # bits of the sum over all rows
COUNT_BITS = 16
"""Bits below the hessian of a pair, that count rows."""
_COUNT = (1 << COUNT_BITS) - 1
MOST_AT_ONCE = _COUNT
"""Rows that are summed before their number would overflow."""
_SPARE = 1  # bits that a sum may grow by from one tree to the next
_UNUSED = 5  # bits of a sum's room that may stay empty
_EXPONENTS = 2048  # of a float64
_LEAST = -900  # exponent of a sum; smaller ones are as good as 0
SQUARED = GRADIENT_ROOM - 30
"""Bits of gradients that are left out of their squares."""
_HALF = 26  # bits of the lower part of a mantissa
_BLOCK = 256  # rows
_ROWS_A_THREAD = 1 << 16
_FAR = 5  # rows apart, on average, from which packed bins are read row by row


@dataclass(frozen=True)
class Units:
    """What one unit of gradients and of hessians is worth: 2 to the power of these."""

    gradient: int
    hessian: int

    @classmethod
    def of(cls, sums: Array) -> Units:
        """Units for these sums, or for slightly larger ones."""
        top = _top(sums) + _SPARE
        return cls(top + 1 - GRADIENT_ROOM, top - HESSIAN_ROOM)

    def suit(self, sums: Array) -> bool:
        """Whether these sums have room, and enough of it is used."""
        top = self.hessian + HESSIAN_ROOM
        return top - _UNUSED < _top(sums) <= top


def _top(sums: Array) -> int:
    """The power of two that half of the gradients, and the hessians, are below."""
    gradient, hessian = (_exponent(of_kind) for of_kind in sums)
    return max(gradient - 1, hessian)


def _exponent(sums: Array) -> int:
    """The power of two that a sum is below."""
    total = 0
    for at in np.flatnonzero(sums.any(axis=0)).tolist():
        total += (int(sums[0, at]) + (int(sums[1, at]) << _HALF)) << at
    return max(total.bit_length() - 1075, _LEAST)


def exact_sums(values: Array, team: Team | None = None) -> Array:
    """Sums of |values| without any rounding: of the mantissas of every exponent, in two halves.

    Sums of arrays like this one belong to all their values together.
    """
    bits, team = np.ascontiguousarray(values, np.float64).view(np.int64), team or Team(1)

    def sums_of(some: slice) -> Array:
        sums = np.zeros((2, _EXPONENTS), np.int64)
        _add_mantissas(bits[some], sums)
        return sums

    return np.sum(team.each(sums_of, _shares(len(bits), team)), axis=0)


def _shares(n_rows: int, team: Team) -> list[tuple[slice]]:
    """Rows of each thread, where each is read once."""
    return [(slice(*share),) for share in parts_of(n_rows, min(team.threads, 1 + n_rows // _ROWS_A_THREAD))]


@njit(cache=True, nogil=True)
def _add_mantissas(bits: Array, sums: Array) -> None:
    fraction = (np.int64(1) << 52) - 1
    lower = (np.int64(1) << _HALF) - 1
    for i in range(bits.size):
        exponent, mantissa = (bits[i] >> 52) & 2047, bits[i] & fraction
        if exponent:
            mantissa |= fraction + 1
        else:
            exponent += 1
        sums[0, exponent] += mantissa & lower
        sums[1, exponent] += mantissa >> _HALF


def pack_pairs(gradients: Array, hessians: Array, units: Units, team: Team | None = None) -> Array:
    pairs, team = np.empty((len(gradients), 2), np.int64), team or Team(1)
    per = 2.0**-units.gradient, 2.0**-units.hessian
    team.each(lambda some: _pack_pairs(gradients[some], hessians[some], *per, pairs[some]), _shares(len(pairs), team))
    return pairs


@njit(cache=True, nogil=True)
def _pack_pairs(gradients: Array, hessians: Array, per_gradient: float, per_hessian: float, pairs: Array) -> None:
    for i in range(gradients.size):
        pairs[i, 0] = np.int64(np.rint(gradients[i] * per_gradient))
        pairs[i, 1] = (np.int64(np.rint(hessians[i] * per_hessian)) << COUNT_BITS) + 1


@njit(cache=True, nogil=True)
def take_pairs(pairs: Array, rows: Array, side_by_side: Array, taken: bool, totals: Array) -> None:
    """Gradients, hessians, rows, and squares of gradients in units with room, of some rows; their pairs side by side.

    These are there already unless they have to be ``taken``.
    """
    half = np.int64(1) << (SQUARED - 1)
    gradients, hessians, squares = np.int64(0), np.int64(0), np.int64(0)
    for k in range(rows.size):
        gradient, other = pairs[rows[k], 0], pairs[rows[k], 1]
        if taken:
            side_by_side[k, 0], side_by_side[k, 1] = gradient, other
        gradients += gradient
        hessians += other >> COUNT_BITS
        short = (gradient + half) >> SQUARED
        squares += short * short
    totals[0], totals[1], totals[2], totals[3] = gradients, hessians, rows.size, squares


@njit(cache=True, nogil=True)
def fill_pairs(packed_bins: Array, by_row: Any, first: int, stop: int, rows: Any, pairs: Any, sums: Any) -> None:
    """Histograms of the groups ``first`` … ``stop − 1`` of eight features; ``sums`` has shape (groups, 8, 256, 2).

    ``by_row`` are the packed bins row by row, for ``rows`` far between.
    """
    for group in range(first, stop):
        for k in range(GROUP):
            for b in range(256):
                sums[group, k, b, 0] = sums[group, k, b, 1] = 0
    far = rows.size > 0 and _FAR * rows.size <= np.int64(rows[-1]) - np.int64(rows[0])
    step = np.int64(_BLOCK) if far else max(rows.size, np.int64(1))
    block = np.empty((stop - first, _BLOCK if far else 0), np.uint64)
    places = np.arange(_BLOCK).astype(np.uint32)
    for start in range(0, rows.size, step):
        n = min(step, rows.size - start)
        if far:
            block[0, 0] = touch(by_row, first, stop, rows[start : start + n])
            for k in range(n):
                row = by_row[rows[start + k]]
                for group in range(first, stop):
                    block[group - first, k] = row[group]
        for group in range(first, stop):
            _add(
                block[group - first] if far else packed_bins[group],
                places[:n] if far else rows,
                pairs[start : start + n],
                sums[group],
            )


@njit(**INNER)
def _add(packed_bins: Array, places: Array, pairs: Array, sums: Array) -> None:
    for k in range(places.size):
        _add_pair(sums, packed_bins[places[k]], pairs, np.uint64(k))


@intrinsic
def _add_pair(typing: Any, sums: Any, word: Any, pairs: Any, row: Any) -> Any:
    """Add ``pairs[row]`` to the bins in ``word`` of eight features; both numbers of a pair at once.

    In Python: ``for k in range(8): sums[k, (word >> 8 * k) & 255] += pairs[row]``. numba would add them one by one,
    which takes half as long again.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Arguments) -> Any:
        number = cgutils.ir.IntType(64)
        both = cgutils.ir.VectorType(number, 2)

        def place(at: int, pair: Any) -> Any:
            array = context.make_array(signature.args[at])(context, builder, given[at])
            return builder.gep(builder.bitcast(array.data, both.as_pointer()), [pair])

        added = builder.load(place(2, given[3]), align=8)
        for k in range(GROUP):
            code = builder.and_(builder.lshr(given[1], number(8 * k)), number(255))
            bins = place(0, builder.add(code, number(256 * k)))
            builder.store(builder.add(builder.load(bins, align=8), added), bins, align=8)
        return context.get_dummy_value()

    return types.void(sums, word, pairs, row), generate


class BinLayout:
    """Where the bins that features have are, one after the other: those of a feature, then that of missing values.

    `n_bins`: bins of every feature. `starts`: where the bins of every feature begin; one more, where the last ones end.
    """

    def __init__(self, n_bins: Array) -> None:
        self.n_bins = np.asarray(n_bins, np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.n_bins + 1)])
        self._places = np.concatenate(
            [np.append(np.arange(bins), MISSING) + 256 * j for j, bins in enumerate(self.n_bins)]
            or [np.empty(0, np.int64)]
        )

    def zeros(self, n_nodes: int) -> tuple[Array, Array, Array]:
        """Gradients, hessians and rows of the bins of some nodes, all 0."""
        shape = (n_nodes, len(self._places))
        return np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int32)

    def picked(self, sums: Array) -> Array:
        """Numbers of all bins of all features, 256 each in the last direction, as those of the bins that there are."""
        return np.ascontiguousarray(sums[..., self._places])

    def add(self, sums: Array, gradients: Array, hessians: Array, rows: Array) -> None:
        """Add what `fill_pairs` found to the sums of a node."""
        _add_apart(sums.reshape(-1, 2), self._places, gradients, hessians, rows)


@njit(cache=True, nogil=True)
def _add_apart(sums: Array, places: Array, gradients: Array, hessians: Array, rows: Array) -> None:
    for at in range(places.size):
        gradients[at] += sums[places[at], 0]
        hessians[at] += sums[places[at], 1] >> COUNT_BITS
        rows[at] += np.int32(sums[places[at], 1] & _COUNT)


# The rows of one partition while a tree is grown: which are in which node, and the sums of the nodes asked for.
#
# Nodes have the numbers that the driver gives them. Every request names all divisions of the tree so far, so a
# partition that was loaded anew catches up with the others.


@dataclass(frozen=True, eq=False)
class Cuts:
    """Divisions of nodes, in an order in which parents come first.

    `nodes`, `lefts`: the node, and its left child; the right one has the next number. `features`: the feature that
    divides it. `tables` (shape (cuts, 32)): the bins that go left, a bit for each.
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


Gathered = tuple[Array, Array, Array, Array]  # how many rows nodes have, and their bins, pairs and keys


class NodeRows:
    """Rows, by node.

    `packed_bins` (shape (groups, rows)): the bins of the rows. `layout`: where the bins are. `team`: threads; sums do
    not depend on them. `keys`: what rows are drawn by; empty where none are. `folder`: where to keep large arrays on
    disk.
    """

    travels = False

    def __init__(
        self, packed_bins: Array, layout: BinLayout, team: Team, keys: Array, folder: Path | None = None
    ) -> None:
        self._packed_bins, self._layout, self._team, self._keys = packed_bins, layout, team, keys
        n_groups, n = packed_bins.shape
        self._by_row = scratch((n, n_groups), np.uint64, folder)
        shares = [(slice(*share),) for share in parts_of(n, team.threads)]
        team.each(lambda rows: transpose(packed_bins[:, rows], self._by_row[rows]), shares)
        self._sums = np.empty((n_groups, GROUP, 256, 2), np.int64)
        self._taken, self._other = np.empty((n, 2), np.int64), np.empty(n, np.uint32)
        self._pairs = self._taken[:0]
        self.rows = self._other[:0]
        self._ranges = {0: (0, 0)}

    def begin(self, rows: Array, gradients: Array, hessians: Array, units: Units) -> None:
        self._pairs = pack_pairs(gradients, hessians, units, self._team)
        self.place(rows)

    def place(self, rows: Array, root: int = 0) -> None:
        self.rows, self._ranges = rows, {root: (0, len(rows))}

    def gather_rows(self, nodes: Array) -> Gathered:
        """How many rows some nodes have, and the bins, pairs and keys of these rows, node after node."""
        each = [self.of(node) for node in nodes.tolist()]
        rows = np.concatenate(each)
        sizes = np.array([len(rows_of_node) for rows_of_node in each], np.int64)
        keys = self._keys[rows] if len(self._keys) else self._keys
        return sizes, self._packed_bins[:, rows], self._pairs[rows], keys

    @classmethod
    def gathered(cls, nodes: Array, parts: Sequence[Gathered], layout: BinLayout, team: Team) -> list[NodeRows]:
        """Some nodes as partitions of their own, from what `gather_rows` gave for them in every partition.

        What is below these nodes needs no further trips.
        """
        stops = [np.cumsum(sizes) for sizes, _, _, _ in parts]
        partitions = []
        for at, node in enumerate(nodes.tolist()):
            ranges = [
                slice(int(stop[at] - part[0][at]), int(stop[at])) for stop, part in zip(stops, parts, strict=True)
            ]
            each = [
                (packed_bins[:, some], pairs[some], keys[some])
                for (_, packed_bins, pairs, keys), some in zip(parts, ranges, strict=True)
            ]
            packed_bins, pairs, keys = zip(*each, strict=True)
            partitions.append(cls(np.concatenate(packed_bins, axis=1), layout, team, np.concatenate(keys)))
            partitions[-1]._pairs = np.concatenate(pairs)
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
            middle = start + divide_rows(self._packed_bins, feature, table, rows, other, self._team)
            self._ranges[left], self._ranges[left + 1] = (start, middle), (middle, stop)

    def of(self, node: int) -> Array:
        start, stop = self._ranges[node]
        return self.rows[start:stop]

    def add(self, leaves: Array, values: Array, scores: Array) -> None:
        add_values(
            [(self.of(leaf), value) for leaf, value in zip(leaves, values.tolist(), strict=True)], scores, self._team
        )

    def sums(self, nodes: Array, salts: Array, share: float) -> tuple[Array, Array, Array, Array]:
        """Gradients, hessians and rows by bin of some nodes, and of all their rows, as `take_pairs` has them.

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
        n_groups = len(self._packed_bins)
        shares = parts_of(n_groups, min(self._team.threads, max(n_groups, 1)))
        given = (self._packed_bins, self._by_row)
        self._team.each(lambda first, stop: fill_pairs(*given, first, stop, rows, pairs, self._sums), shares)


def add_values(leaves: Sequence[tuple[Array, float]], scores: Array, team: Team) -> None:
    team.each(lambda rows, value: _add_value(rows, value, scores), leaves)


@njit(cache=True, nogil=True)
def _add_value(rows: Array, value: float, scores: Array) -> None:
    for k in range(rows.size):
        scores[rows[k]] += value


Sums = tuple[Array, Array, Array]  # of all bins: gradients, hessians, rows
Look = Callable[[Cuts, Array, Array], Sequence[Array]]  # cuts, nodes, salts -> sums of nodes, by bin and in all
GatherRows = Callable[[Cuts, Array], Sequence[Gathered]]  # cuts, nodes -> their rows, by partition
_MOST_UNITS = (1 << 31) - 1  # of hessian, where it counts rows
_BIN, _PAIR, _KEY = 20, 16, 8  # bytes
_GRADIENT_CUT, _HESSIAN_CUT = GRADIENT_ROOM - 30, HESSIAN_ROOM - 31
_NO_BINS, _NO_ROWS = np.zeros((0, 0), np.uint64), np.zeros(0, np.uint32)


class PartitionHistograms:
    """A :class:`~rankwright.boosting.grow.HistogramSource` of rows in partitions.

    `ends`, `varies`, `categorical`: bins of the features, as those of a source. `n_rows`: rows of all partitions.
    `counts_rows`: whether splits are chosen by squared error: all hessians are 1. `samples`: whether nodes draw rows.
    `ahead`: whether to ask for nodes that will probably be needed. `threads`: number of threads; the tree does not
    depend on it. `few`: rows that take no more room than the sums of a node.
    """

    counts_at_once = False
    largest = 1 << HESSIAN_BITS  # no hessian shows that a child has enough rows: all of them are counted

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
        self.layout = BinLayout(np.array([len(of_feature) + 1 for of_feature in ends], np.int64))
        self.few = _BIN * int(self.layout.starts[-1]) // (8 * -(-d // GROUP) + _PAIR + (_KEY if samples else 0))
        self.team = Team(threads)
        shape = (-(-d // GROUP), GROUP, 256)
        # Of the node that is searched; bins that a feature lacks stay 0.
        self._packed, self._counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._divided: list[tuple[int, int, int, Array]] = []

    def close(self) -> None:
        self.team.close()

    def begin(self, root: Sequence[Array], look: Look, gather_rows: GatherRows, units: Units) -> None:
        """Take the sums of the root of the next tree; ``look`` gets those of other nodes, ``gather_rows`` rows."""
        self._root, self._look, self._gather_rows = root, look, gather_rows
        hessian_unit = 1.0 / self.per_row if self.per_row else 2.0 ** (units.hessian + _HESSIAN_CUT)
        self.gain_unit = 2.0 ** (2 * (units.gradient + _GRADIENT_CUT)) / hessian_unit
        totals = root[3][0]
        hessian = packed_total(totals, self.per_row)[0] & ((1 << HESSIAN_BITS) - 1)
        self.mean_hessian = hessian / max(int(totals[2]), 1)
        self._divided = []

    def cuts(self, nodes: set[int] | None = None) -> Cuts:
        """How nodes were divided, or some of them."""
        some = [cut for cut in self._divided if nodes is None or cut[0] in nodes]
        numbers, lefts, features, tables = zip(*some, strict=True) if some else ((), (), (), ())
        return Cuts.of(list(numbers), list(lefts), list(features), list(tables))

    def plant(self, root: Node) -> None:
        gradients, hessians, counts, totals = self._root
        self._know(root, totals[0])
        root.sums = (gradients[0], hessians[0], counts[0])

    def gather(self, nodes: Sequence[Node]) -> None:
        """Bring the rows of some nodes here, if all of them have few."""
        if not self.ahead or any(node.n_rows > self.few for node in nodes):
            return
        nodes = [node for node in nodes if node.rows is None]
        if nodes:
            numbers = np.array([node.number for node in nodes], np.int32)
            parts = self._gather_rows(self.cuts(), numbers)
            for node, rows in zip(nodes, NodeRows.gathered(numbers, parts, self.layout, self.team), strict=True):
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
            gradients, hessians, counts, totals = self._look(self.cuts(), numbers, salts)
        else:
            rows.divide(self.cuts({parent.number}))
            gradients, hessians, counts, totals = rows.sums(numbers, salts, share)
        for at, node in enumerate(nodes):
            self._know(node, totals[at])
            node.sums = (gradients[at], hessians[at], counts[at])

    def _find(self, node: Node, growth: Growth) -> None:
        if node.n_rows < 2 * growth.min_rows:
            node.sums = None
            return
        starts, packed = self.layout.starts, packed_total(node.totals, self.per_row)
        if self._samples:
            packed = packed_total([kind[starts[0] : starts[1]].sum() for kind in node.sums], self.per_row)
        node.total = packed[0]
        side = growth.searched(node)
        searched = (node.sums, starts, packed, self.per_row, self._packed, self._counts)

        def find(first: int, stop: int) -> None:
            _search(*searched, first, stop, *growth.kinds, growth.limits, *side)

        n_groups = len(self._packed)
        self.team.each(find, parts_of(n_groups, min(self.team.threads, n_groups)))
        growth.choose(node, self._packed, side, _NO_BINS, _NO_ROWS, self._counts)


def _less(sums: Sums, other: Sums) -> Sums:
    """Sums less others, in place where that is possible."""
    gradients, hessians, counts = (
        np.subtract(a, b, out=a if a.flags.writeable else None) for a, b in zip(sums, other, strict=True)
    )
    return gradients, hessians, counts


def packed_total(totals: Array | Sequence[int], per_row: int) -> tuple[int, int, int]:
    """The sums of a node as the search has them, packed, and its gradients and hessians before they are cut.

    ``totals`` are gradients, hessians and rows; each row has ``per_row`` units of hessian, unless it is 0.
    """
    gradient, hessian, rows = (int(total) for total in totals[:3])
    packed_hessian = rows * per_row if per_row else int(_cut(hessian, hessian, _HESSIAN_CUT))
    return (int(_cut(gradient, gradient, _GRADIENT_CUT)) << HESSIAN_BITS) + packed_hessian, gradient, hessian


@njit(cache=True, nogil=True)
def _cut(value: int, total: int, bits: int) -> Any:
    """Part of a sum in larger units, such that it and the rest are cut alike: cut(total − v) = cut(total) − cut(v)."""
    half = np.int64(1) << bits
    from_middle, end = 2 * value - total, (abs(total) + half) >> (bits + 1)
    units = (abs(from_middle) + half) >> (bits + 1)
    return (units if from_middle >= 0 else -units) + (end if total >= 0 else -end)


@njit(**INNER)
def _narrow(sums: Arguments, starts: Array, j: int, whole: Arguments, per_row: int, bins: Array, counts: Array) -> None:
    """The packed bins of feature ``j``, and their rows.

    ``sums`` are gradients, hessians and rows of all bins, ``starts`` where the bins of each feature begin, ``whole``
    is what `packed_total` gives for the node.
    """
    gradients, hessians, rows = sums
    total, all_gradients, all_hessians = whole
    start, last = starts[j], starts[j + 1] - 1
    gradient, hessian, before = np.int64(0), np.int64(0), np.int64(0)
    for at in range(start, last):
        gradient += gradients[at]
        hessian += rows[at] * per_row if per_row else hessians[at]
        upto = hessian if per_row else _cut(hessian, all_hessians, _HESSIAN_CUT)
        upto += _cut(gradient, all_gradients, _GRADIENT_CUT) << HESSIAN_BITS
        bins[at - start] = upto - before
        counts[at - start] = rows[at]
        before = upto
    bins[MISSING] = total - before
    counts[MISSING] = rows[last]


@njit(cache=True, nogil=True)
def _search(
    sums: Arguments, starts: Array, whole: Arguments, per_row: int, packed: Array, counts: Array, first: int, stop: int,
    n_bins: Array, special: Arguments | None, limits: Arguments, allowed: Array, node: Arguments, out: Arguments,
) -> None:  # fmt: skip
    """The packed histograms of the groups ``first`` … ``stop − 1``, their rows, and the best split of every feature."""
    for group in range(first, stop):
        for j in range(group * GROUP, min(group * GROUP + GROUP, n_bins.size)):
            if allowed[j]:
                _narrow(sums, starts, j, whole, per_row, packed[group, j % GROUP], counts[group, j % GROUP])
        best_splits(packed[group], group * GROUP, n_bins, special, allowed, node, limits, out)
