"""Measures of all retrieved documents as a set, as in trec_eval: their order does not matter.

With h relevant documents among n retrieved, and P in total: SetP = h/n, SetP(relative=True) = h/min(n, P), SetR = h/P,
SetF = (β+1)·SetP·SetR / (β·SetP + SetR), SetAP = SetP·SetR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, Rankings, register


@dataclass(frozen=True)
class _OfSet(BinaryMeasure):
    takes_cutoff = False
    evaluates_only = "the order of the documents does not change it"

    def hits(self, rankings: Rankings) -> Array:
        return rankings.sum(self.relevant(rankings).astype(np.float64))

    def precision(self, rankings: Rankings) -> Array:
        return self.hits(rankings) / np.maximum(rankings.sizes, 1)

    def recall(self, rankings: Rankings) -> Array:
        return self.hits(rankings) / self.n_relevant(rankings)

    def definition(self) -> str:
        return f"{super().definition()}, all retrieved documents"


@register
@dataclass(frozen=True)
class SetP(_OfSet):
    """Precision of all retrieved documents.

    Parameters
    ----------
    relative : bool
        Divide by the highest possible number of relevant documents in a list of this length instead of the length.
    """

    relative: bool = False

    aliases = ("set_p",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.relative, bool):
            raise InputError(f"relative of SetP is {self.relative!r}; expected True or False")

    def value(self, rankings: Rankings) -> Array:
        """Divide by the number of documents, or by the most that could be relevant."""
        if not self.relative:
            return self.precision(rankings)
        return self.hits(rankings) / np.maximum(np.minimum(rankings.sizes, self.n_relevant(rankings)), 1.0)


@register
@dataclass(frozen=True)
class SetR(_OfSet):
    """Recall of all retrieved documents."""

    aliases = ("set_recall",)

    def value(self, rankings: Rankings) -> Array:
        return self.recall(rankings)


@register
@dataclass(frozen=True)
class SetF(_OfSet):
    """Weighted harmonic mean of precision and recall of all retrieved documents.

    Parameters
    ----------
    beta : number
        How much recall counts relative to precision. As in trec_eval it is not squared.
    """

    beta: int | float = 1

    aliases = ("set_f",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.beta, bool) or not isinstance(self.beta, int | float) or not 0 <= self.beta < np.inf:
            raise InputError(f"beta of SetF is {self.beta!r}; expected a number of at least 0")

    def value(self, rankings: Rankings) -> Array:
        precision, recall = self.precision(rankings), self.recall(rankings)
        below = self.beta * precision + recall
        return (self.beta + 1.0) * precision * recall / np.where(below > 0, below, 1.0)

    def definition(self) -> str:
        return f"{super().definition()}, weight of recall {self.beta:g}"


@register
@dataclass(frozen=True)
class SetAP(_OfSet):
    """Precision times recall of all retrieved documents: average precision if their order is random."""

    aliases = ("set_map",)

    def value(self, rankings: Rankings) -> Array:
        return self.precision(rankings) * self.recall(rankings)
