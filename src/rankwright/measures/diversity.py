"""Measures of diversity, from judgements by subtopic (Clarke et al. 2008; Chapelle et al. 2009), as ndeval has them.

A document at rank r (from 0) gains Σ over its subtopics of (1 − α)^(documents above it that have the subtopic).

    alpha_nDCG@k  Σ_{r<k} gain_r / log2(2 + r), divided by the same sum for the best order of the judged documents
    ERR_IA@k      Σ_{r<k} gain_r / (1 + r), divided by S · Σ_{r<k} (1 − α)^r / (1 + r)

S is the number of subtopics with a relevant document. The best order is found greedily; of equal documents, the first
of the judged ones is taken (the highest id, in judgements read by subtopic).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, Rankings, register


@dataclass(frozen=True)
class _Diverse(BinaryMeasure):
    alpha: int | float = 0.5

    needs = "judgements by subtopic"
    evaluates_only = f"it needs {needs}"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, int | float) or not 0 <= self.alpha <= 1:
            raise InputError(f"alpha of {self.name} is {self.alpha!r}; expected a number from 0 to 1")

    def has_relevant(self, rankings: Rankings) -> Array:
        """Which queries have a document that is relevant for a subtopic."""
        return np.asarray(self._has(rankings.known).any(axis=1))

    def definition(self) -> str:
        return f"{super().definition()} by subtopic, alpha {self.alpha:g}"

    def _has(self, rankings: Rankings) -> Array:
        """Which subtopics of each query have a relevant document."""
        return np.stack([rankings.max(marks.astype(np.float64)) > 0 for marks in self._marks(rankings).T], axis=1)

    def _marks(self, rankings: Rankings) -> Array:
        """Which subtopics each document is relevant for."""
        if rankings.subtopics is None:
            expected = "qrels whose second column is the subtopic, read with --subtopics (in Python, read_subtopics)"
            raise InputError(f"{self.name} needs judgements by subtopic; expected {expected}")
        return np.asarray(rankings.subtopics >= self.rel)

    def gains(self, rankings: Rankings) -> Array:
        """What each document adds, given those above it."""
        total = np.zeros(len(rankings.labels))
        for marks in self._marks(rankings).T:
            above = rankings.cumsum(marks) - marks
            total += np.where(marks, (1.0 - self.alpha) ** above, 0.0)
        return total


@register
@dataclass(frozen=True)
class alpha_nDCG(_Diverse):
    """nDCG that rewards new subtopics: each repetition of a subtopic counts 1 − alpha times the one before.

    Parameters
    ----------
    cutoff : int, optional
        Ranks that count.
    alpha : number
        From 0 (repetitions count in full) to 1 (they count nothing).
    """

    aliases = ("alpha-ndcg", "andcg")

    def value(self, rankings: Rankings) -> Array:
        top = rankings.top(self.cutoff)
        sums = top.sum(self.gains(top) / np.log2(top.rank + 2.0))
        blocks = np.split(self._marks(rankings.known), rankings.known.indptr[1:-1])
        best = np.array([self._best(marks) for marks in blocks[: rankings.n_queries]])
        return sums / np.where(best > 0, best, 1.0)

    def _best(self, marks: Array) -> float:
        """The sum for the greedy order of one query."""
        marks = marks[marks.any(axis=1)].astype(np.float64)
        worth, total = np.ones(marks.shape[1]), 0.0
        for rank in range(min(len(marks), self.cutoff or len(marks))):
            gains = marks @ worth
            chosen = int(np.argmax(gains))
            total += gains[chosen] / np.log2(rank + 2.0)
            worth = np.where(marks[chosen] > 0, worth * (1.0 - self.alpha), worth)
            marks = np.delete(marks, chosen, axis=0)
        return total


@register
@dataclass(frozen=True)
class ERR_IA(_Diverse):
    """Intent-aware expected reciprocal rank: a user with one of the subtopics in mind stops with probability alpha.

    Parameters
    ----------
    cutoff : int
        Ranks that count.
    alpha : number
        The probability to be satisfied by a relevant document.
    """

    aliases = ("err-ia",)
    needs_cutoff = True

    def value(self, rankings: Rankings) -> Array:
        """Divide by the value of a list whose documents have all subtopics."""
        top = rankings.top(self.cutoff)
        sums = top.sum(self.gains(top) / (top.rank + 1.0))
        n_subtopics = self._has(rankings.known).sum(axis=1)
        ranks = np.arange(self.cutoff or 1)
        highest = np.sum((1.0 - self.alpha) ** ranks / (ranks + 1.0))
        return np.asarray(sums / (np.maximum(n_subtopics, 1) * highest))
