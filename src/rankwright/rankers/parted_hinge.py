"""Max-margin training over parts: each part finds the planes of its own blocks of queries, the solver is the same.

A part is arranged by the content of its own queries and cut into blocks of its own, so its planes depend on nothing but
the part, the weights and the scale. The solver sees blocks, and not where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.dataset import RankingData
from rankwright.data.parts import rows_of, some_queries, stored
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team
from rankwright.engines.features import PartedFeatures
from rankwright.engines.fleet import Crew
from rankwright.objectives.canonical import canonical_order
from rankwright.objectives.combined import SeparateSlacks, SharedSlack
from rankwright.objectives.sample import rows_wanted
from rankwright.objectives.structured import Planes, StructuredHinge, Turn, equal_blocks
from rankwright.rankers.scales import varying

__all__ = ["PartHinge", "PartedHinge", "Wanted"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Wanted:
    """What is trained for, in a form that travels.

    Attributes
    ----------
    oracles : tuple of (function, arguments)
        How the oracle of every loss is made.
    slack : {"separate", "shared"}
        Several losses: add up a query's hinges, or take the largest one.
    standardize : bool
        Divide features by their standard deviation.
    device : {"cpu", "cuda"}
        Where passes are done; a part that does not fit the card beside others travels there in every pass.
    """

    oracles: tuple[tuple[Any, tuple[Any, ...]], ...]
    slack: str
    standardize: bool
    device: str = "cpu"


class PartHinge:
    """The hinges of some queries of one part.

    Parameters
    ----------
    data, threads
        The part.
    queries : ndarray
        The queries that are trained on, numbers within the part.
    labels : sequence of ndarray
        Labels of their documents, as each loss sees them.
    weights : ndarray
        A weight for each of these queries.
    costs : sequence of ndarray
        What a hinge of 1 costs, for each loss and query.
    wanted : Wanted
        What is trained for.
    """

    def __init__(
        self,
        data: RankingData,
        threads: int,
        queries: Array,
        labels: Sequence[Array],
        weights: Array,
        costs: Sequence[Array],
        wanted: Wanted,
    ) -> None:
        self._data = some_queries(data, queries)
        self._threads, self._labels, self._weights, self._costs = threads, labels, weights, costs
        self._wanted = wanted
        self._objective: Any = None

    def statistics(self) -> Statistics:
        """What one reading of the features finds."""
        team = Team(self._threads)
        try:
            return Statistics.of(self._data, team, summed=self._wanted.standardize)
        finally:
            team.close()

    def arrange(self, low: Array, high: Array) -> None:
        """Bring documents and queries into the order of their content."""
        if not self._data.n_queries:
            return
        X, starts = stored(self._data)
        team = Team(self._threads)
        try:
            given = (self._labels, self._data.indptr, self._weights, low, high)
            self._order = canonical_order(X, starts, *given, team)
        finally:
            team.close()

    def build(self, n_blocks: int, scale: Array) -> None:
        """Make the hinges."""
        if not self._data.n_queries:
            return
        X, _ = stored(self._data)
        order = self._order
        labels = [of_loss[order.docs] for of_loss in self._labels]
        for own in labels:
            own.flags.writeable = False
        oracles = [make(*arguments) for make, arguments in self._wanted.oracles]
        costs = [cost[order.queries] for cost in self._costs]
        given = (scale, equal_blocks(len(order.queries), n_blocks), self._threads)
        if self._wanted.device == "cuda":
            from rankwright.gpu.training import streamed_hinges

            hinges: Any = streamed_hinges(X, order, labels, oracles, costs, *given)
        else:
            hinges = [
                StructuredHinge(X, order.rows, own, order.indptr, oracle, cost, *given)
                for own, oracle, cost in zip(labels, oracles, costs, strict=True)
            ]
        together = SharedSlack if self._wanted.slack == "shared" else SeparateSlacks
        self._objective = hinges[0] if len(hinges) == 1 else together(hinges)

    def evaluate(self, w: Array) -> tuple[Array, Array, Array]:
        """Losses, vectors and values of the planes at the weights ``w``."""
        if self._objective is None:
            return np.empty(0), np.empty((0, len(w))), np.empty(0)
        planes = self._objective.evaluate(w)
        return planes.losses, planes.vectors, planes.values

    def value(self, w: Array) -> float:
        """The sum of the hinges."""
        return 0.0 if self._objective is None else float(self._objective.value(w))

    def turn(self, w: Array) -> tuple[Array, bool]:
        """Compare from now on with the rankings that the weights ``w`` make."""
        if self._objective is None:
            return np.zeros_like(w), True
        turned = self._objective.turn(w)
        return turned.vector, turned.same_planes

    def turn_back(self) -> None:
        """Compare with an ideal ranking again."""
        if self._objective is not None:
            self._objective.turn_back()

    def rescale(self, factor: float) -> None:
        """Multiply all costs."""
        if self._objective is not None:
            self._objective.rescale(factor)

    def sample(self, wanted: int, n_features: int) -> Array:
        """Features of so many documents, less the means of their queries."""
        if self._objective is None or wanted == 0:
            return np.empty((0, n_features))
        return np.asarray(self._objective.sample(wanted))

    def close(self) -> None:
        """Shut down the threads."""
        if self._objective is not None:
            self._objective.close()


class PartedHinge:
    """The objective over all parts, as the solver sees it.

    Parameters
    ----------
    data : RankingData
        The queries that are trained on, with features in parts.
    labels, weights, costs
        Labels as each loss sees them; weights of the queries; what a hinge of 1 costs, for each loss and query.
    wanted : Wanted
        What is trained for.
    n_blocks : int
        Blocks of queries, if there are as few parts as that.
    threads : int
        Threads for a part.
    """

    def __init__(
        self,
        data: RankingData,
        labels: Sequence[Array],
        weights: Array,
        costs: Sequence[Array],
        wanted: Wanted,
        n_blocks: int,
        threads: int,
    ) -> None:
        X, starts = stored(data)
        assert isinstance(X, PartedFeatures)
        shares = X.shares(starts)
        docs = [rows_of(data.indptr[:-1][share.chosen], sizes_to_indptr(data.sizes[share.chosen])) for share in shares]
        own = [
            (
                share.local,
                [of_loss[rows] for of_loss in labels],
                weights[share.chosen],
                [c[share.chosen] for c in costs],
            )
            for share, rows in zip(shares, docs, strict=True)
        ]
        self._n_docs = np.array([len(rows) for rows in docs])
        self._fleet = X.fleet
        self._crew: Crew = X.fleet.make(PartHinge, wanted, own=own, threads=threads)
        try:
            self._prepare(np.array([len(share.chosen) for share in shares]), n_blocks, wanted, data.n_features)
        except BaseException:
            self.close()
            raise

    def _prepare(self, n_queries: Array, n_blocks: int, wanted: Wanted, n_features: int) -> None:
        found = reduce(Statistics.merge, self._crew.ask("statistics"))
        self._crew.tell("arrange", found.low, found.high)
        scale = np.ones(n_features)
        if wanted.standardize:
            scale = np.where(varying(found.low, found.high, found.deviations), found.deviations, np.inf)
        self._scale, self._inverse = scale, 1.0 / scale
        self._kept = np.flatnonzero(self._inverse)
        of_part = _blocks_of_parts(n_queries, n_blocks)
        self._crew.tell("build", scale, own=[(int(many),) for many in of_part])
        n_planes = of_part * (1 if wanted.slack == "shared" else len(wanted.oracles))
        self._groups = _groups(n_planes, of_part, n_blocks)
        self.n_blocks = int(n_planes.sum() if self._groups is None else len(self._groups) - 1)
        if self._groups is not None:
            self.n_blocks *= int(n_planes.max())

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return len(self._kept)

    def evaluate(self, w: Array) -> Planes:
        """One pass over the data at the weights ``w``."""
        return Planes(**self._fleet.recall(partial(self._evaluate, w)))

    def _evaluate(self, w: Array) -> dict[str, Array]:
        columns: list[Sequence[Array]] = list(zip(*self._crew.ask("evaluate", w), strict=True))
        if self._groups is not None:
            columns = [self._together(column) for column in columns]
        return dict(zip(("losses", "vectors", "values"), map(np.concatenate, columns), strict=True))

    def _together(self, of_parts: Sequence[Array]) -> Sequence[Array]:
        """Sums over the parts of a group, in their order."""
        assert self._groups is not None
        some = [own for own in of_parts if len(own)]
        return [sum(some[first + 1 : last], some[first]) for first, last in pairwise(self._groups)]

    def sample(self) -> Array:
        """Features of some documents as weights see them, less the means of their queries."""
        total = rows_wanted(int(self._n_docs.sum()), self.n_features)
        wanted = -(-total * self._n_docs // max(1, int(self._n_docs.sum())))
        parts = self._crew.ask("sample", self.n_features, own=[(int(many),) for many in wanted])
        return np.concatenate(parts)

    def value(self, w: Array) -> float:
        """The sum of all hinges."""
        return float(sum(self._crew.ask("value", w)))

    def turn(self, w: Array) -> Turn:
        """Compare from now on with the rankings that the weights ``w`` make."""
        vectors, same = zip(*self._crew.tell("turn", w), strict=True)
        return Turn(np.sum(vectors, axis=0), all(same))

    def turn_back(self) -> None:
        """Compare with an ideal ranking again."""
        self._crew.tell("turn_back")

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        self._crew.tell("rescale", factor)

    def coefficients(self, w: Array) -> Array:
        """The weights of the unscaled features."""
        coefficients = np.zeros(len(self._scale))
        coefficients[self._kept] = w * self._inverse[self._kept]
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """The opposite of `coefficients`."""
        return np.asarray(coefficients[self._kept] * self._scale[self._kept])

    def close(self) -> None:
        """Forget the hinges."""
        self._crew.close()


def _blocks_of_parts(n_queries: Array, n_blocks: int) -> Array:
    """Blocks of every part: in proportion to its queries, at least one, at most one a query; none for none."""
    some = n_queries > 0
    shares = n_blocks * n_queries / max(1, int(n_queries.sum()))
    found = np.where(some, np.clip(np.floor(shares), 1, n_queries), 0).astype(np.int64)
    for part in np.lexsort((np.arange(len(shares)), -(shares - np.floor(shares)))):
        if found.sum() >= n_blocks:
            break
        found[part] += found[part] < n_queries[part] and some[part]
    return found


def _groups(n_planes: Array, of_part: Array, n_blocks: int) -> Array | None:
    """Boundaries of runs of parts that share their planes, where parts are more than blocks; else None."""
    some = int((n_planes > 0).sum())
    if some <= n_blocks:
        return None
    return equal_blocks(some, n_blocks)
