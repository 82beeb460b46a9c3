"""`train` with bad input: one line, before any training, and nothing written."""

import numpy as np
import pytest
from tests.cli.training_files import made, one_line, run

from rankwright.io.letor import write_letor
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ["--method", "svm-mpa"],
            ["unknown method 'svm-mpa'; did you mean svm-map", "methods: auto, svm-map, svm-auc, "],
        ),
        (["--method", "ranksvm"], ["did you mean rank-svm"]),
        (["--method", "perceptron"], ["unknown method 'perceptron'; methods: "]),
        (["--method", "lambdamart", "--C", "1"], ["--C does not go with the method lambdamart"]),
        (
            ["--method", "lambdamart", "--set", "trees=5"],
            ["--set is 'trees=5'; expected NAME=VALUE with one of "],
        ),
        (["--method", "lambdamart", "--set", "n_trees=x"], ["n_trees is 'x'; expected a whole number from 1"]),
        (["--method", "svm-map", "--losses", "map,auc"], ["--losses does not go with the method svm-map"]),
        (["--method", "svm-combo", "--losses", "map"], ["svm-combo needs at least two losses; expected --losses"]),
        (["--method", "svm-combo", "--losses", "map,auc", "--loss-weights", "1,-1"], ["--loss-weights is '-1'"]),
        (["--method", "svm-map", "--feature-map", "dorm"], ["AP cannot be trained with the feature map 'dorm'"]),
        (["--method", "svm-ndcg@0"], ["the cutoff of the method 'svm-ndcg@0' is '0'; expected a whole number from 1"]),
        (["--method", "svm-mrr@x"], ["the cutoff of the method"]),
        (["--method", "svm-map@5"], ["unknown method 'svm-map@5'; did you mean svm-map"]),
        (["--C", "0"], ["--C is '0'; expected a number above 0, or auto"]),
        (["--C", "much"], ["--C is 'much'"]),
        (["--C", "inf"], ["--C is 'inf'"]),
        (["--C", "nan"], ["--C is 'nan'"]),
        (["--C", "auto", "--cv", "0"], ["--C auto and --C-grid choose C on --valid or by cross-validation"]),
        (["--C-grid", "1,2", "--cv", "0"], ["expected no --cv 0"]),
        (["--cv", "1"], ["--cv is 1; expected a number of folds from 2, or 0 for none"]),
        (["--cv", "-1"], ["--cv"]),
        (["--cv", "3", "--valid", "vali.txt"], ["expected either --cv or --valid"]),
        (["--cv", "3", "--continue", "wide.rkw"], ["--continue does not go with --cv"]),
        (["--C", "auto", "--continue", "wide.rkw"], ["--continue does not go with cross-validation"]),
        (["--C-grid", "1,2", "--C", "1", "--valid", "vali.txt"], ["--C-grid lists the values"]),
        (["--C-grid", "1,,2", "--valid", "vali.txt"], ["--C-grid is ''; expected numbers above 0"]),
        (["--C-grid", "1;2", "--valid", "vali.txt"], ["--C-grid is '1;2'"]),
        (["--measure", "ndgc"], ["unknown measure 'ndgc'; did you mean"]),
        (["--measure", "P"], ["P needs a cutoff"]),
        (["--tol", "0"], ["tol is 0.0; expected a number above 0"]),
        (["--tol", "nan"], ["tol is nan"]),
        (["--tol", "x"], ["--tol"]),
        (["--max-passes", "0"], ["--max-passes"]),
        (["--threads", "0"], ["--threads"]),
        (["--solver", "simplex"], ["--solver", "one-slack-cutting-plane"]),
        (["--relevant-from", "0"], ["relevant_from is 0"]),
        (
            ["--relevant-from", "9"],
            ["train.txt: no query has both relevant and other documents", "nothing to train on"],
        ),
        (["--method", "rank-svm", "--relevant-from", "2"], ["--relevant-from does not go with the method rank-svm"]),
        (["-o", "nowhere/m.rkw"], ["nowhere/m.rkw: cannot be written: the folder nowhere does not"]),
        (["-o", "."], [".: is a folder"]),
        (["-o", "-"], ["expected a file name after -o"]),
        (["-o", "m.rkw.gz"], ["model files are not gzip"]),
        (["-o", "train.txt"], ["train.txt: is also an input"]),
        (["-o", "vali.txt", "--valid", "vali.txt"], ["vali.txt: is also an input"]),
        (["--valid", "nothing.txt"], ["nothing.txt: cannot be read: No such file"]),
        (["--valid", "wide.txt"], ["wide.txt: the data has 7 features, but the training data has 5"]),
        (["--valid", "broken.txt"], ["broken.txt:2: "]),
        (["--continue", "nothing.rkw"], ["nothing.rkw: cannot be read"]),
        (["--continue", "wide.rkw"], ["wide.rkw: has 7 features, but the training data has 5"]),
        (["--continue", "train.txt"], ["train.txt: not a Rankwright model"]),
        (["--group", "vali.txt"], ["train.txt: has qid:Q in its lines, and group was given too"]),
    ],
)
def test_bad_options_are_one_line_before_any_training(files, capsys, monkeypatch, options, parts):
    write_letor(made(5, 3, n_features=7), files / "wide.txt")
    (files / "broken.txt").write_text("1 qid:1 1:1\n0 qid:1 1:x\n")
    save_model(LinearModel(np.ones(7)), "wide.rkw", method="svm-map", parameters={})
    if "nothing to train on" not in parts:
        monkeypatch.setattr("rankwright.maxmargin.structured_svm.Problem", None)
    before = sorted(files.iterdir())
    one_line(run(capsys, "train", "train.txt", "--method", "svm-map", "-o", "m.rkw", *options), *parts)
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "f.txt: is empty"),
        ("1 qid:1 1:1\n0 qid:1 1:nan\n", "f.txt:2: "),
        ("1 qid:1 1:1\n-1 qid:1 1:2\n", "f.txt:2: "),
        ("1 qid:1 1:1\n1 qid:1 1:2\n0 qid:2 1:1\n", "f.txt: no query has documents of different labels"),
        ("2000 qid:1 1:1\n0 qid:1 1:2\n1 qid:2 1:1\n0 qid:2 1:2\n", "f.txt: the label 2000 is too large for nDCG"),
        ("1 0 d1 2\n", "f.txt: contains judgements, not features"),
    ],
)
def test_bad_feature_files_are_one_line(files, capsys, text, part):
    (files / "f.txt").write_text(text)
    one_line(run(capsys, "train", "f.txt", "--method", "rank-svm", "-o", "m.rkw"), part)
    assert not (files / "m.rkw").exists()


@pytest.mark.parametrize(("missing", "part"), [("-o", "'-o'"), ("train.txt", "FEATURES")])
def test_what_must_be_given(files, capsys, missing, part):
    arguments = {"train.txt": ["train.txt"], "-o": ["-o", "m.rkw"]}
    del arguments[missing]
    one_line(run(capsys, "train", *(word for words in arguments.values() for word in words)), part)
