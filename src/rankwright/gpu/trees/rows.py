"""What a tree on the card needs of every row: residuals as whole numbers, the values of leaves, scores by bins.

Units are those of :mod:`rankwright.models.trees.histogram`: the same residuals give the same whole numbers. Leaves are
set by sums in much smaller units, of 2⁻⁶¹ of all |residuals|, which any order of rows gives the same bits of, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from rankwright.gpu.together import add_up
from rankwright.gpu.trees.state import (
    FEATURE,
    IS_SET,
    LAST,
    LEAVES,
    LEFT_NODE,
    MISSING,
    MISSING_LEFT,
    NODE,
    NODES,
    SIDE,
    START,
    STOP,
    THREADS,
    TILE,
    VALUE,
    is_in,
)
from rankwright.models.trees.histogram import LEAST_UNIT, MOST
from rankwright.solvers.tree_learner import LEAST_CURVE, leaf_value

_WHOLE = 2.0**62  # that sums in the smallest units stay below
_FINE = 2.0**61
# Facts of residuals and curvatures: the largest of each, then their units.
_RESIDUAL, _CURVE, _RESIDUAL_UNIT, _CURVE_UNIT, FACTS = range(5)
TOTALS = 2
"""Sums of |residuals| and curvatures, in units of 2⁻⁶² of the largest times the number of rows."""


def known_of(nodes: Any) -> tuple[int, float]:
    """The number of nodes and what a gain in units is worth, which are in the row after all nodes."""
    n_nodes, residual_unit, curve_unit = nodes[-1, :3]
    return int(n_nodes), float(residual_unit**2 / curve_unit)


@cuda.jit(cache=True)
def start_sums(facts: Any, totals: Any, leaf_sums: Any) -> None:
    """Everything that is summed is 0."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for i in range(first, leaf_sums.shape[0], step):
        leaf_sums[i, 0] = leaf_sums[i, 1] = 0
    if first == 0:
        facts[_RESIDUAL] = facts[_CURVE] = 0.0
        totals[0, 0] = totals[0, 1] = 0


@cuda.jit(cache=True)
def largest(residuals: Any, curves: Any, facts: Any) -> None:
    """The largest |residual| and curvature."""
    highest = cuda.shared.array((2, THREADS), float64)
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    residual, curve = 0.0, 0.0
    for i in range(cuda.grid(1), residuals.size, cuda.gridsize(1)):
        residual, curve = max(residual, abs(residuals[i])), max(curve, curves[i])
    highest[0, t], highest[1, t] = residual, curve
    cuda.syncthreads()
    while step > 0:
        if t < step:
            highest[0, t] = max(highest[0, t], highest[0, t + step])
            highest[1, t] = max(highest[1, t], highest[1, t + step])
        cuda.syncthreads()
        step //= 2
    if t < 2:
        cuda.atomic.max(facts, t, highest[t, 0])


@cuda.jit(device=True, cache=True)
def _add_both(first: int, second: int, held: Any, sums: Any, row: int) -> None:
    """Add two whole numbers of every thread of a block to a row of sums."""
    t, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    held[0, t], held[1, t] = first, second
    cuda.syncthreads()
    while step > 0:
        if t < step:
            held[0, t] += held[0, t + step]
            held[1, t] += held[1, t + step]
        cuda.syncthreads()
        step //= 2
    if t < 2:
        cuda.atomic.add(sums, (row, t), held[t, 0])


@cuda.jit(cache=True)
def total(residuals: Any, curves: Any, facts: Any, totals: Any) -> None:
    """Σ |residuals| and Σ curvatures in the smallest units; ``totals`` has one row."""
    held = cuda.shared.array((2, THREADS), int64)
    residual, curve = np.int64(0), np.int64(0)
    per_residual, per_curve = _per_least(facts[_RESIDUAL], residuals.size), _per_least(facts[_CURVE], residuals.size)
    for i in range(cuda.grid(1), residuals.size, cuda.gridsize(1)):
        residual += np.int64(abs(residuals[i]) * per_residual)
        curve += np.int64(curves[i] * per_curve)
    _add_both(residual, curve, held, totals, 0)


@cuda.jit(device=True, cache=True)
def _per_least(most: float, n: int) -> float:
    """Smallest units in 1; 0 where they would be too small."""
    unit = most * (n / _WHOLE)
    return 1.0 / unit if unit >= LEAST_UNIT else 0.0


