"""The position-based model: propensities by EM from documents that were shown at several positions, then all pairs.

A document that was always shown at one position says nothing about propensities. Neither do positions that share no
document: their propensities are known up to a factor only. Both are found before EM starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.clicks.estimates import ClickEstimates, Propensities
from rankwright.clicks.log import ClickLog
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError

_DROP = 1.920729410347062  # half of the 95% quantile of χ² with one degree of freedom


@dataclass(frozen=True, eq=False)
class Cells:
    """The log summed by pair and position.

    `indptr`: pair ``p`` owns the cells ``indptr[p]:indptr[p+1]``. `position`: index of every cell's position in
    ``positions``. `clicks`, `shown`: clicks and impressions of every cell, as float64. `positions`: the positions of
    the log, ascending.
    """

    indptr: Array
    position: Array
    clicks: Array
    shown: Array
    positions: Array

    @classmethod
    def of(cls, log: ClickLog) -> Cells:
        """The cells of a log."""
        positions, place = np.unique(log.position, return_inverse=True)
        keys, cell = np.unique(log.pair * len(positions) + place, return_inverse=True)
        clicks, shown = np.bincount(cell, log.clicks), np.bincount(cell, log.shown)
        sizes = np.bincount(keys // len(positions), minlength=log.n_pairs)
        return cls(sizes_to_indptr(sizes), keys % len(positions), clicks, shown, positions)

    @property
    def pair(self) -> Array:
        """The pair of every cell."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def by_pair(self, values: Array) -> Array:
        """Sums of cells by pair."""
        return np.bincount(self.pair, values, len(self.indptr) - 1)

    def by_position(self, values: Array) -> Array:
        """Sums of cells by position."""
        return np.bincount(self.position, values, len(self.positions))

    def some(self, kept: Array) -> Cells:
        """Some of the cells (a mask); all pairs and positions stay, perhaps without cells."""
        sizes = np.bincount(self.pair[kept], minlength=len(self.indptr) - 1)
        columns = (self.position[kept], self.clicks[kept], self.shown[kept])
        return Cells(sizes_to_indptr(sizes), *columns, self.positions)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """What kernels take."""
        return self.indptr, self.position, self.clicks, self.shown


def given_propensities(values: npt.ArrayLike | Propensities) -> Propensities:
    """Propensities as the caller has them, checked."""
    if isinstance(values, Propensities):
        return values
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not ((array > 0) & (array <= 1)).all():
        raise InputError("propensities must be numbers above 0 and at most 1, one for each position from 1")
    nothing = np.full(len(array), np.nan)
    return Propensities(np.arange(1, len(array) + 1), array, nothing, nothing, nothing)


def position_model(
    log: ClickLog, min_impressions: int, known: Propensities | None, most: int, tol: float
) -> ClickEstimates:
    """The position-based model of a log."""
    from rankwright.clicks.kernels import attraction

    cells = Cells.of(log)
    history, converged = np.empty(0), True
    if known is None:
        theta, error, history, converged = _estimate(cells, min_impressions, most, tol)
    else:
        theta, error = known.of(cells.positions), np.full(len(cells.positions), np.nan)
    usable = cells.some((np.isfinite(theta) & (theta > 0))[cells.position])
    found = np.empty((3, log.n_pairs))
    attraction(*usable.arrays, np.nan_to_num(theta), _DROP, found)
    seen, total = usable.by_pair(usable.shown), usable.by_pair(usable.clicks)
    found[:, seen < min_impressions] = np.nan
    shown, clicks = cells.by_position(cells.shown), cells.by_position(cells.clicks)
    looks = Propensities(cells.positions, theta, error, shown, clicks)
    estimate, lower, upper = found
    return ClickEstimates(
        "pbm", log, estimate, lower, upper, seen, total, looks, min_impressions, history, converged, {}
    )


def _estimate(cells: Cells, least: int, most: int, tol: float) -> tuple[Array, Array, Array, bool]:
    """Propensities with standard errors, the likelihoods of EM, and whether it came to rest."""
    from rankwright.clicks.kernels import maximise

    n = len(cells.positions)
    if n == 1:
        return np.ones(1), np.zeros(1), np.empty(0), True
    told = (np.diff(cells.indptr) > 1) & (cells.by_pair(cells.clicks) > 0) & (cells.by_pair(cells.shown) >= least)
    telling = cells.some(told[cells.pair])
    group = _linked(telling)
    sizes = np.bincount(group, cells.by_position(cells.shown))
    main = group == int(np.argmax(sizes))
    if main.sum() < 2:
        what = f"no document with at least {least} impressions and a click was shown at several positions"
        raise InputError(
            f"{what}, so propensities cannot be told from relevance; expected such documents, known propensities, or "
            "the model coec"
        )
    telling = telling.some(main[telling.position])
    kept = np.flatnonzero(np.diff(telling.indptr) > 1)
    place = np.cumsum(main) - 1
    rows = np.isin(telling.pair, kept)
    sizes = np.diff(telling.indptr)[kept]
    arrays = (sizes_to_indptr(sizes), place[telling.position[rows]], telling.clicks[rows], telling.shown[rows])
    rate = np.bincount(arrays[1], arrays[2]) / np.bincount(arrays[1], arrays[3])
    alpha, theta = np.full(len(kept), 0.5), np.clip(0.9 * rate / rate.max(), 0.01, 0.9)
    history = np.empty(most + 1)
    steps = maximise(*arrays, alpha, theta, most, tol, history)
    values, errors = np.full(n, np.nan), np.full(n, np.nan)
    values[main], errors[main] = theta, _errors(arrays, alpha, theta)
    return values, errors, history[: steps + 1], steps < most


def _linked(cells: Cells) -> Array:
    """A number for every position, the same for positions that documents link."""
    group = np.arange(len(cells.positions))
    first = cells.position[np.minimum(cells.indptr[cells.pair], max(len(cells.position) - 1, 0))]
    for one, other in np.unique(np.stack([first, cells.position], 1), axis=0).tolist():
        a, b = group[one], group[other]
        group[group == max(a, b)] = min(a, b)
    return group


def _errors(arrays: tuple[Array, ...], alpha: Array, theta: Array) -> Array:
    """Standard errors of propensities; the largest is 1 by definition."""
    from rankwright.clicks.kernels import information

    others = np.arange(len(theta)) != np.argmax(theta)
    table = information(*arrays, alpha, theta)[np.ix_(others, others)]
    errors = np.zeros(len(theta))
    variance = np.diag(np.linalg.pinv(table, hermitian=True))
    errors[others] = theta[others] * np.sqrt(np.maximum(variance, 0))
    return errors
