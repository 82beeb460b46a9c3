"""On the device: bins, trees for given gradients, and scores by a forest."""

import numpy as np
from numba import cuda

from rankwright.boosting.forest import Forest
from rankwright.boosting.tree_model import TreeModel
from rankwright.gpu.scoring import DeviceForest, model_scores
from rankwright.gpu.trees.grower import DeviceGrower, DeviceTrees, binned
from rankwright.gpu.trees.rows import bin_on_device

NODES = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")


def main(given):
    X, order = given["X"], given["order"]
    found = {}
    for case, settings in enumerate(given["cases"]):
        newton, tree_rows, tree_features, node_share, n_trees, categories, ways = settings
        counts = {4: int(categories)} if categories else None
        bins = bin_on_device(X, int(given["max_bins"]), 0, 1, order, counts)
        found |= {f"{case}_codes": bins.codes.copy_to_host(), f"{case}_varies": bins.varies}
        shares = {"tree_rows": tree_rows, "tree_features": tree_features, "node_share": node_share}
        directions = {0: 1, 1: -1} if ways else None
        grower = DeviceGrower(bins, max_leaves=int(given["max_leaves"]), min_rows=5, directions=directions, **shares)
        learner = DeviceTrees(grower, shrinkage=0.1, newton=bool(newton), seed=1, valid=binned(bins, [X[:9]]))
        gradients, weights = cuda.to_device(given["gradients"]), cuda.to_device(given["weights"])
        scores, valid_scores = cuda.to_device(np.zeros(len(order))), np.ones(9)
        for _ in range(int(n_trees)):
            learner.fit(gradients, weights, scores)
            learner.add_last(valid_scores)
        learner.close()
        forest = Forest.of(learner.trees)
        found |= {f"{case}_{name}": getattr(forest, name) for name in NODES}
        found |= {f"{case}_scores": scores.copy_to_host(), f"{case}_valid": valid_scores}
        for dtype in (np.float32, np.float64):
            found[f"{case}_by_{np.dtype(dtype)}"] = DeviceForest(forest, dtype).score(given["rows"].astype(dtype))
        if not categories:
            model = TreeModel(5, tuple("abcde"), forest)
            found[f"{case}_by_model"] = model_scores(model, given["rows"][:, ::-1], list("edcba"))
    return found
