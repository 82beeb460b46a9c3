"""Leaves of a tree on the device: divided, added up to histograms of whole numbers, and searched for their best splits.

Everything is decided there, so the host reads nothing before the tree is finished. Each split takes three launches:
`divide` moves the rows of the leaf that is split, `add_rows` sums the rows of its smaller child, and `search` subtracts
these sums from the parent's, finds the best split of both children and the leaf to split next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int32, int64

from rankwright._types import Arguments, Array
from rankwright.boosting.binning import MISSING
from rankwright.data.hashes import child_salt, is_drawn, of_feature
from rankwright.gpu.blockwise import add_up, scan

TILE = 16
"""Features whose bins are stored together."""
SIZE = 256 * 3 * TILE
"""Numbers in the histograms of a tile: for each bin 16 gradients and 16 hessians, then 16 counts for each."""
COUNTS = 256 * 2 * TILE
"""Where the counts of a tile begin."""
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
    n_rows: Array, all_rows: bool, salt: Array, rows: Array, sums: Array, leaves: Array, reals: Array, now: Array,
    squares: Array
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
def child_of(leaves: Array, now: Array, child: int, sampled: bool) -> Any:
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
def is_in(words: Array, code: int) -> bool:
    """Whether a set of bins has this one."""
    return (words[code >> 5] >> (code & 31)) & 1 == 1


# The rows of leaves: divided by a split, and added up to histograms of whole numbers.
#
# The order of rows and of blocks does not change the sums. A block sums the rows of 16 features: for each bin 16
# gradients and 16 hessians, then 16 counts. Half of a warp adds gradients, the other half hessians, four rows at a
# time; a lane begins with another feature of its word for each of the four, so that no two lanes of a warp need the
# same bank.


STRIP = 8
"""Rows that a thread of `divide` moves at a time."""
_ROWS_A_PART = 1 << 10  # that a block sums up, at least


@cuda.jit(cache=True)
def divide(bins: Array, rows: Array, leaves: Array, now: Array, tables: Array) -> None:
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
            bin_code = bins[tile, rows[side, k], place]
            goes_left = missing_left == 1 if bin_code == MISSING else bin_code <= last
            if code >= BY_SET:
                goes_left = is_in(tables[leaf], bin_code)
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
def salt_of(leaves: Array, now: Array, child: int) -> Any:
    """What the smaller child (0) or the larger one (1) draws by."""
    salt = np.uint64(leaves[now[SPLIT], SALT])
    if now[LEAVES] == 0:
        return salt
    return child_salt(salt, (now[LEFT] <= now[RIGHT]) != (child == 0))


@cuda.jit(cache=True)
def add_rows(packed_bins: Array, rows: Array, pairs: Array, leaves: Array, now: Array, sums: Array) -> None:
    """Histograms of the smaller child: a block for each tile of features (x) and part of the rows (y)."""
    _add_rows(packed_bins, rows, pairs, leaves, now, sums, None)


@cuda.jit(cache=True)
def add_samples(
    packed_bins: Array, rows: Array, pairs: Array, leaves: Array, now: Array, sums: Array, share: float
) -> None:
    """Histograms of samples of both children (z)."""
    _add_rows(packed_bins, rows, pairs, leaves, now, sums, share)


@cuda.jit(device=True, cache=True)
def _add_rows(
    packed_bins: Array, rows: Array, pairs: Array, leaves: Array, now: Array, sums: Array, share: Any
) -> None:
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
def _add_word(own: Array, word: int, value: int, count: int, half: int, turn: int, word_at: int) -> None:
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
def add_squares(rows: Array, pairs: Array, leaves: Array, now: Array, share: float, squares: Array) -> None:
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


# The best split of a feature on the device, from its histogram: as `rankwright.boosting.histograms` finds it.
#
# A block of threads has the bins of one feature in shared memory: gradients, hessians and rows, missing values last.


_LEAST = 1  # units of hessian in a part


@cuda.jit(device=True, cache=True)
def load(sums: Array, slot: int, minuend: int, n_tiles: int, feature: int, values: Array) -> None:
    """The histogram of a feature to shared memory; of a larger child it is ``minuend``'s less ``slot``'s, and stays."""
    base = (slot * n_tiles + feature // TILE) * SIZE
    parent = (minuend * n_tiles + feature // TILE) * SIZE
    for b in range(cuda.threadIdx.x, 256, cuda.blockDim.x):
        for kind in range(3):
            at = COUNTS + TILE * b if kind == 2 else 2 * TILE * b + TILE * kind
            at += feature % TILE
            value = sums[base + at]
            if minuend >= 0:
                value = sums[parent + at] - value
                sums[parent + at] = value
            values[kind, b] = value
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _before(values: Array, running: Array, kind: int, first: int, width: int) -> Any:
    """The sum of all bins before a thread's own, missing values apart."""
    total = 0
    for b in range(first, min(first + width, MISSING)):
        total += values[kind, b]
    running[kind, cuda.threadIdx.x] = total
    cuda.syncthreads()
    scan(running[kind])
    return np.int64(running[kind, cuda.threadIdx.x]) - total


