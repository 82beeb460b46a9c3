"""SVMrank, SVMlight and liblinear: linear models whose scores are a product with the weights, less a threshold."""

import numpy as np
import pytest

import rankwright
from rankwright.errors import InputError, InputWarning

ROWS = np.random.default_rng(0).normal(size=(20, 4))


def svmlight(vectors, b, kernel=0, highest=4):
    """A model file of SVMlight: weights and sparse vectors."""
    heads = [
        "SVM-light Version V6.20", f"{kernel} # kernel type", "3 # kernel parameter -d ", "1 # kernel parameter -g ",
        "1 # kernel parameter -s ", "1 # kernel parameter -r ", "empty# kernel parameter -u ",
        f"{highest} # highest feature index ", "471 # number of training documents ",
        f"{len(vectors) + 1} # number of support vectors plus 1 ",
        f"{b} # threshold b, each following line is a SV (starting with alpha*y)",
    ]  # fmt: skip
    return "\n".join([*heads, *vectors, ""])


def test_svm_rank(tmp_path):
    (tmp_path / "model.dat").write_text(svmlight(["1 1:0.5 3:-2.25 4:0.0001 #"], 0))
    saved = rankwright.import_model(tmp_path / "model.dat")
    assert saved.method == "svmrank"
    weights = np.array([0.5, 0.0, -2.25, np.float32(0.0001)])
    assert np.array_equal(saved.model.coef, weights)


def test_svm_light_adds_its_vectors_and_takes_off_the_threshold(tmp_path):
    vectors = ["0.5 qid:3 1:1 2:2 # a comment", "-0.25 2:4 4:1.5"]
    (tmp_path / "model.dat").write_text(svmlight(vectors, 0.75))
    found = rankwright.import_model(tmp_path / "model.dat", n_features=6)
    rows = np.column_stack([ROWS, np.ones((len(ROWS), 2))])
    expected = 0.5 * (ROWS @ [1, 2, 0, 0]) - 0.25 * (ROWS @ [0, 4, 0, 1.5]) - 0.75
    np.testing.assert_allclose(found.predict(rows), expected, rtol=1e-14, atol=1e-14)
    alone = rankwright.import_model(tmp_path / "model.dat", constant=False).predict(ROWS)
    np.testing.assert_allclose(alone, expected + 0.75, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (svmlight(["1 1:1"], 0, kernel=2), ":2: has a radial basis function kernel; expected a linear one (-t 0)"),
        (svmlight(["1 1:1", "1 2:1"], 0).replace("3 # number", "9 # number"), "has 2 support vectors; expected 8"),
        (svmlight(["1 5:1"], 0), ":12: has '5:1'; expected feature:value, features up to 4"),
        (svmlight(["x 1:1"], 0), ":12: has 'x'; expected the weight of a support vector"),
        (svmlight(["1 1:1"], 0, highest=10**12), ":8: has 1,000,000,000,000 features; expected a number in proportion"),
        (svmlight([], 0)[:150], "ends in its first lines; expected a complete SVMlight model"),
    ],
)
def test_damaged_svmlight_files_are_one_line(text, message, tmp_path):
    (tmp_path / "model.dat").write_text(text)
    with pytest.raises(InputError) as error:
        rankwright.import_model(tmp_path / "model.dat")
    assert message in str(error.value)


def liblinear(weights, labels="1 -1", bias="-1", solver="L2R_L2LOSS_SVC", classes="2"):
    known = len(weights) - (float(bias) >= 0)
    label = f"label {labels}\n" if labels else ""
    lines = "\n".join(f"{weight} " for weight in weights)
    return f"solver_type {solver}\nnr_class {classes}\n{label}nr_feature {known}\nbias {bias}\nw\n{lines}\n"


def test_liblinear(tmp_path):
    weights, path = [0.5, -1.0, 0.0, 2.0], tmp_path / "model"
    path.write_text(liblinear(weights))
    np.testing.assert_allclose(rankwright.import_model(path).predict(ROWS), ROWS @ weights, rtol=1e-14, atol=1e-14)
    path.write_text(liblinear([*weights, 3.0], bias="0.5", labels="", solver="L2R_L2LOSS_SVR"))
    found = rankwright.import_model(path)
    np.testing.assert_allclose(found.predict(ROWS), ROWS @ weights + 1.5, rtol=1e-14, atol=1e-14)
    path.write_text(liblinear(weights, labels="0 1"))
    with pytest.warns(InputWarning, match="decision values are for label 0; scores here have the other sign"):
        found = rankwright.import_model(path)
    np.testing.assert_allclose(found.predict(ROWS), -(ROWS @ weights), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (liblinear([1.0], classes="3"), ":2: is a model of 3 classes; expected two, or a regression"),
        (liblinear([1.0], solver="MCSVM_CS"), ":1: is of the solver 'MCSVM_CS'"),
        (liblinear([1.0, 2.0])[:-5], "has 1 lines of weights; expected 2 of one number"),
        (liblinear(["nan"]), "a weight is not a finite number"),
        (liblinear([1.0]).replace("w\n", ""), "ends before its weights (w)"),
        (liblinear([1.0]).replace("nr_feature 1", "nr_feature 999999999999"), "has 1 lines of weights; expected 999"),
    ],
)
def test_damaged_liblinear_files_are_one_line(text, message, tmp_path):
    (tmp_path / "model").write_text(text)
    with pytest.raises(InputError) as error:
        rankwright.import_model(tmp_path / "model")
    assert message in str(error.value)
