"""Trees as other programs write them, put into the order of this package: children are adjacent, after their parents.

Where a file says nothing of training rows, every leaf counts as one; where it says nothing of gains, a split's gain is
the squared error that its leaves' means remove: Σ count · (mean − mean of both)².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright.errors import InputError
from rankwright.importing.source import ModelFile, Settings
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.models.sum import SumModel
from rankwright.models.trees.forest import SET_WORDS, Forest, Tree
from rankwright.models.trees.model import MOST_FEATURES, TreeModel

__all__ = ["Nodes", "feature_count", "tree_model", "with_constant"]

_BITS = 64


class Nodes:
    """The nodes of one tree, in any order; the first is the root.

    A split is added before or after its children, which it names by their numbers.
    """

    def __init__(self) -> None:
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.missing_left: list[bool] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.value: list[float] = []
        self.gain: list[float | None] = []
        self.count: list[float | None] = []
        self.subset: list[tuple[int, ...] | None] = []

    def __len__(self) -> int:
        return len(self.feature)

    def leaf(self, value: float, count: float | None = None) -> int:
        """Add a leaf; returns its number."""
        return self._add(-1, 0.0, False, (-1, -1), value, None, count, None)

    def split(
        self,
        feature: int,
        threshold: float,
        missing_left: bool,
        children: tuple[int, int] = (-1, -1),
        *,
        gain: float | None = None,
        subset: tuple[int, ...] | None = None,
    ) -> int:
        """Add a split: values up to the threshold, or categories in the subset, go to the first child."""
        return self._add(feature, threshold, missing_left, children, 0.0, gain, None, subset)

    def _add(
        self, feature: int, threshold: float, missing_left: bool, children: tuple[int, int], value: float,
        gain: float | None, count: float | None, subset: tuple[int, ...] | None,
    ) -> int:  # fmt: skip
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.missing_left.append(missing_left)
        self.left.append(children[0])
        self.right.append(children[1])
        self.value.append(value)
        self.gain.append(gain)
        self.count.append(count)
        self.subset.append(subset)
        return len(self.feature) - 1

    def order(self) -> list[int]:
        """The nodes from the root on, level by level, the children of a node adjacent; raises if it is no tree."""
        found, seen = [0], bytearray(len(self))
        for node in found:
            if not 0 <= node < len(self) or seen[node]:
                raise InputError("a node has a child that is not there, or that another node has too")
            seen[node] = 1
            if self.feature[node] >= 0:
                found += (self.left[node], self.right[node])
        return found

    def tree(self, factor: float, shift: int) -> Tree:
        """The nodes as a tree: leaf values multiplied, ``shift`` taken off the numbers of features."""
        order = self.order()
        n = len(order)
        feature = np.array([self.feature[node] for node in order], np.int64)
        left = np.full(n, -1, np.int32)
        left[feature >= 0] = 1 + 2 * np.arange(int((feature >= 0).sum()))
        value = np.array([factor * self.value[node] for node in order])
        count, gain = self._facts(order, feature, left, value)
        subsets = [self.subset[node] for node in order]
        sets = _sets([one for one in subsets if one is not None])
        subset = np.full(n, -1, np.int32)
        subset[[at for at, one in enumerate(subsets) if one is not None]] = np.arange(len(sets))
        return Tree(
            feature=np.where(feature >= 0, feature - shift, -1).astype(np.int32),
            threshold=np.array([self.threshold[node] for node in order]),
            missing_left=np.array([self.missing_left[node] for node in order], np.bool_),
            left=left, value=value, gain=gain, count=count, subset=subset, sets=sets,
        )  # fmt: skip

    def _facts(self, order: Sequence[int], feature: Any, left: Any, value: Any) -> tuple[Any, Any]:
        """Counts and gains of the nodes, from the leaves up."""
        given = [self.count[node] for node in order]
        counts = np.array([1.0 if one is None else one for one in given])
        leaves, splits = feature < 0, np.flatnonzero(feature >= 0)[::-1]
        usable = np.isfinite(counts[leaves]).all() and (counts[leaves] >= 0).all()
        for attempt in (counts, np.ones(len(order))) if usable else (np.ones(len(order)),):
            for node in splits:
                attempt[node] = attempt[left[node]] + attempt[left[node] + 1]
            if (attempt[splits] > 0).all():
                break
        means, gains = np.where(leaves, value, 0.0), np.zeros(len(order))
        with np.errstate(over="ignore", invalid="ignore"):
            for node in splits:
                a, b = left[node], left[node] + 1
                share = attempt[a] / attempt[node]
                means[node] = share * means[a] + (1 - share) * means[b]
                gains[node] = attempt[node] * share * (1 - share) * (means[a] - means[b]) ** 2
        known = [self.gain[node] for node in order]
        for node in splits:
            one = known[node]
            if one is not None and math.isfinite(one):
                gains[node] = max(0.0, one)
        return attempt, np.where(np.isfinite(gains), gains, 0.0)


def _sets(subsets: Sequence[tuple[int, ...]]) -> Any:
    sets = np.zeros((len(subsets), SET_WORDS), np.uint64)
    for row, subset in enumerate(subsets):
        for category in subset:
            sets[row, category // _BITS] |= np.uint64(1) << np.uint64(category % _BITS)
    return sets


def feature_count(file: ModelFile, settings: Settings, known: int, used: int, first: int, numbered_from: int) -> int:
    """Number of features: as asked for, or as the file has it.

    Parameters
    ----------
    file, settings
        The file, and how it is taken over.
    known, used : int
        How many features the file speaks of, and the number after that of the last one that the model uses, both with
        the numbers of the file.
    first : int
        The lowest number of a feature that the model uses.
    numbered_from : int
        The number of the first feature.
    """
    if first < numbered_from:
        raise file.error(f"uses feature {first}; expected numbers from {numbered_from} on (--first-feature)")
    found = max(known, used) - numbered_from
    if settings.n_features is not None:
        if settings.n_features < used - numbered_from:
            least = used - numbered_from
            told = f"--features is {settings.n_features:,}"
            raise file.error(f"{told}; expected at least {least:,}, which the model uses")
        found = settings.n_features
    if found > MOST_FEATURES:
        raise file.error(f"has {found:,} features; expected at most {MOST_FEATURES:,}")
    return found


def tree_model(
    file: ModelFile,
    settings: Settings,
    trees: Sequence[Nodes],
    *,
    numbered_from: int,
    known: int = 0,
    names: Sequence[str] | None = None,
    categories: Mapping[int, tuple[Any, ...]] | None = None,
    factors: Sequence[float] | None = None,
    constant: float = 0.0,
) -> TreeModel:
    """The trees of a file as a model.

    Parameters
    ----------
    file, settings
        The file, and how it is taken over.
    trees : sequence of Nodes
        The trees, with the file's numbers of features.
    numbered_from : int
        The number of the first feature in this format, unless the settings have another.
    known : int
        The number after the last feature that the file speaks of.
    names : sequence of str, optional
        The names of all features that it speaks of, from number 0 on.
    categories : mapping, optional
        Categories by number of the feature.
    factors : sequence of float, optional
        What the leaf values of each tree are multiplied by.
    constant : float
        Added to every score.
    """
    start = numbered_from if settings.first_feature is None else settings.first_feature
    used = {feature for nodes in trees for feature in nodes.feature if feature >= 0}
    n = feature_count(file, settings, known, max(used, default=start - 1) + 1, min(used, default=start), start)
    made = []
    for number, nodes in enumerate(trees):
        try:
            made.append(nodes.tree(1.0 if factors is None else factors[number], start))
        except InputError as error:
            raise file.error(f"tree {number} (from 0): {error.message}") from None
    if constant != 0.0 and settings.constant:
        alone = Nodes()
        alone.leaf(constant)
        made.append(alone.tree(1.0, 0))
    listed = None if names is None else _listed(file, names[start:], n)
    own = {feature - start: values for feature, values in (categories or {}).items()}
    model = TreeModel(n, listed, Forest.of(made), categories=own)
    model.forest.check(n, tuple(model.categories))
    return model


def _listed(file: ModelFile, names: Sequence[str], n_features: int) -> tuple[str, ...]:
    if len(names) != n_features:
        raise file.error(f"has names for {len(names):,} of {n_features:,} features; expected one for each")
    return tuple(names)


def with_constant(model: LinearModel | NetModel, constant: float, settings: Settings) -> Any:
    """A model plus a constant, as a sum with a tree of one leaf; the model itself if there is none to add."""
    if constant == 0.0 or not settings.constant:
        return model
    alone = Nodes()
    alone.leaf(constant)
    tree = TreeModel(model.n_features, model.feature_names, Forest.of([alone.tree(1.0, 0)]))
    return SumModel((model, tree), np.ones(2))
