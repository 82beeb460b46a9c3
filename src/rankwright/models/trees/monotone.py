"""Monotone trees: bounds on the values of leaves that make scores rise, or fall, in a feature.

Where a split on such a feature parts two rows that differ in it alone, one goes left and the other right. So it is
enough that no leaf on one side is above a limit and none on the other below it: at every such split the limit is the
mean of the best values of both sides, within the bounds that hold above it. Sums of such trees are monotone, too, in
floating point as well: each addition is. A missing value is no value, so a split that only sets missing ones apart has
no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.models.trees.forest import Tree

Array = npt.NDArray[Any]


def leaf_bounds(tree: Tree, directions: Mapping[int, int], residuals: Array, curves: Array) -> tuple[Array, Array]:
    """The lowest and the highest value that each node of a tree may have.

    Parameters
    ----------
    tree : Tree
        Any tree.
    directions : mapping of int to int
        Features in which scores rise (1) or fall (−1).
    residuals, curves : ndarray
        Sums over the rows of each leaf, one per node: the best value of some rows is the quotient of theirs.
    """
    n = len(tree.feature)
    residuals, curves = residuals.copy(), curves.copy()
    inner = np.flatnonzero(tree.feature >= 0).tolist()
    for node in reversed(inner):  # children come after their parents
        for sums in (residuals, curves):
            sums[node] = sums[tree.left[node]] + sums[tree.left[node] + 1]
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    best = np.divide(residuals, curves, out=np.zeros(n), where=curves > 0)
    for node in inner:
        one, two = int(tree.left[node]), int(tree.left[node]) + 1
        low[one] = low[two] = low[node]
        high[one] = high[two] = high[node]
        way = directions.get(int(tree.feature[node]), 0)
        if way and tree.threshold[node] < np.inf:
            left, right = (min(max(best[child], low[node]), high[node]) for child in (one, two))
            limit = left + (right - left) / 2
            lower, upper = (one, two) if way > 0 else (two, one)
            high[lower] = low[upper] = limit
    return low, high
