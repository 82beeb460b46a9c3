"""Models that may scale the features within each query first: how their rows are found, scaled and looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.blocks import query_chunks
from rankwright.data.matching import pick_columns, widen
from rankwright.data.scaling import QueryScaler
from rankwright.data.values import checked_features
from rankwright.errors import InputError
from rankwright.models.base import Model, as_row, as_table

__all__ = ["QueryScaled"]

Array = npt.NDArray[Any]
_BLOCK_VALUES = 1 << 20


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
