"""The ways to use background rankers in a new domain, each trained once, and `adapt`, which chooses one.

Training goes through `training.train`. What users should know comes back as notices. Without validation data, ways are
combined and chosen by out-of-fold scores: no label of a query is used to train the models that score it. Weights of
interpolations are fitted, and settings of boosting are chosen, on the out-of-fold scores of all other folds; only their
models have seen its labels.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.adaptation.augment import augment
from rankwright.committee.interpolation import Interpolation
from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.evaluate import Evaluation, evaluate
from rankwright.evaluation.significance import bootstrap_interval, p_value
from rankwright.measures import Measure, Rankings, parse_goal, parse_measure
from rankwright.models.saving import save_model
from rankwright.rankers.background import background_model, background_scores, compare_features
from rankwright.rankers.cross_validation import FOLDS, CrossValidation, Folds
from rankwright.rankers.facts import Fitted, Kind, Notice, shared_notices
from rankwright.training.methods import parse_method
from rankwright.training.train import Plan, plan

__all__ = ["Adapted", "adapt"]

METHODS = {
    "background": "the background ranker unchanged; of several, their interpolation",
    "in-domain": "a ranker trained on the in-domain data alone",
    "interpolate": "backgrounds and in-domain ranker, interpolated",
    "augment": "a ranker trained on the in-domain data and its neighbours in the background data",
    "interpolate-3": "backgrounds, in-domain and augmented ranker, interpolated",
    "lambdaboost": "LambdaBoost starting from the background",
    "lambdamart": "LambdaMART starting from the background",
}
"""The ways to adapt, the simplest first."""

NEED_DATA = ("augment", "interpolate-3")
"""Those that take neighbours from the background data."""

BOOSTING = ("lambdaboost", "lambdamart")
"""Those that start from the background's scores."""

IN_DOMAIN = "rank-svm"
"""How the in-domain ranker is trained unless something else is asked for."""

_BACKGROUND = "background"
_SET_BY = {
    "max_leaves": "leaves",
    "learning_rate": "rate",
    "n_trees": "trees",
    "n_rounds": "trees",
    "randomize_nodes": "randomize_nodes",
    "measure": "measure",
    "background": "what is adapted",
    "cv": "the validation data, or cv",
}  # parameters of boosting, and what sets them in an adaptation
_ALPHA = 0.05  # of the paired t-test by which a way is worse than the best


@dataclass(frozen=True, eq=False)
class _Made:
    """What comes of a way to adapt.

    `model`: contains the background if it needs it. `training`: the facts of its training; None for the background.
    `details`: figures of this way alone: weights of an interpolation, documents taken, the settings chosen. `tried`:
    the settings that were chosen from, with the value of the measure; empty if there was nothing to choose. `scores`:
    without validation data: out-of-fold scores of the training data, in its own order.
    """

    model: Any
    training: Fitted | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[tuple[dict[str, Any], float], ...] = ()
    scores: Array | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate(_Made):
    """A way that was tried: one of ``METHODS``, how good it is, and the seconds that its training took.

    `evaluation`: on the validation data; without it, of the training queries while they were held out.
    """

    name: str
    evaluation: Evaluation
    seconds: float

    @property
    def value(self) -> float:
        """The mean of the first measure on validation data, or on held-out queries."""
        return float(np.nanmean(self.evaluation.values[:, 0]))

    @property
    def facts(self) -> dict[str, Any]:
        """Choices and figures of training, as plain values."""
        facts: dict[str, Any] = {}
        if self.training is not None and self.training.C is not None:
            facts = {"C": float(self.training.C), "queries": self.training.n_queries}
        if self.training is not None and self.training.rounds is not None:
            facts[self.training.rounds.unit] = self.training.rounds.kept
        return facts | dict(self.details)


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
    folds : Folds or None
        The folds of the training data, where there was no validation data.
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    failures: dict[str, str]
    reason: str
    notices: tuple[Notice, ...] = ()
    folds: Folds | None = None

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
        values = {f"{'validation' if self.folds is None else 'cross-validated'} {measure}": self.chosen.value}
        facts = {"chosen": self.reason, **self.chosen.facts}
        save_model(
            self.model,
            path,
            method=f"adapted-{self.chosen.name.partition(' ')[0]}",
            parameters={"measure": measure},
            training=facts,
            measures=values,
        )

    def differences(self, name: str, to: str = "background") -> tuple[float, tuple[float, float], float]:
        """Mean difference of two candidates on validation data, its 95 % interval, and p of the paired t-test."""
        values = {candidate.name: candidate.evaluation.values[:, 0] for candidate in self.candidates}
        apart = values[name] - values[to]
        return float(apart.mean()), bootstrap_interval(apart), p_value("t", apart)


