"""`adapt`: the ways to use a background ranker in a new domain, compared on validation data, and one of them chosen.

An `Adaptation` trains each way once, through `training.train`; what users should know comes back as notices.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.adaptation.augment import augment
from rankwright.adaptation.methods import METHODS
from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.significance import bootstrap_interval, p_value
from rankwright.evaluation.table import Evaluation, evaluate
from rankwright.measures import Measure, Rankings, parse_measure
from rankwright.models.saving import save_model
from rankwright.rankers.background import background_model, background_scores, compare_features
from rankwright.rankers.facts import Fitted, Kind, Notice, shared_notices
from rankwright.rankers.interpolation import Interpolation
from rankwright.training.train import plan

__all__ = ["Adaptation", "Adapted", "Candidate", "adapt"]

Array = npt.NDArray[Any]

_NEEDS_DATA = ("augment", "interpolate-3")
_ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way that was tried.

    Attributes
    ----------
    name : str
        One of ``METHODS``.
    model : Model
        What came of it; contains the background if it needs it.
    evaluation : Evaluation
        On the validation data.
    seconds : float
        Training time.
    training : Fitted or None
        The facts of its training; None for the background.
    details : mapping
        Figures of this way alone: weights of an interpolation, documents taken.
    """

    name: str
    model: Any
    evaluation: Evaluation
    seconds: float
    training: Fitted | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The mean of the first measure on validation data."""
        return float(np.nanmean(self.evaluation.values[:, 0]))

    @property
    def facts(self) -> dict[str, Any]:
        """What was chosen or found in training, as plain values."""
        found: dict[str, Any] = {}
        if self.training is not None and self.training.C is not None:
            found = {"C": float(self.training.C), "queries": self.training.n_queries}
        if self.training is not None and self.training.rounds is not None:
            found[self.training.rounds.unit] = self.training.rounds.kept
        return found | dict(self.details)


@dataclass(frozen=True, eq=False)
class Adapted:
    """The outcome of an adaptation.

    Attributes
    ----------
    chosen : Candidate
        The one to use.
    candidates : tuple of Candidate
        All that could be trained, the simplest first.
    failures : dict of str
        Why the others could not be.
    reason : str
        Why this one was chosen.
    notices : tuple of Notice
        What the user should know.
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    failures: dict[str, str]
    reason: str
    notices: tuple[Notice, ...] = ()

    @property
    def model(self) -> Any:
        """The model of the chosen candidate."""
        return self.chosen.model

    def predict(self, data: RankingData) -> Array:
        """Scores of the chosen model, in the caller's order."""
        scores: Array = self.model.predict(data)
        return scores

    def save(self, path: str | Path) -> None:
        """Write the chosen model to one file; it needs no other file."""
        measure = str(self.chosen.evaluation.measures[0])
        values = {f"validation {measure}": self.chosen.value}
        facts = {"chosen": self.reason, **self.chosen.facts}
        save_model(
            self.model,
            path,
            method=f"adapted-{self.chosen.name}",
            parameters={"measure": measure},
            training=facts,
            measures=values,
        )

    def differences(self, name: str, to: str = "background") -> tuple[float, tuple[float, float], float]:
        """Mean difference of two candidates on validation data, its 95 % interval, and p of the paired t-test."""
        found = {candidate.name: candidate.evaluation.values[:, 0] for candidate in self.candidates}
        apart = found[name] - found[to]
        return float(apart.mean()), bootstrap_interval(apart), p_value("t", apart)


