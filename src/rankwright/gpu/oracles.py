"""Most violated rankings on the card, a block of threads for a query: what `rankwright.measures.oracles` finds.

Formulas and ties are those of the CPU's oracles. Sweeps over sorted documents become running sums and binary searches.
Every oracle sets the coefficient of each document and returns the loss. All take the same arguments: ``query``, its
number, its documents and the first of them; ``ranked``, keys and places in score order; ``setup``, labels and
parameters; ``coef``; and ``room`` as `rankwright.gpu.query.each_query` has it.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from rankwright.gpu.card import is_simulated
from rankwright.gpu.query import goods_first
from rankwright.gpu.together import above, add_up, best_of, out_of_reach, rising, running, up_to, whole

__all__: list[str] = []

_SHORT = 8 if is_simulated() else 4096  # up to this many documents a word holds five counts of 12 bits; else two of 31


@cuda.jit(device=True)
def pairs(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Pairs of different grades, weighted by a table; documents are counted by grade, some counts in a word."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    counts, part = whole(room[0]), room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_grades = int(parameters[0])
    fields, bits = (5, 12) if n < _SHORT else (2, 31)
    mask = (1 << bits) - 1
    for i in range(t, n, threads):
        coef[start + i] = 0.0
    total = 0.0
    for low in range(0, n_grades, fields):
        for k in range(t, n, threads):
            field = int(labels[start + places[k]]) - low
            counts[k] = 1 << (bits * field) if 0 <= field < fields else 0
        cuda.syncthreads()
        running(counts, n, whole(part))
        for k in range(t, n, threads):
            at = start + places[k]
            grade = int(labels[at])
            near, far = above(keys, 0, n, keys[k] - 1.0, False), out_of_reach(keys, n, keys[k])
            below = counts[near - 1] if near > 0 else 0  # counts are subtracted field by field: none borrows
            ahead = counts[n - 1] - (counts[far - 1] if far > 0 else 0)
            coefficient = 0.0
            for field in range(min(fields, n_grades - low)):
                other = low + field
                if other < grade:
                    weight = parameters[1 + grade * n_grades + other] * ((below >> (bits * field)) & mask)
                    coefficient += weight
                    total += weight
                elif other > grade:
                    coefficient -= parameters[1 + other * n_grades + grade] * ((ahead >> (bits * field)) & mask)
            coef[at] += coefficient
        cuda.syncthreads()
    return add_up(total, part)


@cuda.jit(device=True)
def clicks(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Every clicked document with all others of its page; labels are the weights of clicks."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    sums, part = room[0], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for k in range(t, n, threads):
        sums[k] = labels[start + places[k]]
    cuda.syncthreads()
    running(sums, n, part)
    total = 0.0
    for k in range(t, n, threads):
        at = start + places[k]
        near, far = above(keys, 0, n, keys[k] - 1.0, False), out_of_reach(keys, n, keys[k])
        won = labels[at] * (near - 1)
        ahead = sums[n - 1] - (sums[far - 1] if far > 0 else 0.0)
        total += won
        coef[at] = won - (ahead - labels[at])
    return add_up(total, part)


@cuda.jit(device=True)
def set_coefficients(n: int, n_good: int, start: int, which: Any, others: Any, coef: Any) -> None:
    """Coefficients on the map of pairs, from how many bads are above each good, and goods above each bad."""
    unit = 2.0 / (n_good * (n - n_good))
    for at in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        coef[start + which[at]] = unit * others[at] if at < n_good else -unit * (n_good - others[at])


@cuda.jit(device=True)
def turn_round(others: Any, from_first: int, from_last: int, to_first: int, to_last: int) -> None:
    """From how many goods are above each bad (not falling) to how many bads are above each good, or back."""
    for i in range(cuda.threadIdx.x, to_last - to_first, cuda.blockDim.x):
        others[to_first + i] = up_to(others, from_first, from_last, i)
    cuda.syncthreads()


@cuda.jit(device=True)
def auc(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Bad b goes above good g iff s_g − s_b < ½."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    ordered, is_good, others, counts, part = room[0], whole(room[1]), whole(room[2]), whole(room[3]), room[4]
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, counts, part)
    n_above = 0
    for j in range(n_good + cuda.threadIdx.x, n, cuda.blockDim.x):
        others[j] = above(ordered, 0, n_good, ordered[j] + 0.5, True)
        n_above += others[j]
    n_above = add_up(n_above, whole(part))
    turn_round(others, n_good, n, 0, n_good)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 1.0 - n_above / (n_good * (n - n_good))


@cuda.jit(device=True)
def best_place(
    kind: int, table: Any, ordered: Any, sums: Any, n_good: int, j: int, low: int, high: int, unit: float, scale: float
) -> int:
    """How many goods, from low to high, are best above the j-th bad; ties go to the largest number."""
    score = ordered[n_good + j - 1]
    most = 1.0 / (4 * j - 3) if kind == 0 else table[low + j - 1] - table[low + j]  # gain from passing one good
    farthest = score + most * scale / unit
    best, best_i = -float("inf"), high
    for i in range(high, low - 1, -1):
        won = table[i + j - 1]
        if kind == 0:
            won = -won - j / (i + j)
        value = unit * (sums[i] - i * score) + scale * won
        if value > best:
            best, best_i = value, i
        if i > low and ordered[i - 1] > farthest:
            break
    return best_i


@cuda.jit(device=True)
def place_bads(
    kind: int, table: Any, ordered: Any, n_good: int, n: int, scale: float, others: Any, sums: Any, part: Any
) -> None:
    """The best number of goods above each bad; on entry, how many are scored above it.

    Bads a power of two apart, as many as there are threads, look at all places; then every bad between two others looks
    between their places.
    """
    t, threads, n_bad = cuda.threadIdx.x, cuda.blockDim.x, n - n_good
    unit = 2.0 / (n_good * n_bad)
    for i in range(t, n_good, threads):
        sums[i + 1] = ordered[i]
    if t == 0:
        sums[0] = 0.0
    cuda.syncthreads()
    running(sums, n_good + 1, part)
    step = 1
    while n_bad // step > threads:
        step *= 2
    j = step * (t + 1)
    if j <= n_bad:
        others[n_good + j - 1] = best_place(
            kind, table, ordered, sums, n_good, j, 0, others[n_good + j - 1], unit, scale
        )
    cuda.syncthreads()
    rising(others, n_good + step - 1, step, n_bad // step, whole(part))
    step //= 2
    while step > 0:
        for j in range(step * (2 * t + 1), n_bad + 1, 2 * step * threads):
            low = others[n_good + j - step - 1] if j > step else 0
            high = others[n_good + j - 1]
            if j + step <= n_bad:
                high = min(high, others[n_good + j + step - 1])
            others[n_good + j - 1] = best_place(kind, table, ordered, sums, n_good, j, low, high, unit, scale)
        cuda.syncthreads()
        step //= 2


@cuda.jit(device=True)
def by_places(kind: int, query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Average precision (kind 0, with harmonic numbers) or nDCG without a cutoff (1, with discounts)."""
    (_, n, start), (keys, places), (labels, table) = query, ranked, setup
    ordered, is_good, others, spare, part = room[0], whole(room[1]), whole(room[2]), room[3], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(spare), part)
    ideal = 0.0
    if kind == 1:
        for i in range(t, n_good, threads):
            ideal += table[i]
        ideal = add_up(ideal, part)
    else:
        ideal = float(n_good)
    place_bads(kind, table, ordered, n_good, n, 1.0 / ideal, others, spare, part)
    turn_round(others, n_good, n, 0, n_good)
    set_coefficients(n, n_good, start, is_good, others, coef)
    gained = 0.0
    for i in range(t, n_good, threads):
        gained += (i + 1) / (i + 1 + others[i]) if kind == 0 else table[i + others[i]]
    return 1.0 - add_up(gained, part) / ideal


