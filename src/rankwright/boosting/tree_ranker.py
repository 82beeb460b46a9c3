"""What tree rankers share: their parameters, and the rows that trees are grown on, which know how.

Rows are in this process or on a device; :mod:`rankwright.boosting.distributed` has those in partitions. numba is loaded
where trees are grown, not by importing a ranker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.rounds import BoostedRanker, Boosting, lambda_gradients
from rankwright.boosting.tree_model import Coding, TreeModel, counted, most_common
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, batches, column_of, rows_in, stored
from rankwright.data.places import place_of, selected
from rankwright.data.threads import beside, scratch, threads_of
from rankwright.errors import InputError
from rankwright.measures import Measure
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task
from rankwright.rankers.parameters import (
    DATA,
    DIRECTIONS,
    FEATURES,
    FLAG,
    NONE,
    POSITIVE,
    SHARE,
    TREES_AND_NETS,
    Option,
    common,
    integer,
    one_of,
    parameter,
    places_of,
    read_directions,
    read_features,
    seed_of,
)

# Dense features where they are: in the matrix that holds them, in a file beside it, or a few rows at a time.
#
# Trees compare dense features, and the numbers of categories. Dense features without categories are used in place;
# others are made dense, or numbered, once: in memory, or, if they are mapped from a file and large, in a file without a
# name.


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
    matrix = stored(data)[0]
    folder = beside(matrix)
    if not sparse.issparse(matrix) and (code is None or not code.categories):
        return DenseFeatures(np.ascontiguousarray(matrix), rows_in(data), folder)
    X = scratch((data.n_docs, data.n_features), matrix.dtype, folder)
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
        matrix = stored(self._data)[0]
        if not sparse.issparse(matrix) and not self._code.categories and rows_in(self._data) is None:
            yield np.ascontiguousarray(matrix)
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
        from rankwright.data.hashes import content_order

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
        (data, valid), ordered = (self._task.data, self._task.valid), self.ordered
        scores = start.scores(data)[ordered.rows]
        valid_scores = None if valid is None else start.scores(valid)
        device, threads = self._growing.device, self._growing.threads
        objective = lambdas.on(ordered, ordered.weights, ordered.winning, threads, device)
        (learner,) = self.grow(1)
        self._pools.append(objective)
        return Boosting(objective, learner, self._placed(scores), valid_scores)

    def grow(self, n_learners: int) -> list[Any]:
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
        from rankwright.boosting.grow import LocalHistograms
        from rankwright.boosting.learner import LocalLearner

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
        from rankwright.gpu.trees.grower import DeviceGrower, DeviceTrees, binned
        from rankwright.gpu.trees.state import bin_on_device

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


# The categories of features, counted where the features are.


class CategoryCounts:
    """Counts the categories of a partition."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = selected(data, queries)

    def counts(self, columns: list[int]) -> list[tuple[Array, Array, float | None]]:
        """For each column its values, how often each occurs, and one that is not a whole number, if there is one."""
        values = []
        for j in columns:
            column = column_of(self._data, j)
            odd = ~(np.isnan(column) | (column == np.rint(column)))
            values.append((*counted(column), float(column[np.argmax(odd)]) if odd.any() else None))
        return values


_MOST_LOCAL_ROWS = 1 << 30  # whose sums fit a histogram
NODE_SHARE = 0.7  # of rows and features, where nodes draw them
_CATEGORICAL = Option(
    DATA,
    "auto, lambdamart, mcrank: features that are categories, by name, or without names by number, besides text of "
    "Parquet.",
    after="columns",
    metavar="lang,3",
    read=read_features,
)
_MONOTONE = Option(
    TREES_AND_NETS,
    "lambdamart, mcrank-ordinal: features in which scores must rise (+1) or fall (-1).",
    metavar="bm25=+1,spam=-1",
    read=read_directions,
)


