"""Typed columns: those of pandas, polars and pyarrow by name, ranking data from them, and ranking data as a data frame.

One rule for missing values holds in every container: a missing feature (an empty cell, ``NA``, NaN, null) is NaN, in a
column of categories :data:`~rankwright.data.categories.NO_CATEGORY`; queries, labels and documents must all be there.

No library is imported unless it is used. Columns of strings and those that a library calls categorical (an Enum, a
dictionary) hold categories.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.categories import NO_CATEGORY, category_numbers, codes_of, named
from rankwright.data.dataset import RankingData
from rankwright.data.order import as_ids, query_of_row
from rankwright.errors import InputError, shown
from rankwright.io.files import MAX_FIELD
from rankwright.io.folder import storable_ids
from rankwright.io.roles import (
    LABEL,
    MISSING,
    TEXTS,
    ColumnLayout,
    Columns,
    find,
    find_query,
    grades_in,
    plain,
    required_layout,
    with_grades,
)
from rankwright.io.values import (
    READERS,
    SPECIAL,
    bad_grade,
    days_of,
    grade_of,
    is_missing,
    kinds_of_cells,
    number_in,
    warn_of_dates,
)

__all__ = ["from_frame", "to_frame"]

_EXTRAS = {"pyarrow": "tables", "onnx": "export", "lxml": "html", "ir_datasets": "ir-datasets"}
_DENSE_LIMIT = 4 << 30  # bytes above which sparse data is not written as dense columns


class _PandasColumns:
    def __init__(self, frame: Any) -> None:
        self.names = [str(name) for name in frame.columns]
        self.n_rows = len(frame)
        self._series = {name: frame.iloc[:, at] for at, name in enumerate(self.names)}

    def number_type(self, name: str) -> np.dtype[Any] | None:
        dtype = self._series[name].dtype
        plain = getattr(dtype, "numpy_dtype", dtype)  # of pandas' own nullable types
        return plain if isinstance(plain, np.dtype) and plain.kind in "fiub" else None

    def kind(self, name: str) -> str:
        pandas, series = import_library("pandas"), self._series[name]
        if self.number_type(name) is not None:
            return "number"
        if getattr(series.dtype, "kind", "") == "M" or isinstance(series.dtype, pandas.DatetimeTZDtype):
            return "date"
        if isinstance(series.dtype, pandas.CategoricalDtype):
            return "category"
        if series.dtype == object:
            kinds = {"string": "text", "date": "date", "datetime": "date"}
            return kinds.get(pandas.api.types.infer_dtype(series, skipna=True), "other")
        return "text" if pandas.api.types.is_string_dtype(series.dtype) else "other"

    def missing(self, name: str) -> Array:
        return np.asarray(self._series[name].isna())

    def values(self, name: str) -> Array:
        return np.asarray(self._series[name].to_numpy())

    def objects(self, name: str) -> list[Any]:
        series = self._series[name]
        return list(series.astype(object).where(series.notna(), None))

    def categories(self, name: str) -> tuple[Array, Any]:
        series = self._series[name]
        if hasattr(series, "cat"):
            return series.cat.codes.to_numpy(), series.cat.categories
        codes, values = series.factorize()
        return codes, values


class _PolarsColumns:
    def __init__(self, frame: Any) -> None:
        self.names = frame.columns
        self.n_rows = frame.height
        self._frame = frame

    def number_type(self, name: str) -> np.dtype[Any] | None:
        dtype = self._frame.schema[name]
        plain = str(dtype).lower()
        if plain == "boolean":
            return np.dtype(bool)
        if not dtype.is_numeric():
            return None
        return np.dtype(plain) if plain in np.sctypeDict else np.dtype(np.float64)

    def kind(self, name: str) -> str:
        if self.number_type(name) is not None:
            return "number"
        kinds = {"Categorical": "category", "Enum": "category", "String": "text", "Date": "date", "Datetime": "date"}
        return kinds.get(type(self._frame.schema[name]).__name__, "other")

    def missing(self, name: str) -> Array:
        return np.asarray(self._frame[name].is_null().to_numpy())

    def values(self, name: str) -> Array:
        return np.asarray(self._frame[name].to_numpy())

    def objects(self, name: str) -> list[Any]:
        return list(self._frame[name].to_list())

    def categories(self, name: str) -> tuple[Array, Any]:
        code_of: dict[str | None, int] = {None: -1}
        codes = [code_of.setdefault(value, len(code_of) - 1) for value in self._frame[name].to_list()]
        return np.array(codes, np.int64), list(code_of)[1:]


class _ArrowColumns:
    def __init__(self, table: Any) -> None:
        self.names = table.column_names
        self.n_rows = table.num_rows
        self._table = table
        self._types = import_library("pyarrow").types

    def number_type(self, name: str) -> np.dtype[Any] | None:
        types, dtype = self._types, self._table.schema.field(name).type
        if types.is_decimal(dtype):
            return np.dtype(np.float64)
        if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_floating(dtype):
            return np.dtype(dtype.to_pandas_dtype())
        return None

    def kind(self, name: str) -> str:
        types, dtype = self._types, self._table.schema.field(name).type
        if self.number_type(name) is not None:
            return "number"
        if types.is_dictionary(dtype):
            return "category"
        if types.is_date(dtype) or types.is_timestamp(dtype):
            return "date"
        return "text" if types.is_string(dtype) or types.is_large_string(dtype) else "other"

    def missing(self, name: str) -> Array:
        column = self._table[name]
        return np.asarray(column.is_null().to_numpy()) if column.null_count else np.empty(0, bool)

    def values(self, name: str) -> Array:
        return np.asarray(self._decoded(name).to_numpy())

    def objects(self, name: str) -> list[Any]:
        return list(self._table[name].to_pylist())

    def categories(self, name: str) -> tuple[Array, Any]:
        column = self._decoded(name)
        missing = column.is_null().to_numpy()
        coded = column.drop_null().dictionary_encode().combine_chunks()
        coded = coded.chunk(0) if hasattr(coded, "chunk") else coded
        codes = np.full(len(missing), -1)
        codes[~missing] = coded.indices.to_numpy()
        return codes, coded.dictionary.to_pylist()

    def _decoded(self, name: str) -> Any:
        column = self._table[name]
        return column.cast(column.type.value_type) if self._types.is_dictionary(column.type) else column


FrameColumns = _PandasColumns | _PolarsColumns | _ArrowColumns
"""The columns of some library's table, by name.

