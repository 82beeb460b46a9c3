"""Vespa: weights as a rank expression, trees as a LightGBM JSON model, their sum as both; and the features they need.

Features and sums are float64. Vespa reads the splits of a LightGBM model as ``x < threshold``, or ``!(x >= threshold)``
where missing values go left: what is written is the next number after each threshold. Names must be those of rank
features or functions.

The feature set is fields for the schema, a rank profile with a function per feature, and requests; see
:mod:`rankwright.exporting.counterparts` for what stands for a retrieval function.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import for_below
from rankwright.data.categories import named
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, linear_scores, tree_scores
from rankwright.exporting.counterparts import (
    Called,
    Counterpart,
    FeatureSet,
    Origin,
    RankFeature,
    identifiers,
    json_text,
    number_counterpart,
    one_line,
    similarities_of,
)
from rankwright.exporting.ensemble import Ensemble, as_json
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_others, repeated_names
from rankwright.text.analysis import BUILT_IN

_NAME = re.compile(r"[A-Za-z_][\w.]*(\([\w.,\"' -]*\)(\.[\w.]+)?)?")
_PROFILE = "rank-profile.txt"
_TERM = re.compile(r"\(?(-?[\d.e+-]+)\)? \* (.+)")


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    odd = [ensemble.names[j] for j in ensemble.used if not _NAME.fullmatch(ensemble.names[j])]
    if odd:
        return f"{named(odd)} is not the name of a rank feature or function of Vespa; expected one such as bm25(title)"
    return refuse_others(ensemble) or repeated_names(ensemble)


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    files, terms = {}, [f"{_number(ensemble.weights[j])} * {ensemble.names[j]}" for j in ensemble.linear_features]
    if ensemble.constant or not (terms or ensemble.trees.n_trees):
        terms.append(_number(ensemble.constant))
    if ensemble.trees.n_trees:
        model = f"{re.sub(r'[^A-Za-z0-9_-]', '_', options.name)}.json"
        files[model] = as_json(_lightgbm(ensemble))
        terms.append(f'lightgbm("{model}")')
    profile, features = (re.sub(r"\W", "_", name) for name in (options.name, options.feature_set))
    lines = " +\n                ".join(terms)
    text = f"""rank-profile {profile} inherits {features} {{
    second-phase {{
        rerank-count: 100
        expression {{
                {lines}
        }}
    }}
}}
"""
    notes = ("a missing feature is 0 in Vespa unless its rank feature says otherwise: most default to 0",)
    return ExportFiles({_PROFILE: text.encode(), **files}, notes if ensemble.trees.n_trees else ())


def _number(value: float) -> str:
    return f"({float(value)!r})" if value < 0 else repr(float(value))


def _lightgbm(ensemble: Ensemble) -> dict[str, Any]:
    """A model as LightGBM's ``dump_model`` writes it, over the used features."""
    used = ensemble.tree_features.tolist()
    place = {j: at for at, j in enumerate(used)}
    trees, limits = [], for_below(ensemble.trees.threshold, np.float64)
    for at, root in enumerate(ensemble.trees.roots):
        structure, n_leaves = _structure(ensemble, int(root), place, limits)
        facts = {"tree_index": at, "num_leaves": n_leaves, "num_cat": 0, "shrinkage": 1}
        trees.append({**facts, "tree_structure": structure})
    return {
        "name": "tree", "version": "v4", "num_class": 1, "num_tree_per_iteration": 1, "label_index": 0,
        "max_feature_idx": len(used) - 1, "objective": "lambdarank", "average_output": False,
        "feature_names": [ensemble.names[j] for j in used], "tree_info": trees, "pandas_categorical": [],
    }  # fmt: skip


def _structure(ensemble: Ensemble, root: int, place: Mapping[int, int], limits: Array) -> tuple[dict[str, Any], int]:
    trees = ensemble.trees
    top: dict[str, Any] = {}
    todo, n_splits, n_leaves = [(root, top)], 0, 0
    while todo:
        node, fields = todo.pop()
        if trees.feature[node] < 0:
            fields |= {"leaf_index": n_leaves, "leaf_value": float(trees.value[node])}
            n_leaves += 1
            continue
        below: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        fields |= {
            "split_index": n_splits,
            "split_feature": place[int(trees.feature[node])],
            "threshold": float(limits[node]),
            "decision_type": "<=",  # the only one that LightGBM has; Vespa takes it as <
            "default_left": bool(trees.missing_left[node]),
            "missing_type": "NaN",
            "left_child": below[0],
            "right_child": below[1],
        }
        n_splits += 1
        left = int(trees.left[node])
        todo += [(left + 1, below[1]), (left, below[0])]
    return top, n_leaves


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    expression = files[_PROFILE].decode().partition("expression {")[2].partition("}")[0]
    place = {name: j for j, name in enumerate(names)}
    columns: list[int] = []
    weights: list[float] = []
    constant, nodes = 0.0, ConsumerTrees()
    for term in (part.strip() for part in expression.split("+\n")):
        weighted = _TERM.fullmatch(term)
        if weighted is not None:
            columns.append(place[weighted[2]])
            weights.append(float(weighted[1]))
        elif term.startswith("lightgbm("):
            model = json.loads(files[json.loads(term[len("lightgbm(") : -1])])
            trees = [tree["tree_structure"] for tree in model["tree_info"]]
            nodes = ConsumerTrees.read(trees, partial(_parse, [place[name] for name in model["feature_names"]]))
        else:
            constant += float(term.strip("()"))
    rule = ConsumerRule(strict=True, dtype=np.float64)
    return lambda X, _: linear_scores(X, columns, weights, np.float64, constant) + tree_scores(nodes, X, rule)


