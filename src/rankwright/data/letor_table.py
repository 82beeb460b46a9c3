"""The table in which rows of LETOR text are collected, chunk by chunk, without holding the features twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse as sp
from rankwright.errors import InputError

__all__ = ["FeatureTable"]

Array = npt.NDArray[Any]


class _Growing:
    """A one-dimensional array that grows in place.

    It starts with room for what the whole file should need (pages that are never touched cost nothing) and grows by an
    eighth if that was too little.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._array = np.empty(0, dtype)
        self.size = 0

    def extend(self, items: Array, share: float) -> None:
        """Append; ``share`` is the share of the file read so far, including these items."""
        end = self.size + len(items)
        if self.size == 0:
            self._array = np.empty(int(end / share * 1.05), self._array.dtype)
        elif end > len(self._array):
            self._array.resize(max(end, len(self._array) * 9 // 8), refcheck=False)
        self._array[self.size : end] = items
        self.size = end

    def take(self) -> Array:
        """The items, trimmed; the object is empty afterwards."""
        if len(self._array) > self.size * 9 // 8:  # from numpy 2.5 on this copies
            self._array.resize(self.size, refcheck=False)
        items, self._array, self.size = self._array[: self.size], np.empty(0, self._array.dtype), 0
        return items


class FeatureTable:
    """Features collected chunk by chunk, dense or CSR, whichever is smaller so far."""

    _TINY = 1 << 16  # bytes up to which an array is always dense
    _STEP = 1 << 20  # values converted at a time

    def __init__(self, dtype: np.dtype[Any], n_features: int | None) -> None:
        self._dtype = dtype
        self._n_rows = self._n_written = 0
        self._width = n_features or 0
        self._is_dense = True
        self._share = 1.0
        self._values, self._columns, self._counts = _Growing(dtype), _Growing(np.int32), _Growing(np.int64)

    @property
    def width(self) -> int:
        return self._width

    def add(self, counts: Array, columns: Array, values: Array, share: float) -> None:
        """Append rows, given by their numbers of features and the column and value of each.

        ``share`` is roughly the share of the file up to and including them.
        """
        self._share = share
        width = max(self._width, int(columns.max()) + 1 if len(columns) else 0)
        n_rows = self._n_rows + len(counts)
        self._n_written += len(values)
        dense_bytes, sparse_bytes = self._costs(n_rows, width)
        # A margin of a quarter in one direction keeps a borderline file from being converted back and forth.
        if self._is_dense and dense_bytes > 1.25 * sparse_bytes:
            self._set_sparse(self._take_dense())
        elif not self._is_dense and dense_bytes < sparse_bytes:
            self._values.extend(self._take_sparse_as_dense(width).reshape(-1), self._share)
            self._is_dense = True
        elif self._is_dense and width > self._width and self._n_rows:
            wider = np.zeros((self._n_rows, width), self._dtype)
            wider[:, : self._width] = self._take_dense()
            self._values.extend(wider.reshape(-1), self._share)
        self._n_rows, self._width = n_rows, width
        if not self._is_dense:
            self._extend_sparse(counts, columns, values)
        elif len(values) == len(counts) * width:
            self._values.extend(values, self._share)
        else:
            X = np.zeros((len(counts), width), self._dtype)
            X[np.repeat(np.arange(len(counts)), counts), columns] = values
            self._values.extend(X.reshape(-1), self._share)

    def finish(self, sparse: bool | None) -> Any:
        """The features: CSR if ``sparse`` is true, dense if false, the smaller form if None."""
        dense_bytes, sparse_bytes = self._costs(self._n_rows, self._width)
        if sparse is None:
            sparse = dense_bytes > sparse_bytes
        if not sparse:
            try:
                return self._take_dense() if self._is_dense else self._take_sparse_as_dense(self._width)
            except MemoryError:
                text = f"a dense array of {self._n_rows} × {self._width} does not fit in memory; expected sparse=True"
                raise InputError(text) from None
        if self._is_dense:
            self._set_sparse(self._take_dense())
        values, columns = self._values.take(), self._columns.take()
        indptr = np.zeros(self._n_rows + 1, np.int32 if len(values) < 2**31 else np.int64)
        np.cumsum(self._counts.take(), out=indptr[1:])
        return sp.csr_array((values, columns, indptr), shape=(self._n_rows, self._width))

    def _costs(self, n_rows: int, width: int) -> tuple[int, int]:
        item = self._dtype.itemsize
        return n_rows * width * item, max(self._n_written * (item + 4) + n_rows * 4, self._TINY)

    def _extend_sparse(self, counts: Array, columns: Array, values: Array) -> None:
        nonzero = values.astype(self._dtype) != 0  # the smallest float64 are 0 in float32
        if not nonzero.all():
            rows = np.repeat(np.arange(len(counts)), counts)
            counts = np.bincount(rows[nonzero], minlength=len(counts))
            columns, values = columns[nonzero], values[nonzero]
        self._counts.extend(counts, self._share)
        self._columns.extend(columns, self._share)
        self._values.extend(values, self._share)

    def _set_sparse(self, X: Array) -> None:
        self._is_dense = False
        step = max(1, self._STEP // max(1, X.shape[1]))
        for start in range(0, len(X), step):
            rows, columns = np.nonzero(X[start : start + step])
            self._counts.extend(np.bincount(rows, minlength=len(X[start : start + step])), self._share)
            self._columns.extend(columns, self._share)
            self._values.extend(X[start : start + step][rows, columns], self._share)

    def _take_dense(self) -> Array:
        return self._values.take().reshape(self._n_rows, self._width)

    def _take_sparse_as_dense(self, width: int) -> Array:
        X = np.zeros((self._n_rows, width), self._dtype)
        counts, columns, values = self._counts.take(), self._columns.take(), self._values.take()
        stops = np.cumsum(counts)
        row = 0
        while row < len(X):
            first = int(stops[row] - counts[row])
            end = max(row + 1, int(np.searchsorted(stops, first + self._STEP, side="right")))
            last = int(stops[end - 1])
            X[np.repeat(np.arange(row, end), counts[row:end]), columns[first:last]] = values[first:last]
            row = end
        return X
