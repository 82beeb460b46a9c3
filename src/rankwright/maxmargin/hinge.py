"""The structured hinge: Σ_q c_q H_q(w), with H_q(w) = max over rankings of (loss − margin), and its cutting planes.

For each query the scores are computed, the oracle gives the most violated ranking as one coefficient per document, and
the coefficients are summed into a plane (ℓ, v) with H_q(w) = ℓ − v·w while the query's rows are still in cache.
Features are divided by ``scale`` on the way, which standardises them without a copy: the coefficients of a query sum to
0, so means cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array, Compiled
from rankwright.data.dataset import RankingData, stored
from rankwright.data.order import sizes_to_indptr
from rankwright.data.places import Actors, Place, place_of, selected
from rankwright.data.threads import Team, runs_of
from rankwright.maxmargin.losses import TrainingSet
from rankwright.maxmargin.order import LossData, centred_sample, in_content_order, rows_wanted
from rankwright.measures.base import Oracle
from rankwright.measures.oracles.common import BINS, ORACLE, OTHER, WORK, sort_descending
from rankwright.models.products import FASTMATH, FirstClass, add_listed_rows, kernel_form, row_scores

_TASK_DOCS = 1 << 13  # at least, of a run of blocks in one thread
ALONE, KEEP, REUSE = 0, 1, 2  # what a pass does with scores and orders
_NOTHING = np.empty(0)
_NO_QUERY = np.empty(0, np.int64)
_UNSHARED: tuple[int, Array, Array] = (ALONE, _NOTHING, _NO_QUERY)


@njit(cache=True, inline="always")
def _scores_in_order(X: Any, rows: Any, weights: Any, unordered: Any, scores: Any) -> None:
    """Score the rows of a query, which lie together in X, there; then bring the scores into the order of ``rows``."""
    first = rows[0]
    for row in rows:
        if row < first:
            first = row
    row_scores(X, first, first + rows.size, weights, unordered)
    for i in range(rows.size):
        scores[i] = unordered[rows[i] - first]


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _evaluate(
    X: Any, rows: Array, labels: Array, indptr: Array, blocks: Array, first: int, last: int, weights: Array,
    inverse: Array, cost: Array, oracle: Compiled, parameters: Array, added: Array, losses: Array, values: Array,
    planes: Array, longest: int, only_values: bool, sharing: int, all_scores: Array, all_orders: Array,
) -> None:  # fmt: skip
    """Loss, value and plane of the blocks ``first`` … ``last − 1``; queries of cost 0 are left out.

    ``added``, if not empty, is added to the coefficients that the oracle gives. Scores and orders are kept for other
    losses, or taken from one that kept them.
    """
    own_scores, coef, unordered = np.empty(longest), np.empty(longest), np.empty(longest)
    own_order, work = np.empty(longest, np.int64), np.empty(WORK * longest + BINS)
    for block in range(first, last):
        plane = planes[block]
        for j in range(plane.size):
            plane[j] = 0.0
        losses[block] = values[block] = 0.0
        for q in range(blocks[block], blocks[block + 1]):
            if cost[q] == 0.0 and sharing != KEEP:
                continue
            start, stop = indptr[q], indptr[q + 1]
            n = stop - start
            scores = own_scores[:n] if sharing == ALONE else all_scores[start:stop]
            order = own_order[:n] if sharing == ALONE else all_orders[start:stop]
            if sharing != REUSE:
                _scores_in_order(X, rows[start:stop], weights, unordered, scores)
                sort_descending(scores, order, work)
            if cost[q] == 0.0:
                continue
            loss = oracle(scores, labels[start:stop], order, parameters, coef[:n], work)
            if added.size:
                for i in range(n):
                    coef[i] += added[start + i]
            margin = 0.0
            for i in range(n):  # nothing is written here: how it is summed must not depend on where arrays lie
                margin += coef[i] * scores[i]
            for i in range(n):
                coef[i] *= cost[q]
            losses[block] += cost[q] * loss
            values[block] += cost[q] * (loss - margin)
            if not only_values:
                add_listed_rows(X, rows[start:stop], coef, plane)
        for j in range(plane.size):
            plane[j] *= inverse[j]


@njit(cache=True, nogil=True)
def _mark_others(
    X: Array, rows: Array, labels: Array, indptr: Array, weights: Array, cost: Array, longest: int
) -> None:
    """Label all good documents but the topmost of every query as neither good nor bad."""
    scores, unordered = np.empty(longest), np.empty(longest)
    for q in range(indptr.size - 1):
        if cost[q] == 0.0:
            continue
        start, stop = indptr[q], indptr[q + 1]
        _scores_in_order(X, rows[start:stop], weights, unordered, scores)
        top = -1
        for i in range(stop - start):
            if not labels[start + i] > 0.0:
                continue
            if top >= 0 and scores[i] <= scores[top]:
                labels[start + i] = OTHER
            else:
                if top >= 0:
                    labels[start + top] = OTHER
                top = i


@njit(cache=True, nogil=True)
def _coefficients(
    X: Any, rows: Array, labels: Array, indptr: Array, first: int, last: int, weights: Array, cost: Array,
    oracle: Compiled, parameters: Array, coef: Array, losses: Array, longest: int,
) -> None:  # fmt: skip
    """Losses of the queries ``first`` … ``last − 1``, and coefficients of their documents."""
    scores, unordered = np.empty(longest), np.empty(longest)
    order, work = np.empty(longest, np.int64), np.empty(WORK * longest + BINS)
    for q in range(first, last):
        if cost[q] == 0.0:
            continue
        start, stop = indptr[q], indptr[q + 1]
        n = stop - start
        _scores_in_order(X, rows[start:stop], weights, unordered, scores)
        sort_descending(scores[:n], order[:n], work)
        losses[q] = oracle(scores[:n], labels[start:stop], order[:n], parameters, coef[start:stop], work)


@njit(cache=True, nogil=True)
def _score_query(X: Array, rows: Array, weights: Array) -> Any:
    scores = np.empty(rows.size)
    _scores_in_order(X, rows, weights, np.empty(rows.size), scores)
    return scores


@njit(cache=True, nogil=True)
def _add_query(X: Array, rows: Array, coef: Array, inverse: Array, plane: Array) -> None:
    sums = np.zeros(plane.size)
    add_listed_rows(X, rows, coef, sums)
    for j in range(plane.size):
        plane[j] += sums[j] * inverse[j]


@dataclass(frozen=True, eq=False)
class Planes:
    """The result of one pass over the data: a plane per block of queries, and the value of the hinge there.

    `losses`: ℓ of each block. `vectors` (shape (blocks, features)): v of each block; overwritten by the next pass.
    `values`: the block's hinge at the weights of the pass, ℓ − v·w.
    """

    losses: Array
    vectors: Array
    values: Array

    @classmethod
    def empty(cls, n_blocks: int, n_features: int) -> Planes:
        return cls(np.empty(n_blocks), np.empty((n_blocks, n_features)), np.empty(n_blocks))


@dataclass(frozen=True, eq=False)
class Linearisation:
    """The rankings that some weights make, to compare with.

    `vector`: Σ_q c_q v_q, with v_q = Ψ(an ideal ranking) − Ψ(the ranking). `same_planes`: whether planes found before
    are planes of the hinge still.
    """

    vector: Array
    same_planes: bool

    @classmethod
    def sum(cls, linearisations: Sequence[Linearisation]) -> Linearisation:
        """That of several losses, or of several partitions."""
        vectors = [each.vector for each in linearisations]
        return cls(np.sum(vectors, axis=0), all(each.same_planes for each in linearisations))


class Scaled:
    """Weights of features divided by ``scale``, which is inf for features without a weight."""

    def __init__(self, scale: Array) -> None:
        self._scale, self._inverse = scale, 1.0 / scale
        self._kept = np.flatnonzero(self._inverse)

    @property
    def n_features(self) -> int:
        return len(self._kept)

    def coefficients(self, w: Array) -> Array:
        coefficients = np.zeros(len(self._scale))
        coefficients[self._kept] = w * self._inverse[self._kept]
        return coefficients

    def weights(self, coefficients: Array) -> Array:
        """The opposite of `coefficients`."""
        return np.asarray(coefficients[self._kept] * self._scale[self._kept])


@dataclass(eq=False)
class StructuredHinge(Scaled):
    """The objective of a structured SVM on given data.

    `rows`: the documents, query after query: rows of X, where those of a query lie together in any order. `labels`: of
    these documents, in the form the oracle expects. `indptr`: query boundaries in ``rows``; every query with a cost
    above 0 must have something to order. `cost`: weight c_q of each query. `scale`: divisor of each feature; inf leaves
    a feature out, from weights and planes too. `blocks`: boundaries of the blocks of queries that share a plane.
    `threads`: the result does not depend on it.
    """

    X: Any
    rows: Array
    labels: Array
    indptr: Array
    oracle: Oracle
    cost: Array
    scale: Array
    blocks: Array
    threads: int = 1
    _team: Team = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._X = kernel_form(self.X)
        self._longest = int(np.diff(self.indptr).max())
        self._parameters = self.oracle.parameters(self._longest)
        self._kernel = FirstClass(self.oracle.kernel, ORACLE)
        self._own_labels, self._added = self.labels, _NOTHING
        self._shared = _UNSHARED
        Scaled.__init__(self, self.scale)
        self._hard = _hard_queries(self.oracle, self.labels, self.indptr, self.cost)
        self._planes = Planes.empty(self.n_blocks, len(self.scale))
        self._team = Team(self.threads)

    @property
    def n_blocks(self) -> int:
        return len(self.blocks) - 1

    def share(self, sharing: int, scores: Array, orders: Array) -> None:
        """Keep scores and orders of every pass for other losses, or take them from the one that kept them."""
        self._shared = (sharing, scores, orders)

    def rescale(self, factor: float) -> None:
        """Multiply all costs: the same problem for another C."""
        self.cost = self.cost * factor

    def sample(self, wanted: int | None = None) -> Array:
        """Features of some documents as weights see them, less the means of their queries; about ``wanted``."""
        wanted = rows_wanted(len(self.rows), len(self._kept)) if wanted is None else wanted
        return centred_sample(self.X, self.rows, self.indptr, self._inverse, self._kept, wanted, self._team)

    def evaluate(self, w: Array, only: Array | None = None) -> Planes:
        """One pass over the data at the weights ``w``; over the queries in ``only``, if given."""
        self._pass(self.coefficients(w), self.cost if only is None else self.cost * only, self.blocks, self._planes)
        return self._of_kept()

    def linearise(self, w: Array, only: Array | None = None) -> Linearisation:
        """Compare from now on with the rankings that the weights ``w`` make (`rankwright.maxmargin.ramp`).

        The vector is that of the queries in ``only``, if given.
        """
        changed = self.oracle.feature_map == "mrr" and self._keep_topmost(w)
        cost = self.cost if only is None else self.cost * only
        self._pass(self.coefficients(w), cost, self.blocks, self._planes, current=True)
        return Linearisation(self._of_kept().vectors.sum(axis=0), not changed)

    def current_ranking(self, w: Array) -> Array:
        """The coefficient of every document in Ψ(an ideal ranking) − Ψ(the ranking that the weights make)."""
        return self.of_documents(self.coefficients(w), self.cost, current=True)[0]

    def of_documents(self, weights: Array, cost: Array, current: bool = False) -> tuple[Array, Array]:
        """The coefficient of every document in Ψ(an ideal ranking) − Ψ(the most violated one), and losses of queries.

        ``current``: the ranking that the weights make instead of the most violated one.
        """
        coef, losses = np.zeros(len(self.rows)), np.zeros(len(cost))
        kernel, hard, easy = self._oracle_for(cost, current)

        def run(first: int, stop: int) -> None:
            _coefficients(
                self._X, self.rows, self.labels, self.indptr, first, stop, weights, easy, kernel, self._parameters,
                coef, losses, self._longest,
            )  # fmt: skip

        self._team.each(run, runs_of(self.indptr, self.threads, _TASK_DOCS))
        for q in hard:
            _, losses[q], coef[self.indptr[q] : self.indptr[q + 1]] = self._by_library(q, weights)
        return coef, losses

    def _oracle_for(self, cost: Array, current: bool) -> tuple[FirstClass, Array, Array]:
        """The kernel, the queries with a cost that a library orders instead, and costs without these."""
        if current:
            from rankwright.measures.oracles.current_ranking import CURRENT  # compiled for the ramp bound only

            return FirstClass(CURRENT[self.oracle.feature_map], ORACLE), _NO_QUERY, cost
        hard = self._hard[cost[self._hard] > 0.0]
        easy = cost
        if len(self._hard):
            easy = cost.copy()
            easy[self._hard] = 0.0
        return self._kernel, hard, easy

    def _by_library(self, q: int, weights: Array) -> tuple[Array, float, Array]:
        """Scores of a query's documents, its loss, and the coefficients of its documents."""
        start, stop = self.indptr[q], self.indptr[q + 1]
        scores = _score_query(self._X, self.rows[start:stop], weights)
        assert self.oracle.library is not None
        return scores, *self.oracle.library(scores, self.labels[start:stop], self._parameters)

    def add(self, coef: Array) -> None:
        """Add a coefficient of every document to those of every ranking, also of the ideal one."""
        self._added = coef

    def reset(self) -> None:
        self.labels, self._added = self._own_labels, _NOTHING

    def _keep_topmost(self, w: Array) -> bool:
        """Let only the topmost good document of every query count; whether that changed anything.

        On the map of reciprocal rank the weights' own ranking is not the one with the highest w·Ψ, but it is if there
        is one good document.
        """
        labels = self._own_labels.copy()
        _mark_others(self._X, self.rows, labels, self.indptr, self.coefficients(w), self.cost, self._longest)
        changed = not np.array_equal(labels, self.labels)
        labels.flags.writeable = False
        self.labels = labels
        return changed

    def _of_kept(self) -> Planes:
        if len(self._kept) == len(self.scale):
            return self._planes
        return replace(self._planes, vectors=self._planes.vectors[:, self._kept])

    @property
    def costs(self) -> Array:
        """What a hinge of 1 in all queries of a block costs."""
        return np.asarray(np.add.reduceat(self.cost, self.blocks[:-1]))

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block at the weights ``w``."""
        planes = Planes.empty(1, len(self.scale))
        blocks = self.blocks[block : block + 2]
        cost = np.zeros_like(self.cost)
        cost[blocks[0] : blocks[1]] = self.cost[blocks[0] : blocks[1]]
        self._pass(self.coefficients(w), cost, blocks, planes, alone=True)
        return float(planes.losses[0]), planes.vectors[0, self._kept], float(planes.values[0])

    def violations(self, w: Array) -> Array:
        """The hinge of every query at the weights ``w``, times its cost."""
        planes = Planes.empty(len(self.indptr) - 1, 0)
        self._pass(self.coefficients(w), self.cost, np.arange(len(self.indptr)), planes)
        return planes.values

    def value(self, w: Array) -> float:
        """Σ_q c_q H_q(w)."""
        return float(self.violations(w).sum())

    def _pass(
        self, weights: Array, cost: Array, blocks: Array, planes: Planes, current: bool = False, alone: bool = False
    ) -> None:
        """Fill ``planes``, with one row for each of the blocks; vectors without columns are not computed.

        ``current``: the ranking that the weights make instead of the most violated one. ``alone``: no other loss is
        asked for these weights.
        """
        shared = _UNSHARED if alone else self._shared
        only_values = planes.vectors.shape[1] < len(weights)
        added = _NOTHING if current else self._added
        kernel, hard, easy = self._oracle_for(cost, current)

        def run(first: int, stop: int) -> None:
            _evaluate(
                self._X, self.rows, self.labels, self.indptr, blocks, first, stop, weights, self._inverse,
                easy, kernel, self._parameters, added, planes.losses, planes.values, planes.vectors, self._longest,
                only_values, *shared,
            )  # fmt: skip

        self._team.each(run, runs_of(self.indptr[blocks], self.threads, _TASK_DOCS))
        for q in hard:  # one by one
            block = int(np.searchsorted(blocks, q, side="right")) - 1
            start, stop = self.indptr[q], self.indptr[q + 1]
            scores, loss, coef = self._by_library(q, weights)
            coef = coef + added[start:stop] if len(added) else coef
            planes.losses[block] += cost[q] * loss
            planes.values[block] += cost[q] * (loss - float((coef * scores).sum()))
            if not only_values:
                _add_query(self._X, self.rows[start:stop], cost[q] * coef, self._inverse, planes.vectors[block])

    def close(self) -> None:
        self._team.close()


def _hard_queries(oracle: Oracle, labels: Array, indptr: Array, cost: Array) -> Array:
    """The queries with a cost that the oracle leaves to its library."""
    if oracle.cheap is None:
        return np.empty(0, np.int64)
    counted = np.flatnonzero(cost).tolist()
    return np.array([q for q in counted if not oracle.cheap(labels[indptr[q] : indptr[q + 1]])], np.int64)


def equal_blocks(n_queries: int, n_blocks: int) -> Array:
    """Boundaries of ``n_blocks`` runs of queries of about equal length."""
    sizes = np.full(n_blocks, n_queries // n_blocks)
    sizes[: n_queries % n_blocks] += 1
    return sizes_to_indptr(sizes)


# Several losses at once (SVMcombo), each a `StructuredHinge` over the same data with its own oracle and feature map.
#
# separate slacks   Σ_q Σ_l c_l H_q^l(w)     one block per loss and block of queries
# shared slack      Σ_q max_l c_l H_q^l(w)   one block per block of queries, with the plane of the largest violations


class _Combined:
    """Shared by both: hinges with the same features, queries, scale and blocks."""

    def __init__(self, hinges: Sequence[StructuredHinge]) -> None:
        self.hinges = tuple(hinges)
        n_docs = len(hinges[0].rows)
        kept = np.empty(n_docs), np.empty(n_docs, np.int64)
        for number, hinge in enumerate(hinges):  # all are asked in this order, for the same weights
            hinge.share(REUSE if number else KEEP, *kept)
        self.coefficients, self.weights = hinges[0].coefficients, hinges[0].weights

    @property
    def n_features(self) -> int:
        return self.hinges[0].n_features

    def sample(self, wanted: int | None = None) -> Array:
        return self.hinges[0].sample(wanted)

    def rescale(self, factor: float) -> None:
        for hinge in self.hinges:
            hinge.rescale(factor)

    def reset(self) -> None:
        for hinge in self.hinges:
            hinge.reset()

    def close(self) -> None:
        for hinge in self.hinges:
            hinge.close()


class SeparateSlacks(_Combined):
    @property
    def n_blocks(self) -> int:
        return sum(hinge.n_blocks for hinge in self.hinges)

    @property
    def costs(self) -> Array:
        return np.concatenate([hinge.costs for hinge in self.hinges])

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        number, block = divmod(block, self.hinges[0].n_blocks)
        return self.hinges[number].evaluate_block(w, block)

    def evaluate(self, w: Array) -> Planes:
        return _merged([hinge.evaluate(w) for hinge in self.hinges], np.concatenate)

    def value(self, w: Array) -> float:
        return sum(hinge.value(w) for hinge in self.hinges)

    def linearise(self, w: Array) -> Linearisation:
        return Linearisation.sum([hinge.linearise(w) for hinge in self.hinges])


class SharedSlack(_Combined):
    """For every query the largest of its hinges.

    A pass first asks every loss how much each query violates it, then makes the planes with one loss per query.
    """

    @property
    def n_blocks(self) -> int:
        return self.hinges[0].n_blocks

    @property
    def costs(self) -> Array:
        """What a hinge of 1 costs at most, block by block."""
        return np.asarray(np.max([hinge.costs for hinge in self.hinges], axis=0))

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """That of one query: the plane of its largest hinge."""
        return max((hinge.evaluate_block(w, block) for hinge in self.hinges), key=lambda plane: plane[2])

    def evaluate(self, w: Array) -> Planes:
        chosen = self._violations(w).argmax(axis=0)
        planes = [hinge.evaluate(w, only=chosen == number) for number, hinge in enumerate(self.hinges)]
        return _merged(planes, partial(np.sum, axis=0))

    def value(self, w: Array) -> float:
        return float(self._violations(w).max(axis=0).sum())

    def _violations(self, w: Array) -> Array:
        return np.array([hinge.violations(w) for hinge in self.hinges])

    def linearise(self, w: Array) -> Linearisation:
        """Compare from now on with the rankings that the weights ``w`` make.

        Every loss has its own v_q, so there is none for the whole query: that of the first loss that counts is taken,
        and the others get the difference.
        """
        first = np.array([hinge.cost > 0 for hinge in self.hinges]).argmax(axis=0)
        linearisations = [hinge.linearise(w, only=first == number) for number, hinge in enumerate(self.hinges)]
        sizes = np.diff(self.hinges[0].indptr)
        coefficients = [hinge.current_ranking(w) * np.repeat(hinge.cost, sizes) for hinge in self.hinges]
        common = np.choose(np.repeat(first, sizes), coefficients)
        for hinge, times_cost in zip(self.hinges, coefficients, strict=True):
            cost = np.repeat(hinge.cost, sizes)
            hinge.add(np.divide(common - times_cost, cost, out=np.zeros_like(cost), where=cost > 0))
        return Linearisation(np.sum([each.vector for each in linearisations], axis=0), False)


def _merged(planes: Sequence[Planes], merge: Callable[[list[Array]], Array]) -> Planes:
    """The planes of all losses as those of one objective."""
    fields = ("losses", "vectors", "values")
    return Planes(*(merge([getattr(of_loss, field) for of_loss in planes]) for field in fields))


# The objective where its features are: in this process, on a GPU or in partitions.
#
# Every partition is arranged by the content of its own queries and cut into blocks of its own, so its planes depend on
# nothing but the partition, the weights and the scale: the same for any number of workers, and after some were lost.
# Data in one place is one partition, whose hinges the solver calls directly.


@dataclass(frozen=True)
class HingeSettings:
    """What is trained for, in a form that travels.

    `oracles`: make the oracle of every loss. `slack`: several losses: add up a query's hinges (``"separate"``), or take
    the largest one (``"shared"``). `device`: where passes are done; on ``"cuda"``, a partition that does not fit on the
    GPU beside others travels there in every pass.
    """

    oracles: tuple[Callable[[], Oracle], ...]
    slack: str
    device: str


def objective_of(
    training: TrainingSet, n_blocks: int, *, slack: str, standardize: bool, device: str, threads: int
) -> Any:
    """The hinges of a training set.

    `n_blocks`: blocks of queries, unless there are more partitions. `standardize`: divide features by their standard
    deviation. `threads`: for a partition.
    """
    data, targets, weights = training.data, training.targets, training.weights
    place = place_of(data, device)
    statistics = place.statistics(threads, summed=standardize)
    scale = statistics.scale if standardize else np.ones(data.n_features)
    costs = [target.costs(weights) for target in targets]
    shares = place.shares
    blocks = _blocks_of_partitions(np.array([len(share.chosen) for share in shares]), n_blocks)
    of_partitions = []
    for share, count in zip(shares, blocks.tolist(), strict=True):
        labels = [place.taken(target.labels, share) for target in targets]
        of_queries = [cost[share.chosen] for cost in costs], weights[share.chosen]
        of_partitions.append((LossData(labels, *of_queries, statistics.low, statistics.high), count))
    settings = HingeSettings(tuple(target.make_oracle for target in targets), slack, device)
    actors = place.make(hinge_of_partition, scale, settings, own=of_partitions, threads=threads)
    if actors.only is not None:
        return actors.only
    return PartitionedHinge(place, actors, scale, blocks, n_blocks, 1 if slack == "shared" else len(targets))


def hinge_of_partition(
    data: RankingData,
    threads: int,
    queries: Array,
    losses: LossData,
    n_blocks: int,
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
    blocks = equal_blocks(len(queries), n_blocks)
    hinges = hinges_of(selected(data, queries), oracles, losses, scale, blocks, threads)
    together = SharedSlack if settings.slack == "shared" else SeparateSlacks
    return hinges[0] if len(hinges) == 1 else together(hinges)


def hinges_here(
    data: RankingData, oracles: Sequence[Oracle], losses: LossData, scale: Array, blocks: Array, threads: int
) -> list[StructuredHinge]:
    """A hinge for every loss; passes are done on the CPU."""
    order, labels, costs = in_content_order(data, losses, threads)
    X, settings = stored(data)[0], (scale, blocks, threads)
    return [
        StructuredHinge(X, order.rows, of_loss, order.indptr, oracle, cost, *settings)
        for of_loss, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


class _NoHinge:
    """The hinges of a partition without queries to train on."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features

    def evaluate(self, w: Array) -> Planes:
        return Planes.empty(0, len(w))

    def value(self, w: Array) -> float:
        return 0.0

    def linearise(self, w: Array) -> Linearisation:
        return Linearisation(np.zeros_like(w), True)

    def reset(self) -> None: ...

    def rescale(self, factor: float) -> None: ...

    def sample(self, wanted: int) -> Array:
        return np.empty((0, self._n_features))


