"""The exported Python file: run alone, with numpy and nothing else, it gives our scores."""

import ast
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from exporting.small_models import EXACT, MODELS, ODD_NAMES, with_categories
from rankwright import LinearModel
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.export import export_model
from rankwright.exporting.verify import probe_rows

ALONE = """
import sys

class OnlyNumpy:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rankwright", "scipy", "numba", "sklearn", "onnx", "pandas"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, OnlyNumpy())
import numpy as np
sys.path.insert(0, sys.argv[1])
import model
for number in range(int(sys.argv[2])):
    given = np.load(f"{sys.argv[1]}/rows.npz")
    np.save(f"{sys.argv[1]}/scores.npy", model.score(given["X"], given["sizes"]))
"""


def run(*arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)


def alone(folder, X, sizes):
    """Return the scores of the file, run in a process that cannot import Rankwright."""
    np.savez(folder / "rows.npz", X=X, sizes=sizes)
    done = run("-I", "-c", ALONE, folder, 1)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "scores.npy")


def rows_and_sizes(model):
    X = probe_rows(ensemble_of(model), np.float64)
    X = X[: len(X) // 10 * 10]
    return X, np.full(len(X) // 10, 10)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_ours(tmp_path, name):
    model = MODELS[name]
    done = export_model(model, "python", tmp_path / "out")
    assert done.made.off == 0
    X, sizes = rows_and_sizes(model)
    expected = model.score(X, None, np.concatenate([[0], np.cumsum(sizes)]))
    inside: dict = {"__name__": "exported"}
    exec((tmp_path / "out" / "model.py").read_text(), inside)
    got = inside["score"](X, sizes)
    if name in EXACT:
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_nothing_but_numpy_is_needed(tmp_path):
    for name in ("trees", "percentile", "softmax"):
        folder = tmp_path / name
        export_model(MODELS[name], "python", folder)
        X, sizes = rows_and_sizes(MODELS[name])
        expected = MODELS[name].score(X, None, np.concatenate([[0], np.cumsum(sizes)]))
        np.testing.assert_array_equal(alone(folder, X, sizes), expected)
        tree = ast.parse((folder / "model.py").read_text())
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert imported == {"json", "sys", "numpy"}


@pytest.mark.parametrize("name", ["linear", "trees", "minmax", "odd names", "same names"])
def test_golden_rows_check_an_installation(tmp_path, name):
    folder = tmp_path / "out"
    export_model(MODELS[name], "python", folder)
    done = run("-I", folder / "model.py", folder / "golden.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"largest difference 0, allowed [\d.e-]+: good\n", done.stdout)
    assert run("-I", folder / "model.py").stderr == "usage: python model.py golden.json\n"


def test_another_model_fails_the_check(tmp_path):
    export_model(MODELS["linear"], "python", tmp_path / "a")
    export_model(LinearModel([2.0, 0.0, -1.5, 1e-3, 0.2, 7.0]), "python", tmp_path / "b")
    done = run("-I", tmp_path / "b" / "model.py", tmp_path / "a" / "golden.json")
    assert done.returncode == 1
    assert done.stdout.endswith("BAD\n")


def test_a_changed_threshold_is_seen(tmp_path):
    """The rows of the check reach every split: the next number is another model."""
    export_model(MODELS["trees"], "python", tmp_path / "out")
    text = (tmp_path / "out" / "model.py").read_text()
    changed = text.replace("0.3333333333333333,", "0.33333333333333326,")
    assert changed != text
    X, _ = rows_and_sizes(MODELS["trees"])
    found = []
    for source in (text, changed):
        inside: dict = {"__name__": "exported"}
        exec(source, inside)
        found.append(inside["score"](X))
    assert (found[0] != found[1]).any()


def test_categories_go_by_name(tmp_path):
    model = with_categories()
    done = export_model(model, "python", tmp_path / "out")
    assert done.made.off == 0
    inside: dict = {"__name__": "exported"}
    exec((tmp_path / "out" / "model.py").read_text(), inside)
    documents = [{"brand": brand, "year": year} for brand in ("a", "b", "c", "new", None) for year in (1999, 2004, 7.5)]
    documents.append({})
    import pandas

    expected = model.predict(pandas.DataFrame(documents, columns=["brand", "year"]))
    assert len(set(expected)) > 2
    np.testing.assert_array_equal(inside["score"](inside["rows"](documents)), expected)
    assert inside["check"](tmp_path / "out" / "golden.json")[0] == 0


def test_names_are_texts_and_nothing_else(tmp_path):
    """A name cannot become code."""
    names = (*ODD_NAMES[:-1], '"""\nraise SystemExit\n"""')
    model = LinearModel(np.arange(1.0, 7.0), names)
    export_model(model, "python", tmp_path / "out", name='a"""b\\')
    inside: dict = {"__name__": "exported"}
    exec((tmp_path / "out" / "model.py").read_text(), inside)
    assert inside["FEATURES"] == list(names)
    assert inside["score"](inside["rows"]([{names[-1]: 2.0}] * 2) * 0 + 1).tolist() != [0.0, 0.0]


def test_rows_of_the_wrong_shape(tmp_path):
    export_model(MODELS["minmax"], "python", tmp_path / "out")
    inside: dict = {"__name__": "exported"}
    exec((tmp_path / "out" / "model.py").read_text(), inside)
    with pytest.raises(ValueError, match="expected rows of 6 features"):
        inside["score"](np.zeros((2, 5)))
    with pytest.raises(ValueError, match="add up to 3; expected 2"):
        inside["score"](np.zeros((2, 6)), [3])
    golden = json.loads((tmp_path / "out" / "golden.json").read_text())
    assert sum(golden["query_sizes"]) == len(golden["rows"])