@dataclass(eq=False, repr=False)
class TreeRanker(BoostedRanker):
    """Boosting with trees; subclasses say what they are fitted to."""

    _allow_missing: ClassVar[bool] = True
    _uses_categories: ClassVar[bool] = True
    _unit: ClassVar[str] = "trees"
    _nothing: ClassVar[str] = "no tree is grown"

    n_trees: int = parameter(300, integer(1))
    learning_rate: float = parameter(0.1, POSITIVE)
    max_leaves: int = parameter(10, integer(2))
    _: KW_ONLY
    gain: str = parameter("newton", one_of("newton", "squared"))
    max_bins: int = parameter(255, integer(2, 255))
    min_rows: int = parameter(20, integer(1))
    tree_rows: float = parameter(1.0, SHARE)
    tree_features: float = parameter(1.0, SHARE)
    randomize_nodes: bool | float = parameter(False, FLAG, SHARE)
    categorical: Sequence[str | int] | None = parameter(None, FEATURES, NONE, option=_CATEGORICAL)
    monotone: Mapping[str | int, int] | None = parameter(None, DIRECTIONS, NONE, option=_MONOTONE)
    random_state: Any = common("random_state")
    device: str = common("device")

    def _check_data(self, data: RankingData, valid: RankingData | None) -> None:
        if data.n_docs > _MOST_LOCAL_ROWS and not place_of(data).is_partitioned:
            raise InputError(f"{data.n_docs:,} documents; trees can be grown on at most {_MOST_LOCAL_ROWS:,}")
        named = places_of(self.categorical or (), data.names, "categorical")
        rising = places_of(self.monotone or (), data.names, "monotone")
        both = [data.names[j] for j in rising if j in named or j in data.categories]
        if both:
            raise InputError(f"monotone: the feature {both[0]!r} is categorical; its values have no order")
        self._directions = dict(zip(rising, (self.monotone or {}).values(), strict=True))
        self._coding = _coding(data, {*named, *data.categories}, self.max_bins)

    def _training_rows(self, task: Task) -> Any:
        """The rows that trees are grown on, which know how."""
        kind = LocalRows if self.device == "cpu" else DeviceRows
        return kind(task, self._growing(), self._by_tree)

    def _growing(self) -> Growing:
        share = self.randomize_nodes
        if isinstance(share, bool | np.bool_):
            share = NODE_SHARE if share else 1.0
        return Growing(
            self._coding,
            self.max_bins,
            self.max_leaves,
            self.min_rows,
            self.gain == "newton",
            self._directions,
            self.learning_rate,
            self.tree_rows,
            self.tree_features,
            float(share),
            seed_of(self.random_state),
            threads_of(self.n_jobs),
            self.device,
        )

    def _by_tree(self, valid: RankingData | None) -> Callable[[Any], Array] | None:
        """Scores of validation data, which may be in partitions, by one tree."""
        from rankwright.boosting.learner import tree_scores

        if valid is None:
            return None
        place = place_of(valid)
        if not place.is_partitioned:
            X = Batches(valid, self._coding)
            return lambda tree: np.concatenate([tree_scores(tree, rows) for rows in X])
        names, categories = self._names(), self._coding.categories

        def scores(tree: Any) -> Array:
            return place.scores(TreeModel(valid.n_features, names, Forest.of([tree]), categories=categories))

        return scores

    def _has_room(self, data: RankingData) -> bool:
        """Whether the bins of a data set fit where trees are grown; else they are grown as on a partition."""
        if self.device == "cpu":
            return True
        from rankwright.gpu.trees.state import have_room

        return have_room(data.n_docs, data.n_features)

    def _grown(self, forest: Forest) -> TreeModel:
        self._trees = TreeModel(self.n_features_in_, self._names(), forest, categories=self._coding.categories)
        return self._trees

    @property
    def feature_importances_(self) -> Array:
        """How much the splits of each feature gain, normalised to sum to 1."""
        _ = self.model_  # raises if not fitted
        return np.asarray(self._trees.importance())


def _coding(data: RankingData, columns: set[int], most: int) -> Coding:
    """The most common categories of some columns; numbers in a column of data must be whole."""
    if not columns:
        return Coding({}, ())
    with place_of(data).made(CategoryCounts) as actors:
        counts = actors.call("counts", sorted(columns))
    categories = {}
    for j, of_parts in zip(sorted(columns), zip(*counts, strict=True), strict=True):
        odd = [value for _, _, value in of_parts if value is not None]
        if j not in data.categories and odd:
            problem = f"categorical: the feature {data.names[j]!r} has the value {min(odd):g}"
            raise InputError(f"{problem}; expected whole numbers or text")
        values, place = np.unique(np.concatenate([part for part, _, _ in of_parts]), return_inverse=True)
        total = np.zeros(len(values), np.int64)
        np.add.at(total, place, np.concatenate([part for _, part, _ in of_parts]))
        categories[j] = most_common(values, total, data.categories.get(j), most)
    return Coding(categories, data.names)
