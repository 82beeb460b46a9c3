"""Scaling of features: within each query (min–max, percentiles, z-scores) or over a whole training set.

Within-query scaling makes queries comparable and needs no fitting; with it SVMacc becomes acc3 (percentiles) and acc4
(min–max) of SIGIR'07. Values are scaled in float64, a block at a time, and keep their type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, checked_features
from rankwright.data.order import query_chunks, query_of_row
from rankwright.data.statistics import Statistics
from rankwright.errors import InputError

__all__ = ["QueryScaler", "Standardizer"]

_NO_CATEGORIES = ("scaling", "train on features that are not scaled")
_CHUNK_VALUES = 1 << 17  # values in float64 at a time: they stay in cache, and mapped files stay on disk


@dataclass(frozen=True)
class QueryScaler:
    """Scale every feature within every query.

    Parameters
    ----------
    kind : {"minmax", "percentile", "zscore"}
        ``minmax``: (x − min) / (max − min), 0 if all values are equal. ``percentile``: (rank − 1) / (n − 1), ties
        share their average rank, 0.5 if all values are equal. ``zscore``: (x − mean) / standard deviation (divided by
        n), 0 if all values are equal.

    Notes
    -----
    Sparse features stay sparse (CSR), but are made dense a few queries at a time. Zeros that are not stored count as
    values, and most results of ``percentile`` and ``zscore`` are not zero.

    Examples
    --------
    >>> data = RankingData.from_arrays([[2.0], [4.0], [3.0], [7.0]], [0, 1, 0, 1], qid=["a", "a", "a", "b"])
    >>> QueryScaler("minmax").transform(data).X.ravel().tolist()
    [0.0, 1.0, 0.5, 0.0]
    >>> QueryScaler("percentile").transform(data).X.ravel().tolist()
    [0.0, 1.0, 0.5, 0.5]
    """

    kind: str

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise InputError(f"unknown scaling {self.kind!r}; expected one of {', '.join(_KINDS)}")

    def transform(self, data: RankingData) -> RankingData:
        """The same documents with scaled features."""
        data.check_numbers(*_NO_CATEGORIES)
        return data.with_features(self.transform_arrays(data.X, data.indptr))

    def transform_arrays(self, X: Features, indptr: npt.ArrayLike) -> Any:
        """Scale the rows ``indptr[q]:indptr[q+1]`` of every query ``q``."""
        X, bounds = checked_features(X), np.asarray(indptr)
        if bounds[0] != 0 or bounds[-1] != X.shape[0] or (np.diff(bounds) < 0).any():
            raise InputError(f"{X.shape[0]} rows but query boundaries from {bounds[0]} to {bounds[-1]}")
        scale = _KINDS[self.kind]
        bounds = np.unique(bounds)  # of the queries that are not empty
        chunks = [bounds[first : last + 1] for first, last in query_chunks(bounds, _chunk_rows(X))]
        if sparse.issparse(X):
            blocks = [
                sparse.csr_array(scale(X[chunk[0] : chunk[-1]].toarray().astype(np.float64), chunk).astype(X.dtype))
                for chunk in chunks
            ]
            return sparse.vstack(blocks, format="csr") if blocks else X
        scaled = np.empty_like(X)
        for chunk in chunks:
            scaled[chunk[0] : chunk[-1]] = scale(X[chunk[0] : chunk[-1]].astype(np.float64), chunk)
        return scaled


def _chunk_rows(X: Array) -> int:
    return max(1, _CHUNK_VALUES // max(1, X.shape[1]))


def _minmax(block: Array, bounds: Array) -> Array:
    starts, query = bounds[:-1] - bounds[0], query_of_row(bounds)
    low, high = np.minimum.reduceat(block, starts), np.maximum.reduceat(block, starts)
    with np.errstate(over="ignore"):
        shrink = np.where(np.isfinite(high - low), 1.0, 0.5)  # halves of a range that would overflow
    low = low * shrink
    span = high * shrink - low
    return (block * shrink[query] - low[query]) / np.where(span > 0, span, 1.0)[query]


def _zscore(block: Array, bounds: Array) -> Array:
    starts, sizes = bounds[:-1] - bounds[0], np.diff(bounds)
    # z-scores of the min–max values are those of the values, and their sums can neither overflow nor vanish.
    centred = _minmax(block, bounds)
    centred -= np.repeat(np.add.reduceat(centred, starts) / sizes[:, None], sizes, axis=0)
    deviation = np.sqrt(np.add.reduceat(centred**2, starts) / sizes[:, None])
    return centred / np.repeat(np.where(deviation > 0, deviation, 1.0), sizes, axis=0)


def _percentile(block: Array, bounds: Array) -> Array:
    for start, stop in zip(bounds[:-1] - bounds[0], bounds[1:] - bounds[0], strict=True):
        block[start:stop] = _percentiles_of_query(block[start:stop])
    return block


def _percentiles_of_query(values: Array) -> Array:
    last = len(values) - 1
    if last == 0:
        return np.full_like(values, 0.5)
    order = np.argsort(values, axis=0)
    ranked = np.take_along_axis(values, order, axis=0)
    place = np.arange(last + 1)[:, None]
    changes = ranked[1:] != ranked[:-1]
    first_of_tie = np.zeros(values.shape, np.int64)
    last_of_tie = np.full(values.shape, last)
    first_of_tie[1:] = np.maximum.accumulate(np.where(changes, place[1:], 0), axis=0)
    last_of_tie[:-1] = np.minimum.accumulate(np.where(changes, place[:-1], last)[::-1], axis=0)[::-1]
    percentiles = np.empty_like(values)
    np.put_along_axis(percentiles, order, (first_of_tie + last_of_tie) / (2 * last), axis=0)
    return percentiles


_KINDS: dict[str, Callable[[Array, Array], Array]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "zscore": _zscore,
}
QUERY_SCALES = tuple(_KINDS)
"""The kinds of scaling within queries."""


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Shift every feature to mean 0 and scale it to standard deviation 1, as measured on training data.

    Make one with :meth:`fit`. A feature that was constant in training is shifted only. Sparse features are scaled but
    not shifted, so that they stay sparse: a standardizer fitted on them has mean 0 throughout. One fitted on dense
    features refuses sparse ones, which it cannot shift. Results too large for their type become its largest number.

    Attributes
    ----------
    mean : ndarray
        The number subtracted from each feature.
    scale : ndarray
        The number each feature is divided by: the standard deviation (divided by n), or 1 if that is 0.

    Examples
    --------
    >>> train, test = np.array([[1.0], [3.0]]), np.array([[5.0]])
    >>> standardizer = Standardizer.fit(train)
    >>> standardizer.transform(train).ravel().tolist(), standardizer.transform(test).item()
    ([-1.0, 1.0], 3.0)
    """

    mean: Array
    scale: Array

    @staticmethod
    def fit(data: Features) -> Standardizer:
        """Measure means and standard deviations on a RankingData or an array (dense or scipy sparse)."""
        X = data.X if isinstance(data, RankingData) else checked_features(data)
        if X.shape[0] == 0:
            raise InputError("no rows to fit a standardizer on")
        statistics = Statistics.of(X)
        mean, deviations = np.zeros(X.shape[1]) if sparse.issparse(X) else statistics.means, statistics.deviations
        return Standardizer(mean, np.where(deviations > 0, deviations, 1.0))

    def transform(self, data: Features) -> Any:
        """Apply to a RankingData or an array (dense or scipy sparse); returns the same type."""
        if isinstance(data, RankingData):
            data.check_numbers(*_NO_CATEGORIES)
            return data.with_features(self.transform(data.X))
        X = checked_features(data)
        if X.shape[1] != len(self.mean):
            raise InputError(f"fitted on {len(self.mean)} features but got {X.shape[1]}")
        if sparse.issparse(X):
            if self.mean.any():
                raise InputError("sparse features cannot be shifted by the mean of dense ones; fit on sparse features")
            values = _within_type(X.data, self.scale[X.indices])
            return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)
        standard = np.empty_like(X)
        # Halving both sides of the fraction is exact and keeps the difference of two huge values finite.
        shrink = np.where(self.scale > 1.0, 0.5, 1.0)
        mean, scale = self.mean * shrink, self.scale * shrink
        step = _chunk_rows(X)
        for rows in (slice(start, start + step) for start in range(0, X.shape[0], step)):
            with np.errstate(over="ignore"):
                standard[rows] = _within_type(X[rows] * shrink - mean, scale, X.dtype)
        return standard


def _within_type(values: Array, scale: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """``values / scale``, at most the largest number of the type."""
    target = values.dtype if dtype is None else np.dtype(dtype)
    largest = np.finfo(target).max
    with np.errstate(over="ignore"):
        return np.clip(values / scale, -largest, largest).astype(target)
