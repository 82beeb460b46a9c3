"""What a tree on the device needs of every row: its bins, its gradients as whole numbers, and the value of its leaf.

The ends of bins come from a sample, on the CPU; bins are those that :func:`rankwright.boosting.binning.bin_features`
finds. Rows are uploaded as they lie, some at a time where not all fit, and each goes to its place in the order of
training. Bins are bytes, by tile of 16 features, then by row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from rankwright._types import Array
from rankwright.boosting.binning import MISSING, bin_ends, table_of
from rankwright.boosting.histograms import LEAST_UNIT, MOST
from rankwright.boosting.learner import LEAST_HESSIAN, leaf_value
from rankwright.data.threads import Team
from rankwright.errors import InputError
from rankwright.gpu import device
from rankwright.gpu.blockwise import add_up
from rankwright.gpu.trees.leaves import (
    FEATURE,
    IS_SET,
    LAST,
    LEAVES,
    LEFT_NODE,
    MISSING_LEFT,
    NODE,
    NODES,
    SIDE,
    START,
    STOP,
    THREADS,
    TILE,
    VALUE,
    is_in,
)

ROW_THREADS = 8 if device.is_simulated() else THREADS
"""Threads of a block of which each has a row."""
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


def row_blocks(n: int) -> int:
    """Blocks of threads for so many rows, a row each; not more than keep the device busy."""
    return 2 if device.is_simulated() else device.blocks(min(-(-n // ROW_THREADS), 8 * device.multiprocessors()))


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
    return bins_like(ends, X, order, frozenset(counts))


def bins_like(
    ends: tuple[Array, ...], X: Array, order: Array | None = None, categorical: frozenset[int] = frozenset()
) -> DeviceBins:
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
        rows, row_places = device.upload(X[first : first + step]), device.upload(places[first : first + step])
        blocks, threads = (1, 16) if device.is_simulated() else (8 * device.multiprocessors(), THREADS)
        _assign[(n_tiles, blocks), threads](rows, row_places, *on_device, codes, missing)
    lacking = missing.copy_to_host()[:d]
    some = (lacking > 0) & (lacking < n)
    return DeviceBins(codes, ends, np.array([len(of_feature) > 0 for of_feature in ends], bool) | some, categorical)


@cuda.jit(cache=True)
def _assign(X: Array, places: Array, table: Array, sizes: Array, codes: Array, missing: Array) -> None:
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


# What a tree on the device needs of every row: gradients as whole numbers, the values of leaves, scores by bins.
#
# Units are those of rankwright.boosting.histograms: the same gradients give the same whole numbers. Leaves are
# set by sums in much smaller units, of 2⁻⁶¹ of all |gradients|, which any order of rows gives the same bits of, too.


_WHOLE = 2.0**62  # that sums in the smallest units stay below
_FINE = 2.0**61
# Facts of gradients and hessians: the largest of each, then their units.
_GRADIENT, _HESSIAN, _GRADIENT_UNIT, _HESSIAN_UNIT, FACTS = range(5)
TOTALS = 2
"""Sums of |gradients| and hessians, in units of 2⁻⁶² of the largest times the number of rows."""


@cuda.jit(cache=True)
def start_sums(facts: Array, totals: Array, leaf_sums: Array) -> None:
    """Everything that is summed is 0."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for i in range(first, leaf_sums.shape[0], step):
        leaf_sums[i, 0] = leaf_sums[i, 1] = 0
    if first == 0:
        facts[_GRADIENT] = facts[_HESSIAN] = 0.0
        totals[0, 0] = totals[0, 1] = 0


@cuda.jit(cache=True)
def largest(gradients: Array, hessians: Array, facts: Array) -> None:
    """The largest |gradient| and hessian."""
    highest = cuda.shared.array((2, THREADS), float64)
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    gradient, hessian = 0.0, 0.0
    for i in range(cuda.grid(1), gradients.size, cuda.gridsize(1)):
        gradient, hessian = max(gradient, abs(gradients[i])), max(hessian, hessians[i])
    highest[0, t], highest[1, t] = gradient, hessian
    cuda.syncthreads()
    while step > 0:
        if t < step:
            highest[0, t] = max(highest[0, t], highest[0, t + step])
            highest[1, t] = max(highest[1, t], highest[1, t + step])
        cuda.syncthreads()
        step //= 2
    if t < 2:
        cuda.atomic.max(facts, t, highest[t, 0])


@cuda.jit(device=True, cache=True)
def _add_both(first: int, second: int, held: Array, sums: Array, row: int) -> None:
    """Add two whole numbers of every thread of a block to a row of sums."""
    first, second = add_up(first, held), add_up(second, held)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(sums, (row, 0), first)
        cuda.atomic.add(sums, (row, 1), second)


