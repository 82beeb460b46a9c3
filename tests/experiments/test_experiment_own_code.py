"""Code and scores of users in experiment files: allowed by who runs them, in the hash of a cell, in every process."""

import json

import numpy as np
import pytest
from tests.experiments.experiment_files import made, write_all, write_experiment

from rankwright import InputError, TrecTable, evaluate, load_model, read_data, write_run
from rankwright.cli.main import main
from rankwright.experiments import Results, check_text, load_experiment, run_experiment
from rankwright.measures.base import REGISTRY

MINE = """
from dataclasses import dataclass

import numpy as np

from rankwright import register_ranker
from rankwright.measures import BinaryMeasure, register

@register
@dataclass(frozen=True)
class TopIsGood(BinaryMeasure):
    def value(self, rankings):
        top = rankings.top(1)
        return FACTOR * top.max(self.worth(top.labels))

class Weighted:
    def __init__(self, first=1.0):
        self.coef_ = np.array([first, 0.5, 0.0, 0.0])
    def fit(self, X, y, group): ...
    def predict(self, X):
        return X @ self.coef_

@register_ranker
class Curved(Weighted):
    name = "curved"
    def predict(self, X):
        return np.tanh(X @ self.coef_)
"""
EXPERIMENT = """
[experiment]
measures = ["nDCG@5", "TopIsGood"]
plugins = ["mine.py"]
baseline = "LightGBM"
save_models = true

[[data]]
name = "all"
features = "all.txt"

[protocol]
kind = "folds"
folds = 3

[[method]]
name = "LightGBM"
method = "lightgbm"
parameters = { num_iterations = 6, min_data_in_leaf = 4 }
grid = { num_leaves = [2, 5] }

[[method]]
method = "python:mine.py:Weighted"
grid = { first = [-1.0, 1.0] }

[[method]]
method = "curved"
"""


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.replace("FACTOR", "1.0"))
    return tmp_path


def test_code_is_run_only_if_it_is_allowed(folder, capsys):
    file = write_experiment(folder, EXPERIMENT.replace("mine.py:Weighted", "other.py:Weighted"))
    (folder / "other.py").write_text("raise SystemExit('run')")
    told = (
        "names mine.py, other.py: Python code, which is not run unless you allow it: --plugins, in Python plugins=True"
    )
    assert main(["experiment", "run", str(file)]) == 2
    assert capsys.readouterr().err == f"rankwright: {file}:4: {told}\n"
    with pytest.raises(InputError, match="plugins=True"):
        run_experiment(file)
    assert "topisgood" not in REGISTRY
    text = EXPERIMENT.replace('plugins = ["mine.py"]\n', "").replace(', "TopIsGood"', "")
    inside = text.replace('method = "lightgbm"', 'method = "auto"').replace("grid = { num_leaves = [2, 5] }", "")
    inside = inside.replace("num_iterations = 6, min_data_in_leaf = 4", 'members = ["python:mine.py:Weighted"]')
    for some in (text, inside):
        _, problems = check_text(some, file)
        assert len(problems) == 1
        assert "Python code" in str(problems[0])


def test_mistakes_in_naming_code_have_their_lines(folder):
    text = EXPERIMENT.replace('"mine.py"]', '"mine.py", "none.py"]').replace(":Weighted", ":Waited")
    _, problems = check_text(text, folder / "exp.toml", plugins=True)
    assert [problem.line for problem in problems] == [4]
    assert "no none.py in" in str(problems[0])
    _, problems = check_text(text.replace(', "none.py"', ""), folder / "exp.toml", plugins=True)
    assert ["has no class 'Waited'" in str(problem) for problem in problems] == [True]
    wrong = EXPERIMENT.replace("num_leaves", "num_leafs").replace("first =", "second =")
    _, problems = check_text(wrong, folder / "exp.toml", plugins=True)
    assert "LightGBM has no parameter 'num_leafs'" in str(problems[0])
    assert "python:mine.py:Weighted failed when it is made: TypeError" in str(problems[1])


def test_rows_of_others_are_rows_like_ours_in_any_number_of_processes(folder):
    file = write_experiment(folder, EXPERIMENT)
    one = run_experiment(file, plugins=True, output=folder / "one")
    two = run_experiment(file, plugins=True, output=folder / "two", n_jobs=2)
    assert not one.failures + two.failures
    for table in ("per_query.csv", "paths.csv", "rounds.csv"):
        assert (folder / "one" / table).read_text() == (folder / "two" / table).read_text()
    chosen = one.runs().groupby("method")["parameters"].first()
    assert chosen["python:mine.py:Weighted"] == '{"first": 1.0}'
    assert "num_leaves" in chosen["LightGBM"]
    models = sorted((folder / "one" / "models").iterdir())
    assert sorted(path.suffix for path in models) == [".rkw"] * 6 + [".txt"] * 3
    assert "curved cannot be saved" in next(path for path in models if path.suffix == ".txt").read_text()
    weights = load_model(models[-1]).model.coef.tolist()
    assert weights == [1.0, 0.5, 0.0, 0.0]
    again = run_experiment(file, plugins=True, output=folder / "one")
    assert again.manifest["sessions"] == one.manifest["sessions"]  # nothing was left to compute


def cells(results):
    return {path.name for path in (results.folder / "cells").iterdir()}


