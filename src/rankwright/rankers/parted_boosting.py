"""LambdaMART over parts: what is decided here. Bins, trees and their leaves come from sums over all parts.

Bins are those that the same data gives in one place: a sample of rows, if there are many, is drawn from all documents
in the order of their content. So neither bins nor trees depend on how the queries are cut into parts, on their order,
or on where the parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.dataset import RankingData
from rankwright.data.parts import rows_of, stored
from rankwright.data.threads import Team
from rankwright.engines.features import PartedFeatures, Share
from rankwright.engines.fleet import Crew, Fleet
from rankwright.engines.local import Local
from rankwright.errors import InputError
from rankwright.models.trees.binning import _between, _ends, _sample
from rankwright.models.trees.forest import Tree
from rankwright.models.trees.parted_grow import PartedGrower
from rankwright.rankers.base import Task
from rankwright.rankers.parted_trees import PartSettings, TreePart
from rankwright.solvers.parted_learner import PartedLearner

__all__ = ["Growing", "PartedTrees"]

Array = npt.NDArray[Any]
_COLUMNS = 16  # of a sample that travel together
_MOST_ROWS = (1 << 31) - 1


@dataclass(frozen=True, eq=False)
class Growing:
    """How trees are grown: parameters of the ranker, and its seed and threads."""

    max_bins: int
    max_leaves: int
    min_rows: int
    counts_rows: bool
    directions: dict[int, int]
    learning_rate: float
    tree_features: float
    node_share: float
    seed: int
    threads: int


class PartedTrees:
    """A training over parts that is ready for its first round.

    Parameters
    ----------
    task : Task
        What to train on.
    settings : PartSettings
        What parts have to know.
    growing : Growing
        How trees are grown.
    start : ndarray or None
        Scores to start from.
    valid_scores : callable or None
        Scores of the validation data by one tree.

    Attributes
    ----------
    learner : PartedLearner
        Grows the trees.
    """

    def __init__(
        self,
        task: Task,
        settings: PartSettings,
        growing: Growing,
        start: Array | None,
        valid_scores: Callable[[Tree], Array] | None,
    ) -> None:
        data, weights = task.data, task.weights
        if data.n_docs > _MOST_ROWS:
            raise InputError(f"{data.n_docs:,} documents; trees can be grown on at most {_MOST_ROWS:,}")
        fleet, self._shares = _fleet_of(data)
        own = []
        for share in self._shares:
            rows = rows_of(data.indptr[:-1][share.chosen], sizes_to_indptr(data.sizes[share.chosen]))
            of_rows = [None if values is None else values[rows] for values in (weights.winning, start)]
            own.append((share.local, weights.queries[share.chosen], *of_rows))
        self._crew: Crew = fleet.make(TreePart, settings, own=own, threads=growing.threads)
        try:
            ends, varies = self._bin(task, settings, growing)
        except BaseException:
            self._crew.close()
            raise
        self._grower = PartedGrower(
            ends,
            varies,
            frozenset(settings.coding.categories),
            data.n_docs,
            growing.counts_rows,
            growing.max_leaves,
            growing.min_rows,
            growing.node_share,
            growing.node_share,
            growing.threads,
            growing.directions,
            ahead=not fleet.is_here or any(self._crew.ask("travels")),
        )
        self.learner = PartedLearner(
            self._grower,
            self._crew,
            shrinkage=growing.learning_rate,
            tree_features=growing.tree_features,
            seed=growing.seed,
            valid_scores=valid_scores,
            recall=fleet.recall,
        )

    def close(self) -> None:
        """Forget what is at the parts, and shut down the threads."""
        self._grower.close()
        self._crew.close()

    def _bin(self, task: Task, settings: PartSettings, growing: Growing) -> tuple[tuple[Array, ...], Array]:
        """Have all rows binned; the upper ends of all bins, and which features can split rows."""
        firsts, vary, missing = zip(*self._crew.ask("extent"), strict=True)
        hashes = self._crew.tell("arrange", _vary(firsts, vary))
        rows = _sampled(task, self._shares, hashes, growing.seed)
        counts = {j: len(values) for j, values in settings.coding.categories.items()}
        d = task.data.n_features
        team, ends = Team(growing.threads), []
        try:
            for first in range(0, d, _COLUMNS):
                given = (first, min(first + _COLUMNS, d))
                columns = np.concatenate(self._crew.ask("columns", *given, own=[(own,) for own in rows]), axis=1)
                each = [(column,) for column in columns]
                ends.append(team.each(lambda column: _ends(column, growing.max_bins), each))
        finally:
            team.close()
        found = [_between(counts[j]) if j in counts else own for j, own in enumerate(chain.from_iterable(ends))]
        self._crew.tell("bin", tuple(found))
        n_missing = np.sum(missing, axis=0)
        some = (n_missing > 0) & (n_missing < task.data.n_docs)
        return tuple(found), np.array([len(own) > 0 for own in found], bool) | some


@dataclass(frozen=True, eq=False)
class _Whole:
    """A data set in one place, as its only part."""

    data: RankingData

    def load(self) -> RankingData:
        """The data set."""
        return self.data


def _fleet_of(data: RankingData) -> tuple[Fleet, list[Share]]:
    """The parts of a data set, and the queries of each; one that is not in parts is one, which is here."""
    X, starts = stored(data)
    if isinstance(X, PartedFeatures):
        return X.fleet, X.shares(starts)
    every = np.arange(data.n_queries)
    return Fleet(Local(), [_Whole(data)], [data.n_docs]), [Share(every, every)]


def _vary(firsts: Sequence[Array | None], vary: Sequence[Array]) -> Array:
    """Which features vary, from those that vary in a part, and the first row of every part."""
    found = np.any(vary, axis=0)
    some = [first for first in firsts if first is not None]
    for first in some[1:]:
        found |= (first != some[0]) & ~(np.isnan(first) & np.isnan(some[0]))
    return np.asarray(found)


def _sampled(task: Task, shares: Sequence[Share], hashes: Sequence[Array], seed: int) -> list[Array | None]:
    """For every part, the rows from which bins are found, as it arranges them; None for all."""
    data = task.data
    sample = _sample(data.n_docs, seed)
    if len(sample) == data.n_docs:
        return [None] * len(shares)
    sums = np.empty(data.n_queries, np.uint64)
    for share, own in zip(shares, hashes, strict=True):
        sums[share.chosen] = own
    order = np.lexsort((task.weights.queries, sums))
    bounds = sizes_to_indptr(data.sizes[order])
    at = np.searchsorted(bounds, sample, side="right") - 1
    query, place = order[at], sample - bounds[at]
    rows: list[Array | None] = []
    where = np.full(data.n_queries, -1)
    for share in shares:
        where[:] = -1
        where[share.chosen] = sizes_to_indptr(data.sizes[share.chosen])[:-1]
        own = where[query]
        rows.append((own + place)[own >= 0])
    return rows
