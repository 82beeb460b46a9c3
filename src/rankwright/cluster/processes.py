"""Worker processes on this machine, started anew (never forked: a fork would inherit locks and threads).

A process that ends, for whatever reason, is a lost worker, and a new one replaces it. Workers start on first use and
end with this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import Any

from rankwright.cluster.cluster import WorkerLost
from rankwright.cluster.worker import pack, read_message, result_of, write_message
from rankwright.errors import InputError

_PATIENCE = 5.0  # seconds for a worker to end
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rankwright.cluster.worker import main; main({})"


class Processes:
    """Some worker processes.

    `n`: how many; default: one for every core.

    Examples
    --------
    >>> from rankwright.cluster.cluster import Cluster
    >>> workers = Processes(2)
    >>> len(workers.workers()), len(workers.pids())  # they start with their first call
    (2, 0)
    """

    def __init__(self, n: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._n = cores if n is None else n
        if self._n < 1:
            raise InputError(f"{n} worker processes; expected 1 or more")
        self._threads = max(1, cores // self._n)
        self._started = 0
        self._workers: list[_WorkerProcess] = []
        self._finish = weakref.finalize(self, _end, self._workers)

    def workers(self) -> Sequence[Any]:
        """The workers, those that died replaced by new ones."""
        lost = [worker for worker in self._workers if not worker.alive()]
        _end(lost)
        for worker in lost:
            self._workers.remove(worker)
        while len(self._workers) < self._n:
            self._started += 1
            self._workers.append(_WorkerProcess(self._started, self._threads))
        return [worker.number for worker in self._workers]

    def start(self, worker: Any, method: str, *arguments: Any, **options: Any) -> Any:
        for process in self._workers:
            if process.number == worker:
                return process.send((method, arguments, options))
        raise WorkerLost

    def pids(self) -> list[int]:
        """Process ids of the workers that are alive."""
        return [worker.process.pid for worker in self._workers if worker.process is not None and worker.alive()]

    def close(self) -> None:
        _end(self._workers)
        self._workers.clear()


class _WorkerProcess:
    """A worker process and the calls sent to it."""

    def __init__(self, number: int, threads: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self._threads = threads
        self._sent = 0
        self._broken = False
        self._awaited: weakref.WeakValueDictionary[int, _Answer] = weakref.WeakValueDictionary()
        self._early: dict[int, list[Any]] = {}  # answers read while waiting for another one

    def alive(self) -> bool:
        return not self._broken and (self.process is None or self.process.poll() is None)

    def send(self, request: Any) -> _Answer:
        frames = pack(request)
        if self.process is None:
            arguments = [sys.executable, "-c", _START.format(self._threads), json.dumps(sys.path)]
            self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin is not None
        self._sent += 1
        try:
            self._during(write_message, self.process.stdin.fileno(), self._sent, frames)
        except (OSError, ValueError):  # ValueError: closed
            raise WorkerLost from None
        self._awaited[self._sent] = answer = _Answer(self, self._sent)
        return answer

    def wait(self, number: int) -> list[Any]:
        """The answer with a number; others are kept for those who wait for them."""
        assert self.process is not None
        assert self.process.stdout is not None
        while number not in self._early:
            if self._broken:
                raise WorkerLost
            try:
                answered, frames = self._during(read_message, self.process.stdout.fileno())
            except (EOFError, OSError, ValueError):
                raise WorkerLost from None
            if answered in self._awaited:
                self._early[answered] = frames
        return self._early.pop(number)

    def _during(self, work: Any, *arguments: Any) -> Any:
        """Read or write; after an interrupted message the pipe is unusable."""
        try:
            return work(*arguments)
        except BaseException:
            self._broken = True
            raise


class _Answer:
    def __init__(self, worker: _WorkerProcess, number: int) -> None:
        self._worker, self._number = worker, number

    def result(self) -> Any:
        return result_of(self._worker.wait(self._number))


def _end(workers: Sequence[_WorkerProcess]) -> None:
    """End processes by closing their input; kill those that do not end."""
    started = [worker.process for worker in workers if worker.process is not None]
    for process in started:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    for process in started:
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
