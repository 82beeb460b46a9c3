"""Trees on the card: the same bins, trees, values and scores as the CPU's, from the same residuals."""

import numpy as np
import pytest
from on_card import run_on_card

from rankwright.models.trees.binning import bin_features
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.grow import Grower
from rankwright.models.trees.predict import add_scores
from rankwright.solvers.tree_learner import TreeLearner

CASES = [(1, 1.0, 1.0, 2), (0, 0.6, 0.6, 1)]  # newton, tree_rows, tree_features, trees
MAX_LEAVES, MAX_BINS = 4, 16


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4)).astype(np.float32)
    X[:, 1] = np.floor(2 * X[:, 1])
    X[rng.random(90) < 0.3, 2] = np.nan
    X[:, 3] = 7.0
    residuals = rng.normal(size=90) + 2.0 * (X[:, 1] > 0) - 1.5 * np.isnan(X[:, 2])
    weights = np.where(rng.random(90) < 0.2, 3.0, 0.1)  # so that min_rows decides
    return X, rng.permutation(90), residuals, weights


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    X, order, residuals, weights = data
    rows = np.concatenate([X, np.full((1, 4), np.inf), np.full((1, 4), -np.inf), np.zeros((1, 4)), -np.zeros((1, 4))])
    own = {"X": X, "order": order, "residuals": residuals[order], "weights": weights[order], "rows": rows}
    own |= {"cases": np.array(CASES), "max_leaves": MAX_LEAVES, "max_bins": MAX_BINS}
    return run_on_card("trees_script", tmp_path_factory.mktemp("trees"), **own) | {"rows": rows}


def grown(data, newton, tree_rows, tree_features, n_trees):
    """The same on the CPU."""
    X, order, residuals, weights = data
    grower = Grower(bin_features(X, MAX_BINS, 0, 1, order), MAX_LEAVES, 5)
    settings = {"newton": bool(newton), "tree_rows": tree_rows, "tree_features": tree_features, "seed": 1}
    learner = TreeLearner(grower, X, order=order, shrinkage=0.1, X_valid=X[:9], **settings)
    scores, valid_scores = np.zeros(len(X)), np.ones(9)
    for _ in range(n_trees):
        learner.fit(residuals[order], weights[order], scores)
        learner.add_last(valid_scores)
    return Forest.of(learner.trees), scores, valid_scores


def test_bins_are_those_of_the_cpu(data, found):
    X, order, *_ = data
    binned = bin_features(X, MAX_BINS, 0, 1, order)
    for j in range(X.shape[1]):
        own = (binned.words[j // 8] >> np.uint64(8 * (j % 8))) & np.uint64(255)
        assert np.array_equal(found["codes"][j // 16, :, j % 16], own)
    assert found["varies"].tolist() == [True, True, True, False]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_trees_are_those_of_the_cpu(data, found, case):
    forest, scores, valid_scores = grown(data, *CASES[case])
    assert len(forest.feature) == CASES[case][3] * (2 * MAX_LEAVES - 1)
    for name in ("feature", "threshold", "missing_left", "left", "gain", "count"):
        assert np.array_equal(getattr(forest, name), found[f"{case}_{name}"]), name
    np.testing.assert_allclose(found[f"{case}_value"], forest.value, rtol=1e-12)
    np.testing.assert_allclose(found[f"{case}_scores"], scores, rtol=1e-12)
    np.testing.assert_allclose(found[f"{case}_valid"], valid_scores, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_forest_scores_as_on_the_cpu(data, found, dtype):
    last = len(CASES) - 1
    names = ("feature", "threshold", "missing_left", "left", "value", "gain", "count")
    own = {name: found[f"{last}_{name}"] for name in names}
    forest = Forest(np.zeros(1, np.int64), **own)
    scores = np.zeros(len(found["rows"]))
    add_scores(forest, found["rows"].astype(dtype), scores)
    assert np.array_equal(found[f"by_{dtype}"], scores)
    assert np.array_equal(found["by_model"], scores)
