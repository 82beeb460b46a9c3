"""Feature data as a table in text: a header line, then one row per document (see :mod:`rankwright.data.delimited`).

A column whose cells are all numbers is a feature, and so is one of texts, as categories; empty cells are missing. A
column that mixes both is refused: a stray word would turn every number of it into a category.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import NO_CATEGORY, category_numbers, named
from rankwright.data.columns import MAX_FIELD
from rankwright.data.dataset import RankingData
from rankwright.data.delimited import Table, open_table, utf8_lines
from rankwright.data.files import OpenFile, Progress, Source, open_file
from rankwright.data.roles import DOCUMENT, LABEL, QUERY_ID, QUERY_TEXT, TEXTS, Columns, check_columns, find, named_in
from rankwright.data.roles import plain as plain_name
from rankwright.data.rows import Rows
from rankwright.errors import InputError, InputWarning, shown

__all__ = ["MISSING", "FeatureLayout", "TableRows", "feature_layout", "opened_table", "read_csv"]

Array = npt.NDArray[Any]
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Cells without a value, in lower case."""

_LABEL = tuple(name for name in LABEL if name not in ("score", "gain"))  # which may be features
_QUEPID = frozenset(("case_name", "doc_position"))  # its detailed export: judgements, and fields of documents
_BATCH_ROWS = 1 << 15
_NO_ROWS = "has no rows after its header; expected one per document"
_MANY = 50  # rows from which on a column of different texts is told
_TRUTH = {"true": 1.0, "false": 0.0}
_AMOUNT = re.compile(r"[+-]?\s?[$€£¥]?\s?[0-9][0-9.,' ]*\s?[%$€£¥]?")


@dataclass(frozen=True)
class FeatureLayout:
    """Which column of a table is what."""

    qid: str
    label: str
    docid: str | None
    features: list[str]
    skipped: list[str]
    categorical: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        documents = "" if self.docid is None else f", documents {self.docid!r}"
        features = "1 feature" if len(self.features) == 1 else f"{len(self.features):,} features"
        skipped = f"; skipped {named(self.skipped)}" if self.skipped else ""
        return f"queries {self.qid!r}{documents}, labels {self.label!r}, {features}{skipped}"


def feature_layout(names: Sequence[str], columns: Columns | None = None) -> FeatureLayout | None:
    """The roles of columns, found by name or named by the user; None if there are no features, queries or labels.

    Examples
    --------
    >>> print(feature_layout(["query_id", "Grade", "url", "bm25", "title"]))
    queries 'query_id', documents 'url', labels 'Grade', 1 feature; skipped 'title'
    """
    check_columns(columns, names)
    label, docid = find(names, "label", columns, _LABEL), find(names, "docid", columns, DOCUMENT)
    qid = find(names, "qid", columns, (*QUERY_ID, *QUERY_TEXT))
    if qid is None or label is None or (not columns and {plain_name(name) for name in names} >= _QUEPID):
        return None
    roles = (qid, label, docid)
    asked, unwanted = named_in(columns, "categorical"), named_in(columns, "skip")
    wanted = {*asked, *named_in(columns, "feature")}
    skipped: list[str] = []
    features: list[str] = []
    for name in names:
        if name in roles:
            continue
        is_feature = name in wanted if wanted - {*asked} else name in asked or _may_be_feature(name)
        (features if is_feature and name not in unwanted else skipped).append(name)
    return FeatureLayout(qid, label, docid, features, skipped, asked) if features else None


def _may_be_feature(name: str) -> bool:
    return bool(name) and plain_name(name) not in TEXTS


