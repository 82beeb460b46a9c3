"""`rankwright search`: one query to read or as JSON, a file of queries as a run, and every bad input with its line."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout

import click
import numpy as np
import pytest

from rankwright import read_run
from rankwright.cli.main import main
from rankwright.text.index import Index, build_index
from rankwright.text.search import Scorer

DOCUMENTS = [
    ("d1", {"title": "Lift of wings", "text": "The lift of a wing in a slipstream was measured at several angles."}),
    ("d2", {"title": "Heat transfer", "text": "Heat flows in slabs. Nothing is said about flying."}),
    ("d3", {"title": "", "text": "A café near the wing of the museum, " + "and so on " * 60 + "where heat is lost."}),
    ("d4", {"title": "Empty", "text": ""}),
]
QUERIES = "q1\twing lift\nq2\txyzzy\nq3\theat\nq4\tthe of\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("search") / "docs.index"
    build_index(DOCUMENTS, path)
    return path


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "q.tsv").write_text(QUERIES)
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    def run(*args):
        code = main(["search", str(folder), *args])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def scores(folder, text, function="bm25", analyzer="porter+stop", field=None):
    index = Index.open(folder)
    found = Scorer(index.view(analyzer, field), function).search(text, 1000)
    return {index.doc_id(doc): score for doc, score in zip(*map(np.ndarray.tolist, found), strict=True)}


def test_results_are_shown(run, folder):
    expected = scores(folder, "lifting wings")
    code, out, err = run("lifting", "wings")
    assert (code, err) == (0, "")
    assert list(expected) == ["d1", "d3"]
    assert out == (
        f" 1. {expected['d1']:.4f}  d1  Lift of wings\n"
        "    The lift of a wing in a slipstream was measured at …\n"
        f" 2. {expected['d3']:.4f}  d3  A café near the wing of the museum, and …\n"
    )
    assert run("lifting wings") == (0, out, "")
    assert all(len(line) <= 60 for line in out.splitlines())


def test_the_best_part_of_a_document_is_shown(run):
    out = run("heat", "slabs", "-k", "1", "--field", "text", "--function", "cosine")[1]
    assert out.endswith("d2  Heat transfer\n    Heat flows in slabs. Nothing is said about flying.\n")
    out = run("lost", "heat", "--function", "jm(lambda=0.3)")[1]
    assert "    … on and so on and so on and so on where heat is lost.\n" in out


def test_matching_words_are_bold_on_a_terminal(folder, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    with redirect_stdout(terminal):
        assert main(["search", str(folder), "wing"]) == 0
    shown = terminal.getvalue().splitlines()
    assert f"    The lift of a {click.style('wing', bold=True)} in a slipstream was measured at …" in shown
    assert click.unstyle(shown[1]) == "    The lift of a wing in a slipstream was measured at …"


def test_function_analyser_and_field(run, folder):
    for options in (
        {"function": "dirichlet(mu=10)", "analyzer": "plain", "field": "text"},
        {"function": "TFIDF", "analyzer": "porter", "field": "title"},
    ):
        arguments = [f"--{name}={value}" for name, value in options.items()]
        answer = json.loads(run("the lift of heat", "--json", *arguments)[1])
        expected = scores(folder, "the lift of heat", **options)
        assert {result["id"]: result["score"] for result in answer["results"]} == expected
        assert [answer[key] for key in ("analyzer", "field")] == [options[key] for key in ("analyzer", "field")]


def test_json(run, folder):
    code, out, err = run("wing xyzzy café", "-k", "1", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "query": "wing xyzzy café",
        "function": "bm25",
        "analyzer": "porter+stop",
        "field": None,
        "unknown": ["xyzzy"],
        "results": [
            {
                "rank": 1,
                "score": max(scores(folder, "wing café").values()),
                "id": "d3",
                "title": json.loads(out)["results"][0]["title"],
                "snippet": json.loads(out)["results"][0]["snippet"],
            }
        ],
    }
    assert "café near the wing" in json.loads(out)["results"][0]["snippet"]
    assert json.loads(run("xyzzy", "--json")[1])["results"] == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("xyzzy", "nothing found: no document contains xyzzy\n"),
        ("Xyzzy, the plugh", "nothing found: no document contains Xyzzy or plugh\n"),
        ("the of", "nothing found: the analyser drops every word (the, of)\n"),
        ("?", "nothing found: the query has no words\n"),
    ],
)
def test_a_query_without_a_known_word(run, query, said):
    assert run(query) == (0, "", said)


def test_unknown_words_are_told_beside_results(run):
    code, out, err = run("wing", "xyzzy")
    assert code == 0
    assert out.startswith(" 1. ")
    assert err == "note: in no document: xyzzy\n"


def test_a_file_of_queries_becomes_a_run(run, folder, place):
    code, out, err = run("q.tsv", "-o", "out.run")
    assert (code, out) == (0, "")
    assert err == "wrote out.run: 4 queries, 4 documents\nnote: nothing found for 2 queries (q2, q4)\n"
    found = read_run("out.run")
    assert found.query_ids.tolist() == ["q1", "q3"]
    for q, text in enumerate(["wing lift", "heat"]):
        rows = slice(found.indptr[q], found.indptr[q + 1])
        ids = [document.decode() for document in found.documents[rows]]
        assert dict(zip(ids, found.values[rows].tolist(), strict=True)) == scores(folder, text)
    assert (place / "out.run").read_text().splitlines()[0].endswith(" bm25")


def test_the_name_of_a_file_without_o_is_a_query(run):
    note = "note: q.tsv is taken as a query; to answer the queries in that file, add -o RUN\n"
    assert run("q.tsv") == (0, "", f"{note}nothing found: no document contains q or tsv\n")


def test_options_of_a_run(run, place):
    first = "<top><num>1<title>heat<desc>Description: wing</top>"
    (place / "topics").write_text(first)
    assert run("topics", "-o", "a.run", "-k", "1", "--tag", "mine", "--threads", "2")[0] == 0
    assert (place / "a.run").read_text().split()[:4] == ["1", "Q0", "d2", "1"]
    assert (place / "a.run").read_text().endswith(" mine\n")
    assert run("topics", "-o", "b.run.gz", "--part", "description")[2] == ("wrote b.run.gz: 1 queries, 2 documents\n")
    assert read_run("b.run.gz").n_docs == 2


def test_an_index_without_texts(tmp_path, capsys):
    build_index(DOCUMENTS, tmp_path / "bare.index", store=False)
    assert main(["search", str(tmp_path / "bare.index"), "slipstream"]) == 0
    expected = scores(tmp_path / "bare.index", "slipstream")
    assert capsys.readouterr().out == f" 1. {expected['d1']:.4f}  d1\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'QUERY|QUERIES'. (see: rankwright search --help)"),
        (["wing", "q.tsv", "-o", "out.run"], "expected one file QUERIES, found 2 arguments"),
        (["wing", "--model", "m.rkw", "--field", "text"], "--model cannot be combined with --function or --field"),
        (["q.tsv", "-o", "out.run", "--json"], "--json prints the results of one QUERY; expected no -o with it"),
        (["q.tsv", "-o", "q.tsv"], "q.tsv: is also an input"),
        (["q.tsv", "-o", "."], "is a folder; expected a file name"),
        (["q.tsv", "-o", "no/out.run"], "no/out.run: cannot be written: the folder no does not exist; make it first"),
        (["missing", "-o", "out.run"], "missing: cannot be read: No such file"),
        (["q.tsv", "-o", "out.run", "--tag", "a b"], "tag 'a b' cannot be written"),
        (["q.tsv", "-o", "out.run", "--part", "head"], "unknown topic part 'head'"),
        (["wing", "--function", "bm26"], "unknown retrieval function 'bm26'; expected one of bm25"),
        (["wing", "--function", "bm25(b=2)"], "b of bm25 is 2; expected a number from 0 to 1"),
        (["wing", "--field", "body"], "unknown field 'body'; expected title, text"),
        (["wing", "--analyzer", "snowball"], "unknown analyser 'snowball'"),
        (["wing", "-k", "0"], "Invalid value for '-k'"),
    ],
)
def test_bad_input_is_one_line(run, place, arguments, said):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert not (place / "out.run").exists()
    assert (place / "q.tsv").read_text() == QUERIES


def test_an_index_that_is_none(place, capsys):
    assert main(["search", "q.tsv", "wing"]) == 2
    assert main(["search", "missing", "wing"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_help_loads_no_numba():
    code = "import sys; from rankwright.cli.main import main; main(['search', '--help']); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.endswith("False\n")
