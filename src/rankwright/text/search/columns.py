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
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.errors import InputError
from rankwright.text.index.index import Index
from rankwright.text.index.numbers import GivenNumbers
from rankwright.text.index.view import View
from rankwright.text.search.functions import FUNCTIONS, Function, parse_function
from rankwright.text.search.number_columns import DocumentTable, all_numbers, number_feature
from rankwright.text.search.scorer import Scorer, whole
from rankwright.text.search.view_columns import SUMS, QueryReader, ViewColumns

__all__ = ["FEATURE_SETS", "Columns", "feature_parts", "feature_set"]

Array = npt.NDArray[Any]

_ANALYZERS = ("plain", "porter", "porter+stop")
_FUNCTIONS = ("cosine", "tfidf", "bm25", "dirichlet", "jm")
_NAME = re.compile(r"(?P<function>[^\[]+)\[(?P<analyzer>[^,]+?)(?:,(?P<field>.+))?\]")
_RECENT_BLOCKS = 16  # blocks of queries whose terms are cached
_MOST_MARKS = 1 << 24  # queries × documents that candidates are marked in at a time

FEATURE_SETS = {
    "base": tuple(f"{function}[{{}}]" for function in _FUNCTIONS),
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


def feature_parts(name: str) -> tuple[Function | str, str, str | None] | None:
    """The function (or the name of a sum), the analyser and the field of a feature; None for any other name.

    Examples
    --------
    >>> feature_parts("bm25(b=0.4)[plain,title]")
    (BM25(k1=1.2, b=0.4, k3=7.0, idf='lucene'), 'plain', 'title')
    >>> feature_parts("log-tf[porter]"), feature_parts("price")
    (('log-tf', 'porter', None), None)
    """
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        function = found["function"] if found["function"] in SUMS else _parsed(found["function"])
    except InputError:
        return None
    return function, found["analyzer"], found["field"]


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
        self._views: dict[str, ViewColumns] = {}
        self._functions: dict[str, tuple[View, Function]] = {}
        self.numbers = all_numbers(index, numbers)
        self._numbers: dict[int, Array] = {}
        for column, name in enumerate(self.names):
            if name in self.names[:column]:
                raise InputError(f"duplicate feature {name!r}")
            self._add(column, name)
        self._recent = lru_cache(_RECENT_BLOCKS)(QueryReader(list(self._views.values())))

    def _add(self, column: int, name: str) -> None:
        number = number_feature(name, self.numbers) if isinstance(name, str) else None
        if number is not None:
            self._numbers[column] = number
            return
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            known = f"one of its numbers, {', '.join(self.numbers)}" if self.numbers else "a number (it has none)"
            what = f"feature {name!r} cannot be computed from an index"
            raise InputError(f"{what}; expected a name like bm25[porter], or {known}")
        try:
            feature = found["function"] if found["function"] in SUMS else _parsed(found["function"])
            view = self.index.view(found["analyzer"], found["field"])
        except InputError as error:
            raise InputError(f"feature {name!r}: {error.message}", error.path) from None
        if view.name not in self._views:
            self._views[view.name] = ViewColumns(view)
        self._views[view.name].add(column, feature)
        if not isinstance(feature, str):
            self._functions[name] = view, feature

    @cached_property
    def functions(self) -> dict[str, Scorer]:
        """The columns that are retrieval functions."""
        return {name: Scorer(view, function) for name, (view, function) in self._functions.items()}

    def candidates(self, text: str, depth: int) -> Array:
        """The documents among the top ``depth`` of at least one retrieval function, ascending."""
        return self.candidates_all([text], depth)[1]

    def candidates_all(self, texts: Sequence[str], depth: int) -> tuple[Array, Array]:
        """``indptr`` and ``docs`` for several queries: query ``q`` has ``docs[indptr[q]:indptr[q+1]]``."""
        n_docs, depth, known = self.index.n_docs, whole(depth, "depth"), self._recent(tuple(texts))
        places = np.zeros(n_docs, np.int32)
        sizes, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        step = max(1, _MOST_MARKS // max(n_docs, 1))
        for first in range(0, len(texts), step):
            last = min(first + step, len(texts))
            marks = np.zeros((last - first, n_docs), bool)
            for own, queries in zip(self._views.values(), known, strict=True):
                own.mark(queries if last - first == len(texts) else queries.part(first, last), depth, places, marks)
            sizes.append(np.count_nonzero(marks, axis=1))
            found.append(np.flatnonzero(marks) % n_docs if len(marks) > 1 else np.flatnonzero(marks[0]))
        return sizes_to_indptr(np.concatenate(sizes)), np.concatenate(found)

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
        places, made = np.zeros(self.index.n_docs, np.int32), np.empty((len(self.names), len(docs)), np.float32)
        for own, queries in zip(self._views.values(), self._recent(tuple(texts)), strict=True):
            own.fill(queries, indptr, docs, places, made)
        for column, values in self._numbers.items():
            np.take(values, docs, out=made[column])
        return made

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


def _parsed(text: str) -> Function:
    base = text.partition("(")[0].strip()
    if base in SUMS:
        raise InputError(f"{base} takes no parameters")
    if base.lower() not in FUNCTIONS:
        raise InputError(f"unknown function {base!r}; expected one of {', '.join((*FUNCTIONS, *SUMS))}")
    return parse_function(text)
