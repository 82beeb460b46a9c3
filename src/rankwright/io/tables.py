"""One table for every container: CSV and other delimited text, JSON, Parquet, data frames.

A :class:`Table` has the names of its columns and its rows, each with its line (of an array, Parquet or a frame: the
number of the row, from 1). See :mod:`rankwright.io.roles` for what its columns are for; features are read
from it column by column in :mod:`rankwright.io.features`.

Delimited text has a header line. Cells may be quoted, with delimiters, line ends and doubled quotation marks inside; a
byte order mark and Windows line ends are taken off. Rows are read one by one, in one pass over the lines, however long
a cell is. Python's csv module is not used: in its strict mode it refuses blanks after a closing quotation mark, in its
lenient one it joins ``"x"y`` to one cell, and its limit on the length of cells is global.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, shown
from rankwright.io.files import CHUNK_BYTES, OpenFile, Progress
from rankwright.io.frames import columns_of, import_library
from rankwright.io.roles import MISSING, Columns, accepted, check_columns, find, listed

# JSON from files: values, objects on lines, arrays of objects; errors name the line.


_DEEPEST = 50


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text, nested no deeper than anything needs: whoever looks at it may recurse.

    Raises `ValueError`: if it is not JSON in UTF-8, or nested too deeply; with the reason.
    """
    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not is_shallow(value):
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    return value


def is_shallow(value: Any) -> bool:
    """Whether lists and objects are nested at most 50 levels deep.

    Examples
    --------
    >>> is_shallow({"a": [1, [2]]})
    True
    """
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            item
            for outer in level
            if isinstance(outer, list | dict)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return True
    return False


def json_value(text: str, path: str | Path, line: int | None, expected: str) -> Any:
    """Return the value of a JSON text, or say why it is not one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg} at column {error.colno}"
            line = error.lineno if line is None else line
        raise InputError(f"invalid JSON ({reason}); expected {expected}", path, line) from None


def json_object(text: str, path: str | Path, line: int) -> dict[str, Any]:
    value = json_value(text, path, line, "one object per line")
    if not isinstance(value, dict):
        raise InputError("a JSON value that is not an object; expected one object per line", path, line)
    return value


def json_array(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Iterate over the objects of an array, numbered from 1."""
    values = json_value(text, path, None, "an array of objects")
    if not isinstance(values, list):
        raise InputError(f"a JSON {type(values).__name__}; expected an array of objects", path)
    for number, item in enumerate(values, 1):
        if not isinstance(item, dict):
            raise InputError(f"item {number:,} of the array is {shown(item)}; expected an object", path)
        yield number, item


BOM = "\ufeff"
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
PARQUET = b"PAR1"
"""The first bytes of a Parquet file."""

HEADER_BYTES = 1 << 16
"""To read at once where a header is all that is wanted."""

Lines = Iterable[tuple[int, str]]
"""Numbers of lines, from 1, and their texts without the line end; blank ones too."""

NamedRow = tuple[int, dict[str, Any]]
"""The line of a row, and its values by name."""

_LONGEST_CELL = 1 << 26
_LOOK_BYTES = 1 << 16
_BATCH_ROWS = 1 << 12
_BUFFER_BYTES = 1 << 16


