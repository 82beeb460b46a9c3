"""The health of training in an experiment: what the files say is what the weights give, by hand."""

import itertools
import json
import math

import numpy as np
import pytest
from tests.experiments.experiment_files import made, write_all, write_experiment

from rankwright import RankingSVM, StructuredSVM, read_data
from rankwright.experiments import run_experiment
from rankwright.io.letor import write_letor
from rankwright.models.saving import load_model
from rankwright.reports import write_report

GRID = [0.01, 0.1, 1.0, 10.0]
EXPERIMENT = """
[experiment]
measures = ["AP"]
baseline = "svm-map"
save_models = true
[[data]]
name = "fixed"
train = "train.txt"
{valid}
test = "test.txt"
[[method]]
method = "svm-map"
{path}
[[method]]
name = "pairs"
method = "rank-svm"
parameters = {{ C = 0.02 }}
[[method]]
name = "by lambda"
method = "rank-svm"
parameters = {{ lam = 200 }}
[[method]]
name = "binned"
method = "svm-map"
parameters = {{ bins = 3, C = 0.5, standardize = false }}
[[method]]
method = "svm-combo"
parameters = {{ losses = ["map", "auc"] }}
{path}
[[method]]
method = "lambdamart"
parameters = {{ n_trees = 2, min_rows = 2 }}
[[method]]
method = "svm-acc"
"""


def pair_hinge(scores, labels):
    """Σ [1 − (s_i − s_j)]₊ over pairs of different labels."""
    pairs = itertools.permutations(range(len(labels)), 2)
    return sum(max(0.0, 1 - scores[i] + scores[j]) for i, j in pairs if labels[i] > labels[j])


def map_hinge(scores, labels):
    """The largest loss − margin over all orders of the documents."""
    good = labels >= 1
    weight = 1.0 / (good.sum() * (~good).sum())
    best = -math.inf
    for order in itertools.permutations(range(len(labels))):
        rel = good[list(order)]
        loss = 1 - np.mean([rel[: at + 1].mean() for at in np.flatnonzero(rel)])
        wrong = [(i, j) for at, j in enumerate(order) for i in order[at:] if good[i] and not good[j]]
        best = max(best, loss - 2 * weight * sum(scores[i] - scores[j] for i, j in wrong))
    return best


HINGES = {"map": map_hinge, "pairs": pair_hinge}


def orderable(data):
    """The spans of the queries with both kinds of documents."""
    return [slice(a, b) for a, b in itertools.pairwise(data.indptr) if len(set(data.labels[a:b] >= 1)) > 1]


def by_hand(hinge, data, coef, C):
    """Norm, slack, slack ratio, objective ratio and objective of some weights, query by query."""
    spans = orderable(data)
    rows = np.concatenate([np.arange(len(data.labels))[span] for span in spans])
    w = coef * data.X[rows].astype(float).std(axis=0)
    scores = data.X.astype(float) @ coef
    slack = np.mean([hinge(scores[span], data.labels[span]) for span in spans])
    at_zero = np.mean([hinge(0 * scores[span], data.labels[span]) for span in spans])
    objective = 0.5 * w @ w + C * slack
    return {
        "norm": np.linalg.norm(w),
        "slack": slack,
        "slack_ratio": slack / at_zero,
        "objective_ratio": objective / (C * at_zero),
        "objective": objective,
    }


def binary(seed, n_queries=10, first=0):
    data = made(seed, n_queries, 4, first)
    return data.with_labels((data.labels > 0).astype(data.labels.dtype))


def same(row, expected):
    assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", HINGES)
@pytest.mark.parametrize("C", GRID)
def test_the_row_of_a_given_C(loss, C):
    data = binary(3)
    ranker = RankingSVM(C) if loss == "pairs" else StructuredSVM(loss, C)
    (row,) = ranker.fit(data).C_path_
    assert (row["C"], row["gap"], row["passes"]) == (C, ranker.gap_, ranker.n_passes_)
    same(row, by_hand(HINGES[loss], data, ranker.coef_, C))


