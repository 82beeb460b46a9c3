"""When two rankers are told apart: a test that may be looked at after every judgement.

The queries, in a random order fixed beforehand, are a sample; d_i in [−1, 1] is the difference of nDCG@k on the i-th.
If the mean difference of the population is 0 or below, then for every bet λ in (0, 1] the capital

    M_t = Π_{i ≤ t} (1 + λ d_i)

is a nonnegative supermartingale, and so is the mean of several such capitals. By Ville's inequality it ever reaches
1/α with probability at most α (Waudby-Smith and Ramdas 2023, section 4). Each direction gets α/2.

A query that is judged in part has no d_i yet, but a lower bound of it: the worst that grades of its other documents can
do. Capital with lower bounds is never above the capital with the true differences, so the error rate holds for any
choice of documents and any moment of looking; that is what lets :mod:`~rankwright.judging.pool` choose freely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.judging.pool import JudgingPool
from rankwright.judging.records import GRADES

_BETS = np.array([0.25, 0.5, 0.75, 1.0])
_HIGHEST = float(max(GRADES))


@dataclass(frozen=True)
class Decision:
    """What is known about two rankers.

    `better`: the ranker that is better, if that is decided. `capital`: the largest capital of the bets on the first and
    on the second ranker; a decision needs ``needed``. `needed`: 2/α. `queries`: queries whose difference is known
    exactly.
    """

    better: str | None
    capital: tuple[float, float]
    needed: float
    queries: int


class Sequential:
    """A comparison of two rankers by nDCG@k that may be looked at after every judgement.

    `pool`: the first documents of both. `names`: the two rankers. `queries`: the queries in an order that was fixed
    before anything was judged. `grade`: the grade of a document for a query; None while it is not known. `cutoff`: the
    k of nDCG@k. `alpha`: how often a difference may be claimed where there is none.
    """

    def __init__(
        self,
        pool: JudgingPool,
        names: tuple[str, str],
        queries: Sequence[str],
        grade: Callable[[str, str], float | None],
        cutoff: int = 10,
        alpha: float = 0.05,
    ) -> None:
        self._pool, self._names, self._grade, self._cutoff, self._alpha = pool, names, grade, cutoff, alpha
        self._place = {query: at for at, query in enumerate(queries)}
        self._documents = {query: pool.documents(query) for query in queries}
        self._low, self._high = np.zeros(len(queries)), np.zeros(len(queries))
        for query in queries:
            self.update(query)

    def update(self, query: str) -> None:
        """Take in the grades of a query."""
        first, second = (list(self._pool.tops[name].get(query, ()))[: self._cutoff] for name in self._names)
        grades = {document: self._grade(query, document) for document in self._documents[query]}
        at = self._place[query]
        self._low[at], self._high[at] = bounds(first, second, grades, self._cutoff)

    def decision(self) -> Decision:
        capital = largest_capital(self._low), largest_capital(-self._high)
        needed = 2 / self._alpha
        better = next((name for name, amount in zip(self._names, capital, strict=True) if amount >= needed), None)
        return Decision(better, capital, needed, int((self._low == self._high).sum()))


def largest_capital(differences: npt.ArrayLike) -> float:
    """The largest capital on the way, of equal bets of several sizes that the differences are above 0.

    Examples
    --------
    >>> largest_capital([-0.5, -0.5]), round(largest_capital([0.5, 0.5]), 2)
    (1.0, 1.74)
    """
    steps = np.asarray(differences, np.float64)
    with np.errstate(divide="ignore"):
        capital = np.cumsum(np.log1p(_BETS[:, None] * np.maximum(steps, -1.0)[None, :]), axis=1)
    return float(max(1.0, np.exp(np.minimum(capital, 700.0)).mean(axis=0).max(initial=1.0)))


def bounds(
    first: Sequence[str], second: Sequence[str], grades: Mapping[str, float | None], cutoff: int
) -> tuple[float, float]:
    """The least and the largest difference of nDCG@k that grades of the documents without one could make.

    `first`, `second`: the first documents of two rankers, best first. `grades`: grade of each document of the query;
    None while it is not known. `cutoff`: the k of nDCG@k; its gain is the grade.

    Examples
    --------
    >>> bounds(["a", "b"], ["b", "a"], {"a": 3, "b": None}, 2)[0] == 0.0  # b may be as good as a
    True
    """
    worth: dict[str, float] = dict.fromkeys(grades, 0.0)
    discounts = 1 / np.log2(2 + np.arange(cutoff))
    for sign, top in ((1.0, first), (-1.0, second)):
        for discount, document in zip(discounts.tolist(), top, strict=False):
            worth[document] += sign * discount
    fixed = sum(worth[document] * grade for document, grade in grades.items() if grade is not None)
    open_worths = [worth[document] for document, grade in grades.items() if grade is None]
    given = [grade for grade in grades.values() if grade is not None]
    ideals = [_ideal(given, discounts), _ideal(given + [_HIGHEST] * len(open_worths), discounts)]
    lowest = fixed + _HIGHEST * sum(value for value in open_worths if value < 0)
    highest = fixed + _HIGHEST * sum(value for value in open_worths if value > 0)
    return _quotient(lowest, ideals), -_quotient(-highest, ideals)


def _ideal(grades: Sequence[float], discounts: Array) -> float:
    best = sorted(grades, reverse=True)[: len(discounts)]
    return float(np.dot(best, discounts[: len(best)]))


def _quotient(gain: float, ideals: Sequence[float]) -> float:
    """The least that a gain can be over an ideal between these two; 0/0 is 0, as in an evaluation."""
    smallest, largest = ideals
    if gain >= 0:
        return gain / largest if largest else 0.0
    return max(gain / smallest, -1.0) if smallest else -1.0
