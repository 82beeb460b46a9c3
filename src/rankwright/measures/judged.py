"""How much of the top of a ranking is judged: Judged@k = judged among the first k, divided by the smaller of k and n.

n is the number of ranked documents, as in ir_measures. It says nothing about the quality of a ranking, but how far
other measures can be trusted, since they count unjudged documents as not relevant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import Measure, Rankings, register
from rankwright.measures.forms import Swaps


@register
@dataclass(frozen=True)
class Judged(Measure):
    """The share of the first ``cutoff`` documents that have a judgement."""

    name: ClassVar[str] = "Judged"
    needs_cutoff: ClassVar[bool] = True
    is_goal: ClassVar[bool] = False

    def value(self, rankings: Rankings) -> Array:
        top = rankings.top(self.cutoff)
        judged = np.ones(len(top.labels)) if top.is_judged is None else top.is_judged.astype(np.float64)
        return top.sum(judged) / np.maximum(top.sizes, 1)

    def has_relevant(self, rankings: Rankings) -> Array:
        """All queries count: a judgement may say that nothing is relevant."""
        return np.ones(rankings.n_queries, bool)

    def swaps(self) -> Swaps:
        """No changes: in training, all documents have labels."""
        return Swaps(_changes)

    def definition(self) -> str:
        return "share of the first documents that have a judgement"


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """Judged documents swap with judged ones."""
    for j in range(i + 1, worth.size):
        out[j] = 0.0
