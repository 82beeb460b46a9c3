import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, RankingData, read_data, read_qrels, write_data
from rankwright.io.detect import detect, suffix_of
from rankwright.io.folder import save_folder

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

TEXTS = {
    "letor": "2 qid:1 1:0.5 2:1 # docid = a\n",
    "qrels": "q1 0 doc1 2\n",
    "run": "q1 Q0 doc1 1 12.5 tag\n",
    "scores": "0.25\n-3\n",
}


def make_data(dtype=np.float64, kind="dense", ids=True, names=False):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(10, 4)).astype(dtype)
    X[rng.random(X.shape) < (0.7 if kind == "sparse" else 0.1)] = 0
    X[-1, -1] = 1
    return RankingData.from_arrays(
        sparse.csr_array(X) if kind == "sparse" else X,
        rng.integers(0, 3, 10),
        np.repeat(["7", "x", "12"], [2, 5, 3]),
        doc_ids=[f"d{i}" for i in range(10)] if ids else None,
        feature_names=["one", "two", "three", "four"] if names else None,
    )


def dense(data):
    return data.X.toarray() if data.is_sparse else np.asarray(data.X)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("before", ["", "\n  \n", "# made by hand\n"])
@pytest.mark.parametrize("pack", [False, True])
def test_text_is_told_by_its_lines(tmp_path, kind, before, pack):
    content = (before + TEXTS[kind]).encode()
    path = tmp_path / "some.file"
    path.write_bytes(gzip.compress(content) if pack else content)
    assert detect(path) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 3:0.5 7:1", "letor"),
        ("-1 qid:a", "letor"),
        ("0\n0\n1 3:0.5\n", "letor"),
        ("0 # nothing but a comment\n", "letor"),
        ("1 0 doc:3#x -1", "qrels"),
        ("q:1 0 d 1", "qrels"),
        ("1\t0\td\t1\r\n", "qrels"),
        ("1 Q0 a:b 1 1e-3 t", "run"),
        ("1e-3", "scores"),
    ],
)
def test_lines_that_look_like_others(tmp_path, text, kind):
    (tmp_path / "a").write_text(text)
    assert detect(tmp_path / "a") == kind


