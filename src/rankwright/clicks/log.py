"""A log of impressions: which document was shown for which query, at which position, and whether it was clicked.

Ids are at the edge: inside, a pair of a query and a document is a number, and so are sessions and pages. A page is one
list of results as one user saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, shown
from rankwright.io.files import OpenFile, Progress, open_file
from rankwright.io.roles import CLICKS, DOCUMENT, accepted, check_columns, find, find_query, listed, plain
from rankwright.io.tables import (
    NamedRow,
    Table,
    json_lines,
    json_table,
    open_table,
    start_of,
    utf8_lines,
)

__all__ = ["ClickLog", "ClickPages", "click_pages", "drop_sessions", "read_clicks"]

Place = Callable[[int], tuple[str | Path | None, int | None]]
"""The file and the line of a row, for messages."""

_MAX = 1 << 53  # counts are summed as float64


def _nowhere(row: int) -> tuple[None, None]:
    return None, None


@dataclass(frozen=True, eq=False)
class ClickLog:
    """Impressions and clicks, one row for one impression or for several alike.

    Attributes
    ----------
    query_ids, doc_ids : ndarray of str
        The ids of queries and documents, in the order of their first appearance.
    pair_query, pair_doc : ndarray
        The query and the document of every pair, as numbers; pairs are ordered by query, then by document.
    pair, position : ndarray
        Pair and position (from 1) of every row.
    clicks, shown : ndarray
        Clicks among the impressions of every row; one impression unless the log counts them.
    session, page : ndarray or None
        Number of the session and of the page of every row.
    notes : tuple of str
        What a reader or a filter has to say, a line each.
    """

    query_ids: Array
    doc_ids: Array
    pair_query: Array
    pair_doc: Array
    pair: Array
    position: Array
    clicks: Array
    shown: Array
    session: Array | None = None
    page: Array | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return int(self.shown.sum())

    @property
    def n_clicks(self) -> int:
        """Number of clicks."""
        return int(self.clicks.sum())

    @property
    def n_pairs(self) -> int:
        """Number of pairs of a query and a document."""
        return len(self.pair_query)

    def rows(self, kept: Array, *notes: str) -> ClickLog:
        """The same log with some of its rows (a mask), and further notes; pairs keep their numbers."""
        session = None if self.session is None else self.session[kept]
        page = None if self.page is None else self.page[kept]
        ids = (self.query_ids, self.doc_ids, self.pair_query, self.pair_doc)
        columns = (self.pair[kept], self.position[kept], self.clicks[kept], self.shown[kept])
        return ClickLog(*ids, *columns, session, page, (*self.notes, *notes))

    @classmethod
    def from_columns(
        cls,
        query: Sequence[Any] | Array,
        document: Sequence[Any] | Array,
        position: Sequence[Any] | Array,
        clicked: Sequence[Any] | Array,
        *,
        count: Sequence[Any] | Array | None = None,
        session: Sequence[Any] | Array | None = None,
        page: Sequence[Any] | Array | None = None,
        place: Place = _nowhere,
        notes: Sequence[str] = (),
    ) -> ClickLog:
        """Make a log from columns, rows in any order.

        Parameters
        ----------
        query, document : sequence
            Ids; a query may be its text.
        position : array-like of int
            Position in the list of results, from 1.
        clicked : array-like of int
            0 or 1; with ``count``, how many of these impressions were clicked.
        count : array-like of int, optional
            Impressions that a row stands for; default 1.
        session : sequence, optional
            Id of the session or user, for filters; the rows of one session and one query are a page. Where such a page
            shows a position twice, it is two pages: the first rows of all positions are the first one.
        page : sequence, optional
            Id of the page, if the log has one.
        place : callable, optional
            File and line of a row, for messages.
        notes : sequence of str
            What to say of the log.

        Examples
        --------
        >>> log = ClickLog.from_columns(["q", "q"], ["d1", "d2"], [1, 2], [0, 1])
        >>> log.n_impressions, log.n_clicks, log.n_pairs
        (2, 1, 2)
        """
        n = len(query)
        if not n:
            raise InputError("the log has no impressions; expected at least one", place(0)[0])
        others = {"document": document, "position": position, "clicked": clicked, "count": count}
        for name, column in (others | {"session": session, "page": page}).items():
            if column is not None and len(column) != n:
                raise InputError(f"{n} rows but {len(column)} values of {name}; expected one value per row")
        positions = _checked_integers(position, 1, "position", "a whole number from 1", place)
        times = np.ones(n) if count is None else _checked_integers(count, 1, "count", "a whole number from 1", place)
        clicks = _checked_integers(clicked, 0, "clicked", "0 or 1" if count is None else "a number of clicks", place)
        if (clicks > times).any():
            row = int(np.argmax(clicks > times))
            expected = "0 or 1" if count is None else f"at most the {times[row]:.0f} impressions"
            raise InputError(f"clicked is {clicks[row]:.0f}; expected {expected}", *place(row))
        queries, query_ids = codes_of(query, "query", place)
        documents, doc_ids = codes_of(document, "document", place)
        keys, pair = np.unique(queries * len(doc_ids) + documents, return_inverse=True)
        sessions = None if session is None else codes_of(session, "session", place)[0]
        pages = None if page is None else codes_of(page, "page", place)[0]
        if pages is None and sessions is not None:
            pages = _pages(sessions, queries, positions)
        return cls(
            query_ids, doc_ids, keys // len(doc_ids), keys % len(doc_ids), pair, positions.astype(np.int64),
            clicks.astype(np.int64), times.astype(np.int64), sessions, pages, tuple(notes),
        )  # fmt: skip


def codes_of(values: Sequence[Any] | Array, name: str, place: Place = _nowhere) -> tuple[Array, Array]:
    """Ids as numbers in the order of first appearance, and the ids as text."""
    code_of: dict[str, int] = {}
    items = values.tolist() if isinstance(values, np.ndarray) else values
    codes = np.fromiter((code_of.setdefault(str(item), len(code_of)) for item in items), np.int64, len(items))
    if "" in code_of or None in items:
        row = next(row for row, item in enumerate(items) if item is None or str(item) == "")
        raise InputError(f"{name} is empty; expected an id in every row", *place(row))
    ids = np.empty(len(code_of), object)
    ids[:] = list(code_of)
    return codes, ids


def _pages(sessions: Array, queries: Array, positions: Array) -> Array:
    """A number for every list that a session saw: its k-th row of a query and position belongs to its k-th list."""
    seen = np.unique(sessions * (queries.max() + 1) + queries, return_inverse=True)[1]
    which = _occurrences(seen, positions)
    return np.unique(seen * (which.max() + 1) + which, return_inverse=True)[1]


def _occurrences(*columns: Array) -> Array:
    """How often the values of each row have occurred in the rows before it."""
    order = np.lexsort(columns[::-1])  # stable: rows alike stay in their order
    first = np.ones(len(order), bool)
    first[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    starts = np.flatnonzero(first)
    occurrences = np.empty(len(order), np.int64)
    occurrences[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return occurrences


def _checked_integers(values: Sequence[Any] | Array, minimum: int, name: str, expected: str, place: Place) -> Array:
    """Whole numbers as float64, checked."""
    try:
        numbers = np.asarray(values).astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([number_of(value) for value in np.asarray(values, object)])
    wrong = ~((numbers >= minimum) & (numbers < _MAX) & (numbers == np.floor(numbers)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{name} is {shown(np.asarray(values, object)[row])}; expected {expected}", *place(row))
    return numbers


def number_of(value: Any) -> float:
    """A value as a number, NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def drop_sessions(
    log: ClickLog, *, max_clicks: int = 50, max_impressions: int = 2000, max_share: float = 0.9, min_shown: int = 10
) -> ClickLog:
    """The log without sessions that look like programs; its notes say which were dropped, and how many.

    Parameters
    ----------
    log : ClickLog
        The log; unchanged where it names no sessions.
    max_clicks, max_impressions : int
        Most clicks and impressions of a session.
    max_share : float
        Largest share of its impressions that a session clicks, where it has at least ``min_shown`` of them.
    min_shown : int
        Fewest impressions for ``max_share``.

    Examples
    --------
    >>> session = ["a"] * 20 + ["b"] * 20
    >>> clicked = [1] * 20 + [1] + [0] * 19
    >>> log = ClickLog.from_columns(["q"] * 40, range(40), [*range(1, 21)] * 2, clicked, session=session)
    >>> drop_sessions(log).notes
    ('dropped 1 of 2 sessions (20 of 40 impressions): 1 that clicked more than 90% of 10 or more results',)
    """
    if log.session is None:
        return log
    shown = np.bincount(log.session, log.shown)
    clicks = np.bincount(log.session, log.clicks)
    rules = {
        f"with more than {max_clicks:,} clicks": clicks > max_clicks,
        f"with more than {max_impressions:,} impressions": shown > max_impressions,
        f"that clicked more than {max_share:.0%} of {min_shown:,} or more results": (shown >= min_shown)
        & (clicks > max_share * shown),
    }
    dropped = np.zeros(len(shown), bool)
    reasons = []
    for rule, sessions in rules.items():
        new = int((sessions & ~dropped).sum())
        reasons += [f"{new:,} {rule}"] if new else []
        dropped |= sessions
    if not dropped.any():
        return log
    present = int((shown > 0).sum())
    kept = ~dropped[log.session]
    lost = f"{int(shown[dropped].sum()):,} of {int(shown.sum()):,} impressions"
    return log.rows(kept, f"dropped {int(dropped.sum()):,} of {present:,} sessions ({lost}): {', '.join(reasons)}")


