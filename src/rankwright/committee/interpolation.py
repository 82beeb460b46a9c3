"""Interpolation: the weighted sum of fitted rankers, with weights that optimise a measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.measures import Measure, parse_measure
from rankwright.models.linear import LinearModel
from rankwright.models.sum import interpolate
from rankwright.rankers.background import FromBackground, background_model, background_scores
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Notice, Outcome
from rankwright.rankers.parameters import (
    FLAG,
    MEASURE,
    NONE,
    Rule,
    Seed,
    common,
    is_list,
    is_number,
    one_of,
    parameter,
    seed_of,
    shown,
)

__all__ = ["Interpolation"]

_STARTS = 3  # best components to start the search from, besides equal weights


_RANKERS = Rule(
    "fitted rankers, models, or features", lambda value: is_list(value) and all(part is not None for part in value)
)
_NUMBERS = Rule("finite numbers", lambda value: is_list(value) and all(map(is_number, value)))


@dataclass(eq=False, repr=False)
class Interpolation(FromBackground):
    """The weighted sum of fitted rankers; only the weights are trained.

    Scores are brought to a common scale first: each component is divided by the standard deviation of its scores within
    queries, on the data that ``fit`` sees. That is one number per component, so a sum of linear models is a linear
    model, and a sum of trees a model of trees.

    Parameters
    ----------
    rankers : sequence, optional
        Fitted rankers, models, results of ``load_model``, or single features by name or number. None: every feature.
    weights : {"powell", "lambdarank"} or sequence of float
        ``"powell"``: direction-set search with an exact line search, for the measure itself. ``"lambdarank"``: a linear
        LambdaRank over the scores. Or fixed weights of the scaled scores.
    measure : str or Measure
        Measure to optimise.
    scale : bool
        Bring scores to a common scale.
    random_state : int, RandomState or None
        Seed of further search directions, or of LambdaRank's order of queries.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.

    Attributes
    ----------
    weights_ : ndarray
        Weights of the scaled scores.
    scales_ : ndarray
        Divisor of each component's scores.
    value_ : float
        The measure on the training data.
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

    _validates: ClassVar[bool] = False
    _nothing: ClassVar[str] = "all weights are equal"

    rankers: Sequence[Any] | None = parameter(None, _RANKERS, NONE)
    weights: str | Sequence[float] = parameter("powell", one_of("powell", "lambdarank"), _NUMBERS)
    _: KW_ONLY
    measure: str | Measure = parameter("ndcg@10", MEASURE)
    scale: bool = parameter(True, FLAG)
    random_state: Seed = common("random_state")
    n_jobs: int | None = common("n_jobs")

    def _check_together(self) -> None:
        if self.rankers is None or isinstance(self.weights, str) or len(self.weights) == len(self.rankers):
            return
        raise InputError(f"weights is {shown(self.weights)}; expected one for each of {len(self.rankers)} rankers")

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "interpolation"

    def _own_measure(self) -> Measure:
        return parse_measure(self.measure)

    def _scales_features(self) -> bool:
        return False  # scores that do not vary within queries are left as they are

    def _train(self, task: Task) -> Outcome:
        return self._combine(task, self._find)

    def _learn_nothing(self, task: Task) -> Outcome:
        return self._combine(task, lambda scores, _: (_equal(scores.shape[1]), ()))

    def _combine(self, task: Task, find: Callable[[Array, Task], tuple[Array, tuple[Notice, ...]]]) -> Outcome:
        data = task.data
        models = self._models(data)
        scores = np.column_stack([background_scores(model, data) for model in models])
        self.scales_ = _spreads(scores, data) if self.scale else np.ones(len(models))
        scores = scores / self.scales_
        notices: tuple[Notice, ...] = ()
        if isinstance(self.weights, str):
            self.weights_, notices = find(scores, task)
        else:
            self.weights_ = np.asarray(self.weights, np.float64)
            if len(self.weights_) != len(models):
                raise InputError(f"weights is {shown(self.weights)}; expected one for each of {len(models)} features")
        self.value_: float = self._on_lines(task).value(scores @ self.weights_)
        self._model = interpolate(models, self.weights_ / self.scales_)
        return Outcome(notices=notices)

    def _models(self, data: RankingData) -> list[Any]:
        names = self._names()
        rankers = range(data.n_features) if self.rankers is None else self.rankers
        models = []
        for ranker in rankers:
            if isinstance(ranker, str):
                if names is None or ranker not in names:
                    raise InputError(f"there is no feature {ranker!r}; expected the name of a feature of the data")
                ranker = names.index(ranker)
            if isinstance(ranker, int | np.integer) and not isinstance(ranker, bool):
                if not 0 <= ranker < data.n_features:
                    raise InputError(f"there is no feature {ranker}; expected a number from 0 to {data.n_features - 1}")
                models.append(LinearModel(np.eye(1, data.n_features, int(ranker))[0], names))
            else:
                models.append(background_model(ranker))
        return models

    def _on_lines(self, task: Task) -> Any:
        from rankwright.committee.lines import MeasureOnLines

        data, measure = task.data, parse_measure(self.measure).resolve("letor")
        return MeasureOnLines(data.labels, data.indptr, measure, task.weights.queries)

    def _find(self, scores: Array, task: Task) -> tuple[Array, tuple[Notice, ...]]:
        if self.weights == "lambdarank":
            return self._by_lambdas(scores, task)
        from rankwright.committee.lines import direction_set_search

        n_components, on_lines = scores.shape[1], self._on_lines(task)
        alone = [on_lines.value(scores[:, component]) for component in range(n_components)]
        best = np.argsort(-np.array(alone), kind="stable")[:_STARTS]
        starts = [np.ones(n_components), *np.eye(n_components)[best]]
        return direction_set_search(scores, on_lines, starts, seed=seed_of(self.random_state)).weights, ()

    def _by_lambdas(self, scores: Array, task: Task) -> tuple[Array, tuple[Notice, ...]]:
        from rankwright.nets.lambda_rank import LambdaRank

        settings: dict[str, Any] = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        ranker = LambdaRank(self.measure, hidden=0, standardize=False, **settings)
        parts = task.data.with_features(scores, [f"part {at}" for at in range(scores.shape[1])])
        # The best epoch on the data itself: there are no more weights than components.
        fitted = ranker.fit_data(parts, parts, weights=task.weights.queries)
        length = np.linalg.norm(ranker.coef_)
        return ranker.coef_ / length if length > 0 else _equal(len(ranker.coef_)), fitted.notices

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"weights": self.weights_.tolist(), "scales": self.scales_.tolist()}
        return {**facts, **super()._training_facts(), "value": self.value_}


def _equal(n_components: int) -> Array:
    return np.full(n_components, 1.0 / np.sqrt(n_components))


def _spreads(scores: Array, data: RankingData) -> Array:
    """Standard deviation of each column within queries; 1 for columns that are constant there."""
    size = np.abs(scores).max(axis=0, initial=0.0)
    _, power = np.frexp(size)
    scores = np.ldexp(scores, -power)  # below 1, with the same digits: huge scores have no squares
    sums = np.add.reduceat(scores, data.indptr[:-1], axis=0)
    apart = scores - np.repeat(sums / data.sizes[:, None], data.sizes, axis=0)
    spread = np.ldexp(np.sqrt((apart**2).mean(axis=0)), power)
    return np.where(spread > np.maximum(1e-12 * size, 1e-290), spread, 1.0)  # less is rounding, or overflows below
