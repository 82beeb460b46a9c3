"""Weights have one meaning in every ranker: they are relative, and what weighs 0 is absent, to the last bit."""

import numpy as np
import pytest
from contract import bits, make
from scipy import sparse
from sklearn.base import clone

from rankwright import InputError, RankingData
from rankwright.boosting.tree_rankers import McRank
from rankwright.maxmargin.accuracy import AccuracySVM
from rankwright.maxmargin.ranking_svm import RankingSVM
from rankwright.maxmargin.structured_svm import StructuredSVM
from rankwright.nets.lambda_rank import LambdaRank


@pytest.fixture
def ranker(ranker):
    """Every ranker; bits differ, if they do, after a few rounds."""
    few = {"n_trees": 6, "n_rounds": 10, "epochs": 4}
    return ranker.set_params(**{name: value for name, value in few.items() if hasattr(ranker, name)})


def graded(n_queries=10, **settings):
    """Labels 0, 1, 2 with rows of all queries mixed; the last query has a grade, and the largest values, of its own."""
    X, y, qid = make(n_queries, noise=1.0, **settings)
    y = y + (X[:, 0] > 2)
    last = qid == n_queries - 1
    return X * np.where(last, 30.0, 1.0)[:, None], np.where(last & (y > 0), 4, y), qid


def same(one, other, X):
    group = [len(X)]  # as one query: some rankers scale features within each
    assert bits(one.predict(X, group=group)) == bits(other.predict(X, group=group))
    ours, theirs = (fitted.training_ for fitted in (one, other))
    for fact in ("n_queries", "n_queries_skipped", "n_docs", "tried", "certificate"):
        assert getattr(ours, fact) == getattr(theirs, fact)


def test_equal_weights_are_none(ranker):
    X, y, qid = graded()
    plain = clone(ranker).fit(X, y, qid)
    ids = np.unique(qid)
    for weights in (
        {"sample_weight": np.full(len(y), 2.0)},
        {"sample_weight": np.full(len(y), 0.1), "query_weight": np.full(len(y), 1e-300)},
        {"query_weight": dict.fromkeys(ids.tolist(), 3e300)},
    ):
        same(clone(ranker).fit(X, y, qid, **weights), plain, X)
    data = RankingData.from_arrays(X, y, qid)
    ranker.fit_data(data, weights=np.full(len(ids), 1 / 3))
    same(ranker, plain, X)


def test_only_ratios_count(ranker):
    X, y, qid = graded()
    weights = np.random.default_rng(1).choice([0.25, 1.0, 3.0], len(y))
    one, other = (clone(ranker).fit(X, y, qid, sample_weight=weights * factor) for factor in (1.0, 1 / 64))
    same(one, other, X)


