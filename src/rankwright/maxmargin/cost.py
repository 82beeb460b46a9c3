"""Linear rankers with a cost C: training for one C, or for several, of which the best is chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.places import place_of
from rankwright.measures import Measure
from rankwright.models.linear import LinearModel
from rankwright.rankers.base import CrossValidated, Ranker, Task
from rankwright.rankers.cross_validation import CrossValidation, Steps, Still, validation_value
from rankwright.rankers.estimator import check_is_fitted
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import LINEAR, NONE, POSITIVE, POSITIVES, Option, common, one_of, parameter

DEFAULT_GRID = tuple(10.0**power for power in range(-4, 4))
DEFAULT = 1.0
_ROUNDING = 1e-12  # of a mean over queries, which depends on their order
_C = Option(
    LINEAR,
    "Weight of ranking errors against large weights; auto: the value of --C-grid that is best on --valid, or by "
    "cross-validation.",
    default="auto; with --cv 0 and no --valid 1",
    names=("--C",),
    metavar="NUMBER|auto",
    alone=True,
)
_C_GRID = Option(
    LINEAR,
    "Values of C that auto tries.",
    after="C",
    default="0.0001, 0.001, … 1000; with the ramp bound 1",
    names=("--C-grid",),
    metavar="0.01,0.1,1",
    alone=True,
)


def cost() -> Any:
    return parameter(DEFAULT, POSITIVE, one_of("auto"), option=_C)


@dataclass(frozen=True, eq=False)
class Trial:
    """Training for one C.

    `coef`: weights of the raw features. `figures`: what its row of ``C_path_`` says, besides C and the value on
    validation data.
    """

    coef: Array
    figures: Mapping[str, float]
    solution: Any
    interrupted: bool = False


class CostPath(Protocol):
    """A training set, to train for one C after the other."""

    def solve(self, C: float) -> Trial: ...

    def close(self) -> None: ...


class LinearRanker(Ranker):
    """A ranker whose scores are ``X @ coef_``."""

    C: float | str  # a parameter of the subclasses, each with its own place for it
    coef_: Array
    C_: float
    C_path_: list[dict[str, float]]

    @property
    def model_(self) -> LinearModel:
        """The fitted model, apart from its training."""
        check_is_fitted(self, "coef_")
        return self._model_of(self.coef_)

    def _model_of(self, coef: Array) -> LinearModel:
        return LinearModel(coef, self._names())

    def start_from(self, coef: Array | None) -> Self:
        """Start the next ``fit`` from weights, such as those of a saved model."""
        self._initial_coef = coef
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class CostRanker(LinearRanker, CrossValidated):
    """Choosing C; subclasses say which problem is solved for each, and what is kept of its solution."""

    _folds_together: ClassVar[bool] = False

    C_grid: Sequence[float] | None = parameter(None, POSITIVES, NONE, option=_C_GRID)
    eval_measure: str | Measure | None = common("eval_measure")

    def _choices(self, n_queries: int) -> list[float]:
        if self.C != "auto":
            return [float(self.C)]
        return sorted(map(float, self.default_grid() if self.C_grid is None else self.C_grid))

    def default_grid(self) -> Sequence[float]:
        """The values that ``C="auto"`` tries unless ``C_grid`` is given."""
        return DEFAULT_GRID

    def costs(self) -> tuple[float, ...]:
        """The C of every fit that a training consists of, in order."""
        return tuple(self._choices(1))

    def _train(self, task: Task) -> Outcome:
        grid = self._choices(self.n_queries_)
        if self.C == "auto" and task.valid is None:
            grid = [DEFAULT if task.choice is None else float(task.choice.setting)]
        measure, valid = self.measure_to_choose_by(), task.valid
        value_of = None if valid is None else validation_value(valid, measure, task.valid_winning)
        rows: list[dict[str, float]] = []
        best: tuple[float, float, Trial] | None = None
        interrupted = False
        path = self._path(task)
        try:
            for C in grid:
                trial = path.solve(C)
                row, value = {"C": C}, float("nan")
                if valid is not None and value_of is not None:
                    value = row[str(measure)] = value_of(self._scores_of(trial.coef, valid))
                rows.append(row | dict(trial.figures))
                if best is None or value > best[1] + _ROUNDING:
                    best = (C, value, trial)
                if trial.interrupted:
                    interrupted = True
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            interrupted = True
        finally:
            path.close()
        assert best is not None
        self.C_, _, trial = best
        self.coef_, self.C_path_ = trial.coef, rows
        outcome = self._keep(trial.solution, interrupted)
        tried = tuple(rows) if task.choice is None else _tried(task.choice, rows[0])
        return dataclasses.replace(outcome, C=self.C_, tried=tried, C_left=len(grid) - len(rows))

    def _scores_of(self, coef: Array, data: RankingData) -> Array:
        """Scores of weights on the way, computed where training is."""
        return place_of(data, getattr(self, "device", "cpu")).scores(self._model_of(coef))

    def _not_chosen(self) -> str:
        return f"C is {DEFAULT:g}" if self.C == "auto" else "there is no estimate"

    def _steps(self, task: Task) -> Steps:
        assert task.valid is not None
        if not task.useful.any():
            return Still(self._model_of(np.zeros(task.data.n_features)), task.valid)
        return _CostSteps(self, task, self._choices(int(task.useful.sum())))

    def _learn_nothing(self, task: Task) -> Outcome:
        self.coef_, self.C_path_ = np.zeros(task.data.n_features), []
        self.C_ = float("nan") if self.C == "auto" else float(self.C)
        return dataclasses.replace(self._keep(None, False), C=self.C_)

    def _path(self, task: Task) -> CostPath:
        raise NotImplementedError

    def _keep(self, solution: Any, interrupted: bool) -> Outcome:
        """Set the fitted attributes that tell of the solution; None where there was nothing to learn."""
        raise NotImplementedError


class _CostSteps:
    def __init__(self, ranker: CostRanker, task: Task, grid: Sequence[float]) -> None:
        self._ranker, self._valid, self._left = ranker, task.valid, list(grid)
        self._coefs: list[Array] = []
        self.figures: list[Mapping[str, float]] = []
        self._path: CostPath | None = ranker._path(task)

    def step(self) -> Array:
        assert self._path is not None
        assert self._valid is not None
        trial = self._path.solve(self._left.pop(0))
        if trial.interrupted:
            raise KeyboardInterrupt
        self._coefs.append(trial.coef)
        self.figures.append(trial.figures)
        return self._ranker._scores_of(self._coefs[-1], self._valid)

    def model(self, number: int) -> LinearModel:
        return self._ranker._model_of(self._coefs[number])

    def close(self) -> None:
        if self._path is not None:
            self._path.close()
        self._path = self._valid = None


def _tried(choice: CrossValidation, figures: Mapping[str, float]) -> tuple[dict[str, float], ...]:
    """One row for each C tried: figures are those of the training on all data, or else on average over folds."""
    name = str(choice.measure)
    crossed: Sequence[Mapping[str, float]] = choice.figures or [{}] * len(choice.settings)
    rows = zip(choice.settings, choice.means, crossed, strict=True)
    return tuple({"C": C, name: mean} | dict(figures if choice.setting == C else row) for C, mean, row in rows)
