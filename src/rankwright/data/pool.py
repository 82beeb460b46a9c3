"""The (query, document) pairs of several runs, joined without a Python loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import query_of_row
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError

__all__ = ["Pool"]

Array = npt.NDArray[Any]
_FACTOR = 0x9E3779B97F4A7C15  # odd, with irregular bits


@dataclass(frozen=True, eq=False)
class Pool:
    """All pairs of at least one run, ascending: ``key = query · number of documents + document``.

    Attributes
    ----------
    queries : list of str
        Ids of the queries.
    documents : ndarray of bytes
        Ids of all documents, ascending.
    keys : ndarray of int64
        The pairs, each once.
    rows : tuple of ndarray
        For every table the key of each of its rows; −1 if the pool does not have the query.
    """

    queries: list[str]
    documents: Array
    keys: Array
    rows: tuple[Array, ...]

    @classmethod
    def of(cls, runs: Sequence[TrecTable], qrels: TrecTable | None = None, with_judged: bool = False) -> Pool:
        """Join runs.

        Parameters
        ----------
        runs : sequence of TrecTable
            At least one.
        qrels : TrecTable, optional
            Judgements, which become the last table; the queries are then theirs.
        with_judged : bool
            Whether judged pairs belong to the pool.
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
