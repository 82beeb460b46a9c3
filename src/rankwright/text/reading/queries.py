"""Queries from files: tables, JSON, `id TAB text`, TREC topics, comments of LETOR lines, BEIR folders, ir_datasets.

The first character decides: ``{`` and ``[`` start JSON, ``<`` a topic, anything else a table. A query without an id
gets its text as such, words joined by ``_``.
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.data.catalogue import collection_of, is_catalogued
from rankwright.data.categories import named
from rankwright.data.columns import MAX_FIELD
from rankwright.data.delimited import header_cells, open_table
from rankwright.data.files import OpenFile, Progress, open_file
from rankwright.data.judgements import query_word
from rankwright.data.letor import read_letor_queries
from rankwright.data.named_rows import PARQUET, json_array, json_object, parquet_rows
from rankwright.data.roles import Columns, check_columns, find, plain
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["PARTS", "Queries", "read_queries"]

_IDS = ("id", "_id", "qid", "query_id", "num")
_TEXTS = ("text", "query", "title")
_COLUMN_IDS = ("qid", "query_id", "queryid", "topic", "topic_id", "num", "id", "_id")
_COLUMN_DOCUMENTS = ("docid", "doc_id", "docno", "document_id", "corpus_id", "product_id")
_COLUMN_TEXTS = ("query", "query_text", "querytext", "query_string", "text", "title")
_IN_FOLDER = ("queries.jsonl", "queries.jsonl.gz")
PARTS = {"title": "title", "description": "desc", "narrative": "narr"}
"""The parts of a TREC topic that can be the query, and their tags."""

_TOPIC = re.compile(r"<top>((?:(?!<top>).)*?)</top>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)[^<>]*>", re.IGNORECASE)
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_LABEL = re.compile(r"\s*(?:number|topic|description|narrative)\s*:", re.IGNORECASE)

Row = tuple[str, str, int]
"""Id, text and line."""


@dataclass(frozen=True)
class Queries:
    """Queries in file order.

    Attributes
    ----------
    ids : tuple of str
        Unique query ids.
    texts : tuple of str
        The text of each.
    layout : str
        Of a table: what its columns were taken for, and which were skipped.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    layout: str = field(default="", compare=False)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(zip(self.ids, self.texts, strict=True))


def read_queries(
    path: str | Path, *, part: str = "title", columns: Columns | None = None, progress: Progress | None = None
) -> Queries:
    """Read a file of queries, plain or gzip.

    Parameters
    ----------
    path : path
        CSV, JSON (lines or an array) or Parquet with ``id`` (or ``_id``, ``qid``, ``query_id``, ``num``) and ``text``
        (or ``query``, ``query_text``, ``title``); lines of id, tab and text, with or without a header line; TREC
        topics; LETOR lines with comments of document and query; a folder as BEIR has them; or ``ir_datasets:NAME``.
        Without ids, equal texts are one query, whose id is the text with ``_`` between the words. So a table of
        judgements is a file of queries, too.
    part : str, default="title"
        The part of a TREC topic to use as the query: ``title``, ``description``, ``narrative``, or several joined by
        ``+``.
    columns : mapping, optional
        Columns by role, ``qid`` and ``query``; by default found by name.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> queries = read_queries("queries.jsonl")  # doctest: +SKIP
    >>> dict(queries)["1"]  # doctest: +SKIP
    'what similarity laws must be obeyed ...'
    """
    tags = _tags(part)
    if is_catalogued(path):
        return _checked(_catalogued(path, tags), path)
    if Path(path).is_dir():
        found = next((Path(path) / name for name in _IN_FOLDER if (Path(path) / name).is_file()), None)
        if found is None:
            raise InputError("is a folder without queries.jsonl; expected a file of queries, or a BEIR folder", path)
        path = found
    with open_file(path) as file:
        if file.start(len(PARQUET)) == PARQUET:
            return _checked(_Named(parquet_rows(file, progress), columns, path), path)
        return _checked(_text_rows(file, tags, columns, progress), path)


