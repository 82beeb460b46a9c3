"""scikit-learn's own checks, and its searches, pipelines and cross-validation with whole queries."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwright import InputError, QueryKFold, evaluate
from rankwright.boosting.tree_rankers import LambdaMART, McRank
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM

pytestmark = pytest.mark.filterwarnings("ignore:the model learnt n")  # some losses here cannot be lowered

REPEATED = (
    "a sample weight says how much the row's query counts: a document given twice is ranked twice, which is another "
    "ranking and another loss, not a document that weighs double; and cv is a number of folds of queries, where "
    "the check sets it to splits of rows"
)
CANNOT_APPLY = {
    "check_sample_weight_equivalence_on_dense_data": REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": REPEATED,
}


@pytest.mark.filterwarnings("ignore:no query has documents:rankwright.errors.InputWarning")
@pytest.mark.filterwarnings("ignore:no qid:rankwright.errors.InputWarning")
@parametrize_with_checks(
    [
        StructuredSVM(),
        StructuredSVM("ndcg@10", relevant_from=2, solver="one-slack-cutting-plane"),
        RankingSVM(),
        RankingSVM(solver="one-slack-cutting-plane"),
        LambdaMART(n_trees=10, min_rows=2),
        LambdaMART(n_trees=10, min_rows=1, tree_rows=0.7, tree_features=0.7, randomize_nodes=True),
        McRank(n_trees=5, min_rows=2),
        McRank(n_trees=5, min_rows=2, link="ordinal"),
    ],
    expected_failed_checks=lambda ranker: CANNOT_APPLY,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def queries():
    """Labels that a linear function decides, with noise; rows of the queries mixed."""
    rng = np.random.default_rng(5)
    n_docs = 240
    X = rng.normal(size=(n_docs, 5)) * [1, 10, 0.1, 1, 1]
    qid = rng.permutation(np.arange(n_docs) % 12)
    y = np.digitize(X @ [1, 0.1, 0, -1, 0] + rng.normal(size=n_docs), [1.0, 2.0])
    return X, y, np.array([f"query {q}" for q in qid])


RANKERS = [StructuredSVM(), RankingSVM()]


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_grid_search_keeps_queries_whole_and_refits(ranker, queries):
    X, y, qid = queries
    grid = {"C": [1e-3, 0.1, 10.0], "standardize": [True, False]}
    search = GridSearchCV(ranker, grid, cv=QueryKFold(3)).fit(X, y, qid=qid)
    assert len(search.cv_results_["params"]) == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert 0.5 < search.best_score_ <= 1
    refitted = clone(ranker).set_params(**search.best_params_).fit(X, y, qid)
    assert np.array_equal(search.best_estimator_.coef_, refitted.coef_)
    assert np.array_equal(search.predict(X), refitted.predict(X))
    assert search.score(X, y, qid=qid) == refitted.score(X, y, qid)
    # The scores of the folds are those that fitting by hand gives.
    train, test = next(QueryKFold(3).split(X, y, qid=qid))
    assert not set(qid[train]) & set(qid[test])
    by_hand = clone(ranker).set_params(**search.best_params_).fit(X[train], y[train], qid[train])
    measured = evaluate(y[test], by_hand.predict(X[test]), qid[test], measures=["nDCG@10"]).means["nDCG@10"]
    assert search.cv_results_["split0_test_score"][search.best_index_] == pytest.approx(measured, abs=1e-12)


@pytest.mark.usefixtures("routing")
def test_a_grid_search_over_losses_and_sparse_features(queries):
    X, y, qid = queries
    grid = {"loss": ["map", "auc", "ndcg@10", "ndcg", "mrr@10"]}
    dense = GridSearchCV(StructuredSVM(standardize=False), grid, cv=QueryKFold(3)).fit(X, y, qid=qid)
    csr = GridSearchCV(StructuredSVM(standardize=False), grid, cv=QueryKFold(3)).fit(sparse.csr_array(X), y, qid=qid)
    assert csr.best_params_ == dense.best_params_
    scores = [search.cv_results_["mean_test_score"] for search in (dense, csr)]
    np.testing.assert_allclose(scores[0], scores[1], atol=0.02)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_a_pipeline_passes_the_queries_on(ranker, queries):
    X, y, qid = queries
    pipeline = make_pipeline(StandardScaler(), clone(ranker)).fit(X, y, qid=qid)
    by_hand = clone(ranker).fit(StandardScaler().fit_transform(X), y, qid)
    assert np.array_equal(pipeline.predict(X), by_hand.predict(StandardScaler().fit_transform(X)))
    assert pipeline.score(X, y, qid=qid) == by_hand.score(StandardScaler().fit_transform(X), y, qid)
    name = f"{type(ranker).__name__.lower()}__C"
    search = GridSearchCV(pipeline, {name: [0.01, 1.0]}, cv=QueryKFold(3)).fit(X, y, qid=qid)
    assert search.best_score_ > 0.5


def ndcg(labels, scores, qid):
    return evaluate(labels, scores, qid, measures=["nDCG"]).means["nDCG"]


def mean_ap(labels, scores, qid):
    return evaluate(labels, scores, qid, measures=["AP"]).means["AP"]


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("ranker", RANKERS, ids=repr)
def test_cross_validation_with_the_rankers_score_and_with_scorers(ranker, queries):
    X, y, qid = queries
    folds, params = QueryKFold(3), {"qid": qid}
    own = cross_val_score(ranker, X, y, cv=folds, params=params)
    assert own.shape == (3,)
    scoring = {name: make_scorer(value).set_score_request(qid=True) for name, value in (("n", ndcg), ("a", mean_ap))}
    table = cross_validate(ranker, X, y, cv=folds, scoring=scoring, params=params, return_estimator=True)
    for fold, (_, test) in enumerate(folds.split(X, y, qid=qid)):
        fitted = table["estimator"][fold]
        assert own[fold] == fitted.score(X[test], y[test], qid[test])
        assert table["test_n"][fold] == ndcg(y[test], fitted.predict(X[test]), qid[test])
        assert table["test_a"][fold] == mean_ap(y[test], fitted.predict(X[test]), qid[test])


@pytest.mark.usefixtures("routing")
def test_other_metadata_is_routed_when_asked_for(queries):
    X, y, qid = queries
    weights = np.where(qid == "query 3", 0.0, 1.0)
    with pytest.raises(UnsetMetadataPassedError, match="query_weight"):
        cross_val_score(StructuredSVM(), X, y, cv=QueryKFold(3), params={"qid": qid, "query_weight": weights})
    asking = StructuredSVM().set_fit_request(query_weight=True).set_score_request(query_weight=True)
    result = cross_validate(
        asking, X, y, cv=QueryKFold(3), params={"qid": qid, "query_weight": weights}, return_estimator=True
    )
    assert sorted(fitted.n_queries_ for fitted in result["estimator"]) == [7, 7, 8]


def test_score_takes_any_measure(queries):
    X, y, qid = queries
    ranker = StructuredSVM().fit(X, y, qid)
    assert ranker.score(X, y, qid) == evaluate(y, ranker.predict(X), qid, measures=["nDCG@10"]).means["nDCG@10"]
    assert ranker.score(X, y, qid, measure="AP") == mean_ap(y, ranker.predict(X), qid)
    with pytest.raises(InputError, match="qid of shape"):
        ranker.score(X, y, qid[1:])
