"""THE tie rule: score descending, then document id descending as strings (trec_eval's rule); without ids, input order.

Every ranking in the package comes from here: numpy's fastest unstable sort, then all ties are settled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_chunks, query_of_row
from rankwright.errors import InputError

__all__ = ["descending", "rank_order"]

Array = npt.NDArray[Any]
_AT_ONCE = 1 << 17  # documents sorted together: more would take more memory and the same time
_LOOP_FROM = 64  # documents per query above which sorting query by query beats one lexsort


def rank_order(scores: Array, indptr: Array, doc_ids: Array | None = None) -> Array:
    """Positions in rank order, query by query: ``order[indptr[q]]`` is the top document of query ``q``.

    Parameters
    ----------
    scores : ndarray
        One finite number per document, higher is better.
    indptr : ndarray
        Query boundaries.
    doc_ids : ndarray, optional
        Ids that break ties, compared as strings, descending.
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