@dataclass(eq=False)
class Adaptation:
    """Background rankers and the data of a new domain; the attributes are those of :func:`adapt`.

    Later ways reuse the models of earlier ones. ``backgrounds`` has the models by name; ``folds`` those of the training
    data, where nothing was given to validate with.
    """

    background: Any
    train: RankingData
    valid: RankingData | None = None
    background_data: RankingData | Sequence[RankingData] | None = None
    measure: str | Measure = "ndcg@10"
    in_domain: str = IN_DOMAIN
    in_domain_settings: Mapping[str, Any] = field(default_factory=dict)
    weights: str = "powell"
    leaves: int | Sequence[int] = 10
    rate: float | Sequence[float] | None = None
    trees: int | None = None
    randomize_nodes: bool | Sequence[bool] = True
    boosting_settings: Mapping[str, Any] = field(default_factory=dict)
    random_state: int = 0
    n_jobs: int | None = None
    cv: int = FOLDS
    folds: Folds | None = field(default=None, init=False, repr=False)
    backgrounds: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _tried: dict[str, Candidate] = field(default_factory=dict, init=False, repr=False)
    _fold_starts: list[Any] = field(default_factory=list, init=False, repr=False)  # of several backgrounds

    def __post_init__(self) -> None:
        self.backgrounds = _models(self.background)
        self.measure = parse_goal(self.measure)
        rich = self.background_data
        sets = () if rich is None else (rich,) if isinstance(rich, RankingData) else tuple(rich)
        self.background_data = sets
        given: dict[str, Any] = {f"background_data[{at}]": data for at, data in enumerate(sets)}
        given = {"train": self.train, "valid": self.valid} | given
        for name, data in given.items():
            if not isinstance(data, RankingData) and (name != "valid" or data is not None):
                raise InputError(f"{name} is a {type(data).__name__}; expected a RankingData")
        if self.weights not in ("powell", "lambdarank"):
            raise InputError(f"weights is {self.weights!r}; expected powell or lambdarank")
        self._in_domain_plan()
        boosting_parameters(self.boosting_settings, BOOSTING)
        for name in BOOSTING:
            self._boosting_plans(name)
        ours = self.train
        if self.valid is None:
            folds = Folds.draw(ours, self.cv, seed=self.random_state) if ours.n_queries else None
            if folds is None:
                problem = "nothing can be held out to choose by: fewer than two training queries have an order"
                raise InputError(f"{problem}; expected more queries, or validation data")
            self.folds = folds
        else:
            self.valid = self.valid.matched_to(ours.n_features, ours.feature_names)
        if ours.n_queries:
            for name, model in self.backgrounds.items():
                try:
                    background_scores(model, ours.select([0]))
                except InputError as error:
                    raise InputError(self._named(error.message, name)) from None

    def run(self, method: str = "auto", progress: Callable[[int, int], Any] | None = None) -> Adapted:
        """Try one way, or all that can be tried, and choose; without Python warnings.

        `method`, `progress`: as for :func:`adapt`.
        """
        names = self._names(method)
        if method in BOOSTING:
            boosting_parameters(self.boosting_settings, (method,))
        measure = parse_measure(self.measure)
        judged = self.train if self.valid is None else self.valid
        if not measure.resolve("letor").has_relevant(Rankings(judged.labels, judged.indptr)).any():
            data_name = "training" if self.valid is None else "validation"
            raise InputError(
                f"the {data_name} data has no query with a relevant document, so nothing can be chosen on it"
            )
        notices = self._features_notices() + self._shared()
        candidates: list[Candidate] = []
        failures: dict[str, str] = {}
        trainings = [len(self._boosting_plans(name)) if name.startswith("lambda") else 1 for name in names]
        notify = progress or (lambda *_: None)
        total = sum(trainings)
        for at, name in enumerate(names):

            def step(done: int, before: int = sum(trainings[:at])) -> None:
                notify(before + done, total)

            try:
                candidates.append(self.candidate(name, step))
            except InputError as error:
                failures[name] = error.message
            step(trainings[at])
        notices += _other_notices(candidates)
        if method in failures:
            raise InputError(f"the method {method} cannot be used here: {failures[method]}")
        n_alone = len(self._alone())
        candidates[:n_alone] = sorted(candidates[:n_alone], key=lambda candidate: -candidate.value)  # equally simple
        chosen, reason = candidates[-1], "as requested"
        if method == "auto":
            kind = "validation" if self.folds is None else "held-out"
            chosen, reason = _choose(candidates, measure, judged.n_queries, kind)
            if any(notice.kind is Kind.SHARED_QUERIES for notice in notices):
                reason += "; but validation queries are also in the data trained on, which makes results too good"
        return Adapted(chosen, tuple(candidates), failures, reason, notices, self.folds)

    def _named(self, text: str, name: str) -> str:
        """A notice about a background model, with its name if there are several."""
        which = f"the background model {name}" if len(self.backgrounds) > 1 else "the background model"
        return text.replace("the background model", which, 1)

    def _features_notices(self) -> tuple[Notice, ...]:
        """Backgrounds that know other features than the data has."""
        return tuple(
            dataclasses.replace(notice, text=self._named(notice.text, name))
            for name, model in self.backgrounds.items()
            for notice in compare_features(model, self.train)
        )

    def _shared(self) -> tuple[Notice, ...]:
        """Validation queries, or those to be held out, that are also in other data."""
        notices = shared_notices(self.train, self.valid)
        judged, kind = (self.train, "training") if self.valid is None else (self.valid, "validation")
        sets: Any = self.background_data
        alike = [data for data in sets if data.feature_names == judged.feature_names]
        if alike and len({data.n_features for data in alike}) == 1:
            shared = shared_queries(judged, _joined(alike), kind, "background")
            notices += () if shared is None else (Notice(Kind.SHARED_QUERIES, shared.text),)
        return notices

    def candidate(self, name: str, step: Callable[[int], Any] | None = None) -> Candidate:
        """Train and evaluate one way, once; InputError if it cannot be used, KeyboardInterrupt if interrupted.

        `name`: one of ``METHODS``, or with several backgrounds ``"background (NAME)"``. `step`: called with the number
        of settings tried after each of them but the last.
        """
        if name not in self._tried:
            began = time.perf_counter()
            trained = self._train(name, step)
            if trained.training is not None:
                _check_facts(trained.training, nothing=name == _BACKGROUND)
            seconds = time.perf_counter() - began
            evaluation = self._evaluated(trained, name)
            self._tried[name] = Candidate(**vars(trained), name=name, evaluation=evaluation, seconds=seconds)
        return self._tried[name]

    def _evaluated(self, trained: _Made, name: str = "") -> Evaluation:
        if self.valid is not None:
            return evaluate(self.valid, trained.model.predict(self.valid), measures=[self.measure], name=name)
        assert trained.scores is not None
        return evaluate(self.train, self.train.to_caller_order(trained.scores), measures=[self.measure], name=name)

    def _names(self, method: str) -> list[str]:
        """What to try, the simplest first."""
        usable = [name for name in METHODS if self.background_data or name not in NEED_DATA]
        if method not in ("auto", *METHODS):
            raise InputError(f"method is {method!r}; expected auto or one of {', '.join(METHODS)}")
        if method != "auto" and method not in usable:
            raise InputError(f"the method {method} takes neighbours from the background data; expected background_data")
        wanted = usable if method == "auto" else dict.fromkeys((_BACKGROUND, method))
        return [*self._alone(), *wanted]

    def _alone(self) -> dict[str, str]:
        """The candidates that are one of several backgrounds, with its name."""
        return {f"{_BACKGROUND} ({name})": name for name in self.backgrounds} if len(self.backgrounds) > 1 else {}

    def _train(self, name: str, step: Callable[[int], Any] | None) -> _Made:
        match name:
            case "background":
                (first, *others) = self.backgrounds.values()
                return self._interpolated() if others else self._unchanged(first)
            case "in-domain":
                return self._in_domain(self.train, None if self.folds is None else (self.train, self.folds))
            case "augment":
                return self._augmented()
            case "interpolate":
                return self._interpolated("in-domain")
            case "interpolate-3":
                return self._interpolated("in-domain", "augment")
            case "lambdaboost" | "lambdamart":
                return self._boosted(name, step)
        alone = self._alone().get(name)
        if alone is None:
            raise InputError(f"method is {name!r}; expected one of {', '.join(METHODS)}")
        return self._unchanged(self.backgrounds[alone], **{_BACKGROUND: alone})

    def _unchanged(self, model: Any, **details: Any) -> _Made:
        return _Made(
            model, details=details, scores=None if self.folds is None else background_scores(model, self.train)
        )

    def _plan(self, name: str, settings: Mapping[str, Any]) -> Plan:
        shared: dict[str, Any] = {"measure": self.measure, "random_state": self.random_state, "n_jobs": self.n_jobs}
        if self.valid is None:
            settings = {**settings, "cv": self.cv}
        return plan(name, settings, validated=self.valid is not None, **shared)

    def _in_domain_plan(self) -> Plan:
        if _BACKGROUND in self.in_domain_settings:
            raise InputError("the in-domain ranker has a background; expected one trained on the in-domain data alone")
        parameters = {"measure": self.measure} if "measure" in parse_method(self.in_domain).defaults() else {}
        return self._plan(self.in_domain, parameters | dict(self.in_domain_settings))

    def _in_domain(self, data: RankingData, crossed: tuple[RankingData, Folds] | None = None, **details: Any) -> _Made:
        """Train on data, after cross-validation, where that is asked for, with these folds of this data."""
        planned = self._in_domain_plan()
        if crossed is None:
            trained = planned.train(data, self.valid)
            return _Made(trained.model, trained.facts, {"in_domain": trained.method, **details})
        crossed_path = _completed(planned.cross_validate(*crossed))
        trained = planned.train(data, choice=crossed_path)
        kept = {"in_domain": trained.method, **details}
        return _Made(trained.model, trained.facts, kept, scores=crossed_path.scores[: self.train.n_docs])

    def _boosting_plans(self, name: str, background: Any = None) -> list[tuple[dict[str, Any], Plan]]:
        """The settings to choose from, those that vary, and what to train for each."""
        grows = name == "lambdamart"
        keys = {"leaves": "max_leaves", "rate": "learning_rate", "randomize_nodes": "randomize_nodes"}
        keys = keys if grows else {"rate": "learning_rate"}
        grid = {key: _listed(key, getattr(self, key)) for key in keys}
        limit = {"n_trees" if grows else "n_rounds": self.trees} if self.trees is not None else {}
        plans = []
        for values in itertools.product(*grid.values()):
            point = dict(zip(grid, values, strict=True))
            settings = {keys[key]: value for key, value in point.items() if value is not None}
            varied = {key: value for key, value in point.items() if len(grid[key]) > 1}
            shared = {_BACKGROUND: background, "measure": self.measure}
            known = parse_method(name).defaults()
            further = {key: value for key, value in self.boosting_settings.items() if key in known}
            plans.append((varied, self._plan(name, further | settings | limit | shared)))
        return plans

    def _boosted(self, name: str, step: Callable[[int], Any] | None) -> _Made:
        """The settings that are best on the validation data, the first of equal ones."""
        start = self.candidate(_BACKGROUND).model
        if self.folds is not None:
            return self._boosted_by_folds(self._boosting_plans(name, start), self.folds, step)
        best, highest = None, -np.inf
        tried: list[tuple[dict[str, Any], float]] = []
        for point, planned in self._boosting_plans(name, start):
            if tried and step is not None:
                step(len(tried))
            trained = planned.train(self.train, self.valid)
            _check_facts(trained.facts)
            value = float(np.nanmean(self._evaluated(_Made(trained.model)).values[:, 0]))
            tried.append((point, value))
            if best is None or value > highest:
                best, highest = _Made(trained.model, trained.facts, point), value
        assert best is not None
        return best if len(tried) == 1 else dataclasses.replace(best, tried=tuple(tried))

    def _boosted_by_folds(
        self, plans: list[tuple[dict[str, Any], Plan]], folds: Folds, step: Callable[[int], Any] | None
    ) -> _Made:
        """The settings that are best on held-out queries; the background of a fold has not seen its labels either."""
        folds = dataclasses.replace(folds, parameters=tuple({_BACKGROUND: model} for model in self._fold_starts))
        validations: list[CrossValidation] = []
        for _, planned in plans:
            if validations and step is not None:
                step(len(validations))
            validations.append(_completed(planned.cross_validate(self.train, folds)))
        best = int(np.argmax([max(validation.means) for validation in validations]))
        values = np.array([validation.query_values for validation in validations])
        scores = np.empty(self.train.n_docs)
        for number in range(folds.n_held_out):  # each fold's by the settings that are best on the others
            held_out = folds.of_query == number
            at = int(np.argmax(np.nan_to_num(values[:, ~held_out]).mean(axis=1)))
            rows = np.repeat(held_out, self.train.sizes)
            scores[rows] = validations[at].scores[rows]
        point, planned = plans[best]
        trained = planned.train(self.train, choice=validations[best])
        tried = [(point, max(validation.means)) for (point, _), validation in zip(plans, validations, strict=True)]
        return _Made(trained.model, trained.facts, point, tuple(tried) if len(tried) > 1 else (), scores)

    def _augmented(self) -> _Made:
        ours = self.train
        rich = _joined(self._rich(ours))
        augmentation = augment(rich, ours)
        if not augmentation.data.n_docs:
            raise InputError("no background document is close enough to the in-domain documents")
        both = RankingData.concatenate([ours, augmentation.data])
        crossed = None if self.folds is None else _with_neighbours(rich, ours, self.folds)
        return self._in_domain(both, crossed, **{"documents taken": int(augmentation.data.n_docs)})

    def _rich(self, ours: RankingData) -> list[RankingData]:
        """The background data with the columns of the in-domain data."""
        wanted: tuple[Any, ...] = (ours.n_features, ours.feature_names)
        sets: Any = self.background_data
        return [data.matched_to(*wanted, what="the in-domain data", zeros_left_out=False) for data in sets]

    def _interpolated(self, *others: str) -> _Made:
        names = [*(self.backgrounds if len(self.backgrounds) > 1 else [_BACKGROUND]), *others]
        parts = [*self.backgrounds.values(), *(self.candidate(name).model for name in others)]
        details: dict[str, Any] = {"in_domain": self.candidate(others[0]).details["in_domain"]} if others else {}
        scores = None
        if self.valid is not None:
            joined = self._sum(parts, None)
            facts = joined.fit_data(self.valid)
        else:
            assert self.folds is not None
            columns = [background_scores(model, self.train) for model in self.backgrounds.values()]
            rows = self.folds.of_query[self.train.query_of_row()]
            for name in others:  # the scores of every fold come from a model of their own, with a scale of its own
                columns.append(_on_one_scale(np.asarray(self.candidate(name).scores), rows, self.train))
            joined, facts, scores = self._crossed_sum(parts, np.column_stack(columns), self.folds, learnt=bool(others))
        weights = {name: float(weight) for name, weight in zip(names, joined.weights_, strict=True)}
        return _Made(joined.model_, facts, {**details, "weights": weights}, scores=scores)

    def _crossed_sum(
        self, models: Sequence[Any], scores: Array, folds: Folds, learnt: bool
    ) -> tuple[Interpolation, Fitted, Array]:
        """An interpolation by out-of-fold scores, the facts of its fit, and its own out-of-fold scores.

        Those of each fold are by weights that were fitted on the others. If no component was trained on the data, the
        interpolation of every fold is kept, too.
        """
        train, rows = self.train, folds.of_query[self.train.query_of_row()]
        stacked = dataclasses.replace(train, X=scores, feature_names=None)
        crossed, of_folds = np.empty(train.n_docs), []
        for number in range(folds.n_held_out):
            fold = self._sum(None, None)
            fold.fit_data(stacked.select(folds.of_query != number))
            crossed[rows == number] = fold.model_.score(stacked.X[rows == number])
            if not learnt:
                interpolation = self._sum(models, fold.weights_.tolist())
                interpolation.fit_data(train.select(folds.of_query != number))
                of_folds.append(interpolation.model_)
        on_all = self._sum(None, None)
        facts = on_all.fit_data(stacked)
        joined = self._sum(models, on_all.weights_.tolist())
        joined.fit_data(train)
        if not learnt:
            self._fold_starts[:] = of_folds
        return joined, facts, crossed

    def _sum(self, parts: Sequence[Any] | None, weights: Any) -> Interpolation:
        """An interpolation of models with weights; None: of features, with weights that are searched for."""
        settings: Any = {"measure": self.measure, "random_state": self.random_state, "n_jobs": self.n_jobs}
        return Interpolation(parts, self.weights if weights is None else weights, **settings)


