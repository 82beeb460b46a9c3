"""LETOR / SVMlight files: what is written reads back."""

import numpy as np
import pytest
from letor_files import same
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from rankwright.data.dataset import RankingData
from rankwright.errors import InputError
from rankwright.io.detect import detect
from rankwright.io.letor import read_letor, write_letor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("letor")


def random_data(dtype, make_sparse, with_ids, rng):
    X = rng.normal(size=(700, 9)) * 10.0 ** rng.integers(-12, 12, size=(700, 9))
    X[rng.random(X.shape) < 0.6] = 0
    X[::5] = np.round(X[::5])
    X[0, 0] = 16777217.0
    X = X.astype(dtype)
    qid = np.repeat([f"q{i}" for i in range(70)], 10)
    doc_ids = [f"doc-{i}" if i % 7 else "" for i in range(700)] if with_ids else None
    labels = rng.choice([0, 1, 2.5, 0.1], 700)
    return RankingData.from_arrays(sparse.csr_array(X) if make_sparse else X, labels, qid, doc_ids=doc_ids)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make_sparse", [False, True])
@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz"])
def test_what_is_written_reads_back(folder, dtype, make_sparse, name):
    data = random_data(dtype, make_sparse, name == "data.txt", np.random.default_rng(3))
    path = folder / name
    write_letor(data, path)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    same(read_letor(path, dtype=dtype, sparse=make_sparse), data)


def test_the_text_that_is_written(folder):
    X = np.array([[0.1, 0, 3], [1e-7, -2.5, 1e20], [16777216, 1 / 3, -0.0]], np.float32)
    doc_ids = ["a", "", "c"]
    path = folder / "out.txt"
    write_letor(RankingData.from_arrays(X, [0, 1, 0.5], qid=[3, 3, 4], doc_ids=doc_ids), path)
    assert path.read_text().split("\n") == [
        "0 qid:3 1:0.1 2:0 3:3 # docid = a",
        "1 qid:3 1:1e-07 2:-2.5 3:1e+20",
        "0.5 qid:4 1:16777216 2:0.33333334 3:0 # docid = c",
        "",
    ]
    write_letor(RankingData.from_arrays(sparse.csr_array(X[:2]), [0, 1], qid=["1.0", "b"]), path)
    assert path.read_text() == "0 qid:1.0 1:0.1 3:3\n1 qid:b 1:1e-07 2:-2.5 3:1e+20\n"


def test_empty_last_columns_of_sparse_data_are_kept(folder):
    X = sparse.csr_array(np.array([[0, 1.0, 0, 0], [1, 0, 0, 0]]))
    write_letor(RankingData.from_arrays(X, [0, 1], qid=[1, 1]), folder / "wide.txt")
    assert (folder / "wide.txt").read_text() == "0 qid:1 2:1 4:0\n1 qid:1 1:1\n"
    assert read_letor(folder / "wide.txt").n_features == 4


def test_float32_text_is_short_and_exact(folder):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 2**32, 60_000, dtype=np.uint32).view(np.float32)
    X = np.concatenate([X[np.isfinite(X)], np.float32([3.4028235e38, 1e-45, 1.1754944e-38, 0.3, 1e16, 123456789])])[
        :, None
    ]
    data = RankingData.from_arrays(X, np.zeros(len(X)), qid=np.ones(len(X), int))
    write_letor(data, folder / "short.txt")
    assert np.array_equal(read_letor(folder / "short.txt", sparse=False).X, X)
    written = [line.split("1:")[-1] for line in (folder / "short.txt").read_text().splitlines()]
    longer = [text for text, x in zip(written, X[:, 0], strict=True) if significant(text) > significant(str(x))]
    assert [text for text in longer if float(text) != round(float(text))] == []


def significant(text):
    return len(text.lower().partition("e")[0].replace(".", "").strip("-0"))


@pytest.mark.parametrize("bad", ["a b", "a#b", "", "a\tb", "a\nb", "\ud800"])
def test_query_ids_that_the_format_cannot_hold(folder, bad):
    path = folder / "never.txt"
    with pytest.raises(InputError, match=r"query id .* cannot be written"):
        write_letor(RankingData.from_arrays([[1.0]], [0], qid=[bad]), path)
    if bad:
        with pytest.raises(InputError, match=r"document id .* cannot be written"):
            write_letor(RankingData.from_arrays([[1.0]], [0], qid=[1], doc_ids=[bad]), path)
    assert not path.exists()


def test_query_ids_that_would_become_one(folder):
    data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=[1, "1"])
    with pytest.raises(InputError, match="differ only in type"):
        write_letor(data, folder / "never.txt")


def test_names_of_features_survive(tmp_path):
    names = ("bm25[porter]", "a name with blanks", "größe")
    data = RankingData.from_arrays([[1.0, 0.0, 0.0], [2.0, 3.0, 0.0]], [0, 1], ["q", "q"], feature_names=names)
    for target in ("data.txt", "data.txt.gz"):
        write_letor(data, tmp_path / target)
        back = read_letor(tmp_path / target)
        assert back.feature_names == names
        assert back.X.tolist() == data.X.tolist()
        assert detect(tmp_path / target) == "letor"
    write_letor(data.with_features(sparse.csr_matrix(data.X), names), tmp_path / "sparse.txt")
    assert read_letor(tmp_path / "sparse.txt").X.shape == (2, 3)
    X, y = load_svmlight_file(str(tmp_path / "data.txt"))  # to others the names are a comment
    assert X.toarray().tolist() == data.X.tolist()
    assert y.tolist() == [0, 1]


def test_names_that_do_not_fit(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("# features:\ta\tb\n1 qid:1 1:1 3:1\n")
    with pytest.raises(InputError, match=r"data\.txt:2: .*3"):
        read_letor(path)
    with pytest.raises(InputError, match="names 2 features; expected 5"):
        read_letor(path, n_features=5)
    path.write_bytes(b"# features:\ta\xff\tb\n1 qid:1 1:1\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_letor(path)
    data = RankingData.from_arrays([[1.0]], [0], ["q"], feature_names=["a\tb"])
    with pytest.raises(InputError, match="tab"):
        write_letor(data, path)
