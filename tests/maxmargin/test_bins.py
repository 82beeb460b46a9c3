"""Threshold bins: [x ≥ t] by definition, and a linear model over them taken back to the raw features."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwright import (
    BinnedModel,
    InputError,
    InputWarning,
    LinearModel,
    QueryScaler,
    RankingData,
    StructuredSVM,
    ThresholdBins,
    load_model,
)
from rankwright.training.train import train


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([ThresholdBins(), ThresholdBins(n_bins=3, spacing="quantile")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


VALUES = st.sampled_from([-2.5, -1.0, 0.0, 0.0, 0.1, 0.5, 3.0, 1e-300, 1e300, -1.7e308, 1.7e308, np.nan])
TABLES = arrays.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=VALUES)


def by_definition(X, thresholds):
    return np.array([[float(x >= t) for x, limits in zip(row, thresholds, strict=True) for t in limits] for row in X])


@settings(max_examples=150, deadline=None)
@example(train=1.7e308 * np.array([[1, 1, -1, -1], [1, 1, 1, 1]]), seed=0, n_bins=1, spacing="even")  # sums to nan
@given(train=TABLES, seed=st.integers(0, 9), n_bins=st.integers(1, 6), spacing=st.sampled_from(["even", "quantile"]))
def test_codes_by_definition(train, seed, n_bins, spacing):
    bins = ThresholdBins(n_bins, spacing).fit(train)
    for column, limits in zip(train.T, bins.thresholds_, strict=True):
        values = np.unique(column[~np.isnan(column)])
        assert len(limits) <= min(n_bins, max(0, len(values) - 1))
        assert (len(limits) > 0) == (len(values) > 1)
        if len(values) - 1 <= n_bins:
            assert len(limits) == max(0, len(values) - 1)
        assert np.isfinite(limits).all()
        # Each threshold has training values on both sides, and others than the threshold before it.
        reached = [tuple(values >= limit) for limit in limits]
        assert len(set(reached)) == len(limits)
        assert all(any(above) and not all(above) for above in reached)
    X = np.random.default_rng(seed).permutation(train.ravel()).reshape(train.shape)
    X[0] = np.random.default_rng(seed).normal(size=X.shape[1])
    coded = bins.transform(X)
    assert isinstance(coded, sparse.csr_array)
    assert coded.dtype == np.float32
    assert coded.has_canonical_format
    np.testing.assert_array_equal(coded.toarray(), by_definition(X, bins.thresholds_).reshape(coded.shape))


def features(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=n_rows), rng.exponential(size=n_rows), rng.integers(0, 4, n_rows), np.ones(n_rows)]
    )
    X[rng.random(X.shape) < 0.4] = 0
    X[:, 3] = 1.0
    return X


@pytest.mark.parametrize("spacing", ["even", "quantile"])
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_features_are_the_dense_ones(kind, spacing):
    X = features()
    dense, csr = (ThresholdBins(20, spacing).fit(given) for given in (X, kind(X)))
    assert [limits.tolist() for limits in dense.thresholds_] == [limits.tolist() for limits in csr.thresholds_]
    np.testing.assert_array_equal(dense.transform(X).toarray(), dense.transform(kind(X)).toarray())


def test_rows_are_coded_some_at_a_time(monkeypatch):
    X = features()
    bins = ThresholdBins(10).fit(X)
    whole = bins.transform(X)
    monkeypatch.setattr("rankwright.maxmargin.bins._CHUNK_VALUES", 28)
    parts = bins.transform(X)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert bins.transform(X[:1]).shape == (1, whole.shape[1])


def test_spacing():
    X = np.concatenate([np.linspace(0, 1, 1001), [10.0, 100.0]])[:, None]
    assert ThresholdBins(4, "even").fit(X).thresholds_[0].tolist() == [55.0]  # 20, 40, 60 and 80 are in one gap
    quantile = ThresholdBins(4, "quantile").fit(X).thresholds_[0]
    np.testing.assert_allclose(quantile, [0.2, 0.4, 0.6, 0.8], atol=0.002)
    steps = ThresholdBins(49).fit(np.random.default_rng(0).random((5000, 1))).thresholds_[0]
    np.testing.assert_allclose(steps, np.arange(1, 50) / 50, atol=0.002)
    often = np.concatenate([np.zeros(900), np.arange(100)])[:, None]  # how often a value occurs does not matter
    assert len(ThresholdBins(50, "quantile").fit(often).thresholds_[0]) == 50


def test_single_and_double_precision_code_alike():
    X = np.round(features(), 3)
    bins = ThresholdBins(50).fit(X.astype(np.float32))
    np.testing.assert_array_equal(bins.transform(X.astype(np.float32)).toarray(), bins.transform(X).toarray())
    close = np.array([[1.0], [np.nextafter(1.0, 2)]])  # nothing lies between them
    assert ThresholdBins().fit(close).transform(close).toarray().tolist() == [[0.0], [1.0]]


def test_names():
    bins = ThresholdBins(2).fit(np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 1e-9], [4.0, 5.0, 1.0]]))
    expected = ["a≥1.5", "a≥3", "c≥5e-10", "c≥0.5"]
    assert bins.get_feature_names_out(["a", "b", "c"]).tolist() == expected
    assert bins.get_feature_names_out()[0] == "x0≥1.5"
    near = ThresholdBins(3).fit(1000 + np.array([[0.0], [0.1], [0.2], [0.3]]))
    names = near.get_feature_names_out(["f"]).tolist()
    assert len(set(names)) == 3
    assert [float(name[2:]) for name in names] == pytest.approx(near.thresholds_[0], rel=1e-4)
    with pytest.raises(ValueError, match="input_features"):
        bins.get_feature_names_out(["a"])


def ranking_data(names=("bm25", "idf", "kind", "one"), seed=0):
    X = features(seed=seed)
    rng = np.random.default_rng(seed)
    labels = (X[:, 0] + np.abs(X[:, 1] - 1) + rng.normal(scale=0.3, size=len(X)) > 1).astype(float)
    return RankingData.from_arrays(X, labels, np.repeat(np.arange(15), 20), feature_names=names)


def test_ranking_data_is_its_arrays():
    data = ranking_data()
    bins = ThresholdBins(9).fit(data)
    assert bins.feature_names_in_.tolist() == list(data.feature_names)
    coded = bins.transform_data(data)
    np.testing.assert_array_equal(coded.X.toarray(), ThresholdBins(9).fit_transform(np.asarray(data.X)).toarray())
    assert coded.feature_names == tuple(bins.get_feature_names_out())
    assert coded.labels is data.labels
    turned = data.with_features(data.X[:, ::-1], data.feature_names[::-1])
    np.testing.assert_array_equal(bins.transform_data(turned).X.toarray(), coded.X.toarray())
    # Without names columns go by position.
    plain = ranking_data(None)
    again = bins.fit(plain)
    assert not hasattr(again, "feature_names_in_")
    assert again.transform_data(plain).feature_names[0].startswith("f1≥")
    with pytest.raises(InputError, match="the data has 3 features, but the training data has 4"):
        again.transform_data(plain.with_features(plain.X[:, :3]))
    with pytest.raises(InputError, match="the data lacks 1 of the training data's 4 features: 'one'"):
        ThresholdBins().fit(data).transform_data(data.with_features(data.X[:, :3], data.feature_names[:3]))


def test_a_linear_model_over_bins_is_one_over_features():
    data = ranking_data()
    bins = ThresholdBins(20).fit(data)
    coded = bins.transform_data(data)
    ranker = StructuredSVM("map", C=10.0).fit(coded)
    model = bins.collapse(ranker.model_)
    assert isinstance(model, BinnedModel)
    assert model.feature_names == data.feature_names
    expected = ranker.predict(coded)
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(model.score(data.X, data.feature_names), expected, rtol=0, atol=1e-12)
    other = ranking_data(seed=5)
    np.testing.assert_allclose(model.score(other.X), ranker.predict(bins.transform_data(other)), rtol=0, atol=1e-12)


def test_in_a_pipeline():
    data = ranking_data()
    pipeline = make_pipeline(ThresholdBins(20), StructuredSVM("map"))
    pipeline.fit(data.X, data.labels, structuredsvm__qid=data.qid)
    parts = ThresholdBins(20).fit(data.X)
    alone = StructuredSVM("map").fit(parts.transform(data.X), data.labels, data.qid)
    assert pipeline.predict(data.X).tobytes() == alone.predict(parts.transform(data.X)).tobytes()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: ThresholdBins(0).fit(X), "n_bins is 0; expected a whole number from 1"),
        (lambda X: ThresholdBins(2.5).fit(X), "n_bins is 2.5"),
        (lambda X: ThresholdBins(True).fit(X), "n_bins is True"),
        (lambda X: ThresholdBins(spacing="odd").fit(X), "spacing is 'odd'; expected one of even, quantile, unit"),
        (lambda X: ThresholdBins(3).fit(X).collapse(LinearModel([1.0])), "1 weights for 6 bins"),
        (lambda X: ThresholdBins().fit(X).collapse(LinearModel([1.0], query_scaling="minmax")), "only a linear model"),
        (lambda X: ThresholdBins().fit(X).collapse(None), "only a linear model"),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(0).random((20, 2)))


def test_not_fitted():
    bins = clone(ThresholdBins().fit(features()))
    for use in (
        bins.get_feature_names_out,
        lambda: bins.transform(features()),
        lambda: bins.collapse(LinearModel([1.0])),
    ):
        with pytest.raises(NotFittedError):
            use()
    with pytest.raises(NotFittedError):
        bins.transform_data(ranking_data())


@pytest.mark.parametrize("n_bins", [1, 4, 50])
def test_unit_thresholds_part_the_training_values_as_evenly_spaced_ones_do(n_bins):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(60), 0.4 + 0.6 * rng.random(60), rng.integers(0, 3, 60) / 2, np.full(60, 0.5)])
    spaced = np.arange(1, n_bins + 1) / (n_bins + 1)
    bins = ThresholdBins(n_bins, "unit").fit(X)
    for column, limits in zip(X.T, bins.thresholds_, strict=True):
        wanted = {tuple(column >= t) for t in spaced} - {(True,) * 60, (False,) * 60}
        assert {tuple(column >= t) for t in limits} == wanted
        assert len(limits) == len(wanted)


def percentiles(values):
    """(rank − 1) / (n − 1), ties sharing their average rank."""
    below, equal = (values < values[:, None]).sum(axis=1), (values == values[:, None]).sum(axis=1)
    return (below + 0.5 * (equal - 1)) / (len(values) - 1)


BY_HAND = {"svm-acc3": percentiles, "svm-acc4": lambda values: (values - values.min()) / np.ptp(values)}


def scaled_by_hand(X, qid, scale):
    out = np.zeros(X.shape)
    for q in np.unique(qid):
        for j in range(X.shape[1]):
            out[qid == q, j] = scale(X[qid == q, j])
    return out


@pytest.mark.parametrize("method", BY_HAND)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_svmacc_3_and_4_over_bins_by_hand(method, form, tmp_path):
    """Scale within the query, cut at thresholds between 0 and 1, train LinearSVC: the same scores on new queries."""
    rng = np.random.default_rng(1)
    X, qid = rng.integers(0, 9, (90, 3)).astype(float) * [1.0, 10.0, 0.1], np.repeat(np.arange(6), 15)
    y = ((X * [1, 0.1, 0]).sum(axis=1) + rng.normal(size=90) > 9).astype(int)
    settings = {"bins": 7, "standardize": False, "C": 5.0, "tol": 1e-8}
    trained = train(method, RankingData.from_arrays(form(X), y, qid), settings=settings)
    scaled = scaled_by_hand(X, qid, BY_HAND[method])
    limits = []
    for column in scaled.T:  # [x ≥ k/8], those that part the same documents once
        codes = {tuple(column >= k / 8): k / 8 for k in range(1, 8)}
        limits.append([t for code, t in codes.items() if any(code) and not all(code)])
    svc = LinearSVC(loss="hinge", C=5.0 / 90, tol=1e-8, max_iter=100_000, random_state=3).fit(
        by_definition(scaled, limits), y
    )
    np.testing.assert_allclose(trained.model.predict(X, qid), by_definition(scaled, limits) @ svc.coef_[0], atol=1e-5)
    new = np.concatenate([X[:15] * 3 + 7, X[20:35]])  # documents of other queries: scales fall out, values recur
    new[:15, 2] = X[:15, 2]
    groups = np.repeat([8, 9], 15)
    expected = by_definition(scaled_by_hand(new, groups, BY_HAND[method]), trained_limits(trained.model))
    np.testing.assert_allclose(
        trained.model.predict(form(new), groups), expected @ trained.model.weights, rtol=0, atol=1e-12
    )
    trained.save(tmp_path / "m.rkw")
    loaded = load_model(tmp_path / "m.rkw")
    assert (loaded.method, loaded.parameters["query_scaling"]) == (method, trained.model.query_scaling)
    assert loaded.predict(new, groups).tobytes() == trained.model.predict(new, groups).tobytes()


def trained_limits(model):
    return np.split(model.thresholds, model.starts[1:-1])


def test_contributions_after_scaling_add_up():
    rng = np.random.default_rng(2)
    data = RankingData.from_arrays(rng.normal(size=(60, 4)), rng.integers(0, 2, 60), np.repeat(np.arange(4), 15))
    model = train("svm-acc3", data, settings={"bins": 5}).model
    query, scores = data.X[:15], model.score(data.X, indptr=data.indptr)
    parts = model.contributions(query[2], query[7], query=query)
    assert parts.sum() == pytest.approx(scores[2] - scores[7], abs=1e-12)
    np.testing.assert_allclose(model.aligned(query), QueryScaler("percentile").transform(data).X[:15])
    with pytest.raises(InputError, match="give query="):
        model.contributions(query[2], query[7])
    with pytest.warns(InputWarning, match="all 15 rows are taken as one"):
        model.predict(query)
    with pytest.raises(InputError, match="unknown scaling 'odd'"):
        BinnedModel([1.0], [0, 1], [1.0], query_scaling="odd")
