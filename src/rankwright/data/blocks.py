"""Query blocks: gathers the rows of each query, whatever their order and type of query id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["as_bounds", "as_ids", "gather_queries", "join_ids", "query_chunks", "query_of_row", "sizes_to_indptr"]

Array = npt.NDArray[Any]


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
    if len({part.dtype.kind for part in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([part.astype(object) for part in parts])


def gather_queries(qid: Array) -> tuple[Array | None, Array, Array]:
    """Group rows by query, queries in the order of their first appearance, rows of a query in the given order.

    Returns
    -------
    rows : ndarray or None
        ``rows[i]`` is the given row at position ``i``; None if the rows are already grouped.
    indptr : ndarray
        Query ``q`` owns the positions ``indptr[q]:indptr[q+1]``.
    query_ids : ndarray
        One id per query.
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


def query_chunks(bounds: Array, n_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of queries: at least one query, at most about ``n_rows`` rows."""
    first, n_queries = 0, len(bounds) - 1
    while first < n_queries:
        last = int(np.searchsorted(bounds, bounds[first] + n_rows, side="right")) - 1
        last = min(max(last, first + 1), n_queries)
        yield first, last
        first = last
