"""Numbers of documents, such as a price or a date: how they are written, and tables of them.

A number is a JSON number, true or false (1 or 0), or text: decimal, or an ISO date or time, which counts in days since
1970-01-01, UTC. Nothing, null, an empty text and those that are missing everywhere (``NA``, ``null``, …) are NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.errors import InputError, shown
from rankwright.io.files import open_file
from rankwright.io.roles import MISSING, ROLES, accepted, find
from rankwright.io.tables import Table, open_table
from rankwright.text.reading.records import as_id

NumberRow = tuple[str, dict[str, Any], int]
"""Document id, values by name, and line."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are in single precision."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].+)?")
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
_EXPECTED = "expected a number, or a date such as 2024-05-31"
_RESERVED = ",()[]"


def as_number(value: Any) -> float:
    """A number in any of the forms above.

    Raises `InputError`: with a message that starts with "is", for whatever the number belongs to.

    Examples
    --------
    >>> as_number("12.50"), as_number("1970-01-03"), as_number(True), as_number("")
    (12.5, 2.0, 1.0, nan)
    """
    number = _from_text(value.strip()) if isinstance(value, str) else _from_object(value)
    if number is None:
        raise InputError(f"is {shown(value)}; {_EXPECTED}")
    if abs(number) > LARGEST:  # not if it is NaN
        raise InputError(f"is {shown(value)}, which is not finite in single precision; expected a finite number")
    return number


def _from_text(text: str) -> float | None:
    if _DECIMAL.fullmatch(text):
        return float(text)
    if text.lower() in MISSING:
        return math.nan
    if not _DATE.fullmatch(text):
        return None
    try:
        return _days(datetime.fromisoformat(text))
    except ValueError:
        return None


def _from_object(value: Any) -> float | None:
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float | Decimal | np.bool_ | np.integer | np.floating):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, datetime):
        return _days(value)
    if isinstance(value, date):
        return _days(datetime.combine(value, time()))
    return None


def _days(moment: datetime) -> float:
    """Days since 1970; a time without a zone is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) / _DAY


def checked_number_names(names: Sequence[str], fields: Iterable[str] = ()) -> list[str]:
    """The names of numbers, if they are valid and different from text fields and from each other."""
    given = [names] if isinstance(names, str) else list(names)
    for name in given:
        if not isinstance(name, str) or not name.isprintable() or name != name.strip() or set(name) & set(_RESERVED):
            raise InputError(f"bad number name {name!r}; expected a printable name without commas and brackets")
        if not name or name in ROLES["id"]:
            raise InputError(f"a number cannot be called {name!r}; expected another name")
        if given.count(name) > 1:
            raise InputError(f"duplicate number {name!r}")
    both = [name for name in given if name in set(fields)]
    if both:
        raise InputError(f"{both[0]!r} is both a text field and a number; expected different names")
    return given


def read_number_table(path: str | Path) -> Iterator[NumberRow]:
    """Read a table of documents: CSV or tab-separated with a header line, JSON or Parquet; plain or gzip.

    The column ``id``, or another with an accepted name, names the documents; of text, otherwise the first one. The
    others hold numbers.

    Yields `id`: a document, each once. Yields `values`: its values by name, as they are written. Yields `line`: the
    line, or the row.
    """
    path = Path(path)
    lines: dict[str, int] = {}
    if path.is_dir():
        raise InputError("is a folder; expected a table of documents: CSV, tab-separated, JSON or Parquet", path)
    with open_file(path) as file:  # once: it may be a pipe
        for doc_id, values, line in _rows(open_table(file)):
            if doc_id in lines:
                raise InputError(f"duplicate document {shown(doc_id)} (first on line {lines[doc_id]})", path, line)
            lines[doc_id] = line
            yield doc_id, values, line
    if not lines:
        raise InputError("has no rows; expected documents and their numbers", path)


def _rows(table: Table) -> Iterator[NumberRow]:
    names = table.names
    if table.delimiter and (len(names) < 2 or not all(names) or any(map(_DECIMAL.fullmatch, names))):
        what = "id, then a unique name for each column of numbers, separated by commas or tabs"
        raise InputError(f"expected a header line: {what}", table.path, 1)
    if table.delimiter:
        at = names.index(find(names, "id") or names[0])
        for line, cells in table.full_rows():
            yield (
                cells[at].strip(),
                {name: cell for name, cell in zip(names, cells, strict=True) if name != names[at]},
                line,
            )
        return
    key_of: dict[tuple[str, ...], str | None] = {}
    for line, values in table.named():
        known = tuple(values)
        if known not in key_of:
            key_of[known] = find(known, "id")
        key = key_of[known]
        try:
            if key is None:
                raise InputError(f"document without an id; expected one of {accepted('id')}")
            doc_id = as_id(values[key]).strip()
        except InputError as error:
            raise InputError(error.message, table.path, line) from None
        yield doc_id, {name: value for name, value in values.items() if name != key}, line
