"""Work for threads, with limits: N jobs at a time, N waiting, N seconds for each.

Python cannot end a thread. A job that runs out of time is abandoned: its request is answered, and its place is free for
another one, while the thread ends with the job. There are at most as many abandoned jobs as there are places; the place
of a further one stays taken until the job ends, and requests are turned away.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from rankwright.serving.requests import Limits, RequestError

Result = TypeVar("Result")


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
