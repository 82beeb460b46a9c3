"""Statistics of features and labels, from blocks of rows: least, largest, mean, deviation, missing; counts of labels.

Means and sums of squares of two blocks are joined as in Chan, Golub and LeVeque (1983), which does not cancel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse

__all__ = ["FIELDS", "LabelCounts", "Moments"]

Array = npt.NDArray[Any]
FIELDS = ("least", "largest", "mean", "deviation", "missing")
"""The statistics of a feature, as they are stored; NaN where no value is there."""

_MOST_LABELS = 1000


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of every feature over some rows.

    Attributes
    ----------
    count : ndarray
        Values that are there.
    missing : ndarray
        Values that are not.
    least, largest, mean : ndarray
        Of those that are there.
    squares : ndarray
        The sum of squared differences from the mean.
    """

    count: Array
    missing: Array
    least: Array
    largest: Array
    mean: Array
    squares: Array

    @classmethod
    def none(cls, n_features: int) -> Moments:
        """Of no rows."""
        zeros = np.zeros(n_features)
        whole = np.zeros(n_features, np.int64)
        return cls(whole, whole, np.full(n_features, np.inf), np.full(n_features, -np.inf), zeros, zeros)

    @classmethod
    def of(cls, X: Any) -> Moments:
        """Of a block of rows, dense or CSR.

        Examples
        --------
        >>> found = Moments.of(np.array([[1.0, np.nan], [3.0, 5.0]]))
        >>> found.mean.tolist(), found.deviation.tolist(), found.missing.tolist()
        ([2.0, 5.0], [1.0, 0.0], [0, 1])
        """
        return _of_csr(X) if sparse.issparse(X) else _of_dense(np.asarray(X))

    @property
    def deviation(self) -> Array:
        """Standard deviation, of all rows (not of a sample)."""
        return np.sqrt(self.squares / np.maximum(self.count, 1))

    def plus(self, other: Moments) -> Moments:
        """Of the rows of both."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        change = other.mean - self.mean
        return Moments(
            count,
            self.missing + other.missing,
            np.minimum(self.least, other.least),
            np.maximum(self.largest, other.largest),
            self.mean + change * share,
            self.squares + other.squares + change * change * self.count * share,
        )

    def stored(self) -> dict[str, Array]:
        """The statistics as they are stored."""
        none = self.count == 0
        found = {"least": self.least, "largest": self.largest, "mean": self.mean, "deviation": self.deviation}
        return {name: np.where(none, np.nan, values) for name, values in found.items()} | {"missing": self.missing}

    @classmethod
    def from_stored(cls, n_docs: int, found: dict[str, Array]) -> Moments:
        """From what :meth:`stored` gave."""
        count = n_docs - found["missing"]
        least = np.where(count == 0, np.inf, found["least"])
        largest = np.where(count == 0, -np.inf, found["largest"])
        mean, deviation = (np.where(count == 0, 0.0, found[name]) for name in ("mean", "deviation"))
        return cls(count, found["missing"], least, largest, mean, deviation**2 * count)


def _of_dense(X: Array) -> Moments:
    missing = np.isnan(X)
    n_missing = missing.sum(axis=0)
    count = len(X) - n_missing
    wide = X.astype(np.float64)
    filled = np.where(missing, 0.0, wide) if n_missing.any() else wide
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    apart = np.where(missing, 0.0, wide - mean) if n_missing.any() else wide - mean
    least = np.fmin.reduce(wide, axis=0, initial=np.inf)
    largest = np.fmax.reduce(wide, axis=0, initial=-np.inf)
    return Moments(count, n_missing, least, largest, mean, (apart * apart).sum(axis=0))


def _of_csr(X: Any) -> Moments:
    n_rows, width = X.shape
    values, columns = X.data.astype(np.float64), X.indices
    missing = np.isnan(values)
    n_missing = np.bincount(columns[missing], minlength=width)
    values, columns = values[~missing], columns[~missing]
    n_stored = np.bincount(columns, minlength=width)
    count, n_zeros = n_rows - n_missing, n_rows - n_missing - n_stored
    mean = np.bincount(columns, values, minlength=width) / np.maximum(count, 1)
    squares = np.bincount(columns, (values - mean[columns]) ** 2, minlength=width) + n_zeros * mean * mean
    least, largest = np.where(n_zeros > 0, 0.0, np.inf), np.where(n_zeros > 0, 0.0, -np.inf)
    np.minimum.at(least, columns, values)
    np.maximum.at(largest, columns, values)
    return Moments(count, n_missing, least, largest, mean, squares)


class LabelCounts:
    """How often each label occurs, while there are at most a thousand different ones."""

    def __init__(self) -> None:
        self._counts: Counter[float] | None = Counter()

    def add(self, labels: Array) -> None:
        """Add labels."""
        if self._counts is None:
            return
        found, counts = np.unique(labels, return_counts=True)
        if len(found) > _MOST_LABELS:
            self._counts = None
            return
        self._counts.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        if len(self._counts) > _MOST_LABELS:
            self._counts = None

    def stored(self) -> list[list[float]] | None:
        """Labels and counts, ascending; None if there are too many."""
        return None if self._counts is None else [[label, count] for label, count in sorted(self._counts.items())]
