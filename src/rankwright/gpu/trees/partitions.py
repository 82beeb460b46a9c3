"""The rows of one partition on the device while a tree is grown over partitions, with the sums of `NodeRows`.

Sums are integers of 64 bits, so they are the CPU's, bit for bit, however much of the partition fits the device. Bins
without room on the device are a partition, too, even if all data is on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int64, uint64

from rankwright._types import Array
from rankwright.boosting.binning import GROUP
from rankwright.boosting.partitions import COUNT_BITS, SQUARED, BinLayout, Cuts, Gathered, Units, add_values, pack_pairs
from rankwright.data.hashes import is_drawn
from rankwright.data.threads import Team, scratch
from rankwright.gpu import device
from rankwright.gpu.blockwise import add_up
from rankwright.gpu.trees import leaves
from rankwright.gpu.trees.leaves import THREADS, TILE
from rankwright.gpu.trees.rows import ROW_THREADS, bins_like, row_blocks

# Blocks of rows on the device, or on their way there: bins, pairs, keys, and which rows are in which node.
#
# Blocks that have room stay on the device. The others stay in memory, or in a file, and travel to a buffer that they
# share when they are looked at; their lists of rows travel back.


OF_ROW = 16 + 8 + 8
"""Bytes of a row beside its bins: a pair, a place in each of two lists, a key."""
_BLOCK_BYTES = 1 << 8 if device.is_simulated() else 1 << 28  # bytes of bins, about
_LEAST = 16 if device.is_simulated() else 1 << 14  # rows


class LoadedBlock(NamedTuple):
    """A block while it is on the device: bins of all features, the two lists of rows, pairs and keys."""

    block: RowBlock
    codes: Any
    rows: Any
    pairs: Any
    keys: Any


class RowBlock:
    """Some rows of a partition.

    `codes` (shape (tiles, rows, 16)): their bins, on the device or here. `keys`: what they are drawn by; empty where
    none are. `first`: the number of the first one in the partition.
    """

    def __init__(self, codes: Array, keys: Array, first: int) -> None:
        self.stays, self.first, self.n_rows = not isinstance(codes, np.ndarray), first, int(codes.shape[1])
        self._codes, self._keys = codes, device.upload(keys) if self.stays else keys
        self._rows: Any = None
        self._pairs: Any = None
        self.ranges: dict[int, tuple[int, int, int]] = {}

    def begin_with(self, pairs: Array) -> None:
        self._pairs = device.upload(pairs, self._pairs) if self.stays else pairs

    def place(self, rows: Array, root: int) -> None:
        """Put rows, by their numbers in this block, into a root."""
        lists = np.zeros((2, self.n_rows), np.uint32)
        lists[0, : len(rows)] = rows
        self._rows = device.upload(lists, self._rows) if self.stays else lists
        self.ranges = {root: (0, len(rows), 0)}

    def visit(self, buffer: BlockBuffer | None) -> LoadedBlock:
        """Bring it to the device, if it is not there."""
        if self.stays:
            return LoadedBlock(self, self._codes, self._rows, self._pairs, self._keys)
        assert buffer is not None
        pairs = np.zeros((self.n_rows, 2), np.int64) if self._pairs is None else self._pairs  # of rows that are scored
        return LoadedBlock(self, *buffer.upload(self._codes, self._rows, pairs, self._keys))

    def divide(self, there: LoadedBlock, cut: tuple[int, int, int, Array], divider: Divider) -> None:
        """Divide a node, unless that was done: its number, its left child's, the feature, the bins that go left."""
        node, left, feature, words = cut
        if left in self.ranges:
            return
        start, stop, side = self.ranges[node]
        middle = start + (divider.divide(there, (start, stop, side), feature, words) if stop > start else 0)
        self.ranges[left], self.ranges[left + 1] = (start, middle, 1 - side), (middle, stop, 1 - side)

    def unload(self, there: LoadedBlock) -> None:
        """Keep the lists of rows, before another block takes its buffer."""
        if not self.stays:
            self._rows = there.rows.copy_to_host()

    def of(self, node: int) -> Array:
        """The rows of a node, by their numbers in the partition."""
        start, stop, side = self.ranges[node]
        rows = self._rows[side, start:stop]
        return np.asarray(rows.copy_to_host() if self.stays and stop > start else rows).astype(np.int64) + self.first


