"""`rankwright experiment`: written, checked, run, shown; exit codes."""

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.experiment_files import TRIALS, write_all, write_experiment

from rankwright import RankingData, read_run
from rankwright.cli import main as program
from rankwright.experiments import running
from rankwright.io.letor import write_letor


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path)
    write_experiment(tmp_path)
    return tmp_path


def run(capsys, *args):
    code = program.main(["experiment", *args])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_init_writes_an_example_that_checks(folder, capsys):
    code, _, err = run(capsys, "init", "new.toml")
    assert (code, err) == (0, "wrote new.toml; next: rankwright experiment run new.toml\n")
    text = (folder / "new.toml").read_text()
    assert "rankwright experiment check new.toml " in text
    assert run(capsys, "check", "new.toml")[0] == 0
    code, _, err = run(capsys, "init", "new.toml")
    assert (code, err) == (2, "rankwright: new.toml: exists; expected the name of a new file\n")
    assert run(capsys, "init")[0] == 0
    assert (folder / "experiment.toml").is_file()


def test_check_shows_all_mistakes(folder, capsys):
    code, out, err = run(capsys, "check", "exp.toml")
    assert (code, err) == (0, "")
    assert out == "exp.toml: no mistakes found; 1 data set, 2 methods, 2 measures, results in exp-results\n"
    write_experiment(folder, TRIALS.replace("measures", "mesures").replace("C = [0.1, 1, 10]", "D = []"))
    code, out, err = run(capsys, "check", "exp.toml")
    assert (code, out) == (2, "")
    first, second, third, last = err.splitlines()
    assert first == "exp.toml:3: unknown key 'mesures' in [experiment]; did you mean measures?"
    assert second == "exp.toml:26: the grid of D is empty; expected at least one value"
    assert third.startswith("exp.toml:26: svm-map has no parameter 'D'; ")
    assert last == "rankwright: exp.toml: 3 mistakes"
    assert not (folder / "exp-results").exists()
    assert run(capsys, "run", "exp.toml")[0] == 2


def test_run_and_table(folder, capsys):
    code, out, err = run(capsys, "run", "exp.toml", "--threads", "1")
    assert code == 0
    assert out.splitlines()[0].split() == ["data", "method", "AP", "w/l", "nDCG@5", "w/l"]
    assert err.startswith("6 of 6 cells in exp-results (")
    assert run(capsys, "table", "exp-results")[1] == out
    code, out, _ = run(capsys, "table", "exp-results", "--kind", "criterion", "--format", "markdown")
    assert code == 0
    assert "| all | AP | svm-map | **" in out
    code, _, err = run(capsys, "table", "nowhere")
    assert (code, err.startswith("rankwright: nowhere: not a results folder")) == (2, True)
    assert run(capsys, "run", "exp.toml", "--threads", "1", "-o", "other")[0] == 0
    assert (folder / "other" / "runs.csv").is_file()


def test_report(folder, capsys):
    assert run(capsys, "run", "exp.toml", "--threads", "1")[0] == 0
    code, _, err = run(capsys, "report", "exp-results", "--title", "My <title>")
    assert (code, err) == (0, "wrote exp-results/report.html\n")
    page = (folder / "exp-results" / "report.html").read_text()
    assert "My &lt;title&gt;" in page
    assert "svm-map" in page
    assert run(capsys, "report", "nowhere")[0] == 2


def test_failures_are_told(folder, capsys):
    write_experiment(folder, TRIALS + '[[method]]\nmethod = "feature:nothing"\n')
    code, out, err = run(capsys, "run", "exp.toml", "--threads", "1")
    assert code == 1
    assert "3 of 9 cells are missing" in out
    assert "rankwright: 3 cells failed:" in err
    reason = "no feature 'nothing'; expected a number from 1 to 4"
    assert f"  feature:nothing on all, split 2: {reason}\n" in err


def test_an_interruption_says_how_to_go_on(folder, capsys, monkeypatch):
    def pressed(cell):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_cell", pressed)
    code, _, err = run(capsys, "run", "exp.toml", "--threads", "1")
    assert code == 130
    assert "finished results are in exp-results; run the same command again to resume" in err


