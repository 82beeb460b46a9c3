"""Solr: models for its model store, and the features that they need.

``MultipleAdditiveTreesModel`` computes in float32 and sends x left if ``x <= threshold + 1e-6f``: the slack is taken
off what is written. Tiny thresholds may have no float32 that comes to them with it; such splits are counted and
reported. ``LinearModel`` has no constant: weights with one become a net of one layer.

The feature set is field types and fields for the schema, a feature store, and requests. Words are asked for with the
query parser ``dismax`` over a single field: ``field`` would make a phrase of them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankwright._types import Array
from rankwright.boosting.float32 import SOLR_SLACK, for_at_most, for_slack, number_text
from rankwright.exporting.consumer_rules import ConsumerRule, ConsumerTrees, WrittenSplit, linear_scores, tree_scores
from rankwright.exporting.counterparts import (
    WORDS,
    Called,
    Counterpart,
    FeatureSet,
    Origin,
    Similarity,
    identifiers,
    json_text,
    number_counterpart,
    similarities_of,
)
from rankwright.exporting.ensemble import Ensemble, as_json
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer, refuse_to_engine
from rankwright.exporting.to_xgboost import short
from rankwright.nets.model import NetModel
from rankwright.text.analysis import STOP_WORDS

_MODEL = "model.json"
_CLASSES = "org.apache.solr.ltr.model."
_LINEAR, _TREES, _NET = (f"{_CLASSES}{kind}Model" for kind in ("Linear", "MultipleAdditiveTrees", "NeuralNetwork"))


def _refusal(ensemble: Ensemble, options: Options) -> str | None:
    if ensemble.has_weights and ensemble.trees.n_trees:
        return "it has both linear weights and trees"
    return refuse_to_engine(ensemble, nets=True)


def _write(ensemble: Ensemble, options: Options) -> ExportFiles:
    used = ensemble.used.tolist()
    representable, notes = None, []
    params: dict[str, Any]
    if ensemble.others:
        kind, params = _NET, {"layers": _net_layers(ensemble, used)}
    elif ensemble.is_linear and ensemble.constant:
        kind, params = _NET, {"layers": [_layer([ensemble.weights[used]], [ensemble.constant], "identity")]}
    elif ensemble.is_linear:
        kind, params = _LINEAR, {"weights": {ensemble.names[j]: short(ensemble.weights[j]) for j in used}}
    else:
        written, comes_to = for_slack(ensemble.trees.threshold)
        splits = ensemble.trees.feature >= 0
        inexact = splits & (comes_to != for_at_most(ensemble.trees.threshold))
        kind, params = _TREES, {"trees": _trees(ensemble, written, options)}
        if not options.missing_as_zero:
            params = {"isNullSameAsZero": False, **params}
            notes.append("for Solr versions that know isNullSameAsZero; --missing-as-zero does without")
        if inexact.any():
            threshold = np.where(inexact, comes_to.astype(np.float64), ensemble.trees.threshold)
            representable = dataclasses.replace(
                ensemble, trees=dataclasses.replace(ensemble.trees, threshold=threshold)
            )
            largest = float(np.abs(comes_to[inexact] - ensemble.trees.threshold[inexact]).max())
            moved = f"{inexact.sum():,} of {splits.sum():,} thresholds are moved, by up to {largest:.1e}"
            notes.append(f"{moved}: Solr adds 1e-6 to thresholds, and no number comes to them with it")
    features = [{"name": ensemble.names[j]} for j in used]
    body = {"class": kind, "name": options.name, "store": options.feature_set, "features": features, "params": params}
    return ExportFiles({_MODEL: as_json(body)}, tuple(notes), representable)


def _trees(ensemble: Ensemble, written: Array, options: Options) -> list[dict[str, Any]]:
    """The trees; numbers are text, as Solr's examples write them."""
    trees, made = ensemble.trees, []
    for root in ensemble.trees.roots:
        top: dict[str, Any] = {}
        todo = [(int(root), top)]
        while todo:
            node, here = todo.pop()
            if trees.feature[node] < 0:
                here["value"] = number_text(np.float32(trees.value[node]))
                continue
            below: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
            here |= {
                "feature": ensemble.names[trees.feature[node]],
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


def _net_layers(ensemble: Ensemble, used: list[int]) -> list[dict[str, Any]]:
    (other,) = ensemble.others
    net = other.model
    assert isinstance(net, NetModel)
    place = {int(j): at for at, j in enumerate(other.places)}
    inner = net.inner[:, [place[j] for j in used]]
    outer = other.weight * net.outer
    return [_layer(inner, net.constants, "tanh"), _layer([outer], [ensemble.constant], "identity")]


def _read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
    model = json.loads(files[_MODEL])
    place = {name: j for j, name in enumerate(names)}
    columns, params = [place[feature["name"]] for feature in model["features"]], model["params"]
    if model["class"] == _LINEAR:
        weights = [params["weights"][feature["name"]] for feature in model["features"]]
        return lambda X, _: linear_scores(X, columns, weights)
    if model["class"] == _NET:
        return lambda X, _: _net_scores(X[:, columns], params["layers"])

    def parse(fields: dict[str, Any]) -> float | WrittenSplit:
        if "value" in fields:
            return float(fields["value"])
        feature, missing_left = place[fields["feature"]], fields.get("missing") == "left"
        return WrittenSplit(feature, float(fields["threshold"]), missing_left, fields["left"], fields["right"])

    nodes = ConsumerTrees()
    for tree in params["trees"]:
        nodes.add(tree["root"], parse, float(tree["weight"]))
    rule = ConsumerRule(slack=float(SOLR_SLACK), missing_as_zero=params.get("isNullSameAsZero", True))
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


SOLR = ExportTarget(
    name="solr",
    about="Solr's model store (PUT /schema/model-store): linear models, trees, nets",
    rule="left if x <= threshold + 1e-6, or dot products, in float32; missing values by split, and 0 in dot products",
    refusal=_refusal,
    write=_write,
    read=_read,
)

_STOP_FILE = "rankwright_stopwords.txt"


def solr_set(origins: Sequence[Origin], called: Called) -> FeatureSet:
    """Files for Solr's module ``ltr``."""
    fields = identifiers(_view(origin) if origin.kind == "text" else str(origin.field) for origin in origins)
    counterparts = tuple(_counterpart(origin, fields) for origin in origins)
    store = []
    for counterpart in counterparts:
        kind, params = counterpart.definition
        facts = {"store": called.feature_set, "name": called.features[counterpart.name]}
        store.append({**facts, "class": f"org.apache.solr.ltr.feature.{kind}", "params": params})
    logged = f"id,[features store={_quoted(called.feature_set)} efi.text='QUERY']"
    files = {
        "schema.json": json_text(_schema(origins, fields)),
        "features.json": json_text(store),
        "log.json": json_text({"params": {"q": "id:(DOCUMENT)", "rows": 100, "fl": logged}}),
        "search.json": json_text(_search(origins, fields, called.model)),
    }
    if any(origin.analyzer == "porter+stop" for origin in origins):
        files[_STOP_FILE] = "".join(f"{word}\n" for word in sorted(STOP_WORDS))
    return FeatureSet("solr", counterparts, files)


def _view(origin: Origin) -> str:
    return f"{origin.text_field} {origin.key}"


def _counterpart(origin: Origin, fields: dict[str, str]) -> Counterpart:
    if origin.kind != "text":
        fill = "NaN" if origin.fill is None else repr(origin.fill)
        definition = ("FieldValueFeature", {"field": fields[str(origin.field)], "defaultValue": fill})
        return number_counterpart(origin, "NaN where the document has no such field", definition)
    similarity = _similarity(origin)
    note = similarity.note
    note += "" if origin.field else "; schema.json copies every field ('*') into one: list the text fields instead"
    query = f"{{!dismax qf={fields[_view(origin)]} mm=0}}${{text}}"
    return Counterpart(origin.name, similarity.status, note, ("SolrFeature", {"q": query}))


def _similarity(origin: Origin) -> Similarity:
    return similarities_of(origin).solr(origin).analyzed(origin.analyzer, "in the field type")


def _schema(origins: Sequence[Origin], fields: dict[str, str]) -> dict[str, Any]:
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
            "similarity": _similarity(origin).settings,
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


def _search(origins: Sequence[Origin], fields: dict[str, str], model: str) -> dict[str, Any]:
    """A search whose first hundred results are reranked."""
    views = [fields[_view(origin)] for origin in origins if origin.kind == "text"]
    first = {"defType": "dismax", "mm": "0", "qf": " ".join(dict.fromkeys(views))} if views else {}
    ranker = f"{{!ltr model={_quoted(model)} reRankDocs=100 efi.text='QUERY'}}"
    return {"params": {"q": "QUERY", **first, "rq": ranker, "fl": "id,score,[features]"}}


def _quoted(value: str) -> str:
    if re.fullmatch(r"\w+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
