"""Search: the top documents of a view for queries, by a retrieval function.

Impacts of terms are computed when a query first needs them and kept in single precision, so another query with the same
terms costs a few additions per posting. Scores are sums in single precision, bit-identical from every method here and
for any number of threads, however many functions are computed together.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.order import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.files import map_ahead
from rankwright.text.search.functions import Function, parse_function
from rankwright.text.search.results import Found, Hits

if TYPE_CHECKING:
    from rankwright.text.index.index import Index
    from rankwright.text.index.view import View

__all__ = ["search"]

_BLOCK = 64  # queries that a thread processes at a time
_NONE = np.empty(0, np.int64)


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
class QueryTerms:
    """The terms of queries in one view; query ``q`` owns ``indptr[q]:indptr[q+1]`` of arrays over all views.

    `for_kernels`: ``indptr``; all terms, those in few documents first; their weights, terms × functions of all views;
    the functions of this view among these; and the number of terms of each query, with repetition. `terms`: the terms
    in this view only, ascending within a query. `most_postings`: largest number of postings of a query.
    """

    for_kernels: tuple[Array, Array, Array, Array, Array]
    terms: Array
    most_postings: int

    @property
    def indptr(self) -> Array:
        """The boundaries of the queries in ``terms``."""
        return self.for_kernels[0] - self.for_kernels[0][0]

    def part(self, first: int, last: int) -> QueryTerms:
        """Queries ``first:last``."""
        indptr, terms, weights, which, sizes = self.for_kernels
        bounds = indptr[first : last + 1]
        inside = self.terms[int(bounds[0] - indptr[0]) : int(bounds[-1] - indptr[0])]
        return QueryTerms((bounds, terms, weights, which, sizes[first:last]), inside, self.most_postings)


class ViewScorer:
    """Retrieval functions over a view; computes once what queries share.

    Threads may use it at the same time: all that is written later are the impacts of terms, the same numbers by
    whichever thread.

    `view`: the documents. `functions`: the functions, without duplicates.
    """

    def __init__(self, view: View, functions: Sequence[Function]) -> None:
        self.view, self.functions = view, tuple(functions)
        indptr, docs = view.arrays[:2]
        # Threads write to these arrays, so they are made before the first query: a cached property may be computed by
        # two threads at once (from Python 3.12 on), and each would then have an array of its own.
        self._postings = indptr, docs.view(np.uint32), np.empty((len(self.functions), len(docs)), np.float32)
        self._lowest = np.zeros((len(self.functions), view.n_terms), np.float32)
        self._is_made = np.zeros(view.n_terms, bool)

    def make_impacts(self, terms: Array) -> None:
        """Check postings and compute missing impacts."""
        from rankwright.text.search.scorer_kernel import fill_impacts

        if self._is_made[terms].all():
            return
        missing = np.unique(terms[~self._is_made[terms]])
        self.view.check(missing)
        if self.functions:
            indptr, docs, impacts = self._postings
            fill_impacts(
                np.array([function.form for function in self.functions]),
                missing,
                np.array([function.term_weights(self.view, missing) for function in self.functions], np.float64),
                self._factors,
                indptr,
                docs,
                self.view.arrays[2],
                impacts,
                self._lowest,
            )
        self._is_made[missing] = True

    @cached_property
    def _factors(self) -> Array:
        return np.array([function.doc_factors(self.view) for function in self.functions], np.float64)

    @cached_property
    def _priors(self) -> tuple[Array, Array]:
        """The row of each function's priors, or -1, and the priors, rows × documents."""
        priors = [function.doc_priors(self.view) for function in self.functions]
        made = [row for row in priors if row is not None]
        rows = np.cumsum([row is not None for row in priors]) - 1
        rows[[row is None for row in priors]] = -1
        return rows, np.array(made, np.float32).reshape(len(made), self.view.n_docs)


