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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.adaptation.augment import augment
from rankwright.adaptation.candidates import Adapted, Candidate, choose
from rankwright.committee.interpolation import Interpolation
from rankwright.data.dataset import RankingData
from rankwright.data.overlap import shared_queries
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.evaluate import Evaluation, evaluate
from rankwright.measures import Measure, Rankings, parse_goal, parse_measure
from rankwright.rankers.background import background_model, background_scores, compare_features
from rankwright.rankers.cross_validation import FOLDS, CrossValidation, Folds
from rankwright.rankers.facts import Fitted, Kind, Notice, shared_notices
from rankwright.training.methods import parse_method
from rankwright.training.train import Plan, plan

__all__ = ["adapt"]

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

IN_DOMAIN = "rank-svm"
"""How the in-domain ranker is trained unless something else is asked for."""

_BACKGROUND = "background"


@dataclass(frozen=True)
class _Made:
    """What comes of a way: its model, the facts of its training, figures of its own, and the settings chosen from."""

    model: Any
    facts: Fitted | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[tuple[dict[str, Any], float], ...] = ()
    scores: Array | None = None  # out-of-fold scores of the training data, without validation data


@dataclass(frozen=True, eq=False)
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
    random_state: int = 0
    n_jobs: int | None = None
    cv: int = FOLDS
    folds: Folds | None = field(default=None, init=False, repr=False)
    backgrounds: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _tried: dict[str, Candidate] = field(default_factory=dict, init=False, repr=False)
    _fold_starts: list[Any] = field(default_factory=list, init=False, repr=False)  # of several backgrounds

    def __post_init__(self) -> None:
        object.__setattr__(self, "backgrounds", _models(self.background))
        object.__setattr__(self, "measure", parse_goal(self.measure))
        rich = self.background_data
        parts = () if rich is None else (rich,) if isinstance(rich, RankingData) else tuple(rich)
        object.__setattr__(self, "background_data", parts)
        given = {"train": self.train, "valid": self.valid} | {f"background_data[{n}]": p for n, p in enumerate(parts)}
        for name, data in given.items():
            if not isinstance(data, RankingData) and (name != "valid" or data is not None):
                raise InputError(f"{name} is a {type(data).__name__}; expected a RankingData")
        if self.weights not in ("powell", "lambdarank"):
            raise InputError(f"weights is {self.weights!r}; expected powell or lambdarank")
        self._in_domain_plan()
        for name in ("lambdaboost", "lambdamart"):
            self._boosting_plans(name)
        ours = self.train
        if self.valid is None:
            object.__setattr__(self, "folds", folds_of(ours, self.cv, self.random_state))
        else:
            object.__setattr__(self, "valid", self.valid.matched_to(ours.n_features, ours.feature_names))
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
        for at, name in enumerate(names):
            before, total = sum(trainings[:at]), sum(trainings)
            try:
                candidates.append(self.candidate(name, partial(_further, notify, before, total)))
            except InputError as error:
                failures[name] = error.message
            notify(before + trainings[at], total)
        notices += _other_notices(candidates)
        if method in failures:
            raise InputError(f"the method {method} cannot be used here: {failures[method]}")
        n_alone = len(self._alone())
        candidates[:n_alone] = sorted(candidates[:n_alone], key=lambda candidate: -candidate.value)  # equally simple
        chosen, reason = candidates[-1], "as requested"
        if method == "auto":
            kind = "validation" if self.folds is None else "held-out"
            chosen, reason = choose(candidates, measure, judged.n_queries, kind)
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
        parts: Any = self.background_data
        alike = [part for part in parts if part.feature_names == judged.feature_names]
        if alike and len({part.n_features for part in alike}) == 1:
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
            if trained.facts is not None:
                _check_facts(trained.facts, nothing=name == _BACKGROUND)
            seconds = time.perf_counter() - began
            candidate = self._evaluated(trained, name)
            kept = (trained.facts, trained.details, trained.tried, trained.scores)
            self._tried[name] = Candidate(name, trained.model, candidate, seconds, *kept)
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
        crossed_path = completed(planned.cross_validate(*crossed))
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
            plans.append((varied, self._plan(name, settings | limit | shared)))
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
        folds = dataclasses.replace(folds, own=tuple({_BACKGROUND: model} for model in self._fold_starts))
        validations: list[CrossValidation] = []
        for _, planned in plans:
            if validations and step is not None:
                step(len(validations))
            validations.append(completed(planned.cross_validate(self.train, folds)))
        best, scores = best_point(validations, folds, self.train)
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
        crossed = None if self.folds is None else with_neighbours(rich, ours, self.folds)
        return self._in_domain(both, crossed, **{"documents taken": int(augmentation.data.n_docs)})

    def _rich(self, ours: RankingData) -> list[RankingData]:
        """The background data with the columns of the in-domain data."""
        wanted: tuple[Any, ...] = (ours.n_features, ours.feature_names)
        parts: Any = self.background_data
        return [part.matched_to(*wanted, what="the in-domain data", zeros_left_out=False) for part in parts]

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
            background_columns = [background_scores(model, self.train) for model in self.backgrounds.values()]
            background_columns += [np.asarray(self.candidate(name).scores) for name in others]
            learnt = [False] * len(self.backgrounds) + [True] * len(others)
            crossed = cross_sum(self._sum, parts, background_columns, learnt, self.train, self.folds)
            joined, facts, scores = crossed.joined, crossed.facts, crossed.scores
            if not others:
                self._fold_starts[:] = crossed.models
        weights = {name: float(weight) for name, weight in zip(names, joined.weights_, strict=True)}
        return _Made(joined.model_, facts, {**details, "weights": weights}, scores=scores)

    def _sum(self, parts: Sequence[Any] | None, weights: Any) -> Interpolation:
        """An interpolation of models with weights; None: of features, with weights that are searched for."""
        settings: Any = {"measure": self.measure, "random_state": self.random_state, "n_jobs": self.n_jobs}
        return Interpolation(parts, self.weights if weights is None else weights, **settings)


