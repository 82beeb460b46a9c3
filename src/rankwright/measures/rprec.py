"""Precision at R: the share of relevant documents among the first P ranks, P the number of relevant documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Rankings, register
from rankwright.measures.forms import Swaps


@register
@dataclass(frozen=True)
class Rprec(BinaryMeasure):
    """Precision at the number of relevant documents, which is also recall there."""

    name: ClassVar[str] = "Rprec"
    aliases: ClassVar[tuple[str, ...]] = ("r_prec", "r-precision")
    takes_cutoff: ClassVar[bool] = False

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
