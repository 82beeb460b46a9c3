"""Lambda gradients from clicks: every click is a ranking of its own, and weighs by its inverse propensity."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.clicked import Clicked
from rankwright.objectives.lambdas import Lambdas

__all__ = ["ClickLambdas"]

Array = npt.NDArray[Any]


class ClickLambdas:
    """Lambda gradients of a measure, summed over clicks.

    Parameters
    ----------
    labels, indptr : ndarray
        Labels and page boundaries; a label of 2 counts as two clicks.
    measure, truncation, threads, **settings
        As for :class:`Lambdas`, for pages with one click.
    query_weights : ndarray
        Factors for the gradients of each page.
    winning : ndarray
        A factor of every document for its clicks.
    """

    def __init__(
        self,
        labels: Array,
        indptr: Array,
        measure: Any,
        truncation: int | None = None,
        threads: int = 1,
        *,
        query_weights: Array,
        winning: Array,
        **settings: Any,
    ) -> None:
        apart = Clicked.of(labels, indptr)
        weights = query_weights[apart.query] * (labels * winning)[apart.clicks]
        self._rows, self._n_docs = apart.rows, len(labels)
        self._lambdas = Lambdas(
            apart.labels, apart.indptr, measure, truncation, threads, query_weights=weights, **settings
        )

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """The residual of every document, and its second derivative, at the given scores."""
        residuals, weights = self._lambdas.evaluate(np.asarray(scores)[self._rows])
        return np.bincount(self._rows, residuals, self._n_docs), np.bincount(self._rows, weights, self._n_docs)

    def close(self) -> None:
        """Shut down the threads."""
        self._lambdas.close()
