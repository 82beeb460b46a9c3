"""One part while it is made: its rows as they came, and the order that brings the rows of each query together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.blocks import query_chunks, sizes_to_indptr
from rankwright.data.partition_spill import Spill
from rankwright.data.parts import rows_of
from rankwright.errors import InputError

__all__ = ["StoredPart"]

Array = npt.NDArray[Any]
_ID_ROWS = 1 << 16  # ids copied at a time
_BLOCK_VALUES = 1 << 17  # features copied at a time
_ROW_VALUES = 8  # what a row counts besides its values, where it is sparse


class StoredPart:
    """The rows of a part, mapped, and where each of them goes; some bytes a row are in memory.

    Attributes
    ----------
    indptr : ndarray
        Boundaries of the queries, which come in the order of their first row.
    n_docs, n_queries : int
        Its size.
    """

    def __init__(self, spill: Spill, part: int) -> None:
        self._spill, self._part = spill, part
        hashes, sizes = self._map("run_hash", np.uint64), self._map("run_size", np.int64)
        _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        place = np.empty(len(first), np.int64)
        place[np.argsort(first)] = np.arange(len(first))
        query_of_run = place[inverse]
        self.n_docs, self.n_queries = int(sizes.sum()), len(first)
        self.indptr = sizes_to_indptr(np.bincount(query_of_run, sizes, len(first)).astype(np.int64))
        runs = np.argsort(query_of_run, kind="stable")
        starts = sizes_to_indptr(np.asarray(sizes))[:-1]
        self._rows = rows_of(starts[runs], sizes_to_indptr(sizes[runs]))
        self._first_run, self._query_of_run = np.sort(first), query_of_run

    def labels(self) -> Array:
        """All labels, in their new order."""
        return np.asarray(self._map("labels", np.float64)[self._rows])

    def query_ids(self) -> Array:
        """One id for each query; two queries with the same hash are refused."""
        ids = self._ids("qid", "query")
        found = ids.at(self._first_run)
        for start in range(0, len(self._query_of_run), _ID_ROWS):
            runs = np.arange(start, min(start + _ID_ROWS, len(self._query_of_run)))
            expected, own = found[self._query_of_run[runs]], ids.at(runs)
            if (expected != own).any():
                at = int(np.argmax(expected != own))
                what = f"the queries {expected[at]} and {own[at]} have the same 64-bit hash"
                raise InputError(f"{what}; expected another id for one of them")
        return found

    def doc_ids(self) -> tuple[np.dtype[Any], Iterator[Array]]:
        """The type of the document ids, and these, some at a time."""
        ids = self._ids("doc", "document")
        blocks = (ids.at(self._rows[start : start + _ID_ROWS]) for start in range(0, self.n_docs, _ID_ROWS))
        return ids.dtype, blocks

    def blocks(self, width: int, dtype: np.dtype[Any], is_sparse: bool) -> Iterator[Any]:
        """The features in their new order, some rows at a time, dense or CSR."""
        if not self._path("counts").exists():
            X = self._map("X", dtype).reshape(-1, width)
            step = max(1, _BLOCK_VALUES // max(1, width))
            for start in range(0, self.n_docs, step):
                block = X[self._rows[start : start + step]]
                yield sparse.csr_array(block) if is_sparse else block
            return
        counts = np.asarray(self._map("counts", np.int64))
        columns, values = self._map("columns", np.int32), self._map("values", dtype)
        starts, bounds = sizes_to_indptr(counts)[self._rows], sizes_to_indptr(counts[self._rows])
        size_of_row = _ROW_VALUES if is_sparse else width
        for first, last in query_chunks(bounds + np.arange(len(bounds)) * size_of_row, _BLOCK_VALUES):
            own = bounds[first : last + 1] - bounds[first]
            chosen = rows_of(starts[first:last], own)
            block = sparse.csr_array((values[chosen], columns[chosen], own), shape=(last - first, width))
            yield block if is_sparse else block.toarray()

    def n_stored(self, width: int) -> int:
        """How many sparse values there may be at most."""
        if self._path("counts").exists():
            return int(self._map("counts", np.int64).sum())
        return self.n_docs * width

    def remove(self) -> None:
        """Remove the files."""
        for path in self._spill.folder.glob(f"{self._part}.*"):
            path.unlink()

    def _ids(self, name: str, what: str) -> _Numbers | _Texts:
        kind = self._spill.kinds[what]
        if kind != "U":
            return _Numbers(self._map(name, np.int64 if kind == "i" else np.float64))
        return _Texts(self._map(f"{name}_size", np.int32), self._map(f"{name}_text", np.uint32))

    def _path(self, name: str) -> Path:
        return self._spill.path(self._part, name)

    def _map(self, name: str, dtype: Any) -> Array:
        path = self._path(name)
        if not path.exists() or not path.stat().st_size:
            return np.empty(0, dtype)
        return np.asarray(np.memmap(path, dtype, "r"))


class _Numbers:
    """Ids that are numbers."""

    def __init__(self, numbers: Array) -> None:
        self._numbers, self.dtype = numbers, numbers.dtype

    def at(self, rows: Array) -> Array:
        """The ids of some rows."""
        return np.asarray(self._numbers[rows])


class _Texts:
    """Ids that are texts, from their lengths and all their characters."""

    def __init__(self, sizes: Array, characters: Array) -> None:
        self._bounds, self._characters = sizes_to_indptr(sizes), characters
        self._width = max(1, int(sizes.max(initial=0)))
        self.dtype = np.dtype(f"<U{self._width}")

    def at(self, rows: Array) -> Array:
        """The ids of some rows."""
        starts, sizes = self._bounds[rows], self._bounds[rows + 1] - self._bounds[rows]
        found = np.zeros((len(rows), self._width), np.uint32)
        found[np.arange(self._width) < sizes[:, None]] = self._characters[rows_of(starts, sizes_to_indptr(sizes))]
        return found.view(self.dtype).reshape(-1)
