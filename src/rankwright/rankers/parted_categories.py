"""Categories of features in parts: counted where the parts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.parts import some_queries
from rankwright.models.trees.categories import counted

__all__ = ["CategoryCounts"]

Array = npt.NDArray[Any]


class CategoryCounts:
    """Counts the categories of a part."""

    def __init__(self, data: RankingData, threads: int, queries: Array) -> None:
        self._data = some_queries(data, queries)

    def counts(self, columns: list[int]) -> list[tuple[Array, Array, float | None]]:
        """For each column its values, how often each occurs, and one that is not a whole number, if there is one."""
        found = []
        for j in columns:
            column = self._data.X[:, [j]].toarray()[:, 0] if self._data.is_sparse else self._data.X[:, j]
            odd = ~(np.isnan(column) | (column == np.rint(column)))
            found.append((*counted(column.astype(np.float64)), float(column[np.argmax(odd)]) if odd.any() else None))
        return found
