"""Parts of a data set over some hosts, and crews: one object beside every part.

A crew's objects are made from their part and given arguments, and are changed by calls that are remembered. So what was
lost with a host is made again, bit for bit, on another one: the part is loaded there, the objects are made, and the
calls that changed them are repeated.
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
_LOOK = 5.0  # seconds between two looks for hosts that take the place of lost ones


class HostLost(Exception):
    """A host is gone, with all that it had."""


class Pending(Protocol):
    """A call under way."""

    def result(self) -> Any:
        """Wait for the result; raises HostLost if the host is gone, else what the call raised."""


class Transport(Protocol):
    """How hosts are reached."""

    def hosts(self) -> Sequence[Any]:
        """The hosts there are now, at least one; new ones may come, lost ones are not among them."""

    def start(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        """Call a method of a :class:`~rankwright.engines.host.Host`, without waiting for the result."""

    def close(self) -> None:
        """Give back what was started."""


class Recorder(Protocol):
    """Results that outlive this process, in order."""

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """The next result that is recorded, else what ``compute`` gives, which is recorded."""


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
        self._ready: set[int] = set()  # parts whose objects are as they should be
        self._crews: dict[int, Crew] = {}
        self._made = self._losses = 0
        self._looked: float | None = None  # when hosts were last looked for, after a loss
        self.moves = 0
        self.journal: Recorder | None = None
        self._settle()

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._sources)

    def part_name(self, part: int) -> str:
        """The name of a part, for messages; its number where its source has none."""
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
        if not self._sent(range(self.n_parts), lambda parts: self._making(crew, parts)):
            self._settle()  # which makes the new crew's objects, too
        return crew

    def call(
        self, crew: Crew, method: str, shared: tuple[Any, ...], own: Own, *, summed: bool = False, changes: bool = False
    ) -> dict[int, Any]:
        """Call a method of a crew's objects; results by part, or by the parts that stand for sums."""
        self._prepare()
        found: dict[int, Any] = {}
        left = set(range(self.n_parts))
        while left:
            pending = []
            for host, parts in self._by_host(left):
                calls = self._calls(method, own, parts)
                call = self._started(host, "call", self._key(crew.number), calls, shared, summed=summed)
                pending.append((parts, call))
            for parts, call in pending:
                try:
                    found |= {part: result for (_, part), result in call.result().items()}
                except HostLost:
                    continue
                left.difference_update(parts)
            if left:
                moved = self._settle()
                if changes:  # a part that moved after its answer was made again without this change
                    left |= moved
        self._losses = 0
        return found

    def recall(self, compute: Callable[[], Arrays]) -> dict[str, npt.NDArray[Any]]:
        """What ``compute`` gives, or has given at this point before the driver was interrupted.

        With a journal, a driver that runs again gets every result that was recorded without computing it, so it comes
        to where it was, and from there to the same bits. For that, ``compute`` must depend on nothing but the data and
        the results of earlier recalls, and what follows must not depend on what it tells crews: a driver tells them
        afterwards, from the arrays.
        """
        if self.journal is not None:
            return self.journal.recall(compute)
        # In the order of a journal's arrays: products of matrices in another order have other bits.
        return {name: np.asarray(array, order="C") for name, array in compute().items()}

    def forget(self, crew: Crew) -> None:
        """Drop a crew's objects."""
        if self._crews.pop(crew.number, None) is not None:
            drop = self._key(crew.number)
            self._sent(range(self.n_parts), lambda parts: [("drop", (drop, self._key(part))) for part in parts])

    def loads(self) -> dict[int, int]:
        """How often each part was loaded, by the hosts that there are."""
        found: dict[int, int] = {}
        for host in dict.fromkeys(self._home.values()):
            for (name, part), times in self._started(host, "loads").result().items():
                if name == self._name:
                    found[part] = found.get(part, 0) + times
        return found

    def close(self) -> None:
        """Forget the parts, and give back the hosts if they are this fleet's."""
        self._crews.clear()
        if self._closes:
            self._transport.close()
        else:
            self._sent(range(self.n_parts), lambda _: [("leave", (self._name,))])

    def _key(self, number: int) -> Key:
        return self._name, number

    def _calls(self, method: str, own: Own, parts: Iterable[int]) -> dict[Key, Call]:
        return {self._key(part): (method, () if own is None else own[part]) for part in parts}

    def _making(self, crew: Crew, parts: Iterable[int]) -> list[Call]:
        made = (crew.factory, crew.threads)
        return [("make", (self._key(crew.number), self._key(part), *made, crew.arguments[part])) for part in parts]

    def _rebuilding(self, parts: Sequence[int]) -> list[Call]:
        """Load parts, and repeat what made and changed the objects beside them."""
        calls: list[Call] = [("load", (self._key(part), self._sources[part])) for part in parts]
        for crew in self._crews.values():
            calls += self._making(crew, parts)
            for method, shared, own in crew.changes:
                calls.append(("call", (self._key(crew.number), self._calls(method, own, parts), shared)))
        return calls

    def _by_host(self, parts: Iterable[int]) -> list[tuple[Any, list[int]]]:
        found: dict[Any, list[int]] = {}
        for part in sorted(parts):
            found.setdefault(self._home[part], []).append(part)
        return list(found.items())

    def _prepare(self) -> None:
        """Before a call: use hosts that came after a loss, and finish what an error interrupted."""
        if self._looked is not None and time.monotonic() - self._looked >= _LOOK:
            self._spread()
        if len(self._ready) < self.n_parts:
            self._settle()

    def _spread(self) -> None:
        """Give hosts that have no part some of those that have most."""
        self._looked = time.monotonic()
        hosts = list(self._transport.hosts())
        load = self._loads_of(hosts)
        for idle in [host for host in hosts if not load[host]]:
            self._looked = None
            while True:
                busy = max(hosts, key=lambda host: load[host])
                own = [part for part, at in self._home.items() if at == busy]
                fitting = [part for part in own if load[idle] + self._sizes[part] < load[busy]]
                if not fitting:
                    break
                part = max(fitting, key=lambda one: (self._sizes[one], -one))
                with suppress(HostLost):
                    self._started(busy, "unload", self._key(part)).result()
                self._home[part] = idle
                self._ready.discard(part)
                load[busy] -= self._sizes[part]
                load[idle] += self._sizes[part]

    def _loads_of(self, hosts: Sequence[Any]) -> dict[Any, int]:
        return {host: sum(self._sizes[part] for part, at in self._home.items() if at == host) for host in hosts}

    def _settle(self) -> set[int]:
        """Give every part without a host to one, and make there what crews had beside it; the parts that moved."""
        moved: set[int] = set()
        while True:
            hosts = list(self._transport.hosts())
            lost = [part for part in range(self.n_parts) if self._home.get(part) not in hosts]
            self._ready.difference_update(lost)
            self._count_losses([part for part in lost if part in self._home])
            load = self._loads_of(hosts)
            for part in sorted(lost, key=lambda one: (-self._sizes[one], one)):
                given = self._given.pop(part, None)
                self._home[part] = given if given in hosts else min(hosts, key=lambda host: load[host])
                load[self._home[part]] += self._sizes[part]
            left = [part for part in range(self.n_parts) if part not in self._ready]
            if not left:
                return moved
            moved.update(left)
            if self._brought(left) and self._sent(left, self._rebuilding):
                self._ready.update(left)

    def _brought(self, parts: Sequence[int]) -> bool:
        """Let sources that can bring their part to its host do so; whether no host was lost."""
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
            which = ", ".join(str(part) for part in parts[:5]) + (", …" if len(parts) > 5 else "")
            what = f"workers were lost {self._losses} times in a row, the last one with the parts {which} (from 0)"
            raise InputError(f"{what}; expected workers with enough memory for their parts, or smaller parts")

    def _sent(self, parts: Iterable[int], calls_of: Callable[[list[int]], list[Call]]) -> bool:
        """Send each host some calls for its parts, in one message; whether no host was lost."""
        pending = [self._started(host, "several", calls_of(own)) for host, own in self._by_host(parts)]
        whole = True
        for call in pending:
            try:
                call.result()
            except HostLost:
                whole = False
        return whole

    def _started(self, host: Any, method: str, *arguments: Any, **options: Any) -> Pending:
        try:
            return self._transport.start(host, method, *arguments, **options)
        except HostLost:
            return _Lost()