def _text_rows(file: OpenFile, tags: list[str], columns: Columns | None, progress: Progress | None) -> Iterable[Row]:
    path, text = file.path, _read_text(file, progress)
    start, first = text.lstrip()[:1], next((line for line in text.split("\n") if line.strip()), "")
    words = first.split()
    if columns and start not in ("{", "[", "<"):
        return _table_queries(text, columns, path)
    if start == "[":
        return _Named(json_array(text, path), columns, path, is_json=True)
    if start == "{":
        return _json_rows(text, columns, path)
    if start == "<":
        return _topic_rows(text, tags, path)
    if len(words) > 1 and words[1].startswith("qid:"):
        return _letor_rows(file)
    if _is_header(header_cells(first), "\t" in first):
        return _table_queries(text, columns, path)
    return _table_rows(text, path)


def _is_header(cells: Sequence[str], has_tabs: bool) -> bool:
    """Whether these are columns of a table, other than the two of `id TAB text`."""
    if len(cells) == 1:
        return plain(cells[0]) in _COLUMN_TEXTS[:4]
    names = {plain(cell) for cell in cells}
    if has_tabs and (len(cells) == 2 or not names & {*_COLUMN_IDS, *_COLUMN_DOCUMENTS}):
        return False
    return bool(names & set(_COLUMN_TEXTS))


def _table_queries(text: str, columns: Columns | None, path: str | Path) -> Iterable[Row]:
    table = open_table(enumerate(text.split("\n"), 1), path)
    return _Named(table.named(), columns, path)


class _Named:
    """Queries of rows with named values; repeated ones count once where there are documents, or no ids.

    What the columns of a table are taken for is known once its first row is read; the keys of JSON speak for
    themselves.
    """

    def __init__(
        self,
        rows: Iterable[tuple[int | None, Mapping[str, Any]]],
        columns: Columns | None,
        path: str | Path,
        *,
        is_json: bool = False,
    ) -> None:
        self._rows, self._columns, self._path, self._is_json = rows, columns, path, is_json
        self.layout = ""

    def __iter__(self) -> Iterator[Row]:
        path, seen = self._path, dict[str, str]()
        for line, row in self._rows:
            text, key, is_judged = self._chosen(list(row), line)
            query = " ".join(_as_text(row.get(text), "text", path, line).split())
            query_id = query_word(query) if key is None else _as_text(row.get(key), "id", path, line).strip()
            if (is_judged or key is None) and seen.get(query_id) == query:
                continue
            seen[query_id] = query
            yield query_id, query, line or 0

    def _chosen(self, names: list[str], line: int | None) -> tuple[str, str | None, bool]:
        """The columns of text and id, and whether there are documents."""
        columns, path = self._columns, self._path
        try:
            check_columns({role: name for role, name in (columns or {}).items() if role in ("qid", "query")}, names)
        except InputError as error:
            raise InputError(error.message, path, line) from None
        text, key = find(names, "query", columns, _COLUMN_TEXTS), find(names, "qid", columns, _COLUMN_IDS)
        is_judged = find(names, "docid", None, _COLUMN_DOCUMENTS) is not None
        if is_judged and key is not None and plain(key) in ("id", "_id"):
            key = None  # of the document
        if text is None:
            listed = ", ".join(repr(str(name)[:40]) for name in names[:8])
            expected = "expected one for the query (query, text) and one for its id (qid, id), or --columns query=NAME"
            raise InputError(f"has the columns {listed or 'none'}; {expected}", path, line)
        if not self.layout and not self._is_json:
            skipped = [name for name in names if name not in (text, key)]
            ids = "without ids" if key is None else f"ids {key!r}"
            self.layout = f"texts {text!r}, {ids}" + (f"; skipped {named(skipped)}" if skipped else "")
        return text, key, is_judged


def _as_text(value: Any, what: str, path: str | Path, line: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the {what} of a query is {shown(value)}; expected a string", path, line)
    if _HALF_PAIR.search(value):
        raise InputError(f"the {what} of a query contains a lone surrogate; expected text", path, line)
    return value


def _letor_rows(file: OpenFile) -> Iterator[Row]:
    texts = read_letor_queries(file)
    if texts is None:
        what = "has LETOR lines whose comments do not name queries"
        raise InputError(
            f"{what}; expected `# document query` at the end of every line, or a file of queries", file.path
        )
    return ((query, text, 0) for query, text in texts.items())


def _catalogued(path: str | Path, tags: list[str]) -> Iterator[Row]:
    names = {"title": ("title", "text", "query"), "desc": ("description",), "narr": ("narrative",)}
    for number, found in enumerate(collection_of(path, "queries").queries_iter(), 1):
        parts = []
        for tag in tags:
            text = next((getattr(found, name) for name in names[tag] if hasattr(found, name)), None)
            if not isinstance(text, str):
                raise InputError(f"a query without {names[tag][0]}; it has {', '.join(found._fields)}", path, number)
            parts.append(" ".join(text.split()))
        yield str(found.query_id), " ".join(filter(None, parts)), number


def _tags(part: str) -> list[str]:
    names = [name.strip().lower() for name in part.split("+")]
    for name in names:
        if name not in PARTS:
            raise InputError(f"unknown topic part {name!r}; expected {', '.join(PARTS)}, or several joined by +")
    return [PARTS[name] for name in names]


def _read_text(file: OpenFile, progress: Progress | None) -> str:
    data, path = b"".join(file.chunks(progress)), file.path
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"byte {data[error.start]:#04x} is not valid UTF-8", path, line) from None