def test_parquet_and_folder(tmp_path):
    write_data(make_data(), tmp_path / "a.parquet")
    write_data(make_data(), tmp_path / "a.rank")
    (tmp_path / "a.parquet").rename(tmp_path / "b")
    assert detect(tmp_path / "b") == "parquet"
    assert detect(tmp_path / "a.rank") == "folder"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"a: is empty; expected LETOR lines"),
        (b"# only\n\n", "is empty"),
        (b"\n0.5\nhello world\n", "a:3: a line of an unknown format, 'hello world'; expected LETOR lines"),
        (b"hello my dear friend", "a:1: a line of an unknown format"),
        (b"a,b,c\n1,2,3\n", "a:1: has the columns 'a', 'b', 'c'; expected a header with columns for queries"),
        (b"[experiment]\nseed = 1\n", "a:1: a line of an unknown format, '\\[experiment\\]'"),
        (b"ab\0cd", "is not a text file"),
        (gzip.compress(b"1 qid:1 1:1\n" * 50, mtime=0)[:-20], "damaged or truncated gzip"),
    ],
)
def test_what_is_not_understood(tmp_path, content, message):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        detect(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_missing_files_and_other_folders(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        detect(tmp_path / "none")
    with pytest.raises(InputError, match=r"is a folder without rankwright\.json"):
        detect(tmp_path)


@pytest.mark.parametrize("suffix", [".txt", ".letor.gz", ".svm", ".dat", ".libsvm.gz", ".parquet", ".rank"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("ids", [False, True])
def test_every_format_goes_round(tmp_path, suffix, dtype, kind, ids):
    data = make_data(dtype, kind, ids)
    write_data(data, tmp_path / f"a{suffix}")
    found = read_data(tmp_path / f"a{suffix}", dtype=dtype, sparse=kind == "sparse")
    assert found.is_sparse == data.is_sparse
    assert found.X.dtype == dtype
    np.testing.assert_array_equal(dense(found), dense(data))
    np.testing.assert_array_equal(found.labels, data.labels)
    np.testing.assert_array_equal(found.indptr, data.indptr)
    assert found.query_ids.tolist() == data.query_ids.tolist()
    assert (found.doc_ids is None) == (not ids)
    if ids:
        assert found.doc_ids.tolist() == data.doc_ids.tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".rank"])
def test_feature_names_are_kept(tmp_path, suffix):
    write_data(make_data(names=True), tmp_path / f"a{suffix}")
    assert read_data(tmp_path / f"a{suffix}").feature_names == ("one", "two", "three", "four")


def test_types_unless_asked(tmp_path):
    for suffix in (".txt", ".parquet", ".rank"):
        write_data(make_data(np.float64), tmp_path / f"a{suffix}")
    found = {suffix: read_data(tmp_path / f"a{suffix}").X.dtype for suffix in (".txt", ".parquet", ".rank")}
    assert found == {".txt": np.float32, ".parquet": np.float64, ".rank": np.float64}


def test_a_folder_is_mapped_unless_it_must_change(tmp_path):
    save_folder(make_data(), tmp_path / "a.rank")
    assert isinstance(read_data(tmp_path / "a.rank").X.base, np.memmap)
    assert isinstance(read_data(tmp_path / "a.rank", dtype=np.float64, sparse=False).X.base, np.memmap)
    assert read_data(tmp_path / "a.rank", dtype=np.float32).X.dtype == np.float32


def test_values_too_large_for_float32(tmp_path):
    save_folder(RankingData.from_arrays([[1e300]], [1], [1]), tmp_path / "a.rank")
    with pytest.raises(InputError, match="features must be finite"):
        read_data(tmp_path / "a.rank", dtype=np.float32)


def test_labels_as_judgements(tmp_path):
    data = make_data()
    write_data(data, tmp_path / "a.qrels.gz")
    found = read_qrels(tmp_path / "a.qrels.gz")
    assert found.query_ids.tolist() == data.query_ids.tolist()
    assert found.values.tolist() == data.labels.tolist()
    with pytest.raises(InputError, match="judgements need document ids"):
        write_data(make_data(ids=False), tmp_path / "b.qrels")


def test_groups_and_negative_labels(tmp_path):
    (tmp_path / "a.txt").write_text("1 1:1\n-1 1:2\n0 1:3\n")
    data = read_data(tmp_path / "a.txt", group=[2, 1], negative="zero")
    assert data.sizes.tolist() == [2, 1]
    assert data.labels.tolist() == [1.0, 0.0, 0.0]
    with pytest.raises(InputError, match=r"a\.txt:2: label -1 is negative"):
        read_data(tmp_path / "a.txt", group=[2, 1])
    with pytest.raises(InputError, match="expected 'error' or 'zero'"):
        read_data(tmp_path / "a.txt", negative="drop")
    write_data(data, tmp_path / "a.rank")
    with pytest.raises(InputError, match="group sizes are for LETOR text"):
        read_data(tmp_path / "a.rank", group=[2, 1])


@pytest.mark.parametrize("kind", ["qrels", "run", "scores"])
def test_files_without_features(tmp_path, kind):
    (tmp_path / "a").write_text(TEXTS[kind])
    with pytest.raises(InputError, match="not features; expected LETOR lines, CSV, Parquet or a data folder"):
        read_data(tmp_path / "a")


@pytest.mark.parametrize("name", ["a", "a.xlsx", "a.gz", "a.parquet.gz", "a.rank.gz"])
def test_unknown_suffixes(tmp_path, name):
    with pytest.raises(InputError, match=r"unknown suffix; expected one of \.txt, .*\.parquet, \.rank"):
        write_data(make_data(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_suffix_of():
    assert suffix_of("a/b.TXT.gz") == ".txt"
    assert suffix_of("b.parquet") == ".parquet"
    assert suffix_of("b.gz") == ""


OPENED: list[str] = []
WATCHING: list[Path] = []


def watch(event, arguments):
    """An audit hook, which cannot be taken away again: it looks only while a test asks it to."""
    if event == "open" and WATCHING and str(arguments[0]).startswith(str(WATCHING[0])):
        OPENED.append(Path(arguments[0]).name)


sys.addaudithook(watch)


@pytest.fixture
def opened(tmp_path):
    OPENED.clear()
    WATCHING.append(tmp_path)
    yield OPENED
    WATCHING.clear()


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.parquet"])
def test_a_file_is_opened_once(tmp_path, opened, name, monkeypatch):
    write_data(make_data(), tmp_path / name)
    real = pyarrow.parquet.ParquetFile

    def not_by_name(source, **options):  # which would open it again, out of our sight
        assert not isinstance(source, str | Path)
        return real(source, **options)

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", not_by_name)
    opened.clear()
    assert read_data(tmp_path / name).n_docs == 10
    assert opened == [name]


def test_every_file_of_a_folder_is_opened_once(tmp_path, opened):
    write_data(make_data(), tmp_path / "a.rank")
    opened.clear()
    data = read_data(tmp_path / "a.rank")
    assert data.X.sum() == make_data().X.sum()
    files = [path.name for path in (tmp_path / "a.rank").iterdir()]
    assert sorted(opened) == sorted([*files, "a.rank"])
    assert opened.count("rankwright.json") == 1


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("command", ["info", "convert"])
def test_commands_open_a_file_once(tmp_path, opened, kind, command):
    from rankwright.cli.main import main

    source = tmp_path / "source"
    source.write_text(TEXTS[kind])
    opened.clear()
    suffix = {"letor": "txt", "scores": "txt"}.get(kind, kind)
    code = main([command, str(source), *(["-o", str(tmp_path / f"out.{suffix}")] if command == "convert" else [])])
    assert code == (2 if (command, kind) == ("convert", "scores") else 0)
    assert opened.count("source") == 1


def test_a_model_is_opened_once(tmp_path, opened):
    from rankwright import LinearModel, load_model, save_model
    from rankwright.cli.main import main

    save_model(LinearModel([1.0]), tmp_path / "m.rkw", method="m", parameters={})
    opened.clear()
    load_model(tmp_path / "m.rkw")
    assert opened == ["m.rkw"]
    assert main(["info", str(tmp_path / "m.rkw")]) == 0
    assert opened == ["m.rkw", "m.rkw"]
