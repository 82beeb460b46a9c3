"""What is known of one training: typed facts that callers print, save or act on without parsing text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.measures import Measure
from rankwright.rankers.committee import Committee
from rankwright.rankers.cross_validation import CrossValidation

__all__ = ["Certificate", "Fitted", "Kind", "Notice", "Outcome", "Proof", "Rounds", "plain", "shared_notices"]


class Kind(StrEnum):
    """What a notice is about."""

    NOT_CHOSEN = "not chosen"  # too few queries for cross-validation
    INTERRUPTED = "interrupted"  # by Ctrl-C: the model is the best so far
    NO_BETTER_THAN_ZERO = "no better than zero"  # the objective is hardly lower than at weights of 0
    NOT_CONVERGED = "not converged"  # the accuracy asked for was not reached
    NOTHING_TO_ORDER = "nothing to order"  # no query has an order to learn
    OVERFLOW = "overflow"  # the weights grew without bounds
    OTHER_FEATURES = "other features"  # the background model knows other features than the data has
    CUT_WEIGHTS = "cut weights"  # clicks at positions that are hardly looked at
    SHARED_QUERIES = "shared queries"  # validation queries are also in the training data


@dataclass(frozen=True)
class Notice:
    """Something the user should know about a training.

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
    """What the bound proves of the training queries.

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


@dataclass(frozen=True)
class Certificate:
    """Proof of how good the weights are.

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
    """

    objective: float
    gap: float
    passes: int
    passes_total: int
    reached: bool
    bound: str = "hinge"
    proof: Proof | None = None


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
        """Whether Ctrl-C ended training early."""
        return any(notice.kind is Kind.INTERRUPTED for notice in self.notices)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted(Outcome):
    """All facts of one training.

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


def shared_notices(data: RankingData, valid: RankingData | None) -> tuple[Notice, ...]:
    """A notice if validation queries are also in the training data, whose columns are the same."""
    found = None if valid is None else shared_queries(valid, data, "validation", "training")
    if found is None:
        return ()
    return (Notice(Kind.SHARED_QUERIES, found.text, {"shared": found.n_shared, "queries": found.n_queries}),)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters and facts that JSON can hold."""
    kept = {}
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
            kept[key] = value
    return kept


def _named(item: Any) -> Any:
    """Numbers, text and lists unchanged; the class of a ranker, the notation of a measure."""
    if item is None or isinstance(item, bool | int | float | str | list):
        return item
    return str(item) if isinstance(item, Measure) else type(item).__name__
