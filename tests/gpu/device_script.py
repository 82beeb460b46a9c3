"""On the device: arrays there and back, and a kernel."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse
from numba import cuda

from rankwright.gpu import device
from rankwright.gpu.device import Recorded


@cuda.jit
def _double(values):
    at = cuda.grid(1)
    if at < values.size:
        values[at] *= 2.0


@cuda.jit
def _count(values, by):
    at = cuda.grid(1)
    if at < values.size:
        values[at] += by[0]


def recorded():
    """Two arrays to which 1 and 10 are added in turn, by launches that are repeated and by others."""
    first, second, one, ten = (
        device.upload(np.full(n, value)) for n, value in ((5, 0.0), (5, 0.0), (1, 1.0), (1, 10.0))
    )
    launches = Recorded(lambda stream, values, by: _count[device.blocks(1), 8, stream](values, by))
    for values, by in [(first, one)] * 4 + [(second, one)] * 3 + [(first, ten)] * 3 + [(first, one)]:
        launches(values, by)
    launches.close()
    launches(second, ten)
    return np.stack([first.copy_to_host(), second.copy_to_host()])


def together():
    """The same from several threads."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda _: recorded(), range(64)))


def main(given):
    device.check_device()
    values = device.upload(given["values"])
    flat = values.reshape(given["values"].size)
    _double[4, 32](flat)
    zeros = device.zeros((2, 3), np.float32)
    large, rows = given["large"], given["rows"]
    known = {"large": device.upload(large).copy_to_host()}
    device._copy_locked = lambda one, other: False  # as for memory that cannot be locked
    known["in pieces"] = device.upload(large).copy_to_host()
    for name, X in (("rows", large), ("sparse rows", scipy.sparse.csr_array(large))):
        there = cuda.device_array((len(rows), large.shape[1]), large.dtype)
        known[name] = device.upload_rows(X, rows, there).copy_to_host()
    return known | {
        "doubled": values.copy_to_host(),
        "zeros": zeros.copy_to_host(),
        "free": np.array(device.free_bytes()),
        "recorded": np.stack([recorded()] if device.is_simulated() else together()),
    }