class QueryReader:
    """Finds the terms of queries in several views of an index, with all that kernels need to know about them.

    Views are looked at together, as a query has only a few terms in each.

    `scorers`: the views and their functions.
    """

    def __init__(self, scorers: Sequence[ViewScorer]) -> None:
        self._scorers = scorers
        place_of: dict[Function, int] = {}
        self._which = [
            np.array([place_of.setdefault(function, len(place_of)) for function in scorer.functions], np.int64)
            for scorer in scorers
        ]
        self._functions = list(place_of)

    def __call__(self, texts: Sequence[str]) -> list[QueryTerms]:
        """The terms of queries in every view; each text is analysed once by every analyser."""
        if not self._scorers:
            return []
        counted: dict[Callable[[str], list[str]], list[Counter[str]]] = {}
        terms_of, counts_of, times_of, lengths = [_NONE], [_NONE], [], []
        for scorer in self._scorers:
            analyze, number = scorer.view.analyze, scorer.view.terms.get
            if analyze not in counted:
                counted[analyze] = [Counter(analyze(text)) for text in texts]
            numbers: list[int] = []
            for words in counted[analyze]:
                pairs = sorted([(term, times) for word, times in words.items() if (term := number(word)) is not None])
                numbers += [term for term, _ in pairs]
                times_of += [times for _, times in pairs]
                lengths.append(len(pairs))
            terms_of.append(np.array(numbers, np.int64))
            counts_of.append(scorer.view.doc_counts[terms_of[-1]])
        terms, doc_counts, times = np.concatenate(terms_of), np.concatenate(counts_of), np.array(times_of, np.float64)
        of_query = np.repeat(np.arange(len(lengths)), lengths)
        is_used = doc_counts > 0
        if not is_used.all():
            terms, doc_counts, times, of_query = terms[is_used], doc_counts[is_used], times[is_used], of_query[is_used]
        return self._by_view(len(texts), terms, doc_counts, times, of_query)

    def _by_view(
        self, n_queries: int, terms: Array, doc_counts: Array, times: Array, of_query: Array
    ) -> list[QueryTerms]:
        """The terms of each view; ``of_query`` numbers the queries of the first view, then those of the second."""
        n_views = len(self._scorers)
        total = n_views * n_queries
        indptr = sizes_to_indptr(np.bincount(of_query, minlength=total))
        order = np.lexsort((doc_counts, of_query))
        weights = np.empty((len(terms), len(self._functions)), np.float32)
        rarities = max(scorer.view.n_docs for scorer in self._scorers) / doc_counts
        for at, function in enumerate(self._functions):
            weights[:, at] = function.query_weights(indptr, times, rarities)[order]
        sizes = np.bincount(of_query, weights=times, minlength=total).astype(np.float32)
        n_postings = np.bincount(of_query, weights=doc_counts, minlength=total).reshape(n_views, n_queries)
        most = n_postings.max(axis=1, initial=0).astype(np.int64).tolist()
        made, rare_first = [], terms[order]
        for v, (scorer, which) in enumerate(zip(self._scorers, self._which, strict=True)):
            first, last = v * n_queries, (v + 1) * n_queries
            bounds = indptr[first : last + 1]
            inside = terms[int(bounds[0]) : int(bounds[-1])]
            scorer.make_impacts(inside)
            made.append(QueryTerms((bounds, rare_first, weights, which, sizes[first:last]), inside, most[v]))
        return made


