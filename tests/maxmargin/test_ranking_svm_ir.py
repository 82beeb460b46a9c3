"""Ranking SVM for IR: the weights of pairs and queries against their definitions, the problem against listed pairs."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest
from listed_pairs import MEASURES, drops, listed_pairs, ndcg, objective
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from rankwright import InputError, InputWarning, RankingData
from rankwright.maxmargin.losses import query_pair_weights, rank_pair_weights
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.models.saving import load_model

WEIGHTS = [
    {},
    {"rank_weights": "ndcg@1"},
    {"rank_weights": "ndcg@5"},
    {"query_weights": True},
    {"rank_weights": "ndcg@3", "query_weights": True},
    {"rank_weights": {(1, 0): 1.0, (2, 0): 3.0, (2, 1): 0.25}, "query_weights": True},
]
QUERIES = [f"q{q}" for q in range(6)]
all_weights = pytest.mark.parametrize("weights", WEIGHTS, ids=str)


def random_queries(seed, n_queries=6, n_features=3, sizes=(3, 9), grades=3):
    """Queries of very different sizes, the first of which has every grade."""
    rng = np.random.default_rng(seed)
    qid = np.repeat([f"q{q}" for q in range(n_queries)], rng.integers(sizes[0], sizes[1] + 1, n_queries))
    y = rng.integers(0, grades, len(qid))
    y[:grades] = np.arange(grades)
    X = rng.normal(size=(len(qid), n_features))
    X[:, 0] += y / 2
    return X, y, qid


def data_of(*labels):
    """One query for each list of labels."""
    qid = np.repeat(np.arange(len(labels)), [len(row) for row in labels])
    y = np.concatenate(labels)
    return RankingData.from_arrays(np.zeros((len(y), 1)), y, qid)


@pytest.mark.parametrize("measure", MEASURES)
def test_tau_is_the_mean_drop_over_all_swaps(measure):
    rng = np.random.default_rng(0)
    for _ in range(30):
        queries = [rng.choice([0, 1, 2, 4], rng.integers(1, 9)).tolist() for _ in range(rng.integers(1, 6))]
        queries.append([4, 0, 1])
        found = rank_pair_weights(data_of(*queries), measure)
        values = sorted(set(itertools.chain(*queries)))
        assert set(found) == {(float(a), float(b)) for a in values for b in values if a > b}
        for (a, b), tau in found.items():
            means = [np.mean(drops(q, a, b, *MEASURES[measure])) for q in queries if a in q and b in q]
            assert tau == pytest.approx(np.mean(means) if means else 0.0, abs=1e-12)
        for (a, b), tau in rank_pair_weights(data_of(*queries), measure, over="all").items():
            total = sum(np.mean(drops(q, a, b, *MEASURES[measure])) for q in queries if a in q and b in q)
            assert tau == pytest.approx(total / len(queries), abs=1e-12)


def test_tau_is_what_the_papers_simulation_finds():
    rng = np.random.default_rng(1)
    queries = [[2, 1, 1, 0, 0, 0], [1, 0, 0], [2, 2, 1, 0], [2, 0, 0, 0, 0]]
    found = rank_pair_weights(data_of(*queries), "ndcg@3")
    for (a, b), tau in found.items():
        means = []
        for query in queries:
            if a not in query or b not in query:
                continue
            seen = []
            for _ in range(1500):
                documents = rng.permutation(len(query))
                perfect = documents[np.argsort(-np.array(query)[documents], kind="stable")]  # ties in random order
                labels = np.array(query)[perfect]
                i, j = rng.choice(np.flatnonzero(labels == a)), rng.choice(np.flatnonzero(labels == b))
                swapped = labels.copy()
                swapped[[i, j]] = labels[[j, i]]
                seen.append(1 - ndcg(swapped.tolist(), 3, True))
            means.append(np.mean(seen))
        assert tau == pytest.approx(np.mean(means), abs=0.02)
        assert tau > 0.1


def test_tau_of_a_simple_query_by_hand():
    found = rank_pair_weights(data_of([2, 1, 0]))  # nDCG@1, gains 3, 1, 0
    assert found == pytest.approx({(2.0, 1.0): 2 / 3, (2.0, 0.0): 1.0, (1.0, 0.0): 0.0})
    assert rank_pair_weights(data_of([1, 0, 0], [1, 1, 0]))[1.0, 0.0] == pytest.approx((1.0 + 0.5) / 2)
    some = data_of([1, 0, 0], [1, 1, 0], [0, 0], [1])  # two queries where nothing can swap
    assert rank_pair_weights(some)[1.0, 0.0] == pytest.approx((1.0 + 0.5) / 2)
    assert rank_pair_weights(some, over="all")[1.0, 0.0] == pytest.approx((1.0 + 0.5) / 4)
    with pytest.raises(InputError, match="over is 'some'; expected both or all"):
        rank_pair_weights(some, over="some")


def test_mu_is_the_most_pairs_over_the_pairs_of_a_query():
    rng = np.random.default_rng(2)
    for _ in range(50):
        queries = [rng.integers(0, 4, rng.integers(1, 12)).tolist() for _ in range(rng.integers(1, 7))]
        counts = np.array([sum(a > b for a, b in itertools.permutations(query, 2)) for query in queries])
        expected = [counts.max() / count if count else 1.0 for count in counts]
        assert query_pair_weights(data_of(*queries)).tolist() == pytest.approx(expected, rel=1e-12)


@all_weights
@pytest.mark.parametrize("solver", ["bundle", "one-slack-cutting-plane"])
def test_the_objective_is_the_sum_over_listed_pairs_and_no_other_solver_finds_less(weights, solver):
    for seed, C in enumerate([0.1, 1.0, 10.0]):
        X, y, qid = random_queries(seed)
        rows, values, n_queries = listed_pairs(X, y, qid, weights)
        costs = C / n_queries * values
        ranker = RankingSVM(C, **weights, solver=solver, standardize=False, tol=1e-6).fit(X, y, qid)
        assert ranker.n_queries_ == n_queries
        assert ranker.gap_ <= 1e-6
        assert ranker.objective_ == pytest.approx(objective(ranker.coef_, rows, costs), rel=1e-9)
        signs = np.where(np.arange(len(rows)) % 2, -1, 1)
        kept = costs > 0  # a pair of no weight is none
        peer = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
        peer.fit((rows * signs[:, None])[kept], signs[kept], sample_weight=costs[kept])
        assert ranker.objective_ == pytest.approx(objective(peer.coef_[0], rows, costs), rel=1e-5)
        np.testing.assert_allclose(ranker.coef_, peer.coef_[0], rtol=1e-2, atol=1e-2)


@all_weights
def test_lambda_is_the_papers(weights):
    X, y, qid = random_queries(3)
    for lam in (0.05, 2.0):
        by_lam = RankingSVM(lam=lam, **weights, standardize=False, tol=1e-6).fit(X, y, qid)
        assert by_lam.n_queries_ / (2 * lam) == by_lam.C_
        by_C = RankingSVM(C=by_lam.n_queries_ / (2 * lam), **weights, standardize=False, tol=1e-6).fit(X, y, qid)
        assert by_lam.coef_.tobytes() == by_C.coef_.tobytes()
        rows, values, _ = listed_pairs(X, y, qid, weights)
        w = by_lam.coef_
        papers = lam * w @ w + values @ np.maximum(0.0, 1 - rows @ w)
        assert papers == pytest.approx(2 * lam * by_lam.objective_, rel=1e-9)


def test_lambda_counts_pairs_only():
    X, y, qid = random_queries(3)
    ranker = RankingSVM(lam=0.5, standardize=False).fit(X, y, qid)
    more = np.concatenate([X, np.ones((4, 3))]), np.concatenate([y, [1] * 4]), np.concatenate([qid, ["empty"] * 4])
    longer = RankingSVM(lam=0.5, standardize=False).fit(*more)
    assert longer.coef_.tobytes() == ranker.coef_.tobytes()
    assert (longer.n_queries_, longer.n_queries_skipped_) == (ranker.n_queries_, ranker.n_queries_skipped_ + 1)


def test_a_mapping_says_what_a_measure_finds():
    X, y, qid = random_queries(4)
    found = RankingSVM(rank_weights="ndcg@3").fit(X, y, qid)
    assert set(found.rank_weights_) == {(1.0, 0.0), (2.0, 0.0), (2.0, 1.0)}
    given = RankingSVM(rank_weights=found.rank_weights_).fit(X, y, qid)
    assert given.coef_.tobytes() == found.coef_.tobytes()
    assert given.rank_weights_ == found.rank_weights_
    whole = {(int(a), int(b)): weight for (a, b), weight in found.rank_weights_.items()}
    assert RankingSVM(rank_weights={**whole, (7, 3): 1}).fit(X, y, qid).coef_.tobytes() == found.coef_.tobytes()
    assert RankingSVM().fit(X, y, qid).rank_weights_ == dict.fromkeys(found.rank_weights_, 1.0)


def test_equal_weights_are_a_factor_of_C():
    X, y, qid = random_queries(4)
    plain = RankingSVM(6.0).fit(X, y, qid).coef_
    pairs = {(1, 0): 2.0, (2, 0): 2.0, (2, 1): 2.0}
    np.testing.assert_allclose(RankingSVM(3.0, rank_weights=pairs).fit(X, y, qid).coef_, plain, rtol=1e-6, atol=1e-9)
    queries = dict.fromkeys(qid.tolist(), 2.0)
    np.testing.assert_allclose(RankingSVM(3.0, query_weights=queries).fit(X, y, qid).coef_, plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_skipped", [0, 1, 5])
def test_C_and_the_c_of_svm_rank(n_skipped):
    """svm_rank_learn -c c -l 1 minimises ½‖w‖² + c/n Σ_q Σ_pairs [1 − w·(x_i − x_j)]₊ over all n queries."""
    X, y, qid = random_queries(8, n_queries=4)
    more = random_queries(9, n_queries=max(n_skipped, 1))
    if n_skipped:  # queries of one label
        X, y = np.concatenate([X, more[0]]), np.concatenate([y, np.ones_like(more[1])])
        qid = np.concatenate([qid, [f"skipped {q}" for q in more[2]]])
    ranker = RankingSVM(C := 0.7, standardize=False, tol=1e-6).fit(X, y, qid)
    n_all, n_orderable = len(set(qid)), ranker.n_queries_
    assert (n_orderable, ranker.n_queries_skipped_) == (4, n_skipped)
    places = itertools.permutations(range(len(y)), 2)
    pairs = np.array([X[i] - X[j] for i, j in places if qid[i] == qid[j] and y[i] > y[j]])

    def svm_rank(w, c):
        return 0.5 * w @ w + c / n_all * np.maximum(0.0, 1.0 - pairs @ w).sum()

    c = C * n_all / n_orderable
    assert ranker.objective_ == pytest.approx(svm_rank(ranker.coef_, c), rel=1e-9)
    steps = 0.05 * np.random.default_rng(0).normal(size=(50, X.shape[1]))
    assert min(svm_rank(ranker.coef_ + step, c) for step in steps) >= ranker.objective_ * (1 - 1e-6)
    if n_skipped:  # -c with the same number is another problem, with a better solution
        other = RankingSVM(C * n_orderable / n_all, standardize=False, tol=1e-6).fit(X, y, qid)
        assert svm_rank(other.coef_, C) < svm_rank(ranker.coef_, C) * (1 - 1e-4)


def test_query_weights_by_id_multiply_those_of_fit():
    X, y, qid = random_queries(5)
    weights = {q: 1.0 + number for number, q in enumerate(dict.fromkeys(qid.tolist()))}
    by_setting = RankingSVM(query_weights=weights).fit(X, y, qid)
    # μ is a factor of C, weights given to fit are relative: their mean is 1.
    by_fit = RankingSVM(3.5).fit(X, y, qid, query_weight=weights)
    np.testing.assert_allclose(by_setting.coef_, by_fit.coef_, rtol=1e-6, atol=1e-9)
    both = RankingSVM(3.5, query_weights=weights).fit(X, y, qid, query_weight=weights)
    squares = RankingSVM(query_weights={q: weight**2 for q, weight in weights.items()}).fit(X, y, qid)
    np.testing.assert_allclose(both.coef_, squares.coef_, rtol=1e-6, atol=1e-9)
    pairs = [sum(a > b for a, b in itertools.permutations(y[qid == q], 2)) for q in weights]
    mu = {q: max(pairs) / max(count, 1) for q, count in zip(weights, pairs, strict=True)}
    automatic = RankingSVM(query_weights=True).fit(X, y, qid)
    np.testing.assert_allclose(automatic.coef_, RankingSVM(query_weights=mu).fit(X, y, qid).coef_, rtol=1e-6, atol=1e-9)


def test_query_weights_find_their_query_where_rows_are_left_out():
    X, y, qid = random_queries(5)
    order = np.argsort(qid, kind="stable")[::-1]
    X, y, qid = X[order], y[order], np.array([int(q[1:]) for q in qid[order]])  # ids that are no positions
    weights = {q: 1.0 + q for q in range(6)}
    rows = np.ones(len(y))
    rows[[0, 7, -1]] = 0.0
    kept = rows > 0
    for setting in (weights, True):
        left_out = RankingSVM(query_weights=setting, standardize=False).fit(X, y, qid, sample_weight=rows)
        alone = RankingSVM(query_weights=setting, standardize=False).fit(X[kept], y[kept], qid[kept])
        np.testing.assert_allclose(left_out.coef_, alone.coef_, rtol=1e-6, atol=1e-9)


def test_a_long_query_takes_little_memory():
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    n = 20_000
    y = rng.integers(0, 5, n)  # 160 million pairs
    X = rng.normal(size=(n, 3)) + y[:, None]
    data = RankingData.from_arrays(X, y, np.zeros(n))
    for solver in ("bundle", "gd"):
        ranker = RankingSVM(rank_weights="ndcg@10", query_weights=True, solver=solver, max_passes=2)
        with pytest.warns(ConvergenceWarning):  # what is compiled and imported is no part of it
            clone(ranker).fit(X[:50], y[:50], group=[50])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tracemalloc.start()
        with pytest.warns(ConvergenceWarning):
            ranker.fit(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert ranker.n_passes_ == 2
        assert peak < 40 * n * 8
        # What compiled code takes is not traced; the unit is a kilobyte or, on macOS, a byte.
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown * (1 if sys.platform == "darwin" else 1024) < 200 * n * 8
    means = [np.mean(X[y == grade] @ ranker.coef_) for grade in range(5)]
    assert means == sorted(means)


SAVED = [
    ({}, "rank-svm"),
    ({"lam": 2.0}, "rank-svm"),
    ({"rank_weights": "ndcg@1"}, "rsvm-ir"),
    ({"query_weights": True}, "rsvm-ir"),
    ({"query_weights": dict.fromkeys(QUERIES, 1.0)}, "rsvm-ir"),
]


@pytest.mark.parametrize(("settings", "method"), SAVED)
def test_what_is_saved(settings, method, tmp_path):
    X, y, qid = random_queries(6)
    ranker = RankingSVM(**settings).fit(X, y, qid)
    ranker.save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    assert saved.method == method
    assert saved.training["C"] == ranker.C_
    for name in ("rank_weights", "query_weights", "lam"):
        if not isinstance(settings.get(name), dict):
            assert saved.parameters[name] == ranker.get_params()[name]


@pytest.mark.filterwarnings("ignore:gradient descent stopped after")
def test_settings_survive_clone_and_set_params():
    X, y, qid = random_queries(7)
    settings = {
        "rank_weights": {(1, 0): 1.0, (2, 0): 2.0, (2, 1): 0.5},
        "query_weights": True,
        "lam": 0.1,
        "solver": "gd",
        "learning_rate": 0.001,
    }
    ranker = RankingSVM(**settings)
    assert {name: ranker.get_params()[name] for name in settings} == settings
    expected = ranker.fit(X, y, qid).coef_.tobytes()
    assert clone(ranker).fit(X, y, qid).coef_.tobytes() == expected
    assert RankingSVM().set_params(**settings).fit(X, y, qid).coef_.tobytes() == expected
    assert not np.allclose(RankingSVM(lam=0.1).fit(X, y, qid).coef_, ranker.coef_)


@pytest.mark.parametrize("off", [False, np.False_])
def test_no_query_weights(off):
    X, y, qid = random_queries(8)
    assert RankingSVM(query_weights=off).fit(X, y, qid).coef_.tobytes() == RankingSVM().fit(X, y, qid).coef_.tobytes()


def test_nothing_to_order():
    X, y, qid = random_queries(9)
    with pytest.warns(InputWarning, match="nothing to order"):
        ranker = RankingSVM(rank_weights="ndcg@1", query_weights=True, lam=1.0).fit(X, np.ones(len(y)), qid)
    assert not ranker.coef_.any()


WRONG = {
    "a missing pair": ({"rank_weights": {(1, 0): 1.0, (2, 0): 1.0}}, "rank_weights has no entry for the labels (2, 1)"),
    "a negative pair": ({"rank_weights": {(1, 0): 1.0, (2, 0): -1.0, (2, 1): 1.0}},
                        "rank_weights of (2, 0) is -1; expected at least 0"),
    "nan for a pair": ({"rank_weights": {(1, 0): 1.0, (2, 0): np.nan, (2, 1): 1.0}}, "rank_weights of (2, 0) is nan"),
    "no pairs": ({"rank_weights": {0: 1.0, 1: 2.0}}, "rank_weights is not a mapping {(higher, lower): weight}"),
    "text for a pair": ({"rank_weights": {(1, 0): "much"}}, "rank_weights is not a mapping {(higher, lower): weight}"),
    "another measure": ({"rank_weights": "map"}, "rank_weights is 'AP'; expected a sum over positions"),
    "no measure": ({"rank_weights": "nonsense"}, "unknown measure 'nonsense'"),
    "a missing query": ({"query_weights": {"q0": 1.0}}, "query_weights has no entry for query 'q1'"),
    "a negative query": ({"query_weights": {f"q{q}": q - 1 for q in range(6)}},
                         "query_weights must be finite and at least 0"),
    "text for a query": ({"query_weights": dict.fromkeys(QUERIES, "much")}, "query_weights contains a non-numeric"),
    "no weight at all": ({"query_weights": dict.fromkeys(QUERIES, 0)}, "all query_weights are 0"),
    "lam and C='auto'": ({"lam": 1.0, "C": "auto"}, "C='auto' chooses C; leave out lam"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_settings_give_one_line(what):
    settings, message = WRONG[what]
    ranker = RankingSVM(**settings)
    with pytest.raises(InputError) as caught:
        ranker.fit(*random_queries(10), eval_set=random_queries(11))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not hasattr(ranker, "coef_")
