"""Feature data from an index: candidates of every query, their features by name, and labels from judgements.

Some queries are worked on at a time, by threads of this process or by the hosts of an engine, each with the index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.cluster.cluster import Cluster
from rankwright.cluster.open import engine_of
from rankwright.data.dataset import RankingData
from rankwright.data.order import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import map_ahead, open_file
from rankwright.io.roles import find
from rankwright.io.tables import is_number, text_table, utf8_lines
from rankwright.text.index.index import Index
from rankwright.text.index.numbers import GivenNumbers
from rankwright.text.reading.queries import Queries
from rankwright.text.search.columns import Columns, DocumentTable, feature_set

__all__ = ["make_features", "read_document_table"]

DEPTH = 1000
TABLE_PREFIX = "doc:"
Progress = Callable[[int, int], None]
_LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 64  # queries that are worked on at a time
_BLOCKS = 4  # that a host makes for a message


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Feature data, and what was left out.

    `data`: one row for every candidate of every query: queries in the order given, documents in index order.
    `without_candidates`: queries without candidates; not in the data. `without_judgements`: queries without judgements;
    not in the data. `unknown_documents`: number of judged or retrieved documents that are not in the index.
    `missed_documents`: number of relevant documents in the index (label above 0) that are not among the candidates.
    """

    data: RankingData
    without_candidates: list[str]
    without_judgements: list[str]
    unknown_documents: int
    missed_documents: int


def make_features(
    index: Index,
    queries: Mapping[str, str] | Queries,
    *,
    features: Sequence[str] | Columns | None = None,
    qrels: TrecTable | None = None,
    candidates: str | TrecTable = "union",
    depth: int = DEPTH,
    table: DocumentTable | None = None,
    numbers: GivenNumbers | None = None,
    n_jobs: int | None = None,
    engine: Any = None,
    progress: Progress | None = None,
) -> MadeFeatures:
    """Compute feature data for queries.

    Parameters
    ----------
    index : Index
        Where the documents are.
    queries : mapping of str to str, or Queries
        Query ids and texts.
    features : sequence of str or Columns, optional
        Feature names; by default the 15 base functions. See :func:`rankwright.feature_set`.
    qrels : TrecTable, optional
        Judgements: unjudged documents and labels below 0 get label 0; queries without judgements are left out. Without
        qrels, all labels are 0.
    candidates : {"union", "judged"} or TrecTable
        The documents of a query: the top ``depth`` of every feature that is a retrieval function; the judged ones; or
        those of a run.
    depth : int
        Number of documents taken from each function.
    table : DocumentTable, optional
        Additional, query-independent columns, which need not be among ``features``.
    numbers : path, data frame or mapping, optional
        Numbers of documents that are not in the index, or take the place of those in it, for ``features`` that are
        called like them; as for :meth:`Index.set_numbers`.
    n_jobs : int, optional
        Number of threads, -1 for all cores; does not affect the data.
    engine : str, distributed.Client or Transport, optional
        Where features are made, as for :func:`rankwright.open_partitions`: every worker opens the index at its path.
        Does not affect the data.
    progress : callable, optional
        Called with (queries done, total queries), without those left out.

    Examples
    --------
    >>> made = make_features(index, {"1": "lift of a wing"})  # doctest: +SKIP
    >>> made.data.feature_names[:2]  # doctest: +SKIP
    ('cosine[plain]', 'tfidf[plain]')
    """
    threads_of(n_jobs)
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or depth < 1:
        raise InputError(f"depth is {depth!r}; expected a positive integer")
    if not isinstance(features, Columns):
        features = Columns(index, feature_set("base") if features is None else features, numbers)
    elif numbers is not None:
        raise InputError("the columns are made already; expected their numbers to be given to them")
    names = _all_names(features, table, index)
    texts = {str(query): text for query, text in dict(queries).items()}
    judged = None if qrels is None else _Listed(index, qrels, texts)
    wanted = _judged_only(texts, judged)
    listed = _listed(index, features, candidates, judged, wanted)
    maker = Maker(features, table, len(names), None if listed is None else listed.docs, depth)
    if engine is None:
        blocks = blocks_by_threads(maker, list(wanted.items()), n_jobs, progress)
    else:
        blocks = blocks_by_engine(maker, list(wanted.items()), engine, progress)
    kept = [query for block in blocks for query in block.queries]
    if not kept and listed is not None:
        raise InputError("none of the candidates is in the index; expected the same document ids in both")
    if not kept:
        raise InputError("no query has candidates; expected queries with words that occur in the index")
    indptr = sizes_to_indptr(np.concatenate([np.diff(block.indptr) for block in blocks]))
    docs = np.concatenate([block.docs for block in blocks])
    X = _joined(blocks, len(docs), len(names))
    labels, n_missed = _labels(judged, kept, indptr, docs)
    qid, found = np.repeat(np.array(kept), np.diff(indptr)), set(kept)
    return MadeFeatures(
        RankingData.from_arrays(
            X, labels, qid, doc_ids=_ids(index, docs), feature_names=names, allow_missing=bool(features.missing())
        ),
        without_candidates=[query for query in wanted if query not in found],
        without_judgements=[query for query in texts if query not in wanted],
        unknown_documents=len(set().union(*(source.unknown for source in (judged, listed) if source is not None))),
        missed_documents=n_missed,
    )


