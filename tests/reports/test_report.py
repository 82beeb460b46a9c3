"""The report as text: its figures against a plain computation, its sentences, what may be missing, and escaping."""

import csv
import json
import math
import re
from collections import defaultdict
from html.parser import HTMLParser
from statistics import fmean

import pytest
from results_folder import GAINS, MEASURES, METHODS, write_results
from scipy import stats

from rankwright.errors import InputError
from rankwright.reports import write_report

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'text'"


class Page(HTMLParser):
    """Tables by caption, texts by section, and every element with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.elements, self.json, self.text = {}, [], "", []
        self._row, self._rows, self._cell, self._caption, self._in, self._hidden = None, None, None, "", [], 0
        self.feed(text)
        self.data = json.loads(self.json)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._in.append((tag, dict(attrs)))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th"):
            self._cell = ""

    def handle_endtag(self, tag):
        while self._in and self._in.pop()[0] != tag:
            pass
        if tag == "table":
            self.tables[self._caption] = self._rows
        elif tag == "tr":
            self._rows.append(self._row)
        elif tag in ("td", "th"):
            self._row.append(self._cell)
            self._cell = None

    def handle_data(self, data):
        if self._in and self._in[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.json += data
        elif any(tag == "caption" for tag, _ in self._in):
            self._caption += data
        elif self._in and self._in[-1][1].get("class") == "unseen":
            pass
        elif self._cell is not None:
            self._cell += data
        elif self._in and self._in[-1][0] not in ("script", "style"):
            self.text.append(data)


def made(folder, **options):
    return Page(write_report(write_results(folder / "results", **options), folder / "report.html").read_text())


def values_of(folder):
    """Mean over splits by (data, measure, method, query), from the file itself."""
    found = defaultdict(list)
    with open(folder / "results" / "per_query.csv", newline="") as file:
        for row in csv.DictReader(file):
            found[row["data"], row["measure"], row["method"], row["query"]].append(float(row["value"]))
    return {key: fmean(values) for key, values in found.items()}


def number(text):
    return float(text.replace("−", "-").strip("▲▼+ "))


def test_means_and_differences_are_those_of_the_file(tmp_path):
    page = made(tmp_path, n_queries=30)
    values = values_of(tmp_path)
    queries = [f"q{q}" for q in range(30)]
    for data in ("cranfield", "python-docs"):
        rows = page.tables[f"{data}: means over 30 queries, 5 splits"]
        assert rows[0] == ["method", *MEASURES, "w/t/l in AP"]
        for row in rows[1:]:
            method = row[0].removesuffix(" baseline")
            for measure, text in zip(MEASURES, row[1:4], strict=True):
                expected = fmean(values[data, measure, method, query] for query in queries)
                assert number(text) == pytest.approx(expected, abs=5e-5)
        table = page.tables[f"{data}, nDCG@10: compared with bm25"]
        p = []
        for row in table[2:]:
            gains = [values[data, "nDCG@10", row[0], q] - values[data, "nDCG@10", "bm25", q] for q in queries]
            assert number(row[2]) == pytest.approx(fmean(gains), abs=5e-5)
            low, high = (number(end) for end in row[4].split(" … "))
            assert low < number(row[2]) < high
            counts = [sum(g > 1e-9 for g in gains), sum(abs(g) <= 1e-9 for g in gains), sum(g < -1e-9 for g in gains)]
            assert [int(count) for count in row[5].split("/")] == counts
            p.append(stats.wilcoxon([round(gain, 12) for gain in gains]).pvalue)
        order = sorted(range(4), key=p.__getitem__)
        holm = [max(p[order[j]] * (4 - j) for j in range(order.index(i) + 1)) for i in range(4)]  # Holm, by definition
        for row, expected in zip(table[2:], holm, strict=True):
            assert number(row[6].replace("<", "")) == pytest.approx(min(expected, 1.0), abs=1e-4)
            assert ("▲" in row[2]) == (expected < 0.05 and number(row[2]) > 0)
            assert ("▼" in row[2]) == (expected < 0.05 and number(row[2]) < 0)


def test_the_plots_are_drawn_from_the_same_values(tmp_path):
    page = made(tmp_path, n_queries=20)
    values = values_of(tmp_path)
    for one in page.data["data"]:
        for measure, by_method in zip(one["measures"], one["values"], strict=True):
            for method, row in zip(one["methods"], by_method, strict=True):
                expected = [values[one["name"], measure, method, query] for query, _, _ in one["queries"]]
                assert row == pytest.approx(expected, rel=1e-5)
        (C,) = [panel for panel in one["paths"] if panel["parameter"] == "C"]
        assert C["log"]
        assert C["values"] == [0.001, 0.01, 0.1, 1, 10, 100]
        assert [line["method"] for line in C["lines"]] == ["svm-map", "svm-ndcg", "svm-mrr"]
        assert {row[0]: row[1] for row in one["criteria"]} == {m: goal for m, goal in METHODS.items() if goal}


def test_paths_of_two_parameters_show_the_best_over_the_other(tmp_path):
    folder = write_results(tmp_path / "results", n_queries=20, data=("a",))
    rows = ["data,split,method,parameters,validation"]
    grid = {(rate, leaves): 0.3 + 0.1 * rate - 0.01 * leaves for rate in (0.1, 0.3) for leaves in (4, 8, 16)}
    for split in "01":
        for (rate, leaves), value in grid.items():
            point = json.dumps({"rate": rate, "leaves": leaves}).replace('"', '""')
            rows.append(f'a,{split},lambdamart,"{point}",{value + 0.02 * int(split)}')
    (folder / "paths.csv").write_text("\n".join(rows) + "\n")
    panels = Page(write_report(folder, tmp_path / "r.html").read_text()).data["data"][0]["paths"]
    found = {panel["parameter"]: panel["lines"][0]["points"] for panel in panels}
    for rate, *rest in found["rate"]:
        best = max(value for (own, _), value in grid.items() if own == rate)
        assert rest[:4] == pytest.approx([best + 0.01, best, best + 0.02, 2])
    assert [point[0] for point in found["leaves"]] == [4, 8, 16]


def test_names_along_a_path_are_the_best_ones(tmp_path):
    folder = write_results(tmp_path / "results", n_queries=20, data=("a",))
    values = {f"function {number}": (7 * number) % 30 / 30 for number in range(30)}
    rows = [["a", "0", "svm-map", json.dumps({"feature": name}), value] for name, value in values.items()]
    with open(folder / "paths.csv", "w", newline="") as file:
        csv.writer(file).writerows([["data", "split", "method", "parameters", "validation"], *rows])
    page = Page(write_report(folder, tmp_path / "r.html").read_text())
    panel = next(panel for panel in page.data["data"][0]["paths"] if panel["parameter"] == "feature")
    assert panel["values"] == sorted(values, key=lambda name: -values[name])[:12]
    assert panel["omitted"] == 18
    assert not panel["numeric"]


def test_what_was_run_and_what_was_not(tmp_path):
    folder = write_results(tmp_path / "results", n_queries=20)
    more = {"methods": [{"name": "svm-map", "grid": {"C": [1, 2]}, "random": None}], "failures": []}
    manifest = json.loads((folder / "manifest.json").read_text()) | more
    (folder / "manifest.json").write_text(json.dumps(manifest))
    text = " ".join("".join(Page(write_report(folder, tmp_path / "r.html").read_text()).text).split())
    assert "These results are incomplete: of 50 cells, 2 failed." in text
    assert "svm-map: grid (C = 1, 2)" in text
    assert "failures" not in text
    assert "rankwright experiment run demo.toml" in text
    assert "svm-mrr: stopped at 200 passes, gap 0.0021 (2 runs)" in text
    assert text.count("AP: relevant from label 1") == 1  # the same for all data
    assert "cranfield: nDCG@10: gain of cranfield" in text
    assert "2025-05-04 10:12" in text


def test_progress_goes_to_the_end(tmp_path):
    told = []
    folder = write_results(tmp_path / "results", n_queries=20)
    write_report(folder, tmp_path / "r.html", progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(1, 7)]


def test_sentences(tmp_path):
    text = " ".join("".join(made(tmp_path, n_queries=120).text).split())
    assert "Highest AP on the test queries: svm-map on 2 of 2 data sets." in text
    gain = r"AP 0\.\d{4} against 0\.\d{4}, a difference of \+0\.0\d{3} \(\+\d+\.\d %\), 95 % interval \+0\.0\d{3} to"
    assert re.search(rf"svm-map is significantly better than the baseline bm25: {gain}", text)
    assert "Significantly worse than bm25: lambdamart." in text
    assert GAINS["lambdamart"] < 0
    assert "stopped at 200 passes, gap 0.0021 (2 runs)" in text
    assert "two-tailed Wilcoxon signed-rank test" in text


def test_sentences_where_the_baseline_is_first(tmp_path):
    folder = write_results(tmp_path / "results", data=("a",))
    manifest = json.loads((folder / "manifest.json").read_text()) | {"baseline": "svm-map"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    text = "".join(Page(write_report(folder, tmp_path / "r.html").read_text()).text)
    assert "No method is significantly better than the baseline svm-map. svm-map has the highest mean" in text


def test_learning_curves_and_the_largest_training_sets(tmp_path):
    page = made(tmp_path, sizes=[5, 20, 80], n_queries=20, n_splits=2, data=("a",))
    (caption,) = [caption for caption in page.tables if "means over" in caption]
    assert caption == "a: means over 20 queries, 2 splits, trained on 80 queries"
    scores = defaultdict(list)
    with open(tmp_path / "results" / "per_query.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["method"] == "svm-map" and row["measure"] == "AP":
                scores[row["split"]].append(float(row["value"]))
    curves = {line["method"]: line["points"] for line in page.data["data"][0]["curves"][0]}
    for size, mean, low, high, splits, _ in curves["svm-map"]:
        of_splits = [fmean(scores[f"{size:g}/{split}"]) for split in range(2)]
        assert (mean, low, high) == pytest.approx((fmean(of_splits), min(of_splits), max(of_splits)), rel=1e-5)
        assert splits == 2
    assert fmean(scores["80/0"] + scores["80/1"]) == pytest.approx(number(page.tables[caption][2][1]), abs=5e-5)


def test_all_that_is_optional_may_be_missing(tmp_path):
    folder = write_results(tmp_path / "results", optional=False, n_queries=20)
    (folder / "manifest.json").unlink()
    page = Page(write_report(folder, tmp_path / "r.html").read_text())
    assert page.data["baseline"] == "bm25"  # the first method
    assert page.data["data"][0]["queries"][0] == ["q0", "", ""]
    plots = {attributes["data-plot"] for tag, attributes in page.elements if tag == "figure"}
    assert plots == {"differences", "queries"}


def test_a_table_of_four_columns_is_enough(tmp_path):
    (tmp_path / "per_query.csv").write_text("method,query,measure,value\nmine,1,AP,0.5\nmine,2,AP,0.25\n")
    page = Page(write_report(tmp_path, tmp_path / "r.html", title="One & all").read_text())
    assert page.tables["all queries: means over 2 queries"] == [["method", "AP"], ["mine baseline", "0.3750"]]
    assert "One & all" in page.text
    assert not [tag for tag, _ in page.elements if tag == "figure"]


def test_values_that_are_missing_and_measures_nobody_knows(tmp_path):
    lines = ["data,method,query,measure,value"]
    lines += [f"a,{m},{q},My@Own,{0.1 * q if m == 'x' or q < 4 else ''}" for m in "xyz" for q in range(6)]
    lines += [f"a,x,{q},AP,0.5" for q in range(6)] + ["b,z,1,AP,0.5"]
    (tmp_path / "per_query.csv").write_text("\n".join(lines) + "\n")
    page = Page(write_report(tmp_path, tmp_path / "r.html").read_text())
    rows = page.tables["a: means over 6 queries"]
    assert [row[1:3] for row in rows[1:]] == [["0.2500", "0.5000"], ["0.1500", "–"], ["0.1500", "–"]]
    assert page.data["data"][0]["values"][0][1][5] is None
    assert page.tables["b: means over 1 query"][1] == ["z", "0.5000"]


def test_everything_from_the_data_is_escaped(tmp_path):
    folder = write_results(tmp_path / "results", data=(EVIL,), text=EVIL, n_queries=20)
    lines = (folder / "per_query.csv").read_text().replace("svm-map", '"' + EVIL.replace('"', '""') + '"')
    (folder / "per_query.csv").write_text(lines)
    manifest = json.loads((folder / "manifest.json").read_text()) | {"name": EVIL, EVIL: {EVIL: [EVIL, {"x": EVIL}]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    text = write_report(folder, tmp_path / "r.html").read_text()
    page = Page(text)
    assert [attributes for tag, attributes in page.elements if tag == "script"] == [
        {"type": "application/json", "id": "data"},
        {},
    ]
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert page.data["data"][0]["queries"][0][1] == EVIL
    assert EVIL in page.data["methods"]
    assert "alert(1)</script>" not in text


def test_nothing_is_fetched(tmp_path):
    text = write_report(write_results(tmp_path / "results", n_queries=20), tmp_path / "r.html").read_text()
    page = Page(text)
    linked = [a[name] for _, a in page.elements for name in ("src", "href") if name in a]
    assert all(target.startswith("#") for target in linked)
    assert set(re.findall(r"https?://[^\s\"'`)]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert len(text) < 300_000


def test_the_same_results_give_the_same_bytes(tmp_path):
    folder = write_results(tmp_path / "results", n_queries=20)
    first = write_report(folder, tmp_path / "a.html")
    assert first == tmp_path / "a.html"
    assert first.read_bytes() == write_report(folder, tmp_path / "b.html").read_bytes()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("per_query.csv", "method,query,value\nx,1,0.5\n", "per_query.csv:1: has no column 'measure'"),
        ("per_query.csv", "method,query,measure,value\nx,1,AP,high\n", "per_query.csv:2: value is 'high'"),
        ("per_query.csv", "method,query,measure,value\nx,1,AP\n", "per_query.csv:2: 3 fields; expected 4"),
        ("per_query.csv", "method,query,measure,value\n", "per_query.csv: has no values"),
        ("manifest.json", "[1]", "manifest.json: contains a list; expected a JSON object"),
        ("manifest.json", "{", "manifest.json: not valid JSON"),
        ("runs.csv", "method,parameters\nx,{C}\n", "runs.csv:2: parameters is '{C}'"),
        ("paths.csv", "method,parameters,validation\nx,{},much\n", "paths.csv:2: validation is 'much'"),
    ],
)
def test_files_that_cannot_be_understood(tmp_path, name, text, told):
    folder = write_results(tmp_path / "results", n_queries=20)
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=re.escape(told)):
        write_report(folder, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_folders_that_are_none(tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        write_report(tmp_path / "nowhere", tmp_path / "r.html")
    with pytest.raises(InputError, match=r"has no per_query\.csv"):
        write_report(tmp_path, tmp_path / "r.html")
    write_results(tmp_path / "results", n_queries=20)
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "results", tmp_path / "nowhere" / "r.html")


def test_equal_values_everywhere(tmp_path):
    lines = [f"{m},{q},AP,0.5" for m in "xy" for q in range(5)]
    (tmp_path / "per_query.csv").write_text("\n".join(["method,query,measure,value", *lines]) + "\n")
    page = Page(write_report(tmp_path, tmp_path / "r.html").read_text())
    row = page.tables["all queries, AP: compared with x"][2]
    assert row[2] == "+0.0000"
    assert row[5] == "0/5/0"
    assert all(math.isfinite(difference["p"]) for difference in page.data["data"][0]["differences"][0])
