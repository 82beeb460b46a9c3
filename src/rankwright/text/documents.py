"""Documents from files: tables, JSON, TREC SGML, web pages and Markdown, a folder of files, BEIR, or ir_datasets.

Errors name the file and the line. Text must be UTF-8; invalid bytes can be replaced on request, and the number of
documents affected is then reported.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.files import OpenFile, Progress, Source, line_chunks, open_file
from rankwright.io.frames import is_frame
from rankwright.io.roles import Columns, find
from rankwright.io.tables import (
    PARQUET,
    Lines,
    Table,
    frame_table,
    header_cells,
    json_array,
    json_object,
    json_table,
    parquet_table,
    start_of,
    text_table,
)
from rankwright.io.trec import collection_of, is_catalogued
from rankwright.text.records import (
    SUFFIXES,
    Errors,
    Fields,
    Record,
    Tally,
    as_id,
    check_id,
    decoded,
    field_names,
    html_fields,
    html_text,
    markdown_fields,
    read_sgml,
)

_TEXT = (".txt", ".text")
_NAMED_KINDS = 5  # kinds of files in a message


def read_folder(path: Path, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Read every file that is not hidden; if some are pages, only pages and text files, and say what is skipped."""
    if not path.is_dir():
        raise InputError("not a folder; expected one that contains text files", path)
    files = sorted(_files_below(path))
    if any(_kind_of(name) for name in files):
        others = [name for name in files if not _kind_of(name) and Path(name).suffix.lower() not in _TEXT]
        _warn_skipped(others, path)
        skipped = frozenset(others)
        files = [name for name in files if name not in skipped]
    for done, name in enumerate(files, 1):
        kind = _kind_of(name)
        yield _text_record(path / name, name, tally) if kind is None else page_record(path / name, name, kind)
        if progress is not None:
            progress(done, len(files))


def page_record(source: Source, name: str, kind: str) -> Record:
    """A web page or Markdown file as a document."""
    path = Path(name) if not isinstance(source, str | Path) else Path(source)
    text = decoded(b"".join(line_chunks(source)))
    return "_".join(name.split()), html_fields(text) if kind == "html" else markdown_fields(text), path, None


def _text_record(file: Path, name: str, tally: Tally) -> Record:
    parts = [(text, is_bad) for text, _, is_bad in tally.chunks(file, None)]
    text = "".join(part for part, _ in parts)
    if any(is_bad for _, is_bad in parts):
        text = tally.clean(text)
    return name, {"text": text}, file, None


def _kind_of(name: str) -> str | None:
    return SUFFIXES.get(Path(name.removesuffix(".gz")).suffix.lower())


def _warn_skipped(names: list[str], path: Path) -> None:
    if not names:
        return
    kinds = Counter(Path(name).suffix.lower() or "no suffix" for name in names)
    listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common(_NAMED_KINDS))
    more = ", …" if len(kinds) > _NAMED_KINDS else ""
    files = "1 file that is not a page" if len(names) == 1 else f"{len(names):,} files that are not pages"
    warnings.warn(f"{path}: skipped {files} ({listed}{more})", InputWarning, stacklevel=4)


