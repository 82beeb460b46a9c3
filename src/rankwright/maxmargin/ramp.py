"""The ramp bound: a difference of convex functions, lowered in rounds of certified convex problems.

    P(w) = ½‖w − c‖² + Σ_b R_b(w),   R = max_y [Δ(y) + w·Ψ(y)] − max_y w·Ψ(y)  ≥  Δ of the ranking that w makes

A round takes the second maximum at the weights it has. With v = Ψ(y*) − Ψ(ŷ) there, times costs, and V = Σ v − c, what
is left is ½‖w‖² + V·w + Σ_b H_b(w) and a constant: the hinge with a linear term. It lies above P and touches it at
these weights, so P never rises. With u = w + V it is the same problem as without the term,

    ½‖u‖² − ½‖V‖² + Σ_b max_p (ℓ_p + v_p·V − v_p·u)

so planes, their small problem and the certificate are those of `rankwright.maxmargin.bundle`; only ℓ changes with V,
and planes are kept from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.maxmargin.bundle import Check, Objective, PlaneBook, Solution, solve
from rankwright.maxmargin.cost import Trial
from rankwright.maxmargin.losses import TrainingSet
from rankwright.maxmargin.problem import Problem, SolverSettings

_FIRST_TOL = 0.03  # relative gap of the first round
_SHARE = 0.3  # of the last round's relative gain: to that gap the next one is solved
_TIGHT = 0.75  # of the way from the bound at 0 to the loss of the ranking
_FAR = 1e6  # times the length looked for first: there the bound is the loss
_WORST = 0.999
_STEPS = 2  # halvings of a decade
_LOOSE = 1000.0  # times the weight at which the bound and the way from the start to 0 count the same


class Linearisable(Objective, Protocol):
    """An objective whose second maximum can be taken at given weights."""

    def value(self, w: Array) -> float:
        """Σ_b H_b(w)."""

    def linearise(self, w: Array) -> Any:
        """Compare with the rankings that ``w`` makes: their ``vector``, and whether planes are the ``same_planes``."""


@dataclass(frozen=True)
class RampRound:
    """One round: P after it, the relative gap to which its convex problem was solved, and passes over the data."""

    objective: float
    gap: float
    passes: int


@dataclass(frozen=True, eq=False)
class StartingPoint:
    """Weights to start from, the linearisation there, and Σ R there (``bound``) and at weights of 0 (``at_zero``)."""

    w: Array
    linearisation: Any
    bound: float
    at_zero: float


def stretch(objective: Linearisable, w: Array) -> StartingPoint:
    """Weights in the direction of ``w``, of a length at which the ramp bound is three quarters tight.

    The bound of t·w falls with t, over several decades, from that of weights of 0 to the loss of the ranking that w
    makes: of short weights it says little, and long ones leave nothing to learn. The length is found to within a factor
    of 1.8. Weights of 0 make no ranking; then the direction is that in which the hinge falls from there.
    """
    planes = objective.evaluate(np.zeros_like(w))
    steepest, hinge = planes.vectors.sum(axis=0), float(planes.values.sum())
    w = w if w.any() else steepest
    direction = w / max(math.sqrt(float(w @ w)), 1e-300)
    linearisation = objective.linearise(direction)
    fall = float(linearisation.vector @ direction)

    def bound(length: float) -> float:
        return objective.value(length * direction) + length * fall

    length = hinge / max(math.sqrt(float(steepest @ steepest)), 1e-300)  # where the first planes would reach 0
    loss = bound(_FAR * length)
    middle = loss + (1.0 - _TIGHT) * (hinge - loss)
    value = bound(length)
    if loss > _WORST * hinge:  # the ranking is as bad as any
        return StartingPoint(length * direction, linearisation, value, hinge)
    factor = 10.0 if value > middle else 0.1
    for _ in range(8):
        if (value > middle) != (factor > 1.0):
            break
        length *= factor
        value = bound(length)
    factor = math.sqrt(10.0)
    for _ in range(_STEPS):
        length *= factor if value > middle else 1.0 / factor
        value, factor = bound(length), math.sqrt(factor)
    return StartingPoint(length * direction, linearisation, value, hinge)


class _Tilted:
    """The hinge with a linear term, as a problem over u = w + V."""

    def __init__(self, objective: Linearisable, book: PlaneBook, centre: Array) -> None:
        self._objective, self._book, self._centre = objective, book, centre
        self.n_blocks, self.n_features = objective.n_blocks, objective.n_features
        self.tilt = np.zeros(objective.n_features)

    def evaluate(self, u: Array) -> Any:
        planes = self._objective.evaluate(u - self.tilt)
        return replace(planes, losses=planes.losses + np.einsum("bj,j->b", planes.vectors, self.tilt))

    def sample(self) -> Array:
        return self._objective.sample()

    def linearise(self, linearisation: Any) -> bool:
        """Compare with other rankings; whether the hinge stays the same."""
        tilt = linearisation.vector - self._centre
        if linearisation.same_planes:
            self._book.tilt(tilt - self.tilt)
        else:
            self._book.clear()
        self.tilt = tilt
        return bool(linearisation.same_planes)

    def value(self, w: Array, hinge: float) -> float:
        """The convex problem's objective, which is P at the weights of the linearisation."""
        away = w - self._centre
        return 0.5 * float(away @ away) + hinge + float((self.tilt + self._centre) @ w)

    @property
    def constant(self) -> float:
        return 0.5 * float(self._centre @ self._centre) - 0.5 * float(self.tilt @ self.tilt)


