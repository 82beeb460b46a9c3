"""The net model: its formula, the same bits whatever is scored with a row, contributions, and its file."""

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, LinearModel, load_model, save_model
from rankwright.io.container import write_file
from rankwright.models.saving import KINDS
from rankwright.models.saving import MODEL as FILE
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

RNG = np.random.default_rng(11)
INNER, CONSTANTS, OUTER = RNG.normal(size=(4, 7)), RNG.normal(size=4), RNG.normal(size=4)
NAMES = tuple("abcdefg")
MODEL = NetModel(INNER, CONSTANTS, OUTER)


def rows(n=600, dtype=np.float64):
    X = RNG.normal(size=(n, 7)).astype(dtype)
    X[RNG.random(X.shape) < 0.3] = 0
    return X


def test_the_formula():
    X = rows()
    np.testing.assert_allclose(MODEL.score(X), np.tanh(X @ INNER.T + CONSTANTS) @ OUTER, rtol=1e-12, atol=1e-12)
    assert (MODEL.n_features, MODEL.n_units) == (7, 4)
    assert MODEL.score(np.zeros((0, 7))).tolist() == []
    assert NetModel(np.zeros((0, 7)), [], []).score(X).tolist() == [0.0] * len(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_depends_on_its_row_only(dtype):
    X = rows(dtype=dtype)
    scores = MODEL.score(X)
    for part in (slice(1), slice(3, 4), slice(255, 258), slice(100, None, 3)):
        assert MODEL.score(X[part]).tobytes() == scores[part].tobytes()
    assert MODEL.score(sparse.csr_array(X)).tobytes() == scores.tobytes()
    assert MODEL.score(sparse.coo_array(X)).tobytes() == scores.tobytes()
    assert MODEL.score(np.asfortranarray(X)).tobytes() == scores.tobytes()
    assert MODEL.score(X.astype(np.float64)).tobytes() == scores.tobytes()


def test_features_are_found_by_name_or_by_position():
    named, X = NetModel(INNER, CONSTANTS, OUTER, NAMES), rows()
    scores = named.score(X)
    turned = np.column_stack([X[:, ::-1], np.ones(len(X))])
    assert named.score(turned, [*NAMES[::-1], "more"]).tobytes() == scores.tobytes()
    X[:, 5:] = 0
    assert named.predict(X[:, :5], missing_as_zero=True).tobytes() == named.score(X).tobytes()
    with pytest.raises(InputError, match="lacks 1 of the model's 7 features: 'a'"):
        named.score(X[:, 1:], NAMES[1:])
    with pytest.raises(InputError, match="8 features, but the model has 7"):
        MODEL.score(np.ones((2, 8)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_must_be_finite(value):
    X = rows(400)
    X[300, 2] = value
    for table in (X, sparse.csr_array(X)):
        with pytest.raises(InputError, match="row 300 "):
            MODEL.score(table)


def test_contributions_add_up_to_the_difference_of_scores():
    X = rows(40)
    scores = MODEL.score(X)
    for a, b in ((0, 1), (5, 30), (7, 7)):
        parts = MODEL.contributions(X[a], X[b])
        assert parts.shape == (7,)
        assert parts.sum() == pytest.approx(scores[a] - scores[b], abs=1e-12)
    # A feature that does not differ contributes nothing; with one that does, all of it.
    other = X[0].copy()
    other[3] += 1.0
    parts = MODEL.contributions(sparse.csr_array(other[None]), X[0])
    assert np.flatnonzero(parts).tolist() == [3]
    # They are the derivative for documents that hardly differ.
    near = X[0] + 1e-9 * np.arange(7)
    slope = (OUTER * (1 - np.tanh(INNER @ X[0] + CONSTANTS) ** 2)) @ INNER
    np.testing.assert_allclose(MODEL.contributions(near, X[0]), slope * (near - X[0]), rtol=1e-6)


WRONG = {
    "text": ((np.full((2, 3), "x"), [0, 0], [0, 0]), "must be numbers"),
    "nan": (([[np.nan]], [0], [0]), "inner of a net must be finite"),
    "one dimension": (([1.0], [0], [0]), "2 dimensions"),
    "constants": (([[1.0]], [0, 1], [0]), "1 units with 2 constants and 1 outer"),
    "outer": (([[1.0]], [0], []), "1 units with 1 constants and 0 outer"),
    "names": (([[1.0]], [0], [1], ("a", "b")), "1 features but 2 feature names"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_weights_are_told_in_one_line(what):
    given, message = WRONG[what]
    with pytest.raises(InputError, match=message) as caught:
        NetModel(*given)
    assert "\n" not in str(caught.value)


def test_weights_are_a_copy_that_cannot_change():
    inner = INNER.copy()
    model = NetModel(inner, CONSTANTS, OUTER)
    inner[:] = 0
    assert model.inner.tolist() == INNER.tolist()
    with pytest.raises(ValueError, match="read-only"):
        model.inner[0, 0] = 1.0


@pytest.mark.parametrize("names", [None, NAMES])
def test_round_trip(tmp_path, names):
    model, X = NetModel(INNER, CONSTANTS, OUTER, names), rows()
    total = SumModel((LinearModel(np.ones(7), names), model), np.array([2.0, 1.0]))
    for kept in (model, total):
        save_model(kept, tmp_path / "m", method="lambdarank", parameters={})
        loaded = load_model(tmp_path / "m").model
        assert type(loaded) is type(kept)
        assert loaded.feature_names == names
        assert loaded.score(X).tobytes() == kept.score(X).tobytes()
        first = (tmp_path / "m").read_bytes()
        save_model(loaded, tmp_path / "m", method="lambdarank", parameters={})
        assert (tmp_path / "m").read_bytes() == first


DAMAGED = {
    "missing": ("outer", None, "outer.npy is missing"),
    "shape": ("inner", np.ones(7), r"inner.npy has the shape \(7,\); expected \(any, any\)"),
    "type": ("outer", np.ones(4, np.float32), "outer.npy holds float32; expected float64"),
    "size": ("constants", np.ones(5), r"constants.npy has the shape \(5,\); expected \(4\)"),
    "not finite": ("inner", np.full((4, 7), np.inf), "inner.npy holds numbers that are not finite"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_files_get_one_line(tmp_path, what):
    name, array, message = DAMAGED[what]
    path = tmp_path / "m"
    save_model(MODEL, path, method="lambdarank", parameters={})
    arrays = KINDS["net"].encode(MODEL)[1] | {name: array}
    kept = {key: value for key, value in arrays.items() if value is not None}
    write_file(path, FILE, load_model(path).header, kept)
    with pytest.raises(InputError, match=f"damaged model: {message}") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
