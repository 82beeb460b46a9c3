"""Lambda gradients: how much every document should rise, given the ranking by the current scores.

For a pair of one query with labels z_i > z_j and o = s_i − s_j, Δ the change of the measure if i and j swapped places:

    λ = |Δ| · 1/(1 + e^o)        the gradient of i rises by λ, that of j falls by λ
    |Δ| · σ(o) (1 − σ(o))        is added to the second derivative of both, σ the logistic function

With Δ = 1 these are the derivatives of RankNet's cost, Σ log(1 + e^−o). A truncation at rank k leaves out the pairs
with both documents below rank k: O(k·n) a query.

Two factors can shift the weight, to pairs and to queries: 1/(nearness + |o|) for every pair, so that pairs of close
scores count more, and log₂(1 + S)/S for every query, where S is twice the sum of its λ, so that queries with many large
changes do not outweigh the others. Both come from LightGBM's ``lambdarank_norm``.

Documents of equal scores have no ranks of their own. They take ranks at which every worth is spread evenly over the
tie: with n documents of equal score and m of them of one worth, these come about every n/m ranks. Then the gradients of
documents of equal score and equal worth are averaged. So a document's gradient depends on the scores and labels of its
query, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, typeof, types

from rankwright._types import Arguments, Array, Compiled
from rankwright.caching import INNER
from rankwright.data.order import Clicked, as_bounds, descending, query_chunks, query_of_row
from rankwright.data.threads import Team, runs_of
from rankwright.measures import Measure, Rankings
from rankwright.measures.base import STATE, Swaps, read_only
from rankwright.measures.oracles.common import BINS, SORT, WORK, sort_descending
from rankwright.models.products import FASTMATH, FirstClass, compiled

# Documents of every query by what a measure sees of their labels, prepared in runs of queries that threads share.


RUN_DOCS = 1 << 16
"""Documents that are sorted at a time: enough for a thread, and few enough to take little memory."""


def by_worth(
    labels: Array, indptr: Array, order: Array | None, measure: Measure | None, team: Team
) -> tuple[Array, Array, Array, Array]:
    """Documents by worth, lowest first, with their worths, these highest first, and the norms of the queries.

    `labels`, `indptr`: labels and query boundaries. `order`: the documents, query after query, in the order in which
    those of equal worth stay. `measure`: says what labels are worth; None where they are the worths. `team`: the result
    does not depend on it.
    """
    docs, worth, highest = np.empty(len(labels), np.int64), np.empty(len(labels)), np.empty(len(labels))
    norms = np.ones(len(indptr) - 1)

    def arrange(first: int, last: int) -> None:
        start, stop = int(indptr[first]), int(indptr[last])
        bounds, values = indptr[first : last + 1] - start, labels[start:stop]
        if measure is not None:
            norms[first:last] = measure.norms(Rankings(values, bounds))
            values = np.asarray(measure.worth(values), np.float64)
        places = np.arange(stop - start) if order is None else order[start:stop] - start
        places = places[np.lexsort((values[places], query_of_row(bounds)))]
        docs[start:stop], worth[start:stop] = places + start, values[places]
        highest[start:stop] = descending(worth[start:stop], bounds)

    team.each(arrange, query_chunks(indptr, RUN_DOCS))
    return docs, worth, highest, norms


_FARTHEST = 600.0  # difference of scores whose exponential, and its product with another number, is finite
_TASK_DOCS = 1 << 14  # at least, of a run of queries in one thread
_VECTOR = types.Array(types.float64, 1, "C")
_FROZEN = types.Array(types.float64, 1, "C", readonly=True)
_TABLE = types.Array(types.float64, 2, "C")
_CHANGES = types.void(types.int64, _VECTOR, _FROZEN, _TABLE, _VECTOR)
_PREPARE = types.void(_VECTOR, _FROZEN, _FROZEN, _TABLE)


def _equal_changes(i: int, worth: Any, parameters: Any, state: Any, out: Any) -> None:
    """RankNet: every pair of different labels counts equally."""
    for j in range(i + 1, worth.size):
        out[j] = 1.0 if worth[i] != worth[j] else 0.0


def _given_changes(i: int, worth: Any, parameters: Any, state: Any, out: Any) -> None:
    """The state is the table of all changes."""
    for j in range(i + 1, worth.size):
        out[j] = state[i, j]


@njit(error_model="numpy", fastmath=FASTMATH, forceinline=True, **INNER)
def _row(
    i: int, worth: Array, scores: Array, changes: Array, powers: Arguments, factors: Arguments, up: Array,
    hessian: Array
) -> float:  # fmt: skip
    """All pairs of rank ``i`` with lower ranks, without branches: equal worths change nothing. Returns Σ λ.

    ``powers`` are a number and a vector whose product is e^|o|. Every pair is divided by near + slope · |o|, the two
    ``factors``.
    """
    worth_above, score = worth[i], scores[i]
    (power_above, other_powers), (near, slope) = powers, factors
    rises, bends, forces = 0.0, 0.0, 0.0
    # From here on positions count from i + 1: a compiler that knows them not to be negative handles many at once.
    lower, changes, others = worth[i + 1 :], changes[i + 1 :], other_powers[i + 1 :]
    behind, ups, hessians = scores[i + 1 :], up[i + 1 :], hessian[i + 1 :]
    for j in range(lower.size):
        power, wins = power_above * others[j], worth_above > lower[j]
        near_by = near + slope * (score - behind[j])
        inverse = 1.0 / ((1.0 + power) * near_by)
        won = abs(changes[j]) * inverse
        lost = won * power
        bend = lost * (inverse * near_by)
        force = won if wins else lost
        rise = won if wins else -lost
        rises += rise
        bends += bend
        forces += force
        ups[j] -= rise
        hessians[j] += bend
    up[i] += rises
    hessian[i] += bends
    return forces


@njit(error_model="numpy", fastmath=FASTMATH, forceinline=True, **INNER)
def _powers(scores: Array, powers: Array, inverses: Array) -> bool:
    """e^s of descending scores around their middle, and e^−s; False, and nothing, where they are too far apart.

    e^s is a series of e^(s/1024), squared ten times: a few multiplications, for many scores at once.
    """
    first, last = scores[0], scores[-1]
    if not first - last <= _FARTHEST:
        return False
    middle = last + (first - last) / 2
    for r in range(scores.size):
        x = (scores[r] - middle) * (1.0 / 1024)
        power = 1 / 24 + x * (1 / 120 + x * (1 / 720 + x * (1 / 5040 + x * (1 / 40320 + x * (1 / 362880)))))
        power = 1.0 + x * (1.0 + x * (1 / 2 + x * (1 / 6 + x * power)))
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        powers[r] = power
        inverses[r] = 1.0 / power
    return True


@njit(**INNER)
def _powers_of(i: int, scores: Array, powers: Array) -> None:
    """e^(s_i − s_j) for all lower ranks j; beyond a reach it makes no difference."""
    for j in range(i + 1, scores.size):
        powers[j] = np.exp(min(scores[i] - scores[j], _FARTHEST))


@njit(cache=True)
def _space(longest: int, rows: int) -> Any:
    """Working memory of `_query` for queries of up to ``longest`` documents."""
    places, work = (np.empty(longest, np.int64), np.empty(longest, np.int64)), np.empty(WORK * longest + BINS)
    vectors = (np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest))
    return places, work, vectors, (np.empty(longest), np.empty(longest)), np.empty((rows, longest + 1))


@njit(**INNER)
def _alike(values: Array, order: Array, first: int, last: int) -> int:
    """Where the run of equal values that begins at ``first`` ends, at most ``last``."""
    value, stop = values[order[first]], first + 1
    while stop < last and values[order[stop]] == value:
        stop += 1
    return stop


@njit(**INNER)
def _spread(worth: Array, order: Array, first: int, last: int, ranks: Array) -> None:
    """Ranks for a tie, ``order[first:last]``, lowest worth first: the k-th of m alike is (k + ½)/m of the way down."""
    start = first
    while start < last:
        stop = _alike(worth, order, start, last)
        m, other = stop - start, first
        for at in range(start, stop):
            ranks[at] = first + at - start
        while other < last:
            end = _alike(worth, order, other, last)
            for at in range(start, stop if other != start else start):
                # Those further up: the j with (2j + 1)/(end − other) below (2k + 1)/m, of lower worth also if equal.
                way = (2 * (at - start) + 1) * (end - other) - (other > start)
                ranks[at] += (way // m + 1) // 2
            other = end
        start = stop


@njit(cache=True, nogil=True)
def _set_ranks(scores: Array, worth: Array, order: Array, ranks: Array) -> None:
    """The rank of every document of ``order``, which is by score, then by worth, lowest first."""
    first = np.int64(0)  # as a literal, it would compile what it is given to twice
    while first < order.size:
        last = _alike(scores, order, first, order.size)
        if worth[order[first]] == worth[order[last - 1]]:
            for at in range(first, last):
                ranks[at] = at
        else:
            _spread(worth, order, first, last, ranks)
        first = last


@njit(**INNER)
def _share(scores: Array, worth: Array, order: Array, ranks: Array, values: Array, norm: float, shared: Array) -> None:
    """``values``, which are by rank, over ``norm``; documents alike in score and worth get their mean."""
    first = np.int64(0)  # as a literal, it would compile what it is given to twice
    while first < order.size:
        last = _alike(worth, order, first, _alike(scores, order, first, order.size))
        total = 0.0
        for at in range(first, last):
            total += values[ranks[at]]
        total /= norm * (last - first)
        for at in range(first, last):
            shared[order[at]] = total
        first = last


@njit(cache=True, nogil=True, error_model="numpy")
def _query(q: int, scores: Array, setup: Arguments, space: Arguments, gradients: Array, weights: Array) -> None:
    """Gradients and second derivatives of query ``q``, whose documents come by worth, lowest first."""
    truncation, (near, slope, normalize), parameters, indptr, worth, highest, norms, changes, prepare, sort = setup
    (order, ranks), work, (ranked, ordered, change, up, hessian), (powers, inverses), state = space
    n, start = scores.size, indptr[q]
    worths, order, ranks = worth[start : start + n], order[:n], ranks[:n]
    sort(scores, order, work)
    for r in range(n):
        ranks[r], ranked[r], ordered[r] = r, worths[order[r]], scores[order[r]]
        up[r] = hessian[r] = 0.0
    tied = False
    for r in range(1, n):
        tied |= ordered[r] == ordered[r - 1]
    if tied:
        _set_ranks(scores, worths, order, ranks)
        for at in range(n):
            ranked[ranks[at]] = worths[order[at]]
    prepare(ranked[:n], highest[start : start + n], parameters, state)
    forces, norm = 0.0, norms[q]
    together = _powers(ordered[:n], powers, inverses)
    for i in range(min(truncation, n - 1)):
        changes(i, ranked[:n], parameters, state, change[:n])
        if not together:
            powers[i] = 1.0
            _powers_of(i, ordered[:n], inverses)
        pair_powers = (powers[i], inverses[:n])
        forces += _row(i, ranked[:n], ordered[:n], change[:n], pair_powers, (near, slope), up[:n], hessian[:n])
    forces *= 2.0 / norm
    if normalize and forces > 0.0:
        norm *= forces / np.log2(1.0 + forces)
    factor = 1.0 / norm
    for r in range(n):
        gradients[order[r]] = up[r] * factor
        weights[order[r]] = hessian[r] * factor
    if tied:
        for turn in range(2):  # one call for both: a function called in two places is compiled for each
            values, shared = (hessian, weights) if turn else (up, gradients)
            _share(scores, worths, order, ranks, values, norm, shared)


@njit(cache=True, nogil=True)
def _queries(
    query: Compiled, setup: Arguments, scores: Array, docs: Array, first: int, last: int, gradients: Array,
    weights: Array
) -> None:  # fmt: skip
    """Gradients and second derivatives of the queries ``first`` … ``last − 1``.

    ``query`` is `_query`, handed over so that its code is not compiled again here.
    """
    indptr, longest = setup[3], np.int64(0)
    for q in range(first, last):
        longest = max(longest, indptr[q + 1] - indptr[q])
    space = _space(longest, np.int64(STATE))  # as a literal, it would be compiled once more
    s, up, hessian = np.empty(longest), np.empty(longest), np.empty(longest)
    for q in range(first, last):
        start = indptr[q]
        n = indptr[q + 1] - start
        for i in range(n):
            s[i] = scores[docs[start + i]]
        query(q, s[:n], setup, space, up, hessian)
        for i in range(n):
            gradients[docs[start + i]] = up[i]
            weights[docs[start + i]] = hessian[i]


@dataclass(frozen=True, eq=False)
class LambdaSetup:
    """What lambda gradients know of a measure and of labels, on the CPU and on a GPU.

    `docs`: the documents, query after query, by worth, lowest first. `worth`, `highest`: their worths, in this order
    and highest first. `norms`: what the changes of each query are divided by. `truncation`: the rank from which on
    pairs with both documents there are left out. `factors`: a pair is divided by the first plus the second times the
    difference of its scores; whether queries are scaled. `parameters`: of the measure's changes, such as its discounts.
    """

    docs: Array
    worth: Array
    highest: Array
    norms: Array
    truncation: int
    factors: tuple[float, float, bool]
    parameters: Any

    @classmethod
    def of(
        cls,
        labels: Array,
        indptr: Array,
        measure: Measure | None,
        swaps: Swaps,
        truncation: int | None,
        nearness: float,
        normalize: bool,
        order: Array | None,
        team: Team,
    ) -> LambdaSetup:
        """The setup for some data; other arguments as for :class:`Lambdas`."""
        labels, longest = np.asarray(labels, np.float64), int(np.diff(indptr).max(initial=1))
        if measure is not None:
            measure.check_labels(labels)
            counted = measure.cutoff or longest  # below that nothing changes
            truncation = counted if truncation is None else min(truncation, counted)
        # Without compiled changes, the measure itself sees the labels.
        by = None if measure is None or measure.swaps() is None else measure
        arranged = by_worth(labels, indptr, order, by, team)
        factors = (float(nearness), 1.0, normalize) if nearness else (1.0, 0.0, normalize)
        limit = longest if truncation is None else int(truncation)
        return cls(*arranged, limit, factors, swaps.parameters(longest))


class Copies:
    """Rows that are copies of documents: their scores, and sums over the copies of each document."""

    def __init__(self, rows: Array, n_docs: int) -> None:
        self._rows, self._n_docs = rows, n_docs

    def take(self, scores: Array) -> Array:
        return np.asarray(scores)[self._rows]

    def sums(self, gradients: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(np.bincount(self._rows, values, self._n_docs) for values in gradients)


class Lambdas:
    """Lambda gradients of a measure on given data.

    `labels`, `indptr`: labels and query boundaries. `measure`: measure to optimise, with its convention resolved; None:
    RankNet, where every pair counts equally. A measure without compiled swap changes is slow: every pair is swapped and
    the value computed anew. `truncation`: leave out pairs with both documents at or below this rank (from 0).
    `threads`: the result does not depend on it. `order`: the documents, query after query, such as
    :func:`~rankwright.data.hashes.content_order` gives them: ``docs`` are in this order where their worth is
    equal. Gradients do not depend on it. `query_weights`: factors for the gradients of each query. `nearness`: divide
    the gradients of every pair by ``nearness`` + |s_i − s_j|, unless it is 0. `normalize`: whether to multiply the
    gradients of every query by log₂(1 + S)/S. `docs`: the documents, query after query, by worth, lowest first.
    `kernel`: a compiled ``function(q, scores, setup, space, gradients, weights)`` for one query, and its ``setup``;
    None if the measure has no compiled changes. Scores, gradients and weights are in the order of ``docs``. `setup`:
    what the kernel knows of the measure and the labels.
    """

    copies = Copies

    def __init__(
        self,
        labels: Array,
        indptr: Array,
        measure: Measure | None,
        truncation: int | None = None,
        threads: int = 1,
        *,
        order: Array | None = None,
        query_weights: Array | None = None,
        nearness: float = 0.0,
        normalize: bool = False,
    ) -> None:
        swaps = Swaps(_equal_changes) if measure is None else measure.swaps()
        self.indptr, self._measure, self._compiled = as_bounds(indptr), measure, swaps is not None
        swaps = swaps or Swaps(_given_changes)
        self._team = Team(threads)
        shared = LambdaSetup.of(labels, self.indptr, measure, swaps, truncation, nearness, normalize, order, self._team)
        self.docs = shared.docs
        self.setup = (
            shared.truncation,
            shared.factors,
            shared.parameters,
            self.indptr,
            shared.worth,
            read_only(shared.highest),
            shared.norms,
            compiled(swaps.changes, _CHANGES),
            compiled(swaps.prepare, _PREPARE),
            FirstClass(sort_descending, SORT),
        )
        self._weights = query_weights
        few = list(query_chunks(self.indptr, RUN_DOCS))
        self._tasks = runs_of(self.indptr, threads, _TASK_DOCS) if threads > 1 else few

    @cached_property
    def kernel(self) -> tuple[Any, Any] | None:
        """The compiled gradients of one query, and their setup."""
        if not self._compiled:
            return None
        return FirstClass(_query, self.signature), self.setup

    @property
    def signature(self) -> Any:
        """The types of the compiled gradients of one query."""
        taken = (types.int64, _VECTOR, typeof(self.setup), typeof(self.space(1)), _VECTOR, _VECTOR)
        return types.void(*taken)

    def space(self, longest: int) -> Any:
        """Working memory of the kernel for queries of up to ``longest`` documents."""
        return _space(longest, STATE)

    def evaluate(self, scores: Array) -> tuple[Array, Array]:
        """The gradient of every document, and its second derivative, at the given scores."""
        gradients, weights = np.zeros(len(scores)), np.zeros(len(scores))
        scores, kernel = np.ascontiguousarray(scores, np.float64), self.kernel

        def run(first: int, stop: int) -> None:
            if kernel is not None:
                _queries(*kernel, scores, self.docs, first, stop, gradients, weights)
            else:
                for q in range(first, stop):
                    docs = self.docs[self.indptr[q] : self.indptr[q + 1]]
                    gradients[docs], weights[docs] = self.one_query(q, scores[docs])
            if self._weights is not None:
                some = slice(self.indptr[first], self.indptr[stop])
                factors = np.repeat(self._weights[first:stop], np.diff(self.indptr[first : stop + 1]))
                gradients[some] *= factors
                weights[some] *= factors

        self._team.each(run, self._tasks)
        return gradients, weights

    def one_query(self, q: int, scores: Array) -> tuple[Array, Array]:
        """Gradients and second derivatives of query ``q``, ignoring its weight, in the order of ``docs``."""
        n = len(scores)
        gradients, weights, space = np.empty(n), np.empty(n), _space(n, STATE)
        if not self._compiled:
            assert self._measure is not None
            labels = self.setup[4][self.indptr[q] : self.indptr[q + 1]]
            ranked, order, ranks = np.empty(n), np.argsort(-scores, kind="stable"), np.empty(n, np.int64)
            _set_ranks(scores, labels, order, ranks)
            ranked[ranks] = labels[order]
            space = (*space[:-1], np.ascontiguousarray(self._measure.swap_deltas(ranked), np.float64))
        _query(q, np.ascontiguousarray(scores, np.float64), self.setup, space, gradients, weights)
        return gradients, weights

    def close(self) -> None:
        self._team.close()


# Lambda gradients from clicks: every click is a ranking of its own, and weighs by its inverse propensity.
#
# Kernels know nothing of it: the gradients are those of more queries (rankwright.data.order says why), summed by
# document.


class ClickLambdas:
    """Lambda gradients of a measure, summed over clicks, wherever they are computed.

    `kind`: :class:`~rankwright.boosting.lambdas.Lambdas`, or the same on a GPU. `labels`, `indptr`: labels and page
    boundaries; a label of 2 counts as two clicks. `*given`, `**settings`: as for the kind, for pages with one click.
    `query_weights`: factors for the gradients of each page. `winning`: a factor of every document for its clicks.
    """

    def __init__(
        self,
        kind: Any,
        labels: Array,
        indptr: Array,
        *given: Any,
        query_weights: Array,
        winning: Array,
        **settings: Any,
    ) -> None:
        apart = Clicked.of(labels, indptr)
        weights = query_weights[apart.query] * (np.asarray(labels) * winning)[apart.clicks]
        self._copies = kind.copies(apart.rows, len(labels))
        self._lambdas = kind(apart.labels, apart.indptr, *given, query_weights=weights, **settings)

    def evaluate(self, scores: Array) -> tuple[Any, ...]:
        """The gradient of every document, and its second derivative, where the scores are.

        On a GPU the next call overwrites them.
        """
        sums: tuple[Any, ...] = self._copies.sums(self._lambdas.evaluate(self._copies.take(scores)))
        return sums

    def close(self) -> None:
        self._lambdas.close()
