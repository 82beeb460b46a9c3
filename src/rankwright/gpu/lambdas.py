"""Lambda gradients of a measure on the card: scores, residuals and second derivatives stay there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data.blocks import as_bounds, sizes_to_indptr
from rankwright.data.threads import Team
from rankwright.gpu import card
from rankwright.gpu.lambda_kernels import OF_DOCUMENT, PLACES, ROWS, SHORT, lambda_kernels
from rankwright.gpu.recorded import Recorded
from rankwright.measures import Measure
from rankwright.measures.forms import STATE
from rankwright.objectives.lambdas import LambdaSetup

Array = npt.NDArray[Any]
_FEW, _MANY = 128, 256  # threads: more would have too few registers each
_BLOCKS = 16  # of few threads, for every multiprocessor
_THREADS, _GRID = (4, 2) if card.is_simulated() else (256, 1024)
_ROOM = 1 << 32  # bytes of working memory, at most
OF_GRADIENT = 64
"""Bytes of the card that the gradients of a document take, working memory apart."""


@dataclass(frozen=True, eq=False)
class _Group:
    """Short or long queries, and the working memory of the blocks that share them."""

    is_short: bool
    queries: Any
    blocks: int
    threads: int
    space: tuple[Any, ...]


class CardCopies:
    """Rows that are copies of documents: their scores, and sums over the copies of each document, on the card."""

    def __init__(self, rows: Array, n_docs: int) -> None:
        order = np.argsort(rows, kind="stable")  # so that sums have the order of the CPU's
        starts = sizes_to_indptr(np.bincount(rows, minlength=n_docs))
        self._rows, self._order, self._starts = card.upload(rows), card.upload(order), card.upload(starts)
        self._scores = card.zeros(len(rows), np.float64)
        self._sums = (card.zeros(n_docs, np.float64), card.zeros(n_docs, np.float64))

    def take(self, scores: Any) -> Any:
        """The scores of the rows; the next call overwrites them."""
        _take_copies[_GRID, _THREADS](scores, self._rows, self._scores)
        return self._scores

    def sums(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """Sums over the rows of each document; the next call overwrites them."""
        for of_rows, of_docs in zip(gradients, self._sums, strict=True):
            _sum_copies[_GRID, _THREADS](of_rows, self._order, self._starts, of_docs)
        return self._sums


@cuda.jit(cache=True)
def _take_copies(scores: Any, rows: Any, found: Any) -> None:
    for k in range(cuda.grid(1), rows.size, cuda.gridsize(1)):
        found[k] = scores[rows[k]]


@cuda.jit(cache=True)
def _sum_copies(values: Any, order: Any, starts: Any, found: Any) -> None:
    for doc in range(cuda.grid(1), found.size, cuda.gridsize(1)):
        total = 0.0
        for at in range(starts[doc], starts[doc + 1]):
            total += values[order[at]]
        found[doc] = total


class CardLambdas:
    """Lambda gradients of a measure on given data; arguments as for :class:`rankwright.objectives.lambdas.Lambdas`.

    The measure has compiled changes. From the same scores the gradients are those of the CPU but for rounding.
    """

    copies = CardCopies

    def __init__(
        self,
        labels: Array,
        indptr: Array,
        measure: Measure,
        truncation: int | None = None,
        threads: int = 1,
        *,
        query_weights: Array | None = None,
        nearness: float = 0.0,
        normalize: bool = False,
    ) -> None:
        indptr, swaps = as_bounds(indptr), measure.swaps()
        assert swaps is not None
        positions = measure.position_sum()
        is_sum = positions is not None and positions.credits(np.arange(1)) is None
        self._kernels = lambda_kernels(*((None, None) if is_sum else (swaps.changes, swaps.prepare)))
        team = Team(threads)
        try:
            shared = LambdaSetup.of(labels, indptr, measure, swaps, truncation, nearness, normalize, None, team)
        finally:
            team.close()
        sizes = np.diff(indptr)
        weights = np.ones(len(sizes)) if query_weights is None else np.asarray(query_weights, np.float64)
        arrays = (shared.docs, indptr, shared.worth, shared.highest, shared.norms, weights, np.array(shared.parameters))
        self._data = tuple(card.upload(array) for array in arrays)
        self._factors = (shared.truncation, *shared.factors)
        self._groups = _groups(sizes, 0 if is_sum else ROWS)
        self._gradients = (card.zeros(len(labels), np.float64), card.zeros(len(labels), np.float64))
        self._launches = Recorded(partial(_launch, self._kernels, self._groups))

    def evaluate(self, scores: Any) -> tuple[Any, Any]:
        """The residual of every document, and its second derivative, at the given scores; all on the card.

        The next call overwrites them.
        """
        self._launches(scores, self._data, self._factors, self._gradients)
        return self._gradients

    def close(self) -> None:
        """Forget the scores; what else is on the card goes with this object."""
        self._launches.close()


def _launch(
    kernels: Any, groups: list[_Group], stream: Any, scores: Any, data: Any, factors: Any, gradients: Any
) -> None:
    for group in groups:
        kernel = kernels[0 if group.is_short else 1]
        given = (group.queries, group.blocks, scores, data, factors, *group.space, *gradients)
        kernel[card.blocks(group.blocks), group.threads, stream](*given)


class HostedLambdas:
    """Gradients that the CPU computes, of measures without compiled changes, for scores that are on the card."""

    def __init__(self, lambdas: Any) -> None:
        self._lambdas, self._gradients = lambdas, ()

    def evaluate(self, scores: Any) -> tuple[Any, ...]:
        """The residual of every document, and its second derivative, at the given scores; the next call overwrites."""
        found = self._lambdas.evaluate(scores.copy_to_host())
        places = self._gradients or (None, None)
        self._gradients = tuple(card.upload(own, place) for own, place in zip(found, places, strict=True))
        return self._gradients

    def close(self) -> None:
        """Shut down the threads."""
        self._lambdas.close()


class DownloadedLambdas:
    """Gradients that the card computes, for scores that are here."""

    def __init__(self, lambdas: Any) -> None:
        self._lambdas, self._scores = lambdas, None

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """The residual of every document, and its second derivative, at the given scores."""
        self._scores = card.upload(scores, self._scores)
        residuals, curves = self._lambdas.evaluate(self._scores)
        return residuals.copy_to_host(), curves.copy_to_host()

    def close(self) -> None:
        """Forget the scores."""
        self._lambdas.close()


def _groups(sizes: Array, rows: int) -> list[_Group]:
    """Short queries and long ones, the longest first; ``rows`` is how many changes of a document are held."""
    order = np.argsort(-sizes, kind="stable").astype(np.int32)
    order = order[sizes[order] > 0]
    few, many = (32, 32) if card.is_simulated() else (_FEW, _MANY)
    found = []
    for is_short in (False, True):
        some, threads = order[(sizes[order] <= SHORT) == is_short], few if is_short else many
        if not len(some):
            continue
        longest = int(sizes[some[0]])
        each = 8 * longest * (OF_DOCUMENT + PLACES + rows) + 8 * STATE * (longest + 1)
        most = _BLOCKS * card.multiprocessors() * few // threads
        blocks = max(1, min(len(some), most, min(_ROOM, card.free_bytes() // 2) // each))
        own = 1 if is_short else blocks
        changes = (blocks, longest) if rows else (1, 1)
        space = (
            cuda.device_array((own, PLACES, longest), np.int32),
            cuda.device_array((own, OF_DOCUMENT, longest), np.float64),
            cuda.device_array((changes[0], STATE, changes[1] + 1), np.float64),
            cuda.device_array((*changes, max(rows, 1)), np.float64),
        )
        found.append(_Group(is_short, card.upload(some), blocks, threads, space))
    return found
