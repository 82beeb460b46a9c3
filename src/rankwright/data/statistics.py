"""Statistics of features in one reading: smallest and largest values, what is missing, exact means and deviations.

Sums of values and of squares are whole numbers of many digits, so nothing is rounded before the end. The same numbers
come out, bit for bit, for any order of the rows, any number of threads, any cut into parts that are merged, dense and
CSR, float32 and float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.parts import segments, stored
from rankwright.data.threads import Team

__all__ = ["Statistics", "Sums", "statistics_of"]

Array = npt.NDArray[Any]
_RUN_VALUES = 1 << 20  # values, at least, that a thread reads at a time
_RUNS_A_THREAD = 4


@dataclass(frozen=True, eq=False)
class Sums:
    """Exact sums, one per feature: Σ_d digits[d] · 2^(power + 32 d).

    Attributes
    ----------
    digits : ndarray of int64
        A row per digit, lowest first; all but the last are from 0 to 2³² − 1.
    power : int
        The power of two of the first one.
    """

    digits: Array
    power: int

    @classmethod
    def trimmed(cls, digits: Array, power: int) -> Sums:
        """Sums without the digits that are 0 everywhere."""
        from rankwright.data.statistics_kernel import DIGIT, carry

        used = np.flatnonzero(digits.any(axis=1))
        if not len(used):
            return cls(np.zeros((1, digits.shape[1]), np.int64), power)
        first, last = int(used[0]), int(used[-1])
        kept = np.zeros((last - first + 3, digits.shape[1]), np.int64)  # carries take two digits at most
        kept[:-2] = digits[first : last + 1]
        carry(kept)
        return cls(kept, power + DIGIT * first)

    def __add__(self, other: Sums) -> Sums:
        from rankwright.data.statistics_kernel import DIGIT

        power = min(self.power, other.power)
        places = [(sums, (sums.power - power) // DIGIT) for sums in (self, other)]
        digits = np.zeros((max(at + len(sums.digits) for sums, at in places), self.digits.shape[1]), np.int64)
        for sums, at in places:
            digits[at : at + len(sums.digits)] += sums.digits
        return Sums.trimmed(digits, power)

    def whole(self) -> list[int]:
        """The sums in units of 2^power."""
        from rankwright.data.statistics_kernel import DIGIT

        found = [0] * self.digits.shape[1]
        for digits in self.digits[::-1].tolist():
            found = [(total << DIGIT) + digit for total, digit in zip(found, digits, strict=True)]
        return found


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one reading of features finds, and what merges with what other rows have.

    Attributes
    ----------
    n_rows : int
        Rows read.
    low, high : ndarray
        The smallest and the largest value of each feature in float64, missing ones aside; inf and −inf without rows.
    missing : ndarray of int
        Missing values (NaN) of each feature.
    sums, squares : Sums or None
        Exact sums of values and squares; None if they were not asked for.

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

        Parameters
        ----------
        X : RankingData, ndarray or csr_array
            Features; those of a part of a data set are read where they are.
        team : Team, optional
            Threads that share the reading.
        summed : bool
            Whether means and deviations are wanted.
        """
        if isinstance(X, RankingData):
            (matrix, _), (starts, stops) = stored(X), segments(X)
        else:
            matrix, starts, stops = X, np.array([0]), np.array([X.shape[0]])
        team = team or Team(1)
        parts = team.each(lambda first, last: _read(matrix, first, last, summed), _runs(matrix, starts, stops, team))
        found = parts[0]
        for part in parts[1:]:
            found = found.merge(part)
        return found

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
        return bool((self.low > -np.inf).all() and (self.high < np.inf).all()) if self.n_rows else True

    @property
    def means(self) -> Array:
        """The mean of each feature over the rows that have it, rounded once; nan if there are none."""
        assert self.sums is not None
        power = self.sums.power
        counts = (self.n_rows - self.missing).tolist()
        found = [_quotient(total, n, power) for total, n in zip(self.sums.whole(), counts, strict=True)]
        return self._known(np.array(found, np.float64))

    @property
    def deviations(self) -> Array:
        """The standard deviation of each feature (divided by n) over the rows that have it; nan if there are none."""
        assert self.sums is not None
        assert self.squares is not None
        shift = 2 * self.sums.power - self.squares.power  # n Σ x² − (Σ x)² in one unit, 2^power
        power = min(2 * self.sums.power, self.squares.power)
        counts = (self.n_rows - self.missing).tolist()
        found = []
        for total, squares, n in zip(self.sums.whole(), self.squares.whole(), counts, strict=True):
            spread = (n * squares << max(-shift, 0)) - (total * total << max(shift, 0))
            found.append(_root(spread, n, power))
        return self._known(np.array(found, np.float64))

    def _known(self, values: Array) -> Array:
        """The values of features that are finite; nan for others."""
        return np.where((self.low > -np.inf) & (self.high < np.inf), values, np.nan)


