import builtins
import importlib

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, RankingData, from_frame, read_parquet, to_frame, write_parquet
from rankwright.io import frames
from rankwright.io import parquet as parquet_files

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MAKERS = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table}


def make_data(dtype=np.float32, ids=True, names=True, text_queries=False):
    rng = np.random.default_rng(7)
    qid = np.repeat([30, 4, 5], [4, 1, 7])
    return RankingData.from_arrays(
        rng.normal(size=(12, 3)).astype(dtype),
        rng.integers(0, 3, 12),
        qid.astype(str) if text_queries else qid,
        doc_ids=[f"d-{i}" for i in range(12)] if ids else None,
        feature_names=["bm25", "title len", "é"] if names else None,
    )


def assert_same(found, data, names=None):
    assert found.X.dtype == data.X.dtype
    np.testing.assert_array_equal(found.X, data.X.toarray() if data.is_sparse else data.X)
    np.testing.assert_array_equal(found.labels, data.labels)
    np.testing.assert_array_equal(found.indptr, data.indptr)
    assert found.query_ids.tolist() == data.query_ids.tolist()
    assert (found.doc_ids is None) == (data.doc_ids is None)
    if data.doc_ids is not None:
        assert found.doc_ids.tolist() == data.doc_ids.tolist()
    assert found.feature_names == (names or data.feature_names)


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("text_queries", [False, True])
def test_frames_go_round(library, dtype, text_queries):
    data = make_data(dtype, text_queries=text_queries)
    frame = to_frame(data, library)
    assert type(frame).__module__.startswith(library)
    assert_same(from_frame(frame), data)


@pytest.mark.parametrize("library", MAKERS)
def test_without_ids_and_names(library):
    data = make_data(ids=False, names=False)
    assert_same(from_frame(to_frame(data, library)), data, names=("f1", "f2", "f3"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("text_queries", [False, True])
def test_parquet_goes_round_in_many_batches(tmp_path, monkeypatch, dtype, ids, text_queries):
    monkeypatch.setattr(parquet_files, "_WRITE_VALUES", 10)
    monkeypatch.setattr(parquet_files, "_READ_VALUES", 12)
    data = make_data(dtype, ids, text_queries=text_queries)
    write_parquet(data, tmp_path / "a.parquet")
    calls = []
    found = read_parquet(tmp_path / "a.parquet", progress=lambda done, total: calls.append((done, total)))
    assert_same(found, data)
    assert found.query_ids.dtype.kind == data.query_ids.dtype.kind
    assert len(calls) > 1
    assert calls[-1] == ((tmp_path / "a.parquet").stat().st_size,) * 2


def test_sparse_data_is_written_densely_unless_that_is_unreasonable(tmp_path, monkeypatch):
    X = sparse.csr_array(np.diag([1.0, 2.0, 3.0]))
    data = RankingData.from_arrays(X, [0, 1, 2], [1, 1, 2])
    write_parquet(data, tmp_path / "a.parquet")
    assert_same(read_parquet(tmp_path / "a.parquet"), data, names=("f1", "f2", "f3"))
    monkeypatch.setattr(frames, "_DENSE_LIMIT", 50)
    with pytest.raises(InputError, match=r"as a table; write LETOR text or a \.rank folder"):
        write_parquet(data, tmp_path / "b.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("library", MAKERS)
def test_rows_of_a_query_are_gathered(library):
    frame = MAKERS[library]({"x": [1.0, 2.0, 3.0], "label": [0, 1, 2], "qid": ["b", "a", "b"]})
    data = from_frame(frame)
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.X.ravel().tolist() == [1.0, 3.0, 2.0]


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": np.ones(2, np.float32), "b": np.ones(2, np.int16), "c": np.array([True, False])}, np.float32),
        ({"a": np.ones(2, np.float32), "b": np.ones(2, np.int32)}, np.float64),
        ({"a": np.ones(2, np.float64)}, np.float64),
    ],
)
def test_dtype_is_what_the_columns_need(library, columns, dtype):
    data = from_frame(MAKERS[library]({"qid": [1, 1], "label": [0, 1], **columns}))
    assert data.X.dtype == dtype
    assert data.feature_names == tuple(columns)


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"qid": [1, 1], "label": [0, 1], "x": [[1], [2]]}, "column 'x' does not hold numbers"),
        ({"qid": [1, 1], "label": ["0", "1"], "x": [1, 2]}, "column 'label' does not hold numbers"),
        ({"qid": [1, 1], "label": [0, 1], "x": [1.0, np.inf]}, r"column 'x', row 1 \(from 0\) is infinite"),
        ({"qid": ["a", None], "label": [0, 1], "x": [1, 2]}, r"column 'qid', row 1 \(from 0\) is missing"),
        ({"qid": [1, 1], "label": [0, None], "x": [1, 2]}, r"column 'label', row 1 \(from 0\) is missing"),
        ({"qid": [1, 1], "docid": ["a", None], "label": [0, 1], "x": [1, 2]}, r"column 'docid', row 1 .* missing"),
        ({"qid": [True, False], "label": [0, 1], "x": [1, 2]}, "column 'qid' holds bool"),
        ({"query": [1, 1], "label": [0, 1]}, "no feature columns among 'query', 'label'"),
        ({"number": [1, 1], "label": [0, 1], "x": [1, 2]}, r"no column for qid \(qid, query_id, .*, query, "),
        (
            {"qid": [1, 1], "x": [1, 2]},
            r"'qid', 'x'; no column for label \(label, rating, .*label=NAME",
        ),
        ({"qid": [1, 2], "label": [0.0, np.nan], "x": [1, 2]}, r"column 'label', row 1 \(from 0\) is missing"),
        ({"qid": ["a", ""], "label": [0, 1], "x": [1, 2]}, r"column 'qid', row 1 \(from 0\) is missing"),
        ({"qid": [1, 1], "label": [0, 1]}, "no feature columns among 'qid', 'label'"),
        ({"qid": [1, 1], "label": [0, -1], "x": [1, 2]}, "labels must be finite and at least 0"),
        ({"qid": [], "label": np.empty(0), "x": np.empty(0)}, "there are no rows"),
    ],
)
def test_bad_frames_are_told_apart(library, columns, message):
    with pytest.raises(InputError, match=message):
        from_frame(MAKERS[library](columns))


