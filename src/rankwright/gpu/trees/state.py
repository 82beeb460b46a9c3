"""The bins of a data set on the device: the same as :func:`rankwright.boosting.binning.bin_features` finds.

The ends of bins come from a sample, on the CPU. Rows are uploaded as they lie, some at a time where not all fit, and
each goes to its place in the order of training. Bins are bytes, by tile of 16 features, then by row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float64

from rankwright._types import Array
from rankwright.boosting.binning import bin_ends, table_of
from rankwright.data.threads import Team
from rankwright.errors import InputError
from rankwright.gpu import device

# A tree while it is grown on the device: what is kept of leaves, of nodes and of the tree so far.
#
# Everything is decided there, so the host reads none of it before the tree is finished.


TILE = 16
"""Features whose bins are stored together."""
SIZE = 256 * 3 * TILE
"""Numbers in the histograms of a tile: for each bin 16 gradients and 16 hessians, then 16 counts for each."""
COUNTS = 256 * 2 * TILE
"""Where the counts of a tile begin."""
MISSING = 255
THREADS = 256
"""Threads of a block, at most."""
WORDS = 8
"""Words of 32 bits that a set of bins takes."""
BY_SET = 512
"""Set in the code of a split that sends a set of bins left. Other codes: the last bin, + 256 if missing values do."""

# A leaf, in whole numbers: its node, its rows and in which of the two lists they are, its histogram, its best split,
# its place from the left, and what it draws by.
NODE, START, STOP, SIDE, SLOT, SPLIT_FEATURE, CODE, PLACE, SALT, OF_LEAF = range(10)
# The same in floating point: the gain of that split, bounds of the leaf's value, and what bounds those of its children.
GAIN, LOW, HIGH, LIMIT, REALS = range(5)
# A tree so far: leaves, nodes, the leaf to split (−1: none is worth it), rows to its left and right, blocks done.
LEAVES, NODES, SPLIT, LEFT, RIGHT, DONE, NOW = range(7)
# A node, as the host reads it.
FEATURE, LAST, MISSING_LEFT, IS_SET, LEFT_NODE, VALUE, NODE_GAIN, COUNT, OF_NODE = range(9)


@cuda.jit(cache=True)
def start_tree(
    n_rows: Any, all_rows: bool, salt: Any, rows: Any, sums: Any, leaves: Any, reals: Any, now: Any, squares: Any
) -> None:  # fmt: skip
    """The first ``n_rows[0]`` of the first list are one leaf, all rows in their order or those there; sums are 0."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for k in range(first, n_rows[0] if all_rows else 0, step):
        rows[0, k] = k
    for i in range(first, sums.size, step):
        sums[i] = 0
    if first == 0:
        for i in range(NOW):
            now[i] = 0
        leaves[0, START], leaves[0, STOP], leaves[0, SIDE] = 0, n_rows[0], 0
        leaves[0, NODE] = leaves[0, SLOT] = leaves[0, PLACE] = 0
        leaves[0, SALT] = salt[0]
        reals[0, LOW], reals[0, HIGH], reals[0, LIMIT] = -float("inf"), float("inf"), 0.0
        squares[0] = squares[1] = 0


@cuda.jit(device=True, cache=True)
def child_of(leaves: Any, now: Any, child: int, sampled: bool) -> Any:
    """First row, one past the last, their list and their histogram: of the smaller child (0) or the larger one (1).

    Before the first split the root is the smaller one, and the other has no rows. The histogram of a larger child takes
    the place of its parent's, unless both have one of a sample.
    """
    leaf = now[SPLIT]
    start, stop, side, slot = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, SLOT]
    if now[LEAVES] == 0:
        return (start, start if child else stop, side, slot)
    middle = start + now[LEFT]
    if sampled:
        slot = 2 * now[LEAVES] - 1 + child
    elif child == 0:
        slot = now[LEAVES]
    is_left = (now[LEFT] <= now[RIGHT]) == (child == 0)
    return (start, middle, 1 - side, slot) if is_left else (middle, stop, 1 - side, slot)


