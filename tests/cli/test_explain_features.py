"""`rankwright explain` for a model and for one document: tables, JSON, plots, and that the figures add up."""

import json

import numpy as np
import pytest

from rankwright import LambdaMART, LinearModel, RankingData, SumModel, permutation_importance, save_model, write_data
from rankwright.cli.main import main

NAMES = ("bm25", "length", "links", "query")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(120, 4)), 2).astype(np.float32)
    qid = np.repeat(np.arange(12), 10)
    X[:, 3] = qid
    labels = np.digitize(X[:, 0] - X[:, 1], [0.5, 2.0])
    ids = [f"d{number}" for number in range(120)]
    data = RankingData.from_arrays(X, labels, qid, feature_names=NAMES, doc_ids=ids)
    write_data(data, folder / "f.rank")
    trees = LambdaMART(8, max_leaves=6, min_rows=3).fit(data)
    trees.save(folder / "trees.rkw")
    linear = LinearModel([2.0, -1.0, 0.0, 9.0], NAMES)
    save_model(linear, folder / "linear.rkw", method="svm", parameters={})
    save_model(SumModel((linear, trees.model_), np.array([0.5, 1.0])), folder / "sum.rkw", method="auto", parameters={})
    return folder, data


def told(capsys, *arguments):
    assert main(["explain", *map(str, arguments)]) == 0
    return capsys.readouterr()


@pytest.mark.parametrize("model", ["linear", "trees", "sum"])
def test_the_features_of_a_model(folder, capsys, model):
    from rankwright import load_model

    where, data = folder
    found = json.loads(told(capsys, where / f"{model}.rkw", where / "f.rank", "--json").out)
    assert (found["documents"], found["explained"], found["permutation"]) == (120, 120, None)
    loaded = load_model(where / f"{model}.rkw").model
    sizes = dict(zip(loaded.names, np.abs(loaded.predict_contributions(data)[:, :-1]).mean(axis=0), strict=True))
    rows = found["importance"]
    assert [row["feature"] for row in rows] == sorted(sizes, key=lambda name: -sizes[name])
    for row in rows:
        assert row["contribution"] == pytest.approx(sizes[row["feature"]])
        assert row["drop"] is None
    of = {row["feature"]: row for row in rows}
    assert of["query"]["contribution"] == pytest.approx(0.0, abs=1e-12)
    assert of["bm25"]["correlation"] > 0.5 > -0.5 > of["length"]["correlation"]
    out = told(capsys, where / f"{model}.rkw", where / "f.rank").out
    lines = out.splitlines()
    assert "on 120 documents of" in lines[0]
    head = {"linear": "weight", "trees": "gain", "sum": "importance"}[model]
    assert lines[2].split() == ["feature", head, "adds", "with", "value"]
    assert lines[3].split()[0] == rows[0]["feature"]
    assert "█" in lines[3]


def test_shuffled_features_of_a_model(folder, capsys):
    where, data = folder
    from rankwright import load_model

    loaded = load_model(where / "trees.rkw")
    expected = permutation_importance(loaded, data, "AP", repeats=3, random_state=4)
    arguments = (where / "trees.rkw", where / "f.rank", "--permute", 3, "-m", "AP", "--seed", 4)
    found = json.loads(told(capsys, *arguments, "--json", "--threads", 2).out)
    assert found["permutation"] == {"measure": "AP", "value": expected.value, "repeats": 3}
    assert [row["feature"] for row in found["importance"]] == [NAMES[at] for at in expected.order]
    drops = dict(zip(NAMES, zip(expected.drop, expected.error, strict=True), strict=True))
    assert all((row["drop"], row["error"]) == drops[row["feature"]] for row in found["importance"])
    out = told(capsys, *arguments, "-n", 1).out
    assert f"{expected.drop.max():+.4f} ± " in out
    assert "more (--json lists all)" in out
    assert out.endswith("shuffled 3 times within queries, ± standard error\n")


def test_a_sample_is_whole_queries_whatever_their_order(folder, capsys, monkeypatch):
    where, data = folder
    monkeypatch.setattr("rankwright.cli.explain._SAMPLE", 25)
    first = told(capsys, where / "trees.rkw", where / "f.rank", "--json").out
    assert json.loads(first)["explained"] == 30
    write_data(data.select(np.arange(12)[::-1]), where / "turned.rank")
    turned = told(capsys, where / "trees.rkw", where / "turned.rank", "--json").out
    sizes = [
        {row["feature"]: row["contribution"] for row in json.loads(text)["importance"]} for text in (first, turned)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)
    assert "on 30 of 120 documents of" in told(capsys, where / "trees.rkw", where / "f.rank").out


