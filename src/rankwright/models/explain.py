"""Why document A is above document B: the contributions of all features, with their values.

Contributions are Shapley values (:mod:`rankwright.models.attribution`) and sum to the difference of the scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.categories import codes_of, shown_category
from rankwright.data.dataset import RankingData
from rankwright.models.base import Model


@dataclass(frozen=True)
class Term:
    """The contribution of one feature to the difference of two scores.

    `feature`: name of the feature. `weight`: its weight, in linear models. `a`, `b`: its values in the two documents,
    as the model sees them; None if missing. `contribution`: what it adds to score(a) − score(b).
    """

    feature: str
    weight: float | None
    a: float | str | None
    b: float | str | None
    contribution: float


def explained_terms(model: Model, data: RankingData, query: int, a: int, b: int | None) -> list[Term]:
    """All features of a model, the largest contribution first.

    `model`: the model. `data`: the documents. `query`: number of the query that both documents belong to. `a`, `b`:
    rows of the documents; without ``b``, A is compared with all documents of the query, and the values of ``b`` are
    their means.

    Examples
    --------
    >>> from rankwright import LinearModel
    >>> data = RankingData.from_arrays([[1.0, 1.0], [0.0, 3.0]], [0, 0], group=[2], feature_names=["bm25", "length"])
    >>> model = LinearModel([2.0, -0.5], feature_names=("bm25", "length"))
    >>> [(term.feature, term.a, term.b, term.contribution) for term in explained_terms(model, data, 0, 0, 1)]
    [('bm25', 1.0, 0.0, 2.0), ('length', 1.0, 3.0, 1.0)]
    """
    whole_query = model.scales_queries or b is None  # scaling needs the whole query
    rows = list(range(*data.indptr[query : query + 2].tolist())) if whole_query else sorted({a, a if b is None else b})
    part, names, at = data.X[rows], data.feature_names, rows.index(a)
    values = model.aligned(part, names)
    if b is None:
        contributions = model._explained(data.select([query]), None, None)[at, :-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a feature that all documents lack
            compared = np.nanmean(values, axis=0)
    else:
        contributions = model.contributions(part[[at]], part[[rows.index(b)]], names, part)
        compared = values[rows.index(b)]
    order = np.argsort(-np.abs(contributions), kind="stable").tolist()
    listed = [[None if number != number else number for number in row.tolist()] for row in (values[at], compared)]
    columns: list[list[Any]] = [*listed, contributions.tolist()]
    for feature, categories in categorical(model, data).items():
        columns[0][feature] = _category(columns[0][feature], categories)
        columns[1][feature] = None if b is None else _category(columns[1][feature], categories)
    coef = getattr(model, "coef", None)
    weights = [None] * len(order) if coef is None else coef.tolist()
    return [Term(model.names[place], weights[place], *(column[place] for column in columns)) for place in order]


def categorical(model: Model, data: RankingData) -> dict[int, tuple[Any, ...]]:
    """The model's features that are categorical in the data, with their values."""
    columns = model._columns(data.n_features, data.feature_names)
    places = range(model.n_features) if columns is None else columns.tolist()
    return {at: data.categories[column] for at, column in enumerate(places) if column in data.categories}


def _category(number: float, categories: Sequence[Any]) -> str | None:
    """The category that a number stands for, as text; None for a missing value."""
    code = int(codes_of(np.array([number]), categories)[0])
    return None if code < 0 else shown_category(categories[code])
