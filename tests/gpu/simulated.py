"""Makes numba's simulator several times as fast, and safe with many switches between threads."""

import sys
import threading
from contextlib import contextmanager

import numpy as np

from rankwright.gpu import device


def hurry():
    """Let threads that wait for others sleep, and the others switch often. Nothing on a real device."""
    if device.is_simulated():
        from numba.cuda.simulator import kernel, kernelapi

        lock = threading.Lock()
        kernelapi.FakeCUDAShared.array = _shared_array(lock)
        kernel.swapped_cuda_module = _swapped(lock)
        _wait_without_polling(kernel)
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


class _Meeting:
    """Where the threads of a block wait for each other; those that have ended are not waited for."""

    def __init__(self, threads):
        self._condition, self._there, self._threads, self._times = threading.Condition(), 0, threads, 0

    def wait(self):
        with self._condition:
            now = self._times
            self._there += 1
            self._go_on()
            self._condition.wait_for(lambda: self._times != now)

    def leave(self):
        with self._condition:
            self._threads -= 1
            self._go_on()

    def _go_on(self):
        if self._there == self._threads:
            self._there, self._times = 0, self._times + 1
            self._condition.notify_all()


def _wait_without_polling(kernel):
    """The simulator's own asks all threads of a block again and again whether they wait."""
    run_thread = kernel.BlockThread.run

    def run(self):
        try:
            run_thread(self)
        finally:
            self.meeting.leave()

    def run_block(self, grid_point, *args):
        places = list(np.ndindex(*self._block_dim))
        meeting = _Meeting(len(places))
        threads = [kernel.BlockThread(lambda: self._f(*args), self, grid_point, place, self._debug) for place in places]
        for thread in threads:
            thread.meeting = meeting
            thread.start()
        for thread in threads:
            thread.join()
        for thread in threads:
            if thread.exception:
                raise thread.exception[0].with_traceback(thread.exception[1])

    kernel.BlockThread.run, kernel.BlockManager.run = run, run_block
    kernel.BlockThread.syncthreads = lambda self: self.meeting.wait()
