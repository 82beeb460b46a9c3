"""The hinge on the device against the CPU's: every oracle, planes, hinges by query, turns of the ramp bound, sample."""

import numpy as np
import pytest
from hinge_cases import NAMES, asked, labels_of, made, oracle_of
from on_device import run_on_device

from rankwright.maxmargin.hinge import StructuredHinge

GIVEN = made()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_on_device("hinge_script", tmp_path_factory.mktemp("device"), **GIVEN)


@pytest.mark.parametrize("name", NAMES)
def test_the_hinge_is_that_of_the_cpu(name, found):
    labels = labels_of(name, GIVEN["grades"])
    labels.flags.writeable = False
    hinge = StructuredHinge(
        GIVEN["X"], GIVEN["rows"], labels, GIVEN["indptr"], oracle_of(name), GIVEN["cost"], GIVEN["scale"],
        GIVEN["blocks"],
    )  # fmt: skip
    for key, value in asked(hinge, GIVEN["weights"][:, : hinge.n_features]).items():
        np.testing.assert_allclose(found[f"{name}/{key}"], value, rtol=1e-9, atol=1e-9, err_msg=key)


def test_a_second_time_gives_the_same_bits(found):
    again = [key for key in found if key.startswith("map again/")]
    assert again
    for key in again:
        assert np.array_equal(found[key], found[key.replace(" again", "")]), key