def _models(background: Any) -> dict[str, Any]:
    if not isinstance(background, Mapping):
        several = list(background) if isinstance(background, list | tuple) else [background]
        background = {_BACKGROUND if len(several) == 1 else str(n): ranker for n, ranker in enumerate(several, 1)}
    if not background or None in background.values():
        problem = "background is None" if background else "there is no background"
        raise InputError(f"{problem}; expected a fitted ranker, a model, or what load_model gives")
    models = {str(name): background_model(ranker) for name, ranker in background.items()}
    if len(set(map(id, models.values()))) < len(models):
        raise InputError("a background model is given twice; expected different ones")
    for name in models:
        if name in METHODS and len(models) > 1:
            raise InputError(f"a background is called {name!r}, as a way to adapt is; expected another name")
    return models


def boosting_parameters(given: Iterable[str], methods: Sequence[str]) -> list[str]:
    """The further parameters of boosting from a background; InputError for one that none of the methods has.

    `given`: names. `methods`: of ``lambdaboost`` and ``lambdamart``.
    """
    known = {name: parameter for method in methods for name, parameter in parse_method(method).parameters().items()}
    settable = sorted(name for name, parameter in known.items() if parameter.is_assigned and name not in _SET_BY)
    for name in given:
        if name not in settable:
            where = f"it is set by {_SET_BY[name]}" if name in _SET_BY else f"expected one of {', '.join(settable)}"
            raise InputError(f"{' and '.join(methods)} cannot be given {name!r} here; {where}")
    return settable


