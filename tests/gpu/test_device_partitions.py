"""Parts of a data set on the device: their planes are those of the CPU, also where the features have no room there."""

import numpy as np
import pytest
from on_device import run_on_device
from partitions_script import planes

RNG = np.random.default_rng(3)
SIZES = np.array([4, 3, 5])
GIVEN = {
    "X": RNG.normal(size=(SIZES.sum(), 3)).astype(np.float32),
    "labels": np.concatenate([np.arange(size) % 2 for size in SIZES]),
    "sizes": SIZES,
    "scale": np.array([1.0, 2.0, 0.5]),
    "w": np.array([0.3, -0.2, 0.1]),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_on_device("partitions_script", tmp_path_factory.mktemp("device"), **GIVEN)


def test_the_planes_of_a_part_are_those_of_the_cpu(found):
    for at, expected in enumerate(planes(GIVEN, "cpu")):
        np.testing.assert_allclose(found[f"resident {at}"], expected, rtol=1e-9, atol=1e-12)
        assert np.array_equal(found[f"streamed {at}"], found[f"resident {at}"])
