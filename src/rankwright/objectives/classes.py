"""Class probabilities for McRank: residuals of grades, as classes or as thresholds.

    softmax   Pr(c) = e^F_c / Σ e^F      residual of class c: [z = c] − Pr(c)
    ordinal   Pr(z ≥ c) = 1/(1 + e^−F_c)   residual of threshold c: [z ≥ c] − Pr(z ≥ c)

Scores F have one row for each class, or each threshold above the lowest grade.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Grades"]

Array = npt.NDArray[Any]
_LEAST_SHARE = 1e-6


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
    """

    def __init__(self, labels: Array, weights: Array, link: str) -> None:
        self.grades, codes = np.unique(labels, return_inverse=True)
        self.link, self._weights = link, weights
        numbers = np.arange(len(self.grades))[:, None]
        self._targets = (codes >= numbers[1:] if link == "ordinal" else codes == numbers).astype(np.float64)

    @property
    def starts(self) -> Array:
        """Scores that give every class its share in the data."""
        shares = np.clip((self._targets * self._weights).sum(axis=1) / self._weights.sum(), _LEAST_SHARE, 1.0)
        if self.link == "softmax":
            return np.log(shares)
        shares = np.minimum(shares, 1.0 - _LEAST_SHARE)
        return np.asarray(np.log(shares / (1.0 - shares)))

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """Residuals and second derivatives, one row for each row of ``scores``."""
        if self.link == "ordinal":
            chances = 1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0)))
            factor = 1.0
        else:
            powers = np.exp(scores - scores.max(axis=0))
            chances = powers / powers.sum(axis=0)
            factor = len(self.grades) / max(len(self.grades) - 1, 1)  # for classes whose scores sum to a constant
        return (self._targets - chances) * self._weights, factor * chances * (1.0 - chances) * self._weights
