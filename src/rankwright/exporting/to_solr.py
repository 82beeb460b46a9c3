"""Solr's model store: linear models, trees and nets, in float32.

``MultipleAdditiveTreesModel`` sends x left if ``x <= threshold + 1e-6f``: the slack is taken off what is written. Tiny
thresholds may have no float32 that comes to them with it; such splits are counted and reported. ``LinearModel`` has no
constant: weights with one become a net of one layer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rankwright.exporting.float32 import SOLR_SLACK, for_at_most, for_slack, number_text
from rankwright.exporting.form import Form
from rankwright.exporting.naming import no_features, repeated_names
from rankwright.exporting.target import Options, Scorer, Target, Written, refuse_others
from rankwright.exporting.to_xgboost import short
from rankwright.exporting.walk import Nodes, Rule, linear_scores, tree_scores
from rankwright.models.net import NetModel

__all__ = ["SOLR"]

Array = npt.NDArray[Any]
_MODEL = "model.json"
_CLASSES = "org.apache.solr.ltr.model."
_LINEAR, _TREES, _NET = (
    _CLASSES + name for name in ("LinearModel", "MultipleAdditiveTreesModel", "NeuralNetworkModel")
)


def _refusal(form: Form, options: Options) -> str | None:
    if form.has_weights and form.trees.n_trees:
        return "it has both linear weights and trees"
    return refuse_others(form, nets=True) or repeated_names(form) or no_features(form)


def _write(form: Form, options: Options) -> Written:
    used = form.used.tolist()
    said, notes = None, []
    params: dict[str, Any]
    if form.others:
        kind, params = _NET, {"layers": _net_layers(form, used)}
    elif form.is_linear and form.constant:
        kind, params = _NET, {"layers": [_layer([form.weights[used]], [form.constant], "identity")]}
    elif form.is_linear:
        kind, params = _LINEAR, {"weights": {form.names[j]: short(form.weights[j]) for j in used}}
    else:
        written, comes_to = for_slack(form.trees.threshold)
        splits = form.trees.feature >= 0
        inexact = splits & (comes_to != for_at_most(form.trees.threshold))
        kind, params = _TREES, {"trees": _trees(form, written, options)}
        if not options.missing_as_zero:
            params = {"isNullSameAsZero": False, **params}
            notes.append("for Solr versions that know isNullSameAsZero; --missing-as-zero does without")
        if inexact.any():
            threshold = np.where(inexact, comes_to.astype(np.float64), form.trees.threshold)
            said = dataclasses.replace(form, trees=dataclasses.replace(form.trees, threshold=threshold))
            largest = float(np.abs(comes_to[inexact] - form.trees.threshold[inexact]).max())
            what = f"{inexact.sum():,} of {splits.sum():,} thresholds are moved, by up to {largest:.1e}"
            notes.append(f"{what}: Solr adds 1e-6 to thresholds, and no number comes to them with it")
    features = [{"name": form.names[j]} for j in used]
    body = {"class": kind, "name": options.name, "store": options.feature_set, "features": features, "params": params}
    return Written({_MODEL: (json.dumps(body, ensure_ascii=False) + "\n").encode()}, tuple(notes), said)


def _trees(form: Form, written: Array, options: Options) -> list[dict[str, Any]]:
    """The trees; numbers are text, as Solr's examples write them."""
    trees, made = form.trees, []
    for root in form.trees.roots:
        top: dict[str, Any] = {}
        todo = [(int(root), top)]
        while todo:
            node, here = todo.pop()
            if trees.feature[node] < 0:
                here["value"] = number_text(np.float32(trees.value[node]))
                continue
            below: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
            here |= {
                "feature": form.names[trees.feature[node]],
                "threshold": number_text(np.float32(written[node])),
                "left": below[0],
                "right": below[1],
            }
            if not options.missing_as_zero:
                here["missing"] = "left" if trees.missing_left[node] else "right"
            left = int(trees.left[node])
            todo += [(left, below[0]), (left + 1, below[1])]
        made.append({"weight": "1", "root": top})
    return made


def _layer(matrix: Any, bias: Any, activation: str) -> dict[str, Any]:
    rows = [[short(value) for value in row] for row in matrix]
    return {"matrix": rows, "bias": [short(value) for value in bias], "activation": activation}


def _net_layers(form: Form, used: list[int]) -> list[dict[str, Any]]:
    """The layers of a net over the used features."""
    (other,) = form.others
    net = other.model
    assert isinstance(net, NetModel)
    place = {int(j): at for at, j in enumerate(other.places)}
    inner = net.inner[:, [place[j] for j in used]]
    outer = other.weight * net.outer
    return [_layer(inner, net.constants, "tanh"), _layer([outer], [form.constant], "identity")]


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    model = json.loads(files[_MODEL])
    place = {name: j for j, name in enumerate(names)}
    columns, params = [place[feature["name"]] for feature in model["features"]], model["params"]
    if model["class"] == _LINEAR:
        weights = [params["weights"][feature["name"]] for feature in model["features"]]
        return lambda X, _: linear_scores(X, columns, weights)
    if model["class"] == _NET:
        return lambda X, _: _net_scores(X[:, columns], params["layers"])
    nodes = _nodes(params["trees"], place)
    rule = Rule(slack=float(SOLR_SLACK), missing_as_zero=params.get("isNullSameAsZero", True))
    return lambda X, _: tree_scores(nodes, X, rule)


def _net_scores(X: Array, layers: list[dict[str, Any]]) -> Array:
    """Layer by layer in float32, sums from the first input to the last; tanh in float64, as Java's."""
    values = np.nan_to_num(X).astype(np.float32)
    for layer in layers:
        bias = np.array(layer["bias"], np.float32)
        sums = np.tile(bias, (len(values), 1))
        matrix = np.array(layer["matrix"], np.float32).reshape(len(bias), values.shape[1])
        for column in range(values.shape[1]):
            sums += values[:, column : column + 1] * matrix[:, column]
        values = np.tanh(sums.astype(np.float64)).astype(np.float32) if layer["activation"] == "tanh" else sums
    return values[:, 0].astype(np.float64)


def _nodes(trees: list[dict[str, Any]], place: Mapping[str, int]) -> Nodes:
    nodes = Nodes()
    for tree in trees:
        todo = [(nodes.root(float(tree["weight"])), tree["root"])]
        while todo:
            node, found = todo.pop()
            if "value" in found:
                nodes.value[node] = float(found["value"])
                continue
            missing_left = found.get("missing") == "left"
            below = nodes.split(node, place[found["feature"]], float(found["threshold"]), missing_left=missing_left)
            todo += [(below[0], found["left"]), (below[1], found["right"])]
    return nodes


SOLR = Target(
    name="solr",
    about="Solr's model store (PUT /schema/model-store): linear models, trees, nets",
    rule="left if x <= threshold + 1e-6, or dot products, in float32; missing values by split, and 0 in dot products",
    refusal=_refusal,
    write=_write,
    read=_read,
)
