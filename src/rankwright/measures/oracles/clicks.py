"""All pairs of a clicked document and any other of its page (Ranking SVM from clicks), without listing them.

    Σ over documents i of v_i Σ over j ≠ i of [1 − (s_i − s_j)]₊,     v_i: the weight of the clicks of i, or 0

Of two clicked documents each should be above the other, by its own weight. A sweep down the scores counts the documents
within 1 of the current one, a sweep up sums their weights: O(n log n).
"""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["clicks"]


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
