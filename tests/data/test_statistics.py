"""Statistics of features against exact fractions, and that nothing but the values matters."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from rankwright import RankingData
from rankwright.data import statistics
from rankwright.data.dataset import some_queries
from rankwright.data.statistics import Statistics
from rankwright.data.threads import Team

TOP, TINY = np.finfo(np.float64).max, 5e-324


def fractions_of(column):
    return [Fraction(float(value)) for value in column]


def plain_mean(column):
    return float(sum(fractions_of(column)) / len(column))


def plain_deviation(column):
    values = fractions_of(column)
    mean = sum(values) / len(values)
    square = sum((value - mean) ** 2 for value in values) / len(values)
    if square == 0:
        return 0.0
    places = 70 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2
    return float(math.isqrt(int(square * Fraction(4) ** places)) / Fraction(2) ** places)


def bits(found):
    return [part.tobytes() for part in (found.low, found.high, found.missing, found.means, found.deviations)]


COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "far from 0": lambda rng, n: 1e6 + rng.normal(size=n),
    "many sizes": lambda rng, n: 10.0 ** rng.uniform(-30, 30, n) * rng.choice([-1, 1], n),
    "one value": lambda rng, n: np.full(n, 0.1),
    "zeros": lambda rng, n: np.zeros(n),
    "one outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e30, rng.random(n) * 1e-20),
    "0 and 1": lambda rng, n: (rng.random(n) < 0.1).astype(float),
}
WIDE = COLUMNS | {
    "huge": lambda rng, n: np.where(rng.random(n) < 0.5, TOP, -TOP),
    "huge and small": lambda rng, n: np.where(rng.random(n) < 0.5, 1e300, 1e-100),
    "tiny": lambda rng, n: TINY * rng.integers(0, 1 << 40, n),
    "tiny squares": lambda rng, n: 1e-250 * rng.normal(size=n),
    "all sizes": lambda rng, n: 10.0 ** rng.uniform(-320, 308, n),
}


def table(dtype, n=700, seed=0):
    rng = np.random.default_rng(seed)
    kinds = COLUMNS if dtype == np.float32 else WIDE
    return np.column_stack([make(rng, n) for make in kinds.values()]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_and_deviations_are_those_of_exact_fractions(dtype):
    X = table(dtype)
    found = Statistics.of(X)
    assert np.array_equal(found.low, X.min(axis=0))
    assert np.array_equal(found.high, X.max(axis=0))
    names = list(COLUMNS if dtype == np.float32 else WIDE)
    for name, column, mean, deviation in zip(names, X.T, found.means, found.deviations, strict=True):
        assert mean == plain_mean(column), name
        expected = plain_deviation(column)
        assert abs(deviation - expected) <= np.spacing(expected), name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_but_the_values_matters(dtype, monkeypatch):
    monkeypatch.setattr(statistics, "_RUN_VALUES", 200)
    X = table(dtype)
    rng = np.random.default_rng(1)
    expected = bits(Statistics.of(X))
    assert bits(Statistics.of(X[rng.permutation(len(X))])) == expected
    assert bits(Statistics.of(sparse.csr_array(X))) == expected
    assert bits(Statistics.of(X.astype(np.float64))) == expected
    for threads in (2, 3):
        team = Team(threads)
        for form in (X, sparse.csr_array(X)):
            assert bits(Statistics.of(form, team)) == expected
        team.close()
    for n_partitions in (2, 3, 7, 16):
        parts = [Statistics.of(part) for part in np.array_split(X[rng.permutation(len(X))], n_partitions)]
        merged = parts[0]
        for part in parts[1:]:
            merged = part.merge(merged)
        assert bits(merged) == expected
        assert merged.n_rows == len(X)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(2)), elements=st.floats(-TOP, TOP)), st.data())
def test_any_numbers_in_any_parts(X, data):
    check_numbers(X, data.draw(st.integers(0, len(X))))


@pytest.mark.parametrize("small", [-7.07578079e-299, 5e-324, 1e-160, 1e-130, 2.0**-450, 2.0**-451])
def test_values_that_scaled_would_be_too_small_for_a_float(small):
    large = -3.46720988e40
    X = np.array([[small, large], [large, small], [large, large], [large, 2 * small]])
    for cut in range(len(X) + 1):
        check_numbers(X, cut)


def check_numbers(X, cut):
    found = Statistics.of(X)
    assert bits(Statistics.of(X[cut:]).merge(Statistics.of(X[:cut]))) == bits(found)
    for column, mean, deviation in zip(X.T, found.means, found.deviations, strict=True):
        assert mean == plain_mean(column)
        expected = plain_deviation(column)
        assert abs(deviation - expected) <= np.spacing(expected)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_queries_that_are_left_out_are_not_read(form, monkeypatch):
    monkeypatch.setattr(statistics, "_RUN_VALUES", 100)
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 40, 60)
    n = int(sizes.sum())
    X = rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6)
    data = RankingData.from_arrays(form(X), rng.integers(0, 3, n), group=sizes)
    for kept in (rng.random(60) < 0.5, np.arange(60) > 30, np.zeros(60, bool), np.arange(60) == 7):
        part = some_queries(data, kept)
        team = Team(3)
        found = Statistics.of(part, team)
        team.close()
        assert bits(found) == bits(Statistics.of(data.select(kept).X))
        assert found.n_rows == part.n_docs
        assert "X" not in vars(part)


def test_zeros_that_are_not_stored_count():
    X = np.array([[0.0, 5.0, 0.0, -1.0], [0.0, 6.0, 3.0, 0.0]])
    found = Statistics.of(sparse.csr_array(X))
    assert found.low.tolist() == [0.0, 5.0, 0.0, -1.0]
    assert found.high.tolist() == [0.0, 6.0, 3.0, 0.0]
    assert found.deviations.tolist() == [0.0, 0.5, 1.5, 0.5]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_missing_and_infinite_values(form):
    X = np.array([[1.0, np.nan, 2.0], [3.0, np.nan, np.inf], [np.nan, np.nan, 1.0], [8.0, np.nan, 1.0]])
    found = Statistics.of(form(X))
    assert found.missing.tolist() == [1, 4, 0]
    assert not found.is_finite
    assert (found.low[0], found.high[0], found.means[0]) == (1.0, 8.0, 4.0)
    assert found.deviations[0] == pytest.approx(np.std([1, 3, 8]))
    assert np.isnan(found.means[1:]).all()
    assert np.isnan(found.deviations[1:]).all()
    assert Statistics.of(form(X[:1, :1])).is_finite
    plain = Statistics.of(form(X), summed=False)
    assert plain.sums is None
    assert [plain.low.tolist(), plain.high.tolist()] == [found.low.tolist(), found.high.tolist()]


def test_no_rows_and_other_features():
    none, some = Statistics.of(np.empty((0, 2))), Statistics.of(np.ones((3, 2)))
    assert none.is_finite
    assert np.isnan(none.means).all()
    assert bits(none.merge(some)) == bits(some)
    with pytest.raises(ValueError, match="statistics of 2 features do not merge with those of 3"):
        some.merge(Statistics.of(np.ones((1, 3))))
