"""Makes numba's simulator several times as fast, and safe with many switches between threads."""

import sys
import threading

import numpy as np

from rankwright.gpu import card


def hurry():
    """Let threads switch often: those that wait for others hold them up otherwise. Nothing on a real card."""
    if not card.is_simulated():
        return
    from numba.cuda.np import numpy_support
    from numba.cuda.simulator import kernelapi

    lock = threading.Lock()

    def array(self, shape, dtype, alignment=None):
        """As the simulator's, which gives two threads two arrays if they ask at the same time."""
        caller = sys._getframe(1)
        place = (caller.f_code.co_filename, caller.f_lineno)
        dtype = np.dtype(dtype) if isinstance(dtype, type | np.dtype) else numpy_support.as_dtype(dtype)
        with lock:
            if shape == 0:
                return self._dynshared[: self._dynshared_size // dtype.itemsize * dtype.itemsize].view(dtype)
            if place not in self._allocations:
                self._allocations[place] = np.empty(shape, dtype)
            return self._allocations[place]

    kernelapi.FakeCUDAShared.array = array
    sys.setswitchinterval(1e-5)
