"""Lambda gradients from clicks: every click is a ranking of its own, and weighs by its inverse propensity.

Kernels know nothing of it: the gradients are those of more queries (:mod:`rankwright.data.clicked` says why), summed by
document.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.clicked import Clicked

Array = npt.NDArray[Any]


class ClickLambdas:
    """Lambda gradients of a measure, summed over clicks, wherever they are computed.

    Parameters
    ----------
    kind : type
        :class:`~rankwright.objectives.lambdas.Lambdas`, or the same on a GPU.
    labels, indptr : ndarray
        Labels and page boundaries; a label of 2 counts as two clicks.
    *given, **settings
        As for the kind, for pages with one click.
    query_weights : ndarray
        Factors for the gradients of each page.
    winning : ndarray
        A factor of every document for its clicks.
    """

    def __init__(
        self,
        kind: Any,
        labels: Array,
        indptr: Array,
        *given: Any,
        query_weights: Array,
        winning: Array,
        **settings: Any,
    ) -> None:
        apart = Clicked.of(labels, indptr)
        weights = query_weights[apart.query] * (np.asarray(labels) * winning)[apart.clicks]
        self._copies = kind.copies(apart.rows, len(labels))
        self._lambdas = kind(apart.labels, apart.indptr, *given, query_weights=weights, **settings)

    def evaluate(self, scores: Any) -> tuple[Any, ...]:
        """The residual of every document, and its second derivative, where the scores are.

        On a GPU the next call overwrites them.
        """
        sums: tuple[Any, ...] = self._copies.sums(self._lambdas.evaluate(self._copies.take(scores)))
        return sums

    def close(self) -> None:
        """Shut down the threads, and forget the scores."""
        self._lambdas.close()
