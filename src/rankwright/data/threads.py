"""Threads and processes: the meaning of ``n_jobs``, the same everywhere; workers that do not outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from rankwright.errors import InputError

__all__ = ["Team", "end_with_parent", "parts_of", "runs_of", "threads_of"]

_RUNS_A_THREAD = 4  # one slow run delays the others by a quarter of their time at most


def threads_of(n_jobs: int | None) -> int:
    """The number of threads for ``n_jobs``: 1 for None, all cores for -1.

    Examples
    --------
    >>> threads_of(None), threads_of(3)
    (1, 3)
    """
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(f"n_jobs is {n_jobs!r}; expected a number of threads, -1 for all cores, or None")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


class Team:
    """A pool of threads that includes the caller's."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def each(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Results of calling a function with the arguments of each task, in order; free threads take the next one."""
        tasks = list(tasks)
        if self._pool is None or len(tasks) < 2:
            return [function(*task) for task in tasks]
        results: list[Any] = [None] * len(tasks)
        numbers = iter(range(len(tasks)))

        def work() -> None:
            for number in numbers:
                results[number] = function(*tasks[number])

        helpers = min(self.threads, len(tasks)) - 1
        futures = [self._pool.submit(work) for _ in range(helpers)]
        try:
            work()
        finally:
            wait(futures)
        for future in futures:
            future.result()  # or its error
        return results

    def close(self) -> None:
        """Shut down the other threads; the caller's does any later work."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def parts_of(n: int, parts: int) -> list[tuple[int, int]]:
    """0 … n cut into nearly equal ranges (start, stop).

    Examples
    --------
    >>> parts_of(17, 3)
    [(0, 5), (5, 11), (11, 17)]
    """
    return [(n * number // parts, n * (number + 1) // parts) for number in range(parts)]


def runs_of(boundaries: Any, threads: int, least: int) -> list[tuple[int, int]]:
    """Runs of queries, as (first, stop), of about equal numbers of documents (``least`` or more), a few per thread.

    ``boundaries`` are those of the queries. Each further run costs a thread the interpreter's lock twice.

    Examples
    --------
    >>> runs_of([0, 10, 20, 30, 40], 2, 10)
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    >>> runs_of([0, 10, 20, 30, 40], 2, 25), runs_of([0, 10, 20, 30, 40], 1, 10)
    ([(0, 4)], [(0, 4)])
    """
    n = int(boundaries[-1])
    n_runs = max(1, min(n // least, _RUNS_A_THREAD * threads)) if threads > 1 else 1
    cuts = np.unique(np.searchsorted(boundaries, np.linspace(0, n, n_runs + 1)))
    return list(pairwise(cuts.tolist()))


def end_with_parent() -> None:
    """End this process as soon as its parent ends, however that happens."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
