"""Boosting: what a round adds, which rounds are kept, and what ends it early."""

import dataclasses

import numpy as np
import pytest

from pair_cost import ranknet_cost
from rankwright.boosting.binning import bin_features
from rankwright.boosting.forest import Forest
from rankwright.boosting.grow import Grower, LocalHistograms
from rankwright.boosting.lambdas import Lambdas
from rankwright.boosting.learner import LocalLearner, TreesPerClass, tree_scores
from rankwright.boosting.rounds import Boosting, boost
from rankwright.boosting.tree_model import TreeModel
from rankwright.boosting.tree_rankers import Grades


class Plain:
    """Gradients of the squared error of some targets, with given second derivatives."""

    def __init__(self, targets, weights=None):
        self.targets, self.weights = targets, np.ones(len(targets)) if weights is None else weights

    def evaluate(self, scores):
        return (self.targets - scores) * self.weights, self.weights


class Steps:
    """A learner that only counts: every round adds 1 to all scores."""

    def __init__(self):
        self.rounds = 0

    def fit(self, gradients, weights, scores):
        self.rounds += 1
        scores += 1

    def add_last(self, scores):
        scores += 1


def values_by_round(values):
    """The measure of validation scores that count the rounds."""
    return lambda scores: values[int(scores[0])]


def boosted(values=None, n_rounds=10, start=(0.0, 0.5), **settings):
    learner, scores, valid_scores = Steps(), np.zeros(3), None
    if values is not None:
        settings["valid"], valid_scores = values_by_round(values), np.array(start)
    boosting = Boosting(Plain(np.ones(3)), learner, scores, valid_scores)
    return boost(boosting, n_rounds=n_rounds, **settings), learner, scores


def make(n=400, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2])


def learner_of(X, shrinkage=0.3, max_leaves=8, X_valid=None, **settings):
    grower = Grower(LocalHistograms(bin_features(X)), max_leaves, min_rows=10)
    by_tree = None if X_valid is None else lambda tree: tree_scores(tree, X_valid)
    return LocalLearner(grower, X, shrinkage=shrinkage, valid_scores=by_tree, **settings)


def test_without_validation_all_rounds_are_kept():
    found, learner, scores = boosted()
    assert (found.n_rounds, len(found.path), learner.rounds, found.interrupted) == (10, 10, 10, False)
    assert scores.tolist() == [10, 10, 10]
    assert [row.round for row in found.path] == list(range(1, 11))
    assert all(np.isnan(row.value) for row in found.path)
    seconds = [row.seconds for row in found.path]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([0, 1, 2, 3, 2, 1, 0, 0, 0, 0, 0], 3),
        ([0, 1, 3, 3, 3, 2, 1, 1, 1, 3, 0], 2),  # the first of equal ones
        ([5, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0], 0),  # nothing was better than the start
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 10),
    ],
)
def test_the_best_round_is_kept(values, kept):
    found, learner, _ = boosted(values)
    assert found.n_rounds == kept
    assert learner.rounds == 10
    assert [row.value for row in found.path] == values[1:]


@pytest.mark.parametrize("start", [(0.0, 0.0), [(0.0, 0.0), (0.5, 0.5)]])
def test_scores_that_are_all_equal_are_no_ranking_to_keep(start):
    def value(scores):
        return [5, 1, 2, 3, 4, 4, 4, 3, 2, 1, 0][int(scores.flat[0])]

    found = boost(Boosting(Plain(np.ones(3)), Steps(), np.zeros(3), np.array(start)), n_rounds=10, valid=value)
    assert found.n_rounds == 4  # not 0: the value of the start is that of the order in the file


def test_patience():
    values = [0, 1, 2, 1, 1, 1, 9, 1, 1, 1, 1]
    for patience, kept, rounds in ((1, 2, 3), (3, 2, 5), (4, 6, 10), (None, 6, 10), (100, 6, 10)):
        found, learner, _ = boosted(values, patience=patience)
        assert (found.n_rounds, learner.rounds, len(found.path)) == (kept, rounds, rounds)
    found, learner, _ = boosted([5, *[1] * 10], patience=3)  # counted from the start
    assert (found.n_rounds, learner.rounds) == (0, 3)
    assert boosted(patience=2)[0].n_rounds == 10  # without validation there is nothing to wait for


@pytest.mark.parametrize("values", [None, [0, 1, 5, 1, 1, 1, 1, 1, 1, 1, 1]])
def test_the_callback_can_stop(values):
    seen = []

    def stop(row):
        seen.append(row.round)
        return row.round == 4

    found, learner, _ = boosted(values, callback=stop)
    assert seen == [1, 2, 3, 4]
    assert (found.n_rounds, learner.rounds) == (4 if values is None else 2, 4)
    found, learner, _ = boosted(values, callback=lambda row: "go on")  # only True stops
    assert learner.rounds == 10


