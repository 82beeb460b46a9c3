"""LambdaMART over partitions: what is decided here. Bins, trees and leaves come from sums over all partitions.

Bins are those that the same data gives in one place: a sample of rows, if there are many, is drawn from all documents
in the order of their content. So neither bins nor trees depend on how the queries are cut into partitions, on their
order, or on where the partitions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.places import Share, place_of
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team
from rankwright.errors import InputError
from rankwright.models.trees.binning import _between, _ends, _sample
from rankwright.models.trees.partition_histograms import PartitionHistograms
from rankwright.rankers.background import Start
from rankwright.rankers.base import Task
from rankwright.rankers.parted_trees import CardTreePart, TreePart
from rankwright.rankers.tree_rows import ByTree, Growing, LambdaSettings
from rankwright.solvers.boosting import Boosting
from rankwright.solvers.parted_learner import AtParts, PartedLearner

Array = npt.NDArray[Any]
_COLUMNS = 16  # of a sample that travel together
_MOST_ROWS = (1 << 31) - 1


class PartedRows:
    """Rows in partitions on which trees are grown, as :class:`~rankwright.rankers.tree_rows.LocalRows` has its own.

    Parameters
    ----------
    task : Task
        What to train on.
    growing : Growing
        How trees are grown.
    by_tree : callable
        Gives, for validation data or None, what gives its scores by one tree.
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
        kind = TreePart if growing.device == "cpu" else CardTreePart
        self._crew = self._place.make(kind, growing, lambdas, own=arguments, threads=growing.threads)
        try:
            ends, varies = self._bin()
        except BaseException:
            self._crew.close()
            raise
        self._source = PartitionHistograms(
            ends,
            varies,
            frozenset(growing.coding.categories),
            data.n_docs,
            counts_rows=not (growing.newton or growing.directions),
            samples=growing.node_share < 1.0,
            # Asking for more than is needed pays where an answer takes a trip, to another process or to a GPU.
            ahead=not self._place.is_here or any(self._crew.ask("travels")),
            threads=growing.threads,
        )
        learner = PartedLearner(
            growing.grower(self._source),
            self._crew,
            recall=self._place.recall,
            shrinkage=growing.learning_rate,
            tree_features=growing.tree_features,
            seed=growing.seed,
            valid_scores=self._by_tree(valid),
        )
        return Boosting(AtParts(), learner, np.zeros(0), None if valid is None else start.scores(valid))

    def close(self) -> None:
        """Forget what is at the parts, and shut down the threads."""
        self._source.close()
        self._crew.close()

    def _bin(self) -> tuple[tuple[Array, ...], Array]:
        """Have all rows binned; the upper ends of all bins, and which features can split rows."""
        task, growing = self._task, self._growing
        statistics = reduce(Statistics.merge, self._crew.ask("statistics"))
        hashes = self._crew.tell("arrange", statistics.varies)
        rows = _sampled(task, self._place.shares, hashes, growing.seed)
        counts = {j: len(values) for j, values in growing.coding.categories.items()}
        d = task.data.n_features
        team, ends = Team(growing.threads), []
        try:
            for first in range(0, d, _COLUMNS):
                given = (first, min(first + _COLUMNS, d))
                columns = np.concatenate(
                    self._crew.ask("columns", *given, own=[(of_feature,) for of_feature in rows]), axis=1
                )
                each = [(column,) for column in columns]
                ends.append(team.each(lambda column: _ends(column, growing.max_bins), each))
        finally:
            team.close()
        all_ends = [
            _between(counts[j]) if j in counts else of_feature for j, of_feature in enumerate(chain.from_iterable(ends))
        ]
        self._crew.tell("bin", tuple(all_ends))
        some = (statistics.missing > 0) & (statistics.missing < task.data.n_docs)
        return tuple(all_ends), np.array([len(of_feature) > 0 for of_feature in all_ends], bool) | some


def _sampled(task: Task, shares: Sequence[Share], hashes: Sequence[Array], seed: int) -> list[Array | None]:
    """For every part, the rows from which bins are found, as it arranges them; None for all."""
    data = task.data
    sample = _sample(data.n_docs, seed)
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
