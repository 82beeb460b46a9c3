"""Statistics of features in one reading: smallest and largest values, what is missing, exact means and deviations.

Sums of values and of squares are integers of many digits, so nothing is rounded before the end. The same numbers come
out, bit for bit, for any order of the rows, any number of threads, any cut into partitions that are merged, dense and
CSR, float32 and float64, on the CPU and on a GPU (`rankwright.gpu.training`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, segments, stored
from rankwright.data.threads import Team

_RUN_VALUES = 1 << 20  # values, at least, that a thread reads at a time
_RUNS_A_THREAD = 4
_NO_SPREAD = 1e-10  # share of the largest value: a feature that varies less counts as constant
_LEAST_SPREAD = 1e-290  # and so does one that varies less than this: dividing by it would overflow


@dataclass(frozen=True, eq=False)
class Sums:
    """Exact sums, one per feature: Σ_d digits[d] · 2^(power + 32 d).

    `digits`: a row per digit, lowest first; all but the last are from 0 to 2³² − 1. `power`: the power of two of the
    first one.
    """

    digits: Array
    power: int

    @classmethod
    def trimmed(cls, digits: Array, power: int) -> Sums:
        """Sums without the digits that are 0 everywhere."""
        from rankwright.data.kernels import DIGIT, carry

        used = np.flatnonzero(digits.any(axis=1))
        if not len(used):
            return cls(np.zeros((1, digits.shape[1]), np.int64), power)
        first, last = int(used[0]), int(used[-1])
        kept = np.zeros((last - first + 3, digits.shape[1]), np.int64)  # carries take two digits at most
        kept[:-2] = digits[first : last + 1]
        carry(kept)
        return cls(kept, power + DIGIT * first)

    def __add__(self, other: Sums) -> Sums:
        digits, power = Sums.stacked([self, other])
        return Sums.trimmed(digits.sum(axis=0), power)

    @staticmethod
    def stacked(sums: Sequence[Sums]) -> tuple[Array, int]:
        """Several sums as one array of sums × digits × features, and the power of two of the first digit."""
        from rankwright.data.kernels import DIGIT

        power = min(each.power for each in sums)
        offsets = [(each.power - power) // DIGIT for each in sums]
        n_digits = max(offset + len(each.digits) for each, offset in zip(sums, offsets, strict=True))
        digits = np.zeros((len(sums), n_digits, sums[0].digits.shape[1]), np.int64)
        for row, each, offset in zip(digits, sums, offsets, strict=True):
            row[offset : offset + len(each.digits)] = each.digits
        return digits, power

    def integers(self) -> list[int]:
        """The sums in units of 2^power."""
        from rankwright.data.kernels import DIGIT

        totals = [0] * self.digits.shape[1]
        for digits in self.digits[::-1].tolist():
            totals = [(total << DIGIT) + digit for total, digit in zip(totals, digits, strict=True)]
        return totals


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one reading of features finds, and what merges with what other rows have.

    `n_rows`: rows read. `low`, `high`: the smallest and the largest value of each feature in float64, missing ones
    aside; inf and −inf without rows. `missing`: missing values (NaN) of each feature. `sums`, `squares`: exact sums of
    values and squares; None if they were not asked for.

    Examples
    --------
    >>> X = np.array([[1.0, 1e300], [2.0, 1e300], [6.0, 1e300]])
    >>> both = Statistics.of(X[:1]).merge(Statistics.of(X[1:]))
    >>> both.means.tolist(), both.deviations.tolist() == Statistics.of(X[::-1]).deviations.tolist()
    ([3.0, 1e+300], True)
    """

    n_rows: int
    low: Array
    high: Array
    missing: Array
    sums: Sums | None
    squares: Sums | None

    @classmethod
    def of(cls, X: Any, team: Team | None = None, *, summed: bool = True) -> Statistics:
        """Read every row once.

        `X`: features; those of a part of a data set are read where they are. `team`: threads that share the reading.
        `summed`: whether means and deviations are wanted.
        """
        if isinstance(X, RankingData):
            return cls.of_rows(stored(X)[0], *segments(X), team, summed=summed)
        return cls.of_rows(X, np.array([0]), np.array([X.shape[0]]), team, summed=summed)

    @classmethod
    def of_rows(
        cls, X: Features, starts: Array, stops: Array, team: Team | None = None, *, summed: bool = True
    ) -> Statistics:
        """Read the rows ``starts[i]:stops[i]`` of a matrix, for every i."""
        team = team or Team(1)

        def read(first: Array, last: Array) -> Statistics:
            builder = StatisticsBuilder(X.shape[1], summed=summed)
            builder.add(X, first, last)
            return builder.finish()

        return reduce(cls.merge, team.each(read, _runs(X, starts, stops, team)))

    def merge(self, other: Statistics) -> Statistics:
        """The statistics of both together."""
        if len(self.low) != len(other.low):
            raise ValueError(f"statistics of {len(self.low)} features do not merge with those of {len(other.low)}")
        summed = self.sums is not None and other.sums is not None
        return Statistics(
            self.n_rows + other.n_rows,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.missing + other.missing,
            self.sums + other.sums if summed else None,  # type: ignore[operator]
            self.squares + other.squares if summed else None,  # type: ignore[operator]
        )

    @property
    def is_finite(self) -> bool:
        """Whether no value is infinite; missing ones are counted apart."""
        return not self.n_rows or bool((self.low > -np.inf).all() and (self.high < np.inf).all())

    @property
    def varies(self) -> Array:
        """Which features differ somewhere; a missing value differs from all others."""
        return (self.low < self.high) | ((self.missing > 0) & (self.missing < self.n_rows))

    @property
    def largest(self) -> Array:
        """The largest absolute value of each feature."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def means(self) -> Array:
        """The mean of each feature over the rows that have it, rounded once; nan if there are none."""
        assert self.sums is not None
        power = self.sums.power
        counts = (self.n_rows - self.missing).tolist()
        means = [_quotient(total, n, power) for total, n in zip(self.sums.integers(), counts, strict=True)]
        return self._where_finite(means)

    @property
    def deviations(self) -> Array:
        """The standard deviation of each feature (divided by n) over the rows that have it; nan if there are none."""
        assert self.sums is not None
        assert self.squares is not None
        shift = 2 * self.sums.power - self.squares.power  # n Σ x² − (Σ x)² in one unit, 2^power
        power = min(2 * self.sums.power, self.squares.power)
        counts = (self.n_rows - self.missing).tolist()
        deviations = []
        for total, squares, n in zip(self.sums.integers(), self.squares.integers(), counts, strict=True):
            spread = (n * squares << max(-shift, 0)) - (total * total << max(shift, 0))
            deviations.append(_root(spread, n, power))
        return self._where_finite(deviations)

    @property
    def scale(self) -> Array:
        """Deviations to divide by; inf, which leaves a feature out, where it varies by no more than rounding."""
        deviations = self.deviations
        varies = (self.low < self.high) & (deviations > np.maximum(_NO_SPREAD * self.largest, _LEAST_SPREAD))
        return np.where(varies, deviations, np.inf)

    def shift_and_scale(self, standardize: bool) -> tuple[Array, Array]:
        """What features are shifted and divided by: 0 and 1 unless they are standardised; inf for constant ones."""
        scale = self.scale
        if standardize:
            return self.means, scale
        return np.zeros(len(scale)), np.where(np.isfinite(scale), 1.0, np.inf)

    def _where_finite(self, values: list[float]) -> Array:
        return np.where((self.low > -np.inf) & (self.high < np.inf), values, np.nan)


class StatisticsBuilder:
    """Statistics of rows that come a block at a time."""

    def __init__(self, n_features: int, *, summed: bool = True) -> None:
        from rankwright.data import kernels as kernel

        n, self._summed = n_features, summed
        self._n_rows = self._n_sparse = 0
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)
        self._missing, self._stored = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._sums = np.zeros((kernel.N_DIGITS if summed else 1, n), np.int64)
        self._squares = np.zeros((kernel.N_DIGITS_SQUARES if summed else 1, n), np.int64)

    def add(self, X: Features, starts: Array | None = None, stops: Array | None = None) -> None:
        """Read all rows of a block, dense or CSR, or those from ``starts`` to ``stops``."""
        from rankwright.data import kernels as kernel

        if starts is None or stops is None:
            starts, stops = np.array([0]), np.array([X.shape[0]])
        n_rows = int((stops - starts).sum())
        self._n_rows += n_rows
        ends, sums = (self._low, self._high), (self._missing, self._sums, self._squares)
        if not sparse.issparse(X):
            kernel.dense_rows(X, starts, stops, self._summed, *ends, *sums)
            return
        self._n_sparse += n_rows
        for first, last in zip(X.indptr[starts].tolist(), X.indptr[stops].tolist(), strict=True):
            stored = X.data[first:last], X.indices[first:last]
            kernel.sparse_rows(*stored, self._summed, *ends, self._stored, *sums)

    def finish(self) -> Statistics:
        from rankwright.data import kernels as kernel

        has_zero = self._stored < self._n_sparse  # zeros that sparse rows leave out
        low = np.where(has_zero, np.minimum(self._low, 0.0), self._low) + 0.0  # −0 is 0
        high = np.where(has_zero, np.maximum(self._high, 0.0), self._high) + 0.0
        if not self._summed:
            return Statistics(self._n_rows, low, high, self._missing, None, None)
        sums = Sums.trimmed(self._sums, kernel.BOTTOM), Sums.trimmed(self._squares, kernel.BOTTOM_SQUARES)
        return Statistics(self._n_rows, low, high, self._missing, *sums)


def statistics_of(data: RankingData, threads: int = 1, *, summed: bool = True) -> Statistics:
    """The statistics of a data set, which are kept with it: its features are read for them once."""
    kept: Statistics | None = vars(data).get("_statistics")
    if kept is None or (summed and kept.sums is None):
        with closing(Team(threads)) as team:
            kept = Statistics.of(data, team, summed=summed)
        vars(data)["_statistics"] = kept
    return kept


def _quotient(total: int, n: int, power: int) -> float:
    """A sum over n, total · 2^power / n, rounded once (twice below the normal numbers)."""
    if n == 0:
        return math.nan
    bits = max(0, 64 + n.bit_length() - abs(total).bit_length())
    return _scaled(abs(total) << bits, n, power - bits) * (-1 if total < 0 else 1)


def _root(spread: int, n: int, power: int) -> float:
    if n == 0:
        return math.nan
    if spread <= 0:
        return 0.0
    bits = max(0, 2 * (64 + n.bit_length()) - spread.bit_length())
    bits += (power - bits) % 2
    return _scaled(math.isqrt(spread << bits), n, (power - bits) // 2)


def _scaled(total: int, n: int, power: int) -> float:
    """The float64 next to total · 2^power / n; inf only where it is out of range."""
    integer = total // n
    extra = max(0, integer.bit_length() - 64)  # the last of 64 bits says whether anything follows
    integer = integer >> extra | bool(integer & ((1 << extra) - 1) or total % n)
    try:
        return math.ldexp(float(integer), power + extra)
    except OverflowError:
        return math.inf


def _runs(X: Features, starts: Array, stops: Array, team: Team) -> list[tuple[Array, Array]]:
    """Rows for each task, as starts and stops of pieces; at least one task."""
    n_rows, n_values = int((stops - starts).sum()), X.data.size if sparse.issparse(X) else X.size
    n_runs = max(1, min(n_values // _RUN_VALUES, _RUNS_A_THREAD * team.threads)) if team.threads > 1 else 1
    before = np.append(0, np.cumsum(stops - starts))  # rows before each piece
    runs = []
    for run in range(n_runs):
        first, last = n_rows * run // n_runs, n_rows * (run + 1) // n_runs
        pieces = slice(int(np.searchsorted(before, first, "right")) - 1, int(np.searchsorted(before, last, "left")))
        shift = starts[pieces] - before[:-1][pieces]
        runs.append((np.maximum(before[:-1][pieces], first) + shift, np.minimum(before[1:][pieces], last) + shift))
    return runs
