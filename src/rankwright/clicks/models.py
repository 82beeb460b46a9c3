"""Click models: from a log to an estimate for every pair of a query and a document.

coec      clicks over expected clicks: Σ clicks / Σ click rate of the position
pbm       position-based model: P(click) = θ of the position · α of the pair, by EM
cascade   users read from the top and stop at their first click: closed form (Craswell et al., 2008)
sdbn      users read from the top and stop at their last click: closed form (Chapelle and Zhang, 2009, section 4)
dbn       dynamic Bayesian network: a click may satisfy, a user may give up after any result, by EM (the same paper)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.clicks.estimates import ClickEstimates, Propensities
from rankwright.clicks.log import ClickLog
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError

__all__ = ["click_model"]

MODELS = ("pbm", "coec", "cascade", "sdbn", "dbn")
MAX_STEPS = 10_000
_TOL = 1e-7
_LEVEL = 0.025  # on either side of an interval


def click_model(
    log: ClickLog,
    model: str = "pbm",
    *,
    min_impressions: int = 10,
    propensities: npt.ArrayLike | Propensities | None = None,
    max_steps: int = MAX_STEPS,
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
        given = None if propensities is None else given_propensities(propensities)
        return position_model(log, min_impressions, given, max_steps, _TOL)
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


# The position-based model: propensities by EM from documents that were shown at several positions, then all pairs. A
# document that was always shown at one position says nothing about propensities. Neither do positions that share no
# document: their propensities are known up to a factor only. Both are found before EM starts.


_DROP = 1.920729410347062  # half of the 95% quantile of χ² with one degree of freedom


@dataclass(frozen=True, eq=False)
class Cells:
    """The log summed by pair and position.

    `indptr`: pair ``p`` owns the cells ``indptr[p]:indptr[p+1]``. `position`: index of every cell's position in
    ``positions``. `clicks`, `shown`: clicks and impressions of every cell, as float64. `positions`: the positions of
    the log, ascending.
    """

    indptr: Array
    position: Array
    clicks: Array
    shown: Array
    positions: Array

    @classmethod
    def of(cls, log: ClickLog) -> Cells:
        """The cells of a log."""
        positions, place = np.unique(log.position, return_inverse=True)
        keys, cell = np.unique(log.pair * len(positions) + place, return_inverse=True)
        clicks, shown = np.bincount(cell, log.clicks), np.bincount(cell, log.shown)
        sizes = np.bincount(keys // len(positions), minlength=log.n_pairs)
        return cls(sizes_to_indptr(sizes), keys % len(positions), clicks, shown, positions)

    @property
    def pair(self) -> Array:
        """The pair of every cell."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def by_pair(self, values: Array) -> Array:
        """Sums of cells by pair."""
        return np.bincount(self.pair, values, len(self.indptr) - 1)

    def by_position(self, values: Array) -> Array:
        """Sums of cells by position."""
        return np.bincount(self.position, values, len(self.positions))

    def some(self, kept: Array) -> Cells:
        """Some of the cells (a mask); all pairs and positions stay, perhaps without cells."""
        sizes = np.bincount(self.pair[kept], minlength=len(self.indptr) - 1)
        columns = (self.position[kept], self.clicks[kept], self.shown[kept])
        return Cells(sizes_to_indptr(sizes), *columns, self.positions)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The cells as kernels take them."""
        return self.indptr, self.position, self.clicks, self.shown


def given_propensities(values: npt.ArrayLike | Propensities) -> Propensities:
    """Propensities as the caller has them, checked."""
    if isinstance(values, Propensities):
        return values
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not ((array > 0) & (array <= 1)).all():
        raise InputError("propensities must be numbers above 0 and at most 1, one for each position from 1")
    nothing = np.full(len(array), np.nan)
    return Propensities(np.arange(1, len(array) + 1), array, nothing, nothing, nothing)


def position_model(
    log: ClickLog, min_impressions: int, given: Propensities | None, max_steps: int, tol: float
) -> ClickEstimates:
    """The position-based model of a log."""
    from rankwright.clicks.kernels import attraction

    cells = Cells.of(log)
    history, converged = np.empty(0), True
    if given is None:
        theta, error, history, converged = _estimate(cells, min_impressions, max_steps, tol)
    else:
        theta, error = given.of(cells.positions), np.full(len(cells.positions), np.nan)
    usable = cells.some((np.isfinite(theta) & (theta > 0))[cells.position])
    table = np.empty((3, log.n_pairs))
    attraction(*usable.arrays, np.nan_to_num(theta), _DROP, table)
    seen, total = usable.by_pair(usable.shown), usable.by_pair(usable.clicks)
    table[:, seen < min_impressions] = np.nan
    shown, clicks = cells.by_position(cells.shown), cells.by_position(cells.clicks)
    looks = Propensities(cells.positions, theta, error, shown, clicks)
    estimate, lower, upper = table
    return ClickEstimates(
        "pbm", log, estimate, lower, upper, seen, total, looks, min_impressions, history, converged, {}
    )


def _estimate(cells: Cells, min_impressions: int, max_steps: int, tol: float) -> tuple[Array, Array, Array, bool]:
    """Propensities with standard errors, the likelihoods of EM, and whether it came to rest."""
    from rankwright.clicks.kernels import maximise

    n = len(cells.positions)
    if n == 1:
        return np.ones(1), np.zeros(1), np.empty(0), True
    is_telling = (
        (np.diff(cells.indptr) > 1)
        & (cells.by_pair(cells.clicks) > 0)
        & (cells.by_pair(cells.shown) >= min_impressions)
    )
    telling = cells.some(is_telling[cells.pair])
    group = _linked(telling)
    sizes = np.bincount(group, cells.by_position(cells.shown))
    main = group == int(np.argmax(sizes))
    if main.sum() < 2:
        problem = f"no document with at least {min_impressions} impressions and a click was shown at several positions"
        raise InputError(
            f"{problem}, so propensities cannot be told from relevance; "
            "expected such documents, known propensities, or the model coec"
        )
    telling = telling.some(main[telling.position])
    kept = np.flatnonzero(np.diff(telling.indptr) > 1)
    place = np.cumsum(main) - 1
    rows = np.isin(telling.pair, kept)
    sizes = np.diff(telling.indptr)[kept]
    arrays = (sizes_to_indptr(sizes), place[telling.position[rows]], telling.clicks[rows], telling.shown[rows])
    rate = np.bincount(arrays[1], arrays[2]) / np.bincount(arrays[1], arrays[3])
    alpha, theta = np.full(len(kept), 0.5), np.clip(0.9 * rate / rate.max(), 0.01, 0.9)
    history = np.empty(max_steps + 1)
    steps = maximise(*arrays, alpha, theta, max_steps, tol, history)
    values, errors = np.full(n, np.nan), np.full(n, np.nan)
    values[main], errors[main] = theta, _errors(arrays, alpha, theta)
    return values, errors, history[: steps + 1], steps < max_steps


def _linked(cells: Cells) -> Array:
    """A number for every position, the same for positions that documents link."""
    group = np.arange(len(cells.positions))
    first = cells.position[np.minimum(cells.indptr[cells.pair], max(len(cells.position) - 1, 0))]
    for position, other in np.unique(np.stack([first, cells.position], 1), axis=0).tolist():
        a, b = group[position], group[other]
        group[group == max(a, b)] = min(a, b)
    return group


def _errors(arrays: tuple[Array, ...], alpha: Array, theta: Array) -> Array:
    """Standard errors of propensities; the largest is 1 by definition."""
    from rankwright.clicks.kernels import information

    others = np.arange(len(theta)) != np.argmax(theta)
    table = information(*arrays, alpha, theta)[np.ix_(others, others)]
    errors = np.zeros(len(theta))
    variance = np.diag(np.linalg.pinv(table, hermitian=True))
    errors[others] = theta[others] * np.sqrt(np.maximum(variance, 0))
    return errors


# Models of users who read whole pages from the top: cascade, simplified and full dynamic Bayesian network. The estimate
# of a pair is the probability that its document attracts a click which satisfies: α for the cascade model, where every
# click does, α·σ for the others. Intervals take α, and σ, as shares of counts; that of a product is its standard error
# either way, an approximation.


_Z = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Pages:
    """The rows of a log, page after page, by position.

    `indptr`: page ``p`` owns the rows ``indptr[p]:indptr[p+1]``. `pair`, `clicked`, `position`: of every row.
    """

    indptr: Array
    pair: Array
    clicked: Array
    position: Array

    @classmethod
    def of(cls, log: ClickLog, model: str) -> Pages:
        """The pages of a log; an error if it has none."""
        if log.page is None:
            problem = f"the model {model} needs whole pages, and the log names no sessions"
            raise InputError(f"{problem}; expected a column session, or the model pbm or coec")
        if (log.shown != 1).any():
            problem = f"the model {model} needs whole pages, and the log counts impressions"
            raise InputError(f"{problem}; expected a row for every impression, or the model pbm or coec")
        order = np.lexsort((log.position, log.page))
        sizes = np.bincount(log.page)
        clicked = log.clicks[order].astype(np.float64)
        return cls(sizes_to_indptr(sizes[sizes > 0]), log.pair[order], clicked, log.position[order])


def page_model(log: ClickLog, model: str, min_impressions: int, max_steps: int, tol: float) -> ClickEstimates:
    """One of the models of whole pages."""
    from rankwright.clicks.kernels import count_looks

    pages = Pages.of(log, model)
    looks, clicks, last = np.zeros(log.n_pairs), np.zeros(log.n_pairs), np.zeros(log.n_pairs)
    history, converged, details = np.empty(0), True, {}
    if model == "dbn":
        looks, clicks, last, looked, history, converged, details = _em(log, pages, max_steps, tol)
    else:
        looked = count_looks(pages.indptr, pages.pair, pages.clicked, model == "cascade", looks, clicks, last)
    if model == "cascade":
        table = np.stack(_wilson(clicks, looks))
    else:
        table = np.stack(_product(clicks, looks, last))
        details["satisfaction"] = np.divide(last, clicks, out=np.full(log.n_pairs, np.nan), where=clicks > 0)
    table[:, looks < min_impressions] = np.nan
    estimate, lower, upper = table
    return ClickEstimates(
        model,
        log,
        estimate,
        lower,
        upper,
        looks,
        clicks,
        _looks(pages, looked),
        min_impressions,
        history,
        converged,
        details,
    )


def _em(log: ClickLog, pages: Pages, max_steps: int, tol: float) -> Any:
    """The dynamic Bayesian network by EM: expected looks, clicks, expected satisfactions, and the rest."""
    from rankwright.clicks.kernels import walk

    rows = (pages.indptr, pages.pair, pages.clicked)
    clicks = np.bincount(pages.pair, pages.clicked, log.n_pairs)
    alpha, sigma, gamma = np.full(log.n_pairs, 0.5), np.full(log.n_pairs, 0.5), 0.9
    history = []
    converged = False
    for _ in range(max_steps):
        looks, stops, looked = np.zeros(log.n_pairs), np.zeros(log.n_pairs), np.zeros(len(pages.pair))
        went, could, value = walk(*rows, alpha, sigma, gamma, looks, stops, looked)
        history.append(value)
        new_alpha = np.divide(clicks, looks, out=alpha.copy(), where=looks > 0)
        new_sigma = np.divide(stops, clicks, out=sigma.copy(), where=clicks > 0)
        new_gamma = went / could if could > 0 else gamma
        change = max(abs(new_gamma - gamma), float(np.mean(np.abs(new_alpha - alpha))))
        alpha, sigma, gamma = new_alpha, new_sigma, new_gamma
        if change <= tol:
            converged = True
            break
    looks, stops, looked = np.zeros(log.n_pairs), np.zeros(log.n_pairs), np.zeros(len(pages.pair))
    history.append(walk(*rows, alpha, sigma, gamma, looks, stops, looked)[2])
    details = {"attraction": alpha, "continuation": float(gamma)}
    return looks, clicks, sigma * clicks, looked, np.array(history), converged, details


def _looks(pages: Pages, looked: Array) -> Propensities:
    """The share of the impressions at every position that was looked at."""
    positions, place = np.unique(pages.position, return_inverse=True)
    shown, clicks = np.bincount(place), np.bincount(place, pages.clicked)
    share = np.bincount(place, looked) / shown
    error = np.sqrt(share * (1 - np.minimum(share, 1)) / shown)
    return Propensities(positions, share, error, shown.astype(np.float64), clicks)


def _wilson(clicks: Array, looks: Array) -> tuple[Array, Array, Array]:
    """A share, with Wilson's interval."""
    n = np.maximum(looks, 1e-9)
    share = clicks / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * np.sqrt(np.maximum(share * (1 - share), 0) / n + _Z**2 / (4 * n**2))
    return share, np.clip(middle - half, 0, share), np.clip(middle + half, share, 1)


def _product(clicks: Array, looks: Array, last: Array) -> tuple[Array, Array, Array]:
    """α·σ with an interval from the variances of both, each with one success and one failure added."""
    alpha = clicks / np.maximum(looks, 1e-9)
    sigma = np.divide(last, clicks, out=np.zeros_like(clicks), where=clicks > 0)

    def spread(count: Array, of: Array) -> tuple[Array, Array]:
        mean = (count + 1) / (of + 2)
        return mean, mean * (1 - mean) / (of + 3)

    (a, var_a), (s, var_s) = spread(clicks, looks), spread(last, clicks)
    half = _Z * np.sqrt(np.maximum(var_a * var_s + a**2 * var_s + s**2 * var_a, 0))
    value = alpha * sigma
    return value, np.clip(value - half, 0, 1), np.clip(value + half, 0, 1)