@pytest.mark.parametrize("loss", HINGES)
def test_rows_of_a_path_are_relative_to_weights_of_zero(loss):
    data, valid = binary(3), binary(4)
    settings = {"tol": 1e-9, "max_passes": 2000}
    make = RankingSVM if loss == "pairs" else lambda **given: StructuredSVM(loss, **given)
    path = make(C="auto", C_grid=GRID, **settings).fit(data, eval_set=valid)
    chosen = next(row for row in path.C_path_ if row["C"] == path.C_)
    same(chosen, by_hand(HINGES[loss], data, path.coef_, path.C_))
    for row in path.C_path_:  # each began where the one before it ended
        alone = by_hand(HINGES[loss], data, make(C=row["C"], **settings).fit(data).coef_, row["C"])
        assert {name: row[name] for name in alone} == pytest.approx(alone, rel=1e-3)
    ratios = np.array([[row["slack_ratio"], row["objective_ratio"], -row["norm"]] for row in path.C_path_])
    assert (np.diff(ratios, axis=0) < 1e-6).all()  # slack and objective fall, weights grow
    again = make(C=0.1, warm_start=True).fit(data).fit(data)
    same(again.C_path_[0], by_hand(HINGES[loss], data, again.coef_, 0.1))


@pytest.mark.parametrize("options", [{"solver": "gd"}, {"solver": "one-slack-cutting-plane"}, {"standardize": False}])
def test_whatever_the_solver(options):
    data = binary(5)
    ranker = RankingSVM(0.1, **options).fit(data)
    (row,) = ranker.C_path_
    assert row["slack"] * 0.1 + 0.5 * row["norm"] ** 2 == pytest.approx(row["objective"])
    if "solver" in options:
        same(row, by_hand(pair_hinge, data, ranker.coef_, 0.1))
    else:
        assert row["norm"] == pytest.approx(np.linalg.norm(ranker.coef_))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("health")
    write_all(folder)
    for at, name in enumerate(("train", "vali", "test")):
        write_letor(binary(at, first=100 * at), folder / f"{name}.txt")
    return folder


def run(folder, name, *, valid):
    parts = {"valid": 'valid = "vali.txt"' if valid else "", "path": f"grid = {{ C = {GRID} }}" if valid else ""}
    return run_experiment(write_experiment(folder, EXPERIMENT.format(**parts), f"{name}.toml"), n_jobs=1)


def rows_of(results):
    return results.health().to_dict("records")


def test_the_files_say_what_the_weights_give(folder):
    results = run(folder, "tuned", valid=True)
    rows = rows_of(results)
    data = read_data(folder / "train.txt")
    of_lambda = len(orderable(data)) / 400
    asked = {"svm-map": GRID, "pairs": [0.02], "by lambda": [of_lambda], "binned": [0.5], "svm-combo": GRID}
    assert {name: [row["C"] for row in rows if row["method"] == name] for name in asked} == asked
    assert {row["method"] for row in rows} == set(asked)
    runs = results.runs().to_dict("list")
    for name, hinge in (("svm-map", map_hinge), ("pairs", pair_hinge), ("by lambda", pair_hinge)):
        at = runs["method"].index(name)
        C = json.loads(runs["parameters"][at]).get("C", asked[name][0])
        row = next(row for row in rows if (row["method"], row["C"]) == (name, C))
        same(row, by_hand(hinge, data, load_model(results.folder / runs["model"][at]).model.coef, C))
    assert all(row["slack"] >= 0 and row["norm"] >= 0 and row["passes"] > 0 for row in rows)


def test_without_validation_queries_there_is_health_and_no_path(folder):
    results = run(folder, "untuned", valid=False)
    of_lambda = len(orderable(read_data(folder / "train.txt"))) / 400
    assert [row["C"] for row in rows_of(results)] == [1.0, 0.02, of_lambda, 0.5, 1.0]
    assert results.paths()["method"].tolist() == []


def test_the_report_draws_them(folder, tmp_path):
    results = run(folder, "tuned", valid=True)
    text = write_report(results.folder, tmp_path / "report.html").read_text()
    for words in (
        "loss on training queries (untrained = 1)",
        "loss and penalty (untrained = 1)",
        "size of the weights",
    ):
        assert words in text