`kind`: what a column holds by its type: ``number``, ``category`` (declared so), ``date``, ``text`` or ``other``.
`number_type`: the numpy type of a column of numbers; None for others. `missing`: where it has no value; empty if none.
`objects`: its values as objects of Python, None where one is missing. `categories`: a code for each row, -1 where the
value is missing, and the values.
"""


def kinds_of(columns: FrameColumns, values: Mapping[str, str] | None = None) -> dict[str, str]:
    """What columns hold by their types; ``values``: and those of texts, by all of their values."""
    return {name: columns.kind(name) for name in columns.names} | dict(values or {})


def values_of(batches: Iterable[FrameColumns], names: Sequence[str]) -> dict[str, str]:
    """What columns of texts hold by all of their values: ``date``, ``truth`` or ``text``; none without a value."""
    cells = (
        (name, text)
        for batch in batches
        for name in names
        if name in batch.names
        for text in batch.categories(name)[1]
        if isinstance(text, str)
    )
    return kinds_of_cells(names, cells, SPECIAL)  # a text such as "7" is a category by its type


def is_frame(table: Any) -> bool:
    library, kind = _type_of(table)
    return (
        (library == "pandas" and hasattr(table, "iloc") and table.ndim == 2)
        or (library == "polars" and kind in ("DataFrame", "LazyFrame"))
        or (library == "pyarrow" and hasattr(table, "column_names"))
    )


def columns_of(frame: Any) -> FrameColumns:
    library, kind = _type_of(frame)
    if not is_frame(frame):
        raise InputError(f"got {library}.{kind}; expected a pandas or polars DataFrame or a pyarrow Table")
    if kind == "LazyFrame":
        raise InputError("a polars LazyFrame has no rows yet; call its collect() first")
    if library == "pandas":
        return _PandasColumns(frame)
    if library == "polars":
        return _PolarsColumns(frame)
    return _ArrowColumns(import_library("pyarrow").table(frame) if kind == "RecordBatch" else frame)


def _type_of(table: Any) -> tuple[str, str]:
    return type(table).__module__.partition(".")[0], type(table).__name__


def import_library(library: str) -> Any:
    """An optional library, or how to install it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        package = library.partition(".")[0]
        how = f"'rankwright[{_EXTRAS[package]}]'" if package in _EXTRAS else package
        raise InputError(f"this needs {package}; install it with: pip install {how}") from None


