"""Binary preference: how often judged non-relevant documents are above relevant ones (Buckley and Voorhees 2004).

Bpref = (1/P) Σ over retrieved relevant documents of 1 − min(n, P) / min(N, P), with n judged non-relevant documents
above it and N in total. Documents without a judgement are passed over, and so are those with a label below 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Rankings, register


@register
@dataclass(frozen=True)
class Bpref(BinaryMeasure):
    """Binary preference, for incomplete judgements."""

    name: ClassVar[str] = "Bpref"
    takes_cutoff: ClassVar[bool] = False

    def value(self, rankings: Rankings) -> Array:
        """The mean share of the preferences that each relevant document satisfies."""
        relevant, total = self.relevant(rankings), self.n_relevant(rankings)
        above = rankings.cumsum(self._not_relevant(rankings))
        n_not_relevant = rankings.known.sum(self._not_relevant(rankings.known).astype(np.float64))
        limit = np.repeat(np.maximum(np.minimum(n_not_relevant, total), 1.0), rankings.sizes)
        wrong = np.minimum(above, np.repeat(total, rankings.sizes)) / limit
        return rankings.sum(np.where(relevant, 1.0 - wrong, 0.0)) / total

    def _not_relevant(self, rankings: Rankings) -> Array:
        grades = rankings.labels if rankings.grades is None else rankings.grades
        return np.asarray((grades >= 0) & (grades < self.rel))

    def definition(self) -> str:
        return f"{super().definition()}, documents without a judgement passed over"
