"""Numbers of documents as features: the same by name for training and for search, from the index or given with it."""

import copy
import math
import multiprocessing
import pickle

import numpy as np
import pytest
from toy_documents import files_of
from toy_shop import DOCUMENTS, NUMBERS, QUERIES, nan

from rankwright import LambdaMART, RankingData, make_features, read_document_table
from rankwright.errors import InputError
from rankwright.models.linear import LinearModel
from rankwright.models.sum import SumModel
from rankwright.text.features import Columns
from rankwright.text.index import build_index
from rankwright.text.learned import LearnedSearch

NAMES = ("bm25[porter+stop]", "price", "clicks(missing=-7)", "jm[plain,text]", "price(missing=2.5)", "day")


@pytest.fixture
def index(tmp_path):
    return build_index(DOCUMENTS, tmp_path / "shop.index", numbers=["price", "clicks", "day"])


def test_columns_are_the_numbers_of_the_documents(index):
    columns = Columns(index, NAMES)
    text_only = Columns(index, [name for name in NAMES if "[" in name])
    for text in QUERIES.values():
        docs = columns.candidates(text, 10)
        assert docs.tolist() == text_only.candidates(text, 10).tolist()
        X = columns.values(text, docs)
        np.testing.assert_array_equal(X[:, [0, 3]], text_only.values(text, docs))
        for row, doc in zip(X, docs.tolist(), strict=True):
            price, clicks, day = (NUMBERS[name][doc] for name in ("price", "clicks", "day"))
            filled = [price, -7 if math.isnan(clicks) else clicks, 2.5 if math.isnan(price) else price, day]
            np.testing.assert_array_equal(row[[1, 2, 4, 5]], np.float32(filled))
    assert columns.missing() == {"price": 1, "day": 1}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weight", "feature 'weight' cannot be computed from an index; .* or one of its numbers, price, clicks, day$"),
        ("price(missing=)", r"feature 'price\(missing=\)': missing is ''; expected a number"),
        ("price(missing=x)", r"feature 'price\(missing=x\)': missing is 'x'; expected a number"),
        ("price(missing=inf)", "missing is 'inf'; expected a number"),
        ("price(missing=1e39)", "which is not finite in single precision"),
        ("price(fill=0)", "cannot be computed from an index"),
        ("title", "cannot be computed from an index"),
    ],
)
def test_features_that_are_not_numbers(index, name, message):
    with pytest.raises(InputError, match=message):
        Columns(index, ["bm25[plain]", name])


def test_features_of_numbers_alone(index):
    from rankwright.data.trec_table import TrecTable

    run = TrecTable(np.array(["1"]), np.array([0, 2]), np.array([b"a", b"c"]), np.array([2.0, 1.0]))
    made = make_features(index, {"1": "lift"}, features=["price", "clicks(missing=0)"], candidates=run)
    assert made.data.X.tolist() == [[9.5, 12], [1000, 0]]
    with pytest.raises(InputError, match="no feature is a retrieval function"):
        make_features(index, {"1": "lift"}, features=["price"])


