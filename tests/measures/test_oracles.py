"""Every oracle against brute force over all rankings; the double loop for pairs; sorting against numpy.

For each tuple of 0/1 labels, all permutations are listed once with their loss, computed by the measure itself, and
their coefficients, written down from the definition of the feature map. Brute force is then max(loss − C @ scores).
"""

import functools
import itertools
import subprocess
import sys

import numpy as np
import pytest

from every_measure import every_measure
from rankwright.errors import InputError
from rankwright.measures import Rankings, parse_measure
from rankwright.measures.base import REGISTRY, read_only
from rankwright.measures.oracles.common import BINS, WORK, sort_descending
from rankwright.measures.oracles.pairs import pairs


def resolved(name):
    return parse_measure(name).resolve("letor")


def oracles(*cutoffs):
    """Names and feature maps of all measures that can be trained for with labels 0 and 1."""
    found = []
    for measure in every_measure(*cutoffs):
        if getattr(measure, "rel", 1) == 1:
            found += [(str(measure), name) for name in measure.feature_maps if trainable(measure, name)]
    return found


def trainable(measure, feature_map):
    try:
        return not measure.oracle(feature_map).graded  # graded ones have their own tests
    except InputError:  # none with a cutoff
        return False


def call(kernel, parameters, scores, labels):
    """Loss and coefficients; the workspace holds nothing of use, and what lies behind it must stay as it is."""
    n = len(scores)
    memory = np.full(WORK * n + BINS + 100, np.nan)
    order, coef = np.full(n, -1), np.full(n, np.nan)
    sort_descending(scores, order, memory[:-100])
    loss = kernel(scores, read_only(labels), order, parameters, coef, memory[:-100])
    assert np.isnan(memory[-100:]).all()
    return loss, coef


@functools.cache
def kernel_and_parameters(name, longest, feature_map=None):
    oracle = resolved(name).oracle(feature_map)
    return oracle.kernel, oracle.parameters(longest)


def most_violated(name, scores, labels, longest=None, feature_map=None):
    return call(*kernel_and_parameters(name, longest or len(scores), feature_map), scores, labels)


@functools.cache
def permutations(n):
    return np.array(list(itertools.permutations(range(n))))


@functools.cache
def all_losses(name, labels):
    ranked = np.array(labels, float)[permutations(len(labels))]
    return 1 - resolved(name).value(Rankings(ranked.ravel(), np.arange(len(ranked) + 1) * len(labels)))


@functools.cache
def all_coefficients(feature_map, labels):
    """One row per permutation: the c of δΨ = Σ c_i x_i."""
    rank = np.argsort(permutations(len(labels)), axis=1)
    goods, bads = np.flatnonzero(labels), np.flatnonzero(np.array(labels) == 0)
    coef = np.zeros(rank.shape)
    if feature_map == "po":
        for g, b in itertools.product(goods, bads):
            swapped = 2 / (len(goods) * len(bads)) * (rank[:, b] < rank[:, g])
            coef[:, g] += swapped
            coef[:, b] -= swapped
        return coef
    rows = np.arange(len(rank))
    top = goods[rank[:, goods].argmin(axis=1)]
    for b in bads:
        above = rank[:, b] < rank[rows, top]
        coef[rows, top] += above
        coef[:, b] -= above
    return coef


def random_scores(rng, labels):
    """Scores of every kind: spread, tied, all equal, huge, far from 0, tiny, separated the right and the wrong way."""
    n = len(labels)
    noise = rng.normal(size=n)
    return [
        lambda: noise * rng.choice([0.1, 0.3, 1.0, 3.0]),
        lambda: rng.integers(-2, 3, n) / 4,
        lambda: np.full(n, rng.choice([0.0, -0.0, 0.7, -1e6])),
        lambda: 1e6 * noise,
        lambda: 1e6 + noise,
        lambda: 1e-9 * noise,
        lambda: labels * rng.uniform(0, 3) + 0.2 * noise,
        lambda: -labels * rng.uniform(0, 3) + 0.2 * noise,
    ][rng.integers(8)]()


