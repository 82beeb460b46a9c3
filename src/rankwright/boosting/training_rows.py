"""The rows that trees are grown on, which know how: in this process, on a GPU, or in partitions.

Bins are those that the same data gives in one place: a sample of rows, if there are many, is drawn from all documents
in the order of their content. So neither bins nor trees depend on how the queries are cut into partitions, on their
order, or on where the partitions are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.binning import bin_features, feature_ends, pack_bins, sample_rows
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.grow import Grower, HistogramSource, LocalHistograms
from rankwright.boosting.learner import LocalLearner, PartitionedLearner, tree_scores
from rankwright.boosting.partitions import BinLayout, Cuts, Gathered, NodeRows, PartitionHistograms, Units, exact_sums
from rankwright.boosting.rounds import Boosting, LambdaSettings
from rankwright.boosting.tree_model import Coding, TreeModel
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, adjacent, batches, rows_in, stored
from rankwright.data.hashes import STEP, content_keys, content_order, drawn
from rankwright.data.order import sizes_to_indptr
from rankwright.data.places import Share, place_of, selected
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team, beside, scratch
from rankwright.errors import InputError
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task

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


def dense_features(data: RankingData, code: Coding) -> DenseFeatures:
    """The dense features of a data set; ``code`` numbers the categories of rows, if there are any."""
    matrix = stored(data)[0]
    folder = beside(matrix)
    if not sparse.issparse(matrix) and not code.categories:
        return DenseFeatures(np.ascontiguousarray(matrix), rows_in(data), folder)
    X = scratch((data.n_docs, data.n_features), matrix.dtype, folder)
    first = 0
    for rows in _dense_batches(data, code):
        X[first : first + len(rows)] = rows
        first += len(rows)
    return DenseFeatures(X, None, folder)


def _dense_batches(data: RankingData, code: Coding) -> Iterator[Array]:
    for rows, _ in batches(data, at_once=False):
        yield code(np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows))


class Batches:
    """Dense features of a data set, some rows at a time, as often as they are asked for.

    Those of mapped data are read again every time; others are made once.
    """

    def __init__(self, data: RankingData, code: Coding) -> None:
        self._data, self._code = data, code
        self._made = list(self._make()) if beside(stored(data)[0]) is None else None

    def __iter__(self) -> Iterator[Array]:
        return self._make() if self._made is None else iter(self._made)

    def _make(self) -> Iterator[Array]:
        matrix = stored(self._data)[0]
        if not sparse.issparse(matrix) and not self._code.categories and rows_in(self._data) is None:
            yield np.ascontiguousarray(matrix)
        else:
            yield from _dense_batches(self._data, self._code)


_SEED_STEP = 1_000_003  # between the trees of two classes


@dataclass(frozen=True, eq=False)
class Growing:
    """How trees are grown: the parameters of a ranker, resolved for its data."""

    names: tuple[str, ...] | None
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

    def grower(self, source: HistogramSource) -> Grower:
        return Grower(source, self.max_leaves, self.min_rows, self.node_share, self.node_share, self.directions)

    def by_tree(self, valid: RankingData | None) -> Callable[[Tree], Array] | None:
        """Scores of validation data, which may be in partitions, by one tree."""
        if valid is None:
            return None
        place, d = place_of(valid), valid.n_features
        if place.is_partitioned:
            categories = self.coding.categories
            return lambda tree: place.scores(TreeModel(d, self.names, Forest.of([tree]), categories=categories))
        X = Batches(valid, self.coding)
        return lambda tree: np.concatenate([tree_scores(tree, rows) for rows in X])


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
    winning: Array | None

    @classmethod
    def of(cls, task: Task, features: DenseFeatures, threads: int) -> Ordered:
        data, weights = task.data, task.weights.queries
        starts = None if features.rows is None else features.rows[data.indptr[:-1]]
        docs, queries = content_order(features.X, data.labels, data.indptr, weights, threads, starts)
        sizes = data.sizes[queries]
        indptr = sizes_to_indptr(sizes)
        rows = docs[np.arange(data.n_docs) + np.repeat(data.indptr[queries] - indptr[:-1], sizes)]
        winning = task.weights.winning
        return cls(rows, data.labels[rows], indptr, weights[queries], None if winning is None else winning[rows])


class LocalRows:
    """Rows in this process.

    `task`: what to train on. `growing`: how trees are grown. `ordered`: the data in the order of its content.
    """

    def __init__(self, task: Task, growing: Growing) -> None:
        self._task, self._growing = task, growing
        self._features = dense_features(task.data, growing.coding)
        self.ordered = Ordered.of(task, self._features, growing.threads)
        self._pools: list[Any] = []

    def boost(self, lambdas: LambdaSettings, start: Start) -> Boosting:
        valid, rows = self._task.valid, self.ordered
        scores = start.scores(self._task.data)[rows.rows]
        valid_scores = None if valid is None else start.scores(valid)
        settings = (self._growing.threads, self._growing.device)
        objective = lambdas.on(rows.labels, rows.indptr, rows.weights, rows.winning, *settings)
        (learner,) = self.grow(1)
        self._pools.append(objective)
        return Boosting(objective, learner, self._placed(scores), valid_scores)

    def grow(self, n_learners: int) -> list[Any]:
        learners = self._make([self._growing.seed + _SEED_STEP * at for at in range(n_learners)])
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
        return features.X, growing.max_bins, growing.seed, growing.threads, order, growing.coding.counts

    def _make(self, seeds: list[int]) -> list[Any]:
        X, *_, order, _ = to_bin = self._to_bin()
        growing = self._growing
        source = LocalHistograms(bin_features(*to_bin, folder=self._features.folder), growing.threads)
        self._pools.append(source)
        grower, valid_scores = growing.grower(source), growing.by_tree(self._task.valid)
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
        from rankwright.gpu.lambdas import DeviceGrades

        there = DeviceGrades(grades)
        return there, there.scores

    def _make(self, seeds: list[int]) -> list[Any]:
        from rankwright.gpu.trees.grower import DeviceGrower, DeviceTrees, binned
        from rankwright.gpu.trees.rows import bin_on_device

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


# LambdaMART over partitions: what a partition does. It has rows as bins, their scores and gradients, and gives sums.
#
# Nothing that depends on how rows are cut into partitions leaves one: maxima, integers, and values of rows asked for.


class TreePartition:
    """The queries of a partition that are trained on.

    A request names everything since the tree began, its units and all divisions, so a partition that was loaded anew
    catches up; only `apply` changes it for good.

    `data`: the partition. `threads`: sums do not depend on it. `queries`: which queries of the partition. `weights`:
    their weights. `winning`, `start`: factors for the pairs that each document should win, and scores to start from.
    `growing`: how trees are grown. `lambdas`: what they are fitted to.
    """

    def __init__(
        self,
        data: RankingData,
        threads: int,
        queries: Array,
        weights: Array,
        winning: Array | None,
        start: Array | None,
        growing: Growing,
        lambdas: LambdaSettings,
    ) -> None:
        self._data = selected(data, queries)
        self._weights, self._winning, self._threads = weights, winning, threads
        self._growing, self._settings = growing, lambdas
        features = dense_features(self._data, growing.coding)
        self._X, self._of_docs, self._folder = features.X, features.rows, features.folder
        self._starts = self._data.indptr[:-1] if features.rows is None else stored(self._data)[1]
        self._team = Team(threads)
        self._scores = np.zeros(self._data.n_docs) if start is None else np.array(start, np.float64)
        self._lambdas: Any = None
        self._done = 0  # trees whose scores are added
        self._begun: tuple[int, Units] | None = None  # the tree whose rows are divided
        self._gradients: tuple[Array, Array, Array] | None = None

    def statistics(self) -> Statistics:
        """The ends of the features as trees see them, and how many values of each are missing."""
        return Statistics.of_rows(self._X, *adjacent(self._starts, self._data.sizes), self._team, summed=False)

    def arrange(self, varies: Array) -> Array:
        """Put the documents of every query into the order of their content; a hash of every query."""
        data = self._data
        docs, keys, sums = np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.uint64)
        if data.n_docs:
            docs, keys, sums = content_keys(
                self._X, data.labels, data.indptr, self._threads, varies, starts=self._starts
            )
        self._docs, self._scores = docs, self._scores[docs]
        self._rows = docs if self._of_docs is None else self._of_docs[docs]
        self._keys = np.empty(0, np.uint64)
        if min(self._growing.tree_rows, self._growing.node_share) < 1.0:
            self._keys = _keys_to_draw_by(keys[docs], np.repeat(sums, data.sizes), data.indptr)
        return sums

    def columns(self, rows: Array | None, first: int, stop: int) -> Array:
        """Some features of some rows, as they are arranged, or of all rows: an array for every feature."""
        taken = self._rows if rows is None else self._rows[rows]
        return np.ascontiguousarray(self._X[taken, first:stop].T)

    def bin(self, ends: tuple[Array, ...]) -> None:
        """Keep the rows as bins, and their gradients' objective."""
        if self._data.n_docs:
            self._lambdas = self._gradients_there()
        self._part = self._binned(ends, BinLayout(np.array([len(of_feature) + 1 for of_feature in ends], np.int64)))
        del self._X, self._rows, self._of_docs  # the bins have what is needed of them

    def travels(self) -> bool:
        """Whether it costs much to ask for sums, however few, even from here."""
        return bool(self._part.travels)

    def _binned(self, ends: tuple[Array, ...], layout: BinLayout) -> Any:
        packed_bins = pack_bins(self._X, self._rows, ends, self._team, self._folder)
        return NodeRows(packed_bins, layout, self._team, self._keys, self._folder)

    def _gradients_there(self, device: str = "cpu") -> Any:
        winning = None if self._winning is None else self._winning[self._docs]
        labels, indptr = self._data.labels[self._docs], self._data.indptr
        return self._settings.on(labels, indptr, self._weights, winning, self._threads, device)

    def root(
        self, number: int, unsent: list[tuple[Any, ...]], salt: int, of_root: int, units: Units | None
    ) -> tuple[Array, ...]:
        """Sums of the gradients for tree ``number``, in units too where they are given."""
        for tree in unsent:
            self.apply(*tree)
        _, _, sizes = self._gradients_of(number)
        if units is None:
            return (sizes,)
        cuts = Cuts.of([], [], [], [])
        return (sizes, *self.look(number, salt, units, cuts, np.zeros(1, np.int32), np.array([of_root], np.uint64)))

    def look(self, number: int, salt: int, units: Units, cuts: Cuts, nodes: Array, salts: Array) -> tuple[Array, ...]:
        self._divide(number, salt, units, cuts)
        return self._part.sums(nodes, salts, self._growing.node_share)

    def gather_rows(self, number: int, salt: int, units: Units, cuts: Cuts, nodes: Array) -> Gathered:
        self._divide(number, salt, units, cuts)
        return self._part.gather_rows(nodes)

    def _divide(self, number: int, salt: int, units: Units, cuts: Cuts) -> None:
        if self._begun != (number, units):
            gradients, hessians, _ = self._gradients_of(number)
            rows, share = np.arange(len(self._docs), dtype=np.uint32), self._growing.tree_rows
            rows = rows if share >= 1.0 else rows[drawn(self._keys, salt, share)]
            self._part.begin(rows, gradients, hessians, units)
            self._begun = (number, units)
        self._part.divide(cuts)

    def apply(self, number: int, cuts: Cuts, leaves: Array, values: Array) -> None:
        """Add the values of the leaves of the tree before ``number`` to the scores, if that was not done."""
        if self._done >= number:
            return
        grown_here = self._begun is not None and self._begun[0] == number - 1
        if not grown_here:
            self._part.place(np.arange(len(self._docs), dtype=np.uint32))
        self._add(cuts, leaves, values)
        if grown_here and len(self._part.rows) < len(self._docs):
            left_out = np.ones(len(self._docs), bool)
            left_out[self._part.rows] = False
            self._part.place(np.flatnonzero(left_out).astype(np.uint32))
            self._add(cuts, leaves, values)
        self._done, self._begun, self._gradients = number, None, None

    def _add(self, cuts: Cuts, leaves: Array, values: Array) -> None:
        self._part.divide(cuts)
        self._part.add(leaves, values, self._scores)

    def _gradients_of(self, number: int) -> tuple[Array, Array, Array]:
        """Gradients, hessians and their exact sums at the scores before tree ``number``."""
        assert self._done == number
        if self._gradients is None:
            none = np.zeros(0)
            gradients, hessians = (none, none) if self._lambdas is None else self._lambdas.evaluate(self._scores)
            sizes = np.stack([exact_sums(values, self._team) for values in (gradients, hessians)])
            self._gradients = gradients, hessians, sizes
        return self._gradients

    def close(self) -> None:
        self._team.close()
        if self._lambdas is not None:
            self._lambdas.close()


