"""Normalised discounted cumulative gain.

    nDCG@k = Σ_{r<k} gain(label_r) D(r) / the same sum in the best order of the judged documents

Gain `2^label − 1` (exponential; the papers, LightGBM) or `label` (linear; trec_eval). Discount `D(r) = 1/log2(2+r)`, or
that of Järvelin and Kekäläinen, `1/max(1, log2(1+r))`: 1 for the first two ranks. Ranks count from 0.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from rankwright.errors import InputError
from rankwright.measures.base import Array, Measure, Oracle, Rankings, read_only, register

__all__ = ["AveNDCG", "nDCG"]

_GAIN_OF = {"trec": "linear", "letor": "exponential"}
_GAINS = {"linear": "rel", "exponential": "2^rel−1"}
_LARGEST = {"linear": 1e290, "exponential": 960.0}  # from there on sums of gains may overflow
_DISCOUNTS = ("log2", "jk")
_DECAYS = {"log2": lambda ranks: 1.0 / np.log2(2.0 + ranks), "sqrt": lambda ranks: 1.0 / np.sqrt(1.0 + ranks)}


@dataclass(frozen=True)
class _Gained(Measure):
    """The parameters that nDCG and its mean share."""

    gain: str | None = None
    discount: str = "log2"

    shorthands: ClassVar[dict[str, Any]] = {
        "dcg": {
            "log2": {"gain": "linear", "discount": "log2"},
            "exp-log2": {"gain": "exponential", "discount": "log2"},
        }
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", "exponential" if self.gain == "exp" else self.gain)
        if self.gain is not None and self.gain not in _GAINS:
            raise InputError(f"gain of {self.name} is {self.gain!r}; expected exponential or linear")
        if self.discount not in _DISCOUNTS:
            raise InputError(f"discount of {self.name} is {self.discount!r}; expected log2 or jk")

    def resolve(self, convention: str) -> Self:
        """Fill the gain in: linear for ``trec``, exponential for ``letor``."""
        return self if self.gain else dataclasses.replace(self, gain=_GAIN_OF[convention])

    def definition(self) -> str:
        """Gain and discount in words."""
        gain = _GAINS[self.gain] if self.gain else "by convention"
        return f"gain {gain}, discount {'log2' if self.discount == 'log2' else 'Järvelin–Kekäläinen'}"

    def _parameters(self) -> dict[str, Any]:
        if self.gain and self.discount == "log2":  # as ir_measures writes it
            return {"dcg": "log2" if self.gain == "linear" else "exp-log2"}
        return super()._parameters()

    def gains(self, labels: Array) -> Array:
        """Gain of every label."""
        if self.gain is None:
            raise InputError(f"{self} leaves the gain open; choose a convention (trec or letor) or write gain=linear")
        highest = labels.max(initial=0.0)
        if highest > _LARGEST[self.gain]:
            raise InputError(f"the label {highest:g} is too large for {self.name} with gain {_GAINS[self.gain]}")
        return labels if self.gain == "linear" else np.exp2(labels) - 1.0

    def discounts(self, ranks: Array) -> Array:
        """Discount of every rank, from 0."""
        if self.discount == "log2":
            return 1.0 / np.log2(ranks + 2.0)
        return 1.0 / np.maximum(1.0, np.log2(ranks + 1.0))


@register
@dataclass(frozen=True)
class nDCG(_Gained):
    """Normalised discounted cumulative gain, of the first ``cutoff`` ranks or of all.

    Parameters
    ----------
    cutoff : int, optional
        Ranks that count.
    gain : {"linear", "exponential"}, optional
        None leaves it to the convention: linear for ``trec``, exponential for ``letor``.
    discount : {"log2", "jk"}
        ``1/log2(2+r)``, or Järvelin and Kekäläinen's.
    """

    name: ClassVar[str] = "nDCG"
    aliases: ClassVar[tuple[str, ...]] = ("ndcg_cut",)

    def value(self, rankings: Rankings) -> Array:
        """DCG over the DCG of the ideal order; 0 where there is nothing to gain."""
        dcg, ideal = self._dcg(rankings), self._dcg(rankings.ideal)
        return dcg / np.where(ideal > 0, ideal, 1.0)

    def _dcg(self, rankings: Rankings) -> Array:
        top = rankings.top(self.cutoff)
        longest = int(top.sizes.max(initial=0))
        return top.sum(self.gains(top.labels) * self.discounts(np.arange(longest))[top.rank])

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """The best place of every non-relevant document, or a dynamic programme over the ranks that count.

        The first needs a convex discount, which neither a cutoff nor the equal first two ranks of ``jk`` leave. On the
        feature map ``"dorm"`` (``"dorm:sqrt"``, ``"dorm:log2@30"``: the decay of the positions, and where it ends)
        labels are grades.
        """
        self.check_feature_map(feature_map, "po", "dorm")
        if feature_map is not None and feature_map.startswith("dorm"):
            return self._assignment(feature_map.partition(":")[2])
        from rankwright.measures.oracles.partial_order import ndcg, ndcg_at  # here, for it loads numba

        if self.cutoff is None and self.discount == "log2":
            return Oracle(ndcg, lambda longest: read_only(self.discounts(np.arange(longest + 1))), "po")

        def cutoff_and_discounts(longest: int) -> Array:
            cutoff = min(self.cutoff or longest, longest)
            return read_only(np.append(cutoff, self.discounts(np.arange(cutoff))))

        return Oracle(ndcg_at, cutoff_and_discounts, "po")

    def _assignment(self, decay: str) -> Oracle:
        from rankwright.measures.oracles import position_decay as dorm  # here, for it loads numba

        profile, at, cut = decay.partition("@")
        if profile not in ("", *_DECAYS) or (at and not (cut.isdecimal() and int(cut))):
            known = " or ".join(_DECAYS)
            raise InputError(
                f"the decay of the feature map is {decay!r}; expected {known}, or {known[:4]}@30 to end there"
            )

        def gain_and_positions(longest: int) -> Array:
            ranks = np.arange(longest)
            weights = _DECAYS[profile or "log2"](ranks)
            weights[int(cut) if cut else longest :] = 0.0
            head = [float(self.gain != "linear"), float(min(self.cutoff or longest, longest))]
            return read_only(np.concatenate([head, weights, self._cut_discounts(longest)]))

        def cheap(labels: Array) -> bool:
            return dorm.is_cheap(labels, min(self.cutoff or len(labels), len(labels)))

        return Oracle(dorm.dorm, gain_and_positions, "dorm", graded=True, library=dorm.assignment, cheap=cheap)

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        gains, discounts = self.gains(labels), self._cut_discounts(len(labels))
        ideal = self.gains(judged) @ self._cut_discounts(len(judged))
        swapped = -np.subtract.outer(gains, gains) * np.subtract.outer(discounts, discounts)
        return swapped / ideal if ideal > 0 else np.zeros_like(swapped)

    def _cut_discounts(self, n: int) -> Array:
        discounts = self.discounts(np.arange(n))
        if self.cutoff is not None:
            discounts[self.cutoff :] = 0.0
        return discounts


@register
@dataclass(frozen=True)
class AveNDCG(_Gained):
    """Mean of nDCG@1, nDCG@2, … nDCG@k; k is 10 unless a cutoff says otherwise."""

    cutoff: int | None = 10

    name: ClassVar[str] = "AveNDCG"
    aliases: ClassVar[tuple[str, ...]] = ("avendcg",)

    def value(self, rankings: Rankings) -> Array:
        """The mean over the cutoffs."""
        parts = self._parts()
        return np.asarray(sum(part.value(rankings) for part in parts)) / len(parts)

    def _swap_deltas(self, labels: Array, judged: Array) -> Array:
        return np.mean([part._swap_deltas(labels, judged) for part in self._parts()], axis=0)

    def _parts(self) -> list[nDCG]:
        return [nDCG(k, self.gain, self.discount) for k in range(1, (self.cutoff or 10) + 1)]

    def __str__(self) -> str:
        return super().__str__().removesuffix("@10")