def random_labels(rng, n):
    labels = np.zeros(n)
    labels[rng.permutation(n)[: rng.choice([1, n - 1, rng.integers(1, n)])]] = 1
    return labels


ALL = pytest.mark.parametrize(("name", "feature_map"), oracles(1, 2, 4, 50))


def test_every_measure_with_feature_maps_is_tested_on_each():
    tested = {(resolved(name).name, feature_map) for name, feature_map in [*oracles(), ("nDCG", "dorm")]}
    assert tested == {(kind.name, name) for kind in REGISTRY.values() for name in kind.feature_maps}


@ALL
def test_every_oracle_equals_brute_force_over_all_permutations(name, feature_map):
    rng = np.random.default_rng(1)
    measure = resolved(name)
    assert measure.oracle(feature_map).feature_map == feature_map
    assert measure.oracle().feature_map == measure.feature_maps[0]
    for n in [2] * 50 + [3] * 250 + [4] * 500 + [5] * 900 + [6] * 450 + [7] * 30:
        labels = random_labels(rng, n)
        scores = random_scores(rng, labels)
        loss, coef = most_violated(name, scores, labels, n + int(rng.integers(3)), feature_map)
        rows = all_coefficients(feature_map, tuple(labels))
        losses = all_losses(name, tuple(labels))
        size = max(1.0, np.abs(scores).max())
        value = loss - coef @ scores
        assert abs(value - (losses - rows @ scores).max()) < 1e-9 * size
        assert value > -1e-9 * size  # the ideal ranking has loss and margin 0
        assert abs(coef.sum()) < 1e-12 * n
        found = np.abs(rows - coef).max(axis=1) < 1e-9  # the rankings with these coefficients …
        assert (np.abs(losses[found] - loss) < 1e-9).any()  # … and this loss


def programme(name, scores, labels):
    """The maximum for the partial order, good by good, in O(PN): S[g, b] = cell(g, b) + max_{b'≤b} S[g−1, b']."""
    goods, bads = np.sort(scores[labels > 0])[::-1], np.sort(scores[labels == 0])[::-1]
    above = np.arange(len(bads) + 1)
    sums = np.concatenate([[0], np.cumsum(bads)])
    measure = resolved(name)
    last = measure.cutoff or len(scores)
    best = np.zeros(len(above))
    for g, score in enumerate(goods):
        if measure.name == "AUC":
            kept = (len(bads) - above) / (len(goods) * len(bads))
        elif measure.name == "AP":
            kept = (g + 1) / (g + 1 + above) / len(goods)
        elif measure.name == "RR":
            kept = np.where((g == 0) & (above < last), 1 / (1 + above), 0.0)
        else:
            assert measure.name == "nDCG"
            discounts = measure.discounts(np.arange(len(scores))) * (np.arange(len(scores)) < last)
            kept = discounts[g + above] / discounts[: len(goods)].sum()
        cell = 2 / (len(goods) * len(bads)) * (sums - above * score) - kept
        best = cell + np.maximum.accumulate(best)
    return 1 + best.max()


@pytest.mark.parametrize("name", [name for name, feature_map in oracles(1, 10, 60) if feature_map == "po"])
def test_long_lists_against_the_quadratic_programme(name):
    rng = np.random.default_rng(2)
    for n in [*rng.integers(8, 130, 150).tolist(), 111, 112, 113, 600]:
        labels = random_labels(rng, n)
        scores = random_scores(rng, labels)
        loss, coef = most_violated(name, scores, labels, feature_map="po")
        size = max(1.0, np.abs(scores).max())
        assert abs(loss - coef @ scores - programme(name, scores, labels)) < 1e-9 * size
        assert 0 <= loss <= 1
        assert abs(coef.sum()) < 1e-9


@pytest.mark.parametrize("name", [name for name, feature_map in oracles(1, 10, 500) if feature_map == "mrr"])
def test_long_lists_for_reciprocal_rank(name):
    rng = np.random.default_rng(3)
    for n in rng.integers(8, 400, 150):
        labels = random_labels(rng, n)
        scores = random_scores(rng, labels)
        loss, coef = most_violated(name, scores, labels, feature_map="mrr")
        bads = np.sort(scores[labels == 0])[::-1]
        ranks = np.arange(len(bads) + 1)
        losses = np.where(ranks < (resolved(name).cutoff or n), 1 - 1 / (1 + ranks), 1.0)
        steps = bads - scores[labels > 0].min()
        expected = (losses + np.concatenate([[0], np.cumsum(steps)])).max()
        assert abs(loss - coef @ scores - expected) < 1e-9 * n * max(1.0, np.abs(scores).max())


