"""Compiled features over one view: all retrieval functions in one pass over the postings of a query's terms.

The documents of a term are looked up once, for all functions; what is added then is a row of numbers for each function.
Every function adds the same single-precision products in the same order as
:mod:`rankwright.text.search.scorer_kernel`, so scores and candidates are bit-identical to those of search. All kernels
leave their workspace as they found it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from rankwright.text.search.scorer_kernel import impact_of, key_of, select

__all__ = ["fill_all_impacts", "fill_scores", "fill_sums", "flag_best", "mark_best"]

_BUCKETS = 1024
_FIRST, _LAST = np.float32(0), np.float32(_BUCKETS - 1)
_SAMPLE = 64
_OUT = np.uint16(_BUCKETS)  # the bucket of documents that cannot be candidates


@njit(cache=True, nogil=True)
def fill_all_impacts(
    forms: Any, terms: Any, weights: Any, factors: Any, indptr: Any, docs: Any, counts: Any, impacts: Any, lowest: Any
) -> None:
    """Set the impacts of some terms on their documents under every function, and the lowest of each term.

    Parameters
    ----------
    forms
        The form of each function.
    terms, weights
        The terms, and their weights, functions × terms.
    factors
        Functions × documents.
    indptr, docs, counts
        The postings of all terms; documents as unsigned numbers.
    impacts, lowest
        Filled for the given terms: functions × postings, functions × all terms.
    """
    for f in range(forms.size):
        form, own_factors, own_impacts = forms[f], factors[f], impacts[f]
        for i in range(terms.size):
            w = weights[f, i]
            least = np.float32(np.inf)
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                impact = np.float32(impact_of(form, w, np.float64(counts[j]), own_factors[docs[j]]))
                own_impacts[j] = impact
                least = min(least, impact)
            lowest[f, terms[i]] = least


@njit(cache=True, nogil=True)
def flag_best(scores: Any, docs: Any, bound: Any, k: int, places: Any, buckets: Any, keys: Any, flags: Any) -> None:
    """Flag the k best documents with scores above a bound, ties in ascending order of documents.

    Scores fall into buckets of equal width, best first; only the one where the k-th is has to be looked at closely. The
    range that is divided into buckets is that of a sample; what is outside goes to the first bucket or the last.
    """
    if docs.size <= k:
        for i in range(docs.size):
            flags[i] |= scores[i] > bound
        return
    high, low = np.float32(-np.inf), np.float32(np.inf)
    for i in range(0, docs.size, docs.size // _SAMPLE + 1):
        if scores[i] > bound:
            high, low = max(high, scores[i]), min(low, scores[i])
    spread = high - low
    scale = np.float32(_BUCKETS - 1) / spread if 0 < spread < np.inf else np.float32(np.inf)
    if scale < np.inf:
        for i in range(docs.size):
            place = min(max((high - scores[i]) * scale, _FIRST), _LAST)
            buckets[i] = np.uint16(place) if scores[i] > bound else _OUT
    else:  # one bucket for all
        for i in range(docs.size):
            buckets[i] = np.uint16(0) if scores[i] > bound else _OUT
    sizes = np.zeros(_BUCKETS + 1, np.int64)
    for i in range(docs.size):
        sizes[buckets[i]] += 1
    last, better = np.uint16(0), 0
    while last < _OUT and better + sizes[last] <= k:
        better += sizes[last]
        last += np.uint16(1)
    for i in range(docs.size):
        flags[i] |= buckets[i] < last
    if last == _OUT or better == k:
        return
    n = 0
    for i in range(docs.size):
        if buckets[i] == last:
            keys[n] = key_of(scores[i], docs[i])
            n += 1
    select(keys, n, k - better)
    for i in range(k - better):
        flags[places[np.uint32(keys[i])] - 1] = True


@njit(cache=True, nogil=True)
def mark_best(
    query_indptr: Any,
    terms: Any,
    weights: Any,
    which: Any,
    sizes: Any,
    indptr: Any,
    docs: Any,
    impacts: Any,
    prior_of: Any,
    priors: Any,
    lowest: Any,
    n_sources: int,
    k: int,
    places: Any,
    found: Any,
    sums: Any,
    marks: Any,
) -> None:
    """Mark the top k documents of each query under each of the first ``n_sources`` functions.

    Parameters
    ----------
    query_indptr, terms, weights, which, sizes
        Query ``q`` owns the terms ``query_indptr[q]:query_indptr[q+1]``, rare ones first, with the weight
        ``weights[i, which[f]]`` for the function ``f``, and counts ``sizes[q]`` of them.
    indptr, docs, impacts
        The postings; documents as unsigned numbers, and the impacts, functions × postings.
    prior_of, priors
        The row of ``priors``, priors × documents, that belongs to each function, or -1.
    lowest
        The lowest impact of each term, functions × terms.
    places, found, sums
        Workspace: zeros for all documents, left as zeros; room for the documents of any query and one more; and for
        their sums, functions × documents.
    marks
        Queries × documents.
    """
    buckets, keys = np.empty(found.size, np.uint16), np.empty(found.size, np.uint64)
    flags, rows = np.empty(found.size, np.bool_), np.empty(found.size, np.uint32)
    for q in range(sizes.size):
        n = np.int64(0)
        for i in range(query_indptr[q], query_indptr[q + 1]):
            start, stop = indptr[terms[i]], indptr[terms[i] + 1]
            known = n
            own_docs = docs[start:stop]
            for j in range(own_docs.size):  # branchless: whether a document is new is unpredictable
                doc = own_docs[j]
                place = places[doc]
                found[n] = doc  # overwritten by the next unless it is new
                n += place == 0
                place = n if place == 0 else place
                places[doc] = place
                rows[j] = place - 1
            for f in range(which.size):
                own_sums, own_impacts, weight = sums[f], impacts[f, start:stop], weights[i, which[f]]
                own_sums[known:n] = 0
                for j in range(own_impacts.size):
                    own_sums[rows[j]] += weight * own_impacts[j]
        flags[:n] = False
        for f in range(n_sources):
            is_positive = prior_of[f] < 0
            for i in range(query_indptr[q], query_indptr[q + 1]):
                is_positive &= not lowest[f, terms[i]] <= 0
            if prior_of[f] >= 0:
                for m in range(n):
                    sums[f, m] += sizes[q] * priors[prior_of[f], found[m]]
            bound = np.float32(0) if is_positive else np.float32(-np.inf)
            flag_best(sums[f, :n], found[:n], bound, k, places, buckets, keys, flags)
        for m in range(n):
            places[found[m]] = 0
            if flags[m]:
                marks[q, found[m]] = True


@njit(cache=True, nogil=True)
def fill_scores(
    query_indptr: Any,
    terms: Any,
    weights: Any,
    which: Any,
    sizes: Any,
    indptr: Any,
    docs: Any,
    impacts: Any,
    prior_of: Any,
    priors: Any,
    row_indptr: Any,
    rows: Any,
    columns: Any,
    places: Any,
    out: Any,
) -> None:
    """Set the scores of every row under every function.

    Parameters
    ----------
    query_indptr, terms, weights, which, sizes, indptr, docs, impacts, prior_of, priors
        As for :func:`mark_best`.
    row_indptr, rows
        Query ``q`` has the documents ``rows[row_indptr[q]:row_indptr[q+1]]``.
    columns
        Where the scores of each function go.
    places
        Workspace: zeros for all documents, left as zeros.
    out
        Columns × rows; only those of the functions are written.
    """
    most = (row_indptr[1:] - row_indptr[:-1]).max()
    chosen, own_rows = np.empty(most + 1, np.uint32), np.empty(most + 1, np.uint32)
    for q in range(sizes.size):
        first, last = row_indptr[q], row_indptr[q + 1]
        is_repeated = False
        for r in range(first, last):
            is_repeated |= places[rows[r]] > 0
            places[rows[r]] = r - first + 1
        own = out[:, first:last]
        for f in range(columns.size):
            own[columns[f]] = 0
        for i in range(query_indptr[q], query_indptr[q + 1]):
            start, stop = indptr[terms[i]], indptr[terms[i] + 1]
            n = 0
            for j in range(stop - start):
                place = places[docs[start + j]]
                chosen[n], own_rows[n] = j, place - 1  # overwritten by the next unless this is a row
                n += place > 0
            for f in range(columns.size):
                own_sums, own_impacts, weight = own[columns[f]], impacts[f, start:stop], weights[i, which[f]]
                for t in range(n):
                    own_sums[own_rows[t]] += weight * own_impacts[chosen[t]]
        if is_repeated:  # a document given twice: only its last row was added to
            for f in range(columns.size):
                for r in range(last - first):
                    own[columns[f], r] = own[columns[f], places[rows[first + r]] - 1]
        for r in range(first, last):
            places[rows[r]] = 0
        for f in range(columns.size):
            if prior_of[f] >= 0:
                for r in range(last - first):
                    own[columns[f], r] += sizes[q] * priors[prior_of[f], rows[first + r]]


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
    """Add the six sums over terms to the rows of ``out``, all 0; ``places`` is all 0 before and after."""
    for q in range(query_indptr.size - 1):
        first, last = row_indptr[q], row_indptr[q + 1]
        for r in range(first, last):
            places[rows[r]] = r - first + 1
        for i in range(query_indptr[q], query_indptr[q + 1]):
            rarity, idf = rarities[i], idfs[i]
            log_rarity, log_idf = math.log(rarity + 1), math.log(idf)
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                if places[docs[j]] > 0:
                    r = first + places[docs[j]] - 1
                    count = float(counts[j])
                    share = count / max(lengths[docs[j]], 1)  # 0 in a damaged index
                    out[r, 0] += math.log(count + 1)
                    out[r, 1] += log_rarity
                    out[r, 2] += log_idf
                    out[r, 3] += math.log(share + 1)
                    out[r, 4] += math.log(share * idf + 1)
                    out[r, 5] += math.log(share * rarity + 1)
        for r in range(first, last):
            out[r] = out[first + places[rows[r]] - 1]  # for a document given twice, only its last row was added to
        for r in range(first, last):
            places[rows[r]] = 0
