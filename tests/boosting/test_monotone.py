"""Monotone constraints: the score never goes the wrong way, whatever else a ranker is asked to do."""

import numpy as np
import pytest
from sklearn.base import clone

from rankwright import InputError, LambdaMART, McRank, RankingData, load_model

NAMES = ["bm25", "spam", "age", "site"]
WAYS = {"bm25": 1, "spam": -1}
FAST = {"n_trees": 25, "max_leaves": 8, "min_rows": 5}


def data(seed=0, n_queries=30, n_docs=15, missing=0.1):
    """Labels rise with bm25 and fall with spam on the whole, but not everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, 4))
    X[:, 3] = rng.integers(0, 5, len(X))
    wave = X[:, 0] + 1.5 * np.sin(3 * X[:, 0]) - X[:, 1] * (1 + X[:, 2]) + rng.normal(size=len(X))
    labels = np.digitize(wave, [0, 1.5, 3])
    X[rng.random(X.shape) < missing] = np.nan
    qid = np.repeat(np.arange(n_queries), n_docs)
    return RankingData.from_arrays(X, labels, qid, feature_names=NAMES, allow_missing=True)


TRAIN = data()


def steps(ranker, ways=WAYS, seed=3):
    """For many rows the change of the score, in the asked direction, along a grid of one feature."""
    X = data(seed).X[:150]
    found = []
    for name, way in ways.items():
        j = NAMES.index(name) if isinstance(name, str) else name
        values = TRAIN.X[:, j][~np.isnan(TRAIN.X[:, j])]
        grid = np.unique(np.concatenate([values[::4], np.linspace(-5, 5, 60), [-1e300, 1e300]]))
        moved = np.repeat(X, len(grid), axis=0)
        moved[:, j] = np.tile(grid, len(X))
        scores = ranker.model_.score(moved, NAMES).reshape(len(X), -1)
        found.append(way * np.diff(scores, axis=1))
    return np.concatenate([one.ravel() for one in found])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"randomize_nodes": True},
        {"tree_rows": 0.5, "tree_features": 0.7},
        {"max_leaves": 90, "min_rows": 1, "learning_rate": 1.0},
        {"max_leaves": 2},
        {"max_bins": 5},
        {"categorical": ["site"]},
        {"measure": "map"},
    ],
)
def test_scores_are_monotone(settings):
    ranker = LambdaMART(**{**FAST, **settings}, monotone=WAYS).fit(TRAIN)
    changes = steps(ranker)
    assert (changes >= 0).all()
    assert (changes > 0).any()


def test_without_constraints_they_are_not():
    assert (steps(LambdaMART(**FAST).fit(TRAIN)) < 0).any()


def test_grades_as_thresholds_are_monotone():
    ranker = McRank(**FAST, link="ordinal", monotone=WAYS).fit(TRAIN)
    changes = steps(ranker)
    assert (changes >= -1e-12).all()  # the exponential function is exact up to the last bit
    assert (changes > 0.01).any()
    assert (steps(McRank(**FAST, link="ordinal").fit(TRAIN)) < -0.01).any()


def test_a_constraint_that_holds_costs_little():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    labels = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [0, 1])
    train = RankingData.from_arrays(X, labels, np.repeat(np.arange(30), 20))
    free = LambdaMART(**FAST).fit(train).score(train)
    risen, fallen = (LambdaMART(**FAST, monotone={0: way}).fit(train).score(train) for way in (1, -1))
    assert risen > free - 0.03
    assert fallen < free - 0.1


def test_names_and_numbers_are_the_same_and_nothing_is_nothing():
    by_name = LambdaMART(**FAST, monotone=WAYS).fit(TRAIN)
    by_number = LambdaMART(**FAST, monotone={1: np.int64(-1), 0: 1}).fit(TRAIN)
    assert by_name.predict(TRAIN).tobytes() == by_number.predict(TRAIN).tobytes()
    assert clone(by_name).fit(TRAIN).predict(TRAIN).tobytes() == by_name.predict(TRAIN).tobytes()
    free = LambdaMART(**FAST).fit(TRAIN).predict(TRAIN)
    assert LambdaMART(**FAST, monotone={}).fit(TRAIN).predict(TRAIN).tobytes() == free.tobytes()


def test_neither_threads_nor_the_order_of_rows_matter():
    big = data(1, 60, 100)
    settings = {**FAST, "monotone": WAYS, "randomize_nodes": True}
    expected = LambdaMART(**settings).fit(big).predict(TRAIN)
    rows = np.random.default_rng(0).permutation(big.n_docs)
    shuffled = RankingData.from_arrays(
        big.X[rows], big.labels[rows], big.qid[rows], feature_names=NAMES, allow_missing=True
    )
    for other in (LambdaMART(**settings, n_jobs=3).fit(big), LambdaMART(**settings).fit(shuffled)):
        assert other.predict(TRAIN).tobytes() == expected.tobytes()


def test_saved_models_and_what_is_learnt_on_top_of_a_background(tmp_path):
    background = LambdaMART(**FAST, monotone=WAYS).fit(TRAIN)
    ranker = LambdaMART(**FAST, monotone=WAYS, background=background).fit(data(5))
    assert (steps(ranker) >= 0).all()  # a monotone background makes a monotone whole
    ranker.save(tmp_path / "model.rkw")
    saved = load_model(tmp_path / "model.rkw")
    assert dict(saved.parameters["monotone"]) == WAYS
    assert saved.predict(TRAIN).tobytes() == ranker.predict(TRAIN).tobytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LambdaMART(monotone={"bm26": 1}), "monotone: there is no feature 'bm26'; expected one of bm25, spam"),
        (lambda: LambdaMART(monotone={4: 1}), "monotone: there is no feature 4"),
        (lambda: LambdaMART(monotone={"bm25": 1, 0: -1}), "monotone: the feature 'bm25' is given twice"),
        (
            lambda: LambdaMART(monotone={"bm25": 2}),
            "monotone is .*; expected features, by name or by number from 0, wi",
        ),
        (lambda: LambdaMART(monotone={"bm25": True}), "monotone is .*; expected features"),
        (lambda: LambdaMART(monotone=["bm25"]), "monotone is .*; expected features"),
        (lambda: McRank(monotone=WAYS), r"monotone does not go with the link 'softmax'.*; expected link='ordinal'"),
    ],
)
def test_mistakes_have_one_line(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make().fit(TRAIN)
    assert "\n" not in str(caught.value)
