"""Numbers of documents, such as a price or a date: how they are written, tables of them, and the numbers of an index.

A number is a JSON number, true or false (1 or 0), or text: decimal, or an ISO date or time, which counts in days since
1970-01-01, UTC. Nothing, null, an empty text and those that are missing everywhere (``NA``, ``null``, …) are NaN.
"""

from __future__ import annotations

import math
import re
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.container import Container, write_folder
from rankwright.io.files import open_file
from rankwright.io.frames import columns_of, is_frame
from rankwright.io.roles import MISSING, accepted, find
from rankwright.io.tables import Table, open_table
from rankwright.io.values import days_in, days_of
from rankwright.text.contents import INDEX, checked_number_names, header_of_numbers
from rankwright.text.documents import as_id

NumberRow = tuple[str, dict[str, Any], int | None]
"""Document id, values by name, and line."""

LARGEST = float(np.finfo(np.float32).max)
"""Features are in single precision."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_REMEMBERED = 1 << 10  # sets of names
_EXPECTED = "expected a number, or a date such as 2024-05-31"


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
    return days_in(text)


def _from_object(value: float | None) -> float | None:
    if value is None:
        return math.nan
    if isinstance(value, bool | int | float | Decimal | np.bool_ | np.integer | np.floating):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, datetime):
        return days_of(value)
    if isinstance(value, date):
        return days_of(datetime.combine(value, time()))
    return None


def read_number_table(path: str | Path) -> Iterator[NumberRow]:
    """Read a table of documents: CSV or tab-separated with a header line, JSON or Parquet; plain or gzip.

    The column ``id``, or another with an accepted name, names the documents, each once; of text, otherwise the first
    one. The others hold numbers.
    """
    path = Path(path)
    lines: dict[str, int | None] = {}
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
    names, rows = table.names, table.named()
    if table.delimiter:
        if len(names) < 2 or not all(names) or any(map(_DECIMAL.fullmatch, names)):
            header = "id, then a unique name for each column of numbers, separated by commas or tabs"
            raise InputError(f"expected a header line: {header}", table.path, 1)
        rows = ((line, dict(zip(names, cells, strict=True))) for line, cells in table.full_rows())
    key_of = lru_cache(_REMEMBERED)(lambda keys: find(keys, "id") or (names[0] if table.delimiter else None))
    for line, values in rows:
        key = key_of(tuple(values))
        try:
            if key is None:
                raise InputError(f"document without an id; expected one of {accepted('id')}")
            doc_id = as_id(values[key]).strip()
        except InputError as error:
            raise InputError(error.message, table.path, line) from None
        yield doc_id, {name: value for name, value in values.items() if name != key}, line


# Numbers of an index: gathered while documents are read, or given for documents that are in it

NumberOf = Callable[[str], int | None]
"""Gives the number of a document of an index by its id; None if it is not there."""

GivenNumbers = str | Path | Mapping[str, Any] | Any
"""A table (a path, or a data frame with a column ``id``), or by name one number per document, in the order of the
index, or ``{id: number}``."""

_OF_THE_FILE = ("format", "version", "rankwright", "arrays", "numbers")  # in a header, written anew
_EXPECTED_NUMBERS = "expected a path, a data frame with a column id, or a mapping of names to numbers"


class NumberGatherer:
    """Takes the numbers called ``names`` out of documents, one after the other."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._old: list[Array] = []
        self._values = array("d")

    def resume(self, numbers: Mapping[str, Array]) -> None:
        """Start with the documents of an index, and take the numbers that it has."""
        self.names = list(numbers)
        self._old = list(numbers.values())

    def take(self, doc_id: str, fields: Mapping[str, Any], path: Path | None, line: int | None) -> dict[str, str]:
        """Keep the numbers of a document; the fields that are left are text."""
        for name in self.names:
            try:
                self._values.append(as_number(fields.get(name)))
            except InputError as error:
                raise InputError(_problem_of(name, doc_id, error), path, line) from None
        return {name: text for name, text in fields.items() if name not in self.names}

    def rows(self) -> Array:
        """The numbers, names × documents; a name that no document has is most likely a wrong one."""
        new = np.frombuffer(self._values, np.float64).reshape(-1, len(self.names)).T
        if self._old:
            return np.concatenate([np.array(self._old), new], axis=1)
        missing = [name for name, row in zip(self.names, new, strict=True) if np.isnan(row).all()]
        if missing:
            problem = f"no document has a number in {', '.join(missing)}"
            if len(missing) == len(self.names):
                raise InputError(f"{problem}; expected the names of numbers in the documents")
            warnings.warn(problem, InputWarning, stacklevel=5)
        return np.ascontiguousarray(new)


@dataclass
class Located:
    """Numbers whose documents have been found in an index.

    `columns`: by name, document numbers and the numbers that they get. `unknown`: documents that are not in the index.
    `is_foreign`: whether none of those given is in the index.
    """

    columns: dict[str, tuple[Array, Array]]
    unknown: dict[str, None]
    is_foreign: bool

    def over(self, old: Mapping[str, Array], n_docs: int) -> dict[str, Array]:
        """The old numbers with these in their place; documents that have neither are NaN."""
        made = dict(old)
        for name, (docs, values) in self.columns.items():
            made[name] = np.array(old[name], np.float64) if name in old else np.full(n_docs, np.nan)
            made[name][docs] = values
        return made