@pytest.mark.parametrize("where", ["callback", "fit", "add_last"])
@pytest.mark.parametrize("values", [None, [0, 1, 5, 3, 1, 1, 1, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]])
def test_an_interrupt_keeps_the_best(where, values, monkeypatch):
    plain = getattr(Steps, where, None)

    def interrupted(self, *given):
        plain(self, *given)
        if self.rounds == 4:
            raise KeyboardInterrupt

    def interrupt(row):
        if row.round == 4:
            raise KeyboardInterrupt

    if plain is not None:
        monkeypatch.setattr(Steps, where, interrupted)
    found, _, _ = boosted(values, callback=interrupt)
    whole = 4 if where == "callback" or (where == "add_last" and values is None) else 3
    assert found.interrupted
    assert len(found.path) == whole
    assert found.n_rounds == (whole if values is None else 2 if values[2] == 5 else whole)


def test_other_errors_are_not_swallowed():
    def fail(row):
        raise RuntimeError("of the callback")

    with pytest.raises(RuntimeError, match="of the callback"):
        boosted(callback=fail)


@pytest.mark.parametrize("shrinkage", [0.1, 0.3])
def test_leaves_are_sums_of_gradients_over_sums_of_weights(shrinkage):
    X, targets = make()
    weights = np.random.default_rng(1).random(len(X)) + 0.1
    learner, scores = learner_of(X, shrinkage), np.linspace(-1, 1, len(X))
    before = scores.copy()
    gradients, _ = Plain(targets, weights).evaluate(scores)
    learner.fit(gradients, weights, scores)
    tree = learner.trees[0]
    assert (tree.feature < 0).sum() == 8
    alone = TreeModel(5, None, Forest.of([dataclasses.replace(tree, value=np.arange(len(tree.left), dtype=float))]))
    leaf = alone.score(X).astype(int)
    for node in np.unique(leaf):
        here = leaf == node
        assert tree.value[node] == pytest.approx(shrinkage * gradients[here].sum() / weights[here].sum(), rel=1e-12)
    np.testing.assert_array_equal(scores, before + tree.value[leaf])
    assert (tree.value[tree.feature >= 0] == 0).all()


def test_leaves_without_hessian_stay_bounded():
    X, targets = make()
    learner, scores = learner_of(X, 1.0), np.zeros(len(X))
    learner.fit(targets, np.zeros(len(X)), scores)
    assert np.abs(scores).max() <= np.log1p(np.abs(targets).max() / 1e-6)


@pytest.mark.parametrize("apart", [0.0, 2.0, 10.0, 20.0])
def test_a_step_lowers_the_cost_of_pairs_however_wrong_they_are(apart):
    labels, indptr = np.tile([1.0, 0.0], 20), np.arange(0, 41, 2)
    scores = apart * (1.0 - labels)
    start = scores.copy()
    gradients, hessians = Lambdas(labels, indptr, None).evaluate(scores)
    assert apart < 5 or (gradients[0] / hessians[0] > 10 * apart)  # Newton's step, which would be far too long
    learner_of(labels[:, None], 1.0).fit(gradients, hessians, scores)
    assert ranknet_cost(scores, labels, indptr) < ranknet_cost(start, labels, indptr)
    assert np.abs(scores - start).max() <= apart + 2.0


