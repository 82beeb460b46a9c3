"""Growing a tree on the card: rows of leaves divided, histograms as whole numbers, splits, the best leaf first.

Everything is decided on the card. Each split takes three launches: `divide` moves the rows of the leaf that is split,
`add_rows` sums the rows of its smaller child, and `search` subtracts these sums from the parent's, finds the best split
of both children and the leaf to split next. Sums are whole numbers, so neither the order of rows nor that of blocks
changes them.

A block sums the rows of 16 features: for each bin 16 residuals and 16 curvatures, then 16 counts. Half of a warp adds
residuals, the other half curvatures, four rows at a time; a lane begins with another feature of its word for each of
the four, so that no two lanes of a warp need the same bank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64, int32

__all__ = [
    "COUNT", "FEATURE", "FOUND", "GAIN", "LAST", "LEAVES", "LEFT_NODE", "MISSING", "MISSING_LEFT", "NODE", "NODES",
    "NOW", "OF_LEAF", "OF_NODE", "SIDE", "SIZE", "START", "STOP", "STRIP", "TILE", "VALUE", "add_rows", "divide",
    "finish", "search", "start_tree",
]  # fmt: skip

TILE = 16
"""Features of a block."""
SIZE = 256 * 3 * TILE
"""Numbers in the histograms of a tile."""
STRIP = 8
"""Rows that a thread of `divide` moves at a time."""
_COUNTS = 256 * 2 * TILE  # where the counts of a tile begin
MISSING = 255
_THREADS = 256  # of a block, at most
_ROWS_A_PART = 1 << 10  # that a block sums up, at least
_LEAST = 1  # units of curvature in a part

# A leaf: its node, its rows and in which of the two lists they are, its histogram, its best split, its place.
NODE, START, STOP, SIDE, _SLOT, _FEATURE, _CODE, _PLACE, OF_LEAF = range(9)
# A tree so far: leaves, nodes, the leaf to split (−1: none is worth it), rows to its left and right, blocks done.
LEAVES, NODES, _SPLIT, _LEFT, _RIGHT, _DONE, NOW = range(7)
# A node, as the host reads it.
FEATURE, LAST, MISSING_LEFT, LEFT_NODE, VALUE, GAIN, COUNT, OF_NODE = range(8)
FOUND = 2
"""What is found for every child and feature: the gain, and the split as a number (bin, + 256: missing values left)."""


@cuda.jit(cache=True)
def start_tree(n_rows: Any, all_rows: bool, rows: Any, sums: Any, leaves: Any, now: Any) -> None:
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
        leaves[0, NODE] = leaves[0, _SLOT] = leaves[0, _PLACE] = 0


@cuda.jit(device=True, cache=True)
def _scan(values: Any) -> None:
    """Running sums over the threads of a block."""
    t, step = cuda.threadIdx.x, 1
    while step < cuda.blockDim.x:
        add = values[t - step] if t >= step else 0
        cuda.syncthreads()
        values[t] += add
        cuda.syncthreads()
        step *= 2


@cuda.jit(device=True, cache=True)
def _child(leaves: Any, now: Any, child: int) -> Any:
    """First row, one past the last, their list and their histogram: of the smaller child (0) or the larger one (1).

    Before the first split the root is the smaller one, and the other has no rows.
    """
    leaf = now[_SPLIT]
    start, stop, side, slot = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, _SLOT]
    if now[LEAVES] == 0:
        return (start, start if child else stop, side, slot)
    middle = start + now[_LEFT]
    is_left = (middle - start <= stop - middle) == (child == 0)
    own_slot = slot if child else now[LEAVES]
    return (start, middle, 1 - side, own_slot) if is_left else (middle, stop, 1 - side, own_slot)


@cuda.jit(cache=True)
def divide(bins: Any, rows: Any, leaves: Any, now: Any) -> None:
    """Move the rows of the leaf that is split to the other list: those that go left to the front, others last."""
    counts = cuda.shared.array(_THREADS, int32)
    base = cuda.shared.array(2, int32)
    leaf = now[_SPLIT]
    if leaf < 0:
        return
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    start, stop, side = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE]
    feature, code = leaves[leaf, _FEATURE], leaves[leaf, _CODE]
    tile, place, last, missing_left = feature // TILE, feature % TILE, code & 255, code >> 8
    for chunk in range(start + cuda.blockIdx.x * threads * STRIP, stop, cuda.gridDim.x * threads * STRIP):
        first = chunk + t * STRIP
        end, n = min(first + STRIP, stop), min(threads * STRIP, stop - chunk)
        lefts, bits = 0, 0
        for k in range(first, end):
            found = bins[tile, rows[side, k], place]
            goes_left = missing_left == 1 if found == MISSING else found <= last
            if goes_left:
                lefts += 1
                bits |= 1 << (k - first)
        counts[t] = lefts
        cuda.syncthreads()
        _scan(counts)
        if t == threads - 1:
            base[0] = cuda.atomic.add(now, _LEFT, counts[t])
            base[1] = cuda.atomic.add(now, _RIGHT, n - counts[t])
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


@cuda.jit(cache=True)
def add_rows(words: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any) -> None:
    """Histograms of the smaller child: a block for each tile of features (x) and part of the rows (y)."""
    own = cuda.shared.array(SIZE, int32)
    if now[_SPLIT] < 0:
        return
    start, stop, side, slot = _child(leaves, now, 0)
    parts = min(cuda.gridDim.y, max(1, (stop - start) // _ROWS_A_PART))
    part, tile, t = cuda.blockIdx.y, cuda.blockIdx.x, cuda.threadIdx.x
    if part >= parts:
        return
    for i in range(t, SIZE, cuda.blockDim.x):
        own[i] = 0
    cuda.syncthreads()
    first, last = start + (stop - start) * part // parts, start + (stop - start) * (part + 1) // parts
    half, turn, word_at, step = (t >> 4) & 1, (t >> 2) & 3, t & 3, 4 * (cuda.blockDim.x >> 5)
    k, end = first + 4 * (t >> 5) + turn, last - 1
    row, other = rows[side, min(k, end)], rows[side, min(k + step, end)]
    while k < last:  # two rows at a time, and the next two are looked up: the card reads while it adds
        more = 1 if k + step < last else 0
        word, other_word = words[tile, row, word_at], words[tile, other, word_at]
        value, other_value = pairs[row, half], pairs[other, half]
        k += 2 * step
        row, other = rows[side, min(k, end)], rows[side, min(k + step, end)]
        _add_word(own, word, value, 1, half, turn, word_at)
        _add_word(own, other_word, other_value * more, more, half, turn, word_at)
    cuda.syncthreads()
    base, shift = (slot * cuda.gridDim.x + tile) * SIZE, part * SIZE // parts
    for i in range(t, SIZE, cuda.blockDim.x):
        at = (i + shift) % SIZE  # blocks begin apart from each other, so that they need not wait
        if own[at] != 0:
            cuda.atomic.add(sums, base + at, own[at])


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
        cuda.atomic.add(own, np.uint32(_COUNTS + TILE * code + 4 * word_at + at), count)


@cuda.jit(device=True, cache=True)
def _gain(left: Any, total: Any, min_rows: int) -> float:
    """The gain times H of a split, −1 where a part has too little curvature or too few rows."""
    (g_left, h_left, n_left), (g, h, n) = left, total
    if h_left < _LEAST or h - h_left < _LEAST or n_left < min_rows or n - n_left < min_rows:
        return -1.0
    apart = float(g_left * h - g * h_left)
    return apart * apart / (float(h_left) * float(h - h_left))


@cuda.jit(device=True, cache=True)
def _best(gains: Any, codes: Any) -> None:
    """The largest gain of the threads of a block, the lowest code of equal ones, to place 0."""
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    cuda.syncthreads()
    while step > 0:
        if t < step:
            gain, code = gains[t + step], codes[t + step]
            if gain > gains[t] or (gain == gains[t] and code < codes[t]):
                gains[t], codes[t] = gain, code
        cuda.syncthreads()
        step //= 2


@cuda.jit(device=True, cache=True)
def _load(sums: Any, slot: int, minuend: int, n_tiles: int, feature: int, values: Any) -> None:
    """The histogram of a feature to shared memory; of a larger child it is ``minuend``'s less ``slot``'s, and stays."""
    base = (slot * n_tiles + feature // TILE) * SIZE
    parent = (minuend * n_tiles + feature // TILE) * SIZE
    for b in range(cuda.threadIdx.x, 256, cuda.blockDim.x):
        for kind in range(3):
            at = _COUNTS + TILE * b if kind == 2 else 2 * TILE * b + TILE * kind
            at += feature % TILE
            value = sums[base + at]
            if minuend >= 0:
                value = sums[parent + at] - value
                sums[parent + at] = value
            values[kind, b] = value
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _before(values: Any, running: Any, kind: int, first: int, width: int) -> Any:
    """The sum of all bins before a thread's own, missing values apart."""
    total = 0
    for b in range(first, min(first + width, MISSING)):
        total += values[kind, b]
    running[kind, cuda.threadIdx.x] = total
    cuda.syncthreads()
    _scan(running[kind])
    return np.int64(running[kind, cuda.threadIdx.x]) - total


