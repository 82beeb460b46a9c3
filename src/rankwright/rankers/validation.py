"""The value of a measure on validation data or held-out queries, for choosing C, a round or an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks
from rankwright.data.clicked import Clicked
from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.evaluation.evaluate import mean_of
from rankwright.measures import Measure, Rankings, parse_measure
from rankwright.rankers.weights import click_weights

__all__ = ["query_values", "validation_value"]

Array = npt.NDArray[Any]
_AT_ONCE = 1 << 17  # documents that are ranked together


def query_values(
    data: RankingData, measure: str | Measure, docs: Array | None = None, winning: Array | None = None
) -> Callable[[Array], Array]:
    """A measure of every query as a function of the scores, in the data's own order.

    As ``evaluate`` computes it, but faster: ideal orders and queries with relevant documents, which do not depend on
    the scores, are computed once. With ``winning`` every click is taken as the only relevant document of its page, and
    a page has the weighted mean over its clicks, 0 without any.

    Parameters
    ----------
    data : RankingData
        The labels and queries.
    measure : str or Measure
        What to compute.
    docs : ndarray, optional
        The documents, query after query, in the order that decides between equal scores where there are no ids.
    winning : ndarray, optional
        The factor of every document for its clicks, see :class:`~rankwright.rankers.weights.Weights`.
    """
    resolved = parse_measure(measure).resolve("letor")
    if docs is None or data.doc_ids is not None:  # in the order that ties keep
        docs = rank_order(np.zeros(data.n_docs), data.indptr, data.doc_ids)
    labels, indptr = data.labels[docs], data.indptr  # the functions below keep these, not the features
    if winning is None:
        return _values(resolved, docs, labels, indptr)
    apart = Clicked.of(labels, indptr)
    of_clicks = _values(resolved, docs[apart.rows], apart.labels, apart.indptr)
    weights = (labels * winning[docs])[apart.clicks]
    totals = np.bincount(apart.query, weights, data.n_queries)

    def values(scores: Array) -> Array:
        sums = np.bincount(apart.query, weights * of_clicks(scores), len(totals))
        return np.divide(sums, totals, out=np.zeros(len(totals)), where=totals > 0)

    return values


def _values(resolved: Measure, docs: Array, labels: Array, indptr: Array) -> Callable[[Array], Array]:
    """The measure of documents with these labels, query after query, some queries at a time."""
    parts = []
    for first, last in query_chunks(indptr, _AT_ONCE):
        rows = slice(int(indptr[first]), int(indptr[last]))
        parts.append(_some_values(resolved, docs[rows], labels[rows], indptr[first : last + 1] - rows.start))
    return lambda scores: np.concatenate([values(scores) for values in parts]) if parts else np.empty(0)


def _some_values(resolved: Measure, docs: Array, labels: Array, indptr: Array) -> Callable[[Array], Array]:
    judged = Rankings(labels, indptr)
    ideal = judged.ideal
    without = ~resolved.has_relevant(judged)

    def values(scores: Array) -> Array:
        order = rank_order(scores[docs], indptr)
        rankings = Rankings(labels[order], indptr, judged)
        vars(rankings)["ideal"] = ideal  # the cached property finds it here
        of_query = resolved.value(rankings)
        of_query[without] = 0.0
        return of_query

    return values


def validation_value(
    data: RankingData, measure: str | Measure, winning: Array | None = None
) -> Callable[[Array], float]:
    """The mean of a measure as a function of the scores, in the data's own order; with ``winning`` over clicks."""
    values = query_values(data, measure, winning=winning)
    if winning is None:
        return lambda scores: mean_of(values(scores))
    weights = click_weights(data, winning)
    total = math.fsum(weights)
    return lambda scores: math.fsum(weights * values(scores)) / total if total else math.nan
