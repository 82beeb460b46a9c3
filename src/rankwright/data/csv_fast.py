"""Columns of a large table in text, cell by cell in compiled code (:mod:`rankwright.data.csv_kernel`).

What is not plain is left to the reader of rows in Python: it reads the file from its start then, and either can make
sense of it or says where it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.columns import MAX_FIELD
from rankwright.data.csv_kernel import NUMBER, OK, SKIP, SPAN, copy_cells, parse_cells
from rankwright.data.delimited import BOM
from rankwright.data.files import OpenFile, Progress

__all__ = ["Chunk", "Unusual", "read_chunks"]

Array = npt.NDArray[Any]
_CHUNK_BYTES = 1 << 20  # small enough that a chunk and what is parsed from it stay in the cache
_LONGEST_ROW = 1 << 26


class Unusual(Exception):
    """Something that only the reader of rows can judge."""


@dataclass(frozen=True)
class Chunk:
    """Some rows: the numbers of columns, and where the cells of others are.

    Attributes
    ----------
    text : bytes
        The chunk.
    is_ascii : bool
        Whether it is nothing but ASCII.
    values : mapping of str to ndarray
        Numbers by column, NaN where a cell is empty or odd.
    odd : mapping of str to ndarray
        Row, start, stop and whether to undo quoting, of the cells of these columns that are not plain numbers.
    spans : mapping of str to ndarray
        Start, stop and whether to undo quoting, of all cells of other columns.
    """

    text: bytes
    is_ascii: bool
    values: Mapping[str, Array]
    odd: Mapping[str, Array]
    spans: Mapping[str, Array]

    def cells(self, spans: Array) -> list[str]:
        """The texts of cells."""
        text = self.text.decode() if self.is_ascii else self.text
        found = []
        for start, stop, undo in spans.tolist():
            cell = text[start:stop]
            cell = cell if isinstance(cell, str) else cell.decode()
            found.append(cell.replace('""', '"').replace("\r\n", "\n") if undo else cell)
        return found

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
        made = np.zeros((len(spans), max(width, 1)), np.uint8)
        copy_cells(np.frombuffer(self.text, np.uint8), spans, made)
        return made.view(f"S{made.shape[1]}").reshape(-1).astype(str)


def read_chunks(
    file: OpenFile,
    names: Sequence[str],
    delimiter: str,
    kinds: Mapping[str, int],
    progress: Progress | None = None,
) -> Iterator[Chunk]:
    """Read the rows below the header, many at once.

    Parameters
    ----------
    file : OpenFile
        The file, which is read from its start.
    names : sequence of str
        The columns of the header.
    delimiter : str
        What separates cells.
    kinds : mapping of str to int
        ``NUMBER`` or ``SPAN`` for the columns to keep. It may be changed between chunks.
    progress : callable, optional
        Called with (bytes read, total bytes).
    """
    rest, is_first = b"", True
    for chunk in _with_newlines(file.chunks(progress, _CHUNK_BYTES)):
        if b"\0" in chunk:
            raise Unusual
        begin = 0
        text = rest + chunk
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


def _with_newlines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks of lines that all have an end."""
    for chunk in chunks:
        yield chunk if chunk.endswith(b"\n") else chunk + b"\n"


def _is_ascii(text: bytes) -> bool:
    """Whether a chunk is ASCII; UTF-8 is the only other thing that it may be."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        raise Unusual from None
    return False


def _parse(
    text: bytes, begin: int, delimiter: str, names: Sequence[str], kinds: Mapping[str, int], most: int | None = None
) -> tuple[int, int, dict[str, Array], dict[str, Array], dict[str, Array]]:
    """Where a row begins that is not whole, the number of rows before it, and the parts of a :class:`Chunk`."""
    n_rows = len(text) // max(len(names), 1) + 1  # a row is at least as many bytes as it has cells
    kept = {kind: [name for name in names if kinds.get(name, SKIP) == kind] for kind in (NUMBER, SPAN)}
    places = {name: place for column in kept.values() for place, name in enumerate(column)}
    values = np.empty((len(kept[NUMBER]), n_rows))
    spans = np.empty((len(kept[SPAN]), n_rows, 3), np.int64)
    odd = np.empty((n_rows * len(kept[NUMBER]), 5), np.int64)
    code, stop, n_rows, n_odd = parse_cells(
        np.frombuffer(text, np.uint8),
        begin,
        ord(delimiter),
        n_rows if most is None else most,
        np.array([kinds.get(name, SKIP) for name in names], np.int64),
        np.array([places.get(name, 0) for name in names], np.int64),
        values,
        spans,
        odd,
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