def test_a_change_of_the_code_is_a_change_of_the_cell(folder):
    file = write_experiment(folder, EXPERIMENT.replace("save_models = true\n", ""))
    first = run_experiment(file, plugins=True)
    before, means = cells(first), first.evaluations("all")[1].means["TopIsGood"]
    (folder / "mine.py").write_text(MINE.replace("FACTOR", "0.5"))
    second = run_experiment(file, plugins=True)
    assert second.evaluations("all")[1].means["TopIsGood"] == pytest.approx(means / 2)
    assert cells(second) > before  # LightGBM's are kept or made again, those of the file are made again
    (folder / "moved").mkdir()
    for path in folder.glob("*.*"):
        path.rename(folder / "moved" / path.name)
    third = run_experiment(folder / "moved" / "exp.toml", plugins=True, output=folder / "exp-results")
    assert cells(third) == cells(second)  # where the file is does not matter


def test_tables_and_reports_need_no_code(folder, capsys):
    results = run_experiment(write_experiment(folder, EXPERIMENT), plugins=True)
    for name in ("topisgood", "curved"):
        REGISTRY.pop(name, None)
    assert "TopIsGood" in Results.open(results.folder).table()
    assert main(["experiment", "table", str(results.folder)]) == 0
    assert main(["experiment", "report", str(results.folder)]) == 0


SCORES = """
[experiment]
measures = ["AP", "nDCG@5"]
baseline = "first"

[[data]]
name = "all"
features = "all.txt"

[protocol]
kind = "folds"
folds = 3

[[method]]
name = "first"
method = "feature:1"

[[method]]
name = "neural"
scores = "{data}-{k}.run"

[[method]]
name = "lines"
scores = "lines{k}.txt"
"""


def held_out(folder):
    """The test data of every split, as the splits of the experiment have it."""
    from rankwright.experiments.preparing import pieces_of, prepare, splits_of

    experiment = load_experiment(write_experiment(folder, SCORES.partition('[[method]]\nname = "neural"')[0]))
    prepared = prepare(experiment.data[0], folder / "cache")
    return [
        pieces_of(prepared.parts, split.test) for split in splits_of(prepared, experiment.protocol, experiment.seed)
    ]


def test_scores_of_other_systems_are_a_row(folder):
    splits = held_out(folder)
    rng = np.random.default_rng(3)
    expected = {}
    for k, test in enumerate(splits, 1):
        scores = rng.normal(size=test.n_docs).round(3)
        (folder / f"lines{k}.txt").write_text("".join(f"{score}\n" for score in scores))
        rows = {}
        for qid, doc, score in zip(test.qid.tolist(), test.doc_ids.tolist(), scores.tolist(), strict=True):
            rows.setdefault(str(qid), {})[str(doc)] = score
        if k == 1:
            lost, other = list(rows)[:2]
            del rows[lost]
            rows[other].pop("d0")
            rows[other]["elsewhere"] = 9.0
        write_run(TrecTable.from_dict(rows), folder / f"all-{k}.run")
        table = evaluate(test, scores, measures=["AP"])
        expected |= dict(zip(table.query_ids.tolist(), table.values[:, 0].tolist(), strict=True))
    results = run_experiment(write_experiment(folder, SCORES))
    assert not results.failures
    neural, lines = (dict(zip(e.query_ids, e.values[:, 0], strict=True)) for e in results.evaluations("all")[1:])
    assert lines == pytest.approx(expected)
    same = [query for query in expected if query not in (lost, other)]
    assert [neural[query] for query in same] == pytest.approx([expected[query] for query in same], abs=1e-6)
    assert neural[lost] == 0.0
    note = results.runs().query("method == 'neural' and split == 1")["note"].item()
    assert "1 of 10 test queries are not in all-1.run and count as without results" in note
    assert "1 test documents of the other queries are not in all-1.run" in note
    assert "1 documents of all-1.run are not in the data" in note
    before = cells(results)
    (folder / "lines2.txt").write_text("0\n" * splits[1].n_docs)
    assert len(cells(run_experiment(folder / "exp.toml")) - before) == 1  # the content counts


def test_mistakes_about_scores(folder):
    file = write_experiment(folder, SCORES)
    _, problems = check_text(file.read_text(), file)
    assert [problem.line for problem in problems] == [20, 24]
    assert "no all-1.run in" in str(problems[0])
    both = SCORES.replace('scores = "lines{k}.txt"', 'scores = "all.txt"\nmethod = "svm-map"')
    _, problems = check_text(both, file)
    assert any("has scores and method; scores are used unchanged" in str(problem) for problem in problems)
    (folder / "few.txt").write_text("1\n2\n")
    one = SCORES.replace('"{data}-{k}.run"', '"few.txt"').replace('"lines{k}.txt"', '"S1.txt"')
    reasons = {
        failure["method"]: failure["reason"] for failure in run_experiment(write_experiment(folder, one)).failures
    }
    assert "2 scores for 80 test documents; expected one for each, or a TREC run" in reasons["neural"]
    assert "expected a TREC run, or one score per line" in reasons["lines"]


def test_the_manifest_has_no_surprises(folder):
    results = run_experiment(write_experiment(folder, EXPERIMENT), plugins=True)
    json.dumps(results.manifest)
    assert read_data(folder / "all.txt").n_queries == made(0, 30).n_queries
