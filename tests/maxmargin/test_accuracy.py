"""AccuracySVM: against LinearSVC by hand and the objective by formula; scaling within queries wherever it matters."""

import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright
from rankwright import InputError, InputWarning, QueryScaler, RankingData, evaluate, load_model
from rankwright.maxmargin.accuracy import AccuracySVM
from rankwright.maxmargin.cost import DEFAULT_GRID

EXACT = {"tol": 1e-9, "max_iter": 1_000_000}
SCALINGS = ("percentile", "minmax", "zscore")


def make(n_queries=12, n_docs=15, noise=1.5, seed=0):
    """Queries with values of different sizes and offsets; rows mixed."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.normal(size=(len(qid), 4))
    y = np.digitize(X @ [1.0, -1.0, 0.5, 0.0] + noise * rng.normal(size=len(qid)), [1.0, 2.5])
    X = (X + rng.normal(size=(n_queries, 4))[qid]) * np.exp(rng.normal(size=(n_queries, 4)))[qid] * [1, 10, 0.1, 1]
    mixed = rng.permutation(len(qid))
    return X[mixed], y[mixed], qid[mixed]


def bits(array):
    return np.asarray(array).tobytes()


def test_it_is_public():
    assert rankwright.AccuracySVM is AccuracySVM


@pytest.mark.filterwarnings("ignore:(all documents are|no document is) relevant:rankwright.errors.InputWarning")
@pytest.mark.filterwarnings("ignore:no qid:rankwright.errors.InputWarning")
@parametrize_with_checks(
    [
        AccuracySVM(),
        AccuracySVM(relevant_from=2, balance=True, standardize=False),
        AccuracySVM(relevant_from=2, query_scaling="minmax"),
    ],
    expected_failed_checks=lambda ranker: {
        **{
            f"check_sample_weight_equivalence_on_{kind}_data": "cv is a number of folds; the check splits rows"
            for kind in ("dense", "sparse")
        },
        **({} if ranker.query_scaling is None else {
            "check_methods_subset_invariance": "what a document's scaled features are depends on its query"
        }),
    },
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("C", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("balance", [False, True])
def test_it_is_a_linear_svc_on_standardised_features(C, balance):
    X, y, qid = make()
    good = y >= 1
    scaler = StandardScaler().fit(X)
    weight = {True: (~good).sum() / good.sum()} if balance else None
    svc = LinearSVC(loss="hinge", C=C / len(y), class_weight=weight, random_state=1, **EXACT)
    svc.fit(scaler.transform(X), good)
    ranker = AccuracySVM(C, balance=balance, **EXACT).fit(X, y, qid)
    np.testing.assert_allclose(ranker.coef_ * scaler.scale_, svc.coef_[0], rtol=1e-5, atol=1e-7)
    shift = svc.intercept_ - scaler.mean_ @ ranker.coef_
    np.testing.assert_allclose(ranker.predict(X) + shift, svc.decision_function(scaler.transform(X)), rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"balance": True}, {"relevant_from": 2}, {"query_scaling": "percentile"}])
def test_the_weights_minimise_the_objective_of_the_docstring(options):
    X, y, qid = make()
    C, good = 3.0, y >= options.get("relevant_from", 1)
    ranker = AccuracySVM(C, **options, **EXACT).fit(X, y, qid)
    if "query_scaling" in options:
        data = QueryScaler("percentile").transform(RankingData.from_arrays(X, y, qid))
        X, good = data.X, data.labels >= 1
    deviation = X.std(axis=0)
    X, sign = (X - X.mean(axis=0)) / deviation, np.where(good, 1, -1)
    cost = np.where(good, (~good).sum() / good.sum(), 1.0) if options.get("balance") else np.ones(len(good))

    def least(w):
        def value(b):
            hinges = np.maximum(0, 1 - sign * (X @ w + b))
            return 0.5 * (w @ w + b * b) + C * np.mean(cost * hinges)

        return minimize_scalar(value, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).fun

    w = ranker.coef_ * deviation
    assert ranker.objective_ == pytest.approx(least(w), rel=1e-7)
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        assert all(least(w + size * rng.normal(size=4)) > ranker.objective_ for _ in range(5))


def test_balance_is_giving_the_relevant_documents_several_times():
    X, _, qid = make()
    y = np.random.default_rng(1).permutation(np.arange(len(qid)) % 4 == 0).astype(int)  # N/P is 3
    options = {"standardize": False, **EXACT}
    balanced = AccuracySVM(0.5, balance=True, **options).fit(X, y, qid)
    rows = np.concatenate([np.arange(len(y)), *[np.flatnonzero(y)] * 2])
    repeated = AccuracySVM(0.5 * len(rows) / len(y), **options).fit(X[rows], y[rows], qid[rows])
    np.testing.assert_allclose(balanced.coef_, repeated.coef_, rtol=1e-5)
    assert not np.allclose(balanced.coef_, AccuracySVM(0.5, **options).fit(X, y, qid).coef_, rtol=0.01)


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_query_scaling_is_scaling_first(kind, form):
    X, y, qid = make()
    data = RankingData.from_arrays(form(X), y, qid)
    scaled = QueryScaler(kind).transform(data)
    inside, outside = AccuracySVM(query_scaling=kind).fit(form(X), y, qid), AccuracySVM().fit(scaled)
    assert bits(inside.coef_) == bits(outside.coef_)
    expected = outside.predict(scaled)
    assert bits(inside.predict(form(X), qid)) == bits(expected)
    assert bits(inside.predict(data)) == bits(expected)
    assert inside.score(form(X), y, qid) == evaluate(y, expected, qid, measures=["nDCG@10"]).means["nDCG@10"]
    by_query = np.argsort(qid, kind="stable")
    sizes = np.bincount(qid)
    assert bits(inside.predict(form(X)[by_query], group=sizes)) == bits(expected[by_query])
    # Without queries all rows are one, and a warning says so; alone, a query has the scores that it has among others.
    with pytest.warns(InputWarning, match="^no qid: features are scaled within each query, and all 180 rows") as caught:
        as_one = inside.predict(form(X))
    assert caught[0].filename == __file__
    assert bits(as_one) == bits(inside.predict(form(X), np.zeros(len(y))))
    assert not np.allclose(as_one, expected)
    assert bits(inside.predict(form(X)[qid == 3], group=[15])) == bits(expected[qid == 3])


@pytest.mark.parametrize("kind", [None, *SCALINGS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_scores_bit_equal(tmp_path, kind, dtype):
    X, y, qid = make()
    data = RankingData.from_arrays(X.astype(dtype), y, qid, feature_names=list("abcd"))
    ranker = AccuracySVM(query_scaling=kind).fit(data)
    ranker.set_params(query_scaling="minmax")  # no longer matters
    ranker.save(tmp_path / "m.rkw")
    loaded = load_model(tmp_path / "m.rkw")
    assert loaded.model.query_scaling == kind
    assert loaded.training["documents"] == len(y)
    scores = ranker.predict(data)
    assert bits(data.to_caller_order(loaded.model.score(data.X, data.feature_names, data.indptr))) == bits(scores)
    turned = data.with_features(data.X[:, ::-1], list("dcba"))
    assert bits(ranker.predict(turned)) == bits(scores)


def test_names_of_the_methods(tmp_path):
    X, y, qid = make()
    names = {
        "svm-acc": {},
        "svm-acc2": {"balance": True},
        "svm-acc3": {"query_scaling": "percentile"},
        "svm-acc4": {"query_scaling": "minmax"},
        "svm-acc-zscore": {"query_scaling": "zscore"},
        "svm-acc2-minmax": {"balance": True, "query_scaling": "minmax"},
    }
    for name, options in names.items():
        AccuracySVM(**options).fit(X, y, qid).save(tmp_path / name)
        assert load_model(tmp_path / name).method == name


@pytest.mark.parametrize("options", [{}, {"query_scaling": "percentile", "balance": True}, {"standardize": False}])
def test_the_order_of_rows_does_not_matter_to_the_last_bit(options):
    X, y, qid = make()
    X[:20] = X[20:40]  # also where rows are equal
    weights = np.random.default_rng(3).uniform(0.5, 2, len(y))
    first = AccuracySVM(10.0, **options).fit(X, y, qid, sample_weight=weights)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(y))
        again = AccuracySVM(10.0, **options).fit(X[rows], y[rows], qid[rows], sample_weight=weights[rows])
        assert bits(again.coef_) == bits(first.coef_)
        assert bits(again.predict(X[rows], qid[rows])) == bits(first.predict(X, qid)[rows])
    for form in (sparse.csr_array, sparse.csc_array):
        assert bits(AccuracySVM(10.0, **options).fit(form(X), y, qid, sample_weight=weights).coef_) == bits(first.coef_)


def test_a_weight_of_two_is_a_document_given_twice():
    X, y, qid = make()
    options = {"standardize": False, "balance": True, **EXACT}
    count = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), count)
    repeated = AccuracySVM(**options).fit(X[rows], y[rows], qid[rows]).coef_
    weighted = AccuracySVM(**options).fit(X, y, qid, sample_weight=count).coef_
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5)
    assert not np.allclose(weighted, AccuracySVM(**options).fit(X, y, qid).coef_, rtol=0.01)


@pytest.mark.parametrize("kind", [None, "percentile"])
def test_weights_of_queries_and_of_rows(kind):
    X, y, qid = make()
    rng = np.random.default_rng(4)
    of_query = {q: float(w) for q, w in enumerate(rng.choice([0.5, 1, 2], 12))} | {5: 0.0}
    rows = np.array([of_query[q] for q in qid])
    ranker = AccuracySVM(query_scaling=kind)
    by_query = ranker.fit(X, y, qid, query_weight=of_query).coef_
    assert (ranker.n_queries_, ranker.n_docs_) == (11, 165)
    assert ranker.n_relevant_ == (y[qid != 5] >= 1).sum()
    assert bits(ranker.fit(X, y, qid, sample_weight=rows).coef_) == bits(by_query)
    assert bits(ranker.fit(X, y, qid, query_weight=rows).coef_) == bits(by_query)
    # What has no weight might as well not be there: percentiles are those of the others.
    some = rng.random(len(y)) < 0.7
    left = ranker.fit(X[some], y[some], qid[some]).coef_
    assert bits(ranker.fit(X, y, qid, sample_weight=some).coef_) == bits(left)


def test_queries_of_one_class_count():
    X, y, qid = make()
    y = np.where(qid == 2, 1, np.where(qid == 3, 0, y))
    some = ~np.isin(qid, [2, 3])
    every = AccuracySVM().fit(X, y, qid)
    assert every.n_queries_ == 12
    assert not np.allclose(every.coef_, AccuracySVM().fit(X[some], y[some], qid[some]).coef_, rtol=1e-3)


@pytest.mark.parametrize(("label", "what"), [(1, "all documents are relevant"), (0, "no document is relevant")])
@pytest.mark.parametrize("options", [{}, {"C": "auto", "query_scaling": "minmax"}])
def test_one_class_gives_weights_of_zero_and_a_warning(label, what, options, tmp_path):
    X, y, qid = make()
    ranker = AccuracySVM(**options)
    with pytest.warns(InputWarning, match=f"^{what}: there is nothing to tell apart, and all weights are 0$") as caught:
        ranker.fit(X, np.full(len(y), label), qid, eval_set=(X, y, qid))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert not ranker.predict(X, qid).any()
    assert (ranker.C_path_, ranker.objective_, np.isnan(ranker.C_)) == ([], 0.0, "C" in options)
    ranker.save(tmp_path / "m.rkw")
    assert not load_model(tmp_path / "m.rkw").model.coef.any()


@pytest.mark.parametrize("kind", [None, "minmax"])
def test_C_is_chosen_on_validation_data(kind):
    training, valid = make(), make(seed=1)
    data = RankingData.from_arrays(*valid)
    ranker = AccuracySVM("auto", query_scaling=kind).fit(*training, eval_set=valid)
    assert [row["C"] for row in ranker.C_path_] == list(DEFAULT_GRID)
    by_hand = [AccuracySVM(C, query_scaling=kind).fit(*training) for C in DEFAULT_GRID]
    found = [evaluate(data, one.predict(data), measures=["AP"]).means["AP"] for one in by_hand]
    assert [row["AP"] for row in ranker.C_path_] == found
    best = int(np.argmax(found))
    assert DEFAULT_GRID[best] == ranker.C_
    assert bits(ranker.coef_) == bits(by_hand[best].coef_)
    assert (ranker.objective_, ranker.n_iter_) == (by_hand[best].objective_, by_hand[best].n_iter_)
    other = AccuracySVM("auto", C_grid=[10, 0.1], eval_measure="ndcg@5").fit(*training, eval_set=data)
    assert [(row["C"], "nDCG@5" in row) for row in other.C_path_] == [(0.1, True), (10.0, True)]
    equal = AccuracySVM("auto", C_grid=[10, 0.1]).fit(
        [[0.0], [1.0]], [0, 1], [1, 1], eval_set=([[0], [1]], [0, 1], [1, 1])
    )
    assert ([row["AP"] for row in equal.C_path_], equal.C_) == ([1.0, 1.0], 0.1)  # the smaller of equal ones


def test_features_that_do_not_vary_have_no_weight():
    X, y, qid = make()
    noise = np.random.default_rng(0).normal(size=len(y))
    wide = np.column_stack([X, np.full(len(y), 0.1), np.zeros(len(y)), 1e6 + 1e-8 * noise])
    ranker = AccuracySVM().fit(wide, y, qid)
    assert ranker.coef_[4:].tolist() == [0, 0, 0]
    np.testing.assert_allclose(ranker.coef_[:4], AccuracySVM().fit(X, y, qid).coef_, rtol=1e-2)


def test_sparse_features_are_made_dense_only_where_they_fit(monkeypatch):
    X, y, qid = make()
    X[np.abs(X) < 0.5] = 0
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    dense = AccuracySVM(standardize=False).fit(X, y, qid)
    assert bits(AccuracySVM(standardize=False).fit(csr, y, qid).coef_) == bits(dense.coef_)
    monkeypatch.setattr("rankwright.maxmargin.accuracy._DENSE_BYTES", 8 * X.size - 1)
    with pytest.raises(InputError, match=r"makes sparse features dense, 0 GB here; expected standardize=False$"):
        AccuracySVM().fit(csr, y, qid)
    AccuracySVM().fit(X, y, qid)


def test_stopping_early_warns():
    X, y, qid = make()
    with pytest.warns(
        ConvergenceWarning, match=r"^stopped at max_iter=2 before .* tol=0.0001 was reached \(C=1000\)$"
    ) as caught:
        AccuracySVM(1000, max_iter=2).fit(X, y, qid)
    assert (len(caught), caught[0].filename) == (1, __file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AccuracySVM(1000).fit(X, y, qid)


def test_queries_are_routed_to_predict():
    X, y, qid = make()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), AccuracySVM(query_scaling="minmax")).fit(X, y, qid=qid)
        by_hand = AccuracySVM(query_scaling="minmax").fit(StandardScaler().fit_transform(X), y, qid)
        expected = by_hand.predict(StandardScaler().fit_transform(X), qid)
        assert bits(pipeline.predict(X, qid=qid)) == bits(expected)
        assert pipeline.score(X, y, qid=qid) == by_hand.score(StandardScaler().fit_transform(X), y, qid)


BAD = {
    "unknown scaling": ({"query_scaling": "ranks"}, "unknown scaling 'ranks'; expected one of minmax, percentile"),
    "no scaling": ({"query_scaling": 3}, "query_scaling is 3; expected a name such as 'minmax', or None"),
    "C of 0": ({"C": 0}, "C is 0; expected a number above 0, or 'auto'"),
    "C of inf": ({"C": np.inf}, "C is inf; expected a number above 0"),
    "C in words": ({"C": "large"}, "C is 'large'; expected a number above 0, or 'auto'"),
    "one fold": ({"cv": 1}, "cv is 1; expected a whole number from 2, or 'auto', or None"),
    "empty grid": ({"C_grid": []}, "C_grid is []; expected numbers above 0, or None"),
    "bad grid": ({"C_grid": [1, -1]}, "C_grid is [1, -1]; expected numbers above 0"),
    "relevant_from": ({"relevant_from": 0}, "relevant_from is 0; expected a number above 0"),
    "tol": ({"tol": -1}, "tol is -1; expected a number above 0"),
    "max_iter": ({"max_iter": 0.5}, "max_iter is 0.5; expected a whole number from 1"),
    "measure": ({"eval_measure": "nonsense"}, "unknown measure 'nonsense'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_one_line(case):
    options, message = BAD[case]
    with pytest.raises(InputError) as caught:
        AccuracySVM(**options).fit(*make())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_bad_weights_and_queries_are_one_line():
    X, y, qid = make()
    ranker = AccuracySVM(query_scaling="minmax").fit(X, y, qid)
    data = RankingData.from_arrays(X, y, qid)
    cases = [
        (lambda: ranker.fit(X, y, qid, sample_weight=np.zeros(len(y))), "all weights are zero"),
        (lambda: ranker.fit(X, y, qid, sample_weight=-np.ones(len(y))), "sample_weight must be finite and at least 0"),
        (lambda: ranker.fit(X, y, qid, query_weight={0: 1.0}), "query_weight has no entry for query"),
        (lambda: ranker.predict(data, qid), "a RankingData has its queries; leave out qid and group"),
        (lambda: ranker.predict(X, qid[1:]), "180 rows but qid of shape (179,)"),
        (lambda: ranker.predict(X, group=[1, 2]), "group sizes add up to 3 but there are 180 rows"),
    ]
    for call, message in cases:
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value).startswith(message)
