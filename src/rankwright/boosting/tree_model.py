"""Tree models: the sum of many trees, or the expected grade from class probabilities given by trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankwright._types import Array, Features
from rankwright.boosting.forest import SET_WORDS, Forest
from rankwright.data import sparse
from rankwright.data.categories import NO_CATEGORY, category_numbers, checked_categories, is_text, number_of
from rankwright.data.dataset import as_table, pick_columns, widen
from rankwright.errors import InputError
from rankwright.models.base import Attribution, Model
from rankwright.models.saving import Arrays, ModelKind, Read, bounded_numbers, names_from, names_of, whole_number

__all__ = ["GradeModel", "TreeModel"]

# Categorical features of trees: the categories that a model knows, numbered from 0, and the numbers of values.


MOST_CATEGORIES = 255


class Coding:
    """Turns the values of categorical features into the numbers of their categories, others into NaN.

    `categories`: for each categorical feature the categories that a model knows, all strings or all numbers. `names`:
    the names of all features, for messages.
    """

    def __init__(self, categories: Mapping[int, Sequence[Any]], names: Sequence[str]) -> None:
        self.categories: dict[int, tuple[Any, ...]] = {}
        self._tables: dict[int, tuple[Array, Array, bool]] = {}
        self._names = names
        for j, given in sorted(categories.items()):
            if not (isinstance(j, int) and 0 <= j < len(names)):
                raise InputError(f"categories of feature {j!r}; expected one of {len(names)} features, from 0")
            values, numbers = category_numbers(given, f"the feature {names[j]!r}")
            order = np.argsort(numbers)
            if len(values) > MOST_CATEGORIES or len(set(numbers.tolist())) < len(values):
                problem = f"the feature {names[j]!r} has {len(values)} categories"
                raise InputError(f"{problem}; expected up to {MOST_CATEGORIES}, all different")
            self.categories[j] = values
            self._tables[j] = (numbers[order], order, bool(values) and isinstance(values[0], str))

    @property
    def counts(self) -> dict[int, int]:
        """For each categorical feature how many categories it has."""
        return {j: len(values) for j, values in self.categories.items()}

    def __call__(self, X: Array) -> Array:
        """Dense rows with all features as columns, the categorical ones coded; unchanged if there are none."""
        if not self._tables or not len(X):
            return X
        X = np.array(X)
        for j, (numbers, order, texts) in self._tables.items():
            values = X[:, j].astype(np.float64)
            self._check(values, j, texts)
            at = np.minimum(np.searchsorted(numbers, values), max(len(numbers) - 1, 0))
            is_known = numbers[at] == values if len(numbers) else np.zeros(len(values), bool)
            X[:, j] = np.where(is_known, order[at] if len(order) else 0, np.nan)
        return X

    def _check(self, values: Array, j: int, texts: bool) -> None:
        """Reject numbers where the model knows text, and text where it knows numbers; 0 is a value left out."""
        given = (values != 0) & (values != NO_CATEGORY) & ~np.isnan(values)
        wrong = given & (is_text(values) != texts)
        if len(self.categories[j]) and wrong.any():
            row = int(np.argmax(wrong))
            held = f"the number {values[row]:g}" if texts else "text"
            problem = f"the feature {self._names[j]!r} is {held} in row {row} (from 0)"
            raise InputError(f"{problem}; the model was trained on {'text' if texts else 'numbers'} there")


def counted(numbers: Array) -> tuple[Array, Array]:
    """The different values of a column, ascending, and how often each occurs."""
    is_value = ~np.isnan(numbers) & (numbers != NO_CATEGORY)
    values, counts = np.unique(numbers[is_value], return_counts=True)
    return values, counts


def most_common(numbers: Array, counts: Array, values: Sequence[Any] | None, most: int) -> tuple[Any, ...]:
    """The most common values of a column, most common first, equal ones by their number.

    `numbers`, `counts`: the values, as `counted` gives them. `values`: what the numbers stand for; None: for
    themselves. `most`: how many at most; the others, the rarest, are as if they were missing.
    """
    by_count = numbers[np.lexsort((numbers, -counts))].tolist()
    if values is None:
        return tuple(int(number) if number == int(number) else number for number in by_count[:most])
    by_number = {number_of(value): value for value in sorted(values, reverse=True)}
    return tuple([by_number[number] for number in by_count if number in by_number][:most])


_ROWS = 1 << 14  # made dense at a time
_LINKS = ("softmax", "ordinal")
_QUADRATURE = 64  # points on the line between two rows
MOST_FEATURES = 1 << 20
"""More would cost more memory than the trees themselves, whatever few of them are used."""


@dataclass(frozen=True, eq=False, repr=False)
class _OnTrees(Model):
    """Base of tree models.

    A feature may be NaN: each split knows where missing values go. Features missing at the end of the data are 0.
    ``categories`` are those of each categorical feature; other values of it are as if they were missing.
    """

    n_inputs: int
    feature_names: tuple[str, ...] | None = None
    categories: Mapping[int, tuple[Any, ...]] = field(default_factory=dict, kw_only=True)
    _coding: Coding = field(init=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 <= self.n_inputs <= MOST_FEATURES:
            raise InputError(f"trees over {self.n_inputs:,} features; expected at most {MOST_FEATURES:,}")
        self._check_names()
        coding = Coding(self.categories, self.names if self.categories else ())
        object.__setattr__(self, "categories", coding.categories)
        object.__setattr__(self, "_coding", coding)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.n_inputs

    def text_features(self) -> tuple[str, ...]:
        """The categorical features whose categories are texts."""
        return tuple(self.names[at] for at, values in self.categories.items() if values and isinstance(values[0], str))

    def takes_text(self, at: int) -> bool:
        """Whether a feature may be text: the categorical ones may."""
        return at in self.categories

    def _blocks(
        self, X: Features, feature_names: Sequence[str] | None, rows: int = _ROWS
    ) -> Iterator[tuple[int, Array]]:
        """Dense blocks of so many rows with the model's features as columns."""
        X = as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        for start in range(0, X.shape[0], rows):
            part = pick_columns(X[start : start + rows], columns)
            part = part.toarray() if sparse.issparse(part) else np.asarray(part)
            if part.dtype not in (np.float32, np.float64):
                part = part.astype(np.float64)
            yield start, self._coding(np.ascontiguousarray(widen(part, self.n_inputs)))

    def coded(self, X: Features, feature_names: Sequence[str] | None = None) -> Array:
        """Rows as the trees see them, dense float64: of a categorical feature, the number of its category, or NaN."""
        return self._coding(self.aligned(X, feature_names))

    def _seen(self, X: Features, feature_names: Sequence[str] | None, indptr: Array | None = None) -> Array:
        return self.coded(X, feature_names)

    def _forests(self) -> tuple[Forest, ...]:
        raise NotImplementedError

    def uses(self) -> Array:
        """Whether trees split on each feature."""
        used = np.zeros(self.n_inputs, bool)
        for forest in self._forests():
            used[forest.feature[forest.feature >= 0]] = True
        return used

    def importance(self) -> Array:
        """Reduction of the squared error by the splits of each feature, normalised to sum to 1."""
        gains = np.zeros(self.n_inputs)
        for forest in self._forests():
            splits = forest.feature >= 0
            gains += np.bincount(forest.feature[splits], forest.gain[splits], minlength=self.n_inputs)
        total = gains.sum()
        return np.asarray(gains / total if total > 0 else gains)


