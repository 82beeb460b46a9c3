"""Reciprocal rank: RR@k = 1/(1+r) of the first relevant document, r from 0; 0 if there is none among the first k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import (
    REGISTRY,
    BinaryMeasure,
    Measure,
    Oracle,
    PositionSum,
    Rankings,
    read_only,
    register,
)


@register
@dataclass(frozen=True)
class RR(PositionSum, BinaryMeasure):
    """Reciprocal rank of the first relevant document; its mean over queries is MRR."""

    aliases = ("mrr", "recip_rank")
    feature_maps = ("po", "mrr")
    loss_name = "mrr"
    loss_has_cutoff = True

    def value(self, rankings: Rankings) -> Array:
        places = np.flatnonzero(self.relevant(rankings))
        first = np.searchsorted(places, rankings.indptr[:-1])
        topmost = np.append(places, len(rankings.labels))[first]
        rank = topmost - rankings.indptr[:-1]
        limit = rankings.sizes if self.cutoff is None else np.minimum(rankings.sizes, self.cutoff)
        return np.where(rank < limit, 1.0 / (rank + 1.0), 0.0)

    def discounts(self, ranks: Array) -> Array:
        """One over the number of documents down to each rank."""
        return np.asarray(1.0 / (ranks + 1.0))

    def credits(self, hits: Array) -> Array:
        return (hits == 1).astype(np.float64)

    def smoother(self) -> Measure:
        """nDCG@10: RR looks at the first relevant document alone."""
        return REGISTRY["ndcg"](cutoff=10)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """Puts the highest-scored relevant document below the best others; on ``"mrr"``, the lowest-scored one."""
        from rankwright.measures.oracles.pairs import reciprocal_rank, reciprocal_rank_of_pairs  # loads numba

        self.check_feature_map(feature_map)
        kernel = reciprocal_rank if feature_map == "mrr" else reciprocal_rank_of_pairs
        return Oracle(kernel, lambda longest: read_only([min(self.cutoff or longest, longest)]), feature_map or "po")
