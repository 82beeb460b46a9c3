"""Documents and queries in an order that depends on their content only.

A most violated ranking is not unique where scores or values tie, queries share a block, and rounded sums depend on the
order of their terms. A training that takes everything in this order gives the same weights, bit for bit, however its
documents and queries were shuffled.

Documents are sorted by a fixed random combination of their labels and the features that vary, which only equal
documents share; queries by the mean of its sine (the mean itself would be shared by queries of equal sums). A constant
feature more or less moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array, Compiled, Features
from rankwright.data.dataset import RankingData, stored
from rankwright.data.order import as_bounds, sizes_to_indptr
from rankwright.data.threads import Team, parts_of, runs_of
from rankwright.measures.oracles.common import BINS, SORT, WORK, sort_descending
from rankwright.models.products import FASTMATH, FirstClass, kernel_form, row_scores

_RUN = 1 << 13  # documents, at least, that a thread reads at a time


@dataclass(frozen=True, eq=False)
class Canonical:
    """An order of documents and queries.

    `docs`: the documents, query after query: positions in the data. `rows`: the same as rows of X. `indptr`: query
    boundaries in both.
    """

    docs: Array
    rows: Array
    indptr: Array
    queries: Array


def canonical_order(
    X: Features,
    starts: Array,
    labels: Sequence[Array],
    indptr: Array,
    weights: Array,
    low: Array,
    high: Array,
    team: Team,
) -> Canonical:
    """The order of documents and queries by content; the arguments but X are as for `LossData`.

    `starts`: the row of X at which each query starts. `team`: the result does not depend on its number of threads.
    """
    starts, indptr = as_bounds(starts), as_bounds(indptr)
    mix, sizes = mixture(low, high), np.diff(indptr)
    factors = [(factor, of_loss) for factor, of_loss in zip(label_factors(labels), labels, strict=True) if factor]
    n_docs = int(indptr[-1])
    order, means = np.empty(n_docs, np.int64), np.empty(len(sizes))
    arguments = (kernel_form(X), starts, indptr, int(sizes.max()), mix)
    sorting = (order, means, FirstClass(sort_descending, SORT))

    def sort(first: int, last: int) -> None:
        docs = slice(indptr[first], indptr[last])
        keys = np.zeros(docs.stop - docs.start)
        for factor, of_loss in factors:
            keys += factor * of_loss[docs]
        _sort(*arguments, keys, *sorting, first, last)

    team.each(sort, runs_of(indptr, team.threads, _RUN))
    queries = np.lexsort((weights, means))
    moved = sizes_to_indptr(sizes[queries])
    runs = runs_of(moved, team.threads, _RUN)
    docs = np.empty_like(order)
    team.each(partial(_gather, order, indptr, indptr, queries, moved, docs), runs)
    if np.array_equal(starts, indptr[:-1]):
        return Canonical(docs, docs, moved, queries)
    rows = np.empty_like(order)
    team.each(partial(_gather, order, indptr, starts, queries, moved, rows), runs)
    return Canonical(docs, rows, moved, queries)


@dataclass(frozen=True, eq=False)
class LossData:
    """What hinges need of a data set besides its features.

    `labels`, `costs`: for each loss, labels of the documents as it sees them, and what a hinge of 1 costs in every
    query. `weights`: weights of the queries, which decide between queries of equal content. `low`, `high`: the smallest
    and the largest value of every feature.
    """

    labels: Sequence[Array]
    costs: Sequence[Array]
    weights: Array
    low: Array
    high: Array


def in_content_order(data: RankingData, losses: LossData, threads: int) -> tuple[Canonical, list[Array], list[Array]]:
    """The order of a data set's documents and queries by content; each loss's labels and costs in that order."""
    X, starts = stored(data)
    with closing(Team(threads)) as team:
        ranges = losses.low, losses.high
        order = canonical_order(X, starts, losses.labels, data.indptr, losses.weights, *ranges, team)
        labels = [taken(of_loss, order.docs, team) for of_loss in losses.labels]
    for of_loss in labels:
        of_loss.flags.writeable = False
    return order, labels, [cost[order.queries] for cost in losses.costs]


def mixture(low: Array, high: Array) -> Array:
    """The factor of every feature in the combination; 0 for those that do not vary."""
    size = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.finfo(np.float64).tiny)
    return np.where(low < high, np.random.default_rng(0).uniform(0.5, 1.0, len(size)) / size, 0.0)


def label_factors(labels: Sequence[Array]) -> list[float]:
    """The factor of every loss's labels in the combination; 0 for those that another one has."""
    shares = np.random.default_rng(1).uniform(0.5, 1.0, len(labels))
    return [
        0.0
        if any(np.array_equal(of_loss, other) for other in labels[:number])
        else float(shares[number] / max(float(of_loss.max()), 1.0))
        for number, of_loss in enumerate(labels)
    ]


