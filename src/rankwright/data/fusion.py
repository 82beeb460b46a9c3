"""Fusion of runs without learning, the baseline for a learned combination.

Over the runs that retrieved a document d, with ranks from 1:

    rrf        Σ 1 / (k + rank(d))                       Cormack, Clarke and Büttcher 2009
    isr        number of those runs · Σ 1 / rank(d)²     Mourão, Martins and Magalhães 2015
    logisr     ln(number of those runs) · Σ 1 / rank(d)² the same
    rbc        Σ (1 − φ) φ^(rank(d) − 1)                 Bailey, Moffat, Scholer and Thomas 2017
    borda      Σ n + 1 − rank(d)                         Aslam and Montague 2001
    condorcet  d above e if more runs say so             Montague and Aslam 2002
    combsum    Σ score(d)                                Fox and Shaw 1994
    combmnz    number of those runs · Σ score(d)         Fox and Shaw 1994

with scores normalised within each query. For ``combsum`` a run that did not retrieve d contributes its lowest score in
the query if that is below 0, so that a document never gains by not being retrieved. For ``borda`` n is the number of
documents of the query in all runs; a run's remaining points are shared by the documents that it did not retrieve.
For ``condorcet`` documents that a run did not retrieve are below those that it did; where votes are equal the order of
``borda`` decides, and of a cycle every document is placed so that no neighbour below it beats it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise
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
METHODS = ("rrf", "isr", "logisr", "rbc", "borda", "condorcet", "combsum", "combmnz")
_BY_SCORE = ("combsum", "combmnz")


def fuse(
    runs: Mapping[str, TrecTable] | Sequence[TrecTable],
    method: str = "rrf",
    *,
    k: float = 60.0,
    phi: float = 0.8,
    normalize: str = "minmax",
    depth: int | None = None,
) -> TrecTable:
    """Combine several runs into one.

    Parameters
    ----------
    runs : mapping or sequence of TrecTable
        The runs; the result has all queries of all runs.
    method : {"rrf", "isr", "logisr", "rbc", "borda", "condorcet", "combsum", "combmnz"}
        How to combine ranks or, for the last two, scores.
    k : float
        For ``rrf``: the larger, the less the first ranks stand out.
    phi : float
        For ``rbc``: how likely a user is to go on to the next rank.
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
    if not 0 <= phi <= 1:
        raise InputError(f"phi is {phi}; expected a number from 0 to 1")
    tables = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    pool = Pool.of(tables)
    if method in _BY_SCORE:
        totals = _by_score(pool, tables, method, normalize)
    else:
        totals = _by_rank(pool, _ranks(pool, tables), method, k, phi)
    return _as_run(pool, totals, method, depth)


def _by_score(pool: Pool, tables: Sequence[TrecTable], method: str, normalize: str) -> Array:
    """Sums of scores, times the number of runs for ``combmnz``."""
    totals, counts = np.zeros(len(pool.keys)), np.zeros(len(pool.keys))
    for number, table in enumerate(tables):
        places, rows = pool.places(number)
        scores = normalized(table, normalize)
        if method == "combmnz" and (scores < 0).any():
            problem = f"scores below 0 (normalize is {normalize!r}), which combmnz cannot multiply"
            raise InputError(f"{table.name or 'a run'} has {problem}; expected minmax or sum")
        floors = pool.floors(number, scores)[pool.query]
        floors[places] = scores[rows]
        totals += floors
        counts[places] += 1.0
    return totals * counts if method == "combmnz" else totals


def _ranks(pool: Pool, tables: Sequence[TrecTable]) -> Array:
    """Rank of every pair in every run, from 1; inf if it was not retrieved."""
    ranked = np.full((len(tables), len(pool.keys)), np.inf)
    for number, table in enumerate(tables):
        places, rows = pool.places(number)
        ranked[number, places] = ranks(table)[rows]
    return ranked


def _by_rank(pool: Pool, rank: Array, method: str, k: float, phi: float) -> Array:
    """Score of each pair by its ranks."""
    if method == "rrf":
        return np.asarray((1.0 / (k + rank)).sum(axis=0))
    if method == "rbc":
        return np.asarray(np.where(np.isfinite(rank), (1.0 - phi) * phi ** (rank - 1.0), 0.0).sum(axis=0))
    if method == "borda":
        return _borda(pool, rank)
    if method == "condorcet":
        return _condorcet(pool, rank, _borda(pool, rank))
    n_runs = np.isfinite(rank).sum(axis=0)
    return np.asarray((1.0 / rank**2).sum(axis=0) * (n_runs if method == "isr" else np.log(n_runs)))


def _borda(pool: Pool, rank: Array) -> Array:
    sizes = np.bincount(pool.query, minlength=len(pool.queries))
    totals = np.zeros(len(pool.keys))
    for run_ranks in rank:
        retrieved = np.isfinite(run_ranks)
        n_retrieved = np.bincount(pool.query[retrieved], minlength=len(pool.queries))
        remaining = ((sizes - n_retrieved + 1.0) / 2.0)[pool.query]  # mean of the run's remaining points
        totals += np.where(retrieved, sizes[pool.query] + 1.0 - run_ranks, remaining)
    return totals


def _condorcet(pool: Pool, rank: Array, start: Array) -> Array:
    """A document is above another if more runs rank it above; the score is the position from the end."""
    bounds = np.searchsorted(pool.query, np.arange(len(pool.queries) + 1)).tolist()
    scores = np.zeros(len(pool.keys))
    for first, last in pairwise(bounds):
        order = first + np.argsort(-start[first:last], kind="stable")
        rows = rank[:, order].T.tolist()

        def lost(one: int, other: int, rows: list[list[float]] = rows) -> int:
            pairs = zip(rows[one], rows[other], strict=True)
            return sum((own > its) - (own < its) for own, its in pairs)

        places = sorted(range(last - first), key=cmp_to_key(lost))
        scores[order[places]] = np.arange(last - first, 0, -1)
    return scores


def _as_run(pool: Pool, scores: Array, name: str, depth: int | None) -> TrecTable:
    """The pairs of a pool with their scores, at most ``depth`` per query."""
    query_ids, documents = np.array(pool.queries, dtype=str), pool.documents[pool.document]
    sizes = np.bincount(pool.query, minlength=len(query_ids))
    table = TrecTable(query_ids, sizes_to_indptr(sizes), documents, scores, name)
    if depth is None:
        return table
    top = np.flatnonzero(ranks(table) <= depth)
    indptr = sizes_to_indptr(np.minimum(sizes, depth))
    return TrecTable(query_ids, indptr, documents[top], scores[top], name)
