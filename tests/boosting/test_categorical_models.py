"""Models of trees with categorical features: scores against a walk, files, damage, and sums."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest
from scipy import sparse

from rankwright import InputError
from rankwright.boosting.forest import Forest, Tree
from rankwright.boosting.tree_model import GradeModel, TreeModel
from rankwright.data.categories import NO_CATEGORY, number_of
from rankwright.models.linear import LinearModel
from rankwright.models.saving import load_model, save_model, version_of
from rankwright.models.sum import SumModel, interpolate

TEXTS = tuple(f"text {number}" for number in range(70))
NUMBERS = (30, 10, 20, -7, 0.5)
CATEGORIES = {0: TEXTS, 2: NUMBERS}


def forest(seed=0, n_leaves=10, n_trees=4):
    """Trees of random splits by threshold (feature 1) and by categories (features 0 and 2)."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(n_trees):
        feature, left, threshold, subset, sets = [-1], [0], [0.0], [-1], []
        for _ in range(n_leaves - 1):
            node = int(rng.choice(np.flatnonzero(np.array(feature) < 0)))
            feature[node], left[node] = int(rng.integers(3)), len(feature)
            if feature[node] == 1:
                threshold[node] = float(np.round(rng.normal(), 1))
            else:
                subset[node] = len(sets)
                sets.append(rng.integers(0, 2**63, 4, np.uint64))
            for array, empty in ((feature, -1), (left, 0), (threshold, 0.0), (subset, -1)):
                array += [empty, empty]
        n = len(feature)
        trees.append(
            Tree(
                np.array(feature, np.int32), np.array(threshold), rng.random(n) < 0.5, np.array(left, np.int32),
                rng.normal(size=n), np.ones(n), np.ones(n), np.array(subset, np.int32),
                np.array(sets, np.uint64).reshape(-1, 4),
            )
        )  # fmt: skip
    return Forest.of(trees)


def rows_of(n=300, seed=1):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3))
    X[:, 0] = rng.choice([*map(number_of, TEXTS), number_of("unknown"), NO_CATEGORY, 0.0], n)
    X[:, 1] = np.round(rng.normal(size=n), 1)
    X[:, 2] = rng.choice([*NUMBERS, 99.0, 0.0, NO_CATEGORY, np.nan], n)
    X[rng.random(n) < 0.1, 1] = np.nan
    return X


