"""Seeds and common queries in reports: against plain means, and what tests over queries see of seeds, by simulation."""

import numpy as np
import pytest

from rankwright.evaluation.significance import p_value
from rankwright.reports.results import Score
from rankwright.reports.statistics import about_seeds, common

RUNS, QUERIES, SEEDS = 400, 50, 3


def rejections(common_shift):
    """How often a t-test over queries, with means over seeds, calls equal methods different.

    Every seed moves every query at random, and, by ``common_shift``, all queries alike.
    """
    rng = np.random.default_rng(5)
    shape = (RUNS, 2, SEEDS, QUERIES)
    hard = rng.normal(size=(RUNS, 1, 1, QUERIES))
    values = hard + 0.3 * rng.normal(size=shape) + common_shift * rng.normal(size=shape[:3])[..., None]
    gains = np.diff(values.mean(axis=2), axis=1)[:, 0]
    return np.mean([p_value("t", gain) < 0.05 for gain in gains])


def test_noise_of_seeds_that_queries_do_not_share_is_accounted_for():
    assert rejections(0.0) == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / RUNS))


def test_what_all_queries_share_of_a_seed_is_not_seen():
    """A lucky seed that is better on all queries is no matter of queries: so the spread over seeds is shown."""
    assert rejections(0.1) > 0.15


def test_a_sentence_where_seeds_disagree():
    assert about_seeds(np.array([0.1, 0.2]), "m", "AP", "base") == ""
    text = about_seeds(np.array([0.1, -0.02, 0.3]), "m", "AP", "base")
    assert text.startswith("m is better than base in AP with 2 of 3 seeds (−0.0200 to +0.3000)")


def scores(places):
    return [Score("d", split, method, query, "AP", 0.5) for method, of in places.items() for split, query in of]


def test_common_places():
    places = {"a": ["1p", "1q", "2p"], "b": ["1p", "1q"], "c": ["2q"]}
    kept, notes = common(scores(places), ["a", "b", "c"], "b")
    assert {(s.method, s.split, s.query) for s in kept} == {(m, "1", q) for m in "ab" for q in "pq"}
    assert notes == [
        "compared on 2 of 2 queries, in 1 of 2 splits: those that every method has (incomplete: b)",
        "left out, as they have no query in common with the others: c",
    ]
    whole = scores({"a": ["1p"], "b": ["1p"]})
    assert common(whole, ["a", "b"], "a") == (whole, [])
    assert common([], ["a"], "a") == ([], [])
