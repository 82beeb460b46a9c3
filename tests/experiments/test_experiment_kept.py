"""Scores that are kept: measures without training, finished results that stay, runs; seeds; incomplete results."""

import csv
import json
import shutil

import numpy as np
import pytest
from experiment_files import TRIALS, write_all, write_experiment

from rankwright import evaluate_run, read_data, read_run
from rankwright.errors import InputError
from rankwright.experiments import Results, load_experiment, run_experiment
from rankwright.experiments import running as running_module
from rankwright.experiments.cells import made_of, run_cell
from rankwright.experiments.checks import check_text
from rankwright.experiments.preparing import prepare
from rankwright.io.letor import write_letor
from rankwright.reports import write_report

FOLDS = TRIALS.replace('kind = "trials"\ntrials = 3\ntrain = 10\nvalid = 8\ntest = 12', 'kind = "folds"\nfolds = 3')
MORE = '[[method]]\nname = "second"\nmethod = "feature:2"\n'
NET = '[[method]]\nmethod = "lambdarank"\nparameters = { hidden = 2, epochs = 2 }\n'
SEEDS = FOLDS.replace("baseline =", "seeds = [4, 7]\nbaseline =")


@pytest.fixture
def folder(tmp_path):
    write_all(tmp_path)
    return tmp_path


def stopping(monkeypatch, after):
    """Count the cells that are computed, and press Ctrl-C after some."""
    computed = []

    def counted(cell):
        if len(computed) == after:
            raise KeyboardInterrupt
        computed.append(cell)
        return run_cell(cell)

    monkeypatch.setattr(running_module, "run_cell", counted)
    return computed


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_the_key_of_a_cell_does_not_know_how_it_is_evaluated(folder):
    keys = []
    for text in (
        FOLDS,
        FOLDS.replace('"AP"', '"RR"').replace("baseline =", 'convention = "trec"\nempty = 1\nbaseline ='),
    ):
        experiment = load_experiment(write_experiment(folder, text))
        prepared = prepare(experiment.data[0], folder / "cache")
        keys.append([made_of(cell, prepared.content) for cell in running_module._cells(experiment, [prepared])])
    assert keys[0] == keys[1]
    assert len({json.dumps(key, sort_keys=True) for key in keys[0]}) == 6


def test_finished_results_stay_when_their_extension_is_interrupted(folder, monkeypatch):
    path = write_experiment(folder, FOLDS)
    done = run_experiment(path)
    before, table = contents(done.folder), done.table()
    path.write_text(FOLDS + MORE)
    stopping(monkeypatch, after=2)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(path)
    assert contents(done.folder) == before
    assert Results.open(done.folder).table() == table
    newer = Results.open(done.folder / "unfinished")
    assert newer.manifest["cells"] == {"total": 9, "done": 8, "failed": 0, "missing": 1}
    assert "1 of 9 cells are missing" in newer.table()
    write_report(newer.folder, newer.folder / "report.html")
    stopping(monkeypatch, after=9)
    results = run_experiment(path)
    assert results.folder == done.folder
    assert results.methods == ["first", "svm-map", "second"]
    assert [entry.name for entry in newer.folder.iterdir()] == ["report.html"]  # which is not ours to delete


def test_finished_results_stay_when_a_new_method_fails(folder):
    path = write_experiment(folder, FOLDS)
    before = contents(run_experiment(path).folder)
    path.write_text(FOLDS + MORE.replace("feature:2", "feature:77"))
    results = run_experiment(path)
    assert [failure["method"] for failure in results.failures] == ["second"] * 3
    assert results.folder.name == "unfinished"
    assert contents(results.folder.parent) == before


def test_fewer_cells_do_not_replace_more(folder, monkeypatch):
    path = write_experiment(folder, FOLDS + MORE)
    stopping(monkeypatch, after=5)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(path)
    results = Results.open(folder / "exp-results")
    assert results.manifest["cells"]["done"] == 5
    path.write_text((FOLDS + MORE).replace("10]", "20]"))
    stopping(monkeypatch, after=1)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(path)
    assert Results.open(folder / "exp-results").manifest["cells"]["done"] == 5
    assert Results.open(folder / "exp-results" / "unfinished").manifest["cells"]["done"] == 4  # 3 features, 1 trained


def test_a_damaged_cell_is_named(folder):
    results = run_experiment(write_experiment(folder, FOLDS))
    path = next(iter((results.folder / "cells").iterdir()))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"not a finished cell .*delete it and run again") as error:
        run_experiment(folder / "exp.toml")
    assert error.value.path == path


