"""Oracles that stay on the CPU, for scores from the card: `dorm` of many grades, and those of your own measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.data.threads import Team, runs_of
from rankwright.measures.forms import Oracle
from rankwright.measures.oracles.common import BINS, ORACLE, WORK, sort_descending
from rankwright.objectives.first_class import FirstClass

__all__ = ["Hosted"]

Array = npt.NDArray[Any]
_RUN = 1 << 13  # documents, at least, of a thread's run


@njit(cache=True, nogil=True)
def _run(
    scores: Any, labels: Any, indptr: Any, first: int, last: int, wanted: Any, oracle: Any, parameters: Any, coef: Any,
    losses: Any, longest: int,
) -> None:  # fmt: skip
    order, work, own = np.empty(longest, np.int64), np.empty(WORK * longest + BINS), np.empty(longest)
    for q in range(first, last):
        start, stop = indptr[q], indptr[q + 1]
        if not wanted[q]:
            continue
        n = stop - start
        for i in range(n):
            own[i] = scores[start + i]
        sort_descending(own[:n], order[:n], work)
        losses[q] = oracle(own[:n], labels[start:stop], order[:n], parameters, coef[start:stop], work)


class Hosted:
    """The oracle of one loss.

    Parameters
    ----------
    oracle, parameters
        The oracle, and what it takes.
    labels : ndarray
        Labels in order.
    indptr : ndarray
        Query boundaries.
    hard : ndarray
        Queries that its library orders.
    team : Team
        Threads.
    """

    def __init__(
        self, oracle: Oracle, parameters: Array, labels: Array, indptr: Array, hard: Array, team: Team
    ) -> None:
        self._oracle, self._parameters, self._team = oracle, parameters, team
        self._labels = np.array(labels)
        self._labels.flags.writeable = False
        self._indptr, self._hard = indptr, hard
        self._kernel = FirstClass(oracle.kernel, ORACLE)
        self._longest = int(np.diff(indptr).max())

    def coefficients(self, scores: Array, wanted: Array) -> tuple[Array, Array]:
        """The coefficient of every document, and the loss of every query that is wanted."""
        coef, losses = np.zeros(len(scores)), np.zeros(len(wanted))
        easy = wanted.copy()
        easy[self._hard] = False
        tasks = runs_of(self._indptr, self._team.threads, _RUN)

        def run(first: int, last: int) -> None:
            _run(
                scores, self._labels, self._indptr, first, last, easy, self._kernel, self._parameters, coef, losses,
                self._longest,
            )  # fmt: skip

        self._team.each(run, tasks)
        for q in self._hard[wanted[self._hard]]:
            start, stop = self._indptr[q], self._indptr[q + 1]
            assert self._oracle.library is not None
            losses[q], coef[start:stop] = self._oracle.library(
                scores[start:stop], self._labels[start:stop], self._parameters
            )
        return coef, losses
