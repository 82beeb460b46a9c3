"""Elasticsearch's own learning to rank: the body of ``PUT _ml/trained_models/NAME``; trees only.

Nodes say ``lte``: ``x <= threshold`` in float64; missing values by split.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.exporting.engine_files import features_of
from rankwright.exporting.float32 import for_at_most
from rankwright.exporting.form import Form
from rankwright.exporting.naming import no_features, repeated_names
from rankwright.exporting.target import Options, Scorer, Target, Written, refuse_others
from rankwright.exporting.walk import Nodes, Rule, tree_scores

__all__ = ["ELASTICSEARCH"]

Array = npt.NDArray[Any]
_MODEL = "model.json"


def _refusal(form: Form, options: Options) -> str | None:
    if form.has_weights:
        return "it has linear weights, and Elasticsearch's own learning to rank holds trees only"
    return refuse_others(form) or repeated_names(form) or no_features(form)


def _write(form: Form, options: Options) -> Written:
    used = form.used.tolist()
    names = [form.names[j] for j in used]
    place = {j: at for at, j in enumerate(used)}
    limits = for_at_most(form.trees.threshold, np.float64)
    trees = [_structure(form, int(root), place, limits) for root in form.trees.roots]
    if form.constant or not trees:
        trees.append([{"node_index": 0, "leaf_value": form.constant}])
    shape = {"target_type": "regression", "feature_names": names}
    models = [{"tree": {**shape, "tree_structure": tree}} for tree in trees]
    ensemble = {**shape, "trained_models": models, "aggregate_output": {"weighted_sum": {}}}
    extractors = json.loads(features_of("elasticsearch", form, options).files["feature_extractors.json"])
    body = {
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "input": {"field_names": names},
        "definition": {"trained_model": {"ensemble": ensemble}},
    }
    return Written({_MODEL: (json.dumps(body, ensure_ascii=False) + "\n").encode()})


def _structure(form: Form, root: int, place: Mapping[int, int], limits: Array) -> list[dict[str, Any]]:
    """The nodes of a tree, the root first."""
    trees = form.trees
    nodes: list[dict[str, Any]] = [{"node_index": 0}]
    todo = [(root, nodes[0])]
    while todo:
        node, made = todo.pop()
        if trees.feature[node] < 0:
            made["leaf_value"] = float(trees.value[node])
            continue
        below = [{"node_index": len(nodes)}, {"node_index": len(nodes) + 1}]
        nodes += below
        made |= {
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
    ensemble = json.loads(files[_MODEL])["definition"]["trained_model"]["ensemble"]
    columns = [names.index(name) for name in ensemble["feature_names"]]
    nodes = Nodes()
    for model in ensemble["trained_models"]:
        structure = {node["node_index"]: node for node in model["tree"]["tree_structure"]}
        todo = [(nodes.root(), structure[0])]
        while todo:
            node, found = todo.pop()
            if "leaf_value" in found:
                nodes.value[node] = found["leaf_value"]
                continue
            feature = columns[found["split_feature"]]
            below = nodes.split(node, feature, found["threshold"], missing_left=found["default_left"])
            todo += zip(below, (structure[found["left_child"]], structure[found["right_child"]]), strict=True)
    return lambda X, _: tree_scores(nodes, X, Rule(dtype=np.float64))


ELASTICSEARCH = Target(
    name="elasticsearch",
    about="Elasticsearch's own learning to rank: the body of PUT _ml/trained_models/NAME",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
)
