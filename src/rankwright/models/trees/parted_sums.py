"""Sums of residuals, curvatures and rows by feature and bin that can be added up over parts of the data.

All are whole numbers, so sums do not depend on how the rows are cut into parts. A row is a pair of 64 bits each: its
residual, and curvature · 2¹⁶ + 1, so one addition per row and feature gives all three sums of up to 2¹⁶ − 1 rows. They
are then added to arrays of their own, which travel. Units are powers of two, such that all |residuals| and all
curvatures sum to less than 2⁴⁶ of them: with a billion rows, one of average size has tens of thousands. They follow
from exact sums, which do not depend on the parts either. A unit of residuals is two of curvatures: where all scores are
equal, residuals of documents that only win or only lose are twice their curvatures, and leaves of these are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from rankwright.caching import INNER
from rankwright.data.threads import Team, parts_of
from rankwright.models.trees.binning import GROUP, MISSING
from rankwright.models.trees.histogram import touch

Array = npt.NDArray[Any]
RESIDUAL_ROOM, CURVE_ROOM = 46, 46  # bits of the sum over all rows
COUNT_BITS = 16
"""Bits below the curvature of a pair, that count rows."""
_COUNT = (1 << COUNT_BITS) - 1
MOST_AT_ONCE = _COUNT
"""Rows that are summed before their number would overflow."""
_SPARE = 1  # bits that a sum may grow by from one tree to the next
_UNUSED = 5  # bits of a sum's room that may stay empty
_EXPONENTS = 2048  # of a float64
_LEAST = -900  # exponent of a sum; smaller ones are as good as 0
SQUARED = RESIDUAL_ROOM - 30
"""Bits of residuals that are left out of their squares."""
_HALF = 26  # bits of the lower part of a mantissa
_BLOCK = 256  # rows
_ROWS_A_THREAD = 1 << 16
_FAR = 5  # rows apart, on average, from which words are read row by row


@dataclass(frozen=True)
class Units:
    """What one unit of residuals and of curvatures is worth: 2 to the power of these.

    Examples
    --------
    >>> sums = np.stack([exact_sums(np.array([1.0, -2.5])), exact_sums(np.array([0.25, 0.5]))])
    >>> Units.of(sums)
    Units(residual=-43, curve=-44)
    >>> Units.of(sums).suit(sums)
    True
    """

    residual: int
    curve: int

    @classmethod
    def of(cls, sums: Array) -> Units:
        """Units for these sums, or for slightly larger ones."""
        top = _top(sums) + _SPARE
        return cls(top + 1 - RESIDUAL_ROOM, top - CURVE_ROOM)

    def suit(self, sums: Array) -> bool:
        """Whether these sums have room, and enough of it is used."""
        top = self.curve + CURVE_ROOM
        return top - _UNUSED < _top(sums) <= top


def _top(sums: Array) -> int:
    """The power of two that half of the residuals, and the curvatures, are below."""
    residual, curve = (_exponent(of_kind) for of_kind in sums)
    return max(residual - 1, curve)


def _exponent(sums: Array) -> int:
    """The power of two that a sum is below."""
    total = 0
    for at in np.flatnonzero(sums.any(axis=0)).tolist():
        total += (int(sums[0, at]) + (int(sums[1, at]) << _HALF)) << at
    return max(total.bit_length() - 1075, _LEAST)


def exact_sums(values: Array, team: Team | None = None) -> Array:
    """Sums of |values| without any rounding: of the mantissas of every exponent, in two halves.

    Sums of arrays like this one belong to all their values together.
    """
    bits, team = np.ascontiguousarray(values, np.float64).view(np.int64), team or Team(1)

    def sums_of(some: slice) -> Array:
        sums = np.zeros((2, _EXPONENTS), np.int64)
        _add_mantissas(bits[some], sums)
        return sums

    return np.sum(team.each(sums_of, _shares(len(bits), team)), axis=0)


def _shares(n_rows: int, team: Team) -> list[tuple[slice]]:
    """Rows of each thread, where each is read once."""
    return [(slice(*share),) for share in parts_of(n_rows, min(team.threads, 1 + n_rows // _ROWS_A_THREAD))]


@njit(cache=True, nogil=True)
def _add_mantissas(bits: Any, sums: Any) -> None:
    fraction = (np.int64(1) << 52) - 1
    lower = (np.int64(1) << _HALF) - 1
    for i in range(bits.size):
        exponent, mantissa = (bits[i] >> 52) & 2047, bits[i] & fraction
        if exponent:
            mantissa |= fraction + 1
        else:
            exponent += 1
        sums[0, exponent] += mantissa & lower
        sums[1, exponent] += mantissa >> _HALF


def pack_pairs(residuals: Array, curves: Array, units: Units, team: Team | None = None) -> Array:
    """The pair of every row."""
    pairs, team = np.empty((len(residuals), 2), np.int64), team or Team(1)
    per = 2.0**-units.residual, 2.0**-units.curve
    team.each(lambda some: _pack(residuals[some], curves[some], *per, pairs[some]), _shares(len(pairs), team))
    return pairs


@njit(cache=True, nogil=True)
def _pack(residuals: Any, curves: Any, per_residual: float, per_curve: float, pairs: Any) -> None:
    for i in range(residuals.size):
        pairs[i, 0] = np.int64(np.rint(residuals[i] * per_residual))
        pairs[i, 1] = (np.int64(np.rint(curves[i] * per_curve)) << COUNT_BITS) + 1


@njit(cache=True, nogil=True)
def take_pairs(pairs: Any, rows: Any, side_by_side: Any, taken: bool, totals: Any) -> None:
    """Residuals, curvatures, rows, and squares of residuals in units with room, of some rows; their pairs side by side.

    These are there already unless they have to be ``taken``.
    """
    half = np.int64(1) << (SQUARED - 1)
    residuals, curves, squares = np.int64(0), np.int64(0), np.int64(0)
    for k in range(rows.size):
        residual, other = pairs[rows[k], 0], pairs[rows[k], 1]
        if taken:
            side_by_side[k, 0], side_by_side[k, 1] = residual, other
        residuals += residual
        curves += other >> COUNT_BITS
        short = (residual + half) >> SQUARED
        squares += short * short
    totals[0], totals[1], totals[2], totals[3] = residuals, curves, rows.size, squares


@njit(cache=True, nogil=True)
def fill_pairs(words: Any, by_row: Any, first: int, stop: int, rows: Any, pairs: Any, sums: Any) -> None:
    """Histograms of the groups ``first`` … ``stop − 1`` of eight features; ``sums`` has shape (groups, 8, 256, 2).

    ``by_row`` are the words row by row, for ``rows`` far between.
    """
    for group in range(first, stop):
        for k in range(GROUP):
            for b in range(256):
                sums[group, k, b, 0] = sums[group, k, b, 1] = 0
    far = rows.size > 0 and _FAR * rows.size <= np.int64(rows[-1]) - np.int64(rows[0])
    step = np.int64(_BLOCK) if far else max(rows.size, np.int64(1))
    block = np.empty((stop - first, _BLOCK if far else 0), np.uint64)
    places = np.arange(_BLOCK).astype(np.uint32)
    for start in range(0, rows.size, step):
        n = min(step, rows.size - start)
        if far:
            block[0, 0] = touch(by_row, first, stop, rows[start : start + n])
            for k in range(n):
                row = by_row[rows[start + k]]
                for group in range(first, stop):
                    block[group - first, k] = row[group]
        for group in range(first, stop):
            _add(
                block[group - first] if far else words[group],
                places[:n] if far else rows,
                pairs[start : start + n],
                sums[group],
            )


@njit(**INNER)
def _add(words: Any, places: Any, pairs: Any, sums: Any) -> None:
    for k in range(places.size):
        _add_pair(sums, words[places[k]], pairs, np.uint64(k))


@intrinsic
def _add_pair(typing: Any, sums: Any, word: Any, pairs: Any, row: Any) -> Any:
    """Add ``pairs[row]`` to the bins in ``word`` of eight features; both numbers of a pair at once.

    In Python: ``for k in range(8): sums[k, (word >> 8 * k) & 255] += pairs[row]``. numba would add them one by one,
    which takes half as long again.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        number = cgutils.ir.IntType(64)
        both = cgutils.ir.VectorType(number, 2)

        def place(at: int, pair: Any) -> Any:
            array = context.make_array(signature.args[at])(context, builder, given[at])
            return builder.gep(builder.bitcast(array.data, both.as_pointer()), [pair])

        added = builder.load(place(2, given[3]), align=8)
        for k in range(GROUP):
            code = builder.and_(builder.lshr(given[1], number(8 * k)), number(255))
            bins = place(0, builder.add(code, number(256 * k)))
            builder.store(builder.add(builder.load(bins, align=8), added), bins, align=8)
        return context.get_dummy_value()

    return types.void(sums, word, pairs, row), generate


