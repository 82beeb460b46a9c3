"""The quadratic programme over cutting planes, exactly: a primal-dual interior point method."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.solvers.algebra import add_products, solve_in_place

Array = npt.NDArray[Any]


def interior_point(V: Array, losses: Array, block: Array, n_blocks: int, close: float) -> tuple[Array, Array]:
    """Weights and α of the unsmoothed problem by a primal-dual interior point method, to a gap of ``close``.

    Slower than the smoothed Newton steps, but reliable where these stall: many planes of little weight in one block.
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
        uphill = rest_w - np.einsum("i,ij->j", push, V) + np.einsum("i,ij->j", g_xi, mean)
        step_w = _newton_step(rows, uphill)
        step_xi = g_xi / in_block - np.einsum("ij,j->i", mean, step_w)
        step_s = np.einsum("ij,j->i", V, step_w) + step_xi[block] + miss
        step_z = (target - z * step_s) / s - z
        both, steps = np.concatenate([s, z]), np.concatenate([step_s, step_z])
        falls = steps < 0
        length = min(1.0, 0.99 * float((-both[falls] / steps[falls]).min(initial=np.inf)))
        w, xi, s, z = w + length * step_w, xi + length * step_xi, s + length * step_s, z + length * step_z
    return w, z / np.bincount(block, z, n_blocks)[block]


def _newton_step(rows: Array, g: Array) -> Array:
    """−(I + RᵀR)⁻¹ g, solved in the smaller of the two spaces: `newton_direction`, without compiling it again."""
    n, d = rows.shape
    size = min(n, d)
    padded = (size + 3) // 4 * 4
    M = np.zeros((padded, max(n, d)))
    M[:size] = rows if n <= d else rows.T
    A, x = np.eye(padded), np.zeros(padded)
    add_products(M, padded, max(n, d), A)
    x[:size] = np.einsum("ij,j->i", rows, g) if n <= d else -g
    solve_in_place(A, x, padded)
    return np.einsum("ij,i->j", rows, x[:n]) - g if n <= d else x[:d]
