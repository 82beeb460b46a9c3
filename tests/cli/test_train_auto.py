"""`train` without a method: the committee, what is said of it, its options."""

from pathlib import Path

import numpy as np
import pytest
from tests.cli.training_files import facts_of, one_line, run

from rankwright import AutoRanker, read_data
from rankwright.cli.train import command
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model
from rankwright.training.methods import METHODS

FEW = ("--set", "members=['svm-map', 'rank-svm']")


def test_auto_is_the_default_and_says_what_it_is(files, capsys):
    code, _, err = run(capsys, "train", "train.txt", "-o", "m.rkw", *FEW)
    assert code == 0
    lines = err.splitlines()
    assert lines[0].startswith("trained auto on ")
    for title in ("holds", "alone", "expect", "against"):
        assert any(line.startswith(f"  {title:<12}") for line in lines)
    ranker = AutoRanker(members=["svm-map", "rank-svm"]).fit(read_data("train.txt"))
    promised = ranker.committee_.expectation.value.value
    assert f"nDCG@10 {promised:.4f} on new queries like these, between" in err
    assert f"{promised:.4f} cross-validated" in err
    saved = load_model("m.rkw")
    data = read_data("train.txt")
    np.testing.assert_array_equal(saved.predict(data), ranker.predict(data))
    code, out, _ = run(capsys, "info", "m.rkw")
    assert code == 0
    assert "holds" in out
    holds = " ".join(out.split()).partition("holds ")[2].partition(" alone ")[0]
    for member in ranker.committee_.members:
        assert (f"{member.name} ({member.setting}" in holds) == member.stays


def test_facts_of_a_committee(files, capsys):
    facts = facts_of(capsys, *FEW)
    committee = facts["committee"]
    assert facts["method"] == "auto"
    assert [member[0] for member in committee["members"]] == ["svm-map", "rank-svm"]
    assert committee["held_out"] == "5-fold cross-validation"
    assert facts["measures"]["cross-validated nDCG@10"] == committee["expected_value"][0]
    by_ap = facts_of(capsys, *FEW, "-m", "AP", "--cv", "3")
    assert by_ap["committee"]["held_out"] == "3-fold cross-validation"
    assert set(by_ap["measures"]) == {"cross-validated AP", "training AP"}


def test_validation_data_decides(files, capsys):
    facts = facts_of(capsys, *FEW, "--valid", "vali.txt")
    assert facts["committee"]["held_out"] == "validation data"
    assert set(facts["measures"]) == {"validation nDCG@10", "training nDCG@10"}


def test_options_of_auto(files, capsys):
    facts_of(capsys, "--explainable", *FEW)
    assert isinstance(load_model("m.rkw").model, LinearModel)
    late = facts_of(capsys, "--minutes", "1e-9")["committee"]
    assert late["is_best_feature"]
    assert len(late["unfinished"]) == 6


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("--C", "1"), ("--C does not go with the method auto; it is for svm-map, ",)),
        (
            ("--method", "svm-map", "--explainable"),
            ("--explainable does not go with the method svm-map; it is for auto",),
        ),
        (("--cv", "0"), ("--cv 0 holds nothing out", "expected folds, or --valid")),
        (("--cv", "1"), ("expected a number of folds from 2",)),
        (("--minutes", "0"), ("minutes is 0", "expected a number above 0")),
        (("--set", "members=svm-mapp"), ("members is 'svm-mapp'; expected names from svm-map, rank-svm",)),
    ],
)
def test_wrong_options_are_one_line(files, capsys, args, parts):
    one_line(run(capsys, "train", "train.txt", "-o", "m.rkw", *args), *parts)


def test_the_help_starts_with_auto_and_lists_every_method_and_option(capsys):
    code, out, _ = run(capsys, "train", "--help")
    assert code == 0
    assert out.index("When to take what:") < out.index("All methods:") < out.index("Example:")
    assert out[out.index("When to take what:") :].split()[4] == "auto"
    methods = out[out.index("All methods:") : out.index("Example:")].replace(",", " ").split()
    assert set(METHODS) <= set(methods)
    for option in command.params:
        for name in option.opts if option.opts[0].startswith("-") else ():
            assert name in out
    rest = [line for line in out[out.index("Other options:") :].splitlines() if line.strip()]
    assert len(rest) == 2
    assert "--help" in rest[1]


def test_an_experiment_takes_auto(files, capsys):
    Path("e.toml").write_text(
        '[experiment]\nmeasures = ["nDCG@10"]\n'
        '[[data]]\nname = "d"\nfeatures = "train.txt"\n'
        '[protocol]\nkind = "folds"\nfolds = 3\n'
        '[[method]]\nmethod = "best-feature"\n'
        '[[method]]\nmethod = "auto"\nparameters = { members = ["svm-map", "rank-svm"] }\n'
    )
    code, out, err = run(capsys, "experiment", "run", "e.toml", "--threads", "1")
    assert code == 0, err
    code, out, _ = run(capsys, "experiment", "table", "e-results")
    assert code == 0
    assert "auto" in out
