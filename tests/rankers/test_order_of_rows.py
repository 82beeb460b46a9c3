"""The order of documents and of queries changes no bit of a max-margin model."""

import numpy as np
import pytest
from scipy import sparse

from rankwright import RankingSVM, StructuredSVM

LOSSES = {
    "rank-svm": RankingSVM(),
    "rank-svm, descent": RankingSVM(solver="gd"),
    "rsvm-ir": RankingSVM(rank_weights="ndcg@2", query_weights=True),
    "map": StructuredSVM("map"),
    "auc": StructuredSVM("auc"),
    "ndcg": StructuredSVM("ndcg"),
    "ndcg@3": StructuredSVM("ndcg@3"),
    "mrr": StructuredSVM("mrr"),
    "mrr@3, pairs": StructuredSVM("mrr@3", feature_map="po"),
    "dorm@3": StructuredSVM("dorm@3"),
    "dorm": StructuredSVM("dorm", feature_map="dorm:sqrt"),
    "one slack": StructuredSVM("map", solver="one-slack-cutting-plane"),
    "n slacks": StructuredSVM("map", solver="n-slack-cutting-plane"),
    "raw features": StructuredSVM("mrr", standardize=False),
    "several": StructuredSVM(["map", "dorm@3", "mrr"]),
    "several, shared slack": StructuredSVM(["map", "dorm@3", "mrr"], slack="shared"),
    "several, learnt weights": StructuredSVM(["map", "mrr"], loss_weights="auto"),
}


def with_ties(seed, n_queries, n_features=4):
    """Coarse features, so that scores, documents and whole queries repeat."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.integers(0, 3, (len(qid), n_features)) / 3.0
    y = np.clip(X[:, 0] * 3 + rng.integers(-1, 2, len(qid)), 0, 2)
    y[np.cumsum(sizes) - 1], y[np.cumsum(sizes) - 2] = 0, 2
    return X, y, qid


def shuffled(X, y, qid, seed):
    rows = np.random.default_rng(seed).permutation(len(y))
    return X[rows], y[rows], qid[rows]


@pytest.mark.filterwarnings("ignore::rankwright.errors.InputWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("ranker", LOSSES.values(), ids=LOSSES)
def test_rows_and_queries_may_be_shuffled(ranker, form):
    X, y, qid = with_ties(0, 150)  # more queries than blocks
    for settings in ({"C": 0.3}, {"C": "auto", "C_grid": [0.01, 1.0], "eval_set": with_ties(1, 40)}):
        valid = {"eval_set": settings.pop("eval_set")} if "eval_set" in settings else {}
        ranker.set_params(max_passes=15, **settings)
        first = ranker.fit(form(X), y, qid, **valid).coef_
        for seed in (1, 2):
            moved = shuffled(X, y, qid, seed)
            again = ranker.fit(form(moved[0]), *moved[1:], **valid).coef_
            assert again.tobytes() == first.tobytes()


@pytest.mark.parametrize("n_features", [40, 260], ids=["curvature", "inner products"])
@pytest.mark.parametrize("ranker", [RankingSVM(0.3), StructuredSVM("map", 3.0)], ids=["rank-svm", "map"])
def test_neither_threads_nor_order_change_a_bit_with_more_features(monkeypatch, ranker, n_features):
    monkeypatch.setattr("rankwright.maxmargin.hinge._TASK_DOCS", 50)
    monkeypatch.setattr("rankwright.maxmargin.order._RUN", 50)
    X, y, qid = with_ties(4, 60, n_features)
    first = ranker.set_params(n_jobs=1).fit(X, y, qid).coef_
    assert ranker.set_params(n_jobs=3).fit(X, y, qid).coef_.tobytes() == first.tobytes()
    assert ranker.fit(*shuffled(X, y, qid, 1)).coef_.tobytes() == first.tobytes()


def test_weights_of_queries_go_with_them():
    X, y, qid = with_ties(2, 130)
    size = int((qid < 65).sum())
    X, y, qid = np.tile(X[:size], (2, 1)), np.tile(y[:size], 2), np.concatenate([qid[:size], qid[:size] + 65])
    weights = np.random.default_rng(0).integers(1, 4, 130)[qid]  # queries of equal content, their weights unequal
    rows = np.random.default_rng(1).permutation(len(y))
    first = StructuredSVM("map").fit(X, y, qid, sample_weight=weights).coef_
    again = StructuredSVM("map").fit(X[rows], y[rows], qid[rows], sample_weight=weights[rows]).coef_
    assert again.tobytes() == first.tobytes()


@pytest.mark.filterwarnings("ignore:the model learnt n")
def test_a_constant_feature_moves_no_query():
    X, y, qid = with_ties(3, 150)
    wider = np.column_stack([X, np.full(len(y), 7.0)])
    first, again = StructuredSVM("mrr").fit(X, y, qid), StructuredSVM("mrr").fit(wider, y, qid)
    np.testing.assert_allclose(again.coef_, [*first.coef_, 0.0], rtol=1e-9)
