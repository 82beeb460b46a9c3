"""The base of all models: features found in the data, and scores in the caller's order."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.data.categories import Categories, named
from rankwright.data.dataset import RankingData
from rankwright.data.frames import frame_features, is_frame, split_qid
from rankwright.data.matching import (
    MissingFeaturesError,
    add_missing,
    default_names,
    find_columns,
    pick_columns,
    widen,
)
from rankwright.errors import InputError, InputWarning

__all__ = ["Model", "as_row", "as_table", "warn_of_one_query"]

Array = npt.NDArray[Any]


class Model:
    """Turns features into scores, higher is better."""

    feature_names: tuple[str, ...] | None
    query_scaling: str | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; f1, f2, … if they have none."""
        return self.feature_names or default_names(self.n_features)

    @property
    def scales_queries(self) -> bool:
        """Whether scores depend on which documents are in a query: features are scaled within each."""
        return self.query_scaling is not None

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None) -> Array:
        """One float64 per row of a table.

        Parameters
        ----------
        X : array-like or scipy sparse
            Features; memory-mapped arrays are read a block at a time, and float32 is never copied whole to float64.
        feature_names : sequence of str, optional
            Names of the columns. If the model has names too, columns are matched by name, and columns that the model
            does not know are ignored. Otherwise they are matched by position, and there must be as many as the model
            has features. See ``missing_as_zero`` of :meth:`predict` for data that lacks some.
        indptr : array-like of int, optional
            Query ``q`` owns the rows ``indptr[q]:indptr[q+1]``. Only used by models that scale features within each
            query; without it all rows are one query.
        """
        raise NotImplementedError

    def predict(
        self,
        X: Any,
        qid: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        *,
        missing_as_zero: bool = False,
    ) -> Array:
        """One score per row, higher is better, in the caller's order.

        Parameters
        ----------
        X : RankingData, array-like, scipy sparse or data frame
            Features. The columns of a data frame (pandas, polars, pyarrow) and of named data are matched by name if the
            model has names; other columns are ignored. A column ``qid`` of a data frame holds the query ids, unless the
            model has a feature of that name.
        qid, group : array-like, optional
            Query id per row in any order, or rows per query. Only used by models that scale features within each query;
            without them all rows are one query, with a warning. A RankingData has its own.
        missing_as_zero : bool
            Whether features of the model that X lacks are 0; otherwise they are an error. LETOR text leaves zeros out,
            so a file may lack the last features.
        """
        if isinstance(X, RankingData):
            if qid is not None or group is not None:
                raise InputError("a RankingData has its queries; leave out qid and group")
            self.check_text(X.feature_names, X.categories)
            return X.to_caller_order(self._scores(X.X, X.feature_names, X.indptr, missing_as_zero))
        names, given = None, qid is not None or group is not None
        if is_frame(X):
            wanted = self._frame_columns()
            if wanted is None or "qid" not in wanted:
                X, qid = split_qid(X, qid, group)
            X, names, categories = frame_features(X, wanted)
            self.check_text(names, categories)
        if not given and (qid is None or not self.scales_queries):
            scores = self._scores(as_table(X), names, None, missing_as_zero)
            if self.scales_queries:
                warn_of_one_query(len(scores), stacklevel=2)
            return scores
        X = as_table(X)
        labels = np.zeros(X.shape[0])
        data = RankingData.from_arrays(X, labels, qid, group=group, feature_names=names, allow_missing=True)
        return self.predict(data, missing_as_zero=missing_as_zero)

    def _scores(self, X: Any, names: Sequence[str] | None, indptr: Any, missing_as_zero: bool) -> Array:
        """What ``score`` gives; features that are missing are 0, or an error that says how to make them so."""
        if missing_as_zero:
            X, names = self.with_missing(X, names)
        try:
            return np.asarray(self.score(X, names, indptr), np.float64)
        except MissingFeaturesError as error:
            raise error.or_use("missing_as_zero=True") from None

    def with_missing(self, X: Any, names: Sequence[str] | None) -> tuple[Any, tuple[str, ...] | None]:
        """A table and its names, with columns of 0 for the features of the model that it lacks."""
        return add_missing(X, names, self.n_features, self.feature_names)

    def takes_text(self, at: int) -> bool:
        """Whether a feature, given by its number, may be text: it is categorical, or not used."""
        return False

    def check_text(self, names: Sequence[str] | None, categories: Categories) -> None:
        """Reject data whose text columns are features that the model takes as numbers.

        Parameters
        ----------
        names : sequence of str or None
            The columns of the data.
        categories : mapping
            Its categorical columns, see :class:`~rankwright.RankingData`.
        """
        texts = [column for column, values in categories.items() if values and isinstance(values[0], str)]
        if names is not None and self.feature_names is not None:
            place = {name: at for at, name in enumerate(self.feature_names)}
            texts = [place[names[column]] for column in texts if names[column] in place]
        wrong = [at for at in texts if at < self.n_features and not self.takes_text(at)]
        if wrong:
            raise InputError(f"the model takes numbers, not text, in {named(self.names[at] for at in wrong)}")

    def importance(self) -> Array:
        """How much each feature matters; signed where it has a direction."""
        raise NotImplementedError

    def contributions(
        self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None = None, query: Any = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b), in the order of the model's features.

        Parameters
        ----------
        row_a, row_b : array-like or scipy sparse
            The features of two documents.
        feature_names : sequence of str, optional
            Names of the columns.
        query : array-like or scipy sparse, optional
            The features of all documents of the query, a and b among them: only needed by models that scale features
            within each query.
        """
        raise NotImplementedError

    def aligned(self, X: Any, feature_names: Sequence[str] | None = None, indptr: npt.ArrayLike | None = None) -> Array:
        """Rows as dense float64 with the model's features as columns, for a few rows to look at."""
        X = as_table(X)
        part = pick_columns(X, self._columns(X.shape[1], feature_names))
        part = part.toarray() if sparse.issparse(part) else part
        return widen(np.array(part, np.float64), self.n_features)

    def _frame_columns(self) -> tuple[str, ...] | None:
        """The columns of a data frame that the model looks at; None for all."""
        return self.feature_names

    def _check_scores(self, scores: Array, X: Any, feature_names: Sequence[str] | None, first: int = 0) -> None:
        """Reject scores that are not finite, which only features that are missing, infinite or huge give.

        Parameters
        ----------
        scores : ndarray
            One per row of X.
        X, feature_names
            As given to :meth:`score`.
        first : int
            The number of the first row.
        """
        finite = np.isfinite(scores)
        if finite.all():
            return
        row = int(np.argmin(finite))
        values = Model.aligned(self, X[row : row + 1], feature_names)[0]
        at = int(np.argmax(np.where(np.isnan(values), np.inf, np.abs(values))))
        what = f"the score of row {first + row} (from 0) is {scores[row]}"
        which = f"its feature {self.names[at]!r} is {values[at]:g}"
        raise InputError(f"{what}: {which}; features and scores must be finite")

    def _check_names(self) -> None:
        """Keep the feature names as strings, one for each feature."""
        if self.feature_names is None:
            return
        names = tuple(str(name) for name in self.feature_names)
        if len(names) != self.n_features:
            raise InputError(f"{self.n_features} features but {len(names)} feature names")
        object.__setattr__(self, "feature_names", names)

    def _columns(self, n_columns: int, feature_names: Sequence[str] | None) -> Array | None:
        """Where the model's features are in the data; None if they are its first columns."""
        return find_columns(n_columns, feature_names, self.n_features, self.feature_names, "the model")


def warn_of_one_query(n_rows: int, stacklevel: int) -> None:
    """Say that features were scaled as if all rows were the documents of one query."""
    if n_rows > 1:
        what = f"no qid: features are scaled within each query, and all {n_rows:,} rows are taken as one"
        warnings.warn(f"{what}; pass qid=…, or group=…", InputWarning, stacklevel=stacklevel + 1)


def as_table(X: Any) -> Any:
    """X as a table of numbers, sparse or dense."""
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


def as_row(row: Any) -> Any:
    """The features of one document as a table of one row."""
    if not sparse.issparse(row):
        row = np.atleast_2d(np.asarray(row))
    elif row.ndim == 1:
        row = row.reshape(1, -1)
    if row.ndim != 2 or row.shape[0] != 1:
        raise InputError(f"expected the features of one document, got an array of shape {row.shape}")
    return row
