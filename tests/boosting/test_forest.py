"""Models of trees: scores against a walk in plain Python, explanations that add up, and files that are refused."""

import dataclasses
import io
import json
import zipfile
from functools import cache, reduce
from operator import add

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError
from rankwright.boosting.binning import bin_features
from rankwright.boosting.forest import Forest
from rankwright.boosting.grow import Grower, LocalHistograms
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model, save_model
from rankwright.models.sum import SumModel, interpolate

D = 6
NAMES = ("a", "b", "c", "d", "e", "f")


def rows_of(n=700, dtype=np.float64, seed=1):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, D)), 1)
    X[rng.random(X.shape) < 0.3] = 0
    X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype)


def forest(n_trees=5, seed=0, max_leaves=12):
    """Trees grown on random gradients, with random values at the leaves."""
    rng = np.random.default_rng(seed)
    X = rows_of(400, seed=seed)
    source = LocalHistograms(bin_features(X))
    grower = Grower(source, max_leaves, min_rows=3)
    trees = []
    for _ in range(n_trees):
        rows, features = np.arange(len(X), dtype=np.uint32), np.ones(D, np.bool_)
        source.begin(rng.normal(size=len(X)), rows)
        tree = grower.grow(features, 0).tree
        trees.append(dataclasses.replace(tree, value=np.where(tree.feature < 0, rng.normal(size=len(tree.left)), 0.0)))
    source.close()
    return Forest.of(trees)


KINDS = ("trees", "softmax", "ordinal", "sum")


@cache
def models():
    """Models by kind; grown when they are first asked for, so that collecting the tests compiles nothing."""
    grades, trees = np.array([0.0, 1.0, 4.0]), TreeModel(D, None, forest())
    made = (
        trees,
        GradeModel(D, None, grades, tuple(forest(4, at) for at in range(3)), np.array([0.5, 0, -1]), "softmax"),
        GradeModel(D, None, grades, tuple(forest(4, at) for at in range(2)), np.array([0.5, -1]), "ordinal"),
        SumModel((trees, LinearModel(np.arange(D))), np.array([2.0, 0.5])),
    )
    return dict(zip(KINDS, made, strict=True))


def grown():
    return models()["trees"].forest


def walk(trees, node, row):
    """The value of the leaf that a row reaches, step by step."""
    if trees.feature[node] < 0:
        return float(trees.value[node])
    x = float(row[trees.feature[node]])
    left = bool(trees.missing_left[node]) if np.isnan(x) else x <= trees.threshold[node]
    return walk(trees, trees.left[node] + (0 if left else 1), row)


def walked(trees, X):
    """The sums of the leaves' values, added one after the other (built-in sum is more exact from Python 3.12 on)."""
    return np.array([reduce(add, (walk(trees, root, row) for root in trees.roots), 0.0) for row in X])


def same_bits(one, other):
    return one.dtype == other.dtype == np.float64 and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_trees", [0, 1, 40])
def test_scores_are_those_of_a_walk(dtype, n_trees):
    trees, X = forest(n_trees), rows_of(dtype=dtype)
    model = TreeModel(D, None, trees)
    expected = walked(trees, X) + np.zeros(len(X))
    assert same_bits(model.score(X), expected)
    assert n_trees < 40 or {-1, 0, 1, 2, 3, 4, 5} == set(trees.feature.tolist())
    assert n_trees < 40 or (np.isinf(trees.threshold).any() and trees.missing_left.any())
    for other in (np.asfortranarray(X), sparse.csr_array(X), sparse.csc_array(X)):
        assert same_bits(model.score(other), expected)
    rows = np.random.default_rng(0).permutation(len(X))[:300]
    assert same_bits(model.score(X[rows]), expected[rows])  # a row has one score in any company
    assert model.score(X[:0]).shape == (0,)