@cuda.jit(cache=True)
def total(gradients: Array, hessians: Array, facts: Array, totals: Array) -> None:
    """Σ |gradients| and Σ hessians in the smallest units; ``totals`` has one row."""
    held = cuda.shared.array(THREADS, int64)
    gradient, hessian = np.int64(0), np.int64(0)
    per_gradient = _per_least(facts[_GRADIENT], gradients.size)
    per_hessian = _per_least(facts[_HESSIAN], gradients.size)
    for i in range(cuda.grid(1), gradients.size, cuda.gridsize(1)):
        gradient += np.int64(abs(gradients[i]) * per_gradient)
        hessian += np.int64(hessians[i] * per_hessian)
    _add_both(gradient, hessian, held, totals, 0)


@cuda.jit(device=True, cache=True)
def _per_least(most: float, n: int) -> float:
    """Smallest units in 1; 0 where they would be too small."""
    unit = most * (n / _WHOLE)
    return 1.0 / unit if unit >= LEAST_UNIT else 0.0


@cuda.jit(device=True, cache=True)
def _sum_of(most: float, units: int, n: int) -> float:
    """The sum of the sizes of all numbers, or a little more, from their sum in the smallest units."""
    unit = most * (n / _WHOLE)
    return most * n if unit < LEAST_UNIT else (float(units) + n) * unit


@cuda.jit(cache=True)
def pack_rows(gradients: Array, hessians: Array, newton: bool, facts: Array, totals: Array, pairs: Array) -> None:
    """Gradients and hessians as whole numbers; without ``newton`` every hessian is the same."""
    n = gradients.size
    room = MOST - n // 2 - 1
    per_row = room // max(n, 1)
    gradient_unit = max(_sum_of(facts[_GRADIENT], totals[0, 0], n) / room, LEAST_UNIT)
    hessian_unit = max(_sum_of(facts[_HESSIAN], totals[0, 1], n) / room, LEAST_UNIT)
    per_gradient, per_hessian = 1.0 / gradient_unit, 1.0 / hessian_unit
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        pairs[i, 0] = round(gradients[i] * per_gradient)
        pairs[i, 1] = round(hessians[i] * per_hessian) if newton else per_row
    if cuda.grid(1) == 0:
        facts[_GRADIENT_UNIT] = gradient_unit
        facts[_HESSIAN_UNIT] = hessian_unit if newton else 1.0 / per_row


@cuda.jit(cache=True)
def smooth_categories(pairs: Array, smooth_rows: float, total: Array, smooth: Array) -> None:
    """The hessian that smooths the means of categories: that of so many average rows. ``total`` is 0 before."""
    held = cuda.shared.array(THREADS, int64)
    is_last = cuda.shared.array(1, int64)
    hessian = np.int64(0)
    for i in range(cuda.grid(1), pairs.shape[0], cuda.gridsize(1)):
        hessian += np.int64(pairs[i, 1])
    hessian = add_up(hessian, held)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, hessian)
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(total, 1, 1) == cuda.gridDim.x - 1
        if is_last[0]:
            cuda.threadfence()
            smooth[0] = smooth_rows * (float(total[0]) / pairs.shape[0])
            total[0] = total[1] = 0


@cuda.jit(device=True, cache=True)
def _fine(most: float, units: int, n: int) -> float:
    """The units in which leaves are summed."""
    return max(_sum_of(most, units, n) / _FINE, LEAST_UNIT)


@cuda.jit(cache=True)
def sum_leaves(
    rows: Array, leaves: Array, now: Array, gradients: Array, hessians: Array, facts: Array, totals: Array,
    leaf_sums: Array
) -> None:  # fmt: skip
    """Sums of gradients and hessians of every leaf (y), a part of its rows in every block (x)."""
    held = cuda.shared.array(THREADS, int64)
    leaf, n = cuda.blockIdx.y, gradients.size
    if leaf >= now[LEAVES]:
        return
    per_gradient = 1.0 / _fine(facts[_GRADIENT], totals[0, 0], n)
    per_hessian = 1.0 / _fine(facts[_HESSIAN], totals[0, 1], n)
    gradient, hessian, side = np.int64(0), np.int64(0), leaves[leaf, SIDE]
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for k in range(leaves[leaf, START] + first, leaves[leaf, STOP], cuda.gridDim.x * cuda.blockDim.x):
        row = rows[side, k]
        gradient += np.int64(round(gradients[row] * per_gradient))
        hessian += np.int64(round(hessians[row] * per_hessian))
    _add_both(gradient, hessian, held, leaf_sums, leaf)


