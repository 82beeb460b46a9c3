"""Folders of Parquet files as Spark, DuckDB, Polars and pyarrow write them."""

import numpy as np
import pytest
from tests.data.partitioned import assert_parts, assert_same, made, shuffled, write_partitioned

from rankwright import InputError, RankingData, open_partitions, read_data, read_parquet, save_folder, to_frame
from rankwright.io.detect import detect
from rankwright.io.parquet import ParquetTable, pieces_of

polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
dataset = pytest.importorskip("pyarrow.dataset")


def table(rows, **more):
    columns = dict(zip(rows["feature_names"], rows["X"].T, strict=True))
    return pyarrow.table({"qid": rows["qid"], "docid": rows["doc_ids"], "label": rows["labels"], **columns, **more})


def by_files(folder, read=parquet.read_table):
    """The rows of all files, in the order of their names, as pyarrow reads each of them."""
    return pyarrow.concat_tables([read(path) for path in sorted(folder.rglob("*.parquet"))])


def data_of(found):
    features = ["a", "b", "c", "d"]
    return RankingData.from_arrays(
        np.column_stack([found[name].to_numpy() for name in features]),
        found["label"].to_numpy(),
        np.array(found["qid"].to_pylist()),
        doc_ids=np.array(found["docid"].to_pylist()),
        feature_names=features,
    )


def check(folder, expected, tmp_path):
    """Read into memory and in parts it is the same data."""
    assert detect(folder) == "parquet"
    assert_same(read_parquet(folder), expected)
    assert_same(read_data(folder), expected)
    assert_parts(write_partitioned([folder], 5, tmp_path / "x.partitions"), expected, 5)


@pytest.fixture
def whole():
    return table(shuffled(), bucket=np.arange(400) % 3)


class TestWriters:
    def test_spark(self, whole, tmp_path):
        folder = tmp_path / "spark"
        folder.mkdir()
        for number in range(3):
            name = f"partition-{number:05}-0c6d7b1e-7a52-4b4e-8d4c-c000.snappy.parquet"
            plain = whole.drop_columns(["bucket"]).slice(number * 150, 150)
            parquet.write_table(plain, folder / name, compression="snappy")
            (folder / f".{name}.crc").write_bytes(b"crc\0")
        (folder / "_SUCCESS").touch()
        expected = data_of(whole)
        check(folder, expected, tmp_path)

    def test_spark_partitioned(self, whole, tmp_path):
        folder = tmp_path / "spark"
        for bucket in range(3):
            (folder / f"bucket={bucket}").mkdir(parents=True)
            rows = whole.filter(pyarrow.compute.equal(whole["bucket"], bucket)).drop_columns(["bucket"])
            parquet.write_table(rows, folder / f"bucket={bucket}" / "partition-00000.c000.snappy.parquet")
        (folder / "_SUCCESS").touch()
        check(folder, data_of(by_files(folder)), tmp_path)
        assert ParquetTable(folder).left_out == ["bucket"]

    def test_duckdb(self, whole, tmp_path):
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            connection.register("whole", whole)
            rows = "SELECT * EXCLUDE bucket, hash(qid) % 4 AS bucket FROM whole ORDER BY bucket, qid"
            connection.execute(f"COPY ({rows}) TO '{tmp_path / 'duck'}' (FORMAT PARQUET, PARTITION_BY (bucket))")
        folder = tmp_path / "duck"
        assert len(list(folder.glob("bucket=*"))) == 4
        check(folder, data_of(by_files(folder, lambda path: parquet.read_table(path, partitioning=None))), tmp_path)

    def test_duckdb_by_query(self, whole, tmp_path):
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as connection:
            connection.register("whole", whole.drop_columns(["bucket"]))
            connection.execute(f"COPY whole TO '{tmp_path / 'duck'}' (FORMAT PARQUET, PARTITION_BY (qid))")
        found = read_parquet(tmp_path / "duck")  # the files have no column of query ids, their folders tell
        rows = shuffled()
        assert sorted(found.query_ids.tolist()) == sorted(set(rows["qid"].tolist()))
        by_doc = dict(zip(rows["doc_ids"].tolist(), rows["qid"].tolist(), strict=True))
        assert [by_doc[doc] for doc in found.doc_ids.tolist()] == found.qid.tolist()

    def test_polars(self, whole, tmp_path):
        polars.from_arrow(whole).write_parquet(tmp_path / "polars", partition_by=["bucket"])
        assert "bucket" not in read_parquet(tmp_path / "polars").feature_names
        check(tmp_path / "polars", data_of(by_files(tmp_path / "polars")), tmp_path)

    def test_pyarrow(self, whole, tmp_path):
        dataset.write_dataset(whole, tmp_path / "arrow", format="parquet", partitioning=["bucket"])
        folder = tmp_path / "arrow"  # named 0, 1 and 2: the column is only in the names, without a name of its own
        check(folder, data_of(by_files(folder, lambda path: parquet.read_table(path, partitioning=None))), tmp_path)


