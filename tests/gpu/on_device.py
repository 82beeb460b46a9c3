"""Runs a script on the GPU if there is one, else in numba's simulator: kernels get small data, and give arrays back.

In the simulator nothing may be compiled, so a script has a process of its own; what it is compared with is computed by
the caller, with compiled code. On a GPU, scripts run under the command in RANKWRIGHT_UNDER, such as
``compute-sanitizer --tool racecheck --error-exitcode 9``.
"""

import os
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


@cache
def has_gpu():
    """Whether the tests run for real."""
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:
        return False


def run_on_device(script, folder, **given):
    """The arrays that ``main(given)`` of a script in this folder returns, by name."""
    np.savez(folder / "given.npz", **given)
    simulated = {} if has_gpu() else {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = (
        "import sys, numpy, importlib, simulated; simulated.hurry(); given = dict(numpy.load(sys.argv[2])); "
        "found = importlib.import_module(sys.argv[1]).main(given); numpy.savez(sys.argv[3], **found)"
    )
    under = shlex.split(os.environ.get("RANKWRIGHT_UNDER", "")) if has_gpu() else []
    command = [*under, sys.executable, "-c", code, script, folder / "given.npz", folder / "found.npz"]
    done = subprocess.run(
        command, env=os.environ | simulated | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    with np.load(folder / "found.npz") as found:
        return dict(found)
