"""Tables: pandas and polars data frames and pyarrow tables, one column per feature, and writing Parquet.

A table has a column of query ids, one of labels and optionally one of document ids; all others are features.
No table library is imported unless it is used. Parquet files are read by :mod:`rankwright.data.parquet_read`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_of_row
from rankwright.data.categories import codes_of, named
from rankwright.data.columns import MAX_FIELD
from rankwright.data.dataset import RankingData
from rankwright.data.files import replace_file
from rankwright.data.folder import storable_ids
from rankwright.data.frames import (
    Columns,
    category_column,
    check_different,
    columns_of,
    feature_type,
    float32_holds,
    holds_categories,
    import_library,
    number_type,
)
from rankwright.data.rows import Rows
from rankwright.errors import InputError, shown

__all__ = ["Layout", "batch_rows", "from_frame", "to_frame", "write_parquet"]

Array = npt.NDArray[Any]
_WRITE_VALUES = 1 << 22  # values per row group written: a few dozen megabytes, however wide the table
_DENSE_LIMIT = 4 << 30  # bytes above which sparse data is not written as dense columns


def from_frame(
    frame: Any,
    *,
    qid: str = "qid",
    docid: str = "docid",
    label: str = "label",
    features: Sequence[str] | None = None,
) -> RankingData:
    """Turn a data frame into ranking data.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        One row per document, in any order.
    qid, label : str
        The columns of query ids and labels.
    docid : str
        The column of document ids; ``"docid"`` may be missing.
    features : sequence of str, optional
        The feature columns; by default all other columns. Numbers and booleans must all be there. Columns of strings,
        and those of pandas' type category, polars' Categorical and Enum, and pyarrow's dictionaries, hold categories,
        which rankers made of trees can use; some may be missing. Without categories, features are float32 if every
        column fits (float32, integers of up to 16 bits, booleans), otherwise float64.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"qid": ["a", "a"], "label": [1, 0], "bm25": [2.5, 0.5]})
    >>> data = from_frame(frame)
    >>> data.feature_names, data.labels.tolist()
    (('bm25',), [1.0, 0.0])
    """
    columns = columns_of(frame)
    layout = Layout(columns, qid, docid, label, features)
    if columns.n_rows == 0:
        raise InputError("there are no rows")
    categories: dict[int, dict[Any, None]] = {}
    rows = batch_rows(columns, layout, 0, layout.dtype, categories)
    return RankingData.from_arrays(
        rows.X,
        rows.labels,
        rows.qid,
        doc_ids=rows.doc_ids,
        feature_names=layout.features,
        categories={at: tuple(values) for at, values in categories.items()},
    )


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
    (columns,) = _column_batches(data, max(1, data.n_docs), library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def write_parquet(data: RankingData, path: str | Path) -> None:
    """Write data as a parquet file with the columns of :func:`to_frame`; needs pyarrow.

    Parameters
    ----------
    data : RankingData
        The data to write. Sparse features become dense columns, up to 4 GiB.
    path : path
        The file; it appears under its name only when it is complete.

    Examples
    --------
    >>> write_parquet(data, "train.parquet")  # doctest: +SKIP
    """
    arrow, parquet = import_library("pyarrow"), import_library("pyarrow.parquet")
    batches = _column_batches(data, max(1, _WRITE_VALUES // max(1, data.n_features)), "pyarrow")
    first = arrow.table(next(batches))
    with replace_file(path) as file, parquet.ParquetWriter(file, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for columns in batches:
            writer.write_table(arrow.table(columns, schema=first.schema))


class Layout:
    """The roles of the columns, checked once; ``left_out`` are no features unless these are given."""

    def __init__(
        self,
        columns: Columns,
        qid: str,
        docid: str,
        label: str,
        features: Sequence[str] | None,
        left_out: Collection[str] = (),
    ) -> None:
        names = columns.names
        if not names:
            raise InputError("the table has no columns")
        check_different(names)
        self.qid, self.label = qid, label
        self.docid = docid if docid in names or docid != "docid" else None
        roles = {qid, label, docid}
        others = [name for name in names if name not in roles and name not in left_out]
        self.features = others if features is None else list(features)
        if not self.features:
            raise InputError(f"no feature columns besides {', '.join(name for name in names if name in roles)}")
        self.used = [qid, label, *([self.docid] if self.docid else []), *self.features]
        for name in self.used:
            if name not in names:
                shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                raise InputError(f"there is no column {name!r}; the columns are {shown}")
        number_type(columns, label)
        self.categorical = [name for name in self.features if holds_categories(columns, name)]
        small = float32_holds([feature_type(columns, name) for name in self.features])
        self.dtype = np.dtype(np.float32 if small else np.float64)


def batch_rows(
    batch: Columns, layout: Layout, start: int, dtype: np.dtype[Any], categories: dict[int, dict[Any, None]]
) -> Rows:
    """The rows of a batch; the categories that occur are added to ``categories``, by column.

    ``start`` is the number of its first row, for messages.
    """
    X, labels = np.empty((batch.n_rows, len(layout.features)), dtype), np.empty(batch.n_rows)
    if layout.categorical and dtype != np.float64:
        raise InputError(f"{dtype} cannot hold the categories of {named(layout.categorical)}; expected float64")
    _fill(labels, batch, layout.label, start)
    categorical = set(layout.categorical)
    for at, name in enumerate(layout.features):
        if name in categorical:
            X[:, at], values = category_column(batch, name)
            categories.setdefault(at, {}).update(dict.fromkeys(values))
        else:
            _fill(X[:, at], batch, name, start)
    doc_ids = None if layout.docid is None else _ids(batch, layout.docid, start)
    return Rows(X, labels, _ids(batch, layout.qid, start), doc_ids)


def _fill(target: Array, batch: Columns, name: str, start: int) -> None:
    """Copy a column of numbers into its place."""
    _check_present(batch, name, start)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes inf, which is reported below
        values = batch.values(name).astype(target.dtype, copy=False)
    finite = np.isfinite(values)
    if not finite.all():
        row = int(np.argmin(finite))
        what = "nan" if np.isnan(values[row]) else f"infinite or too large for {target.dtype}"
        raise InputError(f"column {name!r}, row {start + row} (from 0) is {what}; expected a finite number")
    target[:] = values


def _ids(batch: Columns, name: str, start: int) -> Array:
    """A column of ids; text as fixed-width strings, numbers unchanged, mixed objects as objects."""
    _check_present(batch, name, start)
    values = batch.values(name)
    if values.dtype.kind == "O" and any(type(value) is bytes for value in values):
        values = np.array([_decoded(value, name, start + row) for row, value in enumerate(values)], object)
    if values.dtype.kind == "O" and all(type(value) is str for value in values):
        row = int(np.argmax([len(value) for value in values]))
        if len(values[row]) > MAX_FIELD:
            what = f"column {name!r}, row {start + row} (from 0) has an id of {len(values[row]):,} characters"
            raise InputError(f"{what}; expected at most {MAX_FIELD}")
        return values.astype(str)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"the column {name!r} contains nan or inf; expected whole numbers or strings")
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


def _check_present(batch: Columns, name: str, start: int) -> None:
    missing = batch.missing(name)
    if missing.any():
        row = start + int(np.argmax(missing))
        raise InputError(f"column {name!r}, row {row} (from 0) is missing; expected a value in every row")


def _column_batches(data: RankingData, batch_rows: int, library: str) -> Iterator[dict[str, Any]]:
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
