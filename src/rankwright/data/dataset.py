"""RankingData: features, labels and query boundaries, validated once, then frozen; and some queries of it.

Everything downstream relies on it: the rows of a query are adjacent, values are finite, labels are finite and at least
0, arrays are C-contiguous (or canonical CSR) and read-only. Ids are kept here only; other code uses integer positions.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import display, sparse
from rankwright.data.categories import Categories, given_categories, joined, named, number_of, shown_category
from rankwright.data.order import (
    as_ids,
    gather_queries,
    join_ids,
    query_chunks,
    query_of_row,
    rows_of,
    sizes_to_indptr,
)
from rankwright.errors import InputError

__all__ = ["RankingData"]

# Matching columns: by name where both sides have names, by position otherwise.
#
# A model is never applied to data that lacks some of its features, unless the caller says that they are 0. Text leaves
# out features that are 0, so data without names (or with the names f1, f2, … that converting gives them) may rightly be
# narrower than the data it belongs to: within one training run its last columns may be missing and are 0.


_MOST_FEATURES, _FEATURES_PER_BYTE = 1 << 20, 8


class MissingFeaturesError(InputError):
    """Data that lacks features; callers that can take them as 0 say how, by ``or_use``."""

    def or_use(self, option: str, path: Any = None) -> InputError:
        """The same error, naming the option that takes missing features as 0."""
        how = f"to take missing features as 0, which text leaves out, use {option}"
        return InputError(f"{self.message}; {how}", path or self.path)


def default_names(n_features: int) -> tuple[str, ...]:
    """Names f1, f2, … of unnamed features."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def most_features(n_bytes: int) -> int:
    """The largest number of columns allowed for sparse data of ``n_bytes`` bytes.

    Work done for every feature, used or not, then stays in proportion to the data.
    """
    return _MOST_FEATURES + _FEATURES_PER_BYTE * n_bytes


def find_columns(
    n_columns: int,
    names: Sequence[str] | None,
    n_wanted: int,
    wanted: tuple[str, ...] | None,
    what: str,
    *,
    zeros_left_out: bool = False,
) -> Array | None:
    """Columns of the wanted features in a data set; None if they are its first columns.

    Raises MissingFeaturesError if the data lacks some.

    `n_columns`, `names`: the columns of the data. `n_wanted`, `wanted`: the features to find. `what`: whose features
    they are, for messages: ``"the model"``, ``"the training data"``. `zeros_left_out`: whether columns without names
    may be missing at the end, as text leaves out features that are 0.
    """
    names = checked_names(names, n_columns)
    shorter = zeros_left_out and (names is None or names == default_names(n_columns))
    if names is not None and wanted is not None:
        if names == wanted or (shorter and names == wanted[:n_columns]):
            return None
        return _places(names, wanted, what)
    if n_columns > n_wanted or (n_columns < n_wanted and not shorter):
        kind = InputError if n_columns > n_wanted else MissingFeaturesError
        columns = f"{n_columns:,} feature{'s' * (n_columns != 1)}"
        raise kind(f"the data has {columns}, but {what} has {n_wanted:,}")
    return None


def add_missing(
    X: Features, names: Sequence[str] | None, n_wanted: int, wanted: tuple[str, ...] | None
) -> tuple[Any, tuple[str, ...] | None]:
    """A table, dense or CSR, and its names, with columns of 0 added for the wanted features that it lacks.

    Features are matched by name where both sides have names; otherwise the last ones are missing. Named columns are not
    matched by position, as that would not tell which ones are missing.
    """
    names = checked_names(names, X.shape[1])
    if names is not None and wanted is not None:
        missing = tuple(name for name in wanted if name not in set(names))
        return widen(X, len(names) + len(missing)), names + missing
    if names is not None and names != default_names(len(names)):
        return X, names
    X = widen(X, n_wanted)
    return X, None if names is None else default_names(X.shape[1])


