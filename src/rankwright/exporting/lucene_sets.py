"""The features of a model in OpenSearch and Elasticsearch: an index, queries whose scores are the features, requests.

A retrieval function over a view is a match query on a sub-field with an analyser and a similarity of its own. Functions
that Lucene lacks are written as scripts of a similarity, formula by formula (:mod:`rankwright.text.search.functions`).
Every query also matches documents without any of the words, with the score 0: a feature that does not match would count
as missing, while it was 0 in training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankwright.exporting.counterparts import ALL_FIELDS, Called, Counterpart, FeatureSet, Origin, Status, what_differs
from rankwright.text.analysis.analyzers import BUILT_IN
from rankwright.text.analysis.stop_words import STOP_WORDS
from rankwright.text.search.functions import BM25, TFIDF, Cosine, Dirichlet, Function, JelinekMercer

__all__ = ["WORDS", "elasticsearch_set", "opensearch_set", "placeholder_note"]

WORDS = r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*"
"""A word of ours, as a regular expression of Java."""
_STATISTICS = "counts of documents and words are those of each shard, over documents that have the field"
_SHARE = "doc.freq * 1.0 / doc.length"
_IDF = "field.docCount * 1.0 / term.docFreq"
_CF = "field.sumTotalTermFreq * 1.0 / term.totalTermFreq"
_SCRIPTS = {
    "log-tf": ("Math.log(doc.freq + 1.0)", False),
    "log-cf": (f"Math.log({_CF} + 1.0)", False),
    "log-idf": (f"Math.log({_IDF})", False),
    "log-share": (f"Math.log({_SHARE} + 1.0)", True),
    "log-share-idf": (f"Math.log({_SHARE} * {_IDF} + 1.0)", True),
    "log-share-cf": (f"Math.log({_SHARE} * {_CF} + 1.0)", True),
}
"""The sums as scripts, each term counted once, and whether they use the length of the document."""
_VALUE = "must not be below 0, as no score of the engine may be; missing where the document has no such field"
_TFIDF = f"query.boost * (1.0 + Math.log(doc.freq)) * Math.log(1.0 + {_IDF})"


@dataclass(frozen=True)
class _Scoring:
    """How an engine scores a field: a similarity, how well it stands for ours, and the factor of its older BM25."""

    similarity: dict[str, Any]
    status: Status
    note: str
    factor: float = 1.0


def opensearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for OpenSearch's LTR plugin, and for the same plugin in Elasticsearch."""
    made = [_counterpart(origin, "keywords") for origin in origins]
    files = {
        "index.json": _json(_index(origins)),
        "featureset.json": _json(_featureset(called.feature_set, origins, legacy=False)),
        "log.json": _json(_plugin_log(called.feature_set)),
        "search.json": _json(_plugin_rerank(called.model, origins)),
    }
    if any(_is_boosted(origin) for origin in origins):
        files["featureset-legacy.json"] = _json(_featureset(called.feature_set, origins, legacy=True))
    return FeatureSet("opensearch", tuple(made), files)


def elasticsearch_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for Elasticsearch's own learning to rank."""
    made = [_counterpart(origin, "query_text", legacy=True) for origin in origins]
    extractors = [_extractor(origin, one) for origin, one in zip(origins, made, strict=True)]
    files = {
        "index.json": _json(_index(origins)),
        "feature_extractors.json": _json(extractors),
        "log.json": _json(_native_log(made)),
        "search.json": _json(_native_rerank(called.model, origins)),
    }
    return FeatureSet("elasticsearch", tuple(made), files)


def placeholder_note(origin: Origin) -> str:
    """What to do about a feature that nothing but its name is known of."""
    if origin.kind == "run":
        return "made from the run of another system: compute it there, or log the engine's own features"
    return "only its position is known: replace the definition by what the feature stands for"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _is_boosted(origin: Origin) -> bool:
    return origin.kind == "text" and _scoring(origin).factor != 1.0


def _counterpart(origin: Origin, parameter: str, *, legacy: bool = False) -> Counterpart:
    if origin.kind == "text":
        scoring = _scoring(origin)
        return Counterpart(origin.name, scoring.status, scoring.note, _match(origin, scoring, parameter, legacy))
    value: dict[str, Any] = {"field": origin.field}
    found: dict[str, Any] = {"exists": {"field": origin.field}}
    if origin.fill is not None:
        value["missing"], found = origin.fill, {"match_all": {}}
    query = {"function_score": {"query": found, "field_value_factor": value, "boost_mode": "replace"}}
    if origin.kind == "value" and "{{" in str(origin.field):
        return Counterpart(origin.name, "none", "the template would replace {{ in its name: rename the field", query)
    if origin.kind == "value":
        return Counterpart(origin.name, "field", _VALUE, query)
    return Counterpart(origin.name, "none", placeholder_note(origin), query)


