"""Partitions of a data set over some hosts, and groups: one object beside every partition.

A actors's objects are made from their partition and some arguments, and changed by calls that are remembered. So what a
lost host held is rebuilt, bit for bit, on another one: load the partition, make the objects, repeat the calls that
changed them. All recovery is here: a transport only starts calls and reports `WorkerLost`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.cluster.worker import Call, Factory, Key, Source, add_up
from rankwright.errors import InputError

Arrays = Mapping[str, npt.NDArray[Any]]
Own = Sequence[tuple[Any, ...]] | None  # arguments of every partition's own
_MOST_LOSSES = 5  # in a row
_LOOK = 5.0  # seconds between searches for hosts that replace lost ones


class WorkerLost(Exception):
    """A host is gone, with everything it held."""


class Pending(Protocol):
    """A pending call."""

    def result(self) -> Any:
        """Wait for the result; raises WorkerLost if the host is gone, else what the call raised."""


class Transport(Protocol):
    """Reaches hosts: starts calls on them and closes them."""

    def hosts(self) -> Sequence[Any]:
        """The current hosts, at least one; new ones may appear, lost ones are left out."""

    def start(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        """Call a method of a :class:`~rankwright.cluster.worker.Host`, without waiting for the result."""

    def close(self) -> None:
        """Release what was started."""


class Recorder(Protocol):
    """Results, in order, that outlive this process."""

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """The next recorded result; where there is none, the result of ``compute``, which is recorded."""


class Cluster:
    """Partitions, each on one host.

    `transport`: the hosts. `sources`: one for every partition. `sizes`: how much work each partition is: partitions are
    spread so that hosts have about the same. `homes`: the hosts of some partitions, where these are already. `closes`:
    whether closing the cluster closes the transport. `moves`: partitions that were loaded again because their host was
    lost. `journal`: what :meth:`recall` records to.
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
        self._name = uuid.uuid4().hex[:8]  # hosts may have partitions of other fleets
        self._home: dict[int, Any] = {}
        self._given = dict(homes or {})
        self._ready: set[int] = set()  # partitions whose objects are up to date
        self._groups: dict[int, ActorGroup] = {}
        self._made = self._losses = 0
        self._looked: float | None = None  # time of the last search for hosts after a loss
        self.moves = 0
        self.journal: Recorder | None = None
        self._settle()

    @property
    def n_partitions(self) -> int:
        return len(self._sources)

    def partition_name(self, partition: int) -> str:
        """Name of a partition for messages; its number where its source has no name."""
        return str(getattr(self._sources[partition], "name", f"partition {partition}"))

    @property
    def is_here(self) -> bool:
        """Whether all partitions are in this process, so that a call costs no trip."""
        return bool(getattr(self._transport, "is_here", False))

    def make(self, factory: Factory, *shared: Any, own: Own = None, threads: int = 1) -> ActorGroup:
        """An object beside every partition: ``factory(data, threads, *own[partition], *shared)``."""
        self._prepare()
        self._made += 1
        arguments = [((() if own is None else own[partition]) + shared) for partition in range(self.n_partitions)]
        actors = self._groups[self._made] = ActorGroup(self, self._made, factory, arguments, threads)
        if not self._send(range(self.n_partitions), lambda partitions: self._making(actors, partitions)):
            self._settle()  # which makes the new actors's objects, too
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
    ) -> dict[int, Any]:
        """Call a method of a actors's objects; results by partition, or by the partitions that hold sums."""
        self._prepare()
        results: dict[int, Any] = {}
        waiting = set(range(self.n_partitions))
        while waiting:
            pending = []
            for host, partitions in self._by_host(waiting):
                calls = self._calls(method, own, partitions)
                call = self._start(host, "call", self._key(actors.number), calls, shared, summed=summed)
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
        return results

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """The result of ``compute``, or the one recorded at this point before the driver was interrupted.

        The journal is replayed by running the driver again: it gets every recorded result without computing it, so no
        other state is saved, and the same bits follow. Hence ``compute`` must depend only on the data and on earlier
        recalls, and a driver changes groups afterwards, from the arrays, never inside ``compute``.
        """
        if self.journal is not None:
            return self.journal.recall(compute)
        # In C order with and without a journal: matrix products in another order have other bits.
        return {name: np.asarray(array, order="C") for name, array in compute().items()}

    def forget(self, actors: ActorGroup) -> None:
        if self._groups.pop(actors.number, None) is not None:
            drop = self._key(actors.number)
            self._send(
                range(self.n_partitions),
                lambda partitions: [("drop", (drop, self._key(partition))) for partition in partitions],
            )

    def loads(self) -> dict[int, int]:
        """How often each partition was loaded by the current hosts."""
        counts: dict[int, int] = {}
        for host in dict.fromkeys(self._home.values()):
            for (name, partition), times in self._start(host, "loads").result().items():
                if name == self._name:
                    counts[partition] = counts.get(partition, 0) + times
        return counts

    def close(self) -> None:
        """Forget the partitions, and close the hosts if this cluster owns them."""
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

    def _by_host(self, partitions: Iterable[int]) -> list[tuple[Any, list[int]]]:
        partitions_of: dict[Any, list[int]] = {}
        for partition in sorted(partitions):
            partitions_of.setdefault(self._home[partition], []).append(partition)
        return list(partitions_of.items())

    def _prepare(self) -> None:
        """Before a call: use hosts that joined after a loss, and finish what an error interrupted."""
        if self._looked is not None and time.monotonic() - self._looked >= _LOOK:
            self._spread()
        if len(self._ready) < self.n_partitions:
            self._settle()

    def _spread(self) -> None:
        """Move partitions from the hosts that have most to hosts that have none."""
        self._looked = time.monotonic()
        hosts = list(self._transport.hosts())
        load = self._loads_of(hosts)
        for idle in [host for host in hosts if not load[host]]:
            self._looked = None
            while True:
                busy = max(hosts, key=lambda host: load[host])
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

    def _loads_of(self, hosts: Sequence[Any]) -> dict[Any, int]:
        return {
            host: sum(self._sizes[partition] for partition, home in self._home.items() if home == host)
            for host in hosts
        }

    def _settle(self) -> set[int]:
        """Place every partition without a host, rebuild the objects beside it there; returns the partitions that
        moved."""
        moved: set[int] = set()
        while True:
            hosts = list(self._transport.hosts())
            lost = [partition for partition in range(self.n_partitions) if self._home.get(partition) not in hosts]
            self._ready.difference_update(lost)
            self._count_losses([partition for partition in lost if partition in self._home])
            load = self._loads_of(hosts)
            for partition in sorted(lost, key=lambda number: (-self._sizes[number], number)):
                chosen = self._given.pop(partition, None)
                self._home[partition] = chosen if chosen in hosts else min(hosts, key=lambda host: load[host])
                load[self._home[partition]] += self._sizes[partition]
            unready = [partition for partition in range(self.n_partitions) if partition not in self._ready]
            if not unready:
                return moved
            moved.update(unready)
            if self._hand_over(unready) and self._send(unready, self._rebuilding):
                self._ready.update(unready)

    def _hand_over(self, partitions: Sequence[int]) -> bool:
        """Let sources that can hand their partition to its host do so; False if a host was lost."""
        moving = [partition for partition in partitions if hasattr(self._sources[partition], "bring")]
        try:
            for step in ("bring", "arrive"):
                for partition in moving:
                    getattr(self._sources[partition], step)(self._home[partition])
        except WorkerLost:
            return False
        return True

    def _count_losses(self, partitions: Sequence[int]) -> None:
        self.moves += len(partitions)
        if partitions:
            self._losses, self._looked = self._losses + 1, time.monotonic()
        if self._losses > _MOST_LOSSES:
            numbers = ", ".join(str(partition) for partition in partitions[:5]) + (", …" if len(partitions) > 5 else "")
            problem = (
                f"workers were lost {self._losses} times in a row, the last one with the partitions {numbers} (from 0)"
            )
            raise InputError(
                f"{problem}; expected workers with enough memory for their partitions, or smaller partitions"
            )

    def _send(self, partitions: Iterable[int], calls_of: Callable[[list[int]], list[Call]]) -> bool:
        """Send each host the calls for its partitions in one message; False if a host was lost."""
        pending = [self._start(host, "several", calls_of(hosted)) for host, hosted in self._by_host(partitions)]
        complete = True
        for call in pending:
            try:
                call.result()
            except WorkerLost:
                complete = False
        return complete

    def _start(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        try:
            return self._transport.start(host, method, *arguments, **options)
        except WorkerLost:
            return _Lost()


class _Lost:
    def result(self) -> Any:
        raise WorkerLost


class ActorGroup:
    """Objects of one kind, one beside every partition."""

    only = None  # see `rankwright.data.places.Actors`

    def __init__(
        self, cluster: Cluster, number: int, factory: Factory, arguments: Sequence[tuple[Any, ...]], threads: int
    ) -> None:
        self._cluster, self.number = cluster, number
        self.factory, self.arguments, self.threads = factory, arguments, threads
        self.changes: list[tuple[str, tuple[Any, ...], Own]] = []

    def ask(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes nothing; results in the order of the partitions."""
        results = self._cluster.call(self, method, shared, own)
        return [results[partition] for partition in range(self._cluster.n_partitions)]

    def tell(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes the objects; the call is repeated where an object has to be rebuilt.

        The arguments are kept for this, so the caller must not change them.
        """
        results = self._cluster.call(self, method, shared, own, changes=True)
        self.changes.append((method, shared, own))
        return [results[partition] for partition in range(self._cluster.n_partitions)]

    def note(self, method: str, *shared: Any) -> None:
        """Defer a change to the next call, which applies it where it is missing: no trip of its own."""
        self.changes.append((method, shared, None))

    def total(self, method: str, *shared: Any, own: Own = None) -> Any:
        """Call a method that changes nothing and returns integers; their sum over all partitions."""
        results = self._cluster.call(self, method, shared, own, summed=True)
        return add_up([results[partition] for partition in sorted(results)])

    def close(self) -> None:
        self._cluster.forget(self)
