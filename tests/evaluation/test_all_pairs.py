"""All pairs, false discovery rate, effect sizes, corrected intervals: brute force, scipy, and simulated error rates."""

import itertools
import json

import numpy as np
import pytest
from scipy import stats

from rankwright import InputError, compare, evaluate
from rankwright.evaluation.comparison import Difference, disagreement, pairs_of
from rankwright.evaluation.render import render
from rankwright.evaluation.significance import (
    all_pairs,
    bootstrap_intervals,
    corrected,
    effect_size,
    interval_level,
    p_value,
)


def by_hand(values):
    """Exchange the systems in every row, in all ways."""
    n, k = values.shape
    ranges = []
    for orders in itertools.product(itertools.permutations(range(k)), repeat=n):
        means = np.mean([row[list(order)] for row, order in zip(values, orders, strict=True)], axis=0)
        ranges.append(means.max() - means.min())
    means = values.mean(axis=0)
    apart = np.abs(means[:, None] - means[None, :])
    p = (np.array(ranges)[:, None, None] >= apart - 1e-12).mean(axis=0)
    np.fill_diagonal(p, 1.0)
    return p


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (2, 4)])
def test_all_pairs_of_few_queries_count_all_exchanges(shape):
    for seed in range(4):
        values = np.random.default_rng(seed).random(shape).round(1)  # with ties
        np.testing.assert_allclose(all_pairs(values), by_hand(values), atol=1e-12)
        np.testing.assert_array_equal(all_pairs(values), all_pairs(values + np.arange(shape[0])[:, None]))


def test_random_exchanges_estimate_all_of_them():
    values = np.random.default_rng(1).random((5, 3))  # 7,776 ways
    exact, drawn = all_pairs(values, n_resamples=7776), all_pairs(values, n_resamples=7775, random_state=3)
    np.testing.assert_allclose(drawn, exact, atol=4.5 * np.sqrt(0.25 / 7775))
    np.testing.assert_array_equal(drawn, all_pairs(values, n_resamples=7775, random_state=3))
    assert (all_pairs(np.ones((5, 3))) == 1).all()


def test_all_pairs_do_not_depend_on_the_order_of_systems_and_queries():
    rng = np.random.default_rng(2)
    values, systems, queries = rng.random((40, 4)), rng.permutation(4), rng.permutation(40)
    shuffled = all_pairs(values[queries][:, systems], n_resamples=99)
    np.testing.assert_array_equal(shuffled, all_pairs(values, n_resamples=99)[np.ix_(systems, systems)])


def test_two_systems_are_the_randomisation_test():
    values = np.random.default_rng(2).normal(size=(9, 2))
    p = p_value("randomization", values[:, 0] - values[:, 1])
    assert all_pairs(values)[0, 1] == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_family_wise_error_rate_of_all_pairs(shift):
    """Three or four equal systems, and maybe a better one: how often any pair of equal ones is called different."""
    wrong, runs = 0, 300
    rng = np.random.default_rng(7)
    for _ in range(runs):
        values = rng.normal(size=(20, 1)) + rng.exponential(size=(20, 4)) * rng.random((20, 1))
        values[:, 3] += shift
        equal = 3 if shift else 4
        wrong += (all_pairs(values, n_resamples=199, random_state=1)[:equal, :equal] < 0.05).any()
    assert wrong / runs < 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
    assert shift or wrong  # it is not merely blind


def test_false_discovery_rate_is_that_of_scipy():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 40):
        p = rng.random(size) ** 3
        np.testing.assert_allclose(corrected(p, "fdr"), stats.false_discovery_control(p), atol=1e-15)
        assert all(a <= b + 1e-15 for a, b in zip(corrected(p, "fdr"), corrected(p, "holm"), strict=True))


def test_false_discoveries_are_as_rare_as_promised():
    rng = np.random.default_rng(4)
    shares = []
    for _ in range(300):
        gains = rng.normal(size=(20, 30)) + 0.8 * (np.arange(20) < 5)[:, None]
        found = np.array(corrected(stats.ttest_1samp(gains, 0, axis=1).pvalue, "fdr")) < 0.05
        shares.append(found[5:].sum() / max(found.sum(), 1))
    assert np.mean(shares) < 0.05 + 3 * np.std(shares) / np.sqrt(300)


def test_effect_sizes():
    gains = np.array([0.1, 0.3, -0.2, 0.4])
    assert effect_size(gains) == pytest.approx(stats.ttest_1samp(gains, 0).statistic / 2)
    assert np.isnan(effect_size([0.2, 0.2, 0.2]))
    assert np.isnan(effect_size([1e-17, -1e-17, 0]))


