"""Rank-biased precision (Moffat and Zobel 2008): RBP = (1 − p) Σ over relevant documents of p^r, ranks r from 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rankwright.errors import InputError
from rankwright.measures.base import Array, BinaryMeasure, Rankings, register

__all__ = ["RBP"]


@register
@dataclass(frozen=True)
class RBP(BinaryMeasure):
    """Rank-biased precision: a reader goes on to the next document with probability ``p``."""

    p: float = 0.8

    name: ClassVar[str] = "RBP"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.p, int | float) or not 0 < self.p < 1:
            raise InputError(f"p of RBP is {self.p!r}; expected a number between 0 and 1")

    def value(self, rankings: Rankings) -> Array:
        """The reader's expected share of relevant documents."""
        top = rankings.top(self.cutoff)
        return (1 - self.p) * top.sum(self.relevant(top) * self.p**top.rank)

    def definition(self) -> str:
        """Patience and threshold in words."""
        return f"p {self.p:g}, {super().definition()}"
