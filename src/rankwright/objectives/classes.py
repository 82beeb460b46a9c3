"""Class probabilities for McRank: residuals of grades, as classes or as thresholds.

    softmax   Pr(c) = e^F_c / Σ e^F      residual of class c: [z = c] − Pr(c)
    ordinal   Pr(z ≥ c) = 1/(1 + e^−F_c)   residual of threshold c: [z ≥ c] − Pr(z ≥ c)

Scores F have one row for each class, or each threshold above the lowest grade.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrays that are computed when they are asked for.

    Attributes
    ----------
    row : callable
        The array of a number from 0.
    n : int
        How many there are.
    """

    row: Callable[[int], Array]
    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> Array:
        if not 0 <= number < self.n:
            raise IndexError(number)
        return self.row(number)


class Grades:
    """Residuals and second derivatives of the log-likelihood of the grades.

    Parameters
    ----------
    labels : ndarray
        Labels.
    weights : ndarray
        Weight of each document.
    link : {"softmax", "ordinal"}
        See above.

    Attributes
    ----------
    grades : ndarray
        The different labels, ascending.
    codes : ndarray of int
        The place of each document's label among them.
    factor : float
        For second derivatives: of classes, whose scores sum to a constant.
    """

    def __init__(self, labels: Array, weights: Array, link: str) -> None:
        self.grades, codes = np.unique(labels, return_inverse=True)
        self.link, self.weights = link, weights
        self.codes = codes.astype(np.min_scalar_type(len(self.grades)))
        self.factor = 1.0 if link == "ordinal" else len(self.grades) / max(len(self.grades) - 1, 1)

    def target(self, row: int) -> Array:
        """Which documents are of a class, or reach a threshold."""
        return np.asarray(self.codes >= row + 1 if self.link == "ordinal" else self.codes == row)

    @property
    def starts(self) -> Array:
        """Scores that give every class its share in the data."""
        n_rows = len(self.grades) - (self.link == "ordinal")
        sums = np.array([np.where(self.target(row), self.weights, 0.0).sum() for row in range(n_rows)])
        shares = np.clip(sums / self.weights.sum(), _LEAST_SHARE, 1.0)
        if self.link == "softmax":
            return np.log(shares)
        shares = np.minimum(shares, 1.0 - _LEAST_SHARE)
        return np.asarray(np.log(shares / (1.0 - shares)))

    def evaluate(self, scores: Array) -> tuple[Rows, Rows]:
        """Residuals and second derivatives, one row for each row of ``scores``, computed when it is asked for.

        A row of ``scores`` must not change before both have been asked for.
        """
        if self.link == "ordinal":

            def chances(row: int) -> Array:
                return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores[row], -500.0, 500.0))))

        else:
            highest, total = scores.max(axis=0), np.zeros(scores.shape[1])
            for row in scores:
                total += np.exp(row - highest)

            def chances(row: int) -> Array:
                return np.asarray(np.exp(scores[row] - highest) / total)

        def weight(row: int) -> Array:
            chance = chances(row)
            return np.asarray(self.factor * chance * (1.0 - chance) * self.weights)

        n_rows = len(scores)
        return Rows(lambda row: (self.target(row) - chances(row)) * self.weights, n_rows), Rows(weight, n_rows)
