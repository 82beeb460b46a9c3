"""Writing partitions: inputs are read some rows at a time, rows go to files of their partition, then each is grouped.

Memory holds some batches of rows, and up to 28 bytes for each row of one partition; it does not grow with the rest. The
same rows in the same order give the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.categories import NO_CATEGORY, category_numbers, check_holds, named
from rankwright.data.dataset import most_features
from rankwright.data.order import query_chunks, rows_of, sizes_to_indptr
from rankwright.data.statistics import Statistics, StatisticsBuilder, Sums
from rankwright.errors import InputError
from rankwright.io.container import ArrayFile, FolderWriter, check_foreign
from rankwright.io.csv import CellRows, cell_table, table_layout
from rankwright.io.detect import check_features, detected
from rankwright.io.files import Progress, open_file, replace_folder, writing
from rankwright.io.folder import FOLDER, folder_facts, load_folder, save_sparse, storable_ids
from rankwright.io.frames import ReadRows
from rankwright.io.letor import (
    EXPECTED,
    Groups,
    LetorRows,
    is_commented,
    is_smaller_sparse,
    names_in,
    parsed_lines,
    without_zeros,
)
from rankwright.io.parquet import ParquetTable, pieces_of
from rankwright.io.partitions import (
    MANIFEST,
    PARTITIONS,
    STATISTICS,
    Manifest,
    PartitionEntry,
    header_sum,
    is_partitions,
    read_manifest,
)
from rankwright.io.roles import Columns

# Inputs, read some rows at a time: LETOR text, CSV, Parquet, data folders; a file or many.
#
# Only what is known of an input before it is read decides how its rows are kept on the way; what turns out at its end
# (the number of columns of text, categories, whether there are document ids) is asked for then.


Categories = dict[int, dict[Any, None]]
_BATCH_VALUES = 1 << 19  # of a data folder, copied at a time


@dataclass(frozen=True)
class InputSettings:
    """How inputs are read.

    `dtype`: the type of all features. `group`: documents per query, for text without ``qid:``. `is_only`: whether there
    is one input: groups without ids are queries of one file only.
    """

    dtype: np.dtype[Any]
    group: Path | None = None
    negative: Literal["error", "zero"] = "error"
    is_only: bool = True


class Input(ABC):
    """Something with rows.

    `dtype`: the type of the features; None: any, as in text. `is_sparse`: None: whichever is smaller, as in text.
    `n_bytes`: its size, for the progress. Known when all rows have been read: `width`, the number of features;
    `categories`, by column; `n_written`, values written out, zeros included; `has_doc_ids`.
    """

    path: Path
    dtype: np.dtype[Any] | None = None
    is_sparse: bool | None = False
    names: tuple[str, ...] | None
    n_bytes: int
    width: int
    categories: Categories
    n_written: int = 0
    has_doc_ids: bool

    @abstractmethod
    def rows(self, settings: InputSettings, progress: Progress | None) -> Iterator[ReadRows]:
        """All rows, some at a time."""


def inputs_of(path: Path, columns: Columns | None = None) -> list[Input]:
    """What is to be read of a file or folder: itself, or the pieces in it, one after the other."""
    if not path.is_file() and not path.is_dir() and path.exists():
        raise InputError("is neither a file nor a folder; expected one, as it is opened twice", path)
    with detected(path, columns) as detection:
        check_features(detection, columns)
        kind = detection.kind
    if kind == "letor":
        return [LetorInput(path)]
    if kind == "csv":
        return [CsvInput(path, columns)]
    if kind == "parquet":
        return [ParquetInput(path, columns)]
    if kind == "partitions":
        return [FolderInput(path / source.name) for source in read_manifest(path).sources]
    return [FolderInput(piece.path) for piece in pieces_of(path)] if kind == "folders" else [FolderInput(path)]


class ParquetInput(Input):
    def __init__(self, path: Path, columns: Columns | None = None) -> None:
        self.path = path
        self.table = ParquetTable(path, columns=columns)
        self.dtype = self.table.dtype
        self.names = tuple(self.table.features)
        self.width, self.n_bytes = len(self.names), self.table.n_bytes
        self.categories, self.has_doc_ids = self.table.categories, self.table.layout.docid is not None

    def rows(self, settings: InputSettings, progress: Progress | None) -> Iterator[ReadRows]:
        return self.table.rows(settings.dtype, settings.negative, progress)


class FolderInput(Input):
    def __init__(self, path: Path) -> None:
        self.path = path
        data = load_folder(path)
        self.dtype, self.is_sparse, self.names = data.X.dtype, data.is_sparse, data.feature_names
        self.width, self.has_doc_ids = data.n_features, data.doc_ids is not None
        self.n_bytes = int((data.X.data if data.is_sparse else data.X).nbytes)
        self.categories = {at: dict.fromkeys(values) for at, values in data.categories.items()}

    def rows(self, settings: InputSettings, progress: Progress | None) -> Iterator[ReadRows]:
        data = load_folder(self.path)
        if settings.dtype != data.X.dtype:
            check_holds(data, settings.dtype)
        stops = data.X.indptr if data.is_sparse else np.arange(data.n_docs + 1) * max(1, data.n_features)
        query = data.query_of_row()
        for first, last in query_chunks(stops, _BATCH_VALUES):
            X = data.X[first:last]
            with np.errstate(over="ignore"):
                X = X.astype(settings.dtype)
            if np.isinf(X.data if data.is_sparse else X).any():
                infinite = np.isinf(X.toarray() if data.is_sparse else X).any(axis=1)
                problem = f"row {first + int(np.argmax(infinite))} (from 0) has a value that does not fit"
                raise InputError(f"{problem} {settings.dtype}; expected float64", self.path)
            doc_ids = None if data.doc_ids is None else data.doc_ids[first:last]
            yield ReadRows(X, data.labels[first:last], data.query_ids[query[first:last]], doc_ids)
            if progress is not None:
                progress(self.n_bytes * last // data.n_docs, self.n_bytes)


class LetorInput(Input):
    is_sparse = None

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_file(path) as file:
            names = names_in(file)
            self.n_bytes = os.fstat(file.raw.fileno()).st_size
        self.names = None if names is None else tuple(names)
        self.width, self.n_written, self.has_doc_ids = len(names or ()), 0, False
        self.categories = {}

    def rows(self, settings: InputSettings, progress: Progress | None) -> Iterator[ReadRows]:
        """All rows, some at a time; features as CSR of as many columns as there are so far."""
        with open_file(self.path) as file:
            rows = LetorRows(file.path, settings.negative, is_commented(file))
            n_rows, groups = 0, None
            n_named = None if self.names is None else len(self.names)
            for parsed, _ in parsed_lines(file, rows, settings.dtype, n_named, 0.0, 1, progress):
                if not len(parsed.counts):
                    continue
                labels, qid, doc_ids = rows.take()
                if qid is None and not settings.is_only:
                    problem = "has no qid, and is one of several inputs; expected qid:Q after the label"
                    raise InputError(problem, self.path, rows.first_line)
                if qid is None:
                    groups = groups or Groups(self.path, settings.group, rows.first_line)
                    qid = groups.qid(n_rows, n_rows + len(labels))
                n_rows += len(labels)
                self.has_doc_ids |= bool((doc_ids != "").any())
                yield ReadRows(self._features(parsed, settings.dtype), labels, qid, doc_ids)
        if groups is not None:
            groups.qid(n_rows, n_rows, is_all=True)
        elif settings.group is not None:
            raise InputError("has qid:Q in its lines, and group was given too; expected only one of them", self.path)
        if not n_rows:
            raise InputError(f"has no documents; {EXPECTED}", self.path)

    def _features(self, parsed: Any, dtype: np.dtype[Any]) -> sparse.csr_array:
        self.n_written += len(parsed.values)
        self.width = max(self.width, int(parsed.columns.max()) + 1 if len(parsed.columns) else 0)
        columns, values = parsed.columns.copy(), parsed.values.astype(dtype)  # the parser will overwrite its own
        counts, columns, values = without_zeros(parsed.counts, columns, values)
        indptr = np.append(0, np.cumsum(counts))
        return sparse.csr_array((values, columns, indptr), shape=(len(counts), self.width))


class CsvInput(Input):
    def __init__(self, path: Path, columns: Columns | None = None) -> None:
        self.path = path
        self._columns = columns
        with open_file(path) as file:
            self._table, self._layout = table_layout(file, columns)
            self.n_bytes = os.fstat(file.raw.fileno()).st_size
        self.names = tuple(self._layout.features)
        self.width, self.has_doc_ids = len(self.names), self._layout.docid is not None
        self.categories = {}

    def rows(self, settings: InputSettings, progress: Progress | None) -> Iterator[ReadRows]:
        with open_file(self.path) as file:
            cells = CellRows(self._layout, self._table, settings.negative, self._columns)
            table = cell_table(file, self._columns, progress, names=self._table.names)
            yield from cells.rows(table, settings.dtype)
            self.categories = {at: dict.fromkeys(texts) for at, texts in cells.categories.items()}


# Rows on their way into partitions: written to files of their partition in the order in which they come. Each run of
# rows of one query carries 64 bits of the hash of its id; that equal hashes are equal ids is checked when ids are
# written.
#
# The partition of a query is a hash of its id, the same on every machine: BLAKE2b of the id as text, modulo the number
# of partitions. A number and the text of it are in the same partition.


_HELD_BYTES = 1 << 24  # in memory before they are written
_KINDS = {"i": "whole numbers", "f": "numbers with a decimal point", "U": "text"}


def query_hash(query: str) -> int:
    """64 bits of a hash of a query id, the same on every machine and for a number and its text."""
    value = query.item() if isinstance(query, np.generic) else query
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    digest = hashlib.blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def partition_of(query: Any, n_partitions: int) -> int:
    """The number of the partition that a query is in, from 0.

    Examples
    --------
    >>> [partition_of(query, 4) for query in ("a", "b", "c", 1, 2, 3)]
    [0, 0, 3, 2, 3, 2]
    """
    return query_hash(query) % n_partitions


class Spill:
    """Rows of partitions in files, in the order in which they were added.

    `shown`: what is being written, for messages. `kinds`: of queries and documents, the kind of their ids as numpy has
    it (i, f or U), and where the first of them is.
    """

    def __init__(self, folder: Path, n_partitions: int, shown: Path) -> None:
        self.folder, self.n_partitions, self._shown = folder, n_partitions, shown
        self._held: list[tuple[ReadRows, Array]] = []
        self._held_bytes = 0
        self.kinds: dict[str, tuple[str, str | Path]] = {}
        self.keeps_documents = True
        with writing(shown):
            folder.mkdir()

    def add(self, rows: ReadRows, path: str | Path) -> None:
        self.keeps_documents &= rows.doc_ids is not None
        doc_ids = rows.doc_ids if self.keeps_documents else None
        doc_ids = None if doc_ids is None else self._ids(doc_ids, "document", path)
        rows = ReadRows(rows.X, rows.labels, self._ids(rows.qid, "query", path), doc_ids)
        self._held.append((rows, _hashes(rows.qid)))
        self._held_bytes += rows.n_bytes
        if self._held_bytes >= _HELD_BYTES:
            self.flush()

    def flush(self) -> None:
        taken = []
        for rows, hashes in self._held:
            partitions = (hashes % np.uint64(self.n_partitions)).astype(np.int64)
            order = np.argsort(partitions, kind="stable")
            bounds = np.searchsorted(partitions[order], np.arange(self.n_partitions + 1))
            taken.append((rows, hashes, order, bounds))
        self._held, self._held_bytes = [], 0
        for partition in range(self.n_partitions):
            files: dict[str, list[Array]] = {}
            for rows, hashes, order, bounds in taken:
                chosen = order[bounds[partition] : bounds[partition + 1]]
                for name, values in _files(rows.take(chosen), hashes[chosen]).items() if len(chosen) else ():
                    files.setdefault(name, []).append(values)
            with writing(self._shown):
                for name, listed in files.items():
                    with open(self.path(partition, name), "ab") as file:
                        for values in listed:
                            file.write(np.ascontiguousarray(values).view(np.uint8).data)

    def path(self, partition: int, name: str) -> Path:
        return self.folder / f"{partition}.{name}"

    def _ids(self, ids: Array, role: str, path: str | Path) -> Array:
        """Ids as 8-byte numbers or text, of the same kind in all inputs."""
        ids = storable_ids(ids, f"{role} ids")
        if ids.dtype.kind in "iu":
            if ids.dtype == np.uint64 and len(ids) and ids.max() > np.iinfo(np.int64).max:
                raise InputError(f"the {role} id {ids.max()} does not fit 64 bits; expected it as text", path)
            ids = ids.astype(np.int64)
        elif ids.dtype.kind == "f":
            ids = ids.astype(np.float64)
        kind, first = self.kinds.setdefault(role, (ids.dtype.kind, path))
        if kind != ids.dtype.kind:
            problem = f"{role} ids are {_KINDS[ids.dtype.kind]}, but {_KINDS[kind]} in {first}"
            raise InputError(f"{problem}; expected the same in all inputs", path)
        return ids


def _hashes(qid: Array) -> Array:
    """The hash of the query of every row; computed once for each run of rows, or each query if these are fewer."""
    starts = np.flatnonzero(np.append(True, qid[1:] != qid[:-1]))
    unique, inverse = np.unique(qid[starts], return_inverse=True)
    hashes = np.fromiter((query_hash(query) for query in unique.tolist()), np.uint64, len(unique))
    return np.repeat(hashes[inverse], np.diff(np.append(starts, len(qid))))


def _files(rows: ReadRows, hashes: Array) -> dict[str, Array]:
    """What is written of rows of one partition: query ids once for each run of rows."""
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


# A partition under construction: its rows in input order, and the permutation that groups them by query. Statistics are
# computed from blocks of the partition, never of the reader, so no byte depends on how inputs were read.


_ID_ROWS = 1 << 16  # ids copied at a time
_BLOCK_VALUES = 1 << 17  # features copied at a time
_BLOCK_ROWS = 1 << 16  # of sparse features looked at at a time
_ROW_VALUES = 8  # what a row counts besides its values, where it is sparse


class StoredPartition:
    """The rows of a partition, mapped, and where each of them goes; some bytes a row are in memory.

    `indptr`: boundaries of the queries, which come in the order of their first row. `n_docs`, `n_queries`: its size.
    """

    def __init__(self, spill: Spill, partition: int) -> None:
        self._spill, self._partition = spill, partition
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
        _, ids = self._ids("qid", "query")
        heads = ids(self._first_run)
        for start in range(0, len(self._query_of_run), _ID_ROWS):
            runs = np.arange(start, min(start + _ID_ROWS, len(self._query_of_run)))
            expected, actual = heads[self._query_of_run[runs]], ids(runs)
            if (expected != actual).any():
                at = int(np.argmax(expected != actual))
                problem = f"the queries {expected[at]} and {actual[at]} have the same 64-bit hash"
                raise InputError(f"{problem}; expected another id for one of them")
        return heads

    def doc_ids(self) -> tuple[np.dtype[Any], Iterator[Array]]:
        """The type of the document ids, and these, some at a time."""
        dtype, ids = self._ids("doc", "document")
        return dtype, (ids(self._rows[start : start + _ID_ROWS]) for start in range(0, self.n_docs, _ID_ROWS))

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
                local_bounds = bounds[first : last + 1] - bounds[first]
                chosen = rows_of(starts[rows[first:last]], local_bounds)
                block = sparse.csr_array((values[chosen], columns[chosen], local_bounds), shape=(last - first, width))
                yield block if is_sparse else block.toarray()

    def n_stored(self, width: int) -> int:
        """How many sparse values there may be at most."""
        if self._path("counts").exists():
            return int(self._map("counts", np.int64).sum())
        return self.n_docs * width

    def remove(self) -> None:
        for path in self._spill.folder.glob(f"{self._partition}.*"):
            path.unlink()

    def _ids(self, name: str, role: str) -> tuple[np.dtype[Any], Callable[[Array], Array]]:
        """The type of ids, and a function that returns those of some rows."""
        kind, _ = self._spill.kinds[role]
        if kind != "U":
            numbers = self._map(name, np.int64 if kind == "i" else np.float64)
            return numbers.dtype, lambda rows: np.asarray(numbers[rows])
        sizes, characters = self._map(f"{name}_size", np.int32), self._map(f"{name}_text", np.uint32)
        bounds, width = sizes_to_indptr(sizes), max(1, int(sizes.max(initial=0)))
        dtype = np.dtype(f"<U{width}")

        def texts(rows: Array) -> Array:
            starts, lengths = bounds[rows], bounds[rows + 1] - bounds[rows]
            padded = np.zeros((len(rows), width), np.uint32)
            padded[np.arange(width) < lengths[:, None]] = characters[rows_of(starts, sizes_to_indptr(lengths))]
            return padded.view(dtype).reshape(-1)

        return dtype, texts

    def _path(self, name: str) -> Path:
        return self._spill.path(self._partition, name)

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
        chosen = runs[block : block + _ID_ROWS]
        bounds = at + sizes_to_indptr(sizes[chosen])
        lasts = starts[chosen + 1] - 1
        rows[bounds[:-1]] = starts[chosen] - np.append(before, lasts[:-1])
        at, before = int(bounds[-1]), int(lasts[-1])
    return np.cumsum(rows, dtype=rows.dtype, out=rows)


def _small(length: int) -> type[np.signedinteger[Any]]:
    """The smaller type that can number so many."""
    return np.int32 if length < 2**31 else np.int64


_MOST_LABELS = 1000


@dataclass(frozen=True)
class PartitionForm:
    """What all partitions have in common."""

    names: tuple[str, ...] | None
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    has_doc_ids: bool
    categories: Mapping[int, tuple[Any, ...]]


def write_partitions(
    inputs: Sequence[Input],
    n_partitions: int,
    path: str | Path,
    settings: InputSettings,
    *,
    is_sparse: bool | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Read inputs one after the other and write their queries into partitions; the folder appears when it is complete.

    Partitions to which no query belongs are left out. `is_sparse`: sparse or dense features; default: as the inputs
    are, text as whichever is smaller.
    """
    path = Path(path)
    check_replaceable(path)
    with replace_folder(path, MANIFEST) as folder:
        spill = Spill(folder / "spill", n_partitions, path)
        form = _spilled(inputs, spill, settings, is_sparse, progress)
        digits = max(4, len(str(n_partitions - 1)))
        manifest = FolderWriter(folder, path, PARTITIONS)
        partitions: list[PartitionEntry] = []
        statistics: list[Statistics] = []
        for number in range(n_partitions):
            if spill.path(number, "labels").exists():
                name = f"partition-{number:0{digits}}.rank"
                entry, of_partition = _write_partition(StoredPartition(spill, number), folder, path, name, form)
                partitions.append(entry)
                statistics.append(of_partition)
        with writing(path):
            spill.folder.rmdir()
        facts = _facts(form, partitions, n_partitions)
        manifest.finish(facts | {"powers": _save_statistics(manifest, statistics)})
    return read_manifest(path)


