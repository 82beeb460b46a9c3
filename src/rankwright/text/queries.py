"""Queries from files: tables, JSON, `id TAB text`, TREC topics, comments of LETOR lines, BEIR folders, ir_datasets.

The first character decides: ``{`` and ``[`` start JSON, ``<`` a topic, anything else a table. A query without an id
gets its text as such, words joined by ``_``.
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwright.data.categories import named
from rankwright.errors import InputError, InputWarning, shown
from rankwright.io.files import MAX_FIELD, OpenFile, Progress, open_file
from rankwright.io.letor import read_letor_queries
from rankwright.io.roles import DOCUMENT, QUERY_ID, QUERY_TEXT, Columns, check_columns, find, listed, plain
from rankwright.io.tables import HEADER_BYTES, PARQUET, Lines, Table, header_cells, open_table, start_of, utf8_lines
from rankwright.io.trec import collection_of, is_catalogued, query_word

__all__ = ["read_queries"]

_IDS = (*QUERY_ID, "id", "_id")
_TEXTS = (*QUERY_TEXT, "text", "title")
_DOCUMENTS = tuple(name for name in DOCUMENT if name not in ("id", "_id", "url"))  # which make it a table of judgements
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

    `ids`: unique query ids. `texts`: the text of each. `layout`: of a table: what its columns were taken for, and which
    were skipped.
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
        CSV, JSON (lines or an array) or Parquet with ``id`` (or ``_id``, ``qid``, ``query_id``, ``topic`` …) and
        ``text`` (or ``query``, ``query_text``, ``title`` …); lines of id, tab and text, with or without a header line;
        TREC topics; LETOR lines with comments of document and query; a folder as BEIR has them; or
        ``ir_datasets:NAME``. Without ids, equal texts are one query, whose id is the text with ``_`` between the words.
        So a table of judgements is a file of queries, too.
    part : str, default="title"
        The part of a TREC topic to use as the query: ``title``, ``description``, ``narrative``, or several joined by
        ``+``.
    columns : mapping, optional
        Columns by role, ``qid`` and ``query``, and ``docid`` of a table of judgements; by default found by name.
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
        inside = next((Path(path) / name for name in _IN_FOLDER if (Path(path) / name).is_file()), None)
        if inside is None:
            raise InputError("is a folder without queries.jsonl; expected a file of queries, or a BEIR folder", path)
        path = inside
    with open_file(path) as file:
        return _checked(_rows(file, tags, columns, progress), path)


def _rows(file: OpenFile, tags: list[str], columns: Columns | None, progress: Progress | None) -> Iterable[Row]:
    """The queries of a file; its first bytes and its first line tell what they are in."""
    path, start = file.path, start_of(file)
    if file.start(len(PARQUET)) == PARQUET or start[:1] in (b"[", b"{"):
        return _OfTable(open_table(file, progress), columns)
    first = next((text for _, text in utf8_lines(file, size=HEADER_BYTES) if text.strip()), "")
    words = first.split()
    if not start.startswith(b"<"):
        if len(words) > 1 and words[1].startswith("qid:") and not columns:
            return _letor_rows(file)
        if columns or _is_header(header_cells(first), "\t" in first):
            return _OfTable(open_table(file, progress), columns)
    lines = utf8_lines(file, progress)
    if start.startswith(b"<"):
        return _topic_rows("\n".join(line.removesuffix("\r") for _, line in lines), tags, path)
    return _tab_rows(lines, path)


def _is_header(cells: Sequence[str], has_tabs: bool) -> bool:
    """Whether these are columns of a table, other than the two of `id TAB text`."""
    names = [plain(cell) for cell in cells]
    if len(names) == 1:
        return names[0] in QUERY_TEXT
    if has_tabs and len(names) == 2:
        return names[0] in _TEXTS and names[1] in _IDS
    if has_tabs and not set(names) & {*_IDS, *_DOCUMENTS}:
        return False
    return bool(set(names) & set(_TEXTS))


class _OfTable:
    """Queries of the rows of a table; repeated ones count once where there are documents, or no ids.

    What the columns of a table are taken for is known once its first row is read; the keys of JSON speak for
    themselves.
    """

    def __init__(self, table: Table, columns: Columns | None) -> None:
        self._table, self._columns, self._path = table, columns, table.path
        self._layouts: dict[tuple[str, ...], tuple[str, str | None, bool]] = {}
        self.layout = ""

    def __iter__(self) -> Iterator[Row]:
        path, seen = self._path, dict[str, str]()
        for line, row in self._table.named():
            names = tuple(row)
            if names not in self._layouts:
                self._layouts[names] = self._roles(names, line)
            text, key, is_judged = self._layouts[names]
            query = " ".join(_as_text(row.get(text), "text", path, line).split())
            query_id = query_word(query) if key is None else _as_text(row.get(key), "id", path, line).strip()
            if (is_judged or key is None) and seen.get(query_id) == query:
                continue
            seen[query_id] = query
            yield query_id, query, line

    def _roles(self, names: tuple[str, ...], line: int) -> tuple[str, str | None, bool]:
        """The columns of text and id, and whether there are documents."""
        columns, path = self._columns, self._path
        given = {role: name for role, name in (columns or {}).items() if role in ("qid", "query")}
        check_columns(given, names, path, line)
        text, key = find(names, "query", columns, _TEXTS), find(names, "qid", columns, _IDS)
        document = find(names, "docid", columns, _DOCUMENTS)
        is_judged = document is not None
        if is_judged and key is not None and (key == document or plain(key) in ("id", "_id")):
            key = None  # of the document
        if text is None:
            expected = f"one for the query ({', '.join(_TEXTS)}) and one for its id ({', '.join(_IDS)})"
            problem = f"has the columns {listed(names)}; expected {expected}, or --columns query=NAME"
            raise InputError(problem, path, line)
        if not self.layout and self._table.objects is None:
            skipped = [name for name in names if name not in (text, key)]
            ids = "without ids" if key is None else f"ids {key!r}"
            self.layout = f"texts {text!r}, {ids}" + (f"; skipped {named(skipped)}" if skipped else "")
        return text, key, is_judged


def _as_text(value: Any, role: str, path: str | Path, line: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise InputError(f"the {role} of a query is {shown(value)}; expected a string", path, line)
    if _HALF_PAIR.search(value):
        raise InputError(f"the {role} of a query contains a lone surrogate; expected text", path, line)
    return value


def _letor_rows(file: OpenFile) -> Iterator[Row]:
    texts = read_letor_queries(file)
    if texts is None:
        problem = "has LETOR lines whose comments do not name queries"
        raise InputError(
            f"{problem}; expected `# document query` at the end of every line, or a file of queries", file.path
        )
    return ((query, text, 0) for query, text in texts.items())


def _catalogued(path: str | Path, tags: list[str]) -> Iterator[Row]:
    names = {"title": ("title", "text", "query"), "desc": ("description",), "narr": ("narrative",)}
    for number, query in enumerate(collection_of(path, "queries").queries_iter(), 1):
        parts = []
        for tag in tags:
            text = next((getattr(query, name) for name in names[tag] if hasattr(query, name)), None)
            if not isinstance(text, str):
                raise InputError(f"a query without {names[tag][0]}; it has {', '.join(query._fields)}", path, number)
            parts.append(" ".join(text.split()))
        yield str(query.query_id), " ".join(filter(None, parts)), number


def _tags(part: str) -> list[str]:
    names = [name.strip().lower() for name in part.split("+")]
    for name in names:
        if name not in PARTS:
            raise InputError(f"unknown topic part {name!r}; expected {', '.join(PARTS)}, or several joined by +")
    return [PARTS[name] for name in names]


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
    return Queries(tuple(lines), tuple(texts), rows.layout if isinstance(rows, _OfTable) else "")


def _tab_rows(lines: Lines, path: str | Path) -> Iterator[Row]:
    """Lines of id, tab and text, in which quotation marks mean themselves; the first may name them."""
    filled = ((number, line) for number, line in lines if line.strip())
    for position, (number, line) in enumerate(filled):
        query_id, tab, query = line.partition("\t")
        if not tab:
            expected = "expected id, tab and text, or a header line with a column query"
            raise InputError(f"no tab in {shown(line.rstrip(), 40)}; {expected}", path, number)
        if position == 0 and plain(query_id) in _IDS and plain(query) in _TEXTS:
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
        raise InputError(f"{shown(rest.splitlines()[0], 40)}; expected TREC topics, <top> … </top>", path, line)


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
