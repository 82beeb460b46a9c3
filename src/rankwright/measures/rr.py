"""Reciprocal rank: RR@k = 1/(1+r) of the first relevant document, r from 0; 0 if there is none among the first k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.measures.base import Array, BinaryMeasure, Oracle, Rankings, read_only, register

__all__ = ["RR"]


@register
@dataclass(frozen=True)
class RR(BinaryMeasure):
    """Reciprocal rank of the first relevant document; its mean over queries is MRR."""

    name: ClassVar[str] = "RR"
    aliases: ClassVar[tuple[str, ...]] = ("mrr", "recip_rank")

    def value(self, rankings: Rankings) -> Array:
        """One over the rank of the first relevant document."""
        places = np.flatnonzero(self.relevant(rankings))
        first = np.searchsorted(places, rankings.indptr[:-1])
        found = np.append(places, len(rankings.labels))[first]
        rank = found - rankings.indptr[:-1]
        limit = rankings.sizes if self.cutoff is None else np.minimum(rankings.sizes, self.cutoff)
        return np.where(rank < limit, 1.0 / (rank + 1.0), 0.0)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """The lowest-scored relevant document under the best others; on the map ``"po"``, the best one."""
        from rankwright.measures.oracles import reciprocal_rank as kernels  # here, for it loads numba

        self.check_feature_map(feature_map, "mrr", "po")
        kernel = kernels.reciprocal_rank_of_pairs if feature_map == "po" else kernels.reciprocal_rank
        return Oracle(kernel, lambda longest: read_only([min(self.cutoff or longest, longest)]), feature_map or "mrr")

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        n = len(labels)
        rel = labels >= self.rel
        weight = np.where(np.arange(n) < (self.cutoff or n), 1.0 / (np.arange(n) + 1.0), 0.0)
        deltas = np.zeros((n, n))
        if not rel.any():
            return deltas
        first = int(np.argmax(rel))
        # A relevant document below rises above the first one …
        deltas[:first, first:] = np.where(rel[first:], weight[:first, None] - weight[first], 0.0)
        # … or the first one sinks: what comes to the top is the second, or itself where it lands, if that is higher.
        second = first + 1 + int(np.argmax(rel[first + 1 :])) if rel[first + 1 :].any() else n
        lands = np.minimum(np.arange(n), second)
        sinks = ~rel & (np.arange(n) > first)
        deltas[first, sinks] = weight[lands[sinks]] - weight[first]
        return np.triu(deltas, 1) + np.triu(deltas, 1).T
