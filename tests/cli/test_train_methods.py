"""`rankwright train` with the methods beyond the first ones: what they say, write, rank and explain."""

import pytest
from tests.cli.training_files import facts_of, made, run

from rankwright.io.letor import write_letor
from rankwright.models.saving import load_model

FAMILY = {
    "dorm@5": ("dorm@5", "nDCG@5"),
    "dorm@5 --bound hinge": ("dorm@5", "nDCG@5"),
    "svm-map --bound ramp": ("svm-map", "AP"),
    "svm-combo": ("svm-combo", "AP"),
    "svm-combo --losses map,ndcg@10,mrr@10": ("svm-combo", "AP"),
    "svm-combo --losses map,mrr@10 --feature-map -,po": ("svm-combo", "AP"),
    "svm-combo --losses auc,dorm@5 --slack shared --loss-weights 1,0.5": ("svm-combo", "AUC"),
    "svm-mrr --feature-map po": ("svm-mrr@10", "RR@10"),
    "rsvm-ir": ("rsvm-ir", "nDCG@10"),
    "rank-svm --rank-weights ndcg@3 --query-weights pairs": ("rsvm-ir", "nDCG@10"),
    "svm-acc": ("svm-acc", "AP"),
    "svm-acc2": ("svm-acc2", "AP"),
    "svm-acc3": ("svm-acc3", "AP"),
    "svm-acc4": ("svm-acc4", "AP"),
    "svm-acc3 --bins 6 --no-standardize": ("svm-acc3", "AP"),
    "svm-acc4 --bins 6": ("svm-acc4", "AP"),
    "svm-map --solver n-slack-cutting-plane --epsilon 1e-4": ("svm-map", "AP"),
}
ROUNDS = {
    "lambdamart --set n_trees=20 --set min_rows=5": "trees",
    "lambdamart --set n_trees=10 --set min_rows=5 --set randomize_nodes=True --seed 3": "trees",
    "mcrank --set n_trees=8 --set min_rows=5": "trees",
    "mcrank-ordinal --set n_trees=8 --set min_rows=5": "trees",
    "lambdaboost --set n_rounds=30": "rounds",
    "ranknet --set epochs=5 --set hidden=0": "epochs",
    "lambdarank --set epochs=5 --set hidden=4": "epochs",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, (name, n_queries) in enumerate({"train.txt": 20, "vali.txt": 8, "test.txt": 8}.items()):
        write_letor(made(seed, n_queries), tmp_path / name)
    return tmp_path


def ranks_and_explains(capsys):
    assert run(capsys, "rank", "m.rkw", "test.txt", "-o", "test.run")[0] == 0
    assert run(capsys, "evaluate", "test.txt", "test.run", "-m", "nDCG@10")[0] == 0
    code, out, err = run(capsys, "explain", "m.rkw", "test.txt", "--query", "q1")
    assert (code, err) == (0, "")
    assert "score difference" in out
    code, out, err = run(capsys, "info", "m.rkw")
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("command", FAMILY)
def test_the_max_margin_family(files, capsys, command):
    shown, measure = FAMILY[command]
    method, *options = command.split()
    facts = facts_of(capsys, "--method", method, *options, "--valid", "vali.txt")
    assert (facts["method"], facts["measure"]) == (shown, measure)
    assert len(facts["C_tried"]) == (1 if facts["bound"] == "ramp" else 8)
    assert (facts["gap"] is None) == method.startswith("svm-acc")
    assert facts["gap"] is None or facts["gap"] <= 1e-3
    assert facts["measures"][f"validation {measure}"] == max(row[measure] for row in facts["C_tried"])
    assert shown.partition("@")[0] in ranks_and_explains(capsys)


@pytest.mark.parametrize("command", ROUNDS)
def test_the_lambda_family(files, capsys, command):
    method, *options = command.split()
    facts = facts_of(capsys, "--method", method, *options, "--valid", "vali.txt")
    assert (facts["method"], facts["unit"], facts["C"]) == (method, ROUNDS[command], None)
    assert 0 <= facts["rounds"] <= facts["rounds_run"]
    assert facts["measures"]["validation nDCG@10"] > 0.5
    assert method in ranks_and_explains(capsys)


def test_what_is_said_of_trees(files, capsys):
    options = ("--valid", "vali.txt", "--set", "n_trees=12", "-o", "m.rkw")
    code, out, err = run(capsys, "train", "train.txt", "--method", "lambdamart", *options)
    assert (code, out) == (0, "")
    assert "trained lambdamart on 19 queries of train.txt, 5 features" in err
    assert " of 12 by nDCG@10 on vali.txt" in err
    assert "proved" not in err


def test_a_background_is_part_of_the_model(files, capsys):
    facts_of(capsys, "--method", "svm-map")
    (files / "m.rkw").rename("back.rkw")
    facts = facts_of(
        capsys, "--method", "lambdamart", "--background", "back.rkw", "--valid", "vali.txt", "--set", "n_trees=5"
    )  # fmt: skip
    assert facts["rounds"] <= 5
    kinds = [type(part).__name__ for part in load_model("m.rkw").model.parts]
    assert kinds == ["LinearModel", "TreeModel"]
    (files / "back.rkw").unlink()
    ranks_and_explains(capsys)
    code, _, err = run(
        capsys, "train", "train.txt", "--method", "svm-map", "--background", "m.rkw", "-o", "n.rkw"
    )  # fmt: skip
    assert code == 2
    assert err == "rankwright: --background does not go with the method svm-map; it is for lambdaboost, lambdamart\n"


def test_gradient_descent_and_lambda(files, capsys):
    exact = facts_of(capsys, "--method", "rsvm-ir", "--lambda", "20")
    facts = facts_of(
        capsys, "--method", "rsvm-ir", "--lambda", "20", "--solver", "gd", "--max-passes", "500", "--tol", "0.001"
    )
    assert facts["C"] == exact["C"] == pytest.approx(19 / 40)
    assert exact["objective"] <= facts["objective"] * 1.001
    assert facts["objective"] <= 1.01 * exact["objective"]


def test_the_learning_rate_of_gradient_descent(files, capsys):
    descent = ("--method", "rsvm-ir", "--lambda", "20", "--solver", "gd")
    one = facts_of(capsys, *descent, "--eta", "0.0002", "--max-passes", "3000")
    other = facts_of(capsys, *descent, "--learning-rate", "0.0002", "--max-passes", "3000")
    assert one["objective"] == other["objective"]
    assert load_model("m.rkw").parameters["learning_rate"] == 0.0002
    code, _, err = run(capsys, "train", "train.txt", *descent, "--eta", "9", "-o", "n.rkw")
    assert code == 0
    warned = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert warned[0].startswith("warning: learning_rate=9 is too large: ")
    code, _, err = run(capsys, "train", "train.txt", "--method", "rsvm-ir", "--eta", "0.1", "-o", "o.rkw")
    assert (code, err) == (
        2, "rankwright: learning_rate is given with solver='bundle'; expected solver='gd' with it\n"
    )  # fmt: skip
    facts_of(capsys, "--method", "lambdamart", "--learning-rate", "0.3", "--set", "n_trees=2")
    assert load_model("m.rkw").parameters["learning_rate"] == 0.3
