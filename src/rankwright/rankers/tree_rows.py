"""Where trees are grown: on rows in this process, or on a device; `parted_boosting` has those in partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.measures import Measure
from rankwright.models.trees.categories import Coding
from rankwright.models.trees.forest import Tree
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task
from rankwright.rankers.boosted import lambda_gradients
from rankwright.rankers.located import Batches, Located, located
from rankwright.solvers.boosting import Boosting

Array = npt.NDArray[Any]
ByTree = Callable[[RankingData | None], Callable[[Tree], Array] | None]  # data -> tree -> scores
_SEED_STEP = 1_000_003  # between the trees of two classes


@dataclass(frozen=True, eq=False)
class Growing:
    """How trees are grown: the parameters of a ranker, resolved for its data."""

    coding: Coding
    max_bins: int
    max_leaves: int
    min_rows: int
    newton: bool
    directions: dict[int, int]
    learning_rate: float
    tree_rows: float
    tree_features: float
    node_share: float
    seed: int
    threads: int
    device: str

    def grower(self, source: Any) -> Any:
        """A :class:`~rankwright.models.trees.grow.Grower` on the rows of a source."""
        from rankwright.models.trees.grow import Grower

        return Grower(source, self.max_leaves, self.min_rows, self.node_share, self.node_share, self.directions)


@dataclass(frozen=True, eq=False)
class LambdaSettings:
    """What lambda gradients are those of: arguments of :func:`~rankwright.rankers.boosted.lambda_gradients`."""

    measure: Measure
    truncation: int | None
    factors: dict[str, Any]

    def on(self, data: Any, weights: Array, winning: Array | None, threads: int, device: str = "cpu") -> Any:
        """The gradients on some data."""
        given = (data, self.measure, self.truncation, threads, weights)
        return lambda_gradients(*given, winning=winning, device=device, **self.factors)


@dataclass(frozen=True, eq=False)
class Ordered:
    """Training data in an order that does not depend on the one it was given in, so neither do draws and sums.

    Attributes
    ----------
    rows : ndarray
        The documents in this order.
    labels, indptr, weights : ndarray
        Labels, query boundaries and weights of the queries in this order.
    winning : ndarray or None
        Factors for the pairs that each document should win, in this order.
    """

    rows: Array
    labels: Array
    indptr: Array
    weights: Array
    winning: Array | None = None

    @classmethod
    def of(cls, task: Task, features: Located, threads: int = 1) -> Ordered:
        """Order the data by its content."""
        from rankwright.objectives.content_order import content_order

        data, weights = task.data, task.weights.queries
        starts = None if features.rows is None else features.rows[data.indptr[:-1]]
        docs, queries = content_order(features.X, data.labels, data.indptr, weights, threads, starts)
        sizes = data.sizes[queries]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        rows = docs[np.arange(data.n_docs) + np.repeat(data.indptr[queries] - indptr[:-1], sizes)]
        winning = task.weights.winning
        return cls(rows, data.labels[rows], indptr, weights[queries], None if winning is None else winning[rows])


class LocalRows:
    """Rows in this process.

    Parameters
    ----------
    task : Task
        What to train on.
    growing : Growing
        How trees are grown.
    by_tree : callable
        Gives, for validation data or None, what gives its scores by one tree.

    Attributes
    ----------
    ordered : Ordered
        The data in the order of its content.
    """

    def __init__(self, task: Task, growing: Growing, by_tree: ByTree) -> None:
        self._task, self._growing, self._by_tree = task, growing, by_tree
        self._features = located(task.data, growing.coding)
        self.ordered = Ordered.of(task, self._features, growing.threads)
        self._pools: list[Any] = []

    def boost(self, lambdas: LambdaSettings, start: Start) -> Boosting:
        """Everything for the rounds on lambda gradients."""
        (data, valid), ordered = (self._task.data, self._task.valid), self.ordered
        scores = start.scores(data)[ordered.rows]
        valid_scores = None if valid is None else start.scores(valid)
        device, threads = self._growing.device, self._growing.threads
        objective = lambdas.on(ordered, ordered.weights, ordered.winning, threads, device)
        (learner,) = self.grow(1)
        self._pools.append(objective)
        return Boosting(objective, learner, self._placed(scores), valid_scores)

    def grow(self, n_learners: int) -> list[Any]:
        """Learners that share bins and a grower."""
        seeds = [self._growing.seed + _SEED_STEP * at for at in range(n_learners)]
        learners = self._make(seeds)
        del self._features  # the learners have what they need of them
        return learners

    def classes(self, grades: Any) -> tuple[Any, Any]:
        """The objective for classes, where its scores are, and the first of these."""
        return grades, np.tile(grades.starts[:, None], self._task.data.n_docs)

    def close(self) -> None:
        """Shut down the thread pools, and forget what is on a device."""
        for pool in self._pools:
            pool.close()

    def _to_bin(self) -> tuple[Any, int, int, int, Array, dict[int, int]]:
        """The arguments of `bin_features`, and of the same on a device."""
        features, growing = self._features, self._growing
        order = self.ordered.rows if features.rows is None else features.rows[self.ordered.rows]
        counts = {j: len(values) for j, values in growing.coding.categories.items()}
        return features.X, growing.max_bins, growing.seed, growing.threads, order, counts

    def _make(self, seeds: list[int]) -> list[Any]:
        from rankwright.models.trees.binning import bin_features
        from rankwright.models.trees.local_histograms import LocalHistograms
        from rankwright.solvers.tree_learner import LocalLearner

        X, *_, order, _ = to_bin = self._to_bin()
        growing = self._growing
        source = LocalHistograms(bin_features(*to_bin, folder=self._features.folder), growing.threads)
        self._pools.append(source)
        grower, valid_scores = growing.grower(source), self._by_tree(self._task.valid)
        return [
            LocalLearner(
                grower,
                X,
                order=order,
                newton=growing.newton,
                tree_rows=growing.tree_rows,
                tree_features=growing.tree_features,
                shrinkage=growing.learning_rate,
                seed=seed,
                valid_scores=valid_scores,
            )
            for seed in seeds
        ]

    def _placed(self, scores: Array) -> Any:
        return scores


class DeviceRows(LocalRows):
    """Rows whose bins, gradients and scores are on a GPU."""

    def classes(self, grades: Any) -> tuple[Any, Any]:
        """The objective for classes, where its scores are, and the first of these."""
        from rankwright.gpu.grades import CardGrades

        there = CardGrades(grades)
        return there, there.scores

    def _make(self, seeds: list[int]) -> list[Any]:
        from rankwright.gpu.trees.bins import bin_on_card
        from rankwright.gpu.trees.grower import CardGrower
        from rankwright.gpu.trees.learner import CardTrees, binned

        bins, growing, valid = bin_on_card(*self._to_bin()), self._growing, self._task.valid
        grower = CardGrower(
            bins,
            max_leaves=growing.max_leaves,
            min_rows=growing.min_rows,
            node_share=growing.node_share,
            directions=growing.directions,
            tree_rows=growing.tree_rows,
            tree_features=growing.tree_features,
        )
        there = binned(bins, None if valid is None else Batches(valid, growing.coding))
        rate, newton = growing.learning_rate, growing.newton
        learners = [CardTrees(grower, shrinkage=rate, newton=newton, seed=seed, valid=there) for seed in seeds]
        self._pools += learners
        return learners

    def _placed(self, scores: Array) -> Any:
        from rankwright.gpu.card import upload

        return upload(scores)
