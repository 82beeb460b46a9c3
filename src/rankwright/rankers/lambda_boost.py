"""LambdaBoost: every round one feature joins the model, by least squares on the lambda gradients of a measure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.sum import add_models
from rankwright.rankers.background import FromBackground, background_model, background_scores, compare_features
from rankwright.rankers.base import weight_of_queries
from rankwright.rankers.lambda_rank import moments
from rankwright.rankers.problem import threads_of, without_weightless_rows
from rankwright.rankers.validation import validation_data, validation_value
from rankwright.solvers.boosting import Boosted, Round, boost

__all__ = ["LambdaBoost"]

Array = npt.NDArray[Any]


class LambdaBoost(FromBackground):
    """LambdaBoost: boosting with single features on lambda gradients, from nothing or from a background model.

    Every round takes the feature that fits the gradients best by least squares, and adds ``learning_rate`` times its
    coefficient. What is learnt is linear; the model is the background plus that.

    Parameters
    ----------
    n_rounds : int
        Rounds, at most.
    learning_rate : float
        Share of the least-squares coefficient that a round adds.
    measure : str or Measure
        What to rise: ``"ndcg@10"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Leave out pairs of documents that are both below this rank.
    standardize : bool
        Compare features by their values less the mean, divided by the standard deviation. False: by their raw values.
    patience : int, optional
        Rounds without a better value on ``eval_set`` after which training stops.
    background : fitted ranker, model or SavedModel, optional
        Where to start from. The model contains it, and so does its file.
    eval_measure : str or Measure, optional
        What the number of rounds is chosen by; ``measure`` unless given.
    n_jobs : int, optional
        Threads; 1 unless given, -1 for all cores. The model does not depend on it.
    callback : callable, optional
        Called with a :class:`~rankwright.solvers.boosting.Round` after every round; True stops training.

    Attributes
    ----------
    model_ : LinearModel or SumModel
        The background, if there is one, and what was learnt.
    coef_ : ndarray
        What was learnt, as weights of the raw features.
    n_rounds_ : int
        Rounds kept.
    path_ : tuple of Round
        The value on validation data after every round, and seconds.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and those without an order to learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    >>> ranker = LambdaBoost(n_rounds=10).fit(X, [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True
    """

    coef_: Array

    def __init__(
        self,
        n_rounds: int = 500,
        learning_rate: float = 0.5,
        *,
        measure: str | Measure = "ndcg@10",
        truncation: int | None = None,
        standardize: bool = True,
        patience: int | None = 50,
        background: Any = None,
        eval_measure: str | Measure | None = None,
        n_jobs: int | None = None,
        callback: Callable[[Round], Any] | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.measure = measure
        self.truncation = truncation
        self.standardize = standardize
        self.patience = patience
        self.background = background
        self.eval_measure = eval_measure
        self.n_jobs = n_jobs
        self.callback = callback

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
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its labels and queries along. Sparse features stay sparse.
        y : array-like
            One label per row, at least 0.
        qid : array-like, optional
            Query id per row, of any type, in any order.
        group : array-like of int, optional
            Instead of ``qid``: rows per query.
        sample_weight : array-like, optional
            Weight per row; a query counts as the mean of its rows' weights, and rows of weight 0 are left out.
        query_weight : mapping or array-like, optional
            Weight of each query, as ``{qid: weight}`` or per row.
        eval_set : (X, y, qid), (X, y) or RankingData, optional
            Validation data: the rounds up to the best value are kept. Without it, all are.
        eval_qid : array-like, optional
            Query ids of the validation data, where ``eval_set`` is (X, y).
        """
        self._check_parameters()
        threads = threads_of(self.n_jobs)
        background = background_model(self.background)
        data = self._gather(X, y, qid, group, reset=True)
        if background is not None:
            compare_features(background, data)
        weights = weight_of_queries(data, sample_weight, query_weight)
        data, weights = without_weightless_rows(data, weights, sample_weight)
        valid = validation_data(self, eval_set, eval_qid)
        low = np.minimum.reduceat(data.labels, data.indptr[:-1])
        useful = (np.maximum.reduceat(data.labels, data.indptr[:-1]) > low) & (weights > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        coef, boosted = np.zeros(data.n_features), Boosted(0, ())
        scores = _start(background, data)
        if useful.any():
            coef, boosted = self._boost(data, weights / weights[useful].mean(), scores, valid, background, threads)
        else:
            what = "no query has documents of different labels: there is nothing to order, and nothing is learnt"
            warnings.warn(what, InputWarning, stacklevel=2)
        self.n_rounds_, self.path_, self.coef_ = boosted.n_rounds, boosted.path, coef
        names = getattr(self, "feature_names_in_", None)
        learnt = LinearModel(coef, None if names is None else tuple(map(str, names)))
        self._model = learnt if background is None else add_models(background, learnt)
        if boosted.interrupted:
            what = f"training was interrupted; the model has the best {self.n_rounds_} of {len(self.path_)} rounds"
            warnings.warn(what, InputWarning, stacklevel=2)
        return self

    def _boost(
        self, data: RankingData, weights: Array, scores: Array, valid: RankingData | None, background: Any, threads: int
    ) -> tuple[Array, Boosted]:
        from rankwright.objectives.content_order import content_order
        from rankwright.objectives.lambdas import Lambdas
        from rankwright.solvers.feature_learner import FeatureLearner

        ties, _ = content_order(data.X, data.labels, data.indptr)
        measure = parse_measure(self.measure).resolve("letor")
        lambdas = Lambdas(data.labels, data.indptr, measure, self.truncation, threads, ties=ties, query_weights=weights)
        value = None if valid is None else validation_value(valid, self.eval_measure or self.measure)
        learner = FeatureLearner(
            data.X,
            *moments(data, self.standardize),
            rate=self.learning_rate,
            weights=np.repeat(weights, data.sizes),
            X_valid=None if valid is None else valid.X,
            threads=threads,
        )
        try:
            boosted = boost(
                lambdas,
                learner,
                scores,
                n_rounds=self.n_rounds,
                valid=value,
                valid_scores=None if valid is None else _start(background, valid),
                patience=self.patience,
                callback=self.callback,
            )
        finally:
            learner.close()
            lambdas.close()
        return learner.coefficients(boosted.n_rounds), boosted

    def _method(self) -> str:
        return "lambdaboost"

    def _check_parameters(self) -> None:
        for name in ("n_rounds", "truncation", "patience"):
            value = getattr(self, name)
            if value is None and name != "n_rounds":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise InputError(f"{name} is {value!r}; expected a whole number from 1")
        if not (isinstance(self.learning_rate, Real) and 0 < float(self.learning_rate) < np.inf):
            raise InputError(f"learning_rate is {self.learning_rate!r}; expected a number above 0")
        for name in ("measure", "eval_measure"):
            value = getattr(self, name)
            if value is not None or name == "measure":
                if not isinstance(value, str | Measure):
                    raise InputError(f"{name} is {value!r}; expected a measure such as 'ndcg@10'")
                parse_measure(value)

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rounds": self.n_rounds_, "queries": self.n_queries_}
        facts["queries_skipped"] = self.n_queries_skipped_
        if self.n_rounds_ and not np.isnan(self.path_[self.n_rounds_ - 1].value):
            facts["validation"] = self.path_[self.n_rounds_ - 1].value
        return facts


def _start(background: Any, data: RankingData) -> Array:
    """The scores to start from."""
    return np.zeros(data.n_docs) if background is None else background_scores(background, data)
