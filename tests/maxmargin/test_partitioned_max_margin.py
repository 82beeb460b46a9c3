"""Max-margin training over parts: the same bits for any number of workers, and after workers were lost."""

from itertools import pairwise

import numpy as np
import pytest

from in_partitions import Several, cut, in_partitions, made_up
from rankwright import RankingSVM, StructuredSVM
from rankwright.errors import InputError
from rankwright.maxmargin.hinge import _blocks_of_partitions

LOSSES = ["map", "auc", "ndcg", "ndcg@10", "mrr@10", "dorm@10", ["map", "ndcg@10"]]


@pytest.mark.parametrize(("loss", "slack"), [*((loss, "separate") for loss in LOSSES), (LOSSES[-1], "shared")], ids=str)
def test_the_same_bits_on_any_number_of_workers(loss, slack):
    parts = cut(made_up(), 3)
    coefs = [
        StructuredSVM(loss, C=1.0, slack=slack).fit(in_partitions(parts, Several(n_workers))).coef_
        for n_workers in (1, 2, 3)
    ]
    assert coefs[0].any()
    assert np.array_equal(coefs[0], coefs[1])
    assert np.array_equal(coefs[0], coefs[2])


@pytest.mark.parametrize("make", [lambda: StructuredSVM("map"), RankingSVM, lambda: StructuredSVM("ndcg@10")])
def test_the_certificate_is_that_of_the_whole_problem(make):
    data = made_up(40)
    whole, partitioned = make().fit(data), make().fit(in_partitions(cut(data, 4), Several(2)))
    assert partitioned.gap_ <= 1e-3
    assert partitioned.objective_ == pytest.approx(whole.objective_, rel=3e-3)
    assert partitioned.n_queries_ == whole.n_queries_
    assert partitioned.proof_ is None or partitioned.proof_.value == pytest.approx(whole.proof_.value, abs=0.05)


@pytest.mark.parametrize("losses", [(5,), (9, 14), (20, 23), range(30, 60, 7)])
@pytest.mark.parametrize("make", [lambda: StructuredSVM("map"), lambda: StructuredSVM("ndcg@10"), RankingSVM])
def test_lost_hosts_change_nothing(make, losses):
    parts = cut(made_up(), 3)
    expected = make().fit(in_partitions(parts, Several(2))).coef_
    transport = Several(2, losses)
    data = in_partitions(parts, transport)
    assert np.array_equal(make().fit(data).coef_, expected)
    assert data.X.cluster.moves > 0


def test_C_by_validation_by_folds_and_with_weights():
    data, valid = made_up(30), made_up(10, seed=5)
    parts = cut(data, 3)
    for settings in (
        {"eval_set": valid},
        {},
        {"query_weight": np.repeat(np.linspace(0, 2, data.n_queries), data.sizes)},
    ):
        found = [
            StructuredSVM("map", C="auto", C_grid=[0.1, 1.0]).fit(in_partitions(parts, Several(n_workers)), **settings)
            for n_workers in (1, 3)
        ]
        assert found[0].C_ == found[1].C_
        assert np.array_equal(found[0].coef_, found[1].coef_)
        assert found[0].C_path_ == found[1].C_path_


def test_validation_in_parts_is_as_validation_in_memory():
    parts, valid = cut(made_up(30), 2), made_up(12, seed=5)
    data = in_partitions(parts, Several(2))
    ranker = StructuredSVM("map", C="auto", C_grid=[0.01, 1.0])
    in_memory = ranker.fit(data, eval_set=valid).C_path_
    assert ranker.fit(data, eval_set=in_partitions(cut(valid, 3), Several(3))).C_path_ == in_memory


def test_more_parts_than_blocks_share_planes():
    data = made_up(150, 5)
    found = [StructuredSVM("map").fit(in_partitions(cut(data, 130), Several(n))) for n in (1, 4)]
    assert np.array_equal(found[0].coef_, found[1].coef_)
    whole = StructuredSVM("map").fit(data)
    assert found[0].gap_ <= 1e-3
    assert found[0].objective_ == pytest.approx(whole.objective_, rel=3e-3)


def test_more_parts_than_blocks_of_very_unequal_sizes():
    data = made_up(60)
    bounds = [0, 50, *range(51, 61)]
    parts = [data.select(np.arange(first, last)) for first, last in pairwise(bounds)]
    for settings in ({"solver": "one-slack-cutting-plane"}, {}):
        partitioned = StructuredSVM("map", **settings).fit(in_partitions(parts, Several(3)))
        assert partitioned.gap_ <= 1e-3
        assert partitioned.objective_ == pytest.approx(StructuredSVM("map", **settings).fit(data).objective_, rel=3e-3)
    sizes = np.array([50, *[1] * 9, 0])
    assert _blocks_of_partitions(sizes, 5).tolist() == [1] * 10 + [0]
    assert _blocks_of_partitions(sizes, 20).tolist() == [16, *[1] * 9, 0]


def test_predictions_over_parts_are_those_of_the_rows():
    data = made_up()
    ranker = StructuredSVM("map").fit(data)
    assert np.array_equal(ranker.predict(in_partitions(cut(data, 3), Several(2))), ranker.predict(data))


def test_one_query_at_a_time_is_refused():
    with pytest.raises(InputError, match="takes queries one by one"):
        StructuredSVM("map", solver="n-slack-cutting-plane").fit(in_partitions(cut(made_up(), 2), Several(1)))


def test_missing_and_infinite_values_are_refused():
    data = made_up()
    for value, what in ((np.nan, "missing"), (np.inf, "infinite")):
        X = data.X.copy()
        X[7, 2] = value
        parts = cut(type(data)(X, data.labels, data.indptr, data.query_ids), 2)
        with pytest.raises(InputError, match=what):
            StructuredSVM("map").fit(in_partitions(parts, Several(1)))


def test_sparse_parts():
    from scipy import sparse

    data = made_up(30)
    X = np.where(np.abs(data.X) < 0.7, 0.0, data.X)
    dense = type(data)(X, data.labels, data.indptr, data.query_ids)
    rows = type(data)(sparse.csr_array(X), data.labels, data.indptr, data.query_ids)
    one = StructuredSVM("map").fit(in_partitions(cut(dense, 3), Several(2)))
    two = StructuredSVM("map").fit(in_partitions(cut(rows, 3), Several(2)))
    assert one.coef_ == pytest.approx(two.coef_, rel=1e-2, abs=1e-2)
    assert two.gap_ <= 1e-3
