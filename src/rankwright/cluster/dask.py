"""The workers of a Dask cluster: an actor on each, called over Dask's own connections.

An actor dies with its worker, and Dask's future of a call to it may then never come. So whoever waits also looks at the
scheduler's list of workers: one that is not on it is lost. Workers that come later, such as those that nannies start
again, are used, too.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import uuid
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future as Result
from functools import partial
from typing import Any

import numpy as np

import rankwright
from rankwright.cluster.cluster import Cluster
from rankwright.cluster.worker import Worker, WorkerLost, answer, pack, result_of
from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.io.frames import from_frame

_LOOK = 0.25  # seconds between checks of the cluster while waiting
_PAUSE = 0.01
_CONNECT = 5.0  # seconds to reach a scheduler or a worker
_STARTING = 120.0  # seconds for workers or their actors to appear


class WorkerActor:
    """A :class:`Worker` as a Dask actor; requests and answers are frames, sent as arrays of bytes."""

    def __init__(self, threads: int, version: str) -> None:
        if version != rankwright.__version__:
            there = f"the workers of the Dask cluster have Rankwright {rankwright.__version__}"
            raise InputError(f"{there}, this machine has {version}; expected the same")
        self._worker = Worker(threads)

    def run(self, frames: Sequence[Any]) -> list[Any]:
        return _as_arrays(answer(self._worker, frames))


def _as_arrays(frames: Sequence[Any]) -> list[Any]:
    """Frames as arrays, which Dask sends without copies."""
    return [np.frombuffer(frame, np.uint8) for frame in frames]


def import_distributed() -> Any:
    """Dask's library; an error that says how to install it where it is missing."""
    try:
        import distributed
    except ImportError:
        raise InputError("a Dask engine needs dask; install it with: pip install 'rankwright[dask]'") from None
    return distributed


def is_client(engine: Any) -> bool:
    """Whether this is a Dask client; does not load Dask."""
    return any(
        kind.__name__ == "Client" and kind.__module__.startswith("distributed.") for kind in type(engine).__mro__
    )


def connect(address: str) -> DaskWorkers:
    distributed = import_distributed()
    try:
        client = distributed.Client(f"tcp://{address}", timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError):
        raise InputError(f"no Dask scheduler answers at {address}; expected host:port of a running one") from None
    return DaskWorkers(client, [client])