def checked_names(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
    if names is not None and len(names) != n_columns:
        raise InputError(f"{n_columns} features but {len(names)} feature names")
    return None if names is None else tuple(names)


def _places(names: tuple[str, ...], wanted: tuple[str, ...], what: str) -> Array:
    for listed, owner in ((names, "the data"), (wanted, what)):
        if len(set(listed)) < len(listed):
            raise InputError(f"{owner} has two features of the same name; expected different names to match by")
    position = {name: index for index, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        lacking = f"the data lacks {len(missing):,} of {what}'s {len(wanted):,} features"
        raise MissingFeaturesError(f"{lacking}: {named(missing)}")
    return np.array([position[name] for name in wanted], np.int64)


def pick_columns(X: Features, columns: Array | None) -> Any:
    """Some columns of a dense or CSR table; None for all."""
    if columns is None:
        return X
    picked = X[:, columns]
    if sparse.issparse(picked):
        picked.sort_indices()
    return picked


def widen(X: Array, n_columns: int) -> Any:
    """Append columns of 0 to a dense or CSR table; unchanged if it is wide enough."""
    if X.shape[1] >= n_columns:
        return X
    if sparse.issparse(X):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns))
    return np.pad(X, ((0, 0), (0, n_columns - X.shape[1])))


# Values of features and labels, checked: numbers of the right shape, finite, and labels at least 0.


_CHECK_ROWS = 1 << 20  # values per step of the finiteness check: bounded memory on mapped files


