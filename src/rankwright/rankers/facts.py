"""What is known of one training: typed facts that callers print, save or act on without parsing text.

A fact says here how it is shown: its entries in JSON (``to_dict``), its rows where an estimator is displayed (``rows``)
and its lines on the command line (``lines``). So a new one is added here and where it is made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.measures import Measure
from rankwright.rankers.cross_validation import CrossValidation

if TYPE_CHECKING:
    from rankwright.rankers.committee import Committee

_TRIED_PER_LINE = 4  # values of C
_JSON_OF_CERTIFICATE = ("objective", "gap", "bound", "start", "convex_rounds", "proof", "passes", "passes_total")


class Kind(StrEnum):
    """The subject of a notice."""

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

    Attributes
    ----------
    kind : Kind
        What it is about.
    text : str
        One line, in the words of the Python interface; ``fit`` issues it as a warning.
    values : mapping
        The numbers in it, by name: a parameter's value under the parameter's name.
    """

    kind: Kind
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """What the bound proves about the training queries.

    Attributes
    ----------
    measure : str
        What was trained for; several: their mean, or the lowest of each query.
    value : float
        Its mean over the queries trained on, as training sees their labels.
    at_least : float
        What the mean of the bound, which is above the loss, proves it to be.
    """

    measure: str
    value: float
    at_least: float

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is proved, rounded down, as it is a lower bound."""
        if self.at_least > 0:
            least = f"{math.floor(1e4 * self.at_least) / 1e4:.4f}"
            yield "proved", f"{self.measure} ≥ {least} over the queries trained on; it is {self.value:.4f}"


@dataclass(frozen=True)
class Certificate:
    """Proof of the quality of the weights.

    Attributes
    ----------
    objective : float
        The objective at the weights kept.
    gap : float
        How far it may be above the optimum, relatively.
    passes, passes_total : int
        Passes over the data: for the C that was kept, and for all C tried.
    reached : bool
        Whether the gap is at most ``tol``.
    bound : {"hinge", "ramp"}
        What was minimised. With the ramp bound the gap is that of the last round's convex problem.
    proof : Proof or None
        What is proved of the measure itself.
    start : str or None
        The method, with its C, from whose weights the ramp bound started; None: from given ones.
    convex_rounds : int
        Convex problems that the ramp bound solved.
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

    def rows(self) -> Iterator[tuple[str, Any]]:
        """What a display of the estimator shows."""
        yield "objective", self.objective
        yield "gap to the optimum", self.gap

    def lines(self, useless: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
        """What the command line says; ``useless``: the figures of weights that are no better than 0."""
        if self.bound == "ramp" and self.convex_rounds:  # none if the start was interrupted
            one = self.convex_rounds == 1
            rounds = f"{self.convex_rounds} {'round' if one else 'rounds'} from {self.start or 'the given weights'}"
            yield "ramp bound", f"{rounds}; {'its' if one else 'the last'} convex problem {self._words(useless)}"
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

    Attributes
    ----------
    unit : str
        ``"trees"``, ``"rounds"`` or ``"epochs"``.
    kept : int
        How many the model has; for epochs, the number of the one it comes from.
    values : tuple of float
        The measure on validation data after every round run; NaN without validation data.
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
    """The facts that depend on the method.

    Attributes
    ----------
    notices : tuple of Notice
        What the user should know.
    C : float or None
        The C of the model, for methods that have one.
    tried : tuple of mapping
        One row for each C that was tried.
    C_left : int
        Values of C that were not tried because training was interrupted.
    certificate : Certificate or None
        For methods that prove how good their weights are.
    rounds : Rounds or None
        For methods that train in rounds.
    committee : Committee or None
        For ``auto``.
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
        return next((dict(one.values) for one in self.notices if one.kind is Kind.NO_BETTER_THAN_ZERO), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Outcome):
    """All facts of one training run.

    Attributes
    ----------
    n_queries, n_queries_skipped : int
        Queries trained on, and those without an order to learn.
    n_docs, n_features : int
        Documents and features of the training data.
    seconds : float
        Wall time.
    measure : Measure
        What C, or the number of rounds, is chosen by on validation data.
    cross_validation : CrossValidation or None
        By which C, or the number of rounds, was chosen where there was no validation data.
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

        Parameters
        ----------
        chosen : bool
            Whether C was chosen.
        valid : str
            The name of the validation data, if there is some.
        compiled : bool
            Whether code was compiled.
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
        """The C that was chosen, and from what."""
        if not tried:
            return f"{self.C:g}"
        text = f"{self.C:g}, the best of {len(tried)} by {self.measure} {where}"
        if self.C_left:
            return f"{text}; {self.C_left} more not tried"
        useless, ends = self.no_better_than_zero, (tried[0]["C"], tried[-1]["C"])
        if (useless and not useless["larger"]) or len(tried) == 1 or self.C not in ends:
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
