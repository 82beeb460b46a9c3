import json
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from rankwright import RankingData
from rankwright.data import summary
from rankwright.data.summary import Spread, summarize, summarize_qrels, summarize_run, summarize_scores
from rankwright.data.trec_table import TrecTable


def as_kind(X, kind, dtype=np.float64):
    X = np.asarray(X, dtype)
    return sparse.csr_array(X) if kind == "sparse" else X


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_counts(kind):
    data = RankingData.from_arrays(
        as_kind([[0, 1], [2, 0], [0, 0], [-4, 3], [0, 0]], kind, np.float32), [0, 0, 1, 2, 0], ["a", "a", "b", "b", "c"]
    )
    found = summarize(data)
    assert (found.queries, found.documents, found.features) == (3, 5, 2)
    assert found.documents_per_query == Spread(1, 2, 5 / 3, 2)
    assert (found.kind, found.dtype, found.density) == (kind, "float32", 0.4)
    assert (found.feature_min, found.feature_max) == (-4, 3)
    assert found.labels == ((0, 3), (1, 1), (2, 1))
    assert (found.queries_without_relevant, found.queries_without_non_relevant) == (2, 1)
    assert not found.document_ids


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 21])
def test_constant_and_duplicate_features_against_brute_force(monkeypatch, kind, dtype, chunk):
    monkeypatch.setattr(summary, "_CHUNK_VALUES", chunk)
    rng = np.random.default_rng(1)
    for _ in range(20):
        X = rng.choice([0, 0.5, 1, -1], size=(rng.integers(1, 5), 12))  # few rows: many equal columns
        found = summarize(RankingData.from_arrays(as_kind(X, kind, dtype), np.zeros(len(X)), np.zeros(len(X))))
        constant = {at for at in range(12) if (X[:, at] == X[0, at]).all()}
        assert found.constant_features == tuple(f"f{at + 1}" for at in sorted(constant))
        pairs = {
            (f"f{a + 1}", f"f{b + 1}")
            for a, b in combinations(range(12), 2)
            if not {a, b} & constant and (X[:, a] == X[:, b]).all()
        }
        assert {pair for group in found.duplicate_features for pair in combinations(group, 2)} == pairs


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_equal_fingerprints_are_not_believed(monkeypatch, kind):
    monkeypatch.setattr(summary, "_mixed", lambda values: np.zeros(values.shape, np.uint64))
    data = RankingData.from_arrays(as_kind([[1, 2, 1], [2, 1, 2]], kind), [0, 1], [1, 1], feature_names="abc")
    assert summarize(data).duplicate_features == (("a", "c"),)


def test_the_two_zeros_are_equal():
    data = RankingData.from_arrays([[0.0, -0.0], [1.0, 1.0]], [0, 1], [1, 1])
    assert summarize(data).duplicate_features == (("f1", "f2"),)


def test_a_sparse_feature_without_zeros():
    X = sparse.csr_array(np.array([[3.0, 0.0], [3.0, 1.0]]))
    found = summarize(RankingData.from_arrays(X, [0, 1], [1, 1]))
    assert found.constant_features == ("f1",)
    assert (found.feature_min, found.feature_max) == (0, 3)


def test_qrels():
    table = TrecTable.from_dict({"1": {"a": 0, "b": 2}, "2": {"a": -1}, "3": {"c": 1}})
    found = summarize_qrels(table)
    assert (found.queries, found.documents) == (3, 4)
    assert found.labels == ((-1, 1), (0, 1), (1, 1), (2, 1))
    assert (found.queries_without_relevant, found.queries_without_non_relevant) == (1, 1)


def test_run_ties_are_counted_within_a_query():
    table = TrecTable.from_dict({"1": {"a": 1, "b": 2, "c": 1, "d": 1}, "2": {"a": 2, "b": 3.5}})
    found = summarize_run(table)
    assert found.tied_share == 0.5
    assert (found.score_min, found.score_max) == (1, 3.5)


def test_scores():
    found = summarize_scores(np.array([1.0, 2.0, 2.0, 7.0]))
    assert (found.documents, found.distinct, found.scores) == (4, 3, Spread(1, 2, 3, 7))


def test_plain_types():
    data = RankingData.from_arrays([[1, 1, 0], [2, 2, 0]], [0, 0.5], [1, 1])
    found = json.loads(json.dumps(summarize(data).to_dict()))
    assert found["labels"] == [{"label": 0, "documents": 1}, {"label": 0.5, "documents": 1}]
    assert found["duplicate_features"] == [["f1", "f2"]]
    assert found["constant_features"] == ["f3"]
    assert found["documents_per_query"] == {"min": 2, "median": 2, "mean": 2, "max": 2}


def test_missing_values_are_no_obstacle():
    X = np.array([[np.nan, -3.0], [2.0, 5.0], [2.0, 5.0]])
    found = summarize(RankingData.from_arrays(X, [0, 1, 0], [1, 1, 1], allow_missing=True))
    assert (found.cleaning.pairs, found.cleaning_scaled) == (1, None)


def test_missing_values_are_counted_and_left_out_of_the_range():
    X = np.array([[1.0, np.nan, 5.0, np.nan], [2.0, np.nan, np.nan, 0.5], [0.5, np.nan, 5.0, 0.5]])
    found = summarize(RankingData.from_arrays(X, [0, 1, 0], qid=[1, 1, 1], allow_missing=True))
    assert (found.feature_min, found.feature_max) == (0.5, 5.0)
    assert found.missing == pytest.approx(5 / 12)
    assert found.constant_features == ("f2",)
