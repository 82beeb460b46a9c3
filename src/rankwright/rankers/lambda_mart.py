"""LambdaMART: boosted regression trees on lambda gradients, from nothing or from a background model (LambdaSMART)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from rankwright.data.dataset import RankingData
from rankwright.measures import Measure
from rankwright.models.sum import add_models
from rankwright.models.trees.forest import Forest
from rankwright.rankers.background import BACKGROUND, FromBackground, background_model, compare_features, start_scores
from rankwright.rankers.base import Task
from rankwright.rankers.boosted import lambda_gradients
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import MEASURE, NONE, parameter, whole
from rankwright.rankers.tree_ranker import TreeRanker, dense_features
from rankwright.solvers.boosting import Boosted, boost

__all__ = ["LambdaMART"]


@dataclass(eq=False, repr=False)
class LambdaMART(TreeRanker, FromBackground):
    """LambdaMART: every round a regression tree is grown on the lambda gradients of a measure.

    Trees are grown best-first by squared error on up to 255 bins of every feature; leaves are set by one Newton step.
    With a ``background`` boosting starts from its scores (LambdaSMART), and the model contains it.

    Parameters
    ----------
    n_trees : int
        Rounds of boosting, at most.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Leaves of a tree.
    measure : str or Measure
        What to rise: ``"ndcg"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Leave out pairs of documents that are both below this rank.
    max_bins : int
        Bins of a feature, up to 255.
    min_rows : int
        Fewest documents of a leaf.
    tree_rows, tree_features : float
        Share of the documents and features that each tree sees.
    randomize_nodes : bool or float
        Let a random share (True: 0.7) of a node's documents and of the features decide each split.
    patience : int, optional
        Rounds without a better value on ``eval_set`` after which training stops.
    background : fitted ranker or model, optional
        Where to start from.
    eval_measure : str or Measure, optional
        What the number of trees is chosen by; nDCG@10 unless given.
    random_state : int
        Seed of all that is drawn.
    n_jobs : int, optional
        Threads; 1 unless given, -1 for all cores. The model does not depend on it.
    callback : callable, optional
        Called with a :class:`~rankwright.solvers.boosting.Round` after every tree; True stops training.

    Attributes
    ----------
    n_trees_ : int
        Trees kept.
    path_ : tuple of Round
        The value on validation data after every round, and seconds.
    feature_importances_ : ndarray
        By how much the splits of each feature lower the squared error, all in all 1.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and those without an order to learn.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(80.0).reshape(-1, 1), np.arange(80) // 20
    >>> ranker = LambdaMART(n_trees=20, min_rows=5).fit(X, y, np.zeros(80))
    >>> ranker.predict(X).argmax() >= 60
    np.True_
    """

    _: KW_ONLY
    measure: str | Measure = parameter("ndcg", MEASURE)
    truncation: int | None = parameter(100, whole(1), NONE)
    background: Any = parameter(None, BACKGROUND, NONE)

    def _method(self) -> str:
        return "lambdamart"

    def _train(self, task: Task) -> Outcome:
        data, valid, background = task.data, task.valid, background_model(self.background)
        scores = start_scores(background, data)
        valid_scores = None if valid is None else start_scores(background, valid)
        dense = replace(data, X=dense_features(data))
        lambdas = lambda_gradients(dense, self.measure, self.truncation, self.n_jobs, task.weights.queries)
        grower, (learner,) = self._grow(dense.X, valid, 1)
        try:
            boosted = boost(lambdas, learner, scores, valid_scores=valid_scores, **self._rounds(task))
        finally:
            grower.close()
            lambdas.close()
        return self._keep(learner.trees[: boosted.n_rounds], boosted, data)

    def _learn_nothing(self, task: Task) -> Outcome:
        start_scores(background_model(self.background), task.data)  # complains where it does not fit
        return self._keep([], Boosted(0, ()), task.data)

    def _keep(self, trees: list[Any], boosted: Boosted, data: RankingData) -> Outcome:
        background = background_model(self.background)
        grown = self._grown(Forest.of(trees))
        self._model = grown if background is None else add_models(background, grown)
        return self._outcome(boosted, compare_features(background, data))
