import copy
import subprocess
import sys
import time
from itertools import chain, combinations, pairwise, product

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, check_cv, cross_validate

from rankwright import InputError, QueryKFold, QueryShuffleSplit, QueryTrials, RankingData, letor_folds
from rankwright.data.splits import QuerySplit

SPLITTERS = [
    QueryKFold(4),
    QueryKFold(4, shuffle=False),
    QueryKFold(4, valid_folds=2),
    QueryShuffleSplit(3, test_size=0.3),
    QueryShuffleSplit(3, test_size=2),
    QueryTrials(6, train=3, valid=2, test=4),
    QueryTrials(6, train=3, valid=0, test=4),
]
each_splitter = pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)
row_layouts = st.permutations([f"q{number % 10}" for number in range(25)])


def make_data(qid):
    n_rows = len(qid)
    return RankingData.from_arrays(np.arange(n_rows, dtype=float)[:, None], np.arange(n_rows) % 2, qid)


def as_lists(split):
    return split.train.tolist(), split.valid.tolist(), split.test.tolist()


@each_splitter
@settings(max_examples=20)
@given(qid=row_layouts)
def test_rows_are_whole_queries_in_the_callers_order(splitter, qid):
    data = make_data(qid)
    splits = list(splitter.split(qid=qid))
    parts = list(splitter.split_queries(data))
    assert len(splits) == len(parts) == splitter.get_n_splits()
    for (train, test), part in zip(splits, parts, strict=True):
        assert train.tolist() == [row for row, id_ in enumerate(qid) if id_ in data.query_ids[part.train]]
        assert test.tolist() == [row for row, id_ in enumerate(qid) if id_ in data.query_ids[part.test]]
    for other in (
        splitter.split(data),
        splitter.split(np.zeros((25, 2)), None, qid),
        splitter.split([0] * 25, qid=qid),
    ):
        for (train, test), (same_train, same_test) in zip(splits, other, strict=True):
            assert (train == same_train).all()
            assert (test == same_test).all()


@each_splitter
def test_roles_are_disjoint_sorted_and_repeatable(splitter):
    splits = [as_lists(split) for split in splitter.split_queries(10)]
    for parts in splits:
        together = list(chain(*parts))
        assert len(set(together)) == len(together)
        assert set(together) <= set(range(10))
        assert all(part == sorted(part) for part in parts)
        assert parts[0]
        assert parts[2]
    np.random.seed(7)  # noqa: NPY002 - global state must not matter
    assert splits == [as_lists(split) for split in splitter.split_queries(range(10))]
    assert splits == [as_lists(split) for split in copy.deepcopy(splitter).split_queries("abcdefghij")]


@pytest.mark.parametrize("make", [QueryKFold, QueryShuffleSplit, QueryTrials])
def test_another_seed_gives_another_split(make):
    first, second = ([as_lists(split) for split in make(random_state=seed).split_queries(60)] for seed in (0, 1))
    assert first != second


@given(st.integers(2, 12), st.integers(0, 40), st.integers(0, 10), st.booleans())
def test_folds_test_every_query_once_and_validate_on_the_next(n_splits, more, valid_folds, shuffle):
    valid_folds = min(valid_folds, n_splits - 2)
    n_queries = n_splits + more
    folds = QueryKFold(n_splits, shuffle=shuffle, valid_folds=valid_folds)
    splits = [as_lists(split) for split in folds.split_queries(n_queries)]
    tests = [test for _, _, test in splits]
    assert sorted(chain(*tests)) == list(range(n_queries))
    assert max(map(len, tests)) - min(map(len, tests)) <= 1
    for k, (train, valid, test) in enumerate(splits):
        following = [tests[(k + 1 + step) % n_splits] for step in range(valid_folds)]
        assert valid == sorted(chain(*following))
        assert sorted(train + valid + test) == list(range(n_queries))


@pytest.mark.parametrize(("test_size", "n_test"), [(0.2, 2), (0.01, 1), (0.07, 1), (0.94, 9), (3, 3), (9, 9)])
def test_shuffle_split_sizes(test_size, n_test):
    for train, _, test in map(as_lists, QueryShuffleSplit(test_size=test_size).split_queries(10)):
        assert (len(train), len(test)) == (10 - n_test, n_test)


def counts(splits, role, n_queries):
    return np.bincount(np.concatenate([getattr(split, role) for split in splits]), minlength=n_queries)