# Training data from a log: a query for every page, its documents with their features, and clicks as labels.


@dataclass(frozen=True, eq=False)
class ClickPages:
    """Pages to train on.

    Attributes
    ----------
    data : RankingData
        A query for every page, a row for every document that was shown there, clicks as labels.
    position : ndarray
        The position of every row, from 1.
    pair : ndarray
        A number for every row, the same on all pages that show the same document for the same query.
    n_impressions : int
        How many impressions the log has; those without features, and alone on their page, are left out.
    """

    data: RankingData
    position: Array
    pair: Array
    n_impressions: int

    @property
    def table(self) -> RankingData:
        """The data with the columns ``position`` and ``pair`` after the features, as it is written to files."""
        data = self.data
        exact = data.X.dtype if self.pair.max(initial=0) < 1 << 24 else np.float64  # float32 tells no more apart
        added = np.stack([self.position, self.pair], axis=1).astype(exact)
        names = None if data.feature_names is None else (*data.feature_names, "position", "pair")
        X = sparse.hstack([data.X, added], "csr") if data.is_sparse else np.hstack([data.X, added])
        return RankingData.from_arrays(
            X, data.labels, data.qid, doc_ids=data.doc_ids, feature_names=names, allow_missing=True,
            categories=data.categories,
        )  # fmt: skip


