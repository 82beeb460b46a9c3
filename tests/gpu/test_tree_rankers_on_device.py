"""Rankers of trees on the device: the same models, validation values and scores as on the CPU."""

import numpy as np
import pytest
from on_device import has_gpu, run_on_device
from tree_rankers_script import NODES, NOT_SIMULATED, RANKERS, fitted, forests


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 2] = rng.integers(0, 4, n)
    good = X[:, 0] + 0.5 * rng.normal(size=n) + np.array([0.0, 1.0, -1.0, 0.5])[X[:, 2].astype(int)]
    return X, (good > 0) + (X[:, 1] > 1) * 1, np.arange(n) // 10


(X, Y, Q), (X_VALID, Y_VALID, Q_VALID) = drawn(0, 40), drawn(1, 20)
GIVEN = {"X": X, "y": Y, "q": Q, "w": 1.0 + Q % 2, "position": np.arange(40) % 10 + 1}
GIVEN |= {"X_valid": X_VALID, "y_valid": Y_VALID, "q_valid": Q_VALID}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_on_device("tree_rankers_script", tmp_path_factory.mktemp("device"), **GIVEN)


@pytest.mark.parametrize("name", [*RANKERS, *(NOT_SIMULATED if has_gpu() else ())])
def test_the_model_is_that_of_the_cpu(name, found):
    ranker = fitted(name, GIVEN)
    for at, forest in enumerate(forests(ranker.model_)):
        assert forest.n_trees >= 1
        assert (forest.feature >= 0).any()
        for part in NODES:
            own, there = getattr(forest, part), found[f"{name} {at} {part}"]
            if part == "value":
                np.testing.assert_allclose(there, own, rtol=1e-9)
            else:
                assert np.array_equal(own, there), part
    np.testing.assert_allclose(found[f"{name} path"], [row.value for row in ranker.path_], rtol=1e-12)
    np.testing.assert_allclose(found[f"{name} scores"], ranker.model_.score(X_VALID), rtol=1e-9)