class _Rounds:
    """The rounds of convex problems: the best weights so far, their hinge and P.

    The planes in ``book`` are those of the hinge, before and after. The costs are ``cost`` times those for which the
    start was made; what is reported of P is divided by ``unit``.
    """

    def __init__(
        self,
        objective: Linearisable,
        book: PlaneBook,
        start: StartingPoint,
        cost: float,
        centre: Array,
        unit: float,
        callback: Callable[[Check], Any] | None,
    ) -> None:
        self._objective, self._book, self._unit, self._callback = objective, book, unit, callback
        self._tilted = _Tilted(objective, book, centre)
        self.path: list[Check] = []
        self.rounds: list[RampRound] = []
        self.stopped = False
        self.passes, self._seconds, self._on_planes = 0, 0.0, 0.0
        if start.linearisation.same_planes:  # which needs no pass
            linearisation = replace(start.linearisation, vector=cost * start.linearisation.vector)
            self._tilted.linearise(linearisation)
            hinge = cost * start.bound - float(linearisation.vector @ start.w)
            self.w, self._hinge, self.value = start.w, hinge, self._tilted.value(start.w, hinge)
        else:
            self._linearise(start.w, np.inf)

    def lower(self, tol: float, max_passes: int, max_rounds: int) -> Solution:
        """Lower P for ``max_rounds``, or until a round gains less than ``tol`` of it.

        Early rounds are solved as well as their gain deserves, the last one to a gap of ``tol``. ``max_passes`` is for
        all rounds together.
        """
        wanted = max(tol, _FIRST_TOL) if max_rounds > 1 else tol
        while True:
            before = self.value
            inner = self._solve(wanted, max_passes - self.passes)
            gain = (before - self.value) / max(before, 1e-300)
            over = gain <= tol or len(self.rounds) >= max_rounds
            ended = inner.interrupted or inner.stalled or self.stopped or self.passes >= max_passes
            if ended or (over and inner.gap <= tol):
                break
            last = over or len(self.rounds) == max_rounds - 1
            wanted = tol if last else min(wanted, max(tol, _SHARE * gain))
        self._book.tilt(-self._tilted.tilt)
        path = self.path or inner.path  # of a first pass that was interrupted, only the solver knows
        state = self.rounds[-1].gap, tuple(path), inner.interrupted, inner.stalled, tuple(self.rounds)
        return Solution(self.w, self.value / self._unit, *state)

    def _linearise(self, w: Array, hinge: float) -> None:
        """Take the second maximum at ``w``, whose hinge was ``hinge`` before that; inf: not known."""
        same = self._tilted.linearise(self._objective.linearise(w))
        if not same or hinge == np.inf:
            hinge = self._objective.value(w)
        self.w, self._hinge, self.value = w, hinge, self._tilted.value(w, hinge)

    def _solve(self, tol: float, max_passes: int) -> Solution:
        """Solve the convex problem of a round, and linearise at its weights if they are better."""
        tilted = self._tilted
        u = self.w + tilted.tilt
        self._book.w[:] = u
        inner = solve(
            tilted,
            self._book,
            tol=tol,
            max_passes=max(1, max_passes),
            start=(u, self._hinge),
            constant=tilted.constant,
            callback=self._check,
        )
        self.passes += len(inner.path)
        self._seconds += inner.path[-1].seconds
        self._on_planes += inner.path[-1].seconds_planes
        before, value = self.w, self.value
        hinge = inner.objective - tilted.constant - 0.5 * float(inner.w @ inner.w)
        self._linearise(inner.w - tilted.tilt, hinge)
        if self.value > value:  # by rounding
            self._linearise(before, np.inf)
        self.rounds.append(RampRound(self.value / self._unit, inner.gap, len(inner.path)))
        return inner

    def _check(self, check: Check) -> bool:
        """Put a pass of this round on the path of all rounds."""
        check = replace(
            check,
            passes=self.passes + check.passes,
            primal=check.primal / self._unit,
            dual=check.dual / self._unit,
            seconds=self._seconds + check.seconds,
            seconds_planes=self._on_planes + check.seconds_planes,
        )
        self.path.append(check)
        self.stopped = self._callback is not None and self._callback(check) is True
        return self.stopped


