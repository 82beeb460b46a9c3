"""Measures of the first k ranks as a set: precision, recall, success.

With h relevant documents among the first k, and P in all: P@k = h/k, R@k = h/P, Success@k = 1 if h > 0 else 0. A list
shorter than k is filled up with documents that are not relevant, as trec_eval does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright.measures.base import Array, BinaryMeasure, Rankings, register

__all__ = ["P", "R", "Success"]


@dataclass(frozen=True)
class _TopSet(BinaryMeasure):
    needs_cutoff: ClassVar[bool] = True

    def hits(self, rankings: Rankings) -> Array:
        """Relevant documents among the first ``cutoff``."""
        top = rankings.top(self.cutoff)
        return top.sum(self.relevant(top).astype(np.float64))

    def hit_changes(self, labels: Array) -> Array:
        """Change of the number of hits for each swap: a document crosses the cutoff."""
        rel = (labels >= self.rel).astype(np.float64)
        inside = (np.arange(len(labels)) < (self.cutoff or 0)).astype(np.float64)
        return -np.subtract.outer(rel, rel) * np.subtract.outer(inside, inside)


@register
@dataclass(frozen=True)
class P(_TopSet):
    """Precision: the share of the first ``cutoff`` ranks that is relevant."""

    name: ClassVar[str] = "P"
    aliases: ClassVar[tuple[str, ...]] = ("precision",)

    def value(self, rankings: Rankings) -> Array:
        """Hits over the cutoff."""
        return self.hits(rankings) / (self.cutoff or 1)

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        return self.hit_changes(labels) / (self.cutoff or 1)


@register
@dataclass(frozen=True)
class R(_TopSet):
    """Recall: the share of the relevant documents that stand among the first ``cutoff`` ranks."""

    name: ClassVar[str] = "R"
    aliases: ClassVar[tuple[str, ...]] = ("recall",)

    def value(self, rankings: Rankings) -> Array:
        """Hits over all relevant documents."""
        return self.hits(rankings) / self.n_relevant(rankings)

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        return self.hit_changes(labels) / max((judged >= self.rel).sum(), 1)


@register
@dataclass(frozen=True)
class Success(_TopSet):
    """Whether a relevant document stands among the first ``cutoff`` ranks."""

    name: ClassVar[str] = "Success"
    aliases: ClassVar[tuple[str, ...]] = ("hit",)

    def value(self, rankings: Rankings) -> Array:
        """1 if there is a hit, else 0."""
        return (self.hits(rankings) > 0).astype(np.float64)

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        hits = (labels[: self.cutoff] >= self.rel).sum()
        return ((hits + self.hit_changes(labels)) > 0).astype(np.float64) - float(hits > 0)
