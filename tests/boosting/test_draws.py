"""What nodes of trees draw: shares that are right, apart from each other, and independent of order."""

import numpy as np
import pytest

from rankwright.data.hashes import child_salts, draw_features, drawn, salts_of

SALTS = [salts_of(0, 3)[1], *child_salts(salts_of(0, 3)[1], 0.5), *salts_of(1, 3)]


@pytest.mark.parametrize(
    "keys", [np.arange(20_000, dtype=np.uint32), np.arange(20_000, dtype=np.uint64) << np.uint64(40)]
)
def test_nodes_draw_rows_apart_from_each_other(keys):
    found = np.array([drawn(keys, salt, 0.3) for salt in SALTS])
    assert found.mean(axis=1) == pytest.approx(0.3, abs=0.015)
    for one in range(len(SALTS)):
        for two in range(one):
            assert (found[one] & found[two]).mean() == pytest.approx(0.09, abs=0.015)
    for lag in (1, 2, 3, 64):
        assert (found[0, lag:] & found[0, :-lag]).mean() == pytest.approx(0.09, abs=0.015)


def test_a_row_is_drawn_whatever_the_order():
    keys = np.random.default_rng(2).permutation(1000).astype(np.uint32)
    assert np.array_equal(drawn(keys, 7, 0.3), drawn(np.arange(1000), 7, 0.3)[keys])


def test_every_feature_is_drawn_as_often_as_the_others():
    candidates = np.arange(12) != 5
    every = np.ones(12, bool)
    found = np.array([draw_features(candidates, every, salts_of(seed, 0)[1], 0.5) for seed in range(2000)])
    assert (found.sum(axis=1) == 6).all()  # 5.5 is rounded to the even number
    assert not found[:, 5].any()
    assert found[:, candidates].mean(axis=0) == pytest.approx(6 / 11, abs=0.05)
    pairs = found.T.astype(float) @ found / len(found)
    off = pairs[np.ix_(candidates, candidates)][~np.eye(11, dtype=bool)]
    assert off == pytest.approx(6 / 11 * 5 / 10, abs=0.05)


def test_at_least_one_feature_is_drawn():
    every = np.ones(2, bool)
    assert draw_features(np.array([False, True]), every, 3, 0.1).tolist() == [False, True]
    assert not draw_features(np.zeros(2, bool), every, 3, 0.1).any()


def test_features_that_do_not_vary_change_nothing():
    every, varies = np.ones(6, bool), np.array([True, False, True, True, False, True])
    for salt in SALTS:
        alone = draw_features(every[:4], every[:4], salt, 0.5)
        assert np.array_equal(draw_features(every, varies, salt, 0.5)[varies], alone)
