"""LambdaMART: boosted regression trees on lambda gradients, from nothing or from a background model (LambdaSMART)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.measures import Measure, parse_measure
from rankwright.models.sum import add_models
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import TreeModel
from rankwright.rankers.background import FromBackground, background_model, background_scores, compare_features
from rankwright.rankers.problem import threads_of
from rankwright.rankers.tree_ranker import TreeRanker, check_count, dense_features, names_of
from rankwright.solvers.boosting import Boosted, Round, boost

__all__ = ["LambdaMART"]

Array = npt.NDArray[Any]


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

    def __init__(
        self,
        n_trees: int = 300,
        learning_rate: float = 0.1,
        max_leaves: int = 20,
        *,
        measure: str | Measure = "ndcg",
        truncation: int | None = 100,
        max_bins: int = 255,
        min_rows: int = 20,
        tree_rows: float = 1.0,
        tree_features: float = 1.0,
        randomize_nodes: bool | float = False,
        patience: int | None = 50,
        background: Any = None,
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
        self.measure = measure
        self.truncation = truncation
        self.background = background

    def _check_parameters(self) -> None:
        super()._check_parameters()
        parse_measure(self.measure)
        if self.truncation is not None:
            check_count("truncation", self.truncation, 1, or_none=True)

    def _grow_all(self, data: RankingData, weights: Array, valid: RankingData | None, *, nothing: bool) -> None:
        from rankwright.objectives.content_order import content_order
        from rankwright.objectives.lambdas import Lambdas
        from rankwright.solvers.tree_learner import TreeLearner

        background = background_model(self.background)
        if background is not None:
            compare_features(background, data, stacklevel=3)
        scores = np.zeros(data.n_docs) if background is None else background_scores(background, data)
        valid_scores = None
        if valid is not None:
            valid_scores = np.zeros(valid.n_docs) if background is None else background_scores(background, valid)
        boosted, trees = Boosted(0, ()), []
        if not nothing:
            X = dense_features(data)
            measure = parse_measure(self.measure).resolve("letor")
            threads = threads_of(self.n_jobs)
            ties, _ = content_order(X, data.labels, data.indptr)
            lambdas = Lambdas(
                data.labels, data.indptr, measure, self.truncation, threads, ties=ties, query_weights=weights
            )
            grower = self._grower(X)
            X_valid = None if valid is None else dense_features(valid)
            learner = TreeLearner(grower, X, X_valid=X_valid, **self._learner_settings())
            try:
                boosted = boost(
                    lambdas,
                    learner,
                    scores,
                    n_rounds=self.n_trees,
                    valid=self._value_on(valid),
                    valid_scores=valid_scores,
                    patience=self.patience,
                    callback=self.callback,
                )
            finally:
                grower.close()
                lambdas.close()
            trees = learner.trees[: boosted.n_rounds]
        self._keep(boosted)
        self._trees = TreeModel(data.n_features, names_of(self), Forest.of(trees))
        self._model = self._trees if background is None else add_models(background, self._trees)

    def _learnt(self) -> TreeModel:
        _ = self.model_  # complains where nothing was fitted
        return self._trees

    def _method(self) -> str:
        return "lambdamart"
