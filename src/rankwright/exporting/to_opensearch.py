"""OpenSearch's learning-to-rank plugin, and the one for Elasticsearch: the body of ``_createmodel``.

``linear``: a dot product in float32, missing features are 0. ``trees``: XGBoost's dump; ``x < threshold`` and sums in
float32, missing values by split. ``raw``: XGBoost's whole model. ``ranklib``: RankLib's text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from rankwright.exporting.float32 import for_below
from rankwright.exporting.form import Form
from rankwright.exporting.naming import no_features, repeated_names
from rankwright.exporting.target import Options, Scorer, Target, Written, refuse_others
from rankwright.exporting.to_ranklib import ranklib_model, ranklib_refusal, ranklib_scorer
from rankwright.exporting.to_xgboost import raw_model, raw_nodes, short
from rankwright.exporting.walk import Nodes, Rule, linear_scores, tree_scores

__all__ = ["OPENSEARCH"]

Array = npt.NDArray[Any]
_MODEL = "model.json"
_TYPES = {
    "linear": "model/linear",
    "trees": "model/xgboost+json",
    "raw": "model/xgboost+json+raw",
    "ranklib": "model/ranklib",
}
_SINCE = "OpenSearch's plugin sends missing values as the trees say since July 2026, and always right before"
_ORDER = "RankLib's text knows features by number: the feature set must list all features in the order of the model"


def _chosen(form: Form, options: Options) -> str:
    """The form to write."""
    if options.form != "auto":
        return options.form
    return "trees" if not form.is_linear or (form.constant and not form.has_weights) else "linear"


def _refusal(form: Form, options: Options) -> str | None:
    kind = _chosen(form, options)
    why = refuse_others(form) or repeated_names(form) or no_features(form)
    if why is not None or kind == "ranklib":
        return why or ranklib_refusal(form, options)
    if form.has_weights and form.trees.n_trees:
        return "it has both linear weights and trees"
    if kind == "linear" and form.trees.n_trees:
        return "it has trees, not weights; expected another --form"
    if kind == "linear" and form.constant:
        return f"it adds {form.constant:g} to its weights, which model/linear has no place for; use --form ranklib"
    if kind != "linear" and form.has_weights:
        return "it has linear weights, which trees cannot say exactly; expected --form linear"
    return None


def _write(form: Form, options: Options) -> Written:
    kind = _chosen(form, options)
    notes = []
    definition: Any
    if kind == "linear":
        definition = {form.names[j]: short(form.weights[j]) for j in form.linear_features}
    elif kind == "raw":
        definition = json.dumps(raw_model(form, list(form.names)), ensure_ascii=False, separators=(",", ":"))
    elif kind == "ranklib":
        definition, notes = ranklib_model(form), [_ORDER]
    else:
        limits = for_below(form.trees.threshold)
        definition = [_nested(form, int(root), limits) for root in form.trees.roots]
        if form.constant or not definition:
            definition.append({"nodeid": 0, "leaf": short(form.constant)})
    splits = form.trees.feature >= 0
    if kind in ("trees", "raw") and (form.trees.missing_left & splits).any():
        notes.append(_SINCE)
    body = {"model": {"name": options.name, "model": {"type": _TYPES[kind], "definition": definition}}}
    return Written({_MODEL: (json.dumps(body, ensure_ascii=False) + "\n").encode()}, tuple(notes))


def _nested(form: Form, root: int, limits: Array) -> dict[str, Any]:
    """A tree as XGBoost dumps it."""
    trees = form.trees
    top: dict[str, Any] = {"nodeid": 0}
    todo, count = [(root, top, 0)], 1
    while todo:
        node, made, depth = todo.pop()
        if trees.feature[node] < 0:
            made["leaf"] = short(trees.value[node])
            continue
        yes, no = count, count + 1
        count += 2
        below: list[dict[str, Any]] = [{"nodeid": yes}, {"nodeid": no}]
        made |= {
            "depth": depth,
            "split": form.names[trees.feature[node]],
            "split_condition": short(limits[node]),
            "yes": yes,
            "no": no,
            "missing": yes if trees.missing_left[node] else no,
            "children": below,
        }
        left = int(trees.left[node])
        todo += [(left, below[0], depth + 1), (left + 1, below[1], depth + 1)]
    return top


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    model = json.loads(files[_MODEL])["model"]["model"]
    definition, place = model["definition"], {name: j for j, name in enumerate(names)}
    if model["type"] == _TYPES["linear"]:
        columns = [place[name] for name in definition]
        return lambda X, _: linear_scores(X, columns, [*definition.values()])
    if model["type"] == _TYPES["ranklib"]:
        return ranklib_scorer(definition)
    nodes = raw_nodes(json.loads(definition)) if model["type"] == _TYPES["raw"] else _dump_nodes(definition, place)
    return lambda X, _: tree_scores(nodes, X, Rule(strict=True))


def _dump_nodes(definition: list[dict[str, Any]], place: Mapping[str, int]) -> Nodes:
    nodes = Nodes()
    for tree in definition:
        todo = [(nodes.root(), tree)]
        while todo:
            node, found = todo.pop()
            if "leaf" in found:
                nodes.value[node] = found["leaf"]
                continue
            missing_left = found["missing"] == found["yes"]
            below = nodes.split(node, place[found["split"]], found["split_condition"], missing_left=missing_left)
            by_id = {child["nodeid"]: child for child in found["children"]}
            todo += [(below[0], by_id[found["yes"]]), (below[1], by_id[found["no"]])]
    return nodes


OPENSEARCH = Target(
    name="opensearch",
    about="the learning-to-rank plugin of OpenSearch or Elasticsearch: the body of _ltr/_featureset/SET/_createmodel",
    rule="left if x < threshold, or a dot product, in float32; missing values by split, and 0 in dot products",
    refusal=_refusal,
    write=_write,
    read=_read,
    forms=tuple(_TYPES),
)
