"""On the card: bins, trees for given residuals, and scores by a forest."""

import numpy as np
from numba import cuda

from rankwright.gpu.scoring import model_scores
from rankwright.gpu.tree_bins import bin_on_card
from rankwright.gpu.tree_learner import CardTrees
from rankwright.gpu.tree_scores import CardForest
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import TreeModel

NODES = ("feature", "threshold", "missing_left", "left", "value", "gain", "count")


def main(given):
    X, order = given["X"], given["order"]
    bins = bin_on_card(X, int(given["max_bins"]), 0, 1, order)
    found = {"codes": bins.codes.copy_to_host(), "varies": bins.varies}
    for case, (newton, tree_rows, tree_features, n_trees) in enumerate(given["cases"]):
        settings = {"newton": bool(newton), "tree_rows": tree_rows, "tree_features": tree_features}
        learner = CardTrees(
            bins, max_leaves=int(given["max_leaves"]), min_rows=5, shrinkage=0.1, seed=1, X_valid=[X[:9]], **settings
        )
        residuals, weights = cuda.to_device(given["residuals"]), cuda.to_device(given["weights"])
        scores, valid_scores = cuda.to_device(np.zeros(len(order))), np.ones(9)
        for _ in range(int(n_trees)):
            learner.fit(residuals, weights, scores)
            learner.add_last(valid_scores)
        learner.close()
        forest = Forest.of(learner.trees)
        found |= {f"{case}_{name}": getattr(forest, name) for name in NODES}
        found |= {f"{case}_scores": scores.copy_to_host(), f"{case}_valid": valid_scores}
    for dtype in (np.float32, np.float64):
        found[f"by_{np.dtype(dtype)}"] = CardForest(forest, dtype).score(given["rows"].astype(dtype))
    model = TreeModel(4, ("a", "b", "c", "d"), forest)
    found["by_model"] = model_scores(model, given["rows"][:, ::-1], ["d", "c", "b", "a"])
    return found
