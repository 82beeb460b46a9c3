"""Adaptation in experiments: against `adapt` by hand, backgrounds that are trained once, and fewer queries."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import sparse
from tests.experiments.experiment_files import (
    BACKGROUND,
    FIXED,
    HEAD,
    made,
    methods,
    write_all,
    write_experiment,
    write_rich,
)
from tests.experiments.test_experiment_runs import TIMES, counting, replaced, rows

from rankwright import LambdaMART, RankingData, adapt, evaluate, read_data
from rankwright.adaptation.ways import METHODS
from rankwright.errors import InputError
from rankwright.experiments import backgrounds, load_experiment, run_experiment
from rankwright.experiments.preparing import pieces_of, prepare, splits_of
from rankwright.io.folder import save_folder
from rankwright.io.letor import write_letor
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model, save_model
from rankwright.training.train import Plan

ALL = [*METHODS, "auto"]


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    write_rich(tmp_path)
    return tmp_path


def renamed(path, number):
    data = read_data(path)
    ids = np.repeat([f"background-{number}-{query}" for query in data.query_ids], data.sizes)
    return RankingData.from_arrays(data.X, data.labels, ids, doc_ids=data.doc_ids)


def values_of(results, method, measure):
    frame = results.per_query()
    found = frame[(frame["method"] == method) & (frame["measure"] == measure)]
    return dict(zip(found["query"], found["value"], strict=True))


def test_every_way_is_that_of_adapt(folder):
    results = run_experiment(write_experiment(folder, HEAD + FIXED + BACKGROUND + methods(*ALL)))
    assert results.failures == []
    rich = [renamed(folder / f"rich{number}.txt", number) for number in (1, 2, 3)]
    forest = LambdaMART(12, min_rows=2, max_leaves=4, patience=4, eval_measure="AP")
    forest.fit(RankingData.concatenate(rich[:2]), eval_set=rich[2])
    train, valid, test = (read_data(folder / f"{name}.txt") for name in ("train", "vali", "test"))
    runs = {row["method"]: row for row in rows(results, "runs")}
    for name in ALL:
        found = adapt(
            forest, train, valid, background_data=RankingData.concatenate(rich), method=name, measure="AP",
            leaves=3 if name == "lambdamart" else 10,
        )  # fmt: skip
        scores = found.model.predict(test)
        saved = load_model(results.folder / runs[name]["model"]).model
        assert np.array_equal(saved.predict(test), scores)
        for measure in ("AP", "nDCG@10"):
            expected = evaluate(test, scores, measures=[measure])
            assert list(values_of(results, name, measure).values()) == expected.values[:, 0].tolist()
        chosen = json.loads(runs[name]["parameters"])
        assert chosen == ({"method": found.chosen.name} if name == "auto" else {}) | found.chosen.facts
        assert float(runs[name]["validation"]) == found.chosen.value
        assert (found.reason in runs[name]["note"]) == (name == "auto")
    tried = [json.loads(row["parameters"]) for row in rows(results, "paths") if row["method"] == "auto"]
    assert [point["method"] for point in tried] + list(found.failures) == list(METHODS)
    (about,) = results.manifest["data"][0]["backgrounds"]
    assert (about["method"], about["queries"], about["documents"]) == ("lambdamart", 30, 240)
    assert about["seconds"] > 0
    assert list(about["files"]) == ["features 1", "features 2", "valid 1"]
    assert len(about["hash"]) == 64


def test_further_parameters_of_boosting(folder):
    further = 'boosting_settings = { gain = "squared", nearness = 0, background_spread = "none" }'
    text = methods("lambdamart").replace("leaves = 3", f"leaves = 3, {further}")
    results = run_experiment(write_experiment(folder, HEAD + FIXED + BACKGROUND + text))
    background = load_model(next((folder / "exp-results" / "cache").glob("background-*/background.rkw")))
    train, valid, test = (read_data(folder / f"{name}.txt") for name in ("train", "vali", "test"))
    paper = {"gain": "squared", "nearness": 0, "background_spread": None}
    found = adapt(background, train, valid, method="lambdamart", measure="AP", leaves=3, boosting_settings=paper)
    (run,) = rows(results, "runs")
    saved = load_model(results.folder / run["model"]).model
    assert np.array_equal(saved.predict(test), found.model.predict(test))


def test_the_number_of_jobs_does_not_matter(folder):
    path = write_experiment(folder, HEAD + FIXED + BACKGROUND + methods("background", "interpolate"))
    one, two = (run_experiment(path, n_jobs=jobs, output=folder / f"{jobs}") for jobs in (1, 2))
    assert rows(one, "per_query") == rows(two, "per_query")
    assert rows(one, "runs", TIMES) == rows(two, "runs", TIMES)


def test_test_queries_cannot_influence_an_adaptation(folder):
    later = FIXED.replace("fixed", "later") + 'open_test = "later.txt"\n' + BACKGROUND
    write_letor(made(7, 9), folder / "later.txt")
    path = write_experiment(folder, HEAD + FIXED + BACKGROUND + later + methods(*ALL))
    before = run_experiment(path, output=folder / "before")
    assert before.failures == []
    for name in ("test", "later"):
        write_letor(replaced(read_data(folder / f"{name}.txt"), 99), folder / f"{name}.txt")
    after = run_experiment(path, output=folder / "after")
    assert rows(before, "per_query") != rows(after, "per_query")
    assert rows(before, "paths") == rows(after, "paths")
    runs = list(zip(rows(before, "runs"), rows(after, "runs"), strict=True))
    assert len(runs) == 2 * len(ALL)
    for one, other in runs:
        assert (folder / "before" / one["model"]).read_bytes() == (folder / "after" / other["model"]).read_bytes()
        assert {k: one[k] for k in one if k not in (*TIMES, "model")} == {
            k: other[k] for k in other if k not in (*TIMES, "model")
        }
    # Validation queries do choose, so this test would see a leak.
    write_letor(replaced(read_data(folder / "vali.txt"), 98), folder / "vali.txt")
    path = write_experiment(folder, HEAD + FIXED + BACKGROUND + methods("interpolate"))
    other = run_experiment(path, output=folder / "other")
    assert rows(other, "runs")[0]["parameters"] not in [row["parameters"] for row in rows(before, "runs")]


def counting_trainings(monkeypatch):
    trained = []
    original = backgrounds.run_method

    def counted(spec, *args, **options):
        trained.append(spec.method)
        return original(spec, *args, **options)

    monkeypatch.setattr(backgrounds, "run_method", counted)
    return trained


def test_a_background_is_trained_once_and_counts_only_for_what_adapts_it(folder, monkeypatch):
    trained, computed = counting_trainings(monkeypatch), counting(monkeypatch)
    feature = '[[method]]\nmethod = "feature:1"\n'
    splits = '\n[[data]]\nname = "parts"\nfolds = ["S1.txt", "S2.txt", "S3.txt"]\n'
    text = HEAD + splits + BACKGROUND + FIXED + BACKGROUND + feature
    path = write_experiment(folder, text)
    assert "backgrounds" not in run_experiment(path).manifest["data"][0]
    assert trained == []  # nobody uses it
    path.write_text(text + methods("background", "interpolate"))
    first = run_experiment(path)
    before = values_of(first, "background", "AP")
    assert trained == ["lambdamart"]  # of two data sets with the same background, and of four splits
    assert (len(computed), first.manifest["complete"]) == (4 + 8, True)
    computed.clear()
    run_experiment(path)
    assert (len(trained), computed) == (1, [])
    path.write_text((text + methods("background", "interpolate")).replace("max_leaves = 4", "max_leaves = 2"))
    second = run_experiment(path)
    assert len(trained) == 2
    assert {name for _, _, name in computed} == {"background", "interpolate"}
    assert before != values_of(second, "background", "AP")
    write_letor(made(77, 10), folder / "rich1.txt")
    computed.clear()
    run_experiment(path)
    assert (len(trained), len(computed)) == (3, 8)


def test_a_model_file_as_background(folder):
    model = LinearModel(np.array([0.0, 1.0, 0.0, 0.0]))
    save_model(model, folder / "b.rkw", method="linear", parameters={})
    text = HEAD + FIXED + '[data.background]\nmodel = "b.rkw"\n' + methods("background", "interpolate", "auto")
    results = run_experiment(write_experiment(folder, text))
    test = read_data(folder / "test.txt")
    expected = evaluate(test, test.X[:, 1].astype(float), measures=["AP"]).values[:, 0]
    assert list(values_of(results, "background", "AP").values()) == expected.tolist()
    tried = [json.loads(row["parameters"])["method"] for row in rows(results, "paths") if row["method"] == "auto"]
    assert "augment" not in tried
    assert results.manifest["data"][0]["backgrounds"][0]["queries"] == 0
    text = text.replace('"b.rkw"\n', '"b.rkw"\nfeatures = "rich1.txt"\n') + methods("augment")
    results = run_experiment(write_experiment(folder, text))
    assert results.failures == []
    assert results.manifest["data"][0]["backgrounds"][0]["queries"] == 10


def narrower(path, keep):
    data = read_data(path)
    write_letor(data.with_features(data.X[:, :keep]), path)


def test_features_that_are_left_out_at_the_end(folder):
    text = HEAD + FIXED + BACKGROUND + methods("background", "interpolate-3", "lambdamart")
    whole = run_experiment(write_experiment(folder, text), output=folder / "whole")
    for name in ("rich1", "rich3"):
        narrower(folder / f"{name}.txt", 3)
    with pytest.raises(InputError, match=r"its data has 3 features, but fixed has 4; .* use missing_as_zero = true"):
        run_experiment(write_experiment(folder, text), output=folder / "narrow")
    text = text.replace('name = "fixed"\n', 'name = "fixed"\nmissing_as_zero = true\n')
    results = run_experiment(write_experiment(folder, text), output=folder / "narrow")
    assert (whole.failures, results.failures) == ([], [])
    for name in ("rich2", "train", "vali", "test"):  # now the new domain has fewer than the background
        narrower(folder / f"{name}.txt", 4 if name == "rich2" else 2)
    results = run_experiment(write_experiment(folder, text), output=folder / "few")
    assert results.failures == []
    strict = text.replace("missing_as_zero = true\n", "")
    with pytest.raises(InputError, match=r"the data has 2 features, but the model has 4; .* missing_as_zero = true"):
        run_experiment(write_experiment(folder, strict), output=folder / "strict")
    assert results.manifest["data"][0]["features"] == 2
    save_model(LinearModel(np.array([1.0])), folder / "b.rkw", method="linear", parameters={})
    text = HEAD + FIXED + '[data.background]\nmodel = "b.rkw"\n' + methods("background")
    with pytest.raises(InputError, match=r"the background of fixed: the data has 2 features, but the model has 1"):
        run_experiment(write_experiment(folder, text), output=folder / "one")


def test_sparse_and_dense_go_together(folder):
    data = made(60, 10)
    save_folder(data.with_features(sparse.csr_array(np.pad(data.X, ((0, 0), (0, 3))))), folder / "rich.rank")
    text = HEAD + FIXED + BACKGROUND.replace("rich1.txt", "rich.rank") + methods("interpolate-3", "lambdamart")
    text = text.replace('name = "fixed"\n', 'name = "fixed"\nmissing_as_zero = true\n')
    assert run_experiment(write_experiment(folder, text)).failures == []


TRIALS = """
[[data]]
name = "all"
features = "all.txt"
train_queries = 5
valid_queries = 4
[protocol]
kind = "trials"
trials = 3
train = 12
valid = 8
"""


def test_fewer_queries_are_the_same_for_every_method(folder):
    data = read_data(folder / "all.txt")
    labels = data.labels.copy()
    flat = range(0, data.n_queries, 3)  # queries whose documents have one label teach nothing
    for q in flat:
        labels[data.indptr[q] : data.indptr[q + 1]] = q % 2
    write_letor(data.with_labels(labels), folder / "all.txt")
    text = HEAD + TRIALS.replace("[protocol]", BACKGROUND + "[protocol]") + methods("in-domain", "auto")
    path = write_experiment(folder, text)
    experiment = load_experiment(path)
    prepared = prepare(experiment.data[0], folder / "cache")
    splits = splits_of(prepared, experiment.protocol, 0)
    source = dataclasses.replace(prepared.source, train_queries=None, valid_queries=None)
    every = splits_of(dataclasses.replace(prepared, source=source), experiment.protocol, 0)
    for split, before in zip(splits, every, strict=True):
        for role, count in (("train", 5), ("valid", 4)):
            ((part, some),), ((_, before_some),) = getattr(split, role), getattr(before, role)
            assert (part, len(some), some) == (0, count, sorted(set(some)))
            assert set(some) <= set(before_some) - set(flat)
        assert split.test == before.test
    assert splits != splits_of(prepared, experiment.protocol, 1)
    results = run_experiment(path)
    assert set(results.runs()["n_train_queries"]) == {5}
    about = results.manifest["data"][0]
    assert (about["train_queries"], about["valid_queries"], about["queries"]) == (5, 4, 30)
    path.write_text(text.replace("train_queries = 5", "train_queries = 12"))
    with pytest.raises(InputError, match=r"all, split 1: train_queries is 12; only \d+ queries have"):
        run_experiment(path)


def test_test_queries_of_a_trial_influence_neither_choices_nor_draws(folder):
    text = HEAD + TRIALS.replace("trials = 3", "trials = 1").replace("[protocol]", BACKGROUND + "[protocol]")
    path = write_experiment(folder, text + methods("interpolate-3", "lambdamart"))
    before = run_experiment(path, output=folder / "before")
    data = read_data(folder / "all.txt")
    tested = np.isin(data.query_ids.astype(str), before.per_query()["query"].unique())
    assert tested.sum() == 10
    labels = np.where(tested[data.query_of_row()], 2 - data.labels, data.labels)
    write_letor(data.with_labels(labels), folder / "all.txt")
    after = run_experiment(path, output=folder / "after")
    assert rows(before, "per_query") != rows(after, "per_query")
    for one, other in zip(rows(before, "runs"), rows(after, "runs"), strict=True):
        assert (folder / "before" / one["model"]).read_bytes() == (folder / "after" / other["model"]).read_bytes()
        assert one["parameters"] == other["parameters"]


def test_fewer_queries_of_parts_are_drawn_from_all_of_them(folder):
    text = '[[data]]\nname = "p"\nfolds = ["S1.txt", "S2.txt", "S3.txt", "train.txt"]\ntrain_queries = 6\n'
    source = load_experiment(write_experiment(folder, text + '[[method]]\nmethod = "svm-map"\n')).data[0]
    prepared = prepare(source, folder / "cache")
    split = splits_of(prepared, None, 3)[0]
    both = RankingData.concatenate([read_data(folder / f"{name}.txt") for name in ("S1", "S2")])
    useful = [q for q in range(12) if len(set(both.labels[both.indptr[q] : both.indptr[q + 1]])) > 1]
    drawn = sorted(np.random.default_rng(3).permutation(len(useful))[:6])
    expected = [both.query_ids[useful[at]] for at in drawn]
    assert pieces_of(prepared.parts, split.train).query_ids.tolist() == expected
    assert {part for part, _ in split.train} == {0, 1}


def test_an_open_test_is_that_of_every_split(folder):
    write_letor(made(7, 9), folder / "later1.txt")
    write_letor(made(8, 4, first=500), folder / "later2.txt")
    closed = TRIALS.replace("valid = 8", "valid = 8\ntest = 10")
    later = closed.replace('"all"', '"later"').replace("train_q", 'open_test = ["later1.txt", "later2.txt"]\ntrain_q')
    entries = closed.partition("[protocol]")[0] + later
    svm = '[[method]]\nmethod = "svm-map"\nparameters = { C = 1.0 }\n'
    results = run_experiment(write_experiment(folder, HEAD + entries + svm))
    runs = rows(results, "runs")
    assert [row["data"] for row in runs] == ["all"] * 3 + ["later"] * 3
    test = RankingData.concatenate([read_data(folder / f"later{number}.txt") for number in (1, 2)])
    frame = results.per_query()
    for one, other in zip(runs[:3], runs[3:], strict=True):
        bytes_of = [(results.folder / row["model"]).read_bytes() for row in (one, other)]
        assert bytes_of[0] == bytes_of[1]  # the same training queries, and nothing else
        scores = load_model(results.folder / other["model"]).predict(test)
        expected = evaluate(test, scores, measures=["AP"]).values[:, 0]
        at = (frame["data"] == "later") & (frame["split"] == int(other["split"])) & (frame["measure"] == "AP")
        assert frame[at]["query"].tolist() == test.query_ids.tolist()
        assert frame[at]["value"].tolist() == expected.tolist()
    about = results.manifest["data"][1]
    assert about["notes"] == ["open test: 13 queries, 104 documents"]
    assert about["queries"] == 30


def test_with_an_open_test_all_queries_may_be_used(folder):
    write_letor(made(7, 9), folder / "later.txt")
    svm = '[[method]]\nmethod = "feature:1"\n'
    for data, protocol in (
        ('features = "all.txt"', "[protocol]\nkind = 'fixed'\ntrain = 0.6\nvalid = 0.4\n"),
        ('train = "train.txt"\nvalid = "vali.txt"', ""),
    ):
        text = f"[[data]]\nname = 'd'\n{data}\nopen_test = 'later.txt'\n{protocol}{svm}"
        source = load_experiment(write_experiment(folder, text))
        (split,) = splits_of(prepared := prepare(source.data[0], folder / "cache"), source.protocol, 0)
        train, valid, test = (pieces_of(prepared.parts, pieces) for pieces in (split.train, split.valid, split.test))
        assert (train.n_queries, valid.n_queries, test.n_queries) == ((18, 12, 9) if protocol else (14, 8, 9))
        assert not set(train.query_ids) & set(valid.query_ids)
        assert run_experiment(folder / "exp.toml").per_query()["query"].nunique() == 9


def test_an_open_test_of_runs_is_judged_by_its_file(folder):
    rng = np.random.default_rng(0)
    (folder / "qrels.txt").write_text("".join(f"{q} 0 d{d} {d % 2}\n" for q in range(6) for d in range(6)))
    lines = [f"{q} Q0 d{d} {d + 1} {rng.random():.4f} a\n" for q in range(6) for d in range(6)]
    (folder / "a.run").write_text("".join(lines))
    (folder / "later.txt").write_text("".join(f"{d % 2} qid:{q} 1:{d}\n" for q in range(3) for d in range(4)))
    text = (
        '[experiment]\nmeasures = ["AP"]\n[[data]]\nname = "r"\nruns = "a.run"\nqrels = "qrels.txt"\n'
        'open_test = "later.txt"\n[protocol]\nkind = "fixed"\n[[method]]\nmethod = "feature:1"\n'
    )
    results = run_experiment(write_experiment(folder, text))
    assert results.failures == []
    assert results.per_query()["value"].tolist() == pytest.approx([5 / 6] * 3)  # d3, d2, d1, d0: 1/2 (1 + 2/3)


def test_an_interrupted_adaptation_is_no_result(folder, monkeypatch):
    train, checks = Plan.train, []

    def press(check):
        checks.append(check)
        if len(checks) > 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(backgrounds, "_load_code", lambda *_: None)
    monkeypatch.setattr(Plan, "train", lambda self, *data, **_: train(self, *data, callback=press))
    text = HEAD + FIXED + "[data.background]\nmodel = 'b.rkw'\n" + methods("in-domain")
    save_model(LinearModel(np.ones(4)), folder / "b.rkw", method="linear", parameters={})
    with pytest.raises(KeyboardInterrupt):
        run_experiment(write_experiment(folder, text))


def test_what_cannot_be_adapted_is_told(folder):
    write_letor(made(3, 1, 2), folder / "train.txt")
    text = HEAD + FIXED + BACKGROUND + methods("augment", "auto")
    results = run_experiment(write_experiment(folder, text))
    (failure,) = results.failures
    assert failure["reason"].startswith("the method augment cannot be used here: ")
    assert "augment could not be used: " in next(
        row["note"] for row in rows(results, "runs") if row["method"] == "auto"
    )
