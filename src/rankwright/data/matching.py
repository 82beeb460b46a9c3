"""Matching columns: by name where both sides have names, by position otherwise.

Text leaves out features that are 0, so columns without names (or with the names f1, f2, … that converting gives them)
may be missing at the end; they are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.errors import InputError

__all__ = ["default_names", "find_columns", "most_features", "pick_columns", "widen"]

Array = npt.NDArray[Any]
_NAMED = 5  # missing features named in an error
_MOST_FEATURES, _FEATURES_PER_BYTE = 1 << 20, 8


def default_names(n_features: int) -> tuple[str, ...]:
    """The names f1, f2, … of features without names."""
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def most_features(n_bytes: int) -> int:
    """The most columns that sparse data of so many bytes may have.

    What is computed for every feature, used or not, then stays in proportion to the data.
    """
    return _MOST_FEATURES + _FEATURES_PER_BYTE * n_bytes


def find_columns(
    n_columns: int, names: Sequence[str] | None, n_wanted: int, wanted: tuple[str, ...] | None, what: str
) -> Array | None:
    """Where the wanted features are among the columns of a data set; None if they are its first columns.

    Parameters
    ----------
    n_columns, names
        The columns of the data.
    n_wanted, wanted
        The features to find.
    what : str
        Whose features they are, for messages: ``"the model"``, ``"the training data"``.
    """
    names = None if names is None else tuple(names)
    if names is not None and len(names) != n_columns:
        raise InputError(f"{n_columns} features but {len(names)} feature names")
    unnamed = names is None or names == default_names(n_columns)
    if names is not None and wanted is not None:
        if names == wanted or (unnamed and names == wanted[:n_columns]):
            return None
        return _places(names, wanted, what)
    if n_columns > n_wanted or (n_columns < n_wanted and not unnamed):
        raise InputError(f"the data has {n_columns:,} features, but {what} has {n_wanted:,}")
    return None


def _places(names: tuple[str, ...], wanted: tuple[str, ...], what: str) -> Array:
    for some, whose in ((names, "the data"), (wanted, what)):
        if len(set(some)) < len(some):
            raise InputError(f"{whose} has two features of the same name; expected different names to match by")
    place = {name: at for at, name in enumerate(names)}
    missing = [name for name in wanted if name not in place]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:_NAMED])
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise InputError(f"the data lacks {len(missing):,} of {what}'s {len(wanted):,} features: {shown}{more}")
    return np.array([place[name] for name in wanted], np.int64)


def pick_columns(X: Any, columns: Array | None) -> Any:
    """Some columns of a dense or CSR table; None: all of them."""
    if columns is None:
        return X
    picked = X[:, columns]
    if sparse.issparse(picked):
        picked.sort_indices()
    return picked


def widen(X: Any, n_columns: int) -> Any:
    """A dense or CSR table with columns of 0 added at the end; unchanged if it is wide enough."""
    if X.shape[1] >= n_columns:
        return X
    if sparse.issparse(X):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns))
    return np.pad(X, ((0, 0), (0, n_columns - X.shape[1])))
