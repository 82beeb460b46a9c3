"""Models made of random numbers, with thresholds that are hard to export."""

import numpy as np

from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import TreeModel

NAMES = ("title_bm25", "body_bm25", "price", "clicks", "age", "rank")
ODD = [0.0, -0.0, 5e-324, -5e-324, 1e-45, 1e-40, 3.5e-6, 1e-7, 0.1, 1 / 3, 1e-3, 16777217.0, 1e30, 3.5e38, 1e300]
ODD += [
    np.inf,
    -np.inf,
    -0.1,
    -1e-7,
    -1e39,
    float(np.float32(0.1)),
    float(np.nextafter(np.float32(0.1), np.float32(1))),
]


def random_tree(rng, thresholds, n_leaves, n_features, categories=None):
    """Return a tree that splits random leaves; feature 0 is categorical if there are categories.

    Every split is on another feature if there are enough, so that rows can reach all of it.
    """
    order = rng.permutation(n_features)
    if n_features < n_leaves - 1:
        order = rng.integers(n_features, size=n_leaves)
    feature, threshold, missing, left, value, subset, sets = [-1], [0.0], [False], [0], [0.0], [-1], []
    leaves = [0]
    for at in range(n_leaves - 1):
        node = leaves.pop(rng.integers(len(leaves)))
        feature[node], threshold[node] = int(order[at]), float(rng.choice(thresholds))
        missing[node], left[node] = bool(rng.random() < 0.5), len(feature)
        if categories and feature[node] == 0:
            subset[node] = len(sets)
            sets.append([int(rng.integers(1 << categories))] + [0] * (SET_WORDS - 1))
        leaves += [len(feature), len(feature) + 1]
        for column, empty in zip(
            (feature, threshold, missing, left, value, subset), (-1, 0.0, False, 0, 0.0, -1), strict=True
        ):
            column += [empty, empty]
    for leaf in leaves:
        value[leaf] = float(rng.normal())
    n = len(feature)
    arrays = (np.array(feature, np.int32), np.array(threshold), np.array(missing), np.array(left, np.int32))
    held = np.array(sets, np.uint64).reshape(-1, SET_WORDS)
    return Tree(*arrays, np.array(value), np.zeros(n), np.ones(n), np.array(subset, np.int32), held)


def random_trees(seed=0, *, n_trees=8, n_leaves=12, names=NAMES, thresholds=None, categories=None, values=None):
    """Return a model of random trees; thresholds are drawn from odd and usual ones unless given."""
    rng = np.random.default_rng(seed)
    thresholds = [*ODD, *rng.lognormal(size=40)] if thresholds is None else thresholds
    n_features = 6 if names is None else len(names)
    trees = [random_tree(rng, thresholds, n_leaves, n_features, categories) for _ in range(n_trees)]
    held = {0: values or tuple(range(categories))} if categories else {}
    model = TreeModel(n_features, names, Forest.of(trees), categories=held)
    model.forest.check(n_features, tuple(held))
    return model