# Features of a data frame that is nothing else, for `fit` and `predict`; its query ids may be a column of it.


def frame_features(
    frame: Any, wanted: Sequence[str] | None = None, texts: Sequence[str] = ()
) -> tuple[Array, tuple[str, ...], dict[int, tuple[Any, ...]]]:
    """The columns of a data frame as a table of numbers, NaN where one is missing, their names, and the categories.

    With ``wanted``, columns of other names are left out; otherwise all columns must be numbers, dates or categories. A
    column ``docid`` of text holds ids of documents, and is a feature only if it is wanted. ``texts``: columns that hold
    categories whatever is in them.
    """
    columns = columns_of(frame)
    check_different(columns.names)
    if wanted is None:
        kept = {name for name in columns.names if name != "docid" or not holds_categories(columns, name)}
    else:
        kept = set(wanted)
    names = [name for name in columns.names if name in kept]
    plain = [name for name in names if columns.kind(name) == "text" and name not in texts]
    values = {name: kind for name, kind in values_of([columns], plain).items() if kind != "text"}
    values |= {name: "date" for name in names if columns.kind(name) == "date"}
    categorical = [name for name in names if holds_categories(columns, name) and name not in values]
    types = [number_type(columns, name) for name in names if name not in categorical and name not in values]
    is_small = not categorical and "date" not in values.values() and float32_holds(types)
    X = np.empty((columns.n_rows, len(names)), np.float32 if is_small else np.float64)
    if wanted is None:
        warn_of_dates(values, "the data frame")
    categories = {}
    for at, name in enumerate(names):
        if name in values:
            X[:, at] = read_column(columns, name, values[name])
        elif name in categorical:
            X[:, at], categories[at] = category_column(columns, name)
        else:
            X[:, at] = number_column(columns, name, X.dtype)
    return X, tuple(names), categories


def has_categories(X: Any) -> bool:
    """Whether it is a data frame with categories, texts or dates, which scikit-learn cannot check."""
    columns = columns_of(X) if is_frame(X) else None
    return columns is not None and any(columns.kind(name) in ("category", "text", "date") for name in columns.names)


def has_qid(X: Any) -> bool:
    return is_frame(X) and find_query(columns_of(X).names) is not None


def split_qid(X: Any, qid: Any = None, group: Any = None, features: Sequence[str] | None = None) -> tuple[Any, Any]:
    """Features alone, and the query ids, where X is a data frame: the column of them, as in every table.

    As there, queries, documents and texts for people to read are no features; see :mod:`rankwright.io.roles`.

    `X`: anything without such columns comes back unchanged, and with it ``qid``. `qid`, `group`: what else the caller
    gave. Where X has ids, ``qid`` must be the same ones, and ``group`` is refused. `features`: what the training data
    called a feature stays one.
    """
    if not is_frame(X):
        return X, qid
    columns, known = columns_of(X), set(features or ())
    names = [name for name in columns.names if name not in known]
    given = qid is not None or group is not None
    query = find(names, "qid") if given else find_query(names)  # texts of queries are not ids that could differ
    beside = {query, find(names, "docid")}
    beside |= {name for name in names if plain(name) in TEXTS and columns.kind(name) == "text"}
    others = [at for at, name in enumerate(columns.names) if name not in beside]
    if len(others) == len(columns.names):
        return X, qid
    check_different(columns.names)
    if query is not None:
        qid = _same_ids(columns, query, qid, group)
    return (X.iloc[:, others] if hasattr(X, "iloc") else X.select([columns.names[at] for at in others])), qid


def _same_ids(columns: FrameColumns, name: str, qid: Any, group: Any) -> Array:
    """The query ids in a column, the only ones that are given."""
    missing = columns.missing(name)
    if missing.any():
        raise InputError(f"the column {name!r} has no value in row {int(np.argmax(missing))} (from 0)")
    ids = columns.values(name)
    remedy = "" if name == "qid" else ", or rename the column if it is a feature"
    if group is not None:
        raise InputError(f"the data frame has a column {name!r}; leave out group{remedy}")
    if qid is not None and as_ids(qid).tolist() != ids.tolist():
        problem = f"the data frame has a column {name!r} with other query ids than qid"
        raise InputError(f"{problem}; leave out one of them{remedy}")
    return ids


