"""Fusion on the command line."""

import numpy as np
import pytest

from rankwright import fuse, read_run
from rankwright.cli.main import main

RUNS = {
    "a.run": "1 Q0 d1 1 9 a\n1 Q0 d2 2 7 a\n1 Q0 d3 3 5 a\n2 Q0 d1 1 1 a\n",
    "b.run": "1 Q0 d4 1 0.2 b\n1 Q0 d1 2 0.1 b\n3 Q0 d9 1 4 b\n",
}


@pytest.fixture
def sources(tmp_path):
    for name, text in RUNS.items():
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in RUNS]


@pytest.mark.parametrize("options", [[], ["--method", "combsum"], ["--method", "combmnz", "--normalize", "sum"]])
def test_a_run_is_written(sources, tmp_path, capsys, options):
    target = tmp_path / "out.run.gz"
    assert main(["fuse", *sources, "-o", str(target), *options]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"wrote {target}: 3 queries, 6 documents of 2 runs\n"
    settings = dict(zip((name.strip("-") for name in options[::2]), options[1::2], strict=True))
    expected, found = fuse([read_run(source) for source in sources], **settings), read_run(target)
    assert found.query_ids.tolist() == expected.query_ids.tolist()
    one, other = np.argsort(found.doc_ids[:4]), np.argsort(expected.doc_ids[:4])
    assert found.doc_ids[:4][one].tolist() == expected.doc_ids[:4][other].tolist()
    assert found.values[:4][one].tolist() == expected.values[:4][other].tolist()


def test_depth_and_compare(sources, tmp_path, capsys):
    target = str(tmp_path / "rrf.run")
    assert main(["fuse", *sources, "-o", target, "--depth", "2", "-k", "1"]) == 0
    assert np.diff(read_run(target).indptr).tolist() == [2, 1, 1]
    (tmp_path / "qrels").write_text("1 0 d1 1\n2 0 d1 1\n")
    assert main(["compare", str(tmp_path / "qrels"), sources[0], target, "-m", "AP", "--resamples", "99"]) == 0
    assert "rrf" in capsys.readouterr().out


def test_bad_input_is_one_line(sources, tmp_path, capsys):
    (tmp_path / "neg.run").write_text("1 Q0 d1 1 -9 a\n1 Q0 d2 2 7 a\n")
    for arguments, message in (
        ([sources[0], "-o", sources[0]], "is also an input"),
        ([str(tmp_path / "none"), "-o", "x"], "cannot be read"),
        (["-o", str(tmp_path / "x")], "Missing argument"),
        ([sources[0]], "Missing option"),
        (
            [str(tmp_path / "neg.run"), "-o", "x", "--method", "combmnz", "--normalize", "none"],
            "neg.run has scores below 0",
        ),
        ([sources[0], "-o", str(tmp_path / "none" / "x")], "cannot be written"),
    ):
        assert main(["fuse", *arguments]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    assert (tmp_path / "a.run").read_text() == RUNS["a.run"]
