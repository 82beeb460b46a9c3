"""Dense features where they are: in the matrix that holds them, in a file beside it, or a few rows at a time.

Trees compare dense features, and the numbers of categories. Dense features without categories are used in place; others
are made dense, or numbered, once: in memory, or, if they are mapped from a file and large, in a file without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.parts import batches, rows_in, stored
from rankwright.data.scratch import beside, scratch

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Located:
    """Dense features of a data set.

    Attributes
    ----------
    X : ndarray
        A matrix that holds them.
    rows : ndarray or None
        The row of X that holds each document; None if that is its own number.
    folder : Path or None
        Where what is made of them may be kept on disk; None where they are in memory.
    """

    X: Array
    rows: Array | None
    folder: Path | None


def located(data: RankingData, code: Any = None) -> Located:
    """The dense features of a data set; ``code`` numbers the categories of rows, if there are any."""
    whole = stored(data)[0]
    folder = beside(whole)
    if not sparse.issparse(whole) and (code is None or not code.categories):
        return Located(np.ascontiguousarray(whole), rows_in(data), folder)
    X = scratch((data.n_docs, data.n_features), whole.dtype, folder)
    first = 0
    for rows, _ in batches(data, at_once=False):
        some = rows.toarray() if sparse.issparse(rows) else rows
        X[first : first + len(some)] = some if code is None else code(some)
        first += len(some)
    return Located(X, None, folder)


class Batches:
    """Dense features of a data set, some rows at a time, as often as they are asked for.

    Those of mapped data are read again every time; others are made once.
    """

    def __init__(self, data: RankingData, code: Any) -> None:
        self._data, self._code = data, code
        self._made = list(self._make()) if beside(stored(data)[0]) is None else None

    def __iter__(self) -> Iterator[Array]:
        return self._make() if self._made is None else iter(self._made)

    def _make(self) -> Iterator[Array]:
        whole = stored(self._data)[0]
        if not sparse.issparse(whole) and not self._code.categories and rows_in(self._data) is None:
            yield np.ascontiguousarray(whole)
            return
        for rows, _ in batches(self._data, at_once=False):
            yield self._code(np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows))