def walked(trees, X):
    """Scores step by step, categories looked up by their values."""
    known = {j: {number_of(value): c for c, value in enumerate(values)} for j, values in CATEGORIES.items()}
    found = []
    for row in X.tolist():
        total = 0.0
        for root in trees.roots.tolist():
            node = root
            while trees.feature[node] >= 0:
                j, x = int(trees.feature[node]), row[trees.feature[node]]
                if j in known:
                    c = known[j].get(x)
                    words = trees.sets[trees.subset[node]]
                    left = trees.missing_left[node] if c is None else int(words[c // 64]) >> (c % 64) & 1
                else:
                    left = trees.missing_left[node] if x != x else x <= trees.threshold[node]
                node = int(trees.left[node]) + (0 if left else 1)
            total += float(trees.value[node])
        found.append(total)
    return np.array(found)


MODEL = TreeModel(3, ("lang", "bm25", "site"), forest(), categories=CATEGORIES)
GRADES = GradeModel(
    3, None, np.array([0.0, 1.0, 2.0]), (forest(1), forest(2)), np.zeros(2), "ordinal", categories=CATEGORIES
)


@pytest.mark.parametrize("n_leaves", [2, 10, 64, 80])
def test_scores_are_those_of_a_walk(n_leaves):
    trees, X = forest(3, n_leaves), rows_of()
    model = TreeModel(3, None, trees, categories=CATEGORIES)
    expected = walked(trees, X)
    assert model.score(X).tobytes() == expected.tobytes()
    assert model.score(sparse.csr_array(X)).tobytes() == expected.tobytes()
    assert model.score(X[::-1]).tobytes() == expected[::-1].tobytes()
    coded = model.coded(X)
    assert set(coded[:, 2][~np.isnan(coded[:, 2])].tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    for part in (trees.first(2), Forest.join([trees, forest(5)])):
        part.check(3, (0, 2))
        part_scores = TreeModel(3, None, part, categories=CATEGORIES).score(X)
        assert part_scores.tobytes() == walked(part, X).tobytes()


@pytest.mark.parametrize("model", [MODEL, GRADES, SumModel((MODEL, LinearModel([0, 1, 0])), np.array([2.0, 1.0]))])
def test_files_keep_every_bit(model, tmp_path):
    X = np.where(np.isnan(rows_of()), 0.0, rows_of())
    save_model(model, tmp_path / "m", method="m", parameters={})
    saved = load_model(tmp_path / "m")
    assert (saved.header["version"], version_of(saved.model)) == (2, 2)
    assert saved.model.score(X).tobytes() == model.score(X).tobytes()
    own = saved.model.parts[0] if isinstance(model, SumModel) else saved.model
    assert own.categories == CATEGORIES
    save_model(saved.model, tmp_path / "n", method="m", parameters={})
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()


def refused(model, tmp_path, message, **header):
    save_model(model, tmp_path / "m", method="m", parameters={})
    if header:
        with zipfile.ZipFile(tmp_path / "m") as file:
            members = {name: file.read(name) for name in file.namelist()}
        changed = json.loads(members["model.json"]) | header
        members["model.json"] = json.dumps(changed).encode()
        with zipfile.ZipFile(tmp_path / "m", "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
    with pytest.raises(InputError, match=f"damaged model: .*{message}") as caught:
        load_model(tmp_path / "m")
    assert "\n" not in str(caught.value)


DAMAGED = {
    "a set beyond the last": {"subset": np.where(MODEL.forest.subset >= 0, MODEL.forest.subset + 1, -1)},
    "no set": {"subset": np.full_like(MODEL.forest.subset, -1)},
    "a set at a threshold": {"subset": np.where(MODEL.forest.feature >= 0, 0, -1)},
    "a set at a leaf": {"subset": np.where(MODEL.forest.feature < 0, 0, MODEL.forest.subset)},
    "sets of another width": {"sets": MODEL.forest.sets[:, :3]},
    "sets of another type": {"sets": MODEL.forest.sets.astype(np.int64)},
    "too few nodes": {"subset": MODEL.forest.subset[:-1]},
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_sets_are_refused(what, tmp_path):
    changed = {name: array.astype(np.int32) if name == "subset" else array for name, array in DAMAGED[what].items()}
    broken = dataclasses.replace(MODEL.forest, **changed)
    refused(dataclasses.replace(MODEL, forest=broken), tmp_path, "(of the trees|npy)")


@pytest.mark.parametrize(
    "categories",
    [
        {"0": ["a"]},
        {"0": ["a", "a"], "2": [1]},
        {"0": ["a", 1], "2": [1]},
        {"0": [f"text {number}" for number in range(256)], "2": [1]},
        {"0": ["a"], "2": [1e300]},
        {"0": ["a"], "3": [1]},
        {"0": ["a"], "2": None},
        {"0": ["a"], "1": [1], "2": [1]},
        {},
        [],
        None,
    ],
)
def test_damaged_categories_are_refused(categories, tmp_path):
    refused(MODEL, tmp_path, "(categor|differ|trees)", categories=categories)


def test_models_are_joined_if_their_categories_are_the_same():
    X, other = rows_of(), TreeModel(3, MODEL.feature_names, forest(7), categories={0: TEXTS[::-1], 2: NUMBERS})
    both = interpolate([MODEL, MODEL], [1.0, 2.0])
    assert isinstance(both, TreeModel)
    np.testing.assert_allclose(both.score(X), 3.0 * MODEL.score(X), rtol=1e-12)
    apart = interpolate([MODEL, other], [1.0, 2.0])
    assert isinstance(apart, SumModel)
    np.testing.assert_allclose(apart.score(X), MODEL.score(X) + 2.0 * other.score(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 3.0, r"the feature 'lang' is the number 3 in row 1 \(from 0\); the model was trained on text there"),
        (2, number_of("a"), r"the feature 'site' is text in row 1 \(from 0\); the model was trained on numbers there"),
    ],
)
def test_text_for_numbers_and_numbers_for_text_are_refused(column, value, message):
    X = rows_of(3)
    X[1, column] = value
    with pytest.raises(InputError, match=message):
        MODEL.score(X)
