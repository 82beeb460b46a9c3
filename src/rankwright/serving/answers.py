"""From a request to its answer: what ``/rank``, ``/search`` and ``/explain`` say, as values of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.order import rank_order
from rankwright.errors import shown
from rankwright.serving.rankers import ServedRanker
from rankwright.serving.requests import ExplainRequest, RankRequest, RequestError, SearchRequest
from rankwright.serving.service import State
from rankwright.text.contents import View
from rankwright.text.index import Index
from rankwright.text.search import query_words, title_and_snippet


def reason(above: bool, tied: bool, parts: list[tuple[str, float]], other: str) -> str:
    """One sentence on why A is above or below ``other``, from contributions, the largest first.

    Examples
    --------
    >>> reason(True, False, [("BM25 in title", 0.75), ("length", -0.25)], "B")
    'A is above B mostly because of BM25 in title (+0.75); against it: length (−0.25).'
    """
    if tied and other != "B":
        return f"A has the same score as {other}."
    if tied:
        return "A and B have the same score; the order of the index decides."
    sign = 1 if above else -1
    speaking = [part for part in parts if part[1] * sign > 0][:2]
    against = [part for part in parts if part[1] * sign < 0][:1]
    text = f"A is {'above' if above else 'below'} {other}"
    if speaking:
        text += " mostly because of " + " and ".join(f"{name} ({_signed(value)})" for name, value in speaking)
    for name, value in against:
        text += f"; against it: {name} ({_signed(value)})"
    return text + "."


def _signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−")


_SNIPPET = 240
_LONGEST_FIELD = 10_000
_NAMED = 8


@dataclass(frozen=True)
class Answer:
    """A body of JSON, and what the log says of it."""

    body: bytes
    ranker: str
    hits: int


def encoded(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def rank(state: State, request: RankRequest) -> Answer:
    """Scores in the order of the request, and the order of the documents: the tie rule of the package."""
    if request.query is None:
        ranker = _chosen(state, request.ranker, of_features=True)
        scores = ranker.score_rows(request)
    else:
        index, _ = _searchable(state)
        ranker = _chosen(state, request.ranker)
        docs = np.array([_number(index, name, "documents") for name in request.ids or ()], np.int64)
        scores = ranker.score_documents(request.query, docs)
    ids = None if request.ids is None else np.array(request.ids)
    order = rank_order(scores, np.array([0, len(scores)]), ids).tolist()
    answer = {"ranker": ranker.name, "scores": scores.tolist(), "order": order}
    if request.ids is not None:
        answer["ids"] = [request.ids[at] for at in order]
    return Answer(encoded(answer), ranker.name, len(order))


def search(state: State, request: SearchRequest) -> Answer:
    """The top documents, with titles, snippets and fields."""
    index, view = _searchable(state)
    ranker = _chosen(state, request.ranker)
    fields = _fields(index, request.fields)
    words = query_words(view, request.query)
    docs, scores = ranker.search(request.query, request.k)
    results = []
    for at, (doc, score) in enumerate(zip(docs.tolist(), scores.tolist(), strict=True), 1):
        title, part = title_and_snippet(index, doc, words.weights, state.analyze, _SNIPPET)
        result = {"rank": at, "id": index.doc_id(doc), "score": score, "title": title}
        result |= {"snippet": part.text, "marks": part.marks, "fields": {}}
        for name in fields:
            value, is_cut = _stored(index, doc, name)
            result["fields"][name] = value
            if is_cut:
                result.setdefault("cut", []).append(name)
        results.append(result)
    answer = {"query": request.query, "ranker": ranker.name, "unknown": words.unknown, "dropped": words.dropped}
    return Answer(encoded(answer | {"results": results}), ranker.name, len(results))


def explain(state: State, request: ExplainRequest) -> Answer:
    """Why A is above B, or what sets it apart from the other documents found."""
    index, _ = _searchable(state)
    ranker = _chosen(state, request.ranker)
    a = _number(index, request.document, "doc")
    b = None if request.against is None else _number(index, request.against, "against")
    explanation = ranker.explain(request.query, a, b)
    ids = (request.document, request.against)
    places = [
        {"id": name, "rank": at, "score": score}
        for name, at, score in zip(ids, explanation.ranks, explanation.scores, strict=False)
    ]
    answer: dict[str, Any] = {"query": request.query, "ranker": ranker.name, "documents": explanation.n_documents}
    answer |= {"a": places[0], "b": places[1] if b is not None else None, "difference": explanation.difference}
    worded = {term.feature: explanation.words.get(term.feature, term.feature) for term in explanation.terms}
    listed = [(worded[term.feature], term.contribution) for term in explanation.terms if term.contribution]
    if b is None:
        other, above = "the mean of the documents found", explanation.difference > 0
    else:
        other, above = "B", explanation.ranks[0] < explanation.ranks[1]
    answer["reason"] = reason(above, explanation.difference == 0, listed[:_NAMED], other)
    compared = "mean" if b is None else "b"
    answer["contributions"] = [
        {
            "feature": term.feature,
            "words": worded[term.feature],
            "weight": term.weight,
            "a": term.a,
            compared: term.b,
            "contribution": term.contribution,
        }
        for term in explanation.terms
    ]
    return Answer(encoded(answer), ranker.name, len(places))


def _searchable(state: State) -> tuple[Index, View]:
    if state.index is None or state.view is None:
        raise RequestError("there is no index here, only models; expected POST /rank with features", 404)
    return state.index, state.view


def _chosen(state: State, name: str | None, *, of_features: bool = False) -> ServedRanker:
    """The ranker of this name; by default the first one that can answer the request."""
    if name is None:
        fitting = (served for served in state.rankers.values() if not of_features or served.facts()["kind"] == "model")
        ranker = next(fitting, None)
        if ranker is None:
            raise RequestError("there is no model here, only retrieval functions; expected query and documents")
        return ranker
    if name not in state.rankers:
        listed = ", ".join(list(state.rankers)[:_NAMED])
        raise RequestError(f"unknown ranker {shown(name)}; expected one of {listed}", 404)
    return state.rankers[name]


def _number(index: Index, name: str, parameter: str) -> int:
    doc = index.find(name)
    if doc is None:
        raise RequestError(f"{parameter}: the index has no document {shown(name)}", 404)
    return doc


def _fields(index: Index, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    """The fields to return: texts, if they are stored, and numbers."""
    fields = (*(index.fields if index.has_text else ()), *index.numbers)
    for name in wanted or ():
        if name not in fields:
            raise RequestError(f"unknown field {shown(name)}; expected some of {', '.join(fields) or 'none'}")
    return fields if wanted is None else wanted


def _stored(index: Index, doc: int, name: str) -> tuple[str | float | None, bool]:
    """A field of a document, and whether it was cut."""
    if name in index.numbers:
        value = float(index.numbers[name][doc])
        return (value if value == value else None), False
    text = index.text(doc, name)
    return text[:_LONGEST_FIELD], len(text) > _LONGEST_FIELD
