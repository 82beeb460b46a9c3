"""Models of users who read whole pages from the top: cascade, simplified and full dynamic Bayesian network.

The estimate of a pair is the probability that its document attracts a click which satisfies: α for the cascade model,
where every click does, α·σ for the others. Intervals take α, and σ, as shares of counts; that of a product is its
standard error either way, an approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.clicks.estimates import ClickEstimates, Propensities
from rankwright.clicks.log import ClickLog
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError

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
            what = f"the model {model} needs whole pages, and the log names no sessions"
            raise InputError(f"{what}; expected a column session, or the model pbm or coec")
        if (log.shown != 1).any():
            what = f"the model {model} needs whole pages, and the log counts impressions"
            raise InputError(f"{what}; expected a row for every impression, or the model pbm or coec")
        order = np.lexsort((log.position, log.page))
        sizes = np.bincount(log.page)
        clicked = log.clicks[order].astype(np.float64)
        return cls(sizes_to_indptr(sizes[sizes > 0]), log.pair[order], clicked, log.position[order])


def page_model(log: ClickLog, model: str, min_impressions: int, most: int, tol: float) -> ClickEstimates:
    """One of the models of whole pages."""
    from rankwright.clicks.kernels import count_looks

    pages = Pages.of(log, model)
    looks, clicks, last = np.zeros(log.n_pairs), np.zeros(log.n_pairs), np.zeros(log.n_pairs)
    history, converged, details = np.empty(0), True, {}
    if model == "dbn":
        looks, clicks, last, looked, history, converged, details = _em(log, pages, most, tol)
    else:
        looked = count_looks(pages.indptr, pages.pair, pages.clicked, model == "cascade", looks, clicks, last)
    if model == "cascade":
        found = np.stack(_wilson(clicks, looks))
    else:
        found = np.stack(_product(clicks, looks, last))
        details["satisfaction"] = np.divide(last, clicks, out=np.full(log.n_pairs, np.nan), where=clicks > 0)
    found[:, looks < min_impressions] = np.nan
    estimate, lower, upper = found
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


def _em(log: ClickLog, pages: Pages, most: int, tol: float) -> Any:
    """The dynamic Bayesian network by EM: expected looks, clicks, expected satisfactions, and the rest."""
    from rankwright.clicks.kernels import walk

    rows = (pages.indptr, pages.pair, pages.clicked)
    clicks = np.bincount(pages.pair, pages.clicked, log.n_pairs)
    alpha, sigma, gamma = np.full(log.n_pairs, 0.5), np.full(log.n_pairs, 0.5), 0.9
    history = []
    converged = False
    for _ in range(most):
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
