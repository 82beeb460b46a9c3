"""Sums over parts: exact in any order, the same bins as a plain sum, and right for a billion rows."""

from fractions import Fraction

import numpy as np
import pytest

from rankwright.boosting.binning import pack_bins
from rankwright.boosting.grow import Grower
from rankwright.boosting.histograms import transpose
from rankwright.boosting.partitions import (
    GRADIENT_ROOM,
    HESSIAN_ROOM,
    MOST_AT_ONCE,
    BinLayout,
    Cuts,
    NodeRows,
    PartitionHistograms,
    Units,
    exact_sums,
    fill_pairs,
    pack_pairs,
)
from rankwright.cluster.worker import add_up
from rankwright.data.threads import Team

TIMES = 5_000_000  # rows that one row stands for


def value_of(sums):
    pairs = ((int(low), int(high), at) for at, (low, high) in enumerate(sums.T))
    return sum((Fraction(low + (high << 26)) * Fraction(2) ** (at - 1075) for low, high, at in pairs), Fraction(0))


def test_sums_are_exact_for_any_cut_into_parts():
    rng = np.random.default_rng(0)
    values = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500)
    values[:4] = 0.0, -0.0, 5e-324, -1.5e-310
    whole = exact_sums(values)
    assert value_of(whole) == sum(map(abs, map(Fraction, values.tolist())))
    for cuts in ([100], [1, 2, 400]):
        assert np.array_equal(sum(exact_sums(part) for part in np.split(values, cuts)), whole)


@pytest.mark.parametrize("size", [0.0, 1e-290, 1e-9, 1.0, 7e8])
def test_units_leave_room_and_use_it(size):
    values = size * np.random.default_rng(0).random(1000)
    sums = np.stack([exact_sums(values), exact_sums(values)])
    units = Units.of(sums)
    assert units.suit(sums)
    pairs = pack_pairs(values, values, units)
    assert abs(pairs[:, 0]).sum() <= 1 << GRADIENT_ROOM
    assert (pairs[:, 1] >> 16).sum() <= (1 << HESSIAN_ROOM) + 500
    if size > 1e-200:
        assert (pairs[:, 1] >> 16).sum() >= 1 << (HESSIAN_ROOM - 3)
        assert not units.suit(sums * 4)
        assert not units.suit(np.stack([exact_sums(values / 100)] * 2))


@pytest.mark.parametrize("share", [1.0, 0.03])
def test_histograms_are_plain_sums(share):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, (16, 3000)).astype(np.uint64)
    words = np.array([sum(codes[8 * g + k] << np.uint64(8 * k) for k in range(8)) for g in range(2)], np.uint64)
    by_row = np.empty((3000, 2), np.uint64)
    transpose(words, by_row)
    rows = np.flatnonzero(rng.random(3000) < share).astype(np.uint32)
    pairs = rng.integers(-(1 << 40), 1 << 40, (len(rows), 2))
    sums = np.empty((2, 8, 256, 2), np.int64)
    fill_pairs(words, by_row, 0, 2, rows, pairs, sums)
    expected = np.zeros((16, 256, 2), np.int64)
    for feature in range(16):
        np.add.at(expected[feature], codes[feature, rows].astype(int), pairs)
    assert np.array_equal(sums.reshape(16, 256, 2), expected)


@pytest.mark.parametrize("n", [MOST_AT_ONCE, MOST_AT_ONCE + 1, 200_000])
def test_more_rows_than_are_summed_at_once(n):
    rng = np.random.default_rng(4)
    X, gradients = np.full((n, 1), 0.5), (rng.normal(size=n), rng.random(n))
    units = Units.of(np.stack([exact_sums(values) for values in gradients]))
    team = Team(1)
    part = NodeRows(
        pack_bins(X, np.arange(n), (np.array([1.0]),), team), BinLayout(np.array([2])), team, np.empty(0, np.uint64)
    )
    part.begin(np.arange(n, dtype=np.uint32), *gradients, units)
    *bins, totals = part.sums(np.zeros(1, np.int32), np.zeros(1, np.uint64), 1.0)
    scaled = [
        np.rint(values * 2.0**-unit).sum()
        for values, unit in zip(gradients, (units.gradient, units.hessian), strict=True)
    ]
    assert [own[0, 0] for own in bins] == pytest.approx([*scaled, n], rel=1e-9)
    assert totals[0, :3].tolist() == [own[0, 0] for own in bins]
    assert bins[2].tolist() == [[n, 0, 0]]


