"""Reading Parquet: a file, or a folder of files as one table, in batches; needs pyarrow.

The files of a folder have the same columns, in any order. Folders such as ``bucket=3`` say how the rows were spread:
``bucket`` is no feature. What a program leaves out of the files because folders tell it (``qid=17``) is a column again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import join_ids
from rankwright.data.dataset import RankingData
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.frames import columns_of, import_library
from rankwright.data.pieces import keys_of, pieces_of
from rankwright.data.rows import Rows
from rankwright.data.tables import Layout, batch_rows
from rankwright.errors import InputError

__all__ = ["ParquetTable", "read_parquet", "read_table"]

Array = npt.NDArray[Any]
Keys = Mapping[str, Any]
_READ_VALUES = 1 << 19  # values per batch read: they stay in the cache while columns become rows
_CLAIM_LEAST, _CLAIM_MOST = 1 << 30, 1 << 8  # bytes in memory, and times the size of the file
_BUFFER_BYTES = 1 << 16
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_parquet(
    path: Source,
    *,
    qid: str = "qid",
    docid: str = "docid",
    label: str = "label",
    features: Sequence[str] | None = None,
    dtype: npt.DTypeLike | None = None,
    negative: Literal["error", "zero"] = "error",
    progress: Progress | None = None,
) -> RankingData:
    """Read a Parquet file or a folder of them; needs pyarrow (``pip install 'rankwright[tables]'``).

    Parameters
    ----------
    path : path
        The file, or a folder as Spark, DuckDB and Polars write it: files in the order of their names, also below
        folders such as ``bucket=3``. A query may be in several files; its rows are brought together.
    qid, docid, label, features
        The columns, as in :func:`from_frame`; the name of a folder such as ``qid=17`` gives a column, too. Others such
        as ``bucket=3`` give a feature only if it is in ``features``.
    dtype : float32 or float64, optional
        The type of the features; by default what the columns need.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> read_parquet("train.parquet", qid="query_id")  # doctest: +SKIP
    RankingData(784 queries, 15211 documents, 46 dense float64 features)
    """
    table = ParquetTable(path, qid=qid, docid=docid, label=label, features=features)
    return read_table(table, np.dtype(dtype or table.dtype), negative, progress)


def read_table(
    table: ParquetTable,
    dtype: np.dtype[Any],
    negative: Literal["error", "zero"] = "error",
    progress: Progress | None = None,
) -> RankingData:
    """All of a table in memory."""
    X, labels = np.empty((table.n_rows, len(table.features)), dtype), np.empty(table.n_rows)
    qids: list[Array] = []
    doc_ids: list[Array] = []
    at = 0
    for rows in table.rows(dtype, negative, progress):
        part = slice(at, at + len(rows.labels))
        X[part], labels[part] = rows.X, rows.labels
        qids.append(rows.qid)
        doc_ids += [] if rows.doc_ids is None else [rows.doc_ids]
        at = part.stop
    with _naming(table.path):
        return RankingData.from_arrays(
            X,
            labels,
            join_ids(qids),
            doc_ids=join_ids(doc_ids) if doc_ids else None,
            feature_names=table.features,
            categories={at: tuple(values) for at, values in table.categories.items()},
        )


@dataclass(frozen=True)
class _File:
    source: Source
    keys: Keys
    layout: Layout
    n_rows: int
    n_bytes: int


class ParquetTable:
    """One or more Parquet files as one table. Their descriptions are read at once, rows when they are asked for.

    Attributes
    ----------
    path : path
        The file or folder.
    features : list of str
        The feature columns.
    dtype : numpy dtype
        The smallest type of features that holds all columns.
    n_rows : int
        Number of rows.
    categories : dict
        For each categorical feature, by its number, the values that have occurred so far.
    left_out : list of str
        From the names of folders, such as ``bucket`` for ``bucket=3``, that are neither features nor anything else.
    """

    def __init__(
        self,
        path: Source,
        *,
        qid: str = "qid",
        docid: str = "docid",
        label: str = "label",
        features: Sequence[str] | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.path = path.path if isinstance(path, OpenFile) else path
        self._roles = {"qid": qid, "docid": docid, "label": label}
        self._files: list[_File] = []
        self.left_out: list[str] = []
        sources: Sequence[tuple[Source, Keys]]
        named = {qid, docid, label, *(features or ())}
        if keys is not None:
            sources = [(path, keys)]
        elif not isinstance(path, OpenFile) and Path(path).is_dir():
            found = [piece for piece in pieces_of(path) if piece.kind == "parquet"]
            sources = self._with_keys([(piece.path, piece.keys) for piece in found], named)
        else:
            sources = self._with_keys([(path, keys_of(self.path))], named)
        if not sources:
            raise InputError("is a folder without Parquet files; expected some", self.path)
        for source, known in sources:
            self._files.append(self._described(source, known, features))
        self.features = self._files[0].layout.features
        self.dtype = np.result_type(*(file.layout.dtype for file in self._files))
        self.n_rows = sum(file.n_rows for file in self._files)
        self.categories: dict[int, dict[Any, None]] = {}
        if self.n_rows == 0:
            raise InputError("there are no rows", self.path)

    def _with_keys(
        self, sources: Sequence[tuple[Source, Mapping[str, str]]], named: set[str]
    ) -> list[tuple[Source, Keys]]:
        """Files with what their folders say of the columns that are named."""
        found = {name for _, keys in sources for name in keys}
        self.left_out = sorted(found - named)
        values = {name: _typed([keys.get(name) for _, keys in sources]) for name in sorted(found & named)}
        return [
            (source, {name: listed[at] for name, listed in values.items() if listed[at] is not None})
            for at, (source, _) in enumerate(sources)
        ]

    @property
    def files(self) -> list[tuple[int, Keys]]:
        """For every file, its number of rows and what its folders say."""
        return [(file.n_rows, file.keys) for file in self._files]

    @property
    def has_doc_ids(self) -> bool:
        """Whether there is a column of document ids."""
        return self._files[0].layout.docid is not None

    @property
    def n_bytes(self) -> int:
        """Size of the files."""
        return sum(file.n_bytes for file in self._files)

    def rows(
        self, dtype: np.dtype[Any], negative: Literal["error", "zero"], progress: Progress | None = None
    ) -> Iterator[Rows]:
        """All rows, some at a time, files in their order."""
        done, total = 0, self.n_bytes
        for file in self._files:
            with _opened(file.source) as opened:
                start = 0
                for batch in _batches(opened, file):
                    rows = batch_rows(columns_of(batch), file.layout, start, dtype, self.categories)
                    start += batch.num_rows
                    if start > file.n_rows:
                        break
                    yield Rows(rows.X, _checked(rows.labels, start, negative), rows.qid, rows.doc_ids)
                    if progress is not None:
                        progress(done + file.n_bytes * start // max(1, file.n_rows), total)
                if start != file.n_rows:
                    raise InputError(f"other than the {file.n_rows:,} rows that its description claims")
            done += file.n_bytes

    def _described(self, source: Source, keys: Keys, features: Sequence[str] | None) -> _File:
        with _opened(source) as file:
            n_bytes = os.fstat(file.source.raw.fileno()).st_size
            columns = columns_of(_with_keys(file.parquet.schema_arrow.empty_table(), keys))
            if self._files and features is None:
                features = self._files[0].layout.features
                _check_same(columns.names, self._files[0], [*self._roles.values(), *self.left_out])
            layout = Layout(columns, **self._roles, features=features, left_out=self.left_out)
            if self._files:
                _check_kinds(layout, self._files[0])
            n_rows = file.parquet.metadata.num_rows
            _check_size(n_rows, len(layout.used), n_bytes)
            return _File(source, keys, layout, n_rows, n_bytes)


@dataclass(frozen=True)
class _Opened:
    source: OpenFile
    parquet: Any


@contextmanager
def _opened(path: Source) -> Iterator[_Opened]:
    """An open Parquet file; what goes wrong is an error that names it."""
    arrow, parquet = import_library("pyarrow"), import_library("pyarrow.parquet")
    with open_file(path) as source, _naming(source.path):
        try:
            # pre_buffer=True would hold the whole file in memory, no buffer_size a whole group of rows.
            with parquet.ParquetFile(source.raw, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
                yield _Opened(source, file)
        except InputError:
            raise
        except arrow.ArrowMemoryError as error:  # a damaged page may claim 2 GiB
            what = f"a part of it does not fit into memory ({_first_line(error)})"
            raise InputError(f"{what}; expected a complete parquet file") from None
        except MemoryError:
            raise
        except (arrow.ArrowException, UnicodeDecodeError) as error:  # also names of columns that are not UTF-8
            raise InputError(f"not a complete parquet file ({_first_line(error)})") from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or _first_line(error)}") from None


@contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(error.message, path if error.path is None else error.path, error.line) from None


def _batches(opened: _Opened, file: _File) -> Iterator[Any]:
    arrow = import_library("pyarrow")
    size = max(1, _READ_VALUES // len(file.layout.used))
    for batch in opened.parquet.iter_batches(
        batch_size=size, columns=[name for name in file.layout.used if name not in file.keys]
    ):
        yield _with_keys(arrow.table(batch), file.keys)


def _with_keys(table: Any, keys: Keys) -> Any:
    """A table with a column for each value that its folders tell."""
    arrow = import_library("pyarrow")
    for name, value in keys.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        kind = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}[type(value)]
        table = table.append_column(name, arrow.array([value] * table.num_rows, kind))
    return table


def _typed(values: Sequence[str | None]) -> list[Any]:
    """Values from the names of folders: whole or other numbers if all are, else text; None where there is no name."""
    known = [value for value in values if value is not None and value != _NO_VALUE]
    for kind in (int, float):
        try:
            numbers = [kind(value) for value in known]
        except ValueError:
            continue
        plain = all(str(number) == value for number, value in zip(numbers, known, strict=True))
        if plain and all(math.isfinite(number) and abs(number) < 1 << 63 for number in numbers):
            return [None if value is None or value == _NO_VALUE else kind(value) for value in values]
    return [None if value == _NO_VALUE else value for value in values]


def _check_same(names: Sequence[str], first: _File, others: Sequence[str]) -> None:
    """Refuse a file with other features than the first one."""
    missing = [name for name in first.layout.features if name not in set(names)]
    more = [name for name in names if name not in {*first.layout.features, *others}]
    where = first.source.path if isinstance(first.source, OpenFile) else first.source
    if missing:
        raise InputError(f"there is no column {missing[0]!r}, which {where} has; expected the same columns")
    if more:
        raise InputError(f"has a column {more[0]!r}, which {where} has not; expected the same columns")


def _check_kinds(layout: Layout, first: _File) -> None:
    differing = sorted(set(layout.categorical) ^ set(first.layout.categorical))
    where = first.source.path if isinstance(first.source, OpenFile) else first.source
    if differing:
        what = f"the column {differing[0]!r} has text in one file and numbers in another ({where})"
        raise InputError(f"{what}; expected the same in all")
    if (layout.docid is None) != (first.layout.docid is None):
        name = layout.docid or first.layout.docid
        raise InputError(f"the column {name!r} is in this file or in {where}, but not in both; expected all or none")


def _check_size(n_rows: int, n_columns: int, n_bytes: int) -> None:
    """Refuse a description that claims far more than so small a file can hold."""
    size = n_rows * n_columns * 8
    if size > _CLAIM_LEAST + _CLAIM_MOST * n_bytes:
        what = f"claims {n_rows:,} rows of {n_columns:,} columns, {size / (1 << 30):,.0f} GiB"
        raise InputError(f"{what}, in {n_bytes:,} bytes; expected at most {_CLAIM_MOST:,} times its size")


def _checked(labels: Array, stop: int, negative: Literal["error", "zero"]) -> Array:
    """Labels of at least 0; ``stop`` is the number of the row after the last, for messages."""
    if negative == "zero":
        return np.maximum(labels, 0)
    if (labels < 0).any():
        row = int(np.argmax(labels < 0))
        what = f"the label of row {stop - len(labels) + row} (from 0) is {labels[row]:g}"
        raise InputError(f"{what}; labels must be finite and at least 0")
    return labels


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
