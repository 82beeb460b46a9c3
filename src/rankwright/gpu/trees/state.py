"""A tree while it is grown on the card: what is kept of leaves, of nodes and of the tree so far.

Everything is decided there, so the host reads none of it before the tree is finished.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

TILE = 16
"""Features whose bins are stored together."""
SIZE = 256 * 3 * TILE
"""Numbers in the histograms of a tile: for each bin 16 residuals and 16 curvatures, then 16 counts for each."""
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
