"""Kernels that score rows with trees, and share the scores out to features.

Trees of up to 64 leaves are not traversed. A row starts with a bit for every leaf of a tree, from left to right; each
split that sends it right clears the bits of the leaves on its left, and the lowest remaining bit is the row's leaf
(Lucchese et al.: QuickScorer, SIGIR 2015). A split is applied to a block of rows at once, without branches.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.boosting.float32 import rounded_down
from rankwright.boosting.forest import Forest
from rankwright.errors import InputError

_BLOCK = 64  # rows that stay in the first-level caches for all trees
_BITS = 64
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DE_BRUIJN = 0x03F79D71B4CB0A89  # times a power of two, its upper six bits say which
_PLACE = np.zeros(_BITS, np.int64)
_PLACE[[((_DE_BRUIJN << bit) & int(_ALL)) >> 58 for bit in range(_BITS)]] = np.arange(_BITS)


@njit(cache=True, nogil=True, forceinline=True)
def goes_left(x: float, threshold: float, missing_left: bool, subset: int, sets: Array) -> bool:
    """Whether a value goes to the left child of a split: the one rule of all kernels.

    ``subset`` is the split's row of ``sets``, and the value then the number of a category below 256; −1 where the
    threshold decides.
    """
    if x != x:
        return bool(missing_left)
    if subset < 0:
        return bool(x <= threshold)
    return _in_set(x, sets[subset])


@njit(cache=True, nogil=True, forceinline=True)
def _in_set(x: float, words: Array) -> bool:
    category = np.int64(x)
    return bool((words[category >> 6] >> np.uint64(category & 63)) & np.uint64(1))


def add_scores(forest: Forest, X: Array, scores: Array) -> None:
    """Add the values of the trees for dense rows to ``scores``, tree by tree."""
    inner = forest.feature >= 0
    used = np.unique(forest.feature[inner]).astype(np.int64)
    n_splits = int(inner.sum())
    firsts, splits = np.empty(forest.n_trees + 1, np.int64), np.empty(n_splits, np.int64)
    kept, leaves = np.empty(n_splits, np.uint64), np.zeros((forest.n_trees, _BITS))
    if not _plan(forest.roots, forest.feature, forest.left, forest.value, firsts, splits, kept, leaves):
        splits_of = (forest.feature, forest.threshold, forest.missing_left, forest.left, forest.subset, forest.sets)
        _walked_scores(X, forest.roots, *splits_of, forest.value, scores)
        return
    splits, kept = splits[: firsts[-1]], kept[: firsts[-1]]
    columns = np.searchsorted(used, forest.feature[splits])
    limits = rounded_down(forest.threshold[splits], X.dtype)
    rules = (columns, limits, forest.missing_left[splits], forest.subset[splits], forest.sets)
    _masked_scores(X, used, firsts, *rules, kept, leaves, _PLACE, scores)


@njit(cache=True)
def _plan(
    roots: Array, feature: Array, left: Array, value: Array, firsts: Array, splits: Array, kept: Array, leaves: Array
) -> bool:  # fmt: skip
    """For every tree its splits, the bits that each keeps, and the values of its leaves; False if it has too many.

    ``firsts`` is where the splits of each tree start. The stack holds nodes, and ``~k`` for a split k whose left side
    is done.
    """
    stack, lowest, right = np.empty(2 * _BITS, np.int64), np.empty(_BITS, np.int64), np.empty(_BITS, np.int64)
    n_splits = 0
    for tree in range(roots.size):
        firsts[tree] = n_splits
        stack[0] = roots[tree]
        top, n_leaves, k = 1, 0, 0
        while top:
            top -= 1
            node = stack[top]
            if node < 0:
                low = lowest[~node]
                gone = ((np.uint64(1) << np.uint64(n_leaves - low)) - np.uint64(1)) << np.uint64(low)
                kept[firsts[tree] + ~node] = ~gone
                stack[top] = right[~node]
                top += 1
            elif feature[node] < 0:
                leaves[tree, n_leaves] = value[node]
                n_leaves += 1
            else:
                if k == _BITS - 1 or n_splits == splits.size:
                    return False
                splits[n_splits], lowest[k], right[k] = node, n_leaves, left[node] + 1
                stack[top], stack[top + 1] = ~k, left[node]
                top += 2
                k += 1
                n_splits += 1
    firsts[roots.size] = n_splits
    return True


@njit(cache=True, nogil=True)
def _masked_scores(
    X: Array, used: Array, firsts: Array, columns: Array, limits: Array, missing_left: Array, subset: Array,
    sets: Array, kept: Array, leaves: Array, place: Array, scores: Array,
) -> None:  # fmt: skip
    block, bits = np.zeros((used.size, _BLOCK), X.dtype), np.empty(_BLOCK, np.uint64)
    for start in range(0, X.shape[0], _BLOCK):
        n = min(_BLOCK, X.shape[0] - start)
        for i in range(n):
            for c in range(used.size):
                block[c, i] = X[start + i, used[c]]
        for tree in range(leaves.shape[0]):
            for i in range(_BLOCK):
                bits[i] = _ALL
            for k in range(firsts[tree], firsts[tree + 1]):
                x, limit, those = block[columns[k]], limits[k], kept[k]
                if subset[k] >= 0:
                    for i in range(n):
                        bits[i] &= _ALL if goes_left(x[i], limit, missing_left[k], subset[k], sets) else those
                elif missing_left[k]:
                    for i in range(_BLOCK):
                        bits[i] &= those if x[i] > limit else _ALL
                else:
                    for i in range(_BLOCK):
                        bits[i] &= _ALL if x[i] <= limit else those
            for i in range(n):
                lowest = bits[i] & (~bits[i] + np.uint64(1))
                scores[start + i] += leaves[tree, place[(lowest * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]]


@njit(cache=True, nogil=True)
def _walked_scores(
    X: Array, roots: Array, feature: Array, threshold: Array, missing_left: Array, left: Array, subset: Array,
    sets: Array, value: Array, scores: Array,
) -> None:  # fmt: skip
    """The same for trees of any size."""
    for start in range(0, X.shape[0], _BLOCK):
        for root in roots:
            for i in range(start, min(start + _BLOCK, X.shape[0])):
                node = root
                while feature[node] >= 0:
                    x = X[i, feature[node]]
                    is_left = goes_left(x, threshold[node], missing_left[node], subset[node], sets)
                    node = left[node] + (0 if is_left else 1)
                scores[i] += value[node]


# Exact Shapley values of trees, for rows against reference rows.
#
# The features of a row x join a coalition; those outside it have the values of a reference r. On the path to a leaf,
# let x violate the splits of the features A, and r those of B. The coalition S reaches the leaf if it contains B and
# nothing of A; so a leaf counts only if A and B are disjoint, and its Shapley values are, with a = |A| and b = |B|,
#
#     + value · (b − 1)! a! / (a + b)!   for every feature of B,
#     − value · b! (a − 1)! / (a + b)!   for every feature of A.
#
# This is the interventional game (Lundberg et al.: From local explanations to global understanding with explainable AI
# for trees, 2020, for one reference at a time). Here rows that violate the same features share the work, so the mean
# over all documents of a query costs little more than a single reference.


_WORD = 64
_MOST = 1 << 10  # features on one path: more would cost more memory than any tree that was trained
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, with irregular bits
_UPPER = np.uint64(32)
_SMALL = 11  # features on a path whose subsets may all be counted
_SIZES = np.array([bin(bits).count("1") for bits in range(1 << _SMALL)], np.uint64)
_PAIRS = 4  # steps over subsets that take as long as a pair of rows


def shapley_of(forest: Forest) -> Callable[[Array, Array], Array]:
    """A function of dense rows and reference rows: the Shapley values of every row, averaged over the references.

    The values of a row sum to its score less the mean score of the references.

    `forest`: the trees; sound, see :meth:`Forest.check`.
    """
    from scipy.special import beta  # scores do not need it

    inner = forest.feature >= 0
    used = np.unique(forest.feature[inner]).astype(np.int64)
    columns = np.where(inner, np.searchsorted(used, forest.feature), -1)
    depth = int(_depth(columns, forest.left)) if len(columns) else 0
    longest = min(depth, len(used))
    if longest > _MOST:
        raise InputError(f"a tree is {depth:,} splits deep; contributions need at most {_MOST:,} features on a path")
    # The Shapley value of one of p features that must be in, with q that must be out: (p − 1)! q! / (p + q)!.
    weight = np.zeros((longest + 1, longest + 1))
    weight[1:] = beta(np.arange(1.0, longest + 1)[:, np.newaxis], np.arange(1.0, longest + 2))

    def values(rows: Array, references: Array) -> Array:
        contributions = np.zeros((len(rows), len(used)))
        same = references is rows
        together = rows if same else np.concatenate([rows, references])
        split = np.ascontiguousarray(together[:, used].T, np.float64)
        _add_values(
            split, len(rows), 0 if same else len(rows), forest.roots, columns, forest.threshold, forest.missing_left,
            forest.subset, forest.sets, forest.left, forest.value, weight, depth, max(1, -(-longest // _WORD)),
            contributions,
        )  # fmt: skip
        out = np.zeros(rows.shape)
        out[:, used] = contributions
        return out

    return values


@njit(cache=True)
def _depth(columns: Array, left: Array) -> int:
    """The most splits on a path; children come after their parents."""
    depth = np.zeros(columns.size, np.int64)
    deepest = 0
    for node in range(columns.size):
        if columns[node] >= 0:
            depth[left[node]] = depth[left[node] + 1] = depth[node] + 1
            deepest = max(deepest, depth[node] + 1)
    return deepest


@njit(cache=True, nogil=True)
def _add_values(
    values: Array, n_rows: int, first: int, roots: Array, columns: Array, threshold: Array, missing_left: Array,
    subset: Array, categories: Array, left: Array, leaf: Array, weight: Array, depth: int, n_words: int, out: Array,
) -> None:  # fmt: skip
    """Add the Shapley values of the rows ``:n_rows`` against the references ``first:``, tree by tree.

    A walk through all nodes keeps, for every row, the set of features that it violates on the path, as bits; a feature
    gets a bit where rows differ. ``values`` has a row for every column of the trees.
    """
    n = values.shape[1]
    violated, is_left = np.zeros((depth + 1, n_words, n), np.uint64), np.zeros((depth + 1, n), np.bool_)
    stack = np.empty((2 * depth + 2, 4), np.int64)  # node, level, whether it is a right child, features above it
    column_at, n_left = np.empty(depth + 1, np.int64), np.empty(depth + 1, np.int64)
    bit_of, path = np.full(values.shape[0], -1), np.empty(weight.shape[0], np.int64)
    table, slots = np.full(_table_size(n), -1), np.empty(n, np.int64)
    counts, members = np.empty((4, n), np.int64), np.empty((n, weight.shape[0]), np.int64)
    change = np.empty((n, weight.shape[0]))
    within, place = np.empty(_SMALL + 1 << _SMALL, np.int32), np.full(1 << _SMALL, -1)
    for root in roots:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = root, 0, 0, 0
        top, n_bits = 1, 0
        while top:
            top -= 1
            node, level, is_right = stack[top, 0], stack[top, 1], stack[top, 2]
            while n_bits > stack[top, 3]:
                n_bits -= 1
                bit_of[path[n_bits]] = -1
            if level > 0:
                column, above = column_at[level - 1], violated[level - 1]
                bit = bit_of[column]
                n_agree = n - n_left[level - 1] if is_right else n_left[level - 1]
                if n_agree == 0:
                    continue
                if bit < 0 and n_agree < n:
                    bit = bit_of[column] = n_bits
                    path[n_bits] = column
                    n_bits += 1
                violated[level] = above
                if bit >= 0 and not _violate(violated[level, bit // _WORD], is_left[level - 1], is_right, bit):
                    continue
            column = columns[node]
            if column < 0:
                if n_bits:
                    _add_leaf(
                        violated[level], n_rows, first, leaf[node], path[:n_bits], weight, table, slots, counts,
                        members, change, within, place, out,
                    )  # fmt: skip
                continue
            column_at[level] = column
            rule = (threshold[node], missing_left[node], subset[node], categories)
            n_left[level] = _decide(values[column], *rule, is_left[level])
            for right in (1, 0):
                stack[top, 0], stack[top, 1] = left[node] + right, level + 1
                stack[top, 2], stack[top, 3] = right, n_bits
                top += 1
        while n_bits:
            n_bits -= 1
            bit_of[path[n_bits]] = -1


@njit(cache=True, nogil=True)
def _decide(x: Array, threshold: float, missing_left: bool, subset: int, categories: Array, is_left: Array) -> int:
    """Where a split sends every row, and how many go left."""
    n_left = 0
    for i in range(x.size):
        is_left[i] = goes_left(x[i], threshold, missing_left, subset, categories)
        n_left += is_left[i]
    return n_left


@njit(cache=True, nogil=True)
def _violate(word: Array, is_left: Array, is_right: int, bit: int) -> bool:
    """Set a bit for every row that goes the other way; False if all rows have it now."""
    shift = np.uint64(bit % _WORD)
    common = ~np.uint64(0)
    for i in range(word.size):
        word[i] |= np.uint64(is_left[i] == (is_right != 0)) << shift
        common &= word[i]
    return not (common >> shift) & np.uint64(1)


@njit(cache=True)
def _table_size(n: int) -> int:
    size = 16
    while size < 4 * n:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def _class_rows(
    violated: Array, first: int, n_bits: int, table: Array, slots: Array, counts: Array, members: Array
) -> int:
    """Number the different sets of violated features in order of appearance.

    ``counts`` receives the number of each row's set, and for every set its first row, its references and its size;
    ``members`` its features.
    """
    of_row, sample, n_references, sizes = counts
    n_sets = 0
    for i in range(violated.shape[1]):
        mixed = np.uint64(0)
        for w in range(violated.shape[0]):
            mixed = (mixed ^ violated[w, i]) * _FACTOR
        slot = np.int64(mixed >> _UPPER) & (table.size - 1)
        number = table[slot]
        while number >= 0 and not _same(violated, sample[number], i):
            slot = (slot + 1) & (table.size - 1)
            number = table[slot]
        if number < 0:
            number = table[slot] = n_sets
            slots[number], sample[number], n_references[number], sizes[number] = slot, i, 0, 0
            for k in range(n_bits):
                if _has(violated, i, k):
                    members[number, sizes[number]] = k
                    sizes[number] += 1
            n_sets += 1
        of_row[i] = number
        n_references[number] += i >= first
    for number in range(n_sets):
        table[slots[number]] = -1
    return n_sets


@njit(cache=True, nogil=True)
def _by_pairs(
    violated: Array, n_rows: int, n_sets: int, n_bits: int, weight: Array, counts: Array, members: Array, change: Array
) -> None:  # fmt: skip
    """What all references give to the features of the rows of each set, pair by pair of sets."""
    sample, n_references, sizes = counts[1], counts[2], counts[3]
    for number in range(n_sets):
        if sample[number] >= n_rows:  # references only, and so are all that follow
            return
        lost, a = 0.0, sizes[number]
        for k in range(n_bits):
            change[number, k] = 0.0
        for other in range(n_sets):
            if n_references[other] > 0 and not _overlap(violated, sample[number], sample[other]):
                b = sizes[other]
                lost += n_references[other] * weight[a, b]
                gained = n_references[other] * weight[b, a]
                for k in range(b):
                    change[number, members[other, k]] += gained
        for k in range(a):
            change[number, members[number, k]] = -lost


@njit(cache=True, nogil=True)
def _count_within(word: Array, first: int, n_bits: int, within: Array) -> None:
    """Count references by the size of their set, within every set: ``within[(n_bits + 1) · set + size]``."""
    width, end = np.uintp(n_bits + 1), np.uintp((n_bits + 1) << n_bits)  # unsigned: numba then vectorises the loops
    within[:end] = 0
    for i in range(first, word.size):
        within[np.uintp(word[i]) * width + _SIZES[word[i]]] += 1
    for k in range(n_bits):
        length, start = width << np.uintp(k), np.uintp(0)
        while start < end:
            for at in range(start, start + length):
                within[at + length] += within[at]
            start += length + length


@njit(cache=True, nogil=True)
def _by_subsets(n_bits: int, weight: Array, within: Array, own: int, change: Array) -> None:
    """The same for the set of one row: its references are within the rest, those with a feature not without it."""
    width, a = n_bits + 1, np.int64(_SIZES[own])
    rest = (1 << n_bits) - 1 - np.int64(own)
    lost, at = 0.0, rest * width
    for b in range(n_bits - a + 1):
        lost += within[at + b] * weight[a, b]
    for k in range(n_bits):
        change[k] = -lost
        if rest >> k & 1:
            gained, less = 0.0, (rest ^ (1 << k)) * width
            for b in range(1, n_bits - a + 1):
                gained += (within[at + b] - within[less + b]) * weight[b, a]
            change[k] = gained


@njit(cache=True, nogil=True)
def _add_leaf(
    violated: Array, n_rows: int, first: int, value: float, path: Array, weight: Array, table: Array, slots: Array,
    counts: Array, members: Array, change: Array, within: Array, place: Array, out: Array,
) -> None:  # fmt: skip
    """Add what one leaf gives to the Shapley values of all rows.

    Where many rows share a few features, references are counted for all sets of these at once.
    """
    n_bits, n, of_row = path.size, violated.shape[1], counts[0]
    share = value / (n - first)
    if n_bits <= _SMALL and n_bits * (n_bits + 1) << n_bits < _PAIRS * n * n:
        word, n_sets = violated[0], 0
        _count_within(word, first, n_bits, within)
        for i in range(n_rows):
            if place[word[i]] < 0:
                place[word[i]] = n_sets
                _by_subsets(n_bits, weight, within, word[i], change[n_sets])
                n_sets += 1
            of_row[i] = place[word[i]]
        for i in range(n_rows):
            place[word[i]] = -1
    else:
        n_sets = _class_rows(violated, first, n_bits, table, slots, counts, members)
        _by_pairs(violated, n_rows, n_sets, n_bits, weight, counts, members, change)
    for i in range(n_rows):
        number = of_row[i]
        for k in range(n_bits):
            out[i, path[k]] += share * change[number, k]


@njit(cache=True, nogil=True)
def _has(violated: Array, i: int, k: int) -> bool:
    return (violated[k >> 6, i] >> np.uint64(k & 63)) & np.uint64(1) != 0


@njit(cache=True, nogil=True)
def _same(violated: Array, i: int, j: int) -> bool:
    same = True
    for w in range(violated.shape[0]):
        same = same and violated[w, i] == violated[w, j]
    return same


@njit(cache=True, nogil=True)
def _overlap(violated: Array, i: int, j: int) -> bool:
    shared = np.uint64(0)
    for w in range(violated.shape[0]):
        shared |= violated[w, i] & violated[w, j]
    return shared != 0