def trained(names):
    """Trees over features of an index, some of them missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(0, 10, (300, len(names)))
    X[rng.random(X.shape) < 0.2] = nan
    labels = (np.nan_to_num(X[:, 1], nan=3) + rng.normal(size=300) > 0).astype(int)
    data = RankingData.from_arrays(X, labels, group=[20] * 15, feature_names=names, allow_missing=True)
    model = LambdaMART(n_trees=8).fit(data).model_
    assert model.importance()[1] > 0
    return model


def test_search_uses_the_features_that_are_made_for_training(index):
    trees = trained(NAMES)
    known = tuple(name for name in NAMES if name not in ("price", "day"))
    linear = LinearModel(np.arange(1.0, len(known) + 1), known)
    for model, names in ((trees, NAMES), (linear, known), (SumModel((linear, trees), [1.0, 2.0]), NAMES)):
        data = make_features(index, QUERIES, features=names).data
        scores, engine = model.predict(data), LearnedSearch(index, model)
        for q, query in enumerate(data.query_ids.tolist()):
            own = slice(data.indptr[q], data.indptr[q + 1])
            found = engine.search(QUERIES[query], 10)
            expected = dict(zip(data.doc_ids[own].tolist(), scores[own].tolist(), strict=True))
            assert dict(zip(found.ids, found.scores.tolist(), strict=True)) == expected
            assert found.scores.tolist() == sorted(expected.values(), reverse=True)


def test_a_number_moves_documents(index):
    engine = LearnedSearch(index, LinearModel([0.0, 1.0], ["bm25[plain]", "price(missing=0)"]))
    assert engine.search("lift of wing").ids == ["c", "a", "b", "d"]
    changed = LearnedSearch(index.set_numbers({"price": {"c": 1, "d": 2}}), engine.model)
    assert changed.search("lift of wing").ids == ["a", "d", "c", "b"]
    assert engine.search("lift of wing").ids == ["c", "a", "b", "d"]


def test_models_that_cannot_score_missing_numbers_say_so_at_once(index):
    message = (
        r"1 of 4 documents has no number 'price', which this model cannot score; expected a number for each, a model "
        r"of trees, or one trained on price\(missing=0\)"
    )
    names = ("bm25[plain]", "price")
    for scaling in (None, "minmax", "zscore"):
        with pytest.raises(InputError, match=message):
            LearnedSearch(index, LinearModel([1.0, 1.0], names, scaling))
    LearnedSearch(index, trained(names)).search("heat")
    whole = index.set_numbers({"price": {"b": 4}})
    assert LearnedSearch(whole, LinearModel([1.0, 1.0], names)).search("heat").scores[0] > 4


def test_a_model_says_which_numbers_the_index_lacks(index):
    with pytest.raises(InputError, match="the index lacks 1 of the model's 2 features: feature 'weight' cannot be"):
        LearnedSearch(index, LinearModel([1.0, 1.0], ["bm25[plain]", "weight"]))


# Numbers that are given when searching


def test_tables_take_the_place_of_numbers_in_the_index(index, tmp_path):
    names = ("bm25[plain]", "price(missing=0)", "weight(missing=0)")
    model = LinearModel([0.0, 1.0, 10.0], names)
    before = files_of(index.path)
    given = {"price": {"a": 50, "x": 3}, "weight": {"d": 7}, "unused": {"a": 1}}
    (tmp_path / "t.csv").write_text("id,price,weight\na,50,\nd,0,7\nx,3,3\n")
    kept = index.set_numbers({"price": {"a": 50}, "weight": {"d": 7}})
    expected = LearnedSearch(kept, model)
    old = build_index(DOCUMENTS, tmp_path / "old.index", numbers=["price", "clicks", "day"])
    for numbers in (given, tmp_path / "t.csv"):
        engine = LearnedSearch(old, model, numbers=numbers)
        data = make_features(old, QUERIES, features=names, numbers=numbers).data
        np.testing.assert_array_equal(data.X, make_features(kept, QUERIES, features=names).data.X)
        for text in QUERIES.values():
            assert engine.search(text).ids == expected.search(text).ids
            assert engine.search(text).scores.tolist() == expected.search(text).scores.tolist()
    assert files_of(old.path) == before


def test_document_tables_are_features_of_search_too(index, tmp_path):
    (tmp_path / "t.tsv").write_text("id\tyear\na\t1\nb\t2\nc\t3\nd\t4\n")
    table = read_document_table(tmp_path / "t.tsv", index)
    data = make_features(index, QUERIES, features=["bm25[plain]"], table=table).data
    model = LinearModel([1.0, 0.5], ["bm25[plain]", "doc:year"])
    engine, scores = LearnedSearch(index, model, numbers=table), model.predict(data)
    found = engine.search(QUERIES["1"])
    own = slice(data.indptr[0], data.indptr[1])
    assert dict(zip(found.ids, found.scores, strict=True)) == dict(zip(data.doc_ids[own], scores[own], strict=True))
    with pytest.raises(InputError, match="duplicate feature 'doc:year'"):
        make_features(index, QUERIES, features=Columns(index, ["bm25[plain]", "doc:year"], table), table=table)
    with pytest.raises(InputError, match="the columns are made already"):
        make_features(index, QUERIES, features=Columns(index, ["bm25[plain]"]), numbers={"x": [1, 2, 3, 4]})


def _search_there(engine):
    return [(found.ids, found.scores.tobytes()) for found in map(engine.search, QUERIES.values())]


def test_given_numbers_are_pickled_with_the_engine(index):
    model = trained(("bm25[plain]", "weight", "price", "clicks(missing=1)"))
    engine = LearnedSearch(index, model, numbers={"weight": {"a": 3, "d": -8}, "price": {"c": nan}})
    expected = _search_there(engine)
    for other in (pickle.loads(pickle.dumps(engine)), copy.deepcopy(engine)):
        assert _search_there(other) == expected
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_search_there, (engine,)) == expected


def test_given_numbers_do_not_go_to_other_documents(index):
    model = LinearModel([1.0, 1.0], ["bm25[plain]", "weight"])
    pickled = pickle.dumps(LearnedSearch(index, model, numbers={"weight": [1, 2, 3, 4]}))
    index = index.set_numbers({"price": {"a": 4}})  # the same documents
    assert pickle.loads(pickled).search("heat").scores[0] > 2
    index.add([("e", "heat")])
    with pytest.raises(InputError, match="has other documents than the pickled engine"):
        pickle.loads(pickled)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (5, "the numbers are of the type int; expected a path"),
        ({"weight": [1]}, r"the numbers 'weight' have the shape \(1,\)"),
        ({"weight": {"zz": 1}}, "none of the documents, such as 'zz', is in the index"),
        ("no.csv", r"no\.csv: cannot be read: No such file"),
    ],
)
def test_wrong_tables_get_one_line(index, numbers, message):
    with pytest.raises(InputError, match=message):
        LearnedSearch(index, LinearModel([1.0, 1.0], ["bm25[plain]", "weight"]), numbers=numbers)
