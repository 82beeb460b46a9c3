"""What max-margin rankers are trained for: losses by name (measure, map, weight), and how they see the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, docs_of, some_queries
from rankwright.data.summary import distinct, label_counts, pairs_of_queries, whole_values
from rankwright.errors import InputError
from rankwright.measures import Measure, Rankings, parse_goal, parse_measure
from rankwright.measures.base import REGISTRY, Oracle, read_only
from rankwright.rankers.weights import weights_by_query

__all__ = ["rank_pair_weights"]


@dataclass(frozen=True, eq=False)
class Target:
    """One loss to train for, and its view of the labels.

    `labels`: as the oracle needs them. `useful`: queries with an order to learn. `make_oracle`: makes what finds the
    most violated ranking; it travels to other processes, which oracles cannot. `measure`: the loss is 1 − this measure
    of the labels; None if there is no such measure.
    """

    labels: Array
    useful: Array
    make_oracle: Callable[[], Oracle]
    weight: float = 1.0
    measure: Measure | None = None

    def costs(self, weights: Array) -> Array:
        """What a hinge of 1 costs, for every query."""
        return np.asarray(self.weight * weights * self.useful / len(weights))


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What is trained on: data, a target for each loss, and weights of the queries."""

    data: RankingData
    targets: Sequence[Target]
    weights: Array

    def of(self, queries: Array) -> TrainingSet:
        """The training set of some queries, a mask."""
        if queries.all():
            return self
        chosen = np.flatnonzero(queries)
        targets = [
            replace(target, labels=docs_of(target.labels, self.data, chosen), useful=target.useful[queries])
            for target in self.targets
        ]
        return TrainingSet(some_queries(self.data, queries), targets, self.weights[queries])


@dataclass(frozen=True)
class Loss:
    """1 − measure, on a feature map; ``feature_map`` None is the measure's default."""

    measure: Measure
    feature_map: str | None = None
    weight: float = 1.0

    @property
    def method(self) -> str:
        return self.measure.method_name(self.feature_map)

    def target(self, data: RankingData, relevant_from: float) -> Target:
        make_oracle = partial(self.measure.oracle, self.feature_map)
        settings = (make_oracle, self.weight, self.measure)
        useful = self.useful(data, relevant_from)
        if make_oracle().graded:
            self.measure.resolve("letor").check_labels(data.labels)
            return Target(data.labels.astype(np.float64), useful, *settings)
        return Target((data.labels >= relevant_from).astype(np.float64), useful, *settings)

    def useful(self, data: RankingData, relevant_from: float) -> Array:
        return data.has_order if self.measure.oracle(self.feature_map).graded else data.has_both(relevant_from)


def pair_target(grades: Array, useful: Array, table: Array) -> Target:
    """A hinge for every pair of documents, with a weight for each pair of grades."""
    parameters = np.concatenate([[len(table)], table.ravel()])
    return Target(grades, useful, partial(_pairs, parameters))


def _pairs(parameters: Array) -> Oracle:
    from rankwright.measures.oracles.pairs import pairs

    kept = read_only(parameters)
    return Oracle(pairs, lambda longest: kept, "pairs")


def click_target(weights: Array, useful: Array) -> Target:
    """Hinges of every click with all other documents of its page; a weight per document, 0 for what is not clicked."""
    return Target(weights, useful, _clicks)


def _clicks() -> Oracle:
    from rankwright.measures.oracles.pairs import clicks

    nothing = read_only(np.empty(0))
    return Oracle(clicks, lambda longest: nothing, "pairs")


def parse_losses(loss: Any, feature_map: Any = None, weights: Sequence[float] | None = None) -> list[Loss]:
    names = [loss] if isinstance(loss, str | Measure) else _listed("loss", loss, "a name such as 'map', or several")
    if not names:
        raise InputError("no loss was given; expected a name such as 'map', or several")
    one_map = feature_map is None or isinstance(feature_map, str)
    maps = [feature_map] * len(names) if one_map else _listed("feature_map", feature_map, "a name, or one per loss")
    factors = [1.0] * len(names) if weights is None else _listed("loss_weights", weights, "one number per loss")
    for parameter, values in (("feature maps", maps), ("loss_weights", factors)):
        if len(values) != len(names):
            raise InputError(f"{len(names)} losses but {len(values)} {parameter}; expected one for each")
    for factor in factors:
        if not (isinstance(factor, Real) and 0 < float(factor) < np.inf):
            raise InputError(f"loss_weights contains {factor!s}; expected numbers above 0")
    return [_parse(name, map_, float(factor)) for name, map_, factor in zip(names, maps, factors, strict=True)]


