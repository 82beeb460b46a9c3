"""The features of a model in Solr: field types and fields for the schema, a feature store, and the requests.

Solr has no scripts for similarities, so that only BM25 and Jelinek–Mercer smoothing have a counterpart. Words are asked
for with the query parser ``dismax`` over a single field: ``field`` would make a phrase of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from rankwright.exporting.counterparts import (
    ALL_FIELDS,
    Called,
    Counterpart,
    FeatureSet,
    Origin,
    Status,
    identifiers,
    what_differs,
)
from rankwright.exporting.lucene_sets import WORDS, placeholder_note
from rankwright.text.analysis.analyzers import BUILT_IN
from rankwright.text.analysis.stop_words import STOP_WORDS
from rankwright.text.search.functions import BM25, Dirichlet, JelinekMercer

__all__ = ["solr_set"]

_FEATURE = "org.apache.solr.ltr.feature"
_STOP_FILE = "rankwright_stopwords.txt"
_STATISTICS = "counts of documents and words are those of each shard, over documents that have the field"
_VALUE = "NaN where the document has no such field"


def solr_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for Solr's module ``ltr``."""
    fields = _fields(origins)
    made = [_counterpart(origin, fields) for origin in origins]
    store = [
        {
            "store": called.feature_set,
            "name": called.features[one.name],
            "class": f"{_FEATURE}.{kind}",
            "params": params,
        }
        for one in made
        for kind, params in [one.definition]
    ]
    files = {
        "schema.json": _json(_schema(origins, fields)),
        "features.json": _json(store),
        "log.json": _json(_log(called.feature_set)),
        "search.json": _json(_search(origins, fields, called.model)),
    }
    if any(origin.analyzer == "porter+stop" for origin in origins):
        files[_STOP_FILE] = "".join(f"{word}\n" for word in sorted(STOP_WORDS))
    return FeatureSet("solr", tuple(made), files)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _view(origin: Origin) -> str:
    return f"{ALL_FIELDS if origin.field is None else origin.field} {origin.key}"


def _fields(origins: Sequence[Origin]) -> dict[str, str]:
    """The field that holds each view, and each number."""
    wanted = [_view(origin) if origin.kind == "text" else str(origin.field) for origin in origins]
    return identifiers(wanted)


def _counterpart(origin: Origin, fields: dict[str, str]) -> Counterpart:
    if origin.kind != "text":
        fill = "NaN" if origin.fill is None else repr(origin.fill)
        definition = ("FieldValueFeature", {"field": fields[str(origin.field)], "defaultValue": fill})
        if origin.kind == "value":
            return Counterpart(origin.name, "field", _VALUE, definition)
        return Counterpart(origin.name, "none", placeholder_note(origin), definition)
    _, status, note = _scoring(origin)
    note += "" if origin.field else "; schema.json copies every field ('*') into one: list the text fields instead"
    query = f"{{!dismax qf={fields[_view(origin)]} mm=0}}${{text}}"
    return Counterpart(origin.name, status, note, ("SolrFeature", {"q": query}))


def _scoring(origin: Origin) -> tuple[dict[str, Any], Status, str]:
    """The similarity of a field type, how well it stands for ours, and what differs."""
    similarity, status, note = _formula(origin)
    if origin.analyzer not in BUILT_IN:
        note = f"the analyser {origin.analyzer!r} is your own: define it in the field type"
        return similarity, "none", note
    return similarity, status, note


def _formula(origin: Origin) -> tuple[dict[str, Any], Status, str]:
    function = origin.function
    if isinstance(function, BM25):
        similarity: dict[str, Any] = {"class": "solr.BM25SimilarityFactory", "k1": function.k1, "b": function.b}
        if function.idf == "okapi":
            return similarity, "none", "idf=okapi may be below 0; the placeholder has idf=lucene"
        lengths = function.b > 0 and function.k1 > 0
        return similarity, "approximate", what_differs(origin, lengths=lengths, statistics=_STATISTICS)
    if isinstance(function, JelinekMercer):
        similarity = {"class": "solr.LMJelinekMercerSimilarityFactory", "lambda": function.lambda_}
        statistics = f"{_STATISTICS}, and 1 is added to both counts of the collection"
        return similarity, "approximate", what_differs(origin, lengths=True, statistics=statistics)
    if isinstance(function, Dirichlet):
        similarity = {"class": "solr.LMDirichletSimilarityFactory", "mu": function.mu}
        note = "no score may be below 0, and LMDirichlet leaves out the words that a document lacks"
        return similarity, "none", note
    return {"class": "solr.BM25SimilarityFactory"}, "none", "Solr has no such similarity; the placeholder is BM25"


def _schema(origins: Sequence[Origin], fields: dict[str, str]) -> dict[str, Any]:
    """Commands for the schema API."""
    types: dict[str, Any] = {}
    added: dict[str, Any] = {}
    copied: dict[tuple[str, str], Any] = {}
    for origin in origins:
        if origin.kind == "value":
            name = fields[str(origin.field)]
            added[name] = {"name": name, "type": "pdouble", "indexed": False, "stored": True, "docValues": True}
        if origin.kind != "text":
            continue
        name, kind = fields[_view(origin)], f"rankwright_{origin.key}"
        types[kind] = {
            "name": kind,
            "class": "solr.TextField",
            "analyzer": _analyzer(origin.analyzer),
            "similarity": _scoring(origin)[0],
        }
        added[name] = {"name": name, "type": kind, "indexed": True, "stored": False, "multiValued": True}
        source = "*" if origin.field is None else origin.field
        copied[source, name] = {"source": source, "dest": name}
    return {
        "add-field-type": list(types.values()),
        "add-field": list(added.values()),
        "add-copy-field": list(copied.values()),
    }


def _analyzer(analyzer: str) -> dict[str, Any]:
    filters: list[dict[str, Any]] = [{"class": "solr.LowerCaseFilterFactory"}]
    if analyzer == "porter+stop":
        filters.append({"class": "solr.StopFilterFactory", "words": _STOP_FILE})
    if analyzer in ("porter", "porter+stop"):
        filters.append({"class": "solr.SnowballPorterFilterFactory", "language": "Porter"})
        filters.append({"class": "solr.LengthFilterFactory", "min": 1, "max": 1000000})  # the stem of "s" is empty
    return {"tokenizer": {"class": "solr.PatternTokenizerFactory", "pattern": WORDS, "group": 0}, "filters": filters}


def _log(store: str) -> dict[str, Any]:
    """The features of some documents for a query."""
    listed = f"id,[features store={_quoted(store)} efi.text='QUERY']"
    return {"params": {"q": "id:(DOCUMENT)", "rows": 100, "fl": listed}}


def _search(origins: Sequence[Origin], fields: dict[str, str], model: str) -> dict[str, Any]:
    """A search whose first hundred results are reranked."""
    views = [fields[_view(origin)] for origin in origins if origin.kind == "text"]
    first = {"defType": "dismax", "mm": "0", "qf": " ".join(dict.fromkeys(views))} if views else {}
    ranker = f"{{!ltr model={_quoted(model)} reRankDocs=100 efi.text='QUERY'}}"
    return {"params": {"q": "QUERY", **first, "rq": ranker, "fl": "id,score,[features]"}}


def _quoted(value: str) -> str:
    """A local parameter."""
    if re.fullmatch(r"\w+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
