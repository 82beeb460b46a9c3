"""The ramp bound on a training set: start, unit of C, and the path of C values.

    minimise  ½‖w − w₀‖² / unit + (C/|Q|) Σ_q μ_q R_q(w),   unit = ½‖w₀‖² / mean R(w₀)

R is not convex, so the start w₀ matters. Pulled to 0 like the hinge, a small C forgets it, and ends far from any good
ranking; pulled to w₀, a small C stays there, and a large one trusts the bound. C = 1 weighs the bound at w₀ as much as
the way from w₀ to 0, whatever the features and the feature map: the same few values of C suit all data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.rankers.cost import Trial
from rankwright.rankers.problem import Problem, Settings, Target

Array = npt.NDArray[Any]
HINGE, RAMP = "hinge", "ramp"
_FIGURES = ("objective", "gap", "passes", "norm", "slack", "slack_ratio", "objective_ratio")
RAMP_GRID = (0.1, 1.0, 10.0)


class RampProblem(Problem):
    """A training set with the ramp bound; every C starts from the same weights, whose length does not matter."""

    def __init__(
        self,
        data: RankingData,
        targets: Sequence[Target],
        weights: Array,
        settings: Settings,
        start: Array,
        *,
        max_rounds: int,
        pulled_to_start: bool = True,
    ) -> None:
        from rankwright.solvers.ramp import stretch

        super().__init__(data, targets, weights, settings, None)
        self._max_rounds = max_rounds
        self._start = stretch(self._objective, self._objective.weights(start))
        square = 0.5 * float(self._start.w @ self._start.w)
        self._unit = square / self._start.bound if square > 0 and self._start.bound > 0 else 1.0
        self._centre = self._start.w if pulled_to_start else np.zeros_like(self._start.w)
        self._cost = 1.0

    def solve(self, C: float) -> Trial:
        """Train for one C; planes are kept from one to the next."""
        from rankwright.solvers.ramp import solve_ramp

        factor = C * self._unit / self._cost
        self._cost *= factor
        self._objective.turn_back()
        self._objective.rescale(factor)
        self._book.rescale(factor)
        settings = self._settings
        solution = solve_ramp(
            self._objective,
            self._book,
            self._start,
            self._centre,
            cost=self._cost,
            tol=settings.tol,
            max_passes=settings.max_passes,
            max_rounds=self._max_rounds,
            unit=self._unit,
            callback=settings.callback,
        )
        square, at_zero = (0.5 * float(away @ away) / self._unit for away in (solution.w - self._centre, self._centre))
        return self._trial(C, solution, square, self._start.at_zero, at_zero)


class StartOnly:
    """The path of a training that was interrupted before its first round: the start is the model."""

    def __init__(self, start: Any) -> None:
        self._start = start

    def solve(self, C: float) -> Trial:
        """Return the start."""
        from rankwright.solvers.bundle import Solution

        start = self._start
        row = next(row for row in start.C_path_ if row["C"] == start.C_)
        figures = {name: row[name] for name in _FIGURES}
        solution = Solution(start.coef_, start.objective_, start.gap_, start.path_, interrupted=True)
        return Trial(start.coef_, figures, solution, interrupted=True)

    def close(self) -> None:
        """Nothing to shut down."""