@cuda.jit(device=True, cache=True)
def totals_of(values: Array, running: Array) -> Any:
    """Gradients, hessians and counts: of all rows, of missing values, and of the bins before a thread's own."""
    width, end = 256 // cuda.blockDim.x, cuda.blockDim.x - 1
    first = cuda.threadIdx.x * width
    g = _before(values, running, 0, first, width)
    h = _before(values, running, 1, first, width)
    n = _before(values, running, 2, first, width)
    missing = (np.int64(values[0, MISSING]), np.int64(values[1, MISSING]), np.int64(values[2, MISSING]))
    total = (running[0, end] + missing[0], running[1, end] + missing[1], running[2, end] + missing[2])
    cuda.syncthreads()
    return total, missing, (g, h, n)


@cuda.jit(device=True, cache=True)
def _gain(g_left: int, h_left: int, g: int, h: int) -> float:
    """The gain of a split, times H."""
    apart = float(g_left * h - g * h_left)
    return apart * apart / (float(h_left) * float(h - h_left))


@cuda.jit(device=True, cache=True)
def largest_gain(gains: Array, codes: Array) -> None:
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
def best_split(
    values: Array, running: Array, gains: Array, codes: Array, n_bins: int, min_rows: int, bounded: Any
) -> float:  # fmt: skip
    """The best split, a gain and a code to place 0 of ``gains`` and ``codes``; −1 if there is none.

    ``bounded`` is None, or the lowest and the highest value of a part, and the way in which values must go from left to
    right: up (1) or down (−1). A split that only sets missing values apart may have them in any order.
    """
    t, width = cuda.threadIdx.x, 256 // cuda.blockDim.x
    total, missing, before = totals_of(values, running)
    n_splits = n_bins if missing[2] > 0 else n_bins - 1
    best, code = -1.0, 512
    for side in range(2 if missing[2] > 0 else 1):
        left_g, left_h = before[0] + side * missing[0], before[1] + side * missing[1]
        left_n = before[2] + side * missing[2]
        for b in range(t * width, min((t + 1) * width, n_splits - side)):
            left_g += values[0, b]
            left_h += values[1, b]
            left_n += values[2, b]
            if left_h < _LEAST or total[1] - left_h < _LEAST or left_n < min_rows or total[2] - left_n < min_rows:
                continue
            if bounded is None:
                gain = _gain(left_g, left_h, total[0], total[1])
            else:
                low, high, way = bounded
                way = way if b < n_bins - 1 else 0
                gain = _bounded_gain(float(left_g), float(left_h), float(total[0]), float(total[1]), low, high, way)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    largest_gain(gains, codes)
    if bounded is None:
        return gains[0] / max(float(total[1]), 1.0) if gains[0] >= 0.0 else -1.0
    return gains[0]


# Splits of categories, and splits under monotone constraints, on the device: those of `rankwright.boosting.histograms`.
#
# The bins of a categorical feature are sorted by their smoothed means and searched like others, and what chance gains
# is taken off; a set of bins goes left. Where leaves have bounds, each part gains what the best value within them does.


@cuda.jit(device=True, cache=True)
def _value(g: float, h: float, low: float, high: float) -> float:
    return min(max(g / h, low), high)


