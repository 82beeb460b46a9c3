"""The two products in which features appear: rows times weights, and coefficients times rows, for a block of rows.

Compiled for dense rows and for CSR; sums are kept in float64 whatever the features are. A kernel that uses
:func:`row_scores` and :func:`add_rows` works for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.types import WrapperAddressProtocol
from numba.extending import overload

from rankwright._types import Array, Features
from rankwright.data import sparse

# Sums may be reordered and products fused; nan and inf keep their meaning.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


# Kernels whose sums may be reordered are compiled into their caller (`forceinline`). Without it, a process that
# compiled the kernels trained other bits than one that loaded them: code of one name from several modules is probably
# taken from whichever was loaded first. `benchmarks/study_reproducible.py` shows the effect.


def kernel_form(X: Features) -> Any:
    """The form that kernels take: the array itself, or (values, columns, row boundaries) of CSR.

    Arrays are read-only views, as numba compiles a kernel once more for arrays that can be written.
    """
    if sparse.issparse(X):
        return tuple(kernel_form(array) for array in (X.data, X.indices, X.indptr))
    view = X.view()
    view.flags.writeable = False
    return view


def row_scores(X: Any, start: int, stop: int, weights: Array, scores: Array) -> None:
    """``scores[i] = X[start + i] · weights``."""
    raise NotImplementedError("for compiled code only")


def add_rows(X: Any, start: int, stop: int, coef: Array, total: Array) -> None:
    """``total += Σ_i coef[i] X[start + i]``."""
    raise NotImplementedError("for compiled code only")


def add_listed_rows(X: Any, rows: Array, coef: Array, total: Array) -> None:
    """``total += Σ_i coef[i] X[rows[i]]``, in that order."""
    raise NotImplementedError("for compiled code only")


@overload(row_scores, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _row_scores(X: Any, start: int, stop: int, weights: Array, scores: Array) -> Any:
    if isinstance(X, types.Array):

        def dense(X: Any, start: int, stop: int, weights: Array, scores: Array) -> None:
            for i in range(stop - start):
                total = 0.0
                for j in range(X.shape[1]):
                    total += X[start + i, j] * weights[j]
                scores[i] = total

        return dense

    def csr(X: Any, start: int, stop: int, weights: Array, scores: Array) -> None:
        values, columns, rows = X
        for i in range(stop - start):
            total = 0.0
            for k in range(rows[start + i], rows[start + i + 1]):
                total += values[k] * weights[columns[k]]
            scores[i] = total

    return csr


@overload(add_rows, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _add_rows(X: Any, start: int, stop: int, coef: Array, total: Array) -> Any:
    if isinstance(X, types.Array):

        def dense(X: Any, start: int, stop: int, coef: Array, total: Array) -> None:
            for i in range(stop - start):
                c = coef[i]
                if c != 0.0:
                    for j in range(X.shape[1]):
                        total[j] += c * X[start + i, j]

        return dense

    def csr(X: Any, start: int, stop: int, coef: Array, total: Array) -> None:
        values, columns, rows = X
        for i in range(stop - start):
            c = coef[i]
            if c != 0.0:
                for k in range(rows[start + i], rows[start + i + 1]):
                    total[columns[k]] += c * values[k]

    return csr


@overload(add_listed_rows, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _add_listed_rows(X: Any, rows: Array, coef: Array, total: Array) -> Any:
    if isinstance(X, types.Array):

        def dense(X: Any, rows: Array, coef: Array, total: Array) -> None:
            for i in range(rows.size):
                c = coef[i]
                if c != 0.0:
                    row = rows[i]
                    for j in range(X.shape[1]):
                        total[j] += c * X[row, j]

        return dense

    def csr(X: Any, rows: Array, coef: Array, total: Array) -> None:
        values, columns, bounds = X
        for i in range(rows.size):
            c = coef[i]
            if c != 0.0:
                for k in range(bounds[rows[i]], bounds[rows[i] + 1]):
                    total[columns[k]] += c * values[k]

    return csr


# Compiled functions as values: a kernel that calls one is compiled once for all of them, and cached on disk.


class FirstClass(WrapperAddressProtocol):
    """A compiled function of a fixed signature, to be passed to compiled functions.

    Never put one first in a tuple: numba warns about that.
    """

    def __init__(self, kernel: Any, signature: Any) -> None:
        kernel.compile(signature.args)
        self._compiled, self._signature = kernel.overloads[signature.args], signature
        name = self._compiled.fndesc.llvm_cfunc_wrapper_name
        self._address: int = self._compiled.library.get_pointer_to_function(name)

    def __wrapper_address__(self) -> int:
        return self._address

    def signature(self) -> Any:
        """The types of the arguments and of the result."""
        return self._signature


def compiled(function: Callable[..., Any], signature: Any) -> FirstClass:
    """A plain function, compiled; cached on disk if it comes from a file."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return FirstClass(njit(cache=True, **options)(function), signature)
    except RuntimeError:  # typed interactively, so no file to cache beside
        return FirstClass(njit(**options)(function), signature)


@njit(cache=True, nogil=True)
def sum_rows(X: Any, rows: Array, coef: Array, total: Array) -> None:
    """Add listed rows times their coefficients to a total; called from Python, by several threads at once."""
    add_listed_rows(X, rows, coef, total)


@njit(cache=True, nogil=True)
def add_stored(
    values: Array, columns: Array, bounds: Array, rows: Array, column: int, factor: float, scores: Array
) -> None:  # fmt: skip
    for i in range(rows.size):
        low, high = bounds[rows[i]], bounds[rows[i] + 1]
        last = high
        while low < high:
            middle = (low + high) // 2
            if columns[middle] < column:
                low = middle + 1
            else:
                high = middle
        if low < last and columns[low] == column:
            scores[i] += factor * values[low]


@njit(cache=True, nogil=True)
def add_squares(
    values: Array, columns: Array, bounds: Array, rows: Array, mean: Array, scale: Array, weights: Array, total: Array
) -> None:  # fmt: skip
    """Add μ (h² − (mean/scale)²) of every stored value."""
    for i in range(rows.size):
        for at in range(bounds[rows[i]], bounds[rows[i] + 1]):
            j, value = columns[at], float(values[at])
            total[j] += weights[i] * (value / scale[j] * (value - 2.0 * mean[j]) / scale[j])
