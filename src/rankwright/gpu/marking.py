"""Labels for the ramp bound on the map of reciprocal rank, on the card: only a query's topmost good counts."""

from __future__ import annotations

from typing import Any

from numba import cuda

from rankwright.measures.oracles.common import OTHER

__all__ = ["mark_others"]


@cuda.jit(cache=True)
def mark_others(indptr: Any, scores: Any, original: Any, before: Any, cost: Any, labels: Any, changes: Any) -> None:
    """Label all goods but the topmost of every query as neither good nor bad; count what changed. A thread a query."""
    q = cuda.grid(1)
    if q >= indptr.size - 1:
        return
    top = -1
    for i in range(indptr[q], indptr[q + 1]):
        labels[i] = original[i]
        if cost[q] != 0.0 and original[i] > 0.0:
            if top >= 0 and scores[i] <= scores[top]:
                labels[i] = OTHER
            else:
                if top >= 0:
                    labels[top] = OTHER
                top = i
    changed = 0
    for i in range(indptr[q], indptr[q + 1]):
        if labels[i] != before[i]:
            changed += 1
    if changed:
        cuda.atomic.add(changes, 0, changed)
