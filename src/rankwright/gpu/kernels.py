"""A kernel for every oracle on the card: queries one after the other, a block of threads each."""

from __future__ import annotations

from typing import Any

from numba import cuda, float64

from rankwright.gpu import attained, oracles
from rankwright.gpu.clipped import ndcg_at
from rankwright.gpu.query import arranged, clear, finish, slices
from rankwright.gpu.table import best_table
from rankwright.gpu.together import whole

__all__ = ["ATTAINED", "ORACLES"]


@cuda.jit(cache=True)
def _pairs(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, _, _, _, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        loss = oracles.pairs(n, start, keys, places, labels, parameters, coef, whole(a), part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _clicks(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, _, _, _, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.clicks(*given, coef, a, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _auc(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.auc(*given, coef, a, whole(b), whole(c), whole(d), part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _average_precision(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.by_places(0, *given, parameters, coef, a, whole(b), whole(c), d, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _ndcg(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.by_places(1, *given, parameters, coef, a, whole(b), whole(c), d, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _ndcg_at(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, left = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = ndcg_at(*given, parameters, coef, a, whole(b), whole(c), d, part, left)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _first_good(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, _, _, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.first_good(*given, parameters[0], coef, a, whole(b), part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _first_good_of_pairs(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = oracles.first_good_of_pairs(*given, parameters[0], coef, a, whole(b), whole(c), d, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _attained_pairs(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (n, start, keys, places, labels)
        loss = attained.attained_pairs(*given, coef, a, whole(b), whole(c), whole(d), part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _attained_first(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, _, _, _, _, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        loss = attained.attained_first(n, start, places, labels, coef, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _attained_positions(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, _, _, _, _, part, _ = slices(space, n)
        arranged(n, start, scores, keys, places)
        loss = attained.attained_positions(n, start, places, labels, parameters[2:], coef)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _sorted_positions(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, _, _, _, _, part, left = slices(space, n)
        arranged(n, start, scores, keys, places)
        means, gains = labels[: labels.size // 2], labels[labels.size // 2 :]
        loss = attained.sorted_positions(n, start, keys, places, gains, means, parameters[2:], coef, left, part)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


@cuda.jit(cache=True)
def _table(
    queries: Any, indptr: Any, scores: Any, labels: Any, parameters: Any, cost: Any, added: Any, coef: Any, losses: Any,
    values: Any, scratch: Any, room: int,
) -> None:  # fmt: skip
    shared = cuda.shared.array(0, float64)
    space = scratch[cuda.blockIdx.x * room : (cuda.blockIdx.x + 1) * room] if scratch.size else shared
    for at in range(cuda.blockIdx.x, queries.size, cuda.gridDim.x):
        q, start, n = queries[at], indptr[queries[at]], indptr[queries[at] + 1] - indptr[queries[at]]
        if cost[q] == 0.0:
            clear(n, start, coef)
            continue
        keys, places, a, b, c, d, part, left = slices(space, n)
        arranged(n, start, scores, keys, places)
        given = (q, n, start, keys, places, labels, coef.size, indptr.size - 1, parameters)
        loss = best_table(*given, coef, a, b, whole(c), whole(d), part, left)
        finish(q, n, start, loss, scores, cost[q], added, coef, losses, values, part)


ORACLES = {
    "pairs": _pairs,
    "clicks": _clicks,
    "auc": _auc,
    "average_precision": _average_precision,
    "ndcg": _ndcg,
    "ndcg_at": _ndcg_at,
    "reciprocal_rank": _first_good,
    "reciprocal_rank_of_pairs": _first_good_of_pairs,
    "sorted": _sorted_positions,
    "table": _table,
}
"""The kernel of every oracle, by the name of the CPU's; ``sorted``, ``table``: those of `dorm`."""

ATTAINED = {"po": _attained_pairs, "mrr": _attained_first, "dorm": _attained_positions}
"""The kernel of every feature map."""