@cuda.jit(device=True, cache=True)
def is_in(words: Any, code: int) -> bool:
    """Whether a set of bins has this one."""
    return (words[code >> 5] >> (code & 31)) & 1 == 1


_THREADS = 256
_OF_ROW = 128  # bytes of gradients, scores and lists of rows
_SHARE = 2  # of the free memory, that rows on their way may take


@dataclass(frozen=True, eq=False)
class DeviceBins:
    """The bins of rows, on the device.

    `codes` (shape (tiles, rows, 16)): bins, 255 for missing values. `ends`: for each feature the upper ends of all its
    bins but the last. `varies`: features that can split some rows from others. `categorical`: features whose bins are
    categories.
    """

    codes: Any
    ends: tuple[Array, ...]
    varies: Array
    categorical: frozenset[int] = frozenset()

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[1])


def have_room(n_rows: int, n_features: int, of_row: int = _OF_ROW) -> bool:
    """Whether the bins of so many rows fit the device, and what else a row needs there."""
    return (-(-n_features // TILE) * TILE + of_row) * n_rows <= device.free_bytes()


def bin_on_device(
    X: Array, max_bins: int, seed: int, threads: int, order: Array, categories: Mapping[int, int] | None = None
) -> DeviceBins:
    """Bin the rows ``order`` of a matrix, in this order."""
    team, counts = Team(threads), categories or {}
    try:
        ends = bin_ends(X, max_bins, seed, team, order, counts)
    finally:
        team.close()
    return dataclasses.replace(bins_like(ends, X, order), categorical=frozenset(counts))


def bins_like(ends: tuple[Array, ...], X: Array, order: Array | None = None) -> DeviceBins:
    """Rows in bins of which the ends are known."""
    n, d = len(X) if order is None else len(order), X.shape[1]
    n_tiles = -(-d // TILE)
    if not have_room(n, d, 0):
        size, free = n_tiles * TILE * n, device.free_bytes()
        problem = f"device is 'cuda', but the bins of {n:,} documents × {d} features take {size / 1e9:.1f} GB"
        raise InputError(f"{problem}, and the device has {free / 1e9:.1f} GB free; expected device='cpu'")
    codes, missing = cuda.device_array((n_tiles, n, TILE), np.uint8), device.zeros(n_tiles * TILE, np.int32)
    table, sizes = table_of(ends, n_tiles * TILE, np.float64)
    sizes = np.concatenate([sizes, np.zeros(n_tiles * TILE - d, np.int64)])
    places = np.arange(len(X))
    if order is not None:
        places[:] = -1
        places[order] = np.arange(n)
    on_device = device.upload(table), device.upload(sizes)
    step = max(1, device.free_bytes() // _SHARE // max(1, d * X.itemsize))
    for first in range(0, len(X), step):
        rows, own_places = device.upload(X[first : first + step]), device.upload(places[first : first + step])
        blocks, threads = (1, 16) if device.is_simulated() else (8 * device.multiprocessors(), _THREADS)
        _assign[(n_tiles, blocks), threads](rows, own_places, *on_device, codes, missing)
    lacking = missing.copy_to_host()[:d]
    some = (lacking > 0) & (lacking < n)
    return DeviceBins(codes, ends, np.array([len(of_feature) > 0 for of_feature in ends], bool) | some)


@cuda.jit(cache=True)
def _assign(X: Any, places: Any, table: Any, sizes: Any, codes: Any, missing: Any) -> None:
    """Bins of a tile of features (x) for a part of the rows (y), by bisection; as `binning._fill` does it."""
    ends = cuda.shared.array((TILE, 256), float64)
    tile, t = cuda.blockIdx.x, cuda.threadIdx.x
    for i in range(t, TILE * 256, cuda.blockDim.x):
        ends[i >> 8, i & 255] = table[tile * TILE + (i >> 8), i & 255]
    cuda.syncthreads()
    place = t % TILE
    feature, feature_ends = tile * TILE + place, ends[place]
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
                if feature_ends[code + half - 1] < value:
                    code += half
                half >>= 1
            if value != value:
                code = MISSING
                cuda.atomic.add(missing, feature, 1)
        codes[tile, places[row], place] = code
