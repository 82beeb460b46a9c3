"""Features of a document for a query, by name: ``bm25[porter]``, ``log-tf[porter+stop]``, ``bm25(b=0.4)[plain,title]``.

Before the brackets comes a retrieval function, or one of seven sums over the terms t that query and document share
(SIGIR'06, Table 1; c is the count of t in the document, |d| the length of the document, |C| that of all documents, cf
the count of t in all of them, idf the number of documents divided by the number that contain t):

    log-tf         Σ ln(c + 1)                log-share      Σ ln(c/|d| + 1)
    log-cf         Σ ln(|C|/cf + 1)           log-share-idf  Σ ln(c/|d| · idf + 1)
    log-idf        Σ ln(idf)                  log-share-cf   Σ ln(c/|d| · |C|/cf + 1)
    log-bm25       ln(max(BM25, 0.001))

The brackets name the view: an analyser, or an analyser and a field. A model that knows the names of its features can
therefore be applied to any index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.index.view import View
from rankwright.text.search.functions import BM25, FUNCTIONS, Function, parse_function
from rankwright.text.search.scorer import Scorer

__all__ = ["FEATURE_SETS", "Columns", "feature_set"]

Array = npt.NDArray[Any]

_ANALYZERS = ("plain", "porter", "porter+stop")
_FUNCTIONS = ("cosine", "tfidf", "bm25", "dirichlet", "jm")
_SUMS = ("log-tf", "log-cf", "log-idf", "log-share", "log-share-idf", "log-share-cf", "log-bm25")
_NAME = re.compile(r"(?P<function>[^\[]+)\[(?P<analyzer>[^,]+?)(?:,(?P<field>.+))?\]")
_LEAST = 1e-3  # lower limit of BM25 in log-bm25
_RECENT_TEXTS, _RECENT_BLOCKS = 1024, 16  # cached queries, shared by the columns

FEATURE_SETS = {
    "base": tuple(f"{function}[{{}}]" for function in _FUNCTIONS),
    "sigir06": tuple(f"{name}[{{}}]" for name in _SUMS),
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


class Columns:
    """Features of an index, by name.

    Parameters
    ----------
    index : Index
        Where the documents are.
    names : sequence of str
        The features, without duplicates.

    Examples
    --------
    >>> columns = Columns(index, feature_set("base"))  # doctest: +SKIP
    >>> columns.values("lift of a wing", [3, 17])  # doctest: +SKIP
    """

    def __init__(self, index: Index, names: Sequence[str]) -> None:
        if isinstance(names, str):
            raise InputError(f"the features are a single string, {names!r}; expected a list of names")
        self.index, self.names = index, tuple(names)
        self._views: dict[str, _View] = {}
        self._scorers: dict[int, _Scorer] = {}
        self._sums: dict[str, tuple[_Sums, dict[int, int]]] = {}  # by view: column to index of the sum
        for column, name in enumerate(self.names):
            if name in self.names[:column]:
                raise InputError(f"duplicate feature {name!r}")
            self._add(column, name)

    def _add(self, column: int, name: str) -> None:
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"feature {name!r} cannot be computed from an index; expected a name like bm25[porter]")
        try:
            function = found["function"] if found["function"] in _SUMS else _parsed(found["function"])
            view = self._view(found["analyzer"], found["field"])
        except InputError as error:
            raise InputError(f"feature {name!r}: {error.message}", error.path) from None
        if isinstance(function, str):
            _, columns = self._sums.setdefault(view.name, (_Sums(view), {}))
            columns[column] = _SUMS.index(function)
        else:
            self._scorers[column] = _Scorer(view, function)

    def _view(self, analyzer: str, field: str | None) -> _View:
        view = self.index.view(analyzer, field)
        if view.name not in self._views:
            parts = {field.name: getattr(view, field.name) for field in fields(view)}
            self._views[view.name] = _View(**parts)
        return self._views[view.name]

    @property
    def functions(self) -> dict[str, Scorer]:
        """The columns that are retrieval functions."""
        return {self.names[column]: scorer for column, scorer in self._scorers.items()}

    def candidates(self, text: str, depth: int) -> Array:
        """The documents among the top ``depth`` of at least one retrieval function, ascending."""
        return self.candidates_all([text], depth)[1]

    def candidates_all(self, texts: Sequence[str], depth: int) -> tuple[Array, Array]:
        """``indptr`` and ``docs`` for several queries: query ``q`` has ``docs[indptr[q]:indptr[q+1]]``."""
        pairs = [np.empty(0, np.int64)]
        for scorer in self._scorers.values():
            hits = scorer.search_all(texts, depth)
            pairs.append(np.repeat(np.arange(len(hits)) * self.index.n_docs, np.diff(hits.indptr)) + hits.docs)
        found = np.unique(np.concatenate(pairs))
        queries, docs = np.divmod(found, max(1, self.index.n_docs))
        return sizes_to_indptr(np.bincount(queries, minlength=len(texts))), docs

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
        table = np.empty((len(docs), len(self.names)), np.float32) if out is None else out
        for column, scorer in self._scorers.items():
            scorer.fill(texts, indptr, docs, table[:, column])
        for sums, columns in self._sums.values():
            made = sums.values(texts, indptr, docs)
            for column, which in columns.items():
                table[:, column] = made[:, which]
        return table


def _parsed(text: str) -> Function:
    base = text.partition("(")[0].strip()
    if base in _SUMS:
        raise InputError(f"{base} takes no parameters")
    if base.lower() not in FUNCTIONS:
        raise InputError(f"unknown function {base!r}; expected one of {', '.join((*FUNCTIONS, *_SUMS))}")
    return parse_function(text)


class _View(View):
    """A view that caches the terms of recent queries, which every column over it needs."""

    @cached_property
    def _recent(self) -> Callable[[str], tuple[Array, Array, int]]:
        return lru_cache(_RECENT_TEXTS)(super().query)

    def query(self, text: str) -> tuple[Array, Array, int]:
        return self._recent(text)


class _Scorer(Scorer):
    """A retrieval function that scores given documents of many queries, and caches recent ones."""

    def __init__(self, view: View, function: Function) -> None:
        super().__init__(view, function)
        self._recent = lru_cache(_RECENT_BLOCKS)(super()._prepared)

    def _prepared(self, texts: Sequence[str]) -> Any:
        return self._recent(tuple(texts))

    def fill(self, texts: Sequence[str], indptr: Array, docs: Array, out: Array) -> None:
        """Write the scores, bit-identical to those of :meth:`scores`."""
        from rankwright.text.search.column_kernel import fill_scores

        queries = self._prepared(texts)
        sums = np.zeros(self.view.n_docs, np.float32)
        fill_scores(
            queries.indptr, queries.terms, queries.weights, queries.sizes, *self._postings, self._priors, indptr, docs,
            sums, out,
        )  # fmt: skip


class _Sums:
    """The seven features of SIGIR'06 over one view: sums over the terms that query and document share."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._bm25 = _Scorer(view, BM25())

    def values(self, texts: Sequence[str], indptr: Array, docs: Array) -> Array:
        """Seven columns, one row for each document."""
        from rankwright.text.search.column_kernel import fill_sums

        view = self.view
        terms_of = [view.query(text)[0] for text in texts]
        terms_of = [terms[view.doc_counts[terms] > 0] for terms in terms_of]
        terms = np.concatenate([np.empty(0, np.int64), *terms_of])
        view.check(terms)
        sums = np.zeros((len(docs), len(_SUMS)))
        fill_sums(
            sizes_to_indptr(np.array([len(terms) for terms in terms_of], np.int64)),
            terms,
            view.total_length / view.total_counts[terms],
            view.n_docs / view.doc_counts[terms],
            *view.arrays,
            indptr,
            docs,
            np.full(view.n_docs, -1),
            sums,
        )
        scores = np.empty((len(docs), 2), np.float32)[
            :, 0
        ]  # a strided column like those of the table, so that the kernel is compiled once
        self._bm25.fill(texts, indptr, docs, scores)
        sums[:, -1] = np.log(np.maximum(scores.astype(np.float64), _LEAST))
        return sums