def _listed(key: str, value: Any) -> list[Any]:
    values = list(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value]
    if not values:
        raise InputError(f"{key} is empty; expected at least one value")
    return [item for at, item in enumerate(values) if item not in values[:at]]


def _joined(sets: Sequence[RankingData]) -> RankingData:
    """One data set; of several, query ids start with the number of theirs."""
    if len(sets) == 1:
        return sets[0]
    return RankingData.concatenate([_renamed(data, f"{number}-") for number, data in enumerate(sets, 1)])


def _renamed(data: RankingData, prefix: str) -> RankingData:
    return dataclasses.replace(data, query_ids=np.char.add(prefix, data.query_ids.astype(str)))


def _check_facts(facts: Fitted, *, nothing: bool = False) -> None:
    """Reject interrupted training, and training with nothing to learn from unless that is accepted."""
    if facts.interrupted:
        raise KeyboardInterrupt
    for notice in facts.notices:
        if notice.kind is Kind.NOTHING_TO_ORDER and not nothing:
            raise InputError(notice.text)


def _other_notices(candidates: Sequence[Candidate]) -> tuple[Notice, ...]:
    """The notices of all training runs but those on the background's features, which are known already."""
    notices = [
        notice for candidate in candidates if candidate.training is not None for notice in candidate.training.notices
    ]
    return tuple(notice for notice in notices if notice.kind is not Kind.OTHER_FEATURES)


