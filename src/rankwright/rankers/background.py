"""The background model that boosting starts from: a fitted ranker, a model, or a loaded file."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError, InputWarning
from rankwright.models.kinds import kind_of
from rankwright.models.saving import SavedModel
from rankwright.rankers.base import Ranker

__all__ = ["background_model", "background_scores", "compare_features"]

Array = npt.NDArray[Any]
_FITTED = ("background", "rankers")  # parameters that hold fitted rankers
_EXPECTED = "expected a fitted ranker, a model, or what load_model gives"


def background_model(background: Any) -> Any:
    """The model to start from, of a kind that can be saved; None for None.

    Parameters
    ----------
    background : Ranker, model, SavedModel or None
        A fitted ranker (anything with ``model_``), a model, or what :func:`rankwright.load_model` gives.
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
    """What a background model says of data, in the data's own order; one float64 per row that may be written to."""
    try:
        scores = model.score(data.X, data.feature_names, data.indptr)
    except InputError as error:
        raise InputError(f"the background model does not fit the data: {error.message}") from None
    return np.array(scores, np.float64)


def compare_features(model: Any, data: RankingData, stacklevel: int = 2) -> None:
    """Warn where a background model and the new data do not know the same features."""
    theirs, ours = model.feature_names, data.feature_names
    if theirs is not None and ours is not None:
        further = [name for name in ours if name not in set(theirs)]
        if further:
            what = f"{len(further):,} of {len(ours):,} features are unknown to the background model ({further[0]}, …)"
            warnings.warn(f"{what}; features are matched by name", InputWarning, stacklevel=stacklevel + 1)
    elif data.n_features < model.n_features:  # more is an error
        what = f"the background model has {model.n_features:,} features, the data {data.n_features:,}, without names on"
        warnings.warn(f"{what} both sides to match them by", InputWarning, stacklevel=stacklevel + 1)


class FromBackground(Ranker):
    """Base of rankers with a parameter ``background``: it stays fitted in clones, and finds its features by name."""

    background: Any

    __metadata_request__predict = {"qid": True}  # noqa: RUF012 - read by scikit-learn

    def __sklearn_clone__(self) -> Self:
        """As scikit-learn clones, except that the background is kept as it is: a clone of it would not be fitted."""
        settings = self.get_params(deep=False)
        cloned = type(self)(**{k: v if k in _FITTED else clone(v, safe=False) for k, v in settings.items()})
        for kept in ("_metadata_request", "_sklearn_output_config"):  # by set_fit_request, set_output
            if kept in vars(self):
                setattr(cloned, kept, copy.deepcopy(getattr(self, kept)))
        return cloned

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> Array:
        """One score per row, higher is better.

        Parameters
        ----------
        X : array-like, scipy sparse or RankingData
            Features; a RankingData brings its queries along.
        qid, group : array-like, optional
            Query id per row, or rows per query. They matter only with a background that scales features within each
            query; without them all rows are then one query.
        """
        model = self.model_
        if not isinstance(X, RankingData):
            X = validate_data(self, X, reset=False, accept_sparse="csr", **self._rules())
            names = getattr(self, "feature_names_in_", None)
            if qid is None and group is None:
                return np.asarray(model.score(X, None if names is None else tuple(map(str, names))))
            y, missing = np.zeros(X.shape[0]), self._allow_missing
            X = RankingData.from_arrays(X, y, qid, group=group, feature_names=names, allow_missing=missing)
        elif qid is not None or group is not None:
            raise InputError("a RankingData has its queries; leave out qid and group")
        return X.to_caller_order(model.score(X.X, X.feature_names, X.indptr))