def test_a_query_in_several_files_is_brought_together(tmp_path):
    for number in range(4):
        parquet.write_table(table(shuffled()).slice(number * 100, 100), tmp_path / f"{number}.parquet")
    assert_same(read_parquet(tmp_path), made())


def test_columns_in_another_order_and_of_smaller_types(tmp_path):
    rows = pyarrow.table({"qid": [1, 1], "label": [1, 0], "a": np.array([1, 2], "i1"), "b": np.array([3, 4], "f4")})
    parquet.write_table(rows, tmp_path / "0.parquet")
    parquet.write_table(rows.select(["b", "label", "a", "qid"]), tmp_path / "1.parquet")
    assert read_parquet(tmp_path).X.tolist() == [[1, 3], [2, 4], [1, 3], [2, 4]]
    assert read_parquet(tmp_path).X.dtype == np.float32
    wide = rows.set_column(2, "a", pyarrow.array([0.1, 0.2]))
    parquet.write_table(wide, tmp_path / "2.parquet")
    assert read_parquet(tmp_path).X.dtype == np.float64
    assert read_parquet(tmp_path).X[-1].tolist() == [0.2, 4]


def test_names_of_folders_as_columns(tmp_path):
    rows = pyarrow.table({"label": [1, 0], "a": [0.5, 1.5]})
    for name in ("qid=x%20y", "qid=7"):
        (tmp_path / "text" / name).mkdir(parents=True)
        parquet.write_table(rows, tmp_path / "text" / name / "0.parquet")
    assert read_parquet(tmp_path / "text").query_ids.tolist() == ["7", "x y"]
    for name in ("qid=12/bucket=2", "qid=7/bucket=30"):
        (tmp_path / "numbers" / name).mkdir(parents=True)
        parquet.write_table(rows, tmp_path / "numbers" / name / "0.parquet")
    found = read_parquet(tmp_path / "numbers")
    assert found.query_ids.tolist() == [12, 7]
    assert found.feature_names == ("a",)
    both = read_parquet(tmp_path / "numbers", features=["bucket", "a"])
    assert both.X.tolist() == [[2, 0.5], [2, 1.5], [30, 0.5], [30, 1.5]]
    (tmp_path / "none" / "qid=__HIVE_DEFAULT_PARTITION__").mkdir(parents=True)
    parquet.write_table(rows, tmp_path / "none" / "qid=__HIVE_DEFAULT_PARTITION__" / "0.parquet")
    with pytest.raises(InputError, match=r"0.parquet: has the columns 'label', 'a'; no column for qid"):
        read_parquet(tmp_path / "none")


def test_names_of_folders_with_other_names_of_roles(tmp_path):
    rows = pyarrow.table({"rating": [1, 0], "a": [0.5, 1.5]})
    for name in ("query_id=12/topic=x/id=1", "query_id=7/topic=y/id=2"):
        (tmp_path / name).mkdir(parents=True)
        parquet.write_table(rows, tmp_path / name / "0.parquet")
    found = read_parquet(tmp_path)
    assert (found.query_ids.tolist(), found.feature_names, found.doc_ids) == ([12, 7], ("a",), None)
    assert ParquetTable(tmp_path).left_out == ["id", "topic"]
    assert read_parquet(tmp_path, docid="id").doc_ids.tolist() == [1, 1, 2, 2]


def test_files_named_one_by_one_are_those_of_the_folder(tmp_path):
    whole = polars.from_arrow(table(shuffled(), bucket=np.arange(400) % 3))
    whole.write_parquet(tmp_path / "polars", partition_by=["bucket"])
    files = sorted((tmp_path / "polars").rglob("*.parquet"))
    assert_parts(write_partitioned(files, 3, tmp_path / "x.partitions"), read_parquet(tmp_path / "polars"), 3)
    assert read_data(files[0]).feature_names == ("a", "b", "c", "d")


