"""Trees over parts on the device: the sums of a part are the CPU's, bit for bit, however much of it has room there."""

import numpy as np
import pytest
from on_device import run_on_device
from tree_partitions_script import NODES, asked, trained

from rankwright.boosting.binning import bin_ends, pack_bins
from rankwright.boosting.partitions import BinLayout, NodeRows, Units, exact_sums
from rankwright.data.threads import Team

N, D = 90, 19


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(3)
    X, order = rng.normal(size=(N + 10, D)).astype(np.float32), rng.permutation(N + 10)[:N]
    X[rng.random(X.shape) < 0.1] = np.nan
    team = Team(1)
    ends = bin_ends(X, 16, 0, team, order, {})
    table = np.full((D, 16), np.inf)
    for j, own in enumerate(ends):
        table[j, : len(own)] = own
    gradients, hessians = rng.normal(size=N), rng.random(N)
    units = Units.of(np.stack([exact_sums(gradients), exact_sums(hessians)]))
    tables = rng.random((2, 256)) < 0.5
    return {
        "X": X, "order": order, "ends": table, "sizes": np.array([len(own) for own in ends]), "gradients": gradients,
        "hessians": hessians, "units": np.array([units.gradient, units.hessian]), "tables": tables,
        "features": np.array([17, 2]), "rows": np.flatnonzero(rng.random(N) < 0.9), "share": 0.6,
        "keys": rng.integers(0, 1 << 62, N).astype(np.uint64), "y": rng.integers(0, 3, N + 10),
        "q": np.arange(N + 10) // 10,
    }  # fmt: skip


@pytest.fixture(scope="module")
def found(given, tmp_path_factory):
    return run_on_device("tree_partitions_script", tmp_path_factory.mktemp("device"), **given)


@pytest.mark.parametrize("room", ["all", "some", "nothing"])
def test_sums_and_rows_are_those_of_the_cpu(given, found, room):
    ends = tuple(given["ends"][j, :size] for j, size in enumerate(given["sizes"]))
    team, layout = Team(1), BinLayout(given["sizes"] + 1)
    words = pack_bins(given["X"], given["order"], ends, team)
    for key, value in asked(NodeRows(words, layout, team, given["keys"]), given).items():
        there = found[f"{room} {key}"]
        assert there.dtype == value.dtype, key
        assert np.array_equal(there, value), key
    stays = found[f"{room} stays"].tolist()
    assert stays == {"all": [True], "some": [True] * 3 + [False] * 2, "nothing": [False] * len(stays)}[room]


@pytest.mark.needs_gpu
def test_a_training_gives_the_trees_of_the_cpu(given, found):
    forest = trained(given, "cpu")
    assert (forest.feature >= 0).any()
    for name in NODES:
        if name == "value":
            np.testing.assert_allclose(found["forest value"], forest.value, rtol=1e-9)
        else:
            assert np.array_equal(found[f"forest {name}"], getattr(forest, name)), name
