"""Fusion of runs without learning, the baseline for a learned combination.

Over the runs that retrieved a document d:

    rrf      Σ 1 / (k + rank(d))                         Cormack, Clarke and Büttcher 2009
    combsum  Σ score(d)                                  Fox and Shaw 1994
    combmnz  number of those runs · Σ score(d)           Fox and Shaw 1994

with scores normalised within each query. For ``combsum`` a run that did not retrieve d contributes its lowest score in
the query if that is below 0, so that a document never gains by not being found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.pool import Pool
from rankwright.data.run_features import normalized, ranks
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError

__all__ = ["METHODS", "fuse"]

Array = npt.NDArray[Any]
METHODS = ("rrf", "combsum", "combmnz")


def fuse(
    runs: Mapping[str, TrecTable] | Sequence[TrecTable],
    method: str = "rrf",
    *,
    k: float = 60.0,
    normalize: str = "minmax",
    depth: int | None = None,
) -> TrecTable:
    """Combine several runs into one.

    Parameters
    ----------
    runs : mapping or sequence of TrecTable
        The runs; the result has all queries of all runs.
    method : {"rrf", "combsum", "combmnz"}
        How to combine the scores.
    k : float
        For ``rrf``: the larger, the less the first ranks stand out.
    normalize : {"minmax", "zscore", "sum", "none"}
        For ``combsum`` and ``combmnz``: how scores are normalised, see :func:`rankwright.runs_to_data`.
    depth : int, optional
        Maximum number of documents per query; all by default.

    Examples
    --------
    >>> a = TrecTable.from_dict({"1": {"x": 9.0, "y": 7.0, "z": 5.0}})
    >>> b = TrecTable.from_dict({"1": {"w": 0.2, "x": 0.1}})
    >>> fused = fuse([a, b], "combmnz")
    >>> dict(zip(fused.doc_ids.tolist(), fused.values.tolist()))
    {b'w': 1.0, b'x': 2.0, b'y': 0.5, b'z': 0.0}
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}; expected one of {', '.join(METHODS)}")
    if not (np.isfinite(k) and k >= 0):
        raise InputError(f"k is {k}; expected a finite number of at least 0")
    if depth is not None and depth < 1:
        raise InputError(f"depth is {depth}; expected at least 1")
    tables = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    pool = Pool.of(tables)
    totals, counts = np.zeros(len(pool.keys)), np.zeros(len(pool.keys))
    for at, table in enumerate(tables):
        places, rows = pool.places(at)
        if method == "rrf":
            totals[places] += 1.0 / (k + ranks(table)[rows])
            continue
        scores = normalized(table, normalize)
        if method == "combmnz" and (scores < 0).any():
            what = f"scores below 0 (normalize is {normalize!r}), which combmnz cannot multiply"
            raise InputError(f"{table.name or 'a run'} has {what}; expected minmax or sum")
        own = pool.floors(at, scores)[pool.query]
        own[places] = scores[rows]
        totals += own
        counts[places] += 1.0
    if method == "combmnz":
        totals *= counts
    return _as_run(pool, totals, method, depth)


def _as_run(pool: Pool, scores: Array, name: str, depth: int | None) -> TrecTable:
    """The pairs of a pool with their scores, at most the top ``depth`` of each query."""
    query_ids, documents = np.array(pool.queries, dtype=str), pool.documents[pool.document]
    sizes = np.bincount(pool.query, minlength=len(query_ids))
    table = TrecTable(query_ids, sizes_to_indptr(sizes), documents, scores, name)
    if depth is None:
        return table
    kept = np.flatnonzero(ranks(table) <= depth)
    indptr = sizes_to_indptr(np.minimum(sizes, depth))
    return TrecTable(query_ids, indptr, documents[kept], scores[kept], name)