def test_categories_of_several_files(tmp_path):
    for name, texts in (("0", ["de", "fr"]), ("1", ["it", None])):
        frame = pyarrow.table({"qid": [name, name], "label": [1, 0], "lang": texts})
        parquet.write_table(frame, tmp_path / f"{name}.parquet")
    data = read_parquet(tmp_path)
    assert data.categories == {0: ("de", "fr", "it")}
    assert_parts(write_partitioned([tmp_path], 3, tmp_path.parent / "x.partitions"), data, 3)
    found = to_frame(data)["lang"].tolist()
    assert found[:3] == ["de", "fr", "it"]


class TestRefused:
    def write(self, folder, name, **columns):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({"qid": [1, 2], "label": [1, 0], **columns}), path)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"b": [1, 2]}, r"1.parquet: there is no column 'a', which .*0.parquet has"),
            ({"a": [1, 2], "b": [1, 2]}, r"1.parquet: has a column 'b', which .*0.parquet has not"),
            ({"a": ["x", "y"]}, r"1.parquet: the column 'a' has text in one file and numbers in another"),
            ({"a": [1.0, np.inf]}, r"1.parquet: column 'a', row 1 \(from 0\) is infinite"),
            ({"a": [1, 2], "docid": [1, 2]}, r"1.parquet: the column 'docid' is in this file or in .*0.parquet"),
        ],
    )
    def test_files_that_do_not_fit(self, tmp_path, columns, message):
        self.write(tmp_path, "0.parquet", a=[1, 2])
        self.write(tmp_path, "1.parquet", **columns)
        with pytest.raises(InputError, match=message):
            read_parquet(tmp_path)

    def test_a_negative_label_is_named_with_its_file(self, tmp_path):
        self.write(tmp_path, "0.parquet", a=[1, 2])
        parquet.write_table(pyarrow.table({"qid": [1, 2], "label": [1, -1], "a": [1, 2]}), tmp_path / "1.parquet")
        with pytest.raises(InputError, match=r"1.parquet: the label of row 1 \(from 0\) is -1"):
            read_parquet(tmp_path)
        assert read_parquet(tmp_path, negative="zero").labels.min() == 0

    def test_what_is_no_folder_of_pieces(self, tmp_path):
        self.write(tmp_path / "mixed", "0.parquet", a=[1, 2])
        (tmp_path / "mixed" / "notes.txt").write_text("hello")
        with pytest.raises(InputError, match=r"mixed: has Parquet files or data folders, and notes.txt"):
            read_data(tmp_path / "mixed")
        self.write(tmp_path / "both", "b.parquet", a=[1, 2])
        save_folder(made(), tmp_path / "both" / "a.rank")
        with pytest.raises(InputError, match=r"both: has Parquet files and data folders"):
            read_data(tmp_path / "both")
        self.write(tmp_path / "delta", "0.parquet", a=[1, 2])
        (tmp_path / "delta" / "_delta_log").mkdir()
        with pytest.raises(InputError, match=r"delta: is a Delta table"):
            read_data(tmp_path / "delta")
        (tmp_path / "empty").mkdir()
        assert pieces_of(tmp_path / "empty") == []
        for read in (read_data, read_parquet):
            with pytest.raises(InputError, match=r"empty: is a folder without"):
                read(tmp_path / "empty")


def test_parts_with_columns_of_other_names(tmp_path):
    """Parquet files used in place have their columns by name, or as the user names them, and may lack values."""
    rows = {"item_id": ["x", "y"], "a": [0.5, None], "b": [1, 2], "title": ["t", "u"]}
    for number in range(2):
        columns = {"search": [number, number], "stars": [1, 0], **rows}
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{number}.parquet")
    named = {"qid": "search", "label": "stars", "skip": "b"}
    data, whole = open_partitions(tmp_path, columns=named), read_parquet(tmp_path, columns=named)
    assert whole.X.shape == (4, 1)
    assert data.query_ids.tolist() == whole.query_ids.tolist() == [0, 1]
    assert data.doc_ids.tolist() == whole.doc_ids.tolist() == ["x", "y"] * 2
    assert data.feature_names == whole.feature_names == ("a",)
    assert open_partitions(tmp_path, qid="search", label="stars", features=["b"]).feature_names == ("b",)
    with pytest.raises(InputError, match="no column for qid"):
        open_partitions(tmp_path)


def test_a_folder_of_data_folders(tmp_path):
    folder = tmp_path / "folders"
    folder.mkdir()
    for number in range(2):
        save_folder(made(seed=number), folder / f"{number}.rank")
    expected = RankingData.concatenate([made(seed=0), made(seed=1)])
    assert detect(folder) == "folders"
    assert_same(read_data(folder), expected)
    assert_parts(write_partitioned([folder], 3, tmp_path / "x.partitions"), expected, 3)
