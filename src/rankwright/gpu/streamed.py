"""Training data too large for the card: every pass uploads the rows piece by piece, in order.

As many pieces as fit stay there; the others travel twice a pass, for scores and for planes. Pieces are runs of the
segments whose sums make the planes, so the bits do not depend on how much fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data import sparse
from rankwright.gpu import products
from rankwright.gpu.arranged import Arranged, segments_of
from rankwright.gpu.card import blocks as blocks_of
from rankwright.gpu.card import is_simulated, upload, upload_rows
from rankwright.gpu.order import count_up
from rankwright.gpu.scoring import score_there

Array = npt.NDArray[Any]
_PIECE = 1 << 8 if is_simulated() else 1 << 28  # bytes, about
_THREADS = 4 if is_simulated() else 128


@dataclass(frozen=True, eq=False)
class _Piece:
    """A run of segments, ``first`` … ``last`` − 1, the documents they have, and their rows if these stay."""

    first: int
    last: int
    docs: slice
    rows: Any


@dataclass(eq=False)
class Streamed(Arranged):
    """Queries in an order, with streamed features.

    Parameters
    ----------
    X : ndarray or csr_array
        Features, all rows; they may be mapped from a file.
    rows : ndarray
        The documents, query after query: rows of X.
    indptr : ndarray
        Query boundaries in ``rows``.
    blocks : ndarray
        Boundaries of the blocks of queries that share a plane.
    room : int
        Bytes of features that may stay on the card.
    """

    blocks: Array = field(kw_only=True)
    room: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._bounds, self._of_block = segments_of(self.indptr, self.blocks)
        self._sums = cuda.device_array((len(self._bounds) - 1, self.n_features), np.float64)
        self._found = cuda.device_array((len(self.blocks) - 1, self.n_features), np.float64)
        self._block_bounds = upload(self._of_block)
        of_row = self.n_features * self.X.dtype.itemsize
        self._pieces = self._cut(max(1, _PIECE // of_row), of_row)
        longest = max(piece.docs.stop - piece.docs.start for piece in self._pieces)
        self._buffer = cuda.device_array((longest, self.n_features), self.X.dtype)
        self._numbers = cuda.device_array(longest, np.int64)
        count_up[blocks_of(1), _THREADS](self._numbers)

    def _cut(self, most: int, of_row: int) -> list[_Piece]:
        """Pieces of about ``most`` documents; the first ones are uploaded while there is room."""
        pieces, first, free = [], 0, self.room
        while first < len(self._bounds) - 1:
            start = int(self._bounds[first])
            last = int(np.searchsorted(self._bounds, start + most, side="right")) - 1
            last = min(max(last, first + 1), len(self._bounds) - 1)
            docs = slice(start, int(self._bounds[last]))
            free -= (docs.stop - docs.start) * of_row
            pieces.append(_Piece(first, last, docs, self._stays(docs) if free >= 0 else None))
            first = last
        return pieces

    def _stays(self, docs: slice) -> Any:
        rows = self.rows[docs]
        return upload_rows(self.X, rows, cuda.device_array((len(rows), self.n_features), self.X.dtype))

    def _there(self, piece: _Piece) -> tuple[Any, Any]:
        n_docs = piece.docs.stop - piece.docs.start
        X = piece.rows
        if X is None:
            X = upload_rows(self.X, self.rows[piece.docs], self._buffer[:n_docs])
        return X, self._numbers[:n_docs]

    def _score(self, weights: Array) -> None:
        for piece in self._pieces:
            score_there(*self._there(piece), weights, self.scores[piece.docs])

    def planes(self, blocks: Array, inverse: Array) -> Array:
        """Σ coef · row over each block of queries, times ``inverse``."""
        for piece in self._pieces:
            X, rows = self._there(piece)
            bounds = upload(self._bounds[piece.first : piece.last + 1] - piece.docs.start)
            products.add_segments[blocks_of(piece.last - piece.first), products.SUMMING](
                X, rows, self.coef[piece.docs], bounds, self._sums[piece.first : piece.last]
            )
        products.add_to_blocks[blocks_of(len(self.blocks) - 1), products.SUMMING](
            self._sums, self._block_bounds, self._factors(inverse), self._found
        )
        return np.asarray(self._found.copy_to_host())

    def _rows_of(self, chosen: Array) -> Array:
        rows = self.X[self.rows[chosen]]
        return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, np.float64)