def read_csv(
    path: Source,
    *,
    columns: Columns | None = None,
    dtype: npt.DTypeLike | None = None,
    negative: Literal["error", "zero"] = "error",
    progress: Progress | None = None,
) -> RankingData:
    """Read feature data from CSV, tab-separated text or text with semicolons, plain or gzip, with a header line.

    Parameters
    ----------
    path : path
        The file.
    columns : mapping, optional
        Columns by role: ``qid``, ``label``, ``docid``; ``feature`` (no others are features then), ``skip`` and
        ``categorical`` (several, one per line). By default they are found by name: ``qid`` or ``query_id``, else
        ``query``; ``label``, ``rating``, ``grade``, ``relevance`` or ``rel``; ``docid``, ``doc_id``, ``docno``, ``id``
        or ``url``. Columns that are known to be for reading, such as ``title``, are left out; all others are features.
    dtype : float32 or float64, optional
        Type of the features; by default float32, with columns of text float64.
    negative : {"error", "zero"}
        Whether a label below 0 is an error or becomes 0.
    progress : callable, optional
        Called with (bytes read, total bytes).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.csv"
    ...     _ = path.write_text("query_id,grade,bm25,price\\nq1,2,7.5,\\nq1,0,3.25,10\\n")
    ...     data = read_csv(path)
    >>> data.feature_names, data.labels.tolist(), data.X.tolist()
    (('bm25', 'price'), [2.0, 0.0], [[7.5, nan], [3.25, 10.0]])
    """
    with open_file(path) as file:
        return _read(*opened_table(file, columns, progress), dtype, negative)


def opened_table(
    file: OpenFile, columns: Columns | None, progress: Progress | None = None
) -> tuple[Table, FeatureLayout]:
    """The table in an open file, and what its columns are."""
    table = open_table(utf8_lines(file, progress), file.path)
    try:
        layout = feature_layout(table.names, columns)
    except InputError as error:
        raise InputError(error.message, file.path) from None
    if layout is None:
        what = "expected columns for queries (qid, query_id), labels (label, rating, grade) and features"
        raise InputError(f"has the columns {table.shown}; {what}; --columns names others", file.path, 1)
    return table, layout


class TableRows:
    """The rows of a table, some at a time.

    Attributes
    ----------
    categories : dict
        The texts of each column of them, by its number, so far. While a column had no text yet, a missing one is NaN.
    """

    def __init__(self, table: Table, layout: FeatureLayout, dtype: np.dtype[Any], negative: str) -> None:
        self._table, self._layout, self._dtype, self._negative = table, layout, dtype, negative
        self._columns = [_Column(name, table.path, name in layout.categorical) for name in layout.features]

    @property
    def categories(self) -> dict[int, dict[Any, None]]:
        """See above."""
        return {at: dict.fromkeys(column.texts) for at, column in enumerate(self._columns) if column.is_text}

    def __iter__(self) -> Iterator[Rows]:
        at = {name: place for place, name in enumerate(self._table.names)}
        layout, path = self._layout, self._table.path
        n_rows = 0
        for lines, cells in ((lines, list(zip(*rows, strict=True))) for lines, rows in _batches(self._table)):
            labels, qid = _Column(layout.label, path), _Ids(layout.qid, path)
            docid = None if layout.docid is None else _Ids(layout.docid, path)
            qid.add(cells[at[layout.qid]], lines)
            labels.add(cells[at[layout.label]], lines)
            if docid is not None:
                docid.add(cells[at[layout.docid or ""]], lines)
            X = np.empty((len(lines), len(self._columns)), self._dtype)
            for place, column in enumerate(self._columns):
                column.add(cells[at[column.name]], lines)
                if column.is_text and self._dtype != np.float64:
                    what = f"{self._dtype} cannot hold the categories of {column.name!r}"
                    raise InputError(f"{what}; expected float64", path)
                X[:, place] = column.take(self._dtype)
            n_rows += len(lines)
            yield Rows(X, labels.labels(self._negative), qid.finish(), None if docid is None else docid.finish())
        if not n_rows:
            raise InputError(_NO_ROWS, path)
        for column in self._columns:
            column.warn(n_rows)


