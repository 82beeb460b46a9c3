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

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData
from rankwright.data.order import query_of_row, rank_order, sizes_to_indptr
from rankwright.data.trec_table import TrecTable, decoded_ids
from rankwright.errors import InputError, InputWarning

__all__ = ["fuse", "runs_to_data"]

# The (query, document) pairs of several runs, joined without a Python loop over rows.


_FACTOR = 0x9E3779B97F4A7C15  # odd, with irregular bits


@dataclass(frozen=True, eq=False)
class Pool:
    """All pairs of at least one run, ascending: ``key = query · number of documents + document``.

    `queries`: ids of the queries. `documents`: ids of all documents, ascending. `keys`: the pairs, each once. `rows`:
    for every table the key of each of its rows; −1 if the pool does not have the query.
    """

    queries: list[str]
    documents: Array
    keys: Array
    rows: tuple[Array, ...]

    @classmethod
    def of(cls, runs: Sequence[TrecTable], qrels: TrecTable | None = None, with_judged: bool = False) -> Pool:
        """Join runs.

        `runs`: at least one. `qrels`: judgements, which become the last table; the queries are then theirs.
        `with_judged`: whether judged pairs belong to the pool.
        """
        if not runs:
            raise InputError("no runs; expected at least one")
        tables = [*runs, *([] if qrels is None else [qrels])]
        named = runs if qrels is None else [qrels]
        queries = list(dict.fromkeys(chain.from_iterable(table.query_ids.tolist() for table in named)))
        documents, codes = _numbered(tables)
        number = {query: at for at, query in enumerate(queries)}
        rows = []
        for table, document in zip(tables, codes, strict=True):
            of_query = [number.get(query, -1) for query in table.query_ids.tolist()]
            query = np.array(of_query, np.int64)[query_of_row(table.indptr)]
            rows.append(np.where(query < 0, -1, query * len(documents) + document))
        keys = np.sort(np.concatenate(rows if with_judged else rows[: len(runs)]))
        return cls(queries, documents, _distinct(keys[np.searchsorted(keys, 0) :]), tuple(rows))

    @cached_property
    def query(self) -> Array:
        return self.keys // max(1, len(self.documents))

    @property
    def document(self) -> Array:
        return self.keys % max(1, len(self.documents))

    def only(self, places: Array) -> Pool:
        return Pool(self.queries, self.documents, self.keys[np.sort(places)], self.rows)

    def places(self, table: int) -> tuple[Array, Array]:
        """Positions in the pool of a table's rows, and the rows that have one."""
        row_keys = self.rows[table]
        positions = np.minimum(np.searchsorted(self.keys, row_keys), max(0, len(self.keys) - 1))
        rows = np.flatnonzero(self.keys[positions] == row_keys) if len(self.keys) else np.zeros(0, np.int64)
        return positions[rows], rows

    def floors(self, table: int, scores: Array) -> Array:
        """For every query the table's lowest score if it is below 0, else 0."""
        lowest = np.zeros(len(self.queries))
        is_pooled = self.rows[table] >= 0
        np.minimum.at(lowest, self.rows[table][is_pooled] // len(self.documents), scores[is_pooled])
        return lowest


def _distinct(ordered: Array) -> Array:
    """Sorted numbers without duplicates; much faster than np.unique for this many."""
    if not len(ordered):
        return ordered
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def _numbered(tables: Sequence[TrecTable]) -> tuple[Array, list[Array]]:
    """All document ids, ascending, and the number of each row's id among them.

    Ids are told apart by hashes, which numpy computes and sorts many times faster than text; a check makes sure that no
    two ids share one.
    """
    starts = np.cumsum([0, *(table.n_docs for table in tables)])
    hashes = np.concatenate([_hashes(table.doc_ids) for table in tables])
    _, first, code = np.unique(hashes, return_index=True, return_inverse=True)
    ids = np.empty(len(first), np.result_type(*(table.doc_ids.dtype for table in tables)))
    for table, start, stop in zip(tables, starts[:-1], starts[1:], strict=True):
        in_chunk = np.flatnonzero((first >= start) & (first < stop))
        ids[in_chunk] = table.doc_ids[first[in_chunk] - start]
    order = np.argsort(ids)
    documents, place = ids[order], np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    codes = np.split(place[code], starts[1:-1])
    if all((documents[numbers] == table.doc_ids).all() for table, numbers in zip(tables, codes, strict=True)):
        return documents, codes
    return _numbered_one_by_one(tables)


def _numbered_one_by_one(tables: Sequence[TrecTable]) -> tuple[Array, list[Array]]:
    documents = sorted(set(chain.from_iterable(table.documents for table in tables)))
    number = {document: at for at, document in enumerate(documents)}
    codes = [np.fromiter(map(number.__getitem__, table.documents), np.int64, table.n_docs) for table in tables]
    return np.array(documents, dtype=bytes), codes


def _hashes(ids: Array) -> Array:
    """A hash of each id: its 8-byte words times odd numbers, summed; padding zeros add nothing."""
    n_words = -(-ids.dtype.itemsize // 8)
    words = np.ascontiguousarray(ids.astype(f"S{8 * n_words}")).view(np.uint64).reshape(len(ids), n_words)
    hashes, factor = np.zeros(len(ids), np.uint64), _FACTOR
    for word in words.T:
        hashes += word * np.uint64(factor)
        factor = factor * _FACTOR % (1 << 64)
    return hashes


# Runs as features: the scores of several systems become rows of training data (learned fusion).
#
# Every run gives two features: `name:score`, the score normalised within the query, and `name:rr`, 1 / rank, where
# ranks follow the tie rule. For a document that a run did not retrieve, 1 / rank is 0, and so is the score, the lowest
# after `minmax` and `sum`. If the run's lowest score in the query is below 0 (`zscore`, `none`), that
# is the score: 0 would put documents that were not found above those that were.


NORMALIZATIONS = ("minmax", "zscore", "sum", "none")
_HUGE = 1e300  # differences of larger scores may overflow


def runs_to_data(
    runs: Mapping[str, TrecTable],
    qrels: TrecTable | None = None,
    *,
    normalize: str = "minmax",
    documents: Literal["retrieved", "judged", "either"] = "retrieved",
    missing: Literal["lowest", "nan"] = "lowest",
) -> RankingData:
    """Make features from the runs of several systems.

    Parameters
    ----------
    runs : mapping of str to TrecTable
        The runs by name.
    qrels : TrecTable, optional
        Judgements: labels below 0 become 0, unjudged documents have the label 0, and unjudged queries are left out,
        with a warning. Without judgements every label is 0.
    normalize : {"minmax", "zscore", "sum", "none"}
        How the scores of a run are made comparable within a query. ``minmax``: from 0 (the lowest) to 1, and 1 if all
        are equal; ``sum``: the same divided by their sum; ``zscore``: (score − mean) / standard deviation, 0 if all are
        equal; ``none``: unchanged.
    documents : {"retrieved", "judged", "either"}
        The documents of the data: those that at least one run retrieved; only the judged ones among them; or those that
        were retrieved or judged.
    missing : {"lowest", "nan"}
        The features of a document that a run did not retrieve: ``lowest`` is 0, or the run's lowest score in the query
        if that is below 0; ``nan`` is NaN in both, for tree rankers.

    Returns
    -------
    RankingData
        Float32 features; queries in the order of the judgements, else of the runs; documents of a query sorted by id.

    Examples
    --------
    >>> a = TrecTable.from_dict({"1": {"x": 9.0, "y": 7.0, "z": 5.0}})
    >>> b = TrecTable.from_dict({"1": {"w": 0.2, "x": 0.1}})
    >>> data = runs_to_data({"a": a, "b": b}, TrecTable.from_dict({"1": {"x": 2}}))
    >>> data.feature_names, data.doc_ids.tolist(), data.labels.tolist()
    (('a:score', 'a:rr', 'b:score', 'b:rr'), ['w', 'x', 'y', 'z'], [0.0, 2.0, 0.0, 0.0])
    >>> data.X[:2].tolist()
    [[0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.5]]
    """
    _check_choice("documents", documents, ("retrieved", "judged", "either"))
    _check_choice("missing", missing, ("lowest", "nan"))
    if qrels is None and documents != "retrieved":
        raise InputError(f"documents is {documents!r}, but there are no judgements; expected qrels with it")
    tables = list(runs.values())
    pool = Pool.of(tables, qrels, with_judged=documents == "either")
    labels = np.zeros(len(pool.keys))
    if qrels is not None:
        _warn_left_out(tables, qrels, documents)
        if documents == "judged":
            pool = pool.only(pool.places(len(tables))[0])
            labels = np.zeros(len(pool.keys))
        places, rows = pool.places(len(tables))
        labels[places] = np.maximum(qrels.values[rows], 0.0)
    X = np.zeros((len(pool.keys), 2 * len(tables)), np.float32)
    for number, table in enumerate(tables):
        scores = normalized(table, normalize)
        places, rows = pool.places(number)
        if missing == "nan":
            X[:, 2 * number : 2 * number + 2] = np.nan
        else:
            floors = pool.floors(number, scores)
            if floors.any():
                X[:, 2 * number] = floors[pool.query]
        X[places, 2 * number] = scores[rows]
        X[places, 2 * number + 1] = 1.0 / ranks(table)[rows]
    names = [f"{name}:{column}" for name in runs for column in ("score", "rr")]
    return RankingData.from_arrays(
        X,
        labels,
        np.array(pool.queries, dtype=str)[pool.query],
        doc_ids=decoded_ids(pool.documents, "document")[pool.document],
        feature_names=names,
        allow_missing=missing == "nan",
    )


def normalized(table: TrecTable, how: str) -> Array:
    """A run's scores, normalised within each query: see :func:`runs_to_data`."""
    _check_choice("normalize", how, NORMALIZATIONS)
    if how == "none" or not table.n_docs:
        return table.values.astype(np.float64)
    sizes = np.diff(table.indptr)
    starts, sizes = table.indptr[:-1][sizes > 0], sizes[sizes > 0]
    values = table.values.astype(np.float64)
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    shrink = np.where(np.maximum(np.abs(low), np.abs(high)) > _HUGE, 2.0**-4, 1.0)
    low, span = low * shrink, high * shrink - low * shrink
    with np.errstate(invalid="ignore"):
        share = (values * np.repeat(shrink, sizes) - np.repeat(low, sizes)) / np.repeat(span, sizes)
    share[np.repeat(span == 0, sizes)] = 1.0
    if how == "minmax":
        return share
    total = np.add.reduceat(share, starts)
    if how == "sum":
        return share / np.repeat(total, sizes)
    share -= np.repeat(total / sizes, sizes)
    deviation = np.sqrt(np.add.reduceat(share**2, starts) / sizes)
    return share / np.repeat(np.where(deviation > 0, deviation, 1.0), sizes)


def ranks(table: TrecTable) -> Array:
    order = rank_order(table.values, table.indptr, table.doc_ids)
    rank = np.empty(table.n_docs)
    rank[order] = np.arange(table.n_docs) - np.repeat(table.indptr[:-1], np.diff(table.indptr)) + 1
    return rank


def _warn_left_out(tables: Sequence[TrecTable], qrels: TrecTable, documents: str) -> None:
    judged = set(qrels.query_ids.tolist())
    retrieved = set(chain.from_iterable(table.query_ids.tolist() for table in tables))
    if not judged & retrieved:
        raise InputError("the runs and the judgements have no query in common")
    if retrieved - judged:
        warnings.warn(f"left out {len(retrieved - judged):,} queries without judgements", InputWarning, stacklevel=3)
    if judged - retrieved and documents != "either":
        problem = f"left out {len(judged - retrieved):,} judged queries that no run has"
        warnings.warn(problem, InputWarning, stacklevel=3)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}")


METHODS = ("rrf", "isr", "logisr", "rbc", "borda", "condorcet", "combsum", "combmnz")


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
    _check_choice("method", method, METHODS)
    if not (np.isfinite(k) and k >= 0):
        raise InputError(f"k is {k}; expected a finite number of at least 0")
    if depth is not None and depth < 1:
        raise InputError(f"depth is {depth}; expected at least 1")
    if not 0 <= phi <= 1:
        raise InputError(f"phi is {phi}; expected a number from 0 to 1")
    tables = list(runs.values()) if isinstance(runs, Mapping) else list(runs)
    pool = Pool.of(tables)
    if method in ("combsum", "combmnz"):
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

        def lost(upper: int, lower: int, rows: list[list[float]] = rows) -> int:
            pairs = zip(rows[upper], rows[lower], strict=True)
            return sum((ours > theirs) - (ours < theirs) for ours, theirs in pairs)

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
