"""On the device: lambda gradients."""

import numpy as np
from numba import cuda

from rankwright.gpu import device
from rankwright.gpu import lambdas as lambda_kernels
from rankwright.gpu.lambdas import CpuLambdas, DeviceLambdas
from rankwright.measures import parse_measure


class Doubled:
    """Gradients that are computed on the CPU."""

    def evaluate(self, scores):
        return 2.0 * scores, scores + 1.0

    def close(self):
        pass


def hosted():
    """Such gradients for scores on the device: asked twice, they are where they were."""
    lambdas, scores = CpuLambdas(Doubled()), cuda.to_device(np.arange(3.0))
    first = lambdas.evaluate(scores)
    scores.copy_to_device(np.arange(3.0) + 1.0)
    second = lambdas.evaluate(scores)
    lambdas.close()
    assert all(one is other for one, other in zip(first, second, strict=True))
    return {f"hosted_{kind}": part.copy_to_host() for kind, part in enumerate(second)}


def main(given):
    found = hosted()
    for case, name in enumerate(given["measures"]):
        if device.is_simulated():  # code compiled for a GPU is kept on disk, for others than tests, too
            lambda_kernels._COUNTED = 1024 if case % 2 else 5  # longer queries are sorted
        labels, scores = (
            given["labels"] if given["graded"][case] else (given["labels"] > 0) * 1.0,
            given["scores"][case],
        )
        measure, truncation = parse_measure(str(name)).resolve("letor"), int(given["truncations"][case]) or None
        settings = {"nearness": float(given["nearness"][case]), "normalize": bool(case % 2)}
        lambdas = DeviceLambdas(
            labels, given["indptr"], measure, truncation, query_weights=given["weights"], **settings
        )
        on_device = cuda.to_device(scores)
        for time in range(2):
            parts = lambdas.evaluate(on_device)
            found |= {f"{case}_{kind}_{time}": part.copy_to_host() for kind, part in enumerate(parts)}
        lambdas.close()
    return found
