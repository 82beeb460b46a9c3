"""CatBoost: the JSON of ``save_model(..., format="json")``, with numeric features.

CatBoost rounds a value to float32; one above the border sets the bit of its split, and the bits of an oblivious tree,
the first split lowest, are the number of the leaf. Missing values are below all borders or above all, as the file says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankwright.errors import shown
from rankwright.importing.float32 import at_most, single
from rankwright.importing.nodes import Nodes, tree_model
from rankwright.importing.result import Imported
from rankwright.importing.source import Facts, ModelFile, Settings, number_of

__all__ = ["read"]

_DEEPEST = 24
_TREATMENTS = {"AsIs": True, "AsFalse": True, "AsTrue": False}  # whether missing values are below all borders


def read(file: ModelFile, settings: Settings, value: Any) -> Imported:
    """Read the JSON form, parsed."""
    head = Facts.of(file, value)
    info = head.object("features_info")
    for key in ("categorical_features", "text_features", "embedding_features"):
        if info.values.get(key):
            what = f"has {key.replace('_', ' ')}, which CatBoost turns into statistics of its training data"
            raise file.error(f"{what}; expected numeric features only")
    columns, missing_left, names = _columns(info)
    scale, bias = _scale_and_bias(head)
    trees = []
    flat = "oblivious_trees" in head.values
    for at, one in enumerate(head.list("oblivious_trees" if flat else "trees")):
        facts = Facts.of(file, one, f"tree {at} (from 0)")
        trees.append((_oblivious if flat else _any_tree)(facts, columns, missing_left))
    known = 1 + max(columns.values(), default=-1)
    listed = None
    if any(names.values()):
        listed = tuple(names.get(at) or f"column {at}" for at in range(known))
    model = tree_model(
        file, settings, trees, numbered_from=0, known=known, names=listed, factors=[scale] * len(trees), constant=bias
    )
    loss = _loss(head)
    notices = []
    if loss in ("MultiClass", "MultiClassOneVsAll"):
        raise file.error(f"has the loss {loss}; expected a model that gives one score")
    if loss in ("Logloss", "CrossEntropy", "Poisson", "Tweedie"):
        what = f"scores are CatBoost's raw values, before its transform for {loss}"
        notices.append(f"{what} (prediction_type='RawFormulaVal'): the ranking is the same")
    return Imported(model, {"objective": loss, "trees": len(trees)}, tuple(notices))


def _columns(info: Facts) -> tuple[dict[int, int], dict[int, bool], dict[int, str]]:
    """By the number of a numeric feature its column and the side of missing values; names by column."""
    columns, missing_left, names = {}, {}, {}
    for one in info.list("float_features"):
        facts = Facts.of(info.file, one, "float_features")
        own, column = facts.whole("feature_index"), facts.whole("flat_feature_index")
        treatment = str(facts.values.get("nan_value_treatment", "AsIs"))
        if treatment not in _TREATMENTS:
            raise facts.error(f"nan_value_treatment is {shown(treatment)}; expected {', '.join(_TREATMENTS)}")
        columns[own], missing_left[own] = column, _TREATMENTS[treatment]
        names[column] = str(facts.values.get("feature_id") or "")
    return columns, missing_left, names


def _scale_and_bias(head: Facts) -> tuple[float, float]:
    found = head.values.get("scale_and_bias", [1.0, [0.0]])
    pair = found if isinstance(found, list) and len(found) == 2 else [None, None]
    biases = pair[1] if isinstance(pair[1], list) else [pair[1]]
    if len(biases) > 1:
        raise head.error(f"is a model of {len(biases)} values; expected one that gives one score")
    scale, bias = number_of(pair[0]), number_of(biases[0]) if biases else 0.0
    if scale is None or bias is None or not math.isfinite(scale) or not math.isfinite(bias):
        raise head.error(f"scale_and_bias is {shown(found)}; expected two finite numbers")
    return scale, bias


def _loss(head: Facts) -> str:
    found: Any = head.values.get("model_info")
    for key in ("params", "loss_function", "type"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def _split(facts: Facts, columns: Mapping[int, int], missing_left: Mapping[int, bool]) -> tuple[int, float, bool]:
    """Column, threshold and side of missing values."""
    kind = facts.values.get("split_type", "FloatFeature")
    if kind != "FloatFeature":
        raise facts.error(f"has a split of the type {shown(kind)}; expected splits on numeric features only")
    own = facts.whole("float_feature_index")
    if own not in columns:
        raise facts.error(f"splits on feature {own}, which features_info lacks")
    return columns[own], at_most(single(facts.number("border"))), missing_left[own]


def _oblivious(facts: Facts, columns: Mapping[int, int], missing_left: Mapping[int, bool]) -> Nodes:
    """A tree with the same split at all nodes of a level; the last split is the root."""
    found = facts.values.get("splits")
    listed = [Facts.of(facts.file, one, facts.place) for one in (facts.list("splits") if found is not None else [])]
    if len(listed) > _DEEPEST:
        raise facts.error(f"has {len(listed)} levels; expected at most {_DEEPEST}")
    splits = [_split(one, columns, missing_left) for one in listed]
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


def _any_tree(root: Facts, columns: Mapping[int, int], missing_left: Mapping[int, bool]) -> Nodes:
    """A tree of any shape, nodes inside nodes."""
    nodes = Nodes()
    waiting: list[tuple[Facts, tuple[int, bool] | None]] = [(root, None)]
    while waiting:
        facts, at = waiting.pop()
        if "split" in facts.values:
            node = nodes.split(*_split(facts.object("split"), columns, missing_left))
            for key in ("right", "left"):
                waiting.append((facts.object(key), (node, key == "left")))
        else:
            node = nodes.leaf(facts.number("value"), number_of(facts.values.get("weight")))
        if at is not None:
            (nodes.left if at[1] else nodes.right)[at[0]] = node
    return nodes
