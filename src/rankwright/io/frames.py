"""Data frames: the columns of a pandas, polars or pyarrow table by name, and ranking data as a frame.

No library is imported unless it is used.

Columns of strings and those that a library calls categorical (an Enum, a dictionary) hold categories.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.categories import NO_CATEGORY, category_numbers, codes_of
from rankwright.data.dataset import RankingData
from rankwright.data.order import as_ids, query_of_row
from rankwright.errors import InputError
from rankwright.io.folder import storable_ids
from rankwright.io.roles import MISSING

__all__ = ["to_frame"]

_EXTRAS = {"pyarrow": "tables", "onnx": "export", "lxml": "html", "ir_datasets": "ir-datasets"}
_DENSE_LIMIT = 4 << 30  # bytes above which sparse data is not written as dense columns
_QID, _DOCID = "qid", "docid"  # the columns of query ids and of document ids


class FrameColumns:
    """The columns of some library's table, by name."""

    names: list[str]
    n_rows: int

    def number_type(self, name: str) -> np.dtype[Any] | None:
        """Return the numpy type of a column of numbers; None for other columns."""
        raise NotImplementedError

    def missing(self, name: str) -> Array:
        """Return where the column has no value; empty if it has them all."""
        raise NotImplementedError

    def values(self, name: str) -> Array:
        """Return the values of a column."""
        raise NotImplementedError

    def objects(self, name: str) -> list[Any]:
        """Return the values of a column as objects of Python, None where one is missing."""
        raise NotImplementedError

    def is_declared(self, name: str) -> bool:
        """Whether the type of a column says that it holds categories."""
        raise NotImplementedError

    def is_text(self, name: str) -> bool:
        """Whether a column holds strings."""
        raise NotImplementedError

    def categories(self, name: str) -> tuple[Array, Any]:
        """Return the number of each row's category, −1 where it is missing, and the categories."""
        raise NotImplementedError

    def kinds(self) -> dict[str, str]:
        """Return what columns hold by their types: ``number``, ``category``, ``text`` or ``other``."""
        return {name: self.kind(name) for name in self.names}

    def kind(self, name: str) -> str:
        """Return what a column holds, see :meth:`kinds`."""
        if self.number_type(name) is not None:
            return "number"
        return "category" if self.is_declared(name) else "text" if self.is_text(name) else "other"


class _PandasColumns(FrameColumns):
    def __init__(self, frame: Any) -> None:
        self.names = [str(name) for name in frame.columns]
        self.n_rows = len(frame)
        self._series = {name: frame.iloc[:, at] for at, name in enumerate(self.names)}

    def number_type(self, name: str) -> np.dtype[Any] | None:
        dtype = self._series[name].dtype
        plain = getattr(dtype, "numpy_dtype", dtype)  # of pandas' own nullable types
        return plain if isinstance(plain, np.dtype) and plain.kind in "fiub" else None

    def missing(self, name: str) -> Array:
        return np.asarray(self._series[name].isna())

    def values(self, name: str) -> Array:
        return np.asarray(self._series[name].to_numpy())

    def objects(self, name: str) -> list[Any]:
        series = self._series[name]
        return list(series.astype(object).where(series.notna(), None))

    def is_declared(self, name: str) -> bool:
        return isinstance(self._series[name].dtype, import_library("pandas").CategoricalDtype)

    def is_text(self, name: str) -> bool:
        series, types = self._series[name], import_library("pandas").api.types
        if series.dtype == object:
            return bool(types.infer_dtype(series, skipna=True) == "string")
        return bool(types.is_string_dtype(series.dtype))

    def categories(self, name: str) -> tuple[Array, Any]:
        series = self._series[name]
        if hasattr(series, "cat"):
            return series.cat.codes.to_numpy(), series.cat.categories
        codes, values = series.factorize()
        return codes, values


