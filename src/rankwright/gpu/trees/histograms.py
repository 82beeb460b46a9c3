"""Rows of leaves on the card: divided by a split, and added up to histograms of whole numbers.

The order of rows and of blocks does not change the sums. A block sums the rows of 16 features: for each bin 16
residuals and 16 curvatures, then 16 counts. Half of a warp adds residuals, the other half curvatures, four rows at a
time; a lane begins with another feature of its word for each of the four, so that no two lanes of a warp need the same
bank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, int32, int64

from rankwright.gpu.together import add_up, scan
from rankwright.gpu.trees.state import (
    BY_SET,
    CODE,
    COUNTS,
    LEAVES,
    LEFT,
    MISSING,
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
    child_of,
    is_in,
)
from rankwright.models.trees.draws import child_salt, is_drawn

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
def add_rows(words: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any) -> None:
    """Histograms of the smaller child: a block for each tile of features (x) and part of the rows (y)."""
    _add_rows(words, rows, pairs, leaves, now, sums, None)


@cuda.jit(cache=True)
def add_samples(words: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any, share: float) -> None:
    """Histograms of samples of both children (z)."""
    _add_rows(words, rows, pairs, leaves, now, sums, share)


@cuda.jit(device=True, cache=True)
def _add_rows(words: Any, rows: Any, pairs: Any, leaves: Any, now: Any, sums: Any, share: Any) -> None:
    """The rows of a child, or the ``share`` of them that it draws: None is all, and leaves out the code for that."""
    own = cuda.shared.array(SIZE, int32)
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
        count = 1
        if share is not None:
            count = 1 if is_drawn(np.uint64(row), salt, share) else 0
            more = more if is_drawn(np.uint64(other), salt, share) else 0
            value *= count
        k += 2 * step
        row, other = rows[side, min(k, end)], rows[side, min(k + step, end)]
        _add_word(own, word, value, count, half, turn, word_at)
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
        cuda.atomic.add(own, np.uint32(COUNTS + TILE * code + 4 * word_at + at), count)


@cuda.jit(cache=True)
def add_squares(rows: Any, pairs: Any, leaves: Any, now: Any, share: float, squares: Any) -> None:
    """Squares of the residuals of both children (y), or of their samples; |residuals| sum to less than 2³¹."""
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
