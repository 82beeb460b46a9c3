"""`rankwright judge` and `rankwright agreement`: files, messages, a kill, and what other commands make of the qrels."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from rankwright.cli.main import main
from rankwright.data.trec_table import TrecTable
from rankwright.io.trec import read_qrels, write_run
from rankwright.judging.records import Action, JudgeFile


@pytest.fixture
def files(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("docs.index", "queries.jsonl", "linear.rkw"):
        (tmp_path / name).symlink_to(made / name)
    return tmp_path


def said(capsys, *arguments, code=2):
    capsys.readouterr()
    assert main(list(map(str, arguments))) == code
    return capsys.readouterr()


def test_try_says_what_there_is_to_judge_and_leaves_nothing(files, capsys):
    told = said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "judgements", "--try", code=0)
    assert "documents of 3 queries, the first 10 of bm25, dirichlet, tfidf" in told.err
    assert not (files / "judgements").exists()
    told = said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "j", "--model", "linear.rkw", "--try", code=0)
    assert "the first 10 of linear, bm25, dirichlet, tfidf\n" in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge", "../me"], "--judge is '../me'; expected up to 64 letters"),
        (["--function", "magic"], "magic"),
        (["--compare", "bm25", "magic"], "--compare names 'magic'; expected two of bm25, dirichlet, tfidf"),
        (["--compare", "bm25", "bm25"], "--compare names 'bm25' twice"),
        (["--function", "bm25", "--order", "disagreement"], "about several rankers; found bm25 alone"),
        (["--run", "none.run"], "none.run"),
        (["--model", "queries.jsonl"], "queries.jsonl"),
        (["--depth", "0"], "--depth"),
        (["--order", "alphabetical"], "--order"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(files, capsys, arguments, message):
    told = said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "judgements", *arguments)
    assert message in told.err
    assert told.err.count("\n") == 1
    assert not (files / "judgements").exists()


def test_files_that_are_something_else(files, capsys):
    (files / "empty.jsonl").write_text("")
    assert "contains no queries" in said(capsys, "judge", "docs.index", "empty.jsonl", "-o", "j").err
    assert "queries.jsonl" in said(capsys, "judge", "queries.jsonl", "queries.jsonl", "-o", "j").err
    (files / "odd.jsonl").write_text('{"id": "x", "text": "zzzz"}\n')
    assert "the rankers find nothing" in said(capsys, "judge", "docs.index", "odd.jsonl", "-o", "j").err
    assert "docs.index: is the index" in said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "docs.index").err
    (files / "j").write_text("a file")
    assert "j: cannot be written" in said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "j").err


@contextmanager
def judging(*arguments):
    """The command in a process of its own; the value is the process and the address that it printed."""
    started = [sys.executable, "-m", "rankwright.cli.main", "judge", *arguments]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        assert line.startswith("judge at http://127.0.0.1:"), line + process.stderr.read()
        try:
            yield process, line.removeprefix("judge at ").strip()
        finally:
            process.kill()


def ask(address, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def grade(address, state, value):
    about = {"query": state["query"]["id"], "document": state["document"]["id"], "seen": state["seen"]}
    return ask(f"{address}judge", {**about, "action": "grade", "grade": value})


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_session_from_start_through_kill_to_comparison(files, capsys):
    given = ("docs.index", "queries.jsonl", "-o", "judgements", "--judge", "ann", "--depth", "4")
    with judging(*given) as (process, address):
        token = address.rstrip("/").rpartition("/")[2]
        assert len(token) >= 20
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(address.replace(token, token[:-1] + ("A" if token[-1] != "A" else "B")) + "next")
        assert "another `rankwright judge` is writing" in said(capsys, "judge", *given).err
        state = ask(f"{address}next")
        for at in range(5):
            state = grade(address, state, at % 4)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with (files / "judgements" / "ann.jsonl").open("ab") as file:
        file.write(b'{"action": "grade", "quer')
    with judging(*given) as (process, other):
        assert other != address  # another token
        state = ask(f"{other}next")
        assert state["progress"]["done"] == 5
        while state["document"] is not None:
            state = grade(other, state, 2 if "wing" in state["document"]["title"] else 0)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "removed half a line" in rest
    n_judged = state["progress"]["of"]
    assert f"{n_judged} grades by ann" in rest
    assert read_qrels(files / "judgements" / "qrels.txt").n_docs == n_judged
    for name in ("bm25", "dirichlet"):
        said(capsys, "search", "docs.index", "queries.jsonl", "--function", name, "-o", f"{name}.run", code=0)
    qrels = "judgements/qrels.txt"
    told = said(capsys, "compare", qrels, "bm25.run", "dirichlet.run", "-m", "nDCG@4", "-m", "Judged@4", code=0)
    assert told.out.count("1.0000") >= 2  # the pool holds the first four of both
    said(capsys, "features", "docs.index", "queries.jsonl", "--qrels", qrels, "-o", "train.txt", code=0)
    said(capsys, "train", "train.txt", "--method", "rank-svm", "--C", "1", "-o", "model.rkw", code=0)


def keep(path, **grades):
    file = JudgeFile(path)
    for document, value in grades.items():
        file.append(Action("grade", "q", document, value))
    file.close()


def test_agreement_of_a_folder_and_of_qrels(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "judgements").mkdir()
    keep(tmp_path / "judgements" / "ann.jsonl", a=3, b=0, c=1, d=2)
    keep(tmp_path / "judgements" / "bob.jsonl", a=3, b=0, c=3)
    told = said(capsys, "agreement", "judgements", code=0).out
    assert "ann: 4 documents" in told
    assert "ann – bob          3    67%   0.50" in told
    assert "different grades: 1 documents:\n  q  c  ann 1, bob 3" in told
    (tmp_path / "model.qrels").write_text("q 0 a 3\nq 0 b 0\nq 0 c 0\n")
    found = json.loads(said(capsys, "agreement", "judgements", "model.qrels", "--json", code=0).out)
    assert found["judges"] == {"ann": 4, "bob": 3, "model": 3}
    assert found["documents"] == 3
    assert len(found["pairs"]) == 3


def test_agreement_of_what_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "contains no judgements" in said(capsys, "agreement", "empty").err
    assert "nowhere" in said(capsys, "agreement", "nowhere").err
    keep(tmp_path / "ann.jsonl", a=3)
    assert "at least two judges; found ann" in said(capsys, "agreement", "ann.jsonl").err
    assert "is given twice" in said(capsys, "agreement", "ann.jsonl", "ann.jsonl", "ann.jsonl").err


def test_documents_of_a_run_that_the_index_lacks(files, capsys):
    write_run(TrecTable.from_dict({"q1": {"d00": 2.0, "nowhere": 1.0}}), files / "mine.run")
    told = said(capsys, "judge", "docs.index", "queries.jsonl", "-o", "j", "--run", "mine.run", "--try", code=0)
    assert "to judge: 1 documents of 1 query" in told.err
    assert "note: nothing found for 2 of 3 queries" in told.err
    assert "note: 1 documents of runs are not in the index" in told.err
