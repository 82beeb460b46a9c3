"""`convert --by-query`, `convert` and `info` of parts, and what other commands say of them."""

import json

import numpy as np
import pytest
from tests.data.partitioned import assert_same, files_of, in_memory, made

from rankwright import RankingData, read_data, save_folder, write_data
from rankwright.cli.main import main
from rankwright.io.partitions import read_manifest


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_folder(made(), tmp_path / "x.rank")
    return tmp_path


def run(capsys, *words):
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_parts_and_back(here, capsys):
    code, out, err = run(capsys, "convert", "x.rank", "--by-query", "4", "-o", "x.partitions")
    assert (code, out) == (0, "")
    expected = in_memory(made(), 4)
    sizes = [part.n_docs for part in expected.values()]
    what = "40 queries, 400 documents, 4 dense float64 features"
    assert err == f"wrote x.partitions: {what}, in 4 partitions of {min(sizes)} to {max(sizes)} documents\n"
    whole = RankingData.concatenate(list(expected.values()))
    for name in ("y.rank", "y.parquet"):
        assert run(capsys, "convert", "x.partitions", "-o", name) == (
            0,
            "",
            f"wrote {name}: 40 queries, 400 documents, 4 partitions joined\n",
        )
        assert_same(read_data(name), whole)
    assert sorted(path.name for path in here.iterdir()) == ["x.partitions", "x.rank", "y.parquet", "y.rank"]


def test_joined_as_text(here, capsys):
    data = made(qid=np.arange(400) % 7)
    save_folder(data, here / "x.rank")
    assert run(capsys, "convert", "x.rank", "--by-query", "3", "-o", "x.partitions")[0] == 0
    assert run(capsys, "convert", "x.partitions", "-o", "y.txt.gz")[0] == 0
    found = read_data("y.txt.gz", dtype=np.float64)
    expected = RankingData.concatenate(list(in_memory(data, 3).values()))
    np.testing.assert_array_equal(found.X, expected.X)
    assert found.doc_ids.tolist() == expected.doc_ids.tolist()


def test_several_inputs_of_several_kinds(here, capsys):
    pytest.importorskip("pyarrow")
    write_data(made(seed=1), here / "a.parquet")
    assert run(capsys, "convert", "x.rank", "a.parquet", "--by-query", "3", "-o", "x.partitions")[0] == 0
    whole = RankingData.concatenate([made(), made(seed=1)])
    for source in read_manifest("x.partitions").sources:
        assert_same(source.load(), in_memory(whole, 3)[source.name])


def test_text_is_float64_unless_asked(here, capsys):
    (here / "x.txt").write_text("1 qid:1 1:0.1\n0 qid:2 2:1\n")
    for words, dtype in (([], np.float64), (["--dtype", "float32"], np.float32)):
        assert run(capsys, "convert", "x.txt", "--by-query", "1", *words, "-o", "x.partitions")[0] == 0
        assert read_manifest("x.partitions").sources[0].load().X.dtype == dtype


