"""The GPU: detection, memory, and transfer of arrays.

Nothing here is imported unless ``device="cuda"`` was asked for. Arrays travel from page-locked memory, several times as
fast as from ordinary memory: their own memory, locked during the copy, or, where it cannot be locked (mapped files),
buffers that several threads fill.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.data import sparse
from rankwright.errors import InputError

NEEDED = "device is 'cuda', but "
"""How the error begins that says why there is no GPU."""
_PIECE = 1 << 24  # bytes of a page-locked buffer
_SMALL = 1 << 22  # bytes: smaller arrays go directly
_LINE = 1 << 12  # bytes copied as one row
_THREADS = 8  # threads that fill buffers
_LEAST_GRID = 128
_SPARE = 1 << 29  # bytes of the device left free


def check_device() -> None:
    """Raise a one-line error if there is no usable GPU."""
    problem = _problem()
    if problem:
        raise InputError(f"{NEEDED}{problem}")


@cache
def _problem() -> str:
    """Why the device cannot be used; empty if it can."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda is not installed; expected it, by: pip install 'rankwright[gpu]'"
    if is_simulated():
        return ""
    try:
        from numba import cuda  # numba-cuda fails to load where CUDA's libraries are missing

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
    from numba import cuda

    device_name = "simulated" if is_simulated() else cuda.get_current_device().name
    return device_name.decode() if isinstance(device_name, bytes) else str(device_name)


def multiprocessors() -> int:
    """A lower bound for the number of blocks that run at a time."""
    from numba import cuda

    return 2 if is_simulated() else int(cuda.get_current_device().MULTIPROCESSOR_COUNT)


def free_bytes() -> int:
    from numba import cuda

    if is_simulated():
        return 1 << 30
    return max(0, int(cuda.current_context().get_memory_info()[0]) - _SPARE)


def zeros(shape: Any, dtype: type) -> Any:
    from numba import cuda

    if is_simulated():
        return cuda.to_device(np.zeros(shape, dtype))
    array = cuda.device_array(shape, dtype)
    if array.size:
        cuda.cudadrv.driver.device_memset(array, 0, array.nbytes)
    return array


Fill = Callable[[slice, Array], None]  # writes some rows as bytes to a buffer


