"""The code that runs beside the data: a worker loads partitions, keeps objects beside them, and calls their methods.

The code is the same in this process, in a worker process and on a Dask worker, and its results depend on the partition
alone. The first two of these engines are here, too.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rankwright._types import Arguments
from rankwright.data.threads import usable_cores
from rankwright.errors import InputError

Factory = Callable[..., Any]  # (data, threads, *arguments) -> object; pickled by name
Call = tuple[str, tuple[Any, ...]]  # the name of a method, and its arguments
Key = tuple[str, int]  # the name of a cluster, and the number of one of its partitions, or of its actors


class Source(Protocol):
    """The origin of a partition; travels to the worker that loads it.

    A source may also have ``send_to(worker)`` and ``wait_at(worker)``, called before the worker loads: the first starts
    to send the partition there, the second waits for it.
    """

    def load(self) -> Any:
        """The partition as RankingData, with features left in their file where possible."""


class WorkerLost(Exception):
    """A worker is gone, with everything it held."""


class Worker:
    """Partitions, and objects beside them.

    `threads`: threads for every object; default: what it is made with.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._data: dict[Key, Any] = {}
        self._objects: dict[tuple[Key, Key], Any] = {}
        self._loads: dict[Key, int] = {}

    def load(self, partition: Key, source: Source) -> None:
        if partition not in self._data:
            self._data[partition] = source.load()
            self._loads[partition] = self._loads.get(partition, 0) + 1

    def loads(self) -> dict[Key, int]:
        return dict(self._loads)

    def make(self, actors: Key, partition: Key, factory: Factory, threads: int, arguments: tuple[Any, ...]) -> None:
        self.drop(actors, partition)
        self._objects[actors, partition] = factory(self._data[partition], self._threads or threads, *arguments)

    def call(
        self, actors: Key, calls: Mapping[Key, Call], shared: tuple[Any, ...] = (), *, summed: bool = False
    ) -> dict[Key, Any]:
        """Call a method of the actor beside each of some partitions; ``shared`` arguments come after its own.

        With ``summed`` the results are integers of which only the sum is needed; it is returned under the lowest
        partition.
        """
        results: dict[Key, Any] = {}
        for partition in sorted(calls):
            method, arguments = calls[partition]
            result = getattr(self._objects[actors, partition], method)(*arguments, *shared)
            if summed and results:
                first = next(iter(results))
                results[first] = add_up([results[first], result])
            else:
                results[partition] = result
        return results

    def several(self, calls: Sequence[Call]) -> None:
        for method, arguments in calls:
            getattr(self, method)(*arguments)

    def drop(self, actors: Key, partition: Key) -> None:
        dropped = self._objects.pop((actors, partition), None)
        if hasattr(dropped, "close"):
            dropped.close()

    def unload(self, partition: Key) -> None:
        """Forget a partition, and the objects beside it."""
        for actors in [actors for actors, beside in self._objects if beside == partition]:
            self.drop(actors, partition)
        self._data.pop(partition, None)

    def leave(self, cluster: str) -> None:
        for partition in [partition for partition in self._data if partition[0] == cluster]:
            self.unload(partition)

    def close(self) -> None:
        for actors, partition in list(self._objects):
            self.drop(actors, partition)
        self._data.clear()


def add_up(results: Sequence[Any]) -> Any:
    """The sum of integers, of arrays of them, or of tuples of such: the same in any order.

    Examples
    --------
    >>> add_up([(1, np.array([1, 2])), (5, np.array([3, 4]))])
    (6, array([4, 6]))
    """
    if isinstance(results[0], tuple):
        return tuple(add_up(column) for column in zip(*results, strict=True))
    total = results[0]
    for other in results[1:]:
        total = total + other
    if not np.issubdtype(np.asarray(total).dtype, np.integer):
        raise TypeError("only integers are summed where the partitions are: other sums depend on their order")
    return total


# The default engine: this process is the only worker.


@dataclass(frozen=True)
class _Done:
    value: Any

    def result(self) -> Any:
        return self.value


class Local:
    """All partitions in this process, one after the other."""

    is_here = True

    def __init__(self) -> None:
        self.worker = Worker()

    def workers(self) -> Sequence[Any]:
        return [0]

    def start(self, worker: int, method: str, *arguments: Any, **options: Any) -> _Done:
        return _Done(getattr(self.worker, method)(*arguments, **options))

    def close(self) -> None:
        self.worker.close()


# Calls and answers as bytes: pickle protocol 5, with the memory of arrays beside it instead of copied into it.
#
# Arrays arrive writable, so code sees the same kind of array with any engine. Pickling here rather than in Dask makes
# what a worker cannot load an error of the call, not a broken connection.


Frame = bytes | bytearray | memoryview
_PROTOCOL = 5


