"""The start and end of every oracle on the card: a query in score order, and its coefficients, loss and hinge.

A block of threads has a query at a time. Its arrays lie one after the other in ``space``: shared memory, or for long
queries a part of the card's memory.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float64

from rankwright.gpu.card import is_simulated
from rankwright.gpu.together import add_up, padded, running, sort, whole

__all__ = ["NEAR", "arranged", "each_query", "goods_first", "room_for", "slices"]

NEAR = 8 if is_simulated() else 4096
"""Numbers of 8 bytes in shared memory that sorting takes, of queries that are in the memory of the card."""


def room_for(n: int, threads: int, further: int = 0) -> int:
    """8-byte words that a query of n documents needs."""
    return 2 * (1 << max(0, n - 1).bit_length()) + 4 * (n + 1) + 2 * threads + further


@cuda.jit(device=True, inline="always")  # arrays cannot be returned
def slices(space: Any, n: int) -> Any:
    """Two arrays of a padded length, four of n + 1, a word or two per thread, and the remainder."""
    size, threads = padded(n), cuda.blockDim.x
    first, length = 2 * size, n + 1
    keys, places = space[:size], whole(space[size:first])
    a, b = space[first : first + length], space[first + length : first + 2 * length]
    c, d = space[first + 2 * length : first + 3 * length], space[first + 3 * length : first + 4 * length]
    last = first + 4 * length
    return keys, places, a, b, c, d, space[last : last + 2 * threads], space[last + 2 * threads :]


@cuda.jit(device=True)
def arranged(n: int, start: int, scores: Any, keys: Any, places: Any, near: Any) -> None:
    """Sort the scores of a query, highest first, ties in input order; ``near`` as for `sort`."""
    size = padded(n)
    for i in range(cuda.threadIdx.x, size, cuda.blockDim.x):
        keys[i] = scores[start + i] if i < n else -float("inf")
        places[i] = i
    cuda.syncthreads()
    sort(keys, places, size, near)


@cuda.jit(device=True)
def goods_first(
    n: int, start: int, labels: Any, keys: Any, places: Any, ordered: Any, which: Any, others: Any, counts: Any,
    part: Any,
) -> int:  # fmt: skip
    """Good documents (label above 0), then bad ones, each in score order; how many goods.

    For each: its place in the query, its score less the highest one, and how many of the other kind are above it.
    """
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for i in range(t, n, threads):
        counts[i] = 1 if labels[start + places[i]] > 0.0 else 0
    cuda.syncthreads()
    running(counts, n, whole(part))
    n_good = counts[n - 1]
    for i in range(t, n, threads):
        goods = counts[i]
        is_good = labels[start + places[i]] > 0.0
        at = goods - 1 if is_good else n_good + i - goods
        ordered[at] = keys[i] - keys[0]
        which[at] = places[i]
        others[at] = i + 1 - goods if is_good else goods
    cuda.syncthreads()
    return n_good


@cuda.jit(device=True)
def clear(n: int, start: int, coef: Any) -> None:
    """Zero coefficients: a query that does not count."""
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        coef[start + i] = 0.0


@cuda.jit(device=True)
def finish(
    q: int, n: int, start: int, loss: float, scores: Any, cost: float, added: Any, coef: Any, losses: Any, values: Any,
    part: Any,
) -> None:  # fmt: skip
    """Loss and hinge of a query; its coefficients, plus ``added``, times its cost."""
    cuda.syncthreads()
    margin = 0.0
    for i in range(start + cuda.threadIdx.x, start + n, cuda.blockDim.x):
        coefficient = coef[i]
        if added.size > 0:
            coefficient += added[i]
        margin += coefficient * scores[i]
        coef[i] = coefficient * cost
    margin = add_up(margin, part)
    if cuda.threadIdx.x == 0:
        losses[q] = loss
        values[q] = loss - margin
    cuda.syncthreads()


@cuda.jit(device=True)
def each_query(oracle: Any, queries: Any, data: Any, results: Any, scratch: Any, room: int) -> None:
    """Run an oracle on a block's queries, one after the other; numba compiles this loop for each oracle.

    Parameters
    ----------
    oracle : device function
        As in `rankwright.gpu.oracles`; its ``room`` are the arrays of `slices` from the third on, and what sorting
        takes.
    queries : device array
        Their numbers.
    data : tuple
        Query boundaries, scores, labels, parameters, costs, and coefficients to add, or none.
    found : tuple
        Where coefficients of documents go, and losses and hinges of queries.
    scratch, room
        As of a `rankwright.gpu.arranged.Launch`.
    """
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    near = shared[: NEAR if scratch.size else 0]
    indptr, scores, labels, parameters, cost, added = data
    coef, losses, values = results
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, left = slices(space, n)
        arranged(n, start, scores, keys, places, near)
        loss = oracle((q, n, start), (keys, places), (labels, parameters), coef, (a, b, c, d, part, left, near))
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)