@cuda.jit(device=True, cache=True)
def _bounded_gain(g_left: float, h_left: float, g: float, h: float, low: float, high: float, way: int) -> float:
    """What the values of both parts gain over that of the whole; −1 if they go against ``way``."""
    g_right, h_right = g - g_left, h - h_left
    value_left, value_right = _value(g_left, h_left, low, high), _value(g_right, h_right, low, high)
    if way * (value_right - value_left) < 0:
        return -1.0
    if value_left == value_right:
        return 0.0
    if value_left == g_left / h_left and value_right == g_right / h_right:  # inside the bounds: as without them
        apart = g_left * h - g * h_left
        return apart * apart / (h_left * h_right * h)
    both = value_left * (2.0 * g_left - h_left * value_left) + value_right * (2.0 * g_right - h_right * value_right)
    undivided = _value(g, h, low, high)
    return max(both - undivided * (2.0 * g - h * undivided), 0.0)


@cuda.jit(device=True, cache=True)
def _limit(values: Array, code: int, low: float, high: float) -> float:
    """The mean of the best values of both parts of a split within bounds."""
    g = h = g_left = h_left = 0
    for b in range(256):
        g += values[0, b]
        h += values[1, b]
        goes_left = b <= (code & 255) if b != MISSING else code >= 256
        if goes_left:
            g_left += values[0, b]
            h_left += values[1, b]
    value_left = _value(float(g_left), float(h_left), low, high)
    two = _value(float(g - g_left), float(h - h_left), low, high)
    return value_left + (two - value_left) / 2.0


@cuda.jit(device=True, cache=True)
def _sort_bins(
    values: Array, running: Array, n_bins: int, smooth: float, means: Array, order: Array, moved: Array
) -> None:
    """The bins of a categorical feature by their smoothed means, equal ones in order; that of missing values stays."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    total, _, _ = totals_of(values, running)
    mean = float(total[0]) / max(float(total[1]), 1.0)
    for b in range(t, n_bins, threads):
        gradient, hessian = float(values[0, b]), float(values[1, b])
        if hessian + smooth > 0:
            means[b] = (gradient + smooth * mean) / (hessian + smooth)
        elif gradient == 0:
            means[b] = mean
        else:
            means[b] = math.copysign(math.inf, gradient)
    for b in range(t, 256, threads):
        order[b] = b
    cuda.syncthreads()
    for b in range(t, n_bins, threads):
        rank = 0
        for other in range(n_bins):
            if means[other] < means[b] or (means[other] == means[b] and other < b):
                rank += 1
        order[rank] = b
    cuda.syncthreads()
    for b in range(t, 256, threads):
        for kind in range(3):
            moved[kind, b] = values[kind, order[b]]
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _chance_gain(values: Array, n_bins: int, noise: float) -> float:
    """What a split of categories gains by chance if they all are the same: by one thread, in the order of the CPU."""
    roots, hessian = 0.0, 0.0
    for b in range(n_bins):
        h = float(values[1, b])
        roots += math.sqrt(h)
        hessian += h
    return 2.0 / math.pi * max(roots * roots / hessian - 1.0, 0.0) * noise if hessian > 0 else 0.0


@cuda.jit(device=True, cache=True)
def _note_set(order: Array, n_bins: int, code: int, table: Array) -> None:
    """The set of bins that go left; by one thread."""
    for word in range(WORDS):
        table[word] = 0
    for at in range(min((code & 255) + 1, n_bins)):
        table[order[at] >> 5] |= np.uint32(1) << np.uint32(order[at] & 31)
    if code >= 256:
        table[MISSING >> 5] |= np.uint32(1) << np.uint32(MISSING & 31)


@cuda.jit(device=True, cache=True)
def special_split(
    feature: int, values: Array, running: Array, gains: Array, codes: Array, n_bins: int, min_rows: int,
    bounds: Arguments, squares: int, special: Arguments, found: Array, table: Array,
) -> None:  # fmt: skip
    """The best split of a feature of any kind, to ``found``: its gain, its code, and the limit that it sets.

    `bounds`: the lowest and the highest value of the node. `squares`: of the gradients of the node. `special`: for
    every feature whether its bins are categories, and the way in which scores must go; hessian that smooths the means
    of categories. `table`: the set of bins that go left, of categories.
    """
    means = cuda.shared.array(256, float64)
    order = cuda.shared.array(256, int32)
    moved = cuda.shared.array((3, 256), int32)
    is_category, ways, smooth = special
    low, high = bounds
    is_bound = ways[feature] != 0 or low > -math.inf or high < math.inf
    if is_category[feature]:
        _sort_bins(values, running, n_bins, smooth[0], means, order, moved)
        if is_bound:
            gain = best_split(moved, running, gains, codes, n_bins, min_rows, (low, high, 0))
        else:
            gain = best_split(moved, running, gains, codes, n_bins, min_rows, None)
    elif is_bound:
        gain = best_split(values, running, gains, codes, n_bins, min_rows, (low, high, ways[feature]))
    else:
        gain = best_split(values, running, gains, codes, n_bins, min_rows, None)
    if cuda.threadIdx.x == 0 and gain < 0.0:
        found[0] = -1.0
    elif cuda.threadIdx.x == 0:
        found[1] = codes[0]
        if is_category[feature]:
            hessian = 0.0
            for b in range(256):
                hessian += values[1, b]
            gain -= _chance_gain(moved, n_bins, float(squares) / max(hessian, 1.0))
            _note_set(order, n_bins, codes[0], table)
            found[1] += BY_SET
        elif ways[feature] != 0:
            found[2] = _limit(values, codes[0], low, high) if codes[0] & 255 < n_bins - 1 else math.nan
        found[0] = gain
    cuda.syncthreads()


FOUND = 3
"""What is found for every child and feature: the gain, the split as a code, and what bounds the children's values."""


