"""A log of impressions: which document was shown for which query, at which position, and whether it was clicked.

Ids are at the edge: inside, a pair of a query and a document is a number, and so are sessions and pages. A page is one
list of results as one user saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError, shown

__all__ = ["ClickLog", "drop_sessions"]

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
    order = np.lexsort((positions, seen))  # stable: rows alike stay in the order of the log
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(seen[order]) != 0) | (np.diff(positions[order]) != 0)
    starts = np.flatnonzero(first)
    which = np.empty(len(order), np.int64)
    which[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return np.unique(seen * (which.max() + 1) + which, return_inverse=True)[1]


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
