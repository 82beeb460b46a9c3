"""Trees as other programs write them, put into the order of this package: children are adjacent, after their parents.

Where a file says nothing of training rows, every leaf counts as one; where it says nothing of gains, a split's gain is
the squared error that its leaves' means remove: Σ count · (mean − mean of both)².

LightGBM has splits that take 0 for a missing value and may send it against the order of values. Such a split has up to
three parts: below 0, around 0, above 0. Here it becomes three plain splits, and what is below each side is copied; on
the way down, splits on a feature whose part is known need no copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import MOST_FEATURES, TreeModel
from rankwright.errors import InputError
from rankwright.importing.source import ImportSettings, ModelFile
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

_BITS = 64
Item = TypeVar("Item")


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

    @classmethod
    def nested(cls, root: Item, add: Callable[[Nodes, Item], tuple[int, tuple[Item, Item] | None]]) -> Nodes:
        """Read a tree that is written as nodes inside nodes.

        ``add`` adds a node; it returns its number and, if it is a split, what is written on its two sides.
        """
        nodes = cls()
        waiting: list[tuple[Item, int, bool]] = [(root, -1, False)]
        while waiting:
            item, parent, is_left = waiting.pop()
            node, sides = add(nodes, item)
            if parent >= 0:
                (nodes.left if is_left else nodes.right)[parent] = node
            if sides is not None:
                waiting += [(sides[1], node, False), (sides[0], node, True)]
        return nodes

    def order(self) -> list[int]:
        """The nodes from the root on, level by level, the children of a node adjacent; raises if it is no tree."""
        order, seen = [0], bytearray(len(self))
        for node in order:
            if not 0 <= node < len(self) or seen[node]:
                raise InputError("a node has a child that is not there, or that another node has too")
            seen[node] = 1
            if self.feature[node] >= 0:
                order += (self.left[node], self.right[node])
        return order

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
        sets = _sets([categories for categories in subsets if categories is not None])
        subset = np.full(n, -1, np.int32)
        subset[[at for at, categories in enumerate(subsets) if categories is not None]] = np.arange(len(sets))
        return Tree(
            feature=np.where(feature >= 0, feature - shift, -1).astype(np.int32),
            threshold=np.array([self.threshold[node] for node in order]),
            missing_left=np.array([self.missing_left[node] for node in order], np.bool_),
            left=left, value=value, gain=gain, count=count, subset=subset, sets=sets,
        )  # fmt: skip

    def _facts(self, order: Sequence[int], feature: Any, left: Any, value: Any) -> tuple[Any, Any]:
        """Counts and gains of the nodes, from the leaves up."""
        given = [self.count[node] for node in order]
        counts = np.array([1.0 if count is None else count for count in given])
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
        for node in splits:
            given_gain = self.gain[order[node]]
            if given_gain is not None and math.isfinite(given_gain):
                gains[node] = max(0.0, given_gain)
        return attempt, np.where(np.isfinite(gains), gains, 0.0)


def _sets(subsets: Sequence[tuple[int, ...]]) -> Any:
    sets = np.zeros((len(subsets), SET_WORDS), np.uint64)
    for row, subset in enumerate(subsets):
        for category in subset:
            sets[row, category // _BITS] |= np.uint64(1) << np.uint64(category % _BITS)
    return sets


def feature_count(
    file: ModelFile, settings: ImportSettings, n_in_file: int, used: int, first: int, numbered_from: int
) -> int:
    """Number of features: as asked for, or as the file has it.

    `file`, `settings`: the file, and how it is taken over. `n_in_file`, `used`: how many features the file speaks of,
    and the number after that of the last one that the model uses, both with the numbers of the file. `first`: the
    lowest number of a feature that the model uses. `numbered_from`: the number of the first feature.
    """
    if first < numbered_from:
        raise file.error(f"uses feature {first}; expected numbers from {numbered_from} on (--first-feature)")
    n_features = max(n_in_file, used) - numbered_from
    if settings.n_features is not None:
        if settings.n_features < used - numbered_from:
            minimum = used - numbered_from
            problem = f"--features is {settings.n_features:,}"
            raise file.error(f"{problem}; expected at least {minimum:,}, which the model uses")
        n_features = settings.n_features
    if n_features > MOST_FEATURES:
        raise file.error(f"has {n_features:,} features; expected at most {MOST_FEATURES:,}")
    return n_features


def tree_model(
    file: ModelFile,
    settings: ImportSettings,
    trees: Sequence[Nodes],
    *,
    numbered_from: int,
    n_in_file: int = 0,
    names: Sequence[str] | None = None,
    categories: Mapping[int, tuple[Any, ...]] | None = None,
    factors: Sequence[float] | None = None,
    constant: float = 0.0,
) -> TreeModel:
    """The trees of a file as a model.

    `file`, `settings`: the file, and how it is taken over. `trees`: the trees, with the file's numbers of features.
    `numbered_from`: the number of the first feature in this format, unless the settings have another. `n_in_file`: the
    number after the last feature that the file speaks of. `names`: the names of all features that it speaks of, from
    number 0 on. `categories`: categories by number of the feature. `factors`: what the leaf values of each tree are
    multiplied by. `constant`: added to every score.
    """
    start = settings.start(numbered_from)
    used = {feature for nodes in trees for feature in nodes.feature if feature >= 0}
    n = feature_count(file, settings, n_in_file, max(used, default=start - 1) + 1, min(used, default=start), start)
    built = []
    for number, nodes in enumerate(trees):
        try:
            built.append(nodes.tree(1.0 if factors is None else factors[number], start))
        except InputError as error:
            raise file.error(f"tree {number} (from 0): {error.message}") from None
    if constant != 0.0 and settings.constant:
        alone = Nodes()
        alone.leaf(constant)
        built.append(alone.tree(1.0, 0))
    listed = None if names is None else _listed(file, names[start:], n)
    shifted = {feature - start: values for feature, values in (categories or {}).items()}
    model = TreeModel(n, listed, Forest.of(built), categories=shifted)
    model.forest.check(n, tuple(model.categories))
    return model


def _listed(file: ModelFile, names: Sequence[str], n_features: int) -> tuple[str, ...]:
    if len(names) != n_features:
        raise file.error(f"has names for {len(names):,} of {n_features:,} features; expected one for each")
    return tuple(names)


def linear_model(
    file: ModelFile,
    settings: ImportSettings,
    weights: Array,
    *,
    numbered_from: int,
    constant: float,
    names: Sequence[str] | None = None,
) -> Any:
    """Weights as a model, plus a constant; `weights` and `names` go by the file's numbers of features, from 0 on."""
    start, used = settings.start(numbered_from), np.flatnonzero(weights)
    first = int(used[0]) if len(used) else start
    coef = np.zeros(feature_count(file, settings, len(weights), len(weights), first, start))
    coef[: len(weights) - start] = weights[start:]
    return with_constant(LinearModel(coef, None if names is None else tuple(names[start:])), constant, settings)