def _checked(rows: Iterable[Row], path: str | Path) -> Queries:
    lines: dict[str, int] = {}
    texts: list[str] = []
    for query_id, text, line in rows:
        if len(query_id) > MAX_FIELD:
            raise InputError(f"a query id of {len(query_id):,} characters; expected at most {MAX_FIELD}", path, line)
        if len(query_id.split()) != 1:
            raise InputError(f"the query id is {shown(query_id)}; expected one word without whitespace", path, line)
        if query_id in lines:
            raise InputError(f"duplicate query {query_id!r} (first on line {lines[query_id]})", path, line)
        lines[query_id] = line
        texts.append(text)
    if not lines:
        raise InputError("contains no queries; expected JSON lines, lines of id, tab and text, or TREC topics", path)
    empty = [query_id for query_id, text in zip(lines, texts, strict=True) if not text]
    if empty:
        which = f"query {empty[0]!r} has" if len(empty) == 1 else f"{len(empty):,} queries (first {empty[0]!r}) have"
        warnings.warn(f"{path}: {which} no text", InputWarning, stacklevel=3)
    return Queries(tuple(lines), tuple(texts), rows.layout if isinstance(rows, _Named) else "")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Non-blank lines, with their numbers."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _json_rows(text: str, columns: Columns | None, path: str | Path) -> Iterable[Row]:
    objects = ((number, json_object(line, path, number)) for number, line in _lines(text))
    return _Named(objects, columns, path, is_json=True)


def _table_rows(text: str, path: str | Path) -> Iterator[Row]:
    for position, (number, line) in enumerate(_lines(text)):
        query_id, tab, query = line.partition("\t")
        if not tab:
            expected = "expected id, tab and text, or a header line with a column query"
            raise InputError(f"no tab in {_short(line)!r}; {expected}", path, number)
        if position == 0 and query_id.strip().lower() in _IDS and query.strip().lower() in _TEXTS:
            continue
        yield query_id.strip(), " ".join(query.split()), number


def _topic_rows(text: str, tags: list[str], path: str | Path) -> Iterator[Row]:
    end, line, counted = 0, 1, 0
    for match in _TOPIC.finditer(text):
        _check_between(text, end, match.start(), path)
        end = match.end()
        line += text.count("\n", counted, match.start())
        counted = match.start()
        parts = _parts(match[1])
        for tag in ("num", *tags):
            if tag not in parts:
                raise InputError(f"a topic without <{tag}>; its tags: {', '.join(parts) or 'none'}", path, line)
        yield parts["num"], " ".join(filter(None, (parts[tag] for tag in tags))), line
    _check_between(text, end, len(text), path)


def _check_between(text: str, start: int, stop: int, path: str | Path) -> None:
    """Only whitespace may come between topics."""
    rest = text[start:stop].lstrip()
    if rest:
        line = text.count("\n", 0, stop - len(rest)) + 1
        raise InputError(f"{_short(rest)!r}; expected TREC topics, <top> … </top>", path, line)


def _parts(topic: str) -> dict[str, str]:
    """The text after each tag up to the next one, without the label TREC puts there."""
    tags = list(_TAG.finditer(topic))
    ends = [*(tag.start() for tag in tags[1:]), len(topic)]
    parts: dict[str, str] = {}
    for tag, end in zip(tags, ends, strict=False):
        if not tag[1]:
            body = topic[tag.end() : end]
            label = _LABEL.match(body)
            body = body[label.end() :] if label else body
            parts.setdefault(tag[2].lower(), " ".join(html.unescape(body).split()))
    return parts


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 else line[:39] + "…"
