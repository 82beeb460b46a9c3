"""What every ranker shares: the one ``fit``, scikit-learn's conventions, query ids, validation data, saving."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.evaluation.table import evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.models.saving import save_model
from rankwright.rankers.facts import Fitted, Kind, Notice, Outcome, plain, shared_notices
from rankwright.rankers.parameters import check_parameters
from rankwright.rankers.weights import Weights, weigh, weight_of_queries

__all__ = ["Ranker", "Task"]

Array = npt.NDArray[Any]
_NOT_OF_THE_MODEL = ("callback", "n_jobs", "warm_start")  # they do not change the model
_EVAL_SET = "expected a RankingData, (X, y, qid), or (X, y) with eval_qid or eval_group"


@dataclass(frozen=True, eq=False)
class Task:
    """What one training is given.

    Attributes
    ----------
    data : RankingData
        Training data.
    weights : Weights
        Of its queries and documents.
    useful : ndarray of bool
        Queries that have an order to learn, and a weight above 0.
    valid : RankingData or None
        Validation data with the columns of the training data.
    """

    data: RankingData
    weights: Weights
    useful: Array
    valid: RankingData | None


class Ranker(BaseEstimator):
    """Base of the estimators: ``fit(X, y, qid=…)``, ``predict(X)`` → scores, higher is better.

    Rows may come in any order with any type of query id; scores come back in the caller's order. Without ``qid`` and
    ``group`` all rows are one query.

    A subclass is a dataclass of parameters (:func:`~rankwright.rankers.parameters.parameter`) and says how to train:
    ``_train`` and ``_learn_nothing``; where it differs from the others, ``_useful``, ``_weigh`` and ``_check_data``.
    """

    _allow_missing: ClassVar[bool] = False  # whether a feature may be NaN
    _validates: ClassVar[bool] = True  # whether there is something to choose on validation data
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
        query_weight: Any = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its labels and queries along. Rankers made of trees take NaN as a missing
            value, and make sparse features dense.
        y : array-like
            One label per row, at least 0.
        qid : array-like, optional
            Query id per row, of any type, in any order.
        group : array-like of int, optional
            Instead of ``qid``: rows per query.
        sample_weight : array-like, optional
            Weight per row. Rows of weight 0 are left out; a query counts as the mean of its rows' weights.
        query_weight : mapping or array-like, optional
            Weight of each query, as ``{qid: weight}`` or per row.
        eval_set : RankingData, (X, y, qid) or (X, y), optional
            Validation data: what a ranker leaves open (``C="auto"``, the number of rounds or epochs) is chosen on it.
            A list of one of these works too.
        eval_qid, eval_group : array-like, optional
            Query ids, or rows per query, where ``eval_set`` is (X, y).
        """
        self.check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        valid = self._validation(eval_set, eval_qid, eval_group)
        data, weights = weigh(data, sample_weight, query_weight)
        for notice in (*shared_notices(data, valid), *self._fit(data, valid, weights).notices):
            category = ConvergenceWarning if notice.kind is Kind.NOT_CONVERGED else InputWarning
            warnings.warn(notice.text, category, stacklevel=2)
        return self

    def fit_data(self, data: RankingData, valid: RankingData | None = None, *, weights: Any = None) -> Fitted:
        """Train on data that is gathered already; what ``fit`` warns of is among the facts that come back.

        Parameters
        ----------
        data, valid : RankingData
            Training data, and validation data to choose on.
        weights : array-like, optional
            One weight per query of the training data.
        """
        self.check_parameters()
        data = self._gather(data, None, None, None, reset=True)
        return self._fit(data, self._validation(valid), Weights.of_queries(data, weights))

    def _fit(self, data: RankingData, valid: RankingData | None, weights: Weights) -> Fitted:
        began = time.perf_counter()
        self._check_data(data, valid)
        weights = replace(weights, queries=self._weigh(data, weights.queries))
        useful = self._useful(data) & (weights.queries > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        task = Task(data, weights, useful, valid)
        if useful.any():
            outcome = self._train(task)
        else:
            what = f"no query has documents of different labels: there is nothing to order, and {self._nothing}"
            outcome = self._learn_nothing(task)
            outcome = replace(outcome, notices=(*outcome.notices, Notice(Kind.NOTHING_TO_ORDER, what)))
        self.training_ = Fitted(
            **vars(outcome),
            n_queries=self.n_queries_,
            n_queries_skipped=self.n_queries_skipped_,
            n_docs=data.n_docs,
            n_features=data.n_features,
            seconds=time.perf_counter() - began,
            measure=self.measure_to_choose_by(),
        )
        return self.training_

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
        """What to choose by unless ``eval_measure`` is given."""
        return parse_measure("nDCG@10")

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        """Reject data that this ranker cannot be trained on."""

    def _weigh(self, data: RankingData, weights: Array) -> Array:
        """The weights of the queries, with those that the ranker itself gives them."""
        return weights

    def _useful(self, data: RankingData) -> Array:
        """Which queries have something to learn from."""
        return data.has_order

    def _train(self, task: Task) -> Outcome:
        """Train, set the fitted attributes, and say what came of it."""
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
        measure: str | Measure = "nDCG@10",
    ) -> float:
        """Mean of a measure of the scores that ``predict`` gives.

        Parameters
        ----------
        X, y, qid, group
            As for ``fit``; X may be a RankingData.
        sample_weight : array-like, optional
            Weight per row; a query counts as the mean of its rows' weights.
        measure : str or Measure
            What to compute.
        """
        data = self._gather(X, y, qid, group, reset=False)
        table = evaluate(data, self.predict(data), measures=[measure])
        if sample_weight is None:
            return next(iter(table.means.values()))
        return float(np.average(table.values[:, 0], weights=weight_of_queries(data, sample_weight, None)))

    def predict(self, X: Any, qid: Any = None, group: Any = None, *, missing_as_zero: bool = False) -> Array:
        """One score per row in the order given, higher is better.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its queries along.
        qid, group : array-like, optional
            Query id per row, or rows per query. They matter only if features are scaled within each query
            (``query_scaling`` of :class:`AccuracySVM`, or of a background model); without them all rows are one query.
        missing_as_zero : bool
            Whether features that X lacks are 0; otherwise they are an error.
        """
        model = self.model_
        if isinstance(X, RankingData) or missing_as_zero:
            return np.asarray(model.predict(X, qid, group, missing_as_zero=missing_as_zero))
        X = validate_data(self, X, reset=False, accept_sparse="csr", **self._rules())
        if qid is None and group is None:
            return np.asarray(model.score(X, self._names()))
        labels, names, missing = np.zeros(X.shape[0]), self._names(), self._allow_missing
        data = RankingData.from_arrays(X, labels, qid, group=group, feature_names=names, allow_missing=missing)
        return np.asarray(model.predict(data))

    @property
    def model_(self) -> Any:
        """The fitted model, apart from its training."""
        check_is_fitted(self, "_model")
        return self._model

    def save(self, path: str | Path, *, measures: Mapping[str, float] | None = None, model: Any = None) -> None:
        """Write the model to one file, which :func:`rankwright.load_model` reads.

        Parameters
        ----------
        path : path
            By convention with the suffix ``.rkw``.
        measures : mapping, optional
            Values to keep with it, such as those on validation data.
        model : model, optional
            What to save instead of ``model_``: the same ranker over other features, as
            :meth:`ThresholdBins.collapse <rankwright.ThresholdBins.collapse>` gives it.
        """
        save_model(
            self.model_ if model is None else model,
            path,
            method=self.method_name(),
            parameters=plain({k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_OF_THE_MODEL}),
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

    def _rules(self) -> dict[str, Any]:
        """What scikit-learn is to check of X."""
        missing = {"ensure_all_finite": "allow-nan"} if self._allow_missing else {}
        return {"dtype": [np.float64, np.float32], **missing}

    def _names(self) -> tuple[str, ...] | None:
        """The names of the features, if the training data had some."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(map(str, names))

    def _gather(self, X: Any, y: Any, qid: Any, group: Any, *, reset: bool) -> RankingData:
        """Check the input as scikit-learn does, then gather the queries."""
        if isinstance(X, RankingData):
            if y is not None or qid is not None or group is not None:
                raise InputError("a RankingData has its labels and queries; leave out y, qid and group")
            if reset:
                self._check_missing(X, "the training data")
                self.n_features_in_ = X.n_features
                if X.feature_names is not None:
                    self.feature_names_in_ = np.array(X.feature_names, dtype=object)
                elif hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
            return X
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        try:
            X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", y_numeric=True, **self._rules())
        except ValueError as error:
            raise InputError(str(error)) from None
        if qid is None and group is None:
            group = [X.shape[0]]
        names, missing = self._names(), self._allow_missing
        return RankingData.from_arrays(X, y, qid, group=group, feature_names=names, allow_missing=missing)

    def _check_missing(self, data: RankingData, what: str) -> None:
        values = data.X.data if data.is_sparse else data.X
        if not self._allow_missing and values.size and np.isnan(values.min()):
            raise InputError(f"{what} has missing features (NaN), which this ranker cannot take")

    def _validation(self, eval_set: Any, eval_qid: Any = None, eval_group: Any = None) -> RankingData | None:
        """The validation data, its columns those of the training data."""
        if eval_set is None:
            if eval_qid is not None or eval_group is not None:
                name = "eval_group" if eval_qid is None else "eval_qid"
                raise InputError(f"{name} without eval_set; expected eval_set=(X, y) with it")
            return None
        if not self._validates:
            raise InputError(f"{type(self).__name__} has nothing to choose on validation data; leave out eval_set")
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set, eval_qid, eval_group = eval_set[0], _only(eval_qid), _only(eval_group)
        if isinstance(eval_set, RankingData):
            if eval_qid is not None or eval_group is not None:
                raise InputError("a RankingData has its queries; leave out eval_qid and eval_group")
            try:
                valid = eval_set.matched_to(self.n_features_in_, self._names())
            except InputError as error:
                raise InputError(f"eval_set does not fit: {error.message}") from None
            self._check_missing(valid, "eval_set")
            return valid
        if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
            raise InputError(f"eval_set is a {type(eval_set).__name__}; {_EVAL_SET}")
        if isinstance(eval_set[0], tuple | RankingData):
            raise InputError(f"eval_set has {len(eval_set)} validation sets; {_EVAL_SET}")
        X, y, *qid = eval_set
        given = [*qid, *(ids for ids in (eval_qid, eval_group) if ids is not None)]
        if len(given) != 1:
            raise InputError(f"eval_set has {'query ids twice' if given else 'no query ids'}; {_EVAL_SET}")
        return self._gather(X, y, None if eval_group is not None else given[0], eval_group, reset=False)


def _only(values: Any) -> Any:
    """What a list of one array holds; anything else unchanged."""
    return values[0] if isinstance(values, list) and len(values) == 1 and np.ndim(values[0]) == 1 else values
