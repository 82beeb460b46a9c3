"""nDCG on the `dorm` feature map (DORM): positions have weights, and a ranking is an assignment of documents to them.

    Ψ(y) = Σ_i A(r_i) x_i,   the most violated ranking: argmax Σ_i A(r_i) s_i − gain_i D(r_i) / ideal

Where A = D, as for the default decay without a cutoff, that is Σ_i D(r_i) (s_i − gain_i / ideal): a sort. Otherwise
documents of one grade keep the order of their scores, so a ranking of the ranks with a discount is a path that takes
the next document of some grade at each: a dynamic programme over how many were taken of each grade. Below the last such
rank only the scores matter. Where that programme is large, `by_windows` runs it near a path only; where there are too
many grades for that, a library solves the assignment. All are exact.

Ψ(y*) is the mean over all ideal rankings: documents of one grade share the weights of the places of that grade.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER

_MOST_CELLS = 1 << 20  # of a table: 9 MB
_CELLS_PER_STATE = 4  # above about this many per state of the windows, the windows are faster


@njit(**INNER)
def _find(values: Array, label: float) -> int:
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
def _grades(labels: Array, values: Array, sizes: Array) -> int:
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
def dorm(scores: Array, labels: Array, order: Array, parameters: Array, coef: Array, work: Array) -> float:
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
def _alike(decay: Array, discount: Array) -> bool:
    rank = 0
    while rank < decay.size and decay[rank] == discount[rank]:
        rank += 1
    return rank == decay.size


@njit(**INNER)
def _merged(first: Array, by_grade: Array, gains: Array, places: Array) -> Any:
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
    kind: Array,
    ordered: Array,
    first: Array,
    by_grade: Array,
    gains: Array,
    n_ranks: int,
    decay: Array,
    discount: Array,
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
    kind: Array, ordered: Array, below: Array, first: Array, by_grade: Array, strides: Array, limits: Array,
    gains: Array, n_ranks: int, decay: Array, discount: Array, values: Array, choice: Array,
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
def _rest(kind: Array, ordered: Array, below: Array, left: Array, rank: int, decay: Array) -> float:
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


# The most violated ranking of long queries, found near a given ranking.
#
# A ranking is a path: at every rank it takes the next document of some grade. With k_g(r) documents of grade g among
# the first r, and C_g(k) the sum of the k highest scores of the grade, the value of a path is
#
#     Σ_r Σ_g (A(r−1) − A(r)) C_g(k_g(r)) − (D(r−1) − D(r)) gain_g k_g(r)
#
# which is concave in every k_g(r), because A falls and C_g is concave. The paths are the integer flows of a network
# (one unit enters at every rank, and flows on along the grades), so this is a convex cost flow: a path that no path
# within ±1 of its counts beats is the best of all. A dynamic programme over the paths within a few documents of one
# path therefore decides whether it is the best; if not, the programme finds a better one, and starts again from there.
# That is too much for more than four grades: counts may then differ from the path's by 1 in two grades only, and
# `_rotate` looks for a better path in the residual network of the flow, which has one if there is any.
#
# The first path comes from the same programme with documents taken in chunks of 2^t instead of one by one, for smaller
# and smaller t. Memory is linear in the number of documents, and quadratic in that of grades.


MOST_GRADES = 40
"""With more, SciPy's assignment is asked: time grows with more than the square of the grades."""

_REACH = (0, 0, 4, 3, 2)  # maximum distance of counts from the path's, by the number of grades
_SHORT = 25  # SciPy's assignment is faster with fewer documents per grade
_CHUNKS = 8  # of each grade to start with, about
_ROUNDING = 4e-15  # equal paths differ by at most this, relative to the sum of magnitudes
_LEAST = 1e-16  # and distances that count by this, relative to the same


@njit(cache=True, nogil=True)
def best_path(first: Array, ordered: Array, gains: Array, decay: Array, discount: Array) -> Any:
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
def _listed(offsets: Array, came: Array) -> Any:
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
def _halve(path: Array, size: int, first: Array, n: int) -> Any:
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
    path: Array,
    starts: Array,
    scores: Array,
    gains: Array,
    weights: Array,
    offsets: Array,
    links: Array,
    begins: Array,
    choice: Array,
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
def _rotate(path: Array, first: Array, ordered: Array, gains: Array, decay: Array, discount: Array) -> bool:
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
def _cycle(path: Array, parent: Array, rotated: Array) -> bool:
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
def _before(rank: int, grade: int, path: Array, parent: Array) -> tuple[int, int]:
    if parent[rank, grade] == 2:
        return rank, path[rank]
    return rank - parent[rank, grade], grade


@njit(cache=True)
def _value(path: Array, first: Any, ordered: Array, gains: Array, decay: Array, discount: Array) -> tuple[float, float]:
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
