"""What all document readers share: the record, its id, its fields, and the tally of what had to be replaced."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rankwright.data.columns import MAX_FIELD
from rankwright.data.delimited import BOM
from rankwright.data.files import OpenFile, Progress, Source, line_chunks
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["ID_KEYS", "Errors", "Record", "Tally", "as_fields", "check_id", "id_in"]

Errors = Literal["strict", "replace"]
Record = tuple[str, dict[str, Any], Path, int | None]
"""Id, fields, file and line; fields are text, those asked for as numbers anything."""

ID_KEYS = ("id", "_id", "docno", "docid", "doc_id", "url")
_BAD_BYTES = re.compile("[\udc80-\udcff]+")  # what Python's decoder leaves for bytes that are not UTF-8
_HALF_PAIRS = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


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
        found, n = _BAD_BYTES.subn(_REPLACEMENT, text)
        self._replaced += n > 0
        return found

    def whole_pairs(self, fields: dict[str, Any], line: int) -> dict[str, Any]:
        """Fields without lone surrogates, which JSON can encode and UTF-8 cannot."""
        texts = {name: text for name, text in fields.items() if isinstance(text, str)}
        if not any(map(_HALF_PAIRS.search, texts.values())):
            return fields
        if not self._replace:
            what = "a lone surrogate, such as \\ud800, which is not a character"
            raise InputError(f"{what}; expected text, or errors='replace'", self.path, line)
        self._replaced += 1
        return fields | {name: _HALF_PAIRS.sub(_REPLACEMENT, text) for name, text in texts.items()}

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


def id_in(found: Mapping[str, Any]) -> tuple[str, str]:
    """The key of the id in ``{"id": …, field: text}``, and the id."""
    key = next((key for key in ID_KEYS if key in found), None)
    if key is None:
        raise InputError(f"document without an id; expected the key {', '.join(ID_KEYS[:-1])} or {ID_KEYS[-1]}")
    doc_id = found[key]
    if isinstance(doc_id, int) and not isinstance(doc_id, bool):
        doc_id = str(doc_id)
    if not isinstance(doc_id, str):
        raise InputError(f"the document id is {shown(doc_id)}; expected a string")
    return key, doc_id


def as_fields(found: Mapping[str, Any], tally: Tally) -> tuple[str, dict[str, Any]]:
    """The id and the fields in ``{"id": …, field: text}``; numbers that are asked for come as they are."""
    key, doc_id = id_in(found)
    fields: dict[str, Any] = {}
    for name, text in found.items():
        if name == key or text is None:
            continue
        if isinstance(text, str) or name in tally.numbers:
            fields[name] = text
        else:
            tally.note_key(str(name))
    return doc_id, fields
