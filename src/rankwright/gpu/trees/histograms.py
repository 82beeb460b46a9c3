"""Rows of leaves on the device: divided by a split, and added up to histograms of whole numbers.

The order of rows and of blocks does not change the sums. A block sums the rows of 16 features: for each bin 16
gradients and 16 hessians, then 16 counts. Half of a warp adds gradients, the other half hessians, four rows at a
time; a lane begins with another feature of its word for each of the four, so that no two lanes of a warp need the same
bank.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64

from rankwright.boosting.histograms import LEAST_UNIT, MOST
from rankwright.boosting.learner import LEAST_HESSIAN, leaf_value
from rankwright.data.hashes import child_salt, is_drawn
from rankwright.gpu.blockwise import add_up, scan
from rankwright.gpu.trees.state import (
    BY_SET,
    CODE,
    COUNTS,
    FEATURE,
    IS_SET,
    LAST,
    LEAVES,
    LEFT,
    LEFT_NODE,
    MISSING,
    MISSING_LEFT,
    NODE,
    NODES,
    RIGHT,
    SALT,
    SIDE,
    SIZE,
    SPLIT,
    SPLIT_FEATURE,
    START,
    STOP,
    THREADS,
    TILE,
    VALUE,
    child_of,
    is_in,
)

STRIP = 8
"""Rows that a thread of `divide` moves at a time."""
_ROWS_A_PART = 1 << 10  # that a block sums up, at least


@cuda.jit(cache=True)
def divide(bins: Any, rows: Any, leaves: Any, now: Any, tables: Any) -> None:
    """Move the rows of the leaf that is split to the other list: those that go left to the front, others last."""
    counts = cuda.shared.array(THREADS, int32)
    base = cuda.shared.array(2, int32)
    leaf = now[SPLIT]
    if leaf < 0:
        return
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    start, stop, side = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE]
    feature, code = leaves[leaf, SPLIT_FEATURE], leaves[leaf, CODE]
    tile, place, last, missing_left = feature // TILE, feature % TILE, code & 255, (code >> 8) & 1
    for chunk in range(start + cuda.blockIdx.x * threads * STRIP, stop, cuda.gridDim.x * threads * STRIP):
        first = chunk + t * STRIP
        end, n = min(first + STRIP, stop), min(threads * STRIP, stop - chunk)
        lefts, bits = 0, 0
        for k in range(first, end):
            found = bins[tile, rows[side, k], place]
            goes_left = missing_left == 1 if found == MISSING else found <= last
            if code >= BY_SET:
                goes_left = is_in(tables[leaf], found)
            if goes_left:
                lefts += 1
                bits |= 1 << (k - first)
        counts[t] = lefts
        cuda.syncthreads()
        scan(counts)
        if t == threads - 1:
            base[0] = cuda.atomic.add(now, LEFT, counts[t])
            base[1] = cuda.atomic.add(now, RIGHT, n - counts[t])
        cuda.syncthreads()
        before = counts[t] - lefts
        at_left = start + base[0] + before
        at_right = stop - base[1] - (n - counts[threads - 1]) + (first - chunk - before)
        for k in range(first, end):
            if (bits >> (k - first)) & 1:
                rows[1 - side, at_left] = rows[side, k]
                at_left += 1
            else:
                rows[1 - side, at_right] = rows[side, k]
                at_right += 1
        cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def salt_of(leaves: Any, now: Any, child: int) -> Any:
    """What the smaller child (0) or the larger one (1) draws by."""
    salt = np.uint64(leaves[now[SPLIT], SALT])
    if now[LEAVES] == 0:
        return salt
    return child_salt(salt, (now[LEFT] <= now[RIGHT]) != (child == 0))


@cuda.jit(cache=True)
def add_rows(packed_bins: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any) -> None:
    """Histograms of the smaller child: a block for each tile of features (x) and part of the rows (y)."""
    _add_rows(packed_bins, rows, pairs, leaves, now, sums, None)


@cuda.jit(cache=True)
def add_samples(packed_bins: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any, share: float) -> None:
    """Histograms of samples of both children (z)."""
    _add_rows(packed_bins, rows, pairs, leaves, now, sums, share)


@cuda.jit(device=True, cache=True)
def _add_rows(packed_bins: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any, share: Any) -> None:
    """The rows of a child, or the ``share`` of them that it draws: None is all, and leaves out the code for that."""
    shared = cuda.shared.array(SIZE, int32)
    if now[SPLIT] < 0:
        return
    child = cuda.blockIdx.z
    start, stop, side, slot = child_of(leaves, now, child, share is not None)
    parts = min(cuda.gridDim.y, max(1, (stop - start) // _ROWS_A_PART))
    part, tile, t = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x
    if part >= parts or stop <= start:
        return
    salt = np.uint64(0) if share is None else salt_of(leaves, now, child)
    for i in range(t, SIZE, cuda.blockDim.x):
        shared[i] = 0
    cuda.syncthreads()
    first, last = start + (stop - start) * part // parts, start + (stop - start) * (part + 1) // parts
    half, turn, word_at, step = (t >> 4) & 1, (t >> 2) & 3, t & 3, 4 * (cuda.blockDim.x >> 5)
    k, end = first + 4 * (t >> 5) + turn, last - 1
    row, other = rows[side, min(k, end)], rows[side, min(k + step, end)]
    while k < last:  # two rows at a time, and the next two are looked up: the device reads while it adds
        more = 1 if k + step < last else 0
        word, other_word = packed_bins[tile, row, word_at], packed_bins[tile, other, word_at]
        value, other_value = pairs[row, half], pairs[other, half]
        count = 1
        if share is not None:
            count = 1 if is_drawn(np.uint64(row), salt, share) else 0
            more = more if is_drawn(np.uint64(other), salt, share) else 0
            value *= count
        k += 2 * step
        row, other = rows[side, min(k, end)], rows[side, min(k + step, end)]
        _add_word(shared, word, value, count, half, turn, word_at)
        _add_word(shared, other_word, other_value * more, more, half, turn, word_at)
    cuda.syncthreads()
    base, shift = (slot * cuda.gridDim.x + tile) * SIZE, part * SIZE // parts
    for i in range(t, SIZE, cuda.blockDim.x):
        at = (i + shift) % SIZE  # blocks begin apart from each other, so that they need not wait
        if shared[at] != 0:
            cuda.atomic.add(sums, base + at, shared[at])


@cuda.jit(device=True, cache=True)
def _add_word(own: Any, word: int, value: int, count: int, half: int, turn: int, word_at: int) -> None:
    """Add a row to the histograms of the four features of a word; of counts, half of a warp adds two each."""
    for step in range(4):
        at = (step + turn) & 3
        code = (word >> (8 * at)) & 255
        cuda.atomic.add(own, np.uint32(2 * TILE * code + TILE * half + 4 * word_at + at), value)
    for step in range(2):
        at = (2 * half + step + turn) & 3
        code = (word >> (8 * at)) & 255
        cuda.atomic.add(own, np.uint32(COUNTS + TILE * code + 4 * word_at + at), count)


@cuda.jit(cache=True)
def add_squares(rows: Any, pairs: Any, leaves: Any, now: Any, share: float, squares: Any) -> None:
    """Squares of the gradients of both children (y), or of their samples; |gradients| sum to less than 2³¹."""
    held = cuda.shared.array(THREADS, int64)
    if now[SPLIT] < 0:
        return
    child, t = cuda.blockIdx.y, cuda.threadIdx.x
    start, stop, side, _ = child_of(leaves, now, child, share < 1.0)
    salt, total = salt_of(leaves, now, child), int64(0)
    for k in range(start + cuda.blockIdx.x * cuda.blockDim.x + t, stop, cuda.gridDim.x * cuda.blockDim.x):
        row = rows[side, k]
        if share >= 1.0 or is_drawn(np.uint64(row), salt, share):
            total += int64(pairs[row, 0]) * int64(pairs[row, 0])
    total = add_up(total, held)
    if t == 0 and total > 0:
        cuda.atomic.add(squares, child, total)


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


def known_of(nodes: Any) -> tuple[int, float]:
    """The number of nodes and what a gain in units is worth, which are in the row after all nodes."""
    n_nodes, gradient_unit, hessian_unit = nodes[-1, :3]
    return int(n_nodes), float(gradient_unit**2 / hessian_unit)


@cuda.jit(cache=True)
def start_sums(facts: Any, totals: Any, leaf_sums: Any) -> None:
    """Everything that is summed is 0."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for i in range(first, leaf_sums.shape[0], step):
        leaf_sums[i, 0] = leaf_sums[i, 1] = 0
    if first == 0:
        facts[_GRADIENT] = facts[_HESSIAN] = 0.0
        totals[0, 0] = totals[0, 1] = 0