class _Staging:
    """Page-locked buffers, a pair for each of the threads that fill them; one array travels at a time."""

    def __init__(self) -> None:
        from numba import cuda

        self._lock = threading.Lock()
        self._buffers = [[cuda.pinned_array(_PIECE, np.uint8) for _ in range(2)] for _ in range(_THREADS)]
        self._streams = [[cuda.stream() for _ in range(2)] for _ in range(_THREADS)]
        self._pool = ThreadPoolExecutor(_THREADS)

    def send(self, fill: Fill, taken: Any) -> None:
        """Fill an array of the device with rows of bytes; every thread fills its own pieces."""
        with self._lock:
            list(self._pool.map(partial(self._pieces, fill, taken), range(_THREADS)))

    def _pieces(self, fill: Fill, taken: Any, thread: int) -> None:
        at, (n, width) = 0, taken.shape
        step = max(1, min(_PIECE // width, -(-n // (2 * _THREADS))))
        for first in range(thread * step, n, _THREADS * step):
            piece = slice(first, min(first + step, n))
            buffer, stream = self._buffers[thread][at], self._streams[thread][at]
            stream.synchronize()  # until the device has read the buffer
            staged = buffer[: (piece.stop - first) * width].reshape(-1, width)
            fill(piece, staged)
            taken[piece].copy_to_device(staged, stream=stream)
            at = 1 - at
        for stream in self._streams[thread]:
            stream.synchronize()


_staging = cache(_Staging)


def upload(array: Array, into: Any = None) -> Any:
    """A copy on the device, in C order, written to ``into`` if given."""
    from numba import cuda

    array = np.ascontiguousarray(array)
    target = cuda.device_array(array.shape, array.dtype) if into is None else into
    if not array.size:
        return target
    if is_simulated() or array.nbytes <= _SMALL:
        target.copy_to_device(array)
        return target
    source, destination = array.reshape(-1).view(np.uint8), target.reshape(array.size).view(np.uint8)
    if not _copy_locked(source, destination):
        lines, rest = source[: len(source) // _LINE * _LINE].reshape(-1, _LINE), len(source) // _LINE * _LINE
        _staging().send(lambda some, own: np.copyto(own, lines[some]), destination[:rest].reshape(lines.shape))
        if rest < len(source):
            destination[rest:].copy_to_device(source[rest:])
    return target


def upload_rows(X: Any, rows: Array, into: Array) -> Any:
    """Upload rows of a dense or sparse matrix, gathered in page-locked memory."""
    is_sparse, (n, d), width = sparse.issparse(X), into.shape, into.shape[1] * into.dtype.itemsize

    def fill(piece: slice, staged: Array) -> None:
        place = staged.view(X.dtype)
        if is_sparse:
            X[rows[piece]].toarray(out=place)
        else:
            np.take(X, rows[piece], axis=0, out=place, mode="clip")

    if is_simulated() or not n or not 0 < width <= _PIECE:
        gathered = np.empty((n, d), X.dtype)
        fill(slice(0, n), gathered.view(np.uint8) if gathered.size else gathered)
        return upload(gathered, into)
    _staging().send(fill, into.reshape(n * d).view(np.uint8).reshape(n, width))
    return into


def download(array: Any) -> Array:
    """A copy of a device array, which may be empty."""
    return np.asarray(array.copy_to_host()) if array.size else np.empty(array.shape, array.dtype)


def _copy_locked(given: Array, taken: Any) -> bool:
    """Lock the pages of an array in place and copy it; False where memory cannot be locked."""
    from numba import cuda

    # Memory that may be written to, for the driver.
    memory: Any = (ctypes.c_uint8 * given.nbytes).from_address(given.ctypes.data)
    try:
        with cuda.pinned(np.frombuffer(memory, np.uint8)):
            taken.copy_to_device(given)
    except Exception:  # already locked, or not lockable: drivers refuse with various errors
        return False
    return True


def blocks(wanted: int) -> int:
    """A grid of at least ``wanted`` blocks: numba warns of small ones, so kernels must skip blocks without work."""
    return wanted if is_simulated() else max(wanted, _LEAST_GRID)


# Repeated launches, recorded as one CUDA graph: numba needs 80 µs per launch, a replay a few.


class Recorded:
    """Makes launches on the device; repeats with the same arguments replay a CUDA graph.

    `launch`: ``launch(stream, *given)`` launches kernels, always the same ones for the same arguments, without waiting.
    It must not belong to an object that keeps this one: device arrays would live until that cycle is collected.
    """

    def __init__(self, launch: Callable[..., None]) -> None:
        self._launch, self._graph = launch, None
        self._given: tuple[Any, ...] | None = None

    def __call__(self, *given: Any) -> None:
        """Make the launches; the recording holds for the same argument objects only."""
        recorded = self._given is not None and all(new is old for new, old in zip(given, self._given, strict=True))
        if is_simulated() or not recorded:
            self.close()
            self._given = given
            self._launch(0, *given)  # the first call compiles kernels, which cannot happen while recording
            return
        from numba.cuda.cudadrv.driver import binding as driver

        if self._graph is None:
            self._graph = self._record(driver)
        _checked(driver.cuGraphLaunch(self._graph, driver.CUstream(0)))

    def _record(self, driver: Any) -> Any:
        from numba import cuda

        assert self._given is not None
        # A stream that the default one does not wait for: other threads may launch meanwhile.
        handle = _checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        _checked(driver.cuStreamBeginCapture(handle, relaxed))
        try:
            self._launch(cuda.external_stream(int(handle)), *self._given)
        finally:
            graph = _checked(driver.cuStreamEndCapture(handle))
            _checked(driver.cuStreamDestroy(handle))
        executable = _checked(driver.cuGraphInstantiate(graph, 0))
        _checked(driver.cuGraphDestroy(graph))
        return executable

    def close(self) -> None:
        self._given = None
        if self._graph is not None:
            from numba.cuda.cudadrv.driver import binding as driver

            _checked(driver.cuGraphExecDestroy(self._graph))
            self._graph = None


def _checked(result: Any) -> Any:
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"the GPU's driver failed: {status!r}")
    return values[0] if values else None