def local_cluster(n: int | None = None) -> DaskWorkers:
    """A cluster of ``n`` workers on this machine (default: one per core); ends with the engine."""
    distributed = import_distributed()
    cores = os.cpu_count() or 1
    cluster = distributed.LocalCluster(
        n_workers=cores if n is None else n,
        threads_per_worker=1 if n is None else max(1, cores // n),
        processes=True,
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=50,
    )
    client = distributed.Client(cluster, set_as_default=False)
    return DaskWorkers(client, [client, cluster])


class _DaskWorker:
    def __init__(self, number: int, address: str, actor: Any) -> None:
        self.number, self.address, self.actor = number, address, actor
        self.ready = False

    def __repr__(self) -> str:
        return f"worker {self.address}"


class DaskWorkers:
    """The workers of a Dask cluster.

    `client`: not asynchronous. `started`: closed with the engine: a client, a cluster.
    """

    def __init__(self, client: Any, started: Sequence[Any] = ()) -> None:
        if client.asynchronous:
            raise InputError("the Dask client is asynchronous; expected one made with asynchronous=False")
        self.client = client
        self._by_address: dict[str, _DaskWorker] = {}
        self._numbers = itertools.count(1)
        self._direct: bool | None = None  # whether workers can be reached directly; else through the scheduler
        self._finish = weakref.finalize(self, _close, list(started), self._by_address)

    def workers(self) -> Sequence[Any]:
        """The current workers; waits for the first one."""
        until = time.monotonic() + _STARTING
        while True:
            threads = self._threads()
            for address in [address for address in self._by_address if address not in threads]:
                self._leave(self._by_address[address])
            for address in [address for address in threads if address not in self._by_address]:
                self._by_address[address] = _DaskWorker(
                    next(self._numbers), address, self._actor(address, threads[address])
                )
            if self._by_address:
                return sorted(self._by_address.values(), key=lambda worker: worker.number)
            if time.monotonic() > until:
                raise InputError(f"the Dask scheduler at {self._where()} has no workers; expected at least one")
            time.sleep(_LOOK)

    def start(self, worker: _DaskWorker, method: str, *arguments: Any, **options: Any) -> Any:
        self._make_ready(worker)
        return _Reply(self, worker, self._send(worker, _as_arrays(pack((method, arguments, options)))))

    def close(self) -> None:
        """Release the actors, and end what this engine started."""
        self._finish()

    def lose(self, worker: _DaskWorker) -> WorkerLost:
        self._leave(worker)
        return WorkerLost(str(worker))

    def check(self, worker: _DaskWorker) -> None:
        """Raise WorkerLost if a worker is gone, InputError if the scheduler is."""
        if self._by_address.get(worker.address) is not worker or worker.address not in self._threads():
            raise self.lose(worker)

    def gone(self) -> InputError:
        return InputError(f"the Dask scheduler at {self._where()} is gone; expected it to run until the end")

    def is_gone(self) -> bool:
        return bool(self.client.status != "running")

    def _where(self) -> str:
        return str(getattr(self.client.scheduler, "address", "?")).removeprefix("tcp://")

    def _leave(self, worker: _DaskWorker) -> None:
        if self._by_address.get(worker.address) is worker:
            del self._by_address[worker.address]
        if not self.is_gone():
            worker.actor.release()

    def _threads(self) -> dict[str, int]:
        """The threads of every worker that the scheduler has, by address."""
        future: Result[dict[str, int]] = self._run(self.client.scheduler.ncores())
        while True:
            try:
                return future.result(_LOOK)
            except OSError:  # TimeoutError among them
                if future.done() or self.is_gone():
                    future.cancel()
                    raise self.gone() from None

    def _actor(self, address: str, threads: int) -> Any:
        return self.client.submit(
            WorkerActor,
            threads,
            rankwright.__version__,
            workers=[address],
            allow_other_workers=False,
            actor=True,
            pure=False,
            key=f"rankwright-worker-{uuid.uuid4().hex}",
        )

    def _make_ready(self, worker: _DaskWorker) -> None:
        if self._by_address.get(worker.address) is not worker:
            raise WorkerLost(str(worker))
        until = time.monotonic() + _STARTING
        looked = time.monotonic()
        while not worker.ready:
            status = worker.actor.status
            if status == "finished":
                self._find_way(worker)
            elif status == "error":
                raise _not_started(worker.actor.exception())
            elif status in ("lost", "cancelled") or time.monotonic() > until:
                raise self.lose(worker)
            else:
                time.sleep(_PAUSE)
                if time.monotonic() - looked > _LOOK:
                    self.check(worker)
                    looked = time.monotonic()

    def _find_way(self, worker: _DaskWorker) -> None:
        if self._direct is None:
            try:
                self._run(self.client.rpc(worker.address).identity()).result(_CONNECT)
                self._direct = True
            except OSError:
                self.check(worker)
                self._direct = False
        worker.ready = True

    def _send(self, worker: _DaskWorker, frames: list[Any]) -> Result[Any]:
        from distributed.protocol import to_serialize

        message = {"function": "run", "actor": worker.actor.key, "args": [to_serialize(frames)], "kwargs": {}}
        if self._direct:
            return self._run(self.client.rpc(worker.address).actor_execute(**message))
        return self._run(self.client.scheduler.proxy(worker=worker.address, msg={"op": "actor_execute", **message}))

    def _run(self, request: Coroutine[Any, Any, Any]) -> Result[Any]:
        return asyncio.run_coroutine_threadsafe(request, self.client.loop.asyncio_loop)


class _Reply:
    def __init__(self, workers: DaskWorkers, worker: _DaskWorker, future: Result[Any]) -> None:
        self._workers, self._worker, self._future = workers, worker, future

    def result(self) -> Any:
        """Wait for the answer while watching the cluster."""
        while True:
            try:
                answer = self._future.result(_LOOK)
                break
            except (KeyError, asyncio.CancelledError):  # the worker no longer knows the actor
                raise self._workers.lose(self._worker) from None
            except OSError:  # TimeoutError among them
                if self._workers.is_gone():
                    raise self._workers.gone() from None
                if self._future.done():
                    raise self._workers.lose(self._worker) from None
                self._look()
        if answer["status"] != "OK":
            raise answer["exception"]
        return result_of(answer["result"])

    def _look(self) -> None:
        try:
            self._workers.check(self._worker)
        except BaseException:
            self._future.cancel()
            raise


def _not_started(error: InputError) -> Exception:
    """The message for a worker whose actor could not be started."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, ImportError) or "deserializ" in str(error):
        problem = "the Dask cluster cannot load Rankwright"
        return InputError(f"{problem}; expected scheduler and workers to have Rankwright {rankwright.__version__}")
    return InputError(f"Rankwright could not be started on a Dask worker: {type(error).__name__}: {error}")


def _close(started: list[Any], by_address: dict[str, _DaskWorker]) -> None:
    for worker in by_address.values():
        if worker.actor.client.status == "running":
            worker.actor.release()
    by_address.clear()
    for owned in started:
        owned.close()


# Dask DataFrames as data: each partition is a partition, made by a task and used on the worker that holds it.
#
# The driver keeps Dask's futures of the partitions, so Dask recomputes a partition lost with its worker from the
# frame's own tasks; the driver sends no data.


class FrameSource:
    """A partition made by a Dask task; a second task, pinned to its worker, hands it over to the actor there.

    `key`: of the task. `name`: of the partition, for messages. `workers`, `future`: the cluster, and Dask's future of
    the partition, which keeps it there; they stay where this object was made.
    """

    def __init__(self, key: str, name: str, workers: DaskWorkers | None = None, future: Any = None) -> None:
        self.key, self.name = key, name
        self._workers, self._future, self._sent = workers, future, None

    def __reduce__(self) -> Any:
        return FrameSource, (self.key, self.name)

    def send_to(self, worker: _DaskWorker) -> None:
        """Start handing the partition over to a worker."""
        assert self._workers is not None
        submit = self._workers.client.submit
        self._sent = submit(_shelve, self.key, self._future, workers=[worker.address], pure=False)

    def wait_at(self, worker: _DaskWorker) -> None:
        """Wait until the worker can load the partition; WorkerLost if that worker is gone."""
        assert self._workers is not None
        _wait(self._sent, self.name, partial(self._workers.check, worker))
        self._sent = None

    def load(self) -> RankingData:
        """The partition that was handed over: the very object that Dask has on this worker."""
        data: RankingData = _shelf().pop(self.key)
        return data


def _shelf() -> dict[str, Any]:
    """Partitions handed over to this Dask worker and not yet taken."""
    shelf: dict[str, Any] = vars(import_distributed().get_worker()).setdefault("_rankwright_partitions", {})
    return shelf


def _shelve(key: str, data: RankingData) -> None:
    _shelf()[key] = data


def is_dask_frame(frame: Any) -> bool:
    """Test for a Dask DataFrame without loading Dask."""
    return type(frame).__module__.startswith(("dask.dataframe", "dask_expr")) and hasattr(frame, "to_delayed")


def frame_cluster(
    frame: Any,
    workers: DaskWorkers,
    *,
    qid: str | None = None,
    label: str | None = None,
    docid: str | None = None,
    features: Sequence[str] | None = None,
    closes: bool = True,
) -> Cluster:
    """The partitions of a Dask DataFrame, each on the worker that has it; empty ones are left out.

    `frame`: one row per document; all rows of a query in one partition. `workers`: the cluster. `qid`, `label`,
    `docid`, `features`: the columns, as in :func:`rankwright.from_frame`. `closes`: whether closing the cluster closes
    the engine.
    """
    for name in (qid, label, *(features or ())):
        if name is not None and name not in frame.columns:
            raise InputError(f"the Dask DataFrame has no column {name!r}; it has {', '.join(map(str, frame.columns))}")
    futures = _make_partitions(frame, workers, {"qid": qid, "label": label, "docid": docid, "features": features})
    client = workers.client
    sizes = client.gather([client.submit(_size, future, pure=False) for future in futures])
    filled = [partition for partition, size in enumerate(sizes) if size]
    if not filled:
        raise InputError("the Dask DataFrame has no rows")
    sources = [
        FrameSource(futures[partition].key, f"partition {partition}", workers, futures[partition])
        for partition in filled
    ]
    where = client.who_has([futures[partition] for partition in filled])
    by_address = {worker.address: worker for worker in workers.workers()}
    homes = {}
    for number, source in enumerate(sources):
        holders = [by_address[address] for address in where.get(source.key, ()) if address in by_address]
        if holders:
            homes[number] = holders[0]
    return Cluster(workers, sources, [sizes[partition] for partition in filled], homes=homes, closes=closes)


def _make_partitions(frame: Any, workers: DaskWorkers, columns: dict[str, Any]) -> list[Any]:
    import dask

    make = dask.delayed(_data_of, pure=False)
    futures: list[Any] = workers.client.compute([make(partition, columns) for partition in frame.to_delayed()])
    for partition, future in enumerate(futures):
        _wait(future, f"partition {partition}", workers.workers)
    return futures


def _wait(future: Any, name: str, look: Callable[[], Any]) -> None:
    """Wait for a task while watching the cluster; InputError if it fails."""
    looked = time.monotonic()
    while future.status in ("pending", "lost"):  # Dask recomputes what was lost
        time.sleep(_PAUSE)
        if time.monotonic() - looked > _LOOK:
            look()  # raises an error where waiting is futile
            looked = time.monotonic()
    if future.status == "finished":
        return
    error = future.exception() if future.status == "error" else None
    if isinstance(error, InputError):
        raise InputError(f"{name} of the Dask DataFrame: {error.message}")
    why = f"{type(error).__name__}: {error}" if error is not None else f"it was {future.status}"
    raise InputError(f"{name} of the Dask DataFrame could not be made: {why}")


def _data_of(frame: Any, columns: dict[str, Any]) -> RankingData | None:
    return from_frame(frame, **columns) if len(frame) else None


def _size(data: RankingData | None) -> int:
    return 0 if data is None else data.n_docs
