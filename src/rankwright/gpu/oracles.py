"""Most violated rankings on the device, a block of threads for a query: what `rankwright.measures.oracles` finds.

Formulas and ties are those of the CPU's oracles. Sweeps over sorted documents become running sums and binary searches.
Every oracle sets the coefficient of each document and returns the loss. All take the same arguments: ``query``, its
number, its documents and the first of them; ``ranked``, keys and places in score order; ``setup``, labels and
parameters; ``coef``; and ``room`` as `rankwright.gpu.blockwise.each_query` has it.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, int64

from rankwright._types import Arguments, Array
from rankwright.gpu.blockwise import (
    above,
    add_up,
    best_of,
    each_query,
    goods_first,
    out_of_reach,
    padded,
    rising,
    running,
    sort,
    up_to,
    whole,
)
from rankwright.gpu.device import is_simulated

__all__: list[str] = []

_SHORT = 8 if is_simulated() else 4096  # up to this many documents a word holds five counts of 12 bits; else two of 31


@cuda.jit(device=True)
def pairs(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Pairs of different grades, weighted by a table; documents are counted by grade, some counts in a word."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    counts, partial = whole(room[0]), room[4]
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
        running(counts, n, whole(partial))
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
    return add_up(total, partial)


@cuda.jit(device=True)
def clicks(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Every clicked document with all others of its page; labels are the weights of clicks."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    sums, partial = room[0], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for k in range(t, n, threads):
        sums[k] = labels[start + places[k]]
    cuda.syncthreads()
    running(sums, n, partial)
    total = 0.0
    for k in range(t, n, threads):
        at = start + places[k]
        near, far = above(keys, 0, n, keys[k] - 1.0, False), out_of_reach(keys, n, keys[k])
        won = labels[at] * (near - 1)
        ahead = sums[n - 1] - (sums[far - 1] if far > 0 else 0.0)
        total += won
        coef[at] = won - (ahead - labels[at])
    return add_up(total, partial)


@cuda.jit(device=True)
def set_coefficients(n: int, n_good: int, start: int, which: Array, others: Array, coef: Array) -> None:
    """Coefficients on the map of pairs, from how many bads are above each good, and goods above each bad."""
    unit = 2.0 / (n_good * (n - n_good))
    for at in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        coef[start + which[at]] = unit * others[at] if at < n_good else -unit * (n_good - others[at])


@cuda.jit(device=True)
def sums_of_first(values: Array, n: int, sums: Array, partial: Array) -> None:
    """``sums[i]`` is that of the first i values."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    for i in range(t, n, threads):
        sums[i + 1] = values[i]
    if t == 0:
        sums[0] = 0.0
    cuda.syncthreads()
    running(sums, n + 1, partial)


@cuda.jit(device=True)
def turn_round(others: Array, from_first: int, from_last: int, to_first: int, to_last: int) -> None:
    """From how many goods are above each bad (not falling) to how many bads are above each good, or back."""
    for i in range(cuda.threadIdx.x, to_last - to_first, cuda.blockDim.x):
        others[to_first + i] = up_to(others, from_first, from_last, i)
    cuda.syncthreads()


@cuda.jit(device=True)
def auc(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Bad b goes above good g iff s_g − s_b < ½."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    ordered, is_good, others, counts, partial = room[0], whole(room[1]), whole(room[2]), whole(room[3]), room[4]
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, counts, partial)
    n_above = 0
    for j in range(n_good + cuda.threadIdx.x, n, cuda.blockDim.x):
        others[j] = above(ordered, 0, n_good, ordered[j] + 0.5, True)
        n_above += others[j]
    n_above = add_up(n_above, whole(partial))
    turn_round(others, n_good, n, 0, n_good)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 1.0 - n_above / (n_good * (n - n_good))


