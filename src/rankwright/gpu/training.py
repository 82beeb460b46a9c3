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
from rankwright.data.places import Orders, Place
from rankwright.data.statistics import Statistics
from rankwright.gpu import order
from rankwright.gpu.arranged import Arranged, launches
from rankwright.gpu.card import blocks as blocks_of
from rankwright.gpu.card import free_bytes, is_simulated, upload
from rankwright.gpu.hinge import CudaHinge
from rankwright.gpu.scoring import score_there, weights_of
from rankwright.gpu.statistics import statistics_on
from rankwright.gpu.streamed import Streamed
from rankwright.measures.forms import Oracle
from rankwright.objectives.canonical import in_content_order, label_factors, mixture

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
    return is_there(data) or size <= _SHARE * free_bytes()


def is_there(data: RankingData) -> bool:
    """Whether the features are on the card."""
    return vars(source_of(data)).get("_on_card") is not None


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


class OnDevice(Place):
    """Features on the card: it reads, scores and ranks them."""

    def __init__(self, data: RankingData) -> None:
        super().__init__(data)
        if data.n_docs:
            features_there(data)

    def statistics(self, threads: int = 1, *, summed: bool = True) -> Statistics:
        """The statistics of the features, which are kept with the data; the same numbers as the CPU's."""
        data = self.data
        kept: Statistics | None = vars(data).get("_statistics")
        if data.n_docs and (kept is None or (summed and kept.sums is None)):
            read = statistics_on(features_there(data), _rows(data)[0], summed=summed)
            if read is not None:
                vars(data)["_statistics"] = read
        return super().statistics(threads, summed=summed)

    def scores(self, model: Any, missing_as_zero: bool = False) -> Array:
        """The scores of a linear model in the data's own order."""
        weights = weights_of(model, self.data.n_features, self.data.feature_names)
        return np.asarray(self._scored(weights, _rows(self.data)[0]).copy_to_host())

    def orders(self, model: Any) -> Orders:
        """The rank orders by a linear model, as a function of the documents of some queries and their boundaries."""
        weights = weights_of(model, self.data.n_features, self.data.feature_names)
        rows, _, indptr = _rows(self.data)
        places = cuda.device_array(self.data.n_docs, np.int32)
        _sort_queries(self.data, indptr, self._scored(weights, rows), places)
        ranked = places.copy_to_host()
        return lambda docs, bounds: ranked[docs] + np.repeat(bounds[:-1], np.diff(bounds))

    def _scored(self, weights: Array, rows: Any) -> Any:
        scores = cuda.device_array(self.data.n_docs, np.float64)
        score_there(features_there(self.data), rows, weights, scores)
        return scores


def _rows(data: RankingData) -> tuple[Any, Any, Any]:
    """On the card: the row of every document, the row at which each query starts, query boundaries."""
    starts, indptr = (upload(np.ascontiguousarray(part, np.int64)) for part in (stored(data)[1], data.indptr))
    rows = cuda.device_array(data.n_docs, np.int64)
    order.list_rows[blocks_of(data.n_queries), _THREADS](starts, indptr, rows)
    return rows, starts, indptr


def hinges_there(
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
) -> list[CudaHinge]:
    """A hinge for every loss, over one arrangement of the data in the order of its content.

    Features that are on the card are ordered there; others travel there in every pass, as far as they have no room.

    Parameters
    ----------
    data : RankingData
        The training set.
    oracles, labels, costs : sequence
        For each loss: the oracle, labels of the documents and costs of the queries as the data has them.
    weights : ndarray
        Weights of the queries, which decide between queries of equal content.
    low, high : ndarray
        The smallest and the largest value of every feature.
    scale, blocks, threads
        As for `StructuredHinge`.
    """
    arrange = _arranged if is_there(data) else _streamed
    arranged, labels, costs = arrange(data, labels, costs, weights, low, high, blocks, threads)
    every: Any = range(data.n_docs)
    return [
        CudaHinge(arranged, every, own, arranged.indptr, oracle, cost, scale, blocks, threads)
        for own, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


def _arranged(
    data: RankingData, labels: Sequence[Array], costs: Sequence[Array], weights: Array, low: Array, high: Array, *_: Any
) -> tuple[Arranged, list[Any], list[Array]]:
    """Features, labels and costs in the order of content, found on the card."""
    X, (rows, starts, indptr) = features_there(data), _rows(data)
    there = [upload(np.ascontiguousarray(of_loss, np.float64)) for of_loss in labels]
    places, means = _ordered(data, X, rows, indptr, there, labels, low, high)
    queries = np.lexsort((weights, means))
    moved = sizes_to_indptr(data.sizes[queries])
    docs = cuda.device_array(data.n_docs, np.int64)
    order.gather_docs[blocks_of(data.n_queries), _THREADS](
        places, indptr, starts, upload(queries), upload(moved), docs, rows
    )
    ordered = []
    for of_loss in there:
        own = cuda.device_array(data.n_docs, np.float64)
        order.gather_labels[_GRID, _THREADS](of_loss, docs, own)
        ordered.append(own)
    return Arranged(X, rows, moved), ordered, [cost[queries] for cost in costs]


def _streamed(
    data: RankingData,
    labels: Sequence[Array],
    costs: Sequence[Array],
    weights: Array,
    low: Array,
    high: Array,
    blocks: Array,
    threads: int,
) -> tuple[Streamed, list[Any], list[Array]]:
    """The same, found on the CPU; as many features stay on the card as have room."""
    found, labels, costs = in_content_order(data, labels, costs, weights, low, high, threads)
    X = stored(data)[0]
    room = int(_SHARE * free_bytes()) - _PER_DOCUMENT * data.n_docs
    X = X if sparse.issparse(X) else np.asarray(X)
    arranged = Streamed(X, found.rows, found.indptr, blocks=blocks, room=room)
    return arranged, [upload(own.astype(np.float64)) for own in labels], list(costs)


def _sort_queries(data: RankingData, indptr: Any, keys: Any, places: Any) -> Any:
    """Fill the places of every query's documents by falling keys; the mean sine of the keys, on the card."""
    means = cuda.device_array(data.n_queries, np.float64)
    for one in launches(data.sizes, lambda n: 0):
        order.order_queries[one.grid, one.threads, 0, one.shared](
            one.queries, indptr, keys, places, means, one.scratch, one.room
        )
    return means


def _ordered(
    data: RankingData,
    X: Any,
    rows: Any,
    indptr: Any,
    there: list[Any],
    labels: Sequence[Array],
    low: Array,
    high: Array,
) -> tuple[Any, Array]:
    """The places of the documents of every query in order, on the card, and the number that queries are sorted by."""
    keys, places = cuda.device_array(data.n_docs, np.float64), cuda.device_array(data.n_docs, np.int64)
    score_there(X, rows, mixture(low, high), keys)
    for of_loss, factor in zip(there, label_factors(labels), strict=True):
        if factor:
            order.add_labels[_GRID, _THREADS](of_loss, factor, keys)
    return places, _sort_queries(data, indptr, keys, places).copy_to_host()
