"""Values of features and labels, checked: numbers of the right shape, finite, and labels at least 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.errors import InputError

__all__ = ["checked_features", "checked_labels"]

Array = npt.NDArray[Any]
_CHECK_ROWS = 1 << 20  # values per step of the finiteness check: bounded memory on mapped files


def checked_features(X: Any, allow_missing: bool = False, check_finite: bool = True) -> Any:
    """Features as C-contiguous or canonical CSR float32 or float64, all finite or, if allowed, NaN."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values = X.data
    else:
        X = values = np.asarray(X)
    if X.ndim != 2:
        raise InputError(f"features must be a table (rows × columns), got an array of shape {X.shape}")
    if values.dtype.kind not in "fiub":
        raise InputError(f"features must be numbers, got {values.dtype}")
    if values.dtype not in (np.float32, np.float64):
        wanted = np.result_type(values.dtype, np.float32)
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
        part = values[start : start + _CHECK_ROWS]
        finite = ~np.isinf(part) if allow_missing else np.isfinite(part)
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
