"""A max-margin training set on the device: features, statistics, order, and the structured hinge of every loss.

Features are uploaded once and stay with the data set that they belong to, as its statistics do; parts of it, such as
folds, use the same copy. They leave the device with the data set. Features too large for the device are streamed. Every
query's loss and hinge, and every block's plane, come back; the solver and its small problem stay on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.data.dataset import RankingData, source_of, stored
from rankwright.data.kernels import BOTTOM, BOTTOM_SQUARES, DIGIT
from rankwright.data.order import sizes_to_indptr
from rankwright.data.places import Orders, Place
from rankwright.data.statistics import Statistics, Sums
from rankwright.data.threads import Team
from rankwright.gpu import scoring
from rankwright.gpu.blockwise import NEAR, room_for
from rankwright.gpu.device import Recorded, free_bytes, is_simulated, multiprocessors, upload, upload_rows
from rankwright.gpu.device import blocks as blocks_of
from rankwright.gpu.oracles import CURRENT, ORACLES, further_room, packed_grades
from rankwright.gpu.scoring import count_up, score_there, weights_of
from rankwright.maxmargin.hinge import Planes, Scaled, StructuredHinge
from rankwright.maxmargin.order import LossData, centred, drawn, in_content_order, label_factors, mixture, rows_wanted
from rankwright.measures.base import Oracle
from rankwright.measures.oracles.common import OTHER

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
def _ends(X: Array, rows: Array, low: Array, high: Array, missing: Array) -> None:
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


@cuda.jit(device=True, cache=True)
def _cut(value: float) -> Any:
    """The integer of a value, and the rest of it, scaled up to its next digit."""
    digit = int64(value)
    return digit, (value - digit) * _UNIT


@cuda.jit(device=True, cache=True)
def _add_lines(total: int, shared: Array, column: int, sums: Array) -> None:
    """Add up a column's totals of all lines of a block."""
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    cuda.syncthreads()
    shared[line, t] = total
    cuda.syncthreads()
    if line == 0 and column < sums.size:
        for other in range(1, _LINES):
            total += shared[other, t]
        sums[column] = total


@cuda.jit(cache=True)
def _sum(X: Array, rows: Array, factors: Array, sums: Array, left: Array) -> None:
    """Integer sums of a chunk of rows and some columns; sets ``left`` if a value has further bits."""
    shared = cuda.shared.array(_SHAPE, int64)
    t, line = cuda.threadIdx.x, cuda.threadIdx.y
    chunk, column = cuda.blockIdx.x, cuda.blockIdx.y * _COLUMNS + t
    a = b = c = d = e = f = g = int64(0)
    further = False
    if column < X.shape[1]:
        factor = factors[column]
        for i in range(chunk * _LINES + line, rows.size, cuda.gridDim.x * _LINES):
            y = X[rows[i], column] * factor
            if not (-1.0 < y < 1.0):  # missing or infinite
                continue
            first, rest = _cut(y * _UNIT)
            second, rest = _cut(rest)
            third, rest = _cut(rest)
            further |= rest != 0.0
            a, b, c = a + first, b + second, c + third
            first, rest = _cut(y * y * _UNIT)
            second, rest = _cut(rest)
            third, rest = _cut(rest)
            fourth, rest = _cut(rest)
            further |= rest != 0.0
            d, e, f, g = d + first, e + second, f + third, g + fourth
    if further:
        left[0] = 1
    _add_lines(a, shared, column, sums[0, chunk])
    _add_lines(b, shared, column, sums[1, chunk])
    _add_lines(c, shared, column, sums[2, chunk])
    _add_lines(d, shared, column, sums[3, chunk])
    _add_lines(e, shared, column, sums[4, chunk])
    _add_lines(f, shared, column, sums[5, chunk])
    _add_lines(g, shared, column, sums[6, chunk])


def statistics_on(X: Array, rows: Array, *, summed: bool) -> Statistics | None:
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
    sums_of_values = _sums(integers[:3], powers - 3 * _BITS, BOTTOM)
    squares = _sums(integers[3:], 2 * powers - 4 * _BITS, BOTTOM_SQUARES)
    return Statistics(len(rows), low, high, missing, sums_of_values, squares)


