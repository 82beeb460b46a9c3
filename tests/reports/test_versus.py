"""Two results folders compared: figures against a plain computation, what only one has, what was changed, bad input."""

import json
import re
from statistics import fmean

import pytest
from results_folder import METHODS, write_results
from scipy import stats
from test_report import EVIL, Page, number

from rankwright.errors import InputError
from rankwright.reports import write_comparison
from rankwright.reports.results import read_scores


def compared(folder, **options):
    return Page(write_comparison(folder / "old", folder / "new", folder / "c.html", **options).read_text())


def words(page):
    text = " ".join("".join(page.text).split())
    return text.partition("Sentences and tables do not. Summary")[2]


def values_of(folder):
    """Mean over splits by data, measure, method and query, without the package's arrays."""
    found = {}
    for one in read_scores(folder):
        found.setdefault((one.data, one.measure, one.method, one.query), []).append(one.value)
    return {key: fmean(values) for key, values in found.items()}


def rewrite(folder, change, name="per_query.csv"):
    path = folder / name
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *change(rows)]) + "\n")


@pytest.fixture
def both(tmp_path):
    write_results(tmp_path / "old", n_queries=30)
    write_results(tmp_path / "new", n_queries=40, seed=1)
    return tmp_path


def test_figures_are_those_of_the_shared_queries(both):
    page = compared(both)
    old, new = values_of(both / "old"), values_of(both / "new")
    for data in ("cranfield", "python-docs"):
        rows = page.tables[f"{data}, nDCG@10: new compared with old"]
        assert rows[0][:5] == ["method", "old", "new", "difference", "in %"]
        p = {}
        for row in rows[1:]:
            pairs = [[of[data, "nDCG@10", row[0], f"q{q}"] for of in (old, new)] for q in range(30)]
            gains = [b - a for a, b in pairs]
            means = [fmean(a for a, _ in pairs), fmean(b for _, b in pairs), fmean(gains)]
            assert [number(text) for text in row[1:4]] == pytest.approx(means, abs=5.1e-5)
            low, high = (number(end) for end in row[5].split(" … "))
            assert low < means[2] < high
            assert [int(n) for n in row[6].split("/")] == [
                sum(g > 1e-12 for g in gains),
                0,
                sum(g < -1e-12 for g in gains),
            ]
            p[row[0]] = stats.wilcoxon(gains).pvalue
        order = sorted(p, key=p.get)
        for row in rows[1:]:
            rank = order.index(row[0])
            holm = min(1.0, max(p[order[at]] * (len(p) - at) for at in range(rank + 1)))
            assert number(row[7].replace("<", "")) == pytest.approx(holm, abs=1e-4)


def test_what_the_page_draws(both):
    page = compared(both)
    assert (page.data["before"], page.data["after"]) == ("old", "new")
    one = page.data["data"][0]
    old, new = values_of(both / "old"), values_of(both / "new")
    for key, values in (("before", old), ("values", new)):
        expected = [values["cranfield", "AP", "svm-map", query] for query, _, _ in one["queries"]]
        assert one[key][0][one["methods"].index("svm-map")] == pytest.approx(expected, rel=1e-5)
    systems = one["rankings"]["systems"]
    assert systems[0] == ["bm25, old", 0, 0]
    assert systems[len(METHODS)] == ["bm25, new", 0, 1]
    assert {len(row[3]) for row in one["rankings"]["queries"]} == {2 * len(METHODS)}


def test_what_only_one_folder_has(both):
    rewrite(both / "old", lambda rows: [row for row in rows if ",svm-mrr," not in row and ",RR," not in row])
    rewrite(
        both / "new", lambda rows: [row.replace("python-docs", "other") for row in rows if ",lambdamart," not in row]
    )
    text = words(compared(both))
    for said in (
        "data sets only in old: python-docs",
        "data sets only in new: other",
        "methods only in old: lambdamart",
        "methods only in new: svm-mrr",
        "measures only in new: RR",
        "cranfield: queries only in new: 10, left out",
    ):
        assert said in text
    assert "queries only in old" not in text


def test_the_same_values_are_called_so(tmp_path):
    write_results(tmp_path / "old", n_queries=20)
    write_results(tmp_path / "new", n_queries=20)
    text = words(compared(tmp_path))
    assert text.startswith(
        "new and old have the same values in AP: 10 pairs of method and data set are equal on every query."
    )
    assert "Only in one folder" not in text
    assert "The manifests do not say of any difference" in text


def shifted(row, by, methods):
    head, _, value = row.rpartition(",")
    return f"{head},{float(value) + by * any(f',{method},' in row for method in methods)}"


@pytest.mark.parametrize(
    ("by", "methods", "said"),
    [
        (
            0.1,
            ["svm-map"],
            "1 of 5 methods is significantly better in new than in old, none is worse in AP; 4 are equal on",
        ),
        (
            -0.1,
            ["svm-map", "bm25"],
            "2 of 5 methods are significantly worse in new than in old, none is better in AP; 3 are",
        ),
        (
            0.1,
            list(METHODS),
            "5 of 5 methods are significantly better in new than in old, none is worse in AP. Largest",
        ),
    ],
)
def test_the_verdict_counts_methods(tmp_path, by, methods, said):
    for name in ("old", "new"):
        write_results(tmp_path / name, data=("a",), n_queries=30)
    rewrite(tmp_path / "new", lambda rows: [shifted(row, by, methods) for row in rows])
    text = words(compared(tmp_path))
    assert text.startswith(said)
    assert f"a difference of {by:+.4f}".replace("-", "−") in text
    assert "after Holm's correction for 5 methods)." in text


