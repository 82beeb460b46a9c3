"""Makes numba's simulator several times as fast, and safe with many switches between threads."""

import sys
import threading
from contextlib import contextmanager

import numpy as np

from rankwright.gpu import card


def hurry():
    """Let threads switch often: those that wait for others hold them up otherwise. Nothing on a real card."""
    if card.is_simulated():
        from numba.cuda.simulator import kernel, kernelapi

        lock = threading.Lock()
        kernelapi.FakeCUDAShared.array = _shared_array(lock)
        kernel.swapped_cuda_module = _swapped(lock)
        sys.setswitchinterval(1e-5)


def _shared_array(lock):
    """The simulator's own gives two threads two arrays if they ask at the same time."""
    from numba.cuda.np import numpy_support

    def array(self, shape, dtype, alignment=None):
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        dtype = np.dtype(dtype) if isinstance(dtype, type | np.dtype) else numpy_support.as_dtype(dtype)
        with lock:
            if shape == 0:
                return self._dynshared[: self._dynshared_size // dtype.itemsize * dtype.itemsize].view(dtype)
            if place not in self._allocations:
                self._allocations[place] = np.empty(shape, dtype)
            return self._allocations[place]

    return array


def _swapped(lock):
    """The simulator's own puts the module ``cuda`` back when the first thread leaves a function of another file."""
    from numba import cuda

    inside = {}

    @contextmanager
    def swapped(function, fake):
        names = function.__globals__
        with lock:
            many, real = inside.get(id(names), (0, None))
            if not many:
                real = {name: value for name, value in names.items() if value is cuda}
                names.update(dict.fromkeys(real, fake))
            inside[id(names)] = (many + 1, real)
        try:
            yield
        finally:
            with lock:
                many, real = inside[id(names)]
                inside[id(names)] = (many - 1, real)
                if many == 1:
                    names.update(real)

    return swapped
