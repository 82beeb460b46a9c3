"""Prefetching in threads: neither results nor their order depend on the threads.

An error is raised where its item would have come, after all items before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["map_ahead", "read_ahead"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_END: Any = object()


def read_ahead(items: Iterator[Item], n_ahead: int) -> Generator[Item, None, None]:
    """The same items, up to ``n_ahead`` of them prefetched by another thread.

    Examples
    --------
    >>> list(read_ahead(iter("abc"), 2))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, _END) for _ in range(n_ahead))
        try:
            while (item := waiting.popleft().result()) is not _END:
                waiting.append(pool.submit(next, items, _END))
                yield item
        finally:
            _cancel(waiting)


def map_ahead(
    function: Callable[[Item], Result], items: Iterator[Item], threads: int, n_ahead: int
) -> Generator[Result, None, None]:
    """``function`` of every item, in order; threads compute up to ``n_ahead`` results besides the one in use.

    With one thread nothing is computed ahead.

    Examples
    --------
    >>> list(map_ahead(str.upper, iter("abc"), 2, 3))
    ['A', 'B', 'C']
    """
    if threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    is_open = True
    with ThreadPoolExecutor(threads) as pool:
        try:
            while is_open or waiting:
                while is_open and len(waiting) < n_ahead:
                    try:
                        item = next(items, _END)
                    except Exception as error:
                        failed: Future[Result] = Future()
                        failed.set_exception(error)
                        waiting.append(failed)
                        is_open = False
                        break
                    if item is _END:
                        is_open = False
                    else:
                        waiting.append(pool.submit(function, item))
                if waiting:
                    yield waiting.popleft().result()
        finally:
            _cancel(waiting)


def _cancel(waiting: deque[Future[Any]]) -> None:
    for future in waiting:
        future.cancel()