def as_table(X: Features) -> Any:
    """X as a table of numbers, dense or canonical CSR."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"features must be a table (rows × columns), got an array of shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {X.dtype}")
    return X


def checked_features(X: Features, allow_missing: bool = False, check_finite: bool = True) -> Any:
    """Features as C-contiguous or canonical CSR float32 or float64, all finite or, if allowed, NaN."""
    X = as_table(X)
    if X.dtype not in (np.float32, np.float64):
        wanted = np.result_type(X.dtype, np.float32)
        X = X.astype(wanted if wanted in (np.float32, np.float64) else np.float64)
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X)
    if check_finite:
        _check_finite(X, allow_missing)
    return X


def _check_finite(X: Any, allow_missing: bool) -> None:
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X.reshape(-1)
    for start in range(0, values.size, _CHECK_ROWS):
        chunk = values[start : start + _CHECK_ROWS]
        finite = ~np.isinf(chunk) if allow_missing else np.isfinite(chunk)
        if not finite.all():
            at = start + int(np.argmin(finite))
            row = int(np.searchsorted(X.indptr, at, side="right")) - 1 if is_sparse else at // X.shape[1]
            column = int(X.indices[at]) if is_sparse else at % X.shape[1]
            raise InputError(f"row {row}, feature {column} (both from 0) is {values[at]}; features must be finite")


def checked_labels(labels: npt.ArrayLike, n_rows: int) -> Array:
    """Labels as float64: one per row, finite and at least 0."""
    try:
        checked = np.array(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("labels must be numbers") from None
    if checked.shape != (n_rows,):
        raise InputError(f"{n_rows} rows but labels of shape {checked.shape}; expected one label per row")
    bad = ~(np.isfinite(checked) & (checked >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"the label of row {row} (from 0) is {checked[row]:g}; labels must be finite and at least 0")
    return checked


@dataclass(frozen=True, eq=False)
class RankingData(display.Displayed):
    """Documents of queries with features and labels, in contiguous query blocks.

    Make one with :meth:`from_arrays` or a reader (:func:`rankwright.read_letor`, :func:`rankwright.read_data`); the
    constructor takes blocks that are already in place and checks nothing.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_array
        Features, one row per document, float32 or float64.
    labels : ndarray
        One finite number ≥ 0 per row; 0 is not relevant. All NaN where there are none, as rows that are only scored
        need none: see ``is_labelled``.
    indptr : ndarray
        Query ``q`` owns the rows ``indptr[q]:indptr[q+1]``.
    query_ids : ndarray
        One id per query, of the caller's type.
    doc_ids : ndarray or None
        One id per row.
    feature_names : tuple of str or None
        One name per column.
    rows : ndarray or None
        ``rows[i]`` is the caller's number of row ``i``; None if the order is the caller's.
    categories : mapping of int to tuple
        For each column that holds categories their values, all strings or all numbers; see
        ``rankwright.data.categories`` for how X stores them. Rankers made of trees can use such columns.
    """

    X: Any
    labels: Array
    indptr: Array
    query_ids: Array
    doc_ids: Array | None = None
    feature_names: tuple[str, ...] | None = None
    rows: Array | None = None
    categories: Categories = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        X: Features,
        labels: npt.ArrayLike | None,
        qid: npt.ArrayLike | None = None,
        *,
        group: npt.ArrayLike | None = None,
        doc_ids: npt.ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        allow_missing: bool = False,
        categories: Categories | None = None,
        check_finite: bool = True,
    ) -> RankingData:
        """Check arrays and gather the rows of each query.

        Parameters
        ----------
        X : array-like or scipy sparse
            Features; float32 and float64 stay unchanged, other numbers are converted. A memory-mapped array whose
            queries are contiguous is used in place.
        labels : array-like or None
            One label per row; None for rows that are only scored.
        qid : array-like, optional
            Query id per row, of any type, in any order.
        group : array-like of int, optional
            Instead of ``qid``: the number of consecutive rows of each query (LightGBM's convention).
        doc_ids, feature_names : sequences, optional
            Ids of rows and names of columns.
        allow_missing : bool
            Allow NaN for missing values, which tree rankers can handle.
        categories : mapping, optional
            The values of categorical columns, by the number of the column; X holds the numbers that stand for them.
        check_finite : bool
            Whether every feature is looked at; False where the caller does so.

        Examples
        --------
        >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["b", "a", "b"])
        >>> data.query_ids.tolist(), data.sizes.tolist(), data.labels.tolist()
        (['b', 'a'], [2, 1], [0.0, 2.0, 1.0])
        >>> data.to_caller_order(data.labels).tolist()
        [0.0, 1.0, 2.0]
        """
        X = checked_features(X, allow_missing, check_finite)
        n_rows = X.shape[0]
        labels = np.full(n_rows, np.nan) if labels is None else checked_labels(labels, n_rows)
        rows, indptr, query_ids = _blocks(qid, group, n_rows)
        ids = None if doc_ids is None else np.asarray(doc_ids)
        if ids is not None and ids.shape != (n_rows,):
            raise InputError(f"{n_rows} rows but document ids of shape {ids.shape}; expected one id per row")
        names = checked_names(None if feature_names is None else [*map(str, feature_names)], X.shape[1])
        if rows is not None:
            X, labels = X[rows], labels[rows]
            ids = None if ids is None else ids[rows]
        return cls(
            _read_only(X),
            _read_only(labels),
            _read_only(indptr),
            _read_only(query_ids),
            None if ids is None else _read_only(ids),
            names,
            None if rows is None else _read_only(rows),
            given_categories(categories or {}, X.shape[1]),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[RankingData]) -> RankingData:
        """Join data sets with the same features; queries with the same id become one."""
        if not parts:
            raise InputError("nothing to concatenate")
        if len({data.n_features for data in parts}) > 1:
            counts = ", ".join(str(data.n_features) for data in parts)
            raise InputError(f"data sets with different numbers of features cannot be joined: {counts}")
        names = parts[0].feature_names
        if any(data.feature_names != names for data in parts):
            raise InputError("data sets with different feature names cannot be joined")
        if any(data.is_sparse for data in parts):
            X = sparse.vstack([sparse.csr_array(data.X) for data in parts], format="csr")
        else:
            X = np.concatenate([data.X for data in parts])
        ids = [data.doc_ids for data in parts if data.doc_ids is not None]
        return cls.from_arrays(
            X,
            np.concatenate([data.labels for data in parts]) if any(data.is_labelled for data in parts) else None,
            join_ids([data.qid for data in parts]),
            doc_ids=join_ids(ids) if len(ids) == len(parts) else None,
            feature_names=names,
            categories=joined(parts),
        )

    @property
    def n_docs(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(stored(self)[0].shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features are CSR."""
        return sparse.issparse(stored(self)[0])

    @property
    def sizes(self) -> Array:
        """Documents per query."""
        return np.diff(self.indptr)

    @property
    def qid(self) -> Array:
        """The query id of every row."""
        return np.repeat(self.query_ids, self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, … if they have none."""
        return self.feature_names or default_names(self.n_features)

    @property
    def is_labelled(self) -> bool:
        """Whether there are labels."""
        return not (self.n_docs and np.isnan(self.labels[0]))

    def check_labels(self) -> None:
        """Refuse rows without labels where labels are learned from or evaluated by."""
        if not self.is_labelled:
            raise InputError("the data has no labels, which only scoring can do without; expected one for every row")

    @cached_property
    def has_order(self) -> Array:
        """For each query, whether its documents have at least two different labels, an order to learn."""
        self.check_labels()
        starts = self.indptr[:-1]
        return _read_only(np.minimum.reduceat(self.labels, starts) < np.maximum.reduceat(self.labels, starts))

    def has_both(self, relevant_from: float) -> Array:
        """For each query, whether it has both documents with labels of at least ``relevant_from`` and others."""
        cache: dict[float, Array] = vars(self).setdefault("_has_both", {})
        if relevant_from not in cache:
            self.check_labels()
            n_relevant = np.add.reduceat(self.labels >= relevant_from, self.indptr[:-1], dtype=np.int64)
            cache[relevant_from] = _read_only(np.asarray((n_relevant > 0) & (n_relevant < self.sizes)))
        return cache[relevant_from]

    def to_caller_order(self, values: Array) -> Array:
        """Put one value per row into the caller's order."""
        if self.rows is None:
            return values
        reordered = np.empty_like(values)
        reordered[self.rows] = values
        return reordered

    def select(self, queries: Iterable[int] | Array) -> RankingData:
        """The data of some queries, given by their positions in ``query_ids``, in that order."""
        positions = np.asarray(list(queries) if not isinstance(queries, np.ndarray) else queries)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        if positions.dtype.kind not in "iu" and len(positions):
            raise InputError(f"queries are selected by integers or a mask, got {positions.dtype}")
        positions = positions.astype(np.int64)
        if ((positions < 0) | (positions >= self.n_queries)).any():
            raise InputError(f"query positions must be in 0..{self.n_queries - 1}")
        indptr = sizes_to_indptr(self.sizes[positions])
        return self._take(rows_of(self.indptr[positions], indptr), indptr, self.query_ids[positions])

    def select_docs(self, kept: npt.ArrayLike) -> RankingData:
        """The documents that a mask keeps, in this data's own order; queries without any are left out.

        Examples
        --------
        >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["b", "a", "b"])
        >>> data.select_docs([False, True, False]).query_ids.tolist()
        ['b']
        """
        mask = np.asarray(kept)
        if mask.dtype != bool or mask.shape != (self.n_docs,):
            raise InputError(f"documents are selected by a mask of {self.n_docs} truth values")
        rows = np.flatnonzero(mask)
        sizes = np.diff(np.searchsorted(rows, self.indptr))
        return self._take(rows, sizes_to_indptr(sizes[sizes > 0]), self.query_ids[sizes > 0])

    def _take(self, rows: Array, indptr: Array, query_ids: Array) -> RankingData:
        return RankingData(
            _read_only(self.X[rows]),
            _read_only(self.labels[rows]),
            _read_only(indptr),
            _read_only(query_ids),
            None if self.doc_ids is None else _read_only(self.doc_ids[rows]),
            self.feature_names,
            categories=self.categories,
        )

    def with_features(self, X: Features, feature_names: Sequence[str] | None = None) -> RankingData:
        """The same documents with other features (scaled, binned, selected); the same columns hold categories."""
        X = checked_features(X)
        if X.shape[0] != self.n_docs:
            raise InputError(f"{self.n_docs} documents but features for {X.shape[0]}")
        same = X.shape[1] == self.n_features
        if feature_names is None:
            names = self.feature_names if same else None
        else:
            names = checked_names([*map(str, feature_names)], X.shape[1])
        categories = self._categories_of(names, X.shape[1]) if same or names is not None else {}
        return dataclasses.replace(self, X=_read_only(X), feature_names=names, categories=categories)

    def _categories_of(self, names: tuple[str, ...] | None, n_features: int) -> Categories:
        """Categories of other columns, matched by name or else by position."""
        if names is None or self.feature_names is None or names == self.feature_names:
            return {column: values for column, values in self.categories.items() if column < n_features}
        position = {name: index for index, name in enumerate(names)}
        matched = ((position.get(self.feature_names[column]), values) for column, values in self.categories.items())
        return {column: values for column, values in matched if column is not None}

    def without_categories(self, further: Sequence[int] = ()) -> RankingData:
        """The same documents with 0 in categorical columns, which become ordinary columns of numbers.

        Parameters
        ----------
        further : sequence of int
            Columns that hold categories as whole numbers.
        """
        columns = [*self.categories, *further]
        if not columns:
            return self
        X = self.X.copy()
        if self.is_sparse:
            X.data[np.isin(X.indices, columns)] = 0
        else:
            X[:, columns] = 0
        return dataclasses.replace(self, X=_read_only(X), categories={})

    def check_numbers(self, what: str, instead: str) -> None:
        """Raise if there are columns of categories, which ``what`` cannot use; the message says what to do instead."""
        if self.categories:
            columns = named(self.names[column] for column in sorted(self.categories))
            raise InputError(f"{what} cannot use categories ({columns}); drop these columns, or {instead}")

    def widened(self, n_features: int) -> RankingData:
        """The same documents with columns of 0 added at the end; unchanged if there are enough.

        Examples
        --------
        >>> RankingData.from_arrays([[1.0, 2.0]], [0], group=[1]).widened(3).X.tolist()
        [[1.0, 2.0, 0.0]]
        """
        if self.n_features >= n_features:
            return self
        names = self.feature_names
        if names is not None and names != default_names(self.n_features):
            problem = f"the data has {self.n_features:,} named features"
            raise InputError(f"{problem}; expected the same {n_features:,} features as the other data")
        return self._with_columns(widen(self.X, n_features), None if names is None else default_names(n_features))

    def matched_to(
        self,
        n_features: int,
        feature_names: Sequence[str] | None,
        *,
        what: str = "the training data",
        zeros_left_out: bool = True,
    ) -> RankingData:
        """The same documents with the features of other data, in its order.

        Features are matched by name if both have names, other columns are left out; otherwise they are matched by
        position.

        Parameters
        ----------
        n_features, feature_names
            The features of the other data, which this data has afterwards.
        what : str
            What the other data is, for messages.
        zeros_left_out : bool
            Whether columns without names may be missing at the end and are then 0: text leaves zeros out, so a part of
            a data set may have fewer columns than another.

        Examples
        --------
        >>> data = RankingData.from_arrays([[1.0, 2.0, 3.0]], [0], group=[1], feature_names=["a", "b", "c"])
        >>> data.matched_to(2, ["c", "a"]).X.tolist()
        [[3.0, 1.0]]
        """
        names = None if feature_names is None else tuple(feature_names)
        original = (self.n_features, self.feature_names)
        columns = find_columns(*original, n_features, names, what, zeros_left_out=zeros_left_out)
        return self._with_columns(widen(pick_columns(self.X, columns), n_features), names)

    def _with_columns(self, X: Features, names: tuple[str, ...] | None) -> RankingData:
        """The same documents with columns whose values were checked before."""
        if X is self.X and names == self.feature_names:
            return self
        X = X if sparse.issparse(X) else np.ascontiguousarray(X)
        categories = self._categories_of(names, X.shape[1])
        return dataclasses.replace(self, X=_read_only(X), feature_names=names, categories=categories)

    def with_labels(self, labels: npt.ArrayLike) -> RankingData:
        """The same documents with other labels, in this data's own order."""
        return dataclasses.replace(self, labels=_read_only(checked_labels(labels, self.n_docs)))

    def query_of_row(self) -> Array:
        """The position in ``query_ids`` of every row."""
        return query_of_row(self.indptr)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return (
            f"RankingData({self.n_queries} queries, {self.n_docs} documents, "
            f"{self.n_features} {kind} {self.X.dtype} features)"
        )

    def _shown_table(self) -> display.Tabled:
        n = min(display.SHOWN_ROWS, self.n_docs)
        queries = self.query_ids[np.searchsorted(self.indptr, np.arange(n), side="right") - 1]
        columns = {"query": [display.cell(query) for query in queries.tolist()]}
        if self.doc_ids is not None:
            columns["document"] = [display.decoded(document) for document in self.doc_ids[:n].tolist()]
        text_columns = len(columns)
        if self.is_labelled:
            columns["label"] = [f"{label:g}" for label in self.labels[:n].tolist()]
        features = _first_features(self, n)
        hidden = self.n_features - len(features)
        labels = display.counted(self.labels) if self.is_labelled else "none"
        notes = [*display.note_of_more(self.n_docs - n), f"labels: {labels}"]
        notes += [f"{hidden:,} features are not shown"] if hidden else []
        columns |= features
        rows = tuple(zip(*columns.values(), strict=True))
        return display.Tabled(tuple(columns), rows, tuple(notes), text_columns, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame; see :func:`rankwright.to_frame`."""
        return importlib.import_module("rankwright.io.frames").to_frame(self)

    def _drawing(self) -> Callable[[], Any]:
        return lambda: display.draw_values(self.labels, self.indptr, "label")


_SHOWN_FEATURES = 6


def _first_features(data: RankingData, n: int) -> dict[str, list[str]]:
    """The first features of the first documents; none for partitioned features."""
    if not hasattr(data.X, "toarray") and not isinstance(data.X, np.ndarray):
        return {}
    X = data.X[:n]
    X = X[:, :_SHOWN_FEATURES].toarray() if data.is_sparse else X[:, :_SHOWN_FEATURES]
    columns: dict[str, list[str]] = {}
    for at, name in enumerate(data.names[:_SHOWN_FEATURES]):
        texts = {number_of(value): shown_category(value) for value in data.categories.get(at, ())}
        # Features may be called label, too.
        header = name if name not in ("query", "document", "label", *columns) else f"{name} (feature)"
        columns[header] = [texts.get(value) or display.cell(value) for value in X[:, at].astype(float).tolist()]
    return columns


def _blocks(qid: npt.ArrayLike | None, group: npt.ArrayLike | None, n_rows: int) -> tuple[Array | None, Array, Array]:
    if (qid is None) == (group is None):
        raise InputError("give either qid (one query id per row) or group (rows per query)")
    if qid is not None:
        ids = as_ids(qid)
        if ids.shape != (n_rows,):
            raise InputError(f"{n_rows} rows but qid of shape {ids.shape}; expected one query id per row")
        return gather_queries(ids)
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or not (sizes >= 0).all() or (sizes != np.floor(sizes)).any():
        raise InputError("group must contain one whole number of rows per query")
    if sizes.sum() != n_rows:
        raise InputError(f"group sizes add up to {sizes.sum()} but there are {n_rows} rows")
    sizes = sizes[sizes > 0].astype(np.int64)
    return None, sizes_to_indptr(sizes), np.arange(1, len(sizes) + 1)


def _read_only(array: Features) -> Any:
    if sparse.issparse(array):  # through views: the caller's own arrays stay writeable
        arrays = (_read_only(array.data), _read_only(array.indices), _read_only(array.indptr))
        return sparse.csr_array(arrays, shape=array.shape)
    view = array.view()
    view.flags.writeable = False
    return view


# Some queries of a data set, with the features left where they are.
#
# Training leaves out queries: those without an order, those of weight 0, those of the fold that is held out. A copy of
# the features of all others would double what the data takes, and read a mapped file into memory. A subset knows at
# which row each of its queries starts instead; what asks for its ``X`` all the same gets a copy, made once.


_BATCH_BYTES = 1 << 20  # of values copied at a time
_RUN = 256  # documents of a run, on average, from which on copying runs is faster than one by one


class _Subset(RankingData):
    """A RankingData whose ``X`` is taken out of another matrix when it is first asked for."""

    _source: tuple[Any, Array] | None = None
    _ids_from: tuple[RankingData, Array] | None = None

    @cached_property
    def X(self) -> Any:
        """The features of these queries: a copy."""
        matrix, starts = stored(self)
        return _read_only(matrix[rows_of(starts, self.indptr)])

    @cached_property
    def doc_ids(self) -> Array | None:
        """The ids of these queries' documents: a copy, which training seldom asks for."""
        source, positions = self._ids_from or (None, np.empty(0, np.int64))
        if source is None or source.doc_ids is None:
            return None
        ids: Array = _read_only(source.doc_ids[rows_of(source.indptr[:-1][positions], self.indptr)])
        return ids


def some_queries(data: RankingData, queries: Array) -> RankingData:
    """The data of some queries, a mask or positions, as :meth:`RankingData.select` gives it; features stay in place.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "b", "c"])
    >>> subset = some_queries(data, np.array([True, False, True]))
    >>> stored(subset)[0] is data.X, stored(subset)[1].tolist(), subset.X.tolist()
    (True, [0, 2], [[1.0], [3.0]])
    """
    positions = np.flatnonzero(queries) if queries.dtype == bool else queries
    X, starts = stored(data)
    subset = object.__new__(_Subset)
    facts, source_facts = vars(subset), vars(data)
    facts["labels"] = _read_only(docs_of(data.labels, data, positions))
    facts["indptr"] = _read_only(sizes_to_indptr(data.sizes[positions]))
    facts["query_ids"] = _read_only(data.query_ids[positions])
    facts |= {"feature_names": data.feature_names, "rows": None, "categories": data.categories}
    facts |= {"_source": (X, starts[positions]), "_ids_from": (data, positions)}
    # What is known by now of the order in these queries is not computed again.
    facts["_has_both"] = {label: mask[positions] for label, mask in source_facts.get("_has_both", {}).items()}
    if "has_order" in source_facts:
        facts["has_order"] = source_facts["has_order"][positions]
    return subset


def docs_of(values: Array, data: RankingData, positions: Array) -> Array:
    """The values, one for each document of a data set, of the documents of some queries: a copy.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 2], qid=["a", "a", "b"])
    >>> docs_of(data.labels, data, np.array([1, 0])).tolist()
    [2.0, 0.0, 1.0]
    """
    first, sizes = data.indptr[:-1][positions], data.sizes[positions]
    starts, stops = adjacent(first, sizes)
    if _RUN * len(starts) > len(values) or not len(starts):
        return np.asarray(values[rows_of(first, sizes_to_indptr(sizes))])
    return np.concatenate([values[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)])


def with_features(data: RankingData, X: Features) -> RankingData:
    """The same documents with the features of another matrix, whose rows are those of the stored one."""
    subset = some_queries(data, np.arange(data.n_queries))
    vars(subset).update({"_source": (X, stored(data)[1])})
    return subset


def stored(data: RankingData) -> tuple[Any, Array]:
    """The matrix that holds the features, and the row at which each query starts; it may hold other rows too."""
    source = data._source if isinstance(data, _Subset) else None
    return (data.X, data.indptr[:-1]) if source is None else source


def source_of(data: RankingData) -> RankingData:
    """The data set whose matrix holds the features: itself, or the one of which this is a subset."""
    while isinstance(data, _Subset) and data._ids_from is not None:
        data = data._ids_from[0]
    return data


def pieces(data: RankingData) -> Iterator[Any]:
    """The features, in order, as views of as many adjacent rows as there are."""
    X = stored(data)[0]
    starts, stops = segments(data)
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield _row_view(X, start, stop)


def column_of(data: RankingData, column: int) -> Array:
    """The values of one feature in float64."""
    X, rows = stored(data)[0], rows_in(data)
    if not sparse.issparse(X):
        return np.asarray(X[:, column] if rows is None else X[rows, column], np.float64)
    columns = [piece[:, [column]].toarray()[:, 0] for piece in pieces(data)]
    return np.concatenate(columns, dtype=np.float64) if columns else np.empty(0)


def segments(data: RankingData) -> tuple[Array, Array]:
    """First and last rows, as starts and stops, of as many adjacent rows of the stored matrix as there are."""
    return adjacent(stored(data)[1], data.sizes)


def adjacent(starts: Array, sizes: Array) -> tuple[Array, Array]:
    """Starts and stops of runs of rows, with those that follow one another as one.

    Examples
    --------
    >>> adjacent(np.array([0, 2, 9]), np.array([2, 3, 1]))
    (array([0, 9]), array([ 5, 10]))
    """
    if not len(starts):
        return starts, starts
    stops = starts + sizes
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    return starts[np.append(0, breaks + 1)], stops[np.append(breaks, len(starts) - 1)]


def rows_in(data: RankingData) -> Array | None:
    """The row of the stored matrix that holds each document; None if that is its own number."""
    X, starts = stored(data)
    if len(data.labels) == X.shape[0] and np.array_equal(starts, data.indptr[:-1]):
        return None
    return rows_of(starts, data.indptr)


def batches(data: RankingData, *, at_once: bool = True) -> Iterator[tuple[Any, Array]]:
    """The features of some queries at a time, with their boundaries; copies of a few where they are not adjacent.

    ``at_once``: all of them where the data has a matrix of its own.
    """
    if at_once and "X" in vars(data):
        yield data.X, data.indptr
        return
    rows = max(1, _BATCH_BYTES * data.n_docs // max(1, feature_bytes(data)))
    X, starts = stored(data)
    for first, last in query_chunks(data.indptr, rows):
        indptr = data.indptr[first : last + 1] - data.indptr[first]
        begin = int(starts[first])
        if np.array_equal(starts[first:last] - begin, indptr[:-1]):
            yield _row_view(X, begin, begin + int(indptr[-1])), indptr
        else:
            yield X[rows_of(starts[first:last], indptr)], indptr


def _row_view(X: Features, start: int, stop: int) -> Any:
    if (start, stop) == (0, X.shape[0]):
        return X
    if not sparse.issparse(X):
        return X[start:stop]
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    # Not by the constructor, which copies an array that is a small part of another one.
    view.data, view.indices, view.indptr = X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first
    return view


def stored_width(data: RankingData) -> int:
    """Values stored for a row: the number of features, or for CSR their mean number, rounded up."""
    return -(-data.X.nnz // max(1, data.n_docs)) if data.is_sparse else data.n_features


def feature_bytes(data: RankingData) -> int:
    """Bytes of the features; of CSR, those of the values alone."""
    X, starts = stored(data)
    if not sparse.issparse(X):
        return int(X.nbytes) * data.n_docs // max(1, X.shape[0])
    return int((X.indptr[starts + data.sizes] - X.indptr[starts]).astype(np.int64).sum() * X.dtype.itemsize)