@dataclass(frozen=True)
class Table:
    """An open table: its header, and what follows.

    `names`: the columns, as the header writes them; of JSON, the keys of the first object. `path`: the file, for
    messages; what a data frame is called. `rows`: the line on which each row starts, and its values; blank lines are
    left out. They can be read once. `objects`: of JSON, the rows as they are: their keys may differ. `kinds`: of
    Parquet and frames, what columns hold by their types: ``number``, ``category``, ``text`` or ``other``. Empty for
    text and JSON, whose cells decide. `delimiter`: what separates the cells of delimited text.
    """

    names: list[str]
    path: str | Path
    rows: Iterator[tuple[int, list[Any]]]
    objects: Iterator[NamedRow] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ""

    def full_rows(self) -> Iterator[tuple[int, list[Any]]]:
        """Iterate over the rows; one with more or fewer cells than the header is an error."""
        expected = len(self.names)
        for line, cells in self.rows:
            if len(cells) != expected:
                raise self.uneven(len(cells), line)
            yield line, cells

    def named(self) -> Iterator[NamedRow]:
        """Iterate over the rows by name; cells that a row of text lacks at its end are None."""
        if self.objects is not None:
            yield from self.objects
            return
        for line, cells in self.rows:
            if len(cells) > len(self.names):
                raise self.uneven(len(cells), line)
            yield line, dict(zip_longest(self.names, cells))

    def by_column(self) -> tuple[dict[str, list[Any]], list[int]]:
        """Return all values by column, and the line of every row."""
        lines: list[int] = []
        rows: list[list[Any]] = []
        for line, cells in self.full_rows():
            lines.append(line)
            rows.append(cells)
        columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in self.names)
        return dict(zip(self.names, columns, strict=True)), lines

    def uneven(self, n_cells: int, line: int) -> InputError:
        """Return the error of a row with another number of cells than the header."""
        cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
        what = f"{cells}; expected {len(self.names)}, as in the header"
        if n_cells > len(self.names):
            what += f" (put a cell with {DELIMITERS[self.delimiter]} in it between quotation marks)"
        return InputError(what, self.path, line)

    def check(self, columns: Columns | None) -> None:
        """Reject a column that the user names and that is not there."""
        check_columns(columns, self.names, self.path, 1)

    def column(self, role: str, columns: Columns | None = None) -> str:
        """Return the column of a role; without one it is an error that lists the accepted names."""
        name = find(self.names, role, columns)
        if name is None:
            expected = f"expected one for {role} ({accepted(role)}), or --columns {role}=NAME"
            raise InputError(f"has the columns {listed(self.names)}; {expected}", self.path, 1)
        return name


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or a text such as an empty cell, ``NA`` and ``null``.

    Examples
    --------
    >>> is_missing(" NA "), is_missing(None), is_missing(float("nan")), is_missing(0)
    (True, True, True, False)
    """
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or bool(isinstance(value, float) and value != value)


def open_table(file: OpenFile, progress: Progress | None = None) -> Table:
    """Open the table in a file, whose first bytes tell its container.

    Delimited text with a header line and JSON (lines, or an array of objects) may be gzip; or it is Parquet.
    """
    if file.start(len(PARQUET)) == PARQUET:
        return parquet_table(file, progress)
    start, lines = start_of(file), utf8_lines(file, progress)
    if start.startswith(b"["):
        return json_table(json_array("\n".join(text for _, text in lines), file.path), file.path)
    if start.startswith(b"{"):
        return json_table(json_lines(lines, file.path), file.path)
    return text_table(lines, file.path)


def text_table(lines: Lines, path: str | Path) -> Table:
    """Read the header of a table in delimited text.

    Examples
    --------
    >>> table = text_table([(1, "id;text"), (2, "7;\\"a;"), (3, "b\\"")], "docs.csv")
    >>> table.names, list(table.rows)
    (['id', 'text'], [(2, ['7', 'a;\\nb'])])
    """
    given = iter(lines)
    first = next(((line, text) for line, text in given if text.strip()), None)
    if first is None:
        raise InputError("is empty; expected a header line, then rows", path)
    line, text = first
    delimiter = _delimiter_of(text)
    rows = _rows(chain([first], given), delimiter, path)
    names = [name.strip() for name in next(rows)[1]]
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(f"{names.count(name)} columns are called {name!r}; expected unique names", path, line)
    filled = (row for row in rows if row[1][0] or any(row[1]))
    return Table(names, path, filled, delimiter=delimiter)


def json_table(objects: Iterator[NamedRow], path: str | Path) -> Table:
    """Make a table of objects; its columns are the keys of the first one."""
    first = next(objects, None)
    names = [] if first is None else list(first[1])
    every = iter(()) if first is None else chain([first], objects)
    rows = ((line, [values.get(name) for name in names]) for line, values in every)
    return Table(names, path, rows, every)


def json_lines(lines: Lines, path: str | Path) -> Iterator[NamedRow]:
    return ((line, json_object(text, path, line)) for line, text in lines if text.strip())


def parquet_table(file: OpenFile, progress: Progress | None = None) -> Table:
    """Open a Parquet file as a table; needs pyarrow."""
    with reading_parquet(file.path):
        parquet = parquet_file(file)
        columns = columns_of(parquet.schema_arrow.empty_table())
    return Table(list(columns.names), file.path, _parquet_rows(parquet, file.path, progress), kinds=columns.kinds())


def _parquet_rows(parquet: Any, path: str | Path, progress: Progress | None) -> Iterator[tuple[int, list[Any]]]:
    done, total = 0, parquet.metadata.num_rows
    with reading_parquet(path):
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            values = (column.to_pylist() for column in batch.columns)
            yield from ((row, list(cells)) for row, cells in enumerate(zip(*values, strict=True), done + 1))
            done += batch.num_rows
            if progress is not None:
                progress(done, total)


def frame_table(frame: Any, path: str = "the data frame") -> Table:
    """Make a table of a pandas or polars data frame or a pyarrow table."""
    columns = columns_of(frame)
    values = {name: columns.objects(name) for name in columns.names}
    rows = ((row, list(cells)) for row, cells in enumerate(zip(*values.values(), strict=True), 1))
    return Table(list(columns.names), path, rows, kinds=columns.kinds())


def parquet_file(file: OpenFile) -> Any:
    """Open a file with pyarrow; :func:`reading_parquet` reports errors."""
    file.raw.seek(0)
    # pre_buffer=True would hold the whole file in memory, no buffer_size a whole group of rows.
    return import_library("pyarrow.parquet").ParquetFile(file.raw, pre_buffer=False, buffer_size=_BUFFER_BYTES)


@contextmanager
def reading_parquet(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with a Parquet file into an error that names it."""
    arrow = import_library("pyarrow")
    try:
        yield
    except InputError as error:
        raise InputError(error.message, path if error.path is None else error.path, error.line) from None
    except arrow.ArrowMemoryError as error:  # a damaged page may claim 2 GiB
        what = f"a part of it does not fit into memory ({_first_line(error)})"
        raise InputError(f"{what}; expected a complete parquet file", path) from None
    except MemoryError:
        raise
    except (arrow.ArrowException, UnicodeDecodeError) as error:  # also names of columns that are not UTF-8
        raise InputError(f"not a complete parquet file ({_first_line(error)})", path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or _first_line(error)}", path) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def start_of(file: OpenFile) -> bytes:
    """Return the first uncompressed bytes of a text file, without a byte order mark and blanks."""
    start = b""
    for chunk in file.chunks(size=_LOOK_BYTES):  # a chunk may be no more than the blank lines before a last one
        start = (start + chunk).removeprefix(BOM.encode()).lstrip()
        if start:
            break
    return start