@ALL
def test_subgradient_inequality(name, feature_map):
    rng = np.random.default_rng(4)
    for _ in range(400):
        labels = random_labels(rng, int(rng.integers(2, 40)))
        here = random_scores(rng, labels)
        there = here + rng.normal(size=len(here)) * rng.choice([1e-3, 0.1, 10.0])
        loss, coef = most_violated(name, here, labels, feature_map=feature_map)
        loss_there, coef_there = most_violated(name, there, labels, feature_map=feature_map)
        bound = loss - coef @ here - coef @ (there - here)
        assert loss_there - coef_there @ there >= bound - 1e-9 * len(here) * max(1.0, np.abs(there).max())


@ALL
def test_separated_queries_have_no_hinge_and_row_order_does_not_matter(name, feature_map):
    labels = np.array([1.0, 0, 1, 0, 0])
    scores = 1e3 * labels + [0.0, 0.1, 0.2, 0.3, 0.4]
    loss, coef = most_violated(name, scores, labels, feature_map=feature_map)
    assert loss == 0
    assert not coef.any()
    rng = np.random.default_rng(5)
    labels = random_labels(rng, 30)
    scores, shuffled = rng.normal(size=30), rng.permutation(30)
    loss, coef = most_violated(name, scores, labels, feature_map=feature_map)
    loss_again, coef_again = most_violated(name, scores[shuffled], labels[shuffled], feature_map=feature_map)
    assert loss_again == loss
    assert np.array_equal(coef_again, coef[shuffled])


def test_published_greedy_for_clipped_ndcg_is_worse():
    # KDD'08, Fact 3.4: each bad chooses by itself the good above which it goes. The cut discount is not convex, so the
    # choices of the bads contradict each other, and the ranking they make is not the most violated one.
    scores, labels = np.array([1.2, 0.8, 0.79]), np.array([1.0, 0.0, 0.0])
    discounts = np.append(1 / np.log2(2 + np.arange(2)), np.zeros(8))
    goods, bads = scores[labels > 0], scores[labels == 0]
    places = []
    for j, bad in enumerate(bads):
        won = [
            (discounts[i + j] - discounts[i + j + 1]) / discounts[: len(goods)].sum()
            - 2 / (len(goods) * len(bads)) * (good - bad)
            for i, good in enumerate(goods)
        ]
        places.append(max(range(len(goods) + 1), key=lambda k, won=won: sum(won[k:])))
    keys = [(i, 1, 0) for i in range(len(goods))] + [(place, 0, j) for j, place in enumerate(places)]
    greedy = sorted(range(len(keys)), key=keys.__getitem__)
    row = np.flatnonzero((permutations(len(labels)) == greedy).all(axis=1))[0]
    values = all_losses("nDCG@2", tuple(labels)) - all_coefficients("po", tuple(labels)) @ scores
    loss, coef = most_violated("nDCG@2", scores, labels)
    assert loss - coef @ scores == pytest.approx(values.max(), abs=1e-12)
    assert values[row] < values.max() - 0.1


def test_pairs_against_the_double_loop():
    rng = np.random.default_rng(6)
    for _ in range(2000):
        n, n_grades = int(rng.integers(1, 15)), int(rng.integers(1, 6))
        grades = rng.integers(0, n_grades, n)
        tau = rng.random((n_grades, n_grades)) * rng.choice([0.0, 1.0], (n_grades, n_grades))
        scores = random_scores(rng, (grades > 0).astype(float))
        loss, coef = call(pairs, read_only(np.append(n_grades, tau)), scores, grades)
        hinge, expected = 0.0, np.zeros(n)
        for i, j in itertools.product(range(n), repeat=2):
            if grades[i] > grades[j] and scores[i] - scores[j] < 1:
                hinge += tau[grades[i], grades[j]] * (1 - (scores[i] - scores[j]))
                expected[i] += tau[grades[i], grades[j]]
                expected[j] -= tau[grades[i], grades[j]]
        size = max(1.0, np.abs(scores).max())
        assert abs(loss - coef @ scores - hinge) < 1e-9 * n * size
        assert abs(coef.sum()) < 1e-9
        if size < 1e5:  # where 1 is not lost in rounding
            assert np.allclose(coef, expected, atol=1e-9)