class DeviceTreePartition(TreePartition):
    """The same on a GPU, however much of it has room there: it gives the sums of the CPU, so trees are the same."""

    def _binned(self, ends: tuple[Array, ...], layout: BinLayout) -> Any:
        from rankwright.gpu.trees.partitions import DeviceNodeRows

        return DeviceNodeRows(self._X, self._rows, ends, layout, self._keys, self._team, self._folder)

    def _gradients_there(self, device: str = "cuda") -> Any:
        """The objective; on the GPU where it has room."""
        from rankwright.gpu.device import free_bytes
        from rankwright.gpu.lambdas import OF_GRADIENT, DownloadedLambdas

        if self._settings.measure.swaps() is None or 2 * OF_GRADIENT * self._data.n_docs > free_bytes():
            return super()._gradients_there()
        return DownloadedLambdas(super()._gradients_there(device))


def _keys_to_draw_by(keys: Array, of_query: Array, indptr: Array) -> Array:
    """A number for every document that depends on its content, its query's, and how many like it come before."""
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    new[indptr[:-1]] = True
    starts = np.flatnonzero(new)
    before = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return np.asarray(keys + of_query * STEP + before.astype(np.uint64))


_COLUMNS = 16  # of a sample that travel together
_MOST_ROWS = (1 << 31) - 1


