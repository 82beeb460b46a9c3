"""Kernels of trees: histograms, which sum gradients and hessians by feature and bin, and the best splits in them.

Gradients and hessians are scaled to integers and packed into 64 bits, gradient · 2³² + hessian: one addition per row
and feature sums both, any order of rows gives the same bits, and the histogram of one child is exactly that of its
parent minus the other's. The units are such that all |gradients| sum to less than 2³¹, and so do all hessians: no sum
overflows, with up to 2³⁰ rows, and a gradient of average size has about 2³¹/rows units. With hessians of 1 their sums
count rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright._types import Arguments, Array
from rankwright.boosting.binning import GROUP, MISSING
from rankwright.boosting.forest import SET_WORDS
from rankwright.caching import INNER
from rankwright.data.threads import Team, parts_of

HESSIAN_BITS = 32
MOST_ROWS = 1 << 30
MOST = (1 << 31) - 1  # that |gradients| and hessians sum to
_ROWS_A_THREAD = 1 << 16  # rows to pack
_FAR = 5  # rows apart, on average, from which packed bins are read row by row
_BLOCK = 256  # rows
_WORDS_A_LINE = 8  # of a cache
_PAD = 8  # words between the groups of a block, so that they do not compete for one place in a cache
LEAST_UNIT = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Packed:
    """Gradients and hessians as integers.

    `values`: gradient · 2³² + hessian, one per row. `gradient_unit`, `hessian_unit`: what one unit is worth. `largest`:
    the largest hessian of a row, in units. `counts_rows`: whether all hessians are equal, so that their sums count
    rows.
    """

    values: Array
    gradient_unit: float
    hessian_unit: float
    largest: int
    counts_rows: bool


def pack(gradients: Array, hessians: Array | None = None, team: Team | None = None) -> Packed:
    """Pack gradients with hessians of at least 0; by default these are 1. The result does not depend on the team."""
    n, team = len(gradients), team or Team(1)
    shares = [slice(*share) for share in parts_of(n, min(team.threads, 1 + n // _ROWS_A_THREAD))]
    room = MOST - n // 2 - 1  # rounding adds up to ½ per row
    gradient_unit = max(_total(gradients, shares, team) / room, LEAST_UNIT)
    values = np.empty(n, np.int64)
    if hessians is None:
        per_row = room // max(n, 1)
        given = [(gradients[share], 1.0 / gradient_unit, per_row, values[share]) for share in shares]
        team.each(_pack_counted, given)
        return Packed(values, gradient_unit, 1.0 / per_row, per_row, True)
    hessian_unit = max(_total(hessians, shares, team) / room, LEAST_UNIT)
    units = (1.0 / gradient_unit, 1.0 / hessian_unit)
    largest = team.each(_pack, [(gradients[share], hessians[share], *units, values[share]) for share in shares])
    return Packed(values, gradient_unit, hessian_unit, int(max(largest)), False)


def _total(values: Array, shares: list[slice], team: Team) -> float:
    """Σ |values|, or a little more: summed as integers, so that the order of the rows does not matter."""
    largest = float(max(team.each(_largest, [(values[share],) for share in shares])))
    unit = largest * (values.size / 2.0**62)
    if unit < LEAST_UNIT:
        return largest * values.size
    total = sum(int(part) for part in team.each(_in_units, [(values[share], 1.0 / unit) for share in shares]))
    return (float(total) + values.size) * unit


@njit(cache=True, nogil=True)
def _largest(values: Array) -> float:
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    return largest


@njit(cache=True, nogil=True)
def _in_units(values: Array, per_unit: float) -> Any:
    total = np.int64(0)
    for i in range(values.size):
        total += np.int64(abs(values[i]) * per_unit)
    return total


@njit(cache=True, nogil=True)
def _pack(gradients: Array, hessians: Array, per_gradient: float, per_hessian: float, values: Array) -> Any:
    largest = np.int64(0)
    for i in range(values.size):
        hessian = np.int64(np.rint(hessians[i] * per_hessian))
        largest = max(largest, hessian)
        values[i] = (np.int64(np.rint(gradients[i] * per_gradient)) << HESSIAN_BITS) + hessian
    return largest


@njit(cache=True, nogil=True)
def _pack_counted(gradients: Array, per_gradient: float, per_row: int, values: Array) -> None:
    for i in range(values.size):
        values[i] = (np.int64(np.rint(gradients[i] * per_gradient)) << HESSIAN_BITS) + per_row


@njit(cache=True, nogil=True)
def gather(packed: Array, rows: Array, values: Array) -> Any:
    """The packed values of some rows, contiguous; returns their sum."""
    total = np.int64(0)
    for k in range(rows.size):
        value = packed[rows[k]]
        values[k] = value
        total += value
    return total


@njit(cache=True, nogil=True)
def transpose(packed_bins: Array, by_row: Array) -> None:
    """Packed bins by group, transposed to packed bins by row, some rows at a time."""
    for start in range(0, by_row.shape[0], _BLOCK):
        for group in range(packed_bins.shape[0]):
            for row in range(start, min(start + _BLOCK, by_row.shape[0])):
                by_row[row, group] = packed_bins[group, row]


@njit(cache=True, nogil=True)
def fill_groups(
    packed_bins: Array, by_row: Array, first: int, stop: int, rows: Array, values: Array, sums: Array
) -> None:
    """Histograms of the groups ``first`` … ``stop − 1`` of eight features; ``sums`` has shape (groups, 8, 256).

    ``by_row`` are the packed bins row by row: where ``rows``, which ascend, are far between, a cache line then holds
    eight groups of a row, and not one that is used and seven that are not.
    """
    for group in range(first, stop):
        for k in range(8):
            for b in range(256):
                sums[group, k, b] = 0
    if rows.size == 0 or _FAR * rows.size > rows[-1] - rows[0]:
        for group in range(first, stop):
            _add_rows(packed_bins[group], rows, values, sums[group])
        return
    block = np.empty((stop - first, _BLOCK + _PAD), np.uint64)
    for start in range(0, rows.size, _BLOCK):
        n = min(_BLOCK, rows.size - start)
        block[0, _BLOCK] = touch(by_row, first, stop, rows[start : start + n])
        for k in range(n):
            row = by_row[rows[start + k]]
            for group in range(first, stop):
                block[group - first, k] = row[group]
        for group in range(first, stop):
            _add_side_by_side(block[group - first, :n], values[start : start + n], sums[group])


@njit(**INNER)
def touch(by_row: Array, first: int, stop: int, rows: Array) -> Any:
    """Read a word of every cache line that is needed next: in so short a loop the reads wait side by side.

    Their sum is of no use, but without one they would be left out.
    """
    total = np.uint64(0)
    for k in range(rows.size):
        for group in range(first, stop, _WORDS_A_LINE):
            total ^= by_row[rows[k], group]
    return total


@njit(**INNER)
def _add_rows(packed_bins: Array, rows: Array, values: Array, sums: Array) -> None:
    byte = np.uint64(255)
    s0, s1, s2, s3, s4, s5, s6, s7 = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]
    for k in range(rows.size):
        word, value = packed_bins[rows[k]], values[k]
        s0[word & byte] += value
        s1[(word >> np.uint64(8)) & byte] += value
        s2[(word >> np.uint64(16)) & byte] += value
        s3[(word >> np.uint64(24)) & byte] += value
        s4[(word >> np.uint64(32)) & byte] += value
        s5[(word >> np.uint64(40)) & byte] += value
        s6[(word >> np.uint64(48)) & byte] += value
        s7[word >> np.uint64(56)] += value


@njit(**INNER)
def _add_side_by_side(packed_bins: Array, values: Array, sums: Array) -> None:
    """The same for packed bins of rows side by side."""
    byte = np.uint64(255)
    s0, s1, s2, s3, s4, s5, s6, s7 = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7]
    for k in range(packed_bins.size):
        word, value = packed_bins[k], values[k]
        s0[word & byte] += value
        s1[(word >> np.uint64(8)) & byte] += value
        s2[(word >> np.uint64(16)) & byte] += value
        s3[(word >> np.uint64(24)) & byte] += value
        s4[(word >> np.uint64(32)) & byte] += value
        s5[(word >> np.uint64(40)) & byte] += value
        s6[(word >> np.uint64(48)) & byte] += value
        s7[word >> np.uint64(56)] += value


@njit(cache=True, nogil=True)
def count_bins(packed_bins: Array, shift: int, rows: Array, counts: Array) -> None:
    byte, moved = np.uint64(255), np.uint64(shift)
    for b in range(256):
        counts[b] = 0
    for k in range(rows.size):
        counts[(packed_bins[rows[k]] >> moved) & byte] += 1


# The best split of a node: the largest G_L²/H_L + G_R²/H_R − G²/H over features and bins.
#
# G is a sum of gradients and H one of hessians: the gain is twice what a Newton step in each part lowers the cost by
# (Newton gain), or the reduction of the squared error where every hessian is 1. It is computed as
# (G_L H − G H_L)² / (H_L H_R H). The difference is one of integers below 2⁶², so a split that changes nothing gains
# exactly 0.
#
# Histograms hold no counts of rows. A part whose hessian is that of ``min_rows`` rows of the largest hessian surely
# has so many; `settle` counts the rows of a feature only if its split is the best and not sure, or takes the counts of
# those that have them.


# Splits of categorical features, and splits under monotone constraints.
#
# Categories have no order, but the best split into two sets follows one: that of their mean gradients G_b/H_b (Fisher
# 1958). So the bins of a categorical feature are sorted and searched like those of any other. Few rows say little of a
# category: its mean is taken as that of the node with `smooth` more units of hessian. Sorting finds a split even in
# noise, the better the more categories there are; what chance gains is taken off the gain. Where leaves have bounds,
# each part of a split gains what the best value within them does.


_RUN = 16  # values sorted by insertion


def special_kinds(
    n_features: int, categorical: Iterable[int], directions: Mapping[int, int]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Which features are categories, and the way in which scores must go in each; None if there is nothing special."""
    is_category, ways = np.zeros(n_features, np.bool_), np.zeros(n_features, np.int64)
    is_category[list(categorical)] = True
    ways[list(directions)] = list(directions.values())
    return (is_category, ways) if is_category.any() or directions else None


