"""ONNX: trees as a TreeEnsembleRegressor, weights and nets as plain operators, expected grades on top of trees.

The graph takes the features as one matrix, ``features``, and gives ``scores``, one row per document. Trees compare with
``x <= threshold`` in the type of the features, so thresholds of the form ``float`` are rounded down to float32. Their
sum is float32 in both forms, as the operator's output is.

Without onnxruntime, the few operators that an export writes run in numpy here. onnx's own reference implementation is
not used, as it does not know trees whose thresholds are float64.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright._types import Array
from rankwright.boosting.float32 import for_at_most
from rankwright.boosting.forest import Forest
from rankwright.boosting.tree_model import GradeModel
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, tree_scores
from rankwright.exporting.ensemble import Ensemble, Other
from rankwright.exporting.target import Consumer, ExportFiles, ExportTarget, Options, Scorer
from rankwright.io.frames import import_library
from rankwright.nets.model import NetModel

_MODEL = "model.onnx"
_OPSET, _ML_OPSET, _IR_VERSION = 18, 3, 8
_INPUT, _OUTPUT = "features", "scores"
_NODE_KEYS = (
    "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true",
)  # fmt: skip
_LEAF_KEYS = ("treeids", "nodeids", "ids", "weights")


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    if ensemble.scales_queries:
        return "it scales features within each query, but documents are scored one by one there"
    if ensemble.categories:
        return "it splits on categories, not on thresholds only"
    return None


class _Graph:
    def __init__(self, dtype: type) -> None:
        self.onnx = import_library("onnx")
        self.helper = import_library("onnx.helper")
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: npt.ArrayLike, dtype: Any = None) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values).astype(self.dtype if dtype is None else dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """An operator; returns the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def columns(self, places: Sequence[int]) -> str:
        """Some of the features: others may be missing, and 0 times missing is not 0."""
        return self.add("Gather", _INPUT, self.constant(places, np.int64), axis=1)

    def wide(self, name: str) -> str:
        """The output of trees, float32, in the type of the graph."""
        return name if self.dtype == np.float32 else self.add("Cast", name, to=self.onnx.TensorProto.DOUBLE)

    def trees(self, forests: Sequence[Forest], places: Array, base: Sequence[float]) -> str:
        lists = _tree_lists(forests, places, self.dtype)
        lists["n_targets"] = len(forests)
        lists["post_transform"] = "NONE"
        if self.dtype == np.float64:
            for key in ("nodes_values", "target_weights"):
                lists[f"{key}_as_tensor"] = self.onnx.numpy_helper.from_array(np.array(lists.pop(key)), key)
            lists["base_values_as_tensor"] = self.onnx.numpy_helper.from_array(np.array(base, np.float64), "base")
        else:
            lists["base_values"] = [float(np.float32(value)) for value in base]
        return self.wide(self.add("TreeEnsembleRegressor", _INPUT, domain="ai.onnx.ml", **lists))


def _tree_lists(forests: Sequence[Forest], places: Array, dtype: type) -> dict[str, Any]:
    """The attributes of the operator: nodes and leaves of all trees as lists."""
    nodes: list[tuple[Any, ...]] = []
    leaves: list[tuple[Any, ...]] = []
    n_trees = 0
    for target, forest in enumerate(forests):
        limits = for_at_most(forest.threshold, dtype).astype(np.float64)
        for root in forest.roots.tolist():
            todo = [root]
            for at, node in enumerate(todo):  # children are numbered as they are met
                if forest.feature[node] < 0:
                    nodes.append((n_trees, at, 0, "LEAF", 0.0, 0, 0, 0))
                    leaves.append((n_trees, at, target, float(dtype(forest.value[node]))))
                    continue
                feature, limit = int(places[forest.feature[node]]), float(limits[node])
                children, missing = (len(todo), len(todo) + 1), int(forest.missing_left[node])
                nodes.append((n_trees, at, feature, "BRANCH_LEQ", limit, *children, missing))
                todo += [int(forest.left[node]), int(forest.left[node]) + 1]
            n_trees += 1
    lists = {f"nodes_{key}": [node[at] for node in nodes] for at, key in enumerate(_NODE_KEYS)}
    return lists | {f"target_{key}": [leaf[at] for leaf in leaves] for at, key in enumerate(_LEAF_KEYS)}


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    dtype = np.float64 if options.form == "double" else np.float32
    graph = _Graph(dtype)
    terms = []
    if ensemble.has_weights:
        used = ensemble.linear_features
        terms.append(
            graph.add("MatMul", graph.columns(used.tolist()), graph.constant(ensemble.weights[used][:, np.newaxis]))
        )
    if ensemble.trees.n_trees:
        terms.append(graph.trees([ensemble.trees], np.arange(len(ensemble.names)), [0.0]))
    terms += [_other(graph, other) for other in ensemble.others]
    if ensemble.constant or not terms:
        rows = graph.add("Shape", _INPUT, start=0, end=1)  # a column as long as the input
        shape = graph.add("Concat", rows, graph.constant([1], np.int64), axis=0)
        terms.append(graph.add("Expand", graph.constant([[ensemble.constant]]), shape))
    total = terms[0]
    for term in terms[1:]:
        total = graph.add("Add", total, term)
    graph.nodes.append(graph.helper.make_node("Identity", [total], [_OUTPUT]))
    return ExportFiles({_MODEL: _file(graph, ensemble, options)}, _notes(ensemble, dtype))


