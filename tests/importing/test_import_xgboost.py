"""XGBoost's models: every row takes the path that it takes in XGBoost, float32 or float64; sums differ by rounding."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost
from other_models import FEATURES, GROUP, made_data, rows_on_thresholds

import rankwright
from rankwright.errors import InputError, InputWarning

X, GRADES = made_data()
CLOSE = 1e-6  # of the largest score: XGBoost adds in float32


def trained(X=X, labels=GRADES, rounds=20, **settings):
    settings = {"objective": "rank:ndcg", "nthread": 1, **settings}
    if settings.get("booster") != "gblinear":
        settings.setdefault("max_depth", 5)
    ranks = settings["objective"].startswith("rank")
    data = xgboost.DMatrix(X, labels, **({"group": GROUP} if ranks else {}))
    return xgboost.train(settings, data, rounds)


def both_forms(booster, folder):
    paths = folder / "model.json", folder / "model.ubj"
    for path in paths:
        booster.save_model(path)
    return paths


def assert_close(scores, expected):
    assert np.abs(scores - expected).max() <= CLOSE * np.abs(expected).max()


def leaves_agree(booster, model, rows):
    """Whether every row reaches the same leaves: leaf values of one tree at a time are equal to the last bit."""
    expected = booster.predict(xgboost.DMatrix(rows), pred_leaf=True)
    forest = model.forest
    for tree, found in enumerate(expected.T.astype(int)):
        nodes = json.loads(booster.get_dump(dump_format="json")[tree])
        alone = rankwright.TreeModel(model.n_features, None, forest.first(tree + 1))
        before = rankwright.TreeModel(model.n_features, None, forest.first(tree))
        value = np.array([leaf_values(nodes).get(leaf, np.nan) for leaf in range(found.max() + 1)])[found]
        np.testing.assert_allclose(alone.score(rows) - before.score(rows), np.float32(value), rtol=1e-6, atol=1e-9)


def leaf_values(node):
    if "leaf" in node:
        return {node["nodeid"]: node["leaf"]}
    return {leaf: value for child in node["children"] for leaf, value in leaf_values(child).items()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"base_score": 3.0},
        {"objective": "rank:pairwise", "num_parallel_tree": 2, "subsample": 0.5},
        {"booster": "dart", "rate_drop": 0.5},
        {"objective": "reg:squarederror", "max_depth": 1},
        {"objective": "rank:map", "grow_policy": "lossguide", "max_leaves": 80, "max_depth": 0},
    ],
    ids=str,
)
def test_every_row_scores_the_same(settings, tmp_path):
    labels = GRADES > 1 if settings.get("objective") == "rank:map" else GRADES
    booster = trained(labels=labels, **settings)
    for path in both_forms(booster, tmp_path):
        saved = rankwright.import_model(path)
        rows = rows_on_thresholds(saved.model, X)
        for table in (rows, rows.astype(np.float32)):
            assert_close(saved.predict(table), booster.predict(xgboost.DMatrix(table)))
        assert (saved.method, saved.model.n_features) == ("xgboost", FEATURES)


def test_every_row_reaches_the_same_leaves(tmp_path):
    booster = trained(rounds=8)
    path, _ = both_forms(booster, tmp_path)
    model = rankwright.import_model(path).model
    rows = rows_on_thresholds(model, X)
    leaves_agree(booster, model, rows)
    leaves_agree(booster, model, rows.astype(np.float32))


def test_thresholds_that_are_merely_taken_over_are_noticed(tmp_path):
    """Negative control: x ≤ split_condition is not x < split_condition."""
    booster = trained(rounds=8)
    path, _ = both_forms(booster, tmp_path)
    model = rankwright.import_model(path).model
    rows = rows_on_thresholds(model, X).astype(np.float32)
    splits = model.forest.feature >= 0
    up = np.nextafter(np.float32(model.forest.threshold), np.float32(np.inf), dtype=np.float32)
    model.forest.threshold[splits] = up[splits]
    with pytest.raises(AssertionError):
        leaves_agree(booster, model, rows)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "count:poisson"])
def test_margins_are_kept_and_transforms_left_out(objective, tmp_path):
    booster = trained(labels=(GRADES > 1).astype(float), objective=objective, base_score=0.3)
    for path in both_forms(booster, tmp_path):
        if objective == "binary:logitraw":
            saved = rankwright.import_model(path)
        else:
            with pytest.warns(InputWarning, match="the ranking is the same"):
                saved = rankwright.import_model(path)
        assert_close(saved.predict(X), booster.predict(xgboost.DMatrix(X), output_margin=True))


def test_linear_models(tmp_path):
    table = np.nan_to_num(X)
    booster = trained(table, booster="gblinear", base_score=0.5)
    for path in both_forms(booster, tmp_path):
        assert_close(rankwright.import_model(path).predict(table), booster.predict(xgboost.DMatrix(table)))
        alone = rankwright.import_model(path, constant=False)
        assert isinstance(alone.model, rankwright.LinearModel)
        assert np.ptp(alone.predict(table) - booster.predict(xgboost.DMatrix(table))) < 1e-5


def test_no_trees(tmp_path):
    booster = trained(rounds=0, base_score=0.7)
    for path in both_forms(booster, tmp_path):
        assert rankwright.import_model(path).predict(X).tolist() == [np.float32(0.7)] * len(X)


def test_early_stopping(tmp_path):
    valid, grades = made_data(5)
    ranker = xgboost.XGBRanker(n_estimators=100, learning_rate=0.5, early_stopping_rounds=2, n_jobs=1)
    qid = np.repeat(np.arange(len(GROUP)), GROUP)
    ranker.fit(X, GRADES, qid=qid, eval_set=[(valid, grades)], eval_qid=[qid], verbose=False)
    booster = ranker.get_booster()
    assert ranker.best_iteration + 1 < booster.num_boosted_rounds()
    for path in both_forms(ranker, tmp_path):
        with pytest.warns(InputWarning, match="2 trees after the best round of early stopping are left out"):
            saved = rankwright.import_model(path)
        assert_close(saved.predict(valid), ranker.predict(valid))
        whole = rankwright.import_model(path, all_trees=True)
        assert_close(whole.predict(valid), booster.predict(xgboost.DMatrix(valid)))


def test_names_with_spaces_and_quotes(tmp_path):
    names = ["a b", 'say "x"', "ü", "d", "e", "f"]
    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, GRADES, feature_names=names), 3)
    for path in both_forms(booster, tmp_path):
        model = rankwright.import_model(path).model
        assert model.feature_names == tuple(names)
        turned = pd.DataFrame(X, columns=names)[names[::-1]]
        assert np.array_equal(model.predict(turned), model.predict(X))


def categorical_frame():
    rng = np.random.default_rng(3)
    place, shelf = rng.choice(["de", "fr", "a b", "no", "se"], len(X)), rng.choice([10, 20, 30, 77], len(X))
    frame = pd.DataFrame({"price": X[:, 0], "place": pd.Categorical(place), "shelf": pd.Categorical(shelf)})
    frame.loc[::7, "place"] = None
    return frame, (place == "de") + 2 * (shelf == 20) + (rng.random(len(X)) < 0.2)


@pytest.mark.parametrize("one_hot", [1, 10])
def test_categories_of_a_data_frame(one_hot, tmp_path):
    frame, labels = categorical_frame()
    data = xgboost.DMatrix(frame, labels, enable_categorical=True)
    booster = xgboost.train({"max_cat_to_onehot": one_hot, "nthread": 1}, data, 10)
    for path in both_forms(booster, tmp_path):
        model = rankwright.import_model(path).model
        assert set(model.categories) == {1, 2}
        assert_close(model.predict(frame), booster.predict(data))


def test_categories_of_an_array(tmp_path):
    rng = np.random.default_rng(4)
    table = np.column_stack([X[:, 0], rng.integers(0, 40, len(X))])
    labels = np.isin(table[:, 1], [3, 35, 38]).astype(int) + (table[:, 0] > 0)
    table[::9, 1] = np.nan
    types = {"feature_types": ["q", "c"], "enable_categorical": True}
    data = xgboost.DMatrix(table, labels, **types)
    booster = xgboost.train({"max_cat_to_onehot": 1, "nthread": 1, "objective": "rank:pairwise"}, data, 10)
    unseen = table.copy()
    unseen[::3, 1] = 200
    booster.dump_model(tmp_path / "dump.json", dump_format="json")
    for path in both_forms(booster, tmp_path):
        with pytest.warns(InputWarning, match="categories of 255 and more, if there are any"):
            model = rankwright.import_model(path).model
        for rows in (table, unseen):
            assert_close(model.predict(rows), booster.predict(xgboost.DMatrix(rows, **types)))
    with pytest.warns(InputWarning, match="a dump lacks XGBoost's base score|categories of 255"):
        dumped = rankwright.import_model(tmp_path / "dump.json", n_features=2).model
    assert np.ptp(dumped.predict(unseen) - model.predict(unseen)) < 1e-12


@pytest.mark.filterwarnings("ignore:.*a dump lacks")
def test_dumps(tmp_path):
    path = tmp_path / "dump.json"
    booster = trained()
    booster.dump_model(path, dump_format="json", with_stats=True)
    expected = booster.predict(xgboost.DMatrix(X))
    saved = rankwright.import_model(path, n_features=FEATURES)
    assert np.ptp(saved.predict(X) - expected) <= CLOSE * np.abs(expected).max()
    names = [f"f{at}" for at in range(1, 7)]
    named = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, GRADES, feature_names=names), 5)
    named.dump_model(path, dump_format="json")
    with pytest.raises(InputError, match="the first may be f0 or f1; expected --first-feature"):
        rankwright.import_model(path)
    scores = rankwright.import_model(path, first_feature=1).predict(X)
    assert np.ptp(scores - named.predict(xgboost.DMatrix(X, feature_names=names))) < 1e-5
    named.feature_names = ["a b", "b", "c", "d", "e", "f"]
    named.dump_model(path, dump_format="json")
    frame = pd.DataFrame(X, columns=named.feature_names)
    assert np.array_equal(rankwright.import_model(path).predict(frame), scores)


def test_what_cannot_be_held_is_refused(tmp_path):
    cases = {
        "a model of 5 classes": trained(objective="multi:softprob", num_class=5, rounds=2),
        "the objective 'binary:hinge'": trained(labels=GRADES > 1, objective="binary:hinge", rounds=2),
        "a model of 2 targets": trained(labels=np.column_stack([GRADES, GRADES]), objective="reg:squarederror"),
    }
    for message, booster in cases.items():
        for path in both_forms(booster, tmp_path):
            with pytest.raises(InputError, match=message):
                rankwright.import_model(path)


def test_text_dumps_and_other_binaries_are_refused_with_a_hint(tmp_path):
    trained(rounds=1).dump_model(tmp_path / "dump.txt")
    with pytest.raises(InputError, match=r'expected save_model.*dump_format="json"'):
        rankwright.import_model(tmp_path / "dump.txt")
