"""The weighted sum of models: a background model and what was learnt on top of it, or an interpolation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data.categories import Categories
from rankwright.data.dataset import RankingData, as_table
from rankwright.errors import InputError, shown
from rankwright.models.base import Model
from rankwright.models.saving import KINDS, Arrays, ModelKind, Read, bounded_numbers, kind_of, version_of

__all__ = ["SumModel"]


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
        if any(member.feature_names is None for member in self.parts):
            last = self.parts[-1]
            return last.feature_names if last.n_features == self.n_features else None
        return tuple(dict.fromkeys(name for member in self.parts[::-1] for name in member.feature_names))

    @property
    def n_features(self) -> int:
        """Number of features of all parts together; without names they are the same."""
        if any(member.feature_names is None for member in self.parts):
            return max(int(member.n_features) for member in self.parts)
        return len({name for member in self.parts for name in member.feature_names})

    @property
    def scales_queries(self) -> bool:
        """Whether a part scales features within each query."""
        return any(member.scales_queries for member in self.parts)

    def text_features(self) -> tuple[str, ...]:
        """The features that hold texts in any of the parts."""
        return tuple(dict.fromkeys(name for member in self.parts for name in member.text_features()))

    def check_text(self, names: Sequence[str] | None, categories: Categories) -> None:
        """Reject text where a part takes numbers."""
        for member in self.parts:
            member.check_text(names, categories)

    def _frame_columns(self) -> tuple[str, ...] | None:
        columns = [member._frame_columns() for member in self.parts]
        return None if None in columns else tuple({name for names in columns for name in names})

    def with_missing(self, X: Features, names: Sequence[str] | None) -> tuple[Any, tuple[str, ...] | None]:
        """A table and its names, with columns of 0 for the features of all parts that it lacks."""
        columns = None if names is None else tuple(names)
        for member in self.parts:
            X, columns = member.with_missing(X, columns)
        return X, columns

    def score(self, X: Array, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        return self.summed(lambda part: part.score(X, feature_names, indptr), X, feature_names)

    def summed(self, score: Callable[[Any], Array], X: Array, feature_names: Sequence[str] | None) -> Array:
        """The weighted sum of the parts' scores for some rows, which a function gives."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.weights[0] * score(self.parts[0])
            for weight, member in zip(self.weights[1:], self.parts[1:], strict=True):
                scores = scores + weight * score(member)
        self._check_scores(scores, as_table(X), feature_names)
        return np.asarray(scores)

    def importance(self) -> Array:
        """The members' importance: absolute values, normalised to sum to 1 within each member, averaged over members.

        A weight and the gain of a split have no common unit, and without data the spread of a member's scores is
        unknown, so all members count alike. For the effect of features on given documents see
        :meth:`predict_contributions` and ``rankwright explain``.
        """
        total = np.zeros(self.n_features)
        for member, places in zip(self.parts, self._places(), strict=True):
            sizes = np.abs(member.importance())
            infinite = np.isinf(sizes)
            sizes = np.where(infinite, 1.0, 0.0) if infinite.any() else sizes / (sizes.max(initial=0.0) or 1)
            total[places] += sizes / (sizes.sum() or 1.0) / len(self.parts)
        return total

    def uses(self) -> Array:
        """Whether a part of weight other than 0 uses each feature."""
        used = np.zeros(self.n_features, bool)
        for weight, member, places in zip(self.weights, self.parts, self._places(), strict=True):
            used[places] |= member.uses() & (weight != 0)
        return used

    def _places(self) -> list[Array]:
        """For each member, the columns of its features in the sum."""
        if any(member.feature_names is None for member in self.parts):
            return [np.arange(member.n_features) for member in self.parts]
        place = {name: at for at, name in enumerate(self.names)}
        return [np.array([place[name] for name in member.feature_names], np.int64) for member in self.parts]

    def contributions(
        self, row_a: Features, row_b: Features, feature_names: Sequence[str] | None = None, query: Array | None = None
    ) -> Array:
        """How much each feature adds to score(a) − score(b), in all parts; see :meth:`Model.contributions`."""
        total = np.zeros(self.n_features)
        for weight, member, places in zip(self.weights, self.parts, self._places(), strict=True):
            total[places] += weight * member.contributions(row_a, row_b, feature_names, query)
        return total

    def _explained(self, data: RankingData, reference: RankingData | None, n_jobs: int | None) -> Array:
        total = np.zeros((data.n_docs, self.n_features + 1))
        for weight, member, places in zip(self.weights, self.parts, self._places(), strict=True):
            total[:, np.append(places, self.n_features)] += weight * member._explained(data, reference, n_jobs)
        return total


