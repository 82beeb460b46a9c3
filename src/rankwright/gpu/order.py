"""The order of documents and queries by content, on the card: that of `rankwright.objectives.canonical`."""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float64

from rankwright.gpu.query import NEAR, arranged, slices
from rankwright.gpu.together import add_up

__all__ = ["add_labels", "count_up", "gather_docs", "gather_labels", "list_rows", "order_queries"]


@cuda.jit(cache=True)
def list_rows(starts: Any, indptr: Any, rows: Any) -> None:
    """The rows of X that hold the documents, query after query; a block each."""
    q = cuda.blockIdx.x
    if q >= starts.size:
        return
    for i in range(cuda.threadIdx.x, indptr[q + 1] - indptr[q], cuda.blockDim.x):
        rows[indptr[q] + i] = starts[q] + i


@cuda.jit(cache=True)
def count_up(numbers: Any) -> None:
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        numbers[i] = i


@cuda.jit(cache=True)
def add_labels(labels: Any, factor: float, keys: Any) -> None:
    """Add labels times a factor to the keys of documents."""
    for i in range(cuda.grid(1), keys.size, cuda.gridsize(1)):
        keys[i] += factor * labels[i]


@cuda.jit(cache=True)
def order_queries(queries: Any, indptr: Any, keys: Any, order: Any, means: Any, scratch: Any, room: int) -> None:
    """The documents of every query by falling keys, and the mean sine of these."""
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    near = shared[: NEAR if scratch.size else 0]
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        sorted_keys, places, _, _, _, _, part, _ = slices(space, n)
        arranged(n, start, keys, sorted_keys, places, near)
        total = 0.0
        for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            order[start + i] = places[i]
            total += math.sin(sorted_keys[i]) / n  # as the CPU has it
        total = add_up(total, part)
        if cuda.threadIdx.x == 0:
            means[q] = total
        cuda.syncthreads()


@cuda.jit(cache=True)
def gather_docs(order: Any, indptr: Any, starts: Any, queries: Any, moved: Any, docs: Any, rows: Any) -> None:
    """Documents and rows in the order of ``queries``, a block each; query q starts at row ``starts[q]``."""
    at = cuda.blockIdx.x
    if at >= queries.size:
        return
    q = queries[at]
    for i in range(cuda.threadIdx.x, indptr[q + 1] - indptr[q], cuda.blockDim.x):
        place = order[indptr[q] + i]
        docs[moved[at] + i] = indptr[q] + place
        rows[moved[at] + i] = starts[q] + place


@cuda.jit(cache=True)
def gather_labels(labels: Any, docs: Any, gathered: Any) -> None:
    """Labels of documents in another order."""
    for i in range(cuda.grid(1), docs.size, cuda.gridsize(1)):
        gathered[i] = labels[docs[i]]
