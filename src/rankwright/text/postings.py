"""Postings: which documents contain a term, and how often. Inverting, joining segments, merging terms.

All fields of an index share three arrays: field ``f`` and term ``t`` own the postings
``indptr[f, t]:indptr[f, t + 1]`` of ``docs`` and ``counts``, documents ascending.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rankwright._types import Array

_BLOCK = 1 << 20


class CountedBatch(NamedTuple):
    """The words of some documents, as the tokeniser counts them: row ``d * n_fields + f`` is field f of document d."""

    first_doc: int
    n_fields: int
    terms: Array
    counts: Array
    row_ends: Array


@dataclass(frozen=True, eq=False)
class Segment:
    """The postings of some documents.

    `terms`: the numbers of its terms, in byte order. `indptr`: field ``f`` of the term ``terms[t]`` owns the postings
    ``indptr[f, t]:indptr[f, t + 1]``. `docs`, `counts`: the postings.
    """

    terms: Array
    indptr: Array
    docs: Array
    counts: Array


@njit(cache=True)
def _sizes(terms: Any, row_ends: Any, n_fields: int, place: Any, sizes: Any) -> None:
    """Count the postings of every field and term."""
    at = 0
    for row in range(len(row_ends)):
        field = row % n_fields
        while at < row_ends[row]:
            sizes[field, place[terms[at]]] += 1
            at += 1


@njit(cache=True)
def _scatter(
    terms: Any,
    counts: Any,
    row_ends: Any,
    n_fields: int,
    first_doc: int,
    place: Any,
    free: Any,
    out_docs: Any,
    out_counts: Any,
) -> None:
    """Put every posting into the first free slot of its field and term."""
    at = 0
    for row in range(len(row_ends)):
        doc, field = first_doc + row // n_fields, row % n_fields
        while at < row_ends[row]:
            term = place[terms[at]]
            to = free[field, term]
            free[field, term] = to + 1
            out_docs[to] = doc
            out_counts[to] = counts[at]
            at += 1


def inverted(batches: Sequence[CountedBatch], n_fields: int, order: Array) -> Segment:
    """Invert batches; ``order`` lists the numbers of all terms known by then in byte order."""
    used = np.zeros(len(order), np.bool_)
    for batch in batches:
        used[batch.terms] = True
    terms = order[used[order]]
    place = np.empty(len(order), np.int64)
    place[terms] = np.arange(len(terms))
    sizes = np.zeros((n_fields, len(terms)), np.int64)
    for batch in batches:
        _sizes(batch.terms, batch.row_ends, batch.n_fields, place, sizes)
    indptr = _indptr_of(sizes)
    n = int(indptr[-1, -1])
    docs, counts = np.empty(n, np.int32), np.empty(n, np.int32)
    free = indptr[:, :-1].copy()
    for batch in batches:
        _scatter(batch.terms, batch.counts, batch.row_ends, batch.n_fields, batch.first_doc, place, free, docs, counts)
    return Segment(terms, indptr, docs, counts)


def _indptr_of(sizes: Array) -> Array:
    """Boundaries of blocks of these sizes, row by row; each row starts where the last one ends."""
    indptr = np.zeros((sizes.shape[0], sizes.shape[1] + 1), np.int64)
    ends = np.cumsum(sizes).reshape(sizes.shape)
    indptr[:, 1:] = ends
    if sizes.shape[1]:
        indptr[1:, 0] = ends[:-1, -1]
    return indptr


@njit(cache=True)
def _place_rows(rows: Any, indptr: Any, docs: Any, counts: Any, free: Any, out_docs: Any, out_counts: Any) -> None:
    """Append the postings of some terms; ``docs`` and ``counts`` hold only theirs."""
    for r in range(len(rows)):
        to = free[rows[r]]
        for at in range(indptr[r] - indptr[0], indptr[r + 1] - indptr[0]):
            out_docs[to] = docs[at]
            out_counts[to] = counts[at]
            to += 1
        free[rows[r]] = to


def joined(
    segments: Sequence[Segment], place: Array, n_fields: int, block: int = _BLOCK
) -> tuple[Array, Iterator[tuple[Array, Array]]]:
    """Join segments, each with later documents than the one before.

    `segments`: the segments. `place`: the position of every term in byte order. `n_fields`: number of fields; a segment
    may have fewer. `block`: approximate number of postings held in memory. Returns `indptr`: boundaries over all terms.
    `blocks`: the postings, block by block.
    """
    rows = [place[segment.terms] for segment in segments]
    sizes = np.zeros((n_fields, len(place)), np.int64)
    for segment, row in zip(segments, rows, strict=True):
        for field in range(len(segment.indptr)):
            sizes[field, row] += np.diff(segment.indptr[field])
    indptr = _indptr_of(sizes)
    return indptr, _joined_blocks(segments, rows, indptr, block)


def _joined_blocks(
    segments: Sequence[Segment], rows: Sequence[Array], indptr: Array, block: int
) -> Iterator[tuple[Array, Array]]:
    n_terms = indptr.shape[1] - 1
    for field in range(len(indptr)):
        first = 0
        while first < n_terms:
            limit = int(indptr[field, first]) + block
            last = max(first + 1, int(np.searchsorted(indptr[field], limit, side="right")) - 1)
            bounds = indptr[field, first : last + 1]
            n = int(bounds[-1] - bounds[0])
            docs, counts = np.empty(n, np.int32), np.empty(n, np.int32)
            free = bounds[:-1] - bounds[0]
            for segment, row in zip(segments, rows, strict=True):
                if field < len(segment.indptr):
                    a, b = np.searchsorted(row, (first, last)).tolist()
                    bounds_of_segment = np.array(segment.indptr[field, a : b + 1])
                    span = slice(int(bounds_of_segment[0]), int(bounds_of_segment[-1]))
                    arrays = np.array(segment.docs[span]), np.array(segment.counts[span])
                    _place_rows(row[a:b] - first, bounds_of_segment, *arrays, free, docs, counts)
            yield docs, counts
            first = last


def terms_by_group(groups: Array, n_groups: int) -> tuple[Array, Array]:
    """The terms of every group, ascending, and where each group starts; group -1 is left out."""
    sizes = np.bincount(groups[groups >= 0], minlength=n_groups)
    members = np.argsort(groups, kind="stable")[len(groups) - int(sizes.sum()) :]
    return members, np.concatenate([[0], np.cumsum(sizes)])


@njit(cache=True)
def _merge_runs(bounds: Any, n_runs: int, source: Any, target: Any) -> tuple[int, Any]:
    """Merge ascending runs of (document, count) pairwise until one is left; gives its length and its array."""
    while n_runs > 1:
        n = made = 0
        for run in range(0, n_runs, 2):
            a, a_stop = bounds[run], bounds[run + 1]
            b, b_stop = a_stop, bounds[min(run + 2, n_runs)]
            bounds[made] = n  # never overtakes what is still to be read
            made += 1
            while a < a_stop or b < b_stop:
                if b == b_stop or (a < a_stop and source[0, a] < source[0, b]):
                    target[0, n], target[1, n] = source[0, a], source[1, a]
                    a += 1
                elif a == a_stop or source[0, b] < source[0, a]:
                    target[0, n], target[1, n] = source[0, b], source[1, b]
                    b += 1
                else:
                    target[0, n], target[1, n] = source[0, a], source[1, a] + source[1, b]
                    a += 1
                    b += 1
                n += 1
        bounds[made] = n
        n_runs = made
        source, target = target, source
    return bounds[1], source


@njit(cache=True)
def _group_size(indptr: Any, fields: Any, members: Any) -> tuple[Any, Any]:
    """The number of postings of some terms, and of the (term, field) pairs that have any."""
    total = n_runs = np.int64(0)  # a plain 0 would make numba compile the callers twice
    for member in members:
        for field in fields:
            size = indptr[field, member + 1] - indptr[field, member]
            total += size
            n_runs += np.int64(size > 0)
    return total, n_runs


@njit(cache=True)
def _merge_dense(postings: Any, fields: Any, members: Any, sums: Any, out_docs: Any, out_counts: Any, n: int) -> int:
    """Merge the postings of terms through a count for every document, all 0 before and after; gives the new end."""
    indptr, docs, counts = postings
    for member in members:
        for field in fields:
            for p in range(indptr[field, member], indptr[field, member + 1]):
                sums[docs[p]] += counts[p]
    for doc in range(len(sums)):
        if sums[doc] > 0:
            out_docs[n], out_counts[n] = doc, sums[doc]
            sums[doc] = 0
            n += 1
    return n


@njit(cache=True)
def _merge_sparse(postings: Any, fields: Any, members: Any, space: Any, out_docs: Any, out_counts: Any, n: int) -> int:
    """Merge the postings of terms run by run; gives the new end."""
    indptr, docs, counts = postings
    bounds, source, target = space
    at = n_runs = np.int64(0)
    for member in members:
        for field in fields:
            first, stop = indptr[field, member], indptr[field, member + 1]
            if first < stop:
                bounds[n_runs] = at
                n_runs += 1
            for p in range(first, stop):
                source[0, at], source[1, at] = docs[p], counts[p]
                at += 1
    bounds[n_runs] = at
    n_merged, where = _merge_runs(bounds, n_runs, source, target)
    for p in range(n_merged):
        out_docs[n], out_counts[n] = where[0, p], where[1, p]
        n += 1
    return n


@njit(cache=True)
def _merge_groups(
    postings: Any, fields: Any, members: Any, starts: Any, group: int, space: Any, sums: Any, lengths: Any, out: Any
) -> int:
    """Merge the postings of group after group, until all are done or room may run out; gives the next group."""
    indptr, docs, counts = postings
    out_docs, out_counts, sizes = out
    n = np.int64(0)
    while group < len(starts) - 1:
        of_group = members[starts[group] : starts[group + 1]]
        total, n_runs = _group_size(indptr, fields, of_group)
        room = len(out_docs) - n
        if total > room and len(lengths) > room:
            break
        begun = n
        if n_runs == 1:  # nothing to merge
            for member in of_group:
                for field in fields:
                    for p in range(indptr[field, member], indptr[field, member + 1]):
                        out_docs[n], out_counts[n] = docs[p], counts[p]
                        n += 1
        elif total > len(lengths) // 4:
            n = _merge_dense(postings, fields, of_group, sums, out_docs, out_counts, n)
        elif n_runs > 1:
            n = _merge_sparse(postings, fields, of_group, space, out_docs, out_counts, n)
        for p in range(begun, n):
            lengths[out_docs[p]] += out_counts[p]
        sizes[group] = n - begun
        group += 1
    return group


def merged(
    postings: tuple[Array, Array, Array],
    fields: Sequence[int],
    members: Array,
    starts: Array,
    lengths: Array,
    block: int = _BLOCK,
) -> Iterator[tuple[Array, Array, Array]]:
    """Merge the postings of words that share a term, and of fields.

    `postings`: ``indptr``, ``docs`` and ``counts`` of the index. `fields`: the fields to merge. `members`, `starts`:
    group ``g`` is the terms ``members[starts[g]:starts[g + 1]]``. `lengths`: one number per document, to which the
    counts are added. `block`: approximate number of postings held in memory. Yields `docs`, `counts`, `sizes`: postings
    of some groups, and how many each group has.
    """
    n_docs, n_groups = len(lengths), len(starts) - 1
    indptr, docs, counts = postings
    frozen = (_frozen(indptr), _frozen(docs), _frozen(counts))
    room = n_docs // 4 + 2
    space = (np.empty(room, np.int64), np.empty((2, room), np.int32), np.empty((2, room), np.int32))
    sums = np.zeros(n_docs, np.int32)
    sizes = np.zeros(n_groups, np.int64)
    out_docs, out_counts = (np.empty(max(block, n_docs), np.int32) for _ in range(2))
    chosen = np.array(fields, np.int64)
    group = 0
    while group < n_groups:
        out = (out_docs, out_counts, sizes)
        after = _merge_groups(frozen, chosen, members, starts, group, space, sums, lengths, out)
        merged_sizes = sizes[group:after]
        n = int(merged_sizes.sum())
        yield out_docs[:n].copy(), out_counts[:n].copy(), merged_sizes.copy()
        group = after


def _frozen(array: Array) -> Array:
    """A read-only view: kernels then see one type of array, mapped from disk or not."""
    array = np.asarray(array).view()
    array.flags.writeable = False
    return array


# No other compiled code sees postings that have not passed these checks.
_MAX = np.int64(2**31 - 1)


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
        if total > _MAX:
            return False
        sums[docs[j]] = total
    return True
