"""McRank: boosted trees estimate the probability of every grade, and documents are ranked by their expected grade."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.measures import Measure
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import GradeModel, TreeModel, expected_grade
from rankwright.rankers.tree_ranker import TreeRanker, dense_features, names_of
from rankwright.solvers.boosting import Boosted, Round, boost

__all__ = ["McRank"]

Array = npt.NDArray[Any]
_LINKS = ("softmax", "ordinal")


class McRank(TreeRanker):
    """McRank: the score of a document is Σ grade · Pr(grade), the probabilities from boosted trees.

    Parameters
    ----------
    n_trees : int
        Rounds of boosting, at most; each grows one tree for every grade.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Leaves of a tree.
    link : {"softmax", "ordinal"}
        Grades as classes, or as thresholds that a document reaches, one tree less a round.
    max_bins, min_rows, tree_rows, tree_features, randomize_nodes, patience
        As for :class:`LambdaMART`.
    eval_measure, random_state, n_jobs, callback
        As for :class:`LambdaMART`.

    Attributes
    ----------
    n_trees_ : int
        Rounds kept.
    grades_ : ndarray
        The grades, rising.
    path_, feature_importances_, n_queries_, n_queries_skipped_
        As for :class:`LambdaMART`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> scores = McRank(n_trees=40, min_rows=5).fit(X, y, np.zeros(80)).predict(X)
    >>> bool(2.5 < scores[-1] <= 3.0)
    True
    """

    def __init__(
        self,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int = 20,
        *,
        link: str = "softmax",
        max_bins: int = 255,
        min_rows: int = 20,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        randomize_nodes: bool | float = False,
        patience: int | None = 50,
        eval_measure: str | Measure | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        callback: Callable[[Round], Any] | None = None,
    ) -> None:
        super().__init__(
            n_trees,
            learning_rate,
            max_leaves,
            max_bins=max_bins,
            min_rows=min_rows,
            tree_rows=tree_rows,
            tree_features=tree_features,
            randomize_nodes=randomize_nodes,
            patience=patience,
            eval_measure=eval_measure,
            random_state=random_state,
            n_jobs=n_jobs,
            callback=callback,
        )
        self.link = link

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.link not in _LINKS:
            raise InputError(f"link is {self.link!r}; expected {' or '.join(_LINKS)}")

    def _grow_all(self, data: RankingData, weights: Array, valid: RankingData | None, *, nothing: bool) -> None:
        from rankwright.objectives.classes import Grades
        from rankwright.solvers.tree_learner import TreeLearner, TreesPerClass

        objective = Grades(data.labels, np.repeat(weights, data.sizes), self.link)
        self.grades_, starts = objective.grades, objective.starts
        boosted, forests = Boosted(0, ()), [Forest.of([])] * len(starts)
        if not nothing:
            X = dense_features(data)
            X_valid = None if valid is None else dense_features(valid)
            grower = self._grower(X)
            learner = TreesPerClass(
                [TreeLearner(grower, X, X_valid=X_valid, **self._learner_settings(at)) for at in range(len(starts))]
            )
            value = self._value_on(valid)
            try:
                boosted = boost(
                    objective,
                    learner,
                    np.tile(starts[:, None], data.n_docs),
                    n_rounds=self.n_trees,
                    valid=None if value is None else lambda F: value(expected_grade(F, self.grades_, self.link)),
                    valid_scores=None if valid is None else np.tile(starts[:, None], valid.n_docs),
                    patience=self.patience,
                    callback=self.callback,
                )
            finally:
                grower.close()
            forests = [Forest.of(one.trees[: boosted.n_rounds]) for one in learner.learners]
        self._keep(boosted)
        names = names_of(self)
        self._trees = TreeModel(data.n_features, names, Forest.join(forests) if forests else Forest.of([]))
        self._model = GradeModel(data.n_features, names, self.grades_, tuple(forests), starts, self.link)

    def _learnt(self) -> TreeModel:
        _ = self.model_  # complains where nothing was fitted
        return self._trees

    def _method(self) -> str:
        return "mcrank" if self.link == "softmax" else "mcrank-ordinal"
