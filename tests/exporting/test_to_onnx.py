"""The exported ONNX graph: onnxruntime, and onnx's own reference, give our scores."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from exporting.small_models import MODELS, N_FEATURES, SCALED, forest, with_categories
from rankwright import InputError, LinearModel
from rankwright.boosting.tree_model import TreeModel
from rankwright.exporting import to_onnx
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.export import export_model
from rankwright.exporting.target import Options
from rankwright.exporting.verify import probe_rows, verify

HELD = [name for name in MODELS if name not in SCALED]


def run(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"features": X})
    assert scores.shape == (len(X), 1)
    return scores[:, 0].astype(np.float64)


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("form", ["float", "double"])
def test_onnxruntime_gives_our_scores(tmp_path, name, form):
    model = MODELS[name]
    dtype = np.float32 if form == "float" else np.float64
    done = export_model(model, "onnx", tmp_path / "out", form=form)
    assert done.made.off == 0
    assert done.made.by.startswith("onnxruntime ")
    X = probe_rows(ensemble_of(model), dtype).astype(dtype)
    X = X[np.abs(np.nan_to_num(X)).max(axis=1) < 1e35]  # float32 can hold their products
    expected = model.score(X)
    scale = np.abs(expected).max() or 1.0
    np.testing.assert_allclose(run(tmp_path / "out" / "model.onnx", X) / scale, expected / scale, rtol=0, atol=1e-6)


def test_thresholds_that_are_merely_cast_are_found(monkeypatch):
    """A negative control: rounding to the nearest float32 sends rows on thresholds the wrong way."""
    model = TreeModel(N_FEATURES, None, forest(8, n_trees=30))
    ensemble, options = ensemble_of(model), Options()
    assert verify(to_onnx.ONNX, to_onnx.ONNX.write(ensemble, options), model, ensemble, options).off == 0
    with np.errstate(over="ignore"):
        monkeypatch.setattr(to_onnx, "for_at_most", lambda t, dtype: np.clip(t, -3e38, 3e38).astype(dtype))
        assert verify(to_onnx.ONNX, to_onnx.ONNX.write(ensemble, options), model, ensemble, options).off > 0


def test_features_are_compared_in_double(tmp_path):
    """The form double tells values apart that are one float32."""
    model = MODELS["trees"]
    X = probe_rows(ensemble_of(model), np.float64)
    X = X[np.abs(np.nan_to_num(X)).max(axis=1) < 1e35]
    export_model(model, "onnx", tmp_path / "out", form="double")
    scores = run(tmp_path / "out" / "model.onnx", X)
    np.testing.assert_allclose(scores, model.score(X), rtol=0, atol=1e-5)
    rounded = model.score(X.astype(np.float32).astype(np.float64))
    assert (np.abs(rounded - model.score(X)) > 1e-3).any()


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("form", ["float", "double"])
def test_without_onnxruntime_our_reading_checks(monkeypatch, name, form):
    """Our reading agrees with onnxruntime, and in float32 with onnx's reference implementation."""
    model = MODELS[name]
    parts, options = ensemble_of(model), Options(form=form)
    written = to_onnx.ONNX.write(parts, options)
    X = probe_rows(parts, np.float32).astype(np.float32).astype(np.float64)[::5]
    X = X[np.abs(np.nan_to_num(X)).max(axis=1) < 1e35]
    expected = model.score(X)
    scale = np.abs(expected).max() or 1.0
    readers = [to_onnx._read(written.files, parts.names), to_onnx._consume(written.files, parts.names)]
    for read in readers:
        np.testing.assert_allclose(read(X, None) / scale, expected / scale, rtol=0, atol=1e-6)
    if form == "float":
        evaluator = ReferenceEvaluator(onnx.load_from_string(written.files["model.onnx"]))
        (scores,) = evaluator.run(None, {"features": X.astype(np.float32)})
        np.testing.assert_allclose(scores[:, 0] / scale, expected / scale, rtol=0, atol=1e-6)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = verify(to_onnx.ONNX, written, model, parts, options)
    assert (found.off, found.by[:9]) == (0, "our model")


def test_the_file_says_its_features(tmp_path):
    export_model(MODELS["odd names"], "onnx", tmp_path / "out")
    model = onnx.load(tmp_path / "out" / "model.onnx")
    assert json.loads({one.key: one.value for one in model.metadata_props}["features"]) == list(
        MODELS["odd names"].names
    )
    assert [one.name for one in model.graph.input] == ["features"]
    assert [one.name for one in model.graph.output] == ["scores"]


def test_unused_features_may_be_missing(tmp_path):
    export_model(LinearModel([2.0, 0.0]), "onnx", tmp_path / "out")
    scores = run(tmp_path / "out" / "model.onnx", np.array([[1.0, np.nan]], np.float32))
    assert scores.tolist() == [2.0]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MODELS["zscore"], "onnx cannot hold this model: it scales features within each query"),
        (with_categories(), "it splits on categories"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, model, message):
    with pytest.raises(InputError, match=message):
        export_model(model, "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_onnx_is_optional(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"this needs onnx; install it with: pip install 'rankwright\[export\]'"):
        export_model(MODELS["linear"], "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
