"""What boosted rankers share: rounds, which stop at the best value on validation data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from rankwright.data.threads import threads_of
from rankwright.measures import Measure, parse_measure
from rankwright.rankers.base import Ranker, Task
from rankwright.rankers.facts import Kind, Notice, Outcome, Rounds
from rankwright.rankers.parameters import FUNCTION, MEASURE, NONE, THREADS, parameter, whole
from rankwright.rankers.validation import validation_value
from rankwright.solvers.boosting import Boosted, Round

__all__ = ["lambda_gradients"]

Array = npt.NDArray[Any]


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedRanker(Ranker):
    """Rounds of boosting; subclasses say what they fit in each."""

    _unit: ClassVar[str]  # of what is kept, and the parameter that says how many: n_trees, n_rounds

    patience: int | None = parameter(50, whole(1), NONE)
    eval_measure: str | Measure | None = parameter(None, MEASURE, NONE)
    n_jobs: int | None = parameter(None, THREADS, NONE)
    callback: Callable[[Round], Any] | None = parameter(None, FUNCTION, NONE)

    def _rounds(self, task: Task) -> dict[str, Any]:
        """The settings of :func:`~rankwright.solvers.boosting.boost` that do not depend on what is fitted."""
        return {
            "n_rounds": getattr(self, f"n_{self._unit}"),
            "valid": None if task.valid is None else validation_value(task.valid, self.measure_to_choose_by()),
            "patience": self.patience,
            "callback": self.callback,
        }

    def _outcome(self, boosted: Boosted, notices: Sequence[Notice] = ()) -> Outcome:
        """Set the fitted attributes that tell of the rounds."""
        kept, self.path_ = boosted.n_rounds, boosted.path
        setattr(self, f"n_{self._unit}_", kept)
        if boosted.interrupted:
            run = len(self.path_)
            what = f"training was interrupted; the model has the best {kept} of {run} rounds"
            notices = (*notices, Notice(Kind.INTERRUPTED, what, {"kept": kept, "run": run}))
        return Outcome(
            notices=tuple(notices), rounds=Rounds(self._unit, kept, tuple(float(row.value) for row in self.path_))
        )


def lambda_gradients(
    data: Any, measure: str | Measure, truncation: int | None, n_jobs: int | None, weights: Array
) -> Any:
    """The lambda gradients of a measure; of ``data`` only ``labels`` and ``indptr`` are used."""
    from rankwright.objectives.lambdas import Lambdas

    resolved, threads = parse_measure(measure).resolve("letor"), threads_of(n_jobs)
    return Lambdas(data.labels, data.indptr, resolved, truncation, threads, query_weights=weights)
