"""Queries that two data sets share: equal labels and features, whatever their ids and the order of their documents.

A row's hash is Σ_j key_j · bits(x_j) over its label and its features as float32, with random 64-bit keys; a query's is
the sum of its rows' hashes, each mixed first. All arithmetic is modulo 2^64. Zeros add nothing, so dense and sparse
data agree, and so does text that leaves out its last features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import RankingData, batches
from rankwright.data.places import place_of

_SEED = 20061113
_BLOCK = 1 << 16  # values per step


@dataclass(frozen=True)
class Overlap:
    """Queries of one data set that are also in another.

    `n_shared`, `n_queries`: how many of how many. `first`: the id of the first of them. `part`, `whose`: what the two
    data sets are, such as ``"validation"`` and ``"training"``.
    """

    n_shared: int
    n_queries: int
    first: str
    part: str
    whose: str

    @property
    def text(self) -> str:
        several = self.n_shared > 1
        queries = "query" if self.n_queries == 1 else "queries"
        shared = f"{self.n_shared:,} of {self.n_queries:,} {self.part} {queries} {'are' if several else 'is'}"
        shared += f" also in the {self.whose} data ({'first: ' if several else ''}{self.first})"
        return f"{shared}: results on {'them' if several else 'it'} are too good"


@dataclass(frozen=True, eq=False)
class Fingerprints:
    """Hashes that identify the queries of a data set.

    `hashes`: equal for equal rows. `ids`: the queries' ids. `has_order`: whether a query has different labels: only
    then are equal rows under different ids no accident.
    """

    hashes: Array
    ids: Array
    has_order: Array

    @classmethod
    def of(cls, data: RankingData) -> Fingerprints:
        return cls(query_hashes(data), np.asarray(data.query_ids).astype(str), data.has_order)

    @classmethod
    def join(cls, parts: Sequence[Fingerprints]) -> Fingerprints:
        names = ("hashes", "ids", "has_order")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def select(self, queries: Sequence[int]) -> Fingerprints:
        positions = np.asarray(queries, np.int64)
        return Fingerprints(self.hashes[positions], self.ids[positions], self.has_order[positions])

    def shared_with(self, other: Fingerprints, part: str, whose: str) -> Overlap | None:
        """Queries shared with other data, None if there are none; ``part`` and ``whose`` word the message."""
        matched = np.isin(self.hashes, other.hashes, kind="sort") & (self.has_order | np.isin(self.ids, other.ids))
        if not matched.any():
            return None
        return Overlap(int(matched.sum()), len(matched), str(self.ids[int(np.argmax(matched))]), part, whose)


def shared_queries(data: RankingData, other: RankingData, part: str, whose: str) -> Overlap | None:
    """The queries of ``data`` that are also in ``other``, whose last columns may be missing where they are 0.

    Examples
    --------
    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0], [4.0]], [0, 1, 0, 1], ["a", "a", "b", "b"])
    >>> shared_queries(data, data.select([1]), "validation", "training").text
    '1 of 2 validation queries is also in the training data (b): results on it are too good'
    """
    return Fingerprints.of(data).shared_with(Fingerprints.of(other), part, whose)


def query_hashes(data: RankingData) -> Array:
    """A 64-bit number for each query, equal for equal queries."""
    return place_of(data).per_query(_hashes_here)


def _hashes_here(data: RankingData) -> Array:
    rows = row_hashes(data)
    return np.add.reduceat(_mixed(rows), data.indptr[:-1]) if len(rows) else np.zeros(0, np.uint64)


def row_hashes(data: RankingData) -> Array:
    """A 64-bit number for each row of data in this process, equal for equal labels and features."""
    keys = np.random.default_rng(_SEED).integers(0, 1 << 64, size=data.n_features + 1, dtype=np.uint64)
    rows = keys[0] * (_bits(data.labels) + np.uint64(1))  # a row of zeros counts, too
    add, first = _add_sparse if data.is_sparse else _add_dense, 0
    for X, _ in batches(data, at_once=False):  # products of all values at once would take several times the features
        last = first + X.shape[0]
        add(rows[first:last], X, keys[1:])
        first = last
    return rows


def _add_dense(rows: Array, X: Array, keys: Array) -> None:
    step = max(1, _BLOCK // max(1, X.shape[1]))
    for start in range(0, len(rows), step):
        rows[start : start + step] += _bits(X[start : start + step]) @ keys


def _add_sparse(rows: Array, X: Any, keys: Array) -> None:
    products = np.zeros(X.nnz + 1, np.uint64)
    np.multiply(_bits(X.data), keys[X.indices], out=products[:-1])
    sums = np.add.reduceat(products, X.indptr[:-1])
    rows += np.where(np.diff(X.indptr) > 0, sums, np.uint64(0))


def _bits(values: Array) -> Array:
    """The bits of numbers as float32, −0 as 0."""
    with np.errstate(over="ignore"):
        return (values.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)


def _mixed(hashes: Array) -> Array:
    """A bijection after which sums tell rows apart (the finaliser of MurmurHash3)."""
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(33))
