"""The byte parsers behind :func:`rankwright.read_letor` and, for large files, CSV; imported where they run.

A chunk ends with a newline, and no loop runs past one (inside quotation marks the size is checked), so every read stays
inside. Decimals become float64 by one exact product or quotient, or by a product in twice the precision where its
rounding is certain; Python's ``float`` reads the few that remain, so all are rounded correctly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER

Bytes = Any  # a uint8 array
Position = Any  # np.uint64 within the kernels

MAX_ID = 2**31 - 1
OK, BAD_LABEL, NO_QID, BAD_FEATURE, ID_RANGE, ID_ORDER, BAD_VALUE, VALUE_RANGE = range(8)

_TAB, _NEWLINE, _RETURN, _SPACE = 9, 10, 13, 32
_HASH, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON = (ord(c) for c in "#+-.09:")

# What is kept of a row: spans are positions in the chunk, -1 if the line has no such part.
_LINE, _STOP, _QID, _QID_STOP, _QID_NEW, _COMMENT, _COMMENT_STOP = range(7)
_N_ROW_FIELDS = 7

_EXACT_DIGITS = 18  # more may not fit an int64
_EXACT_POWER = 22  # 10**22 is the largest power of ten that is a float64
_MAX_POWER = 250  # beyond, parts of the double-length product could overflow or lose bits
_SPLIT = 2.0**27 + 1.0
_DOUBT = 2.0**-100  # more than the relative error of the double-length product

# Positions in the text are unsigned: signed ones numba checks for counting from the end, at a fifth of the time.
# (Mixed with signed numbers they would become floats, hence these.)
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


def _powers_of_ten() -> tuple[Array, Array]:
    exact = [Fraction(10) ** e for e in range(-_MAX_POWER, _MAX_POWER + 1)]
    high = [float(power) for power in exact]
    low = [float(power - Fraction(h)) for power, h in zip(exact, high, strict=True)]
    return np.array(high), np.array(low)


_HIGH, _LOW = _powers_of_ten()


@njit(**INNER)
def _is_end(c: int) -> bool:
    return c in (_SPACE, _HASH) or _TAB <= c <= _RETURN


@njit(**INNER)
def _skip_blanks(text: Bytes, at: Position) -> Position:
    while text[at] == _SPACE or (_TAB <= text[at] <= _RETURN and text[at] != _NEWLINE):
        at += _ONE
    return at


@njit(**INNER)
def _scaled(digits: int, power: int) -> tuple[float, bool]:
    """``digits × 10**power`` rounded to nearest, and whether that rounding is certain."""
    if digits < 2**53 and -_EXACT_POWER <= power <= _EXACT_POWER:
        if power < 0:
            return digits / _HIGH[_MAX_POWER - power], True
        return digits * _HIGH[_MAX_POWER + power], True
    if power < -_MAX_POWER or power > _MAX_POWER:
        return 0.0, digits == 0
    a, b = float(digits), _HIGH[_MAX_POWER + power]
    a_rest, b_rest = float(digits - int(a)), _LOW[_MAX_POWER + power]
    # Dekker's product: a × b is high + low exactly.
    high = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2
    low += a * b_rest + a_rest * b
    doubt = high * _DOUBT
    value = high + (low - doubt)
    return value, value == high + (low + doubt)


@njit(**INNER)
def decimal(text: Bytes, at: Position, end: int) -> tuple[float, Position, bool, bool]:
    """A number's value and end, whether it is a number, and whether its rounding is certain (else Python parses it).

    White space, ``#`` or ``end`` must follow it.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += _ONE
    begin, digits, power = at, 0, np.int64(0)
    while _ZERO <= text[at] <= _NINE:
        digits = digits * 10 + (text[at] - _ZERO)
        at += _ONE
    n_digits = np.int64(at - begin)
    if text[at] == _POINT:
        at += _ONE
        point = at
        while _ZERO <= text[at] <= _NINE:
            digits = digits * 10 + (text[at] - _ZERO)
            at += _ONE
        power = np.int64(point) - np.int64(at)
        n_digits -= power
    is_number = n_digits > 0
    if is_number and text[at] | 32 == 101:  # e or E
        at += _ONE
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += _ONE
        first, shift = at, 0
        while _ZERO <= text[at] <= _NINE:
            shift = min(shift * 10 + (text[at] - _ZERO), 10**9)
            at += _ONE
        power += -shift if down else shift
        is_number = at > first
    if not is_number or not (_is_end(text[at]) or text[at] == end):
        return 0.0, at, False, True
    while n_digits > _EXACT_DIGITS and (text[begin] == _ZERO or text[begin] == _POINT):
        n_digits -= text[begin] == _ZERO
        begin += _ONE
    if n_digits > _EXACT_DIGITS:
        return 0.0, at, True, False
    value, certain = _scaled(digits, power)
    return -value if negative else value, at, True, certain


