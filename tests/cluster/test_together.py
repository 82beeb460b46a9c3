"""Features of partitions, brought to one place."""

import tempfile

import numpy as np
import pytest
from scipy import sparse
from tests.in_partitions import Several, in_partitions

from rankwright import LambdaRank, RankingData, open_partitions, save_folder
from rankwright.cli.main import main as run
from rankwright.cluster import dataset as features
from rankwright.data import threads as scratch
from rankwright.data.dataset import some_queries, stored
from rankwright.data.places import place_of


def cut(kind=np.asarray):
    rng = np.random.default_rng(5)
    X = np.where(rng.random((90, 7)) < 0.4, rng.normal(size=(90, 7)), 0.0)
    qid = np.repeat(np.arange(18), 5)
    whole = RankingData.from_arrays(kind(X), rng.integers(0, 3, 90), qid)
    return whole, [whole.select(np.isin(np.arange(18), some)) for some in ([0, 1], range(2, 11), range(11, 18))]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("block", [1, 300, 1 << 23])
def test_all_rows_arrive_in_their_places(monkeypatch, kind, block):
    monkeypatch.setattr(features, "_BLOCK_BYTES", block)
    whole, partitions = cut(kind)
    found = place_of(in_partitions(partitions, Several(2))).together()
    X = stored(found)[0]
    assert type(X) is type(whole.X)
    np.testing.assert_array_equal(*(M.toarray() if sparse.issparse(M) else M for M in (X, whole.X)))
    np.testing.assert_array_equal(found.labels, whole.labels)
    assert found.query_ids.tolist() == whole.query_ids.tolist()


def test_some_queries_stay_these_queries():
    whole, partitions = cut()
    chosen = np.array([1, 5, 12])
    found = place_of(some_queries(in_partitions(partitions, Several(2)), chosen)).together()
    np.testing.assert_array_equal(found.X, whole.select(chosen).X)


def test_large_features_are_mapped_beside_their_partitions_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "LARGE", 1)
    made = []
    monkeypatch.setattr(
        scratch, "_mapped", lambda folder, size, own=scratch._mapped: made.append(folder) or own(folder, size)
    )
    whole, _ = cut()
    save_folder(whole, tmp_path / "x.rank")

    assert run(["convert", str(tmp_path / "x.rank"), "--by-query", "3", "-o", str(tmp_path / "x.partitions")]) == 0
    before = sorted(path.name for path in (tmp_path / "x.partitions").iterdir())
    partitioned = open_partitions(tmp_path / "x.partitions")
    place_of(partitioned).together()
    assert made == [tmp_path / "x.partitions"]
    assert sorted(path.name for path in (tmp_path / "x.partitions").iterdir()) == before
    place_of(in_partitions(cut()[1], Several(2))).together()
    assert str(made[-1]) == tempfile.gettempdir()


def test_a_ranker_that_does_not_train_in_partitions_learns_the_same():
    whole, partitions = cut()
    settings = {"epochs": 3, "random_state": 1}
    found = LambdaRank(**settings).fit(
        in_partitions(partitions, Several(2)), eval_set=in_partitions(partitions, Several(1))
    )
    expected = LambdaRank(**settings).fit(whole, eval_set=whole)
    np.testing.assert_array_equal(found.predict(whole.X), expected.predict(whole.X))


def test_data_in_one_place_is_left_alone():
    whole, _ = cut()
    assert place_of(whole).together() is whole
