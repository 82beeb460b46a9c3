"""The service over HTTP: ``/rank``, ``/search`` and ``/explain``, from a request to its answer, and the search page."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rankwright.data.order import rank_order
from rankwright.errors import shown
from rankwright.serving.http import SHARED_STYLE, Http, Notify, Unavailable, as_json, encoded, page_of
from rankwright.serving.rankers import ModelRanker, ServedRanker
from rankwright.serving.requests import ExplainRequest, Limits, RankRequest, RequestError, SearchRequest
from rankwright.serving.service import Service, State
from rankwright.text.contents import View
from rankwright.text.index import Index
from rankwright.text.search import query_words, title_and_snippet

_FILES = ("page.html", "page.css", "lists.css", "elements.js", "state.js", "search.js", "why.js", "keys.js")
_SNIPPET = 240
_LONGEST_FIELD = 10_000
_NAMED = 8


def make_app(
    service: Service,
    limits: Limits | None = None,
    *,
    notify: Notify = lambda event: None,
    hosts: Sequence[str] | None = None,
) -> Starlette:
    """The service as an ASGI application.

    `notify`: called with a mapping for each request, for the log.
    `hosts`: names that requests may use for this machine; None for any. On a loopback address this keeps pages of other
    sites from reading answers through a name of their own that leads here.
    """
    return _Http(service, limits or Limits(), notify, hosts).app()


class _Http(Http):
    addresses = "/, /health, /version, /search, /explain and /rank"

    def __init__(self, service: Service, limits: Limits, notify: Notify, hosts: Sequence[str] | None) -> None:
        super().__init__(limits, notify, hosts)
        self._service = service
        self._arriving = 0

    def routes(self) -> list[Route]:
        return [
            Route("/", self.handled(self._page)),
            Route("/health", self.handled(self._health)),
            Route("/version", self.handled(self._version)),
            Route("/search", self.handled(self._search)),
            Route("/explain", self.handled(self._explain)),
            Route("/rank", self.handled(self._rank), methods=["POST"]),
        ]

    async def _page(self, request: Request) -> Response:
        return page_of((SHARED_STYLE, *(("rankwright.serving", name) for name in _FILES)))

    async def _health(self, request: Request) -> Response:
        return as_json(encoded(self._service.health()))

    async def _version(self, request: Request) -> Response:
        return as_json(encoded(self._service.version() | {"limits": dataclasses.asdict(self.limits)}))

    async def _search(self, request: Request) -> Response:
        parameters = SearchRequest.of(request.query_params.multi_items(), self.limits)
        state = self._service.state
        return await self._computed(request, lambda: search(state, parameters))

    async def _explain(self, request: Request) -> Response:
        parameters = ExplainRequest.of(request.query_params.multi_items(), self.limits)
        state = self._service.state
        return await self._computed(request, lambda: explain(state, parameters))

    async def _rank(self, request: Request) -> Response:
        if self._arriving >= self.limits.threads + self.limits.waiting:  # so that bodies cannot fill the memory
            raise Unavailable("too many requests at a time; try again later")
        self._arriving += 1
        try:
            body = await self.body(request)
        finally:
            self._arriving -= 1
        state, limits = self._service.state, self.limits
        return await self._computed(request, lambda: rank(state, RankRequest.of(body, limits)))

    async def _computed(self, request: Request, compute: Callable[[], Answer]) -> Response:
        answer = await self.work.run(compute)
        request.state.facts = {"ranker": answer.ranker, "hits": answer.hits}
        return as_json(answer.body)


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


@dataclass(frozen=True)
class Answer:
    """A body of JSON, and what the log says of it."""

    body: bytes
    ranker: str
    hits: int


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
        fitting = (served for served in state.rankers.values() if not of_features or isinstance(served, ModelRanker))
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