def _files_below(path: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror or error}", error.filename)

    for folder, folders, names in os.walk(path, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(folder, name)
            if not name.startswith(".") and file.is_file():
                yield file.relative_to(path).as_posix()


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
_TABLES = ("csv", "jsonl", "json", "parquet")


def read_documents(
    path: str | Path,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    columns: Columns | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[str, dict[str, str]]]:
    """Read documents one by one.

    `path`: a file, plain or gzip, a folder, or ``ir_datasets:NAME``. In CSV, JSON (lines or an array) and Parquet,
    ``id`` (or ``_id``, ``docno``, ``docid``, ``doc_id``, ``url``) is the id and every other text is a field. In
    tab-separated lines, the first column is the id; the others are named by a header line that has an id's name, or
    there is only one, ``text``; quotation marks mean themselves. In TREC SGML, ``<TITLE>`` and ``<HEADLINE>`` are the
    field ``title``, everything else but ``<DOCNO>`` is ``text``. HTML and Markdown have the fields ``title``,
    ``headings`` and ``text``. In a folder, every file that is not hidden is a document, its id the path within the
    folder; if there are web pages or Markdown in it, only these and ``.txt`` files are. Of a folder as BEIR has them,
    ``corpus.jsonl`` is read. `format`: one of ``csv``, ``jsonl``, ``json``, ``tsv``, ``parquet``, ``trec``, ``html``,
    ``markdown`` and ``folder``; by default detected from the suffix or the first bytes. `errors` ({"strict",
    "replace"}): what to do about bytes that are not UTF-8; pages may be in any encoding. `columns`: columns by role,
    ``id``, ``title`` and ``text``, of CSV, JSON and Parquet; ``skip`` leaves columns out. `progress`: called with
    (bytes read, total bytes), for a folder with (files read, total files). Yields `id`: one word, without whitespace.
    Yields `fields`: the text of each field.

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
        if kind in _TABLES:
            yield from _checked(_records(_table(kind, file, tally, progress), tally, columns), tally)
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
            if kind in ("csv", "parquet"):
                table = text_table(tally.lines(file, None), path) if kind == "csv" else parquet_table(file)
                table.check(columns)
                names = table.names
            elif kind == "tsv":
                names = next(
                    (
                        [cell.strip() for cell in line.removesuffix("\r").split("\t")]
                        for _, line in tally.lines(file, None)
                        if line.strip()
                    ),
                    [""],
                )
                columns = None
            else:
                return None
    except InputError:
        return None
    fields = field_names(names, columns)
    if fields is None:
        return None
    return {name: (fields[name] or "id") if name in fields else "" for name in names if name}


def _refuse_columns(columns: Columns | None, kind: str, path: Path) -> None:
    if columns:
        raise InputError(f"is {kind}, which has no columns; expected CSV, JSON or Parquet with --columns", path)


def _checked(records: Iterator[Record], tally: Tally) -> Iterator[Record]:
    n = 0
    for record in records:
        n += 1
        check_id(record[0], record[2], record[3])
        yield record
    if n == 0:
        raise InputError("contains no documents; expected at least one", tally.path)
    tally.warn()


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
    first_line = shown(first.decode("utf-8", "replace").strip(), 40)
    raise InputError(f"unknown document format, its first line is {first_line}; expected {_UNDERSTOOD}", path)


def _table(kind: str, file: OpenFile, tally: Tally, progress: Progress | None) -> Table:
    """The table in a file of documents; invalid bytes of text are as the tally has them."""
    path = tally.path
    if kind == "parquet":
        return parquet_table(file, progress)
    lines = tally.lines(file, progress)
    if kind == "csv":
        return text_table(lines, path)
    if kind == "jsonl":
        return json_table(_json_lines(lines, tally), path)
    text = "\n".join(line for _, line in lines)
    may_have_halves = _may_have_halves(text)
    objects = json_array(text, path)
    return json_table(
        ((at, tally.without_half_pairs(row, at) if may_have_halves else row) for at, row in objects), path
    )


def _json_lines(lines: Lines, tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if line.strip():
            values = json_object(line, tally.path, number)
            yield number, tally.without_half_pairs(values, number) if _may_have_halves(line) else values


def _may_have_halves(text: str) -> bool:
    """Whether JSON may have halves of surrogate pairs in it."""
    return "\\u" in text and ("\\ud" in text or "\\uD" in text)


def _records(table: Table, tally: Tally, columns: Columns | None) -> Iterator[Record]:
    """The documents of a table; the objects of JSON need not have all columns that the user names."""
    take: Callable[[Any], tuple[str, dict[str, Any]]] = Fields(tally, columns)
    rows: Iterable[tuple[int, Any]] = table.objects or ()
    if table.objects is None:
        table.check(columns)
        table.column("id", columns)
        take, rows = Fields(tally, columns).of_cells(table.names, all_text=bool(table.delimiter)), table.full_rows()
    for line, values in rows:
        try:
            doc_id, fields = take(values)
        except InputError as error:
            raise InputError(error.message, tally.path, line) from None
        yield doc_id.strip(), fields, tally.path, line


def _catalogued(path: str | Path, tally: Tally) -> Iterator[Record]:
    fields_of = Fields(tally)
    for number, document in enumerate(collection_of(path, "docs").docs_iter(), 1):
        values = dict(document._asdict())
        doc_id, fields = fields_of({"id": values.pop("doc_id"), **values})
        yield doc_id, fields, tally.path, number


def _read_columns(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Cells between tabs, in which quotation marks mean themselves; the first line may name the columns."""
    path = tally.path
    names: list[str] | None = None
    at = 0  # the column of the id
    for number, line in tally.lines(source, progress):
        if not line.strip():
            continue
        cells = line.removesuffix("\r").split("\t")
        if names is None:
            key = find(cells, "id")
            names = ["id", "text"] if key is None else [cell.strip() for cell in cells]
            if key is not None:
                at = cells.index(key)
                names[at] = "id"
                _check_names(names, path, number)
                continue
        if len(cells) != len(names):
            fields = [name for place, name in enumerate(names) if place != at]
            expected = f"{len(names)} (id, {', '.join(fields)})"
            hint = "" if fields != ["text"] else ", or a first line that names them: id, then the fields"
            raise InputError(f"{len(cells)} columns; expected {expected}{hint}", path, number)
        values = dict(zip(names, cells, strict=True))
        yield values.pop("id"), values, path, number


def _check_names(names: list[str], path: Path, line: int) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            raise InputError(f"bad column name {name!r}; expected unique, non-empty names", path, line)


@dataclass(frozen=True)
class DocumentFiles:
    """Files of documents, and what their columns hold.

    `paths`: files and folders. `columns`: columns by role, ``id``, ``title`` and ``text``, where their names do not
    tell; ``skip`` leaves columns out. `html`: fields that hold HTML, of which the text is kept.
    """

    paths: Sequence[Path]
    columns: Columns | None = None
    html: Sequence[str] = ()


Documents = str | Path | DocumentFiles | Iterable[Any]
"""A path, a list of ``Path``, a data frame, or documents: ``(id, text)``, ``(id, {field: text})``, or mappings."""

_EXPECTED = 'expected (id, text), (id, {field: text}) or {"id": …, field: text}'
_FOLDER_WEIGHT = 1 << 20


def paths_of(documents: Documents) -> list[Path] | None:
    """The files and folders given, or None if the documents themselves are given."""
    if isinstance(documents, str | Path):
        return [Path(documents)]
    if isinstance(documents, DocumentFiles):
        return list(documents.paths)
    if isinstance(documents, list | tuple) and documents and all(isinstance(item, Path) for item in documents):
        return list(documents)
    return None


def records_of(
    documents: Documents,
    *,
    format: str | None = None,
    errors: Errors = "strict",
    wanted: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    progress: Progress | None = None,
) -> Iterator[Record]:
    """Iterate over documents from any source."""
    paths = paths_of(documents)
    if is_frame(documents):
        table = frame_table(documents)
        tally = Tally(Path(table.path), errors, wanted, numbers)
        yield from _checked(_records(table, tally, None), tally)
        return
    if paths is None:
        assert not isinstance(documents, str | Path | DocumentFiles)
        yield from _from_python(documents, Tally(Path("the documents"), errors, wanted, numbers), progress)
        return
    files = documents if isinstance(documents, DocumentFiles) else DocumentFiles(paths)
    columns, html = files.columns, tuple(files.html)
    weights = [path.stat().st_size if path.is_file() else _FOLDER_WEIGHT for path in paths]
    for k, path in enumerate(paths):
        share = None if progress is None else _share(progress, sum(weights[:k]), weights[k], sum(weights))
        options: dict[str, Any] = {"format": format, "errors": errors, "wanted": wanted, "numbers": numbers}
        records = read_records(path, columns=columns, progress=share, **options)
        yield from _without_tags(records, html) if html else records


def _without_tags(records: Iterator[Record], html: tuple[str, ...]) -> Iterator[Record]:
    """Documents with the text of fields that hold HTML; a field that no document has is an error."""
    met: set[str] = set()
    for doc_id, fields, path, line in records:
        texts = {name: html_text(fields[name]) for name in html if isinstance(fields.get(name), str)}
        met |= texts.keys()
        yield doc_id, {**fields, **texts}, path, line
    for name in html:
        if name not in met:
            raise InputError(f"no document has the field {name!r}; expected a field that holds HTML")


def _share(progress: Progress, before: int, weight: int, total: int) -> Progress:
    def update(done: int, of: int) -> None:
        progress(before + (weight * done // of if of else weight), total)

    return update


def _from_python(documents: Iterable[Any], tally: Tally, progress: Progress | None) -> Iterator[Record]:
    total = len(documents) if isinstance(documents, Sized) else None
    fields_of = Fields(tally)
    n = 0
    for n, item in enumerate(documents, 1):
        try:
            doc_id, fields = _document(item, fields_of)
            check_id(doc_id)
        except InputError as error:
            raise InputError(f"document {n}: {error.message}") from None
        yield doc_id, fields, None, None
        if progress is not None and total is not None:
            progress(n, total)
    if n == 0:
        raise InputError("no documents; expected at least one")
    tally.warn()


def _document(item: Any, fields_of: Fields) -> tuple[str, dict[str, Any]]:
    if isinstance(item, Mapping):
        return fields_of(item)
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(f"{_short(item)} is not a document; {_EXPECTED}")
    doc_id, text = item
    if isinstance(text, str):
        return as_id(doc_id), {"text": text}
    if not isinstance(text, Mapping):
        raise InputError(f"{_short(text)} is not text; {_EXPECTED}")
    return as_id(doc_id), fields_of({"id": "", **text})[1]


def _short(item: Any) -> str:
    shown = repr(item)
    return shown if len(shown) <= 60 else shown[:57] + "…"
