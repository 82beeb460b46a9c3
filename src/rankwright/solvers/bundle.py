"""Max-margin training with a certificate: passes over the data give planes, a small problem over them gives weights.

    P(w) = ½‖w‖² + Σ_b H_b(w)  ≥  optimum  ≥  D(α)

Every pass evaluates P at the current weights, exactly, and gives each block of queries its most violated plane. With
one block per query this is the n-slack cutting plane, or block-coordinate Frank–Wolfe with cached planes and all blocks
moved together; with a single block it is the papers' 1-slack cutting plane. Training stops when (P − D)/P ≤ tol.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.solvers.planes import PlaneBook

__all__ = ["Check", "Objective", "Solution", "solve"]

Array = npt.NDArray[Any]
_REACH = 0.7  # at most, of the way to where the planes point
_FIRST_REACH = 0.4  # after the costs were raised
_LEAST_REACH = 0.1
_STEP_GAP = 0.8  # at which the costs are raised a step
_GROWTH = 100.0  # of the costs in a step, at most
_FLAT = 3  # passes without a better bound after which the small problem is solved exactly
_IDLE = 4  # passes without a new plane after which only rounding is left
_MANY = 80  # blocks
_STEPS = (8, 20)  # of Newton's method, at each smoothing, between passes: with many blocks, with few
_ACCURACY = 0.35  # of the current gap, to which the small problem is solved between passes


class Objective(Protocol):
    """What the solver needs: the hinge of every block at given weights, as a plane."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""

    @property
    def n_features(self) -> int:
        """Number of weights."""

    def evaluate(self, w: Array) -> Any:
        """Losses, vectors and values of the blocks' planes at ``w``."""


