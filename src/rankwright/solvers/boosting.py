"""Gradient boosting: rounds of fitting a tree (or one feature) to residuals, with the best round kept.

The solver knows neither features nor labels: an objective turns scores into residuals and second derivatives, a learner
turns these into a change of the scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Boosted", "Boosting", "Learner", "Round", "boost"]

Array = npt.NDArray[Any]


class Learner(Protocol):
    """Fits residuals round by round, and remembers the fits."""

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Fit one more round and add it to ``scores``."""

    def add_last(self, scores: Array) -> None:
        """Add the last round to the scores of the validation data."""


@dataclass(frozen=True)
class Round:
    """One row of the path.

    Attributes
    ----------
    round : int
        From 1.
    value : float
        The measure on validation data; NaN if there is none.
    seconds : float
        Wall time since the start.
    """

    round: int
    value: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Boosted:
    """The result: rounds to keep, path, and whether Ctrl-C ended training."""

    n_rounds: int
    path: tuple[Round, ...]
    interrupted: bool = False


@dataclass(eq=False)
class Boosting:
    """Boosting that goes on round by round.

    Attributes
    ----------
    objective : object
        ``residuals, weights = objective.evaluate(scores)``.
    learner : Learner
        Fits the residuals.
    scores : ndarray
        Scores to start from, 0 or those of a background model; they change in place.
    valid_scores : ndarray or None
        Validation scores to start from; they change too.
    """

    objective: Any
    learner: Learner
    scores: Array
    valid_scores: Array | None = None

    def step(self) -> None:
        """One more round."""
        residuals, weights = self.objective.evaluate(self.scores)
        self.learner.fit(residuals, weights, self.scores)
        if self.valid_scores is not None:
            self.learner.add_last(self.valid_scores)


def boost(
    objective: Any,
    learner: Learner,
    scores: Array,
    *,
    n_rounds: int,
    valid: Callable[[Array], float] | None = None,
    valid_scores: Array | None = None,
    patience: int | None = None,
    callback: Callable[[Round], Any] | None = None,
) -> Boosted:
    """Boost from ``scores``, which change in place.

    Parameters
    ----------
    objective, learner, scores, valid_scores
        As for :class:`Boosting`.
    n_rounds : int
        Maximum number of rounds.
    valid : callable, optional
        The measure of validation scores; the rounds up to its highest value are kept. That may be none, unless
        ``valid_scores`` are all equal: their value would be that of the order in the file.
    patience : int, optional
        Stop after this many rounds without a higher value.
    callback : callable, optional
        Called after every round; True stops.
    """
    began = time.perf_counter()
    path: list[Round] = []
    best, best_value = n_rounds, -np.inf
    if valid is not None:
        assert valid_scores is not None
        same = bool((valid_scores == valid_scores[..., :1]).all())
        best, best_value = 0, -np.inf if same else valid(valid_scores)
    boosting = Boosting(objective, learner, scores, None if valid is None else valid_scores)
    interrupted = False
    try:
        for number in range(1, n_rounds + 1):
            boosting.step()
            value = float("nan") if valid is None or valid_scores is None else valid(valid_scores)
            path.append(Round(number, value, time.perf_counter() - began))
            if value > best_value:
                best, best_value = number, value
            stop = callback(path[-1]) if callback is not None else False
            if stop is True or (valid is not None and patience is not None and number - best >= patience):
                break
    except KeyboardInterrupt:
        interrupted = True
    return Boosted(min(best, len(path)), tuple(path), interrupted)
