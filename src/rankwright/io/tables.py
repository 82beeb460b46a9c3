"""One table for every container: CSV and other delimited text, JSON, Parquet, data frames.

A :class:`Table` has the names of its columns and its rows, each with its line (of an array, Parquet or a frame: the
number of the row, from 1). See :mod:`rankwright.io.roles` for what its columns are for; features are read
from it column by column in :mod:`rankwright.io.frames`.

Delimited text has a header line. Cells may be quoted, with delimiters, line ends and doubled quotation marks inside; a
byte order mark and Windows line ends are taken off. Rows are read one by one, in one pass over the lines, however long
a cell is. Python's csv module is not used: in its strict mode it refuses blanks after a closing quotation mark, in its
lenient one it joins ``"x"y`` to one cell, and its limit on the length of cells is global.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, shown
from rankwright.io.files import CHUNK_BYTES, MAX_FIELD, OpenFile, Progress, Source, check_text, open_file
from rankwright.io.frames import columns_of, import_library, kinds_of
from rankwright.io.roles import Columns, accepted, find, listed
from rankwright.io.values import READERS, Reader, bad_grade, number_or_comma_in

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


def is_shallow(value: Any, levels: int = _DEEPEST) -> bool:
    """Whether lists and objects are nested at most so many levels deep."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(is_shallow(item, levels - 1) for item in items)


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
_NUMBERS = ("nan", "inf", "infinity")
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

    @property
    def readers(self) -> Mapping[str, Reader]:
        """How its cells are read, by what a column holds: where semicolons separate them, numbers may have commas."""
        return READERS | {"number": number_or_comma_in} if self.delimiter == ";" else READERS

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
        rows = list(self.full_rows())
        columns = zip(*(cells for _, cells in rows), strict=True) if rows else ([] for _ in self.names)
        return dict(zip(self.names, map(list, columns), strict=True)), [line for line, _ in rows]

    def uneven(self, n_cells: int, line: int) -> InputError:
        cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
        problem = f"{cells}; expected {len(self.names)}, as in the header"
        if n_cells > len(self.names):
            problem += f" (put a cell with {DELIMITERS[self.delimiter]} in it between quotation marks)"
        return InputError(problem, self.path, line)

    def column(self, role: str, columns: Columns | None = None) -> str:
        """Return the column of a role; without one it is an error that lists the accepted names."""
        name = find(self.names, role, columns)
        if name is None:
            expected = f"expected one for {role} ({accepted(role)}), or --columns {role}=NAME"
            raise InputError(f"has the columns {listed(self.names)}; {expected}", self.path, 1)
        return name


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
    return Table(list(columns.names), file.path, _parquet_rows(parquet, file.path, progress), kinds=kinds_of(columns))


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
    columns = columns_of(frame)
    values = {name: columns.objects(name) for name in columns.names}
    rows = ((row, list(cells)) for row, cells in enumerate(zip(*values.values(), strict=True), 1))
    return Table(list(columns.names), path, rows, kinds=kinds_of(columns))


def parquet_file(file: OpenFile) -> Any:
    """A file opened with pyarrow; :func:`reading_parquet` reports errors."""
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
        problem = f"a part of it does not fit into memory ({_first_line(error)})"
        raise InputError(f"{problem}; expected a complete parquet file", path) from None
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


def names_in(file: OpenFile) -> list[str]:
    """The columns that a file's header or first JSON object names; of a file that is no table, its first words."""
    if file.start(len(PARQUET)) == PARQUET or start_of(file)[:1] in (b"[", b"{"):
        return list(next(open_table(file).named(), (0, {}))[1])
    return header_cells(next((text for _, text in utf8_lines(file, size=HEADER_BYTES) if text.strip()), ""))


