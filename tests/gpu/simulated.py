"""Makes numba's simulator many times as fast, with threads that take turns as a seed decides.

The simulator starts a thread of the operating system for each thread of a block. Here they are greenlets: a thread runs
until it waits for its block, or pauses before it writes to an array that others see. So a barrier left out, or a sum
without an atomic function, shows in the results, and shows again when the test is run again.
"""

import random
import sys
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
from greenlet import getcurrent, greenlet

from rankwright.gpu import device

PAUSES = 0.02
"""The share of writes before which the others of a block go on."""


def hurry():
    """Run the threads of a block in turns. Nothing on a real device."""
    if device.is_simulated():
        from numba.cuda.simulator import kernel, kernelapi

        kernelapi.threading = SimpleNamespace(current_thread=getcurrent)
        for name in [name for name in vars(kernelapi) if name.endswith("lock")]:
            setattr(kernelapi, name, _ATOMIC)
        kernelapi.FakeCUDAShared.array = _shared_array
        kernel.swapped_cuda_module = _Swapped()
        kernel.FakeWithinKernelCUDAArray = lambda array: array._ary.view(_SeenByOthers)
        kernel.BlockManager.run = _run_block
        for name in ("syncthreads_count", "syncthreads_and", "syncthreads_or"):
            setattr(_Thread, name, getattr(kernel.BlockThread, name))


class _Atomic:
    """While an atomic function holds this, nobody pauses."""

    held = False

    def __enter__(self):
        self.held = True

    def __exit__(self, *_):
        self.held = False


_ATOMIC = _Atomic()
_DRAWN = random.Random(1)


class _SeenByOthers(np.ndarray):
    """An array of the device or of a block: before a thread writes to it, others may read and write."""

    def __setitem__(self, place, value):
        if not _ATOMIC.held and _DRAWN.random() < PAUSES:
            getcurrent().parent.switch(True)
        super().__setitem__(place, value)


class _Thread(greenlet):
    """A thread of a block, with the names by which a kernel asks who it is."""

    def __init__(self, block, grid_point, place):
        from numba.cuda.simulator.kernelapi import Dim3

        super().__init__(block._f)
        self._manager = block
        across, down, _ = block._block_dim
        self.blockIdx, self.threadIdx = Dim3(*grid_point), Dim3(*place)
        self.thread_id = place[0] + across * (place[1] + down * place[2])

    def syncthreads(self):
        self.parent.switch(False)


def _run_block(block, grid_point, *args):
    """All threads from barrier to barrier, each time in another order; those that have ended are not waited for."""
    there = [_Thread(block, grid_point, place) for place in np.ndindex(*block._block_dim)]
    while there:
        _DRAWN.shuffle(there)
        queue, there = deque(there), []
        while queue:
            thread = queue.popleft()
            pauses = thread.switch() if thread else thread.switch(*args)
            if not thread.dead:
                (queue if pauses else there).append(thread)


def _shared_array(self, shape, dtype, alignment=None):
    """One array for all threads of a block, by the line that asks: the simulator's own looks at the whole stack."""
    from numba.cuda.np import numpy_support

    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    if place not in self._allocations:
        dtype = np.dtype(dtype) if isinstance(dtype, type | np.dtype) else numpy_support.as_dtype(dtype)
        if shape == 0:
            found = self._dynshared[: self._dynshared_size // dtype.itemsize * dtype.itemsize].view(dtype)
        else:
            found = np.empty(shape, dtype)
        self._allocations[place] = found.view(_SeenByOthers)
    return self._allocations[place]


class _Swapped:
    """Gives modules the fake ``cuda`` until the kernel ends; the simulator's own swaps for each call of a function."""

    def __init__(self):
        self._real = {}

    def __call__(self, function, fake):
        names = function.__globals__
        if id(names) in self._real:
            return nullcontext()
        from numba import cuda

        starts = not self._real
        mine = [name for name, value in names.items() if value is cuda]
        self._real[id(names)] = (names, dict.fromkeys(mine, cuda))
        names.update(dict.fromkeys(mine, fake))
        return self if starts else nullcontext()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for names, real in self._real.values():
            names.update(real)
        self._real.clear()
