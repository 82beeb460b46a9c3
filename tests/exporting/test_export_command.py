"""`rankwright export` end to end: files, what is said, and one clear line for what cannot be."""

import json

import numpy as np
import pytest
from made_models import NAMES, random_trees

from rankwright import LinearModel, save_folder, save_model
from rankwright.cli.main import main
from rankwright.data.dataset import RankingData
from rankwright.exporting.targets import TARGETS
from rankwright.io.letor import write_letor

TREES = random_trees(1, names=None, thresholds=np.random.default_rng(0).lognormal(size=100))


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder with a linear model, trees and data."""
    monkeypatch.chdir(tmp_path)
    save_model(LinearModel(np.arange(1.0, 7.0), NAMES), "linear.rkw", method="svm-map", parameters={})
    save_model(TREES, "trees.rkw", method="lambdamart", parameters={})
    rng = np.random.default_rng(1)
    data = RankingData.from_arrays(rng.lognormal(size=(60, 6)), np.zeros(60), np.repeat(np.arange(6), 10))
    write_letor(data, "test.txt")
    return tmp_path


def run(*arguments):
    return main(["export", *arguments])


def test_a_linear_model_for_opensearch(models, capsys):
    assert run("linear.rkw", "--to", "opensearch", "-o", "shop", "--name", "shop-1") == 0
    said = capsys.readouterr().err
    assert "verified on 1,000 rows made from the model: 0 off their path" in said
    others = "index.json, featureset.json, log.json, search.json, features.txt"
    assert said.endswith(f"wrote shop: model.json, golden.json, {others}, export.json\n")
    body = json.loads((models / "shop" / "model.json").read_text())
    weights = dict(zip(NAMES, map(float, range(1, 7)), strict=True))
    assert body == {"model": {"name": "shop-1", "model": {"type": "model/linear", "definition": weights}}}
    search = json.loads((models / "shop" / "search.json").read_text())
    assert search["rescore"]["query"]["rescore_query"]["sltr"]["model"] == "shop-1"


@pytest.mark.parametrize("target", [name for name in TARGETS if name not in ("sql",)])
def test_trees_for_every_target_on_given_rows(target, models, capsys):
    arguments = ("trees.rkw", "--to", target, "-o", "out", "--verify", "test.txt", "--missing-as-zero")
    assert run(*arguments) == 0
    said = capsys.readouterr().err
    assert "verified on 60 rows of test.txt: 0 off their path" in said
    facts = json.loads((models / "out" / "export.json").read_text())
    assert facts["target"] == target
    assert facts["verified_on_data"]["rows"] == 60
    assert {file.name for file in (models / "out").iterdir()} == {*facts["files"], "export.json"}
    assert run(*arguments) == 0  # an export takes the place of an older one


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("linear.rkw", "--to", "lightgbm", "-o", "out"),
            "linear.rkw: lightgbm cannot hold this model: it has linear weights, which trees cannot represent exactly; "
            "these can: opensearch, solr, vespa, ranklib, onnx, python, sql",
        ),
        (("nothing.rkw", "--to", "solr", "-o", "out"), "nothing.rkw: cannot be read: No such file or directory"),
        (
            ("trees.rkw", "--to", "solr", "-o", "no/out"),
            "no/out: cannot be written: the folder no does not exist; make it first",
        ),
        (
            ("trees.rkw", "--to", "solr", "-o", "out", "--form", "raw"),
            "trees.rkw: the target solr has no form 'raw'; expected auto, as it has one form only",
        ),
        (
            ("trees.rkw", "--to", "solr", "-o", "out", "--group", "x"),
            "--group is for the data of --verify; expected --verify DATA with it",
        ),
        (
            ("linear.rkw", "--to", "solr", "-o", "out", "--verify", "empty.txt"),
            "empty.txt: is empty; expected LETOR lines (label qid:1 1:0.5 ...), TREC qrels (4 columns) or runs (6 "
            "columns), one score per line, CSV with a header line, Parquet, or a Rankwright data folder",
        ),
    ],
)
def test_one_line_for_what_cannot_be(arguments, line, models, capsys):
    (models / "empty.txt").write_text("")
    before = sorted(models.iterdir())
    assert run(*arguments) == 2
    assert capsys.readouterr().err == f"rankwright: {line}\n"
    assert sorted(models.iterdir()) == before


def test_data_that_lacks_features(models, capsys):
    (models / "narrow.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    assert run("trees.rkw", "--to", "solr", "-o", "out", "--verify", "narrow.txt") == 2
    said = capsys.readouterr().err
    assert said.startswith("rankwright: narrow.txt: the data has 1 feature, but the model has 6; ")
    assert said.endswith("use --missing-as-zero\n")
    assert not (models / "out").exists()
    assert run("trees.rkw", "--to", "solr", "-o", "out", "--verify", "narrow.txt", "--missing-as-zero") == 0


def test_features_that_rounding_moves_are_told(models, capsys):
    thresholds = np.unique(TREES.forest.threshold[TREES.forest.feature >= 0])
    X = np.nextafter(np.random.default_rng(2).choice(thresholds, size=(40, 6)), 1e9)
    data = RankingData.from_arrays(X, np.zeros(40), np.zeros(40))
    np.testing.assert_array_equal(data.X, X)
    save_folder(data, "close")
    assert run("trees.rkw", "--to", "opensearch", "-o", "out", "--verify", "close") == 0
    assert "features that the target's number type rounds, which moves" in capsys.readouterr().err