def interpolate(models: Sequence[Any], weights: npt.ArrayLike) -> Any:
    """The weighted sum of models, as a single model of their kind if all are linear or all are trees.

    Nested sums are flattened and parts of weight 0 dropped; if all weights are 0, the first part stays.
    """
    weighted = zip(models, np.asarray(weights, np.float64).tolist(), strict=True)
    members = [member for model, weight in weighted for member in _parts_of(model, weight)]
    members = [(model, weight) for model, weight in members if weight != 0.0] or [(members[0][0], 0.0)]
    joined = members[:1]
    for model, weight in members[1:]:  # neighbours of one kind are merged, so what was learnt last stays last
        pair = _joined(*joined[-1], model, weight)
        joined[-1:] = [joined[-1], (model, weight)] if pair is None else [(pair, 1.0)]
    if len(joined) == 1:
        model, weight = joined[0]
        if weight == 1.0:
            return model
        alone = _joined(model, weight, model, 0.0)
        if alone is not None:
            return alone
    return SumModel(tuple(model for model, _ in joined), np.array([weight for _, weight in joined]))


def _parts_of(model: Any, weight: float) -> list[tuple[Any, float]]:
    """Models and weights: of the members of a sum, or the model itself."""
    if not isinstance(model, SumModel):
        return [(model, weight)]
    inner = zip(model.parts, model.weights.tolist(), strict=True)
    return [part for member, factor in inner for part in _parts_of(member, weight * factor)]


def _joined(first: Any, weight: float, second: Any, other_weight: float) -> Any:
    """One model for the weighted sum of two; None if no single model is that."""
    if type(first) is not type(second):
        return None
    if first.n_features != second.n_features or first.feature_names != second.feature_names:
        return None
    return first.joined(weight, second, other_weight)


def _encode_sum(model: SumModel) -> tuple[dict[str, Any], Arrays]:
    parts, arrays = [], {"weights": model.weights}
    for at, member in enumerate(model.parts):
        name, kind = kind_of(member)
        facts, member_arrays = kind.encode(member)
        parts.append({"kind": name, **facts})
        arrays |= {f"{at}_{key}": array for key, array in member_arrays.items()}
    return {"parts": parts}, arrays


def _decode_sum(facts: dict[str, Any], read: Read) -> SumModel:
    listed = facts.get("parts")
    if not isinstance(listed, list) or not all(isinstance(member_facts, dict) for member_facts in listed):
        raise InputError(f"its parts are {shown(listed)}; expected a list of models")
    parts = []
    for at, member_facts in enumerate(listed):
        kind = member_facts.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"part {at} is of the kind {shown(kind)}; expected one of: {', '.join(KINDS)}")

        def read_part(name: str, dtype: Any, shape: tuple[int | None, ...], at: int = at) -> Array:
            return read(f"{at}_{name}", dtype, shape)

        parts.append(KINDS[kind].decode(member_facts, read_part))
    return SumModel(tuple(parts), bounded_numbers(read, "weights", (len(parts),)))


def _sum_version(model: SumModel) -> int:
    return max(version_of(member) for member in model.parts)


SUM = ModelKind(SumModel, _encode_sum, _decode_sum, _sum_version)
