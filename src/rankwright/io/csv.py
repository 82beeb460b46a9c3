"""Feature data from tables in text: columns while they are read, rows by Python, large files by compiled code.

A column whose cells are all numbers holds numbers, and one of texts categories; empty cells are missing. A column that
mixes both is refused: a stray word would turn every number of it into a category. A column with a name such as
``title`` is a feature if all its cells are numbers, and skipped otherwise, as in Parquet by its type: its cells are
looked at first, up to the first text.

Compiled code (:mod:`rankwright.io.kernels`) reads plain cells only and reports nothing. On anything unusual or wrong
the reader of rows in Python reads the file from its start, and either makes sense of it or says where it is wrong.
"""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
from rankwright.io.files import MAX_FIELD, OpenFile, Progress, Source, open_file
from rankwright.io.frames import ReadRows, made_data
from rankwright.io.roles import MISSING, ColumnLayout, Columns, required_layout, undecided
from rankwright.io.tables import BOM, HEADER_BYTES, Table, is_missing, text_table, utf8_lines

_CHUNK_BYTES = 1 << 20  # small enough that a chunk and what is parsed from it stay in the cache
_LONGEST_ROW = 1 << 26
_MANY = 50  # rows from which on a column of different texts is reported
_AMOUNT = re.compile(r"[+-]?\s?[$€£¥]?\s?[0-9][0-9.,' ]*\s?[%$€£¥]?")
_BATCH_ROWS = 1 << 15
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

    def __init__(self, name: str, path: str | Path, is_text: bool = False) -> None:
        self.name, self._path = name, path
        self.is_text = is_text
        self._forced = is_text
        self._first_number: tuple[int, str] | None = None
        self._parts: list[Array] = []
        self._lines: list[Sequence[int]] = []  # of each part
        self.texts: dict[str, int] = {}
        self._numbers: list[float] = []  # which stand for the texts

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add cells: quickly if all are plain numbers."""
        self._lines.append(range(lines[0], lines[-1] + 1) if lines[-1] - lines[0] == len(lines) - 1 else lines)
        if not self.is_text and "_" not in "".join(cells):
            try:
                values = np.array(list(map(float, cells)))
            except ValueError:
                values = np.array([math.nan])
            if np.isfinite(values).all():
                self._first_number = self._first_number or (lines[0], cells[0])
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
        number = None if self._forced else number_in(cell)
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

    def _mixed(self, cell: str, line: int, first_line: int, first: str) -> InputError:
        where = f" on line {first_line:,}" if first_line else ""
        problem = f"{self.name} is {shown(cell)}, and {shown(first)}{where}"
        expected = "expected only numbers (an empty cell is missing) or only texts"
        remedy = f"--columns categorical={self.name} takes both as texts"
        return InputError(f"{problem}; {expected}; {remedy}", self._path, line)

    def take_labels(self, negative: str) -> Array:
        """The cells since the last call as labels, which must all be there; they are then forgotten."""
        if self.is_text:
            first = shown(next(iter(self.texts)))
            raise InputError(f"{self.name} is {first}; expected labels that are numbers, such as 0 to 4", self._path)
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


def number_in(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(cell.lower())


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
        if _is_large(file):
            data = _read_quickly(file, table, layout, dtype, negative, progress)
            if data is not None:
                return data
        cells = CellRows(layout, file.path, negative)
        for batch, lines in _batches(text_table(utf8_lines(file, progress), file.path)):  # from its start again
            cells.add(batch, lines)
        return cells.finish(dtype)


def table_layout(file: OpenFile, columns: Columns | None) -> tuple[Table, ColumnLayout]:
    """The table in a file of text, and what its columns are; rows are to be read from the start of the file again."""
    table = text_table(utf8_lines(file, size=HEADER_BYTES), file.path)
    try:
        names = undecided(table.names, columns)
        kinds = kinds_of_cells(names, _cells_of(file, table, names)) if names else {}
        return table, required_layout(table.names, columns, kinds)
    except InputError as error:
        raise InputError(error.message, file.path, 1) from None


def kinds_of_cells(names: Sequence[str], cells: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What columns hold: ``number`` if all cells with a value are numbers, else ``text``; a column without is left out.

    ``cells`` come with the names of their columns, and no more of them are taken than it needs.

    Examples
    --------
    >>> kinds_of_cells(["title", "name"], [("title", "7.5"), ("name", "12"), ("name", "Ann"), ("name", "13")])
    {'title': 'number', 'name': 'text'}
    """
    kinds: dict[str, str] = {}
    for name, cell in cells:
        if kinds.get(name) != "text" and not is_missing(cell):
            kinds[name] = "text" if number_in(cell.strip()) is None else "number"
            if all(kinds.get(other) == "text" for other in names):
                break
    return kinds


def _cells_of(file: OpenFile, table: Table, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The cells of some columns with their names; of a large file, a single one for all plain numbers of a chunk."""
    if _is_large(file):
        from rankwright.io.kernels import NUMBER

        with suppress(Unusual):
            for chunk in read_chunks(file, table.names, table.delimiter, dict.fromkeys(names, NUMBER)):
                for name in names:
                    plain = ["0"] if np.isfinite(chunk.values[name]).any() else []
                    yield from ((name, cell) for cell in [*plain, *chunk.odd_cells(name)[1]])
            return
    places = [(name, table.names.index(name)) for name in names]
    with suppress(InputError):  # reported when the rows are read
        for _, cells in text_table(utf8_lines(file, size=HEADER_BYTES), file.path).rows:
            yield from ((name, cells[at]) for name, at in places if at < len(cells))


class CellRows:
    """The columns of a table in text while it is read: rows are added, and taken all at once or some at a time."""

    def __init__(self, layout: ColumnLayout, path: str | Path, negative: str) -> None:
        self._layout, self._path, self._negative = layout, path, negative
        self.numbers = {name: ValueColumn(name, path, name in layout.categorical) for name in layout.features}
        self.numbers[layout.label] = ValueColumn(layout.label, path)
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
        labels = self.numbers[layout.label].take_labels(self._negative)
        features = [self.numbers[name] for name in layout.features]
        texts = [column.name for column in features if column.is_text]
        wanted = np.dtype(dtype or (np.float64 if texts else np.float32))
        if texts and wanted != np.float64:
            raise InputError(f"{wanted} cannot hold the categories of {named(texts)}; expected float64", self._path)
        X = np.empty((len(labels), len(features)), wanted)
        for place, column in enumerate(features):
            X[:, place] = column.take(wanted)
        doc_ids = None if layout.docid is None else self.ids[layout.docid].take()
        return ReadRows(X, labels, self.ids[layout.qid].take(), doc_ids)

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

    def _warn(self) -> None:
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
    dtype: npt.DTypeLike | None,
    negative: str,
    progress: Progress | None,
) -> RankingData | None:
    """The same data by compiled code; None if anything is unusual, or wrong."""
    from rankwright.io.kernels import NUMBER, SPAN

    cells = CellRows(layout, file.path, negative)
    kinds = dict.fromkeys(cells.numbers, NUMBER) | dict.fromkeys((*cells.ids, *layout.categorical), SPAN)
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
