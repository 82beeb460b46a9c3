"""Whole experiments: what they compute, going on when interrupted, failures, and that test queries never choose."""

import csv
import dataclasses
import hashlib
import json
import sys

import numpy as np
import pytest
from tests.experiments.experiment_files import TRIALS, made, write_all, write_experiment

import rankwright
from rankwright import QueryTrials, RankingData, StructuredSVM, evaluate, letor_folds, read_data
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError, InputWarning
from rankwright.experiments import Results, load_experiment, run_experiment, tuning
from rankwright.experiments import running as running_module
from rankwright.experiments.cells import run_cell
from rankwright.io.letor import write_letor
from rankwright.io.trec import write_qrels, write_run
from rankwright.models.saving import load_model
from rankwright.reports import write_report
from rankwright.training.train import Plan

TIMES = ("seconds_train", "seconds_tune", "cpu_tune")
FIXED = """
[experiment]
measures = ["AP"]
save_models = true
[[data]]
name = "fixed"
train = "train.txt"
valid = "vali.txt"
test = "test.txt"
[[method]]
method = "svm-map"
[[method]]
method = "best-feature"
[[method]]
method = "lambdamart"
parameters = { n_trees = 6, min_rows = 2 }
[method.grid]
max_leaves = [2, 3, 4]
"""


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    return tmp_path


