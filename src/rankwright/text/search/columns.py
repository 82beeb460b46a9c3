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
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.order import sizes_to_indptr
from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.index.numbers import GivenNumbers, located
from rankwright.text.index.view import View
from rankwright.text.reading.numbers import as_number
from rankwright.text.search.functions import BM25, SUMS, Function, feature_parts, parse_feature
from rankwright.text.search.scorer import QueryReader, QueryTerms, Scorer, ViewScorer, whole

__all__ = ["Columns", "feature_set"]

_ANALYZERS = ("plain", "porter", "porter+stop")
_BASE = ("cosine", "tfidf", "bm25", "dirichlet", "jm")  # of SIGIR'07: other functions are features by their names
# What takes the place of a missing number is part of the name, so that training and search cannot differ.
_NUMBER = re.compile(r"(?P<name>[^()\[\]]+)(?:\(missing=(?P<fill>[^()\[\]]*)\))?")
_LEAST = 1e-3  # lower limit of BM25 in log-bm25
_LOG_BM25 = "log-bm25"
_RECENT_BLOCKS = 16  # blocks of queries whose terms are cached
_MOST_MARKS = 1 << 24  # queries × documents that candidates are marked in at a time

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
            known = f"one of its numbers, {', '.join(self.numbers)}" if self.numbers else "a number (it has none)"
            what = f"feature {name!r} cannot be computed from an index"
            raise InputError(f"{what}; expected a name like bm25[porter], or {known}")
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
        n_docs, depth, queries_of = self.index.n_docs, whole(depth, "depth"), self._recent(tuple(texts))
        places = np.zeros(n_docs, np.int32)
        sizes, docs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        step = max(1, _MOST_MARKS // max(n_docs, 1))
        for first in range(0, len(texts), step):
            last = min(first + step, len(texts))
            marks = np.zeros((last - first, n_docs), bool)
            for view, queries in zip(self._views, queries_of, strict=True):
                view.mark(queries if last - first == len(texts) else queries.part(first, last), depth, places, marks)
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
        """What :meth:`values_all` gives, features × documents: this is how it is computed."""
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
        counted = {self.names[at]: int(np.isnan(values).sum()) for at, values in self._numbers.items()}
        return {name: number for name, number in counted.items() if number}


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
        from rankwright.text.search.scorer_kernel import mark_best

        if self._columns:
            most = min(queries.most_postings, self.view.n_docs)
            found, sums = np.empty(most + 1, np.uint32), np.empty((len(self.functions), most), np.float32)
            mark_best(
                *queries.for_kernels, *self._postings, *self._priors, self._lowest, len(self._columns), k,
                places, found, sums, marks,
            )  # fmt: skip

    def fill(self, queries: QueryTerms, indptr: Array, docs: Array, places: Array, table: Array) -> None:
        """Write the features of documents into their rows of ``table``, features × documents.

        Query ``q`` has the documents ``docs[indptr[q]:indptr[q+1]]``.
        """
        from rankwright.text.search.scorer_kernel import fill_scores

        if self.functions:
            fill_scores(
                *queries.for_kernels, *self._postings, *self._priors, indptr, docs, self._targets, places, table
            )
        for columns in self._columns.values():
            for other in columns[1:]:
                table[other] = table[columns[0]]
        if self._sums:
            self._fill_sums(queries, indptr, docs, places, table)

    def _fill_sums(self, queries: QueryTerms, indptr: Array, docs: Array, places: Array, table: Array) -> None:
        from rankwright.text.search.scorer_kernel import fill_sums

        view, terms, names = self.view, queries.terms, list(SUMS)
        sums = np.zeros((len(docs), len(names)))
        fill_sums(
            queries.indptr,
            terms,
            view.total_length / view.total_counts[terms],
            view.n_docs / view.doc_counts[terms],
            *view.arrays,
            indptr,
            docs,
            places,
            sums,
        )
        if _LOG_BM25 in self._sums.values():
            scores = table[self._first_of[BM25()]].astype(np.float64)
            sums[:, names.index(_LOG_BM25)] = np.log(np.maximum(scores, _LEAST))
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
        values[np.isnan(values)] = _fill(name, match["fill"])
    return values


def _fill(name: str, text: str) -> float:
    try:
        number = as_number(text)
    except InputError as error:
        raise InputError(f"feature {name!r}: missing {error.message}") from None
    if np.isnan(number):
        raise InputError(f"feature {name!r}: missing is {text!r}; expected a number, as in price(missing=0)")
    return number
