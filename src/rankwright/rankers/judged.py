"""The queries on which a committee is decided, and the value of single features on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import column_of, some_queries
from rankwright.rankers.base import Task
from rankwright.rankers.folds import FOLDS, Folds, by_content

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Judged:
    """The queries on which all decisions are made, and how members score them.

    Attributes
    ----------
    data : RankingData
        Held-out queries of the training data, or the validation data.
    weights : ndarray
        Of these queries.
    folds : ndarray of int
        The fold of each query.
    cut : Folds or None
        How the training data is cut; None where validation data is given.
    words : str
        What is done, such as ``5-fold cross-validation``.
    """

    data: RankingData
    weights: Array
    folds: Array
    cut: Folds | None
    words: str

    @classmethod
    def of(cls, task: Task, n_folds: int | str, seed: int) -> Judged | None:
        """By validation data, or else by cross-validation; None if only one query has an order to learn."""
        if task.valid is not None:
            cut = Folds.draw(task.valid, FOLDS, seed=seed)
            folds = np.zeros(task.valid.n_queries, np.int64) if cut is None else cut.of_query
            return cls(task.valid, np.ones(task.valid.n_queries), folds, None, "validation data")
        cut = Folds.draw(task.data, n_folds, useful=task.useful, seed=seed)
        if cut is None:
            return None
        held_out = cut.of_query >= 0
        data = task.data if held_out.all() else some_queries(task.data, held_out)
        folds = cut.of_query[held_out]
        if cut.n_held_out == 1:  # decisions on one half are judged by the other
            _, queries = by_content(data)
            folds = folds.copy()
            folds[queries[::2]] = 1
        return cls(data, task.weights.queries[held_out], folds, cut, cut.words)


@dataclass(frozen=True, eq=False)
class SingleFeatures:
    """The features as rankers: the measure of every judged query by each of them.

    Attributes
    ----------
    columns : ndarray of int
        Features without missing values.
    values : ndarray of shape (features, queries)
        The measure.
    weights : ndarray
        Of the queries.
    """

    columns: Array
    values: Array
    weights: Array

    @classmethod
    def of(cls, judged: Judged, values_of: Callable[[Array], Array], but: Sequence[int] = ()) -> SingleFeatures:
        """Evaluate every feature but some; higher is better."""
        columns, values = [], []
        for column in range(judged.data.n_features):
            if column in but:
                continue
            scores = column_of(judged.data, column)
            if not np.isnan(scores).any():
                columns.append(column)
                values.append(values_of(scores))
        return cls(
            np.array(columns or [0]), np.array(values or [values_of(np.zeros(judged.data.n_docs))]), judged.weights
        )

    @property
    def best(self) -> int:
        """The feature that is best on all queries, the first of equal ones."""
        return int(self.columns[self._best(np.ones(len(self.weights), bool))])

    def _best(self, queries: Array) -> int:
        return int(np.argmax(np.round(self.values[:, queries] @ self.weights[queries], 9)))

    def chosen_apart(self, judged: Judged) -> Array:
        """Scores of the held-out documents: in each fold by the feature that is best in the others."""
        scores = np.zeros(judged.data.n_docs)
        for fold in np.unique(judged.folds):
            held_out = judged.folds == fold
            rows = np.repeat(held_out, judged.data.sizes)
            column = int(self.columns[self._best(held_out if held_out.all() else ~held_out)])
            scores[rows] = np.nan_to_num(column_of(judged.data, column)[rows])
        return scores
