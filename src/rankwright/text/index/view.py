"""A view of an index: one field, or all of them, under one analyser. Retrieval functions score views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.ids import Ids

__all__ = ["View"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class View:
    """Which documents contain which terms, and how often.

    Attributes
    ----------
    terms : mapping of str to int
        The number of every term.
    indptr : ndarray of int64
        Term ``t`` owns the postings ``indptr[t]:indptr[t+1]``.
    docs : ndarray of int32
        The documents of the postings, ascending within a term.
    counts : ndarray of int32
        How often the term occurs in the document; at least 1.
    lengths : ndarray of int32
        Number of terms in each document, with repetition.
    analyze : callable
        Maps a text to its terms, as for the documents.
    name : str
        ``"porter+stop"``, or ``"porter+stop,title"`` for one field.
    path : Path, optional
        The index it belongs to.
    ids : Ids, optional
        The ids of the documents.

    Notes
    -----
    The boundaries and lengths are checked here, the postings of a term when they are first used (:meth:`check`): a file
    says what it likes, and compiled code trusts what it is given.
    """

    terms: Mapping[str, int]
    indptr: Array
    docs: Array
    counts: Array
    lengths: Array
    analyze: Callable[[str], list[str]]
    name: str = ""
    path: Path | None = None
    ids: Ids | None = None

    def __post_init__(self) -> None:
        indptr, lengths, size = self.indptr, self.lengths, len(self.docs)
        if any(np.ndim(array) != 1 for array in (indptr, self.docs, self.counts, lengths)) or len(self.counts) != size:
            raise self._unsound("documents and counts are not one list each of the same length")
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != size or (indptr[1:] < indptr[:-1]).any():
            raise self._unsound(f"the boundaries of the postings do not increase from 0 to {size:,}")
        if self.doc_counts.max(initial=0) > len(lengths):
            raise self._unsound(f"a term has more postings than the {len(lengths):,} documents")
        if lengths.min(initial=0) < 0 or self.total_length < size:
            raise self._unsound("the lengths of the documents do not fit their postings")

    def check(self, terms: Array | None = None) -> None:
        """Check the postings of some terms or of all, each once; whoever hands them to compiled code asks for this.

        Raises
        ------
        InputError
            If a document does not exist, comes twice or out of order, or has a count below 1.
        """
        from rankwright.text.index.check_kernel import first_unsound

        if terms is None:
            unchecked = np.flatnonzero(~self._is_checked)
        else:
            if len(terms) and not 0 <= terms.min() <= terms.max() < self.n_terms:
                raise self._unsound(f"a term has a number outside the {self.n_terms:,} terms")
            unchecked = terms[~self._is_checked[terms]]
            if len(unchecked):
                unchecked = np.unique(unchecked)
        if not len(unchecked):
            return
        found = first_unsound(unchecked, *self.arrays[:3], self.n_docs)
        if found >= 0:
            what = "expected ascending documents, each with a count of at least 1"
            raise self._unsound(f"the postings of term {unchecked[found]:,} are not sound; {what}")
        self._is_checked[unchecked] = True

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Boundaries, documents, counts and lengths as compiled code takes them: plain, read-only, of one type."""
        types = (np.int64, np.int32, np.int32, np.int32)
        given = (self.indptr, self.docs, self.counts, self.lengths)
        made = tuple(np.ascontiguousarray(array, dtype).view() for array, dtype in zip(given, types, strict=True))
        for array in made:
            array.flags.writeable = False
        return made  # type: ignore[return-value]

    @cached_property
    def _is_checked(self) -> Array:
        return np.zeros(self.n_terms, bool)

    def _unsound(self, what: str) -> InputError:
        return InputError(what if self.path is None else f"damaged index: {what}", self.path)

    @property
    def n_docs(self) -> int:
        """Number of documents."""
        return len(self.lengths)

    @property
    def n_terms(self) -> int:
        """Number of distinct terms."""
        return len(self.indptr) - 1

    @cached_property
    def total_length(self) -> int:
        """Number of terms in all documents, with repetition."""
        return int(self.lengths.sum(dtype=np.int64))

    @cached_property
    def doc_counts(self) -> Array:
        """Number of documents that contain each term."""
        return np.diff(self.indptr)

    @cached_property
    def total_counts(self) -> Array:
        """Number of occurrences of each term in all documents."""
        totals = np.zeros(self.n_terms, np.int64)
        used = np.flatnonzero(self.doc_counts)  # reduceat would give empty terms the next count
        if len(used):
            totals[used] = np.add.reduceat(self.counts, self.indptr[used], dtype=np.int64)
        return totals

    def query(self, text: str) -> tuple[Array, Array, int]:
        """The known terms of a query in ascending order, how often each occurs in it, and its number of terms."""
        words = self.analyze(text)
        known = Counter(self.terms[word] for word in words if word in self.terms)
        found = sorted(known.items())
        return (
            np.array([term for term, _ in found], np.int64),
            np.array([times for _, times in found], np.float64),
            len(words),
        )