def _read(table: Table, layout: FeatureLayout, dtype: npt.DTypeLike | None, negative: str) -> RankingData:
    at = {name: place for place, name in enumerate(table.names)}
    found = {name: _Column(name, table.path, name in layout.categorical) for name in layout.features}
    labels = _Column(layout.label, table.path)
    qid, docid = _Ids(layout.qid, table.path), None if layout.docid is None else _Ids(layout.docid, table.path)
    for lines, rows in _batches(table):
        cells = list(zip(*rows, strict=True))
        qid.add(cells[at[layout.qid]], lines)
        if docid is not None:
            docid.add(cells[at[layout.docid or ""]], lines)
        labels.add(cells[at[layout.label]], lines)
        for name, column in found.items():
            column.add(cells[at[name]], lines)
    if not qid.parts:
        raise InputError(_NO_ROWS, table.path)
    label = labels.labels(negative)
    is_text = [column for column in found.values() if column.is_text]
    wanted = np.dtype(dtype or (np.float64 if is_text else np.float32))
    if is_text and wanted != np.float64:
        held = named(column.name for column in is_text)
        raise InputError(f"{wanted} cannot hold the categories of {held}; expected float64", table.path)
    X = np.empty((len(label), len(found)), wanted)
    categories = {}
    for place, column in enumerate(found.values()):
        values, texts = column.finish(wanted)
        X[:, place] = values
        if texts is not None:
            categories[place] = texts
    ids = None if docid is None else docid.finish()
    return RankingData.from_arrays(
        X,
        label,
        qid.finish(),
        doc_ids=ids,
        feature_names=layout.features,
        allow_missing=True,
        categories=categories,
    )


