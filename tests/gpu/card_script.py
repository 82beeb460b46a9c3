"""On the card: arrays there and back, and a kernel."""

import numpy as np
import scipy.sparse
from numba import cuda

from rankwright.gpu import card


@cuda.jit
def _double(values):
    at = cuda.grid(1)
    if at < values.size:
        values[at] *= 2.0


def main(given):
    card.check_card()
    values = card.upload(given["values"])
    flat = values.reshape(given["values"].size)
    _double[4, 32](flat)
    zeros = card.zeros((2, 3), np.float32)
    large, rows = given["large"], given["rows"]
    known = {"large": card.upload(large).copy_to_host()}
    card._sent_locked = lambda one, other: False  # as for memory that cannot be locked
    known["in pieces"] = card.upload(large).copy_to_host()
    for name, X in (("rows", large), ("sparse rows", scipy.sparse.csr_array(large))):
        there = cuda.device_array((len(rows), large.shape[1]), large.dtype)
        known[name] = card.upload_rows(X, rows, there).copy_to_host()
    return known | {
        "doubled": values.copy_to_host(),
        "zeros": zeros.copy_to_host(),
        "free": np.array(card.free_bytes()),
    }
