"""Experiment files: what is read from them, and every mistake with its line."""

from importlib import resources

import pytest
from tests.experiments.experiment_files import TRIALS, write_all, write_experiment

from rankwright.errors import InputError
from rankwright.experiments import Protocol, check_text, load_experiment
from rankwright.training.methods import NAMES, parse_method

GOOD = """\
[experiment]
name = "x"
measures = ["AP", "ndcg@5"]
baseline = "first"
tests = ["t", "sign"]
correction = "none"
output = "out"

[[data]]
name = "all"
features = "all.txt"

[[data]]
name = "parts"
folds = ["S1.txt", "S2.txt", "S3.txt"]

[protocol]
kind = "folds"
folds = 3

[[method]]
name = "first"
method = "feature:1"

[[method]]
method = "svm-map"
[method.parameters]
tol = 0.01
[method.grid]
C = [1, 10]

[[method]]
method = "lambdamart"
random = { n = 4 }
[method.grid]
max_leaves = [4, 8]
learning_rate = { low = 0.01, high = 0.3, log = true }
"""


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    return tmp_path


def line_with(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_what_is_read(folder):
    experiment = load_experiment(write_experiment(folder, GOOD))
    assert (experiment.name, experiment.seed, experiment.correction) == ("x", 0, "none")
    assert list(map(str, experiment.measures)) == ["AP", "nDCG@5"]
    assert experiment.output == folder / "out"
    assert [(source.name, source.kind) for source in experiment.data] == [("all", "features"), ("parts", "parts")]
    assert experiment.protocol == Protocol("folds", folds=3)
    first, svm, trees = experiment.methods
    assert (first.name, svm.name, trees.name) == ("first", "svm-map", "lambdamart")
    assert (str(svm.choose_by), svm.trained_for, svm.grid) == ("AP", "AP", {"C": [1, 10]})
    assert (str(trees.choose_by), trees.trained_for, trees.random) == ("nDCG@10", "nDCG", 4)
    assert experiment.text == GOOD


def test_what_is_left_out_has_a_default(folder):
    text = '[[data]]\nname = "f"\ntrain = "train.txt"\ntest = "test.txt"\n[[method]]\nmethod = "svm-ndcg@3"\n'
    experiment = load_experiment(write_experiment(folder, text, "small.toml"))
    assert (experiment.name, experiment.baseline, experiment.tests) == ("small", "svm-ndcg@3", ("wilcoxon",))
    assert experiment.output == folder / "small-results"
    assert list(map(str, experiment.measures)) == ["AP", "nDCG@10", "RR", "P@10"]
    assert str(experiment.methods[0].choose_by) == "nDCG@3"


# What is replaced in the good file, by what, and what is said on the line where the new text stands.
MISTAKES = {
    "no toml": ("seed", 'name = "x"', "name = x", "not valid TOML"),
    "section": ("[protocoll]", "[protocol]", "[protocoll]", "unknown section 'protocoll'; did you mean protocol?"),
    "key": ("mesures", "measures =", "mesures =", "unknown key 'mesures' in [experiment]; did you mean measures?"),
    "far key": ("zzz", "measures =", "zzz =", "unknown key 'zzz' in [experiment]; expected one of name, seed"),
    "type": ('"holm"]', '"none"', '["holm"]', "correction is ['holm']; expected a string"),
    "seed": ("seed", 'name = "x"', "seed = true", "seed is True; expected an integer of at least 0"),
    "list of texts": ("measures = [1]", '["AP", "ndcg@5"]', "[1]", "measures is [1]; expected a list of strings"),
    "no measures": ("measures = []", '["AP", "ndcg@5"]', "[]", "measures is empty"),
    "geometric mean": ("GMAP", "ndcg@5", "GMAP", "GMAP cannot be reported here: it is a geometric mean over queries"),
    "subtopics": ("ERR_IA", "ndcg@5", "ERR_IA@5", "ERR_IA@5 cannot be reported here: it needs judgements by subtopic"),
    "measure": ("ndgc", "ndcg@5", "ndgc@5", "unknown measure 'ndgc'; did you mean"),
    "test": ("sing", '"sign"', '"sing"', "unknown test 'sing'; did you mean sign?"),
    "correction": ("hollm", '"none"', '"hollm"', "unknown correction 'hollm'; did you mean holm?"),
    "baseline": ('"firts"', 'baseline = "first"', 'baseline = "firts"', "unknown method for the baseline 'firts'"),
    "missing file": ("none.txt", '"all.txt"', '"none.txt"', "no none.txt in"),
    "missing part": ("S9", '"S2.txt"', '"S9.txt"', "no S9.txt in"),
    "few parts": ("S1.txt", ', "S2.txt", "S3.txt"', "", "folds has 1 part; expected at least 3"),
    "no format": ("exp.toml", '"all.txt"', '"exp.toml"', "a line of an unknown format"),
    "no features": ("features = []", '"all.txt"', "[]", "features is empty"),
    "two sources": ("[[data]]", 'features = "all.txt"', 'features = "all.txt"\ntrain = "x"', "has features and train"),
    "no source": ("[[data]]", 'features = "all.txt"', "", "names no source; expected one of features"),
    "data key": ("depht", 'features = "all.txt"', 'features = "all.txt"\ndepht = 3', "unknown key 'depht' in [[data]]"),
    "no name": ("[[data]]", 'name = "all"\n', "", "[[data]] has no name"),
    "same names": ('name = "all"', 'name = "parts"', 'name = "all"', "duplicate name 'all'"),
    "protocol": (
        "trails",
        'kind = "folds"',
        'kind = "trails"',
        "unknown kind of protocol 'trails'; did you mean trials?",
    ),
    "no kind": ("[protocol]", 'kind = "folds"', "", "[protocol] has no kind"),
    "protocol key": (
        "fold =",
        "folds = 3",
        "fold = 3",
        "unknown key 'fold' in [protocol] of kind folds; did you mean",
    ),
    "few folds": ("folds = 2", "folds = 3", "folds = 2", "2 folds, 1 of them for validation, leave none to train on"),
    "size": (
        "train = 1.5",
        'kind = "folds"\nfolds = 3',
        'kind = "trials"\ntrain = 1.5',
        "train is 1.5; expected a number of",
    ),
    "method": ("svm-mapp", '"svm-map"', '"svm-mapp"', "unknown method 'svm-mapp'; did you mean svm-map?"),
    "cutoff": ("svm-ndcg@x", '"svm-map"', '"svm-ndcg@x"', "the cutoff of the method 'svm-ndcg@x' is 'x'"),
    "no method": ("[[method]]", 'method = "feature:1"', "", "[[method]] has no method"),
    "method key": (
        "gird",
        "[method.grid]\nC",
        "[method.gird]\nC",
        "unknown key 'gird' in [[method]]; did you mean grid?",
    ),
    "parameter": ("toll", "tol = 0.01", "toll = 0.01", "svm-map has no parameter 'toll'; did you mean tol?"),
    "value": ("tol = -1", "tol = 0.01", "tol = -1", "tol is -1; expected a number above 0"),
    "value type": ("= 'x'", "tol = 0.01", "max_passes = 'x'", "max_passes is 'x'; expected a whole number from 1"),
    "set by us": ("n_jobs", "tol = 0.01", "n_jobs = 4", "n_jobs cannot be set here: use --threads"),
    "the loss": ("loss", "tol = 0.01", 'loss = "auc"', "loss cannot be set here"),
    "losses": ("losses", "tol = 0.01", 'losses = ["map"]', "svm-map has no parameter 'losses'"),
    "grid name": ("maxleaves", "max_leaves = [4, 8]", "maxleaves = [4, 8]", "lambdamart has no parameter 'maxleaves'"),
    "empty grid": ("C = []", "C = [1, 10]", "C = []", "the grid of C is empty; expected at least one value"),
    "grid type": ("C = 1", "C = [1, 10]", "C = 1", "the grid of C is 1; expected a list of values, or a range"),
    "grid value": ("C = [1, -1]", "C = [1, 10]", "C = [1, -1]", "C is -1; expected a number above 0"),
    "grid twice": ("tol = [", "C = [1, 10]", "C = [1, 10]\ntol = [0.1]", "tol is also among the parameters"),
    "range": ("C = {", "C = [1, 10]", "C = { low = 1, high = 2 }", "the grid of C is a range; expected random"),
    "range ends": (
        "low = 2",
        "low = 0.01, high = 0.3",
        "low = 2, high = 0.3",
        "is from 2 to 0.3; expected low below",
    ),
    "range of logs": ("low = 0,", "low = 0.01,", "low = 0,", "starts at 0; expected a number above 0 for log"),
    "range key": ("hi = 1", "high = 0.3", "hi = 1", "unknown key 'hi' in the range of learning_rate"),
    "random": ("{ m = 4 }", "{ n = 4 }", "{ m = 4 }", "random has no n; expected the number of points to draw"),
    "nothing to draw": (
        "random = { n = 2",
        'method = "feature:1"',
        'method = "ranknet"\nrandom = { n = 2 }',
        "nothing to draw",
    ),
    "no background": ("background", "tol = 0.01", 'background = "b.rkw"', "svm-map has no parameter 'background'"),
    "choose by": (
        "choose_by",
        "[method.parameters]",
        'choose_by = "apx"\n[method.parameters]',
        "unknown measure 'apx'",
    ),
    "bins": ("bins", "tol = 0.01", "bins = 0", "bins is 0; expected a whole number from 1"),
    "choose by for all": ("choose_by", 'name = "x"', 'choose_by = "apx"', "unknown measure 'apx'"),
    "which feature": ('"feature:"', '"feature:1"', '"feature:"', "which feature?"),
    "grid of a feature": (
        "grid = {",
        'method = "feature:1"',
        'method = "feature:1"\ngrid = { C = [1] }',
        "feature:1 does not take grid",
    ),
}


@pytest.mark.parametrize("which", MISTAKES)
def test_every_mistake_has_its_line(folder, which):
    where, old, new, said = MISTAKES[which]
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    path = write_experiment(folder, text)
    experiment, problems = check_text(text, path)
    assert experiment is None
    found = {problem.line: problem.message for problem in problems if said in problem.message}
    line = 2 if which == "no toml" else line_with(text, where)
    if which == "same names":
        line = line_with(text, "folds = [") - 1
    if which == "no losses":
        line -= 1  # what is missing has no line: that of the entry
    assert list(found) == [line], problems


def test_all_mistakes_are_found_at_once_from_top_to_end(folder):
    text = GOOD.replace("measures", "mesures").replace("S2.txt", "S9.txt").replace("tol =", "toll =")
    _, problems = check_text(text, folder / "exp.toml")
    assert [problem.line for problem in problems] == sorted(line_with(text, part) for part in ("mesures", "S9", "toll"))
    with pytest.raises(InputError, match=r"exp.toml:3: unknown key 'mesures'.* \(and 2 more: see"):
        load_experiment(write_experiment(folder, text))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "no [[data]]"),
        ("[data]\nname = 'a'\n", "expected a list of tables, [[data]]"),
        ("[[data]]\nname = 'a'\nfeatures = 'all.txt'\n", "a has no split of its own; expected a section [protocol]"),
        ("[[data]]\nname = 'a'\ntrain = 'train.txt'\n", "no test; expected a file"),
        ("[[data]]\nname = 'a'\ntrain = 'train.txt'\ntest = 'train.txt'\n", "train and test are the same file"),
        ("[[data]]\nname = 'a'\nruns = ['*.run']\nqrels = 'q'\n", "no *.run in"),
        ("[[data]]\nname = 'a'\ncollection = 'nowhere'\n", "no folder nowhere in"),
        ("[[data]]\nname = 'a'\ncollection = 'python-docs'\nfeature_sets = ['bas']\n", "did you mean base?"),
        ("[[data]]\nname = 'a'\ncollection = 'python-docs'\npart = 'titel'\n", "did you mean title?"),
        ("[[data]]\nname = 'a'\ncollection = 'python-docs'\ncandidates = 'all'\n", "unknown candidates 'all'"),
        ("[[data]]\nname = 'a'\ncollection = 'empty'\n", "has no single file whose name starts with docs: none"),
        ("[[data]]\nname = 'a'\nfolds = 'empty'\n", "has no single file whose name starts with train: none"),
    ],
)
def test_data_that_cannot_be_used(folder, data, said):
    (folder / "empty").mkdir()
    text = data + "[[method]]\nmethod = 'svm-map'\n"
    experiment, problems = check_text(text, folder / "exp.toml")
    assert experiment is None
    assert any(said in problem.message for problem in problems), problems


