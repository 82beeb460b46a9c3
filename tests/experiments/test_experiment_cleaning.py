"""`clean` of a data set in an experiment: checked, applied before the split, counted once, reported."""

import json

import numpy as np
import pytest
from tests.experiments.experiment_files import FIXED, TRIALS, made, write_all, write_experiment

import rankwright
from rankwright import Cleaner, RankingData, read_data
from rankwright.cli.main import main
from rankwright.data.trec_table import TrecTable
from rankwright.errors import InputError
from rankwright.experiments import load_experiment, run_experiment
from rankwright.experiments.checks import check_text
from rankwright.experiments.preparing import prepare
from rankwright.io.letor import write_letor
from rankwright.io.trec import write_qrels, write_run
from rankwright.reports import write_report

ONE = '[[method]]\nmethod = "feature:1"\n'
CLEAN = "clean = { threshold = 0.9, relevant_from = 2, scaled = true }\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path)
    return tmp_path


def cleaned(text, how="clean = true\n"):
    return text.replace('[[data]]\nname = "all"\n', f'[[data]]\nname = "all"\n{how}')


def report_of(*files, cleaner=None):
    found = [(cleaner or Cleaner()).clean(read_data(file))[1] for file in files]
    return rankwright.Cleaning.total(found)


def entry_of(results, at=0):
    return results.manifest["data"][at]["cleaning"]


def test_data_is_cleaned_before_the_split(folder, capsys):
    data = made(0, 30)
    X = data.X.copy()
    X[16:24] = 0  # a whole query
    write_letor(RankingData.from_arrays(X, data.labels, data.qid, doc_ids=data.doc_ids), folder / "all.txt")
    with pytest.raises(InputError, match="all has 29 queries after cleaning: a trial needs 30"):
        run_experiment(write_experiment(folder, cleaned(TRIALS, CLEAN)))
    trials = TRIALS.replace("test = 12", "test = 11")
    results = run_experiment(write_experiment(folder, cleaned(trials, CLEAN)))
    clean, found = Cleaner(0.9, 2, scaled=True).clean(read_data("all.txt"))
    assert found.queries_emptied == 1
    assert min(found.relevant, found.others) > 5
    (entry,) = entry_of(results)
    assert entry == {"part": "data", "text": f"cleaning drops {found.text}", **found.to_dict()}
    assert [results.manifest["data"][0][key] for key in ("queries", "documents")] == [29, clean.n_docs]
    # The same as with a file that was cleaned before.
    write_letor(clean, folder / "clean.txt")
    text = trials.replace("all.txt", "clean.txt")
    other = run_experiment(write_experiment(folder, text, "other.toml"))
    assert (results.folder / "per_query.csv").read_bytes() == (other.folder / "per_query.csv").read_bytes()
    assert "cleaning" not in other.manifest["data"][0]


def test_cleaning_is_part_of_the_key_of_a_cell(folder):
    keys = {}
    settings = ("", "clean = false\n", "clean = true\n", "clean = {}\n", CLEAN, "clean = { threshold = 0.5 }\n")
    for number, how in enumerate(settings):
        source = load_experiment(write_experiment(folder, cleaned(TRIALS, how), f"{number}.toml")).data[0]
        keys[how] = source.options.get("clean")
    assert keys[""] is keys["clean = false\n"] is None
    assert keys["clean = true\n"] == keys["clean = {}\n"] == {"threshold": 0.99, "relevant_from": 1, "scaled": False}
    files = set()
    for how in ("", CLEAN, "clean = { threshold = 0.5 }\n"):
        results = run_experiment(write_experiment(folder, cleaned(TRIALS, how)))
        now = {path.name for path in (results.folder / "cells").iterdir()}
        assert len(now - files) == 6  # none of the others is used again
        files = now


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("clean = 0.99", "clean is 0.99; expected true, false or a table"),
        ("clean = { treshold = 0.9 }", "unknown key 'treshold' in clean; did you mean threshold?"),
        ("clean = { threshold = 1.5 }", "the threshold of cleaning is 1.5; expected a number between 0 and 1"),
        ("clean = { threshold = nan }", "the threshold of cleaning is nan; expected a number between 0 and 1"),
        ("clean = { relevant_from = 0 }", "relevant_from of cleaning is 0; expected a number above 0"),
        ("clean = { scaled = 1 }", "scaled is 1; expected true or false"),
    ],
)
def test_mistakes_have_their_lines(folder, how, message):
    text = cleaned(TRIALS, f"{how}\n")
    experiment, problems = check_text(text, folder / "exp.toml")
    assert experiment is None
    assert [(problem.line, problem.message) for problem in problems] == [(text.splitlines().index(how) + 1, message)]


