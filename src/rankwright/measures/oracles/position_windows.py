"""The most violated ranking on the `dorm` feature map for long queries, found near a given ranking.

A ranking is a path: at every rank it takes the next document of some grade. With k_g(r) documents of grade g among the
first r, and C_g(k) the sum of the k highest scores of the grade, the value of a path is

    Σ_r Σ_g (A(r−1) − A(r)) C_g(k_g(r)) − (D(r−1) − D(r)) gain_g k_g(r)

which is concave in every k_g(r), because A falls and C_g is concave. The paths are the integer flows of a network (one
unit enters at every rank, and flows on along the grades), so this is a convex cost flow: a path that no path within ±1
of its counts beats is the best of all. A dynamic programme over the paths within a few documents of one path therefore
decides whether it is the best; if not, the programme finds a better one, and starts again from there. That is too much
for more than four grades: counts may then differ from the path's by 1 in two grades only, and `_rotate` looks for a
better path in the residual network of the flow, which has one if there is any.

The first path comes from the same programme with documents taken in chunks of 2^t instead of one by one, for smaller
and smaller t. Memory is linear in the number of documents, and quadratic in that of grades.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER

MOST_GRADES = 40
"""With more, SciPy's assignment is asked: time grows with more than the square of the grades."""

_REACH = (0, 0, 4, 3, 2)  # maximum distance of counts from the path's, by the number of grades
_SHORT = 25  # SciPy's assignment is faster with fewer documents per grade
_CHUNKS = 8  # of each grade to start with, about
_ROUNDING = 4e-15  # equal paths differ by at most this, relative to the sum of magnitudes
_LEAST = 1e-16  # and distances that count by this, relative to the same


@njit(cache=True, nogil=True)
def best_path(first: Any, ordered: Any, gains: Any, decay: Any, discount: Any) -> Any:
    """The grade at every rank; ``ordered`` has the scores of grade g in ``first[g]`` … ``first[g + 1] − 1``."""
    n, n_grades = ordered.size, gains.size
    sums = np.zeros((3, n + 1))
    for i in range(n):
        sums[0, i + 1] = sums[0, i] + decay[i]
        sums[1, i + 1] = sums[1, i] + discount[i]
        sums[2, i + 1] = sums[2, i] + ordered[i]
    size = 1
    while n > _CHUNKS * n_grades * size and np.isfinite(sums[2, n]):
        size *= 2
    path, length = np.empty(n, np.int64), 0
    for grade in range(n_grades):
        for _ in range(first[grade], first[grade + 1], size):
            path[length] = grade
            length += 1
    if not np.isfinite(sums[2, n]):  # no path is best
        return path
    offsets, links, begins = _listed(*(_boxes(n_grades) if n_grades < len(_REACH) else _pairs(n_grades)))
    choice = np.empty((n + 1, offsets.shape[0]), np.int8)
    starts, mean, weights = np.zeros(n_grades + 1, np.int64), np.empty(n), np.empty((2, n))
    while True:
        for grade in range(n_grades):
            starts[grade + 1] = starts[grade]
            for low in range(first[grade], first[grade + 1], size):
                high = min(low + size, first[grade + 1])
                mean[starts[grade + 1]] = ordered[low] if size == 1 else (sums[2, high] - sums[2, low]) / (high - low)
                starts[grade + 1] += 1
        for step in range(length):
            low, high = step * n // length, (step + 1) * n // length
            weights[0, step] = decay[step] if size == 1 else (sums[0, high] - sums[0, low]) / (high - low)
            weights[1, step] = discount[step] if size == 1 else (sums[1, high] - sums[1, low]) / (high - low)
        better = True
        while better:
            while _improve(path[:length], starts, mean, gains, weights, offsets, links, begins, choice):
                pass
            better = size == 1 and n_grades >= len(_REACH) and _rotate(path, first, ordered, gains, decay, discount)
        if size == 1:
            return path
        size //= 2
        path, length = _halve(path[:length], size, first, n)


