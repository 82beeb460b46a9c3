"""Columns of a table in text while it is read: ids, and numbers or texts.

A column whose cells are all numbers holds numbers, and one of texts categories; empty cells are missing. A column that
mixes both is refused: a stray word would turn every number of it into a category.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import NO_CATEGORY, category_numbers
from rankwright.data.columns import MAX_FIELD
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["MISSING", "IdColumn", "ValueColumn"]

Array = npt.NDArray[Any]
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Cells without a value, in lower case."""

_MANY = 50  # rows from which on a column of different texts is told
_TRUTH = {"true": 1.0, "false": 0.0}
_AMOUNT = re.compile(r"[+-]?\s?[$€£¥]?\s?[0-9][0-9.,' ]*\s?[%$€£¥]?")


class IdColumn:
    """A column of ids, which must all be there."""

    def __init__(self, name: str, path: str | Path) -> None:
        self._name, self._path = name, path
        self.parts: list[Array] = []

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add cells, with their lines."""
        ids = [cell.strip() for cell in cells]
        if not all(ids):
            line = lines[ids.index("")]
            raise InputError(f"the column {self._name!r} is empty; expected an id in every row", self._path, line)
        longest = max(ids, key=len)
        if len(longest) > MAX_FIELD:
            what = f"the column {self._name!r} has an id of {len(longest):,} characters; expected at most {MAX_FIELD}"
            raise InputError(what, self._path, lines[ids.index(longest)])
        self.parts.append(np.array(ids))

    def add_array(self, ids: Array) -> None:
        """Add ids without white space around them."""
        if (ids == "").any() or int(np.char.str_len(ids).max()) > MAX_FIELD:
            raise InputError(f"the column {self._name!r} has an empty id, or a long one", self._path)
        self.parts.append(ids)

    def finish(self) -> Array:
        """The ids of all rows."""
        return np.concatenate(self.parts)


class ValueColumn:
    """A column of numbers or of texts; which of them, its cells tell."""

    def __init__(self, name: str, path: str | Path, is_text: bool = False) -> None:
        self.name, self._path = name, path
        self.is_text = is_text
        self._forced = is_text
        self._first_number: tuple[int, str] | None = None
        self._parts: list[Array] = []
        self._lines: list[Sequence[int]] = []  # of each part
        self._texts: dict[str, int] = {}
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
        known = self._texts
        self._parts.append(
            np.array([known[cell] if cell in known else self._value(cell.strip(), 0) for cell in cells], np.float64)
        )

    def _value(self, cell: str, line: int) -> float:
        """A number, or −1 − the place of a text among all; NaN is missing."""
        if cell.lower() in MISSING:
            return math.nan
        number = None if self._forced else _number(cell)
        if number is None:
            if not self.is_text and self._first_number is not None:
                raise self._mixed(cell, line, *self._first_number)
            if not self._forced and _AMOUNT.fullmatch(cell):
                what = f"{self.name} is {shown(cell)}; expected a plain number with a decimal point"
                raise InputError(f"{what}, no commas and no signs", self._path, line)
            self.is_text = True
            return float(self._texts.setdefault(cell, len(self._texts)))
        if not math.isfinite(number):
            raise InputError(f"{self.name} is {shown(cell)}; expected a finite number", self._path, line)
        if self.is_text:
            raise self._mixed(cell, line, 0, next(iter(self._texts)))
        self._first_number = self._first_number or (line, cell)
        return number

    def _mixed(self, cell: str, line: int, first_line: int, first: str) -> InputError:
        where = f" on line {first_line:,}" if first_line else ""
        what = f"{self.name} is {shown(cell)}, and {shown(first)}{where}"
        expected = "expected only numbers (an empty cell is missing) or only texts"
        return InputError(
            f"{what}; {expected}; --columns categorical={self.name} takes both as texts", self._path, line
        )

    def labels(self, negative: str) -> Array:
        """The column as labels, which must all be there."""
        if self.is_text:
            first = shown(next(iter(self._texts)))
            raise InputError(f"{self.name} is {first}; expected labels that are numbers, such as 0 to 4", self._path)
        labels = np.concatenate(self._parts)
        remedy = '(--negative-as-zero or negative="zero" reads it as 0)'
        for is_wrong, what in (
            (np.isnan(labels), "is missing; expected a label in every row"),
            ((labels < 0) & (negative == "error"), f"is negative; expected a number of at least 0 {remedy}"),
        ):
            if is_wrong.any():
                raise InputError(f"{self.name} {what}", self._path, self._line_of(int(np.argmax(is_wrong))))
        return np.maximum(labels, 0)

    def _line_of(self, row: int) -> int:
        for lines in self._lines:
            if row < len(lines):
                return lines[row]
            row -= len(lines)
        return 0  # lines are not counted where the file will be read again

    def finish(self, dtype: np.dtype[Any]) -> tuple[Array, tuple[Any, ...] | None]:
        """The values, and the categories of a column of texts."""
        values = self.take(dtype)
        self.warn(len(values))
        return values, tuple(self._texts) if self.is_text else None

    def take(self, dtype: np.dtype[Any]) -> Array:
        """The values of the cells since the last call, as numbers; the cells are then forgotten."""
        values = np.concatenate(self._parts)
        if self.is_text:
            new = list(self._texts)[len(self._numbers) :]
            self._numbers += category_numbers(new, f"the column {self.name!r}")[1].tolist()
            codes = np.where(np.isnan(values), len(self._numbers), values).astype(np.int64)
            taken = np.append(self._numbers, NO_CATEGORY)[codes]
        else:
            with np.errstate(over="ignore"):
                taken = values.astype(dtype)
            if np.isinf(taken).any():
                row = int(np.argmax(np.isinf(taken)))
                what = f"{self.name} is {values[row]:g}; expected a number that fits {dtype}"
                raise InputError(what, self._path, self._line_of(row))
        self._parts, self._lines = [], []
        return taken

    @property
    def texts(self) -> Sequence[str]:
        """The different texts so far."""
        return tuple(self._texts)

    def warn(self, n_rows: int) -> None:
        """Say that a column of texts is probably none of categories."""
        if self.is_text and len(self._texts) == n_rows >= _MANY:
            what = f"the column {self.name!r} has another text in every row and became categories"
            warnings.warn(f"{self._path}: {what}; --columns skip={self.name} leaves it out", InputWarning, stacklevel=2)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return _TRUTH.get(cell.lower())
