"""Compiled parts of search and of features: impacts of terms on documents, sums over terms, and the top k documents.

The sum of a document is the same single-precision products added in the same order everywhere here, so scores, and
candidates of features, are bit-identical to those of search. All kernels leave their workspace as they got it.

Search under one function (:func:`best_keys`): sums are kept in an array over all documents that is 0 between queries,
so that the time of a query depends on its postings only:

1. The postings of all terms but the most frequent one are added up.
2. One pass over the postings of the most frequent term completes the sums of its documents, offers each to the top k,
   and marks it as done.
3. A pass over the postings of the other terms offers the documents that lack the most frequent term.

A document that is offered becomes one integer, its key: the bits of the score, flipped so that higher scores give lower
keys, then the document number. So the k lowest keys are the top k documents, ties in ascending order of documents.

Candidates and scores under several functions (:func:`mark_best`, :func:`fill_scores`): the documents of a term are
looked up once for all functions; what is added then is a row of numbers for each function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from rankwright._types import Arguments, Array

BUFFER = 2048
"""Minimum size of the buffer of :func:`best_keys`; twice k if that is more."""

_SAMPLE = 1024
_SIGN = np.uint32(0x80000000)
_OTHERS = np.uint32(0x7FFFFFFF)
_HALF = np.uint64(32)
_LAST = np.uint32(0xFFFFFFFF)
_NONE = np.uint32(0)
_BUCKETS = 1024
_FIRST_BUCKET, _LAST_BUCKET = np.float32(0), np.float32(_BUCKETS - 1)
_BUCKET_SAMPLE = 64
_OUT = np.uint16(_BUCKETS)  # the bucket of documents that cannot be candidates


def keys_to_scores(keys: Array) -> Array:
    """The scores encoded in keys, in double precision."""
    bits = (keys >> _HALF).astype(np.uint32)
    bits ^= np.where(bits < _SIGN, _OTHERS, _NONE)
    return bits.view(np.float32).astype(np.float64)


@njit(cache=True, nogil=True)
def sum_squares(weights: Array, indptr: Array, docs: Array, counts: Array, squares: Array) -> None:
    """Add the squares of w (1 + ln c) of every document."""
    for t in range(weights.size):
        for j in range(indptr[t], indptr[t + 1]):
            value = weights[t] * (1.0 + math.log(counts[j]))
            squares[docs[j]] += value * value


@njit(cache=True, nogil=True)
def impact_of(form: int, w: float, c: float, m: float) -> Any:
    """The impact of a term of weight w that occurs c times in a document with the factor m."""
    if form == 0:
        return w * c / (c + m)
    if form == 1:
        return w * (1.0 + math.log(c)) * m
    return math.log1p(w * c * m)


@njit(cache=True, nogil=True)
def fill_impacts(
    forms: Array,
    terms: Array,
    weights: Array,
    factors: Array,
    indptr: Array,
    docs: Array,
    counts: Array,
    impacts: Array,
    lowest: Array,
) -> None:
    """Set the impacts of some terms on their documents under every function, and the lowest of each term.

    `forms`: the form of each function. `terms`, `weights`: the terms, and their weights, functions × terms. `factors`:
    functions × documents. `indptr`, `docs`, `counts`: the postings of all terms; documents as unsigned numbers.
    `impacts`, `lowest`: filled for the given terms: functions × postings, functions × all terms.
    """
    for f in range(forms.size):
        form, function_factors, function_impacts = forms[f], factors[f], impacts[f]
        for i in range(terms.size):
            w = weights[f, i]
            minimum = np.float32(np.inf)
            for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                impact = np.float32(impact_of(form, w, np.float64(counts[j]), function_factors[docs[j]]))
                function_impacts[j] = impact
                minimum = min(minimum, impact)
            lowest[f, terms[i]] = minimum


@njit(cache=True, nogil=True)
def _add(docs: Array, impacts: Array, weight: float, sums: Array) -> None:
    for j in range(docs.size):
        sums[docs[j]] += weight * impacts[j]


@njit(cache=True, nogil=True)
def add_up(terms: Array, weights: Array, indptr: Array, docs: Array, impacts: Array, sums: Array) -> None:
    """Add the weighted impacts of terms, in their order."""
    for i in range(terms.size):
        start, stop = indptr[terms[i]], indptr[terms[i] + 1]
        _add(docs[start:stop], impacts[start:stop], weights[i], sums)


@njit(cache=True, nogil=True)
def key_of(score: float, doc: int) -> Any:
    bits = np.float32(score).view(np.uint32)
    turned = np.uint64(bits if bits >= _SIGN else bits ^ _OTHERS)
    return (turned << _HALF) | np.uint64(doc)


@njit(cache=True, nogil=True)
def _score(key: int) -> Any:
    bits = np.uint32(key >> _HALF)
    return np.uint32(bits if bits >= _SIGN else bits ^ _OTHERS).view(np.float32)


@njit(cache=True, nogil=True)
def select(keys: Array, n: int, k: int) -> None:
    """Move the k lowest of the first n keys to the front, the k-th of them last (Hoare's quickselect)."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        a, b, c = keys[low], keys[middle], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        if pivot == a:
            keys[low] = c
        elif pivot == b:
            keys[middle] = c
        place = low
        for i in range(low, high):  # branchless: which side a key goes to is unpredictable
            key = keys[i]
            keys[i] = keys[place]
            keys[place] = key
            place += key < pivot
        keys[high] = keys[place]
        keys[place] = pivot
        if place == k - 1:
            return
        if place >= k:
            high = place - 1
        else:
            low = place + 1


@njit(cache=True, nogil=True)
def _likely_bound(
    docs: Array, impacts: Array, weight: float, size: float, priors: Array, sums: Array, k: int, keys: Array
) -> Any:
    """A score that k documents of a list very likely reach, estimated from a sample; -inf for short lists."""
    stride = docs.size // _SAMPLE
    if stride < 2 or docs.size < 4 * k:
        return np.float32(-np.inf)
    n = docs.size // stride
    for i in range(n):
        doc = docs[i * stride]
        score = sums[doc] + weight * impacts[i * stride]
        if priors.size > 0:
            score += size * priors[doc]
        keys[i] = key_of(score, doc)
    expected = k / stride
    rank = int(expected + 3 * math.sqrt(expected)) + 1
    if rank > n:
        return np.float32(-np.inf)
    select(keys, n, rank)
    return _score(keys[rank - 1])


@njit(cache=True, nogil=True)
def _offer(
    docs: Array,
    impacts: Array,
    weight: float,
    size: float,
    priors: Array,
    sums: Array,
    done: float,
    bound: float,
    tied: int,
    begin: int,
    keys: Array,
    n: int,
) -> Any:
    """Offer the documents of a list from ``begin`` until its end or until the buffer is full; gives position and n."""
    for j in range(begin, docs.size):
        doc = docs[j]
        score = sums[doc] + weight * impacts[j]
        sums[doc] = done
        if priors.size > 0:
            score += size * priors[doc]
        if score > bound or (score == bound and doc < tied):
            keys[n] = key_of(score, doc)
            n += 1
            if n == keys.size:
                return j + 1, n
    return docs.size, n


@njit(cache=True, nogil=True)
def _one_query(
    terms: Array,
    weights: Array,
    size: float,
    is_positive: bool,
    postings: Arguments,
    priors: Array,
    k: int,
    sums: Array,
    keys: Array,
) -> int:
    """Leave the best k keys in front, unordered; gives how many there are.

    If all sums are positive, 0 marks a document as done. Otherwise NaN does, which passes no bound, and the marks are
    removed at the end.
    """
    indptr, docs, impacts = postings
    frequent = terms.size - 1
    zero: Any = np.int64(0)  # not a literal, for which numba would compile another version
    n = zero
    for attempt in range(2):
        add_up(terms[:frequent], weights[:frequent], indptr, docs, impacts, sums)
        start, stop = indptr[terms[frequent]], indptr[terms[frequent] + 1]
        bound = np.float32(-np.inf)
        tied = _LAST
        if attempt == 0:
            bound = _likely_bound(docs[start:stop], impacts[start:stop], weights[frequent], size, priors, sums, k, keys)
        is_guess = bound > -np.inf
        if not is_guess:
            bound = np.float32(0.0) if is_positive else bound
            tied = _NONE
        done = np.float32(0.0) if is_positive else np.float32(np.nan)
        n = zero
        for step in range(terms.size):
            i = frequent if step == 0 else step - 1
            weight = weights[i] if step == 0 else np.float32(0.0)
            start, stop = indptr[terms[i]], indptr[terms[i] + 1]
            place = zero
            while place < stop - start:
                place, n = _offer(
                    docs[start:stop], impacts[start:stop], weight, size, priors, sums, done, bound, tied, place, keys, n
                )
                is_end = step == frequent and place == stop - start
                if n == keys.size or (is_end and n > k):
                    select(keys, n, k)
                    n = k
                    bound = _score(keys[k - 1])
                    tied = np.uint32(keys[k - 1])
        if not is_positive:
            for i in range(terms.size):
                for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
                    sums[docs[j]] = 0
        if n >= k or not is_guess:
            break
    return n


@njit(cache=True, nogil=True)
def best_keys(
    queries: Arguments,
    postings: Arguments,
    priors: Array,
    lowest: Array,
    k: int,
    sums: Array,
    keys: Array,
    best_indptr: Array,
    best: Array,
) -> None:
    """The keys of the top k documents of each query, unordered.

    `queries`: ``indptr``, terms, weights and sizes: query ``q`` owns the terms ``indptr[q]:indptr[q+1]``, the most
    frequent one last; its size is the number of its terms, with repetition. `postings`: ``indptr``, documents as
    unsigned numbers, and impacts. `priors`, `lowest`: one prior per document, or none; the lowest impact of each term.
    `sums`, `keys`: workspace: zeros for all documents, left as zeros; at least ``max(2 * k, BUFFER)`` keys.
    `best_indptr`, `best`: filled: query ``q`` gets ``best[best_indptr[q]:best_indptr[q+1]]``.
    """
    query_indptr, terms, weights, sizes = queries
    best_indptr[0] = 0
    for q in range(sizes.size):
        first, last = query_indptr[q], query_indptr[q + 1]
        is_positive = priors.size == 0
        for i in range(first, last):
            is_positive &= not lowest[terms[i]] <= 0
        n = 0
        if last > first:
            n = _one_query(
                terms[first:last], weights[first:last], sizes[q], is_positive, postings, priors, k, sums, keys
            )
        start = best_indptr[q]
        for i in range(n):
            best[start + i] = keys[i]
        best_indptr[q + 1] = start + n


@njit(cache=True, nogil=True)
def flag_best(
    scores: Array, docs: Array, bound: float, k: int, places: Array, buckets: Array, keys: Array, flags: Array
) -> None:
    """Flag the k best documents with scores above a bound, ties in ascending order of documents.

    Scores fall into buckets of equal width, best first; only the one where the k-th is has to be looked at closely. The
    range that is divided into buckets is that of a sample; what is outside goes to the first bucket or the last.
    """
    if docs.size <= k:
        for i in range(docs.size):
            flags[i] |= scores[i] > bound
        return
    high, low = np.float32(-np.inf), np.float32(np.inf)
    for i in range(0, docs.size, docs.size // _BUCKET_SAMPLE + 1):
        if scores[i] > bound:
            high, low = max(high, scores[i]), min(low, scores[i])
    spread = high - low
    scale = np.float32(_BUCKETS - 1) / spread if 0 < spread < np.inf else np.float32(np.inf)
    if scale < np.inf:
        for i in range(docs.size):
            place = min(max((high - scores[i]) * scale, _FIRST_BUCKET), _LAST_BUCKET)
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
    queries: Arguments,
    postings: Arguments,
    function_priors: Arguments,
    lowest: Array,
    n_sources: int,
    k: int,
    places: Array,
    matching: Array,
    sums: Array,
    marks: Array,
) -> None:
    """Mark the top k documents of each query under each of the first ``n_sources`` functions.

    `queries`: ``indptr``, ``terms``, ``weights``, ``which`` and ``sizes``: query ``q`` owns the terms
    ``indptr[q]:indptr[q+1]``, rare ones first, with the weight ``weights[i, which[f]]`` for the function ``f``, and
    counts ``sizes[q]`` of them. `postings`: ``indptr``, documents as unsigned numbers, and impacts, functions ×
    postings. `function_priors`: for each function its row of priors or -1, and the priors, rows × documents. `lowest`:
    the lowest impact of each term, functions × terms. `places`, `matching`, `sums`: workspace: zeros for all documents,
    left as zeros; room for the documents of any query and one more; and for their sums, functions × documents. `marks`:
    queries × documents.
    """
    query_indptr, terms, weights, which, sizes = queries
    indptr, docs, impacts = postings
    prior_of, priors = function_priors
    buckets, keys = np.empty(matching.size, np.uint16), np.empty(matching.size, np.uint64)
    flags, rows = np.empty(matching.size, np.bool_), np.empty(matching.size, np.uint32)
    for q in range(sizes.size):
        n = np.int64(0)
        for i in range(query_indptr[q], query_indptr[q + 1]):
            start, stop = indptr[terms[i]], indptr[terms[i] + 1]
            before = n
            term_docs = docs[start:stop]
            for j in range(term_docs.size):  # branchless: whether a document is new is unpredictable
                doc = term_docs[j]
                place = places[doc]
                matching[n] = doc  # overwritten by the next unless it is new
                n += place == 0
                place = n if place == 0 else place
                places[doc] = place
                rows[j] = place - 1
            for f in range(which.size):
                sums_f, impacts_f, weight = sums[f], impacts[f, start:stop], weights[i, which[f]]
                sums_f[before:n] = 0
                for j in range(impacts_f.size):
                    sums_f[rows[j]] += weight * impacts_f[j]
        flags[:n] = False
        for f in range(n_sources):
            is_positive = prior_of[f] < 0
            for i in range(query_indptr[q], query_indptr[q + 1]):
                is_positive &= not lowest[f, terms[i]] <= 0
            if prior_of[f] >= 0:
                for m in range(n):
                    sums[f, m] += sizes[q] * priors[prior_of[f], matching[m]]
            bound = np.float32(0) if is_positive else np.float32(-np.inf)
            flag_best(sums[f, :n], matching[:n], bound, k, places, buckets, keys, flags)
        for m in range(n):
            places[matching[m]] = 0
            if flags[m]:
                marks[q, matching[m]] = True


@njit(cache=True, nogil=True)
def fill_scores(
    queries: Arguments,
    postings: Arguments,
    function_priors: Arguments,
    row_indptr: Array,
    rows: Array,
    columns: Array,
    places: Array,
    out: Array,
) -> None:
    """Set the scores of every row under every function.

    `queries`, `postings`, `function_priors`: as for :func:`mark_best`. `row_indptr`, `rows`: query ``q`` has the
    documents ``rows[row_indptr[q]:row_indptr[q+1]]``. `columns`: where the scores of each function go. `places`:
    workspace: zeros for all documents, left as zeros. `out`: columns × rows; only those of the functions are written.
    """
    query_indptr, terms, weights, which, sizes = queries
    indptr, docs, impacts = postings
    prior_of, priors = function_priors
    n_max = (row_indptr[1:] - row_indptr[:-1]).max()
    chosen, chosen_rows = np.empty(n_max + 1, np.uint32), np.empty(n_max + 1, np.uint32)
    for q in range(sizes.size):
        first, last = row_indptr[q], row_indptr[q + 1]
        is_repeated = False
        for r in range(first, last):
            is_repeated |= places[rows[r]] > 0
            places[rows[r]] = r - first + 1
        query_out = out[:, first:last]
        for f in range(columns.size):
            query_out[columns[f]] = 0
        for i in range(query_indptr[q], query_indptr[q + 1]):
            start, stop = indptr[terms[i]], indptr[terms[i] + 1]
            n = 0
            for j in range(stop - start):
                place = places[docs[start + j]]
                chosen[n], chosen_rows[n] = j, place - 1  # overwritten by the next unless this is a row
                n += place > 0
            for f in range(columns.size):
                sums_f, impacts_f, weight = query_out[columns[f]], impacts[f, start:stop], weights[i, which[f]]
                for t in range(n):
                    sums_f[chosen_rows[t]] += weight * impacts_f[chosen[t]]
        if is_repeated:  # a document given twice: only its last row was added to
            for f in range(columns.size):
                for r in range(last - first):
                    query_out[columns[f], r] = query_out[columns[f], places[rows[first + r]] - 1]
        for r in range(first, last):
            places[rows[r]] = 0
        for f in range(columns.size):
            if prior_of[f] >= 0:
                for r in range(last - first):
                    query_out[columns[f], r] += sizes[q] * priors[prior_of[f], rows[first + r]]


@njit(cache=True, nogil=True)
def fill_sums(
    queries: Arguments, postings: Arguments, row_indptr: Array, rows: Array, places: Array, out: Array
) -> None:
    """Add the six sums over terms to the rows of ``out``, all 0; ``places`` is all 0 before and after."""
    query_indptr, terms, rarities, idfs = queries
    indptr, docs, counts, lengths = postings
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
