"""The features of a model in OpenSearch and Elasticsearch: an index, queries whose scores are the features, requests.

A retrieval function over a view is a match query on a sub-field with an analyser and a similarity of its own
(:mod:`rankwright.exporting.similarities`). Every query also matches documents without any of the words, with the score
0: a feature that does not match would count as missing, while it was 0 in training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankwright.exporting.counterparts import ALL_FIELDS, Called, Counterpart, FeatureSet, Origin
from rankwright.exporting.similarities import Similarity, similarities_of
from rankwright.text.analysis.analyzers import BUILT_IN, STOP_WORDS

WORDS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"
"""A word of ours, as a regular expression of Java."""
_VALUE = "must not be below 0, as no score of the engine may be; missing where the document has no such field"


def opensearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for OpenSearch's LTR plugin, and for the same plugin in Elasticsearch."""
    counterparts = [_counterpart(origin, "keywords") for origin in origins]
    files = {
        "index.json": _json(_index(origins)),
        "featureset.json": _json(_featureset(called.feature_set, origins, legacy=False)),
        "log.json": _json(_plugin_log(called.feature_set)),
        "search.json": _json(_plugin_rerank(called.model, origins)),
    }
    if any(_is_boosted(origin) for origin in origins):
        files["featureset-legacy.json"] = _json(_featureset(called.feature_set, origins, legacy=True))
    return FeatureSet("opensearch", tuple(counterparts), files)


def elasticsearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for Elasticsearch's own learning to rank."""
    counterparts = [_counterpart(origin, "query_text", legacy=True) for origin in origins]
    extractors = [_extractor(origin, counterpart) for origin, counterpart in zip(origins, counterparts, strict=True)]
    files = {
        "index.json": _json(_index(origins)),
        "feature_extractors.json": _json(extractors),
        "log.json": _json(_native_log(counterparts)),
        "search.json": _json(_native_rerank(called.model, origins)),
    }
    return FeatureSet("elasticsearch", tuple(counterparts), files)


def placeholder_note(origin: Origin) -> str:
    """What to do about a feature of which only the name is known."""
    if origin.kind == "run":
        return "made from the run of another system: compute it there, or log the engine's own features"
    return "only its position is known: replace the definition by what the feature stands for"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _is_boosted(origin: Origin) -> bool:
    return origin.kind == "text" and _similarity(origin).factor != 1.0


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
    if origin.kind == "value":
        return Counterpart(origin.name, "field", _VALUE, query)
    return Counterpart(origin.name, "none", placeholder_note(origin), query)


def _match(origin: Origin, factor: float, parameter: str, *, legacy: bool) -> dict[str, Any]:
    """A query with the score of the words, 0 without any."""
    words: dict[str, Any] = {"query": f"{{{{{parameter}}}}}"}
    if legacy and factor != 1.0:
        words["boost"] = 1.0 / factor
    subfield = f"{_field(origin)}.{origin.key}"
    # All documents match: to the plugins a query that does not is a missing value, while it was 0 in training.
    return {"bool": {"filter": [{"match_all": {}}], "should": [{"match": {subfield: words}}]}}


def _field(origin: Origin) -> str:
    return ALL_FIELDS if origin.field is None else origin.field


def _similarity(origin: Origin) -> Similarity:
    similarity = similarities_of(origin).lucene(origin)
    if origin.analyzer not in BUILT_IN:
        note = f"the analyser {origin.analyzer!r} is your own: define it in the index instead of 'standard'"
        return Similarity(similarity.settings, "none", note, similarity.factor)
    return similarity


def _index(origins: Sequence[Origin]) -> dict[str, Any]:
    """Settings and mappings: an analyser for each of ours, and a sub-field for each function over a view."""
    texts = [origin for origin in origins if origin.kind == "text"]
    similarities = {f"rankwright_{origin.key}": _similarity(origin).settings for origin in texts}
    properties: dict[str, Any] = {}
    for origin in texts:
        definition = properties.setdefault(_field(origin), {"type": "text", "fields": {}})
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


def _plugin_log(feature_set: str) -> dict[str, Any]:
    logged = {"_name": "features", "featureset": feature_set, "params": {"keywords": "QUERY"}}
    return {
        "size": 100,
        "_source": False,
        "query": {"bool": {"filter": [{"terms": {"_id": ["DOCUMENT"]}}, {"sltr": logged}]}},
        "ext": {"ltr_log": {"log_specs": {"name": "features", "named_query": "features"}}},
    }


def _first_query(origins: Sequence[Origin]) -> dict[str, Any]:
    """A query over all text fields of the model."""
    fields = [f"{_field(origin)}.{origin.key}" for origin in origins if origin.kind == "text"]
    return {"multi_match": {"query": "QUERY", "fields": fields or ["*"]}}


def _plugin_rerank(model: str, origins: Sequence[Origin]) -> dict[str, Any]:
    ranker = {"sltr": {"model": model, "params": {"keywords": "QUERY"}}}
    weights = {"query_weight": 0.0, "rescore_query_weight": 1.0}
    return {
        "query": _first_query(origins),
        "rescore": {"window_size": 100, "query": {"rescore_query": ranker, **weights}},
    }


def _extractor(origin: Origin, counterpart: Counterpart) -> dict[str, Any]:
    extractor: dict[str, Any] = {"feature_name": origin.name, "query": counterpart.definition}
    if origin.kind == "text":
        extractor["default_score"] = 0.0
    return {"query_extractor": extractor}


def _native_log(counterparts: Sequence[Counterpart]) -> dict[str, Any]:
    """Named queries, whose scores the response lists when asked with ``include_named_queries_score=true``."""
    named = []
    for counterpart in counterparts:
        ((kind, query),) = counterpart.definition.items()
        named.append({kind: {**query, "_name": counterpart.name}})
    filled = json.loads(json.dumps(named).replace("{{query_text}}", "QUERY"))
    query = {"bool": {"filter": [{"terms": {"_id": ["DOCUMENT"]}}], "should": filled}}
    return {"size": 100, "_source": False, "query": query}


def _native_rerank(model: str, origins: Sequence[Origin]) -> dict[str, Any]:
    ranker = {"model_id": model, "params": {"query_text": "QUERY"}}
    return {"query": _first_query(origins), "rescore": {"window_size": 100, "learning_to_rank": ranker}}
