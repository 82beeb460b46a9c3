"""Tree models: the sum of many trees, or the expected grade from class probabilities given by trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from rankwright.data.matching import pick_columns, widen
from rankwright.errors import InputError
from rankwright.models.base import Model, as_row, as_table
from rankwright.models.trees.categories import Coding
from rankwright.models.trees.forest import Forest

__all__ = ["MOST_FEATURES", "GradeModel", "TreeModel"]

Array = npt.NDArray[Any]
_ROWS = 1 << 14  # made dense at a time
_LINKS = ("softmax", "ordinal")
_QUADRATURE = 64  # points on the line between two rows
MOST_FEATURES = 1 << 20
"""More would cost more memory than the trees themselves, whatever few of them are used."""


@dataclass(frozen=True, eq=False)
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

    def takes_text(self, at: int) -> bool:
        """Whether a feature may be text: the categorical ones may."""
        return at in self.categories

    def _blocks(self, X: Any, feature_names: Sequence[str] | None) -> Iterator[tuple[int, Array]]:
        """Dense blocks of rows with the model's features as columns."""
        X = as_table(X)
        columns = self._columns(X.shape[1], feature_names)
        for start in range(0, X.shape[0], _ROWS):
            part = pick_columns(X[start : start + _ROWS], columns)
            part = part.toarray() if sparse.issparse(part) else np.asarray(part)
            if part.dtype not in (np.float32, np.float64):
                part = part.astype(np.float64)
            yield start, self._coding(np.ascontiguousarray(widen(part, self.n_inputs)))

    def coded(self, X: Any, feature_names: Sequence[str] | None = None) -> Array:
        """Rows as the trees see them, dense float64: of a categorical feature, the number of its category, or NaN."""
        return self._coding(self.aligned(X, feature_names))


@dataclass(frozen=True, eq=False)
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

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Scores, higher is better, one float64 per row; see :meth:`Model.score`."""
        from rankwright.models.trees.predict import add_scores  # here because it loads numba

        scores = np.zeros(as_table(X).shape[0])
        for start, part in self._blocks(X, feature_names):
            add_scores(self.forest, part, scores[start : start + len(part)])
        return scores

    def contributions(
        self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None = None, query: Any = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b), along both rows' paths; see `path_contributions`."""
        from rankwright.models.trees.predict import path_contributions  # here because it loads numba

        a, b = (self.coded(as_row(row), feature_names)[0] for row in (row_a, row_b))
        return path_contributions(self.forest, a) - path_contributions(self.forest, b)

    def importance(self) -> Array:
        """Reduction of the squared error by the splits of each feature, normalised to sum to 1."""
        return _importance(self.forest, self.n_inputs)


@dataclass(frozen=True, eq=False)
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

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """Expected grades, one float64 per row."""
        from rankwright.models.trees.predict import add_scores  # here because it loads numba

        scores = np.zeros(as_table(X).shape[0])
        for start, part in self._blocks(X, feature_names):
            sums = np.tile(self.starts, (len(part), 1)).T.copy()
            for forest, one in zip(self.forests, sums, strict=True):
                add_scores(forest, part, one)
            scores[start : start + len(part)] = expected_grade(sums, self.grades, self.link)
        return scores

    def importance(self) -> Array:
        """Reduction of the squared error by the splits of each feature, normalised to sum to 1."""
        return _importance(Forest.join(self.forests), self.n_inputs)

    def contributions(
        self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None = None, query: Any = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b).

        Each forest's sum is explained like that of a :class:`TreeModel`; its effect on the expected grade is the mean
        slope on the line from b to a.
        """
        from rankwright.models.trees.predict import add_scores, path_contributions  # here because it loads numba

        a, b = (self.coded(as_row(row), feature_names) for row in (row_a, row_b))
        sums = np.tile(self.starts, (2, 1)).T.copy()
        parts = np.zeros((len(self.forests), self.n_inputs))
        for at, forest in enumerate(self.forests):
            add_scores(forest, np.concatenate([a, b]), sums[at])
            parts[at] = path_contributions(forest, a[0]) - path_contributions(forest, b[0])
        found = _mean_slopes(sums[:, 0], sums[:, 1], self.grades, self.link) @ parts
        ends = expected_grade(sums, self.grades, self.link)
        rest = ends[0] - ends[1] - found.sum()  # the error of the mean over points
        return np.asarray(found + rest * np.abs(found) / (np.abs(found).sum() or 1.0))


def _mean_slopes(a: Array, b: Array, grades: Array, link: str) -> Array:
    """Derivatives of the expected grade with respect to each sum, averaged from ``b`` to ``a``."""
    shares = (np.arange(_QUADRATURE) + 0.5) / _QUADRATURE
    points = b[:, None] + (a - b)[:, None] * shares
    if link == "ordinal":
        reached = 1.0 / (1.0 + np.exp(-np.clip(points, -500.0, 500.0)))
        return np.asarray((np.diff(grades)[:, None] * reached * (1.0 - reached)).mean(axis=1))
    powers = np.exp(points - points.max(axis=0))
    chances = powers / powers.sum(axis=0)
    return np.asarray((chances * (grades[:, None] - grades @ chances)).mean(axis=1))


def _importance(forest: Forest, n_features: int) -> Array:
    splits = forest.feature >= 0
    gains = np.bincount(forest.feature[splits], forest.gain[splits], minlength=n_features)
    total = gains.sum()
    return np.asarray(gains / total if total > 0 else gains)


def expected_grade(sums: Array, grades: Array, link: str) -> Array:
    """Σ grade · Pr(grade), from one row of sums per forest."""
    if link == "ordinal":
        reached = 1.0 / (1.0 + np.exp(-np.clip(sums, -500.0, 500.0)))
        expected = grades[0] + np.diff(grades) @ reached
    else:
        powers = np.exp(sums - sums.max(axis=0))
        expected = grades @ powers / powers.sum(axis=0)
    return np.asarray(np.clip(expected, grades[0], grades[-1]))  # rounding only
