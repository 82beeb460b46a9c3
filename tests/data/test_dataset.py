import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rankwright import InputError, RankingData

X = np.arange(12.0).reshape(6, 2)
LABELS = [0, 1, 2, 0, 1, 0]
QID = ["b", "a", "b", "c", "a", "b"]
GATHERED = [0, 2, 5, 1, 4, 3]


@pytest.fixture
def mixed():
    """Rows of three queries, interleaved."""
    return RankingData.from_arrays(
        X, LABELS, QID, doc_ids=[f"d{row}" for row in range(6)], feature_names=["bm25", "length"]
    )


def arrays_of(data):
    features = [data.X.data, data.X.indices, data.X.indptr] if data.is_sparse else [data.X]
    rest = [data.labels, data.indptr, data.query_ids, data.doc_ids, data.rows]
    return features + [array for array in rest if array is not None]


def test_rows_of_a_query_are_gathered_in_order_of_first_appearance(mixed):
    assert mixed.query_ids.tolist() == ["b", "a", "c"]
    assert mixed.sizes.tolist() == [3, 2, 1]
    assert mixed.indptr.tolist() == [0, 3, 5, 6]
    assert mixed.rows.tolist() == GATHERED
    assert mixed.X.tolist() == X[GATHERED].tolist()
    assert mixed.labels.tolist() == [LABELS[row] for row in GATHERED]
    assert mixed.doc_ids.tolist() == [f"d{row}" for row in GATHERED]
    assert mixed.qid.tolist() == [QID[row] for row in GATHERED]
    assert mixed.query_of_row().tolist() == [0, 0, 0, 1, 1, 2]
    assert (mixed.n_docs, mixed.n_queries, mixed.n_features, mixed.is_sparse) == (6, 3, 2, False)
    assert mixed.feature_names == ("bm25", "length")
    assert repr(mixed) == "RankingData(3 queries, 6 documents, 2 dense float64 features)"


@given(st.lists(st.sampled_from([1, "1", "a", None, (1, 2), (1,), 2.5, b"a", 2**70]), max_size=20))
def test_gathering_agrees_with_a_dictionary(ids):
    ids = ["none" if id_ is None else id_ for id_ in ids]
    blocks = {}
    for row, id_ in enumerate(ids):
        blocks.setdefault(id_, []).append(row)
    data = RankingData.from_arrays(np.zeros((len(ids), 1)), np.arange(len(ids)), ids)
    assert data.query_ids.tolist() == list(blocks)
    assert data.sizes.tolist() == [len(rows) for rows in blocks.values()]
    assert data.labels.tolist() == [row for rows in blocks.values() for row in rows]
    assert data.to_caller_order(data.labels).tolist() == list(range(len(ids)))


@pytest.mark.parametrize(
    "qid",
    [
        [7, 3, 7],
        np.array([7, 3, 7], np.uint8),
        [2.5, 1.0, 2.5],
        ["q7", "q3", "q7"],
        np.array([b"q7", b"q3", b"q7"]),
        [1, "1", 1],
        [(1, 2), (3, 4), (1, 2)],
        [(1, 2), (3,), (1, 2)],
        [2**63 + 1, 5, 2**63 + 1],
        [2**63 + 1, 2**63 + 2, 2**63 + 1],
        [2**70, 2**70 + 1, 2**70],
        np.array(["2020-01-01", "2021-01-01", "2020-01-01"], "M8[D]"),
        pd.Series(["x", "y", "x"], index=[5, 6, 7]),
        pd.Series(["x", "y", "x"], dtype="category"),
        pl.Series([4, 2, 4]),
        iter(["x", "y", "x"]),
    ],
    ids=lambda qid: "iterator" if hasattr(qid, "__next__") else str(qid),
)
def test_query_ids_of_any_type(qid):
    data = RankingData.from_arrays(np.zeros((3, 1)), [0, 1, 2], qid)
    assert data.labels.tolist() == [0, 2, 1]
    assert data.sizes.tolist() == [2, 1]


