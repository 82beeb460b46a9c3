"""Reciprocal rank, exactly, on the `mrr` feature map, and on the `po` map of all pairs.

    δΨ(y) = Σ over bads b above g0 of (x_g0 − x_b),   g0 the topmost good of y

The loss depends only on the rank r of g0, and the margin is smallest for the lowest-scored good and the r best bads.
On the `po` map every good has a margin with the bads above it: the best good goes below r bads, the others where their
margin is smallest, but not above it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright.measures.oracles.common import good_and_bad


@njit(cache=True)
def reciprocal_rank(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``parameters``: the cutoff k (without one, at least the number of documents). Labels below 0 do not count."""
    n = scores.size
    coef[:] = 0.0
    last = n - 1
    while not labels[order[last]] > 0.0:
        last -= 1
    lowest = scores[order[last]]
    best, best_rank, best_loss = 0.0, 0, 0.0
    margin = 0.0
    rank = 0
    for place in order:
        if labels[place] != 0.0:
            continue
        rank += 1
        step = scores[place] - lowest
        margin += step
        loss = 1.0 - 1.0 / (1.0 + rank) if rank < parameters[0] else 1.0
        if loss + margin > best:
            best, best_rank, best_loss = loss + margin, rank, loss
        if step <= 0.0 and 1.0 + margin <= best:
            break  # the loss is at most 1, and the margin only falls from here
    coef[order[last]] = best_rank
    left = best_rank
    for place in order:
        if left == 0:
            break
        if labels[place] == 0.0:
            coef[place] = -1.0
            left -= 1
    return best_loss


@njit(cache=True)
def reciprocal_rank_of_pairs(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``parameters``: the cutoff k (without one, at least the number of documents)."""
    n = scores.size
    places, ordered, above = work[:n].view(np.int64), work[n : 2 * n], work[2 * n : 3 * n].view(np.int64)
    n_good = good_and_bad(scores, labels, order, places, ordered, above)
    n_bad = n - n_good
    unit = 2.0 / (n_good * n_bad)
    # As r rises, the goods above bad r are pushed below it; those below it by their scores stay where they are.
    best, best_rank = 0.0, 0
    gained, pushed, their_scores = 0.0, 0, 0.0
    for rank in range(1, n_bad + 1):
        while pushed < n_good and above[pushed] < rank:
            their_scores += ordered[pushed]
            pushed += 1
        gained += unit * (pushed * ordered[n_good + rank - 1] - their_scores)
        loss = 1.0 - 1.0 / (1.0 + rank) if rank < parameters[0] else 1.0
        if loss + gained > best:
            best, best_rank = loss + gained, rank
        if 1.0 + gained <= best:
            break  # the loss is at most 1, and the gain only falls
    loss = 0.0
    if best_rank > 0 or above[0] > 0:
        first = max(best_rank, above[0])
        loss = 1.0 - 1.0 / (1.0 + first) if first < parameters[0] else 1.0
    for good in range(n_good):
        coef[places[good]] = unit * max(best_rank, above[good])
    ahead = n_good
    for bad in range(n_bad - 1, -1, -1):
        while ahead > 0 and max(best_rank, above[ahead - 1]) > bad:
            ahead -= 1
        coef[places[n_good + bad]] = -unit * (n_good - ahead)
    return loss
