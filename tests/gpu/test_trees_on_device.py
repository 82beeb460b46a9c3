"""Trees on the device: the same bins, trees, values and scores as the CPU's, from the same gradients."""

import numpy as np
import pytest
from on_device import run_on_device

from rankwright.boosting.binning import bin_features
from rankwright.boosting.forest import Forest
from rankwright.boosting.grow import Grower, LocalHistograms
from rankwright.boosting.learner import LocalLearner, tree_scores
from rankwright.boosting.predict import add_scores

N_CATEGORIES = 7
CASES = {  # newton, tree_rows, tree_features, node_share, trees, categories, directions
    "newton": (1, 1.0, 1.0, 1.0, 2, 0, 0),
    "squared, drawn": (0, 0.6, 0.6, 1.0, 1, 0, 0),
    "nodes draw": (1, 1.0, 1.0, 0.7, 1, 0, 0),
    "everything drawn": (0, 0.8, 0.8, 0.6, 1, N_CATEGORIES, 0),
    "categories": (1, 1.0, 1.0, 1.0, 1, N_CATEGORIES, 0),
    "monotone": (1, 1.0, 1.0, 1.0, 1, 0, 1),
    "monotone, drawn, categories": (1, 0.9, 1.0, 0.8, 1, N_CATEGORIES, 1),
}
MAX_LEAVES, MAX_BINS = 4, 16


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    n = 90
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 1] = np.floor(2 * X[:, 1])
    X[rng.random(n) < 0.3, 2] = np.nan
    X[:, 3] = 7.0
    X[:, 4] = rng.integers(0, N_CATEGORIES, n)
    effects = rng.normal(size=N_CATEGORIES)[X[:, 4].astype(int)]
    X[rng.random(n) < 0.1, 4] = np.nan
    gradients = rng.normal(size=n) + 2.0 * (X[:, 1] > 0) - 1.5 * np.isnan(X[:, 2]) + 1.5 * effects
    gradients += np.sin(2 * X[:, 0])  # rises and falls
    weights = np.where(rng.random(n) < 0.2, 3.0, 0.1)  # so that min_rows decides
    return X, rng.permutation(n), gradients, weights


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    X, order, gradients, weights = data
    beyond = np.full((4, 5), [[np.inf], [-np.inf], [0.0], [-0.0]], np.float32)
    beyond[:, 4] = [0, 3, np.nan, N_CATEGORIES - 1]
    rows = np.concatenate([X, beyond])
    own = {"X": X, "order": order, "gradients": gradients[order], "weights": weights[order], "rows": rows}
    own |= {"cases": np.array(list(CASES.values())), "max_leaves": MAX_LEAVES, "max_bins": MAX_BINS}
    return run_on_device("trees_script", tmp_path_factory.mktemp("trees"), **own) | {"rows": rows}


def bins_of(data, case):
    X, order, *_ = data
    categories = CASES[case][5]
    return bin_features(X, MAX_BINS, 0, 1, order, {4: categories} if categories else None)


def grown(data, case):
    """The same on the CPU."""
    X, order, gradients, weights = data
    newton, tree_rows, tree_features, share, n_trees, _, ways = CASES[case]
    directions = {0: 1, 1: -1} if ways else {}
    grower = Grower(LocalHistograms(bins_of(data, case)), MAX_LEAVES, 5, share, share, directions=directions)
    settings = {"newton": bool(newton), "tree_rows": tree_rows, "tree_features": tree_features, "seed": 1}
    settings |= {"valid_scores": lambda tree: tree_scores(tree, X[:9])}
    learner = LocalLearner(grower, X, order=order, shrinkage=0.1, **settings)
    scores, valid_scores = np.zeros(len(X)), np.ones(9)
    for _ in range(n_trees):
        learner.fit(gradients[order], weights[order], scores)
        learner.add_last(valid_scores)
    return Forest.of(learner.trees), scores, valid_scores


@pytest.mark.parametrize("case", ["newton", "categories"])
def test_bins_are_those_of_the_cpu(data, found, case):
    binned, at = bins_of(data, case), list(CASES).index(case)
    for j in range(binned.n_features):
        own = (binned.packed_bins[j // 8] >> np.uint64(8 * (j % 8))) & np.uint64(255)
        assert np.array_equal(found[f"{at}_codes"][j // 16, :, j % 16], own)
    assert found[f"{at}_varies"].tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("case", CASES)
def test_trees_are_those_of_the_cpu(data, found, case):
    at = list(CASES).index(case)
    forest, scores, valid_scores = grown(data, case)
    assert len(forest.feature) == CASES[case][4] * (2 * MAX_LEAVES - 1)
    for name in ("feature", "threshold", "missing_left", "left", "count", "subset", "sets"):
        assert np.array_equal(getattr(forest, name), found[f"{at}_{name}"]), name
    np.testing.assert_allclose(found[f"{at}_gain"], forest.gain, rtol=1e-12)
    np.testing.assert_allclose(found[f"{at}_value"], forest.value, rtol=1e-12)
    np.testing.assert_allclose(found[f"{at}_scores"], scores, rtol=1e-12)
    np.testing.assert_allclose(found[f"{at}_valid"], valid_scores, rtol=1e-12)


def test_the_cases_have_splits_of_every_kind(data):
    assert (grown(data, "categories")[0].subset >= 0).any()
    bound, free = grown(data, "monotone")[0], grown(data, "newton")[0]
    assert not np.array_equal(bound.feature, free.feature[: len(bound.feature)])
    assert not np.array_equal(grown(data, "nodes draw")[0].feature, free.feature[:7])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_a_forest_scores_as_on_the_cpu(found, case, dtype):
    at = list(CASES).index(case)
    names = ("feature", "threshold", "missing_left", "left", "value", "gain", "count", "subset", "sets")
    own = {name: found[f"{at}_{name}"] for name in names}
    roots = np.flatnonzero(np.arange(len(own["feature"])) % (2 * MAX_LEAVES - 1) == 0)
    forest = Forest(**own, roots=roots)
    scores = np.zeros(len(found["rows"]))
    add_scores(forest, found["rows"].astype(dtype), scores)
    assert np.array_equal(found[f"{at}_by_{dtype}"], scores)
    if f"{at}_by_model" in found:
        assert np.array_equal(found[f"{at}_by_model"], scores)
