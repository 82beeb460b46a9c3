"""Clicks as labels: the position of a document says how likely it was looked at, and so how much its click weighs.

A pair of a clicked document and another one weighs 1/p, where p is the propensity of the clicked document's position
(Joachims, Swaminathan and Schnabel: Unbiased learning-to-rank with biased feedback, 2017). What was looked at rarely
counts the more when it is clicked, so on average all clicks are as if everything was looked at. Weights above 10 are
cut to 10: one click in a place that nobody looks at would outweigh all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.clicks.estimates import Propensities
from rankwright.errors import InputError
from rankwright.rankers.facts import Kind, Notice

__all__ = ["MOST_WEIGHT", "inverse_propensities"]

Array = npt.NDArray[Any]
MOST_WEIGHT = 10.0


def inverse_propensities(n_rows: int, position: Any, propensities: Any) -> tuple[Array | None, tuple[Notice, ...]]:
    """A weight for every row, or None without positions; and a notice if weights were cut.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    position : array-like of int or None
        Position at which each row was shown, from 1.
    propensities : Propensities, mapping or array-like
        How likely a position is looked at: ``{position: propensity}``, or one for each position from 1.
    """
    if position is None:
        if propensities is not None:
            raise InputError("propensities are given without position; expected the position of every row")
        return None, ()
    if propensities is None:
        what = "position is given without propensities"
        raise InputError(f"{what}; expected those of the positions, such as click_model(log).propensities")
    try:
        places = np.asarray(position).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("position contains a non-numeric value; expected whole numbers from 1") from None
    if places.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but position of shape {places.shape}; expected one position per row")
    wrong = ~((places >= 1) & (places == np.floor(places)) & (places < 1 << 53))
    if wrong.any():
        raise InputError(f"position is {places[np.argmax(wrong)]:g}; expected whole numbers from 1")
    values = _propensities(propensities).of(places.astype(np.int64))
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"the propensity of position {places[at]:.0f} is {values[at]:g}; expected above 0, at most 1")
    weights = np.minimum(1.0 / values, MOST_WEIGHT)
    cut = np.unique(places[1.0 / values > MOST_WEIGHT])
    if not len(cut):
        return weights, ()
    where = ", ".join(f"{place:.0f}" for place in cut[:5]) + (", …" if len(cut) > 5 else "")
    text = f"propensities below {1 / MOST_WEIGHT:g} (positions {where}): clicks there weigh {MOST_WEIGHT:g}, not more"
    return weights, (Notice(Kind.CUT_WEIGHTS, text, {"positions": len(cut)}),)


def _propensities(given: Any) -> Propensities:
    if isinstance(given, Propensities):
        return given
    items = given.items() if isinstance(given, Mapping) else enumerate(np.ravel(np.asarray(given, object)), 1)
    try:
        table = {int(place): float(value) for place, value in items}
    except (TypeError, ValueError):
        raise InputError("propensities contain a non-numeric value; expected one number per position") from None
    if not table:
        raise InputError("propensities are empty; expected one number per position")
    places = np.array(sorted(table), np.int64)
    nothing = np.full(len(places), np.nan)
    return Propensities(places, np.array([table[place] for place in places.tolist()]), nothing, nothing, nothing)
