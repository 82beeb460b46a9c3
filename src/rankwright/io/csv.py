"""Feature data from tables in text: columns while they are read, rows by Python, large files by compiled code.

A column whose cells are all numbers holds numbers, and one of texts categories; empty cells are missing. A column that
mixes both is refused: a stray word would turn every number of it into a category. A column with a name such as
``title`` is a feature if all its cells are numbers, and skipped otherwise, as in Parquet by its type: its cells are
looked at first, up to the first text.

Compiled code (:mod:`rankwright.io.kernels`) reads plain cells only and reports nothing. On anything unusual or wrong
the reader of rows in Python reads the file from its start, and either makes sense of it or says where it is wrong.
"""

from __future__ import annotations

import io
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from csv import writer
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.categories import NO_CATEGORY, category_numbers, named
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.files import CHUNK_BYTES, MAX_FIELD, OpenFile, Progress, Source, open_file, replace_file
from rankwright.io.frames import ReadRows, column_batches, made_data
from rankwright.io.logs import feature_table, is_json
from rankwright.io.roles import (
    MISSING,
    ColumnLayout,
    Columns,
    feature_layout,
    grades_in,
    named_in,
    required_layout,
    undecided,
)
from rankwright.io.tables import BOM, HEADER_BYTES, Table, start_of, text_table, utf8_lines
from rankwright.io.values import (
    SPECIAL,
    Reader,
    bad_grade,
    days_in,
    grade_of,
    has_decimal_comma,
    is_missing,
    kinds_of_cells,
    number_in,
    number_or_comma_in,
    warn_of_dates,
    warn_of_other_dates,
)

_CHUNK_BYTES = 1 << 20  # small enough that a chunk and what is parsed from it stay in the cache
_LONGEST_ROW = 1 << 26
_MANY = 50  # rows from which on a column of different texts is reported
_AMOUNT = re.compile(r"[+-]?\s?[$€£¥]?\s?[0-9][0-9.,' ]*\s?[%$€£¥]?")
_BATCH_ROWS = 1 << 15
_FIRST_ROWS = 1000
_LARGE, _LARGE_IF_LOADED, _PACKED = 1 << 23, 1 << 16, 4  # bytes; how far gzip packs a table


class IdColumn:
    """A column of ids, which must all be there."""

    def __init__(self, name: str, path: str | Path) -> None:
        self._name, self._path = name, path
        self.parts: list[Array] = []

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        ids = [cell.strip() for cell in cells]
        if not all(ids):
            line = lines[ids.index("")]
            raise InputError(f"the column {self._name!r} is empty; expected an id in every row", self._path, line)
        longest = max(ids, key=len)
        if len(longest) > MAX_FIELD:
            size = f"{len(longest):,} characters; expected at most {MAX_FIELD}"
            raise InputError(f"the column {self._name!r} has an id of {size}", self._path, lines[ids.index(longest)])
        self.parts.append(np.array(ids))

    def add_array(self, ids: Array) -> None:
        if (ids == "").any() or int(np.char.str_len(ids).max()) > MAX_FIELD:
            raise InputError(f"the column {self._name!r} has an empty id, or a long one", self._path)
        self.parts.append(ids)

    def take(self) -> Array:
        ids, self.parts = np.concatenate(self.parts), []
        return ids