@cuda.jit(cache=True)
def bound_leaves(
    leaves: Array, now: Array, n_rows: int, facts: Array, totals: Array, leaf_sums: Array, nodes: Array, ways: Array,
    n_bins: Array, sums: Array, bounds: Array,
) -> None:  # fmt: skip
    """The bounds of the values of all nodes, as `rankwright.boosting.grow` has them; by one thread."""
    if cuda.grid(1) > 0:
        return
    gradient_unit = _fine(facts[_GRADIENT], totals[0, 0], n_rows)
    hessian_unit = _fine(facts[_HESSIAN], totals[0, 1], n_rows)
    for leaf in range(now[LEAVES]):
        node, n = leaves[leaf, NODE], leaves[leaf, STOP] - leaves[leaf, START]
        sums[node, 0] = float(leaf_sums[leaf, 0]) * gradient_unit
        sums[node, 1] = max(float(leaf_sums[leaf, 1]) * hessian_unit, LEAST_HESSIAN * n)
    for back in range(now[NODES]):
        node = now[NODES] - 1 - back
        if nodes[node, FEATURE] >= 0.0:  # children come after their parents
            left = int(nodes[node, LEFT_NODE])
            sums[node, 0] = sums[left, 0] + sums[left + 1, 0]
            sums[node, 1] = sums[left, 1] + sums[left + 1, 1]
    bounds[0, 0], bounds[0, 1] = -math.inf, math.inf
    for node in range(now[NODES]):
        if nodes[node, FEATURE] >= 0.0:
            feature = int(nodes[node, FEATURE])
            way = ways[feature] if nodes[node, LAST] < n_bins[feature] - 1 else 0
            _bound_children(int(nodes[node, LEFT_NODE]), way, sums, bounds[node], bounds)


@cuda.jit(device=True, cache=True)
def _bound_children(left: int, way: int, sums: Array, own: Array, bounds: Array) -> None:
    """The bounds of both children of a node, whose own are given."""
    low, high = own
    for child in range(left, left + 2):
        bounds[child, 0], bounds[child, 1] = low, high
    if way != 0:
        lower_value = min(max(_quotient(sums[left]), low), high)
        two = min(max(_quotient(sums[left + 1]), low), high)
        lower, upper = (left, left + 1) if way > 0 else (left + 1, left)
        bounds[lower, 1] = bounds[upper, 0] = lower_value + (two - lower_value) / 2


@cuda.jit(device=True, cache=True)
def _quotient(sums: Array) -> float:
    """The best value of some rows, from their sums."""
    return sums[0] / sums[1] if sums[1] > 0.0 else 0.0


@cuda.jit(cache=True)
def add_leaves(
    rows: Array, leaves: Array, now: Array, facts: Array, totals: Array, leaf_sums: Array, shrinkage: float,
    bounds: Array, nodes: Array, scores: Array,
) -> None:  # fmt: skip
    """Set the value of every leaf (y), within ``bounds`` if there are any, and add it to the scores of its rows."""
    leaf, n = cuda.blockIdx.y, scores.size
    if leaf >= now[LEAVES]:
        return
    start, stop, side = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE]
    gradient = float(leaf_sums[leaf, 0]) * _fine(facts[_GRADIENT], totals[0, 0], n)
    hessian = float(leaf_sums[leaf, 1]) * _fine(facts[_HESSIAN], totals[0, 1], n)
    node, low, high = leaves[leaf, NODE], -math.inf, math.inf
    if bounds.shape[0] > 0:
        low, high = bounds[node, 0], bounds[node, 1]
    value = leaf_value(gradient, hessian, stop - start, shrinkage, low, high)
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if first == 0:
        nodes[node, VALUE] = value
        if leaf == 0:
            end = nodes.shape[0] - 1
            nodes[end, 0], nodes[end, 1], nodes[end, 2] = now[NODES], facts[_GRADIENT_UNIT], facts[_HESSIAN_UNIT]
    for k in range(start + first, stop, cuda.gridDim.x * cuda.blockDim.x):
        scores[rows[side, k]] += value


@cuda.jit(cache=True)
def add_tree(bins: Array, nodes: Array, tables: Array, skip: Array, scores: Array) -> None:
    """Add the tree to the scores of rows, by their bins; but not to rows that ``skip`` marks, if it is not empty."""
    for row in range(cuda.grid(1), scores.size, cuda.gridsize(1)):
        if skip.size > 0 and skip[row]:
            continue
        node = 0
        while nodes[node, FEATURE] >= 0.0:
            feature = int(nodes[node, FEATURE])
            code = bins[feature // TILE, row, feature % TILE]
            goes_left = nodes[node, MISSING_LEFT] == 1.0 if code == MISSING else code <= nodes[node, LAST]
            if nodes[node, IS_SET] == 1.0:
                goes_left = is_in(tables[node], code)
            node = int(nodes[node, LEFT_NODE]) + (0 if goes_left else 1)
        scores[row] += nodes[node, VALUE]
