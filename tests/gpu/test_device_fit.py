"""Trainings on the device: the certificate is the CPU's, and a second training gives the same bits."""

import warnings

import numpy as np
import pytest
from fit_script import RANKERS, SIMULATED, made
from on_device import has_gpu, run_on_device

RNG = np.random.default_rng(5)
SIZES = np.array([3, 6, 4, 7]) if not has_gpu() else RNG.integers(3, 40, 60)
GIVEN = {
    "X": RNG.normal(size=(SIZES.sum(), 3)).astype(np.float32),
    "labels": np.concatenate([np.arange(size) % 3 for size in SIZES]),
    "sizes": SIZES,
    "weights": RNG.uniform(0.5, 2.0, len(SIZES)),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_on_device("fit_script", tmp_path_factory.mktemp("device"), **GIVEN)


@pytest.mark.parametrize("name", RANKERS if has_gpu() else SIMULATED)
def test_the_certificate_is_that_of_the_cpu(name, found):
    ranker = RANKERS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of four passes
        ranker.fit_data(made(GIVEN), weights=GIVEN["weights"])
    assert found[name][0] == pytest.approx(ranker.objective_, rel=1e-6)
    assert found[name][1] == pytest.approx(ranker.gap_, rel=1e-3, abs=1e-6)
    assert found[f"{name} bits"]


@pytest.mark.needs_gpu
@pytest.mark.parametrize("how", ["streamed", "sparse"])
def test_features_that_do_not_fit_or_are_sparse_give_the_same_certificate(how, found):
    assert found[how] == pytest.approx(found["map"][0], rel=1e-9)
