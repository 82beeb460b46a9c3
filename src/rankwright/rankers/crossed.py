"""Rankers that choose open settings by cross-validation, unless they are given validation data."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.rankers.base import Ranker, Task
from rankwright.rankers.cross_validation import CrossValidation, Steps, crossed
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.folds import Folds
from rankwright.rankers.parameters import NONE, one_of, parameter, seed_of, whole
from rankwright.rankers.positions import pages_together
from rankwright.rankers.weights import Weights


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(Ranker):
    """The choice; subclasses say what there is to choose from (``_choices``), and how to train for it (``_steps``)."""

    _folds_together: ClassVar[bool] = True  # whether folds go from round to round together, or one after the other

    cv: int | str | None = parameter(None, whole(2), one_of("auto"), NONE, set_by="--cv")

    def _folds_to_choose_by(self, valid: RankingData | None) -> int | str | None:
        """Number of cross-validation folds, or ``"auto"``; None without cross-validation."""
        folds: int | str | None = getattr(self, "cv", None)
        if valid is None:
            return "auto" if folds is None and getattr(self, "C", None) == "auto" else folds
        if folds is not None:
            raise InputError("cv chooses by cross-validation, eval_set by validation data; expected one of the two")
        return None

    def _choose(
        self, data: RankingData, weights: Weights, valid: RankingData | None
    ) -> tuple[CrossValidation | None, tuple[Notice, ...]]:
        n_folds = self._folds_to_choose_by(valid)
        if n_folds is None:
            return None, ()
        seed = seed_of(getattr(self, "random_state", 0))
        if weights.winning is None:
            useful, together = self._useful(data) & data.has_order, None
        else:
            useful, together = weights.counted(data) > 0, pages_together(data, weights.pair)
        folds = Folds.draw(data, n_folds, useful=useful, together=together, seed=seed)
        if folds is None:
            problem = "one query has an order to learn, and none can be held out for cross-validation"
            return None, (Notice(Kind.NOT_CHOSEN, f"{problem}: {self._not_chosen()}"),)
        result = crossed(self, data, weights, folds, self.measure_to_choose_by())
        tell = getattr(getattr(self, "callback", None), "fold", None)
        if tell is not None:  # what follows is the training on all data
            tell(0, 0, (*(() if result.start is None else (result.start.setting,)), result.setting))
        if not result.interrupted:
            return result, ()
        problem = f"cross-validation was interrupted; the choice is by {result.folds.words} and {len(result.settings)}"
        return result, (Notice(Kind.INTERRUPTED, f"{problem} settings", {"folds": result.folds.n_held_out}),)

    def _not_chosen(self) -> str:
        """The setting to train for where nothing can be chosen."""
        return "all rounds are kept"

    def _choices(self, n_queries: int) -> Sequence[Any]:
        """The settings to choose from by cross-validation, ascending."""
        raise NotImplementedError

    def _steps(self, task: Task) -> Steps:
        """Training that goes from setting to setting; the validation data is what is held out."""
        raise NotImplementedError

    def _after_round(self, setting: Any, value: float, seconds: float) -> Any:
        """Report a round that all folds have finished; True stops."""

    def _start_to_cross(self, data: RankingData) -> Ranker | None:
        """A ranker to cross-validate first: its models are where the folds start from."""
        return None

    def _for_fold(self, seed: int) -> Self:
        """A copy for the training of one fold."""
        ranker = copy.copy(self)
        for name, value in (("random_state", seed), ("warm_start", False), ("cv", None)):
            if hasattr(ranker, name):
                setattr(ranker, name, value)
        ranker.__dict__.pop("_initial_coef", None)  # a model to start from may have seen what is held out
        return ranker