def is_number(text: str) -> bool:
    """Whether a cell is a number as programs write it; Python's own ``1_000`` is not."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def utf8_lines(file: OpenFile, progress: Progress | None = None, size: int = CHUNK_BYTES) -> Iterator[tuple[int, str]]:
    """The lines of a file that must be UTF-8, read in pieces of ``size`` bytes."""
    number = 1
    for chunk in file.chunks(progress, size):
        try:
            text = chunk.decode()
        except UnicodeDecodeError as error:
            line = number + chunk.count(b"\n", 0, error.start)
            problem = f"byte {chunk[error.start]:#04x} is not valid UTF-8"
            raise InputError(f"{problem}; expected UTF-8, as programs save it when asked to", file.path, line) from None
        if number == 1:
            text = text.removeprefix(BOM)
        check_text(chunk, number, file.path)
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


# Text with columns separated by white space and no header: TREC's qrels and runs, score files, group sizes.
#
# Numpy splits whole chunks at once: a field starts where white space is followed by another byte. The number of fields
# is checked on every line.


@dataclass(frozen=True)
class FieldColumns:
    """The fields of some lines: chosen columns as byte strings, with the line number of each row (from 1)."""

    fields: dict[str, Array]
    lines: Array
    path: str | Path

    def numbers(self, column: str, grades: Mapping[str, float] | None = None) -> Array:
        """A column as finite float64; ``grades``: the numbers of words in it."""
        texts = self.fields[column]
        values, odd = _plain_decimals(texts)
        words = {word.encode(): number for word, number in (grades or {}).items()}
        values[odd] = [words.get(text.lower(), _number(text)) for text in texts[odd].tolist()]
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argmin(finite))
            seen = list(dict.fromkeys(text.decode("utf-8", "replace") for text in texts[~finite].tolist()))
            if column == "label" and all(text.isalpha() and text.lower() not in _NUMBERS for text in seen):
                raise InputError(bad_grade(column, seen, grades or {}).message, self.path, int(self.lines[row]))
            text = texts[row].decode("utf-8", "replace")
            raise InputError(f"{column} is {text!r}; expected a finite number", self.path, int(self.lines[row]))
        return values


METADATA = b"# ir_metadata.start"


def without_metadata(text: bytes) -> bytes:
    """A run whose ir_metadata, which some begin with, is replaced by as many empty lines."""
    head, end, rest = text.partition(b"# ir_metadata.end")
    return b"\n" * head.count(b"\n") + rest if end else text


def read_fields(
    source: Source, names: Sequence[str], wanted: Sequence[str], progress: Progress | None = None
) -> Iterator[FieldColumns]:
    """Read a file in chunks; every line that is not blank must have as many fields as there are ``names``."""
    first_line = 1
    empty = True
    with open_file(source) as file:
        for chunk in file.chunks(progress):
            if first_line == 1 and chunk.startswith(METADATA):
                chunk = without_metadata(chunk)
            columns = _split(chunk, names, wanted, file.path, first_line)
            first_line += chunk.count(b"\n")
            if len(columns.lines):
                empty = False
                yield columns
        if empty:
            raise InputError(f"is empty; expected lines of: {' '.join(names)}", file.path)


def _split(
    chunk: bytes, names: Sequence[str], wanted: Sequence[str], path: str | Path, first_line: int
) -> FieldColumns:
    check_text(chunk, first_line, path, f"; expected lines of: {' '.join(names)}")
    buffer = np.frombuffer(chunk, np.uint8)
    blank = buffer <= ord(" ")
    before = np.concatenate([[True], blank[:-1]])
    starts = np.flatnonzero(~blank & before)
    ends = np.flatnonzero(blank & ~before)
    if len(ends) < len(starts):
        ends = np.append(ends, len(buffer))
    newlines = np.flatnonzero(buffer == ord("\n"))
    if not chunk.endswith(b"\n"):
        newlines = np.append(newlines, len(buffer))
    fields_per_line = np.diff(np.searchsorted(starts, newlines), prepend=0)
    used = np.flatnonzero(fields_per_line)
    many = fields_per_line[used] > len(names)
    if many.any() and names[-1] == "tag":  # of a run, which nobody compares: the rest of the line
        first = np.concatenate([[0], np.cumsum(fields_per_line)])
        place = np.arange(len(starts)) - np.repeat(first[:-1], fields_per_line)
        long = fields_per_line > len(names)
        ends[first[:-1][long] + len(names) - 1] = ends[first[1:][long] - 1]
        starts, ends = starts[place < len(names)], ends[place < len(names)]
        fields_per_line = np.minimum(fields_per_line, len(names))
    wrong = fields_per_line[used] != len(names)
    if wrong.any():
        line = used[int(np.argmax(wrong))]
        n_fields = int(fields_per_line[line])
        problem = f"{n_fields} field{'s' if n_fields > 1 else ''}; expected {len(names)}: {' '.join(names)}"
        raise InputError(problem, path, first_line + int(line))
    lines = used + first_line
    spans = {name: slice(names.index(name), None, len(names)) for name in wanted}
    fields = {name: _gather(buffer, starts[span], ends[span], lines, path) for name, span in spans.items()}
    return FieldColumns(fields, lines, path)


def _gather(buffer: Array, starts: Array, ends: Array, lines: Array, path: str | Path) -> Array:
    """The bytes between starts and ends as one array of fixed-width byte strings."""
    if len(starts) == 0:
        return np.empty(0, "S1")
    lengths = ends - starts
    width = int(lengths.max())
    if width > MAX_FIELD:
        line = int(lines[int(np.argmax(lengths))])
        raise InputError(f"a field of {width} bytes; expected at most {MAX_FIELD}", path, line)
    padded = np.concatenate([buffer, np.zeros(width, np.uint8)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    texts = windows[starts]
    if int(lengths.min()) < width:
        texts *= np.arange(width) < lengths[:, None]
    return texts.reshape(-1).view(f"S{width}")


def _number(text: bytes) -> float:
    try:
        return float("nan") if b"_" in text else float(text)
    except ValueError:
        return float("nan")


def _plain_decimals(texts: Array) -> tuple[Array, Array]:
    """Read numbers like -12.5 column by column; those with more than 15 digits or another form are marked odd.

    Exact: up to 15 digits fit a float64 without rounding, and one division by a power of ten up to 10^15 rounds once.
    """
    characters = texts.view(np.uint8).reshape(len(texts), -1)
    mantissa = np.zeros(len(texts), np.int64)
    digits, decimals = np.zeros(len(texts), np.uint8), np.zeros(len(texts), np.uint8)
    after_point = np.zeros(len(texts), np.uint8)
    first = characters[:, 0]
    signed = (first == ord("-")) | (first == ord("+"))
    odd = np.zeros(len(texts), bool)
    for column in range(min(characters.shape[1], 18)):
        character = characters[:, column]
        digit = character - np.uint8(ord("0"))  # wraps around below "0"
        is_digit = digit < 10
        is_point = character == ord(".")
        mantissa = np.where(is_digit, mantissa * 10 + digit, mantissa)
        digits += is_digit
        decimals += is_digit & after_point
        odd |= ~(is_digit | is_point | (character == 0)) | (is_point & (after_point > 0))
        if column == 0:
            odd &= ~signed
        after_point |= is_point
    odd |= (digits == 0) | (digits > 15) | (characters[:, 18:] != 0).any(axis=1)
    values = mantissa / 10.0 ** np.minimum(decimals, 15)
    return np.where(first == ord("-"), -values, values), odd