def _save_statistics(manifest: FolderWriter, statistics: Sequence[Statistics]) -> dict[str, int]:
    """Write the statistics of all partitions; the powers of two of their sums' first digits."""
    for name, field in zip(STATISTICS, ("low", "high", "missing"), strict=False):
        manifest.save(name, np.stack([getattr(of_partition, field) for of_partition in statistics]))
    powers = {}
    for name in STATISTICS[3:]:
        digits, powers[name] = Sums.stacked([getattr(of_partition, name) for of_partition in statistics])
        manifest.save(name, digits)
    return powers


def check_replaceable(path: Path) -> None:
    """Refuse to replace anything but a folder of partitions."""
    if not path.exists():
        return
    manifest = None
    if is_partitions(path):
        with suppress(InputError):
            manifest = read_manifest(path)
    if manifest is None:
        raise InputError("exists and is not a folder of partitions; expected a new name", path)
    arrays = {f"{name}.npy" for name in manifest.header["arrays"]}
    check_foreign(path, PARTITIONS, {MANIFEST, *arrays, *(partition.name for partition in manifest.partitions)})


def _spilled(
    inputs: Sequence[Input], spill: Spill, settings: InputSettings, is_sparse: bool | None, progress: Progress | None
) -> PartitionForm:
    """Write all rows to the files of their partitions; what they have in common."""
    keeps_sparse = any(source.is_sparse is not False for source in inputs)
    for source in inputs:
        if source.names != inputs[0].names:
            problem = f"has other features than {inputs[0].path}"
            raise InputError(f"{problem}; expected the same names in the same order", source.path)
    n_rows, done, total = 0, 0, sum(source.n_bytes for source in inputs)
    for source in inputs:
        step = None if progress is None else partial(_notify, progress, done, total)
        for rows in source.rows(settings, step):
            X = sparse.csr_array(rows.X) if keeps_sparse and not sparse.issparse(rows.X) else rows.X
            spill.add(ReadRows(X, rows.labels, rows.qid, rows.doc_ids), source.path)
            n_rows += len(rows.labels)
        done += source.n_bytes
    spill.flush()
    width = max(source.width for source in inputs)
    if not keeps_sparse and any(source.width != width for source in inputs):
        counts = ", ".join(str(source.width) for source in inputs)
        raise InputError(f"inputs with different numbers of features cannot be joined: {counts}")
    if is_sparse is None:
        if keeps_sparse and not any(source.is_sparse for source in inputs):  # text, in whichever form is smaller
            n_written = sum(source.n_written for source in inputs)
            is_sparse = is_smaller_sparse(n_rows, width, n_written, settings.dtype.itemsize)
        else:
            is_sparse = keeps_sparse
    if width > most_features(2 * total):
        raise InputError(f"{width:,} features in {total:,} bytes; expected fewer", inputs[0].path)
    has_doc_ids = all(source.has_doc_ids for source in inputs) and spill.keeps_documents
    return PartitionForm(
        inputs[0].names, width, settings.dtype, is_sparse, has_doc_ids, _joined_categories(inputs, settings.dtype)
    )