@cuda.jit(cache=True)
def largest(gradients: Any, hessians: Any, facts: Any) -> None:
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
def _add_both(first: int, second: int, held: Any, sums: Any, row: int) -> None:
    """Add two whole numbers of every thread of a block to a row of sums."""
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    held[0, t], held[1, t] = first, second
    cuda.syncthreads()
    while step > 0:
        if t < step:
            held[0, t] += held[0, t + step]
            held[1, t] += held[1, t + step]
        cuda.syncthreads()
        step //= 2
    if t < 2:
        cuda.atomic.add(sums, (row, t), held[t, 0])


@cuda.jit(cache=True)
def total(gradients: Any, hessians: Any, facts: Any, totals: Any) -> None:
    """Σ |gradients| and Σ hessians in the smallest units; ``totals`` has one row."""
    held = cuda.shared.array((2, THREADS), int64)
    gradient, hessian = np.int64(0), np.int64(0)
    per_gradient, per_hessian = (
        _per_least(facts[_GRADIENT], gradients.size),
        _per_least(facts[_HESSIAN], gradients.size),
    )
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
def pack_rows(gradients: Any, hessians: Any, newton: bool, facts: Any, totals: Any, pairs: Any) -> None:
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
def smooth_categories(pairs: Any, smooth_rows: float, total: Any, smooth: Any) -> None:
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
    rows: Any, leaves: Any, now: Any, gradients: Any, hessians: Any, facts: Any, totals: Any, leaf_sums: Any
) -> None:  # fmt: skip
    """Sums of gradients and hessians of every leaf (y), a part of its rows in every block (x)."""
    held = cuda.shared.array((2, THREADS), int64)
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
    leaves: Any, now: Any, n_rows: int, facts: Any, totals: Any, leaf_sums: Any, nodes: Any, ways: Any, n_bins: Any,
    sums: Any, bounds: Any,
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
def _bound_children(left: int, way: int, sums: Any, own: Any, bounds: Any) -> None:
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
def _quotient(sums: Any) -> float:
    """The best value of some rows, from their sums."""
    return sums[0] / sums[1] if sums[1] > 0.0 else 0.0


@cuda.jit(cache=True)
def add_leaves(
    rows: Any, leaves: Any, now: Any, facts: Any, totals: Any, leaf_sums: Any, shrinkage: float, bounds: Any,
    nodes: Any, scores: Any,
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
def add_tree(bins: Any, nodes: Any, tables: Any, skip: Any, scores: Any) -> None:
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
