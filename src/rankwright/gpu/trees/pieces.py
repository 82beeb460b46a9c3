"""Rows of a part on the card, or on their way there: bins, pairs, keys, and which rows are in which node.

Pieces that have room stay on the card. The others stay in memory, or in a file, and travel to a place that they share
when they are looked at; their lists of rows travel back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data.scratch import scratch
from rankwright.gpu import card
from rankwright.gpu.trees import histograms, state
from rankwright.gpu.trees.bins import bins_like

Array = npt.NDArray[Any]
OF_ROW = 16 + 8 + 8
"""Bytes of a row beside its bins: a pair, a place in each of two lists, a key."""
_PIECE = 1 << 8 if card.is_simulated() else 1 << 28  # bytes of bins, about
_LEAST = 16 if card.is_simulated() else 1 << 14  # rows
_THREADS = 8 if card.is_simulated() else state.THREADS


class Visited:
    """A piece while it is on the card: bins of all features, the two lists of rows, pairs and keys."""

    def __init__(self, piece: Piece, codes: Any, rows: Any, pairs: Any, keys: Any) -> None:
        self.piece, self.codes, self.rows, self.pairs, self.keys = piece, codes, rows, pairs, keys


class Piece:
    """Some rows of a part.

    Parameters
    ----------
    codes : device array or ndarray, shape (tiles, rows, 16)
        Their bins, on the card or here.
    keys : ndarray
        What they are drawn by; empty where none are.
    first : int
        The number of the first one in the part.
    """

    def __init__(self, codes: Any, keys: Array, first: int) -> None:
        self.stays, self.first, self.n_rows = not isinstance(codes, np.ndarray), first, int(codes.shape[1])
        self._codes, self._keys = codes, card.upload(keys) if self.stays else keys
        self._rows: Any = None
        self._pairs: Any = None
        self.ranges: dict[int, tuple[int, int, int]] = {}

    def begin_with(self, pairs: Array) -> None:
        """Take the pairs of all rows."""
        self._pairs = card.upload(pairs, self._pairs) if self.stays else pairs

    def place(self, rows: Array, root: int) -> None:
        """Put rows, by their numbers in this piece, into a root."""
        lists = np.zeros((2, self.n_rows), np.uint32)
        lists[0, : len(rows)] = rows
        self._rows = card.upload(lists, self._rows) if self.stays else lists
        self.ranges = {root: (0, len(rows), 0)}

    def visit(self, place: Place | None) -> Visited:
        """Bring it to the card, if it is not there."""
        if self.stays:
            return Visited(self, self._codes, self._rows, self._pairs, self._keys)
        assert place is not None
        pairs = np.zeros((self.n_rows, 2), np.int64) if self._pairs is None else self._pairs  # of rows that are scored
        return Visited(self, *place.bring(self._codes, self._rows, pairs, self._keys))

    def divide(self, there: Visited, cut: tuple[int, int, int, Array], room: Cutting) -> None:
        """Divide a node, unless that was done: its number, its left child's, the feature, the bins that go left."""
        node, left, feature, words = cut
        if left in self.ranges:
            return
        start, stop, side = self.ranges[node]
        middle = start + (room.divide(there, (start, stop, side), feature, words) if stop > start else 0)
        self.ranges[left], self.ranges[left + 1] = (start, middle, 1 - side), (middle, stop, 1 - side)

    def left(self, there: Visited) -> None:
        """Keep the lists of rows, before others take its place."""
        if not self.stays:
            self._rows = there.rows.copy_to_host()

    def of(self, node: int) -> Array:
        """The rows of a node, by their numbers in the part."""
        start, stop, side = self.ranges[node]
        rows = self._rows[side, start:stop]
        return np.asarray(rows.copy_to_host() if self.stays and stop > start else rows).astype(np.int64) + self.first


class Place:
    """Where pieces that do not stay on the card are while they are looked at."""

    def __init__(self, n_tiles: int, most: int, keyed: bool) -> None:
        self._codes = cuda.device_array(n_tiles * most * state.TILE, np.uint8)
        self._rows, self._pairs = cuda.device_array(2 * most, np.uint32), cuda.device_array(2 * most, np.int64)
        self._keys = cuda.device_array(most if keyed else 0, np.uint64)

    def bring(self, *arrays: Array) -> list[Any]:
        """Upload the arrays of a piece."""
        places = (self._codes, self._rows, self._pairs, self._keys)
        found = []
        for array, place in zip(arrays, places, strict=True):
            found.append(card.upload(array, place[: array.size].reshape(array.shape)))
        return found


class Cutting:
    """What dividing a node needs on the card."""

    def __init__(self) -> None:
        self._leaf = card.zeros((1, state.OF_LEAF), np.int64)
        self._now, self._words = card.zeros(state.NOW, np.int64), card.zeros((1, state.WORDS), np.uint32)

    def divide(self, there: Visited, rows: tuple[int, int, int], feature: int, words: Array) -> int:
        """Move rows to the other list; how many go left."""
        leaf = np.zeros((1, state.OF_LEAF), np.int64)
        leaf[0, [state.START, state.STOP, state.SIDE]] = rows
        leaf[0, state.SPLIT_FEATURE], leaf[0, state.CODE] = feature, state.BY_SET
        card.upload(leaf, self._leaf)
        card.upload(np.zeros(state.NOW, np.int64), self._now)
        card.upload(words[np.newaxis], self._words)
        each = (rows[1] - rows[0]) // histograms.STRIP + 1
        grid = 2 if card.is_simulated() else card.blocks(min(-(-each // _THREADS), 8 * card.multiprocessors()))
        histograms.divide[grid, _THREADS](there.codes, there.rows, self._leaf, self._now, self._words)
        return int(self._now.copy_to_host()[state.LEFT])


def cut_into_pieces(
    X: Array, order: Array, ends: tuple[Array, ...], keys: Array, folder: Path | None, room: int
) -> tuple[list[Piece], Place | None]:
    """Rows in this order as pieces, of which so many bytes may stay on the card, and a place for those that do not."""
    n_tiles, n = -(-len(ends) // state.TILE), len(order)
    of_row = n_tiles * state.TILE + OF_ROW
    most = n if n * of_row <= room else max(_LEAST, min(_PIECE // (n_tiles * state.TILE), room // (4 * of_row)))
    left, pieces = room if most == n else room - most * of_row, []  # the place takes room, too
    for first in range(0, n, max(most, 1)):
        some = slice(first, min(first + most, n))
        codes = bins_like(ends, np.ascontiguousarray(X[order[some]])).codes
        left -= codes.shape[1] * of_row
        if left < 0:
            here = scratch(codes.shape, np.uint8, folder)
            codes.copy_to_host(here)
            codes = here
        pieces.append(Piece(codes, keys[some] if len(keys) else keys, first))
    place = None if all(piece.stays for piece in pieces) else Place(n_tiles, most, len(keys) > 0)
    return pieces, place
