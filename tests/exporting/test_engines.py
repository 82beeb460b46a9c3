"""Exports for search engines, scored by evaluators written here from the engines' rules, number by number.

They share nothing with the evaluators of the package, which work on arrays of nodes.
"""

import json
import math
import re
import struct

import numpy as np
import pytest
from made_models import NAMES, random_trees

from rankwright import BinnedModel, InputError, LinearModel, NetModel, SumModel, export_model
from rankwright.exporting.ensemble import ensemble_of
from rankwright.exporting.targets import find_target
from rankwright.exporting.verify import probe_rows

RNG = np.random.default_rng(3)
USUAL = RNG.normal(size=60)
LINEAR = LinearModel(RNG.normal(size=6) * [1, 10, 1e-3, 0, 1, 100], NAMES)
CONSTANT = random_trees(2, n_leaves=1)
MODELS = {
    "trees": random_trees(1),
    "usual": random_trees(4, thresholds=USUAL),
    "one leaf": CONSTANT,
    "no trees": random_trees(n_trees=0),
    "bins": BinnedModel([0.25, 1.0, 0.1, -1.0], [0, 2, 3, 4], [1.0, -3.0, 2.0, 0.5]),
    "sum": SumModel((random_trees(5), random_trees(6)), [0.3, -2.0]),
    "linear": LINEAR,
    "zero": LinearModel([0.0, 0.0]),
    "linear and constant": SumModel((LINEAR, CONSTANT), [1.0, 2.0]),
    "linear and trees": SumModel((LINEAR, random_trees(7)), [1.0, 0.5]),
    "net": NetModel(RNG.normal(size=(3, 6)), RNG.normal(size=3), RNG.normal(size=3), NAMES),
    "net with an unused feature": NetModel([[0.0, 1.0], [0.0, -2.0]], [0.5, 0.0], [1.0, 0.5]),
    "odd names": random_trees(8, names=('a "b"', "a\\b", "a,b:c", "ü < {x}", "a  b", "'")),
}
TREES = ("trees", "usual", "bins", "sum", "odd names")
WITHOUT_FEATURES = ("one leaf", "no trees", "zero")


def f32(number):
    """Return the float32 nearest to a number."""
    return struct.unpack("f", struct.pack("f", number))[0]


def add32(terms):
    total = 0.0
    for term in terms:
        total = f32(total + f32(term))
    return total


def by_dump(trees, row):
    """Score by XGBoost's dump, as the plugins do."""

    def walk(node):
        if "leaf" in node:
            assert set(node) == {"nodeid", "leaf"}
            return f32(node["leaf"])
        assert set(node) == {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "children"}
        yes, no = node["children"]
        assert (yes["nodeid"], no["nodeid"]) == (node["yes"], node["no"])
        x = row.get(node["split"])
        if x is None:
            return walk(yes if node["missing"] == node["yes"] else no)
        return walk(yes if f32(node["split_condition"]) > f32(x) else no)

    return add32(walk(tree) for tree in trees)


def by_raw(text, row):
    """Score by XGBoost's whole model, as the plugins do: leaves are base weights."""
    learner = json.loads(text)["learner"]
    assert set(learner["feature_types"]) <= {"float"}
    assert learner["objective"]["name"] == "rank:pairwise"
    values = []
    for tree in learner["gradient_booster"]["model"]["trees"]:
        at = 0
        while tree["left_children"][at] != -1:
            x = row.get(learner["feature_names"][tree["split_indices"][at]])
            left = tree["default_left"][at] if x is None else f32(tree["split_conditions"][at]) > f32(x)
            at = tree["left_children" if left else "right_children"][at]
        values.append(tree["base_weights"][at])
    return add32(values)


def by_ranklib(text, row, names):
    """Score by RankLib's text, as RankLib reads it: lines are trimmed and joined."""
    lines = [line.strip() for line in text.splitlines()]
    body = "".join(line for line in lines if line and not line.startswith("##"))
    values = [f32(row.get(name) or 0.0) for name in names]
    if lines[0] != "## LambdaMART":
        assert lines[0] in ("## Coordinate Ascent", "## Linear Regression")
        pairs = dict(term.split(":") for term in body.split())
        constant = float(pairs.pop("0", 0.0))
        return constant + sum(float(weight) * values[int(number) - 1] for number, weight in pairs.items())
    assert not re.search(r">\s+<", body), "white space between elements would be a child"
    tokens = re.findall(r"<[^>]+>|[^<>]+", body)

    def split(at):
        """Return the value of the split that opens at a token, and the token after it."""
        assert tokens[at].startswith("<split")
        if tokens[at + 1] == "<output>":
            assert tokens[at + 3 : at + 5] == ["</output>", "</split>"]
            return f32(float(tokens[at + 2])), at + 5
        assert (tokens[at + 1], tokens[at + 4]) == ("<feature>", "<threshold>")
        feature, threshold = int(tokens[at + 2]), f32(float(tokens[at + 5]))
        assert 'pos="left"' in tokens[at + 7]
        left, middle = split(at + 7)
        assert 'pos="right"' in tokens[middle]
        right, after = split(middle)
        return (left if values[feature - 1] <= threshold else right), after + 1

    at, terms = 1, []
    while tokens[at].startswith("<tree"):
        weight = float(re.search(r'weight="([^"]+)"', tokens[at])[1])
        value, at = split(at + 1)
        assert tokens[at] == "</tree>"
        terms.append(weight * value)
        at += 1
    assert tokens[at:] == ["</ensemble>"]
    return add32(terms)