@cuda.jit(device=True)
def best_place(
    kind: int,
    table: Array,
    ordered: Array,
    sums: Array,
    n_good: int,
    j: int,
    low: int,
    high: int,
    unit: float,
    scale: float,
) -> int:
    """How many goods, from low to high, are best above the j-th bad; ties go to the largest number."""
    score = ordered[n_good + j - 1]
    gain = 1.0 / (4 * j - 3) if kind == 0 else table[low + j - 1] - table[low + j]  # gain from passing one good
    farthest = score + gain * scale / unit
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
    kind: int, table: Array, ordered: Array, n_good: int, n: int, scale: float, others: Array, sums: Array, part: Array
) -> None:
    """The best number of goods above each bad; on entry, how many are scored above it.

    Bads a power of two apart, as many as there are threads, look at all places; then every bad between two others looks
    between their places.
    """
    t, threads, n_bad = cuda.threadIdx.x, cuda.blockDim.x, n - n_good
    unit = 2.0 / (n_good * n_bad)
    sums_of_first(ordered, n_good, sums, part)
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
def by_places(kind: int, query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Average precision (kind 0, with harmonic numbers) or nDCG without a cutoff (1, with discounts)."""
    (_, n, start), (keys, places), (labels, table) = query, ranked, setup
    ordered, is_good, others, spare, partial = room[0], whole(room[1]), whole(room[2]), room[3], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(spare), partial)
    ideal = 0.0
    if kind == 1:
        for i in range(t, n_good, threads):
            ideal += table[i]
        ideal = add_up(ideal, partial)
    else:
        ideal = float(n_good)
    place_bads(kind, table, ordered, n_good, n, 1.0 / ideal, others, spare, partial)
    turn_round(others, n_good, n, 0, n_good)
    set_coefficients(n, n_good, start, is_good, others, coef)
    gained = 0.0
    for i in range(t, n_good, threads):
        gained += (i + 1) / (i + 1 + others[i]) if kind == 0 else table[i + others[i]]
    return 1.0 - add_up(gained, partial) / ideal


@cuda.jit(device=True)
def average_precision(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """On the map of pairs: average precision."""
    return by_places(0, query, ranked, setup, coef, room)


@cuda.jit(device=True)
def ndcg(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """On the map of pairs: nDCG without a cutoff."""
    return by_places(1, query, ranked, setup, coef, room)


@cuda.jit(device=True)
def rank_loss(rank: int, cutoff: float) -> float:
    """1 − reciprocal rank, with ``rank`` bads above the topmost good."""
    return 1.0 - 1.0 / (1.0 + rank) if rank < cutoff else 1.0


@cuda.jit(device=True)
def first_good(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Reciprocal rank on its own map: the lowest good, below the r best bads; labels below 0 do not count."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    cutoff, sums, counts, partial = parameters[0], room[0], whole(room[1]), room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    last = -1
    for k in range(t, n, threads):
        if labels[start + places[k]] > 0.0:
            last = k
    last = best_of(float(last), last, partial)
    lowest = keys[last]
    for k in range(t, n, threads):
        is_bad = labels[start + places[k]] == 0.0
        sums[k] = keys[k] - lowest if is_bad else 0.0
        counts[k] = 1 if is_bad else 0
    cuda.syncthreads()
    running(sums, n, partial)
    running(counts, n, whole(partial))
    best, at = 0.0, -1
    for k in range(t, n, threads):
        if labels[start + places[k]] == 0.0:
            value = rank_loss(counts[k], cutoff) + sums[k]
            if value > best:
                best, at = value, k
    at = best_of(best, at, partial)
    rank = counts[at] if at >= 0 else 0
    for k in range(t, n, threads):
        coefficient = 0.0
        if labels[start + places[k]] == 0.0 and counts[k] <= rank:
            coefficient = -1.0
        coef[start + places[k]] = float(rank) if k == last else coefficient
    return rank_loss(rank, cutoff) if rank > 0 else 0.0


@cuda.jit(device=True)
def first_good_of_pairs(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Reciprocal rank on the map of pairs: the goods above the r best bads go below them."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    cutoff, partial = parameters[0], room[4]
    ordered, is_good, others, spare = room[0], whole(room[1]), whole(room[2]), room[3]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(spare), partial)
    n_bad = n - n_good
    unit = 2.0 / (n_good * n_bad)
    goods, gains = spare[: n_good + 1], keys  # the keys are no longer needed
    sums_of_first(ordered, n_good, goods, partial)
    for j in range(t, n_bad, threads):
        pushed = up_to(others, 0, n_good, j)
        gains[j] = unit * (pushed * ordered[n_good + j] - goods[pushed])
    cuda.syncthreads()
    running(gains, n_bad, partial)
    best, at = 0.0, -1
    for j in range(t, n_bad, threads):
        value = rank_loss(j + 1, cutoff) + gains[j]
        if value > best:
            best, at = value, j
    rank = best_of(best, at, partial) + 1
    for i in range(t, n_good, threads):
        others[i] = max(rank, others[i])
    cuda.syncthreads()
    turn_round(others, 0, n_good, n_good, n)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return rank_loss(others[0], cutoff) if others[0] > 0 else 0.0


# nDCG@k on the map of pairs, on the device: the programme over the first k ranks of `measures.oracles.pairs`.


def further_room(n: int, cutoff: int) -> int:
    """Further 8-byte words for the programme of a query of n documents."""
    size = min(n, cutoff)
    return (size + 1) * (size + 1)


@cuda.jit(device=True)
def worth(
    rows: int, columns: int, cutoff: int, parameters: Array, ideal: float, unit: float, ordered: Array, others: Array,
    sums: Array, table: Array,
) -> None:  # fmt: skip
    """What good g wins below b bads, or below "k or more" in the last column; by all threads."""
    for at in range(cuda.threadIdx.x, rows * (columns + 1), cuda.blockDim.x):
        g, b = at // (columns + 1), at % (columns + 1)
        taken = b if b < cutoff else max(b, others[g])
        discount = parameters[1 + g + b] if g + b < cutoff else 0.0
        table[at] = unit * (sums[taken] - taken * ordered[g]) - discount / ideal
    cuda.syncthreads()


@cuda.jit(device=True)
def fill(rows: int, columns: int, table: Array, best: Array, choice: Array) -> None:
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
    rows: int,
    columns: int,
    n_good: int,
    fixed: float,
    unit: float,
    ordered: Array,
    others: Array,
    sums: Array,
    best: Array,
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
def ndcg_at(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Clipped nDCG; ``parameters``: the cutoff k, then the discounts of the first k ranks."""
    (_, n, start), (keys, places), (labels, parameters) = query, ranked, setup
    ordered, is_good, others, sums, partial, rest = room[0], whole(room[1]), whole(room[2]), room[3], room[4], room[5]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, whole(sums), partial)
    n_bad, cutoff = n - n_good, int(parameters[0])
    rows, columns = min(n_good, cutoff), min(n_bad, cutoff)
    best, table = rest[: columns + 1], rest[columns + 1 : columns + 1 + rows * (columns + 1)]
    choice = whole(table)
    sums_of_first(ordered[n_good:], n_bad, sums, partial)
    unit, ideal = 2.0 / (n_good * n_bad), 0.0
    for r in range(rows):
        ideal += parameters[1 + r]
    fixed = 0.0  # gain of the goods below the programme at the places given by their scores
    for g in range(rows + t, n_good, threads):
        fixed += sums[others[g]] - others[g] * ordered[g]
    fixed = add_up(fixed, partial)
    worth(rows, columns, cutoff, parameters, ideal, unit, ordered, others, sums, table)
    fill(rows, columns, table, best, choice)
    gained, bads = 0.0, 0
    if t == 0:
        bads = last_column(rows, columns, n_good, fixed, unit, ordered, others, sums, best)
        whole(partial)[0] = bads
    cuda.syncthreads()
    bads = whole(partial)[0]
    for g in range(rows + t, n_good, threads):
        others[g] = max(bads, others[g])
    if t == 0:
        for g in range(rows - 1, -1, -1):
            bads = choice[g * (columns + 1) + bads]
            others[g] = bads if bads < cutoff else max(bads, others[g])
            gained += parameters[1 + g + others[g]] if g + others[g] < cutoff else 0.0
    cuda.syncthreads()
    gained = add_up(gained, partial)
    turn_round(others, 0, n_good, n_good, n)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 1.0 - gained / ideal