@njit(cache=True, nogil=True, error_model="numpy")
def category_order(histogram: Array, n_bins: int, total: int, smooth: float) -> Any:
    """The bins of a categorical feature by their smoothed means; equal ones stay in order."""
    mean = float(total >> HESSIAN_BITS) / max(float(total & _HESSIAN), 1.0)
    means = np.empty(n_bins)
    for b in range(n_bins):
        gradient, hessian = float(histogram[b] >> HESSIAN_BITS), float(histogram[b] & _HESSIAN)
        if hessian + smooth > 0:
            means[b] = (gradient + smooth * mean) / (hessian + smooth)
        else:
            means[b] = mean if gradient == 0 else np.inf if gradient > 0 else -np.inf
    return _sorted(means)


@njit(cache=True, nogil=True)
def _sorted(values: Array) -> Any:
    """The places of values in ascending order, equal ones as they come: short runs by insertion, then merged.

    numpy's sort takes two seconds to compile.
    """
    n, width = values.size, _RUN
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        at = i
        while at > i - i % _RUN and values[order[at - 1]] > values[i]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for at in range(start, stop):
                if right >= stop or (left < middle and values[order[left]] <= values[order[right]]):
                    other[at] = order[left]
                    left += 1
                else:
                    other[at] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


@njit(cache=True, nogil=True, error_model="numpy")
def chance_gain(histogram: Array, n_bins: int, noise: float) -> float:
    """What a split of categories gains by chance if they all are the same: 2/π · (k − 1) · noise.

    ``noise`` is the variance of gradients per unit of hessian, and k = (Σ √H_b)² / Σ H_b the number of categories if
    they have equal shares: sorted by means that are nothing but noise, one half has ±√(2/π) standard deviations each.
    """
    roots, hessian = 0.0, 0.0
    for b in range(n_bins):
        h = float(histogram[b] & _HESSIAN)
        roots += np.sqrt(h)
        hessian += h
    return 2.0 / np.pi * max(roots * roots / hessian - 1.0, 0.0) * noise if hessian > 0 else 0.0


