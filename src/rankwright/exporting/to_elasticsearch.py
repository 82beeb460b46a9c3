"""OpenSearch and Elasticsearch: models for their learning to rank, and the features that the models need.

The plugin, which both engines have, takes the body of ``_createmodel``. ``linear``: a dot product in float32, missing
features are 0. ``trees``: XGBoost's dump; ``x < threshold`` and sums in float32, missing values by split. ``raw``:
XGBoost's whole model. ``ranklib``: RankLib's text. Elasticsearch's own learning to rank takes the body of
``PUT _ml/trained_models/NAME``: trees only; nodes say ``lte``, ``x <= threshold`` in float64, missing values by split.

The feature set is an index, queries whose scores are the features, and requests. A retrieval function over a view is a
match query on a sub-field with an analyser and a similarity of its own (:mod:`rankwright.exporting.counterparts`).
Every query also matches documents without any of the words, with the score 0: a feature that does not match would
count as missing, while it was 0 in training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_at_most, for_below
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, linear_scores, tree_scores
from rankwright.exporting.counterparts import (
    ALL_FIELDS,
    WORDS,
    Called,
    Counterpart,
    FeatureSet,
    Origin,
    Similarity,
    json_text,
    number_counterpart,
    origin_of,
    similarities_of,
)
from rankwright.exporting.ensemble import Ensemble, as_json
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_to_engine
from rankwright.exporting.to_ranklib import ranklib_model, ranklib_refusal, ranklib_scorer
from rankwright.exporting.to_xgboost import raw_model, raw_nodes, short
from rankwright.text.analysis import BUILT_IN, STOP_WORDS

_MODEL = "model.json"
_TYPES = {
    "linear": "model/linear",
    "trees": "model/xgboost+json",
    "raw": "model/xgboost+json+raw",
    "ranklib": "model/ranklib",
}
_SINCE = "OpenSearch's plugin sends missing values as the trees say since July 2026, and always right before"
_ORDER = "RankLib's text knows features by number: the feature set must list all features in the order of the model"


def _plugin_form(ensemble: Ensemble, options: Options) -> str:
    if options.form != "auto":
        return options.form
    return "trees" if not ensemble.is_linear or (ensemble.constant and not ensemble.has_weights) else "linear"


def _plugin_refusal(ensemble: Ensemble, options: Options) -> str | None:
    kind = _plugin_form(ensemble, options)
    why = refuse_to_engine(ensemble)
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


def _plugin_write(ensemble: Ensemble, options: Options) -> ExportFiles:
    kind, notes = _plugin_form(ensemble, options), []
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
    return ExportFiles({_MODEL: as_json(body)}, tuple(notes))


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


def _plugin_read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    model = json.loads(files[_MODEL])["model"]["model"]
    definition, place = model["definition"], {name: j for j, name in enumerate(names)}
    if model["type"] == _TYPES["linear"]:
        columns = [place[name] for name in definition]
        return lambda X, _: linear_scores(X, columns, [*definition.values()])
    if model["type"] == _TYPES["ranklib"]:
        return ranklib_scorer(definition)

    def parse(fields: dict[str, Any]) -> float | WrittenSplit:
        if "leaf" in fields:
            return float(fields["leaf"])
        by_id = {child["nodeid"]: child for child in fields["children"]}
        yes, no, missing_left = fields["yes"], fields["no"], fields["missing"] == fields["yes"]
        return WrittenSplit(place[fields["split"]], fields["split_condition"], missing_left, by_id[yes], by_id[no])

    is_raw = model["type"] == _TYPES["raw"]
    nodes = raw_nodes(json.loads(definition)) if is_raw else ConsumerTrees.read(definition, parse)
    return lambda X, _: tree_scores(nodes, X, ConsumerRule(strict=True))


OPENSEARCH = ExportTarget(
    name="opensearch",
    about="the learning-to-rank plugin of OpenSearch or Elasticsearch: the body of _ltr/_featureset/SET/_createmodel",
    rule="left if x < threshold, or a dot product, in float32; missing values by split, and 0 in dot products",
    refusal=_plugin_refusal,
    write=_plugin_write,
    read=_plugin_read,
    forms=tuple(_TYPES),
)


def _native_refusal(ensemble: Ensemble, options: Options) -> str | None:
    if ensemble.has_weights:
        return "it has linear weights, and Elasticsearch's own learning to rank holds trees only"
    return refuse_to_engine(ensemble)


def _native_write(ensemble: Ensemble, options: Options) -> ExportFiles:
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
    extractors = _extractors([origin_of(name) for name in names])
    body = {
        "inference_config": {"learning_to_rank": {"feature_extractors": extractors}},
        "input": {"field_names": names},
        "definition": {"trained_model": {"ensemble": definition}},
    }
    return ExportFiles({_MODEL: as_json(body)})


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


def _native_read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    definition = json.loads(files[_MODEL])["definition"]["trained_model"]["ensemble"]
    columns = [names.index(name) for name in definition["feature_names"]]

    def parse(place: tuple[dict[int, Any], int]) -> float | WrittenSplit:
        structure, at = place
        fields = structure[at]
        if "leaf_value" in fields:
            return float(fields["leaf_value"])
        left, right = ((structure, fields[child]) for child in ("left_child", "right_child"))
        return WrittenSplit(columns[fields["split_feature"]], fields["threshold"], fields["default_left"], left, right)

    structures = [model["tree"]["tree_structure"] for model in definition["trained_models"]]
    by_index = [{node["node_index"]: node for node in structure} for structure in structures]
    nodes = ConsumerTrees.read([(structure, 0) for structure in by_index], parse)
    return lambda X, _: tree_scores(nodes, X, ConsumerRule(dtype=np.float64))


ELASTICSEARCH = ExportTarget(
    name="elasticsearch",
    about="Elasticsearch's own learning to rank: the body of PUT _ml/trained_models/NAME",
    rule="left if x <= threshold, in float64; missing values by split",
    refusal=_native_refusal,
    write=_native_write,
    read=_native_read,
    dtype=np.float64,
)

# The features.

IN_THE_MODEL = "feature_extractors.json"
_VALUE = "must not be below 0, as no score of the engine may be; missing where the document has no such field"


def opensearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for OpenSearch's LTR plugin, and for the same plugin in Elasticsearch."""
    params = {"keywords": "QUERY"}
    logged = {"_name": "features", "featureset": called.feature_set, "params": params}
    log = {
        "size": 100,
        "_source": False,
        "query": {"bool": {"filter": [{"terms": {"_id": ["DOCUMENT"]}}, {"sltr": logged}]}},
        "ext": {"ltr_log": {"log_specs": {"name": "features", "named_query": "features"}}},
    }
    ranker = {"sltr": {"model": called.model, "params": params}}
    rescore = {"rescore_query": ranker, "query_weight": 0.0, "rescore_query_weight": 1.0}
    files = {
        "index.json": json_text(_index(origins)),
        "featureset.json": json_text(_featureset(called.feature_set, origins, legacy=False)),
        "log.json": json_text(log),
        "search.json": _search(origins, {"query": rescore}),
    }
    if any(origin.kind == "text" and _similarity(origin).factor != 1.0 for origin in origins):
        files["featureset-legacy.json"] = json_text(_featureset(called.feature_set, origins, legacy=True))
    return FeatureSet("opensearch", tuple(_counterpart(origin, "keywords") for origin in origins), files)


def elasticsearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for Elasticsearch's own learning to rank.

    The response to ``log.json`` lists scores when asked with ``include_named_queries_score=true``.
    """
    counterparts = tuple(_counterpart(origin, "query_text", legacy=True) for origin in origins)
    named = []
    for counterpart in counterparts:
        ((kind, query),) = counterpart.definition.items()
        named.append({kind: {**query, "_name": counterpart.name}})
    filled = json.loads(json.dumps(named).replace("{{query_text}}", "QUERY"))
    logged = {"bool": {"filter": [{"terms": {"_id": ["DOCUMENT"]}}], "should": filled}}
    ranker = {"model_id": called.model, "params": {"query_text": "QUERY"}}
    files = {
        "index.json": json_text(_index(origins)),
        IN_THE_MODEL: json_text(_extractors(origins)),
        "log.json": json_text({"size": 100, "_source": False, "query": logged}),
        "search.json": _search(origins, {"learning_to_rank": ranker}),
    }
    return FeatureSet("elasticsearch", counterparts, files)


def _counterpart(origin: Origin, parameter: str, *, legacy: bool = False) -> Counterpart:
    if origin.kind == "text":
        similarity = _similarity(origin)
        query = _match(origin, similarity.factor, parameter, legacy=legacy)
        return Counterpart(origin.name, similarity.status, similarity.note, query)
    value: dict[str, Any] = {"field": origin.field}
    condition: dict[str, Any] = {"exists": {"field": origin.field}}
    if origin.fill is not None:
        value["missing"], condition = origin.fill, {"match_all": {}}
    query = {"function_score": {"query": condition, "field_value_factor": value, "boost_mode": "replace"}}
    if origin.kind == "value" and "{{" in str(origin.field):
        return Counterpart(origin.name, "none", "the template would replace {{ in its name: rename the field", query)
    return number_counterpart(origin, _VALUE, query)


def _match(origin: Origin, factor: float, parameter: str, *, legacy: bool) -> dict[str, Any]:
    """A query with the score of the words, 0 without any."""
    words: dict[str, Any] = {"query": f"{{{{{parameter}}}}}"}
    if legacy and factor != 1.0:
        words["boost"] = 1.0 / factor
    # All documents match: to the plugins a query that does not is a missing value, while it was 0 in training.
    return {"bool": {"filter": [{"match_all": {}}], "should": [{"match": {_subfield(origin): words}}]}}


def _subfield(origin: Origin) -> str:
    return f"{origin.text_field}.{origin.key}"


def _similarity(origin: Origin) -> Similarity:
    similarity = similarities_of(origin).lucene(origin)
    return similarity.analyzed(origin.analyzer, "in the index instead of 'standard'")


def _index(origins: Sequence[Origin]) -> dict[str, Any]:
    """Settings and mappings: an analyser for each of ours, and a sub-field for each function over a view."""
    texts = [origin for origin in origins if origin.kind == "text"]
    similarities = {f"rankwright_{origin.key}": _similarity(origin).settings for origin in texts}
    properties: dict[str, Any] = {}
    for origin in texts:
        definition = properties.setdefault(origin.text_field, {"type": "text", "fields": {}})
        definition["fields"][origin.key] = {
            "type": "text",
            "analyzer": _analyzer_name(origin.analyzer),
            "similarity": f"rankwright_{origin.key}",
        }
    if ALL_FIELDS in properties:
        for name, definition in properties.items():
            if name != ALL_FIELDS:
                definition["copy_to"] = [ALL_FIELDS]
    for origin in origins:
        if origin.kind == "value" and origin.field is not None and origin.field not in properties:
            properties[origin.field] = {"type": "double"}
    mappings: dict[str, Any] = {"properties": properties}
    if ALL_FIELDS in properties:
        rest = {"match_mapping_type": "string", "mapping": {"type": "text", "copy_to": [ALL_FIELDS]}}
        mappings["dynamic_templates"] = [{"rankwright_text": rest}]
    used = list(dict.fromkeys(origin.analyzer for origin in texts if origin.analyzer in BUILT_IN))
    settings: dict[str, Any] = {"number_of_shards": 1}
    if texts:
        settings |= {"similarity": similarities, "analysis": _analysis(used)}
    return {"settings": {"index": settings}, "mappings": mappings}


def _analyzer_name(analyzer: str) -> str:
    return f"rankwright_{analyzer.replace('+', '_')}" if analyzer in BUILT_IN else "standard"


def _analysis(analyzers: Sequence[str]) -> dict[str, Any]:
    stemmed = ["rankwright_stem", "rankwright_not_empty"]  # the stem of "s" is empty
    filters = {"plain": ["lowercase"], "porter": ["lowercase", *stemmed]}
    filters["porter+stop"] = ["lowercase", "rankwright_stop", *stemmed]
    return {
        "tokenizer": {"rankwright_words": {"type": "pattern", "pattern": WORDS, "group": 0}},
        "filter": {
            "rankwright_stem": {"type": "snowball", "language": "Porter"},
            "rankwright_not_empty": {"type": "length", "min": 1},
            "rankwright_stop": {"type": "stop", "stopwords": sorted(STOP_WORDS)},
        },
        "analyzer": {
            _analyzer_name(name): {"type": "custom", "tokenizer": "rankwright_words", "filter": filters[name]}
            for name in analyzers
        },
    }


def _featureset(name: str, origins: Sequence[Origin], *, legacy: bool) -> dict[str, Any]:
    features = [
        {
            "name": origin.name,
            "params": ["keywords"] if origin.kind == "text" else [],
            "template_language": "mustache",
            "template": _counterpart(origin, "keywords", legacy=legacy).definition,
        }
        for origin in origins
    ]
    return {"featureset": {"name": name, "features": features}}


def _search(origins: Sequence[Origin], rescore: dict[str, Any]) -> str:
    """A search whose first hundred results are scored again."""
    fields = [_subfield(origin) for origin in origins if origin.kind == "text"]
    first = {"multi_match": {"query": "QUERY", "fields": fields or ["*"]}}
    return json_text({"query": first, "rescore": {"window_size": 100, **rescore}})


def _extractors(origins: Sequence[Origin]) -> list[dict[str, Any]]:
    """The features as they stand in a model: named queries; a text without any of the words scores 0."""
    extractors = []
    for origin in origins:
        query = _counterpart(origin, "query_text", legacy=True).definition
        extractor: dict[str, Any] = {"feature_name": origin.name, "query": query}
        if origin.kind == "text":
            extractor["default_score"] = 0.0
        extractors.append({"query_extractor": extractor})
    return extractors
