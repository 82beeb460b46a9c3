"""The features of a model in Vespa: fields for the schema, a rank profile with a function per feature, and requests.

BM25 is there, with the factor k1 + 1 that the functions divide by; words and stems are those of Vespa's linguistics.
Other retrieval functions have no counterpart.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence

from rankwright.exporting.counterparts import Called, Counterpart, FeatureSet, Origin, Status, identifiers, one_line
from rankwright.exporting.lucene_sets import placeholder_note
from rankwright.text.analysis.analyzers import BUILT_IN
from rankwright.text.search.functions import BM25

__all__ = ["RANK_FEATURE", "vespa_set"]

RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([^()\[\]=\n]*\)(\.\w+)*")
"""The name of one of Vespa's own rank features, such as ``fieldMatch(title).completeness``."""

_WHOLE = "all_text"
_VALUE = "an attribute; NaN where the document has none"


def vespa_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """A part of the schema with a rank profile that computes the features, and requests for the query API."""
    fields = _fields(origins)
    made = tuple(_counterpart(origin, fields) for origin in origins)
    profiles = [re.sub(r"\W", "_", name) for name in (called.feature_set, called.model)]
    files = {"schema.sd": _schema(origins, made, fields, dataclasses.replace(called, feature_set=profiles[0]))}
    for file, profile in zip(("log.json", "search.json"), profiles, strict=True):
        request = {"yql": _yql(origins, fields, called.index), "q": "QUERY", "ranking": profile, "hits": 100}
        files[file] = json.dumps(request, indent=2, ensure_ascii=False) + "\n"
    return FeatureSet("vespa", made, files)


def _view(origin: Origin) -> str:
    return f"{origin.field or _WHOLE} {origin.analyzer} {_parameters(origin)}".strip()


def _bm25_of(origin: Origin) -> BM25 | None:
    if origin.function == "log-bm25":
        return BM25()
    return origin.function if isinstance(origin.function, BM25) else None


def _parameters(origin: Origin) -> str:
    """k1 and b if they are not the usual ones: they belong to a field."""
    own = _bm25_of(origin)
    return "" if own is None or (own.k1, own.b) == (1.2, 0.75) else str(BM25(own.k1, own.b))


def _fields(origins: Sequence[Origin]) -> dict[str, str]:
    sources = [str(origin.field) for origin in origins if origin.kind != "text" or origin.field]
    return identifiers([*sources, *(_view(origin) for origin in origins if origin.kind == "text")])


def _counterpart(origin: Origin, fields: dict[str, str]) -> Counterpart:
    if RANK_FEATURE.fullmatch(origin.name):
        return Counterpart(origin.name, "exact", "a rank feature of Vespa", origin.name)
    if origin.kind != "text":
        expression = f"attribute({fields[str(origin.field)]})"
        if origin.fill is not None:
            expression = f"if (isNan({expression}), {origin.fill!r}, {expression})"
        status: Status = "field" if origin.kind == "value" else "none"
        return Counterpart(origin.name, status, _VALUE if status == "field" else placeholder_note(origin), expression)
    field, own = fields[_view(origin)], _bm25_of(origin)
    if origin.analyzer not in BUILT_IN:
        note = f"the analyser {origin.analyzer!r} is your own: make its words when documents are fed"
        return Counterpart(origin.name, "none", note, f"bm25({field})")
    if own is None or own.idf == "okapi":
        note = "Vespa has no such rank feature; the placeholder is nativeRank"
        return Counterpart(origin.name, "none", note, f"nativeRank({field})")
    expression = f"bm25({field}) / {own.k1 + 1!r}"
    if origin.function == "log-bm25":
        expression = f"log(max({expression}, 0.001))"
    said = ["same formula, but words and stems are those of Vespa's linguistics", "counts are those of a content node"]
    if origin.analyzer == "porter+stop":
        said.append("stop words count in the length of the document, and in the score unless the query leaves them out")
    if own.k3 != float("inf"):
        said.append("a word that the query repeats counts in full, as with k3=inf")
    return Counterpart(origin.name, "approximate", "; ".join(said), expression)


def _schema(
    origins: Sequence[Origin], counterparts: Sequence[Counterpart], fields: dict[str, str], called: Called
) -> str:
    values = [one for one in origins if one.kind == "value" and not RANK_FEATURE.fullmatch(one.name)]
    attributes = dict.fromkeys(fields[str(one.field)] for one in values)
    lines = ["# In the document block", ""] if attributes else []
    for name in attributes:
        lines += [f"field {name} type double {{", "    indexing: attribute | summary", "}", ""]
    lines += ["# Outside of the document block", ""]
    views = {_view(origin): origin for origin in origins if origin.kind == "text"}
    for view, origin in views.items():
        lines += [*_field(origin, fields, fields[view], origins), ""]
    lines += [f"rank-profile {called.feature_set} {{"]
    properties = [line for view, origin in views.items() for line in _properties(origin, fields[view])]
    if properties:
        lines += ["    rank-properties {", *properties, "    }"]
    if views:
        lines += ["    first-phase {", f"        expression: nativeRank({fields[next(iter(views))]})", "    }"]
    for one in counterparts:
        if RANK_FEATURE.fullmatch(one.name):
            continue
        lines += [f"    # {one_line(one.name)}: {one.status}", f"    function {called.features[one.name]}() {{"]
        lines += [f"        expression: {one.definition}", "    }"]
    lines += [
        "    match-features {",
        *(f"        {called.features[one.name]}" for one in counterparts),
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _field(origin: Origin, fields: dict[str, str], name: str, origins: Sequence[Origin]) -> list[str]:
    sources = [fields[origin.field]] if origin.field else _sources(origins, fields)
    read = f"input {sources[0]}" if len(sources) == 1 else ' . " " . '.join(f'(input {one} || "")' for one in sources)
    stemming = "none" if origin.analyzer == "plain" else "best"
    rules = [f"    indexing: {read} | index", "    index: enable-bm25", f"    stemming: {stemming}"]
    return [f"field {name} type string {{", *rules, "    normalizing: none", "}"]


def _sources(origins: Sequence[Origin], fields: dict[str, str]) -> list[str]:
    """The text fields of a whole document: those that features name, else one that the reader must replace."""
    named = [fields[origin.field] for origin in origins if origin.kind == "text" and origin.field]
    return list(dict.fromkeys(named)) or ["TEXT_FIELD"]


def _properties(origin: Origin, field: str) -> list[str]:
    own = _bm25_of(origin)
    if own is None or not _parameters(origin):
        return []
    return [f"        bm25({field}).k1: {own.k1!r}", f"        bm25({field}).b: {own.b!r}"]


def _yql(origins: Sequence[Origin], fields: dict[str, str], index: str) -> str:
    """All words in any field; only the first operand of ``rank`` decides which documents match."""
    views = list(dict.fromkeys(fields[_view(origin)] for origin in origins if origin.kind == "text"))
    asked = [f'({{defaultIndex:"{view}",grammar:"any"}}userInput(@q))' for view in views]
    where = "userInput(@q)" if not asked else asked[0] if len(asked) == 1 else f"rank({', '.join(asked)})"
    return f"select * from {index} where {where}"
