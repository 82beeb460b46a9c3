"""What every ranker shares: scikit-learn's conventions, query ids, weights, saving."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwright.data.blocks import query_of_row
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.evaluation.table import evaluate
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model
from rankwright.rankers.facts import Certificate, Fitted, Kind, Notice, Rounds

__all__ = ["LinearRanker", "Ranker"]

Array = npt.NDArray[Any]
_NOT_OF_THE_MODEL = ("callback", "n_jobs", "warm_start")  # the same model comes of any of these


class Ranker(BaseEstimator):
    """Base of the estimators: ``fit(X, y, qid=…)``, ``predict(X)`` → scores, higher is better.

    Rows may come in any order with any type of query id; scores come back in the caller's order. Without ``qid`` and
    ``group`` all rows are one query.
    """

    _allow_missing = False  # whether a feature may be NaN
    _model: Any

    # `fit` and `score` want qid whenever metadata routing is on: no call of set_fit_request is needed.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012 - read by scikit-learn
    __metadata_request__score = {"qid": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        tags.estimator_type = "ranker"
        return tags

    def fit_data(self, data: RankingData, valid: RankingData | None = None, *, weights: Any = None) -> Fitted:
        """Train on data that is gathered already, without a warning; the facts of the training say what there is.

        Parameters
        ----------
        data, valid : RankingData
            Training data, and validation data to choose by.
        weights : array-like, optional
            One weight per query of the training data.
        """
        began = time.perf_counter()
        rows = None if weights is None else data.to_caller_order(np.repeat(np.asarray(weights), data.sizes))
        given = {} if valid is None else {"eval_set": valid}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            getattr(self, "fit")(data, query_weight=rows, **given)  # noqa: B009
        notices = []
        for one in caught:
            text = str(one.message)
            kind = Kind.INTERRUPTED if "interrupted" in text else Kind.NOTHING_TO_ORDER
            kind = Kind.NOT_CONVERGED if issubclass(one.category, ConvergenceWarning) else kind
            notices.append(Notice(Kind.OTHER_FEATURES if "background" in text else kind, text))
        units = {"n_trees_": "trees", "n_rounds_": "rounds", "best_epoch_": "epochs"}
        unit = next((name for name in units if hasattr(self, name)), None)
        certificate = None
        if hasattr(self, "gap_"):
            me: Any = self
            certificate = Certificate(me.objective_, me.gap_, me.n_passes_, me.n_passes_total_, me.gap_ <= me.tol)
        self.training_ = Fitted(
            notices=tuple(notices),
            C=getattr(self, "C_", None),
            tried=tuple(getattr(self, "C_path_", ())),
            certificate=certificate,
            rounds=None
            if unit is None
            else Rounds(units[unit], getattr(self, unit), tuple(row.value for row in getattr(self, "path_", ()))),
            n_queries=getattr(self, "n_queries_", 0),
            n_queries_skipped=getattr(self, "n_queries_skipped_", 0),
            n_docs=data.n_docs,
            n_features=data.n_features,
            seconds=time.perf_counter() - began,
            measure=self.measure_to_choose_by(),
        )
        return self.training_

    def measure_to_choose_by(self) -> Measure:
        """What C, or the number of rounds, is chosen by on validation data."""
        if hasattr(self, "_measure_to_choose_by"):
            return self._measure_to_choose_by()
        return parse_measure(getattr(self, "eval_measure", None) or getattr(self, "measure", None) or "AP")

    def check_parameters(self) -> None:
        """Check the type and range of every parameter; no data is needed."""
        self._check_parameters()
        if hasattr(self, "_targets"):
            self._targets(RankingData.from_arrays([[1.0], [0.0]], [1, 0], group=[2]))

    def _check_parameters(self) -> None:
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
        """Mean of a measure (nDCG@10 unless said otherwise) of the scores that ``predict`` gives.

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

    def predict(self, X: Any) -> Array:
        """One score per row, higher is better."""
        model = self.model_
        if isinstance(X, RankingData):
            return X.to_caller_order(model.score(X.X, X.feature_names))
        X = validate_data(self, X, reset=False, accept_sparse="csr", **self._rules())
        return np.asarray(model.score(X))

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
            By custom with the suffix ``.rkw``.
        measures : mapping, optional
            Values to keep with it, such as those on validation data.
        model : model, optional
            What to save for ``model_``: the same ranker over other features, as
            :meth:`ThresholdBins.collapse <rankwright.ThresholdBins.collapse>` gives it.
        """
        save_model(
            self.model_ if model is None else model,
            path,
            method=self._method(),
            parameters=_plain({k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_OF_THE_MODEL}),
            training=_plain(self._training_facts()),
            measures=None if measures is None else dict(measures),
        )

    def _method(self) -> str:
        return type(self).__name__

    def _training_facts(self) -> dict[str, Any]:
        return {}

    def _rules(self) -> dict[str, Any]:
        """What scikit-learn is to check of X."""
        missing = {"ensure_all_finite": "allow-nan"} if self._allow_missing else {}
        return {"dtype": [np.float64, np.float32], **missing}

    def _gather(self, X: Any, y: Any, qid: Any, group: Any, *, reset: bool) -> RankingData:
        """Check the input as scikit-learn does, then gather the queries."""
        if isinstance(X, RankingData):
            if y is not None or qid is not None or group is not None:
                raise InputError("a RankingData has its labels and queries; leave out y, qid and group")
            if reset:
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
        names = getattr(self, "feature_names_in_", None)
        if qid is None and group is None:
            group = [X.shape[0]]
        return RankingData.from_arrays(X, y, qid, group=group, feature_names=names, allow_missing=self._allow_missing)


class LinearRanker(Ranker):
    """A ranker whose scores are ``X @ coef_``."""

    coef_: Array

    @property
    def model_(self) -> LinearModel:
        """The fitted model, apart from its training."""
        check_is_fitted(self, "coef_")
        names = getattr(self, "feature_names_in_", None)
        return LinearModel(self.coef_, None if names is None else tuple(map(str, names)))

    def _start_from(self, coef: Array | None) -> Self:
        """Continue from weights, as a saved model has them, at the next ``fit``."""
        self._initial_coef = coef
        return self


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON can hold them."""
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
    """A number, text or a list of such; of anything else its name: a ranker's class, a measure as it is written."""
    if item is None or isinstance(item, bool | int | float | str | list):
        return item
    return str(item) if isinstance(item, Measure) else type(item).__name__


