"""Features over one view, for many queries: all its retrieval functions in one pass, and the seven sums.

See :mod:`rankwright.text.search.columns` for their definitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.blocks import sizes_to_indptr
from rankwright.text.index.view import View
from rankwright.text.search.functions import BM25, Function

__all__ = ["SUMS", "QueryReader", "QueryTerms", "ViewColumns"]

Array = npt.NDArray[Any]

SUMS = ("log-tf", "log-cf", "log-idf", "log-share", "log-share-idf", "log-share-cf", "log-bm25")
"""The sums by name."""
_LEAST = 1e-3  # lower limit of BM25 in log-bm25
_NONE = np.empty(0, np.int64)


class ViewColumns:
    """The features of a table that belong to one view.

    Threads may use it at the same time once :meth:`settle` was called: what is written later are the impacts of terms,
    the same numbers by whichever thread.

    Parameters
    ----------
    view : View
        The documents.
    """

    _postings: tuple[Array, Array, Array]
    _is_made: Array
    _lowest: Array

    def __init__(self, view: View) -> None:
        self.view = view
        self._columns: dict[Function, list[int]] = {}
        self._sums: dict[int, int] = {}

    def add(self, column: int, feature: Function | str) -> None:
        """Let a column be a retrieval function, or one of :data:`SUMS`."""
        if isinstance(feature, str):
            self._sums[column] = SUMS.index(feature)
        else:
            self._columns.setdefault(feature, []).append(column)

    def settle(self) -> None:
        """Make the arrays that impacts are written to, after the last :meth:`add`.

        Cached properties would not do: two threads may compute one at the same time, and then each has its own.
        """
        indptr, docs = self.view.arrays[:2]
        n_functions, n_terms = len(self.functions), self.view.n_terms
        self._postings = indptr, docs.view(np.uint32), np.empty((n_functions, len(docs)), np.float32)
        self._lowest = np.zeros((n_functions, n_terms), np.float32)
        self._is_made = np.zeros(n_terms, bool)

    @cached_property
    def functions(self) -> list[Function]:
        """The functions to compute; the last may be there for log-bm25 alone."""
        return list(dict.fromkeys([*self._columns, *([] if self._bm25 is None else [self._bm25])]))

    def mark(self, queries: QueryTerms, k: int, places: Array, marks: Array) -> None:
        """Mark the top k documents of each query under each function.

        Parameters
        ----------
        queries : QueryTerms
            The terms of the queries in this view.
        k : int
            Number of documents.
        places : ndarray of int32
            Workspace: zeros for all documents, left as zeros.
        marks : ndarray of bool
            Queries × documents.
        """
        from rankwright.text.search.column_kernel import mark_best

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
        from rankwright.text.search.column_kernel import fill_scores

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
        from rankwright.text.search.column_kernel import fill_sums

        view, terms = self.view, queries.terms
        sums = np.zeros((len(docs), len(SUMS)))
        fill_sums(
            queries.indptr - queries.indptr[0],
            terms,
            view.total_length / view.total_counts[terms],
            view.n_docs / view.doc_counts[terms],
            *view.arrays,
            indptr,
            docs,
            places,
            sums,
        )
        if self._bm25 is not None:
            scores = table[self._targets[self.functions.index(self._bm25)]].astype(np.float64)
            sums[:, -1] = np.log(np.maximum(scores, _LEAST))
        for column, which in self._sums.items():
            table[column] = sums[:, which]

    def make_impacts(self, terms: Array) -> None:
        """Check postings and compute missing impacts. Threads that do so at the same time write the same numbers."""
        from rankwright.text.search.column_kernel import fill_all_impacts

        if self._is_made[terms].all():
            return
        view, functions = self.view, self.functions
        missing = np.unique(terms[~self._is_made[terms]])
        view.check(missing)
        if functions:
            weights = np.array([function.term_weights(view, missing) for function in functions], np.float64)
            indptr, docs, impacts = self._postings
            fill_all_impacts(
                np.array([function.form for function in functions]),
                missing,
                weights,
                self._factors,
                indptr,
                docs,
                view.arrays[2],
                impacts,
                self._lowest,
            )
        self._is_made[missing] = True

    @cached_property
    def _bm25(self) -> Function | None:
        """The function that log-bm25 is the logarithm of, if it is a feature."""
        return BM25() if len(SUMS) - 1 in self._sums.values() else None

    @cached_property
    def _targets(self) -> Array:
        """The first column of every function."""
        logarithms = [column for column, which in self._sums.items() if which == len(SUMS) - 1]
        return np.array([self._columns.get(one, logarithms)[0] for one in self.functions], np.int64)

    @cached_property
    def _factors(self) -> Array:
        return np.array([function.doc_factors(self.view) for function in self.functions], np.float64)

    @cached_property
    def _priors(self) -> tuple[Array, Array]:
        """The row of each function's priors, or -1, and the priors, rows × documents."""
        found = [function.doc_priors(self.view) for function in self.functions]
        made = [priors for priors in found if priors is not None]
        rows = np.cumsum([priors is not None for priors in found]) - 1
        rows[[priors is None for priors in found]] = -1
        return rows, np.array(made, np.float32).reshape(len(made), self.view.n_docs)


