"""Rows on their way into parts: written to files of their part in the order in which they come, memory bounded.

The part of a query is a hash of its id, the same on every machine: BLAKE2b of the id as text, modulo the number of
parts. A number and the text of it are in the same part.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.container_write import writing
from rankwright.data.folder import storable_ids
from rankwright.errors import InputError
from rankwright.io.features import Rows

Array = npt.NDArray[Any]
_HELD_BYTES = 1 << 24  # in memory before they are written
_KINDS = {"i": "whole numbers", "f": "numbers with a decimal point", "U": "text"}


def query_hash(query: Any) -> int:
    """64 bits of a hash of a query id, the same on every machine and for a number and its text.

    Examples
    --------
    >>> query_hash("7") == query_hash(7) == query_hash(np.int32(7))
    True
    """
    value = query.item() if isinstance(query, np.generic) else query
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    digest = hashlib.blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def part_of(query: Any, n_parts: int) -> int:
    """The number of the part that a query is in, from 0.

    Examples
    --------
    >>> [part_of(query, 4) for query in ("a", "b", "c", 1, 2, 3)]
    [0, 0, 3, 2, 3, 2]
    """
    return query_hash(query) % n_parts


class Spill:
    """Rows of parts in files, in the order in which they were added.

    Parameters
    ----------
    folder : Path
        Where the files go.
    n_parts : int
        Number of parts.
    shown : Path
        What is being written, for messages.
    """

    def __init__(self, folder: Path, n_parts: int, shown: Path) -> None:
        self.folder, self.n_parts, self._shown = folder, n_parts, shown
        self._held: list[tuple[Rows, Array]] = []
        self._held_bytes = 0
        self._kinds: dict[str, tuple[str, str | Path]] = {}
        self.keeps_documents = True
        with writing(shown):
            folder.mkdir()

    def add(self, rows: Rows, path: str | Path) -> None:
        """Add rows of an input."""
        rows = Rows(rows.X, rows.labels, self._ids(rows.qid, "query", path), self._documents(rows, path))
        self._held.append((rows, _hashes(rows.qid)))
        self._held_bytes += rows.n_bytes
        if self._held_bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held in memory."""
        taken = [(rows, hashes, *self._by_part(hashes)) for rows, hashes in self._held]
        self._held, self._held_bytes = [], 0
        for part in range(self.n_parts):
            files: dict[str, list[Array]] = {}
            for rows, hashes, order, bounds in taken:
                chosen = order[bounds[part] : bounds[part + 1]]
                for name, values in _files(rows.take(chosen), hashes[chosen]).items() if len(chosen) else ():
                    files.setdefault(name, []).append(values)
            with writing(self._shown):
                for name, listed in files.items():
                    with open(self.path(part, name), "ab") as file:
                        for values in listed:
                            file.write(np.ascontiguousarray(values).view(np.uint8).data)

    def _by_part(self, hashes: Array) -> tuple[Array, Array]:
        parts = (hashes % np.uint64(self.n_parts)).astype(np.int64)
        order = np.argsort(parts, kind="stable")
        return order, np.searchsorted(parts[order], np.arange(self.n_parts + 1))

    def path(self, part: int, name: str) -> Path:
        """The file of a part."""
        return self.folder / f"{part}.{name}"

    def _documents(self, rows: Rows, path: str | Path) -> Array | None:
        self.keeps_documents &= rows.doc_ids is not None
        return self._ids(rows.doc_ids, "document", path) if self.keeps_documents and rows.doc_ids is not None else None

    def _ids(self, ids: Array, what: str, path: str | Path) -> Array:
        """Ids as 8-byte numbers or text, of the same kind in all inputs."""
        ids = storable_ids(ids, f"{what} ids")
        if ids.dtype.kind in "iu":
            if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
                raise InputError(f"the {what} id {ids.max()} does not fit 64 bits; expected it as text", path)
            ids = ids.astype(np.int64)
        elif ids.dtype.kind == "f":
            ids = ids.astype(np.float64)
        kind, first = self._kinds.setdefault(what, (ids.dtype.kind, path))
        if kind != ids.dtype.kind:
            found = f"{what} ids are {_KINDS[ids.dtype.kind]}, but {_KINDS[kind]} in {first}"
            raise InputError(f"{found}; expected the same in all inputs", path)
        return ids

    @property
    def kinds(self) -> dict[str, str]:
        """Of queries and documents, the kind of their ids: i, f or U, as numpy has them."""
        return {what: kind for what, (kind, _) in self._kinds.items()}


def _hashes(qid: Array) -> Array:
    """The hash of the query of every row; computed once for each run of rows, or each query if these are fewer."""
    starts = np.flatnonzero(np.append(True, qid[1:] != qid[:-1]))
    unique, inverse = np.unique(qid[starts], return_inverse=True)
    hashes = np.fromiter((query_hash(one) for one in unique.tolist()), np.uint64, len(unique))
    return np.repeat(hashes[inverse], np.diff(np.append(starts, len(qid))))


def _files(rows: Rows, hashes: Array) -> dict[str, Array]:
    """What is written of rows of one part: query ids once for each run of rows."""
    starts = np.flatnonzero(np.append(True, rows.qid[1:] != rows.qid[:-1]))
    sizes = np.diff(np.append(starts, len(hashes)))
    files = {"labels": rows.labels, "run_hash": hashes[starts], "run_size": sizes}
    files |= _id_files("qid", rows.qid[starts])
    if rows.doc_ids is not None:
        files |= _id_files("doc", rows.doc_ids)
    if not sparse.issparse(rows.X):
        return files | {"X": rows.X}
    columns = rows.X.indices.astype(np.int32)
    return files | {"counts": np.diff(rows.X.indptr).astype(np.int64), "columns": columns, "values": rows.X.data}


def _id_files(name: str, ids: Array) -> dict[str, Array]:
    """Numbers as they are; texts as their lengths and all their characters."""
    if ids.dtype.kind != "U":
        return {name: ids}
    characters = np.ascontiguousarray(ids).view(np.uint32).reshape(len(ids), -1)
    width = characters.shape[1]
    ends = np.where(characters != 0, np.arange(1, width + 1, dtype=np.int32), 0).max(axis=1, initial=0)
    kept = np.arange(width) < ends[:, None]
    return {f"{name}_size": ends.astype(np.int32), f"{name}_text": characters[kept]}
