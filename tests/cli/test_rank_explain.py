"""`rank`, `explain` and `info` with a model end to end, and every bad input with its one line."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from rankwright import RankingData, read_data, read_run, write_data
from rankwright.cli.main import main
from rankwright.models.linear import LinearModel
from rankwright.models.saving import save_model

COEF = [1.0, -0.5, 0.0, 2.0]
FEATURES = (
    "2 qid:7 1:0.5 2:1 4:0.25 # docid = a\n"
    "0 qid:7 1:1 # docid = b\n"
    "1 qid:x 3:3 4:1 # docid = c\n"
    "0 qid:7 2:4 # docid = d\n"
    "0 qid:x 4:1 # docid = e\n"
    "0 qid:alone 1:0.1 # docid = f\n"
)
SCORES = [0.5, 1.0, 2.0, -2.0, 2.0, float(np.float32(0.1))]
RUN = (
    "7 Q0 b 1 1 svm-map\n7 Q0 a 2 0.5 svm-map\n7 Q0 d 3 -2 svm-map\n"
    "x Q0 e 1 2 svm-map\nx Q0 c 2 2 svm-map\nalone Q0 f 1 0.10000000149011612 svm-map\n"
)


NARROW = (
    "the data has 3 features, but the model has 4; "
    "to take missing features as 0, which text leaves out, use --missing-as-zero"
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.txt").write_text(FEATURES)
    (tmp_path / "noids.txt").write_text("".join(line.split(" #")[0] + "\n" for line in FEATURES.splitlines()))
    save_model(
        LinearModel(COEF),
        tmp_path / "m.rkw",
        method="svm-map",
        parameters={"C": 10.0, "loss": "map", "standardize": True},
        training={"queries": 471, "documents": 9630, "gap": 8e-4, "path": [[1, 2]] * 9, "folds": [1, 2]},
        measures={"AP": 0.4469},
    )
    return tmp_path


def run(capsys, *args):
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_rank_writes_a_run(files, capsys):
    assert run(capsys, "rank", "m.rkw", "f.txt", "-o", "t.run") == (
        0, "", "wrote t.run: a TREC run of 3 queries, 6 documents\n",
    )  # fmt: skip
    assert (files / "t.run").read_text() == RUN
    assert main(["rank", "m.rkw", "f.txt", "-o", "t.run.gz", "--tag", "mine"]) == 0
    assert gzip.decompress((files / "t.run.gz").read_bytes()).decode() == RUN.replace("svm-map", "mine")
    assert main(["rank", "m.rkw", "f.txt", "-o", "t.out", "--format", "trec"]) == 0
    assert (files / "t.out").read_text() == RUN
    assert read_run(files / "t.run").n_docs == 6


@pytest.mark.parametrize("features", ["f.txt", "noids.txt"])
def test_rank_writes_scores_in_the_order_of_the_file(files, capsys, features):
    assert run(capsys, "rank", "m.rkw", features, "-o", "t.scores") == (
        0, "", "wrote t.scores: scores of 3 queries, 6 documents\n",
    )  # fmt: skip
    assert [float(line) for line in (files / "t.scores").read_text().splitlines()] == SCORES
    assert main(["evaluate", features, "t.scores", "-m", "AP"]) == 0


def test_rank_to_stdout(files, capsys):
    code, out, err = run(capsys, "rank", "m.rkw", "f.txt")
    assert (code, [float(line) for line in out.splitlines()]) == (0, SCORES)
    assert err == "wrote stdout: scores of 3 queries, 6 documents\n"
    assert run(capsys, "rank", "m.rkw", "f.txt", "-o", "-", "--format", "trec")[1] == RUN
    assert not (files / "-").exists()


@pytest.mark.parametrize("name", ["d.rank", "d.parquet"])
def test_other_formats_give_the_same_scores(files, capsys, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_data(read_data("f.txt"), name)
    assert run(capsys, "rank", "m.rkw", name, "--format", "trec")[1] == RUN


def test_groups_and_negative_labels(files, capsys):
    (files / "g.txt").write_text("-1 1:1\n1 1:2\n0 1:3\n")
    (files / "g.sizes").write_text("2\n1\n")
    options = ("g.txt", "--group", "g.sizes", "--missing-as-zero")
    assert run(capsys, "rank", "m.rkw", *options)[0] == 2
    assert run(capsys, "rank", "m.rkw", *options, "--negative-as-zero")[1] == "1.0\n2.0\n3.0\n"
    code, out, _ = run(capsys, "explain", "m.rkw", *options, "--negative-as-zero", "--query", "1")
    assert (code, "#2 (B)" in out) == (0, True)


def test_features_that_the_data_lacks_are_named_and_are_zero_only_if_asked_for(files, capsys):
    names = ("bm25", "length", "links", "clicks")
    save_model(LinearModel(COEF, names), files / "n.rkw", method="svm-map", parameters={})
    data = read_data("f.txt")
    write_data(data.with_features(data.X[:, [2, 0]], ["links", "bm25"]), files / "some.parquet")
    write_data(data.with_features(np.column_stack([data.X, data.X[:, 0]]), [*names, "more"]), files / "more.parquet")
    for command in (["rank", "n.rkw", "some.parquet"], ["explain", "n.rkw", "some.parquet", "--query", "7"]):
        code, out, err = run(capsys, *command)
        assert (code, out) == (2, "")
        assert "some.parquet: the data lacks 2 of the model's 4 features: 'length', 'clicks'; to take" in err
        assert run(capsys, *command, "--missing-as-zero")[0] == 0
    zeros = data.with_features(data.X * [1, 0, 1, 0], names)
    expected = [repr(score) for score in LinearModel(COEF, names).score(zeros.X).tolist()]
    assert run(capsys, "rank", "n.rkw", "some.parquet", "--missing-as-zero")[1].split() == expected
    expected = [repr(score) for score in LinearModel(COEF).score(data.X).tolist()]
    assert run(capsys, "rank", "n.rkw", "more.parquet")[1].split() == expected


def test_explain(files, capsys):
    code, out, err = run(capsys, "explain", "m.rkw", "f.txt", "--query", "7")
    assert (code, err) == (0, "")
    assert out == (
        "query 7  f.txt, ranked by m.rkw (svm-map)\n\n"
        "  rank  document     score  label\n"
        "    #1  b          1.00000      0  A\n"
        "    #2  a          0.50000      2  B\n"
        "    #3  d         -2.00000      0\n\n"
        "Why b (A) is above a (B)\n\n"
        "  feature           weight  A     B  weight × (A − B)\n"
        "  f1                     1  1   0.5           +0.5000  ████████████████████\n"
        "  f2                  -0.5  0     1           +0.5000  ████████████████████\n"
        "  f4                     2  0  0.25           -0.5000  ████████████████████\n"
        "  1 other                                     +0.0000\n"
        "  score difference                            +0.5000\n"
    )


def test_explain_chosen_documents(files, capsys):
    by_id = run(capsys, "explain", "m.rkw", "f.txt", "--query", "7", "--documents", "d", "b", "-n", "1")
    assert by_id == run(capsys, "explain", "m.rkw", "f.txt", "--query", "7", "--documents", "#3", "#1", "-n", "1")
    assert "Why d (A) is below b (B)" in by_id[1]
    assert "and 1 more" in by_id[1]
    assert "3 others" in by_id[1]
    out = run(capsys, "explain", "m.rkw", "noids.txt", "--query", "7", "--documents", "#3", "#1")[1]
    assert "Why #3 (A) is below #1 (B)" in out
    assert "document" not in out


def test_explain_ties_and_single_documents(files, capsys):
    out = run(capsys, "explain", "m.rkw", "f.txt", "--query", "x")[1]
    assert out.endswith("The scores are equal; the document id, descending, decides.\n")
    assert run(capsys, "explain", "m.rkw", "noids.txt", "--query", "x")[1].endswith("the order of the file decides.\n")
    out = run(capsys, "explain", "m.rkw", "f.txt", "--query", "alone")[1]
    assert out.endswith("The query has only one document, so there is nothing to compare.\n")


def test_explain_json_adds_up(files, capsys):
    found = json.loads(run(capsys, "explain", "m.rkw", "f.txt", "--query", "7", "-n", "1", "--json")[1])
    assert [entry["document"] for entry in found["documents"]] == ["b", "a", "d"]
    assert (found["a"]["document"], found["b"]["rank"], found["difference"]) == ("b", 2, 0.5)
    assert sum(entry["contribution"] for entry in found["contributions"]) == found["difference"]
    assert len(found["contributions"]) == 4
    assert found["contributions"][2] == {"feature": "f4", "weight": 2, "a": 0, "b": 0.25, "contribution": -0.5}
    found = json.loads(run(capsys, "explain", "m.rkw", "f.txt", "--query", "alone", "--json")[1])
    assert (found["a"], found["difference"], found["contributions"]) == (None, None, [])


def test_explain_with_sparse_named_features_and_markup_in_names(files, capsys):
    from scipy import sparse

    names = ["[b]one", "two", "three", "four"]
    data = read_data("f.txt")
    data = data.with_features(sparse.csr_array(data.X), names)
    write_data(data, "d.rank")
    save_model(LinearModel(COEF[::-1], tuple(names[::-1])), "n.rkw", method="x", parameters={})
    out = run(capsys, "explain", "n.rkw", "d.rank", "--query", "7")[1]
    assert "  [b]one " in out
    assert run(capsys, "rank", "n.rkw", "d.rank", "--format", "trec", "--tag", "svm-map")[1] == RUN
    assert "[b]one" in run(capsys, "info", "n.rkw")[1]


def test_explain_on_a_terminal_is_coloured():
    from rankwright.cli import explain, printing
    from rankwright.models.base import Term

    console = Console(file=io.StringIO(), highlight=False, soft_wrap=True, force_terminal=True, color_system="standard")
    terms = [Term("f1", 1.0, 2.0, 1.0, 1.0), Term("f2", 1.0, 1.0, 2.0, -1e-12)]
    document = explain._Document(1, "d", 1.0, 1.0, 0)
    explain._show_terms(console, explain._Comparison(document, document, terms, 1.0), 5)
    shown = console.file.getvalue()
    assert "\x1b[36m" in shown
    assert "\x1b[35m" in shown
    assert printing.decimals([1e-9, 0.0], 4) == ["1e-09", "0"]
    assert printing.decimals([0.0], 4, "+") == ["+0.0"]


def test_info_of_a_model(files, capsys):
    code, out, err = run(capsys, "info", "m.rkw")
    assert (code, err) == (0, "")
    assert out.startswith("m.rkw  Rankwright model\n\n")
    found = {line[2:17].strip(): " ".join(line[17:].split()) for line in out.splitlines()[2:7]}
    assert found == {
        "method": "svm-map (linear)",
        "settings": "C 10 (the others are the defaults: --json)",
        "trained on": "471 queries",
        "training": "documents 9,630, gap 0.0008, path (9 entries), folds 1/2",
        "measures": "AP 0.4469",
    }
    lines = [" ".join(line.split()) for line in out.splitlines()[7:]]
    assert lines[0] == "features 4, 1 of weight 0"
    assert lines[1].startswith("weights f4 +2 █")
    assert lines[3].startswith("f2 -0.5 █")
    assert lines[4].startswith("written by Rankwright ")


def test_info_of_a_model_as_json(files, capsys):
    found = json.loads(run(capsys, "info", "m.rkw", "--json")[1])
    assert (found["format"], found["kind"], found["method"], found["features"]) == ("model", "linear", "svm-map", 4)
    assert found["parameters"] == {"C": 10.0, "loss": "map", "standardize": True}
    assert found["measures"] == {"AP": 0.4469}
    assert [entry["feature"] for entry in found["weights"]] == ["f4", "f1", "f2", "f3"]


def test_info_shows_the_largest_weights_only(files, capsys):
    save_model(LinearModel(np.arange(15.0)), "big.rkw", method="x", parameters={})
    out = run(capsys, "info", "big.rkw")[1]
    assert "and 4 smaller (--json lists all)" in out
    assert "settings" not in out
    save_model(LinearModel(np.zeros(2)), "zero.rkw", method="x", parameters={})
    assert "2, 2 of weight 0" in run(capsys, "info", "zero.rkw")[1]


@pytest.fixture
def scaling(files):
    """A model of percentiles; in query 7 feature 1 is 0.5, 1, 0, feature 2 is 1, 0, 4 and feature 4 is 0.25, 0, 0."""
    save_model(LinearModel(COEF, query_scaling="percentile"), files / "p.rkw", method="svm-acc3", parameters={})
    return files


def test_rank_scales_within_each_query(scaling, capsys):
    code, out, _ = run(capsys, "rank", "p.rkw", "f.txt")
    # Of a, b, c, d, e, f: weight × percentile, feature after feature.
    expected = [0.5 - 0.25 + 2, 1 + 0.5, 0.5 - 0.25 + 1, -0.5 + 0.5, 0.5 - 0.25 + 1, 0.5 - 0.25 + 1]
    assert (code, [float(line) for line in out.splitlines()]) == (0, expected)
    # Feature 4 is left out where it is 0, and is scaled all the same.
    (scaling / "short.txt").write_text("0 qid:1 1:1\n1 qid:1 1:2\n")
    assert run(capsys, "rank", "p.rkw", "short.txt", "--missing-as-zero")[1] == "0.75\n1.75\n"


@pytest.mark.parametrize("name", ["f.txt", "d.rank"])
def test_explain_shows_scaled_values(scaling, capsys, name):
    from scipy import sparse

    data = read_data("f.txt")
    write_data(data.with_features(sparse.csr_array(data.X)), "d.rank")
    out = run(capsys, "explain", "p.rkw", name, "--query", "7", "--documents", "b", "a")[1]
    assert out.startswith(f"query 7  {name}, ranked by p.rkw (svm-acc3)\n")
    table = [" ".join(line.split()) for line in out.splitlines()[8:]]
    assert table[2].startswith("f4 2 0.25 1 -1.500 █")
    assert table[3].startswith("f1 1 1 0.5 +0.500 █")
    assert table[4].startswith("f2 -0.5 0 0.5 +0.250 █")
    assert table[6:] == [
        "score difference -0.750",
        "",
        "A and B are not the values in the file: the model scales them within the query (percentile).",
    ]
    found = json.loads(run(capsys, "explain", "p.rkw", name, "--query", "7", "--documents", "b", "a", "--json")[1])
    assert (found["query_scaling"], found["difference"]) == ("percentile", -0.75)
    assert sum(entry["contribution"] for entry in found["contributions"]) == found["difference"]
    assert found["contributions"][0] == {"feature": "f4", "weight": 2, "a": 0.25, "b": 1, "contribution": -1.5}
    assert "scales them" not in run(capsys, "explain", "p.rkw", "f.txt", "--query", "alone")[1]
    plain = run(capsys, "explain", "m.rkw", "f.txt", "--query", "7", "--json")[1]
    assert json.loads(plain)["query_scaling"] is None


def test_info_says_how_features_are_scaled(scaling, capsys):
    lines = [" ".join(line.split()) for line in run(capsys, "info", "p.rkw")[1].splitlines()]
    assert "scaling percentile within each query, before the weights" in lines
    assert json.loads(run(capsys, "info", "p.rkw", "--json")[1])["query_scaling"] == "percentile"
    assert "scaling" not in run(capsys, "info", "m.rkw")[1]
    assert json.loads(run(capsys, "info", "m.rkw", "--json")[1])["query_scaling"] is None


BAD = {
    "no ids": (
        ["rank", "m.rkw", "noids.txt", "-o", "x.run"],
        "noids.txt: has no document ids, which a TREC run needs; expected `# docid = …` in its lines, or --format",
    ),
    "an id missing": (["rank", "m.rkw", "hole.txt", "-o", "x.run"], "hole.txt: 1 of 2 documents have no id"),
    "an id twice": (["rank", "m.rkw", "twice.txt", "-o", "x.run"], "twice.txt: duplicate document 'a' in query '1'"),
    "too wide": (["rank", "m.rkw", "wide.txt"], "wide.txt: the data has 9 features, but the model has 4"),
    "too narrow": (["rank", "m.rkw", "narrow.txt"], f"narrow.txt: {NARROW}"),
    "too narrow to explain": (["explain", "m.rkw", "narrow.txt", "--query", "1"], f"narrow.txt: {NARROW}"),
    "no model": (
        ["rank", "f.txt", "f.txt"],
        "f.txt: not a Rankwright model: it starts with other bytes; expected one written by `rankwright train` or "
        "`rankwright import`",
    ),
    "missing model": (["rank", "nowhere", "f.txt"], "nowhere: cannot be read: No such file or directory"),
    "truncated model": (["rank", "cut.rkw", "f.txt"], "cut.rkw: damaged model: it is not complete"),
    "truncated info": (["info", "cut.rkw"], "cut.rkw: damaged model: it is not complete"),
    "missing features": (["rank", "m.rkw", "nowhere"], "nowhere: cannot be read: No such file or directory"),
    "model as features": (["rank", "m.rkw", "m.rkw"], "m.rkw: contains a model, not features"),
    "run as features": (["rank", "m.rkw", "x.trec"], "x.trec: contains a TREC run, not features"),
    "tag": (["rank", "m.rkw", "f.txt", "--tag", "x"], "--tag is for TREC runs"),
    "bad tag": (["rank", "m.rkw", "f.txt", "-o", "x.run", "--tag", "a b"], "tag 'a b' cannot be written"),
    "onto itself": (["rank", "m.rkw", "f.txt", "-o", "./f.txt"], "f.txt: is also an input"),
    "onto a folder": (["rank", "m.rkw", "f.txt", "-o", "dir"], "dir: is a folder"),
    "into nowhere": (["rank", "m.rkw", "f.txt", "-o", "no/x"], "no/x: cannot be written: the folder no does not"),
    "unknown query": (
        ["explain", "m.rkw", "f.txt", "--query", "9"],
        "f.txt: has no query '9'; it has 3, such as 7, x,",
    ),
    "documents of no query": (["explain", "m.rkw", "f.txt", "--document", "a"], "expected --query with it"),
    "a pair of no query": (["explain", "m.rkw", "f.txt", "--documents", "a", "b"], "--documents names documents of a"),
    "one and two": (
        ["explain", "m.rkw", "f.txt", "--query", "7", "--document", "a", "--documents", "a", "b"],
        "--document and --documents are both given",
    ),
    "shuffles of one query": (
        ["explain", "m.rkw", "f.txt", "--query", "7", "--permute", "2"],
        "--permute is about all queries; expected no --query with it",
    ),
    "a measure of nothing": (["explain", "m.rkw", "f.txt", "-m", "AP"], "--measure is that of --permute"),
    "no measure": (["explain", "m.rkw", "f.txt", "--permute", "2", "-m", "what"], "what"),
    "no plot": (["explain", "m.rkw", "f.txt", "--plot", "x.pdf"], "plots end in .png or .svg"),
    "nothing to draw": (
        ["explain", "m.rkw", "f.txt", "--query", "alone", "--plot", "x.png"],
        "query 'alone' has only one document, so there is nothing to draw",
    ),
    "unknown document": (
        ["explain", "m.rkw", "f.txt", "--query", "7", "--documents", "a", "c"],
        "f.txt: query '7' has no document 'c'; expected a rank from #1 to #3 or an id such as b, a, d",
    ),
    "unknown rank": (
        ["explain", "m.rkw", "noids.txt", "--query", "7", "--documents", "#1", "#4"],
        "has no document '#4'",
    ),
    "the same twice": (
        ["explain", "m.rkw", "f.txt", "--query", "7", "--documents", "b", "#1"],
        "are the same document",
    ),
    "evaluate": (["evaluate", "f.txt", "m.rkw"], "m.rkw: is a model; expected the run or scores"),
    "judgements": (["evaluate", "m.rkw", "x.trec"], "m.rkw: is a model; expected qrels or a feature file"),
    "compare": (["compare", "f.txt", "m.rkw", "x.trec"], "m.rkw: is a model; expected the run or scores"),
    "convert": (["convert", "m.rkw", "-o", "x.txt"], "m.rkw: is a model, which no other format can hold"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(files, capsys, case):
    (files / "dir").mkdir()
    (files / "hole.txt").write_text("1 qid:1 1:1 4:1 # docid = a\n0 qid:1 1:1\n")
    (files / "twice.txt").write_text("1 qid:1 1:1 4:1 # docid = a\n0 qid:1 1:1 # docid = a\n")
    (files / "narrow.txt").write_text("1 qid:1 1:1\n0 qid:1 3:1\n")
    (files / "wide.txt").write_text("1 qid:1 9:1\n")
    (files / "cut.rkw").write_bytes((files / "m.rkw").read_bytes()[:-30])
    (files / "x.trec").write_text(RUN)
    before = sorted(files.iterdir())
    arguments, message = BAD[case]
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("rankwright: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(files.iterdir()) == before
    assert (files / "f.txt").read_text() == FEATURES


@pytest.mark.parametrize(
    "example",
    [
        "rankwright rank model.rkw test.txt -o test.run",
        "rankwright explain model.rkw test.txt --query 17",
        "rankwright info model.rkw",
    ],
)
def test_help_shows_an_example(capsys, example):
    assert main([example.split()[1], "--help"]) == 0
    assert example in capsys.readouterr().out


def test_using_a_model_stays_light(files):
    data = RankingData.from_arrays(np.eye(4, dtype=np.float32), [0, 1, 0, 2], [1, 1, 2, 2], doc_ids=list("abcd"))
    write_data(data, "d.rank")
    code = (
        "import sys; from rankwright.cli.main import main\n"
        "assert main(['info', 'm.rkw']) == 0\n"
        "assert main(['rank', 'm.rkw', 'd.rank', '-o', 'x.run']) == 0\n"
        "assert main(['explain', 'm.rkw', 'd.rank', '--query', '1']) == 0\n"
        "heavy = {'numba', 'sklearn', 'matplotlib', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