@njit(cache=True, nogil=True)
def permuted(bins: Array, order: Array) -> Any:
    """Values of bins in another order; that of missing values keeps its place."""
    moved = np.zeros(256, bins.dtype)
    for b in range(order.size):
        moved[b] = bins[order[b]]
    moved[MISSING] = bins[MISSING]
    return moved


@njit(cache=True, nogil=True)
def left_bins(order: Array, last: int, missing_left: bool) -> Any:
    """Which bins go left: those up to the place ``last`` of an order, and perhaps the missing values."""
    table = np.zeros(256, np.bool_)
    for b in range(min(last + 1, order.size)):
        table[order[b]] = True
    table[MISSING] = missing_left
    return table


@njit(cache=True, nogil=True, error_model="numpy")
def best_bounded_split(
    histogram: Array, n_bins: int, total: int, least: int, counts: Array, min_rows: int, way: int, low: float,
    high: float
) -> Any:  # fmt: skip
    """As `best_split`, with values from ``low`` to ``high`` that rise (``way`` 1) or fall (−1) from left to right.

    A split that only sets missing values apart may have them in any order.
    """
    best, last, with_missing = -1.0, 0, False
    missing, n_missing = histogram[MISSING], counts[MISSING]
    n = n_missing
    if min_rows > 0:
        for b in range(n_bins):
            n += counts[b]
    g, h = float(total >> HESSIAN_BITS), float(total & _HESSIAN)
    undivided = _value(g, h, low, high)
    some_missing = missing != 0 or n_missing > 0
    for side in range(2 if some_missing else 1):
        left = missing if side else missing * 0
        n_left = n_missing if side else n_missing * 0
        for b in range(n_bins if some_missing and not side else n_bins - 1):
            left += histogram[b]
            n_left += counts[b]
            h_left = left & _HESSIAN
            if h_left < least or n_left < min_rows:
                continue
            if (total & _HESSIAN) - h_left < least or n - n_left < min_rows:
                break
            g_left, h_left = float(left >> HESSIAN_BITS), float(h_left)
            value_left, value_right = _value(g_left, h_left, low, high), _value(g - g_left, h - h_left, low, high)
            if way * (value_right - value_left) < 0 and b < n_bins - 1:
                continue
            gain = _gain(g_left, h_left, g, h, value_left, value_right, undivided)
            if gain > best:
                best, last, with_missing = gain, b, side == 1
    return best, last, with_missing