class ValueColumn:
    """A column of numbers or of texts, as its cells decide."""

    def __init__(
        self,
        name: str,
        path: str | Path,
        is_text: bool = False,
        read: Reader = number_in,
        grades: Mapping[str, float] | None = None,
    ) -> None:
        self.name, self._path = name, path
        self.is_text, self._read, self._grades = is_text, read, grades  # grades: of labels only
        self.decimals: dict[str, tuple[int, str]] = {}  # the first number with each decimal mark, where both may be
        self._forced = is_text
        self._first_number: tuple[int, str] | None = None
        self._parts: list[Array] = []
        self._lines: list[Sequence[int]] = []  # of each part
        self.texts: dict[str, int] = {}
        self._numbers: list[float] = []  # which stand for the texts

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add cells: quickly if all are plain numbers."""
        self._lines.append(range(lines[0], lines[-1] + 1) if lines[-1] - lines[0] == len(lines) - 1 else lines)
        text = "" if self.is_text or self._read not in (number_in, number_or_comma_in) else "".join(cells)
        if text and "_" not in text:
            try:
                values = np.array(list(map(float, cells)))
            except ValueError:
                values = np.array([math.nan])
            if np.isfinite(values).all():
                self._first_number = self._first_number or (lines[0], cells[0])
                if self._read is number_or_comma_in and "." in text:
                    self._note_decimals(*next(pair for pair in zip(lines, cells, strict=True) if "." in pair[1]))
                self._parts.append(values)
                return
        self._parts.append(np.array([self._value(cell.strip(), line) for cell, line in zip(cells, lines, strict=True)]))

    def add_values(self, values: Array, places: Sequence[int], odd: Sequence[str]) -> None:
        """Add numbers, and cells that may be none, with their places."""
        if self._first_number is None and not np.isnan(values).all():
            self._first_number = (0, "0")
        part = values.copy()
        for place, cell in zip(places, odd, strict=True):
            part[place] = self._value(cell.strip(), 0)
        self._parts.append(part)

    def add_texts(self, cells: Sequence[str]) -> None:
        """Add cells of a column that is known to hold texts."""
        values = [self.texts[cell] if cell in self.texts else self._value(cell.strip(), 0) for cell in cells]
        self._parts.append(np.array(values, np.float64))

    def _value(self, cell: str, line: int) -> float:
        """A number, or the place of a text among all; NaN is missing."""
        if cell.lower() in MISSING:
            return math.nan
        number = grade_of(cell, self._grades or {})
        if number is None and not self._forced:
            number = self._read(cell)
        if self._read is number_or_comma_in and number is not None:
            self._note_decimals(line, cell)
        if number is None and self._read is days_in:
            raise InputError(f"{self.name} is {shown(cell)}; expected a date, as in other rows", self._path, line)
        if number is None and (self._grades or (self._grades is not None and self._first_number is not None)):
            raise InputError(bad_grade(self.name, [cell], self._grades).message, self._path, line)
        if number is None:
            if not self.is_text and self._first_number is not None:
                raise self._mixed(cell, line, *self._first_number)
            if not self._forced and _AMOUNT.fullmatch(cell):
                problem = f"{self.name} is {shown(cell)}; expected a plain number with a decimal point"
                raise InputError(f"{problem}, no commas and no signs", self._path, line)
            self.is_text = True
            return float(self.texts.setdefault(cell, len(self.texts)))
        if not math.isfinite(number):
            raise InputError(f"{self.name} is {shown(cell)}; expected a finite number", self._path, line)
        if self.is_text:
            raise self._mixed(cell, line, 0, next(iter(self.texts)))
        self._first_number = self._first_number or (line, cell)
        return number

    def _note_decimals(self, line: int, cell: str) -> None:
        if has_decimal_comma(cell):
            if not line:  # of compiled code, which does not see points
                raise Unusual
            self.decimals.setdefault(",", (line, cell))
        elif "." in cell:
            self.decimals.setdefault(".", (line, cell))

    def _mixed(self, cell: str, line: int, first_line: int, first: str) -> InputError:
        where = f" on line {first_line:,}" if first_line else ""
        problem = f"{self.name} is {shown(cell)}, and {shown(first)}{where}"
        expected = "expected only numbers (an empty cell is missing) or only texts"
        remedy = f"--columns categorical={self.name} takes both as texts"
        return InputError(f"{problem}; {expected}; {remedy}", self._path, line)

    def take_labels(self, negative: str) -> Array:
        """The cells since the last call as labels, which must all be there; they are then forgotten."""
        if self.is_text:
            raise InputError(bad_grade(self.name, self.texts, {}).message, self._path)
        labels = np.concatenate(self._parts)
        remedy = '(--negative-as-zero or negative="zero" reads it as 0)'
        for is_wrong, problem in (
            (np.isnan(labels), "is missing; expected a label in every row"),
            ((labels < 0) & (negative == "error"), f"is negative; expected a number of at least 0 {remedy}"),
        ):
            if is_wrong.any():
                raise InputError(f"{self.name} {problem}", self._path, self._line_of(int(np.argmax(is_wrong))))
        self._parts, self._lines = [], []
        return np.maximum(labels, 0)

    def _line_of(self, row: int) -> int:
        for lines in self._lines:
            if row < len(lines):
                return lines[row]
            row -= len(lines)
        return 0  # lines are not counted where the file will be read again

    def take(self, dtype: np.dtype[Any]) -> Array:
        """The values of the cells since the last call, as numbers; the cells are then forgotten."""
        values = np.concatenate(self._parts)
        if self.is_text:
            new = list(self.texts)[len(self._numbers) :]
            self._numbers += category_numbers(new, f"the column {self.name!r}")[1].tolist()
            codes = np.where(np.isnan(values), len(self._numbers), values).astype(np.int64)
            taken = np.append(self._numbers, NO_CATEGORY)[codes]
        else:
            with np.errstate(over="ignore"):
                taken = values.astype(dtype)
            if np.isinf(taken).any():
                row = int(np.argmax(np.isinf(taken)))
                problem = f"{self.name} is {values[row]:g}; expected a number that fits {dtype}"
                raise InputError(problem, self._path, self._line_of(row))
        self._parts, self._lines = [], []
        return taken

    def warn(self, n_rows: int) -> None:
        """Say that a column of texts probably does not hold categories."""
        if self.is_text and len(self.texts) == n_rows >= _MANY:
            note = f"the column {self.name!r} has another text in every row and became categories"
            warnings.warn(f"{self._path}: {note}; --columns skip={self.name} leaves it out", InputWarning, stacklevel=2)
        elif self.is_text:
            warn_of_other_dates(self.name, self.texts, self._path)


class Unusual(Exception):
    """Something that only the reader of rows can judge."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: the numbers of columns, and where the cells of others are.

    `values`: numbers by column, NaN where a cell is empty or odd. `odd`: row, start, stop and whether to undo quoting,
    of the cells of these columns that are not plain numbers. `spans`: start, stop and whether to undo quoting, of all
    cells of other columns.
    """

    text: bytes
    is_ascii: bool
    values: Mapping[str, Array]
    odd: Mapping[str, Array]
    spans: Mapping[str, Array]

    def cells(self, spans: Array) -> list[str]:
        text = self.text.decode() if self.is_ascii else self.text
        cells = []
        for start, stop, undo in spans.tolist():
            cell = text[start:stop]
            cell = cell if isinstance(cell, str) else cell.decode()
            cells.append(cell.replace('""', '"').replace("\r\n", "\n") if undo else cell)
        return cells

    def odd_cells(self, name: str) -> tuple[list[int], list[str]]:
        """The rows of cells of a column of numbers that are not plain, and their texts."""
        if name not in self.odd:
            return [], []
        odd = self.odd[name]
        return odd[:, 0].tolist(), self.cells(odd[:, 1:])

    def ids(self, name: str) -> Array:
        """A column of ids as an array, without white space around them."""
        spans = self.spans[name]
        width = int((spans[:, 1] - spans[:, 0]).max())
        if width > MAX_FIELD or not self.is_ascii or spans[:, 2].any():
            if width > 4 * MAX_FIELD:
                raise Unusual
            return np.array([cell.strip() for cell in self.cells(spans)])
        from rankwright.io.kernels import copy_cells

        made = np.zeros((len(spans), max(width, 1)), np.uint8)
        copy_cells(np.frombuffer(self.text, np.uint8), spans, made)
        return made.view(f"S{made.shape[1]}").reshape(-1).astype(str)


def read_chunks(
    file: OpenFile, names: Sequence[str], delimiter: str, kinds: Mapping[str, int], progress: Progress | None = None
) -> Iterator[Chunk]:
    """Read the rows below the header, many at once.

    ``kinds`` has ``NUMBER`` or ``SPAN`` for the columns to keep; it may be changed between chunks.
    """
    from rankwright.io.kernels import SPAN

    rest, is_first = b"", True
    for chunk in file.chunks(progress, _CHUNK_BYTES):
        if b"\0" in chunk:
            raise Unusual
        begin = 0
        text = rest + (chunk if chunk.endswith(b"\n") else chunk + b"\n")
        if is_first:
            begin = len(BOM.encode()) if text.startswith(BOM.encode()) else 0
            made = _parse(text, begin, delimiter, names, dict.fromkeys(names, SPAN), 1)
            if made[1] == 0:  # a header of several lines that goes on in the next chunk
                rest = text
                continue
            begin, is_first = made[0], False
        stop, n_rows, values, odd, spans = _parse(text, begin, delimiter, names, kinds)
        rest = text[stop:]
        if len(rest) > _LONGEST_ROW:
            raise Unusual
        if n_rows:
            yield Chunk(text, _is_ascii(text), values, odd, spans)
    if rest:
        raise Unusual


def _is_ascii(text: bytes) -> bool:
    """Whether a chunk is ASCII; the only other thing that it may be is UTF-8."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        raise Unusual from None
    return False


