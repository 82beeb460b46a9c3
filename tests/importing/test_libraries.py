"""LightGBM, XGBoost and CatBoost as rankers: their trees, our choice of rounds, models that need no library."""

import subprocess
import sys

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from other_models import made_data

import rankwright
from rankwright import AutoRanker, InputError, LibraryRanker, RankingData, evaluate, load_model, train
from rankwright.importing import libraries
from rankwright.importing.libraries import LIBRARIES

X, GRADES = made_data()
QID = np.repeat(np.arange(60), 10)
DATA = RankingData.from_arrays(X[:300], GRADES[:300], QID[:300], allow_missing=True)
VALID = RankingData.from_arrays(X[300:], GRADES[300:], QID[300:], allow_missing=True)
FEW = {
    "lightgbm": {"num_iterations": 12, "num_leaves": 6, "min_data_in_leaf": 5},
    "xgboost": {"n_estimators": 12, "max_depth": 3},
    "catboost": {"iterations": 12, "depth": 3},
}


def by_library(library, rounds=None):
    """Scores of the validation data after some rounds of the library alone, with the adapter's parameters."""
    ranker = LibraryRanker(library, FEW[library])
    rounds, params = rounds or ranker._most(), ranker._params()
    if library == "lightgbm":
        model = lightgbm.train(params, lightgbm.Dataset(DATA.X, DATA.labels, group=DATA.sizes), rounds)
        return model.predict(VALID.X, raw_score=True)
    if library == "xgboost":
        table = xgboost.DMatrix(DATA.X, DATA.labels, group=DATA.sizes)
        return xgboost.train(params, table, rounds).predict(xgboost.DMatrix(VALID.X), output_margin=True)
    pool = catboost.Pool(DATA.X, DATA.labels, group_id=QID[:300])
    model = catboost.CatBoost(params | {"iterations": 12}).fit(pool)
    return model.predict(VALID.X, prediction_type="RawFormulaVal", ntree_end=rounds)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_saved_model_scores_as_the_library(library, tmp_path):
    ranker = LibraryRanker(library, FEW[library]).fit(DATA)
    ranker.save(tmp_path / "m.rkw")
    saved = load_model(tmp_path / "m.rkw")
    own, theirs = saved.predict(VALID), by_library(library)
    np.testing.assert_array_equal(own, ranker.predict(VALID))
    if library == "lightgbm":
        np.testing.assert_array_equal(own, theirs)
    np.testing.assert_allclose(own, theirs, rtol=2e-6, atol=1e-7)
    assert (saved.method, ranker.n_trees_) == (library, 12)
    assert np.isfinite(saved.predict_contributions(VALID)).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_best_round_by_our_measure_is_kept(library):
    ranker = LibraryRanker(library, FEW[library], eval_measure="AP").fit(DATA, eval_set=VALID)
    values = [evaluate(VALID, by_library(library, n), measures=["AP"]).means["AP"] for n in range(1, 13)]
    assert [row.value for row in ranker.path_] == pytest.approx(values, abs=1e-12)
    assert ranker.n_trees_ == int(np.argmax(values)) + 1
    np.testing.assert_allclose(ranker.predict(VALID), by_library(library, ranker.n_trees_), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_same_seed_gives_the_same_model_with_any_threads(library):
    settings = FEW[library] | ({"bagging_fraction": 0.7, "bagging_freq": 1} if library == "lightgbm" else {})
    settings |= {"subsample": 0.7} if library == "xgboost" else {}
    one, two, other = (
        LibraryRanker(library, settings, random_state=seed, n_jobs=jobs).fit(DATA).predict(VALID)
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_all_data_of_lightgbm_has_the_number_of_threads(monkeypatch):
    """LightGBM's number of threads is one for the process, and every Dataset made without it sets it to all cores."""
    made, begin = [], lightgbm.Dataset.__init__

    def noting(self, *args, **options):
        begin(self, *args, **options)
        made.append(self.params["num_threads"])

    monkeypatch.setattr(lightgbm.Dataset, "__init__", noting)
    LibraryRanker("lightgbm", FEW["lightgbm"], n_jobs=1).fit(DATA, eval_set=VALID)
    assert made == [1, 1]


def test_patience_and_cross_validation_choose_rounds():
    ranker = LibraryRanker("lightgbm", {"num_leaves": 31, "min_data_in_leaf": 2}, patience=3).fit(DATA, eval_set=VALID)
    assert len(ranker.path_) == ranker.n_trees_ + 3 < 100
    crossed = LibraryRanker("catboost", FEW["catboost"], cv=3).fit(DATA)
    assert crossed.n_trees_ == crossed.cv_.setting == crossed.cv_.settings[int(np.argmax(crossed.cv_.means))]


def test_rounds_that_change_earlier_ones_are_all_kept():
    ranker = LibraryRanker("lightgbm", FEW["lightgbm"] | {"boosting": "dart"}).fit(DATA, eval_set=VALID)
    assert ranker.n_trees_ == 12
    linear = LibraryRanker("xgboost", {"booster": "gblinear", "n_estimators": 3}).fit(np.nan_to_num(X), GRADES, QID)
    assert np.ptp(linear.predict(np.nan_to_num(X))) > 0


def test_features_keep_their_names_and_sparse_zeros_are_zeros():
    names = ("a b", "[c]", "ü", "d", "e", "f")
    filled = np.nan_to_num(X)
    for library in LIBRARIES:
        ranker = LibraryRanker(library, FEW[library])
        named = RankingData.from_arrays(filled, GRADES, QID, feature_names=names)
        dense = ranker.fit(named).predict(named)
        assert ranker.model_.feature_names == names
        from scipy import sparse

        thin = RankingData.from_arrays(sparse.csr_array(filled), GRADES, QID)
        np.testing.assert_array_equal(ranker.fit(thin).predict(thin), dense)


def test_weights_of_queries_count():
    weights = dict.fromkeys(range(30), 1.0) | {0: 25.0, 1: 9.0}
    for library in LIBRARIES:
        plain, same, weighed = (
            LibraryRanker(library, FEW[library]).fit(DATA, query_weight=given).predict(VALID)
            for given in (None, dict.fromkeys(range(30), 3.0), weights)
        )
        np.testing.assert_array_equal(plain, same)
        assert not np.array_equal(plain, weighed)


@pytest.mark.parametrize(
    ("library", "settings", "told"),
    [
        ("lightgbm", {"num_leafs": 3}, "LightGBM has no parameter 'num_leafs'"),
        ("xgboost", {"max_dept": 3}, "XGBoost has no parameter 'max_dept'"),
        ("catboost", {"dept": 3}, "CatBoost has no parameter 'dept'"),
        ("xgboost", {"early_stopping_rounds": 3}, "early_stopping_rounds of XGBoost is patience here"),
        ("lightgbm", {"num_iterations": 0}, "the number of rounds is 0"),
        ("lightgbm", {"n_estimators": "many"}, "the number of rounds is 'many'"),
        ("catboost", {"depth": 40}, "CatBoost says: Maximum tree depth is 16"),
        ("xgboost", {"max_depth": "deep"}, "XGBoost says: Invalid Parameter format for max_depth"),
        ("lightgbm", {"num_leaves": 1}, r"LightGBM says: Check failed: \(num_leaves\) > \(1\)$"),
        ("lightgbm", {"linear_tree": True}, "linear models in its leaves"),
    ],
)
def test_mistakes_are_one_line(library, settings, told):
    few = {} if LIBRARIES[library].rounds.split()[0] in settings or "n_estimators" in settings else FEW[library]
    with pytest.raises(InputError, match=told) as error:
        LibraryRanker(library, few | settings).fit(np.nan_to_num(X), GRADES, QID)
    assert "\n" not in str(error.value)


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(InputError, match=r"CatBoost, which is not installed: pip install 'rankwright\[catboost\]'"):
        LibraryRanker("catboost").fit(DATA)


def test_scoring_needs_no_library(tmp_path):
    LibraryRanker("lightgbm", FEW["lightgbm"]).fit(DATA).save(tmp_path / "m.rkw")
    code = (
        "import sys; sys.modules |= dict.fromkeys(['lightgbm', 'xgboost', 'catboost']);"
        f"import rankwright; print(len(rankwright.load_model({str(tmp_path / 'm.rkw')!r}).predict([[0.0] * 6])))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"


def test_by_name_and_as_a_member():
    trained = train("lightgbm", DATA, VALID, settings=FEW["lightgbm"] | {"patience": 4})
    assert trained.ranker.settings == FEW["lightgbm"]
    assert trained.ranker.patience == 4
    auto = AutoRanker(members=["lightgbm", "lambdarank-linear"]).fit(
        np.nan_to_num(X), GRADES, QID, eval_set=VALID_FILLED
    )
    assert [member.name for member in auto.committee_.members] == ["lambdarank-linear", "lightgbm"]
    assert rankwright.LibraryRanker is libraries.LibraryRanker


VALID_FILLED = RankingData.from_arrays(np.nan_to_num(VALID.X), VALID.labels, QID[300:])
