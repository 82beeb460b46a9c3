"""Missing values where a method computes with features: one line with the ways out, and each of them works."""

import pickle

import numpy as np
import pytest

from rankwright import LambdaMART, RankingSVM, read_data
from rankwright.cli.main import main
from rankwright.errors import InputError


@pytest.fixture
def gappy(tmp_path, monkeypatch):
    """A table with three missing values of b, and one of a."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{i % 2},{i // 4},{rng.random() + i % 2:.3f},{rng.random():.3f}" for i in range(24)]
    for at in (1, 5, 9):
        rows[at] = rows[at].rpartition(",")[0] + ","
    rows[2] = rows[2].split(",")[0] + ",0,,0.5"
    (tmp_path / "shop.csv").write_text("\n".join(["label,qid,a,b", *rows]) + "\n")
    return tmp_path


def told(capsys, *options):
    assert main(["train", "shop.csv", "-o", "m.rkw", *options]) == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("method", ["svm-map", "rank-svm", "svm-acc", "ranknet", "lambdaboost", "auto"])
def test_the_line_says_where_and_what_to_do(gappy, capsys, method):
    line = told(capsys, "--method", method, "--cv", "0") if method != "auto" else told(capsys, "--explainable")
    assert line.startswith("rankwright: shop.csv: has missing features (NaN in 3 of 24 rows of 'b'); fill them (")
    for way in ("convert shop.csv -o filled.rank --fill 0", "--method lambdamart, mcrank or auto", "--bins 50"):
        assert way in line
    assert not (gappy / "m.rkw").exists()


@pytest.mark.parametrize("options", [["--method", "lambdamart"], ["--method", "svm-map", "--bins", "50"]])
def test_the_other_ways_work(gappy, options):
    assert main(["train", "shop.csv", "-o", "m.rkw", "--cv", "0", *options]) == 0


def test_validation_data_is_named(gappy, capsys):
    assert main(["convert", "shop.csv", "-o", "filled.rank", "--fill", "0"]) == 0
    assert "filled 4 missing values with 0" in capsys.readouterr().err
    assert main(["train", "filled.rank", "-o", "m.rkw", "--method", "svm-map", "--valid", "shop.csv"]) == 2
    assert "rankwright: shop.csv: has missing features" in capsys.readouterr().err
    assert main(["train", "filled.rank", "-o", "m.rkw", "--method", "svm-map", "--cv", "0"]) == 0


@pytest.mark.parametrize("command", ["rank", "explain"])
@pytest.mark.parametrize("method", ["svm-map", "ranknet"])
def test_a_model_that_cannot_score_them_says_the_same(gappy, capsys, method, command):
    assert main(["convert", "shop.csv", "-o", "filled.rank", "--fill", "0"]) == 0
    assert main(["train", "filled.rank", "-o", "m.rkw", "--method", method, "--cv", "0"]) == 0
    capsys.readouterr()
    assert main([command, "m.rkw", "shop.csv"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(
        "rankwright: shop.csv: row 1 (from 0) has no 'b' (NaN), which this model computes with; fill"
    )
    assert "as for training (rankwright convert shop.csv -o filled.rank --fill 0), or train trees" in line
    assert "--bins" not in line  # it is trained already
    assert main(["convert", "shop.csv", "-o", "again.rank", "--fill", "0"]) == 0
    assert main([command, "m.rkw", "again.rank"]) == 0


@pytest.mark.parametrize("number", ["0", "-1.5"])
def test_filling_changes_missing_values_only(gappy, number):
    assert main(["convert", "shop.csv", "-o", "filled.txt", "--fill", number]) == 0
    before, after = read_data("shop.csv").X, read_data("filled.txt").X
    assert np.array_equal(after, np.where(np.isnan(before), float(number), before))
    assert np.isnan(before).sum() == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fill", "nan"], "--fill is nan; expected a finite number"),
        (["--fill", "x"], "--fill"),
        (
            [],
            "'b' is missing in 3 of 24 rows; expected a folder (.rank), .parquet or .csv, which can hold",
        ),
    ],
)
def test_bad_fills_write_nothing(gappy, capsys, options, message):
    assert main(["convert", "shop.csv", "-o", "filled.txt", *options]) == 2
    assert message in capsys.readouterr().err
    assert not (gappy / "filled.txt").exists()


def test_python_says_it_in_python():
    X, y, qid = np.array([[1.0], [np.nan], [0.0], [2.0]]), [1, 0, 0, 1], [1, 1, 2, 2]
    with pytest.raises(InputError, match=r"X has missing features \(NaN\).*SimpleImputer.*LambdaMART"):
        RankingSVM(C=1).fit(X, y, qid)
    with pytest.raises(InputError, match="Input y contains NaN"):
        RankingSVM(C=1).fit(np.nan_to_num(X), [1, np.nan, 0, 1], qid)
    LambdaMART(n_trees=2, min_rows=1).fit(X, y, qid)
    model = RankingSVM(C=1).fit(np.nan_to_num(X), y, qid).model_
    with pytest.raises(
        InputError, match=r"row 1 \(from 0\) has no 'f1' \(NaN\).*fill .* train trees \(LambdaMART"
    ) as e:
        model.predict(X)
    assert "f1" in pickle.loads(pickle.dumps(e.value)).fact
