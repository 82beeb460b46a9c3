import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse, stats

from rankwright import InputError, QueryScaler, RankingData, Standardizer
from rankwright.data import scaling
from rankwright.data.order import sizes_to_indptr

KINDS = ["minmax", "percentile", "zscore"]
TINY = 5e-324


def plain_minmax(column):
    low, high = min(column), max(column)
    return [(value - low) / (high - low) if high > low else 0.0 for value in column]


def plain_zscore(column):
    if min(column) == max(column):
        return [0.0] * len(column)
    mean, deviation = statistics.fmean(column), statistics.pstdev(column)
    return [(value - mean) / deviation for value in column]


def plain_percentile(column):
    if len(column) == 1:
        return [0.5]
    below = [sum(other < value for other in column) for value in column]
    equal = [sum(other == value for other in column) for value in column]
    return [(less + (same - 1) / 2) / (len(column) - 1) for less, same in zip(below, equal, strict=True)]


PLAIN = {"minmax": plain_minmax, "percentile": plain_percentile, "zscore": plain_zscore}


def plain_scaled(kind, X, indptr):
    scaled = np.empty(X.shape)
    for start, stop in pairwise(indptr):
        for column in range(X.shape[1]) if stop > start else ():
            scaled[start:stop, column] = PLAIN[kind](X[start:stop, column].astype(float).tolist())
    return scaled


@st.composite
def tables(draw):
    sizes = draw(st.lists(st.integers(0, 7), max_size=6))
    values = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, width=32))
    shape = (sum(sizes), draw(st.integers(0, 3)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return draw(hnp.arrays(dtype, shape, elements=values)), sizes_to_indptr(np.array(sizes, int))


@pytest.mark.parametrize("kind", KINDS)
@given(table=tables(), chunk=st.sampled_from([1, 8, 1 << 17]))
def test_query_scaling_agrees_with_plain_loops(kind, table, chunk):
    X, indptr = table
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "_CHUNK_VALUES", chunk)
        scaled = QueryScaler(kind).transform_arrays(X, indptr)
        from_sparse = QueryScaler(kind).transform_arrays(sparse.csr_array(X), indptr)
    assert scaled.dtype == from_sparse.dtype == X.dtype
    assert isinstance(from_sparse, sparse.csr_array)
    tolerance = 1e-6 if X.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(scaled, plain_scaled(kind, X, indptr), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(from_sparse.toarray(), scaled)


def test_percentiles_are_average_ranks():
    X = np.random.default_rng(0).integers(0, 30, (200, 4)).astype(float)
    ranks = stats.rankdata(X, axis=0)
    scaled = QueryScaler("percentile").transform_arrays(X, [0, 200])
    np.testing.assert_allclose(scaled, (ranks - 1) / 199, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_data_keep_their_ids_and_order(kind, as_sparse):
    X = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 0.0], [9.0, 1.0], [5.0, 5.0]], np.float32)
    qid = ["b", "a", "b", "b", "a"]
    given_X = sparse.csr_array(X) if as_sparse else X
    data = RankingData.from_arrays(given_X, [0, 1, 0, 2, 1], qid, doc_ids=list("vwxyz"), feature_names=["f", "g"])
    scaled = QueryScaler(kind).transform(data)
    assert scaled.doc_ids.tolist() == data.doc_ids.tolist()
    assert scaled.feature_names == ("f", "g")
    assert scaled.rows.tolist() == data.rows.tolist()
    assert scaled.X.dtype == np.float32
    assert scaled.is_sparse == as_sparse
    wanted = plain_scaled(kind, X[data.rows], data.indptr)
    np.testing.assert_allclose(scaled.X.toarray() if as_sparse else scaled.X, wanted, rtol=1e-6)
    assert X.tolist()[0] == [3.0, 0.0]


@pytest.mark.parametrize(("kind", "constant"), [("minmax", 0.0), ("percentile", 0.5), ("zscore", 0.0)])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e300, 1.7e308, TINY])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_constant_features(kind, constant, value, size):
    scaled = QueryScaler(kind).transform_arrays(np.full((size, 2), value), [0, size])
    assert set(scaled.ravel().tolist()) == {constant}


HARD = {
    "huge": np.array([-1.7e308, 1.7e308, 0.0, 1e300, -1e300]),
    "huge, close": np.array([1.7e308, 1.6e308, 1.7e308, 1.65e308]),
    "float32": np.array([-3e38, 3e38, 0.0, 1e38], np.float32),
    "denormal": np.array([0.0, TINY, 3 * TINY, TINY]),
    "float32 denormal": np.array([0.0, 1e-45, 3e-45], np.float32),
    "denormal and huge": np.array([0.0, TINY, 1.7e308, -1.7e308]),
    "huge, close, far from 0": np.array([1.5e154, np.nextafter(1.5e154, 2e154)]),
    "close": np.array([1.0, np.nextafter(1.0, 2.0), 1.0]),
}


@pytest.mark.parametrize("column", HARD.values(), ids=HARD)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_hard_values_stay_finite_and_in_order(column, make):
    X, indptr = make(column[:, None]), [0, len(column)]
    for kind in KINDS:
        scaled = QueryScaler(kind).transform_arrays(X, indptr)
        scaled = scaled.toarray() if sparse.issparse(scaled) else scaled
        check_scaled(column, scaled[:, 0])
        if kind == "minmax":
            assert (scaled.min(), scaled.max()) == (0, 1)
    scaled = Standardizer.fit(X).transform(X)
    check_scaled(column, (scaled.toarray() if sparse.issparse(scaled) else scaled)[:, 0])