class _Lost:
    def result(self) -> Any:
        raise HostLost


class Crew:
    """Objects of one kind, one beside every part."""

    def __init__(
        self, fleet: Fleet, number: int, factory: Factory, arguments: Sequence[tuple[Any, ...]], threads: int
    ) -> None:
        self._fleet, self.number = fleet, number
        self.factory, self.arguments, self.threads = factory, arguments, threads
        self.changes: list[tuple[str, tuple[Any, ...], Own]] = []

    def ask(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes nothing; results in the order of the parts."""
        found = self._fleet.call(self, method, shared, own)
        return [found[part] for part in range(self._fleet.n_parts)]

    def tell(self, method: str, *shared: Any, own: Own = None) -> list[Any]:
        """Call a method that changes the objects: it is repeated where an object has to be made again.

        The arguments are kept for that, so the caller must not change them.
        """
        found = self._fleet.call(self, method, shared, own, changes=True)
        self.changes.append((method, shared, own))
        return [found[part] for part in range(self._fleet.n_parts)]

    def note(self, method: str, *shared: Any) -> None:
        """Remember a change that the next call makes where it was not made: it then needs no trip of its own."""
        self.changes.append((method, shared, None))

    def total(self, method: str, *shared: Any, own: Own = None) -> Any:
        """Call a method that changes nothing and gives whole numbers; their sum over all parts."""
        found = self._fleet.call(self, method, shared, own, summed=True)
        return add_up([found[part] for part in sorted(found)])

    def close(self) -> None:
        """Drop the objects."""
        self._fleet.forget(self)