@njit(cache=True, nogil=True, error_model="numpy")
def middle_value(left: int, total: int, low: float, high: float) -> float:
    """The mean of the best values of both parts of a split within bounds, from packed sums."""
    right = total - left
    value_left = _value(float(left >> HESSIAN_BITS), float(left & _HESSIAN), low, high)
    value_right = _value(float(right >> HESSIAN_BITS), float(right & _HESSIAN), low, high)
    return value_left + (value_right - value_left) / 2.0


@njit(cache=True, nogil=True, error_model="numpy")
def _value(g: float, h: float, low: float, high: float) -> float:
    return min(max(g / h, low), high)


@njit(cache=True, nogil=True, error_model="numpy")
def _gain(
    g_left: float, h_left: float, g: float, h: float, value_left: float, value_right: float, whole: float
) -> float:
    """What the values of both parts gain over that of the whole; exactly 0 if they are equal."""
    if value_left == value_right:
        return 0.0
    g_right, h_right = g - g_left, h - h_left
    if value_left == g_left / h_left and value_right == g_right / h_right:  # inside the bounds: as without them
        apart = g_left * h - g * h_left
        return apart * apart / (h_left * h_right * h)
    both = value_left * (2.0 * g_left - h_left * value_left) + value_right * (2.0 * g_right - h_right * value_right)
    return max(both - whole * (2.0 * g - h * whole), 0.0)


