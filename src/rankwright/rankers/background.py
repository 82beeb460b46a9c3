"""The background model that boosting starts from: a fitted ranker, a model or a loaded model file."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.places import place_of
from rankwright.errors import InputError
from rankwright.models.sum import interpolate
from rankwright.rankers.base import Ranker
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.parameters import NONE, POSITIVE, Rule, parameter

SPREAD = 0.5
"""Standard deviation within queries of the scores that boosting starts from, unless another is asked for."""

_NO_SPREAD = 1e-12  # share of the largest score: scores that vary less within queries count as constant
_LEAST_SIZE = 1e-300  # of scores: the factor is finite
_FITTED = ("background", "rankers")  # parameters that hold fitted rankers
_EXPECTED = "expected a fitted ranker, a model, or the result of load_model"


def background_model(background: Any) -> Any:
    """The model to start from, of a kind that can be saved; None for None.

    `background`: a fitted ranker (anything with ``model_``), a model, or the result of :func:`rankwright.load_model`.
    """
    if background is None:
        return None
    if isinstance(background, type):
        raise InputError(f"background is the class {background.__name__}; {_EXPECTED}")
    from rankwright.models.saving import SavedModel, kind_of  # here because this loads every kind of model

    try:
        model = background.model if isinstance(background, SavedModel) else getattr(background, "model_", background)
        if isinstance(background, Ranker):
            model = background.model_
    except AttributeError:  # scikit-learn's NotFittedError is one
        raise InputError(f"background is a {type(background).__name__} that is not fitted; fit it first") from None
    try:
        kind_of(model)
    except InputError:
        raise InputError(f"background is a {type(background).__name__}; {_EXPECTED}") from None
    return model


def background_scores(model: Any, data: RankingData) -> Array:
    """Scores of a background model in the data's order, one writable float64 per row."""
    try:
        scores = place_of(data).scores(model)
    except InputError as error:
        raise InputError(f"the background model does not fit the data: {error.message}") from None
    return np.array(scores, np.float64)


@dataclass(frozen=True, eq=False)
class Start:
    """The start of boosting: 0, or the scores of a background ``model`` times a ``factor``.

    Gradients depend on how far apart scores are, so the factor gives them one standard deviation within the queries of
    the training data: the same trees follow for any scale.
    """

    model: Any
    factor: float = 1.0

    @classmethod
    def of(cls, background: Any, data: RankingData, spread: float | None) -> Start:
        """A background (see :func:`background_model`) with this spread on this training data; None: as it is."""
        model = background_model(background)
        if model is None or spread is None:
            return cls(model)
        return cls(model, _factor(background_scores(model, data), data.indptr, spread))

    def scores(self, data: RankingData) -> Array:
        return np.zeros(data.n_docs) if self.model is None else self.factor * background_scores(self.model, data)

    def with_learnt(self, learnt: Any, n_rounds: int) -> Any:
        """The model of both; if no round was kept, the background alone, unchanged."""
        if self.model is None:
            return learnt
        return interpolate((self.model, learnt), (self.factor if n_rounds else 1.0, 1.0))


def _factor(scores: Array, indptr: Array, wanted: float) -> float:
    """``wanted`` over the standard deviation within queries; 1 for scores that are constant there."""
    spread, size = spread_within(scores, indptr)
    return wanted / spread / size if spread > 0 else 1.0


def spread_within(scores: Array, indptr: Array) -> tuple[float, float]:
    """Standard deviation of scores within queries, as a share of the largest, and the largest; 0 if it is rounding.

    Sums are rounded once, so the order of documents and queries does not matter.
    """
    size = float(np.abs(scores).max(initial=0.0))
    unit = scores / size if size > 0 else scores
    means = [math.fsum(unit[first:last]) / max(last - first, 1) for first, last in pairwise(indptr.tolist())]
    apart = unit - np.repeat(means, np.diff(indptr))
    spread = math.sqrt(math.fsum(apart**2) / max(len(apart), 1))
    return (spread, size) if spread > _NO_SPREAD and size > _LEAST_SIZE else (0.0, size)


def compare_features(model: Any, data: RankingData) -> tuple[Notice, ...]:
    """A notice if the background model and the data have different features."""
    if model is None:
        return ()
    theirs, ours = model.feature_names, data.feature_names
    if theirs is not None and ours is not None:
        names = set(theirs)
        further = [name for name in ours if name not in names]
        if further:
            text = f"{len(further):,} of {len(ours):,} features are unknown to the background model ({further[0]}, …)"
            values = {"unknown": len(further), "features": len(ours)}
            return (Notice(Kind.OTHER_FEATURES, f"{text}; features are matched by name", values),)
    return ()


def background_spread() -> Any:
    """The parameter ``background_spread`` of what boosts from a background."""
    return parameter(SPREAD, POSITIVE, NONE)


BACKGROUND = Rule(_EXPECTED.removeprefix("expected "), lambda value: background_model(value) is not None)


class FromBackground(Ranker):
    """Base of rankers with a parameter that holds fitted rankers: they stay fitted in clones."""

    def __sklearn_clone__(self) -> Self:
        from sklearn.base import clone

        settings = self.get_params(deep=False)
        cloned = type(self)(**{k: v if k in _FITTED else clone(v, safe=False) for k, v in settings.items()})
        for attribute in ("_metadata_request", "_sklearn_output_config"):  # by set_fit_request, set_output
            if attribute in vars(self):
                setattr(cloned, attribute, copy.deepcopy(getattr(self, attribute)))
        return cloned