def test_trials_are_balanced_for_all_small_numbers():
    for train, valid, test, unused in product([1, 2, 3], [0, 1, 2], [1, 2, 4], [0, 1, 2]):
        n_queries = train + valid + test + unused
        for n_trials in (1, 2, 3, 4, 5, 7, n_queries, n_queries + 1, 2 * n_queries - 1, 3 * n_queries):
            trials = QueryTrials(n_trials, train=train, valid=valid, test=test, random_state=n_trials)
            splits = list(trials.split_queries(n_queries))
            assert len(splits) == n_trials
            for role, size in (("train", train), ("valid", valid), ("test", test)):
                assert {len(getattr(split, role)) for split in splits} == {size}
                played = counts(splits, role, n_queries)
                assert played.max() - played.min() <= 1, (trials, n_queries, role)


@given(
    st.integers(1, 60), st.integers(1, 12), st.integers(0, 12), st.integers(1, 12), st.integers(0, 12), st.integers(0)
)
def test_trials_are_balanced(n_trials, train, valid, test, unused, seed):
    n_queries = train + valid + test + unused
    splits = list(
        QueryTrials(n_trials, train=train, valid=valid, test=test, random_state=seed).split_queries(n_queries)
    )
    idle = n_trials - sum(counts(splits, role, n_queries) for role in ("train", "valid", "test"))
    for played in (*(counts(splits, role, n_queries) for role in ("train", "valid", "test")), idle):
        assert np.ptp(played) <= 1


@pytest.mark.parametrize("n_queries", [50, 63, 200])
def test_trials_differ_and_look_random(n_queries):
    splits = list(QueryTrials().split_queries(n_queries))
    trains = [frozenset(split.train.tolist()) for split in splits]
    assert len(set(trains)) == 50
    shared = np.array([len(one & other) for one, other in combinations(trains, 2)])
    by_chance = shared.mean() / 10  # that a training query of one trial is one of another
    variance = 10 * by_chance * (1 - by_chance)
    assert shared.var() == pytest.approx(variance, rel=0.3)
    neighbours = np.array([len(one & other) for one, other in pairwise(trains)])
    assert neighbours.mean() == pytest.approx(shared.mean(), abs=4 * np.sqrt(variance / 49))


def test_trials_of_many_queries_are_fast():
    start = time.process_time()
    assert len(list(QueryTrials(50, train=200, valid=100, test=700).split_queries(1000))) == 50
    assert time.process_time() - start < 1


def test_apply_gives_the_data_of_each_role():
    data = make_data([f"q{number % 6}" for number in range(20)])
    train, valid, test = QuerySplit(np.array([0, 3]), np.array([1]), np.array([5])).apply(data)
    assert [part.query_ids.tolist() for part in (train, valid, test)] == [["q0", "q3"], ["q1"], ["q5"]]
    assert QuerySplit(np.array([0]), np.array([], int), np.array([1])).apply(data)[1] is None
    for split in QueryTrials(3, train=2, valid=1, test=2).split_queries(data):
        assert [part.n_queries for part in split.apply(data)] == [2, 1, 2]


@pytest.mark.parametrize("n_partitions", [3, 4, 5, 7])
def test_letor_folds(n_partitions):
    parts = [make_data([f"{number}a", f"{number}b"]) for number in range(n_partitions)]
    folds = list(letor_folds(parts))
    assert len(folds) == n_partitions
    for k, (train, valid, test) in enumerate(folds):
        wanted = [f"{(k + step) % n_partitions}{query}" for step in range(n_partitions - 2) for query in "ab"]
        assert train.query_ids.tolist() == wanted
        assert valid is parts[(k + n_partitions - 2) % n_partitions]
        assert test is parts[(k + n_partitions - 1) % n_partitions]


