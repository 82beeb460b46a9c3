"""McRank: boosted trees estimate the probability of every grade, and documents are ranked by their expected grade."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import GradeModel, expected_grade
from rankwright.rankers.base import Task
from rankwright.rankers.boosted import Run
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import one_of, parameter, whole
from rankwright.rankers.tree_ranker import TreeRanker
from rankwright.solvers.boosting import Boosted, Boosting

__all__ = ["McRank"]

Array = npt.NDArray[Any]


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

    n_trees: int = parameter(100, whole(1))
    _: KW_ONLY
    link: str = parameter("softmax", one_of("softmax", "ordinal"))
    gain: str = parameter("squared", one_of("newton", "squared"))

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "mcrank" if self.link == "softmax" else "mcrank-ordinal"

    def _check_together(self) -> None:
        if self.monotone and self.link != "ordinal":
            what = "monotone does not go with the link 'softmax', whose grades compete"
            raise InputError(f"{what}; expected link='ordinal' (mcrank-ordinal)")

    def _run(self, task: Task) -> Run:
        from rankwright.solvers.tree_learner import TreesPerClass

        rows, valid = self._training_rows(task), task.valid
        ordered = rows.ordered
        objective = self._objective(ordered.labels, np.repeat(ordered.weights, np.diff(ordered.indptr)))
        learners = rows.grow(len(objective.starts))
        boosted_for, scores = rows.classes(objective)
        valid_scores = None if valid is None else np.tile(objective.starts[:, None], valid.n_docs)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(objective, [Forest.of(one.trees[: boosted.n_rounds]) for one in learners], boosted)

        def score(F: Array) -> Array:
            return expected_grade(F, objective.grades, self.link)

        return Run(Boosting(boosted_for, TreesPerClass(learners), scores, valid_scores), keep, (rows,), score)

    def _learn_nothing(self, task: Task) -> Outcome:
        objective = self._objective(task.data.labels, np.repeat(task.weights.queries, task.data.sizes))
        return self._keep(objective, [Forest.of([])] * len(objective.starts), Boosted(0, ()))

    def _objective(self, labels: Array, weights: Array) -> Any:
        from rankwright.objectives.classes import Grades

        return Grades(labels, weights, self.link)

    def _keep(self, objective: Any, forests: list[Forest], boosted: Boosted) -> Outcome:
        self.grades_ = objective.grades
        grown = self._grown(Forest.join(forests) if forests else Forest.of([]))
        kept = (self.grades_, tuple(forests), objective.starts, self.link)
        self._model = GradeModel(grown.n_features, grown.feature_names, *kept, categories=grown.categories)
        return self._outcome(boosted)