@cuda.jit(device=True)
def average_precision(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """On the map of pairs: average precision."""
    return by_places(0, query, ranked, setup, coef, room)


@cuda.jit(device=True)
def ndcg(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """On the map of pairs: nDCG without a cutoff."""
    return by_places(1, query, ranked, setup, coef, room)


@cuda.jit(device=True)
def rank_loss(rank: int, cutoff: float) -> float:
    """1 − reciprocal rank, with ``rank`` bads above the topmost good."""
    return 1.0 - 1.0 / (1.0 + rank) if rank < cutoff else 1.0


@cuda.jit(device=True)
def first_good(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Reciprocal rank on its own map: the lowest good, below the r best bads; labels below 0 do not count."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    cutoff, sums, counts, part = parameters[0], room[0], whole(room[1]), room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    last = -1
    for k in range(t, n, threads):
        if labels[start + places[k]] > 0.0:
            last = k
    last = best_of(float(last), last, part)
    lowest = keys[last]
    for k in range(t, n, threads):
        is_bad = labels[start + places[k]] == 0.0
        sums[k] = keys[k] - lowest if is_bad else 0.0
        counts[k] = 1 if is_bad else 0
    cuda.syncthreads()
    running(sums, n, part)
    running(counts, n, whole(part))
    best, at = 0.0, -1
    for k in range(t, n, threads):
        if labels[start + places[k]] == 0.0:
            value = rank_loss(counts[k], cutoff) + sums[k]
            if value > best:
                best, at = value, k
    at = best_of(best, at, part)
    rank = counts[at] if at >= 0 else 0
    for k in range(t, n, threads):
        coefficient = 0.0
        if labels[start + places[k]] == 0.0 and counts[k] <= rank:
            coefficient = -1.0
        coef[start + places[k]] = float(rank) if k == last else coefficient
    return rank_loss(rank, cutoff) if rank > 0 else 0.0


@cuda.jit(device=True)
def first_good_of_pairs(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """Reciprocal rank on the map of pairs: the goods above the r best bads go below them."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    cutoff, part = parameters[0], room[4]
    ordered, is_good, others, spare = room[0], whole(room[1]), whole(room[2]), room[3]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(spare), part)
    n_bad = n - n_good
    unit = 2.0 / (n_good * n_bad)
    goods, gains = spare[: n_good + 1], keys  # the keys are no longer needed
    for i in range(t, n_good, threads):
        goods[i + 1] = ordered[i]
    if t == 0:
        goods[0] = 0.0
    cuda.syncthreads()
    running(goods, n_good + 1, part)
    for j in range(t, n_bad, threads):
        pushed = up_to(others, 0, n_good, j)
        gains[j] = unit * (pushed * ordered[n_good + j] - goods[pushed])
    cuda.syncthreads()
    running(gains, n_bad, part)
    best, at = 0.0, -1
    for j in range(t, n_bad, threads):
        value = rank_loss(j + 1, cutoff) + gains[j]
        if value > best:
            best, at = value, j
    rank = best_of(best, at, part) + 1
    for i in range(t, n_good, threads):
        others[i] = max(rank, others[i])
    cuda.syncthreads()
    turn_round(others, 0, n_good, n_good, n)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return rank_loss(others[0], cutoff) if others[0] > 0 else 0.0
