"""Logs of impressions and clicks from files: tables of any container, and UBI events.

Columns are found by name (:mod:`rankwright.io.roles`), or named by the caller. Two layouts count impressions:
``clicked`` (0 or 1) with ``count``, how many rows alike there were, and ``clicks`` with ``impressions``, how many of
these were clicked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.clicks.estimates import Propensities
from rankwright.clicks.log import ClickLog, Place, number_of
from rankwright.errors import InputError, shown
from rankwright.io.files import OpenFile, Progress, open_file
from rankwright.io.roles import CLICKS, DOCUMENT, accepted, find, find_query, listed, plain
from rankwright.io.tables import (
    NamedRow,
    Table,
    is_missing,
    json_lines,
    json_table,
    open_table,
    start_of,
    text_table,
    utf8_lines,
)

__all__ = ["read_clicks", "read_propensities"]

_NEEDED = ("query", "docid", "position", "clicked")
# An id is the document only where nothing else is: it may be the number of the event.
_DOCUMENTS = (*(name for name in DOCUMENT if name not in ("id", "_id")), "id", "_id")


def read_clicks(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    queries: str | Path | None = None,
    progress: Progress | None = None,
) -> ClickLog:
    """Read a log of impressions and clicks; plain or gzip.

    Parameters
    ----------
    path : path
        CSV or tab-separated text with a header line, JSON, Parquet; or ``ubi_events`` of OpenSearch's User Behavior
        Insights as JSON lines.
    columns : mapping, optional
        Names of columns, where they have others than are known: ``{"query": "search_term", "document": "sku"}``.
    queries : path, optional
        ``ubi_queries`` as JSON lines: the text of every query, and the results shown, for logs whose events are clicks
        only.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> log = read_clicks("log.csv")  # doctest: +SKIP
    """
    if Path(path).is_dir():
        raise InputError("is a folder; expected a log: CSV, JSON lines or Parquet", path)
    with open_file(path) as file:
        if not start_of(file):
            raise InputError("is empty; expected a log: CSV with a header line, JSON lines or Parquet", path)
        table = _opened(file, progress)
        if is_ubi(table.names):
            return ubi_log(path, table.named(), None if queries is None else _query_objects(queries))
        if queries is not None:
            raise InputError("has no UBI events; expected ubi_events as JSON lines, or no file of UBI queries", path)
        return _log(table, {"docid" if role == "document" else role: name for role, name in (columns or {}).items()})


def read_propensities(path: str | Path) -> Propensities:
    """Read propensities from CSV with the columns ``position`` and ``propensity``, as they are written.

    Examples
    --------
    >>> known = read_propensities("propensities.csv")  # doctest: +SKIP
    """
    with open_file(path) as file:
        columns, lines = text_table(utf8_lines(file), path).by_column() if start_of(file) else ({}, [])
    if not {"position", "propensity"} <= set(columns) or not lines:
        raise InputError("expected CSV with the columns position and propensity", path, 1)
    by_position: dict[float, float] = {}
    for line, at, value in zip(lines, columns["position"], columns["propensity"], strict=True):
        position, number = number_of(at), number_of(value)
        if not position >= 1 or position != int(position) or position in by_position:
            raise InputError(f"position is {at!r}; expected each position once, from 1", path, line)
        if not is_missing(value) and not 0 < number <= 1:
            raise InputError(f"propensity is {value!r}; expected a number above 0, at most 1", path, line)
        by_position[position] = number
    positions = np.array(sorted(by_position), np.int64)
    nothing = np.full(len(positions), np.nan)
    return Propensities(positions, np.array([by_position[at] for at in sorted(by_position)]), nothing, nothing, nothing)


def _opened(file: OpenFile, progress: Progress | None) -> Table:
    """The table in a file; objects of an export of hits are in ``_source``."""
    if not start_of(file).startswith(b"{"):
        return open_table(file, progress)
    objects = json_lines(utf8_lines(file, progress), file.path)
    return json_table(((line, _inside(values)) for line, values in objects), file.path)


def _inside(values: dict[str, Any]) -> dict[str, Any]:
    source = values.get("_source")
    return source if isinstance(source, dict) else values


def _query_objects(path: str | Path) -> Iterator[tuple[NamedRow, str | Path]]:
    with open_file(path) as file:
        if not start_of(file):
            raise InputError("is empty; expected ubi_queries as JSON lines", path)
        for row in _opened(file, None).named():
            yield row, path


def _roles(table: Table, given: Mapping[str, str]) -> dict[str, str]:
    """The column of each role that there is one for."""
    for role in given:
        if role not in CLICKS:
            raise InputError(f"a log has no column {role!r}; expected {', '.join(map(_shown, CLICKS))}")
    table.check(given)
    names = table.names
    chosen = {role: find(names, role, given, _DOCUMENTS if role == "docid" else ()) for role in CLICKS}
    chosen["query"] = find_query(names, given, text_first=True)
    missing = [role for role in _NEEDED if chosen[role] is None]
    if missing:
        accepted_names = {role: accepted("query", "qid") if role == "query" else accepted(role) for role in missing}
        expected = " and ".join(f"{_shown(role)} ({accepted_names[role]})" for role in missing)
        problem = f"has the columns {listed(names)}; expected one for {expected}"
        raise InputError(f"{problem}, or --columns {_shown(missing[0])}=NAME", table.path, 1)
    return {role: name for role, name in chosen.items() if name is not None}


def _shown(role: str) -> str:
    return "document" if role == "docid" else role


def _log(table: Table, given: Mapping[str, str]) -> ClickLog:
    roles = _roles(table, given)
    values, lines = table.by_column()
    columns = {role: values[name] for role, name in roles.items()}

    def place(row: int) -> tuple[str | Path, int | None]:
        return table.path, lines[row] if row < len(lines) else None

    ignored = [name for name in table.names if name not in roles.values()]
    notes = [f"columns: {', '.join(f'{_shown(role)} is {name}' for role, name in roles.items())}"]
    if ignored:
        notes.append(f"ignored columns: {', '.join(ignored)}")
    clicked, count = columns["clicked"], columns.get("count")
    if count is not None and plain(roles["clicked"]) != "clicks":
        clicked = _times(clicked, count, place)
    position = columns["position"]
    if _least(position) == 0:
        position = [value if (number := number_of(value)) != number else number + 1 for value in position]
        notes.append("positions count from 0: 1 was added")
    who = [columns[name] for name in ("user", "session") if name in columns]
    session = None if not who else who[0] if len(who) == 1 else list(zip(*who, strict=True))
    return ClickLog.from_columns(
        columns["query"], columns["docid"], position, clicked, count=count, session=session,
        page=columns.get("page"), place=place, notes=notes,
    )  # fmt: skip


def _times(clicked: Sequence[Any], count: Sequence[Any], place: Place) -> list[Any]:
    """The clicks of rows that stand for several impressions alike."""
    clicks: list[Any] = []
    for row, (value, n) in enumerate(zip(clicked, count, strict=True)):
        if number_of(value) not in (0.0, 1.0):
            raise InputError(f"clicked is {shown(value)}; expected 0 or 1", *place(row))
        clicks.append(n if number_of(value) else 0)
    return clicks


def _least(values: Sequence[Any]) -> float:
    try:
        return float(np.asarray(values).astype(np.float64).min(initial=np.inf))
    except (TypeError, ValueError):
        return min((number for number in map(number_of, values) if number == number), default=np.inf)


# OpenSearch's User Behavior Insights: `ubi_events` and `ubi_queries` as a log of impressions and clicks.
#
# A `query_id` is one search by one user, so one page. Impressions are the events `impression` with an object and a
# position; where a search has none, the results that `ubi_queries` lists (`query_response_hit_ids`). Clicks are the
# events `click`; one on a result that was never shown counts as shown where the event gives its position.


_IMPRESSIONS, _CLICKS = ("impression", "view"), ("click",)


def is_ubi(names: Collection[str]) -> bool:
    """Whether these are the keys of an event of UBI."""
    return "action_name" in names


def ubi_log(
    path: str | Path,
    events: Iterable[NamedRow],
    queries: Iterable[tuple[NamedRow, str | Path]] | None,
) -> ClickLog:
    """The log of some events, and of the queries that they belong to."""
    text, users, hits = _queries(queries or ())
    shown_at: dict[str, dict[str, tuple[Any, int]]] = {}
    clicked: dict[str, dict[str, tuple[Any, int]]] = {}
    n_events, n_other = 0, 0
    for line, event in events:
        n_events += 1
        action, search = event.get("action_name"), event.get("query_id")
        if action not in (*_IMPRESSIONS, *_CLICKS):
            n_other += 1
            continue
        if not isinstance(search, str) or not search:
            raise InputError(f"query_id is {shown(search)}; expected the id of a search", path, line)
        document, position = _object(event, path, line)
        table = clicked if action in _CLICKS else shown_at
        table.setdefault(search, {}).setdefault(document, (position, line))
        if isinstance(event.get("user_query"), str):
            text.setdefault(search, event["user_query"])
        users.setdefault(search, str(event.get("session_id") or event.get("client_id") or search))
    rows, unplaced = _rows(shown_at, clicked, hits)
    if not rows:
        raise InputError(
            f"no impressions among {n_events:,} events; expected events 'impression' with a position, or ubi_queries "
            "with query_response_hit_ids", path,
        )  # fmt: skip
    notes = [f"UBI: {n_events:,} events, {n_other:,} of them neither impressions nor clicks"]
    if unplaced:
        notes.append(f"ignored {unplaced:,} clicks on results that were not shown and have no position")
    first = min((row[2] for row in rows if isinstance(row[2], int | float)), default=1)
    if first == 0:
        notes.append("positions count from 0: 1 was added")
    searches = [row[0] for row in rows]
    return ClickLog.from_columns(
        [text.get(search, search) for search in searches],
        [row[1] for row in rows],
        [row[2] + 1 if first == 0 and isinstance(row[2], int | float) else row[2] for row in rows],
        [row[3] for row in rows],
        session=[users.get(search, search) for search in searches],
        page=searches,
        place=lambda row: (path, rows[row][4] if row < len(rows) else None),
        notes=notes,
    )


def _object(event: Mapping[str, Any], path: str | Path, line: int) -> tuple[str, Any]:
    """The document and the position of an event; None without a position."""
    inside = event.get("event_attributes")
    inside = inside if isinstance(inside, dict) else {}
    object_, place = inside.get("object"), inside.get("position")
    document = object_.get("object_id") if isinstance(object_, dict) else None
    if document is None or document == "":
        raise InputError(
            "the event has no event_attributes.object.object_id; expected the id of a document", path, line
        )
    return str(document), place.get("ordinal") if isinstance(place, dict) else None


def _queries(
    queries: Iterable[tuple[NamedRow, str | Path]],
) -> tuple[dict[str, str], dict[str, str], dict[str, list[str]]]:
    """Text, user and results of every search."""
    text, users, hits = {}, {}, {}
    for (line, query), path in queries:
        search = query.get("query_id")
        if not isinstance(search, str) or not search:
            raise InputError(f"query_id is {shown(search)}; expected the id of a search", path, line)
        if isinstance(query.get("user_query"), str) and query["user_query"]:
            text[search] = query["user_query"]
        if query.get("client_id"):
            users[search] = str(query["client_id"])
        listed = query.get("query_response_hit_ids")
        if isinstance(listed, list):
            hits[search] = [str(document) for document in listed]
    return text, users, hits


Row = tuple[str, str, Any, int, int | None]


def _rows(
    shown_at: Mapping[str, Mapping[str, tuple[Any, int]]],
    clicked: Mapping[str, Mapping[str, tuple[Any, int]]],
    hits: Mapping[str, list[str]],
) -> tuple[list[Row], int]:
    """Search, document, position, click and line of every impression; how many clicks have no place."""
    rows: list[Row] = []
    unplaced = 0
    base = 0 if any(at == 0 for page in shown_at.values() for at, _ in page.values()) else 1
    for search in dict.fromkeys([*shown_at, *hits, *clicked]):
        page: dict[str, tuple[Any, int | None]] = dict(shown_at.get(search, {}))
        if not page:
            page = {document: (at, None) for at, document in enumerate(hits.get(search, ()), base)}
        for document, (position, line) in clicked.get(search, {}).items():
            if document not in page and position is None:
                unplaced += 1
            elif document not in page:
                page[document] = (position, line)
        clicks = clicked.get(search, {})
        rows += [(search, document, at, int(document in clicks), line) for document, (at, line) in page.items()]
    return rows, unplaced
