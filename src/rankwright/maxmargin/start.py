"""Where the ramp bound starts: the weights of SVMmap, moved by lambda gradients as far as held-out queries support it.

The ramp bound is not convex, and its rounds stay near their start: from the weights of SVMmap comes SVMmap. Lambda
gradients of a measure are smooth, and leave them. The start is the mean of the weights after every epoch, which is less
a matter of chance than the last ones. Too many epochs overfit where queries are few, so their number is chosen, and 0
is one of the choices (`benchmarks/study_ramp.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from rankwright._types import Array
from rankwright.data.overlap import query_hashes
from rankwright.data.places import place_of
from rankwright.measures import Measure
from rankwright.models.linear import LinearModel
from rankwright.nets.lambda_rank import LambdaRank
from rankwright.rankers.base import Ranker, Task
from rankwright.rankers.cross_validation import best_beyond_first, query_values
from rankwright.rankers.facts import Kind, Notice, Outcome

EPOCHS = (0, 2, 4, 8, 16, 32)
"""What is chosen from."""
_NOT_CHOSEN = 8  # epochs where there is nothing to choose by
_MOST_DOCS = 200_000  # documents whose gradients are taken
_MANY_QUERIES = 60  # from so many on, training queries tell of others, too, and count


class RampStart(LambdaRank):
    """Linear LambdaRank that starts from the weights of another ranker; after 0 epochs they are its weights.

    `convex`: that ranker, which is trained first. `measures`: the number of epochs is chosen by their mean.
    `coef_`, `epochs_`: the weights, and the number of epochs over which they are averaged.
    """

    convex: Any
    measures: Sequence[Measure]
    epochs_: int

    def after(self, convex: Any, measures: Sequence[Measure]) -> Self:
        """Start from the weights of a ranker."""
        self.convex, self.measures = convex, measures
        return self

    def start_from(self, coef: Array) -> Self:
        """Start from weights."""
        self._initial_coef = coef
        return self

    def _train(self, task: Task) -> Outcome:
        choice, convex = task.choice, self.convex
        if choice is not None and choice.start is not None:
            convex.C = choice.start.setting
        weights = task.weights.queries if np.ptp(task.weights.queries) else None
        outcome = convex.fit_data(task.data, task.valid, weights=weights)
        self._initial_coef = convex.coef_
        self._move(0, convex.model_)
        if outcome.interrupted:
            return Outcome(notices=outcome.notices)
        steps = _StartSteps(self, task)
        try:
            number = EPOCHS.index(_NOT_CHOSEN if choice is None else choice.setting)
            if choice is None and task.valid is not None:
                number = best_beyond_first(self._values(task, steps))
            self._move(EPOCHS[number], steps.model(number))
        except KeyboardInterrupt:
            return Outcome(notices=(Notice(Kind.INTERRUPTED, "training was interrupted before its first round"),))
        finally:
            steps.close()
        return Outcome()

    def _move(self, epochs: int, model: LinearModel) -> None:
        self.epochs_, self._model, self.coef_ = epochs, model, model.coef

    def _values(self, task: Task, steps: _StartSteps) -> Array:
        """The measure for each number of epochs (rows) and each query to choose by (columns)."""
        many, blocks = task.useful.sum() >= _MANY_QUERIES, []
        for data in (task.valid, task.data) if many else (task.valid,):
            assert data is not None
            values_of, place = [query_values(data, measure) for measure in self.measures], place_of(data)
            scores = [place.scores(steps.model(number)) for number in range(len(EPOCHS))]
            blocks.append([np.mean([values(row) for values in values_of], axis=0) for row in scores])
        return np.hstack([np.array(block) for block in blocks])

    def _choices(self, n_queries: int) -> Sequence[int]:
        return EPOCHS

    def _steps(self, task: Task) -> Any:
        return _StartSteps(self, task) if task.useful.any() else super()._steps(task)

    def _best(self, values: Array, weights: Array) -> int:
        return best_beyond_first(values, weights)

    def _start_to_cross(self, data: Any) -> Ranker | None:
        return self.convex


class _StartSteps:
    """From one number of epochs to the next."""

    def __init__(self, start: RampStart, task: Task) -> None:
        self._valid, self._names, self._done = task.valid, start._names(), 0
        coef = vars(start).get("_initial_coef")
        self._models = [LinearModel(np.zeros(task.data.n_features) if coef is None else coef, self._names)]
        self._trainer = start._trainer(_some(task))
        self._trainer.start_at(self._models[0].coef)
        self._sum = np.zeros_like(self._models[0].coef)
        self._shown = 0

    def step(self) -> Array:
        """The scores of the next setting."""
        assert self._valid is not None
        self._shown += 1
        return place_of(self._valid).scores(self.model(self._shown - 1))

    def model(self, number: int) -> LinearModel:
        while len(self._models) <= number:
            for _ in range(EPOCHS[len(self._models) - 1], EPOCHS[len(self._models)]):
                self._done += 1
                self._trainer.epoch(self._done)
                self._sum += self._trainer.raw_weights(self._trainer.theta)[0][:, 0]
            self._models.append(LinearModel(self._sum / self._done, self._names))
        return self._models[number]

    def close(self) -> None:
        self._trainer.close()
        self._valid = None


def _some(task: Task) -> Task:
    """The same task with at most so many documents, in this process: gradients are not taken in partitions.

    The queries that stay are given by content, so that it does not matter where they are.
    """
    data, weights, useful = task.data, task.weights, task.useful
    if data.n_docs > _MOST_DOCS:
        order = np.argsort(query_hashes(data), kind="stable")
        kept = np.zeros(data.n_queries, bool)
        kept[order[np.cumsum(data.sizes[order]) <= _MOST_DOCS]] = True
        kept[order[0]] = True
        data, weights = weights.of(kept, data)
        useful = useful[kept]
    return replace(task, data=place_of(data).together(), weights=weights, useful=useful)
