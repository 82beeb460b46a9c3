"""The compiled parts of training a net: scores of a group of rows, gradients back through the net, and weight updates.

The rows of a group are standardised into a block of float64, one line per feature, while they are worked on; sparse
rows are used as they are, and their means go into the units' constants. The weights are one vector θ:

    hidden units     W (features × units), then v (units), then b (units):  score = Σ_u v_u tanh(b_u + Σ_j W_ju x_j)
    none             w (features):  score = Σ_j w_j x_j
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from rankwright.caching import INNER
from rankwright.models.products import FASTMATH

_LANES = 8
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


@njit(**INNER)
def _line(n: int) -> int:
    """Length of a line of ``n`` numbers: an odd number of cache lines, so that lines do not compete for one slot."""
    return _LANES * (((n + _LANES - 1) // _LANES) | 1)


@njit(cache=True)
def net_space(longest: int, n_cells: int, units: int) -> Any:
    """Working memory for groups of up to ``longest`` rows: block, units, gradients, scores, gradients and weights."""
    line = _line(longest)
    block, scores, rise, hessian = (np.zeros(line * n_cells), np.empty(longest), np.empty(longest), np.empty(longest))
    return block, np.empty(line * units), np.empty(line * units), scores, rise, hessian


def _fill_units(X: Any, docs: Any, line: int, columns: Any, mean: Any, inverse: Any, theta: Any, block: Any, z: Any,
                units: int) -> None:  # fmt: skip
    """``z[u, i] += Σ_j W[j, u] x[i, j]`` of standardised rows; the dense ones stay in ``block``."""
    raise NotImplementedError("for compiled code only")


def _add_products(X: Any, docs: Any, line: int, columns: Any, mean: Any, inverse: Any, block: Any, g: Any, grad: Any,
                  units: int) -> None:  # fmt: skip
    """``grad[j, u] += Σ_i g[u, i] x[i, j]`` for the rows of the last `_fill_units`."""
    raise NotImplementedError("for compiled code only")


@overload(_fill_units, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _fill_units_of(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, theta: Any, block: Any, z: Any,  # noqa: C901
                   units: Any) -> Any:  # fmt: skip
    if isinstance(X, types.Array):

        def dense(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, theta: Any, block: Any, z: Any,
                  units: Any) -> None:  # fmt: skip
            n, d = docs.size, columns.size
            for i in range(n):
                for j in range(d):
                    block[j * line + i] = (X[docs[i], columns[j]] - mean[j]) * inverse[j]
            for j in range(d):
                for i in range(n, line):
                    block[j * line + i] = 0.0
            for u in range(units):
                sums = z[u * line : (u + 1) * line]
                for j in range(0, d - 3, 4):  # four at a time: sums are read and written less often
                    w0, w1 = theta[j * units + u], theta[(j + 1) * units + u]
                    w2, w3 = theta[(j + 2) * units + u], theta[(j + 3) * units + u]
                    at = j * line
                    for i in range(line):
                        sums[i] += (w0 * block[at + i] + w1 * block[at + line + i]) + (
                            w2 * block[at + 2 * line + i] + w3 * block[at + 3 * line + i]
                        )
                for j in range(d - d % 4, d):
                    w0 = theta[j * units + u]
                    for i in range(line):
                        sums[i] += w0 * block[j * line + i]

        return dense

    def csr(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, theta: Any, block: Any, z: Any,
            units: Any) -> None:  # fmt: skip
        values, places, rows = X
        if theta.size > mean.size:  # without hidden units a constant changes nothing
            for u in range(units):
                shift = 0.0
                for j in range(mean.size):
                    shift += mean[j] * inverse[j] * theta[j * units + u]
                for i in range(docs.size):
                    z[u * line + i] -= shift
        for i in range(docs.size):
            for k in range(rows[docs[i]], rows[docs[i] + 1]):
                j = columns[places[k]]
                if j >= 0:
                    x = values[k] * inverse[j]
                    for u in range(units):
                        z[u * line + i] += x * theta[j * units + u]

    return csr


@overload(_add_products, jit_options={"fastmath": FASTMATH, "cache": True, "forceinline": True})
def _add_products_of(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, block: Any, g: Any, grad: Any,
                     units: Any) -> Any:  # fmt: skip
    if isinstance(X, types.Array):

        def dense(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, block: Any, g: Any, grad: Any,
                  units: Any) -> None:  # fmt: skip
            for j in range(columns.size):
                row = block[j * line : (j + 1) * line]
                for u in range(units):
                    total = 0.0
                    for i in range(line):
                        total += g[u * line + i] * row[i]
                    grad[j * units + u] += total

        return dense

    def csr(X: Any, docs: Any, line: Any, columns: Any, mean: Any, inverse: Any, block: Any, g: Any, grad: Any,
            units: Any) -> None:  # fmt: skip
        values, places, rows = X
        for i in range(docs.size):
            for k in range(rows[docs[i]], rows[docs[i] + 1]):
                j = columns[places[k]]
                if j >= 0:
                    x = values[k] * inverse[j]
                    for u in range(units):
                        grad[j * units + u] += x * g[u * line + i]
        if grad.size > mean.size:
            for u in range(units):
                total = 0.0
                for i in range(docs.size):
                    total += g[u * line + i]
                for j in range(mean.size):
                    grad[j * units + u] -= mean[j] * inverse[j] * total

    return csr


@njit(cache=True, nogil=True, fastmath=False)
def forward(rows: Any, q: int, theta: Any, hidden: int, space: Any) -> int:
    """Score the rows of group ``q``, in order, into ``space[3]``; returns their number."""
    X, docs, indptr, columns, mean, inverse = rows
    block, z, _, scores, _, _ = space
    start = indptr[q]
    n = indptr[q + 1] - start
    line, units, d = _line(n), max(hidden, 1), mean.size
    for u in range(units):
        constant = theta[(d + 1) * units + u] if hidden else 0.0
        for i in range(line):
            z[u * line + i] = constant
    _fill_units(X, docs[start : start + n], line, columns, mean, inverse, theta, block, z, units)
    for i in range(n):
        scores[i] = 0.0 if hidden else z[i]
    for u in range(hidden):
        v = theta[d * units + u]
        for i in range(n):
            z[u * line + i] = math.tanh(z[u * line + i])
            scores[i] += v * z[u * line + i]
    return n


@njit(cache=True, nogil=True, fastmath=False)
def backward(rows: Any, q: int, theta: Any, hidden: int, cost: float, space: Any, grad: Any) -> None:
    """Add the gradient of θ by the gradients ``space[4]`` of group ``q``, times ``cost``; right after its `forward`."""
    X, docs, indptr, columns, mean, inverse = rows
    block, z, g, _, rise, _ = space
    start = indptr[q]
    n = indptr[q + 1] - start
    line, units, d = _line(n), max(hidden, 1), mean.size
    for u in range(units):
        for i in range(n, line):
            g[u * line + i] = 0.0
        if not hidden:
            for i in range(n):
                g[i] = cost * rise[i]
            continue
        v, of_v, of_b = theta[d * units + u], 0.0, 0.0
        for i in range(n):
            t = z[u * line + i]
            of_v += cost * rise[i] * t
            back = cost * rise[i] * v * (1.0 - t * t)
            of_b += back
            g[u * line + i] = back
        grad[d * units + u] += of_v
        grad[(d + 1) * units + u] += of_b
    _add_products(X, docs[start : start + n], line, columns, mean, inverse, block, g, grad, units)


@njit(cache=True, nogil=True, inline="always")
def run_task(
    rows: Any, gradients: Any, setup: Any, order: Any, first: int, last: int, costs: Any, theta: Any, hidden: int,
    space: Any, memory: Any, grad: Any, seen: Any,
) -> bool:  # fmt: skip
    """The gradient of the groups ``order[first]`` … ``order[last − 1]``; False if a score is not finite.

    ``gradients(q, scores, setup, memory, rise, hessian)`` sets ``rise`` to how much each score of a group should rise.
    The scores are stored in ``seen``.
    """
    docs, indptr = rows[1], rows[2]
    scores, rise, hessian = space[3], space[4], space[5]
    for k in range(grad.size):
        grad[k] = 0.0
    for place in range(first, last):
        q = order[place]
        n = forward(rows, q, theta, hidden, space)
        for i in range(n):
            seen[docs[indptr[q] + i]] = scores[i]
            if not np.isfinite(scores[i]):
                return False
        gradients(q, scores[:n], setup, memory, rise, hessian)
        backward(rows, q, theta, hidden, costs[q], space, grad)
    return True


@njit(cache=True, nogil=True, inline="always")
def step(theta: Any, grad: Any, share: float, state: Any, rate: float, decay: float, decayed: int) -> None:
    """Move θ along ``share`` times the gradient: by Adam's rule if ``state`` has room for its averages, else by rate.

    The first ``decayed`` weights also shrink by ``rate · decay``.
    """
    if decay > 0.0:
        for k in range(decayed):
            theta[k] -= rate * decay * theta[k]
    if state.shape[1] == 0:
        for k in range(theta.size):
            theta[k] += rate * share * grad[k]
        return
    averages, squares, n = state[0], state[1], theta.size
    averages[n] *= _FIRST  # after the averages: Adam's bias corrections
    squares[n] *= _SECOND
    a, b = 1.0 / (1.0 - averages[n]), 1.0 / (1.0 - squares[n])
    for k in range(n):
        slope = share * grad[k]
        averages[k] += (1.0 - _FIRST) * (slope - averages[k])
        squares[k] += (1.0 - _SECOND) * (slope * slope - squares[k])
        theta[k] += rate * a * averages[k] / (math.sqrt(b * squares[k]) + _TINY)


@njit(cache=True, nogil=True)
def run_groups(
    rows: Any, gradients: Any, setup: Any, order: Any, first: int, last: int, costs: Any, theta: Any, hidden: int,
    space: Any, memory: Any, grad: Any, seen: Any, state: Any, rate: float, decay: float, decayed: int,
) -> bool:  # fmt: skip
    """An update after each of the groups ``order[first]`` … ``order[last − 1]``; False if a score is not finite."""
    for place in range(first, last):
        if not run_task(
            rows, gradients, setup, order, place, place + 1, costs, theta, hidden, space, memory, grad, seen
        ):
            return False
        step(theta, grad, 1.0, state, rate, decay, decayed)
    return True
