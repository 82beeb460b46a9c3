"""Trees as other programs write them, put into the order of this package: children are adjacent, after their parents.

Where a file says nothing of training rows, every leaf counts as one; where it says nothing of gains, a split's gain is
the squared error that its leaves' means remove: Σ count · (mean − mean of both)².

LightGBM has splits that take 0 for a missing value and may send it against the order of values. Such a split has up to
three parts: below 0, around 0, above 0. Here it becomes three plain splits, and what is below each side is copied; on
the way down, splits on a feature whose part is known need no copies.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import MOST_FEATURES, TreeModel
from rankwright.errors import InputError
from rankwright.importing.source import Imported, ImportSettings, ModelFile, integer_of
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

_BITS = 64
Item = TypeVar("Item")


@dataclass
class _Node:
    """A split, whose children are named by their numbers, or a leaf, whose feature is −1; None: the file does not say.

    Values up to the threshold, or categories in the subset, go left.
    """

    feature: int = -1
    threshold: float = 0.0
    missing_left: bool = False
    left: int = -1
    right: int = -1
    value: float = 0.0
    gain: float | None = None
    count: float | None = None
    subset: tuple[int, ...] | None = None


class Nodes(list[_Node]):
    """The nodes of one tree, in any order; a split is added before or after its children."""

    root = 0

    def leaf(self, value: float, count: float | None = None) -> int:
        self.append(_Node(value=value, count=count))
        return len(self) - 1

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
        self.append(_Node(feature, threshold, missing_left, *children, gain=gain, subset=subset))
        return len(self) - 1

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
            if is_left:
                nodes[parent].left = node
            elif parent >= 0:
                nodes[parent].right = node
            if sides is not None:
                waiting += [(sides[1], node, False), (sides[0], node, True)]
        return nodes

    def order(self) -> list[int]:
        """The nodes from the root on, level by level, the children of a node adjacent; raises if it is no tree."""
        order, seen = [self.root], bytearray(len(self))
        for node in order:
            if not 0 <= node < len(self) or seen[node]:
                raise InputError("a node has a child that is not there, or that another node has too")
            seen[node] = 1
            if self[node].feature >= 0:
                order += (self[node].left, self[node].right)
        return order

    def tree(self, factor: float, shift: int) -> Tree:
        """The nodes as a tree: leaf values multiplied, ``shift`` taken off the numbers of features."""
        ordered = [self[number] for number in self.order()]
        n = len(ordered)
        feature = np.array([node.feature for node in ordered], np.int64)
        left = np.full(n, -1, np.int32)
        left[feature >= 0] = 1 + 2 * np.arange(int((feature >= 0).sum()))
        value = np.array([factor * node.value for node in ordered])
        count, gain = _counts_and_gains(ordered, feature, left, value)
        subset = np.full(n, -1, np.int32)
        with_sets = [at for at, node in enumerate(ordered) if node.subset is not None]
        subset[with_sets] = np.arange(len(with_sets))
        sets = np.zeros((len(with_sets), SET_WORDS), np.uint64)
        for row, at in enumerate(with_sets):
            for category in ordered[at].subset or ():
                sets[row, category // _BITS] |= np.uint64(1) << np.uint64(category % _BITS)
        return Tree(
            feature=np.where(feature >= 0, feature - shift, -1).astype(np.int32),
            threshold=np.array([node.threshold for node in ordered]),
            missing_left=np.array([node.missing_left for node in ordered], np.bool_),
            left=left, value=value, gain=gain, count=count, subset=subset, sets=sets,
        )  # fmt: skip


def _counts_and_gains(nodes: Sequence[_Node], feature: Array, left: Array, value: Array) -> tuple[Array, Array]:
    """Of nodes in the order of a tree, from the leaves up."""
    counts = np.array([1.0 if node.count is None else node.count for node in nodes])
    leaves, splits = feature < 0, np.flatnonzero(feature >= 0)[::-1]
    usable = np.isfinite(counts[leaves]).all() and (counts[leaves] >= 0).all()
    for attempt in (counts, np.ones(len(nodes))) if usable else (np.ones(len(nodes)),):
        for node in splits:
            attempt[node] = attempt[left[node]] + attempt[left[node] + 1]
        if (attempt[splits] > 0).all():
            break
    means, gains = np.where(leaves, value, 0.0), np.zeros(len(nodes))
    with np.errstate(over="ignore", invalid="ignore"):
        for node in splits:
            a, b = left[node], left[node] + 1
            share = attempt[a] / attempt[node]
            means[node] = share * means[a] + (1 - share) * means[b]
            gains[node] = attempt[node] * share * (1 - share) * (means[a] - means[b]) ** 2
    for node in splits:
        gain = nodes[node].gain
        if gain is not None and math.isfinite(gain):
            gains[node] = max(0.0, gain)
    return attempt, np.where(np.isfinite(gains), gains, 0.0)


def feature_count(
    file: ModelFile, settings: ImportSettings, n_in_file: int, used: int, first: int, numbered_from: int
) -> int:
    """Number of features: as asked for, or as the file has it.

    `n_in_file`, `used`: how many features the file speaks of, and the number after that of the last one that the model
    uses, both with the numbers of the file. `first`: the lowest number of a feature that the model uses.
    """
    if first < numbered_from:
        raise file.error(f"uses feature {first}; expected numbers from {numbered_from} on (--first-feature)")
    n_features = max(n_in_file, used) - numbered_from
    if settings.n_features is not None:
        n_features, minimum = settings.n_features, used - numbered_from
        if n_features < minimum:
            raise file.error(f"--features is {n_features:,}; expected at least {minimum:,}, which the model uses")
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
    objective: str = "",
    notices: Sequence[str] = (),
) -> Imported:
    """The trees of a file as a model, with what is said of it; features have the file's numbers.

    `numbered_from`: the number of the first feature in this format, unless the settings have another. `n_in_file`: the
    number after the last feature that the file speaks of. `names`: the names of all features that it speaks of, from
    number 0 on. `factors`: what the leaf values of each tree are multiplied by. `constant`: added to every score.
    """
    start = settings.start(numbered_from)
    used = {node.feature for nodes in trees for node in nodes if node.feature >= 0}
    n = feature_count(file, settings, n_in_file, max(used, default=start - 1) + 1, min(used, default=start), start)
    built = []
    for number, nodes in enumerate(trees):
        try:
            built.append(nodes.tree(1.0 if factors is None else factors[number], start))
        except InputError as error:
            raise file.error(f"tree {number} (from 0): {error.message}") from None
    if constant != 0.0 and settings.constant:
        built.append(Nodes([_Node(value=constant)]).tree(1.0, 0))
    listed = None if names is None else tuple(names[start:])
    if listed is not None and len(listed) != n:
        raise file.error(f"has names for {len(listed):,} of {n:,} features; expected one for each")
    shifted = {feature - start: values for feature, values in (categories or {}).items()}
    model = TreeModel(n, listed, Forest.of(built), categories=shifted)
    model.forest.check(n, tuple(model.categories))
    return Imported(model, {"objective": objective, "trees": len(trees)}, tuple(notices))


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
    leaf = Nodes([_Node(value=constant)]).tree(1.0, 0)
    tree = TreeModel(model.n_features, model.feature_names, Forest.of([leaf]))
    return SumModel((model, tree), np.ones(2))


def subset_of(codes: Sequence[Any]) -> tuple[int, ...] | None:
    """The codes of categories, numbers or texts that are numbers; None if one is neither."""
    numbers = [integer_of(code) for code in codes]
    subset = tuple(number for number in numbers if number is not None)
    return subset if len(subset) == len(numbers) else None


def cut(values: Sequence[Any], bounds: list[int]) -> list[Any] | None:
    """All values, in pieces between bounds; None if the bounds do not fit."""
    if bounds != sorted(bounds) or bounds[:1] != [0] or bounds[-1] != len(values):
        return None
    return [values[start:stop] for start, stop in pairwise(bounds)]


ZERO = float(np.float32(1e-35))
"""Values up to this size are 0 to LightGBM."""
MAX_NODES = 1 << 20
BELOW_ZERO = math.nextafter(-ZERO, -math.inf)


class _Copy(NamedTuple):
    """A node that is left to copy, and the parts of features that are known above it."""

    number: int
    parts: dict[int, str]


class _Made(NamedTuple):
    """A plain split, and what is on its sides."""

    node: _Node
    left: _Made | _Copy
    right: _Made | _Copy


def expanded(nodes: Nodes, default_left: dict[int, bool], max_nodes: int) -> Nodes:
    """The same tree in plain splits.

    `nodes`: a sound tree. `default_left`: for every split that takes 0 for a missing value: whether 0 goes left.
    `max_nodes`: the most nodes that the result may have.
    """

    def add(plain: Nodes, item: _Made | _Copy) -> tuple[int, tuple[_Made | _Copy, _Made | _Copy] | None]:
        if len(plain) > max_nodes:
            raise InputError(f"takes 0 for missing in so many splits that it needs more than {max_nodes:,} nodes")
        while isinstance(item, _Copy) and item.number in default_left:
            item = _plain_splits(nodes[item.number], default_left[item.number], item.parts)
        if isinstance(item, _Copy):
            node = nodes[item.number]
            item = _Made(node, _Copy(node.left, item.parts), _Copy(node.right, item.parts))
        plain.append(dataclasses.replace(item.node))
        return len(plain) - 1, (item.left, item.right) if item.node.feature >= 0 else None

    top: Any = _Copy(0, {})
    return Nodes.nested(top, add)


def _plain_splits(node: _Node, zero_left: bool, parts: dict[int, str]) -> _Made | _Copy:
    """A split that takes 0 for a missing value: up to three plain ones, or what is on the only side that rows take."""
    negative = node.threshold < -ZERO  # the threshold is below 0, so 0 is above it

    def made(threshold: float, missing_left: bool, left: _Made | _Copy, right: _Made | _Copy) -> _Made:
        return _Made(dataclasses.replace(node, threshold=threshold, missing_left=missing_left), left, right)

    part = parts.get(node.feature)
    if part == "zero":
        return _Copy(node.left if zero_left else node.right, parts)
    if part is not None and (part == "below") != negative:
        return _Copy(node.left if part == "below" else node.right, parts)
    if part is not None or zero_left != negative:  # in the order of values
        return made(node.threshold, zero_left, _Copy(node.left, parts), _Copy(node.right, parts))
    low, zero, high = ({**parts, node.feature: name} for name in ("below", "zero", "above"))
    around_zero = _Copy(node.left if zero_left else node.right, zero)
    if negative:
        below = made(node.threshold, False, _Copy(node.left, low), _Copy(node.right, low))
        return made(BELOW_ZERO, False, below, made(ZERO, True, around_zero, _Copy(node.right, high)))
    above = made(node.threshold, False, _Copy(node.left, high), _Copy(node.right, high))
    return made(BELOW_ZERO, False, _Copy(node.left, low), made(ZERO, True, around_zero, above))