# The rankings given by the scores, on the device; most violated ones on the map of positions where they are a sort.


@cuda.jit(device=True)
def current_pairs(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """The map of pairs: every good document with the bads above it."""
    (_, n, start), (keys, places), (labels, _) = query, ranked, setup
    ordered, is_good, others, counts, partial = room[0], whole(room[1]), whole(room[2]), whole(room[3]), room[4]
    n_good = goods_first(n, start, labels, keys, places, ordered, is_good, others, counts, partial)
    set_coefficients(n, n_good, start, is_good, others, coef)
    return 0.0


@cuda.jit(device=True)
def current_first(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """The map of reciprocal rank: the topmost good with the bads above it."""
    (_, n, start), places, labels, partial = query, ranked[1], setup[0], room[4]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    top = -1
    for k in range(t, n, threads):
        if labels[start + places[k]] > 0.0 and top < 0:
            top = k
    top = best_of(-float(top), top, partial)
    bads = 0.0
    for k in range(t, n, threads):
        coefficient = -1.0 if k < top and labels[start + places[k]] == 0.0 else 0.0
        bads -= coefficient
        coef[start + places[k]] = coefficient
    bads = add_up(bads, partial)
    if t == 0:
        coef[start + places[top]] = bads
    return 0.0


@cuda.jit(device=True)
def current_positions(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """The map of positions: a document's mean weight in ideal rankings, less the weight at its own place."""
    (_, n, start), places, (means, parameters) = query, ranked[1], setup
    decay = parameters[2:]
    for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        at = start + places[k]
        coef[at] = means[at] - decay[k]
    return 0.0


@cuda.jit(device=True)
def sorted_positions(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """Where positions weigh as they are discounted: sorted by score less gain; labels are mean weights, then gains."""
    (_, n, start), (keys, places), (packed, parameters) = query, ranked, setup
    means, gains, decay = (packed[: packed.size // 2], packed[packed.size // 2 :], parameters[2:])
    partial, other, near = room[4], room[5], room[6]
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
    return 1.0 - add_up(gained, partial)


# nDCG on the map of positions, on the device: a dynamic programme over the number of documents taken of each grade.
#
# The states, numbers of documents taken of every grade, are those of `rankwright.measures.oracles.positions`; all
# with the same total are found side by side. A state's numbers are kept in one word, 8 bits each, their total on top.


MOST_GRADES = 7
MOST_CELLS = 1 << 18
_MOST_RANKS = 126  # a total has 7 bits


def packed_grades(
    labels: Array, indptr: Array, parameters: Array, means: Array, gains: Array
) -> tuple[Array, int] | None:
    """The kernel's view of the labels in one array, and the cells of the largest table; None if too large.

    In the array: the mean weight and the grade of every document; for every query the number of its first grade, then
    how many documents each grade has, and its gain; last, the number of queries.
    """
    sizes = np.diff(indptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-labels, query))
    fresh = np.diff(labels[order], prepend=np.nan) != 0
    fresh[indptr[:-1]] = True
    group = np.cumsum(fresh) - 1
    starts = np.append(group[indptr[:-1]], group[-1] + 1)
    counts, n_ranks = np.bincount(group), np.minimum(int(parameters[1]), sizes)
    of_group = np.repeat(np.arange(len(sizes)), np.diff(starts))
    cells = np.multiply.reduceat(np.minimum(counts, n_ranks[of_group]) + 1.0, starts[:-1])
    if np.diff(starts).max() > MOST_GRADES or cells.max() > MOST_CELLS or n_ranks.max() > _MOST_RANKS:
        return None
    kinds = np.empty(len(labels))
    kinds[order] = group - starts[:-1][query]
    return np.concatenate([means, kinds, starts, counts, gains[order][fresh], [len(sizes)]]), int(cells.max())


@cuda.jit(device=True)
def by_grade(
    n: int, kinds: Array, start: int, keys: Array, places: Array, grades: int, ordered: Array, spots: Array,
    counts: Array, partial: Array,
) -> None:  # fmt: skip
    """Scores less the highest one, and ranks: those of a grade after those of the grade before, each in score order."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    before = 0
    for grade in range(grades):
        for i in range(t, n, threads):
            counts[i] = 1 if int64(kinds[start + places[i]]) == grade else 0
        cuda.syncthreads()
        running(counts, n, whole(partial))
        for i in range(t, n, threads):
            if int64(kinds[start + places[i]]) == grade:
                ordered[before + counts[i] - 1] = keys[i] - keys[0]
                spots[before + counts[i] - 1] = i
        before += counts[n - 1]
        cuda.syncthreads()


@cuda.jit(device=True)
def rest(
    word: int, n: int, rank: int, kinds: Array, start: int, keys: Array, places: Array, decay: Array, below: Array
) -> float:
    """Σ A(r) s from ``rank`` on in score order, the documents of a state left out."""
    total, i = 0.0, 0
    while i < rank and rank < n:
        shift = 8 * int64(kinds[start + places[i]])
        if (word >> shift) & 255:
            word -= 1 << shift
        else:
            total += decay[rank] * (keys[i] - keys[0])
            rank += 1
        i += 1
    return total + (below[n - 1] - below[rank - 1] if rank < n else 0.0)


@cuda.jit(device=True)
def came_from(
    cell: int, word: int, grades: int, sizes: Array, gains: Array, ranks: int, ordered: Array, decay: float,
    discount: float, values: Array,
) -> int:  # fmt: skip
    """The grade that is best taken last in a state; writes its value."""
    stride, before, best, picked = 1, 0, 0.0, -1
    total = 0
    for grade in range(grades):
        total += int64(sizes[grade])
    before = total
    for back in range(grades):  # the last grade has the shortest stride
        grade = grades - 1 - back
        before -= int64(sizes[grade])
        taken = (word >> (8 * grade)) & 255
        if taken > 0:
            value = values[cell - stride] + decay * ordered[before + taken - 1] - gains[grade] * discount
            if picked < 0 or value >= best:  # of equal ones the first grade
                best, picked = value, grade
        stride *= min(int64(sizes[grade]), ranks) + 1
    values[cell] = best
    return picked


@cuda.jit(device=True)
def marked(cells: int, grades: int, sizes: Array, ranks: int, words: Array) -> None:
    """Mark the grade words of every state; returns their total."""
    for cell in range(cuda.threadIdx.x, cells, cuda.blockDim.x):
        remainder, word, total = cell, 0, 0
        for back in range(grades):
            grade = grades - 1 - back
            base = min(int64(sizes[grade]), ranks) + 1
            taken = remainder % base
            remainder //= base
            word |= taken << (8 * grade)
            total += taken
        words[cell] = word | (total << 56 if total <= ranks else 127 << 56)
    cuda.syncthreads()


@cuda.jit(device=True)
def traced(
    ranks: int, grades: int, state: int, sizes: Array, gains: Array, ordered: Array, spots: Array, decay: Array,
    discount: Array, words: Array, values: Array, path: Array,
) -> float:  # fmt: skip
    """Rank in score order of the document at each rank of the best ranking, and its loss; by one thread."""
    loss, cell, seen = 1.0, state, 0
    for rank in range(ranks - 1, -1, -1):
        grade = came_from(cell, words[cell], grades, sizes, gains, ranks, ordered, decay[rank], discount[rank], values)
        path[rank] = grade
        stride = 1
        for later in range(grade + 1, grades):
            stride *= min(int64(sizes[later]), ranks) + 1
        cell -= stride
        loss -= gains[grade] * discount[rank]
    for rank in range(ranks):
        grade, first = path[rank], 0
        for before in range(grade):
            first += int64(sizes[before])
        path[rank] = spots[first + ((seen >> (8 * grade)) & 255)]
        seen += 1 << (8 * grade)
    return loss


@cuda.jit(device=True)
def set_positions(
    n: int, ranks: int, means: Array, start: int, places: Array, decay: Array, path: Array, coef: Array
) -> None:  # fmt: skip
    """Coefficients of documents at the ranks of a path, and of the others, below it in score order."""
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        best, above = -1, 0
        for rank in range(ranks):
            if path[rank] == i:
                best = rank
            elif path[rank] < i:
                above += 1
        coef[start + places[i]] = means[start + places[i]] - decay[best if best >= 0 else ranks + i - above]


@cuda.jit(device=True)
def best_table(query: Arguments, ranked: Arguments, setup: Arguments, coef: Array, room: Arguments) -> float:
    """The most violated ranking of a query; labels as `packed_grades` makes them."""
    (q, n, start), (keys, places), (packed, parameters) = query, ranked, setup
    ordered, below, path, spots, partial, spare = room[0], room[1], whole(room[2]), whole(room[3]), room[4], room[5]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_docs, n_queries = coef.size, int64(packed[packed.size - 1])
    kinds, heads = packed[n_docs : 2 * n_docs], packed[2 * n_docs : 2 * n_docs + n_queries + 1]
    first, n_groups, longest = int64(heads[q]), int64(heads[n_queries]), (parameters.size - 2) // 2
    grades, at = int64(heads[q + 1]) - first, 2 * n_docs + n_queries + 1
    sizes = packed[at + first : at + first + grades]
    gains = packed[at + n_groups + first : at + n_groups + first + grades]
    decay, discount = parameters[2 : 2 + longest], parameters[2 + longest :]
    ranks, cells = min(int64(parameters[1]), n), 1
    for grade in range(grades):
        cells *= min(int64(sizes[grade]), ranks) + 1
    words, values = whole(spare[:cells]), spare[cells : 2 * cells]
    by_grade(n, kinds, start, keys, places, grades, ordered, spots, path, partial)
    for i in range(t, n, threads):
        below[i] = decay[i] * (keys[i] - keys[0])
    cuda.syncthreads()
    running(below, n, partial)
    marked(cells, grades, sizes, ranks, words)
    if t == 0:
        values[0] = 0.0
    cuda.syncthreads()
    for total in range(1, ranks + 1):
        for cell in range(t, cells, threads):
            if words[cell] >> 56 == total:
                came_from(
                    cell, words[cell], grades, sizes, gains, ranks, ordered, decay[total - 1], discount[total - 1],
                    values,
                )  # fmt: skip
        cuda.syncthreads()
    best, state = 0.0, -1
    for cell in range(t, cells, threads):
        if words[cell] >> 56 == ranks:
            value = values[cell]
            if ranks < n:
                value += rest(words[cell], n, ranks, kinds, start, keys, places, decay, below)
            if state < 0 or value > best:
                best, state = value, cell
    state = best_of(best, state, partial)
    if t == 0:
        partial[0] = traced(ranks, grades, state, sizes, gains, ordered, spots, decay, discount, words, values, path)
    cuda.syncthreads()
    loss = partial[0]
    set_positions(n, ranks, packed, start, places, decay, path, coef)
    cuda.syncthreads()
    return loss


# A kernel for every oracle on the device: queries one after the other, a block of threads each.
#
# They are written out because numba caches compiled code on disk only for functions of a module, not for closures.


# Registers per thread, instead of 108: half again as many queries run at once (MAP's pass 2.2 ms, not 2.5).
_REGISTERS = 80
_kernel = cuda.jit(cache=True) if is_simulated() else cuda.jit(cache=True, max_registers=_REGISTERS)


@_kernel
def _pairs(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(pairs, queries, data, results, scratch, room)


@_kernel
def _clicks(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(clicks, queries, data, results, scratch, room)


@_kernel
def _auc(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(auc, queries, data, results, scratch, room)


@_kernel
def _average_precision(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(average_precision, queries, data, results, scratch, room)


@_kernel
def _ndcg(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(ndcg, queries, data, results, scratch, room)


@_kernel
def _ndcg_at(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(ndcg_at, queries, data, results, scratch, room)


@_kernel
def _first_good(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(first_good, queries, data, results, scratch, room)


@_kernel
def _first_good_of_pairs(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(first_good_of_pairs, queries, data, results, scratch, room)


@_kernel
def _current_pairs(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(current_pairs, queries, data, results, scratch, room)


@_kernel
def _current_first(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(current_first, queries, data, results, scratch, room)


@_kernel
def _current_positions(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(current_positions, queries, data, results, scratch, room)


@_kernel
def _sorted_positions(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(sorted_positions, queries, data, results, scratch, room)


@_kernel
def _table(queries: Array, data: Arguments, results: Arguments, scratch: Array, room: int) -> None:
    each_query(best_table, queries, data, results, scratch, room)


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

CURRENT = {"po": _current_pairs, "mrr": _current_first, "dorm": _current_positions}
"""The kernel of every feature map."""