def _sums(levels: Array, powers: Array, bottom: int) -> Sums:
    """Sums in digits, as the CPU keeps them, from digits of 40 bits; ``powers`` are those of two of the last ones."""
    power = bottom + (int(powers.min()) - bottom) // DIGIT * DIGIT
    integers = []
    for column, exponent in zip(levels.T, powers.tolist(), strict=True):
        total = 0
        for level in column:
            total = (total << _BITS) + int(level)
        integers.append(total << (exponent - power))
    n_digits = 3 + max(abs(total).bit_length() for total in integers) // DIGIT
    digits = np.zeros((n_digits, len(integers)), np.int64)
    for j, total in enumerate(integers):
        for d in range(n_digits - 1):
            digits[d, j] = total & ((1 << DIGIT) - 1)
            total >>= DIGIT
        digits[n_digits - 1, j] = total
    return Sums.trimmed(digits, power)


# Training data on the device in the order of its content: rows, query boundaries, and the two products over all of it.
#
# Several losses share one arrangement: scores are computed once for the same weights.


_SEGMENT = 6 if is_simulated() else 512  # approximate number of documents summed by a block of threads
_LONG = (1 if is_simulated() else 8) * _SEGMENT  # documents of a query that is cut into segments
_SHARED = 80 if is_simulated() else 6100  # numbers of 8 bytes in shared memory
_QUERY_THREADS = (4, 4) if is_simulated() else (64, 256)
_PADDED = 16 if is_simulated() else 2048  # all queries longer than half of this have one launch


@dataclass(frozen=True, eq=False)
class Launch:
    """Queries of similar length, and how a kernel is started for them.

    `queries`: their numbers. `grid`, `threads`, `shared`: blocks, threads of a block, bytes of shared memory.
    `scratch`: the place of long queries, a part for every block; empty where shared memory does. `room`: numbers of 8
    bytes for a query.
    """

    queries: Any
    grid: int
    threads: int
    shared: int
    scratch: Any
    room: int


