"""Runs a script on the GPU if there is one, else in numba's simulator: kernels get small data, and give arrays back.

In the simulator nothing may be compiled, so a script has a process of its own; what it is compared with is computed by
the caller, with compiled code. Simulated threads poll each other, so they must take turns quickly.
"""

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


@cache
def has_gpu():
    """Whether the tests run for real."""
    from numba import cuda

    try:
        return bool(cuda.is_available())
    except Exception:
        return False


def steady():
    """Let simulated threads take turns quickly, and have one shared array a line: asked at once, they would get two."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
        return
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    lock, plain = threading.Lock(), FakeCUDAShared.array

    def array(self, shape, dtype, alignment=None):
        if shape == 0:
            return plain(self, shape, dtype, alignment)
        frame = sys._getframe(1)
        key = frame.f_code.co_filename, frame.f_lineno
        with lock:
            if key not in self._allocations:
                self._allocations[key] = np.empty(shape, getattr(np, str(dtype), dtype))
            return self._allocations[key]

    FakeCUDAShared.array = array
    sys.setswitchinterval(1e-5)


def run_on_card(script, folder, **given):
    """The arrays that ``main(given)`` of a script in this folder returns, by name."""
    np.savez(folder / "given.npz", **given)
    simulated = {} if has_gpu() else {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = (
        "import sys, numpy, importlib, on_card; on_card.steady(); given = dict(numpy.load(sys.argv[2])); "
        "found = importlib.import_module(sys.argv[1]).main(given); numpy.savez(sys.argv[3], **found)"
    )
    command = [sys.executable, "-c", code, script, folder / "given.npz", folder / "found.npz"]
    done = subprocess.run(
        command, env=os.environ | simulated | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(folder / "found.npz") as found:
        return dict(found)
