"""LambdaMART over partitions: what is decided here. Bins, trees and leaves come from sums over all partitions.

Bins are those that the same data gives in one place: a sample of rows, if there are many, is drawn from all documents
in the order of their content. So neither bins nor trees depend on how the queries are cut into partitions, on their
order, or on where the partitions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwright._types import Array
from rankwright.boosting.binning import category_ends, pack_bins, quantile_ends, sample_rows
from rankwright.boosting.learner import PartitionedLearner, RemoteObjective
from rankwright.boosting.partitions import BinLayout, Cuts, NodeRows, PartitionHistograms, Units, exact_sums
from rankwright.boosting.rounds import Boosting
from rankwright.boosting.tree_ranker import ByTree, DenseFeatures, Growing, LambdaSettings, dense_features
from rankwright.data.dataset import RankingData, adjacent, stored
from rankwright.data.hashes import STEP, content_keys, drawn
from rankwright.data.order import sizes_to_indptr
from rankwright.data.places import Share, place_of, selected
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team
from rankwright.errors import InputError
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task

# LambdaMART over partitions: what a partition does. It has rows as bins, their scores and gradients, and gives sums.
#
# Nothing that depends on how rows are cut into partitions leaves one: maxima, integers, and values of rows asked for.


class OrderedLabels(NamedTuple):
    """Labels in the order of the documents' content, and query boundaries."""

    labels: Array
    indptr: Array


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
        self._features: DenseFeatures | None = dense_features(self._data, growing.coding)
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
        assert self._features is not None
        if self._data.n_docs:
            self._lambdas = self._gradients_there()
        layout = BinLayout(np.array([len(of_feature) + 1 for of_feature in ends], np.int64))
        self._part = self._binned(ends, layout, self._features.folder)
        self._features = None

    def travels(self) -> bool:
        """Whether it costs much to ask for sums, however few, even from here."""
        return bool(self._part.travels)

    def _binned(self, ends: tuple[Array, ...], layout: BinLayout, folder: Path | None) -> Any:
        packed_bins = pack_bins(self._X, self._rows, ends, self._team, folder)
        return NodeRows(packed_bins, layout, self._team, self._keys, folder)

    def _gradients_there(self) -> Any:
        return self._settings.on(*self._arranged())

    def _arranged(self) -> tuple[OrderedLabels, Array, Array | None, int]:
        """What an objective is made of, in the order of the documents' content."""
        winning = None if self._winning is None else self._winning[self._docs]
        return OrderedLabels(self._data.labels[self._docs], self._data.indptr), self._weights, winning, self._threads

    @property
    def _X(self) -> Array:
        assert self._features is not None
        return self._features.X

    @property
    def _starts(self) -> Array:
        assert self._features is not None
        return self._data.indptr[:-1] if self._features.rows is None else stored(self._data)[1]

    @property
    def _rows(self) -> Array:
        assert self._features is not None
        return self._docs if self._features.rows is None else self._features.rows[self._docs]

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

    def gather_rows(
        self, number: int, salt: int, units: Units, cuts: Cuts, nodes: Array
    ) -> tuple[Array, Array, Array, Array]:
        self._divide(number, salt, units, cuts)
        return self._part.gather_rows(nodes)

    def _divide(self, number: int, salt: int, units: Units, cuts: Cuts) -> None:
        if self._begun != (number, units):
            gradients, hessians, _ = self._gradients_of(number)
            self._part.begin(self._seen(salt), gradients, hessians, units)
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

    def _seen(self, salt: int) -> Array:
        rows, share = np.arange(len(self._docs), dtype=np.uint32), self._growing.tree_rows
        return rows if share >= 1.0 else rows[drawn(self._keys, salt, share)]

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

    def _binned(self, ends: tuple[Array, ...], layout: BinLayout, folder: Path | None) -> Any:
        from rankwright.gpu.trees.partitions import DeviceNodeRows

        return DeviceNodeRows(self._X, self._rows, ends, layout, self._keys, self._team, folder)

    def _gradients_there(self) -> Any:
        """The objective; on the GPU where it has room."""
        from rankwright.gpu.device import free_bytes
        from rankwright.gpu.lambdas import OF_GRADIENT, DownloadedLambdas

        if self._settings.measure.swaps() is None or 2 * OF_GRADIENT * self._data.n_docs > free_bytes():
            return super()._gradients_there()
        return DownloadedLambdas(self._settings.on(*self._arranged(), device="cuda"))


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
    """Rows in partitions on which trees are grown, as :class:`~rankwright.boosting.tree_ranker.LocalRows` has its own.

    `task`: what to train on. `growing`: how trees are grown. `by_tree`: gives, for validation data or None, what gives
    its scores by one tree.
    """

    def __init__(self, task: Task, growing: Growing, by_tree: ByTree) -> None:
        if task.data.n_docs > _MOST_ROWS:
            raise InputError(f"{task.data.n_docs:,} documents; trees can be grown on at most {_MOST_ROWS:,}")
        self._task, self._growing, self._by_tree = task, growing, by_tree
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
            valid_scores=self._by_tree(valid),
        )
        return Boosting(RemoteObjective(), learner, np.zeros(0), None if valid is None else start.scores(valid))

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
        counts = {j: len(values) for j, values in growing.coding.categories.items()}
        d = task.data.n_features
        team, ends = Team(growing.threads), []
        try:
            for first in range(0, d, _COLUMNS):
                given = (first, min(first + _COLUMNS, d))
                columns = np.concatenate(
                    self._actors.call("columns", *given, own=[(of_feature,) for of_feature in rows]), axis=1
                )
                each = [(column,) for column in columns]
                ends.append(team.each(lambda column: quantile_ends(column, growing.max_bins), each))
        finally:
            team.close()
        all_ends = [
            category_ends(counts[j]) if j in counts else of_feature
            for j, of_feature in enumerate(chain.from_iterable(ends))
        ]
        self._actors.update("bin", tuple(all_ends))
        some = (statistics.missing > 0) & (statistics.missing < task.data.n_docs)
        return tuple(all_ends), np.array([len(of_feature) > 0 for of_feature in all_ends], bool) | some


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
