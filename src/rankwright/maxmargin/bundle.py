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

from rankwright._types import Array
from rankwright.maxmargin.planes import FLAT, PlaneBook, shape_of

_DAMPING = 0.4  # share of the curvature seen that is assumed for the next step
_LEAST_DAMPING = 0.1  # of the last one
_BALANCE = 0.03  # of the gap: what the next weights must promise to gain, or they go further for a better bound
_BOLDEST = 0.01
_FEW = 8  # blocks: with fewer, assuming a curvature is no help
_LONG = 20  # passes after which it is none either, where the whole shape is known
_REACH, _LEAST_REACH = 0.7, 0.1  # part of the way to the minimum over the planes that is gone then
_FLAT = 3  # passes without a better bound after which the small problem is solved exactly
_IDLE = 4  # passes without a new plane after which only rounding is left
_MANY = 80  # blocks
_STEPS = (8, 20)  # of Newton's method, at each smoothing, between passes: with many blocks, with few
_ACCURACY = 0.35  # of the current gap, to which the small problem is solved between passes
_NEAR_ACCURACY, _NEAR_STEPS = 0.05, 8  # the same for the next weights


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

    def sample(self) -> Array:
        """Rows whose second moments have the shape of the hinge's curvature; none if they are few or cost much."""


@dataclass(frozen=True)
class Check:
    """One row of the path: the state after a pass.

    `passes`: passes over the data so far. `primal`: the lowest objective seen. `dual`: the highest lower bound seen.
    `gap`: (primal − dual) / primal, the proof of how good the weights are. `seconds`, `seconds_planes`: wall time so
    far, and the part of it spent on the small problem over the planes.
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

    ``stalled``: rounding kept the gap from closing. ``rounds``: of `rankwright.maxmargin.ramp`, whose certificate is
    that of the last round's convex problem. ``converged``: a rule other than the gap was met.
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

    Two small problems over the planes follow each pass. The first gives the bound. Its weights are far out where the
    planes say little, so the next weights are those of the second, which assumes that the hinge is curved where no
    plane has been yet: ½γ (w − centre)·Σ(w − centre) is added. Σ is the shape of the objective's sample, γ measured by
    how much the planes were wrong in the last pass, and the centre the best weights so far.

    ``known`` are weights and their hinge from a training with other costs, to start from.

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
                run.learn(planes)
            path.append(run.check(passes, began))
            stop = callback(path[-1]) if callback is not None else False
            stalled = run.idle > _IDLE and path[-1].gap > tol
            if path[-1].gap <= tol or stop is True or stalled:
                break
    except KeyboardInterrupt:
        if run.best.hinge == np.inf:
            raise
        interrupted = True
        if not path or run.best.value + constant < path[-1].primal:
            path.append(run.check(passes, began))
    return Solution(run.best.w, path[-1].primal, path[-1].gap, tuple(path), interrupted, stalled)


class _Run:
    """Where a training stands: the best weights, those to try next, and the bound."""

    def __init__(
        self, objective: Objective, book: PlaneBook, known: tuple[Array, float] | None, constant: float
    ) -> None:
        self._objective, self._book, self._constant = objective, book, constant
        self._steps = _STEPS[objective.n_blocks < _MANY]
        book.resume(_ACCURACY, self._steps)
        self.best = _Centre(book.w.copy()) if known is None else _Centre(*known)
        self.dual = book.dual
        self.idle, self._flat, self._passes, self._on_planes = 0, 0, 0, 0.0
        self._boldness, self._reach = 1.0, _REACH
        self._next = self.best.w
        if known is not None and book.n_planes:
            self._go_on(max(self.best.value - book.dual, 1e-300))

    def evaluate(self) -> Any:
        """One pass over the data; the planes found there."""
        planes = self._objective.evaluate(self._next)
        self._passes += 1
        self._before, self._here = self.best, _Centre(self._next, float(planes.values.sum()))
        better = self._here.value < self.best.value
        self.best = self._here if better else self.best
        self._reach = min(_REACH, 1.2 * self._reach) if better else max(_LEAST_REACH, 0.7 * self._reach)
        return planes

    def learn(self, planes: Any) -> None:
        """Add the planes to the book and solve the small problems over them."""
        started, book = time.perf_counter(), self._book
        known = book.n_planes > 0
        given, said = book.add(planes.losses, planes.vectors, self._here.w)
        self.idle = 0 if given else self.idle + 1
        if self._by_reach():
            pass
        elif known:
            book.curvature = self._missing(self._here.hinge - said)
        elif book.curvature == 0.0:
            book.curvature = self._steepness(planes)
        room = max(self.best.value - book.dual, 1e-300)
        if self.idle:
            book.solve_exactly(0.1**self.idle * room)
        elif self._flat >= _FLAT:
            book.solve_exactly(_ACCURACY * room)
        else:
            book.improve(room, _ACCURACY, self._steps)
        self._go_on(room)
        self._flat = 0 if book.dual > self.dual else self._flat + 1
        self.dual = max(self.dual, book.dual)
        self._on_planes += time.perf_counter() - started

    def _go_on(self, room: float) -> None:
        """Choose the next weights. If nothing new was found, go all the way to the minimum over the planes."""
        book = self._book
        if self.idle:
            self._next = book.w.copy()
            return
        if self._by_reach():
            self._next = self.best.w + self._reach * (book.w - self.best.w)
            return
        damping = self._boldness * book.curvature
        self._next, value = book.near(self.best.w, damping, room, _NEAR_ACCURACY, _NEAR_STEPS)
        bolder = self.best.value - value < _BALANCE * room
        self._boldness = max(_BOLDEST, 0.5 * self._boldness) if bolder else min(1.0, 2.0 * self._boldness)

    def _missing(self, wrong: float) -> float:
        """The curvature to assume, from how much the planes were ``wrong`` at the weights just tried."""
        square = self._square(self._here.w - self._before.w)
        seen = 2.0 * max(wrong, 0.0) / square if square > 0 else 0.0
        return max(_DAMPING * seen, _LEAST_DAMPING * self._book.curvature)

    def _steepness(self, planes: Any) -> float:
        """The curvature with which the first step takes the hinge to 0, if the first planes are right."""
        total = planes.vectors.sum(axis=0)
        square = float(total @ total)
        return square * square / max(float(planes.losses.sum()) * self._square(total), 1e-300)

    def _square(self, v: Array) -> float:
        return (self._book.shape or FLAT).square(v)

    def _by_reach(self) -> bool:
        """Whether nothing is known of the curvature, or that was no help; finds its shape when first asked."""
        book = self._book
        if self._objective.n_blocks < _FEW:
            return True
        if not book.has_shape:
            book.shape, book.has_shape = shape_of(self._objective.sample), True
        return book.shape is None or (self._passes > _LONG and book.shape.whole.size > 0)

    def check(self, passes: int, began: float) -> Check:
        """What is known now. Rounding may put the bound above the objective by a hair; a gap is not negative."""
        primal, seconds = self.best.value + self._constant, time.perf_counter() - began
        dual = min(self.dual + self._constant, primal)
        return Check(passes, primal, dual, self.gap(), seconds, self._on_planes)

    def gap(self) -> float:
        """(P − D)/P of the best weights."""
        primal = self.best.value
        return max(0.0, primal - self.dual) / (primal + self._constant) if primal + self._constant > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _Centre:
    """Weights and their hinge."""

    w: Array
    hinge: float = np.inf

    @property
    def value(self) -> float:
        return 0.5 * float(self.w @ self.w) + self.hinge
