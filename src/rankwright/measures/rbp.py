"""Rank-biased precision (Moffat and Zobel 2008): RBP = (1 − p) Σ over relevant documents of p^r, ranks r from 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, PositionSum, register


@register
@dataclass(frozen=True)
class RBP(PositionSum, BinaryMeasure):
    """Rank-biased precision: the reader moves on to the next document with probability ``p``."""

    p: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.p, int | float) or not 0 < self.p < 1:
            raise InputError(f"p of RBP is {self.p!r}; expected a number between 0 and 1")

    def discounts(self, ranks: Array) -> Array:
        """Probability that the reader reaches each rank, normalised to sum to 1."""
        return np.asarray((1 - self.p) * self.p**ranks)

    def definition(self) -> str:
        return f"p {self.p:g}, {super().definition()}"
