"""Threads and processes: the meaning of ``n_jobs``, the same everywhere; workers that do not outlive their parent."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess

import numpy as np

from rankwright.errors import InputError

__all__ = ["end_with_parent", "threads_of"]


def threads_of(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` asks for: 1 for None, all cores for -1.

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


def end_with_parent() -> None:
    """End this process, at once, when the one that started it ends, however that ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
