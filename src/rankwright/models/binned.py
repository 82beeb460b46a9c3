"""The piecewise-constant model: score(x) = Σ_j Σ_t weight_jt · [x_j ≥ t], over raw features.

This is a linear model over threshold bins, feature by feature: with the thresholds of a feature in ascending order, its
part of the score is a step function whose level after k steps is the sum of the first k weights. NaN is below every
threshold. The levels are added in float64 from the first feature to the last, so every bit of a score depends only on
its row. A model may scale the features within each query first (``query_scaling``); x is then the scaled row, and a
score depends on the other documents of the query, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import pick_columns
from rankwright.errors import InputError
from rankwright.models.base import Attribution, as_table
from rankwright.models.linear import QueryScaled, scaling_of
from rankwright.models.saving import Arrays, ModelKind, Read, bounded_numbers, names_from, names_of

__all__ = ["BinnedModel"]

_BLOCK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class BinnedModel(QueryScaled):
    """One step function per feature.

    Attributes
    ----------
    thresholds : ndarray of float64
        The thresholds of the first feature in ascending order, then those of the second, and so on; finite.
    starts : ndarray of int64
        Feature ``j`` owns the thresholds ``starts[j]:starts[j+1]``.
    weights : ndarray of float64
        What each threshold adds to values that reach it; finite.
    feature_names : tuple of str or None
        One name per feature.
    query_scaling : str or None
        How features are scaled within each query before they meet the thresholds, as by
        :class:`rankwright.QueryScaler`; None for unscaled features.

    Examples
    --------
    >>> model = BinnedModel([1.0, 2.0, 0.5], [0, 2, 3], [3.0, -1.0, 0.25])
    >>> model.score([[0.0, 0.0], [1.0, 0.0], [2.5, 0.7]]).tolist()
    [0.0, 3.0, 2.25]
    >>> top = BinnedModel([0.75], [0, 1], [1.0], query_scaling="minmax")  # 1 for the top quarter of a query's values
    >>> top.score([[5.0], [9.0], [3.0], [40.0], [10.0]], indptr=[0, 3, 5]).tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    """

    thresholds: Array
    starts: Array
    weights: Array
    feature_names: tuple[str, ...] | None = None
    query_scaling: str | None = None

    def __post_init__(self) -> None:
        thresholds, weights = (np.array(values, np.float64) for values in (self.thresholds, self.weights))
        starts = np.array(self.starts, np.int64)
        if not (thresholds.ndim == weights.ndim == starts.ndim == 1 and len(thresholds) == len(weights)):
            raise InputError(f"{thresholds.shape} thresholds and {weights.shape} weights; expected one weight each")
        if not len(starts) or starts[0] != 0 or starts[-1] != len(thresholds) or (np.diff(starts) < 0).any():
            raise InputError(f"starts must ascend from 0 to {len(thresholds)}, the number of thresholds")
        with np.errstate(over="ignore"):
            bound = np.abs(weights).sum()  # no score can be larger
        if not (np.isfinite(thresholds).all() and np.isfinite(bound)):
            raise InputError("a threshold, a weight or the sum of the weights is not finite")
        inside = np.ones(max(0, len(thresholds) - 1), bool)
        inside[starts[(starts > 0) & (starts < len(thresholds))] - 1] = False
        if (np.diff(thresholds) <= 0)[inside].any():
            raise InputError("the thresholds of a feature must ascend")
        for name, values in (("thresholds", thresholds), ("weights", weights), ("starts", starts)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        self._check_scaling()
        self._check_names()

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.starts) - 1

    def importance(self) -> Array:
        """The range of levels of each feature; negative if the last level is below 0."""
        ranges = np.zeros(self.n_features)
        for j, levels in enumerate(self._levels()):
            ranges[j] = (levels.max() - levels.min()) * (-1.0 if levels[-1] < 0 else 1.0)
        return ranges

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Scores, higher is better, one float64 per row; see :meth:`Model.score`."""
        X = as_table(X)
        scores = np.zeros(X.shape[0])
        columns = self._columns(X.shape[1], feature_names)
        if self.query_scaling is None:
            blocks = self._blocks(X, columns)
        else:
            scaled = self._scaled(X, columns, indptr)
            blocks = ((start + at, rows) for start, block in scaled for at, rows in self._blocks(block, None))
        for start, rows in blocks:
            scores[start : start + rows.shape[0]] = np.add.reduce(self._reached(rows), axis=0)[: rows.shape[0]]
        return scores + 0.0  # −0 becomes 0

    def _attribution(self) -> Attribution:
        def values(rows: Array, references: Array) -> Array:
            own, theirs = (self._reached(table)[:, : len(table)].T for table in (rows, references))
            return np.asarray(own - theirs.mean(axis=0))

        return values

    def _levels(self) -> list[Array]:
        """For each feature the level after 0, 1, 2, … steps."""
        steps = np.split(self.weights, self.starts[1:-1]) if self.n_features else []
        return [np.concatenate([[0.0], np.cumsum(of_feature)]) for of_feature in steps]

    def _blocks(self, X: Any, columns: Array | None) -> Iterator[tuple[int, Array]]:
        """The model's features as dense blocks of rows, each with its first row."""
        rows = max(2, _BLOCK_VALUES // max(1, self.n_features))
        for start in range(0, X.shape[0], rows):
            block = pick_columns(X[start : start + rows], columns)
            yield start, block.toarray() if sparse.issparse(block) else np.asarray(block)

    def _reached(self, rows: Array) -> Array:
        """The level of every feature, features × rows; missing features are 0.

        There are at least two columns: numpy would sum a single column in another order.
        """
        levels = np.zeros((self.n_features, max(2, rows.shape[0])))
        limits = np.split(self.thresholds, self.starts[1:-1]) if self.n_features else []
        for j, steps in enumerate(self._levels()):
            values = rows[:, j] if j < rows.shape[1] else np.zeros(rows.shape[0])
            levels[j, : rows.shape[0]] = steps[steps_reached(values, limits[j])]
        return levels


def steps_reached(values: Array, thresholds: Array) -> Array:
    """Number of ascending thresholds that each value reaches; 0 for NaN."""
    reached = np.searchsorted(thresholds, values, side="right")
    reached[np.isnan(values)] = 0
    return reached


_BINNED = {"thresholds": np.float64, "starts": np.int64, "weights": np.float64}


def _encode_binned(model: BinnedModel) -> tuple[dict[str, Any], Arrays]:
    return {**names_of(model), **scaling_of(model)}, {name: getattr(model, name) for name in _BINNED}


def _decode_binned(facts: dict[str, Any], read: Read) -> BinnedModel:
    thresholds, starts = (read(name, _BINNED[name], (None,)) for name in ("thresholds", "starts"))
    weights = bounded_numbers(read, "weights", (None,))
    return BinnedModel(thresholds, starts, weights, names_from(facts), facts.get("query_scaling"))


BINNED = ModelKind(BinnedModel, _encode_binned, _decode_binned)
