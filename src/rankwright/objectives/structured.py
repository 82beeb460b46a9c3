"""The structured hinge: Σ_q c_q H_q(w), with H_q(w) = max over rankings of (loss − margin), and its cutting planes.

For each query the scores are computed, the oracle gives the most violated ranking as one coefficient per document, and
the coefficients are turned into a plane (ℓ, v) with H_q(w) = ℓ − v·w while the query's rows are still in cache.
Features are divided by ``scale`` on the way, which is standardising without a copy: all coefficients of a query add up
to 0, so means cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from numba.core.types import WrapperAddressProtocol

from rankwright.data.blocks import sizes_to_indptr
from rankwright.measures.base import Oracle
from rankwright.measures.oracles.common import ORACLE, WORK, sort_descending
from rankwright.objectives.products import FASTMATH, add_rows, kernel_form, row_scores

__all__ = ["Planes", "StructuredHinge"]

Array = npt.NDArray[Any]
_TASK_DOCS = 4096  # documents per task of a thread, about


class _FirstClass(WrapperAddressProtocol):
    """A compiled oracle as a value: the pass below is compiled once for all oracles, and cached."""

    def __init__(self, kernel: Any) -> None:
        kernel.compile(ORACLE.args)
        self._compiled = kernel.overloads[ORACLE.args]

    def __wrapper_address__(self) -> int:
        name = self._compiled.fndesc.llvm_cfunc_wrapper_name
        address: int = self._compiled.library.get_pointer_to_function(name)
        return address

    def signature(self) -> Any:
        return ORACLE


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _evaluate(
    X: Any, labels: Any, indptr: Any, blocks: Any, first: int, last: int, weights: Any, inverse: Any, cost: Any,
    oracle: Any, parameters: Any, losses: Any, values: Any, planes: Any, longest: int,
) -> None:  # fmt: skip
    """Loss, value and plane of the blocks ``first`` … ``last − 1``."""
    scores, coef = np.empty(longest), np.empty(longest)
    order, work = np.empty(longest, np.int64), np.empty(WORK * longest + 64)
    for block in range(first, last):
        plane = planes[block]
        for j in range(plane.size):
            plane[j] = 0.0
        losses[block] = values[block] = 0.0
        for q in range(blocks[block], blocks[block + 1]):
            start, stop = indptr[q], indptr[q + 1]
            n = stop - start
            row_scores(X, start, stop, weights, scores)
            sort_descending(scores[:n], order[:n], work)
            loss = oracle(scores[:n], labels[start:stop], order[:n], parameters, coef[:n], work)
            margin = 0.0
            for i in range(n):
                margin += coef[i] * scores[i]
                coef[i] *= cost[q]
            losses[block] += cost[q] * loss
            values[block] += cost[q] * (loss - margin)
            add_rows(X, start, stop, coef, plane)
        for j in range(plane.size):
            plane[j] *= inverse[j]


@dataclass(frozen=True, eq=False)
class Planes:
    """What one pass over the data gives: per block of queries a plane, and the value of the hinge there.

    Attributes
    ----------
    losses : ndarray
        ℓ of each block.
    vectors : ndarray of shape (blocks, features)
        v of each block; overwritten by the next pass.
    values : ndarray
        The block's hinge at the weights of the pass, ℓ − v·w.
    """

    losses: Array
    vectors: Array
    values: Array


@dataclass(eq=False)
class StructuredHinge:
    """The objective of a structured SVM on given data.

    Parameters
    ----------
    X : ndarray or csr_array
        Features.
    labels : ndarray
        Labels as the oracle wants them.
    indptr : ndarray
        Query boundaries; every query must have something to order.
    oracle : Oracle
        The loss.
    cost : ndarray
        Weight c_q of each query.
    scale : ndarray
        What each feature is divided by; inf leaves a feature out.
    blocks : ndarray
        Boundaries of blocks of queries that share a plane.
    threads : int
        Threads for a pass; the result does not depend on it.
    """

    X: Any
    labels: Array
    indptr: Array
    oracle: Oracle
    cost: Array
    scale: Array
    blocks: Array
    threads: int = 1
    _pool: ThreadPoolExecutor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._rows = kernel_form(self.X)
        self._longest = int(np.diff(self.indptr).max())
        self._parameters = self.oracle.parameters(self._longest)
        self._kernel = _FirstClass(self.oracle.kernel)
        self._inverse = 1.0 / self.scale
        n_blocks = len(self.blocks) - 1
        self._planes = Planes(np.empty(n_blocks), np.empty((n_blocks, self.n_features)), np.empty(n_blocks))
        self._tasks = _tasks(self.indptr[self.blocks])
        if self.threads > 1 and len(self._tasks) > 1:
            self._pool = ThreadPoolExecutor(self.threads)

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return len(self.scale)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.blocks) - 1

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        self.cost = self.cost * factor

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data at the weights ``w``."""
        weights = w * self._inverse

        def run(task: tuple[int, int]) -> None:
            _evaluate(
                self._rows, self.labels, self.indptr, self.blocks, task[0], task[1], weights, self._inverse, self.cost,
                self._kernel, self._parameters, self._planes.losses, self._planes.values, self._planes.vectors,
                self._longest,
            )  # fmt: skip

        if self._pool is None:
            run((0, self.n_blocks))
        else:
            list(self._pool.map(run, self._tasks))
        return self._planes

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _tasks(boundaries: Array) -> Sequence[tuple[int, int]]:
    """Runs of blocks of about equal numbers of documents."""
    n_tasks = max(1, int(boundaries[-1]) // _TASK_DOCS)
    cuts = np.unique(np.searchsorted(boundaries, np.linspace(0, boundaries[-1], n_tasks + 1)))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def equal_blocks(n_queries: int, n_blocks: int) -> Array:
    """Boundaries of ``n_blocks`` runs of queries of about equal length."""
    sizes = np.full(n_blocks, n_queries // n_blocks)
    sizes[: n_queries % n_blocks] += 1
    return sizes_to_indptr(sizes)
