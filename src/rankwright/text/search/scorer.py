"""Search: the top documents of a view for queries, by a retrieval function.

Impacts of terms are computed when a query first needs them and kept in single precision, so another query with the same
terms costs a few additions per posting. Scores are sums in single precision, bit-identical from every method here and
for any number of threads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright.data.ahead import map_ahead
from rankwright.data.blocks import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.text.search.functions import Function, parse_function
from rankwright.text.search.hits import Found, Hits

if TYPE_CHECKING:
    from rankwright.text.index.index import Index
    from rankwright.text.index.view import View

__all__ = ["Scorer", "check_queries", "default_analyzer", "search", "whole"]

Array = npt.NDArray[Any]

_BLOCK = 64
"""Queries that a thread processes at a time."""


def search(
    index: Index,
    text: str,
    function: str | Function = "bm25",
    *,
    k: int = 10,
    analyzer: str | None = None,
    field: str | None = None,
) -> list[tuple[str, float]]:
    """Search an index: ids and scores of the top documents, best first.

    Parameters
    ----------
    index : Index
        Where the documents are.
    text : str
        The query.
    function : str or Function, default="bm25"
        The retrieval function, for example ``"bm25(k1=0.9)"`` or ``"dirichlet"``.
    k : int, default=10
        Maximum number of documents; documents that share no term with the query are never returned.
    analyzer : str, optional
        One of ``index.analyzers``; see :func:`default_analyzer` for the default.
    field : str, optional
        One of ``index.fields``; by default all of them.

    Examples
    --------
    >>> search(index, "lift of a wing", "dirichlet(mu=500)", k=3)  # doctest: +SKIP
    [('51', -1.93...), ('12', -2.04...), ('486', -2.33...)]
    """
    scorer = Scorer(index.view(analyzer or default_analyzer(index.analyzers), field), function)
    docs, scores = scorer.search(text, k)
    return [(index.doc_id(doc), score) for doc, score in zip(docs.tolist(), scores.tolist(), strict=True)]


def default_analyzer(names: Sequence[str]) -> str:
    """The default analyser: ``porter+stop`` if present, else the first."""
    return "porter+stop" if "porter+stop" in names else names[0]


@dataclass(frozen=True, eq=False)
class _Queries:
    """Queries as the kernels take them: the terms of each, the most frequent one last."""

    indptr: Array
    terms: Array
    weights: Array
    sizes: Array
    are_positive: Array

    def part(self, first: int, last: int) -> _Queries:
        """Queries ``first:last``."""
        start, stop = self.indptr[first], self.indptr[last]
        return _Queries(
            self.indptr[first : last + 1] - start,
            self.terms[start:stop],
            self.weights[start:stop],
            self.sizes[first:last],
            self.are_positive[first:last],
        )


class Scorer:
    """A retrieval function over a view; computes once what queries share.

    Parameters
    ----------
    view : View
        The documents.
    function : str or Function, default="bm25"
        The retrieval function.

    Examples
    --------
    >>> scorer = Scorer(index.view("porter"), "bm25")  # doctest: +SKIP
    >>> docs, scores = scorer.search("lift of a wing", 10)  # doctest: +SKIP
    >>> hits = scorer.search_all(["lift of a wing", "heat transfer"], k=1000, n_jobs=2)  # doctest: +SKIP
    """

    def __init__(self, view: View, function: str | Function = "bm25") -> None:
        self.view = view
        self.function = parse_function(function)
        self._impacts = np.empty(len(view.docs), np.float32)
        indptr, docs = view.arrays[:2]
        self._postings = indptr, docs.view(np.uint32), self._impacts
        self._is_made = np.zeros(view.n_terms, bool)
        self._lowest = np.zeros(view.n_terms, np.float32)

    def scores(self, text: str, docs: npt.ArrayLike | None = None) -> Array:
        """The scores of all documents, or of some of them.

        Documents that share no term with the query get 0, except that
        :class:`~rankwright.text.search.functions.Dirichlet` gives them |q| · ln(μ / (|d| + μ)).
        """
        from rankwright.text.search.scorer_kernel import add_up

        queries = self._prepared([text])
        sums = np.zeros(self.view.n_docs, np.float32)
        add_up(queries.terms, queries.weights, *self._postings, sums)
        rows = slice(None) if docs is None else np.asarray(docs, np.int64)
        scores = sums[rows]
        if self._priors.size:
            scores = scores + queries.sizes[0] * self._priors[rows]
        return scores.astype(np.float64)

    def term_scores(self, text: str, docs: npt.ArrayLike) -> tuple[dict[str, Array], Array | None]:
        """What each term of a query adds to the scores of some documents, and what their lengths add by themselves.

        The second part is None if the function adds nothing for the document alone. All parts sum to :meth:`scores`, up
        to rounding in single precision.
        """
        from rankwright.text.search.scorer_kernel import add_up

        queries, rows = self._prepared([text]), np.asarray(docs, np.int64)
        words = {self.view.terms[word]: word for word in self.view.analyze(text) if word in self.view.terms}
        parts = {}
        for at, term in enumerate(queries.terms.tolist()):
            sums = np.zeros(self.view.n_docs, np.float32)
            add_up(queries.terms[at : at + 1], queries.weights[at : at + 1], *self._postings, sums)
            parts[words[term]] = sums[rows].astype(np.float64)
        return parts, (queries.sizes[0] * self._priors[rows]).astype(np.float64) if self._priors.size else None

    def matching(self, text: str) -> Array:
        """Whether each document contains a term of the query."""
        matching = np.zeros(self.view.n_docs, bool)
        terms = self.view.query(text)[0]
        self.view.check(terms)
        for term in terms.tolist():
            matching[self.view.docs[self.view.indptr[term] : self.view.indptr[term + 1]]] = True
        return matching

    def search(self, text: str, k: int = 10) -> Found:
        """The top k documents that contain a term of the query, and their scores, best first; ``.ids`` has the ids."""
        return self.search_all([text], k)[0]

    def search_all(
        self,
        texts: Sequence[str],
        k: int = 1000,
        *,
        n_jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Hits:
        """The top k documents of each query.

        Parameters
        ----------
        texts : sequence of str
            The queries.
        k : int, default=1000
            Maximum number of documents for each query.
        n_jobs : int, optional
            Number of threads, -1 for all cores; does not affect the result.
        progress : callable, optional
            Called with (queries done, total queries).
        """
        check_queries(texts)
        k = min(whole(k, "k"), max(self.view.n_docs, 1))
        threads = threads_of(n_jobs)
        queries = self._prepared(texts)
        blocks = [queries.part(first, min(first + _BLOCK, len(texts))) for first in range(0, len(texts), _BLOCK)]
        work = partial(self._search_block, k=k)
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for part in map_ahead(work, iter(blocks), threads, 2 * threads):
            parts.append(part)
            if progress is not None:
                progress(min((len(parts) - 1) * _BLOCK, len(texts)), len(texts))
        sizes, docs, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Hits(sizes_to_indptr(sizes), docs, scores, self.view.ids)

    def _search_block(self, queries: _Queries, k: int) -> tuple[Array, Array, Array]:
        """The number of documents found for each query, the documents, and their scores."""
        from rankwright.text.search.scorer_kernel import BUFFER, best_keys, keys_to_scores

        n_queries = len(queries.sizes)
        postings = sizes_to_indptr(self.view.doc_counts[queries.terms])[queries.indptr]
        most = np.minimum(np.diff(postings), self.view.n_docs)
        found = np.empty(int(np.minimum(most, k).sum()), np.uint64)
        found_indptr = np.zeros(n_queries + 1, np.int64)
        keys = np.empty(max(BUFFER, min(2 * k, int(most.max(initial=0)) + 1)), np.uint64)
        best_keys(
            queries.indptr, queries.terms, queries.weights, queries.sizes, queries.are_positive, *self._postings,
            self._priors, k, np.zeros(self.view.n_docs, np.float32), keys, found_indptr, found,
        )  # fmt: skip
        for start, stop in zip(found_indptr[:-1].tolist(), found_indptr[1:].tolist(), strict=True):
            found[start:stop].sort()
        found = found[: found_indptr[-1]]
        return np.diff(found_indptr), found.astype(np.uint32).astype(np.int64), keys_to_scores(found)

    def _prepared(self, texts: Sequence[str]) -> _Queries:
        """Analyse queries and compute the impacts of their terms."""
        view, function = self.view, self.function
        terms_of, weights_of, sizes = [], [], []
        for text in texts:
            terms, times, _ = view.query(text)
            known = view.doc_counts[terms] > 0
            if not known.all():
                terms, times = terms[known], times[known]
            terms_of.append(terms)
            weights_of.append(function.query_weights(view, terms, times))
            sizes.append(times.sum())
        lengths = np.array([len(terms) for terms in terms_of], np.int64)
        terms = np.concatenate([np.empty(0, np.int64), *terms_of])
        view.check(terms)
        weights = np.concatenate([np.empty(0), *weights_of]).astype(np.float32)
        of_query = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((view.doc_counts[terms], of_query))
        terms, weights = terms[order], weights[order]
        self._make_impacts(terms)
        is_zero_or_less = self._lowest[terms] <= 0
        are_positive = np.bincount(of_query, weights=is_zero_or_less, minlength=len(lengths)) == 0
        if self._priors.size:
            are_positive[:] = False
        return _Queries(sizes_to_indptr(lengths), terms, weights, np.array(sizes, np.float32), are_positive)

    def _make_impacts(self, terms: Array) -> None:
        """Compute missing impacts. Threads that do so at the same time write the same numbers."""
        from rankwright.text.search.scorer_kernel import fill_impacts

        missing = np.unique(terms[~self._is_made[terms]])
        if not len(missing):
            return
        view = self.view
        indptr, docs, _ = self._postings
        lowest = np.empty(len(missing), np.float32)
        weights = self.function.term_weights(view, missing).astype(np.float64)
        fill_impacts(
            self.function.form,
            missing,
            weights,
            self._factors,
            indptr,
            docs,
            view.arrays[2],
            self._impacts,
            lowest,
        )
        self._lowest[missing] = lowest
        self._is_made[missing] = True

    @cached_property
    def _factors(self) -> Array:
        return np.ascontiguousarray(self.function.doc_factors(self.view), np.float64)

    @cached_property
    def _priors(self) -> Array:
        priors = self.function.doc_priors(self.view)
        return np.empty(0, np.float32) if priors is None else priors.astype(np.float32)


def check_queries(texts: Any) -> None:
    """Refuse anything but several strings; the letters of a single one would be queries."""
    if isinstance(texts, str):
        raise InputError("the queries are a single string; expected a sequence of strings")
    if not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")) or isinstance(texts, Mapping | bytes):
        raise InputError(f"the queries are {_described(texts)}; expected a sequence of strings")
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"a query is {_described(text)}; expected a string")


def _described(value: Any) -> str:
    return "None" if value is None else f"of the type {type(value).__name__}"


def whole(value: Any, name: str) -> int:
    """A positive integer, or an error that names it."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = 0
    if whole < 1:
        raise InputError(f"{name} is {value!r}; expected a positive integer")
    return whole
