"""Feature data from a table: one layout and one rule for missing values, whatever the container.

A table of features has a column of queries, one of labels and optionally one of documents, by the names of
:mod:`rankwright.io.roles`; all others are features, except those for people to read. A missing feature (an empty cell,
``NA``, NaN, null) is NaN, in a column of categories :data:`~rankwright.data.categories.NO_CATEGORY`; queries, labels
and documents must all be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.categories import NO_CATEGORY, category_numbers, named
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, shown
from rankwright.io.fields import MAX_FIELD
from rankwright.io.frames import (
    FrameColumns,
    category_column,
    check_different,
    columns_of,
    float32_holds,
    number_column,
    number_type,
)
from rankwright.io.roles import (
    TEXTS,
    ColumnLayout,
    Columns,
    check_columns,
    find,
    find_query,
    lacking,
    listed,
    named_in,
    plain,
)

__all__ = ["from_frame"]

_QUEPID = frozenset(("case_name", "doc_position"))  # its detailed export: judgements, and fields of documents


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Documents one after the other, as they are read: not checked against each other, queries in any order.

    `X`: features, one row per document. `labels`, `qid`: one label and one query id per row. `doc_ids`: one document id
    per row.
    """

    X: Any
    labels: Array
    qid: Array
    doc_ids: Array | None = None

    @property
    def n_bytes(self) -> int:
        """About how much memory they take."""
        values = self.X.data.nbytes + self.X.indices.nbytes if hasattr(self.X, "indptr") else self.X.nbytes
        ids = 0 if self.doc_ids is None else self.doc_ids.nbytes
        return int(values + self.labels.nbytes + self.qid.nbytes + ids)

    def take(self, rows: npt.NDArray[np.int64]) -> ReadRows:
        ids = None if self.doc_ids is None else self.doc_ids[rows]
        return ReadRows(self.X[rows], self.labels[rows], self.qid[rows], ids)


def feature_layout(
    names: Sequence[str],
    columns: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
) -> ColumnLayout | None:
    """Find the roles of columns; None if there are no features, queries or labels.

    Features are ``features``, in this order, or all other columns but those for people to read. A column called
    ``title`` is not for people to read where its type, by ``kinds``, is one of numbers or of categories.

    Examples
    --------
    >>> print(feature_layout(["query_id", "Grade", "url", "bm25", "title"]))
    queries 'query_id', documents 'url', labels 'Grade', 1 feature; skipped 'title'
    """
    check_columns(columns, names)
    qid, label, docid = find_query(names, columns), find(names, "label", columns), find(names, "docid", columns)
    if qid is None or label is None or (not columns and {plain(name) for name in names} >= _QUEPID):
        return None
    others = [name for name in names if name not in (qid, label, docid)]
    asked, unwanted = named_in(columns, "categorical"), named_in(columns, "skip")
    if features is not None:
        wanted = list(features)
    elif named_in(columns, "feature"):
        wanted = [name for name in others if name in {*asked, *named_in(columns, "feature")}]
    else:
        declared = [name for name, kind in (kinds or {}).items() if kind in ("number", "category")]
        wanted = [name for name in others if name and (name in {*asked, *declared} or plain(name) not in TEXTS)]
    chosen = [name for name in wanted if name not in unwanted]
    if not chosen:
        return None
    return ColumnLayout(qid, label, docid, chosen, [name for name in others if name not in chosen], asked)


def required_layout(
    names: Sequence[str],
    columns: Columns | None = None,
    kinds: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
) -> ColumnLayout:
    """Like :func:`feature_layout`; what is missing is an error."""
    for name in features or ():
        if name not in names:
            raise InputError(f"there is no column {name!r}; the columns are {listed(names)}")
    layout = feature_layout(names, columns, kinds, features)
    if layout is not None:
        return layout
    if not names:
        raise InputError("the table has no columns")
    missing = lacking(names, columns, "qid", "label")
    if missing:
        raise InputError(f"has the columns {listed(names)}; {missing}")
    raise InputError(f"no feature columns among {listed(names)}; expected one or more beside queries and labels")


def from_frame(
    frame: Any,
    *,
    qid: str | None = None,
    docid: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    columns: Columns | None = None,
) -> RankingData:
    """Turn a data frame into ranking data.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        One row per document, in any order.
    qid, label, docid : str, optional
        The columns of query ids, labels and document ids; by default found by name, as in every table: ``qid``,
        ``query_id``, …; ``label``, ``rating``, …; ``docid``, ``doc_id``, …, which may be missing.
    features : sequence of str, optional
        The feature columns; by default all other columns but those of text that are for people to read, such as
        ``title``. A missing value is NaN. Columns of strings, and those of pandas' type category, polars' Categorical
        and Enum, and pyarrow's dictionaries, hold categories, which rankers made of trees can use. Without
        categories, features are float32 if every column fits (float32, integers of up to 16 bits, booleans),
        otherwise float64.
    columns : mapping, optional
        Columns by role, as :func:`rankwright.read_data` takes them: also ``skip`` and ``categorical``.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"qid": ["a", "a"], "label": [1, 0], "bm25": [2.5, 0.5]})
    >>> data = from_frame(frame)
    >>> data.feature_names, data.labels.tolist()
    (('bm25',), [1.0, 0.0])
    """
    table = columns_of(frame)
    check_different(table.names)
    given = by_role(columns, qid, docid, label)
    layout = typed_layout(table, required_layout(table.names, given, table.kinds(), features))
    if table.n_rows == 0:
        raise InputError("there are no rows")
    categories: dict[int, dict[Any, None]] = {}
    rows = typed_rows(table, layout, 0, type_of_features(table, layout), categories)
    return made_data(rows, layout, {at: tuple(values) for at, values in categories.items()})


