"""What applications over HTTP share: threads, errors as one line of JSON, bodies, headers, the log, pages, the server.

Every answer but a page is one line of JSON, errors too: ``{"error": "…"}``. What a client sent wrong is its 4xx; no
error shows it anything of the inside. A page is one HTML file with its style and script inside, whose policy lets it
talk to this service only. SIGINT and SIGTERM finish what is under way; SIGHUP reloads.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import json
import logging
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from types import FrameType
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rankwright.errors import InputError, shown
from rankwright.serving.requests import Limits, RequestError
from rankwright.serving.service import Service

Result = TypeVar("Result")
Notify = Callable[[dict[str, Any]], None]
_CONNECTIONS = 1000
_BACKLOG = 256
_KEEP_ALIVE = 5
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
_STYLE, _SCRIPT = "/*STYLE*/", "/*SCRIPT*/"
SHARED_STYLE = ("rankwright", "shared.css")
"""The styles of all pages."""

# Python cannot end a thread. A job that runs out of time is abandoned: its request is answered, and its place is free
# for another one, while the thread ends with the job. There are at most as many abandoned jobs as there are places; the
# place of a further one stays taken until the job ends, and requests are turned away.


class Unavailable(RequestError):
    """A request that is turned away or abandoned for lack of time; the client may try again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 503)


class Work:
    """Threads that compute answers.

    `limits`: how many threads, how many jobs may wait, and for how long.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = asyncio.Semaphore(limits.threads)
        self._waiting = 0
        self._abandoned = 0

    async def run(self, call: Callable[[], Result]) -> Result:
        """The result of a function, called in a thread.

        Raises `Unavailable`: if too many requests wait already, or time is up.
        """
        loop, seconds = asyncio.get_running_loop(), self._limits.seconds
        deadline = loop.time() + seconds
        if self._places.locked() and self._waiting >= self._limits.waiting:
            raise Unavailable("too many requests at a time; try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError:
            raise Unavailable(f"no thread was free for {seconds:g} seconds; try again later") from None
        finally:
            self._waiting -= 1
        result: asyncio.Future[Result] = loop.create_future()
        # A thread of its own (35 µs), not one of a pool (anyio's, or an executor's): Python waits for those when it
        # exits, so one stuck request would keep the service from ending.
        arguments = (call, loop, result)
        threading.Thread(target=_compute, args=arguments, name="rankwright-serve", daemon=True).start()
        try:
            async with asyncio.timeout_at(deadline) as time_limit:
                return await asyncio.shield(result)
        except TimeoutError:
            if not time_limit.expired():  # a TimeoutError of the call's own
                raise
            raise Unavailable(f"the request took longer than {seconds:g} seconds") from None
        finally:
            self._leave(result)

    def _leave(self, result: asyncio.Future[Any]) -> None:
        """Free the place of a job that has ended, or abandon the job."""
        if result.done():
            self._places.release()
            return
        self._abandoned += 1
        is_replaced = self._abandoned <= self._limits.threads
        if is_replaced:
            self._places.release()

        def ended(_: asyncio.Future[Any]) -> None:
            self._abandoned -= 1
            if not result.cancelled():
                result.exception()  # looked at, so that asyncio does not complain
            if not is_replaced:
                self._places.release()

        result.add_done_callback(ended)


def _compute(call: Callable[[], Any], loop: asyncio.AbstractEventLoop, result: asyncio.Future[Any]) -> None:
    value, error = None, None
    try:
        value = call()
    except BaseException as raised:
        error = raised

    def settle() -> None:
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(settle)


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
        name = f"[{host}]" if ":" in host else host
        return list(dict.fromkeys([*_LOCAL, name, *further]))
    return list(further) or None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Http:
    """The base of an application: a subclass adds its handlers.

    `limits`: sizes and times. `notify`: called with a mapping for each request, for the log. `hosts`: names that
    requests may use for this machine; None for any.
    """

    addresses = ""

    def __init__(self, limits: Limits, notify: Notify, hosts: Sequence[str] | None) -> None:
        self.limits, self._notify = limits, notify
        self._hosts = None if hosts is None else {name.lower() for name in hosts}
        self.work = Work(limits)

    def routes(self) -> list[Route]:
        raise NotImplementedError

    def admit(self, request: Request) -> None:
        """Raise a RequestError for a request that may not be answered; by default for unknown names of this machine."""
        if self._hosts is None:
            return
        given = request.headers.get("host", "").lower()
        name = given.rpartition(":")[0] if given.rpartition(":")[2].isdigit() and not given.endswith("]") else given
        if name not in self._hosts:
            problem = f"the Host of the request is {shown(given)}"
            raise RequestError(f"{problem}; expected {', '.join(sorted(self._hosts))}", 421)

    def path_of(self, request: Request) -> str:
        """The path, as the log and errors show it."""
        return request.url.path

    def app(self) -> Starlette:
        app = Starlette(routes=self.routes(), exception_handlers={HTTPException: self._not_routed})
        app.router.redirect_slashes = False
        return app

    def handled(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """A handler that turns every error into an answer, and logs one line."""

        async def handle(request: Request) -> Response:
            began = time.monotonic()
            failed: dict[str, Any] = {}
            try:
                self.admit(request)
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
        path = self.path_of(request)
        messages = {404: f"there is no {shown(path)}; expected {self.addresses}"}
        messages[405] = f"{path} does not take {shown(request.method)}"
        message = messages.get(error.status_code, str(error.detail))
        response = _error(error.status_code, message)
        response.headers.update(error.headers or {})
        self._log(request, response, began, {"error": message})
        return response

    def _log(self, request: Request, response: Response, began: float, failed: dict[str, Any]) -> None:
        response.headers.update({key: value for key, value in _HEADERS.items() if key not in response.headers})
        event: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        event["method"] = request.method
        event |= {"path": self.path_of(request), "status": response.status_code}
        event |= {"ms": round(1000 * (time.monotonic() - began), 2), **getattr(request.state, "facts", {}), **failed}
        self._notify(event)

    async def body(self, request: Request) -> bytes:
        """The body, as far as it is JSON, not too long, and does not take too long."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(f"the Content-Type is {shown(kind)}; expected application/json", 415)
        too_long = RequestError(f"the body is too long; expected at most {self.limits.body:,} bytes", 413)
        announced = request.headers.get("content-length", "0")
        if announced.isascii() and announced.isdecimal() and (len(announced) > 15 or int(announced) > self.limits.body):
            raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    size += len(part)
                    if size > self.limits.body:
                        raise too_long
                    parts.append(part)
        except TimeoutError:
            raise RequestError(f"the body took longer than {self.limits.seconds:g} seconds to arrive", 408) from None
        return b"".join(parts)


