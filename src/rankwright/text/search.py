"""Search: the top documents of a view for queries by a retrieval function, and the snippets that show why they match.

Impacts of terms are computed when a query first needs them and kept in single precision, so another query with the same
terms costs a few additions per posting. Scores are sums in single precision, bit-identical from every method here and
for any number of threads, however many functions are computed together.
"""

from __future__ import annotations

import importlib
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.data.display import Displayed, Tabled, bars, cell, draw_values
from rankwright.data.order import sizes_to_indptr
from rankwright.data.threads import threads_of
from rankwright.errors import InputError
from rankwright.io.files import Progress, map_ahead
from rankwright.text.functions import Function, parse_function

if TYPE_CHECKING:
    from rankwright.text.contents import Ids, View
    from rankwright.text.index import Index

__all__ = ["search"]

_BLOCK = 64  # queries that a thread processes at a time
_NONE = np.empty(0, np.int64)
QueryBlock = TypeVar("QueryBlock", bound=Sized)
Result = TypeVar("Result")


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

    def __len__(self) -> int:
        return len(self.for_kernels[0]) - 1

    def between(self, first: int, last: int) -> QueryTerms:
        """Queries ``first:last``."""
        indptr, terms, weights, which, sizes = self.for_kernels
        bounds = indptr[first : last + 1]
        inside = self.terms[int(bounds[0] - indptr[0]) : int(bounds[-1] - indptr[0])]
        return QueryTerms((bounds, terms, weights, which, sizes[first:last]), inside, self.most_postings)


class ViewScorer:
    """Different retrieval functions over a view; computes once what queries share.

    Threads may use it at the same time: all that is written later are the impacts of terms, the same numbers by
    whichever thread.
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
        from rankwright.text.search_kernel import fill_impacts

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
        is_made = np.array([row is not None for row in priors], bool)
        rows = np.where(is_made, np.cumsum(is_made) - 1, -1)
        return rows, np.array(made, np.float32).reshape(len(made), self.view.n_docs)


class QueryReader:
    """Finds the terms of queries in several views of an index, with all that kernels need to know about them.

    Views are looked at together, as a query has only a few terms in each.
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
        n_max = n_postings.max(axis=1, initial=0).astype(np.int64).tolist()
        made, rare_first = [], terms[order]
        for v, (scorer, which) in enumerate(zip(self._scorers, self._which, strict=True)):
            first, last = v * n_queries, (v + 1) * n_queries
            bounds = indptr[first : last + 1]
            inside = terms[int(bounds[0]) : int(bounds[-1])]
            scorer.make_impacts(inside)
            made.append(QueryTerms((bounds, rare_first, weights, which, sizes[first:last]), inside, n_max[v]))
        return made


