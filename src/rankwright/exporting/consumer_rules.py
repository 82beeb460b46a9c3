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
    """A split as it is written; ``left`` and ``right`` are what is written for its children."""

    feature: int
    threshold: float
    missing_left: bool
    left: Any
    right: Any
    categories: frozenset[int] | None = None


@dataclass(eq=False)
class ConsumerTrees:
    """The nodes of trees as they were read; a leaf has the feature −1."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    sets: dict[int, frozenset[int]] = field(default_factory=dict)
    """By node, the categories that go left; all other values go right."""

    @classmethod
    def read(cls, tops: Iterable[Any], parse: Callable[[Any], float | WrittenSplit]) -> ConsumerTrees:
        """Trees of weight 1; ``parse`` is called with what is written for a node, first for the top of each tree."""
        trees = cls()
        for top in tops:
            trees.add(top, parse)
        return trees

    def add(self, top: Any, parse: Callable[[Any], float | WrittenSplit], weight: float = 1.0) -> None:
        self.roots.append(len(self.feature))
        self.weights.append(weight)
        todo = [(self._new(), top)]
        while todo:
            node, written = todo.pop()
            parsed = parse(written)
            if not isinstance(parsed, WrittenSplit):
                self.value[node] = parsed
                continue
            left, right = self._new(), self._new()
            self.feature[node], self.threshold[node] = parsed.feature, parsed.threshold
            self.left[node], self.right[node] = left, right
            self.missing[node] = left if parsed.missing_left else right
            if parsed.categories is not None:
                self.sets[node] = parsed.categories
            todo += [(left, parsed.left), (right, parsed.right)]

    def _new(self) -> int:
        for column in (self.left, self.right, self.missing):
            column.append(0)
        self.feature.append(-1)
        self.threshold.append(0.0)
        self.value.append(0.0)
        return len(self.feature) - 1


def tree_scores(nodes: ConsumerTrees, X: Array, rule: ConsumerRule) -> Array:
    """The sum of the trees for every row, added in the type of the rule, tree by tree."""
    with np.errstate(over="ignore", under="ignore"):
        X = np.asarray(X).astype(rule.dtype)
        threshold = np.array(nodes.threshold).astype(rule.dtype) + rule.dtype(rule.slack)
        value, weights = (np.array(numbers).astype(rule.dtype) for numbers in (nodes.value, nodes.weights))
    if rule.missing_as_zero:
        X = np.where(np.isnan(X), rule.dtype(0), X)
    columns = (nodes.feature, nodes.left, nodes.right, nodes.missing)
    feature, left, right, missing = (np.array(column, np.int64) for column in columns)
    total = np.zeros(len(X), rule.dtype)
    for root, weight in zip(nodes.roots, weights, strict=True):
        at, rows = np.full(len(X), root), np.arange(len(X))
        while True:
            rows = rows[feature[at[rows]] >= 0]
            if not len(rows):
                break
            here = at[rows]
            x, limit = X[rows, feature[here]], threshold[here]
            goes_left = x < limit if rule.strict else x <= limit
            for node in set(here.tolist()) & nodes.sets.keys() if nodes.sets else ():
                those = here == node
                goes_left[those] = np.isin(np.trunc(x[those]), list(nodes.sets[node]))
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