def test_big_integer_ids_are_not_rounded_into_one():
    data = RankingData.from_arrays(np.zeros((3, 1)), [0, 0, 0], [2**63 + 1, 2**63 + 2, 5])
    assert data.query_ids.tolist() == [2**63 + 1, 2**63 + 2, 5]


def test_group_sizes():
    data = RankingData.from_arrays(X, LABELS, group=[2, 0, 4])
    assert data.query_ids.tolist() == [1, 2]
    assert data.indptr.tolist() == [0, 2, 6]
    assert data.rows is None


@pytest.mark.parametrize("how", [{"qid": []}, {"group": []}])
def test_no_rows(how):
    data = RankingData.from_arrays(np.zeros((0, 2)), [], **how)
    assert (data.n_docs, data.n_queries, data.n_features) == (0, 0, 2)


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [("f4", "f4"), ("f8", "f8"), (">f8", "f8"), ("f2", "f4"), ("i1", "f4"), ("i8", "f8"), ("?", "f4")],
)
def test_feature_types(given_type, kept):
    features = np.eye(2).astype(given_type)
    assert make(features, [0, 0], [1, 1]).X.dtype == np.dtype(kept)
    if given_type not in (">f8", "f2"):  # scipy has no such sparse arrays
        assert make(sparse.csr_array(features), [0, 0], [1, 1]).X.dtype == np.dtype(kept)


def test_fortran_order_and_frames_become_plain_arrays():
    for features in (np.asfortranarray(X), pd.DataFrame(X), pl.DataFrame(X), X[:, ::-1][:, ::-1], X.tolist()):
        data = RankingData.from_arrays(features, LABELS, QID)
        assert type(data.X) is np.ndarray
        assert data.X.flags.c_contiguous
        assert data.X.tolist() == X[GATHERED].tolist()


def test_everything_is_frozen_and_the_callers_arrays_are_not():
    features, labels, ids, docs = X.copy(), np.array(LABELS, float), np.array([1, 1, 2, 2, 3, 3]), np.arange(6)
    data = RankingData.from_arrays(features, labels, ids, doc_ids=docs)
    assert np.shares_memory(data.X, features)
    for array in arrays_of(data) + arrays_of(data.select([1])) + arrays_of(data.with_features(features)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(AttributeError):
        data.X = features
    for array in (features, labels, ids, docs):
        assert array.flags.writeable
    labels[:] = 9
    assert data.labels.tolist() == LABELS


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("qid", [[1, 1, 2, 2, 3, 3], QID])
def test_sparse_is_frozen_and_the_callers_is_not(qid, index_type):
    features = sparse.csr_array(X)
    features.indices, features.indptr = features.indices.astype(index_type), features.indptr.astype(index_type)
    data = RankingData.from_arrays(features, LABELS, qid)
    for array in arrays_of(data) + arrays_of(data.select([0, 2])):
        assert not array.flags.writeable
    for array in (features.data, features.indices, features.indptr):
        assert array.flags.writeable
    assert data.is_sparse
    assert data.to_caller_order(data.X.toarray()).tolist() == X.tolist()
    assert repr(data) == "RankingData(3 queries, 6 documents, 2 sparse float64 features)"


def test_sparse_formats_become_canonical_csr():
    given_as = sparse.csr_array((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 0]), np.array([0, 3])), shape=(1, 2))
    data = RankingData.from_arrays(given_as, [0], [1])
    assert data.X.has_canonical_format
    assert data.X.toarray().tolist() == [[5.0, 1.0]]
    assert given_as.data.tolist() == [1.0, 2.0, 3.0]
    for form in ("coo", "csc", "lil", "dia"):
        for kind in (sparse.coo_array, sparse.coo_matrix):
            data = RankingData.from_arrays(kind(X).asformat(form), LABELS, QID)
            assert isinstance(data.X, sparse.csr_array)
            assert data.X.toarray().tolist() == X[GATHERED].tolist()


