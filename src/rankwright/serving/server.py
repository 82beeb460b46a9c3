"""Running the service: a socket, uvicorn, signals. SIGINT and SIGTERM finish what is under way; SIGHUP reloads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

from rankwright.errors import InputError
from rankwright.serving.service import Service

_CONNECTIONS = 1000
_BACKLOG = 256
_KEEP_ALIVE = 5


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
        raise InputError(
            f"cannot listen at {host}, port {port}: {error.strerror}; another --port may be free"
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """The address of the service for a browser."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def json_lines(quiet: bool) -> Callable[[dict[str, Any]], None]:
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
    notify: Callable[[dict[str, Any]], None],
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

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[str], None], stop: threading.Event | None = None
    ) -> None:
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
def _logged(notify: Callable[[dict[str, Any]], None]) -> Iterator[None]:
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