def rows(results, name, without=()):
    with open(results.folder / f"{name}.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in without} for row in csv.DictReader(file)]


def same_results(one, other):
    for name in ("per_query", "runs", "paths", "rounds", "health", "queries"):
        assert rows(one, name, TIMES) == rows(other, name, TIMES)


def test_trials_by_hand(folder):
    results = run_experiment(write_experiment(folder))
    data = read_data(folder / "all.txt")
    expected = {}
    for number, split in enumerate(QueryTrials(3, train=10, valid=8, test=12, random_state=0).split_queries(data), 1):
        train, valid, test = split.apply(data)
        ranker = StructuredSVM("map", "auto", C_grid=[0.1, 1, 10], max_passes=20).fit(train, eval_set=valid)
        for method, scores in (("first", test.X[:, 0]), ("svm-map", ranker.predict(test))):
            found = evaluate(test, scores, measures=["AP", "nDCG@5"])
            for query, values in zip(found.query_ids.tolist(), found.values.tolist(), strict=True):
                for measure, value in zip(("AP", "nDCG@5"), values, strict=True):
                    expected["all", number, method, query, measure] = value
    frame = results.per_query()
    assert list(frame.columns) == ["data", "split", "method", "query", "measure", "value"]
    assert {tuple(row[:5]): row[5] for row in frame.itertuples(index=False)} == expected
    assert len(frame) == len(expected) == 3 * 2 * 12 * 2
    runs = results.runs()
    assert runs["n_train_queries"].tolist() == [10] * 6
    assert json.loads(runs["parameters"][1])["C"] in (0.1, 1, 10)
    assert len(results.paths()) == 3 * 3
    assert results.manifest["complete"]


def test_what_is_written(folder):
    path = write_experiment(folder)
    results = run_experiment(path, command="the command")
    assert (results.folder / "experiment.toml").read_text() == path.read_text()
    manifest = json.loads((results.folder / "manifest.json").read_text())
    assert manifest["versions"]["rankwright"] == rankwright.__version__
    assert (manifest["command"], manifest["seed"], manifest["baseline"]) == ("the command", 0, "first")
    (data,) = manifest["data"]
    assert (data["queries"], data["documents"], data["features"]) == (30, 240, 4)
    known = hashlib.sha256((folder / "all.txt").read_bytes()).hexdigest()
    assert data["files"]["1"]["sha256"] == known
    assert manifest["cells"] == {"total": 6, "done": 6, "failed": 0, "missing": 0}
    assert rows(results, "queries")[0].keys() == {"data", "query", "text", "kind", "relevant"}
    assert not list(results.folder.glob("**/*.part"))
    again = Results.open(results.folder)
    assert again.per_query().equals(results.per_query())


def test_without_pandas_there_are_columns(folder, monkeypatch):
    results = run_experiment(write_experiment(folder))
    frame = results.per_query()
    monkeypatch.setitem(sys.modules, "pandas", None)
    columns = results.per_query()
    assert isinstance(columns, dict)
    assert columns == {name: frame[name].tolist() for name in frame}


def test_the_number_of_jobs_does_not_matter(folder):
    path = write_experiment(folder, TRIALS.replace("trials = 3", "trials = 2"))
    one = run_experiment(path, output=folder / "one")
    two = run_experiment(path, n_jobs=2, output=folder / "two")
    assert two.manifest["cells"]["done"] == 4
    same_results(one, two)
    files = {path.name for path in (folder / "one" / "cells").iterdir()}
    assert files == {path.name for path in (folder / "two" / "cells").iterdir()}


def counting(monkeypatch, stop_after=None):
    """Count the cells that are computed, and press Ctrl-C after some."""
    computed = []

    def counted(cell):
        if stop_after is not None and len(computed) == stop_after:
            raise KeyboardInterrupt
        computed.append((cell.data, cell.split, cell.spec.name))
        return run_cell(cell)

    monkeypatch.setattr(running_module, "run_cell", counted)
    return computed


def test_going_on_after_an_interruption(folder, monkeypatch):
    path = write_experiment(folder)
    whole = run_experiment(path, output=folder / "whole")
    first = counting(monkeypatch, stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(path)
    partial = Results.open(folder / "exp-results")
    assert partial.manifest["cells"] == {"total": 6, "done": 4, "failed": 0, "missing": 2}
    assert not partial.manifest["complete"]
    assert len(partial.runs()) == 4
    assert "2 of 6 cells are missing" in partial.table()
    second = counting(monkeypatch)
    results = run_experiment(path)
    assert (len(first), len(second), len(set(first + second))) == (4, 2, 6)
    same_results(whole, results)
    assert [session["cells"] for session in results.manifest["sessions"]] == [4, 2]
    third = counting(monkeypatch)
    run_experiment(path)
    assert third == []


def test_only_what_has_changed_is_computed_again(folder, monkeypatch):
    path = write_experiment(folder)
    run_experiment(path)
    path.write_text(TRIALS.replace('"svm-map"', '"svm-map"\nname = "other name"'))
    computed = counting(monkeypatch)
    assert set(run_experiment(path).runs()["method"]) == {"first", "other name"}
    assert computed == []
    path.write_text(TRIALS.replace("[0.1, 1, 10]", "[0.1, 1]"))
    run_experiment(path)
    assert [name for _, _, name in computed] == ["svm-map"] * 3
    computed.clear()
    path.write_text(TRIALS.replace("[0.1, 1, 10]", "[0.1, 1]").replace('"AP", ', '"RR", ') + "# empty")
    path.write_text(path.read_text().replace("baseline =", 'convention = "trec"\nempty = 1\nbaseline ='))
    frame = run_experiment(path).per_query()
    assert set(frame["measure"]) == {"RR", "nDCG@5"}
    assert computed == []  # measures and conventions are computed from the scores that are kept
    write_letor(made(77, 30), folder / "all.txt")
    run_experiment(path)
    assert len(computed) == 6


def test_a_method_that_fails_in_one_cell(folder, monkeypatch):
    calls = []
    train = Plan.train

    def failing(self, *args):
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("the second\ntime")
        return train(self, *args)

    monkeypatch.setattr(tuning, "_load_code", lambda *_: None)
    monkeypatch.setattr(Plan, "train", failing)
    path = write_experiment(folder)
    results = run_experiment(path)
    (failure,) = results.failures
    assert (failure["data"], failure["split"], failure["method"]) == ("all", 2, "svm-map")
    assert failure["reason"] == "ValueError: the second time"
    assert "failing" in failure["traceback"]
    notes = {(row["split"], row["method"]): row["note"] for row in rows(results, "runs")}
    assert notes["2", "svm-map"] == "failed: ValueError: the second time"
    assert len(notes) == 6
    assert results.manifest["cells"] == {"total": 6, "done": 5, "failed": 1, "missing": 0}
    assert "1 of 6 cells are missing" in results.table()
    computed = counting(monkeypatch)
    again = run_experiment(path)
    assert computed == [("all", 2, "svm-map")]
    assert (again.failures, again.manifest["complete"]) == ([], True)


def replaced(data, seed):
    """The same queries with other features and labels."""
    other = made(seed, data.n_queries, int(data.sizes[0]))
    return dataclasses.replace(other, query_ids=data.query_ids)


def test_test_queries_cannot_influence_a_choice(folder):
    path = write_experiment(folder, FIXED)
    before = run_experiment(path, output=folder / "before")
    test = read_data(folder / "test.txt")
    write_letor(replaced(test, 99), folder / "test.txt")
    after = run_experiment(path, output=folder / "after")
    assert rows(before, "per_query") != rows(after, "per_query")
    names = [row["model"] for row in rows(before, "runs")]
    assert len(names) == 3
    for one, other in zip(rows(before, "runs"), rows(after, "runs"), strict=True):
        assert (folder / "before" / one["model"]).read_bytes() == (folder / "after" / other["model"]).read_bytes()
        assert {k: one[k] for k in one if k not in (*TIMES, "model")} == {
            k: other[k] for k in other if k not in (*TIMES, "model")
        }
    for name in ("paths", "rounds", "health"):
        assert rows(before, name) == rows(after, name)
    # The same with validation queries: they do choose, so this test would see a leak.
    write_letor(replaced(read_data(folder / "vali.txt"), 98), folder / "vali.txt")
    assert rows(run_experiment(path, output=folder / "other"), "paths") != rows(before, "paths")


def test_test_queries_of_a_trial_cannot_influence_a_choice(folder):
    path = write_experiment(folder, TRIALS.replace("trials = 3", "trials = 1"))
    before = run_experiment(path, output=folder / "before")
    data = read_data(folder / "all.txt")
    tested = set(before.per_query()["query"])
    rng = np.random.default_rng(5)
    labels = data.labels.copy()
    for q, query in enumerate(data.query_ids.tolist()):
        if str(query) in tested:
            block = slice(data.indptr[q], data.indptr[q + 1])
            labels[block] = rng.permutation(labels[block])
    assert not np.array_equal(labels, data.labels)
    write_letor(data.with_labels(labels), folder / "all.txt")
    after = run_experiment(path, output=folder / "after")
    assert rows(before, "runs", TIMES) == rows(after, "runs", TIMES)
    assert rows(before, "paths") == rows(after, "paths")
    assert rows(before, "per_query") != rows(after, "per_query")


def test_models_are_kept_and_give_the_same_values(folder):
    results = run_experiment(write_experiment(folder, FIXED))
    test = read_data(folder / "test.txt")
    means = results.per_query().groupby("method")["value"].mean()
    for row in rows(results, "runs"):
        model = load_model(results.folder / row["model"]).model
        scores = model.score(test.X, test.feature_names, test.indptr)
        assert evaluate(test, scores, measures=["AP"]).means["AP"] == pytest.approx(means[row["method"]], abs=1e-12)
    path = results.folder / rows(results, "runs")[0]["model"]
    path.unlink()
    run_experiment(folder / "exp.toml")
    assert path.is_file()


def test_the_parts_of_letor(folder):
    text = (
        '[experiment]\nmeasures = ["AP"]\n[[data]]\nname = "p"\nfolds = ["S1.txt", "S2.txt", "S3.txt"]\n'
        '[[method]]\nmethod = "svm-map"\n[method.grid]\nC = [1, 10]\n'
    )
    results = run_experiment(write_experiment(folder, text))
    expected = {}
    for number, fold in enumerate(letor_folds([read_data(folder / f"S{k}.txt") for k in (1, 2, 3)]), 1):
        train, valid, test = fold
        ranker = StructuredSVM("map", "auto", C_grid=[1, 10]).fit(train, eval_set=valid)
        expected[number] = evaluate(test, ranker.predict(test), measures=["AP"]).means["AP"]
    found = results.per_query().groupby("split")["value"].mean().to_dict()
    assert found == pytest.approx(expected, abs=1e-12)
    assert results.manifest["data"][0]["queries"] == 18


def test_parts_with_fewer_features_at_the_end(folder):
    (folder / "S2.txt").write_text("1 qid:z 1:1\n0 qid:z 1:0.5\n0 qid:y 1:1\n2 qid:y 1:0.5\n")
    text = '[[data]]\nname = "p"\nfolds = ["S1.txt", "S2.txt", "S3.txt"]\n[[method]]\nmethod = "svm-map"\n'
    results = run_experiment(write_experiment(folder, text))
    assert results.manifest["complete"]
    assert results.manifest["data"][0]["features"] == 4


def test_folds_and_shares(folder):
    text = TRIALS.replace('kind = "trials"\ntrials = 3\ntrain = 10\nvalid = 8\ntest = 12', 'kind = "folds"\nfolds = 3')
    frame = run_experiment(write_experiment(folder, text)).per_query()
    assert (frame.groupby("query")["split"].nunique() == 1).all()
    assert frame["query"].nunique() == 30
    text = text.replace('kind = "folds"\nfolds = 3', 'kind = "fixed"\ntrain = 0.4\nvalid = 0.2')
    results = run_experiment(write_experiment(folder, text), output=folder / "fixed")
    assert set(results.runs()["n_train_queries"]) == {12}
    assert results.per_query()["query"].nunique() == 12


def collection(folder):
    words = ["lift", "wing", "drag", "flow", "heat", "shock", "jet"]
    rng = np.random.default_rng(0)
    docs = [" ".join(rng.choice(words, 6)) for _ in range(40)]
    (folder / "c").mkdir()
    lines = [json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(docs)]
    (folder / "c" / "docs.jsonl").write_text("\n".join(lines))
    queries = [f"{words[n % 7]} {words[(n * 3 + 1) % 7]}" for n in range(9)]
    lines = [json.dumps({"id": f"q{n}", "text": text, "kind": "ab"[n % 2]}) for n, text in enumerate(queries)]
    (folder / "c" / "queries.jsonl").write_text("\n".join(lines))
    qrels = {
        f"q{n}": {f"d{d}": 1 + d % 2 for d, text in enumerate(docs) if text.split()[0] in query} | {"elsewhere": 1}
        for n, query in enumerate(queries)
    }
    write_qrels(TrecTable.from_dict(qrels), folder / "c" / "qrels.txt")
    return qrels


def test_a_collection_is_judged_by_all_its_judgements(folder):
    qrels = collection(folder)
    text = (
        '[experiment]\nmeasures = ["AP", "nDCG@5"]\n[[data]]\nname = "c"\ncollection = "c"\ndepth = 5\n'
        '[protocol]\nkind = "folds"\nfolds = 3\n[[method]]\nmethod = "feature:bm25[plain]"\n'
        '[[method]]\nmethod = "svm-map"\n'
    )
    results = run_experiment(write_experiment(folder, text))
    assert results.manifest["complete"], results.failures
    assert any("not in the collection: 9" in note for note in results.manifest["data"][0]["notes"])
    texts = {row["query"]: (row["text"], row["kind"]) for row in rows(results, "queries")}
    assert texts["q1"] == ("wing heat", "b")
    assert "gain rel" in results.manifest["definitions"]["c"][1]
    index = rankwright.Index.open(next((results.folder / "cache").glob("*/docs.index")))
    frame = results.per_query()
    for query, (text, _) in texts.items():
        data = rankwright.make_features(index, {query: text}, features=rankwright.feature_set("base"), depth=5).data
        run = {query: dict(zip(data.doc_ids.tolist(), data.X[:, 2].tolist(), strict=True))}
        expected = rankwright.evaluate_run({query: qrels[query]}, run, ["AP", "nDCG@5"]).means
        found = frame[(frame["query"] == query) & (frame["method"] == "feature:bm25[plain]")]
        assert dict(zip(found["measure"], found["value"], strict=True)) == pytest.approx(expected)
    assert data.feature_names[2] == "bm25[plain]"


def test_runs_of_several_systems(folder):
    rng = np.random.default_rng(0)
    qrels = {f"{q}": {f"d{d}": int(rng.integers(3)) for d in range(10)} for q in range(9)}
    write_qrels(TrecTable.from_dict(qrels), folder / "qrels.txt")
    for name, noise in (("good", 0.5), ("bad", 3.0)):
        run = {q: {d: label + noise * rng.normal() for d, label in of.items()} for q, of in qrels.items()}
        write_run(TrecTable.from_dict(run), folder / f"{name}.run")
    (folder / "topics.tsv").write_text("".join(f"{q}\ttopic {q}\n" for q in range(9)))
    text = (
        '[experiment]\nmeasures = ["nDCG@5"]\n[[data]]\nname = "r"\nruns = ["*.run"]\nqrels = "qrels.txt"\n'
        'queries = "topics.tsv"\n[protocol]\nkind = "folds"\nfolds = 3\n[[method]]\nname = "good"\n'
        'method = "feature:good:score"\n[[method]]\nmethod = "rank-svm"\n'
    )
    results = run_experiment(write_experiment(folder, text))
    assert results.manifest["complete"], results.failures
    found = results.per_query()
    expected = rankwright.evaluate_run(folder / "qrels.txt", folder / "good.run", ["nDCG@5"]).means["nDCG@5"]
    assert found[found["method"] == "good"]["value"].mean() == pytest.approx(expected)
    assert rows(results, "queries")[0]["text"].startswith("topic ")


def test_too_few_queries_for_the_protocol(folder):
    with pytest.raises(InputError, match=r"all has 30 queries: a trial needs 48 queries"):
        run_experiment(write_experiment(folder, TRIALS.replace("train = 10", "train = 28")))


def test_folders_that_are_not_ours(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="exists and contains no results of an experiment"):
        run_experiment(write_experiment(folder), output=folder / "mine")
    with pytest.raises(InputError, match="not a results folder"):
        Results.open(folder / "mine")
    with pytest.raises(InputError, match="n_jobs is 0"):
        run_experiment(load_experiment(folder / "exp.toml"), n_jobs=0)


def test_queries_that_are_both_trained_and_tested_on_are_told(folder):
    both = RankingData.concatenate([made(11, 2, first=500), read_data(folder / "train.txt").select([3])])
    write_letor(both, folder / "vali.txt")
    write_letor(read_data(folder / "train.txt"), folder / "test.txt")
    text = FIXED.partition("[[method]]")[0] + '[[method]]\nmethod = "feature:1"\n'
    with pytest.warns(InputWarning) as caught:
        results = run_experiment(write_experiment(folder, text))
    expected = [
        "14 of 14 test queries are also in the training data (first: q0): results on them are too good",
        "1 of 14 test queries is also in the validation data (q3): results on it are too good",
        "1 of 3 validation queries is also in the training data (q3): results on it are too good",
    ]
    assert [str(warning.message) for warning in caught] == [f"fixed: {line}" for line in expected]
    assert results.manifest["data"][0]["warnings"] == expected
    page = write_report(results.folder, folder / "report.html").read_text()
    assert [f'<p class="warning">fixed: {line}.</p>' in page for line in expected] == [True] * 3


def test_an_open_test_of_known_queries_is_told(folder):
    write_letor(read_data(folder / "all.txt").select([5, 6]), folder / "open.txt")
    text = TRIALS.replace('features = "all.txt"\n', 'features = "all.txt"\nopen_test = "open.txt"\n')
    with pytest.warns(InputWarning, match="all: 2 of 2 test queries are also in the training data"):
        run_experiment(write_experiment(folder, text.partition('[[method]]\nmethod = "svm-map"')[0]))
