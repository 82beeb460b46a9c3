"""Click models against brute force, numerical derivatives and simulated users with known habits."""

from itertools import product

import numpy as np
import pytest
from simulated import position_users, reading_users

from rankwright import ClickLog, InputError, click_model
from rankwright.clicks.kernels import walk
from rankwright.clicks.models import Pages


def position_likelihood(log, alpha, theta):
    """The log-likelihood of the position-based model, impression by impression; ``theta`` by position."""
    total = 0.0
    for pair, position, clicks, shown in zip(log.pair, log.position, log.clicks, log.shown, strict=True):
        mu = alpha[pair] * theta[position - 1]
        total += (clicks * np.log(mu) if clicks else 0.0) + ((shown - clicks) * np.log(1 - mu) if shown > clicks else 0)
    return total


def counted(log):
    """The same log with one row for every pair and position, so that brute force takes less time."""
    cells = {}
    for pair, position, clicks, shown in zip(log.pair, log.position, log.clicks, log.shown, strict=True):
        clicks_before, shown_before = cells.get((pair, position), (0, 0))
        cells[pair, position] = (clicks_before + clicks, shown_before + shown)
    query = [log.pair_query[pair] for pair, _ in cells]
    document = [log.pair_doc[pair] for pair, _ in cells]
    clicks, shown = zip(*cells.values(), strict=True)
    return ClickLog.from_columns(query, document, [position for _, position in cells], clicks, count=shown)


@pytest.fixture(scope="module")
def users():
    return position_users()


@pytest.fixture(scope="module")
def readers():
    return reading_users()


@pytest.mark.parametrize("theta", [None, [0.6, 1.0, 0.5, 0.7, 0.2], [1.0] * 5])
def test_propensities_are_those_of_the_users(theta):
    users = position_users(seed=3, n_pages=8000, theta=theta)
    found = click_model(users.log).propensities
    assert np.abs(found.value - users.theta).max() < 0.05
    assert (np.abs(found.value - users.theta) < 4 * np.maximum(found.error, 0.003)).all()


def test_click_rates_are_no_propensities(users):
    # The control: better documents were shown further up, and COEC takes their clicks for the position's.
    naive = click_model(users.log, "coec").propensities.value
    assert np.abs(naive - users.theta).max() > 0.05


def test_intervals_contain_the_truth(users):
    result = click_model(users.log)
    assert 0.9 <= np.mean((result.lower <= users.truth) & (users.truth <= result.upper)) <= 1.0
    assert (result.lower <= result.estimate).all()
    assert (result.estimate <= result.upper).all()
    naive = click_model(users.log, "coec")
    assert np.mean((naive.lower <= users.truth) & (users.truth <= naive.upper)) < 0.7


def test_more_impressions_give_narrower_intervals():
    few, many = (position_users(n_pages=n) for n in (2000, 8000))
    assert np.nanmean(click_model(many.log).error) < 0.6 * np.nanmean(click_model(few.log).error)


@pytest.mark.parametrize("model", ["pbm", "dbn"])
def test_em_never_lowers_the_likelihood(users, readers, model):
    history = click_model((users if model == "pbm" else readers).log, model).history
    assert len(history) > 10
    assert (np.diff(history) >= -1e-12 * abs(history[0])).all()
    assert history[-1] > history[0]


def test_the_position_based_optimum_is_one(users):
    log = counted(users.log)
    result = click_model(log, min_impressions=1)
    alpha, theta = result.estimate, result.propensities.value
    best = position_likelihood(log, alpha, theta)
    assert best == pytest.approx(result.history[-1], rel=1e-9)
    step = 1e-4
    inside = np.flatnonzero((alpha > 0.01) & (alpha < 0.99))
    for at in inside[:10]:
        moved = np.zeros_like(alpha)
        moved[at] = step
        slope = (position_likelihood(log, alpha + moved, theta) - position_likelihood(log, alpha - moved, theta)) / step
        assert abs(slope) < 0.5  # Σ of thousands of impressions; a change of 0.01 would give tens
        assert position_likelihood(log, alpha + 100 * moved, theta) < best - 1e-3
    for at in range(1, 5):
        moved = np.zeros_like(theta)
        moved[at] = step
        slope = (position_likelihood(log, alpha, theta + moved) - position_likelihood(log, alpha, theta - moved)) / step
        assert abs(slope) < 0.5
        assert position_likelihood(log, alpha, theta + 100 * moved) < best - 1e-3


