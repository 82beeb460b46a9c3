"""nDCG on the `dorm` feature map (DORM): positions have weights, and a ranking is an assignment of documents to them.

    Ψ(y) = Σ_i A(r_i) x_i,   the most violated ranking: argmax Σ_i A(r_i) s_i − gain_i D(r_i) / ideal

Where A = D, as for the default decay without a cutoff, that is Σ_i D(r_i) (s_i − gain_i / ideal): a sort. Otherwise
documents of one grade keep the order of their scores, so a ranking of the ranks with a discount is a path that takes
the next document of some grade at each: a dynamic programme over how many were taken of each grade. Below the last such
rank only the scores matter. Where that programme is large, :mod:`rankwright.measures.oracles.position_windows` runs it
near a path only; where there are too many grades for that, a library solves the assignment. All are exact.

Ψ(y*) is the mean over all ideal rankings: documents of one grade share the weights of the places of that grade.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER
from rankwright.measures.oracles.position_windows import MOST_GRADES, states_per_rank

_MOST_CELLS = 1 << 20  # of a table: 9 MB
_CELLS_PER_STATE = 4  # above about this many per state of the windows, the windows are faster


@njit(**INNER)
def _find(values: Any, label: float) -> int:
    """First place in falling ``values`` that is not above the label."""
    low, high = 0, values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] > label:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**INNER)
def _grades(labels: Any, values: Any, sizes: Any) -> int:
    """The distinct labels, highest first, the number of documents of each, and the number of labels."""
    n_grades = 0
    for i in range(labels.size):
        place = _find(values[:n_grades], labels[i])
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
def dorm(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``parameters``: whether gains are exponential, the ranks with a discount, then A and D of each of the ranks."""
    n = scores.size
    longest = (parameters.size - 2) // 2
    decay, discount = parameters[2 : 2 + n], parameters[2 + longest : 2 + longest + n]
    values, sizes = np.empty(n), np.empty(n, np.int64)
    n_grades = _grades(labels, values, sizes)
    gains, means, first = np.empty(n_grades), np.zeros(n_grades), np.zeros(n_grades + 1, np.int64)
    ideal = 0.0
    for grade in range(n_grades):
        gains[grade] = 2.0 ** values[grade] - 1.0 if parameters[0] > 0.0 else values[grade]
        first[grade + 1] = first[grade] + sizes[grade]
        for rank in range(first[grade], first[grade + 1]):
            ideal += gains[grade] * discount[rank]
            means[grade] += decay[rank] / sizes[grade]
    # In score order: the grade of each document, and its score, less the highest one so that small differences count.
    # By grade, and then in score order: its place in the former order, and its score again.
    kind, ordered, places, by_grade = np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64), np.empty(n)
    for i in range(n):
        grade = _find(values[:n_grades], labels[order[i]])
        at = first[grade + 1] - sizes[grade]
        sizes[grade] -= 1
        coef[order[i]] = means[grade]
        kind[i], ordered[i] = grade, scores[order[i]] - scores[order[0]]
        places[at], by_grade[at] = i, ordered[i]
    for grade in range(n_grades):
        gains[grade] /= ideal
    if _alike(decay, discount):
        ranking = _merged(first, by_grade, gains, places)
    else:
        path = _table(kind, ordered, first, by_grade, gains, min(int(parameters[1]), n), decay, discount)
        ranking = np.empty(n, np.int64)
        for rank in range(n):
            ranking[rank] = places[first[path[rank]]]
            first[path[rank]] += 1
    loss = 1.0
    for rank in range(n):
        coef[order[ranking[rank]]] -= decay[rank]
        loss -= gains[kind[ranking[rank]]] * discount[rank]
    return loss


@njit(**INNER)
def _alike(decay: Any, discount: Any) -> bool:
    rank = 0
    while rank < decay.size and decay[rank] == discount[rank]:
        rank += 1
    return rank == decay.size


