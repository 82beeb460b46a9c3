"""Some rows of an input, as they are read: not checked against each other, queries in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Rows"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Rows:
    """Documents one after the other.

    Attributes
    ----------
    X : ndarray or scipy.sparse.csr_array
        Features, one row per document.
    labels : ndarray
        One label per row.
    qid : ndarray
        One query id per row.
    doc_ids : ndarray or None
        One document id per row.
    """

    X: Any
    labels: Array
    qid: Array
    doc_ids: Array | None = None

    @property
    def n_bytes(self) -> int:
        """About how much memory they take."""
        values = self.X.data.nbytes + self.X.indices.nbytes if hasattr(self.X, "indptr") else self.X.nbytes
        ids = 0 if self.doc_ids is None else self.doc_ids.nbytes
        return int(values + self.labels.nbytes + self.qid.nbytes + ids)

    def take(self, rows: npt.NDArray[np.int64]) -> Rows:
        """Some of the rows."""
        ids = None if self.doc_ids is None else self.doc_ids[rows]
        return Rows(self.X[rows], self.labels[rows], self.qid[rows], ids)
