"""Rank-biased overlap against its definition, and the number of queries needed against simulation and statsmodels."""

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from rankwright import evaluate, queries_needed, rank_biased_overlap
from rankwright.errors import InputError
from rankwright.evaluation.comparison import compare


def run_of(*lists):
    return {str(q): {d: float(-at) for at, d in enumerate(one)} for q, one in enumerate(lists)}


def extrapolated(one, other, p, last=4000):
    """The infinite sum: seen overlap, then what the paper assumes of ranks that are not seen."""
    short, long = sorted((one, other), key=len)
    s, n = len(short), len(long)
    common = [len(set(short[:d]) & set(long[:d])) for d in range(1, n + 1)]
    agreement = []
    for d in range(1, last + 1):
        if d <= s:
            agreement.append(common[d - 1] / d)
        elif d <= n:  # the shorter list goes on as it was
            agreement.append((common[d - 1] + common[s - 1] * (d - s) / s) / d)
        else:
            agreement.append((common[n - 1] - common[s - 1]) / n + common[s - 1] / s)
    return (1 - p) * sum(p ** (d - 1) * a for d, a in enumerate(agreement, 1))


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
def test_overlap_is_the_infinite_sum(p):
    rng = np.random.default_rng(0)
    letters = list("abcdefghijkl")
    ours = [rng.permutation(letters)[: rng.integers(1, 13)].tolist() for _ in range(40)]
    theirs = [rng.permutation(letters)[: rng.integers(1, 13)].tolist() for _ in range(40)]
    found = rank_biased_overlap(run_of(*ours), run_of(*theirs), p=p)
    expected = [extrapolated(one, other, p) for one, other in zip(ours, theirs, strict=True)]
    assert found.values == pytest.approx(expected, abs=1e-9)
    assert rank_biased_overlap(run_of(*theirs), run_of(*ours), p=p).mean == pytest.approx(found.mean)


def test_overlap_at_its_ends():
    same = rank_biased_overlap(run_of("abc"), run_of("abc"))
    assert same.mean == pytest.approx(1.0)
    assert rank_biased_overlap(run_of("abc"), run_of("def")).mean == 0.0
    cut = rank_biased_overlap(run_of("abcd"), run_of("abdc"), depth=2)
    assert (cut.mean, cut.depth) == (pytest.approx(1.0), 2)
    partly = rank_biased_overlap({"1": {"a": 1}, "2": {"a": 1}}, {"2": {"a": 1}, "3": {"a": 1}})
    assert (partly.query_ids.tolist(), partly.left_out) == (["2"], 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"p": 1.0}, "p is 1.0; expected a number between 0 and 1"), ({"depth": 0}, "depth is 0; expected at least 1")],
)
def test_bad_settings_of_overlap(settings, message):
    with pytest.raises(InputError, match=message):
        rank_biased_overlap(run_of("a"), run_of("a"), **settings)
    with pytest.raises(InputError, match="no query in common"):
        rank_biased_overlap({"1": {"a": 1}}, {"2": {"a": 1}})


def with_effect(effect):
    values = np.tile([-1.0, 1.0], 20)
    return values / values.std(ddof=1) + effect


@pytest.mark.parametrize("effect", [5, -2, 0.7, 0.2, -0.05, 0.01])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9)])
def test_queries_needed_are_those_of_statsmodels(effect, alpha, power):
    expected = TTestPower().solve_power(abs(effect), alpha=alpha, power=power)
    assert queries_needed(with_effect(effect), alpha=alpha, power=power) == math.ceil(expected)


@pytest.mark.parametrize("effect", [0.25, 0.6])
def test_with_so_many_queries_four_of_five_experiments_find_it(effect):
    from scipy import stats

    n, rng = queries_needed(with_effect(effect)), np.random.default_rng(0)
    drawn = rng.normal(effect, 1.0, (20_000, n))
    found = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 20_000) + 0.01)  # n is whole
    fewer = stats.ttest_1samp(drawn[:, : n - max(2, n // 10)], 0.0, axis=1).pvalue < 0.05
    assert fewer.mean() < 0.79


def test_where_no_number_of_queries_would_do():
    assert queries_needed([0.1, -0.1, 0.2, -0.2]) is None
    assert queries_needed([0.1]) is None
    assert queries_needed(with_effect(0.001)) is None
    assert queries_needed([0.2, 0.2, 0.2]) == 2
    with pytest.raises(InputError, match="expected 0 < alpha < power < 1"):
        queries_needed([1, 2], power=1.0)


def test_compare_divides_the_level_by_the_systems():
    rng = np.random.default_rng(1)
    labels, qid = rng.integers(0, 2, 200), np.repeat(np.arange(20), 10)
    systems = [
        evaluate(labels, rng.normal(size=200) + 0.4 * at * labels, qid, measures=["AP"], name=str(at))
        for at in range(3)
    ]
    for correction, alpha in (("holm", 0.025), ("none", 0.05)):
        result = compare(systems, tests=["t"], correction=correction, n_resamples=99, power=0.9)
        gains = systems[2].values[:, 0] - systems[0].values[:, 0]
        assert result.differences[1].queries_needed == queries_needed(gains, alpha=alpha, power=0.9)
        told = f"for 90% power of a two-tailed paired t-test at p < {alpha:g}, if the true difference"
        assert told in result.method[-1]
