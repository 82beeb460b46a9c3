"""The service over HTTP: paths, methods, limits, headers, and one line of log per request.

Every answer but the page is one line of JSON, errors too: ``{"error": "…"}``. What a client sent wrong is its 4xx; no
error shows it anything of the inside.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rankwright.errors import InputError, shown
from rankwright.serving import answers
from rankwright.serving.page import page
from rankwright.serving.requests import ExplainRequest, Limits, RankRequest, RequestError, SearchRequest
from rankwright.serving.service import Service
from rankwright.serving.work import Unavailable, Work

__all__ = ["make_app"]

Tell = Callable[[dict[str, Any]], None]
Compute = Callable[[], answers.Answer]
_RETRY_SECONDS = "1"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def make_app(
    service: Service, limits: Limits | None = None, *, tell: Tell | None = None, hosts: Sequence[str] | None = None
) -> Starlette:
    """The service as an ASGI application.

    Parameters
    ----------
    service : Service
        What is served.
    limits : Limits, optional
        Sizes and times.
    tell : callable, optional
        Called with a mapping for each request, for the log.
    hosts : sequence of str, optional
        Names that requests may use for this machine; None for any. On a loopback address this keeps pages of other
        sites from reading answers through a name of their own that leads here.
    """
    return _Http(service, limits or Limits(), tell or (lambda event: None), hosts).app()


def local_names(host: str, further: Sequence[str] = ()) -> list[str] | None:
    """The names by which a service bound to this address may be called; None if any will do.

    Examples
    --------
    >>> local_names("127.0.0.1", ["search.example"])
    ['localhost', '127.0.0.1', '[::1]', 'search.example']
    >>> local_names("0.0.0.0") is None
    True
    """
    if host == "localhost" or _is_loopback(host):
        own = f"[{host}]" if ":" in host else host
        return list(dict.fromkeys([*_LOCAL, own, *further]))
    return list(further) or None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Http:
    """The handlers of an application, and what they share."""

    def __init__(self, service: Service, limits: Limits, tell: Tell, hosts: Sequence[str] | None) -> None:
        self._service, self._limits, self._tell = service, limits, tell
        self._hosts = None if hosts is None else {name.lower() for name in hosts}
        self._work = Work(limits)
        self._arriving = 0

    def app(self) -> Starlette:
        routes = [
            Route("/", self._handled(self._page)),
            Route("/health", self._handled(self._health)),
            Route("/version", self._handled(self._version)),
            Route("/search", self._handled(self._search)),
            Route("/explain", self._handled(self._explain)),
            Route("/rank", self._handled(self._rank), methods=["POST"]),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: self._not_routed}, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The threads end with the application."""
        yield
        self._work.close()

    def _handled(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """A handler that turns every error into an answer, and logs one line."""

        async def handle(request: Request) -> Response:
            began = time.monotonic()
            failed: dict[str, Any] = {}
            try:
                self._check_host(request)
                response = await handler(request)
            except RequestError as error:
                response = _error(error.status, error.message)
                failed = {"error": error.message}
                if isinstance(error, Unavailable):
                    response.headers["Retry-After"] = _RETRY_SECONDS
            except ClientDisconnect:
                response, failed = _error(400, "the request ended early"), {"error": "the client went away"}
            except InputError as error:
                status, failed = (400, {"error": error.message}) if error.path is None else (500, {"error": str(error)})
                response = _error(status, error.message if status == 400 else "internal error")
            except Exception as error:
                response = _error(500, "internal error")
                failed = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
            self._log(request, response, began, failed)
            return response

        return handle

    async def _not_routed(self, request: Request, error: Exception) -> Response:
        """An unknown path, or a method that the path does not have."""
        began = time.monotonic()
        assert isinstance(error, HTTPException)
        known = "/, /health, /version, /search, /explain and /rank"
        what = {404: f"there is no {shown(request.url.path)}; expected {known}"}
        what[405] = f"{request.url.path} does not take {shown(request.method)}"
        message = what.get(error.status_code, str(error.detail))
        response = _error(error.status_code, message)
        response.headers.update(error.headers or {})
        self._log(request, response, began, {"error": message})
        return response

    def _log(self, request: Request, response: Response, began: float, failed: dict[str, Any]) -> None:
        response.headers.update({key: value for key, value in _HEADERS.items() if key not in response.headers})
        event: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        event["method"] = request.method
        event |= {"path": request.url.path, "status": response.status_code}
        event |= {"ms": round(1000 * (time.monotonic() - began), 2), **getattr(request.state, "facts", {}), **failed}
        self._tell(event)

    def _check_host(self, request: Request) -> None:
        if self._hosts is None:
            return
        given = request.headers.get("host", "").lower()
        name = given.rpartition(":")[0] if given.rpartition(":")[2].isdigit() and not given.endswith("]") else given
        if name not in self._hosts:
            what = f"the Host of the request is {shown(given)}"
            raise RequestError(f"{what}; expected {', '.join(sorted(self._hosts))}", 421)

    async def _page(self, request: Request) -> Response:
        return page()

    async def _health(self, request: Request) -> Response:
        return _json(answers.encoded(self._service.health()))

    async def _version(self, request: Request) -> Response:
        return _json(answers.encoded(self._service.version() | {"limits": dataclasses.asdict(self._limits)}))

    async def _search(self, request: Request) -> Response:
        wanted = SearchRequest.of(request.query_params.multi_items(), self._limits)
        state = self._service.state
        return await self._computed(request, lambda: answers.search(state, wanted))

    async def _explain(self, request: Request) -> Response:
        wanted = ExplainRequest.of(request.query_params.multi_items(), self._limits)
        state = self._service.state
        return await self._computed(request, lambda: answers.explain(state, wanted))

    async def _rank(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(f"the Content-Type is {shown(kind)}; expected application/json", 415)
        if self._arriving >= self._limits.threads + self._limits.waiting:  # so that bodies cannot fill the memory
            raise Unavailable("too many requests at a time; try again later")
        self._arriving += 1
        try:
            body = await self._body(request)
        finally:
            self._arriving -= 1
        state, limits = self._service.state, self._limits
        return await self._computed(request, lambda: answers.rank(state, RankRequest.of(body, limits)))

    async def _computed(self, request: Request, compute: Compute) -> Response:
        answer = await self._work.run(compute)
        request.state.facts = {"ranker": answer.ranker, "hits": answer.hits}
        return _json(answer.body)

    async def _body(self, request: Request) -> bytes:
        """The body, as far as it is not too long and does not take too long."""
        too_long = RequestError(f"the body is too long; expected at most {self._limits.body:,} bytes", 413)
        announced = request.headers.get("content-length", "0")
        if (
            announced.isascii()
            and announced.isdecimal()
            and (len(announced) > 15 or int(announced) > self._limits.body)
        ):
            raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > self._limits.body:
                        raise too_long
                    parts.append(part)
        except TimeoutError:
            raise RequestError(f"the body took longer than {self._limits.seconds:g} seconds to arrive", 408) from None
        return b"".join(parts)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return _json(answers.encoded({"error": " ".join(message.split())}), status)