def launches(sizes: Array, further: Callable[..., Any]) -> list[Launch]:
    """Launches for all queries, long ones first; ``further(n)``: memory of the oracle beyond the usual arrays.

    They come one after the other, so all long queries share their scratch.
    """
    padded = 1 << np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    padded = np.clip(padded, 2 * _QUERY_THREADS[0], _PADDED)
    planned, largest = [], 0
    for size in np.unique(padded)[::-1].tolist():
        queries = np.flatnonzero(padded == size)
        threads, longest = int(min(size // 2, _QUERY_THREADS[1])), int(sizes[queries].max())
        room, grid = room_for(longest, threads, further(longest)), len(queries)
        if room > _SHARED:
            grid = min(grid, 2 * multiprocessors())
            largest = max(largest, grid * room)  # further blocks have no query
        planned.append((queries, blocks_of(grid), threads, room))
    empty, scratch = cuda.device_array(0, np.float64), cuda.device_array(largest, np.float64)
    return [
        Launch(upload(queries), grid, threads, *((8 * NEAR, scratch) if room > _SHARED else (8 * room, empty)), room)
        for queries, grid, threads, room in planned
    ]


def segments_of(indptr: Array, blocks: Array) -> tuple[Array, Array]:
    """Boundaries of segments of documents, and of the segments of each block of queries.

    A segment is a run of whole queries or a piece of a long one, and never crosses the end of a block.
    """
    starts, sizes = indptr[:-1], np.diff(indptr)
    of_query = np.repeat(np.arange(len(blocks) - 1), np.diff(blocks))
    place = (starts - starts[blocks[:-1]][of_query]) // _SEGMENT if len(starts) else starts
    is_long = sizes > _LONG
    fresh = np.ones(len(starts), bool)
    fresh[1:] = (np.diff(place) != 0) | (np.diff(of_query) != 0) | is_long[1:] | is_long[:-1]
    cuts = [starts[fresh]]
    cuts += [np.arange(starts[q], starts[q] + sizes[q], _SEGMENT)[1:] for q in np.flatnonzero(is_long)]
    bounds = np.append(np.sort(np.concatenate(cuts)), indptr[-1])
    return bounds, np.searchsorted(bounds, indptr[blocks])


@dataclass(eq=False)
class Arranged:
    """Queries in an order, with features on the device.

    `X`: features, all rows. `rows`: the documents, query after query: rows of X. `indptr`: query boundaries in
    ``rows``.
    """

    X: Any
    rows: Any
    indptr: Array
    _scored: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.n_docs, self.n_features = int(self.indptr[-1]), int(self.X.shape[1])
        self.on_device = upload(self.indptr)
        self.scores, self.coef = (cuda.device_array(self.n_docs, np.float64) for _ in range(2))
        self._weights = cuda.device_array(self.n_features, np.float64)
        self._scoring, self._summing = Recorded(scoring.launch_scores), Recorded(scoring.launch_planes)
        self._segments: dict[int, tuple[Any, ...]] = {}
        self._inverse: tuple[Array, Any] = (np.empty(0), None)

    def score(self, weights: Array) -> None:
        """Compute the scores of all documents, unless these weights were the last ones scored."""
        if self._scored is not None and np.array_equal(weights, self._scored):
            return
        self._score(weights)
        self._scored = weights.copy()

    def _score(self, weights: Array) -> None:
        self._weights.copy_to_device(np.ascontiguousarray(weights))
        self._scoring(self.X, self.rows, self._weights, self.scores)

    def _factors(self, inverse: Array) -> Any:
        """Factors of the features on the device, shared by losses with the same arrangement."""
        if not np.array_equal(inverse, self._inverse[0]):
            self._inverse = (inverse, upload(inverse))
        return self._inverse[1]

    def planes(self, blocks: Array, inverse: Array) -> Array:
        """Σ coef · row over each block of queries, times ``inverse``."""
        key = len(blocks)
        if key not in self._segments:
            bounds, of_block = segments_of(self.indptr, blocks)
            sums = cuda.device_array((len(bounds) - 1, self.n_features), np.float64)
            planes = cuda.device_array((len(blocks) - 1, self.n_features), np.float64)
            self._segments[key] = (upload(bounds), upload(of_block), sums, planes)
        bounds, of_block, sums, planes = self._segments[key]
        self._summing(self.X, self.rows, self.coef, bounds, sums, of_block, self._factors(inverse), planes)
        return np.asarray(planes.copy_to_host())

    def close(self) -> None:
        self._scoring.close()
        self._summing.close()

    def sample(self, inverse: Array, kept: Array, wanted: int) -> Array:
        """About ``wanted`` documents, features times ``inverse`` less their means: those of `centred_sample`."""
        if not wanted:
            return np.empty((0, len(kept)))
        sampled = drawn(self.indptr, wanted)
        chosen, sizes = np.concatenate(sampled), np.array(list(map(len, sampled)))
        return centred(self._rows_of(chosen)[:, kept] * inverse[kept], sizes)

    def _rows_of(self, chosen: Array) -> Array:
        rows = cuda.device_array((len(chosen), self.n_features), np.float64)
        scoring.gather_rows[blocks_of(len(chosen)), _QUERY_THREADS[0]](self.X, self.rows, upload(chosen), rows)
        return np.asarray(rows.copy_to_host())


# Parameters of the map of positions, computed from the labels of all documents at once.


def means_and_gains(labels: Array, indptr: Array, parameters: Array) -> tuple[Array, Array]:
    """For each document, the mean weight of its grade's places in ideal rankings, and its gain over the ideal DCG.

    `labels`, `indptr`: labels, query after query, and boundaries. `parameters`: those of
    `rankwright.measures.oracles.positions.dorm`.
    """
    longest = (len(parameters) - 2) // 2
    decay, discount = parameters[2 : 2 + longest], parameters[2 + longest :]
    sizes = np.diff(indptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-labels, query))
    rank, best = np.arange(len(labels)) - np.repeat(indptr[:-1], sizes), labels[order]
    fresh = (np.diff(best, prepend=np.nan) != 0) | (rank == 0)
    group = np.cumsum(fresh) - 1
    means, gains = np.empty(len(labels)), np.empty(len(labels))
    means[order] = (np.bincount(group, decay[rank]) / np.bincount(group))[group]
    gain = 2.0**best - 1.0 if parameters[0] else best
    ideal = np.add.reduceat(gain * discount[rank], indptr[:-1])
    gains[order] = gain / np.where(ideal > 0, ideal, 1.0)[query]
    return means, gains


# Labels for the ramp bound on the map of reciprocal rank, on the device: only a query's topmost good counts.


@cuda.jit(cache=True)
def mark_others(
    indptr: Array, scores: Array, original: Array, before: Array, cost: Array, labels: Array, changes: Array
) -> None:
    """Label all goods but the topmost of every query as neither good nor bad; count what changed. A thread a query."""
    q = cuda.grid(1)
    if q >= indptr.size - 1:
        return
    top = -1
    for i in range(indptr[q], indptr[q + 1]):
        labels[i] = original[i]
        if cost[q] != 0.0 and original[i] > 0.0:
            if top >= 0 and scores[i] <= scores[top]:
                labels[i] = OTHER
            else:
                if top >= 0:
                    labels[top] = OTHER
                top = i
    changed = 0
    for i in range(indptr[q], indptr[q + 1]):
        if labels[i] != before[i]:
            changed += 1
    if changed:
        cuda.atomic.add(changes, 0, changed)


_MARKING = 4 if is_simulated() else 256  # threads that mark documents


def _launch(kernel: Any, planned: list[Launch], stream: int, *given: Any) -> None:
    data, outputs = given[:6], given[6:]
    for launch in planned:
        kernel[launch.grid, launch.threads, stream, launch.shared](
            launch.queries, data, outputs, launch.scratch, launch.room
        )


class CudaHinge(StructuredHinge):
    """The objective of a structured SVM, computed on the device.

    `X`: features and queries on the device. `labels`: labels in the order of the arrangement. `rows`, `indptr`,
    `oracle`, `cost`, `scale`, `blocks`, `threads`: as for `StructuredHinge`; of ``rows`` the number counts alone.
    """

    X: Arranged
    labels: Any

    def __post_init__(self) -> None:
        self._longest = int(np.diff(self.indptr).max())
        self._parameters = self.oracle.parameters(self._longest)
        self._own_labels = self.labels
        Scaled.__init__(self, self.scale)
        self._team = Team(self.threads)
        self._planes = Planes.empty(self.n_blocks, len(self.scale))
        self._nothing = upload(np.empty(0))
        self._added = self._nothing
        self._given = upload(self._parameters)
        self._costs: tuple[Array, Any] = (np.empty(0), None)
        self._found = cuda.device_array((2, len(self.indptr) - 1), np.float64)
        self._of_queries = self._found[0], self._found[1]
        self._choose_kernel()

    def _choose_kernel(self) -> None:
        """The kernel of the oracle, and labels in the form that it and that of the map take."""
        name, further = self.oracle.kernel.__name__, lambda n: 0
        self._kernel_labels = self._map_labels = self.labels
        self._cpu_oracle: StructuredHinge | None = None
        if name == "ndcg_at":
            cutoff = int(self._parameters[0])
            further = lambda n: further_room(n, cutoff)  # noqa: E731
        if name == "dorm":
            longest = (len(self._parameters) - 2) // 2
            decay, discount = self._parameters[2 : 2 + longest], self._parameters[2 + longest :]
            labels = self.labels.copy_to_host()
            means, gains = means_and_gains(labels, self.indptr, self._parameters)
            self._map_labels = upload(means)
            if np.array_equal(decay, discount):
                name, further = "sorted", lambda n: 1 << max(0, n - 1).bit_length()
                self._kernel_labels = upload(np.concatenate([means, gains]))
            elif (packed := packed_grades(labels, self.indptr, self._parameters, means, gains)) is not None:
                name, further = "table", lambda n: 2 * packed[1]
                self._kernel_labels = upload(packed[0])
        kernel, of_map = ORACLES.get(name), CURRENT.get(self.oracle.feature_map)
        if kernel is None:
            self._cpu_oracle = self._over_scores()
        planned = launches(np.diff(self.indptr), further)
        self._violated, self._current_by = (
            Recorded(partial(_launch, launched, planned)) for launched in (kernel, of_map)
        )

    def _over_scores(self) -> StructuredHinge:
        """The hinge on the CPU, with the scores as its only feature: for oracles that are not on the device."""
        labels, n_docs = self.labels.copy_to_host(), len(self.rows)
        labels.flags.writeable = False
        every = np.array([0, len(self.indptr) - 1])
        given = (self.indptr, self.oracle, self.cost, np.ones(1), every, self.threads)
        return StructuredHinge(np.empty((n_docs, 1)), np.arange(n_docs), labels, *given)

    def share(self, sharing: int, scores: Array, orders: Array) -> None:
        """Scores are shared by the arrangement."""

    def _cost_there(self, cost: Array) -> Any:
        if self._costs[0] is not cost:
            self._costs = (cost, upload(cost))
        return self._costs[1]

    def _pass(
        self, weights: Array, cost: Array, blocks: Array, planes: Planes, current: bool = False, alone: bool = False
    ) -> None:
        self.X.score(weights)
        results = self._found_for(cost, current)
        weighed = results * cost
        planes.losses[:] = np.add.reduceat(weighed[0], blocks[:-1])
        planes.values[:] = np.add.reduceat(weighed[1], blocks[:-1])
        if planes.vectors.shape[1] == len(weights):
            planes.vectors[:] = self.X.planes(blocks, self._inverse)

    def _found_for(self, cost: Array, current: bool) -> Array:
        """Loss and hinge of every query with a cost; the coefficients of documents are left on the device."""
        there = self._cost_there(cost)
        added = self._nothing if current else self._added
        if current:
            self._launch(self._current_by, self._map_labels, there, added)
        elif self._cpu_oracle is None:
            self._launch(self._violated, self._kernel_labels, there, added)
        else:
            return self._found_here(self._cpu_oracle, cost, added)
        results = self._found.copy_to_host()
        return np.where(cost != 0.0, results, 0.0)

    def _launch(self, recorded: Recorded, labels: Array, cost: Array, added: Array) -> None:
        inputs = (self.X.on_device, self.X.scores, labels, self._given, cost, added)
        recorded(*inputs, self.X.coef, *self._of_queries)

    def _found_here(self, cpu_oracle: StructuredHinge, cost: Array, added: Any) -> Array:
        """The same, with an oracle of the CPU."""
        scores = cpu_oracle.X[:, 0]
        self.X.scores.copy_to_host(scores)
        coef, losses = cpu_oracle.of_documents(np.ones(1), cost)
        if added.size:
            coef += added.copy_to_host()
        margins = np.add.reduceat(coef * scores, self.indptr[:-1])
        self.X.coef.copy_to_device(coef * np.repeat(cost, np.diff(self.indptr)))
        return np.where(cost != 0.0, np.stack([losses, losses - margins]), 0.0)

    def current_ranking(self, w: Array) -> Array:
        self.X.score(self.coefficients(w))
        self._launch(self._current_by, self._map_labels, upload((self.cost != 0.0) * 1.0), self._nothing)
        return np.asarray(self.X.coef.copy_to_host())

    def add(self, coef: Array) -> None:
        self._added = upload(coef)

    def reset(self) -> None:
        self.labels, self._added = self._own_labels, self._nothing
        if self.oracle.feature_map == "mrr":
            self._kernel_labels = self._map_labels = self.labels

    def _keep_topmost(self, w: Array) -> bool:
        self.X.score(self.coefficients(w))
        labels, changes = cuda.device_array_like(self._own_labels), upload(np.zeros(1, np.int64))
        n_queries = len(self.indptr) - 1
        mark_others[blocks_of(-(-n_queries // _MARKING)), _MARKING](
            self.X.on_device, self.X.scores, self._own_labels, self.labels, self._cost_there(self.cost), labels, changes
        )
        self.labels = self._kernel_labels = self._map_labels = labels
        return bool(changes.copy_to_host()[0])

    def sample(self, wanted: int | None = None) -> Array:
        wanted = rows_wanted(self.X.n_docs, len(self._kept)) if wanted is None else wanted
        return self.X.sample(self._inverse, self._kept, wanted)

    def evaluate_block(self, w: Array, block: int) -> tuple[float, Array, float]:
        """Loss, vector and value of the plane of one block at the weights ``w``: those of a whole pass."""
        planes = self.evaluate(w)
        return float(planes.losses[block]), planes.vectors[block], float(planes.values[block])

    def close(self) -> None:
        """Shut down the thread pool, and forget what was recorded."""
        super().close()
        if self._cpu_oracle is not None:
            self._cpu_oracle.close()
        for recorded in (self._violated, self._current_by, self.X):
            recorded.close()


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
        for piece in self._pieces:
            X, rows = self._there(piece)
            bounds = upload(self._bounds[piece.first : piece.last + 1] - piece.docs.start)
            scoring.add_segments[blocks_of(piece.last - piece.first), scoring.SUMMING](
                X, rows, self.coef[piece.docs], bounds, self._sums[piece.first : piece.last]
            )
        scoring.add_to_blocks[blocks_of(len(self.blocks) - 1), scoring.SUMMING](
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

    def __init__(self, array: Array) -> None:
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


def _dense_there(X: Features) -> Any:
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
        return np.asarray(self._scored(model)[0].copy_to_host())

    def orders(self, model: Any) -> Orders:
        """The rank orders by a linear model, as a function of the documents of some queries and their boundaries."""
        scores, indptr = self._scored(model)
        places = cuda.device_array(self.data.n_docs, np.int32)
        _sort_queries(self.data, indptr, scores, places)
        ranked = places.copy_to_host()
        return lambda docs, bounds: ranked[docs] + np.repeat(bounds[:-1], np.diff(bounds))

    def _scored(self, model: Any) -> tuple[Any, Any]:
        """The scores of a linear model and the query boundaries, on the device."""
        weights = weights_of(model, self.data.n_features, self.data.feature_names)
        (rows, _, indptr), scores = _rows(self.data), cuda.device_array(self.data.n_docs, np.float64)
        score_there(features_there(self.data), rows, weights, scores)
        return scores, indptr


def _rows(data: RankingData) -> tuple[Any, Any, Any]:
    """On the device: the row of every document, the row at which each query starts, query boundaries."""
    starts, indptr = (upload(np.ascontiguousarray(part, np.int64)) for part in (stored(data)[1], data.indptr))
    rows = cuda.device_array(data.n_docs, np.int64)
    scoring.list_rows[blocks_of(data.n_queries), _THREADS](starts, indptr, rows)
    return rows, starts, indptr


def hinges_there(
    data: RankingData, oracles: Sequence[Oracle], losses: LossData, scale: Array, blocks: Array, threads: int
) -> list[CudaHinge]:
    """A hinge for every loss, over one arrangement of the data in the order of its content.

    Features that are on the device are ordered there; others travel there in every pass, as far as they have no room.
    `oracles`: the oracle of every loss. `scale`, `blocks`, `threads`: as for `StructuredHinge`.
    """
    arranged: Arranged
    if is_there(data):
        arranged, labels, costs = _arranged(data, losses)
    else:  # in the order that the CPU finds; as many features stay on the device as have room
        ordered, labels, costs = in_content_order(data, losses, threads)
        room = int(_SHARE * free_bytes()) - _PER_DOCUMENT * data.n_docs
        X = stored(data)[0]
        X = X if sparse.issparse(X) else np.asarray(X)
        arranged = Streamed(X, ordered.rows, ordered.indptr, blocks=blocks, room=room)
        labels = [upload(of_loss.astype(np.float64)) for of_loss in labels]
    every: Any = range(data.n_docs)
    return [
        CudaHinge(arranged, every, of_loss, arranged.indptr, oracle, cost, scale, blocks, threads)
        for of_loss, oracle, cost in zip(labels, oracles, costs, strict=True)
    ]


def _arranged(data: RankingData, losses: LossData) -> tuple[Arranged, list[Any], list[Array]]:
    """Features, labels and costs in the order of content, found on the device."""
    X, (rows, starts, indptr) = features_there(data), _rows(data)
    there = [upload(np.ascontiguousarray(of_loss, np.float64)) for of_loss in losses.labels]
    keys, places = cuda.device_array(data.n_docs, np.float64), cuda.device_array(data.n_docs, np.int64)
    score_there(X, rows, mixture(losses.low, losses.high), keys)
    for of_loss, factor in zip(there, label_factors(losses.labels), strict=True):
        if factor:
            scoring.add_labels[_GRID, _THREADS](of_loss, factor, keys)
    queries = np.lexsort((losses.weights, _sort_queries(data, indptr, keys, places).copy_to_host()))
    moved = sizes_to_indptr(data.sizes[queries])
    docs = cuda.device_array(data.n_docs, np.int64)
    scoring.gather_docs[blocks_of(data.n_queries), _THREADS](
        places, indptr, starts, upload(queries), upload(moved), docs, rows
    )
    ordered = []
    for of_loss in there:
        gathered = cuda.device_array(data.n_docs, np.float64)
        scoring.gather_labels[_GRID, _THREADS](of_loss, docs, gathered)
        ordered.append(gathered)
    return Arranged(X, rows, moved), ordered, [cost[queries] for cost in losses.costs]


def _sort_queries(data: RankingData, indptr: Array, keys: Array, places: Array) -> Any:
    """Fill the places of every query's documents by falling keys; the mean sine of the keys, on the device."""
    means = cuda.device_array(data.n_queries, np.float64)
    for launch in launches(data.sizes, lambda n: 0):
        scoring.order_queries[launch.grid, launch.threads, 0, launch.shared](
            launch.queries, indptr, keys, places, means, launch.scratch, launch.room
        )
    return means