def located(given: Any, number_of: NumberOf, n_docs: int, fields: Sequence[str]) -> Located:
    """Find the documents of :data:`GivenNumbers`, which cannot be called like one of the text ``fields``."""
    if isinstance(given, str | Path):
        made = located_table(Path(given), number_of)
    elif is_frame(given):
        made = _of_frame(given, number_of)
    elif isinstance(given, Mapping):
        made = _of_mapping(given, number_of, n_docs)
    else:
        raise InputError(f"the numbers are of the type {type(given).__name__}; {_EXPECTED_NUMBERS}")
    path = given if isinstance(given, str | Path) else None
    try:
        if not made.columns:
            raise InputError("no numbers; expected at least one name")
        checked_number_names(list(made.columns), fields)
        if made.is_foreign:
            first = shown(next(iter(made.unknown)))
            raise InputError(f"none of the documents, such as {first}, is in the index; expected the same ids in both")
    except InputError as error:
        raise InputError(error.message, path) from None
    return made


def write_numbers(path: Path, current: Callable[[], Container], numbers: Mapping[str, Array]) -> None:
    """Give an index other numbers: a new folder with the files of the old one takes its place in one step.

    The current index is asked for when nobody else can change it any more.
    """
    # The other files are hard links to the old ones, and exchanging the folders is the step that replaces any index: a
    # reader never sees half of it, an open index stays what it was, and a killed run leaves nothing.
    with write_folder(path, INDEX) as folder:
        old = current()
        for name in old.names:
            if name != "numbers":
                folder.link(name, old)
        folder.save("numbers", np.array(list(numbers.values()), np.float64))
        facts = {key: value for key, value in old.header.items() if key not in _OF_THE_FILE}
        folder.finish({**header_of_numbers(numbers), **facts})


def located_table(path: Path, number_of: NumberOf) -> Located:
    return _of_rows(read_number_table(path), number_of, path)


def _of_rows(
    rows: Iterable[NumberRow], number_of: NumberOf, path: Path | None = None, names: Iterable[str] = ()
) -> Located:
    """Find the documents of rows; ``names`` are columns even if no row has them."""
    by_name = {name: (array("q"), array("d")) for name in names}
    unknown: dict[str, None] = {}
    n_known = 0
    for doc_id, values, line in rows:
        doc = number_of(doc_id)
        if doc is None:
            unknown[doc_id] = None
        n_known += doc is not None
        for name, value in values.items():
            docs, numbers = by_name.setdefault(name, (array("q"), array("d")))
            try:
                number = as_number(value)
            except InputError as error:
                raise InputError(_problem_of(name, doc_id, error), path, line) from None
            if doc is not None:
                docs.append(doc)
                numbers.append(number)
    columns = {name: (np.array(docs, np.int64), np.array(numbers)) for name, (docs, numbers) in by_name.items()}
    return Located(columns, unknown, bool(unknown) and not n_known)


def _of_frame(frame: Any, number_of: NumberOf) -> Located:
    columns = columns_of(frame)
    key = find(columns.names, "id")
    if key is None:
        raise InputError(f"the data frame has no column id; expected one of {accepted('id')}")
    without = columns.missing(key)
    if without.any():
        raise InputError(f"the column {key!r} has no value in row {int(np.argmax(without))} (from 0)")
    ids = [str(doc_id) for doc_id in columns.values(key).tolist()]
    twice, times = Counter(ids).most_common(1)[0] if ids else ("", 0)
    if times > 1:
        raise InputError(f"duplicate document {shown(twice)} in the data frame; expected each once")
    docs = [number_of(doc_id) for doc_id in ids]
    is_known = np.array([doc is not None for doc in docs], bool)
    unknown = dict.fromkeys(doc_id for doc_id, doc in zip(ids, docs, strict=True) if doc is None)
    places = np.array([doc for doc in docs if doc is not None], np.int64)
    made: dict[str, tuple[Array, Array]] = {}
    for name in columns.names:
        if name != key:
            missing = columns.missing(name)
            present = ~missing if missing.any() else np.ones(len(ids), bool)
            values = np.full(len(ids), np.nan)
            values[present] = _as_numbers(columns.values(name)[present], name)
            made[name] = places, values[is_known]
    return Located(made, unknown, bool(unknown) and not len(places))


def _of_mapping(given: Mapping[str, Any], number_of: NumberOf, n_docs: int) -> Located:
    by_doc = {name: numbers for name, numbers in given.items() if isinstance(numbers, Mapping)}
    columns: dict[str, tuple[Array, Array]] = {}
    for name, numbers in given.items():
        if name not in by_doc:
            values = _as_numbers(numbers, name)
            if values.shape != (n_docs,):
                problem = f"the numbers {name!r} have the shape {values.shape}"
                raise InputError(f"{problem}; expected one for each of the {n_docs:,} documents of the index")
            columns[name] = np.arange(n_docs), values
    rows = ((str(doc_id), {name: value}, None) for name, numbers in by_doc.items() for doc_id, value in numbers.items())
    made = _of_rows(rows, number_of, names=by_doc)
    made.columns = columns | made.columns
    return made


def _as_numbers(values: Any, name: str) -> Array:
    """A column of numbers, dates or text as float64."""
    try:
        column = np.asarray(values)
    except ValueError:
        raise InputError(f"the numbers {name!r} are not a list; {_EXPECTED_NUMBERS}") from None
    if column.dtype.kind == "M":
        return (column - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        wrong = np.flatnonzero(np.abs(numbers.ravel()) > LARGEST)
        if len(wrong):
            problem = f"the numbers {name!r} contain {numbers.ravel()[wrong[0]]:g}"
            raise InputError(f"{problem}, which is not finite in single precision; expected finite numbers")
        return numbers
    try:
        return np.array([as_number(value) for value in column.ravel().tolist()], np.float64).reshape(column.shape)
    except InputError as error:
        raise InputError(f"a number {name!r} {error.message}") from None


def _problem_of(name: str, doc_id: str, error: InputError) -> str:
    return f"the number {name!r} of document {shown(doc_id)} {error.message}"
