"""The piecewise-constant model: steps by definition, every bit of a score from its row alone."""

import json

import numpy as np
import pytest
from scipy import sparse

from rankwright import BinnedModel, InputError, load_model, save_model
from rankwright.cli.main import main
from rankwright.io.container import write_file
from rankwright.models.saving import KINDS, MODEL
from rankwright.models.sum import SumModel

NAMES = ("a", "b", "c", "d")


def make(n_rows=500, seed=0, names=None):
    rng = np.random.default_rng(seed)
    sizes = [5, 0, 1, 30]
    thresholds = np.concatenate([np.sort(rng.normal(size=size)) for size in sizes])
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.3] = 0
    X[:35, 3] = np.concatenate([thresholds[6:], np.full(5, np.nan)])  # right at the thresholds
    return BinnedModel(thresholds, np.cumsum([0, *sizes]), rng.normal(size=36), names), X


def by_definition(model, row):
    """The level of each feature."""
    bounds = zip(model.starts[:-1].tolist(), model.starts[1:].tolist(), strict=True)
    return [
        sum(w for t, w in zip(model.thresholds[a:b], model.weights[a:b], strict=True) if x >= t)
        for x, (a, b) in zip(row, bounds, strict=True)
    ]


def test_scores_by_definition():
    model, X = make()
    levels = np.array([by_definition(model, row) for row in X])
    np.testing.assert_allclose(model.score(X), levels.sum(axis=1), rtol=0, atol=1e-12)
    for a, b in ((0, 1), (3, 40), (34, 7)):
        found = model.contributions(X[a], X[b])
        np.testing.assert_allclose(found, levels[a] - levels[b], rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.sum(), model.score(X[[a]]) - model.score(X[[b]]), rtol=0, atol=1e-12)
    assert model.aligned(X[:7]).tobytes() == X[:7].tobytes()


def test_a_row_has_the_same_bits_in_any_batch(monkeypatch):
    model, X = make()
    scores = model.score(X)
    for rows in ([3], [4, 3], list(range(100, 221)), list(range(500))[::-1]):
        assert model.score(X[rows]).tobytes() == scores[rows].tobytes()
        assert model.score(sparse.csr_array(X[rows])).tobytes() == scores[rows].tobytes()
    monkeypatch.setattr("rankwright.models.linear._BLOCK_VALUES", 12)
    assert model.score(X).tobytes() == scores.tobytes()
    assert model.score(np.asfortranarray(X)).tobytes() == scores.tobytes()
    assert model.score(X[:0]).shape == (0,)


def test_columns_are_found_by_name_or_position():
    model, X = make(names=NAMES)
    scores = model.score(X)
    assert model.score(X[:, ::-1], NAMES[::-1]).tobytes() == scores.tobytes()
    np.testing.assert_array_equal(model.aligned(X[:3, ::-1], NAMES[::-1]), X[:3])
    with pytest.raises(InputError, match="the data lacks 1"):
        model.score(X[:, :3], NAMES[:3])
    X[:, 3] = 0
    assert model.predict(X[:, :3], missing_as_zero=True).tobytes() == model.score(X).tobytes()
    assert model.score([[1, 2, 3, 4]]).tolist() == model.score([[1.0, 2.0, 3.0, 4.0]]).tolist()


def test_importance():
    model = BinnedModel([1.0, 2.0, 3.0, 0.0, 1.0], [0, 3, 3, 4, 5], [1.0, -3.0, 1.0, 2.0, -0.5])
    assert model.importance().tolist() == [-3.0, 0.0, 2.0, -0.5]  # levels 0, 1, −2, −1; none; 0, 2; 0, −0.5
    assert BinnedModel([], [0], []).score(np.ones((2, 0))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("names", [None, NAMES])
def test_saved_and_loaded(tmp_path, names):
    model, X = make(names=names)
    save_model(model, tmp_path / "m.rkw", method="svm-map", parameters={})
    loaded = load_model(tmp_path / "m.rkw")
    assert loaded.header["kind"] == "binned"
    assert loaded.model.feature_names == names
    assert loaded.model.score(X).tobytes() == model.score(X).tobytes()
    both = SumModel((model, model), [1.0, 2.0])
    save_model(both, tmp_path / "sum.rkw", method="x", parameters={})
    assert load_model(tmp_path / "sum.rkw").model.score(X).tobytes() == both.score(X).tobytes()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([1.0, 2.0], [0, 2], [1.0]), "expected one weight each"),
        (([1.0, 2.0], [0, 1], [1.0, 1.0]), "must ascend from 0 to 2"),
        (([1.0, 2.0], [], [1.0, 1.0]), "must ascend from 0 to 2"),
        (([1.0, 2.0], [0, 3, 2], [1.0, 1.0]), "must ascend from 0 to 2"),
        (([1.0, np.nan], [0, 2], [1.0, 1.0]), "not finite"),
        (([1.0, 2.0], [0, 2], [1.0, np.inf]), "not finite"),
        (([2.0, 2.0], [0, 2], [1.0, 1.0]), "of a feature must ascend"),
        (([1.0, 2.0, 1.0], [0, 1, 3], [1.0, 1.0, 1.0]), "of a feature must ascend"),
        (([1.0, 2.0], [0, 2], [1.0, 1.0], ("a", "b")), "1 features but 2 feature names"),
    ],
)
def test_wrong_parts(parts, message):
    with pytest.raises(InputError, match=message):
        BinnedModel(*parts)


def test_a_damaged_file(tmp_path):
    model, _ = make()
    path = tmp_path / "m"
    save_model(model, path, method="m", parameters={})
    header, arrays = load_model(path).header, KINDS["binned"].encode(model)[1]
    for change in ({"starts": arrays["starts"].astype(float)}, {"weights": arrays["weights"][:, None]}):
        write_file(path, MODEL, header, arrays | change)
        with pytest.raises(InputError, match=f"damaged model: {next(iter(change))}.npy .*; expected"):
            load_model(path)


def test_on_the_command_line(tmp_path, capsys):
    model, X = make(40, names=NAMES)
    X[np.isnan(X)] = 0
    rows = []
    for row, values in enumerate(X.tolist()):
        features = " ".join(f"{at}:{value!r}" for at, value in enumerate(values, 1))
        rows.append(f"{row % 2} qid:{row // 20} {features} # docid = d{row}")
    (tmp_path / "data.txt").write_text("\n".join(rows) + "\n")
    save_model(
        BinnedModel(model.thresholds, model.starts, model.weights), tmp_path / "m.rkw", method="x", parameters={}
    )
    files = [str(tmp_path / "m.rkw"), str(tmp_path / "data.txt")]
    assert main(["rank", *files, "--format", "scores"]) == 0
    shown = [float(line) for line in capsys.readouterr().out.splitlines()]
    np.testing.assert_allclose(shown, model.score(X.astype(np.float32)), atol=1e-12)
    assert main(["explain", *files, "--query", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(term["contribution"] for term in told["contributions"]) == pytest.approx(told["difference"], abs=1e-12)
    assert main(["info", files[0]]) == 0
    assert "binned" in capsys.readouterr().out
