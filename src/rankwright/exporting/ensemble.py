"""A model taken apart: score(x) = constant + Σ_j weight_j · x_j + Σ trees(x) + Σ others(x).

Sums become one list of trees with multiplied leaves and one vector of weights. A step function of
:class:`~rankwright.BinnedModel` becomes one tree per feature, whose leaves are its levels. Nets, expected grades and
models that scale features within a query are not sums of weights and trees: they stay as they are, as ``others``.

Consumers that know categories as small whole numbers get those numbers where categories are such numbers already.
Other categories, texts above all, are counted from 0, and ``categories.json`` says which number each one has.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.data.categories import codes_of, named
from rankwright.errors import InputError
from rankwright.models.base import Model
from rankwright.models.linear import BinnedModel, LinearModel
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel


@dataclass(frozen=True, eq=False)
class Other:
    """A part that is not a sum of weights and trees; `places`: where its features are among those of the ensemble."""

    weight: float
    model: Model
    places: Array

    @property
    def used(self) -> Array:
        """The features of the ensemble that can change its score."""
        return self.places[np.flatnonzero(self.model.uses())]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A model, taken apart.

    `names`: the features, in the order of the model. `weights`: one per feature; 0 where a feature is not used
    linearly. `trees`: all trees, leaves multiplied by the weights of their parts; ``feature`` counts through ``names``.
    A value goes left if ``x <= threshold``, a missing one if ``missing_left``. `constant`: trees without a split, where
    no other tree has one; otherwise they are among the trees. `categories`: the values of each categorical feature, in
    the order that sets of categories count. `others`: parts that are neither. `has_names`: whether the model has names
    for its features, or ``names`` are f1, f2, ….
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
        """Whether it is weights and a constant only; an ensemble of nothing at all is linear."""
        return not self.trees.n_trees and not self.others

    @property
    def has_weights(self) -> bool:
        return bool((self.weights != 0).any())

    @property
    def linear_features(self) -> Array:
        return np.flatnonzero(self.weights)

    @property
    def tree_features(self) -> Array:
        return np.unique(self.trees.feature[self.trees.feature >= 0]).astype(np.int64)

    @property
    def used(self) -> Array:
        features = [self.linear_features, self.tree_features, *(other.used for other in self.others)]
        return np.unique(np.concatenate(features)).astype(np.int64)

    @property
    def numeric(self) -> Array:
        """The features whose missing values are an error: those of weights and nets, and all with query scaling."""
        if self.scales_queries:
            return np.arange(len(self.names))
        others = [other for other in self.others if not isinstance(other.model, GradeModel)]
        features = [self.linear_features, *(other.used for other in others)]
        return np.unique(np.concatenate(features)).astype(np.int64)

    def zero_filled(self) -> Ensemble:
        """The same for data whose missing values are 0: they go where 0 goes."""
        missing_left = np.where(self.trees.subset < 0, self.trees.threshold >= 0, self.trees.missing_left)
        return dataclasses.replace(self, trees=dataclasses.replace(self.trees, missing_left=missing_left))

    @property
    def scales_queries(self) -> bool:
        return any(other.model.scales_queries for other in self.others)


def ensemble_of(model: Model) -> Ensemble:
    """Take a model apart.

    `model`: a LinearModel, TreeModel, BinnedModel, NetModel, GradeModel or a SumModel of them.

    Examples
    --------
    >>> from rankwright import LinearModel
    >>> ensemble = ensemble_of(LinearModel([2.0, 0.0, -1.0]))
    >>> ensemble.names, ensemble.used.tolist(), ensemble.is_linear
    (('f1', 'f2', 'f3'), [0, 2], True)
    """
    parts = _Parts(np.zeros(model.n_features))
    parts.add(model, 1.0, np.arange(model.n_features))
    parts.check(model.names)
    trees, constant = parts.forest(), 0.0
    if trees.n_trees and not (trees.feature >= 0).any():
        constant, trees = float(np.cumsum(trees.value[trees.roots])[-1]), Forest.of([])
    has_names = model.feature_names is not None
    return Ensemble(model.names, parts.weights, trees, constant, parts.categories, tuple(parts.others), has_names)


@dataclass
class _Parts:
    weights: Array
    trees: list[tuple[TreeModel | BinnedModel, float, Array]] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    categories: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    numeric: set[int] = field(default_factory=set)

    def add(self, model: Model, weight: float, places: Array) -> None:
        if weight == 0:
            return
        if isinstance(model, SumModel):
            for part, part_weight, where in zip(model.parts, model.weights.tolist(), model._places(), strict=True):
                self.add(part, weight * part_weight, places[where])
            return
        if model.scales_queries or isinstance(model, NetModel | GradeModel):
            self.others.append(Other(weight, model, places))
        elif isinstance(model, LinearModel):
            if model.missing is not None:
                problem = "the model was trained with --fill-missing: what missing values add cannot be exported"
                raise InputError(f"{problem}; expected one trained without it, or on data filled before")
            np.add.at(self.weights, places, weight * model.coef)
        elif isinstance(model, BinnedModel | TreeModel):
            self.trees.append((model, weight, places))
        else:
            raise InputError(f"a {type(model).__name__} cannot be exported; expected weights, trees, bins or a net")
        self._note_kinds(model, places)

    def _note_kinds(self, model: Model, places: Array) -> None:
        """Note which features a part takes as numbers, and the categories of the others."""
        categories = getattr(model, "categories", {})
        for j, part_values in categories.items():
            values = self.categories.get(int(places[j]), ())
            values = self.categories[int(places[j])] = values + tuple(
                value for value in part_values if value not in values
            )
            if len(values) > 64 * SET_WORDS:
                raise InputError(f"the feature {model.names[j]!r} has {len(values)} categories in all parts; too many")
        used = set(places[np.flatnonzero(model.uses())].tolist())
        self.numeric |= used - {int(places[j]) for j in categories}

    def forest(self) -> Forest:
        forests = []
        for model, weight, places in self.trees:
            forest = _step_trees(model) if isinstance(model, BinnedModel) else self._joint_sets(model, places)
            forests.append(placed(forest.scaled(weight), places))
        return Forest.join(forests)

    def _joint_sets(self, model: TreeModel, places: Array) -> Forest:
        """The trees with sets that count through the categories of all parts; values new to the part are missing."""
        forest = model.forest
        sets, subset = forest.sets.copy(), forest.subset
        for j, part_values in model.categories.items():
            values = self.categories[int(places[j])]
            code = {value: at for at, value in enumerate(part_values)}
            for node in np.flatnonzero((forest.feature == j) & (subset >= 0)):
                words, missing = forest.sets[subset[node]], bool(forest.missing_left[node])
                left = [in_set(words, code[value]) if value in code else missing for value in values]
                sets[subset[node]] = _set_words(left)
        return dataclasses.replace(forest, sets=sets)

    def check(self, names: tuple[str, ...]) -> None:
        both = self.numeric & set(self.categories)
        if both:
            conflict = "as a number in one part and as a category in another, which cannot be exported"
            raise InputError(f"the model takes {named(names[j] for j in sorted(both))} {conflict}")


def placed(forest: Forest, places: Array) -> Forest:
    """Trees whose feature j is now the feature ``places[j]``."""
    feature = forest.feature.copy()
    feature[feature >= 0] = places[feature[feature >= 0]]
    return dataclasses.replace(forest, feature=feature)


def in_set(words: Array, code: int) -> bool:
    """Whether the category with this code is in a set, which is kept as bits."""
    return bool((int(words[code >> 6]) >> (code & 63)) & 1)


def _set_words(bits: list[bool]) -> Array:
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


def allowed_names(names: tuple[str, ...], forbidden: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Names without some characters, made different from each other, and a note for the user if any was changed.

    Examples
    --------
    >>> allowed_names(("a b", "a_b"), re.compile(r"\\s"))[0]
    ['a_b_1', 'a_b_2']
    """
    changed = [forbidden.sub("_", name) or "_" for name in names]
    counts = Counter(changed)
    changed = [f"{name}_{at}" if counts[name] > 1 else name for at, name in enumerate(changed, 1)]
    n_changed = sum(new != old for new, old in zip(changed, names, strict=True))
    if not n_changed:
        return changed, []
    example = next(f"{old!r} is {new!r}" for new, old in zip(changed, names, strict=True) if new != old)
    return changed, [f"{n_changed:,} feature names were changed ({example}); columns go by position"]


