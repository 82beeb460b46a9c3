"""Scores by the rule of a consumer: what it would compute from a file, number by number in its own type.

This is the check of a written file where its consumer is not a Python package. Nothing here knows the model: nodes and
weights come from the bytes that were written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rankwright._types import Array


@dataclass(frozen=True)
class ConsumerRule:
    """How a consumer walks a tree.

    `strict`: whether a value goes left if ``x < threshold``; otherwise if ``x <= threshold``. `dtype`: the type of
    features, thresholds, leaves and their sum. `slack`: added to every threshold, in this type. `missing_as_zero`:
    whether a missing value is 0; otherwise it goes where the node says.
    """

    strict: bool = False
    dtype: Any = np.float32
    slack: float = 0.0
    missing_as_zero: bool = False


class WrittenSplit(NamedTuple):
    """A split as it is written; ``left`` and ``right`` are what is written for its children.

    `categories`: those that go left, where it is a split on them; all other values go right.
    """

    feature: int
    threshold: float
    missing_left: bool
    left: Any
    right: Any
    categories: frozenset[int] | None = None


@dataclass(eq=False)
class ConsumerTrees:
    """The nodes of trees as they were read: leaves and splits, whose children are given by number."""

    nodes: list[float | WrittenSplit] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    @classmethod
    def read(cls, tops: Iterable[Any], parse: Callable[[Any], float | WrittenSplit]) -> ConsumerTrees:
        """Trees of weight 1; ``parse`` is called with what is written for a node, first for the top of each tree."""
        trees = cls()
        for top in tops:
            trees.add(top, parse)
        return trees

    def add(self, top: Any, parse: Callable[[Any], float | WrittenSplit], weight: float = 1.0) -> None:
        self.roots.append(len(self.nodes))
        self.weights.append(weight)
        todo = [(len(self.nodes), top)]
        self.nodes.append(0.0)
        while todo:
            number, written = todo.pop()
            node = parse(written)
            if isinstance(node, WrittenSplit):
                left, right = len(self.nodes), len(self.nodes) + 1
                todo += [(left, node.left), (right, node.right)]
                node = node._replace(left=left, right=right)
                self.nodes += [0.0, 0.0]
            self.nodes[number] = node


def tree_scores(trees: ConsumerTrees, X: Array, rule: ConsumerRule) -> Array:
    """The sum of the trees for every row, added in the type of the rule, tree by tree."""
    leaf = WrittenSplit(-1, 0.0, False, 0, 0)
    splits = [node if isinstance(node, WrittenSplit) else leaf for node in trees.nodes]
    leaves = [0.0 if isinstance(node, WrittenSplit) else node for node in trees.nodes]
    sets = {number: split.categories for number, split in enumerate(splits) if split.categories is not None}
    feature, left, right = (
        np.array([getattr(split, name) for split in splits], np.int64) for name in ("feature", "left", "right")
    )
    missing = np.where([split.missing_left for split in splits], left, right)
    with np.errstate(over="ignore", under="ignore"):
        X = np.asarray(X).astype(rule.dtype)
        threshold = np.array([split.threshold for split in splits]).astype(rule.dtype) + rule.dtype(rule.slack)
        value, weights = (np.array(numbers).astype(rule.dtype) for numbers in (leaves, trees.weights))
    if rule.missing_as_zero:
        X = np.where(np.isnan(X), rule.dtype(0), X)
    total = np.zeros(len(X), rule.dtype)
    for root, weight in zip(trees.roots, weights, strict=True):
        at, rows = np.full(len(X), root), np.arange(len(X))
        while True:
            rows = rows[feature[at[rows]] >= 0]
            if not len(rows):
                break
            here = at[rows]
            x, limit = X[rows, feature[here]], threshold[here]
            goes_left = x < limit if rule.strict else x <= limit
            for node in set(here.tolist()) & sets.keys() if sets else ():
                those = here == node
                goes_left[those] = np.isin(np.trunc(x[those]), list(sets[node]))
            at[rows] = np.where(np.isnan(x), missing[here], np.where(goes_left, left[here], right[here]))
        total += weight * value[at]
    return total.astype(np.float64)


def linear_scores(
    X: Array, columns: Sequence[int], weights: Sequence[float], dtype: Any = np.float32, constant: float = 0.0
) -> Array:
    """Return constant + Σ weight · x in a type, from the first weight to the last; missing values are 0."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        X = np.nan_to_num(np.asarray(X).astype(dtype), nan=0.0, posinf=np.inf, neginf=-np.inf)
        total = np.full(len(X), constant, dtype)
        for column, weight in zip(columns, weights, strict=True):
            total += dtype(weight) * X[:, column]
    return total.astype(np.float64)
