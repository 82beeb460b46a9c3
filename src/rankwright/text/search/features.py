"""Feature data from an index: candidates of every query, their features by name, and labels from judgements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.dataset import RankingData
from rankwright.data.delimited import is_number
from rankwright.data.threads import threads_of
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.index.numbers import GivenNumbers
from rankwright.text.reading.documents import read_rows
from rankwright.text.reading.queries import Queries
from rankwright.text.search.columns import Columns, feature_set
from rankwright.text.search.feature_blocks import Block, Maker, blocks_by_engine, blocks_by_threads
from rankwright.text.search.number_columns import DocumentTable

__all__ = ["DocumentTable", "MadeFeatures", "make_features", "read_document_table"]

Array = npt.NDArray[Any]
DEPTH = 1000
TABLE_PREFIX = "doc:"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Feature data, and what was left out.

    Attributes
    ----------
    data : RankingData
        One row for every candidate of every query: queries in the order given, documents in index order.
    without_candidates : list of str
        Queries without candidates; not in the data.
    without_judgements : list of str
        Queries without judgements; not in the data.
    unknown_documents : int
        Number of judged or retrieved documents that are not in the index.
    missed_documents : int
        Number of relevant documents in the index (label above 0) that are not among the candidates.
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
    progress: Callable[[int, int], None] | None = None,
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
        Where features are made, as for :func:`rankwright.open_parts`: every worker opens the index at its path. Does
        not affect the data.
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
    rows = read_rows(path)
    first, header = next(rows, (1, []))
    names = [name.strip() for name in header[1:]]
    if not names or not all(names) or len(set(names)) < len(names) or any(map(is_number, names)):
        what = "id, then a unique name for each column, not a number, separated by tabs"
        raise InputError(f"expected a header line: {what}", path, first)
    values = np.full((index.n_docs, len(names)), np.nan)
    lines: dict[int, int] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} cells; expected {len(header)}, as in the header", path, line)
        doc = index.find(cells[0].strip())
        if doc is None:
            continue
        if doc in lines:
            raise InputError(f"duplicate document {cells[0]!r} (first on line {lines[doc]})", path, line)
        lines[doc] = line
        values[doc] = [_number(cell, path, line) for cell in cells[1:]]
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
