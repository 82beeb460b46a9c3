"""LightGBM's models score as in LightGBM, to the last bit."""

import json

import lightgbm
import numpy as np
import pandas as pd
import pytest
from other_models import FEATURES, GROUP, made_data, rows_on_thresholds

import rankwright
from rankwright.errors import InputError, InputWarning

X, GRADES = made_data()
RANK = {"objective": "lambdarank", "num_leaves": 15, "min_data_in_leaf": 3, "verbose": -1, "num_threads": 1}


def trained(X=X, labels=GRADES, rounds=20, **settings):
    return lightgbm.train({**RANK, **settings}, lightgbm.Dataset(X, labels, group=GROUP), rounds)


def both_forms(booster, folder):
    """The paths of the two forms of a model."""
    booster.save_model(folder / "model.txt")
    (folder / "model.json").write_text(json.dumps(booster.dump_model()))
    return folder / "model.txt", folder / "model.json"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_missing": False},
        {"zero_as_missing": True},
        {"boosting": "dart", "drop_rate": 0.5},
        {"objective": "rank_xendcg"},
        {"objective": "regression"},
        {"num_leaves": 2},
        {"num_leaves": 100, "min_data_in_leaf": 1},
    ],
    ids=str,
)
def test_every_row_scores_the_same(settings, tmp_path):
    booster = trained(**settings)
    for path in both_forms(booster, tmp_path):
        saved = rankwright.import_model(path)
        rows = rows_on_thresholds(saved.model, X)
        assert np.array_equal(saved.predict(rows), booster.predict(rows))
        assert saved.method == "lightgbm"
        assert saved.model.n_features == FEATURES


def test_infinite_thresholds_and_values(tmp_path):
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.inf, X)
    booster = trained()
    for path in both_forms(booster, tmp_path):
        for table in (rows, -rows):
            assert np.array_equal(rankwright.import_model(path).predict(table), booster.predict(table))


def test_a_threshold_that_is_moved_is_noticed(tmp_path):
    """Negative control: the rows find a threshold that is off by the smallest step."""
    booster = trained()
    path, _ = both_forms(booster, tmp_path)
    model = rankwright.import_model(path).model
    rows = rows_on_thresholds(model, X)
    model.forest.threshold[:] = np.nextafter(model.forest.threshold, np.inf)
    assert not np.array_equal(model.predict(rows), booster.predict(rows))


def test_random_forests_are_averaged(tmp_path):
    booster = trained(boosting="rf", bagging_fraction=0.5, bagging_freq=1)
    for path in both_forms(booster, tmp_path):
        np.testing.assert_allclose(rankwright.import_model(path).predict(X), booster.predict(X), rtol=1e-14)


def test_two_classes_rank_by_the_raw_score(tmp_path):
    booster = trained(labels=GRADES > 1, objective="binary")
    for path in both_forms(booster, tmp_path):
        with pytest.warns(InputWarning, match="the ranking is the same"):
            saved = rankwright.import_model(path)
        assert np.array_equal(saved.predict(X), booster.predict(X, raw_score=True))


def test_early_stopping_keeps_the_best_round(tmp_path):
    valid, grades = made_data(5)
    train = lightgbm.Dataset(X, GRADES, group=GROUP)
    settings = {**RANK, "learning_rate": 0.5, "metric": "ndcg"}
    checks = [lightgbm.early_stopping(2, verbose=False)]
    validation = lightgbm.Dataset(valid, grades, group=GROUP, reference=train)
    more = {"valid_sets": [validation], "callbacks": checks, "keep_training_booster": True}
    booster = lightgbm.train(settings, train, 100, **more)
    assert 0 < booster.best_iteration < booster.current_iteration()
    for path in both_forms(booster, tmp_path):
        saved = rankwright.import_model(path)
        assert saved.model.forest.n_trees == booster.best_iteration
        assert np.array_equal(saved.predict(valid), booster.predict(valid))


def categorical_frame():
    rng = np.random.default_rng(3)
    place, shelf = rng.choice(["de", "fr", "é ü", "no"], len(X)), rng.choice([10, 20, 30, 77], len(X))
    frame = pd.DataFrame({"price": X[:, 0], "place": pd.Categorical(place), "shelf": pd.Categorical(shelf)})
    frame.loc[::7, "place"] = None
    return frame, (place == "de") + 2 * (shelf == 20) + (rng.random(len(X)) < 0.2)


