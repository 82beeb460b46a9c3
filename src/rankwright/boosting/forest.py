"""Trees as flat arrays.

A split sends values up to a threshold left; one on a categorical feature sends the categories of a set left. There the
value is the category's number among those the model knows, from 0, and the set has a bit for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError

SET_WORDS = 4
"""Words of 64 bits that a set of categories takes."""
_NODES = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset")


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """Nodes of trees; the children of a node are adjacent.

    `feature`: −1 for a leaf. `threshold`: values up to it go to the left child. `missing_left`: whether missing values
    go left. `left`: the left child; the right one is the next node. `value`: value of a leaf. `gain`: reduction of the
    squared error by the split. `count`: number of training rows. `subset`: the row of ``sets`` that holds the
    categories to send left; −1 for a leaf and where the threshold decides. `sets` (shape (sets, 4)): sets of
    categories, a bit for each: category c is bit c % 64 of word c // 64.
    """

    feature: Array
    threshold: Array
    missing_left: Array
    left: Array
    value: Array
    gain: Array
    count: Array
    subset: Any = None
    sets: Any = None

    def __post_init__(self) -> None:
        if self.subset is None:
            object.__setattr__(self, "subset", np.full(len(self.feature), -1, np.int32))
        if self.sets is None:
            object.__setattr__(self, "sets", np.empty((0, SET_WORDS), np.uint64))


class Tree(TreeNodes):
    """The nodes of a tree, the root first."""


@dataclass(frozen=True, eq=False)
class Forest(TreeNodes):
    """The nodes of all trees, one tree after the other; node numbers run through all trees. Values are already shrunk.

    `roots`: the first node of every tree.
    """

    roots: Array = field(kw_only=True)

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Forest:
        start = np.zeros(1, np.int64)
        return cls.join(
            [cls(**{name: getattr(tree, name) for name in (*_NODES, "sets")}, roots=start) for tree in trees]
        )

    @classmethod
    def join(cls, forests: Sequence[Forest]) -> Forest:
        if not forests:
            none, roots = np.empty(0), np.empty(0, np.int64)
            numbers = none.astype(np.int32)
            return cls(numbers, none, none.astype(np.bool_), numbers, none, none, none, roots=roots)
        shifts, further = (
            np.concatenate([[0], np.cumsum([len(getattr(forest, name)) for forest in forests])])[:-1]
            for name in ("feature", "sets")
        )
        arrays = {}
        for name in ("roots", *_NODES, "sets"):
            parts = [getattr(forest, name) for forest in forests]
            if name in ("roots", "left"):
                parts = [(part + shift).astype(part.dtype) for part, shift in zip(parts, shifts, strict=True)]
            if name == "subset":
                parts = [np.where(part < 0, part, part + more) for part, more in zip(parts, further, strict=True)]
            arrays[name] = np.concatenate(parts).astype(parts[0].dtype, copy=False)
        arrays["subset"] = arrays["subset"].astype(np.int32, copy=False)
        return cls(**arrays)

    def check(self, n_features: int, categorical: Sequence[int] = ()) -> None:
        """Raise if the trees are not sound for rows of so many features: compiled code trusts them.

        Children come after their parents, so no row runs in circles; the numbers of nodes and features exist; a split
        has training rows, by which its means are weighted; splits on the features ``categorical``, and only these, have
        a set of categories.
        """
        n = len(self.feature)
        if any(np.shape(getattr(self, name)) != (n,) for name in _NODES) or np.ndim(self.roots) != 1:
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
        if self.sets.ndim != 2 or self.sets.shape[1] != SET_WORDS or self.subset.max(initial=-1) >= len(self.sets):
            raise InputError("the sets of categories of the trees do not fit together")
        if not np.array_equal(self.subset >= 0, np.isin(self.feature, np.array(categorical, np.int64))):
            raise InputError("a split of the trees has a set of categories and no categorical feature, or the reverse")

    def scaled(self, factor: float) -> Forest:
        return self if factor == 1.0 else dataclasses.replace(self, value=factor * self.value)

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    def first(self, n_trees: int) -> Forest:
        stop = int(self.roots[n_trees]) if n_trees < self.n_trees else len(self.feature)
        nodes = {name: getattr(self, name)[:stop] for name in _NODES}
        return dataclasses.replace(self, roots=self.roots[:n_trees], **nodes)
