"""One feature a round: the one that best fits the residuals by least squares, with a share of its coefficient.

For residuals ỹ and features h_j (standardised: h = (x − mean)/scale), weighted by the documents' weights μ:

    β_j = Σ ỹ h_j / Σ μ h_j²,   the error falls by (Σ ỹ h_j)² / Σ μ h_j²,   the scores change by rate · β_j · h_j

The residuals (which already include μ) sum to 0 in every query, so means cancel in Σ ỹ h_j; a constant moves no
document, so the raw feature is added to the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from rankwright.models.products import add_listed_rows, kernel_form

Array = npt.NDArray[Any]
_TASK_ROWS = 8192
_CHUNK_VALUES = 1 << 16  # in float64 at a time


class FeatureLearner:
    """Features for the rounds of boosting.

    Parameters
    ----------
    X : ndarray or csr_array
        Features.
    mean, scale : ndarray
        Features are used as (x − mean) / scale; a scale of inf leaves a feature out.
    rate : float
        Share of the coefficient to add.
    weights : ndarray, optional
        Weights of the documents; 1 by default.
    X_valid : ndarray or csr_array, optional
        Features of the validation data.
    threads : int
        The result does not depend on it.
    rows, rows_valid : ndarray, optional
        The rows of X and of X_valid to use, in the order of residuals and scores; by default all.
    """

    def __init__(
        self,
        X: Any,
        mean: Array,
        scale: Array,
        *,
        rate: float,
        weights: Array | None = None,
        X_valid: Any = None,
        threads: int = 1,
        rows: Array | None = None,
        rows_valid: Array | None = None,
    ) -> None:
        self.rounds: list[tuple[int, float]] = []  # feature, and the change of its weight
        self._X, self._valid = X, (X_valid, rows_valid)
        self._scale, self._rate, self._rows = scale, rate, np.arange(X.shape[0]) if rows is None else rows
        self._own = (X, rows)
        n = len(self._rows)
        self._squares = _squares(X, self._rows, mean, scale, np.ones(n) if weights is None else weights)
        cuts = [*range(0, n, _TASK_ROWS), n]
        self._tasks = list(pairwise(cuts))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(self._tasks) > 1 else None

    def fit(self, residuals: Array, weights: Array, scores: Array) -> None:
        """Choose a feature and add it to ``scores``."""
        sums = self._products(residuals) / self._scale
        gains = np.divide(sums**2, self._squares, out=np.zeros_like(sums), where=self._squares > 0)
        best = int(np.argmax(gains))
        rise = 0.0
        if gains[best] > 0:
            rise = self._rate * float(sums[best] / self._squares[best] / self._scale[best])
        self.rounds.append((best, rise))
        _add_column(*self._own, best, rise, scores)

    def add_last(self, scores: Array) -> None:
        """Add the last feature to the scores of the validation data."""
        _add_column(*self._valid, *self.rounds[-1], scores)

    def coefficients(self, n_rounds: int) -> Array:
        """The weights of the features after a number of rounds."""
        coef = np.zeros(len(self._scale))
        for feature, rise in self.rounds[:n_rounds]:
            coef[feature] += rise
        return coef

    def _products(self, residuals: Array) -> Array:
        """Σ ỹ x for every feature."""
        each: Callable[..., Any] = map if self._pool is None else self._pool.map
        form, total = kernel_form(self._X), np.zeros(self._X.shape[1])

        def add(task: tuple[int, int]) -> Array:
            sums = np.zeros(self._X.shape[1])
            _sums(form, self._rows[slice(*task)], residuals[slice(*task)], sums)
            return sums

        for part in each(add, self._tasks):
            total += part
        return total

    def close(self) -> None:
        """Shut down the thread pool."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


@njit(cache=True, nogil=True)
def _sums(X: Any, rows: Any, residuals: Any, total: Any) -> None:
    add_listed_rows(X, rows, residuals, total)


def _add_column(X: Any, rows: Array | None, column: int, factor: float, scores: Array) -> None:
    """``scores += factor · X[rows, column]``."""
    if sparse.issparse(X):
        _add_stored(
            X.data, X.indices, X.indptr, np.arange(X.shape[0]) if rows is None else rows, column, factor, scores
        )
    else:
        scores += factor * (X[:, column] if rows is None else X[rows, column]).astype(np.float64)


@njit(cache=True, nogil=True)
def _add_stored(
    values: Any, columns: Any, bounds: Any, rows: Any, column: int, factor: float, scores: Any
) -> None:  # fmt: skip
    for i in range(rows.size):
        low, high = bounds[rows[i]], bounds[rows[i] + 1]
        last = high
        while low < high:
            middle = (low + high) // 2
            if columns[middle] < column:
                low = middle + 1
            else:
                high = middle
        if low < last and columns[low] == column:
            scores[i] += factor * values[low]


def _squares(X: Any, rows: Array, mean: Array, scale: Array, weights: Array) -> Array:
    """Σ μ h² for every feature."""
    total = np.zeros(X.shape[1])
    if sparse.issparse(X):
        _add_squares(X.data, X.indices, X.indptr, rows, mean, scale, weights, total)
        return np.maximum(total + weights.sum() * (mean / scale) ** 2, 0.0)
    step = max(1, _CHUNK_VALUES // max(1, X.shape[1]))
    for start in range(0, len(rows), step):
        h = (X[rows[start : start + step]] - mean) / scale
        total += np.einsum("i,ij,ij->j", weights[start : start + step], h, h)
    return total


@njit(cache=True, nogil=True)
def _add_squares(
    values: Any, columns: Any, bounds: Any, rows: Any, mean: Any, scale: Any, weights: Any, total: Any
) -> None:  # fmt: skip
    """Add μ (h² − (mean/scale)²) of every stored value."""
    for i in range(rows.size):
        for at in range(bounds[rows[i]], bounds[rows[i] + 1]):
            j, value = columns[at], float(values[at])
            total[j] += weights[i] * (value / scale[j] * (value - 2.0 * mean[j]) / scale[j])
