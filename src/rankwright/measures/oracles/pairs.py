"""All pairs of documents with different grades (Ranking SVM), without listing them.

    Σ over pairs with z_i > z_j of τ(z_i, z_j) [1 − (s_i − s_j)]₊

A sweep down the scores tracks, per grade, how many documents are within 1 of the current one: O(n log n + n·L).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def pairs(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``labels``: grades 0 … L−1. ``parameters``: L, then τ as an L × L table (row: the higher grade)."""
    n = scores.size
    n_grades = int(parameters[0])
    near = np.zeros(n_grades)
    for i in range(n):
        coef[i] = 0.0
    total = 0.0
    # Winners: the documents of lower grades scored above s_i − 1.
    reached = 0
    for place in range(n):
        i = order[place]
        while reached < n and scores[order[reached]] > scores[i] - 1.0:
            near[int(labels[order[reached]])] += 1.0
            reached += 1
        grade = int(labels[i])
        weight = 0.0
        for lower in range(grade):
            weight += parameters[1 + grade * n_grades + lower] * near[lower]
        coef[i] += weight
        total += weight
    # Losers: the documents of higher grades scored below s_j + 1.
    near[:] = 0.0
    reached = n - 1
    for place in range(n - 1, -1, -1):
        j = order[place]
        while reached >= 0 and scores[order[reached]] - 1.0 < scores[j]:
            near[int(labels[order[reached]])] += 1.0
            reached -= 1
        grade = int(labels[j])
        for higher in range(grade + 1, n_grades):
            coef[j] -= parameters[1 + higher * n_grades + grade] * near[higher]
    return total


# All pairs of a clicked document and any other of its page (Ranking SVM from clicks), without listing them.
#
#     Σ over documents i of v_i Σ over j ≠ i of [1 − (s_i − s_j)]₊,     v_i: the weight of the clicks of i, or 0
#
# Of two clicked documents each should be above the other, by its own weight. A sweep down the scores counts the
# documents within 1 of the current one, a sweep up sums their weights: O(n log n).


@njit(cache=True)
def clicks(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``labels``: the weights v. There are no parameters."""
    n = scores.size
    total = 0.0
    reached = 0
    for place in range(n):
        i = order[place]
        while reached < n and scores[order[reached]] > scores[i] - 1.0:
            reached += 1
        coef[i] = labels[i] * (reached - 1)  # the document itself is included
        total += coef[i]
    near = 0.0
    reached = n - 1
    for place in range(n - 1, -1, -1):
        j = order[place]
        while reached >= 0 and scores[order[reached]] - 1.0 < scores[j]:
            near += labels[order[reached]]
            reached -= 1
        coef[j] -= near - labels[j]
    return total
