"""CatBoost's models score as in CatBoost."""

import catboost
import numpy as np
import pandas as pd
import pytest
from other_models import FEATURES, GROUP, made_data, rows_on_thresholds

import rankwright
from rankwright.errors import InputError, InputWarning

X, GRADES = made_data()


def trained(X=X, labels=GRADES, **settings):
    settings = {"loss_function": "YetiRank", "iterations": 15, "depth": 4, "thread_count": 1, **settings}
    qid = np.repeat(np.arange(len(GROUP)), GROUP)
    pool = catboost.Pool(X, labels, group_id=qid if settings["loss_function"] == "YetiRank" else None)
    return catboost.CatBoost({"verbose": 0, "allow_writing_files": False, **settings}).fit(pool)


def imported(model, folder):
    model.save_model(str(folder / "model.json"), format="json")
    return rankwright.import_model(folder / "model.json")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"nan_mode": "Max"},
        {"grow_policy": "Lossguide", "max_leaves": 12},
        {"grow_policy": "Depthwise"},
        {"loss_function": "RMSE"},
        {"depth": 1, "iterations": 1},
    ],
    ids=str,
)
def test_every_row_scores_the_same(settings, tmp_path):
    model = trained(**settings)
    saved = imported(model, tmp_path)
    rows = rows_on_thresholds(saved.model, X)
    for table in (rows, rows.astype(np.float32)):
        np.testing.assert_allclose(saved.predict(table), model.predict(table), rtol=1e-13, atol=1e-14)
    assert (saved.method, saved.model.n_features) == ("catboost", FEATURES)


def test_a_threshold_that_is_moved_is_noticed(tmp_path):
    model = trained()
    own = imported(model, tmp_path).model
    rows = rows_on_thresholds(own, X)
    own.forest.threshold[:] = np.nextafter(own.forest.threshold, np.inf)
    assert np.abs(own.predict(rows) - model.predict(rows)).max() > 1e-3


def test_two_classes_rank_by_the_raw_value(tmp_path):
    model = trained(labels=(GRADES > 1).astype(int), loss_function="Logloss")
    with pytest.warns(InputWarning, match="the ranking is the same"):
        saved = imported(model, tmp_path)
    np.testing.assert_allclose(saved.predict(X), model.predict(X, prediction_type="RawFormulaVal"), rtol=1e-13)


def test_scale_and_bias(tmp_path):
    model = trained()
    model.set_scale_and_bias(2.5, 7.0)
    np.testing.assert_allclose(imported(model, tmp_path).predict(X), model.predict(X), rtol=1e-13)


def test_names_and_constant_columns(tmp_path):
    names = ["a b", "constant", "ü", "d", "e", "last"]
    frame = pd.DataFrame(X, columns=names).assign(constant=1.0, last=2.0)
    model = trained(frame)
    saved = imported(model, tmp_path)
    assert saved.feature_names == tuple(names)
    np.testing.assert_allclose(saved.predict(frame[names[::-1]]), model.predict(frame), rtol=1e-13)


def test_what_cannot_be_held_is_refused(tmp_path):
    with pytest.raises(InputError, match="one score"):
        imported(trained(loss_function="MultiClass"), tmp_path)
    frame = pd.DataFrame({"x": X[:, 0], "place": np.random.default_rng(0).choice(["a", "b", "c"], len(X))})
    model = catboost.CatBoost({"iterations": 2, "verbose": 0, "allow_writing_files": False, "thread_count": 1})
    with pytest.raises(InputError, match=r"has categorical features.*expected numeric features only"):
        imported(model.fit(catboost.Pool(frame, GRADES, cat_features=["place"])), tmp_path)
    trained().save_model(str(tmp_path / "model.cbm"))
    with pytest.raises(InputError, match="is CatBoost's binary form; expected JSON"):
        rankwright.import_model(tmp_path / "model.cbm")
