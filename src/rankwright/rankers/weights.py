"""Weights of queries and documents: weights are relative, and weight 0 means absent.

Documents and queries of weight 0 are taken out of the data before anything looks at it: scales, bins, grades, pairs.
The rest is divided by its mean over the queries that have an order to learn, so that C and learning rates mean the same
with weights as without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, some_queries
from rankwright.errors import InputError


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights in the data's own order, all above 0.

    `queries`: the weight of each query times the mean of its documents' weights. `documents`: the weight of each
    document times that of its query. `winning`: where labels are clicks: a factor per document for its clicks, with a
    mean of 1 over documents of labels above 0; None if labels are judgements. `pair`: with clicks: a number per
    document that is the same on all pages on which it was shown for the same query.
    """

    queries: Array
    documents: Array
    winning: Array | None = None
    pair: Array | None = None

    def of(self, kept: Array, data: RankingData) -> tuple[RankingData, Weights]:
        """The data of some queries (a mask), and their weights."""
        if kept.all():
            return data, self
        docs = np.repeat(kept, data.sizes)
        pair = None if self.pair is None else self.pair[docs]
        selected = Weights(self.queries[kept], self.documents[docs], self.winning_of(kept, data), pair)
        return some_queries(data, kept), selected

    def winning_of(self, kept: Array, data: RankingData) -> Array | None:
        return None if self.winning is None else self.winning[np.repeat(kept, data.sizes)]

    def relative(self, useful: Array) -> Weights:
        """The same weights with a mean of 1 over the queries that have something to learn, if there are any."""
        counted = self.queries[useful] if useful.any() else self.queries
        queries = self.queries / counted.max()  # first, so that equal weights become 1 to the last bit
        learning = queries[useful] if useful.any() else queries
        mean = math.fsum(learning) / len(learning)  # does not depend on the order of queries
        largest = self.documents.max()
        documents = self.documents if largest == 1 else self.documents / largest
        return replace(self, queries=queries / mean, documents=documents)

    def counted(self, data: RankingData) -> Array:
        """The weight of each query in a mean of values; with clicks, times the weight of its clicks."""
        return self.queries if self.winning is None else self.queries * click_weights(data, self.winning)


def click_weights(data: RankingData, winning: Array) -> Array:
    """The weight of all clicks of each page; 0 where no document is unclicked."""
    weights = np.bincount(data.query_of_row(), data.labels * winning, data.n_queries)
    return np.where(data.sizes > 1, weights, 0.0)


def weigh(
    data: RankingData,
    sample_weight: Any = None,
    query_weight: Array | None = None,
    *,
    queries: Array | None = None,
    winning: Array | None = None,
    pair: Array | None = None,
) -> tuple[RankingData, Weights]:
    """The data without documents of weight 0, and the weights of the rest.

    `sample_weight`, `winning`, `pair`: one per row, in the caller's order of rows. `query_weight`: one per query as
    ``{qid: weight}``, or as a list in the order in which queries first appear; or per row, averaged. `queries`: one
    weight per query, in the data's order of queries. `winning`: a factor for clicks. `pair`: the same number for rows
    of the same query and document.
    """
    if not data.n_docs:
        raise InputError("the data has no documents; expected at least one")
    arguments = [in_own_order(values, data) for values in (winning, pair)]
    if sample_weight is None and query_weight is None and queries is None:
        weights = Weights(np.ones(data.n_queries), np.broadcast_to(1.0, data.n_docs), *arguments)
        return data, _around_one(weights, data)
    of_query = _of_queries(data, query_weight, queries)
    rows = np.ones(data.n_docs) if sample_weight is None else _row_weights(data, sample_weight, "sample_weight")
    documents = rows * of_query[data.query_of_row()]
    weighed = documents > 0
    if not weighed.any():
        raise InputError("all weights are zero; expected a query that counts")
    present = np.logical_or.reduceat(weighed, data.indptr[:-1])
    if not (weighed | ~np.repeat(present, data.sizes)).all():  # some documents of a query that stays
        data, order, present = _without(data, ~weighed)
        rows, of_query, documents = rows[order], of_query[present], documents[order]
        arguments = [None if values is None else values[order] for values in arguments]
        present = np.ones(data.n_queries, bool)
    data, weights = Weights(of_query * _mean_per_query(data, rows), documents, *arguments).of(present, data)
    return data, _around_one(weights, data)


