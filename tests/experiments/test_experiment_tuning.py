"""Choosing on validation queries: against fits by hand, and proof that test queries play no part."""

import numpy as np
import pytest
from tests.experiments.experiment_files import made

from rankwright import LambdaMART, RankingSVM, StructuredSVM, ThresholdBins, evaluate
from rankwright.errors import InputError
from rankwright.experiments import tuning
from rankwright.experiments.config import MethodSpec
from rankwright.experiments.tuning import points, run_method
from rankwright.measures import parse_measure
from rankwright.models.saving import save_model
from rankwright.training.methods import Method
from rankwright.training.train import Plan

TRAIN, VALID, TEST = made(1, 12), made(2, 8, first=50), made(3, 10, first=90)
FOREST = {"n_trees": 8, "min_rows": 2, "patience": 3}


def value(scores, data, measure):
    return evaluate(data, scores, measures=[measure]).means[measure]


def test_a_path_of_C_is_that_of_the_estimator():
    spec = MethodSpec("s", "svm-map", {"max_passes": 20}, {"C": [0.1, 1, 10]}, choose_by=parse_measure("nDCG@5"))
    found = run_method(spec, TRAIN, VALID)
    ranker = StructuredSVM("map", "auto", C_grid=[0.1, 1, 10], eval_measure="nDCG@5", max_passes=20)
    ranker.fit(TRAIN, eval_set=VALID)
    assert np.array_equal(found.model.coef, ranker.coef_)
    assert found.chosen == {"C": ranker.C_}
    assert [row["parameters"]["C"] for row in found.path] == [0.1, 1, 10]
    assert found.validation == max(row["validation"] for row in found.path)
    assert found.validation == value(ranker.predict(VALID), VALID, "nDCG@5")
    assert found.training == value(ranker.predict(TRAIN), TRAIN, "nDCG@5")
    assert {"objective", "gap", "passes"} <= set(found.path[0])
    assert 0 < found.seconds_train <= found.seconds_tune


def test_a_grid_is_tried_point_by_point():
    grid = {"max_leaves": [2, 4], "learning_rate": [0.1, 0.5]}
    spec = MethodSpec("t", "lambdamart", FOREST, grid, choose_by=parse_measure("AP"))
    found = run_method(spec, TRAIN, VALID, seed=3)
    by_hand = []
    for leaves in grid["max_leaves"]:
        for rate in grid["learning_rate"]:
            parameters = {"max_leaves": leaves, "learning_rate": rate}
            ranker = LambdaMART(**FOREST, **parameters, eval_measure="AP", random_state=3).fit(TRAIN, eval_set=VALID)
            by_hand.append((parameters, value(ranker.predict(VALID), VALID, "AP"), ranker.predict(TEST)))
    assert [(row["parameters"], row["validation"]) for row in found.path] == [row[:2] for row in by_hand]
    chosen, best, scores = max(by_hand, key=lambda row: row[1])
    assert (found.chosen, found.validation) == (chosen, best)
    assert np.array_equal(found.model.predict(TEST), scores)
    assert 0 < len(found.rounds) <= 8
    assert any(note.startswith("kept ") for note in found.notes)


def test_C_within_a_larger_grid():
    spec = MethodSpec(
        "s", "svm-map", {"max_passes": 10}, {"tol": [0.1, 0.01], "C": [1, 10]}, choose_by=parse_measure("AP")
    )
    path = run_method(spec, TRAIN, VALID).path
    assert [row["parameters"] for row in path] == [{"tol": tol, "C": C} for tol in (0.1, 0.01) for C in (1, 10)]


def test_the_first_of_equal_points_is_kept():
    spec = MethodSpec(
        "r", "lambdamart", FOREST | {"random_state": 1}, {"max_bins": [255, 254]}, choose_by=parse_measure("AP")
    )
    assert run_method(spec, TRAIN, VALID).chosen == {"max_bins": 255}