class _PolarsColumns(FrameColumns):
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

    def missing(self, name: str) -> Array:
        return np.asarray(self._frame[name].is_null().to_numpy())

    def values(self, name: str) -> Array:
        return np.asarray(self._frame[name].to_numpy())

    def objects(self, name: str) -> list[Any]:
        return list(self._frame[name].to_list())

    def is_declared(self, name: str) -> bool:
        return type(self._frame.schema[name]).__name__ in ("Categorical", "Enum")

    def is_text(self, name: str) -> bool:
        return type(self._frame.schema[name]).__name__ == "String"

    def categories(self, name: str) -> tuple[Array, Any]:
        code_of: dict[str | None, int] = {None: -1}
        values = self._frame[name].to_list()
        codes = np.array([code_of.setdefault(value, len(code_of) - 1) for value in values], np.int64)
        return codes, list(code_of)[1:]


class _ArrowColumns(FrameColumns):
    def __init__(self, table: Any) -> None:
        self.names = table.column_names
        self.n_rows = table.num_rows
        self._table = table

    def number_type(self, name: str) -> np.dtype[Any] | None:
        types, dtype = import_library("pyarrow").types, self._table.schema.field(name).type
        if types.is_decimal(dtype):
            return np.dtype(np.float64)
        if types.is_boolean(dtype) or types.is_integer(dtype) or types.is_floating(dtype):
            return np.dtype(dtype.to_pandas_dtype())
        return None

    def missing(self, name: str) -> Array:
        column = self._table[name]
        return np.asarray(column.is_null().to_numpy()) if column.null_count else np.empty(0, bool)

    def values(self, name: str) -> Array:
        column = self._table[name]
        if import_library("pyarrow").types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return np.asarray(column.to_numpy())

    def objects(self, name: str) -> list[Any]:
        return list(self._table[name].to_pylist())

    def is_declared(self, name: str) -> bool:
        return bool(import_library("pyarrow").types.is_dictionary(self._table.schema.field(name).type))

    def is_text(self, name: str) -> bool:
        types, dtype = import_library("pyarrow").types, self._table.schema.field(name).type
        return bool(types.is_string(dtype) or types.is_large_string(dtype))

    def categories(self, name: str) -> tuple[Array, Any]:
        arrow, column = import_library("pyarrow"), self._table[name]
        if arrow.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        missing = column.is_null().to_numpy()
        coded = column.drop_null().dictionary_encode().combine_chunks()
        coded = coded.chunk(0) if hasattr(coded, "chunk") else coded
        codes = np.full(len(missing), -1)
        codes[~missing] = coded.indices.to_numpy()
        return codes, coded.dictionary.to_pylist()


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


def frame_features(
    frame: Any, wanted: Sequence[str] | None = None
) -> tuple[Array, tuple[str, ...], dict[int, tuple[Any, ...]]]:
    """The columns of a data frame as a table of numbers, NaN where one is missing, their names, and the categories.

    With ``wanted``, columns of other names are left out; otherwise all columns must be numbers or categories. A column
    ``docid`` of text holds ids of documents, and is a feature only if it is wanted.
    """
    columns = columns_of(frame)
    check_different(columns.names)
    ids = {_DOCID} if _DOCID in columns.names and holds_categories(columns, _DOCID) else set()
    kept = set(columns.names) - ids if wanted is None else set(wanted)
    names = [name for name in columns.names if name in kept]
    types = [feature_type(columns, name) for name in names]
    X = np.empty((columns.n_rows, len(names)), np.float64 if not float32_holds(types) else np.float32)
    categories = {}
    for at, name in enumerate(names):
        if holds_categories(columns, name):
            X[:, at], categories[at] = category_column(columns, name)
            continue
        X[:, at] = number_column(columns, name, X.dtype)
    return X, tuple(names), categories


def category_column(columns: FrameColumns, name: str) -> tuple[Array, tuple[Any, ...]]:
    """Return the numbers that stand for a column's categories (see ``data.categories``), and these.

    A string such as ``""`` or ``NA`` is a missing value, as in a table in text, unless the type of the column declares
    it to be a category.
    """
    codes, categories = columns.categories(name)
    if not columns.is_declared(name):
        is_value = np.array([str(value).strip().lower() not in MISSING for value in categories], bool)
        places = np.append(np.where(is_value, np.cumsum(is_value) - 1, -1), -1)
        codes, categories = places[codes], [value for value, kept in zip(categories, is_value, strict=True) if kept]
    values, numbers = category_numbers(categories, f"the column {name!r}")
    return np.append(numbers, NO_CATEGORY)[codes], values


