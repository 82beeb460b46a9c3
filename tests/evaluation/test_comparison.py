"""Significance against enumeration and textbook formulas; comparison; how tables are shown."""

import csv
import io
import itertools
import json
import math
import warnings
from math import comb

import numpy as np
import pytest
from scipy import stats

from rankwright import InputError, compare, evaluate
from rankwright.evaluation.render import render
from rankwright.evaluation.significance import (
    TESTS,
    _random_sums,
    bootstrap_interval,
    bootstrap_intervals,
    corrected,
    p_value,
)

RNG = np.random.default_rng(0)


def systems(n_queries=20, shifts=(0.0, 0.3, 1.5), measures=("AP", "nDCG@10")):
    """One evaluation per shift: scores that know the labels the better the larger the shift."""
    rng = np.random.default_rng(3)
    qid = np.repeat(np.arange(n_queries), 30)
    labels = (rng.random(len(qid)) < 0.2) * 1
    made = []
    for i, shift in enumerate(shifts):
        scores = rng.normal(size=len(qid)) + shift * labels
        made.append(evaluate(labels, scores, qid, measures=measures, name=f"s{i}"))
    return made


def test_randomization_is_exact_for_few_queries():
    gains = np.array([0.3, -0.1, 0.25, 0.4, 0.05, 0.15])
    means = [abs(np.mean(gains * signs)) for signs in itertools.product((-1, 1), repeat=6)]
    expected = np.mean(np.array(means) >= abs(gains.mean()) - 1e-12)
    assert p_value("randomization", gains) == pytest.approx(expected)


def test_sign_is_the_binomial_tail():
    gains = [1.0] * 9 + [-1.0] * 2 + [0.0] * 5
    expected = 2 * sum(comb(11, k) for k in (9, 10, 11)) / 2**11
    assert p_value("sign", gains) == pytest.approx(expected)


def test_wilcoxon_is_exact_for_few_queries():
    gains = np.array([0.31, -0.12, 0.25, 0.4, 0.05, 0.15, 0.02])
    ranks = np.argsort(np.argsort(np.abs(gains))) + 1
    smallest = min(ranks[gains > 0].sum(), ranks[gains < 0].sum())
    sums = [ranks[list(signs)].sum() for signs in itertools.product((False, True), repeat=7)]
    assert p_value("wilcoxon", gains) == pytest.approx(min(1.0, 2 * np.mean(np.array(sums) <= smallest)))


@pytest.mark.parametrize("n", [2, 5, 8, 13])
def test_randomization_counts_all_signs_of_few_queries(n):
    signs = np.array(list(itertools.product((-1, 1), repeat=n)))
    for draw in range(6):
        gains = gains_of(n, draw)
        if gains.any():
            sums = signs @ gains
            tail = min(np.mean(sums <= gains.sum() + 1e-9), np.mean(sums >= gains.sum() - 1e-9))
            assert p_value("randomization", gains) == pytest.approx(min(1.0, 2 * tail), abs=1e-12)
            assert p_value("randomization", 1e9 * gains) == p_value("randomization", gains)


@pytest.mark.parametrize("n", [14, 50, 333])
def test_randomization_is_that_of_scipy_up_to_the_draws(n):
    for draw in range(4):
        gains = gains_of(n, draw) - 0.2 * (draw % 3) + 0.1 / np.sqrt(n)
        settings = {"permutation_type": "samples", "vectorized": True, "n_resamples": 19999}
        theirs = stats.permutation_test((gains,), np.mean, rng=np.random.default_rng(3), **settings).pvalue
        ours = p_value("randomization", gains, n_resamples=19999, random_state=8)
        error = 2 * np.sqrt(2 * (theirs / 2) * (1 - theirs / 2) / 19999)  # both tails are estimated
        assert ours == pytest.approx(theirs, abs=4.5 * error + 1e-4)
        assert ours == p_value("randomization", gains, n_resamples=19999, random_state=8)


