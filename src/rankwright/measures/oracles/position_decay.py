"""nDCG on the `dorm` feature map (DORM): positions have weights, and a ranking is an assignment of documents to them.

    Ψ(y) = Σ_i A(r_i) x_i,   the most violated ranking: argmax Σ_i A(r_i) s_i − gain_i D(r_i) / ideal

Documents of one grade keep the order of their scores, so a ranking of the ranks with a discount is a path that takes
the next document of some grade at each: a dynamic programme over how many were taken of each grade. Below the last such
rank only the scores matter. With many grades the programme is too large, and a library solves the assignment. Both are
exact.

Ψ(y*) is the mean over all ideal rankings: documents of one grade share the weights of the places of that grade.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.optimize import linear_sum_assignment

__all__ = ["assignment", "dorm", "is_cheap"]

Array = npt.NDArray[Any]
_CELLS_PER_DOCUMENT = 512  # below about this the programme is faster than the assignment
_MOST_CELLS = 1 << 20


@njit(cache=True)
def _grades(labels: Any, values: Any, sizes: Any) -> int:
    """The different labels, highest first, and how many documents have each; how many labels."""
    n_grades = 0
    for i in range(labels.size):
        place = 0
        while place < n_grades and values[place] > labels[i]:
            place += 1
        if place == n_grades or values[place] != labels[i]:
            for later in range(n_grades, place, -1):
                values[later] = values[later - 1]
                sizes[later] = sizes[later - 1]
            values[place] = labels[i]
            sizes[place] = 0
            n_grades += 1
        sizes[place] += 1
    return n_grades


@njit(cache=True)
def _gain(exponential: float, label: float) -> float:
    return 2.0**label - 1.0 if exponential > 0.0 else label


@njit(cache=True)
def _rest(kind: Any, index: Any, ordered: Any, taken: Any, rank: int, decay: Any) -> float:
    """Σ A(r) s from ``rank`` on, of the documents not taken, in score order."""
    total = 0.0
    for i in range(kind.size):
        if index[i] >= taken[kind[i]]:
            if decay[rank] == 0.0:
                break
            total += decay[rank] * ordered[i]
            rank += 1
            if rank == kind.size:
                break
    return total


@njit(cache=True)
def _fill(
    kind: Any, index: Any, ordered: Any, by_grade: Any, strides: Any, limits: Any, gains: Any, n_ranks: int, decay: Any,
    discount: Any, values: Any, choice: Any,
) -> int:  # fmt: skip
    """Value and last choice of every state, a state being how many were taken of each grade; the best final state."""
    n_grades = limits.size
    taken = np.zeros(n_grades, np.int64)
    total, state = 0, 0
    best, best_state = -np.inf, -1
    values[0] = 0.0
    while True:
        grade = n_grades - 1
        while grade >= 0 and (taken[grade] == limits[grade] or total == n_ranks):
            total -= taken[grade]
            state -= taken[grade] * strides[grade]
            taken[grade] = 0
            grade -= 1
        if grade < 0:
            return best_state
        taken[grade] += 1
        total += 1
        state += strides[grade]
        choice[state] = -1
        for grade in range(n_grades):
            if taken[grade] > 0:
                value = values[state - strides[grade]] + decay[total - 1] * by_grade[grade, taken[grade] - 1]
                value -= gains[grade] * discount[total - 1]
                if choice[state] < 0 or value > values[state]:  # some choice, even if scores are nan
                    values[state] = value
                    choice[state] = grade
        if total == n_ranks:
            value = values[state]
            if n_ranks < kind.size:
                value += _rest(kind, index, ordered, taken, n_ranks, decay)
            if best_state < 0 or value > best:
                best, best_state = value, state


@njit(cache=True)
def _fill_two(goods: Any, bads: Any, gains: Any, decay: Any, discount: Any, values: Any, choice: Any) -> int:
    """The same for two grades if all ranks have a discount, so that there is one final state."""
    width = bads.size + 1
    for i in range(goods.size + 1):
        above = (i - 1) * width
        here = i * width
        for j in range(width):
            rank = i + j - 1
            value = -np.inf
            if j > 0:
                value = values[here + j - 1] + decay[rank] * bads[j - 1] - gains[1] * discount[rank]
            picked = 1
            if i > 0:
                other = values[above + j] + decay[rank] * goods[i - 1] - gains[0] * discount[rank]
                if j == 0 or other > value:
                    value, picked = other, 0
            values[here + j] = value if i + j > 0 else 0.0
            choice[here + j] = picked
    return values.size - 1


@njit(cache=True)
def dorm(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``parameters``: whether gains are exponential, the ranks with a discount, then A and D of each of the ranks."""
    n = scores.size
    longest = (parameters.size - 2) // 2
    decay, discount = parameters[2 : 2 + longest], parameters[2 + longest :]
    n_ranks = min(int(parameters[1]), n)
    found, sizes = np.empty(n), np.empty(n, np.int64)
    n_grades = _grades(labels, found, sizes)
    gains, limits, strides = np.empty(n_grades), np.empty(n_grades, np.int64), np.empty(n_grades, np.int64)
    ideal, place = 0.0, 0
    for grade in range(n_grades):
        gains[grade] = _gain(parameters[0], found[grade])
        limits[grade] = min(sizes[grade], n_ranks)
        mean = 0.0
        for rank in range(place, place + sizes[grade]):
            ideal += gains[grade] * discount[rank]
            mean += decay[rank] / sizes[grade]
        for i in range(n):
            if labels[i] == found[grade]:
                coef[i] = mean
        place += sizes[grade]
    cells, largest = 1, 0
    for grade in range(n_grades - 1, -1, -1):
        strides[grade] = cells
        cells *= limits[grade] + 1
        largest = max(largest, sizes[grade])
        gains[grade] /= ideal
    # Every document in score order: its grade, its place among those of the grade, its score.
    kind, index, ordered = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
    by_grade, places = np.empty((n_grades, largest)), np.empty((n_grades, largest), np.int64)
    sizes[:n_grades] = 0
    for i in range(n):
        grade = 0
        while found[grade] != labels[order[i]]:
            grade += 1
        kind[i], index[i], ordered[i] = grade, sizes[grade], scores[order[i]] - scores[order[0]]
        by_grade[grade, sizes[grade]], places[grade, sizes[grade]] = ordered[i], order[i]
        sizes[grade] += 1
    values, choice = np.empty(cells), np.empty(cells, np.int8)
    if n_grades == 2 and n_ranks == n:
        goods, bads = by_grade[0, : sizes[0]], by_grade[1, : sizes[1]]
        state = _fill_two(goods, bads, gains, decay, discount, values, choice)
    else:
        state = _fill(
            kind, index, ordered, by_grade, strides, limits, gains, n_ranks, decay, discount, values, choice
        )  # fmt: skip
    return _follow(
        state, choice, strides, limits, gains, places, kind, index, order, n_ranks, decay, discount, coef
    )  # fmt: skip


