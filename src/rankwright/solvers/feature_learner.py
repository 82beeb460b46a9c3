"""One feature a round: the one that best fits the residuals by least squares, with a share of its coefficient.

For residuals ỹ and features h_j (standardised: h = (x − mean)/scale), weighted by the documents' weights μ:

    β_j = Σ ỹ h_j / Σ μ h_j²,   the error falls by (Σ ỹ h_j)² / Σ μ h_j²,   the scores change by rate · β_j · h_j

The residuals (which already include μ) sum to 0 in every query, so means cancel in Σ ỹ h_j; a constant moves no
document, so the raw feature is added to the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from rankwright.models.products import add_rows

__all__ = ["FeatureLearner"]

Array = npt.NDArray[Any]
_TASK_ROWS = 8192
_TASK_VALUES = 1 << 18


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
    ) -> None:
        self.rounds: list[tuple[int, float]] = []  # feature, and the change of its weight
        self._X, self._X_valid = _by_columns(X), _by_columns(X_valid)
        self._scale, self._rate = scale, rate
        self._squares = _squares(X, mean, scale, np.ones(X.shape[0]) if weights is None else weights)
        self._tasks = _tasks(self._X)
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
        _add_column(self._X, best, rise, scores)

    def add_last(self, scores: Array) -> None:
        """Add the last feature to the scores of the validation data."""
        _add_column(self._X_valid, *self.rounds[-1], scores)

    def coefficients(self, n_rounds: int) -> Array:
        """The weights of the features after a number of rounds."""
        coef = np.zeros(len(self._scale))
        for feature, rise in self.rounds[:n_rounds]:
            coef[feature] += rise
        return coef

    def _products(self, residuals: Array) -> Array:
        """Σ ỹ x for every feature."""
        each: Callable[..., Any] = map if self._pool is None else self._pool.map
        if not sparse.issparse(self._X):
            total = np.zeros(self._X.shape[1])
            for part in each(lambda task: _dense_sums(self._X, *task, residuals), self._tasks):
                total += part
            return total
        parts = (self._X.data, self._X.indices, self._X.indptr)
        return np.concatenate(list(each(lambda task: _column_sums(*parts, *task, residuals), self._tasks)))

    def close(self) -> None:
        """Shut down the thread pool."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _by_columns(X: Any) -> Any:
    return X.tocsc() if sparse.issparse(X) else X


def _tasks(X: Any) -> list[tuple[int, int]]:
    """Runs of rows, or of columns with about equal numbers of values if X is sparse."""
    if sparse.issparse(X):
        n_tasks = max(1, X.nnz // _TASK_VALUES)
        cuts = np.unique(np.searchsorted(X.indptr, np.linspace(0, X.nnz, n_tasks + 1)[1:-1]))
        cuts = np.unique(np.concatenate([[0], cuts, [X.shape[1]]]))
    else:
        cuts = np.append(np.arange(0, X.shape[0], _TASK_ROWS), X.shape[0])
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


@njit(cache=True, nogil=True)
def _dense_sums(X: Any, start: int, stop: int, residuals: Any) -> Any:
    total = np.zeros(X.shape[1])
    add_rows(X, start, stop, residuals[start:stop], total)
    return total


@njit(cache=True, nogil=True)
def _column_sums(values: Any, rows: Any, columns: Any, first: int, last: int, residuals: Any) -> Any:
    total = np.zeros(last - first)
    for column in range(first, last):
        for k in range(columns[column], columns[column + 1]):
            total[column - first] += values[k] * residuals[rows[k]]
    return total


def _add_column(X: Any, column: int, factor: float, scores: Array) -> None:
    """``scores += factor · X[:, column]``."""
    if sparse.issparse(X):
        here = slice(X.indptr[column], X.indptr[column + 1])
        scores[X.indices[here]] += factor * X.data[here].astype(np.float64)
    else:
        scores += factor * X[:, column].astype(np.float64)


def _squares(X: Any, mean: Array, scale: Array, weights: Array) -> Array:
    """Σ μ h² for every feature."""
    if sparse.issparse(X):
        row = np.repeat(weights, np.diff(X.indptr))
        shifted = X.data / scale[X.indices] * (X.data - 2.0 * mean[X.indices]) / scale[X.indices]
        stored = np.bincount(X.indices, row * shifted, X.shape[1])
        return np.maximum(stored + weights.sum() * (mean / scale) ** 2, 0.0)
    total = np.zeros(X.shape[1])
    step = max(1, _TASK_VALUES // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        h = (X[start : start + step] - mean) / scale
        total += np.einsum("i,ij,ij->j", weights[start : start + step], h, h)
    return total
