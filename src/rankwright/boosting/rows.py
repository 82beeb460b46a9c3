"""Where trees are grown: on rows in this process, or on a device; `partitioned_boosting` has those in partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Tree
from rankwright.boosting.rounds import Boosting, lambda_gradients
from rankwright.boosting.tree_model import Coding
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.subsets import batches, rows_in, stored
from rankwright.data.threads import beside, scratch
from rankwright.measures import Measure
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task

# Dense features where they are: in the matrix that holds them, in a file beside it, or a few rows at a time.
#
# Trees compare dense features, and the numbers of categories. Dense features without categories are used in place;
# others
# are made dense, or numbered, once: in memory, or, if they are mapped from a file and large, in a file without a name.


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """Dense features of a data set.

    `X`: a matrix that holds them. `rows`: the row of X that holds each document; None if that is its own number.
    `folder`: where what is made of them may be kept on disk; None where they are in memory.
    """

    X: Array
    rows: Array | None
    folder: Path | None


def dense_features(data: RankingData, code: Any = None) -> DenseFeatures:
    """The dense features of a data set; ``code`` numbers the categories of rows, if there are any."""
    whole = stored(data)[0]
    folder = beside(whole)
    if not sparse.issparse(whole) and (code is None or not code.categories):
        return DenseFeatures(np.ascontiguousarray(whole), rows_in(data), folder)
    X = scratch((data.n_docs, data.n_features), whole.dtype, folder)
    first = 0
    for rows, _ in batches(data, at_once=False):
        some = rows.toarray() if sparse.issparse(rows) else rows
        X[first : first + len(some)] = some if code is None else code(some)
        first += len(some)
    return DenseFeatures(X, None, folder)


class Batches:
    """Dense features of a data set, some rows at a time, as often as they are asked for.

    Those of mapped data are read again every time; others are made once.
    """

    def __init__(self, data: RankingData, code: Any) -> None:
        self._data, self._code = data, code
        self._made = list(self._make()) if beside(stored(data)[0]) is None else None

    def __iter__(self) -> Iterator[Array]:
        return self._make() if self._made is None else iter(self._made)

    def _make(self) -> Iterator[Array]:
        whole = stored(self._data)[0]
        if not sparse.issparse(whole) and not self._code.categories and rows_in(self._data) is None:
            yield np.ascontiguousarray(whole)
            return
        for rows, _ in batches(self._data, at_once=False):
            yield self._code(np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows))


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
        """A :class:`~rankwright.boosting.grow.Grower` on the rows of a source."""
        from rankwright.boosting.grow import Grower

        return Grower(source, self.max_leaves, self.min_rows, self.node_share, self.node_share, self.directions)


@dataclass(frozen=True, eq=False)
class LambdaSettings:
    """What lambda gradients are those of: arguments of :func:`~rankwright.boosting.rounds.lambda_gradients`."""

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

    `rows`: the documents in this order. `labels`, `indptr`, `weights`: labels, query boundaries and weights of the
    queries in this order. `winning`: factors for the pairs that each document should win, in this order.
    """

    rows: Array
    labels: Array
    indptr: Array
    weights: Array
    winning: Array | None = None

    @classmethod
    def of(cls, task: Task, features: DenseFeatures, threads: int = 1) -> Ordered:
        """Order the data by its content."""
        from rankwright.data.content_order import content_order

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

    `task`: what to train on. `growing`: how trees are grown. `by_tree`: gives, for validation data or None, what gives
    its scores by one tree. `ordered`: the data in the order of its content.
    """

    def __init__(self, task: Task, growing: Growing, by_tree: ByTree) -> None:
        self._task, self._growing, self._by_tree = task, growing, by_tree
        self._features = dense_features(task.data, growing.coding)
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
        from rankwright.boosting.binning import bin_features
        from rankwright.boosting.learner import LocalLearner
        from rankwright.boosting.local import LocalHistograms

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
        from rankwright.gpu.lambdas import DeviceGrades

        there = DeviceGrades(grades)
        return there, there.scores

    def _make(self, seeds: list[int]) -> list[Any]:
        from rankwright.gpu.trees.bins import bin_on_device
        from rankwright.gpu.trees.grower import DeviceGrower, DeviceTrees, binned

        bins, growing, valid = bin_on_device(*self._to_bin()), self._growing, self._task.valid
        grower = DeviceGrower(
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
        learners = [DeviceTrees(grower, shrinkage=rate, newton=newton, seed=seed, valid=there) for seed in seeds]
        self._pools += learners
        return learners

    def _placed(self, scores: Array) -> Any:
        from rankwright.gpu.device import upload

        return upload(scores)