def adapt(
    background: Any,
    train: RankingData,
    valid: RankingData | None = None,
    *,
    background_data: RankingData | Sequence[RankingData] | None = None,
    method: str = "auto",
    in_domain: str = IN_DOMAIN,
    in_domain_settings: Mapping[str, Any] | None = None,
    weights: str = "powell",
    measure: str | Measure = "ndcg@10",
    leaves: int | Sequence[int] = 10,
    rate: float | Sequence[float] | None = None,
    trees: int | None = None,
    randomize_nodes: bool | Sequence[bool] = True,
    boosting_settings: Mapping[str, Any] | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    cv: int = FOLDS,
    progress: Callable[[int, int], Any] | None = None,
) -> Adapted:
    """Adapt a ranker, or several, to a new domain.

    Parameters
    ----------
    background : fitted ranker, model or SavedModel, or several of them
        Trained on the rich domain. Several, in a list or in a dictionary by name: interpolations have each of them as
        a component, and what needs a single one starts from their interpolation.
    train, valid : RankingData
        The little data of the new domain: to train on, and to choose by. Without ``valid``, everything is chosen by
        cross-validation over the queries of ``train``, and then trained on all of them.
    background_data : RankingData or sequence of RankingData, optional
        Data of the rich domains, from which neighbours of the in-domain documents are taken.
    method : {"auto", "interpolate", "lambdaboost", "lambdamart", "augment", "in-domain", "interpolate-3"}
        How to adapt; ``"auto"`` tries every way and prefers the simplest that is not significantly worse than the best
        on ``valid``, or on held-out queries (paired t-test, p < .05).
    in_domain : str
        How the in-domain ranker is trained, and the one with neighbours: any method of `rankwright train`.
    in_domain_settings : mapping, optional
        Its parameters, such as ``{"hidden": 15}`` for ``"lambdarank"``.
    weights : {"powell", "lambdarank"}
        How the weights of interpolations are fitted, see :class:`Interpolation`.
    measure : str or Measure
        Measure to optimise and to choose by.
    leaves, rate, randomize_nodes : int, float, bool, or a sequence
        Of boosting from the background: leaves of LambdaMART's trees, shrinkage, and random nodes. Several values: the
        combination that is best on ``valid``, the first of equal ones. ``rate=None``: the default of each method.
    trees : int, optional
        Most trees, or rounds of LambdaBoost. How many are kept is chosen on ``valid``.
    boosting_settings : mapping, optional
        Further parameters of LambdaMART and LambdaBoost; each takes those that it has. The paper's LambdaSMART, apart
        from leaves, rate and trees: ``{"gain": "squared", "normalize_queries": False, "nearness": 0,
        "background_spread": None}``.
    random_state : int
        Random seed.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    cv : int
        Folds of cross-validation, without ``valid``.
    progress : callable, optional
        Called with (trainings done, trainings in total).

    Examples
    --------
    >>> adapted = adapt(ranker, train, valid, method="auto")  # doctest: +SKIP
    >>> adapted.chosen.name, adapted.reason  # doctest: +SKIP
    """
    adaptation = Adaptation(
        background,
        train,
        valid,
        background_data=background_data,
        in_domain=in_domain,
        in_domain_settings=in_domain_settings or {},
        weights=weights,
        measure=measure,
        leaves=leaves,
        rate=rate,
        trees=trees,
        randomize_nodes=randomize_nodes,
        boosting_settings=boosting_settings or {},
        random_state=random_state,
        n_jobs=n_jobs,
        cv=cv,
    )
    adapted = adaptation.run(method, progress)
    for notice in adapted.notices:
        warnings.warn(notice.text, InputWarning, stacklevel=2)
    return adapted


