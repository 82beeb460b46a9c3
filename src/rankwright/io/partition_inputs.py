"""Inputs of a partitioning, read some rows at a time: LETOR text, CSV, Parquet, data folders; a file or many.

Only what is known of an input before it is read decides how its rows are kept on the way; what turns out at its end
(the number of columns of text, categories, whether there are document ids) is asked for then.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rankwright.data import sparse
from rankwright.data.categories import check_holds
from rankwright.data.order import query_chunks
from rankwright.errors import InputError
from rankwright.io.detect import FEATURE_FORMATS, FORMATS, detected
from rankwright.io.features import CellRows, Rows, opened_table
from rankwright.io.files import Progress, open_file
from rankwright.io.folder import load_folder
from rankwright.io.parquet import ParquetTable, pieces_of
from rankwright.io.partitions import read_manifest
from rankwright.io.roles import Columns

Categories = dict[int, dict[Any, None]]
_BATCH_VALUES = 1 << 19  # of a data folder, copied at a time


@dataclass(frozen=True)
class Settings:
    """How inputs are read.

    `dtype`: the type of all features. `group`: documents per query, for text without ``qid:``. `negative` ({"error",
    "zero"}): whether a label below 0 is an error or becomes 0. `is_only`: whether there is one input: groups without
    ids are queries of one file only.
    """

    dtype: np.dtype[Any]
    group: Path | None = None
    negative: Literal["error", "zero"] = "error"
    is_only: bool = True


class Input(ABC):
    """Something with rows.

    `path`: the file or folder. `dtype`: the type of the features; None: any, as in text. `is_sparse`: none: whichever
    is smaller, as in text. `names`: names of the features. `n_bytes`: its size, for the progress. `width`,
    `categories`, `n_written`, `has_doc_ids`: columns; categories by column; values written out, zeros included; whether
    any document has an id. Known when all rows have been read.
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
    def rows(self, settings: Settings, progress: Progress | None) -> Iterator[Rows]:
        """All rows, some at a time."""


def inputs_of(path: Path, columns: Columns | None = None) -> list[Input]:
    """What is to be read of a file or folder: itself, or the pieces in it, one after the other."""
    if not path.is_file() and not path.is_dir() and path.exists():
        raise InputError("is neither a file nor a folder; expected one, as it is opened twice", path)
    with detected(path, columns) as found:
        kind = found.kind
    if kind not in FEATURE_FORMATS:
        raise InputError("contains no features; expected LETOR lines, CSV, Parquet or a data folder", path)
    if columns is not None and not FORMATS[kind].has_columns:
        raise InputError("has no columns to name; expected CSV or Parquet with --columns", path)
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
    """A Parquet file or a folder of them."""

    def __init__(self, path: Path, columns: Columns | None = None) -> None:
        self.path = path
        self.table = ParquetTable(path, columns=columns)
        self.dtype = self.table.dtype
        self.names = tuple(self.table.features)
        self.width, self.n_bytes = len(self.names), self.table.n_bytes
        self.categories, self.has_doc_ids = self.table.categories, self.table.has_doc_ids

    def rows(self, settings: Settings, progress: Progress | None) -> Iterator[Rows]:
        """All rows, some at a time."""
        return self.table.rows(settings.dtype, settings.negative, progress)


