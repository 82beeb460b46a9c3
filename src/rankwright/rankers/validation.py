"""The value of a measure on validation data or held-out queries, for choosing C, a round or an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.evaluation.table import mean_of
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["query_values", "validation_value"]

Array = npt.NDArray[Any]


def query_values(data: RankingData, measure: str | Measure, docs: Array | None = None) -> Callable[[Array], Array]:
    """A measure of every query as a function of the scores, in the data's own order.

    As ``evaluate`` computes it, but faster: what does not depend on the scores (ideal order, queries with relevant
    documents) is computed once.

    Parameters
    ----------
    data : RankingData
        The labels and queries.
    measure : str or Measure
        What to compute.
    docs : ndarray, optional
        The documents, query after query, in the order that decides between equal scores where there are no ids.
    """
    resolved = parse_measure(measure).resolve("letor")
    if docs is None or data.doc_ids is not None:  # in the order in which equal scores leave them
        docs = rank_order(np.zeros(data.n_docs), data.indptr, data.doc_ids)
    labels, indptr = data.labels[docs], data.indptr  # the function below keeps these, not the features
    known = Rankings(labels, indptr)
    ideal = known.ideal
    nothing = ~resolved.has_relevant(known)

    def values(scores: Array) -> Array:
        order = rank_order(scores[docs], indptr)
        rankings = Rankings(labels[order], indptr, known)
        vars(rankings)["ideal"] = ideal  # the cached property finds it here
        found = resolved.value(rankings)
        found[nothing] = 0.0
        return found

    return values


def validation_value(data: RankingData, measure: str | Measure) -> Callable[[Array], float]:
    """The mean of a measure as a function of the scores, in the data's own order."""
    values = query_values(data, measure)
    return lambda scores: mean_of(values(scores))