def click_pages(log: ClickLog, data: RankingData, query_ids: Sequence[str] | None = None) -> ClickPages:
    """The pages of a log, with the features that their documents have in some data.

    Pages without a click are kept: they say how often a document was shown where.

    Parameters
    ----------
    log : ClickLog
        One row per impression, with sessions or pages.
    data : RankingData
        Features of queries and documents, with their ids; labels do not matter.
    query_ids : sequence of str, optional
        The ids that the queries of the log have in the data, if these are others.

    Examples
    --------
    >>> log = ClickLog.from_columns(["q"] * 4, ["a", "b", "b", "a"], [1, 2, 1, 2], [0, 1, 0, 0], page=[7, 7, 8, 8])
    >>> features = RankingData.from_arrays([[0.5], [2.0]], [0, 0], ["q", "q"], doc_ids=["a", "b"])
    >>> pages = click_pages(log, features)
    >>> pages.data.qid.tolist(), pages.data.X.ravel().tolist(), pages.data.labels.tolist(), pages.position.tolist()
    (['q:1', 'q:1', 'q:2', 'q:2'], [0.5, 2.0, 2.0, 0.5], [0.0, 1.0, 0.0, 0.0], [1, 2, 1, 2])
    """
    if log.page is None or (log.shown > 1).any():
        problem = "is counted" if log.page is not None else "has neither sessions nor pages"
        raise InputError(f"the log {problem}; expected a row per impression, with a column session, user or page")
    if data.doc_ids is None:
        raise InputError("the features have no document ids; expected those of the log")
    row_of_pair = _row_of_pair(log, data, log.query_ids if query_ids is None else query_ids)
    order = np.lexsort((log.position, log.page))
    order = order[row_of_pair[log.pair[order]] >= 0]
    if not len(order):
        names = f"query {log.query_ids[0]!r} and document {log.doc_ids[0]!r}"
        raise InputError(f"no query and document of the log is among the features; expected such as {names}")
    sizes = np.bincount(log.page[order], minlength=int(log.page.max()) + 1)
    order = order[sizes[log.page[order]] > 1]
    if not len(order):
        raise InputError("no page of the log shows two documents that have features; expected some")
    first = np.flatnonzero(np.diff(log.page[order], prepend=-1))
    pair = log.pair[order]
    rows = row_of_pair[pair]
    page = np.repeat(_page_ids(log.pair_query[pair[first]], data, rows[first]), np.diff(np.append(first, len(order))))
    kept = RankingData.from_arrays(
        data.X[rows], log.clicks[order], page, doc_ids=data.doc_ids[rows], feature_names=data.feature_names,
        allow_missing=True, categories=data.categories,
    )  # fmt: skip
    return ClickPages(kept, log.position[order], pair, len(log.pair))


