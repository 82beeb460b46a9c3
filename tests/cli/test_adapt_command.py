"""`rankwright adapt` end to end, and every bad input with its one line."""

import json

import numpy as np
import pytest

from rankwright import RankingData, RankingSVM
from rankwright.cli.main import main
from rankwright.data.letor_write import write_letor
from rankwright.models.saving import load_model


def domain(weights, n_queries, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * 10, 3))
    good = X @ np.array(weights) + 0.4 * rng.normal(size=len(X))
    return RankingData.from_arrays(X, np.digitize(good, [0.5, 1.5]), np.repeat(np.arange(n_queries), 10) + 100 * seed)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rich, new = (1.0, 0.3, 0.0), (0.5, 0.3, 1.0)
    RankingSVM(C=1.0).fit(domain(rich, 30, 0)).save("web.rkw")
    for name, (weights, n, seed) in {
        "rich": (rich, 30, 0), "train": (new, 12, 1), "valid": (new, 12, 2), "test": (new, 20, 3), "later": (new, 8, 4),
    }.items():  # fmt: skip
        write_letor(domain(weights, n, seed), f"{name}.txt")
    return tmp_path


BASE = ["adapt", "web.rkw", "train.txt", "--valid", "valid.txt", "-o", "m.rkw"]


def test_everything_at_once(files, capsys):
    further = ["--background-data", "rich.txt", "--test", "test.txt", "--open-test", "later.txt", "--curve", "3,6,50"]
    assert main([*BASE, *further, "--repeats", "2", "--plot", "curve.png"]) == 0
    out, err = capsys.readouterr()
    assert "chosen: " in out
    assert "→ " in out
    for word in ("closed", "open", "harm", "lambdamart", "in-domain queries"):
        assert word in out
    assert err.splitlines() == ["wrote m.rkw", "wrote curve.png"]
    assert load_model("m.rkw").method.startswith("adapted-")
    assert main(["rank", "m.rkw", "test.txt", "-o", "test.scores"]) == 0
    assert main(["info", "m.rkw"]) == 0


def test_queries_that_are_in_several_files_are_told(files, capsys):
    further = ["--background-data", "rich.txt", "--test", "copy.txt", "--open-test", "later.txt"]
    both = RankingData.concatenate([domain((0.5, 0.3, 1.0), 12, 1).select([2, 5]), domain((1.0, 0.3, 0.0), 30, 0)])
    write_letor(both.select(np.arange(3)), "copy.txt")
    assert main([*BASE[:4], "train.txt", "-o", "m.rkw", *further]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[:4] == [
        "warning: 2 of 3 test queries are also in the training data (first: 102): results on them are too good",
        "warning: 2 of 3 test queries are also in the validation data (first: 102): results on them are too good",
        "warning: 1 of 3 test queries is also in the background data (0): results on it are too good",
        "warning: 12 of 12 validation queries are also in the training data (first: 100): results on them are too good",
    ]
    assert "validation queries are also in the data trained on, which makes results too good" in out


def test_features_that_the_data_lacks(files, capsys):
    narrow = domain((0.5, 0.3, 1.0), 12, 1)
    write_letor(narrow.with_features(narrow.X[:, :2]), "narrow.txt")
    fewer = ["adapt", "web.rkw", "narrow.txt", "--valid", "valid.txt", "-o", "m.rkw", "--method", "interpolate"]
    assert main(fewer) == 2
    expected = "narrow.txt: the data has 2 features, but the model has 3; to take missing features as 0, which text"
    assert expected in capsys.readouterr().err
    assert main([*fewer, "--missing-as-zero"]) == 0
    assert load_model("m.rkw").model.n_features == 3
    assert main([*BASE, "--method", "background", "--test", "narrow.txt"]) == 2
    assert expected in capsys.readouterr().err
    assert main([*BASE[:4], "narrow.txt", "-o", "m.rkw", "--method", "background"]) == 0  # a part of the new data


def test_json(files, capsys):
    assert main([*BASE, "--method", "interpolate", "--test", "test.txt", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["chosen"] == "interpolate"
    assert set(facts["candidates"]) == {"background", "interpolate"}
    assert [row["method"] for row in facts["tests"]] == ["background", "interpolate"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BASE, "--curve", "10"], "expected --test"),
        ([*BASE, "--plot", "x.png"], "expected --curve"),
        ([*BASE, "--curve", "ten", "--test", "test.txt"], "numbers of queries"),
        ([*BASE, "--curve", "3", "--test", "test.txt", "--plot", "x.pdf"], ".png or .svg"),
        ([*BASE, "--method", "augment"], "background_data"),
        ([*BASE, "--measure", "nonsense"], "nonsense"),
        ([*BASE[:-1], "missing/m.rkw"], "missing/m.rkw"),
        (["adapt", "train.txt", *BASE[2:]], "train.txt"),
        ([*BASE[:2], "nothing.txt", *BASE[3:]], "nothing.txt"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(files, capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert not (files / "m.rkw").exists()