def as_json(value: Any, indent: int | None = None) -> bytes:
    return (json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + "\n").encode()


CATEGORIES = "categories.json"
CODING_NOTE = "categories are given as the numbers in categories.json, counted from 0; others as missing"
_MAX_CODE = 1 << 16


def _are_codes(values: tuple[Any, ...]) -> bool:
    return all(not isinstance(value, str) and value == int(value) and 0 <= value < _MAX_CODE for value in values)


def coding_files(ensemble: Ensemble) -> dict[str, bytes]:
    """The file that says how categories are numbered; none if all stay as they are."""
    tables = {ensemble.names[j]: list(values) for j, values in ensemble.categories.items() if not _are_codes(values)}
    return {CATEGORIES: as_json(tables, 1)} if tables else {}


def left_codes(ensemble: Ensemble, node: int) -> tuple[list[int], list[int]]:
    """The categories of a split, as numbers for the consumer: those that go left, and those that go right."""
    values = ensemble.categories[int(ensemble.trees.feature[node])]
    words, stays = ensemble.trees.sets[ensemble.trees.subset[node]], _are_codes(values)
    sides: tuple[list[int], list[int]] = ([], [])
    for code, value in enumerate(values):
        sides[0 if in_set(words, code) else 1].append(int(value) if stays else code)
    return sorted(sides[0]), sorted(sides[1])


def coded(X: Array, files: Mapping[str, bytes], names: tuple[str, ...]) -> Array:
    """Rows with the numbers that ``categories.json`` gives to categories; others are missing."""
    if CATEGORIES not in files:
        return X
    X = X.copy()
    for name, values in json.loads(files[CATEGORIES]).items():
        j = names.index(name)
        codes = codes_of(X[:, j], values)
        X[:, j] = np.where(codes < 0, np.nan, codes)
    return X
