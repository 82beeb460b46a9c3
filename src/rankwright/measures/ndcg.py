"""Normalised discounted cumulative gain.

    nDCG@k = Σ_{r<k} gain(label_r) D(r) / the same sum for the best order of the judged documents

Gain `2^label − 1` (exponential; the papers, LightGBM) or `label` (linear; trec_eval), or a table. Discount
`D(r) = 1/log2(2+r)`, or that of Järvelin and Kekäläinen, `1/max(1, log2(1+r))`: 1 for the first two ranks. Ranks count
from 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import Measure, Oracle, PositionSum, Rankings, Swaps, read_only, register

_GAIN_OF = {"trec": "linear", "letor": "exponential"}
_GAINS = {"linear": "rel", "exponential": "2^rel−1"}
_LARGEST = {"linear": 1e290, "exponential": 960.0}  # above these, sums of gains may overflow
_DISCOUNTS = ("log2", "jk")
_DECAYS = {"log2": lambda ranks: 1.0 / np.log2(2.0 + ranks), "sqrt": lambda ranks: 1.0 / np.sqrt(1.0 + ranks)}


@dataclass(frozen=True)
class _Gained(Measure):
    """The parameters shared by nDCG and its mean."""

    gain: str | None = None
    discount: str = "log2"
    gains: Any = None

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
        object.__setattr__(self, "gains", _table(self.gains, self.name))

    def resolve(self, convention: str) -> Self:
        return self if self.gain else dataclasses.replace(self, gain=_GAIN_OF[convention])

    def definition(self) -> str:
        gain = _GAINS[self.gain] if self.gain else "by convention"
        if self.gains:
            gain = f"{_shown(self.gains)} (other labels: {gain})"
        return f"gain {gain}, discount {'log2' if self.discount == 'log2' else 'Järvelin–Kekäläinen'}"

    def _parameters(self) -> dict[str, Any]:
        table = {"gains": dict(self.gains)} if self.gains else {}
        if self.gain and self.discount == "log2":  # as ir_measures writes it
            return {"dcg": "log2" if self.gain == "linear" else "exp-log2", **table}
        return {**super()._parameters(), **table}

    def check_labels(self, labels: Array) -> None:
        """The gain must be known, and no sum of gains may overflow."""
        if self.gain is None:
            raise InputError(f"the gain of {self} is not set; choose a convention (trec or letor) or write gain=linear")
        highest = labels.max(initial=0.0)
        if highest > _LARGEST[self.gain]:
            raise InputError(f"the label {highest:g} is too large for {self.name} with gain {_GAINS[self.gain]}")
        if self.gains:
            self._check_order(np.unique(labels))

    def _check_order(self, labels: Array) -> None:
        """Gains must not fall as labels rise."""
        falls = np.flatnonzero(np.diff(self._gain_of(labels)) < 0)
        if len(falls):
            lower, higher = labels[falls[0]], labels[falls[0] + 1]
            problem = f"the gain of label {higher:g} is below that of label {lower:g}"
            raise InputError(f"{problem} in {self}; expected gains that do not fall as labels rise")

    def has_relevant(self, rankings: Rankings) -> Array:
        """Which queries have a judged document with a gain."""
        judged = rankings.known
        return super().has_relevant(rankings) if not self.gains else judged.max(self.worth(judged.labels)) > 0

    def worth(self, labels: Array) -> Array:
        self.check_labels(labels)
        return self._gain_of(labels)

    def _gain_of(self, labels: Array) -> Array:
        gains = labels if self.gain == "linear" else np.exp2(labels) - 1.0
        for label, gain in self.gains or ():
            gains = np.where(labels == label, float(gain), gains)
        return gains

    def discounts(self, ranks: Array) -> Array:
        if self.discount == "log2":
            return 1.0 / np.log2(ranks + 2.0)
        return 1.0 / np.maximum(1.0, np.log2(ranks + 1.0))


def _table(gains: Any, name: str) -> tuple[tuple[float, float], ...] | None:
    """A table of gains as pairs, ordered by label, which makes measures with equal tables equal."""
    if gains is None:
        return None
    pairs = list(gains.items()) if isinstance(gains, Mapping) else gains
    try:
        table = tuple(sorted((label, gain) for label, gain in pairs))
        valid = bool(table) and all(0 <= number < _LARGEST["linear"] for pair in table for number in pair)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InputError(
            f"gains of {name} is {gains!r}; expected numbers of at least 0 by label, such as {{1: 1, 2: 3}}"
        )
    if table[0][0] == 0 and table[0][1] != 0:
        raise InputError(f"gains of {name} has {table[0][1]!r} for label 0, which unjudged documents have; expected 0")
    return table


def _shown(gains: tuple[tuple[float, float], ...]) -> str:
    return ", ".join(f"{label:g}→{gain:g}" for label, gain in gains)


@register
@dataclass(frozen=True)
class nDCG(_Gained, PositionSum):
    """Normalised discounted cumulative gain over the first ``cutoff`` ranks, or all of them.

    Parameters
    ----------
    cutoff : int, optional
        Ranks that count.
    gain : {"linear", "exponential"}, optional
        None: decided by the convention, linear for ``trec``, exponential for ``letor``.
    discount : {"log2", "jk"}
        ``1/log2(2+r)``, or Järvelin and Kekäläinen's.
    gains : dict, optional
        Gain by label, such as ``{1: 1, 2: 3}``; labels that it does not have keep their ``gain``.
    """

    aliases = ("ndcg_cut",)
    feature_maps = ("po", "dorm")
    loss_has_cutoff = True
    own_losses = ("dorm",)

    def norms(self, rankings: Rankings) -> Array:
        """DCG of the ideal order; 1 where there is nothing to gain."""
        ideal = rankings.ideal.top(self.cutoff)
        longest = int(ideal.sizes.max(initial=0))
        best = ideal.sum(self.worth(ideal.labels) * self.discounts(np.arange(longest))[ideal.rank])
        return np.where(best > 0, best, 1.0)

    def oracle(self, feature_map: str | None = None) -> Oracle:
        """Finds the best place of every non-relevant document, or runs a dynamic programme over the ranks that count.

        The first needs a convex discount, which rules out a cutoff and ``jk`` with its equal first two ranks. On the
        feature map ``"dorm"`` labels are grades; ``"dorm:sqrt"`` or ``"dorm:log2@30"`` set the decay of the position
        weights and where it ends.
        """
        self.check_feature_map(feature_map)
        if feature_map is not None and feature_map.startswith("dorm"):
            return self._assignment(feature_map.partition(":")[2])
        from rankwright.measures.oracles.pairs import ndcg, ndcg_at  # loads numba

        if self.cutoff is None and self.discount == "log2":
            discounts = lambda longest: read_only(self.discounts(np.arange(longest + 1)))  # noqa: E731
            return Oracle(ndcg, discounts, "po", hinge_learns=True)

        def cutoff_and_discounts(longest: int) -> Array:
            cutoff = min(self.cutoff or longest, longest)
            return read_only(np.append(cutoff, self.discounts(np.arange(cutoff))))

        return Oracle(ndcg_at, cutoff_and_discounts, "po")

    def _assignment(self, decay: str) -> Oracle:
        from rankwright.measures.oracles import positions  # loads numba

        if self.gains:
            raise InputError(
                f"{self} cannot be trained with the feature map 'dorm'; expected nDCG without a gain table"
            )
        profile, at, cut = decay.partition("@")
        if profile not in ("", *_DECAYS) or (at and not (cut.isdecimal() and int(cut))):
            decays = " or ".join(_DECAYS)
            raise InputError(
                f"the decay of the feature map is {decay!r}; expected {decays}, or {decays[:4]}@30 to end it at rank 30"
            )

        same_profile = (profile or "log2") == self.discount

        def gain_and_positions(longest: int) -> Array:
            ranks = np.arange(longest)  # one formula for equal profiles: the oracle asks whether A = D
            weights = self.discounts(ranks) if same_profile else _DECAYS[profile or "log2"](ranks)
            weights[int(cut) if cut else longest :] = 0.0
            head = [float(self.gain != "linear"), float(min(self.cutoff or longest, longest))]
            return read_only(np.concatenate([head, weights, self.cut_discounts(longest)]))

        def cheap(labels: Array) -> bool:
            n = len(labels)
            last = min(self.cutoff or n, n)
            return positions.is_cheap(labels, last, alike=same_profile and last == min(int(cut) if cut else n, n))

        return Oracle(
            positions.dorm, gain_and_positions, "dorm", graded=True, library=positions.by_windows, cheap=cheap
        )


@register
@dataclass(frozen=True)
class AveNDCG(_Gained):
    """Mean of nDCG@1, nDCG@2, … nDCG@k, with k = 10 by default."""

    cutoff: int = 10

    aliases = ("avendcg",)

    def __post_init__(self) -> None:
        if self.cutoff is None:
            object.__setattr__(self, "cutoff", 10)
        super().__post_init__()

    def value(self, rankings: Rankings) -> Array:
        self.check_labels(rankings.known.labels)
        at_cutoffs = [nDCG(k, self.gain, self.discount, self.gains) for k in range(1, self.cutoff + 1)]
        return np.asarray(sum(ndcg.value(rankings) for ndcg in at_cutoffs)) / len(at_cutoffs)

    def swaps(self) -> Swaps:
        return Swaps(_changes, _prepare, lambda longest: read_only(self.discounts(np.arange(self.cutoff))))

    def __str__(self) -> str:
        return super().__str__().removesuffix("@10")


def _prepare(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    """What a gain of 1 counts at each rank: its discount over the ideal DCG of every cutoff below it, on average."""
    last, n = parameters.size, worth.size
    ideal = total = 0.0
    for r in range(max(last, n)):
        if r < n:
            state[0, r] = total
        if r < min(last, judged.size):
            ideal += judged[r] * parameters[r]
        if r < last and ideal > 0.0:
            total += 1.0 / ideal
    for r in range(n):
        state[0, r] = parameters[r] * (total - state[0, r]) / last if r < last else 0.0


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """Both documents take what the other's rank counts."""
    for j in range(i + 1, worth.size):
        out[j] = (worth[j] - worth[i]) * (state[0, i] - state[0, j])
