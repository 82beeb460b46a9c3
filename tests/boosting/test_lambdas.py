"""Lambda gradients against the double loop over pairs, RankNet's against numerical derivatives; ties."""

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import sparse

from every_measure import every_measure as measures
from pair_cost import ranknet_cost
from rankwright import parse_measure
from rankwright.boosting.lambdas import Lambdas
from rankwright.data.hashes import content_order
from rankwright.measures import Measure, Rankings
from rankwright.measures.base import Swaps

every_measure = pytest.mark.parametrize("measure", [*measures(1, 4), None], ids=str)


class FirstLabel(Measure):
    """A newcomer that only says what its value is."""

    name = "FirstLabel"

    def value(self, rankings: Rankings):
        top = rankings.top(1)
        return top.sum(top.labels)


def parsed(measure):
    return None if measure is None else parse_measure(measure).resolve("letor")


def pair_by_pair(scores, labels, measure, truncation=None, nearness=0.0, normalize=False):
    """The definition: every pair of documents of one query, with the change of the measure if they swapped places."""
    worth = labels if measure is None or measure.swaps() is None else measure.worth(labels)
    order = spread(scores, worth)
    n = len(order)
    ranked = labels[order]
    deltas = np.ones((n, n)) if measure is None else np.abs(measure.brute_force_swap_deltas(ranked, ranked))
    gradients, hessians, total = np.zeros(n), np.zeros(n), 0.0
    for i in range(n):
        for j in range(n):
            a, b = order[i], order[j]
            if labels[a] > labels[b] and (truncation is None or min(i, j) < truncation):
                miss = 1.0 / (1.0 + np.exp(scores[a] - scores[b]))
                force = deltas[i, j] * miss / (nearness + abs(scores[a] - scores[b]) if nearness else 1.0)
                gradients[a] += force
                gradients[b] -= force
                hessians[[a, b]] += force * (1.0 - miss)
                total += 2.0 * force
    factor = np.log2(1.0 + total) / total if normalize and total > 0 else 1.0
    gradients, hessians = factor * gradients, factor * hessians
    alike = (scores[:, None] == scores) & (worth[:, None] == worth)
    return [(alike * part).sum(axis=1) / alike.sum(axis=1) for part in (gradients, hessians)]


def spread(scores, worth):
    """The order: by score; in a tie, the k-th of m documents of one worth is (k + ½)/m of the way down."""
    down = [
        Fraction(2 * sum(alike[:at]) + 1, 2 * sum(alike))
        for at, alike in enumerate((scores[:, None] == scores) & (worth[:, None] == worth))
    ]
    return np.array(sorted(range(len(scores)), key=lambda at: (-scores[at], down[at], worth[at])), dtype=int)


def queries(seed, sizes=(1, 2, 7, 12, 17), ties=False, top=4):
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, top + 1, indptr[-1]).astype(float)
    scores = rng.normal(size=indptr[-1]) * 2
    return (scores.round() if ties else scores), labels, indptr


