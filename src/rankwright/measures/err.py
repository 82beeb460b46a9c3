"""Expected reciprocal rank: a user reads down the list and stops at a document with probability R(label).

ERR@k = Σ_{r<k} 1/(1+r) · R_r · Π_{s<r} (1 − R_s),    R = (2^label − 1) / 2^max_rel
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.measures.base import Measure, Rankings, Swaps, read_only, register


@register
@dataclass(frozen=True)
class ERR(Measure):
    """Expected reciprocal rank.

    Parameters
    ----------
    cutoff : int, optional
        Ranks that count.
    max_rel : number
        The highest possible grade; 4 as in the TREC Web tracks. It sets the scale and is not taken from the data.
    """

    max_rel: int | float = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.max_rel, bool) or not isinstance(self.max_rel, int | float) or not 0 < self.max_rel <= 64:
            raise InputError(f"max_rel of ERR is {self.max_rel!r}; expected a number above 0, at most 64")

    def value(self, rankings: Rankings) -> Array:
        """Walk down all lists at once, rank by rank."""
        self.check_labels(rankings.known.labels)
        top = rankings.top(self.cutoff)
        stops = self.worth(top.labels)
        total = np.zeros(top.n_queries)
        looking = np.ones(top.n_queries)
        for rank in range(int(top.sizes.max(initial=0))):
            listed = top.sizes > rank
            stop = stops[top.indptr[:-1][listed] + rank]
            total[listed] += looking[listed] * stop / (rank + 1.0)
            looking[listed] *= 1.0 - stop
        return total

    def check_labels(self, labels: Array) -> None:
        """No label may be above the highest grade."""
        highest = labels.max(initial=0.0)
        if highest > self.max_rel:
            raise InputError(f"{self} is not defined for the label {highest:g}; write ERR(max_rel={highest:g})")

    def worth(self, labels: Array) -> Array:
        """The probability of stopping at a document."""
        self.check_labels(labels)
        return np.asarray((np.exp2(labels) - 1.0) / 2.0**self.max_rel)

    def swaps(self) -> Swaps:
        def reciprocal_ranks(longest: int) -> Array:
            ranks = np.arange(longest)
            return read_only(np.where(ranks < (self.cutoff or longest), 1.0 / (ranks + 1.0), 0.0))

        return Swaps(_changes, _prepare, reciprocal_ranks)

    def definition(self) -> str:
        return f"highest grade {self.max_rel:g}"


def _prepare(worth: Array, judged: Array, parameters: Array, state: Array) -> None:
    """The probability of reaching each rank."""
    looking = 1.0
    for r in range(worth.size):
        state[0, r] = looking
        looking *= 1.0 - worth[r]


def _changes(i: int, worth: Array, parameters: Array, state: Array, out: Array) -> None:
    """Past rank i a reader collects ``gain`` on the way to j, and gets there with probability ``looking``."""
    looking, gain = 1.0, 0.0
    for j in range(i + 1, worth.size):
        out[j] = state[0, i] * (worth[j] - worth[i]) * (parameters[i] - gain - looking * parameters[j])
        gain += looking * worth[j] * parameters[j]
        looking *= 1.0 - worth[j]
