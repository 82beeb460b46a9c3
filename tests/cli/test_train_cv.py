"""`train` without validation data: the choice by cross-validation, what is said of it, and Ctrl-C."""

import json
import re
import signal
import sys

import numpy as np
import pytest
from tests.cli.training_files import facts_of, made, run

from rankwright import RankingSVM, read_data
from rankwright.cli import train
from rankwright.cli.main import main
from rankwright.io.letor import write_letor
from rankwright.models.saving import load_model
from rankwright.rankers.cross_validation import cross_validate
from rankwright.training.methods import METHODS

QUICK = {"n_trees": 5, "n_rounds": 5, "epochs": 3}


@pytest.mark.parametrize("method", [name for name in METHODS if name != "auto"])  # test_train_auto.py
def test_every_method_is_cross_validated_without_validation_data(files, capsys, method):
    known = METHODS[method].defaults()
    options = [f"--set={name}={value}" for name, value in QUICK.items() if name in known]
    options += ["--C-grid", "0.1,1"] if "C" in known else []
    facts = facts_of(capsys, "--method", method, "--cv", "3", *options)
    crossed, measure = facts["cross_validation"], facts["measure"]
    assert (crossed["how"], crossed["folds"], crossed["held_out"]) == ("3-fold cross-validation", 3, 3)
    assert crossed["queries"] == 20
    assert set(facts["measures"]) == {f"cross-validated {measure}", f"training {measure}"}
    assert facts["measures"][f"cross-validated {measure}"] == crossed["value"]
    best = crossed["settings"][int(np.argmax(np.round(crossed["means"], 11)))]
    assert (facts["C"] if "C" in known else facts["rounds"]) == best
    saved = load_model("m.rkw")
    assert saved.measures == facts["measures"]
    assert saved.parameters["cv"] == 3
    code, _, err = run(capsys, "train", "train.txt", "--method", method, "-o", "m.rkw", "--cv", "3", *options)
    assert code == 0
    assert f"by {measure} in 3-fold cross-validation" in err
    assert re.search(
        rf"\n  {re.escape(measure):<11} 0\.\d{{4}} cross-validated, 0\.\d{{4}} on train.txt \(training\)\n", err
    )


def test_the_default_is_five_folds_where_something_is_open(files, capsys):
    facts = facts_of(capsys, "--method", "rank-svm")
    found = cross_validate(RankingSVM("auto"), read_data("train.txt"), 5)
    assert facts["cross_validation"]["value"] == found.value
    assert (facts["C"], [row["nDCG@10"] for row in facts["C_tried"]]) == (found.setting, list(found.means))
    assert facts["cross_validation"]["means"] == list(found.means)
    assert facts_of(capsys, "--method", "rank-svm", "--C-grid", "0.1,1")["cross_validation"]["settings"] == [0.1, 1.0]
    for fixed in (("--C", "1"), ("--lambda", "2"), ("--cv", "0"), ("--continue", "m.rkw"), ("--valid", "vali.txt")):
        assert facts_of(capsys, "--method", "rank-svm", *fixed)["cross_validation"] is None
    estimated = facts_of(capsys, "--method", "rank-svm", "--C", "1", "--cv", "4")
    assert (estimated["C"], estimated["cross_validation"]["settings"], estimated["C_tried"]) == (1.0, [1.0], [])


def test_much_data_is_told_apart(files, capsys):
    write_letor(made(3, 520, size=8), files / "large.txt")
    options = ("train", "large.txt", "--method", "rank-svm", "--C-grid", "0.1,1", "-o", "m.rkw")
    code, _, err = run(capsys, *options)
    assert code == 0
    assert "by nDCG@10 in cross-validation with one of 5 folds" in err
    assert "3-fold cross-validation" in run(capsys, *options, "--cv", "3")[2]


def test_one_query_is_a_warning(files, capsys):
    (files / "one.txt").write_text("1 qid:1 1:5\n0 qid:1 1:4\n0 qid:2 1:1\n")
    code, _, err = run(capsys, "train", "one.txt", "--method", "rank-svm", "-o", "m.rkw")
    assert code == 0
    assert err.startswith(
        "warning: one query has an order to learn, and none can be held out for cross-validation: C is"
    )
    assert load_model("m.rkw").training["C"] == 1.0


