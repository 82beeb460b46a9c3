"""A max-margin training set on the card: features, statistics, order, and a hinge for every loss.

Features are uploaded once and stay with the data set that they belong to, as its statistics do; parts of it, such as
folds, use the same copy. They leave the card with the data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data import sparse
from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.dataset import RankingData
from rankwright.data.parts import source_of, stored
from rankwright.data.statistics import Statistics, statistics_of
from rankwright.gpu import order
from rankwright.gpu.arranged import Arranged, launches
from rankwright.gpu.card import blocks as blocks_of
from rankwright.gpu.card import free_bytes, is_simulated, upload
from rankwright.gpu.hinge import CudaHinge
from rankwright.gpu.scoring import score_there, weights_of
from rankwright.gpu.statistics import statistics_on
from rankwright.gpu.streamed import Streamed
from rankwright.measures.forms import Oracle
from rankwright.objectives.canonical import Canonical, label_factors, mixture

__all__ = [
    "card_scores",
    "card_statistics",
    "features_there",
    "fits",
    "make_hinges",
    "ranked",
    "streamed_hinges",
]

Array = npt.NDArray[Any]
_THREADS = 4 if is_simulated() else 128
_GRID = 2 if is_simulated() else 1024
_PER_DOCUMENT = 64  # bytes of scores, coefficients and labels
_SHARE = 0.8  # of the free memory that features may take
_PART = 1 << 8 if is_simulated() else 1 << 28  # bytes of sparse features that are filled up at a time


class _Kept:
    """An array on the card that stays with a data set; it does not travel with it, to a file or another process."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        return type(None), ()


def fits(data: RankingData) -> bool:
    """Whether the features are on the card, or have room there."""
    X = stored(data)[0]
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    return vars(source_of(data)).get("_on_card") is not None or size <= _SHARE * free_bytes()


def features_there(data: RankingData) -> Any:
    """The features on the card, dense: the whole matrix of which the data has rows, uploaded once."""
    owner = source_of(data)
    kept: _Kept | None = vars(owner).get("_on_card")
    if kept is None:
        kept = vars(owner)["_on_card"] = _Kept(_dense_there(stored(data)[0]))
    return kept.array