def _parse(
    text: bytes, begin: int, delimiter: str, names: Sequence[str], kinds: Mapping[str, int], max_rows: int | None = None
) -> tuple[int, int, dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Where a row begins that is not whole, the number of rows before it, and the arrays of a :class:`Chunk`."""
    from rankwright.io.kernels import NUMBER, OK, SKIP, SPAN, parse_cells

    n_rows = len(text) // max(len(names), 1) + 1  # a row is at least as many bytes as it has cells
    kept = {kind: [name for name in names if kinds.get(name, SKIP) == kind] for kind in (NUMBER, SPAN)}
    places = {name: place for column in kept.values() for place, name in enumerate(column)}
    values = np.empty((len(kept[NUMBER]), n_rows))
    spans = np.empty((len(kept[SPAN]), n_rows, 3), np.int64)
    odd = np.empty((n_rows * len(kept[NUMBER]), 5), np.int64)
    kind_of_column = np.array([kinds.get(name, SKIP) for name in names], np.int64)
    slots = np.array([places.get(name, 0) for name in names], np.int64)
    limit = n_rows if max_rows is None else max_rows
    code, stop, n_rows, n_odd = parse_cells(
        np.frombuffer(text, np.uint8), begin, ord(delimiter), limit, kind_of_column, slots, values, spans, odd
    )
    if code != OK:
        raise Unusual
    return (
        int(stop),
        n_rows,
        {name: values[place, :n_rows] for place, name in enumerate(kept[NUMBER])},
        {name: odd[:n_odd][odd[:n_odd, 0] == place, 1:] for place, name in enumerate(kept[NUMBER])} if n_odd else {},
        {name: spans[place, :n_rows] for place, name in enumerate(kept[SPAN])},
    )


def read_csv(
    path: Source,
    *,
    columns: Columns | None = None,
    dtype: npt.DTypeLike | None = None,
    negative: Literal["error", "zero"] = "error",
    progress: Progress | None = None,
) -> RankingData:
    """Read feature data from text with a header line, separated by commas, tabs, semicolons or bars, plain or gzip.

    The features are float32, with columns of text float64; ``columns`` and the rest as in :func:`rankwright.read_data`.
    """
    with open_file(path) as file:
        table, layout = table_layout(file, columns)
        if table.delimiter and _is_large(file):
            data = _read_quickly(file, table, layout, CellRows(layout, table, negative, columns), dtype, progress)
            if data is not None:
                return data
        cells = CellRows(layout, table, negative, columns)
        for batch, lines in _batches(cell_table(file, columns, progress, names=table.names)):  # from its start again
            cells.add(batch, lines)
        return cells.finish(dtype)


def cell_table(
    file: OpenFile,
    columns: Columns | None,
    progress: Progress | None = None,
    *,
    names: Sequence[str] = (),
    size: int = CHUNK_BYTES,
) -> Table:
    """The table in a file of text or JSON, whose cells are text; ``names``: of JSON, its columns, if they are known."""
    if is_json(start_of(file)[:HEADER_BYTES].decode("utf-8", "replace")):
        return feature_table(file, columns, progress, names=names)
    return text_table(utf8_lines(file, progress, size), file.path)


def table_layout(file: OpenFile, columns: Columns | None) -> tuple[Table, ColumnLayout]:
    """The table in a file of text, and what its columns are; rows are to be read from the start of the file again."""
    table = cell_table(file, columns, size=HEADER_BYTES)
    try:
        names = undecided(table.names, columns)
        layout = feature_layout(table.names, columns)
        features = [] if layout is None else [name for name in layout.features if name not in layout.categorical]
        looked_at = [name for name in features if name not in names]
        if looked_at:  # a glance at the first rows, of most columns at one cell, rules out most
            first = ((name, cell) for name, cell in _cells_of(file, table, looked_at, columns, _FIRST_ROWS))
            seen = kinds_of_cells(looked_at, first, SPECIAL)
            names += [name for name in looked_at if seen.get(name) != "text"]
        kinds = kinds_of_cells(names, _cells_of(file, table, names, columns), table.readers) if names else {}
        return table, required_layout(table.names, columns, kinds)
    except InputError as error:
        raise InputError(error.message, file.path, 1) from None


def _cells_of(
    file: OpenFile, table: Table, names: Sequence[str], columns: Columns | None, most: int | None = None
) -> Iterator[tuple[str, str]]:
    """The cells of some columns with their names; of a large file, a single one for all plain numbers of a chunk.

    ``most``: only those of so many rows.
    """
    if most is None and table.delimiter and _is_large(file):
        from rankwright.io.kernels import NUMBER

        with suppress(Unusual):
            for chunk in read_chunks(file, table.names, table.delimiter, dict.fromkeys(names, NUMBER)):
                for name in names:
                    plain = ["0"] if np.isfinite(chunk.values[name]).any() else []
                    yield from ((name, cell) for cell in [*plain, *chunk.odd_cells(name)[1]])
            return
    places = [(name, table.names.index(name)) for name in names]
    with suppress(InputError):  # reported when the rows are read
        for _, cells in islice(cell_table(file, columns, names=table.names, size=HEADER_BYTES).rows, most):
            yield from ((name, cells[at]) for name, at in places if at < len(cells))


def write_csv(data: RankingData, path: str | Path, delimiter: str = ",") -> None:
    """Write data as a table in text, with the columns of :func:`rankwright.to_frame`; a missing value is an empty cell.

    Numbers are the shortest texts that read back to the same value. Categories that are numbers are refused, and so are
    texts that would be read as something else: text has no types.
    """
    kinds = {data.names[at]: [str(value) for value in values] for at, values in data.categories.items()}
    for name, values in kinds.items():
        kind = kinds_of_cells([name], ((name, value) for value in values)).get(name, "text")
        if kind != "text" or any(value != value.strip() or is_missing(value) for value in values):
            problem = f"the categories of {name!r} would not be read as such from text"
            raise InputError(f"{problem}; expected .parquet or .rank", path)
    names = next(column_batches(data, 1, ""))
    layout = feature_layout([*names], None, dict.fromkeys(names, "number"))
    if data.is_labelled and (layout is None or layout.features != [*data.names]):
        other = next(name for name in data.names if layout is None or name not in layout.features)
        raise InputError(f"the feature {other!r} would not be read as one from a table in text; rename it", path)
    with replace_file(path) as file:
        for first, columns in enumerate(column_batches(data, _BATCH_ROWS, "")):
            text = io.StringIO()
            lines = writer(text, delimiter=delimiter, lineterminator="\n")
            if not first:
                lines.writerow(columns)
            lines.writerows(zip(*map(_texts, columns.values()), strict=True))
            file.write(text.getvalue().encode("utf-8", "replace"))


def _texts(values: Any) -> list[Any]:
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return ["" if value is None else value for value in values]
    return ["" if text == "nan" else text.removesuffix(".0") for text in map(str, values)]


class CellRows:
    """The columns of a table in text while it is read: rows are added, and taken all at once or some at a time."""

    def __init__(self, layout: ColumnLayout, table: Table, negative: str, columns: Columns | None = None) -> None:
        self._layout, self._path, self._negative = layout, table.path, negative
        path = table.path
        self._is_scored = bool(named_in(columns, "scoring"))
        number = table.readers["number"]
        reads = {name: table.readers[kind] for name, kind in layout.values.items()}
        self.numbers = {
            name: ValueColumn(name, path, name in layout.categorical, reads.get(name, number))
            for name in layout.features
        }
        if layout.label is not None:
            self.numbers[layout.label] = ValueColumn(layout.label, path, read=number, grades=grades_in(columns))
        self.ids = {name: IdColumn(name, path) for name in (layout.qid, layout.docid) if name is not None}
        self._n_rows = 0

    def add(self, cells: Mapping[str, Sequence[str]], lines: Sequence[int]) -> None:
        for name, ids in self.ids.items():
            ids.add(cells[name], lines)
        for name, column in self.numbers.items():
            column.add(cells[name], lines)
        self._n_rows += len(lines)

    def add_chunk(self, chunk: Chunk) -> None:
        for name, ids in self.ids.items():
            ids.add_array(chunk.ids(name))
        self._n_rows += len(self.ids[self._layout.qid].parts[-1])
        for name, column in self.numbers.items():
            if name in chunk.spans:
                column.add_texts(chunk.cells(chunk.spans[name]))
            else:
                column.add_values(chunk.values[name], *chunk.odd_cells(name))

    @property
    def categories(self) -> dict[int, tuple[str, ...]]:
        """The texts of each column of them so far, by its number; while it had none yet, a missing one is NaN."""
        columns = [self.numbers[name] for name in self._layout.features]
        return {at: tuple(column.texts) for at, column in enumerate(columns) if column.is_text}

    def take(self, dtype: npt.DTypeLike | None) -> ReadRows:
        """Return the rows since the last call; by default in the type that holds them all."""
        layout = self._layout
        features = [self.numbers[name] for name in layout.features]
        self._check_decimals()
        qid = self.ids[layout.qid].take()
        labels = np.full(len(qid), np.nan)
        if layout.label is not None:
            labels = self.numbers[layout.label].take_labels(self._negative)
        texts = [column.name for column in features if column.is_text]
        wanted = np.dtype(dtype or (np.float64 if texts else np.float32))
        if texts and wanted != np.float64:
            raise InputError(f"{wanted} cannot hold the categories of {named(texts)}; expected float64", self._path)
        X = np.empty((len(labels), len(features)), wanted)
        for place, column in enumerate(features):
            X[:, place] = column.take(wanted)
        doc_ids = None if layout.docid is None else self.ids[layout.docid].take()
        return ReadRows(X, labels, qid, doc_ids)

    def finish(self, dtype: npt.DTypeLike | None) -> RankingData:
        self._check_rows()
        rows = self.take(dtype)
        self._warn()
        return made_data(rows, self._layout, self.categories)

    def rows(self, table: Table, dtype: np.dtype[Any]) -> Iterator[ReadRows]:
        for cells, lines in _batches(table):
            self.add(cells, lines)
            yield self.take(dtype)
        self._check_rows()
        self._warn()

    def _check_rows(self) -> None:
        if not self._n_rows:
            raise InputError("has no rows after its header; expected one per document", self._path)

    def _check_decimals(self) -> None:
        """Refuse decimal commas beside decimal points: one of them may separate thousands."""
        first: dict[str, tuple[int, str, str]] = {}
        for name, column in self.numbers.items():
            for mark, (line, cell) in column.decimals.items():
                first.setdefault(mark, (line, name, cell))
        if len(first) == 2:
            (line, name, cell), (other_line, other, other_cell) = first[","], first["."]
            problem = f"{name} is {shown(cell)}, and {other} is {shown(other_cell)} on line {other_line:,}"
            raise InputError(f"{problem}; expected one decimal mark in all of the table", self._path, line)

    def _warn(self) -> None:
        if not self._is_scored:  # by a model that was trained on days
            warn_of_dates(self._layout.values, self._path)
        for name in self._layout.features:
            self.numbers[name].warn(self._n_rows)


def _is_large(file: OpenFile) -> bool:
    """Whether compiled code pays: loading it takes as long as some megabytes in Python."""
    size = os.fstat(file.raw.fileno()).st_size * (_PACKED if file.is_gzip else 1)
    return size >= (_LARGE if "numba" not in sys.modules else _LARGE_IF_LOADED)


def _read_quickly(
    file: OpenFile,
    table: Table,
    layout: ColumnLayout,
    cells: CellRows,
    dtype: npt.DTypeLike | None,
    progress: Progress | None,
) -> RankingData | None:
    """The same data by compiled code; None if anything is unusual, or wrong."""
    from rankwright.io.kernels import NUMBER, SPAN

    texts = (*cells.ids, *layout.categorical, *layout.values)
    kinds = dict.fromkeys(cells.numbers, NUMBER) | dict.fromkeys(texts, SPAN)
    try:
        for chunk in read_chunks(file, table.names, table.delimiter, kinds, progress):
            cells.add_chunk(chunk)
            kinds |= {name: SPAN for name, column in cells.numbers.items() if column.is_text}
        return cells.finish(dtype)
    except (Unusual, InputError):  # the reader of rows knows the line
        return None


def _batches(table: Table) -> Iterator[tuple[dict[str, Sequence[str]], list[int]]]:
    """The cells of many rows at once, by column, and their lines."""
    rows, n_cells = table.rows, len(table.names)
    while batch := list(islice(rows, _BATCH_ROWS)):
        lines, cells = [line for line, _ in batch], [row for _, row in batch]
        if set(map(len, cells)) != {n_cells}:
            at = next(place for place, row in enumerate(cells) if len(row) != n_cells)
            raise table.uneven(len(cells[at]), lines[at])
        yield dict(zip(table.names, zip(*cells, strict=True), strict=True)), lines
