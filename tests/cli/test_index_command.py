import errno
import json
import re
import subprocess
import sys

import pytest

import rankwright.io.container as container_write
from rankwright import Index
from rankwright.cli.main import main

DOCS = [
    {"id": "d1", "title": "A wing", "text": "in a slipstream"},
    {"id": "d2", "text": "wings and more wings"},
    {"id": "d3", "title": ""},
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in DOCS))
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_index_and_closing_line(source, tmp_path, capsys):
    assert main(["index", str(source), "-o", str(tmp_path / "a.index")]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    line = rf"wrote {tmp_path / 'a.index'}: 3 documents \(1 empty\), 9 tokens, 7 terms, \d+\.\d kB\n"
    assert re.fullmatch(line, err)
    index = Index.open(tmp_path / "a.index")
    assert index.fields == ("title", "text")
    assert index.analyzers == ("plain", "porter", "porter+stop")
    view = index.view("porter+stop")
    assert view.doc_counts[view.terms["wing"]] == 2
    assert names(tmp_path) == ["a.index", "docs.jsonl"]


def test_options(source, tmp_path):
    target = str(tmp_path / "a.index")
    options = ["--fields", "text, title", "--analyzer", "porter", "--no-text", "--split-identifiers", "--field-views"]
    assert main(["index", str(source), "-o", target, *options]) == 0
    index = Index.open(target)
    assert index.fields == ("text", "title")
    assert index.analyzers == ("porter",)
    assert not index.has_text
    assert index.field_views
    assert index.view("plain").analyze("camelCase") == ["camel", "case"]


def test_several_sources_of_several_formats(source, tmp_path, capsys):
    (tmp_path / "more.tsv").write_text("d4\tlift\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "d5").write_text("drag")
    sources = [str(source), str(tmp_path / "more.tsv"), str(tmp_path / "folder")]
    assert main(["index", *sources, "-o", str(tmp_path / "a.index")]) == 0
    index = Index.open(tmp_path / "a.index")
    assert [index.doc_id(i) for i in range(5)] == ["d1", "d2", "d3", "d4", "d5"]
    assert index.text(4) == "drag"
    assert main(["index", str(tmp_path / "more.tsv"), "--format", "jsonl", "-o", str(tmp_path / "b.index")]) == 2
    assert "more.tsv:1: invalid JSON" in capsys.readouterr().err


def test_adding(source, tmp_path, capsys):
    target = tmp_path / "a.index"
    (tmp_path / "more.tsv").write_text("d4\tlift\n")
    assert main(["index", str(source), "-o", str(target)]) == 0
    assert main(["index", str(tmp_path / "more.tsv"), "-o", str(target), "--add"]) == 0
    assert f"added 1 document to {target}: 4 documents (1 empty), 10 tokens, 8 terms" in capsys.readouterr().err
    before = {entry.name: entry.read_bytes() for entry in target.iterdir()}
    assert main(["index", str(tmp_path / "more.tsv"), "-o", str(target), "--add"]) == 2
    line = f"rankwright: {tmp_path / 'more.tsv'}:1: duplicate document 'd4' (first as document 4)"
    assert capsys.readouterr().err.startswith(line)
    assert {entry.name: entry.read_bytes() for entry in target.iterdir()} == before
    assert main(["index", str(tmp_path / "more.tsv"), "-o", str(target), "--add", "--no-text"]) == 2
    assert "--add keeps the settings of the index" in capsys.readouterr().err
    assert main(["index", str(tmp_path / "more.tsv"), "-o", str(tmp_path / "none"), "--add"]) == 2
    assert "none: cannot be read: No such file or directory" in capsys.readouterr().err


def test_bytes_that_are_not_text(tmp_path, capsys):
    (tmp_path / "a.tsv").write_bytes(b"d1\tfine\nd2\tcaf\xe9\n")
    target = tmp_path / "a.index"
    assert main(["index", str(tmp_path / "a.tsv"), "-o", str(target)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{tmp_path / 'a.tsv'}:2: the byte 0xe9 is not valid UTF-8" in err
    assert not target.exists()
    assert main(["index", str(tmp_path / "a.tsv"), "-o", str(target), "--errors", "replace"]) == 0
    err = capsys.readouterr().err
    assert "warning: " in err
    assert "replaced bytes that are not UTF-8 in 1 document" in err
    assert Index.open(target).text(1) == "caf\ufffd"


def test_usage(source, tmp_path, capsys):
    for arguments in (
        [str(source)],
        [str(source), "--add"],
        ["-o", str(tmp_path / "a")],
        [str(source), "-o", str(tmp_path / "a"), "--analyzer", "potter"],
        [str(tmp_path / "none.jsonl"), "-o", str(tmp_path / "a")],
        [str(source), "-o", str(source)],
        [str(source), "-o", str(tmp_path / "none" / "a")],
        [str(source), "-o", str(tmp_path / "a"), "--fields", "body"],
        [str(source), "-o", str(tmp_path / "a"), "--fields", "title,,text"],
    ):
        assert main(["index", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert names(tmp_path) == ["docs.jsonl"]


def test_a_full_disk_is_one_line(source, tmp_path, monkeypatch, capsys):
    def full(file, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(container_write, "_write", full)
    assert main(["index", str(source), "-o", str(tmp_path / "a.index")]) == 2
    err = capsys.readouterr().err
    assert err == f"rankwright: {tmp_path / 'a.index'}: cannot be written: No space left on device\n"
    assert names(tmp_path) == ["docs.jsonl"]


def test_help_loads_nothing_heavy():
    code = "import sys; from rankwright.cli.main import main; main(['index', '--help']); "
    code += "print(*(name for name in ('numba', 'numpy', 'Stemmer', 'rich') if name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
