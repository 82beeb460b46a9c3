"""Categorical features of rankers made of trees: by type or by name, mapped by value, better than numbers."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from rankwright import (
    InputError,
    Interpolation,
    LambdaMART,
    LambdaRank,
    McRank,
    RankingData,
    RankingSVM,
    from_frame,
    load_model,
)
from rankwright.models.saving import version_of
from rankwright.models.sum import SumModel

LANGS = ["de", "en", "fr", "it", "no", "pl"]
GOOD = {"en": 2, "no": 2, "fr": 1}
FAST = {"n_trees": 12, "max_leaves": 6, "min_rows": 5}


def frame(seed=0, n_queries=30, n_docs=12):
    """Labels follow the language, in no order of its name, and a little of a number."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_docs
    lang = rng.choice(LANGS, n)
    found = pd.DataFrame({"qid": np.repeat(np.arange(n_queries), n_docs), "lang": lang, "bm25": rng.normal(size=n)})
    label = np.array([GOOD.get(one, 0) for one in lang]) + (found["bm25"] > 1)
    return found.assign(label=np.where(rng.random(n) < 0.1, 0, label))


TRAIN, TEST = frame(), frame(1)
FEATURES = ["qid", "lang", "bm25"]


def fitted(ranker, data=TRAIN):
    return ranker.fit(data[FEATURES], data["label"])


def codes(data, values=LANGS):
    return data.assign(lang=data["lang"].map({value: float(at) for at, value in enumerate(values)}))


def ndcg(ranker, data):
    return ranker.score(data[FEATURES], data["label"])


@pytest.mark.parametrize("make", [LambdaMART, McRank])
def test_categories_rank_better_than_their_numbers(make):
    few = {"n_trees": 3, "max_leaves": 3, "min_rows": 5}
    by_text, by_number = fitted(make(**few)), fitted(make(**few), codes(TRAIN))
    by_name = fitted(make(**few, categorical=["lang"]), codes(TRAIN))
    assert ndcg(by_text, TEST) > ndcg(by_number, codes(TEST)) + 0.01
    assert ndcg(by_name, codes(TEST)) == ndcg(by_text, TEST)
    assert by_text.feature_importances_[0] > 0.5


FORMS = {
    "pandas category": lambda data: data.astype({"lang": pd.CategoricalDtype(LANGS[::-1])}),
    "pandas string": lambda data: data.astype({"lang": "string"}),
    "polars": pl.from_pandas,
    "polars enum": lambda data: pl.from_pandas(data).with_columns(pl.col("lang").cast(pl.Enum(LANGS[::-1]))),
    "pyarrow": lambda data: pa.Table.from_pandas(data, preserve_index=False),
    "pyarrow dictionary": lambda data: pa.Table.from_pandas(
        data.astype({"lang": pd.CategoricalDtype(["no", "en", "xx", "fr", "de", "it", "pl"])}), preserve_index=False
    ),
    "other columns": lambda data: data[["bm25", "qid", "lang"]],
}


@pytest.mark.parametrize("form", FORMS)
def test_all_libraries_and_orders_of_categories_give_equal_scores(form):
    ranker = fitted(LambdaMART(**FAST))
    expected = ranker.predict(TEST[FEATURES])
    assert ranker.predict(FORMS[form](TEST[FEATURES])).tobytes() == expected.tobytes()
    assert ranker.model_.predict(FORMS[form](TEST[FEATURES])).tobytes() == expected.tobytes()
    if form != "other columns":
        again = LambdaMART(**FAST).fit(FORMS[form](TRAIN[FEATURES]), TRAIN["label"].to_numpy())
        assert again.predict(TEST[FEATURES]).tobytes() == expected.tobytes()


def test_data_sets_frames_and_validation_agree():
    kept = {"n_trees": 8, "max_leaves": 4, "patience": 2}
    by_frame = LambdaMART(**kept)
    by_frame.fit(TRAIN[FEATURES], TRAIN["label"], eval_set=(TEST[["bm25", "qid", "lang"]], TEST["label"]))
    by_data = LambdaMART(**kept).fit(from_frame(TRAIN), eval_set=from_frame(TEST))
    assert by_frame.n_trees_ == by_data.n_trees_
    assert by_frame.predict(TEST[FEATURES]).tobytes() == by_data.predict(from_frame(TEST)).tobytes()
    assert by_frame.score(TEST[FEATURES], TEST["label"]) == by_data.score(from_frame(TEST))


def test_ids_of_documents_are_no_feature():
    ids = [f"d{row}" for row in range(len(TRAIN))]
    ranker = LambdaMART(**FAST).fit(TRAIN[FEATURES].assign(docid=ids), TRAIN["label"])
    assert ranker.feature_names_in_.tolist() == ["lang", "bm25"]
    assert ranker.predict(TEST[FEATURES].assign(docid=ids)).tobytes() == ranker.predict(TEST[FEATURES]).tobytes()
    RankingSVM().fit(TRAIN[["qid", "bm25"]].assign(docid=ids), TRAIN["label"])