def page_probability(clicked, alpha, sigma, gamma):
    """The probability of one page's clicks: the sum over all ways of being satisfied and of going on."""
    n, total = len(clicked), 0.0
    for content, goes_on in product(product([0, 1], repeat=n), repeat=2):
        chance, reads = 1.0, True
        for at in range(n):
            chance *= sigma[at] if content[at] else 1 - sigma[at]
            chance *= gamma if goes_on[at] else 1 - gamma
            if reads:
                chance *= alpha[at] if clicked[at] else 1 - alpha[at]
            elif clicked[at]:
                chance = 0.0
            reads = reads and bool(goes_on[at]) and not (clicked[at] and content[at])
        total += chance
    return total


@pytest.mark.parametrize("clicked", list(product([0, 1], repeat=3)))
def test_the_likelihood_of_a_page_is_the_sum_over_what_is_hidden(clicked):
    rng = np.random.default_rng(0)
    alpha, sigma, gamma = rng.random(3), rng.random(3), 0.7
    spaces = np.zeros(3), np.zeros(3), np.zeros(3)
    value = walk(np.array([0, 3]), np.arange(3), np.array(clicked, float), alpha, sigma, gamma, *spaces)[2]
    assert value == pytest.approx(np.log(page_probability(clicked, alpha, sigma, gamma)))


def test_the_optimum_of_the_bayesian_network_is_one(readers):
    result = click_model(readers.log, "dbn", min_impressions=1)
    alpha, gamma = result.details["attraction"], result.details["continuation"]
    sigma = np.nan_to_num(result.details["satisfaction"])
    pages = Pages.of(readers.log, "dbn")

    def value(alpha, sigma, gamma):
        spaces = np.zeros(len(alpha)), np.zeros(len(alpha)), np.zeros(len(pages.pair))
        return walk(pages.indptr, pages.pair, pages.clicked, alpha, sigma, gamma, *spaces)[2]

    assert value(alpha, sigma, gamma) == pytest.approx(result.history[-1])
    step = 1e-5
    assert abs(value(alpha, sigma, gamma + step) - value(alpha, sigma, gamma - step)) / step < 2
    assert value(alpha, sigma, gamma + 0.02) < result.history[-1] > value(alpha, sigma, gamma - 0.02)
    for at in range(5):
        moved = np.zeros_like(alpha)
        moved[at] = step
        assert abs(value(alpha + moved, sigma, gamma) - value(alpha - moved, sigma, gamma)) / step < 2
        if 0.05 < sigma[at] < 0.95:
            assert abs(value(alpha, sigma + moved, gamma) - value(alpha, sigma - moved, gamma)) / step < 2


def test_the_bayesian_network_finds_how_users_read(readers):
    result = click_model(readers.log, "dbn")
    assert result.details["continuation"] == pytest.approx(0.8, abs=0.03)
    assert np.abs(result.propensities.value - readers.theta).max() < 0.05
    assert np.corrcoef(result.estimate, readers.truth)[0, 1] > 0.9
    # Users who give up are no part of the simplified model: it takes all pages without clicks as read to their end.
    simple = click_model(readers.log, "sdbn")
    assert np.abs(simple.propensities.value - readers.theta).max() > 0.05


def test_the_cascade_model_counts_up_to_the_first_click():
    readers = reading_users(satisfied=1.0, gamma=1.0)
    result = click_model(readers.log, "cascade")
    looks, clicks = np.zeros(readers.log.n_pairs), np.zeros(readers.log.n_pairs)
    for page in range(readers.log.page.max() + 1):
        rows = np.flatnonzero(readers.log.page == page)
        for row in rows[np.argsort(readers.log.position[rows])]:
            looks[readers.log.pair[row]] += 1
            clicks[readers.log.pair[row]] += readers.log.clicks[row]
            if readers.log.clicks[row]:
                break
    np.testing.assert_allclose(result.estimate, clicks / looks)
    assert np.mean((result.lower <= readers.truth) & (readers.truth <= result.upper)) > 0.85
    np.testing.assert_allclose(result.propensities.value, readers.theta)