def weight_of_queries(data: RankingData, sample_weight: Any, query_weight: Any) -> Array:
    """One weight per query from weights per row (averaged) and weights per query (a mapping, or per row).

    Both are in the caller's order of rows.
    """
    weights = np.ones(data.n_queries)
    if sample_weight is not None:
        weights *= _mean_per_query(data, _row_weights(data, sample_weight, "sample_weight"))
    if isinstance(query_weight, Mapping):
        missing = [query for query in data.query_ids.tolist() if query not in query_weight]
        if missing:
            raise InputError(f"query_weight has no entry for query {missing[0]!r}")
        weights *= np.array([float(query_weight[query]) for query in data.query_ids.tolist()])
    elif query_weight is not None:
        weights *= _mean_per_query(data, _row_weights(data, query_weight, "query_weight"))
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("weights must be finite and at least 0")
    if not weights.any():
        raise InputError("all weights are zero; expected a query that counts")
    return weights


def _row_weights(data: RankingData, values: Any, name: str) -> Array:
    array = np.asarray(values, np.float64)
    if array.shape != (data.n_docs,):
        raise InputError(f"{data.n_docs} rows but {name} of shape {array.shape}; expected one weight per row")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InputError(f"{name} must be finite and at least 0")
    return array if data.rows is None else array[data.rows]


def _mean_per_query(data: RankingData, rows: Array) -> Array:
    return np.bincount(query_of_row(data.indptr), rows, data.n_queries) / data.sizes
