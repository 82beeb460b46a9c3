"""Compiled checks of postings: no other compiled code sees any that have not passed them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_counts", "first_unsound"]

_MOST = np.int64(2**31 - 1)


@njit(cache=True, nogil=True)
def first_unsound(terms: Any, indptr: Any, docs: Any, counts: Any, lengths: Any) -> int:
    """The position of the first term whose postings are not sound, or -1.

    Its documents must exist and ascend, and each must be at least as long as the term's count in it, which is at least
    1. The boundaries have been checked.

    A posting costs no branch: a list is judged when it has been read.
    """
    n_docs = np.uint64(lengths.size)
    for i in range(terms.size):
        start, stop = indptr[terms[i]], indptr[terms[i] + 1]
        if start == stop:
            continue
        before = np.int32(-1)
        wrong = False
        for j in range(start, stop):
            wrong |= docs[j] <= before
            before = docs[j]
        if wrong or np.uint64(docs[stop - 1]) >= n_docs:
            return i
        for j in range(start, stop):
            wrong |= (counts[j] < 1) | (counts[j] > lengths[docs[j]])
        if wrong:
            return i
    return -1


@njit(cache=True, nogil=True)
def add_counts(docs: Any, counts: Any, sums: Any) -> bool:
    """Add the counts of sound postings to their documents; whether all sums stay within 32 bits."""
    for j in range(docs.size):
        total = sums[docs[j]] + np.int64(counts[j])
        if total > _MOST:
            return False
        sums[docs[j]] = total
    return True