@njit(**INNER)
def _is_null(text: Bytes, at: Position) -> bool:
    return (
        text[at] | 32 == 110  # n, u, l, l in either case
        and text[at + _ONE] | 32 == 117
        and text[at + _TWO] | 32 == 108
        and text[at + _THREE] | 32 == 108
        and _is_end(text[at + _FOUR])
    )


@njit(**INNER)
def _features(
    text: Bytes,
    at: Position,
    row: int,
    rules: Array,
    columns: Array,
    values: Array,
    stop: int,
    slow: Array,
    n_slow: int,
) -> tuple[int, int, int, int, int]:
    """Read ``id:value`` pairs up to the comment or the end of the line.

    Returns a code, the position, the previous id, and how far columns and slow are filled.
    """
    max_id, null, limit = int(rules[0]), rules[1], rules[2]
    before = 0
    while True:
        at = _skip_blanks(text, at)
        if text[at] == _NEWLINE or text[at] == _HASH:
            return OK, at, before, stop, n_slow
        start, feature = at, 0
        while _ZERO <= text[at] <= _NINE:
            feature = feature * 10 + (text[at] - _ZERO)
            at += _ONE
        if text[at] != _COLON or at == start:
            return BAD_FEATURE, start, before, stop, n_slow
        if feature < 1 or feature > max_id or np.int64(at - start) > _EXACT_DIGITS:
            return ID_RANGE, start, before, stop, n_slow
        if feature <= before:
            return ID_ORDER, start, before, stop, n_slow
        at += _ONE
        value, end, is_number, certain = decimal(text, at, _SPACE)
        if not is_number:
            if not _is_null(text, at):
                return BAD_VALUE, start, before, stop, n_slow
            value, end = null, at + _FOUR
        elif not certain:
            slow[n_slow, 0], slow[n_slow, 1], slow[n_slow, 2], slow[n_slow, 3] = row, stop, start, end
            n_slow += 1
        if not abs(value) < limit:
            return VALUE_RANGE, start, before, stop, n_slow
        columns[stop] = feature - 1
        values[stop] = value
        stop += 1
        before = feature
        at = end


@njit(**INNER)
def _query(text: Bytes, at: Position, rows: Array, row: int) -> tuple[int, Position]:
    """Store the span of ``qid:Q`` if there is one here, and whether it differs from the previous row's."""
    rows[row, _QID], rows[row, _QID_STOP], rows[row, _QID_NEW] = -1, -1, row == 0 or rows[row - 1, _QID] >= 0
    if text[at] != 113 or text[at + _ONE] != 105 or text[at + _TWO] != 100 or text[at + _THREE] != _COLON:  # qid:
        return OK, at
    start = at + _FOUR
    stop = start
    while not _is_end(text[stop]):
        stop += _ONE
    if stop == start:
        return NO_QID, at
    rows[row, _QID], rows[row, _QID_STOP], rows[row, _QID_NEW] = start, stop, 1
    length = np.int64(stop - start)
    if row > 0 and rows[row - 1, _QID_STOP] - rows[row - 1, _QID] == length:
        same = 0
        while same < length and text[rows[row - 1, _QID] + same] == text[rows[row, _QID] + same]:
            same += 1
        rows[row, _QID_NEW] = same < length
    return OK, stop


@njit(cache=True, nogil=True)
def _parse_lines(
    text: Bytes, rules: Array, rows: Array, labels: Array, columns: Array, values: Array, slow: Array
) -> tuple[Any, ...]:
    """Fill the arrays line by line; stops at the first fault.

    Returns a code, the line, the position and the previous id, and how far rows and slow are filled.
    """
    # A literal 0 is a type of its own to numba: everything called with it would be compiled twice.
    line = row = stop = n_slow = before = np.int64(0)
    at, size = np.uint64(0), np.uint64(text.size)
    while at < size:
        at = _skip_blanks(text, at)
        if text[at] != _NEWLINE and text[at] != _HASH:
            labels[row], end, is_number, certain = decimal(text, at, _SPACE)
            if not is_number:
                return BAD_LABEL, line, at, 0, row, n_slow
            if not certain:
                slow[n_slow, 0], slow[n_slow, 1], slow[n_slow, 2], slow[n_slow, 3] = row, -1, at, end
                n_slow += 1
            code, at = _query(text, _skip_blanks(text, end), rows, row)
            if code == OK:
                code, at, before, stop, n_slow = _features(text, at, row, rules, columns, values, stop, slow, n_slow)
            rows[row, _LINE], rows[row, _STOP] = line, stop
            if code != OK:
                return code, line, at, before, row, n_slow
            rows[row, _COMMENT] = -1
            if text[at] == _HASH:
                rows[row, _COMMENT] = at + _ONE
            while text[at] != _NEWLINE:
                at += _ONE
            rows[row, _COMMENT_STOP] = at
            row += 1
        while text[at] != _NEWLINE:
            at += _ONE
        at += _ONE
        line += 1
    return OK, line, at, 0, row, n_slow


