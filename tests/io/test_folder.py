import json

import numpy as np
import pytest
from scipy import sparse

from altered import alter_array
from rankwright import InputError, RankingData
from rankwright.io.folder import HEADER, load_folder, save_folder


def make_data(dtype=np.float32, kind="dense", ids=True, names=True):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 5)).astype(dtype) * (rng.random((9, 5)) < 0.6)
    return RankingData.from_arrays(
        sparse.csr_array(X) if kind == "sparse" else X,
        rng.integers(0, 3, 9),
        np.repeat(["q2", "q10", "ü"], [2, 3, 4]),
        doc_ids=[f"doc{i}" for i in range(9)] if ids else None,
        feature_names=["a", "b", "c", "d", "é"] if names else None,
    )


def dense(data):
    return data.X.toarray() if data.is_sparse else np.asarray(data.X)


def is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "a.rank"
    save_folder(make_data(), path)
    return path


def edit_header(path, **changes):
    header = json.loads((path / HEADER).read_text())
    (path / HEADER).write_text(json.dumps(header | changes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize("mmap", [False, True])
def test_goes_round(tmp_path, dtype, kind, extras, mmap):
    data = make_data(dtype, kind, extras, extras)
    save_folder(data, tmp_path / "a.rank")
    found = load_folder(tmp_path / "a.rank", mmap=mmap)
    assert found.is_sparse == data.is_sparse
    assert found.X.dtype == dtype
    np.testing.assert_array_equal(dense(found), dense(data))
    np.testing.assert_array_equal(found.labels, data.labels)
    np.testing.assert_array_equal(found.indptr, data.indptr)
    assert found.query_ids.tolist() == data.query_ids.tolist()
    assert found.feature_names == data.feature_names
    assert (found.doc_ids is None) == (data.doc_ids is None)
    if extras:
        assert found.doc_ids.tolist() == data.doc_ids.tolist()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_stay_on_disk_and_read_only(tmp_path, kind):
    save_folder(make_data(kind=kind), tmp_path / "a.rank")
    X = load_folder(tmp_path / "a.rank").X
    parts = (X.data, X.indices, X.indptr) if kind == "sparse" else (X,)
    for part in parts:
        assert is_mapped(part)
        assert not part.flags.writeable
    X = load_folder(tmp_path / "a.rank", mmap=False).X
    parts = (X.data, X.indices, X.indptr) if kind == "sparse" else (X,)
    assert not any(is_mapped(part) for part in parts)
    assert not any(part.flags.writeable for part in parts)


def test_saved_over_the_folder_it_was_loaded_from(saved):
    data = load_folder(saved)
    before = np.array(data.X)
    save_folder(data, saved)
    np.testing.assert_array_equal(data.X, before)
    np.testing.assert_array_equal(load_folder(saved).X, before)
    assert [entry.name for entry in saved.parent.iterdir()] == [saved.name]


def test_sparse_replaces_dense_without_leftovers(saved):
    save_folder(make_data(kind="sparse", ids=False), saved)
    assert load_folder(saved).is_sparse
    assert not (saved / "X.npy").exists()
    assert not (saved / "doc_ids.npy").exists()


def test_sparse_data_without_any_value(tmp_path):
    data = RankingData.from_arrays(sparse.csr_array((3, 2)), [0, 1, 0], [1, 1, 2])
    save_folder(data, tmp_path / "a.rank")
    assert load_folder(tmp_path / "a.rank").X.nnz == 0


def test_object_ids_become_strings(tmp_path):
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [5, "x"], doc_ids=np.array([b"one", "two"], object))
    save_folder(data, tmp_path / "a.rank")
    found = load_folder(tmp_path / "a.rank")
    assert found.query_ids.tolist() == ["5", "x"]
    assert found.doc_ids.tolist() == ["one", "two"]
    clash = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [5, "5"])
    with pytest.raises(InputError, match="query ids of different types"):
        save_folder(clash, tmp_path / "b.rank")
    assert not (tmp_path / "b.rank").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "odd"},
        {"kind": []},
        {"documents": None},
        {"documents": 8},
        {"queries": 2},
        {"features": 4},
        {"arrays": {}},
        {"arrays": None},
        {"feature_names": 3},
        {"feature_names": ["a"]},
        {"feature_names": [1] * 5},
    ],
)
def test_a_header_that_does_not_fit(saved, changes):
    edit_header(saved, **changes)
    with pytest.raises(InputError, match="damaged data folder"):
        load_folder(saved)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("indptr", np.array([0, 5, 2, 9]), "query boundaries"),
        ("indptr", np.array([0, 2, 5, 8]), "query boundaries"),
        ("indptr", np.array([1, 2, 5, 9]), "query boundaries"),
        ("labels", np.array([-1.0] + [0.0] * 8), "labels must be finite"),
        ("labels", np.array([np.nan] + [0.0] * 8), "labels must be finite"),
        ("query_ids", np.array(["q10", "q10", "q11"]), "two queries have the same id"),
    ],
)
def test_content_that_cannot_be(saved, name, values, message):
    alter_array(saved, name, values)
    with pytest.raises(InputError, match=message):
        load_folder(saved)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("X_indices", lambda a: a + 5, "outside the 5 features"),
        ("X_indices", lambda a: a - 5, "outside the 5 features"),
        ("X_indptr", lambda a: a[::-1], "row boundaries"),
        ("X_indptr", lambda a: a + 1, "row boundaries"),
        ("X_indptr", lambda a: np.r_[a[:1], 2**31 - 1, -(2**31), a[3:]].astype(a.dtype), "row boundaries"),
    ],
)
def test_sparse_positions_are_checked(tmp_path, name, change, message):
    path = tmp_path / "a.rank"
    save_folder(make_data(kind="sparse"), path)
    alter_array(path, name, change(np.load(path / f"{name}.npy")))
    with pytest.raises(InputError, match=message):
        load_folder(path)
