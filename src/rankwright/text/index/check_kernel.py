"""Compiled checks of postings: no other compiled code sees any that have not passed them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["add_counts", "first_unsound"]

_MOST = np.int64(2**31 - 1)


@njit(cache=True, nogil=True)
def first_unsound(terms: Any, indptr: Any, docs: Any, counts: Any, n_docs: int) -> int:
    """The position of the first term whose postings are not sound, or -1.

    Its documents must exist and ascend, and its counts must be at least 1. The boundaries have been checked. The loop
    has no branches, so that it is a small part of whatever is done with the postings.
    """
    for i in range(terms.size):
        own_docs, own_counts = (
            docs[indptr[terms[i]] : indptr[terms[i] + 1]],
            counts[indptr[terms[i]] : indptr[terms[i] + 1]],
        )
        size = own_docs.size
        if size == 0:
            continue
        if own_docs[0] < 0 or own_docs[size - 1] >= n_docs:
            return i
        wrong = np.int32(own_counts[0] < 1)
        for j in range(np.uint64(1), np.uint64(size)):
            wrong |= np.int32(own_docs[j] <= own_docs[j - np.uint64(1)]) | np.int32(own_counts[j] < 1)
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
