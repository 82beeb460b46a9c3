"""The collection on the command line."""

import json

import pytest

from rankwright import read_qrels
from rankwright.cli.main import main
from rankwright.datasets import python_docs


@pytest.fixture
def small(tmp_path, monkeypatch):
    lines = ['"""Ships and their gear at sea."""']
    for number, word in enumerate(["hemp", "wool", "silk", "jute", "sisal", "flax"]):
        text = " ".join(f"w{number}x{at}" for at in range(12))
        lines.append(f'def f{number}():\n    """Splice old {word} ropes together.\n\n    {text}"""')
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "ships.py").write_text("\n".join(lines))
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path / "lib")})
    return tmp_path


def test_files_are_written(small, capsys):
    assert main(["collection", "python-docs", "-o", str(small / "out")]) == 0
    out, err = capsys.readouterr()
    made = python_docs()
    assert out == ""
    assert err == f"wrote {small / 'out'}: 6 documents, 6 navigational and 1 informational queries, 12 judgements\n"
    documents = [json.loads(line) for line in (small / "out" / "docs.jsonl").read_text().splitlines()]
    assert [(entry.pop("id"), entry) for entry in documents] == made.documents
    assert read_qrels(small / "out" / "qrels.txt").n_docs == made.qrels.n_docs


def test_bad_input_is_one_line(small, capsys):
    (small / "file").write_text("mine")
    for arguments, message in (
        (["collection", "python-docs", "-o", str(small / "file")], "is a file; expected a folder"),
        (["collection", "nothing", "-o", str(small / "out")], "'nothing' is not"),
        (["collection", "python-docs"], "Missing option"),
    ):
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    (small / "lib" / "ships.py").unlink()
    assert main(["collection", "python-docs", "-o", str(small / "out")]) == 2
    assert "contains no Python sources" in capsys.readouterr().err
    assert (small / "file").read_text() == "mine"
    assert not (small / "out").exists()
