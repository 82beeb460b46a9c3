"""Newton's method on the problem over cutting planes with its maximum smoothed, as one compiled function.

    minimise over w   ½‖w‖² + Σ_b μ log Σ_p exp((ℓ_bp − v_bp·w)/μ)

The softmax weights α are the smooth problem's dual point: its gradient is w − Σ_b V_bᵀ α_b, and its Hessian the
identity plus 1/μ times the covariance of the planes of every block under α. Blocks with one plane in use add nothing to
it; the system has as many rows as there are further planes in use, or features, whichever is less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numba.extending import overload

from rankwright.models.products import FASTMATH
from rankwright.solvers.algebra import dot, newton_direction
from rankwright.solvers.inner import InnerSpace, inner_step

_LOOSE = 3.0  # the first, smoothest problem need not be solved as well as the last
_LOWEST = -14.0  # exponents below this give weights of 0
_SHORTEST = 1e-6  # part of a Newton step that is tried
_NEGLIGIBLE = 3e-2  # softmax weights below this do not enter the Hessian at first
_SMALL = 1e-5  # and below this, if that was too coarse
_LEAST = 1e-11  # and below this, never


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def _add(w: Any, factor: float, v: Any) -> None:
    for j in range(w.size):
        w[j] += factor * v[j]


@njit(cache=True, error_model="numpy", inline="always")
def _fall(V: Any, counts: Any, w: Any, out: Any) -> None:
    """−v·w of every plane."""
    for b in range(counts.size):
        for p in range(1, counts[b]):  # plane 0 is zero
            out[b, p] = -dot(V[b, p], w)


@njit(cache=True, error_model="numpy")
def _combine(V: Any, alpha: Any, counts: Any, out: Any) -> None:
    """Σ_b V_bᵀ α_b."""
    for j in range(out.size):
        out[j] = 0.0
    for b in range(counts.size):
        for p in range(1, counts[b]):
            if alpha[b, p] > 0.0:
                _add(out, alpha[b, p], V[b, p])


@njit(cache=True, error_model="numpy")
def _soften(slack: Any, move: Any, length: float, counts: Any, mu: float, alpha: Any) -> float:
    """Softmax of every block of slack + length · move into ``alpha``; returns Σ_b μ log Σ_p exp(·/μ)."""
    total = 0.0
    for b in range(counts.size):
        highest = -np.inf
        for p in range(counts[b]):
            alpha[b, p] = slack[b, p] + length * move[b, p]
            highest = max(highest, alpha[b, p])
        mass = 0.0
        for p in range(counts[b]):
            power = (alpha[b, p] - highest) / mu
            alpha[b, p] = np.exp(power) if power > _LOWEST else 0.0
            mass += alpha[b, p]
        for p in range(counts[b]):
            alpha[b, p] /= mass
        total += highest + mu * np.log(mass)
    return total


@njit(cache=True, error_model="numpy", inline="always")
def _spread(V: Any, alpha: Any, counts: Any, cut: float, mean: Any, rows: Any) -> int:
    """Rows R with RᵀR = Σ_b covariance of the block's planes with α above ``cut``; return how many.

    A block's k-th plane in use gives the row √(α m / (α + m)) (v − mean of those before), m the weight of those before.
    """
    n = 0
    for b in range(counts.size):
        mass = 0.0
        for p in range(counts[b]):
            weight = alpha[b, p]
            if weight <= cut:
                continue
            v = V[b, p]
            if mass == 0.0:
                for j in range(mean.size):
                    mean[j] = v[j]
            else:
                root, part = np.sqrt(weight * mass / (weight + mass)), weight / (weight + mass)
                for j in range(mean.size):
                    apart = v[j] - mean[j]
                    rows[n, j] = root * apart
                    mean[j] += part * apart
                n += 1
            mass += weight
    return n


@njit(cache=True, error_model="numpy", inline="always")
def _sharpen(V: Any, counts: Any, slack: Any, alpha: Any, factor: float, gradient: Any) -> None:
    """At weights that solve the problem for a larger μ, add to ``gradient`` what the step to a smaller one needs.

    Planes in use should keep their α, so their slacks must draw closer as μ falls: by ``factor`` = (1 − μ/μ_old)/μ.
    """
    for b in range(counts.size):
        mean = 0.0
        for p in range(counts[b]):
            mean += alpha[b, p] * slack[b, p]
        for p in range(1, counts[b]):
            if alpha[b, p] > 0.0:
                _add(gradient, -factor * alpha[b, p] * (slack[b, p] - mean), V[b, p])


@njit(cache=True, error_model="numpy", inline="always")
def _pull(level: float, sigma: Any, wide: Any, curvature: float, v: Any, out: Any) -> None:
    """Curvature · Σ v."""
    for i in range(v.size):
        out[i] = curvature * level * v[i]
        if sigma.size and curvature > 0.0:
            out[i] += curvature * dot(sigma[i], v)
    if curvature > 0.0:
        for r in range(wide.shape[0]):
            _add(out, curvature * dot(wide[r], v), wide[r])


def _newton_step(
    space: Any, V: Any, alpha: Any, counts: Any, cut: Any, mu: Any, g: Any, strength: Any, curvature: Any, sigma: Any,
    wide: Any, out: Any,
) -> None:  # fmt: skip
    """Put −(τI + γ sigma + γ wideᵀwide + covariance of the planes with α above ``cut`` / μ)⁻¹ g into ``out``."""
    raise NotImplementedError("for compiled code only")


def _plain_step(
    space: Any, V: Any, alpha: Any, counts: Any, cut: Any, mu: Any, g: Any, strength: Any, curvature: Any, sigma: Any,
    wide: Any, out: Any,
) -> None:  # fmt: skip
    rows, A, few, x = space
    n = _spread(V, alpha, counts, cut, out, rows)
    newton_direction(rows, n, mu, g, strength, curvature, sigma, A, few, x, out)


@overload(_newton_step, jit_options={"cache": True, "error_model": "numpy", "forceinline": True})
def _step_by_space(
    space: Any, V: Any, alpha: Any, counts: Any, cut: Any, mu: Any, g: Any, strength: Any, curvature: Any, sigma: Any,
    wide: Any, out: Any,
) -> Any:  # fmt: skip
    return inner_step if len(space) == len(InnerSpace._fields) else _plain_step


@njit(cache=True, error_model="numpy", inline="always")
def _search(
    slack: Any, move: Any, counts: Any, alpha: Any, before: float, along: float, bend: float, slope: float, mu: float,
    value: float,
) -> tuple[float, float]:  # fmt: skip
    """How far to go, and the value there; ``alpha`` is left as that of the last length tried.

    The quadratic part is before + along · length + bend · length². If the ``value`` here is unknown (inf), any lower
    one will do.
    """
    length, moved = 0.0 if value == np.inf else 1.0, value
    while length > _SHORTEST or value == np.inf:
        moved = _soften(slack, move, length, counts, mu, alpha)
        moved += before + length * along + length * length * bend
        if value == np.inf:
            value, slope, length = moved, 0.0, 1.0
        elif moved <= value + 0.1 * length * slope:
            break
        else:
            length *= 0.4
    return length, moved


@njit(cache=True, error_model="numpy")
def minimise(
    V: Any, losses: Any, counts: Any, slack: Any, move: Any, alpha: Any, w: Any, combined: Any, mu: float,
    larger: float, max_steps: int, centre: Any, curvature: float, level: float, sigma: Any, wide: Any, space: Any,
) -> tuple[float, float, int]:  # fmt: skip
    """Newton steps until the smooth problem's gap, ½‖gradient‖², is as small as the error of smoothing.

    ``slack`` is ℓ − v·w of every plane and kept up to date; ``alpha`` and ``combined`` are left as those of the last
    ``w``. If ``larger`` is above ``mu``, they are given as those of the problem with that smoothing, solved at ``w``.
    With a ``curvature`` γ, ½γ (w − centre)·Σ(w − centre) is added to the problem, Σ = level · I + sigma + wideᵀ wide.
    ``space`` says how systems are solved: over planes in use or features, or with the inner products of planes.
    Returns Σ_b α_b·ℓ_b, ‖Σ_b V_bᵀ α_b‖² and the number of steps.
    """
    direction, gradient = np.empty(w.size), np.empty(w.size)
    pull, bent = np.empty(w.size), np.empty(w.size)
    for j in range(w.size):
        direction[j] = w[j] - centre[j]
    strength = 1.0 + curvature * level
    _pull(level, sigma, wide, curvature, direction, pull)
    predict = larger > mu  # go to where the planes in use keep their α
    stale, value, square, cut = not predict, np.inf, 0.0, _NEGLIGIBLE
    close = mu * counts.size * (1.0 if predict else _LOOSE)
    for step in range(max_steps + 1):
        if stale:
            value = _soften(slack, move, 0.0, counts, mu, alpha)
        _combine(V, alpha, counts, combined)
        gap = square = before = 0.0
        for j in range(w.size):
            gradient[j] = w[j] - combined[j] + pull[j]
            gap += 0.5 * gradient[j] * gradient[j] / (1.0 + curvature)
            square += combined[j] * combined[j]
            before += 0.5 * (w[j] * w[j] + (w[j] - centre[j]) * pull[j])
        value += before if stale else 0.0
        if not predict and (step == max_steps or gap <= close or cut < _LEAST):
            break
        if predict:
            _sharpen(V, counts, slack, alpha, (1.0 - mu / larger) / mu, gradient)
        least = _NEGLIGIBLE * _NEGLIGIBLE if predict else cut
        _newton_step(space, V, alpha, counts, least, mu, gradient, strength, curvature, sigma, wide, direction)
        _fall(V, counts, direction, move)
        _pull(level, sigma, wide, curvature, direction, bent)
        slope = along = bend = 0.0
        for j in range(w.size):
            slope += gradient[j] * direction[j]
            along += (w[j] + pull[j]) * direction[j]
            bend += 0.5 * (direction[j] + bent[j]) * direction[j]
        length, value = _search(slack, move, counts, alpha, before, along, bend, slope, mu, value)
        stale = length < 0.1
        if length > _SHORTEST and (not stale or predict or cut <= _LEAST):
            _add(w, length, direction)
            _add(pull, length, bent)
            for b in range(counts.size):
                for p in range(1, counts[b]):
                    slack[b, p] += length * move[b, p]
            stale = False
        elif not predict:  # planes of little weight matter here: try again with more of them, in the end with all
            cut = _SMALL if cut > _SMALL else (_LEAST if cut > _LEAST else 0.0)
        predict = False
    loss = 0.0
    for b in range(counts.size):
        for p in range(1, counts[b]):
            loss += alpha[b, p] * losses[b, p]
    return loss, square, step
