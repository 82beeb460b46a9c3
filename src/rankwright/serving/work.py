"""Work for threads, with limits: so many jobs at a time, so many waiting, so many seconds for each.

Python cannot end a thread. A job that runs out of time is given up: its request is answered, another thread takes its
place, and the thread itself ends with the job. There are at most as many given-up jobs as there are threads; beyond
that no thread is replaced until one of them ends, and requests are turned away.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from rankwright.serving.requests import Limits, RequestError

__all__ = ["Unavailable", "Work"]

Result = TypeVar("Result")


class Unavailable(RequestError):
    """A request that is turned away or given up for lack of time; the client may try again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 503)


@dataclass(eq=False)
class _Job:
    """A function to call in a thread, and where its result goes."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]
    given_up: bool = False

    def run(self) -> None:
        try:
            value, error = self.call(), None
        except BaseException as raised:
            value, error = None, raised
        try:
            self.loop.call_soon_threadsafe(self._finish, value, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    def _finish(self, value: Any, error: BaseException | None) -> None:
        if self.result.done():
            return
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)


class Work:
    """Threads that compute answers.

    Parameters
    ----------
    limits : Limits
        How many threads, how many jobs may wait, and for how long.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._free = limits.threads
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._given_up = 0
        for _ in range(limits.threads):
            self._start_thread()

    async def run(self, call: Callable[[], Result]) -> Result:
        """The result of a function, called in a thread.

        Raises
        ------
        Unavailable
            If too many requests wait already, or time is up.
        """
        ends = time.monotonic() + self._limits.seconds
        await self._place(ends)
        loop = asyncio.get_running_loop()
        job = _Job(call, loop, loop.create_future())
        self._jobs.put(job)
        try:
            async with asyncio.timeout(max(ends - time.monotonic(), 0)):
                found: Result = await asyncio.shield(job.result)
        except TimeoutError:
            if job.result.done():  # by a TimeoutError of its own
                self._release()
                raise
            self._give_up(job)
            raise Unavailable(f"the request took longer than {self._limits.seconds:g} seconds") from None
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        except BaseException:
            self._release()
            raise
        self._release()
        return found

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._limits.threads):
            self._jobs.put(None)

    async def _place(self, ends: float) -> None:
        """Wait for a free thread."""
        if self._free:
            self._free -= 1
            return
        if len(self._waiting) >= self._limits.waiting:
            raise Unavailable("too many requests at a time; try again later")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(max(ends - time.monotonic(), 0)):
                await turn
        except BaseException as error:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif turn.done() and not turn.cancelled():  # its turn came at the last moment
                self._release()
            if isinstance(error, TimeoutError):
                raise Unavailable(f"no thread was free for {self._limits.seconds:g} seconds; try again later") from None
            raise

    def _release(self) -> None:
        """Hand a free thread to the request that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _give_up(self, job: _Job) -> None:
        """Leave a job to itself; another thread takes its place unless too many are left already."""
        self._given_up += 1
        replaced = self._given_up <= self._limits.threads
        job.given_up = replaced
        if replaced:
            self._start_thread()
            self._release()

        def ended(_: asyncio.Future[Any]) -> None:
            self._given_up -= 1
            if not job.result.cancelled():
                job.result.exception()  # looked at, so that asyncio does not complain
            if not replaced:
                self._release()

        job.result.add_done_callback(ended)

    def _start_thread(self) -> None:
        threading.Thread(target=self._serve, name="rankwright-serve", daemon=True).start()

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.run()
            if job.given_up:
                return
