"""Measures of the first k ranks as a set: precision, recall, success.

With h relevant documents among the first k, and P in total: P@k = h/k, R@k = h/P, Success@k = 1 if h > 0 else 0. A list
shorter than k is padded with non-relevant documents, as in trec_eval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Rankings, register
from rankwright.measures.position_sum import PositionSum


@dataclass(frozen=True)
class _TopSet(PositionSum, BinaryMeasure):
    needs_cutoff: ClassVar[bool] = True


@register
@dataclass(frozen=True)
class P(_TopSet):
    """Precision: the share of the first ``cutoff`` ranks that is relevant."""

    name: ClassVar[str] = "P"
    aliases: ClassVar[tuple[str, ...]] = ("precision",)

    def norms(self, rankings: Rankings) -> Array:
        return np.full(rankings.n_queries, float(self.cutoff or 1))


@register
@dataclass(frozen=True)
class R(_TopSet):
    """Recall: the share of the relevant documents among the first ``cutoff`` ranks."""

    name: ClassVar[str] = "R"
    aliases: ClassVar[tuple[str, ...]] = ("recall",)

    def norms(self, rankings: Rankings) -> Array:
        return self.n_relevant(rankings)


@register
@dataclass(frozen=True)
class Success(_TopSet):
    """Whether there is a relevant document among the first ``cutoff`` ranks."""

    name: ClassVar[str] = "Success"
    aliases: ClassVar[tuple[str, ...]] = ("hit",)

    def credits(self, hits: Array) -> Array:
        return (hits == 1).astype(np.float64)