ERRORS = [
    (lambda: list(QueryKFold(5).split_queries(4)), "5 folds need at least 5 queries; there are 4"),
    (lambda: list(QueryKFold(3).split(qid=[1, 1, 2])), "3 folds need at least 3 queries; there are 2"),
    (lambda: QueryKFold(1), "n_splits is 1; expected at least 2"),
    (lambda: QueryKFold(3, valid_folds=2), "valid_folds is 2; expected 0 to n_splits − 2 = 1"),
    (lambda: QueryShuffleSplit(0), "n_splits is 0; expected at least 1"),
    (
        lambda: QueryShuffleSplit(test_size=1.0),
        "test_size is 1.0; expected a share between 0 and 1, or a number of queries",
    ),
    (
        lambda: QueryShuffleSplit(test_size=0),
        "test_size is 0; expected a share between 0 and 1, or a number of queries",
    ),
    (
        lambda: list(QueryShuffleSplit(test_size=3).split_queries(3)),
        "3 of 3 queries for testing leave none to train on",
    ),
    (
        lambda: list(QueryShuffleSplit().split_queries(1)),
        "1 of 1 queries for testing leave none to train on",
    ),
    (lambda: list(QueryTrials().split_queries(49)), "a trial needs 50 queries (10 + 5 + 35); there are 49"),
    (lambda: QueryTrials(0), "n_trials is 0; expected at least 1"),
    (lambda: QueryTrials(train=0), "train is 0; expected at least 1"),
    (lambda: QueryTrials(valid=-1), "valid is -1; expected at least 0"),
    (
        lambda: list(QueryKFold().split(np.zeros((9, 1)))),
        "give the query id of every row, as either qid or groups, or as a column qid of a data frame",
    ),
    (lambda: list(QueryKFold().split(groups=[1], qid=[1])), "give the query id of every row, as either qid or groups"),
    (lambda: list(QueryKFold(2).split(np.zeros((3, 1)), qid=[1, 2])), "3 rows but 2 query ids"),
    (
        lambda: list(QueryKFold(2).split(make_data([1, 2]), qid=[1, 2])),
        "a RankingData has its queries; leave out qid and groups",
    ),
    (
        lambda: list(letor_folds([make_data([1])] * 2)),
        "folds need at least 3 parts (train, validation, test); got 2",
    ),
    (
        lambda: list(letor_folds([make_data([1]), make_data([2]), make_data([1])])),
        "query 1 is in parts 1 and 3; expected disjoint parts",
    ),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_bad_input_gets_one_clear_line(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message


class Toy(BaseEstimator):
    """Records the queries it was fitted on."""

    def __init__(self, strength=1.0):
        self.strength = strength

    def fit(self, X, y, qid=None):
        assert qid is not None
        assert len(qid) == len(X)
        assert set(X[:, 0]) == set(qid)  # the rows are those of the ids
        self.queries_ = set(qid)
        return self

    def predict(self, X):
        return self.strength * X[:, 0]

    def score(self, X, y):
        assert not self.queries_ & set(X[:, 0])
        return self.strength


@pytest.fixture
def table():
    qid = np.random.default_rng(0).integers(0, 12, 60)
    return qid[:, None].astype(float), qid % 2, qid


@each_splitter
def test_scikit_learn_with_metadata_routing(splitter, table):
    X, y, qid = table
    with sklearn.config_context(enable_metadata_routing=True):
        toy = Toy().set_fit_request(qid=True)
        search = GridSearchCV(toy, {"strength": [1.0, 3.0, 2.0]}, cv=splitter).fit(X, y, qid=qid)
        result = cross_validate(toy, X, y, cv=splitter, params={"qid": qid}, error_score="raise")
        assert "".join(repr(splitter).split()) in "".join(repr(search).split())  # which breaks lines
        clone(search).fit(X, y, qid=qid)
    assert search.best_params_ == {"strength": 3.0}
    assert search.n_splits_ == len(result["test_score"]) == splitter.get_n_splits(X, y, qid)


@each_splitter
def test_scikit_learn_without_metadata_routing(splitter, table):
    X, y, qid = table
    result = cross_validate(Toy(), X, y, groups=qid, cv=splitter, params={"qid": qid}, error_score="raise")
    assert len(result["test_score"]) == splitter.get_n_splits()
    assert check_cv(splitter) is splitter
    assert clone(splitter, safe=False) == splitter


def test_scikit_learn_is_imported_by_its_own_protocol_only():
    code = (
        "import sys; from rankwright import QueryKFold; list(QueryKFold(2).split(qid=[1, 2]));"
        "assert 'sklearn' not in sys.modules; QueryKFold().get_metadata_routing(); assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reprs_read_like_calls():
    assert repr(QueryKFold(3)) == "QueryKFold(n_splits=3, shuffle=True, valid_folds=0, random_state=0)"
    assert repr(QueryTrials()) == "QueryTrials(n_trials=50, train=10, valid=5, test=35, random_state=0)"
