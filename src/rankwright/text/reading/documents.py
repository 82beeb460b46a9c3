"""Documents from files: tables, JSON, TREC SGML, web pages and Markdown, a folder of files, BEIR, or ir_datasets.

Errors name the file and the line. Text must be UTF-8; invalid bytes can be replaced on request, and the number of
documents affected is then reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwright.data.catalogue import collection_of, is_catalogued
from rankwright.data.delimited import header_cells, open_table
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.named_rows import PARQUET, json_array, json_object, parquet_numbers, parquet_rows, start_of
from rankwright.data.roles import Columns, check_columns, find, plain
from rankwright.errors import InputError, shown
from rankwright.text.reading.folders import page_record, read_folder
from rankwright.text.reading.records import ID_KEYS, Errors, Record, Tally, as_fields, check_id
from rankwright.text.reading.sgml import read_sgml

__all__ = ["FORMATS", "document_columns", "json_objects", "read_documents", "read_records", "read_rows", "text_lines"]

FORMATS = ("csv", "jsonl", "json", "tsv", "parquet", "trec", "html", "markdown", "folder")
_SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".trec": "trec",
    ".sgml": "trec",
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}
_UNDERSTOOD = (
    "CSV with a header, JSON lines or an array, tab-separated id and text, Parquet, TREC SGML (<DOC>), HTML, Markdown, "
    "or a folder of files"
)
_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")
_KEPT_NAMES = ("title", "text")


def read_documents(
    path: str | Path,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    columns: Columns | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Read documents one by one.

    Parameters
    ----------
    path : path
        A file, plain or gzip, a folder, or ``ir_datasets:NAME``. In CSV, JSON (lines or an array) and Parquet, ``id``
        (or ``_id``, ``docno``, ``docid``, ``doc_id``, ``url``) is the id and every other text is a field. In
        tab-separated lines, the first column is the id; the others are named by a header line that has an id's
        name, or there is only one, ``text``; quotation marks mean themselves. In TREC SGML, ``<TITLE>`` and
        ``<HEADLINE>`` are the field ``title``, everything else but ``<DOCNO>`` is ``text``. HTML and Markdown have the
        fields ``title``, ``headings`` and ``text``. In a folder, every file that is not hidden is a document, its id
        the path within the folder; if there are web pages or Markdown in it, only these and ``.txt`` files are. Of a
        folder as BEIR has them, ``corpus.jsonl`` is read.
    format : str, optional
        One of ``csv``, ``jsonl``, ``json``, ``tsv``, ``parquet``, ``trec``, ``html``, ``markdown`` and ``folder``; by
        default detected from the suffix or the first bytes.
    errors : {"strict", "replace"}
        What to do about bytes that are not UTF-8; pages may be in any encoding.
    columns : mapping, optional
        Columns by role, ``id``, ``title`` and ``text``, of CSV, JSON and Parquet; ``skip`` leaves columns out.
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
    for doc_id, fields, _, _ in read_records(path, format=format, errors=errors, columns=columns, progress=progress):
        yield doc_id, fields


def read_records(
    path: str | Path,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    wanted: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    columns: Columns | None = None,
    progress: Progress | None = None,
) -> Iterator[Record]:
    """Like :func:`read_documents`, with file and line.

    Only the JSON keys in ``wanted`` cause warnings; those in ``numbers`` may have any value.
    """
    if errors not in ("strict", "replace"):
        raise InputError(f'errors is {errors!r}; expected "strict" or "replace"')
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}; expected {', '.join(FORMATS)}")
    if is_catalogued(path):
        tally = Tally(Path(path), errors, wanted, numbers)
        yield from _checked(_catalogued(path, tally), tally)
        return
    path = Path(path)
    if format is None and path.is_dir():
        path = next((path / name for name in _CORPUS if (path / name).is_file()), path)
    tally = Tally(path, errors, wanted, numbers)
    if format == "folder" or (format is None and path.is_dir()):
        _refuse_columns(columns, "a folder", path)
        yield from _checked(read_folder(path, tally, progress), tally)
        return
    with open_file(path) as file:  # once: it may be a pipe
        kind = _format_of(file, path) if format is None else format
        if kind in _NAMED:
            yield from _checked(_NAMED[kind](file, tally, columns, progress), tally)
            return
        _refuse_columns(columns, f"in the format {kind}", path)
        read = {"tsv": _read_columns, "trec": read_sgml}.get(kind)
        records = iter([page_record(file, path.name, kind)]) if read is None else read(file, tally, progress)
        yield from _checked(records, tally)


def document_columns(path: Path, format: str | None = None, columns: Columns | None = None) -> dict[str, str] | None:
    """The field of each column of a table of documents, ``id`` for the id, and no field for those left out.

    None for files without columns, for JSON, whose keys speak for themselves, and where reading will find mistakes.

    Examples
    --------
    >>> document_columns(Path("shop.csv"), columns={"id": "sku", "skip": "margin"})  # doctest: +SKIP
    {'sku': 'id', 'title': 'title', 'margin': ''}
    """
    if is_catalogued(path) or not path.is_file():
        return None
    tally = Tally(path, "replace")
    try:
        with open_file(path) as file:
            kind = _format_of(file, path) if format is None else format
            if kind == "csv":
                names = open_table(tally.lines(file, None), path).names
            elif kind == "parquet":
                names = list(parquet_numbers(file))
            elif kind == "tsv":
                first = next(text_lines(file, tally, None), ("", 1))[0].removesuffix("\r").split("\t")
                names = [cell.strip() for cell in first]
                columns = {"id": next((name for key in ID_KEYS for name in names if plain(name) == key), "")}
            else:
                return None
            found = _roles(names, columns, path)
    except InputError:
        return None
    return None if found is None else {name: found.get(name, "") for name in names if name}


def _refuse_columns(columns: Columns | None, what: str, path: Path) -> None:
    if columns:
        raise InputError(f"is {what}, which has no columns; expected CSV, JSON or Parquet with --columns", path)


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
    if file.start(len(PARQUET)) == PARQUET:
        return "parquet"
    start = start_of(file)
    if not start:
        raise InputError("contains no documents; expected at least one", path)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() in _SUFFIXES:
        return _SUFFIXES[suffix.lower()]
    if start.startswith(b"["):
        return "json"
    if start.startswith(b"{"):
        return "jsonl"
    if start[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "html"
    if start.startswith(b"<"):
        return "trec"
    first = start.partition(b"\n")[0]
    if b"\t" in first:
        return "tsv"
    names = header_cells(first.decode("utf-8", "replace"))
    if len(names) > 1 and find(names, "id") is not None:
        return "csv"
    found = shown(first.decode("utf-8", "replace").strip(), 40)
    raise InputError(f"unknown document format, its first line is {found}; expected {_UNDERSTOOD}", path)


def text_lines(source: Source, tally: Tally, progress: Progress | None) -> Iterator[tuple[str, int]]:
    """The non-blank lines of a file, with their numbers."""
    for text, first, is_bad in tally.chunks(source, progress):
        for number, line in enumerate(text.split("\n"), first):
            if line and not line.isspace():
                yield (tally.clean(line) if is_bad else line), number


def json_objects(source: Source, tally: Tally, progress: Progress | None) -> Iterator[tuple[dict[str, Any], int, bool]]:
    """The objects of JSON lines, the numbers of their lines, and whether halves of surrogate pairs may be in them."""
    for line, number in text_lines(source, tally, progress):
        yield json_object(line, tally.path, number), number, "\\u" in line and ("\\ud" in line or "\\uD" in line)


def _read_json_lines(
    source: Source, tally: Tally, columns: Columns | None, progress: Progress | None
) -> Iterator[Record]:
    for found, number, may_have_halves in json_objects(source, tally, progress):
        yield _record(found, tally, columns, number, may_have_halves)


def _read_array(source: Source, tally: Tally, columns: Columns | None, progress: Progress | None) -> Iterator[Record]:
    text = "\n".join(line for _, line in tally.lines(source, progress))
    for number, found in json_array(text, tally.path):
        yield _record(found, tally, columns, number)


def _read_parquet(file: OpenFile, tally: Tally, columns: Columns | None, progress: Progress | None) -> Iterator[Record]:
    for number, found in parquet_rows(file, progress):
        yield _record(found, tally, columns, number)


def _read_table(source: Source, tally: Tally, columns: Columns | None, progress: Progress | None) -> Iterator[Record]:
    table = open_table(tally.lines(source, progress), tally.path)
    names = _roles(table.names, columns, tally.path)
    if names is None:
        expected = f"expected one for the id ({', '.join(ID_KEYS)}), or --columns id=NAME"
        raise InputError(f"has the columns {table.shown}; {expected}", tally.path, 1)
    kept = [(place, names[name]) for place, name in enumerate(table.names) if name and name in names]
    for line, cells in table.full_rows():
        fields = {name: cells[place] for place, name in kept}
        yield fields.pop("id").strip(), fields, tally.path, line


def _roles(names: Sequence[str], columns: Columns | None, path: Path) -> dict[str, str] | None:
    """The field of each column; the id is ``id``. None if there is no id."""
    try:
        check_columns(columns, names)
    except InputError as error:
        raise InputError(error.message, path, 1) from None
    given = columns or {}
    skipped = given.get("skip", "").split("\n")
    key = find(names, "id", columns)
    renamed = {given[role]: role for role in _KEPT_NAMES if role in given}
    fields = {name: renamed.get(name, name) for name in names if name not in skipped and name != key}
    return None if key is None else fields | {key: "id"}


def _record(
    found: Mapping[str, Any], tally: Tally, columns: Columns | None, line: int | None, may_have_halves: bool = False
) -> Record:
    """A document from named values."""
    if columns or not any(key in found for key in ID_KEYS):
        known = {**(columns or {})}
        names = _roles(list(found), {role: name for role, name in known.items() if name in found}, tally.path)
        found = found if names is None else {names[name]: value for name, value in found.items() if name in names}
    try:
        doc_id, fields = as_fields(found, tally)
    except InputError as error:
        named = ", ".join(repr(str(name)[:40]) for name in list(found)[:8])
        hint = f"; its keys: {named or 'none'}" if "without an id" in error.message else ""
        raise InputError(error.message + hint, tally.path, line) from None
    if may_have_halves and line is not None:
        fields = tally.whole_pairs(fields, line)
    return doc_id, fields, tally.path, line


def _catalogued(path: str | Path, tally: Tally) -> Iterator[Record]:
    for number, found in enumerate(collection_of(path, "docs").docs_iter(), 1):
        values = dict(found._asdict())
        doc_id = values.pop("doc_id")
        yield _record({"id": doc_id, **values}, tally, None, number)


_NAMED = {"csv": _read_table, "jsonl": _read_json_lines, "json": _read_array, "parquet": _read_parquet}


def read_rows(
    path: str | Path, *, errors: Errors = "strict", progress: Progress | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Lines of tab-separated cells: the number of each line and its cells; blank lines are skipped."""
    for line, number in text_lines(path, Tally(Path(path), errors), progress):
        yield number, line.removesuffix("\r").split("\t")


def _read_columns(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    path = tally.path
    names: list[str] | None = None
    at = 0  # the column of the id
    for line, number in text_lines(source, tally, progress):
        cells = line.removesuffix("\r").split("\t")
        if names is None:
            places = [place for place, cell in enumerate(cells) if plain(cell) in ID_KEYS]
            names = [cell.strip() for cell in cells] if places else ["id", "text"]
            if places:
                at = min(places, key=lambda place: ID_KEYS.index(plain(cells[place])))
                names[at] = "id"
                _check_names(names, path, number)
                continue
        if len(cells) != len(names):
            fields = [name for place, name in enumerate(names) if place != at]
            expected = f"{len(names)} (id, {', '.join(fields)})"
            hint = "" if fields != ["text"] else ", or a first line that names them: id, then the fields"
            raise InputError(f"{len(cells)} columns; expected {expected}{hint}", path, number)
        fields_of = dict(zip(names, cells, strict=True))
        yield fields_of.pop("id"), fields_of, path, number


def _check_names(names: list[str], path: Path, line: int) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"bad column name {name!r}; expected unique, non-empty names", path, line)
