"""What is known of one training: typed facts that callers print, save or act on without parsing text.

A fact says here how it is shown: its entries in JSON (``to_dict``), its rows where an estimator is displayed (``rows``)
and its lines on the command line (``lines``). So a new one is added here and where it is made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.measures import Measure
from rankwright.rankers.cross_validation import CrossValidation

_TRIED_PER_LINE = 4  # values of C
_JSON_OF_CERTIFICATE = (
    "objective",
    "gap",
    "bound",
    "start",
    "reordered",
    "convex_rounds",
    "proof",
    "passes",
    "passes_total",
    "constraints",
)


class Kind(StrEnum):
    NOT_CHOSEN = "not chosen"  # too few queries for cross-validation
    INTERRUPTED = "interrupted"  # by Ctrl-C: the model is the best so far
    NO_BETTER_THAN_ZERO = "no better than zero"  # the objective is hardly lower than at weights of 0
    NOT_CONVERGED = "not converged"  # the requested accuracy was not reached
    NOTHING_TO_ORDER = "nothing to order"  # no query has an order to learn
    OVERFLOW = "overflow"  # the weights grew without bounds
    OTHER_FEATURES = "other features"  # the background model knows other features than the data has
    CUT_WEIGHTS = "cut weights"  # clicks at positions hardly ever looked at
    SHARED_QUERIES = "shared queries"  # validation queries are also in the training data


@dataclass(frozen=True)
class Notice:
    """Something the user should know about a training run.

    `text`: one line, in the words of the Python interface; ``fit`` issues it as a warning. `values`: the numbers in it,
    by name: a parameter's value under the parameter's name.
    """

    kind: Kind
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """What the bound proves about the training queries.

    `measure`: what was trained for; several: their mean, or the lowest of each query. `value`: its mean over the
    queries trained on, as training sees their labels. `at_least`: what the mean of the bound, which is above the loss,
    proves it to be.
    """

    measure: str
    value: float
    at_least: float

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is proved, rounded down, as it is a lower bound.

        Not ``value``: people get one training value, that of all training queries by the rules of evaluation.
        """
        if self.at_least > 0:
            proved = f"{math.floor(1e4 * self.at_least) / 1e4:.4f}"
            yield "proved", f"{self.measure} ≥ {proved} over the queries trained on"


_SAME = 0.0005  # share of pairs: less is no difference