def _notify(progress: Progress, done: int, total: int, read: int, _: int) -> None:
    progress(done + read, total)


def _joined_categories(inputs: Sequence[Input], dtype: np.dtype[Any]) -> dict[int, tuple[Any, ...]]:
    """The categories of all inputs; a column holds them in all or in none."""
    names = inputs[0].names or ()
    categories = {}
    for column in sorted({column for source in inputs for column in source.categories}):
        without = [source for source in inputs if column not in source.categories]
        if without:
            problem = f"the column {names[column]!r} holds numbers, but categories in another input"
            raise InputError(f"{problem}; expected the same in all", without[0].path)
        values = dict.fromkeys(value for source in inputs for value in source.categories[column])
        categories[column] = category_numbers(values, f"the column {names[column]!r}")[0]
    if categories and dtype != np.float64:
        held = named(names[column] for column in categories)
        raise InputError(f"{dtype} cannot hold the categories of {held}; expected float64", inputs[0].path)
    return categories


def _write_partition(
    partition: StoredPartition, folder: Path, shown: Path, name: str, form: PartitionForm
) -> tuple[PartitionEntry, Statistics]:
    with writing(shown):
        (folder / name).mkdir()
    writer = FolderWriter(folder / name, shown, FOLDER)
    label_counts: Counter[float] = Counter()
    with writer.open("labels", np.float64) as file:
        for labels in partition.labels():
            if len(label_counts) <= _MOST_LABELS:
                values, counts = np.unique(labels, return_counts=True)
                label_counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            file.append(labels)
    by_label = [[label, count] for label, count in sorted(label_counts.items())]
    writer.save("indptr", partition.indptr)
    writer.save("query_ids", partition.query_ids())
    if form.has_doc_ids:
        dtype, blocks = partition.doc_ids()
        with writer.open("doc_ids", dtype) as file:
            for block in blocks:
                file.append(block)
    statistics = _write_features(partition, writer, form)
    size = (partition.n_docs, partition.n_queries, form.n_features)
    writer.finish(folder_facts(*size, form.is_sparse, form.names, form.categories))
    partition.remove()
    with writing(shown):
        n_bytes = sum(file.stat().st_size for file in (folder / name).iterdir())
        checksum = header_sum(folder / name)
    kept = by_label if len(by_label) <= _MOST_LABELS else None
    return PartitionEntry(name, partition.n_queries, partition.n_docs, n_bytes, checksum, kept), statistics