class Layout:
    """Where the bins that features have are, one after the other: those of a feature, then that of missing values.

    Parameters
    ----------
    n_bins : ndarray of int
        Bins of every feature.

    Attributes
    ----------
    starts : ndarray
        Where the bins of every feature begin; one more, where the last ones end.
    """

    def __init__(self, n_bins: Array) -> None:
        self.n_bins = np.asarray(n_bins, np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.n_bins + 1)])
        self._places = np.concatenate(
            [np.append(np.arange(bins), MISSING) + 256 * j for j, bins in enumerate(self.n_bins)]
            or [np.empty(0, np.int64)]
        )

    def zeros(self, n_nodes: int) -> tuple[Array, Array, Array]:
        """Residuals, curvatures and rows of the bins of some nodes, all 0."""
        shape = (n_nodes, len(self._places))
        return np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int32)

    def picked(self, sums: Array) -> Array:
        """Numbers of all bins of all features, 256 each in the last direction, as those of the bins that there are."""
        return np.ascontiguousarray(sums[..., self._places])

    def add(self, sums: Array, residuals: Array, curves: Array, rows: Array) -> None:
        """Add what `fill_pairs` found to the sums of a node."""
        _add_apart(sums.reshape(-1, 2), self._places, residuals, curves, rows)


@njit(cache=True, nogil=True)
def _add_apart(sums: Any, places: Any, residuals: Any, curves: Any, rows: Any) -> None:
    for at in range(places.size):
        residuals[at] += sums[places[at], 0]
        curves[at] += sums[places[at], 1] >> COUNT_BITS
        rows[at] += np.int32(sums[places[at], 1] & _COUNT)
