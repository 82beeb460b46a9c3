"""Splits of LightGBM that take 0 for a missing value and send it against the order of values.

Such a split has up to three parts: below 0, around 0, above 0. Here it becomes three plain splits, and what is below
each side is copied; on the way down, splits on a feature whose part is known need no copies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankwright.errors import InputError
from rankwright.importing.nodes import Nodes

__all__ = ["MOST_NODES", "ZERO", "expanded"]

ZERO = float(np.float32(1e-35))
"""Values up to this size are 0 to LightGBM."""
MOST_NODES = 1 << 20
_BELOW = math.nextafter(-ZERO, -math.inf)


def expanded(nodes: Nodes, default_left: dict[int, bool], most: int = MOST_NODES) -> Nodes:
    """The same tree in plain splits.

    Parameters
    ----------
    nodes : Nodes
        A sound tree.
    default_left : dict
        For every split that takes 0 for a missing value: whether 0 goes left.
    most : int
        The most nodes that the result may have.
    """
    made = Nodes()
    # What is left to copy: a node, the parts of features that are known above it, and where the copy belongs.
    waiting: list[tuple[int, dict[int, str], tuple[int, bool] | None]] = [(0, {}, None)]

    def add(at: tuple[int, bool] | None, feature: int, threshold: float, missing_left: bool, like: int) -> int:
        split = made.split(feature, threshold, missing_left, gain=nodes.gain[like], subset=nodes.subset[like])
        hang(at, split)
        return split

    def hang(at: tuple[int, bool] | None, node: int) -> None:
        if at is not None:
            (made.left if at[1] else made.right)[at[0]] = node

    while waiting:
        node, parts, at = waiting.pop()
        if len(made) > most:
            raise InputError(f"takes 0 for missing in so many splits that it needs more than {most:,} nodes")
        feature = nodes.feature[node]
        if feature < 0:
            hang(at, made.leaf(nodes.value[node], nodes.count[node]))
            continue
        sides = (nodes.left[node], nodes.right[node])
        threshold = nodes.threshold[node]
        if node not in default_left:
            split = add(at, feature, threshold, nodes.missing_left[node], node)
            waiting += [(sides[0], parts, (split, True)), (sides[1], parts, (split, False))]
            continue
        _split(add, waiting, (node, feature, threshold, default_left[node], sides), parts, at)
    return made


def _split(add: Any, waiting: Any, what: Any, parts: dict[int, str], at: Any) -> None:
    """Copy a split that takes 0 for a missing value."""
    node, feature, threshold, zero_left, (left, right) = what
    negative = threshold < -ZERO  # the threshold is below 0, so 0 is above it
    part = parts.get(feature)
    if part == "zero":
        waiting.append((left if zero_left else right, parts, at))
    elif part is not None and (part == "below") != negative:
        waiting.append((left if part == "below" else right, parts, at))
    elif part is not None or zero_left != negative:  # in the order of values
        split = add(at, feature, threshold, zero_left, node)
        waiting += [(left, parts, (split, True)), (right, parts, (split, False))]
    else:
        low, zero, high = ({**parts, feature: name} for name in ("below", "zero", "above"))
        first = add(at, feature, _BELOW, False, node)
        second = add((first, False), feature, ZERO, True, node)
        waiting.append((left if zero_left else right, zero, (second, True)))
        inner, outer = ((first, True), (second, False)) if negative else ((second, False), (first, True))
        third = add(inner, feature, threshold, False, node)
        within, other = (low, high) if negative else (high, low)
        waiting += [(left, within, (third, True)), (right, within, (third, False))]
        waiting.append((right if negative else left, other, outer))
