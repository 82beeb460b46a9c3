"""Splits of categorical features against all subsets, and bounded splits and monotone trees against brute force."""

import dataclasses
import itertools

import numpy as np
import pytest
from numba import njit, typeof

from rankwright.boosting.binning import GROUP, MISSING, bin_features
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.grow import Grower, LocalHistograms, leaf_bounds
from rankwright.boosting.histograms import (
    HESSIAN_BITS,
    as_sets,
    best_bounded_split,
    best_of,
    best_split,
    category_order,
    chance_gain,
    left_bins,
    permuted,
)
from rankwright.boosting.tree_model import TreeModel

NO_COUNTS = np.zeros(256, np.int64)


def histogram_of(rng, n_bins, some_missing):
    """Random packed sums of bins, some of them empty."""
    found = np.zeros(256, np.int64)
    for b in [*range(n_bins), *([MISSING] if some_missing else [])]:
        if rng.random() < 0.9:
            found[b] = (int(rng.integers(-1000, 1000)) << HESSIAN_BITS) + int(rng.integers(1, 500))
    return found


def parts(packed):
    return int(packed) >> HESSIAN_BITS, int(packed) & ((1 << HESSIAN_BITS) - 1)


def gain_of(left, total):
    (g_left, h_left), (g, h) = parts(left), parts(total)
    if not 0 < h_left < h:
        return -1.0
    return g_left**2 / h_left + (g - g_left) ** 2 / (h - h_left) - g**2 / h


@pytest.mark.parametrize("some_missing", [False, True])
@pytest.mark.parametrize("n_bins", [1, 2, 3, 5, 8])
def test_the_search_in_order_finds_the_best_of_all_subsets(n_bins, some_missing):
    rng = np.random.default_rng(n_bins)
    for _ in range(20):
        histogram = histogram_of(rng, n_bins, some_missing)
        total = histogram.sum()
        there = [*range(n_bins), *([MISSING] if some_missing else [])]
        every = [
            gain_of(histogram[list(chosen)].sum(), total)
            for size in range(1, len(there))
            for chosen in itertools.combinations(there, size)
        ]
        order = category_order(histogram, n_bins, total, 0.0)
        gain, last, missing_left = best_split(permuted(histogram, order), n_bins, total, 1, NO_COUNTS, 0)
        assert gain == pytest.approx(max([-1.0, *every]), rel=1e-12, abs=1e-9)
        if gain >= 0:
            table = left_bins(order, last, missing_left)
            assert gain == pytest.approx(gain_of(histogram[table].sum(), total), rel=1e-12, abs=1e-9)


def test_smoothing_moves_rare_categories_to_the_middle():
    histogram = np.zeros(256, np.int64)
    for b, (g, h) in enumerate([(-900, 1000), (-3, 1), (0, 0), (900, 1000)]):
        histogram[b] = (g << HESSIAN_BITS) + h
    total = histogram.sum()
    assert category_order(histogram, 4, total, 0.0).tolist() == [1, 0, 2, 3]
    assert category_order(histogram, 4, total, 100.0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("n_bins", "uneven"), [(20, False), (80, True), (200, False)])
def test_chance_gains_what_is_taken_off(n_bins, uneven):
    """Gradients that do not depend on the categories: the mean gain of the best split, over many draws."""
    rng = np.random.default_rng(n_bins)
    hessians = rng.integers(200, 20_000 if uneven else 201, n_bins)
    noise, gains = 2500.0, []
    histogram = np.zeros(256, np.int64)
    for _ in range(200):
        gradients = np.rint(rng.normal(size=n_bins) * np.sqrt(noise * hessians)).astype(np.int64)
        histogram[:n_bins] = (gradients << HESSIAN_BITS) + hessians
        total = histogram.sum()
        order = category_order(histogram, n_bins, total, 0.0)
        gains.append(best_split(permuted(histogram, order), n_bins, total, 1, NO_COUNTS, 0)[0])
    assert np.mean(gains) == pytest.approx(chance_gain(histogram, n_bins, noise), rel=0.15)
    assert chance_gain(histogram, 1, noise) == pytest.approx(0, abs=1e-9)
    assert chance_gain(np.zeros(256, np.int64), 9, noise) == 0


