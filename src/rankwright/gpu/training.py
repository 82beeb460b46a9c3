"""A max-margin training set on the device: features, statistics, order, and a hinge for every loss.

Features are uploaded once and stay with the data set that they belong to, as its statistics do; parts of it, such as
folds, use the same copy. They leave the device with the data set. Features too large for the device are streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, source_of, stored
from rankwright.data.kernels import BOTTOM, BOTTOM_SQUARES, DIGIT
from rankwright.data.order import sizes_to_indptr
from rankwright.data.places import Orders, Place
from rankwright.data.statistics import Statistics, Sums
from rankwright.gpu import products
from rankwright.gpu.device import blocks as blocks_of
from rankwright.gpu.device import free_bytes, is_simulated, multiprocessors, upload, upload_rows
from rankwright.gpu.hinge import Arranged, CudaHinge, launches, segments_of
from rankwright.gpu.products import count_up
from rankwright.gpu.scoring import score_there, weights_of
from rankwright.maxmargin.order import LossData, in_content_order, label_factors, mixture
from rankwright.measures.base import Oracle

# Statistics of features: the exact sums of `rankwright.data.statistics`, bit for bit.
#
# A value is scaled by a power of two to |y| < 1 and cut into three integers of 40 bits, its square into four. Integers
# are added without error, in any order. Where a value has bits below these, the CPU computes the statistics.


_BITS = 40
_UNIT = 2.0**_BITS
_SUMS = 7
_COLUMNS = 4 if is_simulated() else 32  # columns at a time, one for a thread
_LINES = 1 if is_simulated() else 8  # rows that a block reads at a time
_SHAPE = (_LINES, _COLUMNS)
_CHUNKS = 4  # of rows, for each multiprocessor
_MASK = (1 << 20) - 1


@cuda.jit(cache=True)
def _ends(X: Any, rows: Any, low: Any, high: Any, missing: Any) -> None:
    """Smallest and largest values, and missing ones, of a chunk of rows and some columns."""
    lows = cuda.shared.array(_SHAPE, float64)
    highs = cuda.shared.array(_SHAPE, float64)
    absent = cuda.shared.array(_SHAPE, int64)
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    chunk, column = cuda.blockIdx.x, cuda.blockIdx.y * _COLUMNS + t
    a, b, c = float("inf"), -float("inf"), 0
    if column < X.shape[1]:
        for i in range(chunk * _LINES + line, rows.size, cuda.gridDim.x * _LINES):
            value = float64(X[rows[i], column])
            if value != value:
                c += 1
            else:
                a, b = min(a, value), max(b, value)
    lows[line, t], highs[line, t], absent[line, t] = a, b, c
    cuda.syncthreads()
    if line == 0 and column < X.shape[1]:
        for other in range(1, _LINES):
            a, b, c = min(a, lows[other, t]), max(b, highs[other, t]), c + absent[other, t]
        low[chunk, column], high[chunk, column], missing[chunk, column] = a, b, c


@cuda.jit(cache=True)
def _sum(X: Any, rows: Any, factors: Any, sums: Any, left: Any) -> None:
    """Integer sums of a chunk of rows and some columns; sets ``left`` if a value has further bits."""
    shared = cuda.shared.array(_SHAPE, int64)
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    chunk, column = cuda.blockIdx.x, cuda.blockIdx.y * _COLUMNS + t
    a = b = c = d = e = f = g = 0
    further = False
    if column < X.shape[1]:
        factor = factors[column]
        for i in range(chunk * _LINES + line, rows.size, cuda.gridDim.x * _LINES):
            y = X[rows[i], column] * factor
            if not (-1.0 < y < 1.0):  # missing or infinite
                continue
            value = y * _UNIT
            digit = int64(value)
            a += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            b += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            c += digit
            further |= value != digit
            value = y * y * _UNIT
            digit = int64(value)
            d += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            e += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            f += digit
            value = (value - digit) * _UNIT
            digit = int64(value)
            g += digit
            further |= value != digit
    if further:
        left[0] = 1
    for level in range(_SUMS):
        total = a
        if level == 1:
            total = b
        elif level == 2:
            total = c
        elif level == 3:
            total = d
        elif level == 4:
            total = e
        elif level == 5:
            total = f
        elif level == 6:
            total = g
        cuda.syncthreads()
        shared[line, t] = total
        cuda.syncthreads()
        if line == 0 and column < X.shape[1]:
            for other in range(1, _LINES):
                total += shared[other, t]
            sums[level, chunk, column] = total


def statistics_on(X: Any, rows: Any, *, summed: bool) -> Statistics | None:
    """The statistics of one pass over the rows, as `Statistics.of` gives them; None where sums need the CPU.

    `X`: features; sums are for float32 alone, whose squares float64 holds. `rows`: the rows that count. `summed`:
    whether means and deviations are wanted.
    """
    d, chunks = int(X.shape[1]), _CHUNKS * multiprocessors()
    grid, block = (chunks, -(-d // _COLUMNS)), (_COLUMNS, _LINES)
    ends = [cuda.device_array((chunks, d), kind) for kind in (np.float64, np.float64, np.int64)]
    _ends[grid, block](X, rows, *ends)
    low, high, missing = (end.copy_to_host() for end in ends)
    low, high, missing = low.min(axis=0) + 0.0, high.max(axis=0) + 0.0, missing.sum(axis=0)
    if not summed:
        return Statistics(len(rows), low, high, missing, None, None)
    if X.dtype != np.float32:
        return None
    largest = np.where(np.isfinite(low) & np.isfinite(high), np.maximum(np.abs(low), np.abs(high)), 1.0)
    powers = np.frexp(largest)[1].astype(np.int64)
    remainder, sums = cuda.to_device(np.zeros(1, np.int64)), cuda.device_array((_SUMS, chunks, d), np.int64)
    _sum[grid, block](X, rows, cuda.to_device(np.ldexp(1.0, -powers)), sums, remainder)
    if remainder.copy_to_host()[0]:
        return None
    digits = sums.copy_to_host()
    integers = ((digits >> 20).sum(axis=1).astype(object) << 20) + (digits & _MASK).sum(axis=1)
    totals = [_joined(integers[:3, j], int(powers[j]) - 3 * _BITS) for j in range(d)]
    squares = [_joined(integers[3:, j], 2 * int(powers[j]) - 4 * _BITS) for j in range(d)]
    return Statistics(len(rows), low, high, missing, _sums(totals, BOTTOM), _sums(squares, BOTTOM_SQUARES))


def _joined(levels: Array, power: int) -> tuple[int, int]:
    """An integer and its power of two, from digits of 40 bits."""
    total = 0
    for level in levels:
        total = (total << _BITS) + int(level)
    return total, power


def _sums(totals: list[tuple[int, int]], bottom: int) -> Sums:
    """Sums in digits, as the CPU keeps them."""
    lowest = min(power for total, power in totals)
    power = bottom + (lowest - bottom) // DIGIT * DIGIT
    integers = [total << (exponent - power) for total, exponent in totals]
    n_digits = 3 + max(abs(total).bit_length() for total in integers) // DIGIT
    digits = np.zeros((n_digits, len(integers)), np.int64)
    for j, total in enumerate(integers):
        for d in range(n_digits - 1):
            digits[d, j] = total & ((1 << DIGIT) - 1)
            total >>= DIGIT
        digits[n_digits - 1, j] = total
    return Sums.trimmed(digits, power)


# Training data too large for the device: every pass uploads the rows piece by piece, in order.
#
# As many pieces as fit stay there; the others travel twice a pass, for scores and for planes. Pieces are runs of the
# segments whose sums make the planes, so the bits do not depend on how much fits.


_PIECE = 1 << 8 if is_simulated() else 1 << 28  # bytes, about


@dataclass(frozen=True, eq=False)
class _Piece:
    """A run of segments, ``first`` … ``last`` − 1, the documents they have, and their rows if these stay."""

    first: int
    last: int
    docs: slice
    rows: Any


@dataclass(eq=False)
class Streamed(Arranged):
    """Queries in an order, with streamed features.

    `X`: features, all rows; they may be mapped from a file. `rows`: the documents, query after query: rows of X.
    `indptr`: query boundaries in ``rows``. `blocks`: boundaries of the blocks of queries that share a plane. `room`:
    bytes of features that may stay on the device.
    """

    blocks: Array = field(kw_only=True)
    room: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._bounds, self._of_block = segments_of(self.indptr, self.blocks)
        self._sums = cuda.device_array((len(self._bounds) - 1, self.n_features), np.float64)
        self._found = cuda.device_array((len(self.blocks) - 1, self.n_features), np.float64)
        self._block_bounds = upload(self._of_block)
        of_row = self.n_features * self.X.dtype.itemsize
        self._pieces = self._cut(max(1, _PIECE // of_row), of_row)
        longest = max(piece.docs.stop - piece.docs.start for piece in self._pieces)
        self._buffer = cuda.device_array((longest, self.n_features), self.X.dtype)
        self._numbers = cuda.device_array(longest, np.int64)
        count_up[blocks_of(1), _THREADS](self._numbers)

    def _cut(self, most: int, of_row: int) -> list[_Piece]:
        """Pieces of about ``most`` documents; the first ones are uploaded while there is room."""
        pieces, first, free = [], 0, self.room
        while first < len(self._bounds) - 1:
            start = int(self._bounds[first])
            last = int(np.searchsorted(self._bounds, start + most, side="right")) - 1
            last = min(max(last, first + 1), len(self._bounds) - 1)
            docs = slice(start, int(self._bounds[last]))
            free -= (docs.stop - docs.start) * of_row
            pieces.append(_Piece(first, last, docs, self._stays(docs) if free >= 0 else None))
            first = last
        return pieces

    def _stays(self, docs: slice) -> Any:
        rows = self.rows[docs]
        return upload_rows(self.X, rows, cuda.device_array((len(rows), self.n_features), self.X.dtype))

    def _there(self, piece: _Piece) -> tuple[Any, Any]:
        n_docs = piece.docs.stop - piece.docs.start
        X = piece.rows
        if X is None:
            X = upload_rows(self.X, self.rows[piece.docs], self._buffer[:n_docs])
        return X, self._numbers[:n_docs]

    def _score(self, weights: Array) -> None:
        for piece in self._pieces:
            score_there(*self._there(piece), weights, self.scores[piece.docs])

    def planes(self, blocks: Array, inverse: Array) -> Array:
        """Σ coef · row over each block of queries, times ``inverse``."""
        for piece in self._pieces:
            X, rows = self._there(piece)
            bounds = upload(self._bounds[piece.first : piece.last + 1] - piece.docs.start)
            products.add_segments[blocks_of(piece.last - piece.first), products.SUMMING](
                X, rows, self.coef[piece.docs], bounds, self._sums[piece.first : piece.last]
            )
        products.add_to_blocks[blocks_of(len(self.blocks) - 1), products.SUMMING](
            self._sums, self._block_bounds, self._factors(inverse), self._found
        )
        return np.asarray(self._found.copy_to_host())

    def _rows_of(self, chosen: Array) -> Array:
        rows = self.X[self.rows[chosen]]
        return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, np.float64)


_THREADS = 4 if is_simulated() else 128
_GRID = 2 if is_simulated() else 1024
_PER_DOCUMENT = 64  # bytes of scores, coefficients and labels
_SHARE = 0.8  # of the free memory that features may take
_PART = 1 << 8 if is_simulated() else 1 << 28  # bytes of sparse features that are filled up at a time


class _Kept:
    """An array on the device that stays with a data set; it does not travel with it, to a file or another process."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        return type(None), ()


