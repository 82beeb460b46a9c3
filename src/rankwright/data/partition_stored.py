"""A part under construction: its rows in input order, and the permutation that groups them by query."""

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

Array = npt.NDArray[Any]
_ID_ROWS = 1 << 16  # ids copied at a time
_BLOCK_VALUES = 1 << 17  # features copied at a time
_BLOCK_ROWS = 1 << 16  # of sparse features looked at at a time
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
        self._query_of_run, self._first_run = _queries(hashes)
        self.n_docs, self.n_queries = int(sizes.sum()), len(self._first_run)
        self.indptr = sizes_to_indptr(np.bincount(self._query_of_run, sizes, self.n_queries).astype(np.int64))
        self._rows = _gathered(np.argsort(self._query_of_run, kind="stable"), sizes, self.n_docs)

    def labels(self) -> Iterator[Array]:
        """The labels in their new order, some at a time."""
        labels = self._map("labels", np.float64)
        return (labels[self._rows[start : start + _ID_ROWS]] for start in range(0, self.n_docs, _ID_ROWS))

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
        counts, columns = self._map("counts", np.int64), self._map("columns", np.int32)
        values, starts = self._map("values", dtype), sizes_to_indptr(counts)
        size_of_row = _ROW_VALUES if is_sparse else width
        for start in range(0, self.n_docs, _BLOCK_ROWS):
            rows = self._rows[start : start + _BLOCK_ROWS]
            bounds = sizes_to_indptr(counts[rows])
            for first, last in query_chunks(bounds + np.arange(len(bounds)) * size_of_row, _BLOCK_VALUES):
                own = bounds[first : last + 1] - bounds[first]
                chosen = rows_of(starts[rows[first:last]], own)
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


def _queries(hashes: Array) -> tuple[Array, Array]:
    """The query of each run of rows, numbered by their first runs, and these."""
    order = np.argsort(hashes, kind="stable")
    is_first = np.append(True, hashes[order[1:]] != hashes[order[:-1]])
    first = order[is_first]
    place = np.empty(len(first), _small(len(hashes)))
    place[np.argsort(first)] = np.arange(len(first))
    query = np.empty(len(hashes), place.dtype)
    query[order] = place[np.cumsum(is_first, dtype=place.dtype) - 1]
    return query, np.sort(first)


def _gathered(runs: Array, sizes: Array, n_docs: int) -> Array:
    """The rows of runs, one run after the other: each row is the one before plus 1, but for the first of a run."""
    rows = np.ones(n_docs, _small(n_docs))
    starts = sizes_to_indptr(sizes)
    at = before = 0
    for block in range(0, len(runs), _ID_ROWS):
        own = runs[block : block + _ID_ROWS]
        bounds = at + sizes_to_indptr(sizes[own])
        lasts = starts[own + 1] - 1
        rows[bounds[:-1]] = starts[own] - np.append(before, lasts[:-1])
        at, before = int(bounds[-1]), int(lasts[-1])
    return np.cumsum(rows, dtype=rows.dtype, out=rows)


def _small(length: int) -> type[np.signedinteger[Any]]:
    """The smaller type that can number so many."""
    return np.int32 if length < 2**31 else np.int64


class _Numbers:
    """Ids that are numbers."""

    def __init__(self, numbers: Array) -> None:
        self._numbers, self.dtype = numbers, numbers.dtype

    def at(self, rows: Array) -> Array:
        return np.asarray(self._numbers[rows])


class _Texts:
    """Ids that are texts, from their lengths and all their characters."""

    def __init__(self, sizes: Array, characters: Array) -> None:
        self._bounds, self._characters = sizes_to_indptr(sizes), characters
        self._width = max(1, int(sizes.max(initial=0)))
        self.dtype = np.dtype(f"<U{self._width}")

    def at(self, rows: Array) -> Array:
        starts, sizes = self._bounds[rows], self._bounds[rows + 1] - self._bounds[rows]
        found = np.zeros((len(rows), self._width), np.uint32)
        found[np.arange(self._width) < sizes[:, None]] = self._characters[rows_of(starts, sizes_to_indptr(sizes))]
        return found.view(self.dtype).reshape(-1)
