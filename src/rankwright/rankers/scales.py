"""Scales of features for training: standard deviations and means, which are folded back into the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.parts import pieces, stored
from rankwright.data.scaling import Standardizer, column_sums
from rankwright.data.threads import Team

__all__ = ["ends", "largest", "moments", "scale_in_order", "scale_of", "varies", "varying"]

Array = npt.NDArray[Any]
_NO_SPREAD = 1e-10  # share of the largest value: a feature that varies less counts as constant
_LEAST_SPREAD = 1e-290  # and so does one that varies less than this: dividing by it would overflow
_CHUNK_VALUES = 1 << 18  # values that fit in the cache


def scale_of(data: RankingData) -> Array:
    """Standard deviations; inf for constant features, which leaves them out."""
    deviations = _deviations(data)
    return np.where(varies(data.X, deviations), deviations, np.inf)


def scale_in_order(data: RankingData, rows: Array, extent: tuple[Array, Array], team: Team) -> Array:
    """The same, summed over the documents in the order of ``rows``; ``extent``: what :func:`ends` gives."""
    from rankwright.objectives.canonical import deviations_in_order

    with np.errstate(over="ignore", invalid="ignore"):
        deviations = deviations_in_order(stored(data)[0], rows, team)
    if not np.isfinite(deviations).all():
        deviations = Standardizer.fit(data).scale
    return np.where(varying(*extent, deviations), deviations, np.inf)


def moments(data: RankingData, standardize: bool) -> tuple[Array, Array]:
    """Mean and divisor of each feature; inf for constant features."""
    scale = scale_of(data)
    if not standardize:
        return np.zeros(data.n_features), np.where(np.isfinite(scale), 1.0, np.inf)
    if data.is_sparse:
        return column_sums(data.X) / data.n_docs, scale
    with np.errstate(over="ignore"):
        mean = data.X.mean(axis=0, dtype=np.float64)
    return mean if np.isfinite(mean).all() else Standardizer.fit(data).mean, scale


def varies(X: Any, deviations: Array) -> Array:
    """Which features vary by more than rounding."""
    return varying(*ends(X), deviations)


def varying(low: Array, high: Array, deviations: Array) -> Array:
    """The same, from the smallest and the largest values."""
    least = np.maximum(_NO_SPREAD * np.maximum(np.abs(low), np.abs(high)), _LEAST_SPREAD)
    return (low < high) & (deviations > least)


def largest(X: Any) -> Array:
    """The largest absolute value of each feature."""
    low, high = ends(X)
    return np.maximum(np.abs(low), np.abs(high))


def ends(X: Any, team: Team | None = None) -> tuple[Array, Array]:
    """The smallest and the largest value of each feature, all finite; X is a matrix, or data that stays in place."""
    is_data = isinstance(X, RankingData)
    n_rows, n_features = (X.n_docs, X.n_features) if is_data else X.shape
    low, high, n_stored = np.full(n_features, np.inf), np.full(n_features, -np.inf), np.zeros(n_features, np.int64)
    step = max(1, _CHUNK_VALUES // max(1, n_features))
    for part in pieces(X) if is_data else [X]:
        if sparse.issparse(part):
            _widen(part, low, high, n_stored)
            continue
        chunks = [(part[start : start + step],) for start in range(0, part.shape[0], step)]
        for own_low, own_high in (team or Team(1)).each(lambda rows: (rows.min(axis=0), rows.max(axis=0)), chunks):
            np.minimum(low, own_low, out=low)
            np.maximum(high, own_high, out=high)
        n_stored += part.shape[0]
    has_zero = n_stored < n_rows
    return np.where(has_zero, np.minimum(low, 0.0), low), np.where(has_zero, np.maximum(high, 0.0), high)


def _widen(part: Any, low: Array, high: Array, n_stored: Array) -> None:
    from rankwright.objectives.canonical import stored_ends

    stored_ends(part.data, part.indices, low, high, n_stored)


def _deviations(data: RankingData) -> Array:
    """One pass in chunks of rows, shifted by the first row; the careful way only for sparse and for huge values."""
    if data.is_sparse:
        return Standardizer.fit(data).scale
    shift = data.X[0].astype(np.float64)
    total, squares = np.zeros(data.n_features), np.zeros(data.n_features)
    step = max(1, _CHUNK_VALUES // data.n_features)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, data.n_docs, step):
            rows = data.X[start : start + step] - shift
            total += rows.sum(axis=0)
            squares += np.einsum("ij,ij->j", rows, rows)
        deviations = np.sqrt(np.maximum(squares / data.n_docs - (total / data.n_docs) ** 2, 0.0))
    return deviations if np.isfinite(deviations).all() else Standardizer.fit(data).scale