@cuda.jit(device=True, cache=True)
def _sum_of(most: float, units: int, n: int) -> float:
    """The sum of the sizes of all numbers, or a little more, from their sum in the smallest units."""
    unit = most * (n / _WHOLE)
    return most * n if unit < LEAST_UNIT else (float(units) + n) * unit


@cuda.jit(cache=True)
def pack_rows(residuals: Any, curves: Any, newton: bool, facts: Any, totals: Any, pairs: Any) -> None:
    """Residuals and curvatures as whole numbers; without ``newton`` every curvature is the same."""
    n = residuals.size
    room = MOST - n // 2 - 1
    per_row = room // max(n, 1)
    residual_unit = max(_sum_of(facts[_RESIDUAL], totals[0, 0], n) / room, LEAST_UNIT)
    curve_unit = max(_sum_of(facts[_CURVE], totals[0, 1], n) / room, LEAST_UNIT)
    per_residual, per_curve = 1.0 / residual_unit, 1.0 / curve_unit
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        pairs[i, 0] = round(residuals[i] * per_residual)
        pairs[i, 1] = round(curves[i] * per_curve) if newton else per_row
    if cuda.grid(1) == 0:
        facts[_RESIDUAL_UNIT] = residual_unit
        facts[_CURVE_UNIT] = curve_unit if newton else 1.0 / per_row


@cuda.jit(cache=True)
def smooth_categories(pairs: Any, smooth_rows: float, total: Any, smooth: Any) -> None:
    """The curvature that smooths the means of categories: that of so many average rows. ``total`` is 0 before."""
    held = cuda.shared.array(THREADS, int64)
    is_last = cuda.shared.array(1, int64)
    curve = np.int64(0)
    for i in range(cuda.grid(1), pairs.shape[0], cuda.gridsize(1)):
        curve += np.int64(pairs[i, 1])
    curve = add_up(curve, held)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, curve)
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(total, 1, 1) == cuda.gridDim.x - 1
        if is_last[0]:
            cuda.threadfence()
            smooth[0] = smooth_rows * (float(total[0]) / pairs.shape[0])
            total[0] = total[1] = 0


@cuda.jit(device=True, cache=True)
def _fine(most: float, units: int, n: int) -> float:
    """The units in which leaves are summed."""
    return max(_sum_of(most, units, n) / _FINE, LEAST_UNIT)


@cuda.jit(cache=True)
def sum_leaves(
    rows: Any, leaves: Any, now: Any, residuals: Any, curves: Any, facts: Any, totals: Any, leaf_sums: Any
) -> None:  # fmt: skip
    """Sums of residuals and curvatures of every leaf (y), a part of its rows in every block (x)."""
    held = cuda.shared.array((2, THREADS), int64)
    leaf, n = cuda.blockIdx.y, residuals.size
    if leaf >= now[LEAVES]:
        return
    per_residual = 1.0 / _fine(facts[_RESIDUAL], totals[0, 0], n)
    per_curve = 1.0 / _fine(facts[_CURVE], totals[0, 1], n)
    residual, curve, side = np.int64(0), np.int64(0), leaves[leaf, SIDE]
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for k in range(leaves[leaf, START] + first, leaves[leaf, STOP], cuda.gridDim.x * cuda.blockDim.x):
        row = rows[side, k]
        residual += np.int64(round(residuals[row] * per_residual))
        curve += np.int64(round(curves[row] * per_curve))
    _add_both(residual, curve, held, leaf_sums, leaf)


