"""Numbers of documents, such as a price or a date: how they are written, and tables of them.

A number is a JSON number, true or false (1 or 0), or text: decimal, or an ISO date or time, which counts in days since
1970-01-01, UTC. Nothing, null, and the texts ``nan``, ``NA`` and ``null`` are a missing number, NaN.
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

from rankwright.data.delimited import BOM, open_table
from rankwright.data.files import OpenFile, open_file
from rankwright.errors import InputError, shown
from rankwright.text.reading.documents import json_objects
from rankwright.text.reading.records import ID_KEYS, Tally, id_in

__all__ = ["LARGEST", "NumberRow", "as_number", "checked_number_names", "read_number_table"]

NumberRow = tuple[str, dict[str, Any], int]
"""Document id, values by name, and line."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are in single precision."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].+)?")
_MISSING = ("", "nan", "na", "null")
_EPOCH, _DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
_EXPECTED = "expected a number, or a date such as 2024-05-31"
_RESERVED = ",()[]"
_SUFFIXES = (".jsonl", ".ndjson", ".json")


def as_number(value: Any) -> float:
    """A number in any of the forms above.

    Raises
    ------
    InputError
        With a message that starts with "is", for whatever the number belongs to.

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
    if text.lower() in _MISSING:
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
        if not name or name in ID_KEYS:
            raise InputError(f"a number cannot be called {name!r}; expected another name")
        if given.count(name) > 1:
            raise InputError(f"duplicate number {name!r}")
    both = [name for name in given if name in set(fields)]
    if both:
        raise InputError(f"{both[0]!r} is both a text field and a number; expected different names")
    return given


def read_number_table(path: str | Path) -> Iterator[NumberRow]:
    """Read a table of documents: CSV or tab-separated with a header line, or JSON lines; plain or gzip.

    The column ``id`` (or ``_id``, ``docno``; otherwise the first one) names the documents, the others hold numbers.

    Yields
    ------
    id : str
        A document, each once.
    values : dict
        Its values by name, as they are written.
    line : int
        The line.
    """
    path = Path(path)
    lines: dict[str, int] = {}
    if path.is_dir():
        raise InputError("is a folder; expected a table of documents: CSV, tab-separated or JSON lines", path)
    with open_file(path) as file:  # once: it may be a pipe
        read, tally = _json_rows if _is_json(file, path) else _rows, Tally(path, "strict")
        for doc_id, values, line in read(file, tally):
            if doc_id in lines:
                raise InputError(f"duplicate document {shown(doc_id)} (first on line {lines[doc_id]})", path, line)
            lines[doc_id] = line
            yield doc_id, values, line
    if not lines:
        raise InputError("has no rows; expected documents and their numbers", path)


def _is_json(file: OpenFile, path: Path) -> bool:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() in _SUFFIXES:
        return True
    return next(file.chunks(), b"").removeprefix(BOM.encode()).lstrip().startswith(b"{")


def _json_rows(file: OpenFile, tally: Tally) -> Iterator[NumberRow]:
    for found, number, _ in json_objects(file, tally, None):
        try:
            key, doc_id = id_in(found)
        except InputError as error:
            raise InputError(error.message, tally.path, number) from None
        yield doc_id, {str(name): value for name, value in found.items() if name != key}, number


def _rows(file: OpenFile, tally: Tally) -> Iterator[NumberRow]:
    table = open_table(tally.lines(file, None), tally.path)
    names = table.names
    if len(names) < 2 or not all(names) or any(map(_DECIMAL.fullmatch, names)):
        what = "id, then a unique name for each column of numbers, separated by commas or tabs"
        raise InputError(f"expected a header line: {what}", tally.path, 1)
    at = next((place for place, name in enumerate(names) if name.lower() in ID_KEYS), 0)
    for line, cells in table.full_rows():
        values = {name: cell for name, cell in zip(names, cells, strict=True) if name != names[at]}
        yield cells[at].strip(), values, line