# The ramp bound on a training set: its start, the unit of C, and the path of C values.
#
#     minimise  ½‖w − w₀‖² / unit + (C/|Q|) Σ_q μ_q R_q(w),   unit = 1000 · ½‖w₀‖² / mean R(w₀)
#
# R is not convex, so the start w₀ matters. Pulled to 0 like the hinge, a small C forgets it, and ends far from any good
# ranking; pulled to w₀, a small C stays there, and a large one trusts the bound. C = 1 weighs the bound at w₀ a
# thousand times as much as the way from w₀ to 0, whatever the features and the feature map, and so suits all data: the
# pull only decides between directions that the bound does not tell apart.


_FIGURES = ("objective", "gap", "passes", "norm", "slack", "slack_ratio", "objective_ratio")


class RampProblem(Problem):
    """A training set with the ramp bound; every C starts from the same weights, whose length does not matter."""

    def __init__(
        self,
        training: TrainingSet,
        settings: SolverSettings,
        start: Array,
        *,
        max_rounds: int,
        pulled_to_start: bool = True,
    ) -> None:
        super().__init__(training, settings, None)
        self._max_rounds = max_rounds
        self._origin = stretch(self._objective, self._objective.weights(start))
        square = 0.5 * float(self._origin.w @ self._origin.w)
        self._unit = _LOOSE * square / self._origin.bound if square > 0 and self._origin.bound > 0 else 1.0
        self._centre = self._origin.w if pulled_to_start else np.zeros_like(self._origin.w)
        self._cost = 1.0

    def solve(self, C: float) -> Trial:
        """Train for one C; planes are kept from one to the next."""
        factor = C * self._unit / self._cost
        self._cost *= factor
        self._objective.reset()
        self._objective.rescale(factor)
        self._book.rescale(factor)
        settings, start = self._settings, (self._origin, self._cost, self._centre)
        rounds = _Rounds(self._objective, self._book, *start, self._unit, settings.callback)
        solution = rounds.lower(settings.tol, settings.max_passes, self._max_rounds)
        square, at_zero = (0.5 * float(away @ away) / self._unit for away in (solution.w - self._centre, self._centre))
        return self._trial(C, solution, square, self._origin.at_zero, at_zero)


class StartOnly:
    """The path of a training that was interrupted before its first round: the start is the model."""

    def __init__(self, start: Any) -> None:
        self._start = start

    def solve(self, C: float) -> Trial:
        start = self._start
        row = next(row for row in start.C_path_ if row["C"] == start.C_)
        figures = {name: row[name] for name in _FIGURES}
        solution = Solution(start.coef_, start.objective_, start.gap_, start.path_, interrupted=True)
        return Trial(start.coef_, figures, solution, interrupted=True)

    def close(self) -> None: ...
