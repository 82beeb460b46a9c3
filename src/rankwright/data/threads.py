"""Threads and processes: the meaning of ``n_jobs``, the same everywhere; workers that do not outlive their parent."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array, Features
from rankwright.data import sparse
from rankwright.errors import InputError

_RUNS_A_THREAD = 4  # one slow run delays the others by a quarter of their time at most


def threads_of(n_jobs: int | None) -> int:
    """The number of threads for ``n_jobs``: 1 for None, all cores for -1."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(f"n_jobs is {n_jobs!r}; expected a number of threads, -1 for all cores, or None")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def usable_cores() -> int:
    """The cores that this process may use; all of them where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


def runs_of(boundaries: Array, threads: int, min_docs: int) -> list[tuple[int, int]]:
    """Runs of queries, as (first, stop), of about equal numbers of documents (``min_docs`` or more), a few per thread.

    ``boundaries`` are those of the queries. Each further run costs a thread the interpreter's lock twice.

    Examples
    --------
    >>> runs_of([0, 10, 20, 30, 40], 2, 10)
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    >>> runs_of([0, 10, 20, 30, 40], 2, 25), runs_of([0, 10, 20, 30, 40], 1, 10)
    ([(0, 4)], [(0, 4)])
    """
    n = int(boundaries[-1])
    n_runs = max(1, min(n // min_docs, _RUNS_A_THREAD * threads)) if threads > 1 else 1
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


# Memory left to this process, as far as the system reports it.


try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]


_STATUS, _SYSTEM, _GROUPS = Path("/proc/self/status"), Path("/proc/meminfo"), Path("/proc/self/cgroup")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes still available by the system, the limits of the process and its control group; None if unknown."""
    limits = [_entry(_SYSTEM, "MemAvailable:"), *_of_limits(), *_of_groups()]
    return min((max(0, free) for free in limits if free is not None), default=None)


def _of_limits() -> list[int | None]:
    if resource is None:
        return []
    free: list[int | None] = []
    for kind, used in (("RLIMIT_DATA", "VmData:"), ("RLIMIT_AS", "VmSize:")):
        limit = resource.getrlimit(getattr(resource, kind))[0] if hasattr(resource, kind) else resource.RLIM_INFINITY
        in_use = _entry(_STATUS, used)
        free.append(None if limit == resource.RLIM_INFINITY or in_use is None else limit - in_use)
    return free


def _of_groups() -> list[int | None]:
    """Memory left to the process by its control group, version 1 or 2; page cache counts as free."""
    free: list[int | None] = []
    for line in _text(_GROUPS).splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            folder, limit, used, files = _CGROUP / place.lstrip("/"), "memory.max", "memory.current", "file"
        elif "memory" in controllers.split(","):
            folder, files = _CGROUP / "memory" / place.lstrip("/"), "total_cache"
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        bound, in_use = _text(folder / limit).strip(), _text(folder / used).strip()
        if bound.isdecimal() and in_use.isdecimal():
            free.append(int(bound) - int(in_use) + (_entry(folder / "memory.stat", f"{files} ", 1) or 0))
    return free


def _entry(path: Path, name: str, unit: int = 1024) -> int | None:
    """The number on the line that starts with ``name``."""
    for line in _text(path).splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * unit
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


# Temporary arrays on disk: mapped files without a name, for what training derives from data larger than memory.
#
# The file is made beside its source data: that disk holds the features, so it has room of their order, while the folder
# for temporary files (`TMPDIR`) often is in memory and is only the fallback. The file is unlinked at once, so its room
# is freed with the array, however the process ends; and allocated in full, so that a full disk is an error and not a
# signal.


LARGE = 1 << 24  # arrays derived from mapped features go to disk from this many bytes


def beside(X: Features) -> Path | None:
    """The folder of the file that features are mapped from; None for features in memory."""
    base = X.data if sparse.issparse(X) else X
    while base is not None:
        if isinstance(base, np.memmap) and base.filename is not None:
            return Path(base.filename).parent
        base = getattr(base, "base", None)
    return None


def scratch(shape: tuple[int, ...], dtype: npt.DTypeLike, folder: Path | None) -> Array:
    """An uninitialised array: in memory, or, if it is large and a folder is given, in a file there."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if folder is None or size < LARGE:
        return np.empty(shape, kind)
    problem: OSError | None = None
    for parent in (folder, None):  # None: where temporary files go
        try:
            return np.frombuffer(_mapped(parent, size), kind).reshape(shape)
        except OSError as error:
            problem = error
    assert problem is not None
    text = f"a temporary file of {size / 1e6:,.0f} MB cannot be created in {folder} or the folder for temporary files"
    raise InputError(f"{text} ({problem.strerror or problem}); expected room there, or TMPDIR to name a folder with it")


def _mapped(folder: Path | None, size: int) -> mmap.mmap:
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # or a full disk would end the process while the map is written
        else:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)