def _further(progress: Callable[[int, int], Any], before: int, total: int, done: int) -> None:
    progress(before + done, total)


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


def _listed(key: str, value: Any) -> list[Any]:
    values = list(value) if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str) else [value]
    if not values:
        raise InputError(f"{key} is empty; expected at least one value")
    return [item for at, item in enumerate(values) if item not in values[:at]]


def _joined(parts: Sequence[RankingData]) -> RankingData:
    """One data set; of several, query ids start with the number of theirs."""
    if len(parts) == 1:
        return parts[0]
    ids = [np.char.add(f"{number}-", part.query_ids.astype(str)) for number, part in enumerate(parts, 1)]
    return RankingData.concatenate(
        [dataclasses.replace(part, query_ids=part_ids) for part, part_ids in zip(parts, ids, strict=True)]
    )


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
        random_state=random_state,
        n_jobs=n_jobs,
        cv=cv,
    )
    adapted = adaptation.run(method, progress)
    for notice in adapted.notices:
        warnings.warn(notice.text, InputWarning, stacklevel=2)
    return adapted


def folds_of(train: RankingData, cv: int, seed: int) -> Folds:
    """The folds of the training data, used without validation data."""
    folds = Folds.draw(train, cv, seed=seed) if train.n_queries else None
    if folds is None:
        problem = "nothing can be held out to choose by: fewer than two training queries have an order"
        raise InputError(f"{problem}; expected more queries, or validation data")
    return folds


def completed(crossed: CrossValidation) -> CrossValidation:
    """Reject a cross-validation that was interrupted."""
    if crossed.interrupted:
        raise KeyboardInterrupt
    return crossed