def _completed(crossed: CrossValidation) -> CrossValidation:
    """Reject a cross-validation that was interrupted."""
    if crossed.interrupted:
        raise KeyboardInterrupt
    return crossed


def _on_one_scale(scores: Array, folds: Array, data: RankingData) -> Array:
    """Scores with a standard deviation of 1 within queries, in every fold."""
    apart = scores - np.repeat(np.add.reduceat(scores, data.indptr[:-1]) / data.sizes, data.sizes)
    scaled = np.empty_like(scores)
    for number in np.unique(folds):
        in_fold = folds == number
        spread = float(np.sqrt(np.mean(apart[in_fold] ** 2)))
        scaled[in_fold] = scores[in_fold] / (spread if spread > 0 else 1.0)
    return scaled


def _with_neighbours(rich: RankingData, train: RankingData, folds: Folds) -> tuple[RankingData, Folds]:
    """The training data and, for every fold, the neighbours of all other folds; their folds.

    Neighbours have labels like those of the documents that they resemble, so each fold has its own.
    """
    sets, of_query = [train], [folds.of_query]
    for number in range(folds.n_held_out):
        near = augment(rich, train.select(folds.of_query != number)).data
        if near.n_docs:
            sets.append(_renamed(near, f"without-fold-{number + 1}-"))
            of_query.append(np.full(near.n_queries, -2 - number))
    return RankingData.concatenate(sets), dataclasses.replace(folds, of_query=np.concatenate(of_query))


def _choose(
    candidates: Sequence[Candidate], measure: Measure, n_queries: int, kind: str = "validation"
) -> tuple[Candidate, str]:
    """The simplest that is not significantly worse than the best, and why."""
    best = max(candidates, key=lambda candidate: candidate.value)
    for candidate in candidates:
        apart = best.evaluation.values[:, 0] - candidate.evaluation.values[:, 0]
        p = p_value("t", apart)
        if candidate is best or p >= _ALPHA:
            break
    queries = f"{n_queries} {kind} {'query' if n_queries == 1 else 'queries'}"
    if candidate is best:
        reason = f"{best.name} is best by {measure} on {queries} ({best.value:.4f})"
        reason += ", and every simpler method is significantly worse" if candidate is not candidates[0] else ""
    else:
        reason = (
            f"{candidate.name} is the simplest that is not significantly worse by {measure} on {queries} than "
            f"{best.name}, the best ({candidate.value:.4f} against {best.value:.4f}, p = {p:.2g} by the paired t-test)"
        )
    return candidate, reason