def check_labels_apart(X: Any, y: Any) -> None:
    """Reject a data frame of features that has the labels as a column."""
    if not is_frame(X):
        return
    columns = columns_of(X)
    for name in columns.names:
        if plain(name) in LABEL and columns.number_type(name) and np.array_equal(columns.values(name), np.asarray(y)):
            raise InputError(f"the column {name!r} of the data frame is y, and would be a feature; leave it out of X")


def read_column(columns: FrameColumns, name: str, kind: str) -> Array:
    """A column of dates as days, or one of yes and no as 1 and 0: float64, NaN where a value is missing."""
    if columns.kind(name) == "text":
        codes, texts = columns.categories(name)
        numbers = [math.nan if is_missing(text) else READERS[kind](text.strip()) for text in texts]
        return np.array([*numbers, math.nan], np.float64)[codes]
    return np.array([_days(value) for value in columns.objects(name)])


def _days(value: Any) -> float:
    if value is None:
        return math.nan
    moment = value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
    return days_of(moment if isinstance(moment, datetime) else datetime.combine(moment, time()))


def holds_categories(columns: FrameColumns, name: str) -> bool:
    return columns.kind(name) in ("category", "text")


def category_column(columns: FrameColumns, name: str) -> tuple[Array, tuple[Any, ...]]:
    """Return the numbers that stand for a column's categories (see ``data.categories``), and these.

    A string such as ``""`` or ``NA`` is a missing value, as in a table in text, unless the type of the column declares
    it to be a category.
    """
    codes, categories = columns.categories(name)
    if columns.kind(name) != "category":
        is_value = np.array([str(value).strip().lower() not in MISSING for value in categories], bool)
        places = np.append(np.where(is_value, np.cumsum(is_value) - 1, -1), -1)
        codes, categories = places[codes], [value for value, kept in zip(categories, is_value, strict=True) if kept]
    values, numbers = category_numbers(categories, f"the column {name!r}")
    return np.append(numbers, NO_CATEGORY)[codes], values


def number_column(columns: FrameColumns, name: str, dtype: np.dtype[Any]) -> Array:
    """Return a column of numbers, NaN where one is missing; one too large for the type becomes infinite."""
    values, missing = columns.values(name), columns.missing(name)
    with np.errstate(over="ignore"):
        if not missing.any():
            return values.astype(dtype, copy=False)
        return np.where(missing, np.nan, values).astype(dtype)


def number_type(columns: FrameColumns, name: str) -> np.dtype[Any]:
    """The numpy type of a column, which must be numbers."""
    dtype = columns.number_type(name)
    if dtype is None:
        raise InputError(f"the column {name!r} does not hold numbers; leave it out or turn it into numbers")
    return dtype


def float32_holds(types: Sequence[np.dtype[Any]]) -> bool:
    """Whether float32 holds all values of such columns: float32, integers of up to 16 bits, booleans."""
    return all(np.can_cast(dtype, np.float32) for dtype in types)


def check_different(names: Sequence[str]) -> None:
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        raise InputError(f"{times} columns are called {name!r}; expected a different name for every column")


# Ranking data from typed columns with queries and labels among them: all at once, or batch by batch.


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Documents one after the other, as they are read: not checked against each other, queries in any order.

    `X`: features, one row per document. `labels`, `qid`, `doc_ids`: one per row.
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


def made_data(rows: ReadRows, layout: ColumnLayout, categories: Mapping[int, tuple[Any, ...]]) -> RankingData:
    return RankingData.from_arrays(
        rows.X,
        None if layout.label is None else rows.labels,
        rows.qid,
        doc_ids=rows.doc_ids,
        feature_names=layout.features,
        allow_missing=True,
        categories=categories,
    )


