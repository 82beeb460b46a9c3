"""The position-based model by EM, compiled: P(click) = θ of the position · α of the pair.

A cell is a pair at a position, with its clicks and its impressions; the cells of a pair lie together. From one step to
the next, with μ = θα of a cell,

    α ← Σ (clicks + (impressions − clicks) · α(1 − θ)/(1 − μ)) / Σ impressions      over the cells of a pair
    θ ← Σ (clicks + (impressions − clicks) · θ(1 − α)/(1 − μ)) / Σ impressions      over the cells of a position

which never lowers the likelihood Σ clicks·log μ + (impressions − clicks)·log(1 − μ). Only products θα are seen, so the
largest θ is set to 1. One thread, one order of every sum: the same log gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array

_HALVINGS = 60


@njit(cache=True)
def position_likelihood(
    indptr: Array, position: Array, clicks: Array, shown: Array, alpha: Array, theta: Array
) -> float:
    """The log-likelihood of all cells; −inf where the model excludes what was seen."""
    total = 0.0
    for pair in range(indptr.size - 1):
        for cell in range(indptr[pair], indptr[pair + 1]):
            mu = alpha[pair] * theta[position[cell]]
            if clicks[cell] > 0.0:
                total += clicks[cell] * np.log(mu) if mu > 0.0 else -np.inf
            if shown[cell] > clicks[cell]:
                total += (shown[cell] - clicks[cell]) * np.log(1.0 - mu) if mu < 1.0 else -np.inf
    return total


@njit(cache=True)
def _step(indptr: Array, position: Array, clicks: Array, shown: Array, alpha: Array, theta: Array, sums: Array) -> None:
    """One step of EM, in place; ``sums`` is working memory of two rows for positions."""
    sums[:] = 0.0
    for pair in range(indptr.size - 1):
        a, expected, n = alpha[pair], 0.0, 0.0
        for cell in range(indptr[pair], indptr[pair + 1]):
            k = position[cell]
            t = theta[k]
            missed = shown[cell] - clicks[cell]
            share = missed / max(1.0 - a * t, 1e-300) if missed > 0.0 else 0.0
            expected += clicks[cell] + share * a * (1.0 - t)
            n += shown[cell]
            sums[0, k] += clicks[cell] + share * t * (1.0 - a)
            sums[1, k] += shown[cell]
        alpha[pair] = min(expected / n, 1.0)
    for k in range(theta.size):
        if sums[1, k] > 0.0:
            theta[k] = min(sums[0, k] / sums[1, k], 1.0)


@njit(cache=True)
def maximise(
    indptr: Array,
    position: Array,
    clicks: Array,
    shown: Array,
    alpha: Array,
    theta: Array,
    max_steps: int,
    tol: float,
    history: Array,
) -> int:
    """Steps of EM, in place, until no propensity changes by more than ``tol``; returns how many.

    ``history`` gets the log-likelihood before every step, and after the last one. Propensities are compared, and in the
    end given, with the largest as 1. They must start below 1: a step leaves a 1 alone.
    """
    sums, before = np.empty((2, theta.size)), np.empty(theta.size)
    done = 0
    while done < max_steps:
        history[done] = position_likelihood(indptr, position, clicks, shown, alpha, theta)
        before[:] = theta / theta.max()
        _step(indptr, position, clicks, shown, alpha, theta, sums)
        done += 1
        if np.abs(theta / theta.max() - before).max() <= tol:
            break
    largest = theta.max()
    theta /= largest
    alpha *= largest
    history[done] = position_likelihood(indptr, position, clicks, shown, alpha, theta)
    return done


@njit(cache=True)
def _slope(a: float, first: int, last: int, position: Array, clicks: Array, shown: Array, theta: Array) -> float:
    """The derivative of a pair's log-likelihood by log α; it falls as α rises."""
    slope = 0.0
    for cell in range(first, last):
        mu = a * theta[position[cell]]
        missed = shown[cell] - clicks[cell]
        slope += clicks[cell] - (missed * mu / max(1.0 - mu, 1e-300) if missed > 0.0 else 0.0)
    return slope


@njit(cache=True)
def _value(a: float, first: int, last: int, position: Array, clicks: Array, shown: Array, theta: Array) -> float:
    value = 0.0
    for cell in range(first, last):
        mu = a * theta[position[cell]]
        if clicks[cell] > 0.0:
            value += clicks[cell] * np.log(max(mu, 1e-300))
        if shown[cell] > clicks[cell]:
            value += (shown[cell] - clicks[cell]) * np.log(max(1.0 - mu, 1e-300))
    return value


