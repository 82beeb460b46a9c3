"""OpenSearch's learning-to-rank plugin, and the one for Elasticsearch: the body of ``_createmodel``.

``linear``: a dot product in float32, missing features are 0. ``trees``: XGBoost's dump; ``x < threshold`` and sums in
float32, missing values by split. ``raw``: XGBoost's whole model. ``ranklib``: RankLib's text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rankwright._types import Array
from rankwright.boosting.float32 import for_below
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, linear_scores, tree_scores
from rankwright.exporting.ensemble import Ensemble, no_features, repeated_names
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_others
from rankwright.exporting.to_ranklib import ranklib_model, ranklib_refusal, ranklib_scorer
from rankwright.exporting.to_xgboost import raw_model, raw_nodes, short

_MODEL = "model.json"
_TYPES = {
    "linear": "model/linear",
    "trees": "model/xgboost+json",
    "raw": "model/xgboost+json+raw",
    "ranklib": "model/ranklib",
}
_SINCE = "OpenSearch's plugin sends missing values as the trees say since July 2026, and always right before"
_ORDER = "RankLib's text knows features by number: the feature set must list all features in the order of the model"


def _chosen(ensemble: Ensemble, options: Options) -> str:
    """The format to write."""
    if options.form != "auto":
        return options.form
    return "trees" if not ensemble.is_linear or (ensemble.constant and not ensemble.has_weights) else "linear"


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    kind = _chosen(ensemble, options)
    why = refuse_others(ensemble) or repeated_names(ensemble) or no_features(ensemble)
    if why is not None or kind == "ranklib":
        return why or ranklib_refusal(ensemble, options)
    if ensemble.has_weights and ensemble.trees.n_trees:
        return "it has both linear weights and trees"
    if kind == "linear" and ensemble.trees.n_trees:
        return "it has trees, not weights; expected another --form"
    if kind == "linear" and ensemble.constant:
        return f"it adds {ensemble.constant:g} to its weights, which model/linear has no place for; use --form ranklib"
    if kind != "linear" and ensemble.has_weights:
        return "it has linear weights, which trees cannot represent exactly; expected --form linear"
    return None


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    kind = _chosen(ensemble, options)
    notes = []
    definition: Any
    if kind == "linear":
        definition = {ensemble.names[j]: short(ensemble.weights[j]) for j in ensemble.linear_features}
    elif kind == "raw":
        definition = json.dumps(raw_model(ensemble, list(ensemble.names)), ensure_ascii=False, separators=(",", ":"))
    elif kind == "ranklib":
        definition, notes = ranklib_model(ensemble), [_ORDER]
    else:
        limits = for_below(ensemble.trees.threshold)
        definition = [_nested(ensemble, int(root), limits) for root in ensemble.trees.roots]
        if ensemble.constant or not definition:
            definition.append({"nodeid": 0, "leaf": short(ensemble.constant)})
    splits = ensemble.trees.feature >= 0
    if kind in ("trees", "raw") and (ensemble.trees.missing_left & splits).any():
        notes.append(_SINCE)
    body = {"model": {"name": options.name, "model": {"type": _TYPES[kind], "definition": definition}}}
    return ExportFiles({_MODEL: (json.dumps(body, ensure_ascii=False) + "\n").encode()}, tuple(notes))


def _nested(ensemble: Ensemble, root: int, limits: Array) -> dict[str, Any]:
    """A tree as XGBoost dumps it."""
    trees = ensemble.trees
    top: dict[str, Any] = {"nodeid": 0}
    todo, count = [(root, top, 0)], 1
    while todo:
        node, fields, depth = todo.pop()
        if trees.feature[node] < 0:
            fields["leaf"] = short(trees.value[node])
            continue
        yes, no = count, count + 1
        count += 2
        below: list[dict[str, Any]] = [{"nodeid": yes}, {"nodeid": no}]
        fields |= {
            "depth": depth,
            "split": ensemble.names[trees.feature[node]],
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
    return lambda X, _: tree_scores(nodes, X, ConsumerRule(strict=True))


def _dump_nodes(definition: list[dict[str, Any]], place: Mapping[str, int]) -> ConsumerTrees:
    def parse(fields: dict[str, Any]) -> float | WrittenSplit:
        if "leaf" in fields:
            return float(fields["leaf"])
        by_id = {child["nodeid"]: child for child in fields["children"]}
        yes, no, missing_left = fields["yes"], fields["no"], fields["missing"] == fields["yes"]
        return WrittenSplit(place[fields["split"]], fields["split_condition"], missing_left, by_id[yes], by_id[no])

    nodes = ConsumerTrees()
    for tree in definition:
        nodes.add(tree, parse)
    return nodes


OPENSEARCH = ExportTarget(
    name="opensearch",
    about="the learning-to-rank plugin of OpenSearch or Elasticsearch: the body of _ltr/_featureset/SET/_createmodel",
    rule="left if x < threshold, or a dot product, in float32; missing values by split, and 0 in dot products",
    refusal=_refusal,
    write=_write,
    read=_read,
    forms=tuple(_TYPES),
)