def test_sets_are_those_of_the_tables():
    rng = np.random.default_rng(0)
    tables = rng.random((5, 256)) < 0.5
    sets = as_sets(list(tables))
    for table, words in zip(tables, sets, strict=True):
        bits = [bool(int(words[c >> 6]) >> (c & 63) & 1) for c in range(256)]
        assert bits == [*table[:MISSING].tolist(), False]
    assert as_sets([]).shape == (0, 4)


def grown(X, gradients, categories=None, hessians=None, max_leaves=8, min_rows=1, **settings):
    source = LocalHistograms(bin_features(X, categories=categories))
    source.begin(gradients, np.arange(len(X), dtype=np.uint32), hessians)
    found = Grower(source, max_leaves, min_rows, **settings).grow(source.varies, 0)
    source.close()
    leaves = zip(found.places.tolist(), found.leaves, strict=True)
    return found.tree, [(place, source.rows_of(leaf)) for place, leaf in leaves]


@pytest.mark.parametrize("n_categories", [3, 70, 255])
def test_rows_reach_the_leaves_they_were_grown_in(n_categories):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 10))
    X[:, 9] = rng.integers(0, n_categories, 600)
    X[rng.random(600) < 0.1, 9] = np.nan
    effect = rng.normal(size=n_categories)[np.nan_to_num(X[:, 9]).astype(int)]
    tree, leaves = grown(X, effect + X[:, 0], {9: n_categories}, max_leaves=20, chance=0.0)
    assert {0, 9} <= set(tree.feature.tolist())
    assert (tree.subset[tree.feature == 9] >= 0).all()
    value = np.zeros(len(tree.feature))
    for number, (node, _) in enumerate(leaves, 1):
        value[node] = number
    model = TreeModel(
        10, None, Forest.of([dataclasses.replace(tree, value=value)]), categories={9: range(n_categories)}
    )
    model.forest.check(10, (9,))
    scores = model.score(X)
    for node, rows in leaves:
        assert (scores[rows] == value[node]).all()


def test_one_split_is_the_best_of_all_subsets_of_the_data():
    rng = np.random.default_rng(2)
    for _ in range(10):
        codes = rng.integers(0, 6, 60)
        gradients, hessians = rng.normal(size=60), rng.random(60) + 0.1
        tree, leaves = grown(
            codes[:, None].astype(float), gradients, {0: 6}, hessians, max_leaves=2, smooth_rows=0.0, chance=0.0
        )
        present = np.unique(codes)

        def gain(left, gradients=gradients, hessians=hessians):
            return sum(gradients[part].sum() ** 2 / hessians[part].sum() for part in (left, ~left))

        best = max(
            gain(np.isin(codes, chosen))
            for size in range(1, len(present))
            for chosen in itertools.combinations(present.tolist(), size)
        )
        left = np.isin(np.arange(60), leaves[0][1])
        assert gain(left) == pytest.approx(best, rel=1e-6)
        assert tree.gain[0] == pytest.approx(best - gradients.sum() ** 2 / hessians.sum(), rel=1e-5)


def test_rows_are_counted_where_categories_are_few():
    """A category of fewer rows than a leaf may have joins others."""
    codes = np.repeat([0, 1, 2], [3, 40, 40])
    gradients = np.where(codes == 0, 100.0, np.where(codes == 1, 1.0, -1.0))
    tree, leaves = grown(codes[:, None].astype(float), gradients, {0: 3}, np.ones(83), max_leaves=2, min_rows=20)
    assert sorted(len(rows) for _, rows in leaves) == [40, 43]
    assert tree.count.tolist()[0] == 83


def worth(packed, low, high):
    g, h = parts(packed)
    value = min(max(g / h, low), high)
    return value * (2 * g - h * value), value


@pytest.mark.parametrize("some_missing", [False, True])
@pytest.mark.parametrize("way", [-1, 0, 1])
@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (-0.5, np.inf), (-np.inf, 0.2), (-0.3, 0.4)])
def test_bounded_splits_are_the_best_of_all(low, high, way, some_missing):
    rng = np.random.default_rng(4)
    for _ in range(30):
        histogram = histogram_of(rng, 7, some_missing)
        total = histogram.sum()
        best = -1.0
        for missing_left in (False, True) if histogram[MISSING] else (False,):
            for last in range(7 if histogram[MISSING] and not missing_left else 6):
                left = histogram[: last + 1].sum() + missing_left * histogram[MISSING]
                if not 0 < parts(left)[1] < parts(total)[1]:
                    continue
                (one, a), (two, b) = worth(left, low, high), worth(total - left, low, high)
                if last < 6 and way * (b - a) < 0:
                    continue
                best = max(best, one + two - worth(total, low, high)[0])
        found = best_bounded_split(histogram, 7, total, 1, NO_COUNTS, 0, way, low, high)
        assert found[0] == pytest.approx(best, rel=1e-9, abs=1e-6)


