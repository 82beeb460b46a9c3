"""OpenSearch's User Behavior Insights: ``ubi_events`` and ``ubi_queries`` as a log of impressions and clicks.

A ``query_id`` is one search by one user, so one page. Impressions are the events ``impression`` with an object and a
position; where a search has none, the results that ``ubi_queries`` lists (``query_response_hit_ids``). Clicks are the
events ``click``; one on a result that was never shown counts as shown where the event gives its position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from rankwright.clicks.log import ClickLog
from rankwright.errors import InputError, shown
from rankwright.io.tables import NamedRow

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
    least = min((row[2] for row in rows if isinstance(row[2], int | float)), default=1)
    if least == 0:
        notes.append("positions count from 0: 1 was added")
    searches = [row[0] for row in rows]
    return ClickLog.from_columns(
        [text.get(search, search) for search in searches],
        [row[1] for row in rows],
        [row[2] + 1 if least == 0 and isinstance(row[2], int | float) else row[2] for row in rows],
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
    found, place = inside.get("object"), inside.get("position")
    document = found.get("object_id") if isinstance(found, dict) else None
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
    for (line, found), path in queries:
        search = found.get("query_id")
        if not isinstance(search, str) or not search:
            raise InputError(f"query_id is {shown(search)}; expected the id of a search", path, line)
        if isinstance(found.get("user_query"), str) and found["user_query"]:
            text[search] = found["user_query"]
        if found.get("client_id"):
            users[search] = str(found["client_id"])
        listed = found.get("query_response_hit_ids")
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
