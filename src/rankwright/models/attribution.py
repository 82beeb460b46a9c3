"""Contributions of features to scores: what each adds to score(x) − score(r), averaged over reference documents r.

There is one definition for all models, so that sums of models are explained by sums of contributions. For a pair (x, r)
contributions are Shapley values: a feature in a coalition has x's value, any other one r's, and a feature's value is
what it adds on average over all orders in which features join. In a linear model that is coef_j · (x_j − r_j).
Averaged over references this is the interventional Shapley value. The natural references of a ranking are the documents
of the same query: only differences within a query matter, and properties that all its documents share explain nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks
from rankwright.data.dataset import RankingData
from rankwright.data.threads import threads_of
from rankwright.errors import InputError

__all__ = ["Attribution", "attribute", "finite", "pair_slopes"]

Array = npt.NDArray[Any]
Attribution = Callable[[Array, Array], Array]
"""Of rows and reference rows, as the model sees them: one row of contributions per row, averaged over references."""

_BLOCK_VALUES = 1 << 18


def attribute(model: Any, data: RankingData, reference: RankingData | None, n_jobs: int | None) -> Array:
    """Contributions of every document, and in the last column the mean score of its references.

    Rows of a query are ordered by content, so that the order of the data does not change a bit.

    Parameters
    ----------
    model : Model
        Not a sum, whose parts are explained one by one.
    data : RankingData
        The documents to explain.
    reference : RankingData or None
        Documents to compare with; None for those of the same query.
    n_jobs : int or None
        Number of threads.
    """
    X, names, indptr = data.X, data.feature_names, data.indptr
    values = model._attribution()
    scores = model.score(X, names, indptr)
    out = np.zeros((X.shape[0], model.n_features + 1))
    fixed, mean = None, 0.0
    if reference is not None:
        fixed, mean = _references(model, reference)

    def explain(chunk: tuple[int, int]) -> None:
        bounds = indptr[chunk[0] : chunk[1] + 1]
        rows = model._seen(X[bounds[0] : bounds[-1]], names, bounds - bounds[0])
        contributions = out[bounds[0] : bounds[-1]]
        if fixed is not None:
            contributions[:, :-1], contributions[:, -1] = finite(values, rows, fixed), mean
            return
        for start, stop in pairwise((bounds - bounds[0]).tolist()):
            order = _by_content(rows[start:stop])
            query = rows[start:stop][order]
            contributions[start + order, :-1] = finite(values, query, query)
            contributions[start:stop, -1] = _mean(scores[bounds[0] + start : bounds[0] + stop])

    chunks = query_chunks(indptr, max(1, _BLOCK_VALUES // max(1, model.n_features)))
    with ThreadPoolExecutor(threads_of(n_jobs)) as pool:
        list(pool.map(explain, chunks))
    return out


def finite(values: Attribution, rows: Array, references: Array) -> Array:
    """Check that contributions are finite; they are unless features are near the largest floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        contributions = values(rows, references)
    if not np.isfinite(contributions).all():
        raise InputError("a contribution is not finite; features and weights are too large to explain")
    return contributions


def _references(model: Any, reference: RankingData) -> tuple[Array, float]:
    """Reference rows as the model sees them, ordered by content, and the mean of their scores."""
    if not reference.n_docs:
        raise InputError("the reference has no documents; expected at least one")
    arguments = (reference.X, reference.feature_names, reference.indptr)
    rows = model._seen(*arguments)
    return rows[_by_content(rows)], _mean(model.score(*arguments))


def _mean(scores: Array) -> float:
    """The mean, the same in any order; no sum of finite scores overflows."""
    return math.fsum(scores / len(scores))


def _by_content(rows: Array) -> Array:
    if not rows.shape[1]:
        return np.arange(len(rows))
    row_type = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    return np.argsort(np.ascontiguousarray(rows).view(row_type).ravel(), kind="stable")


def pair_slopes(above: Array, below: Array) -> Array:
    """The slope of tanh, averaged from ``below`` to ``above``."""
    apart = above - below
    slope = 1.0 - np.tanh(below) ** 2
    far = np.abs(apart) > 1e-6
    np.divide(np.tanh(above) - np.tanh(below), apart, out=slope, where=far)
    return np.asarray(slope)