@dataclass(frozen=True)
class Fault:
    """Where and why the parser stopped: code, line in the chunk (from 0), position, previous feature id."""

    code: int
    line: int
    at: int
    before: int


@dataclass(frozen=True)
class Parsed:
    """The rows of one chunk, and the number of its lines, up to the fault if there is one.

    Lines count from 0; a span is start and stop in the chunk, start -1 if there is none. The arrays are views that the
    next chunk overwrites.
    """

    lines: Array
    labels: Array
    qid_spans: Array
    qid_is_new: Array
    comment_spans: Array
    counts: Array
    columns: Array
    values: Array
    n_lines: int
    fault: Fault | None


class LineParser:
    """Parses chunks of lines and reuses its memory."""

    def __init__(self, dtype: np.dtype[Any], max_id: int | None, null: float) -> None:
        # Half a step above the largest float32 is where rounding begins to give infinity.
        limit = float(np.finfo(np.float32).max) + 2.0**103 if dtype == np.float32 else np.inf
        self._rules = np.array([MAX_ID if max_id is None else max_id, null, limit])
        self._reserve(0)

    def _reserve(self, n_bytes: int) -> None:
        # The shortest row is a digit and a newline, the shortest feature "1:2" and a space. That is far more than most
        # chunks need, but memory that is never touched costs nothing.
        n_rows, n_features = n_bytes // 2, n_bytes // 4
        self._capacity = n_bytes
        self._rows = np.empty((n_rows, _N_ROW_FIELDS), np.int64)
        self._labels = np.empty(n_rows)
        self._columns = np.empty(n_features, np.int32)
        self._values = np.empty(n_features)
        self._slow = np.empty((n_rows, 4), np.int64)

    def parse(self, chunk: bytes) -> Parsed:
        """Parse lines; ``chunk`` ends with a newline."""
        if len(chunk) > self._capacity:
            self._reserve(len(chunk))
        text = np.frombuffer(chunk, np.uint8)
        code, line, at, before, n_rows, n_slow = _parse_lines(
            text, self._rules, self._rows, self._labels, self._columns, self._values, self._slow
        )
        fault = self._ask_python(chunk, n_slow) or (Fault(code, line, at, before) if code != OK else None)
        if fault is not None:
            n_rows = int(np.searchsorted(self._rows[:n_rows, _LINE], fault.line))
        rows = self._rows[:n_rows]
        stop = int(rows[-1, _STOP]) if n_rows else 0
        return Parsed(
            rows[:, _LINE],
            self._labels[:n_rows],
            rows[:, _QID : _QID_STOP + 1],
            rows[:, _QID_NEW] != 0,
            rows[:, _COMMENT : _COMMENT_STOP + 1],
            np.diff(rows[:, _STOP], prepend=0),
            self._columns[:stop],
            self._values[:stop],
            line,
            fault,
        )

    def _ask_python(self, chunk: bytes, n_slow: int) -> Fault | None:
        """Parse the numbers whose rounding the kernel could not certify."""
        for row, entry, start, stop in self._slow[:n_slow].tolist():
            value = float(chunk[start:stop].rpartition(b":")[2])
            if not abs(value) < (np.inf if entry < 0 else self._rules[2]):
                return Fault(BAD_LABEL if entry < 0 else VALUE_RANGE, int(self._rows[row, _LINE]), start, 0)
            if entry < 0:
                self._labels[row] = value
            else:
                self._values[entry] = value
        return None


# Cells of CSV. Whatever is not plain (a row with another number of cells, text after a quotation mark) stops the
# parser; the reader of rows in Python then reads the file and says what is wrong, so there is one source of messages.


NUMBER, SPAN, SKIP = range(3)
"""What is kept of a column: its numbers, where its cells are, nothing."""

UNUSUAL = 1
_QUOTE = 34


@njit(**INNER)
def _is_blank(c: int, delimiter: int) -> bool:
    return (c in (_SPACE, _TAB, _RETURN)) and c != delimiter


