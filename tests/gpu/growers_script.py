"""On the device: trees grown there, and the sums of a partition there that were asked for elsewhere."""

import numpy as np
from numba import cuda

from rankwright.boosting.partitions import BinLayout, Cuts, Units
from rankwright.data.threads import Team
from rankwright.gpu.trees.grower import DeviceGrower, DeviceTrees
from rankwright.gpu.trees.partitions import DeviceNodeRows
from rankwright.gpu.trees.rows import bin_on_device

TREE = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")


def grown(given, newton, features, share, n_categories, ways):
    """A tree of which everything is decided on the device."""
    counts = {4: int(n_categories)} if n_categories else None
    bins = bin_on_device(given["X"], int(given["max_bins"]), 0, 1, given["order"], counts)
    grower = DeviceGrower(
        bins,
        max_leaves=int(given["max_leaves"]),
        min_rows=int(given["min_rows"]),
        node_share=share,
        directions={0: 1, 1: -1} if ways else None,
        tree_features=features,
    )
    learner = DeviceTrees(grower, shrinkage=0.1, newton=bool(newton), seed=1)
    there = [cuda.to_device(given[name]) for name in ("gradients", "weights")]
    learner.fit(*there, cuda.to_device(np.zeros(len(given["order"]))))
    learner.close()
    return learner.trees[0]


def answers(given, case, share, ends):
    """What a partition on the device answers to the requests that were made of one on the CPU."""
    n, layout = len(given["order"]), BinLayout(np.array([len(own) + 1 for own in ends]))
    keys = np.arange(n, dtype=np.uint64) if share < 1.0 else np.empty(0, np.uint64)
    part = DeviceNodeRows(given["X"], given["order"], ends, layout, keys, Team(1))
    units = Units(*given[f"{case} units"].tolist())
    part.begin(np.arange(n, dtype=np.uint32), given["gradients"], given["weights"], units)
    for at in range(int(given[f"{case} requests"])):
        cuts = Cuts(*(given[f"{case} {at} {name}"] for name in ("nodes", "lefts", "features", "tables")))
        part.divide(cuts)
        yield part.sums(given[f"{case} {at} asked"], given[f"{case} {at} salts"], share)


def main(given):
    found = {}
    for case, settings in enumerate(given["cases"]):
        tree = grown(given, *settings)
        found |= {f"{case} {name}": getattr(tree, name) for name in TREE}
        if f"{case} requests" in given:
            ends = tuple(given[f"{case} ends {j}"] for j in range(given["X"].shape[1]))
            for at, sums in enumerate(answers(given, case, float(settings[2]), ends)):
                found |= {f"{case} {at} {kind}": own for kind, own in enumerate(sums)}
    return found
