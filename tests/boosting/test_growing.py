"""Growing trees: histograms against sums; splits and whole trees against a slow reference, by both kinds of gain."""

import gc

import numpy as np
import pytest

from rankwright.boosting import grow, histograms
from rankwright.boosting.binning import MISSING, bin_features
from rankwright.boosting.grow import Grower, Growth, LocalHistograms
from rankwright.boosting.histograms import HESSIAN_BITS, MOST_ROWS, count_bins, fill_groups, gather, pack, partition
from rankwright.data.hashes import salts_of

HESSIAN = (1 << HESSIAN_BITS) - 1
FIELDS = ("feature", "threshold", "missing_left", "left", "value", "gain", "count")


def make(n=300, d=9, missing=0.15, seed=0):
    """Gradients that depend on the features, some of them rounded and some missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, ::2] = np.round(X[:, ::2] * 3)
    gradients = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    gone = rng.random(X.shape) < missing * (np.arange(d) % 3 > 0)
    gradients += gone[:, 1] - 0.8 * gone[:, 4]
    X[gone] = np.nan
    return X, gradients


def some_hessians(n, seed=0):
    """Hessians of very different sizes, some of them 0."""
    rng = np.random.default_rng([seed, 1])
    return rng.lognormal(sigma=2.0, size=n) * (rng.random(n) < 0.9)


def grown(X, gradients, rows=None, features=None, seed=0, max_bins=255, hessians=None, threads=1, **settings):
    """A tree, and the rows of its leaves by node."""
    source = LocalHistograms(bin_features(X, max_bins), threads)
    try:
        rows = np.arange(len(X), dtype=np.uint32) if rows is None else rows
        source.begin(np.asarray(gradients, np.float64), rows, hessians)
        features = np.ones(X.shape[1], np.bool_) if features is None else features
        found = Grower(source, **settings).grow(features, salts_of(seed, 0)[1])
        return found.tree, leaves_of(found, source)
    finally:
        source.close()


def leaves_of(found, source):
    return [(place, source.rows_of(leaf)) for place, leaf in zip(found.places.tolist(), found.leaves, strict=True)]


def bits(tree):
    return [getattr(tree, name).tobytes() for name in FIELDS]


def squared_error(values):
    return float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0


def newton(gradients, hessians, rows):
    """Twice what a Newton step lowers the cost of some rows by."""
    return gradients[rows].sum() ** 2 / hessians[rows].sum()


def reference_gain(gradients, hessians, left, right):
    """By squared error, or by Newton steps; −1 if a part has no hessian."""
    both = np.concatenate([left, right])
    if hessians is None:
        return squared_error(gradients[both]) - sum(squared_error(gradients[part]) for part in (left, right))
    if min(hessians[left].sum(), hessians[right].sum()) <= 0:
        return -1.0
    return sum(newton(gradients, hessians, part) for part in (left, right)) - newton(gradients, hessians, both)


def reference_split(X, gradients, rows, ends, features, min_rows, hessians=None):
    """The best of all splits by features, thresholds and ways of missing values; the first of equal ones."""
    best = (1e-12, -1, 0.0, False)
    for j in np.flatnonzero(features):
        x = X[rows, j]
        gone = np.isnan(x)
        for missing_left in (False, True) if gone.any() else (False,):
            for threshold in [*ends[j], np.inf]:
                left = np.where(gone, missing_left, x <= threshold)
                if min(left.sum(), (~left).sum()) < min_rows:
                    continue
                gain = reference_gain(gradients, hessians, rows[left], rows[~left])
                if gain > best[0] * (1 + 1e-7):
                    best = (gain, int(j), float(threshold), missing_left)
    return best


def reference_tree(X, gradients, rows, ends, features, max_leaves, min_rows, hessians=None):
    """Nodes as lists, grown best-first; and the rows of the leaves."""
    nodes = [{"feature": -1, "count": len(rows)}]
    leaves = {0: (rows, reference_split(X, gradients, rows, ends, features, min_rows, hessians))}
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
            leaves[len(nodes)] = part, reference_split(X, gradients, part, ends, features, min_rows, hessians)
            nodes.append({"feature": -1, "count": len(part)})
    return nodes, {node: part for node, (part, _) in leaves.items()}


def assert_is_reference(tree, leaves, nodes, rows_of, rtol=1e-6):
    for name in FIELDS:
        if name != "value":
            wanted = [node.get(name, 0) for node in nodes]
            np.testing.assert_allclose(getattr(tree, name), wanted, rtol=rtol, atol=1e-9, err_msg=name)
    assert (tree.value == 0).all()
    assert {node: part.tolist() for node, part in leaves} == {node: part.tolist() for node, part in rows_of.items()}


@pytest.mark.parametrize("n_rows", [0, 1, 300, 3000, 20_000])
def test_histograms_are_sums_over_the_bins(n_rows):
    X, gradients = make(20_000, 11)
    hessians = some_hessians(20_000)
    binned = bin_features(X, 20)
    packed = pack(gradients, hessians)
    rows = np.sort(np.random.default_rng(1).choice(len(X), n_rows, replace=False)).astype(np.uint32)
    values, sums = np.empty(n_rows, np.int64), np.full((2, 8, 256), 99, np.int64)
    total = gather(packed.values, rows, values)
    assert total == packed.values[rows].sum()
    fill_groups(binned.packed_bins, binned.packed_bins.T.copy(), 1, 2, rows, values, sums)
    assert (sums[0] == 99).all()
    fill_groups(binned.packed_bins, binned.packed_bins.T.copy(), 0, 1, rows, values, sums)
    counts = np.full(256, 99)
    for j, found in enumerate(sums.reshape(16, 256)[:11]):
        codes = np.where(np.isnan(X[rows, j]), MISSING, np.searchsorted(binned.ends[j], X[rows, j]))
        assert found.sum() == total
        count_bins(binned.packed_bins[j // 8], 8 * (j % 8), rows, counts)
        np.testing.assert_array_equal(counts, np.bincount(codes, minlength=256))
        for got, unit, want in (
            (found & HESSIAN, packed.hessian_unit, hessians),
            (found >> HESSIAN_BITS, packed.gradient_unit, gradients),
        ):
            by_bin = np.bincount(codes, want[rows], minlength=256)
            assert (np.abs(got * unit - by_bin) <= 0.5001 * unit * counts + 1e-9).all()  # half a unit per row


@pytest.mark.parametrize("scale", [1e-280, 1e-9, 1.0, 1e280])
def test_gradients_and_hessians_become_whole_numbers(scale):
    gradients, hessians = scale * np.random.default_rng(0).normal(size=5000), some_hessians(5000) / scale
    packed = pack(gradients, hessians)
    half = 0.5 * (1 + 1e-6)
    got = packed.values >> HESSIAN_BITS, packed.values & HESSIAN
    np.testing.assert_allclose(got[0] * packed.gradient_unit, gradients, atol=half * packed.gradient_unit)
    np.testing.assert_allclose(got[1] * packed.hessian_unit, hessians, atol=half * packed.hessian_unit)
    assert packed.largest == got[1].max()
    assert not packed.counts_rows
    for part in got:
        assert 0.999 * 2**31 < np.abs(part).sum() < 2**31  # as fine as can be without overflow


@pytest.mark.parametrize("n", [1, 7, 100_001])
def test_without_hessians_sums_count_rows(n):
    packed = pack(np.full(n, -3.0))
    assert packed.counts_rows
    assert set((packed.values & HESSIAN).tolist()) == {packed.largest}
    total = int(packed.values.sum())
    assert (total & HESSIAN) * packed.hessian_unit == pytest.approx(n, rel=1e-12)
    assert (total >> HESSIAN_BITS) * packed.gradient_unit == pytest.approx(-3.0 * n, abs=n * packed.gradient_unit)


def test_nothing_packs_as_nothing():
    for hessians in (None, np.zeros(5)):
        assert (pack(np.zeros(5), hessians).values >> HESSIAN_BITS == 0).all()
        assert (pack(np.full(5, 5e-324), hessians).values >> HESSIAN_BITS == 0).all()  # next to nothing is nothing
    assert (pack(np.ones(5), np.zeros(5)).values & HESSIAN == 0).all()
    assert len(pack(np.empty(0), np.empty(0)).values) == len(pack(np.empty(0)).values) == 0


class Many:
    """A stand-in for an array of many equal numbers."""

    def __init__(self, value, n):
        self.value, self.n = value, n

    def __len__(self):
        return self.n

    def __getitem__(self, some):
        return self


@pytest.mark.parametrize("n", [(1 << 24) + 1, 100_000_001, MOST_ROWS])
@pytest.mark.parametrize("counted", [True, False])
def test_sums_of_many_rows_do_not_overflow(n, counted, monkeypatch):
    seen = {}

    def keep(name, result):
        def call(gradients, *given):
            seen[name] = given
            return result

        return call

    monkeypatch.setattr(histograms, "_total", lambda values, *_: abs(values.value) * values.n)
    monkeypatch.setattr(histograms, "_pack", keep("both", 1))
    monkeypatch.setattr(histograms, "_pack_counted", keep("counted", None))
    monkeypatch.setattr(histograms.np, "empty", lambda n, dtype: Many(0, n))
    for value in (1e-9, 0.7, 1.0, 3e9):
        packed = pack(Many(-value, n), None if counted else Many(value, n))
        if counted:
            per_gradient, per_row, _ = seen["counted"]
            units = (round(value * per_gradient), per_row)
            assert per_row >= 1
            assert n * per_row * packed.hessian_unit == pytest.approx(n)
        else:
            _, per_gradient, per_hessian, _ = seen["both"]
            units = (round(value * per_gradient), round(value * per_hessian))
        assert max(units) * n < 1 << 31
        assert min(units) >= 1  # none is lost where all are equal
        total = n * ((-units[0] << HESSIAN_BITS) + units[1])
        assert -(1 << 63) <= total < 1 << 63
        assert (total >> HESSIAN_BITS, total & HESSIAN) == (-units[0] * n, units[1] * n)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("by", ["squared error", "Newton gain"])
def test_the_first_split_is_the_best_of_all(seed, missing, by):
    X, gradients = make(60, 5, missing, seed)
    hessians = some_hessians(60, seed) if by == "Newton gain" else None
    min_rows = 1 + seed % 4 * 5
    tree, leaves = grown(X, gradients, max_leaves=2, min_rows=min_rows, hessians=hessians)
    ends = bin_features(X).ends
    gain, j, threshold, missing_left = reference_split(
        X, gradients, np.arange(60), ends, np.ones(5), min_rows, hessians
    )
    assert (tree.feature[0], tree.threshold[0], tree.missing_left[0]) == (j, threshold, missing_left)
    assert tree.gain[0] == pytest.approx(gain, rel=1e-4 if hessians is not None else 1e-6)
    assert reference_gain(gradients, hessians, *(rows for _, rows in leaves)) == pytest.approx(gain, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by", ["squared error", "Newton gain"])
def test_a_whole_tree_is_the_reference(seed, by):
    X, gradients = make(150, 9, 0.2, seed)
    hessians = some_hessians(150, seed) if by == "Newton gain" else None
    max_leaves, min_rows = 4 + 4 * seed, 1 + 4 * (seed % 3)
    tree, leaves = grown(X, gradients, max_leaves=max_leaves, min_rows=min_rows, hessians=hessians)
    reference = reference_tree(
        X, gradients, np.arange(150), bin_features(X).ends, np.ones(9), max_leaves, min_rows, hessians
    )  # fmt: skip
    assert_is_reference(tree, leaves, *reference, rtol=1e-6 if hessians is None else 1e-4)
    assert (tree.feature >= 0).sum() == len(leaves) - 1


def test_newton_gains_with_equal_hessians_are_those_of_the_squared_error():
    X, gradients = make(2000)
    plain, _ = grown(X, gradients, max_leaves=30, min_rows=7)
    for hessian in (1.0, 0.037):
        same, _ = grown(X, gradients, max_leaves=30, min_rows=7, hessians=np.full(2000, hessian))
        for name in FIELDS:
            factor = 1.0 / hessian if name == "gain" else 1.0
            np.testing.assert_allclose(getattr(same, name), factor * getattr(plain, name), rtol=1e-5, err_msg=name)


def test_a_tree_of_some_rows_features_and_few_bins_is_the_reference():
    X, gradients = make(400, 9, 0.2, 7)
    rng = np.random.default_rng(7)
    rows = np.flatnonzero(rng.random(400) < 0.6)
    features = np.array([1, 0, 1, 1, 1, 0, 0, 1, 1], np.bool_)
    settings = {"max_leaves": 10, "min_rows": 6}
    tree, leaves = grown(X, gradients, rows.astype(np.uint32), features, max_bins=12, **settings)
    assert_is_reference(tree, leaves, *reference_tree(X, gradients, rows, bin_features(X, 12).ends, features, 10, 6))


def test_the_sums_of_one_child_are_those_of_its_parent_less_the_other(monkeypatch):
    X, gradients = make(3000)
    settings = {"max_leaves": 30, "min_rows": 5, "hessians": some_hessians(3000)}
    by_subtraction = grown(X, gradients, **settings)[0]
    filled = []
    plain = LocalHistograms._gather
    monkeypatch.setattr(
        LocalHistograms, "_gather", lambda self, node, rows: (filled.append(len(rows)), plain(self, node, rows))[1]
    )
    grown(X, gradients, **settings)
    assert len(filled) < 31  # one of two children

    def directly(self, small, large, growth):
        for node in (small, large):
            self._look(node, growth)

    monkeypatch.setattr(LocalHistograms, "_look_at_both", directly)
    filled.clear()
    assert bits(grown(X, gradients, **settings)[0]) == bits(by_subtraction)
    assert len(filled) > 40


@pytest.mark.parametrize("min_rows", [1, 7, 40])
@pytest.mark.parametrize("max_leaves", [2, 5, 64])
@pytest.mark.parametrize("hessians", [None, some_hessians(500)], ids=["squared error", "Newton gain"])
def test_limits_hold(min_rows, max_leaves, hessians):
    X, gradients = make(500)
    tree, leaves = grown(X, gradients, max_leaves=max_leaves, min_rows=min_rows, hessians=hessians)
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
    assert len(grown(X, gradients, max_leaves=10**9, min_rows=min_rows, hessians=hessians)[1]) <= 500 // min_rows


def test_trees_depend_neither_on_threads_nor_on_what_was_grown_before(monkeypatch):
    X, gradients = make(5000, 20)
    hessians = some_hessians(5000)
    one = grown(X, gradients, hessians=hessians)[0]
    monkeypatch.setattr(grow, "_WORTH_A_THREAD", 1000)
    monkeypatch.setattr(grow, "_READ_A_THREAD", 100)
    monkeypatch.setattr(histograms, "_MOVED_A_THREAD", 100)
    for threads in (2, 3, 4, 16):
        assert bits(grown(X, gradients, threads=threads, hessians=hessians)[0]) == bits(one)
    source = LocalHistograms(bin_features(X), 2)
    rows, features = np.arange(5000, dtype=np.uint32), np.ones(20, np.bool_)
    for other in (np.cos(gradients), gradients):
        source.begin(other, rows, hessians)
        tree = Grower(source).grow(features, 0).tree
    source.close()
    assert bits(tree) == bits(one)
    assert rows.tolist() == list(range(5000))


def test_what_nodes_hold_goes_with_the_tree():
    X, gradients = make(500)
    source = LocalHistograms(bin_features(X))

    def left_behind():
        """How many objects in cycles a tree leaves."""
        source.begin(gradients, np.arange(500, dtype=np.uint32))
        gc.collect()
        gc.disable()
        try:
            grown_tree = Grower(source, min_rows=5).grow(source.varies, 0)
            assert len(grown_tree.leaves) > 5
            del grown_tree
            return gc.collect()
        finally:
            gc.enable()

    gc.freeze()  # what other tests leave takes long to look through
    # The first trees leave cycles of numba, which compiles and loads code; those of a tree would be left each time.
    assert min(left_behind() for _ in range(4)) == 0


def test_any_order_of_rows_gives_the_same_tree():
    X, gradients = make(3000)
    hessians, rng = some_hessians(3000), np.random.default_rng(5)
    tree = grown(X, gradients, hessians=hessians)[0]
    for _ in range(3):
        order = rng.permutation(3000)
        assert bits(grown(X[order], gradients[order], hessians=hessians[order])[0]) == bits(tree)


def test_nodes_draw_rows_and_features(monkeypatch):
    X, gradients = make(4000, 20)
    drawn, allowed = [], []
    plain_choose, plain_searched = Growth.choose, Growth.searched

    def choose(self, node, sums, side, words, rows, counts):
        drawn.append((len(rows), node.n_rows))
        plain_choose(self, node, sums, side, words, rows, counts)

    def searched(self, node):
        side = plain_searched(self, node)
        allowed.append(side[0])
        return side

    monkeypatch.setattr(Growth, "choose", choose)
    monkeypatch.setattr(Growth, "searched", searched)
    settings = {"node_rows": 0.6, "node_features": 0.3, "max_leaves": 12}
    features = np.arange(20) < 10
    tree, leaves = grown(X, gradients, features=features, **settings)
    assert sum(part for part, _ in drawn) / sum(rows for _, rows in drawn) == pytest.approx(0.6, abs=0.03)
    assert {int(some.sum()) for some in allowed} == {3}  # of the ten that the tree sees
    assert not np.any(allowed, axis=0)[10:].any()
    assert len({some.tobytes() for some in allowed}) > 5  # anew for every node
    assert sorted(np.concatenate([rows for _, rows in leaves]).tolist()) == list(range(4000))
    assert bits(grown(X, gradients, features=features, **settings)[0]) == bits(tree)
    assert bits(grown(X, gradients, features=features, seed=1, **settings)[0]) != bits(tree)
    only_rows = grown(X, gradients, node_rows=0.5, max_leaves=12)[0]
    assert bits(only_rows) != bits(grown(X, gradients, max_leaves=12)[0])
    assert (only_rows.gain[only_rows.feature >= 0] > 0).all()


NOTHING = {
    "constant gradients": (make()[0], np.full(300, 0.1)),
    "no gradients": (make()[0], np.zeros(300)),
    "constant features": (np.full((300, 3), 2.0), make()[1]),
    "missing features": (np.full((300, 3), np.nan), make()[1]),
    "too few rows": (make(9)[0], make(9)[1]),
    "one row": (make(1)[0], make(1)[1]),
}


@pytest.mark.parametrize("what", NOTHING)
@pytest.mark.parametrize("hessian", [None, 2.5])
def test_no_split_where_there_is_nothing_to_gain(what, hessian):
    X, gradients = NOTHING[what]
    hessians = None if hessian is None else np.full(len(X), hessian)
    tree, leaves = grown(X, gradients, max_leaves=8, min_rows=5, hessians=hessians)
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
        mixed, other = rows.copy(), np.empty(400, np.uint32)
        table = np.arange(256) <= last
        table[MISSING] = missing_left
        n_left = partition(codes.view(np.uint64).ravel(), 8 * k, table, mixed, other)
        left = np.where(codes[rows, k] == MISSING, missing_left, codes[rows, k] <= last)
        assert n_left == left.sum()
        assert mixed[:n_left].tolist() == rows[left].tolist()
        assert other[: 400 - n_left].tolist() == rows[~left].tolist()


@pytest.mark.parametrize(
    ("n_groups", "threads", "cuts"),
    [(17, 1, 1), (17, 2, 2), (17, 4, 2), (17, 16, 2), (1, 8, 1), (16, 16, 16), (40, 4, 4)],
)
def test_threads_share_groups_of_features_and_then_rows(n_groups, threads, cuts):
    assert grow._groups_at_once(n_groups, threads) == cuts
