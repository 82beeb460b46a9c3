"""LambdaBoost against its definition, and from a background model: what it starts from, contains and keeps."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwright.boosting.lambda_boost as feature_learner
from rankwright import (
    AccuracySVM,
    InputError,
    InputWarning,
    LambdaBoost,
    LambdaRank,
    LinearModel,
    RankingData,
    RankingSVM,
    evaluate,
    load_model,
    parse_measure,
)
from rankwright.boosting.lambdas import Lambdas
from rankwright.models.sum import SumModel
from rankwright.rankers.background import SPREAD, background_model, background_scores
from rankwright.rankers.cross_validation import validation_value

GIVEN = {"float64": np.asarray, "float32": lambda X: X.astype(np.float32), "csr": sparse.csr_array}


def scaled(scores, qid):
    """Scores on the scale from which boosting starts: by their standard deviation within queries."""
    apart = scores - pd.Series(scores).groupby(np.asarray(qid)).transform("mean").to_numpy()
    return scores * SPREAD / np.sqrt((apart**2).mean())


def make(n_queries=25, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 15, n_queries)
    qid = np.repeat([f"q{q}" for q in range(n_queries)], sizes)
    X = rng.normal(size=(len(qid), 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 1.0] + [0.0, 50.0, 0.0, -3.0, 7.0, 0.0]
    X[:, 5] = 7.0
    y = np.digitize(X[:, 0] + 10 * X[:, 2] + noise * rng.normal(size=len(qid)), [0.5, 2.0])
    return X, y, qid


def bits(ranker, X):
    return ranker.predict(X).tobytes()


def by_definition(data, n_rounds, rate, standardize=True, weights=None, start=0.0, measure="ndcg@10"):
    """The rounds, feature by feature, on features that were standardised beforehand."""
    X, scores = data.X, np.zeros(data.n_docs) + start
    weights = np.ones(data.n_queries) if weights is None else weights
    of_row = np.repeat(weights, data.sizes)
    scale = np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1.0)
    h = (X - X.mean(axis=0)) / scale if standardize else X
    varies = X.std(axis=0) > 1e-9
    lambdas = Lambdas(data.labels, data.indptr, parse_measure(measure).resolve("letor"))
    coef = np.zeros(X.shape[1])
    for _ in range(n_rounds):
        gradients = lambdas.evaluate(scores)[0] * of_row
        squares = (of_row[:, None] * h**2).sum(axis=0)
        gains = np.where(varies, (gradients @ h) ** 2 / np.where(squares > 0, squares, 1.0), 0.0)
        best = int(np.argmax(gains))
        beta = (gradients @ h)[best] / squares[best]
        scores = scores + rate * beta * h[:, best]
        coef[best] += rate * beta / (scale[best] if standardize else 1.0)
    return coef


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("as_given", GIVEN.values(), ids=GIVEN)
def test_rounds_are_those_of_the_definition(standardize, as_given):
    X, y, qid = make()
    X[:, :3] *= np.abs(X[:, :3]) > [0.3, 45.0, 0.03]
    given = as_given(X)
    weights = {q: 1.0 + 2.0 * (q < "q3") for q in qid}
    ranker = LambdaBoost(30, 0.7, standardize=standardize).fit(given, y, qid, query_weight=weights)
    dense = np.asarray(given.toarray() if sparse.issparse(given) else given, np.float64)
    data = RankingData.from_arrays(dense, y, qid)
    of_query = np.array([weights[q] for q in data.query_ids])
    want = by_definition(data, 30, 0.7, standardize, of_query / of_query.mean())
    assert len(np.flatnonzero(want)) > 1
    np.testing.assert_allclose(ranker.coef_, want, rtol=1e-6, atol=1e-9)
    assert ranker.n_rounds_ == len(ranker.path_) == 30
    assert isinstance(ranker.model_, LinearModel)
    assert ranker.model_.coef.tolist() == ranker.coef_.tolist()


def test_rounds_from_a_background_are_those_of_the_definition():
    X, y, qid = make()
    svm = RankingSVM().fit(*make(seed=3))
    data = RankingData.from_arrays(X, y, qid)
    ranker = LambdaBoost(20, measure="map", background=svm).fit(X, y, qid)
    want = by_definition(data, 20, 0.5, start=scaled(svm.predict(X), qid), measure="map")
    np.testing.assert_allclose(ranker.coef_, want, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ranker.predict(X), scaled(svm.predict(X), qid) + X @ ranker.coef_)


def test_a_background_as_it_is_or_with_any_spread():
    X, y, qid = make()
    svm = RankingSVM().fit(*make(seed=3))
    data, scores = RankingData.from_arrays(X, y, qid), svm.predict(X)
    for spread, start in ((None, scores), (2 * SPREAD, 2 * scaled(scores, qid))):
        ranker = LambdaBoost(20, background=svm, background_spread=spread).fit(X, y, qid)
        np.testing.assert_allclose(ranker.coef_, by_definition(data, 20, 0.5, start=start), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(ranker.predict(X), start + X @ ranker.coef_)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array], ids=str)
def test_threads_do_not_change_a_bit(as_given, monkeypatch):
    monkeypatch.setattr(feature_learner, "_TASK_ROWS", 20)
    X, y, qid = make()
    given = as_given(X)
    one = LambdaBoost(30).fit(given, y, qid)
    for n_jobs in (2, 3, -1):
        assert bits(LambdaBoost(30, n_jobs=n_jobs).fit(given, y, qid), X) == bits(one, X)


def test_sparse_features_stay_sparse(monkeypatch):
    X, y, qid = make()
    X[np.abs(X) < 0.5] = 0
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    monkeypatch.setattr(sparse.csc_array, "toarray", None)
    LambdaBoost(10).fit(sparse.csr_array(X), y, qid, eval_set=(sparse.csr_array(X), y, qid))


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array], ids=str)
def test_the_best_round_is_kept(as_given):
    (X, y, qid), valid = make(noise=3.0), make(seed=1, noise=3.0)
    eval_set = (as_given(valid[0]), *valid[1:])
    ranker = LambdaBoost(200, patience=15).fit(as_given(X), y, qid, eval_set=eval_set)
    values = [row.value for row in ranker.path_]
    assert ranker.n_rounds_ == 1 + int(np.argmax(values))
    assert len(values) == min(200, ranker.n_rounds_ + 15)
    reached = evaluate(valid[1], ranker.predict(valid[0]), valid[2], measures=["nDCG@10"]).means["nDCG@10"]
    assert reached == pytest.approx(max(values), abs=1e-12)
    assert bits(LambdaBoost(ranker.n_rounds_).fit(as_given(X), y, qid), X) == bits(ranker, X)
    by_map = LambdaBoost(50, eval_measure="map").fit(X, y, qid, eval_set=valid)
    data = RankingData.from_arrays(*valid)
    assert by_map.path_[9].value == pytest.approx(
        validation_value(data, "map")(data.X @ LambdaBoost(10).fit(X, y, qid).coef_), abs=1e-12
    )


def test_validation_data_in_perfect_order_does_not_make_nothing_the_best():
    X, y, qid = make()
    rows = np.lexsort((-y, qid))  # equal scores, in this order, rank perfectly
    ranker = LambdaBoost(30).fit(X, y, qid, eval_set=(X[rows], y[rows], qid[rows]))
    assert ranker.n_rounds_ > 0


@pytest.fixture(scope="module")
def backgrounds(tmp_path_factory):
    """Fitted rankers, models and loaded files."""
    X, y, qid = make(seed=5, noise=2.0)
    svm, net = RankingSVM().fit(X, y, qid), LambdaRank(epochs=10).fit(X, y, qid)
    path = tmp_path_factory.mktemp("models") / "net.rkw"
    net.save(path)
    return {"ranker": svm, "model": svm.model_, "net": net, "file": load_model(path)}


@pytest.mark.parametrize("kind", ["ranker", "model", "net", "file"])
def test_a_background_in_any_form(backgrounds, kind, tmp_path):
    (X, y, qid), new = make(), make(seed=2)
    background = backgrounds[kind]
    ranker = LambdaBoost(20, background=background).fit(X, y, qid)
    alone = (
        background.score(new[0])
        if kind == "model"
        else background_scores(background_model(background), RankingData.from_arrays(*new))
    )
    own = background_model(background).score(X)
    factor = scaled(own, qid)[0] / own[0]
    np.testing.assert_allclose(ranker.predict(new[0]), factor * alone + new[0] @ ranker.coef_)
    assert isinstance(ranker.model_, LinearModel if kind in ("ranker", "model") else SumModel)
    ranker.save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    assert saved.method == "lambdaboost"
    assert saved.model.score(new[0]).tobytes() == bits(ranker, new[0])
    # From that file boosting can go on.
    further = LambdaBoost(5, background=saved).fit(X, y, qid)
    np.testing.assert_allclose(further.predict(X), scaled(ranker.predict(X), qid) + X @ further.coef_)


@pytest.mark.parametrize("kind", ["ranker", "net"])
def test_without_a_useful_round_the_background_is_what_is_left(backgrounds, kind, tmp_path):
    X, y, qid = make()
    background = backgrounds[kind]
    order = background.predict(X)
    labels = np.digitize(order, np.quantile(order, [0.5, 0.8]))  # the background is perfect on validation data
    ranker = LambdaBoost(500, patience=10, background=background).fit(X, y, qid, eval_set=(X, labels, qid))
    assert ranker.n_rounds_ == 0
    assert len(ranker.path_) == 10
    assert not ranker.coef_.any()
    assert bits(ranker, X) == background.predict(X).tobytes()
    ranker.save(tmp_path / "model.rkw")
    assert load_model(tmp_path / "model.rkw").model.score(X).tobytes() == background.predict(X).tobytes()


def test_a_clone_keeps_its_fitted_background(backgrounds):
    X, y, qid = make()
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = LambdaBoost(10, background=backgrounds["net"]).set_fit_request(sample_weight=True)
        copied = clone(ranker)
        assert copied.get_metadata_routing().fit.requests["sample_weight"] is True
    assert copied.background is backgrounds["net"]
    assert bits(copied.fit(X, y, qid), X) == bits(ranker.fit(X, y, qid), X)
    assert not any(name.endswith("_") for name in vars(clone(copied)))


def test_features_of_the_background_are_found_by_name(tmp_path):
    X, y, qid = make()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    part = RankingSVM().fit(frame[["c", "a"]], y, qid)
    with pytest.warns(InputWarning, match="4 of 6 features are unknown to the background model"):
        ranker = LambdaBoost(10, background=part).fit(frame, y, qid, eval_set=(frame, y), eval_qid=qid)
    np.testing.assert_allclose(ranker.predict(frame), scaled(part.predict(frame[["c", "a"]]), qid) + X @ ranker.coef_)
    assert ranker.score(frame, y, qid) == evaluate(y, ranker.predict(frame), qid, measures=["nDCG@10"]).means["nDCG@10"]
    ranker.save(tmp_path / "model.rkw")
    model = load_model(tmp_path / "model.rkw").model
    assert model.score(X[:, ::-1], list("fedcba")).tobytes() == bits(ranker, frame)
    with pytest.raises(InputError, match="background model does not fit the data: the data lacks 1 of"):
        LambdaBoost(10, background=part).fit(frame[["a", "b"]], y, qid)


def test_a_background_that_scales_within_queries():
    X, y, qid = make()
    background = AccuracySVM(query_scaling="minmax").fit(X, y, qid)
    ranker = LambdaBoost(10, background=background).fit(X, y, qid)
    want = scaled(background.predict(X, qid), qid) + X @ ranker.coef_
    np.testing.assert_allclose(ranker.predict(X, qid), want)
    np.testing.assert_allclose(ranker.predict(X, group=pd.Series(qid).value_counts(sort=False).to_numpy()), want)
    data = RankingData.from_arrays(X, y, qid)
    np.testing.assert_allclose(ranker.predict(data), want)
    with pytest.raises(InputError, match="leave out qid and group"):
        ranker.predict(data, qid)
    assert ranker.score(X, y, qid) == evaluate(y, ranker.predict(X, qid), qid, measures=["nDCG@10"]).means["nDCG@10"]


WRONG_BACKGROUNDS = {
    "text": ("model.rkw", "background is a str; expected a fitted ranker, a model"),
    "a class": (RankingSVM, "background is the class RankingSVM"),
    "not fitted": (RankingSVM(), "background is a RankingSVM that is not fitted"),
    "something with a score": (pd.DataFrame(), "background is a DataFrame"),
    "more features": (LinearModel(np.ones(5)), "does not fit the data: the data has 6 features, but the model has 5"),
}


@pytest.mark.parametrize("what", WRONG_BACKGROUNDS)
def test_a_wrong_background_gives_one_line(what):
    background, message = WRONG_BACKGROUNDS[what]
    with pytest.raises(InputError, match=message) as caught:
        LambdaBoost(background=background).fit(*make())
    assert "\n" not in str(caught.value)


def test_weights():
    X, y, qid = make()
    ranker = LambdaBoost(15, standardize=False)
    some = np.isin(qid, ["q1", "q2", "q3"])
    without = clone(ranker).fit(X[~some], y[~some], qid[~some])
    for weights in ({"query_weight": np.where(some, 0.0, 1.0)}, {"sample_weight": np.where(some, 0.0, 1.0)}):
        fitted = clone(ranker).fit(X, y, qid, **weights)
        np.testing.assert_allclose(fitted.coef_, without.coef_, rtol=1e-9)
    same = clone(ranker).fit(X, y, qid, query_weight=np.full(len(y), 3.0))
    np.testing.assert_allclose(same.coef_, clone(ranker).fit(X, y, qid).coef_, rtol=1e-9)


def test_a_callback_can_stop_and_ctrl_c_keeps_the_best():
    (X, y, qid), valid = make(noise=3.0), make(seed=1, noise=3.0)
    seen = []
    ranker = LambdaBoost(callback=lambda row: seen.append(row) or row.round == 7).fit(X, y, qid)
    assert (ranker.n_rounds_, tuple(seen)) == (7, ranker.path_)

    def interrupt(row):
        if row.round == 5:
            raise KeyboardInterrupt

    with pytest.warns(InputWarning, match="interrupted; the model has the best") as caught:
        ranker = LambdaBoost(callback=interrupt).fit(X, y, qid, eval_set=valid)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(ranker.path_) == 5
    assert bits(LambdaBoost(ranker.n_rounds_).fit(X, y, qid), X) == bits(ranker, X)


def test_nothing_to_order(backgrounds):
    X, _, qid = make()
    for background in (None, backgrounds["net"]):
        with pytest.warns(InputWarning, match="no query has documents of different labels"):
            ranker = LambdaBoost(background=background).fit(X, np.ones(len(X)), qid)
        assert (ranker.n_rounds_, ranker.path_, ranker.n_queries_) == (0, (), 0)
        want = np.zeros(len(X)) if background is None else background.predict(X)
        assert bits(ranker, X) == want.tobytes()


REPEATED = "a document given twice is ranked twice, which is another ranking, not a document that weighs double"


@pytest.mark.filterwarnings("ignore:no query has documents:rankwright.errors.InputWarning")
@pytest.mark.filterwarnings("ignore:no qid:rankwright.errors.InputWarning")
@parametrize_with_checks(
    [LambdaBoost(10)],
    expected_failed_checks=lambda ranker: {
        f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
