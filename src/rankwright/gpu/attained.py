"""The rankings given by the scores, on the card; most violated ones on the map of positions where they are a sort."""

from __future__ import annotations

from typing import Any

from numba import cuda

from rankwright.gpu.oracles import set_coefficients
from rankwright.gpu.query import goods_first
from rankwright.gpu.together import add_up, best_of, padded, sort, whole

__all__ = ["attained_first", "attained_pairs", "attained_positions", "sorted_positions"]


@cuda.jit(device=True)
def attained_pairs(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """The map of pairs: every good document with the bads above it."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    ordered, is_good, others, counts, part = room[0], whole(room[1]), whole(room[2]), whole(room[3]), room[4]
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, counts, part)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 0.0


@cuda.jit(device=True)
def attained_first(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """The map of reciprocal rank: the topmost good with the bads above it."""
    (_, n, start), places, labels, part = query, ranked[1], setup[0], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    top = -1
    for k in range(t, n, threads):
        if labels[start + places[k]] > 0.0 and top < 0:
            top = k
    top = best_of(-float(top), top, part)
    bads = 0.0
    for k in range(t, n, threads):
        coefficient = -1.0 if k < top and labels[start + places[k]] == 0.0 else 0.0
        bads -= coefficient
        coef[start + places[k]] = coefficient
    bads = add_up(bads, part)
    if t == 0:
        coef[start + places[top]] = bads
    return 0.0


@cuda.jit(device=True)
def attained_positions(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """The map of positions: a document's mean weight in ideal rankings, less the weight at its own place."""
    (_, n, start), places, (means, parameters) = query, ranked[1], setup
    decay = parameters[2:]
    for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        at = start + places[k]
        coef[at] = means[at] - decay[k]
    return 0.0


@cuda.jit(device=True)
def sorted_positions(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Where positions weigh as they are discounted: sorted by score less gain; labels are mean weights, then gains."""
    (_, n, start), (keys, places), (packed, parameters) = query, ranked, setup
    means, gains, decay = (packed[: packed.size // 2], packed[packed.size // 2 :], parameters[2:])
    part, other, near = room[4], room[5], room[6]
    t, threads, size = cuda.threadIdx.x, cuda.blockDim.x, padded(n)
    for k in range(t, size, threads):
        other[k] = keys[k] - keys[0] - gains[start + places[k]] if k < n else -float("inf")
    cuda.syncthreads()
    for k in range(t, size, threads):
        keys[k] = other[k]
    cuda.syncthreads()
    sort(keys, places, size, near)
    gained = 0.0
    for k in range(t, n, threads):
        at = start + places[k]
        coef[at] = means[at] - decay[k]
        gained += gains[at] * decay[k]
    return 1.0 - add_up(gained, part)
