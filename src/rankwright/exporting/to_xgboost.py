"""XGBoost's JSON model: ``x < threshold`` and sums in float32, missing values by split.

Sets of categories name those that go right; XGBoost sends categories that it does not know left, so a split that sends
them right is turned around.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_below, number_text
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, tree_scores
from rankwright.exporting.ensemble import CODING_NOTE, Ensemble, allowed_names, coded, coding_files, left_codes
from rankwright.exporting.target import Consumer, ExportFiles, ExportTarget, Options, Scorer, refuse_all_but_trees

_MODEL = "model.json"
_ROOT = 2147483647
_NOT_IN_NAMES = re.compile(r"[\[\]<]")
_OBJECTIVE = {
    "lambdarank_param": {
        "lambdarank_bias_norm": "1", "lambdarank_normalization": "1", "lambdarank_num_pair_per_sample": "4294967295",
        "lambdarank_pair_method": "topk", "lambdarank_score_normalization": "1", "lambdarank_unbiased": "0",
        "ndcg_exp_gain": "1",
    },
    "name": "rank:pairwise",
}  # fmt: skip


def short(value: float) -> float:
    """The number of fewest digits that is read as the same float32, directly or by way of float64."""
    with np.errstate(under="ignore"):
        return float(number_text(np.float32(value)))


def raw_model(ensemble: Ensemble, names: list[str]) -> dict[str, Any]:
    """A model as ``Booster.save_raw("json")`` writes it."""
    limits = for_below(ensemble.trees.threshold)
    trees = [_tree(ensemble, at, int(root), limits) for at, root in enumerate(ensemble.trees.roots)]
    if ensemble.constant or not trees:
        trees.append(_arrays(len(trees), [_leaf(ensemble.constant, -1)], len(names)))
    n = len(trees)
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(n)},
        "iteration_indptr": list(range(n + 1)),
        "tree_info": [0] * n,
        "trees": trees,
    }
    types = [
        "c" if j in ensemble.categories and (ensemble.trees.subset >= 0).any() else "float" for j in range(len(names))
    ]
    # XGBoost 3 writes "[0E0]", which 2.1 takes for 0.5; both read this.
    shape = {"base_score": "0E0", "boost_from_average": "0", "num_class": "0", "num_target": "1"}
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": types,
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {**shape, "num_feature": str(len(names))},
        "objective": _OBJECTIVE,
    }
    return {"learner": learner, "version": [3, 2, 0]}


def _leaf(value: float, parent: int) -> dict[str, Any]:
    return {
        "parent": parent,
        "condition": short(value),
        "feature": 0,
        "left": -1,
        "right": -1,
        "default": 0,
        "set": None,
    }


def _tree(ensemble: Ensemble, at: int, root: int, limits: Array) -> dict[str, Any]:
    """A tree whose right children come right after the left ones: XGBoost's predictor counts on that."""
    trees = ensemble.trees
    root = _without_empty_sets(ensemble, root)
    nodes, todo = [_leaf(float(trees.value[root]), -1)], [(root, 0)]
    while todo:
        node, number = todo.pop()
        if trees.feature[node] < 0:
            continue
        missing_left, left = bool(trees.missing_left[node]), int(trees.left[node])
        fields: dict[str, Any] = {"feature": int(trees.feature[node]), "default": int(missing_left)}
        sides = (left, left + 1)
        if trees.subset[node] >= 0:
            held, others = left_codes(ensemble, node)
            if not missing_left:  # unknown categories go left
                others, sides = held, (left + 1, left)
            fields |= {"condition": 0.0, "set": others, "default": 1}
        else:
            fields["condition"] = short(limits[node])
        sides = (_without_empty_sets(ensemble, sides[0]), _without_empty_sets(ensemble, sides[1]))
        first = len(nodes)
        nodes[number] |= fields | {"left": first, "right": first + 1}
        nodes += [_leaf(float(trees.value[side]), number) for side in sides]
        todo += [(sides[0], first), (sides[1], first + 1)]
    return _arrays(at, nodes, len(ensemble.names))


