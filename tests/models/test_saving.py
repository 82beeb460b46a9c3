"""Model files: the same model the same bytes, the same scores after loading, and one line for whatever else."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwright
from rankwright import InputError
from rankwright.data.formats import detect
from rankwright.models.linear import LinearModel
from rankwright.models.saving import SavedModel, load_model, save_model

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


def rewrite(path, content, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, part in content.items():
            archive.writestr(name, part)


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
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
    assert json.loads(content["model.json"])["arrays"] == {"coef": {"dtype": "<f8", "shape": [20]}}
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
        ({"extra_arrays": {"../x": np.ones(1)}}, "an array cannot be called '../x'"),
        ({"extra_arrays": {"x": np.array([None])}}, "holds object; expected numbers"),
        ({"path": "m.gz"}, "are not gzip"),
        ({"model": 3}, "a int cannot be saved"),
    ],
)
def test_what_cannot_be_saved(tmp_path, options, message):
    options = {"model": LinearModel(COEF), "path": "m", "method": "x", "parameters": {}} | options
    options["path"] = tmp_path / options["path"]
    with pytest.raises(InputError, match=message):
        save_model(**options)
    assert list(tmp_path.iterdir()) == []


def change_header(path, **changes):
    content = entries(path)
    header = json.loads(content["model.json"]) | changes
    rewrite(path, content | {"model.json": json.dumps(header)})


def fails(path, message):
    with pytest.raises(InputError) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_newer_version(path):
    change_header(path, version=2, kind="something new", arrays=7)
    fails(path, "written by a newer Rankwright; version 2, this one reads 1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "the version in model.json is '1'; expected 1"),
        ({"version": 0}, "the version in model.json is 0"),
        ({"format": "other"}, "is no Rankwright model; expected the format 'rankwright-model'"),
        ({"kind": "forest"}, "holds a model of the kind 'forest'; expected one of: linear"),
        ({"method": None}, "'method' in model.json is missing or no str"),
        ({"arrays": {}}, "'coef' is missing"),
        ({"arrays": {"coef": None}}, "coef.npy holds float64 of shape (20,); model.json says otherwise"),
        ({"arrays": {"../coef": {}}}, "../coef.npy is missing"),
        ({"feature_names": ["a"]}, "20 weights but 1 feature names"),
        ({"feature_names": [1] * 20}, "the feature names in model.json are not strings"),
        ({"query_scaling": "ranks"}, "scaling 'ranks' is not known; expected one of minmax, percentile, zscore"),
        ({"query_scaling": {"kind": []}}, "query_scaling is {'kind': []}; expected the name of a scaling, or None"),
    ],
)
def test_a_changed_header(path, changes, message):
    change_header(path, **changes)
    fails(path, message)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (npy(COEF.astype(np.float32)), "coef.npy holds float32"),
        (npy(COEF.reshape(4, 5)), "coef.npy holds float64 of shape (4, 5)"),
        (npy(np.append(np.nan, COEF[1:])), "the weight of feature 0 (from 0) is nan"),
        (npy(COEF)[:-8], "coef.npy holds 152 bytes for float64 of shape (20,)"),
        (npy(np.array([{"run": "code"}]), allow_pickle=True), "coef.npy is no plain array of numbers"),
        (npy(COEF.astype("U9")), "coef.npy is no plain array of numbers"),
        (b"", "coef.npy is no plain array of numbers"),
        (npy(COEF).replace(b"(20,)", b"(9**9,)"), "coef.npy is no plain array of numbers"),
        (
            npy(COEF).replace(b"(20,), }       ", b"(200000000,), }"),
            "holds 160 bytes for float64 of shape (200000000,)",
        ),
    ],
)
def test_a_changed_array(path, array, message):
    content = entries(path)
    header = json.loads(content["model.json"])
    if message.startswith("coef.npy holds float"):
        found = np.load(io.BytesIO(array))
        header["arrays"]["coef"] = {"dtype": found.dtype.str, "shape": list(found.shape)}
    rewrite(path, {"model.json": json.dumps(header), "coef.npy": array})
    fails(path, message)


def test_missing_entries(path):
    content = entries(path)
    rewrite(path, {"model.json": content["model.json"]})
    fails(path, "coef.npy is missing")
    rewrite(path, {"coef.npy": content["coef.npy"]})
    fails(path, "is a zip archive, but no Rankwright model")


def test_packed_entries_and_sizes_beyond_the_file_are_refused(path):
    content = entries(path)
    rewrite(path, content | {"coef.npy": bytes(10**6)}, zipfile.ZIP_DEFLATED)
    fails(path, "model.json is compressed or encrypted")
    rewrite(path, content)
    whole = path.read_bytes()
    at = whole.rindex(b"PK\x01\x02")  # the central entry of coef.npy: its sizes stand at byte 20
    path.write_bytes(whole[: at + 20] + struct.pack("<LL", 4 * 10**9, 4 * 10**9) + whole[at + 28 :])
    fails(path, "its entries claim more than")


def test_what_is_no_model(tmp_path):
    cases = {"empty": b"", "text": b"1 qid:1 1:1\n", "magic": b"PK\x03\x04", "binary": bytes(range(256))}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        fails(tmp_path / name, "damaged or truncated model file" if name == "magic" else "is no Rankwright model")
    fails(tmp_path, "is a folder; expected a model file")
    fails(tmp_path / "nowhere", "cannot be read: No such file or directory")


def test_every_truncation(path):
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        fails(path, "is no Rankwright model" if length < 4 else "damaged or truncated model file")


@settings(max_examples=300, deadline=None)
@given(
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12)),
        min_size=1,
        max_size=3,
    ),
    fix=st.booleans(),
)
def test_mutated_bytes_give_a_model_or_an_input_error(tmp_path_factory, cuts, fix):
    path = tmp_path_factory.mktemp("mutated") / "model.rkw"
    content = saved_bytes(path)
    if fix:  # change the parts inside a sound archive, so that checksums do not hide what comes after them
        parts = entries(path)
        for start, length, noise in cuts:
            name = "model.json" if length % 2 else "coef.npy"
            at = int(start * len(parts[name]))
            parts[name] = parts[name][:at] + noise + parts[name][at + length :]
        rewrite(path, parts)
    else:
        for start, length, noise in cuts:
            at = int(start * len(content))
            content = content[:at] + noise + content[at + length :]
        path.write_bytes(content)
    line = ""
    try:
        loaded = load_model(path)
    except InputError as error:
        line = str(error)
    if line:
        assert line.startswith(f"{path}: ")
    else:
        assert np.isfinite(loaded.model.coef).all()