@pytest.mark.parametrize("library", MAKERS)
@pytest.mark.parametrize("value", [None, np.nan])
def test_null_and_nan_are_missing(library, value):
    data = from_frame(MAKERS[library]({"qid": [1, 1], "label": [0, 1], "x": [1.0, value]}))
    assert data.X[0].tolist() == [1.0]
    assert np.isnan(data.X[1]).all()


def test_pandas_nullable_categorical_and_numbered_columns():
    frame = pandas.DataFrame(
        {
            "qid": pandas.Categorical(["b", "a"]),
            "label": pandas.array([1, 0], dtype="Int64"),
            0: pandas.array([1.5, 2.5], dtype="Float32"),
            1: pandas.array([True, False], dtype="boolean"),
        }
    )
    data = from_frame(frame)
    assert data.feature_names == ("0", "1")
    assert data.query_ids.tolist() == ["b", "a"]
    assert data.X.dtype == np.float32
    assert data.X.tolist() == [[1.5, 1.0], [2.5, 0.0]]


def test_arrow_dictionary_ids_decimals_and_record_batches():
    columns = {
        "qid": pyarrow.array(["b", "a"]).dictionary_encode(),
        "label": pyarrow.array([1, 0]),
        "x": pyarrow.array([1.5, 2.5]).cast(pyarrow.decimal128(5, 2)),
    }
    for frame in (pyarrow.table(columns), pyarrow.record_batch(columns)):
        data = from_frame(frame)
        assert data.query_ids.tolist() == ["b", "a"]
        assert data.X.tolist() == [[1.5], [2.5]]


