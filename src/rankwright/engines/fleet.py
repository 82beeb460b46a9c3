"""Parts of a data set over some hosts, and crews: one object beside every part.

A crew's objects are made from their part and given arguments, and are changed by calls that are remembered. So what was
lost with a host is made again, bit for bit, on another one: the part is loaded there, the objects are made, and the
calls that changed them are repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rankwright.engines.host import Call, Factory, Source, add_up

__all__ = ["Crew", "Fleet", "HostLost", "Pending", "Transport"]


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
    """

    def __init__(self, transport: Transport, sources: Sequence[Source], sizes: Sequence[int]) -> None:
        self._transport = transport
        self._sources, self._sizes = list(sources), list(sizes)
        self._home: dict[int, Any] = {}
        self._ready: set[int] = set()  # parts whose objects are as they should be
        self._crews: dict[int, Crew] = {}
        self._made = 0
        self.moves = 0  # parts that were loaded again because their host was lost
        self._settle()

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._sources)

    def make(
        self, factory: Factory, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None, threads: int = 1
    ) -> Crew:
        """An object beside every part: ``factory(data, threads, *own[part], *shared)``."""
        self._made += 1
        arguments = [((() if own is None else own[part]) + shared) for part in range(self.n_parts)]
        crew = Crew(self, self._made, factory, arguments, threads)
        self._crews[self._made] = crew
        self._each(lambda part: ("make", (crew.number, part, factory, threads, arguments[part])), range(self.n_parts))
        return crew

    def call(
        self, crew: Crew, method: str, shared: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None, summed: bool
    ) -> dict[int, Any]:
        """Call a method of a crew's objects; results by part, or by the parts that stand for sums."""
        found: dict[int, Any] = {}
        left = set(range(self.n_parts))
        while left:
            pending = []
            for host, parts in self._by_host(left):
                calls: dict[int, Call] = {part: (method, () if own is None else own[part]) for part in parts}
                pending.append((parts, self._transport.start(host, "call", crew.number, calls, shared, summed=summed)))
            for parts, call in pending:
                try:
                    found |= call.result()
                    left.difference_update(parts)
                except HostLost:
                    continue
            if left:
                self._settle()
        return found

    def forget(self, crew: Crew) -> None:
        """Drop a crew's objects."""
        if self._crews.pop(crew.number, None) is not None:
            for host, parts in self._by_host(range(self.n_parts)):
                for part in parts:
                    try:
                        self._transport.start(host, "drop", crew.number, part).result()
                    except HostLost:
                        break

    def close(self) -> None:
        """Forget the parts and give back the hosts."""
        self._transport.close()

    def _by_host(self, parts: Iterable[int]) -> list[tuple[Any, list[int]]]:
        found: dict[Any, list[int]] = {}
        for part in sorted(parts):
            found.setdefault(self._home[part], []).append(part)
        return list(found.items())

    def _settle(self) -> None:
        """Give every part without a host to one, and make there what crews had beside it."""
        while True:
            hosts = list(self._transport.hosts())
            lost = [part for part in range(self.n_parts) if self._home.get(part) not in hosts]
            self._ready.difference_update(lost)
            self.moves += sum(part in self._home for part in lost)
            load = {host: sum(self._sizes[part] for part, at in self._home.items() if at == host) for host in hosts}
            for part in sorted(lost, key=lambda one: (-self._sizes[one], one)):
                self._home[part] = min(hosts, key=lambda host: load[host])
                load[self._home[part]] += self._sizes[part]
            left = [part for part in range(self.n_parts) if part not in self._ready]
            if not left:
                return
            if self._rebuild(left):
                self._ready.update(left)

    def _rebuild(self, parts: Sequence[int]) -> bool:
        """Load parts at their new homes and repeat what made and changed the objects there; False if one was lost."""
        try:
            self._each(lambda part: ("load", (part, self._sources[part])), parts, may_settle=False)
            for crew in list(self._crews.values()):
                made = crew.making
                self._each(
                    lambda part, made=made: ("make", (made[0], part, made[1], made[2], made[3][part])),
                    parts,
                    may_settle=False,
                )
                for method, shared, own in crew.changes:
                    self._each(
                        lambda part, crew=crew, method=method, shared=shared, own=own: (
                            "call",
                            (crew.number, {part: (method, () if own is None else own[part])}, shared),
                        ),
                        parts,
                        may_settle=False,
                    )
        except HostLost:
            return False
        return True

    def _each(self, call_of: Any, parts: Iterable[int], may_settle: bool = True) -> None:
        """Call something for each part at its home; with ``may_settle``, parts of lost hosts are rebuilt elsewhere."""
        pending = []
        for part in parts:
            method, arguments = call_of(part)
            pending.append(self._transport.start(self._home[part], method, *arguments))
        lost = False
        for call in pending:
            try:
                call.result()
            except HostLost:
                lost = True
        if lost and not may_settle:
            raise HostLost
        if lost:
            self._settle()  # which also makes the new crew's objects


class Crew:
    """Objects of one kind, one beside every part."""

    def __init__(
        self, fleet: Fleet, number: int, factory: Factory, arguments: Sequence[tuple[Any, ...]], threads: int
    ) -> None:
        self._fleet, self.number = fleet, number
        self.making = (number, factory, threads, arguments)
        self.changes: list[tuple[str, tuple[Any, ...], Sequence[tuple[Any, ...]] | None]] = []

    def ask(self, method: str, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method that changes nothing; results in the order of the parts."""
        found = self._fleet.call(self, method, shared, own, summed=False)
        return [found[part] for part in range(self._fleet.n_parts)]

    def tell(self, method: str, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method that changes the objects: it is repeated where an object has to be made again."""
        results = self.ask(method, *shared, own=own)
        self.changes.append((method, shared, own))
        return results

    def total(self, method: str, *shared: Any, own: Sequence[tuple[Any, ...]] | None = None) -> Any:
        """Call a method that changes nothing and gives whole numbers; their sum over all parts."""
        found: Mapping[int, Any] = self._fleet.call(self, method, shared, own, summed=True)
        return add_up([found[part] for part in sorted(found)])

    def close(self) -> None:
        """Drop the objects."""
        self._fleet.forget(self)