def header_cells(text: str) -> list[str]:
    """The cells of what may be a header line; one cell if nothing separates them."""
    text = text.removeprefix(BOM).removesuffix("\r")
    try:
        row = next(_rows(iter([(1, text)]), _delimiter_of(text), ""), (1, [""]))
    except InputError:  # quotation marks that are not closed
        return [text]
    return [cell.strip() for cell in row[1]]


def is_number(text: str) -> bool:
    """Whether a cell is a number as programs write it; Python's own ``1_000`` is not."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def utf8_lines(file: OpenFile, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[tuple[int, str]]:
    """The lines of a file that must be UTF-8; it is read in pieces of ``size``."""
    number = 1
    for chunk in file.chunks(progress, size):
        try:
            text = chunk.decode()
        except UnicodeDecodeError as error:
            line = number + chunk.count(b"\n", 0, error.start)
            what = f"byte {chunk[error.start]:#04x} is not valid UTF-8"
            raise InputError(f"{what}; expected UTF-8, as programs save it when asked to", file.path, line) from None
        if number == 1:
            text = text.removeprefix(BOM)
        if "\0" in text:
            line = number + text.count("\n", 0, text.index("\0"))
            raise InputError("is not a text file (it has a NUL byte)", file.path, line)
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        yield from enumerate(lines, number)
        number += len(lines)


def _delimiter_of(header: str) -> str:
    """A tab if there is one outside quotation marks, else the most frequent delimiter; commas if there is none."""
    outside = "".join(header.split('"')[::2])
    if "\t" in outside:
        return "\t"
    counts = {mark: outside.count(mark) for mark in DELIMITERS}
    return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def _rows(lines: Iterator[tuple[int, str]], delimiter: str, path: str | Path) -> Iterator[tuple[int, list[str]]]:
    for line, text in lines:
        if text.endswith("\r"):
            text = text[:-1]
        if '"' in text:
            yield line, _quoted(line, text, lines, delimiter, path)
        elif text:
            yield line, text.split(delimiter)


def _quoted(first: int, text: str, lines: Iterator[tuple[int, str]], delimiter: str, path: str | Path) -> list[str]:
    """The cells of a row with quotation marks, which may go on in the next lines."""
    if text[0] == text[-1] == '"':
        cells = text[1:-1].split(f'"{delimiter}"')
        if text.count('"') == 2 * len(cells):  # around every cell, and nowhere else
            return cells
    cells = []
    at = 0
    while True:
        if text.startswith('"', at):
            cell, text, at = _quoted_cell(first, text, at, lines, path)
            rest = text[at:].find(delimiter)
            after = text[at:] if rest < 0 else text[at : at + rest]
            if after.strip():
                what = f"{shown(after, 20)} after a quotation mark"
                raise InputError(f"{what}; expected quotation marks around the whole cell, inside doubled", path, first)
            end = len(text) if rest < 0 else at + rest
        else:
            end = text.find(delimiter, at)
            end = len(text) if end < 0 else end
            cell = text[at:end]
        cells.append(cell)
        if end >= len(text):
            return cells
        at = end + 1


def _quoted_cell(
    first: int, text: str, at: int, lines: Iterator[tuple[int, str]], path: str | Path
) -> tuple[str, str, int]:
    """A cell between quotation marks, the line it ends on, and where."""
    parts: list[str] = []
    size, at = 0, at + 1
    while True:
        end = text.find('"', at)
        if end >= 0:
            parts.append(text[at:end])
            if not text.startswith('"', end + 1):
                return "".join(parts), text, end + 1
            parts.append('"')
            at = end + 2
            continue
        parts += text[at:], "\n"
        size += len(text) - at
        following = next(lines, None)
        if following is None or size > _LONGEST_CELL:
            what = "a quotation mark is never closed" if following is None else "a cell of more than 64 MiB"
            raise InputError(f"{what}; expected quotation marks in pairs", path, first)
        text, at = following[1].removesuffix("\r"), 0