@pytest.fixture
def keyboard():
    """Ctrl-C works as in a terminal, also where tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(monkeypatch, when):
    """Press Ctrl-C once, when a pass or round of cross-validation is the right one."""
    watched, pressed = train.Watch.__call__, []

    def call(self, check):
        if not pressed and when(self._fold, check):
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        watched(self, check)

    monkeypatch.setattr(train.Watch, "__call__", call)


def test_ctrl_c_chooses_by_the_folds_that_are_finished(files, keyboard, capsys, monkeypatch):
    press(monkeypatch, lambda fold, check: fold.startswith("fold 3 of 5"))
    options = ("train", "train.txt", "--method", "svm-map", "-o", "m.rkw", "--json")
    code, out, err = run(capsys, *options)
    facts = json.loads(out)
    assert (code, facts["interrupted"]) == (130, True)
    assert err.endswith("rankwright: interrupted\n")
    assert (facts["cross_validation"]["held_out"], facts["C_left"]) == (2, 0)
    assert facts["cross_validation"]["how"] == "cross-validation with 2 of 5 folds"
    assert facts["gap"] <= 1e-3  # the training on all data was not


def test_ctrl_c_in_a_round_chooses_from_those_before(files, keyboard, capsys, monkeypatch):
    press(monkeypatch, lambda fold, row: fold.startswith("5 folds") and row.round == 4)
    code, out, _ = run(capsys, "train", "train.txt", "--method", "lambdamart", "-o", "m.rkw", "--json")
    facts = json.loads(out)
    assert (code, facts["interrupted"], facts["rounds_run"]) == (130, True, 4)
    assert facts["rounds"] <= 4


def test_ctrl_c_in_the_first_fold_leaves_no_model(files, keyboard, capsys, monkeypatch):
    press(monkeypatch, lambda fold, check: fold.startswith("fold 1 of 5"))
    code, out, err = run(capsys, "train", "train.txt", "--method", "svm-map", "-o", "m.rkw")
    assert (code, out) == (130, "")
    assert err.split("\n", 1)[1].strip() == "rankwright: interrupted"
    assert not (files / "m.rkw").exists()


def test_progress_says_which_fold(files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("rankwright.cli.train._INTERVAL", 0.0)
    _, _, err = run(capsys, "train", "train.txt", "--method", "svm-map", "--cv", "3", "-o", "m.rkw")
    shown = [line.strip() for line in err.split("\r")]
    assert re.match(r"fold 1 of 3  C 0\.0001 \(1 of 8\)  pass 1  gap \S+ %$", shown[1])
    folds = [line[:11] for line in shown if line.startswith("fold")]
    assert list(dict.fromkeys(folds)) == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert any(line.startswith("pass 1 ") and "(1 of" not in line for line in shown)  # on all data
    _, _, err = run(capsys, "train", "train.txt", "--method", "lambdamart", "--set", "n_trees=3", "-o", "m.rkw")
    shown = [line.strip() for line in err.split("\r")]
    assert re.match(r"5 folds  round 1  held out 0\.\d{4}  0 s$", shown[1])
    assert any(re.match(r"round 1  0 s$", line) for line in shown)


def test_the_same_bytes_for_any_number_of_threads(files, capsys):
    for number, threads in enumerate(("1", "2")):
        for method in ("svm-ndcg", "lambdamart"):
            few = [f"--set=n_trees={QUICK['n_trees']}"] if method == "lambdamart" else []
            options = ("--method", method, "--cv", "3", "--threads", threads, *few)
            assert main(["train", "train.txt", *options, "-o", f"{method}{number}.rkw"]) == 0
    for method in ("svm-ndcg", "lambdamart"):
        first, other = (files.joinpath(f"{method}{number}.rkw").read_bytes() for number in range(2))
        assert first == other