@dataclass(frozen=True, eq=False)
class CrossedSum:
    """An interpolation whose weights were fitted on out-of-fold scores.

    `joined`: the models with these weights. `facts`: of the fit of the weights. `scores`: out-of-fold scores: each
    fold's by weights that were fitted on the others. `models`: the interpolation of every fold, where none of the
    components was trained on the data.
    """

    joined: Interpolation
    facts: Fitted
    scores: Array
    models: tuple[Any, ...]


def cross_sum(
    make: Callable[[Any, Any], Interpolation],
    models: Sequence[Any],
    scores: Sequence[Array],
    learnt: Sequence[bool],
    train: RankingData,
    folds: Folds,
) -> CrossedSum:
    """Interpolate models by their out-of-fold scores.

    `make`: the interpolation of components (None: features) with weights, or a way to find them (None: the usual one).
    `models`, `scores`: the components, and their scores of the training data; out of fold where they were trained on
    it. `learnt`: which were: the scores of every fold come from a model of their own, with a scale of its own. `train`:
    the training data. `folds`: its folds; all queries are held out once.
    """
    rows = folds.of_query[train.query_of_row()]
    columns = [
        _on_one_scale(column, rows, train) if is_learnt else column
        for column, is_learnt in zip(scores, learnt, strict=True)
    ]
    stacked = dataclasses.replace(train, X=np.column_stack(columns), feature_names=None)
    crossed, parts = np.empty(train.n_docs), []
    for number in range(folds.n_held_out):
        fold = make(None, None)
        fold.fit_data(stacked.select(folds.of_query != number))
        crossed[rows == number] = fold.model_.score(stacked.X[rows == number])
        if not any(learnt):
            part = make(list(models), fold.weights_.tolist())
            part.fit_data(train.select(folds.of_query != number))
            parts.append(part.model_)
    on_all = make(None, None)
    facts = on_all.fit_data(stacked)
    joined = make(list(models), on_all.weights_.tolist())
    joined.fit_data(train)
    return CrossedSum(joined, facts, crossed, tuple(parts))


def _on_one_scale(scores: Array, folds: Array, data: RankingData) -> Array:
    """Scores with a standard deviation of 1 within queries, in every fold."""
    apart = scores - np.repeat(np.add.reduceat(scores, data.indptr[:-1]) / data.sizes, data.sizes)
    scaled = np.empty_like(scores)
    for number in np.unique(folds):
        mine = folds == number
        spread = float(np.sqrt(np.mean(apart[mine] ** 2)))
        scaled[mine] = scores[mine] / (spread if spread > 0 else 1.0)
    return scaled


def best_point(candidates: Sequence[CrossValidation], folds: Folds, train: RankingData) -> tuple[int, Array]:
    """The point of a grid with the highest mean, and out-of-fold scores: each fold's by the best point of the others.

    `candidates`: the cross-validation of every point. `folds`, `train`: as for :func:`cross_sum`.
    """
    best = int(np.argmax([max(candidate.means) for candidate in candidates]))
    values = np.array([candidate.query_values for candidate in candidates])
    scores = np.empty(train.n_docs)
    for number in range(folds.n_held_out):
        mine = folds.of_query == number
        point = int(np.argmax(np.nan_to_num(values[:, ~mine]).mean(axis=1)))
        rows = np.repeat(mine, train.sizes)
        scores[rows] = candidates[point].scores[rows]
    return best, scores


def with_neighbours(rich: RankingData, train: RankingData, folds: Folds) -> tuple[RankingData, Folds]:
    """The training data and, for every fold, the neighbours of all other folds; their folds.

    Neighbours have labels like those of the documents that they resemble, so each fold has its own.
    """
    parts, of_query = [train], [folds.of_query]
    for number in range(folds.n_held_out):
        near = augment(rich, train.select(folds.of_query != number)).data
        if near.n_docs:
            ids = np.char.add(f"without-fold-{number + 1}-", near.query_ids.astype(str))
            parts.append(dataclasses.replace(near, query_ids=ids))
            of_query.append(np.full(near.n_queries, -2 - number))
    return RankingData.concatenate(parts), dataclasses.replace(folds, of_query=np.concatenate(of_query))