def adapt(
    background: Any,
    train: RankingData,
    valid: RankingData,
    *,
    background_data: RankingData | None = None,
    method: str = "auto",
    measure: str | Measure = "ndcg@10",
    leaves: int = 10,
    randomize_nodes: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], Any] | None = None,
) -> Adapted:
    """Adapt a ranker to a new domain.

    Parameters
    ----------
    background : fitted ranker, model or SavedModel
        Trained on the rich domain.
    train, valid : RankingData
        The little data of the new domain: to train on, and to choose by.
    background_data : RankingData, optional
        Data of the rich domain, from which neighbours of the in-domain documents are taken.
    method : {"auto", "interpolate", "lambdaboost", "lambdamart", "augment", "in-domain", "interpolate-3"}
        How to adapt; ``"auto"`` tries every way and prefers the simplest that is not significantly worse than the best
        on ``valid`` (paired t-test, p < .05).
    measure : str or Measure
        Measure to optimise and to choose by.
    leaves, randomize_nodes : int, bool
        Of LambdaMART's trees.
    random_state : int
        Random seed.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    progress : callable, optional
        Called with (ways done, ways in total).

    Examples
    --------
    >>> found = adapt(ranker, train, valid, method="auto")  # doctest: +SKIP
    >>> found.chosen.name, found.reason  # doctest: +SKIP
    """
    adaptation = Adaptation(
        background,
        train,
        valid,
        background_data=background_data,
        measure=measure,
        leaves=leaves,
        randomize_nodes=randomize_nodes,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    found = adaptation.run(method, progress)
    for notice in found.notices:
        warnings.warn(notice.text, InputWarning, stacklevel=2)
    return found


@dataclass(frozen=True, eq=False)
class Adaptation:
    """A background ranker and the data of a new domain; the attributes are those of :func:`adapt`.

    Later ways reuse the models of earlier ones.
    """

    background: Any
    train: RankingData
    valid: RankingData
    background_data: RankingData | None = None
    measure: str | Measure = "ndcg@10"
    leaves: int = 10
    randomize_nodes: bool = True
    random_state: int = 0
    n_jobs: int | None = None
    _tried: dict[str, Candidate] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        model = background_model(self.background)
        if model is None:
            raise InputError("background is None; expected a fitted ranker, a model, or what load_model gives")
        object.__setattr__(self, "background", model)
        object.__setattr__(self, "measure", parse_measure(self.measure))
        for part in ("train", "valid"):
            data = getattr(self, part)
            if not isinstance(data, RankingData):
                raise InputError(f"{part} is a {type(data).__name__}; expected a RankingData")
        ours = self.train
        object.__setattr__(self, "valid", self.valid.matched_to(ours.n_features, ours.feature_names))
        if ours.n_queries:
            background_scores(model, ours.select([0]))

    def run(self, method: str = "auto", progress: Callable[[int, int], Any] | None = None) -> Adapted:
        """Try one way, or all that can be tried, and choose; without Python warnings.

        Parameters
        ----------
        method, progress
            As for :func:`adapt`.
        """
        names = _names(method, self.background_data)
        measure = parse_measure(self.measure)
        if not measure.resolve("letor").has_relevant(Rankings(self.valid.labels, self.valid.indptr)).any():
            raise InputError(
                "the validation data has no query with a relevant document, so nothing can be chosen on it"
            )
        notices = compare_features(self.background, self.train) + self._shared()
        candidates: list[Candidate] = []
        failures: dict[str, str] = {}
        for done, name in enumerate(names, 1):
            try:
                candidates.append(self.candidate(name))
            except InputError as error:
                failures[name] = error.message
            if progress is not None:
                progress(done, len(names))
        notices += _other_notices(candidates)
        if method in failures:
            raise InputError(f"the method {method} cannot be used here: {failures[method]}")
        chosen, reason = candidates[-1], "as requested"
        if method == "auto":
            chosen, reason = _choose(candidates, measure, self.valid.n_queries)
            if any(notice.kind is Kind.SHARED_QUERIES for notice in notices):
                reason += "; but validation queries are also in the data trained on, which makes results too good"
        return Adapted(chosen, tuple(candidates), failures, reason, notices)

    def _shared(self) -> tuple[Notice, ...]:
        """Validation queries that are also in other data."""
        found = shared_notices(self.train, self.valid)
        rich = self.background_data
        if rich is not None and rich.feature_names == self.valid.feature_names:
            shared = shared_queries(self.valid, rich, "validation", "background")
            found += () if shared is None else (Notice(Kind.SHARED_QUERIES, shared.text),)
        return found

    def candidate(self, name: str) -> Candidate:
        """Train and evaluate one way, once; InputError if it cannot be used, KeyboardInterrupt if interrupted."""
        if name not in self._tried:
            began = time.perf_counter()
            model, facts, details = self._train(name)
            if facts is not None:
                _check_facts(facts)
            seconds = time.perf_counter() - began
            found = evaluate(self.valid, model.predict(self.valid), measures=[self.measure], name=name)
            self._tried[name] = Candidate(name, model, found, seconds, facts, details)
        return self._tried[name]

    def _train(self, name: str) -> tuple[Any, Fitted | None, dict[str, Any]]:
        """A way by name: its model, the facts of its training, and figures of its own."""
        boosting = {"background": self.background, "measure": self.measure}
        match name:
            case "background":
                return self.background, None, {}
            case "in-domain":
                return self._method("rank-svm", self.train)
            case "augment":
                return self._augmented()
            case "interpolate":
                return self._interpolated("in-domain")
            case "interpolate-3":
                return self._interpolated("in-domain", "augment")
            case "lambdaboost":
                return self._method("lambdaboost", self.train, **boosting)
        trees = {"max_leaves": self.leaves, "randomize_nodes": self.randomize_nodes}
        return self._method("lambdamart", self.train, **boosting, **trees)

    def _method(self, name: str, data: RankingData, **settings: Any) -> tuple[Any, Fitted, dict[str, Any]]:
        shared: dict[str, Any] = {"measure": self.measure, "random_state": self.random_state, "n_jobs": self.n_jobs}
        trained = plan(name, settings, validated=True, **shared).train(data, self.valid)
        return trained.model, trained.facts, {}

    def _augmented(self) -> tuple[Any, Fitted, dict[str, Any]]:
        assert self.background_data is not None
        ours = self.train
        wanted, what = (ours.n_features, ours.feature_names), "the in-domain data"
        rich = self.background_data.matched_to(*wanted, what=what, zeros_left_out=False)
        found = augment(rich, ours)
        if not found.data.n_docs:
            raise InputError("no background document is close enough to the in-domain documents")
        model, facts, _ = self._method("rank-svm", RankingData.concatenate([ours, found.data]))
        return model, facts, {"documents taken": int(found.data.n_docs)}

    def _interpolated(self, *others: str) -> tuple[Any, Fitted, dict[str, Any]]:
        parts = [self.background, *(self.candidate(name).model for name in others)]
        joined = Interpolation(parts, measure=self.measure, random_state=self.random_state, n_jobs=self.n_jobs)
        facts = joined.fit_data(self.valid)
        return joined.model_, facts, {"weights": [float(weight) for weight in joined.weights_]}


def _names(method: str, background_data: RankingData | None) -> list[str]:
    known = [name for name in METHODS if background_data is not None or name not in _NEEDS_DATA]
    if method == "auto":
        return known
    if method not in METHODS:
        raise InputError(f"method is {method!r}; expected auto or one of {', '.join(METHODS)}")
    if method in _NEEDS_DATA and background_data is None:
        raise InputError(f"the method {method} takes neighbours from the background data; expected background_data")
    return ["background", method] if method != "background" else [method]


def _check_facts(facts: Fitted) -> None:
    """Half a training is no candidate, and neither is one with nothing to learn from."""
    if facts.interrupted:
        raise KeyboardInterrupt
    for notice in facts.notices:
        if notice.kind is Kind.NOTHING_TO_ORDER:
            raise InputError(notice.text)


def _other_notices(candidates: Sequence[Candidate]) -> tuple[Notice, ...]:
    """The notices of all trainings; what they say of the background's features is known already."""
    found = [notice for one in candidates if one.training is not None for notice in one.training.notices]
    return tuple(notice for notice in found if notice.kind is not Kind.OTHER_FEATURES)


def _choose(candidates: Sequence[Candidate], measure: Measure, n_queries: int) -> tuple[Candidate, str]:
    """The simplest that is not significantly worse than the best, and why."""
    best = max(candidates, key=lambda candidate: candidate.value)
    for candidate in candidates:
        apart = best.evaluation.values[:, 0] - candidate.evaluation.values[:, 0]
        p = p_value("t", apart)
        if candidate is best or p >= _ALPHA:
            break
    queries = f"{n_queries} validation {'query' if n_queries == 1 else 'queries'}"
    if candidate is best:
        reason = f"{best.name} is best by {measure} on {queries} ({best.value:.4f})"
        reason += ", and every simpler method is significantly worse" if candidate is not candidates[0] else ""
    else:
        reason = (
            f"{candidate.name} is the simplest that is not significantly worse by {measure} on {queries} than "
            f"{best.name}, the best ({candidate.value:.4f} against {best.value:.4f}, p = {p:.2g} by the paired t-test)"
        )
    return candidate, reason
