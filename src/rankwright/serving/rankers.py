"""What is served: models and retrieval functions, with one interface.

Rankers are immutable and used by several threads at a time; a new model file becomes a new ranker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data.categories import NO_CATEGORY, category_numbers
from rankwright.data.dataset import MissingFeaturesError, RankingData
from rankwright.errors import InputError, shown
from rankwright.io.values import special_in
from rankwright.models.base import Term, explained_terms
from rankwright.models.saving import SavedModel
from rankwright.serving.requests import RankRequest, RequestError, number
from rankwright.text.functions import parse_function, plain_words
from rankwright.text.index import Index
from rankwright.text.learned import LearnedSearch
from rankwright.text.search import Scorer, default_analyzer

_MAX_VALUES = 1 << 22
_NAMED = 5
_LENGTH = "length of the document"
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Explanation:
    """Why a document is where it is.

    `ranks`, `scores`: of A and, if there is one, of B. `n_documents`: documents that were ranked. `difference`: the
    score of A less that of B, or less the mean score; the contributions sum to it. `terms`: the largest contribution
    first. `words`: their features in plain words.
    """

    ranks: tuple[int, ...]
    scores: tuple[float, ...]
    n_documents: int
    difference: float
    terms: list[Term]
    words: Mapping[str, str]


class FunctionRanker:
    """A retrieval function over an index.

    `index`: where the documents are. `function`: such as ``"bm25"`` or ``"bm25(k1=0.9)"``. `analyzer`: one of the
    index; see :func:`~rankwright.text.search.default_analyzer`.
    """

    can_search = True

    def __init__(self, index: Index, function: str, analyzer: str | None = None) -> None:
        self._analyzer = analyzer or default_analyzer(index.analyzers)
        self._scorer = Scorer(index.view(self._analyzer), parse_function(function))
        self.name = str(self._scorer.function)

    def facts(self) -> dict[str, Any]:
        """Return what ``/version`` reports about the ranker."""
        return {"name": self.name, "kind": "function", "analyzer": self._analyzer}

    def search(self, text: str, k: int) -> tuple[Array, Array]:
        """Numbers and scores of the top k documents, best first."""
        return self._scorer.search(text, k)

    def score_documents(self, text: str, docs: Array) -> Array:
        return self._scorer.scores(text, docs)

    def score_rows(self, request: RankRequest) -> Array:
        raise RequestError(
            f"{self.name} is a retrieval function, which takes no features; expected query and documents"
        )

    def explain(self, text: str, a: int, b: int | None) -> Explanation:
        """Why document a is above or below document b, or what sets it apart from all that are found."""
        docs, scores = self._scorer.search(text, max(self._scorer.view.n_docs, 1))
        places = _places(docs, a, b, self.name)
        chosen = [a] if b is None else [a, b]
        parts, lengths = self._scorer.term_scores(text, docs if b is None else chosen)
        if lengths is not None:
            parts[_LENGTH] = lengths
        at = places[0] if b is None else 0
        terms = []
        for name, values in parts.items():
            other = float(values.mean()) if b is None else float(values[1])
            terms.append(Term(name, None, float(values[at]), other, float(values[at]) - other))
        terms.sort(key=lambda term: -abs(term.contribution))
        return _explanation(scores, places, terms, self._words(text))

    def _words(self, text: str) -> dict[str, str]:
        """The terms of a query as they were written."""
        labels: dict[str, str] = {}
        for word in _WORD.findall(text):
            for term in self._scorer.view.analyze(word):
                labels.setdefault(term, f"“{word}”")
        return labels


class ModelRanker:
    """A model; with an index whose documents have its features, it can search.

    `name`: the name that requests use. `saved`: the model. `index`: where the documents are. `file`: facts of the model
    file, for ``/version``. `missing_as_zero`: whether features of the model that the index cannot give are 0; otherwise
    they are an error.
    """

    def __init__(
        self,
        name: str,
        saved: SavedModel,
        index: Index | None,
        file: Mapping[str, Any] | None = None,
        *,
        missing_as_zero: bool = False,
    ) -> None:
        self.name, self._saved, self._model, self._file = name, saved, saved.model, dict(file or {})
        self._missing_as_zero = missing_as_zero
        self._engine = None if index is None else LearnedSearch(index, saved, missing_as_zero=missing_as_zero)
        self._n_docs = 0 if index is None else index.n_docs

    @property
    def can_search(self) -> bool:
        return self._engine is not None

    def with_index(self, index: Index) -> ModelRanker:
        return ModelRanker(self.name, self._saved, index, self._file, missing_as_zero=self._missing_as_zero)

    def facts(self) -> dict[str, Any]:
        kind = self._saved.header.get("kind", type(self._model).__name__)
        about = {"method": self._saved.method, "model": kind, "features": self._model.n_features}
        return {"name": self.name, "kind": "model", **about, **self._file}

    def search(self, text: str, k: int) -> tuple[Array, Array]:
        return self._with_index().search(text, k)

    def score_documents(self, text: str, docs: Array) -> Array:
        """Scores of documents of the index; as the query's documents, if the model scales features within queries."""
        data = self._data(text, docs)
        return np.asarray(self._model.score(data.X, data.feature_names, data.indptr), np.float64)

    def score_rows(self, request: RankRequest) -> Array:
        table, categories = _table(self._model, request)
        names = self._model.feature_names
        self._model.check_text(names, categories)
        return np.asarray(self._model.score(table, names, np.array([0, len(table)])), np.float64)

    def explain(self, text: str, a: int, b: int | None) -> Explanation:
        docs, scores = self._with_index().search(text, max(self._n_docs, 1))
        places = _places(docs, a, b, self.name)
        order = np.argsort(docs)  # the documents in the order in which they were scored
        rows = [int(np.flatnonzero(order == place)[0]) for place in places]
        terms = explained_terms(
            self._model, self._data(text, docs[order]), 0, rows[0], rows[1] if b is not None else None
        )
        return _explanation(scores, places, terms, {term.feature: plain_words(term.feature) for term in terms})

    def _with_index(self) -> LearnedSearch:
        if self._engine is None:
            raise RequestError("there is no index; expected features")
        return self._engine

    def _data(self, text: str, docs: Array) -> RankingData:
        columns = self._with_index().columns
        X: Any = columns.values(text, docs)
        names: Sequence[str] | None = columns.names
        if self._missing_as_zero:
            X, names = self._model.with_missing(X, names)
        labels = np.zeros(len(docs))
        return RankingData.from_arrays(X, labels, group=[len(docs)], feature_names=names, allow_missing=True)


