"""The categories of features, counted where the features are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import column_of
from rankwright.data.places import selected
from rankwright.models.trees.categories import counted

Array = npt.NDArray[Any]


class CategoryCounts:
    """Counts the categories of a partition."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = selected(data, queries)

    def counts(self, columns: list[int]) -> list[tuple[Array, Array, float | None]]:
        """For each column its values, how often each occurs, and one that is not a whole number, if there is one."""
        values = []
        for j in columns:
            column = column_of(self._data, j)
            odd = ~(np.isnan(column) | (column == np.rint(column)))
            values.append((*counted(column), float(column[np.argmax(odd)]) if odd.any() else None))
        return values
