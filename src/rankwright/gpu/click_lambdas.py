"""Lambda gradients from clicks on the card: those of `rankwright.objectives.click_lambdas`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.clicked import Clicked
from rankwright.gpu import card
from rankwright.gpu.lambdas import CardLambdas

__all__ = ["CardClickLambdas"]

Array = npt.NDArray[Any]
_THREADS, _GRID = (4, 2) if card.is_simulated() else (256, 1024)


class CardClickLambdas:
    """Lambda gradients of a measure, summed over clicks; arguments as for `ClickLambdas`."""

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
        self._lambdas = CardLambdas(
            apart.labels, apart.indptr, measure, truncation, threads, query_weights=weights, **settings
        )
        order = np.argsort(apart.rows, kind="stable")  # so that sums over clicks have the order of the CPU's
        self._rows = card.upload(apart.rows)
        self._order, self._starts = card.upload(order), card.upload(_bounds(apart.rows, len(labels)))
        self._scores = card.zeros(len(apart.rows), np.float64)
        self._gradients = (card.zeros(len(labels), np.float64), card.zeros(len(labels), np.float64))

    def evaluate(self, scores: Any) -> tuple[Any, Any]:
        """The residual of every document, and its second derivative, at the given scores; all on the card.

        The next call overwrites them.
        """
        _take[_GRID, _THREADS](scores, self._rows, self._scores)
        for of_clicks, of_docs in zip(self._lambdas.evaluate(self._scores), self._gradients, strict=True):
            _add[_GRID, _THREADS](of_clicks, self._order, self._starts, of_docs)
        return self._gradients

    def close(self) -> None:
        """Forget the scores; what else is on the card goes with this object."""
        self._lambdas.close()


def _bounds(rows: Array, n_docs: int) -> Array:
    """Where the rows of every document begin, once they are sorted."""
    return sizes_to_indptr(np.bincount(rows, minlength=n_docs))


@cuda.jit(cache=True)
def _take(scores: Any, rows: Any, found: Any) -> None:
    for k in range(cuda.grid(1), rows.size, cuda.gridsize(1)):
        found[k] = scores[rows[k]]


@cuda.jit(cache=True)
def _add(values: Any, order: Any, starts: Any, found: Any) -> None:
    for doc in range(cuda.grid(1), found.size, cuda.gridsize(1)):
        total = 0.0
        for at in range(starts[doc], starts[doc + 1]):
            total += values[order[at]]
        found[doc] = total
