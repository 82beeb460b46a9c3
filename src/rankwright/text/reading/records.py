"""What all document readers share: the record, its id, its fields, and the tally of what had to be replaced."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.columns import MAX_FIELD
from rankwright.io.files import OpenFile, Progress, Source, line_chunks
from rankwright.io.roles import Columns, accepted, find, listed, named_in
from rankwright.io.tables import BOM

Errors = Literal["strict", "replace"]
Record = tuple[str, dict[str, Any], Path | None, int | None]
"""Id, fields, file and line; fields are text, those asked for as numbers anything."""

_BAD_BYTES = re.compile("[\udc80-\udcff]+")  # what Python's decoder leaves for bytes that are not UTF-8
_HALF_PAIRS = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_RENAMED = ("title", "text")  # roles that give a column another name
_REMEMBERED = 1 << 10  # sets of names


def check_id(doc_id: str, path: Path | None = None, line: int | None = None) -> None:
    """Refuse ids that cannot be written to a TREC file."""
    if len(doc_id) > MAX_FIELD:
        raise InputError(f"a document id of {len(doc_id):,} characters; expected at most {MAX_FIELD}", path, line)
    if doc_id.split() != [doc_id]:
        if not doc_id:
            raise InputError("empty document id; expected a word", path, line)
        raise InputError(
            f"the document id {shown(doc_id)} contains whitespace; expected one word (for TREC files)", path, line
        )


class Tally:
    """What is reported once everything is read: replaced bytes, and keys that are not text."""

    def __init__(
        self, path: Path, errors: Errors, wanted: Sequence[str] | None = None, numbers: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.numbers = frozenset(numbers)
        self._replace = errors == "replace"
        self._wanted = wanted
        self._replaced = 0
        self._keys: dict[str, None] = {}

    def chunks(self, source: Source, progress: Progress | None) -> Iterator[tuple[str, int, bool]]:
        """The text of a file in pieces of whole lines, the number of the first line, and whether bytes are invalid."""
        path = source.path if isinstance(source, OpenFile) else source
        line = 1
        for chunk in line_chunks(source, progress):
            try:
                text, is_bad = chunk.decode(), False
            except UnicodeDecodeError as error:
                if not self._replace:
                    where = line + chunk.count(b"\n", 0, error.start)
                    what = f"the byte 0x{chunk[error.start]:02x} is not valid UTF-8"
                    raise InputError(f"{what}; expected UTF-8, or errors='replace'", path, where) from None
                text, is_bad = chunk.decode(errors="surrogateescape"), True
            if line == 1:
                text = text.removeprefix(BOM)
            yield text, line, is_bad
            line += chunk.count(b"\n")

    def lines(self, source: Source, progress: Progress | None) -> Iterator[tuple[int, str]]:
        """The lines of a file, blank ones too, with their numbers."""
        for text, first, is_bad in self.chunks(source, progress):
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            for number, line in enumerate(lines, first):
                yield number, self.clean(line) if is_bad else line

    def clean(self, text: str) -> str:
        """The text of a document with invalid bytes replaced; the document is counted."""
        cleaned, n = _BAD_BYTES.subn(_REPLACEMENT, text)
        self._replaced += n > 0
        return cleaned

    def whole_pairs(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        """Values without lone surrogates, which JSON can encode and UTF-8 cannot."""
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if not any(map(_HALF_PAIRS.search, texts.values())):
            return values
        if not self._replace:
            what = "a lone surrogate, such as \\ud800, which is not a character"
            raise InputError(f"{what}; expected text, or errors='replace'", self.path, line)
        self._replaced += 1
        return values | {name: _HALF_PAIRS.sub(_REPLACEMENT, text) for name, text in texts.items()}

    def note_key(self, key: str) -> None:
        """Remember a key whose value is not text."""
        if self._wanted is None or key in self._wanted:
            self._keys[key] = None

    def tell(self) -> None:
        """Warn about everything noted."""
        if self._keys:
            names = ", ".join(self._keys)
            warnings.warn(f"{self.path}: ignored keys that are not text: {names}", InputWarning, stacklevel=3)
        if self._replaced:
            documents = "document" if self._replaced == 1 else "documents"
            what = f"replaced bytes that are not UTF-8 in {self._replaced:,} {documents}"
            warnings.warn(f"{self.path}: {what}", InputWarning, stacklevel=3)


class Fields:
    """Takes documents from values by name: the id, and the fields; numbers that are asked for come as they are.

    What names are taken for is remembered, as most rows have the same ones.

    `tally`: what is reported at the end. `columns`: columns by role, as the user names them.
    """

    def __init__(self, tally: Tally, columns: Columns | None = None) -> None:
        self._tally, self._columns = tally, columns or {}
        self._known: dict[tuple[str, ...], tuple[str, list[tuple[str, str]]]] = {}

    def __call__(self, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The id and the fields of a document."""
        names = tuple(values)
        if names not in self._known:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            self._known[names] = self._found(names)
        return self._taken(*self._known[names], values)

    def of_cells(
        self, names: Sequence[str], *, all_text: bool
    ) -> Callable[[Sequence[Any]], tuple[str, dict[str, Any]]]:
        """What takes documents from rows with these columns; those without a name are left out."""
        key, kept = self._found(tuple(filter(None, names)))
        place_of = {name: place for place, name in enumerate(names)}
        at, places = place_of[key], [(place_of[name], field) for name, field in kept]
        if all_text:
            return lambda cells: (cells[at], {field: cells[place] for place, field in places})
        return partial(self._taken, at, places)

    def _taken(self, key: Any, kept: Sequence[tuple[Any, str]], values: Any) -> tuple[str, dict[str, Any]]:
        numbers, fields = self._tally.numbers, dict[str, Any]()
        for name, field in kept:
            value = values[name]
            if value is None:
                continue
            if isinstance(value, str) or field in numbers:
                fields[field] = value
            else:
                self._tally.note_key(field)
        return as_id(values[key]), fields

    def _found(self, names: tuple[str, ...]) -> tuple[str, list[tuple[str, str]]]:
        """The name of the id, and the others with their fields."""
        there = {role: name for role, name in self._columns.items() if role == "skip" or name in names}
        fields = field_names([name for name in names if isinstance(name, str)], there)
        if fields is None:
            expected = f"expected one of the keys {accepted('id')}"
            raise InputError(f"document without an id; {expected}; its keys: {listed(names)}")
        (key,) = [name for name, field in fields.items() if field is None]
        return key, [(name, field) for name, field in fields.items() if field is not None]


def field_names(names: Sequence[str], columns: Columns | None) -> dict[str, str | None] | None:
    """The field of each column that is used, None for the id; None if there is no id."""
    key = find(names, "id", columns)
    if key is None:
        return None
    skipped = named_in(columns, "skip")
    renamed = {name: role for role, name in (columns or {}).items() if role in _RENAMED}
    return {
        name: None if name == key else renamed.get(name, name) for name in names if name == key or name not in skipped
    }


def as_id(value: Any) -> str:
    """The id of a document; a whole number is one, too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"the document id is {shown(value)}; expected a string")
    return value