def test_random_signs_are_fair_and_independent():
    """Powers of two spell the signs out: every sign, and every product of two, must be + and − about equally often."""
    n, draws = 20, 40_000
    sums = _random_sums(2 ** np.arange(n, dtype=np.int64), draws, 5)
    signs = 2 * ((sums[:, None] + 2**n - 1) // 2 >> np.arange(n) & 1) - 1
    assert np.array_equal(signs @ (2 ** np.arange(n)), sums)
    products = signs.T @ signs / draws
    assert np.abs(products - np.eye(n)).max() < 5 / np.sqrt(draws)
    assert np.abs(signs.mean(axis=0)).max() < 5 / np.sqrt(draws)


def gains_of(n, draw):
    """Differences with ties and zeros, or with neither."""
    rng = np.random.default_rng([n, draw])
    gains = rng.normal(0.2 * (draw % 3), 0.4, n).round(1 if draw % 4 else 6)
    gains[rng.random(n) < (0.3 if draw % 2 else 0.0)] = 0.0
    return gains


def scipy_wilcoxon(gains):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few queries, where it is not exact
        return stats.wilcoxon(gains, zero_method="wilcox").pvalue


@pytest.mark.parametrize("n", [*range(1, 12), 14, 20, 60])
def test_wilcoxon_is_that_of_scipy(n):
    for draw in range(12 if n < 10 or n > 13 else 2):
        gains = gains_of(n, draw)
        expected = scipy_wilcoxon(gains) if n > 1 and gains.any() else 1.0
        assert p_value("wilcoxon", gains) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", range(2, 14))  # scipy needs seconds for the largest of these
def test_wilcoxon_with_ties_and_zeros_counts_all_signs(n):
    signs = np.array(list(itertools.product((False, True), repeat=n)))
    for draw in range(6):
        gains = gains_of(n, draw)
        if gains.any():
            ranks = stats.rankdata(np.abs(gains[gains != 0]))
            sums = signs[:, : len(ranks)] @ ranks
            reached = ranks[gains[gains != 0] > 0].sum()
            tail = min(np.mean(sums <= reached + 1e-9), np.mean(sums >= reached - 1e-9))
            assert p_value("wilcoxon", gains) == pytest.approx(min(1.0, 2 * tail), abs=1e-12)


def test_t_is_the_student_integral():
    gains = RNG.normal(0.1, 0.2, 12)
    t = gains.mean() / (gains.std(ddof=1) / math.sqrt(12))
    x = np.linspace(abs(t), 200, 2_000_001)
    density = math.gamma(6) / (math.sqrt(11 * math.pi) * math.gamma(5.5)) * (1 + x**2 / 11) ** -6
    assert p_value("t", gains) == pytest.approx(2 * np.trapezoid(density, x), rel=1e-5)


@pytest.mark.parametrize("test", TESTS)
def test_no_difference_no_significance_and_rounding_does_not_matter(test):
    assert p_value(test, np.zeros(10)) == 1.0
    assert p_value(test, [0.5]) == 1.0
    gains = RNG.normal(0.1, 0.2, 40)
    assert p_value(test, gains) == p_value(test, gains + 1e-15)
    assert p_value(test, gains) == pytest.approx(p_value(test, -gains), abs=0.01)
    assert 0 <= p_value(test, np.full(10, 0.1)) < 0.01


@pytest.mark.parametrize("test", TESTS)
def test_p_values_are_uniform_when_nothing_differs(test):
    rng = np.random.default_rng(7)
    p = [p_value(test, rng.normal(size=25), n_resamples=499) for _ in range(200)]
    assert 0.01 <= np.mean(np.array(p) < 0.05) <= 0.11


def test_corrections():
    assert corrected([0.01, 0.04, 0.03], "bonferroni") == pytest.approx([0.03, 0.12, 0.09])
    assert corrected([0.01, 0.04, 0.03], "holm") == pytest.approx([0.03, 0.06, 0.06])
    assert corrected([0.6, 0.9], "holm") == [1.0, 1.0]
    assert corrected([0.2], "none") == [0.2]
    assert corrected([], "holm") == []
    with pytest.raises(InputError, match="unknown correction 'x'"):
        corrected([0.1], "x")
    with pytest.raises(InputError, match="unknown test 'x'"):
        p_value("x", [0.1, 0.2])


def test_bootstrap_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(0.3, 1.0, 40), n_resamples=499)
        covered += low <= 0.3 <= high
    assert 0.88 <= covered / 200 <= 0.99
    assert bootstrap_interval([0.2, 0.2]) == (0.2, 0.2)


@pytest.mark.parametrize("n", [2, 3, 5, 14, 80, 900])
def test_bootstrap_is_that_of_scipy(n):
    rng = np.random.default_rng(n)
    columns = [rng.normal(0.1, 0.3, n), rng.normal(0, 0.3, n).round(1), rng.exponential(size=n) ** 2, np.full(n, 0.1)]
    found = bootstrap_intervals([*columns, columns[0][1:]], confidence=0.9, n_resamples=999, random_state=5)
    for column, interval in zip(columns[:3], found, strict=False):
        if np.ptp(column) > 0:
            settings = {"confidence_level": 0.9, "n_resamples": 999, "method": "BCa"}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scipys = stats.bootstrap((column,), np.mean, rng=np.random.default_rng(5), **settings)
            assert interval == pytest.approx(tuple(scipys.confidence_interval), abs=1e-12)
    alone = bootstrap_interval(columns[0][1:], confidence=0.9, n_resamples=999, random_state=5)
    assert found[3:] == [(0.1, 0.1), alone]


def test_bootstrap_of_nothing():
    assert all(math.isnan(end) for end in bootstrap_interval([]))
    assert all(math.isnan(end) for end in bootstrap_interval([0.0, 0.1, 1.0], n_resamples=1))


