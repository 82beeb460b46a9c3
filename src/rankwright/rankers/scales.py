"""Scales of features for training: standard deviations and means, which are folded back into the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.statistics import Statistics, statistics_of
from rankwright.data.threads import Team

__all__ = ["ends", "largest", "moments", "scale_of", "varying"]

Array = npt.NDArray[Any]
_NO_SPREAD = 1e-10  # share of the largest value: a feature that varies less counts as constant
_LEAST_SPREAD = 1e-290  # and so does one that varies less than this: dividing by it would overflow


def scale_of(found: Statistics) -> Array:
    """Standard deviations; inf for constant features, which leaves them out."""
    deviations = found.deviations
    return np.where(varying(found.low, found.high, deviations), deviations, np.inf)


def moments(data: RankingData, standardize: bool, threads: int = 1) -> tuple[Array, Array]:
    """Mean and divisor of each feature; inf for constant features."""
    found = statistics_of(data, threads)
    scale = scale_of(found)
    if not standardize:
        return np.zeros(data.n_features), np.where(np.isfinite(scale), 1.0, np.inf)
    return found.means, scale


def varying(low: Array, high: Array, deviations: Array) -> Array:
    """Which features vary by more than rounding, given their smallest and largest values."""
    least = np.maximum(_NO_SPREAD * np.maximum(np.abs(low), np.abs(high)), _LEAST_SPREAD)
    return (low < high) & (deviations > least)


def largest(X: Any) -> Array:
    """The largest absolute value of each feature; X is a matrix, or data that stays in place."""
    found = statistics_of(X, summed=False) if isinstance(X, RankingData) else Statistics.of(X, summed=False)
    return np.maximum(np.abs(found.low), np.abs(found.high))


def ends(data: RankingData, team: Team | None = None) -> tuple[Array, Array]:
    """The smallest and the largest value of each feature."""
    found = statistics_of(data, 1 if team is None else team.threads, summed=False)
    return found.low, found.high
