"""One form of every model that can be exported: score(x) = constant + Σ_j weight_j · x_j + Σ trees(x) + Σ others(x).

Sums become one list of trees with multiplied leaves and one vector of weights. A step function of
:class:`~rankwright.BinnedModel` becomes one tree per feature, whose leaves are its levels. Nets, expected grades and
models that scale features within a query are not sums of weights and trees: they stay as they are, as ``others``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import named
from rankwright.errors import InputError
from rankwright.models.base import Model
from rankwright.models.binned import BinnedModel
from rankwright.models.linear import LinearModel
from rankwright.models.net import NetModel
from rankwright.models.sum import SumModel
from rankwright.models.trees.forest import SET_WORDS, Forest, Tree
from rankwright.models.trees.model import GradeModel, TreeModel

__all__ = ["Form", "Other", "form_of", "placed"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Other:
    """A part that is not a sum of weights and trees.

    Attributes
    ----------
    weight : float
        What its score is multiplied by.
    model : NetModel, GradeModel, or a LinearModel or BinnedModel with ``query_scaling``
        The part.
    places : ndarray of int
        Where its features are among those of the form.
    """

    weight: float
    model: Model
    places: Array


@dataclass(frozen=True, eq=False)
class Form:
    """A model, taken apart.

    Attributes
    ----------
    names : tuple of str
        The features, in the order of the model.
    weights : ndarray of float64
        One per feature; 0 where a feature is not used linearly.
    trees : Forest
        All trees, leaves multiplied by the weights of their parts; ``feature`` counts through ``names``. A value goes
        left if ``x <= threshold``, a missing one if ``missing_left``.
    constant : float
        Trees without a split, where no other tree has one; otherwise they are among the trees.
    categories : mapping of int to tuple
        The values of each categorical feature, in the order that sets of categories count.
    others : tuple of Other
        Parts that are neither.
    has_names : bool
        Whether the model has names for its features, or ``names`` are f1, f2, …
    """

    names: tuple[str, ...]
    weights: Array
    trees: Forest
    constant: float = 0.0
    categories: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    others: tuple[Other, ...] = ()
    has_names: bool = True

    @property
    def is_linear(self) -> bool:
        """Whether it is weights and a constant only; a form of nothing at all is linear."""
        return not self.trees.n_trees and not self.others

    @property
    def has_weights(self) -> bool:
        """Whether a feature has a weight other than 0."""
        return bool((self.weights != 0).any())

    @property
    def linear_features(self) -> Array:
        """The features of a weight other than 0."""
        return np.flatnonzero(self.weights)

    @property
    def tree_features(self) -> Array:
        """The features that trees split on."""
        return np.unique(self.trees.feature[self.trees.feature >= 0]).astype(np.int64)

    @property
    def used(self) -> Array:
        """The features that can change a score."""
        found = [self.linear_features, self.tree_features]
        found += [other.places[np.flatnonzero(other.model.uses())] for other in self.others]
        return np.unique(np.concatenate(found)).astype(np.int64)

    @property
    def numeric(self) -> Array:
        """The features whose missing values are an error: those of weights and nets, and all with query scaling."""
        if self.scales_queries:
            return np.arange(len(self.names))
        found = [self.linear_features]
        found += [o.places[np.flatnonzero(o.model.uses())] for o in self.others if not isinstance(o.model, GradeModel)]
        return np.unique(np.concatenate(found)).astype(np.int64)

    def zero_filled(self) -> Form:
        """The same for data whose missing values are 0: they go where 0 goes."""
        missing_left = np.where(self.trees.subset < 0, self.trees.threshold >= 0, self.trees.missing_left)
        return dataclasses.replace(self, trees=dataclasses.replace(self.trees, missing_left=missing_left))

    @property
    def scales_queries(self) -> bool:
        """Whether a part scales features within each query."""
        return any(other.model.scales_queries for other in self.others)


def form_of(model: Model) -> Form:
    """Take a model apart.

    Parameters
    ----------
    model : Model
        A LinearModel, TreeModel, BinnedModel, NetModel, GradeModel or a SumModel of them.

    Examples
    --------
    >>> from rankwright import LinearModel
    >>> form = form_of(LinearModel([2.0, 0.0, -1.0]))
    >>> form.names, form.used.tolist(), form.is_linear
    (('f1', 'f2', 'f3'), [0, 2], True)
    """
    parts = _Parts(np.zeros(model.n_features))
    parts.add(model, 1.0, np.arange(model.n_features))
    parts.check(model.names)
    trees, constant = parts.forest(), 0.0
    if trees.n_trees and not (trees.feature >= 0).any():
        constant, trees = float(np.cumsum(trees.value[trees.roots])[-1]), Forest.of([])
    has_names = model.feature_names is not None
    return Form(model.names, parts.weights, trees, constant, parts.categories, tuple(parts.others), has_names)


@dataclass
class _Parts:
    """What has been taken apart so far."""

    weights: Array
    trees: list[tuple[TreeModel | BinnedModel, float, Array]] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    categories: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    numeric: set[int] = field(default_factory=set)

    def add(self, model: Model, weight: float, places: Array) -> None:
        if weight == 0:
            return
        if isinstance(model, SumModel):
            for part, own, where in zip(model.parts, model.weights.tolist(), model._places(), strict=True):
                self.add(part, weight * own, places[where])
        elif model.scales_queries or isinstance(model, NetModel | GradeModel):
            self.others.append(Other(weight, model, places))
            self.numeric |= set(places[np.flatnonzero(model.uses())].tolist()) - self._own_categories(model, places)
        elif isinstance(model, LinearModel):
            np.add.at(self.weights, places, weight * model.coef)
            self.numeric |= set(places[np.flatnonzero(model.coef)].tolist())
        elif isinstance(model, BinnedModel | TreeModel):
            self.trees.append((model, weight, places))
            categorical = self._own_categories(model, places)
            self.numeric |= set(places[np.flatnonzero(model.uses())].tolist()) - categorical
        else:
            raise InputError(f"a {type(model).__name__} cannot be exported; expected weights, trees, bins or a net")

    def _own_categories(self, model: Model, places: Array) -> set[int]:
        categories = getattr(model, "categories", {})
        for j, own in categories.items():
            known = self.categories.get(int(places[j]), ())
            known = self.categories[int(places[j])] = known + tuple(value for value in own if value not in known)
            if len(known) > 64 * SET_WORDS:
                raise InputError(f"the feature {model.names[j]!r} has {len(known)} categories in all parts; too many")
        return {int(places[j]) for j in categories}

    def forest(self) -> Forest:
        """All trees, once the categories of all parts are known."""
        forests = []
        for model, weight, places in self.trees:
            forest = _step_trees(model) if isinstance(model, BinnedModel) else self._joint_sets(model, places)
            forests.append(placed(forest.scaled(weight), places))
        return Forest.join(forests)

    def _joint_sets(self, model: TreeModel, places: Array) -> Forest:
        """The trees with sets that count through the categories of all parts; values new to the part are missing."""
        forest = model.forest
        sets, subset = forest.sets.copy(), forest.subset
        for j, own in model.categories.items():
            known = self.categories[int(places[j])]
            code = {value: at for at, value in enumerate(own)}
            for node in np.flatnonzero((forest.feature == j) & (subset >= 0)):
                held = _bits(forest.sets[subset[node]])
                missing = bool(forest.missing_left[node])
                left = [held[code[value]] if value in code else missing for value in known]
                sets[subset[node]] = _words(left)
        return dataclasses.replace(forest, sets=sets)

    def check(self, names: tuple[str, ...]) -> None:
        both = self.numeric & set(self.categories)
        if both:
            what = f"takes {named(names[j] for j in sorted(both))} as a number in one part and as a category in another"
            raise InputError(f"the model {what}, which cannot be exported")


def placed(forest: Forest, places: Array) -> Forest:
    """Trees whose feature j is now the feature ``places[j]``."""
    feature = forest.feature.copy()
    feature[feature >= 0] = places[feature[feature >= 0]]
    return dataclasses.replace(forest, feature=feature)


def _bits(words: Array) -> list[bool]:
    """Whether each category is in a set."""
    return [bool((int(words[at >> 6]) >> (at & 63)) & 1) for at in range(64 * SET_WORDS)]


def _words(bits: list[bool]) -> Array:
    """A set of categories."""
    words = [0] * SET_WORDS
    for at, held in enumerate(bits):
        words[at >> 6] |= int(held) << (at & 63)
    return np.array(words, np.uint64)


def _step_trees(model: BinnedModel) -> Forest:
    """One balanced tree for the steps of each feature; missing values are below all thresholds.

    ``x >= t`` sends a value right where ``x <= nextafter(t, −∞)`` sends it left.
    """
    trees = []
    for j, levels in enumerate(model._levels()):
        ends = np.nextafter(model.thresholds[model.starts[j] : model.starts[j + 1]], -np.inf)
        if len(ends):
            trees.append(_step_tree(j, ends, levels))
    return Forest.of(trees)


def _step_tree(j: int, ends: Array, levels: Array) -> Tree:
    """A balanced tree with leaves ``levels``, from left to right, and ``ends`` between them."""
    feature, threshold, left, value = [-1], [0.0], [0], [0.0]
    todo = [(0, 0, len(levels))]
    while todo:
        node, first, last = todo.pop()
        if last - first == 1:
            value[node] = float(levels[first])
            continue
        middle = (first + last) // 2
        feature[node], threshold[node], left[node] = j, float(ends[middle - 1]), len(feature)
        todo += [(len(feature), first, middle), (len(feature) + 1, middle, last)]
        for column, empty in ((feature, -1), (threshold, 0.0), (left, 0), (value, 0.0)):
            column += [empty, empty]
    splits = np.array(feature) >= 0
    zeros, ones = np.zeros(len(feature)), np.ones(len(feature))
    return Tree(
        np.array(feature, np.int32), np.array(threshold), splits, np.array(left, np.int32), np.array(value), zeros, ones
    )