@cuda.jit(cache=True)
def search(
    sums: Array, features: Arguments, limits: Arguments, state: Arguments, nodes: Arguments, found: Arguments
) -> None:
    """The best split of every feature (x) of both children (y); the last block chooses what is split next.

    `features`: for every feature its bins, whether the tree may use it, its place among those that vary. `limits`:
    fewest rows of a leaf, the same of those drawn, and features that a node draws (0: all). `state`: leaves, in whole
    numbers and in floating point, their sets of bins, and the tree so far. `nodes`: nodes, and their sets of bins.
    `found`: what is found for every child and feature, and sets of bins.
    """
    _search(sums, features, limits, state, nodes, found, None)


@cuda.jit(cache=True)
def search_special(
    sums: Array, features: Arguments, limits: Arguments, state: Arguments, nodes: Arguments, found: Arguments,
    special: Arguments
) -> None:  # fmt: skip
    """The same where some features are categories, or have directions.

    ``special`` is, for every feature, whether it is categorical and the way in which scores must go; then the hessian
    that smooths categories, and the squares of the gradients of both children.
    """
    _search(sums, features, limits, state, nodes, found, special)


@cuda.jit(device=True, cache=True)
def _search(
    sums: Array, features: Arguments, limits: Arguments, state: Arguments, nodes: Arguments, found: Arguments,
    special: Any
) -> None:  # fmt: skip
    values = cuda.shared.array((3, 256), int32)
    running = cuda.shared.array((3, THREADS), int32)
    gains = cuda.shared.array(THREADS, float64)
    codes = cuda.shared.array(THREADS, int32)
    is_last = cuda.shared.array(1, int32)
    (n_bins, allowed, places), (min_rows, least_rows, n_drawn) = features, limits
    leaves, reals, _, now = state
    if now[SPLIT] < 0 or cuda.blockIdx.z > 0:
        return
    feature, child, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    start, stop, _, slot = child_of(leaves, now, child, n_drawn > 0)
    own = found[0][child, feature]
    is_used = stop - start >= 2 * min_rows and allowed[feature]
    if is_used and n_drawn > 0:
        is_used = _is_drawn(feature, salt_of(leaves, now, child), allowed, places, n_drawn)
    if is_used:
        n_tiles = (cuda.gridDim.x + TILE - 1) // TILE
        is_rest = child == 1 and n_drawn == 0
        load(sums, now[LEAVES] if is_rest else slot, slot if is_rest else -1, n_tiles, feature, values)
        if special is None:
            gain = best_split(values, running, gains, codes, n_bins[feature], least_rows, None)
            if t == 0:
                own[0], own[1] = gain, codes[0]
        else:
            bounds = _bounds_of(leaves, reals, now, child, special[1])
            given = (values, running, gains, codes, n_bins[feature], least_rows, bounds, special[3][child])
            special_split(feature, *given, special[:3], own, found[1][child, feature])
    elif t == 0:
        own[0] = -1.0
    if t == 0:
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(now, DONE, 1) == cuda.gridDim.x * cuda.gridDim.y - 1
    cuda.syncthreads()
    if is_last[0]:
        cuda.threadfence()
        _settle(state, nodes, found, n_drawn > 0, special, gains, codes)


