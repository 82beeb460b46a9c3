"""Logs of impressions and clicks from files: CSV or tab-separated with a header line, JSON lines, Parquet; UBI events.

Columns are found by name, or named by the caller. Two layouts count impressions: ``clicked`` (0 or 1) with ``count``,
how many rows alike there were, and ``clicks`` with ``impressions``, how many of these were clicked.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.clicks.estimates import Propensities
from rankwright.clicks.log import ClickLog
from rankwright.clicks.ubi import is_ubi, ubi_log
from rankwright.data.files import OpenFile, Progress, open_file
from rankwright.data.frames import import_library
from rankwright.data.json_text import parse_json
from rankwright.errors import InputError, shown

__all__ = ["NAMES", "read_clicks", "read_propensities"]

NAMES = {
    "query": ("query", "query_id", "qid", "query_text", "user_query"),
    "document": ("document", "doc", "doc_id", "docid", "document_id", "docno", "object_id", "url", "item_id"),
    "position": ("position", "pos", "rank", "ordinal"),
    "clicked": ("clicked", "click", "is_click", "clicks"),
    "count": ("count", "impressions"),
    "session": ("session", "session_id"),
    "user": ("user", "user_id", "client_id"),
    "page": ("page", "page_id", "serp_id", "impression_id"),
}
"""The columns of a log, and the names they are found by, in this order."""

_NEEDED = ("query", "document", "position", "clicked")
_MARKS = "\t,;"
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class _Table:
    """Columns by name, and the line of every row."""

    path: str | Path
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int]

    def place(self, row: int) -> tuple[str | Path, int | None]:
        return self.path, self.lines[row] if row < len(self.lines) else None


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
        CSV or tab-separated text with a header line, JSON lines, Parquet; or ``ubi_events`` of OpenSearch's User
        Behavior Insights as JSON lines.
    columns : mapping, optional
        Names of columns, where they have others than those of :data:`NAMES`: ``{"query": "search_term"}``.
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
        if file.start(4) == _PARQUET:
            table = _parquet(file)
        else:
            rows = _text_lines(file, progress)
            first = next(rows, None)
            if first is None:
                raise InputError("is empty; expected a log: CSV with a header line, JSON lines or Parquet", path)
            if not first[0].startswith("{"):
                table = _csv(path, first, rows)
            else:
                objects = _objects(path, first, rows)
                head = next(objects)
                if is_ubi(head[0]):
                    return ubi_log(path, head, objects, None if queries is None else _query_objects(queries))
                table = _json(path, head, objects)
    if queries is not None:
        raise InputError("has no UBI events; expected ubi_events as JSON lines, or no file of UBI queries", path)
    return _log(table, dict(columns or {}))


def read_propensities(path: str | Path) -> Propensities:
    """Read propensities from CSV with the columns ``position`` and ``propensity``, as they are written.

    Examples
    --------
    >>> known = read_propensities("propensities.csv")  # doctest: +SKIP
    """
    with open_file(path) as file:
        rows = _text_lines(file, None)
        first = next(rows, None)
        table = None if first is None else _csv(path, first, rows)
    if table is None or not {"position", "propensity"} <= set(table.columns) or not table.lines:
        raise InputError("expected CSV with the columns position and propensity", path, 1)
    found: dict[float, float] = {}
    for row, (at, value) in enumerate(zip(table.columns["position"], table.columns["propensity"], strict=True)):
        position, number = _number(at), _number(value)
        if not position >= 1 or position != int(position) or position in found:
            raise InputError(f"position is {at!r}; expected each position once, from 1", *table.place(row))
        if value != "" and not 0 < number <= 1:
            raise InputError(f"propensity is {value!r}; expected a number above 0, at most 1", *table.place(row))
        found[position] = number
    positions = np.array(sorted(found), np.int64)
    nothing = np.full(len(positions), np.nan)
    return Propensities(positions, np.array([found[at] for at in sorted(found)]), nothing, nothing, nothing)


def _query_objects(path: str | Path) -> Iterator[tuple[dict[str, Any], int, str | Path]]:
    with open_file(path) as file:
        rows = _text_lines(file, None)
        first = next(rows, None)
        if first is None:
            raise InputError("is empty; expected ubi_queries as JSON lines", path)
        for found, line in _objects(path, first, rows):
            yield found, line, path


def _text_lines(file: OpenFile, progress: Progress | None) -> Iterator[tuple[str, int]]:
    """The lines of a file that are not blank, with their end, and their numbers."""
    number = 0
    for chunk in file.chunks(progress):
        for raw in chunk.splitlines(keepends=True) if b"\r" not in chunk else _split(chunk):
            number += 1
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError("not UTF-8 text; expected CSV, JSON lines or Parquet", file.path, number) from None
            if text.strip():
                yield text, number


def _split(chunk: bytes) -> Iterator[bytes]:
    """Lines that end with a newline; other ends of lines may be within quotation marks."""
    yield from (line + b"\n" for line in chunk.removesuffix(b"\n").split(b"\n"))


def _csv(path: str | Path, first: tuple[str, int], rows: Iterator[tuple[str, int]]) -> _Table:
    header = first[0]
    mark = next((mark for mark in _MARKS if mark in header), ",")
    at = first[1]

    def texts() -> Iterator[str]:
        nonlocal at
        yield header
        for text, at in rows:  # noqa: B007 - the line is read by the loop below
            yield text

    found: list[list[str]] = []
    lines: list[int] = []
    try:
        reader = csv.reader(texts(), delimiter=mark, strict=True)
        names = [name.strip() for name in next(reader)]
        for cells in reader:
            if len(cells) != len(names):
                raise InputError(f"{len(cells)} cells; expected {len(names)}, as in the header", path, at)
            found.append(cells)
            lines.append(at)
    except csv.Error as error:
        raise InputError(f"bad quotation marks ({error}); expected cells as in CSV", path, at) from None
    if len(set(names)) < len(names):
        raise InputError("two columns have the same name; expected different names", path, first[1])
    columns = list(zip(*found, strict=True)) if found else [()] * len(names)
    return _Table(path, dict(zip(names, columns, strict=True)), lines)


def _objects(
    path: str | Path, first: tuple[str, int], rows: Iterator[tuple[str, int]]
) -> Iterator[tuple[dict[str, Any], int]]:
    """The objects of JSON lines; those of an export of hits are in ``_source``."""
    text, line = first
    while True:
        try:
            found = parse_json(text)
        except ValueError as error:
            raise InputError(f"not JSON ({error}); expected one object per line", path, line) from None
        if not isinstance(found, dict):
            raise InputError(f"{shown(found)}; expected one JSON object per line", path, line)
        inner = found.get("_source")
        yield (inner if isinstance(inner, dict) else found), line
        following = next(rows, None)
        if following is None:
            return
        text, line = following


def _json(path: str | Path, head: tuple[dict[str, Any], int], rest: Iterator[tuple[dict[str, Any], int]]) -> _Table:
    names = list(head[0])
    columns: dict[str, list[Any]] = {name: [] for name in names}
    lines = []
    for found, line in (head, *rest):
        for name in names:
            columns[name].append(found.get(name))
        lines.append(line)
    return _Table(path, columns, lines)


def _parquet(file: OpenFile) -> _Table:
    arrow, parquet = import_library("pyarrow"), import_library("pyarrow.parquet")
    file.raw.seek(0)
    try:
        table = parquet.read_table(file.raw)
    except (arrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"not a complete Parquet file ({reason})", file.path) from None
    return _Table(file.path, {name: table[name].to_pylist() for name in table.column_names}, ())


def _found(table: _Table, given: Mapping[str, str]) -> dict[str, str]:
    """Which column is which."""
    for name, column in given.items():
        if name not in NAMES:
            raise InputError(f"a log has no column {name!r}; expected {', '.join(NAMES)}")
        if column not in table.columns:
            raise InputError(f"has no column {column!r}; found {', '.join(table.columns)}", table.path, 1)
    lower = {column.lower(): column for column in table.columns}
    found = {}
    for name, known in NAMES.items():
        chosen = given.get(name) or next((lower[one] for one in known if one in lower), None)
        if chosen is not None:
            found[name] = chosen
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        what = f"no column for {' and '.join(missing)} among {', '.join(table.columns)}"
        raise InputError(f"{what}; expected query, document, position and clicked, or --columns {missing[0]}=NAME",
                         table.path, 1 if table.lines else None)  # fmt: skip
    return found


def _log(table: _Table, given: Mapping[str, str]) -> ClickLog:
    found = _found(table, given)
    columns = {name: table.columns[column] for name, column in found.items()}
    ignored = [name for name in table.columns if name not in found.values()]
    notes = [f"columns: {', '.join(f'{name} is {column}' for name, column in found.items())}"]
    if ignored:
        notes.append(f"ignored columns: {', '.join(ignored)}")
    clicked, count = columns["clicked"], columns.get("count")
    if count is not None and found["clicked"].lower() != "clicks":
        clicked = _times(clicked, count, table)
    position = columns["position"]
    if _least(position) == 0:
        position = [_plus_one(value) for value in position]
        notes.append("positions count from 0: 1 was added")
    who = [columns[name] for name in ("user", "session") if name in columns]
    session = None if not who else who[0] if len(who) == 1 else list(zip(*who, strict=True))
    return ClickLog.from_columns(
        columns["query"], columns["document"], position, clicked, count=count, session=session,
        page=columns.get("page"), place=table.place, notes=notes,
    )  # fmt: skip


def _times(clicked: Sequence[Any], count: Sequence[Any], table: _Table) -> list[Any]:
    """The clicks of rows that stand for several impressions alike."""
    clicks: list[Any] = []
    for row, (one, n) in enumerate(zip(clicked, count, strict=True)):
        if _number(one) not in (0.0, 1.0):
            raise InputError(f"clicked is {shown(one)}; expected 0 or 1", *table.place(row))
        clicks.append(n if _number(one) else 0)
    return clicks


def _least(values: Sequence[Any]) -> float:
    try:
        return float(np.asarray(values).astype(np.float64).min(initial=np.inf))
    except (TypeError, ValueError):
        return min((number for number in map(_number, values) if number == number), default=np.inf)


def _plus_one(value: Any) -> Any:
    number = _number(value)
    return value if number != number else number + 1


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
