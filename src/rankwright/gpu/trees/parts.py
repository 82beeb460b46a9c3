"""One part of a data set while a tree is grown over parts, on the card: the sums of `models.trees.parted_rows.Part`.

They are whole numbers of 64 bits, so they are the CPU's, bit for bit, however much of the part fits the card.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda, int64, uint64

from rankwright.data.threads import Team
from rankwright.gpu import card
from rankwright.gpu.together import add_up
from rankwright.gpu.trees.pieces import Cutting, Visited, cut_into_pieces
from rankwright.gpu.trees.state import THREADS, TILE
from rankwright.models.trees.binning import GROUP
from rankwright.models.trees.draws import is_drawn
from rankwright.models.trees.parted_rows import Cuts, add_values
from rankwright.models.trees.parted_sums import COUNT_BITS, SQUARED, Layout, Units, pack_pairs

Array = npt.NDArray[Any]
_SHARE = 0.7  # of the free memory of the card, that bins may take
_THREADS = 8 if card.is_simulated() else THREADS
_WORDS = TILE // 4  # of a tile, with four features each
_BINS = 4 * 256  # of the features of a word
_HALF = 1 << (SQUARED - 1)


class CardPart:
    """Rows, by node; as a `Part` of the CPU.

    Parameters
    ----------
    X, order : ndarray
        Features, and the rows of the part in their order.
    ends : tuple of ndarray
        The upper ends of the bins of every feature.
    layout : Layout
        Where the bins are.
    keys : ndarray
        What rows are drawn by; empty where none are.
    team : Team
        Threads.
    folder : Path, optional
        Where to keep on disk what does not fit the card.
    """

    def __init__(
        self,
        X: Array,
        order: Array,
        ends: tuple[Array, ...],
        layout: Layout,
        keys: Array,
        team: Team,
        folder: Path | None = None,
    ) -> None:
        self._layout, self._n_features, self._team = layout, len(ends), team
        self._pieces, self._place = cut_into_pieces(X, order, ends, keys, folder, int(_SHARE * card.free_bytes()))
        self._cutting, self._cuts = Cutting(), list[tuple[int, int, int, Array]]()
        self.rows = np.empty(0, np.uint32)

    @property
    def travels(self) -> bool:
        """Whether some of the rows travel to the card every time that sums are asked for."""
        return self._place is not None

    def begin(self, rows: Array, residuals: Array, curves: Array, units: Units) -> None:
        """Put all rows of a tree into its root."""
        pairs = pack_pairs(residuals, curves, units, self._team)
        for piece in self._pieces:
            piece.begin_with(pairs[piece.first : piece.first + piece.n_rows])
        self.place(rows)

    def place(self, rows: Array, root: int = 0) -> None:
        """Put rows into a root."""
        self.rows, self._cuts = rows, []
        for piece in self._pieces:
            own = rows[np.searchsorted(rows, piece.first) : np.searchsorted(rows, piece.first + piece.n_rows)]
            piece.place((own - piece.first).astype(np.uint32), root)

    def divide(self, cuts: Cuts) -> None:
        """Divide the nodes that are not divided yet, when they are next looked at."""
        known = {cut[1] for cut in self._cuts}
        tables = np.packbits(np.unpackbits(cuts.tables, axis=1), axis=1, bitorder="little").view("<u4")
        for node, left, feature, words in zip(
            cuts.nodes.tolist(), cuts.lefts.tolist(), cuts.features.tolist(), tables, strict=True
        ):
            if left not in known:
                self._cuts.append((node, left, feature, words.astype(np.uint32)))

    def _visited(self) -> Iterator[Visited]:
        """Every piece on the card, its nodes divided."""
        for piece in self._pieces:
            there = piece.visit(self._place)
            for cut in self._cuts:
                piece.divide(there, cut, self._cutting)
            yield there
            piece.left(there)

    def add(self, leaves: Array, values: Array, scores: Array) -> None:
        """Add a value to the scores of the rows of each of some nodes."""
        for _ in self._visited():
            pass
        given = zip(leaves.tolist(), values.tolist(), strict=True)
        own = [(piece.of(leaf), value) for leaf, value in given for piece in self._pieces]
        add_values(own, scores, self._team)

    def sums(self, nodes: Array, salts: Array, share: float) -> tuple[Array, Array, Array, Array]:
        """Residuals, curvatures and rows by bin of some nodes, and of all their rows; as of a `Part`."""
        n_words = _WORDS * -(-self._n_features // TILE)
        sums = card.zeros((len(nodes), 3, n_words * _BINS), np.int64)
        totals = card.zeros((len(nodes), 4), np.int64)
        for there in self._visited():
            words = there.codes.view(np.uint32)
            for at, (node, salt) in enumerate(zip(nodes.tolist(), salts.tolist(), strict=True)):
                start, stop, side = there.piece.ranges[node]
                if stop <= start:
                    continue
                drawn = (there.keys, np.uint64(salt), share)
                parts = _parts(stop - start, n_words)
                rows = (there.rows, start, stop, side, there.pairs)
                _add_pairs[(n_words, parts), _THREADS](words, *rows, *drawn, sums[at])
                _total_pairs[_parts(stop - start, 1), _THREADS](*rows, *drawn, totals[at])
        found = sums.copy_to_host()
        residuals, curves, counts = (self._layout.picked(found[:, kind]) for kind in range(3))
        return residuals, curves, counts.astype(np.int32), totals.copy_to_host()

    def bring(self, nodes: Array) -> tuple[Array, Array, Array, Array]:
        """How many rows some nodes have, and the bins, pairs and keys of these rows, node after node."""
        of_pieces = [[_taken(there, node) for node in nodes.tolist()] for there in self._visited()]
        each = list(zip(*of_pieces, strict=True))  # by node, then by piece
        sizes = np.array([sum(len(pairs) for _, pairs, _ in own) for own in each], np.int64)
        codes, pairs, keys = (np.concatenate([parts[kind] for own in each for parts in own]) for kind in range(3))
        n_groups = -(-self._n_features // GROUP)
        return sizes, np.ascontiguousarray(codes.view("<u8").astype(np.uint64)[:, :n_groups].T), pairs, keys


def _parts(n: int, n_words: int) -> int:
    """Into how many parts rows are cut, for blocks that sum them up."""
    if card.is_simulated():
        return 2
    return max(-(-card.blocks(1) // n_words), min(-(-n // (4 * _THREADS)), 8 * card.multiprocessors() // n_words + 1))


def _taken(there: Visited, node: int) -> tuple[Array, Array, Array]:
    """Bins, row by row, pairs and keys of the rows of a node."""
    start, stop, side = there.piece.ranges[node]
    n, n_tiles, keyed = stop - start, there.codes.shape[0], there.keys.size > 0
    codes, pairs = cuda.device_array((n, n_tiles * TILE), np.uint8), cuda.device_array((n, 2), np.int64)
    keys = cuda.device_array(n if keyed else 0, np.uint64)
    if n:
        _take[_parts(n, 1), _THREADS](there.codes, there.rows, start, side, there.pairs, there.keys, codes, pairs, keys)
    return card.download(codes), card.download(pairs), card.download(keys)


@cuda.jit(cache=True)
def _take(
    bins: Any, rows: Any, start: int, side: int, pairs: Any, keys: Any, own_bins: Any, own_pairs: Any, own_keys: Any
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
    words: Any, rows: Any, start: int, stop: int, side: int, pairs: Any, keys: Any, salt: Any, share: float, sums: Any
) -> None:  # fmt: skip
    """Sums of the rows of a node: a block for each word of four features (x) and part of the rows (y)."""
    residuals = cuda.shared.array(_BINS, int64)
    curves = cuda.shared.array(_BINS, int64)
    counts = cuda.shared.array(_BINS, int64)
    t, word_at = cuda.threadIdx.x, cuda.blockIdx.x
    for i in range(t, _BINS, cuda.blockDim.x):
        residuals[i] = curves[i] = counts[i] = 0
    cuda.syncthreads()
    for k in range(start + cuda.blockIdx.y * cuda.blockDim.x + t, stop, cuda.gridDim.y * cuda.blockDim.x):
        row = rows[side, k]
        if share >= 1.0 or is_drawn(keys[row], uint64(salt), share):
            word, residual, curve = words[word_at // 4, row, word_at % 4], pairs[row, 0], pairs[row, 1] >> COUNT_BITS
            for step in range(4):
                at = (step + t) & 3  # lanes begin with different features
                place = 256 * at + ((word >> (8 * at)) & 255)
                cuda.atomic.add(residuals, place, residual)
                cuda.atomic.add(curves, place, curve)
                cuda.atomic.add(counts, place, 1)
    cuda.syncthreads()
    for i in range(t, _BINS, cuda.blockDim.x):
        if counts[i] > 0:
            cuda.atomic.add(sums, (0, word_at * _BINS + i), residuals[i])
            cuda.atomic.add(sums, (1, word_at * _BINS + i), curves[i])
            cuda.atomic.add(sums, (2, word_at * _BINS + i), counts[i])


@cuda.jit(cache=True)
def _total_pairs(
    rows: Any, start: int, stop: int, side: int, pairs: Any, keys: Any, salt: Any, share: float, totals: Any
) -> None:  # fmt: skip
    """Residuals, curvatures and rows of a node, and squares of the residuals of those that are drawn."""
    held = cuda.shared.array(THREADS, int64)
    residuals, curves, many, squares = int64(0), int64(0), int64(0), int64(0)
    for k in range(start + cuda.grid(1), stop, cuda.gridsize(1)):
        row = rows[side, k]
        residuals += pairs[row, 0]
        curves += pairs[row, 1] >> COUNT_BITS
        many += 1
        if share >= 1.0 or is_drawn(keys[row], uint64(salt), share):
            short = (pairs[row, 0] + _HALF) >> SQUARED
            squares += short * short
    residuals, curves = add_up(residuals, held), add_up(curves, held)
    many, squares = add_up(many, held), add_up(squares, held)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(totals, 0, residuals)
        cuda.atomic.add(totals, 1, curves)
        cuda.atomic.add(totals, 2, many)
        cuda.atomic.add(totals, 3, squares)
