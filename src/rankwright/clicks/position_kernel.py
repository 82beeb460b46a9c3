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

__all__ = ["attraction", "information", "maximise", "position_likelihood"]

_HALVINGS = 60


@njit(cache=True)
def position_likelihood(indptr: Any, position: Any, clicks: Any, shown: Any, alpha: Any, theta: Any) -> float:
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
def _step(indptr: Any, position: Any, clicks: Any, shown: Any, alpha: Any, theta: Any, sums: Any) -> None:
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
    indptr: Any, position: Any, clicks: Any, shown: Any, alpha: Any, theta: Any, most: int, tol: float, history: Any
) -> int:
    """Steps of EM, in place, until no propensity changes by more than ``tol``; returns how many.

    ``history`` gets the log-likelihood before every step, and after the last one. Propensities are compared, and in the
    end given, with the largest as 1. They must start below 1: a step leaves a 1 alone.
    """
    sums, before = np.empty((2, theta.size)), np.empty(theta.size)
    done = 0
    while done < most:
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
def _slope(a: float, first: int, last: int, position: Any, clicks: Any, shown: Any, theta: Any) -> float:
    """The derivative of a pair's log-likelihood by log α; it falls as α rises."""
    slope = 0.0
    for cell in range(first, last):
        mu = a * theta[position[cell]]
        missed = shown[cell] - clicks[cell]
        slope += clicks[cell] - (missed * mu / max(1.0 - mu, 1e-300) if missed > 0.0 else 0.0)
    return slope


@njit(cache=True)
def _value(a: float, first: int, last: int, position: Any, clicks: Any, shown: Any, theta: Any) -> float:
    value = 0.0
    for cell in range(first, last):
        mu = a * theta[position[cell]]
        if clicks[cell] > 0.0:
            value += clicks[cell] * np.log(max(mu, 1e-300))
        if shown[cell] > clicks[cell]:
            value += (shown[cell] - clicks[cell]) * np.log(max(1.0 - mu, 1e-300))
    return value


@njit(cache=True)
def attraction(indptr: Any, position: Any, clicks: Any, shown: Any, theta: Any, drop: float, out: Any) -> None:
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
        least = _value(best, first, last, position, clicks, shown, theta) - drop
        out[0, pair] = best
        for end in range(2):
            inside, outside = best, float(end)
            if _value(outside, first, last, position, clicks, shown, theta) >= least:
                inside = outside
            for _ in range(_HALVINGS):
                middle = 0.5 * (inside + outside)
                if _value(middle, first, last, position, clicks, shown, theta) >= least:
                    inside = middle
                else:
                    outside = middle
            out[1 + end, pair] = inside


@njit(cache=True)
def information(indptr: Any, position: Any, clicks: Any, shown: Any, alpha: Any, theta: Any) -> Any:
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
        for one in range(first, last):
            table[position[one], position[one]] += weight[one - first]
            for other in range(first, last):
                table[position[one], position[other]] -= weight[one - first] * weight[other - first] / total
    return table