class _Listed:
    """The documents of each query in a table, as ascending index numbers, with their values."""

    def __init__(self, index: Index, table: TrecTable, queries: Mapping[str, Any]) -> None:
        self.docs: dict[str, Array] = {}
        self.values: dict[str, Array] = {}
        self.unknown: set[tuple[str, bytes]] = set()
        for query, start, stop in zip(table.query_ids.tolist(), table.indptr[:-1], table.indptr[1:], strict=True):
            if query not in queries:
                continue
            ids = table.documents[start:stop]
            numbers = [index.find(doc_id.decode("utf-8", "surrogateescape")) for doc_id in ids]
            self.unknown.update((query, doc_id) for doc_id, doc in zip(ids, numbers, strict=True) if doc is None)
            docs = np.array([-1 if doc is None else doc for doc in numbers], np.int64)
            order = np.argsort(docs, kind="stable")[np.count_nonzero(docs < 0) :]
            self.docs[query], self.values[query] = docs[order], table.values[start:stop][order]


def _judged_only(texts: dict[str, str], judged: _Listed | None) -> dict[str, str]:
    """The queries that have judgements, or all without qrels."""
    if not texts:
        raise InputError("no queries; expected at least one")
    if judged is None:
        return texts
    wanted = {query: text for query, text in texts.items() if query in judged.docs}
    if not wanted:
        what = f"none of the {len(texts):,} queries (the first is {next(iter(texts))!r}) has judgements"
        raise InputError(f"{what}; expected the same query ids in both")
    return wanted


def _listed(
    index: Index, columns: Columns, candidates: str | TrecTable, judged: _Listed | None, queries: Mapping[str, str]
) -> _Listed | None:
    """The candidates given by judgements or a run; None if they must be searched for."""
    if isinstance(candidates, TrecTable):
        return _Listed(index, candidates, queries)
    if candidates == "judged":
        if judged is None:
            raise InputError('candidates is "judged", but there are no judgements; expected qrels')
        return judged
    if candidates != "union":
        raise InputError(f'candidates are {candidates!r}; expected "union", "judged" or a run')
    if not columns.functions:
        raise InputError("no feature is a retrieval function; expected one, or candidates from judgements or a run")
    return None


def _joined(blocks: Sequence[Block], n_rows: int, n_features: int) -> Array:
    """The features of all blocks; each block is freed once copied, so that memory never holds everything twice."""
    X = np.empty((n_rows, n_features), np.float32)
    start = 0
    for block in blocks:
        stop = start + len(block.docs)
        X[start:stop] = block.X
        start, block.X = stop, None
    return X