def by_role(columns: Columns | None, qid: str | None, docid: str | None, label: str | None) -> dict[str, str]:
    """Return columns by role, those given one by one among them."""
    given = {"qid": qid, "docid": docid, "label": label}
    return {**(columns or {}), **{role: name for role, name in given.items() if name is not None}}


def typed_layout(table: FrameColumns, layout: ColumnLayout) -> ColumnLayout:
    """Return a layout with all columns that hold categories, by their types or as the user says."""
    number_type(table, layout.label)
    kinds = {name: table.kind(name) for name in layout.features}
    asked = [name for name in layout.features if name in layout.categorical or kinds[name] in ("category", "text")]
    for name in layout.features:
        if name not in asked:
            number_type(table, name)
    return ColumnLayout(layout.qid, layout.label, layout.docid, layout.features, layout.skipped, asked)


def type_of_features(table: FrameColumns, layout: ColumnLayout) -> np.dtype[Any]:
    """Return the type that holds all features: float32 for small numbers only; categories need float64."""
    small = not layout.categorical and float32_holds([number_type(table, name) for name in layout.features])
    return np.dtype(np.float32 if small else np.float64)


def typed_rows(
    batch: FrameColumns,
    layout: ColumnLayout,
    start: int,
    dtype: np.dtype[Any],
    categories: dict[int, dict[Any, None]],
) -> ReadRows:
    """Return the rows of a batch of columns; the categories that occur are added to ``categories``, by column.

    ``start`` is the number of its first row, for messages.
    """
    X = np.empty((batch.n_rows, len(layout.features)), dtype)
    if layout.categorical and dtype != np.float64:
        raise InputError(f"{dtype} cannot hold the categories of {named(layout.categorical)}; expected float64")
    labels = _finite(batch, layout.label, start, np.dtype(np.float64))
    if np.isnan(labels).any():
        raise _no_value(layout.label, start + int(np.argmax(np.isnan(labels))))
    categorical = set(layout.categorical)
    for at, name in enumerate(layout.features):
        if name not in categorical:
            X[:, at] = _finite(batch, name, start, dtype)
            continue
        is_number = batch.number_type(name) is not None
        X[:, at], values = _number_categories(batch, name, start) if is_number else category_column(batch, name)
        categories.setdefault(at, {}).update(dict.fromkeys(values))
    doc_ids = None if layout.docid is None else _ids(batch, layout.docid, start)
    qid = _ids(batch, layout.qid, start)
    if qid.dtype.kind in "UO" and (qid == "").any():
        raise _no_value(layout.qid, start + int(np.argmax(qid == "")))
    return ReadRows(X, labels, qid, doc_ids)


def _finite(batch: FrameColumns, name: str, start: int, dtype: np.dtype[Any]) -> Array:
    """A column of finite numbers, NaN where one is missing."""
    values = number_column(batch, name, dtype)
    infinite = np.isinf(values)
    if infinite.any():  # also a float64 too large for float32
        what = f"column {name!r}, row {start + int(np.argmax(infinite))} (from 0) is infinite or too large for {dtype}"
        raise InputError(f"{what}; expected a finite number")
    return values


def _number_categories(batch: FrameColumns, name: str, start: int) -> tuple[Array, tuple[str, ...]]:
    """A column of numbers that the user calls categorical: its numbers are taken as texts, as in a table in text."""
    values = _finite(batch, name, start, np.dtype(np.float64))
    distinct, first, places = np.unique(values[~np.isnan(values)], return_index=True, return_inverse=True)
    texts = [f"{number:.0f}" if number.is_integer() else repr(number) for number in distinct.tolist()]
    taken = np.full(len(values), NO_CATEGORY)
    taken[~np.isnan(values)] = category_numbers(texts, f"the column {name!r}")[1][places]
    return taken, tuple(texts[at] for at in np.argsort(first).tolist())  # as they appear


def _no_value(name: str, row: int) -> InputError:
    return InputError(f"column {name!r}, row {row} (from 0) is missing; expected a value in every row")


def _ids(batch: FrameColumns, name: str, start: int) -> Array:
    """A column of ids; text as fixed-width strings, numbers unchanged, mixed objects as objects."""
    values, missing = batch.values(name), batch.missing(name)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    if missing.any():
        raise _no_value(name, start + int(np.argmax(missing)))
    if values.dtype.kind == "O" and any(type(value) is bytes for value in values):
        values = np.array([_decoded(value, name, start + row) for row, value in enumerate(values)], object)
    if values.dtype.kind == "O" and all(type(value) is str for value in values):
        row = int(np.argmax([len(value) for value in values]))
        if len(values[row]) > MAX_FIELD:
            what = f"column {name!r}, row {start + row} (from 0) has an id of {len(values[row]):,} characters"
            raise InputError(f"{what}; expected at most {MAX_FIELD}")
        return values.astype(str)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"the column {name!r} contains inf; expected whole numbers or strings")
    if values.dtype.kind not in "iufUO" or any(isinstance(value, list | dict | np.ndarray) for value in values[:1]):
        raise InputError(f"the column {name!r} holds {values.dtype}; expected whole numbers or strings")
    return np.array(values)  # a view would keep the whole batch in memory


def _decoded(value: Any, name: str, row: int) -> Any:
    """Bytes as text; other values unchanged."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        what = f"column {name!r}, row {row} (from 0) is {shown(value)}"
        raise InputError(f"{what}; expected whole numbers or strings") from None


def made_data(rows: ReadRows, layout: ColumnLayout, categories: Mapping[int, tuple[Any, ...]]) -> RankingData:
    return RankingData.from_arrays(
        rows.X,
        rows.labels,
        rows.qid,
        doc_ids=rows.doc_ids,
        feature_names=layout.features,
        allow_missing=True,
        categories=categories,
    )
