"""Scores of a data set: a few queries at a time where features have to be copied, at the parts where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import batches, pieces, stored
from rankwright.engines.features import PartedFeatures

__all__ = ["scores_of"]

Array = npt.NDArray[Any]
_FEW, _LONG = 16, 64  # runs of adjacent rows, or rows in one of them, that are scored where they are


def scores_of(model: Any, data: RankingData) -> Array:
    """A model's scores in the data's own order.

    Examples
    --------
    >>> from rankwright import LinearModel
    >>> scores_of(LinearModel([2.0]), RankingData.from_arrays([[1.0], [3.0]], [0, 1], group=[2])).tolist()
    [2.0, 6.0]
    """
    whole = stored(data)[0]
    if isinstance(whole, PartedFeatures):
        return whole.scores(model, data)
    adjacent = [] if model.scales_queries else list(pieces(data))
    views = [(X, None) for X in adjacent] if len(adjacent) <= max(_FEW, data.n_docs // _LONG) else []
    found = [model.score(X, data.feature_names, indptr) for X, indptr in views or batches(data)]
    return np.concatenate(found, dtype=np.float64) if found else np.empty(0)
