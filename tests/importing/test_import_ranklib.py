"""RankLib's models, against evaluators of its rules in float32 that are written here."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from other_models import made_data, random_ensemble, rows_on_thresholds

import rankwright
from rankwright.errors import InputError, InputWarning

X, _ = made_data()
HEAD = "## {}\n## No. of trees = 2\n## Learning rate = 0.1\n\n"


def value_of(split, row):
    if split.find("output") is not None:
        return np.float64(np.float32(split.find("output").text))
    x = row[int(split.find("feature").text)]
    left, right = split.findall("split")
    x = np.float32(0.0) if np.isnan(x) else x
    return value_of(left if x <= np.float32(split.find("threshold").text) else right, row)


def ensemble_scores(text, rows):
    """RankLib's sum: float32 after every tree, features from 1 in float32, missing ones 0."""
    trees = ElementTree.fromstring(text).findall("tree")
    scores = np.zeros(len(rows), np.float32)
    for at, row in enumerate(np.column_stack([np.full(len(rows), np.nan), rows]).astype(np.float32)):
        for tree in trees:
            value = value_of(tree.find("split"), row) * np.float64(np.float32(tree.get("weight")))
            scores[at] = np.float32(scores[at] + value)
    return scores


@pytest.mark.parametrize("name", ["LambdaMART", "MART"])
def test_trees(name, tmp_path):
    text = random_ensemble(3)
    (tmp_path / "model.txt").write_text(HEAD.format(name) + text)
    saved = rankwright.import_model(tmp_path / "model.txt", n_features=6)
    rows = rows_on_thresholds(saved.model, X[:100])
    for table in (rows, rows.astype(np.float32)):
        np.testing.assert_allclose(saved.predict(table), ensemble_scores(text, table), rtol=1e-5, atol=1e-6)
    saved.model.forest.threshold[:] = np.nextafter(saved.model.forest.threshold, np.inf)
    assert np.abs(saved.predict(rows) - ensemble_scores(text, rows)).max() > 1e-3  # negative control


def test_all_tags_on_one_line(tmp_path):
    text = random_ensemble(4)
    (tmp_path / "model.txt").write_text("## LambdaMART\n" + text.replace("\n", " ").replace("\t", ""))
    found = rankwright.import_model(tmp_path / "model.txt", n_features=6).predict(X)
    np.testing.assert_allclose(found, ensemble_scores(text, X), rtol=1e-5, atol=1e-6)


def test_random_forests_are_the_mean_of_their_ensembles(tmp_path):
    texts = [random_ensemble(seed, 1) for seed in range(3)]
    (tmp_path / "model.txt").write_text(HEAD.format("Random Forests") + "".join(texts))
    found = rankwright.import_model(tmp_path / "model.txt", n_features=6).predict(X)
    expected = np.mean([ensemble_scores(text, X) for text in texts], axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Coordinate Ascent", "AdaRank", "Linear Regression"])
def test_linear_models(name, tmp_path):
    rows = np.nan_to_num(X)
    weights = "2:0.5 1:-1.25 5:3.0E-2"
    repeated, constant = ("2:0.25", 0.0) if name == "AdaRank" else ("", 0.0)
    if name == "Linear Regression":
        weights, constant = "0:4.0 " + weights, 4.0
    (tmp_path / "model.txt").write_text(f"## {name}\n## Tolerance = 0.001\n{weights} {repeated}\n")
    saved = rankwright.import_model(tmp_path / "model.txt", n_features=6)
    second = 0.75 if repeated else 0.5
    expected = second * rows[:, 1] - 1.25 * rows[:, 0] + 3.0e-2 * rows[:, 4] + constant
    np.testing.assert_allclose(saved.predict(rows), expected, rtol=1e-14, atol=1e-14)
    alone = rankwright.import_model(tmp_path / "model.txt", constant=False).model
    assert isinstance(alone, rankwright.LinearModel)
    assert alone.n_features == 5


def test_rank_boost(tmp_path):
    steps = [(1, 0.25, 0.5), (3, -0.1, 1.5), (1, 0.0, -0.25), (6, 0.1, 2.0)]
    line = " ".join(f"{feature}:{threshold}:{weight}" for feature, threshold, weight in steps)
    (tmp_path / "model.txt").write_text(f"## RankBoost\n## Iteration = 300\n{line}\n")
    model = rankwright.import_model(tmp_path / "model.txt").model
    rows = rows_on_thresholds(model, X[:100])
    table = np.nan_to_num(rows.astype(np.float32)).astype(np.float64)  # Java compares in double
    expected = sum(weight * (table[:, feature - 1] > threshold) for feature, threshold, weight in steps)
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-14)