def with_constant(model: LinearModel | NetModel, constant: float, settings: ImportSettings) -> Any:
    """A model plus a constant, as a sum with a tree of one leaf; the model itself if there is none to add."""
    if constant == 0.0 or not settings.constant:
        return model
    alone = Nodes()
    alone.leaf(constant)
    tree = TreeModel(model.n_features, model.feature_names, Forest.of([alone.tree(1.0, 0)]))
    return SumModel((model, tree), np.ones(2))


ZERO = float(np.float32(1e-35))
"""Values up to this size are 0 to LightGBM."""
MAX_NODES = 1 << 20
_BELOW = math.nextafter(-ZERO, -math.inf)


def expanded(nodes: Nodes, default_left: dict[int, bool], max_nodes: int = MAX_NODES) -> Nodes:
    """The same tree in plain splits.

    `nodes`: a sound tree. `default_left`: for every split that takes 0 for a missing value: whether 0 goes left.
    `max_nodes`: the most nodes that the result may have.
    """
    plain = Nodes()
    # What is left to copy: a node, the parts of features that are known above it, and where the copy belongs.
    waiting: list[tuple[int, dict[int, str], tuple[int, bool] | None]] = [(0, {}, None)]

    def add(at: tuple[int, bool] | None, feature: int, threshold: float, missing_left: bool, like: int) -> int:
        split = plain.split(feature, threshold, missing_left, gain=nodes.gain[like], subset=nodes.subset[like])
        hang(at, split)
        return split

    def hang(at: tuple[int, bool] | None, node: int) -> None:
        if at is not None:
            (plain.left if at[1] else plain.right)[at[0]] = node

    while waiting:
        node, parts, at = waiting.pop()
        if len(plain) > max_nodes:
            raise InputError(f"takes 0 for missing in so many splits that it needs more than {max_nodes:,} nodes")
        feature = nodes.feature[node]
        if feature < 0:
            hang(at, plain.leaf(nodes.value[node], nodes.count[node]))
            continue
        sides = (nodes.left[node], nodes.right[node])
        threshold = nodes.threshold[node]
        if node not in default_left:
            split = add(at, feature, threshold, nodes.missing_left[node], node)
            waiting += [(sides[0], parts, (split, True)), (sides[1], parts, (split, False))]
            continue
        _split(add, waiting, (node, feature, threshold, default_left[node], sides), parts, at)
    return plain


def _split(add: Any, waiting: Any, original: Any, parts: dict[int, str], at: Any) -> None:
    """Copy a split that takes 0 for a missing value."""
    node, feature, threshold, zero_left, (left, right) = original
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