VALUES = ("3", "-1", "1.5", "true", '"x"', "[]", "[1]", '["x"]', "{}", "{ low = 1 }", "1979-05-27", "nan")


@pytest.mark.parametrize("number", [n for n, line in enumerate(GOOD.splitlines()) if "=" in line])
def test_whatever_a_value_is_the_check_has_an_answer(folder, number):
    lines = GOOD.splitlines()
    for value in VALUES:
        changed = [*lines[:number], lines[number].partition("=")[0] + "= " + value, *lines[number + 1 :]]
        experiment, problems = check_text("\n".join(changed), folder / "exp.toml")
        assert (experiment is None) == bool(problems)


@pytest.mark.parametrize("method", NAMES)
def test_whatever_a_parameter_is_the_check_has_an_answer(folder, method):
    data = '[[data]]\nname = "f"\ntrain = "train.txt"\ntest = "test.txt"\n'
    for key in parse_method(method).defaults():
        for value in ('"x"', "[1]", "1979-05-27"):
            text = f'{data}[[method]]\nmethod = "{method}"\n[method.parameters]\n{key} = {value}\n'
            experiment, problems = check_text(text, folder / "exp.toml")
            assert (experiment is None) == bool(problems)


@pytest.mark.parametrize("text", ["data = 3\nmethod = 'x'", "data = [3]\nmethod = [3]", "experiment = 1\nprotocol = 2"])
def test_sections_that_are_no_tables(folder, text):
    experiment, problems = check_text(text, folder / "exp.toml")
    assert experiment is None
    assert len(problems) >= 2


