"""Ways to adapt without validation data: the out-of-fold scores of what is combined, and of what is chosen from.

No label of a query is used to train the models that score it. Weights of interpolations are fitted, and settings of
boosting are chosen, on the out-of-fold scores of all other folds; only their models have seen its labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.adaptation.augment import augment
from rankwright.committee.interpolation import Interpolation
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.rankers.cross_validation import CrossValidation, Folds
from rankwright.rankers.facts import Fitted


def folds_of(train: RankingData, cv: int, seed: int) -> Folds:
    """The folds of the training data, used without validation data."""
    folds = Folds.draw(train, cv, seed=seed) if train.n_queries else None
    if folds is None:
        problem = "nothing can be held out to choose by: fewer than two training queries have an order"
        raise InputError(f"{problem}; expected more queries, or validation data")
    return folds


def completed(crossed: CrossValidation) -> CrossValidation:
    """Reject a cross-validation that was interrupted."""
    if crossed.interrupted:
        raise KeyboardInterrupt
    return crossed


@dataclass(frozen=True, eq=False)
class CrossedSum:
    """An interpolation whose weights were fitted on out-of-fold scores.

    `joined`: the models with these weights. `facts`: of the fit of the weights. `scores`: out-of-fold scores: each
    fold's by weights that were fitted on the others. `models`: the interpolation of every fold, where none of the
    components was trained on the data.
    """

    joined: Interpolation
    facts: Fitted
    scores: Array
    models: tuple[Any, ...]


def cross_sum(
    make: Callable[[Any, Any], Interpolation],
    models: Sequence[Any],
    scores: Sequence[Array],
    learnt: Sequence[bool],
    train: RankingData,
    folds: Folds,
) -> CrossedSum:
    """Interpolate models by their out-of-fold scores.

    `make`: the interpolation of components (None: features) with weights, or a way to find them (None: the usual one).
    `models`, `scores`: the components, and their scores of the training data; out of fold where they were trained on
    it. `learnt`: which were: the scores of every fold come from a model of their own, with a scale of its own. `train`:
    the training data. `folds`: its folds; all queries are held out once.
    """
    rows = folds.of_query[train.query_of_row()]
    columns = [
        _on_one_scale(column, rows, train) if is_learnt else column
        for column, is_learnt in zip(scores, learnt, strict=True)
    ]
    stacked = dataclasses.replace(train, X=np.column_stack(columns), feature_names=None)
    crossed, parts = np.empty(train.n_docs), []
    for number in range(folds.n_held_out):
        fold = make(None, None)
        fold.fit_data(stacked.select(folds.of_query != number))
        crossed[rows == number] = fold.model_.score(stacked.X[rows == number])
        if not any(learnt):
            part = make(list(models), fold.weights_.tolist())
            part.fit_data(train.select(folds.of_query != number))
            parts.append(part.model_)
    on_all = make(None, None)
    facts = on_all.fit_data(stacked)
    joined = make(list(models), on_all.weights_.tolist())
    joined.fit_data(train)
    return CrossedSum(joined, facts, crossed, tuple(parts))


def _on_one_scale(scores: Array, folds: Array, data: RankingData) -> Array:
    """Scores with a standard deviation of 1 within queries, in every fold."""
    apart = scores - np.repeat(np.add.reduceat(scores, data.indptr[:-1]) / data.sizes, data.sizes)
    scaled = np.empty_like(scores)
    for number in np.unique(folds):
        mine = folds == number
        spread = float(np.sqrt(np.mean(apart[mine] ** 2)))
        scaled[mine] = scores[mine] / (spread if spread > 0 else 1.0)
    return scaled


def best_point(candidates: Sequence[CrossValidation], folds: Folds, train: RankingData) -> tuple[int, Array]:
    """The point of a grid with the highest mean, and out-of-fold scores: each fold's by the best point of the others.

    `found`: of every point. `folds`, `train`: as for :func:`cross_sum`.
    """
    best = int(np.argmax([max(candidate.means) for candidate in candidates]))
    values = np.array([candidate.query_values for candidate in candidates])
    scores = np.empty(train.n_docs)
    for number in range(folds.n_held_out):
        mine = folds.of_query == number
        point = int(np.argmax(np.nan_to_num(values[:, ~mine]).mean(axis=1)))
        rows = np.repeat(mine, train.sizes)
        scores[rows] = candidates[point].scores[rows]
    return best, scores


def with_neighbours(rich: RankingData, train: RankingData, folds: Folds) -> tuple[RankingData, Folds]:
    """The training data and, for every fold, the neighbours of all other folds; their folds.

    Neighbours have labels like those of the documents that they resemble, so each fold has its own.
    """
    parts, of_query = [train], [folds.of_query]
    for number in range(folds.n_held_out):
        near = augment(rich, train.select(folds.of_query != number)).data
        if near.n_docs:
            ids = np.char.add(f"without-fold-{number + 1}-", near.query_ids.astype(str))
            parts.append(dataclasses.replace(near, query_ids=ids))
            of_query.append(np.full(near.n_queries, -2 - number))
    return RankingData.concatenate(parts), dataclasses.replace(folds, of_query=np.concatenate(of_query))