@pytest.mark.parametrize("settings", [{}, {"tree_rows": 0.5}, {"tree_features": 0.4}])
def test_scores_are_those_of_the_trees(settings):
    X, targets = make()
    X_valid, _ = make(seed=1)
    learner = learner_of(X, X_valid=X_valid, **settings)
    scores, valid_scores = np.full(len(X), 0.5), np.full(len(X), -2.0)
    boosting = Boosting(Plain(targets), learner, scores, valid_scores)
    boost(boosting, n_rounds=20, valid=lambda scores: -np.abs(scores).sum())
    model = TreeModel(5, None, Forest.of(learner.trees))
    assert len(learner.trees) == 20
    np.testing.assert_allclose(scores, 0.5 + model.score(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(valid_scores, -2.0 + model.score(X_valid), rtol=1e-12, atol=1e-12)
    assert ((scores - targets) ** 2).mean() < 0.3 * ((0.5 - targets) ** 2).mean()


def test_a_tree_sees_its_share_of_rows_and_features():
    X, targets = make(4000, 10)
    learner = learner_of(X, tree_rows=0.3, tree_features=0.4, max_leaves=32)
    scores = np.zeros(4000)
    for _ in range(10):
        learner.fit(targets, np.ones(4000), scores)
    rows = [tree.count[0] for tree in learner.trees]
    assert all(1000 < count < 1400 for count in rows)
    assert len(set(rows)) > 1
    used = [set(tree.feature[tree.feature >= 0].tolist()) for tree in learner.trees]
    assert all(len(features) <= 4 for features in used)
    assert len(set.union(*used)) > 4
    few = learner_of(X[:30], tree_rows=1e-9)  # which draws no row at all
    few.fit(targets[:30], np.ones(30), scores[:30])
    assert few.trees[0].value.tolist() == [0.0]


def test_draws_depend_on_the_seed_and_the_round_only():
    X, targets = make()

    def trees(seed, rounds):
        learner, scores = learner_of(X, seed=seed, tree_rows=0.5), np.zeros(len(X))
        boost(Boosting(Plain(targets), learner, scores), n_rounds=rounds)
        return [tree.threshold.tobytes() for tree in learner.trees]

    assert trees(3, 6)[:4] == trees(3, 4)
    assert trees(3, 4) != trees(4, 4)
    assert len(set(trees(3, 6))) == 6


def test_a_tree_for_each_class():
    X, targets = make()
    objective = Grades(np.digitize(targets, [-0.5, 0.5]).astype(float), np.ones(len(X)), "softmax")
    learner = TreesPerClass([learner_of(X, seed=at, X_valid=X[:7]) for at in range(3)])
    scores, valid_scores = np.tile(objective.starts[:, None], len(X)), np.tile(objective.starts[:, None], 7)
    boost(Boosting(objective, learner, scores, valid_scores), n_rounds=6, valid=lambda scores: 0.0)
    for at, one in enumerate(learner.learners):
        model = TreeModel(5, None, Forest.of(one.trees))
        assert len(one.trees) == 6
        np.testing.assert_allclose(scores[at], objective.starts[at] + model.score(X), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(valid_scores[at], scores[at, :7], rtol=1e-12, atol=1e-12)


def likelihood(scores, labels, weights, link):
    """Of the grades, for derivatives by differences."""
    grades, codes = np.unique(labels, return_inverse=True)
    if link == "softmax":
        logs = scores - np.log(np.exp(scores).sum(axis=0))
        return float((weights * logs[codes, np.arange(len(codes))]).sum())
    reached = codes >= np.arange(1, len(grades))[:, None]
    return float((weights * -np.log1p(np.exp(np.where(reached, -scores, scores)))).sum())


@pytest.mark.parametrize("link", ["softmax", "ordinal"])
def test_gradients_are_derivatives_of_the_likelihood(link):
    rng = np.random.default_rng(2)
    labels, weights = rng.integers(0, 3, 20) * 1.5, rng.random(20) + 0.5
    objective = Grades(labels, weights, link)
    assert objective.grades.tolist() == [0.0, 1.5, 3.0]
    n_rows = 3 if link == "softmax" else 2
    scores = rng.normal(size=(n_rows, 20))
    gradients, hessians = map(list, objective.evaluate(scores))
    factor = 1.5 if link == "softmax" else 1.0
    step = 1e-4
    for row in range(n_rows):
        for document in (0, 7, 19):
            moved = [scores.copy(), scores.copy()]
            moved[0][row, document] += step
            moved[1][row, document] -= step
            up, down = (likelihood(some, labels, weights, link) for some in moved)
            here = likelihood(scores, labels, weights, link)
            assert gradients[row][document] == pytest.approx((up - down) / (2 * step), abs=1e-6)
            assert hessians[row][document] == pytest.approx(-factor * (up - 2 * here + down) / step**2, abs=1e-4)


@pytest.mark.parametrize("link", ["softmax", "ordinal"])
def test_boosting_starts_from_the_shares_of_the_grades(link):
    labels, weights = np.repeat([0.0, 1.0, 4.0], [5, 3, 2]), np.repeat([1.0, 2.0, 4.5], [5, 3, 2])
    objective = Grades(labels, weights, link)
    gradients, _ = objective.evaluate(np.tile(objective.starts[:, None], 10))
    np.testing.assert_allclose([row.sum() for row in gradients], 0, atol=1e-12)  # 0 is where the likelihood is highest
    for same in (np.full(4, 2.0), np.zeros(1)):  # one grade
        gradients, hessians = Grades(same, np.ones(len(same)), link).evaluate(
            np.zeros((int(link == "softmax"), len(same)))
        )
        assert np.isfinite(list(gradients)).all()
        assert np.isfinite(list(hessians)).all()