def test_check_and_run_and_report_show_the_counts(folder, capsys):
    write_letor(made(40, 9), folder / "later.txt")
    how = 'clean = { threshold = 0.9 }\nopen_test = "later.txt"\n'
    text = FIXED.replace('name = "fixed"\n', f'name = "fixed"\n{how}').replace('test = "test.txt"\n', "") + ONE
    write_experiment(folder, text)
    assert main(["experiment", "check", "exp.toml"]) == 0
    out = capsys.readouterr().out
    cleaner = Cleaner(0.9)
    lines = [
        f"fixed: cleaning drops {report_of('train.txt', 'vali.txt', cleaner=cleaner).text}",
        f"fixed: cleaning drops from the open test {report_of('later.txt', cleaner=cleaner).text}",
    ]
    assert out.splitlines()[1:] == lines
    assert not (folder / "exp-results").exists()
    assert main(["experiment", "run", "exp.toml", "--threads", "1"]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == lines
    results = rankwright.experiments.Results.open("exp-results")
    assert [entry["part"] for entry in entry_of(results)] == ["data", "open test"]
    left = 72 - report_of("later.txt", cleaner=cleaner).dropped
    assert results.manifest["data"][0]["notes"] == [f"open test: 9 queries, {left} documents"]
    page = write_report("exp-results", "report.html").read_text()
    top = page[page.index('id="summary"') : page.index('id="means"')] if 'id="means"' in page else page
    for line in lines:
        assert f'<p class="note">{line}. Figures are not comparable' in top


def test_check_does_not_compute_the_features_of_a_collection(folder, capsys):
    text = f'[[data]]\nname = "docs"\ncollection = "python-docs"\nclean = true\n[protocol]\nkind = "fixed"\n{ONE}'
    write_experiment(folder, text)
    assert main(["experiment", "check", "exp.toml"]) == 0
    assert capsys.readouterr().out.endswith("docs: cleaned in the run, when its features are computed\n")


def test_a_query_in_several_folds_is_counted_once(folder):
    parts = [made(70 + k, 5, first=10 * k) for k in range(3)]
    for k in range(3):
        (folder / "f" / f"Fold{k + 1}").mkdir(parents=True)
        for name, at in (("train", k), ("vali", k + 1), ("test", k + 2)):
            write_letor(parts[at % 3], folder / "f" / f"Fold{k + 1}" / f"{name}.txt")
    text = f'[experiment]\nmeasures = ["AP"]\n[[data]]\nname = "f"\nfolds = "f"\nclean = {{ threshold = 0.9 }}\n{ONE}'
    results = run_experiment(write_experiment(folder, text))
    found = [Cleaner(0.9).clean(part)[1] for part in parts]
    (entry,) = entry_of(results)
    assert entry["documents"] == 120
    assert entry["text"] == f"cleaning drops {rankwright.Cleaning.total(found).text}"


def test_dropped_documents_are_not_judged_either(folder):
    # Two runs that give d0 and d1 the same scores, and nearly the same ranks; d9 is judged, but was not retrieved.
    qrels = {f"{q}": {"d0": 1, "d1": 0, "d2": 1, "d3": 0, "d9": 1} for q in range(6)}
    write_qrels(TrecTable.from_dict(qrels), folder / "qrels.txt")
    for name, scores in (("a", (5, 5, 1, 9)), ("b", (5, 5, 9, 1))):
        run = {q: {f"d{d}": score for d, score in enumerate(scores)} for q in qrels}
        write_run(TrecTable.from_dict(run), folder / f"{name}.run")
    text = (
        '[experiment]\nmeasures = ["AP", "R@10"]\n[[data]]\nname = "r"\nruns = ["*.run"]\nqrels = "qrels.txt"\n'
        'normalize = "minmax"\nclean = { threshold = 0.95 }\n[protocol]\nkind = "folds"\nfolds = 3\n[[method]]\n'
        'method = "feature:b:score"\n'
    )
    results = run_experiment(write_experiment(folder, text))
    assert results.manifest["complete"], results.failures
    (entry,) = entry_of(results)
    assert (entry["relevant"], entry["others"], entry["pairs"]) == (6, 6, 6)
    frame = results.per_query()
    # d2 is first of d2, d3; d2 and d9 are relevant.
    assert set(frame["value"]) == {0.5}


def test_nothing_left_names_the_data_set(folder):
    write_letor(RankingData.from_arrays(np.zeros((4, 2)), [0, 1, 0, 1], group=[2, 2]), folder / "all.txt")
    with pytest.raises(InputError, match="all: cleaning leaves nothing: it drops 4 of 4 documents"):
        run_experiment(write_experiment(folder, cleaned(TRIALS)))


def test_large_features_are_warned_of(folder):
    data = made(0, 30)
    write_letor(data.with_features(np.column_stack([data.X, np.full(240, 1e4)])), folder / "all.txt")
    source = load_experiment(write_experiment(folder, cleaned(TRIALS))).data[0]
    with pytest.warns(rankwright.InputWarning, match=r"more than half .* with clean = \{ scaled = true \}"):
        prepared = prepare(source, folder / "cache")
    assert "scaled features are compared" in json.dumps(prepared.as_dict()["warnings"])
