"""Validation data of rankers that stop at the best round or epoch: ``eval_set``, and the value of a measure on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.data.dataset import RankingData
from rankwright.data.order import rank_order
from rankwright.errors import InputError
from rankwright.evaluation.table import mean_of
from rankwright.measures import Measure, Rankings, parse_measure
from rankwright.models.features import NamedFeatures, picked
from rankwright.rankers.base import Ranker

__all__ = ["validation_data", "validation_value"]

Array = npt.NDArray[Any]
_EXPECTED = "expected (X, y, qid), a RankingData, or (X, y) with eval_qid"


def validation_data(ranker: Ranker, eval_set: Any, eval_qid: Any = None) -> RankingData | None:
    """The validation data that ``fit`` was given, its columns those of the training data.

    Parameters
    ----------
    ranker : Ranker
        What is being fitted; it knows its training features already.
    eval_set : (X, y, qid), (X, y) or RankingData, optional
        Validation data. A list of one pair is understood too, as LightGBM and XGBoost want it.
    eval_qid : array-like, optional
        Query ids where ``eval_set`` is (X, y).
    """
    if eval_set is None:
        if eval_qid is not None:
            raise InputError("eval_qid without eval_set; expected eval_set=(X, y) with it")
        return None
    if isinstance(eval_set, list) and len(eval_set) == 1 and isinstance(eval_set[0], tuple | list):
        eval_set = eval_set[0]
        if isinstance(eval_qid, list) and len(eval_qid) == 1 and np.ndim(eval_qid[0]) == 1:
            eval_qid = eval_qid[0]
    if isinstance(eval_set, RankingData):
        if eval_qid is not None:
            raise InputError("a RankingData has its queries; leave out eval_qid")
        return _like_training(ranker, eval_set)
    if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
        raise InputError(f"eval_set is a {type(eval_set).__name__}; {_EXPECTED}")
    X, y, *qid = eval_set
    if len(qid) == (eval_qid is not None):
        what = "has query ids, and eval_qid gives others" if qid else "has no query ids"
        raise InputError(f"eval_set {what}; {_EXPECTED}")
    return ranker._gather(X, y, qid[0] if qid else eval_qid, None, reset=False)


class _Training(NamedFeatures):
    """The features of the training data."""

    def __init__(self, ranker: Ranker) -> None:
        names = getattr(ranker, "feature_names_in_", None)
        self.feature_names = None if names is None else tuple(map(str, names))
        self._n_features = int(ranker.n_features_in_)

    @property
    def n_features(self) -> int:
        return self._n_features

    def of(self, data: RankingData) -> Any:
        """The features of other data in the order of these; those that it leaves out at the end are 0."""
        try:
            X = picked(data.X, self._columns(data.n_features, data.feature_names))
        except InputError as error:
            raise InputError(f"eval_set does not fit: {error.message}") from None
        if X.shape[1] == self.n_features:
            return X
        if sparse.issparse(X):
            return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.n_features))
        return np.pad(X, ((0, 0), (0, self.n_features - X.shape[1])))


def _like_training(ranker: Ranker, data: RankingData) -> RankingData:
    training = _Training(ranker)
    X = training.of(data)
    if not ranker._allow_missing and np.isnan(X.data if sparse.issparse(X) else X).any():
        raise InputError("eval_set has missing features (NaN), which this ranker cannot take")
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X)
    return dataclasses.replace(data, X=X, feature_names=training.feature_names)


def validation_value(data: RankingData, measure: str | Measure) -> Callable[[Array], float]:
    """The mean of a measure as a function of the scores, in the data's own order: what ``evaluate`` says, faster.

    What does not depend on the scores (the ideal order, which queries have something relevant) is computed once.
    """
    resolved = parse_measure(measure).resolve("letor")
    known = Rankings(data.labels, data.indptr)
    ideal = known.ideal
    nothing = ~resolved.has_relevant(known)

    def value(scores: Array) -> float:
        order = rank_order(scores, data.indptr, data.doc_ids)
        rankings = Rankings(data.labels[order], data.indptr, known)
        vars(rankings)["ideal"] = ideal  # where its cached property looks first
        values = resolved.value(rankings)
        values[nothing] = 0.0
        return mean_of(values)

    return value
