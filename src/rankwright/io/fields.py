"""Plain-text tables with columns separated by white space: qrels, runs, score files, group sizes.

Numpy splits whole chunks at once: a field starts where white space is followed by another byte. The number of fields is
checked on every line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError
from rankwright.io.files import Progress, Source, open_file

_NEWLINE = ord("\n")
MAX_FIELD = 1 << 12
"""Bytes of the longest field: ids are kept at the width of the longest one, which costs as much in every row."""


@dataclass(frozen=True)
class FieldColumns:
    """The fields of some lines: chosen columns as byte strings, with the line number of each row (from 1)."""

    fields: dict[str, Array]
    lines: Array
    path: str | Path

    def numbers(self, column: str) -> Array:
        """A column as finite float64."""
        texts = self.fields[column]
        values, odd = _plain_decimals(texts)
        values[odd] = [_number(text) for text in texts[odd].tolist()]
        finite = np.isfinite(values)
        if not finite.all():
            row = int(np.argmin(finite))
            text = texts[row].decode("utf-8", "replace")
            raise InputError(f"{column} is {text!r}; expected a finite number", self.path, int(self.lines[row]))
        return values


def read_fields(
    source: Source,
    names: Sequence[str],
    wanted: Sequence[str],
    progress: Progress | None = None,
) -> Iterator[FieldColumns]:
    """Read a file in chunks; every line that is not blank must have as many fields as there are ``names``."""
    first_line = 1
    empty = True
    with open_file(source) as file:
        for chunk in file.chunks(progress):
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
    if b"\0" in chunk:
        line = first_line + chunk.count(b"\n", 0, chunk.index(b"\0"))
        raise InputError(f"is not a text file; expected lines of: {' '.join(names)}", path, line)
    buffer = np.frombuffer(chunk, np.uint8)
    blank = buffer <= ord(" ")
    before = np.concatenate([[True], blank[:-1]])
    starts = np.flatnonzero(~blank & before)
    ends = np.flatnonzero(blank & ~before)
    if len(ends) < len(starts):
        ends = np.append(ends, len(buffer))
    newlines = np.flatnonzero(buffer == _NEWLINE)
    if not chunk.endswith(b"\n"):
        newlines = np.append(newlines, len(buffer))
    fields_per_line = np.diff(np.searchsorted(starts, newlines), prepend=0)
    used = np.flatnonzero(fields_per_line)
    wrong = fields_per_line[used] != len(names)
    if wrong.any():
        line = used[int(np.argmax(wrong))]
        n_fields = int(fields_per_line[line])
        problem = f"{n_fields} field{'s' if n_fields > 1 else ''}; expected {len(names)}: {' '.join(names)}"
        raise InputError(problem, path, first_line + int(line))
    lines = used + first_line
    fields = {}
    for name in wanted:
        at = names.index(name)
        fields[name] = _gather(buffer, starts[at :: len(names)], ends[at :: len(names)], lines, path)
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