def test_a_missing_file_is_the_only_mistake_where_the_protocol_has_no_validation_queries(folder):
    text = TRIALS.replace("valid = 8", "valid = 0").replace(
        "parameters = { max_passes = 20 }", "parameters = { cv = 3 }"
    )
    text = text[: text.index("[method.grid]")]
    assert check_text(text, folder / "exp.toml")[1] == []
    (problem,) = check_text(text.replace("all.txt", "gone.txt"), folder / "exp.toml")[1]
    assert "no gone.txt in" in problem.message


def test_a_choice_needs_validation_queries(folder):
    data = "[[data]]\nname = 'a'\ntrain = 'train.txt'\ntest = 'test.txt'\n"
    for method in ("method = 'best-feature'", "method = 'svm-map'\n[method.grid]\nC = [1, 2]"):
        _, problems = check_text(f"{data}[[method]]\n{method}\n", folder / "exp.toml")
        assert "not every data set has some" in problems[0].message
    experiment, problems = check_text(f"{data}[[method]]\nmethod = 'svm-map'\n", folder / "exp.toml")
    assert (experiment is not None, problems) == (True, [])


def test_files_are_looked_for_in_the_folder_of_the_data_too(folder, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = write_experiment(elsewhere, TRIALS)
    with pytest.raises(InputError, match=r"no all.txt in"):
        load_experiment(path)
    assert load_experiment(path, data=folder).data[0].files["1"] == folder / "all.txt"
    monkeypatch.setenv("RANKWRIGHT_DATA", str(folder))
    assert load_experiment(path).data[0].files["1"] == folder / "all.txt"


def test_folders_of_folds(folder):
    for number in (1, 2, 10):
        fold = folder / "folds" / f"Fold{number}"
        fold.mkdir(parents=True)
        for name, source in {"trainingset.txt": "train", "vali.txt": "vali", "test.txt": "test"}.items():
            (fold / name).write_text((folder / f"{source}.txt").read_text())
    text = "[[data]]\nname = 'a'\nfolds = 'folds'\n[[method]]\nmethod = 'feature:1'\n"
    files = load_experiment(write_experiment(folder, text)).data[0].files
    assert list(files) == [f"{fold}/{role}" for fold in (1, 2, 3) for role in ("train", "valid", "test")]
    assert files["3/train"] == folder / "folds" / "Fold10" / "trainingset.txt"


def test_the_example_is_without_mistakes(tmp_path):
    text = resources.files("rankwright.experiments").joinpath("example.toml").read_text(encoding="utf-8")
    experiment, problems = check_text(text, tmp_path / "exp.toml")
    assert problems == []
    assert experiment is not None
    assert experiment.baseline == "bm25"


@pytest.mark.parametrize("method", NAMES)
def test_a_method_chooses_by_what_its_estimator_does(folder, method):
    parameters = {"losses": ["auc", "map"]} if "losses" in parse_method(method).defaults() else {}
    written = f"parameters = {{ losses = {parameters['losses']} }}\n" if parameters else ""
    data = '[[data]]\nname = "f"\ntrain = "train.txt"\nvalid = "vali.txt"\ntest = "test.txt"\n'
    experiment, _ = check_text(f'{data}[[method]]\nmethod = "{method}"\n{written}', folder / "exp.toml")
    assert experiment.methods[0].choose_by == parse_method(method).make(**parameters).measure_to_choose_by()


def test_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_experiment(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        load_experiment(tmp_path / "bytes.toml")