@dataclass(frozen=True, eq=False, repr=False)
class TreeModel(_OnTrees):
    """The sum of trees.

    Attributes
    ----------
    n_inputs : int
        Number of features.
    feature_names : tuple of str or None
        Their names.
    forest : Forest
        The trees.
    categories : mapping of int to tuple
        For each categorical feature the values that the trees know, all strings or all numbers.
    """

    forest: Forest = field(default_factory=lambda: Forest.of([]))

    def score(self, X: Features, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Scores, higher is better, one float64 per row; see :meth:`Model.score`."""
        from rankwright.boosting.predict import add_scores  # here because it loads numba

        scores = np.zeros(as_table(X).shape[0])
        for start, part in self._blocks(X, feature_names):
            add_scores(self.forest, part, scores[start : start + len(part)])
        return scores

    def joined(self, weight: float, other: TreeModel, other_weight: float) -> Any:
        """One model with the trees of both, their values weighted; None if they know other categories."""
        if self.categories != other.categories:  # whose numbers the sets of categories refer to
            return None
        forests = [model.forest.scaled(by) for model, by in ((self, weight), (other, other_weight)) if by != 0.0]
        both = (other.n_inputs, other.feature_names)
        return TreeModel(*both, Forest.join(forests), categories=other.categories) if forests else None

    def _attribution(self) -> Attribution:
        from rankwright.boosting.predict import shapley_of  # here because it loads numba

        return shapley_of(self.forest)

    def _forests(self) -> tuple[Forest, ...]:
        return (self.forest,)


@dataclass(frozen=True, eq=False, repr=False)
class GradeModel(_OnTrees):
    """The expected grade: Σ grade · Pr(grade), with probabilities from trees.

    Attributes
    ----------
    grades : ndarray
        The grades, ascending.
    forests : tuple of Forest
        ``softmax``: one per grade. ``ordinal``: one per grade except the lowest, for reaching it.
    starts : ndarray
        Added to the sum of each forest.
    link : {"softmax", "ordinal"}
        How sums become probabilities.
    categories : mapping of int to tuple
        As of a :class:`TreeModel`.
    """

    grades: Array = field(default_factory=lambda: np.zeros(0))
    forests: tuple[Forest, ...] = ()
    starts: Array = field(default_factory=lambda: np.zeros(0))
    link: str = "softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in _LINKS:
            raise InputError(f"the link of the model is {self.link!r}; expected {' or '.join(_LINKS)}")
        if any(values.ndim != 1 or not np.isfinite(values).all() for values in (self.grades, self.starts)):
            raise InputError("the grades or starts of the model are not lists of finite numbers")
        if len(self.forests) != len(self.grades) - (self.link == "ordinal") or len(self.starts) != len(self.forests):
            raise InputError(f"{len(self.forests)} forests for {len(self.grades)} grades do not make a model")

    def score(self, X: Features, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Expected grades, one float64 per row."""
        scores = np.zeros(as_table(X).shape[0])
        for start, part in self._blocks(X, feature_names):
            scores[start : start + len(part)] = expected_grade(self._sums(part), self.grades, self.link)
        return scores

    def _sums(self, rows: Array) -> Array:
        """The sum of each forest for dense rows, a row for each forest."""
        from rankwright.boosting.predict import add_scores  # here because it loads numba

        sums = np.tile(self.starts, (len(rows), 1)).T.copy()
        for forest, row_of_sums in zip(self.forests, sums, strict=True):
            add_scores(forest, rows, row_of_sums)
        return sums

    def _forests(self) -> tuple[Forest, ...]:
        return self.forests

    def _attribution(self) -> Attribution:
        """Each forest's sum is explained like that of a :class:`TreeModel`, one reference after the other.

        Its effect on the expected grade is the mean slope on the line from the reference's sums to those of the row.
        """
        from rankwright.boosting.predict import shapley_of  # here because it loads numba

        explained = [shapley_of(forest) for forest in self.forests]

        def values(rows: Array, references: Array) -> Array:
            total, above, below = np.zeros(rows.shape), self._sums(rows), self._sums(references)
            for at in range(len(references)):
                start = np.broadcast_to(below[:, at, np.newaxis], above.shape)
                slopes, contributions = _mean_slopes(above, start, self.grades, self.link), np.zeros(rows.shape)
                for slope, forest_values in zip(slopes, explained, strict=True):
                    contributions += slope[:, np.newaxis] * forest_values(rows, references[at : at + 1])
                ends = [expected_grade(sums, self.grades, self.link) for sums in (above, start)]
                rest = ends[0] - ends[1] - contributions.sum(axis=1)  # the error of the mean over points
                sizes = np.abs(contributions).sum(axis=1)
                total += contributions + (rest / np.where(sizes > 0, sizes, 1.0))[:, np.newaxis] * np.abs(contributions)
            return total / len(references)

        return values


def _mean_slopes(above: Array, below: Array, grades: Array, link: str) -> Array:
    """Derivatives of the expected grade with respect to each sum (forests × rows), averaged from one to the other."""
    shares = (np.arange(_QUADRATURE) + 0.5) / _QUADRATURE
    points = below[..., np.newaxis] + (above - below)[..., np.newaxis] * shares
    if link == "ordinal":
        reached = 1.0 / (1.0 + np.exp(-np.clip(points, -500.0, 500.0)))
        return np.asarray((np.diff(grades)[:, np.newaxis, np.newaxis] * reached * (1.0 - reached)).mean(axis=-1))
    powers = np.exp(points - points.max(axis=0))
    chances = powers / powers.sum(axis=0)
    mean = np.einsum("g,gnp->np", grades, chances)
    return np.asarray((chances * (grades[:, np.newaxis, np.newaxis] - mean)).mean(axis=-1))


def expected_grade(sums: Array, grades: Array, link: str) -> Array:
    """Σ grade · Pr(grade), from one row of sums per forest."""
    if link == "ordinal":
        reached = 1.0 / (1.0 + np.exp(-np.clip(sums, -500.0, 500.0)))
        expected = grades[0] + np.diff(grades) @ reached
    else:
        powers = np.exp(sums - sums.max(axis=0))
        expected = grades @ powers / powers.sum(axis=0)
    return np.asarray(np.clip(expected, grades[0], grades[-1]))  # rounding only


_FOREST = {
    "roots": np.int64, "feature": np.int32, "threshold": np.float64, "missing_left": np.bool_, "left": np.int32,
    "value": np.float64, "gain": np.float64, "count": np.float64,
}  # fmt: skip
_SUBSETS = {"subset": np.int32, "sets": np.uint64}  # of trees with categorical features only, from version 2 on


def _forest_to(forest: Forest, prefix: str, model: TreeModel | GradeModel) -> Arrays:
    names = (*_FOREST, *_SUBSETS) if model.categories else (*_FOREST,)
    return {prefix + name: getattr(forest, name) for name in names}


def _forest_from(read: Read, prefix: str, n_features: int, categories: dict[int, Any]) -> Forest:
    """A forest whose nodes lead only to later nodes of its own, so that no row runs in circles."""
    parts = {"feature": read(f"{prefix}feature", np.int32, (None,))}
    n = len(parts["feature"])
    for name, dtype in (_FOREST | _SUBSETS if categories else _FOREST).items():
        checked = name in ("value", "gain", "count")
        shape = (None,) if name == "roots" else (None, SET_WORDS) if name == "sets" else (n,)
        parts[name] = bounded_numbers(read, prefix + name, shape) if checked else read(prefix + name, dtype, shape)
    forest = Forest(**parts)
    forest.check(n_features, tuple(categories))
    return forest


def _trees_facts(model: TreeModel | GradeModel) -> dict[str, Any]:
    categories = {str(j): list(values) for j, values in model.categories.items()}
    return {**names_of(model), "n_features": model.n_features} | ({"categories": categories} if categories else {})


def _categories_from(facts: dict[str, Any], n_features: int) -> dict[int, tuple[Any, ...]]:
    categories = checked_categories(facts.get("categories", {}), n_features)
    if "categories" in facts and not categories:
        raise InputError("its categories are empty; expected those of at least one feature")
    return categories


def _encode_trees(model: TreeModel) -> tuple[dict[str, Any], Arrays]:
    return _trees_facts(model), _forest_to(model.forest, "", model)


def _decode_trees(facts: dict[str, Any], read: Read) -> TreeModel:
    n_features = whole_number(facts, "n_features")
    categories = _categories_from(facts, n_features)
    forest = _forest_from(read, "", n_features, categories)
    return TreeModel(n_features, names_from(facts), forest, categories=categories)


def _encode_grades(model: GradeModel) -> tuple[dict[str, Any], Arrays]:
    forests = [_forest_to(forest, f"{at}_", model) for at, forest in enumerate(model.forests)]
    arrays = {name: array for forest in forests for name, array in forest.items()}
    facts = {**_trees_facts(model), "link": model.link, "forests": len(model.forests)}
    return facts, {**arrays, "grades": model.grades, "starts": model.starts}


def _decode_grades(facts: dict[str, Any], read: Read) -> GradeModel:
    n_features = whole_number(facts, "n_features")
    categories = _categories_from(facts, n_features)
    grades, starts = (bounded_numbers(read, name, (None,)) for name in ("grades", "starts"))
    if whole_number(facts, "forests") != len(starts):
        raise InputError(f"{facts['forests']} forests, but starts for {len(starts)}")
    forests = tuple(_forest_from(read, f"{at}_", n_features, categories) for at in range(len(starts)))
    names, link = names_from(facts), str(facts.get("link"))
    return GradeModel(n_features, names, grades, forests, starts, link, categories=categories)


def _trees_version(model: TreeModel | GradeModel) -> int:
    return 2 if model.categories else 1


TREES = ModelKind(TreeModel, _encode_trees, _decode_trees, _trees_version)
GRADES = ModelKind(GradeModel, _encode_grades, _decode_grades, _trees_version)