class FolderInput(Input):
    """A data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = load_folder(path)
        self.dtype, self.is_sparse, self.names = data.X.dtype, data.is_sparse, data.feature_names
        self.width, self.has_doc_ids = data.n_features, data.doc_ids is not None
        self.n_bytes = int((data.X.data if data.is_sparse else data.X).nbytes)
        self.categories = {at: dict.fromkeys(values) for at, values in data.categories.items()}

    def rows(self, settings: Settings, progress: Progress | None) -> Iterator[Rows]:
        """All rows, some at a time."""
        data = load_folder(self.path)
        if settings.dtype != data.X.dtype:
            check_holds(data, settings.dtype)
        stops = data.X.indptr if data.is_sparse else np.arange(data.n_docs + 1) * max(1, data.n_features)
        query = data.query_of_row()
        for first, last in query_chunks(stops, _BATCH_VALUES):
            X = data.X[first:last]
            with np.errstate(over="ignore"):
                X = X.astype(settings.dtype)
            _check_fits(X, first, self.path, settings.dtype)
            doc_ids = None if data.doc_ids is None else data.doc_ids[first:last]
            yield Rows(X, data.labels[first:last], data.query_ids[query[first:last]], doc_ids)
            if progress is not None:
                progress(self.n_bytes * last // data.n_docs, self.n_bytes)


def _check_fits(X: Any, start: int, path: Path, dtype: np.dtype[Any]) -> None:
    values = X.data if sparse.issparse(X) else X
    if np.isinf(values).any():
        rows = np.isinf(X.toarray() if sparse.issparse(X) else X).any(axis=1)
        what = f"row {start + int(np.argmax(rows))} (from 0) has a value that does not fit {dtype}"
        raise InputError(f"{what}; expected float64", path)


class LetorInput(Input):
    """A file of LETOR text, plain or gzip."""

    is_sparse = None

    def __init__(self, path: Path) -> None:
        from rankwright.io.letor import names_in

        self.path = path
        with open_file(path) as file:
            names = names_in(file)
            self.n_bytes = os.fstat(file.raw.fileno()).st_size
        self.names = None if names is None else tuple(names)
        self.width, self.n_written, self.has_doc_ids = len(names or ()), 0, False
        self.categories = {}

    def rows(self, settings: Settings, progress: Progress | None) -> Iterator[Rows]:
        """All rows, some at a time; features as CSR of as many columns as there are so far."""
        from rankwright.io.letor import EXPECTED, LetorRows, is_commented, parsed_lines

        with open_file(self.path) as file:
            rows = LetorRows(file.path, settings.negative, is_commented(file))
            n_rows, groups = 0, None
            known = None if self.names is None else len(self.names)
            for parsed, _ in parsed_lines(file, rows, settings.dtype, known, 0.0, 1, progress):
                if not len(parsed.counts):
                    continue
                labels, qid, doc_ids = rows.take()
                if qid is None and not settings.is_only:
                    what = "has no qid, and is one of several inputs; expected qid:Q after the label"
                    raise InputError(what, self.path, rows.first_line)
                if qid is None:
                    groups = groups or _groups(self.path, settings.group, rows.first_line)
                    qid = groups.qid(n_rows, n_rows + len(labels))
                n_rows += len(labels)
                self.has_doc_ids |= bool((doc_ids != "").any())
                yield Rows(self._features(parsed, settings.dtype), labels, qid, doc_ids)
        if groups is not None:
            groups.qid(n_rows, n_rows, is_all=True)
        elif settings.group is not None:
            raise InputError("has qid:Q in its lines, and group was given too; expected only one of them", self.path)
        if not n_rows:
            raise InputError(f"has no documents; {EXPECTED}", self.path)

    def _features(self, parsed: Any, dtype: np.dtype[Any]) -> sparse.csr_array:
        counts, columns, values = parsed.counts, parsed.columns, parsed.values.astype(dtype)
        self.n_written += len(values)
        self.width = max(self.width, int(columns.max()) + 1 if len(columns) else 0)
        kept = values != 0
        if not kept.all():
            counts = np.bincount(np.repeat(np.arange(len(counts)), counts)[kept], minlength=len(counts))
        indptr = np.append(0, np.cumsum(counts))
        return sparse.csr_array((values[kept], columns[kept], indptr), shape=(len(counts), self.width))


class CsvInput(Input):
    """A table in text, plain or gzip."""

    def __init__(self, path: Path, columns: Columns | None = None) -> None:
        self.path, self._columns = path, columns
        with open_file(path) as file:
            layout = opened_table(file, columns)[1]
            self.n_bytes = os.fstat(file.raw.fileno()).st_size
        self.names = tuple(layout.features)
        self.width, self.has_doc_ids = len(self.names), layout.docid is not None
        self.categories = {}

    def rows(self, settings: Settings, progress: Progress | None) -> Iterator[Rows]:
        """All rows, some at a time."""
        with open_file(self.path) as file:
            table, layout = opened_table(file, self._columns, progress)
            cells = CellRows(layout, file.path, settings.negative)
            yield from cells.rows(table, settings.dtype)
            self.categories = {at: dict.fromkeys(texts) for at, texts in cells.categories.items()}


def _groups(path: Path, group: Path | None, line: int) -> Any:
    from rankwright.io.letor import Groups

    return Groups(path, group, line)
