"""Average precision: AP = (1/P) Σ over relevant documents, at ranks r from 0, of (relevant at or above r) / (1 + r).

P counts all relevant documents of the query, retrieved or not; a cutoff ends the sum and leaves P (as trec_eval).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.measures.base import Array, BinaryMeasure, Oracle, Rankings, read_only, register

__all__ = ["AP"]


@register
@dataclass(frozen=True)
class AP(BinaryMeasure):
    """Average precision; its mean over queries is MAP."""

    name: ClassVar[str] = "AP"
    aliases: ClassVar[tuple[str, ...]] = ("map", "map_cut")

    def value(self, rankings: Rankings) -> Array:
        """Precision at the places of the relevant documents, summed, over all relevant documents."""
        top = rankings.top(self.cutoff)
        relevant = self.relevant(top)
        # Few documents are relevant: count and rank only those.
        places = np.flatnonzero(relevant)
        hits_before = np.searchsorted(places, top.indptr)
        query_start = np.repeat(hits_before[:-1], np.diff(hits_before))
        hits = np.arange(1, len(places) + 1) - query_start
        found = Rankings(hits / (top.rank[places] + 1.0), hits_before)
        return found.sum(found.labels) / self.n_relevant(rankings)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """The best place of every non-relevant document; there is none with a cutoff."""
        if self.cutoff is not None:
            return super().oracle()
        self.check_feature_map(feature_map, "po")
        from rankwright.measures.oracles.partial_order import average_precision  # here, for it loads numba

        def harmonic_numbers(longest: int) -> Array:
            return read_only(np.cumsum(np.append(0.0, 1.0 / np.arange(1, longest + 1))))

        return Oracle(average_precision, harmonic_numbers, "po")

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        # Lifting the relevant document from rank j to i < j, where a non-relevant one stood, gives i the precision
        # (hits before i + 1)/(i + 1), adds 1/(r + 1) for every relevant r between them, and takes j's own away.
        n = len(labels)
        rel = (labels >= self.rel).astype(np.float64)
        inside = np.arange(n) < (self.cutoff or n)
        weight = np.where(inside, 1.0 / (np.arange(n) + 1.0), 0.0)
        hits = np.cumsum(rel)
        before = np.concatenate([[0.0], np.cumsum(rel * weight)])[:-1]  # Σ of weights of the relevant above each rank
        upper, lower = np.triu_indices(n, 1)
        between = before[lower] - before[upper + 1] if n else np.zeros(0)
        lift = weight[upper] * (hits[upper] + 1.0) + between - weight[lower] * hits[lower]
        # The other way round, i relevant and j not: i's precision goes, those between lose one hit, j gets its own.
        drop = weight[lower] * hits[lower] - between - weight[upper] * hits[upper]
        change = np.where(rel[lower] > rel[upper], lift, np.where(rel[lower] < rel[upper], drop, 0.0))
        deltas = np.zeros((n, n))
        deltas[upper, lower] = deltas[lower, upper] = change
        return deltas / max((judged >= self.rel).sum(), 1)
