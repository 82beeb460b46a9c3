"""LambdaBoost: every round adds the feature that fits the lambda gradients of a measure best, by least squares."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array, Features
from rankwright.boosting.rounds import Boosted, BoostedRanker, Boosting, LambdaSettings, Run
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, rows_in, stored
from rankwright.data.statistics import statistics_of
from rankwright.data.threads import threads_of
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.background import BACKGROUND, FromBackground, Start, background_spread, compare_features
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import FLAG, MEASURE, NONE, POSITIVE, integer, parameter

__all__ = ["LambdaBoost"]


@dataclass(eq=False, repr=False)
class LambdaBoost(BoostedRanker, FromBackground):
    """LambdaBoost: boosting with single features on lambda gradients, from scratch or from a background model.

    Every round takes the feature that fits the gradients best by least squares and adds ``learning_rate`` times its
    coefficient. The sum is linear; the model is the background plus this sum, the background's scores first brought to
    one standard deviation within queries, so their scale does not matter.

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
    patience, cv, n_jobs, callback
        As for :class:`LambdaMART`.
    background : fitted ranker, model or SavedModel, optional
        Model to start from. The trained model contains it, and so does its file.
    background_spread : float, optional
        As for :class:`LambdaMART`.
    eval_measure : str or Measure, optional
        Measure to choose the number of rounds by; default ``measure``.

    Attributes
    ----------
    model_ : LinearModel or SumModel
        The background, if given, plus what was learnt.
    coef_ : ndarray
        What was learnt, as weights of the raw features.
    n_rounds_ : int
        Rounds kept.
    path_, cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`LambdaMART`.

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

    n_rounds: int = parameter(500, integer(1))
    learning_rate: float = parameter(0.5, POSITIVE)
    _: KW_ONLY
    measure: str | Measure = parameter("ndcg@10", MEASURE)
    truncation: int | None = parameter(None, integer(1), NONE)
    standardize: bool = parameter(True, FLAG)
    background: Any = parameter(None, BACKGROUND, NONE)
    background_spread: float | None = background_spread()

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "lambdaboost"

    def _own_measure(self) -> Measure:
        return parse_measure(self.measure)

    def _run(self, task: Task) -> Run:
        data, valid = task.data, task.valid
        start = Start.of(self.background, data, self.background_spread)
        weights, threads = task.weights.queries, threads_of(self.n_jobs)
        lambdas = LambdaSettings.of(self.measure, self.truncation).on(data.labels, data.indptr, weights, None, threads)
        learner = FeatureLearner(
            data,
            valid,
            *statistics_of(data, threads).shift_and_scale(self.standardize),
            rate=self.learning_rate,
            weights=np.repeat(weights, data.sizes),
            threads=threads,
        )
        valid_scores = None if valid is None else start.scores(valid)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(learner.coefficients(boosted.n_rounds), boosted, data, start)

        return Run(Boosting(lambdas, learner, start.scores(data), valid_scores), keep, (learner, lambdas))

    def _learn_nothing(self, task: Task) -> Outcome:
        start = Start.of(self.background, task.data, self.background_spread)
        return self._keep(np.zeros(task.data.n_features), Boosted(0, ()), task.data, start)

    def _keep(self, coef: Array, boosted: Boosted, data: RankingData, start: Start) -> Outcome:
        self.coef_, self.n_rounds_ = coef, boosted.n_rounds
        self._model = start.with_learnt(LinearModel(coef, self._names()), boosted.n_rounds)
        return self._outcome(boosted, compare_features(start.model, data))


# One feature a round: the one that best fits the gradients by least squares, with a share of its coefficient.
#
# For gradients ỹ and features h_j (standardised: h = (x − mean)/scale), weighted by the documents' weights μ:
#
#     β_j = Σ ỹ h_j / Σ μ h_j²,   the error falls by (Σ ỹ h_j)² / Σ μ h_j²,   the scores change by rate · β_j · h_j
#
# The gradients (which already include μ) sum to 0 in every query, so means cancel in Σ ỹ h_j; a constant moves no
# document, so the raw feature is added to the scores.


_TASK_ROWS = 8192
_CHUNK_VALUES = 1 << 16  # in float64 at a time


class FeatureLearner:
    """Features for the rounds of boosting.

    `mean`, `scale`: features are used as (x − mean) / scale; a scale of inf leaves a feature out. `rate`: share of the
    coefficient to add. `weights`: weights of the documents. `threads`: the result does not depend on it.
    """

    def __init__(
        self,
        data: RankingData,
        valid: RankingData | None,
        mean: Array,
        scale: Array,
        *,
        rate: float,
        weights: Array,
        threads: int,
    ) -> None:
        self.rounds: list[tuple[int, float]] = []  # feature, and the change of its weight
        self._X, rows = self._train = stored(data)[0], rows_in(data)
        self._valid = None if valid is None else (stored(valid)[0], rows_in(valid))
        self._scale, self._rate, self._rows = scale, rate, np.arange(data.n_docs) if rows is None else rows
        self._squares = _squares(self._X, self._rows, mean, scale, weights)
        self._tasks = list(pairwise([*range(0, data.n_docs, _TASK_ROWS), data.n_docs]))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 and len(self._tasks) > 1 else None

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        sums = self._products(gradients) / self._scale
        gains = np.divide(sums**2, self._squares, out=np.zeros_like(sums), where=self._squares > 0)
        best = int(np.argmax(gains))
        rise = 0.0
        if gains[best] > 0:
            rise = self._rate * float(sums[best] / self._squares[best] / self._scale[best])
        self.rounds.append((best, rise))
        _add_column(*self._train, best, rise, scores)

    def add_last(self, scores: Array) -> None:
        assert self._valid is not None
        _add_column(*self._valid, *self.rounds[-1], scores)

    def coefficients(self, n_rounds: int) -> Array:
        coef = np.zeros(len(self._scale))
        for feature, rise in self.rounds[:n_rounds]:
            coef[feature] += rise
        return coef

    def _products(self, gradients: Array) -> Array:
        from rankwright.models.products import kernel_form, sum_rows

        each: Callable[..., Any] = map if self._pool is None else self._pool.map
        form, total = kernel_form(self._X), np.zeros(self._X.shape[1])

        def add(task: tuple[int, int]) -> Array:
            sums = np.zeros(self._X.shape[1])
            sum_rows(form, self._rows[slice(*task)], gradients[slice(*task)], sums)
            return sums

        for part in each(add, self._tasks):
            total += part
        return total

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _add_column(X: Array, rows: Array | None, column: int, factor: float, scores: Array) -> None:
    if sparse.issparse(X):
        from rankwright.models.products import add_stored

        add_stored(X.data, X.indices, X.indptr, np.arange(X.shape[0]) if rows is None else rows, column, factor, scores)
    else:
        scores += factor * (X[:, column] if rows is None else X[rows, column]).astype(np.float64)


def _squares(X: Features, rows: Array, mean: Array, scale: Array, weights: Array) -> Array:
    """Σ μ h² for every feature."""
    total = np.zeros(X.shape[1])
    if sparse.issparse(X):
        from rankwright.models.products import add_squares

        add_squares(X.data, X.indices, X.indptr, rows, mean, scale, weights, total)
        return np.maximum(total + weights.sum() * (mean / scale) ** 2, 0.0)
    step = max(1, _CHUNK_VALUES // max(1, X.shape[1]))
    for start in range(0, len(rows), step):
        h = (X[rows[start : start + step]] - mean) / scale
        total += np.einsum("i,ij,ij->j", weights[start : start + step], h, h)
    return total
