import functools
import hashlib

import numpy as np
import pytest
from tests.data.partitioned import (
    assert_parts,
    assert_same,
    dense,
    files_of,
    made,
    shuffled,
    write_partitioned,
    write_text,
)

from rankwright import InputError, RankingData, load_folder, read_data, read_letor, save_folder, write_data
from rankwright.data.statistics import Statistics
from rankwright.io import partitions_write
from rankwright.io.partitions import MANIFEST, join_partitions, read_manifest
from rankwright.io.partitions_write import partition_of, query_hash

SPARSE = "2 qid:b 1:0.1 900:5 # docid = x\n0 qid:a 2:1 # docid = y\n1 qid:b 3:3 900:0\n0 qid:c\n"


def small(monkeypatch, held=1, batch=1, block=1, ids=1):
    """Make everything that is done in pieces be done in tiny ones."""
    monkeypatch.setattr(partitions_write, "_HELD_BYTES", held)
    monkeypatch.setattr(partitions_write, "_BATCH_VALUES", batch)
    monkeypatch.setattr(partitions_write, "_ID_ROWS", ids)
    monkeypatch.setattr("rankwright.io.parquet._READ_VALUES", batch)
    monkeypatch.setattr("rankwright.io.letor._CHUNK_BYTES", 16 * batch)
    monkeypatch.setattr("rankwright.io.csv._BATCH_ROWS", batch)


def total_of(manifest):
    return functools.reduce(Statistics.merge, manifest.statistics)


