"""What a search gives: documents by number and by id, their scores, and what is shown of them.

A snippet is the part of a document that best shows why it matches, a window of limited width. Windows are compared by
the total weight of the distinct query terms in them, then by the number of matching words; the first of the best wins.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright._types import Array
from rankwright.data.dataset import draw_values
from rankwright.data.display import Displayed, Tabled, bars, cell
from rankwright.errors import InputError

if TYPE_CHECKING:
    from rankwright.text.index.contents import Ids
    from rankwright.text.index.index import Index
    from rankwright.text.index.view import View

_ROWS = 10  # shown


class _Listed(Displayed):
    """Shows documents in rank order, of one query or of several."""

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        """What is shown of documents, of the first ``most`` or of all, and what a frame holds."""
        raise NotImplementedError

    def _n_docs(self) -> int:
        raise NotImplementedError

    def _shown_table(self) -> Tabled:
        columns, n = self._columns(_ROWS), self._n_docs()
        shown = [[cell(one) for one in column] for column in columns.values()]
        notes = (f"and {n - _ROWS:,} more documents",) if n > _ROWS else ()
        at = list(columns).index("document") + 1
        return Tabled(tuple(columns), tuple(zip(*shown, strict=True)), notes, at, title=repr(self))

    def to_frame(self) -> Any:
        """All documents as a pandas data frame."""
        return importlib.import_module("pandas").DataFrame(self._columns())

    def __str__(self) -> str:
        return self.to_text()


class Found(_Listed, tuple[Array, Array]):
    """The documents found for one query, best first: a pair ``(docs, scores)`` that also has their ids.

    `docs`: document numbers. `scores`: their scores. `ids`: the ids of all documents of the index, or of the documents
    found.

    Examples
    --------
    >>> import numpy as np
    >>> found = Found(np.array([7, 3]), np.array([2.5, 1.0]), ["d7", "d3"])
    >>> docs, scores = found
    >>> found.ids, docs.tolist(), found.scores.tolist()
    (['d7', 'd3'], [7, 3], [2.5, 1.0])
    >>> print(found)
    Found(2 documents)
    <BLANKLINE>
    rank  document   score
    ──────────────────────
    1     d7        2.5000
    2     d3        1.0000
    """

    _source: Ids | Sequence[str] | None

    def __new__(cls, docs: Array, scores: Array, ids: Ids | Sequence[str] | None = None) -> Found:
        """Make the pair."""
        made = super().__new__(cls, (docs, scores))
        made._source = ids
        return made

    @property
    def docs(self) -> Array:
        """Document numbers."""
        return self[0]

    @property
    def scores(self) -> Array:
        """Scores of the documents."""
        return self[1]

    @property
    def ids(self) -> list[str]:
        """Document ids."""
        return _ids(self._source, self[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Found, (self[0], self[1], None if self._source is None else self.ids)

    def __repr__(self) -> str:
        return f"Found({len(self[0])} documents)"

    def _n_docs(self) -> int:
        return len(self[0])

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        documents, scores = _documents(self._source, self[0], most), self[1][:most].tolist()
        return {"rank": list(range(1, len(scores) + 1)), "document": documents, "score": scores}

    def _drawing(self) -> Callable[[], Any]:
        documents = [str(one) for one in _documents(self._source, self[0], None)]
        return lambda: bars(documents, self[1].tolist(), "score")


@dataclass(frozen=True, eq=False, repr=False)
class Hits(_Listed):
    """The results of several queries; ``hits[q]`` is the :class:`Found` of query ``q``: ``(docs, scores)``, with ids.

    `indptr`: query ``q`` owns ``indptr[q]:indptr[q+1]``. `docs`: document numbers, best first within a query, ties in
    ascending order of documents. `scores`: their scores. `source`: the ids of all documents of the index, or of
    ``docs``.
    """

    indptr: Array
    docs: Array
    scores: Array
    source: Ids | Sequence[str] | None = None

    @property
    def ids(self) -> list[str]:
        """The ids of ``docs``."""
        return _ids(self.source, self.docs)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, query: int) -> Found:
        query = range(len(self))[query]
        span = slice(int(self.indptr[query]), int(self.indptr[query + 1]))
        source = self.source[span] if isinstance(self.source, Sequence) else self.source
        return Found(self.docs[span], self.scores[span], source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Hits, (self.indptr, self.docs, self.scores, None if self.source is None else self.ids)

    def __repr__(self) -> str:
        return f"Hits({len(self)} queries, {len(self.docs)} documents)"

    def _n_docs(self) -> int:
        return len(self.docs)

    def _columns(self, most: int | None = None) -> dict[str, Any]:
        at = np.arange(len(self.docs[:most]))
        queries = np.searchsorted(self.indptr, at, side="right") - 1
        columns = {"query": queries.tolist(), "rank": (at - self.indptr[queries] + 1).tolist()}
        documents, scores = _documents(self.source, self.docs, most), self.scores[:most].tolist()
        return columns | {"document": documents, "score": scores}

    def _drawing(self) -> Callable[[], Any]:
        return lambda: draw_values(self.scores, self.indptr, "score")


def _ids(source: Ids | Sequence[str] | None, docs: Array) -> list[str]:
    if source is None:
        raise InputError("the documents have no ids; expected a view that belongs to an index")
    return list(source) if isinstance(source, Sequence) else source.of(docs.tolist())


def _documents(source: Ids | Sequence[str] | None, docs: Array, most: int | None) -> list[Any]:
    """Ids of the first documents, or their numbers where there are no ids."""
    if source is None:
        return docs[:most].tolist()
    return _ids(source[:most] if isinstance(source, Sequence) else source, docs[:most])


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
        parts, end = [], 0
        for start, stop in self.marks:
            parts += [self.text[end:start], mark(self.text[start:stop])]
            end = stop
        return "".join([*parts, self.text[end:]])


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
    """The start of a text: whole words, at most ``width`` characters.

    Examples
    --------
    >>> shorten("a study of the wing", 14)
    'a study of …'
    """
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

    `index`: where the document is. `doc`: number of the document. `weights`: the terms to show, as :func:`query_words`
    gives them. `analyze`: maps a word to its terms. `width`: maximum number of characters of the snippet. `field`: the
    field that was searched; by default all but the title.
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
    found = []
    for match in _PIECE.finditer(text):
        word = match[0]
        if word not in seen:
            seen[word] = {term for term in analyze(word) if term in weights}
        if seen[word]:
            found.append((match.start(), match.end(), seen[word]))
    return found


def _best_window(matches: list[tuple[int, int, set[str]]], weights: Mapping[str, float], width: int) -> tuple[int, int]:
    """Where the first match of the best window starts and its last match ends."""
    best, where = 0.0, (0, 0)
    for i, (start, _, _) in enumerate(matches):
        terms: set[str] = set()
        end, n = start, 0
        for _, stop, found in matches[i:]:
            if stop - start > width:
                break
            terms |= found
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
