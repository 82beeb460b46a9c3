"""The targets of an export by name, and the features of a model in those that are search engines.

An engine has to compute the features before its plugin can score: what it needs for that, and where its numbers differ,
is exported beside the model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankwright.errors import InputError
from rankwright.exporting.counterparts import Called, FeatureSet, Origin, identifiers, origin_of
from rankwright.exporting.ensemble import Ensemble
from rankwright.exporting.target import ExportFiles, ExportTarget, Options, Scorer
from rankwright.exporting.to_elasticsearch import ELASTICSEARCH, OPENSEARCH, elasticsearch_set, opensearch_set
from rankwright.exporting.to_lightgbm import LIGHTGBM
from rankwright.exporting.to_onnx import ONNX
from rankwright.exporting.to_python import PYTHON
from rankwright.exporting.to_ranklib import RANKLIB
from rankwright.exporting.to_solr import SOLR, solr_set
from rankwright.exporting.to_sql import SQL
from rankwright.exporting.to_vespa import RANK_FEATURE, VESPA, vespa_set
from rankwright.exporting.to_xgboost import XGBOOST

ENGINES: Mapping[str, Callable[[Sequence[Origin], Called], FeatureSet]] = {
    "opensearch": opensearch_set,
    "elasticsearch": elasticsearch_set,
    "solr": solr_set,
    "vespa": vespa_set,
}
"""The engines whose feature sets can be written, by name."""


_WORDS_ONLY = {"solr": (), "vespa": ("attribute", "bm25", "log", "max", "min", "nativeRank", "query")}
"""Engines whose features need names of letters, digits and underscores, and the words that are taken there."""


def engine_names(engine: str, names: Sequence[str]) -> dict[str, str]:
    """The names of a model's features in an engine.

    Examples
    --------
    >>> engine_names("vespa", ["bm25[porter,title]", "price"])
    {'bm25[porter,title]': 'bm25_porter_title', 'price': 'price'}
    >>> engine_names("opensearch", ["bm25[porter,title]"])
    {'bm25[porter,title]': 'bm25[porter,title]'}
    """
    if engine not in _WORDS_ONLY:
        return {name: name for name in names}
    kept = {name: name for name in names if engine == "vespa" and RANK_FEATURE.fullmatch(name)}
    return kept | identifiers((name for name in names if name not in kept), taken=_WORDS_ONLY[engine])


def engine_features(
    engine: str,
    names: Sequence[str],
    *,
    used: Sequence[int] | None = None,
    model: str = "model",
    feature_set: str = "features",
    index: str = "documents",
) -> FeatureSet:
    """What an engine needs to compute the features of a model.

    `engine` ({"opensearch", "elasticsearch", "solr", "vespa"}): the engine; the files for OpenSearch are also those of
    the Elasticsearch LTR plugin. `names`: the features of the model, such as ``bm25[porter,title]`` or ``price``.
    `used`: which of them to define; by default all. `model`, `feature_set`: the names of the model and of its feature
    set, feature store or rank profile in the engine. `index`: the index, collection or schema with the documents.

    Examples
    --------
    >>> features = engine_features("opensearch", ["bm25[porter,title]", "cosine[plain]", "price"])
    >>> features.summary()
    'features in opensearch: 1 read from fields, 1 approximately the same, 1 without a counterpart'
    >>> sorted(features.files)
    ['featureset-legacy.json', 'featureset.json', 'index.json', 'log.json', 'search.json']
    """
    if engine not in ENGINES:
        raise InputError(f"no feature sets for {engine!r}; expected one of {', '.join(ENGINES)}")
    chosen = list(names) if used is None else [names[at] for at in used]
    called = Called(model, feature_set, index, engine_names(engine, names))
    return ENGINES[engine]([origin_of(name) for name in chosen], called)


def features_of(engine: str, ensemble: Ensemble, options: Options) -> FeatureSet:
    """The features that an ensemble uses, in an engine; all of them where features go by number."""
    used = None if options.form == "ranklib" else ensemble.used.tolist()
    return engine_features(engine, ensemble.names, used=used, model=options.name, feature_set=options.feature_set)


_NAMES, _REPORT = "feature_names.json", "features.txt"
_IN_THE_MODEL = "feature_extractors.json"


def with_features(target: ExportTarget) -> ExportTarget:
    """A target for an engine, with names that the engine allows, and files that define the features there.

    The target's own example request is replaced by one that asks the fields of the features.
    """

    def renamed(ensemble: Ensemble) -> Ensemble:
        called = engine_names(target.name, ensemble.names)
        return dataclasses.replace(ensemble, names=tuple(called[name] for name in ensemble.names))

    def write(ensemble: Ensemble, options: Options) -> ExportFiles:
        written = target.write(renamed(ensemble), options)
        representable = written.representable
        if representable is not None:
            representable = dataclasses.replace(representable, names=ensemble.names)
        features = features_of(target.name, ensemble, options)
        note = f"{features.summary()}; see {_REPORT}"
        return dataclasses.replace(written, notes=(*written.notes, note), representable=representable)

    def read(files: Mapping[str, bytes], names: tuple[str, ...]) -> Scorer:
        called = engine_names(target.name, names)
        return target.read(files, tuple(called[name] for name in names))

    def request(ensemble: Ensemble, options: Options, row: Mapping[str, Any]) -> dict[str, bytes]:
        features = features_of(target.name, ensemble, options)
        files = {name: text for name, text in features.files.items() if name != _IN_THE_MODEL}
        called = engine_names(target.name, ensemble.names)
        changed = {
            name: called[name]
            for name in (counterpart.name for counterpart in features.counterparts)
            if called[name] != name
        }
        if changed:
            files[_NAMES] = json.dumps(changed, indent=1, ensure_ascii=False) + "\n"
        files[_REPORT] = features.report()
        return {name: text.encode() for name, text in files.items()}

    def refusal(ensemble: Ensemble, options: Options) -> str | None:
        return target.refusal(renamed(ensemble), options)

    return dataclasses.replace(target, refusal=refusal, write=write, read=read, request=request)


_ENGINES = tuple(map(with_features, (OPENSEARCH, ELASTICSEARCH, SOLR, VESPA)))
_OTHERS = (LIGHTGBM, XGBOOST, RANKLIB, ONNX, PYTHON, SQL)
TARGETS: dict[str, ExportTarget] = {target.name: target for target in (*_ENGINES, *_OTHERS)}


def find_target(name: str) -> ExportTarget:
    """Return a target by its name.

    Examples
    --------
    >>> find_target("lightgbm").name
    'lightgbm'
    """
    if name not in TARGETS:
        raise InputError(f"no target {name!r}; expected one of: {', '.join(TARGETS)}")
    return TARGETS[name]