def assert_same_statistics(found, expected):
    assert found.n_rows == expected.n_rows
    for name in ("low", "high", "missing", "means", "deviations"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.fixture
def rows():
    return shuffled()


def write_csv(path, rows):
    lines = ["query_id,grade,docid," + ",".join(rows["feature_names"])]
    for x, label, query, doc in zip(rows["X"], rows["labels"], rows["qid"], rows["doc_ids"], strict=True):
        lines.append(",".join([query, repr(float(label)), doc, *(repr(float(v)) for v in x)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_hash_is_that_of_the_text_on_every_machine():
    expected = int.from_bytes(hashlib.blake2b("é7".encode(), digest_size=8).digest(), "little")
    assert query_hash("é7") == query_hash(np.str_("é7")) == expected
    assert query_hash("12") == query_hash(12) == query_hash(np.int8(12)) == query_hash(12.0)
    assert query_hash("0") == 8493733112532773764  # a hash that changed would take every query to another part
    assert query_hash(0.5) == query_hash("0.5")
    assert partition_of("q", 1) == 0
    assert {partition_of(number, 5) for number in range(100)} == set(range(5))


class TestFormats:
    """The parts of every format are those of the same data read into memory."""

    def check(self, path, tmp_path, expected, n_partitions=7, **options):
        manifest = write_partitioned([path], n_partitions, tmp_path / "x.partitions", **options)
        assert_parts(manifest, expected, n_partitions)
        manifest.verify()
        assert {entry.name for entry in (tmp_path / "x.partitions").iterdir()} >= {MANIFEST, "sums.npy"}
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
    def test_letor(self, rows, tmp_path, name):
        write_text(tmp_path / name, rows)
        self.check(tmp_path / name, tmp_path, read_letor(tmp_path / name, dtype=np.float64))

    def test_letor_with_comments_of_ids_and_queries(self, tmp_path):
        text = "".join(f"{n % 2} qid:{n % 5} 1:{n} # {n}; the text of {n % 5}\n" for n in range(40))
        path = tmp_path / "x.txt"
        path.write_text(text)
        expected = read_letor(path, dtype=np.float64)
        assert expected.doc_ids is not None
        self.check(path, tmp_path, expected)
        path.write_text(text + "1 qid:3 1:2 # 3; the text of 3\n")  # twice in a query: the comments are something else
        assert read_letor(path).doc_ids is None
        self.check(path, tmp_path, read_letor(path, dtype=np.float64))

    @pytest.mark.parametrize("sparse", [None, True, False])
    def test_sparse_letor(self, tmp_path, sparse):
        path = tmp_path / "x.txt"
        path.write_text(SPARSE * 3000)
        expected = read_letor(path, dtype=np.float64, sparse=sparse)
        assert expected.is_sparse == (sparse is not False)
        self.check(path, tmp_path, expected, 2, is_sparse=sparse)

    def test_groups(self, tmp_path):
        path = tmp_path / "x.txt"
        path.write_text("".join(f"{n % 3} 1:{n}\n" for n in range(20)))
        (tmp_path / "x.txt.query").write_text("5\n0\n8\n7\n")
        self.check(path, tmp_path, read_letor(path, dtype=np.float64))
        (tmp_path / "sizes").write_text("5\n8\n6\n")
        with pytest.raises(InputError, match=r"add up to 19 but .* has more documents"):
            write_partitioned([path], 3, tmp_path / "x.partitions", group=tmp_path / "sizes")
        (tmp_path / "sizes").write_text("5\n8\n8\n")
        with pytest.raises(InputError, match=r"add up to 21 but .* has 20 documents"):
            write_partitioned([path], 3, tmp_path / "x.partitions", group=tmp_path / "sizes")
        with pytest.raises(InputError, match=r"x.txt:1: has no qid, and is one of several inputs"):
            write_partitioned([path, path], 3, tmp_path / "x.partitions")

    def test_csv(self, rows, tmp_path):
        write_csv(tmp_path / "x.csv", rows)
        self.check(tmp_path / "x.csv", tmp_path, read_data(tmp_path / "x.csv", dtype=np.float64))

    def test_csv_with_categories_and_missing_values(self, tmp_path, monkeypatch):
        path = tmp_path / "x.csv"
        cells = [("", ""), ("1.5", ""), ("", "de"), ("2", "fr"), ("", ""), ("7", "de")] * 5
        path.write_text("qid,label,n,lang\n" + "".join(f"{i % 4},{i % 2},{a},{b}\n" for i, (a, b) in enumerate(cells)))
        expected = read_data(path, dtype=np.float64)
        assert expected.categories == {1: ("de", "fr")}
        self.check(path, tmp_path, expected, 3)
        small(monkeypatch)  # the first missing texts come before anything says that they are texts
        self.check(path, tmp_path, expected, 3)
        found = total_of(read_manifest(tmp_path / "x.partitions"))
        assert found.missing.tolist() == [15, 15]
        assert found.means[0] == np.nanmean(expected.X[:, 0])
        with pytest.raises(InputError, match=r"float32 cannot hold the categories of 'lang'"):
            write_partitioned([path], 3, tmp_path / "x.partitions", dtype=np.float32)

    @pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "no ids", "numbers"])
    def test_data_folders(self, tmp_path, kind):
        rows = shuffled()
        if kind == "sparse":
            from scipy import sparse

            rows["X"] = sparse.csr_array(np.where(rows["X"] > 0.5, rows["X"], 0))
        if kind == "no ids":
            rows |= {"doc_ids": None, "feature_names": None}
        if kind == "numbers":
            rows |= {"qid": np.arange(len(rows["qid"])) % 31 - 3, "doc_ids": np.arange(len(rows["qid"])) * 0.5}
        if kind == "float32":
            rows["X"] = rows["X"].astype(np.float32)
        data = RankingData.from_arrays(**rows)
        save_folder(data, tmp_path / "x.rank")
        self.check(tmp_path / "x.rank", tmp_path, data, dtype=data.X.dtype)

    def test_missing_values_of_sparse_rows(self, tmp_path):
        from scipy import sparse

        rows = shuffled()
        rows["X"] = sparse.csr_array(np.where(rows["X"] > 0.5, rows["X"], 0))
        rows["X"].data[::5] = np.nan
        data = RankingData.from_arrays(**rows, allow_missing=True)
        save_folder(data, tmp_path / "x.rank")
        self.check(tmp_path / "x.rank", tmp_path, data)
        found, X = total_of(read_manifest(tmp_path / "x.partitions")), data.X.toarray()
        np.testing.assert_array_equal(found.missing, np.isnan(X).sum(axis=0))
        np.testing.assert_allclose(found.means, np.nanmean(X, axis=0))
        assert_same_statistics(found, Statistics.of(data))

    def test_parts_again(self, rows, tmp_path):
        data = RankingData.from_arrays(**rows)
        save_folder(data, tmp_path / "x.rank")
        write_partitioned([tmp_path / "x.rank"], 5, tmp_path / "first.partitions")
        manifest = write_partitioned([tmp_path / "first.partitions"], 1, tmp_path / "one.partitions")
        (source,) = manifest.sources
        found = source.load()
        assert sorted(found.query_ids.tolist()) == sorted(data.query_ids.tolist())
        assert found.n_docs == data.n_docs


def test_several_inputs_in_the_order_given(tmp_path):
    first, second = made(seed=1), made(seed=2)
    save_folder(first, tmp_path / "z.rank")
    save_folder(second, tmp_path / "a.rank")
    for paths, parts in ((["z", "a"], [first, second]), (["a", "z"], [second, first])):
        manifest = write_partitioned([tmp_path / f"{name}.rank" for name in paths], 5, tmp_path / "x.partitions")
        assert_parts(manifest, RankingData.concatenate(parts), 5)


def test_text_of_several_widths(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n0 qid:2 2:1\n")
    (tmp_path / "b.txt").write_text("1 qid:1 5:2 # docid = x\n")
    (source,) = write_partitioned([tmp_path / "a.txt", tmp_path / "b.txt"], 1, tmp_path / "x.partitions").sources
    assert source.load().X.tolist() == [[2, 0, 0, 0, 0], [0, 0, 0, 0, 2], [0, 1, 0, 0, 0]]
    assert source.load().doc_ids is None


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.rank", "x.parquet"])
def test_the_same_bytes_whatever_the_batches(rows, tmp_path, monkeypatch, name):
    if name == "x.parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    if name == "x.txt":
        write_text(path, rows)
    elif name == "x.csv":
        write_csv(path, rows)
    else:
        write_data(RankingData.from_arrays(**rows), path)
    write_partitioned([path], 6, tmp_path / "a.partitions")
    small(monkeypatch, held=1000, batch=37, ids=5)
    write_partitioned([path], 6, tmp_path / "b.partitions")
    first, second = files_of(tmp_path / "a.partitions"), files_of(tmp_path / "b.partitions")
    assert first == second
    assert len(first) > 30


def test_statistics_of_every_part_and_feature(rows, tmp_path):
    rows["X"][::3, 1] = np.nan
    rows["X"][:, 2] = np.nan
    rows["X"][:, 3] = rows["X"][:, 3] * 1e-3 + 1e6  # sums of squares would cancel
    data = RankingData.from_arrays(**rows, allow_missing=True)
    save_folder(data, tmp_path / "x.rank")
    manifest = write_partitioned([tmp_path / "x.rank"], 4, tmp_path / "x.partitions")
    for source, entry, found in zip(manifest.sources, manifest.partitions, manifest.statistics, strict=True):
        part = source.load()
        assert_same_statistics(found, Statistics.of(part))
        assert np.isnan(found.means[2])
        values, counts = np.unique(part.labels, return_counts=True)
        assert entry.labels == [[v, c] for v, c in zip(values.tolist(), counts.tolist(), strict=True)]
        folder = tmp_path / "x.partitions" / source.name
        assert entry.bytes == sum(file.stat().st_size for file in folder.iterdir())
    total = total_of(manifest)
    assert_same_statistics(total, Statistics.of(data))
    np.testing.assert_allclose(total.deviations[[0, 1, 3]], np.nanstd(data.X[:, [0, 1, 3]], axis=0), rtol=1e-7)
    for n_partitions in (1, 9):  # sums are exact: no cut changes a bit
        assert_same_statistics(
            total_of(write_partitioned([tmp_path / "x.rank"], n_partitions, tmp_path / "y.partitions")), total
        )


def test_statistics_of_an_earlier_version_are_refused(rows, tmp_path):
    save_folder(RankingData.from_arrays(**rows), tmp_path / "x.rank")
    write_partitioned([tmp_path / "x.rank"], 2, tmp_path / "x.partitions")
    manifest = tmp_path / "x.partitions" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"version": 2', '"version": 1', 1))
    with pytest.raises(InputError, match=r"earlier version.*--by-query 2 -o NEW.partitions"):
        _ = read_manifest(tmp_path / "x.partitions").statistics
    write_partitioned([tmp_path / "x.partitions"], 2, tmp_path / "x.partitions")
    assert_same_statistics(
        total_of(read_manifest(tmp_path / "x.partitions")), Statistics.of(RankingData.from_arrays(**rows))
    )


def test_too_many_labels_are_not_counted(tmp_path):
    rows = shuffled(n_docs=1500)
    rows["labels"] = np.arange(1500) / 7
    save_folder(RankingData.from_arrays(**rows), tmp_path / "x.rank")
    assert write_partitioned([tmp_path / "x.rank"], 1, tmp_path / "x.partitions").partitions[0].labels is None


@pytest.mark.parametrize("sparse", [False, True])
def test_parts_are_joined_again(rows, tmp_path, sparse):
    data = RankingData.from_arrays(**rows)
    save_folder(data, tmp_path / "x.rank")
    manifest = write_partitioned([tmp_path / "x.rank"], 5, tmp_path / "x.partitions", is_sparse=sparse)
    join_partitions(manifest, tmp_path / "whole.rank")
    whole = load_folder(tmp_path / "whole.rank")
    expected = RankingData.concatenate([source.load() for source in manifest.sources])
    assert_same(whole, expected)
    np.testing.assert_array_equal(np.sort(dense(whole), axis=0), np.sort(data.X, axis=0))
