"""Trees as flat arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["Forest", "Tree"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Tree:
    """The nodes of a tree, the root first; the children of a node are adjacent.

    Attributes
    ----------
    feature : ndarray of int32
        −1 for a leaf.
    threshold : ndarray of float64
        Values up to it go to the left child.
    missing_left : ndarray of bool
        Whether missing values go left.
    left : ndarray of int32
        The left child; the right one is the next node.
    value : ndarray of float64
        Value of a leaf.
    gain : ndarray of float64
        Reduction of the squared error by the split.
    count : ndarray of float64
        Number of training rows.
    """

    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    value: Array
    gain: Array
    count: Array


@dataclass(frozen=True, eq=False)
class Forest:
    """The nodes of all trees, one tree after the other; node numbers run through all trees.

    Attributes
    ----------
    roots : ndarray of int64
        The first node of every tree.
    feature, threshold, missing_left, left, value, gain, count : ndarray
        As in :class:`~rankwright.models.trees.forest.Tree`; values are already shrunk.
    """

    roots: Array
    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    value: Array
    gain: Array
    count: Array

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Forest:
        """A forest of some trees."""
        roots = np.cumsum([0] + [len(tree.feature) for tree in trees]).astype(np.int64)
        left = [tree.left + np.int32(root) for tree, root in zip(trees, roots[:-1], strict=True)]
        names = ("feature", "threshold", "missing_left", "value", "gain", "count")
        parts = {name: [getattr(tree, name) for tree in trees] for name in names}
        empty = {"feature": np.int32, "missing_left": np.bool_}
        joined = {
            name: np.concatenate(part) if part else np.empty(0, empty.get(name, np.float64))
            for name, part in parts.items()
        }
        return cls(roots=roots[:-1], left=np.concatenate(left) if left else np.empty(0, np.int32), **joined)

    @classmethod
    def join(cls, forests: Sequence[Forest]) -> Forest:
        """Several forests joined into one."""
        if not forests:
            return cls.of([])
        shifts = np.concatenate([[0], np.cumsum([len(forest.feature) for forest in forests])])[:-1]
        arrays = {}
        for name in ("roots", "feature", "threshold", "missing_left", "left", "value", "gain", "count"):
            parts = [getattr(forest, name) for forest in forests]
            if name in ("roots", "left"):
                parts = [(part + shift).astype(part.dtype) for part, shift in zip(parts, shifts, strict=True)]
            arrays[name] = np.concatenate(parts)
        return cls(**arrays)

    def check(self, n_features: int) -> None:
        """Raise if the trees are not sound for rows of so many features: compiled code trusts them.

        Children come after their parents, so no row runs in circles; the numbers of nodes and features exist; a split
        has training rows, by which its means are weighted.
        """
        n = len(self.feature)
        nodes = (self.threshold, self.missing_left, self.left, self.value, self.gain, self.count)
        if any(np.shape(part) != (n,) for part in nodes) or np.ndim(self.roots) != 1:
            raise InputError("the arrays of the trees differ in length")
        inner = np.flatnonzero(self.feature >= 0)
        left = self.left[inner].astype(np.int64)
        sound = self.feature.max(initial=-1) < n_features and (left > inner).all() and (left < n - 1).all()
        sound = sound and self.roots.min(initial=0) >= 0 and self.roots.max(initial=-1) < n
        if not sound:
            raise InputError("the arrays of the trees do not fit together")
        if not all(np.isfinite(part).all() for part in (self.value, self.gain, self.count)):
            raise InputError("a number of the trees is not finite")
        below = self.count[left] + self.count[left + 1]
        if np.isnan(self.threshold).any() or (self.count < 0).any() or not (below > 0).all():
            raise InputError("a threshold of the trees is not a number, or a split has no training rows")
        if (self.gain < 0).any():
            raise InputError("a gain of the trees is below 0")

    def scaled(self, factor: float) -> Forest:
        """The same trees with all leaf values multiplied by ``factor``."""
        return self if factor == 1.0 else dataclasses.replace(self, value=factor * self.value)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    def first(self, n_trees: int) -> Forest:
        """The first trees only."""
        stop = int(self.roots[n_trees]) if n_trees < self.n_trees else len(self.feature)
        arrays = (self.feature, self.threshold, self.missing_left, self.left, self.value, self.gain, self.count)
        return Forest(self.roots[:n_trees], *(array[:stop] for array in arrays))
