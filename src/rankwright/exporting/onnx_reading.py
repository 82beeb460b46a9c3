"""Scores by an ONNX file without onnxruntime: the few operators that an export writes, in numpy.

onnx's own reference implementation is not used, as it does not know trees whose thresholds are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.frames import import_library
from rankwright.exporting.walk import Nodes, Rule, tree_scores

__all__ = ["run_graph"]

Array = npt.NDArray[Any]


def run_graph(file: bytes, X: Array) -> Array:
    """The output of a graph for a matrix of features."""
    onnx = import_library("onnx")
    graph = onnx.load_from_string(file).graph
    dtype = np.float64 if graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE else np.float32
    values: dict[str, Array] = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    values[graph.input[0].name] = X.astype(dtype)
    for node in graph.node:
        attributes = {own.name: _attribute(onnx, own) for own in node.attribute}
        inputs = [values[name] for name in node.input]
        operator = _trees if node.op_type == "TreeEnsembleRegressor" else _OPERATORS[node.op_type]
        values[node.output[0]] = operator(*inputs, **attributes)
    return values[graph.output[0].name]


def _attribute(onnx: Any, own: Any) -> Any:
    value = onnx.helper.get_attribute_value(own)
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _softmax(sums: Array, axis: int) -> Array:
    powers = np.exp(sums - sums.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


_OPERATORS: Mapping[str, Callable[..., Array]] = {
    "Gather": lambda X, places, axis: np.take(X, places, axis=axis),
    "MatMul": lambda a, b: a @ b,
    "Add": lambda a, b: a + b,
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softmax": _softmax,
    "Cast": lambda x, to: x.astype(np.float64),
    "Identity": lambda x: x,
    "Shape": lambda x, start, end: np.array(x.shape[start:end]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "Expand": np.broadcast_to,
}


def _trees(X: Array, **lists: Any) -> Array:
    """The sums of trees, one column per target, as float32."""
    keys = ("nodes_values", "target_weights", "base_values")
    thresholds, weights, base = (lists[key] if key in lists else lists[f"{key}_as_tensor"] for key in keys)
    leaves: dict[tuple[int, int], tuple[int, float]] = {}
    for tree, node, target, weight in zip(
        *(lists[f"target_{key}"] for key in ("treeids", "nodeids", "ids")), weights, strict=True
    ):
        leaves[tree, node] = target, float(weight)
    places = {key: at for at, key in enumerate(zip(lists["nodes_treeids"], lists["nodes_nodeids"], strict=True))}
    sums = np.zeros((len(X), int(lists["n_targets"])))
    for target in range(sums.shape[1]):
        nodes = Nodes()
        for root in (place for (_, node), place in places.items() if node == 0):
            tree = lists["nodes_treeids"][root]
            todo = [(nodes.root(), root)]
            while todo:
                node, at = todo.pop()
                if lists["nodes_modes"][at] == b"LEAF":
                    own, value = leaves[tree, lists["nodes_nodeids"][at]]
                    nodes.value[node] = value if own == target else 0.0
                    continue
                missing = bool(lists["nodes_missing_value_tracks_true"][at])
                below = nodes.split(node, lists["nodes_featureids"][at], float(thresholds[at]), missing_left=missing)
                ways = (places[tree, lists[f"nodes_{way}"][at]] for way in ("truenodeids", "falsenodeids"))
                todo += zip(below, ways, strict=True)
        sums[:, target] = tree_scores(nodes, X, Rule(dtype=X.dtype.type)) + base[target]
    return sums.astype(np.float32)
