"""Parts of a data set over some hosts, and crews: one object beside every part.

A crew's objects are made from their part and some arguments, and changed by calls that are remembered. So what a lost
host held is rebuilt, bit for bit, on another one: load the part, make the objects, repeat the calls that changed them.
All recovery is here: a transport only starts calls and reports `HostLost`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rankwright.engines.host import Call, Factory, Key, Source, add_up
from rankwright.errors import InputError

__all__ = ["Crew", "Fleet", "HostLost", "Pending", "Recorder", "Transport"]

Arrays = Mapping[str, npt.NDArray[Any]]
Own = Sequence[tuple[Any, ...]] | None  # arguments of every part's own
_MOST_LOSSES = 5  # in a row
_LOOK = 5.0  # seconds between searches for hosts that replace lost ones


class HostLost(Exception):
    """A host is gone, with everything it held."""


class Pending(Protocol):
    """A pending call."""

    def result(self) -> Any:
        """Wait for the result; raises HostLost if the host is gone, else what the call raised."""


class Transport(Protocol):
    """Reaches hosts: starts calls on them and closes them."""

    def hosts(self) -> Sequence[Any]:
        """The current hosts, at least one; new ones may appear, lost ones are left out."""

    def start(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        """Call a method of a :class:`~rankwright.engines.host.Host`, without waiting for the result."""

    def close(self) -> None:
        """Release what was started."""


class Recorder(Protocol):
    """Results, in order, that outlive this process."""

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """The next recorded result; where there is none, the result of ``compute``, which is recorded."""


class Fleet:
    """Parts, each on one host.

    Parameters
    ----------
    transport : Transport
        The hosts.
    sources : sequence of Source
        One for every part.
    sizes : sequence of int
        How much work each part is: parts are spread so that hosts have about the same.
    homes : mapping, optional
        The hosts of some parts, where these are already.
    closes : bool
        Whether closing the fleet closes the transport.

    Attributes
    ----------
    moves : int
        Parts that were loaded again because their host was lost.
    journal : Recorder or None
        What :meth:`recall` records to.
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
        self._name = uuid.uuid4().hex[:8]  # hosts may have parts of other fleets
        self._home: dict[int, Any] = {}
        self._given = dict(homes or {})
        self._ready: set[int] = set()  # parts whose objects are up to date
        self._crews: dict[int, Crew] = {}
        self._made = self._losses = 0
        self._looked: float | None = None  # time of the last search for hosts after a loss
        self.moves = 0
        self.journal: Recorder | None = None
        self._settle()

    @property
    def n_parts(self) -> int:
        return len(self._sources)

    def part_name(self, part: int) -> str:
        """Name of a part for messages; its number where its source has no name."""
        return str(getattr(self._sources[part], "name", f"part {part}"))

    @property
    def is_here(self) -> bool:
        """Whether all parts are in this process, so that a call costs no trip."""
        return bool(getattr(self._transport, "is_here", False))

    def make(self, factory: Factory, *shared: Any, own: Own = None, threads: int = 1) -> Crew:
        """An object beside every part: ``factory(data, threads, *own[part], *shared)``."""
        self._prepare()
        self._made += 1
        arguments = [((() if own is None else own[part]) + shared) for part in range(self.n_parts)]
        crew = self._crews[self._made] = Crew(self, self._made, factory, arguments, threads)
        if not self._send(range(self.n_parts), lambda parts: self._making(crew, parts)):
            self._settle()  # which makes the new crew's objects, too
        return crew

    def call(
        self, crew: Crew, method: str, shared: tuple[Any, ...], own: Own, *, summed: bool = False, changes: bool = False
    ) -> dict[int, Any]:
        """Call a method of a crew's objects; results by part, or by the parts that hold sums."""
        self._prepare()
        results: dict[int, Any] = {}
        waiting = set(range(self.n_parts))
        while waiting:
            pending = []
            for host, parts in self._by_host(waiting):
                calls = self._calls(method, own, parts)
                call = self._start(host, "call", self._key(crew.number), calls, shared, summed=summed)
                pending.append((parts, call))
            for parts, call in pending:
                try:
                    results |= {part: result for (_, part), result in call.result().items()}
                except HostLost:
                    continue
                waiting.difference_update(parts)
            if waiting:
                moved = self._settle()
                if changes:  # a part that moved after its answer was rebuilt without this change
                    waiting |= moved
        self._losses = 0
        return results

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """The result of ``compute``, or the one recorded at this point before the driver was interrupted.

        The journal is replayed by running the driver again: it gets every recorded result without computing it, so no
        other state is saved, and the same bits follow. Hence ``compute`` must depend only on the data and on earlier
        recalls, and a driver changes crews afterwards, from the arrays, never inside ``compute``.
        """
        if self.journal is not None:
            return self.journal.recall(compute)
        # In C order with and without a journal: matrix products in another order have other bits.
        return {name: np.asarray(array, order="C") for name, array in compute().items()}

    def forget(self, crew: Crew) -> None:
        if self._crews.pop(crew.number, None) is not None:
            drop = self._key(crew.number)
            self._send(range(self.n_parts), lambda parts: [("drop", (drop, self._key(part))) for part in parts])

    def loads(self) -> dict[int, int]:
        """How often each part was loaded by the current hosts."""
        counts: dict[int, int] = {}
        for host in dict.fromkeys(self._home.values()):
            for (name, part), times in self._start(host, "loads").result().items():
                if name == self._name:
                    counts[part] = counts.get(part, 0) + times
        return counts

    def close(self) -> None:
        """Forget the parts, and close the hosts if this fleet owns them."""
        self._crews.clear()
        if self._closes:
            self._transport.close()
        else:
            self._send(range(self.n_parts), lambda _: [("leave", (self._name,))])

    def _key(self, number: int) -> Key:
        return self._name, number

    def _calls(self, method: str, own: Own, parts: Iterable[int]) -> dict[Key, Call]:
        return {self._key(part): (method, () if own is None else own[part]) for part in parts}

    def _making(self, crew: Crew, parts: Iterable[int]) -> list[Call]:
        made = (crew.factory, crew.threads)
        return [("make", (self._key(crew.number), self._key(part), *made, crew.arguments[part])) for part in parts]

    def _rebuilding(self, parts: Sequence[int]) -> list[Call]:
        """Load parts, and repeat the calls that made and changed the objects beside them."""
        calls: list[Call] = [("load", (self._key(part), self._sources[part])) for part in parts]
        for crew in self._crews.values():
            calls += self._making(crew, parts)
            for method, shared, own in crew.changes:
                calls.append(("call", (self._key(crew.number), self._calls(method, own, parts), shared)))
        return calls

    def _by_host(self, parts: Iterable[int]) -> list[tuple[Any, list[int]]]:
        parts_of: dict[Any, list[int]] = {}
        for part in sorted(parts):
            parts_of.setdefault(self._home[part], []).append(part)
        return list(parts_of.items())

    def _prepare(self) -> None:
        """Before a call: use hosts that joined after a loss, and finish what an error interrupted."""
        if self._looked is not None and time.monotonic() - self._looked >= _LOOK:
            self._spread()
        if len(self._ready) < self.n_parts:
            self._settle()

    def _spread(self) -> None:
        """Move parts from the hosts that have most to hosts that have none."""
        self._looked = time.monotonic()
        hosts = list(self._transport.hosts())
        load = self._loads_of(hosts)
        for idle in [host for host in hosts if not load[host]]:
            self._looked = None
            while True:
                busy = max(hosts, key=lambda host: load[host])
                stored = [part for part, home in self._home.items() if home == busy]
                fitting = [part for part in stored if load[idle] + self._sizes[part] < load[busy]]
                if not fitting:
                    break
                part = max(fitting, key=lambda candidate: (self._sizes[candidate], -candidate))
                with suppress(HostLost):
                    self._start(busy, "unload", self._key(part)).result()
                self._home[part] = idle
                self._ready.discard(part)
                load[busy] -= self._sizes[part]
                load[idle] += self._sizes[part]

    def _loads_of(self, hosts: Sequence[Any]) -> dict[Any, int]:
        return {host: sum(self._sizes[part] for part, home in self._home.items() if home == host) for host in hosts}

    def _settle(self) -> set[int]:
        """Place every part without a host, rebuild the objects beside it there; returns the parts that moved."""
        moved: set[int] = set()
        while True:
            hosts = list(self._transport.hosts())
            lost = [part for part in range(self.n_parts) if self._home.get(part) not in hosts]
            self._ready.difference_update(lost)
            self._count_losses([part for part in lost if part in self._home])
            load = self._loads_of(hosts)
            for part in sorted(lost, key=lambda number: (-self._sizes[number], number)):
                chosen = self._given.pop(part, None)
                self._home[part] = chosen if chosen in hosts else min(hosts, key=lambda host: load[host])
                load[self._home[part]] += self._sizes[part]
            unready = [part for part in range(self.n_parts) if part not in self._ready]
            if not unready:
                return moved
            moved.update(unready)
            if self._hand_over(unready) and self._send(unready, self._rebuilding):
                self._ready.update(unready)

    def _hand_over(self, parts: Sequence[int]) -> bool:
        """Let sources that can hand their part to its host do so; False if a host was lost."""
        moving = [part for part in parts if hasattr(self._sources[part], "bring")]
        try:
            for step in ("bring", "arrive"):
                for part in moving:
                    getattr(self._sources[part], step)(self._home[part])
        except HostLost:
            return False
        return True

    def _count_losses(self, parts: Sequence[int]) -> None:
        self.moves += len(parts)
        if parts:
            self._losses, self._looked = self._losses + 1, time.monotonic()
        if self._losses > _MOST_LOSSES:
            numbers = ", ".join(str(part) for part in parts[:5]) + (", …" if len(parts) > 5 else "")
            problem = f"workers were lost {self._losses} times in a row, the last one with the parts {numbers} (from 0)"
            raise InputError(f"{problem}; expected workers with enough memory for their parts, or smaller parts")

    def _send(self, parts: Iterable[int], calls_of: Callable[[list[int]], list[Call]]) -> bool:
        """Send each host the calls for its parts in one message; False if a host was lost."""
        pending = [self._start(host, "several", calls_of(hosted)) for host, hosted in self._by_host(parts)]
        complete = True
        for call in pending:
            try:
                call.result()
            except HostLost:
                complete = False
        return complete

    def _start(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        try:
            return self._transport.start(host, method, *arguments, **options)
        except HostLost:
            return _Lost()


class _Lost:
    def result(self) -> Any:
        raise HostLost


class Crew:
    """Objects of one kind, one beside every part."""

    only = None  # see `rankwright.data.places.Actors`

    def __init__(
        self, fleet: Fleet, number: int, factory: Factory, arguments: Sequence[tuple[Any, ...]], threads: int
    ) -> None:
        self._fleet, self.number = fleet, number
        self.factory, self.arguments, self.threads = factory, arguments, threads
        self.changes: list[tuple[str, tuple[Any, ...], Own]] = []

    def ask(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes nothing; results in the order of the parts."""
        results = self._fleet.call(self, method, shared, own)
        return [results[part] for part in range(self._fleet.n_parts)]

    def tell(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes the objects; the call is repeated where an object has to be rebuilt.

        The arguments are kept for this, so the caller must not change them.
        """
        results = self._fleet.call(self, method, shared, own, changes=True)
        self.changes.append((method, shared, own))
        return [results[part] for part in range(self._fleet.n_parts)]

    def note(self, method: str, *shared: Any) -> None:
        """Defer a change to the next call, which applies it where it is missing: no trip of its own."""
        self.changes.append((method, shared, None))

    def total(self, method: str, *shared: Any, own: Own = None) -> Any:
        """Call a method that changes nothing and returns integers; their sum over all parts."""
        results = self._fleet.call(self, method, shared, own, summed=True)
        return add_up([results[part] for part in sorted(results)])

    def close(self) -> None:
        self._fleet.forget(self)
