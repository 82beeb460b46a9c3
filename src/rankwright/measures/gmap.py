"""Geometric mean of average precision over queries: GMAP = exp(mean of ln max(AP, 0.00001)), as in trec_eval.

The value of a query is its average precision; only the mean differs from that of AP. Poor queries count for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.measures.ap import AP
from rankwright.measures.base import BinaryMeasure, Rankings, register

_LEAST = 0.00001


@register
@dataclass(frozen=True)
class GMAP(BinaryMeasure):
    """Average precision with a geometric mean over queries."""

    name: ClassVar[str] = "GMAP"
    aliases: ClassVar[tuple[str, ...]] = ("gm_map",)
    evaluates_only: ClassVar[str] = "it is a geometric mean over queries; expected AP"
    is_mean: ClassVar[bool] = False

    def value(self, rankings: Rankings) -> Array:
        return AP(self.cutoff, self.rel).value(rankings)

    def mean(self, values: Array) -> float:
        counted = values[~np.isnan(values)]
        return float(np.exp(np.log(np.maximum(counted, _LEAST)).mean())) if len(counted) else float("nan")

    def definition(self) -> str:
        return f"{super().definition()}, geometric mean over queries of AP, at least {_LEAST:.5f}"