def _batches(table: Table) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Rows, many at once, and their lines."""
    rows, n_cells = table.rows, len(table.names)
    while batch := list(islice(rows, _BATCH_ROWS)):
        lines, cells = [line for line, _ in batch], [row for _, row in batch]
        if set(map(len, cells)) != {n_cells}:
            at = next(place for place, row in enumerate(cells) if len(row) != n_cells)
            raise table.uneven(len(cells[at]), lines[at])
        yield lines, cells


class _Ids:
    """A column of ids, which must all be there."""

    def __init__(self, name: str, path: str | Path) -> None:
        self._name, self._path = name, path
        self.parts: list[Array] = []

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        ids = [cell.strip() for cell in cells]
        if not all(ids):
            line = lines[ids.index("")]
            raise InputError(f"the column {self._name!r} is empty; expected an id in every row", self._path, line)
        longest = max(ids, key=len)
        if len(longest) > MAX_FIELD:
            what = f"the column {self._name!r} has an id of {len(longest):,} characters; expected at most {MAX_FIELD}"
            raise InputError(what, self._path, lines[ids.index(longest)])
        self.parts.append(np.array(ids))

    def finish(self) -> Array:
        return np.concatenate(self.parts)


class _Column:
    """A column of numbers or of texts; which of them, its cells tell."""

    def __init__(self, name: str, path: str | Path, is_text: bool = False) -> None:
        self.name, self._path = name, path
        self.is_text = is_text
        self._forced = is_text
        self._first_number: tuple[int, str] | None = None
        self._parts: list[Array] = []
        self._lines: list[Sequence[int]] = []  # of each part
        self._texts: dict[str, int] = {}
        self._numbers: list[float] = []  # which stand for the texts

    def add(self, cells: Sequence[str], lines: Sequence[int]) -> None:
        """Add cells: quickly if all are plain numbers."""
        self._lines.append(range(lines[0], lines[-1] + 1) if lines[-1] - lines[0] == len(lines) - 1 else lines)
        if not self.is_text and "_" not in "".join(cells):
            try:
                values = np.array(list(map(float, cells)))
            except ValueError:
                values = np.array([math.nan])
            if np.isfinite(values).all():
                self._first_number = self._first_number or (lines[0], cells[0])
                self._parts.append(values)
                return
        self._parts.append(np.array([self._value(cell.strip(), line) for cell, line in zip(cells, lines, strict=True)]))

    def _value(self, cell: str, line: int) -> float:
        """A number, or −1 − the place of a text among all; NaN is missing."""
        if cell.lower() in MISSING:
            return math.nan
        number = None if self._forced else _number(cell)
        if number is None:
            if not self.is_text and self._first_number is not None:
                raise self._mixed(cell, line, *self._first_number)
            if not self._forced and _AMOUNT.fullmatch(cell):
                what = f"{self.name} is {shown(cell)}; expected a plain number with a decimal point"
                raise InputError(f"{what}, no commas and no signs", self._path, line)
            self.is_text = True
            return float(self._texts.setdefault(cell, len(self._texts)))
        if not math.isfinite(number):
            raise InputError(f"{self.name} is {shown(cell)}; expected a finite number", self._path, line)
        if self.is_text:
            raise self._mixed(cell, line, 0, next(iter(self._texts)))
        self._first_number = self._first_number or (line, cell)
        return number

    def _mixed(self, cell: str, line: int, first_line: int, first: str) -> InputError:
        where = f" on line {first_line:,}" if first_line else ""
        what = f"{self.name} is {shown(cell)}, and {shown(first)}{where}"
        expected = "expected only numbers (an empty cell is missing) or only texts"
        return InputError(
            f"{what}; {expected}; --columns categorical={self.name} takes both as texts", self._path, line
        )

    def labels(self, negative: str) -> Array:
        """The column as labels, which must all be there."""
        if self.is_text:
            first = shown(next(iter(self._texts)))
            raise InputError(f"{self.name} is {first}; expected labels that are numbers, such as 0 to 4", self._path)
        labels = np.concatenate(self._parts)
        remedy = '(--negative-as-zero or negative="zero" reads it as 0)'
        for is_wrong, what in (
            (np.isnan(labels), "is missing; expected a label in every row"),
            ((labels < 0) & (negative == "error"), f"is negative; expected a number of at least 0 {remedy}"),
        ):
            if is_wrong.any():
                raise InputError(f"{self.name} {what}", self._path, self._line_of(int(np.argmax(is_wrong))))
        return np.maximum(labels, 0)

    def _line_of(self, row: int) -> int:
        for lines in self._lines:
            if row < len(lines):
                return lines[row]
            row -= len(lines)
        raise IndexError(row)

    def finish(self, dtype: np.dtype[Any]) -> tuple[Array, tuple[Any, ...] | None]:
        """The values, and the categories of a column of texts."""
        values = self.take(dtype)
        self.warn(len(values))
        return values, tuple(self._texts) if self.is_text else None

    def take(self, dtype: np.dtype[Any]) -> Array:
        """The values of the cells since the last call, as numbers; the cells are then forgotten."""
        values = np.concatenate(self._parts)
        if self.is_text:
            new = list(self._texts)[len(self._numbers) :]
            self._numbers += category_numbers(new, f"the column {self.name!r}")[1].tolist()
            codes = np.where(np.isnan(values), len(self._numbers), values).astype(np.int64)
            taken = np.append(self._numbers, NO_CATEGORY)[codes]
        else:
            with np.errstate(over="ignore"):
                taken = values.astype(dtype)
            if np.isinf(taken).any():
                row = int(np.argmax(np.isinf(taken)))
                what = f"{self.name} is {values[row]:g}; expected a number that fits {dtype}"
                raise InputError(what, self._path, self._line_of(row))
        self._parts, self._lines = [], []
        return taken

    @property
    def texts(self) -> Sequence[str]:
        """The different texts so far."""
        return tuple(self._texts)

    def warn(self, n_rows: int) -> None:
        """Say that a column of texts is probably none of categories."""
        if self.is_text and len(self._texts) == n_rows >= _MANY:
            what = f"the column {self.name!r} has another text in every row and became categories"
            warnings.warn(f"{self._path}: {what}; --columns skip={self.name} leaves it out", InputWarning, stacklevel=2)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return _TRUTH.get(cell.lower())