def test_info_names_the_parts_of_a_sum(folder, capsys):
    where, _ = folder
    assert main(["info", str(where / "sum.rkw")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "parts 0.5 × linear, 1 × trees" in lines
    assert main(["info", str(where / "trees.rkw")]) == 0
    assert "parts" not in capsys.readouterr().out


def test_nothing_to_explain(folder, capsys):
    where, _ = folder
    save_model(LinearModel([0.0, 0.0, 0.0, 1.0], NAMES), where / "zero.rkw", method="m", parameters={})
    assert "No feature changes the order of any query.\n" in told(capsys, where / "zero.rkw", where / "f.rank").out


@pytest.mark.parametrize("model", ["linear", "trees", "sum"])
def test_one_document(folder, capsys, model):
    from rankwright import load_model

    where, data = folder
    arguments = (where / f"{model}.rkw", where / "f.rank", "--query", 3)
    found = json.loads(told(capsys, *arguments, "--document", "d34", "--json").out)
    loaded = load_model(where / f"{model}.rkw").model
    scores = loaded.predict(data)
    assert found["a"]["document"] == "d34"
    assert found["b"] is None
    assert found["difference"] == pytest.approx(scores[34] - scores[30:40].mean())
    expected = dict(zip(NAMES, loaded.predict_contributions(data)[34], strict=False))
    assert {row["feature"]: row["contribution"] for row in found["contributions"]} == pytest.approx(expected)
    means = dict(zip(NAMES, data.X[30:40].astype(float).mean(axis=0), strict=True))
    assert {row["feature"]: row["mean"] for row in found["contributions"]} == pytest.approx(means)
    out = told(capsys, *arguments, "--document", "#2", "-n", 3).out
    assert "(A), #2 of 10, apart from the mean of the query" in out
    assert ("weight × (A − mean)" if model == "linear" else "adds") in out
    assert "score − mean score" in out


@pytest.mark.parametrize("form", ["png", "svg"])
def test_plots(folder, capsys, monkeypatch, form):
    where, _ = folder
    monkeypatch.chdir(where)
    start = b"\x89PNG" if form == "png" else b"<?xml"
    for name, more in {
        "model": ["--permute", "1"],
        "pair": ["--query", "3"],
        "document": ["--query", "3", "--document", "d34"],
    }.items():
        told = main(["explain", "trees.rkw", "f.rank", *more, "--plot", f"{name}.{form}"])
        assert (told, capsys.readouterr().err) == (0, f"wrote {name}.{form}\n")
        drawn = (where / f"{name}.{form}").read_bytes()
        assert drawn.startswith(start)
        if form == "svg":
            assert "bm25" in drawn.decode()
            main(["explain", "trees.rkw", "f.rank", *more, "--plot", "again.svg"])
            capsys.readouterr()
            assert (where / "again.svg").read_bytes() == drawn


def test_categories_and_missing_values_as_people_read_them(folder, capsys):
    pd = pytest.importorskip("pandas")
    from rankwright import TreeModel, from_frame, load_model
    from rankwright.boosting.forest import Forest, Tree

    where, _ = folder
    frame = pd.DataFrame(
        {"qid": 1, "label": [2, 1, 0], "lang": ["de", "en", None], "bm25": [1.0, 2.0, 3.0]},
        index=["x", "y", "z"],
    )
    data = from_frame(frame)
    write_data(data, where / "text.rank")
    sets = np.array([[1, 0, 0, 0]], np.uint64)  # the first category goes left
    tree = Tree(
        np.array([0, -1, -1], np.int32), np.zeros(3), np.zeros(3, bool), np.array([1, 0, 0], np.int32),
        np.array([0.0, 5.0, 1.0]), np.ones(3), np.ones(3), np.array([0, -1, -1], np.int32), sets,
    )  # fmt: skip
    model = TreeModel(2, ("lang", "bm25"), Forest.of([tree]), categories={0: ("de", "en")})
    save_model(model, where / "text.rkw", method="m", parameters={})
    assert load_model(where / "text.rkw").predict(data).tolist() == [5.0, 1.0, 1.0]
    arguments = (where / "text.rkw", where / "text.rank", "--query", 1)
    found = json.loads(told(capsys, *arguments, "--documents", "#1", "#2", "--json").out)
    assert found["contributions"] == [
        {"feature": "lang", "weight": None, "a": "de", "b": "en", "contribution": 4.0},
        {"feature": "bm25", "weight": None, "a": 1.0, "b": 2.0, "contribution": 0.0},
    ]
    shown = told(capsys, *arguments, "--documents", "#1", "#3").out
    assert next(line.split()[:4] for line in shown.splitlines() if "lang" in line) == ["lang", "de", "–", "+4.000"]
    found = json.loads(told(capsys, *arguments, "--document", "#1", "--json").out)
    assert [row["mean"] for row in found["contributions"]] == [None, 2.0]
    rows = json.loads(told(capsys, where / "text.rkw", where / "text.rank", "--json").out)["importance"]
    assert [(row["feature"], row["correlation"]) for row in rows] == [
        ("lang", None),
        ("bm25", None),
    ]  # no order; no contribution


def test_a_sum_that_scales_features_within_queries_sees_the_whole_query(folder, capsys):
    where, _ = folder
    model = SumModel((LinearModel([1.0, 2.0, 0, 0], NAMES, "minmax"), LinearModel([1.0], ("bm25",))), np.ones(2))
    save_model(model, where / "scaled.rkw", method="m", parameters={})
    found = json.loads(told(capsys, where / "scaled.rkw", where / "f.rank", "--query", 3, "--json").out)
    assert sum(row["contribution"] for row in found["contributions"]) == pytest.approx(found["difference"])
