"""Compiled parts of search: impacts of terms on documents, sums over terms, and the top k documents.

The sum of a document is kept in single precision, in an array ``sums`` over all documents that is 0 between queries.
The time of a query depends on its postings only:

1. The postings of all terms but the most frequent one are added up.
2. One pass over the postings of the most frequent term completes the sums of its documents, offers each to the top k,
   and marks it as done.
3. A pass over the postings of the other terms offers the documents that lack the most frequent term.

A document that is offered becomes one integer, its key: the bits of the score, flipped so that higher scores give lower
keys, then the document number. So the k lowest keys are the top k documents, ties in ascending order of documents.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = [
    "BUFFER",
    "add_up",
    "best_keys",
    "fill_impacts",
    "impact_of",
    "key_of",
    "keys_to_scores",
    "select",
    "sum_squares",
]

Array = npt.NDArray[Any]

BUFFER = 2048
"""Minimum size of the buffer of :func:`best_keys`; twice k if that is more."""

_SAMPLE = 1024
_SIGN = np.uint32(0x80000000)
_OTHERS = np.uint32(0x7FFFFFFF)
_HALF = np.uint64(32)
_LAST = np.uint32(0xFFFFFFFF)
_NONE = np.uint32(0)


def keys_to_scores(keys: Array) -> Array:
    """The scores encoded in keys, in double precision."""
    bits = (keys >> _HALF).astype(np.uint32)
    bits ^= np.where(bits < _SIGN, _OTHERS, _NONE)
    return bits.view(np.float32).astype(np.float64)


@njit(cache=True, nogil=True)
def sum_squares(weights: Any, indptr: Any, docs: Any, counts: Any, squares: Any) -> None:
    """Add the squares of w (1 + ln c) of every document."""
    for t in range(weights.size):
        for j in range(indptr[t], indptr[t + 1]):
            value = weights[t] * (1.0 + math.log(counts[j]))
            squares[docs[j]] += value * value


@njit(cache=True, nogil=True)
def impact_of(form: int, w: Any, c: Any, m: Any) -> Any:
    """The impact of a term of weight w that occurs c times in a document with the factor m."""
    if form == 0:
        return w * c / (c + m)
    if form == 1:
        return w * (1.0 + math.log(c)) * m
    return math.log1p(w * c * m)


@njit(cache=True, nogil=True)
def fill_impacts(
    form: int,
    terms: Any,
    weights: Any,
    factors: Any,
    indptr: Any,
    docs: Any,
    counts: Any,
    impacts: Any,
    lowest: Any,
) -> None:
    """Set the impacts of some terms on their documents, and the lowest impact of each term."""
    for i in range(terms.size):
        w = weights[i]
        least = np.float32(np.inf)
        for j in range(indptr[terms[i]], indptr[terms[i] + 1]):
            c = np.float64(counts[j])
            m = factors[docs[j]]
            impacts[j] = np.float32(impact_of(form, w, c, m))
            least = min(least, impacts[j])
        lowest[i] = least


@njit(cache=True, nogil=True)
def _add(docs: Any, impacts: Any, weight: Any, sums: Any) -> None:
    for j in range(docs.size):
        sums[docs[j]] += weight * impacts[j]


@njit(cache=True, nogil=True)
def add_up(terms: Any, weights: Any, indptr: Any, docs: Any, impacts: Any, sums: Any) -> None:
    """Add the weighted impacts of terms, in their order."""
    for i in range(terms.size):
        start, stop = indptr[terms[i]], indptr[terms[i] + 1]
        _add(docs[start:stop], impacts[start:stop], weights[i], sums)


@njit(cache=True, nogil=True)
def key_of(score: Any, doc: Any) -> Any:
    """The key of a document."""
    bits = np.float32(score).view(np.uint32)
    turned = np.uint64(bits if bits >= _SIGN else bits ^ _OTHERS)
    return (turned << _HALF) | np.uint64(doc)


@njit(cache=True, nogil=True)
def _score(key: Any) -> Any:
    bits = np.uint32(key >> _HALF)
    return np.uint32(bits if bits >= _SIGN else bits ^ _OTHERS).view(np.float32)


@njit(cache=True, nogil=True)
def select(keys: Any, n: int, k: int) -> None:
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
def _likely_bound(docs: Any, impacts: Any, weight: Any, size: Any, priors: Any, sums: Any, k: int, keys: Any) -> Any:
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
    docs: Any,
    impacts: Any,
    weight: Any,
    size: Any,
    priors: Any,
    sums: Any,
    done: Any,
    bound: Any,
    tied: Any,
    begin: int,
    keys: Any,
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
    terms: Any,
    weights: Any,
    size: Any,
    is_positive: bool,
    indptr: Any,
    docs: Any,
    impacts: Any,
    priors: Any,
    k: int,
    sums: Any,
    keys: Any,
) -> int:
    """Leave the best k keys in front, unordered; gives how many there are.

    If all sums are positive, 0 marks a document as done. Otherwise NaN does, which passes no bound, and the marks are
    removed at the end.
    """
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
    query_indptr: Any,
    terms: Any,
    weights: Any,
    sizes: Any,
    are_positive: Any,
    indptr: Any,
    docs: Any,
    impacts: Any,
    priors: Any,
    k: int,
    sums: Any,
    keys: Any,
    found_indptr: Any,
    found: Any,
) -> None:
    """The keys of the top k documents of each query, unordered.

    Parameters
    ----------
    query_indptr, terms, weights
        Query ``q`` owns the terms ``query_indptr[q]:query_indptr[q+1]``, the most frequent one last.
    sizes, are_positive
        The number of terms of each query, and whether all its impacts are positive and there are no priors.
    indptr, docs, impacts
        The postings; documents as unsigned numbers.
    priors
        One per document, or empty.
    sums, keys
        Workspace: zeros for all documents, left as zeros; at least ``max(2 * k, BUFFER)`` keys.
    found_indptr, found
        Filled: query ``q`` gets ``found[found_indptr[q]:found_indptr[q+1]]``.
    """
    found_indptr[0] = 0
    for q in range(sizes.size):
        first, last = query_indptr[q], query_indptr[q + 1]
        n = 0
        if last > first:
            n = _one_query(
                terms[first:last], weights[first:last], sizes[q], are_positive[q], indptr, docs, impacts, priors, k,
                sums, keys,
            )  # fmt: skip
        start = found_indptr[q]
        for i in range(n):
            found[start + i] = keys[i]
        found_indptr[q + 1] = start + n
