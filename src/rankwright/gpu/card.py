"""The GPU: whether there is one, its memory, and arrays on their way to it.

Nothing here is imported unless ``device="cuda"`` was asked for. Arrays travel through page-locked buffers, which
several threads fill while the card reads others: several times as fast as from ordinary memory.
"""

from __future__ import annotations

import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.errors import InputError

__all__ = ["check_card", "free_bytes", "is_simulated", "multiprocessors", "name", "upload", "zeros"]

Array = npt.NDArray[Any]
_PIECE = 1 << 25  # bytes of a page-locked buffer
_BUFFERS = 4
_SMALL = 1 << 22  # bytes: smaller arrays go directly
_THREADS = 8  # that fill buffers
_SPARE = 1 << 29  # bytes of the card that are left alone


def check_card() -> None:
    """Raise an error of one line where there is no GPU that can be used.

    Examples
    --------
    >>> try:
    ...     check_card()
    ... except InputError as error:
    ...     found = str(error).startswith("device is 'cuda'")
    ... else:
    ...     found = True
    >>> found
    True
    """
    problem = _problem()
    if problem:
        raise InputError(f"device is 'cuda', but {problem}")


@cache
def _problem() -> str:
    """What keeps the card from being used; empty if nothing does."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed; expected it, by: pip install 'rankwright[gpu]'"
    from numba import cuda

    if is_simulated():
        return ""
    try:
        if cuda.is_available():
            cuda.current_context()
            return ""
        reason = "no NVIDIA GPU, or no driver for it, was found"
    except Exception as error:  # whatever the driver says
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return f"{reason}; expected a GPU, or device='cpu'"


def is_simulated() -> bool:
    """Whether kernels run in numba's simulator, thread by thread in Python."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") == "1"


def name() -> str:
    """What the card is called."""
    from numba import cuda

    found = "simulated" if is_simulated() else cuda.get_current_device().name
    return found.decode() if isinstance(found, bytes) else str(found)


def multiprocessors() -> int:
    """How many blocks of threads run at a time, at least."""
    from numba import cuda

    return 2 if is_simulated() else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def free_bytes() -> int:
    """Memory of the card that may still be used."""
    from numba import cuda

    if is_simulated():
        return 1 << 30
    return max(0, int(cuda.current_context().get_memory_info()[0]) - _SPARE)


def zeros(shape: Any, dtype: Any) -> Any:
    """An array of zeros on the card."""
    from numba import cuda

    return cuda.to_device(np.zeros(shape, dtype)) if is_simulated() else _filled(shape, dtype)


def _filled(shape: Any, dtype: Any) -> Any:
    from numba import cuda

    made = cuda.device_array(shape, dtype)
    if made.size:
        cuda.cudadrv.driver.device_memset(made, 0, made.nbytes)
    return made


def upload(array: Array, into: Any = None) -> Any:
    """A copy on the card, in C order; ``into`` takes it if given.

    Examples
    --------
    >>> upload(np.arange(6.0).reshape(2, 3)).copy_to_host()  # doctest: +SKIP
    array([[0., 1., 2.],
           [3., 4., 5.]])
    """
    from numba import cuda

    array = np.ascontiguousarray(array)
    target = cuda.device_array(array.shape, array.dtype) if into is None else into
    if not array.size:
        return target
    if is_simulated() or array.nbytes <= _SMALL:
        target.copy_to_device(array)
        return target
    given, taken = array.reshape(-1), target.reshape(array.size)
    step = _PIECE // array.dtype.itemsize
    buffers = [cuda.pinned_array(step, array.dtype) for _ in range(_BUFFERS)]
    streams = [cuda.stream() for _ in range(_BUFFERS)]
    with ThreadPoolExecutor(_THREADS) as pool:
        for at, first in enumerate(range(0, array.size, step)):
            piece, buffer, stream = given[first : first + step], buffers[at % _BUFFERS], streams[at % _BUFFERS]
            stream.synchronize()  # until the card has read what the buffer held
            cuts = [len(piece) * part // _THREADS for part in range(_THREADS + 1)]
            list(pool.map(lambda a, b, p=piece, t=buffer: np.copyto(t[a:b], p[a:b]), cuts[:-1], cuts[1:]))
            taken[first : first + len(piece)].copy_to_device(buffer[: len(piece)], stream=stream)
        for stream in streams:
            stream.synchronize()
    return target