@cuda.jit(device=True, cache=True)
def _best_split(values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int) -> float:
    """The best split of a feature to place 0 of ``gains`` and ``codes``; returns the curvature of all rows."""
    t, width = cuda.threadIdx.x, 256 // cuda.blockDim.x
    first, end = t * width, cuda.blockDim.x - 1
    g = _before(values, running, 0, first, width)
    h = _before(values, running, 1, first, width)
    n = _before(values, running, 2, first, width)
    missing = (np.int64(values[0, MISSING]), np.int64(values[1, MISSING]), np.int64(values[2, MISSING]))
    total = (running[0, end] + missing[0], running[1, end] + missing[1], running[2, end] + missing[2])
    n_splits = n_bins if missing[2] > 0 else n_bins - 1
    best, code = -1.0, 512
    for side in range(2 if missing[2] > 0 else 1):
        left_g, left_h, left_n = g + side * missing[0], h + side * missing[1], n + side * missing[2]
        for b in range(first, min(first + width, n_splits - side)):
            left_g += values[0, b]
            left_h += values[1, b]
            left_n += values[2, b]
            gain = _gain((left_g, left_h, left_n), total, min_rows)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    _best(gains, codes)
    return float(total[1])


@cuda.jit(cache=True)
def search(
    sums: Any, n_bins: Any, allowed: Any, min_rows: int, leaves: Any, leaf_gains: Any, now: Any, found: Any, nodes: Any
) -> None:  # fmt: skip
    """The best split of every feature (x) of both children (y); the last block chooses what is split next."""
    values = cuda.shared.array((3, 256), int32)
    running = cuda.shared.array((3, _THREADS), int32)
    gains = cuda.shared.array(_THREADS, float64)
    codes = cuda.shared.array(_THREADS, int32)
    is_last = cuda.shared.array(1, int32)
    if now[_SPLIT] < 0 or cuda.blockIdx.z > 0:
        return
    feature, child, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    start, stop, _, slot = _child(leaves, now, child)
    h = 0.0
    if stop > start:
        n_tiles = (cuda.gridDim.x + TILE - 1) // TILE
        _load(sums, now[LEAVES] if child else slot, slot if child else -1, n_tiles, feature, values)
        h = _best_split(values, running, gains, codes, n_bins[feature], min_rows)
    if t == 0:
        good = stop > start and allowed[feature] and gains[0] >= 0.0
        found[child, feature, 0] = gains[0] / max(h, 1.0) if good else -1.0
        found[child, feature, 1] = codes[0] if good else 0
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(now, _DONE, 1) == cuda.gridDim.x * cuda.gridDim.y - 1
    cuda.syncthreads()
    if is_last[0]:
        cuda.threadfence()
        _settle(leaves, leaf_gains, now, found, nodes, gains, codes)