def test_without_validation_queries_a_method_may_be_cross_validated():
    spec = MethodSpec("r", "rank-svm", {"cv": 3}, choose_by=parse_measure("AP"))
    found = run_method(spec, TRAIN, None)
    ranker = RankingSVM("auto", cv=3, eval_measure="AP").fit(TRAIN)
    assert np.array_equal(found.model.coef, ranker.coef_)
    assert found.chosen == {"C": ranker.C_}
    assert [row["validation"] for row in found.path] == list(ranker.cv_.means)
    trees = run_method(MethodSpec("t", "lambdamart", FOREST | {"cv": 3}), TRAIN, None)
    assert trees.trained.facts.cross_validation.setting == trees.trained.ranker.n_trees_
    with pytest.raises(InputError, match="but there is validation data; expected one of the two"):
        run_method(spec, TRAIN, VALID)


@pytest.mark.parametrize("method", ["svm-acc", "rank-svm", "svm-combo"])
def test_C_is_chosen_where_it_is_left_open(method):
    parameters = {"losses": ["map", "auc"]} if method == "svm-combo" else {}
    spec = MethodSpec("m", method, parameters, choose_by=parse_measure("AP"))
    found = run_method(spec, TRAIN, VALID)
    assert len(found.path) == (1 if method == "svm-combo" else 8)
    assert found.chosen["C"] in [row["parameters"]["C"] for row in found.path]
    alone = run_method(spec, TRAIN, None)
    assert (alone.chosen, np.isnan(alone.validation)) == ({}, True)
    assert [(point["C"], np.isnan(point["validation"])) for point in alone.path] == [(1.0, True)] * (
        method != "svm-acc"
    )
    assert alone.trained.facts.C == 1.0
    fixed = run_method(MethodSpec("m", method, parameters | {"C": 2}, choose_by=parse_measure("AP")), TRAIN, VALID)
    assert (fixed.trained.facts.C, fixed.chosen, len(fixed.path)) == (2.0, {}, 1)


def test_bins_are_cut_on_the_training_queries():
    spec = MethodSpec("b", "svm-map", {"bins": 3, "C": 1.0}, choose_by=parse_measure("AP"))
    found = run_method(spec, TRAIN, VALID)
    bins = ThresholdBins(3).fit(TRAIN)
    ranker = StructuredSVM("map", 1.0).fit(bins.transform_data(TRAIN))
    assert np.allclose(found.model.predict(TEST), ranker.predict(bins.transform_data(TEST)), atol=1e-6)
    chosen = run_method(
        MethodSpec("b", "svm-map", {"C": 1.0}, {"bins": [2, "none"]}, choose_by=parse_measure("AP")), TRAIN, VALID
    )
    assert [row["parameters"]["bins"] for row in chosen.path] == [2, "none"]


def test_single_features():
    for column in range(4):
        found = run_method(MethodSpec("f", f"feature:{column + 1}"), TRAIN, VALID)
        assert np.array_equal(found.model.predict(TEST), TEST.X[:, column].astype(float))
    values = [value(VALID.X[:, column].astype(float), VALID, "AP") for column in range(4)]
    best = run_method(MethodSpec("f", "best-feature", choose_by=parse_measure("AP")), TRAIN, VALID)
    assert best.chosen == {"feature": str(np.argmax(values) + 1)}
    assert [row["validation"] for row in best.path] == pytest.approx(values, abs=1e-12)
    named = TRAIN.with_features(TRAIN.X, ["a", "b", "c", "d"])
    assert run_method(MethodSpec("f", "feature:c"), named, None).model.coef.tolist() == [0, 0, 1, 0]
    with pytest.raises(InputError, match=r"no feature 'e'; expected a number from 1 to 4, or a name such as a"):
        run_method(MethodSpec("f", "feature:e"), named, None)


