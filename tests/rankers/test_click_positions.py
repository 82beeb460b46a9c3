"""Training on clicks: every click counts alone, and weighs by the inverse propensity of its position."""

import itertools

import numpy as np
import pytest

from rankwright import InputError, InputWarning, LambdaMART, RankingData, RankingSVM, StructuredSVM, click_model
from rankwright.boosting.lambdas import ClickLambdas, Lambdas
from rankwright.measures import parse_measure
from rankwright.measures.oracles.pairs import clicks as click_pairs
from rankwright.rankers.cross_validation import query_values, validation_value
from rankwright.rankers.inputs import clicks_of, inverse_propensities
from rankwright.rankers.weights import click_weights

PROPENSITIES = [1.0, 0.5, 0.25, 0.2]


def clicks(seed=0, n_queries=30, n_docs=4, n_features=3):
    """Return features, clicks, query ids and positions; the label depends on the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, n_features))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0.5).astype(float)
    return X, y, np.repeat(np.arange(n_queries), n_docs), np.tile(np.arange(1, n_docs + 1), n_queries)


def click_hinge(X, y, qid, weights, coef, C):
    """The objective, pair by pair: each click against all other documents; weights have a mean of 1 over clicks."""
    weights = weights / weights[y > 0].mean()
    scores, total, n_useful = X @ coef, 0.0, 0
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        n_useful += y[rows].any()
        for i in rows[y[rows] > 0]:
            for j in rows[rows != i]:
                total += y[i] * weights[i] * max(0.0, 1 - (scores[i] - scores[j]))
    return 0.5 * coef @ coef + C / n_useful * total


@pytest.mark.parametrize("counts", [1, 2])
def test_ranking_svm_minimises_the_weighted_pairs(counts):
    X, y, qid, position = clicks()
    y = y * (1 + (X[:, 1] > 0) * (counts - 1))  # a label of 2 is two clicks
    ranker = RankingSVM(C=3.0, standardize=False, tol=1e-7, max_passes=1000)
    ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES)
    weights = 1 / np.array(PROPENSITIES)[position - 1]
    value = click_hinge(X, y, qid, weights, ranker.coef_, 3.0)
    assert ranker.objective_ == pytest.approx(value)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = ranker.coef_ + 0.01 * rng.normal(size=3)
        assert click_hinge(X, y, qid, weights, other, 3.0) > value
    plain = RankingSVM(C=3.0, standardize=False, tol=1e-7, max_passes=1000).fit(X, y, qid)
    assert click_hinge(X, y, qid, weights, plain.coef_, 3.0) > value  # the control: another model


@pytest.mark.parametrize("ranker", [RankingSVM(C=1.0), LambdaMART(n_trees=5, min_rows=5)])
def test_one_click_a_page_and_equal_propensities_are_plain_labels(ranker):
    X, _, qid, position = clicks()
    y = np.zeros(len(X))
    y[np.arange(0, len(X), 4) + np.random.default_rng(3).integers(0, 4, len(X) // 4)] = 1
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
def test_lambda_gradients_are_those_of_every_click_alone(measure):
    rng = np.random.default_rng(0)
    labels, winning = np.array([0.0, 1, 1, 0, 2, 0]), rng.uniform(0.5, 3, 6)
    scores, indptr = rng.normal(size=6), np.array([0, 6])
    found = None if measure is None else parse_measure(measure).resolve("letor")
    gradients = ClickLambdas(Lambdas, labels, indptr, found, query_weights=np.array([3.0]), winning=winning)
    expected, order = np.zeros(6), np.argsort(-scores)
    for i in np.flatnonzero(labels):
        alone = np.zeros(6)
        alone[i] = 1
        for j in np.flatnonzero(np.arange(6) != i):
            rise, fall = pair_gradient(alone, found, scores, order, i, j)
            expected[i] += 3 * labels[i] * winning[i] * rise
            expected[j] += 3 * labels[i] * winning[i] * fall
    np.testing.assert_allclose(gradients.evaluate(scores)[0], expected, atol=1e-12)
    gradients.close()


def pair_gradient(labels, measure, scores, order, i, j):
    """The gradient of one pair: |Δ| / (1 + e^o)."""
    change = 1.0
    if measure is not None:
        ranks = np.argsort(order)
        change = abs(measure.swap_deltas(labels[order])[min(ranks[i], ranks[j]), max(ranks[i], ranks[j])])
    rise = change / (1 + np.exp(scores[i] - scores[j]))
    return rise, -rise


LOOKS, ATTRACTION = np.array([1.0, 0.5, 0.2]), np.array([0.9, 0.3, 0.6])


def patterns():
    """Yield all clicks on a page of three documents that users look at with LOOKS, and how likely they are."""
    for pattern in itertools.product([0.0, 1.0], repeat=3):
        labels = np.array(pattern)
        chance = LOOKS * ATTRACTION
        yield labels, np.where(labels > 0, chance, 1 - chance).prod()


def test_on_average_gradients_are_those_of_users_who_look_at_everything():
    scores, indptr, one = np.array([0.3, -0.2, 0.1]), np.array([0, 3]), np.ones(1)
    measure = parse_measure("ndcg").resolve("letor")

    def gradients(labels, winning):
        return ClickLambdas(Lambdas, labels, indptr, measure, query_weights=one, winning=winning).evaluate(scores)[0]

    mean = sum(chance * gradients(labels, 1 / LOOKS) for labels, chance in patterns())
    np.testing.assert_allclose(mean, gradients(np.ones(3), ATTRACTION), atol=1e-12)
    plain = sum(
        chance * Lambdas(labels, indptr, measure).evaluate(scores)[0] for labels, chance in patterns() if labels.any()
    )
    assert not np.allclose(plain / np.abs(plain).sum(), mean / np.abs(mean).sum(), atol=0.05)  # the control


def test_on_average_the_hinge_is_that_of_users_who_look_at_everything():
    scores = np.array([0.3, -0.2, 0.1])
    order = np.argsort(-scores)

    def hinge(weights):
        coef = np.empty(3)
        loss = click_pairs(scores, weights, order, np.empty(0), coef, np.empty(0))
        return np.array([loss, *coef])

    mean = sum(chance * hinge(labels / LOOKS) for labels, chance in patterns())
    np.testing.assert_allclose(mean, hinge(ATTRACTION), atol=1e-12)


def test_on_average_validation_is_that_of_users_who_look_at_everything():
    scores = np.array([0.3, -0.2, 0.1])

    def weighted(labels, winning):
        data = RankingData.from_arrays(np.zeros((3, 1)), labels, [0, 0, 0])
        return click_weights(data, winning) * query_values(data, "nDCG@10", winning=winning)(scores)

    mean = sum(chance * weighted(labels, 1 / LOOKS) for labels, chance in patterns())
    ranks = np.argsort(np.argsort(-scores)) + 1
    assert mean == pytest.approx(np.sum(ATTRACTION / np.log2(1 + ranks)))


def test_validation_with_clicks_is_the_weighted_mean_over_clicks():
    X, y, qid, position = clicks(1)
    data = RankingData.from_arrays(X, y, qid)
    winning = 1 / np.array(PROPENSITIES)[position - 1]
    ranks = np.concatenate([np.argsort(np.argsort(-X[qid == one, 0])) + 1 for one in np.unique(qid)])
    wanted = np.average((1 / np.log2(1 + ranks))[y > 0], weights=winning[y > 0])
    assert validation_value(data, "nDCG@10", winning)(X[:, 0]) == pytest.approx(wanted)


@pytest.mark.parametrize("ranker", [RankingSVM(C="auto", C_grid=[0.001, 1.0]), LambdaMART(n_trees=8, min_rows=5)])
def test_positions_of_validation_data_weigh_its_clicks(ranker):
    X, y, qid, position = clicks()
    more, labels, pages, places = clicks(1)
    rows = np.random.default_rng(2).permutation(len(more))
    more, labels, pages, places = more[rows], labels[rows], pages[rows], places[rows]
    kinds = {"position": position, "propensities": PROPENSITIES, "eval_set": (more, labels, pages)}
    ranker.fit(X, y, qid, **kinds, eval_position=places)
    data = RankingData.from_arrays(more, labels, pages)
    winning = 1 / np.array(PROPENSITIES)[places - 1]
    value = validation_value(data, "nDCG@10", winning[data.rows])(ranker.predict(more)[data.rows])
    if isinstance(ranker, RankingSVM):
        assert max(row["nDCG@10"] for row in ranker.C_path_) == pytest.approx(value)
    else:
        assert max(row.value for row in ranker.path_) == pytest.approx(value)


def test_cross_validation_weighs_clicks_and_keeps_pages_of_a_pair_together():
    X, y, qid, position = clicks(n_queries=40)
    pair = np.repeat(np.arange(10), 16) * 4 + np.tile(
        np.arange(4), 40
    )  # four pages after another show the same in the same order
    ranker = RankingSVM(C="auto", C_grid=[0.001, 1.0], cv=3)
    ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES, pair=pair)
    found = ranker.cv_
    assert (found.folds.of_query.reshape(10, 4) == found.folds.of_query.reshape(10, 4)[:, :1]).all()
    assert found.folds.n_held_out == 3
    data = RankingData.from_arrays(X, y, qid)
    winning = 1 / np.array(PROPENSITIES)[position - 1]
    winning /= winning[y > 0].mean()
    held_out = found.folds.of_query >= 0
    assert held_out.all()
    assert found.value == pytest.approx(validation_value(data, "nDCG@10", winning)(found.scores))
    alone = ranker.fit(X, y, qid, position=position, propensities=PROPENSITIES).cv_.folds.of_query.reshape(10, 4)
    assert not (alone == alone[:, :1]).all()


def test_clicks_of_a_pair_weigh_by_the_mean_of_its_propensities():
    data = RankingData.from_arrays(np.zeros((4, 1)), [1, 0, 0, 1], [1, 1, 2, 2])
    found = clicks_of(data, None, [1, 2, 1, 2], [1.0, 0.2], ["a", "b", "b", "a"])
    np.testing.assert_allclose(found.training, 1 / 0.6)
    other = clicks_of(data, None, [1, 2, 1, 2], [1.0, 0.2], ["a", "b", "a", "b"])
    np.testing.assert_allclose(other.training, [1, 5, 1, 5])


def test_weights_are_cut_and_that_is_said():
    X, y, qid, position = clicks()
    with pytest.warns(InputWarning, match=r"propensities below 0.01 \(positions 3, 4\): clicks there weigh 100"):
        RankingSVM(C=1.0).fit(X, y, qid, position=position, propensities=[1.0, 0.5, 0.005, 0.001])
    weights, notices = inverse_propensities(4, [1, 2, 3, 4], [1.0, 0.5, 0.005, 0.01])
    assert weights.tolist() == [1, 2, 100, 100]
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
        ({"pair": [1] * 120}, "pair is given without position"),
        ({"eval_position": [1] * 120}, "eval_position is given without position"),
        ({"position": [1] * 120, "propensities": [1.0], "pair": [1]}, "120 rows but pair of shape"),
        (
            {"position": [1] * 120, "propensities": [1.0], "eval_position": [1]},
            "eval_position is given without eval_set",
        ),
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


@pytest.mark.parametrize("setting", [{"rank_weights": "ndcg@1"}, {"query_weights": True}])
def test_pairs_weighted_by_labels_refuse_positions(setting):
    X, y, qid, position = clicks()
    with pytest.raises(InputError, match="weigh pairs by labels, and position weighs clicks; expected one"):
        RankingSVM(**setting).fit(X, y, qid, position=position, propensities=PROPENSITIES)


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
