import gzip
from itertools import pairwise

import numpy as np
import pytest

from rankwright import QueryScaler, RankingData, read_data, read_run
from rankwright.cli.main import main
from rankwright.io.detect import detect

pytest.importorskip("pyarrow")

LETOR = "2 qid:b 1:0.1 3:5 # docid = x\n0 qid:b 2:1 3:1e-300 # docid = y\n1 qid:a 1:3 3:2 # docid = z\n"
RUN = "1 Q0 d1 1 0.5 mine\n1 Q0 d2 2 0.75 mine\n2 Q0 d1 1 3 mine\n"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(LETOR)
    return path


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_through_all_formats_and_back(source, tmp_path, capsys):
    steps = ["a.txt", "b.rank", "c.parquet", "d.svm.gz", "e.rank", "f.letor"]
    for old, new in pairwise(steps):
        assert main(["convert", str(tmp_path / old), "-o", str(tmp_path / new)]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        assert err == f"wrote {tmp_path / new}: 2 queries, 3 documents, 3 dense float64 features\n"
    first, last = read_data(source, dtype=np.float64), read_data(tmp_path / "f.letor", dtype=np.float64)
    np.testing.assert_array_equal(first.X, last.X)
    assert first.X[1, 2] == 1e-300
    assert last.doc_ids.tolist() == ["x", "y", "z"]
    assert last.query_ids.tolist() == ["b", "a"]
    assert names(tmp_path) == sorted(steps)


def test_options(source, tmp_path):
    target = str(tmp_path / "b.rank")
    assert main(["convert", str(source), "-o", target, "--dtype", "float32", "--scale", "minmax"]) == 0
    found = read_data(target)
    assert found.X.dtype == np.float32
    np.testing.assert_array_equal(found.X, QueryScaler("minmax").transform(read_data(source)).X)
    assert main(["convert", target, "-o", target, "--sparse"]) == 0
    assert read_data(target).is_sparse
    assert main(["convert", target, "-o", target, "--dense"]) == 0
    np.testing.assert_array_equal(read_data(target).X, found.X)


def test_groups_and_negative_labels(tmp_path, capsys):
    (tmp_path / "a").write_text("1 1:1\n-1 1:2\n0 1:3\n")
    (tmp_path / "sizes").write_text("2\n1\n")
    args = ["convert", str(tmp_path / "a"), "-o", str(tmp_path / "b.parquet"), "--group", str(tmp_path / "sizes")]
    assert main(args) == 2
    assert "label -1 is negative" in capsys.readouterr().err
    assert main([*args, "--negative-as-zero"]) == 0
    assert read_data(tmp_path / "b.parquet").sizes.tolist() == [2, 1]


@pytest.mark.parametrize("name", ["a.txt", "a.rank", "a.parquet"])
def test_onto_itself(source, tmp_path, name):
    path = tmp_path / name
    if path != source:
        assert main(["convert", str(source), "-o", str(path)]) == 0
    before = read_data(path, dtype=np.float64)
    assert main(["convert", str(path), "-o", str(path)]) == 0
    np.testing.assert_array_equal(read_data(path, dtype=np.float64).X, before.X)
    assert names(tmp_path) == sorted({"a.txt", name})


def test_labels_as_judgements(source, tmp_path, capsys):
    assert main(["convert", str(source), "-o", str(tmp_path / "b.qrels")]) == 0
    assert (tmp_path / "b.qrels").read_text() == "b 0 x 2\nb 0 y 0\na 0 z 1\n"
    assert capsys.readouterr().err.endswith("b.qrels: 2 queries, 3 judgements\n")


def test_runs_are_rewritten_in_rank_order_with_their_tag(tmp_path, capsys):
    (tmp_path / "a.run").write_text(RUN)
    assert main(["convert", str(tmp_path / "a.run"), "-o", str(tmp_path / "b.run.gz")]) == 0
    expected = b"1 Q0 d2 1 0.75 mine\n1 Q0 d1 2 0.5 mine\n2 Q0 d1 1 3 mine\n"
    assert gzip.decompress((tmp_path / "b.run.gz").read_bytes()) == expected
    assert read_run(tmp_path / "b.run.gz").n_docs == 3
    assert capsys.readouterr().err.endswith("b.run.gz: 2 queries, 3 documents\n")


def test_judgements_are_rewritten(tmp_path):
    (tmp_path / "a").write_text("1 0 d1 -1\n1 0 d2 2\n")
    assert main(["convert", str(tmp_path / "a"), "-o", str(tmp_path / "b.qrels.gz")]) == 0
    assert detect(tmp_path / "b.qrels.gz") == "qrels"
    assert main(["convert", str(tmp_path / "a"), "-o", str(tmp_path / "c.txt"), "--negative-as-zero"]) == 0
    assert (tmp_path / "c.txt").read_text() == "1 0 d1 0\n1 0 d2 2\n"


@pytest.mark.parametrize(
    ("text", "target", "options", "message"),
    [
        (LETOR, "b.xlsx", [], "b.xlsx: unknown suffix; expected one of .txt"),
        (LETOR, "b.run", [], "b.run: unknown suffix"),
        (LETOR, "none/b.txt", [], "cannot be written: the folder "),
        (LETOR.replace("3:5", "3:x"), "b.rank", [], "a:1: "),
        (LETOR.replace("docid = ", "a b "), "b.qrels", [], "judgements need document ids"),
        (RUN, "b.rank", [], "a is a TREC run; expected the output to end in .run, .trec, .txt"),
        (RUN, "b.run", ["--scale", "minmax"], "--scale is for feature data"),
        ("1 0 d 1\n", "b.run", [], "a is TREC judgements; expected the output to end in .qrels, .txt"),
        ("0.5\n", "b.txt", [], "one score per line"),
        ("hello\n", "b.txt", [], "a:1: a line of an unknown format"),
        (LETOR, "b.rank", ["--scale", "sideways"], "'sideways' is not one of"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, text, target, options, message):
    (tmp_path / "a").write_text(text)
    assert main(["convert", str(tmp_path / "a"), "-o", str(tmp_path / target), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rankwright: ")
    assert err.count("\n") == 1
    assert message in err
    assert names(tmp_path) == ["a"]


def test_a_failure_leaves_the_target_as_it_was(tmp_path, capsys):
    (tmp_path / "a").write_text(LETOR.replace("3:2", "3:nan"))
    (tmp_path / "b.txt").write_text("mine")
    (tmp_path / "c.rank").mkdir()
    (tmp_path / "c.rank" / "note").write_text("mine")
    for target in ("b.txt", "c.rank"):
        assert main(["convert", str(tmp_path / "a"), "-o", str(tmp_path / target)]) == 2
    (tmp_path / "a").write_text(LETOR)
    assert main(["convert", str(tmp_path / "a"), "-o", str(tmp_path / "c.rank")]) == 2
    assert "is not a Rankwright folder" in capsys.readouterr().err
    assert (tmp_path / "b.txt").read_text() == "mine"
    assert names(tmp_path / "c.rank") == ["note"]
    assert names(tmp_path) == ["a", "b.txt", "c.rank"]


def test_stored_types_are_kept(tmp_path):
    from rankwright.io.folder import save_folder

    save_folder(RankingData.from_arrays(np.ones((2, 2), np.float32), [0, 1], [1, 1]), tmp_path / "a.rank")
    assert main(["convert", str(tmp_path / "a.rank"), "-o", str(tmp_path / "b.parquet")]) == 0
    assert read_data(tmp_path / "b.parquet").X.dtype == np.float32


def test_help_shows_an_example(capsys):
    assert main(["convert", "--help"]) == 0
    assert "rankwright convert train.txt.gz -o train.rank" in capsys.readouterr().out
