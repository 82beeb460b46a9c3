"""CatBoost: the JSON of ``save_model(..., format="json")``, with numeric features.

CatBoost rounds a value to float32; one above the border sets the bit of its split, and the bits of an oblivious tree,
the first split lowest, are the number of the leaf. Missing values are below all borders or above all, as the file says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankwright.boosting.float32 import from_at_most, single
from rankwright.errors import shown
from rankwright.importing.nodes import Nodes, tree_model
from rankwright.importing.source import Facts, Imported, ImportSettings, ModelFile, number_of

_DEEPEST = 24
_TREATMENTS = {"AsIs": True, "AsFalse": True, "AsTrue": False}  # whether missing values are below all borders


def read(file: ModelFile, settings: ImportSettings, value: Any) -> Imported:
    head = Facts.of(file, value)
    info = head.object("features_info")
    for key in ("categorical_features", "text_features", "embedding_features"):
        if info.values.get(key):
            message = f"has {key.replace('_', ' ')}, which CatBoost turns into statistics of its training data"
            raise file.error(f"{message}; expected numeric features only")
    features, names = _features(info)
    scale, bias = _scale_and_bias(head)
    key, read_tree = ("oblivious_trees", _oblivious) if "oblivious_trees" in head.values else ("trees", _any_tree)
    trees = [read_tree(tree, features) for tree in Facts.trees(file, head.list(key))]
    n_in_file = 1 + max((column for column, _ in features.values()), default=-1)
    listed = None
    if any(names.values()):
        listed = tuple(names.get(at) or f"column {at}" for at in range(n_in_file))
    loss = _loss(head)
    notices = []
    if loss in ("Logloss", "CrossEntropy", "Poisson", "Tweedie"):
        message = f"scores are CatBoost's raw values, before its transform for {loss}"
        notices.append(f"{message} (prediction_type='RawFormulaVal'): the ranking is the same")
    imported = tree_model(
        file,
        settings,
        trees,
        numbered_from=0,
        n_in_file=n_in_file,
        names=listed,
        factors=[scale] * len(trees),
        constant=bias,
        objective=loss,
        notices=notices,
    )
    if loss in ("MultiClass", "MultiClassOneVsAll"):
        raise file.error(f"has the loss {loss}; expected a model that gives one score")
    return imported


Features = Mapping[int, tuple[int, bool]]  # by number: the column, and whether missing values are below all borders


def _features(info: Facts) -> tuple[Features, dict[int, str]]:
    """The numeric features, and their names by column."""
    features, names = {}, {}
    for feature in info.list("float_features"):
        facts = Facts.of(info.file, feature, "float_features")
        number, column = facts.integer("feature_index"), facts.integer("flat_feature_index")
        treatment = str(facts.values.get("nan_value_treatment", "AsIs"))
        if treatment not in _TREATMENTS:
            raise facts.error(f"nan_value_treatment is {shown(treatment)}; expected {', '.join(_TREATMENTS)}")
        features[number] = column, _TREATMENTS[treatment]
        names[column] = str(facts.values.get("feature_id") or "")
    return features, names


def _scale_and_bias(head: Facts) -> tuple[float, float]:
    value = head.values.get("scale_and_bias", [1.0, [0.0]])
    pair = value if isinstance(value, list) and len(value) == 2 else [None, None]
    biases = pair[1] if isinstance(pair[1], list) else [pair[1]]
    if len(biases) > 1:
        raise head.error(f"is a model of {len(biases)} values; expected one that gives one score")
    scale, bias = number_of(pair[0]), number_of(biases[0]) if biases else 0.0
    if scale is None or bias is None or not math.isfinite(scale) or not math.isfinite(bias):
        raise head.error(f"scale_and_bias is {shown(value)}; expected two finite numbers")
    return scale, bias


def _loss(head: Facts) -> str:
    value: Any = head.values.get("model_info")
    for key in ("params", "loss_function", "type"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _split(facts: Facts, features: Features) -> tuple[int, float, bool]:
    kind = facts.values.get("split_type", "FloatFeature")
    if kind != "FloatFeature":
        raise facts.error(f"has a split of the type {shown(kind)}; expected splits on numeric features only")
    feature = facts.integer("float_feature_index")
    if feature not in features:
        raise facts.error(f"splits on feature {feature}, which features_info lacks")
    column, missing_left = features[feature]
    return column, from_at_most(single(facts.number("border"))), missing_left


def _oblivious(facts: Facts, features: Features) -> Nodes:
    """A tree with the same split at all nodes of a level; the last split is the root."""
    given = facts.list("splits") if facts.values.get("splits") is not None else []
    listed = [facts.inside(split) for split in given]
    if len(listed) > _DEEPEST:
        raise facts.error(f"has {len(listed)} levels; expected at most {_DEEPEST}")
    splits = [_split(split, features) for split in listed]
    values = facts.array("leaf_values", float, 1 << len(splits)).tolist()
    weights = facts.values.get("leaf_weights")
    counts = facts.array("leaf_weights", float, len(values)).tolist() if weights else [None] * len(values)
    if not all(map(math.isfinite, values)):
        raise facts.error("the value of a leaf is not a finite number")
    nodes, depth = Nodes(), len(splits)
    for level in range(depth):
        column, threshold, left = splits[depth - 1 - level]
        for at in range(1 << level):
            first = (1 << level + 1) - 1 + 2 * at
            nodes.split(column, threshold, left, (first, first + 1))
    for value, count in zip(values, counts, strict=True):
        nodes.leaf(value, count)
    return nodes


def _any_tree(root: Facts, features: Features) -> Nodes:
    def add(nodes: Nodes, facts: Facts) -> tuple[int, tuple[Facts, Facts] | None]:
        if "split" not in facts.values:
            return nodes.leaf(facts.number("value"), number_of(facts.values.get("weight"))), None
        node = nodes.split(*_split(facts.object("split"), features))
        return node, (facts.object("left"), facts.object("right"))

    return Nodes.nested(root, add)