@pytest.mark.parametrize("max_leaves", [2, 63, 64, 65, 90])
def test_trees_of_any_size(max_leaves):
    trees, X = forest(3, max_leaves=max_leaves), rows_of(200)
    assert (trees.feature < 0).sum() == 3 * max_leaves
    assert same_bits(TreeModel(D, None, trees).score(X), walked(trees, X))
    both = Forest.join([forest(2), trees])
    assert same_bits(TreeModel(D, None, both).score(X), walked(both, X))


def test_float32_values_are_compared_with_the_thresholds_as_they_are():
    X = rows_of(dtype=np.float32)
    rng = np.random.default_rng(0)
    inner = grown().feature >= 0
    threshold = np.where(inner, rng.choice(X[~np.isnan(X)], len(inner)).astype(np.float64), 0.0)
    for off in (-1e-12, 0.0, 1e-12):
        moved = dataclasses.replace(grown(), threshold=threshold * (1 + off))
        expected = walked(moved, X)
        assert same_bits(TreeModel(D, None, moved).score(X), expected)
        assert same_bits(TreeModel(D, None, moved).score(X.astype(np.float64)), expected)
    huge = dataclasses.replace(grown(), threshold=np.where(inner, rng.choice([-1e300, 1e300, np.inf], len(inner)), 0.0))
    assert same_bits(TreeModel(D, None, huge).score(X), walked(huge, X))


def test_nodes_that_no_tree_leads_to_do_not_matter():
    X = rows_of(50)
    alone = dataclasses.replace(grown(), roots=grown().roots[[3, 1]])
    assert same_bits(TreeModel(D, None, alone).score(X), walked(alone, X))


def test_rows_are_made_dense_in_parts(monkeypatch):
    X = rows_of()
    kinds = {name: model for name, model in models().items() if name != "sum"}  # of which one part is linear
    expected = {name: model.score(X) for name, model in kinds.items()}
    monkeypatch.setattr("rankwright.boosting.tree_model._ROWS", 64)
    for name, model in kinds.items():
        assert same_bits(model.score(sparse.csr_array(X)), expected[name])
        assert same_bits(model.score(X), expected[name])
        np.testing.assert_array_equal(model.aligned(X), X)