def holds_categories(columns: FrameColumns, name: str) -> bool:
    return columns.kind(name) in ("category", "text")


def number_column(columns: FrameColumns, name: str, dtype: np.dtype[Any]) -> Array:
    """Return a column of numbers, NaN where one is missing; one too large for the type becomes infinite."""
    values, missing = columns.values(name), columns.missing(name)
    with np.errstate(over="ignore"):
        if not missing.any():
            return values.astype(dtype, copy=False)
        return np.where(missing, np.nan, values).astype(dtype)


def has_categories(X: Any) -> bool:
    columns = columns_of(X) if is_frame(X) else None
    return columns is not None and any(holds_categories(columns, name) for name in columns.names)


def has_qid(X: Any) -> bool:
    if not is_frame(X):
        return False
    return _QID in (map(str, X.columns) if hasattr(X, "iloc") else columns_of(X).names)


def split_qid(X: Any, qid: Any = None, group: Any = None) -> tuple[Any, Any]:
    """Features without query ids, and the query ids: in a data frame, the column ``qid`` is that, not a feature.

    `X`: anything without such a column comes back unchanged, and with it ``qid``. `qid`, `group`: what else the caller
    gave. With a column ``qid``, ``qid`` must be the same ids, and ``group`` is refused.
    """
    if not has_qid(X):
        return X, qid
    columns = columns_of(X)
    check_different(columns.names)
    missing = columns.missing(_QID)
    if missing.any():
        raise InputError(f"the column 'qid' has no value in row {int(np.argmax(missing))} (from 0)")
    ids = columns.values(_QID)
    if group is not None:
        raise InputError("the data frame has a column 'qid'; leave out group")
    if qid is not None and as_ids(qid).tolist() != ids.tolist():
        raise InputError("the data frame has a column 'qid' with other query ids than qid; leave out one of them")
    others = [at for at, name in enumerate(columns.names) if name != _QID]
    if hasattr(X, "iloc"):
        return X.iloc[:, others], ids
    return X.select([columns.names[at] for at in others]), ids


def feature_type(columns: FrameColumns, name: str) -> np.dtype[Any]:
    """The numpy type of a column of numbers or categories; float64 holds these."""
    if holds_categories(columns, name):
        return np.dtype(np.float64)
    return number_type(columns, name)


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


def import_library(library: str) -> Any:
    """An optional library, or how to install it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        package = library.partition(".")[0]
        how = f"'rankwright[{_EXTRAS[package]}]'" if package in _EXTRAS else package
        raise InputError(f"this needs {package}; install it with: pip install {how}") from None


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
    """The columns of data, in batches of rows (at least one)."""
    names = data.names
    fixed = ["qid", "label"] if data.doc_ids is None else ["qid", "docid", "label"]
    check_different([*fixed, *names])
    size = data.n_docs * data.n_features * data.X.dtype.itemsize
    if data.is_sparse and size > _DENSE_LIMIT:
        raise InputError(
            f"sparse features would take {size / (1 << 30):,.0f} GiB as a table; write LETOR text or a .rank folder"
        )
    query_ids, query = storable_ids(data.query_ids, "query ids"), query_of_row(data.indptr)
    doc_ids = None if data.doc_ids is None else storable_ids(data.doc_ids, "document ids")
    for start in range(0, max(1, data.n_docs), batch_rows):
        rows = slice(start, start + batch_rows)
        X = data.X[rows].toarray() if data.is_sparse else data.X[rows]
        columns = {"qid": query_ids[query[rows]]}
        if doc_ids is not None:
            columns["docid"] = doc_ids[rows]
        columns["label"] = data.labels[rows]
        yield columns | {
            name: _categories(X[:, at], data.categories[at], library) if at in data.categories else X[:, at]
            for at, name in enumerate(names)
        }


def _categories(column: Array, values: tuple[Any, ...], library: str) -> Any:
    """A column of categories as a library has them; polars has no categories that are numbers."""
    module, codes = import_library(library), codes_of(column, values)
    if library == "pandas":
        return module.Categorical.from_codes(codes, values)
    if library == "pyarrow":
        return module.DictionaryArray.from_arrays(module.array(codes, module.int32(), mask=codes < 0), list(values))
    return module.Series([None if code < 0 else values[code] for code in codes.tolist()])
