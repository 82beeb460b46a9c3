"""Query blocks, and THE tie rule: score descending, then document id descending as strings, as trec_eval has it.

Without ids, ties keep the input order. Every ranking in the package comes from here: numpy's fastest unstable sort,
then all ties are settled. (Runs are compared in single precision by their callers, because trec_eval does.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.errors import InputError

# Query blocks: gathers the rows of each query, whatever their order and type of query id.


def as_ids(values: Any) -> Array:
    """An array of ids; mixed types stay apart (np.asarray would turn 1 and "1" into one id)."""
    if hasattr(values, "__array__"):
        return np.asarray(values)
    items = list(values)
    if len({type(item) for item in items}) == 1 and np.ndim(items[0]) == 0:
        array = np.asarray(items)
        # Whole numbers that fit no common integer type would come back rounded, and two ids could become one.
        if array.dtype.kind != "f" or isinstance(items[0], (float, np.floating)):
            return array
    array = np.empty(len(items), object)
    array[:] = items
    return array


def join_ids(parts: Sequence[Array]) -> Array:
    """Ids of several arrays in one; types stay distinct, as in :func:`as_ids`."""
    if len({ids.dtype.kind for ids in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([ids.astype(object) for ids in parts])


def gather_queries(qid: Array) -> tuple[Array | None, Array, Array]:
    """Group rows by query, queries in the order of their first appearance, rows of a query in the given order.

    Returns `rows`: ``rows[i]`` is the given row at position ``i``; None if the rows are already grouped. `indptr`:
    query ``q`` owns the positions ``indptr[q]:indptr[q+1]``. `query_ids`: one id per query.
    """
    if qid.ndim != 1:
        raise InputError(f"qid must have one entry per row, got an array of shape {qid.shape}")
    if len(qid) == 0:
        return None, np.zeros(1, np.int64), qid
    starts = np.flatnonzero(np.concatenate([[True], qid[1:] != qid[:-1]]))
    heads = qid[starts]
    # Only the head of each run of equal ids is looked up: a sorted file costs one lookup per query.
    if qid.dtype.kind == "O":
        index: dict[Any, int] = {}
        codes = np.fromiter((index.setdefault(_checked_id(head), len(index)) for head in heads), np.int64, len(heads))
        query_ids = np.empty(len(index), object)
        query_ids[:] = list(index)
    else:
        missing = heads != heads
        if missing.any():
            raise InputError(f"qid contains {heads[missing][0]}; every row needs a query id")
        unique, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
        appearance = np.argsort(first)
        place = np.empty(len(unique), np.int64)
        place[appearance] = np.arange(len(unique))
        codes, query_ids = place[inverse], unique[appearance]
    run_sizes = np.diff(np.append(starts, len(qid)))
    indptr = sizes_to_indptr(np.bincount(codes, weights=run_sizes, minlength=len(query_ids)).astype(np.int64))
    if len(query_ids) == len(starts):
        return None, indptr, query_ids
    return np.argsort(np.repeat(codes, run_sizes), kind="stable"), indptr, query_ids


def _checked_id(head: Any) -> Any:
    if head is None or head != head:
        raise InputError(f"qid contains {head}; every row needs a query id")
    return head


def sizes_to_indptr(sizes: Array) -> Array:
    """Query boundaries from the number of documents per query."""
    indptr = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    return indptr


def as_bounds(places: Array) -> Array:
    """Read-only boundaries or starts of queries: kernels would be compiled anew for writable ones."""
    view = np.ascontiguousarray(places, np.int64).view()
    view.flags.writeable = False
    return view


def query_of_row(indptr: Array) -> Array:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def rows_of(starts: Array, indptr: Array) -> Array:
    """The rows of queries that start at ``starts``, query after query; ``indptr`` gives their sizes."""
    return np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], np.diff(indptr))


def query_chunks(bounds: Array, n_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries: at least one query, at most about ``n_rows`` rows."""
    first, n_queries = 0, len(bounds) - 1
    while first < n_queries:
        # In the type of the bounds: it cannot overflow, and they are not converted for each search.
        limit = bounds.dtype.type(min(int(bounds[first]) + n_rows, int(bounds[-1])))
        last = max(first + 1, int(np.searchsorted(bounds, limit, side="right")) - 1)
        yield first, last
        first = last


_AT_ONCE = 1 << 17  # documents sorted together: more would take more memory and the same time
_LOOP_FROM = 64  # documents per query above which sorting query by query beats one lexsort


def rank_order(scores: Array, indptr: Array, doc_ids: Array | None = None) -> Array:
    """Positions in rank order, query by query: ``order[indptr[q]]`` is the top document of query ``q``.

    `scores`: one finite number per document, higher is better. `indptr`: query boundaries. `doc_ids`: ids that break
    ties, compared as strings, descending.
    """
    finite = np.isfinite(scores)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"the score of document {row} (from 0) is {scores[row]}; scores must be finite")
    if len(scores) <= _AT_ONCE:
        return _ranked(scores, indptr, doc_ids)
    order = np.empty(len(scores), np.int64)
    for first, last in query_chunks(indptr, _AT_ONCE):
        rows = slice(int(indptr[first]), int(indptr[last]))
        ids = None if doc_ids is None else doc_ids[rows]
        order[rows] = _ranked(scores[rows], indptr[first : last + 1] - rows.start, ids)
        order[rows] += rows.start
    return order


