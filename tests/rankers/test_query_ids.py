"""Which rows are one query: rows without query ids, and data frames that hold them in the column ``qid``."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from contract import bits, make
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from rankwright import InputError, InputWarning, QueryKFold, RankingData
from rankwright.maxmargin.accuracy import AccuracySVM
from rankwright.maxmargin.bins import ThresholdBins
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM

NAMES = ["a", "b", "c", "d", "e"]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "batch": pa.RecordBatch.from_pydict}


@pytest.fixture
def ranker(ranker):
    few = {"n_trees": 5, "n_rounds": 8, "epochs": 3}
    return ranker.set_params(**{name: value for name, value in few.items() if hasattr(ranker, name)})


def columns(X, qid):
    """Features by name, with the query ids, as text, in the middle."""
    table = {name: X[:, at] for at, name in enumerate(NAMES)}
    return {"a": table.pop("a"), "qid": [f"q{q}" for q in qid], **table}


def test_fit_without_query_ids_warns_of_the_number_of_rows(ranker):
    X, y, _ = make(n_queries=100, noise=1.0)
    with pytest.warns(
        InputWarning, match="^no qid: all 1,200 rows are taken as one query; pass qid=…, or group=…"
    ) as one:
        alone = clone(ranker).fit(X, y)
    assert [warning.filename for warning in one] == [__file__]
    assert "\n" not in str(one[0].message)
    assert bits(alone.predict(X)) == bits(clone(ranker).fit(X, y, group=[1200]).predict(X))  # which say what they mean
    assert bits(alone.predict(X)) == bits(clone(ranker).fit(RankingData.from_arrays(X, y, group=[1200])).predict(X))


def test_score_without_query_ids_is_refused_where_training_had_several(ranker):
    X, y, qid = make(noise=1.0)
    fitted = pickle.loads(pickle.dumps(ranker.fit(X, y, qid)))  # by another process
    with pytest.raises(InputError, match="no qid: training had 15 queries, and these 180 rows would") as caught:
        fitted.score(X, y)
    for how in ("pass qid=", "group=", "a data frame with a column qid", "metadata routing", "scoring"):
        assert how in str(caught.value)
    assert "\n" not in str(caught.value)
    assert fitted.score(X, y, group=[180]) == fitted.score(X, y, np.zeros(180))
    assert fitted.score(X[:1], y[:1]) == fitted.score(X[:1], y[:1], [1])  # a single row is one query
    one = clone(fitted).fit(X, y, group=[180])  # of which a clone knows nothing
    with pytest.warns(InputWarning, match="^no qid: all 180 rows are taken as one query") as warned:
        value = one.score(X, y)
    assert [warning.filename for warning in warned] == [__file__]
    assert value == one.score(X, y, group=[180])


@pytest.mark.parametrize("library", FRAMES)
def test_the_column_qid_of_a_frame_is_the_query_id(ranker, library):
    X, y, qid = make(noise=1.0)
    frame, ids = FRAMES[library](columns(X, qid)), columns(X, qid)["qid"]
    plain, framed = clone(ranker).fit(X, y, ids), clone(ranker).fit(frame, y)
    assert framed.n_features_in_ == 5
    assert bits(framed.predict(frame)) == bits(plain.predict(X))
    assert framed.score(frame, y) == plain.score(X, y, ids)
    assert bits(clone(ranker).fit(frame, y, ids).predict(frame)) == bits(plain.predict(X))  # the same ids again
    for use in (clone(ranker).fit, framed.score):
        with pytest.raises(InputError, match="has a column 'qid' with other query ids than qid; leave out one"):
            use(frame, y, qid)
        with pytest.raises(InputError, match="has a column 'qid'; leave out group"):
            use(frame, y, group=[180])


@pytest.mark.parametrize("library", FRAMES)
def test_the_column_qid_of_validation_data(library):
    train, (X, y, qid) = make(noise=2.0), make(seed=1, noise=2.0)
    frame, ids = FRAMES[library](columns(X, qid)), columns(X, qid)["qid"]
    training = FRAMES[library](columns(train[0], train[2]))
    auto = StructuredSVM(C="auto", C_grid=[0.01, 1.0])
    first = clone(auto).fit(training, train[1], eval_set=(frame, y))
    for form in ({"eval_set": (frame, y, ids)}, {"eval_set": [(frame, y)]}, {"eval_set": (frame, y), "eval_qid": ids}):
        assert clone(auto).fit(training, train[1], **form).C_path_ == first.C_path_
    by_hand = clone(auto).fit(*train, eval_set=(X, y, qid))
    assert by_hand.C_path_ == first.C_path_
    with pytest.raises(InputError, match="leave out group"):
        clone(auto).fit(training, train[1], eval_set=(frame, y), eval_group=[180])
    with pytest.raises(InputError, match="other query ids than qid"):
        clone(auto).fit(training, train[1], eval_set=(frame, y, qid))


@pytest.mark.parametrize("library", FRAMES)
def test_features_scaled_within_the_queries_of_a_frame(library):
    X, y, qid = make(noise=1.0)
    frame = FRAMES[library](columns(X, qid))
    ranker, plain = (AccuracySVM(query_scaling="minmax").fit(*given) for given in ((frame, y), (X, y, qid)))
    scores = plain.predict(X, qid)
    assert bits(ranker.predict(frame)) == bits(scores)
    assert bits(ranker.model_.predict(frame)) == bits(scores)
    with pytest.warns(InputWarning, match="all 180 rows are taken as one"):
        assert bits(plain.predict(X)) != bits(scores)


def test_a_column_qid_with_missing_ids_or_given_twice():
    X, y, qid = make(2)
    table = columns(X, qid)
    table["qid"][3] = None
    for library in FRAMES.values():
        with pytest.raises(InputError, match=r"the column 'qid' has no value in row 3 \(from 0\)"):
            RankingSVM().fit(library(table), y)
    frame = pd.DataFrame(X, columns=["a", "qid", "b", "qid", "c"])
    with pytest.raises(InputError, match="2 columns are called 'qid'"):
        RankingSVM().fit(frame, y)
    with pytest.raises(InputError, match="LazyFrame has no rows yet"):
        RankingSVM().fit(pl.DataFrame(columns(X, qid)).lazy(), y)


def test_bins_leave_query_ids_out():
    X, _, qid = make(noise=1.0)
    frame, plain = pd.DataFrame(columns(X, qid)), pd.DataFrame(X, columns=NAMES)
    bins = ThresholdBins(n_bins=3).fit(frame)
    assert bins.feature_names_in_.tolist() == NAMES
    assert (bins.transform(frame) != ThresholdBins(n_bins=3).fit(plain).transform(plain)).nnz == 0


def test_a_feature_called_qid_of_ranking_data_stays_one():
    X, y, qid = make(noise=1.0)
    names = ["a", "qid", "c", "d", "e"]
    ranker = RankingSVM().fit(RankingData.from_arrays(X, y, qid, feature_names=names))
    frame = pd.DataFrame(X, columns=names)
    assert bits(ranker.predict(frame)) == bits(RankingSVM().fit(X, y, qid).predict(X))
    assert ranker.score(frame, y, qid) == ranker.score(RankingData.from_arrays(X, y, qid, feature_names=names))


@pytest.mark.parametrize("ranker", [RankingSVM(), AccuracySVM(query_scaling="minmax")], ids=repr)
def test_scikit_learns_functions_with_a_frame(ranker):
    X, y, qid = make(noise=2.0)
    frame = pd.DataFrame(columns(X, qid))
    ids, folds = frame["qid"].to_numpy(), QueryKFold(3)
    found = cross_val_score(ranker, frame, y, cv=folds)
    by_hand = []
    for train, test in folds.split(X, y, qid=ids):
        assert not set(ids[train]) & set(ids[test])
        by_hand.append(clone(ranker).fit(X[train], y[train], ids[train]).score(X[test], y[test], ids[test]))
    assert found.tolist() == by_hand
    search = GridSearchCV(ranker, {"C": [0.1, 1.0]}, cv=folds).fit(frame, y)
    assert search.cv_results_["mean_test_score"].max() >= np.mean(by_hand)
    assert search.score(frame, y) == clone(search.best_estimator_).fit(X, y, ids).score(X, y, ids)
    # Each query in rows of its own: any splitter of rows that are in order works too.
    in_order = frame.sort_values("qid", kind="stable")
    cross_val_score(ranker, in_order, y[in_order.index], cv=KFold(3))


def test_permutation_importance():
    X, y, qid = make(n_queries=30, noise=1.0)
    frame = pd.DataFrame(columns(X, qid))
    ranker = RankingSVM().fit(frame, y)
    found = permutation_importance(ranker, frame, y, n_repeats=3, random_state=0)
    importance = dict(zip(frame.columns, found.importances_mean, strict=True))
    # The labels follow a, b and c. The row of qid is no feature's: it tells what happens to the value where documents
    # are dealt out to the queries at random.
    assert min(importance[name] for name in "abc") > max(importance[name] for name in "de")
    dealt = np.random.default_rng(0).permutation(len(y))
    assert ranker.score(frame.assign(qid=qid[dealt]), y) == RankingSVM().fit(X, y, qid).score(X, y, qid[dealt])
    assert np.isfinite(importance["qid"])
    with pytest.raises(InputError, match="in scikit-learn's functions give X as a data frame with a column qid"):
        permutation_importance(ranker, frame[NAMES], y, n_repeats=1)

    def value(ranker, X, y):  # or a function as scoring, where the frame cannot have the column
        return ranker.score(X, y, qid)

    scores = permutation_importance(ranker, frame[NAMES], y, scoring=value, n_repeats=3, random_state=0)
    assert scores.importances_mean[0] > scores.importances_mean[3]
