"""Data frames: the columns of a pandas, polars or pyarrow table by name; no library is imported unless it is used."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import as_ids
from rankwright.errors import InputError

__all__ = [
    "Columns",
    "check_different",
    "columns_of",
    "float32_holds",
    "frame_features",
    "has_qid",
    "import_library",
    "is_frame",
    "number_type",
    "split_qid",
]

Array = npt.NDArray[Any]
_QID = "qid"  # the column of query ids


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


def frame_features(frame: Any, wanted: Sequence[str] | None = None) -> tuple[Array, tuple[str, ...]]:
    """The columns of a data frame as a table of numbers, NaN where a value is missing, and their names.

    With ``wanted``, columns of other names are left out; otherwise all columns must be numbers.
    """
    columns = columns_of(frame)
    check_different(columns.names)
    names = [name for name in columns.names if wanted is None or name in set(wanted)]
    types = [number_type(columns, name) for name in names]
    X = np.empty((columns.n_rows, len(names)), np.float64 if not float32_holds(types) else np.float32)
    for at, name in enumerate(names):
        values, missing = columns.values(name), columns.missing(name)
        X[:, at] = np.where(missing, np.nan, values).astype(X.dtype) if missing.any() else values
    return X, tuple(names)


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
    """A table library, or how to install it."""
    try:
        return importlib.import_module(library)
    except ImportError:
        package = library.partition(".")[0]
        how = "'rankwright[tables]'" if package == "pyarrow" else package
        raise InputError(f"this needs {package}; install it with: pip install {how}") from None
