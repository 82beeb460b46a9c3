"""`adapt`: the ways to use a background ranker in a new domain, compared on validation data, and one of them chosen."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.adaptation.augment import augment
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.significance import bootstrap_interval, p_value
from rankwright.evaluation.table import Evaluation, evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.models.saving import save_model
from rankwright.rankers.background import background_model, compare_features
from rankwright.rankers.interpolation import Interpolation
from rankwright.rankers.lambda_boost import LambdaBoost
from rankwright.rankers.lambda_mart import LambdaMART
from rankwright.rankers.ranking_svm import RankingSVM

__all__ = ["METHODS", "Adapted", "Candidate", "adapt", "model_scores"]

Array = npt.NDArray[Any]

METHODS = {
    "background": "the background ranker as it is",
    "in-domain": "a linear ranker (RankingSVM) of the in-domain data alone",
    "interpolate": "background and in-domain ranker, interpolated",
    "augment": "a linear ranker of the in-domain data and its neighbours in the background data",
    "interpolate-3": "background, in-domain and augmented ranker, interpolated",
    "lambdaboost": "LambdaBoost from the background",
    "lambdamart": "LambdaMART from the background",
}
"""The ways to adapt, the simplest first."""

_NEEDS_DATA = ("augment", "interpolate-3")
_ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way that was tried.

    Attributes
    ----------
    name : str
        One of ``METHODS``.
    model : model
        What it gave; the background is part of it where it is needed.
    evaluation : Evaluation
        On the validation data.
    seconds : float
        Of training.
    facts : dict
        What is known of the training.
    """

    name: str
    model: Any
    evaluation: Evaluation
    seconds: float
    facts: dict[str, Any]

    @property
    def value(self) -> float:
        """The mean of the first measure on validation data."""
        return float(np.nanmean(self.evaluation.values[:, 0]))


@dataclass(frozen=True, eq=False)
class Adapted:
    """What came of an adaptation.

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
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    failures: dict[str, str]
    reason: str

    @property
    def model(self) -> Any:
        """The model of the chosen candidate."""
        return self.chosen.model

    def predict(self, data: RankingData) -> Array:
        """Scores of the chosen model, in the order in which the rows of the data were given."""
        return model_scores(self.model, data)

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
        From the rich domain.
    train, valid : RankingData
        The little data there is of the new domain: to train on, and to choose by.
    background_data : RankingData, optional
        Data of the rich domain, from which neighbours of the in-domain documents are taken.
    method : {"auto", "interpolate", "lambdaboost", "lambdamart", "augment", "in-domain", "interpolate-3"}
        What to do; ``"auto"`` tries all and prefers the simplest that is not significantly worse than the best on
        ``valid`` (paired t-test, p < .05).
    measure : str or Measure
        What to rise, and to choose by.
    leaves, randomize_nodes : int, bool
        Of LambdaMART's trees.
    random_state : int
        Seed of all that is drawn.
    n_jobs : int, optional
        Threads. The result does not depend on it.
    progress : callable, optional
        Called with (methods done, methods in all).

    Examples
    --------
    >>> found = adapt(ranker, train, valid, method="auto")  # doctest: +SKIP
    >>> found.chosen.name, found.reason  # doctest: +SKIP
    """
    model = background_model(background)
    if model is None:
        raise InputError("background is None; expected a fitted ranker, a model, or what load_model gives")
    wanted = parse_measure(measure)
    names = _names(method, background_data)
    for part, data in (("train", train), ("valid", valid)):
        if not isinstance(data, RankingData):
            raise InputError(f"{part} is a {type(data).__name__}; expected a RankingData")
    _check_validation(valid, wanted)
    for notice in compare_features(model, train):
        warnings.warn(notice.text, InputWarning, stacklevel=2)
    work = _Work(model, train, valid, background_data, wanted, leaves, randomize_nodes, random_state, n_jobs)
    candidates: list[Candidate] = []
    failures: dict[str, str] = {}
    for done, name in enumerate(names, 1):
        try:
            candidates.append(work.candidate(name))
        except InputError as error:
            failures[name] = error.message
        if progress is not None:
            progress(done, len(names))
    if method != "auto":
        if method in failures:
            raise InputError(f"the method {method} cannot be used here: {failures[method]}")
        chosen = next(candidate for candidate in candidates if candidate.name == method)
        return Adapted(chosen, tuple(candidates), failures, "it was asked for")
    return _choose(candidates, failures, wanted, valid.n_queries)


def _names(method: str, background_data: RankingData | None) -> list[str]:
    known = [name for name in METHODS if background_data is not None or name not in _NEEDS_DATA]
    if method == "auto":
        return known
    if method not in METHODS:
        raise InputError(f"method is {method!r}; expected auto or one of {', '.join(METHODS)}")
    if method in _NEEDS_DATA and background_data is None:
        raise InputError(f"the method {method} takes neighbours from the background data; expected background_data")
    return ["background", method] if method != "background" else [method]


def _check_validation(valid: RankingData, measure: Measure) -> None:
    values = evaluate(valid, np.zeros(valid.n_docs), measures=[measure], empty="skip").values
    if np.isnan(values).all():
        raise InputError("the validation data has no query with a relevant document; nothing could be chosen by it")