@dataclass(frozen=True)
class Certificate:
    """Proof of the quality of the weights.

    `gap`: how far the objective may be above the optimum, relatively; with the ramp bound, that of the last round's
    convex problem. `passes`, `passes_total`: for the C that was kept, and for all C tried. `reached`: whether the gap
    is at most ``tol``. `bound` ({"hinge", "ramp"}): what was minimised. `start`: the method, with its C, from whose
    weights the ramp bound started; None: from given ones. `reordered`: the share of the pairs of training documents
    that the model orders differently from that method's. `constraints`: those that Algorithm 1 of SIGIR'07 added for
    the C that was kept; None for other solvers.
    """

    objective: float
    gap: float
    passes: int
    passes_total: int
    reached: bool
    bound: str = "hinge"
    proof: Proof | None = None
    start: str | None = None
    convex_rounds: int = 0
    reordered: float | None = None
    constraints: int | None = None

    def rows(self) -> Iterator[tuple[str, Any]]:
        yield "objective", self.objective
        yield "gap to the optimum", self.gap

    def lines(self, useless: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
        """What the command line says; ``useless``: the figures of weights that are no better than 0."""
        if self.bound == "ramp" and self.convex_rounds:  # none if the start was interrupted
            single = self.convex_rounds == 1
            rounds = f"{self.convex_rounds} {'round' if single else 'rounds'} from {self.start or 'the given weights'}"
            yield "ramp bound", f"{rounds}; {'its' if single else 'the last'} convex problem {self._words(useless)}"
            if self.reordered is not None and self.start is not None:
                method = self.start.partition(" ")[0]
                share = f"orders {100 * self.reordered:.1f} % of the pairs differently"
                yield method, share if self.reordered >= _SAME else "orders all pairs the same way, or nearly all"
        else:
            yield "objective", f"{self.objective:.5g}, {self._words(useless)}"
        if self.proof is not None and not useless:
            yield from self.proof.lines()

    def _words(self, useless: Mapping[str, Any] | None) -> str:
        """The proof, for someone who has never seen one; if the weights are useless, how little they gained."""
        if useless:
            return f"{100 * useless['objective_ratio']:.1f} % of that at weights of 0"
        if self.gap == 0:
            return "proved to be the best possible"
        lowest = self.objective * (1 - self.gap)
        if self.gap > 0.5:
            return f"far from proved: the best possible is somewhere between {lowest:.5g} and this"
        return f"proved to be within {percent(self.gap / (1 - self.gap))} of the best possible"


@dataclass(frozen=True)
class Rounds:
    """Rounds of boosting, or epochs.

    `unit`: ``"trees"``, ``"rounds"`` or ``"epochs"``. `kept`: how many the model has; for epochs, the number of the one
    it comes from. `values`: the measure on validation data after every round run; NaN without validation data.
    """

    unit: str
    kept: int
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        """The value on validation data of the rounds kept; NaN without validation data."""
        return self.values[self.kept - 1] if self.kept and self.values else float("nan")


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The facts that depend on the method; None for what a method does not have.

    `tried`: one row for each C that was tried. `C_left`: values of C that were not tried because training was
    interrupted.
    """

    notices: tuple[Notice, ...] = ()
    C: float | None = None
    tried: tuple[Mapping[str, Any], ...] = ()
    C_left: int = 0
    certificate: Certificate | None = None
    rounds: Rounds | None = None
    committee: Committee | None = None

    @property
    def interrupted(self) -> bool:
        return any(notice.kind is Kind.INTERRUPTED for notice in self.notices)

    @property
    def no_better_than_zero(self) -> dict[str, Any] | None:
        """The figures of weights that are no better than 0; None if they are."""
        return next((dict(notice.values) for notice in self.notices if notice.kind is Kind.NO_BETTER_THAN_ZERO), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Outcome):
    """All facts of one training run.

    `n_queries_skipped`: queries without an order to learn. `seconds`: wall time. `measure`: what C, or the number of
    rounds, is chosen by.
    """

    n_queries: int
    n_queries_skipped: int
    n_docs: int
    n_features: int
    seconds: float
    measure: Measure
    cross_validation: CrossValidation | None = None

    def to_dict(self, chosen: bool) -> dict[str, Any]:
        """All facts that JSON can hold; ``chosen``: whether C was."""
        rounds, crossed = self.rounds, self.cross_validation
        certificate = {name: getattr(self.certificate, name, None) for name in _JSON_OF_CERTIFICATE}
        proof = certificate["proof"]
        certificate |= {"convex_rounds": certificate["convex_rounds"] or 0}
        certificate |= {"proof": None if proof is None else dataclasses.asdict(proof)}
        return {
            "queries": self.n_queries,
            "queries_skipped": self.n_queries_skipped,
            "documents": self.n_docs,
            "n_features": self.n_features,
            "C": self.C,
            "C_tried": [dict(row) for row in self.tried] if chosen else [],
            "C_left": self.C_left,
            "no_better_than_zero": self.no_better_than_zero,
            **certificate,
            "unit": None if rounds is None else rounds.unit,
            "rounds": None if rounds is None else rounds.kept,
            "rounds_run": self._n_rounds_run(),
            "cross_validation": None if crossed is None else crossed.to_dict(),
            "committee": None if self.committee is None else self.committee.to_dict(),
            "seconds": self.seconds,
        }

    def rows(self) -> Iterator[tuple[str, Any]]:
        """What a display of the estimator shows, by name."""
        yield "queries trained on", self.n_queries
        if self.n_queries_skipped:
            yield "queries with nothing to order", self.n_queries_skipped
        yield "documents", self.n_docs
        yield "features", self.n_features
        if self.C is not None:
            yield ("C", self.C) if len(self.tried) < 2 else (f"C, the best of {len(self.tried)}", self.C)
        if self.rounds is not None:
            yield self.rounds.unit, self.rounds.kept
            if not np.isnan(self.rounds.value):
                yield f"{self.measure}, validation", self.rounds.value
        if self.certificate is not None:
            yield from self.certificate.rows()
        if self.cross_validation is not None:
            yield f"{self.measure}, cross-validated", self.cross_validation.value
        if self.committee is not None:
            yield "members", ", ".join(member.name for member in self.committee.members)
        yield "seconds", round(self.seconds, 3)
        for notice in self.notices:
            yield str(notice.kind), notice.text

    def lines(self, chosen: bool, valid: str, compiled: bool) -> Iterator[tuple[str, str]]:
        """What the command line says of the choice and the work.

        `chosen`: whether C was. `valid`: the name of the validation data, if there is some. `compiled`: whether code
        was.
        """
        crossed, tried = self.cross_validation, self.tried if chosen else ()
        where = f"on {valid}" if valid else "" if crossed is None else f"in {crossed.folds.words}"
        if self.C is not None:
            yield "C", self._choice(tried, where)
        if self.rounds is not None:
            best = f", the best of {self._n_rounds_run():,} by {self.measure} {where}" if where else ""
            included = "" if crossed is None else " in all"
            yield self.rounds.unit, f"{self.rounds.kept:,}{best}, {self.seconds:.2f} s{included}"
        if len(tried) > 1:
            texts = [f"{row['C']:g}: {row[str(self.measure)]:.4f}" for row in tried]
            for at in range(0, len(texts), _TRIED_PER_LINE):
                yield "", "".join(f"{text:<17}" for text in texts[at : at + _TRIED_PER_LINE]).rstrip()
        if self.certificate is not None:
            yield from self.certificate.lines(self.no_better_than_zero)
        several = f" for {len(tried)} values of C" if len(tried) > 1 else ""
        included = ", compiling included" if compiled else ""
        if crossed is not None:  # the passes are those of the training on all data
            several, included = "", f" in all{included}"
        if self.certificate is not None:
            passes = f"{self.certificate.passes_total:,} over the data"
            yield "passes", f"{passes}{several}, {self.seconds:.2f} s{included}"
        elif self.rounds is None:
            yield "time", f"{self.seconds:.2f} s{several}{included}"

    def _n_rounds_run(self) -> int | None:
        if self.rounds is None:
            return None
        return len(self.rounds.values if self.cross_validation is None else self.cross_validation.settings)

    def _choice(self, tried: tuple[Mapping[str, Any], ...], where: str) -> str:
        if not tried:
            return f"{self.C:g}"
        if len(tried) == 1 and not self.C_left:
            value = tried[0].get(str(self.measure))
            return f"{self.C:g}" if value is None else f"{self.C:g}, with {self.measure} of {value:.4f} {where}"
        text = f"{self.C:g}, the best of {len(tried)} by {self.measure} {where}"
        if self.C_left:
            return f"{text}; {self.C_left} more not tried"
        useless, ends = self.no_better_than_zero, (tried[0]["C"], tried[-1]["C"])
        if (useless and not useless["larger"]) or self.C not in ends:
            return text
        if self.certificate is not None and self.certificate.bound == "ramp":  # whose C is relative
            return text
        return f"{text}, at the {'low' if ends[0] == self.C else 'high'} end: --C-grid can go further"


def percent(share: float) -> str:
    """Two digits, rounded up: what is proved is an upper bound."""
    digits = Context(prec=2, rounding=ROUND_CEILING).create_decimal(repr(max(100 * share, 1e-5)))
    return f"{digits:f} %"


def shared_notices(data: RankingData, valid: RankingData | None) -> tuple[Notice, ...]:
    """A notice if validation queries are also in the training data, whose columns are the same."""
    overlap = None if valid is None else shared_queries(valid, data, "validation", "training")
    if overlap is None:
        return ()
    return (Notice(Kind.SHARED_QUERIES, overlap.text, {"shared": overlap.n_shared, "queries": overlap.n_queries}),)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters and facts that JSON can hold."""
    facts = {}
    for key, value in values.items():
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if isinstance(value, Mapping):
            value = [[*(entry if isinstance(entry, tuple) else [entry]), amount] for entry, amount in value.items()]
        if isinstance(value, Measure):
            value = str(value)
        if isinstance(value, list | tuple):
            value = [_named(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str | list):
            facts[key] = value
    return facts


def _named(item: Any) -> Any:
    """Numbers, text and lists unchanged; the class of a ranker, the notation of a measure."""
    if item is None or isinstance(item, bool | int | float | str | list):
        return item
    return str(item) if isinstance(item, Measure) else type(item).__name__


# A committee of rankers: their scores on one scale, added; the choice of its members, and its expected quality.
#
# All decisions are made on held-out queries, which no member was trained on. A member is dropped if the committee is
# better without it by more than `DROPPED_FROM` standard errors of the mean difference over queries. The best single
# feature takes the committee's place only if it is clearly better, by more than `FLOOR_FROM` of them, or than what is
# expected of the committee; where it was less, the committee was the better one on new queries in most trials. Its
# expected quality is computed the same way, with one more precaution: the members that count for a fold are those
# chosen on the other folds. Members have equal weights: fitted weights gained nothing above noise.


DROPPED_FROM = 1.0
"""Standard errors by which the committee must be better without a member to drop it."""
FLOOR_FROM = 2.0
"""Standard errors by which the best single feature must be better than the committee to take its place."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A weighted mean over queries with its 95 % confidence interval, by Student's t; NaN for a single query."""

    value: float
    low: float
    high: float


def interval_of(values: Array, weights: Array) -> Interval:
    mean, error, n = _mean(values, weights)
    if n < 2:
        return Interval(mean, float("nan"), float("nan"))
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * error
    return Interval(mean, mean - reach, mean + reach)


@dataclass(frozen=True)
class Expectation:
    """The expected quality of a ranker on unseen queries.

    `feature_value`: that of the best single feature. `difference`: how much higher the ranker's is, query by query.
    """

    value: Interval
    feature_value: Interval
    difference: Interval

    def to_dict(self) -> dict[str, list[float]]:
        return {f"expected_{name}": [mean.value, mean.low, mean.high] for name, mean in vars(self).items()}

    def words(self, measure: str, held_out: str, n_queries: int, feature: str | None) -> list[tuple[str, str]]:
        value, apart = self.value, self.difference
        between = "" if math.isnan(value.low) else f", between {max(value.low, 0.0):.3f} and {min(value.high, 1.0):.3f}"
        sure = f"95 % confidence; {held_out}, {n_queries:,} {'query' if n_queries == 1 else 'queries'}"
        lines = [("expect", f"{measure} {value.value:.4f} on new queries like these{between} ({sure})")]
        if feature is not None:
            sign = "clearly better" if apart.low > 0 else "clearly worse" if apart.high < 0 else "not clearly better"
            sign = "the same" if apart.value == apart.low == apart.high == 0 else sign
            between = "" if math.isnan(apart.low) else f" ({apart.low:+.3f} to {apart.high:+.3f})"
            best = f"{feature}, the best single feature, {self.feature_value.value:.4f}"
            lines.append(("against", f"{best}: {apart.value:+.4f}{between}, {sign}"))
        return lines


@dataclass(frozen=True)
class MemberFacts:
    """A member of a committee, or a candidate that was dropped.

    `setting`: what was chosen for it, such as ``C 10`` or ``120 trees``. `value`: the measure on held-out queries,
    alone. `seconds`: to train it, choices included.
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
class LeftOut:
    """Candidates that could not be trained on the data, and why."""

    names: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Committee:
    """The members of a committee, why they are in it, and its expected quality.

    `held_out`: what decided: ``5-fold cross-validation``, ``validation data``, …. `n_queries`: queries that were held
    out. `members`: all candidates that were trained. `feature`: the best single feature. `expectation`: None if no
    query could be held out. `floor`: whether the best single feature is the model, being clearly better than the
    members. `unfinished`: candidates that were not finished in time. `left_out`: those that cannot use the features.
    """

    measure: str
    held_out: str
    n_queries: int
    members: tuple[MemberFacts, ...]
    feature: str | None
    expectation: Expectation | None
    floor: bool
    unfinished: tuple[str, ...]
    left_out: LeftOut | None = None

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
        if self.left_out is not None:
            lines.append(("left out", f"{'; '.join(self.left_out.names)}: {self.left_out.why}"))
        if self.expectation is None:
            lines.append(("expect", "unknown: only one query has an order to learn, so none can be held out"))
        else:
            lines += self.expectation.words(self.measure, self.held_out, self.n_queries, self.feature)
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "summary": [f"{title}\t{line}" for title, line in self.words()],
            "members": [
                [member.name, member.setting, None if member.value is None else member.value.value, member.stays]
                for member in self.members
            ],
            "held_out": self.held_out,
            "best_feature": self.feature,
            "is_best_feature": self.floor,
            "unfinished": list(self.unfinished),
            **({} if self.left_out is None else {"left_out": list(self.left_out.names)}),
            **({} if self.expectation is None else self.expectation.to_dict()),
        }


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of documents by members that were not trained on their queries, on one scale: a column per member.

    `feature`: the best single feature, chosen on other queries too. `values_of`: the measure of every query, as a
    function of the scores. `weights`, `folds`: of the queries.
    """

    scores: Array
    feature: Array
    values_of: Callable[[Array], Array]
    weights: Array
    folds: Array
    _values: dict[tuple[int, ...], Array] = field(default_factory=dict, init=False, repr=False)

    def values(self, members: Sequence[int]) -> Array:
        """The measure of every query for the sum of some members."""
        key = tuple(members)
        if key not in self._values:
            self._values[key] = self.values_of(self.scores[:, list(key)].sum(axis=1))
        return self._values[key]

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
        return self._against_feature(of_query)

    def decided(self) -> tuple[tuple[int, ...], bool, Expectation]:
        """The members that stay, whether the best single feature takes their place, and what to expect.

        The feature does so too if the expectation alone, whose choices are made without the queries it is about, is
        clearly below it: no model is written that is called clearly worse than a feature.
        """
        members, expectation = self.stay(), self.expectation()
        if expectation.difference.high < 0:
            return members, True, self._against_feature(self.values_of(self.feature))
        return members, self.is_below_feature(members), expectation

    def _against_feature(self, values: Array) -> Expectation:
        of_feature = self.values_of(self.feature)
        compared = (values, of_feature, values - of_feature)
        return Expectation(*(interval_of(column, self.weights) for column in compared))


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
