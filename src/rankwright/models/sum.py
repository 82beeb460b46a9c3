"""The weighted sum of models: a background model and what was learnt on top of it, or an interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.categories import Categories
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.models.base import Model, as_table
from rankwright.models.linear import LinearModel
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import TreeModel

__all__ = ["SumModel", "interpolate"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class SumModel(Model):
    """Σ weight · model, each model with its own features.

    Attributes
    ----------
    parts : tuple of models
        At least one.
    weights : ndarray of float64
        One finite weight per model.
    """

    parts: tuple[Any, ...]
    weights: Array

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        if weights.shape != (len(self.parts),) or not len(self.parts) or not np.isfinite(weights).all():
            raise InputError(
                f"{len(self.parts)} models with weights {weights.tolist()}; expected one finite weight each"
            )
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    @property
    def feature_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The names of the last part's features, then those that only other parts have; None if they have none."""
        if any(part.feature_names is None for part in self.parts):
            last = self.parts[-1]
            return last.feature_names if last.n_features == self.n_features else None
        return tuple(dict.fromkeys(name for part in self.parts[::-1] for name in part.feature_names))

    @property
    def n_features(self) -> int:
        """Number of features of all parts together; without names they are the same."""
        if any(part.feature_names is None for part in self.parts):
            return max(int(part.n_features) for part in self.parts)
        return len({name for part in self.parts for name in part.feature_names})

    @property
    def scales_queries(self) -> bool:
        """Whether a part scales features within each query."""
        return any(part.scales_queries for part in self.parts)

    def check_text(self, names: Sequence[str] | None, categories: Categories) -> None:
        """Reject text where a part takes numbers."""
        for part in self.parts:
            part.check_text(names, categories)

    def _frame_columns(self) -> tuple[str, ...] | None:
        wanted = [part._frame_columns() for part in self.parts]
        return None if None in wanted else tuple({name for names in wanted for name in names})

    def with_missing(self, X: Any, names: Sequence[str] | None) -> tuple[Any, tuple[str, ...] | None]:
        """A table and its names, with columns of 0 for the features of all parts that it lacks."""
        found = None if names is None else tuple(names)
        for part in self.parts:
            X, found = part.with_missing(X, found)
        return X, found

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        """The weighted sum of the parts' scores."""
        return self.summed(lambda part: part.score(X, feature_names, indptr), X, feature_names)

    def summed(self, score: Callable[[Any], Array], X: Any, feature_names: Sequence[str] | None) -> Array:
        """The weighted sum of the parts' scores for some rows, which a function gives."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.weights[0] * score(self.parts[0])
            for weight, part in zip(self.weights[1:], self.parts[1:], strict=True):
                scores = scores + weight * score(part)
        self._check_scores(scores, as_table(X), feature_names)
        return np.asarray(scores)

    def importance(self) -> Array:
        """The importance in the parts: absolute values, normalised to sum to 1 within each part, averaged over parts.

        A weight and the gain of a split have no common unit, and without data nothing says how far the scores of a
        part spread, so all parts count alike. What the features of the whole add on given documents is in
        :meth:`predict_contributions`, and in ``rankwright explain``.
        """
        total = np.zeros(self.n_features)
        for part, places in zip(self.parts, self._places(), strict=True):
            sizes = np.abs(part.importance())
            sizes = (
                np.where(np.isinf(sizes), 1.0, 0.0) if np.isinf(sizes).any() else sizes / (sizes.max(initial=0.0) or 1)
            )
            total[places] += sizes / (sizes.sum() or 1.0) / len(self.parts)
        return total

    def uses(self) -> Array:
        """Whether a part of weight other than 0 uses each feature."""
        found = np.zeros(self.n_features, bool)
        for weight, part, places in zip(self.weights, self.parts, self._places(), strict=True):
            found[places] |= part.uses() & (weight != 0)
        return found

    def _places(self) -> list[Array]:
        """For each part, where its features are among those of the sum."""
        if any(part.feature_names is None for part in self.parts):
            return [np.arange(part.n_features) for part in self.parts]
        place = {name: at for at, name in enumerate(self.names)}
        return [np.array([place[name] for name in part.feature_names], np.int64) for part in self.parts]

    def contributions(
        self, row_a: Any, row_b: Any, feature_names: Sequence[str] | None = None, query: Any = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b), in all parts; see :meth:`Model.contributions`."""
        total = np.zeros(self.n_features)
        for weight, part, places in zip(self.weights, self.parts, self._places(), strict=True):
            total[places] += weight * part.contributions(row_a, row_b, feature_names, query)
        return total

    def _explained(self, data: RankingData, reference: RankingData | None, n_jobs: int | None) -> Array:
        total = np.zeros((data.n_docs, self.n_features + 1))
        for weight, part, places in zip(self.weights, self.parts, self._places(), strict=True):
            total[:, np.append(places, self.n_features)] += weight * part._explained(data, reference, n_jobs)
        return total


def interpolate(models: Sequence[Any], weights: npt.ArrayLike) -> Any:
    """The weighted sum of models, as a single model of their kind if all are linear or all are trees.

    Nested sums are flattened and parts of weight 0 dropped; if all weights are 0, the first part stays.
    """
    given = zip(models, np.asarray(weights, np.float64).tolist(), strict=True)
    parts = [part for model, weight in given for part in _parts_of(model, weight)]
    parts = [(model, weight) for model, weight in parts if weight != 0.0] or [(parts[0][0], 0.0)]
    joined = parts[:1]
    for model, weight in parts[1:]:  # neighbours of one kind are merged, so what was learnt last stays last
        both = _joined(*joined[-1], model, weight)
        joined[-1:] = [joined[-1], (model, weight)] if both is None else [(both, 1.0)]
    if len(joined) == 1:
        model, weight = joined[0]
        if weight == 1.0:
            return model
        alone = _joined(model, weight, model, 0.0)
        if alone is not None:
            return alone
    return SumModel(tuple(model for model, _ in joined), np.array([weight for _, weight in joined]))


def _parts_of(model: Any, weight: float) -> list[tuple[Any, float]]:
    """A model and its weight, or those of all parts of a sum."""
    if not isinstance(model, SumModel):
        return [(model, weight)]
    inner = zip(model.parts, model.weights.tolist(), strict=True)
    return [part for some, own in inner for part in _parts_of(some, weight * own)]


def _joined(first: Any, weight: float, second: Any, other_weight: float) -> Any:
    """One model for the weighted sum of two; None if there is no such model."""
    if first.n_features != second.n_features or first.feature_names != second.feature_names:
        return None
    both_linear = isinstance(first, LinearModel) and isinstance(second, LinearModel)
    if both_linear and first.query_scaling == second.query_scaling:
        coef = weight * first.coef + other_weight * second.coef
        return LinearModel(coef, second.feature_names, second.query_scaling)
    if isinstance(first, TreeModel) and isinstance(second, TreeModel):
        if first.categories != second.categories:  # whose numbers the sets of categories refer to
            return None
        forests = [model.forest.scaled(by) for model, by in ((first, weight), (second, other_weight)) if by != 0.0]
        both = (second.n_inputs, second.feature_names)
        return TreeModel(*both, Forest.join(forests), categories=second.categories) if forests else None
    return None
