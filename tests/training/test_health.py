"""The health of training: slack, objective and ‖w‖ against direct computation, what must hold along C, plots, words."""

import dataclasses
import itertools
import json
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest

from rankwright import InputError, RankingData, RankingSVM, StructuredSVM, TrainingHealth, evaluate, training_health
from rankwright.training import health as module
from rankwright.training.health import FitHealth

GRID = (0.01, 1.0, 100.0)


def made(n_queries=4, size=6, seed=0, noise=1.0, n_features=3):
    """Queries with a noisy linear truth, each with relevant and other documents."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, n_features)) * 10.0 ** np.arange(-1, n_features - 1)
    hidden = X @ (np.arange(1, n_features + 1) / 10.0 ** np.arange(-1, n_features - 1)) + noise * rng.normal(
        size=len(X)
    )
    labels = np.digitize(hidden, [0.0, 3.0])
    first = size * np.arange(n_queries)
    hidden = hidden.reshape(n_queries, size)
    labels[first + hidden.argmax(axis=1)], labels[first + hidden.argmin(axis=1)] = 2, 0
    return X, labels, np.repeat([f"q{q}" for q in range(n_queries)], size)


def split(data):
    """Features and labels of each query."""
    X, labels, qid = data
    return [(X[qid == query], labels[qid == query]) for query in dict.fromkeys(qid)]


def pair_hinge(scores, labels):
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if labels[i] > labels[j]]
    return sum(max(0.0, 1.0 - (scores[i] - scores[j])) for i, j in pairs)


def ranking_hinge(measure):
    """Largest, over all rankings, of loss − (F(ideal) − F(ranking)), with F = Σ ±(score difference) / (n₊ n₋)."""

    def hinge(scores, labels):
        good = [i for i in range(len(labels)) if labels[i] >= 1]
        bad = [i for i in range(len(labels)) if labels[i] < 1]
        binary = (np.asarray(labels) >= 1).astype(float)
        worst = -np.inf
        for ranking in itertools.permutations(range(len(labels))):
            place = np.argsort(ranking)
            value = evaluate(binary, -place, group=[len(labels)], measures=[measure]).values[0, 0]
            wrong = [(g, b) for g in good for b in bad if place[g] > place[b]]
            margin = 2.0 * sum(scores[g] - scores[b] for g, b in wrong) / (len(good) * len(bad))
            worst = max(worst, 1.0 - value - margin)
        return worst

    return hinge


@pytest.mark.parametrize("standardize", [True, False])
def test_slack_of_pairs_is_the_mean_of_the_hinges(standardize):
    data = made(n_queries=8, size=9)
    health = training_health(data, ["pairs"], GRID, standardize=standardize)
    for row in health.rows:
        coef = RankingSVM(C=row.C, standardize=standardize).fit(*data).coef_
        hinges = [pair_hinge(X @ coef, labels) for X, labels in split(data)]
        assert row.slack == pytest.approx(np.mean(hinges), rel=1e-9)
        assert row.slack_at_zero == pytest.approx(
            np.mean([pair_hinge(np.zeros(9), labels) for _, labels in split(data)])
        )
        assert row.objective == pytest.approx(0.5 * row.norm**2 + row.C * np.mean(hinges), rel=1e-9)


@pytest.mark.parametrize(("loss", "measure"), [("map", "AP"), ("auc", "AUC"), ("ndcg", "nDCG")])
def test_slack_of_a_measure_is_the_worst_of_all_rankings(loss, measure):
    data = made(n_queries=2, size=5)
    (row,) = training_health(data, [loss], [1.0]).rows
    coef = StructuredSVM(loss, C=1.0).fit(*data).coef_
    hinge = ranking_hinge(measure)
    assert row.slack == pytest.approx(np.mean([hinge(X @ coef, labels) for X, labels in split(data)]), rel=1e-9)
    assert row.slack_at_zero == pytest.approx(np.mean([hinge(np.zeros(5), labels) for _, labels in split(data)]))
    assert 0 < row.slack < row.slack_at_zero


@pytest.mark.parametrize("loss", ["map", "pairs", "dorm@3", ["map", "auc"]])
def test_objective_is_that_of_the_fit_and_at_0_that_of_its_first_check(loss):
    data = made(n_queries=10)
    health = training_health(data, [loss], GRID)
    assert health.losses == ("map+auc" if isinstance(loss, list) else loss,)
    for row in health.rows:
        ranker = (RankingSVM(C=row.C) if loss == "pairs" else StructuredSVM(loss, C=row.C, bound="hinge")).fit(*data)
        assert (row.objective, row.gap, row.passes) == (ranker.objective_, ranker.gap_, ranker.n_passes_)
        assert row.objective_at_zero == pytest.approx(ranker.path_[0].primal, rel=1e-12)
        assert row.objective_ratio == pytest.approx(ranker.objective_ / ranker.path_[0].primal)


def test_norm_is_that_of_the_problem_that_was_solved():
    X, labels, qid = made(n_queries=9)
    X = np.column_stack([X, np.full(len(X), 7.0)])  # a feature that does not vary
    labels[-6:] = 0  # a query without an order, whose features must not count
    X[-6:] *= 100
    data = (X, labels, qid)
    for standardize, scale in ((True, X[:-6].std(axis=0)), (False, 1.0)):
        (row,) = training_health(data, ["map"], [1.0], standardize=standardize).rows
        coef = StructuredSVM("map", C=1.0, standardize=standardize).fit(*data).coef_
        assert row.norm == pytest.approx(np.linalg.norm(coef * scale), rel=1e-9)


@pytest.mark.parametrize("loss", ["map", "ndcg@3", "mrr@3", "auc", "pairs"])
def test_what_must_hold_along_C_holds_up_to_the_gap(loss):
    rows = training_health(made(n_queries=12), [loss], np.logspace(-3, 3, 7), tol=1e-4).rows
    assert [row.C for row in rows] == sorted(row.C for row in rows)
    for before, after in itertools.pairwise(rows):
        # Weights are within √(2 · gap · objective) of the optimum, by strong convexity.
        room = sum(np.sqrt(2 * row.gap * row.objective) for row in (before, after))
        assert after.norm >= before.norm - room
        assert after.slack <= before.slack + before._slack_error() + after._slack_error()
        assert after.objective_ratio <= before.objective_ratio * (1 + 2e-4)
        assert after.objective_ratio <= 1
    assert rows[-1].norm > rows[0].norm
    assert rows[-1].slack < rows[0].slack


def test_the_slack_of_the_optimum_is_within_the_error():
    data = made(n_queries=12, noise=3.0)
    rough = training_health(data, ["map", "pairs"], GRID, tol=0.05).rows
    exact = training_health(data, ["map", "pairs"], GRID, tol=1e-7).rows
    for one, other in zip(rough, exact, strict=True):
        assert abs(one.slack - other.slack) <= one._slack_error() + other._slack_error()
        assert other._slack_error() < 0.02 * other.slack


def test_the_seconds_split_without_a_rest():
    for row in training_health(made(), ["map", "pairs"], GRID).rows:
        parts = (row.seconds_oracle, row.seconds_products, row.seconds_planes, row.seconds_rest)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(row.seconds)
        assert row.seconds_products > 0


def test_products_count_every_query_with_both_kinds_of_features():
    from scipy import sparse

    X, labels, qid = made()
    coef, signs = np.array([1.0, -2.0, 3.0]), np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    for features in (X, sparse.csr_array(X)):
        data = RankingData.from_arrays(features, labels, qid)
        scores, plane = np.empty(6), np.zeros(3)
        module._products(module.kernel_form(data.X), data.indptr, coef, signs, scores, plane)
        assert plane == pytest.approx(np.tile(signs, 4) @ X)
        assert scores == pytest.approx(X[-6:] @ coef)


def test_measures_are_those_of_the_models():
    data, valid = made(n_queries=10), made(n_queries=6, seed=1)
    health = training_health(data, ["auc", "pairs"], GRID, eval_set=valid, measures=["P@2", "ap", "P@2"])
    for row in health.rows:
        ranker = (RankingSVM(C=row.C) if row.loss == "pairs" else StructuredSVM(row.loss, C=row.C)).fit(*data)
        own = {"auc": "AUC", "pairs": "nDCG@10"}[row.loss]
        means = {
            part: evaluate(of[1], ranker.predict(of[0]), of[2], measures=[own, "P@2", "AP"]).means
            for part, of in (("training", data), ("validation", valid))
        }
        assert row.own_measure == own
        assert (row.own_training, row.own_validation) == (means["training"][own], means["validation"][own])
        assert dict(row.measures) == {f"{part} {name}": means[part][name] for part in means for name in ("P@2", "AP")}
    best = max(health.of("auc"), key=lambda row: row.own_validation)
    assert any(
        f"AUC on validation data is best at C = {best.C:g} ({best.own_validation:.4f})" in line
        for line in health.findings
    )
    assert sum(line.startswith("AUC: ") for line in health.definitions) == 1


def test_rows_are_for_pandas_and_cannot_be_changed():
    health = training_health(made(), ["map", "pairs"], GRID, measures=["P@1"])
    frame = pd.DataFrame(health.to_dict())
    assert frame.shape[0] == len(pd.DataFrame(health.rows)) == 6
    assert frame["training P@1"].tolist() == [dict(row.measures)["training P@1"] for row in health.rows]
    assert frame["objective_ratio"].tolist() == [row.objective_ratio for row in health.rows]
    with pytest.raises(dataclasses.FrozenInstanceError):
        health.rows[0].slack = 0.0
    with pytest.raises(InputError, match="'auc' is not in the table; expected one of map, pairs"):
        health.of("auc")


def test_text_markdown_csv_and_json_have_the_same_rows():
    health = training_health(made(), ["map", "pairs"], GRID)
    text = health.render()
    assert text == str(health)
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("map ")] == [
        ["map", f"{C:g}"] for C in GRID
    ]
    for line in health.findings:
        assert line in text
    assert "own valid" not in text
    assert health.render("markdown").count("| pairs |") == 3
    csv = health.render("csv").splitlines()
    assert len(csv) == 7
    assert csv[0].split(",") == list(health.to_dict())
    assert float(csv[1].split(",")[2]) == health.rows[0].slack
    found = json.loads(health.render("json"))
    assert [row["norm"] for row in found["rows"]] == [row.norm for row in health.rows]
    assert found["rows"][0]["own_validation"] is None
    assert (found["findings"], found["tol"]) == (list(health.findings), 1e-4)
    with pytest.raises(InputError, match="unknown format 'html'"):
        health.render("html")


def test_says_when_a_loss_cannot_be_reduced():
    _, labels, qid = made()
    same = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 6, axis=0)  # documents of a query look alike
    health = training_health((same, labels, qid), ["map", "pairs"], GRID)
    for loss, line in zip(("map", "pairs"), health.findings, strict=True):
        assert line.startswith(f"{loss}: all weights are 0 for every C up to 100, which leaves all documents tied")
        assert "this loss cannot be reduced on this data" in line
    assert {row.norm for row in health.rows} == {0.0}
    assert [row.objective_ratio for row in health.rows] == pytest.approx([1.0] * 6, abs=1e-12)
    assert not any("weights are 0" in line for line in training_health(made(), ["map"], GRID).findings)


def test_what_learns_is_named_and_a_larger_C_only_where_it_helps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20 * 14, 5))
    labels = np.digitize(X @ np.linspace(2, -1, 5) + 4.0 * rng.normal(size=len(X)), [1.0, 3.0])
    data = (X, labels, np.repeat(np.arange(20), 14))
    lines = training_health(data, ["mrr@10", "map"], [1e-3, 1.0]).findings
    assert lines[0].startswith("mrr@10: all weights are 0 for every C up to 1")
    assert lines[0].endswith("; map does learn here")
    assert lines[1].startswith("map: average slack falls to")
    assert lines[1].endswith("a larger C may help")
    falling = FitHealth("map", 1, 0.8, 1.0, 1.3, 1, 3, 1e-6, *[0.1] * 5, "AP", 0.5, 0.7)
    last = FitHealth("map", 10, 0.6, 1.0, 8, 2, 3, 1e-6, *[0.1] * 5, "AP", 0.5, 0.6)
    words = "\n".join(TrainingHealth((falling, last)).findings)  # worse on validation data
    assert "still falling (by 25 % from C = 1)" in words
    assert "a larger C may help" not in words


def fits(*values):
    """Rows of one loss from (C, slack, norm, gap), whose slack at 0 is 1."""
    return TrainingHealth(
        tuple(
            FitHealth("map", C, slack, 1.0, 0.5 * norm**2 + C * slack, norm, 3, gap, *[0.1] * 5, "AP", 0.5)
            for C, slack, norm, gap in values
        )
    )


@pytest.mark.parametrize(
    ("rows", "said", "not_said"),
    [
        ([(1, 0.8, 0.1, 1e-6), (10, 0.6, 0.2, 1e-6)], "is still falling (by 25 % from C = 1)", "margin"),
        ([(1, 0.8, 0.1, 1e-6), (10, 0.799, 0.2, 1e-6)], "falls to 79.9 % of that at weights of 0 by C = 10", "still"),
        ([(1, 0.8, 0.1, 0.1), (10, 0.6, 0.2, 0.1)], "the gap of 0.0001 was not reached for C = 1, 10", "still"),
        (
            [(1, 0.8, 0.1, 1e-6), (10, 1e-5, 0.2, 1e-6)],
            "nearly every training query is ordered with the full margin",
            "still",
        ),
        ([(1, 1.0, 0, 1e-6), (10, 0.9, 0.2, 1e-6)], "all weights are 0 for C = 1, which", "cannot be reduced"),
        ([(1, 1.0, 0, 0.1), (10, 1.0, 0, 0.1)], "all weights are 0 for every C up to 10", "cannot be reduced"),
        (
            [(1, 0.999, 0.1, 1e-6), (10, 0.995, 0.2, 1e-6)],
            "no better than 0 for any C: slack or objective stays",
            "larger",
        ),
        ([(1, 1.0, 0, 1e-5)], "(no weights lower the objective by more than 0.001 %)", "still"),
    ],
)
def test_says_only_what_is_certain(rows, said, not_said):
    words = "\n".join(fits(*rows).findings)
    assert said in words
    assert not_said not in words


def test_a_gap_that_was_not_reached_is_said_and_nothing_warns():
    health = training_health(made(), ["map"], [100.0], max_passes=2)
    assert "the gap of 0.0001 was not reached for C = 100" in "\n".join(health.findings)


def test_progress_is_told_of_every_fit_and_ctrl_c_ends_it_all():
    seen = []
    training_health(made(), ["map", "pairs"], GRID, progress=lambda done, total: seen.append((done, total)))
    assert sorted(set(seen)) == [(done, 6) for done in range(7)]

    def pressed(done, total):
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training_health(made(), ["map"], GRID, progress=pressed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"losses": []}, "no loss given"),
        ({"losses": ["map", "P@5"]}, "P@5 has no most violated ranking"),
        ({"losses": ["map", "mpa"]}, "unknown measure 'mpa'; did you mean"),
        ({"C_grid": []}, "C_grid is empty"),
        ({"C_grid": [1, 0]}, "C_grid contains 0.0; expected numbers above 0"),
        ({"tol": 0}, "tol is 0; expected a number above 0"),
        ({"measures": ["nothing"]}, "unknown measure 'nothing'"),
        ({"data": 3}, "data is a int; expected a RankingData or"),
        ({"eval_set": made(n_features=4)}, "validation data: the data has 4 features, but the training data has 3"),
        ({"data": (np.ones((2, 1)), [0, 0], [1, 1])}, "training data: no query has both relevant and other documents"),
        ({"data": (np.ones((2, 1)), [3, 3], [1, 1]), "losses": "pairs"}, "no query has documents of different labels"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_trained(monkeypatch, changed, message):
    monkeypatch.setattr(module, "_train", lambda *_: pytest.fail("trained"))
    with pytest.raises(InputError) as caught:
        training_health(**{"data": made(), "losses": ["map"]} | changed)
    assert message in str(caught.value)


def test_svg_says_everything_and_is_always_the_same(tmp_path):
    health = training_health(made(n_queries=8), ["map", "mrr@3", "pairs"], GRID)
    for name in ("a.svg", "b.SVG"):
        health.plot(tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.SVG").read_text()
    texts = [item for item in ElementTree.fromstring(text).iter() if item.tag.endswith("text")]
    said = " ".join("".join(item.itertext()) for item in texts)
    for words in ("map (AP)", "pairs (nDCG@10)", "Average slack", "Objective", "relative to weights of 0", "‖w‖"):
        assert words in said
    for words in ("Passes over the data", "seconds", "% of the time", "products with the features", "Own measure"):
        assert words in said


def test_six_losses_of_one_fit_each_with_weights_0_can_be_drawn(tmp_path):
    rows = [dataclasses.replace(fits((3.0, 1.0, 0, 1e-6)).rows[0], loss=f"loss {i}") for i in range(6)]
    TrainingHealth(tuple(rows)).plot(tmp_path / "many.svg")
    assert "loss 5" in (tmp_path / "many.svg").read_text()


@pytest.mark.parametrize("name", ["health.pdf", "health", "png"])
def test_other_formats_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"plots end in \.png or \.svg"):
        fits((3.0, 1.0, 0, 1e-6)).plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_png_is_whole_and_matplotlib_loaded_late_and_left_as_it_was(tmp_path):
    code = f"""
import sys
from rankwright.training.health import FitHealth
from rankwright.training.health import TrainingHealth
import rankwright.training.health
assert "matplotlib" not in sys.modules
import matplotlib
settings = lambda: [matplotlib.rcParams[name] for name in ("font.size", "axes.grid", "svg.hashsalt", "svg.fonttype")]
before = settings()
row = FitHealth("map", 1.0, 0.5, 1.0, 1.0, 1.0, 3, 0.0, *[0.1] * 5, "AP", 0.5)
TrainingHealth((row,)).plot({str(tmp_path / "a.png")!r})
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code], check=True)
    image = (tmp_path / "a.png").read_bytes()
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert image[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", image[16:24])  # for the width of a page
    assert 1000 < width < 1500
    assert 800 < height < 1500