def test_columns_can_be_named_and_chosen(tmp_path):
    table = pyarrow.table(
        {"q": [1, 1], "d": ["x", "y"], "y": [0, 1], "a": [1.0, 2.0], "b": [3.0, 4.0], "note": ["", ""]}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    names = {"qid": "q", "docid": "d", "label": "y", "features": ["b"]}
    for data in (from_frame(table, **names), read_parquet(tmp_path / "a.parquet", **names)):
        assert data.X.tolist() == [[3.0], [4.0]]
        assert data.doc_ids.tolist() == ["x", "y"]
        assert data.feature_names == ("b",)
    with pytest.raises(InputError, match="no column 'doc'"):
        from_frame(table, qid="q", docid="doc", label="y", features=["b"])


def test_columns_of_the_same_name():
    frame = pandas.DataFrame([[1, 0, 1.0, 2.0]], columns=["qid", "label", "x", "x"])
    with pytest.raises(InputError, match="2 columns are called 'x'"):
        from_frame(frame)
    data = RankingData.from_arrays([[1.0]], [0], [1], feature_names=["qid"])
    with pytest.raises(InputError, match="2 columns are called 'qid'"):
        to_frame(data)


def test_what_is_no_frame():
    with pytest.raises(InputError, match="expected a pandas or polars DataFrame"):
        from_frame([1, 2])
    with pytest.raises(InputError, match=r"call its collect\(\) first"):
        from_frame(polars.DataFrame({"qid": [1]}).lazy())
    with pytest.raises(InputError, match="unknown table library 'dask'"):
        to_frame(make_data(), "dask")


def test_ids_of_mixed_types_must_stay_apart():
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, "1"])
    with pytest.raises(InputError, match="query ids of different types"):
        to_frame(data)


def test_requested_dtype_and_negative_labels(tmp_path):
    parquet.write_table(pyarrow.table({"qid": [1, 1], "label": [-1, 1], "x": [0.1, 1e300]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: the label of row 0"):
        read_parquet(tmp_path / "a.parquet")
    assert read_parquet(tmp_path / "a.parquet", negative="zero").labels.tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match=r"row 1 .* too large for float32"):
        read_parquet(tmp_path / "a.parquet", dtype=np.float32, negative="zero")


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "overwritten", "a name of other bytes"])
def test_damaged_parquet(tmp_path, damage):
    path = tmp_path / "a.parquet"
    write_parquet(make_data(), path)
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(
        {
            "cut": good[:middle],
            "text": b"hello",
            "empty": b"",
            "overwritten": good[:4] + b"\xff" * (middle - 4) + good[middle:],
            "a name of other bytes": good.replace(b"label", b"l\xedbel"),
        }[damage]
    )
    with pytest.raises(InputError) as caught:
        read_parquet(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_missing_parquet_and_folder(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="is a folder"):
        read_parquet(tmp_path)
    parquet.write_table(pyarrow.table({"label": [1], "x": [1.0]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet: has the columns 'label', 'x'; no column for qid"):
        read_parquet(tmp_path / "a.parquet")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr(parquet_files, "_WRITE_VALUES", 3)

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_parquet(make_data(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch, tmp_path):
    real = importlib.import_module

    def refuse(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(InputError, match=r"pip install 'rankwright\[tables\]'"):
        write_parquet(make_data(), tmp_path / "a.parquet")
    assert from_frame(pandas.DataFrame({"qid": [1], "label": [1], "x": [1]})).n_docs == 1


def test_frames_need_no_pyarrow_import(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **named):
        assert not name.startswith("pyarrow"), "pyarrow imported for a polars frame"
        return real(name, *rest, **named)

    frame = polars.DataFrame({"qid": [1, 2], "label": [1, 0], "x": [1.0, 2.0]})
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert from_frame(frame).n_queries == 2


def test_a_parquet_page_that_claims_too_much_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_parquet(make_data(), path)

    def fails(*_args, **_options):
        raise pyarrow.ArrowMemoryError("malloc of size 2147483584 failed")

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", fails)
    with pytest.raises(InputError, match=r"a\.parquet: a part of it does not fit into memory \(malloc of size"):
        read_parquet(path)