@njit(**INNER)
def _boxes(n_grades: int) -> Any:
    """Counts near those of a path, as differences to them; and the predecessor of each.

    The second, for the grade that the path takes at a rank: the state before it if another grade is taken there,
    or the number of states if that is too far from the path.
    """
    reach = _REACH[n_grades]
    side, last = 2 * reach + 1, n_grades - 1
    n_states = side**last
    offsets = np.zeros((n_states, n_grades), np.int64)
    came = np.empty((n_grades, n_states, n_grades), np.int16)
    for state in range(n_states):
        for grade in range(last):
            offsets[state, grade] = state // side**grade % side - reach
            offsets[state, last] -= offsets[state, grade]
        for grade_before in range(n_grades):
            for grade in range(n_grades):
                source = state
                if grade != grade_before and grade < last:
                    source = n_states if offsets[state, grade] == -reach else source - side**grade
                if grade != grade_before and grade_before < last and source < n_states:
                    source = n_states if offsets[state, grade_before] == reach else source + side**grade_before
                came[grade_before, state, grade] = source
    return offsets, came


@njit(**INNER)
def _pairs(n_grades: int) -> Any:
    """The same for counts that differ by 1 in two grades, more of ``up`` and less of ``down``, or not at all."""
    n_states = n_grades * (n_grades - 1) + 1
    names, middle = np.full((n_grades, n_grades), n_states), n_states // 2
    offsets = np.zeros((n_states, n_grades), np.int64)
    state = 0
    for down in range(n_grades):
        for up in range(n_grades):
            if up != down:
                state += state == middle
                names[up, down] = state
                offsets[state, up], offsets[state, down] = 1, -1
                state += 1
        names[down, down] = middle
    came = np.full((n_grades, n_states, n_grades), n_states, np.int16)
    for up in range(n_grades):
        for down in range(n_grades):
            for grade_before in range(n_grades):
                for grade in range(n_grades):  # taken instead of the path's grade, it adds 1 to its count
                    if grade == grade_before:
                        source = names[up, down]
                    elif up == down:
                        source = names[grade_before, grade]
                    elif up == grade:
                        source = names[grade_before, down]
                    elif down == grade_before:
                        source = names[up, grade]
                    else:
                        continue
                    came[grade_before, names[up, down], grade] = source
    return offsets, came


@njit(**INNER)
def _listed(offsets: Any, came: Any) -> Any:
    """States present in ``came``, the grade taken in each, and where each state's list begins."""
    n_grades, n_states, _ = came.shape
    length = 0
    for source in came.flat:
        length += source < n_states
    links, begins = np.empty((length, 2), np.int64), np.zeros((n_grades, n_states + 1), np.int64)
    length = 0
    for grade_before in range(n_grades):
        for state in range(n_states):
            begins[grade_before, state] = length
            for grade in range(n_grades):
                if came[grade_before, state, grade] < n_states:
                    links[length, 0], links[length, 1] = came[grade_before, state, grade], grade
                    length += 1
        begins[grade_before, n_states] = length
    return offsets, links, begins


@njit(**INNER)
def _halve(path: Any, size: int, first: Any, n: int) -> Any:
    """The same path in chunks of ``size`` documents, half as many as before."""
    finer, length = np.empty(n, np.int64), 0
    left = np.empty(first.size - 1, np.int64)
    for grade in range(left.size):
        left[grade] = first[grade + 1] - first[grade]
    for grade in path:
        for _ in range(1 if left[grade] <= size else 2):
            finer[length] = grade
            length += 1
            left[grade] -= size
    return finer, length


