"""Measures that are sums over positions, which makes them fast to train for.

    value = Σ_r worth(label_r) · discount(r) / norm                    nDCG, P, R, RBP
    value = Σ_r [relevant at r] · credit(hits_r) · discount(r) / norm  AP, RR, Success

Ranks r count from 0; ranks from the cutoff on do not count. hits_r is the number of relevant documents at or above
rank r. In the second form worth is 1 or 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import Measure, Rankings
from rankwright.measures.forms import Swaps, read_only


@dataclass(frozen=True)
class PositionSum(Measure):
    """Base of these measures: value, swap changes and line search follow from the parts a subclass defines.

    By default discounts and norms are 1, and the worth of a label is the label itself, or whether it is relevant.
    """

    def discounts(self, ranks: Array) -> Array:
        return np.ones(len(ranks))

    def credits(self, hits: Array) -> Array | None:
        """What the hits-th relevant document counts; None: its worth, whichever it is."""
        return None

    def value(self, rankings: Rankings) -> Array:
        """The sum over the ranks that count, over the norm."""
        top = rankings.top(self.cutoff)
        worth, longest = self.worth(top.labels), int(top.sizes.max(initial=0))
        credits = self.credits(np.arange(longest + 1))
        if credits is not None:
            worth = worth * credits[top.cumsum(worth)]
        return np.asarray(top.sum(worth * self.discounts(np.arange(longest))[top.rank]) / self.norms(rankings))

    def cut_discounts(self, n: int) -> Array:
        """Discounts of the first ``n`` ranks, 0 from the cutoff on."""
        discounts = self.discounts(np.arange(n))
        if self.cutoff is not None:
            discounts[self.cutoff :] = 0.0
        return discounts

    def position_sum(self) -> PositionSum:
        return self

    def swaps(self) -> Swaps:
        if self.credits(np.arange(1)) is None:
            return Swaps(_changes, parameters=lambda longest: read_only(self.cut_discounts(longest)))
        return Swaps(_changes_of_hits, _prepare_hits, self._discounts_and_credits)

    def _discounts_and_credits(self, longest: int) -> Array:
        hits = np.arange(longest + 2)
        return read_only(np.concatenate([self.cut_discounts(longest + 2), self.credits(hits)]))


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """The documents exchange their discounts."""
    gain, discount = worth[i], parameters[i]
    lower, discounts, changes = worth[i + 1 :], parameters[i + 1 :], out[i + 1 :]  # positions that are not negative
    for j in range(lower.size):
        changes[j] = (lower[j] - gain) * (discount - discounts[j])


def _prepare_hits(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    """Rows: hits; total gain of the relevant documents above a rank from one hit more, and from one less; own parts."""
    half, hits = parameters.size // 2, 0
    state[1, 0] = state[2, 0] = 0.0
    for r in range(worth.size):
        hits += worth[r] > 0.0
        credit, discount = parameters[half + hits], worth[r] * parameters[r]
        state[0, r] = hits
        state[1, r + 1] = state[1, r] + (parameters[half + hits + 1] - credit) * discount
        state[2, r + 1] = state[2, r] + (parameters[half + max(hits - 1, 0)] - credit) * discount
        state[3, r] = credit * parameters[r]


def _changes_of_hits(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """The relevant document changes rank and hits; those in between have one hit more or less."""
    if worth[i] > 0.0:
        for j in range(i + 1, worth.size):
            out[j] = (1.0 - worth[j]) * (state[3, j] + (state[2, j] - state[2, i + 1]) - state[3, i])
    else:
        lifted = parameters[parameters.size // 2 + int(state[0, i]) + 1] * parameters[i]
        for j in range(i + 1, worth.size):
            out[j] = worth[j] * (lifted + (state[1, j] - state[1, i + 1]) - state[3, j])
