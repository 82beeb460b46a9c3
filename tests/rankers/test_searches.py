"""scikit-learn's searches and cross-validation without metadata routing: query ids come with a data frame only."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from contract import bits, make
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwright import (
    AccuracySVM,
    InputError,
    InputWarning,
    LambdaMART,
    QueryKFold,
    RankingData,
    RankingSVM,
    evaluate,
    from_frame,
)
from rankwright.io.roles import DOCUMENT, QUERY_ID, QUERY_TEXT

FEATURES = ["a", "b", "c", "d", "e"]
FOLDS = QueryKFold(3)
SETTINGS = {"C": [0.01, 1.0]}


@pytest.fixture(scope="module")
def queries():
    X, y, qid = make(noise=2.0)
    return X, y, np.array([f"q{q}" for q in qid])


def framed(X, qid, name="qid", library=pd.DataFrame, **others):
    return library({**{key: X[:, at] for at, key in enumerate(FEATURES)}, name: qid, **others})


SEARCHES = {
    "cross_val_score": lambda X, y, **given: cross_val_score(RankingSVM(), X, y, cv=FOLDS, **given),
    "grid": lambda X, y, **given: GridSearchCV(RankingSVM(), SETTINGS, cv=FOLDS).fit(X, y, **given),
    "randomized": lambda X, y, **given: RandomizedSearchCV(
        RankingSVM(), SETTINGS, n_iter=2, cv=FOLDS, random_state=0
    ).fit(X, y, **given),
}


def values(result):
    return (result.cv_results_["mean_test_score"] if hasattr(result, "cv_results_") else result).tolist()


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_frame_gives_what_metadata_routing_gives(queries, name, library):
    X, y, qid = queries
    by_frame = SEARCHES[name](framed(X, qid, library=library), y)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = SEARCHES[name](X, y, **({"params": {"qid": qid}} if name == "cross_val_score" else {"qid": qid}))
    assert values(by_frame) == values(routed)
    if name != "cross_val_score":
        assert by_frame.best_params_ == routed.best_params_
        frame = framed(X, qid, library=library)
        assert bits(by_frame.predict(frame)) == bits(routed.best_estimator_.predict(X))
        assert by_frame.score(frame, y) == routed.best_estimator_.score(X, y, qid)


def test_readmes_sentence(queries):
    """A frame with query ids is all that GridSearchCV with QueryKFold needs; every fold is scored by whole queries."""
    X, y, qid = queries
    frame = framed(X, qid)
    table = cross_validate(LambdaMART(n_trees=5), frame, y, cv=FOLDS, return_estimator=True)
    for fold, (train, test) in enumerate(FOLDS.split(frame)):
        fitted = LambdaMART(n_trees=5).fit(X[train], y[train], qid[train])
        assert table["estimator"][fold].n_queries_ == fitted.n_queries_ == 10
        assert (
            table["test_score"][fold]
            == evaluate(y[test], fitted.predict(X[test]), qid[test], measures=["nDCG@10"]).means["nDCG@10"]
        )


@pytest.mark.parametrize("name", ["Query ID", *QUERY_ID, *QUERY_TEXT])
def test_every_accepted_name_of_query_ids(queries, name):
    X, y, qid = queries
    frame = framed(X, qid, name)
    assert cross_val_score(RankingSVM(), frame, y, cv=FOLDS).tolist() == values(
        SEARCHES["cross_val_score"](framed(X, qid), y)
    )
    fitted = RankingSVM().fit(frame, y)
    assert fitted.feature_names_in_.tolist() == FEATURES
    assert bits(fitted.predict(frame)) == bits(fitted.predict(frame[FEATURES])) == bits(fitted.model_.predict(frame))


def test_explicit_ids_beside_a_column(queries):
    X, y, qid = queries
    named, plain = framed(X, qid, "topic"), RankingSVM().fit(X, y, qid)
    assert bits(RankingSVM().fit(named, y, qid).coef_) == bits(plain.coef_)  # the same ids twice
    with pytest.raises(InputError, match=r"column 'topic' with other query ids than qid; .* or rename the column"):
        RankingSVM().fit(named, y, np.arange(len(y)) // 2)
    with pytest.raises(InputError, match="column 'topic'; leave out group, or rename"):
        RankingSVM().fit(named, y, group=[len(y)])
    texts = framed(X, qid, "query")  # texts are not ids that could differ
    assert bits(RankingSVM().fit(texts, y, qid).coef_) == bits(plain.coef_)
    data = RankingData.from_arrays(X, y, qid, feature_names=["a", "topic", "c", "d", "id"])
    known = RankingSVM().fit(data)  # what training called a feature stays one
    again = pd.DataFrame(X, columns=data.feature_names)
    assert bits(known.predict(again)) == bits(known.model_.predict(again)) == bits(plain.predict(X))


@pytest.mark.parametrize("document", ["docid", "doc-id", *DOCUMENT])
def test_documents_and_texts_are_no_features_as_in_every_table(queries, document):
    X, y, qid = queries
    beside = {document: [f"d{row}" for row in range(len(y))], "title": [f"text {row}" for row in range(len(y))]}
    full = framed(X, qid, **beside)
    for ranker in (RankingSVM(), LambdaMART(n_trees=3)):
        fitted = clone(ranker).fit(full, y)
        assert fitted.feature_names_in_.tolist() == FEATURES == list(from_frame(full.assign(label=y)).feature_names)
        expected = bits(clone(ranker).fit(X, y, qid).predict(X))
        assert bits(fitted.predict(full)) == bits(fitted.predict(full[FEATURES])) == expected
        assert bits(fitted.predict(full[[*FEATURES, "title"]])) == expected


def test_categories_stay_features_of_trees_in_every_fold(queries):
    X, y, qid = queries
    frame = framed(X, qid, shop=np.where(y > 0, "near", "far"), docid=[f"d{row}" for row in range(len(y))])
    search = GridSearchCV(LambdaMART(n_trees=5), {"max_leaves": [2, 4]}, cv=FOLDS).fit(frame, y)
    assert search.best_estimator_.feature_names_in_.tolist() == [*FEATURES, "shop"]
    assert search.best_score_ > cross_val_score(LambdaMART(n_trees=5), frame.drop(columns="shop"), y, cv=FOLDS).mean()
    found = cross_val_predict(LambdaMART(n_trees=5), frame, y, cv=FOLDS)
    train, test = next(FOLDS.split(frame))
    fitted = LambdaMART(n_trees=5).fit(frame.iloc[train], y[train])
    assert bits(found[test]) == bits(fitted.predict(frame.iloc[test]))


def test_the_labels_are_no_feature(queries):
    X, y, qid = queries
    for name in ("label", "Relevance"):
        with pytest.raises(InputError, match=f"the column '{name}' of the data frame is y, and would be a feature"):
            RankingSVM().fit(framed(X, qid, **{name: y}), y)
    assert RankingSVM().fit(framed(X, qid, rating=X[:, 0]), y).n_features_in_ == 6  # stars of a product


def test_scoring_gets_the_query_ids_with_the_frame(queries):
    X, y, qid = queries
    frame = framed(X, qid)

    def mean_ap(ranker, X, y):
        return ranker.score(X, y, measure="AP")

    search = GridSearchCV(RankingSVM(), SETTINGS, cv=FOLDS, scoring={"ap": mean_ap}, refit="ap").fit(frame, y)
    for fold, (train, test) in enumerate(FOLDS.split(frame)):
        fitted = RankingSVM(C=0.01).fit(X[train], y[train], qid[train])
        assert search.cv_results_[f"split{fold}_test_ap"][0] == fitted.score(X[test], y[test], qid[test], measure="AP")


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("given", ["groups", "nothing"])
def test_groups_alone_are_refused_as_fit_never_sees_them(queries, name, given):
    X, y, qid = queries
    search = {
        "cross_val_score": lambda cv, **more: cross_val_score(RankingSVM(), X, y, cv=cv, **more),
        "grid": lambda cv, **more: GridSearchCV(RankingSVM(), SETTINGS, cv=cv).fit(X, y, **more),
        "randomized": lambda cv, **more: RandomizedSearchCV(RankingSVM(), SETTINGS, n_iter=1, cv=cv).fit(X, y, **more),
    }[name]
    for cv in (FOLDS, GroupKFold(3)) if given == "groups" else (KFold(3),):
        with pytest.raises(
            ValueError, match=r"rows would be taken as one query; scikit-learn passes groups to the"
        ) as told:
            search(cv, **({"groups": qid} if given == "groups" else {}))
        assert "pandas.DataFrame(X).assign(qid=qid)" in str(told.value)
    with pytest.raises(InputError, match="no qid: these 120 rows would be taken as one query"):  # the line alone
        GridSearchCV(RankingSVM(), SETTINGS, cv=GroupKFold(3), error_score="raise").fit(X, y, groups=qid)
    as_told = pd.DataFrame(X).assign(qid=qid)
    assert values(SEARCHES[name](as_told, y)) == values(SEARCHES[name](framed(X, qid), y))
    assert cross_val_score(Ridge(), X, y, groups=qid, cv=FOLDS).shape == (3,)  # of others, which need no queries


def test_ids_that_reach_fit_alone_give_no_score(queries):
    X, y, qid = queries
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        search = GridSearchCV(RankingSVM(), SETTINGS, cv=FOLDS).fit(X, y, qid=qid, groups=qid)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    for said in ("no qid: training had 10 queries", "non-finite"):
        assert any(said in str(warning.message) for warning in told)


def test_scores_within_queries_need_ids_too(queries):
    X, y, qid = queries
    ranker = AccuracySVM(query_scaling="minmax")
    assert cross_val_predict(ranker, framed(X, qid), y, cv=FOLDS).shape == (len(y),)
    with pytest.raises(InputError, match="rows would be taken as one query"):
        cross_val_predict(ranker, X, y, cv=FOLDS, groups=qid, params={"qid": qid})


def test_pipelines(queries):
    X, y, qid = queries
    frame, plain = (
        framed(X, qid.astype("U3")).assign(qid=pd.factorize(qid)[0]),
        make_pipeline(StandardScaler(), RankingSVM()),
    )
    with pytest.raises(ValueError, match="of a pipeline, fit sees what the steps before have left: switch metadata"):
        cross_val_score(plain, frame, y, cv=FOLDS)
    with pytest.warns(InputWarning, match="all 180 rows are taken as one query; .* in a pipeline as STEP__qid=…"):
        plain.fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    kept = make_column_transformer(
        (StandardScaler(), FEATURES), remainder="passthrough", verbose_feature_names_out=False
    )
    keeping = make_pipeline(kept.set_output(transform="pandas"), RankingSVM())
    fitted = keeping.fit(frame, y)
    np.testing.assert_allclose(fitted.predict(frame), RankingSVM().fit(scaled, y, qid).predict(scaled), atol=1e-9)
    assert fitted.score(frame, y) == RankingSVM().fit(scaled, y, qid).score(scaled, y, qid)
    search = GridSearchCV(keeping, {"rankingsvm__C": [0.01, 1.0]}, cv=FOLDS).fit(frame, y)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(plain, {"rankingsvm__C": [0.01, 1.0]}, cv=FOLDS).fit(X, y, qid=qid)
    assert values(search) == pytest.approx(values(routed), abs=1e-12)
    by_step = make_pipeline(StandardScaler(), RankingSVM()).fit(X, y, rankingsvm__qid=qid)
    assert bits(by_step.predict(X)) == bits(RankingSVM().fit(scaled, y, qid).predict(scaled))
