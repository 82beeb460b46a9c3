"""Cached cutting planes, block by block, and the quadratic programme over them.

    minimise over w   ½‖w‖² + Σ_b max_p (ℓ_bp − v_bp·w)
    its dual          D(α) = Σ_b α_b·ℓ_b − ½‖Σ_b V_bᵀ α_b‖²,   α_b on the simplex for each block b

The maximum is smoothed, max ≈ μ log Σ_p exp(·/μ), which is off by at most μ log(planes) a block, and the smooth problem
solved by Newton's method from the last w, μ falling on the way. The softmax weights are a feasible α, so every w comes
with a bound. Blocks with one plane in use add nothing to the Hessian; the system has as many rows as there are
fractional α, or features, whichever is less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.objectives.products import FASTMATH
from rankwright.solvers.interior import dot, interior_point, solve_shifted

__all__ = ["PlaneBook"]

Array = npt.NDArray[Any]
_IN_USE = 1e-6
_LEAST = 1e-11
_SHORTEST = 1e-6
_NEGLIGIBLE = 1e-2  # softmax weights below this do not enter the Hessian at first


@njit(cache=True, fastmath=FASTMATH)
def _add(w: Any, factor: float, v: Any) -> None:
    for j in range(w.size):
        w[j] += factor * v[j]


@njit(cache=True)
def _add_planes(V: Any, losses: Any, alpha: Any, counts: Any, vectors: Any, new: Any, w: Any) -> int:
    """Give every block its new plane, if that lies above the cached ones at ``w``; how many did.

    A full block first frees a place: its plane of least α, or, if all are in use, the two of least α become their mean.
    """
    given = 0
    capacity = V.shape[1]
    for b in range(counts.size):
        highest = -np.inf
        for p in range(counts[b]):
            highest = max(highest, losses[b, p] - dot(V[b, p], w))
        value = new[b] - dot(vectors[b], w)
        if value <= highest + 1e-12 * (abs(highest) + abs(new[b])):
            continue
        given += 1
        place = counts[b]
        if place < capacity:
            counts[b] += 1
        else:
            place = 1
            for p in range(2, capacity):
                if alpha[b, p] < alpha[b, place]:
                    place = p
            if alpha[b, place] > _IN_USE:
                other = 1 if place != 1 else 2
                for p in range(1, capacity):
                    if p != place and alpha[b, p] < alpha[b, other]:
                        other = p
                total = alpha[b, place] + alpha[b, other]
                share = alpha[b, place] / total
                for j in range(w.size):
                    V[b, other, j] = share * V[b, place, j] + (1.0 - share) * V[b, other, j]
                losses[b, other] = share * losses[b, place] + (1.0 - share) * losses[b, other]
                alpha[b, other] = total
        for j in range(w.size):
            V[b, place, j] = vectors[b, j]
        losses[b, place] = new[b]
        alpha[b, place] = 0.0
    return given


@njit(cache=True)
def _slacks(V: Any, losses: Any, counts: Any, w: Any, slack: Any) -> None:
    for b in range(counts.size):
        for p in range(counts[b]):
            slack[b, p] = losses[b, p] - dot(V[b, p], w)


@njit(cache=True)
def _soften(slack: Any, counts: Any, mu: float, alpha: Any) -> float:
    """Softmax of every block into ``alpha``; returns Σ_b μ log Σ_p exp(slack/μ)."""
    total = 0.0
    for b in range(counts.size):
        highest = -np.inf
        for p in range(counts[b]):
            highest = max(highest, slack[b, p])
        mass = 0.0
        for p in range(counts[b]):
            power = (slack[b, p] - highest) / mu
            alpha[b, p] = np.exp(power) if power > -50.0 else 0.0
            mass += alpha[b, p]
        for p in range(counts[b]):
            alpha[b, p] /= mass
        total += highest + mu * np.log(mass)
    return total


@njit(cache=True)
def _combine(V: Any, alpha: Any, counts: Any, w: Any) -> None:
    """Compute w = Σ_b V_bᵀ α_b."""
    for j in range(w.size):
        w[j] = 0.0
    for b in range(counts.size):
        for p in range(1, counts[b]):  # plane 0 is zero
            if alpha[b, p] > 0.0:
                _add(w, alpha[b, p], V[b, p])


@njit(cache=True)
def _spread(V: Any, alpha: Any, counts: Any, rows: Any, cut: float) -> int:
    """Rows √α (v − mean of the block) of the planes with α above ``cut`` in blocks with more than one; how many."""
    n = 0
    d = rows.shape[1]
    mean = np.empty(d)
    for b in range(counts.size):
        used, mass = 0, 0.0
        for p in range(counts[b]):
            if alpha[b, p] > cut:
                used += 1
                mass += alpha[b, p]
        if used < 2:
            continue
        for j in range(d):
            mean[j] = 0.0
        for p in range(1, counts[b]):
            if alpha[b, p] > cut:
                _add(mean, alpha[b, p] / mass, V[b, p])
        for p in range(counts[b]):
            if alpha[b, p] > cut:
                root = np.sqrt(alpha[b, p])
                for j in range(d):
                    rows[n, j] = root * (V[b, p, j] - mean[j])
                n += 1
    return n


class PlaneBook:
    """Planes, their α, and the weights these make.

    Parameters
    ----------
    n_blocks, capacity, n_features : int
        ``capacity`` planes are kept per block, the zero plane (the ideal ranking) included.

    Attributes
    ----------
    w : ndarray
        Weights that nearly minimise the problem over the planes.
    dual : float
        The best lower bound of the objective so far; it never falls.
    steps : int
        Newton steps taken.
    """

    def __init__(self, n_blocks: int, capacity: int, n_features: int) -> None:
        self.vectors = np.zeros((n_blocks, capacity, n_features))
        self.losses = np.zeros((n_blocks, capacity))
        self.alpha = np.zeros((n_blocks, capacity))
        self.alpha[:, 0] = 1.0
        self.counts = np.ones(n_blocks, np.int64)
        self.w = np.zeros(n_features)
        self.dual = 0.0
        self.steps = 0
        self._rows = np.empty((n_blocks * capacity, n_features))
        self._slacks = tuple(np.zeros((n_blocks, capacity)) for _ in range(3))
        self._no_losses = np.zeros((n_blocks, capacity))

    @property
    def n_planes(self) -> int:
        """Planes at hand, the zero planes not counted."""
        return int(self.counts.sum()) - len(self.counts)

    def add(self, losses: Array, vectors: Array) -> int:
        """Give every block a plane, where the cached ones do not say as much; how many were given."""
        given: int = _add_planes(self.vectors, self.losses, self.alpha, self.counts, vectors, losses, self.w)
        return given

    def improve(self, gap: float, accuracy: float, max_steps: int) -> None:
        """Solve the problem over the planes at hand, from a gap of ``gap`` to about ``accuracy`` of it."""
        n_blocks = len(self.counts)
        last = accuracy * gap / (n_blocks * np.log(2.0 + self.counts.mean()))
        mu = max(last, gap / n_blocks)
        while True:
            self._minimise(mu, mu * n_blocks, max_steps)
            combined = np.empty_like(self.w)
            _combine(self.vectors, self.alpha, self.counts, combined)
            self.dual = max(self.dual, self._dual(combined))
            if mu <= last:
                return
            mu = max(last, mu * 0.2)

    def solve_exactly(self, close: float) -> None:
        """Solve the problem over the planes at hand to a gap of ``close``, whatever it takes."""
        block, plane = np.nonzero(np.arange(self.losses.shape[1]) < self.counts[:, None])
        w, z = interior_point(self.vectors[block, plane], self.losses[block, plane], block, len(self.counts), close)
        if not (np.isfinite(w).all() and np.isfinite(z).all()):
            return
        self.w[:] = w
        self.alpha[:] = 0.0
        self.alpha[block, plane] = np.maximum(z, 0.0)
        combined = np.empty_like(self.w)
        _combine(self.vectors, self.alpha, self.counts, combined)
        self.dual = max(self.dual, self._dual(combined))

    def _minimise(self, mu: float, close: float, max_steps: int) -> None:
        """Newton steps on the smoothed problem until ½‖gradient‖², which is its gap, is ``close`` to 0."""
        V, counts, alpha, w = self.vectors, self.counts, self.alpha, self.w
        slack, trial, move = self._slacks
        _slacks(V, self.losses, counts, w, slack)
        value = 0.5 * (w @ w) + _soften(slack, counts, mu, alpha)
        gradient = np.empty_like(w)
        cut = _NEGLIGIBLE
        for _ in range(max_steps):
            _combine(V, alpha, counts, gradient)
            np.subtract(w, gradient, out=gradient)
            if 0.5 * (gradient @ gradient) <= close:
                return
            self.steps += 1
            n = _spread(V, alpha, counts, self._rows, cut)
            direction = -solve_shifted(self._rows[:n], mu, gradient)
            slope = gradient @ direction
            _slacks(V, self._no_losses, counts, direction, move)
            length = 1.0
            while length > _SHORTEST:
                np.multiply(move, length, out=trial)
                trial += slack
                there = w + length * direction
                moved = 0.5 * (there @ there) + _soften(trial, counts, mu, alpha)
                if moved <= value + 0.1 * length * slope:
                    break
                length *= 0.4
            if length < 0.1 and cut > _LEAST:  # planes of little weight matter here: look again with more of them
                cut *= 1e-3
                _soften(slack, counts, mu, alpha)
            elif length <= _SHORTEST:  # rounding has the last word
                _soften(slack, counts, mu, alpha)
                return
            else:
                value = moved
                w[:] = there
                slack[:] = trial

    def _dual(self, combined: Array) -> float:
        """D of the best share of α, the rest of it on the zero planes."""
        loss, square = float((self.alpha * self.losses).sum()), float(combined @ combined)
        share = min(1.0, loss / square) if square > 0 else 1.0
        return share * loss - 0.5 * share * share * square

    def rescale(self, factor: float) -> None:
        """All costs times ``factor``: planes scale with them, α stays feasible."""
        self.vectors *= factor
        self.losses *= factor
        combined = np.empty_like(self.w)
        _combine(self.vectors, self.alpha, self.counts, combined)
        self.dual = max(0.0, self._dual(combined))
