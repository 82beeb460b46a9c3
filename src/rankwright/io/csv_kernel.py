"""The byte parser behind :func:`rankwright.io.features.read_csv` for large files.

A chunk ends with a newline, and no loop runs past one but inside quotation marks, where the size is checked. Whatever
is not plain (a row with another number of cells, text after a quotation mark) stops the parser: the reader of rows in
Python reads the file then, and says what is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Array
from rankwright.caching import INNER
from rankwright.io.letor_kernel import decimal

Position = Any  # np.uint64 within the kernels

NUMBER, SPAN, SKIP = range(3)
"""What is kept of a column: its numbers, where its cells are, nothing."""

OK, UNUSUAL = range(2)
_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE = 9, 10, 13, 32, 34
_ONE = np.uint64(1)


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
    most: int,
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
    while at < size and row < most:
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
