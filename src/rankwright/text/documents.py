"""Documents from files: tables, JSON, TREC SGML, web pages and Markdown, a folder of files, BEIR, or ir_datasets.

Errors name the file and the line. Text must be UTF-8; invalid bytes can be replaced on request, and the number of
documents affected is then reported.
"""

from __future__ import annotations

import html
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.files import MAX_FIELD, OpenFile, Progress, Source, line_chunks, open_file
from rankwright.io.frames import is_frame
from rankwright.io.roles import Columns, accepted, check_columns, find, listed, named_in
from rankwright.io.tables import (
    BOM,
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
from rankwright.text.pages import PAGES, decoded, html_fields, html_text, markdown_fields

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
    """Counts replaced bytes and keys that are not text, for one warning at the end."""

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
                    problem = f"the byte 0x{chunk[error.start]:02x} is not valid UTF-8"
                    raise InputError(f"{problem}; expected UTF-8, or errors='replace'", path, where) from None
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

    def without_half_pairs(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        """Values without lone surrogates, which JSON can encode and UTF-8 cannot."""
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if not any(map(_HALF_PAIRS.search, texts.values())):
            return values
        if not self._replace:
            problem = "a lone surrogate, such as \\ud800, which is not a character"
            raise InputError(f"{problem}; expected text, or errors='replace'", self.path, line)
        self._replaced += 1
        return values | {name: _HALF_PAIRS.sub(_REPLACEMENT, text) for name, text in texts.items()}

    def note_key(self, key: str) -> None:
        """Remember a key whose value is not text."""
        if self._wanted is None or key in self._wanted:
            self._keys[key] = None

    def warn(self) -> None:
        if self._keys:
            names = ", ".join(self._keys)
            warnings.warn(f"{self.path}: ignored keys that are not text: {names}", InputWarning, stacklevel=3)
        if self._replaced:
            documents = "document" if self._replaced == 1 else "documents"
            problem = f"replaced bytes that are not UTF-8 in {self._replaced:,} {documents}"
            warnings.warn(f"{self.path}: {problem}", InputWarning, stacklevel=3)


class Fields:
    """Takes the id and the fields of documents from values by name; numbers that are asked for come as they are.

    What names are taken for is remembered, as most rows have the same ones.
    """

    def __init__(self, tally: Tally, columns: Columns | None = None) -> None:
        self._tally, self._columns = tally, columns or {}
        self._layout_of = lru_cache(_REMEMBERED)(self._layout)

    def __call__(self, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return self._taken(*self._layout_of(tuple(values)), values)

    def of_cells(
        self, names: Sequence[str], *, all_text: bool
    ) -> Callable[[Sequence[Any]], tuple[str, dict[str, Any]]]:
        """A function that takes documents from rows with these columns; those without a name are left out."""
        key, kept = self._layout(tuple(filter(None, names)))
        place_of = {name: place for place, name in enumerate(names)}
        at, places = place_of[key], [(place_of[name], field) for name, field in kept]
        if all_text:
            return lambda cells: (cells[at], {field: cells[place] for place, field in places})
        return partial(self._taken, at, places)

    def _taken(self, key: str | int, kept: Sequence[tuple[Any, str]], values: Any) -> tuple[str, dict[str, Any]]:
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

    def _layout(self, names: tuple[str, ...]) -> tuple[str, list[tuple[str, str]]]:
        """The name of the id, and the others with their fields."""
        columns = {role: name for role, name in self._columns.items() if role == "skip" or name in names}
        fields = field_names([name for name in names if isinstance(name, str)], columns)
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


def as_id(value: str) -> str:
    """The id of a document; a whole number is one, too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"the document id is {shown(value)}; expected a string")
    return value


# Folders of files

_TEXT = (".txt", ".text")
_NAMED_KINDS = 5  # kinds of files in a message


def read_folder(path: Path, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Read every file that is not hidden; if some are pages, only pages and text files, and say what is skipped."""
    if not path.is_dir():
        raise InputError("not a folder; expected one that contains text files", path)
    files = sorted(_files_below(path))
    if any(_kind_of(name) for name in files):
        readable = [name for name in files if _kind_of(name) or Path(name).suffix.lower() in _TEXT]
        if len(readable) < len(files):
            _warn_skipped(set(files).difference(readable), path)
        files = readable
    for done, name in enumerate(files, 1):
        kind = _kind_of(name)
        yield _text_record(path / name, name, tally) if kind is None else page_record(path / name, name, kind)
        if progress is not None:
            progress(done, len(files))


def page_record(source: Source, name: str, kind: str) -> Record:
    path = Path(name) if not isinstance(source, str | Path) else Path(source)
    text = decoded(b"".join(line_chunks(source)))
    return "_".join(name.split()), html_fields(text) if kind == "html" else markdown_fields(text), path, None


def _text_record(file: Path, name: str, tally: Tally) -> Record:
    pieces = [(text, is_bad) for text, _, is_bad in tally.chunks(file, None)]
    text = "".join(piece for piece, _ in pieces)
    if any(is_bad for _, is_bad in pieces):
        text = tally.clean(text)
    return name, {"text": text}, file, None


def _kind_of(name: str) -> str | None:
    return PAGES.get(Path(name.removesuffix(".gz")).suffix.lower())


def _warn_skipped(names: set[str], path: Path) -> None:
    kinds = Counter(Path(name).suffix.lower() or "no suffix" for name in sorted(names))
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


# TREC's document files: any number of <DOC><DOCNO>id</DOCNO> … </DOC>, often with no other rule. Tags need not be
# closed or known. The content of <TITLE> or <HEADLINE> (also <HEAD>, <HL>) is the field "title"; all other text is the
# field "text". Text outside <DOC> is ignored.
# No pattern may run past the next "<" in vain: many unfinished tags would take quadratic time.
_DOC = re.compile(r"<(/?)DOC(?:\s[^<>]*)?>", re.IGNORECASE)
_NUMBER = re.compile(r"<DOCNO(?:\s[^<>]*)?>([^<]*)</DOCNO\s*>", re.IGNORECASE)
_TAG = re.compile(r"<!--(?:(?!<!--).)*?-->|<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?/?>", re.DOTALL)
_TITLES = frozenset(("title", "headline", "head", "hl"))
_LONGEST_TAG = 1 << 10


def read_sgml(source: Source, tally: Tally, progress: Progress | None = None) -> Iterator[Record]:
    path = tally.path
    rest, line = "", 1  # text not processed yet, and the number of its first line
    is_bad = False
    begun: int | None = None
    pieces: list[str] = []
    for text, _, bad in tally.chunks(source, progress):
        is_bad |= bad
        text = rest + text
        at = counted = 0
        for tag in _DOC.finditer(text):
            line += text.count("\n", counted, tag.start())
            counted = tag.start()
            if not tag[1]:
                if begun is not None:
                    raise InputError("<DOC> inside a document; expected </DOC> before it", path, line)
                begun, at = line, tag.end()
            elif begun is None:
                raise InputError("</DOC> outside a document; expected <DOC> before it", path, line)
            else:
                pieces.append(text[at : tag.start()])
                yield _sgml_record("".join(pieces), path, begun, tally if is_bad else None)
                begun, pieces, at = None, [], tag.end()
        # Hold back what may be the start of a tag.
        cut = text.rfind("<", max(at, len(text) - _LONGEST_TAG))
        cut = len(text) if cut < 0 or ">" in text[cut:] else cut
        if begun is not None:
            pieces.append(text[at:cut])
        else:
            is_bad = False
        line += text.count("\n", counted, cut)
        rest = text[cut:]
    if begun is not None:
        raise InputError("unterminated document; expected </DOC>", path, begun)


def _sgml_record(text: str, path: Path, line: int, tally: Tally | None) -> Record:
    if tally is not None:
        text = tally.clean(text)
    number = _NUMBER.search(text)
    if number is None:
        raise InputError("document without an id; expected <DOCNO>…</DOCNO>", path, line)
    pieces: dict[str, list[str]] = {"title": [], "text": []}
    field, at = "text", 0
    body = text[: number.start()] + "\n" + text[number.end() :]
    for tag in _TAG.finditer(body):
        pieces[field].append(body[at : tag.start()])
        at = tag.end()
        name = (tag[2] or "").lower()
        if name in _TITLES:
            field = "text" if tag[1] else "title"
        elif name == "text":
            field = "text"
    pieces[field].append(body[at:])
    fields = {name: _tidy(texts) for name, texts in pieces.items()}
    if not fields["title"]:
        del fields["title"]
    return html.unescape(number[1]).strip(), fields, path, line


def _tidy(pieces: list[str]) -> str:
    texts = (html.unescape(piece).strip() for piece in pieces)
    return "\n".join(piece for piece in texts if piece)


# Files of any format, and documents from Python

FORMATS = ("csv", "jsonl", "json", "tsv", "parquet", "trec", "html", "markdown", "folder")
_SUFFIXES = {
    **{f".{kind}": kind for kind in ("csv", "jsonl", "tsv", "parquet", "trec")},
    ".ndjson": "jsonl",
    ".sgml": "trec",
    **PAGES,
}
_UNDERSTOOD = (
    "CSV with a header, JSON lines or an array, tab-separated id and text, Parquet, TREC SGML (<DOC>), HTML, Markdown, "
    "or a folder of files"
)
_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")


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
    source = Path(path)
    if format is None and source.is_dir():
        source = next((source / name for name in _CORPUS if (source / name).is_file()), source)
    tally = Tally(source, errors, wanted, numbers)
    records = _catalogued(path, tally) if is_catalogued(path) else _read(source, format, tally, columns, progress)
    yield from _checked(records, tally)


def _read(
    path: Path, format: str | None, tally: Tally, columns: Columns | None, progress: Progress | None
) -> Iterator[Record]:
    if format == "folder" or (format is None and path.is_dir()):
        _refuse_columns(columns, "a folder", path)
        yield from read_folder(path, tally, progress)
        return
    with open_file(path) as file:  # once: it may be a pipe
        kind = _format_of(file, path) if format is None else format
        if kind in ("csv", "jsonl", "json", "parquet"):
            yield from _records(_table(kind, file, tally, progress), tally, columns)
            return
        _refuse_columns(columns, f"in the format {kind}", path)
        if kind in ("html", "markdown"):
            yield page_record(file, path.name, kind)
        else:
            yield from (_read_tabs if kind == "tsv" else read_sgml)(file, tally, progress)


def document_columns(path: Path, format: str | None = None, columns: Columns | None = None) -> dict[str, str] | None:
    """The field of each column of a table of documents, ``id`` for the id, and no field for those left out.

    None for files without columns, for JSON, whose keys speak for themselves, and where reading will find mistakes.
    """
    if is_catalogued(path) or not path.is_file():
        return None
    tally = Tally(path, "replace")
    try:
        with open_file(path) as file:
            kind = _format_of(file, path) if format is None else format
            if kind in ("csv", "parquet"):
                table = text_table(tally.lines(file, None), path) if kind == "csv" else parquet_table(file)
                check_columns(columns, table.names, table.path, 1)
                names = table.names
            elif kind == "tsv":
                first = next((line for _, line in tally.lines(file, None) if line.strip()), "")
                names, columns = [cell.strip() for cell in first.split("\t")], None
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
    objects = json_array(text, path)
    if _may_have_halves(text):
        objects = ((at, tally.without_half_pairs(values, at)) for at, values in objects)
    return json_table(objects, path)


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
        check_columns(columns, table.names, table.path, 1)
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


def _read_tabs(source: Source, tally: Tally, progress: Progress | None) -> Iterator[Record]:
    """Cells between tabs, in which quotation marks mean themselves; the first line may name the columns."""
    path = tally.path
    names: list[str] = []
    for number, line in tally.lines(source, progress):
        if not line.strip():
            continue
        cells = line.removesuffix("\r").split("\t")
        if not names:
            key = find(cells, "id")
            names = ["id", "text"] if key is None else ["id" if cell == key else cell.strip() for cell in cells]
            for name in names:
                if not name or names.count(name) > 1:
                    raise InputError(f"bad column name {name!r}; expected unique, non-empty names", path, number)
            if key is not None:
                continue
        if len(cells) != len(names):
            fields = [name for name in names if name != "id"]
            expected = f"{len(names)} (id, {', '.join(fields)})"
            hint = "" if fields != ["text"] else ", or a first line that names them: id, then the fields"
            raise InputError(f"{len(cells)} columns; expected {expected}{hint}", path, number)
        values = dict(zip(names, cells, strict=True))
        yield values.pop("id"), values, path, number


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


@dataclass(frozen=True)
class DocumentSource:
    """Documents, and how they are to be read; see :func:`read_documents`."""

    documents: Documents
    format: str | None
    errors: Errors
    progress: Progress | None

    def records(self, wanted: Sequence[str] | None, numbers: Sequence[str]) -> Iterator[Record]:
        """Iterate over the documents; ``wanted`` and ``numbers`` are as for :func:`read_records`."""
        documents, paths, progress = self.documents, paths_of(self.documents), self.progress
        if is_frame(documents):
            table = frame_table(documents)
            tally = Tally(Path(table.path), self.errors, wanted, numbers)
            yield from _checked(_records(table, tally, None), tally)
            return
        if paths is None:
            assert not isinstance(documents, str | Path | DocumentFiles)
            yield from _from_python(documents, Tally(Path("the documents"), self.errors, wanted, numbers), progress)
            return
        files = documents if isinstance(documents, DocumentFiles) else DocumentFiles(paths)
        weights = [path.stat().st_size if path.is_file() else _FOLDER_WEIGHT for path in paths]
        for k, path in enumerate(paths):
            share = None if progress is None else _share(progress, sum(weights[:k]), weights[k], sum(weights))
            options: dict[str, Any] = {"format": self.format, "errors": self.errors, "columns": files.columns}
            records = read_records(path, wanted=wanted, numbers=numbers, progress=share, **options)
            yield from _without_tags(records, files.html) if files.html else records


def _without_tags(records: Iterator[Record], names: Sequence[str]) -> Iterator[Record]:
    """Documents with the text of fields that hold HTML; a field that no document has is an error."""
    met: set[str] = set()
    for doc_id, fields, path, line in records:
        texts = {name: html_text(fields[name]) for name in names if isinstance(fields.get(name), str)}
        met |= texts.keys()
        yield doc_id, {**fields, **texts}, path, line
    for name in names:
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
        raise InputError(f"{shown(item)} is not a document; {_EXPECTED}")
    doc_id, text = item
    if isinstance(text, str):
        return as_id(doc_id), {"text": text}
    if not isinstance(text, Mapping):
        raise InputError(f"{shown(text)} is not text; {_EXPECTED}")
    return as_id(doc_id), fields_of({"id": "", **text})[1]
