"""The objective of a max-margin problem where its features are: in this process, on a GPU or in partitions.

Every partition is arranged by the content of its own queries and cut into blocks of its own, so its planes depend on
nothing but the partition, the weights and the scale: the same for any number of workers, and after some were lost. The
solver sees blocks, and not where they come from. Data in one place is one partition, whose hinges the solver calls
directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.places import Actors, Place, place_of, selected
from rankwright.data.subsets import stored
from rankwright.maxmargin.hinge import Planes, Scaled, SeparateSlacks, SharedSlack, StructuredHinge, Turn, equal_blocks
from rankwright.maxmargin.order import in_content_order, rows_wanted
from rankwright.measures.forms import Oracle


@dataclass(frozen=True)
class HingeSettings:
    """What is trained for, in a form that travels.

    `oracles`: make the oracle of every loss. `slack` ({"separate", "shared"}): several losses: add up a query's hinges,
    or take the largest one. `device` ({"cpu", "cuda"}): where passes are done; a partition that does not fit on the GPU
    beside others travels there in every pass.
    """

    oracles: tuple[Callable[[], Oracle], ...]
    slack: str
    device: str = "cpu"


def objective_of(
    data: RankingData,
    labels: Sequence[Array],
    weights: Array,
    costs: Sequence[Array],
    settings: HingeSettings,
    n_blocks: int,
    *,
    standardize: bool,
    threads: int,
) -> Any:
    """The hinges of a training set.

    `data`: the queries that are trained on. `labels`, `costs`: for each loss, the labels of the documents as it sees
    them, and what a hinge of 1 costs in every query. `weights`: weights of the queries, which decide between queries of
    equal content. `settings`: what is trained for. `n_blocks`: blocks of queries, unless there are more partitions.
    `standardize`: divide features by their standard deviation. `threads`: threads for a partition.
    """
    place = place_of(data, settings.device)
    statistics = place.statistics(threads, summed=standardize)
    scale = statistics.scale if standardize else np.ones(data.n_features)
    shares = place.shares
    blocks = _blocks_of_partitions(np.array([len(share.chosen) for share in shares]), n_blocks)
    own = [
        (
            [place.taken(of_loss, share) for of_loss in labels],
            weights[share.chosen],
            [cost[share.chosen] for cost in costs],
            int(many),
        )
        for share, many in zip(shares, blocks, strict=True)
    ]
    shared = statistics.low, statistics.high, scale, settings
    actors = place.make(hinge_of_partition, *shared, own=own, threads=threads)
    if actors.only is not None:
        return actors.only
    return PartitionedHinge(place, actors, scale, blocks, n_blocks, 1 if settings.slack == "shared" else len(labels))


def hinge_of_partition(
    data: RankingData,
    threads: int,
    queries: Array,
    labels: Sequence[Array],
    weights: Array,
    costs: Sequence[Array],
    n_blocks: int,
    low: Array,
    high: Array,
    scale: Array,
    settings: HingeSettings,
) -> Any:
    """The hinges of some queries of a partition, in the order of their content."""
    if not len(queries):
        return _NoHinge(int(np.isfinite(scale).sum()))
    hinges_of: Callable[..., Sequence[Any]] = hinges_here
    if settings.device == "cuda":
        from rankwright.gpu.training import hinges_there as hinges_of
    oracles = [make() for make in settings.oracles]
    ordered_by = labels, costs, weights, low, high
    hinges = hinges_of(
        selected(data, queries), oracles, *ordered_by, scale, equal_blocks(len(queries), n_blocks), threads
    )
    together = SharedSlack if settings.slack == "shared" else SeparateSlacks
    return hinges[0] if len(hinges) == 1 else together(hinges)


def hinges_here(
    data: RankingData,
    oracles: Sequence[Oracle],
    labels: Sequence[Array],
    costs: Sequence[Array],
    weights: Array,
    low: Array,
    high: Array,
    scale: Array,
    blocks: Array,
    threads: int,
) -> list[StructuredHinge]:
    """A hinge for every loss; passes are done on the CPU."""
    order, labels, costs = in_content_order(data, labels, costs, weights, low, high, threads)
    X, given = stored(data)[0], (scale, blocks, threads)
    return [
        StructuredHinge(X, order.rows, own, order.indptr, oracle, cost, *given)
        for own, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


class _NoHinge:
    """The hinges of a partition without queries to train on."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features

    def evaluate(self, w: Array) -> Planes:
        return Planes(np.empty(0), np.empty((0, len(w))), np.empty(0))

    def value(self, w: Array) -> float:
        return 0.0

    def turn(self, w: Array) -> Turn:
        return Turn(np.zeros_like(w), True)

    def turn_back(self) -> None: ...

    def rescale(self, factor: float) -> None: ...

    def sample(self, wanted: int) -> Array:
        return np.empty((0, self._n_features))