def test_the_simplified_network_counts_up_to_the_last_click():
    log = ClickLog.from_columns(
        ["q"] * 8, list("abcdabcd"), [1, 2, 3, 4] * 2, [1, 0, 1, 0, 0, 0, 0, 0], session=[1] * 4 + [2] * 4
    )
    result = click_model(log, "sdbn", min_impressions=1)
    assert result.impressions.tolist() == [2, 2, 2, 1]
    assert result.estimate.tolist() == [0.0, 0.0, 0.5, 0.0]  # a: clicked, but not last
    assert result.details["satisfaction"][[0, 2]].tolist() == [0.0, 1.0]


def test_clicks_over_expected_clicks():
    log = ClickLog.from_columns(
        ["q"] * 4, ["a", "b", "a", "b"], [1, 1, 2, 2], [30, 10, 6, 4], count=[100, 100, 100, 100]
    )
    result = click_model(log, "coec")
    np.testing.assert_allclose(result.estimate, [36 / (20 + 5), 14 / (20 + 5)])
    assert result.propensities.value.tolist() == [1.0, 0.25]


def test_what_cannot_be_told_is_an_error():
    log = ClickLog.from_columns(["q"] * 2, ["a", "b"], [1, 2], [30, 10], count=[100, 100])
    with pytest.raises(InputError, match="cannot be told from relevance"):
        click_model(log)
    assert click_model(log, propensities=[1.0, 0.5]).estimate == pytest.approx([0.3, 0.2])


def test_positions_that_nothing_links_have_no_propensity():
    documents, positions = ["a", "a", "b", "b", "c"], [1, 2, 1, 2, 7]
    log = ClickLog.from_columns(["q"] * 5, documents, positions, [40, 20, 20, 10, 5], count=[100] * 5)
    result = click_model(log)
    assert result.propensities.value[:2] == pytest.approx([1.0, 0.5], abs=1e-4)
    assert np.isnan(result.propensities.value[2])
    assert result.kept.tolist() == [True, True, False]


def test_few_impressions_give_no_estimate(users):
    result = click_model(users.log, min_impressions=300)
    assert 0 < result.kept.sum() < users.log.n_pairs
    assert (result.impressions[result.kept] >= 300).all()
    assert result.qrels().n_docs == result.kept.sum()


def test_grades(users):
    result = click_model(users.log)
    grades = result.grades()
    assert np.bincount(grades).tolist() == [32, 16, 9, 7]  # of 64 pairs: a half, a quarter, …
    assert (np.diff(result.estimate[np.argsort(grades, kind="stable")][[0, 40, 60, 63]]) > 0).all()
    assert result.grades(thresholds=[0.3]).tolist() == (result.estimate > 0.3).astype(int).tolist()
    assert (result.grades(thresholds=[0.3], cautious=True) <= result.grades(thresholds=[0.3])).all()
    with pytest.raises(InputError, match="ascending"):
        result.grades([0.5, 0.2])
    with pytest.raises(InputError, match="both given"):
        result.grades([0.5], [0.2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "ubm"}, "expected pbm, coec, cascade, sdbn or dbn"),
        ({"min_impressions": 0}, "min_impressions is 0"),
        ({"propensities": [0.0]}, "above 0"),
        ({"model": "coec", "propensities": [1.0]}, "expected pbm"),
    ],
)
def test_bad_settings(users, settings, message):
    with pytest.raises(InputError, match=message):
        click_model(users.log, **settings)


def test_pages_need_sessions():
    log = ClickLog.from_columns(["q"], ["a"], [1], [1])
    with pytest.raises(InputError, match="expected a column session"):
        click_model(log, "dbn")


def test_a_log_without_clicks():
    with pytest.raises(InputError, match="no clicks"):
        click_model(ClickLog.from_columns(["q"], ["a"], [1], [0]))


def test_a_page_seen_twice_is_two_pages():
    log = ClickLog.from_columns(["q"] * 4, ["a", "b"] * 2, [1, 2] * 2, [0, 1, 1, 0], session=["s"] * 4)
    assert log.page.tolist() == [0, 0, 1, 1]


def test_the_same_log_gives_the_same_bits(users):
    assert click_model(users.log).estimate.tobytes() == click_model(users.log).estimate.tobytes()