def test_an_interrupted_extension_says_where_its_results_are(folder, capsys, monkeypatch):
    run(capsys, "run", "exp.toml", "--threads", "1")
    before = run(capsys, "table", "exp-results")[1]

    def pressed(cell):
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_cell", pressed)
    text = Path("exp.toml").read_text() + '[[method]]\nname = "second"\nmethod = "feature:2"\n'
    Path("exp.toml").write_text(text)
    code, _, err = run(capsys, "run", "exp.toml", "--threads", "1")
    assert code == 130
    where = "those of the changed file so far are in exp-results/unfinished\nrun the same command again to resume"
    assert where in err
    code, out, err = run(capsys, "table", "exp-results")
    assert (code, out) == (0, before)
    assert "exp-results/unfinished" in err
    assert "of 9 cells are missing" in run(capsys, "table", "exp-results/unfinished")[1]


def test_runs_on_request(folder, capsys):
    code, _, err = run(capsys, "run", "exp.toml", "--threads", "1", "--runs", "annotated")
    assert code == 0
    assert "wrote the rankings to exp-results/runs" in err
    path = next(Path("exp-results/runs").rglob("*.run"))
    assert path.read_text().startswith("# ir_metadata.start\n# tag: ")
    assert "documents" in str(read_run(path))


def test_progress_in_a_log_and_on_a_terminal(folder, capsys, monkeypatch):
    from rankwright.cli import experiment
    from rankwright.cli.printing import harmless

    monkeypatch.setattr(experiment, "_LOG_INTERVAL", 0.0)
    _, _, err = run(capsys, "run", "exp.toml", "--threads", "1")
    assert "reading all\n" in err
    assert "1 of 6 cells, about " in err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with harmless():
        line = experiment._Line()
        line._shown -= 1
        line(running.Status("svm on x, split 1", 3, 1, 9, 4000.0))
        line.clear()
    shown = capsys.readouterr().err
    assert "\r3 of 9 cells, 1 failed, about 67 min left: svm on x, split 1" in shown
    assert shown.endswith(" \r")


def test_help_names_the_commands(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name in ("init", "check", "run", "table", "report"):
        assert name in out
        assert "Example" in run(capsys, name, "--help")[1]


def test_methods_no_better_than_zero_weights_are_named_before_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40 * 14, 5))
    labels = np.digitize(X @ np.linspace(2, -1, 5) + 4.0 * rng.normal(size=len(X)), [1.0, 3.0])
    data = RankingData.from_arrays(X, labels, np.repeat(np.arange(40), 14))
    write_letor(data.select(range(20)), "train.txt")
    write_letor(data.select(range(20, 40)), "test.txt")
    (tmp_path / "exp.toml").write_text(
        '[experiment]\nmeasures = ["AP"]\nbaseline = "svm-map"\n[[data]]\nname = "noisy"\ntrain = "train.txt"\n'
        'test = "test.txt"\n[[method]]\nmethod = "svm-map"\n[[method]]\nmethod = "svm-mrr"\n'
        'parameters = { bound = "hinge", feature_map = "mrr" }\n'
    )
    code, _, err = run(capsys, "run", "exp.toml", "--threads", "1", "-o", "results")
    assert code == 0
    assert (
        "warning: noisy: svm-mrr (1 of 1 training) learnt nothing: for every C tried, its loss stays within 1 %" in err
    )
    assert "svm-map does learn here." in err
    notes = [line for line in (tmp_path / "results" / "runs.csv").read_text().splitlines() if "svm-mrr" in line]
    assert "the model learnt nothing: its loss is 100.0 % of an untrained" in notes[0]
    assert run(capsys, "report", "results", "-o", "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert page.index("the baseline") < page.index("svm-mrr (1 of 1 training) learnt nothing")


def test_two_folders_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, gain in (("old", 0.0), ("new", 0.1)):
        (tmp_path / name).mkdir()
        rows = [f"x,{q},AP,{q / 40 + gain}" for q in range(20)]
        (tmp_path / name / "per_query.csv").write_text("\n".join(["method,query,measure,value", *rows]) + "\n")
    code, out, err = run(capsys, "report", "old", "new")
    assert (code, out, err) == (0, "", "wrote new/comparison.html\n")
    assert "significantly</a> better in new than in old" in (tmp_path / "new" / "comparison.html").read_text()
    assert run(capsys, "report", "old", "new", "-o", "c.html", "--title", "Both")[0] == 0
    assert "<h1>Both</h1>" in (tmp_path / "c.html").read_text()
    code, _, err = run(capsys, "report", "old", "nowhere")
    assert (code, err) == (2, "rankwright: nowhere: not a folder; expected the results of an experiment\n")
    code, _, err = run(capsys, "report", "old", "old/../old")
    assert (code, err) == (2, "rankwright: old/../old: is given twice; expected two different results folders\n")