def test_whole_numbers_and_read_only_rows(tmp_path):
    X = np.nan_to_num(rows_of(100)).round()
    np.save(tmp_path / "X.npy", X)
    expected = walked(grown(), X)
    for same in (X.astype(int), X.astype(np.int8), X.astype(">f8"), np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert same_bits(models()["trees"].score(same), expected)
    assert same_bits(models()["trees"].score(X[:1].tolist()), expected[:1])


def test_trees_put_together_taken_apart_and_joined():
    one, two, X = forest(3), forest(4, seed=9), rows_of(50)
    joined = Forest.join([one, forest(0), two])
    assert joined.n_trees == 7
    np.testing.assert_allclose(walked(joined, X), walked(one, X) + walked(two, X), rtol=1e-12, atol=1e-12)
    for n_trees, wanted in ((0, None), (2, None), (3, one), (7, joined), (9, joined)):
        first = joined.first(n_trees)
        assert first.n_trees == min(n_trees, 7)
        assert same_bits(TreeModel(D, None, first).score(X), walked(joined.first(n_trees), X) + np.zeros(50))
        for name in (field.name for field in dataclasses.fields(Forest)):
            if wanted is not None:
                np.testing.assert_array_equal(getattr(first, name), getattr(wanted, name))
            assert getattr(first, name).dtype == getattr(joined, name).dtype
    assert Forest.join([]).n_trees == Forest.of([]).n_trees == 0
    last = Forest.of([]).first(3)
    assert (last.n_trees, len(last.feature)) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_add_up_to_the_difference_of_the_scores(kind):
    model, X = models()[kind], np.nan_to_num(rows_of(30))
    scores = model.score(X)
    for a, b in ((0, 1), (1, 0), (5, 9), (3, 3), (28, 29)):
        found = model.contributions(X[a], X[b])
        assert found.shape == (D,)
        assert found.sum() == pytest.approx(scores[a] - scores[b], abs=1e-12)
        np.testing.assert_array_equal(found, model.contributions(sparse.csr_array(X[[a]]), sparse.csr_array(X[[b]])))
    with pytest.raises(InputError, match="features of one document"):
        model.contributions(X[:2], X[3])


@pytest.mark.parametrize("link", ["softmax", "ordinal"])
def test_contributions_to_grades_that_are_almost_certain(link):
    """Where probabilities jump between two rows, and no point of the mean falls on the jump."""
    forests = tuple(
        dataclasses.replace(part, value=part.value * 1000) for part in (forest(2, 0), forest(2, 1), forest(2, 2))
    )
    n = 3 if link == "softmax" else 2
    model = GradeModel(D, None, np.arange(3.0), forests[:n], np.zeros(n), link)
    X = rows_of(20)
    scores = model.score(X)
    assert set(np.round(scores, 6)) <= {0.0, 1.0, 2.0}
    for a in range(10):
        found = model.contributions(X[a], X[a + 10])
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(scores[a] - scores[a + 10], abs=1e-9)


def test_expected_grades():
    X = rows_of(60)
    model = models()["softmax"]
    sums = np.array([walked(part, X) + start for part, start in zip(model.forests, model.starts, strict=True)])
    chances = np.exp(sums) / np.exp(sums).sum(axis=0)
    np.testing.assert_allclose(model.score(X), model.grades @ chances, rtol=1e-12)
    model = models()["ordinal"]
    sums = np.array([walked(part, X) + start for part, start in zip(model.forests, model.starts, strict=True)])
    np.testing.assert_allclose(model.score(X), [1.0, 3.0] @ (1 / (1 + np.exp(-sums))), rtol=1e-12)
    for link in ("softmax", "ordinal"):  # one grade only
        forests = (forest(2),) if link == "softmax" else ()
        only = GradeModel(D, None, np.array([2.0]), forests, np.zeros(len(forests)), link)
        assert only.score(X).tolist() == [2.0] * 60
        assert only.contributions(X[0], X[1]).tolist() == [0.0] * D
        assert len(only.importance()) == D


@pytest.mark.parametrize("kind", ["trees", "softmax", "ordinal"])
def test_importance_is_the_share_of_the_gain(kind):
    model = models()[kind]
    parts = getattr(model, "forests", (grown(),))
    gains = np.zeros(D)
    for part in parts:
        for j, gain in zip(part.feature, part.gain, strict=True):
            gains[j] += gain if j >= 0 else 0.0
    np.testing.assert_allclose(model.importance(), gains / gains.sum())
    assert model.importance().sum() == pytest.approx(1)
    assert TreeModel(D).importance().tolist() == [0.0] * D


def named(model, names):
    parts = getattr(model, "parts", None)
    if parts is None:
        return dataclasses.replace(model, feature_names=names)
    return dataclasses.replace(model, parts=tuple(named(part, names) for part in parts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_are_found_by_name_and_by_position(kind, form):
    plain, X = models()[kind], np.nan_to_num(rows_of(50))
    with_names = named(plain, NAMES)
    mixed = form(np.column_stack([X[:, ::-1], X[:, 0] * 7]))
    given = [*"fedcba", "unknown"]
    expected = plain.score(X)
    assert same_bits(with_names.score(mixed, given), expected)
    np.testing.assert_array_equal(with_names.aligned(mixed, given), X)
    np.testing.assert_array_equal(
        with_names.contributions(mixed[[0]], mixed[[1]], given), plain.contributions(X[0], X[1])
    )
    assert same_bits(with_names.score(form(X)), expected)
    assert same_bits(plain.score(form(X), ["u", "v", "w", "x", "y", "z"]), expected)
    X[:, 4:] = 0  # zeros at the end may be left out, if that is said
    for names in (None, ["f1", "f2", "f3", "f4"]):
        assert same_bits(plain.score(*plain.with_missing(form(X[:, :4]), names)), plain.score(X))
        with pytest.raises(InputError, match="the data has 4 features, but the model has 6"):
            plain.score(form(X[:, :4]), names)
    assert plain.names == ("f1", "f2", "f3", "f4", "f5", "f6")
    for columns, names, message in (
        (7, None, "the data has 7 features, but the model has 6"),
        (5, tuple("fedcb"), "the data lacks 1 of the model's 6 features: 'a'"),
        (6, tuple("aabcde"), "the data has two features of the same name"),
        (6, ("a",), "6 features but 1 feature names"),
    ):
        with pytest.raises(InputError, match=message):
            with_names.score(form(np.ones((2, columns))), names)


def test_features_and_models_that_do_not_fit():
    for X, message in (([1.0, 2.0], "must be a table"), ([["a"] * D], "must be numbers")):
        with pytest.raises(InputError, match=message):
            models()["trees"].score(X)
    with pytest.raises(InputError, match="6 features but 2 feature names"):
        TreeModel(D, ("a", "b"), grown())
    good = models()["softmax"]
    for change, message in (
        ({"link": "logit"}, "the link of the model is 'logit'; expected softmax or ordinal"),
        ({"link": "ordinal"}, "3 forests for 3 grades do not make a model"),
        ({"forests": good.forests[:2]}, "2 forests for 3 grades"),
        ({"starts": np.zeros(2)}, "3 forests for 3 grades"),
        ({"grades": np.array([0.0, np.nan, 1.0])}, "finite numbers"),
        ({"starts": np.zeros((3, 1))}, "finite numbers"),
        ({"feature_names": ("a",)}, "6 features but 1 feature names"),
    ):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(good, **change)


def add_models(*models):
    return interpolate(models, (1.0, 1.0))


def test_sums_of_models():
    X = np.nan_to_num(rows_of(50))
    trees, linear = models()["trees"], LinearModel(np.arange(D))
    np.testing.assert_allclose(models()["sum"].score(X), 2 * trees.score(X) + 0.5 * linear.score(X), rtol=1e-12)
    both = add_models(trees, TreeModel(D, None, forest(3, seed=4)))
    assert isinstance(both, TreeModel)
    assert both.forest.n_trees == 8
    assert isinstance(add_models(linear, trees), SumModel)
    assert isinstance(add_models(named(trees, NAMES), trees), SumModel)
    added = add_models(linear, LinearModel(np.ones(D)))
    assert isinstance(added, LinearModel)
    assert added.coef.tolist() == [1, 2, 3, 4, 5, 6]
    # Features of the background are found by position where only one of the two has names.
    found = add_models(LinearModel(np.arange(D), NAMES), trees).contributions(X[0], X[1])
    np.testing.assert_allclose(found, trees.contributions(X[0], X[1]) + linear.contributions(X[0], X[1]))
    shares = (linear.importance() / linear.importance().sum() + trees.importance()) / 2  # parts count alike
    np.testing.assert_allclose(SumModel((linear, trees), np.ones(2)).importance(), shares, rtol=1e-12)
    for parts, weights in (((), []), ((trees,), [np.nan]), ((trees,), [1.0, 2.0])):
        with pytest.raises(InputError, match="expected one finite weight each"):
            SumModel(parts, np.array(weights))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [None, NAMES])
def test_saved_and_loaded(kind, names, tmp_path):
    model, X = named(models()[kind], names), np.nan_to_num(rows_of())
    save_model(model, tmp_path / "one", method="m", parameters={})
    loaded = load_model(tmp_path / "one").model
    assert type(loaded) is type(model)
    assert same_bits(loaded.score(X), model.score(X))
    assert loaded.feature_names == names
    assert loaded.importance().tobytes() == model.importance().tobytes()
    np.testing.assert_array_equal(loaded.contributions(X[0], X[1]), model.contributions(X[0], X[1]))
    save_model(loaded, tmp_path / "two", method="m", parameters={})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_model_of_no_trees_is_saved(tmp_path):
    for model in (TreeModel(D), GradeModel(D, None, np.array([1.0]), (), np.zeros(0), "ordinal")):
        save_model(model, tmp_path / "m", method="m", parameters={})
        assert same_bits(load_model(tmp_path / "m").model.score(rows_of(3)), model.score(rows_of(3)))


def at(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


FIELDS = [field.name for field in dataclasses.fields(Forest) if field.name not in ("subset", "sets")]
DAMAGED = {  # changes of trees with a split at the node `inner`
    "child before its parent": lambda trees, inner: {"left": at(trees.left, inner, 0)},
    "node that is its own child": lambda trees, inner: {"left": at(trees.left, inner, inner)},
    "child past the end": lambda trees, inner: {"left": at(trees.left, inner, len(trees.feature) - 1)},
    "feature out of range": lambda trees, inner: {"feature": at(trees.feature, inner, D)},
    "root past the end": lambda trees, _: {"roots": at(trees.roots, -1, len(trees.feature))},
    "root before the start": lambda trees, _: {"roots": at(trees.roots, 0, -1)},
    "endless value": lambda trees, _: {"value": at(trees.value, 3, np.inf)},
    "missing value": lambda trees, _: {"value": at(trees.value, 3, np.nan)},
    "too few of threshold": lambda trees, _: {"threshold": trees.threshold[:-1]},
    "too few of missing_left": lambda trees, _: {"missing_left": trees.missing_left[:-1]},
    "too few of count": lambda trees, _: {"count": trees.count[:-1]},
    "only a root": lambda trees, _: {name: getattr(trees, name)[: name == "roots"] for name in FIELDS},
    "missing threshold": lambda trees, inner: {"threshold": at(trees.threshold, inner, np.nan)},
    "missing gain": lambda trees, inner: {"gain": at(trees.gain, inner, np.nan)},
    "rows below 0": lambda trees, _: {"count": at(trees.count, 0, -1.0)},
    "splits without rows": lambda trees, _: {"count": np.zeros(len(trees.feature))},
    "endless count": lambda trees, _: {"count": at(trees.count, 0, np.inf)},
    "too many nodes": lambda trees, _: {"feature": np.append(trees.feature, np.int32(-1))},
    "no nodes": lambda trees, _: {
        name: getattr(trees, name)[:0] for name in ("feature", "left", "threshold", "missing_left")
    },
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_trees_are_refused(what, tmp_path):
    trees = grown()
    broken = dataclasses.replace(trees, **DAMAGED[what](trees, int(np.flatnonzero(trees.feature >= 0)[1])))
    for model in (TreeModel(D, None, broken), dataclasses.replace(models()["ordinal"], forests=(trees, broken))):
        save_model(model, tmp_path / "m", method="m", parameters={})
        message = (
            r"damaged model: (.* of the trees (do not fit|is )|.*\.npy (has the shape|holds numbers that are not))"
        )
        with pytest.raises(InputError, match=message) as caught:
            load_model(tmp_path / "m")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FIELDS)
def test_arrays_of_another_type_are_refused(name, tmp_path):
    array = getattr(grown(), name)
    other = array.astype(np.float32)
    for changed, message in ((other, "holds float32"), (array[:, None], "has the shape")):
        model = TreeModel(D, None, dataclasses.replace(grown(), **{name: changed}))
        save_model(model, tmp_path / "m", method="m", parameters={})
        with pytest.raises(InputError, match=f"damaged model: {name}.npy {message}"):
            load_model(tmp_path / "m")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_named(kind, tmp_path):
    save_model(models()[kind], tmp_path / "m", method="m", parameters={})
    with zipfile.ZipFile(tmp_path / "m") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(content["model.json"])
    for array in header["arrays"]:
        less = {**header, "arrays": {key: value for key, value in header["arrays"].items() if key != array}}
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for entry, part in (content | {"model.json": json.dumps(less).encode()}).items():
                archive.writestr(entry, part)
        (tmp_path / "m").write_bytes(stream.getvalue())
        with pytest.raises(InputError, match=rf"damaged model: {array}\.npy is missing"):
            load_model(tmp_path / "m")
