"""Rankings in a report: those of the file, of the queries that matter most, with what is unknown left unknown."""

import csv
import json
from collections import defaultdict

from results_folder import write_results
from test_report import Page

from rankwright.reports import figures, write_report


def data_of(folder, **options):
    return Page(write_report(write_results(folder / "results", **options), folder / "r.html").read_text()).data["data"]


def listed(one):
    """By query and method: documents with their grades."""
    return {
        (one["queries"][query][0], one["rankings"]["systems"][system][0]): [(names[at], grades[at]) for at in order]
        for query, names, grades, lists, _ in one["rankings"]["queries"]
        for system, order in lists
    }


def test_they_are_those_of_the_file(tmp_path):
    (one,) = data_of(tmp_path, data=("a",), n_queries=20)
    expected = defaultdict(list)
    with open(tmp_path / "results" / "rankings.csv", newline="") as file:
        for row in csv.DictReader(file):
            grade = None if row["grade"] == "" else float(row["grade"])
            expected[row["query"], row["method"]].append((row["document"], grade))
    assert listed(one) == expected
    assert one["rankings"]["depth"] == 10
    assert [name for name, _, _ in one["rankings"]["systems"]] == one["methods"]


def test_rows_may_come_in_any_order(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=10)
    head, *rows = (folder / "rankings.csv").read_text().splitlines()
    before = write_report(folder, tmp_path / "a.html").read_text()
    (folder / "rankings.csv").write_text("\n".join([head, *sorted(rows, key=lambda row: row[::-1])]) + "\n")
    assert listed(Page(before).data["data"][0]) == listed(
        Page(write_report(folder, tmp_path / "b.html").read_text()).data["data"][0]
    )


def test_the_hardest_and_the_most_different_queries_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_MAX_QUERIES", 20)
    (one,) = data_of(tmp_path, data=("a",), n_queries=60, empty=(0, 7))
    values = one["values"][0]
    means = {q: sum(row[q] for row in values) / len(values) for q in range(60)}
    spread = {q: max(row[q] for row in values) - min(row[q] for row in values) for q in range(60)}
    hardest = sorted((q for q in means if one["relevant"][q] != 0), key=means.get)[:12]
    others = [q for q in sorted(spread, key=lambda q: (-spread[q], q)) if q not in hardest][:8]
    places = {query[0]: at for at, query in enumerate(one["queries"])}
    assert [row[0] for row in one["rankings"]["queries"]] == sorted([*hardest, *others])
    assert one["rankings"]["of"] == 60
    assert [one["relevant"][places[name]] for name in ("q0", "q7", "q1")] == [0, 0, 3]


def test_many_data_sets_share_the_room():
    assert [figures.limit_for(n) for n in (1, 5, 10, 1000)] == [200, 200, 100, 1]


def test_of_several_splits_the_one_with_most_training_queries(tmp_path):
    (one,) = data_of(tmp_path, data=("a",), sizes=[10, 40], n_queries=8, n_splits=2)
    assert {row[4] for row in one["rankings"]["queries"]} == {"40/0", "40/1"}


def test_a_folder_without_them(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",), n_queries=20)
    (folder / "rankings.csv").unlink()
    text = (folder / "queries.csv").read_text()
    (folder / "queries.csv").write_text("\n".join(line.rpartition(",")[0] for line in text.splitlines()) + "\n")
    page = Page(write_report(folder, tmp_path / "r.html").read_text())
    assert page.data["data"][0]["rankings"] is None
    assert set(page.data["data"][0]["relevant"]) == {None}
    assert "data-rankings" not in json.dumps([attributes for _, attributes in page.elements])


def test_four_columns_of_another_program(tmp_path):
    (tmp_path / "per_query.csv").write_text("method,query,measure,value\nx,1,AP,0.5\ny,1,AP,0.25\n")
    (tmp_path / "rankings.csv").write_text("method,query,rank,document\nx,1,1,a\nx,1,2,b\ny,1,1,b\nz,1,1,c\n")
    (one,) = Page(write_report(tmp_path, tmp_path / "r.html").read_text()).data["data"]
    assert listed(one) == {("1", "x"): [("a", None), ("b", None)], ("1", "y"): [("b", None)]}