def test_mapped_files_are_used_in_place(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    data = RankingData.from_arrays(mapped, LABELS, [1, 1, 2, 2, 3, 3])
    assert np.shares_memory(data.X, mapped)
    assert data.select([1]).X.tolist() == X[2:4].tolist()
    gathered = RankingData.from_arrays(mapped, LABELS, QID)
    assert gathered.X.tolist() == X[GATHERED].tolist()
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r+")
    RankingData.from_arrays(mapped, LABELS, [1, 1, 2, 2, 3, 3])
    assert mapped.flags.writeable


def with_bad(value, at=(4, 1)):
    features = X.copy()
    features[at] = value
    return features


ERRORS = [
    (lambda: make(X[0]), "features must be a table (rows × columns), got an array of shape (2,)"),
    (lambda: make(X.astype(str)), "features must be numbers, got <U32"),
    (lambda: make(X.astype(complex)), "features must be numbers, got complex128"),
    (lambda: make(with_bad(np.nan)), "row 4, feature 1 (both from 0) is nan; features must be finite"),
    (lambda: make(with_bad(-np.inf, (0, 0))), "row 0, feature 0 (both from 0) is -inf; features must be finite"),
    (
        lambda: make(sparse.csr_array(with_bad(np.inf))),
        "row 4, feature 1 (both from 0) is inf; features must be finite",
    ),
    (lambda: make(labels=["x"] * 6), "labels must be numbers"),
    (lambda: make(labels=[1]), "6 rows but labels of shape (1,); expected one label per row"),
    (lambda: make(labels=[[0]] * 6), "6 rows but labels of shape (6, 1); expected one label per row"),
    (
        lambda: make(labels=[0, 0, -1, 0, 0, 0]),
        "the label of row 2 (from 0) is -1; labels must be finite and at least 0",
    ),
    (
        lambda: make(labels=[0, np.nan, 0, 0, 0, 0]),
        "the label of row 1 (from 0) is nan; labels must be finite and at least 0",
    ),
    (lambda: make(qid=None), "give either qid (one query id per row) or group (rows per query)"),
    (lambda: make(group=[6]), "give either qid (one query id per row) or group (rows per query)"),
    (lambda: make(qid=[1, 2]), "6 rows but qid of shape (2,); expected one query id per row"),
    (lambda: make(qid=np.zeros((6, 1))), "6 rows but qid of shape (6, 1); expected one query id per row"),
    (lambda: make(qid=[1, 1, None, 2, 2, 2]), "qid contains None; every row needs a query id"),
    (lambda: make(qid=[1.0, np.nan, 2.0, 2.0, 2.0, 2.0]), "qid contains nan; every row needs a query id"),
    (lambda: make(qid=pd.Series(["a", None] * 3, dtype=object)), "qid contains None; every row needs a query id"),
    (lambda: make(qid=np.array(["NaT"] * 6, "M8[s]")), "qid contains NaT; every row needs a query id"),
    (lambda: make(qid=None, group=[2, 3]), "group sizes add up to 5 but there are 6 rows"),
    (lambda: make(qid=None, group=[2.5, 3.5]), "group must contain one whole number of rows per query"),
    (lambda: make(qid=None, group=[7, -1]), "group must contain one whole number of rows per query"),
    (lambda: make(qid=None, group=[6, np.nan]), "group must contain one whole number of rows per query"),
    (lambda: make(qid=None, group=["6"]), "group must contain one whole number of rows per query"),
    (lambda: make(qid=None, group=6), "group must contain one whole number of rows per query"),
    (lambda: make(doc_ids=["a"]), "6 rows but document ids of shape (1,); expected one id per row"),
    (lambda: make(feature_names=["a"]), "2 features but 1 feature names"),
    (lambda: make().select([3]), "query positions must be in 0..2"),
    (lambda: make().select([-1]), "query positions must be in 0..2"),
    (lambda: make().select([0.5]), "queries are selected by integers or a mask, got float64"),
    (lambda: make().with_features(X[1:]), "6 documents but features for 5"),
    (lambda: make().with_features(with_bad(np.nan)), "row 4, feature 1 (both from 0) is nan; features must be finite"),
    (lambda: make().with_features(X, ["a"]), "2 features but 1 feature names"),
    (lambda: RankingData.concatenate([]), "nothing to concatenate"),
    (
        lambda: RankingData.concatenate([make(), make(X[:, :1])]),
        "data sets with different numbers of features cannot be joined: 2, 1",
    ),
    (
        lambda: RankingData.concatenate([make(), make(feature_names="ab")]),
        "data sets with different feature names cannot be joined",
    ),
]


def make(features=X, labels=LABELS, qid=QID, **more):
    return RankingData.from_arrays(features, labels, qid, **more)


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_bad_input_gets_one_clear_line(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message


@given(st.permutations(list("aaabbcdd")))
def test_scores_go_back_to_the_callers_order(qid):
    data = RankingData.from_arrays(np.arange(8.0)[:, None], np.zeros(8), qid)
    assert data.to_caller_order(data.X[:, 0]).tolist() == list(range(8))
    assert data.to_caller_order(data.qid).tolist() == list(qid)


def test_select(mixed):
    chosen = mixed.select([2, 0])
    assert chosen.query_ids.tolist() == ["c", "b"]
    assert chosen.indptr.tolist() == [0, 1, 4]
    assert chosen.doc_ids.tolist() == ["d3", "d0", "d2", "d5"]
    assert chosen.X.tolist() == X[[3, 0, 2, 5]].tolist()
    assert chosen.labels.tolist() == [0, 0, 2, 0]
    assert chosen.feature_names == mixed.feature_names
    assert chosen.to_caller_order(chosen.labels) is chosen.labels
    for same in (np.array([False, True, True]), [False, True, True], range(1, 3), (q for q in (1, 2))):
        assert mixed.select(same).query_ids.tolist() == ["a", "c"]
    assert mixed.select([]).n_docs == 0
    assert make(sparse.csr_array(X)).select([2, 0]).X.toarray().tolist() == chosen.X.tolist()


def test_concatenate_joins_and_merges_queries(mixed):
    first, second = mixed.select([0, 1]), mixed.select([2])
    joined = RankingData.concatenate([second, first])
    assert joined.query_ids.tolist() == ["c", "b", "a"]
    assert joined.doc_ids.tolist() == ["d3", "d0", "d2", "d5", "d1", "d4"]
    assert joined.feature_names == mixed.feature_names
    twice = RankingData.concatenate([mixed, second])
    assert twice.query_ids.tolist() == ["b", "a", "c"]
    assert twice.sizes.tolist() == [3, 2, 2]


def test_concatenate_keeps_what_all_parts_have():
    joined = RankingData.concatenate([make(doc_ids=range(6)), make()])
    assert joined.doc_ids is None
    joined = RankingData.concatenate([make(sparse.csr_array(X)), make()])
    assert joined.is_sparse
    assert joined.X.toarray().sum() == 2 * X.sum()
    joined = RankingData.concatenate([make(qid=[1] * 6), make(qid=["1"] * 6)])
    assert joined.query_ids.tolist() == [1, "1"]


def test_with_features(mixed):
    other = mixed.with_features(mixed.X * 2)
    assert other.X.tolist() == (mixed.X * 2).tolist()
    assert other.feature_names == mixed.feature_names
    assert other.rows is mixed.rows
    assert other.doc_ids is mixed.doc_ids
    assert mixed.with_features(mixed.X[:, :1]).feature_names is None
    assert mixed.with_features(mixed.X[:, :1], ["only"]).feature_names == ("only",)
    assert mixed.with_features(sparse.csr_array(mixed.X)).is_sparse


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), max_size=6), st.sampled_from([1, 1.5, 3]))
def test_queries_that_have_an_order_or_both_kinds_of_documents(labels, relevant_from):
    flat = [label for query in labels for label in query]
    data = RankingData.from_arrays(np.zeros((len(flat), 1)), flat, group=[len(query) for query in labels])
    assert data.has_order.tolist() == [len(set(query)) > 1 for query in labels]
    both = [len({label >= relevant_from for label in query}) == 2 for query in labels]
    assert data.has_both(relevant_from).tolist() == both
    assert not data.has_order.flags.writeable


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array])
def test_widened_adds_columns_of_zeros_at_the_end(table):
    X = np.array([[1.0, np.nan], [3.0, 4.0]], np.float32)
    data = RankingData.from_arrays(table(X), [0, 1], ["b", "a"], allow_missing=True)
    wide = data.widened(4)
    dense = wide.X.toarray() if wide.is_sparse else wide.X
    np.testing.assert_array_equal(dense, np.pad(X, ((0, 0), (0, 2))))
    assert (wide.is_sparse, wide.X.dtype, wide.query_ids.tolist()) == (data.is_sparse, np.float32, ["b", "a"])
    assert all(not array.flags.writeable for array in arrays_of(wide))
    assert data.widened(2) is data
    assert data.widened(1) is data


