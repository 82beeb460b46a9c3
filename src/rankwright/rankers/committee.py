"""A committee of rankers: their scores on one scale, added; the choice of its members, and its expected quality.

All decisions are made on held-out queries, which no member was trained on. A member is dropped if the committee is
better without it by more than `DROPPED_FROM` standard errors of the mean difference over queries. The best single
feature takes the committee's place only if it is clearly better, by more than `FLOOR_FROM` of them; where it was less,
the committee was the better one on new queries in most trials. Its expected quality is computed the same way, with one
more precaution: the members that count for a fold are those chosen on the other folds. Members have equal weights:
fitted weights gained nothing above noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DROPPED_FROM = 1.0
"""Standard errors by which the committee must be better without a member to drop it."""
FLOOR_FROM = 2.0
"""Standard errors by which the best single feature must be better than the committee to take its place."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean over queries with its confidence interval, by Student's t.

    Attributes
    ----------
    value : float
        The mean.
    low, high : float
        Where the mean over all queries of this kind lies, with a confidence of 95 %; NaN for a single query.
    """

    value: float
    low: float
    high: float


def interval_of(values: Array, weights: Array) -> Interval:
    """The weighted mean of the values of queries, with its interval."""
    mean, error, n = _mean(values, weights)
    if n < 2:
        return Interval(mean, float("nan"), float("nan"))
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * error
    return Interval(mean, mean - reach, mean + reach)


@dataclass(frozen=True)
class Expectation:
    """The expected quality of a ranker on unseen queries.

    Attributes
    ----------
    value : Interval
        The measure.
    feature_value : Interval
        That of the best single feature.
    difference : Interval
        How much higher it is than the best single feature, query by query.
    """

    value: Interval
    feature_value: Interval
    difference: Interval

    def to_dict(self) -> dict[str, list[float]]:
        return {f"expected_{name}": [mean.value, mean.low, mean.high] for name, mean in vars(self).items()}

    def words(self, measure: str, held_out: str, n_queries: int, feature: str | None) -> list[tuple[str, str]]:
        """Two titles and lines."""
        value, apart = self.value, self.difference
        between = "" if math.isnan(value.low) else f", between {max(value.low, 0.0):.3f} and {min(value.high, 1.0):.3f}"
        lines = [
            ("expect", f"{measure} {value.value:.4f} on new queries like these{between} ({_sure(held_out, n_queries)})")
        ]
        if feature is not None:
            sign = "clearly better" if apart.low > 0 else "clearly worse" if apart.high < 0 else "not surely better"
            sign = "the same" if apart.value == apart.low == apart.high == 0 else sign
            gain = f"{apart.value:+.4f}" + (
                "" if math.isnan(apart.low) else f" ({apart.low:+.3f} to {apart.high:+.3f})"
            )
            lines.append(
                ("against", f"{feature}, the best single feature, {self.feature_value.value:.4f}: {gain}, {sign}")
            )
        return lines


@dataclass(frozen=True)
class MemberFacts:
    """A member of a committee, or a candidate that was dropped.

    Attributes
    ----------
    name : str
        The method.
    setting : str
        What was chosen for it, such as ``C 10`` or ``120 trees``.
    value : Interval or None
        The measure on held-out queries, alone.
    stays : bool
        Whether it is in the committee.
    seconds : float
        To train it, choices included.
    """

    name: str
    setting: str
    value: Interval | None
    stays: bool
    seconds: float

    @property
    def words(self) -> str:
        return f"{self.name} ({self.setting})"


@dataclass(frozen=True)
class Committee:
    """The members of a committee, why they are in it, and its expected quality.

    Attributes
    ----------
    measure : str
        What decided.
    held_out : str
        By what: ``5-fold cross-validation``, ``validation data``, …
    n_queries : int
        Queries that were held out.
    members : tuple of MemberFacts
        All candidates that were trained.
    feature : str or None
        The best single feature.
    expectation : Expectation or None
        For new queries; None if no query could be held out.
    floor : bool
        Whether the best single feature is the model, being clearly better than the members.
    unfinished : tuple of str
        Candidates that were not finished in time.
    """

    measure: str
    held_out: str
    n_queries: int
    members: tuple[MemberFacts, ...]
    feature: str | None
    expectation: Expectation | None
    floor: bool
    unfinished: tuple[str, ...]

    @property
    def kept(self) -> tuple[MemberFacts, ...]:
        """The members of the committee; none if it is the best single feature."""
        return () if self.floor else tuple(member for member in self.members if member.stays)

    def words(self) -> list[tuple[str, str]]:
        """What it holds, why, and what to expect: a few titles and lines."""
        kept = self.kept
        if self.floor:
            lines = [("holds", f"the feature {self.feature} alone, which is better than what was learnt")]
        elif len(kept) == 1:
            lines = [("holds", f"{kept[0].words}, alone")]
        else:
            listed = ", ".join(member.words for member in kept)
            lines = [("holds", f"{len(kept)} rankers, their scores on one scale and added: {listed}")]
        dropped = [member.name for member in self.members if member not in kept]
        remarks = [f"dropped, because it is better without: {'; '.join(dropped)}"] if dropped and not self.floor else []
        remarks += [f"not finished in time: {'; '.join(self.unfinished)}"] if self.unfinished else []
        alone = [f"{member.name} {member.value.value:.4f}" for member in self.members if member.value is not None]
        if alone:
            lines.append(("alone", "; ".join(alone) + f" ({self.measure}, {self.held_out})"))
        lines += [("", line) for line in remarks]
        if self.expectation is None:
            lines.append(("expect", "unknown: only one query has an order to learn, so none can be held out"))
        else:
            lines += self.expectation.words(self.measure, self.held_out, self.n_queries, self.feature)
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Everything as numbers, text and lists, for a model file."""
        return {
            "summary": [f"{title}\t{line}" for title, line in self.words()],
            "members": [[member.name, member.setting, _number(member.value), member.stays] for member in self.members],
            "held_out": self.held_out,
            "best_feature": self.feature,
            "is_best_feature": self.floor,
            "unfinished": list(self.unfinished),
            **({} if self.expectation is None else self.expectation.to_dict()),
        }


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of documents by members that were not trained on their queries.

    Attributes
    ----------
    scores : ndarray of shape (documents, members)
        On one scale.
    feature : ndarray
        The best single feature, chosen on other queries too.
    values_of : callable
        The measure of every query, as a function of the scores.
    weights : ndarray
        Of the queries.
    folds : ndarray of int
        The fold of every query.
    """

    scores: Array
    feature: Array
    values_of: Callable[[Array], Array]
    weights: Array
    folds: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {})

    def values(self, members: Sequence[int]) -> Array:
        """The measure of every query for the sum of some members."""
        cache: dict[tuple[int, ...], Array] = vars(self)["_known"]
        key = tuple(members)
        if key not in cache:
            cache[key] = self.values_of(self.scores[:, list(key)].sum(axis=1))
        return cache[key]

    def stay(self, queries: Array | None = None) -> tuple[int, ...]:
        """The members that stay, decided on some queries (a mask) or on all of them.

        One at a time goes the member without which the committee is better by the most standard errors, as long as
        these are more than `DROPPED_FROM`.
        """
        queries = np.ones(len(self.weights), bool) if queries is None else queries
        members = tuple(range(self.scores.shape[1]))
        while len(members) > 1:
            with_all = self.values(members)[queries]
            gains = []
            for member in members:
                remaining = tuple(number for number in members if number != member)
                gains.append(_errors(self.values(remaining)[queries] - with_all, self.weights[queries]))
            worst = int(np.argmax(gains))
            if not gains[worst] > DROPPED_FROM:
                break
            members = (*members[:worst], *members[worst + 1 :])
        return members

    def is_below_feature(self, members: Sequence[int], queries: Array | None = None) -> bool:
        """Whether the best single feature is better than the sum of some members, clearly."""
        if not members:
            return True
        queries = np.ones(len(self.weights), bool) if queries is None else queries
        apart = (self.values_of(self.feature) - self.values(members))[queries]
        return _errors(apart, self.weights[queries]) > FLOOR_FROM

    def expectation(self) -> Expectation:
        """The expected quality; for every fold, members and floor are chosen on the other folds."""
        of_feature = self.values_of(self.feature)
        of_query = np.empty(len(self.weights))
        for fold in np.unique(self.folds):
            held_out = self.folds == fold
            remaining = ~held_out if not held_out.all() else held_out
            members = self.stay(remaining)
            values = of_feature if self.is_below_feature(members, remaining) else self.values(members)
            of_query[held_out] = values[held_out]
        return Expectation(
            interval_of(of_query, self.weights),
            interval_of(of_feature, self.weights),
            interval_of(of_query - of_feature, self.weights),
        )


def _mean(values: Array, weights: Array) -> tuple[float, float, int]:
    """The weighted mean, its standard error, and the number of queries; independent of their order."""
    total = math.fsum(weights)
    mean = math.fsum(values * weights) / total
    n = len(values)
    if n < 2:
        return mean, float("nan"), n
    squares = math.fsum((weights * (values - mean)) ** 2)
    return mean, math.sqrt(squares * n / (n - 1)) / total, n


def _errors(differences: Array, weights: Array) -> float:
    """A mean difference in units of its standard error; 0 if it is only rounding."""
    mean, error, _ = _mean(np.round(differences, 12), weights)
    if mean == 0 or math.isnan(error):
        return 0.0
    return mean / error if error > 0 else math.copysign(math.inf, mean)


def _number(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value


def _sure(held_out: str, n_queries: int) -> str:
    return f"95 % confidence; {held_out}, {n_queries:,} {'query' if n_queries == 1 else 'queries'}"