@njit(cache=True)
def attraction(
    indptr: Array, position: Array, clicks: Array, shown: Array, theta: Array, drop: float, out: Array
) -> None:
    """α of every pair for given θ, and the interval in which its log-likelihood is within ``drop`` of the best.

    The rows of ``out`` are α, the lower and the upper end. Found by halving: the likelihood has one peak.
    """
    for pair in range(indptr.size - 1):
        first, last = indptr[pair], indptr[pair + 1]
        low, high = 0.0, 1.0
        if _slope(1.0, first, last, position, clicks, shown, theta) >= 0.0:
            low = 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if _slope(middle, first, last, position, clicks, shown, theta) > 0.0:
                low = middle
            else:
                high = middle
        total = 0.0
        for cell in range(first, last):
            total += clicks[cell]
        best = 0.5 * (low + high) if total > 0.0 else 0.0
        minimum = _value(best, first, last, position, clicks, shown, theta) - drop
        out[0, pair] = best
        for end in range(2):
            inside, outside = best, float(end)
            if _value(outside, first, last, position, clicks, shown, theta) >= minimum:
                inside = outside
            for _ in range(_HALVINGS):
                middle = 0.5 * (inside + outside)
                if _value(middle, first, last, position, clicks, shown, theta) >= minimum:
                    inside = middle
                else:
                    outside = middle
            out[1 + end, pair] = inside


@njit(cache=True)
def information(indptr: Array, position: Array, clicks: Array, shown: Array, alpha: Array, theta: Array) -> Any:
    """The Fisher information of log θ with all log α free: diag(Σ w) − Σ over pairs of w wᵀ / Σ w, w = n·μ/(1 − μ).

    Pairs without clicks, or with α = 1, say nothing.
    """
    table = np.zeros((theta.size, theta.size))
    for pair in range(indptr.size - 1):
        if not 0.0 < alpha[pair] < 1.0:
            continue
        first, last = indptr[pair], indptr[pair + 1]
        weight = np.empty(last - first)
        for cell in range(first, last):
            mu = alpha[pair] * theta[position[cell]]
            weight[cell - first] = shown[cell] * mu / (1.0 - mu)
        total = weight.sum()
        if total <= 0.0:
            continue
        for cell in range(first, last):
            table[position[cell], position[cell]] += weight[cell - first]
            for other in range(first, last):
                table[position[cell], position[other]] -= weight[cell - first] * weight[other - first] / total
    return table


# Models of users who read a page from the top, compiled; the rows of a page lie together, by position.
#
# Dynamic Bayesian network: a result that is looked at is clicked with probability α of its pair; a click satisfies with
# probability σ of its pair, and the user leaves; otherwise the next result is looked at with probability γ. Up to the
# last click everything is known to be looked at. What comes after it is hidden. With G_k the probability of no click
# after result k, if it was looked at and did not satisfy,
#
#     G_n = 1,   G_k = 1 − γ + γ (1 − α_{k+1}) G_{k+1}
#     Z   = σ + (1 − σ) G_l  for the last click l,   Z = (1 − α_1) G_1  for a page without clicks
#
# and result k > l was looked at with probability F_k G_k / Z, where F_k = F_{k−1} γ (1 − α_k) and F_l = 1 − σ.


_LEFT = 1e-12  # probabilities stay so far from 0 and 1 in logarithms


@njit(cache=True)
def count_looks(
    indptr: Array, pair: Array, clicked: Array, first_click: bool, looks: Array, clicks: Array, last: Array
) -> Any:
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
def _after(start: int, stop: int, pair: Array, alpha: Array, gamma: float, none: Array) -> None:
    """G of every row of a page, into ``none``."""
    none[stop - 1 - start] = 1.0
    for row in range(stop - 2, start - 1, -1):
        none[row - start] = 1.0 - gamma + gamma * (1.0 - alpha[pair[row + 1]]) * none[row + 1 - start]


@njit(cache=True)
def walk(
    indptr: Array,
    pair: Array,
    clicked: Array,
    alpha: Array,
    sigma: Array,
    gamma: float,
    looks: Array,
    stops: Array,
    looked: Array,
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