@njit(**INNER)
def _after_quotes(text: Array, at: Position, size: Position) -> tuple[Position, bool]:
    """The closing quotation mark of a cell that begins here, or the size; whether there is anything to undo inside."""
    odd = False
    at += _ONE
    while at < size:
        c = text[at]
        if c == _QUOTE:
            if text[at + _ONE] != _QUOTE:
                return at, odd
            odd = True
            at += _ONE
        odd |= c == _NEWLINE
        at += _ONE
    return size, odd


@njit(**INNER)
def _cell(text: Array, at: Position, size: Position, delimiter: int) -> tuple[Position, Position, Position, int]:
    """Start and stop of a cell, what follows it, and a code: 0 plain, 1 with something to undo, -1 wrong, -2 cut."""
    if text[at] == _QUOTE:
        stop, odd = _after_quotes(text, at, size)
        if stop == size:
            return at, at, at, -2
        end = stop + _ONE
        while _is_blank(text[end], delimiter):
            end += _ONE
        if text[end] != delimiter and text[end] != _NEWLINE:
            return at, at, at, -1
        return at + _ONE, stop, end, int(odd)
    end = at
    while text[end] != delimiter and text[end] != _NEWLINE:
        end += _ONE
    stop = end
    if text[end] == _NEWLINE and end > at and text[end - _ONE] == _RETURN:
        stop -= _ONE
    return at, stop, end, 0


@njit(**INNER)
def _plain_number(text: Array, at: Position, delimiter: int) -> tuple[float, Position, bool]:
    """A number, or NaN for an empty cell; where the cell ends; whether it is one or the other."""
    while _is_blank(text[at], delimiter):
        at += _ONE
    if text[at] == delimiter or text[at] == _NEWLINE:
        return np.nan, at, True
    value, at, is_number, certain = decimal(text, at, delimiter)
    while _is_blank(text[at], delimiter):
        at += _ONE
    is_plain = is_number and certain and abs(value) < np.inf
    return value, at, is_plain and (text[at] == delimiter or text[at] == _NEWLINE)


@njit(cache=True, nogil=True)
def parse_cells(
    text: Array,
    begin: int,
    delimiter: int,
    max_rows: int,
    kinds: Array,
    slots: Array,
    values: Array,
    spans: Array,
    odd: Array,
) -> tuple[Any, ...]:
    """Fill ``values`` (columns × rows) and ``spans`` (columns × rows × start, stop, whether to undo quoting).

    Cells of columns of numbers that are none, or whose rounding Python must decide, go to ``odd``: slot, row, and the
    span. Returns a code, where the first row begins that is not whole, the number of rows, and that of odd cells.
    """
    row = n_odd = np.int64(0)
    n_columns = kinds.size
    at, size = np.uint64(begin), np.uint64(text.size)
    while at < size and row < max_rows:
        first, n_before, is_filled = at, n_odd, False
        if text[at] == _NEWLINE or (text[at] == _RETURN and text[at + _ONE] == _NEWLINE):
            at += _ONE if text[at] == _NEWLINE else _ONE + _ONE
            continue
        for column in range(n_columns):
            start, slot, kind = at, slots[column], kinds[column]
            is_plain = False
            if kind == NUMBER:
                value, end, is_plain = _plain_number(text, at, delimiter)
                if is_plain:
                    values[slot, row] = value
                    is_filled |= end > start and not (end == start + _ONE and text[start] == _RETURN)
                    at = end
            if not is_plain:
                start, stop, at, code = _cell(text, at, size, delimiter)
                if code < 0:
                    return OK if code == -2 else UNUSUAL, first, row, n_before
                is_filled |= stop > start
                if kind == SPAN:
                    spans[slot, row, 0], spans[slot, row, 1], spans[slot, row, 2] = start, stop, code
                elif kind == NUMBER:
                    values[slot, row] = np.nan
                    odd[n_odd, 0], odd[n_odd, 1] = slot, row
                    odd[n_odd, 2], odd[n_odd, 3], odd[n_odd, 4] = start, stop, code
                    n_odd += 1
            if (text[at] == _NEWLINE) != (column == n_columns - 1):
                return UNUSUAL, first, row, n_before
            at += _ONE
        if is_filled:
            row += 1
        else:
            n_odd = n_before
    return OK, at, row, n_odd


@njit(cache=True, nogil=True)
def copy_cells(text: Array, spans: Array, cells: Array) -> None:
    """Copy spans, without white space around them, to cells of one width, which are zero."""
    for row in range(spans.shape[0]):
        start, stop = spans[row, 0], spans[row, 1]
        while start < stop and (text[start] == _SPACE or _TAB <= text[start] <= _RETURN):
            start += 1
        while start < stop and (text[stop - 1] == _SPACE or _TAB <= text[stop - 1] <= _RETURN):
            stop -= 1
        for at in range(stop - start):
            cells[row, at] = text[start + at]