@every_measure
@pytest.mark.parametrize("truncation", [None, 3])
@pytest.mark.parametrize("ties", [False, True])
def test_gradients_are_those_of_all_pairs(measure, truncation, ties):
    scores, labels, indptr = queries(seed=1, ties=ties)
    got = Lambdas(labels, indptr, measure, truncation).evaluate(scores)
    for start, stop in pairwise(indptr):
        want = pair_by_pair(scores[start:stop], labels[start:stop], measure, truncation)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one[start:stop], other, atol=1e-6 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("nearness", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("measure", [parse_measure("nDCG@10").resolve("letor"), FirstLabel(), None], ids=str)
def test_factors_of_pairs_and_queries(measure, nearness, normalize, ties):
    scores, labels, indptr = queries(seed=11, ties=ties)
    factors = {"nearness": nearness, "normalize": normalize}
    got = Lambdas(labels, indptr, measure, 8, **factors).evaluate(scores)
    for start, stop in pairwise(indptr):
        want = pair_by_pair(scores[start:stop], labels[start:stop], measure, 8, **factors)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one[start:stop], other, atol=1e-8 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("truncation", [1, 2, 100])
@pytest.mark.parametrize("measure", measures(5, parameters=False), ids=str)
def test_truncations(measure, truncation):
    test_gradients_are_those_of_all_pairs(measure, truncation, ties=True)


@every_measure
def test_nothing_to_order_is_no_gradient(measure):
    for labels in (np.zeros(5), np.full(5, 2.0), np.ones(1)):
        lambdas = Lambdas(labels, np.array([0, len(labels)]), measure)
        for part in lambdas.evaluate(np.arange(len(labels), dtype=float)):
            assert part.tolist() == [0.0] * len(labels)


@every_measure
def test_gradients_of_a_query_add_up_to_0(measure):
    scores, labels, indptr = queries(seed=2)
    labels[np.arange(len(labels)) % 3 > 0] = 0.0
    gradients, hessians = Lambdas(labels, indptr, measure).evaluate(scores - 5 * labels)  # the best come last
    np.testing.assert_allclose(np.add.reduceat(gradients, indptr[:-1]), 0.0, atol=1e-12)
    assert (hessians >= 0).all()
    assert gradients.any() == (getattr(measure, "name", "") != "Judged")  # which asks for no order


def test_ranknets_gradients_are_the_derivatives_of_its_cost():
    scores, labels, indptr = queries(seed=3)
    gradients, hessians = Lambdas(labels, indptr, None).evaluate(scores)
    step = 1e-4
    for i in range(len(scores)):
        costs = []
        for by in (-step, 0.0, step):
            moved = scores.copy()
            moved[i] += by
            costs.append(ranknet_cost(moved, labels, indptr))
        assert gradients[i] == pytest.approx(-(costs[2] - costs[0]) / (2 * step), abs=1e-5)
        assert hessians[i] == pytest.approx((costs[2] - 2 * costs[1] + costs[0]) / step**2, abs=1e-4)


@pytest.mark.parametrize("apart", [25.0, 40.0, 1e6, 1e300])
def test_scores_far_apart(apart):
    scores, labels = np.array([0.0, apart]), np.array([1.0, 0.0])
    (up, down), _ = Lambdas(labels, np.array([0, 2]), None).evaluate(scores)
    assert (up, down) == pytest.approx((1.0, -1.0))
    (up, down), _ = Lambdas(labels[::-1], np.array([0, 2]), None).evaluate(scores)
    assert (up, down) == pytest.approx((0.0, 0.0), abs=1e-9)


@pytest.mark.parametrize("measure", ["nDCG@10", "AP", "RR", "P@5", None])
def test_threads_give_the_same_bits(measure):
    rng = np.random.default_rng(4)
    scores, labels, indptr = queries(seed=4, sizes=rng.integers(20, 90, 600))
    assert indptr[-1] > 2 * 8192  # more than one task
    results = []
    for threads in (1, 2, 5):
        lambdas = Lambdas(labels, indptr, parsed(measure), 10, threads)
        results.append(b"".join(part.tobytes() for part in lambdas.evaluate(scores)))
        lambdas.close()
    assert len(set(results)) == 1


def test_a_measure_that_has_only_a_value_has_gradients():
    scores, labels, indptr = queries(seed=9, ties=True)
    lambdas = Lambdas(labels, indptr, FirstLabel())
    assert lambdas.kernel is None
    for part, (start, stop) in enumerate(pairwise(indptr)):
        docs = lambdas.docs[start:stop]
        want = pair_by_pair(scores[docs], labels[docs], FirstLabel())
        np.testing.assert_allclose(lambdas.one_query(part, scores[docs]), want, atol=1e-6)
        np.testing.assert_allclose([one[docs] for one in lambdas.evaluate(scores)], want, atol=1e-6)


def typed_in_by_hand():
    source = "def changes(i, worth, parameters, state, out):\n    out[i + 1 :] = i\n"
    exec(source, space := {})
    return space["changes"]


def test_swap_changes_need_not_come_from_a_file():
    class Odd(FirstLabel):
        def swaps(self):
            return Swaps(typed_in_by_hand())

    gradients, _ = Lambdas(np.array([2.0, 0.0, 1.0]), np.array([0, 3]), Odd()).evaluate(np.array([2e-9, 1e-9, 0]))
    assert gradients == pytest.approx([0.0, -0.5, 0.5])


@pytest.mark.parametrize("measure", ["nDCG@10", "AP", "ERR", None])
def test_one_query_at_a_time_is_the_same(measure):
    scores, labels, indptr = queries(seed=5, ties=True)
    lambdas = Lambdas(labels, indptr, parsed(measure), 5)
    whole = lambdas.evaluate(scores)
    for q, (start, stop) in enumerate(pairwise(indptr)):
        docs = lambdas.docs[start:stop]
        np.testing.assert_array_equal(lambdas.one_query(q, scores[docs]), [part[docs] for part in whole])


def test_weights_of_queries():
    scores, labels, indptr = queries(seed=6)
    weights = np.array([1.0, 0.0, 2.0, 0.5, 1.0])
    plain = Lambdas(labels, indptr, parsed("nDCG")).evaluate(scores)
    weighted = Lambdas(labels, indptr, parsed("nDCG"), query_weights=weights).evaluate(scores)
    for one, other in zip(weighted, plain, strict=True):
        np.testing.assert_allclose(one, other * np.repeat(weights, np.diff(indptr)))


@every_measure
@pytest.mark.parametrize("scores", ["tied", "some tied", "zeros of both signs"])
def test_nothing_but_scores_and_labels_decides_ties(measure, scores):
    rng = np.random.default_rng(7)
    _, labels, indptr = queries(seed=7)
    values = {
        "tied": np.zeros(len(labels)),
        "some tied": rng.integers(0, 3, len(labels)).astype(float),
        "zeros of both signs": np.where(rng.random(len(labels)) < 0.5, -0.0, 0.0),
    }[scores]
    first = Lambdas(labels, indptr, measure, 9).evaluate(values)
    rows = np.concatenate([start + rng.permutation(stop - start) for start, stop in pairwise(indptr)])
    order = np.lexsort((rng.random(len(rows)), np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))
    second = Lambdas(labels[rows], indptr, measure, 9, order=order).evaluate(values[rows])
    assert [part[rows].tobytes() for part in first] == [part.tobytes() for part in second]


@pytest.mark.parametrize("measure", ["nDCG", "AP", "ERR", "P@3", "RR"])
def test_ties_are_close_to_the_mean_over_all_their_orders(measure):
    measure, rng = parsed(measure), np.random.default_rng(0)
    n, orders = 5, np.array(list(permutations(range(5))))
    missed = size = 0.0
    for _ in range(8):
        scores, labels = rng.integers(0, 2, n).astype(float), rng.integers(0, 3, n).astype(float)
        got, _ = Lambdas(labels, np.array([0, n]), measure).evaluate(scores)
        possible = orders[(np.diff(scores[orders]) <= 0).all(axis=1)]
        apart = scores - 1e-9 * np.argsort(possible, axis=1)  # without ties, a query for each order
        tiled = Lambdas(np.tile(labels, len(possible)), n * np.arange(len(possible) + 1), measure)
        mean = tiled.evaluate(apart.ravel())[0].reshape(-1, n).mean(axis=0)
        missed += np.abs(got - mean).sum()
        size += np.abs(mean).sum()
    assert missed < 0.35 * size


def test_the_order_by_content_depends_on_nothing_else():
    rng = np.random.default_rng(8)
    _, labels, indptr = queries(seed=8, sizes=(4, 4, 9, 1))
    X = rng.normal(size=(len(labels), 5)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    docs, order = content_order(X, labels, indptr)
    assert sorted(docs.tolist()) == list(range(len(labels)))
    assert (np.searchsorted(indptr, docs, side="right") == np.repeat([1, 2, 3, 4], [4, 4, 9, 1])).all()
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    for same in (X.astype(np.float64), sparse.csr_array(X), np.where(X == 0, np.float32(-0.0), X)):
        again = content_order(same, labels, indptr)
        assert again[0].tolist() == docs.tolist()
        assert again[1].tolist() == order.tolist()
    # Queries 0 and 1, of equal size, change places.
    rows = np.concatenate([np.arange(4, 8), np.arange(4), np.arange(8, len(labels))])
    moved, moved_order = content_order(X[rows], labels[rows], indptr)
    assert X[rows][moved].tobytes() == np.concatenate([X[docs[4:8]], X[docs[:4]], X[docs[8:]]]).tobytes()
    assert np.array([1, 0, 2, 3])[moved_order].tolist() == order.tolist()
    # What is the same in all rows changes nothing, wherever it is.
    for at, value in ((0, 7.0), (5, 0.0), (2, np.nan)):
        wider = np.insert(X, at, value, axis=1)
        for same in (wider, sparse.csr_array(wider)):
            again = content_order(same, labels, indptr)
            assert [part.tolist() for part in again] == [docs.tolist(), order.tolist()]
    # Weights decide where content is equal.
    twice = np.concatenate([X[:4], X[:4]])
    _, by_weight = content_order(twice, np.tile(labels[:4], 2), np.array([0, 4, 8]), np.array([2.0, 1.0]))
    assert by_weight.tolist() == [1, 0]
