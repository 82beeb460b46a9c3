"""Average precision: AP = (1/P) Σ over relevant documents, at ranks r from 0, of (relevant at or above r) / (1 + r).

P counts all relevant documents of the query, retrieved or not; a cutoff ends the sum but does not change P (as in
trec_eval).

GMAP = exp(mean over queries of ln max(AP, 0.00001)), as in trec_eval: only the mean differs from that of AP, and poor
queries count for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Oracle, PositionSum, Rankings, read_only, register

_LEAST_AP = 0.00001


@register
@dataclass(frozen=True)
class AP(PositionSum, BinaryMeasure):
    """Average precision; its mean over queries is MAP."""

    aliases = ("map", "map_cut")
    feature_maps = ("po",)
    loss_name = "map"

    def value(self, rankings: Rankings) -> Array:
        """Sum of the precision at each relevant document, over the number of relevant documents."""
        top = rankings.top(self.cutoff)
        relevant = self.relevant(top)
        # Few documents are relevant: count and rank only those.
        places = np.flatnonzero(relevant)
        hits_before = np.searchsorted(places, top.indptr)
        query_start = np.repeat(hits_before[:-1], np.diff(hits_before))
        hits = np.arange(1, len(places) + 1) - query_start
        at_relevant = Rankings(hits / (top.rank[places] + 1.0), hits_before)
        return at_relevant.sum(at_relevant.labels) / self.n_relevant(rankings)

    def discounts(self, ranks: Array) -> Array:
        """One over the number of documents down to each rank."""
        return np.asarray(1.0 / (ranks + 1.0))

    def credits(self, hits: Array) -> Array:
        """The k-th relevant document counts k."""
        return hits.astype(np.float64)

    def norms(self, rankings: Rankings) -> Array:
        return self.n_relevant(rankings)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """Finds the best place of every non-relevant document; not available with a cutoff."""
        if self.cutoff is not None:
            return super().oracle()
        self.check_feature_map(feature_map)
        from rankwright.measures.oracles.pairs import average_precision  # loads numba

        def harmonic_numbers(longest: int) -> Array:
            return read_only(np.cumsum(np.append(0.0, 1.0 / np.arange(1, longest + 1))))

        return Oracle(average_precision, harmonic_numbers, "po", hinge_learns=True)


@register
@dataclass(frozen=True)
class GMAP(BinaryMeasure):
    """Average precision with a geometric mean over queries."""

    aliases = ("gm_map",)
    evaluates_only = "it is a geometric mean over queries; expected AP"
    is_mean = False

    def value(self, rankings: Rankings) -> Array:
        return AP(self.cutoff, self.rel).value(rankings)

    def mean(self, values: Array) -> float:
        return float(np.exp(super().mean(np.log(np.maximum(values, _LEAST_AP)))))

    def definition(self) -> str:
        return f"{super().definition()}, geometric mean over queries of AP, at least {_LEAST_AP:.5f}"
