"""ONNX: trees as a TreeEnsembleRegressor, weights and nets as plain operators, expected grades on top of trees.

The graph takes the features as one matrix, ``features``, and gives ``scores``, one row per document. Trees compare with
``x <= threshold`` in the type of the features, so thresholds of the form ``float`` are rounded down to float32. Their
sum is float32 in both forms, as the operator's output is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.data.frames import import_library
from rankwright.exporting.float32 import for_at_most
from rankwright.exporting.form import Form, Other
from rankwright.exporting.onnx_reading import run_graph
from rankwright.exporting.target import Consumer, Options, Scorer, Target, Written
from rankwright.models.net import NetModel
from rankwright.models.trees.forest import Forest
from rankwright.models.trees.model import GradeModel

__all__ = ["ONNX"]

Array = npt.NDArray[Any]
_MODEL = "model.onnx"
_OPSET, _ML_OPSET, _IR_VERSION = 18, 3, 8
_INPUT, _OUTPUT = "features", "scores"


def _refusal(form: Form, options: Options) -> str | None:
    if form.scales_queries:
        return "it scales features within each query, but documents are scored one by one there"
    if form.categories:
        return "it splits on categories, not on thresholds only"
    return None


class _Graph:
    """Operators and constants, one after the other."""

    def __init__(self, dtype: Any) -> None:
        self.onnx = import_library("onnx")
        self.helper = import_library("onnx.helper")
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: npt.ArrayLike, dtype: Any = None) -> str:
        """A constant; returns its name."""
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
        """The sums of forests, one column each."""
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


def _tree_lists(forests: Sequence[Forest], places: Array, dtype: Any) -> dict[str, Any]:
    """The attributes of the operator: nodes and leaves of all trees as lists."""
    keys = (
        "treeids",
        "nodeids",
        "featureids",
        "modes",
        "values",
        "truenodeids",
        "falsenodeids",
        "missing_value_tracks_true",
    )
    lists: dict[str, Any] = {f"nodes_{key}": [] for key in keys}
    lists |= {f"target_{key}": [] for key in ("treeids", "nodeids", "ids", "weights")}
    n_trees = 0
    for target, forest in enumerate(forests):
        limits = for_at_most(forest.threshold, dtype).astype(np.float64)
        for root in forest.roots.tolist():
            todo = [root]
            for at, node in enumerate(todo):  # children are numbered as they are met
                is_leaf = bool(forest.feature[node] < 0)
                children = (0, 0) if is_leaf else (len(todo), len(todo) + 1)
                if is_leaf:
                    leaf: tuple[Any, ...] = (n_trees, at, target, float(dtype(forest.value[node])))
                    for key, value in zip(("treeids", "nodeids", "ids", "weights"), leaf, strict=True):
                        lists[f"target_{key}"].append(value)
                else:
                    todo += [int(forest.left[node]), int(forest.left[node]) + 1]
                feature = 0 if is_leaf else int(places[forest.feature[node]])
                limit = 0.0 if is_leaf else float(limits[node])
                missing = int(not is_leaf and forest.missing_left[node])
                row = (n_trees, at, feature, "LEAF" if is_leaf else "BRANCH_LEQ", limit, *children, missing)
                for key, value in zip(keys, row, strict=True):
                    lists[f"nodes_{key}"].append(value)
            n_trees += 1
    return lists


def _write(form: Form, options: Options) -> Written:
    dtype = np.float64 if options.form == "double" else np.float32
    graph = _Graph(dtype)
    terms = []
    if form.has_weights:
        used = form.linear_features
        terms.append(
            graph.add("MatMul", graph.columns(used.tolist()), graph.constant(form.weights[used][:, np.newaxis]))
        )
    if form.trees.n_trees:
        terms.append(graph.trees([form.trees], np.arange(len(form.names)), [0.0]))
    terms += [_other(graph, other) for other in form.others]
    if form.constant or not terms:
        terms.append(_constant_column(graph, form.constant))
    total = terms[0]
    for term in terms[1:]:
        total = graph.add("Add", total, term)
    graph.nodes.append(graph.helper.make_node("Identity", [total], [_OUTPUT]))
    return Written({_MODEL: _file(graph, form, options)}, _notes(form, dtype))


def _notes(form: Form, dtype: Any) -> tuple[str, ...]:
    kind = np.dtype(dtype).name
    notes = [f"{_MODEL}: the input {_INPUT!r} is a matrix of {kind}, {len(form.names):,} columns, NaN where missing"]
    if dtype == np.float64 and (form.trees.n_trees or any(isinstance(o.model, GradeModel) for o in form.others)):
        notes.append(
            f"{_MODEL}: sums of trees are float32, as the operator's output is; features are compared as {kind}"
        )
    return tuple(notes)


def _constant_column(graph: _Graph, value: float) -> str:
    """A column of one number, as long as the input."""
    rows = graph.add("Shape", _INPUT, start=0, end=1)
    shape = graph.add("Concat", rows, graph.constant([1], np.int64), axis=0)
    return graph.add("Expand", graph.constant([[value]]), shape)


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


def _file(graph: _Graph, form: Form, options: Options) -> bytes:
    helper, kinds = graph.helper, graph.onnx.TensorProto
    kind = kinds.DOUBLE if graph.dtype == np.float64 else kinds.FLOAT
    inputs = [helper.make_tensor_value_info(_INPUT, kind, ["documents", len(form.names)])]
    outputs = [helper.make_tensor_value_info(_OUTPUT, kind, ["documents", 1])]
    whole = helper.make_graph(graph.nodes, options.name or "model", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
    model = helper.make_model(whole, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="rankwright")
    helper.set_model_props(model, {"features": json.dumps(list(form.names), ensure_ascii=False)})
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


ONNX = Target(
    name="onnx",
    about="an ONNX graph, for onnxruntime and other runtimes",
    rule="left if x <= threshold, in float32 (in float64 with the form double); missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    forms=("float", "double"),
    consumer=Consumer("onnxruntime", _consume),
)