def _parse(columns: list[int], fields: dict[str, Any]) -> float | WrittenSplit:
    if "leaf_value" in fields:
        return float(fields["leaf_value"])
    feature, missing_left = columns[fields["split_feature"]], fields["default_left"]
    return WrittenSplit(feature, fields["threshold"], missing_left, fields["left_child"], fields["right_child"])


VESPA = ExportTarget(
    name="vespa",
    about="Vespa: a rank profile with weights as an expression, and trees as LightGBM JSON for models/",
    rule="left if x < threshold, and sums, in float64; missing values by split",
    refusal=_refusal,
    write=_write,
    read=_read,
    dtype=np.float64,
)

RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([^()\[\]=\n]*\)(\.\w+)*")
"""The name of one of Vespa's own rank features, such as ``fieldMatch(title).completeness``."""

_WHOLE = "all_text"


def vespa_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """A part of the schema with a rank profile that computes the features, and requests for the query API."""
    fields = _fields(origins)
    counterparts = tuple(_counterpart(origin, fields) for origin in origins)
    profiles = [re.sub(r"\W", "_", name) for name in (called.feature_set, called.model)]
    files = {"schema.sd": _schema(origins, counterparts, fields, dataclasses.replace(called, feature_set=profiles[0]))}
    for file, profile in zip(("log.json", "search.json"), profiles, strict=True):
        request = {"yql": _yql(origins, fields, called.index), "q": "QUERY", "ranking": profile, "hits": 100}
        files[file] = json_text(request)
    return FeatureSet("vespa", counterparts, files)


def _view(origin: Origin) -> str:
    return f"{origin.field or _WHOLE} {origin.analyzer} {_rank_feature(origin).variant}".strip()


def _rank_feature(origin: Origin) -> RankFeature:
    return similarities_of(origin).vespa(origin)


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
        return number_counterpart(origin, "an attribute; NaN where the document has none", expression)
    field, rank_feature = fields[_view(origin)], _rank_feature(origin)
    if origin.analyzer not in BUILT_IN:
        note = f"the analyser {origin.analyzer!r} is your own: make its words when documents are fed"
        return Counterpart(origin.name, "none", note, f"bm25({field})")
    expression = rank_feature.expression.format(field=field)
    return Counterpart(origin.name, rank_feature.status, rank_feature.note, expression)


def _schema(
    origins: Sequence[Origin], counterparts: Sequence[Counterpart], fields: dict[str, str], called: Called
) -> str:
    values = [feature for feature in origins if feature.kind == "value" and not RANK_FEATURE.fullmatch(feature.name)]
    attributes = dict.fromkeys(fields[str(feature.field)] for feature in values)
    lines = ["# In the document block", ""] if attributes else []
    for name in attributes:
        lines += [f"field {name} type double {{", "    indexing: attribute | summary", "}", ""]
    lines += ["# Outside of the document block", ""]
    views = {_view(origin): origin for origin in origins if origin.kind == "text"}
    for view, origin in views.items():
        lines += [*_field(origin, fields, fields[view], origins), ""]
    lines += [f"rank-profile {called.feature_set} {{"]
    properties = [
        f"        bm25({fields[view]}).{name}: {value!r}"
        for view, origin in views.items()
        for name, value in _rank_feature(origin).settings.items()
    ]
    if properties:
        lines += ["    rank-properties {", *properties, "    }"]
    if views:
        lines += ["    first-phase {", f"        expression: nativeRank({fields[next(iter(views))]})", "    }"]
    for feature in counterparts:
        if not RANK_FEATURE.fullmatch(feature.name):
            lines += [f"    # {one_line(feature.name)}: {feature.status}"]
            lines += [f"    function {called.features[feature.name]}() {{"]
            lines += [f"        expression: {feature.definition}", "    }"]
    match_features = [f"        {called.features[feature.name]}" for feature in counterparts]
    return "\n".join([*lines, "    match-features {", *match_features, "    }", "}", ""])


def _field(origin: Origin, fields: dict[str, str], name: str, origins: Sequence[Origin]) -> list[str]:
    sources = [fields[origin.field]] if origin.field else _sources(origins, fields)
    read = f"input {sources[0]}"
    if len(sources) > 1:
        read = ' . " " . '.join(f'(input {source} || "")' for source in sources)
    stemming = "none" if origin.analyzer == "plain" else "best"
    rules = [f"    indexing: {read} | index", "    index: enable-bm25", f"    stemming: {stemming}"]
    return [f"field {name} type string {{", *rules, "    normalizing: none", "}"]


def _sources(origins: Sequence[Origin], fields: dict[str, str]) -> list[str]:
    """The text fields of a whole document: those that features name, else one that the reader must replace."""
    named = [fields[origin.field] for origin in origins if origin.kind == "text" and origin.field]
    return list(dict.fromkeys(named)) or ["TEXT_FIELD"]


def _yql(origins: Sequence[Origin], fields: dict[str, str], index: str) -> str:
    """All words in any field; only the first operand of ``rank`` decides which documents match."""
    views = list(dict.fromkeys(fields[_view(origin)] for origin in origins if origin.kind == "text"))
    asked = [f'({{defaultIndex:"{view}",grammar:"any"}}userInput(@q))' for view in views]
    where = "userInput(@q)" if not asked else asked[0] if len(asked) == 1 else f"rank({', '.join(asked)})"
    return f"select * from {index} where {where}"
