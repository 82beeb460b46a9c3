"""A view of an index: one field, or all of them, under one analyser. Retrieval functions score views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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
    """

    terms: Mapping[str, int]
    indptr: Array
    docs: Array
    counts: Array
    lengths: Array
    analyze: Callable[[str], list[str]]
    name: str = ""

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