def by_solr(model, row):
    """Score as Solr's model classes do."""
    values = [row.get(feature["name"]) for feature in model["features"]]
    kind, params = model["class"].rpartition(".")[2], model["params"]
    if kind == "LinearModel":
        assert set(params["weights"]) == {feature["name"] for feature in model["features"]}
        weights = [params["weights"][feature["name"]] for feature in model["features"]]
        return add32(f32(f32(weight) * f32(x)) for weight, x in zip(weights, values, strict=True))
    if kind == "NeuralNetworkModel":
        values = [f32(x) for x in values]
        for layer in params["layers"]:
            sums = []
            for weights, constant in zip(layer["matrix"], layer["bias"], strict=True):
                assert all(isinstance(number, float) for number in [*weights, constant]), "Solr casts to Double"
                terms = [f32(f32(weight) * x) for weight, x in zip(weights, values, strict=True)]
                sums.append(add32([constant, *terms]))
            values = [f32(math.tanh(total)) if layer["activation"] == "tanh" else total for total in sums]
        return values[0]
    row = dict(zip([feature["name"] for feature in model["features"]], values, strict=True))

    def walk(node):
        if "feature" not in node:
            return f32(float(node["value"]))
        x, threshold = row[node["feature"]], f32(f32(float(node["threshold"])) + f32(1e-6))
        if x is None and params.get("isNullSameAsZero") is False:
            return walk(node[node["missing"]])
        return walk(node["left" if f32(x or 0.0) <= threshold else "right"])

    return add32(f32(float(tree["weight"]) * walk(tree["root"])) for tree in params["trees"])


def by_elasticsearch(model, row):
    """Score as Elasticsearch's inference does, in float64."""
    ensemble = model["definition"]["trained_model"]["ensemble"]
    assert model["input"]["field_names"] == ensemble["feature_names"]
    total = 0.0
    for part in ensemble["trained_models"]:
        nodes, at = part["tree"]["tree_structure"], 0
        assert [node["node_index"] for node in nodes] == list(range(len(nodes)))
        assert part["tree"]["feature_names"] == ensemble["feature_names"]
        while "left_child" in nodes[at]:
            x = row.get(ensemble["feature_names"][nodes[at]["split_feature"]])
            assert nodes[at]["decision_type"] == "lte"
            left = nodes[at]["default_left"] if x is None else x <= nodes[at]["threshold"]
            at = nodes[at]["left_child" if left else "right_child"]
        total += nodes[at]["leaf_value"]
    return total


def by_vespa(folder, row):
    """Score by the expression, and the model in it as Vespa turns it into an expression: with <."""
    text = (folder / "rank-profile.txt").read_text()
    expression = re.search(r"expression \{(.*?)\}", text, re.DOTALL)[1]

    def walk(node, names):
        if "leaf_value" in node:
            return node["leaf_value"]
        x, threshold = row.get(names[node["split_feature"]]), node["threshold"]
        x = math.nan if x is None else x
        left = not x >= threshold if node["default_left"] else x < threshold
        return walk(node["left_child" if left else "right_child"], names)

    total = 0.0
    for term in re.split(r"\+\s*\n", expression):
        factor, _, name = term.strip().partition(" * ")
        if factor.startswith("lightgbm"):
            model = json.loads((folder / factor[len('lightgbm("') : -len('")')]).read_text())
            assert model["objective"] == "lambdarank"
            total += sum(walk(tree["tree_structure"], model["feature_names"]) for tree in model["tree_info"])
        else:
            total += float(factor.strip("()")) * (row[name] if name else 1.0)
    return total