def _ranked(scores: Array, indptr: Array, doc_ids: Array | None) -> Array:
    n_queries, n_docs = len(indptr) - 1, len(scores)
    falling = -scores if scores.dtype.kind == "f" else ~scores  # the negative of a whole number can overflow
    sizes = np.diff(indptr)
    # The fast unstable sorts may leave equal scores in any order; _break_ties settles them all.
    if n_queries and (sizes == sizes[0]).all():
        order = np.argsort(falling.reshape(n_queries, -1), axis=1).reshape(-1)
        order += np.repeat(indptr[:-1], sizes)
    elif n_docs >= _LOOP_FROM * n_queries:
        order = np.empty(n_docs, np.int64)
        for start, stop in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
            order[start:stop] = np.argsort(falling[start:stop])
            order[start:stop] += start
    else:
        order = np.lexsort((falling, query_of_row(indptr)))
    _break_ties(order, scores, indptr, doc_ids)
    return order


def _break_ties(order: Array, scores: Array, indptr: Array, doc_ids: Array | None) -> None:
    if len(order) == 0:
        return
    ranked = scores[order]
    tied_to_next = np.append(ranked[1:] == ranked[:-1], False)
    tied_to_next[indptr[1:][indptr[1:] > 0] - 1] = False  # the last document of a query is not tied to the next
    if not tied_to_next.any():
        return
    tied = tied_to_next.copy()
    tied[1:] |= tied_to_next[:-1]
    places = np.flatnonzero(tied)
    ends = ~tied_to_next[places]
    group = np.cumsum(ends) - ends  # one number per run of equal scores
    members = order[places]
    if doc_ids is None:
        order[places] = members[np.lexsort((members, group))]
        return
    ids = doc_ids[members]
    ids = ids if ids.dtype.kind in "SU" else ids.astype(str)
    # Equal ids keep input order; -members and the reversal below reverse it twice.
    order[places] = members[np.lexsort((-members, ids, -group))[::-1]]


def descending(values: Array, indptr: Array) -> Array:
    sizes = np.diff(indptr)
    if len(sizes) and (sizes == sizes[0]).all():
        return -np.sort(-values.reshape(len(sizes), -1), axis=1).reshape(-1)
    if len(values) >= _LOOP_FROM * len(sizes):
        ordered = -values
        for start, stop in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
            ordered[start:stop].sort()
        return -ordered
    return values[np.lexsort((-values, query_of_row(indptr)))]


# Clicks, one page each: a page with k clicks becomes k pages on which nothing else is clicked.
#
# A click says that its document should be above all others of the page, whatever else was clicked there. A sum over
# clicks, each weighted by the inverse propensity of its position, is unbiased: its mean is what it would be if
# everything had been looked at (Agarwal, Takatsu, Zaitsev and Joachims: A general framework for counterfactual
# learning-to-rank, 2019). Pairs of a clicked document and one that was *not* clicked do not have this property: which
# others were clicked depends on where they were shown. Nor does a measure normalised by the number of clicks of a page.


@dataclass(frozen=True, eq=False)
class Clicked:
    """A page for every click.

    `clicks`: the clicked documents: labels above 0, on pages of more than one document. `query`: the page of each
    click. `rows`: the documents of its page, click after click. `labels`: 1 for the click itself, 0 for the others.
    `indptr`: click ``c`` owns ``rows[indptr[c]:indptr[c+1]]``.
    """

    clicks: Array
    query: Array
    rows: Array
    labels: Array
    indptr: Array

    @classmethod
    def of(cls, labels: Array, indptr: Array) -> Clicked:
        """Take the clicks apart.

        Examples
        --------
        >>> pages = Clicked.of(np.array([1.0, 0, 1, 0, 0]), np.array([0, 3, 5]))
        >>> pages.rows.tolist(), pages.labels.tolist()
        ([0, 1, 2, 0, 1, 2], [1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
        """
        of_row, sizes = query_of_row(indptr), np.diff(indptr)
        clicks = np.flatnonzero((labels > 0) & (sizes[of_row] > 1))
        query = of_row[clicks]
        bounds = sizes_to_indptr(sizes[query])
        rows = rows_of(indptr[query], bounds)
        return cls(clicks, query, rows, (rows == np.repeat(clicks, sizes[query])).astype(np.float64), bounds)


_COMPARED = 1000  # documents of a query at most


def share_reordered(first: Array, second: Array, indptr: Array) -> float:
    """The share of pairs of documents of a query that two scores order differently, over all queries.

    Of long queries, every so many-th document is compared.

    Examples
    --------
    >>> share_reordered(np.array([3.0, 2, 1, 5, 4]), np.array([3.0, 1, 2, 5, 4]), np.array([0, 3, 5]))
    0.25
    """
    different = pairs = 0
    for start, stop in pairwise(indptr.tolist()):
        rows = slice(start, stop, -(-(stop - start) // _COMPARED) or 1)
        a, b = first[rows], second[rows]
        different += int(((a[:, None] > a) & (b[:, None] < b)).sum())
        pairs += len(a) * (len(a) - 1) // 2
    return different / pairs if pairs else 0.0