def test_queries_of_weight_0_are_absent(ranker):
    X, y, qid = graded()
    kept = ~np.isin(qid, [0, 4, 9])
    plain = clone(ranker).fit(X[kept], y[kept], qid[kept])
    for weights in (
        {"sample_weight": kept.astype(float)},
        {"query_weight": kept * 5.0},
        {"query_weight": {q: float(q not in (0, 4, 9)) for q in range(10)}},
        {"sample_weight": (qid != 4) + 0.0, "query_weight": np.where(np.isin(qid, [0, 9]), 0.0, 2.0)},
    ):
        same(clone(ranker).fit(X, y, qid, **weights), plain, X)
    data = RankingData.from_arrays(X, y, qid)
    ranker.fit_data(data, weights=~np.isin(data.query_ids, [0, 4, 9]))
    same(ranker, plain, X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_rows_of_weight_0_are_absent(ranker, form):
    X, y, qid = graded()
    kept = (np.random.default_rng(3).random(len(y)) < 0.7) & (qid != 5)
    assert list(dict.fromkeys(qid[kept])) != [q for q in dict.fromkeys(qid) if q != 5]  # another query comes first
    plain = clone(ranker).fit(form(X[kept]), y[kept], qid[kept])
    same(clone(ranker).fit(form(X), y, qid, sample_weight=kept * 0.3), plain, X)


SETTINGS = [
    RankingSVM(rank_weights="ndcg@3", query_weights=True),
    RankingSVM(rank_weights="ndcg@3", query_weights={q: 1.0 + q for q in range(10)}),
    RankingSVM(solver="gd", tol=0.01),
    StructuredSVM(["map", "dorm@5"], slack="shared"),
    AccuracySVM(balance=True, query_scaling="percentile"),
    LambdaRank(hidden=0, epochs=5, batch=3),
    McRank(n_trees=5, min_rows=2, link="ordinal"),
]


@pytest.mark.parametrize("ranker", SETTINGS, ids=repr)
def test_what_settings_add(ranker):
    X, y, qid = graded()
    kept = ~np.isin(qid, [0, 4, 9])
    plain = clone(ranker).fit(X[kept], y[kept], qid[kept])
    same(clone(ranker).fit(X, y, qid, sample_weight=kept * 7.0), plain, X)


def test_no_documents():
    nothing = RankingData.from_arrays(np.zeros((0, 5)), [], [])
    for use in (RankingSVM().fit, RankingSVM().fit_data, RankingSVM().fit(*graded()).score):
        with pytest.raises(InputError, match="the data has no documents"):
            use(nothing)


def test_query_weights_of_0_are_absent():
    X, y, qid = graded()
    kept = qid != 9
    mu = {q: 1.0 + q for q in range(9)}
    plain = RankingSVM(rank_weights="ndcg@3", query_weights=mu).fit(X[kept], y[kept], qid[kept])
    same(RankingSVM(rank_weights="ndcg@3", query_weights=mu | {9: 0.0}).fit(X, y, qid), plain, X)


def test_scores_weigh_as_training_does(ranker):
    X, y, qid = graded()
    ranker.fit(X, y, qid)
    new = graded(seed=1)
    value = ranker.score(*new, measure="AP")
    assert ranker.score(*new, measure="AP", sample_weight=np.full(len(y), 0.1)) == value
    kept = np.random.default_rng(2).random(len(y)) < 0.6
    left = ranker.score(new[0][kept], new[1][kept], new[2][kept], measure="AP")
    assert ranker.score(*new, measure="AP", sample_weight=kept * 2.0) == left
    weights = 1.0 + new[2] % 3
    by_query = [ranker.score(*(part[new[2] == q] for part in new), measure="AP") for q in range(10)]
    mean = np.average(by_query, weights=[1 + q % 3 for q in range(10)])
    assert ranker.score(*new, measure="AP", sample_weight=weights) == pytest.approx(mean, rel=1e-12)
    with pytest.raises(InputError, match="all weights are zero"):
        ranker.score(*new, sample_weight=np.zeros(len(y)))


def test_a_weight_counts_for_as_much_as_it_says():
    """Max-margin objective: ½‖w‖² + (C/Σμ) Σ μ_q H_q, with Σ over the queries that have an order to learn."""
    X, y, qid = graded()
    y = np.where(qid == 2, 1, y)  # no order: its weight, however large, says nothing of the others
    weights = {q: 1.0 + q % 3 for q in range(10)} | {2: 1000.0}
    ranker = RankingSVM(C=2.0, standardize=False, tol=1e-5).fit(X, y, qid, query_weight=weights)
    scores, hinge = X @ ranker.coef_, 0.0
    for q in sorted(set(range(10)) - {2}):
        s, z = scores[qid == q], y[qid == q]
        hinge += weights[q] * np.maximum(0.0, 1.0 - np.subtract.outer(s, s))[np.greater.outer(z, z)].sum()
    total = sum(weights.values()) - 1000.0
    assert ranker.objective_ == pytest.approx(0.5 * ranker.coef_ @ ranker.coef_ + 2.0 / total * hinge, rel=1e-9)


def test_a_list_has_a_weight_per_query_in_the_order_of_their_first_rows():
    rows, labels, ids = graded()
    first = list(dict.fromkeys(ids.tolist()))
    by_query = {query: 1.0 + query % 3 for query in first}
    ranker = RankingSVM(C=2.0)
    expected = ranker.fit(rows, labels, ids, query_weight=by_query).coef_
    assert (
        ranker.fit(rows, labels, ids, query_weight=[by_query[query] for query in first]).coef_.tolist()
        == expected.tolist()
    )
    weighted = ranker.score(rows, labels, ids, query_weight=by_query)
    assert weighted == ranker.score(rows, labels, ids, sample_weight=[by_query[query] for query in ids.tolist()])
    assert weighted != ranker.score(rows, labels, ids)
    with pytest.raises(InputError, match="expected one weight per row or query"):
        ranker.fit(rows, labels, ids, query_weight=[1.0, 2.0])
    with pytest.raises(InputError, match=r"query_weight has no entry for query .*; it has 1, such as 'x'"):
        ranker.fit(rows, labels, ids, query_weight={"x": 1.0})
