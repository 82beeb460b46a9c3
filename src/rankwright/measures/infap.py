"""Average precision from a sample of judgements: infAP (Yilmaz and Aslam 2006) and xinfAP (Yilmaz et al. 2008).

At a relevant document with k documents above it, of which d are in the pool, precision is estimated as

    1/(k+1) + d/(k+1) · (r + ε) / (r + n + 2ε)

with r relevant and n other judged documents above it. A label below 0 is that of a document which is in the pool and
was not judged. xinfAP estimates the last factor for each stratum of the pool, and divides by an estimate of the number
of relevant documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, Rankings, register

_EPSILON = 0.00001  # as in trec_eval and sample_eval


@register
@dataclass(frozen=True)
class infAP(BinaryMeasure):
    """Inferred average precision: documents of the pool without a judgement are as good as those with one."""

    name: ClassVar[str] = "infAP"
    takes_cutoff: ClassVar[bool] = False

    def value(self, rankings: Rankings) -> Array:
        """The estimated precision at each relevant document, over the number of relevant documents."""
        grades = rankings.labels if rankings.grades is None else rankings.grades
        relevant, rank = self.relevant(rankings), rankings.rank
        hits = rankings.cumsum(relevant) - 1  # above a relevant document
        n_not_relevant = rankings.cumsum((grades >= 0) & ~relevant)
        pooled = hits + n_not_relevant + rankings.cumsum(grades < 0)
        share = (hits + _EPSILON) / (hits + n_not_relevant + 2 * _EPSILON)
        precision = (1.0 + pooled * np.where(rank > 0, share, 0.0)) / (rank + 1.0)
        return rankings.sum(np.where(relevant, precision, 0.0)) / self.n_relevant(rankings)

    def definition(self) -> str:
        return f"{super().definition()}, labels below 0 in the pool and not judged"


@register
@dataclass(frozen=True)
class xinfAP(BinaryMeasure):
    """Inferred average precision from strata that were sampled at different rates."""

    name: ClassVar[str] = "xinfAP"
    takes_cutoff: ClassVar[bool] = False
    needs: ClassVar[str] = "the strata of a sampled pool"
    evaluates_only: ClassVar[str] = f"it needs {needs}"

    def value(self, rankings: Rankings) -> Array:
        """The estimated precision at each relevant document, weighted by how its stratum was sampled."""
        pool = rankings.known
        if pool.strata is None or rankings.strata is None or pool.grades is None or rankings.grades is None:
            raise InputError(
                "xinfAP needs strata; expected qrels of five columns: query iteration document stratum label"
            )
        n_strata = int(pool.strata.max(initial=0)) + 1
        result, above = np.zeros(rankings.n_queries), np.zeros(len(rankings.labels))
        totals, estimates = np.zeros(rankings.n_queries), []
        pooled = rankings.cumsum(rankings.strata >= 0) - (rankings.strata >= 0)
        for stratum in range(n_strata):
            in_stratum, judged = rankings.strata == stratum, pool.strata == stratum
            hit, sampled = in_stratum & (rankings.grades >= self.rel), in_stratum & (rankings.grades >= 0)
            docs, hits, n_sampled = (rankings.cumsum(counts) - counts for counts in (in_stratum, hit, sampled))
            above += np.where(docs > 0, docs * (hits + _EPSILON) / (n_sampled + 3 * _EPSILON), 0.0)
            size, judgements, relevant = (
                pool.sum(counts.astype(np.float64))
                for counts in (judged, judged & (pool.grades >= 0), judged & (pool.grades >= self.rel))
            )
            rate = size / np.maximum(judgements, 1.0)
            totals += relevant * rate
            estimates.append((hit, rate))
        precision = (1.0 + np.where(pooled > 0, above, 0.0)) / (rankings.rank + 1.0)
        for hit, rate in estimates:
            result += rate * rankings.sum(np.where(hit, precision, 0.0))
        return np.asarray(result / np.where(totals > 0, totals, 1.0))

    def definition(self) -> str:
        return f"{super().definition()}, estimated by stratum, labels below 0 in the pool and not judged"
