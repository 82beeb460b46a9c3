"""All growers give one tree: in this process, over partitions, over partitions on a GPU, and wholly on a GPU."""

import sys
from pathlib import Path

import numpy as np
import pytest

from rankwright.boosting.binning import bin_features, pack_bins
from rankwright.boosting.grow import Grower, LocalHistograms
from rankwright.boosting.learner import LocalLearner, PartitionedLearner
from rankwright.boosting.partitions import BinLayout, Cuts, NodeRows, PartitionHistograms, exact_sums
from rankwright.cluster.worker import add_up
from rankwright.data.threads import Team

sys.path.append(str(Path(__file__).parents[1] / "gpu"))
from growers_script import TREE
from on_device import run_on_device

N, N_CATEGORIES, MAX_LEAVES, MAX_BINS, MIN_ROWS = 90, 7, 5, 16, 5
CASES = {  # newton, tree_features, node_share, categories, directions
    "newton": (1, 1.0, 1.0, 0, 0),
    "squared": (0, 1.0, 1.0, 0, 0),
    "features drawn": (0, 0.6, 1.0, 0, 0),
    "nodes draw": (1, 1.0, 0.7, 0, 0),
    "categories": (1, 1.0, 1.0, N_CATEGORIES, 0),
    "monotone": (1, 1.0, 1.0, 0, 1),
    "everything": (0, 0.8, 0.8, N_CATEGORIES, 1),
}
GROWERS = {  # number of partitions, whether to ask ahead, whether small nodes are gathered
    "one partition": (1, False, False),
    "three partitions": (3, False, False),
    "three partitions, asked ahead": (3, True, False),
    "three partitions, rows gathered": (3, True, True),
}
ON_CARD = "partition on a GPU", "all on a GPU"


