"""Backgrounds, adaptation, fewer queries and open tests in experiment files: every mistake with its line."""

import numpy as np
import pytest
from tests.experiments.experiment_files import (
    BACKGROUND,
    FIXED,
    HEAD,
    methods,
    write_all,
    write_experiment,
    write_rich,
)
from tests.experiments.test_experiment_checks import VALUES

from rankwright.experiments import check_text
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model

GOOD = HEAD + FIXED + BACKGROUND + methods("augment", "lambdamart", "auto")
# What is replaced in the good file, by what, where it is said, and what.
MISTAKES = {
    "no background": (BACKGROUND, "", "adapt:augment", "adapts a background ranker; fixed has none, expected [dat"),
    "name": ("adapt:auto", "adapt:autom", "adapt:autom", "unknown method 'adapt:autom'; did you mean adapt:auto?"),
    "far name": ("adapt:auto", "adapt:x", "adapt:x", "unknown method 'adapt:x'; did you mean adapt:"),
    "prefix": ("adapt:auto", "adapt-auto", "adapt-auto", "unknown method 'adapt-auto'; did you mean adapt:auto?"),
    "no features": (
        'features = ["rich1.txt", "rich2.txt"]\nvalid = "rich3.txt"\nparameters',
        "model = 'b.rkw'\n#",
        "adapt:augment",
        "the background of fixed has no features",
    ),
    "key": ('valid = "rich3', 'vali = "rich3', "vali =", "unknown key 'vali' in [data.background]; did you mean val"),
    "no table": (
        BACKGROUND,
        'background = "rich"\n',
        "background =",
        "background is 'rich'; expected a table or a list",
    ),
    "type": ('valid = "rich3.txt"', "valid = 3", "valid = 3", "valid is 3; expected a string or a list of str"),
    "both": ('valid = "rich3.txt"', "model = 'b.rkw'\nmethod = 'ranknet'", "ranknet", "has model and method: the "),
    "valid and model": ("parameters = { n", "model = 'b.rkw'\n# { n", "rich3", "has model and valid: there is not"),
    "neither": ('features = ["rich1.txt", "rich2.txt"]\n', "", "[data.background]", "has neither features nor model"),
    "missing file": ('"rich2.txt"', '"rich9.txt"', "rich9", "no rich9.txt in"),
    "no format": ('"rich2.txt"', '"exp.toml"', "exp.toml", "a line of an unknown format"),
    "same file": ('"rich2.txt"', '"test.txt"', "rich1.txt", "test.txt is already used by the data set"),
    "validated on": ('valid = "rich3.txt"', 'valid = "rich1.txt"', 'valid = "rich1', "rich1.txt is already used"),
    "no model": (BACKGROUND, "[data.background]\nmodel = 'rich1.txt'\n", "model =", "rich1.txt: not a Rankwright mo"),
    "method": ("parameters = { n", "method = 'lambdamat'\n# { n", "lambdamat", "did you mean lambdamart?"),
    "adapted itself": ("parameters = { n", "method = 'adapt:auto'\n# {", "'adapt:auto'", "cannot be adapted itself"),
    "parameter": ("n_trees = 12", "trees = 12", "trees = 12", "lambdamart has no parameter 'trees'; did you mean n_"),
    "value": ("n_trees = 12", "n_trees = 0", "n_trees = 0", "n_trees is 0; expected"),
    "leaves": ("leaves = 3", "leaves = 1", "leaves = 1", "leaves is 1; expected an integer of at least 2"),
    "their name": ("leaves = 3", "leafs = 3", "leafs", "unknown key 'leafs' in the parameters of adapt:lambdamart;"),
    "further": ("leaves = 3", "boosting_settings = { gian = 1 }", "gian", "lambdamart cannot be given 'gian' here;"),
    "further value": ("leaves = 3", "boosting_settings = { nearness = -1 }", "nearness", "nearness is -1; expected a"),
    "no parameter": (
        'adapt:augment"\n',
        'adapt:augment"\nparameters = { leaves = 3 } # a\n',
        "# a",
        "unknown key 'leaves' in the parameters of adapt:augment; expected one of backgrounds",
    ),
    "grid": (
        'adapt:augment"\n',
        'adapt:augment"\ngrid = { leaves = [3] }\n',
        "grid",
        "adapt:augment does not take grid",
    ),
    "no validation": ('valid = "vali.txt"\n', "", "adapt:augment", "chooses on validation queries; not every data"),
    "validation queries": ('valid = "vali.txt"', "valid_queries = 3", "valid_queries", "fixed has no validation que"),
    "how many": ('name = "fixed"', 'name = "fixed"\ntrain_queries = 0', "train_queries", "expected a positive integer"),
    "open test": ('name = "fixed"', 'name = "fixed"\nopen_test = "no.txt"', "no.txt", "no no.txt in"),
    "not open": ('name = "fixed"', 'name = "fixed"\nopen_test = "vali.txt"', "open_test", "vali.txt is already used"),
}


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    write_rich(tmp_path)
    save_model(LinearModel(np.ones(4)), tmp_path / "b.rkw", method="linear", parameters={})
    return tmp_path


def test_the_good_file_is_without_mistakes(folder):
    experiment, problems = check_text(GOOD, folder / "exp.toml")
    assert problems == []
    assert [str(spec.choose_by) for spec in experiment.methods] == ["AP"] * 3
    assert str(experiment.data[0].backgrounds[0].spec.choose_by) == "AP"
    default, _ = check_text(GOOD.replace('choose_by = "AP"\n', ""), folder / "exp.toml")
    assert [str(spec.choose_by) for spec in default.methods] == ["nDCG@10"] * 3


@pytest.mark.parametrize("which", MISTAKES)
def test_every_mistake_has_its_line(folder, which):
    old, new, where, said = MISTAKES[which]
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    experiment, problems = check_text(text, write_experiment(folder, text))
    assert experiment is None
    line = next(number for number, line in enumerate(text.splitlines(), 1) if where in line)
    assert line in [problem.line for problem in problems if said in problem.message], problems


def test_whatever_a_value_is_the_check_has_an_answer(folder):
    more = 'train_queries = 3\nvalid_queries = 3\nopen_test = "S1.txt"\n'
    model = GOOD.replace("[data.background]\n", "[data.background]\nmodel = 'b.rkw'\n")
    for text in (GOOD.replace('test = "test.txt"\n', 'test = "test.txt"\n' + more), model):
        lines = text.splitlines()
        for number in (n for n, line in enumerate(lines) if "=" in line and n > 4):
            for value in VALUES:
                changed = [*lines[:number], lines[number].partition("=")[0] + "= " + value, *lines[number + 1 :]]
                experiment, problems = check_text("\n".join(changed), folder / "exp.toml")
                assert (experiment is None) == bool(problems)


def test_mistakes_of_a_data_set_and_of_its_background_are_found_together(folder):
    text = GOOD.replace('name = "fixed"', 'name = "fixed"\ntrain_queries = 0').replace(
        'valid = "rich3', 'vali = "rich3'
    )
    _, problems = check_text(text, folder / "exp.toml")
    assert [problem.message.partition(";")[0] for problem in problems] == [
        "train_queries is 0",
        "unknown key 'vali' in [data.background]",
    ]
