"""Results are data: files of figures, the code behind them, the pages made from them, and ten figures run again."""

import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import code_hash
import experiment_figures
import figures
import page_templates
import results
import study_small
from experiments.experiment_files import write_all, write_experiment
from figures import Results, Table, read_results, result_files, write_results
from page_templates import PAGES, Grid, page_of, rendered
from rankwright.errors import InputError
from rankwright.experiments import run_experiment

TEMPLATES = sorted(PAGES.rglob("*.md"))
NAMES = [path.stem for path in result_files()]
METHODS = ("a", "b", "c")
SAMPLE = 10


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.relative_to(PAGES).as_posix())
def test_pages_are_what_their_templates_and_figures_make(template):
    assert page_of(template).read_text(encoding="utf-8") == rendered(template), "run: make pages"


@pytest.mark.parametrize("name", NAMES)
def test_figures_name_no_path_of_a_machine(name):
    found = read_results(name)
    paths = [path for path in (*found.code, *found.data) if path.startswith("/") or "__pycache__" in path]
    assert not paths
    assert all((code_hash.ROOT / path).is_file() for path in set(found.code).difference(found.changed()))


def test_nothing_is_run_to_find_what_is_out_of_date(capsys, monkeypatch):
    monkeypatch.setattr(results.subprocess, "run", lambda *_, **__: pytest.fail("something runs"))
    assert results.main(["check"]) == 0
    said = capsys.readouterr().out
    older = [name for name in NAMES if read_results(name).changed()]
    assert [name for name in NAMES if f"results/{name}.json: older than" in said] == older


def test_ten_figures_drawn_at_random_are_what_the_code_gives():
    seed = random.SystemRandom().randrange(10**6)
    cells = read_results("study_small")["cells"]
    assert len(cells.rows) * len(study_small.MEASURES) > 400
    drawn = random.Random(seed)
    for _ in range(SAMPLE):
        (data, split, method), measure = drawn.choice(cells.rows)[:3], drawn.choice(study_small.MEASURES)
        value = study_small.cell(data, int(split), method)[measure]
        told = f"random.Random({seed}): {measure} of {method} on {data}, split {split}"
        assert figures.kept(value) == cells[data, split, method, measure], told


# Files


def write(path, tables, **changed):
    about = {"command": "x", "code": {"b": "2", "a": "1"}, "data": {}, "cpu_seconds": 1.26}
    write_results(path, **{**about, "tables": tables, **changed})
    return json.loads(path.read_text())


def test_files_have_rounded_numbers_in_order_and_no_nan(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    rows = [["x", 1 / 3, np.float32(2.5), 3], ["y", float("nan"), 1e-12 / 7, 123_456_789]]
    table = Table("t", ["name", "p", "q", "n"], rows, ["", "p", "short", "integer"])
    found = write(tmp_path / "one.json", [table], values={"v": np.int64(7), "w": [0.1 + 0.2, None, True]})
    assert found["tables"]["t"]["rows"] == [["x", 0.333333, 2.5, 3], ["y", None, 1.42857e-13, 123_456_789]]
    assert found["values"] == {"v": 7, "w": [0.3, None, True]}
    assert list(found["code"]) == ["a", "b"]
    text = (tmp_path / "one.json").read_text()
    assert text.endswith("}\n")
    assert '\n    ["x", 0.333333, 2.5, 3],\n' in text
    assert read_results("one")["t"]["x", "q"] == 2.5
    assert str(read_results("one")["t"]).splitlines()[2:] == [
        "| x | .33 | 2.5000 | 3 |",
        "| y |  | .0000 | 123,456,789 |",
    ]


def test_files_that_are_missing_or_damaged_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    with pytest.raises(InputError, match=r"no such file; .*results.py run nothing"):
        read_results("nothing")
    (tmp_path / "old.json").write_text('{"schema": 0, "tables": {}}')
    with pytest.raises(InputError, match="not a file of figures"):
        read_results("old")
    with pytest.raises(ValueError, match="two tables are called 't'"):
        write(tmp_path / "two.json", [Table("t", ["x"], []), Table("t", ["x"], [])])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table("t", ["a", "b"], [["x"]]), "1 cells in a row; expected 2"),
        (lambda: Table("t", ["a"], [], "shorter"), "formats .'shorter'.; expected one a column"),
        (lambda: Table("t", ["a", "b"], [["x", 1]])["y", "b"], "0 rows begin with y"),
        (lambda: Table("t", ["a", "b"], [["x", 1]])["x", "c"], "no column 'c'; expected one of a, b"),
    ],
)
def test_mistakes_in_tables_are_told(make, message):
    with pytest.raises((KeyError, ValueError), match=message):
        make()