def _around_one(weights: Weights, data: RankingData) -> Weights:
    """Weights whose click factors have a mean of 1."""
    if weights.winning is None or not (data.labels > 0).any():
        return weights
    able = weights.winning[data.labels > 0]
    return replace(weights, winning=weights.winning / (math.fsum(able) / len(able)))


def _without(data: RankingData, left_out: Array) -> tuple[RankingData, Array, Array]:
    """The data without some documents, as if gathered without them; the original places of documents and queries."""
    docs = np.flatnonzero(~left_out)
    if data.rows is not None:  # queries come in the order in which the caller's remaining rows name them
        docs = docs[np.argsort(data.rows[docs])]
    ids = None if data.doc_ids is None else data.doc_ids[docs]
    query = data.query_of_row()[docs]
    smaller = RankingData.from_arrays(
        data.X[docs], data.labels[docs], query, doc_ids=ids, feature_names=data.feature_names, allow_missing=True
    )
    order = docs if smaller.rows is None else docs[smaller.rows]
    numbers = smaller.query_ids
    return replace(smaller, query_ids=data.query_ids[numbers]), order, numbers


def _of_queries(data: RankingData, query_weight: Any, queries: Array | None) -> Array:
    """One weight per query, the largest 1."""
    if queries is not None:
        weights = _numbers(queries, "weights")
        if weights.shape != (data.n_queries,):
            raise InputError(f"{data.n_queries} queries but weights of shape {weights.shape}; expected one per query")
        return _to_one(_checked(weights, "weights"))
    if isinstance(query_weight, Mapping):
        return _to_one(weights_by_query(data, query_weight, "query_weight"))
    if query_weight is not None:
        weights = _numbers(query_weight, "query_weight")
        if weights.shape == (data.n_queries,) and data.n_queries != data.n_docs:
            return _to_one(_checked(weights, "query_weight"))
        return _mean_per_query(data, _row_weights(data, weights, "query_weight", "row or query"))
    return np.ones(data.n_queries)


def weights_by_query(data: RankingData, given: Mapping[Any, float], name: str) -> Array:
    """One weight per query, from a mapping by query id; ``name`` is that of the parameter, for messages."""
    queries = data.query_ids.tolist()
    missing = [query for query in queries if query not in given]
    if missing:
        example = next(iter(given), None)
        hint = f"; it has {len(given):,}, such as {example!r}" if given else ", nor for any other"
        raise InputError(f"{name} has no entry for query {missing[0]!r}{hint}")
    return _checked(_numbers([given[query] for query in queries], name), name)


def _checked(weights: Array, name: str) -> Array:
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError(f"{name} must be finite and at least 0")
    return weights


def _to_one(weights: Array) -> Array:
    """Weights divided by the largest, which makes equal weights exactly 1."""
    largest = weights.max(initial=0.0)
    return weights / largest if largest > 0 else weights


def _row_weights(data: RankingData, values: Any, name: str, of: str = "row") -> Array:
    array = _numbers(values, name)
    if array.shape != (data.n_docs,):
        raise InputError(f"{data.n_docs} rows but {name} of shape {array.shape}; expected one weight per {of}")
    return np.asarray(in_own_order(_to_one(_checked(array, name)), data))


def in_own_order(values: Array | None, data: RankingData) -> Any:
    """A value per row of the caller's, or None, in the data's order."""
    return values if values is None or data.rows is None else values[data.rows]


def _numbers(values: Any, name: str) -> Array:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} contains a non-numeric value; expected one weight per row or per query") from None


def _mean_per_query(data: RankingData, rows: Array) -> Array:
    return np.asarray(np.bincount(data.query_of_row(), rows, data.n_queries) / data.sizes)
