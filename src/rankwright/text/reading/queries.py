"""Files of queries: JSON lines, `id TAB text`, or TREC topics.

The first character decides: ``{`` starts JSON, ``<`` a topic, anything else a table.
"""

from __future__ import annotations

import html
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwright.data.columns import MAX_FIELD
from rankwright.data.files import Progress, line_chunks
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["PARTS", "Queries", "read_queries"]

_IDS = ("id", "_id", "qid", "query_id", "num")
_TEXTS = ("text", "query", "title")
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
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(zip(self.ids, self.texts, strict=True))


def read_queries(path: str | Path, *, part: str = "title", progress: Progress | None = None) -> Queries:
    """Read a file of queries, plain or gzip.

    Parameters
    ----------
    path : path
        JSON lines with ``id`` (or ``_id``, ``qid``, ``query_id``, ``num``) and ``text`` (or ``query``, ``title``);
        lines of id, tab and text, with or without a header line of these names; or TREC topics.
    part : str, default="title"
        The part of a TREC topic to use as the query: ``title``, ``description``, ``narrative``, or several joined by
        ``+``.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> queries = read_queries("queries.jsonl")  # doctest: +SKIP
    >>> dict(queries)["1"]  # doctest: +SKIP
    'what similarity laws must be obeyed ...'
    """
    tags = _tags(part)
    text = _read_text(path, progress)
    start = text.lstrip()[:1]
    if start == "{":
        rows = _json_rows(text, path)
    elif start == "<":
        rows = _topic_rows(text, tags, path)
    else:
        rows = _table_rows(text, path)
    return _checked(rows, path)


def _tags(part: str) -> list[str]:
    names = [name.strip().lower() for name in part.split("+")]
    for name in names:
        if name not in PARTS:
            raise InputError(f"unknown topic part {name!r}; expected {', '.join(PARTS)}, or several joined by +")
    return [PARTS[name] for name in names]


def _read_text(path: str | Path, progress: Progress | None) -> str:
    data = b"".join(line_chunks(path, progress))
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"byte {data[error.start]:#04x} is not valid UTF-8", path, line) from None


def _checked(rows: Iterator[Row], path: str | Path) -> Queries:
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
    return Queries(tuple(lines), tuple(texts))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Non-blank lines, with their numbers."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def _json_rows(text: str, path: str | Path) -> Iterator[Row]:
    for number, line in _lines(text):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", error)
            raise InputError(f"invalid JSON ({reason}); expected one object per line", path, number) from None
        if not isinstance(found, dict):
            raise InputError(f"a {type(found).__name__}; expected an object with id and text", path, number)
        query_id, query = _entry(found, _IDS, path, number), _entry(found, _TEXTS, path, number)
        if isinstance(query_id, int) and not isinstance(query_id, bool):
            query_id = str(query_id)
        for what, value in (("id", query_id), ("text", query)):
            if not isinstance(value, str):
                raise InputError(f"the {what} of a query is {shown(value)}; expected a string", path, number)
            if _HALF_PAIR.search(value):
                raise InputError(f"the {what} of a query contains a lone surrogate; expected text", path, number)
        yield query_id, " ".join(query.split()), number


def _entry(found: dict[str, Any], keys: tuple[str, ...], path: str | Path, line: int) -> Any:
    for key in keys:
        if key in found:
            return found[key]
    named = ", ".join(key[:40] for key in list(found)[:8])
    raise InputError(f"an object without {' or '.join(keys)}; its keys: {named or 'none'}", path, line)


def _table_rows(text: str, path: str | Path) -> Iterator[Row]:
    for position, (number, line) in enumerate(_lines(text)):
        query_id, tab, query = line.partition("\t")
        if not tab:
            raise InputError(f"no tab in {_short(line)!r}; expected id, tab and text", path, number)
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