def test_what_is_left_out_is_said(here, capsys):
    _, _, err = run(capsys, "convert", "x.rank", "--by-query", "1000", "-o", "x.partitions")
    n_partitions = len(in_memory(made(), 1000))
    assert err.startswith(
        f"note: {1000 - n_partitions} of 1,000 partitions would have no query and are left out\nwrote"
    )
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (here / "hive" / "bucket=2").mkdir(parents=True)
    parquet.write_table(pyarrow.table({"qid": [1], "label": [1], "a": [2]}), here / "hive" / "bucket=2" / "0.parquet")
    _, _, err = run(capsys, "convert", "hive", "--by-query", "1", "-o", "x.partitions")
    assert err.startswith("note: not features, as folders are named by them: bucket\nwrote")
    (here / "x.csv").write_text("query_id,grade,bm25,title\nq,1,2,hello\n")
    _, _, err = run(capsys, "convert", "x.csv", "--by-query", "1", "-o", "x.partitions")
    assert err.startswith("reading x.csv: queries 'query_id', labels 'grade', 1 feature; skipped 'title'\nwrote")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["x.rank", "--by-query", "4", "-o", "y"],
            "y: a folder of partitions ends in .partitions; expected y.partitions",
        ),
        (["x.rank", "--by-query", "4", "-o", "y.rank"], "y.rank: a folder of partitions ends in .partitions"),
        (["x.rank", "-o", "y.partitions"], "y.partitions: partitions are written by `rankwright convert --by-query N`"),
        (["x.rank", "x.rank", "-o", "y.rank"], "2 inputs; expected one, or --by-query N for partitions of all of them"),
        (["x.rank", "--by-query", "4", "-o", "y.partitions", "--scale", "minmax"], "--scale is not for --by-query"),
        (["x.rank", "--by-query", "4", "-o", "y.partitions", "--clean"], "--clean is not for --by-query"),
        (["x.rank", "--by-query", "4", "-o", "y.partitions", "--group", "g"], "--group is for one file of LETOR text"),
        (["q.txt", "--by-query", "4", "-o", "y.partitions"], "q.txt: contains judgements, not features"),
        (["none", "--by-query", "4", "-o", "y.partitions"], "none: cannot be read: No such file"),
        (["x.rank", "--by-query", "0", "-o", "y.partitions"], "0 is not in the range x>=1"),
        (
            ["x.rank", "--by-query", "100001", "-o", "y.partitions"],
            "--by-query 100,001; expected at most 100,000 partitions",
        ),
        (["x.rank", "--by-query", "4", "-o", "no/y.partitions"], "no/y.partitions: cannot be written: the folder no"),
    ],
)
def test_mistakes(here, capsys, words, message):
    (here / "q.txt").write_text("1 0 d1 1\n")
    before = files_of(here)
    code, out, err = run(capsys, "convert", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert files_of(here) == before


class TestInfo:
    @pytest.fixture
    def parts(self, here, capsys):
        run(capsys, "convert", "x.rank", "--by-query", "4", "-o", "x.partitions")
        return here / "x.partitions"

    def test_facts_come_from_the_manifest_alone(self, parts, capsys):
        for file in parts.glob("*.rank/*"):
            file.unlink()
        code, out, _ = run(capsys, "info", "x.partitions")
        assert code == 0
        for text in ("folder of partitions", "40\n", "400\n", "4 dense float64", "partition-0003.rank  ", "3: "):
            assert text in out

    def test_json(self, parts, capsys):
        code, out, _ = run(capsys, "info", "x.partitions", "--json", "--verify", "--pairs")
        found, data = json.loads(out), made()
        assert code == 0
        assert (found["format"], found["queries"], found["documents"], found["verified"]) == (
            "partitions",
            40,
            400,
            True,
        )
        assert sum(part["documents"] for part in found["partitions"]) == 400
        assert [entry["feature"] for entry in found["statistics"]] == ["a", "b", "c", "d"]
        np.testing.assert_allclose([entry["mean"] for entry in found["statistics"]], data.X.mean(axis=0))
        labels, counts = np.unique(data.labels, return_counts=True)
        assert found["labels"] == [[label, count] for label, count in zip(labels, counts, strict=True)]
        assert found["pairs"]["pairs"] > 0

    def test_verify(self, parts, here, capsys):
        assert "all compared: no difference" in run(capsys, "info", "x.partitions", "--verify")[1]
        assert run(capsys, "info", "x.rank", "--verify")[0] == 0
        for path in (parts / "partition-0002.rank" / "X.npy", here / "x.rank" / "X.npy"):
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
        for name in ("x.partitions", "x.rank"):
            code, _, err = run(capsys, "info", name, "--verify")
            assert code == 2
            assert "the checksum of X.npy is" in err
        (here / "x.txt").write_text("1 qid:1 1:1\n")
        assert "has no checksums" in run(capsys, "info", "x.txt", "--verify")[2]


def test_a_method_that_trains_in_one_place_says_so_and_trains_there(here, capsys):
    run(capsys, "convert", "x.rank", "--by-query", "4", "-o", "x.partitions")
    run(capsys, "convert", "x.partitions", "-o", "joined.rank")
    train = ["--method", "ranknet", "--set", "epochs=3", "--cv", "0", "-o"]
    code, _, err = run(capsys, "train", "x.partitions", *train, "m.rkw")
    assert code == 0
    assert "note: ranknet trains in one place; the features are copied there from their partitions, 0." in err
    assert run(capsys, "train", "joined.rank", *train, "joined.rkw")[0] == 0
    assert (here / "m.rkw").read_bytes() == (here / "joined.rkw").read_bytes()


def test_a_command_that_needs_the_features_in_one_place_says_how(here, capsys):
    run(capsys, "convert", "x.rank", "--by-query", "4", "-o", "x.partitions")
    code, _, err = run(capsys, "diagnose", "x.partitions")
    assert code == 2
    what = "the features are in 4 partitions, and this needs them in one place"
    assert err.endswith(f"{what}; join the partitions first: rankwright convert x.partitions -o JOINED.rank\n")


def test_parts_are_not_converted_on_the_way(here, capsys):
    run(capsys, "convert", "x.rank", "--by-query", "4", "-o", "x.partitions")
    code, _, err = run(capsys, "convert", "x.partitions", "--scale", "minmax", "-o", "y.rank")
    assert code == 2
    assert err == "rankwright: x.partitions: --scale is not for partitions; join them first, then convert the result\n"
