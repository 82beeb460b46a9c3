"""Missing values for linear members: the mean of the feature in their place, and a column that says where.

    score(x) = Σ_j w_j · x_j,  where x_j is missing  w_j · mean_j + v_j

v_j, the weight of feature j's column, says what it means that the value is missing; it is 0 for features of which the
training data misses none. The model over these columns becomes one over the features themselves: it takes missing
values as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from rankwright._types import Array
from rankwright.data.dataset import RankingData, column_of
from rankwright.data.places import place_of
from rankwright.models.linear import LinearModel
from rankwright.rankers.base import Task


@dataclass(frozen=True, eq=False)
class Filling:
    """How missing values are filled.

    `means`: of every feature over the training data; labels have no part in them. `columns`: features that it misses.
    """

    means: Array
    columns: Array

    @classmethod
    def of(cls, data: RankingData) -> Filling | None:
        """How the missing values of training data are filled; None if there are none, or features are elsewhere."""
        place = place_of(data)
        columns = np.flatnonzero(place.statistics(summed=False).missing)
        if place.is_partitioned or not len(columns):
            return None
        means = np.nan_to_num(place.statistics().means)
        return cls(means.astype(data.X.dtype).astype(np.float64), columns)

    def filled(self, data: RankingData) -> RankingData:
        """The data with filled values, and the columns that say where."""
        X = data.X.copy()
        names = None if data.feature_names is None else [*data.feature_names, *self._names(data.feature_names)]
        if data.is_sparse:
            absent = np.isnan(X.data)
            marks = sparse.csr_array((absent.astype(X.dtype), X.indices, X.indptr), shape=X.shape)[:, self.columns]
            X.data[absent] = self.means[X.indices[absent]]
            marks.eliminate_zeros()
            return data.with_features(sparse.csr_array(sparse.hstack([X, marks])), names)
        absent = np.isnan(X)
        np.copyto(X, self.means.astype(X.dtype), where=absent)
        return data.with_features(np.hstack([X, absent[:, self.columns].astype(X.dtype)]), names)

    def task(self, task: Task) -> Task:
        """A task with filled data."""
        return replace(task, data=self.filled(task.data), valid=None if task.valid is None else self.filled(task.valid))

    def column(self, data: RankingData, at: int) -> Array:
        """The filled values of one feature."""
        values = column_of(data, at)
        return np.where(np.isnan(values), self.means[at], values)

    def _names(self, names: tuple[str, ...]) -> list[str]:
        """Names for the columns, which no feature has."""
        prefix = "missing:"
        while any(prefix + names[at] in names for at in self.columns):
            prefix += ":"
        return [prefix + names[at] for at in self.columns]

    def collapsed(self, model: LinearModel, names: tuple[str, ...] | None) -> LinearModel:
        """A model over filled values and columns as one over the features with missing values."""
        coef = model.coef[: len(self.means)]
        missing = coef * self.means
        missing[self.columns] += model.coef[len(self.means) :]
        return LinearModel(coef, names, missing=missing)
