"""On the card: lambda gradients."""

from numba import cuda

from rankwright.gpu import lambda_kernels
from rankwright.gpu.lambdas import CardLambdas
from rankwright.measures import parse_measure


def main(given):
    found = {}
    for case, name in enumerate(given["measures"]):
        lambda_kernels._COUNTED = (
            1024 if case % 2 else 5
        )  # longer queries are sorted (in the simulator; else as they are)
        labels, scores = (
            given["labels"] if given["graded"][case] else (given["labels"] > 0) * 1.0,
            given["scores"][case],
        )
        measure, truncation = parse_measure(str(name)).resolve("letor"), int(given["truncations"][case]) or None
        settings = {"nearness": float(given["nearness"][case]), "normalize": bool(case % 2)}
        lambdas = CardLambdas(labels, given["indptr"], measure, truncation, query_weights=given["weights"], **settings)
        on_card = cuda.to_device(scores)
        for time in range(2):
            parts = lambdas.evaluate(on_card)
            found |= {f"{case}_{kind}_{time}": part.copy_to_host() for kind, part in enumerate(parts)}
        lambdas.close()
    return found
