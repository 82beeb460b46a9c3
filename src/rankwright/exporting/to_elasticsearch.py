"""Elasticsearch's own learning to rank: the body of ``PUT _ml/trained_models/NAME``; trees only.

Nodes say ``lte``: ``x <= threshold`` in float64; missing values by split.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_at_most
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, tree_scores
from rankwright.exporting.ensemble import Ensemble, no_features, repeated_names
from rankwright.exporting.feature_sets import features_of
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_others

_MODEL = "model.json"


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    if ensemble.has_weights:
        return "it has linear weights, and Elasticsearch's own learning to rank holds trees only"
    return refuse_others(ensemble) or repeated_names(ensemble) or no_features(ensemble)


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    used = ensemble.used.tolist()
    names = [ensemble.names[j] for j in used]
    place = {j: at for at, j in enumerate(used)}
    limits = for_at_most(ensemble.trees.threshold, np.float64)
    trees = [_structure(ensemble, int(root), place, limits) for root in ensemble.trees.roots]
    if ensemble.constant or not trees:
        trees.append([{"node_index": 0, "leaf_value": ensemble.constant}])
    shape = {"target_type": "regression", "feature_names": names}
    models = [{"tree": {**shape, "tree_structure": tree}} for tree in trees]
    definition = {**shape, "trained_models": models, "aggregate_output": {"weighted_sum": {}}}
    extractors = json.loads(features_of("elasticsearch", ensemble, options).files["feature_extractors.json"])
    body = {
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "input": {"field_names": names},
        "definition": {"trained_model": {"ensemble": definition}},
    }
    return ExportFiles({_MODEL: (json.dumps(body, ensure_ascii=False) + "\n").encode()})


def _structure(ensemble: Ensemble, root: int, place: Mapping[int, int], limits: Array) -> list[dict[str, Any]]:
    """The nodes of a tree, the root first."""
    trees = ensemble.trees
    nodes: list[dict[str, Any]] = [{"node_index": 0}]
    todo = [(root, nodes[0])]
    while todo:
        node, fields = todo.pop()
        if trees.feature[node] < 0:
            fields["leaf_value"] = float(trees.value[node])
            continue
        below = [{"node_index": len(nodes)}, {"node_index": len(nodes) + 1}]
        nodes += below
        fields |= {
            "decision_type": "lte",
            "split_feature": place[int(trees.feature[node])],
            "threshold": float(limits[node]),
            "default_left": bool(trees.missing_left[node]),
            "left_child": below[0]["node_index"],
            "right_child": below[1]["node_index"],
        }
        left = int(trees.left[node])
        todo += [(left, below[0]), (left + 1, below[1])]
    return nodes


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    definition = json.loads(files[_MODEL])["definition"]["trained_model"]["ensemble"]
    columns = [names.index(name) for name in definition["feature_names"]]
    nodes = ConsumerTrees()
    for model in definition["trained_models"]:
        structure = {node["node_index"]: node for node in model["tree"]["tree_structure"]}

        def parse(at: int, structure: Mapping[int, Any] = structure) -> float | WrittenSplit:
            fields = structure[at]
            if "leaf_value" in fields:
                return float(fields["leaf_value"])
            feature, missing_left = columns[fields["split_feature"]], fields["default_left"]
            return WrittenSplit(feature, fields["threshold"], missing_left, fields["left_child"], fields["right_child"])

        nodes.add(0, parse)
    return lambda X, _: tree_scores(nodes, X, ConsumerRule(dtype=np.float64))


ELASTICSEARCH = ExportTarget(
    name="elasticsearch",
    about="Elasticsearch's own learning to rank: the body of PUT _ml/trained_models/NAME",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
)