def from_frame(
    frame: Any,
    *,
    qid: str | None = None,
    docid: str | None = None,
    label: str | None = None,
    features: Sequence[str] | None = None,
    columns: Columns | None = None,
    grades: Mapping[str, float] | None = None,
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
        The feature columns; by default all other columns but texts for people to read, under names such as
        ``title``. A missing value is NaN. Columns of strings, and those of pandas' type category, polars' Categorical
        and Enum, and pyarrow's dictionaries, hold categories, which rankers made of trees can use. Without
        categories, features are float32 if every column fits (float32, integers of up to 16 bits, booleans),
        otherwise float64.
    columns : mapping, optional
        Columns by role, as :func:`rankwright.read_data` takes them: also ``skip`` and ``categorical``.
    grades : mapping, optional
        The numbers of labels that are words, such as ``{"bad": 0, "fair": 1}``.

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
    given = with_grades(by_role(columns, qid, docid, label), grades) or {}
    kinds = kinds_of(table, values_of([table], [name for name in table.names if table.kind(name) == "text"]))
    layout = typed_layout(table, required_layout(table.names, given, kinds, features))
    if table.n_rows == 0:
        raise InputError("there are no rows")
    categories: dict[int, dict[Any, None]] = {}
    rows = typed_rows(table, layout, 0, type_of_features(table, layout), categories, grades_in(given))
    warn_of_dates(layout.values, "the data frame")
    return made_data(rows, layout, {at: tuple(values) for at, values in categories.items()})


def by_role(columns: Columns | None, qid: str | None, docid: str | None, label: str | None) -> dict[str, str]:
    """Return columns by role, those given one by one among them."""
    given = {"qid": qid, "docid": docid, "label": label}
    return {**(columns or {}), **{role: name for role, name in given.items() if name is not None}}


def typed_layout(table: FrameColumns, layout: ColumnLayout) -> ColumnLayout:
    """Return a layout with all columns that hold categories, by their types or as the user says."""
    if layout.label is not None and not holds_categories(table, layout.label):  # words may have numbers
        number_type(table, layout.label)
    categorical = [
        name
        for name in layout.features
        if name in layout.categorical or (holds_categories(table, name) and name not in layout.values)
    ]
    for name in layout.features:
        if name not in categorical and name not in layout.values:
            number_type(table, name)
    return replace(layout, categorical=categorical)


def type_of_features(table: FrameColumns, layout: ColumnLayout) -> np.dtype[Any]:
    """Return the type that holds all features: float32 for small numbers only; categories need float64."""
    numbers = [name for name in layout.features if name not in layout.values and name not in layout.categorical]
    has_dates = "date" in layout.values.values()
    small = not (layout.categorical or has_dates) and float32_holds([number_type(table, name) for name in numbers])
    return np.dtype(np.float32 if small else np.float64)


def typed_rows(
    batch: FrameColumns,
    layout: ColumnLayout,
    start: int,
    dtype: np.dtype[Any],
    categories: dict[int, dict[Any, None]],
    grades: Mapping[str, float],
) -> ReadRows:
    """Return the rows of a batch of columns; the categories that occur are added to ``categories``, by column.

    ``start`` is the number of its first row, for messages.
    """
    X = np.empty((batch.n_rows, len(layout.features)), dtype)
    if layout.categorical and dtype != np.float64:
        raise InputError(f"{dtype} cannot hold the categories of {named(layout.categorical)}; expected float64")
    labels = np.full(batch.n_rows, np.nan)
    if layout.label is not None:
        labels = _labels(batch, layout.label, start, grades)
    categorical = set(layout.categorical)
    for at, name in enumerate(layout.features):
        if name in layout.values:
            X[:, at] = read_column(batch, name, layout.values[name])
            continue
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


def _labels(batch: FrameColumns, name: str, start: int, grades: Mapping[str, float]) -> Array:
    if not holds_categories(batch, name):
        labels = _finite(batch, name, start, np.dtype(np.float64))
    else:  # words, with the numbers that the user gives them
        codes, words = batch.categories(name)
        if any(number_in(word) is not None for word in words if isinstance(word, str)):
            number_type(batch, name)  # reports that it is a column of texts
        numbers = [math.nan if is_missing(word) else grade_of(word, grades) for word in words]
        if None in numbers:
            raise bad_grade(name, [word for word, number in zip(words, numbers, strict=True) if number is None], grades)
        labels = np.array([*numbers, math.nan], np.float64)[codes]
    if np.isnan(labels).any():
        raise _no_value(name, start + int(np.argmax(np.isnan(labels))))
    return labels


def _finite(batch: FrameColumns, name: str, start: int, dtype: np.dtype[Any]) -> Array:
    """A column of finite numbers, NaN where one is missing."""
    values = number_column(batch, name, dtype)
    infinite = np.isinf(values)
    if infinite.any():  # also a float64 too large for float32
        row = start + int(np.argmax(infinite))
        problem = f"column {name!r}, row {row} (from 0) is infinite or too large for {dtype}"
        raise InputError(f"{problem}; expected a finite number")
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
            problem = f"column {name!r}, row {start + row} (from 0) has an id of {len(values[row]):,} characters"
            raise InputError(f"{problem}; expected at most {MAX_FIELD}")
        return values.astype(str)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"the column {name!r} contains inf; expected whole numbers or strings")
    if values.dtype.kind not in "iufUO" or any(isinstance(value, list | dict | np.ndarray) for value in values[:1]):
        raise InputError(f"the column {name!r} holds {values.dtype}; expected whole numbers or strings")
    return np.array(values)  # a view would keep the whole batch in memory