def test_cross_validation_has_categories_of_its_own_in_every_fold():
    odd = TRAIN.assign(lang=np.where(TRAIN["qid"] == 3, "only here", TRAIN["lang"]))
    ranker = fitted(LambdaMART(**{**FAST, "n_trees": 6}, cv=3), odd)
    assert set(ranker.model_.categories[0]) == {*LANGS, "only here"}
    assert ranker.cv_.value > 0.8


@pytest.mark.parametrize("form", ["text", "numbers"])
def test_unknown_and_missing_values_go_the_same_way(form):
    train = TRAIN.assign(lang=TRAIN["lang"].where(np.arange(len(TRAIN)) % 9 > 0, None))
    test, names = TEST.copy(), ["lang"]
    ways = {"unknown": "xx", "missing": None}
    if form == "numbers":
        train, test, ways = codes(train), codes(test), {"unknown": 99.0, "negative": -3.0, "missing": np.nan}
    ranker = fitted(LambdaMART(**FAST, categorical=names), train)
    scores = [
        ranker.predict(test.assign(lang=[value] * len(test)).astype(test.dtypes)[FEATURES]) for value in ways.values()
    ]
    assert all(one.tobytes() == scores[0].tobytes() for one in scores)
    assert scores[0].tobytes() != ranker.predict(test[FEATURES]).tobytes()


@pytest.mark.parametrize("make", [LambdaMART, lambda **given: McRank(**given, link="ordinal"), McRank])
def test_saved_models_score_the_same(make, tmp_path):
    ranker = fitted(make(**FAST))
    ranker.save(tmp_path / "model.rkw")
    model = load_model(tmp_path / "model.rkw").model
    assert version_of(model) == 2
    assert model.categories == ranker.model_.categories
    assert set(model.categories[0]) == set(LANGS)
    assert model.predict(TEST[FEATURES]).tobytes() == ranker.predict(TEST[FEATURES]).tobytes()
    assert model.predict(from_frame(TEST)).tobytes() == ranker.predict(TEST[FEATURES]).tobytes()
    fitted(make(**FAST), codes(TRAIN)).save(tmp_path / "numbers.rkw")
    assert load_model(tmp_path / "numbers.rkw").header["version"] == 1


@pytest.mark.parametrize("settings", [{}, {"randomize_nodes": True, "tree_rows": 0.7, "tree_features": 0.6}])
def test_neither_threads_nor_the_order_of_rows_matter(settings):
    big = frame(2, 60, 100)  # enough rows for threads
    expected = fitted(LambdaMART(**FAST, **settings), big).predict(TEST[FEATURES])
    threads = fitted(LambdaMART(**FAST, **settings, n_jobs=3), big)
    shuffled = fitted(LambdaMART(**FAST, **settings), big.sample(frac=1.0, random_state=0))
    for other in (threads, shuffled):
        assert other.predict(TEST[FEATURES]).tobytes() == expected.tobytes()