def test_random_points():
    grid = {
        "max_leaves": {"low": 2, "high": 5},
        "learning_rate": {"low": 0.01, "high": 1, "log": True},
        "n_trees": {"low": 10, "high": 1000, "log": True},
        "min_rows": [1, 2],
        "tree_rows": {"low": 0.5, "high": 1.0},
    }
    spec = MethodSpec("t", "lambdamart", {}, grid, random=200)
    drawn = points(spec, 0)
    assert len(drawn) == 200
    assert drawn == points(spec, 0)
    assert drawn != points(spec, 1)
    assert {point["max_leaves"] for point in drawn} == {2, 3, 4, 5}
    assert {point["min_rows"] for point in drawn} == {1, 2}
    rates = np.array([point["learning_rate"] for point in drawn])
    assert 0.01 <= rates.min() < 0.02 < 0.5 < rates.max() <= 1
    assert 0.3 < (rates < 0.1).mean() < 0.7  # half of a log range lies below its middle
    trees = [point["n_trees"] for point in drawn]
    assert all(isinstance(number, int) and 10 <= number <= 1000 for number in trees)
    assert 0.3 < np.mean(np.array(trees) < 100) < 0.7
    assert all(0.5 <= point["tree_rows"] <= 1 for point in drawn)


def test_a_random_point_is_tried_once():
    spec = MethodSpec("t", "lambdamart", {}, {"max_leaves": [2, 3]}, random=50)
    assert sorted(point["max_leaves"] for point in points(spec)) == [2, 3]
    with_C = MethodSpec("s", "svm-map", {"max_passes": 5}, {"C": [0.1, 1.0]}, random=9, choose_by=parse_measure("AP"))
    path = run_method(with_C, TRAIN, VALID).path
    assert sorted(row["parameters"]["C"] for row in path) == [0.1, 1.0]


def test_an_interrupted_training_is_no_result(monkeypatch):
    train = Plan.train

    def press(check):
        if check.passes > 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "_load_code", lambda *_: None)
    monkeypatch.setattr(Plan, "train", lambda self, data, valid: train(self, data, valid, callback=press))
    with pytest.raises(KeyboardInterrupt):
        run_method(MethodSpec("s", "svm-map", {"C": 100.0, "tol": 1e-9}), TRAIN, VALID)


def test_what_training_warns_of_is_noted():
    spec = MethodSpec("s", "svm-map", {"max_passes": 2, "tol": 1e-9, "C": 100.0}, choose_by=parse_measure("AP"))
    assert any("max_passes=2" in note for note in run_method(spec, TRAIN, VALID).notes)
    end = run_method(MethodSpec("s", "svm-map", {}, {"C": [1e-3, 1e-2]}, choose_by=parse_measure("AP")), TRAIN, VALID)
    assert any("end of the values tried" in note for note in end.notes)


@pytest.mark.parametrize("method", ["lambdamart", "lambdaboost"])
def test_a_background_is_a_model_file(tmp_path, method):
    start = run_method(MethodSpec("f", "feature:1"), TRAIN, None).model
    save_model(start, tmp_path / "b.rkw", method="feature", parameters={})
    key = "n_trees" if method == "lambdamart" else "n_rounds"
    spec = MethodSpec("b", method, {"background": str(tmp_path / "b.rkw"), key: 1, "learning_rate": 1e-9})
    scores = run_method(spec, TRAIN, None).model.predict(TEST)
    assert np.allclose(scores / scores[0], TEST.X[:, 0] / TEST.X[0, 0], atol=1e-5)  # at a scale of its own


def test_a_ranker_is_made_once_for_every_point(monkeypatch):
    made, make = [], Method.make
    monkeypatch.setattr(Method, "make", lambda self, **settings: made.append(settings) or make(self, **settings))
    run_method(MethodSpec("t", "lambdamart", FOREST, {"max_leaves": [2, 3], "max_bins": [8, 9]}), TRAIN, VALID)
    assert [(one["max_leaves"], one["max_bins"]) for one in made] == [(2, 8), (2, 9), (3, 8), (3, 9)]
    made.clear()
    run_method(MethodSpec("s", "svm-map", {"max_passes": 5}, {"C": [0.1, 1.0]}), TRAIN, VALID)
    assert [(one["C"], one["C_grid"]) for one in made] == [("auto", [0.1, 1.0])]
