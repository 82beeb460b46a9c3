"""Features of a document for a query, by name: ``bm25[porter]``, ``log-tf[porter+stop]``, ``bm25(b=0.4)[plain,title]``.

Before the brackets comes a retrieval function, or one of seven sums over the terms t that query and document share
(SIGIR'06, Table 1; c is the count of t in the document, |d| the length of the document, |C| that of all documents, cf
the count of t in all of them, idf the number of documents divided by the number that contain t):

    log-tf         Σ ln(c + 1)                log-share      Σ ln(c/|d| + 1)
    log-cf         Σ ln(|C|/cf + 1)           log-share-idf  Σ ln(c/|d| · idf + 1)
    log-idf        Σ ln(idf)                  log-share-cf   Σ ln(c/|d| · |C|/cf + 1)
    log-bm25       ln(max(BM25, 0.001))

The brackets name the view: an analyser, or an analyser and a field. A name without them is a number of the documents,
such as ``price``; ``price(missing=0)`` is 0 where there is none. A model that knows the names of its features can
therefore be applied to any index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.cluster.cluster import Cluster
from rankwright.cluster.dataset import engine_of
from rankwright.data.dataset import RankingData
from rankwright.data.order import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.io.files import Progress
from rankwright.text.contents import View
from rankwright.text.functions import BM25, SUMS, Function, feature_parts, parse_feature
from rankwright.text.index import Index
from rankwright.text.numbers import LARGEST, GivenNumbers, as_number, located, located_table
from rankwright.text.queries import Queries
from rankwright.text.search import QueryReader, QueryTerms, Scorer, ViewScorer, by_threads, positive_integer

__all__ = ["Columns", "feature_set", "make_features", "read_document_table"]

_ANALYZERS = ("plain", "porter", "porter+stop")
_BASE = ("cosine", "tfidf", "bm25", "dirichlet", "jm")  # of SIGIR'07: other functions are features by their names
# What takes the place of a missing number is part of the name, so that training and search cannot differ.
_NUMBER = re.compile(r"(?P<name>[^()\[\]]+)(?:\(missing=(?P<fill>[^()\[\]]*)\))?")
_MIN_BM25 = 1e-3  # lower limit of BM25 in log-bm25
_LOG_BM25 = "log-bm25"
_RECENT_BLOCKS = 16  # blocks of queries whose terms are cached
_MAX_MARKS = 1 << 24  # queries × documents that candidates are marked in at a time

FEATURE_SETS = {
    "base": tuple(f"{function}[{{}}]" for function in _BASE),
    "sigir06": tuple(f"{name}[{{}}]" for name in SUMS),
}
"""The feature sets by name, with a placeholder for the view: five functions for each of three analysers (the 15 base
functions of SIGIR'07), and the seven sums of SIGIR'06, stemmed and without stop words."""


def feature_set(name: str, fields: Sequence[str] = ()) -> list[str]:
    """The feature names of a set, over whole documents and over each of ``fields``.

    Parameters
    ----------
    name : {"base", "sigir06"}
        Name of the set.
    fields : sequence of str
        Fields to repeat the set for.

    Examples
    --------
    >>> feature_set("base")[:2], len(feature_set("base")), len(feature_set("sigir06", ["title"]))
    (['cosine[plain]', 'tfidf[plain]'], 15, 14)
    """
    if name not in FEATURE_SETS:
        raise InputError(f"unknown feature set {name!r}; expected one of {', '.join(FEATURE_SETS)}")
    if isinstance(fields, str):
        raise InputError(f"the fields are a single string, {fields!r}; expected a list of names")
    analyzers = _ANALYZERS if name == "base" else ("porter+stop",)
    views = [f"{analyzer},{field}" if field else analyzer for field in ("", *fields) for analyzer in analyzers]
    return [pattern.format(view) for view in views for pattern in FEATURE_SETS[name]]


@dataclass(frozen=True, eq=False)
class DocumentTable:
    """Query-independent features: one row per document of an index, in the order of the index."""

    names: tuple[str, ...]
    values: Array


class Columns:
    """Features of an index, by name.

    Parameters
    ----------
    index : Index
        Where the documents are.
    names : sequence of str
        The features, without duplicates.
    numbers : path, data frame, mapping or DocumentTable, optional
        Numbers of documents that are not in the index, or take the place of those in it, as for
        :meth:`Index.set_numbers`.

    Examples
    --------
    >>> columns = Columns(index, feature_set("base"))  # doctest: +SKIP
    >>> columns.values("lift of a wing", [3, 17])  # doctest: +SKIP
    """

    def __init__(self, index: Index, names: Sequence[str], numbers: GivenNumbers | DocumentTable | None = None) -> None:
        if isinstance(names, str):
            raise InputError(f"the features are a single string, {names!r}; expected a list of names")
        self.index, self.names = index, tuple(names)
        self.numbers = all_numbers(index, numbers)
        self._numbers: dict[int, Array] = {}
        self._functions: dict[str, tuple[View, Function]] = {}
        by_view: dict[str, tuple[View, dict[int, Function | str]]] = {}
        for column, name in enumerate(self.names):
            if name in self.names[:column]:
                raise InputError(f"duplicate feature {name!r}")
            number = _number_feature(name, self.numbers) if isinstance(name, str) else None
            if number is not None:
                self._numbers[column] = number
                continue
            view, feature = self._parsed(name)
            by_view.setdefault(view.name, (view, {}))[1][column] = feature
            if not isinstance(feature, str):
                self._functions[name] = view, feature
        self._views = [_ViewColumns(view, features) for view, features in by_view.values()]
        self._recent = lru_cache(_RECENT_BLOCKS)(QueryReader(self._views))

    def _parsed(self, name: str) -> tuple[View, Function | str]:
        """The view of a feature, and its function or the name of its sum."""
        parts = feature_parts(name) if isinstance(name, str) else None
        if parts is None:
            numbers = f"one of its numbers, {', '.join(self.numbers)}" if self.numbers else "a number (it has none)"
            problem = f"feature {name!r} cannot be computed from an index"
            raise InputError(f"{problem}; expected a name like bm25[porter], or {numbers}")
        try:
            feature = parse_feature(parts.function)
            return self.index.view(parts.analyzer, parts.field), feature
        except InputError as error:
            raise InputError(f"feature {name!r}: {error.message}", error.path) from None

    @cached_property
    def functions(self) -> dict[str, Scorer]:
        """The columns that are retrieval functions."""
        return {name: Scorer(view, function) for name, (view, function) in self._functions.items()}

    def candidates(self, text: str, depth: int) -> Array:
        """The documents among the top ``depth`` of at least one retrieval function, ascending."""
        return self.candidates_all([text], depth)[1]

    def candidates_all(self, texts: Sequence[str], depth: int) -> tuple[Array, Array]:
        """``indptr`` and ``docs`` for several queries: query ``q`` has ``docs[indptr[q]:indptr[q+1]]``."""
        n_docs, depth, queries_of = self.index.n_docs, positive_integer(depth, "depth"), self._recent(tuple(texts))
        places = np.zeros(n_docs, np.int32)
        sizes, docs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        step = max(1, _MAX_MARKS // max(n_docs, 1))
        for first in range(0, len(texts), step):
            last = min(first + step, len(texts))
            marks = np.zeros((last - first, n_docs), bool)
            for view, queries in zip(self._views, queries_of, strict=True):
                view.mark(queries if last - first == len(texts) else queries.between(first, last), depth, places, marks)
            sizes.append(np.count_nonzero(marks, axis=1))
            docs.append(np.flatnonzero(marks) % n_docs if len(marks) > 1 else np.flatnonzero(marks[0]))
        return sizes_to_indptr(np.concatenate(sizes)), np.concatenate(docs)

    def values(self, text: str, docs: npt.ArrayLike) -> Array:
        """The features of the given documents: one row of float32 each."""
        rows = np.asarray(docs, np.int64)
        return self.values_all([text], np.array([0, len(rows)]), rows)

    def values_all(self, texts: Sequence[str], indptr: Array, docs: Array, out: Array | None = None) -> Array:
        """The features of the documents of several queries, given as :meth:`candidates_all` returns them.

        Parameters
        ----------
        texts : sequence of str
            The queries.
        indptr, docs : ndarray of int64
            Query ``q`` has the documents ``docs[indptr[q]:indptr[q+1]]``.
        out : ndarray of float32, optional
            Output array: a row for each of ``docs``, a column for each feature.
        """
        shape = (len(docs), len(self.names))
        table = np.empty(shape, np.float32) if out is None else out
        if table.ndim != 2 or len(table) != len(docs) or table.shape[1] < len(self.names):
            raise InputError(f"the output has the shape {table.shape}; expected {shape}")
        table[:, : len(self.names)] = self.by_feature(texts, indptr, docs).T
        return table

    def by_feature(self, texts: Sequence[str], indptr: Array, docs: Array) -> Array:
        """The transpose of :meth:`values_all`, features × documents, as it is computed."""
        indptr, docs = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(docs, np.int64)
        _check_rows(len(texts), indptr, docs, self.index.n_docs)
        places, table = np.zeros(self.index.n_docs, np.int32), np.empty((len(self.names), len(docs)), np.float32)
        for view, queries in zip(self._views, self._recent(tuple(texts)), strict=True):
            view.fill(queries, indptr, docs, places, table)
        for column, values in self._numbers.items():
            np.take(values, docs, out=table[column])
        return table

    def missing(self) -> dict[str, int]:
        """The features that are missing for some documents of the index, and for how many."""
        n_missing = {self.names[at]: int(np.isnan(values).sum()) for at, values in self._numbers.items()}
        return {name: number for name, number in n_missing.items() if number}


def _check_rows(n_texts: int, indptr: Array, docs: Array, n_docs: int) -> None:
    """Refuse documents that do not exist: compiled code trusts their numbers."""
    if indptr.shape != (n_texts + 1,) or indptr[0] != 0 or indptr[-1] != len(docs) or (indptr[1:] < indptr[:-1]).any():
        raise InputError(
            f"the boundaries of the queries do not increase from 0 to {len(docs):,}, one query after another"
        )
    if docs.ndim != 1 or not 0 <= docs.min(initial=0) <= docs.max(initial=0) < max(n_docs, 1):
        raise InputError(f"a document number is outside the {n_docs:,} documents of the index")


class _ViewColumns(ViewScorer):
    """The features that belong to one view: all its retrieval functions in one pass, and the seven sums.

    ``features`` has the function, or the name of the sum, of each of its columns.
    """

    def __init__(self, view: View, features: Mapping[int, Function | str]) -> None:
        self._columns: dict[Function, list[int]] = {}
        self._sums: dict[int, str] = {}
        for column, feature in features.items():
            if isinstance(feature, str):
                self._sums[column] = feature
            else:
                self._columns.setdefault(feature, []).append(column)
        logarithms = [column for column, name in self._sums.items() if name == _LOG_BM25]
        first_of = {function: columns[0] for function, columns in self._columns.items()}
        if logarithms:  # the last function may be there for log-bm25 alone, which then overwrites it
            first_of.setdefault(BM25(), logarithms[0])
        super().__init__(view, list(first_of))
        self._first_of, self._targets = first_of, np.array(list(first_of.values()), np.int64)

    def mark(self, queries: QueryTerms, k: int, places: Array, marks: Array) -> None:
        """Mark the top k documents of each query under each function: ``marks`` is queries × documents.

        ``places`` is workspace: zeros for all documents, left as zeros.
        """
        from rankwright.text.search_kernel import mark_best

        if self._columns:
            n_max = min(queries.most_postings, self.view.n_docs)
            docs, sums = np.empty(n_max + 1, np.uint32), np.empty((len(self.functions), n_max), np.float32)
            mark_best(
                queries.for_kernels, self._postings, self._priors, self._lowest, len(self._columns), k,
                places, docs, sums, marks,
            )  # fmt: skip

    def fill(self, queries: QueryTerms, indptr: Array, docs: Array, places: Array, table: Array) -> None:
        """Write the features of documents into their rows of ``table``, features × documents.

        Query ``q`` has the documents ``docs[indptr[q]:indptr[q+1]]``.
        """
        from rankwright.text.search_kernel import fill_scores

        if self.functions:
            fill_scores(queries.for_kernels, self._postings, self._priors, indptr, docs, self._targets, places, table)
        for columns in self._columns.values():
            for other in columns[1:]:
                table[other] = table[columns[0]]
        if self._sums:
            self._fill_sums(queries, indptr, docs, places, table)

    def _fill_sums(self, queries: QueryTerms, indptr: Array, docs: Array, places: Array, table: Array) -> None:
        from rankwright.text.search_kernel import fill_sums

        view, terms, names = self.view, queries.terms, list(SUMS)
        sums = np.zeros((len(docs), len(names)))
        rarities, idfs = view.total_length / view.total_counts[terms], view.n_docs / view.doc_counts[terms]
        fill_sums((queries.indptr, terms, rarities, idfs), view.arrays, indptr, docs, places, sums)
        if _LOG_BM25 in self._sums.values():
            scores = table[self._first_of[BM25()]].astype(np.float64)
            sums[:, names.index(_LOG_BM25)] = np.log(np.maximum(scores, _MIN_BM25))
        for column, name in self._sums.items():
            table[column] = sums[:, names.index(name)]


def all_numbers(index: Index, given: GivenNumbers | DocumentTable | None) -> Mapping[str, Array]:
    """The numbers of an index, and over them those given, for the documents that they name."""
    if given is None:
        return index.numbers
    if isinstance(given, DocumentTable):
        given = dict(zip(given.names, np.asarray(given.values).T, strict=True))
    return located(given, index.find, index.n_docs, ()).over(index.numbers, index.n_docs)


def _number_feature(name: str, numbers: Mapping[str, Array]) -> Array | None:
    """The values of a feature for all documents, in single precision; None if it is not one of the numbers."""
    match = _NUMBER.fullmatch(name)
    if match is None or match["name"] not in numbers:
        return None
    with np.errstate(over="ignore"):
        values = numbers[match["name"]].astype(np.float32)
    if np.isinf(values).any():
        raise InputError(f"a number {match['name']!r} is not finite in single precision; expected finite numbers")
    if match["fill"] is not None:
        try:
            fill = as_number(match["fill"])
        except InputError as error:
            raise InputError(f"feature {name!r}: missing {error.message}") from None
        if np.isnan(fill):
            problem = f"feature {name!r}: missing is {match['fill']!r}"
            raise InputError(f"{problem}; expected a number, as in price(missing=0)")
        values[np.isnan(values)] = fill
    return values


# Feature data: candidates of every query, their features, and labels from judgements. Blocks of queries are made by
# threads of this process, or by the workers of an engine, each with the index open.

DEPTH = 1000
_BLOCK = 64  # queries that are worked on at a time
_BLOCKS = 4  # that a worker makes for a message


@dataclass(frozen=True, eq=False)
class MadeFeatures:
    """Feature data, and what was left out.

    `data`: one row for every candidate of every query: queries in the order given, documents in index order.
    `without_candidates`: queries without candidates; not in the data. `without_judgements`: queries without judgements;
    not in the data. `unknown_documents`: number of judged or retrieved documents that are not in the index.
    `missed_documents`: number of relevant documents in the index (label above 0) that are not among the candidates.
    `judged_documents`: number of rows that have a judgement; the others have label 0.
    """

    data: RankingData
    without_candidates: list[str]
    without_judgements: list[str]
    unknown_documents: int
    missed_documents: int
    judged_documents: int = 0


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
    threads, depth = threads_of(n_jobs), positive_integer(depth, "depth")
    if not isinstance(features, Columns):
        features = Columns(index, feature_set("base") if features is None else features, numbers)
    elif numbers is not None:
        raise InputError("the columns are made already; expected their numbers to be given to them")
    names = _all_names(features, table, index)
    texts = {str(query): text for query, text in dict(queries).items()}
    judged = None if qrels is None else _TableDocs(index, qrels, texts)
    wanted = _judged_only(texts, judged)
    _check_indexed(index, judged)
    listed = _candidate_docs(index, features, candidates, judged, wanted)
    maker = Maker(features, threads, table, len(names), depth)
    candidate_docs = None if listed is None else listed.docs
    if engine is None:
        blocks = maker.blocks(list(wanted.items()), candidate_docs, progress)
    else:
        blocks = _blocks_by_engine(maker, list(wanted.items()), candidate_docs, engine, progress)
    kept = [query for block in blocks for query in block.queries]
    if not kept and listed is not None:
        raise InputError("none of the candidates is in the index; expected the same document ids in both")
    if not kept:
        raise InputError("no query has candidates; expected queries with words that occur in the index")
    indptr = sizes_to_indptr(np.concatenate([np.diff(block.indptr) for block in blocks]))
    docs = np.concatenate([block.docs for block in blocks])
    X = _joined(blocks, len(docs), len(names))
    labels, n_missed, n_judged = _labels(judged, kept, indptr, docs)
    qid, used = np.repeat(np.array(kept), np.diff(indptr)), set(kept)
    return MadeFeatures(
        RankingData.from_arrays(
            X, labels, qid, doc_ids=_ids(index, docs), feature_names=names, allow_missing=bool(features.missing())
        ),
        without_candidates=[query for query in wanted if query not in used],
        without_judgements=[query for query in texts if query not in wanted],
        unknown_documents=len(set().union(*(source.unknown for source in (judged, listed) if source is not None))),
        missed_documents=n_missed,
        judged_documents=n_judged,
    )


class _TableDocs:
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


def _judged_only(texts: dict[str, str], judged: _TableDocs | None) -> dict[str, str]:
    """The queries that have judgements, or all without qrels."""
    if not texts:
        raise InputError("no queries; expected at least one")
    if judged is None:
        return texts
    wanted = {query: text for query, text in texts.items() if query in judged.docs}
    if not wanted:
        problem = f"none of the {len(texts):,} queries (the first is {next(iter(texts))!r}) has judgements"
        raise InputError(f"{problem}; expected the same query ids in both")
    return wanted


def _check_indexed(index: Index, judged: _TableDocs | None) -> None:
    """Reject judgements of which no document is in the index: every label would be 0."""
    if judged is None or not judged.unknown or any(len(docs) for docs in judged.docs.values()):
        return
    first = min(judged.unknown)[1].decode("utf-8", "replace")
    problem = f"none of the {len(judged.unknown):,} judged documents (such as {first!r}) is in the index"
    hint = f" (which has {index.doc_id(0)!r})" if index.n_docs else ""
    raise InputError(f"{problem}{hint}; expected the same document ids in both")


def _candidate_docs(
    index: Index, columns: Columns, candidates: str | TrecTable, judged: _TableDocs | None, queries: Mapping[str, str]
) -> _TableDocs | None:
    """The candidates given by judgements or a run; None if they must be searched for."""
    if isinstance(candidates, TrecTable):
        return _TableDocs(index, candidates, queries)
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


def _labels(judged: _TableDocs | None, queries: Sequence[str], indptr: Array, docs: Array) -> tuple[Array, int, int]:
    """The label of every row, the number of relevant documents without a row, and that of rows with a judgement."""
    labels, n_judged = np.zeros(len(docs)), 0
    if judged is None:
        return labels, 0, 0
    for query, start, stop in zip(queries, indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        judged_docs, values = judged.docs[query], np.maximum(judged.values[query], 0.0)
        place = np.minimum(np.searchsorted(docs[start:stop], judged_docs), stop - start - 1)
        has_row = docs[start:stop][place] == judged_docs
        labels[start:stop][place[has_row]] = values[has_row]
        n_judged += int(has_row.sum())
    n_relevant = sum(int((values > 0).sum()) for values in judged.values.values())
    return labels, n_relevant - int((labels > 0).sum()), n_judged


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
        if not (np.abs(table.values) <= LARGEST).all():
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
    """Makes blocks of queries, given as ids and texts, where the index is.

    ``listed`` has the candidates of the queries, unless these are searched for.
    """

    columns: Columns
    threads: int
    table: DocumentTable | None
    n_features: int
    depth: int

    def blocks(
        self,
        queries: Sequence[tuple[str, str]],
        listed: Mapping[str, Array] | None,
        progress: Progress | None = None,
    ) -> list[Block]:
        """All blocks, in order."""
        return by_threads(partial(self._block, listed=listed), _blocks_of(queries, _BLOCK), self.threads, progress)

    def _block(self, queries: Sequence[tuple[str, str]], listed: Mapping[str, Array] | None) -> Block:
        ids, texts = [query for query, _ in queries], [text for _, text in queries]
        if listed is None:
            indptr, docs = self.columns.candidates_all(texts, self.depth)
        else:
            candidates = [listed.get(query, np.empty(0, np.int64)) for query in ids]
            indptr, docs = sizes_to_indptr(np.array(list(map(len, candidates)))), np.concatenate(candidates)
        X = np.empty((len(docs), self.n_features), np.float32)
        self.columns.values_all(texts, indptr, docs, X)
        if self.table is not None:
            X[:, len(self.columns.names) :] = self.table.values[docs]
        sizes = np.diff(indptr)
        kept = [query for query, size in zip(ids, sizes.tolist(), strict=True) if size]
        return Block(kept, sizes_to_indptr(sizes[sizes > 0]), docs, X)


def _blocks_by_engine(
    maker: Maker,
    queries: Sequence[tuple[str, str]],
    listed: Mapping[str, Array] | None,
    engine: Any,
    progress: Progress | None,
) -> list[Block]:
    """All blocks, in order, made by the workers of an engine; each opens the index at its path."""
    columns = maker.columns
    if columns.numbers is not columns.index.numbers:
        raise InputError("numbers that are not in the index stay here; expected none with an engine, or set_numbers")
    transport = engine_of(engine)
    n_hosts = len(transport.workers())
    source = IndexSource(str(columns.index.path.absolute()), columns.names)
    cluster = Cluster(transport, [source] * n_hosts, [1] * n_hosts, closes=transport is not engine)
    try:
        actors = cluster.make(Maker, maker.table, maker.n_features, maker.depth)
        messages = [(block, _candidates(block, listed)) for block in _blocks_of(queries, _BLOCK * _BLOCKS)]
        blocks: list[Block] = []
        for start in range(0, len(messages), n_hosts):
            some = messages[start : start + n_hosts]
            answers = actors.call("blocks", own=some + [([], None)] * (n_hosts - len(some)))
            blocks += chain.from_iterable(answers)
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
        return Columns(Index.open(self.path), self.names)


def _blocks_of(queries: Sequence[tuple[str, str]], size: int) -> list[Sequence[tuple[str, str]]]:
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def _candidates(queries: Sequence[tuple[str, str]], listed: Mapping[str, Array] | None) -> Mapping[str, Array] | None:
    return None if listed is None else {query: listed[query] for query, _ in queries if query in listed}


def read_document_table(path: str | Path, index: Index) -> DocumentTable:
    """Read query-independent features: a table of documents and their numbers, as for :meth:`Index.set_numbers`.

    Every document of the index must have every number; rows of other documents are ignored. The column ``year`` becomes
    the feature ``doc:year``.

    Parameters
    ----------
    path : path
        The table, plain or gzip.
    index : Index
        The index of the documents.
    """
    columns = located_table(Path(path), index.find).over({}, index.n_docs)
    values = np.stack(list(columns.values()), axis=1)
    missing = np.flatnonzero(np.isnan(values).any(axis=1))
    if len(missing):
        problem = f"lacks numbers of {len(missing):,} of {index.n_docs:,} documents, such as"
        raise InputError(f"{problem} {index.doc_id(int(missing[0]))!r}; expected a full row for every document", path)
    return DocumentTable(tuple(f"doc:{name}" for name in columns), values)