class PartitionedHinge(Scaled):
    """The objective over all partitions, as the solver sees it.

    `blocks`: blocks of every partition. `n_blocks`: blocks that were asked for; where partitions are more, neighbours
    share their planes. `n_slacks`: planes of a block.
    """

    def __init__(self, place: Place, actors: Actors, scale: Array, blocks: Array, n_blocks: int, n_slacks: int) -> None:
        super().__init__(scale)
        self._place, self._actors = place, actors
        self._groups = _groups(blocks, n_blocks)
        self.n_blocks = n_slacks * (int(blocks.sum()) if self._groups is None else len(self._groups) - 1)
        self._n_docs = np.array([len(place.rows_of(share)) for share in place.shares])

    def evaluate(self, w: Array) -> Planes:
        return Planes(**self._place.recall(partial(self._evaluate, w)))

    def _evaluate(self, w: Array) -> dict[str, Array]:
        planes = self._actors.call("evaluate", w)
        fields = ("losses", "vectors", "values")
        return {name: np.concatenate(self._together([getattr(each, name) for each in planes])) for name in fields}

    def _together(self, of_partitions: Sequence[Array]) -> Sequence[Array]:
        """Sums over the partitions of a group, in their order."""
        if self._groups is None:
            return of_partitions
        filled = [planes for planes in of_partitions if len(planes)]
        return [sum(filled[first + 1 : last], filled[first]) for first, last in pairwise(self._groups)]

    def sample(self) -> Array:
        n_docs = int(self._n_docs.sum())
        wanted = -(-rows_wanted(n_docs, self.n_features) * self._n_docs // max(1, n_docs))
        return np.concatenate(self._actors.call("sample", own=[(int(count),) for count in wanted]))

    def value(self, w: Array) -> float:
        return float(sum(self._actors.call("value", w)))

    def linearise(self, w: Array) -> Linearisation:
        return Linearisation.sum(self._actors.update("linearise", w))

    def reset(self) -> None:
        self._actors.update("reset")

    def rescale(self, factor: float) -> None:
        self._actors.update("rescale", factor)

    def close(self) -> None:
        self._actors.close()


def _blocks_of_partitions(n_queries: Array, n_blocks: int) -> Array:
    """Blocks of every partition: in proportion to its queries, at least one, at most one a query; none for none."""
    filled = n_queries > 0
    if filled.sum() > n_blocks:
        return filled.astype(np.int64)
    shares = n_blocks * n_queries / max(1, int(n_queries.sum()))
    blocks = np.where(filled, np.clip(np.floor(shares), 1, n_queries), 0).astype(np.int64)
    for partition in np.lexsort((np.arange(len(shares)), -(shares - np.floor(shares)))):
        if blocks.sum() >= n_blocks:
            break
        blocks[partition] += blocks[partition] < n_queries[partition] and filled[partition]
    return blocks


def _groups(blocks: Array, n_blocks: int) -> Array | None:
    """Boundaries of runs of partitions that share their planes, where partitions are more than blocks; else None."""
    n_filled = int((blocks > 0).sum())
    return None if n_filled <= n_blocks else equal_blocks(n_filled, n_blocks)