def _dense_there(X: Any) -> Any:
    """Features on the card; sparse ones are filled up a part at a time."""
    if not sparse.issparse(X):
        return upload(X)
    found, step = cuda.device_array(X.shape, X.dtype), max(1, _PART // max(1, X.shape[1] * X.dtype.itemsize))
    for first in range(0, X.shape[0], step):
        upload(X[first : first + step].toarray(), found[first : first + step])
    return found


def card_scores(model: Any, data: RankingData) -> Array:
    """The scores of a linear model for the documents of a data set, in its order."""
    X, (rows, _, _) = features_there(data), _rows(data)
    scores = cuda.device_array(data.n_docs, np.float64)
    score_there(X, rows, weights_of(model, data.n_features, data.feature_names), scores)
    return np.asarray(scores.copy_to_host())


def _rows(data: RankingData) -> tuple[Any, Any, Any]:
    """On the card: the row of every document, the row at which each query starts, query boundaries."""
    starts, indptr = (upload(np.ascontiguousarray(part, np.int64)) for part in (stored(data)[1], data.indptr))
    rows = cuda.device_array(data.n_docs, np.int64)
    order.list_rows[blocks_of(data.n_queries), _THREADS](starts, indptr, rows)
    return rows, starts, indptr


def card_statistics(data: RankingData, threads: int = 1, *, summed: bool = True) -> Statistics:
    """The statistics of a data set, read on the card and kept with the data; the same numbers as the CPU's."""
    known: Statistics | None = vars(data).get("_statistics")
    if known is None or (summed and known.sums is None):
        can = data.n_docs and fits(data)
        found = statistics_on(features_there(data), _rows(data)[0], summed=summed) if can else None
        if found is not None:
            vars(data)["_statistics"] = found
    return statistics_of(data, threads, summed=summed)


def make_hinges(
    data: RankingData,
    labels: Sequence[Array],
    oracles: Sequence[Oracle],
    costs: Sequence[Array],
    weights: Array,
    found: Statistics,
    scale: Array,
    blocks: Array,
    threads: int,
) -> list[CudaHinge]:
    """A hinge for every loss, over one arrangement of the data in the order of its content.

    Parameters
    ----------
    data : RankingData
        The training set.
    labels, oracles, costs : sequence
        For each loss: labels of the documents and costs of the queries as the data has them, and the oracle.
    weights : ndarray
        Weights of the queries, which decide between queries of equal content.
    found : Statistics
        Of the features.
    scale, blocks, threads
        As for `StructuredHinge`.
    """
    X, (rows, starts, indptr) = features_there(data), _rows(data)
    there = [upload(np.ascontiguousarray(of_loss, np.float64)) for of_loss in labels]
    places, means = _ordered(data, X, rows, indptr, there, labels, found)
    queries = np.lexsort((weights, means))
    moved = sizes_to_indptr(data.sizes[queries])
    docs = cuda.device_array(data.n_docs, np.int64)
    order.gather_docs[blocks_of(data.n_queries), _THREADS](
        places, indptr, starts, upload(queries), upload(moved), docs, rows
    )
    arranged = Arranged(X, rows, moved)
    hinges = []
    for of_loss, oracle, cost in zip(there, oracles, costs, strict=True):
        own = cuda.device_array(data.n_docs, np.float64)
        order.gather_labels[_GRID, _THREADS](of_loss, docs, own)
        every: Any = range(data.n_docs)
        hinges.append(CudaHinge(arranged, every, own, moved, oracle, cost[queries], scale, blocks, threads))
    return hinges


def ranked(data: RankingData, coef: Array) -> Array:
    """The rank order of every query's documents by linear weights, equal scores in their order: places in the query.

    It is that of `rankwright.data.order.rank_order` without document ids.
    """
    X, (rows, _, indptr) = features_there(data), _rows(data)
    scores, places = cuda.device_array(data.n_docs, np.float64), cuda.device_array(data.n_docs, np.int32)
    score_there(X, rows, coef, scores)
    _sort_queries(data, indptr, scores, places)
    return np.asarray(places.copy_to_host())


def _sort_queries(data: RankingData, indptr: Any, keys: Any, places: Any) -> Any:
    """Fill the places of every query's documents by falling keys; the mean sine of the keys, on the card."""
    means = cuda.device_array(data.n_queries, np.float64)
    for one in launches(data.sizes, lambda n: 0):
        order.order_queries[one.grid, one.threads, 0, one.shared](
            one.queries, indptr, keys, places, means, one.scratch, one.room
        )
    return means


def streamed_hinges(
    X: Any,
    order: Canonical,
    labels: Sequence[Array],
    oracles: Sequence[Oracle],
    costs: Sequence[Array],
    scale: Array,
    blocks: Array,
    threads: int,
) -> list[CudaHinge]:
    """The same for an order that is known, with features that need not fit the card; labels and costs in that order."""
    n_docs = len(order.rows)
    room = int(_SHARE * free_bytes()) - _PER_DOCUMENT * n_docs
    arranged = Streamed(X if sparse.issparse(X) else np.asarray(X), order.rows, order.indptr, blocks=blocks, room=room)
    every: Any = range(n_docs)
    return [
        CudaHinge(arranged, every, upload(own.astype(np.float64)), order.indptr, oracle, cost, scale, blocks, threads)
        for own, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


def _ordered(
    data: RankingData, X: Any, rows: Any, indptr: Any, there: list[Any], labels: Sequence[Array], found: Statistics
) -> tuple[Any, Array]:
    """The places of the documents of every query in order, on the card, and the number that queries are sorted by."""
    keys, places = cuda.device_array(data.n_docs, np.float64), cuda.device_array(data.n_docs, np.int64)
    score_there(X, rows, mixture(found.low, found.high), keys)
    for of_loss, factor in zip(there, label_factors(labels), strict=True):
        if factor:
            order.add_labels[_GRID, _THREADS](of_loss, factor, keys)
    return places, _sort_queries(data, indptr, keys, places).copy_to_host()
