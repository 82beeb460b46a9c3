"""Linear models, over the raw features or over bins of them.

    LinearModel  score(x) = Σ_j coef_j · x_j, without intercept; missing_j takes the place of a product without x_j
    BinnedModel  score(x) = Σ_j Σ_t weight_jt · [x_j ≥ t]

A model may scale the features within each query first (``query_scaling``); x is then the scaled row, and a score
depends on the other documents of the query, too.

The products are summed in float64 from the first feature to the last. That fixes every bit of a score: it does not
depend on the other rows, on whether X is dense or sparse, or on whether trailing zeros were left out, which BLAS does
not guarantee. It takes about three times as long as BLAS, far less than reading the features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import as_table, checked_features, pick_columns, widen
from rankwright.data.order import query_chunks
from rankwright.data.scaling import QueryScaler
from rankwright.errors import InputError
from rankwright.models.base import Attribution, Model, as_row
from rankwright.models.saving import Arrays, ModelKind, Read, bounded_numbers, names_from, names_of

__all__ = ["BinnedModel", "LinearModel"]

# Models that may scale the features within each query first: how their rows are found, scaled and looked at.


class QueryScaled(Model):
    """Scales features within each query if ``query_scaling`` is the name of a scaling."""

    def aligned(
        self, X: Array, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None
    ) -> Array:
        """Rows as dense float64 with the model's features as columns, for a few rows to look at.

        With ``query_scaling`` they are scaled, and X must hold all documents of its queries: ``indptr`` says which;
        without it all rows are one query.
        """
        if self.query_scaling is None:
            return super().aligned(X, feature_names)
        X = as_table(X)
        rows = np.zeros((X.shape[0], self.n_features))
        for start, part in self._scaled(X, self._columns(X.shape[1], feature_names), indptr):
            rows[start : start + part.shape[0]] = part.toarray() if sparse.issparse(part) else part
        return rows

    def _aligned_pair(
        self, row_a: Features, row_b: Features, feature_names: Sequence[str] | None, query: Array | None
    ) -> tuple[Array, Array]:
        if self.query_scaling is None:
            return super()._aligned_pair(row_a, row_b, feature_names, query)
        pair = [as_row(row) for row in (row_a, row_b)]
        if query is None:
            raise InputError("the model scales features within a query; give query=, the features of all its documents")
        documents, scaled = Model.aligned(self, query, feature_names), self.aligned(query, feature_names)
        a, b = (scaled[_place(Model.aligned(self, row, feature_names), documents)] for row in pair)
        return a, b

    def _scaled(self, X: Features, columns: Array | None, indptr: npt.ArrayLike | None) -> Iterator[tuple[int, Any]]:
        """The model's features, scaled, in blocks of queries, each with its first row."""
        assert self.query_scaling is not None
        scaler = QueryScaler(self.query_scaling)
        X = checked_features(X)
        bounds = _query_bounds(indptr, X.shape[0])
        for first, last in query_chunks(bounds, max(2, _BLOCK_VALUES // max(1, self.n_features))):
            part = widen(pick_columns(X[bounds[first] : bounds[last]], columns), self.n_features)
            yield int(bounds[first]), scaler.transform_arrays(part, bounds[first : last + 1] - bounds[first])

    def _check_scaling(self) -> None:
        kind = self.query_scaling
        if kind is not None and not isinstance(kind, str):
            raise InputError(f"query_scaling is {kind!r}; expected the name of a scaling, or None")
        if kind is not None:
            QueryScaler(kind)


def _query_bounds(indptr: npt.ArrayLike | None, n_rows: int) -> Array:
    if indptr is None:
        return np.array([0, n_rows])
    bounds = np.asarray(indptr)
    sound = bounds.ndim == 1 and len(bounds) > 0 and bounds.dtype.kind in "iu"
    if not (sound and bounds[0] == 0 and bounds[-1] == n_rows and (bounds[1:] >= bounds[:-1]).all()):
        raise InputError(f"the query boundaries must be ascending whole numbers from 0 to {n_rows}, the number of rows")
    return bounds.astype(np.int64)


def _place(row: Array, documents: Array) -> int:
    """The position of a row; equal rows are scaled alike, so any will do."""
    places = np.flatnonzero((documents == row).all(axis=1))
    if not len(places):
        raise InputError("a document to compare is not among the documents of the query")
    return int(places[0])


def _facts_of(model: QueryScaled) -> dict[str, Any]:
    """The facts of a model's header: the names of its features, and how these are scaled within queries."""
    return names_of(model) | ({} if model.query_scaling is None else {"query_scaling": model.query_scaling})


_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 20
_SPARSE_VALUES = 1 << 16


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(QueryScaled):
    """One weight per feature.

    Attributes
    ----------
    coef : ndarray of float64
        The weights, finite.
    feature_names : tuple of str or None
        One name per weight.
    query_scaling : str or None
        How features are scaled within each query first, as by :class:`rankwright.QueryScaler`: ``"minmax"``,
        ``"percentile"`` or ``"zscore"``; None for unscaled features.
    missing : ndarray of float64 or None
        What a missing value (NaN) of each feature adds to the score; None: an error where the weight is not 0.

    Examples
    --------
    >>> model = LinearModel([2.0, -1.0, 0.5])
    >>> model.score([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]).tolist()
    [1.0, 2.0]
    >>> model.predict([[1.0, 1.0]], missing_as_zero=True).tolist()
    [1.0]
    >>> LinearModel([2.0], query_scaling="minmax").score([[5.0], [9.0], [7.0], [3.0]], indptr=[0, 3, 4]).tolist()
    [0.0, 2.0, 1.0, 0.0]
    >>> LinearModel([2.0, -1.0], missing=[0.5, 0.0]).score([[np.nan, 1.0], [1.0, np.nan]]).tolist()
    [-0.5, 2.0]
    """

    coef: Array
    feature_names: tuple[str, ...] | None = None
    query_scaling: str | None = None
    missing: Array | None = None

    def __post_init__(self) -> None:
        try:
            coef = np.array(self.coef, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the weights of a linear model must be numbers") from None
        if coef.ndim != 1:
            raise InputError(f"weights of shape {coef.shape}; expected one weight per feature")
        finite = np.isfinite(coef)
        if not finite.all():
            at = int(np.argmin(finite))
            raise InputError(f"the weight of feature {at} (from 0) is {coef[at]}; weights must be finite")
        coef.flags.writeable = False
        object.__setattr__(self, "coef", coef)
        self._check_scaling()
        self._check_names()
        if self.missing is not None:
            self._check_missing(np.array(self.missing, np.float64))

    def _check_missing(self, missing: Array) -> None:
        if missing.shape != self.coef.shape or not np.isfinite(missing).all():
            raise InputError("missing is not one finite number per feature")
        if self.query_scaling is not None:
            raise InputError("missing does not go with query_scaling; expected one of the two")
        missing.flags.writeable = False
        object.__setattr__(self, "missing", missing)

    @property
    def n_features(self) -> int:
        return len(self.coef)

    def takes_text(self, at: int) -> bool:
        """Whether a feature may be text: those that are not used may."""
        return not self.uses()[at]

    def uses(self) -> Array:
        return np.asarray(self.coef != 0 if self.missing is None else (self.coef != 0) | (self.missing != 0))

    def importance(self) -> Array:
        return self.coef

    def score(
        self, X: Features, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None
    ) -> Array:
        X = as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        if self.query_scaling is None:
            scores = self._products(X, columns)
        else:
            scores = np.zeros(X.shape[0])
            for start, scaled in self._scaled(X, columns, indptr):
                scores[start : start + scaled.shape[0]] = self._products(scaled, None)
        self._check_scores(scores, X, feature_names)
        return scores

    def joined(self, weight: float, other: LinearModel, other_weight: float) -> Any:
        """One model with the weighted sum of the weights; None if features are scaled differently."""
        if self.query_scaling != other.query_scaling or (self.missing is None) != (other.missing is None):
            return None
        coef = weight * self.coef + other_weight * other.coef
        missing = None
        if self.missing is not None and other.missing is not None:
            missing = weight * self.missing + other_weight * other.missing
        return LinearModel(coef, other.feature_names, other.query_scaling, missing)

    def _attribution(self) -> Attribution:
        missing, used = self.missing, self.uses()

        def added(rows: Array) -> Array:
            products = rows if missing is None else np.where(np.isnan(rows), missing, self.coef * rows)
            return np.where(used, products, 0.0)  # features without a weight may be missing

        if missing is None:
            return lambda rows, references: self.coef * (added(rows) - added(references).mean(axis=0))
        return lambda rows, references: added(rows) - added(references).mean(axis=0)

    def _products(self, X: Features, columns: Array | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # the caller reports scores that are not finite
            return self._sparse(X, columns) if sparse.issparse(X) else self._dense(X, columns)

    def _dense(self, X: Array, columns: Array | None) -> Array:
        # Transposed blocks of one shape, whatever X is: summing their rows keeps the order of the features.
        n_rows = X.shape[0]
        scores = np.zeros(n_rows)
        if not self.n_features:
            return scores
        rows = max(2, min(_BLOCK_ROWS, _BLOCK_VALUES // self.n_features))
        block = np.zeros((self.n_features, rows))
        weights, unused = self.coef[:, np.newaxis], np.flatnonzero(self.coef == 0)
        for start in range(0, n_rows, rows):
            chunk = pick_columns(X[start : start + rows], columns).T
            block[: chunk.shape[0], : chunk.shape[1]] = np.ascontiguousarray(chunk)
            absent = None if self.missing is None else np.isnan(block)
            block *= weights
            block[unused] = 0.0  # features without a weight may be missing, or categories
            if absent is not None and self.missing is not None:
                np.copyto(block, self.missing[:, np.newaxis], where=absent)
            scores[start : start + rows] = np.add.reduce(block, axis=0)[: chunk.shape[1]]
        return scores + 0.0  # −0 becomes 0

    def _sparse(self, X: sparse.csr_array, columns: Array | None) -> Array:
        scores = np.zeros(X.shape[0])
        X = pick_columns(X, columns)
        for start, stop in query_chunks(X.indptr, _SPARSE_VALUES):
            values = slice(X.indptr[start], X.indptr[stop])
            weights = self.coef[X.indices[values]]
            products = np.where(weights == 0, 0.0, X.data[values].astype(np.float64) * weights)
            if self.missing is not None:
                products = np.where(np.isnan(X.data[values]), self.missing[X.indices[values]], products)
            row = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
            # bincount adds in the order of its input: from the first feature to the last.
            scores[start:stop] = np.bincount(row, products, minlength=stop - start)
        return scores + 0.0


def _encode_linear(model: LinearModel) -> tuple[dict[str, Any], Arrays]:
    if model.missing is None:
        return _facts_of(model), {"coef": model.coef}
    return _facts_of(model) | {"takes_missing": True}, {"coef": model.coef, "missing": model.missing}


def _decode_linear(facts: dict[str, Any], read: Read) -> LinearModel:
    coef = read("coef", np.float64, (None,))
    missing = read("missing", np.float64, coef.shape) if facts.get("takes_missing") else None
    return LinearModel(coef, names_from(facts), facts.get("query_scaling"), missing)


def _linear_version(model: LinearModel) -> int:
    return 1 if model.missing is None else 3  # earlier readers would leave out what missing values add


LINEAR = ModelKind(LinearModel, _encode_linear, _decode_linear, _linear_version)


# The piecewise-constant model: a linear model over threshold bins, feature by feature.
#
# With the thresholds of a feature in ascending order, its share of the score is a step function whose level after k
# steps is the sum of the first k weights. NaN is below every threshold. The levels are added in float64 from the first
# feature to the last, so every bit of a score depends only on its row, unless features are scaled.


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
        return len(self.starts) - 1

    def importance(self) -> Array:
        """The range of levels of each feature; negative if the last level is below 0."""
        ranges = np.zeros(self.n_features)
        for j, levels in enumerate(self._levels()):
            ranges[j] = (levels.max() - levels.min()) * (-1.0 if levels[-1] < 0 else 1.0)
        return ranges

    def score(self, X: Features, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
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
            levels, others = (self._reached(table)[:, : len(table)].T for table in (rows, references))
            return np.asarray(levels - others.mean(axis=0))

        return values

    def _levels(self) -> list[Array]:
        """For each feature the level after 0, 1, 2, … steps."""
        steps = np.split(self.weights, self.starts[1:-1]) if self.n_features else []
        return [np.concatenate([[0.0], np.cumsum(of_feature)]) for of_feature in steps]

    def _blocks(self, X: Array, columns: Array | None) -> Iterator[tuple[int, Array]]:
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
    return _facts_of(model), {name: getattr(model, name) for name in _BINNED}


def _decode_binned(facts: dict[str, Any], read: Read) -> BinnedModel:
    thresholds, starts = (read(name, _BINNED[name], (None,)) for name in ("thresholds", "starts"))
    weights = bounded_numbers(read, "weights", (None,))
    return BinnedModel(thresholds, starts, weights, names_from(facts), facts.get("query_scaling"))


BINNED = ModelKind(BinnedModel, _encode_binned, _decode_binned)