@njit(**INNER)
def _improve(
    path: Any, starts: Any, scores: Any, gains: Any, weights: Any, offsets: Any, links: Any, begins: Any, choice: Any
) -> bool:
    """Replace ``path`` by the best one near it; returns whether a better one may be near that."""
    n_states, n_grades = offsets.shape
    middle, reach = n_states // 2, -offsets[0, 0]
    farthest = reach * (n_grades - 1)
    here, before = np.empty(n_states), np.empty(n_states)
    for state in range(n_states):
        here[state] = before[state] = -np.inf
    here[middle] = old = size = 0.0
    counts, worth = np.zeros(n_grades, np.int64), np.empty((n_grades, 2 * farthest + 1))
    for step in range(path.size):
        here, before = before, here
        current = path[step]
        counts[current] += 1
        for grade in range(n_grades):
            within = reach if grade < n_grades - 1 else farthest
            for offset in range(-within, within + 1):  # a missing document is worth −inf
                place = starts[grade] + counts[grade] + offset - 1
                value = -np.inf
                if starts[grade] <= place < starts[grade + 1]:
                    value = weights[0, step] * scores[place] - weights[1, step] * gains[grade]
                worth[grade, farthest + offset] = value
        old += worth[current, farthest]
        size += abs(worth[current, farthest])
        for state in range(n_states):
            best, begin, picked = -np.inf, begins[current, state], 0
            for link in range(begin, begins[current, state + 1]):
                grade = links[link, 1]
                value = before[links[link, 0]] + worth[grade, farthest + offsets[state, grade]]
                if value > best:
                    best, picked = value, link - begin
            here[state] = best
            choice[step, state] = picked
    if not here[middle] - old > _ROUNDING * size:
        return False
    state, inside = middle, True
    for step in range(path.size - 1, -1, -1):
        for grade in range(n_grades - 1):
            inside &= abs(offsets[state, grade]) < reach
        link = begins[path[step], state] + choice[step, state]
        state, path[step] = links[link, 0], links[link, 1]
    return not inside


@njit(cache=True)
def _rotate(path: Any, first: Any, ordered: Any, gains: Any, decay: Any, discount: Any) -> bool:
    """Improve the path along a cycle of the residual network; returns whether there is one.

    A vertex is a rank and a grade. An arc to the next rank: one document more of the grade above that rank; to the
    previous rank: one less; from the path's grade to another one: this is taken instead. Bellman and Ford's algorithm,
    by turns forwards and backwards over the ranks: if it ends without a cycle, its distances prove the path the best.
    """
    n, n_grades = path.size, gains.size
    distance, parent = np.zeros((n, n_grades)), np.zeros((n, n_grades), np.int8)
    old, size = _value(path, first, ordered, gains, decay, discount)
    taken, rotated, changed = np.zeros(n_grades, np.int64), path.copy(), True
    while changed:
        changed = False
        for sign in (1, -1):
            for at in range(n):
                rank = at if sign == 1 else n - 1 - at
                if at > 0:  # cross the border between this rank and the one before it, or behind it
                    border = rank if sign == 1 else rank + 1
                    a, d = decay[border - 1] - decay[border], discount[border - 1] - discount[border]
                    taken[path[rank - 1]] += sign == 1
                    for grade in range(n_grades):
                        place = first[grade] + taken[grade] - (sign == -1)
                        if first[grade] <= place < first[grade + 1]:
                            value = distance[rank - sign, grade] + sign * (a * ordered[place] - d * gains[grade])
                            if value > distance[rank, grade] + _LEAST * size:
                                distance[rank, grade], parent[rank, grade], changed = value, sign, True
                    taken[path[rank]] -= sign == -1
                for grade in range(n_grades):
                    if distance[rank, path[rank]] > distance[rank, grade] + _LEAST * size:
                        distance[rank, grade], parent[rank, grade], changed = distance[rank, path[rank]], 2, True
        if changed and _cycle(path, parent, rotated):
            better = _value(rotated, first, ordered, gains, decay, discount)[0] - old > _ROUNDING * size
            for rank in range(n):
                path[rank] = rotated[rank] if better else path[rank]
            return better
    return False


