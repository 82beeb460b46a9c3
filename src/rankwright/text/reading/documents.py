"""Documents from files: JSON lines, tab-separated columns, TREC SGML, or a folder of text files.

Errors name the file and the line. Text must be UTF-8; invalid bytes can be replaced on request, and the number of
documents affected is then reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.errors import InputError
from rankwright.text.reading.records import BOM, ID_KEYS, Errors, Record, Tally, as_fields, check_id
from rankwright.text.reading.sgml import read_sgml

__all__ = ["FORMATS", "json_objects", "read_documents", "read_records", "read_rows", "text_lines"]

FORMATS = ("jsonl", "tsv", "trec", "folder")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".tsv": "tsv", ".trec": "trec", ".sgml": "trec"}
_UNDERSTOOD = "JSON lines, tab-separated id and text, TREC SGML (<DOC>), or a folder of text files"


def read_documents(
    path: str | Path,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Read documents one by one.

    Parameters
    ----------
    path : path
        A file, plain or gzip, or a folder. In JSON lines, the key ``id`` (or ``_id``, ``docno``) is the id and every
        other string is a field. In tab-separated lines, the first column is the id; the others are named by a header
        line that starts with ``id`` or ``docno``, or there is only one, ``text``. In TREC SGML, ``<TITLE>`` and
        ``<HEADLINE>`` are the field ``title``, everything else but ``<DOCNO>`` is ``text``. In a folder, every file
        that is not hidden is a document: its id is the path within the folder, its field ``text``.
    format : {"jsonl", "tsv", "trec", "folder"}, optional
        By default detected from the suffix or the first bytes.
    errors : {"strict", "replace"}
        What to do about bytes that are not UTF-8.
    progress : callable, optional
        Called with (bytes read, total bytes), for a folder with (files read, total files).

    Yields
    ------
    id : str
        One word, without whitespace.
    fields : dict of str to str
        The text of each field.

    Examples
    --------
    >>> for doc_id, fields in read_documents("docs.jsonl.gz"):  # doctest: +SKIP
    ...     print(doc_id, fields["title"])
    """
    for doc_id, fields, _, _ in read_records(path, format=format, errors=errors, progress=progress):
        yield doc_id, fields


def read_records(
    path: str | Path,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    wanted: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Record]:
    """Like :func:`read_documents`, with file and line.

    Only the JSON keys in ``wanted`` cause warnings; those in ``numbers`` may have any value.
    """
    path = Path(path)
    if errors not in ("strict", "replace"):
        raise InputError(f'errors is {errors!r}; expected "strict" or "replace"')
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}; expected {', '.join(FORMATS)}")
    tally = Tally(path, errors, wanted, numbers)
    if format == "folder" or (format is None and path.is_dir()):
        yield from _checked(_read_folder(path, tally, progress), tally)
        return
    with open_file(path) as file:  # once: it may be a pipe
        kind = _format_of(file, path) if format is None else format
        read = {"jsonl": _read_json_lines, "tsv": _read_columns, "trec": read_sgml}[kind]
        yield from _checked(read(file, tally, progress), tally)


def _checked(records: Iterator[Record], tally: Tally) -> Iterator[Record]:
    n = 0
    for record in records:
        n += 1
        check_id(record[0], record[2], record[3])
        yield record
    if n == 0:
        raise InputError("contains no documents; expected at least one", tally.path)
    tally.tell()


def _format_of(file: OpenFile, path: Path) -> str:
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() in _SUFFIXES:
        return _SUFFIXES[suffix.lower()]
    start = next(file.chunks(), b"").removeprefix(BOM.encode()).lstrip()
    if not start:
        raise InputError("contains no documents; expected at least one", path)
    if start.startswith(b"{"):
        return "jsonl"
    if start.startswith(b"<"):
        return "trec"
    if b"\t" in start.partition(b"\n")[0]:
        return "tsv"
    raise InputError(f"unknown document format; expected {_UNDERSTOOD}", path)


def text_lines(source: Source, tally: Tally, progress: Progress | None) -> Iterator[tuple[str, int]]:
    """The non-blank lines of a file, with their numbers."""
    for text, first, is_bad in tally.chunks(source, progress):
        for number, line in enumerate(text.split("\n"), first):
            if line and not line.isspace():
                yield (tally.clean(line) if is_bad else line), number


def json_objects(source: Source, tally: Tally, progress: Progress | None) -> Iterator[tuple[dict[str, Any], int, bool]]:
    """The objects of JSON lines, the numbers of their lines, and whether halves of surrogate pairs may be in them."""
    path = tally.path
    for line, number in text_lines(source, tally, progress):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            is_nested = isinstance(error, RecursionError)
            reason = "nested too deeply" if is_nested else str(error)
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg} at column {error.colno}"
            raise InputError(f"invalid JSON ({reason}); expected one object per line", path, number) from None
        if not isinstance(found, dict):
            raise InputError("a JSON value that is not an object; expected one object per line", path, number)
        yield found, number, "\\u" in line and ("\\ud" in line or "\\uD" in line)


def _read_json_lines(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    path = tally.path
    for found, number, may_have_halves in json_objects(source, tally, progress):
        try:
            doc_id, fields = as_fields(found, tally)
        except InputError as error:
            raise InputError(error.message, path, number) from None
        if may_have_halves:
            fields = tally.whole_pairs(fields, number)
        yield doc_id, fields, path, number


def read_rows(
    path: str | Path, *, errors: Errors = "strict", progress: Progress | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Lines of tab-separated cells: the number of each line and its cells; blank lines are skipped."""
    for line, number in text_lines(path, Tally(Path(path), errors), progress):
        yield number, line.removesuffix("\r").split("\t")


def _read_columns(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    path = tally.path
    names: list[str] | None = None
    for line, number in text_lines(source, tally, progress):
        cells = line.removesuffix("\r").split("\t")
        if names is None:
            has_header = cells[0].strip().lower() in ID_KEYS
            names = [cell.strip() for cell in cells[1:]] if has_header else ["text"]
            if has_header:
                _check_names(names, path, number)
                continue
        if len(cells) != len(names) + 1:
            expected = f"{len(names) + 1} (id, {', '.join(names)})"
            hint = "" if names != ["text"] else ", or a first line that names them: id, then the fields"
            raise InputError(f"{len(cells)} columns; expected {expected}{hint}", path, number)
        yield cells[0], dict(zip(names, cells[1:], strict=True)), path, number


def _check_names(names: list[str], path: Path, line: int) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"bad column name {name!r}; expected unique, non-empty names", path, line)


def _read_folder(path: Path, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    if not path.is_dir():
        raise InputError("not a folder; expected one that contains text files", path)
    files = sorted(_files_below(path))
    for done, name in enumerate(files, 1):
        file = path / name
        parts = [(text, is_bad) for text, _, is_bad in tally.chunks(file, None)]
        text = "".join(part for part, _ in parts)
        if any(is_bad for _, is_bad in parts):
            text = tally.clean(text)
        yield name, {"text": text}, file, None
        if progress is not None:
            progress(done, len(files))


def _files_below(path: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename)

    for folder, folders, names in os.walk(path, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file():
                yield file.relative_to(path).as_posix()