@njit(cache=True)
def _follow(
    state: int, choice: Any, strides: Any, limits: Any, gains: Any, places: Any, kind: Any, index: Any, order: Any,
    n_ranks: int, decay: Any, discount: Any, coef: Any,
) -> float:  # fmt: skip
    """Subtract A of its rank from the coefficient of every document; return the loss."""
    taken = np.empty(limits.size, np.int64)
    for grade in range(limits.size):
        taken[grade] = (state // strides[grade]) % (limits[grade] + 1)
    rank = n_ranks
    for i in range(kind.size):
        if index[i] >= taken[kind[i]]:
            coef[order[i]] -= decay[rank]
            rank += 1
    loss = 1.0
    for rank in range(n_ranks - 1, -1, -1):
        grade = choice[state]
        taken[grade] -= 1
        coef[places[grade, taken[grade]]] -= decay[rank]
        loss -= gains[grade] * discount[rank]
        state -= strides[grade]
    return loss


def is_cheap(labels: Array, n_ranks: int) -> bool:
    """Whether the dynamic programme is small enough for a query of these labels."""
    sizes = np.minimum(np.unique(labels, return_counts=True)[1], n_ranks)
    most = min(_CELLS_PER_DOCUMENT * len(labels), _MOST_CELLS)
    if 2 ** len(sizes) > most:  # every grade at least doubles the cells, which would overflow
        return False
    cells = float(np.prod(sizes + 1.0))
    if n_ranks < len(labels):
        cells += math.comb(n_ranks + len(sizes) - 1, len(sizes) - 1) * len(labels)
    return cells <= most


def assignment(scores: Array, labels: Array, parameters: Array) -> tuple[float, Array]:
    """Loss and coefficients as from `dorm`, by SciPy's solver for the linear assignment problem."""
    n, longest = len(scores), (len(parameters) - 2) // 2
    decay, discount = parameters[2 : 2 + n], parameters[2 + longest : 2 + longest + n]
    n_ranks = int(np.flatnonzero((decay > 0) | (discount > 0))[-1]) + 1
    gains = 2.0**labels - 1.0 if parameters[0] else labels
    best_first = np.argsort(-labels, kind="stable")
    gains = gains / (gains[best_first] @ discount)
    worth = np.outer(decay[:n_ranks], scores - scores.max()) - np.outer(discount[:n_ranks], gains)
    ranks, documents = linear_sum_assignment(worth, maximize=True)
    _, group, counts = np.unique(labels, return_inverse=True, return_counts=True)
    coef = (np.bincount(group[best_first], decay) / counts)[group]
    coef[documents] -= decay[ranks]
    return 1.0 - float(gains[documents] @ discount[ranks]), coef