def test_tables_are_cut_spread_and_shown():
    table = Table("t", ["data", "method", "AP"], [["d", "a", 0.5], ["d", "b", 0.25], ["e", "a", None]], "short")
    assert table.column("AP", "d") == [0.5, 0.25]
    assert table.where(lambda row: row["method"] == "a").column("data") == ["d", "e"]
    assert table.spread("method", "data", "AP").rows == [["a", 0.5, None], ["b", 0.25, None]]
    shown = figures.markdown(table, bold=["AP"], by="data")
    assert shown.splitlines()[1:] == [
        "| --- | --- | ---: |",
        "| d | a | **.5000** |",
        "| d | b | .2500 |",
        "| e | a |  |",
    ]


STUDY = """
from study_data import Table, run_study

def options(parser):
    parser.add_argument("--times", type=int, default=1)

def pages(root, args):
    text = (root / "some" / "numbers.txt").read_text()
    (root / "others.txt").read_text()
    yield "A page.\\n"
    yield {"times": args.times}
    if args.times:
        yield Table("numbers", ["name", "value"], [["x", args.times * float(text)]], "short")

run_study("A study.", ("some",), pages, options)
"""


def test_studies_write_their_figures_and_the_data_that_they_read(tmp_path):
    (tmp_path / "study_small.py").write_text(STUDY)  # the name of a study, whose code is then behind the figures
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "numbers.txt").write_text("0.123456789")
    (tmp_path / "others.txt").write_text("1")
    command = [sys.executable, str(tmp_path / "study_small.py"), str(tmp_path), "--results", str(tmp_path / "one.json")]
    path = os.pathsep.join((str(code_hash.STUDIES), str(code_hash.ROOT / "src")))
    env = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run([*command, "--times", "2"], capture_output=True, text=True, env=env, check=True)
    assert ran.stdout.splitlines() == ["A page.", "", "| name | value |", "| --- | ---: |", "| x | .2469 |", ""]
    found = json.loads((tmp_path / "one.json").read_text())
    assert found["tables"]["numbers"]["rows"] == [["x", 0.246914]]
    assert found["values"] == {"times": 2}
    assert found["data"] == {"some/numbers.txt": figures.file_hash(tmp_path / "some" / "numbers.txt")}
    assert found["code"] == code_hash.code_of("study_small")
    ran = subprocess.run([*command, "--times", "0"], capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 2
    assert "hands over no tables of numbers yet" in ran.stderr


# The code behind figures


def test_hashes_of_code_ignore_comments_docstrings_and_formatting(tmp_path):
    texts = {
        "first": 'def f(x, y):\n    return x + f"{y}a"\n',
        "formatted": '"""A module."""\n# why\ndef f(\n    x, y\n):\n    """Return."""\n    return (x + f\'{y}\' "a")\n',
        "other": 'def f(x, y):\n    return y + f"{x}a"\n',
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    hashes = {name: code_hash.syntax_hash(tmp_path / f"{name}.py") for name in texts}
    assert hashes["first"] == hashes["formatted"] != hashes["other"]


@pytest.mark.parametrize(
    ("name", "reached", "not_reached"),
    [
        (
            "study_ramp",
            "maxmargin/ramp.py maxmargin/start.py nets/lambda_rank.py text/features.py measures/rbp.py",
            "boosting/grow.py cli/main.py",
        ),
        ("study_lambda_mart", "boosting/grow.py boosting/lambdas.py", "maxmargin/structured_svm.py gpu/trees.py"),
        (
            "sigir07",
            "maxmargin/accuracy.py experiments/cells.py",
            "boosting/grow.py adaptation/ways.py cli/experiment.py",
        ),
        ("emnlp09", "adaptation/ways.py boosting/grow.py nets/model.py", "reports/report.py serving/app.py"),
    ],
)
def test_code_behind_figures_is_what_imports_lead_to(name, reached, not_reached):
    files = code_hash.code_of(name)
    assert {f"src/rankwright/{path}" for path in reached.split()} <= set(files)
    assert not {f"src/rankwright/{path}" for path in not_reached.split()} & set(files)
    assert list(files) == sorted(files)


def test_changes_of_code_and_of_data_are_told(tmp_path):
    code = code_hash.code_of("study_small")
    (tmp_path / "data.txt").write_text("1\n")
    data = {"data.txt": figures.file_hash(tmp_path / "data.txt")}
    same = Results("study_small", "", {}, code, data, 1.0)
    assert (same.changed(), same.changed_data(tmp_path)) == ([], [])
    first, *_ = code
    older = Results("study_small", "", {}, {**code, first: "0", "src/gone.py": "1"}, {"gone.txt": "2", **data}, 1.0)
    assert older.changed() == [first, "src/gone.py"]
    assert older.changed_data(tmp_path) == ["gone.txt"]


# Pages


@pytest.fixture
def template(tmp_path, monkeypatch):
    """Return a function that makes a page of a template, with figures of which one file is out of date."""
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    monkeypatch.setattr(page_templates, "ROOT", tmp_path)
    rows = [["d", "a", 0.5], ["d", "b", 0.25]]
    write(tmp_path / "one.json", [Table("t", ["data", "method", "AP"], rows, "short")], code={"x.py": "1"})
    monkeypatch.setattr(figures, "code_of", lambda name: {"x.py": "2"})

    def make(text):
        (tmp_path / "page.md").write_text(text)
        return rendered(tmp_path / "page.md")

    return make


def test_templates_become_pages(template):
    page = template(
        "# Page\n\n{%\nt = results('one')['t']\nmeans = Grid.of(t)\nby_hand('study_x')\n%}\n"
        "{{ t.columns('method', 'AP') }}\n\n"
        "Best: {{ number(means.count_best('a')) }}, {{ holds(t['d', 'a', 'AP'] < 0.1) }}, {{ span(t.column('AP')) }}.\n"
    )
    assert page.splitlines() == [
        *("<!-- made from page.md; edit that -->", "", "# Page", ""),
        *("| method | AP |", "| --- | ---: |", "| a | .5000 |", "| b | .2500 |", ""),
        *("Best: one, does not hold, .2500 to .5000.", ""),
        "*Figures of version 0.1.0, older than `x.py`, run `make results`; CPU time in brackets: `results/one.json` "
        "(1 s). Written by hand, not checked: those of `benchmarks/study_x.py`.*",
    ]


def test_a_page_that_cannot_be_made_stops_no_other(template, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "PAGES", tmp_path / "pages")
    monkeypatch.setattr(results, "page_of", lambda path: tmp_path / "docs" / path.name)
    for folder in ("pages", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pages" / "a.md").write_text("{{ nothing }}\n")
    (tmp_path / "pages" / "b.md").write_text("{{ results('one')['t'] }}\n")
    assert results.main(["pages"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("wrote ")
    assert "this page cannot be made, all others are: " in shown.err
    assert "pages/a.md:1: nothing: NameError" in shown.err
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["b.md"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ nothing }}", "page.md:2: nothing: NameError"),
        ("{{ results('one')['t']['d', 'c', 'AP'] }}", "0 rows begin with d, c"),
        ("{{ results('one')['u'] }}", "one has no table 'u'; expected one of t"),
        ("{{ 0.1 }}", "0.1 is not text, a whole number or a table; format it"),
        ("{{ short(float('nan')) }}", "shows nan or inf"),
        ("{% import os %}", "ImportError"),
        ("{{ open('x') }}", "NameError"),
        ("{{ results('two') }}", "no such file"),
    ],
)
def test_mistakes_in_templates_are_told_with_their_line(template, text, message):
    with pytest.raises(InputError) as error:
        template(f"\n{text}\n")
    assert message in str(error.value)


def test_grids_know_what_is_best():
    rng = np.random.default_rng(0)
    rows = [[data, method, *np.round(rng.random(2), 1)] for data in "de" for method in METHODS]
    table = Table("t", ["data", "method", "AP", "RR"], rows, "short")
    grid = Grid.of(table)
    columns = [(data, measure) for data in "de" for measure in ("AP", "RR")]
    assert grid.columns == columns
    for data, measure in columns:
        values = {method: table[data, method, measure] for method in METHODS}
        assert grid.best((data, measure)) == {m for m, value in values.items() if value == max(values.values())}
    assert grid.count_best(*METHODS) == 4
    assert grid.count_best("a") == sum("a" in grid.best(column) for column in columns)
    assert grid.difference("a", "b") == [table[d, "a", m] - table[d, "b", m] for d, m in columns]
    assert min(grid.behind(*METHODS)) == 0
    assert grid.only(["a"], measure="RR").values == {
        "a": {("d", "RR"): table["d", "a", "RR"], ("e", "RR"): table["e", "a", "RR"]}
    }


def test_numbers_and_lists_in_sentences():
    assert [page_templates.number(n) for n in (0, 3, 13, 1234)] == ["none", "three", "13", "1,234"]
    assert [page_templates.listed(words) for words in ((), "a", "ab", "abc")] == ["none", "a", "a and b", "a, b and c"]
    assert page_templates.span([0.12341, 0.12342]) == ".1234"
    assert page_templates.spent(83.2) == "83 s"
    assert page_templates.spent(1800) == "30 minutes"


# Experiments


def test_figures_of_an_experiment_are_those_of_its_results(tmp_path):
    write_all(tmp_path)
    found = run_experiment(write_experiment(tmp_path))
    tables = {table.name: table for table in experiment_figures.figures(found)}
    first, second = (one for one in found.evaluations("all"))
    assert tables["means"]["all", "svm-map", "AP"] == second.means["AP"]
    assert tables["means"]["all", "svm-map", "trained for"] == "AP"
    (row,) = tables["differences"].where(lambda row: row["measure"] == "nDCG@5").rows
    aligned = [one.values[np.argsort(one.query_ids)] for one in (first, second)]
    change = np.round(aligned[1] - aligned[0], 12)
    assert row[3] == pytest.approx(change[:, 1].mean())
    assert row[4:6] == [(change[:, 1] > 0).sum(), (change[:, 1] < 0).sum()]
    expected = stats.wilcoxon(change[:, 0][change[:, 0] != 0], correction=False, method="asymptotic").pvalue
    assert tables["p of pairs"]["all", "first", "svm-map"] == pytest.approx(expected, rel=0.2)
    assert sum(tables["chosen"].column("splits", "all", "svm-map")) == 3
    assert tables["health"]["all", "svm-map", "C"] == 10
    assert experiment_figures.checksums(found.manifest["data"], tmp_path) == {
        "all.txt": figures.file_hash(tmp_path / "all.txt")
    }


def test_experiments_are_run_resumed_and_written(tmp_path, monkeypatch):
    for module in (experiment_figures, figures):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(experiment_figures, "EXPERIMENTS", tmp_path)
    monkeypatch.setattr(experiment_figures, "code_of", lambda name: {"x.py": "1"})
    write_all(tmp_path)
    write_experiment(tmp_path)
    experiment_figures.run("exp", tmp_path, 1)
    first = read_results("exp")
    experiment_figures.run("exp", tmp_path, 1)
    again = read_results("exp")
    assert first["means"] == again["means"]
    assert again.cpu_seconds >= first.cpu_seconds
    assert list(first.data) == ["all.txt"]
    shutil.rmtree(tmp_path / "exp-results")
