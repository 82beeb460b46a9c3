"""Features of parts brought to one place, for what cannot be computed part by part: a mapped file, filled in blocks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data import sparse
from rankwright.data.dataset import RankingData
from rankwright.data.parts import stored, with_features
from rankwright.data.scratch import beside, scratch
from rankwright.engines.features import PartedFeatures
from rankwright.engines.fleet import Crew

__all__ = ["together"]

Array = npt.NDArray[Any]
_BLOCK_BYTES = 1 << 23  # of all parts, at a time


def together(data: RankingData) -> RankingData:
    """The same documents, with features that are here: in memory if they are few, otherwise in a file without a name.

    The file lies beside the parts where these are on this machine, and in ``TMPDIR`` otherwise; it is gone when the
    data is.
    """
    X, _ = stored(data)
    if not isinstance(X, PartedFeatures):
        return data
    crew = X.fleet.make(Rows)
    try:
        forms = crew.ask("form")
        place = next((Path(folder) for folder, _ in forms if folder and X.fleet.is_here), Path(tempfile.gettempdir()))
        many = [values for _, values in forms if values is not None]
        found = _sparse(crew, X, place, many) if many else _dense(crew, X, place)
    finally:
        crew.close()
    return with_features(data, found)


class Rows:
    """The features of a part, some rows at a time."""

    def __init__(self, data: RankingData, threads: int) -> None:
        self._data = data

    def form(self) -> tuple[str | None, int | None]:
        """The folder that the features are in, and how many values are stored; None if all are."""
        X = self._data.X
        folder = beside(X)
        return None if folder is None else str(folder.parent), len(X.data) if sparse.issparse(X) else None

    def block(self, first: int, last: int) -> Any:
        """Some rows; of sparse ones, their values and columns."""
        X = self._data.X
        if not sparse.issparse(X):
            return np.array(X[first:last])
        start, stop = X.indptr[min(first, self._data.n_docs)], X.indptr[min(last, self._data.n_docs)]
        return np.array(X.data[start:stop]), np.array(X.indices[start:stop])

    def ends(self) -> Array:
        """Where the rows of a sparse part end."""
        return np.asarray(self._data.X.indptr[1:], np.int64)


def _bounds(X: PartedFeatures) -> Array:
    """The rows of every part."""
    return np.append(X.starts, X.shape[0])[X.query_bounds]


def _dense(crew: Crew, X: PartedFeatures, place: Path) -> Array:
    whole = scratch(X.shape, X.dtype, place)
    bounds = _bounds(X)
    step = max(1, _BLOCK_BYTES // (X.fleet.n_parts * max(1, X.shape[1]) * X.dtype.itemsize))
    for first in range(0, int(np.diff(bounds).max()), step):
        for start, rows in zip(bounds.tolist(), crew.ask("block", first, first + step), strict=False):
            whole[start + first : start + first + len(rows)] = rows
    whole.flags.writeable = False
    return whole


def _sparse(crew: Crew, X: PartedFeatures, place: Path, many: list[int]) -> Any:
    bounds, filled = _bounds(X), np.concatenate([[0], np.cumsum(many)]).astype(np.int64)
    index = np.int32 if filled[-1] < 2**31 else np.int64
    values, columns = scratch((int(filled[-1]),), X.dtype, place), scratch((int(filled[-1]),), index, place)
    starts = [own + start for own, start in zip(crew.ask("ends"), filled.tolist(), strict=False)]
    indptr = np.concatenate([[0], *starts]).astype(index)
    at = filled[:-1].copy()
    step = max(1, int(_BLOCK_BYTES // max(1, 16 * X.fleet.n_parts * max(1, int(filled[-1]) // max(1, X.shape[0])))))
    for first in range(0, int(np.diff(bounds).max()), step):
        for part, (own, places) in enumerate(crew.ask("block", first, first + step)):
            values[at[part] : at[part] + len(own)] = own
            columns[at[part] : at[part] + len(own)] = places
            at[part] += len(own)
    for array in (values, columns, indptr):
        array.flags.writeable = False
    return sparse.csr_array((values, columns, indptr), shape=X.shape)