def encoded(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def as_json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _error(status: int, message: str) -> Response:
    return as_json(encoded({"error": " ".join(message.split())}), status)


def page_of(files: tuple[tuple[str, str], ...]) -> Response:
    """A page of several files, each a package and a name: HTML, styles and scripts, in this order."""
    text, policy = _made(files)
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy})


@cache
def _made(files: tuple[tuple[str, str], ...]) -> tuple[str, str]:
    """The text of a page, and the policy that allows its own style and script only."""
    html, style, script = (
        "\n".join(
            resources.files(package).joinpath(name).read_text(encoding="utf-8")
            for package, name in files
            if name.endswith(ending)
        )
        for ending in (".html", ".css", ".js")
    )
    text = html.replace(_STYLE, style).replace(_SCRIPT, script)
    rules = {
        "default-src": "'none'",
        "style-src": _digest(style),
        "script-src": _digest(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return text, "; ".join(f"{name} {value}" for name, value in rules.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any free one.

    It knows its protocol: asyncio turns Nagle's algorithm off only then, and answers took 40 ms longer with it.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"--host is {host!r}, which is no address of this machine: {error.strerror}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        problem = f"cannot listen at {host}, port {port}: {error.strerror}"
        raise InputError(f"{problem}; another --port may be free") from None
    return bound


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def json_lines(quiet: bool) -> Notify:
    """A log on standard error: one line of JSON per event; if ``quiet``, no requests that succeeded."""
    lock = threading.Lock()

    def notify(event: dict[str, Any]) -> None:
        if quiet and event.get("status", 500) < 500:
            return
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds")} | event)
        with lock, contextlib.suppress(OSError, ValueError):  # whoever read it is gone
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    return notify


def serve(
    app: Starlette,
    service: Service | None,
    bound: socket.socket,
    notify: Notify,
    *,
    ready: Callable[[str], None],
    seconds: float,
    stop: threading.Event | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    `app`, `service`: the application and what it serves; without a service, SIGHUP is not for us. `bound`: see
    :func:`bind`. `notify`: the log. `ready`: called with the address once requests are taken. `seconds`: how long
    requests under way have to finish at the end. `stop`: set to end the service from another thread, where there are no
    signals.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(seconds) + 1),
    )
    with _logged(notify), _reloading(service):
        asyncio.run(_Server(config, ready, stop).serve(sockets=[bound]))


class _Server(uvicorn.Server):
    """Reports when it is ready, and ends without raising the signal again: an end that was asked for is no error."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None], stop: threading.Event | None) -> None:
        super().__init__(config)
        self._ready, self._stop = ready, stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready(address_of((sockets or [])[0]))

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or (self._stop is not None and self._stop.is_set())

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


@contextlib.contextmanager
def _reloading(service: Service | None) -> Iterator[None]:
    """SIGHUP makes the service load all files again."""
    if service is None or not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, lambda sig, frame: service.look_now())
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextlib.contextmanager
def _logged(notify: Notify) -> Iterator[None]:
    """Uvicorn's messages go into the same log."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notify({"event": "server", "error": record.getMessage()})

    logger, handler = logging.getLogger("uvicorn"), Handler(logging.WARNING)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