@njit(**INNER)
def _merged(first: Any, by_grade: Any, gains: Any, places: Any) -> Any:
    """The places of all documents by score less gain, highest first; of equal ones those of the higher grade first."""
    n, runs, bounds = places.size, gains.size, first.copy()
    keys, other_keys, other = np.empty(n), np.empty(n), np.empty(n, np.int64)
    for grade in range(runs):
        for i in range(first[grade], first[grade + 1]):
            keys[i] = by_grade[i] - gains[grade]
    while runs > 1:  # merge two neighbours each
        for run in range(0, runs, 2):
            start, middle, stop = bounds[run], bounds[run + 1], bounds[min(run + 2, runs)]
            bounds[run // 2] = start
            left, right = start, middle
            for i in range(start, stop):
                if right == stop or (left < middle and not keys[right] > keys[left]):
                    other_keys[i], other[i] = keys[left], places[left]
                    left += 1
                else:
                    other_keys[i], other[i] = keys[right], places[right]
                    right += 1
        runs = (runs + 1) // 2
        bounds[runs] = n
        keys, other_keys, places, other = other_keys, keys, other, places
    return places


@njit(**INNER)
def _table(
    kind: Any, ordered: Any, first: Any, by_grade: Any, gains: Any, n_ranks: int, decay: Any, discount: Any
) -> Any:
    """The best path from the value and last choice of every state, as the number taken of each grade."""
    n, n_grades, cells = kind.size, gains.size, 1
    limits, strides = np.empty(n_grades, np.int64), np.empty(n_grades, np.int64)
    for grade in range(n_grades - 1, -1, -1):
        limits[grade] = min(first[grade + 1] - first[grade], n_ranks)
        strides[grade] = cells
        cells *= limits[grade] + 1
    values, choice, path = np.empty(cells), np.empty(cells, np.int8), np.empty(n, np.int64)
    below = np.zeros(n + 1)  # Σ A(r) s from a rank on, in score order
    for rank in range(n - 1, -1, -1):
        below[rank] = below[rank + 1] + decay[rank] * ordered[rank]
    state = _fill(
        kind, ordered, below, first, by_grade, strides, limits, gains, n_ranks, decay, discount, values, choice
    )
    taken = np.empty(n_grades, np.int64)
    for grade in range(n_grades):
        taken[grade] = (state // strides[grade]) % (limits[grade] + 1)
    for rank in range(n_ranks - 1, -1, -1):
        path[rank] = choice[state]
        state -= strides[path[rank]]
    rank = n_ranks
    for i in range(n):
        if taken[kind[i]] > 0:
            taken[kind[i]] -= 1
        else:
            path[rank] = kind[i]
            rank += 1
    return path


@njit(**INNER)
def _fill(
    kind: Any, ordered: Any, below: Any, first: Any, by_grade: Any, strides: Any, limits: Any, gains: Any, n_ranks: int,
    decay: Any, discount: Any, values: Any, choice: Any,
) -> int:  # fmt: skip
    """Value and last choice of every state that can be reached; the best final one."""
    n_grades = limits.size
    taken, left = np.zeros(n_grades, np.int64), np.empty(n_grades, np.int64)
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
        value, picked = -np.inf, -1
        for grade in range(n_grades):
            if taken[grade] > 0:
                other = values[state - strides[grade]] + decay[total - 1] * by_grade[first[grade] + taken[grade] - 1]
                other -= gains[grade] * discount[total - 1]
                if picked < 0 or other > value:  # some choice, even if scores are nan
                    value, picked = other, grade
        values[state], choice[state] = value, picked
        if total == n_ranks:
            if n_ranks < kind.size:
                for grade in range(n_grades):
                    left[grade] = taken[grade]
                value += _rest(kind, ordered, below, left, n_ranks, decay)
            if best_state < 0 or value > best:
                best, best_state = value, state


@njit(**INNER)
def _rest(kind: Any, ordered: Any, below: Any, left: Any, rank: int, decay: Any) -> float:
    """Σ A(r) s from ``rank`` on in score order, ``left`` documents of each grade left out."""
    total, i = 0.0, 0
    while i < rank and rank < kind.size:
        if left[kind[i]] > 0:
            left[kind[i]] -= 1
        else:
            total += decay[rank] * ordered[i]
            rank += 1
        i += 1
    return total + below[rank]


def is_cheap(labels: Array, n_ranks: int, alike: bool) -> bool:
    """Whether the kernel suits a query: it is a sort, or the table is small and faster than windows."""
    if alike:
        return True
    n, sizes = len(labels), np.unique(labels, return_counts=True)[1]
    n_grades, limits = len(sizes), np.minimum(sizes, n_ranks)
    if 2**n_grades > _MOST_CELLS or float(np.prod(limits + 1.0)) > _MOST_CELLS:
        return False
    if n_grades > MOST_GRADES:
        return True
    states = min(math.prod((limits + 1).tolist()), math.comb(n_ranks + n_grades, n_grades))
    deepest = n * float((limits / (sizes + 1)).max())  # about, in score order, of the documents that may be taken
    ends = math.comb(n_ranks + n_grades - 1, n_grades - 1) * deepest if n_ranks < n else 0.0
    return states + ends / n_grades <= _CELLS_PER_STATE * n * states_per_rank(n_grades)
