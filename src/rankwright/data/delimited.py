"""Tables in text, with a header line: CSV, tab-separated, or with semicolons.

Cells may be quoted, with delimiters, line ends and doubled quotation marks inside; a byte order mark and Windows line
ends are taken off. Rows are read one by one, in one pass over the lines, however long a cell is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from rankwright.data.files import CHUNK_BYTES, OpenFile, Progress
from rankwright.errors import InputError, shown

__all__ = [
    "BOM",
    "DELIMITERS",
    "HEADER_BYTES",
    "Lines",
    "Table",
    "header_cells",
    "is_number",
    "open_table",
    "utf8_lines",
]

BOM = "\ufeff"
DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
Lines = Iterable[tuple[int, str]]
"""Numbers of lines, from 1, and their texts without the line end; blank ones too."""

HEADER_BYTES = 1 << 16
"""To read at once where a header is all that is wanted."""

_LONGEST_CELL = 1 << 26
_SHOWN = 8  # columns in a message


@dataclass(frozen=True)
class Table:
    """An open table: its header, and what follows.

    Attributes
    ----------
    names : list of str
        The columns, as the header writes them.
    delimiter : str
        What separates cells.
    rows : iterator of (int, list of str)
        The line on which each row starts, and its cells; blank lines are left out.
    path : str or Path
        The file, for messages.
    """

    names: list[str]
    delimiter: str
    rows: Iterator[tuple[int, list[str]]]
    path: str | Path

    @property
    def shown(self) -> str:
        """The first columns, for messages."""
        named = ", ".join(repr(name[:40]) for name in self.names[:_SHOWN])
        return named + (", …" if len(self.names) > _SHOWN else "")

    def full_rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows; one with more or fewer cells than the header is an error."""
        expected = len(self.names)
        for line, cells in self.rows:
            if len(cells) != expected:
                raise self.uneven(len(cells), line)
            yield line, cells

    def named(self) -> Iterator[tuple[int, dict[str, str | None]]]:
        """The rows by name; cells that a row lacks at its end are None."""
        for line, cells in self.rows:
            if len(cells) > len(self.names):
                raise self.uneven(len(cells), line)
            yield line, dict(zip_longest(self.names, cells))

    def uneven(self, n_cells: int, line: int) -> InputError:
        """A row with another number of cells than the header."""
        cells = "1 cell" if n_cells == 1 else f"{n_cells} cells"
        what = f"{cells}; expected {len(self.names)}, as in the header"
        if n_cells > len(self.names):
            what += f" (put a cell with {DELIMITERS[self.delimiter]} in it between quotation marks)"
        return InputError(what, self.path, line)


def open_table(lines: Lines, path: str | Path) -> Table:
    """Read the header of a table.

    Examples
    --------
    >>> table = open_table([(1, "id;text"), (2, "7;\\"a;"), (3, "b\\"")], "docs.csv")
    >>> table.names, list(table.rows)
    (['id', 'text'], [(2, ['7', 'a;\\nb'])])
    """
    given = iter(lines)
    first = next(((line, text) for line, text in given if text.strip()), None)
    if first is None:
        raise InputError("is empty; expected a header line, then rows", path)
    line, text = first
    delimiter = _delimiter_of(text)
    rows = _rows(_before(first, given), delimiter, path)
    names = [name.strip() for name in next(rows)[1]]
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(f"{names.count(name)} columns are called {name!r}; expected unique names", path, line)
    return Table(names, delimiter, (row for row in rows if row[1][0] or any(row[1])), path)


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


def _before(first: tuple[int, str], others: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from others


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
    cells: list[str] = []
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