def test_levels_of_intervals():
    p = [0.001, 0.004, 0.5, 0.9]
    assert interval_level(0.95, p, "none") == interval_level(0.95, p[:1], "holm") == pytest.approx(0.95)
    assert interval_level(0.95, p, "holm") == interval_level(0.95, p, "bonferroni") == pytest.approx(0.9875)
    assert interval_level(0.95, p, "fdr") == pytest.approx(0.975)  # two of four are found
    assert interval_level(0.95, [0.5] * 4, "fdr") == pytest.approx(0.9875)


def test_corrected_intervals_hold_together():
    together = alone = 0
    rng = np.random.default_rng(11)
    runs, level = 150, interval_level(0.95, [1.0] * 5, "holm")
    for _ in range(runs):
        gains = rng.normal(0.3, 1, (5, 50))
        for confidence in (level, 0.95):
            intervals = bootstrap_intervals(gains, confidence=confidence, n_resamples=999)
            hold = all(low <= 0.3 <= high for low, high in intervals)
            together, alone = (together + hold, alone) if confidence == level else (together, alone + hold)
    assert together / runs > 0.90  # of small samples, these intervals are a little narrow
    assert alone < together


def systems(shifts=(0.0, 0.2, 1.0), n_queries=15):
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(n_queries), 20)
    labels = (rng.random(len(qid)) < 0.2) * 1
    return [
        evaluate(labels, rng.normal(size=len(qid)) + shift * labels, qid, measures=["AP", "RR"], name=f"s{at}")
        for at, shift in enumerate(shifts)
    ]


def test_compare_with_all_pairs():
    evaluations = systems()
    result = compare(evaluations, tests=["t"], pairs=True, n_resamples=499)
    assert [(pair.system, pair.other) for pair in result.pairs] == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")] * 2
    values = np.column_stack([one.column("AP") for one in evaluations])
    p = all_pairs(values, n_resamples=499)
    assert [pair.p for pair in result.pairs[:3]] == [p[0, 1], p[0, 2], p[1, 2]]
    gains = evaluations[1].column("AP") - values[:, 0]
    assert result.differences[0].interval == bootstrap_intervals([gains], confidence=0.975, n_resamples=499)[0]
    pair = result.pairs[1]
    assert pair.difference == pytest.approx((values[:, 0] - values[:, 2]).mean())
    assert pair.effect_size == pytest.approx(effect_size(values[:, 0] - values[:, 2]))
    text = render(result)
    assert "p Tukey" in text
    assert "mean difference, for all systems compared on a measure together (Bonferroni's); 499 resamples" in text
    assert "together" not in compare(evaluations, tests=["t"], correction="none").method[1]
    assert render(result, "csv").splitlines()[0] == "measure,system,other,queries,difference,effect_size,p"
    assert len(json.loads(render(result, "json"))["pairs"]) == 6
    assert compare(evaluations, tests=["t"]).pairs == ()


def test_all_pairs_are_compared_on_the_queries_of_all():
    evaluations = systems()
    labels, qid = [1, 0] * 4, [9, 9, 10, 10, 11, 11, 99, 99]
    few = evaluate(labels, [1, 0] * 4, qid, measures=["AP", "RR"], name="few")
    assert {pair.queries for pair in pairs_of([*evaluations, few])} == {3}
    none = evaluate([1, 0], [1, 0], [99, 99], measures=["AP", "RR"], name="none")
    with pytest.raises(InputError, match="no query in common on AP"):
        pairs_of([*evaluations, none])


def row(interval, p):
    return Difference("s", "AP", 9, 0.5, 0.4, 0.1, 5, 0, 4, interval, {"t": p, "sign": p}, {"t": p, "sign": p})


def test_where_interval_and_test_disagree():
    assert disagreement(row((0.1, 0.2), 0.01), "t", "holm") == ""
    assert disagreement(row((-0.1, 0.2), 0.3), "t", "holm") == ""
    assert "includes 0, but p = 0.01 by the paired t-test" in disagreement(row((-0.1, 0.2), 0.01), "t", "none")
    assert "Bonferroni's intervals are wider" in disagreement(row((-0.1, 0.2), 0.01), "t", "holm")
    assert "how many queries are better" in disagreement(row((0.1, 0.2), 0.4), "sign", "holm")
    assert disagreement(row((0.1, 0.2), 0.07), "t", "none", 0.9) == ""  # of another level
    assert disagreement(row((float("nan"), float("nan")), 0.01), "t", "none") == ""
