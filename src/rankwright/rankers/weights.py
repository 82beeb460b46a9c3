"""Weights of queries and documents, from ``sample_weight`` and ``query_weight``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError

__all__ = ["Weights", "weigh", "weight_of_queries"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights in the data's own order.

    Attributes
    ----------
    queries : ndarray
        One per query: its weight times the mean of its documents' weights.
    documents : ndarray
        One per document: its weight times that of its query.
    """

    queries: Array
    documents: Array

    @classmethod
    def of_queries(cls, data: RankingData, weights: Any = None) -> Weights:
        """From one weight per query; all 1 for None."""
        array = np.ones(data.n_queries) if weights is None else np.asarray(weights, np.float64)
        if array.shape != (data.n_queries,):
            raise InputError(f"{data.n_queries} queries but weights of shape {array.shape}; expected one per query")
        _check(array, "weights")
        return cls(array, array[data.query_of_row()])


def weigh(data: RankingData, sample_weight: Any, query_weight: Any) -> tuple[RankingData, Weights]:
    """The data without documents of weight 0, and the weights, which are given in the caller's order of rows."""
    queries = weight_of_queries(data, sample_weight, query_weight)
    documents = weight_of_queries(data, None, query_weight)[data.query_of_row()]
    if sample_weight is None:
        return data, Weights(queries, documents)
    rows = _row_weights(data, sample_weight, "sample_weight")
    kept = rows > 0
    documents = documents * rows
    if kept.all():
        return data, Weights(queries, documents)
    query = data.query_of_row()
    left = np.bincount(query[kept], minlength=data.n_queries)
    smaller = RankingData.from_arrays(
        data.X[kept],
        data.labels[kept],
        query[kept],
        doc_ids=None if data.doc_ids is None else data.doc_ids[kept],
        feature_names=data.feature_names,
        allow_missing=True,
    )
    queries = queries * data.sizes / np.maximum(left, 1)
    return replace(smaller, query_ids=data.query_ids[left > 0]), Weights(queries[left > 0], documents[kept])


def weight_of_queries(data: RankingData, sample_weight: Any, query_weight: Any) -> Array:
    """One weight per query from weights per row (averaged) and weights per query (a mapping, or per row)."""
    weights = np.ones(data.n_queries)
    if sample_weight is not None:
        weights *= _mean_per_query(data, _row_weights(data, sample_weight, "sample_weight"))
    if isinstance(query_weight, Mapping):
        missing = [query for query in data.query_ids.tolist() if query not in query_weight]
        if missing:
            raise InputError(f"query_weight has no entry for query {missing[0]!r}")
        weights *= _numbers([query_weight[query] for query in data.query_ids.tolist()], "query_weight")
    elif query_weight is not None:
        weights *= _mean_per_query(data, _row_weights(data, query_weight, "query_weight"))
    _check(weights, "weights")
    return weights


def _check(weights: Array, name: str) -> None:
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError(f"{name} must be finite and at least 0")
    if not weights.any():
        raise InputError("all weights are zero; expected a query that counts")


def _row_weights(data: RankingData, values: Any, name: str) -> Array:
    array = _numbers(values, name)
    if array.shape != (data.n_docs,):
        raise InputError(f"{data.n_docs} rows but {name} of shape {array.shape}; expected one weight per row")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError(f"{name} must be finite and at least 0")
    return array if data.rows is None else array[data.rows]


def _numbers(values: Any, name: str) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} contains a non-numeric value; expected one weight per row or per query") from None


def _mean_per_query(data: RankingData, rows: Array) -> Array:
    return np.asarray(np.bincount(data.query_of_row(), rows, data.n_queries) / data.sizes)
