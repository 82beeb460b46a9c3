"""nDCG on the map of positions, on the card: a dynamic programme over the number of documents taken of each grade.

The states, numbers of documents taken of every grade, are those of `rankwright.measures.oracles.position_decay`; all
with the same total are found side by side. A state's numbers are kept in one word, 8 bits each, their total on top.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda, int64

from rankwright.gpu.together import best_of, running, whole

__all__ = ["MOST_CELLS", "MOST_GRADES", "best_table", "packed_grades"]

Array = npt.NDArray[Any]
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
    n: int, kinds: Any, start: int, keys: Any, places: Any, grades: Any, ordered: Any, spots: Any, counts: Any,
    part: Any,
) -> None:  # fmt: skip
    """Scores less the highest one, and ranks: those of a grade after those of the grade before, each in score order."""
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    before = 0
    for grade in range(grades):
        for i in range(t, n, threads):
            counts[i] = 1 if int64(kinds[start + places[i]]) == grade else 0
        cuda.syncthreads()
        running(counts, n, whole(part))
        for i in range(t, n, threads):
            if int64(kinds[start + places[i]]) == grade:
                ordered[before + counts[i] - 1] = keys[i] - keys[0]
                spots[before + counts[i] - 1] = i
        before += counts[n - 1]
        cuda.syncthreads()


@cuda.jit(device=True)
def rest(word: int, n: int, rank: int, kinds: Any, start: int, keys: Any, places: Any, decay: Any, below: Any) -> float:
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
    cell: int, word: int, grades: int, sizes: Any, gains: Any, ranks: int, ordered: Any, decay: float, discount: float,
    values: Any,
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
def marked(cells: int, grades: int, sizes: Any, ranks: int, words: Any) -> None:
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
    ranks: int, grades: int, state: int, sizes: Any, gains: Any, ordered: Any, spots: Any, decay: Any, discount: Any,
    words: Any, values: Any, path: Any,
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
    n: int, ranks: int, means: Any, start: int, places: Any, decay: Any, path: Any, coef: Any
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
def best_table(query: Any, ranked: Any, setup: Any, coef: Any, room: Any) -> float:
    """The most violated ranking of a query; labels as `packed_grades` makes them."""
    (q, n, start), (keys, places), (packed, parameters) = query, ranked, setup
    ordered, below, path, spots, part, spare = room[0], room[1], whole(room[2]), whole(room[3]), room[4], room[5]
    t, threads = cuda.threadIdx.x, cuda.blockDim.x
    n_docs, n_queries = coef.size, int64(packed[packed.size - 1])
    kinds, heads = packed[n_docs : 2 * n_docs], packed[2 * n_docs : 2 * n_docs + n_queries + 1]
    first, n_groups, longest = int64(heads[q]), int64(heads[n_queries]), (parameters.size - 2) // 2
    grades, at = int64(heads[q + 1]) - first, 2 * n_docs + n_queries + 1
    sizes, gains = (
        packed[at + first : at + first + grades],
        packed[at + n_groups + first : at + n_groups + first + grades],
    )
    decay, discount = parameters[2 : 2 + longest], parameters[2 + longest :]
    ranks, cells = min(int64(parameters[1]), n), 1
    for grade in range(grades):
        cells *= min(int64(sizes[grade]), ranks) + 1
    words, values = whole(spare[:cells]), spare[cells : 2 * cells]
    by_grade(n, kinds, start, keys, places, grades, ordered, spots, path, part)
    for i in range(t, n, threads):
        below[i] = decay[i] * (keys[i] - keys[0])
    cuda.syncthreads()
    running(below, n, part)
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
    state = best_of(best, state, part)
    if t == 0:
        part[0] = traced(
            ranks, grades, state, sizes, gains, ordered, spots, decay, discount, words, values, path
        )  # fmt: skip
    cuda.syncthreads()
    loss = part[0]
    set_positions(n, ranks, packed, start, places, decay, path, coef)
    cuda.syncthreads()
    return loss