def _labels(judged: _Listed | None, queries: Sequence[str], indptr: Array, docs: Array) -> tuple[Array, int]:
    """The label of every row, and the number of relevant documents without a row."""
    labels, n_relevant = np.zeros(len(docs)), 0
    if judged is None:
        return labels, 0
    for query, start, stop in zip(queries, indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        own, values = judged.docs[query], np.maximum(judged.values[query], 0.0)
        place = np.minimum(np.searchsorted(docs[start:stop], own), stop - start - 1)
        found = docs[start:stop][place] == own
        labels[start:stop][place[found]] = values[found]
    n_relevant = sum(int((values > 0).sum()) for values in judged.values.values())
    return labels, n_relevant - int((labels > 0).sum())


def _ids(index: Index, docs: Array) -> Array:
    """Document ids as text; each distinct one is decoded once."""
    different, places = np.unique(docs, return_inverse=True)
    ids: Array = np.char.decode(index.doc_ids[different], "utf-8")[places]
    return ids


def _all_names(columns: Columns, table: DocumentTable | None, index: Index) -> list[str]:
    """All feature names, those of the table last."""
    if columns.index is not index:
        raise InputError("the columns belong to another index; expected columns of this one")
    names = list(columns.names)
    if table is not None:
        twice = [name for name in table.names if name in names]
        if twice:
            raise InputError(f"duplicate feature {twice[0]!r}: it is named, and a column of the table")
        expected = (index.n_docs, len(table.names))
        if table.values.shape != expected:
            raise InputError(f"the table has shape {table.values.shape}; expected {expected}, one row per document")
        if not (np.abs(table.values) <= _LARGEST).all():
            raise InputError("the table contains a number that is not finite in single precision")
        names += table.names
    if not names:
        raise InputError("no features; expected at least one")
    return names


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
    cluster = Cluster(transport, [source] * n_hosts, [1] * n_hosts, closes=transport is not engine)
    try:
        actors = cluster.make(HostMaker, maker.table, maker.n_features, maker.depth)
        own = [(part, _candidates(part, maker.listed)) for part in _parts(queries, _BLOCK * _BLOCKS)]
        blocks: list[Block] = []
        for start in range(0, len(own), n_hosts):
            some = own[start : start + n_hosts]
            found = actors.ask("blocks", own=some + [([], None)] * (n_hosts - len(some)))
            blocks += [block for of_host in found for block in of_host]
            if progress is not None:
                progress(min(len(queries), (start + len(some)) * _BLOCK * _BLOCKS), len(queries))
        return blocks
    finally:
        cluster.close()


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


def read_document_table(path: str | Path, index: Index) -> DocumentTable:
    """Read query-independent features: tab-separated, with a header line of names, the document id first.

    Every document of the index must have a row; rows of other documents are ignored. The column ``year`` becomes the
    feature ``doc:year``.

    Parameters
    ----------
    path : path
        The table, plain or gzip.
    index : Index
        The index of the documents.
    """
    with open_file(path) as file:
        table = text_table(utf8_lines(file), path)
        key = table.names.index(find(table.names, "id") or table.names[0])
        names = table.names[:key] + table.names[key + 1 :]
        if not names or not all(names) or any(map(is_number, names)):
            what = "id, then a unique name for each column, not a number, separated by tabs"
            raise InputError(f"expected a header line: {what}", path, 1)
        values = np.full((index.n_docs, len(names)), np.nan)
        lines: dict[int, int] = {}
        for line, cells in table.full_rows():
            doc_id = cells.pop(key)
            doc = index.find(doc_id.strip())
            if doc is None:
                continue
            if doc in lines:
                raise InputError(f"duplicate document {doc_id!r} (first on line {lines[doc]})", path, line)
            lines[doc] = line
            values[doc] = [_number(cell, path, line) for cell in cells]
    missing = np.flatnonzero(np.isnan(values[:, 0]))
    if len(missing):
        what = f"has no row for {len(missing):,} of {index.n_docs:,} documents, such as"
        raise InputError(f"{what} {index.doc_id(int(missing[0]))!r}; expected one row per document", path)
    return DocumentTable(tuple(TABLE_PREFIX + name for name in names), values)


def _number(cell: str, path: str | Path, line: int) -> float:
    if not is_number(cell):
        raise InputError(f"non-numeric value {cell!r}; expected numbers after the id", path, line)
    number = float(cell)
    if not abs(number) <= _LARGEST:
        raise InputError(f"{cell.strip()} is not finite in single precision", path, line)
    return number
