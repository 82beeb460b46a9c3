"""Lambda gradients on the device: those of the CPU but for rounding, and the same bits every time."""

import numpy as np
import pytest
from on_device import has_gpu, run_on_device

from rankwright.boosting.lambdas import Lambdas
from rankwright.measures import parse_measure

MEASURES = ["ndcg", "ndcg@5", "ap", "err@10", "auc", "rr", "rbp", "rprec", "p@3"]
GRADED = [name.startswith(("ndcg", "err")) for name in MEASURES]
TRUNCATIONS = [0, 4, 3, 0, 6, 2, 0, 0, 0]
NEARNESS = [0.0, 0.03, 0.1, 0.03, 0.0, 0.03, 0.0, 0.5, 0.03]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    indptr = np.cumsum([0, 1, 9, 0, 17, *([600, 1100] if has_gpu() else [])])  # not in shared memory; sorted
    labels = rng.integers(0, 3, indptr[-1]).astype(float)
    scores = rng.normal(size=(len(MEASURES), len(labels)))
    scores[1::2] = np.round(scores[1::2], 1)  # some are tied
    scores[2] = 0.0  # and all
    scores[4] *= 900.0  # and some far apart
    return labels, indptr, scores, rng.random(len(indptr) - 1) + 0.5


@pytest.fixture(scope="module")
def found(data, tmp_path_factory):
    labels, indptr, scores, weights = data
    own = {"labels": labels, "indptr": indptr, "scores": scores, "weights": weights, "graded": np.array(GRADED)}
    own |= {"measures": np.array(MEASURES), "truncations": np.array(TRUNCATIONS), "nearness": np.array(NEARNESS)}
    return run_on_device("lambdas_script", tmp_path_factory.mktemp("lambdas"), **own)


@pytest.mark.parametrize("case", range(len(MEASURES)), ids=MEASURES)
def test_gradients_are_those_of_the_cpu(data, found, case):
    labels, indptr, scores, weights = data
    own = labels if GRADED[case] else (labels > 0) * 1.0
    measure = parse_measure(MEASURES[case]).resolve("letor")
    settings = {"nearness": NEARNESS[case], "normalize": bool(case % 2), "query_weights": weights}
    expected = Lambdas(own, indptr, measure, TRUNCATIONS[case] or None, **settings).evaluate(scores[case])
    for kind, values in enumerate(expected):
        largest = np.abs(values).max()
        assert largest > 0.0
        np.testing.assert_allclose(found[f"{case}_{kind}_0"], values, rtol=0, atol=1e-12 * largest)
        assert np.array_equal(found[f"{case}_{kind}_0"], found[f"{case}_{kind}_1"])


def test_gradients_of_the_cpu_are_where_they_were(found):
    assert found["hosted_0"].tolist() == [2.0, 4.0, 6.0]
    assert found["hosted_1"].tolist() == [2.0, 3.0, 4.0]
