"""What runs where the parts are: a host loads parts, keeps objects beside each of them, and calls their methods.

One host in this process, one in every worker process, one on every Dask worker: the code is the same, and what it
computes depends on the part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Call", "Factory", "Host", "Source", "add_up"]

Factory = Callable[..., Any]  # (data, threads, *arguments) -> object; found by its name wherever it runs
Call = tuple[str, tuple[Any, ...]]  # the name of a method, and its arguments


class Source(Protocol):
    """Where a part comes from; travels to the host that loads it."""

    def load(self) -> Any:
        """The part: a RankingData, features left in their file where that is possible."""


class Host:
    """Parts, and objects beside them.

    Parameters
    ----------
    threads : int, optional
        Threads for every object; default: what it is made with.

    Attributes
    ----------
    loads : dict
        How often each part was loaded.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._data: dict[int, Any] = {}
        self._objects: dict[tuple[int, int], Any] = {}
        self.loads: dict[int, int] = {}

    def load(self, part: int, source: Source) -> None:
        """Load a part, unless it is here."""
        if part not in self._data:
            self._data[part] = source.load()
            self.loads[part] = self.loads.get(part, 0) + 1

    def make(self, crew: int, part: int, factory: Factory, threads: int, arguments: tuple[Any, ...]) -> None:
        """Put an object of a crew beside a part."""
        self.drop(crew, part)
        self._objects[crew, part] = factory(self._data[part], self._threads or threads, *arguments)

    def call(
        self, crew: int, calls: Mapping[int, Call], shared: tuple[Any, ...] = (), *, summed: bool = False
    ) -> dict[int, Any]:
        """Call a method of the crew's object beside each of some parts; ``shared`` arguments come after its own.

        With ``summed`` the results are whole numbers, of which only the sum is asked for: it comes under the lowest
        part.
        """
        found: dict[int, Any] = {}
        for part in sorted(calls):
            method, own = calls[part]
            result = getattr(self._objects[crew, part], method)(*own, *shared)
            if summed and found:
                first = next(iter(found))
                found[first] = add_up([found[first], result])
            else:
                found[part] = result
        return found

    def drop(self, crew: int, part: int) -> None:
        """Forget an object."""
        gone = self._objects.pop((crew, part), None)
        if hasattr(gone, "close"):
            gone.close()

    def close(self) -> None:
        """Forget all objects and parts."""
        for crew, part in list(self._objects):
            self.drop(crew, part)
        self._data.clear()


def add_up(results: Sequence[Any]) -> Any:
    """The sum of whole numbers, of arrays of them, or of tuples of such: the same in any order.

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
