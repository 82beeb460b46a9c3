"""Data in this process and the same data in partitions answer alike."""

import numpy as np
import pytest
from scipy import sparse
from tests.in_partitions import Several, cut, in_partitions, made_up

from rankwright import InputError, LinearModel, RankingData, StructuredSVM
from rankwright.data.dataset import some_queries
from rankwright.data.order import rank_order
from rankwright.data.places import place_of, selected
from rankwright.data.statistics import Statistics

WEIGHTS = np.array([0.5, -1.0, 2.0, 0.0, 1.0, -0.25])


def as_sparse(data):
    X = sparse.csr_array(np.where(np.abs(data.X) < 0.7, 0.0, data.X))
    return RankingData(X, data.labels, data.indptr, data.query_ids)


DATA = {"dense": made_up(), "sparse": as_sparse(made_up())}
SOME = np.array([17, 2, 3, 21, 9])


def label_sums(data):
    return np.add.reduceat(data.labels, data.indptr[:-1]) if data.n_queries else np.empty(0)


class Queries:
    """What an actor is given, and what it is told."""

    def __init__(self, data, threads, queries, own, shared):
        self._data, self._known = selected(data, queries), [own, shared]

    def known(self):
        return self._known, self._data.query_ids.tolist()

    def learn(self, value):
        self._known.append(value)

    def count(self, factor):
        return factor * self._data.n_docs


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("queries", [None, np.sort(SOME), SOME], ids=["all", "some", "in another order"])
def test_partitions_answer_as_data_in_one_place(kind, queries):
    data, partitioned = DATA[kind], in_partitions(cut(DATA[kind], 3), Several(2))
    if queries is not None:
        data, partitioned = some_queries(data, queries), some_queries(partitioned, queries)
    here, apart, model = place_of(data), place_of(partitioned), LinearModel(WEIGHTS)
    assert (here.is_partitioned, apart.is_partitioned) == (False, True)
    for summed in (False, True):
        one, other = here.statistics(summed=summed), apart.statistics(threads=2, summed=summed)
        for name in ("low", "high", "missing", "varies", "largest"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.means, other.means)
    np.testing.assert_array_equal(one.deviations, Statistics.of(data).deviations)
    np.testing.assert_array_equal(here.scores(model), apart.scores(model))
    np.testing.assert_array_equal(here.per_query(label_sums), apart.per_query(label_sums))
    docs = slice(data.indptr[1], data.indptr[4])
    bounds = data.indptr[1:5] - data.indptr[1]
    expected = rank_order(here.scores(model)[docs], bounds, None)
    for place in (here, apart):
        np.testing.assert_array_equal(place.orders(model)(docs, bounds), expected)
    assert here.together() is data
    gathered = apart.together()
    np.testing.assert_array_equal(place_of(gathered).scores(model), here.scores(model))
    assert not place_of(gathered).is_partitioned


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_actors_are_given_their_queries_and_keep_what_they_are_told(n_partitions):
    data = DATA["dense"]
    for place in (place_of(data), place_of(in_partitions(cut(data, n_partitions), Several(2)))):
        shares = place.shares
        own = [(f"own {at}",) for at in range(len(shares))]
        actors = place.make(Queries, "shared", own=own)
        actors.update("learn", 7)
        for share, mine, (known, ids) in zip(shares, own, actors.call("known"), strict=True):
            assert known == [*mine, "shared", 7]
            assert ids == data.query_ids[share.chosen].tolist()
        assert actors.sum("count", own=[(2,)] * len(shares)) == 2 * data.n_docs
        assert (actors.only is None) == place.is_partitioned
        np.testing.assert_array_equal(np.sort(np.concatenate(list(map(place.rows_of, shares)))), np.arange(data.n_docs))
        for share in shares:
            np.testing.assert_array_equal(place.taken(data.labels, share), data.labels[place.rows_of(share)])
        actors.close()


def test_features_that_are_missing_are_an_error_or_0_everywhere():
    data = DATA["dense"]
    model = LinearModel(np.append(WEIGHTS, 3.0))
    expected = LinearModel(WEIGHTS).predict(data)
    for one in (data, in_partitions(cut(data, 2), Several(1))):
        np.testing.assert_array_equal(model.predict(one, missing_as_zero=True), expected)
        with pytest.raises(InputError, match="missing_as_zero=True"):
            model.predict(one)


def test_missing_values_are_counted_by_feature_in_partitions_too():
    data = made_up()
    X = data.X.copy()
    X[[3, 40, 80], 2] = np.nan
    holed = RankingData(X, data.labels, data.indptr, data.query_ids)
    for one in (holed, in_partitions(cut(holed, 3), Several(2))):
        with pytest.raises(InputError, match=rf"NaN in 3 of {data.n_docs} rows of 'f3'"):
            StructuredSVM("map").fit(one)
