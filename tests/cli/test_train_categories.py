"""`train --categorical` and `--monotone`, text in Parquet, `rank`, `info` and experiments with both."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.cli.training_files import one_line, run

from rankwright import from_frame, read_data, write_data
from rankwright.io.parquet import write_parquet
from rankwright.models.saving import load_model

FAST = ("--set", "n_trees=5", "--set", "min_rows=2", "--method", "lambdamart", "-o", "m.rkw")


def made(seed, n_queries=15, size=10):
    rng = np.random.default_rng(seed)
    n = n_queries * size
    frame = pd.DataFrame({"qid": np.repeat(np.arange(n_queries), size), "docid": [f"d{row}" for row in range(n)]})
    frame["lang"] = rng.choice(["de", "fr", "en", "it"], n)
    frame["bm25"], frame["site"] = rng.normal(size=n), rng.integers(1, 6, n)
    frame["label"] = 2 * frame["lang"].isin(["de", "en"]) + (frame["bm25"] > 0) + frame["site"].isin([1, 4])
    return frame


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("train", "vali", "test")):
        write_parquet(from_frame(made(seed)), f"{name}.parquet")
        write_data(from_frame(made(seed).drop(columns="lang")), f"{name}.txt")
    return tmp_path


def test_text_of_parquet_is_trained_ranked_and_shown(files, capsys):
    code, _, err = run(capsys, "train", "train.parquet", *FAST, "--valid", "vali.parquet", "--categorical", "site")
    assert (code, err.splitlines()[-1]) == (0, "wrote m.rkw")
    model = load_model("m.rkw").model
    assert {j: set(values) for j, values in model.categories.items()} == {
        0: {"de", "fr", "en", "it"},
        2: {1, 2, 3, 4, 5},
    }
    assert run(capsys, "rank", "m.rkw", "test.parquet", "--format", "scores", "-o", "scores.txt")[0] == 0
    scores = np.loadtxt("scores.txt")
    np.testing.assert_array_equal(scores, model.predict(made(2)[["qid", "site", "lang", "bm25"]]))
    code, out, _ = run(capsys, "info", "m.rkw")
    assert code == 0
    assert "categories     lang ∈ {" in out
    code, out, _ = run(capsys, "info", "test.parquet")
    assert "categorical    1: lang" in out
    assert json.loads(run(capsys, "info", "test.parquet", "--json")[1])["categorical_features"] == ["lang"]


@pytest.mark.parametrize("named", [True, False])
def test_features_of_letor_text_by_name_or_number(files, capsys, named):
    if not named:
        lines = (files / "train.txt").read_text().splitlines(keepends=True)
        (files / "train.txt").write_text("".join(lines[1:]))
    site, bm25 = ("site", "bm25") if named else ("2", "1")
    assert run(capsys, "train", "train.txt", *FAST, "--categorical", f" {site} ,", "--monotone", f"{bm25}=+1")[0] == 0
    saved = load_model("m.rkw")
    assert set(saved.model.categories) == {1}
    X = np.repeat(read_data("test.txt").X[:50], 30, axis=0)
    X[:, 0] = np.tile(np.linspace(-4, 4, 30), 50)
    assert (np.diff(saved.model.score(X).reshape(50, 30), axis=1) >= 0).all()
    by_hand = [*FAST[:-1], "n.rkw", "--categorical", site if named else "f2", "--monotone", f"{bm25}=1"]
    assert run(capsys, "train", "train.txt", *by_hand)[0] == 0
    assert load_model("n.rkw").model.score(X).tobytes() == saved.model.score(X).tobytes()


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("--monotone", "bm25"), ["--monotone is 'bm25'; expected NAME=+1 (rising) or NAME=-1 (falling)"]),
        (("--monotone", "bm25=2"), ["--monotone is 'bm25=2'; expected NAME=+1"]),
        (("--monotone", "bm26=1"), ["monotone: there is no feature 'bm26'; expected one of bm25, site"]),
        (("--categorical", "9"), ["categorical: there is no feature 'f9'; expected one of bm25, site"]),
        (("--categorical", "bm25"), ["the feature 'bm25' has the value", "expected whole numbers or text"]),
        (("--categorical", ","), ["categorical is []; expected features"]),
        (("--categorical", "site", "--monotone", "site=1"), ["the feature 'site' is categorical"]),
    ],
)
def test_mistakes(files, capsys, args, parts):
    one_line(run(capsys, "train", "train.txt", *FAST, *args), *parts)


def test_other_methods(files, capsys):
    out = ("-o", "m.rkw")
    parts = ["cannot use categories ('lang'); drop these columns, or use lambdamart, mcrank or auto"]
    one_line(run(capsys, "train", "train.parquet", "--method", "svm-map", *out), *parts)
    parts = ["--categorical does not go with the method svm-map; it is for auto, lambdamart, mcrank, mcrank-ordinal"]
    one_line(run(capsys, "train", "train.txt", "--method", "svm-map", "--categorical", "site", *out), *parts)
    ordinal = ("--method", "mcrank-ordinal", "--monotone", "bm25=+1", "--set", "n_trees=2", *out)
    assert run(capsys, "train", "train.txt", *ordinal)[0] == 0
    parts = ["monotone does not go with the link 'softmax'", "mcrank-ordinal"]
    one_line(run(capsys, "train", "train.txt", "--method", "mcrank", "--monotone", "bm25=+1", *out), *parts)


def test_a_model_of_text_on_data_without(files, capsys):
    assert run(capsys, "train", "train.parquet", *FAST)[0] == 0
    write_data(from_frame(made(2).assign(lang=7)), "numbers.txt")
    result = run(capsys, "rank", "m.rkw", "numbers.txt", "-o", "x.run")
    one_line(result, "numbers.txt: the feature 'lang' is the number 7 in row 0", "the model was trained on text there")
    assert run(capsys, "train", "numbers.txt", *FAST)[0] == 0
    one_line(run(capsys, "rank", "m.rkw", "test.parquet", "-o", "x.run"), "takes numbers, not text, in 'lang'")


def test_experiments_take_both(files, capsys):
    (files / "exp.toml").write_text(
        """
[experiment]
measures = ["AP"]
save_models = true
[[data]]
name = "made"
train = "train.parquet"
valid = "vali.parquet"
test = "test.parquet"
[[method]]
method = "best-feature"
[[method]]
method = "lambdamart"
parameters = { n_trees = 4, min_rows = 2, categorical = ["site"], monotone = { bm25 = 1 } }
"""
    )
    code, _, err = run(capsys, "experiment", "run", "exp.toml")
    assert code == 0, err
    (path,) = (path for path in files.glob("exp-results/**/*.rkw") if load_model(path).method == "lambdamart")
    saved = load_model(path)
    assert set(saved.model.categories) == {0, 2}
    assert dict(saved.parameters["monotone"]) == {"bm25": 1}
    (files / "exp.toml").write_text((files / "exp.toml").read_text().replace("bm25 = 1", "bm25 = 3"))
    code, _, err = run(capsys, "experiment", "run", "exp.toml")
    assert code == 2
    assert "monotone is" in err