ServedRanker = FunctionRanker | ModelRanker


def _places(docs: Array, a: int, b: int | None, name: str) -> list[int]:
    """The places of documents among the results."""
    places = []
    for which, doc in (("doc", a), ("against", b)):
        if doc is None:
            continue
        at = np.flatnonzero(docs == doc)
        if not len(at):
            problem = f"{which} is not among the {len(docs):,} documents that {name} finds for this query"
            raise RequestError(f"{problem}, so it has no rank to explain", 404)
        places.append(int(at[0]))
    return places


def _explanation(scores: Array, places: Sequence[int], terms: list[Term], words: Mapping[str, str]) -> Explanation:
    values = tuple(float(scores[at]) for at in places)
    other = values[1] if len(values) > 1 else float(np.mean(scores))
    return Explanation(tuple(at + 1 for at in places), values, len(scores), values[0] - other, terms, words)


def _table(model: Any, request: RankRequest) -> tuple[Array, dict[int, tuple[Any, ...]]]:
    """The features of a request in the model's order, and the categories of text columns."""
    wanted: tuple[str, ...] = model.names
    texts = model.text_features()
    rows: list[Any] = request.rows or []
    if len(rows) * len(wanted) > _MAX_VALUES:
        raise RequestError(f"{len(rows):,} documents × {len(wanted):,} features are too many for one request", 413)
    columns = list(_columns(rows, request.names, wanted))
    if request.names is None and isinstance(rows[0], list) and len(rows[0]) > model.n_features:  # by position
        raise InputError(f"rows have {len(rows[0]):,} values, but the model has {model.n_features:,} features")
    lacking = [name for name, column in zip(wanted, columns, strict=True) if column is None]
    if lacking and not request.missing_as_zero:
        listed = ", ".join(shown(name) for name in lacking[:_NAMED]) + (" …" if len(lacking) > _NAMED else "")
        problem = f"no document has {len(lacking):,} of the model's {len(wanted):,} features: {listed}"
        raise MissingFeaturesError(f'{problem}; to take them as 0, add "missing_as_zero": true')
    table, categories = np.zeros((len(rows), len(wanted))), {}
    for at, (name, column) in enumerate(zip(wanted, columns, strict=True)):
        if column is None:
            continue
        values: Sequence[Any] = [number(value, name, row) for row, value in enumerate(column)]
        if name not in texts:  # dates, yes and no, as in a table
            values = [special_in(value) if isinstance(value, str) else value for value in values]
        if any(isinstance(value, str) for value in values):
            values, categories[at] = _coded(values, name)
        table[:, at] = values
    return table, categories


def _columns(rows: list[Any], names: list[str] | None, wanted: Sequence[str]) -> Iterator[list[Any] | None]:
    """The values of each feature; None if no document has it."""
    if isinstance(rows[0], dict):
        names_given = set().union(*rows)
        for name in wanted:
            yield [row.get(name) for row in rows] if name in names_given else None
        return
    place = {name: at for at, name in enumerate(wanted if names is None else names)}
    for name in wanted:
        at = place.get(name, len(rows[0]))
        yield [row[at] for row in rows] if at < len(rows[0]) else None


def _coded(values: Sequence[Any], name: str) -> tuple[list[float], tuple[Any, ...]]:
    """Texts as the numbers that stand for them, and the distinct texts."""
    given = [value for value in values if value == value]
    categories, numbers = category_numbers(dict.fromkeys(given), f"feature {shown(name)}")
    code = dict(zip(categories, numbers.tolist(), strict=True))
    return [code[value] if value == value else NO_CATEGORY for value in values], categories
