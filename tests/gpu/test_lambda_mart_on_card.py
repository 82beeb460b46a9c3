"""LambdaMART on the card: the same model and validation values as on the CPU."""

import numpy as np
from on_card import run_on_card

from rankwright import LambdaMART


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0) + (X[:, 1] > 1) * 1, np.arange(n) // 10


def test_the_model_is_that_of_the_cpu(tmp_path):
    (X, y, q), (X_valid, y_valid, q_valid) = drawn(0, 40), drawn(1, 20)
    own = {"X": X, "y": y, "q": q, "w": 1.0 + q % 2}
    found = run_on_card("lambda_mart_script", tmp_path, **own, X_valid=X_valid, y_valid=y_valid, q_valid=q_valid)
    ranker = LambdaMART(2, max_leaves=3, min_rows=3, truncation=5)
    ranker.fit(X, y, q, query_weight=own["w"], eval_set=(X_valid, y_valid, q_valid))
    forest = ranker.model_.forest
    assert forest.n_trees >= 1
    for name in ("feature", "threshold", "missing_left", "left", "count"):
        assert np.array_equal(getattr(forest, name), found[name]), name
    np.testing.assert_allclose(found["value"], forest.value, rtol=1e-9)
    np.testing.assert_allclose(found["path"], [row.value for row in ranker.path_], rtol=1e-12)
