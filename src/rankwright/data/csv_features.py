"""Feature data as a table in text: a header line, then one row per document (see :mod:`rankwright.data.delimited`).

What the cells of a column make of it, :mod:`rankwright.data.csv_columns` says. Large files are read by compiled code
(:mod:`rankwright.data.csv_fast`), with the same result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import named
from rankwright.data.csv_columns import IdColumn, ValueColumn
from rankwright.data.dataset import RankingData
from rankwright.data.delimited import HEADER_BYTES, Table, open_table, utf8_lines
from rankwright.data.files import CHUNK_BYTES, OpenFile, Progress, Source, open_file
from rankwright.data.roles import DOCUMENT, LABEL, QUERY_ID, QUERY_TEXT, TEXTS, Columns, check_columns, find, named_in
from rankwright.data.roles import plain as plain_name
from rankwright.data.rows import Rows
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.data.csv_fast import Chunk

__all__ = ["FeatureLayout", "TableRows", "feature_layout", "opened_table", "read_csv"]

Array = npt.NDArray[Any]
_LABEL = tuple(name for name in LABEL if name not in ("score", "gain"))  # which may be features
_QUEPID = frozenset(("case_name", "doc_position"))  # its detailed export: judgements, and fields of documents
_BATCH_ROWS = 1 << 15
_LARGE, _LARGE_IF_LOADED, _PACKED = 1 << 23, 1 << 16, 4  # bytes; how far gzip packs a table
_NO_ROWS = "has no rows after its header; expected one per document"


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
        table, layout = opened_table(file, columns, size=HEADER_BYTES)
        if _is_large(file):
            quick = _read_quickly(file, table, layout, dtype, negative, progress)
            if quick is not None:
                return quick
        table = open_table(utf8_lines(file, progress), file.path)  # from its start again
        found = _Found(layout, file.path)
        for lines, rows in _batches(table):
            found.add(dict(zip(table.names, zip(*rows, strict=True), strict=True)), lines)
        return found.finish(dtype, negative)


def opened_table(
    file: OpenFile, columns: Columns | None, progress: Progress | None = None, size: int = CHUNK_BYTES
) -> tuple[Table, FeatureLayout]:
    """The table in an open file, which is read in pieces of ``size``, and what its columns are."""
    table = open_table(utf8_lines(file, progress, size), file.path)
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
        self._columns = [ValueColumn(name, table.path, name in layout.categorical) for name in layout.features]

    @property
    def categories(self) -> dict[int, dict[Any, None]]:
        """See above."""
        return {at: dict.fromkeys(column.texts) for at, column in enumerate(self._columns) if column.is_text}

    def __iter__(self) -> Iterator[Rows]:
        at = {name: place for place, name in enumerate(self._table.names)}
        layout, path = self._layout, self._table.path
        n_rows = 0
        for lines, cells in ((lines, list(zip(*rows, strict=True))) for lines, rows in _batches(self._table)):
            labels, qid = ValueColumn(layout.label, path), IdColumn(layout.qid, path)
            docid = None if layout.docid is None else IdColumn(layout.docid, path)
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


def _is_large(file: OpenFile) -> bool:
    """Whether compiled code pays: loading it takes as long as some megabytes in Python."""
    size = os.fstat(file.raw.fileno()).st_size * (_PACKED if file.is_gzip else 1)
    return size >= (_LARGE if "numba" not in sys.modules else _LARGE_IF_LOADED)


def _read_quickly(
    file: OpenFile,
    table: Table,
    layout: FeatureLayout,
    dtype: npt.DTypeLike | None,
    negative: str,
    progress: Progress | None,
) -> RankingData | None:
    """The same data by compiled code; None if anything is unusual, or wrong."""
    from rankwright.data.csv_fast import Unusual, read_chunks
    from rankwright.data.csv_kernel import NUMBER, SPAN

    found = _Found(layout, file.path)
    kinds = dict.fromkeys(found.numbers, NUMBER) | dict.fromkeys(found.ids, SPAN)
    kinds |= dict.fromkeys(layout.categorical, SPAN)
    try:
        for chunk in read_chunks(file, table.names, table.delimiter, kinds, progress):
            found.add_chunk(chunk)
            kinds |= {name: SPAN for name, column in found.numbers.items() if column.is_text}
        return found.finish(dtype, negative)
    except (Unusual, InputError):  # the reader of rows knows the line
        return None


class _Found:
    """The columns of a table while it is read."""

    def __init__(self, layout: FeatureLayout, path: str | Path) -> None:
        self._layout, self._path = layout, path
        self.numbers = {name: ValueColumn(name, path, name in layout.categorical) for name in layout.features}
        self.numbers[layout.label] = ValueColumn(layout.label, path)
        self.ids = {name: IdColumn(name, path) for name in (layout.qid, layout.docid) if name is not None}

    def add(self, cells: Mapping[str, Sequence[str]], lines: Sequence[int]) -> None:
        """Add rows."""
        for name, ids in self.ids.items():
            ids.add(cells[name], lines)
        for name, column in self.numbers.items():
            column.add(cells[name], lines)

    def add_chunk(self, chunk: Chunk) -> None:
        """Add rows that compiled code has read."""
        for name, ids in self.ids.items():
            ids.add_array(chunk.ids(name))
        for name, column in self.numbers.items():
            if name in chunk.spans:
                column.add_texts(chunk.cells(chunk.spans[name]))
            else:
                column.add_values(chunk.values[name], *chunk.odd_cells(name))

    def finish(self, dtype: npt.DTypeLike | None, negative: str) -> RankingData:
        """The data."""
        layout, path = self._layout, self._path
        if not self.ids[layout.qid].parts:
            raise InputError(_NO_ROWS, path)
        label = self.numbers[layout.label].labels(negative)
        features = [self.numbers[name] for name in layout.features]
        is_text = [column for column in features if column.is_text]
        wanted = np.dtype(dtype or (np.float64 if is_text else np.float32))
        if is_text and wanted != np.float64:
            held = named(column.name for column in is_text)
            raise InputError(f"{wanted} cannot hold the categories of {held}; expected float64", path)
        X = np.empty((len(label), len(features)), wanted)
        categories = {}
        for place, column in enumerate(features):
            values, texts = column.finish(wanted)
            X[:, place] = values
            if texts is not None:
                categories[place] = texts
        return RankingData.from_arrays(
            X,
            label,
            self.ids[layout.qid].finish(),
            doc_ids=None if layout.docid is None else self.ids[layout.docid].finish(),
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
