"""RankingData: features, labels and query boundaries, validated once, then frozen.

Everything downstream relies on it: the rows of a query are adjacent, values are finite, labels are finite and at least
0, arrays are C-contiguous (or canonical CSR) and read-only. Ids are kept here only; other code uses integer positions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.blocks import as_ids, gather_queries, join_ids, query_of_row, sizes_to_indptr
from rankwright.data.categories import Categories, given_categories, joined, named
from rankwright.data.data_display import DisplayedData
from rankwright.data.matching import default_names, find_columns, pick_columns, widen
from rankwright.data.values import checked_features, checked_labels
from rankwright.errors import InputError

__all__ = ["RankingData"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class RankingData(DisplayedData):
    """Documents of queries with features and labels, in contiguous query blocks.

    Make one with :meth:`from_arrays` or a reader (:func:`rankwright.read_letor`, :func:`rankwright.read_data`); the
    constructor takes blocks that are already in place and checks nothing.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_array
        Features, one row per document, float32 or float64.
    labels : ndarray
        One finite number ≥ 0 per row; 0 is not relevant.
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
        For each column that holds categories their values, all strings or all numbers; how X holds them, says
        ``rankwright.data.categories``. Rankers made of trees can use such columns.
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
        X: Any,
        labels: npt.ArrayLike,
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
        labels : array-like
            One label per row.
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
        labels = checked_labels(labels, n_rows)
        rows, indptr, query_ids = _blocks(qid, group, n_rows)
        ids = None if doc_ids is None else np.asarray(doc_ids)
        if ids is not None and ids.shape != (n_rows,):
            raise InputError(f"{n_rows} rows but document ids of shape {ids.shape}; expected one id per row")
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != X.shape[1]:
            raise InputError(f"{X.shape[1]} features but {len(names)} feature names")
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
        if len({part.n_features for part in parts}) > 1:
            counts = ", ".join(str(part.n_features) for part in parts)
            raise InputError(f"data sets with different numbers of features cannot be joined: {counts}")
        names = parts[0].feature_names
        if any(part.feature_names != names for part in parts):
            raise InputError("data sets with different feature names cannot be joined")
        if any(part.is_sparse for part in parts):
            X = sparse.vstack([sparse.csr_array(part.X) for part in parts], format="csr")
        else:
            X = np.concatenate([part.X for part in parts])
        ids = [part.doc_ids for part in parts if part.doc_ids is not None]
        return cls.from_arrays(
            X,
            np.concatenate([part.labels for part in parts]),
            join_ids([part.qid for part in parts]),
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
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the features are CSR."""
        return sparse.issparse(self.X)

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

    @cached_property
    def has_order(self) -> Array:
        """For each query, whether its documents have at least two different labels, an order to learn."""
        starts = self.indptr[:-1]
        return _read_only(np.minimum.reduceat(self.labels, starts) < np.maximum.reduceat(self.labels, starts))

    def has_both(self, relevant_from: float) -> Array:
        """For each query, whether it has both documents with labels of at least ``relevant_from`` and others."""
        cache: dict[float, Array] = vars(self).setdefault("_has_both", {})
        if relevant_from not in cache:
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
        sizes = self.sizes[positions]
        indptr = sizes_to_indptr(sizes)
        rows = np.arange(indptr[-1]) + np.repeat(self.indptr[positions] - indptr[:-1], sizes)
        return self._take(rows, indptr, self.query_ids[positions])

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

    def with_features(self, X: Any, feature_names: Sequence[str] | None = None) -> RankingData:
        """The same documents with other features (scaled, binned, selected); the same columns hold categories."""
        X = checked_features(X)
        if X.shape[0] != self.n_docs:
            raise InputError(f"{self.n_docs} documents but features for {X.shape[0]}")
        names = self.feature_names if feature_names is None else tuple(str(name) for name in feature_names)
        if names is not None and len(names) != X.shape[1]:
            if feature_names is not None:
                raise InputError(f"{X.shape[1]} features but {len(names)} feature names")
            names = None
        categories = {} if names is None and X.shape[1] != self.n_features else self._categories_of(names, X.shape[1])
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

    def _with_columns(self, X: Any, names: tuple[str, ...] | None) -> RankingData:
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


def _read_only(array: Any) -> Any:
    if sparse.issparse(array):  # through views: the caller's own arrays stay writeable
        parts = (_read_only(array.data), _read_only(array.indices), _read_only(array.indptr))
        return sparse.csr_array(parts, shape=array.shape)
    view = array.view()
    view.flags.writeable = False
    return view
