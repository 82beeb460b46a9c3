"""Interpolated precision at a level of recall, as in trec_eval: the highest precision at this recall or beyond.

IPrec@r = max over ranks from the m-th relevant document on of (relevant so far) / (documents so far), where m is the
whole part of r·P + 0.9; 0 if fewer than m were retrieved. With r = 0 all ranks count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import BinaryMeasure, Rankings, register


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

    name: ClassVar[str] = "IPrec"
    aliases: ClassVar[tuple[str, ...]] = ("iprec_at_recall",)
    takes_cutoff: ClassVar[bool] = False
    at: ClassVar[str] = "recall"

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
