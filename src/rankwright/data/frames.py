"""Data frames: the columns of a pandas, polars or pyarrow table by name; no library is imported unless it is used.

Columns of strings and those that a library calls categorical (an Enum, a dictionary) hold categories.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import as_ids
from rankwright.data.categories import NO_CATEGORY, category_numbers
from rankwright.errors import InputError

__all__ = [
    "Columns",
    "category_column",
    "check_different",
    "columns_of",
    "feature_type",
    "float32_holds",
    "frame_features",
    "has_categories",
    "has_qid",
    "holds_categories",
    "import_library",
    "is_frame",
    "number_type",
    "split_qid",
]

Array = npt.NDArray[Any]
_EXTRAS = {"pyarrow": "tables", "onnx": "export", "lxml": "html", "ir_datasets": "ir-datasets"}
_QID, _DOCID = "qid", "docid"  # the columns of query ids and of document ids


class Columns(Protocol):
    """The columns of some library's table, by name."""

    names: list[str]
    n_rows: int

    def number_type(self, name: str) -> np.dtype[Any] | None:
        """The numpy type of a column of numbers; None for other columns."""

    def missing(self, name: str) -> Array:
        """Where the column has no value; empty if it has them all."""

    def values(self, name: str) -> Array:
        """The values of a column that has them all."""

    def is_category(self, name: str) -> bool:
        """Whether a column, none of numbers, holds categories."""

    def categories(self, name: str) -> tuple[Array, Any]:
        """The number of each row's category, −1 where it is missing, and the categories."""


class _PandasColumns:
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

    def is_category(self, name: str) -> bool:
        series, pandas = self._series[name], import_library("pandas")
        if series.dtype == object:
            return bool(pandas.api.types.infer_dtype(series, skipna=True) == "string")
        return isinstance(series.dtype, pandas.CategoricalDtype) or pandas.api.types.is_string_dtype(series.dtype)

    def categories(self, name: str) -> tuple[Array, Any]:
        series = self._series[name]
        if hasattr(series, "cat"):
            return series.cat.codes.to_numpy(), series.cat.categories
        codes, found = series.factorize()
        return codes, found


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

    def missing(self, name: str) -> Array:
        return np.asarray(self._frame[name].is_null().to_numpy())

    def values(self, name: str) -> Array:
        return np.asarray(self._frame[name].to_numpy())

    def is_category(self, name: str) -> bool:
        return type(self._frame.schema[name]).__name__ in ("String", "Categorical", "Enum")

    def categories(self, name: str) -> tuple[Array, Any]:
        found: dict[str | None, int] = {None: -1}
        values = self._frame[name].to_list()
        codes = np.array([found.setdefault(value, len(found) - 1) for value in values], np.int64)
        return codes, list(found)[1:]


class _ArrowColumns:
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

    def is_category(self, name: str) -> bool:
        types, dtype = import_library("pyarrow").types, self._table.schema.field(name).type
        return bool(types.is_dictionary(dtype) or types.is_string(dtype) or types.is_large_string(dtype))

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
    """Whether this is a data frame, of any of the three libraries."""
    library, kind = _type_of(table)
    return (
        (library == "pandas" and hasattr(table, "iloc") and table.ndim == 2)
        or (library == "polars" and kind in ("DataFrame", "LazyFrame"))
        or (library == "pyarrow" and hasattr(table, "column_names"))
    )


def columns_of(frame: Any) -> Columns:
    """The columns of a data frame."""
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
        values, missing = columns.values(name), columns.missing(name)
        X[:, at] = np.where(missing, np.nan, values).astype(X.dtype) if missing.any() else values
    return X, tuple(names), categories


def category_column(columns: Columns, name: str) -> tuple[Array, tuple[Any, ...]]:
    """The numbers that stand for a column's categories (see ``data.categories``), and these."""
    codes, found = columns.categories(name)
    values, numbers = category_numbers(found, f"the column {name!r}")
    return np.append(numbers, NO_CATEGORY)[codes], values


def holds_categories(columns: Columns, name: str) -> bool:
    """Whether a column holds categories."""
    return columns.number_type(name) is None and columns.is_category(name)


def has_categories(X: Any) -> bool:
    """Whether this is a data frame with columns of categories."""
    columns = columns_of(X) if is_frame(X) else None
    return columns is not None and any(holds_categories(columns, name) for name in columns.names)


def has_qid(X: Any) -> bool:
    """Whether this is a data frame with a column ``qid``."""
    if not is_frame(X):
        return False
    return _QID in (map(str, X.columns) if hasattr(X, "iloc") else columns_of(X).names)


def split_qid(X: Any, qid: Any = None, group: Any = None) -> tuple[Any, Any]:
    """Features without query ids, and the query ids: in a data frame, the column ``qid`` is that, not a feature.

    Parameters
    ----------
    X : array-like, scipy sparse or data frame
        Anything without such a column comes back unchanged, and with it ``qid``.
    qid, group : array-like, optional
        What else the caller gave. With a column ``qid``, ``qid`` must be the same ids, and ``group`` is refused.
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


def feature_type(columns: Columns, name: str) -> np.dtype[Any]:
    """The numpy type of a column of numbers or categories; float64 holds these."""
    if holds_categories(columns, name):
        return np.dtype(np.float64)
    return number_type(columns, name)


def number_type(columns: Columns, name: str) -> np.dtype[Any]:
    """The numpy type of a column, which must be numbers."""
    dtype = columns.number_type(name)
    if dtype is None:
        raise InputError(f"the column {name!r} does not hold numbers; leave it out or turn it into numbers")
    return dtype


def float32_holds(types: Sequence[np.dtype[Any]]) -> bool:
    """Whether float32 holds all values of such columns: float32, integers of up to 16 bits, booleans."""
    return all(np.can_cast(dtype, np.float32) for dtype in types)


def check_different(names: Sequence[str]) -> None:
    """Reject two columns of the same name."""
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
