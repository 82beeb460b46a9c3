"""Gradient boosting: rounds of fitting a tree (or one feature) to gradients, with the best round kept.

The solver knows neither features nor labels: an objective turns scores into gradients and hessians (second
derivatives, without their sign), a learner turns these into a change of the scores. Gradients are those of a utility
that is maximised, so the negative ones of the cost: scores and leaves go the way that they point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.measures import Measure, parse_measure
from rankwright.rankers.base import CrossValidated, Task
from rankwright.rankers.cross_validation import Steps, Still, validation_value
from rankwright.rankers.facts import Kind, Notice, Outcome, Rounds
from rankwright.rankers.parameters import (
    NONE,
    common,
    integer,
    parameter,
)


class Learner(Protocol):
    """Fits gradients round by round, and remembers the fits."""

    def fit(self, gradients: Array, weights: Array, scores: Array) -> None:
        """Fit one more round and add it to ``scores``."""

    def add_last(self, scores: Array) -> None:
        """Add the last round to the scores of the validation data."""


@dataclass(frozen=True)
class BoostingRound:
    """One row of the path.

    `round`: from 1. `value`: the measure on validation data; NaN if there is none. `seconds`: wall time since the
    start.
    """

    round: int
    value: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Boosted:
    """The result: rounds to keep, path, and whether Ctrl-C ended training."""

    n_rounds: int
    path: tuple[BoostingRound, ...]
    interrupted: bool = False


@dataclass(eq=False)
class Boosting:
    """Boosting that goes on round by round.

    `objective`: ``gradients, weights = objective.evaluate(scores)``. `learner`: fits the gradients. `scores`: scores to
    start from, 0 or those of a background model; they change in place. `valid_scores`: validation scores to start from;
    they change too.
    """

    objective: Any
    learner: Learner
    scores: Array
    valid_scores: Array | None = None

    def step(self) -> None:
        gradients, weights = self.objective.evaluate(self.scores)
        self.learner.fit(gradients, weights, self.scores)
        if self.valid_scores is not None:
            self.learner.add_last(self.valid_scores)


def boost(
    boosting: Boosting,
    *,
    n_rounds: int,
    valid: Callable[[Array], float] | None = None,
    patience: int | None = None,
    callback: Callable[[BoostingRound], Any] | None = None,
) -> Boosted:
    """Boost for at most ``n_rounds``.

    `valid`: the measure of validation scores; the rounds up to its highest value are kept. That may be none, unless the
    first scores are all equal: their value would be that of the order in the file. `patience`: stop after this many
    rounds without a higher value. `callback`: called after every round; True stops.
    """
    began = time.perf_counter()
    path: list[BoostingRound] = []
    best, best_value, scores = n_rounds, -np.inf, boosting.valid_scores
    if valid is not None:
        assert scores is not None
        same = bool((scores == scores[..., :1]).all())
        best, best_value = 0, -np.inf if same else valid(scores)
    interrupted = False
    try:
        for number in range(1, n_rounds + 1):
            boosting.step()
            value = float("nan") if valid is None or scores is None else valid(scores)
            path.append(BoostingRound(number, value, time.perf_counter() - began))
            if value > best_value:
                best, best_value = number, value
            stop = callback(path[-1]) if callback is not None else False
            if stop is True or (valid is not None and patience is not None and number - best >= patience):
                break
    except KeyboardInterrupt:
        interrupted = True
    return Boosted(min(best, len(path)), tuple(path), interrupted)


# What boosted rankers share: rounds, which stop at the best value on validation data or held-out folds.


@dataclass(frozen=True, eq=False)
class Run:
    """A training that is ready to go from round to round.

    `boosting`: does the rounds. `keep`: makes the model of the rounds that are to be kept, and says what came of them.
    `pools`: what to close when training is over. `score`: what documents are ranked by, given the scores that are
    boosted.
    """

    boosting: Boosting
    keep: Callable[[Boosted], Outcome]
    pools: tuple[Any, ...]
    score: Callable[[Array], Array] = np.asarray

    def close(self) -> None:
        for pool in self.pools:
            pool.close()


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedRanker(CrossValidated):
    """Rounds of boosting; subclasses say what they fit in each (``_run``)."""

    _unit: ClassVar[str]  # of what is kept, and the parameter that says how many: n_trees, n_rounds

    patience: int | None = parameter(50, integer(1), NONE)
    eval_measure: str | Measure | None = common("eval_measure")
    n_jobs: int | None = common("n_jobs")
    callback: Callable[[BoostingRound], Any] | None = common("callback")

    def _run(self, task: Task) -> Run:
        raise NotImplementedError

    def _train(self, task: Task) -> Outcome:
        run = self._run(task)
        value = None
        if task.valid is not None:
            of_scores = validation_value(task.valid, self.measure_to_choose_by(), task.valid_winning)

            def value(scores: Array) -> float:
                return of_scores(run.score(scores))

        n_rounds = self._most() if task.choice is None else task.choice.setting
        try:
            boosted = boost(
                run.boosting, n_rounds=n_rounds, valid=value, patience=self.patience, callback=self.callback
            )
        finally:
            run.close()
        return run.keep(boosted)

    def _most(self) -> int:
        return int(getattr(self, f"n_{self._unit}"))

    def _choices(self, n_queries: int) -> Sequence[int]:
        first = 0 if getattr(self, "background", None) is not None else 1  # the background may be best alone
        return range(first, self._most() + 1)

    def _steps(self, task: Task) -> Steps:
        if task.useful.any():
            return _BoostedSteps(self, task)
        assert task.valid is not None
        self._learn_nothing(task)
        return Still(self.model_, task.valid)

    def _after_round(self, setting: int, value: float, seconds: float) -> Any:
        return None if self.callback is None else self.callback(BoostingRound(setting, value, seconds))

    def _outcome(self, boosted: Boosted, notices: Sequence[Notice] = ()) -> Outcome:
        kept, self.path_ = boosted.n_rounds, boosted.path
        if boosted.interrupted:
            run = len(self.path_)
            message = f"training was interrupted; the model has the best {kept} of {run} rounds"
            notices = (*notices, Notice(Kind.INTERRUPTED, message, {"kept": kept, "run": run}))
        return Outcome(
            notices=tuple(notices), rounds=Rounds(self._unit, kept, tuple(float(row.value) for row in self.path_))
        )


@dataclass(frozen=True, eq=False)
class LambdaSettings:
    """What lambda gradients are those of; ``factors`` are further arguments of `Lambdas`."""

    measure: Measure
    truncation: int | None
    factors: dict[str, Any]

    @classmethod
    def of(cls, measure: str | Measure, truncation: int | None, **factors: Any) -> LambdaSettings:
        return cls(parse_measure(measure).resolve("letor"), truncation, factors)

    def on(
        self, labels: Array, indptr: Array, weights: Array, winning: Array | None, threads: int, device: str = "cpu"
    ) -> Any:
        """The gradients, with weights of the queries.

        With ``winning``, the factors of documents, labels are clicks. With the device ``"cuda"``, scores and gradients
        are on the GPU.
        """
        from rankwright.boosting.lambdas import ClickLambdas, Lambdas

        def of(kind: type) -> Any:
            made = kind if winning is None else partial(ClickLambdas, kind, winning=winning)
            given = (labels, indptr, self.measure, self.truncation, threads)
            return made(*given, query_weights=weights, **self.factors)

        if device == "cpu":
            return of(Lambdas)
        from rankwright.gpu.lambdas import CpuLambdas, DeviceLambdas

        return CpuLambdas(of(Lambdas)) if self.measure.swaps() is None else of(DeviceLambdas)


class _BoostedSteps:
    """Rounds on the queries of all folds but one."""

    def __init__(self, ranker: BoostedRanker, task: Task) -> None:
        self._ranker, self._run = ranker, ranker._run(task)
        self._first = ranker._choices(1)[0]
        self._left = 1 if self._first == 0 else 0  # steps before the first round

    def step(self) -> Array:
        """One more round; the first step is none if the start may be best."""
        boosting = self._run.boosting
        if self._left:
            self._left -= 1
        else:
            boosting.step()
        assert boosting.valid_scores is not None
        return self._run.score(boosting.valid_scores)

    def model(self, number: int) -> Any:
        self._run.keep(Boosted(self._first + number, ()))
        return self._ranker.model_

    def close(self) -> None:
        self._run.close()
