"""Features as small integers: the bin of every value, packed eight features to a word of 64 bits.

Feature j has up to 255 bins with upper ends ``ends[j]``; bin b holds the values x with ends[b−1] < x ≤ ends[b], and 255
is a missing value. Packed bins are stored by group of eight features, then by row: the histogram of a group fits the
first-level cache, and one load gives eight bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.data.threads import Team, scratch

GROUP = 8
MISSING = 255
_SAMPLE = 200_000  # rows sampled to place the bins
_COLUMNS = 16  # of the sample, processed together: a cache line in float32
_CHUNK = 4096  # rows
_TILE = 512  # rows that stay in the first-level caches


@dataclass(frozen=True, eq=False)
class BinnedFeatures:
    """The bins of a data set.

    `packed_bins` (shape (groups, rows)): bins of eight features. `ends`: for each feature the upper ends of all its
    bins but the last, which has none. `categorical`: features whose bins are categories, in no order. `folder`: where
    large arrays made of them are kept on disk; None: all of them stay in memory.
    """

    packed_bins: Array
    ends: tuple[Array, ...]
    categorical: frozenset[int] = frozenset()
    folder: Path | None = None

    @property
    def n_rows(self) -> int:
        return int(self.packed_bins.shape[1])

    @property
    def n_features(self) -> int:
        return len(self.ends)


def bin_features(
    X: Array,
    max_bins: int = 255,
    seed: int = 0,
    threads: int = 1,
    order: Array | None = None,
    categories: Mapping[int, int] | None = None,
    folder: Path | None = None,
) -> BinnedFeatures:
    """Bin every feature at its quantiles; features with few values get a bin for each.

    `X` (shape (rows, features)): NaN is a missing value. `max_bins`: from 2 to 255. `seed`: random seed of the sample
    of rows that is used if there are more than 200,000. `threads`: number of threads; the result does not depend on it.
    `order`: the rows to bin, in this order; by default all of them in their own. `categories`: features that hold
    numbers of categories, from 0, and how many there are: each gets a bin. `folder`: where to keep large bins on disk.
    """
    counts = categories or {}
    order = np.arange(len(X)) if order is None else order
    team = Team(threads)
    try:
        ends = bin_ends(X, max_bins, seed, team, order, counts)
        packed_bins = pack_bins(X, order, ends, team, folder)
    finally:
        team.close()
    return BinnedFeatures(packed_bins, ends, frozenset(counts), folder)


def pack_bins(X: Array, order: Array, ends: Sequence[Array], team: Team, folder: Path | None = None) -> Array:
    """The bins of rows in some order, given the upper ends of the bins."""
    packed_bins = scratch((-(-len(ends) // GROUP), len(order)), np.uint64, folder)
    table, sizes = table_of(ends, len(packed_bins) * GROUP, X.dtype)
    shares = [(order[start : start + _CHUNK], start) for start in range(0, len(order), _CHUNK)]
    team.each(lambda rows, start: _fill(X, rows, start, table, sizes, packed_bins), shares)
    return packed_bins


def bin_ends(
    X: Array, max_bins: int, seed: int, team: Team, order: Array, categories: Mapping[int, int]
) -> tuple[Array, ...]:
    """For each feature the upper ends of all its bins but the last, from a sample; see :func:`bin_features`."""
    rows = order[sample_rows(len(order), seed)]
    d = X.shape[1]

    def ends_of(first: int) -> list[Array]:
        columns = np.empty((min(_COLUMNS, d - first), len(rows)), X.dtype)
        _columns(X, rows, first, columns)
        return [feature_ends(column, max_bins, categories.get(j)) for j, column in enumerate(columns, first)]

    return tuple(chain.from_iterable(team.each(ends_of, [(first,) for first in range(0, d, _COLUMNS)])))


def table_of(ends: Sequence[Array], n_features: int, dtype: Any) -> tuple[Array, Array]:
    """The ends of bins as a table, a row for each feature, filled up with infinity; and how many each has."""
    table = np.full((n_features, 256), np.inf, dtype)
    for j, values in enumerate(ends):
        table[j, : len(values)] = values
    return table, np.array([len(values) for values in ends], np.int64)


def sample_rows(n: int, seed: int) -> Array:
    if n <= _SAMPLE:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, _SAMPLE, replace=False))


def feature_ends(values: Array, max_bins: int, n_categories: int | None = None) -> Array:
    """The ends of a feature's bins: between neighbouring values, with sizes as equal as possible.

    With ``n_categories``, the values are numbers of categories, and each has a bin.
    """
    if n_categories is not None:
        return np.arange(max(n_categories - 1, 0)) + 0.5
    values = np.sort(values)  # NaN comes last
    n = len(values) - int(np.isnan(values).sum())
    values = values[:n]
    if not n:
        return values
    first = np.flatnonzero(np.concatenate([[True], values[1:] > values[:-1]]))
    if len(first) > max_bins:
        first = first[_cuts(first, n, max_bins)]
    upper, lower = values[first[1:]], values[first[1:] - 1]
    with np.errstate(over="ignore"):  # the lower value is the end
        middle = lower + (upper - lower) / 2
    return np.where(middle < upper, middle, lower)


@njit(cache=True, nogil=True, error_model="numpy")
def _cuts(first: Array, n: int, max_bins: int) -> Any:
    """The distinct values that start a bin if there are more of them than bins; ``first`` is the position of each.

    A value with more than an equal share of the rows gets its own bin; the others fill the remaining bins up to an
    equal share of the remaining rows.
    """
    sizes = np.empty(first.size, np.int64)
    for i in range(first.size):
        sizes[i] = (first[i + 1] if i + 1 < first.size else n) - first[i]
    alone = np.zeros(first.size, np.bool_)
    rows, bins, changed = n, max_bins, True
    while changed:
        share, changed = rows / bins, False
        for i in range(first.size):
            if not alone[i] and sizes[i] >= share:
                alone[i], changed = True, True
                rows -= sizes[i]
                bins -= 1
    starts = np.zeros(max_bins, np.int64)
    n_bins, inside = 1, 0
    for i in range(first.size - 1):
        if n_bins == max_bins:
            break
        inside += sizes[i]
        rows -= 0 if alone[i] else sizes[i]
        if alone[i] or inside >= share or (alone[i + 1] and 2 * inside >= share):
            starts[n_bins] = i + 1
            n_bins += 1
            inside = 0
            bins -= 0 if alone[i] else 1
            share = rows / max(bins, 1)
    return starts[:n_bins]


@njit(cache=True, nogil=True)
def _columns(X: Array, rows: Array, first: int, columns: Array) -> None:
    """Some rows of the columns starting at ``first``, column by column."""
    for k in range(rows.size):
        for j in range(columns.shape[0]):
            columns[j, k] = X[rows[k], first + j]


@njit(cache=True, nogil=True)
def _fill(X: Array, rows: Array, start: int, table: Array, sizes: Array, packed_bins: Array) -> None:
    """The packed bins of some rows, from the place ``start`` on, by bisection, each step for many rows at once."""
    values, codes = np.empty(_TILE, X.dtype), np.empty(_TILE, np.int64)
    for tile in range(0, rows.size, _TILE):
        first, n = start + tile, min(_TILE, rows.size - tile)
        for group in range(packed_bins.shape[0]):
            for i in range(n):
                packed_bins[group, first + i] = np.uint64(0)
            for k in range(min(GROUP, sizes.size - group * GROUP)):
                j = group * GROUP + k
                ends = table[j]
                for i in range(n):
                    values[i] = X[rows[tile + i], j]
                    codes[i] = 0
                half = np.int64(1)
                while 2 * half <= sizes[j]:
                    half *= 2
                while half > 0:
                    for i in range(n):
                        codes[i] += half if ends[codes[i] + half - 1] < values[i] else 0
                    half >>= 1
                for i in range(n):
                    code = codes[i] if values[i] == values[i] else MISSING
                    packed_bins[group, first + i] |= np.uint64(code) << np.uint64(8 * k)