def random_tree(rng, n_features, n_leaves):
    """A tree of random splits, some of which only set missing values apart."""
    feature, threshold, left = [-1], [0.0], [0]
    for _ in range(n_leaves - 1):
        node = int(rng.choice(np.flatnonzero(np.array(feature) < 0)))
        feature[node], left[node] = int(rng.integers(n_features)), len(feature)
        threshold[node] = np.inf if rng.random() < 0.1 else float(np.round(rng.normal(), 1))
        feature += [-1, -1]
        threshold += [0.0, 0.0]
        left += [0, 0]
    n = len(feature)
    return Tree(
        np.array(feature, np.int32), np.array(threshold), rng.random(n) < 0.5, np.array(left, np.int32), np.zeros(n),
        np.zeros(n), np.ones(n),
    )  # fmt: skip


def test_any_tree_is_monotone_within_its_bounds():
    rng = np.random.default_rng(5)
    grid = np.linspace(-4, 4, 41)
    for _ in range(30):
        tree = random_tree(rng, 3, int(rng.integers(2, 16)))
        n = len(tree.feature)
        low, high = leaf_bounds(tree, {0: 1, 2: -1}, rng.normal(size=n), rng.random(n))
        assert (low <= high).all()
        value = np.clip(rng.normal(size=n) * 3, low, high)
        model = TreeModel(3, None, Forest.of([dataclasses.replace(tree, value=value)]))
        X = rng.normal(size=(40, 3))
        X[rng.random(X.shape) < 0.2] = np.nan
        for j, way in ((0, 1), (2, -1)):
            moved = np.repeat(X, len(grid), axis=0)
            moved[:, j] = np.tile(grid, len(X))
            assert (way * np.diff(model.score(moved).reshape(len(X), -1), axis=1) >= 0).all()


def test_bounds_leave_the_best_values_alone_where_these_are_in_order():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 2))
    tree, leaves = grown(X, X[:, 0] ** 3, hessians=np.ones(400), directions={0: 1})
    sums, hessians = np.zeros(len(tree.feature)), np.zeros(len(tree.feature))
    for node, rows in leaves:
        sums[node], hessians[node] = (X[rows, 0] ** 3).sum(), len(rows)
    low, high = leaf_bounds(tree, {0: 1}, sums, hessians)
    at = [node for node, _ in leaves]
    assert ((low <= sums / np.maximum(hessians, 1))[at] & (sums / np.maximum(hessians, 1) <= high)[at]).all()


def test_the_words_of_categories_hold_their_numbers():
    X = np.array([[0.0, 5.0], [2.0, 5.5], [np.nan, 7.0], [1.0, 5.0]])
    binned = bin_features(X, categories={0: 3})
    assert [int(word) & 255 for word in binned.packed_bins[0]] == [0, 2, MISSING, 1]
    assert binned.categorical == {0}
    assert GROUP == 8
    assert [len(ends) for ends in bin_features(X, categories={0: 0, 1: 1}).ends] == [0, 0]


@pytest.mark.parametrize("special", [None, (np.zeros(1, np.bool_), np.zeros(1, np.int64))], ids=["plain", "special"])
def test_plain_features_compile_no_special_splits(special):
    afresh = njit(best_of.py_func)
    given = (NO_COUNTS, np.array([3]), special, 0, (0, -np.inf, np.inf, 0.0), (1, 0.0), NO_COUNTS, 0)
    afresh.compile(tuple(typeof(each) for each in given))
    (code,) = afresh.inspect_llvm().values()
    for name in ("best_bounded_split", "category_order"):
        assert (name in code) == (special is not None)


@pytest.mark.parametrize("n_bins", [1, 2, 15, 16, 17, 33, 48, 100, 255])
def test_equal_means_keep_the_order_of_their_categories(n_bins):
    means = np.random.default_rng(3).integers(-3, 4, n_bins)
    histogram = np.zeros(256, np.int64)
    histogram[:n_bins] = (means << HESSIAN_BITS) + 1
    order = category_order(histogram, n_bins, int(histogram.sum()), 0.0)
    np.testing.assert_array_equal(order, np.argsort(means, kind="stable"))
