"""Tables of results: against means and tests computed from the per-query file."""

import csv
import io
import json

import numpy as np
import pytest
from scipy import stats

from rankwright.errors import InputError
from rankwright.experiments import Results
from rankwright.reports.results import COLUMNS

METHODS = {"base": None, "svm-map": "AP", "svm-mrr": "RR", "other": None}
SPLITS, QUERIES = 4, 20


def write_results(folder, tests=("wilcoxon",), correction="holm", missing=0, data=("a", "b")):
    """A folder of results with random values; on data a, svm-map is always better than the baseline."""
    rng = np.random.default_rng(0)
    lines = []
    for name in data:
        tested = [rng.permutation(QUERIES)[:12] for _ in range(SPLITS)]
        for method in METHODS:
            for split in range(1, SPLITS + 1):
                for query in tested[split - 1]:
                    hard = np.sin(query) ** 2 * 0.3
                    for measure in ("AP", "RR"):
                        gain = 0.2 if (name, method) == ("a", "svm-map") else 0.0
                        value = 0.3 + hard + gain + 0.05 * rng.random()
                        lines.append((name, split, method, f"q{query}", measure, value))
    with open(folder / "per_query.csv", "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS["per_query"], *lines])
    write_runs(folder, data)
    manifest = {
        "data": [{"name": name} for name in data],
        "methods": [{"name": name, "trained_for": goal} for name, goal in METHODS.items()],
        "measures": ["AP", "RR"],
        "baseline": "base",
        "tests": list(tests),
        "correction": correction,
        "seed": 0,
        "failures": [],
        "definitions": {name: ["AP: so", f"RR: as in {name}"] for name in data},
        "cells": {"total": 10, "done": 10 - missing},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return Results.open(folder)


def write_runs(folder, data):
    """The times of all cells; one method failed on a split of each data set, and has none there."""
    rng = np.random.default_rng(1)
    rows = []
    for name in data:
        for method in METHODS:
            for split in range(1, SPLITS + 1):
                row = dict.fromkeys(COLUMNS["runs"], "") | {"data": name, "split": split, "method": method}
                if (method, split) != ("svm-map", 2):
                    row |= {"seconds_train": rng.random(), "seconds_tune": 10 * rng.random()}
                rows.append(row)
    with open(folder / "runs.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS["runs"])
        writer.writeheader()
        writer.writerows(rows)


def by_hand(results, data, method, measure):
    """Value by query: its mean over splits, from the file alone."""
    frame = results.per_query()
    frame = frame[(frame["data"] == data) & (frame["method"] == method) & (frame["measure"] == measure)]
    return frame.groupby("query")["value"].mean()


def test_means_wins_and_significance(tmp_path):
    results = write_results(tmp_path, correction="none")
    for row in csv.DictReader(io.StringIO(results.table("means", "csv"))):
        ours, theirs = (by_hand(results, row["data"], name, row["measure"]) for name in (row["method"], "base"))
        assert float(row["mean"]) == pytest.approx(ours.mean(), abs=1e-12)
        assert int(row["queries"]) == len(ours)
        if row["method"] == "base":
            assert row["difference"] == row["p_wilcoxon"] == ""
            continue
        gains = (ours - theirs).dropna()
        assert float(row["difference"]) == pytest.approx(gains.mean(), abs=1e-12)
        assert (int(row["wins"]), int(row["losses"])) == ((gains > 0).sum(), (gains < 0).sum())
        assert float(row["p_wilcoxon"]) == pytest.approx(stats.wilcoxon(gains).pvalue)
        assert float(row["low"]) <= gains.mean() <= float(row["high"])


def test_the_table_of_means(tmp_path):
    results = write_results(tmp_path)
    text = results.table()
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["data", "method", "AP", "w/l", "RR", "w/l"]
    row = next(line for line in lines if line[:2] == ["a", "svm-map"])
    assert row[2] == f"{by_hand(results, 'a', 'svm-map', 'AP').mean():.4f}*"
    assert row[3].endswith("/0")
    assert next(line for line in lines if line[:2] == ["a", "base"])[2] == "(baseline)"
    assert "Holm's correction" in text
    assert "AP: so" in text.splitlines()
    assert "a: RR: as in a" in text
    assert set(results.tables()) == {"means", "criterion", "times"}


@pytest.mark.parametrize("tests", [("wilcoxon",), ("t", "sign")])
def test_the_best_mean_of_a_data_set_is_bold_in_latex(tmp_path, tests):
    results = write_results(tmp_path, tests=tests)
    text = results.table("means", "latex")
    rows = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line[:3] in ("a &", "b &")]
    for data in ("a", "b"):
        for column, measure in ((2, "AP"), (4, "RR")):
            means = {method: by_hand(results, data, method, measure).mean() for method in METHODS}
            bold = [row[1] for row in rows if row[0] == data and row[column].startswith(r"\textbf{")]
            assert bold == [max(means, key=means.get) + " (baseline)" * (max(means, key=means.get) == "base")]
    assert "% bold: the best of its column" in text.splitlines()
    assert "textbf" not in results.table("means", "markdown")


def test_several_tests_have_letters(tmp_path):
    results = write_results(tmp_path, tests=("t", "sign"), missing=3)
    text = results.table()
    assert "ᵗˢ" in text
    assert "ᵗ paired t-test, ˢ sign test" in text
    assert "3 of 10 cells are missing" in text
    latex = results.table("means", "latex")
    assert "$^{t}$$^{s}$" in latex
    assert "ᵗ" not in latex


def test_the_criterion_table_marks_the_best_of_each_column(tmp_path):
    results = write_results(tmp_path)
    means = {
        (data, method, measure): round(by_hand(results, data, method, measure).mean(), 4)
        for data in ("a", "b") for method in ("svm-map", "svm-mrr") for measure in ("AP", "RR")
    }  # fmt: skip
    for form, left, right in (("text", "", "•"), ("markdown", "**", "**"), ("latex", r"\textbf{", "}")):
        shown = results.table("criterion", form)
        for (data, method, measure), mean in means.items():
            best = mean == max(means[data, other, measure] for other in ("svm-map", "svm-mrr"))
            assert (f"{left}{mean:.4f}{right}" in shown) == best, (form, data, method, measure)
        assert "base" not in shown
        assert "trained for" in shown
    lines = [line.split() for line in results.table("criterion").splitlines()]
    assert ["a", "AP", "svm-map"] in [line[:3] for line in lines]
    assert len(list(csv.reader(io.StringIO(results.table("criterion", "csv"))))) == 1 + 2 * 2 * 2


def test_formats_are_well_formed(tmp_path):
    results = write_results(tmp_path)
    markdown = results.table("means", "markdown").split("\n\n")[0].splitlines()
    assert {line.count("|") for line in markdown} == {7}
    latex = results.table("means", "latex")
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 1
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in rows} == {5}
    for kind, form in (("mean", "text"), ("means", "html")):
        with pytest.raises(InputError, match="unknown"):
            results.table(kind, form)


def test_a_baseline_without_values_is_not_compared_with(tmp_path):
    results = write_results(tmp_path)
    lines = (tmp_path / "per_query.csv").read_text().splitlines(keepends=True)
    (tmp_path / "per_query.csv").write_text("".join(line for line in lines if ",base," not in line))
    text = Results.open(tmp_path).table()
    assert "svm-map" in text
    assert "0/" not in text
    manifest = results.manifest | {"methods": [{"name": "other"}]}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="no method has trained_for"):
        Results.open(tmp_path).table("criterion")
    assert set(Results.open(tmp_path).tables()) == {"means", "times"}


def test_what_is_no_result(tmp_path):
    results = write_results(tmp_path)
    with pytest.raises(InputError, match="no data set 'c'; expected one of a, b"):
        results.evaluations("c")
    with pytest.raises(InputError, match=r"paths.csv: cannot be read"):
        results.paths()
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(InputError, match="contains a list"):
        Results.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        Results.open(tmp_path)


def test_times_are_means_over_splits_and_ratios_to_the_baseline(tmp_path):
    results = write_results(tmp_path)
    means = results.runs().groupby(["data", "method"])[["seconds_train", "seconds_tune"]].mean()  # nan is left out
    found = list(csv.DictReader(io.StringIO(results.table("times", "csv"))))
    assert [(row["data"], row["method"]) for row in found] == [(d, m) for d in ("a", "b") for m in METHODS]
    for row in found:
        for name in ("train", "tune"):
            mean, base = (means.loc[(row["data"], method), f"seconds_{name}"] for method in (row["method"], "base"))
            assert float(row[f"seconds_{name}"]) == pytest.approx(mean)
            assert float(row[f"ratio_{name}"]) == pytest.approx(mean / base)
    text = results.table("times", "text")
    assert "base (baseline)" in text
    assert "ratio: to the baseline" in text