def _match(origin: Origin, scoring: _Scoring, parameter: str, legacy: bool) -> dict[str, Any]:
    """A query with the score of the words, 0 without any."""
    words: dict[str, Any] = {"query": f"{{{{{parameter}}}}}"}
    if legacy and scoring.factor != 1.0:
        words["boost"] = 1.0 / scoring.factor
    own = f"{_field(origin)}.{origin.key}"
    return {"bool": {"filter": [{"match_all": {}}], "should": [{"match": {own: words}}]}}


def _field(origin: Origin) -> str:
    return ALL_FIELDS if origin.field is None else origin.field


def _scoring(origin: Origin) -> _Scoring:
    scoring = _formula(origin)
    if origin.analyzer not in BUILT_IN:
        note = f"the analyser {origin.analyzer!r} is your own: define it in the index instead of 'standard'"
        return _Scoring(scoring.similarity, "none", note, scoring.factor)
    return scoring


def _formula(origin: Origin) -> _Scoring:
    function = origin.function
    if isinstance(function, str):
        return _sum(origin, function)
    if isinstance(function, BM25):
        return _bm25(origin, function)
    if isinstance(function, TFIDF):
        return _Scoring(_scripted(_TFIDF), "approximate", what_differs(origin, lengths=False, statistics=_STATISTICS))
    if isinstance(function, JelinekMercer):
        odds = (1 - function.lambda_) / function.lambda_
        script = f"query.boost * Math.log(1.0 + {odds!r} * {_SHARE} * {_CF})"
        return _Scoring(_scripted(script), "approximate", what_differs(origin, lengths=True, statistics=_STATISTICS))
    if isinstance(function, Dirichlet):
        note = "no score may be below 0, and LMDirichlet leaves out the words that a document lacks"
        return _Scoring({"type": "LMDirichlet", "mu": function.mu}, "none", note)
    return _without(function)


def _without(function: Function | None) -> _Scoring:
    what = "the length of a document's vector is not in the index" if isinstance(function, Cosine) else "unknown"
    return _Scoring(_scripted(_TFIDF), "none", f"{what}; the placeholder is tf-idf")


def _sum(origin: Origin, name: str) -> _Scoring:
    if name not in _SCRIPTS:
        return _Scoring({"type": "BM25"}, "none", "no score may be below 0; the placeholder is BM25", 2.2)
    script, lengths = _SCRIPTS[name]
    if name == "log-tf":
        return _Scoring(_scripted(script), "exact", "from the counts of the words in the document alone")
    return _Scoring(_scripted(script), "approximate", what_differs(origin, lengths=lengths, statistics=_STATISTICS))


def _bm25(origin: Origin, function: BM25) -> _Scoring:
    similarity: dict[str, Any] = {"type": "BM25", "k1": function.k1, "b": function.b}
    factor = function.k1 + 1
    if function.idf == "okapi":
        return _Scoring(similarity, "none", "idf=okapi may be below 0; the placeholder has idf=lucene", factor)
    differs = what_differs(origin, lengths=function.b > 0 and function.k1 > 0, statistics=_STATISTICS)
    older = "Elasticsearch and OpenSearch before 3.0 multiply by k1 + 1, which a boost takes back"
    return _Scoring(similarity, "approximate", f"{differs} ({older})", factor)


def _scripted(script: str) -> dict[str, Any]:
    return {"type": "scripted", "script": {"source": f"return {script};"}}


def _index(origins: Sequence[Origin]) -> dict[str, Any]:
    """Settings and mappings: an analyser for each of ours, and a sub-field for each function over a view."""
    texts = [origin for origin in origins if origin.kind == "text"]
    similarities = {f"rankwright_{origin.key}": _scoring(origin).similarity for origin in texts}
    properties: dict[str, Any] = {}
    for origin in texts:
        own = properties.setdefault(_field(origin), {"type": "text", "fields": {}})
        own["fields"][origin.key] = {
            "type": "text",
            "analyzer": _analyzer_name(origin.analyzer),
            "similarity": f"rankwright_{origin.key}",
        }
    if ALL_FIELDS in properties:
        for name, own in properties.items():
            if name != ALL_FIELDS:
                own["copy_to"] = [ALL_FIELDS]
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
    own: dict[str, Any] = {"feature_name": origin.name, "query": counterpart.definition}
    if origin.kind == "text":
        own["default_score"] = 0.0
    return {"query_extractor": own}


def _native_log(counterparts: Sequence[Counterpart]) -> dict[str, Any]:
    """Named queries, whose scores the response lists when asked with ``include_named_queries_score=true``."""
    named = []
    for one in counterparts:
        ((kind, query),) = one.definition.items()
        named.append({kind: {**query, "_name": one.name}})
    filled = json.loads(json.dumps(named).replace("{{query_text}}", "QUERY"))
    query = {"bool": {"filter": [{"terms": {"_id": ["DOCUMENT"]}}], "should": filled}}
    return {"size": 100, "_source": False, "query": query}


def _native_rerank(model: str, origins: Sequence[Origin]) -> dict[str, Any]:
    ranker = {"model_id": model, "params": {"query_text": "QUERY"}}
    return {"query": _first_query(origins), "rescore": {"window_size": 100, "learning_to_rank": ranker}}
