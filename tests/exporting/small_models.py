"""Small models of every kind, with awkward thresholds, for the tests of exports."""

import numpy as np

from rankwright import BinnedModel, LinearModel, NetModel, SumModel
from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import GradeModel, TreeModel

N_FEATURES = 6
AWKWARD = [0.1, 1e-7, -1e-7, 0.0, -0.0, 1.0, np.inf, -np.inf, 1 / 3, -2.5, 1e-30, 16777217.0, 1e30, 0.30000000000000004]
ODD_NAMES = ('5" pipes', "größe", "it's", "a b", "{{x}}", "y\nz")


def forest(seed, n_trees=12, leaves=9, awkward=AWKWARD):
    """Return random trees over all features; splits send missing values either way."""
    rng = np.random.default_rng(seed)
    return Forest.of([_tree(rng, leaves, awkward) for _ in range(n_trees)])


def _tree(rng, leaves, awkward):
    feature, threshold, left = [-1], [0.0], [0]
    for _ in range(leaves - 1):
        ends = [node for node, own in enumerate(feature) if own < 0]
        node = int(rng.choice(ends))
        feature[node] = int(rng.integers(N_FEATURES))
        threshold[node] = float(rng.choice(awkward) if rng.random() < 0.5 else rng.normal())
        left[node] = len(feature)
        feature += [-1, -1]
        threshold += [0.0, 0.0]
        left += [0, 0]
    n = len(feature)
    value = np.where(np.array(feature) < 0, rng.normal(size=n), 0.0)
    missing = (np.array(feature) >= 0) & (rng.random(n) < 0.5)
    return Tree(
        np.array(feature, np.int32),
        np.array(threshold),
        missing,
        np.array(left, np.int32),
        value,
        np.zeros(n),
        np.ones(n),
    )


def with_categories():
    """Return a tree on a categorical feature of texts, and one on numbers that are categories."""
    sets = np.zeros((1, SET_WORDS), np.uint64)
    sets[0, 0] = 0b101
    columns = {"threshold": np.zeros(3), "value": np.array([0.0, 1.5, -2.0]), "gain": np.zeros(3), "count": np.ones(3)}
    trees = [
        Tree(
            np.array([j, -1, -1], np.int32),
            missing_left=np.array([missing, False, False]),
            left=np.array([1, 0, 0], np.int32),
            subset=np.array([0, -1, -1], np.int32),
            sets=sets,
            **columns,
        )
        for j, missing in ((0, True), (0, False), (1, True))
    ]
    return TreeModel(2, ("brand", "year"), Forest.of(trees), categories={0: ("a", "b", "c"), 1: (1999.0, 2004.0, 7.5)})


def models():
    """Return models by name."""
    rng = np.random.default_rng(1)
    linear = LinearModel([2.0, 0.0, -1.5, 1e-3, 0.1, 7.0])
    trees = TreeModel(N_FEATURES, None, forest(2))
    mild = TreeModel(N_FEATURES, None, forest(7, awkward=[0.1, 1 / 3, -0.0, 1e-7]))  # others dwarf the trees of a sum
    bins = BinnedModel([0.1, 1 / 3, 5.0, -1e-7, 0.0], [0, 3, 3, 5, 5, 5, 5], [1.0, -0.3, 0.7, 0.2, 0.1])
    net = NetModel(rng.normal(size=(4, N_FEATURES)), rng.normal(size=4), rng.normal(size=4))
    grades = np.array([0.0, 1.0, 3.0])
    forests = (forest(3, 4), forest(4, 4), forest(5, 4))
    softmax = GradeModel(N_FEATURES, None, grades, forests, np.array([0.1, -0.2, 0.0]), "softmax")
    ordinal = GradeModel(N_FEATURES, None, grades, forests[:2], np.array([0.1, -0.2]), "ordinal")
    leaf = Tree(*(np.array([value]) for value in (np.int32(-1), 0.0, False, np.int32(0), 1.25, 0.0, 1.0)))
    return {
        "linear": linear,
        "trees": trees,
        "bins": bins,
        "net": net,
        "sum": SumModel((mild, linear, bins), np.array([0.5, 2.0, -1.0])),
        "with net": SumModel((mild, net), np.array([1.0, 0.25])),
        "softmax": softmax,
        "ordinal": ordinal,
        "minmax": LinearModel(linear.coef, query_scaling="minmax"),
        "zscore": SumModel((LinearModel(linear.coef, query_scaling="zscore"), mild), np.array([0.5, 1.0])),
        "percentile": BinnedModel([0.25, 0.5, 0.5], [0, 2, 2, 3, 3, 3, 3], [1.0, 2.0, -0.5], None, "percentile"),
        "odd names": TreeModel(N_FEATURES, ODD_NAMES, forest(6)),
        "same names": LinearModel([2.0, 3.0, -1.0], ("a", "b", "a")),
        "no trees": TreeModel(N_FEATURES, None, Forest.of([])),
        "a constant": TreeModel(N_FEATURES, None, Forest.of([leaf])),
        "nothing": LinearModel(np.zeros(N_FEATURES)),
        "one feature": LinearModel([2.0]),
    }


MODELS = models()
EXACT = ("linear", "trees", "bins", "net", "softmax", "ordinal", "minmax", "percentile", "odd names", "no trees")
SCALED = ("minmax", "zscore", "percentile")
EXPECTED_GRADES = ("softmax", "ordinal")