class Scorer(ViewScorer):
    """A retrieval function over a view; computes once what queries share.

    `view`: the documents. `function`: the retrieval function.

    Examples
    --------
    >>> scorer = Scorer(index.view("porter"), "bm25")  # doctest: +SKIP
    >>> docs, scores = scorer.search("lift of a wing", 10)  # doctest: +SKIP
    >>> hits = scorer.search_all(["lift of a wing", "heat transfer"], k=1000, n_jobs=2)  # doctest: +SKIP
    """

    def __init__(self, view: View, function: str | Function = "bm25") -> None:
        self.function = parse_function(function)
        super().__init__(view, [self.function])

    def scores(self, text: str, docs: npt.ArrayLike | None = None) -> Array:
        """The scores of all documents, or of some of them.

        Documents that share no term with the query get 0, except that
        :class:`~rankwright.text.search.functions.Dirichlet` gives them |q| · ln(μ / (|d| + μ)).
        """
        _, terms, weights, _, sizes = self._read([text]).for_kernels
        rows = slice(None) if docs is None else np.asarray(docs, np.int64)
        scores = self._sums(terms, weights)[rows]
        if self._prior.size:
            scores = scores + sizes[0] * self._prior[rows]
        return scores.astype(np.float64)

    def term_scores(self, text: str, docs: npt.ArrayLike) -> tuple[dict[str, Array], Array | None]:
        """What each term of a query adds to the scores of some documents, and what their lengths add by themselves.

        The second part is None if the function adds nothing for the document alone. All parts sum to :meth:`scores`, up
        to rounding in single precision.
        """
        _, terms, weights, _, sizes = self._read([text]).for_kernels
        rows = np.asarray(docs, np.int64)
        words = {self.view.terms[word]: word for word in self.view.analyze(text) if word in self.view.terms}
        parts = {}
        for at, term in enumerate(terms.tolist()):
            parts[words[term]] = self._sums(terms[at : at + 1], weights[at : at + 1])[rows].astype(np.float64)
        return parts, (sizes[0] * self._prior[rows]).astype(np.float64) if self._prior.size else None

    def matching(self, text: str) -> Array:
        """Whether each document contains a term of the query."""
        matching = np.zeros(self.view.n_docs, bool)
        for term in self._read([text]).terms.tolist():
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

        `texts`: the queries. `k`: maximum number of documents for each query. `n_jobs`: number of threads, -1 for all
        cores; does not affect the result. `progress`: called with (queries done, total queries).
        """
        check_queries(texts)
        k = min(whole(k, "k"), max(self.view.n_docs, 1))
        threads = threads_of(n_jobs)
        queries = self._read(texts)
        blocks = [queries.part(first, min(first + _BLOCK, len(texts))) for first in range(0, len(texts), _BLOCK)]
        work = partial(self._search_block, k=k)
        parts = [(_NONE, _NONE, np.empty(0))]
        for part in map_ahead(work, iter(blocks), threads, 2 * threads):
            parts.append(part)
            if progress is not None:
                progress(min((len(parts) - 1) * _BLOCK, len(texts)), len(texts))
        sizes, docs, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Hits(sizes_to_indptr(sizes), docs, scores, self.view.ids)

    def _search_block(self, queries: QueryTerms, k: int) -> tuple[Array, Array, Array]:
        """The number of documents found for each query, the documents, and their scores."""
        from rankwright.text.search.scorer_kernel import BUFFER, best_keys, keys_to_scores

        indptr, terms, weights, _, sizes = queries.for_kernels
        postings = sizes_to_indptr(self.view.doc_counts[queries.terms])[queries.indptr]
        most = np.minimum(np.diff(postings), self.view.n_docs)
        best = np.empty(int(np.minimum(most, k).sum()), np.uint64)
        best_indptr = np.zeros(len(sizes) + 1, np.int64)
        keys = np.empty(max(BUFFER, min(2 * k, int(most.max(initial=0)) + 1)), np.uint64)
        posting_indptr, docs, impacts = self._postings
        best_keys(
            indptr, terms, weights[:, 0], sizes, posting_indptr, docs, impacts[0], self._prior, self._lowest[0], k,
            np.zeros(self.view.n_docs, np.float32), keys, best_indptr, best,
        )  # fmt: skip
        for start, stop in zip(best_indptr[:-1].tolist(), best_indptr[1:].tolist(), strict=True):
            best[start:stop].sort()
        best = best[: best_indptr[-1]]
        return np.diff(best_indptr), best.astype(np.uint32).astype(np.int64), keys_to_scores(best)

    def _read(self, texts: Sequence[str]) -> QueryTerms:
        return QueryReader([self])(texts)[0]

    def _sums(self, terms: Array, weights: Array) -> Array:
        """The sums over terms, of every document."""
        from rankwright.text.search.scorer_kernel import add_up

        indptr, docs, impacts = self._postings
        sums = np.zeros(self.view.n_docs, np.float32)
        add_up(terms, weights[:, 0], indptr, docs, impacts[0], sums)
        return sums

    @property
    def _prior(self) -> Array:
        """What is added to each document for each term of a query, or nothing."""
        priors = self._priors[1]
        return priors[0] if len(priors) else np.empty(0, np.float32)


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