def compare(name, target, folder, score, *, dtype=np.float32, tolerance=2e-6, **options):
    """Compare the golden rows and made ones with the model; a row off its path is far beyond the tolerance."""
    model = MODELS[name]
    done = export_model(model, target, folder / "out", **options)
    assert done.made.off == 0
    ensemble = ensemble_of(model)
    zero = options.get("missing_as_zero", False)
    X = find_target(target).seen(probe_rows(ensemble, dtype, missing=not zero, seed=4), ensemble)[
        :: 7 if name != "no trees" else 90
    ]
    expected = model.score(X, model.feature_names)
    golden = json.loads((folder / "out" / "golden.json").read_text())
    rows = [{key: None if x != x else x for key, x in zip(ensemble.names, row, strict=True)} for row in X.tolist()]
    rows += [row["features"] for row in golden["rows"]]
    expected = np.append(expected, [row["score"] for row in golden["rows"]])
    found = np.array([score(folder / "out", row) for row in rows])
    largest = np.abs(expected).max(initial=0.0) or 1.0
    off = np.abs(found - expected) > tolerance * largest
    assert off.sum() <= done.made.inexact, f"{off.sum()} of {len(off)} off, up to {np.abs(found - expected).max()}"
    return done


def opensearch_score(kind):
    def score(folder, row):
        model = json.loads((folder / "model.json").read_text())["model"]["model"]
        assert model["type"] == kind
        definition = model["definition"]
        if kind == "model/linear":
            return add32(f32(f32(weight) * f32(row[key])) for key, weight in definition.items())
        if kind == "model/ranklib":
            return by_ranklib(definition, row, NAMES)
        return by_raw(definition, row) if kind.endswith("raw") else by_dump(definition, row)

    return score


@pytest.mark.parametrize("name", TREES)
def test_trees_in_the_plugin(name, tmp_path):
    compare(name, "opensearch", tmp_path, opensearch_score("model/xgboost+json"), form="trees")


@pytest.mark.parametrize("name", TREES)
def test_whole_models_of_xgboost_in_the_plugin(name, tmp_path):
    compare(name, "opensearch", tmp_path, opensearch_score("model/xgboost+json+raw"), form="raw")


def test_weights_in_the_plugin(tmp_path):
    compare("linear", "opensearch", tmp_path, opensearch_score("model/linear"))


@pytest.mark.parametrize("name", ["trees", "linear", "linear and constant"])
def test_ranklib_in_the_plugin(name, tmp_path):
    compare(name, "opensearch", tmp_path, opensearch_score("model/ranklib"), form="ranklib", missing_as_zero=True)


@pytest.mark.parametrize("name", [*TREES[:-1], *WITHOUT_FEATURES, "linear", "linear and constant"])
def test_ranklib(name, tmp_path):
    names = MODELS[name].names

    def score(folder, row):
        return by_ranklib((folder / "model.txt").read_text(), row, names)

    compare(name, "ranklib", tmp_path, score, missing_as_zero=True)


def solr_score(folder, row):
    """Score a row by the names that the features have in Solr."""
    names = json.loads((folder / "feature_names.json").read_text()) if (folder / "feature_names.json").exists() else {}
    return by_solr(json.loads((folder / "model.json").read_text()), {names.get(key, key): row[key] for key in row})


@pytest.mark.parametrize("name", [*TREES, "linear", "linear and constant", "net", "net with an unused feature"])
def test_solr(name, tmp_path):
    done = compare(name, "solr", tmp_path, solr_score)
    assert done.made.inexact == 0 or name in ("trees", "sum", "odd names")


def test_solr_without_missing_values(tmp_path):
    done = compare("usual", "solr", tmp_path, solr_score, missing_as_zero=True)
    assert "isNullSameAsZero" not in (tmp_path / "out" / "model.json").read_text()
    assert [note for note in done.notes if not note.startswith("features in solr: ")] == []


@pytest.mark.parametrize("name", TREES)
def test_elasticsearch(name, tmp_path):
    def score(folder, row):
        return by_elasticsearch(json.loads((folder / "model.json").read_text()), row)

    compare(name, "elasticsearch", tmp_path, score, dtype=np.float64, tolerance=1e-14)


@pytest.mark.parametrize("name", [*TREES[:-1], *WITHOUT_FEATURES, "linear", "linear and constant", "linear and trees"])
def test_vespa(name, tmp_path):
    compare(name, "vespa", tmp_path, by_vespa, dtype=np.float64, tolerance=1e-14)


def test_the_slack_of_solr_moves_tiny_thresholds_only_and_says_so(tmp_path):
    done = export_model(random_trees(1), "solr", tmp_path / "out")
    (note,) = [note for note in done.notes if "thresholds are moved" in note]
    assert re.match(r"\d+ of 88 thresholds are moved, by up to \d\.\de-1\d", note)
    assert done.made.inexact > 0
    assert json.loads((tmp_path / "out" / "export.json").read_text())["verified"]["inexact"] == done.made.inexact


@pytest.mark.parametrize("name", WITHOUT_FEATURES)
@pytest.mark.parametrize("target", ["opensearch", "elasticsearch", "solr"])
def test_engines_take_no_model_without_features(name, target, tmp_path):
    with pytest.raises(InputError, match="it uses no feature, so all documents score the same"):
        export_model(MODELS[name], target, tmp_path / "out")
