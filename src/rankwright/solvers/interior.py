"""The quadratic programme over cutting planes, exactly: a primal-dual interior point method, and the algebra it needs.

Compiled loops and einsum instead of BLAS: sums must not depend on how many threads BLAS has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from rankwright.objectives.products import FASTMATH

__all__ = ["dot", "interior_point", "solve_shifted"]

Array = npt.NDArray[Any]


@njit(cache=True, fastmath=FASTMATH)
def dot(a: Any, b: Any) -> float:
    """Σ a·b."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@njit(cache=True, fastmath=FASTMATH)
def _gram(rows: Any, n: int, A: Any) -> None:
    """A = rowsᵀ rows, its lower half; four rows at a time."""
    d = A.shape[0]
    for first in range(0, n - n % 4, 4):
        r0, r1, r2, r3 = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        for j in range(d):
            a0, a1, a2, a3 = r0[j], r1[j], r2[j], r3[j]
            for k in range(j + 1):
                A[j, k] += a0 * r0[k] + a1 * r1[k] + a2 * r2[k] + a3 * r3[k]
    for i in range(n - n % 4, n):
        for j in range(d):
            a = rows[i, j]
            for k in range(j + 1):
                A[j, k] += a * rows[i, k]


@njit(cache=True)
def _cholesky_solve(A: Any, x: Any) -> None:
    """Solve A x = x in place; A symmetric, positive up to rounding, its lower half used."""
    n = x.size
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i, :j], A[j, :j])) / A[j, j]
        A[i, i] = np.sqrt(max(A[i, i] - dot(A[i, :i], A[i, :i]), 1e-14 * A[i, i]))
    for i in range(n):
        x[i] = (x[i] - dot(A[i, :i], x[:i])) / A[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= A[i, i]
        for j in range(i):
            x[j] -= A[i, j] * x[i]


@njit(cache=True, fastmath=FASTMATH)
def _products(rows: Any, n: int, A: Any) -> None:
    """A = rows rowsᵀ, its lower half; tiles of 4 × 2 rows, so that each is read from cache less often."""
    for i in range(0, n, 4):
        i1, i2, i3 = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        for j in range(0, min(i + 4, n), 2):
            j1 = min(j + 1, n - 1)
            a = b = c = d = e = f = g = h = 0.0
            for k in range(rows.shape[1]):
                x, y = rows[j, k], rows[j1, k]
                a += rows[i, k] * x
                b += rows[i1, k] * x
                c += rows[i2, k] * x
                d += rows[i3, k] * x
                e += rows[i, k] * y
                f += rows[i1, k] * y
                g += rows[i2, k] * y
                h += rows[i3, k] * y
            A[i, j], A[i1, j], A[i2, j], A[i3, j] = a, b, c, d
            A[i, j1], A[i1, j1], A[i2, j1], A[i3, j1] = e, f, g, h


def solve_shifted(rows: Array, mu: float, g: Array) -> Array:
    """(I + RᵀR/μ)⁻¹ g, in the smaller of the two spaces."""
    n, d = rows.shape
    if n <= d:
        A = np.empty((n, n))
        _products(rows, n, A)
        A[np.diag_indices(n)] += mu
        x = np.einsum("ij,j->i", rows, g)
        _cholesky_solve(A, x)
        return np.asarray(g - np.einsum("i,ij->j", x, rows))
    A = np.zeros((d, d))
    _gram(rows, n, A)
    A /= mu
    A[np.diag_indices(d)] += 1.0
    x = g.copy()
    _cholesky_solve(A, x)
    return x


def interior_point(V: Array, losses: Array, block: Array, n_blocks: int, close: float) -> tuple[Array, Array]:
    """Weights and α of the unsmoothed problem by a primal-dual interior point method, to a gap of ``close``.

    Slower than the smoothed Newton steps, and sure where these stall: many planes of little weight in one block.
    Variables: w, ξ per block, and per plane the slack s = ξ + v·w − ℓ and its multiplier z, which is α.
    """
    w, top = np.zeros(V.shape[1]), np.zeros(n_blocks)
    np.maximum.at(top, block, losses)
    xi = 1.1 * top + 0.1 * top.max() + 1e-12
    s = xi[block] - losses
    z = 1.0 / np.bincount(block, minlength=n_blocks)[block]
    for _ in range(80):
        rest_w = w - np.einsum("i,ij->j", z, V)
        rest_z = 1.0 - np.bincount(block, z, n_blocks)
        miss = np.einsum("ij,j->i", V, w) + xi[block] - losses - s
        if max(s @ z, 0.5 * (rest_w @ rest_w)) <= 0.3 * close and np.abs(rest_z).max() < 1e-9:
            break
        target = 0.1 * (s @ z) / len(z)
        weight = z / s
        push = (target - z * miss) / s - z
        in_block = np.bincount(block, weight, n_blocks)
        mean = np.zeros((n_blocks, V.shape[1]))
        np.add.at(mean, block, (weight / in_block[block])[:, None] * V)
        rows = np.sqrt(weight)[:, None] * (V - mean[block])
        g_xi = np.bincount(block, push, n_blocks) - rest_z
        step_w = solve_shifted(rows, 1.0, np.einsum("i,ij->j", push, V) - rest_w - np.einsum("i,ij->j", g_xi, mean))
        step_xi = g_xi / in_block - np.einsum("ij,j->i", mean, step_w)
        step_s = np.einsum("ij,j->i", V, step_w) + step_xi[block] + miss
        step_z = (target - z * step_s) / s - z
        both, steps = np.concatenate([s, z]), np.concatenate([step_s, step_z])
        falls = steps < 0
        length = min(1.0, 0.99 * float((-both[falls] / steps[falls]).min(initial=np.inf)))
        w, xi, s, z = w + length * step_w, xi + length * step_xi, s + length * step_s, z + length * step_z
    return w, z / np.bincount(block, z, n_blocks)[block]
