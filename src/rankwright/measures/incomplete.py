"""Measures for incomplete judgements: Bpref, infAP, xinfAP, and how much of the top of a ranking is judged.

Binary preference (Buckley and Voorhees 2004) says how often judged non-relevant documents are above relevant ones:
Bpref = (1/P) Σ over retrieved relevant documents of 1 − min(n, P) / min(N, P), with n judged non-relevant documents
above it and N in total. Documents without a judgement are passed over, and so are those with a label below 0.

infAP (Yilmaz and Aslam 2006) and xinfAP (Yilmaz et al. 2008) are average precision from a sample of judgements. At a
relevant document with k documents above it, of which d are in the pool, precision is estimated as

    1/(k+1) + d/(k+1) · (r + ε) / (r + n + 2ε)

with r relevant and n other judged documents above it. A label below 0 is that of a document which is in the pool and
was not judged. xinfAP estimates the last factor for each stratum of the pool, and divides by an estimate of the number
of relevant documents.

Judged@k = judged among the first k, divided by the smaller of k and the number of ranked documents, as in ir_measures.
It says nothing about the quality of a ranking, but how far other measures can be trusted, since they count unjudged
documents as not relevant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, Measure, Rankings, Swaps, register

_EPSILON = 0.00001  # as in trec_eval and sample_eval


@register
@dataclass(frozen=True)
class Bpref(BinaryMeasure):
    """Binary preference, for incomplete judgements."""

    takes_cutoff = False

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


@register
@dataclass(frozen=True)
class infAP(BinaryMeasure):
    """Inferred average precision: documents of the pool without a judgement are as good as those with one."""

    takes_cutoff = False

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

    takes_cutoff = False
    needs = "the strata of a sampled pool"
    evaluates_only = f"it needs {needs}"

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


@register
@dataclass(frozen=True)
class Judged(Measure):
    """The share of the first ``cutoff`` documents that have a judgement."""

    needs_cutoff = True
    is_goal = False

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
