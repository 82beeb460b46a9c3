"""Categories in data: by dtype from any library, kept by everything that is done with data, and written back."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankwright import InputError, QueryScaler, RankingData, from_frame, read_data, to_frame, write_data
from rankwright.data.categories import NO_CATEGORY, checked_categories, is_text, number_of
from rankwright.data.cleaning import Cleaner
from rankwright.data.summary import summarize
from rankwright.io.folder import load_folder, save_folder
from rankwright.io.parquet import read_parquet, write_parquet

LANG = ["de", "fr", None, "de", "en", "fr"]
SITE = [7, 7, 9, 12, 9, 7]
QID, LABEL, BM25 = [1, 1, 1, 2, 2, 2], [0, 1, 2, 1, 0, 2], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
KEYS = [NO_CATEGORY if text is None else number_of(text) for text in LANG]
COLUMNS = {"qid": QID, "label": LABEL, "lang": LANG, "bm25": BM25}

FRAMES = {
    "pandas object": lambda: pd.DataFrame(COLUMNS).astype({"lang": object}),
    "pandas string": lambda: pd.DataFrame(COLUMNS).astype({"lang": "string"}),
    "pandas category": lambda: pd.DataFrame(COLUMNS).astype({"lang": pd.CategoricalDtype(["fr", "no", "en", "de"])}),
    "pandas arrow": lambda: pd.DataFrame(COLUMNS).astype({"lang": pd.ArrowDtype(pa.string())}),
    "polars string": lambda: pl.DataFrame(COLUMNS),
    "polars categorical": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("lang").cast(pl.Categorical)),
    "polars enum": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("lang").cast(pl.Enum(["fr", "en", "de"]))),
    "pyarrow string": lambda: pa.table(COLUMNS),
    "pyarrow large": lambda: pa.table({**COLUMNS, "lang": pa.array(LANG, pa.large_string())}),
    "pyarrow dictionary": lambda: pa.table({**COLUMNS, "lang": pa.array(LANG).dictionary_encode()}),
    "pyarrow chunks": lambda: pa.concat_tables([pa.table(COLUMNS).slice(0, 2), pa.table(COLUMNS).slice(2)]),
}


def data(lang=LANG, **others):
    return from_frame(pd.DataFrame({**COLUMNS, "lang": lang, **others}))


@pytest.mark.parametrize("kind", FRAMES)
def test_text_is_categorical_by_its_type(kind):
    found = from_frame(FRAMES[kind]())
    assert found.feature_names == ("lang", "bm25")
    assert found.X.dtype == np.float64
    assert set(found.categories) == {0}
    assert {"de", "fr", "en"} <= set(found.categories[0]) <= {"de", "fr", "en", "no"}
    assert found.X[:, 0].tolist() == KEYS
    assert found.X[:, 1].tolist() == BM25


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(SITE, categories=[12, 9, 7]),
        pd.Categorical([float(site) for site in SITE]),
        pa.array(SITE).dictionary_encode(),
        pa.array(SITE, pa.int16()).dictionary_encode(),
    ],
    ids=["pandas", "pandas float", "pyarrow", "pyarrow small"],
)
def test_categories_that_are_numbers_stand_for_themselves(column):
    columns = {"qid": QID, "label": LABEL, "site": column}
    found = from_frame(pa.table(columns) if isinstance(column, pa.Array) else pd.DataFrame(columns))
    assert found.X[:, 0].tolist() == SITE
    assert sorted(found.categories[0]) == [7, 9, 12]
    assert all(type(value) is int for value in found.categories[0])


def test_numbers_and_booleans_are_no_categories():
    frame = pd.DataFrame({"qid": QID, "label": LABEL, "a": SITE, "b": [True, False] * 3})
    assert from_frame(frame).categories == {}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Categorical(["a", 1, "b", "a", 1, "a"]), "'lang' has the categories both strings and numbers; expected"),
        (pd.Categorical([1.5, np.inf, 1.5, 1.5, 1.5, 1.5]), "'lang' has the categories inf; expected"),
        (
            pd.Categorical([2**60, 1, 1, 1, 1, 1]),
            r"'lang' has the categories 1152921504606846976; expected strings, or",
        ),
        (pd.Categorical(pd.to_datetime(["2020-01-01"] * 6)), "'lang' has the categories Timestamp"),
        (["a", 1, "b", "a", 1, "a"], "the column 'lang' does not hold numbers"),
        ([b"a"] * 6, "the column 'lang' does not hold numbers"),
        ([None] * 6, "the column 'lang' does not hold numbers"),
    ],
)
def test_other_columns_are_refused(column, message):
    with pytest.raises(InputError, match=message) as caught:
        data(column)
    assert "\n" not in str(caught.value)


def test_a_text_has_one_number_whatever_else_there_is():
    texts = [f"text {number}" for number in range(20_000)] + ["", "é"]
    numbers = np.array([number_of(text) for text in texts])
    assert len(np.unique(numbers)) == len(texts)
    assert (numbers == np.rint(numbers)).all()
    assert is_text(numbers).all()
    assert not is_text(np.array([0.0, -5.0, 2.0**52 - 1, NO_CATEGORY, np.nan])).any()
    assert number_of("de") == 8868555203229432.0  # what files hold: it never changes


def test_what_is_done_with_data_keeps_the_categories():
    whole = data()
    assert whole.select([1]).categories == whole.categories
    assert whole.select_docs([True] * 5 + [False]).categories == whole.categories
    assert whole.with_labels(LABEL).categories == whole.categories
    assert whole.matched_to(1, ["lang"]).categories == {0: whole.categories[0]}
    assert whole.matched_to(2, ["bm25", "lang"]).categories == {1: whole.categories[0]}
    assert whole.matched_to(1, ["bm25"]).categories == {}
    assert whole.with_features(whole.X[:, ::-1], ["bm25", "lang"]).categories == {1: whole.categories[0]}
    assert whole.with_features(whole.X).categories == whole.categories
    assert whole.with_features(np.ones((6, 3))).categories == {}
    assert dataclasses.replace(whole, feature_names=None).widened(4).categories == whole.categories


def test_categories_of_arrays():
    X, labels = [[number_of("a"), 1.0], [NO_CATEGORY, 2.0], [number_of("b"), 3.0]], [0, 1, 1]
    found = RankingData.from_arrays(X, labels, group=[3], categories={0: ["b", "a"]})
    assert found.categories == {0: ("b", "a")}
    for wrong in ({2: ["a"]}, {"0": ["a"]}, {0: ["a", 1]}, {0: [None]}):
        with pytest.raises(InputError, match="categories"):
            RankingData.from_arrays(X, labels, group=[3], categories=wrong)


def test_joined_data_has_the_categories_of_both():
    other = dataclasses.replace(data(["it", "de", "it", "de", "it", "it"]), query_ids=np.array([3, 4]))
    both = RankingData.concatenate([data(), other])
    assert both.categories == {0: ("de", "fr", "en", "it")}
    assert both.X[:, 0].tolist() == KEYS + [number_of(text) for text in ("it", "de", "it", "de", "it", "it")]
    with pytest.raises(InputError, match="the column 'lang' is categorical in some data sets, but not in all"):
        RankingData.concatenate([data(), data([1.0] * 6)])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_without_categories_columns_stay_and_are_zero(is_sparse):
    from scipy import sparse

    whole = data()
    whole = whole.with_features(sparse.csr_array(whole.X)) if is_sparse else whole
    found = whole.without_categories()
    X = found.X.toarray() if is_sparse else found.X
    assert X.tolist() == [[0.0, value] for value in BM25]
    assert (found.categories, found.feature_names) == ({}, whole.feature_names)
    assert found.without_categories() is found
    assert whole.X[0, 0] == KEYS[0]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_have_the_categories_back(library):
    whole = data(site=pd.Categorical(SITE))
    frame = to_frame(whole, library)
    again = from_frame(frame)
    assert again.X.tobytes() == whole.X.tobytes()
    assert set(again.categories) == ({0} if library == "polars" else {0, 2})  # polars has no categories of numbers
    assert set(again.categories[0]) == {"de", "fr", "en"}
    how = {"pandas": "tolist", "polars": "to_list", "pyarrow": "to_pylist"}
    listed = getattr(frame["lang"], how[library])()
    assert [None if value != value else value for value in listed] == LANG


@pytest.mark.parametrize("suffix", [".parquet", ".rank"])
def test_files_keep_the_categories(suffix, tmp_path):
    whole = data(site=pd.Categorical(SITE))
    write_data(whole, tmp_path / f"data{suffix}")
    again = read_data(tmp_path / f"data{suffix}")
    assert np.array(again.X).tobytes() == whole.X.tobytes()
    kept = {0} if suffix == ".parquet" else {0, 2}  # Parquet has no categories of numbers
    assert again.categories.keys() == kept
    assert all(sorted(again.categories[column]) == sorted(whole.categories[column]) for column in kept)
    with pytest.raises(InputError, match=r"float32 cannot hold the categories of 'lang'(, 'site')?; expected float64"):
        read_data(tmp_path / f"data{suffix}", dtype="float32")


def test_parquet_in_batches_and_with_a_first_batch_of_missing_values(tmp_path, monkeypatch):
    monkeypatch.setattr("rankwright.io.parquet._WRITE_VALUES", 4)
    monkeypatch.setattr("rankwright.io.parquet._READ_VALUES", 8)
    whole = data([None, None, None, "de", "fr", "no"])
    write_parquet(whole, tmp_path / "data.parquet")
    again = read_parquet(tmp_path / "data.parquet")
    assert again.X.tobytes() == whole.X.tobytes()
    assert set(again.categories[0]) == {"de", "fr", "no"}


def test_folders_without_categories_stay_readable_by_older_versions(tmp_path):
    for categories, version in ((True, 2), (False, 1)):
        save_folder(data() if categories else data().without_categories(), tmp_path / "data.rank")
        assert f'"version": {version}' in (tmp_path / "data.rank" / "rankwright.json").read_text()
        assert bool(load_folder(tmp_path / "data.rank").categories) == categories


@pytest.mark.parametrize(
    "found",
    [
        7, [], {"x": ["a"]}, {"-1": ["a"]}, {"2": ["a"]}, {"01": ["a"]}, {"0": "a"}, {"0": ["a", 1]}, {"0": [None]},
        {"0": [True, None]}, {"0": [float("nan")]}, {"0": [2**60]}, {"9" * 5000: ["a"]}, {"²": ["a"]},
        {"0": ["\ud800"]}, {"0": [["a"]]},
    ],
)  # fmt: skip
def test_damaged_categories_are_refused(found):
    with pytest.raises(InputError, match="categories") as caught:
        checked_categories(found, 2)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_text_cannot_be_written_as_letor_but_numbers_can(tmp_path):
    with pytest.raises(InputError, match=r"LETOR text cannot use categories \('lang'\); drop these columns, or write"):
        write_data(data(), tmp_path / "data.txt")
    write_data(data(pd.Categorical(SITE)), tmp_path / "data.txt")
    assert read_data(tmp_path / "data.txt").X[:, 0].tolist() == SITE


def test_scaling_refuses_categories_and_cleaning_and_summaries_leave_them_out():
    whole = data()
    with pytest.raises(InputError, match=r"scaling cannot use categories \('lang'\)"):
        QueryScaler("minmax").transform(whole)
    found = summarize(whole)
    assert (found.feature_min, found.feature_max) == (0.5, 5.5)
    assert (found.categorical_features, found.constant_features) == (("lang",), ())
    numbers = whole.matched_to(1, ["bm25"])
    assert Cleaner().find(whole).report() == Cleaner().find(numbers).report()
