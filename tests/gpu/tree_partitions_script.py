"""On the device: sums over a part of the data, of which all, some or nothing stays there; and a training by them."""

import warnings

import numpy as np

from rankwright import LambdaMART
from rankwright.boosting.partitions import BinLayout, Cuts, Units
from rankwright.data.threads import Team
from rankwright.gpu import device
from rankwright.gpu.trees import partitions as parts
from rankwright.gpu.trees import partitions as pieces
from rankwright.gpu.trees import rows

NODES = ("feature", "threshold", "missing_left", "left", "value", "count")


def asked(part, given):
    """Everything that a grower asks a part for."""
    tables = given["tables"].astype(bool)
    n = len(given["gradients"])
    part.begin(given["rows"].astype(np.uint32), given["gradients"], given["hessians"], Units(*given["units"].tolist()))
    found = dict(enumerate(part.sums(np.zeros(1, np.int32), np.array([5], np.uint64), float(given["share"]))))
    part.divide(Cuts.of([0], [1], [int(given["features"][0])], [tables[0]]))
    part.divide(Cuts.of([0, 2], [1, 3], given["features"].tolist(), list(tables)))
    nodes, salts = np.array([1, 4], np.int32), np.array([7, 1 << 63], np.uint64)
    found |= {f"both {at}": own for at, own in enumerate(part.sums(nodes, salts, float(given["share"])))}
    sizes, words, pairs, keys = part.gather_rows(nodes)
    order = np.concatenate([start + np.argsort(keys[start : start + n]) for start, n in _runs(sizes)])
    found |= {"sizes": sizes, "words": words[:, order], "pairs": pairs[order], "keys": keys[order]}
    scores = np.zeros(n)
    part.add(np.array([1, 3, 4]), np.array([0.5, -1.0, 2.0]), scores)
    part.place(np.arange(n, dtype=np.uint32))
    part.divide(Cuts.of([0, 2], [1, 3], given["features"].tolist(), list(tables)))
    part.add(np.array([1, 3, 4]), np.array([0.5, -1.0, 2.0]), scores)
    return found | {"scores": scores}


def _runs(sizes):
    return zip(np.cumsum(sizes) - sizes, sizes, strict=True)


def trained(given, device, **settings):
    """A training over parts of one place."""
    ranker = LambdaMART(1, max_leaves=3, min_rows=3, randomize_nodes=0.8, device=device, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of code that is not compiled in the simulator
        ranker._has_room = lambda data: False
        return ranker.fit(given["X"], given["y"], given["q"]).model_.forest


def main(given):
    found, X, order = {}, given["X"], given["order"]
    ends = tuple(given["ends"][j, : given["sizes"][j]] for j in range(X.shape[1]))
    layout = BinLayout(np.array([len(own) + 1 for own in ends]))
    free = device.free_bytes
    of_bins = 16 * -(-X.shape[1] // 16)
    of_row = of_bins + pieces.OF_ROW
    pieces._BLOCK_BYTES, pieces._LEAST = 20 * of_bins, 16  # some blocks on a real device, too
    for name, room in (("all", free()), ("some", 85 * of_row), ("nothing", 0)):
        device.free_bytes = parts.device.free_bytes = lambda room=room: int(room / parts._SHARE) + 1
        rows.have_room = lambda *sizes: True
        part = parts.DeviceNodeRows(X, order, ends, layout, given["keys"], Team(1))
        found[f"{name} stays"] = np.array([block.stays for block in part._blocks])
        found |= {f"{name} {key}": value for key, value in asked(part, given).items()}
    device.free_bytes = parts.device.free_bytes = free
    if not device.is_simulated():  # splits of all parts are found by compiled code
        forest = trained(given, "cuda")
        found |= {f"forest {name}": getattr(forest, name) for name in NODES}
    return found