class PartitionedHinge(Scaled):
    """The objective over all partitions, as the solver sees it.

    `place`, `actors`: where the features are, and the hinges of every partition. `scale`: divisor of each feature; inf
    leaves a feature out. `blocks`: blocks of every partition. `n_blocks`: blocks that were asked for; where partitions
    are more, neighbours share their planes. `n_slacks`: planes of a block.
    """

    def __init__(self, place: Place, actors: Actors, scale: Array, blocks: Array, n_blocks: int, n_slacks: int) -> None:
        super().__init__(scale)
        self._place, self._actors = place, actors
        self._groups = _groups(blocks, n_blocks)
        self.n_blocks = n_slacks * (int(blocks.sum()) if self._groups is None else len(self._groups) - 1)
        self._n_docs = np.array([len(place.rows_of(share)) for share in place.shares])

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data at the weights ``w``."""
        return Planes(**self._place.recall(partial(self._evaluate, w)))

    def _evaluate(self, w: Array) -> dict[str, Array]:
        planes = self._actors.ask("evaluate", w)
        columns = {name: [getattr(of_part, name) for of_part in planes] for name in ("losses", "vectors", "values")}
        return {name: np.concatenate(self._together(column)) for name, column in columns.items()}

    def _together(self, of_parts: Sequence[Array]) -> Sequence[Array]:
        """Sums over the partitions of a group, in their order."""
        if self._groups is None:
            return of_parts
        some = [own for own in of_parts if len(own)]
        return [sum(some[first + 1 : last], some[first]) for first, last in pairwise(self._groups)]

    def sample(self) -> Array:
        """Features of some documents as weights see them, less the means of their queries."""
        n_docs = int(self._n_docs.sum())
        wanted = -(-rows_wanted(n_docs, self.n_features) * self._n_docs // max(1, n_docs))
        return np.concatenate(self._actors.ask("sample", own=[(int(many),) for many in wanted]))

    def value(self, w: Array) -> float:
        """The sum of all hinges."""
        return float(sum(self._actors.ask("value", w)))

    def turn(self, w: Array) -> Turn:
        """Compare from now on with the rankings that the weights ``w`` make."""
        turns = self._actors.tell("turn", w)
        return Turn(np.sum([turn.vector for turn in turns], axis=0), all(turn.same_planes for turn in turns))

    def turn_back(self) -> None:
        """Compare with an ideal ranking again."""
        self._actors.tell("turn_back")

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        self._actors.tell("rescale", factor)

    def close(self) -> None:
        """Forget the hinges."""
        self._actors.close()


def _blocks_of_partitions(n_queries: Array, n_blocks: int) -> Array:
    """Blocks of every partition: in proportion to its queries, at least one, at most one a query; none for none."""
    some = n_queries > 0
    if some.sum() > n_blocks:
        return some.astype(np.int64)
    shares = n_blocks * n_queries / max(1, int(n_queries.sum()))
    blocks = np.where(some, np.clip(np.floor(shares), 1, n_queries), 0).astype(np.int64)
    for part in np.lexsort((np.arange(len(shares)), -(shares - np.floor(shares)))):
        if blocks.sum() >= n_blocks:
            break
        blocks[part] += blocks[part] < n_queries[part] and some[part]
    return blocks


def _groups(blocks: Array, n_blocks: int) -> Array | None:
    """Boundaries of runs of partitions that share their planes, where partitions are more than blocks; else None."""
    some = int((blocks > 0).sum())
    return None if some <= n_blocks else equal_blocks(some, n_blocks)
