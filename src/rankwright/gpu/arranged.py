"""Training data on the card in the order of its content: rows, query boundaries, and the two products over all of it.

Several losses share one arrangement: scores are computed once for the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.gpu import products
from rankwright.gpu.card import blocks as blocks_of
from rankwright.gpu.card import is_simulated, multiprocessors, upload
from rankwright.gpu.query import NEAR, room_for
from rankwright.gpu.recorded import Recorded
from rankwright.objectives.sample import centred, drawn

Array = npt.NDArray[Any]
_SEGMENT = 6 if is_simulated() else 512  # approximate number of documents summed by a block of threads
_LONG = (1 if is_simulated() else 8) * _SEGMENT  # documents of a query that is cut into segments
_SHARED = 80 if is_simulated() else 6100  # numbers of 8 bytes in shared memory
_THREADS = (4, 4) if is_simulated() else (64, 256)
_PADDED = 16 if is_simulated() else 2048  # all queries longer than half of this have one launch


@dataclass(frozen=True, eq=False)
class Launch:
    """Queries of similar length, and how a kernel is started for them.

    Attributes
    ----------
    queries : device array
        Their numbers.
    grid, threads, shared : int
        Blocks, threads of a block, bytes of shared memory.
    scratch : device array
        The place of long queries, a part for every block; empty where shared memory does.
    room : int
        Numbers of 8 bytes for a query.
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
    """Queries in an order, with features on the card.

    Parameters
    ----------
    X : device array
        Features, all rows.
    rows : device array
        The documents, query after query: rows of X.
    indptr : ndarray
        Query boundaries in ``rows``.
    """

    X: Any
    rows: Any
    indptr: Array
    _scored: Array | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        n_docs = int(self.indptr[-1])
        self.n_features = int(self.X.shape[1])
        self.on_card = upload(self.indptr)
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
        """Factors of the features on the card, shared by losses with the same arrangement."""
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
        parts = drawn(self.indptr, wanted)
        chosen, sizes = np.concatenate(parts), np.array(list(map(len, parts)))
        return centred(self._rows_of(chosen)[:, kept] * inverse[kept], sizes)

    def _rows_of(self, chosen: Array) -> Array:
        rows = cuda.device_array((len(chosen), self.n_features), np.float64)
        products.gather_rows[blocks_of(len(chosen)), _THREADS[0]](self.X, self.rows, upload(chosen), rows)
        return np.asarray(rows.copy_to_host())