class BlockBuffer:
    """Where blocks that do not stay on the device are while they are looked at."""

    def __init__(self, n_tiles: int, most: int, keyed: bool) -> None:
        self._codes = cuda.device_array(n_tiles * most * TILE, np.uint8)
        self._rows, self._pairs = cuda.device_array(2 * most, np.uint32), cuda.device_array(2 * most, np.int64)
        self._keys = cuda.device_array(most if keyed else 0, np.uint64)

    def upload(self, *arrays: Array) -> list[Any]:
        buffers = (self._codes, self._rows, self._pairs, self._keys)
        return [
            device.upload(array, buffer[: array.size].reshape(array.shape))
            for array, buffer in zip(arrays, buffers, strict=True)
        ]


class Divider:
    """The place of a node on the device while it is divided."""

    def __init__(self) -> None:
        self._leaf = device.zeros((1, leaves.OF_LEAF), np.int64)
        self._now, self._words = device.zeros(leaves.NOW, np.int64), device.zeros((1, leaves.WORDS), np.uint32)

    def divide(self, there: LoadedBlock, rows: tuple[int, int, int], feature: int, words: Array) -> int:
        """Move rows to the other list; how many go left."""
        leaf = np.zeros((1, leaves.OF_LEAF), np.int64)
        leaf[0, [leaves.START, leaves.STOP, leaves.SIDE]] = rows
        leaf[0, leaves.SPLIT_FEATURE], leaf[0, leaves.CODE] = feature, leaves.BY_SET
        device.upload(leaf, self._leaf)
        device.upload(np.zeros(leaves.NOW, np.int64), self._now)
        device.upload(words[np.newaxis], self._words)
        each = (rows[1] - rows[0]) // leaves.STRIP + 1
        leaves.divide[row_blocks(each), ROW_THREADS](there.codes, there.rows, self._leaf, self._now, self._words)
        return int(self._now.copy_to_host()[leaves.LEFT])