def test_incomplete_results_are_compared_on_what_all_methods_have(folder, monkeypatch):
    stopping(monkeypatch, after=5)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(write_experiment(folder, FOLDS + MORE))  # the second split lacks "second", the third all
    results = Results.open(folder / "exp-results")
    frame = results.per_query()
    frame = frame[(frame["split"] == 1) & (frame["measure"] == "AP")]
    for one in results.evaluations("all"):
        assert sorted(one.query_ids) == sorted(frame[frame["method"] == one.name]["query"])
        assert one.means["AP"] == pytest.approx(frame[frame["method"] == one.name]["value"].mean())
    text = results.table()
    assert "all: 10 queries\n" in text
    note = "compared on 10 of 20 queries, in 1 of 2 splits: those that every method has (incomplete: second)"
    assert f"all: {note}" in text
    assert {row.queries for row in results.compare("all").differences} == {10}
    page = write_report(results.folder, folder / "r.html").read_text()
    assert note in page
    assert "means over 10 queries" in page


def test_a_method_without_a_common_query_is_left_out(folder):
    results = run_experiment(write_experiment(folder, FOLDS + MORE))
    path = results.folder / "per_query.csv"
    head, *rows = path.read_text().splitlines()
    kept = {"first": "1", "svm-map": "1", "second": "2"}
    path.write_text("\n".join([head, *(row for row in rows if row.split(",")[1] == kept[row.split(",")[2]])]) + "\n")
    few = Results.open(results.folder)
    assert [one.name for one in few.evaluations("all")] == ["first", "svm-map"]
    assert "left out, as they have too few of the queries that the others have (10): second (0)" in few.table()


def test_seeds(folder, monkeypatch):
    computed = stopping(monkeypatch, after=99)
    results = run_experiment(write_experiment(folder, SEEDS + NET))
    assert results.manifest["seeds"] == [4, 7]
    names = [cell.spec.name for cell in computed]
    assert (names.count("first"), names.count("lambdarank")) == (3, 6)  # a single feature has no seed
    alone = run_experiment(
        write_experiment(folder, FOLDS.replace("baseline =", "seed = 7\nbaseline =") + NET, "7.toml")
    )
    frame, other = results.per_query(), alone.per_query()
    assert list(frame.columns) == ["data", "split", "seed", "method", "query", "measure", "value"]
    assert set(frame["seed"]) == {4, 7}
    assert set(frame.groupby("seed")["query"].nunique()) == {30}
    splits = frame.groupby(["query", "method"])["split"].nunique()  # are the same with every seed
    assert set(splits) == {1}
    assert "seed" not in other.columns
    values = {}
    for row in frame[frame["measure"] == "AP"].itertuples():
        values.setdefault((row.method, row.query), {})[row.seed] = row.value
    for one in results.evaluations("all"):
        expected = [np.mean(list(values[one.name, query].values())) for query in one.query_ids]
        np.testing.assert_allclose(one.column("AP"), expected)
        means = [np.mean([of[seed] for (m, _), of in values.items() if m == one.name]) for seed in (4, 7)]
        assert f"{one.means['AP']:.4f} ±{np.std(means, ddof=1):.4f}" in results.table()
    row = next(
        csv.DictReader(results.table("means", "csv").splitlines()[:1] + results.table("means", "csv").splitlines()[-2:])
    )
    assert float(row["sd_seeds"]) > 0
    assert "± is the standard deviation" in write_report(results.folder, folder / "r.html").read_text()
    for name in ("runs", "paths", "rounds", "health", "rankings"):
        assert getattr(results, name)()["seed"].isin([4, 7]).all()


def test_a_seed_gives_what_it_gives_alone(folder):
    both = run_experiment(write_experiment(folder, SEEDS.replace("[4, 7]", "[0, 3]") + NET)).per_query()
    alone = run_experiment(write_experiment(folder, FOLDS + NET, "alone.toml")).per_query()
    both = both[both["seed"] == 0].drop(columns="seed").reset_index(drop=True)
    assert both.equals(alone)


@pytest.mark.parametrize("seeds", ["[]", "[1, 1]", "[1.5]", "[-1]", "3", '["a"]'])
def test_wrong_seeds(folder, seeds):
    text = TRIALS.replace("baseline =", f"seeds = {seeds}\nbaseline =")
    _, (problem,) = check_text(text, folder / "exp.toml")
    assert "expected a list of different integers of at least 0" in problem.message
    assert problem.line == 4