@njit(**INNER)
def _cycle(path: Any, parent: Any, rotated: Any) -> bool:
    """Find a cycle of parents and take the grades along it in ``rotated``; returns whether there is one."""
    n, n_grades = parent.shape
    visited = np.zeros((n, n_grades), np.int64)
    for start in range(1, n * n_grades + 1):
        rank, grade = (start - 1) // n_grades, (start - 1) % n_grades
        while parent[rank, grade] != 0 and visited[rank, grade] == 0:
            visited[rank, grade] = start
            rank, grade = _before(rank, grade, path, parent)
        if parent[rank, grade] == 0 or visited[rank, grade] != start:
            continue
        while visited[rank, grade] == start:  # once round
            visited[rank, grade] = -1
            if parent[rank, grade] == 2:
                rotated[rank] = grade
            rank, grade = _before(rank, grade, path, parent)
        return True
    return False


@njit(**INNER)
def _before(rank: int, grade: int, path: Any, parent: Any) -> tuple[int, int]:
    if parent[rank, grade] == 2:
        return rank, path[rank]
    return rank - parent[rank, grade], grade


@njit(cache=True)
def _value(path: Any, first: Any, ordered: Any, gains: Any, decay: Any, discount: Any) -> tuple[float, float]:
    """The value of a path, and the sum of its terms' magnitudes."""
    taken, value, size = first.copy(), 0.0, 0.0
    for rank in range(path.size):
        grade = path[rank]
        worth = decay[rank] * ordered[taken[grade]] - discount[rank] * gains[grade]
        value, size = value + worth, size + abs(worth)
        taken[grade] += 1
    return value, size


def states_per_rank(n_grades: int) -> int:
    """Number of counts that the programme has at a rank."""
    if n_grades < len(_REACH):
        return int((2 * _REACH[n_grades] + 1) ** (n_grades - 1))
    return n_grades * (n_grades - 1) + 1


def by_windows(scores: Array, labels: Array, parameters: Array) -> tuple[float, Array]:
    """Loss and coefficients of the most violated ranking, for any query; see `Oracle.library`."""
    n = len(scores)
    decay, discount, gains, coef = _prepared(labels, parameters)
    n_grades = len(np.unique(labels))
    if n_grades > MOST_GRADES or (n_grades >= len(_REACH) and n < _SHORT * n_grades):
        return assignment(scores, labels, parameters)
    order = np.lexsort((-scores, -labels))
    first = np.append(np.flatnonzero(np.diff(labels[order], prepend=np.inf)), n)
    with np.errstate(invalid="ignore"):  # scores may be infinite
        path = best_path(first, scores[order] - scores.max(), gains[order[first[:-1]]], decay, discount)
    ranks = np.argsort(path, kind="stable")
    coef[order] -= decay[ranks]
    return 1.0 - float((gains[order] * discount[ranks]).sum()), coef


def assignment(scores: Array, labels: Array, parameters: Array) -> tuple[float, Array]:
    """The same by SciPy's solver for linear assignment."""
    from scipy.optimize import linear_sum_assignment

    decay, discount, gains, coef = _prepared(labels, parameters)
    n_ranks = int(np.flatnonzero((decay > 0) | (discount > 0))[-1]) + 1
    worth = np.outer(decay[:n_ranks], scores - scores.max()) - np.outer(discount[:n_ranks], gains)
    ranks, documents = linear_sum_assignment(worth, maximize=True)
    coef[documents] -= decay[ranks]
    return 1.0 - float((gains[documents] * discount[ranks]).sum()), coef


def _prepared(labels: Array, parameters: Array) -> tuple[Array, Array, Array, Array]:
    """A and D of the ranks; each document's gain over the ideal DCG; its mean A over all ideal rankings."""
    n, longest = len(labels), (len(parameters) - 2) // 2
    decay, discount = parameters[2 : 2 + n], parameters[2 + longest : 2 + longest + n]
    gains = 2.0**labels - 1.0 if parameters[0] else labels
    best_first = np.argsort(-labels, kind="stable")
    _, group, counts = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.bincount(group[best_first], decay) / counts
    return decay, discount, gains / (gains[best_first] * discount).sum(), means[group]