def test_sorting_is_numpy_stable_descending():
    rng = np.random.default_rng(7)
    sizes = [1, 2, 3, 5, 20, 39, 40, 111, 112, 113, 500, 5000]
    kinds = [
        lambda n: rng.normal(size=n),
        lambda n: rng.integers(-3, 4, n) / 2,
        lambda n: rng.choice([0.0, -0.0], n),
        lambda n: rng.choice([0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0, -1.0], n),
        lambda n: rng.normal(size=n) * 10.0 ** rng.integers(-320, 300, n),
        lambda n: rng.choice([1e300, -1e300, np.inf, -np.inf, 1.7e308], n),
        lambda n: 1 + 1e-12 * rng.normal(size=n),  # all alike in the leading 32 bits
        lambda n: -1e6 + 1e-9 * rng.integers(0, 50, n),
        lambda n: np.arange(n) * 1.0,
        lambda n: -np.arange(n) * 1.0,
    ]
    for n, kind in itertools.product(sizes, kinds):
        scores = kind(n)
        memory, order = np.full(WORK * n + BINS + 100, np.nan), np.full(n, -1)
        sort_descending(scores, order, memory[:-100])
        assert np.array_equal(order, np.argsort(-scores, kind="stable"))
        assert np.isnan(memory[-100:]).all()


def test_sorting_stays_within_bounds_when_scores_are_nan():
    for n in (5, 300):
        scores, order = np.where(np.arange(n) % 3, np.nan, 1.0), np.full(n, -1)
        sort_descending(scores, order, np.empty(WORK * n + BINS))
        assert order.min() >= 0
        assert order.max() < n


def test_measures_without_an_oracle_say_so():
    with pytest.raises(InputError) as caught:
        parse_measure("P@5").oracle()
    assert str(caught.value) == (
        "P@5 has no most violated ranking, so it cannot be trained for with the max-margin solver; "
        "losses: AP, AUC, nDCG, RR"
    )
    for measure in every_measure(5):
        if not measure.feature_maps:
            with pytest.raises(InputError, match="has no most violated ranking"):
                measure.oracle()
    with pytest.raises(InputError, match="AP@5 has no most violated ranking"):
        parse_measure("AP@5").oracle()


WRONG_MAPS = [
    ("AP", "dorm", "expected po"), ("AP", "mrr", "expected po"), ("AUC", "dorm:sqrt", "expected po"),
    ("RR", "dorm", "expected po or mrr"), ("RR", "po:sqrt", "expected po or mrr"),
    ("nDCG", "mrr", "expected po or dorm"), ("nDCG", "", "expected po or dorm"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "feature_map", "expected"), WRONG_MAPS)
def test_a_feature_map_that_a_measure_does_not_have(name, feature_map, expected):
    with pytest.raises(InputError) as caught:
        parse_measure(name).oracle(feature_map)
    assert str(caught.value) == f"{name} cannot be trained with the feature map {feature_map!r}; {expected}"


@ALL
def test_parameters_cannot_be_written_to_and_do_not_grow_with_the_cutoff(name, feature_map):
    parameters = resolved(name).oracle(feature_map).parameters(20)
    assert parameters.dtype == np.float64
    assert not parameters.flags.writeable
    assert len(parameters) <= 21


def test_measures_load_no_numba_until_an_oracle_is_asked_for():
    code = (
        "import sys; from rankwright.measures import parse_measure; measure = parse_measure('nDCG@10')\n"
        "assert 'rankwright.measures.oracles' in sys.modules and 'numba' not in sys.modules\n"
        "measure.oracle(); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
