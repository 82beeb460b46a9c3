"""Model files: the same model the same bytes, the same scores after loading, and one line for whatever else."""

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright
from rankwright import InputError
from rankwright.io.container import write_file
from rankwright.io.detect import detect
from rankwright.models.linear import LinearModel
from rankwright.models.saving import MODEL, SavedModel, load_model, save_model

RNG = np.random.default_rng(3)
COEF = RNG.normal(size=20)
FACTS = {
    "method": "svm-map",
    "parameters": {"C": 10.0, "loss": "map"},
    "training": {"queries": 3, "gap": 1e-4},
    "measures": {"AP": 0.5},
}


def saved_bytes(path, model=None, **extra):
    save_model(model or LinearModel(COEF), path, **FACTS, **extra)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.rkw"
    saved_bytes(path)
    return path


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("names", [None, tuple(f"feature {at} é" for at in range(20))])
def test_round_trip(tmp_path, names):
    path, X = tmp_path / "m", RNG.normal(size=(50, 20)).astype(np.float32)
    model = LinearModel(COEF * np.pi, names)
    extra = {
        "planes": RNG.normal(size=(3, 4)),
        "counts": np.arange(5),
        "one": np.float64(2.5),
        "none": np.empty((0, 2)),
    }
    save_model(model, path, **FACTS, extra_arrays=extra)
    loaded = load_model(path)
    assert isinstance(loaded, SavedModel)
    assert loaded.model.score(X).tobytes() == model.score(X).tobytes()
    assert loaded.model.feature_names == names
    assert {key: getattr(loaded, key) for key in FACTS} == FACTS
    assert list(loaded.extra_arrays) == list(extra)
    for name, array in extra.items():
        np.testing.assert_array_equal(loaded.extra_arrays[name], array)
        assert loaded.extra_arrays[name].dtype == array.dtype
        assert loaded.extra_arrays[name].shape == array.shape
    assert loaded.header["rankwright"] == rankwright.__version__
    assert (loaded.header["format"], loaded.header["version"], loaded.header["kind"]) == (
        "rankwright-model", 1, "linear",
    )  # fmt: skip
    assert detect(path) == "model"


@pytest.mark.parametrize("kind", ["minmax", "percentile", "zscore"])
def test_scaling_is_kept(tmp_path, kind):
    path, X = tmp_path / "m", RNG.normal(size=(50, 20)).astype(np.float32)
    model = LinearModel(COEF, query_scaling=kind)
    save_model(model, path, **FACTS)
    loaded = load_model(path).model
    assert loaded.query_scaling == kind
    assert loaded.score(X, indptr=[0, 20, 50]).tobytes() == model.score(X, indptr=[0, 20, 50]).tobytes()
    assert json.loads(entries(path)["model.json"])["query_scaling"] == kind


def test_files_from_before_there_was_scaling(path):
    assert "query_scaling" not in json.loads(entries(path)["model.json"])
    assert load_model(path).model.query_scaling is None


def test_the_same_model_gives_the_same_bytes(tmp_path):
    first = saved_bytes(tmp_path / "a", extra_arrays={"x": np.ones(3)})
    assert saved_bytes(tmp_path / "b", extra_arrays={"x": np.ones(3)}) == first
    loaded = load_model(tmp_path / "a")
    again = {key: getattr(loaded, key) for key in (*FACTS, "extra_arrays")}
    save_model(loaded.model, tmp_path / "c", **again)
    assert (tmp_path / "c").read_bytes() == first


def test_anybody_can_read_it(path):
    content = entries(path)
    assert list(content) == ["model.json", "coef.npy"]
    assert json.loads(content["model.json"])["arrays"]["coef"]["shape"] == [20]
    np.testing.assert_array_equal(np.load(io.BytesIO(content["coef.npy"])), COEF)


def test_facts_become_plain(tmp_path):
    facts = {"a": np.float32(0.5), "b": np.arange(2), "c": (1, None, True), "d": np.inf, "e": {1: np.int64(3)}}
    save_model(LinearModel(COEF), tmp_path / "m", method="x", parameters=facts)
    found = load_model(tmp_path / "m")
    assert found.parameters == {"a": 0.5, "b": [0, 1], "c": [1, None, True], "d": "inf", "e": {"1": 3}}
    assert (found.training, found.measures, found.extra_arrays) == ({}, {}, {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "two words"}, "method is 'two words'; expected one word"),
        ({"parameters": {"f": print}}, "builtin_function_or_method, which a model file cannot hold"),
        ({"extra_arrays": {"../x": np.ones(1)}}, "an array cannot be called 'extra.../x'"),
        ({"extra_arrays": {"x": np.array([None])}}, "holds object; expected numbers"),
        ({"path": "m.gz"}, "are not compressed"),
        ({"model": 3}, "a int cannot be saved"),
    ],
)
def test_what_cannot_be_saved(tmp_path, options, message):
    options = {"model": LinearModel(COEF), "path": "m", "method": "x", "parameters": {}} | options
    options["path"] = tmp_path / options["path"]
    with pytest.raises(InputError, match=message):
        save_model(**options)
    assert list(tmp_path.iterdir()) == []


def fails(path, message):
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "forest"}, "holds a model of the kind 'forest'; expected one of: linear"),
        ({"method": None}, "damaged model: 'method' in model.json is missing or not a str"),
        ({"feature_names": ["a"]}, "20 features but 1 feature names"),
        ({"feature_names": [1] * 20}, "the feature names are not strings"),
        ({"query_scaling": "ranks"}, "unknown scaling 'ranks'; expected one of minmax, percentile, zscore"),
        ({"query_scaling": {"kind": []}}, "query_scaling is {'kind': []}; expected the name of a scaling, or None"),
    ],
)
def test_changed_facts(path, changes, message):
    write_file(path, MODEL, load_model(path).header | changes, {"coef": COEF})
    fails(path, message)


def test_missing_facts(path):
    header = load_model(path).header
    write_file(path, MODEL, {key: value for key, value in header.items() if key != "feature_names"}, {"coef": COEF})
    fails(path, "damaged model: feature_names is missing")


@pytest.mark.parametrize(
    ("coef", "message"),
    [
        (COEF.astype(np.float32), "damaged model: coef.npy holds float32; expected float64"),
        (COEF.reshape(4, 5), "damaged model: coef.npy has the shape (4, 5); expected (any)"),
        (np.append(np.nan, COEF[1:]), "damaged model: the weight of feature 0 (from 0) is nan"),
        (COEF.astype("U9"), "damaged model: coef.npy holds <U9; expected float64"),
    ],
)
def test_other_weights(path, coef, message):
    write_file(path, MODEL, load_model(path).header, {"coef": coef})
    fails(path, message)


@settings(max_examples=100, deadline=None)
@given(
    cuts=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12)), min_size=1, max_size=3),
)
def test_mutated_facts_give_a_model_or_an_input_error(tmp_path_factory, cuts):
    path = tmp_path_factory.mktemp("mutated") / "model.rkw"
    saved_bytes(path)
    text = entries(path)["model.json"]
    for start, length, noise in cuts:
        at = int(start * len(text))
        text = text[:at] + noise + text[at + length :]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", text)
        archive.writestr("coef.npy", npy(COEF))
    line = ""
    try:
        loaded = load_model(path)
    except InputError as error:
        line = str(error)
    if line:
        assert line.startswith(f"{path}: ")
    else:
        assert np.isfinite(loaded.model.coef).all()
