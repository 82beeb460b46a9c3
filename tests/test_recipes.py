"""The recipes of ARCHITECTURE.md, carried out: one place is changed, and everything that should follow does.

A measure, a retrieval function and an option of training are added in tests of their own (`RECIPES`).
"""

import dataclasses
from pathlib import Path

import numpy as np
import pandas
import pytest

import rankwright
from rankwright import ClickLog, LambdaMART, LinearModel, RankingData, click_model, export_model, from_frame, read_data
from rankwright.boosting import tree_rankers
from rankwright.cli.main import main
from rankwright.clicks.models import MODELS
from rankwright.exporting.targets import TARGETS
from rankwright.io.detect import FORMATS
from rankwright.io.roles import ROLES
from rankwright.reports import page, sentences
from rankwright.training.methods import METHODS, Method

TESTS = Path(__file__).parent
RECIPES = {
    "a measure": "measures/test_measures.py",
    "a retrieval function": "text/test_a_new_function.py",
    "an option of training": "training/test_declared_parameters.py",
}
TABLE = {"qid": [1, 1, 2, 2], "stars": [1, 0, 0, 1], "f": [0.5, 0.25, 0.5, 0.75]}


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


@pytest.mark.parametrize("change", RECIPES)
def test_the_other_recipes_have_their_tests(change):
    assert (TESTS / RECIPES[change]).is_file()


def test_a_name_of_a_column(tmp_path, monkeypatch, capsys):
    file = tmp_path / "table.csv"
    frame = pandas.DataFrame(TABLE)
    frame.to_csv(file, index=False)
    code, shown = run(capsys, "train", file, "--method", "rank-svm", "-o", tmp_path / "m.rkw")
    assert code == 2
    assert "no column for label" in shown.err
    monkeypatch.setitem(ROLES, "label", (*ROLES["label"], "stars"))
    for data in (read_data(file), from_frame(frame)):
        assert data.labels.tolist() == TABLE["stars"]
        assert data.feature_names == ("f",)
    assert run(capsys, "train", file, "--method", "rank-svm", "-o", tmp_path / "m.rkw")[0] == 0


def test_the_default_number_of_trees():
    package = Path(rankwright.__file__).parent
    declared = [path for path in package.rglob("*.py") if "n_trees: int = " in path.read_text()]
    assert declared == [Path(tree_rankers.__file__)]
    defaults = {field.name: field.default for field in dataclasses.fields(tree_rankers.TreeRanker)}
    assert LambdaMART().n_trees == METHODS["lambdamart"].make().n_trees == defaults["n_trees"]


def test_a_method_of_train(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(METHODS, "toy", Method("toy", "RankingSVM", {"query_weights": True}))
    data = RankingData.from_arrays(np.eye(6), [1, 0, 0, 2, 1, 0], group=[3, 3])
    trained = rankwright.train("toy", data, settings={"C": 1.0})
    assert trained.ranker.query_weights is True
    rankwright.write_letor(data, tmp_path / "train.txt")
    code, shown = run(capsys, "train", tmp_path / "train.txt", "--method", "toy", "-o", tmp_path / "m.rkw")
    assert code == 0, shown.err


def test_a_click_model(monkeypatch):
    def toy(log, min_impressions, given, max_steps):
        return dataclasses.replace(MODELS["coec"](log, min_impressions), model="toy")

    log = ClickLog.from_columns(["q"] * 2, ["a", "b"], [1, 1], [30, 10], count=[100, 100])
    monkeypatch.setitem(MODELS, "toy", toy)
    assert click_model(log, "toy").model == "toy"
    with pytest.raises(rankwright.InputError, match="sdbn, dbn or toy"):
        click_model(log, "toys")


def test_a_format(monkeypatch, tmp_path, capsys):
    (tmp_path / "d.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    monkeypatch.setitem(FORMATS, "letor", dataclasses.replace(FORMATS["letor"], title="toy lines"))
    code, shown = run(capsys, "info", tmp_path / "d.txt")
    assert code == 0
    assert "toy lines" in shown.out


def test_an_export_target(monkeypatch, tmp_path):
    monkeypatch.setitem(TARGETS, "toy", dataclasses.replace(TARGETS["python"], name="toy"))
    exported = export_model(LinearModel([1.0, -2.0]), "toy", tmp_path / "out")
    assert exported.files[0] == "model.py"
    with pytest.raises(rankwright.InputError, match="sql, toy"):
        export_model(LinearModel([1.0]), "toys", tmp_path / "other")


def test_the_verdict_of_a_report():
    assert page.opening_verdict is sentences.opening_verdict