def _listed(parameter: str, values: Any, expected: str) -> list[Any]:
    if isinstance(values, Iterable) and not isinstance(values, str):
        return list(values)
    raise InputError(f"{parameter} is {values!r}; expected {expected}")


def _parse(name: str | Measure, feature_map: str | None, weight: float) -> Loss:
    if not isinstance(name, str | Measure):
        raise InputError(f"loss is {name!r}; expected a name such as 'map', or several")
    if isinstance(name, str):
        loss, at, cutoff = name.strip().partition("@")
        loss = loss.strip().lower()
        kind = next((kind for kind in REGISTRY.values() if loss in kind.own_losses), None)
        if kind is not None:
            if feature_map is not None and not str(feature_map).startswith(loss):
                raise InputError(f"{loss.upper()} has the feature map {loss}, not {feature_map!r}")
            name, feature_map = f"{kind.name}{at}{cutoff}", feature_map or loss
    return Loss(parse_goal(name), feature_map, weight)


# The weights of Ranking SVM for IR: τ for the two labels of a pair, μ for its query.


def grades_of(data: RankingData) -> tuple[Array, Array]:
    """The distinct labels, lowest first, and the index of each document's label among them."""
    distinct_labels = whole_values(data.labels)
    if (
        distinct_labels is not None
        and data.labels.dtype == np.float64
        and np.array_equal(distinct_labels, np.arange(len(distinct_labels)))
    ):
        return distinct_labels, data.labels  # they are the indices
    values, grades = distinct(data.labels)
    return values, grades.astype(np.float64)


def rank_pair_weights(
    data: RankingData, measure: str | Measure = "ndcg@1", *, over: str = "both"
) -> dict[tuple[float, float], float]:
    """τ(a, b): the mean drop of a measure when, in a perfect ranking, random documents of labels a and b swap places.

    It has a closed form for each query: (worth_a − worth_b) times the difference of the mean discounts of the places of
    a and those of b, over the norm.

    Parameters
    ----------
    data : RankingData
        Training data.
    measure : str or Measure
        A sum over positions, such as nDCG@m; with exponential gains unless stated.
    over : {"both", "all"}
        Queries of the mean: those that have both labels, or all of the set, as SIGIR'06 says; then a query that has not
        both, where nothing can swap, counts as a drop of 0.
    """
    if over not in ("both", "all"):
        raise InputError(f"over is {over!r}; expected both or all")
    resolved = parse_measure(measure).resolve("letor")
    form = resolved.position_sum()
    if form is None or form.credits(np.arange(1)) is not None:
        raise InputError(
            f"rank_weights is {str(resolved)!r}; expected a sum over positions such as ndcg@1, or a mapping"
        )
    values, counts = label_counts(data.labels, data.indptr)
    worth = form.worth(values)
    discounts = form.discounts(np.arange(int(data.sizes.max())))
    if resolved.cutoff is not None:
        discounts[resolved.cutoff :] = 0.0
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
            n_queries = len(both) if over == "all" else len(drops)
            weights[float(values[a]), float(values[b])] = math.fsum(drops) / max(n_queries, 1)
    return weights


def query_pair_weights(data: RankingData, given: Mapping[Any, float] | None = None) -> Array:
    """μ of every query: the most pairs of any query over its own, or as given; 1 for queries without pairs."""
    if given is not None:
        weights = weights_by_query(data, given, "query_weights")
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
        given = {(float(a), float(b)): float(weight) for (a, b), weight in weights.items()}
    except (TypeError, ValueError):
        raise InputError("rank_weights is not a mapping {(higher, lower): weight} of numbers") from None
    for a in range(len(values)):
        for b in range(a):
            pair = (float(values[a]), float(values[b]))
            if pair not in given:
                raise InputError(f"rank_weights has no entry for the labels ({pair[0]:g}, {pair[1]:g})")
            if not 0 <= given[pair] < np.inf:
                raise InputError(f"rank_weights of ({pair[0]:g}, {pair[1]:g}) is {given[pair]:g}; expected at least 0")
            table[a, b] = given[pair]
    return table
