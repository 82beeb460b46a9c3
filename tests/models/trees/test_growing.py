"""Growing trees: histograms against sums, and splits and whole trees against a slow reference by squared error."""

import numpy as np
import pytest

from rankwright.models.trees import grow as grow_module
from rankwright.models.trees.binning import MISSING, bin_features
from rankwright.models.trees.grow import Grower
from rankwright.models.trees.histogram import COUNT_BITS, fill_groups, gather, pack
from rankwright.models.trees.split import partition

FIELDS = ("feature", "threshold", "missing_left", "left", "value", "gain", "count")


def make(n=300, d=9, missing=0.15, seed=0):
    """Residuals that depend on the features, some of them rounded and some missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, ::2] = np.round(X[:, ::2] * 3)
    residuals = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    gone = rng.random(X.shape) < missing * (np.arange(d) % 3 > 0)
    residuals += gone[:, 1] - 0.8 * gone[:, 4]
    X[gone] = np.nan
    return X, residuals


def grown(X, residuals, rows=None, features=None, seed=0, max_bins=255, **settings):
    grower = Grower(bin_features(X, max_bins), **settings)
    try:
        return grower.grow(
            np.asarray(residuals, np.float64),
            np.arange(len(X), dtype=np.uint32) if rows is None else rows,
            np.ones(X.shape[1], np.bool_) if features is None else features,
            np.random.default_rng(seed),
        )
    finally:
        grower.close()


def bits(tree):
    return [getattr(tree, name).tobytes() for name in FIELDS]


def squared_error(values):
    return float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0


def reference_split(X, residuals, rows, ends, features, min_rows):
    """The best of all splits by features, thresholds and ways of missing values; the first of equal ones."""
    best = (1e-12, -1, 0.0, False)
    whole = squared_error(residuals[rows])
    for j in np.flatnonzero(features):
        x = X[rows, j]
        gone = np.isnan(x)
        for missing_left in (False, True) if gone.any() else (False,):
            for threshold in [*ends[j], np.inf]:
                left = np.where(gone, missing_left, x <= threshold)
                if min(left.sum(), (~left).sum()) < min_rows:
                    continue
                parts = squared_error(residuals[rows[left]]), squared_error(residuals[rows[~left]])
                if whole - sum(parts) > best[0] * (1 + 1e-7):
                    best = (whole - sum(parts), int(j), float(threshold), missing_left)
    return best


def reference_tree(X, residuals, rows, ends, features, max_leaves, min_rows):
    """Nodes as lists, grown best-first; and the rows of the leaves."""
    nodes = [{"feature": -1, "count": len(rows)}]
    leaves = {0: (rows, reference_split(X, residuals, rows, ends, features, min_rows))}
    while len(leaves) < max_leaves:
        node = max(leaves, key=lambda at: leaves[at][1][0])
        rows, (gain, j, threshold, missing_left) = leaves[node]
        if j < 0:
            break
        del leaves[node]
        nodes[node] |= {"feature": j, "threshold": threshold, "missing_left": missing_left, "gain": gain}
        nodes[node]["left"] = len(nodes)
        goes_left = np.where(np.isnan(X[rows, j]), missing_left, X[rows, j] <= threshold)
        for part in (rows[goes_left], rows[~goes_left]):
            leaves[len(nodes)] = part, reference_split(X, residuals, part, ends, features, min_rows)
            nodes.append({"feature": -1, "count": len(part)})
    return nodes, {node: part for node, (part, _) in leaves.items()}


def assert_is_reference(tree, leaves, nodes, rows_of):
    for name in FIELDS:
        if name != "value":
            wanted = [node.get(name, 0) for node in nodes]
            np.testing.assert_allclose(getattr(tree, name), wanted, rtol=1e-6, atol=1e-9, err_msg=name)
    assert (tree.value == 0).all()
    assert {node: part.tolist() for node, part in leaves} == {node: part.tolist() for node, part in rows_of.items()}


@pytest.mark.parametrize("n_rows", [0, 1, 300, 20_000])
def test_histograms_are_sums_over_the_bins(n_rows):
    X, residuals = make(20_000, 11)
    binned = bin_features(X, 20)
    packed, unit = pack(residuals)
    rows = np.sort(np.random.default_rng(1).choice(len(X), n_rows, replace=False)).astype(np.uint32)
    values, sums = np.empty(n_rows, np.int64), np.full((2, 8, 256), 99, np.int64)
    gather(packed, rows, values)
    fill_groups(binned.words, 1, 2, rows, values, sums)
    assert (sums[0] == 99).all()
    fill_groups(binned.words, 0, 1, rows, values, sums)
    for j, histogram in enumerate(sums.reshape(16, 256)[:11]):
        codes = np.where(np.isnan(X[rows, j]), MISSING, np.searchsorted(binned.ends[j], X[rows, j]))
        np.testing.assert_array_equal(histogram & ((1 << COUNT_BITS) - 1), np.bincount(codes, minlength=256))
        by_bin = np.bincount(codes, residuals[rows], minlength=256)
        np.testing.assert_allclose((histogram >> COUNT_BITS) * unit, by_bin, rtol=1e-6, atol=1e-4)


def test_residuals_become_whole_numbers():
    rng = np.random.default_rng(0)
    for scale in (1e-300, 1e-9, 1.0, 1e300):
        residuals = scale * rng.normal(size=5000)
        packed, unit = pack(residuals)
        assert ((packed & ((1 << COUNT_BITS) - 1)) == 1).all()
        np.testing.assert_allclose(
            (packed >> COUNT_BITS) * unit, residuals, atol=np.abs(residuals).max() * 5000 / 2**38
        )
        assert abs(int((packed >> COUNT_BITS).sum())) < 1 << 39
    most = pack(np.full(100_001, -3.0))[0]  # all at the largest value
    assert int((most >> COUNT_BITS).sum()) >= -(1 << 39)
    assert (pack(np.zeros(5))[0] == 1).all()
    assert (pack(np.full(5, 5e-324))[0] == 1).all()  # next to nothing is nothing


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_first_split_is_the_best_of_all(seed, missing):
    X, residuals = make(60, 5, missing, seed)
    min_rows = 1 + seed % 4 * 5
    tree, leaves = grown(X, residuals, max_leaves=2, min_rows=min_rows)
    ends = bin_features(X).ends
    gain, j, threshold, missing_left = reference_split(X, residuals, np.arange(60), ends, np.ones(5), min_rows)
    assert (tree.feature[0], tree.threshold[0], tree.missing_left[0]) == (j, threshold, missing_left)
    assert tree.gain[0] == pytest.approx(gain, rel=1e-6)
    found = squared_error(residuals) - sum(squared_error(residuals[rows]) for _, rows in leaves)
    assert found == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_whole_tree_is_the_reference(seed):
    X, residuals = make(150, 9, 0.2, seed)
    max_leaves, min_rows = 4 + 4 * seed, 1 + 4 * (seed % 3)
    tree, leaves = grown(X, residuals, max_leaves=max_leaves, min_rows=min_rows)
    reference = reference_tree(
        X, residuals, np.arange(150), bin_features(X).ends, np.ones(9), max_leaves, min_rows
    )  # fmt: skip
    assert_is_reference(tree, leaves, *reference)
    assert (tree.feature >= 0).sum() == len(leaves) - 1


def test_a_tree_of_some_rows_features_and_few_bins_is_the_reference():
    X, residuals = make(400, 9, 0.2, 7)
    rng = np.random.default_rng(7)
    rows = np.flatnonzero(rng.random(400) < 0.6)
    features = np.array([1, 0, 1, 1, 1, 0, 0, 1, 1], np.bool_)
    settings = {"max_leaves": 10, "min_rows": 6}
    tree, leaves = grown(X, residuals, rows.astype(np.uint32), features, max_bins=12, **settings)
    assert_is_reference(tree, leaves, *reference_tree(X, residuals, rows, bin_features(X, 12).ends, features, 10, 6))


def test_the_sums_of_one_child_are_those_of_its_parent_less_the_other(monkeypatch):
    X, residuals = make(3000)
    by_subtraction = grown(X, residuals, max_leaves=30, min_rows=5)[0]
    filled = []
    plain = Grower._fill
    monkeypatch.setattr(Grower, "_fill", lambda self, leaf, *rest: (filled.append(leaf.node), plain(self, leaf, *rest)))
    grown(X, residuals, max_leaves=30, min_rows=5)
    assert len(filled) < 31  # one of two children

    def directly(self, parent, one, two, *rest):
        for leaf in (one, two):
            self._look(leaf, *rest)

    monkeypatch.setattr(Grower, "_look_at_both", directly)
    filled.clear()
    assert bits(grown(X, residuals, max_leaves=30, min_rows=5)[0]) == bits(by_subtraction)
    assert len(filled) > 40


@pytest.mark.parametrize("min_rows", [1, 7, 40])
@pytest.mark.parametrize("max_leaves", [2, 5, 64])
def test_limits_hold(min_rows, max_leaves):
    X, residuals = make(500)
    tree, leaves = grown(X, residuals, max_leaves=max_leaves, min_rows=min_rows)
    assert 2 <= len(leaves) <= max_leaves
    assert len(leaves) == max_leaves or max_leaves == 64
    assert min(len(rows) for _, rows in leaves) >= min_rows
    assert sorted(np.concatenate([rows for _, rows in leaves]).tolist()) == list(range(500))
    for node, rows in leaves:
        assert tree.feature[node] == -1
        assert tree.count[node] == len(rows)
        assert (np.diff(rows.astype(int)) > 0).all()  # rows keep their order
    inner = np.flatnonzero(tree.feature >= 0)
    assert (tree.left[inner] > inner).all()
    assert (tree.gain[inner] > 0).all()
    np.testing.assert_array_equal(tree.count[inner], tree.count[tree.left[inner]] + tree.count[tree.left[inner] + 1])
    assert len(grown(X, residuals, max_leaves=10**9, min_rows=min_rows)[1]) <= 500 // min_rows


def test_trees_depend_neither_on_threads_nor_on_what_was_grown_before(monkeypatch):
    monkeypatch.setattr(grow_module, "_WORTH_THREADS", 10)
    X, residuals = make(5000, 20)
    one, two = grown(X, residuals, threads=1)[0], grown(X, residuals, threads=3)[0]
    assert bits(one) == bits(two)
    grower = Grower(bin_features(X), threads=2)
    rows, features = np.arange(5000, dtype=np.uint32), np.ones(20, np.bool_)
    for other in (np.cos(residuals), residuals):
        tree, _ = grower.grow(other, rows, features, np.random.default_rng(0))
    grower.close()
    assert bits(tree) == bits(one)
    assert rows.tolist() == list(range(5000))


def test_nodes_draw_rows_and_features(monkeypatch):
    X, residuals = make(4000, 20)
    drawn, allowed = [], []
    plain_fill, plain_splits = Grower._fill, grow_module.best_splits

    def fill(self, leaf, part, packed):
        drawn.append((len(part), leaf.stop - leaf.start))
        plain_fill(self, leaf, part, packed)

    def splits(sums, n_bins, features, *rest):
        allowed.append(features.copy())
        plain_splits(sums, n_bins, features, *rest)

    monkeypatch.setattr(Grower, "_fill", fill)
    monkeypatch.setattr(grow_module, "best_splits", splits)
    settings = {"node_rows": 0.6, "node_features": 0.3, "max_leaves": 12}
    features = np.arange(20) < 10
    tree, leaves = grown(X, residuals, features=features, **settings)
    assert sum(part for part, _ in drawn) / sum(rows for _, rows in drawn) == pytest.approx(0.6, abs=0.03)
    assert {int(some.sum()) for some in allowed} == {3}  # of the ten that the tree sees
    assert not np.any(allowed, axis=0)[10:].any()
    assert len({some.tobytes() for some in allowed}) > 5  # anew for every node
    assert sorted(np.concatenate([rows for _, rows in leaves]).tolist()) == list(range(4000))
    assert bits(grown(X, residuals, features=features, **settings)[0]) == bits(tree)
    assert bits(grown(X, residuals, features=features, seed=1, **settings)[0]) != bits(tree)
    only_rows = grown(X, residuals, node_rows=0.5, max_leaves=12)[0]
    assert bits(only_rows) != bits(grown(X, residuals, max_leaves=12)[0])
    assert (only_rows.gain[only_rows.feature >= 0] > 0).all()


NOTHING = {
    "constant residuals": (make()[0], np.full(300, 0.1)),
    "no residuals": (make()[0], np.zeros(300)),
    "constant features": (np.full((300, 3), 2.0), make()[1]),
    "missing features": (np.full((300, 3), np.nan), make()[1]),
    "too few rows": (make(9)[0], make(9)[1]),
    "one row": (make(1)[0], make(1)[1]),
}


@pytest.mark.parametrize("what", NOTHING)
def test_no_split_where_there_is_nothing_to_gain(what):
    X, residuals = NOTHING[what]
    tree, leaves = grown(X, residuals, max_leaves=8, min_rows=5)
    assert tree.feature.tolist() == [-1]
    assert [(node, rows.tolist()) for node, rows in leaves] == [(0, list(range(len(X))))]
    assert tree.count.tolist() == [len(X)]


def test_missing_values_alone_can_be_a_split():
    x = np.repeat([3.0, np.nan], [30, 20])
    tree, leaves = grown(x[:, None], np.repeat([1.0, -1.0], [30, 20]), max_leaves=4)
    assert (tree.feature[0], tree.threshold[0], tree.missing_left[0]) == (0, np.inf, False)
    assert [len(rows) for _, rows in leaves] == [30, 20]


@pytest.mark.parametrize("missing_left", [False, True])
def test_partition_keeps_the_order_of_both_parts(missing_left):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 256, (1000, 8)).astype(np.uint8)
    rows = np.sort(rng.choice(1000, 400, replace=False)).astype(np.uint32)
    for k, last in ((0, 100), (7, 254), (3, 0)):
        mixed = rows.copy()
        n_left = partition(codes.view(np.uint64).ravel(), 8 * k, last, missing_left, mixed, np.empty(400, np.uint32))
        left = np.where(codes[rows, k] == MISSING, missing_left, codes[rows, k] <= last)
        assert mixed.tolist() == [*rows[left], *rows[~left]]
        assert n_left == left.sum()
