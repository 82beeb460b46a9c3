"""Bins: every code is what a search of the ends says, and the ends cut a feature into equal parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rankwright.boosting import binning
from rankwright.boosting.binning import GROUP, MISSING, bin_features


def codes_of(binned):
    """The bin of every value, rows × features."""
    octets = binned.packed_bins.view(np.uint8).reshape(len(binned.packed_bins), binned.n_rows, GROUP)
    return np.concatenate(list(octets), axis=1)[:, : binned.n_features]


def expected_codes(X, ends):
    found = [np.searchsorted(own, column, side="left") for own, column in zip(ends, X.T, strict=True)]
    return np.where(np.isnan(X), MISSING, np.column_stack(found))


def mixed_features(n=3000, dtype=np.float32, seed=0):
    """Continuous, rounded, sparse, constant, missing and huge columns; eleven, so that a group is not full."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 11))
    X[:, 1] = np.round(X[:, 1] * 2)
    X[:, 2] = np.where(rng.random(n) < 0.9, 0.0, X[:, 2])
    X[:, 3] = 7.0
    X[rng.random(n) < 0.3, 4] = np.nan
    X[:, 5] = np.nan
    X[:, 6] *= np.finfo(dtype).max / 100
    X[:, 7] = np.exp(5 * X[:, 7])
    X[:, 8] = np.where(X[:, 8] > 0, np.nan, 1.0)
    X[:, 9] = -np.abs(X[:, 9]) * np.finfo(dtype).tiny
    return np.ascontiguousarray(X.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_bins", [2, 3, 16, 17, 128, 254, 255])
def test_codes_are_those_of_a_search(dtype, max_bins):
    X = mixed_features(dtype=dtype)
    binned = bin_features(X, max_bins)
    assert (binned.n_rows, binned.n_features) == X.shape
    assert all(ends.dtype == dtype and len(ends) < max_bins and (np.diff(ends) > 0).all() for ends in binned.ends)
    np.testing.assert_array_equal(codes_of(binned), expected_codes(X, binned.ends))
    unused = codes_of(bin_features(np.pad(X, ((0, 0), (0, 5)))))[:, 11:]
    assert (unused == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    X=hnp.arrays(
        st.sampled_from([np.float32, np.float64]),
        st.tuples(st.integers(1, 40), st.integers(1, 9)),
        elements=st.floats(width=32, allow_infinity=False),
    ),
    max_bins=st.integers(2, 255),
)
def test_any_values(X, max_bins):
    binned = bin_features(X, max_bins)
    np.testing.assert_array_equal(codes_of(binned), expected_codes(X, binned.ends))
    for column, ends in zip(X.T, binned.ends, strict=True):
        values = np.unique(column[~np.isnan(column)])
        if len(values) <= max_bins:  # a bin for each value, and the ends between them
            assert len(ends) == max(len(values) - 1, 0)
            assert (values[:-1] <= ends).all()
            assert (ends < values[1:]).all()


def test_few_values_get_a_bin_each_however_rare():
    X = np.repeat([3.0, 1.0, 2.0, 10.0], [1, 10_000, 5, 1])[:, None]
    binned = bin_features(X, 4)
    assert binned.ends[0].tolist() == [1.5, 2.5, 6.5]
    assert np.bincount(codes_of(binned)[:, 0]).tolist() == [10_000, 5, 1, 1]


def test_neighbouring_numbers_are_told_apart():
    values = np.array([1.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0)])
    binned = bin_features(values[:, None])
    assert binned.ends[0].tolist() == values[:2].tolist()  # no number between: the lower one is the end
    assert codes_of(binned)[:, 0].tolist() == [0, 1, 2]


def test_extreme_values_do_not_overflow():
    top = np.finfo(np.float64).max
    binned = bin_features(np.array([[-top], [top], [0.0], [np.nan]]))
    assert codes_of(binned)[:, 0].tolist() == [0, 2, 1, MISSING]
    binned = bin_features(np.array([[-top], [top]]))
    assert codes_of(binned)[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("max_bins", [10, 64, 255])
def test_many_values_are_cut_into_equal_parts(max_bins):
    n = 20_000
    binned = bin_features(np.random.default_rng(1).lognormal(size=(n, 1)), max_bins)
    sizes = np.bincount(codes_of(binned)[:, 0], minlength=max_bins)
    assert len(sizes) == max_bins
    assert sizes.min() >= n // max_bins - 1
    assert sizes.max() <= n // max_bins + 2


def test_a_value_that_is_frequent_does_not_take_the_bins_of_the_others():
    rng = np.random.default_rng(2)
    values = np.where(rng.random(20_000) < 0.5, 0.0, rng.random(20_000) + 0.5)
    sizes = np.bincount(codes_of(bin_features(values[:, None], 100))[:, 0])
    assert sizes[0] == (values == 0).sum()  # alone in its bin
    others = (values > 0).sum() / 99
    assert len(sizes) == 100
    assert sizes[1:].min() >= int(others) - 1
    assert sizes[1:].max() <= int(others) + 2
    low_and_high = np.where(values == 0, 1.0, np.where(rng.random(20_000) < 0.1, 9.0, values))  # two such values
    codes = codes_of(bin_features(low_and_high[:, None], 20))[:, 0]
    assert len(np.unique(codes[low_and_high == 1.0])) == len(np.unique(codes[low_and_high == 9.0])) == 1
    assert np.bincount(codes)[-1] == (low_and_high == 9.0).sum()
    assert codes.max() == 19


def test_constant_and_missing_features_have_one_bin():
    X = np.column_stack([np.full(50, 3.0), np.full(50, np.nan), np.where(np.arange(50) < 9, np.nan, -1.0)])
    binned = bin_features(X)
    assert [len(ends) for ends in binned.ends] == [0, 0, 0]
    assert np.unique(codes_of(binned), axis=0).tolist() == [[0, MISSING, 0], [0, MISSING, MISSING]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_give_the_same_bits(dtype):
    X = mixed_features(10_000, dtype)
    one, two = bin_features(X, threads=1), bin_features(X, threads=3)
    assert one.packed_bins.tobytes() == two.packed_bins.tobytes()
    assert [ends.tobytes() for ends in one.ends] == [ends.tobytes() for ends in two.ends]


def test_of_many_rows_a_sample_decides(monkeypatch):
    monkeypatch.setattr(binning, "_SAMPLE", 500)
    X = mixed_features(4000)
    binned = bin_features(X, 32, seed=3)
    np.testing.assert_array_equal(codes_of(binned), expected_codes(X, binned.ends))  # all rows are binned
    rows = np.sort(np.random.default_rng(3).choice(4000, 500, replace=False))
    for found, wanted in zip(binned.ends, bin_features(X[rows], 32).ends, strict=True):
        np.testing.assert_array_equal(found, wanted)
    sizes = np.bincount(codes_of(binned)[:, 0], minlength=32)
    assert sizes.min() > 4000 / 32 / 3
    assert sizes.max() < 4000 / 32 * 3
    assert bin_features(X, 32, seed=3).packed_bins.tobytes() == binned.packed_bins.tobytes()
    assert bin_features(X, 32, seed=4).packed_bins.tobytes() != binned.packed_bins.tobytes()


def test_read_only_and_few_rows():
    X = mixed_features(20)
    X.flags.writeable = False
    np.testing.assert_array_equal(codes_of(bin_features(X)), expected_codes(X, bin_features(X).ends))
    assert codes_of(bin_features(X[:1])).tolist() == expected_codes(X[:1], bin_features(X[:1]).ends).tolist()
