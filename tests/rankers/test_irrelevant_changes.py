"""What must not change a model of the lambda family: the order of documents and queries, and a constant column."""

import numpy as np
import pytest
from scipy import sparse

from rankwright.boosting.lambda_boost import LambdaBoost
from rankwright.boosting.lambdas import Lambdas
from rankwright.boosting.tree_rankers import LambdaMART, McRank
from rankwright.nets.lambda_rank import LambdaRank, RankNet
from rankwright.nets.training import NetTrainer

TREES = {"n_trees": 8, "max_leaves": 6, "min_rows": 3}
DRAWN = {"tree_rows": 0.6, "tree_features": 0.7, "randomize_nodes": 0.8}
RANKERS = {
    "ranknet": RankNet(hidden=3, epochs=3),
    "ranknet-linear": RankNet(hidden=0, epochs=5),
    "lambdarank": LambdaRank(hidden=3, epochs=3),
    "lambdarank-linear": LambdaRank("map", hidden=0, epochs=5, batch=4),
    "lambdaboost": LambdaBoost(20),
    "lambdamart": LambdaMART(**TREES),
    "lambdamart-map": LambdaMART(measure="map", **TREES),
    "lambdamart-drawn": LambdaMART(**TREES, **DRAWN),
    "mcrank": McRank(**TREES),
    "mcrank-drawn": McRank(link="ordinal", **TREES, **DRAWN),
}


def tied(seed=0, n_queries=14, n_docs=11):
    """Features with few values, so that many documents are equal, some of them with other labels; one query twice."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), n_docs)
    X = rng.integers(0, 3, (len(qid), 4)).astype(float) * [1.0, 0.3, 7.0, 0.01]
    y = np.clip((X / [1.0, 0.3, 7.0, 0.01]).sum(axis=1) - 3 + rng.integers(-1, 2, len(qid)), 0, 2)
    X[:n_docs], y[:n_docs] = X[-n_docs:], y[-n_docs:]
    return X, y, qid


def changed(X, y, qid):
    """The same data, differently: by name."""
    rng = np.random.default_rng(1)
    documents = rng.permutation(len(y))
    documents = documents[np.argsort(qid[documents], kind="stable")]
    queries = np.argsort(rng.permutation(qid.max() + 1)[qid], kind="stable")
    yield "documents shuffled", X[documents], y[documents], qid[documents]
    yield "queries shuffled", X[queries], y[queries], qid[queries]
    yield "constant first", np.insert(X, 0, 3.5, axis=1), y, qid
    yield "constants", np.insert(X, [2, 4], [-1.0, 0.0], axis=1), y, qid


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", RANKERS)
def test_predictions_stay_the_same(name, form):
    X, y, qid = tied()
    plain = RANKERS[name].fit(form(X), y, qid).predict(form(X))
    assert len(set(plain.tolist())) > 3
    for what, *data in changed(X, y, qid):
        ranker = RANKERS[name].fit(form(data[0]), *data[1:])
        rows = X
        if data[0].shape != X.shape:
            rows = np.insert(X, 0, 3.5, axis=1) if what == "constant first" else data[0]
        np.testing.assert_allclose(ranker.predict(form(rows)), plain, rtol=1e-9, atol=1e-9, err_msg=what)


@pytest.mark.parametrize("ranker", [RANKERS["lambdamart-drawn"], RANKERS["mcrank-drawn"]], ids=["lambdamart", "mcrank"])
def test_trees_are_the_same_bits(ranker, monkeypatch):
    monkeypatch.setattr("rankwright.boosting.binning._SAMPLE", 60)  # where bins are placed is drawn too
    X, y, qid = tied()
    plain = ranker.fit(X, y, qid).predict(X)
    for _, *data in list(changed(X, y, qid))[:2]:
        assert ranker.fit(*data).predict(X).tobytes() == plain.tobytes()


def test_columns_in_another_order_give_the_same_trees_where_none_is_drawn():
    X, y, qid = tied()
    plain, turned = (LambdaMART(**TREES).fit(some, y, qid).predict(some) for some in (X, X[:, ::-1]))
    np.testing.assert_allclose(turned, plain, rtol=1e-9)


def test_weights_of_equal_queries_go_with_them():
    X, y, qid = tied()
    weight = np.where(qid == 0, 3.0, 1.0)  # 0 and the last query have the same content
    back = np.argsort(-qid, kind="stable")
    for ranker in (RANKERS["lambdamart-drawn"], RANKERS["lambdarank"]):
        plain = ranker.fit(X, y, qid, query_weight=weight).predict(X)
        again = ranker.fit(X[back], y[back], -qid[back], query_weight=weight[back]).predict(X)
        np.testing.assert_allclose(again, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("hidden", [0, 3])
def test_equal_documents_have_equal_scores_wherever_they_are_in_a_query(hidden, form):
    rng = np.random.default_rng(3)
    for n, d in ((3, 1), (9, 5), (30, 8), (77, 13)):
        X = form(np.tile(rng.normal(size=d), (n, 1)))
        lambdas = Lambdas((np.arange(n) % 2).astype(float), np.array([0, n]), None)
        moments = rng.normal(size=d), np.exp(rng.normal(size=d))
        trainer = NetTrainer(X, lambdas, np.zeros(1, int), np.ones(1), *moments, hidden=hidden)
        trainer.theta[:] = rng.normal(size=trainer.theta.size)
        assert trainer.epoch(1)
        seen = trainer.seen
        assert seen[0] != 0
        assert len(set(seen.tolist())) == 1
