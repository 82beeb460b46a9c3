"""Exports read by LightGBM, XGBoost and treelite themselves, on rows on and around thresholds."""

import json

import numpy as np
import pytest
from made_models import NAMES, random_trees

from rankwright import BinnedModel, SumModel, export_model
from rankwright.data.categories import number_of
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.target import Options
from rankwright.exporting.targets import find_target
from rankwright.exporting.verify import probe_rows

MODELS = {
    "trees": random_trees(),
    "ordinary thresholds": random_trees(1, thresholds=np.random.default_rng(0).normal(size=50)),
    "adjacent thresholds": random_trees(2, thresholds=[0.1, np.nextafter(0.1, 1), np.nextafter(0.1, 0)]),
    "without names": random_trees(3, names=None),
    "odd names": random_trees(4, names=('a "b"', "a [b]", "a,b:c", "ü < {x}", "a  b", "")),
    "one leaf": random_trees(5, n_leaves=1, n_trees=2),
    "some of one leaf": SumModel((random_trees(6), random_trees(7, n_leaves=1)), [1.0, 1.0]),
    "no trees": random_trees(n_trees=0),
    "stumps": random_trees(8, n_leaves=2),
    "deep": random_trees(9, n_leaves=300, n_trees=2),
    "sum": SumModel((random_trees(10), random_trees(11)), [0.3, -2.0]),
    "bins": BinnedModel([0.0, 1.0, 0.1, -1.0], [0, 2, 3, 4], [1.0, -3.0, 2.0, 0.5]),
    "numbers as categories": random_trees(12, categories=7),
    "large numbers as categories": random_trees(13, categories=3, values=(10**9, -3, 7)),
    "texts as categories": random_trees(14, categories=4, values=("a", "b b", 'c"', "ü")),
}


def exported(name, target, folder):
    """Return the ensemble of the model, rows as the consumer sees them, and the scores of the model."""
    model, consumer = MODELS[name], find_target(target)
    done = export_model(model, target, folder / "out")
    assert done.made.off == done.made.inexact == 0
    ensemble = ensemble_of(model)
    rows = consumer.seen(probe_rows(ensemble, consumer.dtype, seed=1), ensemble)
    return ensemble, rows, model.score(rows, None if model.feature_names is None else model.names)


def coded(ensemble, rows, folder):
    """Return rows with the numbers of categories.json, as a user of the library would make them."""
    file, rows = folder / "out" / "categories.json", rows.copy()
    for name, values in json.loads(file.read_text()).items() if file.exists() else ():
        j = ensemble.names.index(name)
        codes = {number_of(value): code for code, value in enumerate(values)}
        rows[:, j] = [codes.get(value, np.nan) for value in rows[:, j].tolist()]
    return rows


@pytest.mark.parametrize("name", MODELS)
def test_lightgbm_gives_the_same_scores(name, tmp_path):
    import lightgbm

    ensemble, rows, expected = exported(name, "lightgbm", tmp_path)
    booster = lightgbm.Booster(model_file=str(tmp_path / "out" / "model.txt"))
    found = booster.predict(coded(ensemble, rows, tmp_path), num_threads=1)
    if isinstance(MODELS[name], SumModel):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", MODELS)
def test_xgboost_gives_the_same_scores(name, tmp_path):
    import xgboost

    ensemble, rows, expected = exported(name, "xgboost", tmp_path)
    booster = xgboost.Booster(model_file=str(tmp_path / "out" / "model.json"))
    types = [
        "c" if j in ensemble.categories and ensemble.trees.n_trees else "float" for j in range(len(ensemble.names))
    ]
    names = booster.feature_names
    data = xgboost.DMatrix(
        coded(ensemble, rows, tmp_path), feature_names=names, feature_types=types, enable_categorical=True
    )
    np.testing.assert_allclose(booster.predict(data), expected, rtol=0, atol=1e-6 * np.abs(expected).max(initial=1.0))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [name for name in MODELS if "categories" not in name])
@pytest.mark.parametrize("target", ["lightgbm", "xgboost"])
def test_treelite_gives_the_same_scores(name, target, tmp_path):
    import treelite

    _, rows, expected = exported(name, target, tmp_path)
    if target == "lightgbm":
        model = treelite.frontend.load_lightgbm_model(tmp_path / "out" / "model.txt")
    else:
        model = treelite.frontend.load_xgboost_model(tmp_path / "out" / "model.json", format_choice="use_suffix")
        rows = rows.astype(np.float32)
    found = treelite.gtil.predict(model, rows, nthread=1).reshape(-1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max(initial=1.0))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", ["lightgbm", "xgboost"])
def test_our_model_of_the_rule_is_that_of_the_package(name, target):
    """Without the package, our own reading of the file verifies it: it must give what the package gives."""
    consumer, ensemble = find_target(target), ensemble_of(MODELS[name])
    written = consumer.write(ensemble, Options())
    rows = consumer.seen(probe_rows(ensemble, consumer.dtype, seed=2), ensemble)
    theirs = consumer.consumer.read(written.files, ensemble.names)(rows, None)
    ours = consumer.read(written.files, ensemble.names)(rows, None)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max(initial=1.0))


def test_names_stay_where_they_can(tmp_path):
    import lightgbm

    export_model(random_trees(), "lightgbm", tmp_path / "out")
    assert tuple(lightgbm.Booster(model_file=str(tmp_path / "out" / "model.txt")).feature_name()) == NAMES
