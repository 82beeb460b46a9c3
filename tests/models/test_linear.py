"""The linear model: every bit of a score depends on its row only."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankwright import InputError, QueryScaler
from rankwright.models.linear import LinearModel


def make(n_rows=700, n_features=46, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n_rows, n_features)) * np.exp(rng.normal(size=n_features) * 3)).astype(dtype)
    X[rng.random(X.shape) < 0.4] = 0
    return LinearModel(rng.normal(size=n_features)), X


def left_to_right(model, X):
    scores = []
    for row in X.astype(np.float64).tolist():
        score = 0.0
        for weight, value in zip(model.coef.tolist(), row, strict=True):
            score += weight * value
        scores.append(score)
    return np.array(scores)


def same_bits(one, other):
    return one.dtype == other.dtype == np.float64 and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 2, 7, 46, 136])
def test_products_are_summed_in_the_order_of_the_features(dtype, n_features):
    model, X = make(n_features=n_features, dtype=dtype)
    expected = left_to_right(model, X)
    assert same_bits(model.score(X), expected)
    assert same_bits(model.score(sparse.csr_array(X)), expected)
    assert same_bits(model.score(np.asfortranarray(X)), expected)
    np.testing.assert_allclose(model.score(X), X.astype(float) @ model.coef, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.integers(0, 699), max_size=600), csr=st.booleans())
def test_a_row_has_the_same_score_in_any_batch(rows, csr):
    model, X = make()
    scores = model.score(X)
    part = sparse.csr_array(X)[rows] if csr else X[rows]
    assert same_bits(model.score(part), scores[rows])


def test_zeros_at_the_end_may_be_left_out_if_that_is_said():
    model, X = make()
    X[:, 40:] = 0
    full, names = model.score(X), [f"f{at}" for at in range(1, 41)]
    for part in (X[:, :40], sparse.csr_array(X[:, :40])):
        assert same_bits(model.predict(part, missing_as_zero=True), full)
        assert same_bits(model.score(*model.with_missing(part, names)), full)
        for called in (None, names):
            with pytest.raises(InputError, match="the data has 40 features, but the model has 46"):
                model.score(part, called)
            with pytest.raises(InputError, match="the data has 40 features, but the model has 46"):
                model.aligned(part, called)


def test_memory_maps_whole_numbers_and_odd_shapes(tmp_path):
    model, X = make()
    np.save(tmp_path / "X.npy", X)
    assert same_bits(model.score(np.load(tmp_path / "X.npy", mmap_mode="r")), model.score(X))
    assert LinearModel([2, 3]).score([[1, 1], [0, 2]]).tolist() == [5, 6]
    assert model.score(X[:0]).shape == (0,)
    assert model.score(sparse.csr_array(X[:0])).shape == (0,)
    assert LinearModel([]).score(np.ones((3, 0))).tolist() == [0, 0, 0]
    assert model.score(sparse.csr_array((3, 46))).tolist() == [0, 0, 0]
    assert str(LinearModel([-1.0]).score([[0.0]])[0]) == "0.0"


def test_sparse_rows_are_read_in_chunks(monkeypatch):
    monkeypatch.setattr("rankwright.models.linear._SPARSE_VALUES", 10)
    model, X = make(60)
    X[5:40] = 0
    assert same_bits(model.score(sparse.csr_array(X)), left_to_right(model, X))


def test_sparse_values_that_stand_twice_or_out_of_order():
    X = sparse.csr_array(([1.0, 2.0, 4.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    assert LinearModel([10.0, 1.0]).score(X).tolist() == [25.0]
    assert X.indices.tolist() == [1, 0, 1]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_are_found_by_name(form):
    model, X = make(50, 4)
    named = LinearModel(model.coef, ("a", "b", "c", "d"))
    mixed = form(np.column_stack([X[:, 2], X[:, 0], X[:, 1], X[:, 0] * 7, X[:, 3]]))
    assert same_bits(named.score(mixed, ["c", "a", "b", "unknown", "d"]), model.score(X))
    np.testing.assert_array_equal(named.aligned(mixed, ["c", "a", "b", "unknown", "d"]), X)
    assert same_bits(named.score(form(X)), model.score(X))
    assert same_bits(model.score(form(X), ["w", "x", "y", "z"]), model.score(X))


@pytest.mark.parametrize(
    ("names", "n_columns", "given", "message"),
    [
        (None, 5, None, "the data has 5 features, but the model has 4"),
        (None, 3, ("a", "b", "c"), "the data has 3 features, but the model has 4"),
        ("abcd", 5, None, "the data has 5 features, but the model has 4"),
        ("abcd", 3, tuple("bda"), "the data lacks 1 of the model's 4 features: 'c'"),
        ("abcd", 2, ("f1", "f2"), "lacks 4 of the model's 4 features: 'a', 'b', 'c', 'd'"),
        ("abcd", 4, tuple("aabc"), "the data has two features of the same name"),
        ("aabc", 4, tuple("abcd"), "the model has two features of the same name"),
        (None, 4, ("a",), "4 features but 1 feature names"),
    ],
)
def test_features_that_do_not_fit(names, n_columns, given, message):
    model = LinearModel(np.ones(4), None if names is None else tuple(names))
    with pytest.raises(InputError, match=message):
        model.score(np.ones((2, n_columns)), given)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], "must be a table"),
        ([["a", "b"]], "must be numbers"),
        ([[1.0, np.nan]], "row 0 .* has no '.*' "),
        ([[0.0, 0.0], [1e308, 1e308]], "score of row 1 .* is inf"),
    ],
)
def test_features_that_cannot_be_scored(X, message):
    with pytest.raises(InputError, match=message):
        LinearModel([10.0, 10.0]).score(X)


@pytest.mark.parametrize(
    ("coef", "names", "message"),
    [
        ([[1.0]], None, "one weight per feature"),
        ([1.0, np.nan], None, "weight of feature 1"),
        (["x"], None, "must be numbers"),
        ([1.0], ("a", "b"), "1 features but 2 feature names"),
    ],
)
def test_weights_that_cannot_be_used(coef, names, message):
    with pytest.raises(InputError, match=message):
        LinearModel(coef, names)


def test_the_weights_cannot_be_changed():
    given_weights = np.array([1.0, 2.0])
    model = LinearModel(given_weights)
    given_weights[0] = 9
    assert model.coef.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        model.coef[0] = 3
    assert model.names == ("f1", "f2")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_contributions_sum_to_the_difference_of_the_scores(form):
    model, X = make(2)
    a, b = form(X[:1]), form(X[1:])
    found = model.contributions(a, b)
    np.testing.assert_array_equal(found, model.coef * (X[0].astype(float) - X[1]))
    assert found.sum() == pytest.approx(np.subtract(*model.score(X)))
    with pytest.raises(InputError, match="features of one document"):
        model.contributions(form(X), b)


KINDS = ("minmax", "percentile", "zscore")
BOUNDS = [0, 1, 1, 40, 41, 300, 700]  # a query of one row, one of none


def scaling_model(kind, n_features=6):
    model, X = make(n_features=n_features)
    return model, LinearModel(model.coef, query_scaling=kind), X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("block", [1, 300, 1 << 20])  # one query at a time, some, all
def test_scaling_within_queries_comes_first(monkeypatch, kind, form, block):
    plain, scaling, X = scaling_model(kind)
    scaled = QueryScaler(kind).transform_arrays(X, BOUNDS)
    expected = plain.score(scaled)
    monkeypatch.setattr("rankwright.models.linear._BLOCK_VALUES", block)
    assert same_bits(scaling.score(form(X), indptr=BOUNDS), expected)
    np.testing.assert_array_equal(scaling.aligned(form(X), indptr=BOUNDS), scaled)
    for start, stop in pairwise(BOUNDS):  # without boundaries all rows are one query
        assert same_bits(scaling.score(form(X[start:stop])), expected[start:stop])
    assert not np.allclose(scaling.score(form(X)), expected)
    assert same_bits(plain.score(form(X), indptr=BOUNDS), plain.score(X))  # of no effect without scaling


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_scaling_of_columns_left_out_and_found_by_name(kind, form):
    _, scaling, X = scaling_model(kind)
    X[:, 4:] = 0  # which percentiles turn into 0.5
    full = scaling.score(X, indptr=BOUNDS)
    wide, names = scaling.with_missing(form(X[:, :4]), None)
    assert same_bits(scaling.score(wide, names, BOUNDS), full)
    np.testing.assert_array_equal(scaling.aligned(wide, names, BOUNDS), scaling.aligned(X, indptr=BOUNDS))
    named = LinearModel(scaling.coef, tuple("abcdef"), kind)
    mixed = np.column_stack([X[:, ::-1], np.arange(len(X), dtype=X.dtype)])
    assert same_bits(named.score(form(mixed), [*"fedcba", "unknown"], BOUNDS), full)


def test_scaling_of_memory_maps_whole_numbers_and_nothing(tmp_path):
    _, scaling, X = scaling_model("zscore")
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert same_bits(scaling.score(mapped, indptr=BOUNDS), scaling.score(X, indptr=BOUNDS))
    assert scaling.score(X[:0]).shape == scaling.score(X[:0], indptr=[0, 0]).shape == (0,)
    assert LinearModel([4.0], query_scaling="minmax").score([[1], [3], [2]]).tolist() == [0, 4, 2]
    assert LinearModel([], query_scaling="percentile").score(np.ones((3, 0))).tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_contributions_of_scaled_features(kind, form):
    _, scaling, X = scaling_model(kind)
    query = X[:30]
    query[7] = query[3]
    scores = scaling.score(query)
    for a, b in ((3, 20), (20, 3), (7, 3), (5, 5)):
        found = scaling.contributions(form(query[[a]]), form(query[[b]]), query=form(query))
        assert found.sum() == pytest.approx(scores[a] - scores[b], abs=1e-12)
        np.testing.assert_array_equal(found, scaling.coef * np.subtract(*scaling.aligned(query)[[a, b]]))
    named = LinearModel(scaling.coef, tuple("abcdef"), kind)
    turned = named.contributions(query[3, ::-1], query[20, ::-1], "fedcba", query[:, ::-1])
    np.testing.assert_array_equal(turned, scaling.contributions(query[3], query[20], query=query))
    with pytest.raises(InputError, match="scales features within a query; give query=, the features of all its doc"):
        scaling.contributions(query[3], query[20])
    with pytest.raises(InputError, match="a document to compare is not among the documents of the query"):
        scaling.contributions(query[3], query[20] + 1, query=query)


@pytest.mark.parametrize("indptr", [[], [0], [0, 3], [1, 4], [0, 3, 2, 4], [[0, 4]], [0.0, 4.0], ["0", "4"]], ids=str)
def test_boundaries_that_do_not_fit(indptr):
    with pytest.raises(InputError, match="query boundaries must be ascending whole numbers from 0 to 4, the number of"):
        LinearModel([1.0], query_scaling="minmax").score(np.ones((4, 1)), indptr=indptr)


def test_scalings_that_cannot_be_used():
    with pytest.raises(InputError, match="unknown scaling 'ranks'; expected one of minmax, percentile, zscore"):
        LinearModel([1.0], query_scaling="ranks")
    with pytest.raises(InputError, match=r"query_scaling is \['minmax'\]; expected the name of a scaling, or None"):
        LinearModel([1.0], query_scaling=["minmax"])
    with pytest.raises(InputError, match=r"row 1, feature 0 .* is nan; features must be finite"):
        LinearModel([1.0], query_scaling="minmax").score([[1.0], [np.nan]], indptr=[0, 1, 2])
    with pytest.raises(InputError, match="the data has 2 features, but the model has 1"):
        LinearModel([1.0], query_scaling="minmax").score([[1.0, 2.0]])


@pytest.mark.parametrize("missing", [None, [0.5, 0.0, 0.0]])
def test_features_without_a_weight_may_be_missing_in_contributions(missing):
    X = np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 0.0], [0.0, np.nan, 1.0]])
    model = LinearModel([2.0, 0.0, -1.0], missing=missing)
    contributions = model.predict_contributions(X, group=[3])[:, :-1]
    np.testing.assert_array_equal(contributions[:, 1], 0.0)
    scores = model.score(X)
    np.testing.assert_allclose(contributions.sum(axis=1), scores - scores.mean(), atol=1e-12)
