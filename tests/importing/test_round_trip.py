"""Models go out and come back: what `export` writes for a library is imported with the same scores, and the reverse."""

import lightgbm
import numpy as np
import pytest
import xgboost
from other_models import GROUP, made_data, random_ensemble, rows_on_thresholds

import rankwright
from rankwright import LambdaMART, export_model, import_model

X, GRADES = made_data()


@pytest.fixture(scope="module")
def trees():
    return LambdaMART(n_trees=10, max_leaves=6, min_rows=5).fit(X, GRADES, group=GROUP).model_


def model_file(folder, target):
    done = folder / target
    return next(path for path in sorted(done.iterdir()) if path.name.startswith("model"))


@pytest.mark.parametrize("target", ["lightgbm", "xgboost", "ranklib"])
def test_what_is_exported_comes_back(target, trees, tmp_path):
    zeros = target == "ranklib"  # it takes missing values as 0
    rows = rows_on_thresholds(trees, X).astype(np.float32)
    rows = np.nan_to_num(rows) if zeros else rows
    export_model(trees, target, tmp_path / target, missing_as_zero=zeros)
    again = import_model(model_file(tmp_path, target), n_features=trees.n_features).model
    np.testing.assert_allclose(again.predict(rows), trees.predict(rows), rtol=1e-6, atol=1e-6)
    assert again.forest.n_trees >= trees.forest.n_trees


def test_linear_models_come_back(tmp_path):
    model = rankwright.LinearModel([0.5, -2.0, 0.0, 1e-3])
    export_model(model, "ranklib", tmp_path / "ranklib")
    again = import_model(model_file(tmp_path, "ranklib"), n_features=4).model
    rows = np.nan_to_num(X[:, :4])
    np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("target", ["opensearch", "solr", "vespa", "onnx", "lightgbm", "xgboost", "python"])
def test_imported_models_are_exported_elsewhere(target, tmp_path):
    settings = {"objective": "lambdarank", "num_leaves": 5, "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, lightgbm.Dataset(X, GRADES, group=GROUP), 5).save_model(tmp_path / "l.txt")
    xgboost.train({"nthread": 1, "max_depth": 3}, xgboost.DMatrix(X, GRADES), 5).save_model(tmp_path / "x.json")
    (tmp_path / "r.txt").write_text("## LambdaMART\n" + random_ensemble(3))
    for name in ("l.txt", "x.json", "r.txt"):
        model = import_model(tmp_path / name, n_features=6)
        done = export_model(model, target, tmp_path / f"{name}-{target}")
        assert done.made.off == 0