def _notes(ensemble: Ensemble, dtype: type) -> tuple[str, ...]:
    kind = np.dtype(dtype).name
    notes = [
        f"{_MODEL}: the input {_INPUT!r} is a matrix of {kind}, {len(ensemble.names):,} columns, NaN where missing"
    ]
    if dtype == np.float64 and (
        ensemble.trees.n_trees or any(isinstance(o.model, GradeModel) for o in ensemble.others)
    ):
        notes.append(
            f"{_MODEL}: sums of trees are float32, as the operator's output is; features are compared as {kind}"
        )
    return tuple(notes)


def _other(graph: _Graph, other: Other) -> str:
    model: Any = other.model
    if isinstance(model, NetModel):
        used = np.flatnonzero(model.uses())
        inside = graph.add("MatMul", graph.columns(other.places[used].tolist()), graph.constant(model.inner[:, used].T))
        units = graph.add("Tanh", graph.add("Add", inside, graph.constant(model.constants)))
        return graph.add("MatMul", units, graph.constant(other.weight * model.outer[:, np.newaxis]))
    assert isinstance(model, GradeModel)
    sums = graph.trees(model.forests, other.places, model.starts.tolist())
    if model.link == "softmax":
        chances = graph.add("Softmax", sums, axis=1)
        return graph.add("MatMul", chances, graph.constant(other.weight * model.grades[:, np.newaxis]))
    reached = graph.add("Sigmoid", sums)
    above = graph.add("MatMul", reached, graph.constant(other.weight * np.diff(model.grades)[:, np.newaxis]))
    return graph.add("Add", above, graph.constant([other.weight * model.grades[0]]))


def _file(graph: _Graph, ensemble: Ensemble, options: Options) -> bytes:
    helper, kinds = graph.helper, graph.onnx.TensorProto
    kind = kinds.DOUBLE if graph.dtype == np.float64 else kinds.FLOAT
    inputs = [helper.make_tensor_value_info(_INPUT, kind, ["documents", len(ensemble.names)])]
    outputs = [helper.make_tensor_value_info(_OUTPUT, kind, ["documents", 1])]
    graph_proto = helper.make_graph(graph.nodes, options.name or "model", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(graph_proto, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="rankwright")
    helper.set_model_props(model, {"features": json.dumps(list(ensemble.names), ensure_ascii=False)})
    graph.onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _consume(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(files[_MODEL], options, providers=["CPUExecutionProvider"])
    dtype = np.float64 if session.get_inputs()[0].type == "tensor(double)" else np.float32
    return lambda X, _: session.run([_OUTPUT], {_INPUT: X.astype(dtype)})[0][:, 0]


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    return lambda X, _: run_graph(files[_MODEL], X)[:, 0]


ONNX = ExportTarget(
    name="onnx",
    about="an ONNX graph, for onnxruntime and other runtimes",
    rule="left if x <= threshold, in float32 (in float64 with the form double); missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    forms=("float", "double"),
    consumer=Consumer("onnxruntime", _consume),
)


def run_graph(file: bytes, X: Array) -> Array:
    onnx = import_library("onnx")
    graph = onnx.load_from_string(file).graph
    dtype = np.float64 if graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE else np.float32
    values: dict[str, Array] = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values[graph.input[0].name] = X.astype(dtype)
    for node in graph.node:
        attributes = {attribute.name: _attribute(onnx, attribute) for attribute in node.attribute}
        inputs = [values[name] for name in node.input]
        operator = _trees if node.op_type == "TreeEnsembleRegressor" else _OPERATORS[node.op_type]
        values[node.output[0]] = operator(*inputs, **attributes)
    return values[graph.output[0].name]


def _attribute(onnx: Any, attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
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
        nodes = ConsumerTrees()
        for root in (place for (_, node), place in places.items() if node == 0):
            tree = lists["nodes_treeids"][root]

            def parse(at: int, target: int = target, tree: int = tree) -> float | WrittenSplit:
                if lists["nodes_modes"][at] == b"LEAF":
                    leaf, value = leaves[tree, lists["nodes_nodeids"][at]]
                    return value if leaf == target else 0.0
                missing_left = bool(lists["nodes_missing_value_tracks_true"][at])
                left, right = (places[tree, lists[f"nodes_{side}"][at]] for side in ("truenodeids", "falsenodeids"))
                return WrittenSplit(lists["nodes_featureids"][at], float(thresholds[at]), missing_left, left, right)

            nodes.add(root, parse)
        sums[:, target] = tree_scores(nodes, X, ConsumerRule(dtype=X.dtype.type)) + base[target]
    return sums.astype(np.float32)
