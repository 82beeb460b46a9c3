"""Interpolation: the weighted sum of fitted rankers, its weights found for a measure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.sum import interpolate
from rankwright.rankers.background import FromBackground, background_model, background_scores
from rankwright.rankers.base import weight_of_queries
from rankwright.rankers.problem import threads_of

__all__ = ["Interpolation"]

Array = npt.NDArray[Any]
_SEARCHES = ("powell", "lambdarank")
_STARTS = 3  # components that the search starts from, besides equal weights


class Interpolation(FromBackground):
    """The weighted sum of rankers that are fitted already; only the weights are fitted.

    Scores are brought to a common scale first: each component is divided by the standard deviation of its scores within
    queries, on the data that ``fit`` sees. That is one number for each component, so that a sum of linear models is a
    linear model again, and one of trees a model of trees.

    Parameters
    ----------
    rankers : sequence, optional
        Fitted rankers, models, what ``load_model`` gives, or single features by name or number. None: every feature.
    weights : {"powell", "lambdarank"} or sequence of float
        ``"powell"``: direction-set search with an exact line search, for the measure itself. ``"lambdarank"``: a linear
        LambdaRank over the scores. Or fixed weights of the scaled scores.
    measure : str or Measure
        What to rise.
    scale : bool
        Whether scores are brought to a common scale.
    random_state : int
        Seed of what is drawn: further directions of the search, or the order of the queries for LambdaRank.
    n_jobs : int, optional
        Threads. The model does not depend on it.

    Attributes
    ----------
    weights_ : ndarray
        Of the scaled scores.
    scales_ : ndarray
        What each component was divided by.
    value_ : float
        The measure on the data that ``fit`` saw.
    model_ : model
        Linear, of trees, or a sum of models.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    >>> ranker = Interpolation([0, 1]).fit(X, [2, 1, 0], ["q"] * 3)
    >>> ranker.value_
    1.0
    """

    background = None  # what FromBackground keeps is in ``rankers``

    def __init__(
        self,
        rankers: Sequence[Any] | None = None,
        weights: str | Sequence[float] = "powell",
        *,
        measure: str | Measure = "ndcg@10",
        scale: bool = True,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.rankers = rankers
        self.weights = weights
        self.measure = measure
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
    ) -> Self:
        """Find the weights.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features of the rankers; a RankingData brings its labels and queries along.
        y : array-like
            One label per row, at least 0.
        qid : array-like, optional
            Query id per row, of any type, in any order.
        group : array-like of int, optional
            Instead of ``qid``: rows per query.
        sample_weight : array-like, optional
            Weight per row; a query counts as the mean of its rows' weights.
        query_weight : mapping or array-like, optional
            Weight of each query, as ``{qid: weight}`` or per row.
        """
        self._check_parameters()
        data = self._gather(X, y, qid, group, reset=True)
        query_weights = weight_of_queries(data, sample_weight, query_weight)
        models = self._models(data)
        scores = np.column_stack([background_scores(model, data) for model in models])
        self.scales_ = _spreads(scores, data) if self.scale else np.ones(len(models))
        scores = scores / self.scales_
        low = np.minimum.reduceat(data.labels, data.indptr[:-1])
        useful = (np.maximum.reduceat(data.labels, data.indptr[:-1]) > low) & (query_weights > 0)
        self.n_queries_, self.n_queries_skipped_ = int(useful.sum()), int((~useful).sum())
        if not useful.any():
            what = "no query has documents of different labels: there is nothing to order, and all weights are equal"
            warnings.warn(what, InputWarning, stacklevel=2)
        self.weights_ = self._find(scores, data, query_weights, useful)
        self.value_ = self._on_lines(data, query_weights).value(scores @ self.weights_)
        self._model = interpolate(models, self.weights_ / self.scales_)
        return self

    def _models(self, data: RankingData) -> list[Any]:
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else tuple(map(str, names))
        rankers = range(data.n_features) if self.rankers is None else self.rankers
        models = []
        for ranker in rankers:
            if isinstance(ranker, str):
                if known is None or ranker not in known:
                    raise InputError(f"there is no feature {ranker!r}; expected the name of a feature of the data")
                ranker = known.index(ranker)
            if isinstance(ranker, int | np.integer) and not isinstance(ranker, bool):
                if not 0 <= ranker < data.n_features:
                    raise InputError(f"there is no feature {ranker}; expected a number from 0 to {data.n_features - 1}")
                models.append(LinearModel(np.eye(1, data.n_features, int(ranker))[0], known))
            else:
                models.append(background_model(ranker))
        return models

    def _on_lines(self, data: RankingData, query_weights: Array) -> Any:
        from rankwright.objectives.lines import MeasureOnLines

        return MeasureOnLines(data.labels, data.indptr, parse_measure(self.measure).resolve("letor"), query_weights)

    def _find(self, scores: Array, data: RankingData, query_weights: Array, useful: Array) -> Array:
        n_parts = scores.shape[1]
        if not isinstance(self.weights, str):
            return np.asarray(self.weights, np.float64)
        if not useful.any():
            return np.full(n_parts, 1.0 / np.sqrt(n_parts))
        if self.weights == "lambdarank":
            return self._by_lambdas(scores, data, query_weights)
        from rankwright.solvers.direction_set import direction_set_search

        on_lines = self._on_lines(data, query_weights)
        alone = [on_lines.value(scores[:, part]) for part in range(n_parts)]
        best = np.argsort(-np.array(alone), kind="stable")[:_STARTS]
        starts = [np.ones(n_parts), *np.eye(n_parts)[best]]
        return direction_set_search(scores, on_lines, starts, seed=self.random_state).weights

    def _by_lambdas(self, scores: Array, data: RankingData, query_weights: Array) -> Array:
        from rankwright.rankers.lambda_rank import LambdaRank

        parts = data.with_features(scores)
        settings: dict[str, Any] = {"measure": self.measure, "random_state": self.random_state, "n_jobs": self.n_jobs}
        ranker = LambdaRank(hidden=0, standardize=False, **settings)
        weights = np.repeat(query_weights, data.sizes)
        # The best epoch on the data itself: there are as many weights as components only.
        ranker.fit(parts, eval_set=parts, query_weight=parts.to_caller_order(weights))
        coef = ranker.model_.coef if isinstance(ranker.model_, LinearModel) else ranker.coef_
        length = np.linalg.norm(coef)
        return np.asarray(coef / length if length > 0 else np.full(len(coef), 1.0 / np.sqrt(len(coef))))

    def _check_parameters(self) -> None:
        parse_measure(self.measure)
        threads_of(self.n_jobs)
        if isinstance(self.weights, str) and self.weights not in _SEARCHES:
            raise InputError(f"weights is {self.weights!r}; expected powell, lambdarank, or numbers")
        if self.rankers is not None:
            if isinstance(self.rankers, str) or not isinstance(self.rankers, Sequence) or not len(self.rankers):
                raise InputError("rankers is empty or no list; expected fitted rankers, models, or features")
            if any(ranker is None for ranker in self.rankers):
                raise InputError("one of the rankers is None; expected fitted rankers, models, or features")
        if not isinstance(self.weights, str):
            weights = np.asarray(self.weights, np.float64)
            n_parts = None if self.rankers is None else len(self.rankers)
            if weights.ndim != 1 or not np.isfinite(weights).all() or n_parts not in (None, len(weights)):
                raise InputError(f"weights are {weights.tolist()}; expected a finite number for each ranker")

    def _method(self) -> str:
        return "interpolation"

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"weights": self.weights_.tolist(), "scales": self.scales_.tolist()}
        return {**facts, "queries": self.n_queries_, "value": self.value_}


def _spreads(scores: Array, data: RankingData) -> Array:
    """Standard deviation of each column within queries; 1 for columns that are constant there."""
    sums = np.add.reduceat(scores, data.indptr[:-1], axis=0)
    apart = scores - np.repeat(sums / data.sizes[:, None], data.sizes, axis=0)
    spread = np.sqrt((apart**2).mean(axis=0))
    size = np.abs(scores).max(axis=0, initial=0.0)
    return np.where(spread > 1e-12 * np.maximum(size, 1e-300), spread, 1.0)
