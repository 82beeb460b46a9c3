"""Training on clicks: pairs weigh by the inverse propensity of the clicked document's position."""

import numpy as np
import pytest

from rankwright import InputError, InputWarning, LambdaMART, RankingSVM, StructuredSVM, click_model
from rankwright.measures import parse_measure
from rankwright.objectives.lambdas import Lambdas
from rankwright.rankers.positions import inverse_propensities

PROPENSITIES = [1.0, 0.5, 0.25, 0.2]


def clicks(seed=0, n_queries=30, n_docs=4, n_features=3):
    """Return features, clicks, query ids and positions; the label depends on the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, n_features))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0.5).astype(float)
    return X, y, np.repeat(np.arange(n_queries), n_docs), np.tile(np.arange(1, n_docs + 1), n_queries)


def weighted_hinge(X, y, qid, weights, coef, C):
    """The objective, pair by pair; weights have a mean of 1 over clicked documents."""
    weights = weights / weights[y > 0].mean()
    scores, total, n_useful = X @ coef, 0.0, 0
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        n_useful += len(set(y[rows])) > 1
        for i in rows:
            for j in rows:
                if y[i] > y[j]:
                    total += weights[i] * max(0.0, 1 - (scores[i] - scores[j]))
    return 0.5 * coef @ coef + C / n_useful * total


@pytest.mark.parametrize("grades", [1, 2])
def test_ranking_svm_minimises_the_weighted_pairs(grades):
    X, y, qid, position = clicks()
    y = y * (1 + (X[:, 1] > 0) * (grades - 1))
    ranker = RankingSVM(C=3.0, standardize=False, tol=1e-7, max_passes=1000)
    ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES)
    weights = 1 / np.array(PROPENSITIES)[position - 1]
    value = weighted_hinge(X, y, qid, weights, ranker.coef_, 3.0)
    assert ranker.objective_ == pytest.approx(value)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = ranker.coef_ + 0.01 * rng.normal(size=3)
        assert weighted_hinge(X, y, qid, weights, other, 3.0) > value
    plain = RankingSVM(C=3.0, standardize=False, tol=1e-7, max_passes=1000).fit(X, y, qid)
    assert weighted_hinge(X, y, qid, weights, plain.coef_, 3.0) > value  # the control: another model


@pytest.mark.parametrize("ranker", [RankingSVM(C=1.0), LambdaMART(n_trees=5, min_rows=5, normalize_queries=False)])
def test_equal_propensities_change_nothing(ranker):
    X, y, qid, position = clicks()
    plain = ranker.fit(X, y, qid).predict(X)
    equal = ranker.fit(X, y, qid, position=position, propensities=dict.fromkeys(range(1, 5), 0.5)).predict(X)
    np.testing.assert_allclose(equal, plain, rtol=1e-9)
    weighted = ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES).predict(X)
    assert not np.allclose(weighted, plain)


@pytest.mark.parametrize("ranker", [RankingSVM(C=1.0), LambdaMART(n_trees=5, min_rows=5)])
def test_the_order_of_rows_changes_nothing(ranker):
    X, y, qid, position = clicks()
    rows = np.random.default_rng(2).permutation(len(X))
    one = ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES).predict(X)
    other = ranker.fit(X[rows], y[rows], qid[rows], position=position[rows], propensities=PROPENSITIES).predict(X)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("measure", [None, "ndcg", "ndcg@2", "map"])
@pytest.mark.parametrize("tied", [False, True])
def test_lambda_gradients_against_a_double_loop(measure, tied):
    rng = np.random.default_rng(0)
    labels, winning = np.array([0.0, 1, 1, 0, 1, 0]), rng.uniform(0.5, 3, 6)
    scores = np.zeros(6) if tied else rng.normal(size=6)
    found = None if measure is None else parse_measure(measure).resolve("letor")
    indptr = np.array([0, 6])
    plain = Lambdas(labels, indptr, found)
    weighted = Lambdas(labels, indptr, found, winning=winning)
    if tied:  # documents of equal score and label still differ by their factor
        rise = weighted.evaluate(scores)[0]
        winners = np.flatnonzero(labels)
        if measure is None:
            np.testing.assert_allclose(rise[winners], 3 * 0.5 * winning[winners])
        assert len(set(rise[winners].round(9))) == 3
        assert rise.sum() == pytest.approx(0, abs=1e-12)
        return
    expected = np.zeros(6)
    order = np.argsort(-scores)
    for i in range(6):
        for j in range(6):
            if labels[i] > labels[j]:
                one = np.zeros(6)
                one[[i, j]] = pair_gradient(plain, labels, found, scores, order, i, j)
                expected += winning[i] * one
    np.testing.assert_allclose(weighted.evaluate(scores)[0], expected, atol=1e-12)
    np.testing.assert_allclose(
        Lambdas(labels, indptr, found, winning=np.ones(6)).evaluate(scores), plain.evaluate(scores)
    )


def pair_gradient(plain, labels, measure, scores, order, i, j):
    """The gradient of one pair: |Δ| / (1 + e^o)."""
    change = 1.0
    if measure is not None:
        ranks = np.argsort(order)
        change = abs(measure.swap_deltas(labels[order])[min(ranks[i], ranks[j]), max(ranks[i], ranks[j])])
    rise = change / (1 + np.exp(scores[i] - scores[j]))
    return rise, -rise


def test_weights_are_cut_and_that_is_said():
    X, y, qid, position = clicks()
    with pytest.warns(InputWarning, match=r"propensities below 0.1 \(positions 3, 4\): clicks there weigh 10"):
        RankingSVM(C=1.0).fit(X, y, qid, position=position, propensities=[1.0, 0.5, 0.05, 0.01])
    weights, notices = inverse_propensities(4, [1, 2, 3, 4], [1.0, 0.5, 0.05, 0.1])
    assert weights.tolist() == [1, 2, 10, 10]
    assert len(notices) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"position": [1] * 120}, "position is given without propensities"),
        ({"propensities": [1.0]}, "propensities are given without position"),
        ({"position": [1, 2], "propensities": [1.0]}, "120 rows but position of shape"),
        ({"position": [0] * 120, "propensities": [1.0]}, "position is 0; expected whole numbers from 1"),
        ({"position": ["x"] * 120, "propensities": [1.0]}, "position contains a non-numeric value"),
        ({"position": [2] * 120, "propensities": [1.0]}, "the propensity of position 2 is nan"),
        ({"position": [1] * 120, "propensities": [1.5]}, "the propensity of position 1 is 1.5"),
        ({"position": [1] * 120, "propensities": ["x"]}, "propensities contain a non-numeric value"),
        ({"position": [1] * 120, "propensities": []}, "propensities are empty"),
    ],
)
def test_bad_positions(given, message):
    X, y, qid, _ = clicks()
    with pytest.raises(InputError, match=message):
        RankingSVM().fit(X, y, qid, **given)


def test_other_rankers_refuse_positions():
    X, y, qid, position = clicks()
    with pytest.raises(InputError, match="StructuredSVM takes no position; expected RankingSVM or LambdaMART"):
        StructuredSVM().fit(X, y, qid, position=position, propensities=PROPENSITIES)


def test_rows_of_weight_zero_go_with_their_positions():
    X, y, qid, position = clicks()
    kept = np.arange(len(X)) % 4 != 3
    weighted = RankingSVM(C=1.0).fit(
        X, y, qid, position=position, propensities=PROPENSITIES, sample_weight=kept.astype(float)
    )
    fewer = RankingSVM(C=1.0).fit(X[kept], y[kept], qid[kept], position=position[kept], propensities=PROPENSITIES)
    np.testing.assert_allclose(weighted.coef_, fewer.coef_, rtol=1e-9)


def test_estimated_propensities_are_taken_as_they_are():
    from rankwright import ClickLog

    X, y, qid, position = clicks()
    log = ClickLog.from_columns(["q"] * 4, list("aabb"), [1, 2, 1, 2], [40, 20, 20, 10], count=[100] * 4)
    found = click_model(log).propensities
    rows = position <= 2
    RankingSVM(C=1.0).fit(X[rows], y[rows], qid[rows], position=position[rows], propensities=found)