class PartitionedRows:
    """Rows in partitions; arguments as for :class:`LocalRows`."""

    def __init__(self, task: Task, growing: Growing) -> None:
        if task.data.n_docs > _MOST_ROWS:
            raise InputError(f"{task.data.n_docs:,} documents; trees can be grown on at most {_MOST_ROWS:,}")
        self._task, self._growing = task, growing
        self._place = place_of(task.data)

    def boost(self, lambdas: LambdaSettings, start: Start) -> Boosting:
        """Everything for the rounds on lambda gradients; scores and gradients stay at the partitions."""
        (data, valid, weights), growing = (self._task.data, self._task.valid, self._task.weights), self._growing
        scores = None if start.model is None else start.scores(data)
        arguments = []
        for share in self._place.shares:
            of_docs = [
                None if values is None else self._place.taken(values, share) for values in (weights.winning, scores)
            ]
            arguments.append((weights.queries[share.chosen], *of_docs))
        kind = TreePartition if growing.device == "cpu" else DeviceTreePartition
        self._actors = self._place.make(kind, growing, lambdas, own=arguments, threads=growing.threads)
        try:
            ends, varies = self._bin()
        except BaseException:
            self._actors.close()
            raise
        self._source = PartitionHistograms(
            ends,
            varies,
            frozenset(growing.coding.categories),
            data.n_docs,
            counts_rows=not (growing.newton or growing.directions),
            samples=growing.node_share < 1.0,
            # Asking for more than is needed pays where an answer takes a trip, to another process or to a GPU.
            ahead=not self._place.is_here or any(self._actors.call("travels")),
            threads=growing.threads,
        )
        learner = PartitionedLearner(
            growing.grower(self._source),
            self._actors,
            recall=self._place.recall,
            shrinkage=growing.learning_rate,
            tree_features=growing.tree_features,
            seed=growing.seed,
            valid_scores=growing.by_tree(valid),
        )
        return Boosting(learner, learner, np.zeros(0), None if valid is None else start.scores(valid))

    def close(self) -> None:
        """Forget what is at the partitions, and shut down the threads."""
        self._source.close()
        self._actors.close()

    def _bin(self) -> tuple[tuple[Array, ...], Array]:
        """Have all rows binned; the upper ends of all bins, and which features can split rows."""
        task, growing = self._task, self._growing
        statistics = reduce(Statistics.merge, self._actors.call("statistics"))
        hashes = self._actors.update("arrange", statistics.varies)
        rows = _sampled(task, self._place.shares, hashes, growing.seed)
        d, counts = task.data.n_features, growing.coding.counts
        team, ends = Team(growing.threads), list[Array]()
        try:
            for first in range(0, d, _COLUMNS):
                given = (first, min(first + _COLUMNS, d))
                parts = self._actors.call("columns", *given, own=[(of_partition,) for of_partition in rows])
                each = [
                    (column, growing.max_bins, counts.get(j))
                    for j, column in enumerate(np.concatenate(parts, 1), first)
                ]
                ends += team.each(feature_ends, each)
        finally:
            team.close()
        self._actors.update("bin", tuple(ends))
        some = (statistics.missing > 0) & (statistics.missing < task.data.n_docs)
        return tuple(ends), np.array([len(of_feature) > 0 for of_feature in ends], bool) | some


def _sampled(task: Task, shares: Sequence[Share], hashes: Sequence[Array], seed: int) -> list[Array | None]:
    """For every partition, the rows from which bins are found, as it arranges them; None for all."""
    data = task.data
    sample = sample_rows(data.n_docs, seed)
    if len(sample) == data.n_docs:
        return [None] * len(shares)
    sums = np.empty(data.n_queries, np.uint64)
    for share, firsts in zip(shares, hashes, strict=True):
        sums[share.chosen] = firsts
    order = np.lexsort((task.weights.queries, sums))
    bounds = sizes_to_indptr(data.sizes[order])
    at = np.searchsorted(bounds, sample, side="right") - 1
    query, place = order[at], sample - bounds[at]
    rows: list[Array | None] = []
    where = np.full(data.n_queries, -1)
    for share in shares:
        where[:] = -1
        where[share.chosen] = sizes_to_indptr(data.sizes[share.chosen])[:-1]
        firsts = where[query]
        rows.append((firsts + place)[firsts >= 0])
    return rows
