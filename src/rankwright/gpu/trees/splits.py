"""The best splits of the children of a leaf on the device, and what is split next: the leaf whose split gains most.

Each split of a tree takes three launches: `divide` moves the rows of the leaf that is split, `add_rows` sums the rows
of its smaller child, and `search` subtracts these sums from the parent's, finds the best split of both children and the
leaf to split next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int32

from rankwright.data.hashes import child_salt, of_feature
from rankwright.gpu.blockwise import scan
from rankwright.gpu.trees.histograms import salt_of
from rankwright.gpu.trees.state import (
    BY_SET,
    CODE,
    COUNT,
    COUNTS,
    DONE,
    FEATURE,
    GAIN,
    HIGH,
    IS_SET,
    LAST,
    LEAVES,
    LEFT,
    LEFT_NODE,
    LIMIT,
    LOW,
    MISSING,
    MISSING_LEFT,
    NODE,
    NODE_GAIN,
    NODES,
    PLACE,
    RIGHT,
    SALT,
    SIDE,
    SIZE,
    SLOT,
    SPLIT,
    SPLIT_FEATURE,
    START,
    STOP,
    THREADS,
    TILE,
    VALUE,
    WORDS,
    child_of,
)

# The best split of a feature on the device, from its histogram: as `rankwright.boosting.histograms` finds it.
#
# A block of threads has the bins of one feature in shared memory: gradients, hessians and rows, missing values last.


_LEAST = 1  # units of hessian in a part


@cuda.jit(device=True, cache=True)
def load(sums: Any, slot: int, minuend: int, n_tiles: int, feature: int, values: Any) -> None:
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
def _before(values: Any, running: Any, kind: int, first: int, width: int) -> Any:
    """The sum of all bins before a thread's own, missing values apart."""
    total = 0
    for b in range(first, min(first + width, MISSING)):
        total += values[kind, b]
    running[kind, cuda.threadIdx.x] = total
    cuda.syncthreads()
    scan(running[kind])
    return np.int64(running[kind, cuda.threadIdx.x]) - total


@cuda.jit(device=True, cache=True)
def totals_of(values: Any, running: Any) -> Any:
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
def _gain(left: Any, total: Any, min_rows: int) -> float:
    """The gain times H of a split, −1 where a part has too little hessian or too few rows."""
    (g_left, h_left, n_left), (g, h, n) = left, total
    if h_left < _LEAST or h - h_left < _LEAST or n_left < min_rows or n - n_left < min_rows:
        return -1.0
    apart = float(g_left * h - g * h_left)
    return apart * apart / (float(h_left) * float(h - h_left))


@cuda.jit(device=True, cache=True)
def largest_gain(gains: Any, codes: Any) -> None:
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
def best_split(values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int) -> float:
    """The best split, a gain and a code to place 0 of ``gains`` and ``codes``; −1 if there is none."""
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
            gain = _gain((left_g, left_h, left_n), total, min_rows)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    largest_gain(gains, codes)
    return gains[0] / max(float(total[1]), 1.0) if gains[0] >= 0.0 else -1.0


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
def _best_bounded(
    values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int, way: int, low: float, high: float
) -> float:  # fmt: skip
    """As `best_split`, with values from ``low`` to ``high`` that rise (``way`` 1) or fall (−1) from left to right.

    A split that only sets missing values apart may have them in any order.
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
            own_way = way if b < n_bins - 1 else 0
            gain = _bounded_gain(float(left_g), float(left_h), float(total[0]), float(total[1]), low, high, own_way)
            if gain > best:
                best, code = gain, 256 * side + b
    gains[t], codes[t] = best, code
    largest_gain(gains, codes)
    return gains[0]


@cuda.jit(device=True, cache=True)
def _limit(values: Any, code: int, low: float, high: float) -> float:
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
def _sort_bins(values: Any, running: Any, n_bins: int, smooth: float, means: Any, order: Any, moved: Any) -> None:
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
def _chance_gain(values: Any, n_bins: int, noise: float) -> float:
    """What a split of categories gains by chance if they all are the same: by one thread, in the order of the CPU."""
    roots, hessian = 0.0, 0.0
    for b in range(n_bins):
        h = float(values[1, b])
        roots += math.sqrt(h)
        hessian += h
    return 2.0 / math.pi * max(roots * roots / hessian - 1.0, 0.0) * noise if hessian > 0 else 0.0


@cuda.jit(device=True, cache=True)
def _note_set(order: Any, n_bins: int, code: int, table: Any) -> None:
    """The set of bins that go left; by one thread."""
    for word in range(WORDS):
        table[word] = 0
    for at in range(min((code & 255) + 1, n_bins)):
        table[order[at] >> 5] |= np.uint32(1) << np.uint32(order[at] & 31)
    if code >= 256:
        table[MISSING >> 5] |= np.uint32(1) << np.uint32(MISSING & 31)


@cuda.jit(device=True, cache=True)
def special_split(
    feature: int, values: Any, running: Any, gains: Any, codes: Any, n_bins: int, min_rows: int, bounds: Any,
    squares: int, special: Any, found: Any, table: Any,
) -> None:  # fmt: skip
    """The best split of a feature of any kind, to ``found``: its gain, its code, and the limit that it sets.

    `values`, `running`, `gains`, `codes`: the histogram, and room, in shared memory. `bounds`: the lowest and the
    highest value of the node. `squares`: of the gradients of the node. `special`: for every feature whether its bins
    are categories, and the way in which scores must go; hessian that smooths the means of categories. `found`, `table`:
    where the split goes, and the set of bins that go left, of categories.
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
            gain = _best_bounded(moved, running, gains, codes, n_bins, min_rows, 0, low, high)
        else:
            gain = best_split(moved, running, gains, codes, n_bins, min_rows)
    elif is_bound:
        gain = _best_bounded(values, running, gains, codes, n_bins, min_rows, ways[feature], low, high)
    else:
        gain = best_split(values, running, gains, codes, n_bins, min_rows)
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
def search(sums: Any, features: Any, limits: Any, state: Any, nodes: Any, found: Any) -> None:
    """The best split of every feature (x) of both children (y); the last block chooses what is split next.

    Parameters
    ----------
    sums : device array
        Histograms.
    features : tuple
        For every feature: its bins, whether the tree may use it, its place among those that vary.
    limits : tuple
        Fewest rows of a leaf, the same of those drawn, and features that a node draws (0: all).
    state : tuple
        Leaves, in whole numbers and in floating point, their sets of bins, and the tree so far.
    nodes : tuple
        Nodes, and their sets of bins.
    found : tuple
        What is found for every child and feature, and sets of bins.
    """
    _search(sums, features, limits, state, nodes, found, None)