def _row_of_pair(log: ClickLog, data: RankingData, query_ids: Sequence[str] | Array) -> Array:
    """The row of the data for every pair of the log, −1 if there is none."""
    ids: Any = data.doc_ids
    keys = zip(map(str, data.qid.tolist()), map(str, ids.tolist()), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    queries, documents = np.asarray(query_ids, object)[log.pair_query], log.doc_ids[log.pair_doc]
    pairs = zip(queries.tolist(), documents.tolist(), strict=True)
    return np.array([row_of.get((str(query), document), -1) for query, document in pairs], np.int64)


def _page_ids(queries: Array, data: RankingData, rows: Array) -> Array:
    """The id of every page: that of its query in the data, and which of its pages it is, from 1."""
    number = _occurrences(queries) + 1
    names = data.qid[rows].tolist()
    return np.array([f"{name}:{count}" for name, count in zip(names, number.tolist(), strict=True)])


# Logs from files: tables of any container, and UBI events.
#
# Columns are found by name (`rankwright.io.roles`), or named by the caller. Two layouts count impressions: ``clicked``
# (0 or 1) with ``count``, how many rows alike there were, and ``clicks`` with ``impressions``, how many of these were
# clicked.


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
        if "action_name" in table.names:
            return _ubi_log(path, table.named(), queries)
        if queries is not None:
            raise InputError("has no UBI events; expected ubi_events as JSON lines, or no file of UBI queries", path)
        return _log(table, {"docid" if role == "document" else role: name for role, name in (columns or {}).items()})


def _opened(file: OpenFile, progress: Progress | None) -> Table:
    """The table in a file; objects of an export of hits are in ``_source``."""
    if not start_of(file).startswith(b"{"):
        return open_table(file, progress)
    objects = json_lines(utf8_lines(file, progress), file.path)
    hits = (
        (line, values["_source"] if isinstance(values.get("_source"), dict) else values) for line, values in objects
    )
    return json_table(hits, file.path)


def _object_at(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    inside = values.get(key)
    return inside if isinstance(inside, dict) else {}


def _roles(table: Table, given: Mapping[str, str]) -> dict[str, str]:
    """The column of each role that there is one for."""
    for role in given:
        if role not in CLICKS:
            raise InputError(f"a log has no column {role!r}; expected {', '.join(map(_shown, CLICKS))}")
    names = table.names
    check_columns(given, names, table.path, 1)
    chosen = {role: find(names, role, given, _DOCUMENTS if role == "docid" else ()) for role in CLICKS}
    chosen["query"] = find_query(names, given, text_first=True)
    missing = [role for role in ("query", "docid", "position", "clicked") if chosen[role] is None]
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


def _ubi_log(path: str | Path, events: Iterable[NamedRow], queries: str | Path | None) -> ClickLog:
    """The log of events, which have the key ``action_name``, and of the queries that they belong to."""
    text, users, hits = ({}, {}, {}) if queries is None else _queries(queries)
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
    rows, unplaced = _impressions(shown_at, clicked, hits)
    if not rows:
        expected = "expected events 'impression' with a position, or ubi_queries with query_response_hit_ids"
        raise InputError(f"no impressions among {n_events:,} events; {expected}", path)
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
    attributes = _object_at(event, "event_attributes")
    document = _object_at(attributes, "object").get("object_id")
    if document is None or document == "":
        problem = "the event has no event_attributes.object.object_id; expected the id of a document"
        raise InputError(problem, path, line)
    return str(document), _object_at(attributes, "position").get("ordinal")


def _queries(path: str | Path) -> tuple[dict[str, str], dict[str, str], dict[str, list[str]]]:
    """Text, user and results of every search."""
    text, users, hits = {}, {}, {}
    with open_file(path) as file:
        if not start_of(file):
            raise InputError("is empty; expected ubi_queries as JSON lines", path)
        rows = list(_opened(file, None).named())
    for line, query in rows:
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


def _impressions(
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
