"""The linear model: score(x) = Σ_j coef_j · x_j over the raw features, without intercept.

A model may scale the features within each query first (``query_scaling``); x is then the scaled row.

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

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import checked_features, pick_columns, widen
from rankwright.data.order import query_chunks
from rankwright.data.scaling import QueryScaler
from rankwright.errors import InputError
from rankwright.models.base import Attribution, Model, as_row, as_table
from rankwright.models.saving import Arrays, ModelKind, Read, names_from, names_of

__all__ = ["LinearModel"]

# Models that may scale the features within each query first: how their rows are found, scaled and looked at.


class QueryScaled(Model):
    """Scales features within each query if ``query_scaling`` is the name of a scaling."""

    def aligned(self, X: Any, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None) -> Array:
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
        self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None, query: Any
    ) -> tuple[Array, Array]:
        """Two rows as the model sees them; ``query`` holds all documents of their query."""
        if self.query_scaling is None:
            return super()._aligned_pair(row_a, row_b, feature_names, query)
        pair = [as_row(row) for row in (row_a, row_b)]
        if query is None:
            raise InputError("the model scales features within a query; give query=, the features of all its documents")
        documents, scaled = Model.aligned(self, query, feature_names), self.aligned(query, feature_names)
        a, b = (scaled[_place(Model.aligned(self, row, feature_names), documents)] for row in pair)
        return a, b

    def _scaled(self, X: Any, columns: Array | None, indptr: npt.ArrayLike | None) -> Iterator[tuple[int, Any]]:
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
    found = np.flatnonzero((documents == row).all(axis=1))
    if not len(found):
        raise InputError("a document to compare is not among the documents of the query")
    return int(found[0])


def scaling_of(model: Any) -> dict[str, str]:
    """How a model scales features within queries, for its header."""
    return {} if model.query_scaling is None else {"query_scaling": model.query_scaling}


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

    Examples
    --------
    >>> model = LinearModel([2.0, -1.0, 0.5])
    >>> model.score([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]).tolist()
    [1.0, 2.0]
    >>> model.predict([[1.0, 1.0]], missing_as_zero=True).tolist()
    [1.0]
    >>> LinearModel([2.0], query_scaling="minmax").score([[5.0], [9.0], [7.0], [3.0]], indptr=[0, 3, 4]).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """

    coef: Array
    feature_names: tuple[str, ...] | None = None
    query_scaling: str | None = None

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

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.coef)

    def takes_text(self, at: int) -> bool:
        """Whether a feature may be text, or missing: those of weight 0 may."""
        return bool(self.coef[at] == 0)

    def importance(self) -> Array:
        return self.coef

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None) -> Array:
        """Scores, higher is better, one float64 per row; see :meth:`Model.score`."""
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

    def joined(self, weight: float, other: Any, other_weight: float) -> Any:
        """One model with the weighted sum of the weights; None if features are scaled differently."""
        if self.query_scaling != other.query_scaling:
            return None
        coef = weight * self.coef + other_weight * other.coef
        return LinearModel(coef, other.feature_names, other.query_scaling)

    def _attribution(self) -> Attribution:
        return lambda rows, references: self.coef * (rows - references.mean(axis=0))

    def _products(self, X: Any, columns: Array | None) -> Array:
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
            block *= weights
            block[unused] = 0.0  # features without a weight may be missing, or categories
            scores[start : start + rows] = np.add.reduce(block, axis=0)[: chunk.shape[1]]
        return scores + 0.0  # −0 becomes 0

    def _sparse(self, X: sparse.csr_array, columns: Array | None) -> Array:
        scores = np.zeros(X.shape[0])
        X = pick_columns(X, columns)
        for start, stop in _row_chunks(X.indptr):
            values = slice(X.indptr[start], X.indptr[stop])
            weights = self.coef[X.indices[values]]
            products = np.where(weights == 0, 0.0, X.data[values].astype(np.float64) * weights)
            row = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
            # bincount adds in the order of its input: from the first feature to the last.
            scores[start:stop] = np.bincount(row, products, minlength=stop - start)
        return scores + 0.0


def _row_chunks(indptr: Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows: at least one row, at most about ``_SPARSE_VALUES`` values."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, int(indptr[start]) + _SPARSE_VALUES, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield start, stop
        start = stop


def _encode_linear(model: LinearModel) -> tuple[dict[str, Any], Arrays]:
    return {**names_of(model), **scaling_of(model)}, {"coef": model.coef}


def _decode_linear(facts: dict[str, Any], read: Read) -> LinearModel:
    return LinearModel(read("coef", np.float64, (None,)), names_from(facts), facts.get("query_scaling"))


LINEAR = ModelKind(LinearModel, _encode_linear, _decode_linear)
