"""Numbers of documents in an index: gathered while documents are read, or given for documents that are there."""

from __future__ import annotations

import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.container import Container, write_folder
from rankwright.io.frames import columns_of, is_frame
from rankwright.io.roles import accepted
from rankwright.io.roles import find as find_column
from rankwright.text.index.contents import INDEX, header_of_numbers
from rankwright.text.reading.numbers import LARGEST, as_number, checked_number_names, read_number_table

GivenNumbers = str | Path | Mapping[str, Any] | Any
"""A table (a path, or a data frame with a column ``id``), or by name one number per document, in the order of the
index, or ``{id: number}``."""

_OF_THE_FILE = ("format", "version", "rankwright", "arrays", "numbers")  # in a header, written anew
_EXPECTED = "expected a path, a data frame with a column id, or a mapping of names to numbers"


class NumberGatherer:
    """Takes the numbers out of documents, one after the other.

    `names`: the numbers to take.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._old: list[Array] = []
        self._values = array("d")

    def resume(self, numbers: Mapping[str, Array]) -> None:
        """Start with the documents of an index, and take the numbers that it has."""
        self.names = list(numbers)
        self._old = list(numbers.values())

    def take(self, doc_id: str, fields: Mapping[str, Any], path: Path | None, line: int | None) -> dict[str, str]:
        """Note the numbers of a document; the fields that are left are text."""
        for name in self.names:
            try:
                self._values.append(as_number(fields.get(name)))
            except InputError as error:
                raise InputError(_told(name, doc_id, error), path, line) from None
        return {name: text for name, text in fields.items() if name not in self.names}

    def rows(self) -> Array:
        """The numbers, names × documents; a name that no document has is most likely a wrong one."""
        new = np.frombuffer(self._values, np.float64).reshape(-1, len(self.names)).T
        if self._old:
            return np.concatenate([np.array(self._old), new], axis=1)
        missing = [name for name, row in zip(self.names, new, strict=True) if np.isnan(row).all()]
        if missing:
            what = f"no document has a number in {', '.join(missing)}"
            if len(missing) == len(self.names):
                raise InputError(f"{what}; expected the names of numbers in the documents")
            warnings.warn(what, InputWarning, stacklevel=5)
        return np.ascontiguousarray(new)


@dataclass
class Located:
    """Numbers whose documents have been found in an index.

    `columns`: by name, document numbers and the numbers that they get. `n_known`: number of documents among those given
    that are in the index. `unknown`: documents that are not in the index.
    """

    columns: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    n_known: int = 0
    unknown: dict[str, None] = field(default_factory=dict)

    def over(self, old: Mapping[str, Array], n_docs: int) -> dict[str, Array]:
        """The old numbers with these in their place; documents that have neither are NaN."""
        made = dict(old)
        for name, (docs, values) in self.columns.items():
            made[name] = np.array(old[name], np.float64) if name in old else np.full(n_docs, np.nan)
            made[name][docs] = values
        return made


def located(given: Any, find: Callable[[str], int | None], n_docs: int, fields: Sequence[str]) -> Located:
    """Find the documents of numbers.

    `given`: see :data:`GivenNumbers`. `find`: the number of a document by id, or None. `n_docs`: number of documents of
    the index. `fields`: its text fields, whose names numbers cannot have.
    """
    if isinstance(given, str | Path):
        made = _of_table(Path(given), find)
    elif is_frame(given):
        made = _of_frame(given, find)
    elif isinstance(given, Mapping):
        made = _of_mapping(given, find, n_docs)
    else:
        raise InputError(f"the numbers are of the type {type(given).__name__}; {_EXPECTED}")
    path = given if isinstance(given, str | Path) else None
    try:
        if not made.columns:
            raise InputError("no numbers; expected at least one name")
        checked_number_names(list(made.columns), fields)
        if made.unknown and not made.n_known:
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


def _of_table(path: Path, find: Callable[[str], int | None]) -> Located:
    made, found = Located(), _Gathered()
    for doc_id, values, line in read_number_table(path):
        doc = find(doc_id)
        if doc is None:
            made.unknown[doc_id] = None
        made.n_known += doc is not None
        for name, value in values.items():
            try:
                found.add(name, doc, as_number(value))
            except InputError as error:
                raise InputError(_told(name, doc_id, error), path, line) from None
    made.columns = found.columns()
    return made


class _Gathered:
    """Numbers by name, one after the other; those of documents that do not exist are left out."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, name: str, doc: int | None, number: float) -> None:
        docs, values = self._parts.setdefault(name, (array("q"), array("d")))
        if doc is not None:
            docs.append(doc)
            values.append(number)

    def columns(self) -> dict[str, tuple[Array, Array]]:
        return {name: (np.array(docs, np.int64), np.array(values)) for name, (docs, values) in self._parts.items()}