def mean_hessian(values: Array) -> float:
    return float((values & _HESSIAN).mean()) if len(values) else 0.0


@njit(cache=True, nogil=True)
def sum_of_squares(values: Array) -> Any:
    """Sum of the squares of packed gradients, which sum to less than 2³¹ themselves."""
    total = np.int64(0)
    for k in range(values.size):
        gradient = values[k] >> HESSIAN_BITS
        total += gradient * gradient
    return total


@njit(cache=True, nogil=True)
def noise_of(squares: float, total: int) -> float:
    """Variance of gradients per unit of hessian, from the sum of their squares and the packed sum of a node."""
    return squares / max(float(total & _HESSIAN), 1.0)


def as_sets(tables: Sequence[Any]) -> Any:
    """Tables of bins as sets of 256 bits, without the bin of missing values."""
    sets = np.zeros((len(tables), SET_WORDS), np.uint64)
    for row, table in zip(sets, tables, strict=True):
        row[:] = np.packbits(np.append(table[:MISSING], False), bitorder="little").view("<u8")
    return sets


_HESSIAN = (1 << HESSIAN_BITS) - 1
_MOVED_A_THREAD = 1 << 14  # rows to move


@njit(cache=True, nogil=True)
def best_split(histogram: Array, n_bins: int, total: int, least: int, counts: Array, min_rows: int) -> Any:
    """The best gain of one feature (−1 if there is no split), the last bin that goes left, whether missing values do.

    Both parts have at least ``least`` units of hessian and, by ``counts``, ``min_rows`` rows.
    """
    best, last, with_missing = -1.0, 0, False
    lefts, gains = np.empty(256, np.int64), np.empty(256)
    missing, n_missing = histogram[MISSING], counts[MISSING]
    some_missing = missing != 0 or n_missing > 0
    for side in range(2 if some_missing else 1):
        left = missing if side else missing * 0
        n_splits = n_bins if some_missing and not side else n_bins - 1
        for b in range(n_splits):
            left += histogram[b]
            lefts[b] = left
        _set_gains(lefts[:n_splits], total, least, gains)
        if min_rows > 0:
            _forbid(counts, n_bins, n_missing if side else n_missing * 0, min_rows, gains[:n_splits])
        for b in range(n_splits):
            if gains[b] > best:
                best, last, with_missing = gains[b], b, side == 1
    return best / max(float(total & _HESSIAN), 1.0) if best >= 0 else -1.0, last, with_missing


@njit(error_model="numpy", **INNER)
def _set_gains(lefts: Array, total: int, least: int, gains: Array) -> None:
    """The gain times H of every split, −1 where a part has too little hessian; without branches, many at once."""
    g, h = total >> HESSIAN_BITS, total & _HESSIAN
    for b in range(lefts.size):
        h_left = lefts[b] & _HESSIAN
        apart = float((lefts[b] >> HESSIAN_BITS) * h - g * h_left)
        gain = apart * apart / (float(h_left) * float(h - h_left))
        gains[b] = gain if (h_left >= least) & (h - h_left >= least) else -1.0


@njit(**INNER)
def _forbid(counts: Array, n_bins: int, n_left: int, min_rows: int, gains: Array) -> None:
    """Set the gain to −1 where a part has too few rows; ``n_left`` go left in any case."""
    n = counts[MISSING]
    for b in range(n_bins):
        n += counts[b]
    for b in range(gains.size):
        n_left += counts[b]
        if n_left < min_rows or n - n_left < min_rows:
            gains[b] = -1.0


