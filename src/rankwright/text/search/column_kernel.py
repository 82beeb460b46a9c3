"""Compiled feature computation: scores and sums of given documents, query by query.

Both read the postings of a query's terms once, however many documents are given, and leave their workspace as they
found it.
"""

from __future__ import annotations

import math
from typing import Any

from numba import njit

__all__ = ["fill_scores", "fill_sums"]


@njit(cache=True, nogil=True)
def fill_scores(
    query_indptr: Any,
    terms: Any,
    weights: Any,
    sizes: Any,
    indptr: Any,
    docs: Any,
    impacts: Any,
    priors: Any,
    row_indptr: Any,
    rows: Any,
    sums: Any,
    out: Any,
) -> None:
    """Set the score of every row, adding in the same order as search.

    Parameters
    ----------
    query_indptr, terms, weights, sizes
        Query ``q`` owns the terms ``query_indptr[q]:query_indptr[q+1]``, and counts ``sizes[q]`` of them.
    indptr, docs, impacts, priors
        As for :func:`rankwright.text.search.scorer_kernel.best_keys`.
    row_indptr, rows
        Query ``q`` has the documents ``rows[row_indptr[q]:row_indptr[q+1]]``.
    sums
        Workspace: zeros for all documents, left as zeros.
    out
        Filled with one number per row.
    """
    for q in range(sizes.size):
        for i in range(query_indptr[q], query_indptr[q + 1]):
            weight = weights[i]
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                sums[docs[j]] += weight * impacts[j]
        for r in range(row_indptr[q], row_indptr[q + 1]):
            score = sums[rows[r]]
            if priors.size > 0:
                score += sizes[q] * priors[rows[r]]
            out[r] = score
        for i in range(query_indptr[q], query_indptr[q + 1]):
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                sums[docs[j]] = 0


@njit(cache=True, nogil=True)
def fill_sums(
    query_indptr: Any,
    terms: Any,
    rarities: Any,
    idfs: Any,
    indptr: Any,
    docs: Any,
    counts: Any,
    lengths: Any,
    row_indptr: Any,
    rows: Any,
    places: Any,
    out: Any,
) -> None:
    """Add the six sums over terms to the rows of ``out``, all 0; ``places`` is all -1 before and after."""
    for q in range(query_indptr.size - 1):
        for r in range(row_indptr[q], row_indptr[q + 1]):
            places[rows[r]] = r
        for i in range(query_indptr[q], query_indptr[q + 1]):
            rarity, idf = rarities[i], idfs[i]
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                r = places[docs[j]]
                if r >= 0:
                    count = float(counts[j])
                    share = count / max(lengths[docs[j]], 1)  # 0 in a damaged index
                    out[r, 0] += math.log(count + 1)
                    out[r, 1] += math.log(rarity + 1)
                    out[r, 2] += math.log(idf)
                    out[r, 3] += math.log(share + 1)
                    out[r, 4] += math.log(share * idf + 1)
                    out[r, 5] += math.log(share * rarity + 1)
        for r in range(row_indptr[q], row_indptr[q + 1]):
            out[r] = out[places[rows[r]]]  # for a document given twice, only its last row was added to
        for r in range(row_indptr[q], row_indptr[q + 1]):
            places[rows[r]] = -1
