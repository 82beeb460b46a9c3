"""The code that runs beside the data: a host loads parts, keeps objects beside each of them, and calls their methods.

One host in this process, one in every worker process, one on every Dask worker: the code is the same, and what it
computes depends on the part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Call", "Factory", "Host", "Key", "Source", "add_up"]

Factory = Callable[..., Any]  # (data, threads, *arguments) -> object; pickled by name
Call = tuple[str, tuple[Any, ...]]  # the name of a method, and its arguments
Key = tuple[str, int]  # the name of a fleet, and the number of one of its parts, or of its crews


class Source(Protocol):
    """The origin of a part; travels to the host that loads it.

    A source may also have ``bring(host)`` and ``arrive(host)``, called before the host loads: the first starts to send
    the part there, the second waits for it.
    """

    def load(self) -> Any:
        """The part as RankingData, with features left in their file where possible."""


class Host:
    """Parts, and objects beside them.

    Parameters
    ----------
    threads : int, optional
        Threads for every object; default: what it is made with.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._data: dict[Key, Any] = {}
        self._objects: dict[tuple[Key, Key], Any] = {}
        self._loads: dict[Key, int] = {}

    def load(self, part: Key, source: Source) -> None:
        if part not in self._data:
            self._data[part] = source.load()
            self._loads[part] = self._loads.get(part, 0) + 1

    def loads(self) -> dict[Key, int]:
        """How often each part was loaded here."""
        return dict(self._loads)

    def make(self, crew: Key, part: Key, factory: Factory, threads: int, arguments: tuple[Any, ...]) -> None:
        self.drop(crew, part)
        self._objects[crew, part] = factory(self._data[part], self._threads or threads, *arguments)

    def call(
        self, crew: Key, calls: Mapping[Key, Call], shared: tuple[Any, ...] = (), *, summed: bool = False
    ) -> dict[Key, Any]:
        """Call a method of the crew's object beside each of some parts; ``shared`` arguments come after its own.

        With ``summed`` the results are integers of which only the sum is needed; it is returned under the lowest part.
        """
        results: dict[Key, Any] = {}
        for part in sorted(calls):
            method, arguments = calls[part]
            result = getattr(self._objects[crew, part], method)(*arguments, *shared)
            if summed and results:
                first = next(iter(results))
                results[first] = add_up([results[first], result])
            else:
                results[part] = result
        return results

    def several(self, calls: Sequence[Call]) -> None:
        """Several calls in one message, in order."""
        for method, arguments in calls:
            getattr(self, method)(*arguments)

    def drop(self, crew: Key, part: Key) -> None:
        dropped = self._objects.pop((crew, part), None)
        if hasattr(dropped, "close"):
            dropped.close()

    def unload(self, part: Key) -> None:
        """Forget a part, and the objects beside it."""
        for crew in [crew for crew, beside in self._objects if beside == part]:
            self.drop(crew, part)
        self._data.pop(part, None)

    def leave(self, fleet: str) -> None:
        for part in [part for part in self._data if part[0] == fleet]:
            self.unload(part)

    def close(self) -> None:
        for crew, part in list(self._objects):
            self.drop(crew, part)
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
        raise TypeError("only whole numbers are summed where the parts are: other sums depend on their order")
    return total
