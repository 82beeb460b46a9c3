"""The sequential test: bounds against brute force, exact differences, error rates by simulation, negative control."""

import itertools

import numpy as np
import pytest
from scipy import stats

from rankwright import evaluate_run
from rankwright.judging.pool import JudgingPool
from rankwright.judging.stopping import Sequential, bounds, largest_capital

NAMES = ("a", "b")


def decide(*given):
    return Sequential(*given).decision()


def ndcg_difference(first, second, grades, cutoff):
    """By definition."""

    def dcg(labels):
        return sum(label / np.log2(2 + rank) for rank, label in enumerate(labels[:cutoff]))

    best = dcg(sorted(grades.values(), reverse=True))
    return (dcg([grades[one] for one in first]) - dcg([grades[one] for one in second])) / best if best else 0.0


def test_bounds_hold_for_all_grades_to_come():
    rng = np.random.default_rng(0)
    tight = 0
    for _ in range(150):
        names = list("abcdefg")
        first, second = (rng.permutation(names)[:4].tolist() for _ in NAMES)
        pooled = sorted({*first, *second})
        unknown = rng.permutation(pooled)[: rng.integers(0, 4)].tolist()
        grades = {one: None if one in unknown else int(rng.integers(0, 4)) for one in pooled}
        low, high = bounds(first, second, grades, 4)
        found = [
            ndcg_difference(first, second, {**grades, **dict(zip(unknown, more, strict=True))}, 4)
            for more in itertools.product(range(4), repeat=len(unknown))
        ]
        assert -1.0 <= low <= min(found) + 1e-12
        assert 1.0 >= high >= max(found) - 1e-12
        if not unknown:
            assert low == high == pytest.approx(found[0], abs=1e-12)
            tight += 1
    assert tight > 10


def drawn(n_queries, rng, gain=0.0, depth=10):
    """A pool of two rankers and true grades; ``gain`` makes the first one better."""
    tops, grades = {"a": {}, "b": {}}, {}
    for number in range(n_queries):
        names = [f"d{one}" for one in range(25)]
        worth = rng.choice([0, 0, 0, 1, 2, 3], 25)
        grades |= {(f"q{number}", name): int(one) for name, one in zip(names, worth, strict=True)}
        for ranker, pull in (("a", 0.5 + gain), ("b", 0.5)):
            order = np.argsort(-(pull * worth + rng.normal(size=25)))
            tops[ranker][f"q{number}"] = [names[at] for at in order[:depth]]
    return JudgingPool(depth, tops), grades


def test_with_all_grades_the_differences_are_those_of_compare():
    pool, grades = drawn(20, np.random.default_rng(1))
    qrels = {query: {one: grades[query, one] for one in pool.documents(query)} for query in pool.queries}
    runs = [
        {query: {one: 10.0 - at for at, one in enumerate(top)} for query, top in pool.tops[name].items()}
        for name in NAMES
    ]
    ours, theirs = (evaluate_run(qrels, run, ["nDCG@10"]).column("nDCG@10") for run in runs)
    for at, query in enumerate(pool.queries):
        low, high = bounds(pool.tops["a"][query], pool.tops["b"][query], qrels[query], 10)
        assert low == high == pytest.approx(ours[at] - theirs[at], abs=1e-12)


def test_a_clear_difference_is_decided_and_none_is_not():
    pool, grades = drawn(60, np.random.default_rng(2), gain=1.5)
    found = decide(pool, NAMES, pool.queries, lambda query, one: grades[query, one])
    assert (found.better, found.queries) == ("a", 60)
    assert decide(pool, ("b", "a"), pool.queries, lambda query, one: grades[query, one]).better == "a"
    nothing = decide(pool, NAMES, pool.queries, lambda query, one: None)
    assert (nothing.better, nothing.capital, nothing.queries) == (None, (1.0, 1.0), 0)
    some = set(pool.queries[:30])
    part = decide(pool, NAMES, pool.queries, lambda query, one: grades[query, one] if query in some else None)
    whole = decide(pool.only(NAMES), NAMES, pool.queries[:30], lambda query, one: grades[query, one])
    assert part.capital == whole.capital  # queries that nobody has judged change nothing


def test_partial_judgements_never_claim_more_than_all():
    rng = np.random.default_rng(3)
    pool, grades = drawn(40, rng, gain=0.7)
    whole = decide(pool, NAMES, pool.queries, lambda query, one: grades[query, one]).capital
    for share in (0.3, 0.7, 0.95):
        known = {pair for pair in grades if rng.random() < share}
        part = decide(pool, NAMES, pool.queries, lambda q, one, k=known: grades[q, one] if (q, one) in k else None)
        assert part.capital[0] <= whole[0]
        assert part.capital[1] <= whole[1]


NULLS = {
    "normal": lambda rng, shape: np.clip(rng.normal(0, 0.25, shape), -1, 1),
    "mostly ties": lambda rng, shape: rng.choice([-0.4, 0.0, 0.4], shape, p=[0.1, 0.8, 0.1]),
    "rare large losses": lambda rng, shape: rng.choice([0.1, -0.9], shape, p=[0.9, 0.1]),
    "all or nothing": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
}


@pytest.mark.parametrize("null", NULLS)
def test_false_claims_stay_below_5_percent_however_often_one_looks(null):
    """400 comparisons of up to 150 queries; the largest capital is what somebody sees who looks after every one."""
    rng = np.random.default_rng(4)
    samples = NULLS[null](rng, (400, 150))
    claims = [max(largest_capital(one), largest_capital(-one)) >= 40 for one in samples]
    assert np.mean(claims) <= 0.05


def test_looking_after_every_query_with_a_t_test_claims_far_more():
    """The control: the simulation does find a test that is not honest."""
    rng = np.random.default_rng(4)
    samples = NULLS["normal"](rng, (200, 150))
    claims = [any(stats.ttest_1samp(one[:n], 0.0).pvalue < 0.05 for n in range(5, 150, 5)) for one in samples]
    assert np.mean(claims) > 0.15


def test_the_capital_of_impossible_and_extreme_values():
    assert largest_capital([]) == 1.0
    assert largest_capital([-1.0] * 1000) == 1.0
    assert np.isfinite(largest_capital([1.0] * 5000))


def test_one_judgement_after_the_other_is_the_same_as_all_at_once():
    pool, grades = drawn(15, np.random.default_rng(5), gain=1.0)
    known = {}
    watched = Sequential(pool, NAMES, pool.queries, lambda query, one: known.get((query, one)))
    for query in pool.queries:
        for one in pool.documents(query):
            known[query, one] = grades[query, one]
            watched.update(query)
    assert watched.decision() == decide(pool, NAMES, pool.queries, lambda query, one: grades[query, one])
