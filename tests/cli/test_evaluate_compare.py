"""`evaluate` and `compare` end to end, and every bad input with its one line."""

import gzip
import json

import pytest

from rankwright.cli.main import main

QRELS = "1 0 a 2\n1 0 b 0\n2 0 c 1\n2 0 d 0\n"
RUN = "1 Q0 a 1 0.9 x\n1 Q0 b 2 0.8 x\n2 Q0 d 1 0.7 x\n2 Q0 c 2 0.6 x\n"
OTHER = "1 Q0 b 1 0.9 x\n1 Q0 a 2 0.8 x\n2 Q0 c 1 0.7 x\n2 Q0 d 2 0.6 x\n"
FEATURES = "2 qid:1 1:0.5 # docid = a\n0 qid:1 1:0.2 # docid = b\n1 qid:2 1:1 # docid = c\n0 qid:2 1:0 # docid = d\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"qrels": QRELS, "x.run": RUN, "y.run": OTHER, "f.txt": FEATURES}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "s.scores").write_text("0.9\n0.8\n0.6\n0.7\n")
    (tmp_path / "z.run.gz").write_bytes(gzip.compress(RUN.encode()))
    return tmp_path


def run(capsys, *args):
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_evaluate_qrels_and_runs(files, capsys):
    code, out, err = run(capsys, "evaluate", "qrels", "x.run", "z.run.gz", "-m", "map", "-m", "ndcg@10")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["system", "AP", "nDCG@10"]
    assert lines[2].split() == ["x", "0.7500", "0.8155"]
    assert lines[3].split() == ["z", "0.7500", "0.8155"]
    assert "nDCG@10: gain rel, discount log2, ties by document id (scores compared in float32), empty query 0" in lines


def test_evaluate_features_and_scores_or_runs(files, capsys):
    code, out, _ = run(capsys, "evaluate", "f.txt", "s.scores", "x.run", "--json")
    assert code == 0
    table = json.loads(out)
    assert [system["means"]["AP"] for system in table["systems"]] == [0.75, 0.75]
    assert "gain 2^rel−1" in table["definitions"][1]


def test_the_convention_can_be_overridden(files, capsys):
    _, out, _ = run(capsys, "evaluate", "qrels", "x.run", "-m", "nDCG", "--convention", "letor")
    assert "gain 2^rel−1" in out


def test_per_query(files, capsys):
    _, out, _ = run(capsys, "evaluate", "qrels", "x.run", "-m", "RR", "-q", "--format", "csv")
    assert out == "system,query,RR\nx,1,1.0\nx,2,0.5\n"


def test_compare(files, capsys):
    code, out, err = run(
        capsys, "compare", "qrels", "x.run", "y.run", "-m", "RR", "--test", "sign", "--resamples", "99"
    )
    assert (code, err) == (0, "")
    row = next(line for line in out.splitlines() if line.split()[:1] == ["y"])
    assert "1/0/1" in row
    assert "x (baseline)" in out
    for kind, mark in [("markdown", "| RR |"), ("latex", r"\toprule"), ("csv", "p_corrected_sign")]:
        assert (
            mark in run(capsys, "compare", "qrels", "x.run", "y.run", "-m", "RR", "--test", "sign", "--format", kind)[1]
        )


def test_scores_beside_a_run_are_compared_by_the_same_rule(files, capsys):
    (files / "g.txt").write_text("".join(f"{i % 2} qid:{i // 3} 1:1 # docid = d{i}\n" for i in range(9)))
    scores = [0.1, 0.1 + 1e-12, 0.3, 5, 4, 3, 2, 1, 0]  # the first two are equal in float32
    (files / "g.scores").write_text("".join(f"{score!r}\n" for score in scores))
    (files / "g.run").write_text("".join(f"{i // 3} Q0 d{i} 1 {s!r} x\n" for i, s in enumerate(scores)))
    code, out, _ = run(capsys, "compare", "g.txt", "g.scores", "g.run", "--format", "json")
    assert code == 0
    assert {row["difference"] for row in json.loads(out)["differences"]} == {0.0}
    assert "scores compared in float32" in out


def test_group_side_file_and_negative_labels(files, capsys):
    (files / "g.txt").write_text("-1 1:1\n1 1:2\n0 1:1\n1 1:2\n")
    (files / "g.query").write_text("2\n2\n")
    (files / "g.scores").write_text("1\n2\n2\n1\n")
    code, _, err = run(capsys, "evaluate", "g.txt", "g.scores", "--group", "g.query")
    assert code == 2
    assert "g.txt:1: " in err
    code, out, _ = run(
        capsys, "evaluate", "g.txt", "g.scores", "--group", "g.query", "--negative-as-zero", "-m", "RR", "--json"
    )
    assert code == 0
    assert json.loads(out)["systems"][0]["means"]["RR"] == 0.75


