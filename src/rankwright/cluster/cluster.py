"""Partitions of a data set over some workers, and actors: one object beside every partition.

Actors are made from their partition and some arguments, and changed by calls that are remembered. So what a
lost worker held is rebuilt, bit for bit, on another one: load the partition, make the objects, repeat the calls that
changed them. All recovery is here: a transport only starts calls and reports `WorkerLost`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from rankwright._types import Array
from rankwright.cluster.journal import Journal
from rankwright.cluster.worker import Call, Factory, Key, Source, WorkerLost, add_up
from rankwright.data.places import Own
from rankwright.errors import InputError

_MAX_LOSSES = 5  # in a row
_LOOK = 5.0  # seconds between searches for workers that replace lost ones


class Pending(Protocol):
    def result(self) -> Any:
        """Wait for the result; raises WorkerLost if the worker is gone, else what the call raised."""


class Transport(Protocol):
    """Reaches workers: starts calls on them and closes them."""

    def workers(self) -> Sequence[Any]:
        """The current workers, at least one; new ones may appear, lost ones are left out."""

    def start(self, worker: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        """Call a method of a :class:`~rankwright.cluster.worker.Worker`, without waiting for the result."""

    def close(self) -> None:
        """Release what was started."""


class Cluster:
    """Partitions, each on one worker.

    `transport`: the workers. `sources`: one for every partition. `sizes`: how much work each partition is: partitions
    are spread so that workers have about the same. `homes`: the workers of some partitions, where these are already.
    `closes`: whether closing the cluster closes the transport. `moves`: partitions that were loaded again because their
    worker was lost. `journal`: what :meth:`recall` records to.
    """

    def __init__(
        self,
        transport: Transport,
        sources: Sequence[Source],
        sizes: Sequence[int],
        *,
        homes: Mapping[int, Any] | None = None,
        closes: bool = True,
    ) -> None:
        self._transport, self._closes = transport, closes
        self._sources, self._sizes = list(sources), list(sizes)
        self._name = uuid.uuid4().hex[:8]  # workers may have partitions of other clusters
        self._home: dict[int, Any] = {}
        self._given = dict(homes or {})
        self._ready: set[int] = set()  # partitions whose objects are up to date
        self._groups: dict[int, ActorGroup] = {}
        self._made = self._losses = 0
        self._looked: float | None = None  # time of the last search for workers after a loss
        self.moves = 0
        self.journal: Journal | None = None
        self._settle()

    @property
    def n_partitions(self) -> int:
        return len(self._sources)

    def partition_name(self, partition: int) -> str:
        """Name of a partition for messages; its number where its source has no name."""
        return str(getattr(self._sources[partition], "name", f"partition {partition}"))

    @property
    def is_here(self) -> bool:
        return bool(getattr(self._transport, "is_here", False))

    def make(self, factory: Factory, *shared: Any, own: Own = None, threads: int = 1) -> ActorGroup:
        """An object beside every partition: ``factory(data, threads, *own[partition], *shared)``."""
        self._prepare()
        self._made += 1
        arguments = [((() if own is None else own[partition]) + shared) for partition in range(self.n_partitions)]
        actors = self._groups[self._made] = ActorGroup(self, self._made, factory, arguments, threads)
        if not self._send(range(self.n_partitions), lambda partitions: self._making(actors, partitions)):
            self._settle()  # which makes the new actors, too
        return actors

    def call(
        self,
        actors: ActorGroup,
        method: str,
        shared: tuple[Any, ...],
        own: Own,
        *,
        summed: bool = False,
        changes: bool = False,
    ) -> list[Any]:
        """Call a method of actors; results in the order of the partitions, or of those that hold sums."""
        self._prepare()
        results: dict[int, Any] = {}
        waiting = set(range(self.n_partitions))
        while waiting:
            pending = []
            for worker, partitions in self._by_worker(waiting):
                calls = self._calls(method, own, partitions)
                call = self._start(worker, "call", self._key(actors.number), calls, shared, summed=summed)
                pending.append((partitions, call))
            for partitions, call in pending:
                try:
                    results |= {partition: result for (_, partition), result in call.result().items()}
                except WorkerLost:
                    continue
                waiting.difference_update(partitions)
            if waiting:
                moved = self._settle()
                if changes:  # a partition that moved after its answer was rebuilt without this change
                    waiting |= moved
        self._losses = 0
        return [results[partition] for partition in sorted(results)]

    def recall(self, compute: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
        """The result of ``compute``, or the one recorded at this point before the driver was interrupted.

        The journal is replayed by running the driver again: it gets every recorded result without computing it, so no
        other state is saved, and the same bits follow. Hence ``compute`` must depend only on the data and on earlier
        recalls, and a driver changes actors afterwards, from the arrays, never inside ``compute``.
        """
        if self.journal is not None:
            return self.journal.recall(compute)
        # In C order with and without a journal: matrix products in another order have other bits.
        return {name: np.asarray(array, order="C") for name, array in compute().items()}

    def forget(self, actors: ActorGroup) -> None:
        if self._groups.pop(actors.number, None) is not None:
            group, every = self._key(actors.number), range(self.n_partitions)
            self._send(every, lambda partitions: [("drop", (group, self._key(each))) for each in partitions])

    def loads(self) -> dict[int, int]:
        """How often each partition was loaded by the current workers."""
        counts: dict[int, int] = {}
        for worker in dict.fromkeys(self._home.values()):
            for (name, partition), times in self._start(worker, "loads").result().items():
                if name == self._name:
                    counts[partition] = counts.get(partition, 0) + times
        return counts

    def close(self) -> None:
        """Forget the partitions, and close the workers if this cluster owns them."""
        self._groups.clear()
        if self._closes:
            self._transport.close()
        else:
            self._send(range(self.n_partitions), lambda _: [("leave", (self._name,))])

    def _key(self, number: int) -> Key:
        return self._name, number

    def _calls(self, method: str, own: Own, partitions: Iterable[int]) -> dict[Key, Call]:
        return {self._key(partition): (method, () if own is None else own[partition]) for partition in partitions}

    def _making(self, actors: ActorGroup, partitions: Iterable[int]) -> list[Call]:
        made = (actors.factory, actors.threads)
        return [
            ("make", (self._key(actors.number), self._key(partition), *made, actors.arguments[partition]))
            for partition in partitions
        ]

    def _rebuilding(self, partitions: Sequence[int]) -> list[Call]:
        """Load partitions, and repeat the calls that made and changed the objects beside them."""
        calls: list[Call] = [("load", (self._key(partition), self._sources[partition])) for partition in partitions]
        for actors in self._groups.values():
            calls += self._making(actors, partitions)
            for method, shared, own in actors.changes:
                calls.append(("call", (self._key(actors.number), self._calls(method, own, partitions), shared)))
        return calls

    def _by_worker(self, partitions: Iterable[int]) -> list[tuple[Any, list[int]]]:
        partitions_of: dict[Any, list[int]] = {}
        for partition in sorted(partitions):
            partitions_of.setdefault(self._home[partition], []).append(partition)
        return list(partitions_of.items())

    def _prepare(self) -> None:
        """Before a call: use workers that joined after a loss, and finish what an error interrupted."""
        if self._looked is not None and time.monotonic() - self._looked >= _LOOK:
            self._spread()
        if len(self._ready) < self.n_partitions:
            self._settle()

    def _spread(self) -> None:
        """Move partitions from the workers that have most to workers that have none."""
        self._looked = time.monotonic()
        workers = list(self._transport.workers())
        load = self._loads_of(workers)
        for idle in [worker for worker in workers if not load[worker]]:
            self._looked = None
            while True:
                busy = max(workers, key=lambda worker: load[worker])
                stored = [partition for partition, home in self._home.items() if home == busy]
                fitting = [partition for partition in stored if load[idle] + self._sizes[partition] < load[busy]]
                if not fitting:
                    break
                partition = max(fitting, key=lambda candidate: (self._sizes[candidate], -candidate))
                with suppress(WorkerLost):
                    self._start(busy, "unload", self._key(partition)).result()
                self._home[partition] = idle
                self._ready.discard(partition)
                load[busy] -= self._sizes[partition]
                load[idle] += self._sizes[partition]

    def _loads_of(self, workers: Sequence[Any]) -> dict[Any, int]:
        return {
            worker: sum(self._sizes[partition] for partition, home in self._home.items() if home == worker)
            for worker in workers
        }

    def _settle(self) -> set[int]:
        """Place partitions without a worker, and rebuild the objects beside them; returns those that moved."""
        moved: set[int] = set()
        while True:
            workers = list(self._transport.workers())
            lost = [partition for partition in range(self.n_partitions) if self._home.get(partition) not in workers]
            self._ready.difference_update(lost)
            self._count_losses([partition for partition in lost if partition in self._home])
            load = self._loads_of(workers)
            for partition in sorted(lost, key=lambda number: (-self._sizes[number], number)):
                chosen = self._given.pop(partition, None)
                self._home[partition] = chosen if chosen in workers else min(workers, key=lambda worker: load[worker])
                load[self._home[partition]] += self._sizes[partition]
            unready = [partition for partition in range(self.n_partitions) if partition not in self._ready]
            if not unready:
                return moved
            moved.update(unready)
            if self._hand_over(unready) and self._send(unready, self._rebuilding):
                self._ready.update(unready)

    def _hand_over(self, partitions: Sequence[int]) -> bool:
        """Let sources that can hand their partition to its worker do so; False if a worker was lost."""
        moving = [partition for partition in partitions if hasattr(self._sources[partition], "send_to")]
        try:
            for step in ("send_to", "wait_at"):
                for partition in moving:
                    getattr(self._sources[partition], step)(self._home[partition])
        except WorkerLost:
            return False
        return True

    def _count_losses(self, partitions: Sequence[int]) -> None:
        self.moves += len(partitions)
        if partitions:
            self._losses, self._looked = self._losses + 1, time.monotonic()
        if self._losses > _MAX_LOSSES:
            numbers = ", ".join(str(partition) for partition in partitions[:5]) + (", …" if len(partitions) > 5 else "")
            problem = f"workers were lost {self._losses} times in a row, the last one with the partitions {numbers}"
            expected = "workers with enough memory for their partitions, or smaller partitions"
            raise InputError(f"{problem} (from 0); expected {expected}")

    def _send(self, partitions: Iterable[int], calls_of: Callable[[list[int]], list[Call]]) -> bool:
        """Send each worker the calls for its partitions in one message; False if one was lost."""
        pending = [self._start(worker, "several", calls_of(held)) for worker, held in self._by_worker(partitions)]
        complete = True
        for call in pending:
            try:
                call.result()
            except WorkerLost:
                complete = False
        return complete

    def _start(self, worker: int, method: str, *arguments: Any, **options: Any) -> Pending:
        try:
            return self._transport.start(worker, method, *arguments, **options)
        except WorkerLost:
            return _Lost()


class _Lost:
    def result(self) -> Any:
        raise WorkerLost


class ActorGroup:
    only = None  # see `rankwright.data.places.Actors`

    def __init__(
        self, cluster: Cluster, number: int, factory: Factory, arguments: Sequence[tuple[Any, ...]], threads: int
    ) -> None:
        self._cluster, self.number = cluster, number
        self.factory, self.arguments, self.threads = factory, arguments, threads
        self.changes: list[tuple[str, tuple[Any, ...], Own]] = []

    def call(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        return self._cluster.call(self, method, shared, own)

    def update(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes the objects; the call is repeated where an object has to be rebuilt.

        The arguments are kept for this, so the caller must not change them.
        """
        results = self._cluster.call(self, method, shared, own, changes=True)
        self.changes.append((method, shared, own))
        return results

    def defer(self, method: str, *shared: Any) -> None:
        """Defer a change to the next call, which applies it where it is missing: no trip of its own."""
        self.changes.append((method, shared, None))

    def sum(self, method: str, *shared: Any, own: Own = None) -> Any:
        return add_up(self._cluster.call(self, method, shared, own, summed=True))

    def close(self) -> None:
        self._cluster.forget(self)
