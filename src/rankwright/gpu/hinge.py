"""The structured hinge on the device: the interface of `StructuredHinge`, with passes over features that are there.

Every query's loss and hinge, and every block's plane, come back; the solver and its small problem stay on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numba import cuda

from rankwright._types import Array
from rankwright.data.threads import Team
from rankwright.gpu import products
from rankwright.gpu.blockwise import NEAR, room_for
from rankwright.gpu.device import Recorded, is_simulated, multiprocessors, upload
from rankwright.gpu.device import blocks as blocks_of
from rankwright.gpu.oracles import CURRENT, ORACLES, further_room, packed_grades
from rankwright.maxmargin.hinge import Planes, Scaled, StructuredHinge
from rankwright.maxmargin.order import centred, drawn, rows_wanted
from rankwright.measures.oracles.common import OTHER

# Training data on the device in the order of its content: rows, query boundaries, and the two products over all of it.
#
# Several losses share one arrangement: scores are computed once for the same weights.


_SEGMENT = 6 if is_simulated() else 512  # approximate number of documents summed by a block of threads
_LONG = (1 if is_simulated() else 8) * _SEGMENT  # documents of a query that is cut into segments
_SHARED = 80 if is_simulated() else 6100  # numbers of 8 bytes in shared memory
_THREADS = (4, 4) if is_simulated() else (64, 256)
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


def launches(sizes: Array, further: Any) -> list[Launch]:
    """Launches for all queries, long ones first; ``further(n)``: memory of the oracle beyond the usual arrays.

    They come one after the other, so all long queries share their scratch.
    """
    padded = 1 << np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    padded = np.clip(padded, 2 * _THREADS[0], _PADDED)
    planned, largest = [], 0
    for size in np.unique(padded)[::-1].tolist():
        queries = np.flatnonzero(padded == size)
        threads, longest = int(min(size // 2, _THREADS[1])), int(sizes[queries].max())
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
        n_docs = int(self.indptr[-1])
        self.n_features = int(self.X.shape[1])
        self.on_device = upload(self.indptr)
        self.scores, self.coef = cuda.device_array(n_docs, np.float64), cuda.device_array(n_docs, np.float64)
        self._weights = cuda.device_array(self.n_features, np.float64)
        self._scoring, self._summing = Recorded(products.launch_scores), Recorded(products.launch_planes)
        self._segments: dict[int, tuple[Any, ...]] = {}
        self._inverse: tuple[Array, Any] = (np.empty(0), None)

    @property
    def n_docs(self) -> int:
        return int(self.indptr[-1])

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
        products.gather_rows[blocks_of(len(chosen)), _THREADS[0]](self.X, self.rows, upload(chosen), rows)
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
def mark_others(indptr: Any, scores: Any, original: Any, before: Any, cost: Any, labels: Any, changes: Any) -> None:
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


_GRID = 4 if is_simulated() else 256  # threads that mark documents


def _launch(kernel: Any, planned: list[Launch], stream: Any, *given: Any) -> None:
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
        self._violated, self._current_by = (Recorded(partial(_launch, one, planned)) for one in (kernel, of_map))

    def _over_scores(self) -> StructuredHinge:
        """The hinge on the CPU, with the scores as its only feature: for oracles that are not on the device."""
        labels, n_docs = self.labels.copy_to_host(), len(self.rows)
        labels.flags.writeable = False
        every = np.array([0, len(self.indptr) - 1])
        given = (self.indptr, self.oracle, self.cost, np.ones(1), every, self.threads)
        return StructuredHinge(np.empty((n_docs, 1)), np.arange(n_docs), labels, *given)

    def share(self, sharing: int, scores: Any, orders: Any) -> None:
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

    def _launch(self, recorded: Recorded, labels: Any, cost: Any, added: Any) -> None:
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
        """The coefficient of every document in Ψ(an ideal ranking) − Ψ(the ranking that the weights make)."""
        self.X.score(self.coefficients(w))
        self._launch(self._current_by, self._map_labels, upload((self.cost != 0.0) * 1.0), self._nothing)
        return np.asarray(self.X.coef.copy_to_host())

    def add(self, coef: Array) -> None:
        """Add a coefficient of every document to those of every ranking, also of the ideal one."""
        self._added = upload(coef)

    def reset(self) -> None:
        """Compare with an ideal ranking again."""
        self.labels, self._added = self._own_labels, self._nothing
        if self.oracle.feature_map == "mrr":
            self._kernel_labels = self._map_labels = self.labels

    def _keep_topmost(self, w: Array) -> bool:
        """Let only the topmost good document of every query count; whether that changed anything."""
        self.X.score(self.coefficients(w))
        labels, changes = cuda.device_array_like(self._own_labels), upload(np.zeros(1, np.int64))
        n_queries = len(self.indptr) - 1
        mark_others[blocks_of(-(-n_queries // _GRID)), _GRID](
            self.X.on_device, self.X.scores, self._own_labels, self.labels, self._cost_there(self.cost), labels, changes
        )
        self.labels = self._kernel_labels = self._map_labels = labels
        return bool(changes.copy_to_host()[0])

    def sample(self, wanted: int | None = None) -> Array:
        """Features of some documents as weights see them, less the means of their queries; about ``wanted``."""
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