def test_a_run_with_unknown_queries_warns_with_the_count(files, capsys):
    (files / "more.run").write_text(RUN + "9 Q0 e 1 1 x\n")
    code, _, err = run(capsys, "evaluate", "qrels", "more.run")
    assert code == 0
    assert err == "warning: more.run: ignored 1 documents of 1 unjudged queries\n"


BAD = {
    "score count": (["f.txt", "short"], "short: 2 scores, but f.txt has 4 documents; expected one score per document"),
    "scores with qrels": (["qrels", "short"], "short: contains scores without document ids"),
    "run as qrels": (["x.run", "x.run"], "x.run: is a TREC run; expected qrels or a feature file"),
    "qrels as run": (["qrels", "qrels"], "qrels: neither a TREC run"),
    "missing file": (["nowhere", "x.run"], "nowhere: cannot be read: No such file or directory"),
    "folder": (["dir", "x.run"], "dir: "),
    "empty": (["empty", "x.run"], "empty: "),
    "binary": (["binary", "x.run"], "binary"),
    "truncated gz": (["qrels", "cut.run.gz"], "cut.run.gz: damaged or truncated gzip file"),
    "label": (["badlabel", "x.run"], "badlabel:2: label has words ('high'); expected labels that are numbers"),
    "feature label": (["badfeature", "short"], "badfeature:2: "),
    "measure": (["qrels", "x.run", "-m", "nDGC@3"], "unknown measure 'nDGC'; did you mean nDCG"),
    "option": (["qrels", "x.run", "--convention", "mine"], "'mine' is not one of"),
    "no run": (["qrels"], "Missing argument"),
    "unknown option": (["qrels", "x.run", "--nope"], "No such option"),
    "short line": (["qrels", "short.run"], "short.run:2: 5 fields; expected 6"),
    "twice": (["qrels", "twice.run"], "twice.run:5: duplicate document 'a' in query '1' (first on line 1)"),
    "nan": (["qrels", "nan.run"], "nan.run:1: score is 'nan'; expected a finite number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(files, capsys, case):
    (files / "dir").mkdir()
    (files / "short").write_text("1\n2\n")
    (files / "empty").write_text("")
    (files / "binary").write_bytes(bytes(range(256)) * 4)
    (files / "cut.run.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-12])
    (files / "badlabel").write_text("1 0 a 2\n1 0 b high\n")
    (files / "badfeature").write_text("1 qid:1 1:1\nhigh qid:1 1:1\n")
    (files / "short.run").write_text(RUN.replace(" x\n1 Q0 b 2 0.8 x", " x\n1 Q0 b 2 0.8"))
    (files / "twice.run").write_text(RUN + "1 Q0 a 3 0.1 x\n")
    (files / "nan.run").write_text(RUN.replace("0.9", "nan"))
    arguments, message = BAD[case]
    code, out, err = run(capsys, "evaluate", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("rankwright: ")
    assert message in err
    assert err.count("\n") == 1


def test_the_plot_of_a_comparison(files, capsys):
    alone = run(capsys, "compare", "qrels", "x.run", "y.run", "-m", "AP", "--test", "t")[1]
    code, out, err = run(
        capsys, "compare", "qrels", "x.run", "y.run", "-m", "AP", "--test", "t", "--plot", "c.svg", "--plot-query", "2"
    )
    assert (code, err) == (0, "wrote c.svg\n")
    assert out == alone  # what is drawn besides does not change the table
    drawn = (files / "c.svg").read_text()
    assert "Query 2" in drawn
    assert "nDCG@10 of every query, minus x" in drawn
    assert "y (better 1, worse 1)" in drawn
    assert run(capsys, "compare", "f.txt", "x.run", "y.run", "-m", "P@3", "--test", "t", "--plot", "p.png")[0] == 0
    assert (files / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--plot-query", "1"], "--plot-query adds a query to the plot; expected --plot FILE with it"),
        (["--plot", "c.png", "--plot-query", "7"], "query '7' is not among the 2 queries that all systems have"),
        (["--plot", "c.gif"], "c.gif: plots end in .png or .svg, not in '.gif'"),
        (["--plot", "c.png", "--plot", "c.png"], "c.png: is given twice; expected different files to write to"),
        (["--plot", "no/c.png"], "no/c.png: cannot be written: the folder no does not exist; make it first"),
    ],
)
def test_plots_that_cannot_be_made(files, capsys, options, message):
    before = sorted(path.name for path in files.iterdir())
    code, out, err = run(capsys, "compare", "qrels", "x.run", "y.run", *options)
    assert (code, out, err) == (2, "", f"rankwright: {message}\n")
    assert sorted(path.name for path in files.iterdir()) == before
