"""What every ranker shares: the one ``fit``, scikit-learn's conventions, query ids, validation data, saving."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Never, Self

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.evaluate import evaluate
from rankwright.io.frames import has_categories
from rankwright.measures import Measure, parse_measure
from rankwright.models.base import warn_of_one_query
from rankwright.rankers.cross_validation import CrossValidation, Folds, Steps, best_setting, crossed, notify
from rankwright.rankers.estimator import check_is_fitted
from rankwright.rankers.facts import Fitted, Kind, Notice, Outcome, plain, shared_notices
from rankwright.rankers.inputs import (
    JUDGED,
    Clicks,
    Gathering,
    check_size,
    clicks_of,
    pages_together,
    refuse_in_searches,
)
from rankwright.rankers.parameters import NONE, check_parameters, hint, integer, one_of, parameter, seed_of
from rankwright.rankers.weights import Weights, weigh

_FIT = ("X", "y", "qid", "group", "sample_weight", "query_weight", "position", "eval_set", "eval_qid", "eval_group")
_NOT_OF_THE_MODEL = ("callback", "n_jobs", "warm_start")  # they do not change the model
_IF_SET = ("fill_missing",)  # noted if it is on, so that the files of all other models stay as they were


@dataclass(frozen=True, eq=False)
class Task:
    """What one training is given: no documents or queries of weight 0.

    `weights`: those of the useful queries have a mean of 1, unless the ranker has its own. `useful`: queries that have
    an order to learn. `valid`: with the columns of the training data. `choice`: what cross-validation chose, to be
    trained for. `valid_winning`: factors for the clicks of the validation data, if its labels are clicks.
    """

    data: RankingData
    weights: Weights
    useful: Array
    valid: RankingData | None
    choice: CrossValidation | None = None
    valid_winning: Array | None = None


class Ranker(Gathering):
    """Base of the estimators: ``fit(X, y, qid=…)``, ``predict(X)`` → scores, higher is better.

    Rows may come in any order with any type of query id; scores come back in the caller's order. The query ids are
    ``qid``, or the column ``qid`` (``query_id``, ``topic``, …) of a data frame, which is never a feature; or ``group``
    says how many rows each query has. Without any of these, all rows are one query, and ``fit`` warns; where
    scikit-learn searches or cross-validates, it refuses them.

    A subclass is a dataclass of parameters (:func:`~rankwright.rankers.parameters.parameter`) and says how to train:
    ``_train`` and ``_learn_nothing``; where it differs from the others, ``_useful``, ``_weigh`` and ``_check_data``.
    """

    _uses_categories: ClassVar[bool] = False  # whether a feature may be categorical
    _uses_positions: ClassVar[bool] = False  # whether pairs can be weighted by the position of a click
    _nothing: ClassVar[str] = "all weights are 0"  # what is learnt if there is nothing to order
    _model: Any

    # `fit`, `predict` and `score` request qid whenever metadata routing is on: no call of set_fit_request is needed.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012 - read by scikit-learn
    __metadata_request__predict = {"qid": True}  # noqa: RUF012
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_missing
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.estimator_type = "ranker"
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Array | None = None,
        position: Any = None,
        propensities: Any = None,
        pair: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_position: Any = None,
        **unknown: Never,
    ) -> Self:
        """Train.

        `X`: features; a RankingData brings its labels and queries along. In a data frame (pandas, polars, pyarrow)
        columns are what they are in every table, by their names: query ids (``qid``, ``query_id``, …), document ids
        and texts such as ``title`` are no features. Rankers made of trees take NaN as a missing value, text
        as categories, and make sparse features dense. `y`: one label per row, at least 0. `qid`: query id per row, of
        any type, in any order. Where X has a column of query ids, it must be the same ids. Without ``qid``, ``group``
        and such a column all rows are taken as one query, with a warning. `group`: instead of ``qid``: rows per query.
        `sample_weight`: weight per row; a query counts as the mean of its rows' weights. Weights are relative: they are
        divided by their mean over the queries that have an order to learn, so 2 everywhere is the same as none. Rows of
        weight 0 are absent, as if they had been left out of X. `query_weight`: weight of each query, as ``{qid:
        weight}``, as a list in the order in which queries first appear, or per row; multiplied with ``sample_weight``.
        Relative too, and queries of weight 0 are absent. `position`: where labels are clicks and queries pages: the
        position, from 1, at which each row was shown. Every click counts as the only relevant document of its page, and
        weighs 1/p, p being the propensity of its position, at most 100; in ``cv``, too. For :class:`RankingSVM` and
        :class:`LambdaMART`. `propensities`: with ``position``: how likely each position is looked at, as
        ``click_model(log).propensities``, ``{position: propensity}``, or a list from position 1. `pair`: with
        ``position``: an id of the query and document of each row, the same on all pages. Its clicks then weigh one over
        its mean propensity, which is less noisy, and ``cv`` holds out pages together that share a pair. X must have all
        pages then, also those without a click. `eval_set`: validation data: what a ranker leaves open (``C="auto"``,
        the number of rounds or epochs) is chosen on it. A list of one of these works too. Without it, ``cv`` and
        ``C="auto"`` choose by cross-validation. `eval_qid`, `eval_group`: query ids, or rows per query, where
        ``eval_set`` is (X, y). `eval_position`: with ``position``: the position of each row of
        ``eval_set``, if its labels are clicks too. `**unknown`: an error, with a hint for arguments of LightGBM and
        XGBoost.
        """
        if unknown:
            raise TypeError(self._unknown(next(iter(unknown))))
        self.check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        valid = self._validation(eval_set, eval_qid, eval_group)
        clicks = clicks_of(data, valid, position, propensities, pair, eval_position)
        self._check_positions(clicks)
        data, weights = weigh(data, sample_weight, query_weight, winning=clicks.training, pair=clicks.pair)
        fitted = self._fit(data, weights, valid, clicks=clicks)
        for notice in (*clicks.notices, *shared_notices(data, valid), *fitted.notices):
            warnings.warn(notice.text, _category(notice), stacklevel=2)
        return self

    def _unknown(self, name: str) -> str:
        kind, parameters = type(self).__name__, self._get_param_names()
        advice = hint(name, _FIT, parameters, f"a parameter of {kind}(…)")
        if not advice and name in parameters:
            advice = f"it is a parameter of {kind}(…)"
        return f"fit of {kind} has no argument {name!r}; {advice or 'expected one of ' + ', '.join(_FIT)}"

    def fit_data(
        self,
        data: RankingData,
        valid: RankingData | None = None,
        *,
        weights: Array | None = None,
        choice: CrossValidation | None = None,
        clicks: Clicks = JUDGED,
    ) -> Fitted:
        """Train on data that is gathered already; what ``fit`` warns of is among the facts that come back.

        `data`, `valid`: training data, and validation data to choose on. `weights`: one weight per query of the
        training data: relative, 0 is absent. `choice`: what :func:`~rankwright.rankers.cross_validation.cross_validate`
        found for this ranker: its setting is trained for. `clicks`: the weights of clicks, where labels are.
        """
        self.check_parameters()
        self._check_positions(clicks)
        data = self._gather(data, None, None, None, reset=True)
        data, relative = weigh(data, queries=weights, winning=clicks.training, pair=clicks.pair)
        return self._fit(data, relative, self._validation(valid), choice, clicks)

    def _check_positions(self, clicks: Clicks) -> None:
        if clicks.training is not None and not self._uses_positions:
            raise InputError(f"{type(self).__name__} takes no position; expected RankingSVM or LambdaMART")

    def _fit(
        self,
        data: RankingData,
        weights: Weights,
        valid: RankingData | None,
        choice: CrossValidation | None = None,
        clicks: Clicks = JUDGED,
    ) -> Fitted:
        began = time.perf_counter()
        task = replace(self._task(data, weights, valid), valid_winning=clicks.of_validation(valid))
        notices: tuple[Notice, ...] = ()
        if task.useful.any():
            if choice is None:
                choice, notices = self._choose(data, weights, valid)
            outcome = self._train(replace(task, choice=choice))
        else:
            text = f"no query has documents of different labels: there is nothing to order, and {self._nothing}"
            outcome = self._learn_nothing(task)
            outcome = replace(outcome, notices=(*outcome.notices, Notice(Kind.NOTHING_TO_ORDER, text)))
        outcome = replace(outcome, notices=(*notices, *outcome.notices))
        self.cv_ = choice
        self.training_ = Fitted(
            **vars(outcome),
            n_queries=self.n_queries_,
            n_queries_skipped=self.n_queries_skipped_,
            n_docs=task.data.n_docs,
            n_features=data.n_features,
            seconds=time.perf_counter() - began,
            measure=self.measure_to_choose_by(),
            cross_validation=choice,
        )
        return self.training_

    def _task(self, data: RankingData, weights: Weights, valid: RankingData | None) -> Task:
        factors = self._weigh(data)
        data, weights = weights.of(factors > 0, data)
        for given, role in ((data, "the training data"), (valid, "eval_set")):
            if given is not None and not self._uses_categories:
                given.check_numbers(type(self).__name__, "use lambdamart, mcrank or auto")
            if given is not None and not self._allow_missing:  # trees compare features, others compute with them
                check_size(given, role, self._scales_features())
        self._check_data(data, valid)
        useful = self._useful(data) if weights.winning is None else weights.counted(data) > 0
        weights = weights.relative(useful)
        weights = replace(weights, queries=weights.queries * factors[factors > 0])
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        return Task(data, weights, useful, valid)

    def _choose(
        self, data: RankingData, weights: Weights, valid: RankingData | None
    ) -> tuple[CrossValidation | None, tuple[Notice, ...]]:
        """What cross-validation chooses, if it is asked for, and what the user should know of it."""
        return None, ()

    def check_parameters(self) -> None:
        """Check the type and range of every parameter, and that they go together; no data is needed."""
        check_parameters(self)
        self._check_together()

    def _check_together(self) -> None:
        """Reject parameters that do not go together, or that only this ranker can check."""

    def measure_to_choose_by(self) -> Measure:
        """The measure by which C, or the number of rounds, is chosen on validation data: ``eval_measure``, if given."""
        given = getattr(self, "eval_measure", None)
        return self._own_measure() if given is None else parse_measure(given)

    def _own_measure(self) -> Measure:
        return parse_measure("nDCG@10")

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        """Reject data that this ranker cannot be trained on."""

    def _scales_features(self) -> bool:
        """Whether training divides features by their spread before it computes with them."""
        return bool(getattr(self, "standardize", True))

    def _weigh(self, data: RankingData) -> Array:
        """The weights that the ranker itself gives to queries, besides those of the caller; 0 leaves a query out."""
        return np.ones(data.n_queries)

    def _useful(self, data: RankingData) -> Array:
        """Which queries have something to learn from."""
        return data.has_order

    def _train(self, task: Task) -> Outcome:
        raise NotImplementedError

    def _learn_nothing(self, task: Task) -> Outcome:
        """Set the fitted attributes where no query has an order to learn."""
        raise NotImplementedError

    def score(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        measure: str | Measure = "nDCG@10",
    ) -> float:
        """Mean of a measure of the scores that ``predict`` gives.

        `X`, `y`, `qid`, `group`: as for ``fit``; X may be a RankingData. Without query ids all rows are one query, with
        a warning; where training had several queries this is an error. `sample_weight`: weight per row, as for ``fit``:
        relative, 0 is absent; a query counts as the mean of its rows' weights. `query_weight`: as for ``fit``.
        `measure`: what to compute.
        """
        _ = self.model_  # raises if not fitted
        data, weights = weigh(self._gather(X, y, qid, group, reset=False), sample_weight, query_weight)
        values = evaluate(data, self.predict(data), measures=[measure]).values[:, 0]
        counted = ~np.isnan(values)
        return float(np.average(values[counted], weights=weights.queries[counted])) if counted.any() else float("nan")

    def predict(self, X: Any, qid: Any = None, group: Any = None, *, missing_as_zero: bool = False) -> Array:
        """One score per row in the order given, higher is better.

        `X`: features; a RankingData brings its queries along, and so do a data frame with a column ``qid`` and the path
        of a file, which :func:`rankwright.read_data` reads, with or without labels. `qid`,
        `group`: query id per row, or rows per query. They matter only if features are scaled within each query
        (``query_scaling`` of :class:`AccuracySVM`, or of a background model); without them all rows are one query, with
        a warning. `missing_as_zero`: whether features that X lacks are 0; otherwise they are an error.
        """
        model = self.model_
        if isinstance(X, RankingData | str | Path) or missing_as_zero:
            return np.asarray(model.predict(X, qid, group, missing_as_zero=missing_as_zero))
        given = qid is not None or group is not None
        if has_categories(X):
            return np.asarray(model.predict(X, qid, group))
        X, qid = self._split_qid(X, qid, group)
        X = self._checked(X, reset=False)
        if not given and (qid is None or not model.scales_queries):
            if model.scales_queries:
                refuse_in_searches(X.shape[0])
                warn_of_one_query(X.shape[0], stacklevel=2)
            return np.asarray(model.score(X, self._names()))
        labels, names, missing = np.zeros(X.shape[0]), self._names(), self._allow_missing
        data = RankingData.from_arrays(X, labels, qid, group=group, feature_names=names, allow_missing=missing)
        return np.asarray(model.predict(data))

    def predict_contributions(self, X: Any, qid: Any = None, group: Any = None, **settings: Any) -> Array:
        """How much each feature adds to every score, and the mean score; see :meth:`Model.predict_contributions`."""
        return np.asarray(self.model_.predict_contributions(X, qid, group, **settings))

    @property
    def model_(self) -> Any:
        """The fitted model, apart from its training."""
        check_is_fitted(self, "_model")
        return self._model

    def save(self, path: str | Path, *, measures: Mapping[str, float] | None = None, model: Any = None) -> None:
        """Write the model to one file, which :func:`rankwright.load_model` reads.

        `path`: by convention with the suffix ``.rkw``. `measures`: values to keep with it, such as those on validation
        data. `model`: what to save instead of ``model_``: the same ranker over other features, as
        :meth:`ThresholdBins.collapse <rankwright.ThresholdBins.collapse>` gives it.
        """
        from rankwright.models.saving import save_model  # here because it loads every kind of model

        save_model(
            self.model_ if model is None else model,
            path,
            method=self.method_name(),
            parameters=plain({k: v for k, v in self.get_params(deep=False).items() if _is_noted(k, v)}),
            training=plain(self._training_facts()),
            measures=None if measures is None else dict(measures),
        )

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        raise NotImplementedError

    def _training_facts(self) -> dict[str, Any]:
        """What the model file says of the training."""
        facts: dict[str, Any] = {"queries": self.n_queries_, "queries_skipped": self.n_queries_skipped_}
        rounds = self.training_.rounds
        if rounds is not None:
            facts[rounds.unit] = rounds.kept
            facts |= {} if np.isnan(rounds.value) else {"validation": rounds.value}
        return facts


def _is_noted(name: str, value: Any) -> bool:
    return name not in _NOT_OF_THE_MODEL and (name not in _IF_SET or bool(value))


def _category(notice: Notice) -> type[Warning]:
    if notice.kind is not Kind.NOT_CONVERGED:
        return InputWarning
    from sklearn.exceptions import ConvergenceWarning

    category: type[Warning] = ConvergenceWarning
    return category


# Rankers that choose open settings by cross-validation, unless they are given validation data.


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(Ranker):
    """The choice; subclasses say what there is to choose from (``_choices``), and how to train for it (``_steps``)."""

    # Whether folds go from round to round together: their mean is comparable at every round, and `patience` is that of
    # the mean. Folds of a path of C go one after the other, which takes the memory of one.
    _folds_together: ClassVar[bool] = True

    cv: int | str | None = parameter(None, integer(2), one_of("auto"), NONE, set_by="--cv")

    def _choose(
        self, data: RankingData, weights: Weights, valid: RankingData | None
    ) -> tuple[CrossValidation | None, tuple[Notice, ...]]:
        if valid is not None and self.cv is not None:
            raise InputError("cv chooses by cross-validation, eval_set by validation data; expected one of the two")
        n_folds = self.cv or ("auto" if getattr(self, "C", None) == "auto" else None)
        if n_folds is None or valid is not None:
            return None, ()
        seed = seed_of(getattr(self, "random_state", 0))
        if weights.winning is None:
            useful, together = self._useful(data) & data.has_order, None
        else:
            useful, together = weights.counted(data) > 0, pages_together(data, weights.pair)
        folds = Folds.draw(data, n_folds, useful=useful, together=together, seed=seed)
        if folds is None:
            problem = "one query has an order to learn, and none can be held out for cross-validation"
            return None, (Notice(Kind.NOT_CHOSEN, f"{problem}: {self._not_chosen()}"),)
        result = crossed(self, data, weights, folds, self.measure_to_choose_by())
        settings = (*(() if result.start is None else (result.start.setting,)), result.setting)
        notify(getattr(self, "callback", None), "fold", 0, 0, settings)  # what follows is the training on all data
        if not result.interrupted:
            return result, ()
        problem = f"cross-validation was interrupted; the choice is by {result.folds.words} and {len(result.settings)}"
        return result, (Notice(Kind.INTERRUPTED, f"{problem} settings", {"folds": result.folds.n_held_out}),)

    def _not_chosen(self) -> str:
        return "all rounds are kept"

    def _choices(self, n_queries: int) -> Sequence[Any]:
        """The settings to choose from by cross-validation, ascending."""
        raise NotImplementedError

    def _steps(self, task: Task) -> Steps:
        """Training that goes from setting to setting; the validation data is what is held out."""
        raise NotImplementedError

    def _after_round(self, setting: Any, value: float, seconds: float) -> Any:
        """Report a round that all folds have finished; True stops."""

    def _best(self, values: Array, weights: Array) -> int:
        """Which setting is chosen, from the measure of every held-out query (columns) for each (rows)."""
        return best_setting(values, weights)

    def _start_to_cross(self, data: RankingData) -> Ranker | None:
        """A ranker to cross-validate first: its models are where the folds start from."""
        return None

    def _for_fold(self, seed: int) -> Self:
        ranker = copy.copy(self)
        for name, value in (("random_state", seed), ("warm_start", False), ("cv", None)):
            if hasattr(ranker, name):
                setattr(ranker, name, value)
        ranker.__dict__.pop("_initial_coef", None)  # a model to start from may have seen what is held out
        return ranker
