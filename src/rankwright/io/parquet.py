"""Parquet: a file, or a folder of files as one table, read in batches, and written; needs pyarrow.

The files of a folder have the same columns, in any order. Folders such as ``bucket=3`` say how the rows were spread:
``bucket`` is no feature. What a program leaves out of the files because folders have it (``qid=17``) becomes a column.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.order import join_ids
from rankwright.errors import InputError
from rankwright.io.files import OpenFile, Progress, Source, open_file, reading, replace_file
from rankwright.io.folder import HEADER
from rankwright.io.frames import (
    FrameColumns,
    ReadRows,
    by_role,
    check_different,
    column_batches,
    columns_of,
    import_library,
    kinds_of,
    made_data,
    type_of_features,
    typed_layout,
    typed_rows,
    values_of,
)
from rankwright.io.roles import (
    ColumnLayout,
    Columns,
    feature_layout,
    find,
    find_query,
    grades_in,
    named_in,
    required_layout,
)
from rankwright.io.tables import PARQUET, parquet_file, reading_parquet
from rankwright.io.values import warn_of_dates

__all__ = ["read_parquet", "write_parquet"]

# A folder of pieces: Parquet files as Spark, DuckDB and Polars write them, also below `bucket=3/`, or data folders.
#
# Pieces are taken in the order of their names. What starts with `.` or `_` is no data (`_SUCCESS`, checksums).


@dataclass(frozen=True)
class DataPiece:
    """A Parquet file or a data folder.

    `name`: its path within the folder of pieces, for messages. `keys`: values of all its rows, from folders such as
    ``bucket=3``.
    """

    path: Path
    kind: Literal["parquet", "folder"]
    name: str
    keys: dict[str, str] = field(default_factory=dict)


def pieces_of(folder: str | Path) -> list[DataPiece]:
    """The pieces in a folder and the folders below it, by name; none if there is any other file before the first."""
    top = Path(folder)
    listed: list[DataPiece] = []
    for path in _entries(top):
        name = path.relative_to(top).as_posix()
        kind = _kind_of(path)
        if kind is None and listed:
            raise InputError(f"has Parquet files or data folders, and {name}; expected one kind of pieces only", top)
        if kind is None:
            return []
        if listed and listed[0].kind != kind:
            raise InputError(f"has Parquet files and data folders ({listed[0].name}, {name}); expected one kind", top)
        listed.append(DataPiece(path, kind, name, keys_of(name)))
    return listed


def _entries(folder: Path) -> Iterator[Path]:
    """Files and data folders, depth first by name."""
    with reading(folder):
        names = sorted(os.listdir(folder))
    for log, kind in {"_delta_log": "Delta", ".hoodie": "Hudi"}.items():
        if log in names:
            problem = f"is a {kind} table, some of whose files may be out of date"
            raise InputError(f"{problem}; expected plain Parquet, written from it", folder)
    for name in names:
        path = folder / name
        if name.startswith((".", "_")):
            continue
        if path.is_dir() and not (path / HEADER).is_file():
            yield from _entries(path)
        else:
            yield path


def _kind_of(path: Path) -> Literal["parquet", "folder"] | None:
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return None
    with reading(path), open(path, "rb") as file:
        return "parquet" if file.read(len(PARQUET)) == PARQUET else None


def keys_of(path: str | Path) -> dict[str, str]:
    """What the names of a file's folders say."""
    partitioned = [part.partition("=") for part in Path(path).parts[:-1]]
    return {unquote(key): unquote(value) for key, equals, value in partitioned if key and equals}


