"""Class probabilities for McRank on the card: the residuals of `rankwright.objectives.classes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.gpu import card
from rankwright.objectives.classes import Grades

Array = npt.NDArray[Any]
_THREADS, _GRID = (4, 2) if card.is_simulated() else (256, 1024)
_FARTHEST = 500.0


class CardGrades:
    """Residuals and second derivatives of the log-likelihood of the grades.

    Parameters
    ----------
    grades : Grades
        The same on the CPU.
    """

    def __init__(self, grades: Grades) -> None:
        n_rows, self._ordinal = len(grades.starts), grades.link == "ordinal"
        self._codes, self._weights = card.upload(grades.codes), card.upload(grades.weights)
        n = len(grades.weights)
        self._scores = cuda.device_array((n_rows, n), np.float64)
        self.scores = [self._scores[row] for row in range(n_rows)]
        for row, start in zip(self.scores, grades.starts, strict=True):
            row.copy_to_device(np.full(n, start))
        n_found = 0 if self._ordinal else n
        self._highest, self._totals = (card.zeros(n_found, np.float64) for _ in range(2))
        self._factor = grades.factor
        self._found = [(card.zeros(n, np.float64), card.zeros(n, np.float64)) for _ in range(n_rows)]

    def evaluate(self, scores: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Residuals and second derivatives for each row of :attr:`scores`, all on the card.

        The next call overwrites them.
        """
        assert scores is self.scores
        if not self._ordinal:
            _add_up[_GRID, _THREADS](self._scores, self._highest, self._totals)
        for row, found in enumerate(self._found):
            known = (self._codes, self._weights, self._highest, self._totals)
            how = (row + 1 if self._ordinal else row, self._ordinal, self._factor)
            _differ[_GRID, _THREADS](self.scores[row], *known, *how, *found)
        residuals, weights = zip(*self._found, strict=True)
        return residuals, weights


@cuda.jit(cache=True)
def _add_up(scores: Any, highest: Any, totals: Any) -> None:
    """The highest score of every document, and the sum of e^(score less it)."""
    for i in range(cuda.grid(1), scores.shape[1], cuda.gridsize(1)):
        most, total = scores[0, i], 0.0
        for row in range(1, scores.shape[0]):
            most = max(most, scores[row, i])
        for row in range(scores.shape[0]):
            total += math.exp(scores[row, i] - most)
        highest[i], totals[i] = most, total


@cuda.jit(cache=True)
def _differ(
    scores: Any, codes: Any, weights: Any, highest: Any, totals: Any, wanted: int, ordinal: bool, factor: float,
    residuals: Any, curves: Any,
) -> None:  # fmt: skip
    """Residual and second derivative of every document, for one class, or for reaching one grade."""
    for i in range(cuda.grid(1), scores.size, cuda.gridsize(1)):
        if ordinal:
            chance = 1.0 / (1.0 + math.exp(-min(max(scores[i], -_FARTHEST), _FARTHEST)))
            target = 1.0 if codes[i] >= wanted else 0.0
        else:
            chance = math.exp(scores[i] - highest[i]) / totals[i]
            target = 1.0 if codes[i] == wanted else 0.0
        residuals[i] = (target - chance) * weights[i]
        curves[i] = factor * chance * (1.0 - chance) * weights[i]
