"""Click models: from a log to an estimate with an interval for every pair of a query and a document, and to judgements.

coec      clicks over expected clicks: Σ clicks / Σ click rate of the position
pbm       position-based model: P(click) = θ of the position · α of the pair, by EM
cascade   users read from the top and stop at their first click: closed form (Craswell et al., 2008)
sdbn      users read from the top and stop at their last click: closed form (Chapelle and Zhang, 2009, section 4)
dbn       dynamic Bayesian network: a click may satisfy, a user may give up after any result, by EM (the same paper)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.clicks.log import ClickLog, number_of
from rankwright.data.order import sizes_to_indptr
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import open_file, replace_file
from rankwright.io.tables import start_of, text_table, utf8_lines
from rankwright.io.values import is_missing

__all__ = ["ClickEstimates", "Propensities", "click_model", "read_propensities"]

MAX_STEPS = 10_000
QUANTILES = (0.5, 0.75, 0.9)
"""Where the estimates are cut into grades by default: the lower half is 0, the top tenth 3."""

_TOL = 1e-7
_LEVEL = 0.025  # on either side of an interval
_Z = 1.959963984540054  # half a 95% interval, in standard errors
_DROP = 1.920729410347062  # half of the 95% quantile of χ² with one degree of freedom


@dataclass(frozen=True, eq=False)
class Propensities:
    """How often a position is looked at.

    Attributes
    ----------
    position : ndarray
        The positions of the log, from 1, ascending.
    value : ndarray
        Probability that a user looks there; nan where the log does not say.
    error : ndarray
        Its standard error; nan where the model gives none.
    impressions, clicks : ndarray
        How often documents were shown and clicked there.
    """

    position: Array
    value: Array
    error: Array
    impressions: Array
    clicks: Array

    def of(self, position: npt.ArrayLike) -> Array:
        """The propensities of some positions; nan where there is none.

        Examples
        --------
        >>> none = np.zeros(2)
        >>> Propensities(np.array([1, 2]), np.array([1.0, 0.5]), none, none, none).of([2, 1, 7]).tolist()
        [0.5, 1.0, nan]
        """
        wanted = np.asarray(position)
        place = np.minimum(np.searchsorted(self.position, wanted), len(self.position) - 1)
        return np.where(self.position[place] == wanted, self.value[place], np.nan)

    def write(self, path: str | Path) -> None:
        """Write them as CSV: position, propensity, standard error, impressions, clicks."""
        names = ("position", "propensity", "standard_error", "impressions", "clicks")
        _write_csv(path, names, (self.position, self.value, self.error, self.impressions, self.clicks))


def known_propensities(position: Array, value: Array) -> Propensities:
    """Propensities of which nothing else is known."""
    unknown = np.full(len(position), np.nan)
    return Propensities(position, value, unknown, unknown, unknown)


def read_propensities(path: str | Path) -> Propensities:
    """Read propensities from CSV with the columns ``position`` and ``propensity``, as they are written.

    Examples
    --------
    >>> known = read_propensities("propensities.csv")  # doctest: +SKIP
    """
    with open_file(path) as file:
        columns, lines = text_table(utf8_lines(file), path).by_column() if start_of(file) else ({}, [])
    if not {"position", "propensity"} <= set(columns) or not lines:
        raise InputError("expected CSV with the columns position and propensity", path, 1)
    by_position: dict[float, float] = {}
    for line, at, value in zip(lines, columns["position"], columns["propensity"], strict=True):
        position, number = number_of(at), number_of(value)
        if not position >= 1 or position != int(position) or position in by_position:
            raise InputError(f"position is {at!r}; expected each position once, from 1", path, line)
        if not is_missing(value) and not 0 < number <= 1:
            raise InputError(f"propensity is {value!r}; expected a number above 0, at most 1", path, line)
        by_position[position] = number
    positions = np.array(sorted(by_position), np.int64)
    return known_propensities(positions, np.array([by_position[at] for at in positions.tolist()]))


@dataclass(frozen=True, eq=False)
class ClickEstimates:
    """A click model's estimates for every pair of a query and a document.

    Attributes
    ----------
    model : str
        Name of the model.
    log : ClickLog
        What it was estimated from.
    estimate, lower, upper : ndarray
        Of every pair of the log: how attractive the document is for the query, and a 95% interval; nan where there are
        fewer than ``min_impressions``.
    impressions, clicks : ndarray
        Of every pair, as the model counts them.
    propensities : Propensities
        Of every position.
    min_impressions : int
        Fewest impressions of a pair.
    history : ndarray
        Log-likelihood before every step of EM, and after the last; empty where there is a closed form.
    converged : bool
        Whether EM came to rest.
    details : dict
        Numbers of this model only, such as ``continuation`` of ``"dbn"``.
    """

    model: str
    log: ClickLog
    estimate: Array
    lower: Array
    upper: Array
    impressions: Array
    clicks: Array
    propensities: Propensities
    min_impressions: int
    history: Array
    converged: bool
    details: dict[str, Any]

    @property
    def error(self) -> Array:
        """Standard error of every estimate: the width of the interval over 3.92."""
        return (self.upper - self.lower) / (2 * _Z)

    @property
    def kept(self) -> Array:
        """Mask of the pairs that have an estimate."""
        return np.isfinite(self.estimate)

    def cuts(self, quantiles: Sequence[float] = QUANTILES) -> Array:
        """Thresholds at quantiles of all estimates."""
        values = self.estimate[self.kept]
        return np.quantile(values, _ascending(quantiles, "quantiles", 1.0)) if len(values) else np.empty(0)

    def grades(
        self,
        quantiles: Sequence[float] | None = None,
        thresholds: Sequence[float] | None = None,
        *,
        cautious: bool = False,
    ) -> Array:
        """A grade for every pair: how many thresholds its estimate is above; −1 where there is no estimate.

        An estimate of 0 has the grade 0.

        Parameters
        ----------
        quantiles : sequence of float, optional
            Thresholds at these quantiles of all estimates; default 0.5, 0.75, 0.9.
        thresholds : sequence of float, optional
            Thresholds themselves, instead.
        cautious : bool
            Take the lower end of the interval instead of the estimate: what was seen rarely gets a low grade.
        """
        if quantiles is not None and thresholds is not None:
            raise InputError("quantiles and thresholds are both given; expected one of them")
        cuts = self.cuts(quantiles or QUANTILES) if thresholds is None else _ascending(thresholds, "thresholds")
        values = np.where(self.kept, self.lower if cautious else self.estimate, 0.0)
        return np.where(self.kept, np.searchsorted(cuts, values, side="left") * (values > 0), -1)

    def qrels(
        self,
        quantiles: Sequence[float] | None = None,
        thresholds: Sequence[float] | None = None,
        *,
        cautious: bool = False,
        query_ids: Sequence[str] | None = None,
    ) -> TrecTable:
        """Judgements of all pairs that have an estimate; see :meth:`grades`.

        Parameters
        ----------
        query_ids : sequence of str, optional
            Other ids for the queries of the log, such as numbers for texts.
        """
        grades = self.grades(quantiles, thresholds, cautious=cautious)
        kept = np.flatnonzero(grades >= 0)
        names = self.log.query_ids if query_ids is None else np.array(list(query_ids), object)
        queries, documents = names[self.log.pair_query[kept]], self.log.doc_ids[self.log.pair_doc[kept]]
        return TrecTable.from_columns(queries.astype(str), documents.astype(str), grades[kept].astype(float), "clicks")

    def write(self, path: str | Path, grades: Array | None = None) -> None:
        """Write all estimates as CSV: query, document, estimate, interval, standard error, counts, grade."""
        grades = self.grades() if grades is None else grades
        log, kept = self.log, np.flatnonzero(self.kept)
        names = ("query", "document", "estimate", "lower", "upper", "standard_error", "impressions", "clicks", "grade")
        numbers = (self.estimate, self.lower, self.upper, self.error, self.impressions, self.clicks, grades)
        ids = (log.query_ids[log.pair_query[kept]], log.doc_ids[log.pair_doc[kept]])
        _write_csv(path, names, (*ids, *(column[kept] for column in numbers)))


def _ascending(values: Sequence[float], name: str, maximum: float = np.inf) -> Array:
    array = np.asarray(values, np.float64)
    is_list = array.ndim == 1 and len(array) > 0
    if not is_list or not ((array >= 0) & (array <= maximum)).all() or (np.diff(array) <= 0).any():
        span = "from 0 to 1" if maximum == 1 else "at least 0"
        raise InputError(f"{name} are {list(values)}; expected numbers {span}, ascending")
    return array


def _write_csv(path: str | Path, names: Sequence[str], columns: Sequence[Array]) -> None:
    with replace_file(path) as out:
        text = io.TextIOWrapper(out, "utf-8", errors="replace", newline="", write_through=True)
        table = csv.writer(text, lineterminator="\n")
        table.writerow(names)
        table.writerows(zip(*(map(_plain, column.tolist()) for column in columns), strict=True))
        text.flush()
        text.detach()


def _plain(value: Any) -> Any:
    """A number without a trailing .0, and nothing for nan."""
    if isinstance(value, float):
        return "" if value != value else int(value) if value == int(value) else repr(value)
    return value


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
        *others, last = MODELS
        raise InputError(f"the click model is {model!r}; expected {', '.join(others)} or {last}")
    for name, value in (("min_impressions", min_impressions), ("max_steps", max_steps)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} is {value!r}; expected a whole number from 1")
    if propensities is not None and model != "pbm":
        raise InputError(f"propensities are given with the model {model!r}; expected pbm with them")
    if not len(log.pair):
        raise InputError("no impressions are left; expected at least one")
    if not log.n_clicks:
        raise InputError("the log has no clicks; expected at least one")
    given = None if propensities is None else _given_propensities(propensities)
    return MODELS[model](log, min_impressions, given, max_steps)


def _coec(log: ClickLog, min_impressions: int, *_: Any) -> ClickEstimates:
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
    looks = Propensities(cells.positions, rate / rate.max(), np.full(len(rate), np.nan), shown, clicks)
    return ClickEstimates(
        "coec", log, total / over, lower / over, upper / over, seen, total, looks, min_impressions, np.empty(0), True,
        {"expected": expected},
    )  # fmt: skip


# The position-based model: propensities by EM from documents that were shown at several positions, then all pairs. A
# document that was always shown at one position says nothing about propensities. Neither do positions that share no
# document: their propensities are known up to a factor only. Both are found before EM starts.


@dataclass(frozen=True, eq=False)
class Cells:
    """The log summed by pair and position; `by_pair` and `by_position` sum values of cells.

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
        positions, place = np.unique(log.position, return_inverse=True)
        keys, cell = np.unique(log.pair * len(positions) + place, return_inverse=True)
        clicks, shown = np.bincount(cell, log.clicks), np.bincount(cell, log.shown)
        sizes = np.bincount(keys // len(positions), minlength=log.n_pairs)
        return cls(sizes_to_indptr(sizes), keys % len(positions), clicks, shown, positions)

    @property
    def pair(self) -> Array:
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def by_pair(self, values: Array) -> Array:
        return np.bincount(self.pair, values, len(self.indptr) - 1)

    def by_position(self, values: Array) -> Array:
        return np.bincount(self.position, values, len(self.positions))

    def some(self, kept: Array) -> Cells:
        """Some of the cells (a mask); all pairs and positions stay, perhaps without cells."""
        sizes = np.bincount(self.pair[kept], minlength=len(self.indptr) - 1)
        columns = (self.position[kept], self.clicks[kept], self.shown[kept])
        return Cells(sizes_to_indptr(sizes), *columns, self.positions)


def _given_propensities(values: npt.ArrayLike | Propensities) -> Propensities:
    if isinstance(values, Propensities):
        return values
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not ((array > 0) & (array <= 1)).all():
        raise InputError("propensities must be numbers above 0 and at most 1, one for each position from 1")
    return known_propensities(np.arange(1, len(array) + 1), array)


def _position_model(log: ClickLog, min_impressions: int, given: Propensities | None, max_steps: int) -> ClickEstimates:
    from rankwright.clicks.kernels import attraction

    cells = Cells.of(log)
    history, converged = np.empty(0), True
    if given is None:
        theta, error, history, converged = _estimate(cells, min_impressions, max_steps)
    else:
        theta, error = given.of(cells.positions), np.full(len(cells.positions), np.nan)
    usable = cells.some((np.isfinite(theta) & (theta > 0))[cells.position])
    table = np.empty((3, log.n_pairs))
    attraction(usable.indptr, usable.position, usable.clicks, usable.shown, np.nan_to_num(theta), _DROP, table)
    seen, total = usable.by_pair(usable.shown), usable.by_pair(usable.clicks)
    table[:, seen < min_impressions] = np.nan
    shown, clicks = cells.by_position(cells.shown), cells.by_position(cells.clicks)
    looks = Propensities(cells.positions, theta, error, shown, clicks)
    estimate, lower, upper = table
    return ClickEstimates(
        "pbm", log, estimate, lower, upper, seen, total, looks, min_impressions, history, converged, {}
    )


def _estimate(cells: Cells, min_impressions: int, max_steps: int) -> tuple[Array, Array, Array, bool]:
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
        expected = "expected such documents, known propensities, or the model coec"
        raise InputError(f"{problem}, so propensities cannot be told from relevance; {expected}")
    telling = telling.some(main[telling.position])
    kept = np.flatnonzero(np.diff(telling.indptr) > 1)
    place = np.cumsum(main) - 1
    rows = np.isin(telling.pair, kept)
    sizes = np.diff(telling.indptr)[kept]
    arrays = (sizes_to_indptr(sizes), place[telling.position[rows]], telling.clicks[rows], telling.shown[rows])
    rate = np.bincount(arrays[1], arrays[2]) / np.bincount(arrays[1], arrays[3])
    alpha, theta = np.full(len(kept), 0.5), np.clip(0.9 * rate / rate.max(), 0.01, 0.9)
    history = np.empty(max_steps + 1)
    steps = maximise(*arrays, alpha, theta, max_steps, _TOL, history)
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


def _page_model(model: str, log: ClickLog, min_impressions: int, _: Any, max_steps: int) -> ClickEstimates:
    from rankwright.clicks.kernels import count_looks

    pages = Pages.of(log, model)
    looks, clicks, last = np.zeros(log.n_pairs), np.zeros(log.n_pairs), np.zeros(log.n_pairs)
    history, converged, details = np.empty(0), True, {}
    if model == "dbn":
        looks, clicks, last, looked, history, converged, details = _em(log, pages, max_steps)
    else:
        looked = count_looks(pages.indptr, pages.pair, pages.clicked, model == "cascade", looks, clicks, last)
    if model == "cascade":
        table = np.stack(_wilson(clicks, looks))
    else:
        table = np.stack(_product(clicks, looks, last))
        details["satisfaction"] = np.divide(last, clicks, out=np.full(log.n_pairs, np.nan), where=clicks > 0)
    table[:, looks < min_impressions] = np.nan
    estimate, lower, upper = table
    positions = _looks(pages, looked)
    return ClickEstimates(
        model, log, estimate, lower, upper, looks, clicks, positions, min_impressions, history, converged, details
    )


def _em(log: ClickLog, pages: Pages, max_steps: int) -> Any:
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
        if change <= _TOL:
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


MODELS: dict[str, Callable[..., ClickEstimates]] = {
    "pbm": _position_model,
    "coec": _coec,
    **{name: partial(_page_model, name) for name in ("cascade", "sdbn", "dbn")},
}
"""Click models by name: from a log, the fewest impressions, known propensities and the most steps of EM."""
