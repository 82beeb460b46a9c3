"""`rankwright import` end to end: a model of each library is ranked with, evaluated, explained, fused and adapted."""

import json

import catboost
import lightgbm
import numpy as np
import pytest
import xgboost
from other_models import random_ensemble

from rankwright import RankingData, load_model
from rankwright.cli.main import main
from rankwright.io.letor import write_letor

QUERIES, PER_QUERY, FEATURES = 30, 8, 6


def domain(seed, n_queries=QUERIES):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_queries * PER_QUERY, FEATURES)), 4)
    labels = np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=len(X)), [0.5, 1.5])
    qid = np.repeat([f"{seed}-{query}" for query in range(n_queries)], PER_QUERY)
    return RankingData.from_arrays(X, labels, qid, doc_ids=[f"d{row}" for row in range(len(X))])


def lightgbm_model(data):
    settings = {"objective": "lambdarank", "num_leaves": 5, "verbose": -1, "num_threads": 1}
    made = lightgbm.train(settings, lightgbm.Dataset(data.X, data.labels, group=[PER_QUERY] * QUERIES), 8)
    made.save_model("model")
    return made.predict


def xgboost_model(data):
    made = xgboost.XGBRanker(n_estimators=8, max_depth=3, n_jobs=1).fit(
        data.X, data.labels, qid=np.repeat(np.arange(QUERIES), PER_QUERY)
    )
    made.get_booster().save_model("model.ubj")
    return made.predict


def catboost_model(data):
    made = catboost.CatBoost(
        {"loss_function": "YetiRank", "iterations": 8, "depth": 3, "verbose": 0, "allow_writing_files": False}
    )
    made.fit(catboost.Pool(data.X, data.labels, group_id=np.repeat(np.arange(QUERIES), PER_QUERY))).save_model(
        "model", format="json"
    )
    return made.predict


def ranklib_model(_):
    with open("model", "w") as file:
        file.write("## LambdaMART\n" + random_ensemble(3))


def svmrank_model(data):
    with open("model", "w") as file:
        lines = ["SVM-light Version V6.20", "0", "3", "1", "1", "1", "empty", "6", "9", "2", "0", "1 1:1 2:0.5 6:0.1 #"]
        file.write("\n".join(lines) + "\n")
    return lambda X: X @ np.array([1, 0.5, 0, 0, 0, np.float32(0.1)])


MODELS = {
    "lightgbm": lightgbm_model, "xgboost": xgboost_model, "catboost": catboost_model, "ranklib": ranklib_model,
    "svmrank": svmrank_model,
}  # fmt: skip


@pytest.mark.parametrize("library", MODELS)
def test_an_imported_model_does_all_that_others_do(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train, test = domain(1), domain(2)
    for name, data in {"train": train, "test": test}.items():
        write_letor(data, f"{name}.txt")
    predict = MODELS[library](train)
    file = next(path.name for path in tmp_path.glob("model*"))
    assert main(["import", file, "-o", "m.rkw", "--features", "6"]) == 0
    out, err = capsys.readouterr()
    assert (out, err.startswith("wrote m.rkw: ")) == ("", True)
    assert load_model("m.rkw").method == library
    if predict is not None:
        np.testing.assert_allclose(load_model("m.rkw").predict(test), predict(test.X), rtol=1e-5, atol=1e-6)
    for words in (
        "rank m.rkw test.txt -o test.run",
        "rank m.rkw test.txt -o test.scores",
        "evaluate test.txt test.scores -m nDCG@10",
        "explain m.rkw test.txt --query 2-3",
        "info m.rkw",
        "fuse test.run test.run -o fused.run",
        "adapt m.rkw train.txt --method interpolate -o adapted.rkw --cv 2",
        "rank adapted.rkw test.txt -o adapted.scores",
        "compare test.txt test.scores adapted.scores -m nDCG@10",
    ):
        assert main(words.split()) == 0, (words, capsys.readouterr().err)


def test_boosting_starts_from_an_imported_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = domain(1)
    write_letor(data, "train.txt")
    write_letor(domain(3), "valid.txt")
    lightgbm_model(data)
    assert main(["import", "model", "-o", "m.rkw"]) == 0
    words = "adapt m.rkw train.txt --valid valid.txt --method lambdamart --trees 3 --leaves 2 --rate 0.1 -o b.rkw"
    assert main(words.split()) == 0, capsys.readouterr().err
    assert np.isfinite(load_model("b.rkw").predict(data)).all()


def test_info_shows_where_a_model_is_from(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lightgbm_model(domain(1))
    assert main(["import", "model", "-o", "m.rkw", "--from", "lightgbm"]) == 0
    err = capsys.readouterr().err
    assert err == "wrote m.rkw: LightGBM, 8 trees with 40 leaves, 6 features\n"
    assert main(["info", "m.rkw", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["training"] == {"imported from": "LightGBM", "objective": "lambdarank", "trees": 8}
    assert facts["weights"][0]["feature"] == "f1"


def test_the_input_is_not_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lightgbm_model(domain(1))
    assert main(["import", "model", "-o", "model"]) == 2
    assert capsys.readouterr().err == "rankwright: model: is also an input; expected another name to write to\n"
    assert main(["import", "nothing", "-o", "m.rkw"]) == 2
    assert capsys.readouterr().err == "rankwright: nothing: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("library", ["lightgbm", "ranklib", "svmrank"])
def test_commands_that_cannot_read_a_model_say_what_can(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    MODELS[library](domain(1))
    assert main(["rank", "model", "test.txt"]) == 2
    assert "expected one written by `rankwright train` or `rankwright import`" in capsys.readouterr().err
    assert main(["info", "model"]) == 2
    assert capsys.readouterr().err.endswith("; models of other libraries: `rankwright import`\n")
