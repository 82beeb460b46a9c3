"""Judgements by subtopic and with strata, every query of a comparison, overlap, k of fusion: on the command line."""

import json
from pathlib import Path

import pytest

from rankwright.cli.main import main

FILES = {
    "qrels": "1 0 a 1\n1 0 b 0\n2 0 a 0\n2 0 c 2\n3 0 a 1\n",
    "diverse": "1 s1 a 1\n1 s2 a 1\n1 s1 b 1\n2 s1 c 1\n",
    "sampled": "1 0 a 1 1\n1 0 b 2 0\n1 0 c 2 -1\n2 0 c 1 1\n",
    "old.run": "1 Q0 a 1 1 x\n1 Q0 b 2 2 x\n2 Q0 c 1 1 x\n2 Q0 a 2 2 x\n3 Q0 a 1 1 x\n",
    "new.run": "1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n2 Q0 c 1 3 x\n2 Q0 a 2 2 x\n",
}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def run(capsys, *args, code=0):
    assert main(list(args)) == code
    return capsys.readouterr()


def test_diversity(capsys):
    out = run(
        capsys, "evaluate", "diverse", "new.run", "-m", "alpha_nDCG@5", "-m", "ERR_IA@5", "-m", "AP", "--subtopics"
    ).out
    assert "alpha_nDCG@5: relevant from label 1 by subtopic, alpha 0.5, ties by document id" in out
    assert out.splitlines()[2].split() == ["new", "1.0000", "0.7716", "1.0000"]
    err = run(capsys, "evaluate", "diverse", "new.run", "-m", "AP", code=2).err
    assert "duplicate document 'a' in query '1'" in err
    assert "--subtopics" in err
    err = run(capsys, "evaluate", "qrels", "new.run", "-m", "ERR_IA@5", code=2).err
    assert err.count("\n") == 1
    assert "read with --subtopics" in err


def test_strata(capsys):
    out = run(capsys, "evaluate", "sampled", "new.run", "-m", "xinfAP", "--strata").out
    assert "xinfAP: relevant from label 1, estimated by stratum" in out
    err = run(capsys, "evaluate", "qrels", "new.run", "-m", "xinfAP", "--strata", code=2).err
    assert "4 fields; expected 5: query iteration document stratum label" in err
    err = run(capsys, "evaluate", "qrels", "new.run", "--strata", "--subtopics", code=2).err
    assert "expected one of them" in err


def test_every_query_of_a_comparison(capsys):
    words = ("compare", "qrels", "old.run", "new.run", "-m", "AP", "-m", "RR", "--resamples", "99", "-q")
    lines = run(capsys, *words).out.splitlines()
    assert "AP       1      0.5000  1.0000  +0.5000" in lines
    assert "RR       3      1.0000  0.0000  -1.0000" in lines
    lines = run(capsys, *words, "--missing", "skip").out.splitlines()
    assert "AP       2      0.5000  1.0000  +0.5000" in lines
    assert not [line for line in lines if line.startswith("AP       3")]
    rows = run(capsys, *words, "--format", "csv").out.splitlines()
    assert rows[:2] == ["measure,query,system,baseline,value,baseline_value,difference", "AP,1,new,old,1.0,0.5,0.5"]
    found = json.loads(run(capsys, *words, "--json").out)
    assert found["per_query"]["AP"]["1"] == {"old": 0.5, "new": 1.0}
    assert found["differences"][0]["queries_needed"] is None


def test_queries_that_are_needed(capsys):
    words = ("compare", "qrels", "old.run", "new.run", "-m", "RR", "--resamples", "99", "--missing", "skip")
    Path("old.run").write_text(FILES["old.run"].replace("2 Q0 c 1 1", "2 Q0 c 1 2"))
    assert "queries needed" not in run(capsys, *words).out
    out = run(capsys, *words, "--power", "0.8").out
    assert out.splitlines()[0].endswith("queries needed")
    assert "queries needed: for 80% power of a two-tailed paired t-test at p < 0.05, if the true" in out
    assert run(capsys, *words, "--power", "0.8", "--format", "csv").out.splitlines()[0].endswith(",queries_needed")


def test_several_systems_name_their_differences(capsys):
    Path("third.run").write_text(FILES["new.run"])
    out = run(capsys, "compare", "qrels", "old.run", "new.run", "third.run", "-m", "AP", "--resamples", "99", "-q").out
    assert "new − old" in out
    assert "third − old" in out


def test_the_best_is_bold_in_latex(capsys):
    words = ("compare", "qrels", "old.run", "new.run", "-m", "AP", "--resamples", "99")
    out = run(
        capsys, "compare", "qrels", "old.run", "new.run", "-m", "AP", "--resamples", "99", "--format", "latex"
    ).out
    assert r"& old (baseline) & \textbf{0.6667} &" in out
    assert r" & new & \textbf{0.6667} & +0.0000" in out
    out = run(capsys, "evaluate", "qrels", "old.run", "new.run", "-m", "AP", "-m", "P@1", "--format", "latex").out
    assert r"old & \textbf{0.6667} & 0.3333 \\" in out
    assert r"new & \textbf{0.6667} & \textbf{0.6667} \\" in out
    assert "[$-$1.0000, " in run(capsys, *words, "--format", "latex").out  # a minus sign, not a hyphen
    alone = run(capsys, "evaluate", "qrels", "old.run", "-m", "AP", "--format", "latex").out
    assert "textbf" not in alone


def test_no_rows_of_dashes(capsys):
    words = ("evaluate", "qrels", "new.run", "-m", "AP", "-q", "--missing", "skip")
    out = run(capsys, *words).out
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("new")] == [
        ["new", "1"],
        ["new", "2"],
        ["new", "mean"],
    ]
    assert run(capsys, *words, "--format", "csv").out.count("\n") == 3
    assert set(json.loads(run(capsys, *words, "--json").out)["systems"][0]["per_query"]) == {"1", "2"}


def test_overlap_with_the_baseline(capsys):
    out = run(capsys, "compare", "qrels", "old.run", "new.run", "-m", "AP", "--resamples", "99", "--rbo", "0.9").out
    assert "RBO of new with old: 0.9000 (p 0.9, extrapolated, mean of 2 queries)" in out


def test_geometric_means_are_not_compared(capsys):
    err = run(capsys, "compare", "qrels", "old.run", "new.run", "-m", "GMAP", code=2).err
    assert err.endswith("GMAP cannot be compared query by query: it is a geometric mean over queries; expected AP\n")


def test_fusion_with_k_by_judgements(capsys, tmp_path):
    err = run(capsys, "fuse", "old.run", "new.run", "-o", "x.run", "--choose-k", "qrels", "-m", "AP").err
    assert err.startswith("k is 100, by AP of 3 queries (10: ")
    assert (tmp_path / "x.run").exists()
    for method in ("isr", "logisr", "rbc", "borda", "condorcet"):
        assert run(capsys, "fuse", "old.run", "new.run", "-o", f"{method}.run", "--method", method).err.startswith(
            "wrote"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--choose-k", "qrels", "--method", "rbc"], "--choose-k is for rrf, not rbc; expected --method rrf with it"),
        (["--choose-k", "qrels", "-k", "3"], "-k and --choose-k exclude each other; expected one of them"),
        (["-m", "AP"], "--measure is what --choose-k chooses by; expected --choose-k QRELS with it"),
    ],
)
def test_options_of_fusion_that_do_not_go_together(capsys, options, message):
    err = run(capsys, "fuse", "old.run", "new.run", "-o", "x.run", *options, code=2).err
    assert err == f"rankwright: {message}\n"