def test_means_wins_and_the_same_seed_the_same_figures():
    made = systems()
    result = compare(made, random_state=4)
    assert result.baseline == "s0"
    assert len(result.differences) == 4
    for row in result.differences:
        system = next(e for e in made if e.name == row.system)
        gains = system.column(row.measure) - made[0].column(row.measure)
        assert row.difference == pytest.approx(gains.mean())
        assert (row.wins, row.losses) == ((gains > 1e-12).sum(), (gains < -1e-12).sum())
        assert row.wins + row.ties + row.losses == row.queries == 20
        assert row.interval[0] <= row.difference <= row.interval[1]
        assert all(row.p_corrected[test] >= row.p[test] for test in TESTS)
    assert compare(made, random_state=4) == result
    strong = next(row for row in result.differences if row.system == "s2" and row.measure == "AP")
    assert all(p < 0.01 for p in strong.p_corrected.values())


def test_queries_are_matched_by_id_and_unmatched_ones_reported():
    one = evaluate([1, 0, 0, 1], [1, 2, 1, 2], ["a", "a", "b", "b"], measures=["AP"], name="one")
    two = evaluate([0, 1, 1, 0], [1, 2, 1, 2], ["b", "b", "c", "c"], measures=["AP"], name="two")
    result = compare([one, two])
    assert result.differences[0].queries == 1
    assert result.notes == (
        "queries of two not in one: 1, left out",
        "queries of one not in two: 1, left out",
    )
    lone = evaluate([1, 0], [1, 2], ["z", "z"], measures=["AP"], name="lone")
    with pytest.raises(InputError, match="no query in common on AP"):
        compare([one, lone])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "nobody"}, "unknown baseline 'nobody'; expected one of s0, s1, s2"),
        ({"tests": ["z"]}, "unknown test 'z'; expected one of t, wilcoxon, sign, randomization"),
        ({"correction": "x"}, "unknown correction 'x'"),
        ({"confidence": 95}, "expected a number between 0 and 1"),
        ({"n_resamples": 0}, "expected at least 1"),
    ],
)
def test_bad_arguments_are_explained(change, message):
    with pytest.raises(InputError) as caught:
        compare(systems(), **change)
    assert message in str(caught.value)


def test_what_cannot_be_compared_is_refused():
    one = systems()[0]
    with pytest.raises(InputError, match="at least one other system"):
        compare([one])
    with pytest.raises(InputError, match="duplicate names"):
        compare([one, one])
    trec = evaluate([1, 0], [1, 2], [1, 1], measures=["nDCG@10"], name="x", convention="trec")
    letor = evaluate([1, 0], [1, 2], [1, 1], measures=["nDCG@10"], name="y")
    with pytest.raises(InputError, match=r"y was evaluated differently: .*2\^rel−1.*gain rel"):
        compare([trec, letor])


def test_the_baseline_can_be_named():
    result = compare(systems(), baseline="s2", tests=["t"], correction="none")
    assert {row.system for row in result.differences} == {"s0", "s1"}
    assert "not corrected" in render(result)


@pytest.mark.parametrize("kind", ["text", "markdown", "latex"])
def test_tables_hold_the_figures_and_the_definitions(kind):
    made = systems()
    text = render(made, kind)
    shown = render(compare(made), kind)
    for evaluation in made:
        assert f"{evaluation.means['AP']:.4f}" in text
        assert f"{evaluation.means['AP']:.4f}" in shown
    gain = "gain 2^rel−1, discount log2"
    assert gain in text
    assert gain in shown
    per_query = render(made, kind, per_query=True)
    assert per_query.count("\n") > 60


def test_latex_is_escaped_and_complete():
    one = evaluate([1, 0], [1, 2], [1, 1], measures=["AP"], name="my_run 50% & more")
    text = render([one], "latex")
    assert r"my\_run 50\% \& more & 0.5000 \\" in text
    assert text.index(r"\begin{tabular}{lr}") < text.index(r"\toprule") < text.index(r"\end{tabular}")


def test_csv_and_json_hold_full_figures():
    made = systems()
    rows = list(csv.DictReader(io.StringIO(render(made, "csv", per_query=True))))
    assert len(rows) == 60
    assert float(rows[0]["AP"]) == made[0].values[0, 0]
    table = json.loads(render(made, "json", per_query=True))
    assert table["systems"][2]["means"] == made[2].means
    assert table["systems"][2]["per_query"]["0"]["AP"] == made[2].values[0, 0]
    result = compare(made)
    rows = list(csv.DictReader(io.StringIO(render(result, "csv"))))
    assert float(rows[0]["p_corrected_t"]) == result.differences[0].p_corrected["t"]
    assert json.loads(render(result, "json"))["differences"][0]["wins"] == result.differences[0].wins
    skipped = evaluate([0, 0], [1, 2], [1, 1], measures=["AP"], name="x", empty="skip")
    assert json.loads(render([skipped], "json"))["systems"][0]["means"] == {"AP": None}
    assert render([skipped], "csv") == "system,AP\nx,\n"
    with pytest.raises(InputError, match="unknown format 'pdf'"):
        render(made, "pdf")