@pytest.mark.parametrize("runs", ["plain", "annotated"])
def test_runs_have_the_values_of_the_results(folder, runs):
    results = run_experiment(write_experiment(folder, FOLDS), runs=runs)
    frame = results.per_query()
    qrels = {}
    data = read_data(folder / "all.txt")
    for query, document, label in zip(data.qid, data.doc_ids, data.labels, strict=True):
        qrels.setdefault(query, {})[document] = int(label)
    for split in (1, 2, 3):
        path = results.folder / "runs" / "all" / "svm-map" / f"split{split}.run"
        lines = path.read_text().splitlines()
        run = read_run(path)
        tested = {query: qrels[query] for query in run.query_ids.tolist()}
        values = evaluate_run(tested, run, ["AP"], convention="letor")
        of = frame[(frame["split"] == split) & (frame["method"] == "svm-map") & (frame["measure"] == "AP")]
        assert dict(zip(values.query_ids, values.values[:, 0], strict=True)) == pytest.approx(
            dict(zip(of["query"], of["value"], strict=True))
        )
        if runs == "plain":
            assert all(len(line.split()) == 6 for line in lines)
            continue
        head = lines[1 : lines.index("# ir_metadata.end")]
        assert lines[0] == "# ir_metadata.start"
        facts = {key: json.loads(value) for key, _, value in (line[2:].partition(": ") for line in head)}
        assert facts["method"]["learning to rank"]["chosen"].keys() == {"C"}
        assert facts["research goal"]["evaluation"]["baseline"] == ["first"]
    with pytest.raises(InputError, match="expected plain or annotated"):
        run_experiment(folder / "exp.toml", runs="some")


def test_one_definition_in_one_column(folder):
    data = read_data(folder / "all.txt")
    write_letor(data, folder / "other.txt")
    results = run_experiment(write_experiment(folder, FOLDS + '[[data]]\nname = "other"\nfeatures = "other.txt"\n'))
    assert results.table().split("\n")[0].split() == ["data", "method", "AP", "w/l", "nDCG@5", "w/l"]
    manifest = json.loads((results.folder / "manifest.json").read_text())
    manifest["conventions"]["other"] = "trec"
    (results.folder / "manifest.json").write_text(json.dumps(manifest))
    mixed = Results.open(results.folder)
    head, _, first, *_ = mixed.table("means", "markdown").splitlines()
    assert "nDCG(dcg='exp-log2')@5" in head
    assert "nDCG(dcg='log2')@5" in head
    assert [cell.strip() for cell in first.split("|")][7] == "–"


def test_tables_of_pairs_splits_and_changes(folder):
    results = run_experiment(write_experiment(folder, FOLDS + MORE))
    pairs = list(csv.DictReader(results.table("pairs", "csv").splitlines()))
    assert len(pairs) == 2 * 3
    assert float(pairs[0]["difference"]) == pytest.approx(
        results.evaluations("all")[0].means["AP"] - results.evaluations("all")[1].means["AP"]
    )
    splits = list(csv.DictReader(results.table("splits", "csv").splitlines()))
    frame = results.per_query()
    means = frame.groupby(["measure", "split", "method"])["value"].mean()
    assert len(splits) == 2 * 3
    for row in splits:
        for method in results.methods:
            assert float(row[method]) == pytest.approx(means[row["measure"], int(row["split"]), method])
    changed = {row["method"]: row["changed"] for row in csv.DictReader(results.table("ablation", "csv").splitlines())}
    assert changed["second"] == "method = feature:2"
    assert changed["first"] == ""
    assert "grid C = [0.1, 1, 10]" in changed["svm-map"]
    for kind in ("pairs", "splits", "ablation"):
        for form in ("text", "markdown", "latex"):
            assert results.table(kind, form).strip()


def test_cpu_code_and_hardware_are_recorded(folder):
    results = run_experiment(write_experiment(folder, FOLDS))
    assert results.cpu_seconds("all")["svm-map"] > 0
    assert len(results.manifest["versions"]["code"]) == 16
    assert results.manifest["platform"]["cores"] >= 1
    assert results.table("times").split("\n")[0].split()[-1] == "CPU"


def test_folders_of_the_first_version_are_read(folder):
    results = run_experiment(write_experiment(folder, FOLDS))
    old = shutil.copytree(results.folder, folder / "old")
    manifest = json.loads((old / "manifest.json").read_text())
    del manifest["conventions"], manifest["versions"]["code"]
    (old / "manifest.json").write_text(json.dumps({**manifest, "format": 1}))
    rows = (old / "runs.csv").read_text().splitlines()
    (old / "runs.csv").write_text("\n".join(row.rpartition(",")[0] for row in rows) + "\n")
    read = Results.open(old)
    assert read.table() == results.table()
    assert np.isnan(read.cpu_seconds("all")["svm-map"])
    assert "–" in read.table("times")
    write_report(old, folder / "old.html")
    (old / "manifest.json").write_text(json.dumps({**manifest, "format": 3}))
    with pytest.raises(InputError, match="written by a newer Rankwright"):
        Results.open(old)