def test_many_categories_of_noise_do_little_harm():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(4000, 2)), rng.integers(0, 200, 4000)])
    labels = np.digitize(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=4000), [0.5, 1.5])
    train, test = (
        RankingData.from_arrays(X[part], labels[part], np.arange(2000) // 20)
        for part in (slice(0, 2000), slice(2000, None))
    )
    settings = {"n_trees": 20, "max_leaves": 10}
    noise = LambdaMART(**settings, categorical=[2]).fit(train)
    without = LambdaMART(**settings).fit(train.with_features(train.X * [1, 1, 0]))
    assert noise.score(test) > without.score(test) - 0.02
    assert noise.feature_importances_[2] < 0.1


def test_only_the_most_common_categories_are_told_apart():
    rng = np.random.default_rng(0)
    number = np.minimum(rng.geometric(0.02, 4000), 400)
    data = RankingData.from_arrays(number[:, None], number % 2, np.arange(4000) // 20)
    ranker = LambdaMART(**FAST, categorical=[0], max_bins=20).fit(data)
    values, counts = np.unique(number, return_counts=True)
    common = values[np.lexsort((values, -counts))][:20]
    assert ranker.model_.categories == {0: tuple(common.tolist())}
    rest = np.setdiff1d(values, common)
    assert len(np.unique(ranker.predict(rest[:, None]))) == 1
    assert ranker.score(data) > LambdaMART(**FAST, max_bins=20).fit(data).score(data)


def test_the_sum_with_a_background_keeps_both_codings():
    background = fitted(LambdaMART(**FAST))
    other = TRAIN[TRAIN["lang"] != "en"]
    ranker = fitted(LambdaMART(**FAST, background=background), other)
    assert isinstance(ranker.model_, SumModel)
    one, two = ranker.model_.parts
    weights = ranker.model_.weights
    X = TEST[FEATURES]
    np.testing.assert_allclose(ranker.predict(X), weights[0] * one.predict(X) + weights[1] * two.predict(X), rtol=1e-12)
    same = fitted(LambdaMART(**FAST, background=background))
    assert not isinstance(same.model_, SumModel)  # of equal categories: one model of trees


def test_a_column_of_one_category_or_none_changes_nothing():
    plain = fitted(LambdaMART(**FAST), TRAIN.assign(lang=0.0))
    for lang in ("de", None):
        same = TRAIN.assign(lang=pd.Categorical([lang] * len(TRAIN), categories=["de"]))
        assert (
            fitted(LambdaMART(**FAST), same).predict(same[FEATURES]).tobytes()
            == plain.predict(TRAIN.assign(lang=0.0)[FEATURES]).tobytes()
        )


@pytest.mark.parametrize("ranker", [RankingSVM(), LambdaRank(epochs=1), Interpolation()])
def test_other_rankers_say_what_to_do(ranker):
    what = rf"{type(ranker).__name__} cannot use categories \('lang'\); drop these columns, or use lambdamart, mcrank"
    with pytest.raises(InputError, match=what):
        fitted(ranker)
    ranker.fit(from_frame(TRAIN).without_categories())


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"categorical": ["lan"]}, TRAIN, "categorical: there is no feature 'lan'; expected one of lang, bm25, or its"),
        ({"categorical": [2]}, TRAIN, "categorical: there is no feature 2; expected one of lang, bm25, or its number"),
        ({"categorical": ["lang", 0]}, TRAIN, "categorical: the feature 'lang' is given twice"),
        ({"categorical": ["bm25"]}, TRAIN, "the feature 'bm25' has the value .*; expected whole numbers or text"),
        ({"categorical": "lang"}, TRAIN, "categorical is 'lang'; expected features, by name or by number from 0"),
        ({"categorical": [-1]}, TRAIN, r"categorical is \[-1\]; expected features"),
        ({"monotone": {"lang": 1}}, TRAIN, "monotone: the feature 'lang' is categorical; its values have no order"),
        ({"monotone": {0: 1}, "categorical": ["lang"]}, codes(TRAIN), "monotone: the feature 'lang' is categorical"),
    ],
)
def test_mistakes_have_one_line(settings, data, message):
    with pytest.raises(InputError, match=message) as caught:
        fitted(LambdaMART(**FAST, **settings), data)
    assert "\n" not in str(caught.value)


def test_text_and_numbers_are_not_mixed_up():
    by_text, by_number = fitted(LambdaMART(**FAST)), fitted(LambdaMART(**FAST, categorical=["lang"]), codes(TRAIN))
    plain = fitted(LambdaMART(**FAST), codes(TRAIN))
    with pytest.raises(
        InputError, match=r"the feature .lang. is the number \d in row .*; the model was trained on text"
    ):
        by_text.predict(codes(TEST)[FEATURES].drop(columns="qid"))
    with pytest.raises(InputError, match=r"the feature .lang. is text in row 0 .*; the model was trained on numbers"):
        by_number.predict(TEST[FEATURES])
    with pytest.raises(InputError, match="the model takes numbers, not text, in 'lang'"):
        plain.predict(TEST[FEATURES])
    with pytest.raises(InputError, match="the model takes numbers, not text, in 'lang'"):
        plain.model_.predict(from_frame(TEST))


def test_numbers_of_columns_and_sparse_features_work():
    from scipy import sparse

    data = codes(TRAIN)
    X, y, qid = data[["lang", "bm25"]].to_numpy(), data["label"].to_numpy(), data["qid"].to_numpy()
    expected = LambdaMART(**FAST, categorical=[0]).fit(X, y, qid).predict(X)
    ranker = LambdaMART(**FAST, categorical=[0]).fit(sparse.csr_array(X), y, qid)
    assert ranker.predict(sparse.csr_array(X)).tobytes() == expected.tobytes()
    assert clone(ranker).fit(X, y, qid).predict(X).tobytes() == expected.tobytes()
    float32 = LambdaMART(**FAST, categorical=["f1"]).fit(X.astype(np.float32), y, qid)
    assert float32.model_.categories == ranker.model_.categories


def test_contributions_add_up():
    ranker = fitted(LambdaMART(**FAST))
    data = from_frame(TEST)
    found = ranker.model_.contributions(data.X[0], data.X[1], data.feature_names)
    scores = ranker.model_.score(data.X[:2], data.feature_names)
    assert found.sum() == pytest.approx(scores[0] - scores[1], abs=1e-12)
