"""The value of a measure on validation data, for choosing C, a round or an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.evaluation.table import mean_of
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["validation_value"]

Array = npt.NDArray[Any]


def validation_value(data: RankingData, measure: str | Measure) -> Callable[[Array], float]:
    """The mean of a measure as a function of the scores, in the data's own order: as ``evaluate`` computes it, faster.

    Whatever does not depend on the scores (ideal order, queries with relevant documents) is computed once.
    """
    resolved = parse_measure(measure).resolve("letor")
    known = Rankings(data.labels, data.indptr)
    ideal = known.ideal
    nothing = ~resolved.has_relevant(known)

    def value(scores: Array) -> float:
        order = rank_order(scores, data.indptr, data.doc_ids)
        rankings = Rankings(data.labels[order], data.indptr, known)
        vars(rankings)["ideal"] = ideal  # the cached property finds it here
        values = resolved.value(rankings)
        values[nothing] = 0.0
        return mean_of(values)

    return value