def _write_features(partition: StoredPartition, writer: FolderWriter, form: PartitionForm) -> Statistics:
    statistics = StatisticsBuilder(form.n_features)
    blocks = partition.blocks(form.n_features, form.dtype, form.is_sparse)
    if not form.is_sparse:
        with ArrayFile(writer, "X", form.dtype, (partition.n_docs, form.n_features)) as file:
            for X in blocks:
                for column in form.categories:  # missing while it was not known that these are categories
                    X[np.isnan(X[:, column]), column] = NO_CATEGORY
                file.append(X)
                statistics.add(_without_codes(X, form))
        return statistics.finish()

    def noted_blocks() -> Iterator[Any]:
        for X in blocks:
            X.data[np.isnan(X.data) & np.isin(X.indices, list(form.categories))] = NO_CATEGORY
            statistics.add(_without_codes(X, form))
            yield X

    save_sparse(writer, form.dtype, partition.n_stored(form.n_features), noted_blocks())
    return statistics.finish()


def _without_codes(X: Any, form: PartitionForm) -> Any:
    """A block whose missing categories are missing values."""
    if not form.categories:
        return X
    X, columns = X.copy(), list(form.categories)
    if form.is_sparse:
        X.data[(X.data == NO_CATEGORY) & np.isin(X.indices, columns)] = np.nan
    else:
        codes = X[:, columns]
        X[:, columns] = np.where(codes == NO_CATEGORY, np.nan, codes)
    return X


def _facts(form: PartitionForm, partitions: Sequence[PartitionEntry], n_partitions: int) -> dict[str, Any]:
    return {
        "partitioned_by": "blake2b-64 of the query id",
        "partitions_asked_for": n_partitions,
        "queries": sum(partition.queries for partition in partitions),
        "documents": sum(partition.documents for partition in partitions),
        "features": form.n_features,
        "kind": "sparse" if form.is_sparse else "dense",
        "dtype": str(form.dtype),
        "document_ids": form.has_doc_ids,
        "feature_names": None if form.names is None else list(form.names),
        "categorical": sorted(form.categories),
        "partitions": [vars(partition) for partition in partitions],
    }
