"""The linear model: score(x) = Σ_j coef_j · x_j over the raw features, without intercept.

The products are summed in float64 from the first feature to the last. That fixes every bit of a score: it does not
depend on the other rows, on whether X is dense or sparse, or on whether zeros at the end were left out, which a BLAS
product does not promise. The cost is about three times that of BLAS, far below that of reading the features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.errors import InputError

__all__ = ["LinearModel"]

Array = npt.NDArray[Any]
_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 20
_SPARSE_VALUES = 1 << 16
_NAMED = 5  # missing features named in an error


@dataclass(frozen=True, eq=False)
class LinearModel:
    """One weight per raw feature.

    Attributes
    ----------
    coef : ndarray of float64
        The weights, finite.
    feature_names : tuple of str or None
        One name per weight.

    Examples
    --------
    >>> model = LinearModel([2.0, -1.0, 0.5])
    >>> model.score([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]).tolist()
    [1.0, 2.0]
    >>> model.score([[1.0, 1.0]]).tolist()  # zeros at the end may be left out
    [1.0]
    """

    coef: Array
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        try:
            coef = np.array(self.coef, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the weights of a linear model must be numbers") from None
        if coef.ndim != 1:
            raise InputError(f"weights of shape {coef.shape}; expected one weight per feature")
        finite = np.isfinite(coef)
        if not finite.all():
            at = int(np.argmin(finite))
            raise InputError(f"the weight of feature {at} (from 0) is {coef[at]}; weights must be finite")
        coef.flags.writeable = False
        object.__setattr__(self, "coef", coef)
        if self.feature_names is None:
            return
        names = tuple(str(name) for name in self.feature_names)
        if len(names) != len(coef):
            raise InputError(f"{len(coef)} weights but {len(names)} feature names")
        object.__setattr__(self, "feature_names", names)

    @property
    def n_features(self) -> int:
        """Number of weights."""
        return len(self.coef)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, f1, f2, … where they have none."""
        return self.feature_names or _default_names(self.n_features)

    def score(self, X: Any, feature_names: Sequence[str] | None = None) -> Array:
        """Scores, higher is better, one float64 per row.

        Parameters
        ----------
        X : array-like or scipy sparse
            Features; memory-mapped arrays are read a block at a time, and float32 is never copied whole to float64.
        feature_names : sequence of str, optional
            Names of the columns. Where the model has names too, columns are found by name, and columns that the model
            does not know are left out. Otherwise they are found by position; without names (or with the names f1, f2,
            … that converting gives them) the last ones may be missing and are then 0, as LETOR text leaves zeros out.
        """
        X = _as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is reported below
            scores = self._sparse(X, columns) if sparse.issparse(X) else self._dense(X, columns)
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InputError(f"the score of row {row} (from 0) is {scores[row]}; features and scores must be finite")
        return scores

    def aligned(self, X: Any, feature_names: Sequence[str] | None = None) -> Array:
        """Rows as dense float64 with the model's features as columns: for a few rows to look at."""
        X = _as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        part = _picked(X, columns)
        rows = np.zeros((X.shape[0], self.n_features))
        rows[:, : part.shape[1]] = part.toarray() if sparse.issparse(part) else part
        return rows

    def contributions(self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None = None) -> Array:
        """What each feature adds to score(a) − score(b): ``coef * (a - b)``, in the order of the model's features.

        Examples
        --------
        >>> LinearModel([2.0, -1.0]).contributions([1.0, 1.0], [0.0, 3.0]).tolist()
        [2.0, 2.0]
        """
        a, b = (self.aligned(_as_row(row), feature_names)[0] for row in (row_a, row_b))
        return self.coef * (a - b)

    def _columns(self, n_columns: int, feature_names: Sequence[str] | None) -> Array | None:
        """Where the model's features stand in the data; None where they are its first columns."""
        names = None if feature_names is None else tuple(feature_names)
        if names is not None and len(names) != n_columns:
            raise InputError(f"{n_columns} features but {len(names)} feature names")
        unnamed = names is None or names == _default_names(n_columns)
        if names is not None and self.feature_names is not None:
            if names == self.feature_names or (unnamed and names == self.feature_names[:n_columns]):
                return None
            return _places(names, self.feature_names)
        if n_columns > self.n_features or (n_columns < self.n_features and not unnamed):
            raise InputError(f"the data has {n_columns:,} features, but the model was trained on {self.n_features:,}")
        return None

    def _dense(self, X: Array, columns: Array | None) -> Array:
        # Transposed blocks of one shape, whatever X is: adding up their rows keeps the order of the features.
        n_rows = X.shape[0]
        scores = np.zeros(n_rows)
        if not self.n_features:
            return scores
        rows = max(2, min(_BLOCK_ROWS, _BLOCK_VALUES // self.n_features))
        block = np.zeros((self.n_features, rows))
        weights = self.coef[:, np.newaxis]
        for start in range(0, n_rows, rows):
            part = _picked(X[start : start + rows], columns).T
            block[: part.shape[0], : part.shape[1]] = np.ascontiguousarray(part)
            block *= weights
            scores[start : start + rows] = np.add.reduce(block, axis=0)[: part.shape[1]]
        return scores + 0.0  # −0 becomes 0

    def _sparse(self, X: sparse.csr_array, columns: Array | None) -> Array:
        scores = np.zeros(X.shape[0])
        X = _picked(X, columns)
        for start, stop in _row_chunks(X.indptr):
            values = slice(X.indptr[start], X.indptr[stop])
            products = X.data[values].astype(np.float64) * self.coef[X.indices[values]]
            row = np.repeat(np.arange(stop - start), np.diff(X.indptr[start : stop + 1]))
            # bincount adds in the order of its input: from the first feature to the last.
            scores[start:stop] = np.bincount(row, products, minlength=stop - start)
        return scores + 0.0


def _default_names(n_features: int) -> tuple[str, ...]:
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def _places(names: tuple[str, ...], wanted: tuple[str, ...]) -> Array:
    for some, whose in ((names, "data"), (wanted, "model")):
        if len(set(some)) < len(some):
            raise InputError(f"a feature name occurs twice in the {whose}; expected different names to match by")
    place = {name: at for at, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise InputError(f"the data lacks {len(missing):,} of the model's {len(wanted):,} features: {shown}{more}")
    return np.array([place[name] for name in wanted], np.int64)


def _as_table(X: Any) -> Any:
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


def _as_row(row: Any) -> Any:
    if not sparse.issparse(row):
        row = np.atleast_2d(np.asarray(row))
    elif row.ndim == 1:
        row = row.reshape(1, -1)
    if row.ndim != 2 or row.shape[0] != 1:
        raise InputError(f"expected the features of one document, got an array of shape {row.shape}")
    return row


def _picked(X: Any, columns: Array | None) -> Any:
    if columns is None:
        return X
    picked = X[:, columns]
    if sparse.issparse(picked):
        picked.sort_indices()
    return picked


def _row_chunks(indptr: Array) -> Iterator[tuple[int, int]]:
    """Rows to look at together: at least one, at most about ``_SPARSE_VALUES`` values."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        stop = int(np.searchsorted(indptr, int(indptr[start]) + _SPARSE_VALUES, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield start, stop
        start = stop