@cuda.jit(device=True, cache=True)
def _settle(leaves: Any, leaf_gains: Any, now: Any, found: Any, nodes: Any, gains: Any, codes: Any) -> None:
    """Record the children and their best splits, and choose the leaf to split next: one block."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    _commit(leaves, leaf_gains, now, nodes)
    for child in range(2):
        best, at = -2.0, 0
        for feature in range(t, found.shape[1], threads):
            if found[child, feature, 0] > best:
                best, at = found[child, feature, 0], feature
        gains[t], codes[t] = best, at
        _best(gains, codes)
        if t == 0:
            _note_split(leaves, leaf_gains, now, found, child, codes[0])
        cuda.syncthreads()
    best, at = -2.0, 0
    for leaf in range(t, now[LEAVES], threads):
        better = leaf_gains[leaf] > best
        if better or (leaf_gains[leaf] == best and leaves[leaf, _PLACE] < at):
            best, at = leaf_gains[leaf], leaves[leaf, _PLACE]
    gains[t], codes[t] = best, at
    _best(gains, codes)
    if t == 0:
        now[_SPLIT] = -1
        now[_LEFT] = now[_RIGHT] = now[_DONE] = 0
    cuda.syncthreads()
    for leaf in range(t, now[LEAVES], threads):
        if leaves[leaf, _PLACE] == codes[0] and gains[0] > 0.0:
            now[_SPLIT] = leaf


@cuda.jit(device=True, cache=True)
def _note_split(leaves: Any, leaf_gains: Any, now: Any, found: Any, child: int, feature: int) -> None:
    """The best split of a child that was just recorded: the last leaf, or the one that was split."""
    n_leaves = now[LEAVES]
    leaf = now[_SPLIT]
    if n_leaves > 1:
        is_small = leaves[leaf, _SLOT] == n_leaves - 1
        leaf = leaf if is_small == (child == 0) else n_leaves - 1
    elif child == 1:
        return
    leaf_gains[leaf] = found[child, feature, 0]
    leaves[leaf, _FEATURE], leaves[leaf, _CODE] = feature, int(found[child, feature, 1])


@cuda.jit(device=True, cache=True)
def _commit(leaves: Any, leaf_gains: Any, now: Any, nodes: Any) -> None:
    """Put the children in the place of the leaf that was split: one block."""
    leaf, n_leaves = now[_SPLIT], now[LEAVES]
    place = leaves[leaf, _PLACE]
    cuda.syncthreads()
    for other in range(cuda.threadIdx.x, n_leaves, cuda.blockDim.x):
        if leaves[other, _PLACE] > place:
            leaves[other, _PLACE] += 1
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and n_leaves == 0:
        now[LEAVES] = now[NODES] = 1
        nodes[0, FEATURE], nodes[0, COUNT] = -1.0, leaves[0, STOP]
    elif cuda.threadIdx.x == 0:
        small, large = _child(leaves, now, 0), _child(leaves, now, 1)
        left, right = (small, large) if small[0] <= large[0] else (large, small)
        node, below, gain = leaves[leaf, NODE], now[NODES], leaf_gains[leaf]  # all is read before anything is written
        feature, code = leaves[leaf, _FEATURE], leaves[leaf, _CODE]
        nodes[node, FEATURE], nodes[node, LEFT_NODE], nodes[node, GAIN] = feature, below, gain
        nodes[node, LAST], nodes[node, MISSING_LEFT], nodes[node, VALUE] = code & 255, code >> 8, 0.0
        _set_leaf(leaves, leaf, below, left, place, nodes)
        _set_leaf(leaves, n_leaves, below + 1, right, place + 1, nodes)
        leaf_gains[leaf] = leaf_gains[n_leaves] = -1.0
        now[LEAVES], now[NODES] = n_leaves + 1, below + 2
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _set_leaf(leaves: Any, leaf: int, node: int, rows: Any, place: int, nodes: Any) -> None:
    leaves[leaf, NODE], leaves[leaf, _PLACE] = node, place
    leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, _SLOT] = rows
    nodes[node, FEATURE], nodes[node, COUNT] = -1.0, rows[1] - rows[0]
    nodes[node, GAIN] = nodes[node, VALUE] = 0.0


@cuda.jit(cache=True)
def finish(leaves: Any, leaf_gains: Any, now: Any, nodes: Any) -> None:
    """Record the children of the last split, which are not split again."""
    if now[_SPLIT] >= 0 and cuda.blockIdx.x == 0:
        _commit(leaves, leaf_gains, now, nodes)