@cuda.jit(cache=True)
def search_special(
    sums: Any, features: Any, limits: Any, state: Any, nodes: Any, found: Any, special: Any
) -> None:  # fmt: skip
    """The same where some features are categories, or have directions.

    ``special`` is, for every feature, whether it is categorical and the way in which scores must go; then the hessian
    that smooths categories, and the squares of the gradients of both children.
    """
    _search(sums, features, limits, state, nodes, found, special)


@cuda.jit(device=True, cache=True)
def _search(
    sums: Any, features: Any, limits: Any, state: Any, nodes: Any, found: Any, special: Any
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
            gain = best_split(values, running, gains, codes, n_bins[feature], least_rows)
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
def _is_drawn(feature: int, salt: Any, allowed: Any, places: Any, n_drawn: int) -> bool:
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
def _bounds_of(leaves: Any, reals: Any, now: Any, child: int, ways: Any) -> Any:
    """The bounds of the value of the smaller child (0) or the larger one (1)."""
    leaf = now[SPLIT]
    low, high = reals[leaf, LOW], reals[leaf, HIGH]
    if now[LEAVES] == 0:
        return low, high
    return _bounds_below(leaves, reals, leaf, (now[LEFT] <= now[RIGHT]) == (child == 0), ways)


@cuda.jit(device=True, cache=True)
def _bounds_below(leaves: Any, reals: Any, leaf: int, is_left: bool, ways: Any) -> Any:
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
    state: Any, nodes: Any, found: Any, sampled: bool, special: Any, gains: Any, codes: Any
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
def _note_split(state: Any, found: Any, child: int, feature: int) -> None:
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
def _commit(state: Any, nodes: Any, sampled: bool, special: Any) -> None:
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
def _set_node(nodes: Any, node: int, below: int, feature: int, code: int, gain: float, table: Any) -> None:
    numbers = nodes[0][node]
    numbers[FEATURE], numbers[LEFT_NODE], numbers[NODE_GAIN], numbers[VALUE] = feature, below, gain, 0.0
    numbers[LAST], numbers[MISSING_LEFT], numbers[IS_SET] = code & 255, (code >> 8) & 1, 1.0 if code >= BY_SET else 0.0
    if code >= BY_SET:
        for word in range(WORDS):
            nodes[1][node, word] = table[word]


@cuda.jit(device=True, cache=True)
def _set_leaf(leaves: Any, leaf: int, node: int, rows: Any, place: int, salt: Any, nodes: Any) -> None:
    leaves[leaf, NODE], leaves[leaf, PLACE], leaves[leaf, SALT] = node, place, np.int64(salt)
    leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, SLOT] = rows
    numbers = nodes[0][node]
    numbers[FEATURE], numbers[COUNT], numbers[NODE_GAIN], numbers[VALUE] = -1.0, rows[1] - rows[0], 0.0, 0.0


@cuda.jit(cache=True)
def finish(state: Any, sampled: bool, nodes: Any) -> None:
    """Record the children of the last split, which are not split again."""
    if state[3][SPLIT] >= 0 and cuda.blockIdx.x == 0:
        _commit(state, nodes, sampled, None)