@njit(cache=True, nogil=True)
def best_of(
    histogram: Array, n_bins: Array, special: Arguments | None, j: int, node: Arguments, limits: Arguments,
    counts: Array, min_rows: int
) -> Any:  # fmt: skip
    """The best split of a feature of any kind; ``last`` is a place among its bins as `_searched` sorts them.

    ``special`` is None where no feature needs more than `best_split`: numba then leaves out, and does not compile, what
    others need. Otherwise it is, for every feature, whether its bins are categories, and the way in which scores must
    go. ``node`` is the packed sum, the bounds of values, and the variance of gradients per unit of hessian.
    ``limits`` are the least units of hessian of a part, and those that smooth the means of categories.
    """
    total, low, high, noise = node
    if special is None:
        return best_split(histogram, n_bins[j], total, limits[0], counts, min_rows)
    is_category, ways = special
    searched, in_order = _searched(histogram, n_bins, special, j, node, limits, counts)
    if ways[j] == 0 and low == -np.inf and high == np.inf:
        best = best_split(searched, n_bins[j], total, limits[0], in_order, min_rows)
    else:
        best = best_bounded_split(searched, n_bins[j], total, limits[0], in_order, min_rows, ways[j], low, high)
    if not is_category[j]:
        return best
    return best[0] - chance_gain(searched, n_bins[j], noise), best[1], best[2]


@njit(**INNER)
def _searched(
    histogram: Array,
    n_bins: Array,
    special: Arguments | None,
    j: int,
    node: Arguments,
    limits: Arguments,
    counts: Array,
) -> Any:
    """The bins of a feature in the order in which they are searched: of categories, that of their means."""
    if special is None:
        return histogram, counts
    if not special[0][j]:
        return histogram, counts
    order = category_order(histogram, n_bins[j], node[0], limits[1])
    return permuted(histogram, order), permuted(counts, order)


@njit(**INNER)
def best_splits(
    sums: Array, first: int, n_bins: Array, special: Arguments | None, allowed: Array, node: Arguments,
    limits: Arguments, out: Arguments
) -> None:  # fmt: skip
    """The best splits of the features of the group that begins with ``first``; ``sums`` are theirs."""
    gains, lasts, missing_left = out
    no_counts, no_rows = np.empty(256, np.int64), np.int64(0)  # a literal 0 would compile all that it is given to twice
    for b in range(256):
        no_counts[b] = 0
    for j in range(first, min(first + GROUP, n_bins.size)):
        gains[j], lasts[j], missing_left[j] = -1.0, 0, False
        if allowed[j]:
            best = best_of(sums[j - first], n_bins, special, j, node, limits, no_counts, no_rows)
            gains[j], lasts[j], missing_left[j] = best


@njit(cache=True, nogil=True)
def look(
    packed_bins: Array, by_row: Array, first: int, stop: int, rows: Array, values: Array, parts: Array, n_bins: Array,
    special: Arguments | None, limits: Arguments, sums: Array, allowed: Array, node: Arguments, out: Arguments,
    other: Array, other_allowed: Array, other_node: Arguments, other_out: Arguments,
) -> None:  # fmt: skip
    """Histograms of the groups ``first`` … ``stop − 1`` over some rows, and the best split of every feature.

    ``parts`` are the histograms of parts of the rows, if these were filled already. ``other`` is empty, or holds the
    histograms of the parent of these rows and becomes those of its other child, whose best splits are found, too.
    """
    if parts.shape[0] == 0:
        fill_groups(packed_bins, by_row, first, stop, rows, values, sums)
    for group in range(first, stop):
        for part in range(parts.shape[0]):
            for k in range(GROUP):
                for b in range(256):
                    sums[group, k, b] = parts[part, group, k, b] + (sums[group, k, b] if part else np.int64(0))
    for child in range(2):  # one call for both: a function called in two places is compiled for each
        for group in range(first, min(stop, other.shape[0]) if child else stop):
            if child:
                for k in range(GROUP):
                    for b in range(256):
                        other[group, k, b] -= sums[group, k, b]
            of_group, usable = (other[group], other_allowed) if child else (sums[group], allowed)
            of_node, splits = (other_node, other_out) if child else (node, out)
            best_splits(of_group, group * GROUP, n_bins, special, usable, of_node, limits, splits)


