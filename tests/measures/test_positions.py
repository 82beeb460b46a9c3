"""nDCG on position weights (DORM): sort, table, windows and assignment against all permutations, one by one.

The weights of positions and the mean over all ideal rankings are written here from their definitions.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from test_oracles import all_losses, call, permutations, random_scores

from rankwright.errors import InputError
from rankwright.measures import parse_measure
from rankwright.measures.oracles import positions

WEIGHTS = {"": lambda rank: 1 / math.log2(2 + rank), "log2": lambda rank: 1 / math.log2(2 + rank),
           "sqrt": lambda rank: 1 / math.sqrt(1 + rank)}  # fmt: skip

SETTINGS = [
    ("nDCG", "dorm"), ("nDCG", "dorm:log2"), ("nDCG", "dorm:sqrt"), ("nDCG", "dorm:sqrt@3"), ("nDCG", "dorm:log2@1"),
    ("nDCG@1", "dorm:log2"), ("nDCG@1", "dorm:sqrt@2"), ("nDCG@2", "dorm:sqrt"), ("nDCG@3", "dorm:log2@2"),
    ("nDCG@3", "dorm:log2@30"), ("nDCG@50", "dorm:sqrt@50"), ("nDCG(gain=linear)", "dorm:log2"),
    ("nDCG(gain=linear)@2", "dorm:sqrt@4"), ("nDCG(discount=jk)", "dorm:sqrt"), ("nDCG(discount=jk)@3", "dorm:log2@4"),
]  # fmt: skip
settings = pytest.mark.parametrize(("name", "feature_map"), SETTINGS)


def position_weights(feature_map, n):
    profile, _, end = feature_map.partition(":")[2].partition("@")
    return np.array([WEIGHTS[profile](rank) if not end or rank < int(end) else 0.0 for rank in range(n)])


@functools.cache
def parameters_of(name, feature_map, longest):
    return parse_measure(name).oracle(feature_map).parameters(longest)


def programme(name, feature_map, scores, labels, longest=None):
    return call(positions.dorm, parameters_of(name, feature_map, longest or len(scores)), scores, labels)


def windows(name, feature_map, scores, labels, longest=None):
    return positions.by_windows(scores, labels, parameters_of(name, feature_map, longest or len(scores)))


def library(name, feature_map, scores, labels, longest=None):
    return positions.assignment(scores, labels, parameters_of(name, feature_map, longest or len(scores)))


WAYS = (programme, windows, library)


@pytest.fixture(autouse=True)
def windows_for_short_queries(monkeypatch):
    monkeypatch.setattr(positions, "_SHORT", 0)  # also where the assignment is faster


def violation(found, scores):
    return found[0] - found[1] @ scores


@functools.cache
def all_coefficients(feature_map, labels):
    """One row per permutation: the c of Ψ(y*) − Ψ(y), with Ψ(y*) the mean over every ideal ranking."""
    orders = permutations(len(labels))
    weights = position_weights(feature_map, len(labels))[np.argsort(orders, axis=1)]
    ranked = np.array(labels)[orders]
    ideal = (np.diff(ranked, axis=1) <= 0).all(axis=1)
    return weights[ideal].mean(axis=0) - weights


def random_grades(rng, n):
    """At least two of up to five grades, with holes, some of one document."""
    grades = rng.choice([0.0, 1.0, 2.0, 3.0, 4.0], int(rng.integers(2, 6)), replace=False)
    labels = rng.choice(grades, n)
    labels[rng.permutation(n)[:2]] = grades[:2]
    return labels


@settings
def test_all_ways_equal_brute_force_over_all_permutations(name, feature_map):
    rng = np.random.default_rng(1)
    for n in [2] * 30 + [3] * 80 + [4] * 120 + [5] * 150 + [6] * 60:
        labels = random_grades(rng, n)
        scores = random_scores(rng, labels)
        longest = n + int(rng.integers(3))
        losses, rows = all_losses(name, tuple(labels)), all_coefficients(feature_map, tuple(labels))
        expected = (losses - rows @ scores).max()
        size = max(1.0, np.abs(scores).max())
        for found in WAYS:
            loss, coef = found(name, feature_map, scores, labels, longest)
            assert abs(loss - coef @ scores - expected) < 1e-9 * size
            assert loss - coef @ scores > -1e-9 * size  # the ideal rankings have margin 0 on average
            assert abs(coef.sum()) < 1e-12 * n
            same = np.abs(rows - coef).max(axis=1) < 1e-9  # the rankings with these coefficients …
            assert (np.abs(losses[same] - loss) < 1e-9).any()  # … and this loss


@settings
def test_weights_of_positions_are_those_of_their_formulas(name, feature_map):
    measure = parse_measure(name).resolve("letor")
    for longest in (1, 2, 3, 7, 40):
        parameters = parse_measure(name).oracle(feature_map).parameters(longest)
        assert parameters.dtype == np.float64
        assert not parameters.flags.writeable
        assert parameters[0] == (measure.gain == "exponential")
        assert parameters[1] == min(measure.cutoff or longest, longest)
        assert parameters[2 : 2 + longest].tolist() == pytest.approx(position_weights(feature_map, longest), abs=1e-15)
        inside = np.arange(longest) < (measure.cutoff or longest)
        assert np.allclose(parameters[2 + longest :], measure.discounts(np.arange(longest)) * inside, atol=1e-15)
    assert position_weights("dorm:sqrt@2", 4).tolist() == pytest.approx([1.0, 2**-0.5, 0.0, 0.0])
    assert position_weights("dorm:log2", 3).tolist() == pytest.approx([1.0, 1 / math.log2(3), 0.5])


@pytest.mark.parametrize("n_grades", [2, 3])
@settings
def test_all_ways_agree_on_longer_lists(name, feature_map, n_grades):
    rng = np.random.default_rng(2)
    for n in [60] * 8 + [59, 17]:
        labels = np.arange(n, dtype=float) % n_grades
        rng.shuffle(labels)
        scores = random_scores(rng, labels)
        every = [found(name, feature_map, scores, labels, n + 1) for found in WAYS]
        size = n * max(1.0, np.abs(scores).max())
        for found in every:
            assert abs(violation(found, scores) - violation(every[0], scores)) < 1e-9 * size
            assert abs(found[1].sum()) < 1e-11
            assert -1e-12 <= found[0] <= 1 + 1e-12


def unbalanced_grades(rng, n, n_grades):
    """Some grades of a few documents, some of most."""
    shares = rng.random(n_grades) ** 3 + 0.01
    labels = np.append(np.arange(n_grades), rng.choice(n_grades, n - n_grades, p=shares / shares.sum()))
    return rng.permutation(labels).astype(float)


def scores_of_any_size(rng, labels):
    """From far below the margin, where losses decide, to far above, where scores do; with ties or heavy tails."""
    n, size = len(labels), 10.0 ** rng.uniform(-5, 2)
    kinds = (
        rng.normal(size=n),
        rng.integers(0, 4, n) * 1.0,
        np.exp(3 * rng.normal(size=n)),
        labels + rng.normal(size=n),
    )
    return size * kinds[rng.integers(len(kinds))]


@pytest.mark.parametrize("n_grades", [2, 3, 4, 5, 6, 9, 12])
def test_windows_equal_the_assignment(n_grades):
    rng = np.random.default_rng(n_grades)
    for name, feature_map in SETTINGS:
        for n in (20, 80, 150) if n_grades < 6 else (20, 60):
            labels = unbalanced_grades(rng, n, n_grades)
            scores = scores_of_any_size(rng, labels)
            found = windows(name, feature_map, scores, labels)
            expected = violation(library(name, feature_map, scores, labels), scores)
            assert abs(violation(found, scores) - expected) < 1e-9 * max(1.0, np.abs(scores).max())
            assert abs(found[1].sum()) < 1e-11


@pytest.mark.parametrize(
    ("name", "feature_map"),
    [("nDCG", "dorm:sqrt"), ("nDCG@200", "dorm:log2"), ("nDCG", "dorm:log2@100"), ("nDCG(discount=jk)", "dorm")],
)
def test_windows_equal_the_table_on_long_lists(name, feature_map):
    rng = np.random.default_rng(9)
    for n, relevant in ((1000, 250), (1500, 3), (600, 597), (1000, 500)):
        labels = rng.permutation(np.arange(n) < relevant).astype(float)
        scores = scores_of_any_size(rng, labels)
        one, other = programme(name, feature_map, scores, labels), windows(name, feature_map, scores, labels)
        assert abs(violation(one, scores) - violation(other, scores)) < 1e-9 * max(1.0, np.abs(scores).max())


@pytest.mark.parametrize(("name", "feature_map"), [("nDCG", "dorm"), ("nDCG@50", "dorm:log2@50"), ("nDCG@999", "dorm")])
def test_equal_decays_are_a_sort_for_any_number_of_grades(name, feature_map):
    rng = np.random.default_rng(10)
    for n, n_grades in ((150, 150), (150, 40), (101, 9), (33, 2)):
        labels = unbalanced_grades(rng, n, n_grades) / 10
        scores = scores_of_any_size(rng, labels)
        assert parse_measure(name).oracle(feature_map).cheap(labels)
        found, expected = programme(name, feature_map, scores, labels), library(name, feature_map, scores, labels)
        assert abs(violation(found, scores) - violation(expected, scores)) < 1e-9 * max(1.0, np.abs(scores).max())
        assert abs(found[1].sum()) < 1e-11


@pytest.mark.parametrize("feature_map", ["dorm", "dorm:sqrt"])
def test_twenty_thousand_documents(feature_map):
    rng = np.random.default_rng(11)
    n = 20_000
    labels = rng.permutation(np.repeat([0.0, 1.0, 2.0], [15_000, 4_000, 1_000]))
    scores = 0.05 * (labels + rng.normal(size=n))
    oracle = parse_measure("nDCG").oracle(feature_map)
    found = (programme if oracle.cheap(labels) else windows)("nDCG", feature_map, scores, labels)
    assert abs(found[1].sum()) < 1e-9
    weights = position_weights(feature_map, n)
    shared = np.array([weights[5_000:].mean(), weights[1_000:5_000].mean(), weights[:1_000].mean()])[labels.astype(int)]
    ranking = np.argsort(found[1] - shared, kind="stable")  # the lowest first: what was subtracted is A of the rank
    assert (shared - found[1])[ranking] == pytest.approx(weights, abs=1e-12)
    gains = (2.0**labels - 1.0) / (2.0 ** np.sort(labels)[::-1] - 1.0).dot(1 / np.log2(np.arange(2, n + 2)))
    discounts = 1 / np.log2(np.arange(2, n + 2))
    assert found[0] == pytest.approx(1 - gains[ranking] @ discounts)
    for one, other in rng.integers(0, n, (2, 5000)).T:  # no exchange of two documents is better
        change = (weights[one] - weights[other]) * (scores[ranking[other]] - scores[ranking[one]])
        change -= (discounts[one] - discounts[other]) * (gains[ranking[other]] - gains[ranking[one]])
        assert change < 1e-12


def test_cycles_of_the_residual_network_lead_to_the_best_path():
    rng = np.random.default_rng(12)
    for name, feature_map in SETTINGS:
        for n, n_grades in ((6, 3), (12, 5), (30, 8), (40, 2)):
            labels = np.sort(unbalanced_grades(rng, n, n_grades))[::-1]
            scores = scores_of_any_size(rng, labels)
            order = np.lexsort((-scores, -labels))
            first = np.append(np.flatnonzero(np.diff(labels, prepend=np.inf)), n)
            decay, discount, gains, _ = positions._prepared(labels, parameters_of(name, feature_map, n))
            path = np.repeat(np.arange(n_grades), np.diff(first))
            query = (first, scores[order], gains[first[:-1]], decay, discount)
            while positions._rotate(path, *query):
                pass
            best = positions.best_path(*query)
            values = [positions._value(one, *query)[0] for one in (path, best)]
            assert abs(values[0] - values[1]) < 1e-9 * max(1.0, np.abs(scores).max())


@settings
def test_subgradient_inequality(name, feature_map):
    rng = np.random.default_rng(4)
    for _ in range(60):
        labels = random_grades(rng, int(rng.integers(2, 15)))
        here = random_scores(rng, labels)
        there = here + rng.normal(size=len(here)) * rng.choice([1e-3, 0.1, 10.0])
        for found in WAYS:
            loss, coef = found(name, feature_map, here, labels)
            value_there = programme(name, feature_map, there, labels)
            bound = loss - coef @ there
            assert value_there[0] - value_there[1] @ there >= bound - 1e-9 * len(here) * max(1.0, np.abs(there).max())


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(5)
    labels, scores = random_grades(rng, 25), rng.normal(size=25)
    loss, coef = programme("nDCG@5", "dorm", scores, labels)
    shuffled = rng.permutation(25)
    for found in WAYS:
        loss_again, coef_again = found("nDCG@5", "dorm", scores[shuffled], labels[shuffled])
        assert loss_again == pytest.approx(loss, abs=1e-12)
        assert np.allclose(coef_again, coef[shuffled], atol=1e-12)


def test_documents_of_one_grade_share_the_weights_of_their_places():
    labels = np.array([2.0, 0, 1, 1, 0])
    weights = position_weights("dorm", 5)
    scores = np.array([300.0, 100, 200, 200, 100])  # apart by so much that the ranking is right
    for found in WAYS:
        loss, coef = found("nDCG", "dorm", scores, labels)
        assert loss == pytest.approx(0, abs=1e-12)
        assert coef @ scores == pytest.approx(0, abs=1e-10)  # equal scores within a grade: no ideal ranking is better
        assert sorted(coef) == pytest.approx(
            sorted([0, *(np.mean(weights[1:3]) - weights[1:3]), *(np.mean(weights[3:]) - weights[3:])]), abs=1e-12
        )


def test_labels_may_be_fractions():
    rng = np.random.default_rng(6)
    for _ in range(100):
        labels = rng.choice([0.0, 0.25, 1.5, 2.75], 5)
        labels[:2] = 0.25, 1.5
        scores = rng.normal(size=5)
        expected = (all_losses("nDCG@3", tuple(labels)) - all_coefficients("dorm", tuple(labels)) @ scores).max()
        for found in WAYS:
            loss, coef = found("nDCG@3", "dorm", scores, labels)
            assert abs(loss - coef @ scores - expected) < 1e-9


def test_the_size_of_the_table_decides():
    cheap = parse_measure("ndcg").oracle("dorm:sqrt").cheap
    assert cheap(np.repeat([0.0, 1.0], [90, 10]))
    assert not cheap(np.repeat([0.0, 1.0], 500))
    assert cheap(np.repeat(np.arange(5.0), 2))
    assert not cheap(np.repeat(np.arange(5.0), 120))
    assert not cheap(np.repeat(np.arange(13.0), 2))
    at_ten = parse_measure("ndcg@10").oracle("dorm").cheap
    assert at_ten(np.repeat([0.0, 1.0], 5000))  # the cutoff makes it small …
    assert at_ten(np.repeat(np.arange(5.0), 4000))
    assert not at_ten(np.repeat(np.arange(8.0), 120))  # … but not with many grades


def test_only_equal_decays_are_a_sort():
    labels = np.repeat([0.0, 1.0], 500)
    assert parse_measure("ndcg").oracle("dorm").cheap(labels)
    assert parse_measure("ndcg(gain=linear)").oracle("dorm:log2@1000").cheap(labels)
    assert parse_measure("ndcg@600").oracle("dorm:log2@600").cheap(labels)
    for name, feature_map in (
        ("ndcg", "dorm:sqrt"), ("ndcg@600", "dorm"), ("ndcg", "dorm:log2@600"), ("ndcg@600", "dorm:log2@500"),
        ("ndcg(discount=jk)", "dorm"),
    ):  # fmt: skip
        assert not parse_measure(name).oracle(feature_map).cheap(labels)


@pytest.mark.parametrize("cutoff", ["@10", "@1500"])
def test_thousands_of_grades_are_no_programme(cutoff):
    assert not parse_measure(f"ndcg{cutoff}").oracle("dorm").cheap(np.arange(2000.0))
    rng = np.random.default_rng(7)
    labels, scores = rng.permutation(300) / 30, rng.normal(size=300)
    loss, coef = windows(f"nDCG{cutoff}", "dorm", scores, labels)
    assert 0 < loss < 1
    assert abs(coef.sum()) < 1e-10


DECAYS = {
    "dorm:cube": "the decay of the feature map is 'cube'; expected log2 or sqrt, or log2@30 to end it at rank 30",
    "dorm:sqrt@0": "the decay of the feature map is 'sqrt@0'",
    "dorm:sqrt@": "the decay of the feature map is 'sqrt@'",
    "dorm:sqrt@-3": "the decay of the feature map is 'sqrt@-3'",
    "dorm:sqrt@ten": "the decay of the feature map is 'sqrt@ten'",
    "dorm:sqrt@²": "the decay of the feature map is 'sqrt@²'",
    "dormouse": "nDCG cannot be trained with the feature map 'dormouse'; expected po or dorm",
    "mrr": "nDCG cannot be trained with the feature map 'mrr'; expected po or dorm",
    "po:sqrt": "nDCG cannot be trained with the feature map 'po:sqrt'; expected po or dorm",
}


@pytest.mark.parametrize("feature_map", DECAYS)
def test_a_wrong_decay_is_told_in_one_line(feature_map):
    with pytest.raises(InputError) as caught:
        parse_measure("nDCG").oracle(feature_map)
    assert str(caught.value).startswith(DECAYS[feature_map])
    assert "\n" not in str(caught.value)


def test_scores_that_are_nan_still_give_a_ranking():
    rng = np.random.default_rng(8)
    kinds = [np.full(12, np.nan), np.where(np.arange(12) % 3, np.nan, 1.0), rng.choice([np.inf, -np.inf], 12)]
    for (name, feature_map), n_grades, scores in itertools.product(SETTINGS, (2, 3), kinds):
        labels = np.arange(12.0) % n_grades
        weights = position_weights(feature_map, 12)
        shared = weights.reshape(n_grades, -1).mean(axis=1)[::-1][labels.astype(int)]
        for found in (programme, windows):
            _, coef = found(name, feature_map, scores, labels)
            assert sorted(shared - coef) == pytest.approx(sorted(weights), abs=1e-12)