def test_one_method_has_a_sentence_of_its_own(tmp_path):
    for name, gain in (("old", 0.0), ("new", 0.05)):
        (tmp_path / name).mkdir()
        rows = [f"x,{q},AP,{0.02 * q + gain}" for q in range(20)]
        (tmp_path / name / "per_query.csv").write_text("\n".join(["method,query,measure,value", *rows]) + "\n")
    text = words(compared(tmp_path))
    assert text.startswith(
        "x is significantly better in new than in old: AP 0.2400 against 0.1900, a difference of +0.0500"
    )
    rewrite(tmp_path / "new", lambda rows: [f"x,{q},AP,{0.02 * q + 0.01 * (-1) ** q}" for q in range(20)])
    assert words(compared(tmp_path)).startswith("x does not differ significantly in new from old: ")


def test_what_was_changed_and_what_makes_values_incomparable(both):
    manifests = {name: json.loads((both / name / "manifest.json").read_text()) for name in ("old", "new")}
    for name, C, content in (("old", 1, "aa"), ("new", 10, "bb")):
        manifest = manifests[name] | {
            "methods": [{"name": "svm-map", "parameters": {"C": C}, "choose_by": "AP"}],
            "data": [{"name": "cranfield", "content": content, "queries": 30, "files": {"x": name}}],
            "seed": 7,
        }
        manifest["versions"]["rankwright"] = f"0.{C}"
        manifest["definitions"]["cranfield"][1] = f"nDCG@10: gain of {name}"
        (both / name / "manifest.json").write_text(json.dumps(manifest))
    page = compared(both)
    assert page.tables["What differs in what was run"] == [
        ["setting", "old", "new"],
        ["versions rankwright", "0.1", "0.10"],
        ["method svm-map: parameters C", "1", "10"],
        ["data cranfield: content", "aa", "bb"],
    ]
    text = words(page)
    assert (
        "cranfield: nDCG@10 is defined differently (gain of old; gain of new): its values are not comparable." in text
    )
    assert "cranfield: the data differ, so differences need not come from the methods." in text
    assert text.index("Largest change") < text.index("is defined differently") < text.index("No significant difference")


def test_names_of_folders_that_end_alike(tmp_path):
    write_results(tmp_path / "a" / "results", data=("a",), n_queries=10)
    write_results(tmp_path / "b" / "results", data=("a",), n_queries=10, seed=1)
    text = write_comparison(tmp_path / "a" / "results", tmp_path / "b" / "results", tmp_path / "c.html").read_text()
    assert "<h1>b/results compared with a/results</h1>" in text
    titled = write_comparison(tmp_path / "a" / "results", tmp_path / "b" / "results", tmp_path / "c.html", title="<T>")
    assert "<h1>&lt;T&gt;</h1>" in titled.read_text()


def test_everything_is_escaped_and_nothing_is_fetched(both):
    for name in ("old", "new"):
        quoted = '"' + EVIL.replace('"', '""') + '"'
        rewrite(both / name, lambda rows, quoted=quoted: [row.replace("svm-map", quoted) for row in rows])
    page = compared(both)
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert EVIL in page.data["methods"]
    assert all(a[name].startswith("#") for _, a in page.elements for name in ("src", "href") if name in a)
    again = (both / "c.html").read_bytes()
    compared(both)
    assert (both / "c.html").read_bytes() == again


def test_bad_input_is_one_line(both):
    target = both / "c.html"
    for first, second, said in (
        (both / "old", both / "old", "old: is given twice; expected two different results folders"),
        (both / "old", both / "nowhere", "nowhere: not a folder; expected the results of an experiment"),
        (both, both / "old", "has no per_query.csv; expected the results of an experiment"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            write_comparison(first, second, target)
    rewrite(both / "new", lambda rows: [row.replace("cranfield", "x").replace("python-docs", "y") for row in rows])
    with pytest.raises(InputError, match="new: has no data set, method and query in common with"):
        write_comparison(both / "old", both / "new", target)
    assert not target.exists()
    with pytest.raises(InputError, match="cannot be written"):
        write_comparison(both / "old", both / "new", both / "no" / "c.html")


def test_settings_of_methods_with_a_colon_and_the_experiment_files(both):
    entries = {
        name: {"methods": [{"name": "adapt:auto", "parameters": {"leaves": leaves}}, {"name": f"only {name}"}]}
        for name, leaves in (("old", 4), ("new", 8))
    }
    for name, entry in entries.items():
        manifest = json.loads((both / name / "manifest.json").read_text())
        (both / name / "manifest.json").write_text(json.dumps(manifest | entry))
    page = compared(both)
    assert ["method adapt:auto: parameters leaves", "4", "8"] in page.tables["What differs in what was run"]
    assert not any("only" in row[0] for row in page.tables["What differs in what was run"])
    assert "The experiment files" not in words(page)
    for name, leaves in (("old", 4), ("new", 8)):
        (both / name / "experiment.toml").write_text(f"# <b>{EVIL}\nleaves = {leaves}\n")
    text = (both / "c.html").read_text()
    assert "The experiment files" not in text
    page = compared(both)
    text = (both / "c.html").read_text()
    assert "<del>-leaves = 4</del>" in text
    assert "<ins>+leaves = 8</ins>" in text
    assert "<b>" + EVIL not in text