Keys = Mapping[str, Any]
_READ_VALUES = 1 << 19  # values per batch read: they stay in the cache while columns become rows
_CLAIM_LEAST, _CLAIM_MOST = 1 << 30, 1 << 8  # bytes in memory, and times the size of the file
_FIRST_ROWS = 1 << 10
_WRITE_VALUES = 1 << 22  # values per row group written: a few dozen megabytes, however wide the table
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def read_parquet(
    path: Source,
    *,
    qid: str | None = None,
    docid: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    columns: Columns | None = None,
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
    qid, docid, label, features, columns
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
    table = ParquetTable(path, columns=by_role(columns, qid, docid, label), features=features)
    if not named_in(columns, "scoring"):  # by a model that was trained on days
        warn_of_dates(table.layout.values, table.path)
    return read_table(table, np.dtype(dtype or table.dtype), negative, progress)


def read_table(
    table: ParquetTable,
    dtype: np.dtype[Any],
    negative: Literal["error", "zero"] = "error",
    progress: Progress | None = None,
) -> RankingData:
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
    with reading_parquet(table.path):
        rows = ReadRows(X, labels, join_ids(qids), join_ids(doc_ids) if doc_ids else None)
        return made_data(rows, table.layout, {at: tuple(values) for at, values in table.categories.items()})


def write_parquet(data: RankingData, path: str | Path) -> None:
    """Write data as a parquet file with the columns of :func:`to_frame`; needs pyarrow.

    Parameters
    ----------
    data : RankingData
        The data to write. Sparse features become dense columns, up to 4 GiB.
    path : path
        The file; it appears under its name only when it is complete.

    Examples
    --------
    >>> write_parquet(data, "train.parquet")  # doctest: +SKIP
    """
    arrow, parquet = import_library("pyarrow"), import_library("pyarrow.parquet")
    batches = column_batches(data, max(1, _WRITE_VALUES // max(1, data.n_features)), "pyarrow")
    first = arrow.table(next(batches))
    with replace_file(path) as file, parquet.ParquetWriter(file, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for columns in batches:
            writer.write_table(arrow.table(columns, schema=first.schema))


@dataclass(frozen=True)
class _File:
    """One of the files of a table; `keys`: what the names of its folders say."""

    source: Source
    path: str | Path
    keys: Keys
    layout: ColumnLayout
    dtype: np.dtype[Any]
    n_rows: int
    n_bytes: int


class ParquetTable:
    """One or more Parquet files as one table. Their descriptions are read at once, rows when they are asked for.

    `path`: the file or folder. `features`: the feature columns. `dtype`: the smallest type of features that holds all
    columns. `categories`: of each categorical feature, by its number, the values that occurred so far. `left_out`:
    from the names of folders, such as ``bucket`` for ``bucket=3``, that are neither features nor anything else.
    """

    def __init__(
        self,
        path: Source,
        *,
        columns: Columns | None = None,
        features: Sequence[str] | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.path = path.path if isinstance(path, OpenFile) else path
        self._columns = columns
        self.files: list[_File] = []
        self.left_out: list[str] = []
        sources: Sequence[tuple[Source, Keys]]
        if keys is not None:
            sources = [(path, keys)]
        elif not isinstance(path, OpenFile) and Path(path).is_dir():
            pieces = [piece for piece in pieces_of(path) if piece.kind == "parquet"]
            sources = self._with_keys([(piece.path, piece.keys) for piece in pieces], features)
        else:
            sources = self._with_keys([(path, keys_of(self.path))], features)
        if not sources:
            raise InputError("is a folder without Parquet files; expected some", self.path)
        self._holds = self._values(sources, features)
        for source, values in sources:
            self.files.append(self._described(source, values, features))
        self.layout = self.files[0].layout
        self.features = self.layout.features
        self.dtype = np.result_type(*(file.dtype for file in self.files))
        self.n_rows = sum(file.n_rows for file in self.files)
        self.n_bytes = sum(file.n_bytes for file in self.files)
        self.categories: dict[int, dict[Any, None]] = {}
        if self.n_rows == 0:
            raise InputError("there are no rows", self.path)

    def _with_keys(
        self, sources: Sequence[tuple[Source, Mapping[str, str]]], features: Sequence[str] | None
    ) -> list[tuple[Source, Keys]]:
        """Files with what their folders say of the columns that are used."""
        given = {name for _, keys in sources for name in keys}
        used: set[str] = set()
        if given:
            with _opened(sources[0][0]) as (_, parquet):
                names = list(dict.fromkeys([*parquet.schema_arrow.names, *sorted(given)]))
            columns = self._columns
            documents = [name for name in names if name not in given or name == "docid"]
            roles = (find_query(names, columns), find(names, "label", columns), find(documents, "docid", columns))
            wanted = [*named_in(columns, "feature"), *named_in(columns, "categorical")]
            used = given & {name for name in (*roles, *wanted, *(features or ())) if name is not None}
        self.left_out = sorted(given - used)
        values = {name: _typed([keys.get(name) for _, keys in sources]) for name in sorted(used)}
        return [
            (source, {name: listed[at] for name, listed in values.items() if listed[at] is not None})
            for at, (source, _) in enumerate(sources)
        ]

    def rows(
        self, dtype: np.dtype[Any], negative: Literal["error", "zero"], progress: Progress | None = None
    ) -> Iterator[ReadRows]:
        done, total = 0, self.n_bytes
        for file in self.files:
            with _opened(file.source) as (_, parquet):
                start = 0
                for batch in _batches(parquet, file):
                    batch_columns, grades = columns_of(batch), grades_in(self._columns)
                    rows = typed_rows(batch_columns, file.layout, start, dtype, self.categories, grades)
                    start += batch.num_rows
                    if start > file.n_rows:
                        break
                    yield ReadRows(rows.X, _checked(rows.labels, start, negative), rows.qid, rows.doc_ids)
                    if progress is not None:
                        progress(done + file.n_bytes * start // max(1, file.n_rows), total)
                if start != file.n_rows:
                    raise InputError(f"other than the {file.n_rows:,} rows that its description claims")
            done += file.n_bytes

    def _values(self, given: Sequence[tuple[Source, Keys]], features: Sequence[str] | None) -> Mapping[str, str]:
        """What the features that are texts by their type hold, by all of their values."""
        if "holds" in (self._columns or {}):
            return dict(line.rsplit("=", 1) for line in named_in(self._columns, "holds"))
        sources = [source for source, _ in given]
        with _opened(sources[0]) as (_, parquet):
            columns = columns_of(parquet.schema_arrow.empty_table())
            names = [name for name in dict.fromkeys([*columns.names, *given[0][1]]) if name not in self.left_out]
            layout = feature_layout(names, self._columns, kinds_of(columns), features)
        if layout is None:
            return {}
        free = [name for name in layout.features if name in columns.names and name not in layout.categorical]
        texts = [name for name in free if columns.kind(name) == "text"]
        seen = values_of(islice(_text_batches(sources, texts, _FIRST_ROWS), 1), texts)  # most are words at once
        return values_of(_text_batches(sources, [name for name in texts if seen.get(name) != "text"]), texts)

    def _described(self, source: Source, keys: Keys, features: Sequence[str] | None) -> _File:
        first = self.files[0] if self.files else None
        with _opened(source) as (file, parquet):
            n_bytes = os.fstat(file.raw.fileno()).st_size
            columns = columns_of(_with_keys(parquet.schema_arrow.empty_table(), keys))
            check_different(columns.names)
            names = [name for name in columns.names if name not in self.left_out]
            if first is not None and features is None:
                features = first.layout.features
                _check_same(names, first)
            kinds = kinds_of(columns, self._holds)
            layout = required_layout(names, self._columns, kinds, features)
            layout = typed_layout(columns, layout)
            if first is not None:
                _check_kinds(layout, first)
            n_rows, n_columns = parquet.metadata.num_rows, len(layout.used)
            size = n_rows * n_columns * 8
            if size > _CLAIM_LEAST + _CLAIM_MOST * n_bytes:  # far more than so small a file can hold
                problem = f"claims {n_rows:,} rows of {n_columns:,} columns, {size / (1 << 30):,.0f} GiB"
                raise InputError(f"{problem}, in {n_bytes:,} bytes; expected at most {_CLAIM_MOST:,} times its size")
            return _File(source, file.path, keys, layout, type_of_features(columns, layout), n_rows, n_bytes)


@contextmanager
def _opened(path: Source) -> Iterator[tuple[OpenFile, Any]]:
    """An open file, and the same opened with pyarrow; what goes wrong is an error that names it."""
    with open_file(path) as source, reading_parquet(source.path), parquet_file(source) as file:
        yield source, file


def _text_batches(
    sources: Sequence[Source], names: Sequence[str], rows: int = _READ_VALUES >> 3
) -> Iterator[FrameColumns]:
    arrow = import_library("pyarrow")
    for source in sources if names else ():
        with _opened(source) as (_, parquet):
            present = [name for name in names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(batch_size=rows, columns=present):
                yield columns_of(arrow.table(batch))


def _batches(parquet: Any, file: _File) -> Iterator[Any]:
    arrow = import_library("pyarrow")
    size = max(1, _READ_VALUES // len(file.layout.used))
    columns = [name for name in file.layout.used if name not in file.keys]
    for batch in parquet.iter_batches(batch_size=size, columns=columns):
        yield _with_keys(arrow.table(batch), file.keys)


def _with_keys(table: Any, keys: Keys) -> Any:
    """Add a column for each value in the names of the folders."""
    arrow = import_library("pyarrow")
    for name, value in keys.items():
        if name in table.column_names:
            table = table.drop_columns([name])
        kind = {int: arrow.int64(), float: arrow.float64(), str: arrow.string()}[type(value)]
        table = table.append_column(name, arrow.array([value] * table.num_rows, kind))
    return table


def _typed(values: Sequence[str | None]) -> list[Any]:
    """Values from the names of folders: whole or other numbers if all are, else text; None where there is no name."""
    texts = [None if value == _NO_VALUE else value for value in values]
    for kind in (int, float):
        with suppress(ValueError):
            numbers = [None if text is None else kind(text) for text in texts]
            pairs = [(number, text) for number, text in zip(numbers, texts, strict=True) if number is not None]
            if all(str(number) == text and math.isfinite(number) and abs(number) < 1 << 63 for number, text in pairs):
                return numbers
    return texts


def _check_same(names: Sequence[str], first: _File) -> None:
    """Refuse a file with other features than the first one."""
    layout, where = first.layout, first.path
    missing = [name for name in layout.features if name not in set(names)]
    others = {layout.qid, layout.label, *layout.features, *layout.skipped}
    more = [name for name in names if name not in others and name != layout.docid and name != "docid"]
    if missing:
        raise InputError(f"there is no column {missing[0]!r}, which {where} has; expected the same columns")
    if more:
        raise InputError(f"has a column {more[0]!r}, which {where} has not; expected the same columns")


def _check_kinds(layout: ColumnLayout, first: _File) -> None:
    differing = sorted(set(layout.categorical) ^ set(first.layout.categorical))
    where = first.path
    if differing:
        problem = f"the column {differing[0]!r} has text in one file and numbers in another ({where})"
        raise InputError(f"{problem}; expected the same in all")
    if (layout.docid is None) != (first.layout.docid is None):
        name = layout.docid or first.layout.docid
        raise InputError(f"the column {name!r} is in this file or in {where}, but not in both; expected all or none")


def _checked(labels: Array, stop: int, negative: Literal["error", "zero"]) -> Array:
    """Labels of at least 0; ``stop`` is the number of the row after the last, for messages."""
    if negative == "zero":
        return np.maximum(labels, 0)
    if (labels < 0).any():
        row = int(np.argmax(labels < 0))
        problem = f"the label of row {stop - len(labels) + row} (from 0) is {labels[row]:g}"
        raise InputError(f"{problem}; labels must be finite and at least 0")
    return labels