class Partitions:
    """Rows with given gradients in partitions, as a actors answers for them; or answers that others gave."""

    def __init__(self, data, ends, share, n_partitions, answers=None):
        X, order, *self.gradients = data
        self.gradients = [values[order] for values in self.gradients]
        self.sizes = np.stack([exact_sums(values) for values in self.gradients])
        self.share, self.answers, self.requests, self.units = share, answers, [], None
        layout, team = BinLayout(np.array([len(own) + 1 for own in ends])), Team(1)
        self.parts = []
        for rows in np.array_split(np.arange(len(order)), n_partitions):
            keys = rows.astype(np.uint64) if share < 1.0 else np.empty(0, np.uint64)
            self.parts.append((rows, NodeRows(pack_bins(X, order[rows], ends, team), layout, team, keys)))

    def sum(self, method, *given):
        if method == "look":
            return self.look(*given[3:])
        *_, salt, self.units = given
        if self.units is None:
            return [self.sizes]
        for rows, part in self.parts:
            own = [values[rows] for values in self.gradients]
            part.begin(np.arange(len(rows), dtype=np.uint32), *own, self.units)
        nothing = Cuts.of([], [], [], [])
        return [self.sizes, *self.look(nothing, np.zeros(1, np.int32), np.array([salt], np.uint64))]

    def look(self, cuts, nodes, salts):
        self.requests.append((cuts, nodes, salts))
        if self.answers is not None:
            return self.answers[len(self.requests) - 1]
        for _, part in self.parts:
            part.divide(cuts)
        return add_up([part.sums(nodes, salts, self.share) for _, part in self.parts])

    def call(self, method, *given):
        assert method == "gather_rows"
        cuts, nodes = given[3:]
        for _, part in self.parts:
            part.divide(cuts)
        return [part.gather_rows(nodes) for _, part in self.parts]

    def defer(self, *given):
        """The next tree is not grown."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 5)).astype(np.float32)
    X[:, 1] = np.floor(2 * X[:, 1])
    X[rng.random(N) < 0.3, 2] = np.nan
    X[:, 3] = 7.0
    X[:, 4] = rng.integers(0, N_CATEGORIES, N)
    effects = rng.normal(size=N_CATEGORIES)[X[:, 4].astype(int)]
    X[rng.random(N) < 0.1, 4] = np.nan
    gradients = rng.normal(size=N) + 2.0 * (X[:, 1] > 0) - 1.5 * np.isnan(X[:, 2]) + 1.5 * effects
    gradients += np.sin(2 * X[:, 0])  # rises and falls
    weights = np.where(rng.random(N) < 0.2, 3.0, 0.1)  # so that min_rows decides
    return X, rng.permutation(N), gradients, weights


def parts_of(data, case):
    """Bins, the settings of a grower, and those of a learner."""
    X, order, *_ = data
    _, features, share, n_categories, ways = CASES[case]
    bins = bin_features(X, MAX_BINS, 0, 1, order, {4: n_categories} if n_categories else None)
    growing = {"max_leaves": MAX_LEAVES, "min_rows": MIN_ROWS, "directions": {0: 1, 1: -1} if ways else {}}
    growing |= {"node_rows": share, "node_features": share}
    return bins, growing, {"shrinkage": 0.1, "tree_features": features, "seed": 1}


def local(data, case):
    (X, order, gradients, weights), (bins, growing, learning) = data, parts_of(data, case)
    learner = LocalLearner(
        Grower(LocalHistograms(bins), **growing), X, order=order, newton=bool(CASES[case][0]), **learning
    )
    learner.fit(gradients[order], weights[order], np.zeros(N))
    return learner.trees[0]


def partitioned(data, case, n_partitions=1, ahead=False, gathers=False, answers=None):
    """A tree over partitions, and what these were asked for."""
    bins, growing, learning = parts_of(data, case)
    newton, _, share, _, ways = CASES[case]
    varies = LocalHistograms(bins).varies
    settings = {"counts_rows": not (newton or ways), "samples": share < 1.0, "ahead": ahead}
    source = PartitionHistograms(bins.ends, varies, bins.categorical, N, **settings)
    source.few = 40 if gathers else 0
    actors = Partitions(data, bins.ends, share, n_partitions, answers)
    learner = PartitionedLearner(Grower(source, **growing), actors, recall=lambda compute: compute(), **learning)
    learner.fit(None, None, None)
    return learner.trees[0], actors


@pytest.fixture(scope="module")
def on_device(data, tmp_path_factory):
    """Trees and sums of all cases from the device; the sums are those that the CPU's partition was asked for."""
    X, order, gradients, weights = data
    given = {"X": X, "order": order, "gradients": gradients[order], "weights": weights[order]}
    given |= {"cases": np.array(list(CASES.values())), "max_leaves": MAX_LEAVES, "max_bins": MAX_BINS}
    given |= {"min_rows": MIN_ROWS}
    for at, case in enumerate(CASES):
        ends, actors = parts_of(data, case)[0].ends, partitioned(data, case)[1]
        given |= {f"{at} ends {j}": own for j, own in enumerate(ends)}
        given |= {f"{at} units": np.array([actors.units.gradient, actors.units.hessian])}
        given |= {f"{at} requests": len(actors.requests)}
        for number, (cuts, nodes, salts) in enumerate(actors.requests):
            given |= {f"{at} {number} {name}": getattr(cuts, name) for name in vars(cuts)}
            given |= {f"{at} {number} asked": nodes, f"{at} {number} salts": salts}
    return run_on_device("growers_script", tmp_path_factory.mktemp("growers"), **given)


def on_the_card(data, case, kind, found):
    at = list(CASES).index(case)
    if kind == "all on a GPU":
        return {name: found[f"{at} {name}"] for name in TREE}
    numbers = sorted({int(key.split()[1]) for key in found if key.startswith(f"{at} ") and key[-1].isdigit()})
    answers = [tuple(found[f"{at} {number} {part}"].copy() for part in range(4)) for number in numbers]
    tree = partitioned(data, case, answers=answers)[0]
    return {name: getattr(tree, name) for name in TREE}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("grower", [*GROWERS, *ON_CARD])
def test_all_growers_give_one_tree(data, grower, case, request):
    expected = local(data, case)
    assert (expected.feature >= 0).sum() == MAX_LEAVES - 1
    if grower in GROWERS:
        tree = partitioned(data, case, *GROWERS[grower])[0]
        found = {name: getattr(tree, name) for name in TREE}
    else:
        found = on_the_card(data, case, grower, request.getfixturevalue("on_device"))
    for name in ("feature", "threshold", "missing_left", "left", "count", "subset", "sets"):
        assert np.array_equal(found[name], getattr(expected, name)), name
    np.testing.assert_allclose(found["value"], expected.value, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["gain"], expected.gain, rtol=1e-6)


def test_the_cases_differ(data):
    trees = [local(data, case) for case in CASES]
    assert len({(tree.feature.tobytes(), tree.threshold.tobytes()) for tree in trees}) == len(CASES)
    assert (trees[list(CASES).index("categories")].subset >= 0).any()
