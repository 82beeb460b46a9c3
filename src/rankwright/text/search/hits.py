"""What a search finds: documents by number and by id, and their scores."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright.data.data_display import draw_values
from rankwright.data.display import Displayed, Tabled, bars, cell
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.ids import Ids

__all__ = ["Found", "Hits"]

Array = npt.NDArray[Any]
_ROWS = 10  # shown


class _Listed(Displayed):
    """Shows documents in rank order, of one query or of several."""

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        """What is shown of documents, of the first ``most`` or of all, and what a frame holds."""
        raise NotImplementedError

    def _n_docs(self) -> int:
        raise NotImplementedError

    def _shown_table(self) -> Tabled:
        columns, n = self._columns(_ROWS), self._n_docs()
        shown = [[cell(one) for one in column] for column in columns.values()]
        notes = (f"and {n - _ROWS:,} more documents",) if n > _ROWS else ()
        at = list(columns).index("document") + 1
        return Tabled(tuple(columns), tuple(zip(*shown, strict=True)), notes, at, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame."""
        return importlib.import_module("pandas").DataFrame(self._columns())

    def __str__(self) -> str:
        return self.to_text()


class Found(_Listed, tuple[Array, Array]):
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
    >>> print(found)
    Found(2 documents)
    <BLANKLINE>
    rank  document   score
    ──────────────────────
    1     d7        2.5000
    2     d3        1.0000
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
        return f"Found({len(self[0])} documents)"

    def _n_docs(self) -> int:
        return len(self[0])

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        documents, scores = _documents(self._source, self[0], most), self[1][:most].tolist()
        return {"rank": list(range(1, len(scores) + 1)), "document": documents, "score": scores}

    def _drawing(self) -> Callable[[], Any]:
        documents = [str(one) for one in _documents(self._source, self[0], None)]
        return lambda: bars(documents, self[1].tolist(), "score")


@dataclass(frozen=True, eq=False, repr=False)
class Hits(_Listed):
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

    def __repr__(self) -> str:
        return f"Hits({len(self)} queries, {len(self.docs)} documents)"

    def _n_docs(self) -> int:
        return len(self.docs)

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        at = np.arange(len(self.docs[:most]))
        queries = np.searchsorted(self.indptr, at, side="right") - 1
        columns = {"query": queries.tolist(), "rank": (at - self.indptr[queries] + 1).tolist()}
        documents, scores = _documents(self.source, self.docs, most), self.scores[:most].tolist()
        return columns | {"document": documents, "score": scores}

    def _drawing(self) -> Callable[[], Any]:
        return lambda: draw_values(self.scores, self.indptr, "score")


def _ids(source: Ids | Sequence[str] | None, docs: Array) -> list[str]:
    if source is None:
        raise InputError("the documents have no ids; expected a view that belongs to an index")
    return list(source) if isinstance(source, Sequence) else source.of(docs.tolist())


def _documents(source: Ids | Sequence[str] | None, docs: Array, most: int | None) -> list[Any]:
    """Ids of the first documents, or their numbers where there are no ids."""
    if source is None:
        return docs[:most].tolist()
    return _ids(source[:most] if isinstance(source, Sequence) else source, docs[:most])
