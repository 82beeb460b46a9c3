"""What comes of an adaptation: the ways that were tried, how good they are on validation data, and the one chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.evaluation.evaluate import Evaluation
from rankwright.evaluation.significance import bootstrap_interval, p_value
from rankwright.measures import Measure
from rankwright.models.saving import save_model
from rankwright.rankers.cross_validation import Folds
from rankwright.rankers.facts import Fitted, Notice

__all__ = ["Adapted"]

_ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way that was tried.

    `name`: one of ``METHODS``. `model`: what came of it; contains the background if it needs it. `evaluation`: on the
    validation data; without it, of the training queries while they were held out. `seconds`: training time. `training`:
    the facts of its training; None for the background. `details`: figures of this way alone: weights of an
    interpolation, documents taken, the settings chosen. `tried`: the settings that were chosen from, with the value of
    the measure on the validation data; empty if there was nothing to choose. `scores`: without validation data:
    out-of-fold scores of the training data, in its own order, that were evaluated.
    """

    name: str
    model: Any
    evaluation: Evaluation
    seconds: float
    training: Fitted | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[tuple[dict[str, Any], float], ...] = ()
    scores: Array | None = None

    @property
    def value(self) -> float:
        """The mean of the first measure on validation data, or on held-out queries."""
        return float(np.nanmean(self.evaluation.values[:, 0]))

    @property
    def facts(self) -> dict[str, Any]:
        """Choices and figures of training, as plain values."""
        facts: dict[str, Any] = {}
        if self.training is not None and self.training.C is not None:
            facts = {"C": float(self.training.C), "queries": self.training.n_queries}
        if self.training is not None and self.training.rounds is not None:
            facts[self.training.rounds.unit] = self.training.rounds.kept
        return facts | dict(self.details)


@dataclass(frozen=True, eq=False)
class Adapted:
    """The outcome of an adaptation.

    Attributes
    ----------
    chosen : Candidate
        The one to use.
    candidates : tuple of Candidate
        All that could be trained, the simplest first.
    failures : dict of str
        Why the others could not be.
    reason : str
        Why this one was chosen.
    notices : tuple of Notice
        What the user should know.
    folds : Folds or None
        The folds of the training data, where there was no validation data.
    """

    chosen: Candidate
    candidates: tuple[Candidate, ...]
    failures: dict[str, str]
    reason: str
    notices: tuple[Notice, ...] = ()
    folds: Folds | None = None

    @property
    def model(self) -> Any:
        """The model of the chosen candidate."""
        return self.chosen.model

    def predict(self, data: RankingData) -> Array:
        """Scores of the chosen model, in the caller's order."""
        scores: Array = self.model.predict(data)
        return scores

    def save(self, path: str | Path) -> None:
        """Write the chosen model to one file; it needs no other file."""
        measure = str(self.chosen.evaluation.measures[0])
        values = {f"{'validation' if self.folds is None else 'cross-validated'} {measure}": self.chosen.value}
        facts = {"chosen": self.reason, **self.chosen.facts}
        save_model(
            self.model,
            path,
            method=f"adapted-{self.chosen.name.partition(' ')[0]}",
            parameters={"measure": measure},
            training=facts,
            measures=values,
        )

    def differences(self, name: str, to: str = "background") -> tuple[float, tuple[float, float], float]:
        """Mean difference of two candidates on validation data, its 95 % interval, and p of the paired t-test."""
        values = {candidate.name: candidate.evaluation.values[:, 0] for candidate in self.candidates}
        apart = values[name] - values[to]
        return float(apart.mean()), bootstrap_interval(apart), p_value("t", apart)


def choose(
    candidates: Sequence[Candidate], measure: Measure, n_queries: int, kind: str = "validation"
) -> tuple[Candidate, str]:
    """The simplest that is not significantly worse than the best, and why."""
    best = max(candidates, key=lambda candidate: candidate.value)
    for candidate in candidates:
        apart = best.evaluation.values[:, 0] - candidate.evaluation.values[:, 0]
        p = p_value("t", apart)
        if candidate is best or p >= _ALPHA:
            break
    queries = f"{n_queries} {kind} {'query' if n_queries == 1 else 'queries'}"
    if candidate is best:
        reason = f"{best.name} is best by {measure} on {queries} ({best.value:.4f})"
        reason += ", and every simpler method is significantly worse" if candidate is not candidates[0] else ""
    else:
        reason = (
            f"{candidate.name} is the simplest that is not significantly worse by {measure} on {queries} than "
            f"{best.name}, the best ({candidate.value:.4f} against {best.value:.4f}, p = {p:.2g} by the paired t-test)"
        )
    return candidate, reason
