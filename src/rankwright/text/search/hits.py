"""What a search finds: documents by number and by id, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.ids import Ids

__all__ = ["Found", "Hits"]

Array = npt.NDArray[Any]


class Found(tuple[Array, Array]):
    """The documents found for one query, best first: a pair ``(docs, scores)`` that also has their ids.

    Parameters
    ----------
    docs : ndarray of int64
        Document numbers.
    scores : ndarray of float64
        Their scores.
    ids : Ids or sequence of str, optional
        The ids of all documents of the index, or of the documents found.

    Examples
    --------
    >>> import numpy as np
    >>> found = Found(np.array([7, 3]), np.array([2.5, 1.0]), ["d7", "d3"])
    >>> docs, scores = found
    >>> found.ids, docs.tolist(), found.scores.tolist()
    (['d7', 'd3'], [7, 3], [2.5, 1.0])
    """

    _source: Ids | Sequence[str] | None

    def __new__(cls, docs: Array, scores: Array, ids: Ids | Sequence[str] | None = None) -> Found:
        """Make the pair."""
        made = super().__new__(cls, (docs, scores))
        made._source = ids
        return made

    @property
    def docs(self) -> Array:
        """Document numbers."""
        return self[0]

    @property
    def scores(self) -> Array:
        """Scores of the documents."""
        return self[1]

    @property
    def ids(self) -> list[str]:
        """Document ids."""
        return _ids(self._source, self[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Found, (self[0], self[1], None if self._source is None else self.ids)

    def __repr__(self) -> str:
        ids = "" if self._source is None else f", ids={self.ids!r}"
        return f"Found(docs={self[0]!r}, scores={self[1]!r}{ids})"


@dataclass(frozen=True, eq=False)
class Hits:
    """The results of several queries; ``hits[q]`` is the :class:`Found` of query ``q``: ``(docs, scores)``, with ids.

    Attributes
    ----------
    indptr : ndarray of int64
        Query ``q`` owns ``indptr[q]:indptr[q+1]``.
    docs : ndarray of int64
        Document numbers, best first within a query, ties in ascending order of documents.
    scores : ndarray of float64
        Their scores.
    source : Ids or sequence of str, optional
        The ids of all documents of the index, or of ``docs``.
    """

    indptr: Array
    docs: Array
    scores: Array
    source: Ids | Sequence[str] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of ``docs``."""
        return _ids(self.source, self.docs)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> Found:
        query = range(len(self))[query]
        span = slice(int(self.indptr[query]), int(self.indptr[query + 1]))
        source = self.source[span] if isinstance(self.source, Sequence) else self.source
        return Found(self.docs[span], self.scores[span], source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hits, (self.indptr, self.docs, self.scores, None if self.source is None else self.ids)


def _ids(source: Ids | Sequence[str] | None, docs: Array) -> list[str]:
    if source is None:
        raise InputError("the documents have no ids; expected a view that belongs to an index")
    return list(source) if isinstance(source, Sequence) else source.of(docs.tolist())