@dataclass(frozen=True, eq=False)
class QueryTerms:
    """The terms of queries in one view; query ``q`` owns ``indptr[q]:indptr[q+1]`` of arrays over all views.

    Attributes
    ----------
    for_kernels : tuple of ndarray
        ``indptr``; all terms, those in few documents first; their weights, terms × functions of all views; the
        functions of this view among these; and the number of terms of each query, with repetition.
    terms : ndarray of int64
        The terms in this view only, ascending within a query.
    most_postings : int
        Largest number of postings of a query.
    """

    for_kernels: tuple[Array, Array, Array, Array, Array]
    terms: Array
    most_postings: int

    @property
    def indptr(self) -> Array:
        """Boundaries of the queries."""
        return self.for_kernels[0]

    def part(self, first: int, last: int) -> QueryTerms:
        """Queries ``first:last``."""
        indptr, terms, weights, which, sizes = self.for_kernels
        own = indptr[first : last + 1]
        here = self.terms[int(own[0] - indptr[0]) : int(own[-1] - indptr[0])]
        return QueryTerms((own, terms, weights, which, sizes[first:last]), here, self.most_postings)


class QueryReader:
    """Finds the terms of queries in several views of an index, with all that kernels need to know about them.

    Views are looked at together, as a query has only a few terms in each.

    Parameters
    ----------
    views : sequence of ViewColumns
        The views, with all their features.
    """

    def __init__(self, views: Sequence[ViewColumns]) -> None:
        self._views = views
        for view in views:
            view.settle()
        self._functions = list(dict.fromkeys(function for view in views for function in view.functions))
        self._which = [np.array([self._functions.index(one) for one in view.functions], np.int64) for view in views]

    def __call__(self, texts: Sequence[str]) -> list[QueryTerms]:
        """The terms of queries in every view; each text is analysed once by every analyser."""
        if not self._views:
            return []
        counted: dict[Callable[[str], list[str]], list[Counter[str]]] = {}
        terms_of, counts_of, times_of, lengths = [_NONE], [_NONE], [], []
        for one in self._views:
            analyze, number = one.view.analyze, one.view.terms.get
            if analyze not in counted:
                counted[analyze] = [Counter(analyze(text)) for text in texts]
            numbers: list[int] = []
            for words in counted[analyze]:
                own = sorted([(at, times) for word, times in words.items() if (at := number(word)) is not None])
                numbers += [at for at, _ in own]
                times_of += [times for _, times in own]
                lengths.append(len(own))
            terms_of.append(np.array(numbers, np.int64))
            counts_of.append(one.view.doc_counts[terms_of[-1]])
            one.make_impacts(terms_of[-1])
        terms, doc_counts, times = np.concatenate(terms_of), np.concatenate(counts_of), np.array(times_of, np.float64)
        of_query = np.repeat(np.arange(len(lengths)), lengths)
        known = doc_counts > 0
        if not known.all():
            terms, doc_counts, times, of_query = terms[known], doc_counts[known], times[known], of_query[known]
        return self._by_view(len(texts), terms, doc_counts, times, of_query)

    def _by_view(
        self, n_queries: int, terms: Array, doc_counts: Array, times: Array, of_query: Array
    ) -> list[QueryTerms]:
        """The terms of each view; ``of_query`` numbers the queries of the first view, then those of the second."""
        n_views = len(self._views)
        total = n_views * n_queries
        indptr = sizes_to_indptr(np.bincount(of_query, minlength=total))
        order = np.lexsort((doc_counts, of_query))
        weights = np.empty((len(terms), len(self._functions)), np.float32)
        rarities = max((one.view.n_docs for one in self._views), default=0) / doc_counts
        for at, function in enumerate(self._functions):
            weights[:, at] = function.weights_of_queries(indptr, times, rarities)[order]
        sizes = np.bincount(of_query, weights=times, minlength=total).astype(np.float32)
        n_postings = np.bincount(of_query, weights=doc_counts, minlength=total).reshape(n_views, n_queries)
        most = n_postings.max(axis=1, initial=0).astype(np.int64).tolist()
        made, rare_first = [], terms[order]
        for v, which in enumerate(self._which):
            first, last = v * n_queries, (v + 1) * n_queries
            own = indptr[first : last + 1]
            here = terms[int(own[0]) : int(own[-1])]
            made.append(QueryTerms((own, rare_first, weights, which, sizes[first:last]), here, most[v]))
        return made