def _without_empty_sets(ensemble: Ensemble, node: int) -> int:
    """The first node from here on that sends something each way: XGBoost reads no split with an empty set."""
    trees = ensemble.trees
    while trees.subset[node] >= 0:
        held, others = left_codes(ensemble, node)
        if others if trees.missing_left[node] else held:
            break
        node = int(trees.left[node]) + (0 if trees.missing_left[node] else 1)
    return node


def _arrays(at: int, nodes: list[dict[str, Any]], n_features: int) -> dict[str, Any]:
    with_sets = [number for number, node in enumerate(nodes) if node["set"] is not None]
    sets = [nodes[number]["set"] for number in with_sets]
    sizes = [len(held) for held in sets]
    zeros = [0.0] * len(nodes)
    return {
        "base_weights": [node["condition"] if node["left"] < 0 else 0.0 for node in nodes],
        "categories": [code for held in sets for code in held],
        "categories_nodes": with_sets,
        "categories_segments": np.cumsum([0, *sizes])[:-1].tolist(),
        "categories_sizes": sizes,
        "default_left": [node["default"] for node in nodes],
        "id": at,
        "left_children": [node["left"] for node in nodes],
        "loss_changes": zeros,
        "parents": [_ROOT if node["parent"] < 0 else node["parent"] for node in nodes],
        "right_children": [node["right"] for node in nodes],
        "split_conditions": [node["condition"] for node in nodes],
        "split_indices": [node["feature"] for node in nodes],
        "split_type": [int(node["set"] is not None) for node in nodes],
        "sum_hessian": zeros,
        "tree_param": {
            "num_deleted": "0", "num_feature": str(n_features), "num_nodes": str(len(nodes)), "size_leaf_vector": "1",
        },
    }  # fmt: skip


def raw_nodes(model: Mapping[str, Any]) -> ConsumerTrees:
    nodes = ConsumerTrees()
    for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
        nodes.add(0, _parser(tree))
    return nodes


def _parser(tree: Mapping[str, Any]) -> Callable[[int], float | WrittenSplit]:
    starts, sizes = (
        dict(zip(tree["categories_nodes"], tree[key], strict=True))
        for key in ("categories_segments", "categories_sizes")
    )

    def parse(at: int) -> float | WrittenSplit:
        left, right = tree["left_children"][at], tree["right_children"][at]
        feature, condition = tree["split_indices"][at], tree["split_conditions"][at]
        if left < 0:
            return float(condition)
        missing_left = bool(tree["default_left"][at])
        if not tree["split_type"][at]:
            return WrittenSplit(feature, condition, missing_left, left, right)
        # The listed categories go right: as if they were the left ones of a mirror.
        categories = frozenset(tree["categories"][starts[at] : starts[at] + sizes[at]])
        return WrittenSplit(feature, condition, not missing_left, right, left, categories)

    return parse


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    names, notes = allowed_names(ensemble.names, _NOT_IN_NAMES)
    text = json.dumps(raw_model(ensemble, names), ensure_ascii=False, separators=(",", ":"))
    codes = coding_files(ensemble)
    if codes:
        notes.append(CODING_NOTE)
    return ExportFiles({_MODEL: text.encode(), **codes}, tuple(notes))


def _consume(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(files[_MODEL]))
    facts = json.loads(files[_MODEL])["learner"]
    described = {"feature_names": facts["feature_names"], "feature_types": facts["feature_types"]}

    def scores(X: Array, _: Array) -> Array:
        rows = xgboost.DMatrix(coded(X, files, names), **described, enable_categorical=True, nthread=1)
        return np.asarray(booster.predict(rows, output_margin=True))

    return scores


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    nodes = raw_nodes(json.loads(files[_MODEL]))
    return lambda X, _: tree_scores(nodes, coded(X, files, names), ConsumerRule(strict=True))


XGBOOST = ExportTarget(
    name="xgboost",
    about="XGBoost's JSON model, for xgboost.Booster(model_file=…) of XGBoost 2.1 and later",
    rule="left if x < threshold, in float32; missing values by split",
    refusal=refuse_all_but_trees,
    write=_write,
    read=_read,
    consumer=Consumer("xgboost", _consume),
)
