"""Seeds and common queries in reports: against plain means, and what tests over queries see of seeds, by simulation."""

import numpy as np
import pytest

from rankwright.evaluation.significance import p_value
from rankwright.reports.results import Score
from rankwright.reports.statistics import about_seeds, common

RUNS, QUERIES, SEEDS = 400, 50, 3


def rejections(common_shift):
    """How often a t-test over queries, with means over seeds, calls equal methods different, and the seeds agree.

    Every seed moves every query at random, and, by ``common_shift``, all queries alike.
    """
    rng = np.random.default_rng(5)
    shape = (RUNS, 2, SEEDS, QUERIES)
    hard = rng.normal(size=(RUNS, 1, 1, QUERIES))
    values = hard + 0.3 * rng.normal(size=shape) + common_shift * rng.normal(size=shape[:3])[..., None]
    gains = np.diff(values, axis=1)[:, 0]
    found = np.array([p_value("t", gain.mean(axis=0)) < 0.05 for gain in gains])
    agreed = np.array([not about_seeds(gain.mean(axis=1), "m", "AP", "base") for gain in gains])
    return found.mean(), (found & agreed).mean()


def test_noise_of_seeds_that_queries_do_not_share_is_accounted_for():
    assert rejections(0.0)[0] == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / RUNS))


def test_what_all_queries_share_of_a_seed_is_seen_by_the_test_over_seeds():
    """A lucky seed that is better on all queries is no matter of queries: so a sentence warns of it."""
    over_queries, agreed = rejections(0.1)
    assert 0.4 < over_queries < 0.55  # as docs/explanation/statistics.md says
    assert agreed < 0.05 + 3 * np.sqrt(0.05 * 0.95 / RUNS)


def test_a_sentence_where_seeds_disagree():
    assert about_seeds(np.array([0.19, 0.2, 0.21]), "m", "AP", "base") == ""
    assert about_seeds(np.array([0.1, 0.1]), "m", "AP", "base") == ""  # no chance in it
    text = about_seeds(np.array([0.1, -0.02, 0.3]), "m", "AP", "base")
    assert text.startswith(
        "m against base in AP: significant over queries, not over the 3 seeds (−0.0200 to +0.3000, p ="
    )


def scores(places):
    return [Score("d", split, method, query, "AP", 0.5) for method, of in places.items() for split, query in of]


def test_common_places():
    places = {"a": ["1p", "1q", "2p"], "b": ["1p", "1q"], "c": ["2q"]}
    kept, notes = common(scores(places), ["a", "b", "c"], "b")
    assert {(s.method, s.split, s.query) for s in kept} == {(m, "1", q) for m in "ab" for q in "pq"}
    assert notes == [
        "compared on 2 of 2 queries, in 1 of 2 splits: those that every method has (incomplete: b)",
        "left out, as they have too few of the queries that the others have (2): c (0)",
    ]
    many = {"a": [f"1{q}" for q in range(9)], "b": [f"1{q}" for q in range(5)], "c": ["10", "11"]}
    kept, notes = common(scores(many), ["a", "b", "c"], "a")
    assert {s.method for s in kept} == {"a", "b"}
    assert notes[1].endswith("too few of the queries that the others have (5): c (2)")
    whole = scores({"a": ["1p"], "b": ["1p"]})
    assert common(whole, ["a", "b"], "a") == (whole, [])
    assert common([], ["a"], "a") == ([], [])
