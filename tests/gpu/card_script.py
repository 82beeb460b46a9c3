"""On the card: arrays there and back, and a kernel."""

import numpy as np
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
    return {"doubled": values.copy_to_host(), "zeros": zeros.copy_to_host(), "free": np.array(card.free_bytes())}