def model_scores(model: Any, data: RankingData) -> Array:
    """Scores of a model, in the order in which the rows of the data were given."""
    return data.to_caller_order(np.asarray(model.score(data.X, data.feature_names, data.indptr)))


class _Work:
    """Trains each method once; later ones use what earlier ones made."""

    def __init__(
        self,
        background: Any,
        train: RankingData,
        valid: RankingData,
        background_data: RankingData | None,
        measure: Measure,
        leaves: int,
        randomize_nodes: bool,
        random_state: int,
        n_jobs: int | None,
    ) -> None:
        self.background, self.train, self.valid, self.background_data = background, train, valid, background_data
        self.measure, self.leaves, self.randomize_nodes = measure, leaves, randomize_nodes
        self.random_state, self.n_jobs = random_state, n_jobs
        self._made: dict[str, tuple[Any, float, dict[str, Any]]] = {}

    def candidate(self, name: str) -> Candidate:
        model, seconds, facts = self._trained(name)
        scores = model_scores(model, self.valid)
        return Candidate(name, model, evaluate(self.valid, scores, measures=[self.measure], name=name), seconds, facts)

    def _trained(self, name: str) -> tuple[Any, float, dict[str, Any]]:
        if name not in self._made:
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("error", InputWarning)
                warnings.filterwarnings("ignore", ".*background model.*", InputWarning)  # told already
                try:
                    model, facts = getattr(self, "_" + name.replace("-", "_"))()
                except InputWarning as warning:
                    if str(warning).startswith("training was interrupted"):  # by Ctrl-C, which ends everything
                        raise KeyboardInterrupt from None
                    raise InputError(str(warning)) from None
            self._made[name] = model, time.perf_counter() - began, facts
        return self._made[name]

    def _background(self) -> tuple[Any, dict[str, Any]]:
        return self.background, {}

    def _linear(self, data: RankingData) -> tuple[Any, dict[str, Any]]:
        ranker = RankingSVM(C="auto", eval_measure=self.measure, n_jobs=self.n_jobs).fit(data, eval_set=self.valid)
        return ranker.model_, {"C": float(ranker.C_), "queries": int(ranker.n_queries_)}

    def _in_domain(self) -> tuple[Any, dict[str, Any]]:
        return self._linear(self.train)

    def _augment(self) -> tuple[Any, dict[str, Any]]:
        assert self.background_data is not None
        found = augment(self.background_data, self.train)
        if not found.data.n_docs:
            raise InputError("no background document is near enough to the in-domain documents")
        model, facts = self._linear(RankingData.concatenate([self.train, found.data]))
        return model, {**facts, "documents taken": int(found.data.n_docs)}

    def _interpolated(self, *others: str) -> tuple[Any, dict[str, Any]]:
        parts = [self.background, *(self._trained(name)[0] for name in others)]
        joined = Interpolation(parts, measure=self.measure, random_state=self.random_state, n_jobs=self.n_jobs)
        joined.fit(self.valid)
        return joined.model_, {"weights": [float(weight) for weight in joined.weights_]}

    def _interpolate(self) -> tuple[Any, dict[str, Any]]:
        return self._interpolated("in-domain")

    def _interpolate_3(self) -> tuple[Any, dict[str, Any]]:
        return self._interpolated("in-domain", "augment")

    def _lambdaboost(self) -> tuple[Any, dict[str, Any]]:
        ranker = LambdaBoost(background=self.background, measure=self.measure, n_jobs=self.n_jobs)
        ranker.fit(self.train, eval_set=self.valid)
        return ranker.model_, {"rounds": int(ranker.n_rounds_)}

    def _lambdamart(self) -> tuple[Any, dict[str, Any]]:
        ranker = LambdaMART(
            max_leaves=self.leaves,
            measure=self.measure,
            background=self.background,
            eval_measure=self.measure,
            randomize_nodes=self.randomize_nodes,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        ranker.fit(self.train, eval_set=self.valid)
        return ranker.model_, {"trees": int(ranker.n_trees_)}


def _choose(candidates: Sequence[Candidate], failures: dict[str, str], measure: Measure, n_queries: int) -> Adapted:
    best = max(candidates, key=lambda candidate: candidate.value)
    for candidate in candidates:
        apart = best.evaluation.values[:, 0] - candidate.evaluation.values[:, 0]
        p = p_value("t", apart)
        if candidate is best or p >= _ALPHA:
            break
    queries = f"{n_queries} validation {'query' if n_queries == 1 else 'queries'}"
    if candidate is best:
        reason = f"{best.name} is the best by {measure} on {queries} ({best.value:.4f})"
        reason += ", and every simpler method is significantly worse" if candidate is not candidates[0] else ""
    else:
        reason = (
            f"{candidate.name} is the simplest that is not significantly worse by {measure} on {queries} than "
            f"{best.name}, the best ({candidate.value:.4f} against {best.value:.4f}, p = {p:.2g} by the paired t-test)"
        )
    return Adapted(candidate, tuple(candidates), failures, reason)
