"""Area under the ROC curve: the share of (relevant, non-relevant) pairs of a query that stand in order.

Relevant documents that were not retrieved stand below every retrieved one; non-relevant ones that were not retrieved do
not count. A query whose retrieved documents are all relevant has no pair out of order, and counts 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.measures.base import Array, BinaryMeasure, Oracle, Rankings, read_only, register

__all__ = ["AUC"]


@register
@dataclass(frozen=True)
class AUC(BinaryMeasure):
    """Share of the pairs of a relevant and a non-relevant document that are in order."""

    name: ClassVar[str] = "AUC"
    aliases: ClassVar[tuple[str, ...]] = ("roc_auc", "rocarea")
    takes_cutoff: ClassVar[bool] = False

    def value(self, rankings: Rankings) -> Array:
        """Count, for each non-relevant document, the relevant ones above it."""
        relevant = self.relevant(rankings)
        above = rankings.cumsum(relevant)
        ordered = rankings.sum(np.where(relevant, 0.0, above))
        n_bad = rankings.sum((~relevant).astype(np.float64))
        pairs = self.n_relevant(rankings) * n_bad
        return np.where(pairs > 0, ordered / np.maximum(pairs, 1.0), self.has_relevant(rankings))

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """Every pair for itself."""
        self.check_feature_map(feature_map, "po")
        from rankwright.measures.oracles.partial_order import auc  # here, for it loads numba

        return Oracle(auc, lambda longest: read_only([]), "po")

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        # Swapping a good and a bad document that stand d ranks apart turns d pairs around.
        rel = (labels >= self.rel).astype(np.float64)
        places = np.arange(len(labels), dtype=np.float64)
        pairs = max((judged >= self.rel).sum(), 1) * (rel == 0).sum()
        return np.subtract.outer(rel, rel) * np.subtract.outer(places, places) / max(pairs, 1)
