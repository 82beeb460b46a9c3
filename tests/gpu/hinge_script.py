"""On the device: every loss, asked as a solver would."""

from hinge_cases import NAMES, asked, labels_of, oracle_of

from rankwright.gpu.device import upload
from rankwright.gpu.training import Arranged, CudaHinge


def main(given):
    found = {}
    for name in NAMES:
        arranged = Arranged(upload(given["X"]), upload(given["rows"]), given["indptr"])
        labels = upload(labels_of(name, given["grades"]))
        hinge = CudaHinge(
            arranged, range(arranged.n_docs), labels, given["indptr"], oracle_of(name), given["cost"], given["scale"],
            given["blocks"],
        )  # fmt: skip
        for twice in range(2 if name == "map" else 1):
            values = asked(hinge, given["weights"][:, : hinge.n_features])
            hinge.rescale(0.5)
            found |= {f"{name}{' again' * twice}/{key}": value for key, value in values.items()}
    return found
