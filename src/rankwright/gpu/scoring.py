"""Scores of models on the card: rows are uploaded a block at a time, scores come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from rankwright.data import sparse
from rankwright.errors import InputError
from rankwright.gpu import products
from rankwright.gpu.card import blocks, is_simulated, upload
from rankwright.gpu.order import count_up
from rankwright.gpu.trees.scores import forest_scores
from rankwright.models.base import as_table
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.models.trees.model import GradeModel, TreeModel

__all__ = ["OnCard", "linear_scores", "model_scores", "score_there", "weights_of"]

Array = npt.NDArray[Any]
_PART = 1 << 28  # bytes of features at a time
_THREADS = 4 if is_simulated() else 128


@dataclass(frozen=True)
class OnCard:
    """A model that scores on the card; for partitioned data, on the card of each part's machine."""

    model: Any

    def score(self, X: Any, feature_names: Sequence[str] | None = None, indptr: Any = None) -> Array:
        return model_scores(self.model, X, feature_names)

    def with_missing(self, X: Any, names: Sequence[str] | None) -> Any:
        return self.model.with_missing(X, names)


def model_scores(model: Any, X: Any, feature_names: Sequence[str] | None = None) -> Array:
    """Scores by a linear model, trees, or a sum of these."""
    if isinstance(model, SumModel):
        return model.summed(partial(model_scores, X=X, feature_names=feature_names), X, feature_names)
    if isinstance(model, TreeModel | GradeModel):
        return forest_scores(model, X, feature_names)
    return linear_scores(model, X, feature_names)


def linear_scores(model: Any, X: Any, feature_names: Sequence[str] | None = None) -> Array:
    """Scores of a linear model, as ``model.score`` gives them up to rounding."""
    X = as_table(X)
    weights = weights_of(model, X.shape[1], feature_names)
    n_docs = X.shape[0]
    n_rows, scores = max(1, min(n_docs, _PART // max(1, X.shape[1] * X.dtype.itemsize))), np.empty(n_docs)
    rows, on_card = cuda.device_array(n_rows, np.int64), cuda.device_array(n_rows, np.float64)
    count_up[blocks(1), _THREADS](rows)
    for first in range(0, n_docs, n_rows):
        block = X[first : first + n_rows]
        block = block.toarray() if sparse.issparse(block) else block
        score_there(upload(block), rows[: len(block)], weights, on_card)
        scores[first : first + len(block)] = on_card.copy_to_host()[: len(block)]
    model._check_scores(scores, X, feature_names)
    return scores


def score_there(X: Any, rows: Any, weights: Array, scores: Any) -> None:
    """``scores[i] = X[rows[i]] · weights``; all but the weights are on the card."""
    products.launch_scores(0, X, rows, upload(np.ascontiguousarray(weights, np.float64)), scores)


def weights_of(model: Any, n_columns: int, feature_names: Sequence[str] | None) -> Array:
    if not isinstance(model, LinearModel) or model.query_scaling is not None:
        scales = "scales features within queries" if isinstance(model, LinearModel) else "is neither linear nor trees"
        raise InputError(f"device is 'cuda', and the model {scales}; expected device='cpu'")
    columns, weights = model._columns(n_columns, feature_names), np.zeros(n_columns)
    if columns is None:
        weights[: model.n_features] = model.coef[:n_columns]
    else:
        weights[columns] = model.coef
    return weights
