"""Click models: from a log to an estimate for every pair of a query and a document.

coec      clicks over expected clicks: Σ clicks / Σ click rate of the position
pbm       position-based model: P(click) = θ of the position · α of the pair, by EM
cascade   users read from the top and stop at their first click: closed form (Craswell et al., 2008)
sdbn      users read from the top and stop at their last click: closed form (Chapelle and Zhang, 2009, section 4)
dbn       dynamic Bayesian network: a click may satisfy, a user may give up after any result, by EM (the same paper)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rankwright.clicks.estimates import ClickEstimates, Propensities
from rankwright.clicks.log import ClickLog
from rankwright.clicks.pages import page_model
from rankwright.clicks.positions import Cells, given_propensities, position_model
from rankwright.errors import InputError

__all__ = ["click_model"]

MODELS = ("pbm", "coec", "cascade", "sdbn", "dbn")
MOST_STEPS = 10_000
_TOL = 1e-7
_LEVEL = 0.025  # on either side of an interval


def click_model(
    log: ClickLog,
    model: str = "pbm",
    *,
    min_impressions: int = 10,
    propensities: npt.ArrayLike | Propensities | None = None,
    max_steps: int = MOST_STEPS,
) -> ClickEstimates:
    """Estimate how attractive every document is for its query, apart from where it was shown.

    Parameters
    ----------
    log : ClickLog
        Impressions and clicks.
    model : {"pbm", "coec", "cascade", "sdbn", "dbn"}
        The model of users; see the module. ``"cascade"``, ``"sdbn"`` and ``"dbn"`` need whole pages, so a session or a
        page for every row.
    min_impressions : int
        Fewest impressions of a pair; others have no estimate, and ``"pbm"`` does not learn propensities from them. For
        ``"cascade"``, ``"sdbn"`` and ``"dbn"``, impressions that were looked at.
    propensities : Propensities or array-like, optional
        Known propensities for ``"pbm"``, such as those of an experiment with shuffled results: one per position, from
        1. Otherwise EM estimates them, for which documents must have been shown at several positions.
    max_steps : int
        Most steps of EM.

    Returns
    -------
    ClickEstimates
        With ``qrels()`` for judgements and ``propensities`` for training.

    Examples
    --------
    >>> log = ClickLog.from_columns(["q"] * 2, ["a", "b"], [1, 1], [30, 10], count=[100, 100])
    >>> click_model(log, "coec").estimate.tolist()
    [1.5, 0.5]
    """
    if model not in MODELS:
        raise InputError(f"the click model is {model!r}; expected {', '.join(MODELS[:-1])} or {MODELS[-1]}")
    for name, value in (("min_impressions", min_impressions), ("max_steps", max_steps)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} is {value!r}; expected a whole number from 1")
    if propensities is not None and model != "pbm":
        raise InputError(f"propensities are given with the model {model!r}; expected pbm with them")
    if not len(log.pair):
        raise InputError("no impressions are left; expected at least one")
    if not log.n_clicks:
        raise InputError("the log has no clicks; expected at least one")
    if model == "coec":
        return _coec(log, min_impressions)
    if model == "pbm":
        known = None if propensities is None else given_propensities(propensities)
        return position_model(log, min_impressions, known, max_steps, _TOL)
    return page_model(log, model, min_impressions, max_steps, _TOL)


def _coec(log: ClickLog, min_impressions: int) -> ClickEstimates:
    """Clicks over expected clicks, with the interval of a Poisson count."""
    from scipy.special import gammaincinv

    cells = Cells.of(log)
    shown, clicks = cells.by_position(cells.shown), cells.by_position(cells.clicks)
    rate = clicks / shown
    expected = cells.by_pair(cells.shown * rate[cells.position])
    total, seen = cells.by_pair(cells.clicks), cells.by_pair(cells.shown)
    kept = (seen >= min_impressions) & (expected > 0)
    over = np.where(kept, expected, np.nan)
    lower = np.where(total > 0, gammaincinv(np.maximum(total, 1), _LEVEL), 0.0)
    upper = gammaincinv(total + 1, 1 - _LEVEL)
    nothing = np.full(len(rate), np.nan)
    looks = Propensities(cells.positions, rate / rate.max(), nothing, shown, clicks)
    return ClickEstimates(
        "coec", log, total / over, lower / over, upper / over, seen, total, looks, min_impressions, np.empty(0), True,
        {"expected": expected},
    )  # fmt: skip