def taken(values: Array, docs: Array, team: Team) -> Array:
    """``values[docs]``, a run of documents at a time."""
    chosen = np.empty(len(docs), values.dtype)

    def take(start: int, stop: int) -> None:
        np.take(values, docs[start:stop], out=chosen[start:stop], mode="clip")

    team.each(take, parts_of(len(docs), max(1, min(team.threads, len(docs) // _RUN))))
    return chosen


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _sort(
    X: Any, starts: Array, indptr: Array, longest: int, mix: Array, keys: Array, order: Array, means: Array,
    sort: Compiled, first: int, last: int,
) -> None:  # fmt: skip
    """The documents of every query by keys plus combined features, highest first, and the mean sine of that.

    ``keys`` are those of the documents of these queries.
    """
    combined, work = np.empty(longest), np.empty(WORK * longest + BINS)
    before = indptr[first]
    for q in range(first, last):
        start, stop = indptr[q], indptr[q + 1]
        n = stop - start
        row_scores(X, starts[q], starts[q] + n, mix, combined)
        for i in range(n):
            combined[i] += keys[start - before + i]
        sort(combined[:n], order[start:stop], work)
        means[q] = 0.0
        for i in range(start, stop):
            means[q] += np.sin(combined[order[i]]) / n


@njit(cache=True, nogil=True)
def _gather(
    order: Array, indptr: Array, starts: Array, queries: Array, moved: Array, places: Array, first: int, last: int
) -> None:  # fmt: skip
    """Where the documents are, in the order of ``queries``, if query q starts at ``starts[q]``."""
    for at in range(first, last):
        q = queries[at]
        for i in range(indptr[q + 1] - indptr[q]):
            places[moved[at] + i] = starts[q] + order[indptr[q] + i]


# A sample of documents less the means of their queries: what the curvature of a hinge is made of.
#
# Where many pairs of documents are near the margin, the hinge bends with the squared differences of their features.


_WORK = 20  # documents in the sample, per document and feature: then it costs a few passes over the data
_PER_FEATURE = 30  # documents in the sample, at most
_LEAST = 4  # documents per feature, for which the shape is known well enough to rely on
_FROM_QUERY = 8  # documents of a query, at least
_SMALL, _VALUES = 512, 1 << 22  # with more features than that, at most so many values: the largest part is enough
_QUERIES = 64  # whose documents a thread takes at a time
_LEAST_ROWS = 256  # so, no sample of more than 16,384 features


def is_enough(n_docs: int, n_features: int) -> bool:
    """Whether so many documents tell the shape of the curvature, at a cost of a few passes over the data."""
    return n_docs >= _LEAST * n_features and (n_features <= _SMALL or _VALUES // n_features >= _LEAST_ROWS)


def rows_wanted(n_docs: int, n_features: int) -> int:
    """How many documents a sample needs: enough for a covariance matrix, or for its largest part; 0 for no sample."""
    if n_features == 0 or not is_enough(n_docs, n_features):
        return 0
    enough = min(max(2 * n_features, _WORK * n_docs // n_features), _PER_FEATURE * n_features)
    return min(enough, n_docs, _VALUES // n_features if n_features > _SMALL else n_docs)


def drawn(indptr: Array, wanted: int) -> list[Array]:
    """About ``wanted`` documents of some queries, query by query."""
    rng = np.random.default_rng(0)
    n_queries = len(indptr) - 1
    of_query = max(_FROM_QUERY, -(-wanted // n_queries))
    chosen = []
    for q in np.unique(np.linspace(0, n_queries - 1, -(-wanted // of_query)).astype(np.int64)).tolist():
        start, stop = int(indptr[q]), int(indptr[q + 1])
        chosen.append(start + rng.permutation(stop - start)[:of_query])
    return chosen


def centred_sample(
    X: Features, rows: Array, indptr: Array, inverse: Array, kept: Array, wanted: int, team: Team | None = None
) -> Array:
    """Features times ``inverse`` of about ``wanted`` documents of some queries, less their means in the query."""
    if not wanted:
        return np.empty((0, len(kept)))
    chosen = [rows[of_query] for of_query in drawn(indptr, wanted)]
    tasks = [(chosen[at : at + _QUERIES],) for at in range(0, len(chosen), _QUERIES)]
    return np.concatenate((team or Team(1)).each(lambda some_queries: _centred(X, some_queries, inverse, kept), tasks))


def _centred(X: Features, chosen: list[Array], inverse: Array, kept: Array) -> Array:
    sample = X[np.concatenate(chosen)]
    sample = (sample if isinstance(sample, np.ndarray) else sample.toarray())[:, kept] * inverse[kept]
    return centred(sample, np.array([len(of_query) for of_query in chosen]))


def centred(sample: Array, sizes: Array) -> Array:
    """The rows of some queries, less their means, and longer by as much as the means were drawn towards them."""
    means = np.add.reduceat(sample, np.cumsum(sizes) - sizes, axis=0) / sizes[:, None]
    sample -= np.repeat(means, sizes, axis=0)
    sample *= np.repeat(np.sqrt(sizes / np.maximum(1, sizes - 1)), sizes)[:, None]
    return np.asarray(sample)
