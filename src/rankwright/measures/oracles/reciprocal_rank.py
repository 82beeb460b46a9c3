"""Reciprocal rank on the `mrr` feature map, exactly.

    δΨ(y) = Σ over bads b above g0 of (x_g0 − x_b),   g0 the topmost good of y

The loss depends only on the rank r of g0, and the margin is smallest for the lowest-scored good and the r best bads.
"""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["reciprocal_rank"]


@njit(cache=True)
def reciprocal_rank(scores: Any, labels: Any, order: Any, parameters: Any, coef: Any, work: Any) -> float:
    """``parameters``: the cutoff k (at least the number of documents where there is none)."""
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
        if labels[place] > 0.0:
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
        if not labels[place] > 0.0:
            coef[place] = -1.0
            left -= 1
    return best_loss
