"""Feature data from an index: candidates of every query, their features by name, and labels from judgements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.dataset import RankingData
from rankwright.data.trec import TrecTable
from rankwright.errors import InputError
from rankwright.text.columns import Columns, feature_set
from rankwright.text.documents import read_rows
from rankwright.text.index import Index

__all__ = ["DocumentTable", "MadeFeatures", "make_features", "read_document_table"]

Array = npt.NDArray[Any]
DEPTH = 1000
TABLE_PREFIX = "doc:"


@dataclass(frozen=True, eq=False)
class DocumentTable:
    """Query-independent features: a number in every column for every document of an index."""

    names: tuple[str, ...]
    values: Array


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Feature data, and what was left out of it.

    Attributes
    ----------
    data : RankingData
        One row for every candidate of every query.
    without_candidates : list of str
        Queries for which nothing was found.
    without_judgements : list of str
        Queries that the judgements do not have.
    unknown_documents : int
        Judged documents, or documents of a run, that are not in the index.
    """

    data: RankingData
    without_candidates: list[str]
    without_judgements: list[str]
    unknown_documents: int


def make_features(
    index: Index,
    queries: Mapping[str, str],
    *,
    features: Sequence[str] | Columns | None = None,
    qrels: TrecTable | None = None,
    candidates: str | TrecTable = "union",
    depth: int = DEPTH,
    table: DocumentTable | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MadeFeatures:
    """Make feature data of queries.

    Parameters
    ----------
    index : Index
        Where the documents are.
    queries : mapping of str to str
        Query ids and texts.
    features : sequence of str or Columns, optional
        Names of features; the 15 base functions unless given. See :func:`rankwright.text.columns.feature_set`.
    qrels : TrecTable, optional
        Judgements: documents without one get label 0, queries without one are left out. Without judgements all labels
        are 0.
    candidates : {"union", "judged"} or TrecTable
        Which documents of a query: those among the first ``depth`` of at least one of the features that are retrieval
        functions; the judged ones; or those of a run.
    depth : int
        How many of each function.
    table : DocumentTable, optional
        Further columns, which do not depend on the query.
    progress : callable, optional
        Called with (queries done, queries in all).

    Examples
    --------
    >>> made = make_features(index, {"1": "lift of a wing"})  # doctest: +SKIP
    >>> made.data.feature_names[:2]  # doctest: +SKIP
    ('cosine[plain]', 'tfidf[plain]')
    """
    columns = features if isinstance(features, Columns) else Columns(index, features or feature_set("base"))
    pick = _Picker(index, columns, candidates, qrels, depth)
    judged = None if qrels is None else _by_query(qrels)
    blocks: list[Array] = []
    labels: list[Array] = []
    documents: list[Array] = []
    kept: list[str] = []
    empty: list[str] = []
    unjudged: list[str] = []
    for done, (query, text) in enumerate(queries.items(), 1):
        if judged is not None and query not in judged:
            unjudged.append(query)
        else:
            docs = pick.documents(query, text)
            if len(docs):
                kept.append(query)
                documents.append(docs)
                blocks.append(columns.values(text, docs).astype(np.float32))
                labels.append(_labels(index, docs, {} if judged is None else judged[query]))
            else:
                empty.append(query)
        if progress is not None:
            progress(done, len(queries))
    if not kept:
        raise InputError("no query has a candidate; expected queries with words that the index knows")
    rows = np.concatenate(documents)
    X, names = np.concatenate(blocks), list(columns.names)
    if table is not None:
        X, names = np.hstack([X, table.values[rows].astype(np.float32)]), [*names, *table.names]
    qid = np.repeat(np.array(kept), [len(docs) for docs in documents])
    doc_ids = np.array([index.doc_id(doc) for doc in rows.tolist()])
    data = RankingData.from_arrays(X, np.concatenate(labels), qid, doc_ids=doc_ids, feature_names=names)
    return MadeFeatures(data, empty, unjudged, pick.unknown)


class _Picker:
    """The candidates of a query."""

    def __init__(
        self, index: Index, columns: Columns, candidates: str | TrecTable, qrels: TrecTable | None, depth: int
    ) -> None:
        self.unknown = 0
        self._index, self._columns, self._depth = index, columns, depth
        self._listed: dict[str, dict[bytes, float]] | None = None
        if isinstance(candidates, TrecTable):
            self._listed = _by_query(candidates)
        elif candidates == "judged":
            if qrels is None:
                raise InputError("candidates are to be the judged documents, but there are no judgements")
            self._listed = _by_query(qrels)
        elif candidates != "union":
            raise InputError(f'candidates are {candidates!r}; expected "union", "judged" or a run')
        elif not columns.functions:
            raise InputError("none of the features is a retrieval function; expected judged documents or a run")

    def documents(self, query: str, text: str) -> Array:
        if self._listed is None:
            return self._columns.candidates(text, self._depth)
        wanted = self._listed.get(query, {})
        found = [self._index.find(document.decode("utf-8", "replace")) for document in wanted]
        known = np.array([doc for doc in found if doc is not None], np.int64)
        self.unknown += len(wanted) - len(known)
        return np.sort(known)


def _by_query(table: TrecTable) -> dict[str, dict[bytes, float]]:
    values = table.values.tolist()
    bounds = zip(table.indptr[:-1].tolist(), table.indptr[1:].tolist(), strict=True)
    return {
        str(query): dict(zip(table.documents[start:stop], values[start:stop], strict=True))
        for query, (start, stop) in zip(table.query_ids, bounds, strict=True)
    }


def _labels(index: Index, docs: Array, judged: Mapping[bytes, float]) -> Array:
    return np.array([max(judged.get(index.doc_id(doc).encode(), 0.0), 0.0) for doc in docs.tolist()])


def read_document_table(path: str | Path, index: Index) -> DocumentTable:
    """Read query-independent features: tab-separated, a header line with names, the document id first.

    Every document of the index must have a row; rows of other documents are passed over.

    Parameters
    ----------
    path : path
        The table, plain or gzip.
    index : Index
        Whose documents they are.
    """
    rows = read_rows(path)
    first, header = next(rows, (1, []))
    if len(header) < 2:
        raise InputError("expected a header line: id, then the name of each column, with tabs between", path, first)
    values = np.full((index.n_docs, len(header) - 1), np.nan)
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{len(cells)} cells; expected {len(header)} as in the header", path, line)
        doc = index.find(cells[0])
        if doc is None:
            continue
        try:
            values[doc] = [float(cell) for cell in cells[1:]]
        except ValueError:
            raise InputError("a cell that is not a number; expected numbers after the id", path, line) from None
        if not np.isfinite(values[doc]).all():
            raise InputError("a cell that is nan or inf; expected finite numbers", path, line)
    missing = np.flatnonzero(np.isnan(values[:, 0]))
    if len(missing):
        what = f"has no row for {len(missing):,} of {index.n_docs:,} documents, the first being"
        raise InputError(f"{what} {index.doc_id(int(missing[0]))!r}; expected one for each", path)
    return DocumentTable(tuple(TABLE_PREFIX + name for name in header[1:]), values)