@cuda.jit(cache=True)
def bound_leaves(
    leaves: Any, now: Any, n_rows: int, facts: Any, totals: Any, leaf_sums: Any, nodes: Any, ways: Any, n_bins: Any,
    sums: Any, bounds: Any,
) -> None:  # fmt: skip
    """The bounds of the values of all nodes, as `rankwright.models.trees.monotone` has them; by one thread."""
    if cuda.grid(1) > 0:
        return
    residual_unit = _fine(facts[_RESIDUAL], totals[0, 0], n_rows)
    curve_unit = _fine(facts[_CURVE], totals[0, 1], n_rows)
    for leaf in range(now[LEAVES]):
        node, n = leaves[leaf, NODE], leaves[leaf, STOP] - leaves[leaf, START]
        sums[node, 0] = float(leaf_sums[leaf, 0]) * residual_unit
        sums[node, 1] = max(float(leaf_sums[leaf, 1]) * curve_unit, LEAST_CURVE * n)
    for back in range(now[NODES]):
        node = now[NODES] - 1 - back
        if nodes[node, FEATURE] >= 0.0:  # children come after their parents
            left = int(nodes[node, LEFT_NODE])
            sums[node, 0] = sums[left, 0] + sums[left + 1, 0]
            sums[node, 1] = sums[left, 1] + sums[left + 1, 1]
    bounds[0, 0], bounds[0, 1] = -math.inf, math.inf
    for node in range(now[NODES]):
        if nodes[node, FEATURE] >= 0.0:
            feature = int(nodes[node, FEATURE])
            way = ways[feature] if nodes[node, LAST] < n_bins[feature] - 1 else 0
            _bound_children(int(nodes[node, LEFT_NODE]), way, sums, bounds[node], bounds)


@cuda.jit(device=True, cache=True)
def _bound_children(left: int, way: int, sums: Any, own: Any, bounds: Any) -> None:
    """The bounds of both children of a node, whose own are given."""
    low, high = own
    for child in range(left, left + 2):
        bounds[child, 0], bounds[child, 1] = low, high
    if way != 0:
        one = min(max(_quotient(sums[left]), low), high)
        two = min(max(_quotient(sums[left + 1]), low), high)
        lower, upper = (left, left + 1) if way > 0 else (left + 1, left)
        bounds[lower, 1] = bounds[upper, 0] = one + (two - one) / 2


@cuda.jit(device=True, cache=True)
def _quotient(sums: Any) -> float:
    """The best value of some rows, from their sums."""
    return sums[0] / sums[1] if sums[1] > 0.0 else 0.0


@cuda.jit(cache=True)
def add_leaves(
    rows: Any, leaves: Any, now: Any, facts: Any, totals: Any, leaf_sums: Any, shrinkage: float, bounds: Any,
    nodes: Any, scores: Any,
) -> None:  # fmt: skip
    """Set the value of every leaf (y), within ``bounds`` if there are any, and add it to the scores of its rows."""
    leaf, n = cuda.blockIdx.y, scores.size
    if leaf >= now[LEAVES]:
        return
    start, stop, side = leaves[leaf, START], leaves[leaf, STOP], leaves[leaf, SIDE]
    residual = float(leaf_sums[leaf, 0]) * _fine(facts[_RESIDUAL], totals[0, 0], n)
    curve = float(leaf_sums[leaf, 1]) * _fine(facts[_CURVE], totals[0, 1], n)
    node, low, high = leaves[leaf, NODE], -math.inf, math.inf
    if bounds.shape[0] > 0:
        low, high = bounds[node, 0], bounds[node, 1]
    value = leaf_value(residual, curve, stop - start, shrinkage, low, high)
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if first == 0:
        nodes[node, VALUE] = value
        if leaf == 0:
            end = nodes.shape[0] - 1
            nodes[end, 0], nodes[end, 1], nodes[end, 2] = now[NODES], facts[_RESIDUAL_UNIT], facts[_CURVE_UNIT]
    for k in range(start + first, stop, cuda.gridDim.x * cuda.blockDim.x):
        scores[rows[side, k]] += value


@cuda.jit(cache=True)
def add_tree(bins: Any, nodes: Any, tables: Any, skip: Any, scores: Any) -> None:
    """Add the tree to the scores of rows, by their bins; but not to rows that ``skip`` marks, if it is not empty."""
    for row in range(cuda.grid(1), scores.size, cuda.gridsize(1)):
        if skip.size > 0 and skip[row]:
            continue
        node = 0
        while nodes[node, FEATURE] >= 0.0:
            feature = int(nodes[node, FEATURE])
            code = bins[feature // TILE, row, feature % TILE]
            goes_left = nodes[node, MISSING_LEFT] == 1.0 if code == MISSING else code <= nodes[node, LAST]
            if nodes[node, IS_SET] == 1.0:
                goes_left = is_in(tables[node], code)
            node = int(nodes[node, LEFT_NODE]) + (0 if goes_left else 1)
        scores[row] += nodes[node, VALUE]
