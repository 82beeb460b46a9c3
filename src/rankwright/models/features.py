"""Which columns of a data set a model's features are: by name where both have names, by position otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.errors import InputError

__all__ = ["NamedFeatures", "as_row", "as_table", "default_names", "picked"]

Array = npt.NDArray[Any]
_NAMED = 5  # missing features named in an error


class NamedFeatures:
    """Base of models: it has a number of features, and perhaps their names."""

    feature_names: tuple[str, ...] | None
    query_scaling: str | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, f1, f2, … where they have none."""
        return self.feature_names or default_names(self.n_features)

    def importance(self) -> Array:
        """How much each feature matters; where it has a direction, with a sign."""
        raise NotImplementedError

    def _columns(self, n_columns: int, feature_names: Sequence[str] | None) -> Array | None:
        """Where the model's features stand in the data; None where they are its first columns."""
        names = None if feature_names is None else tuple(feature_names)
        if names is not None and len(names) != n_columns:
            raise InputError(f"{n_columns} features but {len(names)} feature names")
        unnamed = names is None or names == default_names(n_columns)
        if names is not None and self.feature_names is not None:
            if names == self.feature_names or (unnamed and names == self.feature_names[:n_columns]):
                return None
            return _places(names, self.feature_names)
        if n_columns > self.n_features or (n_columns < self.n_features and not unnamed):
            raise InputError(f"the data has {n_columns:,} features, but the model was trained on {self.n_features:,}")
        return None


def default_names(n_features: int) -> tuple[str, ...]:
    """The names f1, f2, … that features without names go by."""
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


def picked(X: Any, columns: Array | None) -> Any:
    """Some columns; None: all."""
    if columns is None:
        return X
    picked = X[:, columns]
    if sparse.issparse(picked):
        picked.sort_indices()
    return picked
