"""Precision, recall and success at a rank, and precision at a rank that the number of relevant documents sets.

With h relevant documents among the first k, and P in total: P@k = h/k, R@k = h/P, Success@k = 1 if h > 0 else 0. A list
shorter than k is padded with non-relevant documents, as in trec_eval. Rprec is precision at rank P.

IPrec@r, also as in trec_eval, is the highest precision at recall r or beyond: the maximum, over ranks from the m-th
relevant document on, of (relevant so far) / (documents so far), where m is the whole part of r·P + 0.9; 0 if fewer than
m were retrieved. With r = 0 all ranks count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, PositionSum, Rankings, Swaps, register


@dataclass(frozen=True)
class _TopSet(PositionSum, BinaryMeasure):
    needs_cutoff = True


@register
@dataclass(frozen=True)
class P(_TopSet):
    """Precision: the share of the first ``cutoff`` ranks that is relevant."""

    aliases = ("precision",)

    def norms(self, rankings: Rankings) -> Array:
        return np.full(rankings.n_queries, float(self.cutoff or 1))


@register
@dataclass(frozen=True)
class R(_TopSet):
    """Recall: the share of the relevant documents among the first ``cutoff`` ranks."""

    aliases = ("recall",)

    def norms(self, rankings: Rankings) -> Array:
        return self.n_relevant(rankings)


@register
@dataclass(frozen=True)
class Success(_TopSet):
    """Whether there is a relevant document among the first ``cutoff`` ranks."""

    aliases = ("hit",)

    def credits(self, hits: Array) -> Array:
        return (hits == 1).astype(np.float64)


@register
@dataclass(frozen=True)
class Rprec(BinaryMeasure):
    """Precision at the number of relevant documents, which is also recall there."""

    aliases = ("r_prec", "r-precision")
    takes_cutoff = False

    def value(self, rankings: Rankings) -> Array:
        total = self.n_relevant(rankings)
        counted = rankings.rank < np.repeat(total, rankings.sizes)
        return rankings.sum((self.relevant(rankings) & counted).astype(np.float64)) / total

    def norms(self, rankings: Rankings) -> Array:
        return self.n_relevant(rankings)

    def swaps(self) -> Swaps:
        return Swaps(_changes, _prepare)

    def definition(self) -> str:
        return f"{super().definition()}, cut at the number of relevant documents"


def _prepare(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    state[0, 0] = judged.sum()


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """A document counts above rank P only."""
    n_relevant = state[0, 0]
    for j in range(i + 1, worth.size):
        out[j] = worth[j] - worth[i] if i < n_relevant <= j else 0.0


@register
@dataclass(frozen=True)
class IPrec(BinaryMeasure):
    """Interpolated precision at a level of recall.

    Parameters
    ----------
    recall : float
        The level, from 0 to 1, written behind the ``@``.
    """

    recall: float = 0.1

    aliases = ("iprec_at_recall",)
    takes_cutoff = False
    at = "recall"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.recall, bool) or not isinstance(self.recall, int | float) or not 0 <= self.recall <= 1:
            raise InputError(f"recall of IPrec is {self.recall!r}; expected a number from 0 to 1")
        object.__setattr__(self, "recall", float(self.recall))

    def value(self, rankings: Rankings) -> Array:
        """The best precision below the rank at which the recall is reached."""
        relevant = self.relevant(rankings)
        hits = rankings.cumsum(relevant)
        needed = np.floor(self.recall * self.n_relevant(rankings) + 0.9)
        reached = hits >= np.repeat(needed, rankings.sizes)
        return rankings.max(np.where(reached, hits / (rankings.rank + 1.0), 0.0))

    def definition(self) -> str:
        return f"{super().definition()}, highest precision from recall {self.recall:g} on"