def test_categories_of_a_data_frame_are_matched_by_value(tmp_path):
    frame, labels = categorical_frame()
    booster = trained(frame, labels, min_data_per_group=1)
    for path in both_forms(booster, tmp_path):
        model = rankwright.import_model(path).model
        assert set(model.categories) == {1, 2}
        assert np.array_equal(model.predict(frame), booster.predict(frame))
        other = frame.assign(place=pd.Categorical(["new"] * len(X)))
        assert np.array_equal(model.predict(other), booster.predict(other))
        turned = frame.assign(place=frame["place"].cat.reorder_categories(["no", "é ü", "fr", "de"]))
        assert np.array_equal(model.predict(turned), booster.predict(turned))


def test_categories_of_an_array_are_whole_numbers(tmp_path):
    rng = np.random.default_rng(4)
    table = np.column_stack([X[:, 0], rng.integers(0, 40, len(X))])
    labels = np.isin(table[:, 1], [3, 35, 38]).astype(int) + (table[:, 0] > 0)
    data = lightgbm.Dataset(table, labels, group=GROUP, categorical_feature=[1])
    booster = lightgbm.train({**RANK, "min_data_per_group": 1, "cat_smooth": 1}, data, 10)
    unseen = table.copy()
    unseen[::3, 1], unseen[1::3, 1], unseen[5, 1] = 77, np.nan, -3
    for path in both_forms(booster, tmp_path):
        model = rankwright.import_model(path).model
        assert model.categories
        for rows in (table, unseen):
            assert np.array_equal(model.predict(rows), booster.predict(rows))


def test_names_of_features_are_kept(tmp_path):
    booster = lightgbm.train(RANK, lightgbm.Dataset(X, GRADES, group=GROUP, feature_name=[*"abcdef"]), 3)
    for path in both_forms(booster, tmp_path):
        assert rankwright.import_model(path).feature_names == tuple("abcdef")
    for path in both_forms(trained(rounds=3), tmp_path):
        assert rankwright.import_model(path).feature_names is None


def test_an_empty_first_column_is_left_out(tmp_path):
    """LightGBM reads features 1, 2, … of LETOR text as columns 1, 2, …; column 0 is empty."""
    booster = trained(np.column_stack([np.zeros(len(X)), X]))
    path, _ = both_forms(booster, tmp_path)
    model = rankwright.import_model(path, first_feature=1).model
    assert model.n_features == FEATURES
    assert np.array_equal(model.predict(X), booster.predict(np.column_stack([np.zeros(len(X)), X])))
    with pytest.raises(InputError, match="uses feature 1; expected numbers from 2 on"):
        rankwright.import_model(path, first_feature=2)


def test_a_model_without_splits(tmp_path):
    booster = trained(min_data_in_leaf=len(X))
    for path in both_forms(booster, tmp_path):
        saved = rankwright.import_model(path)
        assert np.array_equal(saved.predict(X), booster.predict(X))


def test_a_model_without_trees(tmp_path):
    path, _ = both_forms(trained(rounds=1), tmp_path)
    head = path.read_text().partition("Tree=0")[0].partition("tree_sizes=")[0]
    path.write_text(f"{head}tree_sizes=\n\nend of trees\n")
    assert rankwright.import_model(path).predict(X).tolist() == [0.0] * len(X)


def test_what_cannot_be_held_is_refused(tmp_path):
    classes = lightgbm.train({"objective": "multiclass", "num_class": 5, "verbose": -1}, lightgbm.Dataset(X, GRADES), 2)
    for path in both_forms(classes, tmp_path):
        with pytest.raises(InputError, match="a model of 5 classes; expected one that gives one score"):
            rankwright.import_model(path)
    linear = trained(objective="regression", linear_tree=True)
    for path in both_forms(linear, tmp_path):
        with pytest.raises(InputError, match="linear models in its leaves"):
            rankwright.import_model(path)
    rng = np.random.default_rng(0)
    table = rng.integers(0, 600, (6000, 1)).astype(float)
    data = lightgbm.Dataset(table, (table[:, 0] % 2), categorical_feature=[0])
    many = {
        "objective": "regression",
        "verbose": -1,
        "min_data_per_group": 1,
        "max_cat_threshold": 500,
        "cat_smooth": 1,
    }
    for path in both_forms(lightgbm.train(many, data, 20), tmp_path):
        with pytest.raises(InputError, match="categories of the feature 'Column_0'; expected at most 255"):
            rankwright.import_model(path)


def test_zeros_that_would_take_too_many_nodes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.importing.lightgbm.MAX_NODES", 100)
    path, _ = both_forms(trained(zero_as_missing=True), tmp_path)
    with pytest.raises(InputError, match=r"model.txt:\d+: tree \d+ \(from 0\): takes 0 for missing in so many splits"):
        rankwright.import_model(path)
