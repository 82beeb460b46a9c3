"""The weights of Ranking SVM for IR: τ for the two labels of a pair, μ for its query."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.pairs import distinct, label_counts, pairs_of_queries, whole_values
from rankwright.errors import InputError
from rankwright.measures import Measure, Rankings, parse_measure

__all__ = ["grades_of", "query_pair_weights", "rank_pair_weights", "weight_table"]

Array = npt.NDArray[Any]


def grades_of(data: RankingData) -> tuple[Array, Array]:
    """The distinct labels, lowest first, and the index of each document's label among them."""
    known = whole_values(data.labels)
    if known is not None and data.labels.dtype == np.float64 and np.array_equal(known, np.arange(len(known))):
        return known, data.labels  # they are the indices
    values, grades = distinct(data.labels)
    return values, grades.astype(np.float64)


def rank_pair_weights(data: RankingData, measure: str | Measure = "ndcg@1") -> dict[tuple[float, float], float]:
    """τ(a, b): the mean drop of a measure when, in a perfect ranking, random documents of labels a and b swap places.

    The mean is over the queries that have both labels, and has a closed form for each: (worth_a − worth_b) times the
    difference of the mean discounts of the places of a and those of b, over the norm.

    Parameters
    ----------
    data : RankingData
        Training data.
    measure : str or Measure
        A sum over positions, such as nDCG@m; with exponential gains unless stated.
    """
    found = parse_measure(measure).resolve("letor")
    form = found.position_sum()
    if form is None or form.credits(np.arange(1)) is not None:
        raise InputError(f"rank_weights is {str(found)!r}; expected a sum over positions such as ndcg@1, or a mapping")
    values, counts = label_counts(data.labels, data.indptr)
    worth = form.worth(values)
    discounts = form.discounts(np.arange(int(data.sizes.max())))
    if found.cutoff is not None:
        discounts[found.cutoff :] = 0.0
    reached = np.concatenate([[0.0], np.cumsum(discounts)])
    stop = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # places of a label in a perfect ranking: start … stop
    sums = reached[stop] - reached[stop - counts]
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    norms = form.norms(Rankings(data.labels.astype(np.float64), data.indptr))
    weights = {}
    for a in range(len(values)):
        for b in range(a):
            both = (counts[:, a] > 0) & (counts[:, b] > 0)
            drops = (worth[a] - worth[b]) * (means[both, a] - means[both, b]) / norms[both]
            weights[float(values[a]), float(values[b])] = math.fsum(drops) / len(drops) if both.any() else 0.0
    return weights


def query_pair_weights(data: RankingData, given: Mapping[Any, float] | None = None) -> Array:
    """μ of every query: the most pairs of any query over its own, or as given; 1 for queries without pairs."""
    if given is not None:
        missing = [query for query in data.query_ids.tolist() if query not in given]
        if missing:
            raise InputError(f"query_weights has no entry for query {missing[0]!r}")
        try:
            weights = np.array([float(given[query]) for query in data.query_ids.tolist()])
        except (TypeError, ValueError):
            raise InputError("query_weights contains a non-numeric value") from None
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise InputError("query_weights must be finite and at least 0")
        if not weights.any():
            raise InputError("all query_weights are 0; expected at least one above 0")
        return weights
    pairs = pairs_of_queries(data.labels, data.indptr).astype(np.float64)
    return np.where(pairs > 0, max(pairs.max(initial=0.0), 1.0) / np.maximum(pairs, 1.0), 1.0)


def weight_table(values: Array, weights: Mapping[tuple[float, float], float] | None) -> Array:
    """τ as a table for the oracle of pairs, with a row for the higher grade."""
    table = np.ones((len(values), len(values)))
    if weights is None:
        return table
    try:
        known = {(float(a), float(b)): float(weight) for (a, b), weight in weights.items()}
    except (TypeError, ValueError):
        raise InputError("rank_weights is not a mapping {(higher, lower): weight} of numbers") from None
    for a in range(len(values)):
        for b in range(a):
            pair = (float(values[a]), float(values[b]))
            if pair not in known:
                raise InputError(f"rank_weights has no entry for the labels ({pair[0]:g}, {pair[1]:g})")
            if not 0 <= known[pair] < np.inf:
                raise InputError(f"rank_weights of ({pair[0]:g}, {pair[1]:g}) is {known[pair]:g}; expected at least 0")
            table[a, b] = known[pair]
    return table
