"""`diagnose` end to end: table, files, JSON, and every bad input with its one line."""

import csv
import json

import numpy as np
import pytest

from rankwright import RankingData, read_data, training_health
from rankwright.cli import diagnose
from rankwright.cli.main import main
from rankwright.io.letor import write_letor


def made(seed, n_queries, size=8, n_features=4):
    """Queries with a noisy linear truth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, n_features)).astype(np.float32)
    hidden = X @ np.linspace(2, -1, n_features) + rng.normal(size=len(X))
    labels = np.digitize(hidden, [1.0, 3.0]).astype(float)
    labels[::size], labels[1::size] = 1, 0
    return RankingData.from_arrays(X, labels, np.repeat(np.arange(n_queries), size))


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_letor(made(0, 12), tmp_path / "train.txt")
    write_letor(made(1, 6), tmp_path / "vali.txt")
    (tmp_path / "equal.txt").write_text("1 qid:1 1:1\n1 qid:1 1:2\n")
    (tmp_path / "folder.png").mkdir()
    monkeypatch.setattr(diagnose, "must_compile", lambda: False)
    return tmp_path


def run(capsys, *args):
    code = main(["diagnose", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_table_csv_and_plot(files, capsys):
    options = ["--losses", "map, pairs", "--C-grid", "10,0.1", "--valid", "vali.txt", "-m", "P@2", "--tol", "0.01"]
    code, out, err = run(capsys, "train.txt", *options, "-o", "health.svg", "--csv", "health.csv")
    assert (code, err) == (0, "wrote health.svg\nwrote health.csv\n")
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["loss", "C", "slack", "obj/obj(0)"]
    assert lines[0].split("  ")[-4:] == ["own train", "own valid", "P@2 train", "P@2 valid"]
    assert [line.split()[:2] for line in lines[2:4]] == [["map", "0.1"], ["map", "10"]]
    assert any(line.startswith("map: average slack falls to ") for line in lines)
    assert (files / "health.svg").read_text().count("Average slack") == 1
    with open("health.csv", newline="") as file:
        written = list(csv.DictReader(file))
    data, valid = read_data("train.txt"), read_data("vali.txt")
    health = training_health(data, ["map", "pairs"], [0.1, 10], eval_set=valid, measures=["P@2"], tol=0.01)
    for row, expected in zip(written, health.rows, strict=True):
        assert (row["loss"], float(row["C"])) == (expected.loss, expected.C)
        assert float(row["slack"]) == expected.slack
        assert float(row["own_validation"]) == expected.own_validation
        assert float(row["validation P@2"]) == dict(expected.measures)["validation P@2"]


def test_json_several_losses_at_once_and_features_as_they_are(files, capsys):
    losses = "nDCG(discount=jk, gain=linear)@3,map+auc"
    code, out, err = run(capsys, "train.txt", "--losses", losses, "--C-grid", "1", "--no-standardize", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [row["loss"] for row in found["rows"]] == ["ndcg(discount=jk, gain=linear)@3", "map+auc"]
    assert found["standardize"] is False
    assert found["rows"][1]["norm"] > 0


def test_all_losses_of_the_help_are_the_default(files, capsys):
    code, out, _ = run(capsys, "train.txt", "--C-grid", "1", "--max-passes", "3", "--json")
    assert code == 0
    assert [row["loss"] for row in json.loads(out)["rows"]] == diagnose._DEFAULT_LOSSES.split(",")
    assert max(row["passes"] for row in json.loads(out)["rows"]) == 3


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["nothing.txt"], "nothing.txt: cannot be read: No such file or directory"),
        (["equal.txt"], "equal.txt: no query has both relevant and other documents: there is nothing to train map on"),
        (["equal.txt", "--losses", "pairs"], "equal.txt: no query has documents of different labels"),
        (
            ["train.txt", "--losses", "map,,auc"],
            "--losses is 'map,,auc'; expected names separated by commas",
        ),
        (["train.txt", "--losses", "mapp"], "unknown measure 'mapp'; did you mean"),
        (["train.txt", "--losses", "map,P@5"], "P@5 has no most violated ranking"),
        (["train.txt", "--C-grid", "1,x"], "--C-grid is 'x'; expected numbers above 0, separated by commas"),
        (["train.txt", "--C-grid", "1,-1"], "--C-grid is '-1'; expected numbers above 0"),
        (["train.txt", "--tol", "0"], "tol is 0.0; expected a number above 0"),
        (["train.txt", "-m", "nothing"], "unknown measure 'nothing'"),
        (["train.txt", "-o", "health.pdf"], "health.pdf: plots end in .png or .svg, not in '.pdf'"),
        (["train.txt", "-o", "folder.png"], "folder.png: is a folder; expected a file name to write to"),
        (["train.txt", "-o", "no/health.png"], "no/health.png: cannot be written: the folder no does not"),
        (["train.txt", "-o", "a.svg", "-o", "a.svg"], "a.svg: is given twice; expected different files to write to"),
        (["train.txt", "--csv", "train.txt"], "train.txt: is also an input; expected another name"),
        (["train.txt", "--valid", "wide.txt"], "wide.txt: the data has 6 features, but the training data has 4"),
        (["train.txt", "--max-passes", "0"], "Invalid value for '--max-passes'"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(files, capsys, args, line):
    write_letor(made(2, 4, n_features=6), files / "wide.txt")
    before = {path: path.read_bytes() for path in files.iterdir() if path.is_file()}
    code, out, err = run(capsys, *args)
    assert (code, out) == (2, "")
    assert err.startswith(f"rankwright: {line}")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


def test_ctrl_c_leaves_nothing(files, capsys, monkeypatch):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankwright.training.health.ranker_for", pressed)
    assert run(capsys, "train.txt", "-o", "a.svg")[0] == 130
    assert not (files / "a.svg").exists()


def test_pairs(files, capsys):
    code, out, err = run(
        capsys, "train.txt", "--pairs", "--query", "3", "--query", "5", "-o", "p.svg", "--csv", "p.csv"
    )
    assert (code, err) == (0, "wrote p.svg\nwrote p.csv\n")
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "model of"
    assert any(line.startswith("labels 2 over 1 ") for line in lines)
    assert any(line.startswith("query 5 ") for line in lines)
    assert "C 0.01 for all pairs" in out
    assert "query 3, label 0" in (files / "p.svg").read_text()
    with open("p.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 1 + 3 + 12
    record = json.loads(run(capsys, "train.txt", "--pairs", "--C-grid", "1", "--json")[1])
    assert (record["C"], len(record["by_query"])) == (1.0, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--query", "1"], "--query names a query to draw with --pairs; expected --pairs with it"),
        (["--pairs", "--query", "1"], "--query is given for the two queries to draw; expected two different ones"),
        (["--pairs", "--query", "1", "--query", "99", "-o", "p.png"], "train.txt: has no query '99'"),
        (["--pairs", "--losses", "map"], "--losses does not go with --pairs"),
        (["--pairs", "--valid", "vali.txt"], "--valid does not go with --pairs"),
        (["--pairs", "-m", "AP"], "--measure does not go with --pairs"),
        (["--pairs", "--C-grid", "1,10"], "--C-grid has 2 values; expected one with --pairs"),
    ],
)
def test_options_that_do_not_go_with_pairs(files, capsys, options, message):
    code, out, err = run(capsys, "train.txt", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"rankwright: {message}")
    assert err.count("\n") == 1
    assert not (files / "p.png").exists()
