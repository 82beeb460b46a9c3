"""LambdaBoost: every round adds the feature that fits the lambda gradients of a measure best, by least squares."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import rows_in, stored
from rankwright.data.statistics import statistics_of
from rankwright.data.threads import threads_of
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.background import BACKGROUND, FromBackground, Start, compare_features
from rankwright.rankers.base import Task
from rankwright.rankers.boosted import BoostedRanker, Run, lambda_gradients
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import FLAG, MEASURE, NONE, POSITIVE, parameter, whole
from rankwright.solvers.boosting import Boosted, Boosting

__all__ = ["LambdaBoost"]

Array = npt.NDArray[Any]


@dataclass(eq=False, repr=False)
class LambdaBoost(BoostedRanker, FromBackground):
    """LambdaBoost: boosting with single features on lambda gradients, from scratch or from a background model.

    Every round takes the feature that fits the gradients best by least squares and adds ``learning_rate`` times its
    coefficient. The sum is linear; the model is the background plus this sum, the background's scores first brought to
    a standard deviation of ½ within queries, so their scale does not matter.

    Parameters
    ----------
    n_rounds : int
        Most rounds.
    learning_rate : float
        Share of the least-squares coefficient that each round adds.
    measure : str or Measure
        Measure to optimise: ``"ndcg@10"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Ignore pairs of documents that are both below this rank.
    standardize : bool
        Compare features after subtracting the mean and dividing by the standard deviation; False: raw values.
    patience : int, optional
        Stop after this many rounds without a better value on ``eval_set``, or on average over the folds of ``cv``.
    cv : int or "auto", optional
        Without ``eval_set``: choose the number of rounds by cross-validation with this many folds of queries,
        then train on all queries. ``"auto"``: 5 folds, of which one alone is held out from 500 queries on.
    background : fitted ranker, model or SavedModel, optional
        Model to start from. The trained model contains it, and so does its file.
    eval_measure : str or Measure, optional
        Measure to choose the number of rounds by; default ``measure``.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.
    callback : callable, optional
        Called with a :class:`~rankwright.solvers.boosting.Round` after every round; returning True stops training.

    Attributes
    ----------
    model_ : LinearModel or SumModel
        The background, if given, plus what was learnt.
    coef_ : ndarray
        What was learnt, as weights of the raw features.
    n_rounds_ : int
        Rounds kept.
    path_ : tuple of Round
        Value on validation data and seconds after every round.
    cv_ : CrossValidation or None
        What cross-validation found: its honest estimate ``value``, and out-of-fold ``scores``.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and queries skipped because they have no order to learn.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    >>> ranker = LambdaBoost(n_rounds=10).fit(X, [2, 1, 0], ["q"] * 3)
    >>> bool(ranker.coef_[0] > 0)
    True
    """

    _unit: ClassVar[str] = "rounds"
    _nothing: ClassVar[str] = "nothing is learnt"

    n_rounds: int = parameter(500, whole(1))
    learning_rate: float = parameter(0.5, POSITIVE)
    _: KW_ONLY
    measure: str | Measure = parameter("ndcg@10", MEASURE)
    truncation: int | None = parameter(None, whole(1), NONE)
    standardize: bool = parameter(True, FLAG)
    background: Any = parameter(None, BACKGROUND, NONE)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "lambdaboost"

    def _own_measure(self) -> Measure:
        return parse_measure(self.measure)

    def _run(self, task: Task) -> Run:
        from rankwright.solvers.feature_learner import FeatureLearner

        data, valid, start = task.data, task.valid, Start.of(self.background, task.data)
        weights = task.weights.queries
        lambdas = lambda_gradients(data, self.measure, self.truncation, self.n_jobs, weights)
        learner = FeatureLearner(
            stored(data)[0],
            *statistics_of(data, threads_of(self.n_jobs)).shift_and_scale(self.standardize),
            rate=self.learning_rate,
            weights=np.repeat(weights, data.sizes),
            X_valid=None if valid is None else stored(valid)[0],
            threads=threads_of(self.n_jobs),
            rows=rows_in(data),
            rows_valid=None if valid is None else rows_in(valid),
        )
        valid_scores = None if valid is None else start.scores(valid)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(learner.coefficients(boosted.n_rounds), boosted, data, start)

        return Run(Boosting(lambdas, learner, start.scores(data), valid_scores), keep, (learner, lambdas))

    def _learn_nothing(self, task: Task) -> Outcome:
        start = Start.of(self.background, task.data)
        return self._keep(np.zeros(task.data.n_features), Boosted(0, ()), task.data, start)

    def _keep(self, coef: Array, boosted: Boosted, data: RankingData, start: Start) -> Outcome:
        self.coef_ = coef
        self._model = start.with_learnt(LinearModel(coef, self._names()), boosted.n_rounds)
        return self._outcome(boosted, compare_features(start.model, data))