@cuda.jit(device=True, cache=True)
def _is_drawn(feature: int, salt: int, allowed: Array, places: Array, n_drawn: int) -> bool:
    """Whether a node draws a feature: fewer than ``n_drawn`` have a lower number."""
    number, before = of_feature(places[feature], salt), 0
    for first in range(0, allowed.size, cuda.blockDim.x):
        j = first + cuda.threadIdx.x
        is_before = int32(0)
        if j < allowed.size and allowed[j]:
            other = of_feature(places[j], salt)
            is_before = int32(1 if other < number or (other == number and j < feature) else 0)
        before += cuda.syncthreads_count(is_before)
    return before < n_drawn


@cuda.jit(device=True, cache=True)
def _bounds_of(leaves: Array, reals: Array, now: Array, child: int, ways: Array) -> Any:
    """The bounds of the value of the smaller child (0) or the larger one (1)."""
    leaf = now[SPLIT]
    low, high = reals[leaf, LOW], reals[leaf, HIGH]
    if now[LEAVES] == 0:
        return low, high
    return _bounds_below(leaves, reals, leaf, (now[LEFT] <= now[RIGHT]) == (child == 0), ways)


@cuda.jit(device=True, cache=True)
def _bounds_below(leaves: Array, reals: Array, leaf: int, is_left: bool, ways: Array) -> Any:
    """The bounds of the value of a child of a leaf; a split that only sets missing values apart has no limit."""
    low, high, feature = reals[leaf, LOW], reals[leaf, HIGH], leaves[leaf, SPLIT_FEATURE]
    way = ways[feature] if leaves[leaf, CODE] < BY_SET else 0
    if way != 0 and not math.isnan(reals[leaf, LIMIT]):
        if (way > 0) == is_left:
            high = reals[leaf, LIMIT]
        else:
            low = reals[leaf, LIMIT]
    return low, high


@cuda.jit(device=True, cache=True)
def _settle(
    state: Arguments, nodes: Arguments, found: Arguments, sampled: bool, special: Arguments | None, gains: Array,
    codes: Array
) -> None:  # fmt: skip
    """Record the children and their best splits, and choose the leaf to split next: one block."""
    leaves, reals, _, now = state
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    _commit(state, nodes, sampled, special)
    for child in range(2):
        best, at = -2.0, 0
        for feature in range(t, found[0].shape[1], threads):
            if found[0][child, feature, 0] > best:
                best, at = found[0][child, feature, 0], feature
        gains[t], codes[t] = best, at
        largest_gain(gains, codes)
        _note_split(state, found, child, codes[0])
        cuda.syncthreads()
    best, at = -2.0, 0
    for leaf in range(t, now[LEAVES], threads):
        better = reals[leaf, GAIN] > best
        if better or (reals[leaf, GAIN] == best and leaves[leaf, PLACE] < at):
            best, at = reals[leaf, GAIN], leaves[leaf, PLACE]
    gains[t], codes[t] = best, at
    largest_gain(gains, codes)
    if t == 0:
        now[SPLIT] = -1
        now[LEFT] = now[RIGHT] = now[DONE] = 0
        if special is not None:
            special[3][0] = special[3][1] = 0
    cuda.syncthreads()
    for leaf in range(t, now[LEAVES], threads):
        if leaves[leaf, PLACE] == codes[0] and gains[0] > 0.0:
            now[SPLIT] = leaf


