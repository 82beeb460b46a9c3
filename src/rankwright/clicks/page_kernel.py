"""Models of users who read a page from the top, compiled; the rows of a page lie together, by position.

Dynamic Bayesian network: a result that is looked at is clicked with probability α of its pair; a click satisfies with
probability σ of its pair, and the user leaves; otherwise the next result is looked at with probability γ. Up to the
last click everything is known to be looked at. What comes after it is hidden. With G_k the probability of no click
after result k, if it was looked at and did not satisfy,

    G_n = 1,   G_k = 1 − γ + γ (1 − α_{k+1}) G_{k+1}
    Z   = σ + (1 − σ) G_l  for the last click l,   Z = (1 − α_1) G_1  for a page without clicks

and result k > l was looked at with probability F_k G_k / Z, where F_k = F_{k−1} γ (1 − α_k) and F_l = 1 − σ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["count_looks", "walk"]

_LEFT = 1e-12  # probabilities stay so far from 0 and 1 in logarithms


@njit(cache=True)
def count_looks(indptr: Any, pair: Any, clicked: Any, first_click: bool, looks: Any, clicks: Any, last: Any) -> Any:
    """Count what users of a closed form looked at, clicked, and clicked last; returns looks by row.

    They stop at the first click, or at the last one; a page without clicks was read to its end.
    """
    looked = np.zeros(pair.size)
    for page in range(indptr.size - 1):
        start, stop = indptr[page], indptr[page + 1]
        end = stop - 1
        for row in range(start, stop):
            if clicked[row] > 0.0:
                end = row
                if first_click:
                    break
        for row in range(start, end + 1):
            looked[row] = 1.0
            looks[pair[row]] += 1.0
            if clicked[row] > 0.0:
                clicks[pair[row]] += 1.0
                if row == end:
                    last[pair[row]] += 1.0
    return looked


@njit(cache=True)
def _after(start: int, stop: int, pair: Any, alpha: Any, gamma: float, none: Any) -> None:
    """G of every row of a page, into ``none``."""
    none[stop - 1 - start] = 1.0
    for row in range(stop - 2, start - 1, -1):
        none[row - start] = 1.0 - gamma + gamma * (1.0 - alpha[pair[row + 1]]) * none[row + 1 - start]


@njit(cache=True)
def walk(
    indptr: Any, pair: Any, clicked: Any, alpha: Any, sigma: Any, gamma: float, looks: Any, stops: Any, looked: Any
) -> Any:
    """One step's expectations: looks and satisfactions by pair, looks by row; γ's two sums; the log-likelihood."""
    longest = 0
    for page in range(indptr.size - 1):
        longest = max(longest, indptr[page + 1] - indptr[page])
    none = np.empty(longest)
    went, could, value = 0.0, 0.0, 0.0
    for page in range(indptr.size - 1):
        start, stop = indptr[page], indptr[page + 1]
        _after(start, stop, pair, alpha, gamma, none)
        end = start - 1
        for row in range(start, stop):
            if clicked[row] > 0.0:
                end = row
        for row in range(start, end + 1):  # known
            p = pair[row]
            looked[row] = 1.0
            looks[p] += 1.0
            value += np.log(max(alpha[p] if clicked[row] > 0.0 else 1.0 - alpha[p], _LEFT))
            if row < end:
                went += 1.0
                could += 1.0
                value += np.log(max(gamma, _LEFT))
                if clicked[row] > 0.0:
                    value += np.log(max(1.0 - sigma[p], _LEFT))
        if end < start:  # no click: the first result was looked at
            end = start
            p = pair[start]
            total = max((1.0 - alpha[p]) * none[0], _LEFT)
            forward = 1.0 - alpha[p]
            looked[start] = 1.0
            looks[p] += 1.0
        else:
            p = pair[end]
            total = max(sigma[p] + (1.0 - sigma[p]) * none[end - start], _LEFT)
            forward = 1.0 - sigma[p]
            stops[p] += sigma[p] / total
        value += np.log(total)
        for row in range(end, stop - 1):
            could += forward * none[row - start] / total
            forward *= gamma * (1.0 - alpha[pair[row + 1]])
            share = forward * none[row + 1 - start] / total
            went += share
            looked[row + 1] = share
            looks[pair[row + 1]] += share
    return went, could, value