def net_text(name, features, units, weights):
    """A net as RankLib writes it; the last neuron of the input is the constant."""
    sizes = [str(1 if units else 0)] + ([str(units)] if units else [])
    lines = [f"{layer} {neuron} {' '.join(map(repr, row))}" for (layer, neuron), row in weights.items()]
    return "\n".join([f"## {name}", "## Epochs = 100", " ".join(map(str, features)), *sizes, *lines, ""])


@pytest.mark.parametrize(("name", "units"), [("RankNet", 3), ("LambdaRank", 1), ("ListNet", 0)])
def test_nets(name, units, tmp_path):
    rng = np.random.default_rng(2)
    features, wide = [2, 1, 6], max(units, 1)
    weights = {(0, at): rng.normal(size=wide).tolist() for at in range(3)}
    weights[0, 3] = rng.normal(size=units + 1).tolist()
    weights |= {(1, at): rng.normal(size=1).tolist() for at in range(units)}
    (tmp_path / "model.txt").write_text(net_text(name, features, units, weights))
    with pytest.warns(InputWarning, match="before RankLib's last sigmoid: the ranking is the same"):
        saved = rankwright.import_model(tmp_path / "model.txt")
    rows = np.nan_to_num(X)
    inputs = rows[:, [feature - 1 for feature in features]]
    sums = inputs @ np.array([weights[0, at] for at in range(3)])
    if units:
        hidden = 1.0 / (1.0 + np.exp(-(sums + weights[0, 3][:units])))
        sums = hidden @ np.array([weights[1, at] for at in range(units)])
    expected = 1.0 / (1.0 + np.exp(-(sums[:, 0] + weights[0, 3][units])))
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-saved.predict(rows))), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("## SomethingElse\n1:2\n", "1: is of the ranker 'SomethingElse'; expected one of: LambdaMART"),
        ("## RankNet\n1 2\n2\n3\n3\n", "3: is a net of 2 hidden layers; expected at most one"),
        ("## RankNet\n1 2\n1\n3\n0 0 1 2 3\n", "5: has other neurons or weights than its layers have"),
        ("## Coordinate Ascent\n## x\n", "2: has no model after its first lines"),
        ("## Coordinate Ascent\n1:a\n", "2: a weight has 'a'; expected numbers"),
        ("## Coordinate Ascent\n1:nan\n", "2: has '1:nan'; expected finite numbers"),
        ("## Coordinate Ascent\n99999999999:1\n", "uses feature 99,999,999,999; expected numbers in proportion"),
        ("## LambdaMART\n<ensemble>\n<tree weight='1'>\n<split>\n", "4: ends inside its trees"),
        ("## LambdaMART\n<ensemble>\n<split>\n", "3: the tag 'split' inside ensemble"),
        ("## LambdaMART\n<ensemble><tree weight='x'>\n", "2: the weight of a tree is 'x'"),
        (
            "## LambdaMART\n<ensemble>\n<tree>\n<split>\n<feature>1</feature>\n</split>\n</tree>\n</ensemble>\n",
            "4: expected a feature, a threshold, a left and a right part",
        ),
        ('## LambdaMART\n<!DOCTYPE x [<!ENTITY a "b">]>\n<ensemble>&a;</ensemble>\n', "2: "),
    ],
)
def test_damaged_files_are_one_line(text, message, tmp_path):
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(InputError) as error:
        rankwright.import_model(tmp_path / "model.txt")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