def check_scaled(column, scaled):
    assert scaled.dtype == column.dtype
    assert np.isfinite(scaled).all()
    assert (np.diff(scaled[np.argsort(column, kind="stable")]) >= 0).all()


@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(1, 6), st.just(1)), elements=st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_any_finite_values_give_finite_results(X):
    for kind in KINDS:
        assert np.isfinite(QueryScaler(kind).transform_arrays(X, [0, len(X)])).all()
    for features in (X, sparse.csr_array(X)):
        standardizer = Standardizer.fit(features)
        assert np.isfinite(standardizer.mean).all()
        assert (np.isfinite(standardizer.scale) & (standardizer.scale > 0)).all()
        scaled = standardizer.transform(features)
        assert np.isfinite(scaled.data if sparse.issparse(scaled) else scaled).all()


@given(table=tables(), chunk=st.sampled_from([1, 8, 1 << 17]))
def test_standardizer_agrees_with_the_standard_library(table, chunk):
    X, _ = table
    if len(X) == 0:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "_CHUNK_VALUES", chunk)
        standardizer = Standardizer.fit(X)
        scaled = standardizer.transform(X)
    assert scaled.dtype == X.dtype
    tolerance = 1e-6 if X.dtype == np.float32 else 1e-9
    for column in range(X.shape[1]):
        values = X[:, column].astype(float).tolist()
        assert standardizer.mean[column] == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-9)
        deviation = statistics.pstdev(values) if min(values) < max(values) else 1.0
        assert standardizer.scale[column] == pytest.approx(deviation, rel=1e-9)
        assert scaled[:, column].tolist() == pytest.approx(plain_zscore(values), rel=tolerance, abs=tolerance)


@given(table=tables())
def test_sparse_is_scaled_alike_but_not_shifted(table):
    X, _ = table
    if len(X) == 0:
        return
    dense, standardizer = Standardizer.fit(X), Standardizer.fit(sparse.csr_array(X))
    np.testing.assert_allclose(standardizer.scale, dense.scale, rtol=1e-9)
    assert not standardizer.mean.any()
    scaled = standardizer.transform(sparse.csr_array(X))
    assert isinstance(scaled, sparse.csr_array)
    assert scaled.dtype == X.dtype
    np.testing.assert_allclose(scaled.toarray(), X / standardizer.scale, rtol=1e-6, atol=1e-30)
    np.testing.assert_array_equal(standardizer.transform(X), scaled.toarray())


def test_standardizer_is_fitted_on_training_data_and_applied_to_others():
    train = RankingData.from_arrays([[1.0, 4.0], [3.0, 4.0]], [0, 1], [1, 1])
    test = RankingData.from_arrays([[5.0, 6.0]], [1], [2], doc_ids=["d"])
    standardizer = Standardizer.fit(train)
    assert standardizer.transform(train).X.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    scaled = standardizer.transform(test)
    assert scaled.X.tolist() == [[3.0, 2.0]]
    assert scaled.doc_ids.tolist() == ["d"]
    assert Standardizer.fit(train.X).scale.tolist() == standardizer.scale.tolist() == [1.0, 1.0]


def test_results_too_large_for_their_type_become_its_largest_number():
    for make in (np.asarray, sparse.csr_array):
        standardizer = Standardizer.fit(make([[1e-30], [-1e-30]]))
        for dtype in (np.float32, np.float64):
            largest = np.finfo(dtype).max
            scaled = standardizer.transform(make(np.array([[largest], [-largest]], dtype)))
            scaled = scaled.toarray() if sparse.issparse(scaled) else scaled
            assert scaled.ravel().tolist() == [largest, -largest]


def test_far_from_zero_and_close_together():
    X = 1e9 + np.random.default_rng(0).normal(size=(1000, 1))
    standardizer = Standardizer.fit(X)
    exact = math.fsum((X[:, 0] - 1e9).tolist()) / 1000
    assert standardizer.mean.item() - 1e9 == pytest.approx(exact, abs=1e-6)
    assert standardizer.scale.item() == pytest.approx((X - 1e9).std(), rel=1e-6)


def test_mapped_files_are_read_in_pieces(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(Standardizer.fit(mapped).transform(mapped), Standardizer.fit(X).transform(X))


ERRORS = [
    (lambda: QueryScaler("rank"), "unknown scaling 'rank'; expected one of minmax, percentile, zscore"),
    (
        lambda: QueryScaler("minmax").transform_arrays(np.eye(3), [0, 2]),
        "3 rows but query boundaries from 0 to 2",
    ),
    (
        lambda: QueryScaler("minmax").transform_arrays([[np.nan]], [0, 1]),
        "row 0, feature 0 (both from 0) is nan; features must be finite",
    ),
    (lambda: Standardizer.fit(np.eye(3)).transform(np.eye(2)), "fitted on 3 features but got 2"),
    (lambda: Standardizer.fit(np.zeros((0, 3))), "no rows to fit a standardizer on"),
    (
        lambda: Standardizer.fit(np.eye(3)).transform(sparse.csr_array(np.eye(3))),
        "sparse features cannot be shifted by the mean of dense ones; fit on sparse features",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_bad_input_gets_one_clear_line(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message
