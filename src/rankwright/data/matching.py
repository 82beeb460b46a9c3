"""Matching columns: by name where both sides have names, by position otherwise.

A model is never applied to data that lacks some of its features, unless the caller says that they are 0. Text leaves
out features that are 0, so data without names (or with the names f1, f2, … that converting gives them) may rightly be
narrower than the data it belongs to: within one training run its last columns may be missing and are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.errors import InputError

__all__ = [
    "MissingFeaturesError",
    "add_missing",
    "default_names",
    "find_columns",
    "most_features",
    "pick_columns",
    "widen",
]

Array = npt.NDArray[Any]
_NAMED = 5  # missing features named in an error
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

    Parameters
    ----------
    n_columns, names
        The columns of the data.
    n_wanted, wanted
        The features to find.
    what : str
        Whose features they are, for messages: ``"the model"``, ``"the training data"``.
    zeros_left_out : bool
        Whether columns without names may be missing at the end, as text leaves out features that are 0.
    """
    names = _checked(names, n_columns)
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
    X: Any, names: Sequence[str] | None, n_wanted: int, wanted: tuple[str, ...] | None
) -> tuple[Any, tuple[str, ...] | None]:
    """A table, dense or CSR, and its names, with columns of 0 added for the wanted features that it lacks.

    Features are matched by name where both sides have names; otherwise the last ones are missing. Named columns are not
    matched by position, as that would not tell which ones are missing.
    """
    names = _checked(names, X.shape[1])
    if names is not None and wanted is not None:
        missing = tuple(name for name in wanted if name not in set(names))
        return widen(X, len(names) + len(missing)), names + missing
    if names is not None and names != default_names(len(names)):
        return X, names
    X = widen(X, n_wanted)
    return X, None if names is None else default_names(X.shape[1])


def _checked(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
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
        shown = ", ".join(repr(name) for name in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise MissingFeaturesError(
            f"the data lacks {len(missing):,} of {what}'s {len(wanted):,} features: {shown}{more}"
        )
    return np.array([position[name] for name in wanted], np.int64)


def pick_columns(X: Any, columns: Array | None) -> Any:
    """Some columns of a dense or CSR table; None for all."""
    if columns is None:
        return X
    picked = X[:, columns]
    if sparse.issparse(picked):
        picked.sort_indices()
    return picked


def widen(X: Any, n_columns: int) -> Any:
    """Append columns of 0 to a dense or CSR table; unchanged if it is wide enough."""
    if X.shape[1] >= n_columns:
        return X
    if sparse.issparse(X):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns))
    return np.pad(X, ((0, 0), (0, n_columns - X.shape[1])))
