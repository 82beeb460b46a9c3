"""The small dense algebra of the solvers: compiled loops, as the sums of BLAS depend on its number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.models.products import FASTMATH

Array = npt.NDArray[Any]
_FEW = 64  # rows that fit the nearest cache


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def dot(a: Any, b: Any) -> float:
    """Σ a·b."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def solve_in_place(A: Any, x: Any, n: int) -> None:
    """Solve A x = x in place for the first ``n``, a multiple of 4; A symmetric, positive, its upper half used.

    Its factor L, A = L Lᵀ, takes the lower half, with 1 / L_kk on the diagonal; sums over rows of it, four at a time.
    A pivot that rounding reduces to less than 1e-14 of itself is set to that.
    """
    for i in range(0, n, 4):
        m0, m1, m2, m3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        for j in range(i):
            p = A[j]
            a = b = c = d = 0.0
            for k in range(j):  # nothing is written here, so this is vectorised without checks of overlap
                a += m0[k] * p[k]
                b += m1[k] * p[k]
                c += m2[k] * p[k]
                d += m3[k] * p[k]
            m0[j], m1[j] = (p[i] - a) * p[j], (p[i + 1] - b) * p[j]
            m2[j], m3[j] = (p[i + 2] - c) * p[j], (p[i + 3] - d) * p[j]
        for r in range(i, i + 4):
            row = A[r]
            for q in range(i, r + 2):  # the last one is the right side
                other = A[min(q, r)] if q <= r else x
                total = other[r]
                for k in range(min(q, r)):
                    total -= row[k] * other[k]
                if q < r:
                    row[q] = total * other[q]
                elif q == r:
                    row[r] = 1.0 / np.sqrt(max(total, 1e-14 * row[r]))
                else:
                    x[r] = total * row[r]
    for k in range(n - 1, -1, -1):
        x[k] *= A[k, k]
        for j in range(k):
            x[j] -= x[k] * A[k, j]


@njit(cache=True, error_model="numpy", fastmath=FASTMATH, forceinline=True)
def add_products(M: Any, n: int, length: int, A: Any) -> None:
    """A += M Mᵀ, its upper half, over the first ``length`` columns; ``n`` is a multiple of 4, for tiles of 4 × 2."""
    for i in range(0, n, 4):
        m0, m1, m2, m3 = M[i], M[i + 1], M[i + 2], M[i + 3]
        for j in range(0, i + 4, 2):
            p0, p1 = M[j], M[j + 1]
            a = b = c = d = e = f = g = h = 0.0
            for k in range(length):
                x, y = p0[k], p1[k]
                a += m0[k] * x
                b += m1[k] * x
                c += m2[k] * x
                d += m3[k] * x
                e += m0[k] * y
                f += m1[k] * y
                g += m2[k] * y
                h += m3[k] * y
            A[j, i] += a
            A[j, i + 1] += b
            A[j, i + 2] += c
            A[j, i + 3] += d
            A[j + 1, i] += e
            A[j + 1, i + 1] += f
            A[j + 1, i + 2] += g
            A[j + 1, i + 3] += h


@njit(cache=True, error_model="numpy", fastmath=FASTMATH)
def product(A: Any, B: Any) -> Any:
    """A Bᵀ, both stored by rows; four rows of B at a time."""
    n, k = A.shape[0], B.shape[0]
    out = np.empty((n, k))
    for start in range(0, k, 4):
        last = k - 1
        b0, b1, b2, b3 = B[start], B[min(start + 1, last)], B[min(start + 2, last)], B[min(start + 3, last)]
        for i in range(n):
            a = A[i]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(a.size):
                s0 += a[j] * b0[j]
                s1 += a[j] * b1[j]
                s2 += a[j] * b2[j]
                s3 += a[j] * b3[j]
            out[i, min(start + 3, last)], out[i, min(start + 2, last)] = s3, s2
            out[i, min(start + 1, last)], out[i, start] = s1, s0
    return out


@njit(cache=True, error_model="numpy")
def orthonormal(rows: Any) -> Any:
    """Make the rows orthonormal, in place: each less its part along those before, twice; what is left of none is 0."""
    for i in range(rows.shape[0]):
        before = dot(rows[i], rows[i])
        for _ in range(2):
            for k in range(i):
                along = dot(rows[k], rows[i])
                for j in range(rows.shape[1]):
                    rows[i, j] -= along * rows[k, j]
        length = dot(rows[i], rows[i])
        factor = 1.0 / np.sqrt(length) if length > 1e-20 * before else 0.0
        for j in range(rows.shape[1]):
            rows[i, j] *= factor
    return rows


@njit(cache=True, error_model="numpy", inline="always")
def newton_direction(  # noqa: C901
    rows: Any, n: int, mu: float, g: Any, level: float, curvature: float, sigma: Any, A: Any, few: Any, x: Any, out: Any
) -> None:
    """Put −(level · I + γΣ + RᵀR/μ)⁻¹ g into ``out``, R the first ``n`` rows; without Σ, in the smaller space.

    ``A``, ``few`` and ``x`` are from `working_space`; ``rows`` has room for three more.
    """
    d = g.size
    metric = sigma.size > 0 and curvature > 0.0
    over_features = n > d or metric
    padded = ((d if over_features else n) + 3) // 4 * 4
    for i in range(padded):
        for j in range(padded):
            A[i, j] = mu * curvature * sigma[i, j] if metric and i < d and j < d else 0.0
        A[i, i] += mu * level
        x[i] = 0.0
    M, length = rows, d
    if not over_features:
        for i in range(n, padded):
            for j in range(d):
                rows[i, j] = 0.0
    for start in range(0, n if over_features else 1, few.shape[1]):
        if over_features:
            M, length = few, min(few.shape[1], n - start)
            for i in range(length):
                for j in range(d):
                    few[j, i] = rows[start + i, j]
        add_products(M, padded, length, A)
    if not over_features:
        for i in range(n):
            x[i] = dot(rows[i], g)
    else:
        for j in range(d):
            x[j] = -mu * g[j]
    solve_in_place(A, x, padded)
    if not over_features:
        for j in range(d):
            out[j] = -g[j]
        for i in range(n):
            for j in range(d):
                out[j] += x[i] * rows[i, j]
        for j in range(d):
            out[j] /= level
    else:
        for j in range(d):
            out[j] = x[j]


def working_space(d: int, n: int, whole: bool) -> tuple[Array, Array, Array]:
    """What `newton_direction` needs: a matrix, some rows the other way round, a vector.

    For ``d`` features and at most ``n`` rows; ``whole``: whether there will be a Σ.
    """
    size = (d if whole else min(d, n)) + 3
    return np.zeros((size, size)), np.zeros((d + 3 if size >= d else 0, _FEW)), np.zeros(size)
