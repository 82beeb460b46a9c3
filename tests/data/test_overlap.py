"""Queries that two data sets share are found by their rows, whatever form the data has."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from rankwright import RankingData
from rankwright.data import dataset
from rankwright.data.dataset import some_queries
from rankwright.data.overlap import Fingerprints, query_hashes, shared_queries


def made(seed=0, n_queries=20, n_features=6):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 4, (n_queries * 5, n_features)) / np.float32(4)
    return RankingData.from_arrays(X, rng.integers(0, 3, len(X)), np.repeat(np.arange(n_queries) + 100, 5))


def test_other_forms_of_the_same_queries_are_the_same():
    data = made()
    order = np.concatenate([np.random.default_rng(q).permutation(5) + 5 * q for q in range(20)])
    turned = RankingData.from_arrays(data.X[order], data.labels[order], data.qid[order])
    minus = np.where(data.X == 0, np.float32(-0.0), data.X)
    for other in (
        turned,
        data.with_features(sparse.csr_array(data.X)),
        data.with_features(data.X.astype(np.float64)),
        data.with_features(minus),
        data.widened(9),
    ):
        np.testing.assert_array_equal(query_hashes(other), query_hashes(data))


def test_other_queries_are_others():
    data = made()
    rng = np.random.default_rng(1)
    for q in range(20):  # one value of one row, two values changed over, two rows mixed, or a label
        X, labels, row = data.X.copy(), data.labels.copy(), 5 * q + rng.integers(4)
        match q % 4:
            case 0:
                X[row, rng.integers(6)] += 1
            case 1:
                X[row] = np.roll(np.arange(6, dtype=np.float32), 1) if q % 8 == 1 else X[row, ::-1] + np.arange(6)
            case 2:
                X[row, :3], X[row + 1, :3] = X[row + 1, :3] + 1, X[row, :3].copy()
            case 3:
                labels[row] += 1
        changed = query_hashes(RankingData.from_arrays(X, labels, data.qid)) != query_hashes(data)
        assert changed.tolist() == [at == q for at in range(20)]


def test_what_is_shared():
    data = made()
    assert shared_queries(made(1), data, "validation", "training") is None
    mixed = RankingData.concatenate([made(1, 3), data.select([9, 3])])
    found = shared_queries(mixed, data, "test", "training")
    assert found.text == "2 of 5 test queries are also in the training data (first: 109): results on them are too good"
    found = shared_queries(mixed, data.select([3]), "test", "training")
    assert found.text == "1 of 5 test queries is also in the training data (103): results on it are too good"


def test_ids_alone_and_queries_that_say_nothing_do_not_count():
    zeros = RankingData.from_arrays(np.zeros((4, 2)), [0, 0, 0, 0], ["a", "a", "b", "b"])
    renamed = RankingData.from_arrays(np.zeros((2, 2)), [0, 0], ["c", "c"])
    assert shared_queries(renamed, zeros, "validation", "training") is None
    assert shared_queries(zeros.select([1]), zeros, "validation", "training").n_shared == 1
    assert shared_queries(made(1), made(2), "validation", "training") is None  # the same ids
    known = made()
    others = RankingData.from_arrays(known.X, known.labels, known.qid + 1000)
    assert shared_queries(others, known, "validation", "training").n_shared == 20  # other ids, the same rows


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_and_data_without_values(form):
    empty = RankingData.from_arrays(form(np.zeros((0, 3))), [], [])
    assert query_hashes(empty).tolist() == []
    data = RankingData.from_arrays(form(np.zeros((3, 4))), [0, 1, 1], ["a", "a", "b"])
    assert len(set(query_hashes(data).tolist())) == 2


def test_parts_are_joined():
    one = Fingerprints.of(made())
    both = Fingerprints.join([one.select([3, 4]), Fingerprints.of(made(1))])
    assert both.shared_with(one, "test", "training").n_shared == 2
    assert one.shared_with(both.select([0, 2]), "test", "training").first == "103"


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_hashes_are_computed_in_batches_that_do_not_matter(form, monkeypatch):
    """Numbers for all values at once took four times the memory of the features."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((20_000, 40)) < 0.5, rng.random((20_000, 40)), 0).astype(np.float32)
    labels, group = rng.integers(0, 3, len(X)), [20] * 1000
    data = RankingData.from_arrays(sparse.csr_array(X) if form == "sparse" else X, labels, group=group)
    subset = some_queries(data, rng.permutation(1000)[:700])
    at_once = query_hashes(data), query_hashes(subset)
    monkeypatch.setattr(dataset, "_BATCH_BYTES", 1 << 16)
    for part, hashes in zip((data, subset), at_once, strict=True):
        tracemalloc.start()
        np.testing.assert_array_equal(query_hashes(part), hashes)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < X.nbytes / 2