class Many:
    """A few rows, each of which stands for many: what so many parts would send together."""

    def __init__(self, X, ends, gradients, times, n_partitions):
        self._each, self._n_parts, self._ends, self.n_rows = times // n_partitions, n_partitions, ends, len(X) * times
        self.units = Units.of(np.stack([exact_sums(values) for values in gradients]) * times)
        team, layout = Team(1), BinLayout(np.array([len(own) + 1 for own in ends]))
        self._part = NodeRows(pack_bins(X, np.arange(len(X)), ends, team), layout, team, np.empty(0, np.uint64))
        self._part.begin(np.arange(len(X), dtype=np.uint32), *gradients, self.units)

    def look(self, cuts, nodes, salts):
        self._part.divide(cuts)
        of_part = tuple(own * self._each for own in self._part.sums(nodes, salts, 1.0))
        return add_up([of_part] * self._n_parts)

    def grow(self, counts_rows=False, **settings):
        varies = np.ones(len(self._ends), bool)
        source = PartitionHistograms(self._ends, varies, frozenset(), self.n_rows, counts_rows=counts_rows)
        root = self.look(Cuts.of([], [], [], []), np.zeros(1, np.int32), np.zeros(1, np.uint64))
        source.few = 0
        source.begin(root, self.look, None, self.units)
        return Grower(source, **settings).grow(varies, 0)


@pytest.mark.parametrize("counts_rows", [False, True], ids=["newton", "squared"])
def test_a_tree_of_a_billion_rows_is_that_of_one_in_five_million(counts_rows):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    gradients = np.sin(2 * X[:, 0]) + rng.normal(size=200) * 0.3, rng.random(200)
    X[rng.random(X.shape) < 0.1] = np.nan
    ends = tuple(np.linspace(-2, 2, 30).astype(np.float32) for _ in range(5))
    found, steps = [], []
    for times, n_partitions in ((1, 1), (TIMES, 100)):
        rows = Many(X, ends, gradients, times, n_partitions)
        grown = rows.grow(max_leaves=12, min_rows=8 * times, counts_rows=counts_rows)
        unit = 2.0 ** (rows.units.gradient - rows.units.hessian)
        totals = np.array([leaf.totals for leaf in grown.leaves])
        found.append(grown)
        steps.append(totals[:, 0] / totals[:, 1] * unit)
    few, many = found
    assert (few.tree.feature >= 0).sum() == 11
    for name in ("feature", "threshold", "missing_left", "left"):
        assert np.array_equal(getattr(few.tree, name), getattr(many.tree, name))
    assert np.array_equal(few.tree.count * TIMES, many.tree.count)
    assert totals[:, 2].sum() == 1_000_000_000
    assert many.tree.gain == pytest.approx(few.tree.gain * TIMES, rel=1e-4)  # equal rows are rounded alike
    assert steps[0] == pytest.approx(steps[1], rel=1e-3)
    direct = [gradients[0].sum(), gradients[1].sum()]
    whole = totals.sum(axis=0)
    assert whole[0] * 2.0**rows.units.gradient == pytest.approx(direct[0] * TIMES, rel=1e-3)
    assert whole[1] * 2.0**rows.units.hessian == pytest.approx(direct[1] * TIMES, rel=1e-5)


def test_features_that_part_a_node_alike_gain_alike():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 1))
    X = np.column_stack([X, -X])
    gradients = np.sin(3 * X[:, 0]) + rng.normal(size=300), rng.random(300)
    limits = np.sort(rng.normal(size=40))
    rows = Many(X, (limits, -limits[::-1]), gradients, 1, 1)
    assert set(rows.grow(max_leaves=8, min_rows=5).tree.feature.tolist()) == {-1, 0}  # the first of equal ones
