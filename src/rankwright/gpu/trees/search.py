"""The best splits of the children of a leaf on the card, and what is split next: the leaf whose split gains most.

Each split of a tree takes three launches: `divide` moves the rows of the leaf that is split, `add_rows` sums the rows
of its smaller child, and `search` subtracts these sums from the parent's, finds the best split of both children and the
leaf to split next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int32

from rankwright.gpu.trees.histograms import salt_of
from rankwright.gpu.trees.special import special_split
from rankwright.gpu.trees.splits import best_split, largest_gain, load
from rankwright.gpu.trees.state import (
    BY_SET,
    CODE,
    COUNT,
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
    MISSING_LEFT,
    NODE,
    NODE_GAIN,
    NODES,
    PLACE,
    RIGHT,
    SALT,
    SIDE,
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
from rankwright.models.trees.draws import child_salt, of_feature

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

    ``special`` is, for every feature, whether it is categorical and the way in which scores must go; then the curvature
    that smooths categories, and the squares of the residuals of both children.
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
    own, before = of_feature(places[feature], salt), 0
    for first in range(0, allowed.size, cuda.blockDim.x):
        j = first + cuda.threadIdx.x
        is_before = int32(0)
        if j < allowed.size and allowed[j]:
            other = of_feature(places[j], salt)
            is_before = int32(1 if other < own or (other == own and j < feature) else 0)
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
    own = found[0][child, feature]
    if cuda.threadIdx.x == 0:
        reals[leaf, GAIN], reals[leaf, LIMIT] = own[0], own[2]
        leaves[leaf, SPLIT_FEATURE], leaves[leaf, CODE] = feature, int(own[1])
    if own[0] > 0.0 and own[1] >= BY_SET and cuda.threadIdx.x < WORDS:
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
    own = nodes[0][node]
    own[FEATURE], own[LEFT_NODE], own[NODE_GAIN], own[VALUE] = feature, below, gain, 0.0
    own[LAST], own[MISSING_LEFT], own[IS_SET] = code & 255, (code >> 8) & 1, 1.0 if code >= BY_SET else 0.0
    if code >= BY_SET:
        for word in range(WORDS):
            nodes[1][node, word] = table[word]


@cuda.jit(device=True, cache=True)
def _set_leaf(leaves: Any, leaf: int, node: int, rows: Any, place: int, salt: Any, nodes: Any) -> None:
    leaves[leaf, NODE], leaves[leaf, PLACE], leaves[leaf, SALT] = node, place, np.int64(salt)
    leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE], leaves[leaf, SLOT] = rows
    own = nodes[0][node]
    own[FEATURE], own[COUNT], own[NODE_GAIN], own[VALUE] = -1.0, rows[1] - rows[0], 0.0, 0.0


@cuda.jit(cache=True)
def finish(state: Any, sampled: bool, nodes: Any) -> None:
    """Record the children of the last split, which are not split again."""
    if state[3][SPLIT] >= 0 and cuda.blockIdx.x == 0:
        _commit(state, nodes, sampled, None)