def statistics_of(data: RankingData, threads: int = 1, *, summed: bool = True) -> Statistics:
    """The statistics of a data set, which are kept with it: its features are read for them once."""
    found: Statistics | None = vars(data).get("_statistics")
    if found is None or (summed and found.sums is None):
        team = Team(threads)
        try:
            found = Statistics.of(data, team, summed=summed)
        finally:
            team.close()
        vars(data)["_statistics"] = found
    return found


def _quotient(total: int, n: int, power: int) -> float:
    """A sum over n, total · 2^power / n, rounded once (twice below the normal numbers)."""
    if n == 0:
        return math.nan
    bits = max(0, 64 + n.bit_length() - abs(total).bit_length())
    return _scaled(abs(total) << bits, n, power - bits) * (-1 if total < 0 else 1)


def _root(spread: int, n: int, power: int) -> float:
    """√(spread · 2^power) / n."""
    if n == 0:
        return math.nan
    if spread <= 0:
        return 0.0
    bits = max(0, 2 * (64 + n.bit_length()) - spread.bit_length())
    bits += (power - bits) % 2
    return _scaled(math.isqrt(spread << bits), n, (power - bits) // 2)


def _scaled(total: int, n: int, power: int) -> float:
    """The float64 next to total · 2^power / n; inf only where it is out of range."""
    whole = total // n
    extra = max(0, whole.bit_length() - 64)  # the last of 64 bits says whether anything follows
    whole = whole >> extra | bool(whole & ((1 << extra) - 1) or total % n)
    try:
        return math.ldexp(float(whole), power + extra)
    except OverflowError:
        return math.inf


def _runs(X: Any, starts: Array, stops: Array, team: Team) -> list[tuple[Array, Array]]:
    """Rows for each task, as starts and stops of pieces; at least one task."""
    n_rows, n_values = int((stops - starts).sum()), X.data.size if sparse.issparse(X) else X.size
    n_runs = max(1, min(n_values // _RUN_VALUES, _RUNS_A_THREAD * team.threads)) if team.threads > 1 else 1
    before = np.append(0, np.cumsum(stops - starts))  # rows before each piece
    found = []
    for run in range(n_runs):
        first, last = n_rows * run // n_runs, n_rows * (run + 1) // n_runs
        pieces = slice(int(np.searchsorted(before, first, "right")) - 1, int(np.searchsorted(before, last, "left")))
        shift = starts[pieces] - before[:-1][pieces]
        of_run = np.maximum(before[:-1][pieces], first) + shift, np.minimum(before[1:][pieces], last) + shift
        found.append(of_run)
    return found


def _read(X: Any, starts: Array, stops: Array, summed: bool) -> Statistics:
    """The statistics of some pieces of rows."""
    from rankwright.data import statistics_kernel as kernel

    n = X.shape[1]
    low, high, missing = np.full(n, np.inf), np.full(n, -np.inf), np.zeros(n, np.int64)
    sums = np.zeros((kernel.N_DIGITS if summed else 1, n), np.int64)
    squares = np.zeros((kernel.N_DIGITS_SQUARES if summed else 1, n), np.int64)
    n_rows = int((stops - starts).sum())
    if sparse.issparse(X):
        counts = np.zeros(n, np.int64)
        for first, last in zip(X.indptr[starts].tolist(), X.indptr[stops].tolist(), strict=True):
            kernel.sparse_rows(
                X.data[first:last], X.indices[first:last], summed, low, high, counts, missing, sums, squares
            )
        has_zero = counts < n_rows
        low, high = np.where(has_zero, np.minimum(low, 0.0), low), np.where(has_zero, np.maximum(high, 0.0), high)
    else:
        kernel.dense_rows(X, starts, stops, summed, low, high, missing, sums, squares)
    low, high = low + 0.0, high + 0.0  # −0 is 0
    if not summed:
        return Statistics(n_rows, low, high, missing, None, None)
    exact = Sums.trimmed(sums, kernel.BOTTOM), Sums.trimmed(squares, kernel.BOTTOM_SQUARES)
    return Statistics(n_rows, low, high, missing, *exact)
