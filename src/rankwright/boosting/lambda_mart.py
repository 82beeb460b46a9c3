"""LambdaMART: boosted regression trees on lambda gradients, from scratch or from a background model (LambdaSMART)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

from rankwright.boosting.forest import Forest
from rankwright.boosting.rounds import Boosted, Run
from rankwright.boosting.tree_ranker import LambdaSettings, TreeRanker
from rankwright.data.dataset import RankingData
from rankwright.data.places import place_of
from rankwright.measures import Measure, parse_measure
from rankwright.rankers.background import BACKGROUND, FromBackground, Start, compare_features
from rankwright.rankers.base import Task
from rankwright.rankers.facts import Outcome
from rankwright.rankers.parameters import FLAG, MEASURE, NONE, NOT_NEGATIVE, TREES_AND_NETS, Option, integer, parameter

__all__ = ["LambdaMART"]


@dataclass(eq=False, repr=False)
class LambdaMART(TreeRanker, FromBackground):
    """LambdaMART: every round grows a regression tree on the lambda gradients of a measure.

    Trees are grown best-first on up to 255 bins per feature; one Newton step sets the leaves. With a
    ``background``, boosting starts from its scores (LambdaSMART), and the model contains it; the scores are first
    brought to a standard deviation of ½ within queries, so their scale does not matter.

    Parameters
    ----------
    n_trees : int
        Most rounds of boosting.
    learning_rate : float
        Shrinkage of every tree.
    max_leaves : int
        Most leaves of a tree.
    measure : str or Measure
        Measure to optimise: ``"ndcg"``, ``"map"``, ``"mrr"``, any registered measure.
    truncation : int, optional
        Ignore pairs of documents that are both below this rank.
    normalize_queries : bool
        Scale the gradients of every query by log₂(1 + S)/S, S being their sum over its pairs, so that queries with many
        large ones do not outweigh the others. Where ``fit`` is given positions, a click is a query.
    nearness : float
        Divide the gradient of every pair by this number plus the difference of its scores, so that pairs of close
        scores count more; 0: all pairs count alike.
    gain : {"newton", "squared"}
        Choose splits by what a Newton step in both parts lowers the cost by, or by squared error (as in the paper).
    max_bins : int
        Most bins of a feature, up to 255.
    min_rows : int
        Fewest documents in a leaf.
    tree_rows, tree_features : float
        Share of the documents and features that each tree sees.
    randomize_nodes : bool or float
        Choose each split on a random share (True: 0.7) of the node's documents and of the features.
    categorical : sequence of str or int, optional
        Features of whole numbers that are categories, by name or by number from 0, besides the columns of text and of
        categories in a data frame. A split sends some categories left, the others right. The ``max_bins`` most common
        ones are told apart; rarer ones, unknown ones and missing values go the same way.
    monotone : mapping of str or int to 1 or -1, optional
        Features, by name or by number from 0, in which the score must rise (1) or fall (-1) if all others stay; it may
        stay the same. A missing value is exempt, and so is a ``background``. Splits are chosen by Newton gains.
    patience : int, optional
        Stop after this many rounds without a better value on ``eval_set``, or on average over the folds of ``cv``.
    cv : int or "auto", optional
        Without ``eval_set``: choose the number of trees by cross-validation with this many folds of queries,
        then train on all queries. ``"auto"``: 5 folds, of which one alone is held out from 500 queries on.
    background : fitted ranker or model, optional
        Model to start from.
    eval_measure : str or Measure, optional
        Measure to choose the number of trees by; default nDCG@10.
    random_state : int, RandomState or None
        Random seed.
    n_jobs : int, optional
        Threads; default 1, -1 for all cores. The model does not depend on it.
    device : {"cpu", "cuda"}
        Where trees are grown; ``"cuda"``: on an NVIDIA GPU, the same trees but for rounding, see the page On a GPU.
    callback : callable, optional
        Called with a :class:`~rankwright.boosting.rounds.BoostingRound` after every tree; returning True stops
        training.

    Attributes
    ----------
    n_trees_ : int
        Trees kept.
    path_ : tuple of BoostingRound
        Value on validation data and seconds after every round.
    feature_importances_ : ndarray
        How much the splits of each feature gain, normalised to sum to 1.
    cv_ : CrossValidation or None
        What cross-validation found: its honest estimate ``value``, and out-of-fold ``scores``.
    n_queries_, n_queries_skipped_ : int
        Queries trained on, and queries skipped because they have no order to learn.
    training_ : Fitted
        All facts of the training, as :meth:`fit_data` returns them.

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
    truncation: int | None = parameter(100, integer(1), NONE)
    normalize_queries: bool = parameter(True, FLAG)
    nearness: float = parameter(0.03, NOT_NEGATIVE)
    background: Any = parameter(
        None,
        BACKGROUND,
        NONE,
        option=Option(
            TREES_AND_NETS,
            "lambdamart, lambdaboost: start from this model.",
            after="monotone",
            metavar="MODEL",
            read=Path,
            alone=True,
        ),
    )

    _uses_positions: ClassVar[bool] = True
    _works_on_partitions: ClassVar[bool] = True

    def trains_in_partitions(self, data: RankingData) -> bool:
        """Whether trees are grown where the partitions are: not on a GPU that has room for all of them."""
        return self.device == "cpu" or not self._has_room(data)

    def method_name(self) -> str:
        """The name of the method, as `rankwright train --method` has it."""
        return "lambdamart"

    def _training_rows(self, task: Task) -> Any:
        """The rows that trees are grown on: in partitions, also where a GPU has no room for all of them."""
        if not place_of(task.data).is_partitioned and self._has_room(task.data):
            return super()._training_rows(task)
        from rankwright.boosting.distributed import PartitionedRows

        return PartitionedRows(task, self._growing(), self._by_tree)

    def _run(self, task: Task) -> Run:
        start, rows = Start.of(self.background, task.data), self._training_rows(task)
        factors = {"nearness": self.nearness, "normalize": self.normalize_queries}
        measure = parse_measure(self.measure).resolve("letor")
        boosting = rows.boost(LambdaSettings(measure, self.truncation, factors), start)

        def keep(boosted: Boosted) -> Outcome:
            return self._keep(boosting.learner.trees[: boosted.n_rounds], boosted, task.data, start)

        return Run(boosting, keep, (rows,))

    def _learn_nothing(self, task: Task) -> Outcome:
        return self._keep([], Boosted(0, ()), task.data, Start.of(self.background, task.data))

    def _keep(self, trees: list[Any], boosted: Boosted, data: RankingData, start: Start) -> Outcome:
        self._model = start.with_learnt(self._grown(Forest.of(trees)), len(trees))
        return self._outcome(boosted, compare_features(start.model, data))
