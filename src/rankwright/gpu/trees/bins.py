"""The bins of a data set on the card: the same as :func:`rankwright.models.trees.binning.bin_features` finds.

The ends of bins come from a sample, on the CPU. Rows are uploaded as they lie, some at a time where not all fit, and
each goes to its place in the order of training. Bins are bytes, by tile of 16 features, then by row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda, float64

from rankwright.data.threads import Team
from rankwright.errors import InputError
from rankwright.gpu import card
from rankwright.gpu.trees.state import MISSING, TILE
from rankwright.models.trees.binning import bin_ends, table_of

Array = npt.NDArray[Any]
_THREADS = 256
_OF_ROW = 128  # bytes of gradients, scores and lists of rows
_SHARE = 2  # of the free memory, that rows on their way may take


@dataclass(frozen=True, eq=False)
class CardBins:
    """The bins of rows, on the card.

    Attributes
    ----------
    codes : array of uint8, shape (tiles, rows, 16)
        Bins, 255 for missing values.
    ends : tuple of ndarray
        For each feature the upper ends of all its bins but the last.
    varies : ndarray of bool
        Features that can split some rows from others.
    categorical : frozenset of int
        Features whose bins are categories.
    """

    codes: Any
    ends: tuple[Array, ...]
    varies: Array
    categorical: frozenset[int] = frozenset()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[1])


def have_room(n_rows: int, n_features: int, of_row: int = _OF_ROW) -> bool:
    """Whether the bins of so many rows fit the card, and what else a row needs there."""
    return (-(-n_features // TILE) * TILE + of_row) * n_rows <= card.free_bytes()


def bin_on_card(
    X: Array, max_bins: int, seed: int, threads: int, order: Array, categories: Mapping[int, int] | None = None
) -> CardBins:
    """Bin the rows ``order`` of a matrix, in this order."""
    team, counts = Team(threads), categories or {}
    try:
        ends = bin_ends(X, max_bins, seed, team, order, counts)
    finally:
        team.close()
    return dataclasses.replace(bins_like(ends, X, order), categorical=frozenset(counts))


def bins_like(ends: tuple[Array, ...], X: Array, order: Array | None = None) -> CardBins:
    """Rows in bins of which the ends are known."""
    n, d = len(X) if order is None else len(order), X.shape[1]
    n_tiles = -(-d // TILE)
    if not have_room(n, d, 0):
        size, free = n_tiles * TILE * n, card.free_bytes()
        what = f"device is 'cuda', but the bins of {n:,} documents × {d} features take {size / 1e9:.1f} GB"
        raise InputError(f"{what}, and the card has {free / 1e9:.1f} GB free; expected device='cpu'")
    codes, missing = cuda.device_array((n_tiles, n, TILE), np.uint8), card.zeros(n_tiles * TILE, np.int32)
    table, sizes = table_of(ends, n_tiles * TILE, np.float64)
    sizes = np.concatenate([sizes, np.zeros(n_tiles * TILE - d, np.int64)])
    places = np.arange(len(X))
    if order is not None:
        places[:] = -1
        places[order] = np.arange(n)
    on_card = card.upload(table), card.upload(sizes)
    step = max(1, card.free_bytes() // _SHARE // max(1, d * X.itemsize))
    for first in range(0, len(X), step):
        rows, own = card.upload(X[first : first + step]), card.upload(places[first : first + step])
        blocks, threads = (1, 16) if card.is_simulated() else (8 * card.multiprocessors(), _THREADS)
        _assign[(n_tiles, blocks), threads](rows, own, *on_card, codes, missing)
    lacking = missing.copy_to_host()[:d]
    some = (lacking > 0) & (lacking < n)
    return CardBins(codes, ends, np.array([len(own) > 0 for own in ends], bool) | some)


@cuda.jit(cache=True)
def _assign(X: Any, places: Any, table: Any, sizes: Any, codes: Any, missing: Any) -> None:
    """Bins of a tile of features (x) for a part of the rows (y), by bisection; as `binning._fill` does it."""
    ends = cuda.shared.array((TILE, 256), float64)
    tile, t = cuda.blockIdx.x, cuda.threadIdx.x
    for i in range(t, TILE * 256, cuda.blockDim.x):
        ends[i >> 8, i & 255] = table[tile * TILE + (i >> 8), i & 255]
    cuda.syncthreads()
    place = t % TILE
    feature, own = tile * TILE + place, ends[place]
    step = 1
    while 2 * step <= sizes[feature]:
        step *= 2
    rows_at_once = cuda.blockDim.x // TILE
    for row in range(cuda.blockIdx.y * rows_at_once + t // TILE, X.shape[0], cuda.gridDim.y * rows_at_once):
        if places[row] < 0:
            continue
        code = 0
        if feature < X.shape[1]:
            value = X[row, feature]
            half = step
            while half > 0:
                if own[code + half - 1] < value:
                    code += half
                half >>= 1
            if value != value:
                code = MISSING
                cuda.atomic.add(missing, feature, 1)
        codes[tile, places[row], place] = code
