"""Newton's method of `rankwright.solvers.smoothed` over inner products of planes: for more features than planes in use.

    minimise over z = Vᵀc   ½τ‖z‖² + Σ_b μ log Σ_p exp((ℓ_bp − v_bp·z)/μ)

Only G = V Vᵀ is used, and rows of it are computed when a plane is new; after that, no step depends on the number of
features. Planes have numbers, ``slot``; those of a block are found by its row there. Zero planes have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.models.products import FASTMATH
from rankwright.solvers.algebra import dot, solve_in_place

__all__ = ["add_inner_products", "minimise_over_planes"]

_LOOSE = 3.0  # as in `rankwright.solvers.smoothed`
_LOWEST = -14.0
_SHORTEST = 1e-6
_NEGLIGIBLE = 3e-2
_SMALL = 1e-5
_LEAST = 1e-11


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def add_inner_products(V: Any, places: Any, new: Any, G: Any) -> None:
    """Fill rows and columns ``new`` of G; plane i is ``V[places[i, 0], places[i, 1]]``. Four new planes at a time."""
    for start in range(0, new.size, 4):
        last = new.size - 1
        s0, s1, s2, s3 = new[start], new[min(start + 1, last)], new[min(start + 2, last)], new[min(start + 3, last)]
        v0, v1 = V[places[s0, 0], places[s0, 1]], V[places[s1, 0], places[s1, 1]]
        v2, v3 = V[places[s2, 0], places[s2, 1]], V[places[s3, 0], places[s3, 1]]
        for i in range(len(places)):
            v = V[places[i, 0], places[i, 1]]
            a = b = c = d = 0.0
            for j in range(v.size):
                a += v[j] * v0[j]
                b += v[j] * v1[j]
                c += v[j] * v2[j]
                d += v[j] * v3[j]
            G[s0, i] = G[i, s0] = a
            G[s1, i] = G[i, s1] = b
            G[s2, i] = G[i, s2] = c
            G[s3, i] = G[i, s3] = d


@njit(cache=True, error_model="numpy")
def _soften(
    slack: Any, move: Any, length: float, slot: Any, counts: Any, mu: float, alpha: Any, rest: Any
) -> float:  # fmt: skip
    """Softmax of every block of slack + length · move into ``alpha``, and of its zero plane into ``rest``."""
    total = 0.0
    for b in range(counts.size):
        highest = 0.0
        for p in range(1, counts[b]):
            s = slot[b, p]
            alpha[s] = slack[s] + length * move[s]
            highest = max(highest, alpha[s])
        mass = np.exp(-highest / mu) if -highest / mu > _LOWEST else 0.0
        rest[b] = mass
        for p in range(1, counts[b]):
            s = slot[b, p]
            power = (alpha[s] - highest) / mu
            alpha[s] = np.exp(power) if power > _LOWEST else 0.0
            mass += alpha[s]
        rest[b] /= mass
        for p in range(1, counts[b]):
            alpha[slot[b, p]] /= mass
        total += highest + mu * np.log(mass)
    return total


@njit(cache=True, error_model="numpy")
def _times(G: Any, v: Any, factor: float, out: Any) -> None:
    for i in range(v.size):
        out[i] = factor * dot(G[i, : v.size], v)


@njit(cache=True, error_model="numpy")
def _sharpen(slack: Any, slot: Any, counts: Any, alpha: Any, factor: float, g: Any) -> None:
    """Add to the gradient what the step to a smaller μ needs."""
    for b in range(counts.size):
        mean = 0.0
        for p in range(1, counts[b]):
            mean += alpha[slot[b, p]] * slack[slot[b, p]]
        for p in range(1, counts[b]):
            s = slot[b, p]
            if alpha[s] > 0.0:
                g[s] -= factor * alpha[s] * (slack[s] - mean)


@njit(cache=True, error_model="numpy")
def _in_use(slot: Any, counts: Any, alpha: Any, rest: Any, cut: float, used: Any, first: Any, before: Any) -> int:
    """List the planes with α above ``cut``, block after block; return how many.

    ``before`` is the weight in the block of those before a plane, ``first`` the place in the list of its first one.
    """
    n = 0
    for b in range(counts.size):
        begin, mass = n, rest[b] if rest[b] > cut else 0.0
        for p in range(1, counts[b]):
            s = slot[b, p]
            if alpha[s] > cut:
                used[n], first[n], before[n] = s, begin, mass
                mass += alpha[s]
                n += 1
    return n


@njit(cache=True, error_model="numpy", inline="always")
def _direction(
    G: Any, n: int, used: Any, first: Any, before: Any, alpha: Any, strength: float, mu: float, g: Any, Gg: Any, A: Any,
    x: Any, mean: Any, out: Any,
) -> None:  # fmt: skip
    """Coefficients of −(τI + RᵀR/μ)⁻¹ g, R as in `rankwright.solvers.smoothed`: √(α m/(α + m)) (v − mean before)."""
    padded = (n + 3) // 4 * 4
    for i in range(n, padded):
        for j in range(padded):
            A[i, j] = A[j, i] = 0.0
        A[i, i], x[i] = 1.0, 0.0
    for i in range(n):  # differences of rows
        row = G[used[i]]
        weight, mass = alpha[used[i]], before[i]
        if i == first[i]:
            for j in range(n + 1):
                mean[j] = 0.0
        root, part = np.sqrt(weight * mass / (weight + mass)), weight / (weight + mass)
        for j in range(n):
            apart = row[used[j]] - mean[j]
            A[i, j] = root * apart
            mean[j] += part * apart
        apart = Gg[used[i]] - mean[n]
        x[i] = root * apart
        mean[n] += part * apart
    for i in range(n):  # and of columns
        centre = 0.0
        for j in range(n):
            weight, mass = alpha[used[j]], before[j]
            if j == first[j]:
                centre = 0.0
            root, part = np.sqrt(weight * mass / (weight + mass)), weight / (weight + mass)
            apart = A[i, j] - centre
            A[i, j] = root * apart
            centre += part * apart
        A[i, i] += mu * strength
    solve_in_place(A, x, padded)
    for i in range(g.size):
        out[i] = -g[i] / strength
    for i in range(n):
        weight, mass = alpha[used[i]], before[i]
        if mass > 0.0:
            share = np.sqrt(weight * mass / (weight + mass)) * x[i] / strength
            out[used[i]] += share
            for j in range(first[i], i):
                out[used[j]] -= share * alpha[used[j]] / mass


@njit(cache=True, error_model="numpy")
def minimise_over_planes(
    G: Any, slot: Any, counts: Any, losses: Any, coef: Any, slack: Any, alpha: Any, rest: Any, strength: float,
    mu: float, larger: float, max_steps: int, A: Any,
) -> tuple[float, int]:  # fmt: skip
    """Newton steps, as `rankwright.solvers.smoothed.minimise`; ``strength`` is τ. Returns ‖Vᵀα‖² and the steps taken.

    ``slack`` is ℓ − G c and kept up to date; ``rest`` is the α of the zero planes.
    """
    n_planes = coef.size
    g, Gg, Ga, move = np.empty(n_planes), np.empty(n_planes), np.empty(n_planes), np.zeros(n_planes)
    direction, before, mean, x = np.empty(n_planes), np.empty(n_planes), np.empty(n_planes + 4), np.empty(n_planes + 4)
    used, first = np.empty(n_planes, np.int64), np.empty(n_planes, np.int64)
    predict = larger > mu
    stale, value, square, cut = not predict, np.inf, 0.0, _NEGLIGIBLE
    close = mu * counts.size * (1.0 if predict else _LOOSE)
    for step in range(max_steps + 1):
        if stale:
            value = _soften(slack, move, 0.0, slot, counts, mu, alpha, rest)
        _times(G, alpha, 1.0, Ga)
        gap = square = quadratic = 0.0
        for i in range(n_planes):
            g[i] = strength * coef[i] - alpha[i]
            Gg[i] = strength * (losses[i] - slack[i]) - Ga[i]
            gap += 0.5 * g[i] * Gg[i] / strength
            square += alpha[i] * Ga[i]
            quadratic += 0.5 * strength * coef[i] * (losses[i] - slack[i])
        value += quadratic if stale else 0.0
        if not predict and (step == max_steps or gap <= close or cut < _LEAST):
            break
        if predict:
            _sharpen(slack, slot, counts, alpha, (1.0 - mu / larger) / mu, g)
            _times(G, g, 1.0, Gg)
        n = _in_use(slot, counts, alpha, rest, _NEGLIGIBLE * _NEGLIGIBLE if predict else cut, used, first, before)
        _direction(G, n, used, first, before, alpha, strength, mu, g, Gg, A, x, mean, direction)
        _times(G, direction, -1.0, move)
        slope, along, bend = -dot(g, move), -strength * dot(coef, move), -0.5 * strength * dot(direction, move)
        length, moved = 0.0 if value == np.inf else 1.0, value
        while length > _SHORTEST or value == np.inf:
            moved = _soften(slack, move, length, slot, counts, mu, alpha, rest)
            moved += quadratic + length * along + length * length * bend
            if value == np.inf:
                value, slope, length = moved, 0.0, 1.0
            elif moved <= value + 0.1 * length * slope:
                break
            else:
                length *= 0.4
        value = moved
        stale = length < 0.1
        if length > _SHORTEST and (not stale or predict or cut <= _LEAST):
            for i in range(n_planes):
                coef[i] += length * direction[i]
                slack[i] += length * move[i]
            stale = False
        elif not predict:
            cut = _SMALL if cut > _SMALL else (_LEAST if cut > _LEAST else 0.0)
        predict = False
    return square, step
