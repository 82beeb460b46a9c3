"""The service over HTTP: its paths, and what answers them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rankwright.serving import answers
from rankwright.serving.http import SHARED_STYLE, Http, Notify, Unavailable, as_json, page_of
from rankwright.serving.requests import ExplainRequest, Limits, RankRequest, SearchRequest
from rankwright.serving.service import Service

_FILES = ("page.html", "page.css", "lists.css", "elements.js", "state.js", "search.js", "why.js", "keys.js")


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
        return as_json(answers.encoded(self._service.health()))

    async def _version(self, request: Request) -> Response:
        return as_json(answers.encoded(self._service.version() | {"limits": dataclasses.asdict(self.limits)}))

    async def _search(self, request: Request) -> Response:
        parameters = SearchRequest.of(request.query_params.multi_items(), self.limits)
        state = self._service.state
        return await self._computed(request, lambda: answers.search(state, parameters))

    async def _explain(self, request: Request) -> Response:
        parameters = ExplainRequest.of(request.query_params.multi_items(), self.limits)
        state = self._service.state
        return await self._computed(request, lambda: answers.explain(state, parameters))

    async def _rank(self, request: Request) -> Response:
        if self._arriving >= self.limits.threads + self.limits.waiting:  # so that bodies cannot fill the memory
            raise Unavailable("too many requests at a time; try again later")
        self._arriving += 1
        try:
            body = await self.body(request)
        finally:
            self._arriving -= 1
        state, limits = self._service.state, self.limits
        return await self._computed(request, lambda: answers.rank(state, RankRequest.of(body, limits)))

    async def _computed(self, request: Request, compute: Callable[[], answers.Answer]) -> Response:
        answer = await self.work.run(compute)
        request.state.facts = {"ranker": answer.ranker, "hits": answer.hits}
        return as_json(answer.body)
