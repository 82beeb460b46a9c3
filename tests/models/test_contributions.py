"""Contributions of features: Shapley values by brute force over all coalitions, sums, references, any order of rows."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError, InputWarning, LambdaMART, RankingData, RankingSVM
from rankwright.boosting.forest import SET_WORDS, Forest, Tree
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.models.linear import BinnedModel, LinearModel
from rankwright.models.sum import SumModel
from rankwright.nets.model import NetModel

D = 5
NAMES = tuple("abcde")


def tree_of(nodes):
    """A tree from (feature, threshold, missing_left, left child, value) of every node."""
    feature, threshold, missing, left, value = zip(*nodes, strict=True)
    n = len(nodes)
    return Tree(
        np.array(feature, np.int32), np.array(threshold, float), np.array(missing, bool), np.array(left, np.int32),
        np.array(value, float), np.ones(n), np.ones(n),
    )  # fmt: skip


def random_tree(rng, n_splits):
    """Splits of random leaves, at any depth, by features that may come back on a path."""
    nodes, leaves = [[-1, 0.0, False, 0, rng.normal()]], [0]
    for _ in range(n_splits):
        node = leaves.pop(int(rng.integers(len(leaves))))
        leaves += [len(nodes), len(nodes) + 1]
        nodes[node] = [rng.integers(D), round(rng.normal(), 1), rng.random() < 0.5, len(nodes), 0.0]
        nodes += [[-1, 0.0, False, 0, rng.normal()] for _ in range(2)]
    return tree_of(nodes)


def forest(seed, sizes=(1, 3, 9, 20)):
    rng = np.random.default_rng(seed)
    return Forest.of([random_tree(rng, size) for size in sizes])


def rows_of(n, seed=0, missing=0.15):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, D)), 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X


LINEAR = LinearModel([1.0, -2.0, 0.5, 0.0, 3.0])
TREES = TreeModel(D, None, forest(0))
STEPS = BinnedModel([-0.5, 0.5, 0.0, 0.1, 0.2], [0, 2, 3, 3, 5, 5], [1.0, -3.0, 2.0, 0.5, 0.25])
NET = NetModel(np.random.default_rng(3).normal(size=(3, D)), [0.1, 0.0, -0.5], [1.0, -2.0, 0.5])
GRADES = {
    link: GradeModel(D, None, np.array([0.0, 1.0, 4.0]), tuple(map(forest, range(n))), np.full(n, 0.1), link)
    for link, n in (("softmax", 3), ("ordinal", 2))
}
SHAPLEY = {
    "linear": LINEAR,
    "trees": TREES,
    "steps": STEPS,
    "sum": SumModel((LINEAR, TREES, STEPS), np.array([0.5, 2.0, -1.0])),
}
MODELS = SHAPLEY | GRADES | {"net": NET, "sum of sums": SumModel((NET, SHAPLEY["sum"]), np.array([1.0, 3.0]))}


def by_brute_force(model, x, r):
    """Shapley values by their definition: a score for every coalition."""
    inside = (np.arange(1 << D)[:, np.newaxis] >> np.arange(D)) & 1
    scores = model.score(np.where(inside == 1, x, r))
    values = np.zeros(D)
    for j in range(D):
        for number in np.flatnonzero(inside[:, j] == 0):
            size = int(inside[number].sum())
            weight = math.factorial(size) * math.factorial(D - size - 1) / math.factorial(D)
            values[j] += weight * (scores[number + (1 << j)] - scores[number])
    return values


def with_queries(X, sizes):
    return RankingData.from_arrays(X, np.zeros(len(X)), group=sizes, allow_missing=True)


@pytest.mark.parametrize("kind", SHAPLEY)
def test_shapley_values_by_brute_force(kind):
    model = SHAPLEY[kind]
    X = rows_of(9, missing=0.0 if kind in ("linear", "sum") else 0.15)
    pairs = np.array([[by_brute_force(model, x, r) for r in X] for x in X])
    np.testing.assert_allclose(model.contributions(X[0], X[1]), pairs[0, 1], rtol=0, atol=1e-12)
    found = model.predict_contributions(X, group=[6, 3])
    np.testing.assert_allclose(found[:6, :-1], pairs[:6, :6].mean(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[6:, :-1], pairs[6:, 6:].mean(axis=1), rtol=0, atol=1e-12)
    found = model.predict_contributions(X[:4], reference=X[4:])
    np.testing.assert_allclose(found[:, :-1], pairs[:4, 4:].mean(axis=1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_trees_by_brute_force(seed):
    model, X = TreeModel(D, None, forest(seed, sizes=(2, 30))), rows_of(8, seed, missing=0.3)
    X[5] = X[2]
    expected = np.mean([[by_brute_force(model, x, r) for r in X] for x in X], axis=1)
    np.testing.assert_allclose(model.predict_contributions(X, group=[8])[:, :-1], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_splits_on_sets_of_categories_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    trees = []
    for size in (4, 12):
        tree = random_tree(rng, size)
        sets = np.zeros((len(tree.feature), SET_WORDS), np.uint64)
        sets[:, 0] = rng.integers(0, 1 << 6, len(sets))
        subset = np.where(tree.feature == 4, np.arange(len(sets)), -1).astype(np.int32)
        trees.append(dataclasses.replace(tree, subset=subset, sets=sets))
    known = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
    model = TreeModel(D, None, Forest.of(trees), categories={4: known})
    X = rows_of(7, seed, missing=0.2)
    X[:, 4] = rng.choice([*known, 70.0, np.nan], 7)  # 70 is unknown
    assert len(set(model.score(X))) > 2
    expected = np.mean([[by_brute_force(model, x, r) for r in X] for x in X], axis=1)
    np.testing.assert_allclose(model.predict_contributions(X, group=[7])[:, :-1], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.contributions(X[0], X[1]), by_brute_force(model, X[0], X[1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", MODELS)
def test_rows_sum_to_their_scores_and_are_means_over_pairs(kind):
    model, X = MODELS[kind], rows_of(17, missing=0.0)
    found, scores = model.predict_contributions(X, group=[1, 9, 7]), model.score(X)
    assert found.shape == (17, D + 1)
    np.testing.assert_allclose(found.sum(axis=1), scores, rtol=0, atol=1e-12)
    for start, stop in ((0, 1), (1, 10), (10, 17)):
        np.testing.assert_allclose(found[start:stop, -1], scores[start:stop].mean(), rtol=0, atol=1e-12)
    pairs = [model.contributions(X[3], r) for r in X[1:10]]
    np.testing.assert_allclose(found[3, :-1], np.mean(pairs, axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.contributions(X[4], X[3]), -model.contributions(X[3], X[4]), atol=1e-12)
    assert not found[0, :-1].any()  # nothing to compare with


@pytest.mark.parametrize("kind", MODELS)
def test_the_order_of_rows_and_threads_do_not_change_a_bit(monkeypatch, kind):
    model, X = MODELS[kind], rows_of(60, missing=0.0).astype(np.float32)
    qid = np.repeat(np.arange(6), 10)
    found = model.predict_contributions(X, qid)
    order = np.random.default_rng(5).permutation(60)
    assert model.predict_contributions(X[order], qid[order]).tobytes() == found[order].tobytes()
    assert model.predict_contributions(sparse.csr_array(X), qid).tobytes() == found.tobytes()
    monkeypatch.setattr("rankwright.models.base._BLOCK_VALUES", 1)
    assert model.predict_contributions(X, qid, n_jobs=3).tobytes() == found.tobytes()
    fixed = model.predict_contributions(X, reference=X[:7])
    assert model.predict_contributions(X, reference=X[:7][::-1], n_jobs=2).tobytes() == fixed.tobytes()


def test_a_net_follows_the_line_between_two_rows():
    x, r = rows_of(2, missing=0.0)
    shares = (np.arange(4000) + 0.5) / 4000
    line = r + shares[:, np.newaxis] * (x - r)
    step = 1e-6
    slopes = [(NET.score(line + step * unit) - NET.score(line - step * unit)).mean() / (2 * step) for unit in np.eye(D)]
    np.testing.assert_allclose(NET.contributions(x, r), slopes * (x - r), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scaling", ["minmax", "percentile", "zscore"])
def test_features_scaled_within_queries_are_compared_as_scaled(scaling):
    X, bounds = rows_of(12, missing=0.0), [0, 5, 12]
    model = LinearModel(LINEAR.coef, query_scaling=scaling)
    found = SumModel((model, TREES), np.ones(2)).predict_contributions(X, group=[5, 7])
    scaled = LINEAR.predict_contributions(model.aligned(X, indptr=bounds), group=[5, 7])
    np.testing.assert_allclose(found, scaled + TREES.predict_contributions(X, group=[5, 7]), rtol=0, atol=1e-12)
    data = with_queries(X, [5, 7])
    fixed = model.predict_contributions(data, reference=data)
    np.testing.assert_allclose(fixed.sum(axis=1), model.score(X, indptr=bounds), rtol=0, atol=1e-12)
    np.testing.assert_allclose(fixed[:, -1], model.score(X, indptr=bounds).mean(), rtol=0, atol=1e-12)


def test_a_sum_has_the_features_of_all_parts():
    first, last = LinearModel([1.0, 10.0], ("a", "x")), LinearModel([100.0, 1000.0], ("y", "a"))
    model = SumModel((first, last), np.array([1.0, 2.0]))
    assert (model.names, model.n_features) == (("y", "a", "x"), 3)
    X = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])  # x, y, a
    assert model.contributions(X[0], X[1], "xya").tolist() == [400.0, 6003.0, 10.0]
    data = RankingData.from_arrays(X, [0, 1], group=[2], feature_names="xya")
    assert model.predict_contributions(data)[0].tolist() == [200.0, 3001.5, 5.0, 3206.5]
    np.testing.assert_allclose(model.importance(), [50 / 1100, 500 / 1100 + 0.5 / 11, 5 / 11])
    assert model.aligned(X, "xya").tolist() == [[2.0, 3.0, 1.0], [0.0, 0.0, 0.0]]
    assert SumModel((LINEAR, LinearModel([1.0], ("a",))), np.ones(2)).feature_names is None


def chain(n):
    """7 where all features are above 0.5, else 0: the left child of every split is a leaf, the right one the next."""
    nodes = [[0, 0.5, False, 1, 0.0]]
    for j in range(1, n):
        nodes += [[-1, 0.0, False, 0, 0.0], [j, 0.5, False, 2 * j + 1, 0.0]]
    return TreeModel(n, None, Forest.of([tree_of([*nodes, [-1, 0.0, False, 0, 0.0], [-1, 0.0, False, 0, 7.0]])]))


@pytest.mark.parametrize("n", [3, 63, 64, 65, 130])
def test_paths_of_many_features(n):
    model = chain(n)
    ones, zeros = np.ones(n), np.zeros(n)
    assert model.score([ones, zeros]).tolist() == [7.0, 0.0]
    np.testing.assert_allclose(model.contributions(ones, zeros), 7 / n, rtol=1e-12)
    some = (np.arange(n) % 3 == 0).astype(float)
    np.testing.assert_allclose(model.contributions(ones, some), 7 * (1 - some) / (1 - some).sum(), rtol=1e-12)
    both = model.contributions(some, 1 - some)
    p, q = int(some.sum()), n - int(some.sum())  # needed from x, and from r
    assert both.sum() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(both[some == 1], 7 / (p * math.comb(n, p)), rtol=1e-10)
    np.testing.assert_allclose(both[some == 0], -7 / (q * math.comb(n, q)), rtol=1e-10)


def test_trees_too_deep_to_explain():
    model = chain(1100)
    with pytest.raises(InputError, match=r"a tree is 1,100 splits deep; contributions need at most 1,024 features"):
        model.predict_contributions(np.zeros((2, 1100)), group=[2])


def test_trees_without_splits_and_models_without_features():
    stump = TreeModel(D, None, Forest.of([tree_of([[-1, 0.0, False, 0, 3.0]])]))
    assert stump.predict_contributions(rows_of(2), group=[2]).tolist() == [[0.0] * D + [3.0]] * 2
    assert TreeModel(D).predict_contributions(rows_of(2), group=[2]).tolist() == [[0.0] * (D + 1)] * 2
    assert LinearModel([]).predict_contributions(np.ones((3, 0)), group=[3]).tolist() == [[0.0]] * 3
    assert LINEAR.predict_contributions(np.ones((0, D)), group=[]).shape == (0, D + 1)


def test_numbers_as_huge_as_they_get():
    huge = LinearModel([1e308, 0.0, 0.0, 0.0, 0.0])
    X = np.zeros((3, D))
    X[0, 0], X[1, 0] = 1.0, -1.0
    assert np.isfinite(huge.score(X)).all()
    for call in (lambda: huge.contributions(X[0], X[1]), lambda: huge.predict_contributions(X, reference=X[1:2])):
        with pytest.raises(InputError, match="a contribution is not finite"):
            call()
    assert huge.predict_contributions(np.abs(X[[0, 1, 1]]), group=[3]).tolist() == [[0.0] * D + [1e308]] * 3
    both = SumModel((LinearModel([1e308, 1e308, 0, 0, 0]), LINEAR), np.ones(2))
    np.testing.assert_allclose(both.importance()[:2], [0.25 + 0.5 / 6.5, 0.25 + 1 / 6.5])


def test_queries_references_and_columns():
    pd = pytest.importorskip("pandas")
    X, qid = rows_of(6, missing=0.0), [1, 2, 1, 2, 2, 1]
    named = LinearModel(LINEAR.coef, NAMES)
    expected = LINEAR.predict_contributions(X, qid)
    frame = pd.DataFrame(X[:, ::-1], columns=list(NAMES[::-1]))
    assert named.predict_contributions(frame, qid).tobytes() == expected.tobytes()
    assert named.predict_contributions(frame.assign(qid=qid)).tobytes() == expected.tobytes()
    with pytest.warns(
        InputWarning, match=r"relative to the documents of the same query, and all 6 rows .* one; pass qid"
    ):
        one = LINEAR.predict_contributions(X)
    np.testing.assert_array_equal(one, LINEAR.predict_contributions(X, reference=X))
    fixed = named.predict_contributions(frame, reference=frame.iloc[:1])
    np.testing.assert_array_equal(fixed[2, :-1], LINEAR.contributions(X[2], X[0]))
    short = LINEAR.predict_contributions(X[:, :3], qid, missing_as_zero=True)
    np.testing.assert_array_equal(short[:, 3:5], 0.0)
    for call, message in (
        (lambda: LINEAR.predict_contributions(X[:, :3], qid), "use missing_as_zero=True"),
        (lambda: LINEAR.predict_contributions(with_queries(X, [6]), qid), "leave out qid and group"),
        (lambda: LINEAR.predict_contributions(X, qid, reference=X[:0]), "the reference has no documents"),
        (lambda: LINEAR.predict_contributions(X, qid, n_jobs=0), "n_jobs is 0"),
        (lambda: LINEAR.predict_contributions(np.full((2, D), np.nan), [1, 1]), "row 0 .* has no 'f1'"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_rankers_give_the_contributions_of_their_models():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(80, D)), np.repeat(np.arange(8), 10)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    for ranker in (RankingSVM(C=1.0), LambdaMART(5, max_leaves=6, min_rows=2)):
        ranker.fit(X, y, qid)
        found = ranker.predict_contributions(X, qid, n_jobs=2)
        np.testing.assert_allclose(found.sum(axis=1), ranker.predict(X), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found, ranker.model_.predict_contributions(X, qid))