@cuda.jit(device=True, cache=True)
def _note_split(state: Arguments, found: Arguments, child: int, feature: int) -> None:
    """The best split of a child that was just recorded: the left one is where its parent was, the right one is last."""
    leaves, reals, tables, now = state
    leaf, n_leaves = now[SPLIT], now[LEAVES]
    if n_leaves > 1:
        leaf = leaf if (now[LEFT] <= now[RIGHT]) == (child == 0) else n_leaves - 1
    elif child == 1:
        return
    split = found[0][child, feature]
    if cuda.threadIdx.x == 0:
        reals[leaf, GAIN], reals[leaf, LIMIT] = split[0], split[2]
        leaves[leaf, SPLIT_FEATURE], leaves[leaf, CODE] = feature, int(split[1])
    if split[0] > 0.0 and split[1] >= BY_SET and cuda.threadIdx.x < WORDS:
        tables[leaf, cuda.threadIdx.x] = found[1][child, feature, cuda.threadIdx.x]


@cuda.jit(device=True, cache=True)
def _commit(state: Arguments, nodes: Arguments, sampled: bool, special: Any) -> None:
    """Put the children in the place of the leaf that was split: one block."""
    leaves, reals, tables, now = state
    leaf, n_leaves = now[SPLIT], now[LEAVES]
    place = leaves[leaf, PLACE]
    cuda.syncthreads()
    for other in range(cuda.threadIdx.x, n_leaves, cuda.blockDim.x):
        if leaves[other, PLACE] > place:
            leaves[other, PLACE] += 1
    cuda.syncthreads()
    if cuda.threadIdx.x == 0 and n_leaves == 0:
        now[LEAVES] = now[NODES] = 1
        nodes[0][0, FEATURE], nodes[0][0, COUNT] = -1.0, leaves[0, STOP]
    elif cuda.threadIdx.x == 0:  # everything is read before anything is written
        small, large = child_of(leaves, now, 0, sampled), child_of(leaves, now, 1, sampled)
        left, right = (small, large) if small[0] <= large[0] else (large, small)
        node, below, salt = leaves[leaf, NODE], now[NODES], np.uint64(leaves[leaf, SALT])
        _set_node(nodes, node, below, leaves[leaf, SPLIT_FEATURE], leaves[leaf, CODE], reals[leaf, GAIN], tables[leaf])
        if special is not None:
            of_left = _bounds_below(leaves, reals, leaf, True, special[1])
            of_right = _bounds_below(leaves, reals, leaf, False, special[1])
            reals[leaf, LOW], reals[leaf, HIGH] = of_left
            reals[n_leaves, LOW], reals[n_leaves, HIGH] = of_right
        _set_leaf(leaves, leaf, below, left, place, child_salt(salt, False), nodes)
        _set_leaf(leaves, n_leaves, below + 1, right, place + 1, child_salt(salt, True), nodes)
        reals[leaf, GAIN] = reals[n_leaves, GAIN] = -1.0
        now[LEAVES], now[NODES] = n_leaves + 1, below + 2
    cuda.syncthreads()


@cuda.jit(device=True, cache=True)
def _set_node(nodes: Arguments, node: int, below: int, feature: int, code: int, gain: float, table: Array) -> None:
    numbers = nodes[0][node]
    numbers[FEATURE], numbers[LEFT_NODE], numbers[NODE_GAIN], numbers[VALUE] = feature, below, gain, 0.0
    numbers[LAST], numbers[MISSING_LEFT], numbers[IS_SET] = code & 255, (code >> 8) & 1, 1.0 if code >= BY_SET else 0.0
    if code >= BY_SET:
        for word in range(WORDS):
            nodes[1][node, word] = table[word]


@cuda.jit(device=True, cache=True)
def _set_leaf(leaves: Array, leaf: int, node: int, rows: Arguments, place: int, salt: int, nodes: Arguments) -> None:
    leaves[leaf, NODE], leaves[leaf, PLACE], leaves[leaf, SALT] = node, place, np.int64(salt)
    leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, SLOT] = rows
    numbers = nodes[0][node]
    numbers[FEATURE], numbers[COUNT], numbers[NODE_GAIN], numbers[VALUE] = -1.0, rows[1] - rows[0], 0.0, 0.0


@cuda.jit(cache=True)
def finish(state: Arguments, sampled: bool, nodes: Arguments) -> None:
    """Record the children of the last split, which are not split again."""
    if state[3][SPLIT] >= 0 and cuda.blockIdx.x == 0:
        _commit(state, nodes, sampled, None)
