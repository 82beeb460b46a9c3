"""Best accuracy: the largest share of documents that a cut of the ranking classifies correctly (SIGIR'07, Section 3.2).

Documents above the cut are taken for relevant, those below for not relevant. Of k documents above the cut, h_k are
relevant; with P relevant and N other documents, h_k + N − (k − h_k) of P + N are right. The cut may be anywhere, also
above or below all documents. Relevant documents that were not retrieved rank below every retrieved one; non-relevant
ones that were not retrieved are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.measures.base import BinaryMeasure, Rankings, Swaps, register


@register
@dataclass(frozen=True)
class BestAccuracy(BinaryMeasure):
    """The largest accuracy of any cut of the ranking."""

    aliases = ("best_acc", "best_accuracy")
    takes_cutoff = False

    def value(self, rankings: Rankings) -> Array:
        """Begin with all documents below the cut, and count what every document that is lifted above it changes."""
        relevant = self.relevant(rankings)
        n_others = rankings.sum((~relevant).astype(np.float64))
        gained = rankings.max(rankings.cumsum(np.where(relevant, 1.0, -1.0)))
        right = np.maximum(n_others + np.maximum(gained, 0.0), self._n_judged(rankings))
        return np.asarray(right / self.norms(rankings))

    def norms(self, rankings: Rankings) -> Array:
        """The number of documents; at least 1, to divide by."""
        n_others = rankings.sum((~self.relevant(rankings)).astype(np.float64))
        return np.maximum(self._n_judged(rankings) + n_others, 1.0)

    def _n_judged(self, rankings: Rankings) -> Array:
        """Relevant documents, retrieved or not: right with the cut below them all."""
        return rankings.known.sum((rankings.known.labels >= self.rel).astype(np.float64))

    def swaps(self) -> Swaps:
        return Swaps(_changes, _prepare)

    def definition(self) -> str:
        return f"{super().definition()}, best cut of each ranking"


def _prepare(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    """Rows: documents that are right with k above the cut; the most of these up to k; the most from k on."""
    n = worth.size
    state[0, 0] = n - worth.sum()
    state[1, 0] = max(state[0, 0], judged.sum())  # a cut below all documents counts for every swap
    for k in range(n):
        state[0, k + 1] = state[0, k] + 2.0 * worth[k] - 1.0
        state[1, k + 1] = max(state[1, k], state[0, k + 1])
    state[2, n] = state[0, n]
    for k in range(n - 1, -1, -1):
        state[2, k] = max(state[2, k + 1], state[0, k])


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """Only cuts between the two documents change: by two, as one more is right, or wrong, on both sides."""
    between = -1.0
    for j in range(i + 1, worth.size):
        between = max(between, state[0, j])
        most = max(state[1, i], between + 2.0 * (worth[j] - worth[i]), state[2, j + 1])
        out[j] = most - state[1, worth.size]