def fits(data: RankingData) -> bool:
    """Whether the features are on the device, or have room there."""
    X = stored(data)[0]
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    return is_there(data) or size <= _SHARE * free_bytes()


def is_there(data: RankingData) -> bool:
    """Whether the features are on the device."""
    return vars(source_of(data)).get("_on_device") is not None


def features_there(data: RankingData) -> Any:
    """The features on the device, dense: the whole matrix of which the data has rows, uploaded once."""
    owner = source_of(data)
    kept: _Kept | None = vars(owner).get("_on_device")
    if kept is None:
        kept = vars(owner)["_on_device"] = _Kept(_dense_there(stored(data)[0]))
    return kept.array


def _dense_there(X: Any) -> Any:
    """Features on the device; sparse ones are filled up a part at a time."""
    if not sparse.issparse(X):
        return upload(X)
    dense, step = cuda.device_array(X.shape, X.dtype), max(1, _PART // max(1, X.shape[1] * X.dtype.itemsize))
    for first in range(0, X.shape[0], step):
        upload(X[first : first + step].toarray(), dense[first : first + step])
    return dense


class DevicePlace(Place):
    """Features on the device: it reads, scores and ranks them."""

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
    """On the device: the row of every document, the row at which each query starts, query boundaries."""
    starts, indptr = (upload(np.ascontiguousarray(part, np.int64)) for part in (stored(data)[1], data.indptr))
    rows = cuda.device_array(data.n_docs, np.int64)
    products.list_rows[blocks_of(data.n_queries), _THREADS](starts, indptr, rows)
    return rows, starts, indptr


def hinges_there(
    data: RankingData, oracles: Sequence[Oracle], losses: LossData, scale: Array, blocks: Array, threads: int
) -> list[CudaHinge]:
    """A hinge for every loss, over one arrangement of the data in the order of its content.

    Features that are on the device are ordered there; others travel there in every pass, as far as they have no room.
    `oracles`: the oracle of every loss. `scale`, `blocks`, `threads`: as for `StructuredHinge`.
    """
    arranged, labels, costs = _arranged(data, losses) if is_there(data) else _streamed(data, losses, blocks, threads)
    every: Any = range(data.n_docs)
    return [
        CudaHinge(arranged, every, of_loss, arranged.indptr, oracle, cost, scale, blocks, threads)
        for of_loss, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


def _arranged(data: RankingData, losses: LossData) -> tuple[Arranged, list[Any], list[Array]]:
    """Features, labels and costs in the order of content, found on the device."""
    X, (rows, starts, indptr) = features_there(data), _rows(data)
    there = [upload(np.ascontiguousarray(of_loss, np.float64)) for of_loss in losses.labels]
    places, means = _ordered(data, X, rows, indptr, there, losses)
    queries = np.lexsort((losses.weights, means))
    moved = sizes_to_indptr(data.sizes[queries])
    docs = cuda.device_array(data.n_docs, np.int64)
    products.gather_docs[blocks_of(data.n_queries), _THREADS](
        places, indptr, starts, upload(queries), upload(moved), docs, rows
    )
    ordered = []
    for of_loss in there:
        gathered = cuda.device_array(data.n_docs, np.float64)
        products.gather_labels[_GRID, _THREADS](of_loss, docs, gathered)
        ordered.append(gathered)
    return Arranged(X, rows, moved), ordered, [cost[queries] for cost in losses.costs]


def _streamed(
    data: RankingData, losses: LossData, blocks: Array, threads: int
) -> tuple[Streamed, list[Any], list[Array]]:
    """The same, found on the CPU; as many features stay on the device as have room."""
    ordered, labels, costs = in_content_order(data, losses, threads)
    X = stored(data)[0]
    room = int(_SHARE * free_bytes()) - _PER_DOCUMENT * data.n_docs
    X = X if sparse.issparse(X) else np.asarray(X)
    arranged = Streamed(X, ordered.rows, ordered.indptr, blocks=blocks, room=room)
    return arranged, [upload(of_loss.astype(np.float64)) for of_loss in labels], list(costs)


def _sort_queries(data: RankingData, indptr: Any, keys: Any, places: Any) -> Any:
    """Fill the places of every query's documents by falling keys; the mean sine of the keys, on the device."""
    means = cuda.device_array(data.n_queries, np.float64)
    for launch in launches(data.sizes, lambda n: 0):
        products.order_queries[launch.grid, launch.threads, 0, launch.shared](
            launch.queries, indptr, keys, places, means, launch.scratch, launch.room
        )
    return means


def _ordered(
    data: RankingData, X: Any, rows: Any, indptr: Any, labels: list[Any], losses: LossData
) -> tuple[Any, Array]:
    """The places of the documents of every query in order, on the device, and the number that queries are sorted by."""
    keys, places = cuda.device_array(data.n_docs, np.float64), cuda.device_array(data.n_docs, np.int64)
    score_there(X, rows, mixture(losses.low, losses.high), keys)
    for of_loss, factor in zip(labels, label_factors(losses.labels), strict=True):
        if factor:
            products.add_labels[_GRID, _THREADS](of_loss, factor, keys)
    return places, _sort_queries(data, indptr, keys, places).copy_to_host()
