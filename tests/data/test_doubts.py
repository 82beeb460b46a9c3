"""What makes training data doubtful: leaks against a double loop over pairs, repeated rows, one query."""

import numpy as np
import pytest
from scipy import sparse

from rankwright import RankingData
from rankwright.data import doubts
from rankwright.data.doubts import doubtful_rows, doubts_of, probable_leaks


def share_in_order(values, labels, qid):
    """The share of the pairs in order, a pair once for each grade between its labels, by a double loop."""
    grades = sorted(set(labels))
    right = total = 0.0
    for i in range(len(values)):
        for j in range(len(values)):
            if qid[i] == qid[j] and labels[i] > labels[j]:
                steps = grades.index(labels[i]) - grades.index(labels[j])
                total += steps
                right += steps * ((values[i] > values[j]) + 0.5 * (values[i] == values[j]))
    return right / total


@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_that_of_a_double_loop(seed, monkeypatch):
    monkeypatch.setattr(doubts, "LEAK_FROM", 0.5)
    rng = np.random.default_rng(seed)
    labels, qid = rng.choice([0.0, 1.0, 2.5, 4.0], 60), np.repeat(np.arange(6), 10)
    X = np.round(rng.normal(size=(60, 3)) + 0.3 * labels[:, None], 1)
    found = {leak.name: leak for leak in probable_leaks(RankingData.from_arrays(X, labels, qid))}
    for column, name in enumerate(("f1", "f2", "f3")):
        share = share_in_order(X[:, column], labels, qid)
        assert found[name].share == pytest.approx(max(share, 1 - share))
        assert found[name].reverse == (share < 0.5)


def graded(n_queries=30, seed=0):
    rng = np.random.default_rng(seed)
    labels, qid = rng.choice([0, 0, 1, 2], n_queries * 10), np.repeat(np.arange(n_queries), 10)
    return rng, labels, qid


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_leaks_are_found_and_strong_features_are_not(as_given, monkeypatch):
    rng, labels, qid = graded()
    strong = labels + rng.normal(scale=0.5, size=len(labels))  # orders 91 % of the pairs
    reverse = np.where(labels == 0, np.nan, -1.0 - labels)  # a missing value is below all others
    nearly = np.where(rng.random(len(labels)) < 0.004, 0, labels + 1.0)
    X = np.column_stack([strong, labels * 3.0 + 1, nearly, np.nan_to_num(reverse, nan=0.0)])
    data = RankingData.from_arrays(as_given(X), labels, qid)
    assert [(leak.name, leak.reverse) for leak in probable_leaks(data)] == [("f2", False), ("f3", False), ("f4", True)]
    monkeypatch.setattr(doubts, "_SAMPLED_VALUES", 1)
    monkeypatch.setattr(doubts, "_SAMPLED_ROWS", 120)  # a sample first, then all
    assert probable_leaks(data)[0].share == 1.0
    assert [leak.name for leak in probable_leaks(data)] == ["f2", "f3", "f4"]


def test_missing_values_are_the_lowest():
    _, labels, qid = graded()
    X = np.where(labels == 0, np.nan, labels)[:, None]
    (leak,) = probable_leaks(RankingData.from_arrays(X, labels, qid, allow_missing=True))
    assert (leak.share, leak.reverse) == (1.0, False)


def test_few_queries_order_themselves_by_chance():
    labels = np.tile([0, 1], 40)
    assert probable_leaks(RankingData.from_arrays(labels[:, None] + 1.0, labels, group=[20] * 4)) == ()
    assert probable_leaks(RankingData.from_arrays(labels[:, None] + 1.0, labels, group=[16] * 5))
    few = np.tile([0, 1], 5)
    assert probable_leaks(RankingData.from_arrays(few[:, None] + 1.0, few, group=[2] * 5)) == ()


def test_the_warning_names_the_feature_and_says_what_to_do():
    _, labels, qid = graded()
    data = RankingData.from_arrays(labels[:, None] * 2.0, labels, qid, feature_names=["clicks"])
    (line,) = doubts_of(data)
    assert line.startswith(
        "probable leak: 'clicks' alone orders 100 % of the pairs of different labels as the labels do"
    )
    assert line.endswith("leave it out (--columns skip=clicks)")
    assert "--columns" not in doubts_of(RankingData.from_arrays(labels[:, None] * 2.0, labels, qid))[0]


def test_repeated_documents_are_counted():
    X, qid = np.arange(6.0)[:, None], [1, 1, 1, 2, 2, 2]
    data = RankingData.from_arrays(X, [0, 1, 0, 1, 0, 0], qid, doc_ids=["a", "b", "a", "a", "b", "c"])
    assert doubtful_rows(data) == [
        "1 of 6 rows repeats a document of their query; training and measures count each of them"
    ]
    assert doubtful_rows(RankingData.from_arrays(X, [0] * 6, qid, doc_ids=list("abcabc"))) == []


def test_equal_rows_without_ids_are_repeated_only_if_most_rows_differ():
    rng, labels, qid = graded()
    X = rng.normal(size=(300, 4))
    twice = RankingData.from_arrays(np.vstack([X, X]), np.tile(labels, 2), np.tile(qid, 2))
    assert doubtful_rows(twice)[0].startswith("300 of 600 rows repeat one of their query in all values")
    assert doubtful_rows(RankingData.from_arrays(X, labels, qid)) == []
    alike = RankingData.from_arrays((X > 0)[:, :2].astype(float), labels, qid)  # four kinds of rows
    assert doubtful_rows(alike) == []


def test_all_rows_in_one_query():
    data = RankingData.from_arrays(np.arange(3.0)[:, None], [0, 1, 0], ["s1"] * 3)
    (line,) = doubtful_rows(data)
    assert line.startswith("all 3 rows are of one query, 's1'")
