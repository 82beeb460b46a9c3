"""Area under the ROC curve: the share of (relevant, non-relevant) pairs of a query in the right order.

Relevant documents that were not retrieved rank below every retrieved one; non-relevant ones that were not retrieved are
ignored. A query whose retrieved documents are all relevant has no pair out of order and counts 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Oracle, Rankings, Swaps, read_only, register


@register
@dataclass(frozen=True)
class AUC(BinaryMeasure):
    """Share of the pairs of a relevant and a non-relevant document that are in order."""

    aliases = ("roc_auc", "rocarea")
    takes_cutoff = False
    feature_maps = ("po",)

    def value(self, rankings: Rankings) -> Array:
        """Count, for each non-relevant document, the relevant ones above it."""
        relevant = self.relevant(rankings)
        above = rankings.cumsum(relevant)
        ordered = rankings.sum(np.where(relevant, 0.0, above))
        all_relevant = rankings.sum(relevant.astype(np.float64)) == rankings.sizes
        return np.where(all_relevant, self.has_relevant(rankings), ordered / self.norms(rankings))

    def norms(self, rankings: Rankings) -> Array:
        """Pairs of a relevant and a retrieved non-relevant document."""
        n_bad = rankings.sum((~self.relevant(rankings)).astype(np.float64))
        return np.maximum(self.n_relevant(rankings) * n_bad, 1.0)

    def swaps(self) -> Swaps:
        return Swaps(_changes)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """Decides every pair on its own."""
        self.check_feature_map(feature_map)
        from rankwright.measures.oracles.pairs import auc  # loads numba

        return Oracle(auc, lambda longest: read_only([]), "po", hinge_learns=True)


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """Swapping a relevant and a non-relevant document d ranks apart reverses d pairs."""
    for j in range(i + 1, worth.size):
        out[j] = (worth[j] - worth[i]) * (j - i)