def cut_into_blocks(
    X: Array, order: Array, ends: tuple[Array, ...], keys: Array, folder: Path | None, room: int
) -> tuple[list[RowBlock], BlockBuffer | None]:
    """Rows in this order as blocks, and a buffer for those that do not stay; ``room`` is in bytes of the device."""
    n_tiles, n = -(-len(ends) // TILE), len(order)
    of_row = n_tiles * TILE + OF_ROW
    max_rows = n if n * of_row <= room else max(_LEAST, min(_BLOCK_BYTES // (n_tiles * TILE), room // (4 * of_row)))
    left, blocks = room if max_rows == n else room - max_rows * of_row, []  # the buffer takes room, too
    for first in range(0, n, max(max_rows, 1)):
        some = slice(first, min(first + max_rows, n))
        codes = bins_like(ends, np.ascontiguousarray(X[order[some]])).codes
        left -= codes.shape[1] * of_row
        if left < 0:
            here = scratch(codes.shape, np.uint8, folder)
            codes.copy_to_host(here)
            codes = here
        blocks.append(RowBlock(codes, keys[some] if len(keys) else keys, first))
    buffer = None if all(block.stays for block in blocks) else BlockBuffer(n_tiles, max_rows, len(keys) > 0)
    return blocks, buffer


_SHARE = 0.7  # of the free memory of the device, that bins may take
_WORDS = TILE // 4  # of a tile, with four features each
_BINS = 4 * 256  # of the features of a word
_HALF = 1 << (SQUARED - 1)


class DeviceNodeRows:
    """Rows, by node; as a `NodeRows` of the CPU.

    `X`, `order`: features, and the rows of the partition in their order. `ends`: the upper ends of the bins of every
    feature. `layout`: where the bins are. `keys`: what rows are drawn by; empty where none are. `team`: threads.
    `folder`: where to keep on disk what does not fit the device.
    """

    def __init__(
        self,
        X: Array,
        order: Array,
        ends: tuple[Array, ...],
        layout: BinLayout,
        keys: Array,
        team: Team,
        folder: Path | None = None,
    ) -> None:
        self._layout, self._n_features, self._team = layout, len(ends), team
        self._blocks, self._buffer = cut_into_blocks(X, order, ends, keys, folder, int(_SHARE * device.free_bytes()))
        self._divider, self._cuts = Divider(), list[tuple[int, int, int, Array]]()
        self.rows = np.empty(0, np.uint32)

    @property
    def travels(self) -> bool:
        """Whether some of the rows travel to the device every time that sums are asked for."""
        return self._buffer is not None

    def begin(self, rows: Array, gradients: Array, hessians: Array, units: Units) -> None:
        pairs = pack_pairs(gradients, hessians, units, self._team)
        for block in self._blocks:
            block.begin_with(pairs[block.first : block.first + block.n_rows])
        self.place(rows)

    def place(self, rows: Array, root: int = 0) -> None:
        self.rows, self._cuts = rows, []
        for block in self._blocks:
            rows_of_block = rows[np.searchsorted(rows, block.first) : np.searchsorted(rows, block.first + block.n_rows)]
            block.place((rows_of_block - block.first).astype(np.uint32), root)

    def divide(self, cuts: Cuts) -> None:
        """Divide the nodes that are not divided yet, when they are next looked at."""
        divided = {cut[1] for cut in self._cuts}
        tables = np.packbits(np.unpackbits(cuts.tables, axis=1), axis=1, bitorder="little").view("<u4")
        for node, left, feature, words in zip(
            cuts.nodes.tolist(), cuts.lefts.tolist(), cuts.features.tolist(), tables, strict=True
        ):
            if left not in divided:
                self._cuts.append((node, left, feature, words.astype(np.uint32)))

    def _visited(self) -> Iterator[LoadedBlock]:
        """Every block on the device, its nodes divided."""
        for block in self._blocks:
            there = block.visit(self._buffer)
            for cut in self._cuts:
                block.divide(there, cut, self._divider)
            yield there
            block.unload(there)

    def add(self, leaves: Array, values: Array, scores: Array) -> None:
        for _ in self._visited():
            pass
        given = zip(leaves.tolist(), values.tolist(), strict=True)
        leaf_rows = [(block.of(leaf), value) for leaf, value in given for block in self._blocks]
        add_values(leaf_rows, scores, self._team)

    def sums(self, nodes: Array, salts: Array, share: float) -> tuple[Array, Array, Array, Array]:
        """Gradients, hessians and rows by bin of some nodes, and of all their rows; as of a `NodeRows`."""
        n_words = _WORDS * -(-self._n_features // TILE)
        sums = device.zeros((len(nodes), 3, n_words * _BINS), np.int64)
        totals = device.zeros((len(nodes), 4), np.int64)
        for there in self._visited():
            words = there.codes.view(np.uint32)
            for at, (node, salt) in enumerate(zip(nodes.tolist(), salts.tolist(), strict=True)):
                start, stop, side = there.block.ranges[node]
                if stop <= start:
                    continue
                drawn = (there.keys, np.uint64(salt), share)
                parts = _parts(stop - start, n_words)
                rows = (there.rows, start, stop, side, there.pairs)
                _add_pairs[(n_words, parts), ROW_THREADS](words, *rows, *drawn, sums[at])
                _total_pairs[_parts(stop - start, 1), ROW_THREADS](*rows, *drawn, totals[at])
        on_host = sums.copy_to_host()
        gradients, hessians, counts = (self._layout.picked(on_host[:, kind]) for kind in range(3))
        return gradients, hessians, counts.astype(np.int32), totals.copy_to_host()

    def gather_rows(self, nodes: Array) -> Gathered:
        of_blocks = [[_taken(there, node) for node in nodes.tolist()] for there in self._visited()]
        each = list(zip(*of_blocks, strict=True))  # by node, then by block
        sizes = np.array([sum(len(pairs) for _, pairs, _ in of_node) for of_node in each], np.int64)
        codes, pairs, keys = (
            np.concatenate([parts[kind] for of_node in each for parts in of_node]) for kind in range(3)
        )
        n_groups = -(-self._n_features // GROUP)
        return sizes, np.ascontiguousarray(codes.view("<u8").astype(np.uint64)[:, :n_groups].T), pairs, keys


def _parts(n: int, n_words: int) -> int:
    """Into how many parts rows are cut, for blocks that sum them up."""
    if device.is_simulated():
        return 2
    return max(
        -(-device.blocks(1) // n_words), min(-(-n // (4 * ROW_THREADS)), 8 * device.multiprocessors() // n_words + 1)
    )


def _taken(there: LoadedBlock, node: int) -> tuple[Array, Array, Array]:
    """Bins, row by row, pairs and keys of the rows of a node."""
    start, stop, side = there.block.ranges[node]
    n, n_tiles, keyed = stop - start, there.codes.shape[0], there.keys.size > 0
    codes, pairs = cuda.device_array((n, n_tiles * TILE), np.uint8), cuda.device_array((n, 2), np.int64)
    keys = cuda.device_array(n if keyed else 0, np.uint64)
    if n:
        _take[_parts(n, 1), ROW_THREADS](
            there.codes, there.rows, start, side, there.pairs, there.keys, codes, pairs, keys
        )
    return device.download(codes), device.download(pairs), device.download(keys)


@cuda.jit(cache=True)
def _take(
    bins: Array, rows: Array, start: int, side: int, pairs: Array, keys: Array, own_bins: Array, own_pairs: Array,
    own_keys: Array
) -> None:  # fmt: skip
    for k in range(cuda.grid(1), own_pairs.shape[0], cuda.gridsize(1)):
        row = rows[side, start + k]
        own_pairs[k, 0], own_pairs[k, 1] = pairs[row, 0], pairs[row, 1]
        if own_keys.size > 0:
            own_keys[k] = keys[row]
        for place in range(own_bins.shape[1]):
            own_bins[k, place] = bins[place // TILE, row, place % TILE]


@cuda.jit(cache=True)
def _add_pairs(
    words: Array, rows: Array, start: int, stop: int, side: int, pairs: Array, keys: Array, salt: int, share: float,
    sums: Array
) -> None:  # fmt: skip
    """Sums of the rows of a node: a block for each word of four features (x) and part of the rows (y)."""
    gradients = cuda.shared.array(_BINS, int64)
    hessians = cuda.shared.array(_BINS, int64)
    counts = cuda.shared.array(_BINS, int64)
    t, word_at = cuda.threadIdx.x, cuda.blockIdx.x
    for i in range(t, _BINS, cuda.blockDim.x):
        gradients[i] = hessians[i] = counts[i] = 0
    cuda.syncthreads()
    for k in range(start + cuda.blockIdx.y * cuda.blockDim.x + t, stop, cuda.gridDim.y * cuda.blockDim.x):
        row = rows[side, k]
        if share >= 1.0 or is_drawn(keys[row], uint64(salt), share):
            word, gradient, hessian = words[word_at // 4, row, word_at % 4], pairs[row, 0], pairs[row, 1] >> COUNT_BITS
            for step in range(4):
                at = (step + t) & 3  # lanes begin with different features
                place = 256 * at + ((word >> (8 * at)) & 255)
                cuda.atomic.add(gradients, place, gradient)
                cuda.atomic.add(hessians, place, hessian)
                cuda.atomic.add(counts, place, 1)
    cuda.syncthreads()
    for i in range(t, _BINS, cuda.blockDim.x):
        if counts[i] > 0:
            cuda.atomic.add(sums, (0, word_at * _BINS + i), gradients[i])
            cuda.atomic.add(sums, (1, word_at * _BINS + i), hessians[i])
            cuda.atomic.add(sums, (2, word_at * _BINS + i), counts[i])


@cuda.jit(cache=True)
def _total_pairs(
    rows: Array, start: int, stop: int, side: int, pairs: Array, keys: Array, salt: int, share: float, totals: Array
) -> None:  # fmt: skip
    """Gradients, hessians and rows of a node, and squares of the gradients of those that are drawn."""
    held = cuda.shared.array(THREADS, int64)
    gradients, hessians, many, squares = int64(0), int64(0), int64(0), int64(0)
    for k in range(start + cuda.grid(1), stop, cuda.gridsize(1)):
        row = rows[side, k]
        gradients += pairs[row, 0]
        hessians += pairs[row, 1] >> COUNT_BITS
        many += 1
        if share >= 1.0 or is_drawn(keys[row], uint64(salt), share):
            short = (pairs[row, 0] + _HALF) >> SQUARED
            squares += short * short
    gradients, hessians = add_up(gradients, held), add_up(hessians, held)
    many, squares = add_up(many, held), add_up(squares, held)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(totals, 0, gradients)
        cuda.atomic.add(totals, 1, hessians)
        cuda.atomic.add(totals, 2, many)
        cuda.atomic.add(totals, 3, squares)
