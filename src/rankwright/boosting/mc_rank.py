"""McRank: boosted trees estimate the probability of every grade, and documents are ranked by their expected grade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Forest
from rankwright.boosting.rounds import Boosted, Boosting, Run
from rankwright.boosting.tree_model import GradeModel, expected_grade
from rankwright.boosting.tree_ranker import TreeRanker
from rankwright.errors import InputError
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import integer, one_of, parameter

__all__ = ["McRank"]


@dataclass(eq=False, repr=False)
class McRank(TreeRanker):
    """McRank: the score of a document is its expected grade, Σ grade · Pr(grade), from boosted trees.

    Parameters
    ----------
    n_trees : int
        Most rounds of boosting; each grows one tree per grade.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Most leaves of a tree.
    link : {"softmax", "ordinal"}
        Grades as classes, or as thresholds that a document reaches (one tree fewer per round).
    gain : {"squared", "newton"}
        Choose splits by squared error, as in the paper, or by Newton gains.
    max_bins, min_rows, tree_rows, tree_features, randomize_nodes, categorical, patience, cv
        As for :class:`LambdaMART`.
    monotone : mapping of str or int to 1 or -1, optional
        As for :class:`LambdaMART`; with the link ``"ordinal"`` only.
    eval_measure, random_state, n_jobs, device, callback
        As for :class:`LambdaMART`.

    Attributes
    ----------
    n_trees_ : int
        Rounds kept.
    grades_ : ndarray
        The grades, ascending.
    path_, feature_importances_, cv_, n_queries_, n_queries_skipped_, training_
        As for :class:`LambdaMART`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> scores = McRank(n_trees=40, min_rows=5).fit(X, y, np.zeros(80)).predict(X)
    >>> bool(2.5 < scores[-1] <= 3.0)
    True
    """

    n_trees: int = parameter(100, integer(1))
    _: KW_ONLY
    link: str = parameter("softmax", one_of("softmax", "ordinal"))
    gain: str = parameter("squared", one_of("newton", "squared"))

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "mcrank" if self.link == "softmax" else "mcrank-ordinal"

    def _check_together(self) -> None:
        if self.monotone and self.link != "ordinal":
            problem = "monotone does not go with the link 'softmax', whose grades compete"
            raise InputError(f"{problem}; expected link='ordinal' (mcrank-ordinal)")

    def _run(self, task: Task) -> Run:
        from rankwright.boosting.learner import TreesPerClass

        rows, valid = self._training_rows(task), task.valid
        ordered = rows.ordered
        objective = self._objective(ordered.labels, np.repeat(ordered.weights, np.diff(ordered.indptr)))
        learners = rows.grow(len(objective.starts))
        boosted_for, scores = rows.classes(objective)
        valid_scores = None if valid is None else np.tile(objective.starts[:, None], valid.n_docs)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(
                objective, [Forest.of(learner.trees[: boosted.n_rounds]) for learner in learners], boosted
            )

        def score(F: Array) -> Array:
            return expected_grade(F, objective.grades, self.link)

        return Run(Boosting(boosted_for, TreesPerClass(learners), scores, valid_scores), keep, (rows,), score)

    def _learn_nothing(self, task: Task) -> Outcome:
        objective = self._objective(task.data.labels, np.repeat(task.weights.queries, task.data.sizes))
        return self._keep(objective, [Forest.of([])] * len(objective.starts), Boosted(0, ()))

    def _objective(self, labels: Array, weights: Array) -> Any:

        return Grades(labels, weights, self.link)

    def _keep(self, objective: Any, forests: list[Forest], boosted: Boosted) -> Outcome:
        self.grades_ = objective.grades
        grown = self._grown(Forest.join(forests) if forests else Forest.of([]))
        kept = (self.grades_, tuple(forests), objective.starts, self.link)
        self._model = GradeModel(grown.n_features, grown.feature_names, *kept, categories=grown.categories)
        return self._outcome(boosted)


# Class probabilities for McRank: gradients of grades, as classes or as thresholds.
#
#     softmax   Pr(c) = e^F_c / Σ e^F      gradient of class c: [z = c] − Pr(c)
#     ordinal   Pr(z ≥ c) = 1/(1 + e^−F_c)   gradient of threshold c: [z ≥ c] − Pr(z ≥ c)
#
# Scores F have one row for each class, or each threshold above the lowest grade.


_LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Arrays that are computed when they are asked for.

    `row`: the array of a number from 0. `n`: how many there are.
    """

    row: Callable[[int], Array]
    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> Array:
        if not 0 <= number < self.n:
            raise IndexError(number)
        return self.row(number)


class Grades:
    """Gradients and second derivatives of the log-likelihood of the grades.

    `labels`: labels. `weights`: weight of each document. `link` ({"softmax", "ordinal"}): see above. `grades`: the
    different labels, ascending. `codes`: the place of each document's label among them. `factor`: for second
    derivatives: of classes, whose scores sum to a constant.
    """

    def __init__(self, labels: Array, weights: Array, link: str) -> None:
        self.grades, codes = np.unique(labels, return_inverse=True)
        self.link, self.weights = link, weights
        self.codes = codes.astype(np.min_scalar_type(len(self.grades)))
        self.factor = 1.0 if link == "ordinal" else len(self.grades) / max(len(self.grades) - 1, 1)

    def target(self, row: int) -> Array:
        """Which documents are of a class, or reach a threshold."""
        return np.asarray(self.codes >= row + 1 if self.link == "ordinal" else self.codes == row)

    @property
    def starts(self) -> Array:
        """Scores that give every class its share in the data."""
        n_rows = len(self.grades) - (self.link == "ordinal")
        sums = np.array([np.where(self.target(row), self.weights, 0.0).sum() for row in range(n_rows)])
        shares = np.clip(sums / self.weights.sum(), _LEAST_SHARE, 1.0)
        if self.link == "softmax":
            return np.log(shares)
        shares = np.minimum(shares, 1.0 - _LEAST_SHARE)
        return np.asarray(np.log(shares / (1.0 - shares)))

    def evaluate(self, scores: Array) -> tuple[LazyRows, LazyRows]:
        """Gradients and second derivatives, one row for each row of ``scores``, computed when it is asked for.

        A row of ``scores`` must not change before both have been asked for.
        """
        if self.link == "ordinal":

            def chances(row: int) -> Array:
                return np.asarray(1.0 / (1.0 + np.exp(-np.clip(scores[row], -500.0, 500.0))))

        else:
            highest, total = scores.max(axis=0), np.zeros(scores.shape[1])
            for row in scores:
                total += np.exp(row - highest)

            def chances(row: int) -> Array:
                return np.asarray(np.exp(scores[row] - highest) / total)

        def weight(row: int) -> Array:
            chance = chances(row)
            return np.asarray(self.factor * chance * (1.0 - chance) * self.weights)

        n_rows = len(scores)
        return LazyRows(lambda row: (self.target(row) - chances(row)) * self.weights, n_rows), LazyRows(weight, n_rows)
