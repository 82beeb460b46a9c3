"""What the report says of training: paths by measure, rounds, health in figures and in words, notes and files."""

import csv
import json
import re
from statistics import fmean

import pytest
from results_folder import GRID, write_results
from test_report import Page

from rankwright.reports import write_report
from rankwright.reports.results import RunRow
from rankwright.reports.tables import notes_list


def changed(folder, **manifest):
    """Other entries in the manifest, and the page that comes of it."""
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | manifest))
    return Page(write_report(folder, folder / "report.html").read_text())


def lines_of(panel):
    return {line["method"]: line["points"] for line in panel["lines"]}


def words(page):
    return " ".join("".join(page.text).split())


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def test_methods_chosen_by_different_measures_have_panels_of_their_own(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    by = {"svm-map": "map", "svm-ndcg": "ndcg@10", "svm-mrr": "map", "lambdamart": "ndcg@10"}
    page = changed(folder, methods=[{"name": name, "choose_by": measure} for name, measure in by.items()])
    panels = page.data["data"][0]["paths"]
    found = {(panel["parameter"], panel["figure"]): list(lines_of(panel)) for panel in panels}
    assert found["C", "AP on validation data"] == ["svm-map", "svm-mrr"]
    assert found["C", "nDCG@10 on validation data"] == ["svm-ndcg"]
    assert found["round", "nDCG@10 on validation data"] == ["lambdamart"]
    assert len(panels) == 5  # two along C, learning_rate, max_leaves, round
    plain = changed(folder, methods=None)
    figures = {panel["figure"] for panel in plain.data["data"][0]["paths"]}
    assert figures == {"value on validation data"}


def test_rounds_go_as_far_as_all_splits(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    values = {split: [0.3 + 0.1 * split + 0.01 * at for at in range(length)] for split, length in ((0, 4), (1, 7))}
    rows = [["a", s, "lambdamart", at + 1, value] for s, of in values.items() for at, value in enumerate(of)]
    write(folder / "rounds.csv", "data,split,method,round,validation", rows)
    panel = next(panel for panel in changed(folder).data["data"][0]["paths"] if panel["parameter"] == "round")
    points = lines_of(panel)["lambdamart"]
    assert [point[0] for point in points] == [1, 2, 3, 4]
    assert [point[1] for point in points] == pytest.approx([fmean([values[0][at], values[1][at]]) for at in range(4)])


def test_health_in_figures_and_in_words(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    ratios = {"svm-map": 0.8, "svm-ndcg": 0.9, "svm-mrr": 0.998}  # at the largest C
    rows = [
        ["a", split, name, C, share, 7 * share, share, (1 - share) * 3, 4, 1e-4, C * 7 * share]
        for split in (0, 1)
        for name, last in ratios.items()
        for C, share in zip(GRID, (1 + at / 5 * (last - 1) for at in range(6)), strict=True)
    ]
    rows.append(["a", 0, "lambdamart", 0.5, 0.9, 6, 0.95, 1, 3, 1e-4, 3])  # a C that was given
    header = "data,split,method,C,slack_ratio,slack,objective_ratio,norm,passes,gap,objective"
    write(folder / "health.csv", header, rows)
    page = changed(folder)
    panels = {panel["figure"]: lines_of(panel) for panel in page.data["data"][0]["health"]}
    assert list(panels) == [
        "loss on training queries (untrained = 1)",
        "loss and penalty (untrained = 1)",
        "size of the weights",
        "passes over the training queries",
        "proven gap",
    ]
    for of in panels.values():
        assert {method: len(points) for method, points in of.items()} == {**dict.fromkeys(ratios, 6), "lambdamart": 1}
    last = panels["loss on training queries (untrained = 1)"]["svm-map"][-1]
    assert last == pytest.approx([100, 0.8, 0.8, 0.8, 2, 0])
    text = words(page)
    assert "Loss left on the training queries, in % of an untrained model's: svm-map (80) and svm-ndcg (90)." in text
    said = "svm-mrr (2 of 2 trainings) learnt nothing: for every C tried, its loss stays within 1 % of an untrained"
    assert said in text
    assert text.index("the baseline bm25") < text.index(said) < text.index("Best in other measures")
    assert "untrained model's. svm-map, svm-ndcg and lambdamart do learn here." in text
    assert "svm-mrr learnt nothing from these training queries: with every C, what training minimises stays" in text


def test_many_methods_are_not_all_named(tmp_path):
    text = words(changed(write_results(tmp_path / "results", data=("a",), n_queries=10, more=10)))
    assert "and 6 others (up to 80)." in text


def test_health_without_ratios_is_drawn_and_nothing_is_claimed(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    write(folder / "health.csv", "data,method,C,objective,slack", [["a", "svm-map", C, C / 2, 0.4] for C in GRID])
    page = changed(folder)
    panels = {panel["figure"]: lines_of(panel)["svm-map"] for panel in page.data["data"][0]["health"]}
    assert [point[1] for point in panels["loss and penalty / C"]] == [0.5] * 6
    assert [point[1] for point in panels["loss on training queries"]] == [0.4] * 6
    assert "untrained model's" not in words(page).split("Words")[0]


def test_one_C_for_all_is_no_path(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    write(folder / "health.csv", "data,method,C,norm", [["a", name, 1.0, 0.4] for name in ("svm-map", "svm-mrr")])
    page = changed(folder)
    assert page.data["data"][0]["health"] == []
    assert "Training health" not in words(page)


def test_notes_that_differ_in_numbers_are_one_line(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    notes = ["kept 12 of 62 trees; stopped early", "kept 7 of 57 trees", "kept 40 of 57.5 trees", ""]
    rows = [["a", split, "lambdamart", note] for split, note in enumerate(notes)]
    rows += [["a", split, "svm-map", "gap 1e-05 <b>"] for split in range(2)]
    write(folder / "runs.csv", "data,split,method,note", rows)
    text = words(changed(folder))
    assert "lambdamart: kept 7 to 40 of 57 to 62 trees (3 runs)" in text
    assert "lambdamart: stopped early (1 run)" in text
    assert "svm-map: gap 1e-05 <b> (2 runs)" in text


def test_files_are_a_table(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    files = {"1/train": {"path": "S1.txt", "sha256": "ab"}, "1/test": {"path": "S2.txt", "bytes": 12}}
    page = changed(folder, data=[{"name": "a", "queries": 10, "files": files}])
    assert page.tables["files"] == [
        ["name", "path", "sha256", "bytes"],
        ["1/train", "S1.txt", "ab", ""],
        ["1/test", "S2.txt", "", "12"],
    ]
    assert "a: queries 10" in words(page)
    assert "files (2)" in words(page)


def test_notes_share_a_line_where_only_numbers_differ_whatever_characters_they_have():
    runs = [
        RunRow("d", "1", "m", {}, 0.5, 0.5, 1.0, 1.0, 10, note) for note in ("C = 1 is low", "C = 10 is low", "a\0b 3")
    ]
    shown = re.sub(r"<a[^>]*>|</a>", "", notes_list(runs))
    assert "m: C = 1 to 10 is low (2 runs)" in shown
    assert "m: a b 3 (1 run)" in shown
