"""Clicks as labels: a document's position gives the probability that it was looked at, and so the weight of its click.

A click weighs 1/p, where p is the propensity of its position (Joachims, Swaminathan and Schnabel: Unbiased
learning-to-rank with biased feedback, 2017). Documents that are rarely looked at count more when clicked, so on average
clicks weigh as if everything was looked at, provided that every click counts on its own
(:mod:`rankwright.data.clicked`). Weights are cut at 100, as one click at a position that nobody looks at would outweigh
all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.rankers.facts import Kind, Notice

MOST_WEIGHT = 100.0


@dataclass(frozen=True, eq=False)
class Clicks:
    """The weights of clicks.

    `training`, `validation`: a weight per row, in the caller's order of rows; None where labels are judgements. `pair`:
    a number per row of the training data, the same for rows of the same query and document. `notices`: what the user
    should know of them.
    """

    training: Array | None = None
    validation: Array | None = None
    pair: Array | None = None
    notices: tuple[Notice, ...] = ()

    def of_validation(self, valid: RankingData | None) -> Array | None:
        """The weights of the validation data, in its own order."""
        return None if self.validation is None or valid is None else _in_own_order(self.validation, valid)

    def of_parts(self, parts: Mapping[str, RankingData]) -> dict[str, Array | None]:
        """The weights of the training and the validation data, each in its own order."""
        clicks = {"training": self.training, "validation": self.validation}
        return {part: None if clicks[part] is None else _in_own_order(clicks[part], parts[part]) for part in parts}


def _in_own_order(values: Any, data: RankingData) -> Any:
    """Values of the caller's rows, in the data's order."""
    return values if data.rows is None else values[data.rows]


JUDGED = Clicks()
"""No label is a click."""


def clicks_of(
    data: RankingData,
    valid: RankingData | None,
    position: Any,
    propensities: Any,
    pair: Any = None,
    eval_position: Any = None,
) -> Clicks:
    """The weights of the clicks of training data, and of validation data if there are positions for it.

    ``pair`` numbers rows of the same query and document: their clicks weigh one over the mean propensity of all
    positions at which the pair was shown, clicked or not, an estimate of the same relevance with less variance
    (Oosterhuis and de Rijke: Policy-aware counterfactual learning to rank for top-k rankings, 2020).
    """
    numbers = None if pair is None else _numbered(pair, data.n_docs)
    training, notices = inverse_propensities(data.n_docs, position, propensities, pair=numbers)
    for name, values, needed in (("pair", pair, training), ("eval_position", eval_position, training)):
        if values is not None and needed is None:
            raise InputError(f"{name} is given without position; expected the position of every row")
    if eval_position is None:
        return Clicks(training, None, numbers, notices)
    if valid is None:
        raise InputError("eval_position is given without eval_set; expected both")
    validation, also = inverse_propensities(valid.n_docs, eval_position, propensities, "eval_position")
    return Clicks(training, validation, numbers, notices or also)


def _numbered(pair: Any, n_rows: int) -> Array:
    values = np.asarray(pair)
    if values.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but pair of shape {values.shape}; expected one id per row")
    return np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1]


def pages_together(data: RankingData, pair: Array | None) -> Array | None:
    """A number for every page, the same for pages that share a pair, even through others; None without pairs.

    Examples
    --------
    >>> data = RankingData.from_arrays(np.zeros((6, 1)), np.zeros(6), [1, 1, 2, 2, 3, 3])
    >>> pages_together(data, np.array([0, 1, 1, 2, 3, 4])).tolist()
    [0, 0, 2]
    """
    if pair is None:
        return None
    page, group = data.query_of_row(), np.arange(data.n_queries)
    while True:
        lowest = np.full(int(pair.max()) + 1, data.n_queries)
        np.minimum.at(lowest, pair, group[page])
        wider = np.minimum.reduceat(lowest[pair], data.indptr[:-1])
        if np.array_equal(wider, group):
            return group
        group = wider


def inverse_propensities(
    n_rows: int, position: Any, propensities: Any, name: str = "position", pair: Array | None = None
) -> tuple[Array | None, tuple[Notice, ...]]:
    """A weight for every row, or None without positions; and a notice if weights were cut.

    `n_rows`: number of rows. `position`: position at which each row was shown, from 1. `propensities`: how likely a
    position is looked at: ``{position: propensity}``, or one for each position from 1. `name`: what errors call the
    positions. `pair`: rows of the same number share the mean of their propensities.
    """
    if position is None:
        if propensities is not None:
            raise InputError("propensities are given without position; expected the position of every row")
        return None, ()
    if propensities is None:
        problem = "position is given without propensities"
        raise InputError(f"{problem}; expected those of the positions, such as click_model(log).propensities")
    try:
        places = np.asarray(position).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} contains a non-numeric value; expected whole numbers from 1") from None
    if places.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but {name} of shape {places.shape}; expected one position per row")
    wrong = ~((places >= 1) & (places == np.floor(places)) & (places < 1 << 53))
    if wrong.any():
        raise InputError(f"{name} is {places[np.argmax(wrong)]:g}; expected whole numbers from 1")
    values = _propensities(propensities, places.astype(np.int64))
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"the propensity of position {places[at]:.0f} is {values[at]:g}; expected above 0, at most 1")
    if pair is not None:
        values = (np.bincount(pair, values) / np.maximum(np.bincount(pair), 1))[pair]
    weights = np.minimum(1.0 / values, MOST_WEIGHT)
    cut = np.unique(places[1.0 / values > MOST_WEIGHT])
    if not len(cut):
        return weights, ()
    where = ", ".join(f"{unseen:.0f}" for unseen in cut[:5]) + (", …" if len(cut) > 5 else "")
    text = f"propensities below {1 / MOST_WEIGHT:g} (positions {where}): clicks there weigh {MOST_WEIGHT:g}, not more"
    return weights, (Notice(Kind.CUT_WEIGHTS, text, {"positions": len(cut)}),)


def _propensities(given: Any, position: Array) -> Array:
    """The propensities of some positions; nan where none is given."""
    if hasattr(given, "of"):  # `rankwright.clicks.estimates.Propensities`
        return np.asarray(given.of(position))
    items = given.items() if isinstance(given, Mapping) else enumerate(np.ravel(np.asarray(given, object)), 1)
    try:
        table = {int(place): float(value) for place, value in items}
    except (TypeError, ValueError):
        raise InputError("propensities contain a non-numeric value; expected one number per position") from None
    if not table:
        raise InputError("propensities are empty; expected one number per position")
    distinct, number = np.unique(position, return_inverse=True)
    return np.array([table.get(place, np.nan) for place in distinct.tolist()])[number]