def test_widened_features_have_no_names_or_default_ones():
    numbered = RankingData.from_arrays([[1.0]], [0], group=[1], feature_names=["f1"])
    assert numbered.widened(2).feature_names == ("f1", "f2")
    named = RankingData.from_arrays([[1.0]], [0], group=[1], feature_names=["bm25"])
    with pytest.raises(InputError, match="1 named features; expected the same 2 features as the other data"):
        named.widened(2)


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("own", "n_features", "wanted", "expected"),
    [
        (None, 2, None, [0, 1]),
        (None, 4, None, [0, 1, None, None]),
        (None, 3, tuple("abc"), [0, 1, None]),
        (tuple("ba"), 2, tuple("ab"), [1, 0]),
        (tuple("ba"), 1, tuple("a"), [1]),
        (tuple("ba"), 2, None, [0, 1]),
        (("f1", "f2"), 3, ("f1", "f2", "f3"), [0, 1, None]),
    ],
)
def test_matched_to_the_features_of_other_data(table, own, n_features, wanted, expected):
    X = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    data = RankingData.from_arrays(table(X), [0, 1, 2], ["b", "a", "b"], feature_names=own, allow_missing=True)
    matched = data.matched_to(n_features, wanted)
    zeros = np.zeros(3)
    columns = np.column_stack([zeros if at is None else X[[0, 2, 1], at] for at in expected])
    np.testing.assert_array_equal(matched.X.toarray() if matched.is_sparse else matched.X, columns)
    assert matched.feature_names == wanted
    assert matched.rows is data.rows
    assert matched.is_sparse or matched.X.flags.c_contiguous


def test_matched_to_its_own_features_changes_nothing(mixed):
    assert mixed.matched_to(2, ["bm25", "length"]) is mixed


@pytest.mark.parametrize(
    ("n_features", "wanted", "message"),
    [
        (1, None, "the data has 2 features, but the background has 1"),
        (3, None, "the data has 2 features, but the background has 3"),  # named columns are all there
        (3, ("bm25", "length", "x"), "the data lacks 1 of the background's 3 features: 'x'"),
        (2, ("bm25", "bm25"), "the background has two features of the same name; expected different names"),
    ],
)
def test_features_that_cannot_be_matched(mixed, n_features, wanted, message):
    with pytest.raises(InputError, match=message):
        mixed.matched_to(n_features, wanted, what="the background")
