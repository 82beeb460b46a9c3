"""What all models share: `predict` takes data, arrays and data frames, and gives scores in the caller's order."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from rankwright import InputError, RankingData
from rankwright.boosting.forest import Forest
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.models.base import Model
from rankwright.models.linear import BinnedModel, LinearModel
from rankwright.models.saving import KINDS, load_model, save_model
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

NAMES = ("a", "b", "c")
X = np.random.default_rng(5).normal(size=(6, 3))
QID = np.array([2, 1, 2, 1, 2, 2])
LINEAR = LinearModel([1.0, -2.0, 0.5], NAMES)
SCALED = dataclasses.replace(LINEAR, query_scaling="minmax")


def stump(value):
    """A tree of one split."""
    return Forest(
        np.array([1, -1, -1], np.int32),
        np.array([0.1, 0.0, 0.0]),
        np.array([True, False, False]),
        np.array([1, 0, 0], np.int32),
        np.array([0.0, -value, value]),
        np.array([1.0, 0.0, 0.0]),
        np.array([3.0, 2.0, 1.0]),
        roots=np.array([0]),
    )


MODELS = {
    "linear": LINEAR,
    "scaled": SCALED,
    "trees": TreeModel(3, NAMES, stump(1.0)),
    "grades": GradeModel(3, NAMES, np.array([0.0, 1.0]), (stump(1.0), stump(-1.0)), np.zeros(2)),
    "binned": BinnedModel([0.0, 0.5], [0, 1, 1, 2], [1.0, 2.0], NAMES),
    "net": NetModel([[1.0, 0.5, -1.0]], [0.1], [2.0], NAMES),
    "sum": SumModel((LINEAR, NetModel([[1.0, 0.5, -1.0]], [0.1], [2.0], NAMES)), [1.0, 0.5]),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def expected(model):
    """Scores by `score`, query by query."""
    scores = np.zeros(len(X))
    for query in (1, 2):
        scores[query == QID] = model.score(X[query == QID])
    return scores


def test_every_kind_is_here():
    assert {type(model) for model in MODELS.values()} == {kind.model for kind in KINDS.values()}
    assert all(issubclass(kind.model, Model) for kind in KINDS.values())


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array, list])
def test_arrays_with_query_ids_in_any_order(model, table):
    scores = model.predict(table(X), QID)
    assert scores.tobytes() == expected(model).tobytes()
    assert scores.dtype == np.float64


def test_groups(model):
    order = np.argsort(QID, kind="stable")
    assert model.predict(X[order], group=[2, 4]).tobytes() == expected(model)[order].tobytes()


def test_data_brings_its_queries(model):
    data = RankingData.from_arrays(X[:, ::-1], np.zeros(6), QID, feature_names=NAMES[::-1])
    assert model.predict(data).tobytes() == expected(model).tobytes()
    with pytest.raises(InputError, match="a RankingData has its queries; leave out qid and group"):
        model.predict(data, QID)


def test_without_queries_all_rows_are_one(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert model.predict(X).tobytes() == model.score(X).tobytes()
        assert model.predict(X[:1]).tobytes() == model.score(X[:1]).tobytes()
    if not model.scales_queries:
        assert caught == []
        return
    what = "no qid: features are scaled within each query, and all 6 rows are taken as one; pass qid=…, or group=…"
    assert [(str(one.message), one.filename) for one in caught] == [(what, __file__)]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_data_frames_by_name_whatever_else_they_hold(model, frame):
    columns = {"title": list("uvwxyz"), "c": X[:, 2], "a": X[:, 0], "b": X[:, 1], "qid": QID}
    assert model.predict(frame(columns), columns["qid"]).tobytes() == expected(model).tobytes()
    assert model.predict(frame(columns)).tobytes() == expected(model).tobytes()  # the column qid has them
    for wrong in ({"qid": QID[::-1]}, {"group": [2, 4]}):
        with pytest.raises(InputError, match="the data frame has a column 'qid'"):
            model.predict(frame(columns), **wrong)


def test_a_feature_called_qid_is_a_feature():
    frame = pd.DataFrame({"a": [1.0, 2.0], "qid": [10.0, 20.0]})
    assert LinearModel([1.0, 1.0], ("a", "qid")).predict(frame).tolist() == [11.0, 22.0]
    assert LinearModel([1.0]).predict(frame).tolist() == [1.0, 2.0]


HUGE = {
    "linear": (LinearModel([10.0, 1.0], ("a", "b")), "inf"),
    "net": (NetModel([[10.0, 1.0]], [0.0], [1.0], ("a", "b")), "nan"),
    "sum": (
        SumModel((LinearModel([1.0, 1.0], ("a", "b")), NetModel([[0.1, 0.0]], [0], [1], ("a", "b"))), [9, 1]),
        "inf",
    ),
}


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array, lambda rows: pd.DataFrame(rows, columns=["a", "b"])])
@pytest.mark.parametrize("kind", HUGE)
def test_a_feature_too_large_for_a_score_is_named(kind, table):
    model, score = HUGE[kind]
    message = (
        rf"the score of row 1 \(from 0\) is {score}: its feature 'a' is 1e\+308; features and scores must be finite"
    )
    with pytest.raises(InputError, match=message):
        model.predict(table(np.array([[1.0, 2.0], [1e308, 3.0]])))


def test_a_data_frame_for_a_sum_of_models_with_different_features():
    model = SumModel((LinearModel([2.0], ("old",)), LinearModel([1.0], ("new",))), [1.0, 1.0])
    frame = pd.DataFrame({"id": ["u", "v"], "new": [1.0, 2.0], "old": [3.0, 4.0]})
    assert model.predict(frame).tolist() == [7.0, 10.0]


def test_a_data_frame_and_a_model_without_names():
    model = LinearModel([1.0, -2.0, 0.5])
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    assert model.predict(frame).tobytes() == model.score(X).tobytes()
    with pytest.raises(InputError, match="the model takes numbers, not text, in 'f3'"):
        model.predict(frame.assign(z="text"))
    with pytest.raises(InputError, match="LazyFrame has no rows yet"):
        model.predict(pl.DataFrame({"x": [1.0]}).lazy())


def test_a_data_frame_that_lacks_a_feature(model):
    with pytest.raises(InputError, match="the data lacks 1 of the model's 3 features: 'b'"):
        model.predict(pd.DataFrame({"c": X[:, 2], "a": X[:, 0]}))


def test_features_that_are_missing_are_zero_only_if_that_is_said(model):
    zeros = X * [1, 0, 0]
    frame = pd.DataFrame({"a": X[:, 0], "more": 1.0})
    data = RankingData.from_arrays(X[:, :1], np.zeros(len(X)), QID, feature_names=["a"])
    text = RankingData.from_arrays(X[:, :1], np.zeros(len(X)), QID)
    for given, qid in ((frame, QID), (data, None), (text, None), (X[:, :1], QID)):
        with pytest.raises(
            InputError, match="to take missing features as 0, which text leaves out, use missing_as_zero=True"
        ):
            model.predict(given, qid)
        assert model.predict(given, qid, missing_as_zero=True).tobytes() == model.predict(zeros, QID).tobytes()


def test_columns_with_names_do_not_fill_a_model_without():
    with pytest.raises(InputError, match="the data has 2 features, but the model has 3"):
        LinearModel(np.ones(3)).predict(pd.DataFrame({"x": [1.0], "y": [2.0]}), missing_as_zero=True)


def test_missing_values_of_frames_are_nan():
    model = MODELS["trees"]
    frame = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [0.0, np.nan], "c": [True, False]})
    assert model.predict(frame).tolist() == model.score([[1.0, 0.0, 1.0], [np.nan, np.nan, 0.0]]).tolist()
    assert model.predict(frame, [1, 1]).tolist() == model.predict(frame).tolist()
    with pytest.raises(InputError, match=r"row 1 .* has no 'a' "):
        LINEAR.predict(frame)


def test_a_loaded_model_predicts(model, tmp_path):
    save_model(model, tmp_path / "m.rkw", method="svm-map", parameters={})
    loaded = load_model(tmp_path / "m.rkw")
    assert loaded.feature_names == NAMES
    assert loaded.predict(X, QID).tobytes() == expected(model).tobytes()
    data = RankingData.from_arrays(X, np.zeros(6), QID, feature_names=NAMES)
    assert loaded.predict(data).tobytes() == expected(model).tobytes()
