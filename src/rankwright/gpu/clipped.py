"""nDCG@k on the map of pairs, on the card: the programme over the first k ranks of `measures.oracles.partial_order`."""

from __future__ import annotations

from typing import Any

from numba import cuda

from rankwright.gpu.oracles import set_coefficients, turn_round
from rankwright.gpu.query import goods_first
from rankwright.gpu.together import add_up, running, whole

__all__ = ["further_room", "ndcg_at"]


def further_room(n: int, cutoff: int) -> int:
    """Further 8-byte words for the programme of a query of n documents."""
    size = min(n, cutoff)
    return (size + 1) * (size + 1)


@cuda.jit(device=True)
def worth(
    rows: int, columns: int, cutoff: int, parameters: Any, ideal: float, unit: float, ordered: Any, others: Any,
    sums: Any, table: Any,
) -> None:  # fmt: skip
    """What good g wins below b bads, or below "k or more" in the last column; by all threads."""
    for at in range(cuda.threadIdx.x, rows * (columns + 1), cuda.blockDim.x):
        g, b = at // (columns + 1), at % (columns + 1)
        taken = b if b < cutoff else max(b, others[g])
        discount = parameters[1 + g + b] if g + b < cutoff else 0.0
        table[at] = unit * (sums[taken] - taken * ordered[g]) - discount / ideal
    cuda.syncthreads()


@cuda.jit(device=True)
def fill(rows: int, columns: int, table: Any, best: Any, choice: Any) -> None:
    """The programme: row g is a good, column b the bads above it; choices take the place of worths.

    A thread has a row and runs a column behind the row before, along the diagonals, so it finds that row's result in
    ``best``. One thread for the whole programme took 1 ms of a pass of 3.7.
    """
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for b in range(t, columns + 1, threads):
        best[b] = 0.0
    cuda.syncthreads()
    for first in range(0, rows, threads):
        n_rows = min(threads, rows - first)
        best_value, best_b = -float("inf"), 0
        for step in range(n_rows + columns):
            b = step - t
            if t < n_rows and 0 <= b <= columns:
                at = (first + t) * (columns + 1) + b
                value = best[b] + table[at]
                if value > best_value:
                    best_value, best_b = value, b
                best[b] = best_value
                choice[at] = best_b
            cuda.syncthreads()


@cuda.jit(device=True)
def last_column(
    rows: int, columns: int, n_good: int, fixed: float, unit: float, ordered: Any, others: Any, sums: Any, best: Any
) -> int:
    """The column in which the programme ends, with the gain from row ``rows`` on; by one thread."""
    last, last_value = 0, -float("inf")
    passed, passed_scores = 0, 0.0
    for b in range(columns + 1):
        while rows + passed < n_good and others[rows + passed] < b:
            score, u = ordered[rows + passed], others[rows + passed]
            fixed -= sums[u] - u * score
            passed_scores += score
            passed += 1
        value = best[b] + unit * (fixed + passed * sums[b] - b * passed_scores)
        if value > last_value:
            last, last_value = b, value
    return last


@cuda.jit(device=True)
def ndcg_at(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Clipped nDCG; ``parameters``: the cutoff k, then the discounts of the first k ranks."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    ordered, is_good, others, sums, part, rest = room[0], whole(room[1]), whole(room[2]), room[3], room[4], room[5]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(sums), part)
    n_bad, cutoff = n - n_good, int(parameters[0])
    rows, columns = min(n_good, cutoff), min(n_bad, cutoff)
    best, table = rest[: columns + 1], rest[columns + 1 : columns + 1 + rows * (columns + 1)]
    choice = whole(table)
    for j in range(t, n_bad, threads):
        sums[j + 1] = ordered[n_good + j]
    if t == 0:
        sums[0] = 0.0
    cuda.syncthreads()
    running(sums, n_bad + 1, part)
    unit, ideal = 2.0 / (n_good * n_bad), 0.0
    for r in range(rows):
        ideal += parameters[1 + r]
    fixed = 0.0  # gain of the goods below the programme at the places given by their scores
    for g in range(rows + t, n_good, threads):
        fixed += sums[others[g]] - others[g] * ordered[g]
    fixed = add_up(fixed, part)
    worth(rows, columns, cutoff, parameters, ideal, unit, ordered, others, sums, table)
    fill(rows, columns, table, best, choice)
    gained, bads = 0.0, 0
    if t == 0:
        bads = last_column(rows, columns, n_good, fixed, unit, ordered, others, sums, best)
        whole(part)[0] = bads
    cuda.syncthreads()
    bads = whole(part)[0]
    for g in range(rows + t, n_good, threads):
        others[g] = max(bads, others[g])
    if t == 0:
        for g in range(rows - 1, -1, -1):
            bads = choice[g * (columns + 1) + bads]
            others[g] = bads if bads < cutoff else max(bads, others[g])
            gained += parameters[1 + g + others[g]] if g + others[g] < cutoff else 0.0
    cuda.syncthreads()
    gained = add_up(gained, part)
    turn_round(others, 0, n_good, n_good, n)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 1.0 - gained / ideal
