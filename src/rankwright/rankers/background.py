"""The background model that boosting starts from: a fitted ranker, a model, or a loaded model file."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.models.kinds import kind_of
from rankwright.models.saving import SavedModel
from rankwright.rankers.base import Ranker
from rankwright.rankers.facts import Kind, Notice
from rankwright.rankers.parameters import Rule

__all__ = ["BACKGROUND", "background_model", "background_scores", "compare_features", "start_scores"]

Array = npt.NDArray[Any]
_FITTED = ("background", "rankers")  # parameters that hold fitted rankers
_EXPECTED = "expected a fitted ranker, a model, or the result of load_model"


def background_model(background: Any) -> Any:
    """The model to start from, of a kind that can be saved; None for None.

    Parameters
    ----------
    background : Ranker, model, SavedModel or None
        A fitted ranker (anything with ``model_``), a model, or the result of :func:`rankwright.load_model`.
    """
    if background is None:
        return None
    if isinstance(background, type):
        raise InputError(f"background is the class {background.__name__}; {_EXPECTED}")
    try:
        model = background.model if isinstance(background, SavedModel) else getattr(background, "model_", background)
        if isinstance(background, Ranker):
            model = background.model_
    except NotFittedError:
        raise InputError(f"background is a {type(background).__name__} that is not fitted; fit it first") from None
    try:
        kind_of(model)
    except InputError:
        raise InputError(f"background is a {type(background).__name__}; {_EXPECTED}") from None
    return model


def background_scores(model: Any, data: RankingData) -> Array:
    """Scores of a background model in the data's own order: one float64 per row, writeable."""
    try:
        scores = model.score(data.X, data.feature_names, data.indptr)
    except InputError as error:
        raise InputError(f"the background model does not fit the data: {error.message}") from None
    return np.array(scores, np.float64)


def start_scores(model: Any, data: RankingData) -> Array:
    """The scores that boosting starts from: those of the background model, 0 without one."""
    return np.zeros(data.n_docs) if model is None else background_scores(model, data)


def compare_features(model: Any, data: RankingData) -> tuple[Notice, ...]:
    """A notice if the background model and the data have different features."""
    if model is None:
        return ()
    theirs, ours = model.feature_names, data.feature_names
    if theirs is not None and ours is not None:
        known = set(theirs)
        further = [name for name in ours if name not in known]
        if further:
            what = f"{len(further):,} of {len(ours):,} features are unknown to the background model ({further[0]}, …)"
            values = {"unknown": len(further), "features": len(ours)}
            return (Notice(Kind.OTHER_FEATURES, f"{what}; features are matched by name", values),)
    return ()


BACKGROUND = Rule(_EXPECTED.removeprefix("expected "), lambda value: background_model(value) is not None)


class FromBackground(Ranker):
    """Base of rankers with a parameter that holds fitted rankers: they stay fitted in clones."""

    def __sklearn_clone__(self) -> Self:
        """As scikit-learn clones, but fitted rankers are kept: their clones would not be fitted."""
        settings = self.get_params(deep=False)
        cloned = type(self)(**{k: v if k in _FITTED else clone(v, safe=False) for k, v in settings.items()})
        for kept in ("_metadata_request", "_sklearn_output_config"):  # by set_fit_request, set_output
            if kept in vars(self):
                setattr(cloned, kept, copy.deepcopy(getattr(self, kept)))
        return cloned