@dataclass(frozen=True)
class Check:
    """One row of the path: the state after a pass.

    Attributes
    ----------
    passes : int
        Passes over the data so far.
    primal : float
        The lowest objective seen.
    dual : float
        The highest lower bound seen.
    gap : float
        (primal − dual) / primal, the proof of how good the weights are.
    seconds, seconds_planes : float
        Wall time so far, and the part of it spent on the small problem over the planes.
    """

    passes: int
    primal: float
    dual: float
    gap: float
    seconds: float
    seconds_planes: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The best weights, their objective, and the certificate.

    ``stalled``: rounding kept the gap from closing. ``rounds``: of `rankwright.solvers.ramp`, whose certificate is that
    of the last round's convex problem. ``converged``: a rule other than the gap was met.
    """

    w: Array
    objective: float
    gap: float
    path: tuple[Check, ...]
    interrupted: bool = False
    stalled: bool = False
    rounds: tuple[Any, ...] = ()
    converged: bool = False


def solve(
    objective: Objective,
    book: PlaneBook,
    *,
    tol: float,
    max_passes: int,
    known: tuple[Array, float] | None = None,
    constant: float = 0.0,
    callback: Callable[[Check], Any] | None = None,
) -> Solution:
    """Train from the weights and planes in ``book`` until the certificate is reached, or for ``max_passes``.

    From nothing, large costs are approached in steps: the first planes are true only near 0, and a problem that trusts
    them too much looks for its weights far out, where they say nothing. Each step multiplies the costs, which scales
    the planes, and goes on from the weights it has. The path describes the whole problem throughout.

    ``known`` are weights and their hinge from a training with other costs, to start from. The planes alone would point
    too far.

    A callback that returns True stops training; so does Ctrl-C. Either way the best weights so far are returned, with
    the gap that they have.
    """
    began = time.perf_counter()
    run = _Run(objective, book, known, constant)
    path: list[Check] = []
    interrupted = stalled = False
    try:
        for passes in range(1, max_passes + 1):
            planes = run.evaluate()
            if run.gap() > tol:
                run.learn(planes, first=passes == 1)
            path.append(run.check(passes, began))
            stop = callback(path[-1]) if callback is not None else False
            stalled = run.idle > _IDLE and path[-1].gap > tol
            if path[-1].gap <= tol or stop is True or stalled:
                break
    except KeyboardInterrupt:
        if run.best.hinge == np.inf:
            raise
        interrupted = True
        if not path or run.best.value(1.0) + constant < path[-1].primal:
            path.append(run.check(passes, began))
    run.finish()
    return Solution(run.best.w, path[-1].primal, path[-1].gap, tuple(path), interrupted, stalled)


class _Run:
    """Where a training stands: the best point for all costs, the centre for a share of them, and the bound."""

    def __init__(
        self, objective: Objective, book: PlaneBook, known: tuple[Array, float] | None, constant: float
    ) -> None:
        self._objective, self._book, self._constant = objective, book, constant
        self._steps = _STEPS[objective.n_blocks < _MANY]
        book.resume(_ACCURACY, self._steps)
        self._centre = _Centre(book.w.copy()) if known is None else _Centre(*known)
        self.best, self.dual = self._centre, book.dual
        self._share, self._growth = 1.0, 1.0  # of the costs: now, and from step to step
        self._reach = _REACH if known is None else _FIRST_REACH
        self.idle, self._flat, self._on_planes = 0, 0, 0.0

    def evaluate(self) -> Any:
        """One pass over the data, on the way from the centre to where the planes point; the planes found there."""
        # Far out the planes say little: go only part of the way from the best point while that does not pay.
        w = self._centre.w + self._reach * (self._book.w - self._centre.w)
        planes = self._objective.evaluate(w)
        here = _Centre(w, float(planes.values.sum()))
        better = here.value(self._share) < self._centre.value(self._share)
        self._reach = min(_REACH, 1.2 * self._reach) if better else max(_LEAST_REACH, 0.7 * self._reach)
        self._centre = here if better else self._centre
        if here.value(1.0) < self.best.value(1.0):
            self.best = here
        return planes

    def learn(self, planes: Any, first: bool) -> None:
        """Add the planes to the book and solve the small problem over them."""
        started, book = time.perf_counter(), self._book
        if first and not book.w.any() and book.n_planes == 0:
            self._share, self._growth = _first_share(planes)
        given = book.add(self._share * planes.losses, self._share * planes.vectors)
        self.idle = 0 if given else self.idle + 1
        objective = self._centre.value(self._share)
        if self._share < 1.0 and objective - book.dual <= _STEP_GAP * objective:
            wider = self._share * self._growth if self._share * self._growth < 0.99 else 1.0
            book.rescale(wider / self._share)
            self._share, self._reach = wider, _FIRST_REACH
        room = max(self._centre.value(self._share) - book.dual, 1e-300)
        if self.idle:  # nothing new to learn here: go all the way, to the exact solution of the small problem
            self._reach = 1.0
            book.solve_exactly(0.1**self.idle * room)
        elif self._flat >= _FLAT:
            book.solve_exactly(_ACCURACY * room)
        else:
            book.improve(room, _ACCURACY, self._steps)
        self._flat = 0 if book.dual > self.dual else self._flat + 1
        self.dual = max(self.dual, book.dual)  # a bound for part of the costs is one for all of them
        self._on_planes += time.perf_counter() - started

    def check(self, passes: int, began: float) -> Check:
        """What is known now. Rounding may put the bound above the objective by a hair; a gap is not negative."""
        primal, seconds = self.best.value(1.0) + self._constant, time.perf_counter() - began
        dual = min(self.dual + self._constant, primal)
        return Check(passes, primal, dual, self.gap(), seconds, self._on_planes)

    def gap(self) -> float:
        """(P − D)/P of the best weights."""
        primal = self.best.value(1.0)
        return max(0.0, primal - self.dual) / (primal + self._constant) if primal + self._constant > 0 else 0.0

    def finish(self) -> None:
        """Leave the planes in the book as those of all costs."""
        if self._share < 1.0:
            self._book.rescale(1.0 / self._share)


@dataclass(frozen=True, eq=False)
class _Centre:
    """Weights and their hinge: the objective for any share of the costs."""

    w: Array
    hinge: float = np.inf

    def value(self, share: float) -> float:
        return 0.5 * float(self.w @ self.w) + share * self.hinge


def _first_share(planes: Any) -> tuple[float, float]:
    """The share of the costs at which the first planes alone would take the hinge to 0, and the growth from there."""
    total = planes.vectors.sum(axis=0)
    steepness = float(total @ total) / max(float(planes.losses.sum()), 1e-300)
    n_steps = int(np.ceil(np.log(max(steepness, 1.0)) / np.log(_GROWTH)))
    if n_steps == 0:
        return 1.0, 1.0
    growth = float(steepness ** (1.0 / n_steps))
    return float(growth**-n_steps), growth
