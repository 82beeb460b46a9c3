"""Features of some queries at a time: by threads of this process, or by the hosts of an engine, each with the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.ahead import map_ahead
from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.engines.choice import engine_of
from rankwright.engines.fleet import Fleet
from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.search.columns import Columns
from rankwright.text.search.number_columns import DocumentTable

__all__ = ["Block", "Maker", "blocks_by_engine", "blocks_by_threads"]

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]
_BLOCK = 64  # queries that are worked on at a time
_BLOCKS = 4  # that a host makes for a message


@dataclass
class Block:
    """Queries with candidates, the candidates, and their features; ``X`` is None once joined."""

    queries: list[str]
    indptr: Array
    docs: Array
    X: Array | None


@dataclass(frozen=True)
class Maker:
    """Makes a block from some queries; ``listed`` has their candidates, unless these are searched for."""

    columns: Columns
    table: DocumentTable | None
    n_features: int
    listed: Mapping[str, Array] | None
    depth: int

    def __call__(self, queries: Sequence[tuple[str, str]]) -> Block:
        """The block of some queries, ids and texts."""
        ids, texts = [query for query, _ in queries], [text for _, text in queries]
        if self.listed is None:
            indptr, docs = self.columns.candidates_all(texts, self.depth)
        else:
            parts = [self.listed.get(query, np.empty(0, np.int64)) for query in ids]
            indptr, docs = sizes_to_indptr(np.array([len(part) for part in parts])), np.concatenate(parts)
        X = np.empty((len(docs), self.n_features), np.float32)
        self.columns.values_all(texts, indptr, docs, X)
        if self.table is not None:
            X[:, len(self.columns.names) :] = self.table.values[docs]
        sizes = np.diff(indptr)
        kept = [query for query, size in zip(ids, sizes.tolist(), strict=True) if size]
        return Block(kept, sizes_to_indptr(sizes[sizes > 0]), docs, X)


def blocks_by_threads(
    maker: Maker, queries: Sequence[tuple[str, str]], n_jobs: int | None, progress: Progress | None
) -> list[Block]:
    """All blocks, in order."""
    threads, parts = threads_of(n_jobs), _parts(queries, _BLOCK)
    n_done, blocks = 0, []
    for part, block in zip(parts, map_ahead(maker, iter(parts), threads, 2 * threads), strict=True):
        blocks.append(block)
        n_done += len(part)
        if progress is not None:
            progress(n_done, len(queries))
    return blocks


def blocks_by_engine(
    maker: Maker, queries: Sequence[tuple[str, str]], engine: Any, progress: Progress | None
) -> list[Block]:
    """All blocks, in order, made by the hosts of an engine; each opens the index at its path."""
    columns = maker.columns
    if columns.numbers is not columns.index.numbers:
        raise InputError("numbers that are not in the index stay here; expected none with an engine, or set_numbers")
    transport = engine_of(engine)
    n_hosts = len(transport.hosts())
    source = IndexSource(str(columns.index.path.absolute()), columns.names)
    fleet = Fleet(transport, [source] * n_hosts, [1] * n_hosts, closes=transport is not engine)
    try:
        crew = fleet.make(HostMaker, maker.table, maker.n_features, maker.depth)
        own = [(part, _candidates(part, maker.listed)) for part in _parts(queries, _BLOCK * _BLOCKS)]
        blocks: list[Block] = []
        for start in range(0, len(own), n_hosts):
            some = own[start : start + n_hosts]
            found = crew.ask("blocks", own=some + [([], None)] * (n_hosts - len(some)))
            blocks += [block for of_host in found for block in of_host]
            if progress is not None:
                progress(min(len(queries), (start + len(some)) * _BLOCK * _BLOCKS), len(queries))
        return blocks
    finally:
        fleet.close()


@dataclass(frozen=True)
class IndexSource:
    """An index by its path, and the features to be made from it."""

    path: str
    names: tuple[str, ...]

    def load(self) -> Columns:
        """The index, opened."""
        return Columns(Index.open(self.path), self.names)


class HostMaker:
    """Makes blocks where the index is."""

    def __init__(
        self, columns: Columns, threads: int, table: DocumentTable | None, n_features: int, depth: int
    ) -> None:
        self._columns, self._threads = columns, threads
        self._settings = table, n_features, depth

    def blocks(self, queries: Sequence[tuple[str, str]], listed: Mapping[str, Array] | None) -> list[Block]:
        """The blocks of some queries."""
        table, n_features, depth = self._settings
        maker = Maker(self._columns, table, n_features, listed, depth)
        return blocks_by_threads(maker, queries, self._threads, None)


def _parts(queries: Sequence[tuple[str, str]], size: int) -> list[Sequence[tuple[str, str]]]:
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def _candidates(queries: Sequence[tuple[str, str]], listed: Mapping[str, Array] | None) -> Mapping[str, Array] | None:
    return None if listed is None else {query: listed[query] for query, _ in queries if query in listed}