class Scorer(ViewScorer):
    """A retrieval function over a view; computes once what queries share."""

    def __init__(self, view: View, function: str | Function = "bm25") -> None:
        self.function = parse_function(function)
        super().__init__(view, [self.function])

    def scores(self, text: str, docs: npt.ArrayLike | None = None) -> Array:
        """The scores of all documents, or of some of them.

        Documents that share no term with the query get 0, except that
        :class:`~rankwright.text.functions.Dirichlet` gives them |q| · ln(μ / (|d| + μ)).
        """
        _, terms, weights, _, sizes = self._terms([text]).for_kernels
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
        _, terms, weights, _, sizes = self._terms([text]).for_kernels
        rows = np.asarray(docs, np.int64)
        words = {self.view.terms[word]: word for word in self.view.analyze(text) if word in self.view.terms}
        by_term = {}
        for at, term in enumerate(terms.tolist()):
            by_term[words[term]] = self._sums(terms[at : at + 1], weights[at : at + 1])[rows].astype(np.float64)
        return by_term, (sizes[0] * self._prior[rows]).astype(np.float64) if self._prior.size else None

    def matching(self, text: str) -> Array:
        """Whether each document contains a term of the query."""
        contains = np.zeros(self.view.n_docs, bool)
        for term in self._terms([text]).for_kernels[1].tolist():
            contains[self.view.docs[self.view.indptr[term] : self.view.indptr[term + 1]]] = True
        return contains

    def search(self, text: str, k: int = 10) -> QueryHits:
        """The top k documents that contain a term of the query, and their scores, best first; ``.ids`` has the ids."""
        return self.search_all([text], k)[0]

    def search_all(
        self,
        texts: Sequence[str],
        k: int = 1000,
        *,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Hits:
        """The top k documents of each query; ``n_jobs``, the number of threads, does not affect them."""
        check_queries(texts)
        k = min(positive_integer(k, "k"), max(self.view.n_docs, 1))
        threads, queries = threads_of(n_jobs), self._terms(texts)
        blocks = [queries.between(first, min(first + _BLOCK, len(texts))) for first in range(0, len(texts), _BLOCK)]
        results = by_threads(partial(self._search_block, k=k), blocks, threads, progress)
        columns = zip((_NONE, _NONE, np.empty(0)), *results, strict=True)
        sizes, docs, scores = (np.concatenate(column) for column in columns)
        return Hits(sizes_to_indptr(sizes), docs, scores, self.view.ids)

    def _search_block(self, queries: QueryTerms, k: int) -> tuple[Array, Array, Array]:
        """The number of documents found for each query, the documents, and their scores."""
        from rankwright.text.search_kernel import BUFFER, best_keys, keys_to_scores

        indptr, terms, weights, _, sizes = queries.for_kernels
        postings = sizes_to_indptr(self.view.doc_counts[queries.terms])[queries.indptr]
        n_matching = np.minimum(np.diff(postings), self.view.n_docs)
        best = np.empty(int(np.minimum(n_matching, k).sum()), np.uint64)
        best_indptr = np.zeros(len(sizes) + 1, np.int64)
        keys = np.empty(max(BUFFER, min(2 * k, int(n_matching.max(initial=0)) + 1)), np.uint64)
        posting_indptr, docs, impacts = self._postings
        best_keys(
            (indptr, terms, weights[:, 0], sizes), (posting_indptr, docs, impacts[0]), self._prior, self._lowest[0], k,
            np.zeros(self.view.n_docs, np.float32), keys, best_indptr, best,
        )  # fmt: skip
        for start, stop in zip(best_indptr[:-1].tolist(), best_indptr[1:].tolist(), strict=True):
            best[start:stop].sort()
        best = best[: best_indptr[-1]]
        return np.diff(best_indptr), best.astype(np.uint32).astype(np.int64), keys_to_scores(best)

    def _terms(self, texts: Sequence[str]) -> QueryTerms:
        return QueryReader([self])(texts)[0]

    def _sums(self, terms: Array, weights: Array) -> Array:
        """The sums over terms, of every document."""
        from rankwright.text.search_kernel import add_up

        indptr, docs, impacts = self._postings
        sums = np.zeros(self.view.n_docs, np.float32)
        add_up(terms, weights[:, 0], indptr, docs, impacts[0], sums)
        return sums

    @property
    def _prior(self) -> Array:
        """What is added to each document for each term of a query; empty if nothing is."""
        return self._priors[1].reshape(-1)


def by_threads(
    work: Callable[[QueryBlock], Result], blocks: Sequence[QueryBlock], threads: int, progress: Progress | None = None
) -> list[Result]:
    """The results of blocks of queries, in order; progress counts queries."""
    results: list[Result] = []
    n_done, n_queries = 0, sum(map(len, blocks))
    for block, result in zip(blocks, map_ahead(work, iter(blocks), threads, 2 * threads), strict=True):
        results.append(result)
        n_done += len(block)
        if progress is not None:
            progress(n_done, n_queries)
    return results


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


def positive_integer(value: int, name: str) -> int:
    """A positive integer, or an error that names it."""
    try:
        integer = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        integer = 0
    if integer < 1:
        raise InputError(f"{name} is {value!r}; expected a positive integer")
    return integer


# What a search returns

_ROWS = 10  # shown


class _Listed(Displayed):
    """Shows documents in rank order, of one query or of several; ``source`` has the ids of all, or of these."""

    docs: Array
    source: Ids | Sequence[str] | None

    @property
    def ids(self) -> list[str]:
        """The ids of ``docs``."""
        if self.source is None:
            raise InputError("the documents have no ids; expected a view that belongs to an index")
        return self._documents(None)

    def _documents(self, n_max: int | None) -> list[Any]:
        """Ids of the first documents, or their numbers where there are no ids."""
        docs = self.docs[:n_max].tolist()
        if self.source is None:
            return docs
        return list(self.source[:n_max]) if isinstance(self.source, Sequence) else [self.source[doc] for doc in docs]

    def _columns(self, n_max: int | None = None) -> dict[str, Any]:
        """The columns of a table of the first ``n_max`` documents, or of all."""
        raise NotImplementedError

    def _shown_table(self) -> Tabled:
        columns, n = self._columns(_ROWS), len(self.docs)
        shown = [[cell(value) for value in column] for column in columns.values()]
        notes = (f"and {n - _ROWS:,} more documents",) if n > _ROWS else ()
        at = list(columns).index("document") + 1
        return Tabled(tuple(columns), tuple(zip(*shown, strict=True)), notes, at, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame."""
        return importlib.import_module("pandas").DataFrame(self._columns())


class QueryHits(_Listed, tuple[Array, Array]):
    """The documents found for one query, best first: a pair ``(docs, scores)`` that also has their ids.

    `docs`: document numbers. `scores`: their scores. `ids`: the ids of all documents of the index, or of the documents
    found.

    Examples
    --------
    >>> import numpy as np
    >>> hits = QueryHits(np.array([7, 3]), np.array([2.5, 1.0]), ["d7", "d3"])
    >>> docs, scores = hits
    >>> hits.ids, docs.tolist(), hits.scores.tolist()
    (['d7', 'd3'], [7, 3], [2.5, 1.0])
    >>> print(hits)
    QueryHits(2 documents)
    <BLANKLINE>
    rank  document   score
    ──────────────────────
    1     d7        2.5000
    2     d3        1.0000
    """

    scores: Array

    def __new__(cls, docs: Array, scores: Array, ids: Ids | Sequence[str] | None = None) -> QueryHits:
        made = super().__new__(cls, (docs, scores))
        made.docs, made.scores, made.source = docs, scores, ids
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryHits, (self.docs, self.scores, None if self.source is None else self.ids)

    def __repr__(self) -> str:
        return f"QueryHits({len(self.docs)} documents)"

    def _columns(self, n_max: int | None = None) -> dict[str, Any]:
        documents, scores = self._documents(n_max), self.scores[:n_max].tolist()
        return {"rank": list(range(1, len(scores) + 1)), "document": documents, "score": scores}

    def _drawing(self) -> Callable[[], Any]:
        documents = [str(document) for document in self._documents(None)]
        return lambda: bars(documents, self.scores.tolist(), "score")


@dataclass(frozen=True, eq=False, repr=False)
class Hits(_Listed):
    """The results of several queries; ``hits[q]``, a :class:`QueryHits`, is the pair ``(docs, scores)`` of query ``q``.

    `indptr`: query ``q`` owns ``indptr[q]:indptr[q+1]``. `docs`: document numbers, best first within a query, ties in
    ascending order of documents. `scores`: their scores. `source`: the ids of all documents of the index, or of
    ``docs``.
    """

    indptr: Array
    docs: Array
    scores: Array
    source: Ids | Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> QueryHits:
        query = range(len(self))[query]
        span = slice(int(self.indptr[query]), int(self.indptr[query + 1]))
        source = self.source[span] if isinstance(self.source, Sequence) else self.source
        return QueryHits(self.docs[span], self.scores[span], source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hits, (self.indptr, self.docs, self.scores, None if self.source is None else self.ids)

    def __repr__(self) -> str:
        return f"Hits({len(self)} queries, {len(self.docs)} documents)"

    def _columns(self, n_max: int | None = None) -> dict[str, Any]:
        at = np.arange(len(self.docs[:n_max]))
        queries = np.searchsorted(self.indptr, at, side="right") - 1
        columns = {"query": queries.tolist(), "rank": (at - self.indptr[queries] + 1).tolist()}
        return columns | {"document": self._documents(n_max), "score": self.scores[:n_max].tolist()}

    def _drawing(self) -> Callable[[], Any]:
        return lambda: draw_values(self.scores, self.indptr, "score")


# Snippets: the window of limited width that best shows why a document matches. Windows are compared by the total weight
# of the distinct query terms in them, then by the number of matching words; the first of the best wins.

_LONGEST = 200_000
_REPEATED = 1e-6
_MORE = "…"
_TITLE = "title"
# Runs between whitespace and punctuation; the analyser decides what the words inside them are.
_PIECE = re.compile(r"[^\s!-/:-@\[-`{-~¡§«¶·»¿‐-‧‰-⁞、-〃〈-】〔-〟]+")


@dataclass(frozen=True)
class Snippet:
    """Part of a text, and where the matching words start and end in it."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()

    def marked(self, mark: Callable[[str], str]) -> str:
        """The text with every matching word replaced by ``mark(word)``."""
        pieces, end = [], 0
        for start, stop in self.marks:
            pieces += [self.text[end:start], mark(self.text[start:stop])]
            end = stop
        return "".join([*pieces, self.text[end:]])


@dataclass(frozen=True)
class QueryWords:
    """How a view treats the words of a query.

    `weights`: the terms that occur in documents, with ln(1 + N / df). `unknown`: words whose terms occur in no
    document. `dropped`: words that the analyser drops.
    """

    weights: dict[str, float]
    unknown: list[str]
    dropped: list[str]


def query_words(view: View, text: str) -> QueryWords:
    """Classify the words of a query."""
    weights: dict[str, float] = {}
    for term in view.analyze(text):
        number = view.terms.get(term)
        if number is not None and view.doc_counts[number]:
            weights[term] = float(np.log1p(view.n_docs / view.doc_counts[number]))
    unknown: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for word in _PIECE.findall(text):
        terms = view.analyze(word)
        if not terms:
            dropped[word] = None
        elif not any(term in weights for term in terms):
            unknown[word] = None
    return QueryWords(weights, list(unknown), list(dropped))


def snippet(text: str, weights: Mapping[str, float], analyze: Callable[[str], list[str]], width: int) -> Snippet:
    """The part of a text, at most ``width`` characters long, that shows the weighted terms best.

    `text`: the text; runs of whitespace become one blank. `weights`: the terms to show, and their weights. `analyze`:
    maps a word to its terms. `width`: maximum number of characters, including ellipses.

    Examples
    --------
    >>> part = snippet("The wing of a bird and the wings of two planes", {"wing": 1.0}, lambda w: [w.rstrip("s")], 30)
    >>> part.marked(str.upper)
    'The WING of a bird and the …'
    """
    text = " ".join(text[:_LONGEST].split())
    matches = _matches(text, weights, analyze)
    if len(text) <= width:
        return Snippet(text, tuple((start, stop) for start, stop, _ in matches))
    inner = max(width - 2 * len(_MORE + " "), 1)
    first, last = _best_window(matches, weights, inner)
    start, stop = _with_context(text, first, last, inner)
    before, after = _MORE + " " if start else "", " " + _MORE if stop < len(text) else ""
    shift = len(before) - start
    marks = tuple((a + shift, b + shift) for a, b, _ in matches if a >= start and b <= stop)
    return Snippet(before + text[start:stop] + after, marks)


def shorten(text: str, width: int) -> str:
    """The start of a text: whole words, at most ``width`` characters."""
    return snippet(text, {}, str.split, width).text


def title_and_snippet(
    index: Index,
    doc: int,
    weights: Mapping[str, float],
    analyze: Callable[[str], list[str]],
    width: int,
    field: str | None = None,
) -> tuple[str, Snippet]:
    """What a list of results shows of a document; both are empty if the index has no texts.

    `weights`: the terms to show, as :func:`query_words` gives them. `analyze`: maps a word to its terms. `width`:
    characters of the snippet, at most. `field`: the field that was searched; by default all but the title.
    """
    if not index.has_text:
        return "", Snippet("")
    others = [name for name in index.fields if name != _TITLE] or list(index.fields)
    body = " ".join(index.text(doc, name) for name in ([field] if field else others))
    title = " ".join(index.text(doc, _TITLE).split()) if _TITLE in index.fields else ""
    return title or shorten(body or index.text(doc), width), snippet(body, weights, analyze, width)


def _matches(
    text: str, weights: Mapping[str, float], analyze: Callable[[str], list[str]]
) -> list[tuple[int, int, set[str]]]:
    """Start, end and terms of the matching words."""
    if not weights:
        return []
    seen: dict[str, set[str]] = {}
    matches = []
    for match in _PIECE.finditer(text):
        word = match[0]
        if word not in seen:
            seen[word] = {term for term in analyze(word) if term in weights}
        if seen[word]:
            matches.append((match.start(), match.end(), seen[word]))
    return matches


def _best_window(matches: list[tuple[int, int, set[str]]], weights: Mapping[str, float], width: int) -> tuple[int, int]:
    """Where the first match of the best window starts and its last match ends."""
    best, where = 0.0, (0, 0)
    for i, (start, _, _) in enumerate(matches):
        terms: set[str] = set()
        end, n = start, 0
        for _, stop, matched in matches[i:]:
            if stop - start > width:
                break
            terms |= matched
            end, n = stop, n + 1
        value = math.fsum(weights[term] for term in terms) + _REPEATED * n
        if value > best:
            best, where = value, (start, end)
    return where


def _with_context(text: str, first: int, last: int, width: int) -> tuple[int, int]:
    """A window of at most ``width`` characters around a span, cut between words."""
    start = max(min(first - (width - (last - first)) // 3, len(text) - width), 0)
    if start and text[start - 1] != " ":
        blank = text.find(" ", start, first)
        start = blank + 1 if blank >= 0 else first
    stop = min(start + width, len(text))
    if stop < len(text) and text[stop] != " ":
        blank = text.rfind(" ", max(last, start + 1), stop)
        stop = blank if blank >= 0 else last if last > start else stop
    return start, stop