@njit(cache=True, nogil=True)
def settle(
    packed_bins: Array, rows: Array, known: Array | None, sums: Array, n_bins: Array, special: Arguments | None,
    node: Arguments, limits: Arguments, min_rows: int, sure: int, out: Arguments,
) -> Any:  # fmt: skip
    """The feature with the best split into at least ``min_rows`` of ``rows`` each, the first of equal ones.

    ``out`` are the best splits whatever the number of rows, and are corrected where that decides. A part with ``sure``
    units of hessian has enough rows. ``known`` are the rows by bin, or None: then they are counted if need be.
    """
    gains, lasts, missing_left = out
    counts, counted = np.empty(256, np.int64), np.empty(n_bins.size, np.int64)
    for feature in range(n_bins.size):
        counted[feature] = 0
    while True:
        j = 0
        for feature in range(1, gains.size):
            j = feature if gains[feature] > gains[j] else j
        if gains[j] <= 0 or counted[j]:
            return j
        histogram = sums[j // GROUP, j % GROUP]
        searched, _ = _searched(histogram, n_bins, special, j, node, limits, counts)
        left = histogram[MISSING] if missing_left[j] else np.int64(0)
        for b in range(lasts[j] + 1):
            left += searched[b]
        h_left = left & _HESSIAN
        if h_left >= sure and (node[0] & _HESSIAN) - h_left >= sure:
            return j
        if known is None:
            count_bins(packed_bins[j // GROUP], 8 * (j % GROUP), rows, counts)
        else:
            for b in range(256):
                counts[b] = known[j // GROUP, j % GROUP, b]
        gains[j], lasts[j], missing_left[j] = best_of(histogram, n_bins, special, j, node, limits, counts, min_rows)
        counted[j] = 1


def divide_rows(
    packed_bins: Array, feature: int, left_bins: Array | None, rows: Array, other: Array, team: Team
) -> int:
    """Put the rows that go left before those that go right, in order; returns how many go left.

    ``other`` is room for as many rows.
    """
    group, place = divmod(feature, GROUP)
    shares = parts_of(len(rows), min(team.threads, 1 + len(rows) // _MOVED_A_THREAD))
    each = [(packed_bins[group], 8 * place, left_bins, rows[start:stop], other[start:stop]) for start, stop in shares]
    lefts = team.each(partition, each)
    middle = lefts[0]
    for (start, _), n_left in zip(shares[1:], lefts[1:], strict=True):
        rows[middle : middle + n_left] = rows[start : start + n_left]
        middle += n_left
    at = middle
    for (start, stop), n_left in zip(shares, lefts, strict=True):
        rows[at : at + stop - start - n_left] = other[start : stop - n_left]
        at += stop - start - n_left
    return int(middle)


@njit(cache=True, nogil=True)
def partition(packed_bins: Array, shift: int, left_bins: Array, rows: Array, other: Array) -> int:
    """Move the rows that go left to the front, and the rest to ``other``, in order; returns how many go left."""
    byte, moved = np.uint64(255), np.uint64(shift)
    left: Any = 0
    right: Any = 0
    for k in range(rows.size):
        row = rows[k]
        goes_left = left_bins[np.int64((packed_bins[row] >> moved) & byte)]
        rows[left] = row
        other[right] = row
        left += goes_left
        right += not goes_left
    return int(left)