def _decoded(value: bytes, name: str, row: int) -> Any:
    """Bytes as text; other values unchanged."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        problem = f"column {name!r}, row {row} (from 0) is {shown(value)}"
        raise InputError(f"{problem}; expected whole numbers or strings") from None


# Ranking data as a data frame.


def to_frame(data: RankingData, library: str = "pandas") -> Any:
    """Turn ranking data into a data frame with the columns qid, docid (if there are ids), label and the features.

    Parameters
    ----------
    data : RankingData
        Rows are written query by query; features without names are called f1, f2, …
    library : {"pandas", "polars", "pyarrow"}
        The type of the result: a pandas.DataFrame, a polars.DataFrame or a pyarrow.Table.

    Examples
    --------
    >>> to_frame(RankingData.from_arrays([[0.5]], [1], ["q"]))
      qid  label   f1
    0   q    1.0  0.5
    """
    if library not in ("pandas", "polars", "pyarrow"):
        raise InputError(f"unknown table library {library!r}; expected pandas, polars or pyarrow")
    module = import_library(library)
    (columns,) = column_batches(data, max(1, data.n_docs), library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def column_batches(data: RankingData, batch_rows: int, library: str) -> Iterator[dict[str, Any]]:
    """The columns of data, in batches of rows (at least one), for a library; without one, categories are a list."""
    names = data.names
    fixed = ["qid", *(["docid"] if data.doc_ids is not None else []), *(["label"] if data.is_labelled else [])]
    check_different([*fixed, *names])
    size = data.n_docs * data.n_features * data.X.dtype.itemsize
    if data.is_sparse and size > _DENSE_LIMIT:
        problem = f"sparse features would take {size / (1 << 30):,.0f} GiB as a table"
        raise InputError(f"{problem}; write LETOR text or a .rank folder")
    query_ids, query = storable_ids(data.query_ids, "query ids"), query_of_row(data.indptr)
    doc_ids = None if data.doc_ids is None else storable_ids(data.doc_ids, "document ids")
    for start in range(0, max(1, data.n_docs), batch_rows):
        rows = slice(start, start + batch_rows)
        X = data.X[rows].toarray() if data.is_sparse else data.X[rows]
        columns = {"qid": query_ids[query[rows]]}
        if doc_ids is not None:
            columns["docid"] = doc_ids[rows]
        if data.is_labelled:
            columns["label"] = data.labels[rows]
        yield columns | {
            name: _categories(X[:, at], data.categories[at], library) if at in data.categories else X[:, at]
            for at, name in enumerate(names)
        }


def _categories(column: Array, values: tuple[Any, ...], library: str) -> Any:
    """A column of categories as a library has them; polars has no categories that are numbers."""
    codes = codes_of(column, values)
    if not library:
        return [None if code < 0 else values[code] for code in codes.tolist()]
    module = import_library(library)
    if library == "pandas":
        return module.Categorical.from_codes(codes, values)
    if library == "pyarrow":
        return module.DictionaryArray.from_arrays(module.array(codes, module.int32(), mask=codes < 0), list(values))
    return module.Series([None if code < 0 else values[code] for code in codes.tolist()])