def _of_frame(frame: Any, find: Callable[[str], int | None]) -> Located:
    columns = columns_of(frame)
    key = find_column(columns.names, "id")
    if key is None:
        raise InputError(f"the data frame has no column id; expected one of {accepted('id')}")
    without = columns.missing(key)
    if without.any():
        raise InputError(f"the column {key!r} has no value in row {int(np.argmax(without))} (from 0)")
    ids = [str(doc_id) for doc_id in columns.values(key).tolist()]
    twice, times = Counter(ids).most_common(1)[0] if ids else ("", 0)
    if times > 1:
        raise InputError(f"duplicate document {shown(twice)} in the data frame; expected each once")
    docs = [find(doc_id) for doc_id in ids]
    known = np.array([doc is not None for doc in docs], bool)
    made = Located(n_known=int(known.sum()))
    made.unknown = dict.fromkeys(doc_id for doc_id, doc in zip(ids, docs, strict=True) if doc is None)
    places = np.array([doc for doc in docs if doc is not None], np.int64)
    for name in columns.names:
        if name != key:
            missing = columns.missing(name)
            present = ~missing if missing.any() else np.ones(len(ids), bool)
            values = np.full(len(ids), np.nan)
            values[present] = _as_numbers(columns.values(name)[present], name)
            made.columns[name] = places, values[known]
    return made


def _of_mapping(given: Mapping[str, Any], find: Callable[[str], int | None], n_docs: int) -> Located:
    made, known = Located(), set()
    found = _Gathered()
    for name, numbers in given.items():
        if not isinstance(numbers, Mapping):
            values = _as_numbers(numbers, name)
            if values.shape != (n_docs,):
                what = f"the numbers {name!r} have the shape {values.shape}"
                raise InputError(f"{what}; expected one for each of the {n_docs:,} documents of the index")
            made.columns[name] = np.arange(n_docs), values
            continue
        found.add(name, None, np.nan)
        for doc_id, value in numbers.items():
            doc = find(str(doc_id))
            try:
                found.add(name, doc, as_number(value))
            except InputError as error:
                raise InputError(_told(name, str(doc_id), error)) from None
            if doc is None:
                made.unknown[str(doc_id)] = None
            known.add(doc)
    made.columns |= found.columns()
    made.n_known = len(known - {None})
    return made


def _as_numbers(values: Any, name: str) -> Array:
    """A column of numbers, dates or text as float64."""
    try:
        column = np.asarray(values)
    except ValueError:
        raise InputError(f"the numbers {name!r} are not a list; {_EXPECTED}") from None
    if column.dtype.kind == "M":
        return (column - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        wrong = np.flatnonzero(np.abs(numbers.ravel()) > LARGEST)
        if len(wrong):
            what = f"the numbers {name!r} contain {numbers.ravel()[wrong[0]]:g}"
            raise InputError(f"{what}, which is not finite in single precision; expected finite numbers")
        return numbers
    try:
        return np.array([as_number(value) for value in column.ravel().tolist()], np.float64).reshape(column.shape)
    except InputError as error:
        raise InputError(f"a number {name!r} {error.message}") from None


def _told(name: str, doc_id: str, error: InputError) -> str:
    return f"the number {name!r} of document {shown(doc_id)} {error.message}"
