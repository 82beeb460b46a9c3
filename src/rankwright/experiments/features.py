"""The best feature of a data set in hindsight, for papers that compare with it or train without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from rankwright.data.matching import default_names
from rankwright.experiments.preparing import Prepared, pieces_of
from rankwright.experiments.reading import Split
from rankwright.measures import Measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.validation import validation_value

__all__ = ["with_best"]


def with_best(prepared: Prepared, splits: Sequence[Split], measure: Measure, hidden: bool) -> Prepared:
    """The data set with its best feature in hindsight: highest mean of the measure over the test queries.

    Parameters
    ----------
    splits : sequence of Split
        Each query that one of them tests counts once.
    hidden : bool
        Whether methods are trained without it.
    """
    tested: dict[int, set[int] | None] = {}
    for part, queries in (piece for split in splits for piece in split.test):
        known = tested.setdefault(part, set())
        tested[part] = None if queries is None or known is None else known | set(queries)
    pieces = [(part, None if some is None else sorted(some)) for part, some in sorted(tested.items())]
    data = pieces_of(prepared.parts, pieces)
    assert data is not None
    value = validation_value(data, measure)
    weights = np.eye(data.n_features)
    values = [
        -np.inf
        if at in data.categories
        else value(LinearModel(row, data.feature_names).score(data.X, data.feature_names))
        for at, row in enumerate(weights)
    ]
    best = int(np.argmax(values))
    name = (data.feature_names or default_names(data.n_features))[best]
    what = f"best feature in hindsight: {name}, {measure} {values[best]:.4f} on the test queries"
    note = f"{what}; methods are trained without it" if hidden else what
    return dataclasses.replace(prepared, best=best, hides_best=hidden, notes=[*prepared.notes, note])