def pack(value: Arguments) -> list[Frame]:
    """A value as frames: the pickle, then the memory of its arrays.

    Examples
    --------
    >>> import numpy as np
    >>> frames = pack(("mean", np.zeros(1000)))
    >>> [len(frame) for frame in frames[1:]], unpack(frames)[1].flags.writeable
    ([8000], True)
    """
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=_PROTOCOL, buffer_callback=buffers.append)
    return [head, *(buffer.raw() for buffer in buffers)]


def unpack(frames: Sequence[Any]) -> Any:
    head, *rest = frames
    writable = [bytearray(frame) if memoryview(frame).readonly else frame for frame in rest]
    return pickle.loads(head, buffers=writable)


def answer(worker: Worker, frames: Sequence[Any]) -> list[Frame]:
    """Carry out the request in frames: its result, or the error, as frames."""
    try:
        method, arguments, options = unpack(frames)
        return pack((True, getattr(worker, method)(*arguments, **options)))
    except Exception as error:
        return pack((False, _portable(error)))


def result_of(frames: Sequence[Any]) -> Any:
    """The result in an answer; raises the error if it holds one."""
    succeeded, value = unpack(frames)
    if succeeded:
        return value
    raise value


def _portable(error: Exception) -> Exception:
    """An error with its traceback, in a form that another process can raise."""
    where = "".join(traceback.format_exception(error))
    try:
        error.add_note(f"Where it was raised:\n{where}")
        pickle.loads(pickle.dumps(error, protocol=_PROTOCOL))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\nWhere it was raised:\n{where}")
    return error


# A worker process: reads requests from standard input and writes answers to standard output.
#
# A message is its number, the number of its frames and their lengths, then the frames. The process
# ends at once when its standard input does, and so when its parent ends.


_HEAD = struct.Struct("<QQ")  # the message's number, its frames
_MAX_WRITE = 1 << 30  # bytes that every system writes at once


def read_message(descriptor: int) -> tuple[int, list[bytearray]]:
    """The next message; EOFError at the end of the pipe."""
    number, n_frames = _HEAD.unpack(_read(descriptor, _HEAD.size))
    lengths = struct.unpack(f"<{n_frames}Q", _read(descriptor, 8 * n_frames))
    return number, [_read(descriptor, length) for length in lengths]


def write_message(descriptor: int, number: int, frames: Sequence[Frame]) -> None:
    """Write a message; OSError if nobody reads it."""
    lengths = [memoryview(frame).nbytes for frame in frames]
    head = _HEAD.pack(number, len(frames)) + struct.pack(f"<{len(frames)}Q", *lengths)
    for frame in (head, *frames):
        view = memoryview(frame).cast("B")
        while view:
            view = view[os.write(descriptor, view[:_MAX_WRITE]) :]


def _read(descriptor: int, length: int) -> bytearray:
    message = bytearray(length)
    view, pipe = memoryview(message), io.FileIO(descriptor, closefd=False)
    while view:
        n_read = pipe.readinto(view)
        if not n_read:
            raise EOFError
        view = view[n_read:]
    return message


def main(threads: int) -> None:
    """Answer requests until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    os.dup2(2, 1)  # output of print must not mix with the answers
    waiting: queue.SimpleQueue[tuple[int, list[Any]]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    worker = Worker(threads)
    while True:
        number, frames = waiting.get()
        write_message(answers, number, answer(worker, frames))


def _receive(descriptor: int, waiting: queue.SimpleQueue[tuple[int, list[Any]]]) -> None:
    """Receive messages while the worker works; end the process with the pipe."""
    while True:
        try:
            waiting.put(read_message(descriptor))
        except (EOFError, OSError):
            os._exit(0)


# The engine of worker processes on this machine, started anew (never forked: a fork would inherit locks and threads).
#
# A process that ends, for whatever reason, is a lost worker, and a new one replaces it. Workers start on first use and
# end with this process.


_PATIENCE = 5.0  # seconds for a worker to end
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from rankwright.cluster.worker import main; main({})"


class Processes:
    """Some worker processes, which start with their first call.

    `n`: how many; default: one for every core.
    """

    def __init__(self, n: int | None = None) -> None:
        cores = usable_cores()
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

    def start(self, worker: int, method: str, *arguments: Any, **options: Any) -> Any:
        for process in self._workers:
            if process.number == worker:
                return process.send((method, arguments, options))
        raise WorkerLost

    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers if worker.process is not None and worker.alive()]

    def close(self) -> None:
        _end(self._workers)
        self._workers.clear()


class _WorkerProcess:
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

    def send(self, request: Arguments) -> _Answer:
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

    def _during(self, work: Callable[..., Any], *arguments: Any) -> Any:
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
